// Random and aligned poses of every pair of shapes: the points of both shapes, half of the distance from a contact along its
// normal, lie in their shapes, no direction has a smaller depth, and (under sanitizers) nothing is read that was not written.
//   unit_test_poses [POSES]: of each pair, twice, 300 where none is given
//   make poses: a million in all, with sanitizers and invariants; make poses PART=memory: fewer, below valgrind
// SEED in the environment draws others.
#include <math.h>
#include <setjmp.h>
#include <signal.h>
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
#include "geometry/primitive.h"
#include "geometry/search.h"
#include "math/vec.h"
#include "model/topology.h"
#include "support/support.h"

enum { HULLS = 7, ROUNDS = 5, SHAPES = HULLS + ROUNDS, VERTICES = 400, DIRECTIONS = 60 };
#define WITHIN 1e-9  // m, of shapes of about .1 m
// m: of faces of vertices in single precision. Faces that are bent more, as meshes of many small ones have them once neighbors are
// merged to polygons, have contacts in their plane; the depth is next to the least all the same (5e-8 seen, at faces bent by
// 2e-4).
#define ROUNDED_FACES  1.5e-7
#define ENDS           2e-8  // m: of round shapes, where an edge and its end are as deep but for rounding
#define PARALLEL_EDGES 1e-4  // m, sideways, of edges that count as parallel (within 4.5e-4)

static int poses_of_pair = 300;

// ---- numbers ---------------------------------------------------------------------------------------------------------

static int random_below(uint64_t *state, int count) { return (int)((random_unit(state) * 0.5 + 0.5) * count * 0.999999); }

// ---- meshes ----------------------------------------------------------------------------------------------------------
typedef struct cloud {
  int count;
  double x[VERTICES][3];
} cloud;

static void add(cloud *c, double x, double y, double z) {
  assert_true(c->count < VERTICES);
  v3_set(c->x[c->count], x, y, z);
  c->count++;
}

static void add_ring(cloud *c, int sides, double radius, double z, double turn) {
  for (int k = 0; k < sides; k++)
    add(c, radius * cos(turn + 6.283185307179586 * k / sides), radius * sin(turn + 6.283185307179586 * k / sides), z);
}

static void add_random(cloud *c, int count, double x, double y, double z, uint64_t *seed) {
  for (int k = 0; k < count; k++) {
    double v[3] = {random_unit(seed), random_unit(seed), random_unit(seed)};
    v3_normalize(v);
    add(c, x * v[0], y * v[1], z * v[2]);
  }
}

// Sparse and dense ones, with large polygons, slivers and rims of many small faces, as meshes of robots have.
static void make_clouds(cloud c[HULLS]) {
  uint64_t seed = 11;
  memset(c, 0, HULLS * sizeof *c);
  for (int k = 0; k < 8; k++) add(&c[0], k & 1 ? 0.1 : -0.1, k & 2 ? 0.07 : -0.07, k & 4 ? 0.05 : -0.05);
  add(&c[1], 0, 0, 0.09);
  add_ring(&c[1], 3, 0.1, -0.04, 0.3);
  add_random(&c[2], 12, 0.1, 0.08, 0.06, &seed);
  add_random(&c[3], 300, 0.1, 0.09, 0.07, &seed);
  // A pot: rims rounded in three steps, caps of 40 corners, a foot of another radius.
  add_ring(&c[4], 40, 0.0998, -0.05, 0);
  add_ring(&c[4], 40, 0.1, -0.0495, 0);
  add_ring(&c[4], 40, 0.1, 0.02, 0);
  add_ring(&c[4], 40, 0.07, 0.0695, 0);
  add_ring(&c[4], 40, 0.0695, 0.07, 0);
  // A cone, and a thin plate with corners that are cut.
  add(&c[5], 0, 0, 0.12);
  add_ring(&c[5], 24, 0.06, -0.04, 0);
  add_ring(&c[6], 8, 0.12, -0.004, 0.39);
  add_ring(&c[6], 8, 0.12, 0.004, 0.39);
}

// Vertices are turned, so that single precision leaves no face quite flat.
static pbModel *make_model(pbContext *ctx, bool turned) {
  static cloud clouds[HULLS];
  static char text[HULLS * VERTICES * 40 + 4000];
  static const char *const names[ROUNDS] = {"sphere", "capsule", "ellipsoid", "cylinder", "box"};
  static const double quat[4] = {0.8, 0.2, -0.4, 0.4};
  double turn[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  int length = sprintf(text, "<mujoco><asset>");
  if (turned) quat_to_mat(turn, quat);
  make_clouds(clouds);
  for (int h = 0; h < HULLS; h++) {
    length += sprintf(text + length, "<mesh name=\"m%d\" inertia=\"convex\" vertex=\"", h);
    for (int k = 0; k < clouds[h].count; k++) {
      double x[3];
      m3_mulv(x, turn, clouds[h].x[k]);
      length += sprintf(text + length, "%.9g %.9g %.9g ", x[0], x[1], x[2]);
    }
    length += sprintf(text + length, "\"/>");
  }
  length += sprintf(text + length, "</asset><worldbody>");
  for (int h = 0; h < HULLS; h++)
    length += sprintf(text + length, "<body><freejoint/><geom type=\"mesh\" mesh=\"m%d\"/></body>", h);
  for (int k = 0; k < 2 * ROUNDS; k++)
    length += sprintf(text + length, "<body><freejoint/><geom type=\"%s\" size=\".1 .1 .1\"/></body>", names[k / 2]);
  length += sprintf(text + length, "</worldbody></mujoco>");
  assert_true((size_t)length < sizeof text);

  pbSpec *spec;
  pbModel *model;
  if (pbSpec_ParseMjcf(ctx, text, (size_t)length, "poses.xml", &spec)) fail_msg("%s", pbContext_Error(ctx));
  if (pbSpec_Compile(spec, &model)) fail_msg("%s", pbContext_Error(ctx));
  pbSpec_Destroy(spec);
  return model;
}

// ---- shapes ----------------------------------------------------------------------------------------------------------
static pbShape_r make_shape(const pbModel *m, int number, uint64_t *seed) {
  static const int types[ROUNDS] = {pb_geomSphere, pb_geomCapsule, pb_geomEllipsoid, pb_geomCylinder, pb_geomBox};
  pbShape_r s = {.type = number < HULLS ? pb_geomMesh : types[number - HULLS], .nudged = -1};
  if (number < HULLS) s.hull = &m->topology->hull[number];
  double size = random_below(seed, 2) ? 0.08 : 0.02;
  if (number >= HULLS) {
    for (int i = 0; i < 3; i++) s.size[i] = size * (1 + 0.9 * random_unit(seed));
  }
  return s;
}

// Turned freely; by right angles; so that an axis of the shape is the normal of a face of the other one, or nearly.
static void turn_shape(const pbShape_r *other, uint64_t *seed, double mat[9]) {
  static const double beside[] = {0, 0, 1e-12, 1e-9, 1e-6, 1e-3};
  int kind = random_below(seed, 4), axis = random_below(seed, 3);
  double z[3] = {0, 0, 0}, x[3], y[3], v[3];
  random_rotation(seed, mat);
  if (kind < 2) return;

  z[random_below(seed, 3)] = 1;
  if (other->hull) v3_copy(z, other->hull->normal + 3 * random_below(seed, other->hull->polygons));
  m3_mulv(v, other->mat, z);
  m3_col(x, mat, 0);
  if (kind == 3) m3_col(x, other->mat, random_below(seed, 3));
  double tilt = beside[random_below(seed, 6)];
  for (int i = 0; i < 3; i++) v[i] += tilt * random_unit(seed);
  v3_normalize(v);
  v3_addscl(x, v, -v3_dot(x, v));
  if (!(v3_normalize(x) > 0.01)) return;
  v3_cross(y, v, x);
  for (int i = 0; i < 3; i++) {
    mat[3 * i + axis] = v[i];
    mat[3 * i + (axis + 1) % 3] = x[i];
    mat[3 * i + (axis + 2) % 3] = y[i];
  }
}

static double unevenness(const pbShape_r *s) {
  pbSupport shape;
  to_support(s, &shape);
  return pbPolytope_Unevenness(&shape);
}

static void search_pair(const pbShape_r *s1, const pbShape_r *s2, pbPolytopePair *pair) {
  to_support(s1, &pair->shape[0]);
  to_support(s2, &pair->shape[1]);
}

// Shallow and deep, in the direction of an axis, or any.
static void place_shape(const pbShape_r *other, uint64_t *seed, pbShape_r *s) {
  static const double depths[] = {0.03, 1e-3, 1e-6, 1e-9, 0, -1e-9, -1e-6, -1e-4, -1e-3, -0.01, -0.03, -0.06};
  double d[3] = {random_unit(seed), random_unit(seed), random_unit(seed)};
  pbPolytopePair pair;
  pbPolytopeNormal found;
  v3_normalize(d);
  if (random_below(seed, 2)) m3_col(d, other->mat, random_below(seed, 3));
  v3_copy(s->pos, other->pos);
  double aside = random_below(seed, 3) ? 0.03 : 0;
  for (int i = 0; i < 3; i++) s->pos[i] += aside * random_unit(seed);

  // Outward until they are this far apart along d.
  bool both_round = !other->hull && !s->hull;
  if (both_round) {
    double size = other->size[0] + other->size[1] + s->size[0] + s->size[1];
    v3_addscl(s->pos, d, size * 0.35 * (1 + random_unit(seed)));
    return;
  }
  search_pair(other, s, &pair);
  if (!pbPolytope_Search(&pair, 1, &found)) return;
  double sigma = pbPolytope_Sigma(&pair, d) + pair.shape[0].radius + pair.shape[1].radius;
  v3_addscl(s->pos, d, fmax(sigma + depths[random_below(seed, 12)], 0));
}

// ---- what holds ------------------------------------------------------------------------------------------------------
static double outside(const pbShape_r *s, const double point[3]) {
  pbSupport shape;
  to_support(s, &shape);
  return pbPolytope_Outside(&shape, point);
}

static void describe(const pbShape_r *s, int number) {
  print_error("shape %d, type %d, size %.17g %.17g %.17g, pos %.17g %.17g %.17g, mat", number, s->type, s->size[0], s->size[1],
              s->size[2], s->pos[0], s->pos[1], s->pos[2]);
  for (int i = 0; i < 9; i++) print_error(" %.17g", s->mat[i]);
  print_error("\n");
}

// The least of sigma that a walk from a direction finds.
static double walk_down(const pbPolytopePair *pair, double u[3], uint64_t *seed) {
  double best = pbPolytope_Sigma(pair, u);
  for (double step = 0.1; step > 1e-7; step *= 0.6) {
    for (int k = 0; k < 6; k++) {
      double v[3];
      for (int i = 0; i < 3; i++) v[i] = u[i] + step * random_unit(seed);
      v3_normalize(v);
      double value = pbPolytope_Sigma(pair, v);
      if (!(value < best)) continue;
      best = value;
      v3_copy(u, v);
    }
  }
  return best;
}

static double least_seen(const pbPolytopePair *pair, const double n[3], uint64_t *seed) {
  double best[3] = {0, 0, 0}, least = INFINITY, u[3];
  for (int k = 0; k < DIRECTIONS; k++) {
    double v[3] = {random_unit(seed), random_unit(seed), random_unit(seed)};
    v3_normalize(v);
    double value = pbPolytope_Sigma(pair, v);
    if (!(value < least)) continue;
    least = value;
    v3_copy(best, v);
  }
  v3_copy(u, n);
  return fmin(walk_down(pair, u, seed), walk_down(pair, best, seed));
}

typedef struct tally {
  long poses, touching, searched, outside, deeper, fixed, many, stopped;
  int most;
  double worst_outside, worst_deeper;
} tally;

static long faults_of(const tally *t) { return t->outside + t->deeper + t->fixed + t->many + t->stopped; }

static bool says(tally *t, long *count) { return faults_of(t) <= 12 && *count <= 3; }

// Contacts that a model has room for.
static int room_of(const pbModel *m, int type1, int type2) {
  for (int k = 0; k < m->topology->ncandidate; k++) {
    const pbCandidate *c = &m->topology->candidate[k];
    if (m->geom_type[c->geom1] == type1 && m->geom_type[c->geom2] == type2) return c->contacts;
  }
  fail_msg("no pair of types %d and %d", type1, type2);
  return 0;
}

static void check_pose(const pbModel *m, const pbShape_r *s1, const pbShape_r *s2, int number1, int number2, uint64_t *seed,
                       tally *t) {
  pbContactPoint_r c[PB_MAX_CONTACT_POINTS];
  pbSearched kept;
  double margin = 0.02;
  memset(c, 0xff, sizeof c);
  memset(&kept, 0xff, sizeof kept);
  int count = pbPair_CollideKeeping_r(s1, s2, margin, &kept, c), deepest = 0;
  t->poses++;
  if (!count) return;

  t->touching++;
  t->most = count > t->most ? count : t->most;
  int room = room_of(m, s1->type, s2->type);
  if (count > room && ++t->many && says(t, &t->many)) print_error("%d contacts, room for %d\n", count, room);
  if (pbSearch_KindOf(s1->type, s2->type) != pb_searchedPolytope) return;

  // Points.
  t->searched++;
  double worst = 0;
  for (int k = 0; k < count; k++) {
    double p1[3], p2[3];
    deepest = c[k].dist < c[deepest].dist ? k : deepest;
    v3_along(p1, c[k].pos, c[k].normal, -0.5 * c[k].dist);
    v3_along(p2, c[k].pos, c[k].normal, 0.5 * c[k].dist);
    worst = fmax(worst, fmax(outside(s1, p1), outside(s2, p2)));
  }
  double uneven = 2 * (unevenness(s1) + unevenness(s2)), within = WITHIN + uneven, deep = WITHIN + fmin(uneven, ROUNDED_FACES);
  bool first = kept.facet.flat[0].sides == 2 || (kept.facet.is_round && kept.facet.round.body == 1);
  bool second = kept.facet.flat[1].sides == 2 || (kept.facet.is_round && kept.facet.round.body == 0);
  if (first && second && count == 2) within += PARALLEL_EDGES;
  if (kept.facet.is_round) within += ENDS;
  // Of hulls that touch to rounding the normal is rounding, too.
  if (!kept.facet.is_round && fabs(kept.facet.dist) < 1e-8) return;
  if (!(worst <= within)) {
    t->outside++;
    t->worst_outside = fmax(worst, t->worst_outside);
    if (says(t, &t->outside))
      print_error("a point is %.3g outside of its shape (kind %d, %d contacts)\n", worst, kept.facet.round.kind, count);
  }
  bool fixed = kept.facet.is_round && kept.facet.round.kind == pb_roundFixed;
  if (fixed && ++t->fixed && says(t, &t->fixed)) print_error("nothing carries the normal\n");

  // Depth.
  pbPolytopePair pair;
  pbPolytopeNormal room_for_one;
  search_pair(s1, s2, &pair);
  if (!pbPolytope_Search(&pair, margin, &room_for_one)) fail_msg("no contact when searched again");
  double beyond = -c[deepest].dist - least_seen(&pair, c[deepest].normal, seed) - pair.shape[0].radius - pair.shape[1].radius;
  if (!(beyond <= deep)) {
    t->deeper++;
    t->worst_deeper = fmax(beyond, t->worst_deeper);
    if (says(t, &t->deeper)) print_error("the depth is %.3g more than the least (kind %d)\n", beyond, kept.facet.round.kind);
  }
  if (fixed || worst > within || beyond > deep) {
    if (t->outside + t->deeper + t->fixed <= 6) {
      describe(s1, number1);
      describe(s2, number2);
      for (int k = 0; k < count; k++) {
        double p1[3], p2[3];
        v3_along(p1, c[k].pos, c[k].normal, -0.5 * c[k].dist);
        v3_along(p2, c[k].pos, c[k].normal, 0.5 * c[k].dist);
        print_error("  dist %.9g, normal %.9g %.9g %.9g, outside %.3g %.3g\n", c[k].dist, c[k].normal[0], c[k].normal[1],
                    c[k].normal[2], outside(s1, p1), outside(s2, p2));
      }
      print_error("  flat %d %d, kind %d, u %.9g %.9g %.9g, ids %d %d %d\n", kept.facet.flat[0].sides, kept.facet.flat[1].sides,
                  kept.facet.is_round ? (int)kept.facet.round.kind : -1, kept.facet.round.u[0], kept.facet.round.u[1],
                  kept.facet.round.u[2], kept.facet.round.id[0], kept.facet.round.id[1], kept.facet.round.id[2]);
    }
  }
}

// An assertion that does not hold stops a pose, which is said, not those that come after it.
static sigjmp_buf before_pose;

static void stop_pose(int signal) { siglongjmp(before_pose, signal); }

static void check_guarded(const pbModel *m, const pbShape_r *s1, const pbShape_r *s2, int number1, int number2, uint64_t *seed,
                          tally *t) {
  if (!sigsetjmp(before_pose, 1)) {
    check_pose(m, s1, s2, number1, number2, seed, t);
  } else if (++t->stopped <= 3) {
    describe(s1, number1);
    describe(s2, number2);
  }
}

static long check_pair(const pbModel *m, int a, int b, uint64_t *seed) {
  tally t = {0};
  for (int k = 0; k < poses_of_pair; k++) {
    pbShape_r s1 = make_shape(m, a, seed), s2 = make_shape(m, b, seed);
    random_rotation(seed, s1.mat);
    if (random_below(seed, 2)) m3_identity(s1.mat);
    for (int i = 0; i < 3 && random_below(seed, 2); i++) s1.pos[i] = random_unit(seed);
    turn_shape(&s1, seed, s2.mat);
    place_shape(&s1, seed, &s2);
    bool swap = s1.type > s2.type;
    check_guarded(m, swap ? &s2 : &s1, swap ? &s1 : &s2, swap ? b : a, swap ? a : b, seed, &t);
  }
  long faults = faults_of(&t);
  if (faults)
    print_error(
        "pair %d %d: %ld touch, at most %d points; %ld outside (by %.3g), %ld too deep (by %.3g), %ld fixed, %ld with too many "
        "points, %ld stopped by an assertion\n",
        a, b, t.touching, t.most, t.outside, t.worst_outside, t.deeper, t.worst_deeper, t.fixed, t.many, t.stopped);
  return faults;
}

static void test_poses(void **unused) {
  (void)unused;
  const char *drawn = getenv("SEED");
  uint64_t seed = 99;
  for (const char *c = drawn ? drawn : ""; *c; c++) seed = seed * 31 + (unsigned char)*c;
  long faults = 0;
  pbContext *ctx = pbContext_Create(NULL);
  signal(SIGABRT, stop_pose);
  for (int turned = 0; turned < 2; turned++) {
    pbModel *m = make_model(ctx, turned);
    for (int a = 0; a < SHAPES; a++) {
      for (int b = a; b < SHAPES; b++) faults += check_pair(m, a, b, &seed);
    }
    pbModel_Destroy(m);
  }
  pbContext_Destroy(ctx);
  if (faults) fail_msg("%ld faults (SEED=%s)", faults, drawn ? drawn : "");
}

// Poses that once were wrong.
static void test_cases(void **unused) {
  (void)unused;
  static const struct {
    int number;
    double size[3], pos[3], mat[9];
  } cases[] = {
#include "pose_cases.inc"
  };
  pbContext *ctx = pbContext_Create(NULL);
  uint64_t seed = 99;
  tally t = {0};
  signal(SIGABRT, stop_pose);
  for (int turned = 0; turned < 2; turned++) {
    pbModel *m = make_model(ctx, turned);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k += 2) {
      pbShape_r s[2];
      for (int i = 0; i < 2; i++) {
        s[i] = make_shape(m, cases[k + i].number, &seed);
        v3_copy(s[i].size, cases[k + i].size);
        v3_copy(s[i].pos, cases[k + i].pos);
        m3_copy(s[i].mat, cases[k + i].mat);
      }
      check_guarded(m, &s[0], &s[1], cases[k].number, cases[k + 1].number, &seed, &t);
    }
    pbModel_Destroy(m);
  }
  pbContext_Destroy(ctx);
  assert_int_equal(faults_of(&t), 0);
}

// The flat features of two hulls in contact are those of the pair, whichever is named first: of the corners that carry the normal
// none is special. Seen as contacts that came and went from step to step (the arm jaco of dm_control).
static void test_named_either_way(void **unused) {
  (void)unused;
  uint64_t seed = 5;
  long compared = 0, differ = 0;
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *m = make_model(ctx, true);

  for (int k = 0; k < 20000; k++) {
    pbShape_r s1 = make_shape(m, 2 + random_below(&seed, 3), &seed), s2 = make_shape(m, 2 + random_below(&seed, 3), &seed);
    random_rotation(&seed, s1.mat);
    random_rotation(&seed, s2.mat);
    for (int i = 0; i < 3; i++) s2.pos[i] = 0.05 * random_unit(&seed);

    // Both ways.
    pbPolytopePair pair;
    pbPolytopeNormal one, other;
    search_pair(&s1, &s2, &pair);
    if (!pbPolytope_Search(&pair, 0, &one)) continue;
    search_pair(&s2, &s1, &pair);
    if (!pbPolytope_Search(&pair, 0, &other)) continue;
    double apart[3];
    v3_add(apart, one.n, other.n);
    if (v3_norm(apart) > 1e-6) continue;

    compared++;
    for (int i = 0; i < 2; i++) {
      const pbFlat *a = &one.flat[i], *b = &other.flat[!i];
      if (a->sides == b->sides && (a->sides < 3 || a->face == b->face)) continue;
      differ++;
      break;
    }
  }
  pbModel_Destroy(m);
  pbContext_Destroy(ctx);
  assert_true(compared > 1000);
  if (differ) fail_msg("%ld of %ld pairs of hulls have other flat features when they are named the other way", differ, compared);
}

int main(int argc, char **argv) {
  if (argc > 1) poses_of_pair = atoi(argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_poses),
                                     cmocka_unit_test(test_named_either_way)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
