// Geometry behind the barrier: closest features, conservative advancement, exact crossings, pairs found by trees of boxes.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "barrier/advance.h"
#include "barrier/distance.h"
#include "barrier/exact.h"
#include "barrier/parts.h"
#include <pullback/random.h>

static double uniform(pbRng *r, double lo, double hi) { return lo + (hi - lo) * pbRng_Uniform(r); }
static double dot(const double *a, const double *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

static const int shapes[4][2] = {{1, 1}, {1, 2}, {1, 3}, {2, 2}};

// Random vertices; some sets in one plane, along parallel lines, or of no size
static void random_pair(pbRng *r, int na, int nb, int kind, double *A, double *B) {
  for (int k = 0; k < 9; k++) {
    A[k] = uniform(r, -1, 1);
    B[k] = uniform(r, -1, 1);
  }
  if (kind % 5 == 1)  // one plane
    for (int k = 0; k < 3; k++) A[3 * k + 2] = B[3 * k + 2] = .25;
  if (kind % 5 == 2 && na == 2)  // parallel
    for (int k = 0; k < 3; k++) B[3 + k] = B[k] + uniform(r, .3, 2) * (kind & 1 ? 1 : -1) * (A[3 + k] - A[k]);
  if (kind % 5 == 3 && na == 2)  // nearly so
    for (int k = 0; k < 3; k++) B[3 + k] = B[k] + A[3 + k] - A[k] + uniform(r, -1, 1) * pow(10, -uniform(r, 1, 12));
  if (kind % 5 == 4 && nb == 3) memcpy(B + 6, B + (kind & 1 ? 3 : 0), 3 * sizeof *B);  // a triangle without area
}

static void random_point(pbRng *r, int n, const double *P, double *p) {
  double w[3], sum = 0;
  for (int k = 0; k < n; k++) sum += w[k] = -log(1e-300 + pbRng_Uniform(r));
  for (int i = 0; i < 3; i++) {
    p[i] = 0;
    for (int k = 0; k < n; k++) p[i] += w[k] / sum * P[3 * k + i];
  }
}

// A distance is right if no two points are nearer (sampled), and slabs of that width across the direction lie between the hulls.
static void test_closest(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(1);
  double worst = 0;
  for (int trial = 0; trial < 20000; trial++) {
    int na = shapes[trial % 4][0], nb = shapes[trial % 4][1];
    double A[9], B[9], least = INFINITY;
    random_pair(&r, na, nb, trial / 4, A, B);
    pbClosest c = pbClosest_Find(na, A, nb, B);
    double d = sqrt(c.d2);
    if (d < 1e-6) continue;
    for (int i = 0; i < na; i++)
      for (int j = 0; j < nb; j++) {
        double q[3] = {A[3 * i] - B[3 * j], A[3 * i + 1] - B[3 * j + 1], A[3 * i + 2] - B[3 * j + 2]};
        least = fmin(least, dot(q, c.apart) / d);
      }
    worst = fmax(worst, (d - least) / fmax(d, .01));
    for (int k = 0; k < 20; k++) {
      double p[3], q[3];
      random_point(&r, na, A, p);
      random_point(&r, nb, B, q);
      for (int i = 0; i < 3; i++) p[i] -= q[i];
      assert_true(sqrt(dot(p, p)) > d - 1e-12);
    }
  }
  print_message("distances: slabs narrower by %.1e at most\n", worst);
  assert_true(worst < 1e-6);  // near parallel edges: either feature is right where they are equally far
}

static double gap_at(int na, const double *A, const double *dA, int nb, const double *B, const double *dB, double t) {
  double a[9], b[9];
  for (int k = 0; k < 3 * na; k++) a[k] = A[k] + t * dA[k];
  for (int k = 0; k < 3 * nb; k++) b[k] = B[k] + t * dB[k];
  return sqrt(pbClosest_Find(na, a, nb, b).d2);
}

// First time that the gap is below `target`, by steps and bisection; 1 if never
static double first_time(int na, const double *A, const double *dA, int nb, const double *B, const double *dB, double target) {
  enum { steps = 1500 };
  for (int k = 1; k <= steps; k++) {
    if (gap_at(na, A, dA, nb, B, dB, (double)k / steps) >= target) continue;
    double lo = (k - 1.) / steps, hi = (double)k / steps;
    for (int i = 0; i < 40; i++) {
      double t = .5 * (lo + hi);
      *(gap_at(na, A, dA, nb, B, dB, t) >= target ? &lo : &hi) = t;
    }
    return hi;
  }
  return 1;
}

static void test_advance(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(2);
  int hits = 0, counted = 0, trials = 12000;
  double worst = 1, sum = 0;
  for (int trial = 0; trial < trials; trial++) {
    int na = shapes[trial % 4][0], nb = shapes[trial % 4][1];
    double A[9], B[9], dA[9], dB[9], speed = pow(10, uniform(&r, -2, 1)), keep = uniform(&r, .05, .3), dhat = 10;
    random_pair(&r, na, nb, trial / 4, A, B);
    random_pair(&r, na, nb, trial / 20, dA, dB);
    double d = gap_at(na, A, dA, nb, B, dB, 0), xi = trial % 3 ? 0 : .5 * d;
    if (d < 1e-4) continue;
    for (int k = 0; k < 9; k++) {
      dA[k] = trial % 7 ? speed * dA[k] : 0;
      dB[k] = trial % 11 ? speed * dB[k] : 0;
    }
    if (trial % 13 == 0) {  // straight at each other
      for (int k = 0; k < 9; k++) {
        dA[k] = speed * (B[k % 3] - A[k % 3]);
        dB[k] = 0;
      }
    }
    double target = xi + keep * (d - xi), t = pbAdvance_Pair(&(pbMoving){na, A, dA}, &(pbMoving){nb, B, dB}, xi, dhat, keep);
    assert_true(t >= 0 && t <= 1);
    for (int k = 0; k <= 300; k++) assert_true(gap_at(na, A, dA, nb, B, dB, t * k / 300.) > target * (1 - 1e-9));
    double truth = first_time(na, A, dA, nb, B, dB, xi + 1.12 * keep * (d - xi));  // it stops within a tenth
    hits += truth < 1;
    counted++;
    worst = fmin(worst, t / truth);
    sum += t / truth;
  }
  print_message("advancement: %d of %d pairs stopped; time found over true time %.3f at least, %.4f in the mean\n", hits, counted,
                worst, sum / counted);
  assert_true(hits > 500 && worst > .9);
}

// Through each other in one step from a small distance: must stop before.
static void test_advance_never_passes(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(3);
  for (int trial = 0; trial < 20000; trial++) {
    int na = shapes[trial % 4][0], nb = shapes[trial % 4][1];
    double A[9], B[9], dA[9] = {0}, dB[9] = {0}, p[3], q[3], size = pow(10, -uniform(&r, 0, 8));
    random_pair(&r, na, nb, trial / 4, A, B);
    random_point(&r, na, A, p);
    random_point(&r, nb, B, q);
    pbClosest c = pbClosest_Find(na, A, nb, B);
    double d = sqrt(c.d2), shrink = size / d;
    if (d < 1e-3) continue;
    for (int k = 0; k < 3 * na; k++) {
      A[k] -= c.apart[k % 3] * (1 - shrink);
      dA[k] = -10 * c.apart[k % 3];
    }
    double t = pbAdvance_Pair(&(pbMoving){na, A, dA}, &(pbMoving){nb, B, dB}, 0, 1, .1), touch = fmin(1, size / (10 * d));
    assert_true(gap_at(na, A, dA, nb, B, dB, t) > 0 && t > .8 * touch && t < 1.001 * touch);
  }
}

static void test_advance_plane(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(4);
  double worst = 1;
  int stopped = 0;
  for (int trial = 0; trial < 3000; trial++) {
    double P[9] = {0, 0, 0, 1, 0, 0, 0, 1, 0}, dP[9], p[3], dp[3], size = trial % 3 ? .4 : 0;
    for (int k = 0; k < 3; k++) {
      p[k] = uniform(&r, -3, 3);
      dp[k] = uniform(&r, -4, 4);
    }
    p[2] = uniform(&r, .01, 3);
    for (int k = 0; k < 9; k++) dP[k] = size * uniform(&r, -1, 1);
    if (!size)
      for (int k = 0; k < 9; k++) dP[k] = k % 3 - 1;
    double xi = trial % 2 ? 0 : .3 * p[2], target = xi + .1 * (p[2] - xi), t = pbAdvance_Plane(p, dp, P, dP, xi, 10, .1),
           truth = 1;
    for (int k = 0; k <= 4000; k++) {
      double s = k / 4000., q[3], Q[9];
      for (int i = 0; i < 3; i++) q[i] = p[i] + s * dp[i];
      for (int i = 0; i < 9; i++) Q[i] = P[i] + s * dP[i];
      double height = pbPair_OverPlane(q, Q);
      if (s <= t) assert_true(height > target * (1 - 1e-9));
      if (height < xi + 1.12 * (target - xi)) {
        truth = s;
        break;
      }
    }
    stopped += truth < 1;
    worst = fmin(worst, t / truth);
  }
  print_message("plane: %d stopped; time found over true time %.3f at least\n", stopped, worst);
  assert_true(stopped > 500 && worst > .9);
}

// ---- exact ----------------------------------------------------------------------------------------------------------
static int sign_of(__int128 x) { return (x > 0) - (x < 0); }

static int integer_side(const long *a, const long *b, const long *c, const long *d) {
  __int128 u[3], v[3], w[3], det = 0;
  for (int k = 0; k < 3; k++) {
    u[k] = b[k] - a[k];
    v[k] = c[k] - a[k];
    w[k] = d[k] - a[k];
  }
  for (int i = 0; i < 3; i++) det += u[i] * (v[(i + 1) % 3] * w[(i + 2) % 3] - v[(i + 2) % 3] * w[(i + 1) % 3]);
  return sign_of(det);
}

// Points of a grid of 2^38, in one plane but for the last digit, against whole numbers
static void test_sides(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(5);
  int zero = 0, tiny = 0;
  for (int trial = 0; trial < 20000; trial++) {
    long p[4][3];
    double x[4][3];
    for (int k = 0; k < 3; k++) {
      for (int i = 0; i < 3; i++) p[i][k] = (long)uniform(&r, -1e11, 1e11);
      int s = (int)uniform(&r, -3, 3), t = (int)uniform(&r, -3, 3);
      if (k == 0) {
        p[3][0] = s;
        p[3][1] = t;
      }
    }
    long s = p[3][0], t = p[3][1];
    for (int k = 0; k < 3; k++) p[3][k] = p[0][k] + s * (p[1][k] - p[0][k]) + t * (p[2][k] - p[0][k]);
    if (trial % 2) p[3][trial % 3] += trial % 4 - 2;
    double scale = ldexp(1, trial % 40 - 60);
    for (int i = 0; i < 4; i++)
      for (int k = 0; k < 3; k++) x[i][k] = scale * (double)p[i][k];
    int right = integer_side(p[0], p[1], p[2], p[3]);
    zero += right == 0;
    tiny += right != 0;
    assert_int_equal(pbExact_Side(x[0], x[1], x[2], x[3]), right);
  }
  assert_true(zero > 5000 && tiny > 5000);
}

static bool meets(const double *e, const double *t) {
  bool first = pbExact_EdgeMeetsTriangle(e, t);
  static const int order[5][3] = {{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (int k = 0; k < 10; k++) {
    double f[6], u[9];
    for (int i = 0; i < 2; i++) memcpy(f + 3 * i, e + 3 * (k % 2 ? i : 1 - i), 3 * sizeof *f);
    for (int i = 0; i < 3; i++) memcpy(u + 3 * i, t + 3 * order[k / 2][i], 3 * sizeof *u);
    assert_true(pbExact_EdgeMeetsTriangle(f, u) == first);
  }
  return first;
}

static void test_crossings(void **state) {
  (void)state;
  const double t[9] = {0, 0, 0, 1, 0, 0, 0, 1, 0}, line[9] = {0, 0, 0, 1, 0, 0, 2, 0, 0};
  assert_true(meets((double[]){.2, .2, -1, .2, .2, 1}, t));
  assert_false(meets((double[]){.6, .6, -1, .6, .6, 1}, t));
  assert_true(meets((double[]){.5, .5, -1, .5, .5, 1}, t));        // through an edge
  assert_true(meets((double[]){0, 0, 0, -1, -1, 1}, t));           // begins at a vertex
  assert_false(meets((double[]){.2, .2, 1e-300, .2, .2, 1}, t));   // just above
  assert_true(meets((double[]){.2, .2, 0, .2, .2, 1}, t));         // on it
  assert_true(meets((double[]){-1, .3, 0, 2, .3, 0}, t));          // in its plane, across
  assert_true(meets((double[]){.1, .1, 0, .2, .3, 0}, t));         // in its plane, inside
  assert_false(meets((double[]){-1, -.1, 0, 2, -.1, 0}, t));       // in its plane, beside
  assert_false(meets((double[]){1.1, 0, 0, 2, 0, 0}, t));          // along an edge, beyond it
  assert_true(meets((double[]){.5, -1, -1, .5, 1, 1}, line));      // no area: crosses the segment
  assert_false(meets((double[]){.5, -1, -.5, .5, 1, 1.5}, line));  // passes over it
  assert_false(meets((double[]){3, -1, -1, 3, 1, 1}, line));       // crosses its line beyond
  pbRng r = pbRng_Seed(6);
  int met = 0;
  for (int trial = 0; trial < 5000; trial++) {  // an edge that begins on one side of a random triangle, through a known point
    double T[9], B[9], p[3], e[6];
    random_pair(&r, 1, 3, trial, B, T);
    double w[3] = {uniform(&r, -.5, 1), uniform(&r, -.5, 1), 0};
    w[2] = 1 - w[0] - w[1];
    double inside = fmin(w[0], fmin(w[1], w[2]));
    if (fabs(inside) < 1e-9 || trial % 5 == 4) continue;
    for (int i = 0; i < 3; i++) p[i] = w[0] * T[i] + w[1] * T[3 + i] + w[2] * T[6 + i];
    for (int i = 0; i < 3; i++) {
      e[i] = p[i] + B[i];
      e[3 + i] = p[i] - .7 * B[i];
    }
    assert_true(meets(e, T) == (inside > 0));
    met += inside > 0;
  }
  assert_true(met > 500);
}

// ---- pairs ----------------------------------------------------------------------------------------------------------
enum { scene_vertices = 160, scene_groups = 4 };
typedef struct Scene {
  int group[scene_vertices], point[scene_vertices], edge[600], triangle[240];
  bool collide[scene_groups * scene_groups];
  double x[3 * scene_vertices], dx[3 * scene_vertices], radius[scene_groups];
  pbCollisionDef def;
} Scene;

// 0 and 1: triangles here and there, 2: rods, 3: spheres
static void make_scene(Scene *s, pbRng *r) {
  *s = (Scene){.radius = {0, .02, .05, .1}};
  for (int v = 0; v < scene_vertices; v++) {
    s->group[v] = v / 40;
    s->point[v] = v;
  }
  for (int k = 0; k < 3 * scene_vertices; k++) {
    s->x[k] = uniform(r, -1, 1);
    s->dx[k] = uniform(r, -.3, .3);
  }
  int triangles = 0;
  while (triangles < 80) {
    int g = triangles / 40, t[3];
    for (int k = 0; k < 3; k++) t[k] = 40 * g + (int)uniform(r, 0, 40);
    if (t[0] == t[1] || t[1] == t[2] || t[0] == t[2]) continue;
    memcpy(s->triangle + 3 * triangles++, t, sizeof t);
  }
  int edges = pbCollision_Edges(s->triangle, triangles, s->edge);
  for (int k = 0; k < 30; k++, edges++) {
    s->edge[2 * edges] = 80 + k;
    s->edge[2 * edges + 1] = 81 + k;
  }
  for (int a = 0; a < scene_groups; a++)
    for (int b = 0; b < scene_groups; b++) s->collide[a * scene_groups + b] = !(a == 1 && b == 1) && a + b != 4;
  s->def = (pbCollisionDef){.vertices = scene_vertices,
                            .group = s->group,
                            .groups = scene_groups,
                            .collide = s->collide,
                            .points = scene_vertices,
                            .point = s->point,
                            .edges = edges,
                            .edge = s->edge,
                            .triangles = triangles,
                            .triangle = s->triangle};
}

static unsigned char *seen;  // how often (kind, a, b) was visited
static size_t slot(int kind, int a, int b) { return ((size_t)kind * 400 + (size_t)a) * 400 + (size_t)b; }
static pbStatus see(void *user, const pbPair *p) {
  (void)user;
  seen[slot(p->kind, p->number_a, p->number_b)]++;
  return pb_ok;
}

static void test_pairs(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  pbRng r = pbRng_Seed(7);
  static Scene s;
  int close = 0;
  seen = malloc(5 * 400 * 400);
  for (int trial = 0; trial < 20; trial++) {
    make_scene(&s, &r);
    pbCollision *c;
    pbBarrier *b;
    assert_int_equal(pbCollision_Create(ctx, &s.def, &c), pb_ok);
    assert_int_equal(pbBarrier_Create(ctx, c, 0, &b), pb_ok);
    assert_int_equal(c->lone_points,
                     9 + 40 + (c->bare_points - 31 - 9 - 40));  // vertices of groups 0, 1 in no triangle are alone, too
    double reach = .05;
    pbPairs pairs = {.x = s.x, .dx = trial % 2 ? s.dx : NULL, .radius = s.radius, .reach = reach, .visit = see};
    memset(seen, 0, 5 * 400 * 400);
    for (int again = 0; again < 2; again++) {
      for (int k = 0; again && k < 3 * scene_vertices; k++) s.x[k] += uniform(&r, -.2, .2);  // the tree is old, its boxes new
      memset(seen, 0, 5 * 400 * 400);
      assert_int_equal(pbBarrier_Pairs(b, &pairs, !again), pb_ok);
      int counts[4][2] = {
          {c->lone_points, c->lone_points}, {c->bare_points, c->bare_edges}, {c->points, c->triangles}, {c->edges, c->edges}};
      for (int kind = 0; kind < 4; kind++) {
        bool same = kind == pb_pairPP || kind == pb_pairEE;
        for (int i = 0; i < counts[kind][0]; i++) {
          for (int j = same ? i + 1 : 0; j < counts[kind][1]; j++) {
            const int *u = kind == 0   ? c->point + c->lone_point[i]
                           : kind == 1 ? c->point + c->bare_point[i]
                           : kind == 2 ? c->point + i
                                       : c->edge + 2 * i;
            const int *v = kind == 0   ? c->point + c->lone_point[j]
                           : kind == 1 ? c->edge + 2 * c->bare_edge[j]
                           : kind == 2 ? c->triangle + 3 * j
                                       : c->edge + 2 * j;
            int na = shapes[kind][0], nb = shapes[kind][1], visits = seen[slot(kind, i, j)];
            bool meet = s.collide[s.group[u[0]] * scene_groups + s.group[v[0]]];
            for (int k = 0; k < na; k++)
              for (int l = 0; l < nb; l++) meet = meet && u[k] != v[l];
            assert_true(visits <= meet);
            double A[9], B[9], dA[9] = {0}, dB[9] = {0}, least = INFINITY;
            pbPair_Gather(s.x, u, na, A);
            pbPair_Gather(s.x, v, nb, B);
            if (pairs.dx) {
              pbPair_Gather(s.dx, u, na, dA);
              pbPair_Gather(s.dx, v, nb, dB);
            }
            for (int k = 0; k <= 4; k++) least = fmin(least, gap_at(na, A, dA, nb, B, dB, k / 4.));
            if (meet && least < reach + s.radius[s.group[u[0]]] + s.radius[s.group[v[0]]]) {
              assert_int_equal(visits, 1);
              close++;
            }
          }
        }
      }
    }
    pbBarrier_Destroy(b);
    pbCollision_Destroy(c);
  }
  print_message("%d close pairs found, as by looking at all\n", close);
  assert_true(close > 1000);
  free(seen);
  pbContext_Destroy(ctx);
}

static void test_lists(void **state) {
  (void)state;
  int triangle[] = {4, 2, 7, 7, 2, 1, 1, 2, 9}, edge[18], point[9];
  assert_int_equal(pbCollision_Edges(triangle, 3, edge), 7);
  const int right[] = {1, 2, 1, 7, 1, 9, 2, 4, 2, 7, 2, 9, 4, 7};
  assert_memory_equal(edge, right, sizeof right);
  assert_int_equal(pbCollision_Points(triangle, 3, 3, point), 5);
  const int points[] = {1, 2, 4, 7, 9};
  assert_memory_equal(point, points, sizeof points);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_closest),       cmocka_unit_test(test_advance), cmocka_unit_test(test_advance_never_passes),
      cmocka_unit_test(test_advance_plane), cmocka_unit_test(test_sides),   cmocka_unit_test(test_crossings),
      cmocka_unit_test(test_pairs),         cmocka_unit_test(test_lists)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
