// Newton's method by conjugate gradients: a quadratic problem of condition 1e5 beside its closed form; a quadratic end; products
// and differences; saddles left by their curvature; bounds beside enumeration; points and products that fail; resuming to the
// same bits, no allocation in an iteration.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/optimize.h>
#include <pullback/random.h>

#include "support/meter.h"
#include "support/support.h"

enum { most = 40 };

// f = x'A x / 2 - b'x + sum c x^4 / 4; products may fail, points beyond `wall` do.
typedef struct Bench {
  int n, products, stop_at;
  bool refuses;
  double A[most * most], b[most], c, wall;
} Bench;

static pbStatus gradient(void *user, const double *x, double *value, double *g) {
  Bench *b = user;
  if (b->stop_at && --b->stop_at == 0) return pb_interrupted;
  if (b->wall > 0 && x[0] > b->wall) return pb_not_finite;
  *value = 0;
  for (int i = 0; i < b->n; i++) {
    g[i] = b->c * x[i] * x[i] * x[i] - b->b[i];
    double Ax = 0;
    for (int j = 0; j < b->n; j++) Ax += b->A[i * b->n + j] * x[j];
    g[i] += Ax;
    *value += 0.5 * x[i] * Ax - b->b[i] * x[i] + 0.25 * b->c * x[i] * x[i] * x[i] * x[i];
  }
  return pb_ok;
}

static pbStatus product(void *user, const double *x, const double *v, double *Hv) {
  Bench *b = user;
  if (b->refuses) return pb_no_convergence;
  b->products++;
  for (int i = 0; i < b->n; i++) {
    Hv[i] = 3 * b->c * x[i] * x[i] * v[i];
    for (int j = 0; j < b->n; j++) Hv[i] += b->A[i * b->n + j] * v[j];
  }
  return pb_ok;
}

static pbProblem problem_of(Bench *b, bool products) {
  return (pbProblem){.n = b->n, .user = b, .gradient = gradient, .product = products ? product : NULL};
}

// Q diag(eigenvalues) Q' with a random rotation Q, by Householder's reflections.
static void fill_matrix(Bench *b, const double *eigenvalues, uint64_t seed) {
  int n = b->n;
  memset(b->A, 0, sizeof b->A);
  for (int i = 0; i < n; i++) b->A[i * n + i] = eigenvalues[i];
  for (int k = 0; k < 3; k++) {
    double v[most], length = 0, Av[most];
    fill_noise(&seed, v, n, 1);
    for (int i = 0; i < n; i++) length += v[i] * v[i];
    for (int i = 0; i < n; i++) v[i] /= sqrt(length);

    // A := (1 - 2 v v') A (1 - 2 v v')
    double vAv = 0;
    for (int i = 0; i < n; i++) {
      Av[i] = 0;
      for (int j = 0; j < n; j++) Av[i] += b->A[i * n + j] * v[j];
      vAv += v[i] * Av[i];
    }
    for (int i = 0; i < n; i++) {
      for (int j = 0; j < n; j++) b->A[i * n + j] += 4 * vAv * v[i] * v[j] - 2 * v[i] * Av[j] - 2 * Av[i] * v[j];
    }
  }
}

static int run(pbContext *ctx, const pbProblem *p, const double *start, int iterations, pbOptimizer **o) {
  int k = 0;
  good(ctx, pbOptimizer_Create(ctx, p, &(pbOptimizerOptions){.method = pb_methodNewtonCg}, start, o));
  for (; k < iterations && pbOptimizer_Get(*o).outcome == pb_running; k++) good(ctx, pbOptimizer_Iterate(*o));
  return k;
}

// x with A x = b is known.
static void test_closed_form(void **state) {
  pbContext *ctx = *state;
  Bench b = {.n = most};
  double eigenvalues[most], answer[most], start[most] = {0};
  uint64_t seed = 7;
  for (int i = 0; i < most; i++) eigenvalues[i] = pow(10, 5.0 * i / (most - 1));
  fill_matrix(&b, eigenvalues, 2);
  fill_noise(&seed, answer, most, 1);
  for (int i = 0; i < most; i++) {
    for (int j = 0; j < most; j++) b.b[i] += b.A[i * most + j] * answer[j];
  }

  pbProblem p = problem_of(&b, true);
  pbOptimizer *o;
  good(ctx,
       pbOptimizer_Create(ctx, &p, &(pbOptimizerOptions){.method = pb_methodNewtonCg, .gradient_tolerance = 1e-10}, start, &o));
  while (pbOptimizer_Get(o).outcome == pb_running) good(ctx, pbOptimizer_Iterate(o));
  pbIterate at = pbOptimizer_Get(o);
  double worst = 0;
  for (int i = 0; i < most; i++) worst = fmax(worst, fabs(at.x[i] - answer[i]));
  print_message("condition 1e5: %d iterations, %d products, error %.1e\n", at.iteration, b.products, worst);
  assert_true(worst < 1e-10);
  assert_int_equal(at.products, b.products);
  assert_int_equal(at.differences, 0);
  pbOptimizer_Destroy(o);
}

// gap' <= C gap^2 of the last three gaps, with a bound of C that a linear rate would break.
static void test_quadratic_end(void **state) {
  pbContext *ctx = *state;
  double eigenvalues[most], start[most], gap[100], norm[100];
  for (int by_products = 0; by_products < 2; by_products++) {
    Bench b = {.n = 12, .c = 1};
    uint64_t seed = 5;
    for (int i = 0; i < b.n; i++) eigenvalues[i] = 0.1 + i;
    fill_matrix(&b, eigenvalues, 3);
    fill_noise(&seed, b.b, b.n, 3);
    fill_noise(&seed, start, b.n, 5);
    pbProblem p = problem_of(&b, by_products);
    pbOptimizer *o;
    int count = 0;
    good(ctx, pbOptimizer_Create(ctx, &p, &(pbOptimizerOptions){.method = pb_methodNewtonCg}, start, &o));
    while (pbOptimizer_Get(o).outcome == pb_running && count < 100) {
      good(ctx, pbOptimizer_Iterate(o));
      gap[count] = pbOptimizer_Get(o).value;
      norm[count++] = pbOptimizer_Get(o).gradient_norm;
    }
    pbIterate at = pbOptimizer_Get(o);
    assert_int_equal(at.outcome, pb_smallGradient);
    assert_true(by_products ? at.differences == 0 : at.products == 0 && at.differences > 0);

    // gradients, which go down to their rounding; gaps are their squares
    for (int k = count - 3; k + 1 < count; k++) {
      print_message("%s: |g| %.1e -> %.1e\n", by_products ? "exact" : "differences", norm[k], norm[k + 1]);
      assert_true(norm[k + 1] <= 10 * norm[k] * norm[k] + 1e-9 || norm[k] > 0.1);
    }
    assert_true(gap[count - 1] <= gap[count - 2] + 1e-13 * fabs(gap[count - 1]));
    pbOptimizer_Destroy(o);
  }
}

// Two wells beside a saddle at zero: from near it, and with no gradient along the way down at all but rounding.
static void test_saddle(void **state) {
  pbContext *ctx = *state;
  for (int by_products = 0; by_products < 2; by_products++) {
    Bench b = {.n = 6, .c = 1};
    double eigenvalues[] = {-1, 1, 2, 3, 4, 5}, start[6];
    uint64_t seed = 9;
    fill_matrix(&b, eigenvalues, 4);
    fill_noise(&seed, start, b.n, 1e-6);
    pbProblem p = problem_of(&b, by_products);
    pbOptimizer *o;
    int count = run(ctx, &p, start, 60, &o);
    pbIterate at = pbOptimizer_Get(o);
    assert_int_equal(at.outcome, pb_smallGradient);
    assert_true(at.value < -0.05 && count < 30);

    // a minimum: every direction curves upwards
    for (int i = 0; i < b.n; i++) {
      double v[6] = {0}, Hv[6];
      v[i] = 1;
      good(ctx, product(&b, at.x, v, Hv));
      assert_true(Hv[i] > 0);
    }
    pbOptimizer_Destroy(o);
  }
}

// The least value of a convex quadratic in a box, by all 3^n sets of active bounds.
static double enumerate(const Bench *b, const double *lower, const double *upper, double *answer) {
  double least = INFINITY;
  int n = b->n, sets = 1;
  for (int i = 0; i < n; i++) sets *= 3;
  for (int set = 0; set < sets; set++) {
    double M[most], rhs[8], x[8] = {0}, value = 0;
    int which[8], code = set, free = 0;
    for (int i = 0; i < n; i++, code /= 3) {
      if (code % 3 == 2) which[free++] = i;
      else x[i] = code % 3 ? upper[i] : lower[i];
    }
    for (int i = 0; i < free; i++) {
      rhs[i] = b->b[which[i]];
      for (int j = 0; j < n; j++) rhs[i] -= b->A[which[i] * n + j] * x[j];
      for (int j = 0; j < free; j++) M[i * free + j] = b->A[which[i] * n + which[j]];
    }
    for (int k = 0; k < free; k++) {
      for (int i = k + 1; i < free; i++) {
        double f = M[i * free + k] / M[k * free + k];
        for (int j = k; j < free; j++) M[i * free + j] -= f * M[k * free + j];
        rhs[i] -= f * rhs[k];
      }
    }
    bool inside = true;
    for (int i = free - 1; i >= 0; i--) {
      for (int j = i + 1; j < free; j++) rhs[i] -= M[i * free + j] * x[which[j]];
      x[which[i]] = rhs[i] / M[i * free + i];
      inside &= x[which[i]] >= lower[which[i]] && x[which[i]] <= upper[which[i]];
    }
    for (int i = 0; i < n; i++) {
      double Ax = 0;
      for (int j = 0; j < n; j++) Ax += b->A[i * n + j] * x[j];
      value += 0.5 * x[i] * Ax - b->b[i] * x[i];
    }
    if (inside && value < least) {
      least = value;
      memcpy(answer, x, (size_t)n * sizeof *x);
    }
  }
  return least;
}

static void test_bounds(void **state) {
  pbContext *ctx = *state;
  uint64_t seed = 21;
  int held = 0;
  for (int k = 0; k < 200; k++) {
    Bench b = {.n = 5};
    double eigenvalues[5], lower[5], upper[5], start[5], answer[5];
    for (int i = 0; i < b.n; i++) {
      eigenvalues[i] = pow(10, 2 * noise64(&seed));
      lower[i] = -fabs(noise64(&seed));
      upper[i] = fabs(noise64(&seed));
    }
    fill_matrix(&b, eigenvalues, (uint64_t)k + 100);
    fill_noise(&seed, b.b, b.n, 5);
    fill_noise(&seed, start, b.n, 1);
    pbProblem p = problem_of(&b, k % 2);
    p.lower = lower;
    p.upper = upper;
    pbOptimizer *o;
    run(ctx, &p, start, 100, &o);
    pbIterate at = pbOptimizer_Get(o);
    double least = enumerate(&b, lower, upper, answer);
    assert_true(at.value <= least + 1e-9 * (1 + fabs(least)));
    for (int i = 0; i < b.n; i++) {
      assert_true(at.x[i] >= lower[i] && at.x[i] <= upper[i]);
      if (answer[i] == lower[i] || answer[i] == upper[i]) {
        held++;
        assert_true(at.x[i] == answer[i]);
      }
    }
    pbOptimizer_Destroy(o);
  }
  assert_true(held > 200);
}

// Points that cannot be evaluated shorten the region; products that fail are made of differences.
static void test_failures(void **state) {
  pbContext *ctx = *state;
  Bench b = {.n = 3, .c = 1, .wall = 1.2, .refuses = true};
  double eigenvalues[] = {1, 2, 3}, start[] = {-20, 1, 1};
  fill_matrix(&b, eigenvalues, 6);
  b.b[0] = 2;
  pbProblem p = problem_of(&b, true);
  pbOptimizer *o;
  run(ctx, &p, start, 100, &o);
  pbIterate at = pbOptimizer_Get(o);
  assert_int_equal(at.outcome, pb_smallGradient);
  assert_int_equal(at.products, 0);
  assert_true(at.differences > 0);
  pbOptimizer_Destroy(o);

  // no gradient, no start, bounds
  p.gradient = NULL;
  assert_int_equal(pbOptimizer_Create(ctx, &p, &(pbOptimizerOptions){.method = pb_methodNewtonCg}, start, &o), pb_bad_argument);
  assert_string_equal(pbContext_Error(ctx), "newton-cg needs a gradient");
  p.gradient = gradient;
  start[0] = 5;
  run(ctx, &p, start, 100, &o);
  assert_int_equal(pbOptimizer_Get(o).outcome, pb_noDescent);
  pbOptimizer_Destroy(o);
}

// Stopped within any iteration and begun again from what was saved, the run has the same bits; an iteration takes no memory.
static void test_resume(void **state) {
  (void)state;
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  Bench b = {.n = 12, .c = 1};
  double eigenvalues[most], start[most];
  uint64_t seed = 15;
  for (int i = 0; i < b.n; i++) eigenvalues[i] = i - 2;
  fill_matrix(&b, eigenvalues, 3);
  fill_noise(&seed, start, b.n, 5);
  pbProblem p = problem_of(&b, true);
  const pbOptimizerOptions options = {.method = pb_methodNewtonCg};
  pbOptimizer *o, *again;
  int count = run(ctx, &p, start, 100, &o);
  size_t size = pbOptimizer_StateSize(o);
  double *whole = zeros(size), *kept = zeros(size);
  pbOptimizer_Save(o, whole);
  pbOptimizer_Destroy(o);
  assert_true(count > 5);

  good(ctx, pbOptimizer_Create(ctx, &p, &options, start, &o));
  for (int k = 0; k < count; k++) {
    pbOptimizer_Save(o, kept);
    b.stop_at = 1;
    pbStatus stopped = pbOptimizer_Iterate(o);
    b.stop_at = 0;
    assert_true(stopped == pb_interrupted);
    good(ctx, pbOptimizer_Create(ctx, &p, &options, start, &again));
    good(ctx, pbOptimizer_Restore(again, kept));
    pbOptimizer_Destroy(o);
    o = again;
    int calls = meter.calls;
    good(ctx, pbOptimizer_Iterate(o));
    assert_int_equal(meter.calls, calls);
  }
  pbOptimizer_Save(o, kept);
  assert_memory_equal(kept, whole, size * sizeof *kept);
  pbOptimizer_Destroy(o);
  pbContext_Destroy(ctx);
  assert_int_equal(meter.live, 0);
  free(whole);
  free(kept);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_closed_form), cmocka_unit_test(test_quadratic_end),
                                     cmocka_unit_test(test_saddle),      cmocka_unit_test(test_bounds),
                                     cmocka_unit_test(test_failures),    cmocka_unit_test(test_resume)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
