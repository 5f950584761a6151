// Axes and quaternions as unknowns of a task: they stay of length one, fits find their direction, derivatives are tangential.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <pullback/array.h>
#include <pullback/optimize.h>

#include "support/support.h"

// A paddle on a skew hinge that hangs from a tilted arm, with a mate on a weld and a sprung ball.
#define PADDLE                                                                                                                   \
  "\"model\": \"<mujoco><option timestep='0.004'/><worldbody>"                                                                   \
  "<body name='arm' pos='0 0 1' quat='.96 .2 .1 -.15'><joint name='swing' axis='0 1 0' damping='.03'/>"                          \
  "<geom type='box' size='.2 .05 .03' pos='.2 .04 .01' mass='1'/>"                                                               \
  "<body name='paddle' pos='.4 0 0' quat='1 0 0 0'><joint name='wrist' type='ball' stiffness='.4' damping='.02'/>"               \
  "<geom type='box' size='.1 .04 .02' pos='.1 .02 0' mass='.4'/><site name='grip' pos='.2 .03 .05' quat='.9 .1 .3 -.2'/>"        \
  "</body></body><body name='mate' pos='-.5 .2 1'><freejoint/><geom type='box' size='.1 .05 .02' mass='.3'/></body></worldbody>" \
  "<equality><weld name='hold' body1='arm' body2='mate' relpose='-.4 .2 0 .9 .2 -.1 .3'/></equality>"                            \
  "<sensor><framepos name='tip' objtype='site' objname='grip'/><framequat objtype='site' objname='grip'/>"                       \
  "<velocimeter site='grip'/><framepos objtype='body' objname='mate'/><framequat objtype='body' objname='mate'/></sensor>"       \
  "</mujoco>\", \"steps\": 75"

static pbTask *parse(pbContext *ctx, const char *text) {
  pbTask *task;
  good(ctx, pbTask_Parse(ctx, text, strlen(text), ".", "sphere.json", &task));
  return task;
}

// ---- fits -----------------------------------------------------------------------------------------------------------
enum { STEPS = 75, SENSORS = 17 };
static const char recording[] = "pb_sphere_recording.npz";

// Sensors of the motion with this value of the parameter.
static void record(pbContext *ctx, const char *parameter, const double *value, int size) {
  char text[4096], numbers[128];
  snprintf(numbers, sizeof numbers, size == 3 ? "%.17g, %.17g, %.17g" : "%.17g, %.17g, %.17g, %.17g", value[0], value[1],
           value[2], value[size - 1]);
  snprintf(text, sizeof text,
           "{" PADDLE
           ", \"parameters\": {\"%s\": [%s]}, \"variables\": [{\"state\": \"qvel\", \"joint\": \"swing\"}],"
           "\"loss\": [{\"sensor\": \"tip\"}]}",
           parameter, numbers);
  pbTask *task = parse(ctx, text);
  const pbModel *m = pbTask_Model(task);
  static double rows[(STEPS + 1) * SENSORS];
  double *theta = malloc(pbModel_ParamSize(m) * sizeof *theta), *x0 = malloc((size_t)pbModel_StateSize(m) * sizeof *x0);
  assert_int_equal(pbModel_Size(m, "nsensordata"), SENSORS);
  good(ctx, pbTask_Expand(task, pbTask_Start(task), 0, theta, x0, NULL));
  pbRolloutPlan plan;
  pbRollout *r;
  good(ctx, pbRollout_PlanSlots(ctx, m, STEPS, 0, 1, &plan));
  good(ctx, pbRollout_Create(ctx, m, &plan, NULL, &r));
  pbRolloutOutput out = {.sensordata = rows};
  good(ctx, pbRollout_Forward(r, theta, x0, NULL, &out));
  pbArrays *set;
  const size_t shape[2] = {STEPS + 1, SENSORS};
  good(ctx, pbArrays_Create(ctx, &set));
  good(ctx, pbArrays_AddReals(set, "sensordata", 2, shape, rows, NULL));
  good(ctx, pbArrays_SaveNpz(set, recording, false));
  pbArrays_Destroy(set);
  pbRollout_Destroy(r);
  free(theta);
  free(x0);
  pbTask_Destroy(task);
}

// Angle of two axes.
static double axis_angle(const double *a, const double *b) {
  double c[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
  return atan2(sqrt(c[0] * c[0] + c[1] * c[1] + c[2] * c[2]), a[0] * b[0] + a[1] * b[1] + a[2] * b[2]);
}

// Angle of the rotation from a to b; q and -q are the same.
static double rotation_angle(const double *a, const double *b) {
  double w = 0, v[3];
  for (int k = 0; k < 4; k++) w += a[k] * b[k];
  v[0] = a[0] * b[1] - a[1] * b[0] - a[2] * b[3] + a[3] * b[2];
  v[1] = a[0] * b[2] - a[2] * b[0] - a[3] * b[1] + a[1] * b[3];
  v[2] = a[0] * b[3] - a[3] * b[0] - a[1] * b[2] + a[2] * b[1];
  return 2 * atan2(sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]), fabs(w));
}

typedef struct Fit {
  const char *parameter;
  int size;
  double truth[4];  // of any length
  const char *start;
} Fit;
static const Fit fits[] = {
    {"jnt_axis:swing", 3, {.2, .9, .3}, "[0, 3, 0]"},
    {"body_quat:arm", 4, {.9, .3, -.2, .1}, "[0.5, 0, 0, 0]"},
    {"site_quat:grip", 4, {.5, -.4, .6, .1}, "[2, 0, 0, 0]"},
    {"qpos_spring:wrist", 4, {.9, .2, -.3, .1}, "[1, 0, 0, 0]"},
};

static double angle_found(pbContext *ctx, const Fit *fit, const char *optimizer, pbRunResult *result) {
  char text[4096], name[64], *json;
  double found[4], length = 0, truth[4], true_length = 0;
  snprintf(text, sizeof text,
           "{" PADDLE
           ", \"variables\": [{\"parameter\": \"%s\", \"start\": %s}], \"optimizer\": {%s},"
           "\"loss\": [{\"sensor\": true, \"at\": \"all\", \"target\": {\"file\": \"%s\", \"array\": \"sensordata\"}}]}",
           fit->parameter, fit->start, optimizer, recording);
  pbTask *task = parse(ctx, text);
  assert_int_equal(pbTask_Size(task), fit->size);
  good(ctx, pbTask_Run(task, NULL, result));
  for (int k = 0; k < fit->size; k++) {
    pbTask_Unknown(task, k, result->z, name, sizeof name, &found[k]);
    length += found[k] * found[k];
    true_length += fit->truth[k] * fit->truth[k];
  }
  for (int k = 0; k < fit->size; k++) truth[k] = fit->truth[k] / sqrt(true_length);
  assert_true(fabs(sqrt(length) - 1) < 2e-12);
  assert_null(strstr(result->advice, "does not determine"));  // its length is no unknown
  for (int k = 0; k < fit->size; k++) assert_int_equal(result->notes[k], 0);
  good(ctx, pbTask_ResultJson(task, result, &json));
  const char *values = strstr(strstr(json, "\"variables\""), "\"value\": [");
  double shown[4], shown_length = 0;
  assert_non_null(values);
  values += strlen("\"value\": [");
  for (int k = 0; k < fit->size; k++) {
    char *end;
    shown[k] = strtod(values, &end);
    shown_length += shown[k] * shown[k];
    values = end + 1;
  }
  assert_true(fabs(sqrt(shown_length) - 1) < 2e-12);
  pbContext_Free(ctx, json);
  pbTask_Destroy(task);
  return fit->size == 3 ? axis_angle(found, truth) : rotation_angle(found, truth);
}

static void test_fits_find_the_direction(void **state) {
  static const struct {
    const char *optimizer;
    double angle;
  } methods[] = {
      {"\"method\": \"gauss-newton\", \"gradient_tolerance\": 0", 1e-8},
      {"\"method\": \"lbfgs\", \"iterations\": 300, \"gradient_tolerance\": 0", 1e-8},
      {"\"method\": \"adam\", \"iterations\": 1500, \"rate\": [[0, 0.03], [300, 0.003], [700, 0.0003], [1100, 0.00003]]", 1e-8},
      {"\"method\": \"cmaes\", \"iterations\": 150, \"sigma\": 0.3", 1e-8},
  };
  for (size_t f = 0; f < sizeof fits / sizeof *fits; f++) {
    record(*state, fits[f].parameter, fits[f].truth, fits[f].size);
    size_t count = sizeof methods / sizeof *methods - (f > 0);  // without derivatives it takes long: once
    for (size_t i = 0; i < count; i++) {
      pbRunResult result;
      double angle = angle_found(*state, &fits[f], methods[i].optimizer, &result);
      print_message("%-18s %.30s: angle %.2e, loss %.2e, %d iterations\n", fits[f].parameter, methods[i].optimizer, angle,
                    result.loss, result.iterations);
      if (!(angle <= methods[i].angle)) fail_msg("%s: %g", fits[f].parameter, angle);
    }
  }
  unlink(recording);
}

// ---- derivatives ----------------------------------------------------------------------------------------------------
static const char all_of_them[] =
    "{" PADDLE
    ", \"constants\": \"%s\", \"variables\": ["
    "{\"parameter\": \"jnt_axis:swing\", \"start\": [0.4, 1.7, -0.6], \"scale\": 0.5},"
    "{\"parameter\": \"body_quat\"}, {\"parameter\": \"body_iquat:paddle\", \"components\": [3, 1, 0, 2]},"
    "{\"parameter\": \"site_quat:grip\"}, {\"parameter\": \"qpos_spring:wrist\", \"start\": [1, 0.2, -0.3, 0.1]},"
    "{\"parameter\": \"eq_data:hold\", \"components\": [6, 7, 8, 9, 3]},"
    "{\"parameter\": \"geom_quat\", \"components\": [1, 2]}],"
    "\"loss\": [{\"sensor\": true, \"at\": \"all\", \"target\": [0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.4, 0.1, 0.2, 0.3, 0.1, 0.2, "
    "0.3, 0.5, 0.5, 0.5, 0.5], \"mean\": true}]}";

static double residual_loss(pbContext *ctx, pbTask *task, const double *z) {
  double value;
  good(ctx, pbTask_Loss(task, z, &value, NULL));
  return value;
}

static void check_derivatives(pbContext *ctx, const char *constants) {
  char text[8192];
  snprintf(text, sizeof text, all_of_them, constants);
  pbTask *task = parse(ctx, text);
  size_t n = (size_t)pbTask_Size(task), m = pbTask_ResidualCount(task);
  assert_int_equal(n, 3 + 4 * pbModel_Size(pbTask_Model(task), "nbody") + 4 + 4 + 4 + 5 + 2);
  double *r = malloc(m * sizeof *r), *J = malloc(m * n * sizeof *J), z[64], moved[64], g[64], value;
  memcpy(z, pbTask_Start(task), n * sizeof *z);
  for (size_t i = 0; i < n; i++) z[i] *= i < 3 ? 1.3 : i < 11 ? 0.8 : 1;  // off the sphere, as a search may go
  good(ctx, pbTask_Loss(task, z, &value, g));
  good(ctx, pbTask_Residuals(task, z, r, J));
  for (size_t i = 0; i < n; i++) {
    const double h = 1e-3;
    double d[2], from_J = 0;
    char name[100];
    for (int half = 0; half < 2; half++) {
      double e = half ? h / 2 : h;
      memcpy(moved, z, n * sizeof *z);
      moved[i] = z[i] + e;
      double above = residual_loss(ctx, task, moved);
      moved[i] = z[i] - e;
      d[half] = (above - residual_loss(ctx, task, moved)) / (2 * e);
    }
    double difference = (4 * d[1] - d[0]) / 3;
    for (size_t k = 0; k < m; k++) from_J += 2 * J[k * n + i] * r[k];
    pbTask_Unknown(task, (int)i, z, name, sizeof name, NULL);
    if (!(fabs(difference - g[i]) <= 1e-7 * (1 + fabs(g[i])))) fail_msg("%s: %.12g, difference %.12g", name, g[i], difference);
    if (!(fabs(from_J - g[i]) <= 1e-9 * (1 + fabs(g[i])))) fail_msg("%s: %.12g, by the Jacobian %.12g", name, g[i], from_J);
  }
  free(r);
  free(J);
  pbTask_Destroy(task);
}

static void test_derivatives_by_all_kinds_of_rows(void **state) {
  check_derivatives(*state, "keep");
  check_derivatives(*state, "recompute");
}

// ---- what is refused, and what stays as it is --------------------------------------------------------------------------
static pbStatus try(pbContext *ctx, const char *variable, pbTask **task) {
  char text[4096];
  snprintf(text, sizeof text, "{" PADDLE ", \"variables\": [%s], \"loss\": [{\"sensor\": true}]}", variable);
  return pbTask_Parse(ctx, text, strlen(text), NULL, "sphere.json", task);
}

static void test_bounds_and_transforms_are_refused(void **state) {
  static const char *const bad[][2] = {
      {"{\"parameter\": \"jnt_axis:swing\", \"lower\": -1}", "lower"},
      {"{\"parameter\": \"body_quat:arm\", \"upper\": 1}", "upper"},
      {"{\"parameter\": \"jnt_axis:swing\", \"transform\": \"log\", \"start\": [1, 1, 1]}", "transform"},
      {"{\"parameter\": \"jnt_axis:swing\", \"start\": [0, 0, 0]}", "an axis"},
      {"{\"parameter\": \"body_quat:arm\", \"start\": [1e7, 0, 0, 0]}", "a quaternion"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    pbTask *task;
    assert_int_equal(try(*state, bad[i][0], &task), pb_bad_input);
    if (!strstr(pbContext_Error(*state), bad[i][1])) fail_msg("%s: %s", bad[i][1], pbContext_Error(*state));
  }
}

static void test_single_components_are_numbers(void **state) {
  pbTask *task;
  double value;
  char name[64];
  good(*state,
       try(*state, "{\"parameter\": \"jnt_axis:swing\", \"components\": [0, 1], \"start\": [0.5, 2], \"upper\": 3}", &task));
  pbTask_Unknown(task, 1, pbTask_Start(task), name, sizeof name, &value);
  assert_true(value == 2);
  pbTask_Destroy(task);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_fits_find_the_direction, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_derivatives_by_all_kinds_of_rows, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_bounds_and_transforms_are_refused, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_single_components_are_numbers, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
