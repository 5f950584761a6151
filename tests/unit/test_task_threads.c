// Tasks with many trajectories on threads: losses, gradients, residuals, Jacobians and whole runs have the same bits for any
// number of them; the first trajectory that fails is the one that is told.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/optimize.h>

#include "support/support.h"

enum { trajectories = 13, most = 400 };

// A pendulum with a motor; its mass and damping are to be found from what it did, from many starts. `extra`: more variables.
static char *text_of(const char *type, const char *extra) {
  static char text[16384];
  int n = snprintf(text, sizeof text,
                   "{\"model\": \"<mujoco><option timestep='0.005'/><worldbody><body name='rod'><joint name='hinge' axis='0 1 0' "
                   "damping='.1'/><geom type='capsule' size='.03' fromto='0 0 0 0 0 -.5'/></body></worldbody><actuator><motor "
                   "name='motor' joint='hinge'/></actuator></mujoco>\", \"steps\": 30, \"controls\": [0.3], \"constants\": "
                   "\"recompute\", \"variables\": [{\"parameter\": \"dof_damping\"}%s], \"trajectories\": [",
                   extra);
  for (int t = 0; t < trajectories; t++)
    n += snprintf(text + n, sizeof text - (size_t)n,
                  "%s{\"init\": {\"qpos\": [%g], \"qvel\": [%g]}, \"loss\": [{\"qpos\": \"hinge\", \"target\": %g, \"type\": "
                  "\"%s\", \"weight\": %g}]}",
                  t ? ", " : "", 0.1 * t, 1 - 0.2 * t, 0.3 - 0.05 * t, type, 1 + 0.1 * t);
  snprintf(text + n, sizeof text - (size_t)n, "]}");
  return text;
}

typedef struct Result {
  double value, gradient[most], r[most], J[most], best[most], loss;
} Result;

static void evaluate(pbContext *ctx, const char *text, int threads, bool squares, Result *out) {
  memset(out, 0, sizeof *out);
  pbPool *pool = NULL;
  pbTask *task;
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "many.json", &task));
  if (threads) good(ctx, pbPool_Create(ctx, threads, &pool));
  good(ctx, pbTask_UsePool(task, pool));
  assert_true(pbTask_Size(task) <= most && pbTask_ResidualCount(task) * (size_t)pbTask_Size(task) <= most);
  const double *z = pbTask_Start(task);
  good(ctx, pbTask_Loss(task, z, &out->value, out->gradient));
  if (squares) good(ctx, pbTask_Residuals(task, z, out->r, out->J));

  pbRunResult result;
  good(ctx, pbTask_Run(task, &(pbRunOptions){.method = squares ? "gauss-newton" : "lbfgs", .iterations = 4}, &result));
  memcpy(out->best, result.z, (size_t)pbTask_Size(task) * sizeof *result.z);
  out->loss = result.loss;
  pbTask_Destroy(task);
  pbPool_Destroy(pool);
}

static void compare(const char *text, bool squares) {
  static Result one, many;
  pbContext *ctx = pbContext_Create(NULL);
  evaluate(ctx, text, 0, squares, &one);
  assert_true(one.value > 0 && one.gradient[0] != 0 && one.loss < one.value);
  for (int threads = 1; threads <= 7; threads += 2) {
    evaluate(ctx, text, threads, squares, &many);
    assert_memory_equal(&one, &many, sizeof one);
  }
  pbContext_Destroy(ctx);
}

static void test_forward_mode(void **state) {
  (void)state;
  compare(text_of("squared", ""), true);
}

static void test_reverse_mode(void **state) {
  (void)state;
  static const char more[] = ", {\"parameter\": \"body_mass:rod\"}, {\"parameter\": \"gravity\"}";
  compare(text_of("squared", more), true);
  compare(text_of("norm", more), false);
}

// Controls of each trajectory: more unknowns than residuals, which are pulled back one by one.
static void test_more_unknowns_than_residuals(void **state) {
  (void)state;
  compare(text_of("squared", ", {\"control\": \"motor\", \"knots\": 25}"), true);
}

// With a moment that grows without bound, later and later in trajectories that begin faster: the first by number is told.
static void test_the_first_that_fails(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  const char *text = text_of("squared", "");
  char first[512] = "";
  for (int threads = 1; threads <= 5; threads++) {
    pbTask *task;
    pbPool *pool;
    double value, z[1];
    good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "many.json", &task));
    good(ctx, pbPool_Create(ctx, threads, &pool));
    good(ctx, pbTask_UsePool(task, pool));
    memcpy(z, pbTask_Start(task), sizeof z);
    z[0] = 1e300;
    assert_int_not_equal(pbTask_Loss(task, z, &value, NULL), pb_ok);
    if (threads == 1) snprintf(first, sizeof first, "%s", pbContext_Error(ctx));
    assert_true(*first);
    assert_string_equal(first, pbContext_Error(ctx));

    // And it goes on working.
    good(ctx, pbTask_Loss(task, pbTask_Start(task), &value, NULL));
    pbTask_Destroy(task);
    pbPool_Destroy(pool);
  }
  pbContext_Destroy(ctx);
}

static int stop(void *user, const pbProgress *progress) {
  (void)progress;
  return ++*(int *)user > 2;
}

static void test_a_run_on_threads_is_stopped(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  const char *text = text_of("squared", "");
  pbTask *task;
  pbPool *pool;
  pbRunResult result;
  int calls = 0;
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "many.json", &task));
  good(ctx, pbPool_Create(ctx, 3, &pool));
  good(ctx, pbTask_UsePool(task, pool));
  pbRunOptions options = {.progress = stop, .user = &calls};
  assert_int_equal(pbTask_Run(task, &options, &result), pb_interrupted);
  options.progress = NULL;
  good(ctx, pbTask_Run(task, &options, &result));
  pbTask_Destroy(task);
  pbPool_Destroy(pool);
  pbContext_Destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_forward_mode),
      cmocka_unit_test(test_reverse_mode),
      cmocka_unit_test(test_more_unknowns_than_residuals),
      cmocka_unit_test(test_the_first_that_fails),
      cmocka_unit_test(test_a_run_on_threads_is_stopped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
