// Stencils on grids against the same elements by a table of vertices.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/energy.h>

#include "support/support.h"

enum { nx = 71, ny = 4, nz = 3, extra = 5, vertices = extra + nx * ny * nz, most = vertices };

static const pbEnergyParameter parameters[] = {{.name = "k", .rows = 1, .cols = 1}, {.name = "a", .rows = 3, .cols = 1}};
static const pbEnergyDef spring = {
    "spring", "d = x0 - x1; k*(norm(d) - norm(X0 - X1))^2*(1 + h*t) + k*dot(a, x0)*dot(x0 - y0, d)", 2, 2, parameters};
static const pbEnergyDef cell = {"cell", "k*log(dot(a, cross(x1 - x0, x2 - x0)) + 2) + k*dot(X1, x1)*dot(y2, x2)", 3, 2,
                                 parameters};

static double *numbers(size_t count, unsigned seed) {
  double *x = malloc(count * sizeof *x);
  for (size_t i = 0; i < count; i++) x[i] = noise(&seed);
  return x;
}

static void same(const char *what, const double *a, const double *b, int count, double tolerance) {
  for (int i = 0; i < count; i++)
    if (!(fabs(a[i] - b[i]) <= tolerance)) fail_msg("%s, entry %d: %.17g is not %.17g", what, i, a[i], b[i]);
}

// The table that a stencil saves.
static int table(const pbGridStencil *s, int points, int *vertex) {
  int count = 0, reach[3] = {0, 0, 0};
  for (int p = 0; p < points; p++)
    for (int c = 0; c < 3; c++) reach[c] = s->offset[p][c] > reach[c] ? s->offset[p][c] : reach[c];
  for (int k = 0; k + reach[2] < s->size[2]; k++)
    for (int j = 0; j + reach[1] < s->size[1]; j++)
      for (int i = 0; i + reach[0] < s->size[0]; i++, count++)
        for (int p = 0; p < points; p++) {
          const int *o = s->offset[p];
          vertex[count * points + p] = s->first + i + o[0] + s->size[0] * (j + o[1] + s->size[1] * (k + o[2]));
        }
  return count;
}

static void compare(const pbEnergyDef *def, const int (*offset)[3], bool each) {
  pbContext *ctx = pbContext_Create(NULL);
  pbEnergy *energy;
  assert_int_equal(pbEnergy_Create(ctx, def, &energy), pb_ok);
  pbGridStencil s = {{nx, ny, nz}, extra, offset};
  int points = def->points, *vertex = malloc(sizeof(int) * 3 * most), count = table(&s, points, vertex);
  assert_int_equal(pbGridStencil_Count(&s, points), count);
  double *x = numbers(3 * vertices, 1), *rest = numbers(3 * vertices, 2), *y = numbers(3 * vertices, 3),
         *weights = numbers(3 * vertices, 4), *k = numbers((size_t)count, 5), *a = numbers(3 * (size_t)count, 6);
  for (int i = 0; i < 3 * count; i++) a[i] *= 0.1;
  const double *values[2] = {k, a};
  int stride[2] = {each, each ? 3 : 0};
  pbElements in = {.count = count,
                   .vertex = vertex,
                   .x = x,
                   .rest = rest,
                   .previous = y,
                   .parameter = values,
                   .stride = stride,
                   .timestep = 0.1,
                   .time = 2};
  void *work = malloc(pbEnergy_WorkSize(energy));
  pbEnergyFault fault;
  // values and gradients
  double *value = zeros((size_t)count), *gradient = zeros(9 * (size_t)count), *wanted = zeros(3 * vertices),
         *found = zeros(3 * vertices), sum = 0, total = 0;
  assert_true(pbEnergy_Evaluate(energy, &in, &(pbElementsOut){value, gradient, NULL}, work, &fault));
  for (int e = 0; e < count; e++) sum += value[e];
  for (int i = 0; i < 3 * points * count; i++) wanted[3 * vertex[i / 3] + i % 3] += gradient[i];
  pbElements grid = in;
  grid.vertex = NULL;
  grid.count = 0;
  assert_true(pbEnergy_EvaluateStencil(energy, &s, &grid, &total, found, work, &fault));
  assert_int_equal(fault.element, -1);
  assert_memory_equal(&sum, &total, sizeof sum);
  same("gradient", found, wanted, 3 * vertices, 1e-12);
  // pullback
  double *bar[2][3], *k_bar[2], *a_bar[2], h_bar[2] = {0}, t_bar[2] = {0};
  for (int i = 0; i < 2; i++) {
    for (int c = 0; c < 3; c++) bar[i][c] = zeros(3 * vertices);
    k_bar[i] = zeros((size_t)count);
    a_bar[i] = zeros(3 * (size_t)count);
    double *to[2] = {k_bar[i], a_bar[i]};
    pbElementsBar out = {bar[i][0], bar[i][1], bar[i][2], to, &h_bar[i], &t_bar[i]};
    if (i) assert_true(pbEnergy_PullbackStencil(energy, &s, &grid, weights, &out, work, &fault));
    else assert_true(pbEnergy_Pullback(energy, &in, weights, &out, work, &fault));
  }
  for (int c = 0; c < 3; c++) same("pullback to points", bar[1][c], bar[0][c], 3 * vertices, 1e-11);
  same("pullback to k", k_bar[1], k_bar[0], each ? count : 1, each ? 1e-12 : 1e-10);
  same("pullback to a", a_bar[1], a_bar[0], each ? 3 * count : 3, each ? 1e-12 : 1e-10);
  same("pullback to h", &h_bar[1], &h_bar[0], 1, 1e-10);
  same("pullback to t", &t_bar[1], &t_bar[0], 1, 1e-10);
  assert_true(a_bar[0][2] != 0 && k_bar[0][0] != 0 && bar[0][2][3 * (extra + nx + 2)] != 0);
  // a number that is none is found at its element
  x[3 * (extra + nx + 40) + 1] = NAN;
  pbEnergyFault first;
  assert_false(pbEnergy_Evaluate(energy, &in, &(pbElementsOut){value, gradient, NULL}, work, &first));
  assert_false(pbEnergy_EvaluateStencil(energy, &s, &grid, &total, found, work, &fault));
  assert_int_equal(fault.element, first.element);
  assert_true(isinf(total));
  for (int i = 0; i < 3 * vertices; i++) assert_true(isfinite(found[i]));
  for (int i = 0; i < 2; i++) {
    for (int c = 0; c < 3; c++) free(bar[i][c]);
    free(k_bar[i]);
    free(a_bar[i]);
  }
  free(x);
  free(rest);
  free(y);
  free(weights);
  free(k);
  free(a);
  free(value);
  free(gradient);
  free(wanted);
  free(found);
  free(work);
  free(vertex);
  pbEnergy_Destroy(energy);
  pbContext_Destroy(ctx);
}

static void test_same(void **state) {
  (void)state;
  static const int along[2][3] = {{0, 0, 0}, {1, 0, 0}}, across[2][3] = {{0, 1, 0}, {0, 0, 2}},
                   corner[3][3] = {{1, 0, 1}, {0, 1, 0}, {2, 0, 0}};
  for (int each = 0; each < 2; each++) {
    compare(&spring, along, each);
    compare(&spring, across, each);
    compare(&cell, corner, each);
  }
}

static void test_count(void **state) {
  (void)state;
  static const int offset[2][3] = {{0, 0, 0}, {4, 0, 1}};
  assert_int_equal(pbGridStencil_Count(&(pbGridStencil){{5, 3, 2}, 0, offset}, 2), 3);
  assert_int_equal(pbGridStencil_Count(&(pbGridStencil){{4, 3, 2}, 0, offset}, 2), 0);
  assert_int_equal(pbGridStencil_Count(&(pbGridStencil){{1, 3, 2}, 0, offset}, 2), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same), cmocka_unit_test(test_count)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
