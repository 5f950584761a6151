// Terms that are to be met: final places beside the solution of the equations that say so, by every method that has gradients;
// places that are not to be passed; constraints that cannot be met; what is saved; what is refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <pullback/optimize.h>

#include "support/meter.h"
#include "support/support.h"

#define CARTS                                                                                                                \
  "\"model\": \"<mujoco><option timestep='0.05' gravity='0 0 0'/><worldbody><body name='cart'><joint name='x' type='slide' " \
  "axis='1 0 0' stiffness='2' damping='.3' armature='.1'/><geom type='box' size='.2 .1 .1' mass='1.5' contype='0' "          \
  "conaffinity='0'/><body name='top' pos='0 0 .3'><joint name='y' type='slide' axis='.8 0 .6' stiffness='1' damping='.2'/>"  \
  "<geom type='box' size='.1 .1 .1' mass='.7' contype='0' conaffinity='0'/></body></body></worldbody><actuator><motor "      \
  "name='push' joint='x'/><motor name='pull' joint='y'/></actuator></mujoco>\", \"steps\": 30"
#define EFFORT   "{\"name\": \"effort\", \"control\": true, \"at\": \"all\"}"
#define CONTROLS "\"variables\": [{\"control\": true}]"

static pbTask *parse(pbContext *ctx, const char *rest) {
  char text[8192];
  pbTask *task;
  snprintf(text, sizeof text, "{" CARTS ", %s}", rest);
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  return task;
}

static double deviation_of(const pbTask *task, const char *name) {
  double value, deviation;
  const char *found;
  for (int i = 0; i < pbTask_TermCount(task); i++) {
    pbTask_Term(task, i, &found, &value, &deviation);
    if (strcmp(found, name) == 0) return deviation;
  }
  fail_msg("no term '%s'", name);
  return NAN;
}

// Gauss, with pivots.
static void solve(double *A, double *b, int n) {
  for (int k = 0; k < n; k++) {
    int best = k;
    for (int i = k + 1; i < n; i++) best = fabs(A[i * n + k]) > fabs(A[best * n + k]) ? i : best;
    for (int j = 0; j < n; j++) {
      double aside = A[k * n + j];
      A[k * n + j] = A[best * n + j];
      A[best * n + j] = aside;
    }
    double aside = b[k];
    b[k] = b[best];
    b[best] = aside;
    for (int i = k + 1; i < n; i++) {
      double by = A[i * n + k] / A[k * n + k];
      for (int j = k; j < n; j++) A[i * n + j] -= by * A[k * n + j];
      b[i] -= by * b[k];
    }
  }
  for (int i = n - 1; i >= 0; i--) {
    for (int j = i + 1; j < n; j++) b[i] -= A[i * n + j] * b[j];
    b[i] /= A[i * n + i];
  }
}

// Least effort that brings both joints to a place at rest: its first-order conditions at once. Residuals of the effort come
// first.
static void test_a_place_at_rest(void **state) {
  static const char loss[] = CONTROLS ", \"loss\": [" EFFORT
                                      ", {\"name\": \"place\", \"qpos\": true, \"target\": [0.4, 0.2], \"constraint\": true, "
                                      "\"tolerance\": 1e-9}, {\"name\": \"rest\", \"qvel\": true, \"constraint\": true, "
                                      "\"tolerance\": 1e-9, \"weight\": 5}]";
  enum { N = 60, C = 4, EFFORTS = 62 };
  pbTask *task = parse(*state, loss);
  size_t m = pbTask_ResidualCount(task);
  double *r = zeros(m), *J = zeros(m * N), *A = zeros((N + C) * (N + C)), *b = zeros(N + C);
  assert_true(pbTask_Size(task) == N && m == EFFORTS + C);
  good(*state, pbTask_Residuals(task, pbTask_Start(task), r, J));
  for (int i = 0; i < N; i++) {
    for (int k = 0; k < EFFORTS; k++) {
      for (int j = 0; j < N; j++) A[i * (N + C) + j] += J[k * N + i] * J[k * N + j];
    }
    for (int c = 0; c < C; c++) A[i * (N + C) + N + c] = A[(N + c) * (N + C) + i] = J[(EFFORTS + c) * N + i];
  }
  for (int c = 0; c < C; c++) b[N + c] = -r[EFFORTS + c];
  solve(A, b, N + C);

  static const char *const methods[] = {"ilqr", "gauss-newton", "lbfgs"};
  for (int k = 0; k < 3; k++) {
    pbRunResult result;
    good(*state, pbTask_Run(task, &(pbRunOptions){.method = methods[k], .iterations = 3000}, &result));
    double off = 0;
    for (int i = 0; i < N; i++) off = fmax(off, fabs(result.z[i] - b[i]));
    print_message("%s: %d iterations, controls off by %.2g, constraints by %.2g, %.2g: %s\n", methods[k], result.iterations, off,
                  deviation_of(task, "place"), deviation_of(task, "rest"), result.reason);
    assert_true(off <= (k == 2 ? 1e-3 : 1e-7) && deviation_of(task, "place") <= 1e-9 && deviation_of(task, "rest") <= 1e-9);
    assert_int_equal(result.outcome, pb_runConverged);

    // y of a deviation d, whose row of J is sqrt(w) times its slope; the loss is r'r
    for (int c = 0; c < C; c++) {
      size_t times, components;
      const double *y = pbTask_Multipliers(task, c < 2 ? 1 : 2, &times, &components);
      assert_true(y && times == 1 && components == 2);
      double exact = 2 * sqrt(c < 2 ? 1 : 5) * b[N + c];
      assert_near_of("multiplier", y[c % 2], exact, (k == 2 ? 1e-3 : 1e-6) * fabs(exact));
    }
    size_t times, components;
    assert_null(pbTask_Multipliers(task, 0, &times, &components));
    assert_true(times == 0 && components == 0);
  }
  pbTask_Destroy(task);
  free(r);
  free(J);
  free(A);
  free(b);
}

// On the way to a place the cart is not to pass another: the least loss is on the boundary, by each method the same.
static void test_a_wall(void **state) {
  static const char loss[] = CONTROLS
      ", \"loss\": [{\"name\": \"effort\", \"control\": true, \"at\": \"all\", \"weight\": 0.01}, {\"qpos\": \"y\", \"at\": "
      "\"all\", "
      "\"target\": 0.5}, {\"name\": \"wall\", \"qpos\": \"x\", \"at\": \"all\", \"type\": \"below\", \"target\": 0.02, "
      "\"constraint\": true, \"tolerance\": 1e-7}, {\"name\": \"other\", \"qpos\": \"x\", \"at\": \"all\", \"type\": \"above\", "
      "\"target\": -0.02, \"constraint\": true, \"tolerance\": 1e-7}]";
  static const char *const methods[] = {"ilqr", "gauss-newton"};
  double found[2];
  for (int k = 0; k < 2; k++) {
    pbTask *task = parse(*state, loss);
    pbRunResult result;
    good(*state, pbTask_Run(task, &(pbRunOptions){.method = methods[k], .iterations = 2000}, &result));
    print_message("%s: loss %.12g, %d iterations, beyond the walls by %.2g, %.2g: %s\n", methods[k], result.loss,
                  result.iterations, deviation_of(task, "wall"), deviation_of(task, "other"), result.reason);
    assert_true(deviation_of(task, "wall") <= 1e-7 && deviation_of(task, "other") <= 1e-7);
    assert_int_equal(result.outcome, pb_runConverged);
    found[k] = result.loss;
    pbTask_Destroy(task);
  }
  assert_near(found[0], found[1], 1e-6 * found[1]);
}

// One place is not two: that is said, and which constraint is not met.
static void test_constraints_that_cannot_be_met(void **state) {
  pbTask *task =
      parse(*state, CONTROLS ", \"loss\": [" EFFORT
                             ", {\"name\": \"here\", \"qpos\": \"x\", \"target\": 0.1, \"constraint\": true}, {\"name\": "
                             "\"there\", \"qpos\": \"x\", \"target\": 0.3, \"constraint\": true}]");
  pbRunResult result;
  good(*state, pbTask_Run(task, &(pbRunOptions){.method = "ilqr", .iterations = 500}, &result));
  print_message("%d iterations: %s\n", result.iterations, result.reason);
  assert_true(result.outcome == pb_runStalled && result.iterations < 500);
  assert_non_null(strstr(result.reason, "is off by 0.1"));
  pbTask_Destroy(task);
}

// Criteria hold where constraints do.
static void test_criteria(void **state) {
  pbTask *task = parse(*state, CONTROLS ", \"loss\": [" EFFORT
                                        ", {\"name\": \"place\", \"qpos\": true, \"target\": [0.4, 0.2], \"constraint\": true, "
                                        "\"tolerance\": 1e-4}], \"stop\": {\"loss\": 1e6}");
  pbRunResult result;
  good(*state, pbTask_Run(task, &(pbRunOptions){.method = "ilqr", .iterations = 500}, &result));
  assert_true(result.met && result.outcome == pb_runCriteriaMet && deviation_of(task, "place") <= 1e-4);
  pbTask_Destroy(task);
}

typedef struct Stopper {
  int calls, stop_at;
} Stopper;
static int count_calls(void *user, const pbProgress *p) {
  Stopper *s = user;
  (void)p;
  return ++s->calls == s->stop_at;
}

static void test_an_interrupted_run_loses_nothing(void **state) {
  static const char *const methods[] = {"ilqr", "lbfgs"};
  const char *file = "pb_test_constraints_state.npy";
  for (int k = 0; k < 2; k++) {
    pbTask *task = parse(*state, CONTROLS
                         ", \"loss\": [" EFFORT
                         ", {\"qpos\": true, \"target\": [0.4, 0.2], \"weight\": 1e4, \"constraint\": true}, {\"qpos\": \"x\", "
                         "\"at\": \"all\", \"type\": \"below\", \"target\": 0.3, \"constraint\": true}]");
    pbRunResult whole, part;
    double *z = zeros((size_t)pbTask_Size(task)), loss;
    good(*state, pbTask_Run(task, &(pbRunOptions){.method = methods[k], .iterations = 40}, &whole));
    memcpy(z, whole.z, (size_t)pbTask_Size(task) * sizeof *z);
    loss = whole.loss;

    Stopper stopper = {0, 3};
    pbRunOptions options = {.method = methods[k],
                            .iterations = 40,
                            .state_file = file,
                            .resume = true,
                            .save_seconds = 1e-9,
                            .progress = count_calls,
                            .user = &stopper};
    unlink(file);
    pbStatus status = pb_interrupted;
    int rounds = 0;
    for (; status == pb_interrupted && rounds < 2000; rounds++) {
      stopper.calls = 0;
      stopper.stop_at += 2;
      status = pbTask_Run(task, &options, &part);
    }
    good(*state, status);
    assert_true(rounds > 5 && part.resumed && part.loss == loss && part.iterations == whole.iterations);
    assert_memory_equal(part.z, z, (size_t)pbTask_Size(task) * sizeof *z);
    unlink(file);
    pbTask_Destroy(task);
    free(z);
  }
}

static void test_memory_that_is_not_there(void **state) {
  static const char text[] = "{" CARTS ", " CONTROLS ", \"loss\": [" EFFORT
                             ", {\"qpos\": true, \"target\": [0.4, 0.2], \"constraint\": true}], \"optimizer\": {\"method\": "
                             "\"ilqr\"}}";
  (void)state;
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  pbTask *task;
  long live = meter.live;
  pbStatus status = pb_no_memory;
  for (long at = 1; status != pb_ok; at++) {
    meter.calls = 0;
    meter.fail_at = at;
    status = pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task);
    meter.fail_at = 0;
    assert_true(status == pb_ok || (status == pb_no_memory && meter.live == live));
  }
  pbTask_Destroy(task);
  pbContext_Destroy(ctx);
  assert_int_equal(meter.live, 0);
}

static void test_refusals(void **state) {
  static const char *const cases[][2] = {
      {"\"type\": \"norm\", \"constraint\": true", "only terms of type squared, above and below"},
      {"\"weight\": -1, \"constraint\": true", "begins with a weight"},
      {"\"tolerance\": 0.1", "only a constraint has one"},
      {"\"constraint\": true, \"tolerance\": 0", "expected a number, more than 0"},
      {"\"constraint\": 1", "constraint: expected true or false"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[2048];
    pbTask *task;
    snprintf(text, sizeof text, "{" CARTS ", " CONTROLS ", \"loss\": [{\"qpos\": \"x\", %s}]}", cases[i][0]);
    assert_int_equal(pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task), pb_bad_input);
    if (!strstr(pbContext_Error(*state), cases[i][1])) fail_msg("'%s' does not say '%s'", pbContext_Error(*state), cases[i][1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_place_at_rest),
                                     cmocka_unit_test(test_a_wall),
                                     cmocka_unit_test(test_constraints_that_cannot_be_met),
                                     cmocka_unit_test(test_criteria),
                                     cmocka_unit_test(test_an_interrupted_run_loses_nothing),
                                     cmocka_unit_test(test_memory_that_is_not_there),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
