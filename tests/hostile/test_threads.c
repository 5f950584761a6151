// One const model, several threads, each with a context and a scratch of its own: nothing that only reads the model writes its
// context's text or takes its memory, and no call that returns pb_ok changes any text. A batch on threads has the bits of one on
// one. Under the sanitizer for threads the two
// threads below show races; without it the metered contexts show what would be one.
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/pullback.h>

#include "support/meter.h"

static const char *const worlds[] = {"hostile/model.xml",
                                     "oracle/models/contact_box.xml",
                                     "../examples/ball/launch.json",
                                     "../examples/beam/identify.json",
                                     "../examples/cloth/drape.json",
                                     "../examples/slide/friction.json",
                                     "../examples/gripper/lift.json",
                                     "../examples/chain/carry.json",
                                     "../examples/pendulum/identify.json",
                                     "../examples/hopper/identify.json"};
enum { world_count = sizeof worlds / sizeof *worlds, threads = 2, rounds = 3, most_dense = 120 };
static const char before[] = "what was said before";

typedef struct World {
  Meter meter;
  pbContext *ctx;
  pbModel *own;  // of a file; NULL: the task's
  pbTask *task;
  const pbModel *model;
} World;

static void open_world(World *w, const char *file) {
  *w = (World){0};
  pbAllocator hooks = meter_hooks(&w->meter);
  w->ctx = pbContext_Create(&hooks);
  assert_non_null(w->ctx);
  pbStatus status = strstr(file, ".json") ? pbTask_Load(w->ctx, file, "..", &w->task) : pbModel_Load(w->ctx, file, NULL, &w->own);
  if (status != pb_ok) fail_msg("%s: %s", file, pbContext_Error(w->ctx));
  w->model = w->task ? pbTask_Model(w->task) : w->own;
  assert_int_equal(pbContext_Fail(w->ctx, pb_ok, "%s", before), pb_ok);
}

static void close_world(World *w) {
  pbTask_Destroy(w->task);
  pbModel_Destroy(w->own);
  pbContext_Destroy(w->ctx);
  assert_int_equal(w->meter.live, 0);
}

// What one thread has; all of it is its own.
typedef struct Worker {
  const pbModel *model;
  const char *file;
  Meter meter;
  pbContext *ctx;
  pbScratch *scratch;
  pbRollout *rollout;
  double *x, *start, *record, *ones, *x_bar, *theta, *theta_bar, *next, *dense, *sensors;
  char fault[256];  // what went wrong first; "": nothing
} Worker;

static void blame(Worker *k, const char *what, const char *more) {
  if (!*k->fault) snprintf(k->fault, sizeof k->fault, "%s: %s: %.150s", k->file, what, more);
}

// A call that must do, and leave all texts as they were.
static void must(Worker *k, const char *what, pbStatus status) {
  if (status != pb_ok)
    blame(k, what, k->scratch && *pbScratch_Error(k->scratch) ? pbScratch_Error(k->scratch) : pbContext_Error(k->ctx));
  if (strcmp(pbContext_Error(k->ctx), before)) blame(k, what, pbContext_Error(k->ctx));
  if (k->scratch && *pbScratch_Error(k->scratch)) blame(k, what, pbScratch_Error(k->scratch));
}

// A call that must not, and say why in the worker's own context.
static void must_fail(Worker *k, const char *what, pbStatus status, const char *text) {
  if (status == pb_ok || !strstr(pbContext_Error(k->ctx), text)) blame(k, what, pbContext_Error(k->ctx));
  if (pbContext_Fail(k->ctx, pb_ok, "%s", before) != pb_ok) blame(k, what, "");
}

static double *numbers(size_t count) { return calloc(count + 1, sizeof(double)); }

static void open_worker(Worker *k, const World *w, const char *file) {
  *k = (Worker){.model = w->model, .file = file};
  const pbModel *m = k->model;
  size_t nx = (size_t)pbModel_StateSize(m), n = (size_t)pbModel_TangentSize(m), np = pbModel_ParamSize(m);
  k->x = numbers(nx);
  k->start = numbers(nx);
  k->record = numbers((size_t)pbTape_Size(m));
  k->ones = numbers(n);
  k->x_bar = numbers(n);
  k->theta = numbers(np);
  k->theta_bar = numbers(np);
  k->next = numbers(n);
  k->dense = n <= most_dense ? numbers(n * n) : NULL;
  k->sensors = numbers((size_t)pbModel_Size(m, "nsensordata"));
}

static void close_worker(Worker *k) {
  double *all[] = {k->x, k->start, k->record, k->ones, k->x_bar, k->theta, k->theta_bar, k->next, k->dense, k->sensors};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void steps(Worker *k) {
  const pbModel *m = k->model;
  int nx = pbModel_StateSize(m), n = pbModel_TangentSize(m);
  for (int i = 0; i < n; i++) k->ones[i] = 1 - 0.01 * (i % 7);
  memcpy(k->x, k->start, (size_t)nx * sizeof *k->x);
  for (int step = 0; step < 4; step++) {
    memcpy(k->start, k->x, (size_t)nx * sizeof *k->x);
    must(k, "step", pbStep_Forward(m, k->theta, k->x, NULL, k->scratch, k->sensors));
    pbTape_Record(m, k->start, k->scratch, k->record);
    must(k, "vjp", pbStep_Vjp(m, k->theta, k->record, NULL, k->ones, NULL, k->scratch, k->x_bar, NULL, k->theta_bar));
  }
  must(k, "jvp", pbStep_Jvp(m, k->theta, k->record, NULL, &(pbDirection){.x = k->ones}, k->scratch, k->next, NULL, NULL, NULL));
  if (k->dense) must(k, "Jacobian", pbStep_Jacobian(m, k->theta, k->record, NULL, k->scratch, k->dense, NULL, NULL, NULL));
  must(k, "look", pbStep_Observe(m, k->theta, k->x, NULL, k->scratch, k->sensors));
}

static void rollout(Worker *k) {
  const pbModel *m = k->model;
  pbRolloutPlan plan;
  double *ones = k->ones;
  must(k, "plan", pbRollout_Plan(k->ctx, m, 3, 0, &plan));
  must(k, "rollout", pbRollout_Create(k->ctx, m, &plan, NULL, &k->rollout));
  must(k, "forward", pbRollout_Forward(k->rollout, k->theta, k->start, &(pbRolloutInput){0}, &(pbRolloutOutput){0}));
  pbRolloutBar bar = {.qvel = {.data = ones, .count = 1}};
  pbCertificate certificate;
  must(k, "pullback", pbRollout_Vjp(k->rollout, &bar, NULL, &(pbRolloutGradient){.theta = k->theta_bar}, &certificate));
  pbRollout_Destroy(k->rollout);
}

static void errors(Worker *k) {
  const pbModel *m = k->model;
  pbParam p;
  pbRolloutPlan plan;
  double kept = k->theta[0];
  must_fail(k, "a name", pbModel_Param(k->ctx, m, "body_mas", &p), "did you mean 'body_mass'");
  must_fail(k, "a keyframe", pbState_Init(k->ctx, m, k->theta, 1000, k->x), "keyframe 1000");
  must_fail(k, "a plan", pbRollout_Plan(k->ctx, m, -1, 0, &plan), "must not be negative");
  k->theta[0] = NAN;
  must_fail(k, "NaN", pbModel_CheckParams(k->ctx, m, k->theta), "NaN");
  k->theta[0] = kept;
  pbScratch *none;
  must_fail(k, "a capacity", pbScratch_Create(k->ctx, m, &(pbCapacity){.contacts = -1}, &none),
            "expected a capacity of 0 contacts");
}

static void failing_step(Worker *k) {  // last: it leaves its text in the scratch
  size_t nx = (size_t)pbModel_StateSize(k->model);
  memcpy(k->x, k->start, nx * sizeof *k->x);
  for (size_t i = 1; i < nx; i++) k->x[i] = NAN;
  if (nx > 1 && pbStep_Forward(k->model, k->theta, k->x, NULL, k->scratch, NULL) == pb_ok) blame(k, "a state of NaN", "passes");
  if (nx > 1 && !*pbScratch_Error(k->scratch)) blame(k, "a state of NaN", "no text");
  if (strcmp(pbContext_Error(k->ctx), before)) blame(k, "a state of NaN", pbContext_Error(k->ctx));
}

static void *work(void *argument) {
  Worker *k = argument;
  const pbModel *m = k->model;
  pbAllocator hooks = meter_hooks(&k->meter);
  if (!(k->ctx = pbContext_Create(&hooks))) return blame(k, "a context", ""), NULL;
  if (pbContext_Fail(k->ctx, pb_ok, "%s", before) != pb_ok) blame(k, "a context", "");
  memcpy(k->theta, pbModel_DefaultParams(m), pbModel_ParamSize(m) * sizeof(double));
  must(k, "values", pbModel_CheckParams(k->ctx, m, k->theta));
  must(k, "constants", pbModel_SetConstants(k->ctx, m, k->theta));
  must(k, "their pullback", pbModel_SetConstantsVjp(k->ctx, m, k->theta, k->theta_bar));
  must(k, "their derivative", pbModel_SetConstantsJvp(k->ctx, m, k->theta, k->theta_bar));
  must(k, "start", pbState_Init(k->ctx, m, k->theta, pbModel_Size(m, "nkey") > 0 ? 0 : -1, k->start));
  must(k, "scratch", pbScratch_Create(k->ctx, m, NULL, &k->scratch));
  for (int round = 0; round < rounds && !*k->fault; round++) {
    steps(k);
    errors(k);
    if (round == 0) rollout(k);
  }
  if (!*k->fault) failing_step(k);
  pbScratch_Destroy(k->scratch);
  pbContext_Destroy(k->ctx);
  if (k->meter.live) blame(k, "memory", "some of it is not given back");
  return NULL;
}

static void run(int count) {
  for (int i = 0; i < world_count; i++) {
    World w;
    Worker worker[threads];
    pthread_t thread[threads];
    open_world(&w, worlds[i]);
    long calls = w.meter.calls;
    for (int t = 0; t < count; t++) open_worker(&worker[t], &w, worlds[i]);
    for (int t = 1; t < count; t++) assert_int_equal(pthread_create(&thread[t], NULL, work, &worker[t]), 0);
    work(&worker[0]);
    for (int t = 1; t < count; t++) assert_int_equal(pthread_join(thread[t], NULL), 0);
    for (int t = 0; t < count; t++) {
      if (*worker[t].fault) fail_msg("%s", worker[t].fault);
      close_worker(&worker[t]);
    }
    assert_int_equal(w.meter.calls, calls);
    assert_string_equal(pbContext_Error(w.ctx), before);
    assert_string_equal(pbContext_Warnings(w.ctx), "");
    close_world(&w);
  }
}

static void test_texts_stay(void **state) {
  (void)state;
  run(1);
}

static void test_threads_share_a_model(void **state) {
  (void)state;
  run(threads);
}

// ---- a batch: worlds on the threads of a pool ---------------------------------------------------------------------------
enum { batch_worlds = 21, batch_steps = 4 };

typedef struct Pulled {
  double states[batch_worlds * 64], theta[4096], x0[batch_worlds * 64];
  long certified;
} Pulled;

static int watch(void *user, const pbProgress *progress) {
  (void)progress;
  ++*(int *)user;
  return 0;
}

static void run_batch(pbContext *ctx, const pbModel *m, int count, Pulled *out) {
  static const char *const own[] = {"body_mass:1"};
  static double ones[batch_worlds * 64], A[batch_worlds * batch_steps * 64 * 64];
  pbPool *pool;
  pbBatch *batch;
  pbCertificate certificate[batch_worlds];
  int told = 0;
  memset(out, 0, sizeof *out);
  for (size_t i = 0; i < sizeof ones / sizeof *ones; i++) ones[i] = 1 + 0.01 * (double)i;
  assert_int_equal(pbPool_Create(ctx, count, &pool), pb_ok);
  pbBatchOptions options = {.worlds = batch_worlds, .pool = pool, .steps = batch_steps, .own = own, .own_count = 1};
  if (pbBatch_Create(ctx, m, &options, &batch) != pb_ok) fail_msg("%s", pbContext_Error(ctx));
  pbBatch_OnProgress(batch, watch, &told);
  for (int w = 0; w < batch_worlds; w++) pbBatch_Own(batch)[w] *= 1 + 0.01 * w;
  pbRolloutBar bar = {.qvel = {.data = ones, .count = 1}};
  pbVjpOptions checks = {.spot_check = pb_checkSteps, .seed = 3};  // its memory is had in the threads
  pbBatchGradient gradient = {.x0 = out->x0, .theta = out->theta};

  for (int round = 0; round < rounds; round++) {
    pbStatus status = pbBatch_Derive(batch, NULL, NULL, 0);
    if (status == pb_ok) status = pbBatch_Rollout(batch, NULL, NULL, 0, batch_steps, NULL, NULL);
    if (status == pb_ok) status = pbBatch_Vjp(batch, &bar, &checks, &gradient, certificate);
    if (status == pb_ok) status = pbBatch_Linearize(batch, A, NULL, NULL, NULL);
    if (status == pb_ok) status = pbBatch_Step(batch, NULL, NULL, 0, NULL, NULL);
    if (status != pb_ok) fail_msg("%s", pbContext_Error(ctx));
    for (int w = 0; w < batch_worlds; w++) out->certified += certificate[w].spot_checked;
  }
  assert_true(told > 0);
  memcpy(out->states, pbBatch_States(batch), batch_worlds * (size_t)pbModel_StateSize(m) * sizeof(double));
  pbBatch_Destroy(batch);
  pbPool_Destroy(pool);
}

static void test_a_batch_on_threads(void **state) {
  (void)state;
  static Pulled alone, together;
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *m;
  assert_int_equal(pbModel_Load(ctx, worlds[0], NULL, &m), pb_ok);
  assert_true(pbModel_StateSize(m) <= 64 && pbModel_ParamSize(m) <= 4096);
  run_batch(ctx, m, 1, &alone);
  for (int count = 2; count <= 5; count += 3) {
    run_batch(ctx, m, count, &together);
    assert_memory_equal(&alone, &together, sizeof alone);
  }
  pbModel_Destroy(m);
  pbContext_Destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_texts_stay),
      cmocka_unit_test(test_threads_share_a_model),
      cmocka_unit_test(test_a_batch_on_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
