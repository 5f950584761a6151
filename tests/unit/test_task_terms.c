// Terms of a loss beyond squares of deviations: linear, one-sided, formulas, discounts. Closed forms, gradients and Jacobians
// against differences, what gauss-newton takes, what is refused.
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

// Without gravity x = 0.01 k v exactly but for rounding, and z = 0.02 k.
#define POINT                                                                                                               \
  "\"model\": \"<mujoco><option timestep='0.01' gravity='0 0 0'/><worldbody><body name='p'><joint name='x' type='slide' "   \
  "axis='1 0 0'/><joint name='z' type='slide' axis='0 0 1'/><geom type='sphere' size='.1' mass='2'/></body></worldbody>"    \
  "<actuator><motor name='push' joint='x' gear='0'/></actuator></mujoco>\", \"init\": {\"qvel\": [0, 2]}, \"steps\": 100, " \
  "\"variables\": [{\"name\": \"v\", \"state\": \"qvel\", \"joint\": \"x\", \"start\": 3}], \"controls\": [0.5]"

#define ARM                                                                                                                      \
  "\"model\": \"<mujoco><option timestep='0.005'/><worldbody><body name='top' pos='0 0 1'><joint name='ball' type='ball' "       \
  "damping='.05'/><geom type='capsule' size='.03' fromto='0 0 0 .4 0 .1'/><body name='low' pos='.4 0 .1'><joint name='hinge' "   \
  "axis='0 1 0' damping='.1'/><geom type='capsule' size='.02' fromto='0 0 0 .3 0 0'/><site name='end' pos='.3 0 0'/></body>"     \
  "</body></worldbody><actuator><motor name='motor' joint='hinge' gear='.3'/></actuator><sensor><framepos name='tip' "           \
  "objtype='site' objname='end'/></sensor></mujoco>\", \"steps\": 40, \"controls\": [0.5], \"init\": {\"joints\": {\"ball\": "   \
  "{\"qpos\": [0.8, 0.2, 0.5, 0.1], \"qvel\": [1, -2, 0.5]}}}, \"variables\": [{\"parameter\": \"body_mass:low\"}, {\"state\": " \
  "\"qvel\"}, {\"control\": \"motor\", \"knots\": 3, \"interpolation\": \"linear\"}]"

// What the others have not: an activation, the place of a body; points.
#define SLOW                                                                                                                    \
  "\"model\": \"<mujoco><worldbody><body name='arm'><joint name='j' axis='0 1 0'/><geom type='capsule' size='.03' fromto='0 0 " \
  "0 .4 "                                                                                                                       \
  "0 .1'/><body name='end' pos='.4 0 .1'><geom size='.05'/></body></body></worldbody><actuator><general name='slow' joint='j' " \
  "dyntype='filter' dynprm='.05' gainprm='2'/></actuator></mujoco>\", \"steps\": 20, \"controls\": [0.5], \"variables\": "      \
  "[{\"state\": \"qvel\"}, {\"control\": \"slow\", \"knots\": 2}]"
#define ROPE                                                                                                                     \
  "\"deformables\": {\"bodies\": [{\"name\": \"rope\", \"mesh\": {\"chain\": {\"from\": [0, 0, 1], \"to\": [1, 0, 1], "          \
  "\"edges\": 4}}, "                                                                                                             \
  "\"pins\": [{\"points\": 0}], \"energies\": [{\"name\": \"pull\", \"energy\": \"spring\", \"parameters\": {\"stiffness\": 9, " \
  "\"density\": 2}}]}]}, \"options\": {\"timestep\": 0.02}, \"steps\": 6, \"variables\": [{\"state\": \"points\", \"points\": "  \
  "4, "                                                                                                                          \
  "\"components\": [0, 2]}]"

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
  // Linear: the quantity itself, which a negative weight maximizes.
  expect(*state, "{\"qpos\": \"x\", \"type\": \"linear\", \"weight\": -2}", -6, -2);
  expect(*state, "{\"qpos\": \"x\", \"type\": \"linear\", \"target\": 1, \"at\": \"all\"}", 0.01 * 3 * 5050 - 101, 50.5);

  // Above and below say where the quantity is to be; what is on the other side of the target counts.
  expect(*state, "{\"qpos\": \"x\", \"type\": \"below\", \"target\": 1}", 4, 4);
  expect(*state, "{\"qpos\": \"x\", \"type\": \"above\", \"target\": 1}", 0, 0);
  expect(*state, "{\"qpos\": \"x\", \"type\": \"above\", \"target\": 5}", 4, -4);
  expect(*state, "{\"qpos\": \"x\", \"type\": \"below\", \"target\": 5}", 0, 0);
  double value = 0, slope = 0;
  for (int k = 51; k <= 100; k++) {
    value += pow(0.03 * k - 1.5, 2);
    slope += 2 * (0.03 * k - 1.5) * 0.01 * k;
  }
  expect(*state, "{\"qpos\": \"x\", \"type\": \"below\", \"target\": 1.5, \"at\": \"all\"}", value, slope);

  // A discount is a rate in time.
  double sum = 0;
  for (int k = 0; k <= 100; k++) sum += exp(-0.7 * 0.01 * k) * 0.01 * k;
  expect(*state, "{\"qpos\": \"x\", \"type\": \"linear\", \"at\": \"all\", \"discount\": 0.7}", 3 * sum, sum);
  expect(*state, "{\"qpos\": \"x\", \"discount\": 0.7, \"weight\": 2}", 18 * exp(-0.7), 12 * exp(-0.7));
  expect(*state, "{\"qpos\": \"x\", \"type\": \"norm\", \"epsilon\": 1e-150, \"discount\": 0.7}", 3 * exp(-0.7), exp(-0.7));

  // Formulas: vectors, time, controls; as they are, squared about a target, one-sided.
  const char *product =
      "{\"formula\": \"-x*z.y*v.z + 10*u*t\", \"inputs\": {\"x\": {\"qpos\": \"x\"}, \"z\": {\"qpos\": true}, "
      "\"v\": {\"body\": \"p\"}, \"u\": {\"control\": \"push\"}}%s}";
  char text[1024];
  snprintf(text, sizeof text, product, "");
  expect(*state, text, -12 + 5, -4);
  snprintf(text, sizeof text, product, ", \"type\": \"squared\", \"target\": -5, \"weight\": 3");
  expect(*state, text, 12, 3 * 2 * -2 * -4);
  snprintf(text, sizeof text, product, ", \"type\": \"below\", \"target\": -5");
  expect(*state, text, 0, 0);
  snprintf(text, sizeof text, product, ", \"type\": \"above\", \"target\": [-5]");
  expect(*state, text, 4, 16);
  sum = 0;
  for (int k = 0; k <= 100; k++) sum += 0.01 * k * (0.01 * k);
  expect(*state, "{\"formula\": \"x*t\", \"inputs\": {\"x\": {\"qpos\": \"x\"}}, \"at\": \"all\", \"mean\": true}", 3 * sum / 101,
         sum / 101);
}

// A step half as long, twice as many: a mean of a discounted rate stays what it is, up to the rule of the integral.
static void test_a_discount_does_not_depend_on_the_time_step(void **state) {
  double value[2];
  for (int fine = 0; fine < 2; fine++) {
    char text[4096];
    pbTask *task;
    snprintf(text, sizeof text,
             "{\"model\": \"<mujoco><option timestep='%g'/><worldbody><body><joint name='x' type='slide' axis='1 0 0'/><geom "
             "type='sphere' size='.1'/></body></worldbody></mujoco>\", \"duration\": 1, \"variables\": [{\"state\": \"qvel\"}], "
             "\"init\": {\"qvel\": 1}, \"loss\": [{\"qpos\": \"x\", \"type\": \"linear\", \"at\": {\"every\": 0.01}, "
             "\"discount\": 3}]}",
             fine ? 0.005 : 0.01);
    good(*state, pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task));
    good(*state, pbTask_Loss(task, pbTask_Start(task), &value[fine], NULL));
    pbTask_Destroy(task);
  }
  assert_true(fabs(value[0] - value[1]) < 1e-12 * value[0]);
}

// ---- derivatives ------------------------------------------------------------------------------------------------------
#define FORMULA_INPUTS                                                                                      \
  "\"inputs\": {\"w\": {\"qvel\": \"ball\"}, \"r\": {\"qpos\": \"ball\"}, \"tip\": {\"sensor\": \"tip\"}, " \
  "\"u\": {\"control\": true}, \"q\": {\"qpos\": \"hinge\"}, \"e\": {\"site\": \"end\", \"components\": [2]}}"
static const char squares[] =
    "{\"qpos\": true, \"type\": \"below\", \"target\": [0.9, 0.1, 0, 0.3, 0.05], \"at\": \"all\", \"discount\": 4}, "
    "{\"sensor\": \"tip\", \"type\": \"above\", \"at\": \"all\", \"target\": [0.3, 0, 0.8], \"weight\": 0.7}, "
    "{\"qvel\": \"hinge\", \"at\": \"all\", \"discount\": 10, \"mean\": true}, {\"control\": true, \"type\": \"below\", "
    "\"target\": 0.4, \"at\": \"all\"}, "
    "{\"formula\": \"s = dot(w, r) + u*q; s + e*tip.x - t\", \"type\": \"squared\", \"target\": 0.3, \"at\": \"all\", "
    "\"weight\": 0.2, \"discount\": 1, " FORMULA_INPUTS
    "}, "
    "{\"formula\": \"dot(w, r) + u*q^2\", \"type\": \"below\", \"target\": 0.1, \"at\": \"all\", " FORMULA_INPUTS "}";
static const char others[] =
    ", {\"site\": \"end\", \"type\": \"linear\", \"weight\": -3, \"at\": \"all\", \"discount\": 2}, "
    "{\"qpos\": true, \"type\": \"linear\", \"weight\": 0.3, \"at\": [0.1]}, {\"qvel\": true, \"type\": \"norm\", \"discount\": "
    "3, "
    "\"at\": \"all\"}, {\"formula\": \"-norm(tip)*exp(-u) + atan2(q, e)*w.x\", \"weight\": 2, \"at\": {\"every\": "
    "0.02}, " FORMULA_INPUTS "}, {\"qvel\": true, \"type\": \"huber\", \"delta\": 0.7, \"at\": [0.1, 0.2]}";

static const char states_of_others[] =
    "{\"act\": true, \"at\": \"all\"}, {\"body\": \"end\", \"components\": [2], \"at\": \"all\"}",
                  points[] = "{\"points\": true, \"at\": \"all\", \"target\": 0.1}, {\"point_velocity\": true, \"at\": \"all\"}";

static void move(pbContext *ctx, pbTask *task, int i, double step, double *value, double *r) {
  double z[32];
  memcpy(z, pbTask_Start(task), (size_t)pbTask_Size(task) * sizeof *z);
  z[i] += step;
  if (value) good(ctx, pbTask_Loss(task, z, value, NULL));
  else good(ctx, pbTask_Residuals(task, z, r, NULL));
}

static void check_task(pbContext *ctx, pbTask *task) {
  double g[32], value, v[4];
  good(ctx, pbTask_Loss(task, pbTask_Start(task), &value, g));

  for (int i = 0; i < pbTask_Size(task); i++) {
    const double h = 1e-4, steps[4] = {h, -h, h / 2, -h / 2};
    for (int k = 0; k < 4; k++) move(ctx, task, i, steps[k], &v[k], NULL);
    double difference = (4 * (v[2] - v[3]) / h - (v[0] - v[1]) / (2 * h)) / 3;
    if (!(fabs(difference - g[i]) <= 1e-7 * (1 + fabs(g[i])))) FAIL("unknown %d: %.12g, difference %.12g", i, g[i], difference);
    if (!(fabs(g[i]) > 1e-6)) FAIL("unknown %d: no slope", i);
  }
  pbTask_Destroy(task);
}

static void check_gradient(pbContext *ctx, const char *world, const char *loss) { check_task(ctx, parse(ctx, world, loss)); }

static void test_gradient_against_differences(void **state) {
  char all[8192];
  snprintf(all, sizeof all, "%s%s", squares, others);
  check_gradient(*state, ARM, squares);
  check_gradient(*state, ARM, all);
  check_gradient(*state, SLOW, states_of_others);
  check_gradient(*state, ROPE, points);
}

#ifdef PULLBACK_MUTATE
static void check_all_terms(const void *ctx) {
  char all[8192];
  snprintf(all, sizeof all, "%s%s", squares, others);
  check_gradient(*(pbContext *const *)ctx, ARM, all);
  check_gradient(*(pbContext *const *)ctx, SLOW, states_of_others);
  check_gradient(*(pbContext *const *)ctx, ROPE, points);
}

static void test_every_pullback_is_seen(void **state) {
  static const char *const names[] = {"squared", "norm", "huber", "linear", "above", "below"};
  for (int type = pb_termSquared; type <= pb_termBelow; type++) {
    if (!sees_mutation(pb_muteTerm, type, NULL, check_all_terms, state)) fail_msg("%s: its pullback may be lost", names[type]);
    print_message("term,%s,unit/test_task_terms,red\n", names[type]);
  }

  static const char *const seen[] = {[pb_observedQpos] = "qpos",       [pb_observedQvel] = "qvel",
                                     [pb_observedAct] = "act",         [pb_observedSensor] = "sensor",
                                     [pb_observedBody] = "body",       [pb_observedSite] = "site",
                                     [pb_observedPoints] = "points",   [pb_observedPointVelocity] = "point_velocity",
                                     [pb_observedControl] = "control", [pb_observedFormula] = "formula"};
  for (int quantity = 0; quantity <= pb_observedFormula; quantity++) {
    // those of a training alone: unit/test_learn
    if (!seen[quantity]) continue;
    if (!sees_mutation(pb_muteQuantity, quantity, NULL, check_all_terms, state))
      fail_msg("terms of %s: their pullback may be lost", seen[quantity]);
    print_message("quantity,%s,unit/test_task_terms,red\n", seen[quantity]);
  }
}
#endif

// Few residuals are pulled back one by one, many are pushed forward: both are J of the same r, and 2 J'r is the gradient.
static void check_jacobian(pbContext *ctx, const char *loss) {
  pbTask *task = parse(ctx, ARM, loss);
  size_t n = (size_t)pbTask_Size(task), m = pbTask_ResidualCount(task);
  assert_true(m > 0);
  double *r = calloc(m, sizeof *r), *moved = calloc(2 * m, sizeof *r), *J = calloc(m * n, sizeof *J), value, g[32], sum = 0;
  good(ctx, pbTask_Residuals(task, pbTask_Start(task), r, J));
  good(ctx, pbTask_Loss(task, pbTask_Start(task), &value, g));
  for (size_t k = 0; k < m; k++) sum += r[k] * r[k];
  assert_true(fabs(sum - value) < 1e-12 * value);

  for (size_t i = 0; i < n; i++) {
    const double h = 1e-6;
    double along = 0;
    move(ctx, task, (int)i, h, NULL, moved);
    move(ctx, task, (int)i, -h, NULL, moved + m);
    for (size_t k = 0; k < m; k++) {
      double difference = (moved[k] - moved[m + k]) / (2 * h);
      along += 2 * J[k * n + i] * r[k];

      // What crosses its target within the difference has no derivative there.
      bool crosses = (moved[k] == 0) != (moved[m + k] == 0);
      if (!crosses && !(fabs(difference - J[k * n + i]) <= 1e-6 * (1 + fabs(difference))))
        fail_msg("residual %zu by unknown %zu: %.12g, difference %.12g", k, i, J[k * n + i], difference);
    }
    assert_true(fabs(along - g[i]) <= 1e-10 * (1 + fabs(g[i])));
  }
  free(r);
  free(moved);
  free(J);
  pbTask_Destroy(task);
}

static void test_jacobian_against_differences(void **state) {
  check_jacobian(*state, squares);
  check_jacobian(*state,
                 "{\"qpos\": \"hinge\", \"type\": \"above\", \"target\": 2}, {\"formula\": \"dot(w, r) + u*q^2\", \"type\": "
                 "\"squared\", \"target\": 0.1, " FORMULA_INPUTS "}");
}

// ---- runs -------------------------------------------------------------------------------------------------------------
// One-sided squares are squares: the point stops where it may be.
static void test_gauss_newton_takes_one_sided_terms(void **state) {
  pbTask *task =
      parse(*state, POINT ", \"optimizer\": {\"method\": \"gauss-newton\"}",
            "{\"name\": \"fence\", \"qpos\": \"x\", \"type\": \"below\", \"target\": 1}, {\"formula\": \"x\", \"inputs\": "
            "{\"x\": {\"qpos\": \"x\"}}, \"type\": \"above\", \"target\": 0.5}");
  pbRunResult result;
  assert_int_equal(pbTask_ResidualCount(task), 2);
  good(*state, pbTask_Run(task, NULL, &result));
  assert_true(result.loss < 1e-16 && result.z[0] < 1 + 1e-7 && result.z[0] > 0.5 - 1e-7);
  pbTask_Destroy(task);
}

// Beyond delta a residual is the root of what huber's loss is there: its Jacobian against differences; both methods end alike.
static void test_gauss_newton_takes_huber(void **state) {
  static const char *const methods[] = {"gauss-newton", "lbfgs"};
  const char *loss =
      "{\"qpos\": \"x\", \"at\": [0.1, 0.2, 0.3, 0.4, 0.5], \"target\": [0.1, 0.25, 9, 0.37, -0.2], \"type\": \"huber\", "
      "\"delta\": 0.1}, {\"qpos\": \"z\", \"weight\": 1e-3}";
  double found[2];
  for (int k = 0; k < 2; k++) {
    char more[1000];
    snprintf(more, sizeof more, POINT ", \"optimizer\": {\"method\": \"%s\", \"iterations\": 300}", methods[k]);
    pbTask *task = parse(*state, more, loss);
    pbRunResult result;
    good(*state, pbTask_Run(task, NULL, &result));
    found[k] = result.loss;
    int n = pbTask_Size(task), m = (int)pbTask_ResidualCount(task);
    double z[8], value, r[8], moved[8], J[64], sum = 0;
    assert_true(n <= 8 && m == 6);
    for (int i = 0; i < n; i++) z[i] = 0.3 + 0.1 * i;
    good(*state, pbTask_Loss(task, z, &value, NULL));
    good(*state, pbTask_Residuals(task, z, r, J));
    for (int i = 0; i < m; i++) sum += r[i] * r[i];
    assert_near(sum, value, 1e-12 * value);

    for (int j = 0; j < n; j++) {
      double at = z[j];
      z[j] = at + 1e-6;
      good(*state, pbTask_Residuals(task, z, moved, NULL));
      z[j] = at;
      for (int i = 0; i < m; i++) assert_near(J[i * n + j], (moved[i] - r[i]) / 1e-6, 1e-5);
    }
    pbTask_Destroy(task);
  }
  assert_near(found[0], found[1], 1e-6 * found[1]);
}

static void test_gauss_newton_refuses_by_name(void **state) {
  pbTask *task = parse(*state, POINT ", \"optimizer\": {\"method\": \"gauss-newton\"}",
                       "{\"qpos\": \"z\"}, {\"name\": \"far\", \"qpos\": \"x\", \"type\": \"linear\", \"weight\": -1}");
  pbRunResult result;
  assert_int_equal(pbTask_ResidualCount(task), 0);
  assert_int_equal(pbTask_Run(task, NULL, &result), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(*state), "term 'far' is none"));
  pbTask_Destroy(task);
}

// Maximized up to the fence: -x + 100 max(0, x - 1)^2 is least at x = 1.005, where the loss is below zero.
static void test_a_quantity_is_maximized(void **state) {
  pbTask *task = parse(*state, POINT,
                       "{\"qpos\": \"x\", \"type\": \"linear\", \"weight\": -1}, {\"qpos\": \"x\", \"type\": "
                       "\"below\", \"target\": 1, \"weight\": 100}");
  pbRunResult result;
  good(*state, pbTask_Run(task, NULL, &result));
  assert_true(fabs(result.z[0] - 1.005) < 1e-7 && fabs(result.loss + 1.0025) < 1e-9 && fabs(result.start_loss - 397) < 1e-9);
  pbTask_Destroy(task);
}

// Zero is no end where a loss can be below it.
static void test_a_loss_of_zero_is_no_end(void **state) {
  pbTask *task =
      parse(*state, POINT ", \"optimizer\": {\"iterations\": 0}", "{\"qpos\": \"x\", \"type\": \"linear\", \"target\": 3}");
  pbRunResult result;
  good(*state, pbTask_Run(task, NULL, &result));
  assert_true(fabs(result.loss) < 1e-14);
  assert_int_equal(result.outcome, pb_runIterationLimit);
  pbTask_Destroy(task);
}

static void test_a_formula_out_of_its_domain_is_told(void **state) {
  pbTask *task = parse(*state, POINT,
                       "{\"name\": \"barrier\", \"formula\": \"-log(1.5 - x)\", \"inputs\": {\"x\": {\"qpos\": "
                       "\"x\"}}, \"at\": \"all\"}");
  double value;
  assert_int_equal(pbTask_Loss(task, pbTask_Start(task), &value, NULL), pb_not_finite);
  assert_non_null(strstr(pbContext_Error(*state), "term 'barrier' at time 0.5"));
  assert_non_null(strstr(pbContext_Error(*state), "log of"));
  pbTask_Destroy(task);
}

static void test_bad_terms_are_refused_with_the_place(void **state) {
  static const struct {
    const char *loss, *says;
  } cases[] = {
      {"{\"qpos\": \"x\", \"type\": \"bellow\"}",
       "loss[0].type: expected squared, norm, huber, linear, above or below, found 'bellow', "
       "did you mean 'below'?"},
      {"{\"qpos\": \"x\", \"discount\": -1}", "loss[0].discount: expected a rate in 1/s"},
      {"{\"formula\": 3}", "loss[0].formula: expected a text"},
      {"{\"qpos\": \"x\", \"formula\": \"1\"}", "expected one of qpos"},
      {"{\"qpos\": \"x\", \"inputs\": {}}", "loss[0].inputs: only a formula has inputs"},
      {"{\"formula\": \"y\", \"inputs\": {\"x\": {\"qpos\": \"x\"}}}",
       "loss[0].formula: line 1, column 1 of the formula: unknown name 'y'"},
      {"{\"formula\": \"x\", \"inputs\": {\"x\": {\"qpos\": \"y\"}}}", "loss[0].inputs.x.qpos: the model has no joint 'y'"},
      {"{\"formula\": \"x\", \"inputs\": {\"x\": {\"qpos\": \"x\", \"target\": 1}}}", "loss[0].inputs.x: unknown key 'target'"},
      {"{\"formula\": \"x\", \"inputs\": {\"x\": {\"formula\": \"1\"}}}", "loss[0].inputs.x: unknown key 'formula'"},
      {"{\"formula\": \"t\", \"inputs\": {\"t\": {\"qpos\": \"x\"}}}", "loss[0].inputs.t: t is the time"},
      {"{\"formula\": \"1\", \"inputs\": {\"sin\": {\"qpos\": \"x\"}}}", "'sin': has a meaning in formulas already"},
      {"{\"formula\": \"b.x\", \"inputs\": {\"b\": {\"body\": true}}}",
       "loss[0].inputs.b: 6 numbers; an input of a formula has 1 to 3"},
      {"{\"formula\": \"b\", \"inputs\": {\"b\": {\"body\": \"p\"}}}", "the value must be a scalar"},
      {"{\"formula\": \"1\", \"inputs\": []}", "loss[0].inputs: expected an object"},
      {"{\"formula\": \"1\", \"components\": [0]}", "loss[0].components: a formula is one number"},
      {"{\"formula\": \"1\", \"target\": {\"file\": \"a.npz\"}}", "loss[0].target: recordings hold no formulas"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[4096];
    pbTask *task;
    snprintf(text, sizeof text, "{%s, \"loss\": [%s]}", POINT, cases[i].loss);
    pbStatus status = pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task);
    if (status == pb_ok || !strstr(pbContext_Error(*state), cases[i].says))
      fail_msg("case %zu: status %d, '%s'", i, status, pbContext_Error(*state));
    assert_null(task);
  }
}

// ---- functions of the host ------------------------------------------------------------------------------------------
typedef struct Host {
  int calls, pulled;
  pbStatus status;
} Host;

static const pbLossRows *rows_of(const pbLossView *view, const char *name) {
  for (int i = 0; i < view->row_count; i++) {
    if (strcmp(view->rows[i].name, name) == 0) return &view->rows[i];
  }
  return NULL;
}

// The end's height and the controls, as terms say them: 3 z + sum of u^2 over the states.
static pbStatus height_and_controls(void *user, const pbLossView *view, double *value) {
  Host *host = user;
  const pbLossRows *site = rows_of(view, "site_xpos"), *u = rows_of(view, "control"), *q = rows_of(view, "qpos");
  assert_true(view->count == 41 && site->width == 3 && u->width == 1 && q->width == 5 && q->bar_width == 4);
  assert_true(fabs(view->time[40] - 0.2) < 1e-15 && strcmp(view->name, "mine") == 0 && view->trajectory == 0);
  assert_null(rows_of(view, "xpos"));
  host->calls++;
  host->pulled += site->bar != NULL;
  if (host->status != pb_ok) {
    snprintf(view->why, 160, "too high");
    return host->status;
  }

  *value = 3 * site->value[40 * 3 + 2];
  for (int k = 0; k <= 40; k++) *value += u->value[k] * u->value[k];
  if (!site->bar) return pb_ok;
  site->bar[40 * 3 + 2] = 3;
  for (int k = 0; k <= 40; k++) u->bar[k] = 2 * u->value[k];
  return pb_ok;
}

// All that a function may see, each with the square of its numbers as its value.
static pbStatus squares_of_all(void *user, const pbLossView *view, double *value) {
  (void)user;
  *value = 0;
  for (int i = 0; i < view->row_count; i++) {
    const pbLossRows *rows = &view->rows[i];
    if (rows->width != rows->bar_width) continue;  // of rotations no squares
    for (int k = 0; k < view->count * rows->width; k++) {
      *value += 0.5 * rows->value[k] * rows->value[k];
      if (rows->bar) rows->bar[k] = rows->value[k];
    }
  }
  return pb_ok;
}

// Functions of the host that see each quantity by itself, in the order of pbQuantity.
static const struct {
  const char *world, *sees;
} hosted[] = {{SLOW, "qpos"},  {ARM, "qvel"}, {SLOW, "act"},    {ARM, "sensor"},
              {ARM, "body"},   {ARM, "site"}, {ROPE, "points"}, {ROPE, "point_velocity"},
              {ARM, "control"}};
static size_t hosted_first, hosted_last = pb_observedControl;

static void check_functions(const void *state) {
  pbContext *ctx = *(pbContext *const *)state;
  char loss[200];
  for (size_t i = hosted_first; i <= hosted_last; i++) {
    snprintf(loss, sizeof loss, "{\"function\": \"mine\", \"sees\": [\"%s\"], \"weight\": 0.7}, {\"%s\": true}", hosted[i].sees,
             i == pb_observedPoints || i == pb_observedPointVelocity ? "points" : "qvel");
    pbTask *task = parse(ctx, hosted[i].world, loss);
    pbTask_OnFunction(task, squares_of_all, NULL);
    check_task(ctx, task);
  }
}

static void test_functions_against_differences(void **state) { check_functions(state); }

#ifdef PULLBACK_MUTATE
static void test_every_function_is_seen(void **state) {
  for (size_t quantity = 0; quantity <= pb_observedControl; quantity++) {
    hosted_first = hosted_last = quantity;
    if (!sees_mutation(pb_muteHosted, (int)quantity, NULL, check_functions, state))
      fail_msg("functions of %s: their slopes may be lost", hosted[quantity].sees);
    print_message("function,%s,unit/test_task_terms,red\n", hosted[quantity].sees);
  }
}
#endif

static void test_a_function_is_the_terms_that_it_computes(void **state) {
  static const char terms[] =
      "{\"site\": \"end\", \"components\": [2], \"type\": \"linear\", \"weight\": 6}, "
      "{\"control\": true, \"at\": \"all\", \"weight\": 2}, {\"qvel\": true}";
  static const char function[] =
      "{\"function\": \"mine\", \"sees\": [\"qpos\", \"site\", \"control\"], \"weight\": 2}, {\"qvel\": true}";
  pbTask *ours = parse(*state, ARM, function), *theirs = parse(*state, ARM, terms);
  int n = pbTask_Size(ours);
  double value[2], *slope[2] = {calloc((size_t)n, sizeof(double)), calloc((size_t)n, sizeof(double))};

  // None is given.
  assert_int_equal(pbTask_Loss(ours, pbTask_Start(ours), &value[0], NULL), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(*state), "gives none"));

  Host host = {0};
  pbTask_OnFunction(ours, height_and_controls, &host);
  good(*state, pbTask_Loss(ours, pbTask_Start(ours), &value[0], NULL));
  assert_true(host.calls == 1 && host.pulled == 0);
  good(*state, pbTask_Loss(ours, pbTask_Start(ours), &value[0], slope[0]));
  good(*state, pbTask_Loss(theirs, pbTask_Start(theirs), &value[1], slope[1]));
  assert_true(host.pulled == 1 && fabs(value[0] - value[1]) < 1e-13 * (1 + fabs(value[1])));
  for (int i = 0; i < n; i++) {
    if (fabs(slope[0][i] - slope[1][i]) > 1e-12 * (1 + fabs(slope[1][i])))
      fail_msg("unknown %d: %g, %g", i, slope[0][i], slope[1][i]);
  }
  assert_true(pbTask_ResidualCount(ours) == 0);

  // What it refuses is told with the term's name and its own reason.
  host.status = pb_not_finite;
  assert_int_equal(pbTask_Loss(ours, pbTask_Start(ours), &value[0], slope[0]), pb_not_finite);
  assert_non_null(strstr(pbContext_Error(*state), "term 'mine': too high"));

  free(slope[0]);
  free(slope[1]);
  pbTask_Destroy(ours);
  pbTask_Destroy(theirs);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_function_is_the_terms_that_it_computes),
                                     cmocka_unit_test(test_functions_against_differences),
                                     cmocka_unit_test(test_values_in_closed_form),
                                     cmocka_unit_test(test_a_discount_does_not_depend_on_the_time_step),
                                     cmocka_unit_test(test_gradient_against_differences),
                                     cmocka_unit_test(test_jacobian_against_differences),
                                     cmocka_unit_test(test_gauss_newton_takes_one_sided_terms),
                                     cmocka_unit_test(test_gauss_newton_takes_huber),
                                     cmocka_unit_test(test_gauss_newton_refuses_by_name),
                                     cmocka_unit_test(test_a_quantity_is_maximized),
                                     cmocka_unit_test(test_a_loss_of_zero_is_no_end),
                                     cmocka_unit_test(test_a_formula_out_of_its_domain_is_told),
#ifdef PULLBACK_MUTATE
                                     cmocka_unit_test(test_every_pullback_is_seen),
                                     cmocka_unit_test(test_every_function_is_seen),
#endif
                                     cmocka_unit_test(test_bad_terms_are_refused_with_the_place)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
