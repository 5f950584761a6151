// iLQR: linear systems in one iteration beside the dense solution, with limits beside the box QP of all unknowns at once, by
// every kind of control and initial state; its gradient beside that of the loss, for every type of term; what a plan promises;
// contacts beside Gauss-Newton; the same bits for any number of threads, any memory, after interruptions; what is refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <pullback/optimize.h>
#include <pullback/random.h>

#include "control/box_qp.h"
#include "optimize/shoot.h"
#include "optimize/task.h"
#include "rollout/rollout.h"
#include "support/meter.h"
#include "support/support.h"

#define ILQR "\"optimizer\": {\"method\": \"ilqr\"}"

// A cart with a second one on it, springs and dampers, a motor on each and one behind a filter: linear in state and controls.
#define CARTS                                                                                                                \
  "\"model\": \"<mujoco><option timestep='0.05' gravity='0 0 0'/><worldbody><body name='cart'><joint name='x' type='slide' " \
  "axis='1 0 0' stiffness='2' damping='.3' armature='.1'/><geom type='box' size='.2 .1 .1' mass='1.5' contype='0' "          \
  "conaffinity='0'/><body name='top' pos='0 0 .3'><joint name='y' type='slide' axis='.8 0 .6' stiffness='1' damping='.2'/>"  \
  "<geom type='box' size='.1 .1 .1' mass='.7' contype='0' conaffinity='0'/><site name='tip' pos='0 0 .1'/></body></body>"    \
  "</worldbody><actuator><motor name='push' joint='x'/><general name='slow' joint='y' dyntype='filter' dynprm='.2' "         \
  "gainprm='2'/></actuator></mujoco>\", \"init\": {\"qpos\": [1, -0.5], \"qvel\": [0.3, 1]}"
#define EFFORT "{\"control\": true, \"at\": \"all\", \"weight\": 0.5}"
#define TRACK                                                                                                                \
  "{\"qpos\": true, \"at\": \"all\", \"target\": [0.4, 0.2], \"weight\": 2}, {\"qvel\": true, \"at\": \"all\", \"weight\": " \
  "0.1}, {\"site\": \"tip\", \"at\": [0.5, 1], \"target\": [0.5, 0, 0.6], \"weight\": 3}, " EFFORT

// A ball and a box that fall, slide and are pushed, as in test_sweep.c, in fewer words.
#define BODIES                                                                                                                   \
  "\"model\": \"<mujoco><option timestep='0.005'/><worldbody><geom name='floor' type='plane' size='5 5 1'/><body name='free' "   \
  "pos='0 2 .32'><freejoint name='root'/><geom type='box' size='.1 .2 .3'/></body><body name='top' pos='0 0 2'><joint "          \
  "name='ball' type='ball' damping='.05'/><geom type='capsule' size='.03' fromto='0 0 0 .4 0 .1'/><body name='low' "             \
  "pos='.4 0 .1'><joint name='hinge' axis='0 1 0' damping='.1' range='-90 20' limited='true'/><geom type='capsule' "             \
  "size='.02' fromto='0 0 0 .3 0 0'/><site name='end' pos='.3 0 0'/></body></body></worldbody><actuator><general name='slow' "   \
  "joint='hinge' dyntype='filter' dynprm='.05' gainprm='.3' ctrlrange='-1 1'/><motor name='push' joint='root' gear='4 0 1 "      \
  ".2 0 0'/><motor name='turn' joint='ball' gear='.1 .2 .3'/></actuator><sensor><gyro name='gyro' site='end'/></sensor>"         \
  "</mujoco>\", \"controls\": [0.2, 1, -0.5], \"init\": {\"joints\": {\"ball\": {\"qpos\": [0.8, 0.2, 0.5, 0.1], \"qvel\": [1, " \
  "-2, 6]}, \"root\": {\"qvel\": [0.1, 0.3, -1, 3, -2, 1]}}}"

#define POLE                                                                                                                     \
  "\"model\": \"<mujoco><option timestep='0.02'/><worldbody><body name='cart'><joint name='x' type='slide' axis='1 0 0'/><geom " \
  "type='box' size='.2 .1 .1' mass='1' contype='0' conaffinity='0'/><body><joint name='a' axis='0 1 0'/><geom type='capsule' "   \
  "size='.02' fromto='0 0 0 0 0 -.6' mass='.1' contype='0' conaffinity='0'/>%s</body></body></worldbody><actuator><motor "       \
  "joint='x'/></actuator></mujoco>\", \"steps\": %d"
#define SECOND_POLE                                                                                                     \
  "<body pos='0 0 -.6'><joint name='b' axis='0 1 0'/><geom type='capsule' size='.02' fromto='0 0 0 0 0 -.5' mass='.1' " \
  "contype='0' "                                                                                                        \
  "conaffinity='0'/></body>"

static pbTask *parse(pbContext *ctx, const char *world, const char *rest) {
  char text[16384];
  pbTask *task;
  snprintf(text, sizeof text, "{%s, %s}", world, rest);
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  return task;
}

static pbTask *parse_carts(pbContext *ctx, const char *variables, const char *loss) {
  char rest[4096];
  snprintf(rest, sizeof rest, "\"steps\": 30, \"variables\": [%s], \"loss\": [%s], " ILQR, variables, loss);
  return parse(ctx, CARTS, rest);
}

// ---- linear systems ---------------------------------------------------------------------------------------------------
// The loss of a linear system is quadratic in the unknowns: its least value in their box, by one dense problem.
static void solve_at_once(pbContext *ctx, pbTask *task, double *z) {
  int n = pbTask_Size(task);
  size_t m = pbTask_ResidualCount(task);
  double *r = zeros(m), *J = zeros(m * (size_t)n), *doubles = zeros(pbBoxQp_Doubles(n));
  const double *start = pbTask_Start(task), *lower, *upper;
  int *integers = calloc((size_t)n, sizeof *integers);
  pbBoxQp q;
  pbBoxQp_Place(&q, n, doubles, integers);
  pbTask_Bounds(task, &lower, &upper);
  good(ctx, pbTask_Residuals(task, start, r, J));

  for (int i = 0; i < n; i++) {
    for (size_t k = 0; k < m; k++) {
      q.g[i] += J[k * (size_t)n + (size_t)i] * r[k];
      for (int j = 0; j < n; j++) q.H[i * n + j] += J[k * (size_t)n + (size_t)i] * J[k * (size_t)n + (size_t)j];
    }
    q.lower[i] = lower[i] - start[i];
    q.upper[i] = upper[i] - start[i];
  }
  assert_true(pbBoxQp_Solve(&q));
  for (int i = 0; i < n; i++) z[i] = start[i] + q.x[i];
  free(r);
  free(J);
  free(doubles);
  free(integers);
}

static double farthest(const double *a, const double *b, int n) {
  double worst = 0;
  for (int i = 0; i < n; i++) worst = fmax(worst, fabs(a[i] - b[i]) / (1 + fabs(b[i])));
  return worst;
}

static const char *const unknowns[] = {
    "{\"control\": true}",
    "{\"control\": true, \"knots\": 7}",
    "{\"control\": true, \"knots\": 7, \"interpolation\": \"linear\"}",
    "{\"control\": \"slow\", \"knots\": 5, \"interpolation\": \"linear\", \"scale\": 3}, {\"control\": \"push\", \"start\": 0.3}",
    "{\"control\": \"push\", \"knots\": 1}, {\"control\": \"slow\", \"knots\": 30, \"interpolation\": \"linear\"}",
    "{\"control\": true}, {\"state\": \"qpos\"}, {\"state\": \"qvel\", \"joint\": \"y\"}, {\"state\": \"act\"}",
};
enum { UNKNOWNS = sizeof unknowns / sizeof *unknowns };

static void test_one_iteration(void **state) {
  double worst = 0;
  for (int i = 0; i < UNKNOWNS; i++) {
    pbTask *task = parse_carts(*state, unknowns[i], TRACK);
    int n = pbTask_Size(task);
    double *z = zeros((size_t)n);
    pbRunResult result;
    solve_at_once(*state, task, z);

    good(*state, pbTask_Run(task, &(pbRunOptions){.iterations = 1}, &result));
    double off = farthest(result.z, z, n);
    worst = fmax(worst, off);
    if (!(off <= 1e-12)) fail_msg("unknowns %d: off by %.3g after one iteration", i, off);

    // Nothing is left to do.
    good(*state, pbTask_Run(task, &(pbRunOptions){.iterations = 50}, &result));
    assert_int_equal(result.outcome, pb_runConverged);
    assert_true(result.iterations <= 3);
    pbTask_Destroy(task);
    free(z);
  }
  print_message("after one iteration off by %.2g at most\n", worst);
}

// Limits of some, of all, on one side, and some that leave no choice.
static void test_limits(void **state) {
  static const char *const limits[] = {
      "{\"control\": true, \"lower\": -0.3, \"upper\": 0.2}",
      "{\"control\": \"push\", \"lower\": -0.4}, {\"control\": \"slow\", \"knots\": 6, \"interpolation\": \"linear\", \"upper\": "
      "0.1}",
      "{\"control\": true, \"lower\": -0.5, \"upper\": 0.5}, {\"state\": \"qvel\", \"lower\": -0.2, \"upper\": 0.2}",
      "{\"control\": \"push\", \"lower\": 0.1, \"upper\": 0.1, \"start\": 0.1}, {\"control\": \"slow\", \"upper\": 0.3}"};

  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    pbTask *task = parse_carts(*state, limits[i], TRACK);
    int n = pbTask_Size(task), held = 0;
    double *z = zeros((size_t)n);
    const double *lower, *upper;
    pbRunResult result;
    pbTask_Bounds(task, &lower, &upper);
    solve_at_once(*state, task, z);

    good(*state, pbTask_Run(task, &(pbRunOptions){.iterations = 50}, &result));
    for (int k = 0; k < n; k++) {
      assert_true(result.z[k] >= lower[k] && result.z[k] <= upper[k]);
      held += result.z[k] == lower[k] || result.z[k] == upper[k];
    }
    print_message("%d of %d unknowns at their limits, %d iterations, off by %.2g\n", held, n, result.iterations,
                  farthest(result.z, z, n));
    assert_true(held > 0 && held < n && farthest(result.z, z, n) <= 1e-8);
    assert_int_equal(result.outcome, pb_runConverged);
    assert_true(result.iterations <= 20);
    pbTask_Destroy(task);
    free(z);
  }
}

// A plan's promise is kept to rounding where all is linear, whole and in parts, and damped plans keep theirs, too.
static void test_promises(void **state) {
  for (int i = 0; i < UNKNOWNS; i++) {
    pbTask *task = parse_carts(*state, unknowns[i], TRACK);
    size_t n = (size_t)pbTask_Size(task);
    double *g = zeros(n), *trial = zeros(n), *moves = zeros(n), value, now, linear, quadratic;
    pbTaskShooting *s;
    good(*state, pbTaskShooting_Create(task, &s));
    good(*state, pbTaskShooting_Linearize(s, pbTask_Start(task), &value, g));

    for (double lambda = 0; lambda <= 1; lambda = lambda > 0 ? lambda * 10 : 0.01) {
      assert_true(pbTaskShooting_Plan(s, pbTask_Start(task), lambda, moves, &linear, &quadratic));
      assert_true(linear < 0 && quadratic > 0 && linear + quadratic < 0);
      if (lambda == 0) assert_near_of("half of the slope", quadratic, -linear / 2, 1e-10 * quadratic);
      for (double alpha = 1; alpha > 0.01; alpha /= 3) {
        good(*state, pbTaskShooting_Try(s, pbTask_Start(task), alpha, trial, &now));
        assert_near_of("change", now - value, alpha * (linear + alpha * quadratic), 1e-10 * value);
        assert_true(now < value);
      }
    }
    pbTaskShooting_Destroy(task, s);
    pbTask_Destroy(task);
    free(g);
    free(trial);
    free(moves);
  }
}

// ---- losses -----------------------------------------------------------------------------------------------------------
static const char *const losses[] = {
    "{\"qpos\": true, \"at\": \"all\"}",
    "{\"qvel\": \"root\", \"at\": \"all\", \"type\": \"norm\", \"epsilon\": 0.01, \"weight\": 0.3}",
    "{\"qvel\": true, \"at\": \"all\", \"type\": \"huber\", \"delta\": 0.5}",
    "{\"body\": [\"low\", \"free\"], \"at\": \"all\", \"type\": \"above\", \"target\": [0.3, 0, 1.8, 0, 2, 0.31]}",
    "{\"body\": [\"low\", \"free\"], \"at\": \"all\", \"type\": \"below\", \"target\": [0.3, 0, 1.8, 0, 2, 0.31]}",
    "{\"site\": \"end\", \"at\": \"all\", \"weight\": -0.1}, {\"control\": true, \"at\": \"all\"}",
    "{\"formula\": \"dot(w, w) + v.x * c\", \"inputs\": {\"w\": {\"sensor\": \"gyro\"}, \"v\": {\"qvel\": \"root\", "
    "\"components\": [0, 1, 2]}, \"c\": {\"control\": \"push\"}}, \"at\": \"all\", \"type\": \"linear\", \"weight\": 0.01}",
    "{\"formula\": \"sin(a) + t * a\", \"inputs\": {\"a\": {\"qpos\": \"hinge\"}}, \"at\": \"all\", \"type\": \"squared\", "
    "\"discount\": 3}",
    "{\"act\": true, \"at\": \"all\", \"target\": [0.3], \"type\": \"norm\"}",
    "{\"sensor\": true, \"at\": [0.05, 0.1], \"target\": [[0.5, null, 2], [0.4, 0.1, 2]]}"};

static void test_gradients(void **state) {
  double worst = 0;
  for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
    char rest[4096];
    snprintf(rest, sizeof rest,
             "\"steps\": 30, \"variables\": [{\"control\": [\"push\", \"turn\"]}, {\"control\": \"slow\", \"knots\": 5, "
             "\"interpolation\": \"linear\", \"scale\": 2}, {\"state\": \"qvel\"}, {\"state\": \"qpos\", \"joint\": \"ball\"}], "
             "\"loss\": [%s], " ILQR,
             losses[i]);
    pbTask *task = parse(*state, BODIES, rest);
    size_t n = (size_t)pbTask_Size(task);
    double *g = zeros(n), *other = zeros(n), value, same;
    pbTaskShooting *s;
    good(*state, pbTaskShooting_Create(task, &s));
    good(*state, pbTask_Loss(task, pbTask_Start(task), &same, other));
    good(*state, pbTaskShooting_Linearize(s, pbTask_Start(task), &value, g));
    assert_true(value == same);

    double size = sqrt(dot(other, other, n)), off = 0;
    for (size_t k = 0; k < n; k++) off = fmax(off, fabs(g[k] - other[k]) / size);
    worst = fmax(worst, off);
    if (!(off <= 1e-10) || size == 0) fail_msg("loss %zu: gradient off by %.3g of %.3g", i, off, size);

    // A descent direction in any case, with enough damping.
    double linear = 0, quadratic = 0, lambda = 1, *trial = zeros(n), *moves = zeros(n), part = 1e-6;
    while (!pbTaskShooting_Plan(s, pbTask_Start(task), lambda, moves, &linear, &quadratic)) lambda = fmax(10 * lambda, 1e-6);
    assert_true(linear < 0 && lambda <= 100);
    good(*state, pbTaskShooting_Try(s, pbTask_Start(task), part, trial, &value));
    assert_true(value < same);
    assert_near_of("slope", value - same, part * linear, 1e-2 * fabs(part * linear));

    pbTaskShooting_Destroy(task, s);
    pbTask_Destroy(task);
    free(g);
    free(other);
    free(trial);
    free(moves);
  }
  print_message("gradients differ by %.2g at most\n", worst);
}

// ---- whole runs -------------------------------------------------------------------------------------------------------
enum { most = 256 };
typedef struct Answer {
  double loss, z[most];
  int iterations;
  pbRunOutcome outcome;
} Answer;

static Answer run(pbContext *ctx, const char *world, const char *rest, const char *method, int threads, int iterations) {
  char all[8192];
  pbPool *pool = NULL;
  pbRunResult result;
  Answer answer = {0};
  snprintf(all, sizeof all, "%s, \"optimizer\": {\"method\": \"%s\"}", rest, method);
  pbTask *task = parse(ctx, world, all);
  if (threads) good(ctx, pbPool_Create(ctx, threads, &pool));
  good(ctx, pbTask_UsePool(task, pool));

  good(ctx, pbTask_Run(task, &(pbRunOptions){.iterations = iterations}, &result));
  assert_true(pbTask_Size(task) <= most && result.loss < result.start_loss);
  memcpy(answer.z, result.z, (size_t)pbTask_Size(task) * sizeof *result.z);
  answer.loss = result.loss;
  answer.iterations = result.iterations;
  answer.outcome = result.outcome;
  pbTask_Destroy(task);
  pbPool_Destroy(pool);
  return answer;
}

#define PLAN                                                                                                                     \
  "\"trajectories\": [{\"steps\": 20, \"loss\": [{\"qpos\": \"hinge\", \"target\": -1, \"at\": \"all\"}, {\"control\": "         \
  "true, \"at\": \"all\", \"weight\": 0.01}]}, {\"steps\": 30, \"loss\": [{\"qpos\": true, \"at\": \"all\"}, {\"qvel\": true, "  \
  "\"at\": \"all\", \"weight\": 0.01}, {\"control\": true, \"at\": \"all\", \"weight\": 0.001}]}], \"variables\": "              \
  "[{\"control\": "                                                                                                              \
  "true, \"trajectory\": 0, \"knots\": 5, \"interpolation\": \"linear\", \"lower\": -1.5, \"upper\": 1.5}, {\"control\": true, " \
  "\"trajectory\": 1, \"lower\": -0.9, \"upper\": 1}]"

// One trajectory: its steps, and parts of a plan, are what threads share.
#define ALONE                                                                                                            \
  "\"steps\": 30, \"loss\": [{\"qpos\": true, \"at\": \"all\"}, {\"qvel\": true, \"at\": \"all\", \"weight\": 0.01}, "   \
  "{\"sensor\": "                                                                                                        \
  "\"gyro\", \"at\": \"all\", \"weight\": 0.02}, {\"site\": \"end\"}, {\"control\": true, \"at\": \"all\", \"weight\": " \
  "0.001}], "                                                                                                            \
  "\"variables\": [{\"control\": true, \"lower\": -0.9, \"upper\": 1}, {\"state\": \"qvel\", \"joint\": \"hinge\"}]"

static void test_contacts_beside_gauss_newton(void **state) {
  Answer plan = run(*state, BODIES, PLAN, "ilqr", 0, 100), fit = run(*state, BODIES, PLAN, "gauss-newton", 0, 100);
  int held = 0;
  for (int i = 0; i < 105; i++) held += fabs(plan.z[i]) == 1.5 || plan.z[i] == -0.9 || plan.z[i] == 1;
  print_message("loss %.12g in %d iterations, gauss-newton %.12g in %d; %d at limits\n", plan.loss, plan.iterations, fit.loss,
                fit.iterations, held);
  assert_true(held >= 3 && held < 100);
  assert_true(plan.loss <= fit.loss * (1 + 1e-6));
}

static void test_threads_and_memory_change_no_bit(void **state) {
  Answer one = run(*state, BODIES, PLAN, "ilqr", 0, 5);
  for (int threads = 1; threads <= 4; threads++) {
    Answer again = run(*state, BODIES, PLAN, "ilqr", threads, 5);
    assert_memory_equal(&again, &one, sizeof one);
  }

  Answer little = run(*state, BODIES ", \"memory\": 20000", PLAN, "ilqr", 0, 5);
  assert_memory_equal(&little, &one, sizeof one);

  Answer alone = run(*state, BODIES, ALONE, "ilqr", 0, 12);
  for (int threads = 2; threads <= 5; threads++) {
    Answer again = run(*state, BODIES, ALONE, "ilqr", threads, 12);
    assert_memory_equal(&again, &alone, sizeof alone);
  }
  little = run(*state, BODIES ", \"memory\": 20000", ALONE, "ilqr", 3, 12);
  assert_memory_equal(&little, &alone, sizeof alone);
}

// What threads have run beside a plan is of no use for the next.
static void test_parts_are_of_the_last_plan(void **state) {
  static const char text[] = "{" BODIES ", " ALONE ", " ILQR "}";
  double values[2][2];
  for (int threads = 1; threads <= 2; threads++) {
    pbTask *task;
    pbPool *pool;
    pbTaskShooting *s;
    double *g = zeros(most), *trial = zeros(most), *moves = zeros(most), value, linear, quadratic;
    good(*state, pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task));
    good(*state, pbPool_Create(*state, threads, &pool));
    good(*state, pbTask_UsePool(task, pool));
    good(*state, pbTaskShooting_Create(task, &s));
    good(*state, pbTaskShooting_Linearize(s, pbTask_Start(task), &value, g));
    for (int k = 0; k < 2; k++) {
      assert_true(pbTaskShooting_Plan(s, pbTask_Start(task), k ? 100 : 1, moves, &linear, &quadratic));
      good(*state, pbTaskShooting_Try(s, pbTask_Start(task), 0.5, trial, &values[threads - 1][k]));
    }

    pbTaskShooting_Destroy(task, s);
    pbTask_Destroy(task);
    pbPool_Destroy(pool);
    free(g);
    free(trial);
    free(moves);
  }
  assert_memory_equal(values[0], values[1], sizeof values[0]);
  assert_true(values[0][0] != values[0][1]);
}

typedef struct Stopper {
  int calls, stop_at;
} Stopper;
static int count_calls(void *user, const pbProgress *p) {
  Stopper *s = user;
  (void)p;
  return ++s->calls == s->stop_at;
}

static void interrupt(pbContext *ctx, const char *more) {
  const char *file = "pb_test_ilqr_state.npy";
  char method[100], rest[4096];
  snprintf(method, sizeof method, "ilqr\"%s, \"saddle\": \"leave", more);
  Answer whole = run(ctx, BODIES, PLAN, method, 0, 6);
  snprintf(rest, sizeof rest, "%s, \"optimizer\": {\"method\": \"ilqr\"%s}", PLAN, more);
  pbTask *task = parse(ctx, BODIES, rest);
  Stopper stopper = {0, 3};
  pbRunResult part;
  pbRunOptions options = {.iterations = 6, .state_file = file, .resume = true, .save_seconds = 1e-9, .progress = count_calls};
  options.user = &stopper;
  unlink(file);

  pbStatus status = pb_interrupted;
  int rounds = 0;
  for (; status == pb_interrupted && rounds < 1000; rounds++) {
    stopper.calls = 0;
    stopper.stop_at += 2;
    status = pbTask_Run(task, &options, &part);
  }
  good(ctx, status);
  assert_true(rounds > 2 && part.resumed && part.loss == whole.loss);
  assert_memory_equal(part.z, whole.z, (size_t)pbTask_Size(task) * sizeof *part.z);
  unlink(file);
  pbTask_Destroy(task);
}

static void test_an_interrupted_run_loses_nothing(void **state) {
  interrupt(*state, "");
  interrupt(*state, ", \"second_order\": true");
}

// Controls by their logarithms, down to zero, where the loss is flat in them: moves are by a factor, and the answer is that of
// others.
static void test_logarithms(void **state) {
  static const char rest[] =
      "\"variables\": [{\"control\": true, \"transform\": \"log\", \"start\": 1, \"lower\": 0, \"upper\": 5}], \"loss\": "
      "[{\"qpos\": \"a\", \"target\": 1, \"weight\": 100}, {\"qvel\": true}, {\"control\": true, \"at\": \"all\", "
      "\"weight\": 0.01}]";
  char world[2048];
  snprintf(world, sizeof world, POLE, "", 60);
  Answer plan = run(*state, world, rest, "ilqr", 0, 200), other = run(*state, world, rest, "lbfgs", 0, 1000);
  print_message("by logarithms: loss %.12g in %d iterations, lbfgs %.12g in %d\n", plan.loss, plan.iterations, other.loss,
                other.iterations);
  assert_int_equal(plan.outcome, pb_runConverged);
  assert_true(plan.loss <= other.loss * (1 + 1e-8));
}

// A plan with second derivatives that leads upwards is none: a box on the floor, pushed by a ball, under Runge-Kutta.
static void test_plans_lead_downwards(void **state) {
  static const char world[] =
      "\"model\": \"<mujoco><option timestep='0.01' integrator='RK4'/><worldbody><geom type='plane' size='5 5 .1'/><body pos='0 "
      "0 "
      ".1'><freejoint name='f'/><geom type='box' size='.1 .1 .1' mass='1'/></body><body pos='-.3 0 .1'><joint name='p' "
      "type='slide' "
      "axis='1 0 0' damping='1'/><geom type='sphere' size='.05' mass='.5'/></body><body pos='0 1 1'><joint name='b' type='ball' "
      "damping='.01'/><geom type='capsule' fromto='0 0 0 .1 .2 -.4' size='.03' mass='.3'/></body></worldbody><actuator><motor "
      "joint='p' ctrlrange='-20 20' ctrllimited='true'/><motor joint='b' gear='1 0 0'/><motor joint='b' gear='0 1 0'/><motor "
      "joint='b' gear='0 0 1'/></actuator></mujoco>\", \"steps\": 40";
  static const char rest[] =
      "\"variables\": [{\"control\": true}, {\"state\": \"qvel\", \"joint\": \"f\", \"lower\": -1, \"upper\": 1}, {\"state\": "
      "\"qvel\", \"joint\": \"b\"}], \"loss\": [{\"qvel\": true, \"target\": [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], "
      "\"weight\": 10}, {\"control\": true, \"at\": \"all\", \"weight\": 0.01}]";
  Answer plan = run(*state, world, rest, "ilqr\", \"second_order\": true, \"saddle\": \"leave", 0, 100);
  print_message("pushed: loss %.6g in %d iterations\n", plan.loss, plan.iterations);
  assert_true(plan.loss < 11.5);
}

// A pendulum swings up under a torque that cannot hold it, from rest without controls: the search leaves that saddle by itself.
static void test_swing_up(void **state) {
  static const char world[] =
      "\"model\": \"<mujoco><option timestep='0.02'/><worldbody><body><joint name='a' axis='0 1 0' damping='.02'/><geom "
      "type='capsule' size='.02' fromto='0 0 0 0 0 -.5' mass='1' contype='0' "
      "conaffinity='0'/></body></worldbody><actuator><motor "
      "joint='a'/></actuator></mujoco>\", \"steps\": 150";
  Answer up = run(*state, world,
                  "\"variables\": [{\"control\": true, \"lower\": -1, \"upper\": 1}], \"loss\": [{\"qpos\": \"a\", \"target\": "
                  "3.14159265358979, \"weight\": 100}, {\"qvel\": \"a\", \"weight\": 10}, {\"control\": true, \"at\": \"all\", "
                  "\"weight\": 0.01}]",
                  "ilqr", 0, 200);
  print_message("swing-up: loss %.6g, %d iterations\n", up.loss, up.iterations);
  assert_true(up.loss < 1.5);
}

// ---- second derivatives -------------------------------------------------------------------------------------------------
// costate'(state after step 3), where its state and controls are moved along i by `a` and along j by `b`.
static double seen_after(const pbTask *task, const double *x, const double *costate, int i, double a, int j, double b) {
  const pbTrajectory *tr = &task->trajectories[0];
  const pbModel *m = task->model;
  int nx = pbModel_StateSize(m), n = pbModel_TangentSize(m), nu = tr->terms.nu;
  double *base = zeros((size_t)nx), *to = zeros((size_t)nx), *move = zeros((size_t)(n + nu)), *off = zeros((size_t)n);
  double *ctrl = zeros((size_t)nu), sum = 0;
  move[i] += a;
  move[j] += b;

  for (int beside = 0; beside < 2; beside++) {
    double *state = beside ? to : base;
    memcpy(state, x, (size_t)nx * sizeof *x);
    if (beside) pbState_Move(m, state, move, 1);
    for (int k = 0; k < nu; k++) ctrl[k] = tr->ctrl_now[3 * nu + k] + (beside ? move[n + k] : 0);
    pbStatus status = pbStep_Forward(m, task->theta_used, state, &(pbInput){.ctrl = ctrl}, tr->rollout->scratch, NULL);
    assert_int_equal(status, pb_ok);
  }
  pbState_Difference(m, base, to, off);
  for (int k = 0; k < n; k++) sum += costate[k] * off[k];
  free(base);
  free(to);
  free(move);
  free(off);
  free(ctrl);
  return sum;
}

// Beside second differences of that function, by all pairs: rotations of free and ball joints, a filter, motors on all.
static void test_second_derivatives(void **state) {
  static const char *const options[] = {"", ", \"contact\": {\"method\": \"cones\"}"};
  for (int o = 0; o < 2; o++) {
    char rest[1024];
    snprintf(rest, sizeof rest,
             "\"steps\": 10, \"variables\": [{\"control\": true}, {\"state\": \"qpos\", \"joint\": \"root\", \"start\": [0, 0, "
             "1, 0, 0, "
             "0]}], \"loss\": [{\"qpos\": true, \"at\": \"all\"}], " ILQR "%s",
             options[o]);
    pbTask *task = parse(*state, BODIES, rest);
    double value, *g = zeros((size_t)pbTask_Size(task));
    good(*state, pbTask_Loss(task, pbTask_Start(task), &value, g));

    const pbTrajectory *tr = &task->trajectories[0];
    int n = tr->terms.n, all = n + tr->terms.nu;
    pbRng rng = pbRng_Seed(3);
    double *costate = zeros((size_t)n), *H = zeros((size_t)(all * all)), *room = zeros(pbRollout_HessianRoom(task->model));
    double *x = zeros((size_t)tr->terms.nx), worst = 0, size = 0;
    for (int i = 0; i < n; i++) costate[i] = pbRng_Normal(&rng);
    memcpy(x, tr->terms.states + 3 * (size_t)tr->terms.nx, (size_t)tr->terms.nx * sizeof *x);
    good(*state, pbRollout_Hessian(tr->rollout, 3, x, costate, H, room));

    const double h = 2e-4;
    for (int i = 0; i < all; i++) {
      for (int j = 0; j <= i; j++) {
        double sum = 0;
        for (int side = 0; side < 4; side++) {
          double a = side & 1 ? h : -h, b = side & 2 ? h : -h;
          sum += (a * b > 0 ? 1 : -1) * seen_after(task, x, costate, i, a, j, b);
        }
        sum /= 4 * h * h;
        worst = fmax(worst, fabs(H[i * all + j] - sum));
        size = fmax(size, fabs(sum));
        assert_true(H[i * all + j] == H[j * all + i]);
      }
    }
    print_message("second derivatives up to %.3g, off by %.2g at most\n", size, worst);
    assert_true(size > 0.1 && worst <= 1e-5 * size);
    pbTask_Destroy(task);
    free(g);
    free(costate);
    free(H);
    free(room);
    free(x);
  }
}

// How far each iteration's loss is above the last one's; the least three that are above rounding come out first.
static void last_gaps(const pbTask *task, double least, double gap[3]) {
  const pbHistory *h = &task->history;
  int last = h->count;
  while (last > 0 && h->rows[last - 1][2] - least <= 1e-13 * least) last--;
  assert_true(last >= 3);
  for (int i = 0; i < 3; i++) gap[i] = h->rows[last - 3 + i][2] - least;
}

// Cart and pole, cart and two poles, swung up: near the answer each gap is as its square before, with second derivatives; without
// them it shrinks by a factor.
static void test_the_end_is_quadratic(void **state) {
  for (int two = 0; two < 2; two++) {
    double least = 0;
    for (int first_order = 0; first_order < 2; first_order++) {
      char world[2048], rest[2048];
      snprintf(world, sizeof world, POLE, two ? SECOND_POLE : "", 80);
      snprintf(
          rest, sizeof rest,
          "\"variables\": [{\"control\": true}], \"loss\": [{\"qpos\": \"a\", \"target\": 3.14159265358979, \"weight\": 100}, %s"
          "{\"qvel\": true, \"weight\": 10}, {\"qpos\": \"x\", \"weight\": 10}, {\"control\": true, \"at\": \"all\", \"weight\": "
          "0.01}], \"optimizer\": {\"method\": \"ilqr\", \"second_order\": %s}",
          two ? "{\"qpos\": \"b\", \"weight\": 100}, " : "", first_order ? "false" : "true");
      pbTask *task = parse(*state, world, rest);
      pbRunResult result;
      double gap[3];
      good(*state, pbTask_Run(task, &(pbRunOptions){.iterations = 500}, &result));
      if (!first_order) least = result.loss;
      last_gaps(task, fmin(least, result.loss), gap);
      print_message("%d pole(s), %s order: loss %.15g, %d iterations, gaps %.3g, %.3g, %.3g\n", 1 + two,
                    first_order ? "first" : "second", result.loss, result.iterations, gap[0], gap[1], gap[2]);
      if (!first_order) {
        assert_int_equal(result.outcome, pb_runConverged);
        for (int i = 0; i < 2; i++) assert_true(gap[i + 1] <= 5000 * gap[i] * gap[i] / least);
      }
      pbTask_Destroy(task);
    }
  }
}

// ---- no memory, refusals ------------------------------------------------------------------------------------------------
// Iterations take none: a run of ten asks for as much as a run of two. Each call that fails is said, and all is given back.
static void check_memory(const char *text, pbPool *pool) {
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  pbTask *task;
  pbRunResult result;
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  good(ctx, pbTask_UsePool(task, pool));

  pbStatus status = pb_no_memory;
  int refused = 0;
  for (long at = 1; status != pb_ok; at++) {
    meter.calls = 0;
    meter.fail_at = at;
    status = pbTask_Run(task, &(pbRunOptions){.iterations = 1}, &result);
    assert_true(status == pb_ok || status == pb_no_memory);
    refused += status == pb_no_memory;
    if (status == pb_no_memory) assert_non_null(strstr(pbContext_Error(ctx), "memory"));
    meter.fail_at = 0;
  }
  assert_true(refused > 10);

  // The loop alone: what comes before and after it is the same for any number of iterations.
  long calls[2];
  for (int k = 0; k < 2; k++) {
    pbTaskShooting *s;
    double *z = zeros(most), *g = zeros(most), *trial = zeros(most), *moves = zeros(most), value, linear, quadratic;
    good(ctx, pbTaskShooting_Create(task, &s));
    memcpy(z, pbTask_Start(task), (size_t)pbTask_Size(task) * sizeof *z);
    good(ctx, pbTaskShooting_Linearize(s, z, &value, g));
    meter.calls = 0;
    for (int i = 0; i < 2 + 8 * k; i++) {
      good(ctx, pbTaskShooting_Linearize(s, z, &value, g));
      assert_true(pbTaskShooting_Plan(s, z, 1e-3, moves, &linear, &quadratic));
      good(ctx, pbTaskShooting_Try(s, z, 0.5, trial, &value));
      memcpy(z, trial, (size_t)pbTask_Size(task) * sizeof *z);
    }
    calls[k] = meter.calls;
    pbTaskShooting_Destroy(task, s);
    free(z);
    free(g);
    free(trial);
    free(moves);
  }
  assert_int_equal(calls[0], 0);
  assert_int_equal(calls[1], 0);

  pbTask_Destroy(task);
  pbContext_Destroy(ctx);
  assert_int_equal(meter.live, 0);
}

static void test_memory(void **state) {
  pbPool *pool;
  check_memory("{" BODIES ", " PLAN ", " ILQR "}", NULL);
  good(*state, pbPool_Create(*state, 2, &pool));
  check_memory("{" BODIES ", " ALONE ", " ILQR "}", pool);
  pbPool_Destroy(pool);
}

static void test_refusals(void **state) {
  static const struct {
    const char *world, *variables, *loss, *why;
  } cases[] = {{"", "{\"parameter\": \"dof_damping\"}", "", "neither of controls nor of an initial state"},
               {", \"trajectories\": [{\"steps\": 4}, {\"steps\": 5}]", "{\"control\": true}", "", "of several trajectories"},
               {"", "{\"control\": true}", "{\"qvel\": \"hinge\", \"at\": [0.0125], \"target\": [0]}", "between two states"},
               {", \"contact\": {\"method\": \"impact\"}", "{\"control\": true}", "", "by impacts"},
               {", \"sample\": {\"worlds\": 2, \"init\": [{\"state\": \"qvel\", \"normal\": [0, 0.1]}]}", "{\"control\": true}",
                "", "worlds are drawn"}};

  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char rest[2048];
    pbRunResult result;
    snprintf(rest, sizeof rest, "\"steps\": 10%s, \"variables\": [%s], \"loss\": [%s], " ILQR, cases[i].world, cases[i].variables,
             cases[i].loss[0] ? cases[i].loss : "{\"qvel\": true}");
    pbTask *task = parse(*state, BODIES, rest);
    assert_int_equal(pbTask_Run(task, &(pbRunOptions){.iterations = 1}, &result), pb_bad_input);
    const char *told = pbContext_Error(*state);
    if (!strstr(told, "optimizer.method: ilqr") || !strstr(told, cases[i].why))
      fail_msg("'%s' does not say '%s'", told, cases[i].why);
    pbTask_Destroy(task);
  }

  // Other methods would take no notice of it.
  static const char more[] = "{" CARTS
                             ", \"steps\": 5, \"variables\": [{\"control\": true}], \"loss\": [{\"qvel\": true}], "
                             "\"optimizer\": {\"method\": \"lbfgs\", \"second_order\": true}}";
  pbTask *none;
  assert_int_equal(pbTask_Parse(*state, more, strlen(more), NULL, "test.json", &none), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(*state), "second_order: method \"lbfgs\" has none"));

  // A problem of numbers has no trajectory.
  pbOptimizer *o;
  const pbProblem problem = {.n = 1};
  assert_int_equal(pbOptimizer_Create(*state, &problem, &(pbOptimizerOptions){.method = pb_methodIlqr}, &(double){0}, &o),
                   pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(*state), "ilqr needs trajectories"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_iteration),
                                     cmocka_unit_test(test_limits),
                                     cmocka_unit_test(test_promises),
                                     cmocka_unit_test(test_gradients),
                                     cmocka_unit_test(test_contacts_beside_gauss_newton),
                                     cmocka_unit_test(test_threads_and_memory_change_no_bit),
                                     cmocka_unit_test(test_parts_are_of_the_last_plan),
                                     cmocka_unit_test(test_an_interrupted_run_loses_nothing),
                                     cmocka_unit_test(test_logarithms),
                                     cmocka_unit_test(test_plans_lead_downwards),
                                     cmocka_unit_test(test_swing_up),
                                     cmocka_unit_test(test_second_derivatives),
                                     cmocka_unit_test(test_the_end_is_quadratic),
                                     cmocka_unit_test(test_memory),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
