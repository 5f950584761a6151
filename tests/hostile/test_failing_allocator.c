// Every allocation of a whole run fails in turn: the status says so, nothing leaks, and the context goes on working.
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "hostile/hostile.h"

// Allocations of the library that go past the context's hooks: the linker sends them here (tests/CMakeLists.txt).
static long strays, strays_watched;
#ifdef PB_WRAP_MALLOC
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size) { return strays += strays_watched, __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return strays += strays_watched, __real_calloc(count, size); }
void *__wrap_realloc(void *memory, size_t size) { return strays += strays_watched, __real_realloc(memory, size); }
#endif

static const char *const model_files[] = {"hostile/model.xml", "oracle/models/include_main.xml", "hostile/impact.xml"};

typedef struct Parts {  // what a run holds; any may be NULL
  pbModel *model;
  pbScratch *scratch;
  pbRollout *rollout;
} Parts;

enum { run_steps = 12, run_most = 4096 };
typedef struct Result {  // enough to compare two runs bit by bit
  double x[run_most], x_bar[run_most], theta_bar[run_most], next[run_most], A[run_most];
  long calls;  // allocations between the first step and the last derivative
} Result;

static const double controls[64] = {0.3, 0.2, -0.1};

static pbStatus rollout(Parts *parts, const double *x0, Result *r) {
  const double *theta = pbModel_DefaultParams(parts->model);
  pbRolloutInput input = {.ctrl = controls, .constant = true};
  pbRolloutOutput output = {.final_state = r->x};
  double ones[run_most];
  for (int i = 0; i < pbModel_Size(parts->model, "nv"); i++) ones[i] = 1 + 0.1 * i;
  pbRolloutBar bar = {.qpos = {.data = ones, .count = 1}, .qvel = {.data = ones, .count = 1}};
  pbRolloutGradient gradient = {.x0 = r->x_bar, .theta = r->theta_bar};
  PB_TRY(pbRollout_Forward(parts->rollout, theta, x0, &input, &output));
  return pbRollout_Vjp(parts->rollout, &bar, NULL, &gradient, NULL);
}

static pbStatus single_step(Parts *parts, const double *x0, Result *r) {
  const pbModel *m = parts->model;
  const double *theta = pbModel_DefaultParams(m);
  double x[run_most], record[run_most], direction_x[run_most];
  pbInput input = {.ctrl = controls};
  memcpy(x, x0, sizeof x);
  assert_true(pbTape_Size(m) <= run_most);
  PB_TRY(pbStep_Forward(m, theta, x, &input, parts->scratch, NULL));
  pbTape_Record(m, x0, parts->scratch, record);
  for (int i = 0; i < pbModel_TangentSize(m); i++) direction_x[i] = 0.5 - 0.1 * i;
  pbDirection direction = {.x = direction_x};
  PB_TRY(pbStep_Jvp(m, theta, record, &input, &direction, parts->scratch, r->next, NULL, NULL, NULL));
  return pbStep_Jacobian(m, theta, record, &input, parts->scratch, r->A, NULL, NULL, NULL);
}

static pbStatus run(pbContext *ctx, const char *file, Meter *meter, Parts *parts, Result *r) {
  memset(r, 0, sizeof *r);
  PB_TRY(pbModel_Load(ctx, file, NULL, &parts->model));
  const pbModel *m = parts->model;
  int n = pbModel_TangentSize(m);
  if (strstr(file, "impact")) {
    PB_TRY(pbModel_SetContact(parts->model, "method", "impact"));
    PB_TRY(pbModel_SetContact(parts->model, "restitution", "0.8"));
  }
  assert_true(pbModel_ParamSize(m) <= run_most && n * n <= run_most && pbModel_Size(m, "nu") <= 64);
  pbRolloutPlan plan;
  PB_TRY(pbRollout_PlanSlots(ctx, m, run_steps, 2, 3, &plan));  // less than all steps: some are computed again
  PB_TRY(pbRollout_Create(ctx, m, &plan, NULL, &parts->rollout));
  PB_TRY(pbScratch_Create(ctx, m, NULL, &parts->scratch));
  double x0[run_most] = {0};
  PB_TRY(pbState_Init(ctx, m, pbModel_DefaultParams(m), pbModel_Size(m, "nkey") > 0 ? 0 : -1, x0));
  long calls = meter->calls;
  strays_watched = 1;
  pbStatus status = rollout(parts, x0, r);
  if (status == pb_ok) status = single_step(parts, x0, r);
  strays_watched = 0;
  r->calls = meter->calls - calls;
  return status;
}

static void drop(Parts *parts) {
  pbRollout_Destroy(parts->rollout);
  pbScratch_Destroy(parts->scratch);
  pbModel_Destroy(parts->model);
  *parts = (Parts){0};
}

static Result first, again;

static void test_nothing_leaks_and_no_step_allocates(void **state) {
  (void)state;
  for (size_t f = 0; f < sizeof model_files / sizeof *model_files; f++) {
    Meter meter = {0};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&hooks);
    Parts parts = {0};
    strays = 0;
    if (run(ctx, model_files[f], &meter, &parts, &first) != pb_ok) fail_msg("%s: %s", model_files[f], pbContext_Error(ctx));
    assert_int_equal(first.calls, 0);
    assert_int_equal(strays, 0);
    drop(&parts);
    assert_int_equal(meter.live, 1);  // the context itself
    pbContext_Destroy(ctx);
    assert_int_equal(meter.live, 0);
  }
}

// One run with one failure (or all from one on), then the same context with memory again.
static bool fail_once(const char *file, long at, bool ever_after) {
  Meter meter = {.fail_at = at, .fail_ever_after = ever_after};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  Parts parts = {0};
  if (!ctx) {
    assert_int_equal(meter.live, 0);
    return true;
  }
  pbStatus status = run(ctx, file, &meter, &parts, &again);
  bool reached = meter.failed > 0;
  if (reached && status != pb_ok && status != pb_no_memory)
    fail_msg("%s: allocation %ld: %s: %s", file, at, pbStatus_Text(status), pbContext_Error(ctx));
  drop(&parts);
  if (meter.live > 1) fail_msg("%s: allocation %ld fails: %ld blocks leak", file, at, meter.live - 1);
  meter.fail_at = 0;
  if (run(ctx, file, &meter, &parts, &again) != pb_ok) fail_msg("%s: after a failure: %s", file, pbContext_Error(ctx));
  if (memcmp(&again, &first, sizeof first)) fail_msg("%s: after a failure of allocation %ld the result is another", file, at);
  drop(&parts);
  pbContext_Destroy(ctx);
  assert_int_equal(meter.live, 0);
  return reached;
}

static void test_every_allocation_fails_in_turn(void **state) {
  (void)state;
  for (size_t f = 0; f < sizeof model_files / sizeof *model_files; f++) {
    Meter meter = {0};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&hooks);
    Parts parts = {0};
    assert_int_equal(run(ctx, model_files[f], &meter, &parts, &first), pb_ok);
    drop(&parts);
    pbContext_Destroy(ctx);
    long at = 1;
    while (fail_once(model_files[f], at, false) && fail_once(model_files[f], at, true)) at++;
    printf("%s: %ld allocations, each failed in turn\n", model_files[f], at - 1);
    assert_int_equal(at - 1, meter.calls);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nothing_leaks_and_no_step_allocates),
      cmocka_unit_test(test_every_allocation_fails_in_turn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
