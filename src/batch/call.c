// One call of a batch: which worlds take part, groups of them on the threads of the pool, progress, and how it went.
// Tests: tests/unit/test_batch.c.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/context.h"
#include "batch/batch.h"
#include "step/scratch.h"

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- progress -------------------------------------------------------------------------------------------------------
// Steps of all worlds so far: those of worlds that are done, and what each thread has made of the one at hand. That is read while
// it changes; what has been told is not taken back.
static int64_t steps_done(pbBatch *b) {
  PB_ASSERT(b->length >= 1 && b->told_steps >= 0);
  int64_t steps = (int64_t)atomic_load(&b->done) * b->length;
  for (int i = 0; i < b->threads; i++) steps += atomic_load(&b->worker[i].at);

  int64_t most = (int64_t)b->total * b->length;
  if (steps > most) steps = most;
  if (steps > b->told_steps) b->told_steps = steps;
  return b->told_steps;
}

static void tell(pbBatch *b) {
  static const double interval = 0.02;  // s
  double now = seconds_now();
  if (b->told > b->begun && now - b->told < interval) return;

  int64_t done = steps_done(b);
  pbProgress p = {.phase = b->phase, .done = done, .total = (int64_t)b->total * b->length, .seconds = now - b->begun, .left = -1};
  if (done > 0) p.left = p.seconds * (double)(p.total - done) / (double)done;
  b->told = now;
  if (b->progress(b->progress_user, &p)) atomic_store(&b->stopped, 1);
}

// Of each thread's rollout, which may take more steps than the call has: what is run again counts too. The caller's thread alone
// tells; what it hears, all follow.
static int poll_progress(void *user, const pbProgress *progress) {
  pbBatchWorker *k = user;
  pbBatch *b = k->batch;
  PB_ASSERT(k->sweeps >= 1 && progress->done <= progress->total);
  double share = progress->total > 0 ? (double)progress->done / (double)progress->total : 0;
  atomic_store(&k->at, (int)((k->sweep + share) / k->sweeps * b->length));
  if (k->index == 0) tell(b);
  return atomic_load(&b->stopped);
}

static void tell_waiting(void *user) { tell(user); }

void pbBatch_Watch(pbBatch *b, bool on) { pbPool_WhileWaiting(b->pool, on && b->progress ? tell_waiting : NULL, b); }

void pbBatch_OnProgress(pbBatch *b, pbProgressFunction function, void *user) {
  b->progress = function;
  b->progress_user = user;
  for (int i = 0; i < b->threads; i++) {
    pbBatchWorker *k = &b->worker[i];
    pbRollout *r;
    for (int s = 0; (r = pbBatch_RolloutAt(k, s)); s++) pbRollout_OnProgress(r, function ? poll_progress : NULL, k);
  }
}

// ---- which worlds ---------------------------------------------------------------------------------------------------
static pbStatus check_ids(const pbBatch *b, const int *ids, int count) {
  if (!ids) return pb_ok;
  if (count < 0) return pbContext_Fail(b->ctx, pb_bad_argument, "expected a count of worlds from 0 on, found %d", count);

  for (int i = 0; i < count; i++) {
    int least = i ? ids[i - 1] + 1 : 0;
    if (ids[i] >= least && ids[i] < b->worlds) continue;
    return pbContext_Fail(b->ctx, pb_bad_argument, "expected ascending numbers of worlds in 0 .. %d, found %d (number %d)",
                          b->worlds - 1, ids[i], i);
  }

  return pb_ok;
}

static void begin(pbBatch *b, int steps, const char *phase) {
  b->total = 0;
  b->length = steps > 0 ? steps : 1;
  for (int w = 0; w < b->worlds; w++) {
    if (!b->active[w]) continue;
    b->total++;
    b->status[w] = pb_ok;
    b->error[w][0] = 0;
  }
  // Worlds that go together gain by their number more than by an even share.
  pbGroups_Make(&b->groups, b->worker[0].pack ? b->threads : pbGroups_For(b->threads));

  b->phase = phase;
  b->failed = 0;
  b->told_steps = 0;
  for (int i = 0; i < b->threads; i++) atomic_store(&b->worker[i].at, 0);
  atomic_store(&b->done, 0);
  atomic_store(&b->stopped, 0);
  if (!b->progress) return;

  b->told = b->begun = seconds_now();
  tell(b);
}

// What threads know of theta. Where worlds share all of it, it is looked at once a call and not once a world.
static pbStatus begin_workers(pbBatch *b) {
  for (int i = 0; i < b->threads; i++) {
    pbBatchWorker *k = &b->worker[i];
    k->filled = false;
    k->group = -1;
    pbRollout *r;
    for (int s = 0; (r = pbBatch_RolloutAt(k, s)); s++) {
      r->vouched = false;
      r->theta = b->theta;
      if (b->own_count > 0) continue;

      pbStatus status = pbRollout_Ready(r);
      if (status != pb_ok) return pbContext_Fail(b->ctx, status, "%s", pbContext_Error(k->ctx));
      r->vouched = true;
    }
  }

  return pb_ok;
}

static pbStatus check_model(const pbBatch *b) {
  if (!pbScratch_Stale(b->worker[0].slot->rollout->scratch, b->model)) return pb_ok;
  return pbContext_Fail(
      b->ctx, pb_bad_argument,
      "this batch was made for the model as it was before its options or contact settings changed; make it anew");
}

pbStatus pbBatch_Begin(pbBatch *b, const double *theta, const int *ids, int count, int steps, const char *phase) {
  b->failed = 0;
  PB_TRY(check_ids(b, ids, count));
  PB_TRY(check_model(b));
  b->theta = theta ? theta : pbModel_DefaultParams(b->model);

  // A new call of any kind but derivatives: the tape is of no state that worlds are in.
  b->tape_steps = b->reached = -1;
  for (int i = 0; i < b->threads; i++) b->worker[i].planned_world = -1;
  for (int w = 0; w < b->worlds; w++) {
    b->active[w] = !ids;
    b->has_tape[w] = false;
    if (b->made) b->made[w] = 0;
  }
  int listed = ids ? count : 0;
  for (int i = 0; i < listed; i++) b->active[ids[i]] = true;

  PB_TRY(begin_workers(b));
  begin(b, steps, phase);
  return pb_ok;
}

pbStatus pbBatch_BeginPart(pbBatch *b, int steps, const char *phase) {
  PB_TRY(check_model(b));
  memcpy(b->active, b->has_tape, (size_t)b->worlds * sizeof *b->active);

  PB_TRY(begin_workers(b));
  begin(b, steps, phase);
  return pb_ok;
}

pbStatus pbBatch_BeginTape(pbBatch *b, const char *phase) {
  b->failed = 0;
  if (b->tape_steps < 0)
    return pbContext_Fail(b->ctx, pb_bad_argument,
                          "derivatives need a rollout right before, of at most pbBatchOptions.steps steps (%d)", b->steps);
  PB_TRY(check_model(b));

  memcpy(b->active, b->has_tape, (size_t)b->worlds * sizeof *b->active);
  PB_TRY(begin_workers(b));
  begin(b, b->tape_steps, phase);
  return pb_ok;
}

// ---- work -----------------------------------------------------------------------------------------------------------
static void fail_world(pbBatch *b, int world, pbStatus status, const char *text) {
  b->status[world] = status;
  snprintf(b->error[world], PB_BATCH_TEXT, "%s", text);
}

bool pbBatch_Do(pbBatchWorker *k, int world, pbBatchWork work, const void *user) {
  pbBatch *b = k->batch;
  PB_ASSERT(world >= 0 && world < b->worlds && b->active[world]);
  if (atomic_load(&b->stopped)) {
    fail_world(b, world, pb_interrupted, "interrupted");
    return false;
  }

  k->sweep = 0;
  k->sweeps = 1;
  pbStatus status = work(k, world, user);
  if (status != pb_ok) fail_world(b, world, status, pbContext_Error(k->ctx));

  atomic_store(&k->at, 0);
  atomic_fetch_add(&b->done, 1);
  if (b->progress && k->index == 0) tell(b);
  return status == pb_ok;
}

typedef struct Job {
  pbBatch *batch;
  pbBatchWork work;
  const void *user;
} Job;

static void do_world(void *user, int world, int worker) {
  const Job *job = user;
  pbBatch_Do(&job->batch->worker[worker], world, job->work, job->user);
}

void pbBatch_Each(pbBatch *b, pbBatchWork work, const void *user) {
  Job job = {b, work, user};
  pbBatch_Watch(b, true);
  pbGroups_Each(&b->groups, b->pool, do_world, &job);
  pbBatch_Watch(b, false);
}

// ---- how it went ------------------------------------------------------------------------------------------------------
pbStatus pbBatch_End(pbBatch *b) {
  if (atomic_load(&b->stopped))
    return pbContext_Fail(b->ctx, pb_interrupted, "interrupted after %d of %d worlds", atomic_load(&b->done), b->total);

  int first = -1;
  for (int w = b->worlds - 1; w >= 0; w--) {
    if (!b->active[w] || b->status[w] == pb_ok) continue;
    b->failed++;
    first = w;
  }
  if (first < 0) return pb_ok;

  char others[64] = "";
  if (b->failed > 1) snprintf(others, sizeof others, " (and %d other worlds of %d)", b->failed - 1, b->total);
  return pbContext_Fail(b->ctx, b->status[first], "world %d: %s%s", first, b->error[first], others);
}

const pbStatus *pbBatch_Status(const pbBatch *b) { return b->status; }
int pbBatch_Failed(const pbBatch *b) { return b->failed; }

const char *pbBatch_Error(const pbBatch *b, int world) {
  PB_ASSERT(world >= 0 && world < b->worlds);
  return b->error[world];
}

pbReport pbBatch_Report(const pbBatch *b, int world) {
  PB_ASSERT(world >= 0 && world < b->worlds);
  return b->report[world];
}

pbRollout *pbBatch_RolloutAt(const pbBatchWorker *k, int index) {
  if (index < k->slots) return k->slot[index].rollout;
  return index == k->slots ? k->planned : NULL;
}
