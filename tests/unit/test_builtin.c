// Built-in energies: derivatives by complex step and by differences, what moving and turning must leave alone, rest states, moduli of
// small strains, quadratic cells, masses, inverted and collapsed elements, looking up.
#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/materials.h>

#include <pullback/random.h>
#include "energy/energy_inside.h"
#include "mutation.h"
#include "support/one_context.h"

// ---- elements -----------------------------------------------------------------------------------------------------------
enum { POINTS = 10, STATES = 1000, PARAMETERS = 8, NUMBERS = 3 };
typedef struct Sample {  // elements with points and parameters of their own
  const pbMaterial *m;
  pbEnergy *energy;
  int n, count, *vertex, stride[PARAMETERS];
  double *x, *rest, *previous, *w, *parameter[PARAMETERS];
  const double *address[PARAMETERS];
  double *value, *gradient, *hessian;
  void *work;
} Sample;

// A corner, or the place between two, of the element as it was drawn.
static void drawn(int cell, int point, double out[3]) {
  static const double corner[4][3] = {{0, 0, 0}, {1.1, 0.1, 0}, {0.2, 0.9, 0}, {0.3, 0.2, 1}};
  static const int middle[6][2] = {{0, 1}, {1, 2}, {0, 2}, {0, 3}, {1, 3}, {2, 3}};
  bool triangle = cell == pb_cellTriangle6;
  if (cell == pb_cellHinge && point == 3) memcpy(out, (const double[]){0.6, -0.8, 0.2}, 3 * sizeof *out);
  else if (cell == pb_cellBend && point == 2) memcpy(out, (const double[]){2, 0.4, 0.1}, 3 * sizeof *out);
  else if ((triangle && point >= 3) || point >= 4) {
    const int *pair = middle[triangle ? point - 3 : point - 4];
    for (int k = 0; k < 3; k++) out[k] = 0.5 * (corner[pair[0]][k] + corner[pair[1]][k]);
  } else {
    memcpy(out, corner[point], 3 * sizeof *out);
  }
}

static void matrix_times(const double *A, const double *x, double *y) {
  for (int i = 0; i < 3; i++) y[i] = A[3 * i] * x[0] + A[3 * i + 1] * x[1] + A[3 * i + 2] * x[2];
}

static void random_rotation(pbRng *rng, bool planar, double *R) {
  double q[4], n = 0;
  for (int k = 0; k < 4; k++) {
    q[k] = planar && (k == 1 || k == 2) ? 0 : pbRng_Normal(rng);
    n += q[k] * q[k];
  }
  for (int k = 0; k < 4; k++) q[k] /= sqrt(n);
  double w = q[0], x = q[1], y = q[2], z = q[3];
  double r[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
                 2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                 2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
  memcpy(R, r, sizeof r);
}

// A start value, moved: within its bounds, and 0 to something.
static double number(pbRng *rng, const pbEnergyParameter *p, double start) {
  double u = pbRng_Uniform(rng);
  if (p->rows > 1) return start + 0.4 * u - 0.2;
  if (start == 0) return 0.05 + 0.1 * u;
  return start * (0.8 + 0.4 * u);
}

static void fill(Sample *s, uint64_t seed) {
  const pbMaterial *m = s->m;
  pbRng rng = pbRng_Seed(seed);
  bool planar = m->traits & pb_materialPlanar;
  for (int e = 0; e < s->count; e++) {
    double A[9], at[3], F[9];
    random_rotation(&rng, planar, A);
    for (int k = 0; k < 9; k++) F[k] = (k % 4 == 0) + 0.3 * pbRng_Uniform(&rng) - 0.15;
    for (int p = 0; p < s->n; p++) {
      double *X = s->rest + 3 * (e * s->n + p), *x = s->x + 3 * (e * s->n + p), *y = s->previous + 3 * (e * s->n + p), f[3];
      drawn(m->cell, p, at);
      for (int k = 0; k < 3; k++) X[k] = at[k] + 0.1 * pbRng_Uniform(&rng);
      matrix_times(F, X, f);
      for (int k = 0; k < 3; k++) f[k] += 0.1 * pbRng_Uniform(&rng);
      matrix_times(A, f, x);
      for (int k = 0; k < 3; k++) {
        y[k] = x[k] + 0.1 * pbRng_Uniform(&rng) - 0.05;
        s->w[3 * (e * s->n + p) + k] = pbRng_Normal(&rng);
      }
    }
    for (int i = 0; i < m->def.parameter_count; i++)
      for (int k = 0; k < s->stride[i]; k++)
        s->parameter[i][e * s->stride[i] + k] = number(&rng, &m->def.parameters[i], pbMaterial_Start(m, i)[k]);
  }
}

static double *reals(size_t count) { return calloc(count, sizeof(double)); }

static Sample sample(const pbMaterial *m, int count) {
  Sample s = {.m = m, .n = m->def.points, .count = count};
  size_t all = (size_t)(count * s.n);
  if (pbEnergy_Create(ctx, &m->def, &s.energy)) fail_msg("%s", pbContext_Error(ctx));
  s.vertex = calloc(all, sizeof(int));
  for (int i = 0; i < count * s.n; i++) s.vertex[i] = i;
  s.x = reals(3 * all);
  s.rest = reals(3 * all);
  s.previous = reals(3 * all);
  s.w = reals(3 * all);
  for (int i = 0; i < m->def.parameter_count; i++) {
    s.stride[i] = m->def.parameters[i].rows * m->def.parameters[i].cols;
    s.address[i] = s.parameter[i] = reals((size_t)(count * s.stride[i]));
    for (int k = 0; k < count * s.stride[i]; k++) s.parameter[i][k] = pbMaterial_Start(m, i)[k % s.stride[i]];
  }
  s.value = reals((size_t)count);
  s.gradient = reals(3 * all);
  s.hessian = reals(9 * all * (size_t)s.n);
  s.work = malloc(pbEnergy_WorkSizeComplex(s.energy) + pbEnergy_WorkSize(s.energy));
  return s;
}

static void drop(Sample *s) {
  pbEnergy_Destroy(s->energy);
  void *all[] = {s->vertex, s->x, s->rest, s->previous, s->w, s->value, s->gradient, s->hessian, s->work};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
  for (int i = 0; i < PARAMETERS; i++) free(s->parameter[i]);
}

static const double step = 0.02, the_time = 0.3;
static bool try(Sample *s, pbElementsOut out, pbEnergyFault *fault) {
  pbElements in = {s->count, s->vertex, s->x, s->rest, s->previous, s->address, s->stride, step, the_time, NULL};
  return pbEnergy_Evaluate(s->energy, &in, &out, s->work, fault);
}
static void evaluate(Sample *s) {
  pbEnergyFault fault;
  if (!try(s, (pbElementsOut){s->value, s->gradient, s->hessian}, &fault))
    fail_msg("%s, element %d: %s", s->m->name, fault.element, fault.what);
}

static double largest(const double *a, int n) {
  double most = 0;
  for (int i = 0; i < n; i++) most = fmax(most, fabs(a[i]));
  return most;
}

#define NEAR(s, what, a, b, tolerance)                                                                             \
  do {                                                                                                             \
    double is_ = (a), should_ = (b);                                                                               \
    if (!(fabs(is_ - should_) <= (tolerance))) FAIL("%s, %s: %.17g, not %.17g", (s)->m->name, what, is_, should_); \
  } while (0)

static const pbMaterial *energies(int *index) {  // the next that is no mass
  const pbMaterial *m;
  while ((m = pbMaterial_At((*index)++)) && (m->traits & pb_materialMass)) continue;
  return m;
}

// ---- complex step ---------------------------------------------------------------------------------------------------------
static const double tiny = 1e-200;
typedef struct Lifted {
  double _Complex *x, *rest, *previous, *parameter[PARAMETERS], *value, *gradient, timestep, time;
  const void *address[PARAMETERS];
} Lifted;

static double _Complex *lifted(const double *a, int n) {
  double _Complex *z = calloc((size_t)n, sizeof *z);
  for (int i = 0; i < n; i++) z[i] = a[i];
  return z;
}
static Lifted lift(const Sample *s) {
  int all = 3 * s->n * s->count;
  Lifted z = {lifted(s->x, all), lifted(s->rest, all), lifted(s->previous, all), .timestep = step, .time = the_time};
  for (int i = 0; i < s->m->def.parameter_count; i++)
    z.address[i] = z.parameter[i] = lifted(s->parameter[i], s->count * s->stride[i]);
  z.value = lifted(s->value, s->count);
  z.gradient = lifted(s->gradient, all);
  return z;
}
static void lower(Lifted *z) {
  free(z->x);
  free(z->rest);
  free(z->previous);
  free(z->value);
  free(z->gradient);
  for (int i = 0; i < PARAMETERS; i++) free(z->parameter[i]);
}
static void evaluate_complex(const Sample *s, Lifted *z) {
  pbComplexElements in = {s->count, s->vertex, z->x, z->rest, z->previous, z->address, s->stride, &z->timestep, &z->time, NULL};
  assert_true(pbEnergy_EvaluateComplex(s->energy, &in, &(pbComplexOut){z->value, z->gradient, NULL}, s->work, NULL));
}

static void nudge(double _Complex *a, int first, int every, int count, double by) {
  for (int e = 0; e < count; e++) a[first + e * every] = creal(a[first + e * every]) + by * I;
}

static void check_derivatives(Sample *s) {
  Lifted z = lift(s);
  int n = 3 * s->n;
  evaluate(s);
  for (int j = 0; j < n; j++) {
    nudge(z.x, j, n, s->count, tiny);
    evaluate_complex(s, &z);
    nudge(z.x, j, n, s->count, 0);
    for (int e = 0; e < s->count; e++) {
      const double *g = s->gradient + e * n, *H = s->hessian + e * n * n;
      double size = largest(H, n * n) + largest(g, n);
      NEAR(s, "gradient", g[j], cimag(z.value[e]) / tiny, 1e-12 * (largest(g, n) + 1e-3 * size));
      for (int i = 0; i < n; i++) {
        NEAR(s, "Hessian", H[i * n + j], cimag(z.gradient[e * n + i]) / tiny, 1e-12 * size);
        NEAR(s, "symmetry", H[i * n + j], H[j * n + i], 1e-14 * size);
      }
    }
  }
  lower(&z);
}

// Derivatives of w . gradient against those in `got` by one input of each element.
static void check_pulled(const Sample *s, Lifted *z, const char *what, double _Complex *a, const double *got, int size) {
  int n = 3 * s->n;
  for (int k = 0; k < size; k++) {
    nudge(a, k, size, s->count, tiny);
    evaluate_complex(s, z);
    nudge(a, k, size, s->count, 0);
    for (int e = 0; e < s->count; e++) {
      double sum = 0, parts = 0;
      for (int i = 0; i < n; i++) {
        double term = s->w[e * n + i] * cimag(z->gradient[e * n + i]) / tiny;
        sum += term;
        parts += fabs(term);
      }
      NEAR(s, what, got[e * size + k], sum,
           1e-12 * (parts + largest(got + e * size, size)) + 1e-13 * largest(s->gradient + e * n, n));
    }
  }
}

static void check_pullback(Sample *s) {
  int n = 3 * s->n, all = n * s->count;
  Lifted z = lift(s);
  double *bar[3], *parameter[PARAMETERS] = {0}, timestep = 0, time = 0, by_step = 0, parts = 0;
  for (int i = 0; i < 3; i++) bar[i] = reals((size_t)all);
  for (int i = 0; i < s->m->def.parameter_count; i++) parameter[i] = reals((size_t)(s->count * s->stride[i]));
  pbElements in = {s->count, s->vertex, s->x, s->rest, s->previous, s->address, s->stride, step, the_time, NULL};
  pbElementsBar out = {bar[0], bar[1], bar[2], parameter, &timestep, &time};
  assert_true(pbEnergy_Pullback(s->energy, &in, s->w, &out, s->work, NULL));
  check_pulled(s, &z, "pullback by x", z.x, bar[0], n);
  check_pulled(s, &z, "pullback by rest positions", z.rest, bar[1], n);
  check_pulled(s, &z, "pullback by y", z.previous, bar[2], n);
  for (int i = 0; i < s->m->def.parameter_count; i++)
    check_pulled(s, &z, s->m->def.parameters[i].name, z.parameter[i], parameter[i], s->stride[i]);
  z.timestep = step + tiny * I;
  evaluate_complex(s, &z);
  for (int i = 0; i < all; i++) {
    by_step += s->w[i] * cimag(z.gradient[i]) / tiny;
    parts += fabs(s->w[i] * cimag(z.gradient[i]) / tiny);
  }
  NEAR(s, "pullback by the time step", timestep, by_step, 1e-12 * parts);
  NEAR(s, "pullback by time", time, 0, 0);
  for (int i = 0; i < 3; i++) free(bar[i]);
  for (int i = 0; i < PARAMETERS; i++) free(parameter[i]);
  lower(&z);
}

static void test_derivatives(void **state) {
  (void)state;
  const pbMaterial *m;
  for (int i = 0; (m = energies(&i));) {
    Sample s = sample(m, 33);
    fill(&s, 5 + (uint64_t)i);
    check_derivatives(&s);
    check_pullback(&s);
    drop(&s);
  }
}

#ifdef PULLBACK_MUTATE
static void check_energy(const void *material) {
  Sample s = sample(material, 3);
  fill(&s, 5);
  check_pullback(&s);
  drop(&s);
}

static void test_every_pullback_is_seen(void **state) {
  (void)state;
  const pbMaterial *m;
  for (int i = 0; (m = energies(&i));) {
    if (!sees_mutation(pb_muteEnergy, 1, m->name, check_energy, m)) fail_msg("energy %s: its pullback may be lost", m->name);
    print_message("energy,%s,unit/test_builtin,red\n", m->name);
  }
}
#endif

// ---- differences of the energy (the engine's own force, E2) -------------------------------------------------------------------
static const char *const kinked[] = {"spring_string", "ground",
                                     "muscle"};  // second derivatives jump: a difference across says nothing
static bool has_kink(const pbMaterial *m) {
  for (size_t i = 0; i < sizeof kinked / sizeof *kinked; i++)
    if (!strcmp(m->family, kinked[i])) return true;
  return false;
}

static void test_differences(void **state) {
  (void)state;
  static const double factor[3] = {45. / 60, -9. / 60, 1. / 60};
  const pbMaterial *m;
  for (int i = 0; (m = energies(&i));) {
    Sample s = sample(m, STATES);
    fill(&s, 50 + (uint64_t)i);
    int n = 3 * s.n, bad = 0;
    double *difference = reals((size_t)(n * STATES)), size = has_kink(m) ? 2e-5 : 2e-3;
    evaluate(&s);
    for (int j = 0; j < n; j++) {
      for (int k = -3; k <= 3; k++) {
        if (!k) continue;
        for (int e = 0; e < STATES; e++) s.x[e * n + j] += k * size;
        assert_true(try(&s, (pbElementsOut){s.value, NULL, NULL}, NULL));
        for (int e = 0; e < STATES; e++) {
          difference[e * n + j] += (k > 0 ? 1 : -1) * factor[abs(k) - 1] * s.value[e] / size;
          s.x[e * n + j] -= k * size;
        }
      }
    }
    for (int e = 0; e < STATES; e++) {
      double most = 0;
      for (int j = 0; j < n; j++) most = fmax(most, fabs(difference[e * n + j] - s.gradient[e * n + j]));
      bool good = most <= 1e-8 * largest(s.gradient + e * n, n);
      if (!good && !has_kink(m)) fail_msg("%s, state %d: off by %g of %g", m->name, e, most, largest(s.gradient + e * n, n));
      bad += !good;
    }
    if (bad > STATES / 20) fail_msg("%s: %d states", m->name, bad);
    free(difference);
    drop(&s);
  }
}

// ---- what moving and turning leaves alone --------------------------------------------------------------------------------------
static void test_invariance(void **state) {
  (void)state;
  const pbMaterial *m;
  for (int i = 0; (m = energies(&i));) {
    if (!(m->traits & pb_materialInternal)) continue;
    Sample s = sample(m, 100);
    fill(&s, 500 + (uint64_t)i);
    evaluate(&s);
    pbRng rng = pbRng_Seed(4);
    int n = 3 * s.n;
    bool planar = m->traits & pb_materialPlanar;
    for (int e = 0; e < s.count; e++) {
      double R[9], shift[3], force[3] = {0}, torque[3] = {0}, size = 0;
      random_rotation(&rng, planar, R);
      for (int k = 0; k < 3; k++) shift[k] = pbRng_Normal(&rng);
      for (int p = 0; p < s.n; p++) {
        double *x = s.x + e * n + 3 * p, *f = s.gradient + e * n + 3 * p, turned[3];
        for (int k = 0; k < 3; k++) {
          force[k] += f[k];
          size += fabs(f[k]);
        }
        torque[0] += x[1] * f[2] - x[2] * f[1];
        torque[1] += x[2] * f[0] - x[0] * f[2];
        torque[2] += x[0] * f[1] - x[1] * f[0];
        matrix_times(R, x, turned);
        for (int k = 0; k < 3; k++) x[k] = turned[k] + shift[k];
      }
      for (int k = 0; k < 3; k++) {
        NEAR(&s, "net force", force[k], 0, 1e-12 * size);
        if (!planar || k == 2) NEAR(&s, "net torque", torque[k], 0, 1e-12 * 3 * size);
      }
    }
    double before[100];
    memcpy(before, s.value, sizeof before);
    evaluate(&s);
    for (int e = 0; e < s.count; e++)
      NEAR(&s, "energy when turned", s.value[e], before[e], 1e-12 * (fabs(before[e]) + largest(s.gradient + e * n, n)));
    drop(&s);
  }
}

// ---- rest ---------------------------------------------------------------------------------------------------------------------
static void flatten(Sample *s) {  // what is flat or straight at rest by assumption
  bool straight = !strcmp(s->m->name, "rod_bend");
  for (int i = 0; i < s->count * s->n; i++) {
    s->rest[3 * i + 2] = 0;
    if (straight) s->rest[3 * i + 1] = 0.3 * s->rest[3 * i];
  }
}

static void test_rest(void **state) {
  (void)state;
  const pbMaterial *m;
  for (int i = 0; (m = energies(&i));) {
    if (!(m->traits & pb_materialStressFree)) continue;
    Sample s = sample(m, 20), start = sample(m, 20);
    fill(&s, 900 + (uint64_t)i);
    for (int k = 0; k < m->def.parameter_count; k++)
      memcpy(s.parameter[k], start.parameter[k], sizeof(double) * (size_t)(s.count * s.stride[k]));
    if (strstr(m->name, "bend")) {
      if (strcmp(m->name, "bending_angle")) flatten(&s);
    }
    memcpy(s.x, s.rest, sizeof(double) * (size_t)(3 * s.n * s.count));
    int n = 3 * s.n;
    evaluate(&s);
    for (int e = 0; e < s.count; e++) {
      double size = largest(s.hessian + e * n * n, n * n);
      NEAR(&s, "energy at rest", s.value[e], 0, 1e-14 * size);
      NEAR(&s, "force at rest", largest(s.gradient + e * n, n), 0, 1e-13 * size);
    }
    drop(&s);
    drop(&start);
  }
}

// ---- small strains: every law with Young's modulus and Poisson's ratio has the stiffness of the linear one -----------------------
static void same_stiffness(const char *law, const char *reference, double factor) {
  static const char *const kinds[] = {"tetrahedron", "tetrahedron10", "triangle", "triangle6"};
  for (int c = 0; c < 4; c++) {
    char name[64];
    snprintf(name, sizeof name, "%s_%s", law, kinds[c]);
    const pbMaterial *m = pbMaterial_Find(name);
    if (!m) continue;
    snprintf(name, sizeof name, "%s_%s", reference, kinds[c]);
    Sample s = sample(m, 10), l = sample(pbMaterial_Find(name), 10);
    fill(&s, 60);
    fill(&l, 60);
    for (int e = 0; e < s.count; e++) {
      s.parameter[0][e] = l.parameter[0][e] = 1e5;
      s.parameter[1][e] = l.parameter[1][e] = 0.28;
      for (int i = 0; i < m->def.parameter_count; i++) {
        if (!strcmp(m->def.parameters[i].name, "fibre_stiffness") || !strcmp(m->def.parameters[i].name, "activation"))
          s.parameter[i][e] = 0;
        if (!strcmp(m->def.parameters[i].name, "thickness")) s.parameter[i][e] = l.parameter[2][e] = 0.4;
        if (!strcmp(m->def.parameters[i].name, "time")) s.parameter[i][e] = 0.1;
      }
    }
    size_t bytes = sizeof(double) * (size_t)(3 * s.n * s.count);
    memcpy(s.rest, l.rest, bytes);
    memcpy(s.x, l.rest, bytes);
    memcpy(l.x, l.rest, bytes);
    memcpy(s.previous, l.rest, bytes);
    evaluate(&s);
    evaluate(&l);
    int n = 9 * s.n * s.n;
    for (int e = 0; e < s.count; e++)
      for (int i = 0; i < n; i++)
        NEAR(&s, "stiffness at rest", s.hessian[e * n + i], factor * l.hessian[e * n + i],
             1e-12 * factor * largest(l.hessian + e * n, n));
    drop(&s);
    drop(&l);
  }
}

static void test_small_strains(void **state) {
  (void)state;
  static const char *const laws[] = {"stvk", "corotated", "neo_hookean", "neo_hookean_log", "muscle"};
  for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) same_stiffness(laws[i], "linear", 1);
  same_stiffness("rayleigh", "linear", 0.1 / step);
}

// ---- affine deformations ------------------------------------------------------------------------------------------------------
// One element of which all points lie where F puts them; quadratic cells have straight edges. Returns energy over size at rest.
static double affine(const char *name, const double *F, const double *parameters, double *gradient) {
  const pbMaterial *m = pbMaterial_Find(name);
  Sample s = sample(m, 1);
  double size = 0;
  for (int i = 0; i < m->def.parameter_count; i++)
    for (int k = 0; k < s.stride[i]; k++) s.parameter[i][k] = *parameters++;
  for (int p = 0; p < s.n; p++) {
    drawn(m->cell, p, s.rest + 3 * p);
    matrix_times(F, s.rest + 3 * p, s.x + 3 * p);
  }
  evaluate(&s);
  if (gradient) memcpy(gradient, s.gradient, sizeof(double) * 3 * (size_t)s.n);
  Sample mass = sample(pbMaterial_Find(m->mass), 1);
  memcpy(mass.rest, s.rest, sizeof(double) * 3 * (size_t)s.n);
  for (int i = 0; i < mass.m->def.parameter_count; i++) mass.parameter[i][0] = 1;
  evaluate(&mass);
  size = mass.value[0];
  double value = s.value[0];
  drop(&s);
  drop(&mass);
  return value / size;
}

static const double bent[9] = {1.2, 0.3, 0, -0.1, 0.9, 0, 0, 0, 1};

// Linear and quadratic cells of a family agree, and so do the plane and the solid where nothing happens along z.
static void test_cells_agree(void **state) {
  (void)state;
  const pbMaterial *m;
  for (int i = 0; (m = energies(&i));) {
    char name[64];
    if ((m->cell != pb_cellTetrahedron && m->cell != pb_cellTriangle) || !(m->traits & pb_materialStressFree)) continue;
    snprintf(name, sizeof name, "%s%s", m->name, m->cell == pb_cellTetrahedron ? "10" : "6");
    if (!pbMaterial_Find(name)) continue;
    double p[16] = {0};
    memcpy(p, m->start, sizeof(double) * (size_t)(pbMaterial_Start(m, m->def.parameter_count) - m->start));
    double a = affine(m->name, bent, p, NULL), b = affine(name, bent, p, NULL);
    if (!(fabs(a - b) <= 1e-13 * fabs(a))) fail_msg("%s: %.17g, %s: %.17g", m->name, a, name, b);
    if (m->cell == pb_cellTetrahedron) {
      snprintf(name, sizeof name, "%s_triangle", m->family);
      p[pbMaterial_Start(m, m->def.parameter_count) - m->start] = 1;
      b = affine(name, bent, p, NULL);
      if (!(fabs(a - b) <= 1e-13 * fabs(a))) fail_msg("%s: %.17g, %s: %.17g", m->name, a, name, b);
    }
  }
}

// A displacement of second degree is within reach of quadratic cells: F is exact at their quadrature points.
static void field(const double *X, double *x, double *F) {
  x[0] = 1.1 * X[0] + 0.2 * X[0] * X[1] - 0.1 * X[2] * X[0];
  x[1] = 0.9 * X[1] + 0.15 * X[0] * X[0] + 0.2 * X[1] * X[2];
  x[2] = X[2] + 0.1 * X[2] * X[2] - 0.25 * X[1] * X[2];
  const double gradient[9] = {
      1.1 + 0.2 * X[1] - 0.1 * X[2], 0.2 * X[0], -0.1 * X[0], 0.3 * X[0], 0.9 + 0.2 * X[2], 0.2 * X[1], 0, -0.25 * X[2],
      1 + 0.2 * X[2] - 0.25 * X[1]};
  memcpy(F, gradient, sizeof gradient);
}

static void test_quadratic_fields(void **state) {
  (void)state;
  static const char *const names[] = {"linear_tetrahedron", "stvk_tetrahedron", "linear_triangle", "stvk_triangle",
                                      "membrane_stvk_triangle"};
  const double parameters[] = {1e5, 0.3, 1};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char name[64];
    const pbMaterial *linear = pbMaterial_Find(names[i]);
    int corners = linear->def.points;
    double corner[4][3], F[9], unused[3], mean = 0;
    snprintf(name, sizeof name, "%s%s", names[i], corners == 4 ? "10" : "6");
    Sample s = sample(pbMaterial_Find(name), 1), mass = sample(pbMaterial_Find(s.m->mass), 1);
    for (int k = 0; k < s.m->def.parameter_count; k++) s.parameter[k][0] = parameters[k];
    for (int k = 0; k < mass.m->def.parameter_count; k++) mass.parameter[k][0] = 1;
    for (int p = 0; p < s.n; p++) {
      drawn(s.m->cell, p, s.rest + 3 * p);
      memcpy(mass.rest + 3 * p, s.rest + 3 * p, 3 * sizeof(double));
      field(s.rest + 3 * p, s.x + 3 * p, F);
    }
    for (int q = 0; q < corners; q++) {
      double at[3] = {0}, near = corners == 4 ? 0.58541019662496845446 : 2. / 3, far = (1 - near) / (corners - 1);
      for (int c = 0; c < corners; c++) {
        drawn(linear->cell, c, corner[c]);
        for (int k = 0; k < 3; k++) at[k] += (c == q ? near : far) * corner[c][k];
      }
      field(at, unused, F);
      mean += affine(names[i], F, parameters, NULL) / corners;
    }
    evaluate(&s);
    evaluate(&mass);
    NEAR(&s, "energy of a quadratic field", s.value[0] / mass.value[0], mean, 1e-13 * mean);
    drop(&s);
    drop(&mass);
  }
}

// Densities against formulas worked out apart. bent' bent = [[1.45, .27], [.27, .9]], det 1.11.
static void test_densities(void **state) {
  (void)state;
  const double E = 1e5, nu = 0.3, mu = E / 2.6, lambda = E * 0.3 / (1.3 * 0.4), I1 = 1.45 + 0.9 + 1, J = 1.11, L = log(J);
  const double e11 = 0.225, e22 = -0.05, e12 = 0.135, trace = e11 + e22, square = e11 * e11 + e22 * e22 + 2 * e12 * e12;
  const double s = 4. / 3 * mu, l = lambda + 5. / 6 * mu, plane = E * nu / (1 - nu * nu);
  // the stretches' sum of [[1.2, .3], [-.1, .9]] is sqrt((1.2 + .9)^2 + (.3 + .1)^2)
  const double sum = sqrt(2.1 * 2.1 + 0.4 * 0.4) + 1;
  const double i2 = 1.45 * 0.9 - 0.27 * 0.27 + 1.45 + 0.9, j = pow(J, -2. / 3), c = 1e6 / (1 - 0.04 * 0.5);
  const struct {
    const char *name;
    double parameters[8], density;
  } cases[] = {
      {"linear_tetrahedron", {E, nu}, mu * (0.04 + 0.01 + 2 * 0.01) + lambda / 2 * 0.01},
      {"stvk_tetrahedron", {E, nu}, mu * square + lambda / 2 * trace * trace},
      {"corotated_tetrahedron", {E, nu}, mu * (I1 - 2 * sum + 3) + lambda / 2 * (J - 1) * (J - 1)},
      {"neo_hookean_tetrahedron",
       {E, nu},
       s / 2 * (I1 - 3) - s / 2 * log((I1 + 1) / 4) + l / 2 * (J - 1) * (J - 1) - 0.75 * s * (J - 1)},
      {"neo_hookean_log_tetrahedron", {E, nu}, mu / 2 * (I1 - 3) - mu * L + lambda / 2 * L * L},
      {"mooney_rivlin_tetrahedron", {3e4, 2e4, 1e6}, 3e4 * (j * I1 - 3) + 2e4 * (j * j * i2 - 3) + 5e5 * (J - 1) * (J - 1)},
      {"muscle_tetrahedron",
       {E, nu, 2e4, 3e4, 0.6, 2, 0, 0},
       s / 2 * (I1 - 3) - s / 2 * log((I1 + 1) / 4) + l / 2 * (J - 1) * (J - 1) - 0.75 * s * (J - 1) +
           1e4 * (sqrt(1.45) - 1.005) * (sqrt(1.45) - 1.005) + 2e4 * 1e-4 / 24 + 0.6 * 3e4 * (sqrt(1.45) - 1)},
      {"membrane_stvk_triangle", {E, nu, 1}, mu * square + plane / 2 * trace * trace},
      {"membrane_neo_hookean_triangle", {E, 1}, E / 6 * (1.45 + 0.9 + 1 / (J * J) - 3)},
      {"membrane_orthotropic_triangle",
       {1e6, 5e5, 0.2, 1e5, 0, 3, 1, 1},  // warp along y
       0.5 * c * (e22 * e22 + 0.5 * e11 * e11 + 2 * 0.2 * 0.5 * e11 * e22) + 2 * 1e5 * e12 * e12},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double got = affine(cases[i].name, bent, cases[i].parameters, NULL);
    if (!(fabs(got - cases[i].density) <= 1e-12 * fabs(got)))
      fail_msg("%s: %.17g, not %.17g", cases[i].name, got, cases[i].density);
  }
}

// ---- bending --------------------------------------------------------------------------------------------------------------------
static double one(const char *name, const double *rest, const double *x, double parameter) {
  Sample s = sample(pbMaterial_Find(name), 1);
  memcpy(s.rest, rest, sizeof(double) * 3 * (size_t)s.n);
  memcpy(s.x, x, sizeof(double) * 3 * (size_t)s.n);
  s.parameter[0][0] = parameter;
  evaluate(&s);
  double value = s.value[0];
  drop(&s);
  return value;
}

static void test_bending(void **state) {
  (void)state;
  const double angle = 0.4, rest[12] = {0, 0, 0, 0, 2, 0, -1, 1, 0, 0.5, 0.7, 0};
  double x[12];
  memcpy(x, rest, sizeof x);
  x[9] = 0.5 * cos(angle);
  x[11] = 0.5 * sin(angle);
  double wanted = 0.5 * 7 * 4 / (1 + 0.5) * angle * angle, got = one("bending_angle", rest, x, 7);
  if (!(fabs(got / wanted - 1) <= 1e-13)) fail_msg("angle: %.17g, not %.17g", got, wanted);
  // along the way the quadratic energy's |K x| is |e| 2 sin(angle/2)
  wanted = 0.5 * 7 * 4 / (1 + 0.5) * 4 * sin(angle / 2) * sin(angle / 2);
  got = one("bending_quadratic", rest, x, 7);
  if (!(fabs(got / wanted - 1) <= 1e-13)) fail_msg("quadratic: %.17g, not %.17g", got, wanted);
  const double straight[9] = {0, 0, 0, 1, 0, 0, 3, 0, 0}, turned[9] = {0, 0, 0, 1, 0, 0, 1 + 2 * cos(angle), 2 * sin(angle), 0};
  wanted = 0.5 * 5 * 4 * tan(angle / 2) * tan(angle / 2) / 1.5;
  const char *const names[] = {"rod_bend", "rod_bend_planar"};
  for (int i = 0; i < 2; i++) {
    got = one(names[i], straight, turned, 5);
    if (!(fabs(got / wanted - 1) <= 1e-13)) fail_msg("%s: %.17g, not %.17g", names[i], got, wanted);
  }
}

// Dampers rest where nothing moves, and their work grows with the square of the rate.
static void test_dampers(void **state) {
  (void)state;
  const pbMaterial *m;
  for (int i = 0; (m = energies(&i));) {
    if (!(m->traits & pb_materialDissipative)) continue;
    Sample s = sample(m, 20);
    fill(&s, 300 + (uint64_t)i);
    int n = 3 * s.n, all = n * s.count;
    double value[2][20];
    for (int k = 0; k < 2; k++) {
      for (int j = 0; j < all; j++) s.x[j] = s.previous[j] + (k ? 2e-6 : 1e-6) * s.w[j];
      evaluate(&s);
      memcpy(value[k], s.value, sizeof value[k]);
    }
    for (int e = 0; e < s.count; e++) {
      assert_true(value[0][e] >= 0);
      NEAR(&s, "twice the rate", value[1][e], 4 * value[0][e], 1e-4 * value[1][e]);
    }
    memcpy(s.x, s.previous, sizeof(double) * (size_t)all);
    evaluate(&s);
    for (int e = 0; e < s.count; e++) {
      NEAR(&s, "standing still", s.value[e], 0, 0);
      NEAR(&s, "force standing still", largest(s.gradient + e * n, n), 0, 0);
    }
    drop(&s);
  }
}

// ---- masses -----------------------------------------------------------------------------------------------------------------------
static void test_masses(void **state) {
  (void)state;
  const struct {
    const char *name;
    double mass;
  } cases[] = {{"mass_edge", 2 * sqrt(1.22)},
               {"mass_triangle", 2 * 3 * 0.5 * (1.1 * 0.9 - 0.1 * 0.2)},
               {"mass_triangle6", 2 * 3 * 0.5 * (1.1 * 0.9 - 0.1 * 0.2)},
               {"mass_tetrahedron", 2 * (1.1 * 0.9 - 0.1 * 0.2) / 6},
               {"mass_tetrahedron10", 2 * (1.1 * 0.9 - 0.1 * 0.2) / 6}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Sample s = sample(pbMaterial_Find(cases[i].name), 1);
    for (int p = 0; p < s.n; p++) drawn(s.m->cell, p, s.rest + 3 * p);
    s.parameter[0][0] = 2;
    if (s.m->def.parameter_count > 1) s.parameter[1][0] = 3;
    evaluate(&s);
    NEAR(&s, "mass", s.value[0], cases[i].mass, 1e-14);
    drop(&s);
  }
}

// ---- inverted and collapsed elements -------------------------------------------------------------------------------------------------
enum { stays = 1, breaks = 2 };  // breaks: the value is infinite, and a fault
static int outcome(const char *name, const double *F) {
  Sample s = sample(pbMaterial_Find(name), 1);
  for (int p = 0; p < s.n; p++) {
    drawn(s.m->cell, p, s.rest + 3 * p);
    matrix_times(F, s.rest + 3 * p, s.x + 3 * p);
  }
  pbEnergyFault fault;
  bool good = try(&s, (pbElementsOut){s.value, s.gradient, s.hessian}, &fault);
  int n = 3 * s.n;
  for (int i = 0; i < n * n; i++) assert_true(isfinite(s.hessian[i]) && isfinite(s.gradient[i % n]));
  int is = good && isfinite(s.value[0]) ? stays : !good && s.value[0] == INFINITY && fault.element == 0 ? breaks : 0;
  drop(&s);
  return is;
}

static void test_extremes(void **state) {
  (void)state;
  static const double inverted[9] = {1, 0, 0, 0, -0.8, 0, 0, 0, 1}, flat[9] = {1, 0, 0, 0, 0, 0, 0, 0, 1}, nothing[9] = {0};
  const struct {
    const char *name;
    int inverted, flat, nothing;
  } cases[] = {
      {"linear_tetrahedron", stays, stays, stays},
      {"stvk_tetrahedron10", stays, stays, stays},
      {"corotated_tetrahedron", stays, stays, breaks},
      {"corotated_triangle", stays, stays, breaks},
      {"neo_hookean_tetrahedron", stays, stays, stays},
      {"neo_hookean_triangle6", stays, stays, stays},
      {"neo_hookean_log_tetrahedron", breaks, breaks, breaks},
      {"mooney_rivlin_triangle", breaks, breaks, breaks},
      {"neo_hookean_quadratic", stays, stays, stays},
      {"muscle_tetrahedron", stays, stays, breaks},
      {"membrane_stvk_triangle", stays, stays, stays},
      {"membrane_neo_hookean_triangle", stays, breaks, breaks},
      {"spring", stays, stays, breaks},
      {"spring_length", stays, stays, stays},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int got[3] = {outcome(cases[i].name, inverted), outcome(cases[i].name, flat), outcome(cases[i].name, nothing)};
    if (got[0] != cases[i].inverted || got[1] != cases[i].flat || got[2] != cases[i].nothing)
      fail_msg("%s: %d %d %d", cases[i].name, got[0], got[1], got[2]);
  }
}

// ---- looking up ------------------------------------------------------------------------------------------------------------------------
static void test_lookup(void **state) {
  (void)state;
  const pbMaterial *m, *n = NULL;
  for (int i = 0; (m = pbMaterial_At(i)); i++) {
    assert_ptr_equal(pbMaterial_Find(m->name), m);
    assert_int_equal(pbMaterial_Get(ctx, m->family, m->cell, &n), pb_ok);
    assert_ptr_equal(n, m);
    assert_string_equal(m->name, m->def.name);
    assert_true(m->sheet && m->family && pbMaterial_CellName(m->cell));
    assert_true(!m->mass || pbMaterial_Find(m->mass)->cell == m->cell);
    assert_int_equal(m->cell < pb_cellKindCount ? pbCellKind_Nodes((pbCellKind)m->cell)
                     : m->cell == pb_cellHinge  ? 4
                                                : 3,
                     m->def.points);
  }
  assert_null(pbMaterial_At(-1));
  assert_null(pbMaterial_Find("neo_hookean"));
  const struct {
    const char *name;
    int cell;
    pbStatus status;
    const char *text;
  } bad[] = {{"von_mises", -1, pb_unsupported, "plasticity is not supported"},
             {"stvk", -1, pb_bad_input, "defined for tetrahedron, tetrahedron10, triangle, triangle6; add the element type"},
             {"spring", pb_cellTriangle, pb_bad_input, "is defined for edge, not for triangle"},
             {"neo_hokean", -1, pb_bad_input, "did you mean 'neo_hookean'?"},
             {"spring", 77, pb_bad_argument, "no kind of element 77"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(pbMaterial_Get(ctx, bad[i].name, bad[i].cell, &n), bad[i].status);
    if (!strstr(pbContext_Error(ctx), bad[i].text)) fail_msg("%s", pbContext_Error(ctx));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_derivatives),
      cmocka_unit_test(test_differences),
      cmocka_unit_test(test_invariance),
      cmocka_unit_test(test_rest),
      cmocka_unit_test(test_small_strains),
      cmocka_unit_test(test_cells_agree),
      cmocka_unit_test(test_densities),
      cmocka_unit_test(test_quadratic_fields),
      cmocka_unit_test(test_dampers),
      cmocka_unit_test(test_bending),
      cmocka_unit_test(test_masses),
      cmocka_unit_test(test_extremes),
      cmocka_unit_test(test_lookup),
#ifdef PULLBACK_MUTATE
      cmocka_unit_test(test_every_pullback_is_seen),
#endif
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
