// Several starts of one task: searches side by side on the threads of its pool, each with a task of its own, and one state file
// for all. The best of them becomes the task's result.
// Tests: tests/unit/test_starts.c, tests/oracle/test_going_on.py.
#include <math.h>
#include <pthread.h>
#include <string.h>

#include <pullback/random.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/pool.h"
#include "io/task/task_reader.h"

// What the searches have come to: the state of the last iteration of each, written together.
typedef struct Kept {
  pthread_mutex_t lock;
  pbContext *ctx;
  const char *path, *made_from;  // path NULL: nothing is written
  double every, written_at;
  int count;
  size_t size;     // of a state; 0: none is known yet
  double *states;  // count x size
  bool *found;
} Kept;

typedef struct Searches {
  pbTask *task;
  const pbRunOptions *options;
  Kept kept;
  pbTaskStart *starts;
  atomic_int stopped, done;
  double began;
} Searches;

typedef struct One {  // of a search
  Searches *all;
  int number, worker;
} One;

// ---- states -----------------------------------------------------------------------------------------------------------
static pbStatus room_for(Kept *k, size_t size) {
  if (k->size) return pb_ok;
  k->states = pbContext_AllocArray(k->ctx, (size_t)k->count * size + 1, sizeof(double));
  if (!k->states) return pbContext_Fail(k->ctx, pb_no_memory, "no memory to keep %d searches", k->count);
  k->size = size;
  return pb_ok;
}

static const char *array_name(int i, char name[40]) {
  snprintf(name, 40, "start/%d", i);
  return name;
}

static pbStatus write_states(Kept *k) {
  pbArrays *set;
  char name[40];
  if (!k->path) return pb_ok;
  PB_TRY(pbArrays_Create(k->ctx, &set));

  pbStatus status = pb_ok;
  for (int i = 0; status == pb_ok && i < k->count; i++) {
    if (k->found[i]) status = pbArrays_AddReals(set, array_name(i, name), 1, &k->size, k->states + (size_t)i * k->size, NULL);
  }
  if (status == pb_ok) status = pbState_Save(k->path, k->made_from, set);
  k->written_at = pb_seconds();
  pbArrays_Destroy(set);

  return status;
}

static pbStatus read_states(Kept *k) {
  pbArrays *set;
  char name[40];
  PB_TRY(pbState_Load(k->ctx, k->path, k->made_from, &set));
  if (!set) return pb_ok;

  pbStatus status = pb_ok;
  for (int i = 0; status == pb_ok && i < k->count; i++) {
    const pbArray *a = pbArrays_Find(set, array_name(i, name));
    if (!a) continue;
    if (a->type != pb_arrayReal || !a->count || (k->size && a->count != k->size))
      status = pbState_Refuse(k->ctx, k->path, "is damaged");
    if (status == pb_ok) status = room_for(k, a->count);
    if (status != pb_ok) continue;
    memcpy(k->states + (size_t)i * k->size, a->reals, k->size * sizeof(double));
    k->found[i] = true;
  }
  pbArrays_Destroy(set);

  return status;
}

// Called from the threads of the searches.
static pbStatus load_one(void *user, double *state, size_t count, bool *found) {
  One *one = user;
  Kept *k = &one->all->kept;
  *found = k->found[one->number] && k->size == count;
  if (*found) memcpy(state, k->states + (size_t)one->number * count, count * sizeof *state);
  if (k->found[one->number] && !*found) return pbState_Refuse(k->ctx, k->path ? k->path : "", "is of another run");
  return pb_ok;
}

static pbStatus save_one(void *user, const double *state, size_t count) {
  One *one = user;
  Kept *k = &one->all->kept;
  pthread_mutex_lock(&k->lock);
  pbStatus status = room_for(k, count);
  PB_ASSERT(status != pb_ok || k->size == count);
  if (status == pb_ok) memcpy(k->states + (size_t)one->number * count, state, count * sizeof *state);
  if (status == pb_ok) k->found[one->number] = true;
  if (status == pb_ok && pb_seconds() - k->written_at >= k->every) status = write_states(k);
  pthread_mutex_unlock(&k->lock);

  return status;
}

// ---- one search ---------------------------------------------------------------------------------------------------------
// Whoever asked for the searches is told on his own thread.
static void ask_caller(void *user) {
  Searches *all = user;
  pbProgress now = {.phase = "starts",
                    .done = atomic_load(&all->done),
                    .total = all->kept.count,
                    .seconds = pb_seconds() - all->began,
                    .left = -1,
                    .value = NAN};
  if (all->options->progress && all->options->progress(all->options->user, &now)) atomic_store(&all->stopped, 1);
}

static int may_go_on(void *user, const pbProgress *progress) {
  const One *one = user;
  (void)progress;
  if (one->worker == 0) ask_caller(one->all);
  return atomic_load(&one->all->stopped);
}

// Between bounds on both sides, else about the task's own; the first start is that.
static void draw_start(const pbTask *task, uint64_t seed, int number, double *z) {
  int n = number ? task->n : 0;
  for (int i = 0; i < n; i++) {
    bool bounded = isfinite(task->lower[i]) && isfinite(task->upper[i]);
    double first = bounded ? task->lower[i] : z[i], second = bounded ? task->upper[i] : task->start_spread * (1 + fabs(z[i])),
           drawn;
    const pbDraw draw = {.law = bounded ? pb_drawUniform : pb_drawNormal, .count = 1, .first = &first, .second = &second};
    pbDraw_Numbers(&draw, (const uint64_t[]){seed, (uint64_t)number, (uint64_t)i, 0x7374617274}, &drawn);
    z[i] = fmin(fmax(drawn, task->lower[i]), task->upper[i]);
  }
}

static uint64_t seed_of(const Searches *all) { return all->options->has_seed ? all->options->seed : all->task->optimizer.seed; }

void pbTask_ShareFunctions(const pbTask *from, pbTask *to) {
  for (int t = 0; t < from->trajectory_count; t++) {
    const pbTermSet *set = &from->trajectories[t].terms;
    for (int i = 0; i < set->count; i++) {
      const pbHosted *hosted = set->terms[i].hosted;
      if (hosted) pbTask_OnFunction(to, hosted->call, hosted->user);
    }
  }
}

static pbStatus search(One *one, pbContext *ctx, pbTask **made, pbRunResult *result) {
  Searches *all = one->all;
  PB_TRY(pbTask_Again(ctx, all->task, 0, made));
  pbTask *task = *made;
  pbTask_ShareFunctions(all->task, task);
  draw_start(task, seed_of(all), one->number, task->start);

  // Its own verdict is enough: the certificates are those of the best.
  pbRunOptions options = *all->options;
  options.progress = may_go_on;
  options.user = one;
  options.save_seconds = 1e-9;
  const pbRunStore store = {one, all->kept.path ? all->kept.path : "", load_one, save_one};
  task->uncertain = false;

  return pbTask_RunLoop(task, &options, &store, result);
}

static void *take(void *user, size_t size) { return pbContext_Alloc(user, size); }
static void *resize(void *user, void *memory, size_t size) { return pbContext_Resize(user, memory, size); }
static void release(void *user, void *memory) { pbContext_Free(user, memory); }

static void search_task(void *user, int number, int worker) {
  Searches *all = user;
  pbTaskStart *s = &all->starts[number];
  One one = {all, number, worker};
  pbTask *task = NULL;
  pbRunResult result = {0};

  // one that has not begun waits for the next life
  if (atomic_load(&all->stopped)) {
    s->status = pb_interrupted;
    return;
  }

  pbContext *ctx = pbContext_Create(&(pbAllocator){take, resize, release, all->task->ctx});
  s->status = ctx ? search(&one, ctx, &task, &result) : pb_no_memory;

  // what it came to, or why to nothing
  s->loss = result.z ? result.loss : INFINITY;
  s->start_loss = result.start_loss;
  s->outcome = result.outcome;
  s->iterations = result.iterations;
  s->simulations = result.simulations;
  if (result.z) memcpy(s->z, result.z, (size_t)task->n * sizeof *s->z);
  if (s->status != pb_ok)
    snprintf(s->why, sizeof s->why, "%s", pbContext_Error(ctx && *pbContext_Error(ctx) ? ctx : all->task->ctx));

  // memory that is short is so for all; on the way out of it a search may have been told to stop, too
  if (s->status == pb_no_memory) {
    snprintf(s->why, sizeof s->why, "%.80s: no memory for search %d of %d", all->task->name, number + 1, all->kept.count);
    atomic_store(&all->stopped, 1);
  }
  atomic_fetch_add(&all->done, 1);

  pbTask_Destroy(task);
  pbContext_Destroy(ctx);
}

// ---- all of them ------------------------------------------------------------------------------------------------------
static pbStatus set_up(Searches *all) {
  pbTask *task = all->task;
  size_t count = (size_t)task->start_count, n = (size_t)task->n;
  pbTask_FreeStarts(task);
  task->starts = all->starts = pbContext_AllocArray(task->ctx, count, sizeof *task->starts);
  all->kept.found = pbContext_AllocArray(task->ctx, count, sizeof *all->kept.found);
  double *z = pbContext_AllocArray(task->ctx, count * n + 1, sizeof *z);
  if (all->starts) all->starts[0].z = z;
  if (!all->starts || !all->kept.found || !z) {
    if (!all->starts) pbContext_Free(task->ctx, z);
    return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for %zu starts", task->name, count);
  }

  for (size_t k = 0; k < count; k++) all->starts[k].z = z + k * n;
  return pb_ok;
}

// The one of least loss, the first of several; -1: none has one. An error that is no property of a start ends all.
static pbStatus choose_best(const Searches *all, int *best) {
  *best = -1;
  for (int k = 0; k < all->kept.count; k++) {
    const pbTaskStart *s = &all->starts[k];
    if (s->status == pb_no_memory || s->status == pb_file) return pbContext_Fail(all->task->ctx, s->status, "%s", s->why);
    if (isfinite(s->loss) && (*best < 0 || s->loss < all->starts[*best].loss)) *best = k;
  }
  if (atomic_load(&all->stopped)) return pb_interrupted;
  if (*best >= 0) return pb_ok;
  return pbContext_Fail(all->task->ctx, all->starts[0].status == pb_ok ? pb_no_convergence : all->starts[0].status,
                        "%s: none of %d starts could be evaluated: %s", all->task->name, all->kept.count, all->starts[0].why);
}

static pbStatus run(Searches *all, pbRunResult *result) {
  pbTask *task = all->task;
  const pbRunOptions *options = all->options;
  PB_TRY(set_up(all));
  if (options->resume && options->state_file) PB_TRY(read_states(&all->kept));
  result->resumed = all->kept.size > 0;

  pbPool_WhileWaiting(task->pool, ask_caller, all);
  pbPool_Run(task->pool, all->kept.count, search_task, all);
  pbPool_WhileWaiting(task->pool, NULL, NULL);

  // what is done is kept, whatever comes
  int best;
  pbStatus chosen = choose_best(all, &best);
  if (chosen == pb_interrupted) PB_TRY(write_states(&all->kept));
  PB_TRY(chosen);

  // the task itself goes on from the last iteration of the best, which ends as it did
  One one = {all, best, 0};
  pbRunOptions again = *options;
  const pbRunStore store = {&one, all->kept.path ? all->kept.path : "", load_one, save_one};
  again.resume = true;
  bool resumed = result->resumed;
  memcpy(task->own_start, task->start, (size_t)task->n * sizeof(double));
  draw_start(task, seed_of(all), best, task->start);
  pbStatus status = pbTask_RunLoop(task, &again, &store, result);
  memcpy(task->start, task->own_start, (size_t)task->n * sizeof(double));
  result->resumed = resumed;
  result->best_start = best;

  return status;
}

pbStatus pbTask_RunStarts(pbTask *task, const pbRunOptions *options, pbRunResult *result) {
  Searches all = {.task = task, .options = options, .began = pb_seconds()};
  all.kept = (Kept){.ctx = task->ctx,
                    .path = options->state_file,
                    .made_from = task->made_from,
                    .every = options->save_seconds > 0 ? options->save_seconds : 1,
                    .written_at = pb_seconds(),
                    .count = task->start_count};
  *result = (pbRunResult){.test_loss = NAN};
  if (pthread_mutex_init(&all.kept.lock, NULL) != 0)
    return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for a lock", task->name);

  pbStatus status = run(&all, result);
  pthread_mutex_destroy(&all.kept.lock);
  pbContext_Free(task->ctx, all.kept.states);
  pbContext_Free(task->ctx, all.kept.found);

  return status;
}

// ---- what they say ------------------------------------------------------------------------------------------------------
int pbTask_StartsAgree(const pbTask *task, double *spread) {
  int count = 0;
  double best = INFINITY;
  if (!task->starts) return 0;
  for (int k = 0; k < task->start_count; k++) best = fmin(best, task->starts[k].loss);

  // of a loss of nothing only rounding is left
  double within = best + 0.01 * fabs(best) + 1e-9 * fabs(task->starts[0].start_loss - best);
  for (int i = 0; i < task->n; i++) {
    double least = INFINITY, most = -INFINITY;
    count = 0;
    for (int k = 0; k < task->start_count; k++) {
      char name[256];
      double value;
      if (!(task->starts[k].loss <= within)) continue;
      pbTask_Unknown(task, i, task->starts[k].z, name, sizeof name, &value);
      least = fmin(least, value);
      most = fmax(most, value);
      count++;
    }
    if (spread) spread[i] = most - least;
  }

  return count;
}
