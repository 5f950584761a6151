// Products of a task's Hessian and a vector: beside extrapolated differences of its gradient, and symmetric, for every type of
// term and every kind of unknown that has them, through contact, limits, balls, free bodies and filters; Newton's method with
// them ends quadratically, through contact, too, and leaves saddles; what has none, and why; the same bits for any number of
// threads; memory.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "optimize/products.h"
#include "support/meter.h"
#include "support/support.h"

#define ARM                                                                                                                      \
  "\"model\": \"<mujoco><option timestep='0.005'/><worldbody><geom name='floor' type='plane' size='5 5 1'/><body name='free' "   \
  "pos='0 2 .29'><freejoint name='root'/><geom type='box' size='.1 .2 .3'/></body><body name='top' pos='0 0 2'><joint "          \
  "name='ball' type='ball' damping='.05'/><geom type='capsule' size='.03' fromto='0 0 0 .4 0 .1'/><body name='low' "             \
  "pos='.4 0 .1'><joint name='hinge' axis='0 1 0' damping='.1' range='-90 20' limited='true'/><geom type='capsule' "             \
  "size='.02' fromto='0 0 0 .3 0 0'/><site name='end' pos='.3 0 0'/></body></body></worldbody><actuator><general name='slow' "   \
  "joint='hinge' dyntype='filter' dynprm='.05' gainprm='.3'/><motor name='push' joint='root' gear='4 0 1 .2 0 0'/><motor "       \
  "name='turn' joint='ball' gear='.1 .2 .3'/></actuator><sensor><gyro name='gyro' site='end'/></sensor></mujoco>\", \"steps\": " \
  "30, \"controls\": [0.2, 1, 0.5], \"init\": {\"joints\": {\"ball\": {\"qpos\": [0.8, 0.2, 0.5, 0.1], \"qvel\": [1, -2, 3]}, "  \
  "\"hinge\": {\"qpos\": 0.3}}}"

static const char *const terms[] = {
    "{\"qvel\": true, \"at\": \"all\", \"weight\": 0.5}",
    "{\"qpos\": true, \"at\": \"all\"}",
    "{\"qpos\": \"ball\", \"at\": \"all\", \"target\": [0.3, 0.5, -0.5, 0.6]}",
    "{\"qpos\": \"root\", \"at\": [0.1, 0.15], \"target\": [0, 2, 0.3, 1, 0, 0, 0], \"type\": \"norm\", \"epsilon\": 0.1}",
    "{\"qvel\": true, \"at\": \"all\", \"type\": \"huber\", \"delta\": 0.5}",
    "{\"site\": \"end\", \"at\": \"all\", \"type\": \"norm\", \"epsilon\": 0.1, \"weight\": 3}",
    "{\"sensor\": \"gyro\", \"at\": \"all\", \"type\": \"above\", \"target\": 0.2}",
    "{\"body\": \"low\", \"type\": \"below\", \"target\": 0.1, \"weight\": 10}",
    "{\"act\": true, \"at\": \"all\", \"type\": \"linear\"}",
    "{\"formula\": \"w.x * w.y + sin(2 * w.z) * u\", \"inputs\": {\"w\": {\"qpos\": \"ball\"}, \"u\": {\"control\": "
    "\"slow\"}}, \"at\": \"all\", \"type\": \"squared\"}",
    "{\"formula\": \"sin(3 * a) * b + exp(a * b) + t * a\", \"inputs\": {\"a\": {\"qvel\": \"hinge\"}, \"b\": {\"site\": "
    "\"end\", "
    "\"components\": [2]}}, \"at\": \"all\", \"type\": \"squared\"}",
};
enum { TERMS = sizeof terms / sizeof *terms };

static const char *const variables[] = {
    "{\"control\": true, \"knots\": 4, \"interpolation\": \"linear\"}",
    "{\"control\": \"slow\", \"knots\": 3, \"scale\": 2}, {\"control\": \"push\", \"transform\": \"log\", \"start\": 1}",
    "{\"state\": \"qvel\"}, {\"state\": \"act\"}",
    "{\"state\": \"qpos\"}",
    "{\"state\": \"qpos\", \"joint\": \"ball\", \"scale\": 0.7}, {\"control\": true, \"knots\": 2}, {\"state\": \"qvel\", "
    "\"joint\": \"root\"}",
    "{\"state\": \"qpos\", \"joint\": \"ball\", \"components\": [0, 2]}",
};
enum { VARIABLES = sizeof variables / sizeof *variables };

static pbTask *parse(pbContext *ctx, const char *world, const char *vary, const char *loss, const char *rest) {
  char text[16384];
  pbTask *task;
  snprintf(text, sizeof text, "{%s, \"variables\": [%s], \"loss\": [%s]%s}", world, vary, loss, rest);
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  return task;
}

static double *point_of(const pbTask *task, double size) {
  int n = pbTask_Size(task);
  uint64_t seed = 3;
  double *z = zeros((size_t)n);
  for (int i = 0; i < n; i++) z[i] = pbTask_Start(task)[i] + size * noise64(&seed);
  return z;
}

// Differences over a move, and over half of it.
static void difference(pbContext *ctx, pbTask *task, const double *z, const double *v, double by, double *Hv) {
  size_t n = (size_t)pbTask_Size(task);
  double *at = zeros(n), *up = zeros(n), *down = zeros(n), value;
  memset(Hv, 0, n * sizeof *Hv);
  for (int k = 0; k < 2; k++) {
    double size = k ? by / 2 : by, weight = k ? 4.0 / 3 : -1.0 / 3;
    for (size_t i = 0; i < n; i++) at[i] = z[i] + size * v[i];
    good(ctx, pbTask_Loss(task, at, &value, up));
    for (size_t i = 0; i < n; i++) at[i] = z[i] - size * v[i];
    good(ctx, pbTask_Loss(task, at, &value, down));
    for (size_t i = 0; i < n; i++) Hv[i] += weight * (up[i] - down[i]) / (2 * size);
  }
  free(at);
  free(up);
  free(down);
}

static double norm_of(const double *a, int n) { return sqrt(dot(a, a, (size_t)n)); }

// Worst error of a product, relative to its length, and of symmetry.
static void compare(pbContext *ctx, pbTask *task, double size, double *error, double *asymmetry) {
  int n = pbTask_Size(task);
  double *z = point_of(task, size), *v = zeros((size_t)n), *w = zeros((size_t)n), *Hv = zeros((size_t)n), *Hw = zeros((size_t)n);
  double *expected = zeros((size_t)n);
  uint64_t seed = 11;
  pbTaskProducts *products;
  fill_noise(&seed, v, n, 1);
  fill_noise(&seed, w, n, 1);
  good(ctx, pbTaskProducts_Create(task, &products));
  good(ctx, pbTaskProducts_Make(products, z, v, Hv));
  good(ctx, pbTaskProducts_Make(products, z, w, Hw));
  double scale = 0;
  *error = INFINITY;

  // kinks beside long moves, rounding of short ones
  for (int k = 0; k < 4; k++) {
    double off = 0;
    difference(ctx, task, z, v, 1e-3 * pow(10, -k), expected);
    scale = norm_of(expected, n) + 1e-9;
    for (int i = 0; i < n; i++) off = fmax(off, fabs(Hv[i] - expected[i]));
    *error = fmin(*error, off / scale);
  }
  *asymmetry = fabs(dot(w, Hv, (size_t)n) - dot(v, Hw, (size_t)n)) / (norm_of(w, n) * scale);
  pbTaskProducts_Destroy(task, products);
  free(z);
  free(v);
  free(w);
  free(Hv);
  free(Hw);
  free(expected);
}

// Every type of term by every kind of unknown.
static void test_differences(void **state) {
  pbContext *ctx = *state;
  double worst = 0;
  for (int i = 0; i < TERMS * VARIABLES; i++) {
    double error, asymmetry;
    char why[256];
    pbTask *task = parse(ctx, ARM, variables[i % VARIABLES], terms[i / VARIABLES], "");
    const char *lacks = pbTask_WhyNoProducts(task, why, sizeof why);
    if (lacks) fail_msg("%s: %s: %s", terms[i / VARIABLES], variables[i % VARIABLES], lacks);
    compare(ctx, task, 0.002, &error, &asymmetry);
    if (!(error < 2e-8 && asymmetry < 1e-13))
      fail_msg("%s by %s: %.1e, not symmetric by %.1e", terms[i / VARIABLES], variables[i % VARIABLES], error, asymmetry);
    worst = fmax(worst, error);
    pbTask_Destroy(task);
  }
  print_message("%d products beside differences: %.1e\n", TERMS * VARIABLES, worst);
}

// ---- searches -----------------------------------------------------------------------------------------------------------
// A cart whose pole is to be swung up in one second and a half, and a block that slides over a floor and is steered there.
#define POLE POLE_IN("")
#define POLE_IN(medium)                                                                                                 \
  "\"model\": \"<mujoco><option timestep='0.02'" medium                                                                 \
  "/><worldbody><body name='cart'><joint name='x' type='slide' "                                                        \
  "axis='1 0 0'/><geom type='box' size='.2 .1 .1' mass='1' contype='0' conaffinity='0'/><body><joint name='a' "         \
  "axis='0 1 0'/><geom type='capsule' size='.02' fromto='0 0 0 0 0 -.6' mass='.1' contype='0' conaffinity='0'/></body>" \
  "</body></worldbody><actuator><motor joint='x'/></actuator></mujoco>\", \"steps\": 75"
#define SWING                                                                                                               \
  "{\"qpos\": \"a\", \"target\": 3.141592653589793, \"weight\": 100}, {\"qvel\": true, \"weight\": 10}, {\"qpos\": \"x\", " \
  "\"weight\": 10}, {\"control\": true, \"at\": \"all\", \"weight\": 0.01}"
#define BLOCK                                                                                                                   \
  "\"model\": \"<mujoco><option timestep='0.005' cone='elliptic'/><worldbody><geom type='plane' size='5 5 1' friction='.3' "    \
  "solref='.1 1'/>"                                                                                                             \
  "<body pos='0 0 .1'><joint name='x' type='slide' axis='1 0 0'/><joint name='y' type='slide' axis='0 1 0'/><joint name='z' "   \
  "type='slide' axis='0 0 1'/><geom type='sphere' size='.1' mass='1' "                                                          \
  "friction='.3' solref='.1 1'/></body></worldbody><actuator><motor "                                                           \
  "joint='x'/><motor joint='y'/></actuator></mujoco>\", \"steps\": 80, \"init\": {\"qpos\": [0, 0, -0.01], \"qvel\": [2, 0.5, " \
  "0]}"
#define ALONG                                                                                                           \
  "{\"qpos\": \"x\", \"target\": 0.5, \"weight\": 10}, {\"qpos\": \"y\", \"target\": 0.4, \"weight\": 10}, {\"qvel\": " \
  "\"x\", \"target\": 0.4}, {\"control\": true, \"at\": \"all\", \"weight\": 1e-5}"
#define NEWTON ", \"optimizer\": {\"method\": \"newton-cg\", \"iterations\": 300}"

// What the best losses of iterations are above the least, of the last three where that is more than rounding.
static void last_gaps(const pbTask *task, double least, double *gap) {
  int last = task->history.count;
  while (last > 0 && task->history.rows[last - 1][2] - least <= 1e-13 * least) last--;
  assert_true(last >= 3);
  for (int i = 0; i < 3; i++) gap[i] = task->history.rows[last - 3 + i][2] - least;
}

static void test_quadratic_end(void **state) {
  static const char *const worlds[] = {POLE, BLOCK}, *const losses[] = {SWING, ALONG};
  static const char *const vary[] = {"{\"control\": true, \"start\": 0.5}", "{\"control\": true, \"knots\": 8}"};
  for (int k = 0; k < 2; k++) {
    pbTask *task = parse(*state, worlds[k], vary[k], losses[k], NEWTON);
    pbRunResult result, by;
    double gap[3];
    good(*state, pbTask_Run(task, &(pbRunOptions){0}, &result));
    last_gaps(task, result.loss, gap);
    print_message("%s: loss %.15g, %d iterations, %lld products, gaps %.3g, %.3g, %.3g; %s\n", k ? "block" : "pole", result.loss,
                  result.iterations, (long long)result.products, gap[0], gap[1], gap[2], result.reason);
    assert_int_equal(result.outcome, pb_runConverged);
    assert_int_equal(result.differences, 0);
    assert_true(result.products > 0 && !result.inexact);
    for (int i = 0; i < 2; i++) assert_true(gap[i + 1] <= 1e5 * gap[i] * gap[i] / result.loss);

    // the same loss, by more iterations
    good(*state, pbTask_Run(task, &(pbRunOptions){.method = "lbfgs", .iterations = 2000}, &by));
    print_message("  lbfgs: loss %.15g, %d iterations\n", by.loss, by.iterations);
    assert_true(by.iterations > result.iterations && by.loss >= result.loss * (1 - 1e-9));
    pbTask_Destroy(task);
  }
}

// Hanging at rest with no controls is a saddle: left, and not reported as an answer.
static void test_saddle(void **state) {
  const char *up =
      "{\"formula\": \"cos(a)\", \"inputs\": {\"a\": {\"qpos\": \"a\"}}, \"weight\": 30}, {\"qvel\": true}, "
      "{\"control\": true, \"at\": \"all\", \"weight\": 0.01}";
  pbTask *task = parse(*state, POLE, "{\"control\": true}", up, NEWTON);
  pbRunResult result;
  good(*state, pbTask_Run(task, &(pbRunOptions){0}, &result));
  print_message("saddles left: %d, loss %g to %g\n", result.left, result.start_loss, result.loss);
  assert_true(result.left >= 1 && result.start_loss == 30 && result.loss < 0);
  assert_int_equal(result.outcome, pb_runConverged);
  pbTask_Destroy(task);
}

// ---- what has none --------------------------------------------------------------------------------------------------------
static void test_refusals(void **state) {
  static const struct {
    const char *vary, *loss, *rest, *why;
  } cases[] = {
      {"{\"parameter\": \"dof_damping\"}", "{\"qvel\": true}", "", "variable 'dof_damping', a parameter, has none"},
      {"{\"control\": true}", "{\"qvel\": true}", ", \"mode\": \"smooth\", \"contact\": {\"kappa\": 100}",
       "they are those of mode \"exact\""},
      {"{\"control\": true}", "{\"qpos\": \"ball\", \"at\": [0.0123], \"target\": [1, 0, 0, 0]}", "",
       "rotations between two states have none (term 'qpos:ball')"},
      {"{\"control\": true}", "{\"qvel\": true}", ", \"contact\": {\"method\": \"lcp\"}",
       "contact methods other than soft and penalty have none"},
      {"{\"control\": true, \"knots\": 2}", "{\"qvel\": true}",
       ", \"sample\": {\"worlds\": 2, \"init\": [{\"state\": \"qvel\", \"normal\": [0, 0.1]}]}", "a task with draws has none"},
  };
  pbContext *ctx = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char why[256], rest[600];
    snprintf(rest, sizeof rest, "%s, \"optimizer\": {\"method\": \"newton-cg\", \"hessian\": \"exact\"}", cases[i].rest);
    pbTask *task = parse(ctx, ARM, cases[i].vary, cases[i].loss, rest);
    pbRunResult result;
    assert_string_equal(pbTask_WhyNoProducts(task, why, sizeof why), cases[i].why);

    // insisted on, refused; else by differences, which the result says
    assert_int_equal(pbTask_Run(task, &(pbRunOptions){.iterations = 2}, &result), pb_bad_input);
    assert_non_null(strstr(pbContext_Error(ctx), cases[i].why));
    task->hessian = pb_hessianAuto;
    good(ctx, pbTask_Run(task, &(pbRunOptions){.iterations = 2}, &result));
    assert_true(result.products == 0 && result.differences > 0);
    assert_string_equal(result.inexact, cases[i].why);
    assert_true(result.loss < result.start_loss);
    pbTask_Destroy(task);
  }

  pbTask *task = parse(ctx, ARM, "{\"control\": true}", "{\"qvel\": true}", ", \"gradient\": {\"decay\": 5}" NEWTON);
  pbRunResult result;
  assert_int_equal(pbTask_Run(task, &(pbRunOptions){0}, &result), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(ctx), "newton-cg needs gradients of a function"));
  pbTask_Destroy(task);
}

// A medium has none, which a step says: differences take over, without a product.
static void test_medium(void **state) {
  pbTask *task = parse(*state, POLE_IN(" density='1000'"), "{\"control\": true, \"knots\": 5}", SWING, NEWTON);
  pbRunResult result;
  good(*state, pbTask_Run(task, &(pbRunOptions){.iterations = 5}, &result));
  assert_true(result.products == 0 && result.differences > 0 && result.loss < result.start_loss);
  assert_string_equal(result.inexact, "at some points a step has no second derivatives");
  pbTask_Destroy(task);
}

// ---- threads, memory ------------------------------------------------------------------------------------------------------
#define TWICE                                                                                                           \
  ", \"trajectories\": [{\"init\": {\"qvel\": [0, 0.1]}}, {\"init\": {\"qvel\": [0, 0.3]}}, {\"init\": {\"qvel\": [1, " \
  "0]}}]" NEWTON

static void test_threads(void **state) {
  double *answer[2];
  int n = 0;
  for (int threads = 0; threads < 2; threads++) {
    pbPool *pool;
    pbRunResult result;
    pbTask *task =
        parse(*state, POLE, "{\"control\": true, \"knots\": 10, \"prior\": {\"mean\": 0, \"sigma\": 10}}", SWING, TWICE);
    good(*state, pbPool_Create(*state, threads ? 3 : 1, &pool));
    good(*state, pbTask_UsePool(task, pool));
    good(*state, pbTask_Run(task, &(pbRunOptions){.iterations = 6}, &result));
    n = pbTask_Size(task);
    answer[threads] = zeros((size_t)n);
    memcpy(answer[threads], result.z, (size_t)n * sizeof(double));
    pbTask_Destroy(task);
    pbPool_Destroy(pool);
  }
  assert_memory_equal(answer[0], answer[1], (size_t)n * sizeof(double));
  free(answer[0]);
  free(answer[1]);
}

// Products take no memory but the first one's; each call that fails is said, and all is given back.
static void test_memory(void **state) {
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  (void)state;
  pbTask *task = parse(ctx, ARM, variables[4], terms[3], NEWTON);
  pbStatus status = pb_no_memory;
  pbRunResult result;
  int refused = 0;
  for (long at = 1; status != pb_ok; at++) {
    meter.calls = 0;
    meter.fail_at = at;
    status = pbTask_Run(task, &(pbRunOptions){.iterations = 1}, &result);
    assert_true(status == pb_ok || status == pb_no_memory);
    refused += status == pb_no_memory;
    if (status == pb_no_memory) assert_non_null(strstr(pbContext_Error(ctx), "memory"));
  }
  meter.fail_at = 0;
  assert_true(refused > 3);

  pbTaskProducts *products;
  double *z = point_of(task, 0.002), *v = point_of(task, 0.1), *Hv = zeros((size_t)pbTask_Size(task));
  good(ctx, pbTaskProducts_Create(task, &products));
  good(ctx, pbTaskProducts_Make(products, z, v, Hv));
  meter.calls = 0;
  for (int i = 0; i < 5; i++) good(ctx, pbTaskProducts_Make(products, z, v, Hv));
  assert_int_equal(meter.calls, 0);
  pbTaskProducts_Destroy(task, products);
  free(z);
  free(v);
  free(Hv);
  pbTask_Destroy(task);
  pbContext_Destroy(ctx);
  assert_int_equal(meter.live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_differences), cmocka_unit_test(test_quadratic_end),
                                     cmocka_unit_test(test_saddle),      cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_medium),      cmocka_unit_test(test_threads),
                                     cmocka_unit_test(test_memory)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
