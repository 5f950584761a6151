// Batches: worlds as if each were alone, to the bit, for any number of threads and any worlds beside it; sums in their tree; worlds
// that fail; own parameters with derived constants.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/batch.h>
#include <pullback/io.h>
#include <pullback/spec.h>

#include "support/support.h"

// A ball that falls on a plane and rolls, and an arm of a ball and a hinge joint with a motor and activation.
static const char scene[] =
    "<mujoco><option timestep='0.004'/>"
    "<worldbody><geom name='floor' type='plane' size='5 5 .1'/>"
    "<body name='ball' pos='0 0 .14'><freejoint name='root'/><geom name='ball' size='.1' mass='1'/><site name='tip' pos='.05 0 "
    ".02'/></body>"
    "<body name='arm' pos='1 0 1'><joint name='swing' type='ball' damping='.1'/><geom type='capsule' size='.03' fromto='0 0 0 .4 "
    "0 .1'/>"
    "<body name='hand' pos='.4 0 .1'><joint name='wrist' axis='0 1 0' damping='.05'/><geom type='capsule' size='.02' fromto='0 0 "
    "0 .3 0 0'/><site name='end' pos='.3 0 0'/></body></body></worldbody>"
    "<actuator><general name='motor' joint='wrist' dyntype='filter' dynprm='.05' gainprm='2'/></actuator>"
    "<sensor><framepos objtype='site' objname='end'/><jointvel joint='wrist'/><actuatorfrc actuator='motor'/></sensor></mujoco>";

enum { W = 37, T = 12 };
static const char *const own[] = {"body_mass:hand", "geom_friction:ball:0"};

typedef struct World {
  pbContext *ctx;
  pbModel *model;
  const double *theta;
  size_t nx, n, nv, nu, ns, ntheta;
  double *x0, *ctrl, *shared_ctrl, *bar_v, *bar_s;  // (W, nx), (W, T, nu), (T, nu), (W, 1, nv), (W, T + 1, ns)
} World;

static int setup(void **state) {
  World *s = calloc(1, sizeof *s);
  unsigned seed = 5;
  s->ctx = pbContext_Create(NULL);
  s->model = model_of_text(s->ctx, scene);
  s->theta = pbModel_DefaultParams(s->model);
  s->ntheta = pbModel_ParamSize(s->model);
  s->nx = (size_t)pbModel_StateSize(s->model);
  s->n = (size_t)pbModel_TangentSize(s->model);
  s->nv = (size_t)pbModel_Size(s->model, "nv");
  s->nu = (size_t)pbModel_Size(s->model, "nu");
  s->ns = (size_t)pbModel_Size(s->model, "nsensordata");
  s->x0 = zeros(W * s->nx);
  double *move = zeros(s->n);
  for (size_t w = 0; w < W; w++) {
    double *x = s->x0 + w * s->nx;
    if (pbState_Init(s->ctx, s->model, s->theta, -1, x) != pb_ok) return 1;
    for (size_t i = 0; i < s->n; i++) move[i] = noise(&seed);
    pbState_Move(s->model, x, move, .05);  // the ball of some worlds touches the ground, and of others does not
  }
  free(move);
  s->ctrl = random_numbers(W * T * s->nu, 1, &seed);
  s->shared_ctrl = random_numbers(T * s->nu, 1, &seed);
  s->bar_v = random_numbers(W * s->nv, 1, &seed);
  s->bar_s = random_numbers(W * (T + 1) * s->ns, 1, &seed);
  *state = s;
  return 0;
}

static int teardown(void **state) {
  World *s = *state;
  double *all[] = {s->x0, s->ctrl, s->shared_ctrl, s->bar_v, s->bar_s};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
  pbModel_Destroy(s->model);
  pbContext_Destroy(s->ctx);
  free(s);
  return 0;
}

static pbBatch *open(const World *s, pbPool *pool, int worlds, bool with_own) {
  pbBatchOptions options = {.worlds = worlds, .pool = pool, .steps = T, .shared_inputs = true};
  if (with_own) {
    options.own = own;
    options.own_count = 2;
  }
  pbBatch *batch;
  good(s->ctx, pbBatch_Create(s->ctx, s->model, &options, &batch));
  return batch;
}

static pbRolloutBar bar_of(const World *s, size_t world) {
  return (pbRolloutBar){.qvel = {.data = s->bar_v + world * s->nv, .count = 1},
                        .sensordata = {.data = s->bar_s + world * (T + 1) * s->ns, .count = T + 1}};
}

// What a batch gives, all of it.
typedef struct Result {
  double *end, *sensors, *xpos, *x0, *ctrl, *theta, *own;
  pbCertificate certificate[W];
} Result;

static void free_result(Result *r) {
  double *all[] = {r->end, r->sensors, r->xpos, r->x0, r->ctrl, r->theta, r->own};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static Result begin_result(const World *s) {
  size_t nbody = (size_t)pbModel_Size(s->model, "nbody");
  return (Result){.end = zeros(W * s->nx),
                  .sensors = zeros(W * (T + 1) * s->ns),
                  .xpos = zeros(W * (T + 1) * 3 * nbody),
                  .x0 = zeros(W * s->n),
                  .ctrl = zeros(W * T * s->nu),
                  .theta = zeros(s->ntheta),
                  .own = zeros(W * 2)};
}

static void run(const World *s, pbBatch *batch, const int *ids, int count, bool shared, Result *r) {
  pbBatchInput input = {.ctrl = shared ? s->shared_ctrl : s->ctrl, .shared = shared ? pb_sharedCtrl : 0};
  pbBatchOutput output = {.sensordata = r->sensors, .xpos = r->xpos};
  good(s->ctx, pbBatch_Reset(batch, NULL, ids, count, -1, s->x0));
  good(s->ctx, pbBatch_Rollout(batch, NULL, ids, count, T, &input, &output));
  memcpy(r->end, pbBatch_States(batch), W * s->nx * sizeof *r->end);
  pbRolloutBar bar = bar_of(s, 0);
  pbBatchGradient g = {.x0 = r->x0, .ctrl = r->ctrl, .theta = r->theta, .own = r->own};
  good(s->ctx, pbBatch_Vjp(batch, &bar, NULL, &g, r->certificate));
}

// ---- one by one -------------------------------------------------------------------------------------------------------
static void test_a_world_is_as_if_alone(void **state) {
  World *s = *state;
  pbPool *pool;
  good(s->ctx, pbPool_Create(s->ctx, 3, &pool));
  pbBatch *batch = open(s, pool, W, false);
  Result r = begin_result(s);
  run(s, batch, NULL, 0, false, &r);

  pbRolloutPlan plan;
  pbRollout *rollout;
  good(s->ctx, pbRollout_Plan(s->ctx, s->model, T, 0, &plan));
  good(s->ctx, pbRollout_Create(s->ctx, s->model, &plan, NULL, &rollout));
  double *end = zeros(s->nx), *sensors = zeros((T + 1) * s->ns), *x0 = zeros(s->n), *ctrl = zeros(T * s->nu);
  double *sum = zeros(s->ntheta);
  for (size_t w = 0; w < W; w++) {
    pbRolloutInput input = {.ctrl = s->ctrl + w * T * s->nu};
    pbRolloutOutput output = {.final_state = end, .sensordata = sensors};
    good(s->ctx, pbRollout_Forward(rollout, s->theta, s->x0 + w * s->nx, &input, &output));
    pbRolloutBar bar = bar_of(s, w);
    memset(x0, 0, s->n * sizeof *x0);
    memset(ctrl, 0, T * s->nu * sizeof *ctrl);
    pbCertificate certificate;
    good(s->ctx, pbRollout_Vjp(rollout, &bar, NULL, &(pbRolloutGradient){.x0 = x0, .ctrl = ctrl, .theta = sum}, &certificate));
    assert_memory_equal(end, r.end + w * s->nx, s->nx * sizeof *end);
    assert_memory_equal(sensors, r.sensors + w * (T + 1) * s->ns, (T + 1) * s->ns * sizeof *sensors);
    assert_memory_equal(x0, r.x0 + w * s->n, s->n * sizeof *x0);
    assert_memory_equal(ctrl, r.ctrl + w * T * s->nu, T * s->nu * sizeof *ctrl);
    assert_int_equal(certificate.onsets, r.certificate[w].onsets);
    assert_true(certificate.growth == r.certificate[w].growth);
  }
  double size = 0;
  for (size_t i = 0; i < s->ntheta; i++) size = fmax(size, fabs(sum[i]));
  for (size_t i = 0; i < s->ntheta; i++) assert_true(fabs(sum[i] - r.theta[i]) <= 1e-13 * size);

  // Single steps, whatever is done in between, arrive at the same states.
  good(s->ctx, pbBatch_Reset(batch, NULL, NULL, 0, -1, s->x0));
  double *row = zeros(W * s->nu);
  for (size_t k = 0; k < T; k++) {
    for (size_t w = 0; w < W; w++) memcpy(row + w * s->nu, s->ctrl + (w * T + k) * s->nu, s->nu * sizeof *row);
    good(s->ctx, pbBatch_Step(batch, NULL, NULL, 0, &(pbBatchInput){.ctrl = row}, NULL));
  }
  assert_memory_equal(pbBatch_States(batch), r.end, W * s->nx * sizeof(double));

  double *all[] = {end, sensors, x0, ctrl, sum, row};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
  free_result(&r);
  pbRollout_Destroy(rollout);
  pbBatch_Destroy(batch);
  pbPool_Destroy(pool);
}

// ---- the same bits ------------------------------------------------------------------------------------------------------
static void check_same(const World *s, const Result *a, const Result *b) {
  assert_memory_equal(a->end, b->end, W * s->nx * sizeof(double));
  assert_memory_equal(a->sensors, b->sensors, W * (T + 1) * s->ns * sizeof(double));
  assert_memory_equal(a->xpos, b->xpos, W * (T + 1) * 3 * (size_t)pbModel_Size(s->model, "nbody") * sizeof(double));
  assert_memory_equal(a->x0, b->x0, W * s->n * sizeof(double));
  assert_memory_equal(a->ctrl, b->ctrl, W * T * s->nu * sizeof(double));
  assert_memory_equal(a->theta, b->theta, s->ntheta * sizeof(double));
  for (int w = 0; w < W; w++) assert_true(a->certificate[w].growth == b->certificate[w].growth);
}

static void test_threads_change_no_bit(void **state) {
  World *s = *state;
  for (int shared = 0; shared < 2; shared++) {
    pbBatch *alone = open(s, NULL, W, false);
    Result one = begin_result(s);
    run(s, alone, NULL, 0, shared, &one);
    pbBatch_Destroy(alone);

    for (int threads = 1; threads <= 8; threads++) {
      pbPool *pool;
      good(s->ctx, pbPool_Create(s->ctx, threads, &pool));
      pbBatch *batch = open(s, pool, W, false);
      Result r = begin_result(s);
      run(s, batch, NULL, 0, shared, &r);
      check_same(s, &one, &r);
      free_result(&r);
      pbBatch_Destroy(batch);
      pbPool_Destroy(pool);
    }
    free_result(&one);
  }
}

// Sum over worlds from .. from + size - 1 of rows by halves; false where none of them takes part.
static bool tree(const double *rows, size_t width, const bool *in, int from, int size, double *out) {
  if (from >= W) return false;
  if (size == 1) {
    memcpy(out, rows + (size_t)from * width, width * sizeof *out);
    return in[from];
  }
  double *right = zeros(width);
  bool has_left = tree(rows, width, in, from, size / 2, out);
  bool has_right = tree(rows, width, in, from + size / 2, size / 2, right);
  for (size_t i = 0; has_right && i < width; i++) out[i] = has_left ? out[i] + right[i] : right[i];
  free(right);
  return has_left || has_right;
}

// Worlds that take part, as a mask, and a list of their numbers.
static int choose(unsigned seed, int one_of, bool *in, int *ids) {
  int count = 0;
  for (int w = 0; w < W; w++) {
    noise(&seed);
    in[w] = (seed >> 16) % (unsigned)one_of == 0;
    if (in[w]) ids[count++] = w;
  }
  return count;
}

static void test_sums_are_trees_over_world_numbers(void **state) {
  World *s = *state;
  pbPool *pool;
  good(s->ctx, pbPool_Create(s->ctx, 3, &pool));
  pbBatch *batch = open(s, pool, W, false);
  size_t rows = T * s->nu;

  // Each world alone: what the sum has as leaves.
  double *theta = zeros(W * s->ntheta), *ctrl = zeros(W * rows);
  Result all = begin_result(s);
  for (int w = 0; w < W; w++) {
    Result r = begin_result(s);
    run(s, batch, &w, 1, true, &r);
    memcpy(theta + (size_t)w * s->ntheta, r.theta, s->ntheta * sizeof *theta);
    memcpy(ctrl + (size_t)w * rows, r.ctrl, rows * sizeof *ctrl);
    memcpy(all.x0 + (size_t)w * s->n, r.x0 + (size_t)w * s->n, s->n * sizeof *r.x0);
    free_result(&r);
  }

  double *sum_theta = zeros(s->ntheta), *sum_ctrl = zeros(rows);
  for (int one_of = 1; one_of < 20; one_of++) {
    bool in[W];
    int ids[W], count = choose((unsigned)one_of, one_of, in, ids);
    Result r = begin_result(s);
    run(s, batch, ids, count, true, &r);
    if (tree(theta, s->ntheta, in, 0, 64, sum_theta))
      for (size_t i = 0; i < s->ntheta; i++) assert_true(sum_theta[i] == r.theta[i]);
    if (tree(ctrl, rows, in, 0, 64, sum_ctrl))
      for (size_t i = 0; i < rows; i++) assert_true(sum_ctrl[i] == r.ctrl[i]);
    for (size_t w = 0; w < W; w++) {
      for (size_t i = 0; i < s->n; i++) assert_true(r.x0[w * s->n + i] == (in[w] ? all.x0[w * s->n + i] : 0));
    }
    free_result(&r);
  }

  double *every[] = {theta, ctrl, sum_theta, sum_ctrl};
  for (size_t i = 0; i < sizeof every / sizeof *every; i++) free(every[i]);
  free_result(&all);
  pbBatch_Destroy(batch);
  pbPool_Destroy(pool);
}

static void test_reset_worlds_are_as_new(void **state) {
  World *s = *state;
  pbBatch *batch = open(s, NULL, W, false);
  Result first = begin_result(s), second = begin_result(s);
  run(s, batch, NULL, 0, false, &first);
  run(s, batch, NULL, 0, false, &second);
  check_same(s, &first, &second);

  // All of the state, what the solver starts from, too.
  good(s->ctx, pbBatch_Reset(batch, NULL, NULL, 0, -1, s->x0));
  assert_memory_equal(pbBatch_States(batch), s->x0, W * s->nx * sizeof(double));
  memcpy(pbBatch_States(batch), first.end, W * s->nx * sizeof(double));

  // Some only: the others go on.
  static const int some[] = {3, 4, 36};
  good(s->ctx, pbBatch_Reset(batch, NULL, some, 3, -1, NULL));
  double *x = zeros(s->nx);
  good(s->ctx, pbState_Init(s->ctx, s->model, s->theta, -1, x));
  for (int w = 0; w < W; w++) {
    bool reset = w == 3 || w == 4 || w == 36;
    const double *expected = reset ? x : first.end + (size_t)w * s->nx;
    assert_memory_equal(pbBatch_States(batch) + (size_t)w * s->nx, expected, s->nx * sizeof *x);
  }

  // A keyframe that there is not: they stay where they are.
  int keys = pbModel_Size(s->model, "nkey");
  memcpy(pbBatch_States(batch), first.end, W * s->nx * sizeof(double));
  assert_int_equal(pbBatch_Reset(batch, NULL, NULL, 0, keys, NULL), pb_bad_argument);
  assert_memory_equal(pbBatch_States(batch), first.end, W * s->nx * sizeof(double));
  free(x);
  free_result(&first);
  free_result(&second);
  pbBatch_Destroy(batch);
}

// ---- worlds that fail ---------------------------------------------------------------------------------------------------
static void test_a_world_that_fails(void **state) {
  World *s = *state;
  enum { bad = 13, worse = 30 };
  pbPool *pool;
  good(s->ctx, pbPool_Create(s->ctx, 2, &pool));
  pbBatch *batch = open(s, pool, W, false);
  int ids[W], count = 0;
  for (int w = 0; w < W; w++) {
    if (w != bad && w != worse) ids[count++] = w;
  }
  Result without = begin_result(s), with = begin_result(s);
  run(s, batch, ids, count, false, &without);

  // One that leaves the bounds after some steps, one that begins beyond them.
  pbBatchInput input = {.ctrl = s->ctrl};
  int steps_done[W];
  double *states = zeros(W * (T + 1) * s->nx);
  pbBatchOutput output = {.sensordata = with.sensors, .xpos = with.xpos, .states = states, .steps_done = steps_done};
  good(s->ctx, pbBatch_Reset(batch, NULL, NULL, 0, -1, s->x0));
  double *x = pbBatch_States(batch);
  pbStateField qvel = pbModel_StateFieldAt(s->model, 2);
  assert_string_equal(qvel.name, "qvel");
  x[bad * s->nx + (size_t)qvel.offset] = 5e9;
  x[bad * s->nx + (size_t)pbModel_StateFieldAt(s->model, 1).offset] = 1e10 - 1e8;
  x[worse * s->nx + (size_t)qvel.offset + 2] = NAN;
  double start[2];
  start[0] = x[worse * s->nx + (size_t)qvel.offset];
  pbStatus status = pbBatch_Rollout(batch, NULL, NULL, 0, T, &input, &output);
  assert_int_equal(status, pb_not_finite);
  assert_int_equal(pbBatch_Failed(batch), 2);
  assert_non_null(strstr(pbContext_Error(s->ctx), "world 13: step "));
  assert_non_null(strstr(pbContext_Error(s->ctx), "and 1 other worlds of 37"));
  for (int w = 0; w < W; w++) {
    assert_int_equal(pbBatch_Status(batch)[w] != pb_ok, w == bad || w == worse);
    assert_int_equal(*pbBatch_Error(batch, w) != 0, w == bad || w == worse);
  }
  assert_int_equal(steps_done[worse], 0);
  assert_true(steps_done[bad] > 0 && steps_done[bad] < T && steps_done[0] == T);

  // Each is where its failing step began.
  const double *reached = states + ((size_t)bad * (T + 1) + (size_t)steps_done[bad]) * s->nx;
  assert_memory_equal(x + bad * s->nx, reached, s->nx * sizeof *x);
  assert_true(x[worse * s->nx + (size_t)qvel.offset] == start[0]);

  // A report is of a world's last step.
  assert_true(pbBatch_Report(batch, 0).converged && pbBatch_Report(batch, 0).residual < 1e-6);

  // The others as without them, and so the sum.
  memcpy(with.end, x, W * s->nx * sizeof *x);
  pbRolloutBar bar = bar_of(s, 0);
  pbBatchGradient g = {.x0 = with.x0, .ctrl = with.ctrl, .theta = with.theta};
  good(s->ctx, pbBatch_Vjp(batch, &bar, NULL, &g, NULL));
  for (int i = 0; i < count; i++) {
    size_t w = (size_t)ids[i];
    assert_memory_equal(with.end + w * s->nx, without.end + w * s->nx, s->nx * sizeof *x);
    assert_memory_equal(with.sensors + w * (T + 1) * s->ns, without.sensors + w * (T + 1) * s->ns, (T + 1) * s->ns * sizeof *x);
  }
  assert_memory_equal(with.x0, without.x0, W * s->n * sizeof *x);
  assert_memory_equal(with.theta, without.theta, s->ntheta * sizeof *x);
  assert_int_equal(pbBatch_Status(batch)[bad], pb_not_finite);  // still said

  // A bound that all states are beyond fails all.
  pbBatch_SetBound(batch, 1e-9);
  good(s->ctx, pbBatch_Reset(batch, NULL, NULL, 0, -1, s->x0));
  assert_int_equal(pbBatch_Rollout(batch, NULL, NULL, 0, T, &input, NULL), pb_not_finite);
  assert_int_equal(pbBatch_Failed(batch), W);
  pbBatch_SetBound(batch, 1e10);

  // A cotangent that is not finite fails its world alone, and leaves nothing behind.
  s->bar_v[2 * s->nv] = NAN;
  Result pulled = begin_result(s);
  good(s->ctx, pbBatch_Reset(batch, NULL, NULL, 0, -1, s->x0));
  good(s->ctx, pbBatch_Rollout(batch, NULL, NULL, 0, T, &input, NULL));
  g = (pbBatchGradient){.x0 = pulled.x0, .ctrl = pulled.ctrl, .theta = pulled.theta};
  assert_int_equal(pbBatch_Vjp(batch, &bar, NULL, &g, NULL), pb_not_finite);
  assert_int_equal(pbBatch_Failed(batch), 1);
  assert_non_null(strstr(pbContext_Error(s->ctx), "world 2: "));
  for (size_t i = 0; i < s->n; i++) assert_true(pulled.x0[2 * s->n + i] == 0);
  for (size_t i = 0; i < T * s->nu; i++) assert_true(pulled.ctrl[2 * T * s->nu + i] == 0);
  for (size_t i = 0; i < s->ntheta; i++) assert_true(isfinite(pulled.theta[i]));
  s->bar_v[2 * s->nv] = 0;

  free(states);
  free_result(&without);
  free_result(&with);
  free_result(&pulled);
  pbBatch_Destroy(batch);
  pbPool_Destroy(pool);
}

// ---- tapes that do not fit, worlds that come less far ---------------------------------------------------------------------
static void test_a_budget_changes_no_bit(void **state) {
  World *s = *state;
  size_t record = (size_t)pbTape_Size(s->model) * sizeof(double);
  pbPool *pool;
  good(s->ctx, pbPool_Create(s->ctx, 2, &pool));

  for (int shared = 0; shared < 2; shared++) {
    pbBatch *whole = open(s, NULL, W, true);
    Result one = begin_result(s);
    run(s, whole, NULL, 0, shared, &one);
    pbBatch_Destroy(whole);

    // Room for some steps of a world for each thread; for one world of each.
    for (size_t records = 8; records <= 2 * T; records *= 2) {
      pbBatchOptions options = {.worlds = W,
                                .pool = pool,
                                .steps = T + 3,
                                .shared_inputs = true,
                                .own = own,
                                .own_count = 2,
                                .budget = records * record};
      pbBatch *batch;
      good(s->ctx, pbBatch_Create(s->ctx, s->model, &options, &batch));
      for (int again = 0; again < 2; again++) {
        Result r = begin_result(s);
        run(s, batch, NULL, 0, shared, &r);
        check_same(s, &one, &r);
        assert_memory_equal(one.own, r.own, W * 2 * sizeof(double));
        free_result(&r);
      }
      pbBatch_Destroy(batch);
    }
    free_result(&one);
  }

  // Not even one record.
  pbBatchOptions options = {.worlds = W, .steps = T, .budget = 8};
  pbBatch *batch;
  assert_int_equal(pbBatch_Create(s->ctx, s->model, &options, &batch), pb_capacity);
  assert_non_null(strstr(pbContext_Error(s->ctx), "one tape record takes"));
  pbPool_Destroy(pool);
}

static void test_derivatives_of_a_world_that_failed(void **state) {
  World *s = *state;
  enum { bad = 13 };
  const size_t budgets[] = {0, 1};
  for (int b = 0; b < 2; b++) {
    size_t budget = budgets[b] * 30 * (size_t)pbTape_Size(s->model) * sizeof(double);
    pbBatchOptions options = {.worlds = W, .steps = T, .partial = true, .budget = budget};
    pbBatch *batch;
    good(s->ctx, pbBatch_Create(s->ctx, s->model, &options, &batch));
    good(s->ctx, pbBatch_Reset(batch, NULL, NULL, 0, -1, s->x0));
    double *x = pbBatch_States(batch) + bad * s->nx;
    x[pbModel_StateFieldAt(s->model, 2).offset] = 5e9;
    x[pbModel_StateFieldAt(s->model, 1).offset] = 1e10 - 1e8;
    double *start = zeros(s->nx);
    memcpy(start, x, s->nx * sizeof *x);

    int steps_done[W];
    pbBatchInput input = {.ctrl = s->ctrl};
    pbBatchOutput output = {.steps_done = steps_done};
    assert_int_equal(pbBatch_Rollout(batch, NULL, NULL, 0, T, &input, &output), pb_not_finite);
    int done = steps_done[bad];
    assert_true(done > 0 && done < T);
    pbRolloutBar bar = bar_of(s, 0);
    Result r = begin_result(s);
    pbBatchGradient g = {.x0 = r.x0, .ctrl = r.ctrl, .theta = r.theta};
    good(s->ctx, pbBatch_Vjp(batch, &bar, NULL, &g, r.certificate));

    // As a rollout of so many steps, with the cotangents that it has rows for; that of the last state has none.
    pbRolloutPlan plan;
    pbRollout *alone;
    good(s->ctx, pbRollout_Plan(s->ctx, s->model, done, 0, &plan));
    good(s->ctx, pbRollout_Create(s->ctx, s->model, &plan, NULL, &alone));
    pbRolloutInput own_input = {.ctrl = s->ctrl + bad * T * s->nu};
    good(s->ctx, pbRollout_Forward(alone, s->theta, start, &own_input, NULL));
    pbRolloutBar cut = {.sensordata = {.data = s->bar_s + bad * (T + 1) * s->ns, .count = done + 1}};
    double *x0 = zeros(s->n), *ctrl = zeros(T * s->nu);
    good(s->ctx, pbRollout_Vjp(alone, &cut, NULL, &(pbRolloutGradient){.x0 = x0, .ctrl = ctrl}, NULL));
    assert_memory_equal(x0, r.x0 + bad * s->n, s->n * sizeof *x0);
    assert_memory_equal(ctrl, r.ctrl + bad * T * s->nu, T * s->nu * sizeof *x0);
    bool any = false;
    for (size_t i = 0; i < s->n; i++) any |= x0[i] != 0;
    assert_true(any);

    pbRollout_Destroy(alone);
    pbBatch_Destroy(batch);
    free_result(&r);
    free(start);
    free(x0);
    free(ctrl);
  }
}

// ---- own parameters -----------------------------------------------------------------------------------------------------
static void test_own_parameters(void **state) {
  World *s = *state;
  unsigned seed = 11;
  for (int derive = 0; derive < 2; derive++) {
    pbBatch *batch = open(s, NULL, W, true);
    assert_int_equal(pbBatch_OwnSize(batch), 2);
    size_t column;
    assert_string_equal(pbBatch_OwnAt(batch, 1, &column).name, "geom_friction");
    assert_int_equal(column, 1);
    double *values = pbBatch_Own(batch);
    assert_true(values[1] == values[W * 2 - 1] && values[1] == 1);
    for (int w = 0; w < W; w++) {
      values[2 * w] *= 1 + .3 * noise(&seed);
      values[2 * w + 1] = .7 + .2 * noise(&seed);
    }
    if (derive) good(s->ctx, pbBatch_Derive(batch, NULL, NULL, 0));
    Result r = begin_result(s);
    run(s, batch, NULL, 0, false, &r);

    pbRolloutPlan plan;
    pbRollout *rollout;
    good(s->ctx, pbRollout_Plan(s->ctx, s->model, T, 0, &plan));
    good(s->ctx, pbRollout_Create(s->ctx, s->model, &plan, NULL, &rollout));
    pbParam mass, friction;
    good(s->ctx, pbModel_Param(s->ctx, s->model, own[0], &mass));
    good(s->ctx, pbModel_Param(s->ctx, s->model, own[1], &friction));
    double *given = zeros(s->ntheta), *theta = zeros(s->ntheta), *seen = zeros(s->ntheta), *bar_theta = zeros(s->ntheta);
    double *end = zeros(s->nx), *sum = zeros(s->ntheta);
    for (size_t w = 0; w < W; w++) {
      memcpy(given, s->theta, s->ntheta * sizeof *given);
      given[mass.offset] = values[2 * w];
      given[friction.offset] = values[2 * w + 1];
      memcpy(theta, given, s->ntheta * sizeof *theta);
      if (derive) good(s->ctx, pbModel_SetConstants(s->ctx, s->model, theta));
      pbBatch_Theta(batch, NULL, (int)w, seen);
      assert_memory_equal(theta, seen, s->ntheta * sizeof *theta);

      pbRolloutInput input = {.ctrl = s->ctrl + w * T * s->nu};
      good(s->ctx, pbRollout_Forward(rollout, theta, s->x0 + w * s->nx, &input, &(pbRolloutOutput){.final_state = end}));
      assert_memory_equal(end, r.end + w * s->nx, s->nx * sizeof *end);
      pbRolloutBar bar = bar_of(s, w);
      memset(bar_theta, 0, s->ntheta * sizeof *bar_theta);
      good(s->ctx, pbRollout_Vjp(rollout, &bar, NULL, &(pbRolloutGradient){.theta = bar_theta}, NULL));
      if (derive) good(s->ctx, pbModel_SetConstantsVjp(s->ctx, s->model, given, bar_theta));
      assert_true(bar_theta[mass.offset] == r.own[2 * w] && bar_theta[friction.offset] == r.own[2 * w + 1]);
      for (size_t i = 0; i < s->ntheta; i++) sum[i] += bar_theta[i];
    }
    double size = 0;
    for (size_t i = 0; i < s->ntheta; i++) size = fmax(size, fabs(sum[i]));
    for (size_t i = 0; i < s->ntheta; i++) {
      bool is_own = i == mass.offset || i == friction.offset;
      assert_true(fabs((is_own ? 0 : sum[i]) - r.theta[i]) <= 1e-13 * size);
    }

    // What else is wanted changes nothing of it.
    Result again = begin_result(s);
    good(s->ctx, pbBatch_WantParameters(batch, (const char *[]){"gravity"}, 1));
    run(s, batch, NULL, 0, false, &again);
    assert_memory_equal(again.own, r.own, 2 * W * sizeof *r.own);
    pbParam gravity;
    good(s->ctx, pbModel_Param(s->ctx, s->model, "gravity", &gravity));
    assert_memory_equal(again.theta + gravity.offset, r.theta + gravity.offset, 3 * sizeof *r.theta);

    double *all[] = {given, theta, seen, bar_theta, end, sum};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free_result(&r);
    free_result(&again);
    pbRollout_Destroy(rollout);
    pbBatch_Destroy(batch);
  }
}

// Constants that worlds derive are no input, also where one is all that is asked for and nothing that is their own makes it.
static void test_derived_constants_named_alone(void **state) {
  World *s = *state;
  pbParam weight;
  good(s->ctx, pbModel_Param(s->ctx, s->model, "body_invweight0", &weight));
  pbBatchOptions options = {.worlds = W, .steps = T, .shared_inputs = true, .own = own + 1, .own_count = 1};

  for (int derive = 0; derive < 2; derive++) {
    pbBatch *batch;
    good(s->ctx, pbBatch_Create(s->ctx, s->model, &options, &batch));
    good(s->ctx, pbBatch_WantParameters(batch, (const char *[]){"body_invweight0"}, 1));
    if (derive) good(s->ctx, pbBatch_Derive(batch, NULL, NULL, 0));
    Result r = begin_result(s);
    run(s, batch, NULL, 0, false, &r);

    double most = 0;
    for (int i = 0; i < weight.rows * weight.cols; i++) most = fmax(most, fabs(r.theta[weight.offset + (size_t)i]));
    assert_true(derive ? most == 0 : most > 0);
    free_result(&r);
    pbBatch_Destroy(batch);
  }
}

// ---- both modes ---------------------------------------------------------------------------------------------------------
// <w, J d> = <J' w, d>, all of it, with controls of each world and shared, own parameters and constants derived from them.
static void test_forward_and_reverse_agree(void **state) {
  World *s = *state;
  unsigned seed = 3;
  for (int shared = 0; shared < 2; shared++) {
    pbBatch *batch = open(s, NULL, W, true);
    double *values = pbBatch_Own(batch);
    for (int i = 0; i < 2 * W; i++) values[i] *= 1 + .2 * noise(&seed);
    good(s->ctx, pbBatch_Derive(batch, NULL, NULL, 0));
    Result r = begin_result(s);
    run(s, batch, NULL, 0, shared, &r);

    size_t controls = (shared ? 1 : W) * T * s->nu;
    double *d_x0 = random_numbers(W * s->n, 1, &seed), *d_ctrl = random_numbers(controls, 1, &seed);
    double *d_own = random_numbers(2 * W, .1, &seed), *d_theta = zeros(s->ntheta);
    pbParam gravity, mass;
    good(s->ctx, pbModel_Param(s->ctx, s->model, "gravity", &gravity));
    good(s->ctx, pbModel_Param(s->ctx, s->model, "body_mass:arm", &mass));
    for (size_t i = 0; i < 3; i++) d_theta[gravity.offset + i] = noise(&seed);
    d_theta[mass.offset] = .1;
    double *x = zeros(W * (T + 1) * s->n), *sensors = zeros(W * (T + 1) * s->ns);
    pbBatchDirection d = {.x0 = d_x0, .ctrl = d_ctrl, .theta = d_theta, .own = d_own};
    good(s->ctx, pbBatch_Jvp(batch, &d, &(pbBatchTangent){.x = x, .sensordata = sensors}));

    // theta's part flows through constants that each world derives; its shared gradient is what reaches the given values.
    double forward = 0, reverse = 0, size = 0;
    for (size_t w = 0; w < W; w++) {
      for (size_t i = 0; i < s->nv; i++) forward += s->bar_v[w * s->nv + i] * x[(w * (T + 1) + T) * s->n + s->nv + i];
      for (size_t i = 0; i < (T + 1) * s->ns; i++)
        forward += s->bar_s[w * (T + 1) * s->ns + i] * sensors[w * (T + 1) * s->ns + i];
    }
    for (size_t i = 0; i < W * s->n; i++) reverse += d_x0[i] * r.x0[i];
    for (size_t i = 0; i < controls; i++) reverse += d_ctrl[i] * r.ctrl[i];
    for (size_t i = 0; i < 2 * W; i++) reverse += d_own[i] * r.own[i];
    for (size_t i = 0; i < s->ntheta; i++) reverse += d_theta[i] * r.theta[i];
    size = fabs(forward) + fabs(reverse);
    assert_true(fabs(forward - reverse) <= 1e-11 * size);

    double *all[] = {d_x0, d_ctrl, d_own, d_theta, x, sensors};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free_result(&r);
    pbBatch_Destroy(batch);
  }
}

static void test_jacobians_of_all_steps(void **state) {
  World *s = *state;
  pbBatch *batch = open(s, NULL, 3, false);
  size_t n = s->n, nu = s->nu;
  pbBatchInput input = {.ctrl = s->ctrl};
  double *A = zeros(3 * T * n * n), *B = zeros(3 * T * n * nu), *states = zeros(3 * (T + 1) * s->nx);
  good(s->ctx, pbBatch_Reset(batch, NULL, NULL, 0, -1, s->x0));
  good(s->ctx, pbBatch_Rollout(batch, NULL, NULL, 0, T, &input, &(pbBatchOutput){.states = states}));
  good(s->ctx, pbBatch_Linearize(batch, A, B, NULL, NULL));

  pbScratch *scratch;
  good(s->ctx, pbScratch_Create(s->ctx, s->model, NULL, &scratch));
  double *record = zeros((size_t)pbTape_Size(s->model)), *x = zeros(s->nx), *a = zeros(n * n), *b = zeros(n * nu);
  for (size_t i = 0; i < 3 * T; i++) {
    size_t w = i / T, k = i % T;
    const double *before = states + (w * (T + 1) + k) * s->nx;
    pbInput in = {.ctrl = s->ctrl + i * nu};
    memcpy(x, before, s->nx * sizeof *x);
    good(s->ctx, pbStep_Forward(s->model, s->theta, x, &in, scratch, NULL));
    pbTape_Record(s->model, before, scratch, record);
    good(s->ctx, pbStep_Jacobian(s->model, s->theta, record, &in, scratch, a, b, NULL, NULL));
    assert_memory_equal(a, A + i * n * n, n * n * sizeof *a);
    assert_memory_equal(b, B + i * n * nu, n * nu * sizeof *b);
  }
  double *all[] = {A, B, states, record, x, a, b};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
  pbScratch_Destroy(scratch);
  pbBatch_Destroy(batch);
}

static void refused(const World *s, pbStatus status, const char *text) {
  assert_int_equal(status, pb_bad_argument);
  if (!strstr(pbContext_Error(s->ctx), text)) fail_msg("expected '%s', found '%s'", text, pbContext_Error(s->ctx));
}

// ---- parts ------------------------------------------------------------------------------------------------------------
enum { FIRST = 5, SECOND = 6 };
static bool anew(size_t w, int part) { return part == 1 ? w % 3 == 1 : part == 2 && w % 2 == 1; }

// In three parts, with new starts before the second and the third: of some worlds, at the start of the next world; of none.
static void run_parts(const World *s, pbBatch *batch, bool restart, Result *r) {
  static const int bounds[] = {0, FIRST, SECOND, T};
  pbBatchInput input = {.ctrl = s->ctrl};
  pbBatchOutput output = {.sensordata = r->sensors, .xpos = r->xpos};
  good(s->ctx, pbBatch_Reset(batch, NULL, NULL, 0, -1, s->x0));
  for (int part = 0; part < 3; part++) {
    double *x = pbBatch_States(batch);
    for (size_t w = 0; w < W; w++) {
      if (restart && anew(w, part)) memcpy(x + w * s->nx, s->x0 + (w + 1) % W * s->nx, s->nx * sizeof *x);
    }
    good(s->ctx, pbBatch_RolloutPart(batch, NULL, T, bounds[part], bounds[part + 1], &input, &output));
  }

  memcpy(r->end, pbBatch_States(batch), W * s->nx * sizeof *r->end);
  pbRolloutBar bar = bar_of(s, 0);
  good(s->ctx,
       pbBatch_Vjp(batch, &bar, NULL, &(pbBatchGradient){.x0 = r->x0, .ctrl = r->ctrl, .theta = r->theta}, r->certificate));
}

// Steps from .. to - 1 of a world from x, which goes on, with the cotangents of what it observes after its first state.
static void run_piece(const World *s, size_t w, int from, int to, double *x, Result *r) {
  pbRolloutPlan plan;
  pbRollout *rollout;
  good(s->ctx, pbRollout_Plan(s->ctx, s->model, to - from, 0, &plan));
  good(s->ctx, pbRollout_Create(s->ctx, s->model, &plan, NULL, &rollout));
  size_t steps = (size_t)(to - from), at = w * T + (size_t)from;
  double *sensors = zeros((T + 1) * s->ns), *bar_s = zeros((T + 1) * s->ns), *x0 = zeros(s->n);

  // the row at the start is of what was before
  size_t rows = w * (T + 1) + (size_t)from, skip = from > 0 ? 1 : 0;
  pbRolloutInput input = {.ctrl = s->ctrl + at * s->nu};
  good(s->ctx, pbRollout_Forward(rollout, s->theta, x, &input, &(pbRolloutOutput){.final_state = x, .sensordata = sensors}));
  size_t count = (steps + 1 - skip) * s->ns;
  assert_memory_equal(sensors + skip * s->ns, r->sensors + (rows + skip) * s->ns, count * sizeof *sensors);
  memcpy(bar_s + skip * s->ns, s->bar_s + (rows + skip) * s->ns, count * sizeof *bar_s);

  pbRolloutBar bar = {.sensordata = {.data = bar_s, .count = (int)steps + 1}};
  if (to == T) bar.qvel = (pbCotangent){.data = s->bar_v + w * s->nv, .count = 1};
  pbRolloutGradient g = {.x0 = x0, .ctrl = r->ctrl + at * s->nu, .theta = r->theta};
  good(s->ctx, pbRollout_Vjp(rollout, &bar, NULL, &g, NULL));
  if (from == 0) memcpy(r->x0 + w * s->n, x0, s->n * sizeof *x0);
  free(sensors);
  free(bar_s);
  free(x0);
  pbRollout_Destroy(rollout);
}

static void check_near(const double *a, const double *b, size_t count) {
  double size = 0;
  for (size_t i = 0; i < count; i++) size = fmax(size, fabs(b[i]));
  assert_true(size > 0);
  for (size_t i = 0; i < count; i++) assert_true(fabs(a[i] - b[i]) <= 1e-12 * size);
}

// Parts are the whole, to the bit; what follows a new start is a trajectory of its own.
static void test_parts(void **state) {
  World *s = *state;
  for (int threads = 1; threads <= 3; threads += 2) {
    pbPool *pool;
    pbBatch *batch;
    good(s->ctx, pbPool_Create(s->ctx, threads, &pool));
    good(s->ctx,
         pbBatch_Create(s->ctx, s->model, &(pbBatchOptions){.worlds = W, .pool = pool, .steps = T, .restarts = 2}, &batch));
    Result whole = begin_result(s), parts = begin_result(s), fresh = begin_result(s), pieces = begin_result(s);
    run(s, batch, NULL, 0, false, &whole);
    run_parts(s, batch, false, &parts);
    check_same(s, &whole, &parts);

    run_parts(s, batch, true, &fresh);
    memcpy(pieces.sensors, fresh.sensors, W * (T + 1) * s->ns * sizeof(double));
    double *x = zeros(s->nx);
    for (size_t w = 0; w < W; w++) {
      const int bounds[] = {0, FIRST, SECOND, T};
      memcpy(x, s->x0 + w * s->nx, s->nx * sizeof *x);
      for (int from = 0, part = 1; part <= 3; part++) {
        if (part < 3 && !anew(w, part)) continue;
        run_piece(s, w, bounds[from], bounds[part], x, &pieces);
        if (part < 3) memcpy(x, s->x0 + (w + 1) % W * s->nx, s->nx * sizeof *x);
        from = part;
      }
      assert_memory_equal(x, fresh.end + w * s->nx, s->nx * sizeof *x);
    }
    check_near(fresh.x0, pieces.x0, W * s->n);
    check_near(fresh.ctrl, pieces.ctrl, W * T * s->nu);
    check_near(fresh.theta, pieces.theta, s->ntheta);

    Result *all[] = {&whole, &parts, &fresh, &pieces};
    for (int i = 0; i < 4; i++) free_result(all[i]);
    free(x);
    pbBatch_Destroy(batch);
    pbPool_Destroy(pool);
  }
}

static void test_parts_that_cannot_be(void **state) {
  World *s = *state;
  pbBatch *batch;
  good(s->ctx, pbBatch_Create(s->ctx, s->model, &(pbBatchOptions){.worlds = 3, .steps = T, .restarts = 1}, &batch));
  static const char *const order = "where no part before has ended";
  refused(s, pbBatch_RolloutPart(batch, NULL, T, 3, 3, NULL, NULL), "found steps 3 to 3");
  refused(s, pbBatch_RolloutPart(batch, NULL, T, 3, T + 1, NULL, NULL), "found steps 3 to 13");
  refused(s, pbBatch_RolloutPart(batch, NULL, T, 2, 4, NULL, NULL), order);
  good(s->ctx, pbBatch_RolloutPart(batch, NULL, T, 0, 4, NULL, NULL));
  refused(s, pbBatch_RolloutPart(batch, NULL, T, 5, T, NULL, NULL), order);
  refused(s, pbBatch_RolloutPart(batch, NULL, T - 1, 4, 5, NULL, NULL), order);

  // A part of a rollout has no derivative, nor has what follows it another call in between.
  pbRolloutBar bar = bar_of(s, 0);
  refused(s, pbBatch_Vjp(batch, &bar, NULL, NULL, NULL), "ran to its end first");
  good(s->ctx, pbBatch_Step(batch, NULL, NULL, 0, NULL, NULL));
  refused(s, pbBatch_RolloutPart(batch, NULL, T, 4, T, NULL, NULL), order);

  // One world begins anew once, another twice: there is no room for that, and it stays out.
  double *x = pbBatch_States(batch);
  for (int k = 0; k < T; k += 4) {
    for (int i = k ? 0 : 3; i < k / 4; i++) x[s->nx + 1] += .1;
    if (k == 4) x[1] += .1;
    pbStatus status = pbBatch_RolloutPart(batch, NULL, T, k, k + 4, NULL, NULL);
    if (k < 8) good(s->ctx, status);
    else refused(s, status, "world 1: step 8: a new start, of which a rollout with this tape has at most 1");
  }
  pbVjpOptions checked = {.spot_check = pb_checkSteps};
  assert_int_equal(pbBatch_Vjp(batch, &bar, &checked, NULL, NULL), pb_unsupported);
  assert_non_null(strstr(pbContext_Error(s->ctx), "spot checks of a rollout with new starts"));
  assert_int_equal(pbBatch_Jvp(batch, &(pbBatchDirection){0}, &(pbBatchTangent){0}), pb_unsupported);
  good(s->ctx, pbBatch_Vjp(batch, &bar, NULL, NULL, NULL));
  pbBatch_Destroy(batch);
}

// ---- what is refused --------------------------------------------------------------------------------------------------
static void test_what_is_refused(void **state) {
  World *s = *state;
  pbBatch *batch;
  static const char *const twice[] = {"body_mass", "body_mass:hand"};
  static const char *const derived[] = {"body_subtreemass"};
  static const char *const wrong[] = {"body_mas"};
  pbContext *ctx = s->ctx;
  const pbModel *m = s->model;
  refused(s, pbBatch_Create(ctx, m, &(pbBatchOptions){0}, &batch), "expected 1 world or more, found 0");
  refused(s, pbBatch_Create(ctx, m, &(pbBatchOptions){.worlds = 1, .steps = -1}, &batch), "found -1");
  refused(s, pbBatch_Create(ctx, m, &(pbBatchOptions){.worlds = 1, .lanes = 8}, &batch), "expected 1 lane");
  refused(s, pbBatch_Create(ctx, m, &(pbBatchOptions){.worlds = 1, .own = twice, .own_count = 2}, &batch), "overlap");
  refused(s, pbBatch_Create(ctx, m, &(pbBatchOptions){.worlds = 1, .own = derived, .own_count = 1}, &batch),
          "follows from others");
  refused(s, pbBatch_Create(ctx, m, &(pbBatchOptions){.worlds = 1, .own = wrong, .own_count = 1}, &batch), "did you mean");
  assert_null(batch);

  good(s->ctx, pbBatch_Create(ctx, m, &(pbBatchOptions){.worlds = 3, .steps = 2}, &batch));
  static const int twice_two[] = {2, 2}, beyond[] = {0, 3};
  pbBatchInput shared = {.ctrl = s->ctrl, .shared = pb_sharedCtrl};
  double *x = zeros(3 * s->nx), *g = zeros(2 * s->nu);
  memcpy(x, pbBatch_States(batch), 3 * s->nx * sizeof *x);
  pbRolloutBar bar = bar_of(s, 0);
  bar.sensordata.data = NULL;
  refused(s, pbBatch_Step(batch, NULL, twice_two, 2, NULL, NULL), "found 2 (number 1)");
  refused(s, pbBatch_Step(batch, NULL, beyond, 2, NULL, NULL), "in 0 .. 2, found 3");
  refused(s, pbBatch_Rollout(batch, NULL, NULL, 0, -1, NULL, NULL), "must not be negative");
  refused(s, pbBatch_Rollout(batch, NULL, NULL, 0, 2, &(pbBatchInput){.shared = 32 | pb_sharedCtrl}, NULL),
          "there is no bit 0x20");
  refused(s, pbBatch_Step(batch, NULL, NULL, 0, &(pbBatchInput){.shared = 64}, NULL), "there is no bit 0x40");
  refused(s, pbBatch_Vjp(batch, &bar, NULL, NULL, NULL), "need a rollout right before");
  good(s->ctx, pbBatch_Rollout(batch, NULL, NULL, 0, 3, NULL, NULL));
  refused(s, pbBatch_Vjp(batch, &bar, NULL, NULL, NULL), "of at most pbBatchOptions.steps steps (2)");
  good(s->ctx, pbBatch_Rollout(batch, NULL, NULL, 0, 2, &shared, NULL));
  refused(s, pbBatch_Vjp(batch, &bar, NULL, &(pbBatchGradient){.ctrl = g}, NULL), "need pbBatchOptions.shared_inputs");
  bar.qvel.count = 2;
  refused(s, pbBatch_Vjp(batch, &bar, NULL, NULL, NULL), "cotangent of qvel");
  refused(s, pbBatch_Derive(batch, NULL, NULL, 0), "no world has parameters of its own");
  assert_int_equal(pbBatch_Failed(batch), 0);

  // What all worlds share is looked at before any of them moves.
  double *theta = zeros(s->ntheta);
  memcpy(theta, s->theta, s->ntheta * sizeof *theta);
  theta[0] = NAN;
  memcpy(x, pbBatch_States(batch), 3 * s->nx * sizeof *x);
  assert_int_equal(pbBatch_Step(batch, theta, NULL, 0, NULL, NULL), pb_bad_input);
  assert_int_equal(pbBatch_Failed(batch), 0);
  assert_memory_equal(x, pbBatch_States(batch), 3 * s->nx * sizeof *x);
  free(theta);
  free(g);
  free(x);
  pbBatch_Destroy(batch);
}

static int stop_at_once(void *user, const pbProgress *progress) {
  ++*(int *)user;
  assert_true(progress->total == W * T && progress->done >= 0 && progress->done <= progress->total);
  return progress->done > 0;
}

// Of one world and of several done and total are steps, and go up to the end.
typedef struct Told {
  int64_t done, total;
  int calls, within;
} Told;

static int note_steps(void *user, const pbProgress *p) {
  Told *t = user;
  assert_true(p->done >= t->done && p->done <= p->total && p->total == t->total);
  t->within += p->done > 0 && p->done < p->total;
  t->done = p->done;
  t->calls++;
  return 0;
}

static void test_progress_within_a_world(void **state) {
  World *s = *state;
  enum { most = 1 << 20 };
  for (size_t budget = 0; budget <= 1 << 20; budget += 1 << 20) {  // a tape of all steps, and one that is run again
    int steps = 4096;
    Told forward = {.total = 0}, back = forward;
    for (; forward.within == 0 && steps <= most; steps *= 2) {  // long enough for this machine
      pbBatch *batch;
      pbBatchOptions options = {.worlds = 1, .steps = steps, .budget = budget};
      good(s->ctx, pbBatch_Create(s->ctx, s->model, &options, &batch));
      forward = back = (Told){.total = steps};
      memcpy(pbBatch_States(batch), s->x0, s->nx * sizeof(double));
      pbBatch_OnProgress(batch, note_steps, &forward);
      good(s->ctx, pbBatch_Rollout(batch, NULL, NULL, 0, steps, NULL, NULL));
      pbRolloutBar bar = {.qvel = {.data = s->bar_v, .count = 1}};
      pbBatch_OnProgress(batch, note_steps, &back);
      good(s->ctx, pbBatch_Vjp(batch, &bar, NULL, NULL, NULL));
      pbBatch_Destroy(batch);
    }
    assert_true(forward.within > 0 && forward.calls > 1 && back.calls > 0);
  }
}

static int stop_now(void *user, const pbProgress *progress) {
  (void)progress;
  ++*(int *)user;
  return 1;
}

static void test_interrupted(void **state) {
  World *s = *state;
  pbPool *pool;
  good(s->ctx, pbPool_Create(s->ctx, 2, &pool));
  pbBatch *batch = open(s, pool, W, false);
  int calls = 0;
  pbBatch_OnProgress(batch, stop_now, &calls);
  double *x = zeros(W * s->nx);
  memcpy(x, pbBatch_States(batch), W * s->nx * sizeof *x);
  assert_int_equal(pbBatch_Rollout(batch, NULL, NULL, 0, T, NULL, NULL), pb_interrupted);
  assert_int_equal(pbBatch_Failed(batch), 0);
  assert_int_equal(calls, 1);
  assert_memory_equal(x, pbBatch_States(batch), W * s->nx * sizeof *x);
  for (int w = 0; w < W; w++) assert_int_equal(pbBatch_Status(batch)[w], pb_interrupted);

  calls = 0;
  pbBatch_OnProgress(batch, stop_at_once, &calls);
  pbStatus status = pbBatch_Rollout(batch, NULL, NULL, 0, T, NULL, NULL);
  assert_true(calls >= 1 && (status == pb_ok || status == pb_interrupted));
  pbBatch_OnProgress(batch, NULL, NULL);
  good(s->ctx, pbBatch_Rollout(batch, NULL, NULL, 0, T, NULL, NULL));
  free(x);
  pbBatch_Destroy(batch);
  pbPool_Destroy(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_world_is_as_if_alone),
      cmocka_unit_test(test_threads_change_no_bit),
      cmocka_unit_test(test_sums_are_trees_over_world_numbers),
      cmocka_unit_test(test_reset_worlds_are_as_new),
      cmocka_unit_test(test_a_world_that_fails),
      cmocka_unit_test(test_a_budget_changes_no_bit),
      cmocka_unit_test(test_derivatives_of_a_world_that_failed),
      cmocka_unit_test(test_own_parameters),
      cmocka_unit_test(test_derived_constants_named_alone),
      cmocka_unit_test(test_forward_and_reverse_agree),
      cmocka_unit_test(test_jacobians_of_all_steps),
      cmocka_unit_test(test_what_is_refused),
      cmocka_unit_test(test_parts),
      cmocka_unit_test(test_parts_that_cannot_be),
      cmocka_unit_test(test_interrupted),
      cmocka_unit_test(test_progress_within_a_world),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
