// Cylinders that stand on a plane and on flat faces, tilted from nothing through rounding to what can be seen: their points lie
// on the rim, are as deep as contacts say, and are those that a plane has; nothing jumps with the tilt.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/io.h>
#include <pullback/spec.h>

#include "geometry/pair.h"
#include "geometry/polytope.h"
#include "geometry/search.h"
#include "math/vec.h"
#include "model/model.h"
#include "model/terrain.h"
#include "model/topology.h"

enum { PARTNERS = 6, TILTS = 25, AZIMUTHS = 7, FRAMES = 3 };
#define RADIUS  0.1
#define HALF    0.07
#define DEPTH   1e-4
#define EXACT   1e-12  // m: points of shapes of about .1 m
#define ROUNDED 1e-15  // rad: of the axes that a tilt is between
typedef enum partner { on_plane, on_box, on_cylinder, on_cube, on_prism, on_field } partner;
static const char *const names[PARTNERS] = {"plane", "box", "cylinder", "cube", "prism", "field"};

// By magnitude, and closely where directions count as parallel.
static const double tilts[TILTS] = {0,     1e-16, 5e-16, 1e-15,   2e-15,   1e-14,   1e-13,   1e-12,   1e-11,
                                    3e-11, 6e-11, 9e-11, 1.1e-10, 1.3e-10, 1.6e-10, 1.9e-10, 2.1e-10, 5e-10,
                                    1e-9,  1e-8,  1e-7,  9e-7,    1.1e-6,  3e-6,    1e-5};

// ---- scenes ----------------------------------------------------------------------------------------------------------------
// A cube and a hexagonal prism whose caps are wide.
static pbModel *make_model(pbContext *ctx) {
  static char text[4000];
  int length = sprintf(text, "<mujoco><asset><mesh name=\"cube\" vertex=\"");
  for (int k = 0; k < 8; k++)
    length += sprintf(text + length, "%g %g %g ", k & 1 ? 0.25 : -0.25, k & 2 ? 0.25 : -0.25, k & 4 ? 0.125 : -0.125);
  length += sprintf(text + length, "\"/><mesh name=\"prism\" vertex=\"");
  for (int k = 0; k < 12; k++)
    length += sprintf(text + length, "%.9g %.9g %g ", 0.5 * cos(k % 6 * 1.0471975511965976),
                      0.5 * sin(k % 6 * 1.0471975511965976), k < 6 ? -0.125 : 0.125);
  length += sprintf(text + length,
                    "\"/></asset><worldbody><body><freejoint/><geom type=\"mesh\" mesh=\"cube\"/></body><body><freejoint/>"
                    "<geom type=\"mesh\" mesh=\"prism\"/></body></worldbody></mujoco>");
  assert_true((size_t)length < sizeof text);

  pbSpec *spec;
  pbModel *model;
  if (pbSpec_ParseMjcf(ctx, text, (size_t)length, "standing.xml", &spec)) fail_msg("%s", pbContext_Error(ctx));
  if (pbSpec_Compile(spec, &model)) fail_msg("%s", pbContext_Error(ctx));
  pbSpec_Destroy(spec);
  return model;
}

// Twice the area of a hull's polygon.
static double area_of(const pbMeshHull *h, int polygon) {
  const int *around = h->around + h->first[polygon];
  int sides = h->first[polygon + 1] - h->first[polygon];
  double sum[3] = {0, 0, 0};
  for (int k = 2; k < sides; k++) {
    double a[3], b[3], c[3];
    v3_sub(a, h->corner + 3 * around[k - 1], h->corner + 3 * around[0]);
    v3_sub(b, h->corner + 3 * around[k], h->corner + 3 * around[0]);
    v3_cross(c, a, b);
    v3_addto(sum, c);
  }
  return v3_norm(sum);
}

// Turns the hull so that its largest face looks along z of the frame, at the height 0.
static void place_hull(const pbMeshHull *h, const double frame[9], pbShape_r *s) {
  int best = 0;
  for (int f = 1; f < h->polygons; f++) best = area_of(h, f) > area_of(h, best) ? f : best;

  double up[9], *x = up, *y = up + 3, *z = up + 6, center[3] = {0, 0, 0}, turned[3];
  int sides = h->first[best + 1] - h->first[best];
  const int *around = h->around + h->first[best];
  v3_copy(z, h->normal + 3 * best);
  v3_sub(x, h->corner + 3 * around[1], h->corner + 3 * around[0]);
  v3_normalize(x);
  v3_cross(y, z, x);
  m3_mul(s->mat, frame, up);

  for (int k = 0; k < sides; k++) v3_addscl(center, h->corner + 3 * around[k], 1.0 / sides);
  m3_mulv(turned, s->mat, center);
  v3_neg(s->pos, turned);
}

// Its upper face at the height 0 of the frame, its middle beside the origin.
static pbShape_r make_ground(const pbModel *m, partner which, const pbPrism *field, const double frame[9]) {
  static const int types[PARTNERS] = {pb_geomPlane, pb_geomBox, pb_geomCylinder, pb_geomMesh, pb_geomMesh, pb_geomHfield};
  pbShape_r s = {.type = types[which], .nudged = -1};
  double drop[3] = {0, 0, -0.125}, size[3] = {0.25, 0.25, 0.125}, disc[3] = {0.3, 0.125, 0};
  m3_copy(s.mat, frame);
  if (which == on_box) v3_copy(s.size, size);
  if (which == on_cylinder) v3_copy(s.size, disc);
  if (which == on_box || which == on_cylinder) m3_mulv(s.pos, frame, drop);
  if (which == on_field) s.hull = &field->hull;
  if (s.type == pb_geomMesh) place_hull(s.hull = &m->topology->hull[which == on_prism], frame, &s);
  return s;
}

// Tilted about a direction in the face, turned about its own axis, its lower cap's middle at DEPTH below the face.
static pbShape_r make_cylinder(const double frame[9], double tilt, double azimuth, double yaw, bool flipped) {
  pbShape_r s = {.type = pb_geomCylinder, .nudged = -1, .size = {RADIUS, HALF, 0}};
  double c = cos(azimuth), d = sin(azimuth), a = cos(tilt), b = sin(tilt), f = flipped ? -1 : 1;
  double lean[9] = {a * c * c + d * d, (a - 1) * c * d, b * c, (a - 1) * c * d, a * d * d + c * c, b * d, -b * c, -b * d, a};
  double turn[9] = {cos(yaw), -f * sin(yaw), 0, sin(yaw), f * cos(yaw), 0, 0, 0, f}, local[9], place[3];
  m3_mul(local, lean, turn);
  m3_mul(s.mat, frame, local);
  v3_set(place, 0.02 + HALF * b * c, -0.013 + HALF * b * d, HALF * a - DEPTH);
  m3_mulv(s.pos, frame, place);
  return s;
}

// ---- what holds ------------------------------------------------------------------------------------------------------------
typedef struct touch {
  int count;
  bool first;  // the cylinder is shape 1
  pbShape_r ground, cylinder;
  pbContactPoint_r c[PB_MAX_CONTACT_POINTS];
  pbContactJacobian j[PB_MAX_CONTACT_POINTS];
} touch;

static void meet(const pbShape_r *ground, const pbShape_r *cylinder, touch *t) {
  t->first = ground->type > pb_geomCylinder && ground->type != pb_geomHfield;
  t->ground = *ground;
  t->cylinder = *cylinder;
  const pbShape_r *s1 = t->first ? cylinder : ground, *s2 = t->first ? ground : cylinder;
  memset(t->c, 0xff, sizeof t->c);
  t->count = pbPair_Collide_r(s1, s2, 0.001, t->c);
  pbPair_Jacobian_r(s1, s2, 0.001, NULL, t->count, t->c, t->j);
}

// A contact as the face's frame sees it: normal from the face, the cylinder's point.
static void look(const touch *t, const double frame[9], int k, double normal[3], double pos[3], double point[3]) {
  double n[3];
  m3_tmulv(n, frame, t->c[k].normal);
  v3_scale(normal, n, t->first ? -1 : 1);
  m3_tmulv(pos, frame, t->c[k].pos);
  v3_along(point, pos, normal, 0.5 * t->c[k].dist);
}

static void within(double value, double bound, const char *what, const char *where, double tilt, double azimuth) {
  if (!(fabs(value) <= bound))
    fail_msg("%s on a %s: %.3g beyond %.3g, tilt %.3g at %.3g", what, where, value, bound, tilt, azimuth);
}

// On fields, whose prisms share a disc, six that turn with it; else the lowest and two more.
static int points_on(partner which) { return which == on_field ? 6 : 3; }

// The cylinder's points lie on its lower rim and are as deep as the contact says; the first is the lowest of all.
static void check_points(const touch *t, partner which, const double frame[9], double tilt, double azimuth) {
  const char *where = names[which];
  double up[3], axis[3], least = DEPTH;
  m3_col(up, t->cylinder.mat, 2);
  m3_tmulv(axis, frame, up);
  double sine = hypot(axis[0], axis[1]);
  if (t->count != points_on(which)) fail_msg("%d contacts on a %s, tilt %.3g at %.3g", t->count, where, tilt, azimuth);

  for (int k = 0; k < t->count; k++) {
    double n[3], pos[3], x[3], d[3], local[3];
    look(t, frame, k, n, pos, x);
    within(n[0], 4e-15, "normal x", where, tilt, azimuth);
    within(n[1], 4e-15, "normal y", where, tilt, azimuth);
    within(x[2] - t->c[k].dist, EXACT, "depth of its point", where, tilt, azimuth);
    within(pos[2] - 0.5 * t->c[k].dist, EXACT, "height of the middle", where, tilt, azimuth);

    // In the cylinder's frame: on the cap, on the rim.
    m3_mulv(d, frame, x);
    v3_subfrom(d, t->cylinder.pos);
    m3_tmulv(local, t->cylinder.mat, d);
    within(fabs(local[2]) - HALF, EXACT, "cap", where, tilt, azimuth);
    within(hypot(local[0], local[1]) - RADIUS, EXACT, "rim", where, tilt, azimuth);
    least = fmin(least, t->c[k].dist);
  }
  if (which != on_field) within(least + DEPTH + RADIUS * sine, EXACT, "deepest", where, tilt, azimuth);
  within(t->c[0].dist - least, EXACT, "the first", where, tilt, azimuth);
}

// Evenly spread around the rim, the first down the slope as far as it has a direction: all that can hang on a tilt that is
// rounding is where on the rim the first is.
static void check_spread(const touch *t, partner which, const double frame[9], double tilt, double azimuth) {
  const char *where = names[which];
  double sum[3] = {0, 0, 0}, square[3] = {0, 0, 0}, n[3], pos[3], x[3];
  for (int k = 0; k < t->count; k++) {
    look(t, frame, k, n, pos, x);
    double dx = x[0] - 0.02, dy = x[1] + 0.013;
    double part[3] = {dx, dy, 0}, product[3] = {dx * dx, dy * dy, dx * dy};
    v3_addto(sum, part);
    v3_addto(square, product);

    // Down the slope it is at the azimuth, the others at 120 degrees.
    double across = dx * sin(azimuth) - dy * cos(azimuth);
    if (k == 0 && tilt > 1e-13 && which != on_field)
      within(across, RADIUS * 8 * ROUNDED / tilt + EXACT, "down the slope", where, tilt, azimuth);
  }
  double bend = 2 * RADIUS * tilt * tilt + EXACT, spread = 0.5 * t->count * RADIUS * RADIUS;
  within(sum[0], bend, "middle x", where, tilt, azimuth);
  within(sum[1], bend, "middle y", where, tilt, azimuth);
  within(square[0] - spread, bend, "spread x", where, tilt, azimuth);
  within(square[1] - spread, bend, "spread y", where, tilt, azimuth);
  within(square[2], bend, "spread xy", where, tilt, azimuth);
}

// The points' mean rises with moves and turns of shape 2 as if it were part of it, however little or much the cylinder is tilted.
static void check_rates(const touch *t, partner which, const double frame[9], double tilt, double azimuth) {
  double middle[3] = {0, 0, 0}, rate[6] = {0}, lever[3], up[3], turn[3], sign = t->first ? -1 : 1;
  m3_col(up, frame, 2);
  for (int k = 0; k < t->count; k++) {
    for (int c = 0; c < 6; c++) rate[c] += t->j[k].d[0][c] / t->count;
    v3_addscl(middle, t->c[k].pos, 1.0 / t->count);
  }

  // Columns: turns about the center of shape 2, moves.
  v3_sub(lever, middle, t->first ? t->ground.pos : t->cylinder.pos);
  v3_cross(turn, lever, up);
  for (int i = 0; i < 3; i++) {
    within(rate[i] - sign * turn[i], 3 * tilt + EXACT, "rate by turns", names[which], tilt, azimuth);
    within(rate[3 + i] - sign * up[i], 3 * tilt + EXACT, "rate by moves", names[which], tilt, azimuth);
  }
}

// Every partner in frames along the world's axes and turned, the cylinder either way up.
typedef void (*check)(const touch *t, partner which, const double frame[9], double tilt, double azimuth);
static void sweep(check holds) {
  static const double quat[FRAMES][4] = {{1, 0, 0, 0}, {0.6, -0.3, 0.5, 0.2}, {0.5, 0.5, -0.5, 0.5}};
  double height[4] = {0, 0, 0, 0}, size[4] = {1, 1, 1, 0.2}, beside[3] = {0.3, -0.3, 0}, frame[9], q[4];
  pbTerrain terrain = {.rows = 2, .columns = 2, .size = size, .height = height, .highest = 1};
  pbPrism field;
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *m = make_model(ctx);
  pbTerrain_Prism(&terrain, 0, &field);

  for (int n = 0; n < PARTNERS * FRAMES; n++) {
    for (int i = 0; i < 4; i++) q[i] = quat[n / PARTNERS][i];
    quat_normalize(q);
    quat_to_mat(frame, q);
    pbShape_r ground = make_ground(m, n % PARTNERS, &field, frame);
    if (n % PARTNERS == on_field) m3_mulv(ground.pos, frame, beside);

    for (int k = 0; k < TILTS * AZIMUTHS; k++) {
      double tilt = tilts[k / AZIMUTHS], azimuth = 0.3 + 0.9 * (k % AZIMUTHS);
      pbShape_r cylinder = make_cylinder(frame, tilt, azimuth, 0.4, k % 2);
      touch t;
      meet(&ground, &cylinder, &t);
      holds(&t, n % PARTNERS, frame, tilt, azimuth);
    }
  }
  pbModel_Destroy(m);
  pbContext_Destroy(ctx);
}

static void test_points(void **unused) {
  (void)unused;
  sweep(check_points);
}

static void test_spread(void **unused) {
  (void)unused;
  sweep(check_spread);
}

static void test_rates(void **unused) {
  (void)unused;
  sweep(check_rates);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_points), cmocka_unit_test(test_spread), cmocka_unit_test(test_rates)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
