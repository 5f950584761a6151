// Quadratics in a box beside the enumeration of all active sets: which unknowns are held, where the others stand, and the
// factor of their block; from guesses that are right and wrong; what has no least value is told.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/random.h>

#include "control/box_qp.h"
#include "support/support.h"

enum { MOST = 6 };
typedef struct Problem {
  int n;
  double H[MOST * MOST], g[MOST], lower[MOST], upper[MOST];
} Problem;

// H = B B' + little, with axes from long to short; bounds on either side, on one, on none, and some that hold a number.
static Problem draw(pbRng *rng) {
  Problem p = {.n = 1 + (int)(pbRng_Uniform(rng) * MOST)};
  double B[MOST * MOST], shortest = pow(10, -3 * pbRng_Uniform(rng));
  for (int i = 0; i < p.n * p.n; i++) B[i] = pbRng_Normal(rng);
  for (int i = 0; i < p.n; i++) {
    for (int j = 0; j < p.n; j++) {
      for (int k = 0; k < p.n; k++) p.H[i * p.n + j] += B[i * p.n + k] * B[j * p.n + k] * (k == 0 ? shortest : 1);
    }
    p.H[i * p.n + i] += 1e-3;
    p.g[i] = 2 * pbRng_Normal(rng);
    p.lower[i] = pbRng_Uniform(rng) < 0.2 ? -INFINITY : -0.3 - 4 * pbRng_Uniform(rng);
    p.upper[i] = pbRng_Uniform(rng) < 0.2 ? INFINITY : 4 * pbRng_Uniform(rng) - 0.3;
    if (p.upper[i] <= p.lower[i] || (pbRng_Uniform(rng) < 0.05 && isfinite(p.lower[i]))) p.upper[i] = p.lower[i];
  }
  return p;
}

// Gauss, with pivots: the least value where `held` says which stand at a bound (1 lower, 2 upper).
static bool least_of(const Problem *p, const int *held, double *x) {
  int n = p->n;
  double A[MOST][MOST + 1] = {0};
  for (int i = 0; i < n; i++) {
    double bound = held[i] == 1 ? p->lower[i] : p->upper[i];
    if (held[i] && !isfinite(bound)) return false;
    for (int j = 0; j < n; j++) A[i][j] = held[i] ? i == j : p->H[i * n + j];
    A[i][n] = held[i] ? bound : -p->g[i];
  }
  for (int k = 0; k < n; k++) {
    int best = k;
    for (int i = k + 1; i < n; i++) best = fabs(A[i][k]) > fabs(A[best][k]) ? i : best;
    for (int j = 0; j <= n; j++) {
      double aside = A[k][j];
      A[k][j] = A[best][j];
      A[best][j] = aside;
    }
    for (int i = k + 1; i < n; i++) {
      double by = A[i][k] / A[k][k];
      for (int j = k; j <= n; j++) A[i][j] -= by * A[k][j];
    }
  }
  for (int i = n - 1; i >= 0; i--) {
    x[i] = A[i][n];
    for (int j = i + 1; j < n; j++) x[i] -= A[i][j] * x[j];
    x[i] /= A[i][i];
  }
  return true;
}

static double value_of(const Problem *p, const double *x) {
  double value = 0;
  for (int i = 0; i < p->n; i++) {
    for (int j = 0; j < p->n; j++) value += x[i] * p->H[i * p->n + j] * x[j] / 2;
    value += p->g[i] * x[i];
  }
  return value;
}

// The least value over all active sets whose point is in the box.
static void enumerate(const Problem *p, double *best) {
  int sets = 1, held[MOST];
  double least = INFINITY, x[MOST];
  for (int i = 0; i < p->n; i++) sets *= 3;
  for (int s = 0; s < sets; s++) {
    bool inside = true;
    for (int i = 0, rest = s; i < p->n; i++, rest /= 3) held[i] = rest % 3;
    if (!least_of(p, held, x)) continue;
    for (int i = 0; i < p->n; i++) inside &= x[i] >= p->lower[i] - 1e-12 && x[i] <= p->upper[i] + 1e-12;
    if (!inside || value_of(p, x) >= least) continue;
    least = value_of(p, x);
    memcpy(best, x, sizeof x);
  }
  assert_true(isfinite(least));
}

static pbBoxQp solver_of(const Problem *p, double *doubles, int *integers) {
  pbBoxQp q;
  pbBoxQp_Place(&q, p->n, doubles, integers);
  memcpy(q.H, p->H, (size_t)(p->n * p->n) * sizeof *q.H);
  memcpy(q.g, p->g, (size_t)p->n * sizeof *q.g);
  memcpy(q.lower, p->lower, (size_t)p->n * sizeof *q.g);
  memcpy(q.upper, p->upper, (size_t)p->n * sizeof *q.g);
  return q;
}

// Those that are free have no slope, the others one that presses them to their bound; L L' is the block of the free ones.
static void check_answer(const Problem *p, const pbBoxQp *q) {
  int next = 0, n = p->n;
  for (int i = 0; i < n; i++) {
    double slope = p->g[i], scale = fabs(p->g[i]);
    for (int j = 0; j < n; j++) {
      slope += p->H[i * n + j] * q->x[j];
      scale += fabs(p->H[i * n + j] * q->x[j]);
    }
    assert_true(q->x[i] >= p->lower[i] && q->x[i] <= p->upper[i]);
    if (next < q->free_count && q->free[next] == i) {
      next++;
      assert_true(fabs(slope) <= 1e-10 * scale);
    } else {
      assert_true(q->x[i] == p->lower[i] || q->x[i] == p->upper[i]);
      if (p->lower[i] < p->upper[i]) assert_true(q->x[i] == p->lower[i] ? slope >= -1e-10 * scale : slope <= 1e-10 * scale);
    }
  }
  assert_int_equal(next, q->free_count);

  int count = q->free_count;
  for (int a = 0; a < count; a++) {
    for (int b = 0; b <= a; b++) {
      double sum = 0;
      for (int k = 0; k <= b; k++) sum += q->L[a * count + k] * q->L[b * count + k];
      assert_true(fabs(sum - p->H[q->free[a] * n + q->free[b]]) <= 1e-12 * (1 + fabs(sum)));
    }
  }
}

static void test_every_active_set(void **state) {
  enum { PROBLEMS = 1000 };
  (void)state;
  pbRng rng = pbRng_Seed(29);
  double doubles[2 * MOST * MOST + 7 * MOST], worst = 0;
  int integers[MOST], at_bounds = 0, all = 0;
  assert_true(pbBoxQp_Doubles(MOST) * sizeof(double) == sizeof doubles);

  for (int k = 0; k < PROBLEMS; k++) {
    Problem p = draw(&rng);
    double best[MOST];
    enumerate(&p, best);
    pbBoxQp q = solver_of(&p, doubles, integers);

    // From nothing, from anywhere, from the answer.
    for (int guess = 0; guess < 3; guess++) {
      int entries = guess < 2 ? p.n : 0;
      for (int i = 0; i < entries; i++) q.x[i] = guess ? 3 * pbRng_Normal(&rng) : 0;
      assert_true(pbBoxQp_Solve(&q));
      check_answer(&p, &q);
      for (int i = 0; i < p.n; i++) worst = fmax(worst, fabs(q.x[i] - best[i]) / (1 + fabs(best[i])));
    }
    at_bounds += p.n - q.free_count;
    all += p.n;
  }

  print_message("%d of %d unknowns at a bound; answers differ by %.2g at most\n", at_bounds, all, worst);
  assert_true(at_bounds > all / 4 && at_bounds < 3 * all / 4);
  assert_true(worst <= 1e-9);
}

static void test_no_least_value(void **state) {
  (void)state;
  double doubles[2 * MOST * MOST + 7 * MOST];
  int integers[MOST];
  Problem p = {.n = 2, .H = {1, 2, 2, 1}, .g = {1, -1}, .lower = {-INFINITY, -INFINITY}, .upper = {INFINITY, INFINITY}};
  pbBoxQp q = solver_of(&p, doubles, integers);
  q.x[0] = q.x[1] = 0;
  assert_false(pbBoxQp_Solve(&q));

  // Held by its bounds, the second takes no part.
  p.lower[1] = p.upper[1] = 0.5;
  q = solver_of(&p, doubles, integers);
  q.x[0] = q.x[1] = 0;
  assert_true(pbBoxQp_Solve(&q));
  assert_true(q.free_count == 1 && q.free[0] == 0 && q.x[0] == -2 && q.x[1] == 0.5);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_active_set), cmocka_unit_test(test_no_least_value)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
