// Tasks: answers known in closed form, gradients against differences, runs that are stopped and resumed, bad files.
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

#include "optimize/task.h"
#include "rollout/rollout.h"
#include "step/scratch.h"
#include "support/meter.h"
#include "support/support.h"

#define POINT_MODEL                                                                                                     \
  "\"model\": \"<mujoco><option timestep='0.01'/><worldbody><body name='p'><joint name='x' type='slide' axis='1 0 0'/>" \
  "<joint name='z' type='slide' axis='0 0 1'/><geom type='sphere' size='.1' mass='2'/></body></worldbody></mujoco>\""

// Pendulum with motor, ball joint, sensors: every kind of variable and term.
#define ARM_MODEL                                                                                                                \
  "\"model\": \"<mujoco><option timestep='0.005'/><worldbody>"                                                                   \
  "<body name='top' pos='0 0 1'><joint name='ball' type='ball' damping='.05'/><geom type='capsule' size='.03' fromto='0 0 0 .4 " \
  "0 .1'/>"                                                                                                                      \
  "<body name='low' pos='.4 0 .1'><joint name='hinge' axis='0 1 0' damping='.1'/><geom type='capsule' size='.02' fromto='0 0 0 " \
  ".3 0 0'/>"                                                                                                                    \
  "<site name='end' pos='.3 0 0'/></body></body></worldbody>"                                                                    \
  "<actuator><general name='motor' joint='hinge' dyntype='filter' dynprm='.05' gainprm='2'/></actuator>"                         \
  "<sensor><jointpos name='angle' joint='hinge'/><framepos name='tip' objtype='site' objname='end'/></sensor></mujoco>\""

static pbTask *parse(pbContext *ctx, const char *text) {
  pbTask *task;
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  return task;
}

// x_N = N h v and z_N = z0 + N h v - g h^2 N (N + 1) / 2: one Gauss-Newton step solves it (semi-implicit Euler, exactly).
static void test_projectile(void **state) {
  pbTask *task = parse(*state, "{" POINT_MODEL
                               ", \"steps\": 100,"
                               "\"variables\": [{\"state\": \"qvel\"}],"
                               "\"loss\": [{\"name\": \"target\", \"body\": \"p\", \"components\": [0, 2], \"target\": [3, 1]}],"
                               "\"optimizer\": {\"method\": \"gauss-newton\", \"damping\": 1e-14},"
                               "\"stop\": {\"terms\": {\"target\": 1e-9}}, \"confirm\": true}");
  const double *lower, *upper;
  pbTask_Bounds(task, &lower, &upper);
  for (int i = 0; i < pbTask_Size(task); i++) assert_true(lower[i] == -INFINITY && upper[i] == INFINITY);
  const pbRolloutPlan *plan = pbTask_Plan(task, 0);
  assert_int_equal(plan->steps, 100);
  assert_int_equal(pbTask_Steps(task, 0), 100);

  pbRunResult result;
  good(*state, pbTask_Run(task, NULL, &result));
  assert_true(result.met && result.simulations == 2 && result.gradients == 1);
  assert_true(fabs(result.z[0] - 3) < 1e-12);
  assert_true(fabs(result.z[1] - (1 + 9.81 * 1e-4 * 100 * 101 / 2)) < 1e-10);
  assert_true(result.confirmed_run && result.confirm_timestep == 0.0025);
  double dz = 9.81 / 2 * (0.01 - 0.0025);  // what the finer step falls less
  assert_true(fabs(result.confirm_loss - dz * dz) < 1e-6);
  char *json;
  good(*state, pbTask_ResultJson(task, &result, &json));
  assert_non_null(strstr(json, "\"met\": true"));
  assert_non_null(strstr(json, "\"spot_error\""));
  pbContext_Free(*state, json);
  pbTask_Destroy(task);
}

static const char arm_task[] =
    "{" ARM_MODEL
    ", \"steps\": 40, \"init\": {\"joints\": {\"ball\": {\"qpos\": [0.8, 0.2, 0.5, 0.1], \"qvel\": [1, -2, 0.5]}, \"hinge\": "
    "{\"qpos\": 0.3}}},"
    "\"controls\": [0.5], \"constants\": \"%s\","
    "\"variables\": ["
    "{\"parameter\": \"body_mass:low\", \"start\": 0.7, \"transform\": \"log\"},"
    "{\"parameter\": \"dof_damping:hinge\", \"start\": 0.2, \"scale\": 0.5},"
    "{\"parameter\": \"gravity\", \"components\": [2, 0]},"
    "{\"state\": \"qpos\", \"start\": [0.3, -0.2, 0.4, 0.1]}, {\"state\": \"qvel\", \"joint\": [\"hinge\", \"ball\"], "
    "\"components\": [0, 2]},"
    "{\"state\": \"act\", \"start\": 0.2},"
    "{\"control\": \"motor\", \"knots\": 3, \"interpolation\": \"linear\", \"start\": [0.3, -0.4, 0.9]}],"
    "\"loss\": ["
    "{\"qpos\": true, \"at\": [0.05, 0.1], \"target\": [[0.9, 0.1, 0, 0.3, 0.2], [0.5, 0.5, 0.5, 0.5, -1]]},"
    "{\"qvel\": \"ball\", \"at\": \"all\", \"weight\": 0.3, \"mean\": true}, {\"act\": true, \"at\": \"all\"},"
    "{\"sensor\": [\"angle\", \"tip\"], \"at\": {\"from\": 0.02, \"every\": 0.02}, \"target\": [0.1, 0.2, 0.3, 0.4]},"
    "{\"body\": \"low\", \"target\": [0.1, 0, 0.7]}, {\"site\": \"end\", \"components\": [2], \"at\": [0, 0.2], \"target\": "
    "[0.3, 0.4]},"
    "{\"control\": true, \"at\": \"all\", \"weight\": 0.1}%s]}";

static pbTask *arm(pbContext *ctx, const char *constants, const char *more) {
  char text[8192];
  snprintf(text, sizeof text, arm_task, constants, more);
  return parse(ctx, text);
}

static double loss_at(pbContext *ctx, pbTask *task, const double *z, int i, double step) {
  double moved[32], value;
  memcpy(moved, z, (size_t)pbTask_Size(task) * sizeof *z);
  moved[i] += step;
  good(ctx, pbTask_Loss(task, moved, &value, NULL));
  return value;
}

static void check_gradient(pbContext *ctx, const char *constants, const char *more) {
  pbTask *task = arm(ctx, constants, more);
  int n = pbTask_Size(task);
  double g[32], value;
  assert_int_equal(n, 4 + 4 + 2 + 1 + 3);
  const double *z = pbTask_Start(task);
  good(ctx, pbTask_Loss(task, z, &value, g));
  for (int i = 0; i < n; i++) {
    const double h = 1e-3;  // Richardson: error h^4
    double coarse = (loss_at(ctx, task, z, i, h) - loss_at(ctx, task, z, i, -h)) / (2 * h);
    double fine = (loss_at(ctx, task, z, i, h / 2) - loss_at(ctx, task, z, i, -h / 2)) / h, difference = (4 * fine - coarse) / 3;
    char name[100];
    pbTask_Unknown(task, i, z, name, sizeof name, NULL);
    if (!(fabs(difference - g[i]) <= 1e-8 * (1 + fabs(g[i])))) fail_msg("%s: %.12g, difference %.12g", name, g[i], difference);
    assert_true(fabs(g[i]) > 1e-6);
  }
  pbTask_Destroy(task);
}
static void test_gradient_by_every_kind_of_variable_and_term(void **state) {
  check_gradient(*state, "keep", "");
  check_gradient(*state, "keep",
                 ", {\"sensor\": \"tip\", \"type\": \"norm\", \"at\": \"all\"}, {\"qpos\": \"hinge\", \"type\": \"huber\", "
                 "\"delta\": 0.05, \"at\": \"all\"}");
  check_gradient(*state, "recompute", "");
}

// Largest entry of a field in what the pullback gave by all parameters.
static double pulled(pbContext *ctx, const pbTask *task, const char *field) {
  pbParam p;
  double most = 0;
  good(ctx, pbModel_Param(ctx, task->model, field, &p));
  for (size_t i = 0; i < (size_t)p.rows * (size_t)p.cols; i++) most = fmax(most, fabs(task->theta_bar[p.offset + i]));
  return most;
}

// A ball that slides on a floor: contacts depend on what is derived from its mass.
static const char sliding_task[] =
    "{\"model\": \"<mujoco><worldbody><geom name='floor' type='plane' size='1 1 1'/><body name='b' pos='0 0 .099'><freejoint/>"
    "<geom type='sphere' size='.1' mass='2'/></body></worldbody></mujoco>\", \"steps\": 20, \"constants\": \"recompute\", "
    "\"variables\": "
    "[{\"parameter\": \"body_mass:b\"}, {\"parameter\": \"geom_friction:floor\"}], \"init\": {\"qvel\": [1, 0.2, 0, 0, 0, 0]}, "
    "\"loss\": [{\"qpos\": true, \"type\": \"norm\"}]}";

static void test_derived_constants_are_pulled_back(void **state) {
  pbTask *task = parse(*state, sliding_task);
  double few[32], all[32], value;
  good(*state, pbTask_Loss(task, pbTask_Start(task), &value, few));
  good(*state, pbRollout_WantParameters(task->trajectories[0].rollout, NULL, 0, false));
  good(*state, pbTask_Loss(task, pbTask_Start(task), &value, all));
  assert_true(few[0] != 0 && few[1] != 0);
  assert_memory_equal(few, all, (size_t)pbTask_Size(task) * sizeof(double));
  pbTask_Destroy(task);
}

// Pullbacks give what the variables need, with the bits of a gradient by everything, and leave the rest out.
static void test_only_the_fields_of_variables_are_pulled_back(void **state) {
  for (int recompute = 0; recompute < 2; recompute++) {
    pbTask *task = arm(*state, recompute ? "recompute" : "keep", "");
    size_t bytes = (size_t)pbTask_Size(task) * sizeof(double), m = pbTask_ResidualCount(task);
    double few[32], all[32], value;
    good(*state, pbTask_Loss(task, pbTask_Start(task), &value, few));
    assert_true(task->trajectories[0].rollout->scratch->skip != 0);
    assert_true(pulled(*state, task, "dof_damping") > 0 && pulled(*state, task, "body_mass") > 0);
    if (!recompute) assert_true(pulled(*state, task, "jnt_pos") == 0 && pulled(*state, task, "actuator_gear") == 0);
    double *J = calloc(2 * m * 32, sizeof *J), *r = calloc(m, sizeof *r), *J_all = J + m * 32;
    good(*state, pbTask_Residuals(task, pbTask_Start(task), r, J));

    good(*state, pbRollout_WantParameters(task->trajectories[0].rollout, NULL, 0, false));
    good(*state, pbTask_Loss(task, pbTask_Start(task), &value, all));
    assert_true(pulled(*state, task, "jnt_pos") > 0 && pulled(*state, task, "actuator_gear") > 0);
    good(*state, pbTask_Residuals(task, pbTask_Start(task), r, J_all));
    assert_memory_equal(few, all, bytes);
    assert_memory_equal(J, J_all, m * bytes);
    free(J);
    free(r);
    pbTask_Destroy(task);
  }
}

static void test_jacobian_against_differences(void **state) {
  for (int recompute = 0; recompute < 2; recompute++) {
    pbTask *task = arm(*state, recompute ? "recompute" : "keep", "");
    size_t n = (size_t)pbTask_Size(task), m = pbTask_ResidualCount(task);
    double *J = calloc(m * n, sizeof *J), *r[4], z[32];
    const double steps[4] = {1e-3, -1e-3, 5e-4, -5e-4};
    for (int i = 0; i < 4; i++) r[i] = calloc(m, sizeof(double));
    good(*state, pbTask_Residuals(task, pbTask_Start(task), r[0], J));
    for (size_t i = 0; i < n; i++) {
      for (int k = 0; k < 4; k++) {
        memcpy(z, pbTask_Start(task), n * sizeof *z);
        z[i] += steps[k];
        good(*state, pbTask_Residuals(task, z, r[k], NULL));
      }
      for (size_t k = 0; k < m; k++) {
        double difference = (4 * (r[2][k] - r[3][k]) / 1e-3 - (r[0][k] - r[1][k]) / 2e-3) / 3;
        if (!(fabs(difference - J[k * n + i]) <= 1e-8 * (1 + fabs(difference)))) {
          char name[100];
          pbTask_Unknown(task, (int)i, z, name, sizeof name, NULL);
          fail_msg("residual %zu by %s: %.12g, difference %.12g", k, name, J[k * n + i], difference);
        }
      }
    }
    for (int i = 0; i < 4; i++) free(r[i]);
    free(J);
    pbTask_Destroy(task);
  }
}

// Jacobian (forward mode, for there are more residuals than unknowns) against the gradient (reverse mode): g = 2 J'r.
static void test_residuals_agree_with_the_gradient(void **state) {
  for (int recompute = 0; recompute < 2; recompute++) {
    pbTask *task = arm(*state, recompute ? "recompute" : "keep", "");
    size_t n = (size_t)pbTask_Size(task), m = pbTask_ResidualCount(task);
    double *r = calloc(m, sizeof *r), *J = calloc(m * n, sizeof *J), g[32], value, sum = 0;
    assert_true(m > 2 * n);
    good(*state, pbTask_Residuals(task, pbTask_Start(task), r, J));
    good(*state, pbTask_Loss(task, pbTask_Start(task), &value, g));
    for (size_t k = 0; k < m; k++) sum += r[k] * r[k];
    assert_true(fabs(sum - value) <= 1e-12 * value);
    for (size_t i = 0; i < n; i++) {
      double from_J = 0;
      for (size_t k = 0; k < m; k++) from_J += 2 * J[k * n + i] * r[k];
      assert_true(fabs(from_J - g[i]) <= 1e-9 * (1 + fabs(g[i])));
    }
    free(r);
    free(J);
    pbTask_Destroy(task);
  }
}

// Mass and damping found from a recording with the file's own times.
static void record(pbContext *ctx, const char *path) {
  pbTask *task = parse(
      ctx, "{" ARM_MODEL
           ", \"steps\": 100, \"parameters\": {\"body_mass:low\": 0.9, \"dof_damping:hinge\": 0.25},"
           "\"init\": {\"joints\": {\"hinge\": {\"qpos\": 0.3}}},"
           "\"variables\": [{\"state\": \"qvel\", \"joint\": \"hinge\"}], \"loss\": [{\"sensor\": \"tip\", \"at\": \"all\"}]}");
  const pbModel *m = pbTask_Model(task);
  double *theta = malloc(pbModel_ParamSize(m) * sizeof *theta), *x0 = malloc((size_t)pbModel_StateSize(m) * sizeof *x0), time[21],
         rows[21][4];
  good(ctx, pbTask_Expand(task, pbTask_Start(task), 0, theta, x0, NULL));
  pbRolloutPlan plan;
  pbRollout *r;
  int steps[21];
  for (int i = 0; i < 21; i++) {
    steps[i] = 5 * i;
    time[i] = 0.025 * i;
  }
  good(ctx, pbRollout_PlanSlots(ctx, m, 100, 0, 1, &plan));
  good(ctx, pbRollout_Create(ctx, m, &plan, NULL, &r));
  pbRolloutOutput out = {.sensordata = rows[0], .rows = steps, .row_count = 21};
  good(ctx, pbRollout_Forward(r, theta, x0, NULL, &out));
  pbArrays *set;
  const size_t shape[2] = {21, 4};
  good(ctx, pbArrays_Create(ctx, &set));
  good(ctx, pbArrays_AddReals(set, "time", 1, shape, time, NULL));
  good(ctx, pbArrays_AddReals(set, "sensordata", 2, shape, rows[0], NULL));
  good(ctx, pbArrays_SaveNpz(set, path, false));
  pbArrays_Destroy(set);
  pbRollout_Destroy(r);
  free(theta);
  free(x0);
  pbTask_Destroy(task);
}

static const char identify[] = "{" ARM_MODEL
                               ", \"steps\": 100, \"init\": {\"joints\": {\"hinge\": {\"qpos\": 0.3}}},"
                               "\"variables\": [{\"parameter\": \"body_mass:low\", \"start\": 0.4, \"transform\": \"log\"}, "
                               "{\"parameter\": \"dof_damping:hinge\"}],"
                               "\"loss\": [{\"sensor\": \"tip\", \"target\": {\"file\": \"pb_recording.npz\"}}],"
                               "\"optimizer\": {\"method\": \"gauss-newton\"}, \"stop\": {\"loss\": 1e-20, \"gradient\": -1}}";

static void test_identification_from_a_recording(void **state) {
  pbTask *task;
  record(*state, "pb_recording.npz");
  good(*state, pbTask_Parse(*state, identify, strlen(identify), ".", "identify.json", &task));
  assert_int_equal(pbTask_ResidualCount(task), 21 * 3);
  pbRunResult result;
  good(*state, pbTask_Run(task, NULL, &result));
  double mass, damping;
  char name[64];
  pbTask_Unknown(task, 0, result.z, name, sizeof name, &mass);
  assert_string_equal(name, "body_mass:low");
  pbTask_Unknown(task, 1, result.z, name, sizeof name, &damping);
  print_message("mass %.12g damping %.12g in %d iterations, %d simulations\n", mass, damping, result.iterations,
                (int)result.simulations);
  assert_true(result.met && fabs(mass - 0.9) < 1e-7 && fabs(damping - 0.25) < 1e-7);
  pbTask_Destroy(task);
  unlink("pb_recording.npz");
}

// Stopped by the callback at any moment and resumed, a run ends with the same numbers as an undisturbed one.
typedef struct Stopper {
  int calls, stop_at;
} Stopper;
static int count_calls(void *user, const pbProgress *p) {
  Stopper *s = user;
  (void)p;
  return ++s->calls == s->stop_at;
}

static void resume_task(pbContext *ctx, pbTask *task, const char *method, int iterations) {
  const char *file = "pb_test_state.npy";
  pbRunOptions options = {.method = method, .iterations = iterations, .has_seed = true, .seed = 4};
  pbRunResult whole, part;
  double z[32];
  good(ctx, pbTask_Run(task, &options, &whole));
  memcpy(z, whole.z, sizeof *z * (size_t)pbTask_Size(task));
  unlink(file);
  Stopper stopper = {0, 3};
  options.state_file = file;
  options.resume = true;
  options.progress = count_calls;
  options.user = &stopper;
  options.save_seconds = 1e-9;
  pbStatus status = pb_interrupted;
  int rounds = 0;
  for (; status == pb_interrupted && rounds < 1000; rounds++) {
    stopper.calls = 0;
    stopper.stop_at += 2;
    status = pbTask_Run(task, &options, &part);
  }
  good(ctx, status);
  assert_true(rounds > 2 && part.resumed);
  assert_memory_equal(z, part.z, sizeof *z * (size_t)pbTask_Size(task));
  assert_true(part.loss == whole.loss && part.simulations == whole.simulations && part.iterations == whole.iterations &&
              part.start_loss == whole.start_loss && part.left == whole.left && part.outcome == whole.outcome);
  options.seed = 5;
  assert_int_equal(pbTask_Run(task, &options, &part), pb_bad_input);  // the state is another run's
  unlink(file);
  pbTask_Destroy(task);
}

static void resumed_run(pbContext *ctx, const char *method, int iterations) {
  resume_task(ctx, arm(ctx, "keep", ""), method, iterations);
}

// Interrupted before, while and after it leaves the saddle that it begins at.
static void test_interrupted_runs_leave_saddles(void **state) {
  static const char *const text =
      "{\"model\": \"<mujoco><option timestep='0.01'/><worldbody><body><joint name='j' axis='0 1 0'/><geom type='capsule' "
      "size='.02' fromto='0 0 0 0 0 .5' mass='1'/><site name='tip' pos='0 0 .5'/></body></worldbody></mujoco>\", \"steps\": 10,"
      "\"variables\": [{\"state\": \"qpos\", \"start\": 0}], \"loss\": [{\"site\": \"tip\", \"components\": [2], "
      "\"target\": [-0.4]}]}";
  static const char *const methods[] = {"lbfgs", "gauss-newton", "adam"};
  for (int k = 0; k < 3; k++) resume_task(*state, parse(*state, text), methods[k], 8);
}

static void test_interrupted_runs_lose_nothing(void **state) {
  resumed_run(*state, "gauss-newton", 6);
  resumed_run(*state, "cmaes", 12);
  resumed_run(*state, "lbfgs", 12);
  resumed_run(*state, "adam", 20);
  resumed_run(*state, "es", 8);
  resumed_run(*state, "sep-cma", 12);
}

// Whatever the method, what is said of the start is the loss there, and its evaluation is counted.
static void test_the_loss_at_the_start_is_told(void **state) {
  double value;
  pbTask *task = arm(*state, "keep", "");
  good(*state, pbTask_Loss(task, pbTask_Start(task), &value, NULL));
  for (int method = 0; method < pb_methodCount; method++) {
    pbRunResult result;
    if (method == pb_methodIlqr) continue;  // of controls and initial states
    pbRunOptions options = {.method = pbMethod_Name((pbMethod)method), .iterations = 1};
    good(*state, pbTask_Run(task, &options, &result));
    assert_true(fabs(result.start_loss - value) <= 1e-12 * value && result.loss <= value);
    if (method == pb_methodCmaes || method == pb_methodSepCma) assert_int_equal(result.simulations, 1 + 11);
    if (method == pb_methodEs) assert_int_equal(result.simulations, 1 + 12);
  }
  pbTask_Destroy(task);
}

static void test_several_trajectories(void **state) {
  pbTask *task = parse(
      *state, "{" POINT_MODEL
              ", \"steps\": 50, \"options\": {\"gravity\": [0, 0, 0]},"
              "\"variables\": [{\"parameter\": \"body_mass:p\"}, {\"state\": \"qvel\", \"joint\": \"x\", \"trajectory\": 1}],"
              "\"trajectories\": [{\"init\": {\"qvel\": [1, 0]}, \"loss\": [{\"qpos\": \"x\", \"target\": 0.5}]},"
              "{\"loss\": [{\"qpos\": \"x\", \"target\": 1}]}], \"optimizer\": {\"method\": \"gauss-newton\"}}");
  pbRunResult result;
  assert_int_equal(pbTask_TrajectoryCount(task), 2);
  good(*state, pbTask_Run(task, NULL, &result));
  assert_true(fabs(result.z[1] - 2) < 1e-9 && result.z[0] == 2 && result.loss < 1e-18);
  pbTask_Destroy(task);
}

// ---- bad files ------------------------------------------------------------------------------------------------------
static void test_bad_tasks_are_refused_with_the_place(void **state) {
#define REST "\"steps\": 5, \"variables\": [{\"state\": \"qvel\"}], \"loss\": [{\"qpos\": \"x\"}]"
  static const struct {
    const char *text, *says;
  } cases[] = {
      {"", "not valid JSON"},
      {"[]", "object"},
      {"{\"a\": 1e999}", "JSON"},
      {"{\"model\": 3}", "text"},
      {"{" POINT_MODEL ", \"steps\": 5, \"variables\": [], \"loss\": [{\"qpos\": \"x\"}]}", "variables"},
      {"{" POINT_MODEL ", " REST ", \"setps\": 3}", "did you mean"},
      {"{" POINT_MODEL ", " REST ", \"steps\": 3}", "duplicate"},
      {"{" POINT_MODEL ", " REST ", \"contact\": {\"kapa\": 1}}",
       "contact.kapa: unknown contact setting 'kapa', did you mean 'kappa'?"},
      {"{" POINT_MODEL ", " REST ", \"contact\": {\"kappa\": -1}}",
       "contact.kappa: contact setting kappa: expected a number from 0"},
      {"{" POINT_MODEL ", " REST ", \"contact\": {\"erp\": 0.2}}", "contact: contact setting erp is set and cfm is not"},
      {"{" POINT_MODEL ", " REST ", \"contact\": 1}", "contact: expected an object"},
      {"{" POINT_MODEL ", \"variables\": [{\"state\": \"qvel\"}], \"loss\": [{\"qpos\": \"x\"}]}", "missing"},
      {"{" POINT_MODEL ", \"steps\": 1e300, \"variables\": [{\"state\": \"qvel\"}], \"loss\": [{\"qpos\": \"x\"}]}",
       "whole number"},
      {"{" POINT_MODEL ", \"steps\": 5,\n \"variables\": [{\"state\": \"qvel\"},\n {\"parameter\": \"body_mas:p\"}], \"loss\": "
       "[{\"qpos\": \"x\"}]}",
       "test.json:3: variables[1].parameter"},
      {"{" POINT_MODEL
       ", \"steps\": 5, \"variables\": [{\"state\": \"qvel\"}], \"loss\": [{\"qpos\": \"x\"}, {\"qpos\": \"y\"}]}",
       "loss[1].qpos"},
      {"{" POINT_MODEL
       ", \"steps\": 5, \"variables\": [{\"state\": \"qvel\"}], \"loss\": [{\"qpos\": \"x\", \"at\": {\"every\": 0.015}}]}",
       "multiple"},
      {"{" POINT_MODEL ", \"steps\": 5, \"variables\": [{\"state\": \"qvel\"}], \"loss\": [{\"qpos\": \"x\", \"at\": [1]}]}",
       "outside"},
      {"{" POINT_MODEL
       ", \"steps\": 5, \"variables\": [{\"state\": \"qvel\"}], \"loss\": [{\"qpos\": \"x\", \"target\": [1, 2, 3]}]}",
       "target"},
      {"{" POINT_MODEL ", \"steps\": 5, \"variables\": [{\"state\": \"qvel\"}], \"loss\": [{\"qpos\": \"x\", \"target\": "
       "{\"file\": \"/etc/passwd\"}}]}",
       "cannot read files"},
      {"{" POINT_MODEL
       ", \"steps\": 5, \"variables\": [{\"state\": \"qvel\", \"lower\": 1, \"start\": 0}], \"loss\": [{\"qpos\": \"x\"}]}",
       "bounds"},
      {"{" POINT_MODEL ", \"steps\": 5, \"variables\": [{\"parameter\": \"body_mass:p\", \"transform\": \"log\", \"start\": 0}], "
       "\"loss\": [{\"qpos\": \"x\"}]}",
       "logarithm"},
      {"{" POINT_MODEL ", " REST ", \"parameters\": {\"body_mass:p\": -1}}", "body_mass"},
      {"{" POINT_MODEL ", " REST ", \"optimizer\": {\"method\": \"sgd\"}}", "unknown method"},
      {"{" POINT_MODEL ", " REST ", \"optimizer\": {\"method\": \"l-bfgs\"}}", "did you mean 'lbfgs'"},
      {"{" POINT_MODEL ", " REST ", \"optimizer\": {\"method\": \"gauss_newton\"}}", "did you mean 'gauss-newton'"},
      {"{" POINT_MODEL ", " REST ", \"optimizer\": {\"method\": \"CMA-ES\"}}", "did you mean 'cmaes'"},
      {"{" POINT_MODEL ", " REST ", \"parameters\": {\"dof_invweight0:0\": 3}, \"constants\": \"recompute\"}",
       "parameters.dof_invweight0:0: dof_invweight0:x follows"},
      {"{" POINT_MODEL ", \"steps\": 5, \"variables\": [{\"parameter\": \"dof_invweight0\"}], \"loss\": [{\"qpos\": \"x\"}], "
       "\"constants\": \"recompute\"}",
       "variables[0].parameter: dof_invweight0 follows"},
      {"{" POINT_MODEL ", " REST ", \"optimizer\": {\"rate\": [[1, 2]]}}", "rate"},
      {"{" POINT_MODEL ", " REST ", \"optimizer\": {\"method\": \"sep-cmaes\"}}", "did you mean 'sep-cma'"},
      {"{" POINT_MODEL ", " REST ", \"optimizer\": {\"clip\": -1}}", "optimizer.clip: expected a number from 0"},
      {"{" POINT_MODEL ", " REST ", \"optimizer\": {\"rate_interpolation\": \"cubic\"}}",
       "optimizer.rate_interpolation: expected"},
      {"{" POINT_MODEL ", " REST ", \"memory\": \"3 parsecs\"}", "memory"},
      {"{" POINT_MODEL ", " REST ", \"memory\": 3}", "memory"},
      {"{" POINT_MODEL ", " REST ", \"stop\": {\"terms\": {\"q\": 1}}}", "no term"},
      {"{\"model\": \"missing.xml\"}", "cannot read files"},
      {"{\"model\": \"<mujoco><bad/></mujoco>\"}", "model"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    pbTask *task;
    pbStatus status = pbTask_Parse(*state, cases[i].text, strlen(cases[i].text), NULL, "test.json", &task);
    if (status == pb_ok || !strstr(pbContext_Error(*state), cases[i].says))
      fail_msg("case %zu: status %d, '%s'", i, status, pbContext_Error(*state));
    assert_null(task);
  }
  size_t depth = 100000;
  char *deep = malloc(2 * depth + 1);
  memset(deep, '[', depth);
  memset(deep + depth, ']', depth);
  deep[2 * depth] = 0;
  pbTask *task;
  assert_int_equal(pbTask_Parse(*state, deep, 2 * depth, NULL, "deep", &task), pb_bad_input);
  free(deep);
}

static void test_files_outside_of_the_folder_are_refused(void **state) {
  const char *text = "{\"model\": \"/etc/passwd\"}";
  pbTask *task;
  assert_int_equal(pbTask_Parse(*state, text, strlen(text), ".", "t.json", &task), pb_unsupported);
  text = "{\"model\": \"no-such-file.xml\"}";
  assert_int_equal(pbTask_Parse(*state, text, strlen(text), ".", "t.json", &task), pb_file);
}

// Every allocation fails once: an error, no leak (the sanitizers' build sees it), and the context stays usable.
static void test_failing_allocations(void **state) {
  (void)state;
  const char *text =
      "{" POINT_MODEL
      ", \"steps\": 5, \"variables\": [{\"state\": \"qvel\"}, {\"name\": \"m\", \"parameter\": \"body_mass:p\"}, "
      "{\"name\": \"d\", \"start\": 0.1, \"sets\": {\"dof_damping\": [\"z\", \"z*m*c\"]}, \"constants\": {\"c\": 2}}],"
      "\"sample\": {\"worlds\": 2, \"init\": [{\"state\": \"qpos\", \"uniform\": [0, 1]}], \"parameters\": "
      "[{\"parameter\": \"body_mass:p\", \"list\": [1, 2], \"as\": \"factor\"}]},"
      "\"loss\": [{\"qpos\": \"x\", \"target\": 1, \"discount\": 1}, {\"body\": \"p\", \"at\": \"all\"}, "
      "{\"formula\": \"x^2 + t\", \"inputs\": {\"x\": {\"qpos\": \"x\"}}, \"type\": \"below\", \"target\": 0.5}], "
      "\"optimizer\": {\"method\": \"gauss-newton\", \"iterations\": 2}}";
  for (int fail_at = 1; fail_at < 2000; fail_at += fail_at < 40 ? 1 : 7) {
    Meter meter = {.fail_at = fail_at};
    pbAllocator allocator = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&allocator);
    if (!ctx) continue;
    pbTask *task;
    pbRunResult result;
    pbStatus status = pbTask_Parse(ctx, text, strlen(text), NULL, "t", &task);
    if (status == pb_ok) status = pbTask_Run(task, NULL, &result);
    pbCertificate certificate;
    if (status == pb_ok) status = pbTask_Certify(task, result.z, 0, &certificate);
    if (meter.calls >= fail_at) assert_int_equal(status, pb_no_memory);
    pbTask_Destroy(task);
    pbContext_Destroy(ctx);
    assert_int_equal(meter.live, 0);
    if (meter.calls < fail_at) return;
  }
}

// Whatever fails for want of memory once a point was evaluated: the best so far is the result, to the bit what a run with enough
// of it finds at that point.
static void test_an_end_has_its_best(void **state) {
  (void)state;
  const char *text =
      "{" POINT_MODEL
      ", \"steps\": 5, \"variables\": [{\"state\": \"qvel\"}], \"confirm\": 2, \"loss\": [{\"qpos\": \"x\", \"target\": 1}, "
      "{\"formula\": \"x^4\", \"inputs\": {\"x\": {\"qpos\": \"x\"}}}], \"optimizer\": {\"method\": \"lbfgs\", \"iterations\": "
      "6}}";
  int with_best = 0;
  pbContext *plain = pbContext_Create(NULL);
  pbTask *whole = parse(plain, text);

  for (int fail_at = 1; fail_at < 5000; fail_at++) {
    Meter meter = {.fail_at = fail_at, .fail_ever_after = true};
    pbAllocator allocator = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&allocator);
    if (!ctx) continue;
    pbTask *task;
    pbRunResult result = {.z = NULL};
    pbStatus status = pbTask_Parse(ctx, text, strlen(text), NULL, "t", &task);
    if (status == pb_ok) status = pbTask_Run(task, NULL, &result);
    if (meter.calls >= fail_at) assert_int_equal(status, pb_no_memory);

    // What is told is the truth about that point.
    if (status != pb_ok && result.z) {
      double loss;
      with_best++;
      assert_int_equal(result.outcome, pb_runFailed);
      assert_non_null(strstr(result.reason, "memory"));
      good(plain, pbTask_Loss(whole, result.z, &loss, NULL));
      assert_true(loss == result.loss && loss <= result.start_loss);
    }
    pbTask_Destroy(task);
    pbContext_Destroy(ctx);
    assert_int_equal(meter.live, 0);
    if (meter.calls < fail_at) break;
  }

  assert_true(with_best > 3);

  // A start that cannot be evaluated is none.
  const char *nowhere =
      "{" POINT_MODEL
      ", \"steps\": 5, \"variables\": [{\"state\": \"qvel\", \"start\": 1e300}], \"loss\": [{\"qpos\": \"x\", \"target\": 1}]}";
  pbTask *lost = parse(plain, nowhere);
  pbRunResult none;
  assert_int_not_equal(pbTask_Run(lost, NULL, &none), pb_ok);
  assert_null(none.z);
  pbTask_Destroy(lost);
  pbTask_Destroy(whole);
  pbContext_Destroy(plain);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_projectile),
                                     cmocka_unit_test(test_gradient_by_every_kind_of_variable_and_term),
                                     cmocka_unit_test(test_only_the_fields_of_variables_are_pulled_back),
                                     cmocka_unit_test(test_derived_constants_are_pulled_back),
                                     cmocka_unit_test(test_jacobian_against_differences),
                                     cmocka_unit_test(test_residuals_agree_with_the_gradient),
                                     cmocka_unit_test(test_identification_from_a_recording),
                                     cmocka_unit_test(test_interrupted_runs_lose_nothing),
                                     cmocka_unit_test(test_interrupted_runs_leave_saddles),
                                     cmocka_unit_test(test_the_loss_at_the_start_is_told),
                                     cmocka_unit_test(test_several_trajectories),
                                     cmocka_unit_test(test_bad_tasks_are_refused_with_the_place),
                                     cmocka_unit_test(test_files_outside_of_the_folder_are_refused),
                                     cmocka_unit_test(test_failing_allocations),
                                     cmocka_unit_test(test_an_end_has_its_best)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
