// Recordings as they come: times between states, gaps, delays, gains, biases, standard deviations. Closed forms, gradients and
// Jacobians against differences with samples on states, halfway, and beside them, what is refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/optimize.h>

#include "mutation.h"
#include "optimize/task.h"
#include "support/support.h"

// Without gravity x = 3 t exactly but for rounding: halves of steps are exact in binary.
#define POINT                                                                                                                  \
  "\"model\": \"<mujoco><option timestep='0.0078125' gravity='0 0 0'/><worldbody><body name='p'><joint name='x' type='slide' " \
  "axis='1 0 0'/><joint name='z' type='slide' axis='0 0 1'/><geom type='sphere' size='.1' mass='2'/></body></worldbody>"       \
  "<actuator><motor name='push' joint='x' gear='0'/></actuator></mujoco>\", \"init\": {\"qvel\": [0, 2]}, \"steps\": 128, "    \
  "\"variables\": [{\"name\": \"v\", \"state\": \"qvel\", \"joint\": \"x\", \"start\": 3}], \"controls\": [0.5]"

// All kinds of joints that turn, sensors of every order.
#define BODIES                                                                                                                   \
  "\"model\": \"<mujoco><option timestep='0.0078125'/><worldbody><body name='free' pos='0 2 1'><freejoint name='root'/><geom "   \
  "type='box' size='.1 .2 .3'/><site name='corner' pos='.1 .2 .3'/></body><body name='top' pos='0 0 1'><joint name='ball' "      \
  "type='ball' damping='.05'/><geom type='capsule' size='.03' fromto='0 0 0 .4 0 .1'/><body name='low' pos='.4 0 .1'><joint "    \
  "name='hinge' axis='0 1 0' damping='.1'/><geom type='capsule' size='.02' fromto='0 0 0 .3 0 0'/><site name='end' "             \
  "pos='.3 0 0'/></body></body></worldbody><actuator><general name='slow' joint='hinge' dyntype='filter' dynprm='.05' "          \
  "gainprm='.3'/></actuator><sensor><accelerometer name='acc' site='end'/><gyro name='gyro' site='end'/><framequat name='turn' " \
  "objtype='site' objname='end'/></sensor></mujoco>\", \"steps\": 40, \"controls\": [0.5], \"init\": {\"joints\": {\"ball\": "   \
  "{\"qpos\": [0.8, 0.2, 0.5, 0.1], \"qvel\": [1, -2, 6]}, \"root\": {\"qvel\": [0.1, 0.3, 1, 9, -4, 7]}}}"
#define BY                                                                                                               \
  "{\"parameter\": \"body_mass:low\"}, {\"state\": \"qvel\", \"joint\": [\"root\", \"ball\"]}, {\"control\": \"slow\", " \
  "\"knots\": 3}"

static pbTask *parse(pbContext *ctx, const char *world, const char *loss) {
  char text[16384];
  pbTask *task;
  snprintf(text, sizeof text, "{%s, \"loss\": [%s]}", world, loss);
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  return task;
}

// Value and derivative by the velocity of the point, 3.
static void expect(pbContext *ctx, const char *loss, double value, double slope) {
  pbTask *task = parse(ctx, POINT, loss);
  double at = 3, v, g;
  good(ctx, pbTask_Loss(task, &at, &v, &g));
  if (fabs(v - value) > 1e-12 * (1 + fabs(value)) || fabs(g - slope) > 1e-11 * (1 + fabs(slope)))
    fail_msg("%s: %.15g, derivative %.15g; expected %.15g, %.15g", loss, v, g, value, slope);
  pbTask_Destroy(task);
}

static void test_values_in_closed_form(void **state) {
  // Where nothing accelerates the line between two states is the motion.
  expect(*state, "{\"qpos\": \"x\", \"type\": \"linear\", \"at\": [0.1, 0.1, 0.3333]}", 3 * 0.5333, 0.5333);
  expect(*state, "{\"qpos\": \"x\", \"type\": \"linear\", \"at\": [0.5], \"delay\": 0.2}", 0.9, 0.3);
  expect(*state, "{\"qpos\": \"x\", \"at\": [0.1], \"gain\": 2, \"bias\": 0.5, \"target\": 1, \"sigma\": 0.2}", 0.25, 1);
  expect(*state, "{\"body\": \"p\", \"components\": [0, 2], \"type\": \"linear\", \"at\": [0.3], \"gain\": [2, 3]}", 1.8 + 1.8,
         0.6);

  // What is late by more than has passed shows the start, what is early by more than is left the end.
  expect(*state, "{\"qpos\": \"x\", \"type\": \"linear\", \"at\": [0.1, 0.7], \"delay\": 0.2}", 1.5, 0.5);
  expect(*state, "{\"qpos\": \"x\", \"type\": \"linear\", \"at\": [0.1, 0.7], \"delay\": -0.5}", 3 * 1.6, 1.6);

  // Gaps: no sample, no deviation; a mean is of the times that have one.
  expect(*state, "{\"qpos\": \"x\", \"at\": [0.1, 0.2, 0.3], \"target\": [0, null, 1], \"mean\": true}", 0.5 * (0.09 + 0.01),
         0.5 * (0.06 - 0.06));
  expect(*state,
         "{\"qpos\": true, \"at\": [0.1, 0.2], \"target\": [[0, null], [null, 0]], \"type\": \"norm\", \"epsilon\": 1e-100}", 0.7,
         0.1);

  // Formulas of what is seen, and of the time when it was; controls are held.
  expect(*state, "{\"formula\": \"x*t\", \"inputs\": {\"x\": {\"qpos\": \"x\"}}, \"at\": [0.3], \"delay\": 0.1}", 3 * 0.04, 0.04);
  expect(*state,
         "{\"formula\": \"x + u\", \"inputs\": {\"x\": {\"qpos\": \"x\"}, \"u\": {\"control\": \"push\"}}, \"at\": [0.3333]}",
         0.9999 + 0.5, 0.3333);
  expect(*state, "{\"qpos\": \"x\", \"type\": \"linear\", \"at\": [0.3333], \"discount\": 0.7}", 0.9999 * exp(-0.7 * 0.3333),
         0.3333 * exp(-0.7 * 0.3333));
}

// At multiples of the step, however they are written, all is as at states, to the bit.
static void test_times_of_states_are_states(void **state) {
  double value[2];
  for (int i = 0; i < 2; i++) {
    char loss[200];
    snprintf(loss, sizeof loss, "{\"sensor\": true, \"at\": %s}",
             i ? "[0.00781250000001, 0.1562499999, 0.3125]" : "[0.0078125, 0.15625, 0.3125]");
    pbTask *task = parse(*state, BODIES ", \"variables\": [" BY "]", loss);
    assert_null(task->trajectories[0].terms.terms[0].reading);
    good(*state, pbTask_Loss(task, pbTask_Start(task), &value[i], NULL));
    pbTask_Destroy(task);
  }
  assert_true(memcmp(&value[0], &value[1], sizeof *value) == 0);
}

// Between two orientations the turn goes on as it went: a body that spins about an axis of its inertia.
static void test_rotations_in_closed_form(void **state) {
  pbTask *task =
      parse(*state,
            "\"model\": \"<mujoco><option timestep='0.0078125' gravity='0 0 0'/><worldbody><body><freejoint name='f'/><geom "
            "type='sphere' size='.1'/></body></worldbody></mujoco>\", \"steps\": 64, \"init\": {\"qvel\": [0, 0, 0, 0, 0, 5]}, "
            "\"variables\": [{\"state\": \"qvel\", \"components\": [5]}]",
            "{\"qpos\": \"f\", \"type\": \"linear\", \"components\": [5], \"at\": [0.1, 0.2345]}");
  double at = 5, value, slope;
  good(*state, pbTask_Loss(task, &at, &value, &slope));
  if (!(fabs(value - 5 * 0.3345) < 1e-12 && fabs(slope - 0.3345) < 1e-12)) fail_msg("%.15g, %.15g", value, slope);
  pbTask_Destroy(task);
}

// ---- derivatives ----------------------------------------------------------------------------------------------------
static double loss_at(pbContext *ctx, pbTask *task, const double *start, int i, double by) {
  double value, *z = malloc((size_t)pbTask_Size(task) * sizeof *z);
  memcpy(z, start, (size_t)pbTask_Size(task) * sizeof *z);
  z[i] += by;
  good(ctx, pbTask_Loss(task, z, &value, NULL));
  free(z);
  return value;
}

// By all unknowns, and J' r beside it. h: of the differences; side: of those by delays that become less (-1) or more (1) alone.
static void check_derivatives(pbContext *ctx, const char *world, const char *loss, double h, int side) {
  pbTask *task = parse(ctx, world, loss);
  int n = pbTask_Size(task);
  size_t m = pbTask_ResidualCount(task);
  double *g = calloc((size_t)n, sizeof *g), *r = calloc(m + 1, sizeof *r), *J = calloc(m * (size_t)n + 1, sizeof *J), value;
  const double *z = pbTask_Start(task);
  good(ctx, pbTask_Loss(task, z, &value, g));

  double size = 0;
  for (int i = 0; i < n; i++) size = fmax(size, fabs(g[i]));
  for (int i = 0; i < n; i++) {
    char name[200];
    pbTask_Unknown(task, i, z, name, sizeof name, NULL);
    double coarse = (loss_at(ctx, task, z, i, h) - loss_at(ctx, task, z, i, -h)) / (2 * h);
    double fine = (loss_at(ctx, task, z, i, h / 2) - loss_at(ctx, task, z, i, -h / 2)) / h, difference = (4 * fine - coarse) / 3;
    if (side && strncmp(name, "delay", 5) == 0) {
      coarse = (loss_at(ctx, task, z, i, side * h) - value) / (side * h);
      fine = (loss_at(ctx, task, z, i, side * h / 2) - value) / (side * h / 2);
      difference = 2 * fine - coarse;
    }
    if (!(fabs(difference - g[i]) <= 1e-8 * (1 + size)))
      fail_msg("%s: %.12g, difference %.12g (%s)", name, g[i], difference, loss);
  }

  if (m) good(ctx, pbTask_Residuals(task, z, r, J));
  double sum = 0;
  for (size_t k = 0; k < m; k++) sum += r[k] * r[k];
  if (m && !(fabs(sum - value) <= 1e-12 * (1 + value))) fail_msg("sum of squares %.15g, loss %.15g", sum, value);
  int columns = m ? n : 0;
  for (int i = 0; i < columns; i++) {
    double product = 0;
    for (size_t k = 0; k < m; k++) product += 2 * J[k * (size_t)n + (size_t)i] * r[k];
    if (!(fabs(product - g[i]) <= 1e-10 * (1 + size)))
      fail_msg("unknown %d: 2 J'r is %.12g, the gradient %.12g (%s)", i, product, g[i], loss);
  }

  free(g);
  free(r);
  free(J);
  pbTask_Destroy(task);
}

// Every quantity, at times between states, with gaps, late, through gains and biases.
static const struct {
  const char *what;
  int width;
  bool turns;
} quantities[] = {
    {"\"qpos\": [\"root\", \"ball\", \"hinge\"]", 10, true},
    {"\"qvel\": true", 10, false},
    {"\"act\": true", 1, false},
    {"\"sensor\": [\"acc\", \"gyro\", \"turn\"]", 10, false},
    {"\"body\": [\"free\", \"low\"]", 6, false},
    {"\"site\": [\"end\", \"corner\"]", 6, false},
    {"\"control\": true", 1, false},
    {"\"formula\": \"dot(x, v) + t*dot(w, w)\", \"inputs\": {\"x\": {\"site\": \"end\"}, \"v\": {\"qvel\": \"ball\"}, "
     "\"w\": {\"qpos\": \"ball\"}}, \"type\": \"squared\"",
     1, false}};
enum { QUANTITIES = sizeof quantities / sizeof *quantities };

// late: s beyond the delay of 1/32 s.
static void check_quantity(pbContext *ctx, int q, const char *at, double late, int side) {
  char loss[1024], world[8192];
  bool turns = quantities[q].turns;
  snprintf(loss, sizeof loss,
           "{\"name\": \"log\", %s, \"at\": %s, \"delay\": %.17g, \"sigma\": 0.3%s}, {\"name\": \"other\", \"qvel\": true, "
           "\"weight\": 0.1}",
           quantities[q].what, at, 0.03125 + late, turns ? "" : ", \"gain\": 1.2, \"bias\": 0.1");
  snprintf(world, sizeof world, BODIES ", \"variables\": [" BY ", {\"delay\": \"log\", \"lower\": 0, \"upper\": 0.1}%s]",
           turns ? "" : ", {\"gain\": \"log\"}, {\"bias\": \"log\", \"scale\": 0.5}");
  check_derivatives(ctx, world, loss, 1e-5, side);

  // by pullbacks: more unknowns than samples
  snprintf(world, sizeof world,
           BODIES ", \"variables\": [{\"control\": \"slow\"}, {\"state\": \"qvel\"}, {\"delay\": \"log\", \"lower\": 0}%s]",
           turns ? "" : ", {\"gain\": \"log\"}, {\"bias\": \"log\"}");
  check_derivatives(ctx, world, loss, 1e-5, side);
}

static void test_derivatives_between_states(void **state) {
  for (int q = 0; q < QUANTITIES; q++) check_quantity(*state, q, "[0.0364583, 0.1, 0.1, 0.12, 0.2, 0.234, 0.29]", 0, 0);
}

static void test_derivatives_halfway(void **state) {
  for (int q = 0; q < QUANTITIES; q++) check_quantity(*state, q, "[0.03515625, 0.05078125, 0.20703125]", 0, 0);
}

// On a state the line has a kink by the time: the derivative is that of what comes after it, which a shorter delay sees.
static void test_derivatives_on_states_are_of_one_side(void **state) {
  for (int q = 0; q < QUANTITIES; q++) check_quantity(*state, q, "[0.0390625, 0.125, 0.25]", 0, -1);
}

// By all unknowns with samples 1e-12 s after states, and before them, where a longer delay stays between the same states. (Times
// that are written so near to a state are that state's; delays may put them there.)
static void test_derivatives_just_beside_states(void **state) {
  for (int q = 0; q < QUANTITIES; q++) {
    check_quantity(*state, q, "[0.0390625, 0.125, 0.25]", -1e-12, -1);
    check_quantity(*state, q, "[0.0390625, 0.125, 0.25]", 1e-12, 1);
  }
}

// Times and steps in decimals, whose quotients are off by rounding: samples of a falling point have the side of a shorter delay.
static void test_decimals_do_not_change_sides(void **state) {
  static const char world[] =
      "\"model\": \"<mujoco><option timestep='0.002'/><worldbody><body><joint name='z' type='slide' axis='0 0 1'/><geom "
      "size='.1'/>"
      "</body></worldbody></mujoco>\", \"steps\": 400, \"variables\": [{\"delay\": \"log\", \"start\": 0.006}]";
  for (int k = 4; k < 400; k++) {
    char loss[200];
    double at = 0.006, shorter = 0.0059, value, slope, other;
    snprintf(loss, sizeof loss, "{\"name\": \"log\", \"qpos\": \"z\", \"type\": \"linear\", \"at\": [%.10g]}", 0.002 * k);
    pbTask *task = parse(*state, world, loss);
    good(*state, pbTask_Loss(task, &at, &value, &slope));
    good(*state, pbTask_Loss(task, &shorter, &value, &other));
    if (!(fabs(slope - other) < 1e-9)) fail_msg("step %d: %.12g, of a shorter delay %.12g", k, slope, other);
    pbTask_Destroy(task);
  }
}

// A fit that ends with samples on states says so.
static void test_a_delay_on_states_is_told(void **state) {
  static const double starts[2] = {0.03125, 0.03};
  for (int i = 0; i < 2; i++) {
    char world[4096];
    pbRunResult result;
    snprintf(world, sizeof world,
             BODIES ", \"variables\": [{\"delay\": \"log\", \"start\": %g}], \"optimizer\": {\"iterations\": 0}", starts[i]);
    pbTask *task = parse(*state, world,
                         "{\"name\": \"log\", \"qvel\": true, \"at\": [0.0390625, 0.125, 0.2]}, {\"name\": \"other\", \"qpos\": "
                         "\"hinge\", \"at\": [0.1]}");
    good(*state, pbTask_Run(task, NULL, &result));
    bool told =
        strstr(result.advice, "delay:log = 0.03125 puts 2 of 3 samples on states, where the line between states has a kink");
    if (told != (i == 0)) fail_msg("delay %g: '%s'", starts[i], result.advice);
    pbTask_Destroy(task);
  }
}

// The same with a delay 1e-12 s less, and 1e-12 s more: before the states the other side.
static void test_derivatives_beside_states(void **state) {
  for (int q = 0; q < QUANTITIES; q++) {
    char loss[1024];
    double value, g[3];
    snprintf(loss, sizeof loss, "{\"name\": \"log\", %s, \"at\": [0.0390625, 0.125, 0.25]}", quantities[q].what);
    pbTask *task = parse(*state, BODIES ", \"variables\": [{\"delay\": \"log\", \"start\": 0.03125}]", loss);
    for (int i = 0; i < 3; i++) {
      double z = 0.03125 + 1e-12 * (i - 1);
      good(*state, pbTask_Loss(task, &z, &value, &g[i]));
    }
    pbTask_Destroy(task);

    // what is held has no kink
    double within = 1e-8 * (1 + fabs(g[1]));
    bool held = strcmp(quantities[q].what, "\"control\": true") == 0;
    if (!(fabs(g[0] - g[1]) <= within)) fail_msg("%s: %.12g behind states, %.12g at them", quantities[q].what, g[0], g[1]);
    if (held != (fabs(g[2] - g[1]) <= within)) fail_msg("%s: %.12g before states, %.12g at them", quantities[q].what, g[2], g[1]);
  }
}

// Beyond the trajectory nothing changes with the delay.
static void test_a_delay_beyond_the_trajectory_has_no_slope(void **state) {
  pbTask *task = parse(*state, BODIES ", \"variables\": [{\"delay\": \"log\", \"start\": 0.1}]",
                       "{\"name\": \"log\", \"site\": \"end\", \"at\": [0.1, 0.15], \"type\": \"norm\"}");
  double z = 0.2, value, g;
  good(*state, pbTask_Loss(task, &z, &value, &g));
  assert_true(g == 0);
  pbTask_Destroy(task);
}

// ---- gaps -----------------------------------------------------------------------------------------------------------
static void test_gaps_leave_no_residual(void **state) {
  static const char *const losses[2] = {
      "{\"qpos\": [\"hinge\", \"ball\"], \"at\": [0.1, 0.123, 0.2], \"target\": [[0.1, 1, 0, 0, 0], [null, 1, 0.1, 0, 0], [0.2, "
      "1, null, 0, 0]]}",
      "{\"qpos\": \"hinge\", \"at\": [0.1, 0.2], \"target\": [0.1, 0.2]}, {\"qpos\": \"ball\", \"at\": [0.1, 0.123], \"target\": "
      "[[1, 0, 0, 0], [1, 0.1, 0, 0]]}"};
  double value[2];
  for (int i = 0; i < 2; i++) {
    pbTask *task = parse(*state, BODIES ", \"variables\": [" BY "]", losses[i]);
    assert_int_equal(pbTask_ResidualCount(task), 8);
    good(*state, pbTask_Loss(task, pbTask_Start(task), &value[i], NULL));
    pbTask_Destroy(task);
    check_derivatives(*state, BODIES ", \"variables\": [" BY "]", losses[i], 1e-5, 0);
  }
  assert_true(fabs(value[0] - value[1]) <= 1e-14 * value[0]);
}

// ---- what is refused ------------------------------------------------------------------------------------------------
static void test_bad_readings_are_refused_with_the_place(void **state) {
  static const struct {
    const char *variables, *loss, *says;
  } cases[] = {
      {BY, "{\"qpos\": \"hinge\", \"at\": [0.1, 0.05]}",
       "loss[0].at: times must not go backwards: entry 1 is 0.05, the one before it 0.1"},
      {BY, "{\"qpos\": \"hinge\", \"at\": [0.3126]}", "loss[0].at: time 0.3126 is outside of the trajectory (0 to 0.3125)"},
      {BY, "{\"qpos\": \"hinge\", \"at\": [-0.0001]}", "outside of the trajectory"},
      {BY, "{\"qpos\": \"hinge\", \"at\": [0.1, 0.2], \"target\": [null, null]}", "loss[0].target: every sample is missing"},
      {BY, "{\"qpos\": \"hinge\", \"sigma\": 0}", "loss[0].sigma: expected standard deviations above zero, found 0"},
      {BY, "{\"qpos\": \"hinge\", \"sigma\": [1, 2]}", "loss[0].sigma: expected 1 numbers, found 2"},
      {BY, "{\"qvel\": \"ball\", \"gain\": [1, 2]}", "loss[0].gain: expected 3 numbers, found 2"},
      {BY, "{\"qpos\": \"ball\", \"gain\": 2}", "loss[0]: a rotation has no gain"},
      {BY, "{\"qpos\": \"ball\", \"bias\": 2}", "loss[0]: a rotation has no bias"},
      {BY, "{\"qpos\": \"hinge\", \"delay\": \"late\"}", "loss[0].delay"},
      {BY, "{\"qpos\": \"hinge\", \"at\": [null]}", "loss[0].at[0]: expected a number"},
      {"{\"delay\": \"lgo\"}", "{\"name\": \"log\", \"qpos\": \"hinge\"}",
       "variables[0].delay: no term of the loss is called 'lgo', did you mean 'log'?"},
      {"{\"gain\": \"log\"}", "{\"name\": \"log\", \"qpos\": \"ball\"}", "variables[0].gain: a rotation has no gain"},
      {"{\"delay\": \"log\", \"start\": -0.1}", "{\"name\": \"log\", \"qpos\": \"hinge\"}", "outside of its bounds"},
      {"{\"delay\": \"log\"}, {\"delay\": \"log\"}", "{\"name\": \"log\", \"qpos\": \"hinge\"}",
       "varies what variables[0] ('delay:log') varies already"},
      {BY, "{\"qpos\": \"hinge\", \"at\": [0.1, 0.2], \"delay\": 5}",
       "loss[0].delay: 5 s: the last sample is at 0.2 s: so late all of them show where the trajectory begins"},
      {BY, "{\"qpos\": \"hinge\", \"at\": [0.1, 0.2], \"delay\": -5}",
       "loss[0].delay: -5 s: the first sample is at 0.1 s: so early all of them show where the trajectory ends"},
      {"{\"delay\": \"log\", \"start\": 0.3}", "{\"name\": \"log\", \"qpos\": \"hinge\", \"at\": [0.1, 0.2]}",
       "variables[0].start: 0.3 s: the last sample is at 0.2 s"},
      {"{\"delay\": \"log\", \"gain\": \"log\"}", "{\"name\": \"log\", \"qpos\": \"hinge\"}", "expected one of parameter"},
      {"{\"delay\": \"log\", \"parameter\": \"gravity\"}", "{\"name\": \"log\", \"qpos\": \"hinge\"}",
       "expected one of parameter"},
      {"{\"bias\": \"log\"}", "{\"name\": \"log\", \"qpos\": \"hinge\"}, {\"name\": \"log\", \"qvel\": true}",
       "terms 'log' have 1 and 10 components"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[8192];
    pbTask *task;
    snprintf(text, sizeof text, "{" BODIES ", \"variables\": [%s], \"loss\": [%s]}", cases[i].variables, cases[i].loss);
    pbStatus status = pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task);
    if (status == pb_ok || !strstr(pbContext_Error(*state), cases[i].says))
      fail_msg("case %zu: status %d, '%s'", i, status, pbContext_Error(*state));
    assert_null(task);
  }
}

// The delay, gain and bias of a recording are found again, with gaps and at times of its own.
static void test_readings_are_found(void **state) {
  char text[16384], at[2048] = "", target[4096] = "";
  for (int k = 0; k < 40; k++) {
    double time = 0.02 + 0.024 * k + 0.003 * sin(k), seen = 0.7 * 3 * fmax(time - 0.0173, 0) + 0.2;
    snprintf(at + strlen(at), sizeof at - strlen(at), "%s%.17g", k ? ", " : "", time);
    if (k % 7 == 3) snprintf(target + strlen(target), sizeof target - strlen(target), ", null");
    else snprintf(target + strlen(target), sizeof target - strlen(target), "%s%.17g", k ? ", " : "", seen);
  }
  snprintf(text, sizeof text,
           "{%s, \"variables\": [{\"delay\": \"log\", \"upper\": 0.1}, {\"bias\": \"log\"}], \"loss\": [{\"name\": \"log\", "
           "\"qpos\": \"x\", \"gain\": 0.7, "
           "\"at\": [%s], \"target\": [%s]}], \"optimizer\": {\"method\": \"gauss-newton\"}}",
           "\"model\": \"<mujoco><option timestep='0.0078125' gravity='0 0 0'/><worldbody><body><joint name='x' type='slide' "
           "axis='1 0 0'/><geom "
           "size='.1'/></body></worldbody></mujoco>\", \"init\": {\"qvel\": [3]}, \"steps\": 128",
           at, target);
  pbTask *task;
  pbRunResult result;
  good(*state, pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task));
  good(*state, pbTask_Run(task, NULL, &result));
  // of x = v t they are not told apart but by the samples that show the start
  if (!(result.loss < 1e-20)) fail_msg("%g: %g %g, %s", result.loss, result.z[0], result.z[1], result.reason);
  pbTask_Destroy(task);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values_in_closed_form),
                                     cmocka_unit_test(test_times_of_states_are_states),
                                     cmocka_unit_test(test_rotations_in_closed_form),
                                     cmocka_unit_test(test_derivatives_between_states),
                                     cmocka_unit_test(test_derivatives_halfway),
                                     cmocka_unit_test(test_derivatives_on_states_are_of_one_side),
                                     cmocka_unit_test(test_derivatives_beside_states),
                                     cmocka_unit_test(test_a_delay_beyond_the_trajectory_has_no_slope),
                                     cmocka_unit_test(test_gaps_leave_no_residual),
                                     cmocka_unit_test(test_bad_readings_are_refused_with_the_place),
                                     cmocka_unit_test(test_derivatives_just_beside_states),
                                     cmocka_unit_test(test_decimals_do_not_change_sides),
                                     cmocka_unit_test(test_a_delay_on_states_is_told),
                                     cmocka_unit_test(test_readings_are_found)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
