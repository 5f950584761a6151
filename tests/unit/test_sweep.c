// Gauss-Newton's linear problem by a Riccati sweep beside the same one by a matrix: gradients, diagonals, steps with bounds and
// without, of every kind of control and initial state, of all that a loss sees; which tasks are refused; whole runs.
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

#include "optimize/sweep.h"
#include "support/meter.h"
#include "support/support.h"

// A box that falls on the floor and slides, a ball joint with a hinge behind it, a filter and a motor, sensors of every order.
#define BODIES(option)                                                                                                          \
  "\"model\": \"<mujoco><option timestep='0.005' " option                                                                       \
  "/><worldbody><geom name='floor' type='plane' size='5 5 1'/><body name='free' pos='0 2 .32'><freejoint name='root'/><geom "   \
  "type='box' size='.1 .2 .3'/><site name='corner' pos='.1 .2 .3'/></body><body name='top' pos='0 0 2'><joint name='ball' "     \
  "type='ball' damping='.05'/><geom type='capsule' size='.03' fromto='0 0 0 .4 0 .1'/><body name='low' pos='.4 0 .1'><joint "   \
  "name='hinge' axis='0 1 0' damping='.1' range='-90 20' limited='true'/><geom type='capsule' size='.02' fromto='0 0 0 .3 0 "   \
  "0'/><site name='end' pos='.3 0 0'/></body></body></worldbody><actuator><general name='slow' joint='hinge' dyntype='filter' " \
  "dynprm='.05' gainprm='.3' ctrlrange='-1 1'/><motor name='push' joint='root' gear='4 0 1 .2 0 0'/><motor name='turn' "        \
  "joint='ball' gear='.1 .2 .3'/></actuator><sensor><accelerometer name='acc' site='end'/><gyro name='gyro' site='end'/>"       \
  "<framequat name='rot' objtype='site' objname='end'/><actuatorfrc name='force' actuator='slow'/></sensor></mujoco>\", "       \
  "\"controls\": [0.2, 1, -0.5], \"init\": {\"joints\": {\"ball\": {\"qpos\": [0.8, 0.2, 0.5, 0.1], \"qvel\": [1, -2, 6]}, "    \
  "\"root\": {\"qvel\": [0.1, 0.3, -1, 3, -2, 1]}}}"
#define POSES  "{\"name\": \"q\", \"qpos\": true, \"at\": \"all\"}, {\"qvel\": true, \"at\": \"all\", \"weight\": 0.01}"
#define TARGET "\"optimizer\": {\"method\": \"gauss-newton\", \"jacobian\": \"%s\"}"

static pbTask *parse(pbContext *ctx, const char *world, const char *rest) {
  char text[16384];
  pbTask *task;
  snprintf(text, sizeof text, "{%s, %s}", world, rest);
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  return task;
}

typedef struct Dense {  // r, J and what follows from them
  int n;
  size_t m;
  double *r, *J, *A, *g, *D, *p, *other;
} Dense;

static Dense begin_dense(pbContext *ctx, pbTask *task, const double *z) {
  size_t n = (size_t)pbTask_Size(task), m = pbTask_ResidualCount(task);
  Dense d = {(int)n, m, zeros(m), zeros(m * n), zeros(n * n), zeros(n), zeros(n), zeros(n), zeros(m + n)};
  good(ctx, pbTask_Residuals(task, z, d.r, d.J));
  for (size_t k = 0; k < m; k++) {
    for (size_t i = 0; i < n; i++) {
      d.g[i] += d.J[k * n + i] * d.r[k];
      for (size_t j = 0; j < n; j++) d.A[i * n + j] += d.J[k * n + i] * d.J[k * n + j];
    }
  }
  return d;
}

static void end_dense(Dense *d) {
  double *all[] = {d->r, d->J, d->A, d->g, d->D, d->p, d->other};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static double norm(const double *v, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += v[i] * v[i];
  return sqrt(sum);
}

static double worst;  // error that was seen, of what it is an error of
static void expect_near(const char *what, const double *a, const double *b, size_t n, double limit) {
  double error = 0;
  for (size_t i = 0; i < n; i++) error += (a[i] - b[i]) * (a[i] - b[i]);
  error = sqrt(error) / (norm(b, n) + 1e-300);
  worst = fmax(worst, error);
  if (!(error <= limit)) fail_msg("%s: the sweep is off by %.3g of it, at most %.3g", what, error, limit);
}

// Cholesky without mercy: what is not held.
static void solve_dense(Dense *d, double lambda, const bool *held) {
  size_t n = (size_t)d->n;
  double *L = zeros(n * n);
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j <= i; j++) {
      bool off = held[i] || held[j];
      double sum = off ? 0 : d->A[i * n + j];
      if (i == j) sum += off ? 1 : lambda * d->D[i];
      for (size_t k = 0; k < j; k++) sum -= L[i * n + k] * L[j * n + k];
      L[i * n + j] = i == j ? sqrt(sum) : sum / L[j * n + j];
    }
  }

  for (size_t i = 0; i < n; i++) {
    d->p[i] = held[i] ? 0 : -d->g[i];
    for (size_t k = 0; k < i; k++) d->p[i] -= L[i * n + k] * d->p[k];
    d->p[i] /= L[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; k++) d->p[i] -= L[k * n + i] * d->p[k];
    d->p[i] /= L[i * n + i];
  }
  free(L);
}

static void compare_moves(pbTaskSweep *sweep, Dense *d, uint64_t seed) {
  size_t n = (size_t)d->n;
  pbRng rng = pbRng_Seed(seed);
  bool *held = calloc(n + 1, sizeof *held);

  // Nothing held, then some here and there; much damping, then little.
  for (int round = 0; round < 3; round++) {
    double lambda = round == 1 ? 1 : 1e-3, squares = 0;
    for (size_t i = 0; i < n; i++) held[i] = round > 0 && pbRng_Uniform(&rng) < 0.3;
    solve_dense(d, lambda, held);
    assert_true(pbTaskSweep_Solve(sweep, lambda, d->D, held, d->other));
    expect_near("move", d->other, d->p, n, 1e-8);
    for (size_t i = 0; i < n; i++) assert_true(!held[i] || d->other[i] == 0);

    for (size_t k = 0; k < d->m; k++) {
      double moved = 0;
      for (size_t i = 0; i < n; i++) moved += d->J[k * n + i] * d->p[i];
      squares += moved * moved;
    }
    double found = pbTaskSweep_Squared(sweep, d->p);
    expect_near("|J p|^2", &found, &squares, 1, 1e-9);
  }
  free(held);
}

// All that a sweep says, at a point beside the start.
static void compare(pbContext *ctx, const char *world, const char *rest, int least) {
  pbTask *task = parse(ctx, world, rest);
  int n = pbTask_Size(task);
  double *z = zeros((size_t)n), *r = zeros(pbTask_ResidualCount(task)), *g = zeros((size_t)n), *diagonal = zeros((size_t)n);
  pbRng rng = pbRng_Seed(7);
  if (n < least) fail_msg("%d unknowns, at least %d are meant", n, least);
  for (int i = 0; i < n; i++) z[i] = pbTask_Start(task)[i] + 0.02 * pbRng_Normal(&rng);

  const char *why = pbTaskSweep_WhyNot(task);
  if (why) fail_msg("refused: %s", why);
  Dense d = begin_dense(ctx, task, z);
  pbTaskSweep *sweep;
  good(ctx, pbTaskSweep_Create(task, &sweep));
  const pbTaskTaker taker = pbTaskSweep_Taker(sweep);
  good(ctx, pbTask_Linearize(task, z, &(double){0}, r, &taker));
  assert_memory_equal(r, d.r, d.m * sizeof *r);

  pbTaskSweep_Look(sweep, g, diagonal);
  double most = 0;
  for (int i = 0; i < n; i++) most = fmax(most, d.A[i * n + i]);
  for (int i = 0; i < n; i++) d.D[i] = d.A[i * n + i];
  expect_near("J'r", g, d.g, (size_t)n, 1e-9);
  for (int i = 0; i < n; i++) {
    if (fabs(diagonal[i] - d.D[i]) > 1e-9 * d.D[i] + 1e-20 * most) fail_msg("diagonal %d: %.15g, %.15g", i, diagonal[i], d.D[i]);
    d.D[i] = fmax(d.D[i], 1e-14 * most);
  }
  worst = 0;
  compare_moves(sweep, &d, 11);
  print_message("%d unknowns: moves differ by %.2g at most\n", n, worst);

  pbTaskSweep_Destroy(task, sweep);
  end_dense(&d);
  free(z);
  free(r);
  free(g);
  free(diagonal);
  pbTask_Destroy(task);
}

static void test_a_control_a_step(void **state) {
  compare(*state, BODIES("") ", \"steps\": 60", "\"variables\": [{\"control\": true}], \"loss\": [" POSES "]", 180);
}

static void test_knots(void **state) {
  static const char variables[] =
      "\"variables\": [{\"control\": \"slow\", \"knots\": 7, \"interpolation\": \"linear\"}, {\"control\": [\"push\", \"turn\"], "
      "\"knots\": %s, \"interpolation\": \"%s\", \"scale\": 3}], \"loss\": [" POSES "]";
  static const char *const kinds[][2] = {{"5", "constant"}, {"5", "linear"},  {"1", "linear"},   {"1", "constant"},
                                         {"2", "linear"},   {"60", "linear"}, {"59", "constant"}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    char rest[1024];
    snprintf(rest, sizeof rest, variables, kinds[i][0], kinds[i][1]);
    compare(*state, BODIES("integrator='implicitfast'") ", \"steps\": 60", rest, 9);
  }
}

static void test_logarithms(void **state) {
  compare(
      *state, BODIES("") ", \"steps\": 40",
      "\"variables\": [{\"control\": [\"push\", \"turn\"], \"knots\": 9, \"interpolation\": \"linear\", \"transform\": \"log\", "
      "\"start\": 0.7, \"lower\": 0.01, \"scale\": 0.5}], \"loss\": [" POSES "]",
      18);
}

static void test_initial_states(void **state) {
  static const char rest[] =
      "\"variables\": [{\"state\": \"qpos\"}, {\"state\": \"qvel\", \"joint\": [\"ball\", \"root\"], \"scale\": 2}, {\"state\": "
      "\"act\"}, {\"control\": true, \"knots\": 4, \"interpolation\": \"linear\"}], \"loss\": [" POSES
      ", {\"act\": true, \"at\": \"all\", \"target\": [0.3]}]";
  compare(*state, BODIES("") ", \"steps\": 40", rest, 30);
  compare(*state, BODIES("integrator='RK4'") ", \"steps\": 40", rest, 30);
  compare(*state, BODIES("cone='elliptic'") ", \"contact\": {\"method\": \"cones\"}, \"steps\": 30", rest, 30);
}

static void test_all_that_a_loss_sees(void **state) {
  static const char rest[] =
      "\"variables\": [{\"state\": \"qvel\"}, {\"control\": \"slow\", \"knots\": 5, \"interpolation\": \"linear\"}, "
      "{\"control\": "
      "[\"push\", \"turn\"], \"knots\": 10}], \"loss\": [{\"sensor\": true, \"at\": {\"from\": 0, \"to\": 0.2, \"every\": 0.01}, "
      "\"weight\": 0.1}, {\"body\": [\"low\", \"free\"], \"at\": \"all\", \"type\": \"above\", \"target\": [0.3, 0, 1.8, 0, 2, "
      "0.31], "
      "\"discount\": 2}, {\"site\": \"end\", \"at\": [0, 0.1, 0.2], \"target\": [[0.5, null, 2], [null, null, null], [0.4, 0.1, "
      "2]]}, "
      "{\"control\": true, \"at\": \"all\", \"weight\": 0.3}, {\"formula\": \"dot(w, w) + v.x * c\", \"inputs\": {\"w\": "
      "{\"sensor\": "
      "\"gyro\"}, \"v\": {\"qvel\": \"root\", \"components\": [0, 1, 2]}, \"c\": {\"control\": \"push\"}}, \"at\": \"all\", "
      "\"type\": "
      "\"squared\", \"weight\": 0.01}, {\"qvel\": \"hinge\", \"at\": \"all\", \"gain\": 2, \"bias\": 0.1, \"sigma\": 0.5}, "
      "{\"act\": "
      "true}]";
  compare(*state, BODIES("") ", \"steps\": 40", rest, 30);
  compare(*state, BODIES("integrator='RK4'") ", \"steps\": 40", rest, 30);
}

static void test_five_hundred_unknowns(void **state) {
  static const char rest[] =
      "\"variables\": [{\"control\": [\"push\", \"turn\"]}, {\"control\": \"slow\", \"knots\": 100, \"interpolation\": "
      "\"linear\"}, "
      "{\"state\": \"qpos\", \"joint\": \"ball\"}, {\"state\": \"qvel\"}], \"loss\": [" POSES
      ", {\"control\": true, \"at\": \"all\", \"weight\": 0.01}]";
  compare(*state, BODIES("integrator='implicitfast'") ", \"steps\": 200", rest, 500);
}

static void test_trajectories(void **state) {
  static const char rest[] =
      "\"trajectories\": [{\"steps\": 20, \"loss\": [" POSES "]}, {\"steps\": 10, \"role\": \"test\", \"loss\": [" POSES
      "]}, {\"steps\": 30, \"init\": {\"joints\": {\"hinge\": {\"qpos\": -0.5}}}, \"loss\": [{\"qvel\": true}, {\"qpos\": "
      "true}]}], "
      "\"variables\": [{\"control\": true, \"trajectory\": 0, \"knots\": 5}, {\"control\": \"push\", \"trajectory\": 2}, "
      "{\"state\": "
      "\"qvel\", \"trajectory\": 2}, {\"control\": \"turn\", \"trajectory\": 1}]";
  compare(*state, BODIES(""), rest, 60);
}

// ---- whole runs -----------------------------------------------------------------------------------------------------
enum { most = 512 };
typedef struct Answer {
  double loss, z[most];
} Answer;

static Answer run(pbContext *ctx, const char *world, const char *rest, const char *jacobian, int threads, int iterations) {
  char all[4096], optimizer[200];
  pbPool *pool = NULL;
  pbRunResult result;
  Answer answer = {0};
  snprintf(optimizer, sizeof optimizer, TARGET, jacobian);
  snprintf(all, sizeof all, "%s, %s", rest, optimizer);
  pbTask *task = parse(ctx, world, all);
  if (threads) good(ctx, pbPool_Create(ctx, threads, &pool));
  good(ctx, pbTask_UsePool(task, pool));

  good(ctx, pbTask_Run(task, &(pbRunOptions){.iterations = iterations}, &result));
  assert_true(pbTask_Size(task) <= most && result.loss < result.start_loss);
  memcpy(answer.z, result.z, (size_t)pbTask_Size(task) * sizeof *result.z);
  answer.loss = result.loss;
  pbTask_Destroy(task);
  pbPool_Destroy(pool);
  return answer;
}

#define FIT                                                                                                                \
  "\"trajectories\": [{\"steps\": 20, \"loss\": [{\"qpos\": \"hinge\", \"target\": -1, \"at\": \"all\"}, {\"control\": "   \
  "true, \"at\": \"all\", \"weight\": 0.01}]}, {\"steps\": 30, \"loss\": [" POSES                                          \
  "]}], \"variables\": [{\"control\": true, "                                                                              \
  "\"trajectory\": 0, \"knots\": 5, \"interpolation\": \"linear\", \"lower\": -1.5, \"upper\": 1.5}, {\"control\": true, " \
  "\"trajectory\": 1, \"lower\": -0.9, \"upper\": 1}]"

static void test_runs_with_bounds(void **state) {
  Answer dense = run(*state, BODIES(""), FIT, "dense", 0, 6), sweep = run(*state, BODIES(""), FIT, "sweep", 0, 6);
  expect_near("loss", &sweep.loss, &dense.loss, 1, 1e-9);
  expect_near("answer", sweep.z, dense.z, most, 1e-7);

  int bound = 0;
  for (int i = 0; i < 105; i++) bound += fabs(sweep.z[i]) == 1.5 || sweep.z[i] == -0.9 || sweep.z[i] == 1;
  print_message("%d of 105 unknowns at bounds\n", bound);
  assert_true(bound >= 3 && bound < 100);

  for (int threads = 1; threads <= 4; threads++) {
    Answer again = run(*state, BODIES(""), FIT, "sweep", threads, 6);
    assert_memory_equal(&again, &sweep, sizeof sweep);
  }
}

// A small problem has the bits of the matrix, a large one those of the sweep.
static void test_auto_goes_by_size(void **state) {
  static const char rest[] = "\"variables\": [{\"control\": true}], \"loss\": [" POSES "]";
  Answer dense = run(*state, BODIES(""), FIT, "dense", 0, 2), small = run(*state, BODIES(""), FIT, "auto", 0, 2);
  assert_memory_equal(&small, &dense, sizeof dense);

  Answer sweep = run(*state, BODIES("") ", \"steps\": 100", rest, "sweep", 0, 1);
  Answer large = run(*state, BODIES("") ", \"steps\": 100", rest, "auto", 0, 1);
  assert_memory_equal(&large, &sweep, sizeof sweep);
}

static void test_memory_changes_no_bit(void **state) {
  Answer all = run(*state, BODIES(""), FIT, "sweep", 0, 3);
  Answer little = run(*state, BODIES("") ", \"memory\": 20000", FIT, "sweep", 0, 3);
  assert_memory_equal(&all, &little, sizeof all);
}

// Interrupted anywhere and resumed, a run ends with the same bits.
typedef struct Stopper {
  int calls, stop_at;
} Stopper;
static int count_calls(void *user, const pbProgress *p) {
  Stopper *s = user;
  (void)p;
  return ++s->calls == s->stop_at;
}

static void test_an_interrupted_run_loses_nothing(void **state) {
  const char *file = "pb_test_sweep_state.npy";
  Answer whole = run(*state, BODIES(""), FIT, "sweep", 0, 4);
  pbTask *task = parse(*state, BODIES(""), FIT ", \"optimizer\": {\"method\": \"gauss-newton\", \"jacobian\": \"sweep\"}");
  Stopper stopper = {0, 3};
  pbRunResult part;
  pbRunOptions options = {.iterations = 4, .state_file = file, .resume = true, .save_seconds = 1e-9, .progress = count_calls};
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
  assert_memory_equal(part.z, whole.z, (size_t)pbTask_Size(task) * sizeof *part.z);
  unlink(file);
  pbTask_Destroy(task);
}

// Each call for memory fails, one at a time: that is said, and all is given back.
static void test_memory_that_is_not_there(void **state) {
  static const char text[] = "{" BODIES("") ", " FIT ", \"optimizer\": {\"method\": \"gauss-newton\", \"jacobian\": \"sweep\"}}";
  (void)state;
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  pbTask *task;
  pbRunResult result;
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));

  pbStatus status = pb_no_memory;
  int refused = 0;
  long live = meter.live;
  for (long at = 1; status != pb_ok; at++) {
    meter.calls = 0;
    meter.fail_at = at;
    status = pbTask_Run(task, &(pbRunOptions){.iterations = 1}, &result);
    assert_true(status == pb_ok || status == pb_no_memory);
    refused += status == pb_no_memory;
    if (status == pb_no_memory) assert_non_null(strstr(pbContext_Error(ctx), "memory"));
    if (refused == 1) live = meter.live;
    meter.fail_at = 0;
  }
  print_message("%d calls for memory were refused\n", refused);
  assert_true(refused > 10 && meter.live >= live);

  pbTask_Destroy(task);
  pbContext_Destroy(ctx);
  assert_int_equal(meter.live, 0);
}

// ---- what is refused ------------------------------------------------------------------------------------------------
static void test_refusals(void **state) {
  static const struct {
    const char *world, *variables, *loss, *why;
  } cases[] = {{"", "{\"parameter\": \"dof_damping\"}", "", "neither of controls nor of an initial state"},
               {", \"trajectories\": [{\"steps\": 4}, {\"steps\": 5}]", "{\"state\": \"qvel\"}", "", "of several trajectories"},
               {"", "{\"state\": \"qvel\"}", "{\"qvel\": \"hinge\", \"at\": [0.0125], \"target\": [0]}", "between two states"},
               {"", "{\"state\": \"qvel\"}, {\"gain\": \"q\"}", "{\"name\": \"q\", \"qvel\": \"hinge\"}", "neither of controls"},
               {", \"contact\": {\"method\": \"impact\"}", "{\"state\": \"qvel\"}", "", "by impacts"},
               {", \"mode\": \"event\"", "{\"state\": \"qvel\"}", "", "'event'"},
               {", \"sample\": {\"worlds\": 2, \"init\": [{\"state\": \"qvel\", \"normal\": [0, 0.1]}]}", "{\"control\": true}",
                "", "worlds are drawn"}};

  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char rest[2048], optimizer[200];
    pbRunResult result;
    snprintf(optimizer, sizeof optimizer, TARGET, "sweep");
    snprintf(rest, sizeof rest, "\"steps\": 10%s, \"variables\": [%s], \"loss\": [%s], %s", cases[i].world, cases[i].variables,
             cases[i].loss[0] ? cases[i].loss : "{\"qvel\": true}", optimizer);
    pbTask *task = parse(*state, BODIES(""), rest);
    assert_int_equal(pbTask_Run(task, &(pbRunOptions){.iterations = 1}, &result), pb_bad_input);
    const char *told = pbContext_Error(*state);
    if (!strstr(told, "optimizer.jacobian") || !strstr(told, cases[i].why))
      fail_msg("'%s' does not say '%s'", told, cases[i].why);
    pbTask_Destroy(task);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_control_a_step),
                                     cmocka_unit_test(test_knots),
                                     cmocka_unit_test(test_logarithms),
                                     cmocka_unit_test(test_initial_states),
                                     cmocka_unit_test(test_all_that_a_loss_sees),
                                     cmocka_unit_test(test_five_hundred_unknowns),
                                     cmocka_unit_test(test_trajectories),
                                     cmocka_unit_test(test_runs_with_bounds),
                                     cmocka_unit_test(test_auto_goes_by_size),
                                     cmocka_unit_test(test_memory_changes_no_bit),
                                     cmocka_unit_test(test_an_interrupted_run_loses_nothing),
                                     cmocka_unit_test(test_memory_that_is_not_there),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
