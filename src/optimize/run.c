// The loop: iterate, look at the stop criteria, tell, keep the state, and go on from a kept one to the same bits.
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/context.h"
#include "optimize/optimizer.h"
#include "optimize/task.h"

double pbTask_Clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- callbacks of the minimiser -------------------------------------------------------------------------------------
// An evaluation that meets the criteria ends the run at once, as an interruption that RunLoop understands.
static pbStatus passed(pbTask *task, pbStatus status) {
  if (status == pb_ok && task->met) return pbContext_Fail(task->ctx, pb_interrupted, "the stop criteria are met");
  return status;
}
static pbStatus value_of(void *user, const double *z, double *value) { return passed(user, pbTask_Loss(user, z, value, NULL)); }
static pbStatus gradient_of(void *user, const double *z, double *value, double *g) {
  return passed(user, pbTask_Loss(user, z, value, g));
}
static pbStatus residuals_of(void *user, const double *z, double *r, double *J) {
  return passed(user, pbTask_Residuals(user, z, r, J));
}

// ---- what is kept ---------------------------------------------------------------------------------------------------
typedef struct Kept {  // doubles only
  double version, key_high, key_low, simulations, evaluations, met, met_value, first_value, seconds, counted, history_count,
      history_stride, reserved[4];
} Kept;
enum { KEPT = sizeof(Kept) / sizeof(double), HISTORY = PB_HISTORY_ROWS * 4 };

typedef struct Loop {
  pbTask *task;
  pbOptimizer *optimizer;
  pbMethod method;
  uint64_t key;
  int iterations;
  double *state;  // of the last whole iteration
  size_t size;
  double saved_at;
} Loop;

static double *write_numbers(double *out, const double *in, size_t count) {
  memcpy(out, in, count * sizeof *in);
  return out + count;
}
static const double *read_numbers(const double *in, double *out, size_t count) {
  memcpy(out, in, count * sizeof *out);
  return in + count;
}

// Copy of all that the run is, after a whole iteration.
static void keep(Loop *l) {
  pbTask *task = l->task;
  Kept kept = {.version = 1,
               .key_high = (double)(l->key >> 32),
               .key_low = (double)(l->key & 0xffffffffu),
               .simulations = (double)task->simulations,
               .evaluations = (double)task->evaluations,
               .met = task->met,
               .met_value = task->met_value,
               .first_value = task->first_value,
               .seconds = pbTask_Clock() - task->clock,
               .counted = task->counted,
               .history_count = task->history.count,
               .history_stride = task->history.stride};
  double *out = write_numbers(l->state, (const double *)&kept, KEPT);

  out = write_numbers(out, task->met_z, (size_t)task->n);
  out = write_numbers(out, task->last_z, (size_t)task->n);
  out = write_numbers(out, &task->history.rows[0][0], HISTORY);
  pbOptimizer_Save(l->optimizer, out);
}

static pbStatus restore(Loop *l, const char *file) {
  pbTask *task = l->task;
  Kept kept;
  const double *in = read_numbers(l->state, (double *)&kept, KEPT);

  if (kept.version != 1 || kept.key_high != (double)(l->key >> 32) || kept.key_low != (double)(l->key & 0xffffffffu))
    return pbContext_Fail(
        task->ctx, pb_bad_input,
        "%.400s: holds a run of %.400s by another method or seed; remove it or optimize with --fresh to begin anew", file,
        task->name);
  if (!(kept.history_count >= 0 && kept.history_count <= PB_HISTORY_ROWS && kept.history_stride >= 1 &&
        kept.history_stride < 1e9))
    return pbContext_Fail(task->ctx, pb_bad_input, "%.400s: is damaged; remove it or optimize with --fresh to begin anew", file);
  task->simulations = (int64_t)kept.simulations;
  task->evaluations = (int64_t)kept.evaluations;
  task->met = kept.met != 0;
  task->met_value = kept.met_value;
  task->first_value = kept.first_value;
  task->clock -= kept.seconds;
  task->counted = kept.counted != 0;
  task->history.count = (int)kept.history_count;
  task->history.stride = (int)kept.history_stride;
  in = read_numbers(in, task->met_z, (size_t)task->n);
  in = read_numbers(in, task->last_z, (size_t)task->n);
  in = read_numbers(in, &task->history.rows[0][0], HISTORY);

  return pbOptimizer_Restore(l->optimizer, in);
}

static pbStatus save(Loop *l, const pbRunStore *store) {
  l->saved_at = pbTask_Clock();
  return store && store->save ? store->save(store->user, l->state, l->size) : pb_ok;
}

// ---- history and news -----------------------------------------------------------------------------------------------
static void note(pbTask *task, const pbIterate *i) {
  pbHistory *h = &task->history;
  if (i->iteration % h->stride != 0) return;
  if (h->count == PB_HISTORY_ROWS) {
    for (int k = 0; 2 * k < h->count; k++) memcpy(h->rows[k], h->rows[2 * k], sizeof h->rows[k]);
    h->count /= 2;
    h->stride *= 2;
    if (i->iteration % h->stride != 0) return;
  }

  double row[4] = {i->iteration, (double)task->simulations, i->best_value, i->gradient_norm};
  memcpy(h->rows[h->count++], row, sizeof row);
}

static int tell(Loop *l) {
  pbTask *task = l->task;
  pbIterate i = pbOptimizer_Get(l->optimizer);
  double seconds = pbTask_Clock() - task->clock;
  double left = i.iteration > 0 ? seconds * (l->iterations - i.iteration) / i.iteration : -1;

  task->now = (pbProgress){
      .phase = "optimize", .done = i.iteration, .total = l->iterations, .seconds = seconds, .left = left, .value = i.best_value};
  return task->progress ? task->progress(task->user, &task->now) : 0;
}

// ---- the loop -------------------------------------------------------------------------------------------------------
static pbStatus interrupted(Loop *l, const pbRunStore *store) {
  PB_TRY(save(l, store));
  return pbContext_Fail(l->task->ctx, pb_interrupted, "%s: interrupted after %d iterations", l->task->name,
                        pbOptimizer_Get(l->optimizer).iteration);
}

static pbStatus iterate(Loop *l, const pbRunStore *store, double save_seconds) {
  pbTask *task = l->task;
  for (;;) {
    pbIterate i = pbOptimizer_Get(l->optimizer);
    if (task->met || i.outcome != pb_running || i.iteration >= l->iterations) return save(l, store);
    if (tell(l)) return interrupted(l, store);
    pbStatus status = pbOptimizer_Iterate(l->optimizer);
    if (status == pb_interrupted && !task->met) return interrupted(l, store);
    if (status != pb_ok && !task->met) return status;
    i = pbOptimizer_Get(l->optimizer);
    note(task, &i);
    keep(l);
    if (pbTask_Clock() - l->saved_at >= save_seconds) PB_TRY(save(l, store));
  }
}

static pbStatus begin(Loop *l, const pbRunOptions *options, const pbRunStore *store, bool *resumed) {
  pbTask *task = l->task;
  pbOptimizerOptions o = task->optimizer;

  if (options->has_seed) o.seed = options->seed;
  char text[200];
  if (options->method && !pbMethod_Find(options->method, &o.method))
    return pbContext_Fail(task->ctx, pb_bad_argument, "%s", pbMethod_Unknown(options->method, text, sizeof text));
  if (o.method == pb_methodGaussNewton && task->m == 0)
    return pbContext_Fail(
        task->ctx, pb_bad_input,
        "%.400s: optimizer.method: gauss-newton needs a loss that is a sum of squares (all terms of type \"squared\" with "
        "weights >= 0); lbfgs takes any",
        task->name);
  l->method = o.method;
  l->iterations = options->iterations > 0 ? options->iterations : task->iterations;
  l->key = o.seed * 0x9e3779b97f4a7c15u + (uint64_t)o.method;
  pbProblem problem = {.n = task->n,
                       .m = task->m,
                       .lower = task->lower,
                       .upper = task->upper,
                       .user = task,
                       .value = value_of,
                       .gradient = gradient_of,
                       .residuals = task->m ? residuals_of : NULL};
  PB_TRY(pbOptimizer_Create(task->ctx, &problem, &o, task->start, &l->optimizer));
  l->size = KEPT + 2 * (size_t)task->n + HISTORY + pbOptimizer_StateSize(l->optimizer);
  if (!(l->state = pbContext_AllocArray(task->ctx, l->size, sizeof(double))))
    return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory to keep the run", task->name);
  *resumed = false;
  if (options->resume && store && store->load) PB_TRY(store->load(store->user, l->state, l->size, resumed));
  if (*resumed) return restore(l, store->name);
  keep(l);

  return pb_ok;
}

static void reset(pbTask *task, const pbRunOptions *options) {
  task->simulations = task->evaluations = 0;
  task->met = task->same = task->counted = false;
  task->watch = true;
  task->first_value = INFINITY;
  task->history.count = 0;
  task->history.stride = 1;
  task->progress = options->progress;
  task->user = options->user;
  task->clock = pbTask_Clock();
}

// What the run came to; at last the loss at the answer again, so that the terms are those of the answer.
static pbStatus conclude(Loop *l, pbRunResult *result) {
  pbTask *task = l->task;
  pbIterate i = pbOptimizer_Get(l->optimizer);

  int64_t simulations = task->simulations, evaluations = task->evaluations;
  result->met = task->met;
  result->iterations = i.iteration;
  result->simulations = simulations;
  result->gradients = i.gradients + i.jacobians;
  result->loss = task->met ? task->met_value : l->iterations ? i.best_value : task->first_value;
  result->start_loss = task->first_value;
  result->seconds = pbTask_Clock() - task->clock;
  memcpy(task->result_z, task->met ? task->met_z : i.best, (size_t)task->n * sizeof(double));
  result->z = task->result_z;
  if (!isfinite(result->loss))
    return pbContext_Fail(task->ctx, pb_no_convergence,
                          "%.400s: no point could be evaluated, not even the start; the last one: %s", task->name,
                          pbContext_Error(task->ctx));
  pbStatus status = pb_ok;

  if (task->confirm > 1) {
    status = pbTask_Confirm(task, task->result_z, &result->confirm_loss, &result->confirm_timestep);
    result->confirmed_run = status == pb_ok;
    if (status == pb_not_finite || status == pb_no_convergence || status == pb_singular)
      status = pb_ok;  // reported as not confirmed
  }

  if (status == pb_ok) status = pbTask_Judge(task, i.outcome == pb_running);
  result->outcome = task->verdict.outcome;
  result->reason = task->verdict.reason;
  result->advice = task->verdict.advice;
  result->notes = task->verdict.notes;
  double loss;
  if (status == pb_ok) status = pbTask_Loss(task, task->result_z, &loss, NULL);
  task->simulations = simulations;
  task->evaluations = evaluations;

  return status;
}

pbStatus pbTask_RunLoop(pbTask *task, const pbRunOptions *options, const pbRunStore *store, pbRunResult *result) {
  Loop loop = {.task = task};
  *result = (pbRunResult){0};
  reset(task, options);
  pbStatus status = begin(&loop, options, store, &result->resumed);
  loop.saved_at = pbTask_Clock();
  if (status == pb_ok) status = iterate(&loop, store, options->save_seconds > 0 ? options->save_seconds : 1);

  if (status == pb_ok && loop.iterations == 0) {  // nothing to look for: the start is the answer
    double value;
    status = pbTask_Loss(task, pbOptimizer_Get(loop.optimizer).best, &value, NULL);
  }

  task->watch = false;
  if (status == pb_ok) status = conclude(&loop, result);
  pbOptimizer_Destroy(loop.optimizer);
  pbContext_Free(task->ctx, loop.state);
  task->progress = NULL;

  return status;
}
