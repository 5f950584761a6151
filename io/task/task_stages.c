// A search in stages: one task after the other, each of which begins at the answer of the one before. The last is the task
// itself. Tests: tests/unit/test_stages.c, tests/oracle/test_staged.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "io/task/task_reader.h"

// What a stage came to, as it is saved: doubles only.
typedef struct Past {
  double steps, outcome, met, start_loss, loss, iterations, simulations, gradients, products, differences, left, seconds;
} Past;
enum { PAST = sizeof(Past) / sizeof(double) };

typedef struct Staged {
  pbTask *task;
  const pbRunOptions *options;
  const char *path;  // of the state; NULL: none is kept
  int done;          // stages that are over
  Past *past;        // of these; stage_count of them
  pbTask *now;       // the stage at hand; the task itself where that is the last
  pbArrays *loaded;  // what a run before has left of it; NULL: nothing
} Staged;

// ---- the state file: what is over, and the run of the stage at hand ------------------------------------------------
static pbStatus load_run(void *user, double *state, size_t count, bool *found) {
  Staged *s = user;
  *found = s->loaded != NULL;
  if (!s->loaded) return pb_ok;

  const pbArray *run = pbArrays_Find(s->loaded, "run");
  bool fits = run && run->type == pb_arrayReal && run->count == count;
  if (fits) memcpy(state, run->reals, count * sizeof *state);
  pbArrays_Destroy(s->loaded);
  s->loaded = NULL;

  return fits ? pb_ok : pbState_Refuse(s->task->ctx, s->path, "holds a run by another method");
}

static pbStatus fill(const Staged *s, const double *state, size_t count, pbArrays *set) {
  size_t past[] = {(size_t)s->done, PAST};
  if (s->done) PB_TRY(pbArrays_AddReals(set, "stages", 2, past, (const double *)s->past, NULL));
  return pbArrays_AddReals(set, "run", 1, &count, state, NULL);
}

static pbStatus save_run(void *user, const double *state, size_t count) {
  const Staged *s = user;
  pbArrays *set;
  if (!s->path) return pb_ok;
  PB_TRY(pbArrays_Create(s->task->ctx, &set));

  pbStatus status = fill(s, state, count, set);
  if (status == pb_ok) status = pbState_Save(s->path, s->task->made_from, set);
  pbArrays_Destroy(set);

  return status;
}

static bool is_past(const Past *p) {
  return p->outcome >= 0 && p->outcome < pb_runOutcomeCount && p->iterations >= 0 && p->iterations < 1e9 && p->steps >= 0 &&
         p->steps < 1e9 && p->left >= 0 && p->left < 1e9 && p->simulations >= 0 && p->simulations < 1e18 && p->gradients >= 0 &&
         p->gradients < 1e18 && p->products >= 0 && p->products < 1e18 && p->differences >= 0 && p->differences < 1e18;
}

// How many stages are over.
static pbStatus load_past(Staged *s) {
  pbTask *task = s->task;
  if (!s->path || !s->options->resume) return pb_ok;
  PB_TRY(pbState_Load(task->ctx, s->path, task->made_from, &s->loaded));
  const pbArray *past = s->loaded ? pbArrays_Find(s->loaded, "stages") : NULL;
  if (!past) return pb_ok;

  size_t done = past->count / PAST;
  bool good = past->type == pb_arrayReal && past->count == done * PAST && done < (size_t)task->stage_count;
  if (good) memcpy(s->past, past->reals, past->count * sizeof(double));
  for (size_t k = 0; good && k < done; k++) good = is_past(&s->past[k]);
  s->done = (int)done;

  return good ? pb_ok : pbState_Refuse(task->ctx, s->path, "is damaged");
}

// ---- one stage --------------------------------------------------------------------------------------------------------------
static bool is_last(const Staged *s) { return s->done == s->task->stage_count - 1; }

// A failure of a stage, with its name.
static pbStatus of_stage(const Staged *s, pbStatus status) {
  char why[1000];
  if (status == pb_ok || status == pb_interrupted || is_last(s)) return status;
  snprintf(why, sizeof why, "%s", pbContext_Error(s->task->ctx));
  return pbContext_Fail(s->task->ctx, status, "%.200s: %s", s->task->stages[s->done].name, why);
}

// The task of the stage after those that are over; the caller destroys the one before.
static pbStatus open_stage(const Staged *s, pbTask **opened) {
  pbTask *task = s->task;
  *opened = task;
  if (!is_last(s)) PB_TRY(pbTask_Again(task->ctx, task, s->done + 1, opened));

  pbTask *now = *opened;
  now->passing = !is_last(s);
  snprintf(now->phase, sizeof now->phase, "stage %d of %d", s->done + 1, task->stage_count);
  if (now == task) return pb_ok;
  pbTask_ShareFunctions(task, now);

  return pbTask_UsePool(now, task->pool);
}

// A method that cannot do a stage is told of before the first one runs, not after an hour.
static pbStatus check_methods(const Staged *s) {
  pbTask *task = s->task;
  for (int k = s->done; k < task->stage_count; k++) {
    pbTask *stage = task;
    char why[1000];
    if (k + 1 < task->stage_count) PB_TRY(pbTask_Again(task->ctx, task, k + 1, &stage));
    pbStatus status = pbTask_CheckMethod(stage, s->options->method);
    if (stage != task) pbTask_Destroy(stage);
    if (status == pb_ok) continue;

    snprintf(why, sizeof why, "%s", pbContext_Error(task->ctx));
    return pbContext_Fail(task->ctx, status, "%.200s: %s", task->stages[k].name, why);
  }

  return pb_ok;
}

static void close_stage(const Staged *s, pbTask *stage) {
  if (stage != s->task) pbTask_Destroy(stage);
}

static void sum_past(const Staged *s, pbTaskBefore *sum) {
  *sum = (pbTaskBefore){0};
  for (int k = 0; k < s->done; k++) {
    const Past *p = &s->past[k];
    sum->iterations += (int)p->iterations;
    sum->left += (int)p->left;
    sum->simulations += (int64_t)p->simulations;
    sum->gradients += (int64_t)p->gradients;
    sum->products += (int64_t)p->products;
    sum->differences += (int64_t)p->differences;
    sum->seconds += p->seconds;
  }
}

// What a run says of all so far, less what was before it.
static Past past_of(const pbTask *stage, const pbRunResult *r) {
  const pbTaskBefore *before = &stage->before;
  return (Past){.steps = stage->trajectories[0].steps,
                .outcome = r->outcome,
                .met = r->met,
                .start_loss = r->start_loss,
                .loss = r->loss,
                .iterations = r->iterations - before->iterations,
                .simulations = (double)(r->simulations - before->simulations),
                .gradients = (double)(r->gradients - before->gradients),
                .products = (double)(r->products - before->products),
                .differences = (double)(r->differences - before->differences),
                .left = r->left - before->left,
                .seconds = r->seconds - before->seconds};
}

static void tell_stages(const Staged *s) {
  for (int k = 0; k < s->done; k++) {
    const Past *p = &s->past[k];
    s->task->stages[k].run = (pbRunStage){.name = s->task->stages[k].name,
                                          .steps = (int)p->steps,
                                          .outcome = (pbRunOutcome)p->outcome,
                                          .met = p->met != 0,
                                          .start_loss = p->start_loss,
                                          .loss = p->loss,
                                          .iterations = (int)p->iterations,
                                          .simulations = (int64_t)p->simulations};
  }
}

static pbStatus run_stage(Staged *s, pbRunResult *result) {
  pbRunOptions options = *s->options;
  const pbRunStore store = {s, s->path ? s->path : "", load_run, save_run};
  sum_past(s, &s->now->before);
  if (!is_last(s)) options.iterations = 0;  // its own
  PB_TRY(pbTask_RunLoop(s->now, &options, &store, result));
  s->past[s->done] = past_of(s->now, result);

  return pb_ok;
}

// ---- all of them ------------------------------------------------------------------------------------------------------------
// At the first stage, or at the one that was interrupted: where that began its run knows.
static pbStatus begin(Staged *s) {
  pbTask *task = s->task;
  PB_TRY(load_past(s));
  PB_TRY(check_methods(s));
  PB_TRY(open_stage(s, &s->now));
  if (!s->loaded && task->moved) pbTask_Carry(task, task->start, s->now, s->now->start);

  return pb_ok;
}

// To the stage after the one at hand, at its answer; rows of the history go on.
static pbStatus go_on(Staged *s, const double *z) {
  pbTask *next, *before = s->now;
  s->done++;
  pbStatus status = open_stage(s, &next);
  if (status != pb_ok) {
    close_stage(s, next);
    return status;
  }
  pbTask_Carry(before, z, next, next->start);
  next->history = before->history;
  close_stage(s, before);
  s->now = next;

  return pb_ok;
}

static pbStatus run(Staged *s, pbRunResult *result) {
  PB_TRY(begin(s));
  bool resumed = s->loaded != NULL;
  for (;;) {
    pbStatus status = run_stage(s, result);
    if (status != pb_ok && !is_last(s)) result->z = NULL;  // of another task
    result->resumed = resumed;
    PB_TRY(of_stage(s, status));
    if (is_last(s)) break;
    PB_TRY(go_on(s, result->z));
  }

  s->done++;
  tell_stages(s);

  return pb_ok;
}

pbStatus pbTask_RunStages(pbTask *task, const pbRunOptions *options, pbRunResult *result) {
  Staged s = {.task = task, .options = options, .path = options->state_file};
  s.past = pbContext_AllocArray(task->ctx, (size_t)task->stage_count, sizeof *s.past);
  if (!s.past) return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for its stages", task->name);

  // of a run before nothing is left
  for (int k = 0; k < task->stage_count; k++) task->stages[k].run = (pbRunStage){0};
  memcpy(task->own_start, task->start, (size_t)task->n * sizeof(double));
  pbStatus status = run(&s, result);
  if (s.now) close_stage(&s, s.now);
  pbArrays_Destroy(s.loaded);
  pbContext_Free(task->ctx, s.past);

  // the task as it was
  memcpy(task->start, task->own_start, (size_t)task->n * sizeof(double));
  task->before = (pbTaskBefore){0};

  return status;
}
