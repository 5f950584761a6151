// Paths around spheres and cylinders: which way they go, their length with its gradient and Hessian.
// Tests: tests/conformance/test_step.c, tests/oracle/test_muscles.py.
#include "geometry/wrap.h"

#include <pullback/enums.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "math/vec.h"

#define TINY  1e-15  // MuJoCo's mjMINVAL
#define GRAZE 1e-9   // least length of a straight end, by the radius
#define LEVEL 1e-12  // least sine of the angle between the ends of a sphere's plane

// ---- which way --------------------------------------------------------------------------------------------------------
// Real parts of both ends as seen from the center, and of the side point; of a cylinder across its axis, in its own frame.
typedef struct view {
  double p[2][3], side[3], normal[3];
  bool has_side, inside;
} view;

static void real_of(double r[3], const num x[3]) {
  for (int k = 0; k < 3; k++) r[k] = re(x[k]);
}

static double dot(const double a[3], const double b[3]) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

static void cross(double r[3], const double a[3], const double b[3]) {
  r[0] = a[1] * b[2] - a[2] * b[1];
  r[1] = a[2] * b[0] - a[0] * b[2];
  r[2] = a[0] * b[1] - a[1] * b[0];
}

static void flatten(double p[3], const double x[3], const double mat[9]) {
  double a = x[0] * mat[0] + x[1] * mat[3] + x[2] * mat[6];
  p[1] = x[0] * mat[1] + x[1] * mat[4] + x[2] * mat[7];
  p[0] = a;
  p[2] = 0;
}

// Normal of the plane of both ends and a sphere's center; where all are on a line MuJoCo's choice in the sphere's frame.
static void plane_normal(const NUM(pbObstacle) *o, view *v) {
  cross(v->normal, v->p[0], v->p[1]);
  if (dot(v->normal, v->normal) >= TINY * TINY) return;

  // Perpendicular to the line and to the axes that it is least along.
  double mat[9], local[3], other[3] = {1, 1, 1}, n[3];
  for (int k = 0; k < 9; k++) mat[k] = re(o->mat[k]);
  for (int k = 0; k < 3; k++) local[k] = v->p[0][0] * mat[k] + v->p[0][1] * mat[3 + k] + v->p[0][2] * mat[6 + k];
  int most = fabs(local[1]) > fabs(local[0]) && fabs(local[1]) > fabs(local[2]) ? 1 : 0;
  if (fabs(local[2]) > fabs(local[0]) && fabs(local[2]) > fabs(local[1])) most = 2;
  other[most] = 0;
  cross(n, local, other);
  for (int k = 0; k < 3; k++) v->normal[k] = mat[3 * k] * n[0] + mat[3 * k + 1] * n[1] + mat[3 * k + 2] * n[2];
}

static void look(const NUM(pbObstacle) *o, const num y[2][3], view *v) {
  double mat[9];
  for (int e = 0; e < 2; e++) real_of(v->p[e], y[e]);
  v->has_side = o->side != NULL;
  if (v->has_side) {
    for (int k = 0; k < 3; k++) v->side[k] = re(o->side[k]) - re(o->pos[k]);
    v->inside = dot(v->side, v->side) < re(o->radius) * re(o->radius);
  }

  if (o->type == pb_wrapSphere) return;

  // Across the axis; a side point on the axis counts as on x, as in MuJoCo.
  for (int k = 0; k < 9; k++) mat[k] = re(o->mat[k]);
  for (int e = 0; e < 2; e++) flatten(v->p[e], v->p[e], mat);
  v->normal[2] = 1;
  if (!v->has_side) return;

  flatten(v->side, v->side, mat);
  if (dot(v->side, v->side) < TINY * TINY) v->side[0] = 1;
  PB_ASSERT(v->p[0][2] == 0 && v->p[1][2] == 0);
}

// Does the straight line between the ends meet the circle? false too where they are one point.
static bool line_meets(const view *v, double radius, bool *apart) {
  double d[3], at[3];
  for (int k = 0; k < 3; k++) d[k] = v->p[1][k] - v->p[0][k];

  double dd = dot(d, d);
  *apart = dd >= TINY;
  if (!*apart) return false;

  // The point of the line that is nearest to the center.
  double a = -dot(d, v->p[0]) / dd;
  a = a < 0 ? 0 : a;
  a = a > 1 ? 1 : a;
  for (int k = 0; k < 3; k++) at[k] = v->p[0][k] + a * d[k];
  return dot(at, at) <= radius * radius;
}

// z of the product of two vectors in the plane, by the normal, whatever its length.
static double turn_of(const view *v, const double a[3], const double b[3]) {
  double c[3];
  cross(c, a, b);
  return dot(c, v->normal);
}

// +1 or -1: the sense of the path point, side point, point about the center; without a side point of the shorter way.
// *far: it goes around by more than half a turn, so that the straight line goes another way.
static double sense(const view *v, bool *far) {
  double whole = turn_of(v, v->p[0], v->p[1]), turn = whole < 0 ? -1 : 1;
  *far = false;
  if (!v->has_side) return turn;

  // Angles of the ends from the side point, of either sign: theirs tell the sense where they differ.
  double first = turn_of(v, v->side, v->p[0]), last = turn_of(v, v->side, v->p[1]);
  if (first < 0 && last >= 0) turn = 1;
  if (first > 0 && last <= 0) turn = -1;
  *far = turn * whole < 0;
  return turn;
}

enum { way_straight, way_around, way_touching };

static int choose(const NUM(pbObstacle) *o, view *v, double *turn) {
  double radius = re(o->radius), r2 = radius * radius;
  if (radius < TINY || dot(v->p[0], v->p[0]) < r2 || dot(v->p[1], v->p[1]) < r2) return way_straight;

  bool apart, far = false, meets = line_meets(v, radius, &apart);
  if (v->has_side && v->inside) {
    // Already touching, or from opposite sides through the center.
    if (meets || dot(v->p[0], v->p[0]) == r2 || dot(v->p[1], v->p[1]) == r2) return way_straight;
    if (o->type == pb_wrapSphere) plane_normal(o, v);
    return way_touching;
  }

  if (!apart || (!meets && !v->has_side)) return way_straight;
  if (o->type == pb_wrapSphere) plane_normal(o, v);
  *turn = sense(v, &far);
  return meets || far ? way_around : way_straight;
}

// ---- in the plane -----------------------------------------------------------------------------------------------------
static num dot2(const num a[2], const num b[2]) { return a[0] * b[0] + a[1] * b[1]; }

// Along the two tangents and the arc between: |p0 t0| + r arc + |t1 p1|.
static void go_around(NUM(pbWrapPath) *w) {
  PB_ASSERT(w->turn == 1 || w->turn == -1);
  num r = w->radius, angle = num_atan2(w->p[0][0] * w->p[1][1] - w->p[0][1] * w->p[1][0], dot2(w->p[0], w->p[1]));
  if (re(angle) * w->turn < 0) angle += 2 * PB_PI * w->turn;
  w->arc = angle * w->turn;

  for (int e = 0; e < 2; e++) {
    // From each end towards the other, the tangent point is acos(r / l) further about the center.
    double sign = e ? -w->turn : w->turn;
    const num *p = w->p[e];
    num l2 = dot2(p, p), l = num_sqrt(l2), s = num_sqrt((l - r) * (l + r));
    w->straight[e] = s;
    w->arc -= num_atan2(s, r);
    w->n[e][0] = (r * p[0] - sign * s * p[1]) / l2;
    w->n[e][1] = (r * p[1] + sign * s * p[0]) / l2;

    // The tangent at it, away from the arc.
    w->g[e][0] = sign * w->n[e][1];
    w->g[e][1] = -sign * w->n[e][0];
  }

  w->flat = w->straight[0] + r * w->arc + w->straight[1];
  w->by_radius = w->arc;
}

// Slope of |p0 t| + |t p1| by the angle of t on the circle, and the slope's own.
static num touch_slope(const num p[2][2], num r, num angle, num *curvature) {
  num n[2] = {num_cos(angle), num_sin(angle)}, slope = 0;
  *curvature = 0;
  for (int e = 0; e < 2; e++) {
    num u[2] = {p[e][0] - r * n[0], p[e][1] - r * n[1]}, s = num_sqrt(dot2(u, u));
    num across = (u[1] * n[0] - u[0] * n[1]) / s, out = dot2(u, n) / s;
    slope -= r * across;
    *curvature += r * out + r * r * out * out / s;
  }

  return slope;
}

// Its zero between both ends by real parts: Newton's method, halving where that leaves what the signs of slopes enclose.
static double touching_angle(const NUM(pbWrapPath) *w) {
  num p[2][2], r = re(w->radius), curvature;
  for (int e = 0; e < 2; e++) {
    for (int k = 0; k < 2; k++) p[e][k] = re(w->p[e][k]);
  }

  double start = pbAtan2(re(p[0][1]), re(p[0][0]));
  double whole = pbAtan2(re(p[0][0] * p[1][1] - p[0][1] * p[1][0]), re(dot2(p[0], p[1])));
  double low = start, high = start + whole, at = 0.5 * (low + high);

  for (int i = 0; i < 100; i++) {
    double slope = re(touch_slope(p, r, at, &curvature));
    if ((slope < 0) == (whole > 0)) low = at;
    else high = at;
    double next = at - slope / re(curvature);
    if (!(next >= fmin(low, high) && next <= fmax(low, high))) next = 0.5 * (low + high);

    bool done = fabs(next - at) <= 1e-12;
    at = next;
    if (done) break;
  }

  return at;
}

// Over the point of the circle where |p0 t| + |t p1| is least: there both lines make the same angle with the radius.
static void touch(NUM(pbWrapPath) *w) {
  double at = touching_angle(w);
  num curvature, slope = touch_slope(w->p, w->radius, at, &curvature);
  num angle = at - slope / curvature, n[2] = {num_cos(angle), num_sin(angle)};

  w->flat = 0;
  w->by_radius = 0;
  for (int e = 0; e < 2; e++) {
    num u[2] = {w->p[e][0] - w->radius * n[0], w->p[e][1] - w->radius * n[1]};
    w->straight[e] = num_sqrt(dot2(u, u));
    w->flat += w->straight[e];
    for (int k = 0; k < 2; k++) {
      w->n[e][k] = n[k];
      w->g[e][k] = u[k] / w->straight[e];
    }

    w->by_radius -= dot2(w->g[e], n);
  }
}

// ---- in space ---------------------------------------------------------------------------------------------------------
// Two axes of the plane and its normal; of a sphere the first points to x0.
static void set_plane(const NUM(pbObstacle) *o, const num y[2][3], const view *v, NUM(pbWrapPath) *w) {
  if (w->cylinder) {
    for (int k = 0; k < 9; k++) w->axis[k / 3][k % 3] = o->mat[3 * (k % 3) + k / 3];
  } else {
    v3_copy(w->axis[0], y[0]);
    v3_normalize(w->axis[0]);
    v3_cross(w->axis[2], y[0], y[1]);
    if (re(v3_norm2(w->axis[2])) < TINY * TINY) v3_set(w->axis[2], v->normal[0], v->normal[1], v->normal[2]);
    v3_normalize(w->axis[2]);
    v3_cross(w->axis[1], w->axis[2], w->axis[0]);
  }

  for (int e = 0; e < 2; e++) {
    for (int k = 0; k < 2; k++) w->p[e][k] = v3_dot(y[e], w->axis[k]);
  }

  w->rise = w->cylinder ? v3_dot(y[1], w->axis[2]) - v3_dot(y[0], w->axis[2]) : 0;
}

bool NUM(pbWrap_Find)(const NUM(pbObstacle) *o, const num x0[3], const num x1[3], NUM(pbWrapPath) *w) {
  num y[2][3];
  view v = {0};
  double turn = 1;
  PB_ASSERT(o->type == pb_wrapSphere || o->type == pb_wrapCylinder);

  // As seen from the center.
  v3_sub(y[0], x0, o->pos);
  v3_sub(y[1], x1, o->pos);
  look(o, y, &v);
  int way = choose(o, &v, &turn);
  if (way == way_straight) return false;

  // The problem in the plane.
  w->cylinder = o->type == pb_wrapCylinder;
  w->inside = way == way_touching;
  w->turn = turn;
  w->radius = o->radius;
  w->arc = 0;
  set_plane(o, y, &v, w);
  if (w->inside) touch(w);
  else go_around(w);

  // A cylinder unrolled: length^2 = flat^2 + rise^2.
  w->length = w->cylinder ? num_sqrt(w->flat * w->flat + w->rise * w->rise) : w->flat;
  num share = w->cylinder ? w->flat / w->length : 1, climb = w->cylinder ? w->rise / w->length : 0;
  for (int e = 0; e < 2; e++) {
    for (int k = 0; k < 3; k++) {
      num flat = w->g[e][0] * w->axis[0][k] + w->g[e][1] * w->axis[1][k];
      w->end[e][k] = share * flat + (e ? climb : -climb) * w->axis[2][k];
    }
  }

  w->by_radius *= share;
  return true;
}

// ---- curvature --------------------------------------------------------------------------------------------------------
// (a, b) of the plane for an end, and c for the radius, as a row in space; weighed.
static num *plane_row(const NUM(pbWrapPath) *w, NUM(pbWrapSquares) *b, int end, const num ab[2], num c, num weight) {
  num *row = b->row[b->n];
  PB_ASSERT(b->n < PB_WRAP_SQUARES);
  for (int k = 0; k < 3; k++) {
    row[3 * end + k] = ab[0] * w->axis[0][k] + ab[1] * w->axis[1][k];
    row[3 - 3 * end + k] = 0;
  }

  row[6] = c;
  b->weight[b->n++] = weight;
  return row;
}

// The plane's length. Around: a tangent turns by what its end moves across it, or the circle grows, over its length:
// (n dp - dr)^2 / straight. Touching: (w (dp - n dr - tau r da))^2 / straight with w across the line, and r (g n) da^2 for both
// ends, where the touching point's angle a goes where their sum is least.
static void plane_curvature(const NUM(pbWrapPath) *w, NUM(pbWrapSquares) *b, num share) {
  num sum[7] = {0}, D = 0;
  for (int e = 0; e < 2; e++) {
    // An end on the surface has no second derivative: held finite.
    const num *n = w->n[e], *g = w->g[e];
    num straight = num_at_least(w->straight[e], GRAZE * re(w->radius));
    if (!w->inside) {
      plane_row(w, b, e, n, -1, share / straight);
      continue;
    }

    num across[2] = {-g[1], g[0]}, tau = across[0] * -n[1] + across[1] * n[0], c = w->radius * tau;
    const num *row = plane_row(w, b, e, across, -dot2(across, n), share / straight);
    for (int k = 0; k < 7; k++) sum[k] += c / straight * row[k];
    D += c * c / straight + w->radius * dot2(g, n);
  }

  if (!w->inside) return;
  memcpy(b->row[b->n], sum, sizeof sum);
  b->weight[b->n++] = -share / D;
}

// A sphere's plane turns with the ends: of moves a, b along its normal the lengths l change by a^2 / 2 l and the angle between by
// ((a^2 / l0^2 + b^2 / l1^2) cos / 2 - a b / (l0 l1)) / sin.
static void turning_curvature(const NUM(pbWrapPath) *w, NUM(pbWrapSquares) *b) {
  num l[2], along[2], c = w->p[0][0] * w->p[1][1] - w->p[0][1] * w->p[1][0], d = dot2(w->p[0], w->p[1]);
  for (int e = 0; e < 2; e++) {
    l[e] = num_sqrt(dot2(w->p[e], w->p[e]));
    along[e] = dot2(w->g[e], w->p[e]) / l[e];
  }

  // What the length changes by with the angle, the moment of either end about the center.
  num moment = w->g[1][1] * w->p[1][0] - w->g[1][0] * w->p[1][1];
  if (fabs(re(c)) < LEVEL * re(l[0] * l[1])) c = LEVEL * l[0] * l[1];
  for (int e = 0; e < 2; e++) b->turn[e] = along[e] / l[e] + moment * d / (c * l[e] * l[e]);
  b->turn[2] = -moment / c;
  v3_copy(b->normal, w->axis[2]);
}

void NUM(pbWrap_Squares)(const NUM(pbWrapPath) *w, NUM(pbWrapSquares) *b) {
  b->n = 0;
  b->turns = !w->cylinder;
  if (!w->cylinder) {
    plane_curvature(w, b, 1);
    turning_curvature(w, b);
    return;
  }

  // length^2 = flat^2 + rise^2: flat flat'' / length, and (rise d flat - flat d rise)^2 / length^3.
  num L = w->length, by_radius = w->by_radius * L / w->flat;
  plane_curvature(w, b, w->flat / L);
  num *row = b->row[b->n];
  for (int e = 0; e < 2; e++) {
    for (int k = 0; k < 3; k++) {
      num flat = w->g[e][0] * w->axis[0][k] + w->g[e][1] * w->axis[1][k];
      row[3 * e + k] = w->rise * flat - w->flat * (e ? w->axis[2][k] : -w->axis[2][k]);
    }
  }

  row[6] = w->rise * by_radius;
  b->weight[b->n++] = 1 / (L * L * L);
}

void NUM(pbWrap_Curvature)(const NUM(pbWrapPath) *w, num H[49]) {
  NUM(pbWrapSquares) b;
  NUM(pbWrap_Squares)(w, &b);
  for (int k = 0; k < 49; k++) H[k] = 0;
  for (int q = 0; q < b.n; q++) {
    for (int k = 0; k < 49; k++) H[k] += b.weight[q] * b.row[q][k / 7] * b.row[q][k % 7];
  }

  if (!b.turns) return;
  for (int e = 0; e < 2; e++) {
    for (int f = 0; f < 2; f++) {
      num h = e == f ? b.turn[e] : b.turn[2];
      for (int k = 0; k < 9; k++) H[7 * (3 * e + k / 3) + 3 * f + k % 3] += h * b.normal[k / 3] * b.normal[k % 3];
    }
  }
}
