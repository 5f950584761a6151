// Why a search ended: one task for each outcome, and what is said of its unknowns.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/optimize.h>

#include "support/support.h"

#define POINT_MODEL                                                                                                           \
  "\"model\": \"<mujoco><option timestep='0.01'/><worldbody><body name='p'><joint name='x' type='slide' axis='1 0 0'/>"       \
  "<joint name='z' type='slide' axis='0 0 1'/><geom type='sphere' size='.1' mass='2'/></body>"                                \
  "<body name='other' pos='3 0 0'><joint name='y' type='slide' axis='0 1 0'/><geom type='sphere' size='.1' mass='1'/></body>" \
  "</worldbody></mujoco>\""

static pbTask *run(pbContext *ctx, const char *text, pbRunResult *result) {
  pbTask *task;
  pbStatus status = pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task);
  if (status == pb_ok) status = pbTask_Run(task, NULL, result);
  if (status != pb_ok) fail_msg("%s: %s", pbStatus_Text(status), pbContext_Error(ctx));
  return task;
}

static void expect(const pbRunResult *result, pbRunOutcome outcome) {
  if (result->outcome != outcome)
    fail_msg("'%s' (%s; %s), '%s' expected", pbRunOutcome_Name(result->outcome), result->reason, result->advice,
             pbRunOutcome_Name(outcome));
}

static void expect_text(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("'%s' is not in '%s'", part, text);
}

#define AIM "\"loss\": [{\"name\": \"target\", \"body\": \"p\", \"components\": [0, 2], \"target\": [3, 1]}]"

static void test_criteria_met(void **state) {
  pbRunResult r;
  pbTask *task = run(*state,
                     "{" POINT_MODEL ", \"steps\": 50, \"variables\": [{\"state\": \"qvel\", \"joint\": [\"x\", \"z\"]}], " AIM
                     ", \"stop\": {\"loss\": 1e-6}}",
                     &r);
  expect(&r, pb_runCriteriaMet);
  assert_true(r.met && pbTask_HasStop(task));
  pbTask_Destroy(task);
}

// One unknown without influence beside two that find their place, one of these at its bound.
static void test_converged(void **state) {
  pbRunResult r;
  pbTask *task = run(*state,
                     "{" POINT_MODEL
                     ", \"steps\": 50, \"variables\": [{\"state\": \"qvel\", \"joint\": [\"x\", \"z\"], \"upper\": [4, 100]}, "
                     "{\"parameter\": \"body_mass:other\"}], " AIM "}",
                     &r);
  expect(&r, pb_runConverged);
  assert_false(r.met);
  assert_int_equal(r.notes[0], pb_unknownAtUpper);
  assert_int_equal(r.notes[1], 0);
  assert_int_equal(r.notes[2], pb_unknownInert);
  expect_text(r.advice, "nothing in the loss depends on body_mass:other\n");
  char *json;
  assert_int_equal(pbTask_ResultJson(task, &r, &json), pb_ok);
  expect_text(json, "\"outcome\": \"converged\"");
  expect_text(json, "\"no influence\"");
  expect_text(json, "\"at upper bound\"");
  pbContext_Free(*state, json);
  pbTask_Destroy(task);
}

// At a perfect fit every gradient is zero; that is no lack of influence.
static void test_perfect_fit(void **state) {
  pbRunResult r;
  for (int method = 0; method < 2; method++) {
    char text[2048];
    snprintf(text, sizeof text,
             "{" POINT_MODEL
             ", \"steps\": 50, \"options\": {\"gravity\": [0, 0, 0]}, \"variables\": [{\"state\": \"qvel\", \"joint\": \"x\"}], "
             "\"loss\": [{\"body\": \"p\", \"components\": [0], \"target\": [0]}], \"optimizer\": {\"method\": \"%s\"}}",
             method ? "gauss-newton" : "lbfgs");
    pbTask *task = run(*state, text, &r);
    expect(&r, pb_runConverged);
    assert_int_equal(r.notes[0], 0);
    assert_string_equal(r.advice, "");
    pbTask_Destroy(task);
  }
}

static void test_no_influence(void **state) {
  pbRunResult r;
  pbTask *task = run(*state,
                     "{" POINT_MODEL
                     ", \"steps\": 50, \"variables\": [{\"parameter\": \"body_mass:other\"}, {\"state\": \"qvel\", "
                     "\"joint\": \"y\"}], " AIM "}",
                     &r);
  expect(&r, pb_runNoInfluence);
  expect_text(r.advice, "body_mass:other, qvel");
  pbTask_Destroy(task);
}

// Weights of layers that are zero: none of them changes anything alone. Of two layers the loss falls to both sides, of three to
// one; what nothing depends on beside them is still named, and nothing else.
static void test_products(void **state) {
  static const char *const text =
      "{\"model\": \"<mujoco><option timestep='0.01' gravity='0 0 0'/><worldbody><body><joint name='x' type='slide' axis='1 0 0' "
      "damping='.3'/><geom size='.1' mass='1'/></body><body name='other' pos='3 0 0'><joint type='slide'/><geom "
      "size='.1'/></body>"
      "</worldbody><actuator><motor joint='x'/></actuator></mujoco>\", \"steps\": 100, \"init\": {\"qpos\": [0.5, 0]},"
      "\"policy\": {\"observe\": [{\"qpos\": \"x\"}], \"layers\": [{\"dense\": 1}, {\"dense\": 1}%s]},"
      "\"variables\": [{\"parameter\": \"policy.0.weight\", \"start\": 0}, {\"parameter\": \"body_mass:other\"}, "
      "{\"parameter\": \"policy.1.weight\", \"start\": 0}%s], \"loss\": [{\"qpos\": \"x\", \"target\": 1}],"
      "\"optimizer\": {\"method\": \"%s\", \"saddle\": \"%s\", \"rate\": 0.3}}";
  static const char *const layer[] = {"", ", {\"dense\": 1}"}, *const weight[] = {
                                                                   "", ", {\"parameter\": \"policy.2.weight\", \"start\": 0}"};
  static const char *const methods[] = {"lbfgs", "gauss-newton", "adam"};
  char filled[2048];
  pbRunResult r;

  for (int k = 0; k < 6; k++) {
    snprintf(filled, sizeof filled, text, layer[k / 3], weight[k / 3], methods[k % 3], "report");
    pbTask *task = run(*state, filled, &r);
    expect(&r, pb_runSaddle);
    expect_text(r.reason, k / 3 ? "to one side" : "to both sides");
    expect_text(r.advice, "nothing in the loss depends on body_mass:other\n");
    assert_int_equal(r.notes[0] & pb_unknownInert, 0);
    assert_int_equal(r.notes[1], pb_unknownInert);
    assert_int_equal(r.notes[2] & pb_unknownInert, 0);
    pbTask_Destroy(task);

    snprintf(filled, sizeof filled, text, layer[k / 3], weight[k / 3], methods[k % 3], "leave");
    task = run(*state, filled, &r);
    assert_true(r.loss < 0.01 * r.start_loss && r.left == 1);
    pbTask_Destroy(task);
  }
}

// A falling ball touches the floor in the last step or not; a weak pull upwards holds the search at the edge.
static void test_jump(void **state) {
  static const char *const text =
      "{\"model\": \"<mujoco><option timestep='0.01'/><worldbody><geom name='floor' type='plane' size='1 1 1'/><body><joint "
      "name='z' "
      "type='slide' axis='0 0 1'/><geom name='ball' type='sphere' size='.1' mass='1'/></body></worldbody></mujoco>\","
      "\"contact\": {\"method\": \"cones\", \"restitution\": 0.5}, \"steps\": 40, \"variables\": [{\"state\": \"qpos\", "
      "\"start\": [0.85]}],"
      "\"loss\": [{\"qvel\": true, \"target\": [2]}, {\"qpos\": true, \"at\": [0], \"target\": [5], \"weight\": 0.1}]}";
  pbRunResult r;
  pbTask *task = run(*state, text, &r);
  expect(&r, pb_runStalledAtJump);
  expect_text(r.reason, "contact of geom 'floor' and geom 'ball' ends at step ");
  expect_text(r.advice, "kappa");
  pbTask_Destroy(task);
}

// The sum of two lengths has its least value at a kink: no gradient is zero anywhere.
static void test_kink(void **state) {
  static const char *const text =
      "{" POINT_MODEL
      ", \"steps\": 20, \"options\": {\"gravity\": [0, 0, 0]}, \"variables\": [{\"state\": \"qvel\", \"joint\": \"x\", "
      "\"start\": 0.3}], \"loss\": [{\"type\": \"norm\", \"epsilon\": 1e-14, \"body\": \"p\", \"components\": [0], \"target\": "
      "[0.123]}, "
      "{\"type\": \"norm\", \"epsilon\": 1e-14, \"weight\": 0.3, \"body\": \"p\", \"components\": [0], \"target\": [1]}]}";
  pbRunResult r;
  pbTask *task = run(*state, text, &r);
  expect(&r, pb_runStalled);
  pbTask_Destroy(task);
}

// Upright, a pendulum's gradient is zero; the loss falls to both sides.
static void test_balance(void **state) {
  static const char *const text =
      "{\"model\": \"<mujoco><option timestep='0.01'/><worldbody><body><joint name='j' axis='0 1 0'/><geom type='capsule' "
      "size='.02' "
      "fromto='0 0 0 0 0 .5' mass='1'/><site name='tip' pos='0 0 .5'/></body></worldbody></mujoco>\", \"steps\": 30,"
      "\"variables\": [{\"state\": \"qpos\", \"start\": 0}], \"loss\": [{\"site\": \"tip\", \"components\": [2], \"target\": "
      "[-0.5]}], \"optimizer\": {\"saddle\": \"%s\"}}";
  char filled[1024];
  pbRunResult r;
  snprintf(filled, sizeof filled, text, "report");
  pbTask *task = run(*state, filled, &r);
  expect(&r, pb_runSaddle);
  assert_true(r.loss == r.start_loss && r.left == 0 && fabs(r.direction[0]) == 1);
  assert_int_equal(r.notes[0], pb_unknownKink);
  expect_text(r.advice, "qpos = 0 has the gradient 0");
  pbTask_Destroy(task);

  snprintf(filled, sizeof filled, text, "leave");
  task = run(*state, filled, &r);
  expect(&r, pb_runConverged);
  assert_true(r.loss < 1e-9 * r.start_loss && r.left == 1 && !r.direction);
  pbTask_Destroy(task);
}

// A cart-pole that hangs at rest: the tip is raised by the square of the swing, and no unknown alone shows it.
#define HANGING                                                                                                                 \
  "{\"model\": \"<mujoco><option timestep='0.01'/><worldbody><body><joint name='x' type='slide' axis='1 0 0'/><geom size='.1' " \
  "mass='1'/><body><joint name='j' axis='0 1 0' damping='.002'/><geom type='capsule' size='.02' fromto='0 0 0 0 0 -.5' "        \
  "mass='.2'/><site name='tip' pos='0 0 -.5'/></body></body></worldbody><actuator><motor name='push' joint='x' "                \
  "ctrlrange='-20 20'/></actuator></mujoco>\", \"steps\": 150, \"variables\": [{\"control\": \"push\", \"knots\": 12, "         \
  "\"interpolation\": \"linear\"}], \"loss\": [{\"name\": \"up\", \"site\": \"tip\", \"components\": [0, 2], \"target\": [0, "  \
  "0.5]}, {\"control\": true, \"at\": \"all\", \"weight\": 1e-6}, {\"qvel\": true, \"weight\": %s}], \"stop\": {\"terms\": "    \
  "{\"up\": 0.02}}, \"optimizer\": "                                                                                            \
  "{\"method\": \"%s\", \"saddle\": \"%s\", \"rate\": 0.3, \"iterations\": %d}}"

static void test_hanging(void **state) {
  static const char *const methods[] = {"lbfgs", "gauss-newton", "adam"};
  for (int k = 0; k < 3; k++) {
    char text[2048];
    pbRunResult r;
    snprintf(text, sizeof text, HANGING, "0.3", methods[k], "report", 400);
    pbTask *task = run(*state, text, &r);
    expect(&r, pb_runSaddle);
    assert_int_equal(r.iterations, 1);
    expect_text(r.advice, "the loss falls along ");

    // To both sides of the answer, and by far less than the step.
    double z[12], value;
    for (int side = -1; side < 2; side += 2) {
      for (int i = 0; i < 12; i++) z[i] = r.z[i] + side * 0.5 * r.direction[i];
      assert_int_equal(pbTask_Loss(task, z, &value, NULL), pb_ok);
      assert_true(value < r.loss * (1 - 1e-6));
    }
    char *json;
    assert_int_equal(pbTask_ResultJson(task, &r, &json), pb_ok);
    expect_text(json, "\"outcome\": \"saddle\"");
    expect_text(json, "\"direction\": [");
    pbContext_Free(*state, json);
    pbTask_Destroy(task);

    snprintf(text, sizeof text, HANGING, "0", methods[k], "leave", 400);
    task = run(*state, text, &r);
    expect(&r, pb_runCriteriaMet);
    assert_int_equal(r.left, 1);
    pbTask_Destroy(task);
  }
}

// Iterations that are used up leave nothing to go on with.
static void test_saddle_at_the_end(void **state) {
  char text[2048];
  pbRunResult r;
  snprintf(text, sizeof text, HANGING, "0", "lbfgs", "leave", 1);
  pbTask *task = run(*state, text, &r);
  expect(&r, pb_runSaddle);
  assert_int_equal(r.left, 0);
  pbTask_Destroy(task);

  snprintf(text, sizeof text, HANGING, "0", "lbfgs", "stay", 1);
  assert_int_equal(pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task), pb_bad_input);
  expect_text(pbContext_Error(*state), "expected \"leave\" or \"report\"");
}

// Newton's step leads out of a bound; what is left of it would raise the loss, though the gradient leads inwards.
static void test_newton_cut_off(void **state) {
  static const char *const text =
      "{" POINT_MODEL
      ", \"steps\": 50, \"options\": {\"gravity\": [0, 0, 0]}, \"variables\": [{\"state\": \"qvel\", \"joint\": [\"x\", \"z\"], "
      "\"start\": [1, 1], \"upper\": [1, 100]}], \"loss\": [{\"type\": \"squared\", \"formula\": \"x + 0.99*z - 0.545\", "
      "\"inputs\": {\"x\": {\"qpos\": "
      "\"x\"}, \"z\": {\"qpos\": \"z\"}}}, {\"qpos\": \"z\", \"target\": -4.5, \"weight\": 0.0199}], \"optimizer\": {\"method\": "
      "\"gauss-newton\", \"iterations\": 0}}";
  pbRunResult r;
  pbTask *task = run(*state, text, &r);
  expect(&r, pb_runIterationLimit);
  pbTask_Destroy(task);
}

static void test_iteration_limit(void **state) {
  pbRunResult r;
  pbTask *task = run(*state,
                     "{" POINT_MODEL ", \"steps\": 50, \"variables\": [{\"state\": \"qvel\", \"joint\": [\"x\", \"z\"]}], " AIM
                     ", \"optimizer\": {\"method\": \"adam\", \"iterations\": 2}}",
                     &r);
  expect(&r, pb_runIterationLimit);
  pbTask_Destroy(task);
}

// Of a damped slide only damping over mass is seen.
static void test_unseen(void **state) {
  static const char *const text =
      "{\"model\": \"<mujoco><option timestep='0.01' gravity='0 0 0'/><worldbody><body name='b'><joint name='j' type='slide' "
      "axis='1 0 0' "
      "damping='2'/><geom type='sphere' size='.1' mass='2'/></body></worldbody></mujoco>\", \"steps\": 50, \"init\": {\"qvel\": "
      "[1]},"
      "\"variables\": [{\"parameter\": \"body_mass:b\"}, {\"parameter\": \"dof_damping:j\"}],"
      "\"loss\": [{\"qpos\": true, \"at\": \"all\", \"target\": [0.2]}], \"optimizer\": {\"method\": \"gauss-newton\"}}";
  pbRunResult r;
  pbTask *task = run(*state, text, &r);
  expect(&r, pb_runConverged);
  expect_text(r.advice, "the loss does not determine all unknowns");
  expect_text(r.advice, "body_mass:b");
  expect_text(r.advice, "dof_damping:j");
  pbTask_Destroy(task);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_criteria_met, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_converged, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_perfect_fit, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_no_influence, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_products, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_jump, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_kink, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_balance, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_hanging, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_saddle_at_the_end, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_newton_cut_off, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_iteration_limit, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_unseen, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
