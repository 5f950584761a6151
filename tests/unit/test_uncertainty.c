// How sure a fit says it is: closed forms of a straight line, the Cramer-Rao bound, that intervals hold the truth as often as
// they say with sigma given and estimated, what is not determined, what is at a bound, models that are wrong, terms that are no
// squares, values of an inertia, clusters.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/optimize.h>
#include <pullback/random.h>

#include "optimize/task.h"
#include "support/support.h"

// x = x0 + v t without forces: a straight line through samples.
#define LINE                                                                                                              \
  "\"model\": \"<mujoco><option timestep='0.01' gravity='0 0 0'/><worldbody><body name='p'><joint name='x' type='slide' " \
  "axis='1 0 0'/><geom type='sphere' size='.1' mass='2'/></body></worldbody></mujoco>\", \"steps\": 100"
// A damped pendulum with a spring: three parameters.
#define PENDULUM                                                                                                              \
  "\"model\": \"<mujoco><option timestep='0.01'/><worldbody><body name='arm'><joint name='swing' axis='0 1 0' damping='.08' " \
  "stiffness='.5' armature='.05'/><geom type='capsule' size='.03' fromto='0 0 0 .5 0 0' "                                     \
  "mass='1'/></body></worldbody></mujoco>\", \"steps\": 100"

static pbTask *parse(pbContext *ctx, const char *world, const char *variables, const char *loss) {
  size_t size = strlen(world) + strlen(variables) + strlen(loss) + 200;
  char *text = malloc(size);
  pbTask *task;
  snprintf(text, size, "{%s, \"variables\": [%s], \"loss\": [%s], \"optimizer\": {\"method\": \"gauss-newton\"}}", world,
           variables, loss);
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  free(text);
  return task;
}

static const pbUncertainty *uncertainty(pbContext *ctx, pbTask *task, const double *z) {
  const pbUncertainty *u;
  good(ctx, pbTask_Uncertainty(task, z, &u));
  return u;
}

static void near(double found, double expected, double within, const char *what) {
  if (!(fabs(found - expected) <= within * fabs(expected))) fail_msg("%s: %.12g, expected %.12g", what, found, expected);
}

// ---- closed forms -----------------------------------------------------------------------------------------------------
// Of a straight line through samples at t: var v = s^2 / sum (t - mean)^2, var x0 = s^2 sum t^2 / (m sum (t - mean)^2).
static void test_a_straight_line(void **state) {
  static const char *const sigma[2] = {", \"sigma\": 0.2", ""};
  for (int known = 1; known >= 0; known--) {
    char loss[600];
    snprintf(loss, sizeof loss, "{\"qpos\": \"x\", \"at\": [0.1, 0.25, 0.5, 0.9, 1], \"target\": [1.3, 1.4, 2.1, null, 3.2]%s}",
             sigma[!known]);
    pbTask *task = parse(*state, LINE, "{\"state\": \"qpos\"}, {\"state\": \"qvel\", \"scale\": 3}", loss);
    pbRunResult result;
    good(*state, pbTask_Run(task, NULL, &result));
    const pbUncertainty *u = result.uncertainty;
    assert_non_null(u);
    assert_null(u->why);

    const double t[4] = {0.1, 0.25, 0.5, 1}, y[4] = {1.3, 1.4, 2.1, 3.2};
    double mean = (0.1 + 0.25 + 0.5 + 1) / 4, spread = 0, squares = 0, left = 0;
    for (int i = 0; i < 4; i++) spread += (t[i] - mean) * (t[i] - mean);
    for (int i = 0; i < 4; i++) squares += t[i] * t[i];
    for (int i = 0; i < 4; i++) left += pow(y[i] - result.z[0] - 3 * result.z[1] * t[i], 2);
    double s = known ? 0.2 : sqrt(left / 2), quantile = known ? 1.959963984540054 : 4.302652729911275;

    near(u->deviation[0], s * sqrt(squares / (4 * spread)), 1e-9, "deviation of x0");
    near(u->deviation[1], s / sqrt(spread), 1e-9, "deviation of v");
    near(u->correlation[1], -mean / sqrt(squares / 4), 1e-9, "correlation");
    near(u->upper[1] - u->lower[1], 2 * quantile * s / sqrt(spread), 1e-9, "interval");
    near(u->chi_square, known ? left / 0.04 / 2 : left / 2, 1e-9, "chi-square");
    assert_true(u->correlation[0] == 1 && u->correlation[2] == u->correlation[1]);
    assert_int_equal(u->degrees, 2);
    assert_int_equal(u->samples, 4);
    assert_int_equal(u->sigma, known);
    assert_string_equal(u->warning, "");
    pbTask_Destroy(task);
  }
}

// A logarithm has an interval by factors; weights are those of the loss, not of the samples.
static void test_transforms_and_weights(void **state) {
  const char *loss = "{\"qpos\": \"x\", \"at\": [0.5, 1], \"target\": [1.1, 1.9], \"sigma\": 0.1, \"weight\": 7, \"mean\": true}";
  pbTask *task =
      parse(*state, LINE, "{\"state\": \"qvel\", \"transform\": \"log\", \"start\": 1.5, \"lower\": 0, \"scale\": 2}", loss);
  pbRunResult result;
  good(*state, pbTask_Run(task, NULL, &result));
  const pbUncertainty *u = result.uncertainty;
  double v = exp(2 * result.z[0]), deviation = 0.1 / sqrt(1.25), factor = exp(1.959963984540054 * deviation / v);
  near(u->deviation[0], deviation, 1e-7, "deviation");
  near(u->upper[0], v * factor, 1e-7, "upper");
  near(u->lower[0], v / factor, 1e-7, "lower");
  pbTask_Destroy(task);
}

// What may be below zero, such as a damping, has a logarithm without a bound of its own stated.
static void test_a_logarithm_without_bounds(void **state) {
  const char *loss = "{\"qpos\": true, \"at\": [0.5, 1], \"target\": [[0.1], [0.9]], \"sigma\": 0.1}";
  pbTask *task = parse(*state, PENDULUM, "{\"parameter\": \"dof_damping:swing\", \"transform\": \"log\"}", loss);
  near(pbTask_Start(task)[0], log(0.08), 1e-12, "start");
  pbTask_Destroy(task);
}

// Of a mean by huber's loss with all samples on its straight parts there is no curvature; within delta it is that of squares.
static void test_huber_within_delta_is_squares(void **state) {
  const char *variables = "{\"state\": \"qpos\"}, {\"state\": \"qvel\"}";
  char at[4000] = "", target[6000] = "", loss[12000];
  pbRng rng = pbRng_Seed(3);
  for (int k = 0; k < 100; k++) {
    snprintf(at + strlen(at), sizeof at - strlen(at), "%s%.3f", k ? ", " : "", 0.01 * k);
    snprintf(target + strlen(target), sizeof target - strlen(target), "%s%.12g", k ? ", " : "",
             1 + 0.02 * k + 0.1 * pbRng_Normal(&rng));
  }
  double deviation[2][2];
  for (int huber = 0; huber < 2; huber++) {
    snprintf(loss, sizeof loss, "{\"qpos\": \"x\", \"at\": [%s], \"target\": [%s]%s}", at, target,
             huber ? ", \"type\": \"huber\", \"delta\": 0.3" : "");
    pbTask *task = parse(*state, LINE, variables, loss);
    const double z[2] = {1, 2};
    const pbUncertainty *u = uncertainty(*state, task, z);
    memcpy(deviation[huber], u->deviation, sizeof *deviation);
    pbTask_Destroy(task);
  }
  // the sandwich estimates the variance by itself: as good as 100 samples are
  for (int i = 0; i < 2; i++) near(deviation[1][i], deviation[0][i], 0.2, "huber");
}

// The median of m normal samples has the deviation sqrt(pi / 2 / m) sigma: with the quantiles of a normal distribution as
// samples, however small epsilon is.
static void test_a_norm_of_one_number(void **state) {
  enum { COUNT = 100 };
  char at[4000] = "", target[6000] = "", loss[12000];
  for (int k = 0; k < COUNT; k++) {
    double low = -5, high = 5, share = (((k * 37) % COUNT) + 0.5) / COUNT;
    for (int i = 0; i < 60; i++) {
      double middle = 0.5 * (low + high);
      *(0.5 * erfc(-middle / sqrt(2)) < share ? &low : &high) = middle;
    }
    snprintf(at + strlen(at), sizeof at - strlen(at), "%s%.3f", k ? ", " : "", 0.01 * k);
    snprintf(target + strlen(target), sizeof target - strlen(target), "%s%.12g", k ? ", " : "", 1 + 0.1 * low);
  }
  static const char *const epsilons[] = {"1e-12", "1e-8", "1e-3"};
  for (int i = 0; i < 3; i++) {
    snprintf(loss, sizeof loss, "{\"qpos\": \"x\", \"at\": [%s], \"target\": [%s], \"type\": \"norm\", \"epsilon\": %s}", at,
             target, epsilons[i]);
    pbTask *task = parse(*state, LINE, "{\"state\": \"qpos\"}", loss);
    const double z[1] = {1};
    near(uncertainty(*state, task, z)->deviation[0], sqrt(acos(-1) / 2 / COUNT) * 0.1, 0.15, "median");
    pbTask_Destroy(task);
  }
}

// ---- how often the interval holds the truth -----------------------------------------------------------------------------
enum { REPEATS = 1000, SAMPLES = 60 };

static void coverage(pbContext *ctx, bool known) {
  const double truth[3] = {0.08, 0.5, 0.05}, sigma = 0.03;
  char at[2000] = "", variables[400];
  for (int k = 0; k < SAMPLES; k++) snprintf(at + strlen(at), sizeof at - strlen(at), "%s%.6g", k ? ", " : "", 0.0163 * (k + 1));
  snprintf(variables, sizeof variables,
           "{\"parameter\": \"dof_damping:swing\", \"transform\": \"log\", \"lower\": 0}, {\"parameter\": "
           "\"jnt_stiffness:swing\"}, {\"parameter\": "
           "\"dof_armature:swing\"}");

  // the samples of the truth, which the loss's target is made of
  char loss[8000];
  snprintf(loss, sizeof loss, "{\"qpos\": \"swing\", \"at\": [%s], \"target\": [%s]%s}", at, at,
           known ? ", \"sigma\": 0.03" : "");
  pbTask *task = parse(ctx, PENDULUM, variables, loss);
  double r[SAMPLES], clean[SAMPLES];
  pbTerm *term = &task->trajectories[0].terms.terms[0];
  good(ctx, pbTask_Residuals(task, pbTask_Start(task), r, NULL));
  for (int k = 0; k < SAMPLES; k++) clean[k] = r[k] * (known ? sigma : 1) + term->target[k];

  pbRng rng = pbRng_Seed(known ? 7 : 8);
  int held[3] = {0, 0, 0}, warned = 0;
  double scores[3] = {0, 0, 0};
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    for (int k = 0; k < SAMPLES; k++) term->target[k] = clean[k] + sigma * pbRng_Normal(&rng);
    pbRunResult result;
    good(ctx, pbTask_Run(task, NULL, &result));
    const pbUncertainty *u = result.uncertainty;
    warned += u->warning[0] != 0;
    for (int i = 0; i < 3; i++) {
      char name[100];
      double value;
      pbTask_Unknown(task, i, result.z, name, sizeof name, &value);
      held[i] += u->lower[i] <= truth[i] && truth[i] <= u->upper[i];
      scores[i] += pow((value - truth[i]) / u->deviation[i], 2);
    }
  }
  for (int i = 0; i < 3; i++) {
    printf("%s sigma, unknown %d: %.1f %% of the truths in the interval, mean square of error / deviation %.3f\n",
           known ? "given" : "estimated", i, 100.0 * held[i] / REPEATS, scores[i] / REPEATS);
    if (abs(held[i] - 950) > 20)
      fail_msg("%s sigma, unknown %d: %d of %d", known ? "given" : "estimated", i, held[i], (int)REPEATS);
  }
  assert_true(warned <= 3);
  pbTask_Destroy(task);
}

static void test_intervals_hold_the_truth(void **state) {
  coverage(*state, true);
  coverage(*state, false);
}

// ---- what is not known ----------------------------------------------------------------------------------------------------
// Of a mass and the force on it only the ratio moves anything.
#define PUSHED                                                                                                                 \
  "\"model\": \"<mujoco><option timestep='0.01' gravity='0 0 0'/><worldbody><body name='p'><joint name='x' type='slide' "      \
  "axis='1 0 0'/><geom type='sphere' size='.1' mass='2'/></body></worldbody><actuator><motor name='push' joint='x' gear='3'/>" \
  "</actuator></mujoco>\", \"steps\": 100, \"controls\": [1]"

static void test_a_redundant_pair_is_named(void **state) {
  const char *loss = "{\"qpos\": \"x\", \"at\": [0.2, 0.5, 0.7, 1], \"target\": [0.1, 0.2, 0.4, 0.7], \"sigma\": 0.1}";
  pbTask *task = parse(
      *state, PUSHED, "{\"parameter\": \"body_mass:p\"}, {\"parameter\": \"actuator_gear:push:0\"}, {\"state\": \"qvel\"}", loss);
  const pbUncertainty *u = uncertainty(*state, task, pbTask_Start(task));
  assert_int_equal(u->determined[0], pb_isUndetermined);
  assert_int_equal(u->determined[1], pb_isUndetermined);
  assert_int_equal(u->determined[2], pb_isDetermined);
  assert_true(isnan(u->deviation[0]) && isnan(u->correlation[1]) && isfinite(u->deviation[2]));
  if (!strstr(u->weakest, "not determined") || !strstr(u->weakest, "body_mass:p") || !strstr(u->weakest, "actuator_gear:push:0"))
    fail_msg("%s", u->weakest);
  assert_int_equal(u->degrees, 2);
  pbTask_Destroy(task);

  // nothing depends on the third; what is at its bound is held there
  task = parse(*state, PUSHED,
               "{\"parameter\": \"body_mass:p\", \"lower\": 2}, {\"parameter\": \"dof_frictionloss:x\"}, {\"state\": \"qvel\"}",
               loss);
  u = uncertainty(*state, task, pbTask_Start(task));
  assert_int_equal(u->determined[0], pb_isAtBound);
  assert_int_equal(u->determined[2], pb_isDetermined);
  near(u->deviation[2], 0.1 / sqrt(0.04 + 0.25 + 0.49 + 1), 1e-6, "the velocity alone");
  pbTask_Destroy(task);

  task = parse(*state, PUSHED, "{\"parameter\": \"gravity:1\"}, {\"state\": \"qvel\"}", loss);
  u = uncertainty(*state, task, pbTask_Start(task));
  assert_int_equal(u->determined[0], pb_isUndetermined);
  assert_int_equal(u->determined[1], pb_isDetermined);
  pbTask_Destroy(task);

  // as many unknowns as samples
  task = parse(*state, PUSHED, "{\"parameter\": \"body_mass:p\"}, {\"state\": \"qvel\"}",
               "{\"qpos\": \"x\", \"at\": [0.5, 1], \"target\": [0.1, 0.2]}");
  u = uncertainty(*state, task, pbTask_Start(task));
  assert_string_equal(u->why, "2 samples do not determine 2 unknowns");
  pbTask_Destroy(task);
}

// ---- what is known before ---------------------------------------------------------------------------------------------------
// Of a mean with a prior: weights are those of the variances; gradient, residuals and deviation say so.
static void test_priors(void **state) {
  const char *loss = "{\"qpos\": \"x\", \"at\": [0.5, 1], \"target\": [1.5, 1.7], \"sigma\": 0.2}";
  pbTask *task = parse(*state, LINE, "{\"state\": \"qpos\", \"scale\": 4, \"prior\": {\"mean\": 1, \"sigma\": 0.1}}", loss);
  pbRunResult result;
  good(*state, pbTask_Run(task, NULL, &result));
  double precision = 2 / 0.04 + 1 / 0.01, found = (3.2 / 0.04 + 1 / 0.01) / precision;
  near(4 * result.z[0], found, 1e-9, "weighted mean");
  near(result.uncertainty->deviation[0], 1 / sqrt(precision), 1e-9, "deviation");
  near(result.loss, (pow(1.5 - found, 2) + pow(1.7 - found, 2)) / 0.04 + pow(found - 1, 2) / 0.01, 1e-9, "loss");
  assert_int_equal(pbTask_ResidualCount(task), 3);

  double z = 0.3, value, g, r[3], J[3];
  good(*state, pbTask_Loss(task, &z, &value, &g));
  good(*state, pbTask_Residuals(task, &z, r, J));
  near(2 * (J[0] * r[0] + J[1] * r[1] + J[2] * r[2]), g, 1e-12, "gradient");
  pbTask_Destroy(task);

  // of a logarithm relative, about the start; what the samples do not see is what was known
  task =
      parse(*state, LINE,
            "{\"state\": \"qpos\"}, {\"parameter\": \"body_mass:p\", \"transform\": \"log\", \"prior\": {\"sigma\": 0.3}}", loss);
  const pbUncertainty *u = uncertainty(*state, task, pbTask_Start(task));
  near(u->deviation[1], 2 * 0.3, 1e-9, "deviation of the prior");
  near(u->upper[1], 2 * exp(1.959963984540054 * 0.3), 1e-9, "interval of the prior");
  pbTask_Destroy(task);

  // beside samples that are better known, though nobody said how well, it is what is known least, as well as it says
  task = parse(*state, LINE,
               "{\"state\": \"qpos\"}, {\"parameter\": \"body_mass:p\", \"transform\": \"log\", \"prior\": {\"sigma\": 0.3}}",
               "{\"qpos\": \"x\", \"at\": [0.5, 1], \"target\": [1.5, 1.7]}");
  u = uncertainty(*state, task, (const double[]){1.6, log(2)});
  assert_string_equal(u->weakest, "determined least: body_mass:p +0.6 together (one standard deviation)");
  pbTask_Destroy(task);

  static const struct {
    const char *prior, *says;
  } cases[] = {{"3", "variables[0].prior: expected an object"},
               {"{\"mean\": 1}", "variables[0].prior: expected an object"},
               {"{\"sigma\": 0}", "variables[0].prior.sigma: expected standard deviations above zero"},
               {"{\"sigma\": [1, 2]}", "variables[0].prior.sigma: expected 1 numbers"},
               {"{\"sigma\": 1, \"mode\": 1}", "variables[0].prior: unknown key 'mode'"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[2000];
    snprintf(text, sizeof text,
             "{" LINE ", \"variables\": [{\"state\": \"qpos\", \"prior\": %s}], \"loss\": [{\"qpos\": \"x\"}]}", cases[i].prior);
    pbStatus status = pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task);
    if (status == pb_ok || !strstr(pbContext_Error(*state), cases[i].says))
      fail_msg("%s: %s", cases[i].prior, pbContext_Error(*state));
  }
}

// ---- models that are wrong ------------------------------------------------------------------------------------------------
static void test_a_wrong_model_is_warned_of(void **state) {
  char at[2000] = "", target[3000] = "", loss[8000];
  pbRng rng = pbRng_Seed(5);
  for (int k = 0; k < 80; k++) {
    double t = 0.0125 * k;
    snprintf(at + strlen(at), sizeof at - strlen(at), "%s%.6g", k ? ", " : "", t);
    snprintf(target + strlen(target), sizeof target - strlen(target), "%s%.9g", k ? ", " : "",
             1 + 2 * t + 0.5 * t * t + 0.02 * pbRng_Normal(&rng));
  }

  // a line through a parabola: with sigma and without
  for (int known = 0; known < 2; known++) {
    snprintf(loss, sizeof loss, "{\"qpos\": \"x\", \"at\": [%s], \"target\": [%s]%s}", at, target,
             known ? ", \"sigma\": 0.02" : "");
    pbTask *task = parse(*state, LINE, "{\"state\": \"qpos\"}, {\"state\": \"qvel\"}", loss);
    pbRunResult result;
    good(*state, pbTask_Run(task, NULL, &result));
    assert_non_null(strstr(result.uncertainty->warning, known ? "the model cannot be right" : "follow one another"));
    pbTask_Destroy(task);
  }

  // a sigma that is too large, of a right model
  target[0] = 0;
  for (int k = 0; k < 80; k++)
    snprintf(target + strlen(target), sizeof target - strlen(target), "%s%.9g", k ? ", " : "",
             1 + 2 * 0.0125 * k + 0.02 * pbRng_Normal(&rng));
  snprintf(loss, sizeof loss, "{\"qpos\": \"x\", \"at\": [%s], \"target\": [%s], \"sigma\": 0.05}", at, target);
  pbTask *task = parse(*state, LINE, "{\"state\": \"qpos\"}, {\"state\": \"qvel\"}", loss);
  pbRunResult result;
  good(*state, pbTask_Run(task, NULL, &result));
  assert_non_null(strstr(result.uncertainty->warning, "sigma is too large"));
  pbTask_Destroy(task);
}

// ---- clusters -------------------------------------------------------------------------------------------------------------
enum { RUNS = 12, OF_A_RUN = 10 };

// A constant x through samples of runs, each off by a number of its own: a task of RUNS trajectories.
static pbTask *runs_task(pbContext *ctx, const double y[RUNS][OF_A_RUN], const char *sigma, bool clusters) {
  size_t room = 1 << 16, used;
  char *text = malloc(room);
  used = (size_t)snprintf(text, room,
                          "{" LINE
                          ", \"variables\": [{\"state\": \"qpos\"}], \"optimizer\": {\"method\": \"gauss-newton\"}, "
                          "\"trajectories\": [");
  for (int g = 0; g < RUNS; g++) {
    used += (size_t)snprintf(text + used, room - used, "%s{", g ? ", " : "");
    if (clusters) used += (size_t)snprintf(text + used, room - used, "\"cluster\": \"run %d\", ", g / 2);
    used +=
        (size_t)snprintf(text + used, room - used,
                         "\"loss\": [{\"qpos\": \"x\", \"at\": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1], \"target\": [");
    for (int i = 0; i < OF_A_RUN; i++) used += (size_t)snprintf(text + used, room - used, "%s%.17g", i ? ", " : "", y[g][i]);
    used += (size_t)snprintf(text + used, room - used, "]%s}]}", sigma);
  }
  snprintf(text + used, room - used, "]}");
  pbTask *task;
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  free(text);
  return task;
}

static void draw_runs(pbRng *rng, double y[RUNS][OF_A_RUN]) {
  double common = 0;
  for (int g = 0; g < RUNS; g++) {
    if (g % 2 == 0) common = 0.1 * pbRng_Normal(rng);
    for (int i = 0; i < OF_A_RUN; i++) y[g][i] = 1 + common + 0.02 * pbRng_Normal(rng);
  }
}

// Of a mean: var = G / (G - 1) sum over clusters of (sum of deviations)^2 / m^2; Student's with G - 1. No sigma changes it.
static void test_clusters_of_a_mean(void **state) {
  static const char *const sigma[2] = {"", ", \"sigma\": 0.02"};
  double y[RUNS][OF_A_RUN], mean = 0, squares = 0, deviation[2];
  const int clusters = RUNS / 2, m = RUNS * OF_A_RUN;
  pbRng rng = pbRng_Seed(4);
  draw_runs(&rng, y);
  for (int i = 0; i < m; i++) mean += y[i / OF_A_RUN][i % OF_A_RUN] / m;
  for (int c = 0; c < clusters; c++) {
    double sum = 0;
    for (int i = 0; i < 2 * OF_A_RUN; i++) sum += y[2 * c + i / OF_A_RUN][i % OF_A_RUN] - mean;
    squares += sum * sum;
  }

  for (int known = 0; known < 2; known++) {
    pbTask *task = runs_task(*state, y, sigma[known], true);
    const pbUncertainty *u = uncertainty(*state, task, &mean);
    deviation[known] = u->deviation[0];
    near(u->deviation[0], sqrt(squares * clusters / (clusters - 1)) / m, 1e-9, "deviation by clusters");
    near((u->upper[0] - u->lower[0]) / u->deviation[0], 2 * 2.570581835636314, 1e-5, "Student's with five degrees");
    assert_int_equal(u->clusters, clusters);
    assert_non_null(strstr(u->warning, "follow one another"));
    assert_null(strstr(u->warning, "too narrow"));
    pbTask_Destroy(task);
  }
  near(deviation[0], deviation[1], 1e-12, "whatever sigma");
}

// Runs that are off as wholes: by samples the interval says far too little, by clusters what it should.
static void test_intervals_by_clusters_hold_the_truth(void **state) {
  enum { TIMES = 600 };
  int held[2] = {0};
  pbRng rng = pbRng_Seed(11);
  for (int k = 0; k < TIMES; k++) {
    double y[RUNS][OF_A_RUN], mean = 0;
    draw_runs(&rng, y);
    for (int i = 0; i < RUNS * OF_A_RUN; i++) mean += y[i / OF_A_RUN][i % OF_A_RUN] / (RUNS * OF_A_RUN);
    for (int clusters = 0; clusters < 2; clusters++) {
      pbTask *task = runs_task(*state, y, "", clusters);
      const pbUncertainty *u = uncertainty(*state, task, &mean);
      held[clusters] += u->lower[0] <= 1 && 1 <= u->upper[0];
      if (!clusters) assert_int_equal(u->clusters, 0);
      pbTask_Destroy(task);
    }
  }
  printf("intervals hold the truth in %.1f %% by clusters, in %.1f %% by samples\n", 100.0 * held[1] / TIMES,
         100.0 * held[0] / TIMES);
  assert_true(held[1] >= 0.92 * TIMES && held[1] <= 0.98 * TIMES);
  assert_true(held[0] <= 0.6 * TIMES);
}

// What one cluster alone sees has no spread; one cluster alone says nothing at all.
static void test_what_one_cluster_sees(void **state) {
  static const char text[] =
      "{" LINE
      ", \"variables\": [{\"state\": \"qpos\"}, {\"state\": \"qvel\", \"trajectory\": 1}], \"optimizer\": {\"method\": "
      "\"gauss-newton\"}, \"trajectories\": ["
      "{\"cluster\": 7, \"loss\": [{\"qpos\": \"x\", \"at\": [0.5, 1], \"target\": [1, 1.1]}]}, "
      "{\"loss\": [{\"qpos\": \"x\", \"at\": [0.5, 1], \"target\": [1.3, 1.8]}]}, "
      "{%s\"loss\": [{\"qpos\": \"x\", \"at\": [0.5, 1], \"target\": [0.8, 0.9]}]}]}";
  for (int tests = 0; tests < 2; tests++) {
    char whole[2000];
    pbTask *task;
    const double z[2] = {1, 0.5};
    snprintf(whole, sizeof whole, text, tests ? "\"role\": \"test\", " : "");
    good(*state, pbTask_Parse(*state, whole, strlen(whole), NULL, "test.json", &task));
    const pbUncertainty *u = uncertainty(*state, task, z);
    assert_int_equal(u->clusters, tests ? 2 : 3);
    assert_int_equal(u->determined[0], pb_isDetermined);
    assert_int_equal(u->determined[1], pb_isOfOneCluster);
    assert_true(isnan(u->deviation[1]) && u->deviation[0] > 0);
    pbTask_Destroy(task);
  }

  double y[RUNS][OF_A_RUN] = {{0}};
  pbTask *task = runs_task(*state, y, "", true);
  for (int t = 2; t < RUNS; t++) task->trajectories[t].test = true;
  const double z = 0;
  assert_non_null(strstr(uncertainty(*state, task, &z)->why, "a single cluster"));
  pbTask_Destroy(task);
}

// ---- which tasks are fits ---------------------------------------------------------------------------------------------------
static void test_what_is_no_fit_says_why(void **state) {
  static const struct {
    const char *loss, *why;  // why NULL: nobody asks
  } cases[] = {
      {"{\"qpos\": \"x\"}", NULL},
      {"{\"qpos\": \"x\", \"at\": [0.1, 0.5, 1], \"target\": [1, 2, 3]}, {\"qvel\": \"x\", \"type\": \"linear\"}",
       "term 'qvel:x' is no deviation"},
      {"{\"qpos\": \"x\", \"at\": [0.1, 0.5, 1], \"target\": [1, 2, 3], \"weight\": -1}", "term 'qpos:x' is no deviation"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[2000];
    pbTask *task;
    pbRunResult result;
    snprintf(text, sizeof text,
             "{" LINE
             ", \"variables\": [{\"state\": \"qvel\", \"lower\": -9, \"upper\": 9}], \"loss\": [%s], \"optimizer\": "
             "{\"iterations\": 2}}",
             cases[i].loss);
    good(*state, pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task));
    good(*state, pbTask_Run(task, NULL, &result));
    if (cases[i].why) assert_non_null(strstr(result.uncertainty->why, cases[i].why));
    else assert_null(result.uncertainty);
    pbTask_Destroy(task);
  }
}

// Lengths of axes have no meaning: deviations are those of the axis on the sphere.
static void test_an_axis_has_the_uncertainty_of_its_direction(void **state) {
  const char *loss = "{\"qvel\": true, \"at\": [0.2, 0.5, 0.7, 1], \"target\": [[1], [2], [3], [4]], \"sigma\": 0.1}";
  double deviation[2][3];
  for (int i = 0; i < 2; i++) {
    char variables[200];
    snprintf(variables, sizeof variables, "{\"parameter\": \"jnt_axis:swing\", \"start\": [%s]}",
             i ? "0.3, 3, 0.6" : "0.1, 1, 0.2");
    pbTask *task = parse(*state, PENDULUM, variables, loss);
    const pbUncertainty *u = uncertainty(*state, task, pbTask_Start(task));
    for (int k = 0; k < 3; k++) deviation[i][k] = u->deviation[k];
    pbTask_Destroy(task);
  }
  for (int k = 0; k < 3; k++)
    assert_true(fabs(deviation[0][k] - deviation[1][k]) <= 1e-9 * deviation[0][k] ||
                (isnan(deviation[0][k]) && isnan(deviation[1][k])));
}

// Of a body that slides along x without gravity a spring sees the mass alone: it has the deviation that it has by itself, and of
// no other number of the body's inertia anything is said.
static void test_values_of_an_inertia_that_are_not_seen(void **state) {
  static const char *const world =
      "\"model\": \"<mujoco><option timestep='0.01' gravity='0 0 0'/><worldbody><body name='p'><joint name='x' type='slide' "
      "axis='1 0 0' stiffness='30' ref='-.3'/><inertial pos='.1 .02 .03' quat='.9 .1 .2 .3' mass='.5' diaginertia='.004 .005 "
      ".006'/></body></worldbody></mujoco>\", \"steps\": 100";
  const char *loss = "{\"qpos\": \"x\", \"at\": [0.2, 0.5, 0.7, 1], \"target\": [[0.1], [0.2], [0.3], [0.1]], \"sigma\": 0.1}";
  pbTask *alone = parse(*state, world, "{\"parameter\": \"body_mass:p\"}", loss);
  pbTask *whole = parse(*state, world, "{\"body\": \"p\", \"transform\": \"inertia\"}", loss);
  double deviation = uncertainty(*state, alone, pbTask_Start(alone))->deviation[0];
  const pbUncertainty *u = uncertainty(*state, whole, pbTask_Start(whole));

  assert_true(deviation > 0);
  near(u->deviation[0], deviation, 1e-9, "mass");
  assert_int_equal(u->determined[0], pb_isDetermined);
  for (int k = 1; k < 10; k++) {
    assert_int_equal(u->determined[k], pb_isUndetermined);
    assert_true(isnan(u->deviation[k]));
  }
  pbTask_Destroy(alone);
  pbTask_Destroy(whole);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_straight_line),
                                     cmocka_unit_test(test_transforms_and_weights),
                                     cmocka_unit_test(test_a_logarithm_without_bounds),
                                     cmocka_unit_test(test_huber_within_delta_is_squares),
                                     cmocka_unit_test(test_a_norm_of_one_number),
                                     cmocka_unit_test(test_intervals_hold_the_truth),
                                     cmocka_unit_test(test_a_redundant_pair_is_named),
                                     cmocka_unit_test(test_priors),
                                     cmocka_unit_test(test_a_wrong_model_is_warned_of),
                                     cmocka_unit_test(test_clusters_of_a_mean),
                                     cmocka_unit_test(test_intervals_by_clusters_hold_the_truth),
                                     cmocka_unit_test(test_what_one_cluster_sees),
                                     cmocka_unit_test(test_what_is_no_fit_says_why),
                                     cmocka_unit_test(test_an_axis_has_the_uncertainty_of_its_direction),
                                     cmocka_unit_test(test_values_of_an_inertia_that_are_not_seen)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
