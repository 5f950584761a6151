// What changes between plans (pbMpc_Set...) and constraints: bit for bit the plans of a task with these numbers, the optimum of
// the same task by a search, multipliers that are moved in time, what is refused, memory.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/control.h>

#include "support/meter.h"
#include "support/support.h"

// A cart with a pole, and a ball that is pushed and turned.
#define MODEL                                                                                                                 \
  "\"model\": \"<mujoco><option timestep='.04' gravity='0 0 -5'/><worldbody><body name='cart'><joint name='x' type='slide' "  \
  "axis='1 0 0' damping='.2'/><geom type='box' size='.2 .1 .1' mass='1' contype='0' conaffinity='0'/><body name='pole'>"      \
  "<joint name='a' axis='0 1 0' damping='.05'/><geom type='capsule' size='.02' fromto='0 0 0 0 0 -.6' mass='.3' contype='0' " \
  "conaffinity='0'/></body></body><body name='top' pos='0 0 2'><joint name='turn' type='ball' damping='.1'/><geom "           \
  "type='box' size='.1 .2 .3' mass='1' contype='0' conaffinity='0'/></body></worldbody><actuator><motor name='push' "         \
  "joint='x'/><motor name='twist' joint='turn' gear='0 1 0'/></actuator></mujoco>\""
enum { steps = 12 };

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

// ---- changes --------------------------------------------------------------------------------------------------------------
typedef struct Numbers {  // of the task, as JSON
  const char *place, *turn, *course, *effort, *lower, *upper, *twist, *parameters;
} Numbers;
static const Numbers first = {.place = "0",
                              .turn = "[1, 0, 0.3, 0]",
                              .course = "0",
                              .effort = "0.1",
                              .lower = "-3",
                              .upper = "3",
                              .twist = "0.5",
                              .parameters = "{}"};

static pbTask *task_of(pbContext *ctx, const Numbers *n) {
  return parse(
      ctx,
      "{" MODEL
      ", \"steps\": %d, \"constants\": \"recompute\", \"parameters\": %s, \"variables\": [{\"name\": \"push\", \"control\": "
      "\"push\", \"lower\": %s, \"upper\": %s, \"scale\": 2}, {\"name\": \"twist\", \"control\": \"twist\", \"knots\": 4, "
      "\"interpolation\": \"linear\", \"upper\": %s}], \"loss\": [{\"name\": \"place\", \"qpos\": \"x\", \"at\": \"all\", "
      "\"target\": %s}, {\"name\": \"turn\", \"qpos\": \"turn\", \"at\": \"all\", \"target\": %s, \"mean\": true}, "
      "{\"name\": \"course\", \"qvel\": [\"x\", \"a\"], \"at\": \"all\", \"target\": %s, \"weight\": 0.3}, {\"name\": "
      "\"effort\", \"control\": true, \"at\": \"all\", \"weight\": %s, \"mean\": true}]}",
      (int)steps, n->parameters, n->lower, n->upper, n->twist, n->place, n->turn, n->course, n->effort);
}

static int place_of(const pbTask *task) {
  int i = 0;
  while (strcmp(pbModel_StateFieldAt(pbTask_Model(task), i).name, "qpos") != 0) i++;
  return pbModel_StateFieldAt(pbTask_Model(task), i).offset;
}

static double *state_of(pbContext *ctx, const pbTask *task, double x) {
  const pbModel *m = pbTask_Model(task);
  double *state = zeros((size_t)pbModel_StateSize(m));
  good(ctx, pbState_Init(ctx, m, pbModel_DefaultParams(m), -1, state));
  state[place_of(task)] = x;
  return state;
}

// Three plans of each, one after the other: the same bits.
static void assert_same_plans(pbContext *ctx, pbMpc *a, pbMpc *b, const double *x) {
  for (int k = 0; k < 3; k++) {
    pbMpcNews news[2];
    pbMpc *both[2] = {a, b};
    for (int i = 0; i < 2; i++) good(ctx, pbMpc_Plan(both[i], k ? 0.06 : 0, x, &(pbMpcLimits){.iterations = 2}, &news[i]));
    pbMpcPlan p = pbMpc_Get(a), q = pbMpc_Get(b);
    assert_true(news[0].loss == news[1].loss && news[0].guess_loss == news[1].guess_loss);
    assert_memory_equal(p.ctrl, q.ctrl, (size_t)p.steps * (size_t)p.nu * sizeof *p.ctrl);
    assert_memory_equal(p.states, q.states, (size_t)(p.steps + 1) * (size_t)p.nx * sizeof *p.states);
    assert_memory_equal(p.gain, q.gain, (size_t)p.steps * (size_t)p.nu * (size_t)p.n * sizeof *p.gain);
  }
}

// Rows of the course: as JSON and as numbers.
static char *course(double numbers[2 * (steps + 1)]) {
  char *text = malloc(4096);
  size_t used = 1;
  strcpy(text, "[");
  for (int k = 0; k <= steps; k++) {
    numbers[2 * k] = 0.125 * k;
    numbers[2 * k + 1] = 0.0625 * (k % 3);
    used += (size_t)sprintf(text + used, "%s[%.17g, %.17g]", k ? ", " : "", numbers[2 * k], numbers[2 * k + 1]);
  }
  strcpy(text + used, "]");
  return text;
}

// One change, or (the last kind) all of them, of the numbers of a task and of a controller.
enum { kinds = 8 };
static void change(pbContext *ctx, int kind, Numbers *n, pbMpc *mpc, char *course_text, const double *rows) {
  const double turn[] = {2, 0, 1, 0}, place = 0.7, low = -0.5, high = 0.25, twist = 0.01, mass = 2.5, gravity[] = {0, 0, -3};
  bool all = kind == kinds - 1;
  if (all || kind == 0) n->place = "0.7";
  if (all || kind == 0) good(ctx, pbMpc_SetTarget(mpc, "place", &place, 1));
  if (all || kind == 1) n->turn = "[2, 0, 1, 0]";
  if (all || kind == 1) good(ctx, pbMpc_SetTarget(mpc, "turn", turn, 4));
  if (all || kind == 2) n->course = course_text;
  if (all || kind == 2) good(ctx, pbMpc_SetTarget(mpc, "course", rows, 2 * (steps + 1)));
  if (all || kind == 3) n->effort = "0.04";
  if (all || kind == 3) good(ctx, pbMpc_SetWeight(mpc, "effort", 0.04));
  if (all || kind == 4) n->lower = "-0.5";
  if (all || kind == 4) n->upper = "0.25";
  if (all || kind == 4) good(ctx, pbMpc_SetBounds(mpc, "push", &low, &high, 1));
  if (all || kind == 5) n->twist = "0.01";
  if (all || kind == 5) good(ctx, pbMpc_SetBounds(mpc, "twist", NULL, &twist, 1));
  if (all || kind == 6) n->parameters = "{\"body_mass:cart\": 2.5, \"gravity\": [0, 0, -3]}";
  if (all || kind == 6) good(ctx, pbMpc_SetParameter(mpc, "body_mass:cart", &mass, 1));
  if (all || kind == 6) good(ctx, pbMpc_SetParameter(mpc, "gravity", gravity, 3));
}

// Each change before the first plan, and after some, begun anew: as a task that says so. It is gone with the controller.
static void check_change(pbContext *ctx, int kind, bool late) {
  double rows[2 * (steps + 1)], value, expected;
  char *course_text = course(rows);
  Numbers n = first;
  pbTask *task = task_of(ctx, &first), *before = task_of(ctx, &first);
  pbMpc *mpc, *fresh, *unchanged;
  double *x = state_of(ctx, task, 2);
  good(ctx, pbMpc_Create(ctx, task, &mpc));
  for (int k = 0; k < 2 * late; k++) good(ctx, pbMpc_Plan(mpc, 0.04, x, NULL, NULL));
  change(ctx, kind, &n, mpc, course_text, rows);
  if (late) good(ctx, pbMpc_Restart(mpc));
  pbTask *of = task_of(ctx, &n);
  good(ctx, pbMpc_Create(ctx, of, &fresh));
  assert_same_plans(ctx, mpc, fresh, x);

  // it makes a difference
  good(ctx, pbMpc_Create(ctx, before, &unchanged));
  good(ctx, pbMpc_Plan(unchanged, 0, x, &(pbMpcLimits){.iterations = 2}, NULL));
  good(ctx, pbMpc_Restart(mpc));
  good(ctx, pbMpc_Plan(mpc, 0, x, &(pbMpcLimits){.iterations = 2}, NULL));
  if (!memcmp(pbMpc_Get(unchanged).ctrl, pbMpc_Get(mpc).ctrl, 2 * steps * sizeof *x)) fail_msg("change %d is none", kind);

  pbMpc_Destroy(mpc);
  pbMpc_Destroy(unchanged);
  pbMpc_Destroy(fresh);
  good(ctx, pbTask_Loss(task, pbTask_Start(task), &value, NULL));
  good(ctx, pbTask_Loss(before, pbTask_Start(before), &expected, NULL));
  assert_true(value == expected);
  pbTask_Destroy(task);
  pbTask_Destroy(of);
  pbTask_Destroy(before);
  free(x);
  free(course_text);
}

static void test_changes_are_those_of_a_task(void **state) {
  for (int kind = 0; kind < kinds; kind++) {
    for (int late = 0; late < 2; late++) check_change(*state, kind, late);
  }
}

// Feedback keeps bounds from the moment that they are set. One-sided ones of lines between knots are none to the other side.
static void test_bounds_of_answers(void **state) {
  pbTask *task = task_of(*state, &first);
  pbMpc *mpc;
  double *x = state_of(*state, task, 0.2), u[2], tight = -0.25, far = 0.25;
  good(*state, pbMpc_Create(*state, task, &mpc));
  good(*state, pbMpc_Plan(mpc, 0, x, &(pbMpcLimits){.iterations = 5}, NULL));
  pbMpcPlan p = pbMpc_Get(mpc);
  for (int k = 0; k < steps; k++) {
    assert_int_equal(pbMpc_Feedback(mpc, k * p.timestep, p.states + k * p.nx, u), pb_ok);
    assert_true(u[0] == p.ctrl[2 * k] && u[1] == p.ctrl[2 * k + 1] && u[1] <= 0.5);
  }

  good(*state, pbMpc_SetBounds(mpc, "push", &tight, &far, 1));
  x[place_of(task)] += 5;
  for (int k = 0; k < steps; k++) {
    assert_int_equal(pbMpc_Feedback(mpc, k * p.timestep, x, u), pb_ok);
    assert_true(u[0] >= -0.25 && u[0] <= 0.25);
  }
  pbMpc_Destroy(mpc);
  pbTask_Destroy(task);
  free(x);
}

static void refused(void **state, pbStatus status, pbStatus expected, const char *words) {
  assert_int_equal(status, expected);
  if (!strstr(pbContext_Error(*state), words)) fail_msg("'%s' does not say '%s'", pbContext_Error(*state), words);
}

// With the reason, and the next plan is as if nobody had asked.
static void test_changes_that_are_refused(void **state) {
  pbTask *task = task_of(*state, &first), *same = task_of(*state, &first);
  pbMpc *mpc, *other;
  good(*state, pbMpc_Create(*state, task, &mpc));
  good(*state, pbMpc_Create(*state, same, &other));
  const double none[] = {NAN, 0, 0, 0}, zero[4] = {0}, far[] = {INFINITY, 1}, pair[] = {1, 2}, up = 5, mass = -1, h = 0.1;

  refused(state, pbMpc_SetTarget(mpc, "plase", zero, 1), pb_bad_argument, "did you mean 'place'");
  refused(state, pbMpc_SetTarget(mpc, "place", none, 1), pb_bad_argument, "number 0 is NaN");
  refused(state, pbMpc_SetTarget(mpc, "place", far, 1), pb_bad_argument, "infinite");
  refused(state, pbMpc_SetTarget(mpc, "course", zero, 3), pb_bad_argument, "expected 1 number, 2 or 26 (13 times), found 3");
  refused(state, pbMpc_SetTarget(mpc, "turn", zero, 4), pb_bad_argument, "quaternion is zero");
  refused(state, pbMpc_SetTarget(mpc, "turn", zero, 1), pb_bad_argument, "quaternion is zero");
  refused(state, pbMpc_SetWeight(mpc, "effort", NAN), pb_bad_argument, "NaN");
  refused(state, pbMpc_SetWeight(mpc, "cost", 1), pb_bad_argument, "no term of the loss");
  refused(state, pbMpc_SetBounds(mpc, "pusch", zero, zero, 1), pb_bad_argument, "did you mean 'push'");
  refused(state, pbMpc_SetBounds(mpc, "push", &up, NULL, 1), pb_bad_argument, "lower bound of number 0 is above");
  refused(state, pbMpc_SetBounds(mpc, "push", none, NULL, 1), pb_bad_argument, "a bound is NaN");
  refused(state, pbMpc_SetBounds(mpc, "push", zero, zero, 3), pb_bad_argument, "found 3");
  refused(state, pbMpc_SetParameter(mpc, "body_mas", &mass, 1), pb_bad_argument, "body_mass");
  refused(state, pbMpc_SetParameter(mpc, "body_mass:cart", &mass, 1), pb_bad_input, "body_mass");
  refused(state, pbMpc_SetParameter(mpc, "body_mass:cart", none, 1), pb_bad_argument, "NaN");
  refused(state, pbMpc_SetParameter(mpc, "gravity", pair, 2), pb_bad_argument, "expected 1 number or 3, found 2");
  refused(state, pbMpc_SetParameter(mpc, "timestep", &h, 1), pb_bad_argument, "time step");
  refused(state, pbMpc_SetParameter(mpc, "dof_invweight0", pair, 1), pb_bad_argument, "follows");
  double *x = state_of(*state, task, 0.2);
  assert_same_plans(*state, mpc, other, x);
  pbMpc_Destroy(mpc);
  pbMpc_Destroy(other);
  pbTask_Destroy(task);
  pbTask_Destroy(same);
  free(x);
}

// ---- constraints -----------------------------------------------------------------------------------------------------------
// The cart is wanted beyond a wall; limits on its force; with an equality at the end.
static pbTask *walled(pbContext *ctx, int count, const char *more) {
  return parse(
      ctx,
      "{\"model\": \"<mujoco><option timestep='.05' gravity='0 0 0'/><worldbody><body><joint name='x' type='slide' axis='1 0 "
      "0' damping='.3'/><geom size='.1' mass='1'/></body></worldbody><actuator><motor joint='x'/></actuator></mujoco>\", "
      "\"steps\": %d, \"variables\": [{\"control\": true, \"lower\": -4, \"upper\": 4}], \"loss\": [{\"qpos\": \"x\", \"at\": "
      "\"all\", \"target\": 1, \"weight\": 5}, {\"qvel\": true, \"at\": \"all\", \"weight\": 0.1}, {\"control\": true, "
      "\"at\": \"all\", \"weight\": 0.05}, {\"name\": \"wall\", \"qpos\": \"x\", \"at\": \"all\", \"type\": \"below\", "
      "\"target\": 0.5, \"constraint\": true, \"weight\": 20}%s], \"optimizer\": {\"method\": \"ilqr\", \"iterations\": 1000}}",
      count, more);
}

// From its start, a plan with iterations enough is the answer of a search.
static void test_constraints_are_met(void **state) {
  static const char *const more[] = {
      "", ", {\"name\": \"stop\", \"qvel\": \"x\", \"target\": -0.3, \"constraint\": true, \"weight\": 3}"};
  for (int k = 0; k < 2; k++) {
    pbTask *task = walled(*state, 30, more[k]);
    pbMpc *mpc;
    pbMpcNews news;
    pbRunResult result;
    double z[30], off = 0, most = -INFINITY;
    good(*state, pbTask_Run(task, &(pbRunOptions){0}, &result));
    assert_int_equal(result.outcome, pb_runConverged);
    memcpy(z, result.z, sizeof z);
    good(*state, pbMpc_Create(*state, task, &mpc));
    double *x = state_of(*state, task, 0);
    good(*state, pbMpc_Plan(mpc, 0, x, &(pbMpcLimits){.iterations = 400}, &news));
    pbMpcPlan p = pbMpc_Get(mpc);
    for (int i = 0; i < 30; i++) off = fmax(off, fabs(p.ctrl[i] - z[i]));
    for (int i = 0; i <= 30; i++) most = fmax(most, p.states[i * p.nx + place_of(task)]);
    print_message("%d iterations, controls off by %.2g, place at most %.9g, violation %.2g tolerances\n", news.iterations, off,
                  most, news.violation);
    assert_true(news.converged && news.violation <= 1 && most <= 0.5 + 1e-6 && most >= 0.5 - 1e-3 && off <= 1e-6);
    pbMpc_Destroy(mpc);
    pbTask_Destroy(task);
    free(x);
  }
}

// Multipliers go on with the plan: on it, some steps later, one iteration stays within what a new controller is off by after
// several.
static void test_multipliers_are_moved(void **state) {
  pbTask *task = walled(*state, 30, ""), *again = walled(*state, 30, "");
  pbMpc *mpc, *cold;
  pbMpcNews news, anew;
  double *x = state_of(*state, task, 0);
  good(*state, pbMpc_Create(*state, task, &mpc));
  good(*state, pbMpc_Create(*state, again, &cold));
  good(*state, pbMpc_Plan(mpc, 0, x, &(pbMpcLimits){.iterations = 400}, &news));
  for (int k = 0; k < 12; k++) {
    pbMpcPlan p = pbMpc_Get(mpc);
    memcpy(x, p.states + 2 * p.nx, (size_t)p.nx * sizeof *x);
    good(*state, pbMpc_Plan(mpc, 2 * p.timestep, x, NULL, &news));
    good(*state, pbMpc_Restart(cold));
    good(*state, pbMpc_Plan(cold, 0, x, &(pbMpcLimits){.iterations = 3}, &anew));
    assert_true(news.violation * 1e-6 < 1e-3);
    if (k >= 2 && k < 8) assert_true(news.violation < 0.1 * anew.violation);
  }
  print_message("off by %.2g after 12 plans of one iteration, %.2g where nothing is known before\n", 1e-6 * news.violation,
                1e-6 * anew.violation);
  pbMpc_Destroy(mpc);
  pbMpc_Destroy(cold);
  pbTask_Destroy(task);
  pbTask_Destroy(again);
  free(x);
}

// Beyond the wall no plan meets it; it leads back, says so, and the next from before it is as good as ever.
static void test_constraints_that_cannot_be_met(void **state) {
  pbTask *task = walled(*state, 30, "");
  pbMpc *mpc;
  pbMpcNews news;
  good(*state, pbMpc_Create(*state, task, &mpc));
  double *x = state_of(*state, task, 0.8);
  for (int k = 0; k < 30; k++) good(*state, pbMpc_Plan(mpc, 0, x, &(pbMpcLimits){.iterations = 20}, &news));
  pbMpcPlan p = pbMpc_Get(mpc);
  assert_true(!news.converged && news.violation >= 0.29e6 && p.ctrl[0] == -4 && p.states[30 * p.nx + place_of(task)] < 0.6);
  x[place_of(task)] = 0;
  for (int k = 0; k < 4; k++) good(*state, pbMpc_Plan(mpc, 0, x, &(pbMpcLimits){.iterations = 200}, &news));
  assert_true(news.converged && news.violation <= 1);

  // a weight that changes leaves multipliers: nothing is left to do
  good(*state, pbMpc_SetWeight(mpc, "wall", 60));
  good(*state, pbMpc_Plan(mpc, 0, x, &(pbMpcLimits){.iterations = 20}, &news));
  print_message("%d iterations with another weight\n", news.iterations);
  assert_true(news.converged && news.iterations <= 10);
  assert_int_equal(pbMpc_SetWeight(mpc, "wall", 0), pb_bad_argument);
  pbMpc_Destroy(mpc);
  pbTask_Destroy(task);
  free(x);
}

static void test_memory(void **state) {
  (void)state;
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  pbTask *task = walled(ctx, 20, "");
  pbMpc *mpc;
  double *x = state_of(ctx, task, 0), u, place = 0.4, bound = 3, mass = 1.5;
  good(ctx, pbMpc_Create(ctx, task, &mpc));
  good(ctx, pbMpc_Plan(mpc, 0, x, NULL, NULL));
  meter.calls = 0;
  for (int i = 0; i < 10; i++) {
    place += 0.01;
    good(ctx, pbMpc_SetTarget(mpc, "wall", &place, 1));
    good(ctx, pbMpc_SetWeight(mpc, "wall", 10 + i));
    good(ctx, pbMpc_SetBounds(mpc, "control", NULL, &bound, 1));
    good(ctx, pbMpc_SetParameter(mpc, "body_mass", &mass, 1));
    good(ctx, pbMpc_Plan(mpc, 0.05, x, &(pbMpcLimits){.iterations = 12}, NULL));
    assert_int_equal(pbMpc_Feedback(mpc, 0.01, x, &u), pb_ok);
  }
  good(ctx, pbMpc_Restart(mpc));
  assert_int_equal(meter.calls, 0);
  pbMpc_Destroy(mpc);
  pbTask_Destroy(task);
  pbContext_Destroy(ctx);
  assert_int_equal(meter.live, 0);
  free(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_changes_are_those_of_a_task),
                                     cmocka_unit_test(test_bounds_of_answers),
                                     cmocka_unit_test(test_changes_that_are_refused),
                                     cmocka_unit_test(test_constraints_are_met),
                                     cmocka_unit_test(test_multipliers_are_moved),
                                     cmocka_unit_test(test_constraints_that_cannot_be_met),
                                     cmocka_unit_test(test_memory)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
