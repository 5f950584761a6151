// Several starts: the best is found where one start stays in its valley, the same bits for any number of threads and after any
// interruptions, how many agree, what is told where some or all fail.
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

#include "support/support.h"

// Where the point is after a second, v, has a loss with a valley about each whole number, the deepest about 2.
#define POINT                                                                                                             \
  "\"model\": \"<mujoco><option timestep='0.05' gravity='0 0 0'/><worldbody><body name='p'><joint name='x' type='slide' " \
  "axis='1 0 0'/><joint name='y' type='slide' axis='0 1 0'/><geom type='sphere' size='.1' mass='2'/></body></worldbody>"  \
  "</mujoco>\", \"steps\": 20"
#define VALLEYS                                                                                                               \
  "{\"formula\": \"0.1*(x - 2)^2 + sin(3.14159265358979*x)^2 + (y - 0.5)^2\", \"inputs\": {\"x\": {\"qpos\": \"x\"}, \"y\": " \
  "{\"qpos\": \"y\"}}}"
#define BOUNDED \
  "{\"state\": \"qvel\", \"joint\": \"x\", \"start\": -2, \"lower\": -4, \"upper\": 6}, {\"state\": \"qvel\", \"joint\": \"y\"}"

static pbTask *parse(pbContext *ctx, const char *variables, const char *loss, const char *more) {
  char text[4096];
  pbTask *task;
  snprintf(text, sizeof text, "{" POINT ", \"variables\": [%s], \"loss\": [%s], \"optimizer\": {\"method\": \"lbfgs\"%s}}",
           variables, loss, more);
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  return task;
}

static void test_the_best_valley_is_found(void **state) {
  pbTask *task = parse(*state, BOUNDED, VALLEYS, "");
  pbRunResult result;
  good(*state, pbTask_Run(task, NULL, &result));
  assert_true(result.loss > 0.5);
  assert_int_equal(pbTask_StartsAgree(task, NULL), 0);
  pbTask_Destroy(task);

  task = parse(*state, BOUNDED, VALLEYS, ", \"starts\": 24");
  good(*state, pbTask_Run(task, NULL, &result));
  double spread[2];
  int agree = pbTask_StartsAgree(task, spread);
  if (!(result.loss < 1e-12)) fail_msg("loss %g of start %d", result.loss, result.best_start);
  assert_true(agree >= 1 && agree < 24 && spread[0] < 1e-5);
  assert_true(fabs(result.z[0] - 2) < 1e-6 && pbTask_Start(task)[0] == -2);

  // told with the others
  char *text;
  good(*state, pbTask_ResultJson(task, &result, &text));
  assert_non_null(strstr(text, "\"searches\""));
  assert_non_null(strstr(text, "\"agree\""));
  pbContext_Free(*state, text);
  pbTask_Destroy(task);
}

// The numbers that a run ends with.
static void run(pbContext *ctx, int threads, double out[4]) {
  pbPool *pool = NULL;
  pbTask *task = parse(ctx, BOUNDED, VALLEYS, ", \"starts\": 9, \"start_spread\": 2");
  if (threads > 1) good(ctx, pbPool_Create(ctx, threads, &pool));
  good(ctx, pbTask_UsePool(task, pool));
  pbRunResult result;
  good(ctx, pbTask_Run(task, NULL, &result));
  const double numbers[4] = {result.z[0], result.z[1], result.loss, (double)result.iterations};
  memcpy(out, numbers, sizeof numbers);
  pbTask_Destroy(task);
  pbPool_Destroy(pool);
}

static void test_threads_change_no_bit(void **state) {
  double one[4], three[4];
  run(*state, 1, one);
  run(*state, 3, three);
  assert_memory_equal(one, three, sizeof one);
}

// Interrupted at each time that it asks, until it ends.
typedef struct Clock {
  int asked, until;
} Clock;
static int stop_then(void *user, const pbProgress *p) {
  Clock *clock = user;
  (void)p;
  return ++clock->asked > clock->until;
}

static void test_interruptions_change_no_bit(void **state) {
  char file[64];
  double whole[4], pieces[4];
  snprintf(file, sizeof file, "/tmp/pullback.test_starts.%d", (int)getpid());
  run(*state, 1, whole);

  int lives = 0;
  for (pbStatus status = pb_interrupted; status == pb_interrupted; lives++) {
    pbTask *task = parse(*state, BOUNDED, VALLEYS, ", \"starts\": 9, \"start_spread\": 2");
    pbRunResult result;
    Clock clock = {0, 7 + 5 * lives};
    status =
        pbTask_Run(task, &(pbRunOptions){.state_file = file, .resume = true, .progress = stop_then, .user = &clock}, &result);
    if (status == pb_ok) {
      const double numbers[4] = {result.z[0], result.z[1], result.loss, (double)result.iterations};
      memcpy(pieces, numbers, sizeof numbers);
      assert_true(result.resumed);
    }
    pbTask_Destroy(task);
    assert_true(lives < 1000);
  }
  unlink(file);
  assert_true(lives > 3);
  assert_memory_equal(whole, pieces, sizeof whole);
}

// A start that cannot be evaluated is left behind; where none can be, the first says why.
static void test_starts_that_fail(void **state) {
  const char *loss = "{\"formula\": \"log(x) + (x - 1)^2\", \"inputs\": {\"x\": {\"qpos\": \"x\"}}}";
  pbTask *task = parse(*state, "{\"state\": \"qvel\", \"joint\": \"x\", \"start\": 2, \"lower\": -4, \"upper\": 4}", loss,
                       ", \"starts\": 8, \"iterations\": 5");
  pbRunResult result;
  good(*state, pbTask_Run(task, NULL, &result));
  char *text;
  good(*state, pbTask_ResultJson(task, &result, &text));
  assert_non_null(strstr(text, "log of"));
  pbContext_Free(*state, text);
  pbTask_Destroy(task);

  task = parse(*state, "{\"state\": \"qvel\", \"joint\": \"x\", \"start\": -2, \"lower\": -4, \"upper\": -1}", loss,
               ", \"starts\": 3");
  pbStatus status = pbTask_Run(task, NULL, &result);
  if (status == pb_ok || !strstr(pbContext_Error(*state), "none of 3 starts could be evaluated"))
    fail_msg("%d %s", status, pbContext_Error(*state));
  assert_null(result.z);
  pbTask_Destroy(task);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_best_valley_is_found),
                                     cmocka_unit_test(test_threads_change_no_bit),
                                     cmocka_unit_test(test_interruptions_change_no_bit), cmocka_unit_test(test_starts_that_fail)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
