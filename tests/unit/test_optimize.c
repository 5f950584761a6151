// Minimisers on functions with known answers; bounds, failing points, and resuming to the same bits.
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

#include "support/support.h"

typedef struct Bench {
  int n, calls, fail_beyond;  // points with x[0] > fail_beyond fail softly (0: none)
  int stop_at;                // this call fails hard (0: none)
} Bench;

static pbStatus gate(Bench *b, const double *x) {
  if (++b->calls == b->stop_at) return pb_interrupted;
  return b->fail_beyond && x[0] > b->fail_beyond ? pb_not_finite : pb_ok;
}

static pbStatus rosenbrock_residuals(void *user, const double *x, double *r, double *J) {
  Bench *b = user;
  int n = b->n;
  PB_TRY(gate(b, x));
  if (J) memset(J, 0, sizeof *J * 2 * (size_t)(n - 1) * (size_t)n);
  for (int i = 0; i + 1 < n; i++) {
    r[2 * i] = 10 * (x[i + 1] - x[i] * x[i]);
    r[2 * i + 1] = 1 - x[i];
    if (!J) continue;
    J[2 * i * n + i] = -20 * x[i];
    J[2 * i * n + i + 1] = 10;
    J[(2 * i + 1) * n + i] = -1;
  }
  return pb_ok;
}
static pbStatus rosenbrock(void *user, const double *x, double *value, double *g) {
  Bench *b = user;
  PB_TRY(gate(b, x));
  *value = 0;
  memset(g, 0, sizeof *g * (size_t)b->n);
  for (int i = 0; i + 1 < b->n; i++) {
    double a = x[i + 1] - x[i] * x[i], c = 1 - x[i];
    *value += 100 * a * a + c * c;
    g[i] += -400 * a * x[i] - 2 * c;
    g[i + 1] += 200 * a;
  }
  return pb_ok;
}
static pbStatus rosenbrock_value(void *user, const double *x, double *value) {
  double g[64];
  return rosenbrock(user, x, value, g);
}
static pbProblem problem(Bench *b) {
  return (pbProblem){.n = b->n,
                     .m = 2 * (size_t)(b->n - 1),
                     .user = b,
                     .value = rosenbrock_value,
                     .gradient = rosenbrock,
                     .residuals = rosenbrock_residuals};
}

static const double start[] = {-1.2, 1, -1.2, 1, -1.2, 1, -1.2, 1, -1.2, 1};

static pbIterate minimize(pbContext *ctx, const pbProblem *p, const pbOptimizerOptions *options, int iterations, double *best) {
  pbOptimizer *o;
  assert_int_equal(pbOptimizer_Create(ctx, p, options, start, &o), pb_ok);
  for (int i = 0; i < iterations && pbOptimizer_Get(o).outcome == pb_running; i++)
    assert_int_equal(pbOptimizer_Iterate(o), pb_ok);
  pbIterate end = pbOptimizer_Get(o);
  memcpy(best, end.best, sizeof *best * (size_t)p->n);
  pbOptimizer_Destroy(o);
  return end;
}

static void all_ones(const double *x, int n, double tolerance) {
  for (int i = 0; i < n; i++) assert_true(fabs(x[i] - 1) <= tolerance);
}

static void test_lbfgs(void **state) {
  Bench b = {.n = 10};
  pbProblem p = problem(&b);
  double x[10];
  pbIterate end = minimize(*state, &p, &(pbOptimizerOptions){.method = pb_methodLbfgs}, 300, x);
  print_message("lbfgs: %d iterations, %d gradients, value %g\n", end.iteration, (int)end.gradients, end.best_value);
  assert_int_equal(end.outcome, pb_smallGradient);
  assert_true(end.gradients < 150);
  assert_true(end.best_value < 1e-16 || end.best_value > 3.98);  // the known second minimum is a minimum too
}

static void test_gauss_newton(void **state) {
  Bench b = {.n = 2};
  pbProblem p = problem(&b);
  double x[2];
  pbIterate end = minimize(*state, &p, &(pbOptimizerOptions){.method = pb_methodGaussNewton}, 100, x);
  print_message("gauss-newton: %d iterations, %d Jacobians, %d values\n", end.iteration, (int)end.jacobians, (int)end.values);
  all_ones(x, 2, 1e-8);
  assert_true(end.jacobians < 40);
}

static void test_adam(void **state) {
  Bench b = {.n = 2};
  pbProblem p = problem(&b);
  double x[2];
  pbRate rates[] = {{0, 0.1}, {1000, 0.01}, {3000, 0.001}};
  pbIterate end = minimize(*state, &p, &(pbOptimizerOptions){.method = pb_methodAdam, .rates = rates, .rate_count = 3}, 6000, x);
  assert_true(end.best_value < 1e-8);
}

static void test_first_step_of_adam_is_the_rate(void **state) {
  Bench b = {.n = 2};
  pbProblem p = problem(&b);
  pbOptimizer *o;
  assert_int_equal(pbOptimizer_Create(*state, &p, &(pbOptimizerOptions){.method = pb_methodAdam}, start, &o), pb_ok);
  assert_int_equal(pbOptimizer_Iterate(o), pb_ok);
  pbIterate i = pbOptimizer_Get(o);
  for (int k = 0; k < 2; k++) assert_true(fabs(fabs(i.x[k] - start[k]) - 0.01) < 1e-8);
  pbOptimizer_Destroy(o);
}

static void test_cmaes(void **state) {
  Bench b = {.n = 6};
  pbProblem p = problem(&b);
  double x[6];
  pbIterate end = minimize(*state, &p, &(pbOptimizerOptions){.method = pb_methodCmaes, .sigma = 0.5, .seed = 3}, 2000, x);
  print_message("cmaes: %d generations, %d values, value %g\n", end.iteration, (int)end.values, end.best_value);
  assert_true(end.best_value < 1e-12 || fabs(end.best_value - 3.9839) < 1e-3);
  assert_int_equal(end.gradients + end.jacobians, 0);
}

// ---- strategies that see values alone ---------------------------------------------------------------------------------
static pbStatus ellipsoid(void *user, const double *x, double *value) {
  int n = *(int *)user;
  *value = 0;
  for (int i = 0; i < n; i++) *value += pow(1e6, n > 1 ? (double)i / (n - 1) : 0) * x[i] * x[i];
  return pb_ok;
}
static pbStatus sphere(void *user, const double *x, double *value) {
  int n = *(int *)user;
  *value = 0;
  for (int i = 0; i < n; i++) *value += x[i] * x[i];
  return pb_ok;
}
static pbStatus steep_sphere(void *user, const double *x, double *value) {
  pbStatus status = sphere(user, x, value);
  *value = exp(*value) - 7;
  return status;
}

// Evaluations until the value is at most `goal`, from 1, 1, ...; 0: not in so many iterations.
static int64_t evaluations_to(pbContext *ctx, pbMethod method, int n, pbStatus (*f)(void *, const double *, double *),
                              double goal, int iterations, const pbOptimizerOptions *more) {
  double *x = malloc((size_t)n * sizeof *x);
  pbOptimizerOptions options = *more;
  pbOptimizer *o;
  for (int i = 0; i < n; i++) x[i] = 1;
  options.method = method;
  assert_int_equal(pbOptimizer_Create(ctx, &(pbProblem){.n = n, .user = &n, .value = f}, &options, x, &o), pb_ok);
  pbIterate now = pbOptimizer_Get(o);
  for (int i = 0; i < iterations && !(now.best_value <= goal); i++) {
    assert_int_equal(pbOptimizer_Iterate(o), pb_ok);
    now = pbOptimizer_Get(o);
  }
  int64_t values = now.best_value <= goal ? now.values : 0;
  pbOptimizer_Destroy(o);
  free(x);
  return values;
}

// The diagonal is learned faster where it is all there is to learn (Ros & Hansen 2008, figure 3).
static void test_sep_cma_beside_cmaes(void **state) {
  const pbOptimizerOptions options = {.sigma = 0.5, .seed = 5};
  int64_t round[2], long_axes[2];
  for (int k = 0; k < 2; k++) {
    pbMethod method = k ? pb_methodSepCma : pb_methodCmaes;
    round[k] = evaluations_to(*state, method, 20, sphere, 1e-9, 2000, &options);
    long_axes[k] = evaluations_to(*state, method, 20, ellipsoid, 1e-9, 20000, &options);
  }
  print_message("evaluations to 1e-9, n 20: sphere %d cmaes, %d sep-cma; ellipsoid %d, %d\n", (int)round[0], (int)round[1],
                (int)long_axes[0], (int)long_axes[1]);
  assert_true(round[0] > 0 && round[1] > 0 && round[1] < 1.3 * (double)round[0]);
  assert_true(long_axes[1] > 0 && (double)long_axes[1] < 0.6 * (double)long_axes[0]);

  // Rosenbrock's function is not separable: it is found, only later.
  Bench b = {.n = 6};
  pbProblem p = problem(&b);
  double x[6];
  pbIterate end = minimize(*state, &p, &(pbOptimizerOptions){.method = pb_methodSepCma, .sigma = 0.5, .seed = 3}, 20000, x);
  print_message("rosenbrock 6: %d values, %g\n", (int)end.values, end.best_value);
  assert_true(end.best_value < 1e-8 || fabs(end.best_value - 3.9839) < 1e-3);
}

static void test_sep_cma_with_many_unknowns(void **state) {
  int n = 20000;
  const pbOptimizerOptions options = {.method = pb_methodSepCma, .sigma = 0.1, .seed = 5};
  double *x = malloc((size_t)n * sizeof *x);
  pbOptimizer *o;
  for (int i = 0; i < n; i++) x[i] = 1;
  assert_int_equal(pbOptimizer_Create(*state, &(pbProblem){.n = n, .user = &n, .value = sphere}, &options, x, &o), pb_ok);
  assert_true(pbOptimizer_StateSize(o) < 6 * (size_t)n);
  for (int i = 0; i < 200; i++) assert_int_equal(pbOptimizer_Iterate(o), pb_ok);
  pbIterate end = pbOptimizer_Get(o);
  print_message("sep-cma, 20 000 unknowns: %g of 20000 after %d evaluations\n", end.best_value, (int)end.values);
  assert_true(end.best_value < 19000);
  pbOptimizer_Destroy(o);
  free(x);
}

static void test_es(void **state) {
  const pbRate rates[] = {{0, 0.1}, {1000, 1e-4}};
  const pbOptimizerOptions options = {
      .sigma = 0.01, .seed = 5, .rates = rates, .rate_count = 2, .linear_rates = true, .population = 20};
  int64_t round = evaluations_to(*state, pb_methodEs, 20, sphere, 1e-3, 1000, &options);
  int64_t long_axes = evaluations_to(*state, pb_methodEs, 20, ellipsoid, 3e3, 1000, &options);
  print_message("es, n 20: sphere to 1e-3 in %d evaluations, ellipsoid to 3e3 (of 3.8e6) in %d\n", (int)round, (int)long_axes);
  assert_true(round > 0 && long_axes > 0);

  // Ranks see the order of values alone: the same bits for any rising function of them.
  assert_true(round == evaluations_to(*state, pb_methodEs, 20, steep_sphere, exp(1e-3) - 7, 1000, &options));

  Bench b = {.n = 2};
  pbProblem p = problem(&b);
  double x[2];
  const pbOptimizerOptions valley = {
      .method = pb_methodEs, .sigma = 0.02, .seed = 5, .rates = rates, .rate_count = 2, .linear_rates = true};
  assert_true(minimize(*state, &p, &valley, 3000, x).best_value < 1e-2);
}

// At the middle of a symmetric function both of a pair are alike, and nothing moves: bit by bit.
static void test_pairs_of_es_are_opposite(void **state) {
  int n = 7;
  double x[7] = {0};
  pbOptimizer *o;
  const pbOptimizerOptions options = {.method = pb_methodEs, .seed = 1, .step_tolerance = -1};
  assert_int_equal(pbOptimizer_Create(*state, &(pbProblem){.n = n, .user = &n, .value = ellipsoid}, &options, x, &o), pb_ok);
  for (int k = 0; k < 5; k++) assert_int_equal(pbOptimizer_Iterate(o), pb_ok);
  pbIterate end = pbOptimizer_Get(o);
  for (int i = 0; i < n; i++) assert_true(end.x[i] == 0);
  assert_true(end.best_value == 0);
  assert_int_equal(end.values, 5 * (1 + 10));
  pbOptimizer_Destroy(o);
}

// Along a line down hill every pair has its better and its worse point: the estimate is the slope's direction on average.
static pbStatus slope(void *user, const double *x, double *value) {
  (void)user;
  *value = 3 * x[0] - 4 * x[1];
  return pb_ok;
}
static void test_es_estimates_the_gradient(void **state) {
  double x[2] = {0}, sum[2] = {0};
  const pbRate rates[] = {{0, 1e-3}};
  for (int seed = 0; seed < 40; seed++) {
    // One step of Adam with a large epsilon goes along the gradient itself.
    const pbOptimizerOptions options = {
        .method = pb_methodEs, .seed = (uint64_t)seed, .rates = rates, .rate_count = 1, .epsilon = 1e6};
    pbOptimizer *o;
    assert_int_equal(pbOptimizer_Create(*state, &(pbProblem){.n = 2, .value = slope}, &options, x, &o), pb_ok);
    assert_int_equal(pbOptimizer_Iterate(o), pb_ok);
    for (int i = 0; i < 2; i++) sum[i] += pbOptimizer_Get(o).x[i];
    pbOptimizer_Destroy(o);
  }
  double length = hypot(sum[0], sum[1]);
  assert_true(sum[0] / length < -0.5 && sum[1] / length > 0.7);
}

// The start is a point like others: nothing that is found is worse, and what is said of it is its own value.
static void test_strategies_evaluate_the_start(void **state) {
  const pbMethod methods[] = {pb_methodCmaes, pb_methodSepCma, pb_methodEs};
  for (int k = 0; k < 3; k++) {
    int n = 3;
    double x[3] = {0};
    pbOptimizer *o;
    const pbOptimizerOptions options = {.method = methods[k], .sigma = 1, .seed = 1};
    assert_int_equal(pbOptimizer_Create(*state, &(pbProblem){.n = n, .user = &n, .value = sphere}, &options, x, &o), pb_ok);
    assert_int_equal(pbOptimizer_Iterate(o), pb_ok);
    assert_true(pbOptimizer_Get(o).best_value == 0);
    pbOptimizer_Destroy(o);
  }
}

// ---- rates and clipping ---------------------------------------------------------------------------------------------
static pbStatus steep(void *user, const double *x, double *value, double *g) {
  (void)user;
  *value = 300 * x[0] - 400 * x[1];
  g[0] = 300;
  g[1] = -400;
  return pb_ok;
}
static void test_rates_on_lines_and_clipping(void **state) {
  const pbRate rates[] = {{0, 0.1}, {4, 0.02}, {6, 0.04}};
  const double linear[] = {0.1, 0.08, 0.06, 0.04, 0.02, 0.03, 0.04, 0.04},
               constant[] = {0.1, 0.1, 0.1, 0.1, 0.02, 0.02, 0.04, 0.04};
  double x[2] = {0};
  for (int lines = 0; lines < 2; lines++) {
    pbOptimizer *o;
    double before = 0;
    const pbOptimizerOptions options = {.method = pb_methodAdam, .rates = rates, .rate_count = 3, .linear_rates = lines};
    assert_int_equal(pbOptimizer_Create(*state, &(pbProblem){.n = 2, .gradient = steep}, &options, x, &o), pb_ok);
    for (int k = 0; k < 8; k++) {
      assert_int_equal(pbOptimizer_Iterate(o), pb_ok);
      double now = pbOptimizer_Get(o).x[1];
      assert_true(fabs(now - before - (lines ? linear[k] : constant[k])) < 1e-9);
      before = now;
    }
    pbOptimizer_Destroy(o);
  }

  // With a large epsilon the step is rate g / epsilon, g of length 500 scaled to 2; one of length 1 would stay.
  for (int k = 0; k < 2; k++) {
    pbOptimizer *o;
    const pbOptimizerOptions options = {
        .method = pb_methodAdam, .rates = rates, .rate_count = 1, .clip = k ? 1000 : 2, .epsilon = 1e9};
    assert_int_equal(pbOptimizer_Create(*state, &(pbProblem){.n = 2, .gradient = steep}, &options, x, &o), pb_ok);
    assert_int_equal(pbOptimizer_Iterate(o), pb_ok);
    double size = k ? 500 : 2, *at = (double[2]){0};
    memcpy(at, pbOptimizer_Get(o).x, sizeof x);
    assert_true(fabs(at[0] / (-0.1 * 0.6 * size / 1e9) - 1) < 1e-6 && fabs(at[1] / (0.1 * 0.8 * size / 1e9) - 1) < 1e-6);
    pbOptimizer_Destroy(o);
  }
}

// Convex quadratic with the free minimum outside the box: the answer is on the bounds, and known.
static pbStatus bowl_residuals(void *user, const double *x, double *r, double *J) {
  (void)user;
  const double A[9] = {2, 1, 0, 0, 3, 1, 1, 0, 2}, c[3] = {4, -3, 1};
  for (int i = 0; i < 3; i++) {
    r[i] = -c[i];
    for (int j = 0; j < 3; j++) r[i] += A[3 * i + j] * x[j];
  }
  if (J) memcpy(J, A, sizeof A);
  return pb_ok;
}
static pbStatus bowl(void *user, const double *x, double *value, double *g) {
  double r[3], J[9];
  bowl_residuals(user, x, r, J);
  *value = r[0] * r[0] + r[1] * r[1] + r[2] * r[2];
  for (int j = 0; j < 3; j++) g[j] = 2 * (J[j] * r[0] + J[3 + j] * r[1] + J[6 + j] * r[2]);
  return pb_ok;
}
static pbStatus bowl_value(void *user, const double *x, double *value) {
  double g[3];
  return bowl(user, x, value, g);
}
static void test_bounds(void **state) {
  const double lower[] = {-1, -0.5, 0}, upper[] = {1, 2, 5};
  pbProblem p = {
      .n = 3, .m = 3, .lower = lower, .upper = upper, .value = bowl_value, .gradient = bowl, .residuals = bowl_residuals};
  pbRate rates[] = {{0, 0.05}, {500, 0.005}, {1500, 0.0005}};
  double x[pb_methodCount][3];
  for (int method = 0; method < pb_methodCount; method++) {
    if (method == pb_methodIlqr) continue;  // of trajectories
    pbOptimizerOptions options = {.method = (pbMethod)method, .rates = rates, .rate_count = 3, .sigma = 0.3, .seed = 1};
    if (method == pb_methodEs) options.sigma = 0.01;
    minimize(*state, &p, &options, 3000, x[method]);
    double g[3], value;
    bowl(NULL, x[method], &value, g);
    for (int i = 0; i < 3; i++) {  // conditions of a constrained minimum
      assert_true(x[method][i] >= lower[i] && x[method][i] <= upper[i]);
      double slack = fmin(fmax(x[method][i] - g[i], lower[i]), upper[i]) - x[method][i];
      assert_true(fabs(slack) < (method == pb_methodLbfgs || method == pb_methodGaussNewton ? 1e-8 : 1e-3));
    }
  }
  assert_true(x[0][0] == 1 || fabs(x[0][0] - 1) < 1e-9);
}

static void test_points_that_fail_are_stepped_back_from(void **state) {
  for (int method = 0; method < pb_methodCount; method++) {
    if (method == pb_methodIlqr) continue;  // of trajectories
    Bench b = {.n = 2, .fail_beyond = 2};
    pbProblem p = problem(&b);
    double x[2];
    pbRate rates[] = {{0, 0.5}, {300, 0.05}, {1000, 0.01}};
    pbOptimizerOptions options = {
        .method = (pbMethod)method, .rates = rates, .rate_count = 3, .sigma = 2, .seed = 1, .damping = 1e-12};
    if (method == pb_methodEs) options.sigma = 0.05;
    pbIterate end = minimize(*state, &p, &options, 3000, x);
    if (!(end.best_value < (method == pb_methodEs ? 0.1 : 1e-3)))
      fail_msg("%s: %g", pbMethod_Name(options.method), end.best_value);
  }
}

static void test_a_hard_failure_ends_the_run(void **state) {
  Bench b = {.n = 2, .stop_at = 1};
  pbProblem p = problem(&b);
  pbOptimizer *o;
  assert_int_equal(pbOptimizer_Create(*state, &p, &(pbOptimizerOptions){.method = pb_methodLbfgs}, start, &o), pb_ok);
  assert_int_equal(pbOptimizer_Iterate(o), pb_interrupted);
  pbOptimizer_Destroy(o);
}

static void test_resumed_runs_have_the_same_bits(void **state) {
  for (int method = 0; method < pb_methodCount; method++) {
    if (method == pb_methodIlqr) continue;  // of trajectories
    Bench b = {.n = 5};
    pbProblem p = problem(&b);
    pbOptimizerOptions options = {.method = (pbMethod)method, .sigma = 0.5, .seed = 11, .step_tolerance = 0.02, .restarts = 9};
    pbOptimizer *whole, *part = NULL;
    assert_int_equal(pbOptimizer_Create(*state, &p, &options, start, &whole), pb_ok);
    size_t size = pbOptimizer_StateSize(whole);
    double *saved = malloc(size * sizeof *saved), *end = malloc(size * sizeof *end);
    assert_int_equal(pbOptimizer_Create(*state, &p, &options, start, &part), pb_ok);
    for (int i = 0; i < 23; i++) {
      assert_int_equal(pbOptimizer_Iterate(whole), pb_ok);
      assert_int_equal(pbOptimizer_Iterate(part), pb_ok);
      pbOptimizer_Save(part, saved);  // killed and started anew after every iteration
      pbOptimizer_Destroy(part);
      assert_int_equal(pbOptimizer_Create(*state, &p, &options, start, &part), pb_ok);
      assert_int_equal(pbOptimizer_Restore(part, saved), pb_ok);
    }
    pbOptimizer_Save(whole, end);
    assert_memory_equal(saved, end, size * sizeof *end);
    saved[1] = NAN;
    assert_int_equal(pbOptimizer_Restore(part, saved), pb_bad_input);
    pbOptimizer_Destroy(whole);
    pbOptimizer_Destroy(part);
    free(saved);
    free(end);
  }
}

// Steps of 0.1 hold a descent; begun anew beside the best, it gets across, and the same way every time.
static pbStatus stairs(void *user, const double *x, double *value, double *g) {
  (void)user;
  *value = 0;
  for (int i = 0; i < 2; i++) {
    double edge = floor(x[i] / 0.1) * 0.1, in = x[i] - edge;
    *value += edge * edge + 0.3 * (in - 0.05) * (in - 0.05);
    g[i] = 0.6 * (in - 0.05);
  }
  return pb_ok;
}
static void test_restarts_cross_jumps(void **state) {
  pbProblem p = {.n = 2, .gradient = stairs};
  double stuck[2], x[2], again[2];
  pbOptimizerOptions options = {.method = pb_methodLbfgs, .seed = 2, .restart_size = 0.05};
  pbIterate one = minimize(*state, &p, &options, 1000, stuck);
  options.restarts = 200;
  pbIterate many = minimize(*state, &p, &options, 1000, x);
  minimize(*state, &p, &options, 1000, again);
  assert_true(one.best_value > 1 && many.best_value < 0.02);
  assert_memory_equal(x, again, sizeof x);
}

static void test_bad_arguments(void **state) {
  Bench b = {.n = 2};
  pbProblem p = problem(&b);
  pbOptimizer *o;
  double nan_start[2] = {NAN, 0}, lower[2] = {1, 0}, upper[2] = {0, 1};
  assert_int_equal(pbOptimizer_Create(*state, &p, &(pbOptimizerOptions){0}, nan_start, &o), pb_bad_argument);
  p.lower = lower;
  p.upper = upper;
  assert_int_equal(pbOptimizer_Create(*state, &p, &(pbOptimizerOptions){0}, start, &o), pb_bad_argument);
  p = problem(&b);
  p.residuals = NULL;
  assert_int_equal(pbOptimizer_Create(*state, &p, &(pbOptimizerOptions){.method = pb_methodGaussNewton}, start, &o),
                   pb_bad_argument);
  pbMethod method;
  assert_true(pbMethod_Find("gauss-newton", &method) && method == pb_methodGaussNewton);
  assert_false(pbMethod_Find("sgd", &method));
}

static void test_random_numbers(void **state) {
  (void)state;
  pbRng rng = pbRng_Seed(7);
  double sum = 0, squares = 0, saved[PB_RNG_DOUBLES];
  for (int i = 0; i < 100000; i++) {
    double z = pbRng_Normal(&rng);
    sum += z;
    squares += z * z;
  }
  assert_true(fabs(sum / 1e5) < 0.01 && fabs(squares / 1e5 - 1) < 0.02);
  pbRng_Normal(&rng);
  pbRng_Save(&rng, saved);
  pbRng again = pbRng_Load(saved);
  for (int i = 0; i < 100; i++) assert_true(pbRng_Normal(&rng) == pbRng_Normal(&again));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lbfgs),
                                     cmocka_unit_test(test_gauss_newton),
                                     cmocka_unit_test(test_adam),
                                     cmocka_unit_test(test_first_step_of_adam_is_the_rate),
                                     cmocka_unit_test(test_cmaes),
                                     cmocka_unit_test(test_sep_cma_beside_cmaes),
                                     cmocka_unit_test(test_sep_cma_with_many_unknowns),
                                     cmocka_unit_test(test_es),
                                     cmocka_unit_test(test_pairs_of_es_are_opposite),
                                     cmocka_unit_test(test_es_estimates_the_gradient),
                                     cmocka_unit_test(test_strategies_evaluate_the_start),
                                     cmocka_unit_test(test_rates_on_lines_and_clipping),
                                     cmocka_unit_test(test_bounds),
                                     cmocka_unit_test(test_points_that_fail_are_stepped_back_from),
                                     cmocka_unit_test(test_a_hard_failure_ends_the_run),
                                     cmocka_unit_test(test_resumed_runs_have_the_same_bits),
                                     cmocka_unit_test(test_restarts_cross_jumps),
                                     cmocka_unit_test(test_bad_arguments),
                                     cmocka_unit_test(test_random_numbers)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
