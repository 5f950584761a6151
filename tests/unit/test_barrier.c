// Barrier and friction: every derivative against complex step, a continuous gradient where closest features change, laws of contact.
#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mutate.h"
#include "barrier/parts.h"
#include <pullback/random.h>
#include "energy/energy_inside.h"
#include "support/meter.h"
#include "support/support.h"

static double uniform(pbRng *r, double lo, double hi) { return lo + (hi - lo) * pbRng_Uniform(r); }
static void *cleared(size_t count, size_t size) {
  void *memory = calloc(count + 1, size);
  assert_non_null(memory);
  return memory;
}

// ---- a scene of a few meshes ----------------------------------------------------------------------------------------
enum { most_vertices = 12000, most_groups = 4 };
typedef struct Scene {
  int vertices, edges, triangles, points, planes;
  int group[most_vertices], point[most_vertices], edge[6 * most_vertices], triangle[6 * most_vertices], plane[6];
  double X[3 * most_vertices];
  bool collide[most_groups * most_groups];
  double kappa[most_groups * most_groups], mu[most_groups * most_groups], radius[most_groups];
  pbBarrierValues values;
} Scene;
static Scene scene;

static Scene *scene_new(double dhat) {
  Scene *s = &scene;
  memset(s, 0, sizeof *s);
  for (int k = 0; k < most_groups * most_groups; k++) {
    s->collide[k] = true;
    s->kappa[k] = 100 + k;
    s->mu[k] = .3 + .05 * k;
  }
  s->values = (pbBarrierValues){.kappa = s->kappa, .mu = s->mu, .radius = s->radius, .dhat = dhat, .eps_v = 1e-2};
  return s;
}
static int add_vertex(Scene *s, int group, double x, double y, double z) {
  int v = s->vertices++;
  s->group[v] = group;
  s->X[3 * v] = x;
  s->X[3 * v + 1] = y;
  s->X[3 * v + 2] = z;
  return v;
}
static void add_point(Scene *s, int v) { s->point[s->points++] = v; }
static void add_edge(Scene *s, int a, int b) {
  s->edge[2 * s->edges] = a;
  s->edge[2 * s->edges + 1] = b;
  s->edges++;
}
static void add_triangle(Scene *s, int a, int b, int c) {
  int *t = s->triangle + 3 * s->triangles++;
  t[0] = a;
  t[1] = b;
  t[2] = c;
}
// n x n squares with middle z; all its points and edges too, unless it is to be met by points alone
static void add_sheet(Scene *s, int group, int n, double side, double z, double bump, bool edges, pbRng *r) {
  int first = s->vertices, from = s->triangles;
  for (int i = 0; i <= n; i++)
    for (int j = 0; j <= n; j++)
      add_vertex(s, group, side * ((double)i / n - .5), side * ((double)j / n - .5),
                 z + (bump > 0 ? uniform(r, -bump, bump) : 0));
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) {
      int a = first + i * (n + 1) + j, b = a + n + 1;
      if ((i + j) % 2) {
        add_triangle(s, a, b, a + 1);
        add_triangle(s, b, b + 1, a + 1);
      } else {
        add_triangle(s, a, b, b + 1);
        add_triangle(s, a, b + 1, a + 1);
      }
    }
  }
  if (!edges) return;
  for (int v = first; v < s->vertices; v++) add_point(s, v);
  s->edges += pbCollision_Edges(s->triangle + 3 * from, s->triangles - from, s->edge + 2 * s->edges);
}
static void add_box(Scene *s, int group, const double *half) {
  static const int quad[6][4] = {{0, 2, 3, 1}, {4, 5, 7, 6}, {0, 1, 5, 4}, {2, 6, 7, 3}, {0, 4, 6, 2}, {1, 3, 7, 5}};
  int v = s->vertices, from = s->triangles;
  for (int k = 0; k < 8; k++)
    add_point(s, add_vertex(s, group, k & 1 ? half[0] : -half[0], k & 2 ? half[1] : -half[1], k & 4 ? half[2] : -half[2]));
  for (int k = 0; k < 6; k++) {
    const int *q = quad[k];
    add_triangle(s, v + q[0], v + q[1], v + q[2]);
    add_triangle(s, v + q[0], v + q[2], v + q[3]);
  }
  s->edges += pbCollision_Edges(s->triangle + 3 * from, 12, s->edge + 2 * s->edges);
}

static pbContext *ctx;
static pbCollision *collision;
static pbBarrier *barrier;

// With as much room as it takes.
static pbStatus roomy_begin(const pbBarrierValues *values, const double *y, const double *X) {
  pbStatus status;
  while ((status = pbBarrier_Begin(barrier, values, y, X)) == pb_capacity) {
    if ((status = pbBarrier_Grow(barrier)) != pb_ok) return status;
  }
  return status;
}
static pbStatus roomy_update(const pbBarrierValues *values, const double *x, const double *X) {
  pbStatus status;
  while ((status = pbBarrier_Update(barrier, values, x, X)) == pb_capacity) {
    if ((status = pbBarrier_Grow(barrier)) != pb_ok) return status;
  }
  return status;
}

static void scene_open(Scene *s, pbBarrierFriction friction) {
  pbCollisionDef def = {.vertices = s->vertices,
                        .group = s->group,
                        .groups = most_groups,
                        .collide = s->collide,
                        .points = s->points,
                        .point = s->point,
                        .edges = s->edges,
                        .edge = s->edge,
                        .triangles = s->triangles,
                        .triangle = s->triangle,
                        .planes = s->planes,
                        .plane = s->plane,
                        .friction = friction};
  ctx = pbContext_Create(NULL);
  if (pbCollision_Create(ctx, &def, &collision) != pb_ok) fail_msg("%s", pbContext_Error(ctx));
  assert_int_equal(pbBarrier_Create(ctx, collision, 0, &barrier), pb_ok);
}
static void scene_close(void) {
  pbBarrier_Destroy(barrier);
  pbCollision_Destroy(collision);
  pbContext_Destroy(ctx);
}

// Sum of energies of the lists; their gradient added to g (3 per vertex)
static double evaluate(bool friction, const double *x, const double *X, const double *y, double h, double *g) {
  double sum = 0;
  for (pbStencilType type = 0; type < pb_stencilTypes; type++) {
    const pbStencils *s = friction ? pbBarrier_Friction(barrier, type) : pbBarrier_Contacts(barrier, type);
    if (!s->count) continue;
    double *value = cleared((size_t)s->count, 8), *gradient = cleared((size_t)s->count * 12, 8);
    void *work = cleared(pbEnergy_WorkSize(s->energy), 1);
    pbElements e = pbStencils_Elements(s, x, X, y, h);
    pbEnergyFault fault;
    if (!pbEnergy_Evaluate(s->energy, &e, &(pbElementsOut){value, gradient, NULL}, work, &fault))
      fail_msg("type %d: %s", type, fault.what);
    for (int k = 0; k < s->count; k++) sum += value[k];
    for (int k = 0; g && k < s->count * s->points; k++)
      for (int i = 0; i < 3; i++) g[3 * s->vertex[k] + i] += gradient[3 * k + i];
    free(value);
    free(gradient);
    free(work);
  }
  return sum;
}

static void update(const Scene *s, const double *x) {
  if (roomy_update(&s->values, x, s->X) != pb_ok) fail_msg("%s", pbBarrier_Error(barrier));
}

static double potential(const Scene *s, const double *x, double *g) {
  update(s, x);
  if (g) memset(g, 0, (size_t)s->vertices * 3 * sizeof *g);
  return evaluate(false, x, s->X, NULL, 0, g);
}

// ---- formulas one by one --------------------------------------------------------------------------------------------
enum { numbers = 36 + 7 };  // x, X, y of four vertices, then parameters and the time step
typedef struct Stencil {
  double at[numbers];
} Stencil;
enum { at_X = 12, at_y = 24, at_parameter = 36, at_h = 42 };

// An element in the region of its type, at a gap of `gap` dhat, moved by some `slide` eps_v h; near parallel edges where asked for.
static Stencil make_stencil(pbRng *r, pbStencilType type, double gap, double slide, double xi, bool parallel) {
  Stencil s;
  double dhat = .1, h = .01, eps_v = .02, *x = s.at, d = xi + gap * dhat, far = 1;
  const double parameter[] = {1, 200, xi, dhat, .4, eps_v};
  for (int k = 0; k < 12; k++) x[k] = uniform(r, -.1, .1);
  if (type == pb_stencilPP) {
    x[3] = x[0];
    x[4] = x[1];
    x[5] = x[2] + d;
  }
  if (type == pb_stencilPE) {
    x[3] -= far;
    x[6] += far;
    x[5] = x[8] = x[2] + d;
    x[4] = x[7] = x[1];
  }
  if (type == pb_stencilPT || type == pb_stencilPN) {
    x[2] = d;
    x[5] = x[8] = x[11] = 0;
    x[3] -= far;
    x[6] += far;
    x[7] -= far;
    x[9] += far;
    x[10] += far;
  }
  if (type == pb_stencilEE) {
    double turn = parallel ? uniform(r, .005, .02) : 1;
    for (int k = 0; k < 6; k++) {
      x[k] = 0;
      x[6 + k] = 0;
    }
    x[0] = -far;
    x[3] = far * uniform(r, .5, 1);
    x[2] = x[5] = d;
    x[6] = -far * uniform(r, .5, 1);
    x[9] = far;
    x[7] = -turn * .3;
    x[10] = turn * .3;
  }
  if (type == pb_stencilEPE || type == pb_stencilEPP) {
    double turn = parallel ? 0 : uniform(r, -.02, .02);
    bool inside = type == pb_stencilEPE;
    const double edges[12] = {0, 0, d, far, turn, 1.5 * d, inside ? -.5 : 0, 0, 0, inside ? far : -far, 0, 0};
    memcpy(x, edges, sizeof edges);
  }
  double axis[3] = {uniform(r, -1, 1), uniform(r, -1, 1), uniform(r, -1, 1)}, angle = uniform(r, 0, 3),
         length = sqrt(dot(axis, axis, 3));
  for (int k = 0; k < 4; k++) {  // turned somehow
    double c = cos(angle), sn = sin(angle), *p = x + 3 * k, a[3], q[3];
    for (int i = 0; i < 3; i++) a[i] = axis[i] / length;
    for (int i = 0; i < 3; i++)
      q[i] = c * p[i] + sn * (a[(i + 1) % 3] * p[(i + 2) % 3] - a[(i + 2) % 3] * p[(i + 1) % 3]) + (1 - c) * dot(a, p, 3) * a[i];
    memcpy(p, q, sizeof q);
  }
  double by[3] = {uniform(r, -1, 1), uniform(r, -1, 1), uniform(r, -1, 1)};
  int side = type <= pb_stencilPT || type == pb_stencilPN ? 3 : 6;  // numbers of the first of the two primitives
  for (int k = 0; k < 12; k++) {
    s.at[at_X + k] = x[k] * 1.1 + uniform(r, -.01, .01);
    s.at[at_y + k] = x[k] + slide * eps_v * h * ((k < side ? by[k % 3] : 0) + uniform(r, -.02, .02));
  }
  if (type == pb_stencilPP || type == pb_stencilPE)
    for (int k = 9; k < 12; k++) s.at[at_X + k] = s.at[at_y + k] = 0;
  memcpy(s.at + at_parameter, parameter, sizeof parameter);
  s.at[at_h] = h;
  return s;
}

static const int in_order[4] = {0, 1, 2, 3};
static void *scratch;

static bool run_complex(const pbEnergy *e, const double complex *n, double complex *value, double complex *gradient) {
  const void *parameter[pb_stencilParameters];
  for (int k = 0; k < pb_stencilParameters; k++) parameter[k] = n + at_parameter + k;
  double complex zero = 0;
  pbComplexElements c = {.count = 1,
                         .vertex = in_order,
                         .x = n,
                         .rest = n + at_X,
                         .previous = n + at_y,
                         .parameter = parameter,
                         .timestep = n + at_h,
                         .time = &zero};
  return pbEnergy_EvaluateComplex(e, &c, &(pbComplexOut){.value = value, .gradient = gradient}, scratch, NULL);
}

// Derivatives by entry k of value and of gradient
static void step_along(const pbEnergy *e, const Stencil *s, int k, double *value, double *gradient) {
  double complex n[numbers], v, g[12];
  for (int i = 0; i < numbers; i++) n[i] = s->at[i];
  n[k] += I * 1e-200;
  assert_true(run_complex(e, n, &v, g));
  *value = cimag(v) * 1e200;
  for (int i = 0; i < 12; i++) gradient[i] = cimag(g[i]) * 1e200;
}

typedef struct Worst {
  double gradient, hessian, pullback, sum;
} Worst;

static void check_formula(const pbEnergy *e, const Stencil *s, pbRng *r, Worst *worst) {
  int n = 3 * pbEnergy_Definition(e)->points, count = pbEnergy_Definition(e)->parameter_count;
  double value, g[12], H[144], w[12], bar[numbers] = {0}, size_g = 1e-30, size_h = 1e-30;
  const double *parameter[pb_stencilParameters];
  double *parameter_bar[pb_stencilParameters];
  for (int k = 0; k < pb_stencilParameters; k++) {
    parameter[k] = s->at + at_parameter + k;
    parameter_bar[k] = k ? bar + at_parameter + k : NULL;
  }
  pbElements el = {.count = 1,
                   .vertex = in_order,
                   .x = s->at,
                   .rest = s->at + at_X,
                   .previous = s->at + at_y,
                   .parameter = parameter,
                   .timestep = s->at[at_h]};
  pbEnergyFault fault;
  if (!pbEnergy_Evaluate(e, &el, &(pbElementsOut){&value, g, H}, scratch, &fault))
    fail_msg("%s: %s", pbEnergy_Definition(e)->name, fault.what);
  for (int i = 0; i < n; i++) {
    w[i] = uniform(r, -1, 1);
    size_g = fmax(size_g, fabs(g[i]));
  }
  for (int i = 0; i < n * n; i++) size_h = fmax(size_h, fabs(H[i]));
  pbElementsBar b = {.x = bar, .rest = bar + at_X, .previous = bar + at_y, .parameter = parameter_bar, .timestep = bar + at_h};
  assert_true(pbEnergy_Pullback(e, &el, w, &b, scratch, NULL));
  for (int k = 0; k < numbers; k++) {
    double dv, dg[12], size = 1e-30;
    if ((k % 12 >= n && k < at_parameter) || (k >= at_parameter + count && k < at_h) || k == at_parameter) continue;
    step_along(e, s, k, &dv, dg);
    if (k < n && pbEnergy_Symmetric(e)) worst->gradient = fmax(worst->gradient, fabs(dv - g[k]) / size_g);
    for (int i = 0; i < n; i++) size += fabs(w[i] * dg[i]);
    for (int i = 0; k < n && i < n; i++) worst->hessian = fmax(worst->hessian, fabs(dg[i] - H[i * n + k]) / size_h);
    worst->pullback = fmax(worst->pullback, fabs(bar[k] - dot(w, dg, n)) / fmax(size, k < at_parameter ? size_h : size_g));
  }
  for (int i = 0; i < 3; i++) {
    double sum = 0;
    for (int k = 0; k < n / 3; k++) sum += g[3 * k + i];
    worst->sum = fmax(worst->sum, fabs(sum) / size_g);
  }
}

static void open_formulas(pbBarrierFriction friction) {
  Scene *s = scene_new(.1);
  add_point(s, add_vertex(s, 0, 0, 0, 0));
  scene_open(s, friction);
  size_t most = 0;
  for (int t = 0; t < pb_stencilTypes; t++) {
    const pbEnergy *both[2] = {collision->contact_energy[t], collision->friction_energy[t]};
    for (int k = 0; k < 2; k++)
      if (both[k]) most = fmax(most, fmax(pbEnergy_WorkSize(both[k]), pbEnergy_WorkSizeComplex(both[k])));
  }
  scratch = cleared(most, 1);
}
static void close_formulas(void) {
  free(scratch);
  scene_close();
}

static void test_formulas(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(1);
  for (pbBarrierFriction f = pb_barrierNone; f <= pb_barrierImplicit; f++) {
    open_formulas(f);
    Worst w = {0};
    for (int trial = 0; trial < 700; trial++) {
      pbStencilType type = trial % pb_stencilTypes;
      double gap = trial % 3 ? uniform(&r, .05, .95) : .999, slide = trial % 5 == 0   ? 0
                                                                     : trial % 5 == 1 ? .1
                                                                     : trial % 5 == 2 ? 1
                                                                                      : 4;
      Stencil s = make_stencil(&r, type, gap, slide, trial % 2 ? 0 : .05, trial % 4 < 2);
      const pbEnergy *e = f ? collision->friction_energy[type] : collision->contact_energy[type];
      assert_true(pbEnergy_Symmetric(e) == (f != pb_barrierImplicit));
      check_formula(e, &s, &r, &w);
    }
    print_message("%s: gradient %.1e, Hessian %.1e, pullback %.1e off; forces add up to %.1e\n",
                  f == 0   ? "contact"
                  : f == 1 ? "lagged friction"
                           : "implicit friction",
                  w.gradient, w.hessian, w.pullback, w.sum);
    assert_true(w.gradient < 1e-11 && w.hessian < 1e-10 && w.pullback < 1e-10 && w.sum < 1e-11);
    close_formulas();
  }
}

#ifdef PULLBACK_MUTATE
// How far a formula's pullback is off, emptied (0), halved (.5), as it is (1).
static double pullback_off(const pbEnergy *e, const Stencil *s, double factor) {
  pbRng r = pbRng_Seed(2);
  Worst w = {0};
  pb_mutation = (pbMutation){.list = pb_muteEnergy, .name = pbEnergy_Definition(e)->name, .factor = factor};
  check_formula(e, s, &r, &w);
  pb_mutation = (pbMutation){.list = pb_muteNothing};
  return w.pullback;
}

static void test_every_pullback_is_seen(void **state) {
  (void)state;
  static const char *const forces[] = {"contact", "lagged friction", "implicit friction"};
  pbRng r = pbRng_Seed(1);
  for (pbBarrierFriction f = pb_barrierNone; f <= pb_barrierImplicit; f++) {
    open_formulas(f);
    for (pbStencilType type = 0; type < pb_stencilTypes; type++) {
      Stencil s = make_stencil(&r, type, .5, 1, .05, false);
      const pbEnergy *e = f ? collision->friction_energy[type] : collision->contact_energy[type];
      const char *name = pbEnergy_Definition(e)->name;
      assert_true(pullback_off(e, &s, 1) < 1e-10);
      if (pullback_off(e, &s, 0) < 1e-3 || pullback_off(e, &s, .5) < 1e-3) fail_msg("%s of %s may be lost", forces[f], name);
      print_message("barrier,\"%s of %s\",unit/test_barrier,red\n", forces[f], name);
    }
    close_formulas();
  }
}
#endif

// ---- the potential as a whole ---------------------------------------------------------------------------------------
// Gap function of the header, by hand
static double barrier_of(double kappa, double dhat, double xi, double d) {
  double s = (d * d - xi * xi) / (dhat * (dhat + 2 * xi));
  return s < 1 ? -kappa * dhat * dhat * (1 - s) * (1 - s) * log(s) : 0;
}

// A point over a flat surface feels the height alone, wherever triangles meet; beyond edges and corners the distance from them.
static void test_surface_counts_once(void **state) {
  (void)state;
  Scene *s = scene_new(.3);
  pbRng r = pbRng_Seed(2);
  add_sheet(s, 0, 7, 2, 0, 0, false, &r);
  int v = add_vertex(s, 1, 0, 0, 0);
  add_point(s, v);
  s->radius[0] = .02;
  s->radius[1] = .03;
  scene_open(s, pb_barrierNone);
  static double x[3 * most_vertices], g[3 * most_vertices];
  memcpy(x, s->X, sizeof x);
  double worst = 0, kappa = s->kappa[1];
  for (int k = 0; k < 2000; k++) {
    double *p = x + 3 * v;
    for (int i = 0; i < 2; i++) p[i] = k % 4 == 0 ? ((int)uniform(&r, 0, 7)) / 3.5 - 1 : uniform(&r, -1.2, 1.2);  // lines too
    if (k % 8 == 0) p[1] = p[0];
    p[2] = uniform(&r, .06, .4);
    double beyond[3] = {fmax(0, fabs(p[0]) - 1), fmax(0, fabs(p[1]) - 1), p[2]}, d = sqrt(dot(beyond, beyond, 3));
    double right = barrier_of(kappa, .3, .05, d), E = potential(s, x, g);
    worst = fmax(worst, fabs(E - right) / kappa);
  }
  print_message("point over a flat surface of 98 triangles: energy off by %.1e\n", worst);
  assert_true(worst < 1e-14);
  scene_close();
}

// Twice differentiable at dhat; force at half the gap as documented; infinite where the gap is closed, or behind a plane.
static void test_barrier_function(void **state) {
  (void)state;
  Scene *s = scene_new(.1);
  int o = add_vertex(s, 0, 0, 0, 0), a = add_vertex(s, 0, 1, 0, 0), b = add_vertex(s, 0, 0, 1, 0),
      p = add_vertex(s, 1, 4, -3, .05);
  add_point(s, p);
  s->planes = 1;
  s->plane[0] = o;
  s->plane[1] = a;
  s->plane[2] = b;
  scene_open(s, pb_barrierNone);
  double x[12], g[12], H[144], E;
  memcpy(x, s->X, sizeof x);
  E = potential(s, x, g);
  assert_true(fabs(E - barrier_of(s->kappa[1], .1, 0, .05)) < 1e-15 * s->kappa[1]);
  assert_true(fabs(-g[3 * p + 2] / (s->kappa[1] * .1) - 4.3295) < 1e-3);
  const pbStencils *plane = pbBarrier_Contacts(barrier, pb_stencilPN);
  assert_int_equal(plane->count, 1);
  void *work = cleared(pbEnergy_WorkSize(plane->energy), 1);
  for (int side = -1; side <= 1; side += 2) {
    x[11] = .1 * (1 + side * 1e-7);
    pbElements e = pbStencils_Elements(plane, x, NULL, NULL, 0);
    assert_true(pbEnergy_Evaluate(plane->energy, &e, &(pbElementsOut){&E, g, H}, work, NULL));
    for (int i = 0; i < 12; i++) assert_true(fabs(g[i]) < 1e-11 * s->kappa[1]);
    for (int i = 0; i < 144; i++) assert_true(fabs(H[i]) < 1e-4 * s->kappa[1]);
  }
  for (x[11] = 0; x[11] > -.2; x[11] -= .15) {
    pbElements e = pbStencils_Elements(plane, x, NULL, NULL, 0);
    assert_false(pbEnergy_Evaluate(plane->energy, &e, &(pbElementsOut){.value = &E}, work, NULL));
    assert_true(E == INFINITY);
  }
  free(work);
  scene_close();
}

// ---- closest features change ----------------------------------------------------------------------------------------
static void open_crowd(pbRng *r, pbBarrierFriction friction) {
  Scene *s = scene_new(.25);
  add_sheet(s, 0, 4, 1, 0, .02, true, r);
  int box = s->vertices;
  add_box(s, 1, (double[]){.15, .12, .1});
  for (int v = box; v < s->vertices; v++) s->X[3 * v + 2] += .2;
  int rod = s->vertices;
  for (int k = 0; k < 3; k++) add_point(s, add_vertex(s, 2, .3, -.3 + .3 * k, .15));
  add_edge(s, rod, rod + 1);
  add_edge(s, rod + 1, rod + 2);
  int other = s->vertices;  // parallel to the first
  for (int k = 0; k < 2; k++) add_point(s, add_vertex(s, 2, .3, -.25 + .35 * k, .25));
  add_edge(s, other, other + 1);
  for (int k = 0; k < 3; k++) add_point(s, add_vertex(s, 3, -.3 + .2 * k, .3, .15 + .01 * k));
  s->radius[0] = .005;
  s->radius[1] = .002;
  s->radius[2] = .01;
  s->radius[3] = .03;
  int o = add_vertex(s, 3, 0, 0, -.285), a = add_vertex(s, 3, 1, 0, -.285), b = add_vertex(s, 3, 0, 1, -.285);
  s->planes = 1;
  s->plane[0] = o;
  s->plane[1] = a;
  s->plane[2] = b;
  s->collide[3 * most_groups + 3] = true;
  scene_open(s, friction);
}

typedef struct Path {  // each vertex on its own way around X, each body along
  double slide[most_groups][3], sway[3 * 64], phase[3 * 64];
} Path;
static void random_path(Path *p, pbRng *r, double amount) {
  for (int k = 0; k < 3 * most_groups; k++) p->slide[k / 3][k % 3] = k % 3 == 2 ? 0 : uniform(r, -.12, .12);
  for (int k = 0; k < 3; k++) p->slide[3][k] = 0;  // so that the plane stays
  p->slide[0][2] = .04;                            // and the sheet comes and goes
  for (int k = 0; k < 3 * 64; k++) {
    p->sway[k] = uniform(r, 0, amount);
    p->phase[k] = uniform(r, 0, 6);
  }
}
static void on_path(const Scene *s, const Path *p, double t, double *x) {
  for (int k = 0; k < 3 * s->vertices; k++) {
    x[k] = s->X[k] + (t - .5) * p->slide[s->group[k / 3]][k % 3];
    if (s->vertices - k / 3 > 3) x[k] += p->sway[k] * sin(9 * t + p->phase[k]);
  }
}

// Two lists differ: bits of the types that do
static int changes(const pbStencilRow *const before[], const int *count) {
  int bits = 0;
  for (int t = 0; t < pb_stencilTypes; t++) {
    const pbStencilList *l = barrier->contact + t;
    if (l->rows != count[t] || memcmp(l->row, before[t], (size_t)count[t] * sizeof *l->row)) bits |= 1 << t;
  }
  return bits;
}

// Friction of the same sliding, begun at two moments of a path
static double friction_jump(const Path *path, double lo, double hi) {
  static double y[3 * 64], x[3 * 64], g[2][3 * 64];
  int n = 3 * scene.vertices;
  double off = 0;
  for (int side = 0; side < 2; side++) {
    on_path(&scene, path, side ? hi : lo, y);
    for (int k = 0; k < n; k++) x[k] = y[k] + 1e-4 * sin(7. * k);
    assert_int_equal(roomy_begin(&scene.values, y, scene.X), pb_ok);
    memset(g[side], 0, sizeof g[side]);
    evaluate(true, x, scene.X, y, .01, g[side]);
  }
  for (int k = 0; k < n; k++) off = fmax(off, fabs(g[1][k] - g[0][k]));
  return off / sqrt(dot(g[0], g[0], n));
}

static void test_continuous_gradient(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(3);
  static double x[3 * 64], g[3 * 64], far[3 * 64];
  double worst_E = 0, worst_g = 0, worst_f = 0;
  int events = 0, of_type[pb_stencilTypes] = {0};
  for (int trial = 0; trial < 3; trial++) {
    open_crowd(&r, pb_barrierLagged);
    Path path;
    random_path(&path, &r, trial % 3 == 0 ? .02 : trial % 3 == 1 ? 2e-3 : 1e-4);
    pbStencilRow *before[pb_stencilTypes];
    int count[pb_stencilTypes];
    enum { steps = 100 };
    for (int k = 0; k < steps; k++) {
      double lo = (double)k / steps, hi = (k + 1.) / steps;
      on_path(&scene, &path, lo, x);
      update(&scene, x);
      for (int t = 0; t < pb_stencilTypes; t++) {
        count[t] = barrier->contact[t].rows;
        before[t] = cleared((size_t)count[t], sizeof(pbStencilRow));
        if (count[t]) memcpy(before[t], barrier->contact[t].row, (size_t)count[t] * sizeof(pbStencilRow));
      }
      on_path(&scene, &path, hi, x);
      update(&scene, x);
      int bits = changes((const pbStencilRow *const *)before, count);
      for (int i = 0; bits && i < 34; i++) {
        double t = .5 * (lo + hi);
        on_path(&scene, &path, t, x);
        update(&scene, x);
        *(changes((const pbStencilRow *const *)before, count) ? &hi : &lo) = t;
      }
      if (bits) {
        on_path(&scene, &path, lo, x);
        double E = potential(&scene, x, g), size = sqrt(dot(g, g, 3 * scene.vertices)), off = 0;
        on_path(&scene, &path, hi, x);
        double E2 = potential(&scene, x, far);
        bits = changes((const pbStencilRow *const *)before, count);
        for (int i = 0; i < 3 * scene.vertices; i++) off = fmax(off, fabs(far[i] - g[i]));
        worst_E = fmax(worst_E, fabs(E2 - E) / E);
        worst_g = fmax(worst_g, off / size);
        for (int t = 0; t < pb_stencilTypes; t++) of_type[t] += bits >> t & 1;
        worst_f = fmax(worst_f, friction_jump(&path, lo, hi));
        events++;
      }
      for (int t = 0; t < pb_stencilTypes; t++) free(before[t]);
    }
    scene_close();
  }
  print_message("%d changes of lists (", events);
  for (int t = 0; t < pb_stencilTypes; t++) print_message("%d%s", of_type[t], t + 1 < pb_stencilTypes ? " " : ")");
  print_message(": energy jumps by %.1e, gradient by %.1e, friction by %.1e\n", worst_E, worst_g, worst_f);
  assert_true(worst_E < 1e-10 && worst_g < 1e-7 && worst_f < 1e-6 && events > 200);
  for (int t = 0; t < pb_stencilTypes; t++) assert_true(of_type[t] > 2);
}

static void test_invariance(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(4);
  open_crowd(&r, pb_barrierNone);
  const Scene *s = &scene;
  double c = cos(.7), sn = sin(.7), x[3 * 64], g[3 * 64], turned[3 * 64], worst = 0, total[6] = {0};
  double E = potential(s, s->X, g), size = sqrt(dot(g, g, 3 * s->vertices));
  for (int v = 0; v < s->vertices; v++) {
    const double *p = s->X + 3 * v, *f = g + 3 * v;
    x[3 * v] = c * p[0] - sn * p[1] + 3;
    x[3 * v + 1] = sn * p[0] + c * p[1] - 2;
    x[3 * v + 2] = p[2] + 1;
    for (int i = 0; i < 3; i++) {
      total[i] += f[i];
      total[3 + i] += p[(i + 1) % 3] * f[(i + 2) % 3] - p[(i + 2) % 3] * f[(i + 1) % 3];
    }
  }
  double E2 = potential(s, x, turned);
  for (int v = 0; v < s->vertices; v++) {
    const double *f = g + 3 * v, *q = turned + 3 * v;
    worst =
        fmax(worst, fmax(fabs(c * f[0] - sn * f[1] - q[0]), fmax(fabs(sn * f[0] + c * f[1] - q[1]), fabs(f[2] - q[2]))) / size);
  }
  for (int i = 0; i < 6; i++) worst = fmax(worst, fabs(total[i]) / size);
  print_message("%d stencils turned: gradient off by %.1e\n", pbBarrier_ContactCount(barrier), worst);
  assert_true(worst < 1e-11 && fabs(E - E2) < 1e-12 * E);
  scene_close();
}

// Differences of energy and gradient along v
static void check_differences(const char *what, const double *x, const double *y, double h, bool friction, double scale) {
  Scene *s = &scene;
  int n = 3 * s->vertices;
  static double g[3 * 64], a[3 * 64], b[3 * 64], v[3 * 64], q[3 * 64];
  pbRng r = pbRng_Seed(5);
  assert_true(roomy_begin(&s->values, y, s->X) == pb_ok);
  for (int along = 0; along < 4; along++) {
    double E[2], slope;
    for (int side = 1; side >= -1; side--) {
      double *to = side > 0 ? a : side < 0 ? b : g;
      memset(to, 0, sizeof g);
      if (side == 1) {  // direction first
        memset(g, 0, sizeof g);
        assert_true(roomy_update(&s->values, x, s->X) == pb_ok);
        evaluate(friction, x, s->X, y, h, g);
        double size = sqrt(dot(g, g, n));
        for (int k = 0; k < n; k++) v[k] = along ? uniform(&r, -1, 1) : g[k] / size;
      }
      for (int k = 0; k < n; k++) q[k] = x[k] + side * scale * v[k];
      assert_true(roomy_update(&s->values, q, s->X) == pb_ok);
      double e = evaluate(friction, q, s->X, y, h, to);
      if (side) E[side < 0] = e;
    }
    slope = (E[0] - E[1]) / (2 * scale);
    double exact = dot(g, v, n), error = fabs(slope - exact) / sqrt(dot(g, g, n) * dot(v, v, n));
    print_message("%s, %s: %.1e\n", what, along ? "random" : "along the gradient", error);
    assert_true(error < 1e-6);
  }
}

static void test_differences(void **state) {
  (void)state;
  for (int k = 0; k < 4; k++) {  // two rods, nearly parallel, at dhat, and at half of it; a point that just leaves
    Scene *s = scene_new(.1);
    double z = k == 0 ? .0999 : k == 1 ? .05 : .09999;
    add_edge(s, add_vertex(s, 0, -1, 0, 0), add_vertex(s, 0, 1, 0, 0));
    if (k < 2) add_edge(s, add_vertex(s, 1, -1, -.01, z), add_vertex(s, 1, .9, .008, z));
    else add_point(s, add_vertex(s, 1, .1, 0, z));
    if (k == 3) s->X[8] = .05;
    scene_open(s, pb_barrierLagged);
    double y[12], h = .01;
    memcpy(y, s->X, sizeof y);
    if (k == 3) {
      y[6] -= .8 * s->values.eps_v * h;
      y[7] += .6 * s->values.eps_v * h;
    }  // sliding at eps_v
    static const char *const names[] = {"near parallel at dhat", "near parallel", "just separating", "stick to slip"};
    check_differences(names[k], s->X, y, h, k == 3, k == 3 ? 1e-8 : k == 1 ? 1e-7 : 1e-9);
    scene_close();
  }
}

// ---- cotangents of the groups' values -------------------------------------------------------------------------------
static double paired(const Scene *s, pbBarrierFriction friction, const double *x, const double *y, const double *w, double h) {
  static double g[3 * 64];
  memset(g, 0, sizeof g);
  assert_int_equal(roomy_begin(&s->values, y, s->X), pb_ok);
  assert_int_equal(roomy_update(&s->values, x, s->X), pb_ok);
  evaluate(false, x, s->X, y, h, g);
  if (friction) evaluate(true, x, s->X, y, h, g);
  return dot(w, g, 3 * s->vertices);
}

static void test_values(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(6);
  for (pbBarrierFriction f = pb_barrierNone; f <= pb_barrierImplicit; f++) {
    open_crowd(&r, f);
    Scene *s = &scene;
    int n = 3 * s->vertices, pairs = most_groups * most_groups;
    double x[3 * 64], y[3 * 64], w[3 * 64], bar_x[3 * 64] = {0}, bar_X[3 * 64] = {0}, bar_y[3 * 64] = {0}, h = .01;
    double kappa[most_groups * most_groups] = {0}, mu[most_groups * most_groups] = {0}, radius[most_groups] = {0}, dhat = 0,
                               eps = 0;
    Path path;
    random_path(&path, &r, .01);
    on_path(s, &path, .3, x);
    for (int k = 0; k < n; k++) {
      y[k] = x[k] + uniform(&r, -2e-4, 2e-4);
      w[k] = uniform(&r, -1, 1);
    }
    paired(s, f, x, y, w, h);
    pbElementsBar points = {.x = bar_x, .rest = bar_X, .previous = bar_y};
    pbBarrierBar values = {kappa, mu, radius, &dhat, &eps};
    for (int k = 0; k < 2 * pb_stencilTypes; k++) {
      const pbStencils *st =
          k < pb_stencilTypes ? pbBarrier_Contacts(barrier, k) : pbBarrier_Friction(barrier, k - pb_stencilTypes);
      if (!st->count) continue;
      void *work = cleared(pbEnergy_WorkSize(st->energy), 1);
      pbElements e = pbStencils_Elements(st, x, s->X, y, h);
      assert_true(pbStencils_Pullback(barrier, st, &e, w, &points, &values, work, NULL));
      free(work);
    }
    double *const at[] = {s->kappa, s->mu, s->radius, &s->values.dhat, &s->values.eps_v, x, s->X, y};
    const double *const bar[] = {kappa, mu, radius, &dhat, &eps, bar_x, bar_X, bar_y};
    const int sizes[] = {pairs, pairs, most_groups, 1, 1, n, n, n};
    double worst = 0;
    for (int k = 0; k < 8; k++) {
      double v[3 * 64], exact = 0, size = 0, step = k == 0 ? 1e-3 : k == 1 ? 1e-4 : 1e-7, side[2];
      for (int i = 0; i < sizes[k]; i++) {
        v[i] = uniform(&r, -1, 1);
        exact += v[i] * bar[k][i];
        size += fabs(v[i] * bar[k][i]);
      }
      for (int d = 0; d < 2; d++) {
        for (int i = 0; i < sizes[k]; i++) at[k][i] += (d ? -2 : 1) * step * v[i];
        side[d] = paired(s, f, x, y, w, h);
      }
      for (int i = 0; i < sizes[k]; i++) at[k][i] += step * v[i];
      if (size > 0) worst = fmax(worst, fabs((side[0] - side[1]) / (2 * step) - exact) / size);
      else assert_true(f == pb_barrierNone && (k == 1 || k == 4 || k == 7));
    }
    print_message("cotangents with friction %d: %.1e off differences\n", f, worst);
    assert_true(worst < 1e-6);
    scene_close();
  }
}

// ---- friction -------------------------------------------------------------------------------------------------------
static void test_friction_law(void **state) {
  (void)state;
  for (pbBarrierFriction f = pb_barrierLagged; f <= pb_barrierImplicit; f++) {
    Scene *s = scene_new(.1);
    int o = add_vertex(s, 0, 0, 0, 0), a = add_vertex(s, 0, 1, 0, 0), b = add_vertex(s, 0, 0, 1, 0);
    add_point(s, add_vertex(s, 1, .3, .2, .04));
    s->planes = 1;
    s->plane[0] = o;
    s->plane[1] = a;
    s->plane[2] = b;
    scene_open(s, f);
    double x[12], y[12], g[12], contact[12] = {0}, h = .01, mu = s->mu[1], eps = s->values.eps_v;
    for (int k = 0; k < 3; k++) {
      double speed = k == 0 ? 0 : k == 1 ? .5 * eps : 3 * eps;
      memcpy(x, s->X, sizeof x);
      memcpy(y, s->X, sizeof y);
      x[9] += .6 * speed * h;
      x[10] += .8 * speed * h;
      assert_int_equal(roomy_begin(&s->values, y, s->X), pb_ok);
      potential(s, x, contact);
      memset(g, 0, sizeof g);
      evaluate(true, x, s->X, y, h, g);
      double force = mu * fabs(contact[11]) * (speed >= eps ? 1 : speed / eps * (2 - speed / eps));
      assert_true(fabs(g[9] - .6 * force) < 1e-9 * fabs(contact[11]) && fabs(g[10] - .8 * force) < 1e-9 * fabs(contact[11]));
      assert_true(fabs(g[11]) < 1e-13 * fabs(contact[11]));
      for (int i = 0; i < 3; i++) assert_true(fabs(g[i] + g[3 + i] + g[6 + i] + g[9 + i]) < 1e-12 * fabs(contact[11]));
    }
    const pbStencils *st = pbBarrier_Friction(barrier, pb_stencilPN);
    double H[144];
    void *work = cleared(pbEnergy_WorkSize(st->energy), 1);
    pbElements e = pbStencils_Elements(st, y, s->X, y, h);  // at rest: the slope of the rise from zero
    assert_true(pbEnergy_Evaluate(st->energy, &e, &(pbElementsOut){.hessian = H}, work, NULL));
    assert_true(fabs(H[0] / (mu * fabs(contact[11]) * 2 / (eps * h)) - 1) < 1e-8 && fabs(H[1 * 12]) < 1e-6 * H[0]);
    free(work);
    scene_close();
  }
}

// ---- motion ---------------------------------------------------------------------------------------------------------
static void test_motion(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(7);
  open_crowd(&r, pb_barrierNone);
  Scene *s = &scene;
  double x[3 * 64], dx[3 * 64], step, least = 1;
  memcpy(x, s->X, sizeof x);
  int whole = 0;
  for (int k = 0; k < 200; k++) {
    double amount = pow(10, uniform(&r, -3, 0));
    for (int i = 0; i < 3 * s->vertices; i++)
      dx[i] = i / 3 >= s->vertices - 3 ? 0 : amount * uniform(&r, -1, 1) + .2 * (s->X[i] - x[i]);
    if (k % 10 == 0) assert_int_equal(roomy_begin(&s->values, x, s->X), pb_ok);
    if (pbBarrier_MaxStep(barrier, &s->values, x, dx, .2, &step) != pb_ok) fail_msg("%s", pbBarrier_Error(barrier));
    assert_true(step > 0 && step <= 1);
    for (int i = 0; i < 3 * s->vertices; i++) x[i] += step * dx[i];
    if (pbBarrier_Check(barrier, &s->values, x) != pb_ok) fail_msg("%d: %s", k, pbBarrier_Error(barrier));
    assert_true(isfinite(potential(s, x, NULL)));
    whole += step == 1;
    least = fmin(least, step);
  }
  print_message("200 random motions: %d whole, least step %.1e\n", whole, least);
  assert_true(whole > 5 && whole < 195);
  scene_close();
}

static void expect_in(const char *said, pbStatus got, pbStatus status, const char *text) {
  if (got != status || !strstr(said, text)) fail_msg("status %d: %s; looked for: %s", got, said, text);
}
static void expect(pbStatus got, pbStatus status, const char *text) { expect_in(pbBarrier_Error(barrier), got, status, text); }
static void expect_made(pbStatus got, pbStatus status, const char *text) { expect_in(pbContext_Error(ctx), got, status, text); }

static void test_refused(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(8);
  open_crowd(&r, pb_barrierLagged);
  Scene *s = &scene;
  static double x[3 * 64], dx[3 * 64], step;
  memcpy(x, s->X, sizeof x);
  x[3 * 25 + 2] = -.1;  // a corner of the box through the sheet
  expect(pbBarrier_Check(barrier, &s->values, x), pb_bad_input, "meet, the first vertex at (");
  memcpy(x, s->X, sizeof x);
  x[3 * 12 + 2] = -.4;
  expect(pbBarrier_Check(barrier, &s->values, x), pb_bad_input, "point 12 (vertex 12) and plane 0");
  expect(pbBarrier_MaxStep(barrier, &s->values, x, dx, .1, &step), pb_bad_input, "have no gap");
  memcpy(x, s->X, sizeof x);
  x[3 * 39 + 2] = x[3 * 38 + 2];
  x[3 * 39] = x[3 * 38] + .059;  // spheres of radius .03
  expect(pbBarrier_Check(barrier, &s->values, x), pb_bad_input, "have no gap");
  x[40] = NAN;
  expect(roomy_update(&s->values, x, s->X), pb_not_finite, "x of vertex 13");
  expect(roomy_begin(&s->values, x, s->X), pb_not_finite, "y of vertex 13");
  dx[7] = INFINITY;
  expect(pbBarrier_MaxStep(barrier, &s->values, s->X, dx, .1, &step), pb_not_finite, "the motion of vertex 2");
  pbBarrierValues v = s->values;
  v.dhat = 0;
  expect(roomy_update(&v, s->X, s->X), pb_bad_input, "dhat is 0 m");
  s->kappa[2] = -1;
  expect(roomy_update(&s->values, s->X, s->X), pb_bad_input, "kappa of groups 0 and 2");
  s->kappa[2] = 1;
  s->mu[1] = NAN;
  expect(roomy_update(&s->values, s->X, s->X), pb_bad_input, "mu of groups 0 and 1");
  s->mu[1] = 0;
  s->radius[1] = -1;
  expect(roomy_update(&s->values, s->X, s->X), pb_bad_input, "radius of group 1");
  int group[3] = {0, 0, 1}, edge[2] = {0, 2}, same[2] = {1, 1}, out[2] = {0, 3};
  pbCollisionDef d = {.vertices = 3, .group = group, .groups = 2, .edges = 1, .edge = edge};
  pbCollision *c;
  expect_made(pbCollision_Create(ctx, &d, &c), pb_bad_input, "edge 0 has vertex 0 of group 0 and vertex 2 of group 1");
  d.edge = same;
  expect_made(pbCollision_Create(ctx, &d, &c), pb_bad_input, "edge 0 has vertex 1 twice");
  d.edge = out;
  expect_made(pbCollision_Create(ctx, &d, &c), pb_bad_input, "edge 0 has vertex 3; there are 3");
  bool odd[4] = {true, false, true, true};
  d.edges = 0;
  d.collide = odd;
  expect_made(pbCollision_Create(ctx, &d, &c), pb_bad_input, "group 1 with 0 is not as 0 with 1");
  scene_close();
}

// Flat bodies side by side in a plane: edges along each other carry by their ends.
static void test_planar(void **state) {
  (void)state;
  double x[12] = {-1, 0, 0, 1, 0, 0, -.5, .05, 0, 2, .05, 0}, values[4] = {100, 100, 100, 100}, radius[2] = {0, 0};
  int group[4] = {0, 0, 1, 1}, point[4] = {0, 1, 2, 3}, edge[4] = {0, 1, 2, 3};
  pbCollisionDef d = {
      .vertices = 4, .group = group, .groups = 2, .points = 4, .point = point, .edges = 2, .edge = edge, .planar = true};
  pbBarrierValues v = {.kappa = values, .radius = radius, .dhat = .1};
  ctx = pbContext_Create(NULL);
  assert_int_equal(pbCollision_Create(ctx, &d, &collision), pb_ok);
  assert_int_equal(pbBarrier_Create(ctx, collision, 0, &barrier), pb_ok);
  assert_int_equal(roomy_update(&v, x, x), pb_ok);
  assert_int_equal(pbBarrier_ContactCount(barrier), 2);
  assert_int_equal(pbBarrier_Contacts(barrier, pb_stencilPE)->count, 2);
  double E = evaluate(false, x, x, NULL, 0, NULL);
  assert_true(fabs(E - 2 * barrier_of(100, .1, 0, .05)) < 1e-14);
  scene_close();
}

// ---- memory ---------------------------------------------------------------------------------------------------------
// A scene opened, looked at twice and closed with a failing allocation; the status
static pbStatus whole_run(Meter *meter, long *before_lists, long *second) {
  pbAllocator hooks = meter_hooks(meter);
  Scene *s = &scene;
  pbCollisionDef def = {.vertices = s->vertices,
                        .group = s->group,
                        .groups = most_groups,
                        .points = s->points,
                        .point = s->point,
                        .edges = s->edges,
                        .edge = s->edge,
                        .triangles = s->triangles,
                        .triangle = s->triangle};
  double step, dx[3 * 64] = {0};
  ctx = pbContext_Create(&hooks);
  if (!ctx) return pb_no_memory;
  collision = NULL;
  barrier = NULL;
  pbStatus status = pbCollision_Create(ctx, &def, &collision);
  if (status == pb_ok) status = pbBarrier_Create(ctx, collision, 1, &barrier);
  *before_lists = meter->calls;
  for (int k = 0; k < 2 && status == pb_ok; k++) {
    *second = meter->calls;
    status = roomy_begin(&s->values, s->X, s->X);
    if (status == pb_ok) status = roomy_update(&s->values, s->X, s->X);
    if (status == pb_ok) status = pbBarrier_MaxStep(barrier, &s->values, s->X, dx, .1, &step);
    if (status == pb_ok) status = pbBarrier_Check(barrier, &s->values, s->X);
  }
  *second = meter->calls - *second;
  if (status != pb_ok && !barrier) assert_true(strstr(pbContext_Error(ctx), "memory") != NULL);
  scene_close();
  assert_int_equal(meter->live, 0);
  return status;
}

static void test_no_memory(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(10);
  open_crowd(&r, pb_barrierNone);  // for its lists
  scene_close();
  Meter meter = {0};
  long lists, second, all;
  assert_int_equal(whole_run(&meter, &lists, &second), pb_ok);
  assert_int_equal(second, 0);
  all = meter.calls;
  int runs = 0;
  for (long at = 1, late = lists - 30; at <= all; at += at < 12 || at >= late ? 1 : (late - at) / 12 + 1, runs++) {
    meter = (Meter){.fail_at = at};
    assert_int_equal(whole_run(&meter, &lists, &second), pb_no_memory);
  }
  print_message("%ld allocations, %d of them failed in turn\n", all, runs);
}

static void same_list(const pbStencils *a, const pbStencils *b) {
  assert_int_equal(a->count, b->count);
  if (a->count == 0) return;

  assert_memory_equal(a->vertex, b->vertex, (size_t)(a->count * a->points) * sizeof(int));
  assert_memory_equal(a->parameter[pb_parameterWeight], b->parameter[pb_parameterWeight], (size_t)a->count * sizeof(double));
}
static void same_lists(const pbBarrier *a, const pbBarrier *b) {
  for (int type = 0; type < pb_stencilTypes; type++) {
    same_list(pbBarrier_Contacts(a, (pbStencilType)type), pbBarrier_Contacts(b, (pbStencilType)type));
    same_list(pbBarrier_Friction(a, (pbStencilType)type), pbBarrier_Friction(b, (pbStencilType)type));
  }
}

// Too little room is said, with what is needed; with more the lists are those of a barrier that had it from the start.
static void test_room(void **state) {
  (void)state;
  for (int kind = pb_barrierNone; kind <= pb_barrierImplicit; kind++) {
    pbRng r = pbRng_Seed(11);
    open_crowd(&r, (pbBarrierFriction)kind);
    Scene *s = &scene;
    pbBarrier *small, *whole;
    pbBarrier_Destroy(barrier);
    assert_int_equal(pbBarrier_Create(ctx, collision, 4096, &whole), pb_ok);
    assert_int_equal(pbBarrier_Begin(whole, &s->values, s->X, s->X), pb_ok);
    assert_int_equal(pbBarrier_Update(whole, &s->values, s->X, s->X), pb_ok);
    assert_int_equal(pbBarrier_Create(ctx, collision, 1, &small), pb_ok);
    barrier = small;
    expect(kind == pb_barrierLagged ? pbBarrier_Begin(small, &s->values, s->X, s->X)
                                    : pbBarrier_Update(small, &s->values, s->X, s->X),
           pb_capacity, "and there is room for 1");
    assert_int_equal(roomy_begin(&s->values, s->X, s->X), pb_ok);
    assert_int_equal(roomy_update(&s->values, s->X, s->X), pb_ok);
    same_lists(small, whole);
    pbBarrier_Destroy(small);
    barrier = whole;
    scene_close();
  }
}

// With no more room than it takes, not one pair is missing.
static void test_exact_room(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(11);
  open_crowd(&r, pb_barrierLagged);
  Scene *s = &scene;
  pbBarrier *whole = barrier, *exact = NULL;
  assert_int_equal(roomy_begin(&s->values, s->X, s->X), pb_ok);
  assert_int_equal(roomy_update(&s->values, s->X, s->X), pb_ok);

  int room = 0;
  bool fits = false;
  while (!fits) {
    pbBarrier_Destroy(exact);
    assert_int_equal(pbBarrier_Create(ctx, collision, ++room, &exact), pb_ok);
    fits = pbBarrier_Begin(exact, &s->values, s->X, s->X) == pb_ok && pbBarrier_Update(exact, &s->values, s->X, s->X) == pb_ok;
  }

  assert_true(room > 1);
  same_lists(exact, whole);
  pbBarrier_Destroy(exact);
  scene_close();
}

// ---- size -----------------------------------------------------------------------------------------------------------
static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void test_size(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(9);
  Scene *s = scene_new(.008);
  add_sheet(s, 0, 50, 1, 0, 4e-4, true, &r);
  int second = s->vertices;
  add_sheet(s, 1, 45, 1, .005, 4e-4, true, &r);
  scene_open(s, pb_barrierLagged);
  static double dx[3 * most_vertices];
  for (int v = 0; v < s->vertices; v++) dx[3 * v + 2] = v < second ? 0 : -.02;
  double t[6], step;
  assert_int_equal(roomy_begin(&s->values, s->X, s->X), pb_ok);
  t[0] = seconds();
  assert_int_equal(roomy_begin(&s->values, s->X, s->X), pb_ok);
  t[1] = seconds();
  assert_int_equal(roomy_update(&s->values, s->X, s->X), pb_ok);
  t[2] = seconds();
  assert_int_equal(pbBarrier_MaxStep(barrier, &s->values, s->X, dx, .1, &step), pb_ok);
  t[3] = seconds();
  assert_int_equal(pbBarrier_Check(barrier, &s->values, s->X), pb_ok);
  t[4] = seconds();
  double E = evaluate(false, s->X, s->X, NULL, 0, dx);
  t[5] = seconds();
  int contacts = pbBarrier_ContactCount(barrier);
  print_message("%d vertices, %d contacts: begin %.1f ms, update %.1f, largest step %.1f, check %.1f, value and gradient %.1f\n",
                s->vertices, contacts, 1e3 * (t[1] - t[0]), 1e3 * (t[2] - t[1]), 1e3 * (t[3] - t[2]), 1e3 * (t[4] - t[3]),
                1e3 * (t[5] - t[4]));
  assert_true(contacts > 10000 && step < .3 && step > .1 && E > 0);
  static double x[3 * most_vertices];
  memcpy(x, s->X, sizeof x);
  for (int k = 0; k < 5; k++) {  // thrown about by some edges' length
    for (int i = 0; i < 3 * s->vertices; i++) dx[i] = uniform(&r, -.03, .03);
    assert_int_equal(pbBarrier_MaxStep(barrier, &s->values, x, dx, .2, &step), pb_ok);
    for (int i = 0; i < 3 * s->vertices; i++) x[i] += step * dx[i];
    if (pbBarrier_Check(barrier, &s->values, x) != pb_ok) fail_msg("%s", pbBarrier_Error(barrier));
  }
  scene_close();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_formulas),
#ifdef PULLBACK_MUTATE
                                     cmocka_unit_test(test_every_pullback_is_seen),
#endif

                                     cmocka_unit_test(test_surface_counts_once),
                                     cmocka_unit_test(test_barrier_function),
                                     cmocka_unit_test(test_continuous_gradient),
                                     cmocka_unit_test(test_invariance),
                                     cmocka_unit_test(test_differences),
                                     cmocka_unit_test(test_values),
                                     cmocka_unit_test(test_friction_law),
                                     cmocka_unit_test(test_motion),
                                     cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_planar),
                                     cmocka_unit_test(test_no_memory),
                                     cmocka_unit_test(test_room),
                                     cmocka_unit_test(test_exact_room),
                                     cmocka_unit_test(test_size)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
