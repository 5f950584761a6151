// The condensed form of contact problems: its solutions satisfy the equations that they stand for, transposed or not.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lcp/work.h"
#include "lcp_instances.h"

static pbLcpWork work_of(const pbLcp *l, int contact, void **memory) {
  pbLcpWork w;
  pbArena a = pbArena_Measure();
  pbLcpWork_Layout(&a, &w, l->n, l->m, l->e, l->m);
  size_t size = pbArena_Needed(&a);
  *memory = malloc(size);
  memset(*memory, 0xff, size);
  a = pbArena_Over(*memory, size);
  pbLcpWork_Layout(&a, &w, l->n, l->m, l->e, l->m);
  w.reduced.by_contact = contact == 3;
  int row;
  assert_int_equal(pbReduced_Begin(&w.reduced, l, &row), pb_ok);
  return w;
}

// The matrix of all rows, column by column
static double *matrix(pbCondensed *c) {
  double *M = malloc(sizeof(double) * (size_t)(c->m * c->m)), *e = calloc((size_t)c->m, 8), *column = calloc((size_t)c->m, 8);
  for (int j = 0; j < c->m; j++) {
    e[j] = 1;
    pbCondensed_Mul(c, e, column);
    for (int i = 0; i < c->m; i++) M[i * c->m + j] = column[i];
    e[j] = 0;
  }
  free(e);
  free(column);
  return M;
}

static void test_rows(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(3);
  double worst = 0;
  int used = 0;
  for (int k = 0; k < 40; k++) {
    Instance c = instance_make(&r, 2 + k % 2, 5, 10, .1, .5, (Kind)(k % 3), k % 4 > 1, 10);
    pbLcp l = instance_problem(&c);
    void *memory;
    pbLcpWork w = work_of(&l, 1, &memory);
    pbCondensed_Make(&w.condensed, &w.reduced, &l, 1);
    if (w.condensed.pays) {
      int m = l.m;
      double *M = matrix(&w.condensed), *diag = calloc((size_t)m, 8), *v = calloc((size_t)m, 8), *x = calloc((size_t)m, 8);
      bool *active = calloc((size_t)m, 1);
      for (int i = 0; i < m; i++) {
        diag[i] = uniform(&r, 1, 3);
        v[i] = pbRng_Normal(&r);
        active[i] = below(&r, 3) > 0;
      }
      for (int transposed = 0; transposed < 2; transposed++)
        for (int some = 0; some < 2; some++) {
          for (int i = 0; i < m; i++) x[i] = !some || active[i] ? v[i] : 0;
          assert_true(pbCondensed_Factor(&w.condensed, diag, some ? active : NULL));
          if (transposed) pbCondensed_SolveT(&w.condensed, x);
          else pbCondensed_Solve(&w.condensed, x);
          for (int i = 0; i < m; i++) {
            double off = diag[i] * x[i] - v[i];
            for (int j = 0; j < m; j++) off += (transposed ? M[j * m + i] : M[i * m + j]) * x[j];
            if (!some || active[i]) worst = fmax(worst, fabs(off));
            else assert_true(x[i] == 0);
          }
        }
      used++;
      free(M);
      free(diag);
      free(v);
      free(x);
      free(active);
    }
    free(memory);
    instance_free(&c);
  }
  print_message("%d problems: off by %.1e at most\n", used, worst);
  assert_true(used > 20 && worst < 1e-6);  // equalities are held by a penalty, once
}

static void test_laws(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(5);
  double worst = 0;
  int used = 0;
  for (int k = 0; k < 40; k++) {
    Instance c = instance_make(&r, 3, 6, 10, .1, .5, (Kind)(k % 3), false, 10);
    pbCones cones = instance_cones(&c);
    pbLcp l = {.n = cones.n, .m = 30, .Q = cones.Q, .p = cones.p, .G = cones.G, .h = cones.h};
    void *memory;
    pbLcpWork w = work_of(&l, 3, &memory);
    pbCondensed_Make(&w.condensed, &w.reduced, &l, 3);
    if (w.condensed.pays) {
      double *M = matrix(&w.condensed), by_s[10][3][3], by_z[10][3][3], v[30], x[30], t[30], sum[30];
      for (int i = 0; i < 90; i++) {
        ((double *)by_s)[i] = (i % 9 % 4 == 0) + .3 * pbRng_Normal(&r);
        ((double *)by_z)[i] = 2 * (i % 9 % 4 == 0) + .3 * pbRng_Normal(&r);
      }
      assert_true(pbCondensed_FactorLaws(&w.condensed, by_s, by_z, 0));
      for (int transposed = 0; transposed < 2; transposed++) {
        for (int i = 0; i < 30; i++) x[i] = v[i] = pbRng_Normal(&r);
        if (transposed) pbCondensed_SolveT(&w.condensed, x);
        else pbCondensed_Solve(&w.condensed, x);
        for (int i = 0; i < 30; i++) {  // t: M x, or S'x
          t[i] = 0;
          for (int j = 0; j < (transposed ? 3 : 30); j++)
            t[i] += transposed ? by_s[i / 3][j][i % 3] * x[i / 3 * 3 + j] : M[i * 30 + j] * x[j];
        }
        double size = 1;
        for (int i = 0; i < 30; i++) {
          sum[i] = -v[i];
          for (int j = 0; j < 3; j++) sum[i] += (transposed ? by_z[i / 3][j][i % 3] : by_z[i / 3][i % 3][j]) * x[i / 3 * 3 + j];
          for (int j = 0; j < 3 && !transposed; j++) sum[i] += by_s[i / 3][i % 3][j] * t[i / 3 * 3 + j];
          for (int j = 0; j < 30 && transposed; j++) sum[i] += M[j * 30 + i] * t[j];
          size = fmax(size, fabs(x[i]));
        }
        for (int i = 0; i < 30; i++) worst = fmax(worst, fabs(sum[i]) / size);
      }
      used++;
      free(M);
    }
    free(memory);
    free((double *)cones.G);
    free((double *)cones.h);
    instance_free(&c);
  }
  print_message("%d problems: off by %.1e at most\n", used, worst);
  assert_true(used > 10 && worst < 1e-9);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_laws),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
