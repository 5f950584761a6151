// Ties: parameters that follow unknowns by formulas. The model compiled anew at other lengths as yardstick, derivatives against
// differences in both modes, starts, what is refused.
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

// A cart with a box for a pole, of half length z and half width w, hinged at its end, and a weight at the tip: how long the pole is,
// stands in seven numbers.
static void model_text(double z, double w, double mass, char *text, size_t size) {
  snprintf(
      text, size,
      "<mujoco><option timestep='0.01'/><worldbody><body name='cart'><joint name='slide' type='slide' axis='1 0 0' damping='.1'/>"
      "<geom type='box' size='.2 .1 .1' mass='2'/><body name='pole'><joint name='hinge' axis='0 1 0'/>"
      "<geom name='rod' type='box' pos='0 0 %.17g' size='%.17g %.17g %.17g' mass='%.17g'/>"
      "<body name='tip' pos='0 0 %.17g'><geom type='sphere' size='.05' mass='.3'/></body></body></body></worldbody>"
      "<actuator><motor name='push' joint='slide' gear='10'/></actuator></mujoco>",
      z, w, w, z, mass, 2 * z);
}

#define SETS                                                                                                              \
  "\"sets\": {\"body_ipos:pole:2\": \"z\", \"geom_pos:rod:2\": \"length\", \"geom_size:rod:2\": \"length\", "             \
  "\"body_pos:tip\": [\"0\", \"0\", \"2*z\"], \"body_inertia:pole:0\": \"mass*(4*z^2 + (2*w)^2)/12\", "                   \
  "\"body_inertia:pole:1\": \"mass*(4*z^2 + (2*w)^2)/12\", \"body_inertia:pole:2\": \"mass*(2*w)^2/6\"}, \"constants\": " \
  "{\"w\": 0.05}"
#define MASS "{\"name\": \"mass\", \"parameter\": \"body_mass:pole\", \"start\": %.17g%s}"
#define LOSS                                                                                                             \
  "\"loss\": [{\"qpos\": true, \"at\": \"all\", \"target\": [0.1, 0.2]}, {\"body\": \"tip\", \"at\": {\"every\": 0.1}, " \
  "\"target\": "                                                                                                         \
  "[0.2, 0, 0.3]}]"

static pbTask *parse(pbContext *ctx, double z, double mass, const char *constants, const char *transform, const char *more) {
  char text[8192], model[2048];
  pbTask *task;
  model_text(0.5, 0.05, 0.7, model, sizeof model);
  snprintf(text, sizeof text,
           "{\"model\": \"%s\", \"steps\": 60, \"constants\": \"%s\", \"controls\": [0.3], \"init\": {\"qpos\": [0, 0.4]}, "
           "\"variables\": [{\"name\": \"length\", \"start\": %.17g%s, " SETS "}, " MASS "%s], " LOSS "}",
           model, constants, z, transform, mass, transform, more);
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  return task;
}

// The same trajectory of a model that was written with these sizes.
static double loss_of_model(pbContext *ctx, double z, double mass) {
  char text[8192], model[2048];
  pbTask *task;
  double value;
  model_text(z, 0.05, mass, model, sizeof model);
  snprintf(
      text, sizeof text,
      "{\"model\": \"%s\", \"steps\": 60, \"controls\": [0.3], \"init\": {\"qpos\": [0, 0.4]}, \"variables\": [{\"control\": "
      "true, \"knots\": 1}], " LOSS "}",
      model);
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  good(ctx, pbTask_Loss(task, pbTask_Start(task), &value, NULL));
  pbTask_Destroy(task);
  return value;
}

static void test_a_length_is_that_of_the_model(void **state) {
  for (int recompute = 0; recompute < 2; recompute++) {
    double value, g[2], z[2] = {0.62, 0.9}, written = loss_of_model(*state, z[0], z[1]);
    pbTask *task = parse(*state, 0.5, 0.7, recompute ? "recompute" : "keep", "", "");
    good(*state, pbTask_Loss(task, z, &value, g));
    assert_true(fabs(value - written) < 1e-12 * written);

    // The gradient, too: by the mass through the formulas of the inertia as well.
    for (int i = 0; i < 2; i++) {
      double h = 1e-4, v[4];
      for (int k = 0; k < 4; k++) {
        double step = (k % 2 ? -h : h) / (k / 2 + 1);
        v[k] = loss_of_model(*state, z[0] + (i == 0 ? step : 0), z[1] + (i == 1 ? step : 0));
      }
      double difference = (4 * (v[2] - v[3]) / h - (v[0] - v[1]) / (2 * h)) / 3;
      if (!(fabs(difference - g[i]) < 1e-8 * (1 + fabs(g[i])))) fail_msg("unknown %d: %.12g, %.12g", i, g[i], difference);
    }
    pbTask_Destroy(task);
  }
}

// With transforms and scales, and unknowns of other kinds beside: gradient, and Jacobian in forward mode.
static void check_derivatives(pbContext *ctx, const char *constants, const char *transform) {
  pbTask *task = parse(ctx, 0.5, 0.7, constants, transform,
                       ", {\"name\": \"drag\", \"start\": 0.2, \"sets\": {\"dof_damping\": [\"drag\", \"0.1*z^2*length\"]}}, "
                       "{\"state\": \"qvel\"}, {\"name\": \"g\", \"parameter\": \"gravity\"}, {\"name\": \"v\", \"start\": 0.1, "
                       "\"sets\": {\"geom_friction:rod:0\": \"g.z^2*z\", \"body_mass:tip\": \"exp(z)*0.3 + g.x\"}}");
  size_t n = (size_t)pbTask_Size(task), m = pbTask_ResidualCount(task);
  double g[16], value, z[16], v[4], *r = calloc(m, sizeof *r), *J = calloc(m * n, sizeof *J);
  assert_int_equal(n, 9);
  good(ctx, pbTask_Residuals(task, pbTask_Start(task), r, J));
  good(ctx, pbTask_Loss(task, pbTask_Start(task), &value, g));

  for (size_t i = 0; i < n; i++) {
    const double h = 1e-3, steps[4] = {h, -h, h / 2, -h / 2};
    double along = 0;
    for (int k = 0; k < 4; k++) {
      memcpy(z, pbTask_Start(task), n * sizeof *z);
      z[i] += steps[k];
      good(ctx, pbTask_Loss(task, z, &v[k], NULL));
    }
    double difference = (4 * (v[2] - v[3]) / h - (v[0] - v[1]) / (2 * h)) / 3;
    if (!(fabs(difference - g[i]) <= 1e-7 * (1 + fabs(g[i])))) fail_msg("unknown %zu: %.12g, %.12g", i, g[i], difference);
    for (size_t k = 0; k < m; k++) along += 2 * J[k * n + i] * r[k];
    assert_true(fabs(along - g[i]) <= 1e-9 * (1 + fabs(g[i])) && (fabs(g[i]) > 1e-6 || i == 6));
  }
  free(r);
  free(J);
  pbTask_Destroy(task);
}
static void test_derivatives_against_differences(void **state) {
  check_derivatives(*state, "keep", "");
  check_derivatives(*state, "recompute", "");
  check_derivatives(*state, "keep", ", \"transform\": \"log\", \"scale\": 0.3");
  check_derivatives(*state, "recompute", ", \"transform\": \"log\", \"scale\": 0.3");
}

// Only what is set and varied is pulled back, and it comes out whatever the order of the variables is.
static void test_length_and_mass_are_found(void **state) {
  char text[8192], model[2048];
  double target[3];
  pbTask *truth = parse(*state, 0.62, 0.9, "keep", "", ""), *task;
  double *theta = malloc(pbModel_ParamSize(pbTask_Model(truth)) * sizeof *theta);
  good(*state, pbTask_Parameters(truth, pbTask_Start(truth), theta));
  pbParam p;
  good(*state, pbModel_Param(*state, pbTask_Model(truth), "body_pos:tip:2", &p));
  target[0] = theta[p.offset];
  assert_true(target[0] == 2 * 0.62);
  pbTask_Destroy(truth);
  free(theta);

  // Swings of the pole say how long it is where its mass is known.
  model_text(0.5, 0.05, 0.7, model, sizeof model);
  double times[] = {0.2, 0.4, 0.6}, swings[3];
  for (int k = 0; k < 3; k++) {
    char other[2048];
    model_text(0.62, 0.05, 0.7, other, sizeof other);
    snprintf(text, sizeof text,
             "{\"model\": \"%s\", \"duration\": %g, \"init\": {\"qpos\": [0, 0.4]}, \"variables\": [{\"state\": \"qvel\"}], "
             "\"loss\": [{\"qpos\": \"hinge\", \"type\": \"linear\"}]}",
             other, times[k]);
    good(*state, pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task));
    good(*state, pbTask_Loss(task, pbTask_Start(task), &swings[k], NULL));
    pbTask_Destroy(task);
  }
  snprintf(
      text, sizeof text,
      "{\"model\": \"%s\", \"duration\": 0.6, \"init\": {\"qpos\": [0, 0.4]}, \"parameters\": {\"body_mass:pole\": 0.7}, "
      "\"variables\": [{\"name\": \"length\", \"start\": 0.5, \"lower\": 0.1, \"upper\": 2, \"sets\": {\"body_ipos:pole:2\": "
      "\"z\", \"body_pos:tip:2\": \"2*z\", \"body_inertia:pole\": [\"m*(4*z^2 + 0.01)/12\", \"m*(4*z^2 + 0.01)/12\", "
      "\"m*0.01/6\"]}, "
      "\"constants\": {\"m\": 0.7}}], "
      "\"loss\": [{\"qpos\": \"hinge\", \"at\": [0.2, 0.4, 0.6], \"target\": [%.17g, %.17g, %.17g]}], \"optimizer\": "
      "{\"method\": "
      "\"gauss-newton\"}}",
      model, swings[0], swings[1], swings[2]);
  good(*state, pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task));
  pbRunResult result;
  good(*state, pbTask_Run(task, NULL, &result));
  print_message("length %.12g of 0.62, loss %.3g, %d iterations\n", result.z[0], result.loss, result.iterations);
  assert_true(fabs(result.z[0] - 0.62) < 1e-6);

  char *json;
  good(*state, pbTask_ResultJson(task, &result, &json));
  assert_non_null(strstr(json, "\"sets\": {"));
  assert_non_null(strstr(json, "\"body_pos:tip:2\": 1.2"));
  pbContext_Free(*state, json);
  pbTask_Destroy(task);
}

// ---- starts and bad files ---------------------------------------------------------------------------------------------
#define POLE                                                                                                              \
  "\"model\": \"<mujoco><worldbody><body name='pole'><joint name='hinge'/><geom name='rod' type='box' size='.05 .05 .5' " \
  "mass='1'/></body></worldbody><option/></mujoco>\", \"steps\": 5, \"loss\": [{\"qpos\": true}]"

// Each moment alone would be none of a body: 0.5 with 0.08 and 0.001; all together they are.
static void test_the_start_is_checked_as_a_whole(void **state) {
  pbTask *task;
  const char *whole = "{" POLE
                      ", \"variables\": [{\"start\": 2, \"sets\": {\"body_inertia:pole:0\": \"z^2\", \"body_inertia:pole:1\": "
                      "\"z^2\", \"body_inertia:pole:2\": \"0.001\"}}]}";
  good(*state, pbTask_Parse(*state, whole, strlen(whole), NULL, "test.json", &task));
  double value, z = 3;
  good(*state, pbTask_Loss(task, &z, &value, NULL));
  pbTask_Destroy(task);

  const char *half = "{" POLE ", \"variables\": [{\"start\": 2, \"sets\": {\"body_inertia:pole:0\": \"z^2\"}}]}";
  assert_int_equal(pbTask_Parse(*state, half, strlen(half), NULL, "test.json", &task), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(*state), "variables: their start is refused: body_inertia:pole is no inertia"));
}

static void test_bad_ties_are_refused_with_the_place(void **state) {
#define ONE(sets, more) "[{\"name\": \"a\", \"start\": 1, \"sets\": " sets more "}]"
  static const struct {
    const char *variables, *says;
  } cases[] = {
      {ONE("3", ""), "variables[0].sets: expected an object"},
      {ONE("{}", ""), "variables[0].sets: expected an object"},
      {ONE("{\"body_mas:pole\": \"z\"}", ""), "variables[0].sets.body_mas:pole: unknown parameter 'body_mas'"},
      {ONE("{\"timestep\": \"z\"}", ""), "the time step cannot be varied"},
      {ONE("{\"body_mass:pole\": 3}", ""), "variables[0].sets.body_mass:pole: expected a formula"},
      {ONE("{\"body_inertia:pole\": \"z\"}", ""), "expected a list of 3 formulas, found one"},
      {ONE("{\"body_inertia:pole\": [\"z\", 3, \"z\"]}", ""), "formula 1 is none"},
      {ONE("{\"body_mass:pole\": \"zz\"}", ""), "unknown name 'zz', did you mean 'z'?"},
      {ONE("{\"body_mass:pole\": \"z\", \"body_mass\": [\"0\", \"z\"]}", ""), "a number of it is set twice"},
      {ONE("{\"body_mass:pole\": \"z\"}", ", \"knots\": 3"), "variables[0]: unknown key 'knots'"},
      {ONE("{\"body_mass:pole\": \"z*w\"}", ", \"constants\": {\"w\": \"x\"}"), "constant 'w': expected a number"},
      {ONE("{\"body_mass:pole\": \"z*sin\"}", ", \"constants\": {\"sin\": 1}"), "constant 'sin': has a meaning"},
      {ONE("{\"body_mass:pole\": \"z*a\"}", ", \"constants\": {\"a\": 1}"), "'a' may mean two things here"},
      {ONE("{\"body_mass:pole\": \"log(-z)\"}", ""), "variables: their start is refused"},
      {"[{\"sets\": {\"body_mass:pole\": \"z\"}}]", "variables[0]: \"start\" is missing"},
      {"[{\"start\": 1, \"sets\": {\"body_mass:pole\": \"z\"}}, {\"parameter\": \"body_mass:pole\"}]",
       "varies what variables[0]"},
      {"[{\"name\": \"v\", \"state\": \"qvel\"}, {\"start\": 1, \"sets\": {\"body_mass:pole\": \"z*v\"}}]",
       "variable 'v' is no parameter"},
      {"[{\"name\": \"q\", \"parameter\": \"geom_quat:rod\"}, {\"start\": 1, \"sets\": {\"body_mass:pole\": \"z*q[0]\"}}]",
       "moves on a unit sphere"},
      {"[{\"name\": \"g\", \"parameter\": \"geom_friction\"}, {\"name\": \"s\", \"parameter\": \"jnt_solref\", \"components\": "
       "[0]}, "
       "{\"start\": 1, \"sets\": {\"body_mass:pole\": \"z*g\"}}]",
       "the value must be a scalar"},
      {"[{\"parameter\": \"body_mass:pole\", \"constants\": {}}]", "variables[0].constants: only formulas"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[4096];
    pbTask *task;
    snprintf(text, sizeof text, "{%s, \"variables\": %s}", POLE, cases[i].variables);
    pbStatus status = pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task);
    if (status == pb_ok || !strstr(pbContext_Error(*state), cases[i].says))
      fail_msg("case %zu: status %d, '%s'", i, status, pbContext_Error(*state));
    assert_null(task);
  }
}

// A point where a formula has no value is one to step back from.
static void test_a_formula_without_a_value_is_stepped_back_from(void **state) {
  const char *text =
      "{" POLE ", \"variables\": [{\"name\": \"a\", \"start\": 1, \"sets\": {\"body_mass:pole\": \"log(z)/z + 1\"}}]}";
  pbTask *task;
  double value, z = -1;
  good(*state, pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task));
  assert_int_equal(pbTask_Loss(task, &z, &value, NULL), pb_not_finite);
  assert_non_null(strstr(pbContext_Error(*state), "variable 'a', formula 0 of what it sets: log of -1"));
  pbTask_Destroy(task);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_length_is_that_of_the_model),
                                     cmocka_unit_test(test_derivatives_against_differences),
                                     cmocka_unit_test(test_length_and_mass_are_found),
                                     cmocka_unit_test(test_the_start_is_checked_as_a_whole),
                                     cmocka_unit_test(test_bad_ties_are_refused_with_the_place),
                                     cmocka_unit_test(test_a_formula_without_a_value_is_stepped_back_from)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
