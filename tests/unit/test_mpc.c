// Model predictive control: feedback beside the optimum of what is left of the horizon, guesses that are moved in time, a pole
// that is balanced by another model's plans, limits, plans that fail, memory, what is refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/control.h>
#include <pullback/random.h>

#include "support/meter.h"
#include "support/support.h"

#define CARTS                                                                                                                \
  "\"model\": \"<mujoco><option timestep='0.05' gravity='0 0 0'/><worldbody><body name='cart'><joint name='x' type='slide' " \
  "axis='1 0 0' stiffness='2' damping='.3' armature='.1'/><geom type='box' size='.2 .1 .1' mass='1.5' contype='0' "          \
  "conaffinity='0'/><body name='top' pos='0 0 .3'><joint name='y' type='slide' axis='.8 0 .6' stiffness='1' damping='.2'/>"  \
  "<geom type='box' size='.1 .1 .1' mass='.7' contype='0' conaffinity='0'/></body></body></worldbody><actuator><motor "      \
  "name='push' joint='x'/><general name='slow' joint='y' dyntype='filter' dynprm='.2' gainprm='2'/></actuator></mujoco>\""
#define POLE                                                                                                                \
  "\"model\": \"<mujoco><option timestep='%g'/><worldbody><body name='cart'><joint name='x' type='slide' axis='1 0 0'/>"    \
  "<geom type='box' size='.2 .1 .1' mass='1' contype='0' conaffinity='0'/><body><joint name='a' axis='0 1 0' pos='0 0 0'/>" \
  "<geom type='capsule' size='.02' fromto='0 0 0 0 0 .6' mass='%g' contype='0' conaffinity='0'/></body></body></worldbody>" \
  "<actuator><motor joint='x'/></actuator></mujoco>\""

static pbTask *parse(pbContext *ctx, const char *format, ...) {
  char text[8192];
  pbTask *task;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  return task;
}

static pbTask *carts(pbContext *ctx, int steps, const char *variables) {
  return parse(ctx,
               "{" CARTS
               ", \"steps\": %d, \"variables\": [%s], \"loss\": [{\"qpos\": true, \"at\": \"all\", \"target\": [0.4, "
               "0.2], \"weight\": 2}, {\"qvel\": true, \"at\": \"all\", \"weight\": 0.1}, {\"control\": true, \"at\": \"all\", "
               "\"weight\": 0.5}]}",
               steps, variables);
}

static int place_of(const pbModel *m, const char *field) {
  for (int i = 0; i < pbModel_StateFieldCount(m); i++) {
    if (strcmp(pbModel_StateFieldAt(m, i).name, field) == 0) return pbModel_StateFieldAt(m, i).offset;
  }
  fail_msg("no field '%s'", field);
  return -1;
}

static double *start_state(pbContext *ctx, pbTask *task, double a, double b) {
  const pbModel *m = pbTask_Model(task);
  double *x = zeros((size_t)pbModel_StateSize(m));
  good(ctx, pbState_Init(ctx, m, pbModel_DefaultParams(m), -1, x));
  x[place_of(m, "qpos")] = a;
  x[place_of(m, "qpos") + 1] = b;
  return x;
}

// What Feedback says at a state beside the plan is the first control of a plan from there over what is left.
static void test_feedback_is_optimal(void **state) {
  static const char every[] = "{\"control\": true}";
  enum { steps = 25 };
  pbTask *task = carts(*state, steps, every);
  pbMpc *mpc;
  pbMpcNews news;
  good(*state, pbMpc_Create(*state, task, &mpc));
  double *x = start_state(*state, task, 1, -0.5), u[2], other[2];
  good(*state, pbMpc_Plan(mpc, 0, x, &(pbMpcLimits){.iterations = 5}, &news));
  assert_true(news.converged && news.loss < news.guess_loss && news.iterations <= 3);

  pbMpcPlan plan = pbMpc_Get(mpc);
  assert_true(plan.steps == steps && plan.nu == 2 && plan.age == 0 && plan.plans == 1 && plan.failed == 0);
  assert_memory_equal(plan.states, x, (size_t)plan.nx * sizeof *x);
  for (int k = 0; k < steps; k += 6) {
    double *beside = zeros((size_t)plan.nx);
    memcpy(beside, plan.states + k * plan.nx, (size_t)plan.nx * sizeof *beside);
    pbMpc_Feedback(mpc, k * plan.timestep, beside, u);
    assert_memory_equal(u, plan.ctrl + 2 * k, sizeof u);

    // off by much, for all is linear
    for (int i = 0; i < plan.n; i++) {
      double *move = zeros((size_t)plan.n);
      move[i] = 0.3 * (i + 1);
      pbState_Move(pbTask_Model(task), beside, move, 1);
      free(move);
    }
    pbMpc_Feedback(mpc, k * plan.timestep, beside, u);

    pbTask *rest = carts(*state, steps - k, every);
    pbMpc *again;
    good(*state, pbMpc_Create(*state, rest, &again));
    good(*state, pbMpc_Plan(again, 0, beside, &(pbMpcLimits){.iterations = 5}, NULL));
    pbMpc_Feedback(again, 0, beside, other);
    for (int a = 0; a < 2; a++) assert_near_of("control", u[a], other[a], 1e-9 * (1 + fabs(other[a])));
    pbMpc_Destroy(again);
    pbTask_Destroy(rest);
    free(beside);
  }
  pbMpc_Destroy(mpc);
  pbTask_Destroy(task);
  free(x);
}

// Gains at the answer of a search are those of a plan that had nothing left to do, of whatever method.
static void test_gains_of_a_run(void **state) {
  pbTask *task = carts(*state, 25, "{\"control\": true}");
  size_t n = (size_t)pbModel_TangentSize(pbTask_Model(task));
  double *gain = zeros(25 * 2 * n), *x = start_state(*state, task, 0, 0);
  static const char *const methods[] = {"ilqr", "lbfgs"};
  pbMpc *mpc;
  good(*state, pbMpc_Create(*state, task, &mpc));
  good(*state, pbMpc_Plan(mpc, 0, x, &(pbMpcLimits){.iterations = 5}, NULL));
  double *expected = zeros(25 * 2 * n);
  memcpy(expected, pbMpc_Get(mpc).gain, 25 * 2 * n * sizeof *expected);
  pbMpc_Destroy(mpc);

  for (int k = 0; k < 2; k++) {
    pbRunResult result;
    good(*state, pbTask_Run(task, &(pbRunOptions){.method = methods[k]}, &result));
    good(*state, pbTask_Gains(task, result.z, 0, gain));
    for (size_t i = 0; i < 25 * 2 * n; i++) assert_near(gain[i], expected[i], 1e-10);
  }
  assert_true(fabs(gain[0]) > 0.01);
  pbTask_Destroy(task);
  free(x);
  free(gain);
  free(expected);
}

// The plan of a linear system a whole number of steps later is the same controls, moved: the guess has the loss that is
// foreseen, for controls a step, in pieces and on lines.
static void test_guesses(void **state) {
  static const char *const variables[] = {"{\"control\": true}", "{\"control\": true, \"knots\": 5}",
                                          "{\"control\": true, \"knots\": 6, \"interpolation\": \"linear\", \"scale\": 3}"};
  for (int v = 0; v < 3; v++) {
    pbTask *task = carts(*state, 25, variables[v]);
    pbMpc *mpc;
    good(*state, pbMpc_Create(*state, task, &mpc));
    double *x = start_state(*state, task, 1, -0.5), *before = zeros(50);
    good(*state, pbMpc_Plan(mpc, 0, x, &(pbMpcLimits){.iterations = 5}, NULL));
    pbMpcPlan plan = pbMpc_Get(mpc);
    memcpy(before, plan.ctrl, 50 * sizeof *before);
    memcpy(x, plan.states + 5 * plan.nx, (size_t)plan.nx * sizeof *x);

    // On the plan, five steps later: a plan of no iteration would be the guess; of one it begins there.
    pbMpcNews news;
    good(*state, pbMpc_Plan(mpc, 5 * plan.timestep, x, NULL, &news));
    pbMpcPlan next = pbMpc_Get(mpc);
    double off = 0;
    for (int k = 0; k < 10; k++) {
      for (int a = 0; a < 2; a++) off = fmax(off, fabs(next.ctrl[2 * k + a] - before[2 * (k + 5) + a]));
    }
    print_message("guess %.6g, plan %.6g; controls of the next half second differ by %.3g\n", news.guess_loss, news.loss, off);
    assert_true(news.iterations == 1 && news.loss <= news.guess_loss && news.guess_loss < 1.2 * news.loss && off < 0.2);
    assert_true(next.age == 0 && next.plans == 2);
    pbMpc_Destroy(mpc);
    pbTask_Destroy(task);
    free(x);
    free(before);
  }
}

static pbTask *pole(pbContext *ctx, double timestep, double mass, int steps) {
  return parse(ctx,
               "{" POLE
               ", \"steps\": %d, \"variables\": [{\"control\": true, \"lower\": -6, \"upper\": 6}], \"loss\": [{\"qpos\": "
               "\"a\", \"at\": \"all\", \"weight\": 10}, {\"qpos\": \"x\", \"at\": \"all\"}, {\"qvel\": true, \"at\": \"all\", "
               "\"weight\": 0.1}, {\"control\": true, \"at\": \"all\", \"weight\": 0.001}, {\"qpos\": \"a\", \"weight\": 200}]}",
               timestep, mass, steps);
}

// Balances a pole that is half as heavy again and pushed twice, at a quarter of the plan's time step; with the controls of the
// first plan alone it falls.
static void test_a_pole_is_balanced(void **state) {
  pbTask *task = pole(*state, 0.02, 0.1, 50), *plant = pole(*state, 0.005, 0.15, 1);
  const pbModel *m = pbTask_Model(plant);
  pbMpc *mpc;
  pbScratch *scratch;
  good(*state, pbMpc_Create(*state, task, &mpc));
  good(*state, pbScratch_Create(*state, m, NULL, &scratch));
  double worst[2] = {0};
  int angle = place_of(m, "qpos") + 1, speed = place_of(m, "qvel") + 1;

  for (int open = 0; open < 2; open++) {
    double *x = start_state(*state, plant, 0, 0.2), u;
    for (int i = 0; i < 1600; i++) {
      if (i % 4 == 0 && (!open || i == 0)) good(*state, pbMpc_Plan(mpc, i ? 0.02 : 0, x, NULL, NULL));
      pbMpc_Feedback(mpc, open ? i * 0.005 : i % 4 * 0.005, x, &u);
      assert_true(u >= -6 && u <= 6);
      if (i == 400 || i == 800) x[speed] += 0.5;
      pbStatus status = pbStep_Forward(m, pbModel_DefaultParams(m), x, &(pbInput){.ctrl = &u}, scratch, NULL);
      assert_int_equal(status, pb_ok);
      if (i > 1200) worst[open] = fmax(worst[open], fabs(x[angle]));
    }
    free(x);
  }
  print_message("angle in the last two seconds: %.3g, without new plans %.3g\n", worst[0], worst[1]);
  assert_true(worst[0] < 0.01 && worst[1] > 0.5);
  pbScratch_Destroy(scratch);
  pbMpc_Destroy(mpc);
  pbTask_Destroy(task);
  pbTask_Destroy(plant);
}

// ---- what goes wrong ----------------------------------------------------------------------------------------------------
// A plan that cannot be run from a state says so; the last one goes on to serve, older; the next is as if nothing had been.
static void test_a_plan_that_fails(void **state) {
  pbTask *task = pole(*state, 0.02, 0.1, 30);
  pbMpc *mpc;
  pbMpcNews news;
  good(*state, pbMpc_Create(*state, task, &mpc));
  double *x = start_state(*state, task, 0, 0.1), u[3];
  good(*state, pbMpc_Plan(mpc, 0, x, &(pbMpcLimits){.iterations = 3}, NULL));
  for (int k = 0; k < 3; k++) pbMpc_Feedback(mpc, 0.02 * k, pbMpc_Get(mpc).states + k * pbMpc_Get(mpc).nx, &u[k]);

  double fast = x[place_of(pbTask_Model(task), "qvel")], now;
  x[place_of(pbTask_Model(task), "qvel")] = 1e11;
  assert_int_equal(pbMpc_Plan(mpc, 0.02, x, NULL, &news), pb_not_finite);
  assert_non_null(strstr(pbContext_Error(*state), "cannot be run from this state"));
  assert_true(pbMpc_Get(mpc).failed == 1 && pbMpc_Get(mpc).plans == 2 && fabs(pbMpc_Get(mpc).age - 0.02) < 1e-15);
  pbMpc_Feedback(mpc, 0, pbMpc_Get(mpc).states + 1 * pbMpc_Get(mpc).nx, &now);
  assert_true(now == u[1]);

  x[place_of(pbTask_Model(task), "qvel")] = fast;
  memcpy(x, pbMpc_Get(mpc).states + 2 * pbMpc_Get(mpc).nx, (size_t)pbMpc_Get(mpc).nx * sizeof *x);
  good(*state, pbMpc_Plan(mpc, 0.02, x, NULL, &news));
  assert_true(pbMpc_Get(mpc).age == 0 && news.loss <= news.guess_loss);

  // Numbers that are none, times that go back.
  x[0] = NAN;
  assert_int_equal(pbMpc_Plan(mpc, 0.02, x, NULL, NULL), pb_bad_argument);
  x[0] = 0;
  assert_int_equal(pbMpc_Plan(mpc, -0.02, x, NULL, NULL), pb_bad_argument);
  assert_int_equal(pbMpc_Plan(mpc, NAN, x, NULL, NULL), pb_bad_argument);
  pbMpc_Destroy(mpc);
  pbTask_Destroy(task);
  free(x);
}

// At its limits all along there is nothing to plan, but states are those from where it stands now.
static void test_states_are_of_this_start(void **state) {
  pbTask *task = parse(*state,
                       "{" POLE
                       ", \"steps\": 10, \"variables\": [{\"control\": true, \"lower\": -0.001, \"upper\": 0.001}], "
                       "\"loss\": [{\"qpos\": \"a\", \"at\": \"all\", \"weight\": 100}]}",
                       0.02, 0.1);
  pbMpc *mpc;
  pbMpcNews news;
  good(*state, pbMpc_Create(*state, task, &mpc));
  for (int k = 0; k < 5; k++) {
    double *x = start_state(*state, task, 0, 0.5 + 0.1 * k);
    good(*state, pbMpc_Plan(mpc, 0, x, &(pbMpcLimits){.iterations = 20}, &news));
    assert_memory_equal(pbMpc_Get(mpc).states, x, (size_t)pbMpc_Get(mpc).nx * sizeof *x);
    assert_true(news.converged && fabs(pbMpc_Get(mpc).ctrl[0]) == 0.001);
    free(x);
  }
  pbMpc_Destroy(mpc);
  pbTask_Destroy(task);
}

// Little time is one iteration, and said.
static void test_deadlines(void **state) {
  pbTask *task = pole(*state, 0.02, 0.1, 50);
  pbMpc *mpc;
  pbMpcNews news;
  good(*state, pbMpc_Create(*state, task, &mpc));
  double *x = start_state(*state, task, 0.5, 2.5);
  good(*state, pbMpc_Plan(mpc, 0, x, &(pbMpcLimits){.iterations = 1000, .seconds = 1e-9}, &news));
  assert_true(news.iterations == 1 && news.late && !news.converged && news.seconds > 1e-9);
  assert_true(news.seconds >= news.linearize_seconds + news.plan_seconds + news.run_seconds);
  good(*state, pbMpc_Plan(mpc, 0, x, &(pbMpcLimits){.iterations = 4, .seconds = 1000}, &news));
  assert_true(news.iterations == 4 && !news.late);
  pbMpc_Destroy(mpc);
  pbTask_Destroy(task);
  free(x);
}

static void test_memory(void **state) {
  (void)state;
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  pbTask *task = carts(ctx, 25, "{\"control\": true}");
  pbMpc *mpc;
  double *x = start_state(ctx, task, 1, -0.5), u[2];

  // once before: what a task takes when it is first run, it keeps
  good(ctx, pbMpc_Create(ctx, task, &mpc));
  good(ctx, pbMpc_Plan(mpc, 0, x, NULL, NULL));
  pbMpc_Destroy(mpc);
  long live = meter.live;

  // each call that Create makes fails in turn
  pbStatus status = pb_no_memory;
  for (long at = 1; status != pb_ok; at++) {
    meter.calls = 0;
    meter.fail_at = at;
    status = pbMpc_Create(ctx, task, &mpc);
    meter.fail_at = 0;
    assert_true(status == pb_ok || (status == pb_no_memory && !mpc && meter.live == live));
  }

  good(ctx, pbMpc_Plan(mpc, 0, x, NULL, NULL));
  meter.calls = 0;
  for (int i = 0; i < 20; i++) {
    good(ctx, pbMpc_Plan(mpc, 0.05, x, &(pbMpcLimits){.iterations = 2}, NULL));
    pbMpc_Feedback(mpc, 0.01, x, u);
  }
  assert_int_equal(meter.calls, 0);
  pbMpc_Destroy(mpc);
  assert_int_equal(meter.live, live);
  pbTask_Destroy(task);
  pbContext_Destroy(ctx);
  assert_int_equal(meter.live, 0);
  free(x);
}

// The task is as it was, and can be run.
static void test_the_task_is_given_back(void **state) {
  pbTask *task = pole(*state, 0.02, 0.1, 30);
  pbMpc *mpc;
  double before, after, *x = start_state(*state, task, 1, 1);
  good(*state, pbTask_Loss(task, pbTask_Start(task), &before, NULL));
  good(*state, pbMpc_Create(*state, task, &mpc));
  good(*state, pbMpc_Plan(mpc, 0, x, NULL, NULL));
  pbMpc_Destroy(mpc);
  good(*state, pbTask_Loss(task, pbTask_Start(task), &after, NULL));
  assert_true(before == after);
  pbTask_Destroy(task);
  free(x);
}

static void test_refusals(void **state) {
  static const char *const cases[][2] = {{"{\"control\": true}, {\"state\": \"qvel\"}", "none of controls"},
                                         {"{\"parameter\": \"dof_damping\"}", "neither of controls nor"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    pbTask *task = carts(*state, 5, cases[i][0]);
    pbMpc *mpc;
    assert_int_equal(pbMpc_Create(*state, task, &mpc), pb_bad_input);
    assert_null(mpc);
    if (!strstr(pbContext_Error(*state), cases[i][1])) fail_msg("'%s' does not say '%s'", pbContext_Error(*state), cases[i][1]);
    pbTask_Destroy(task);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_feedback_is_optimal),
                                     cmocka_unit_test(test_gains_of_a_run),
                                     cmocka_unit_test(test_guesses),
                                     cmocka_unit_test(test_a_pole_is_balanced),
                                     cmocka_unit_test(test_a_plan_that_fails),
                                     cmocka_unit_test(test_states_are_of_this_start),
                                     cmocka_unit_test(test_deadlines),
                                     cmocka_unit_test(test_memory),
                                     cmocka_unit_test(test_the_task_is_given_back),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
