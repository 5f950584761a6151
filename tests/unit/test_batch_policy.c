// Batches of worlds with a large policy, which go in step so that one call of its network has a column for each: to the bit what
// each world does alone, forward and back, whoever is in step with whom, also where some fail or decide at other times.
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

static const char scene[] =
    "<mujoco><option timestep='0.005'/><worldbody><geom type='plane' size='5 5 .1'/>"
    "<body name='cart' pos='0 0 .3'><joint name='slide' type='slide' axis='1 0 0' damping='.2'/><geom type='box' size='.2 .1 "
    ".05' "
    "mass='1'/><body name='pole'><joint name='hinge' axis='0 1 0' damping='.05'/><geom type='capsule' size='.03' fromto='0 0 0 0 "
    "0 "
    ".4'/><body name='tip' pos='0 0 .4'><joint name='wrist' axis='0 1 0' damping='.05'/><geom type='capsule' size='.03' "
    "fromto='0 "
    "0 0 .1 0 .3'/></body></body></body></worldbody>"
    "<actuator><motor name='push' joint='slide' gear='5'/><motor name='turn' joint='wrist'/></actuator></mujoco>";

enum { W = 27, T = 9 };

typedef struct World {
  pbContext *ctx;
  pbModel *model;
  pbNetwork *network;
  size_t nx, n, nv, nu, ntheta;
  double *x0, *ctrl, *bar;  // (W, nx), (W, T, nu), (W, nv)
} World;

static void open_world(World *s, bool memory, int every) {
  const pbLayerDef layers[] = {{.kind = pb_layerDense, .size = 180},
                               {.kind = pb_layerActivation, .activation = pb_activationTanh},
                               {.kind = pb_layerDense, .size = 180},
                               {.kind = pb_layerActivation, .activation = pb_activationElu},
                               {.kind = pb_layerDense, .size = 2, .gain = .5}};
  const pbLayerDef pid[] = {{.kind = pb_layerDense, .size = 190},
                            {.kind = pb_layerDense, .size = 190},
                            {.kind = pb_layerDense, .size = 6},
                            {.kind = pb_layerPid, .size = 2, .gain = 1, .kd = .1, .ki = .5, .interval = .005}};
  const pbObserveDef rows[] = {{.kind = pb_observeQpos}, {.kind = pb_observeQvel}, {.kind = pb_observeLast}};
  unsigned seed = 5;
  *s = (World){.ctx = pbContext_Create(NULL)};
  s->model = model_of_text(s->ctx, scene);
  good(s->ctx, pbNetwork_Create(s->ctx, 8, memory ? pid : layers, memory ? 4 : 5, 3, false, &s->network));
  const pbPolicyDef def = {.observe = rows, .observe_count = 3, .decide = pbNetwork_Function(s->network), .every = every};
  good(s->ctx, pbModel_SetPolicy(s->model, &def));

  s->nx = (size_t)pbModel_StateSize(s->model);
  s->n = (size_t)pbModel_TangentSize(s->model);
  s->nv = (size_t)pbModel_Size(s->model, "nv");
  s->nu = (size_t)pbModel_Size(s->model, "nu");
  s->ntheta = pbModel_ParamSize(s->model);
  s->x0 = zeros(W * s->nx);
  double *move = zeros(s->n);
  for (size_t w = 0; w < W; w++) {
    double *x = s->x0 + w * s->nx;
    good(s->ctx, pbState_Init(s->ctx, s->model, pbModel_DefaultParams(s->model), -1, x));
    for (size_t i = 0; i < 6; i++) move[i] = .3 * noise(&seed);
    pbState_Move(s->model, x, move, 1);
    if (every > 1) x[s->nx - 1] = (double)(w % (size_t)every);  // steps since the decision: at other times in each
  }
  free(move);
  s->ctrl = random_numbers(W * T * s->nu, .2, &seed);
  s->bar = random_numbers(W * s->nv, 1, &seed);
}

static void close_world(World *s) {
  free(s->x0);
  free(s->ctrl);
  free(s->bar);
  pbModel_Destroy(s->model);
  pbNetwork_Destroy(s->network);
  pbContext_Destroy(s->ctx);
}

typedef struct Result {
  double *end, *x0, *ctrl, *theta;
} Result;

static Result begin_result(const World *s) {
  return (Result){zeros(W * s->nx), zeros(W * s->n), zeros(W * T * s->nu), zeros(s->ntheta)};
}

static void free_result(Result *r) {
  free(r->end);
  free(r->x0);
  free(r->ctrl);
  free(r->theta);
}

static pbVjpOptions options = {.seed = 4, .decay = 3};  // with checks of steps worlds go one by one on their way back

static pbStatus run(const World *s, pbBatch *batch, const int *ids, int count, Result *r) {
  pbBatchInput input = {.ctrl = s->ctrl};
  PB_TRY(pbBatch_Reset(batch, NULL, ids, count, -1, s->x0));
  pbStatus status = pbBatch_Rollout(batch, NULL, ids, count, T, &input, NULL);
  memcpy(r->end, pbBatch_States(batch), W * s->nx * sizeof *r->end);
  if (status != pb_ok && !pbBatch_Failed(batch)) return status;
  pbRolloutBar bar = {.qvel = {.data = s->bar, .count = 1}, .qpos = {.data = s->bar, .count = 1}};
  pbBatchGradient g = {.x0 = r->x0, .ctrl = r->ctrl, .theta = r->theta};
  PB_TRY(pbBatch_Vjp(batch, &bar, &options, &g, NULL));
  return status;
}

static pbBatch *open_batch(const World *s, pbPool *pool) {
  pbBatchOptions o = {.worlds = W, .pool = pool, .steps = T};
  pbBatch *batch;
  good(s->ctx, pbBatch_Create(s->ctx, s->model, &o, &batch));
  return batch;
}

static void compare_with_alone(const World *s) {
  pbBatch *batch = open_batch(s, NULL);
  Result all = begin_result(s), one = begin_result(s);
  good(s->ctx, run(s, batch, NULL, 0, &all));

  // A rollout of each.
  pbRolloutPlan plan;
  pbRollout *rollout;
  good(s->ctx, pbRollout_Plan(s->ctx, s->model, T, 0, &plan));
  good(s->ctx, pbRollout_Create(s->ctx, s->model, &plan, NULL, &rollout));
  for (int w = 0; w < W; w++) {
    size_t at = (size_t)w;
    memset(one.theta, 0, s->ntheta * sizeof *one.theta);
    pbRolloutInput input = {.ctrl = s->ctrl + at * T * s->nu};
    pbRolloutOutput output = {.final_state = one.end + at * s->nx};
    good(s->ctx, pbRollout_Forward(rollout, pbModel_DefaultParams(s->model), s->x0 + at * s->nx, &input, &output));
    pbRolloutBar bar = {.qvel = {.data = s->bar + at * s->nv, .count = 1}, .qpos = {.data = s->bar + at * s->nv, .count = 1}};
    pbRolloutGradient g = {.x0 = one.x0 + at * s->n, .ctrl = one.ctrl + at * T * s->nu, .theta = one.theta};
    pbVjpOptions own = options;
    own.seed += at;
    good(s->ctx, pbRollout_Vjp(rollout, &bar, &own, &g, NULL));

    // Of this world alone in the batch: the bits of its gradient by weights.
    if (w % 9) continue;
    Result mine = begin_result(s);
    good(s->ctx, run(s, batch, &w, 1, &mine));
    assert_memory_equal(mine.theta, one.theta, s->ntheta * sizeof(double));
    free_result(&mine);
  }
  assert_memory_equal(all.end, one.end, W * s->nx * sizeof(double));
  assert_memory_equal(all.x0, one.x0, W * s->n * sizeof(double));
  assert_memory_equal(all.ctrl, one.ctrl, W * T * s->nu * sizeof(double));

  // On threads.
  for (int threads = 2; threads <= 4; threads++) {
    pbPool *pool;
    good(s->ctx, pbPool_Create(s->ctx, threads, &pool));
    pbBatch *more = open_batch(s, pool);
    Result r = begin_result(s);
    good(s->ctx, run(s, more, NULL, 0, &r));
    assert_memory_equal(all.end, r.end, W * s->nx * sizeof(double));
    assert_memory_equal(all.x0, r.x0, W * s->n * sizeof(double));
    assert_memory_equal(all.theta, r.theta, s->ntheta * sizeof(double));
    free_result(&r);
    pbBatch_Destroy(more);
    pbPool_Destroy(pool);
  }

  pbRollout_Destroy(rollout);
  free_result(&all);
  free_result(&one);
  pbBatch_Destroy(batch);
}

static void test_in_step_as_if_alone(void **state) {
  (void)state;
  World s;
  open_world(&s, false, 1);
  compare_with_alone(&s);
  options.spot_check = pb_checkSteps;
  compare_with_alone(&s);
  options.spot_check = pb_checkNone;
  close_world(&s);
}

static void test_with_memory_deciding_at_other_times(void **state) {
  (void)state;
  World s;
  open_world(&s, true, 3);
  compare_with_alone(&s);
  close_world(&s);
}

static void test_some_fail(void **state) {
  (void)state;
  World s;
  open_world(&s, false, 1);
  pbBatch *batch = open_batch(&s, NULL);
  Result with = begin_result(&s), without = begin_result(&s);
  int ids[W], count = 0;
  for (int w = 0; w < W; w++) {
    if (w != 2 && w != 17) ids[count++] = w;
  }
  good(s.ctx, run(&s, batch, ids, count, &without));

  // One cannot begin, one leaves the bounds on its way.
  s.x0[2 * s.nx + 1] = NAN;
  s.x0[17 * s.nx + 1] = 1e10 - 1e8;
  s.x0[17 * s.nx + 4] = 5e9;
  assert_int_equal(run(&s, batch, NULL, 0, &with), pb_not_finite);
  assert_true(pbBatch_Status(batch)[2] != pb_ok && pbBatch_Status(batch)[17] != pb_ok && pbBatch_Status(batch)[3] == pb_ok);
  assert_memory_equal(with.theta, without.theta, s.ntheta * sizeof(double));
  for (int i = 0; i < count; i++) {
    size_t at = (size_t)ids[i];
    assert_memory_equal(with.end + at * s.nx, without.end + at * s.nx, s.nx * sizeof(double));
    assert_memory_equal(with.x0 + at * s.n, without.x0 + at * s.n, s.n * sizeof(double));
  }

  free_result(&with);
  free_result(&without);
  pbBatch_Destroy(batch);
  close_world(&s);
}

static void test_what_is_seen(void **state) {
  (void)state;
  World s;
  open_world(&s, false, 1);
  pbBatch *batch = open_batch(&s, NULL);
  double *seen = zeros(W * 8);
  good(s.ctx, pbBatch_Reset(batch, NULL, NULL, 0, -1, s.x0));
  good(s.ctx, pbBatch_Observe(batch, NULL, NULL, 0, NULL, seen));
  for (size_t w = 0; w < W; w++) assert_memory_equal(seen + w * 8, s.x0 + w * s.nx + 1, 6 * sizeof(double));
  free(seen);
  pbBatch_Destroy(batch);
  close_world(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_in_step_as_if_alone),
      cmocka_unit_test(test_with_memory_deciding_at_other_times),
      cmocka_unit_test(test_some_fail),
      cmocka_unit_test(test_what_is_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
