// Energies as formulas: derivatives by complex step of the same programs, symmetric Hessians, pullbacks, faults, bad formulas.
#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "energy/energy_inside.h"
#include "energy_cases.h"
#include "support/one_context.h"
#include "support/support.h"

enum { ELEMENTS = 75, MOST = 12 };
typedef struct Results {
  double value[ELEMENTS], gradient[ELEMENTS * MOST], hessian[ELEMENTS * MOST * MOST];
} Results;

static void evaluate(const pbEnergy *e, const pbElements *in, Results *r) {
  void *work = malloc(pbEnergy_WorkSize(e));
  memset(work, 0xff, pbEnergy_WorkSize(e));
  pbEnergyFault fault;
  pbElementsOut out = {r->value, r->gradient, r->hessian};
  if (!pbEnergy_Evaluate(e, in, &out, work, &fault)) fail_msg("element %d: %s", fault.element, fault.what);
  free(work);
}

// ---- the same inputs as complex numbers ---------------------------------------------------------------------------------
typedef struct ComplexMesh {
  double _Complex x[3 * MESH], rest[3 * MESH], previous[3 * MESH], w[3 * MESH], parameter[4][9 * 200], timestep, time;
  const void *address[4];
} ComplexMesh;

static pbComplexElements lift(const pbElements *in, const EnergyMesh *m, ComplexMesh *c) {
  for (int i = 0; i < 3 * MESH; i++) {
    c->x[i] = m->x[i];
    c->rest[i] = m->rest[i];
    c->previous[i] = m->previous[i];
    c->w[i] = m->w[i];
  }
  for (int i = 0; i < 4; i++) {
    c->address[i] = c->parameter[i];
    for (int k = 0; k < 9 * 200; k++) c->parameter[i][k] = m->parameter[i][k];
  }
  c->timestep = in->timestep;
  c->time = in->time;
  return (pbComplexElements){.count = in->count,
                             .vertex = in->vertex,
                             .x = c->x,
                             .rest = c->rest,
                             .previous = c->previous,
                             .parameter = c->address,
                             .stride = in->stride,
                             .timestep = &c->timestep,
                             .time = &c->time};
}

static const double tiny = 1e-200;

// d gradient_e / d x of vertex `a` of each element, by columns: every element on vertices of its own
static void own_vertices(const EnergyCase *c, EnergyMesh *m, int count) {
  for (int i = 0; i < count * c->points; i++) m->vertex[i] = (i % c->points) + 4 * (i / c->points % (MESH / 4));
}

static void test_gradient_and_hessian(void **state) {
  (void)state;
  static EnergyMesh m;
  static ComplexMesh z;
  static Results r;
  static double _Complex value[ELEMENTS], gradient[ELEMENTS * MOST];
  for (int k = 0; k < ENERGY_CASES; k++) {
    const EnergyCase *c = &energy_cases[k];
    pbEnergy *e;
    good(ctx, create_case(ctx, c, &e));
    int n = 3 * c->points;
    pbElements in = energy_mesh(c, ELEMENTS, 7 + (uint64_t)k, &m);
    own_vertices(c, &m, ELEMENTS);
    evaluate(e, &in, &r);
    pbComplexElements zin = lift(&in, &m, &z);
    void *work = malloc(pbEnergy_WorkSizeComplex(e));
    for (int j = 0; j < n; j++) {
      for (int v = 0; v < MESH; v++) z.x[3 * v + j % 3] = m.x[3 * v + j % 3] + (v % 4 == j / 3 ? tiny * I : 0);
      assert_true(pbEnergy_EvaluateComplex(e, &zin, &(pbComplexOut){value, gradient, NULL}, work, NULL));
      for (int v = 0; v < 3 * MESH; v++) z.x[v] = m.x[v];
      for (int el = 0; el < ELEMENTS; el++) {
        double *H = r.hessian + el * n * n, scale = 1;
        for (int i = 0; i < n * n; i++) scale = fmax(scale, fabs(H[i]));
        assert_near_of(c->name, r.value[el], creal(value[el]), 1e-13 * scale);
        if (pbEnergy_Symmetric(e)) assert_near_of(c->name, r.gradient[el * n + j], cimag(value[el]) / tiny, 1e-12 * scale);
        for (int i = 0; i < n; i++) {
          assert_near_of(c->name, H[i * n + j], cimag(gradient[el * n + i]) / tiny, 1e-12 * scale);
          if (pbEnergy_Symmetric(e)) assert_true(H[i * n + j] == H[j * n + i]);
        }
      }
    }
    free(work);
    pbEnergy_Destroy(e);
  }
}

// phi = sum_e w . gradient_e with all inputs moved by the imaginary step in one of them
static double phi_slope(const pbEnergy *e, const pbElements *in, const pbComplexElements *zin, ComplexMesh *z,
                        double _Complex *moved, void *work) {
  static double _Complex gradient[ELEMENTS * MOST];
  int points = pbEnergy_Definition(e)->points;
  double sum = 0;
  *moved += tiny * I;
  assert_true(pbEnergy_EvaluateComplex(e, zin, &(pbComplexOut){NULL, gradient, NULL}, work, NULL));
  *moved = creal(*moved);
  for (int el = 0; el < in->count; el++)
    for (int i = 0; i < 3 * points; i++)
      sum += creal(z->w[3 * in->vertex[el * points + i / 3] + i % 3]) * cimag(gradient[el * 3 * points + i]) / tiny;
  return sum;
}

static void test_pullback(void **state) {
  (void)state;
  static EnergyMesh m, bar;
  static ComplexMesh z;
  for (int k = 0; k < ENERGY_CASES; k++) {
    const EnergyCase *c = &energy_cases[k];
    pbEnergy *e;
    good(ctx, create_case(ctx, c, &e));
    pbElements in = energy_mesh(c, ELEMENTS, 70 + (uint64_t)k, &m);
    pbComplexElements zin = lift(&in, &m, &z);
    memset(&bar, 0, sizeof bar);
    double *address[4], timestep = 0, time = 0;
    for (int i = 0; i < 4; i++) address[i] = bar.parameter[i];
    void *work = malloc(pbEnergy_WorkSizeComplex(e));
    pbElementsBar out = {bar.x, bar.rest, bar.previous, address, &timestep, &time};
    assert_true(pbEnergy_Pullback(e, &in, m.w, &out, work, NULL));
    double _Complex *from[] = {z.x, z.rest, z.previous};
    const double *got[] = {bar.x, bar.rest, bar.previous};
    for (int g = 0; g < 3; g++)
      for (int i = 0; i < 3 * MESH; i += 1 + k % 3) {
        double expect = phi_slope(e, &in, &zin, &z, &from[g][i], work);
        assert_near_of(c->name, got[g][i], expect, 2e-12 * (1 + fabs(expect)) * ELEMENTS);
      }
    for (int p = 0; p < c->parameter_count; p++) {
      int size = c->parameter[p].rows * c->parameter[p].cols * (in.stride[p] ? 5 : 1);
      for (int i = 0; i < size; i++) {
        double expect = c->parameter[p].constant ? 0 : phi_slope(e, &in, &zin, &z, &z.parameter[p][i], work);
        assert_near_of(c->name, bar.parameter[p][i], expect, 2e-12 * (1 + fabs(expect)) * ELEMENTS);
      }
    }
    assert_near_of(c->name, timestep, phi_slope(e, &in, &zin, &z, &z.timestep, work), 1e-9);
    assert_near_of(c->name, time, phi_slope(e, &in, &zin, &z, &z.time, work), 1e-9);
    free(work);
    pbEnergy_Destroy(e);
  }
}

static void test_spring_by_hand(void **state) {
  (void)state;
  pbEnergy *e;
  good(ctx, create_case(ctx, &energy_cases[0], &e));
  double x[] = {0, 0, 0, 3, 4, 0}, X[] = {0, 0, 0, 2, 0, 0}, k = 10, value, g[6];
  const double *address[] = {&k};
  pbElements in = {.count = 1, .vertex = (int[]){0, 1}, .x = x, .rest = X, .parameter = address};
  void *work = malloc(pbEnergy_WorkSize(e));
  assert_true(pbEnergy_Evaluate(e, &in, &(pbElementsOut){&value, g, NULL}, work, NULL));
  assert_near_of("value", value, 45, 1e-13);
  assert_near_of("force", g[3], 30 * 0.6, 1e-13);
  assert_near_of("force", g[1], -30 * 0.8, 1e-13);
  assert_true(pbEnergy_Uses(e, pb_inputRest) && !pbEnergy_Uses(e, pb_inputPrevious) && !pbEnergy_Uses(e, pb_inputTime));
  free(work);
  pbEnergy_Destroy(e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gradient_and_hessian),
      cmocka_unit_test(test_pullback),
      cmocka_unit_test(test_spring_by_hand),
  };
  return cmocka_run_group_tests_name("energy", tests, open_context, close_context);
}
