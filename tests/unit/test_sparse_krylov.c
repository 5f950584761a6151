// Iterative methods against the direct one, transposed systems against plain ones.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/random.h>
#include "sparse/krylov.h"

enum { N = 40, UNKNOWNS = 3 * N };

typedef struct Problem {
  pbContext *ctx;
  pbSparsePattern *p;
  pbSparseAnalysis *a;
  pbSparseFactor *f;
  double *values, *upper, b[UNKNOWNS], exact[UNKNOWNS], jacobi[9 * N];
  void *work, *krylov_work;
} Problem;

// A mesh of springs along a strip, positive definite; upper differs by `skew`.
static Problem make(uint64_t seed, double skew) {
  Problem q = {.ctx = pbContext_Create(NULL)};
  pbRng r = pbRng_Seed(seed);
  int pairs[N * 6], count = 0;
  for (int i = 0; i < N; i++)
    for (int d = 1; d <= 3; d++)
      if (i + d < N) {
        pairs[2 * count] = i;
        pairs[2 * count++ + 1] = i + d;
      }
  assert_int_equal(pbSparsePattern_Create(q.ctx, N, NULL, pairs, (size_t)count, &q.p), pb_ok);
  assert_int_equal(pbSparseAnalysis_Create(q.ctx, q.p, NULL, &q.a), pb_ok);
  assert_int_equal(pbSparseFactor_Create(q.ctx, q.a, &q.f), pb_ok);
  q.values = calloc(9 * (size_t)q.p->slots, sizeof(double));
  q.upper = calloc(9 * (size_t)q.p->slots, sizeof(double));
  q.work = malloc(pbSparseAnalysis_WorkSize(q.a));
  size_t cg = pbCg_WorkSize(UNKNOWNS), gmres = pbGmres_WorkSize(UNKNOWNS, UNKNOWNS);
  q.krylov_work = malloc(cg > gmres ? cg : gmres);
  memset(q.krylov_work, 0xff, cg > gmres ? cg : gmres);
  for (int i = 0; i < N; i++)
    q.values[9 * q.p->begin[i]] = q.values[9 * q.p->begin[i] + 4] = q.values[9 * q.p->begin[i] + 8] = .1;
  for (int j = 0; j < N; j++)
    for (int s = q.p->begin[j] + 1; s < q.p->begin[j + 1]; s++) {
      double d[3];
      for (int e = 0; e < 3; e++) d[e] = pbRng_Normal(&r);
      for (int e = 0; e < 9; e++) {
        double v = d[e / 3] * d[e % 3];
        q.values[9 * s + e] = -v;
        q.upper[9 * s + e] = -v + skew * pbRng_Normal(&r);
        q.values[9 * q.p->begin[j] + e] += v;
        q.values[9 * q.p->begin[q.p->row[s]] + e] += v;
      }
    }
  for (int i = 0; i < UNKNOWNS; i++) q.b[i] = pbRng_Normal(&r);
  assert_int_equal(pbSparse_Factor(q.ctx, q.f, q.values, q.work, NULL), pb_ok);
  pbSparse_Solve(q.f, 1, q.b, q.exact, q.work);
  return q;
}

static void drop(Problem *q) {
  pbSparseFactor_Destroy(q->f);
  pbSparseAnalysis_Destroy(q->a);
  pbSparsePattern_Destroy(q->p);
  pbContext_Destroy(q->ctx);
  free(q->values);
  free(q->upper);
  free(q->work);
  free(q->krylov_work);
}

static double distance(const double *x, const double *y) {
  double most = 0, size = 0;
  for (int i = 0; i < UNKNOWNS; i++) {
    most = fmax(most, fabs(x[i] - y[i]));
    size = fmax(size, fabs(y[i]));
  }
  return most / size;
}

static void test_cg(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed < 6; seed++) {
    Problem q = make(seed, 0);
    pbSparseMatrix m = {q.p, q.values, NULL};
    pbSparseInverse inverse = {q.f, q.work};
    pbBlockJacobi jacobi = {N, q.jacobi};
    assert_int_equal(pbBlockJacobi_Make(q.p, q.values, &jacobi), -1);
    pbLinear preconditions[] = {{NULL, NULL}, pbLinear_Jacobi(&jacobi), pbLinear_Inverse(&inverse)};
    int iterations[3];
    for (int c = 0; c < 3; c++) {
      pbKrylov k = {
          .n = UNKNOWNS, .matrix = pbLinear_Matrix(&m), .precondition = preconditions[c], .tolerance = 1e-13, .iterations = 2000};
      double x[UNKNOWNS] = {0};
      pbKrylovReport report;
      assert_int_equal(pbCg_Solve(q.ctx, &k, q.b, x, q.krylov_work, &report), pb_ok);
      assert_true(report.residual <= 1e-13);
      assert_true(distance(x, q.exact) < 1e-10);
      iterations[c] = report.iterations;
      assert_int_equal(pbCg_Solve(q.ctx, &k, q.b, x, q.krylov_work, &report), pb_ok);
      assert_int_equal(report.iterations, 0);  // already there
      k.iterations = 1;
      k.precondition.apply = NULL;
      memset(x, 0, sizeof x);
      assert_int_equal(pbCg_Solve(q.ctx, &k, q.b, x, q.krylov_work, &report), pb_no_convergence);
    }
    assert_true(iterations[1] < iterations[0] && iterations[2] <= 2);
    for (int i = 0; i < 9 * q.p->slots; i++) q.values[i] *= 1 + 0.02 * sin(i / 9);  // the factor is stale now
    pbKrylov k = {
        .n = UNKNOWNS, .matrix = pbLinear_Matrix(&m), .precondition = preconditions[2], .tolerance = 1e-12, .iterations = 300};
    for (int i = 0; i < N; i++) {
      q.values[9 * q.p->begin[i]] += 1;
      q.values[9 * q.p->begin[i] + 4] += 1;
      q.values[9 * q.p->begin[i] + 8] += 1;
    }
    double x[UNKNOWNS] = {0};
    pbKrylovReport report;
    assert_int_equal(pbCg_Solve(q.ctx, &k, q.b, x, q.krylov_work, &report), pb_ok);
    assert_true(report.iterations > 2);
    for (int i = 0; i < 9 * q.p->slots; i++) q.values[i] = -q.values[i];
    memset(x, 0, sizeof x);
    assert_int_equal(pbCg_Solve(q.ctx, &k, q.b, x, q.krylov_work, &report), pb_singular);
    drop(&q);
  }
}

// The solution of A' y = c pairs with that of A x = b, and <y, B x> = <B' y, x> for the matrix and all that stands for its inverse.
static void test_gmres(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed < 6; seed++) {
    Problem q = make(seed, 0.02);
    pbSparseMatrix m = {q.p, q.values, q.upper};
    pbSparseInverse inverse = {q.f, q.work};
    pbBlockJacobi jacobi = {N, q.jacobi};
    for (int i = 0; i < N; i++) q.values[9 * q.p->begin[i] + 1] += .02;  // unsymmetric diagonal blocks
    assert_int_equal(pbBlockJacobi_Make(q.p, q.values, &jacobi), -1);
    pbLinear preconditions[] = {{NULL, NULL}, pbLinear_Jacobi(&jacobi), pbLinear_Inverse(&inverse)};
    double x[2][UNKNOWNS], y[UNKNOWNS], Ax[UNKNOWNS], c[UNKNOWNS], first[UNKNOWNS];
    pbRng r = pbRng_Seed(seed + 100);
    for (int i = 0; i < UNKNOWNS; i++) {
      c[i] = pbRng_Normal(&r);
      y[i] = pbRng_Normal(&r);
    }
    for (int p = 0; p < 3; p++)
      for (int restart = UNKNOWNS; restart > UNKNOWNS / 3; restart -= UNKNOWNS / 2) {
        if (p < 2 && restart < UNKNOWNS) continue;  // these need all of the space
        for (int t = 0; t < 2; t++) {
          pbKrylov k = {UNKNOWNS, pbLinear_Matrix(&m), preconditions[p], 2e-12, 3000, restart, t};
          pbKrylovReport report;
          memset(x[t], 0, sizeof x[t]);
          assert_int_equal(pbGmres_Solve(q.ctx, &k, t ? c : q.b, x[t], q.krylov_work, &report), pb_ok);
          assert_true(report.residual <= 2e-12);
          pbSparse_Multiply(q.p, q.values, q.upper, t, x[t], Ax);
          assert_true(distance(Ax, t ? c : q.b) < 1e-11);
        }
        double left = 0, right = 0, size = 0;
        for (int i = 0; i < UNKNOWNS; i++) {
          left += c[i] * x[0][i];
          right += q.b[i] * x[1][i];
          size += fabs(c[i] * x[0][i]);
        }
        assert_true(fabs(left - right) < 1e-8 * size);
        if (p == 0) memcpy(first, x[0], sizeof first);
        assert_true(distance(x[0], first) < 1e-8);
      }
    preconditions[0] = pbLinear_Matrix(&m);
    for (int p = 0; p < 3; p++) {
      double left = 0, right = 0, size = 0;
      preconditions[p].apply(preconditions[p].user, false, q.b, Ax);
      for (int i = 0; i < UNKNOWNS; i++) {
        left += y[i] * Ax[i];
        size += fabs(y[i] * Ax[i]);
      }
      preconditions[p].apply(preconditions[p].user, true, y, Ax);
      for (int i = 0; i < UNKNOWNS; i++) right += q.b[i] * Ax[i];
      assert_true(fabs(left - right) < 1e-13 * size);
    }
    drop(&q);
  }
}

static void test_failures(void **state) {
  (void)state;
  Problem q = make(9, 0);
  pbSparseMatrix m = {q.p, q.values, NULL};
  pbBlockJacobi jacobi = {N, q.jacobi};
  pbKrylov k = {UNKNOWNS, pbLinear_Matrix(&m), {NULL, NULL}, 1e-12, 500, 20, false};
  pbKrylovReport report;
  double x[UNKNOWNS] = {0}, zero[UNKNOWNS] = {0};
  assert_int_equal(pbCg_Solve(q.ctx, &k, zero, x, q.krylov_work, &report), pb_ok);
  assert_int_equal(pbGmres_Solve(q.ctx, &k, zero, x, q.krylov_work, &report), pb_ok);
  assert_true(distance(x, q.exact) == 1 && report.iterations == 0);
  memset(q.values + 9 * q.p->begin[7], 0, 9 * sizeof(double));
  assert_int_equal(pbBlockJacobi_Make(q.p, q.values, &jacobi), 7);
  memset(q.values, 0, sizeof(double) * 9 * (size_t)q.p->slots);
  assert_int_equal(pbGmres_Solve(q.ctx, &k, q.b, x, q.krylov_work, &report), pb_no_convergence);
  assert_int_equal(pbCg_Solve(q.ctx, &k, q.b, x, q.krylov_work, &report), pb_singular);
  q.values[0] = NAN;
  assert_int_equal(pbGmres_Solve(q.ctx, &k, q.b, x, q.krylov_work, &report), pb_not_finite);
  assert_int_equal(pbCg_Solve(q.ctx, &k, q.b, x, q.krylov_work, &report), pb_not_finite);
  drop(&q);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cg), cmocka_unit_test(test_gmres), cmocka_unit_test(test_failures)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
