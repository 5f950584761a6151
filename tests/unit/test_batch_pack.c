// Worlds of a batch whose policy is called once for several of them: each has the bits that it has alone, whatever it remembers,
// whenever it decides, and whichever worlds fail beside it.
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
#include <pullback/policy.h>
#include <pullback/spec.h>

#include "batch/batch.h"
#include "support/meter.h"
#include "support/support.h"

// Two links over a floor that the tip reaches.
static const char scene[] =
    "<mujoco><option timestep='0.005'/><worldbody><geom type='plane' size='5 5 .1'/>"
    "<body name='upper' pos='0 0 .55'><joint name='shoulder' axis='0 1 0' damping='.2'/><geom type='capsule' size='.03' "
    "fromto='0 0 0 .3 0 0'/>"
    "<body name='lower' pos='.3 0 0'><joint name='elbow' axis='0 1 0' damping='.1'/><geom type='capsule' size='.03' "
    "fromto='0 0 0 .3 0 0'/></body></body></worldbody>"
    "<actuator><motor joint='shoulder'/><motor joint='elbow'/></actuator></mujoco>";

enum { W = 19, T = 40, NU = 2, COMMANDS = 2 };

typedef struct World {
  pbContext *ctx;
  pbModel *model;
  pbNetwork *decide, *act;
  const double *theta;
  size_t nx, n, nv, ntheta;
  double *x0, *command, *bar;  // (W, nx), (W, T, COMMANDS), (W, nv)
} World;

// A network with a memory chooses set-points every third step; a controller of two gains follows them every step.
static void set_policy(World *s) {
  const pbLayerDef decide[] = {{.kind = pb_layerDense, .size = 40},
                               {.kind = pb_layerActivation, .activation = pb_activationTanh},
                               {.kind = pb_layerGru, .size = 32},
                               {.kind = pb_layerDense, .size = NU}};
  const pbLayerDef act[] = {{.kind = pb_layerPd, .size = NU, .gain = 8, .kd = .5}};
  const pbObserveDef seen[] = {{.kind = pb_observeQpos},
                               {.kind = pb_observeQvel},
                               {.kind = pb_observeCommand, .count = COMMANDS},
                               {.kind = pb_observeLast},
                               {.kind = pb_observeBodyPosition, .object = "lower", .point = {.3, 0, 0}}};
  const pbObserveDef felt[] = {{.kind = pb_observeQpos}, {.kind = pb_observeQvel}};
  good(s->ctx, pbNetwork_Create(s->ctx, 2 * NU + COMMANDS + NU + 3, decide, 4, 3, false, &s->decide));
  good(s->ctx, pbNetwork_Create(s->ctx, 3 * NU, act, 1, 4, false, &s->act));
  const pbPolicyDef def = {.observe = seen,
                           .observe_count = 5,
                           .decide = pbNetwork_Function(s->decide),
                           .every = 3,
                           .act_observe = felt,
                           .act_observe_count = 2,
                           .act = pbNetwork_Function(s->act)};
  good(s->ctx, pbModel_SetPolicy(s->model, &def));
}

static int setup(void **state) {
  World *s = calloc(1, sizeof *s);
  s->ctx = pbContext_Create(NULL);
  s->model = model_of_text(s->ctx, scene);
  set_policy(s);

  s->theta = pbModel_DefaultParams(s->model);
  s->ntheta = pbModel_ParamSize(s->model);
  s->nx = (size_t)pbModel_StateSize(s->model);
  s->n = (size_t)pbModel_TangentSize(s->model);
  s->nv = (size_t)pbModel_Size(s->model, "nv");
  s->x0 = zeros(W * s->nx);
  s->command = zeros(W * T * COMMANDS);
  s->bar = zeros(W * s->nv);

  // Worlds stand elsewhere, and some are between two decisions.
  pbRng r = pbRng_Seed(7);
  double *x = s->x0;
  pbScratch *scratch;
  good(s->ctx, pbScratch_Create(s->ctx, s->model, NULL, &scratch));
  for (int w = 0; w < W; w++, x += s->nx) {
    good(s->ctx, pbState_Init(s->ctx, s->model, s->theta, -1, x));
    for (size_t i = 1; i <= 2 * s->nv; i++) x[i] += .5 * pbRng_Normal(&r);
    for (int k = 0; k < w % 3; k++) good(s->ctx, pbStep_Forward(s->model, s->theta, x, NULL, scratch, NULL));
  }
  for (size_t i = 0; i < W * T * COMMANDS; i++) s->command[i] = pbRng_Normal(&r);
  for (size_t i = 0; i < W * s->nv; i++) s->bar[i] = pbRng_Normal(&r);
  pbScratch_Destroy(scratch);
  *state = s;
  return 0;
}

static int teardown(void **state) {
  World *s = *state;
  pbModel_Destroy(s->model);
  pbNetwork_Destroy(s->decide);
  pbNetwork_Destroy(s->act);
  free(s->x0);
  free(s->command);
  free(s->bar);
  pbContext_Destroy(s->ctx);
  free(s);
  return 0;
}

// What a batch gives.
typedef struct Result {
  double *states, *x0, *command, *theta;
  pbCertificate certificate[W];
} Result;

static void free_result(Result *r) {
  free(r->states);
  free(r->x0);
  free(r->command);
  free(r->theta);
}

static Result run(const World *s, const double *x0, int threads, const int *ids, int count, pbStatus expected) {
  pbPool *pool;
  pbBatch *batch;
  good(s->ctx, pbPool_Create(s->ctx, threads, &pool));
  good(s->ctx, pbBatch_Create(s->ctx, s->model, &(pbBatchOptions){.worlds = W, .pool = pool, .steps = T}, &batch));
  Result r = {
      .states = zeros(W * (T + 1) * s->nx), .x0 = zeros(W * s->n), .command = zeros(W * T * COMMANDS), .theta = zeros(s->ntheta)};
  const pbBatchInput input = {.command = s->command};

  good(s->ctx, pbBatch_Reset(batch, s->theta, NULL, 0, -1, x0));
  assert_int_equal(pbBatch_Rollout(batch, s->theta, ids, count, T, &input, &(pbBatchOutput){.states = r.states}), expected);
  const pbRolloutBar bar = {.qpos = {.data = s->bar, .count = 1}};
  const pbBatchGradient gradient = {.x0 = r.x0, .command = r.command, .theta = r.theta};
  good(s->ctx, pbBatch_Vjp(batch, &bar, &(pbVjpOptions){.decay = 1}, &gradient, r.certificate));
  pbBatch_Destroy(batch);
  pbPool_Destroy(pool);
  return r;
}

static void same_world(const World *s, const Result *a, const Result *b, size_t w) {
  size_t states = (T + 1) * s->nx, commands = T * COMMANDS;
  assert_memory_equal(a->states + w * states, b->states + w * states, states * sizeof(double));
  assert_memory_equal(a->x0 + w * s->n, b->x0 + w * s->n, s->n * sizeof(double));
  assert_memory_equal(a->command + w * commands, b->command + w * commands, commands * sizeof(double));
  assert_true(a->certificate[w].costate_worst == b->certificate[w].costate_worst);
  assert_true(a->certificate[w].growth == b->certificate[w].growth);
}

static void test_worlds_together_and_alone(void **state) {
  const World *s = *state;
  Result together = run(s, s->x0, 1, NULL, 0, pb_ok);
  double *sum = zeros(s->ntheta);
  for (int w = 0; w < W; w++) {
    Result alone = run(s, s->x0, 1, &w, 1, pb_ok);
    same_world(s, &together, &alone, (size_t)w);
    for (size_t i = 0; i < s->ntheta; i++) sum[i] += alone.theta[i];
    free_result(&alone);
  }

  // Sums of worlds are in another order here.
  double size = 0;
  for (size_t i = 0; i < s->ntheta; i++) size = fmax(size, fabs(sum[i]));
  for (size_t i = 0; i < s->ntheta; i++) assert_true(fabs(sum[i] - together.theta[i]) <= 1e-13 * size);
  free(sum);
  free_result(&together);
}

// A rollout of its own does not know of packs.
static void test_worlds_as_rollouts(void **state) {
  const World *s = *state;
  Result together = run(s, s->x0, 1, NULL, 0, pb_ok);
  pbRolloutPlan plan;
  pbRollout *rollout;
  good(s->ctx, pbRollout_Plan(s->ctx, s->model, T, 0, &plan));
  good(s->ctx, pbRollout_Create(s->ctx, s->model, &plan, NULL, &rollout));
  for (size_t w = 0; w < W; w++) {
    double *end = zeros(s->nx), *x_bar = zeros(s->n);
    const pbRolloutInput input = {.command = s->command + w * T * COMMANDS};
    good(s->ctx, pbRollout_Forward(rollout, s->theta, s->x0 + w * s->nx, &input, &(pbRolloutOutput){.final_state = end}));
    const pbRolloutBar bar = {.qpos = {.data = s->bar + w * s->nv, .count = 1}};
    good(s->ctx, pbRollout_Vjp(rollout, &bar, &(pbVjpOptions){.decay = 1}, &(pbRolloutGradient){.x0 = x_bar}, NULL));
    assert_memory_equal(end, together.states + (w * (T + 1) + T) * s->nx, s->nx * sizeof *end);
    assert_memory_equal(x_bar, together.x0 + w * s->n, s->n * sizeof *x_bar);
    free(end);
    free(x_bar);
  }
  pbRollout_Destroy(rollout);
  free_result(&together);
}

// Packs are smaller on many threads, and of other worlds where some are left out.
static void test_threads_and_subsets(void **state) {
  const World *s = *state;
  Result one = run(s, s->x0, 1, NULL, 0, pb_ok), many = run(s, s->x0, 3, NULL, 0, pb_ok);
  for (size_t w = 0; w < W; w++) same_world(s, &one, &many, w);
  assert_memory_equal(one.theta, many.theta, s->ntheta * sizeof *one.theta);

  const int some[] = {0, 2, 3, 7, 8, 13, 18};
  Result part = run(s, s->x0, 1, some, 7, pb_ok);
  for (int i = 0; i < 7; i++) same_world(s, &one, &part, (size_t)some[i]);
  free_result(&one);
  free_result(&many);
  free_result(&part);
}

// A world that is thrown out of bounds, at the start and on its way.
static void test_a_world_fails_beside_others(void **state) {
  const World *s = *state;
  double *x0 = zeros(W * s->nx);
  memcpy(x0, s->x0, W * s->nx * sizeof *x0);
  x0[3 * s->nx + 3] = 1e11;
  x0[12 * s->nx + 3] = 9.9e9;

  Result all = run(s, s->x0, 1, NULL, 0, pb_ok), rest = run(s, x0, 1, NULL, 0, pb_not_finite);
  for (size_t w = 0; w < W; w++) {
    if (w != 3 && w != 12) same_world(s, &all, &rest, w);
  }
  for (size_t i = 0; i < s->n; i++) assert_true(rest.x0[3 * s->n + i] == 0);
  free(x0);
  free_result(&all);
  free_result(&rest);
}

// ---- parts --------------------------------------------------------------------------------------------------------------------
// Worlds from `from` on, as many as the batch has, in two parts, before the second of which every third begins anew.
static void run_parts(const World *s, pbBatch *batch, size_t from, Result *r) {
  const int half = T / 2;
  size_t worlds = (size_t)pbBatch_Worlds(batch), bytes = s->nx * sizeof(double);
  const pbBatchInput input = {.command = s->command + from * T * COMMANDS};
  const pbBatchOutput output = {.states = r->states + from * (T + 1) * s->nx};
  double *x = pbBatch_States(batch);

  memcpy(x, s->x0 + from * s->nx, worlds * bytes);
  good(s->ctx, pbBatch_RolloutPart(batch, s->theta, T, 0, half, &input, &output));
  for (size_t w = 0; w < worlds; w++) {
    if ((from + w) % 3 == 0) memcpy(x + w * s->nx, s->x0 + (from + w) * s->nx, bytes);
  }
  good(s->ctx, pbBatch_RolloutPart(batch, s->theta, T, half, T, &input, &output));

  const pbRolloutBar bar = {.qpos = {.data = s->bar + from * s->nv, .count = 1}};
  const pbBatchGradient gradient = {.x0 = r->x0 + from * s->n, .command = r->command + from * T * COMMANDS, .theta = r->theta};
  good(s->ctx, pbBatch_Vjp(batch, &bar, NULL, &gradient, r->certificate + from));
}

static Result no_result(const World *s) {
  return (Result){
      .states = zeros(W * (T + 1) * s->nx), .x0 = zeros(W * s->n), .command = zeros(W * T * COMMANDS), .theta = zeros(s->ntheta)};
}

// A new start has the policy's memory and count of its own, and takes no costate back.
static void test_new_starts_in_packs(void **state) {
  const World *s = *state;
  Result together = no_result(s), alone = no_result(s);
  pbBatch *all, *one;
  good(s->ctx, pbBatch_Create(s->ctx, s->model, &(pbBatchOptions){.worlds = W, .steps = T, .restarts = 1}, &all));
  good(s->ctx, pbBatch_Create(s->ctx, s->model, &(pbBatchOptions){.worlds = 1, .steps = T, .restarts = 1}, &one));
  run_parts(s, all, 0, &together);
  for (size_t w = 0; w < W; w++) {
    run_parts(s, one, w, &alone);
    same_world(s, &together, &alone, w);
    for (size_t i = 0; i < s->n; i++) assert_true(w % 3 || together.x0[w * s->n + i] == 0);
  }

  double size = 0;
  for (size_t i = 0; i < s->ntheta; i++) size = fmax(size, fabs(alone.theta[i]));
  for (size_t i = 0; i < s->ntheta; i++) assert_true(fabs(alone.theta[i] - together.theta[i]) <= 1e-13 * size);
  pbBatch_Destroy(all);
  pbBatch_Destroy(one);
  free_result(&together);
  free_result(&alone);
}

// ---- memory -----------------------------------------------------------------------------------------------------------------
// Every allocation of Create fails in turn, and nothing stays behind.
static void test_no_memory(void **state) {
  const World *s = *state;
  pbStatus status = pb_no_memory;
  for (int count = 1; status != pb_ok; count++) {
    Meter meter = {.fail_at = count + 1, .fail_ever_after = true};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&hooks);
    pbBatch *batch = NULL;
    status = pb_no_memory;
    if (ctx) status = pbBatch_Create(ctx, s->model, &(pbBatchOptions){.worlds = W, .steps = 2}, &batch);
    assert_true(status == pb_ok || status == pb_no_memory);
    assert_true((status == pb_ok) == (batch != NULL));
    pbBatch_Destroy(batch);
    pbContext_Destroy(ctx);
    assert_int_equal(meter.live, 0);
    assert_true(count < 1000);
  }
}

// None of this is of worth unless worlds do go together.
static void test_packs_are_made(void **state) {
  const World *s = *state;
  pbBatch *batch;
  good(s->ctx, pbBatch_Create(s->ctx, s->model, &(pbBatchOptions){.worlds = W}, &batch));
  good(s->ctx, pbBatch_Reset(batch, NULL, NULL, 0, -1, NULL));
  assert_true(pbBatch_Packs(batch));
  pbBatch_Destroy(batch);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_worlds_together_and_alone),
      cmocka_unit_test(test_worlds_as_rollouts),
      cmocka_unit_test(test_threads_and_subsets),
      cmocka_unit_test(test_packs_are_made),
      cmocka_unit_test(test_a_world_fails_beside_others),
      cmocka_unit_test(test_new_starts_in_packs),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
