// Searches in stages: the bits of the same searches one after the other, what is carried from one to the next, interruptions
// at every moment, what is refused and where.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <pullback/control.h>
#include <pullback/optimize.h>

#include "optimize/shoot.h"
#include "support/meter.h"
#include "support/support.h"

// A cart that a force drives, and a ball that lies on the floor.
#define WORLD                                                                                                                 \
  "\"model\": \"<mujoco><option timestep='0.02'/><worldbody><geom name='floor' type='plane' size='5 5 1'/><body name='cart' " \
  "pos='0 0 2'><joint name='x' type='slide' axis='1 0 0'/><geom type='sphere' size='.1' mass='1' contype='0' "                \
  "conaffinity='0'/></body><body name='ball' pos='0 0 .1'><joint name='z' type='slide' axis='0 0 1'/><geom type='sphere' "    \
  "size='.1' mass='1'/></body></worldbody><actuator><motor name='push' joint='x'/><motor name='lift' joint='z'/></actuator>"  \
  "</mujoco>\""
#define TASK(variables, more)                                                                                               \
  "{" WORLD ", \"variables\": [" variables                                                                                  \
  "], \"loss\": [{\"qpos\": \"x\", \"target\": 1}, {\"qpos\": \"z\", \"target\": 0.3}, {\"qvel\": true, \"weight\": 0.1}, " \
  "{\"control\": true, \"at\": \"all\", \"weight\": 0.001}], " more "}"
#define CONTROLS "{\"control\": true, \"lower\": -20, \"upper\": 15}"

static pbTask *parse(pbContext *ctx, const char *text) {
  pbTask *task;
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  return task;
}

// ---- the same as one after the other ------------------------------------------------------------------------------------
#define SMOOTH "\"contact\": {\"kappa\": 100, \"onset\": 0.05}"

// Stage by stage by hand: a task of its own for each, begun where the one before ended.
static void test_one_after_the_other(void **state) {
  static const char *const methods[][2] = {
      {"ilqr", "ilqr"}, {"lbfgs", "gauss-newton"}, {"cmaes", "ilqr"}, {"gauss-newton", "adam"}};
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
    char text[4096];
    pbRunResult result;
    snprintf(
        text, sizeof text,
        TASK(CONTROLS, SMOOTH ", \"steps\": 20, \"mode\": \"smooth\", \"optimizer\": {\"method\": \"%s\", \"iterations\": 7}"),
        methods[i][0]);
    pbTask *first = parse(*state, text);
    snprintf(text, sizeof text, TASK(CONTROLS, "\"steps\": 20, \"optimizer\": {\"method\": \"%s\", \"iterations\": 9}"),
             methods[i][1]);
    pbTask *second = parse(*state, text);
    good(*state, pbTask_Run(first, NULL, &result));
    int iterations = result.iterations;
    int64_t simulations = result.simulations;
    double loss = result.loss;
    memcpy(second->start, result.z, (size_t)second->n * sizeof(double));
    good(*state, pbTask_Run(second, NULL, &result));

    pbRunResult staged;
    snprintf(text, sizeof text,
             TASK(CONTROLS,
                  "\"steps\": 20, \"optimizer\": {\"method\": \"%s\", \"iterations\": 9}, \"stages\": [{\"name\": \"a\", " SMOOTH
                  ", \"mode\": \"smooth\", \"optimizer\": {\"method\": \"%s\", \"iterations\": 7}}, {}]"),
             methods[i][1], methods[i][0]);
    pbTask *task = parse(*state, text);
    for (int again = 0; again < 2; again++) {
      good(*state, pbTask_Run(task, NULL, &staged));
      assert_memory_equal(staged.z, result.z, (size_t)task->n * sizeof(double));
      assert_true(staged.loss == result.loss && staged.start_loss == result.start_loss && staged.outcome == result.outcome);
      assert_int_equal(staged.iterations, result.iterations + iterations);
      assert_int_equal(staged.simulations, result.simulations + simulations);
      assert_int_equal(pbTask_StageCount(task), 2);
      pbRunStage a = pbTask_Stage(task, 0), b = pbTask_Stage(task, 1);
      assert_string_equal(a.name, "a");
      assert_string_equal(b.name, "stage 2");
      assert_true(a.loss == loss && a.iterations == iterations && b.loss == result.loss && b.iterations == result.iterations);
      assert_int_equal(task->history.count, a.iterations + b.iterations);
    }

    // what smooth contact found is another answer, so that a stage without its settings would be seen
    assert_true(loss != result.start_loss);
    pbTask_Destroy(first);
    pbTask_Destroy(second);
    pbTask_Destroy(task);
  }
}

// ---- what is carried ----------------------------------------------------------------------------------------------------
// Controls that act in each step.
static double *controls_of(pbContext *ctx, pbTask *task, const double *z) {
  double *u = zeros((size_t)(2 * pbTask_Steps(task, 0)));
  good(ctx, pbTask_Expand(task, z, 0, NULL, NULL, u));
  return u;
}

#define PUSH(more) "{\"control\": \"push\"" more "}"
static void test_longer_and_shorter(void **state) {
  static const struct {
    const char *variable;
    int from, to;
    bool exact;  // knots of both stand at the same moments, or one acts in each step
  } cases[] = {{PUSH(", \"start\": 1"), 10, 25, true},
               {PUSH(", \"start\": 1"), 25, 10, true},
               {PUSH(", \"start\": 2, \"transform\": \"log\", \"scale\": 0.3, \"lower\": 0.1"), 10, 20, true},
               {PUSH(", \"knots\": 5"), 10, 20, false},
               {PUSH(", \"knots\": 4"), 4, 6, false},
               {PUSH(", \"knots\": 4"), 18, 7, false},
               {PUSH(", \"knots\": 1"), 10, 20, true},
               {PUSH(", \"knots\": 5, \"interpolation\": \"linear\""), 9, 17, false},
               {PUSH(", \"interpolation\": \"linear\""), 9, 17, true},
               {PUSH(", \"knots\": 4, \"interpolation\": \"linear\", \"transform\": \"log\", \"start\": 2"), 13, 13, true}};

  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[4096];
    snprintf(text, sizeof text, TASK("%s", "\"steps\": %d"), cases[i].variable, cases[i].from);
    pbTask *from = parse(*state, text);
    snprintf(text, sizeof text, TASK("%s", "\"steps\": %d"), cases[i].variable, cases[i].to);
    pbTask *to = parse(*state, text);
    uint64_t seed = i + 1;
    double *z = zeros((size_t)from->n), *out = zeros((size_t)to->n);
    for (int k = 0; k < from->n; k++) z[k] = from->start[k] + noise64(&seed);
    pbTask_Carry(from, z, to, out);

    double *u = controls_of(*state, from, z), *w = controls_of(*state, to, out);
    const pbVariable *v = &to->variables[0];
    for (int k = 0; k < cases[i].to; k++) {
      double right;
      int step = k < cases[i].from ? k : cases[i].from - 1, knot = pbVariable_Knot(v, k, cases[i].to, &right);
      bool begins = right == 0 && (k == 0 || pbVariable_Knot(v, k - 1, cases[i].to, &right) != knot);
      if (cases[i].exact || begins) assert_near_of(cases[i].variable, w[2 * k], u[2 * step], 1e-14 * (1 + fabs(u[2 * step])));
    }
    if (cases[i].from == cases[i].to) assert_memory_equal(z, out, (size_t)to->n * sizeof *z);
    free(u);
    free(w);
    free(z);
    free(out);
    pbTask_Destroy(from);
    pbTask_Destroy(to);
  }
}

// A horizon that grows, of a run; the first begins where the file says, or where a result is (--start).
static void test_horizons(void **state) {
  pbTask *task = parse(*state, TASK(CONTROLS,
                                    "\"steps\": 30, \"optimizer\": {\"method\": \"ilqr\", \"iterations\": 0}, \"stages\": "
                                    "[{\"steps\": 8, \"optimizer\": {\"iterations\": 5}}, {\"duration\": 0.3, \"optimizer\": "
                                    "{\"method\": \"lbfgs\", \"iterations\": 0}}, {}]"));
  pbRunResult result;
  good(*state, pbTask_Run(task, NULL, &result));
  assert_int_equal(pbTask_Stage(task, 0).steps, 8);
  assert_int_equal(pbTask_Stage(task, 1).steps, 15);
  assert_int_equal(pbTask_Stage(task, 2).steps, 30);
  assert_int_equal(result.iterations, pbTask_Stage(task, 0).iterations);
  assert_int_not_equal(result.iterations, 0);
  bool moved = false;
  for (int k = 8; k < 30; k++) {
    for (int a = 0; a < 2; a++) assert_true(result.z[2 * k + a] == result.z[14 + a]);
    moved |= result.z[2 * k] != task->start[2 * k];
  }
  assert_true(moved);
  pbTask_Destroy(task);
}

// ---- interruptions --------------------------------------------------------------------------------------------------------
#define THREE                                                                                                                   \
  TASK(CONTROLS, "\"steps\": 12, \"optimizer\": {\"method\": \"ilqr\", \"iterations\": 6}, \"stages\": [{\"steps\": 6, " SMOOTH \
                 ", \"mode\": \"smooth\"}, {\"optimizer\": {\"method\": \"lbfgs\"}, \"contact\": {\"kappa\": 1}}, {}]")

typedef struct Clock {
  int asked, until;
  char seen[200];  // phases
} Clock;
static int stop_then(void *user, const pbProgress *p) {
  Clock *clock = user;
  if (!strstr(clock->seen, p->phase)) {
    strcat(clock->seen, p->phase);
    strcat(clock->seen, ",");
  }
  return ++clock->asked > clock->until;
}

static void numbers_of(pbTask *task, const pbRunResult *r, double *z, double out[8]) {
  const double numbers[8] = {r->loss,
                             r->iterations,
                             (double)r->simulations,
                             (double)r->gradients,
                             pbTask_Stage(task, 0).loss,
                             pbTask_Stage(task, 1).loss,
                             (double)pbTask_Stage(task, 1).simulations,
                             task->history.rows[task->history.count - 1][2]};
  memcpy(out, numbers, sizeof numbers);
  memcpy(z, r->z, (size_t)task->n * sizeof *z);
}

static void test_interruptions_change_no_bit(void **state) {
  char file[64];
  double whole[8], pieces[8], z[24], w[24];
  pbRunResult result;
  snprintf(file, sizeof file, "/tmp/pullback.test_stages.%d", (int)getpid());
  pbTask *task = parse(*state, THREE);
  Clock clock = {0, 1000000, ""};
  good(*state, pbTask_Run(task, &(pbRunOptions){.progress = stop_then, .user = &clock}, &result));
  assert_string_equal(clock.seen, "stage 1 of 3,stage 2 of 3,stage 3 of 3,");
  numbers_of(task, &result, z, whole);
  pbTask_Destroy(task);

  // once at each moment, and in a life of many deaths; what is written is always the end of an iteration
  int asked = clock.asked, resumed = 0;
  assert_true(asked > 30);
  for (int until = 1; until <= asked; until += until < 40 ? 1 : 7) {
    for (int lives = 0;; lives++) {
      task = parse(*state, THREE);
      clock = (Clock){0, lives ? 1000000 : until, ""};
      pbStatus status = pbTask_Run(
          task, &(pbRunOptions){file, .resume = true, .progress = stop_then, .user = &clock, .save_seconds = 1e-9}, &result);
      if (status == pb_ok) break;
      assert_int_equal(status, pb_interrupted);
      pbTask_Destroy(task);
      assert_int_equal(lives, 0);
    }
    numbers_of(task, &result, w, pieces);
    resumed += result.resumed;
    pbTask_Destroy(task);
    unlink(file);
    assert_memory_equal(whole, pieces, sizeof whole);
    assert_memory_equal(z, w, sizeof z);
  }
  assert_true(resumed > 20);
}

// More iterations of the last stage go on; more of the first are another run.
static void test_what_may_change(void **state) {
  static const struct {
    const char *first, *last;
    bool good;
  } cases[] = {{"3", "9", true}, {"4", "9", false}};
  for (size_t i = 0; i < 2; i++) {
    char file[64], text[4096];
    pbRunResult result;
    snprintf(file, sizeof file, "/tmp/pullback.test_stages.%d", (int)getpid());
    pbStatus status = pb_ok;
    for (int second = 0; second < 2; second++) {
      snprintf(text, sizeof text,
               TASK(CONTROLS,
                    "\"steps\": 6, \"optimizer\": {\"method\": \"lbfgs\"}, \"stages\": [{\"optimizer\": "
                    "{\"iterations\": %s}}, {\"optimizer\": {\"iterations\": %s}}]"),
               second ? cases[i].first : "3", second ? cases[i].last : "2");
      pbTask *task = parse(*state, text);
      status = pbTask_Run(task, &(pbRunOptions){.state_file = file, .resume = true}, &result);
      if (second && cases[i].good) assert_true(result.resumed && result.iterations > 5);
      pbTask_Destroy(task);
    }
    unlink(file);
    assert_int_equal(status, cases[i].good ? pb_ok : pb_bad_input);
    if (status != pb_ok) assert_non_null(strstr(pbContext_Error(*state), "changed"));
  }
}

// Calls for memory fail one at a time, while a task is read and while it runs: that is said, and all is given back.
static void test_memory_that_is_not_there(void **state) {
  static const char text[] =
      TASK(CONTROLS, "\"steps\": 4, \"optimizer\": {\"method\": \"ilqr\", \"iterations\": 1}, \"stages\": [{\"steps\": 3}, {}]");
  (void)state;
  int refused = 0;
  pbStatus status = pb_no_memory;
  for (long at = 1; status != pb_ok; at += 17) {
    Meter meter = {.fail_at = 0};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&hooks);
    pbTask *task = NULL;
    pbRunResult result;
    meter.calls = 0;
    meter.fail_at = at;
    status = pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task);
    if (status == pb_ok) status = pbTask_Run(task, NULL, &result);
    refused += status != pb_ok;
    if (status != pb_ok && !strstr(pbContext_Error(ctx), "memory"))
      fail_msg("call %ld: %d '%s'", at, status, pbContext_Error(ctx));
    pbTask_Destroy(task);
    pbContext_Destroy(ctx);
    if (meter.live) fail_msg("call %ld leaks %ld blocks", at, meter.live);
  }
  print_message("%d calls for memory were refused\n", refused);
  assert_true(refused > 30);
}

// ---- what is refused ------------------------------------------------------------------------------------------------------
static void test_refusals(void **state) {
  static const struct {
    const char *more, *why;
  } cases[] = {{"\"steps\": 5, \"stages\": []", "stages: expected a list of 1 to 100"},
               {"\"steps\": 5, \"stages\": {}", "stages: expected a list of 1 to 100"},
               {"\"steps\": 5, \"stages\": [3]", "stages[0]: expected an object"},
               {"\"steps\": 5, \"stages\": [{}, {\"kappa\": 3}]", "stages[1]: unknown key 'kappa'"},
               {"\"steps\": 5, \"stages\": [{\"contact\": 3}, {}]", "stages[0].contact: expected an object"},
               {"\"steps\": 5, \"stages\": [{\"contact\": {\"kapa\": 3}}, {}]", "stages[0].contact"},
               {"\"steps\": 5,\n\"stages\": [{},\n{\"contact\": {\"kappa\": -3}}, {}]", "test.json:3: stages[1].contact"},
               {"\"steps\": 5,\n\"stages\": [{\"optimizer\": {\"iterations\": 2}},\n{\"optimizer\": {\"iteration\": 2}}, {}]",
                "test.json:3: stages[1].optimizer: unknown key 'iteration'"},
               {"\"steps\": 5, \"optimizer\": {\"metod\": \"adam\"}, \"stages\": [{\"optimizer\": {\"iterations\": 2}}]",
                "test.json:1: optimizer: unknown key 'metod'"},
               {"\"steps\": 5, \"stages\": [{\"steps\": -5}, {}]", "stages[0].steps"},
               {"\"steps\": 5, \"stages\": [{\"steps\": 2, \"duration\": 1}, {}]", "stages[0].duration: expected one of"},
               {"\"steps\": 5, \"stages\": [{\"mode\": \"smoth\"}, {}]", "stages[0].mode"},
               {"\"steps\": 5, \"stages\": [{\"name\": 3}]", "stages[0].name"},
               {"\"steps\": 5, \"stages\": [{\"optimizer\": {\"starts\": 3}}, {}]", "stages[0].optimizer.starts: expected 1"},
               {"\"steps\": 5, \"optimizer\": {\"starts\": 3}, \"stages\": [{}]", "test.json:1: optimizer.starts: expected 1"},
               {"\"trajectories\": [{\"steps\": 4}], \"stages\": [{\"steps\": 3}]", "stages[0].steps: not in a stage"},
               {"\"steps\": 5, \"stages\": [{\"stop\": {\"terms\": {\"no\": 1}}}, {}]", "stages[0].stop.terms"}};

  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[4096];
    pbTask *task;
    snprintf(text, sizeof text, TASK(CONTROLS, "%s"), cases[i].more);
    pbStatus status = pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task);
    if (status == pb_ok || !strstr(pbContext_Error(*state), cases[i].why))
      fail_msg("case %zu: %d '%s' does not say '%s'", i, status, pbContext_Error(*state), cases[i].why);
  }

  // plans that are made again and again; second derivatives of smooth contact
  pbMpc *mpc;
  pbRunResult result;
  pbTask *task = parse(*state, TASK(CONTROLS, "\"steps\": 5, \"stages\": [{}]"));
  assert_int_equal(pbMpc_Create(*state, task, &mpc), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(*state), "it has stages"));
  pbTask_Destroy(task);
  task = parse(*state, TASK(CONTROLS,
                            "\"steps\": 5, \"optimizer\": {\"method\": \"ilqr\", \"second_order\": true}, \"stages\": "
                            "[{\"name\": \"round\", \"mode\": \"smooth\"}, {}]"));
  assert_int_equal(pbTask_Run(task, NULL, &result), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(*state), "round: "));
  assert_non_null(strstr(pbContext_Error(*state), "second_order"));
  assert_null(result.z);
  pbTask_Destroy(task);

  // nor is there feedback along its run
  double start[8] = {0}, gain[1];
  task = parse(*state, TASK(CONTROLS,
                            "\"steps\": 5, \"mode\": \"smooth\", \"optimizer\": {\"method\": \"ilqr\", \"second_order\": true}"));
  assert_int_equal(pbTask_Gains(task, start, 0, gain), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(*state), "there is no feedback along its run: second derivatives"));
  pbTask_Destroy(task);
}

// ---- smooth contact along a sharp motion ------------------------------------------------------------------------------------
// The gradient of what is linearized is that of the rollouts, sensors that see forces too.
static void test_smooth_sweeps(void **state) {
  static const char *const modes[] = {"exact", "smooth"};
  double lifts[2];
  for (int i = 0; i < 2; i++) {
    char text[4096];
    snprintf(text, sizeof text,
             TASK(CONTROLS, "\"steps\": 15, \"mode\": \"%s\", \"optimizer\": {\"method\": \"ilqr\", \"iterations\": 40}"),
             modes[i]);
    pbTask *task = parse(*state, text);
    size_t n = (size_t)task->n;
    double *z = zeros(n), *g = zeros(n), *h = zeros(n), value, other;
    uint64_t seed = 5;
    fill_noise(&seed, z, (int)n, 9);
    good(*state, pbTask_Loss(task, z, &value, g));

    pbTaskShooting *s;
    good(*state, pbTaskShooting_Create(task, &s));
    good(*state, pbTaskShooting_Linearize(s, z, &other, h));
    assert_true(value == other);
    for (size_t k = 0; k < n; k++) assert_near_of(modes[i], h[k], g[k], 1e-11 * (1 + fabs(g[k])));
    pbTaskShooting_Destroy(task, s);
    lifts[i] = g[1];

    // the ball is off the floor
    pbRunResult result;
    good(*state, pbTask_Run(task, NULL, &result));
    print_message("%s: loss %g of %g\n", modes[i], result.loss, result.start_loss);
    assert_true(result.loss < 0.95 * result.start_loss);
    pbTask_Destroy(task);
    free(z);
    free(g);
    free(h);
  }
  assert_true(lifts[0] != lifts[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_after_the_other),
                                     cmocka_unit_test(test_longer_and_shorter),
                                     cmocka_unit_test(test_horizons),
                                     cmocka_unit_test(test_interruptions_change_no_bit),
                                     cmocka_unit_test(test_what_may_change),
                                     cmocka_unit_test(test_memory_that_is_not_there),
                                     cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_smooth_sweeps)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
