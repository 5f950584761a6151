// Starts whose states are given and are no run: what a plan promises for closing their gaps, beside what happens; the gradient
// behind gaps beside differences; swing-ups, an unstable motion and one through contact that such a start solves and a run does
// not; answers are runs to the bit; the same bits for any number of threads, any memory, after interruptions; what is refused.
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

#include "optimize/gaps.h"
#include "optimize/shoot.h"
#include "optimize/task.h"
#include "support/meter.h"
#include "support/support.h"

#define ILQR "\"optimizer\": {\"method\": \"ilqr\", \"iterations\": 200}"

// Two carts with springs and a filtered motor: linear.
#define CARTS                                                                                                                \
  "\"model\": \"<mujoco><option timestep='0.05' gravity='0 0 0'/><worldbody><body name='cart'><joint name='x' type='slide' " \
  "axis='1 0 0' stiffness='2' damping='.3'/><geom type='box' size='.2 .1 .1' mass='1.5' contype='0' conaffinity='0'/><body " \
  "pos='0 0 .3'><joint name='y' type='slide' axis='.8 0 .6' stiffness='1' damping='.2'/><geom type='box' size='.1 .1 .1' "   \
  "mass='.7' contype='0' conaffinity='0'/></body></body></worldbody><actuator><motor name='push' joint='x'/><general "       \
  "name='slow' joint='y' dyntype='filter' dynprm='.2' gainprm='2'/></actuator></mujoco>\", \"init\": {\"qpos\": [1, -0.5]}"
#define TRACK                                                                                                                \
  "{\"qpos\": true, \"at\": \"all\", \"target\": [0.4, 0.2], \"weight\": 2}, {\"qvel\": true, \"at\": \"all\", \"weight\": " \
  "0.1}, {\"control\": true, \"at\": \"all\", \"weight\": 0.5}"

// A free box and a ball joint, turning.
#define BODIES                                                                                                                  \
  "\"model\": \"<mujoco><option timestep='0.01'/><worldbody><body name='free' pos='0 2 1'><freejoint name='root'/><geom "       \
  "type='box' size='.1 .2 .3'/></body><body name='top' pos='0 0 2'><joint name='ball' type='ball' damping='.05'/><geom "        \
  "type='capsule' size='.03' fromto='0 0 0 .4 0 .1'/></body></worldbody><actuator><motor name='push' joint='root' gear='4 0 1 " \
  ".2 0 0'/><motor name='turn' joint='ball' gear='.1 .2 .3'/></actuator></mujoco>\", \"controls\": [1, -0.5], \"init\": "       \
  "{\"joints\": {\"ball\": {\"qpos\": [0.8, 0.2, 0.5, 0.1], \"qvel\": [1, -2, 6]}, \"root\": {\"qvel\": [0.1, 0.3, -1, 3, -2, " \
  "1]}}}"

// A cart and two poles; links of a chain on a cart, hanging or upright.
#define POLES                                                                                                                    \
  "\"model\": \"<mujoco><option timestep='0.02'/><worldbody><body name='cart'><joint name='x' type='slide' axis='1 0 0'/><geom " \
  "type='box' size='.2 .1 .1' mass='1' contype='0' conaffinity='0'/><body><joint name='a' axis='0 1 0'/><geom type='capsule' "   \
  "size='.02' fromto='0 0 0 0 0 -.6' mass='.1' contype='0' conaffinity='0'/><body pos='0 0 -.6'><joint name='b' axis='0 1 0'/>"  \
  "<geom type='capsule' size='.02' fromto='0 0 0 0 0 -.5' mass='.1' contype='0' conaffinity='0'/></body></body></body>"          \
  "</worldbody><actuator><motor joint='x'/></actuator></mujoco>\", \"variables\": [{\"control\": true}]"
#define SWING                                                                                                               \
  "\"loss\": [{\"qpos\": true, \"target\": [0, 3.141592653589793, 0], \"weight\": 100}, {\"qvel\": true, \"weight\": 10}, " \
  "{\"control\": true, \"at\": \"all\", \"weight\": 0.001}]"

enum { most_text = 1 << 19 };

static pbTask *parse(pbContext *ctx, const char *world, const char *rest) {
  char *text = calloc(most_text, 1);
  pbTask *task;
  snprintf(text, most_text, "{%s, %s}", world, rest);
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  free(text);
  return task;
}

// Rows of positions from `from` to `to` as "states", on a line whose ends are at rest.
static char *pass(const double *from, const double *to, int count, int steps, const char *more) {
  char *text = calloc(most_text, 1);
  size_t used = (size_t)snprintf(text, most_text, "\"states\": {%s\"qpos\": [", more);
  for (int k = 0; k <= steps; k++) {
    double s = (double)k / steps, part = s * s * (3 - 2 * s);
    used += (size_t)snprintf(text + used, most_text - used, "%s[", k ? ", " : "");
    for (int i = 0; i < count; i++)
      used += (size_t)snprintf(text + used, most_text - used, "%s%.17g", i ? ", " : "", from[i] + part * (to[i] - from[i]));
    used += (size_t)snprintf(text + used, most_text - used, "]");
  }
  snprintf(text + used, most_text - used, "]}");
  return text;
}

static const double hanging[3] = {0, 0, 0}, upright[3] = {0, 3.141592653589793, 0};

static pbTask *swing_up(pbContext *ctx, const char *more) {
  char *states = pass(hanging, upright, 3, 150, more), *rest = calloc(most_text, 1);
  snprintf(rest, most_text, "\"steps\": 150, " SWING ", " ILQR ", %s", states);
  pbTask *task = parse(ctx, POLES, rest);
  free(states);
  free(rest);
  return task;
}

// ---- what a plan promises -------------------------------------------------------------------------------------------------
// Where all is linear a plan's promise for any part of it is kept to rounding, gaps and all; a whole one closes them exactly, and
// is as good as one from a run.
static void test_promises(void **state) {
  static const double from[] = {0.3, 0.8}, to[] = {-1, 0.2};
  static const char *const unknowns[] = {"{\"control\": true}",
                                         "{\"control\": true, \"knots\": 7, \"interpolation\": \"linear\"}",
                                         "{\"control\": true}, {\"state\": \"qvel\"}"};
  for (int i = 0; i < 6; i++) {
    char *states = pass(from, to, 2, 30, i < 3 ? "" : "\"every\": 0.35, "), rest[8192];
    snprintf(rest, sizeof rest, "\"steps\": 30, \"variables\": [%s], \"loss\": [" TRACK "], " ILQR ", %s", unknowns[i % 3],
             states);
    pbTask *task = parse(*state, CARTS, rest);
    size_t n = (size_t)pbTask_Size(task);
    double *g = zeros(n), *trial = zeros(n), *moves = zeros(n), value, now, linear, quadratic, run;
    const double *z = pbTask_Start(task);
    pbTaskShooting *s;
    good(*state, pbTaskShooting_Create(task, &s));
    size_t numbers = pbTaskShooting_GapNumbers(s);
    assert_int_equal(numbers, (i < 3 ? 29 : 4) * 5);
    double *gaps = zeros(numbers);
    good(*state, pbTaskShooting_MeasureGaps(s, z, gaps));
    assert_true(dot(gaps, gaps, numbers) > 0.1);
    pbTaskShooting_UseGaps(s, gaps);
    good(*state, pbTaskShooting_Linearize(s, z, &value, g));

    for (double lambda = 0; lambda <= 1; lambda = lambda > 0 ? lambda * 10 : 0.01) {
      assert_true(pbTaskShooting_Plan(s, z, lambda, moves, &linear, &quadratic));
      for (double alpha = 1; alpha > 0.01; alpha /= 3) {
        good(*state, pbTaskShooting_Try(s, z, alpha, trial, &now));
        assert_near_of("change", now - value, alpha * (linear + alpha * quadratic), 1e-10 * value);
        if (alpha < 1) continue;
        good(*state, pbTask_Loss(task, trial, &run, NULL));
        assert_true(run == now);
      }
    }

    // two iterations to the least value of all
    pbRunResult result;
    pbTaskShooting_Destroy(task, s);
    good(*state, pbTask_Run(task, &(pbRunOptions){0}, &result));
    pbTask *plain = parse(
        *state, CARTS,
        (snprintf(rest, sizeof rest, "\"steps\": 30, \"variables\": [%s], \"loss\": [" TRACK "], " ILQR, unknowns[i % 3]), rest));
    pbRunResult other;
    good(*state, pbTask_Run(plain, &(pbRunOptions){0}, &other));
    assert_int_equal(result.outcome, pb_runConverged);
    assert_near_of("least value", result.loss, other.loss, 1e-12 * other.loss);
    assert_true(result.iterations <= 3);
    pbTask_Destroy(task);
    pbTask_Destroy(plain);
    free(states);
    free(g);
    free(trial);
    free(moves);
    free(gaps);
  }
}

// Behind a jump a motion is turned: beside differences.
static void test_transport(void **state) {
  pbTask *task = parse(*state, BODIES, "\"steps\": 1, \"variables\": [{\"control\": true}], \"loss\": [{\"qvel\": true}]");
  const pbModel *m = pbTask_Model(task);
  size_t nx = (size_t)pbModel_StateSize(m), n = (size_t)pbModel_TangentSize(m);
  double *x[3] = {zeros(nx), zeros(nx), zeros(nx)}, *gap = zeros(n), *rows = zeros(n), *off = zeros(n), worst = 0;
  pbRng rng = pbRng_Seed(1);
  for (int round = 0; round < 20; round++) {
    for (size_t i = 0; i < n; i++) {
      gap[i] = pbRng_Normal(&rng);
      rows[i] = pbRng_Normal(&rng);
    }
    for (int k = 0; k < 3; k++) {
      memcpy(x[k], pbTask_InitialState(task, 0), nx * sizeof(double));
      pbState_Move(m, x[k], rows, (k - 1) * 1e-4);
      pbState_Move(m, x[k], gap, 1);
    }
    pbState_Difference(m, x[0], x[2], off);
    pbGap_Transport(m, gap, rows, 1);
    for (size_t i = 0; i < n; i++) worst = fmax(worst, fabs(off[i] / 2e-4 - rows[i]));
  }
  print_message("off by %.2g\n", worst);
  assert_true(worst <= 1e-7);
  for (int k = 0; k < 3; k++) free(x[k]);
  free(gap);
  free(rows);
  free(off);
  pbTask_Destroy(task);
}

// Of the plan at the start, by differences to one side, twice extrapolated.
static void check_slope(pbContext *ctx, pbTask *task, pbTaskShooting *s) {
  size_t n = (size_t)pbTask_Size(task);
  double *g = zeros(n), *trial = zeros(n), *moves = zeros(n), value, now, linear, quadratic, d[3];
  const double *z = pbTask_Start(task);
  good(ctx, pbTaskShooting_Linearize(s, z, &value, g));
  assert_true(pbTaskShooting_Plan(s, z, 1e-3, moves, &linear, &quadratic));
  for (int k = 0; k < 3; k++) {
    double part = 1e-3 / (1 << k);
    good(ctx, pbTaskShooting_Try(s, z, part, trial, &now));
    d[k] = (now - value) / part;
  }

  double slope = (8 * d[2] - 6 * d[1] + d[0]) / 3;
  print_message("slope of a plan %.10g, by differences %.10g\n", linear, slope);
  assert_near_of("slope", slope, linear, 1e-6 * fabs(linear));
  free(g);
  free(trial);
  free(moves);
}

// Behind gaps, also of rotations: the slope by every unknown, and of a plan that closes them, beside Richardson's differences.
static void test_gradients(void **state) {
  const char rest[] =
      "\"steps\": 12, \"variables\": [{\"control\": true}, {\"state\": \"qvel\"}], \"loss\": [{\"qpos\": true, \"at\": \"all\"}, "
      "{\"qvel\": true, \"at\": \"all\", \"weight\": 0.1}], " ILQR
      ", \"states\": {\"every\": 0.03, \"qvel\": "
      "[[-2.0,-0.8,0.4,1.6,-1.6,-0.4,0.8,2.0,-1.2],[0.8,2.0,-1.2,0.0,1.2,-2.0,-0.8,0.4,1.6],[-0.8"
      ",0.4,1.6,-1.6,-0.4,0.8,2.0,-1.2,0.0],[2.0,-1.2,0.0,1.2,-2.0,-0.8,0.4,1.6,-1.6],[0.4,1.6,-1"
      ".6,-0.4,0.8,2.0,-1.2,0.0,1.2],[-1.2,0.0,1.2,-2.0,-0.8,0.4,1.6,-1.6,-0.4],[1.6,-1.6,-0.4,0."
      "8,2.0,-1.2,0.0,1.2,-2.0],[0.0,1.2,-2.0,-0.8,0.4,1.6,-1.6,-0.4,0.8],[-1.6,-0.4,0.8,2.0,-1.2"
      ",0.0,1.2,-2.0,-0.8],[1.2,-2.0,-0.8,0.4,1.6,-1.6,-0.4,0.8,2.0],[-0.4,0.8,2.0,-1.2,0.0,1.2,-"
      "2.0,-0.8,0.4],[-2.0,-0.8,0.4,1.6,-1.6,-0.4,0.8,2.0,-1.2],[0.8,2.0,-1.2,0.0,1.2,-2.0,-0.8,0"
      ".4,1.6]]"
      ", \"qpos\": [[0,0,0,1,0,0,0,1,0,0,0],[0,0,0,1,0,0,0,1,0,0,0],[0,0,0,1,0,0,0,1,0,0,0],"
      "[0,0,0,1,0.5,0,-0.3,1,0.2,-0.5,0.3],[0,0,0,1,0,0,0,1,0,0,0],[0,0,0,1,0,0,0,1,0,0,0],[0.3,2,1,0.2,0.5,1,-0.3,1,1,0,0.3],"
      "[0,0,0,1,0,0,0,1,0,0,0],[0,0,0,1,0,0,0,1,0,0,0],[0,2,1,1,-0.5,0,-0.3,0.4,0.2,-0.5,0.3],[0,0,0,1,0,0,0,1,0,0,0],"
      "[0,0,0,1,0,0,0,1,0,0,0],[0,0,0,1,0,0,0,1,0,0,0]]}";
  pbTask *task = parse(*state, BODIES, rest);
  size_t n = (size_t)pbTask_Size(task);
  double *g = zeros(n), *other = zeros(n), *z = zeros(n), value, v[4];
  pbTaskShooting *s;
  good(*state, pbTaskShooting_Create(task, &s));
  double *gaps = zeros(pbTaskShooting_GapNumbers(s));
  assert_int_equal(pbTaskShooting_GapNumbers(s), 3 * 18);
  memcpy(z, pbTask_Start(task), n * sizeof *z);
  good(*state, pbTaskShooting_MeasureGaps(s, z, gaps));
  pbTaskShooting_UseGaps(s, gaps);
  good(*state, pbTaskShooting_Linearize(s, z, &value, g));

  double worst = 0, size = sqrt(dot(g, g, n)), h = 1e-3;
  for (size_t i = 0; i < n; i++) {
    for (int k = 0; k < 4; k++) {
      memcpy(z, pbTask_Start(task), n * sizeof *z);
      z[i] += h * (const double[]){-1, 1, -0.5, 0.5}[k];
      good(*state, pbTaskShooting_Linearize(s, z, &v[k], other));
    }
    double coarse = (v[1] - v[0]) / (2 * h), fine = (v[3] - v[2]) / h;
    worst = fmax(worst, fabs((4 * fine - coarse) / 3 - g[i]) / size);
  }
  print_message("gradients behind gaps are off by %.2g\n", worst);
  assert_true(worst <= 1e-8);

  check_slope(*state, task, s);
  pbTaskShooting_Destroy(task, s);
  pbTask_Destroy(task);
  free(g);
  free(other);
  free(z);
  free(gaps);
}

// ---- what only such a start solves ------------------------------------------------------------------------------------------
static void check_run(pbContext *ctx, pbTask *task, const pbRunResult *result) {
  double loss;
  good(ctx, pbTask_Loss(task, result->z, &loss, NULL));
  assert_true(loss == result->loss);
}

static void test_swing_up(void **state) {
  for (int i = 0; i < 2; i++) {
    pbTask *task = swing_up(*state, i ? "\"every\": 0.3, " : "");
    pbRunResult result;
    good(*state, pbTask_Run(task, &(pbRunOptions){0}, &result));
    print_message("swing-up: loss %.6g in %d iterations, %s\n", result.loss, result.iterations, result.reason);
    assert_int_equal(result.outcome, pb_runConverged);
    assert_true(result.loss < 10);
    check_run(*state, task, &result);
    pbTask_Destroy(task);
  }
}

// Two poles upright: in twelve seconds an error grows by e^70, and no run from controls comes to the end; in two minutes
// gradients by single controls are beyond all numbers.
static void check_upright(pbContext *ctx, int steps, double tilt, double least) {
  const double from[3] = {0, upright[1] + tilt, 0.4 * tilt};
  char *states = pass(from, upright, 3, steps, ""), *rest = calloc(most_text, 1), loss[1024];
  snprintf(loss, sizeof loss,
           "\"steps\": %d, \"init\": {\"qpos\": [0, %.17g, %.17g]}, \"loss\": [{\"qpos\": true, \"at\": \"all\", \"target\": [0, "
           "3.141592653589793, 0]}, {\"qvel\": true, \"at\": \"all\", \"weight\": 0.1}, {\"control\": true, \"at\": \"all\", "
           "\"weight\": 0.01}], " ILQR,
           steps, from[1], from[2]);
  snprintf(rest, most_text, "%s, %s", loss, states);
  pbTask *task = parse(ctx, POLES, rest), *alone = parse(ctx, POLES, loss);
  pbRunResult result;
  pbStatus status = pbTask_Run(alone, &(pbRunOptions){0}, &result);
  assert_true(status == pb_no_convergence || result.outcome != pb_runConverged);
  good(ctx, pbTask_Run(task, &(pbRunOptions){0}, &result));
  print_message("upright for %d steps: loss %.10g in %d iterations, %s\n", steps, result.loss, result.iterations, result.reason);
  assert_int_equal(result.outcome, pb_runConverged);
  assert_true(result.iterations <= 10 && result.loss < least);
  check_run(ctx, task, &result);
  pbTask_Destroy(task);
  pbTask_Destroy(alone);
  free(states);
  free(rest);
}

static void test_an_unstable_motion(void **state) {
  check_upright(*state, 600, 0.05, 6);
  check_upright(*state, 6000, 0.02, 2);
}

// A finger that is to push a block: nothing of the loss depends on the finger until they touch. Given states have it there.
#define BLOCK                                                                                                                  \
  "\"model\": \"<mujoco><option timestep='0.01' gravity='0 0 0'/><worldbody><body name='finger' pos='-1 0 0'><joint name='f' " \
  "type='slide' axis='1 0 0' damping='1'/><geom type='sphere' size='.1' mass='.5'/></body><body name='block'><joint name='b' " \
  "type='slide' axis='1 0 0' damping='2'/><geom type='box' size='.2 .2 .2' mass='1'/></body></worldbody><actuator><motor "     \
  "joint='f'/></actuator></mujoco>\", \"variables\": [{\"control\": true, \"lower\": -20, \"upper\": 20}], \"steps\": 100, "   \
  "\"loss\": [{\"qpos\": \"b\", \"target\": 0.5, \"weight\": 100}, {\"qvel\": true, \"weight\": 0.1}, {\"control\": true, "    \
  "\"at\": \"all\", \"weight\": 0.0001}], " ILQR

static void test_a_push(void **state) {
  char *states = calloc(most_text, 1);
  size_t used = (size_t)snprintf(states, most_text, "\"states\": {\"qpos\": [");
  for (int k = 0; k <= 100; k++) {
    double s = k / 100.0, finger = k < 40 ? 0.71 * k / 40 : 0.71 + 0.5 * (s - 0.4) / 0.6,
           block = k < 40 ? 0 : 0.5 * (s - 0.4) / 0.6;
    used += (size_t)snprintf(states + used, most_text - used, "%s[%.6f, %.6f]", k ? ", " : "", finger, block);
  }
  snprintf(states + used, most_text - used, "]}");
  char *text = calloc(most_text, 1);
  snprintf(text, most_text, "%s", states);
  pbTask *task = parse(*state, BLOCK, text), *alone = parse(*state, BLOCK, "\"comment\": \"\"");
  pbRunResult result, other;
  good(*state, pbTask_Run(alone, &(pbRunOptions){0}, &other));
  good(*state, pbTask_Run(task, &(pbRunOptions){0}, &result));
  print_message("push: loss %.6g in %d iterations (%s), as a run %.6g (%s)\n", result.loss, result.iterations, result.reason,
                other.loss, other.reason);
  assert_true(result.loss < 0.2 && other.loss > 20);
  check_run(*state, task, &result);
  pbTask_Destroy(task);
  pbTask_Destroy(alone);
  free(states);
  free(text);
}

// ---- bits -----------------------------------------------------------------------------------------------------------------
typedef struct Answer {
  double loss, z[150];
  int iterations;
} Answer;

static Answer run(pbContext *ctx, const char *more, int threads, int iterations) {
  pbTask *task = swing_up(ctx, more);
  pbPool *pool = NULL;
  pbRunResult result;
  if (threads) good(ctx, pbPool_Create(ctx, threads, &pool));
  if (threads) good(ctx, pbTask_UsePool(task, pool));
  good(ctx, pbTask_Run(task, &(pbRunOptions){.iterations = iterations}, &result));
  Answer a = {.loss = result.loss, .iterations = result.iterations};
  memcpy(a.z, result.z, sizeof a.z);
  pbTask_Destroy(task);
  pbPool_Destroy(pool);
  return a;
}

static void test_threads_and_memory_change_no_bit(void **state) {
  Answer one = run(*state, "", 0, 12);
  for (int threads = 1; threads <= 4; threads++) {
    Answer again = run(*state, "", threads, 12);
    assert_memory_equal(&again, &one, sizeof one);
  }

  // sweeps that make steps once more jump once more
  char *states = pass(hanging, upright, 3, 150, ""), *rest = calloc(most_text, 1);
  snprintf(rest, most_text, "\"memory\": 20000, \"steps\": 150, " SWING ", " ILQR ", %s", states);
  for (int threads = 0; threads <= 2; threads += 2) {
    pbTask *task = parse(*state, POLES, rest);
    pbPool *pool = NULL;
    pbRunResult little;
    if (threads) good(*state, pbPool_Create(*state, threads, &pool));
    if (threads) good(*state, pbTask_UsePool(task, pool));
    good(*state, pbTask_Run(task, &(pbRunOptions){.iterations = 12}, &little));
    assert_true(little.loss == one.loss);
    assert_memory_equal(little.z, one.z, sizeof one.z);
    pbTask_Destroy(task);
    pbPool_Destroy(pool);
  }
  free(states);
  free(rest);
}

typedef struct Stopper {
  int calls, stop_at;
} Stopper;
static int count_calls(void *user, const pbProgress *p) {
  Stopper *s = user;
  (void)p;
  return ++s->calls == s->stop_at;
}

// Also while gaps are open, in parts of a plan.
static void test_an_interrupted_run_loses_nothing(void **state) {
  const char *file = "pb_test_gaps_state.npy";
  Answer whole = run(*state, "", 0, 12);
  pbTask *task = swing_up(*state, "");
  Stopper stopper = {0, 3};
  pbRunResult part;
  pbRunOptions options = {.iterations = 12, .state_file = file, .resume = true, .save_seconds = 1e-9, .progress = count_calls};
  options.user = &stopper;
  unlink(file);

  pbStatus status = pb_interrupted;
  int rounds = 0;
  for (; status == pb_interrupted && rounds < 1000; rounds++) {
    stopper.calls = 0;
    stopper.stop_at += 2;
    status = pbTask_Run(task, &options, &part);
  }
  good(*state, status);
  assert_true(rounds > 2 && part.resumed && part.loss == whole.loss);
  assert_memory_equal(part.z, whole.z, sizeof whole.z);
  unlink(file);
  pbTask_Destroy(task);
}

// The first of several stages begins with the states, and others where it ended, whatever their method.
static void test_stages(void **state) {
  char *states = pass(hanging, upright, 3, 150, ""), *rest = calloc(most_text, 1);
  for (int first = 0; first < 2; first++) {
    const char *methods[2] = {first ? "lbfgs" : "ilqr", first ? "ilqr" : "lbfgs"};
    snprintf(rest, most_text,
             "\"steps\": 150, " SWING
             ", %s, \"stages\": [{\"optimizer\": {\"method\": \"%s\", \"iterations\": 30}}, "
             "{\"optimizer\": {\"method\": \"%s\", \"iterations\": 3}}]",
             states, methods[0], methods[1]);
    pbTask *task = parse(*state, POLES, rest);
    pbRunResult result;
    pbStatus status = pbTask_Run(task, &(pbRunOptions){0}, &result);
    assert_int_equal(status, first ? pb_bad_input : pb_ok);
    if (first) assert_non_null(strstr(pbContext_Error(*state), "only a search by \"ilqr\" begins with states"));
    else assert_true(result.loss <= pbTask_Stage(task, 0).loss && pbTask_Stage(task, 0).loss < 4);
    pbTask_Destroy(task);
  }
  free(states);
  free(rest);
}

// A path along which the poles are held out sideways: its gaps do not close.
static pbTask *hold_sideways(pbContext *ctx, bool given) {
  static const double sideways[] = {0, 4.4, 0.6};
  char *states = pass(sideways, upright, 3, 120, ""), *rest = calloc(most_text, 1);
  snprintf(rest, most_text,
           "\"steps\": 120, \"init\": {\"qpos\": [0, 4.4, 0.6]}, \"loss\": [{\"qpos\": true, \"at\": \"all\", \"target\": [0, "
           "3.141592653589793, 0]}, {\"qvel\": true, \"at\": \"all\", \"weight\": 0.1}, {\"control\": true, \"at\": \"all\", "
           "\"weight\": 0.01}], " ILQR "%s%s",
           given ? ", " : "", given ? states : "");
  pbTask *task = parse(ctx, POLES, rest);
  free(states);
  free(rest);
  return task;
}

// States that become no run: the search goes on from the start and ends where one without them does, to the bit, also after
// interruptions and on threads, and says so.
static void test_states_that_become_no_run(void **state) {
  const char *file = "pb_test_gaps_state.npy", *why = "; the given states became no run, and the search went on from the start";
  pbRunResult alone, result;
  pbTask *plain = hold_sideways(*state, false), *task = hold_sideways(*state, true);
  good(*state, pbTask_Run(plain, &(pbRunOptions){.iterations = 30}, &alone));

  // so many were made for the states
  int more = 0;
  result.loss = INFINITY;
  while (result.loss != alone.loss && more < 10)
    good(*state, pbTask_Run(task, &(pbRunOptions){.iterations = 30 + ++more}, &result));

  pbPool *pool;
  good(*state, pbPool_Create(*state, 3, &pool));
  good(*state, pbTask_UsePool(task, pool));
  good(*state, pbTask_Run(task, &(pbRunOptions){.iterations = 30 + more}, &result));
  assert_non_null(strstr(result.reason, why));
  assert_true(result.loss == alone.loss && result.iterations > alone.iterations && result.loss < result.start_loss);
  assert_memory_equal(result.z, alone.z, 120 * sizeof(double));

  // stopped before each iteration once
  Stopper stopper = {0, 2};
  pbRunOptions options = {.state_file = file, .resume = true, .save_seconds = 1e-9, .progress = count_calls, .user = &stopper};
  options.iterations = 30 + more;
  pbStatus status = pb_interrupted;
  unlink(file);
  int iterations = result.iterations;
  for (int rounds = 0; status == pb_interrupted && rounds < 1000; rounds++) {
    stopper.calls = 0;
    stopper.stop_at += rounds % 2;
    status = pbTask_Run(task, &options, &result);
  }
  good(*state, status);
  assert_true(result.resumed && result.iterations == iterations && result.loss == alone.loss);
  assert_non_null(strstr(result.reason, why));
  assert_memory_equal(result.z, alone.z, 120 * sizeof(double));
  unlink(file);
  pbTask_Destroy(task);
  pbTask_Destroy(plain);
  pbPool_Destroy(pool);
}

// Rows are those of the first stage, whose length is its own; so is what is wrong with them.
static void test_states_of_a_shorter_stage(void **state) {
  for (int wrong = 0; wrong < 2; wrong++) {
    char *states = pass(hanging, upright, 3, wrong ? 150 : 140, ""), *text = calloc(most_text, 1);
    snprintf(text, most_text,
             "{" POLES ", \"steps\": 150, " SWING ", " ILQR
             ", %s, \"stages\": [{\"steps\": 140, \"optimizer\": {\"iterations\": 150}}, {\"optimizer\": {\"iterations\": 3}}]}",
             states);
    pbTask *task = NULL;
    pbRunResult result;
    pbStatus status = pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task);
    assert_int_equal(status, wrong ? pb_bad_input : pb_ok);
    const char *why = "states.qpos: expected a row for each of the states 0 .. 140 of 3 numbers, found 151 of 3";
    if (wrong) assert_non_null(strstr(pbContext_Error(*state), why));
    else {
      good(*state, pbTask_Run(task, &(pbRunOptions){0}, &result));

      // a search from the run would begin, and be, elsewhere
      assert_int_equal(pbTask_Stage(task, 0).steps, 140);
      assert_true(pbTask_Stage(task, 0).loss < pbTask_Stage(task, 0).start_loss);
      assert_true(result.loss <= result.start_loss);
      assert_int_equal(task->trajectories[0].given.count, 0);
    }
    pbTask_Destroy(task);
    free(states);
    free(text);
  }
}

// A file that begins too late or ends too early has no states for all times; one row less than the end is a log of that length.
static void test_files_cover_the_trajectory(void **state) {
  static const struct {
    double first, last, apart;
    const char *start, *why;
  } cases[] = {{0, 2, 0.02, "0", NULL},
               {0, 1.98, 0.02, "0", NULL},
               {0, 1.9, 0.1, "0", NULL},
               {3, 5, 0.1, "3", NULL},
               {0, 2, 2, "0", NULL},
               {0, 1, 0.02, "0", "its rows are from 0 s to 1 s; the trajectory is from 0 s to 2 s by its clock"},
               {0, 1, 1, "0", "its rows are from 0 s to 1 s; the trajectory is from 0 s to 2 s"},
               {0, 0, 1, "0", "its rows are from 0 s to 0 s; the trajectory is from 0 s to 2 s"},
               {0, 2, 0.02, "0.5", "its rows are from 0 s to 2 s; the trajectory is from 0.5 s to 2.5 s"},
               {1, 3, 0.02, "0", "its rows are from 1 s to 3 s; the trajectory is from 0 s to 2 s"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *csv = "pb_test_gaps.csv";
    FILE *file = fopen(csv, "w");
    assert_non_null(file);
    fprintf(file, "time,x,a,b\n");
    int rows = 1 + (int)lround((cases[i].last - cases[i].first) / cases[i].apart);
    for (int k = 0; k < rows; k++) fprintf(file, "%.9g,%.9g,0,0\n", cases[i].first + k * cases[i].apart, 0.01 * k);
    fclose(file);

    char text[4096];
    pbTask *task = NULL;
    snprintf(text, sizeof text, "{" POLES ", \"steps\": 100, " SWING ", " ILQR ", \"states\": {\"file\": \"%s\", \"start\": %s}}",
             csv, cases[i].start);
    pbStatus status = pbTask_Parse(*state, text, strlen(text), ".", "test.json", &task);
    assert_int_equal(status, cases[i].why ? pb_bad_input : pb_ok);
    if (cases[i].why && !strstr(pbContext_Error(*state), cases[i].why)) fail_msg("%s", pbContext_Error(*state));
    pbTask_Destroy(task);
    unlink(csv);
  }
}

// Of what is kept out of the search; states for all trajectories are for those that are searched.
static void test_a_test_has_no_states(void **state) {
  static const char rows[] = "\"states\": {\"qpos\": [[0, 0, 0], [0, 1, 0], [0, 0, 0]]}";
  for (int own = 0; own < 2; own++) {
    char text[4096];
    pbTask *task = NULL;
    snprintf(text, sizeof text,
             "{" POLES ", \"steps\": 2, " SWING ", " ILQR "%s%s, \"trajectories\": [{}, {\"role\": \"test\"%s%s}]}",
             own ? "" : ", ", own ? "" : rows, own ? ", " : "", own ? rows : "");
    assert_int_equal(pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task), own ? pb_bad_input : pb_ok);
    if (own) assert_non_null(strstr(pbContext_Error(*state), "trajectories[1].states: a trajectory of role \"test\""));
    else assert_true(task->trajectories[0].given.count == 1 && task->trajectories[1].given.count == 0);
    pbTask_Destroy(task);
  }
}

// Gaps that are open when iterations are used up: the answer is the start, and the reason says so.
static void test_open_gaps_are_told(void **state) {
  pbTask *task = swing_up(*state, "");
  pbRunResult result;
  good(*state, pbTask_Run(task, &(pbRunOptions){.iterations = 1}, &result));
  assert_int_equal(result.outcome, pb_runIterationLimit);
  assert_true(result.loss == result.start_loss);
  if (!strstr(result.reason, "gaps between them are open")) fail_msg("%s", result.reason);
  pbTask_Destroy(task);
}

static void test_memory_that_is_not_there(void **state) {
  (void)state;
  char *states = pass(hanging, upright, 3, 20, ""), *text = calloc(most_text, 1);
  snprintf(text, most_text, "{" POLES ", \"steps\": 20, " SWING ", " ILQR ", %s}", states);
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  int refused = 0;
  bool done = false;
  for (long at = 1; !done; at += 1 + at / 20) {
    pbTask *task = NULL;
    pbRunResult result;
    meter.calls = 0;
    meter.fail_at = at;
    pbStatus status = pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task);
    if (status == pb_ok) status = pbTask_Run(task, &(pbRunOptions){.iterations = 2}, &result);
    done = meter.calls < at;
    assert_true(status == pb_ok || status == pb_no_memory);
    refused += status == pb_no_memory;
    meter.fail_at = 0;
    pbTask_Destroy(task);
  }
  assert_true(refused > 20);
  pbContext_Destroy(ctx);
  assert_int_equal(meter.live, 0);
  free(states);
  free(text);
}

// ---- what is refused --------------------------------------------------------------------------------------------------------
// Quaternions are those of any length but zero.
static void test_quaternions(void **state) {
  static const char *const quaternions[] = {"0, 0, 0, 0", "2, 0, 0, 0"};
  for (int i = 0; i < 2; i++) {
    char text[4096];
    pbTask *task = NULL;
    snprintf(text, sizeof text,
             "{" BODIES ", \"steps\": 2, \"variables\": [{\"control\": true}], \"loss\": [{\"qvel\": true}], " ILQR
             ", \"states\": {\"qpos\": [[0,0,0,1,0,0,0,1,0,0,0],[0,0,0,%s,1,0,0,0],[0,0,0,1,0,0,0,1,0,0,0]]}}",
             quaternions[i]);
    pbStatus status = pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task);
    assert_int_equal(status, i ? pb_ok : pb_bad_input);
    if (i) assert_true(task->trajectories[0].given.x[task->trajectories[0].terms.qpos_at + 3] == 1);
    else assert_non_null(strstr(pbContext_Error(*state), "the quaternion of joint 'root' is zero"));
    pbTask_Destroy(task);
  }
}

static void test_refusals(void **state) {
  static const struct {
    const char *states, *why;
  } cases[] = {
      {"{}", "expected states: a \"file\", or rows of qpos, qvel or act"},
      {"{\"qpos\": [[0, 0, 0], [0, 0, 0]]}",
       "states.qpos: expected a row for each of the states 0 .. 2 of 3 numbers, found 2 of 3"},
      {"{\"qpos\": [[0, 0], [0, 0], [0, 0]]}",
       "states.qpos: expected a row for each of the states 0 .. 2 of 3 numbers, found 3 of 2"},
      {"{\"qpos\": [[0, 0, 0], [0, 0], [0, 0, 0]]}", "states.qpos"},
      {"{\"qpos\": [[0, 0, 0], [0, null, 0], [0, 0, 0]]}", "states.qpos"},
      {"{\"qpos\": [[0, 0, 0], [0, 1e300, 0], [0, 0, 0]], \"every\": 0}", "states.every: expected seconds above 0"},
      {"{\"act\": [1, 2, 3]}", "states.act"},
      {"{\"qpos\": [[0, 0, 0], [0, 0, 0], [0, 0, 0]], \"time\": \"t\"}", "states.time: only a CSV has times"},
      {"{\"qpos\": [[0, 0, 0], [0, 0, 0], [0, 0, 0]], \"file\": \"a.csv\"}", "states.qpos: expected rows or a file, found both"},
      {"{\"poses\": 1}", "poses"},
      {"[1]", "states"},
      {"{\"file\": \"there_is_none.npz\"}", "states.file: a task given as text cannot read files"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[4096];
    pbTask *task;
    snprintf(text, sizeof text, "{" POLES ", \"steps\": 2, " SWING ", " ILQR ", \"states\": %s}", cases[i].states);
    assert_int_equal(pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task) == pb_ok, 0);
    if (!strstr(pbContext_Error(*state), cases[i].why)) fail_msg("'%s' does not say '%s'", pbContext_Error(*state), cases[i].why);
  }

  // other methods begin with runs
  char text[4096];
  pbTask *task;
  pbRunResult result;
  snprintf(text, sizeof text,
           "\"steps\": 2, " SWING
           ", \"states\": {\"qpos\": [[0, 0, 0], [0, 0, 0], [0, 0, 0]]}, \"optimizer\": {\"method\": \"lbfgs\"}");
  task = parse(*state, POLES, text);
  assert_int_equal(pbTask_Run(task, &(pbRunOptions){0}, &result), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(*state), "states: only a search by \"ilqr\" begins with states"));
  pbTask_Destroy(task);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_transport),
                                     cmocka_unit_test(test_promises),
                                     cmocka_unit_test(test_gradients),
                                     cmocka_unit_test(test_swing_up),
                                     cmocka_unit_test(test_an_unstable_motion),
                                     cmocka_unit_test(test_a_push),
                                     cmocka_unit_test(test_threads_and_memory_change_no_bit),
                                     cmocka_unit_test(test_an_interrupted_run_loses_nothing),
                                     cmocka_unit_test(test_stages),
                                     cmocka_unit_test(test_states_that_become_no_run),
                                     cmocka_unit_test(test_states_of_a_shorter_stage),
                                     cmocka_unit_test(test_files_cover_the_trajectory),
                                     cmocka_unit_test(test_a_test_has_no_states),
                                     cmocka_unit_test(test_open_gaps_are_told),
                                     cmocka_unit_test(test_memory_that_is_not_there),
                                     cmocka_unit_test(test_quaternions),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
