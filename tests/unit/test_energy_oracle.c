// The derivatives of formulas against second-order dual numbers that run over the graph, and the emitted C against the programs.
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "energy/energy_inside.h"
#include "energy/formula.h"
#include "energy_cases.h"
#include "support/one_context.h"
#include "support/support.h"

// ---- dual numbers -------------------------------------------------------------------------------------------------------
enum { SIDE = 12 };
typedef struct Dual {
  double v, g[SIDE], h[SIDE][SIDE];
} Dual;

// f(a) from value, slope and curvature
static Dual chain(const Dual *a, double f, double f1, double f2) {
  Dual r = {.v = f};
  for (int i = 0; i < SIDE; i++) {
    r.g[i] = f1 * a->g[i];
    for (int j = 0; j < SIDE; j++) r.h[i][j] = f1 * a->h[i][j] + f2 * a->g[i] * a->g[j];
  }
  return r;
}

// f(a, b) from value, slopes fa, fb and curvatures
static Dual chain2(const Dual *a, const Dual *b, double f, double fa, double fb, double faa, double fab, double fbb) {
  Dual r = {.v = f};
  for (int i = 0; i < SIDE; i++) {
    r.g[i] = fa * a->g[i] + fb * b->g[i];
    for (int j = 0; j < SIDE; j++)
      r.h[i][j] = fa * a->h[i][j] + fb * b->h[i][j] + faa * a->g[i] * a->g[j] + fbb * b->g[i] * b->g[j] +
                  fab * (a->g[i] * b->g[j] + a->g[j] * b->g[i]);
  }
  return r;
}

static Dual dual_sum(const Dual *a, double f, const Dual *b) { return chain2(a, b, a->v + f * b->v, 1, f, 0, 0, 0); }
static Dual dual_product(const Dual *a, const Dual *b) { return chain2(a, b, a->v * b->v, b->v, a->v, 0, 1, 0); }

// The root f of (f^2 - a)^2 - 8 c f - 4 b by Newton's method in dual numbers: two steps from the root carry all derivatives.
static Dual dual_stretch(const Dual *a, const Dual *b, const Dual *c) {
  Dual f = {.v = pbOp_Stretch(a->v, b->v, c->v)};
  for (int k = 0; k < 2; k++) {
    Dual r = dual_product(&f, &f), cf = dual_product(c, &f);
    r = dual_sum(&r, -1, a);
    Dual p = dual_product(&r, &r), fr = dual_product(&f, &r);
    p = dual_sum(&p, -8, &cf);
    p = dual_sum(&p, -4, b);
    Dual slope = dual_sum(&fr, -2, c), over = chain(&slope, 0.25 / slope.v, -0.25 / (slope.v * slope.v), 0.5 / pow(slope.v, 3));
    Dual step = dual_product(&p, &over);
    f = dual_sum(&f, -1, &step);
  }
  return f;
}

static Dual dual_op(const pbNode *n, const Dual *d) {
  const Dual *a = &d[n->of[0]], *b = &d[n->of[1]], *c = &d[n->of[2]];
  double x = a->v, y = b->v, s = x * x + y * y, root;
  switch ((pbOp)n->op) {
    case pb_opConstant: return (Dual){.v = n->value};
    case pb_opAdd: return dual_sum(a, 1, b);
    case pb_opSub: return dual_sum(a, -1, b);
    case pb_opMul: return dual_product(a, b);
    case pb_opDiv: return chain2(a, b, x / y, 1 / y, -x / (y * y), 0, -1 / (y * y), 2 * x / (y * y * y));
    case pb_opNeg: return chain(a, -x, -1, 0);
    case pb_opSqrt: return chain(a, sqrt(x), 0.5 / sqrt(x), -0.25 / (x * sqrt(x)));
    case pb_opLog: return chain(a, log(x), 1 / x, -1 / (x * x));
    case pb_opExp: return chain(a, exp(x), exp(x), exp(x));
    case pb_opSin: return chain(a, sin(x), cos(x), -sin(x));
    case pb_opCos: return chain(a, cos(x), -sin(x), -cos(x));
    case pb_opAsin: root = sqrt(1 - x * x); return chain(a, asin(x), 1 / root, x / (root * root * root));
    case pb_opAcos: root = sqrt(1 - x * x); return chain(a, acos(x), -1 / root, -x / (root * root * root));
    case pb_opAtan2:
      return chain2(a, b, atan2(x, y), y / s, -x / s, -2 * x * y / (s * s), (x * x - y * y) / (s * s), 2 * x * y / (s * s));
    case pb_opPow: {
      double v = pow(x, y), l = log(x);
      return chain2(a, b, v, y * v / x, v * l, y * (y - 1) * v / (x * x), v / x * (1 + y * l), v * l * l);
    }
    case pb_opAbs: return chain(a, fabs(x), x > 0 ? 1 : x < 0 ? -1 : 0, 0);
    case pb_opMin: return x <= y ? *a : *b;
    case pb_opMax: return x >= y ? *a : *b;
    case pb_opSelect: return x > 0 ? *b : *c;
    case pb_opStretch: return dual_stretch(a, b, c);
    case pb_opSign: return (Dual){.v = x > 0 ? 1 : x < 0 ? -1 : 0};
    case pb_opLess: return (Dual){.v = x < y};
    case pb_opLessEqual: return (Dual){.v = x <= y};
    case pb_opFreeze: return (Dual){.v = x};
    case pb_opExpm1: return chain(a, expm1(x), exp(x), exp(x));
    case pb_opLog1p: return chain(a, log1p(x), 1 / (1 + x), -1 / ((1 + x) * (1 + x)));
    case pb_opSinh: return chain(a, sinh(x), cosh(x), sinh(x));
    case pb_opCosh: return chain(a, cosh(x), sinh(x), cosh(x));
    case pb_opTanh: root = tanh(x); return chain(a, root, 1 - root * root, -2 * root * (1 - root * root));
    case pb_opAsinh: root = sqrt(1 + x * x); return chain(a, asinh(x), 1 / root, -x / (root * root * root));
    case pb_opAcosh: root = sqrt(x * x - 1); return chain(a, acosh(x), 1 / root, -x / (root * root * root));
    case pb_opAtanh: root = 1 - x * x; return chain(a, atanh(x), 1 / root, 2 * x / (root * root));
    case pb_opErf: root = 2 / sqrt(M_PI) * exp(-x * x); return chain(a, erf(x), root, -2 * x * root);
    case pb_opErfc: root = 2 / sqrt(M_PI) * exp(-x * x); return chain(a, erfc(x), -root, 2 * x * root);
    case pb_opInput:
    case pb_opCount: break;
  }
  fail_msg("no dual numbers for operation %d", n->op);
  return (Dual){0};
}

static double input_value(const pbInputs *in, const EnergyMesh *m, const pbElements *elements, int e, int input) {
  const double *arrays[] = {m->x, m->rest, m->previous};
  if (input < in->timestep)
    return arrays[input / (3 * in->points)][3 * m->vertex[e * in->points + input / 3 % in->points] + input % 3];
  if (input == in->timestep) return elements->timestep;
  if (input == in->time) return elements->time;
  int p = 0;
  while (input >= in->parameter[p + 1]) p++;
  return m->parameter[p][e * m->stride[p] + input - in->parameter[p]];
}

static Dual by_duals(const pbGraph *g, int value, const EnergyMesh *m, const pbElements *elements, int e) {
  Dual *d = calloc((size_t)value + 1, sizeof *d);
  for (int i = 0; i <= value; i++) {
    int input = g->node[i].of[0];
    if (g->node[i].op != pb_opInput) {
      d[i] = dual_op(&g->node[i], d);
      continue;
    }
    d[i].v = input_value(&g->inputs, m, elements, e, input);
    if (input < 3 * g->inputs.points) d[i].g[input] = 1;
  }
  Dual result = d[value];
  free(d);
  return result;
}

static void test_dual_numbers(void **state) {
  (void)state;
  static EnergyMesh m;
  static double value[40], gradient[40 * SIDE], hessian[40 * SIDE * SIDE];
  for (int k = 0; k < ENERGY_CASES; k++) {
    const EnergyCase *c = &energy_cases[k];
    pbEnergyDef def = energy_def(c);
    pbEnergy *e;
    good(ctx, create_case(ctx, c, &e));
    pbElements in = energy_mesh(c, 40, 700 + (uint64_t)k, &m);
    void *work = malloc(pbEnergy_WorkSize(e));
    assert_true(pbEnergy_Evaluate(e, &in, &(pbElementsOut){value, gradient, hessian}, work, NULL));
    pbGraph *g;
    int root, n = 3 * c->points;
    assert_int_equal(pbGraph_Create(ctx, &def, &g), pb_ok);
    assert_int_equal(pbFormula_Read(g, &def, &root), pb_ok);
    for (int el = 0; el < 40; el++) {
      Dual d = by_duals(g, root, &m, &in, el);
      double scale = 1;
      for (int i = 0; i < n * n; i++) scale = fmax(scale, fabs(hessian[el * n * n + i]));
      assert_near_of(c->name, value[el], d.v, 1e-13 * scale);
      for (int i = 0; i < n; i++) assert_near_of(c->name, gradient[el * n + i], d.g[i], 1e-12 * scale);
      for (int i = 0; i < n * n && pbEnergy_Symmetric(e); i++)
        assert_near_of(c->name, hessian[el * n * n + i], d.h[i / n][i % n], 1e-12 * scale);
    }
    pbGraph_Destroy(g);
    free(work);
    pbEnergy_Destroy(e);
  }
}

// ---- the sum of stretches against a matrix made of a rotation and known stretches -------------------------------------------
static void test_stretch(void **state) {
  (void)state;
  pbEnergyParameter A = MAT3("A");
  pbEnergy *e = NULL;
  assert_int_equal(pbEnergy_Create(ctx, &(pbEnergyDef){"e", "stretches(A) + 0*x0.x", 1, 1, &A}, &e), pb_ok);
  static const double sums[][3] = {{1, 1, 1}, {2, 1, 0.5}, {1.5, 1.5, 1e-3}, {3, 2, -0.5}, {1e-3, 2e-3, 5e-3}, {100, 1, 0.01}};
  pbRng rng = pbRng_Seed(3);
  void *work = malloc(pbEnergy_WorkSize(e));
  for (int k = 0; k < 60; k++) {
    const double *s = sums[k % 6];
    double u[2][9], F[9] = {0}, value, x[3] = {0};
    for (int r = 0; r < 2; r++) {  // two rotations from quaternions
      double q[4], size = 0;
      for (int i = 0; i < 4; i++) {
        q[i] = pbRng_Normal(&rng);
        size += q[i] * q[i];
      }
      for (int i = 0; i < 4; i++) q[i] /= sqrt(size);
      double w = q[0], a = q[1], b = q[2], c = q[3];
      double m[] = {1 - 2 * (b * b + c * c), 2 * (a * b - w * c),     2 * (a * c + w * b),
                    2 * (a * b + w * c),     1 - 2 * (a * a + c * c), 2 * (b * c - w * a),
                    2 * (a * c - w * b),     2 * (b * c + w * a),     1 - 2 * (a * a + b * b)};
      memcpy(u[r], m, sizeof m);
    }
    for (int i = 0; i < 9; i++)
      for (int l = 0; l < 3; l++) F[i] += u[0][i / 3 * 3 + l] * s[l] * u[1][i % 3 * 3 + l];
    const double *address[] = {F};
    pbElements in = {.count = 1, .vertex = (int[]){0}, .x = x, .parameter = address};
    assert_true(pbEnergy_Evaluate(e, &in, &(pbElementsOut){.value = &value}, work, NULL));
    assert_near_of("sum of stretches", value, s[0] + s[1] + s[2], 1e-13 * (s[0] + s[1] + 1));
  }
  free(work);
  pbEnergy_Destroy(e);
}

// ---- the same bits ----------------------------------------------------------------------------------------------------------
enum { COUNT = 70 };
typedef struct Results {
  double value[COUNT], gradient[COUNT * SIDE], hessian[COUNT * SIDE * SIDE];
} Results;

// However many elements a call has, and on every instruction set of this machine
static void test_same_bits(void **state) {
  (void)state;
  static EnergyMesh m;
  static Results whole, part;
  for (int k = 0; k < ENERGY_CASES; k++) {
    const EnergyCase *c = &energy_cases[k];
    pbEnergy *e;
    good(ctx, create_case(ctx, c, &e));
    int n = 3 * c->points;
    pbElements in = energy_mesh(c, COUNT, 90 + (uint64_t)k, &m);
    void *work = malloc(pbEnergy_WorkSize(e) + 8);
    assert_true(pbEnergy_Evaluate(e, &in, &(pbElementsOut){whole.value, whole.gradient, whole.hessian}, work, NULL));
    pbRunElements *run;
    for (int v = 0; (run = pbRun_Variant(v)); v++) {
      for (int count = 1; count <= COUNT; count += count < 5 ? 1 : 31) {
        memset(&part, 0xff, sizeof part);
        pbRun r = {.program = &e->hessian,
                   .points = c->points,
                   .count = count,
                   .vertex = in.vertex,
                   .vertices = {in.x, in.rest, in.previous, &in.timestep, &in.time},
                   .parameter = (const void *const *)in.parameter,
                   .stride = in.stride};
        r.rows[0] = (pbOutputRows){part.value, 0, 1};
        r.rows[1] = (pbOutputRows){part.gradient, 1, n};
        r.rows[2] = (pbOutputRows){part.hessian, 1 + n, n * n};
        r.work = (char *)work + 8;  // alignment is not asked for
        assert_int_equal(run(&r, NULL), -1);
        assert_memory_equal(part.value, whole.value, sizeof(double) * (size_t)count);
        assert_memory_equal(part.gradient, whole.gradient, sizeof(double) * (size_t)(count * n));
        assert_memory_equal(part.hessian, whole.hessian, sizeof(double) * (size_t)(count * n * n));
        assert_true(isnan(part.value[count % COUNT]) || count == COUNT);  // nothing behind the end
      }
    }
    free(work);
    pbEnergy_Destroy(e);
  }
}

// ---- emitted C --------------------------------------------------------------------------------------------------------------
typedef void (*Emitted)(int, const int *, const double *, const double *, const double *, const double *const *, const int *,
                        double, double, double *, double *, double *);

// Emitted code has the C library's logarithm where the programs have our own.
static void assert_same(const char *name, double emitted, double interpreted) {
  assert_near_of(name, emitted, interpreted, 1e-14 * (1 + fabs(interpreted)));
}

// Compiled for the machine that the test runs on; empty where it is linked statically and can load nothing.
#ifndef PB_TEST_CC
#define PB_TEST_CC "cc"
#endif

static void test_emitted_c(void **state) {
  (void)state;
  char folder[] = "/tmp/pullback-emit-XXXXXX", command[400], path[64];
  if (!*PB_TEST_CC || system(PB_TEST_CC " --version >/dev/null 2>&1")) skip();
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/all.c", folder);
  FILE *stream = fopen(path, "w");
  assert_non_null(stream);
  for (int k = 0; k < ENERGY_CASES; k++) {
    char name[16];
    snprintf(name, sizeof name, "e%d", k);
    pbEnergy *e;
    good(ctx, create_case(ctx, &energy_cases[k], &e));
    char *text = pbEnergy_EmitC(e, name);
    assert_non_null(text);
    fprintf(stream, "%s\n", text);
    pbContext_Free(ctx, text);
    pbEnergy_Destroy(e);
  }
  fclose(stream);
  snprintf(command, sizeof command,
           PB_TEST_CC " -O0 -ffp-contract=off -Wall -Werror -Wno-psabi -shared -fPIC %s/all.c -o %s/all.so -lm", folder, folder);
  assert_int_equal(system(command), 0);
  snprintf(path, sizeof path, "%s/all.so", folder);
  void *library = dlopen(path, RTLD_NOW);
  assert_non_null(library);
  static EnergyMesh m;
  static Results interpreted, emitted;
  for (int k = 0; k < ENERGY_CASES; k++) {
    const EnergyCase *c = &energy_cases[k];
    char name[32];
    snprintf(name, sizeof name, "e%d_hessian", k);
    Emitted f = (Emitted)(intptr_t)dlsym(library, name);
    assert_non_null(f);
    pbEnergy *e;
    good(ctx, create_case(ctx, c, &e));
    pbElements in = energy_mesh(c, COUNT - 1, 33 + (uint64_t)k, &m);
    memset(&interpreted, 0, sizeof interpreted);
    memset(&emitted, 0, sizeof emitted);
    void *work = malloc(pbEnergy_WorkSize(e));
    assert_true(
        pbEnergy_Evaluate(e, &in, &(pbElementsOut){interpreted.value, interpreted.gradient, interpreted.hessian}, work, NULL));
    f(in.count, in.vertex, in.x, in.rest, in.previous, in.parameter, in.stride, in.timestep, in.time, emitted.value,
      emitted.gradient, emitted.hessian);
    for (int i = 0; i < COUNT * SIDE * SIDE; i++) {
      assert_same(c->name, emitted.hessian[i], interpreted.hessian[i]);
      assert_same(c->name, emitted.gradient[i % (COUNT * SIDE)], interpreted.gradient[i % (COUNT * SIDE)]);
      assert_same(c->name, emitted.value[i % COUNT], interpreted.value[i % COUNT]);
    }
    free(work);
    pbEnergy_Destroy(e);
  }
  dlclose(library);
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dual_numbers),
      cmocka_unit_test(test_stretch),
      cmocka_unit_test(test_same_bits),
      cmocka_unit_test(test_emitted_c),
  };
  return cmocka_run_group_tests_name("energy oracles", tests, open_context, close_context);
}
