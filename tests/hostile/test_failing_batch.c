// Batches: every allocation of one fails in turn, nothing leaks, and no step, rollout, pullback or Jacobian of a batch allocates.
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/pullback.h>

#include "support/meter.h"

enum { worlds = 11, steps = 6, most = 65536 };
static const char file[] = "hostile/model.xml";

typedef struct Parts {  // what a run holds; any may be NULL
  pbModel *model;
  pbPool *pool;
  pbBatch *batch;
} Parts;

typedef struct Result {
  double states[most], x0[most], theta[most], own[worlds], A[most];
  long calls;  // allocations between the first step and the last derivative
} Result;

static pbStatus derivatives(Parts *parts, Result *r) {
  const pbModel *m = parts->model;
  static const double ctrl[64] = {0.3, 0.2, -0.1};
  double ones[most];
  for (int i = 0; i < worlds * pbModel_Size(m, "nv"); i++) ones[i] = 1 + 0.01 * i;
  pbBatchInput input = {.ctrl = ctrl, .constant = true, .shared = pb_sharedCtrl};
  pbRolloutBar bar = {.qvel = {.data = ones, .count = 1}};
  double ctrl_bar[64] = {0};
  pbBatchGradient gradient = {.x0 = r->x0, .ctrl = ctrl_bar, .theta = r->theta, .own = r->own};
  pbCertificate certificate[worlds];

  PB_TRY(pbBatch_Step(parts->batch, NULL, NULL, 0, &input, NULL));
  PB_TRY(pbBatch_Rollout(parts->batch, NULL, NULL, 0, steps, &input, NULL));
  PB_TRY(pbBatch_Vjp(parts->batch, &bar, NULL, &gradient, certificate));
  return pbBatch_Linearize(parts->batch, r->A, NULL, NULL, NULL);
}

// derive: constants too, whose memory is had when they are derived and pulled back. With a capacity no call allocates, without
// one the first of a kind does.
static pbStatus run(pbContext *ctx, Meter *meter, int threads, bool derive, int contacts, Parts *parts, Result *r) {
  static const char *const own[] = {"body_mass:1"};
  memset(r, 0, sizeof *r);
  PB_TRY(pbModel_Load(ctx, file, NULL, &parts->model));
  const pbModel *m = parts->model;
  size_t nx = (size_t)pbModel_StateSize(m), n = (size_t)pbModel_TangentSize(m);
  assert_true(worlds * nx <= most && worlds * steps * n * n <= most && pbModel_ParamSize(m) <= most);
  PB_TRY(pbPool_Create(ctx, threads, &parts->pool));
  pbBatchOptions options = {.worlds = worlds,
                            .pool = parts->pool,
                            .steps = steps,
                            .shared_inputs = true,
                            .own = own,
                            .own_count = 1,
                            .capacity = {.contacts = contacts}};
  PB_TRY(pbBatch_Create(ctx, m, &options, &parts->batch));
  for (int w = 0; w < worlds; w++) pbBatch_Own(parts->batch)[w] *= 1 + .01 * w;
  if (derive) PB_TRY(pbBatch_Derive(parts->batch, NULL, NULL, 0));

  long calls = meter->calls;
  pbStatus status = derivatives(parts, r);
  memcpy(r->states, pbBatch_States(parts->batch), worlds * nx * sizeof(double));
  if (!contacts && !derive && status == pb_ok) {
    static Result later;
    calls = meter->calls;
    status = derivatives(parts, &later);
  }
  r->calls = meter->calls - calls;
  return status;
}

static void drop(Parts *parts) {
  pbBatch_Destroy(parts->batch);
  pbPool_Destroy(parts->pool);
  pbModel_Destroy(parts->model);
  *parts = (Parts){0};
}

static Result first, again;

static void test_no_call_allocates(void **state) {
  (void)state;
  for (int k = 0; k < 6; k++) {
    int threads = 1 + k / 2, contacts = k % 2 ? 64 : 0;
    Meter meter = {0};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&hooks);
    Parts parts = {0};
    Result *r = k == 0 ? &first : &again;
    if (run(ctx, &meter, threads, false, contacts, &parts, r) != pb_ok) fail_msg("%s", pbContext_Error(ctx));
    if (contacts || threads == 1) assert_int_equal(r->calls, 0);  // a thread that had no world before has its room later
    r->calls = 0;
    if (k > 0) assert_memory_equal(&first, &again, sizeof first);
    drop(&parts);
    pbContext_Destroy(ctx);
    assert_int_equal(meter.live, 0);
  }
}

static void test_every_allocation_fails_in_turn(void **state) {
  (void)state;
  Meter counting = {0};
  pbAllocator hooks = meter_hooks(&counting);
  pbContext *ctx = pbContext_Create(&hooks);
  Parts parts = {0};
  if (run(ctx, &counting, 1, true, 0, &parts, &first) != pb_ok) fail_msg("%s", pbContext_Error(ctx));
  drop(&parts);
  pbContext_Destroy(ctx);

  for (int ever_after = 0; ever_after < 2; ever_after++) {
    for (long fail_at = 2; fail_at <= counting.calls; fail_at++) {
      Meter meter = {.fail_at = fail_at, .fail_ever_after = ever_after};
      hooks = meter_hooks(&meter);
      ctx = pbContext_Create(&hooks);
      pbStatus status = run(ctx, &meter, 1, true, 0, &parts, &again);
      assert_int_equal(status, pb_no_memory);
      assert_true(*pbContext_Error(ctx) && meter.failed > 0);
      drop(&parts);

      // The context goes on working.
      meter.fail_at = 0;
      meter.fail_ever_after = false;
      if (fail_at % 16 == 0) {
        if (run(ctx, &meter, 1, true, 0, &parts, &again) != pb_ok) fail_msg("%s", pbContext_Error(ctx));
        again.calls = first.calls;
        assert_memory_equal(&first, &again, sizeof first);
        drop(&parts);
      }
      pbContext_Destroy(ctx);
      assert_int_equal(meter.live, 0);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_call_allocates),
      cmocka_unit_test(test_every_allocation_fails_in_turn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
