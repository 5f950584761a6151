// The loop: iterate, check the stop criteria, report, save the state, and go on from a saved one to the same bits.
// Tests: tests/unit/test_task.c, tests/oracle/test_task_run.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/context.h"
#include "optimize/answer.h"
#include "optimize/products.h"
#include "optimize/shoot.h"
#include "optimize/sweep.h"

typedef struct Loop {
  pbTask *task;
  pbOptimizer *optimizer;
  pbTaskSweep *sweep;        // NULL: Gauss-Newton by a matrix, or another method
  pbTaskShooting *shooting;  // of iLQR
  pbTaskProducts *products;  // of Newton-CG; NULL: of differences
  pbMethod method;
  uint64_t key;
  int iterations;
  double *state;  // of the last whole iteration
  size_t size;
  double saved_at;
  bool judged;  // the verdict is of the answer
  bool constrained;
  double gap;        // the largest that is still open; 0: none
  int since, stuck;  // iterations since constraints were last looked at, looks that came to nothing
  int left;          // given states that it began with
} Loop;
enum { left_none, left_open, left_above };  // where gaps stayed open, or closed above the loss of the start

// ---- callbacks of the minimizer -------------------------------------------------------------------------------------
// An evaluation that meets the criteria ends the run at once, as an interruption that RunLoop understands.
static pbStatus stop_if_met(pbTask *task, pbStatus status) {
  if (status == pb_ok && task->met) return pbContext_Fail(task->ctx, pb_interrupted, "the stop criteria are met");
  return status;
}

static pbStatus value_of(void *user, const double *z, double *value) {
  return stop_if_met(user, pbTask_Loss(user, z, value, NULL));
}

static pbStatus gradient_of(void *user, const double *z, double *value, double *g) {
  return stop_if_met(user, pbTask_Loss(user, z, value, g));
}

static pbStatus residuals_of(void *user, const double *z, double *r, double *J) {
  return stop_if_met(user, pbTask_Residuals(user, z, r, J));
}

// Of a loop that has a sweep.
static pbStatus linearize_of(void *user, const double *z, double *r, double *g, double *diagonal) {
  Loop *l = user;
  const pbTaskTaker taker = pbTaskSweep_Taker(l->sweep);
  double value;
  PB_TRY(stop_if_met(l->task, pbTask_Linearize(l->task, z, &value, r, &taker)));
  pbTaskSweep_Look(l->sweep, g, diagonal);

  return pb_ok;
}

static bool solve_of(void *user, double lambda, const double *D, const bool *held, double *p) {
  return pbTaskSweep_Solve(((Loop *)user)->sweep, lambda, D, held, p);
}

static double squared_of(void *user, const double *p) { return pbTaskSweep_Squared(((Loop *)user)->sweep, p); }

// Of a loop that shoots.
static pbStatus linearize_loss_of(void *user, const double *z, double *value, double *g) {
  Loop *l = user;
  return stop_if_met(l->task, pbTaskShooting_Linearize(l->shooting, z, value, g));
}

static bool plan_of(void *user, const double *z, double lambda, double *moves, double *linear, double *quadratic) {
  return pbTaskShooting_Plan(((Loop *)user)->shooting, z, lambda, moves, linear, quadratic);
}

static pbStatus try_of(void *user, const double *z, double alpha, double *trial, double *value) {
  Loop *l = user;
  return stop_if_met(l->task, pbTaskShooting_Try(l->shooting, z, alpha, trial, value));
}

static pbStatus measure_of(void *user, const double *z, double *gaps) {
  return pbTaskShooting_MeasureGaps(((Loop *)user)->shooting, z, gaps);
}

static void use_of(void *user, const double *gaps) { pbTaskShooting_UseGaps(((Loop *)user)->shooting, gaps); }

// ---- the saved state ------------------------------------------------------------------------------------------------
typedef struct Saved {  // doubles only
  double version, key_high, key_low, simulations, evaluations, met, met_value, first_value, seconds, counted, history_count,
      history_stride, since, stuck, left, reserved[1];
} Saved;
enum { SAVED = sizeof(Saved) / sizeof(double), HISTORY = PB_HISTORY_ROWS * 4 };

static double *write_numbers(double *out, const double *in, size_t count) {
  memcpy(out, in, count * sizeof *in);
  return out + count;
}

static const double *read_numbers(const double *in, double *out, size_t count) {
  memcpy(out, in, count * sizeof *out);
  return in + count;
}

// Copy of all that the run is, after a whole iteration.
static void copy_state(Loop *l) {
  pbTask *task = l->task;
  Saved saved = {.version = 1,
                 .key_high = (double)(l->key >> 32),
                 .key_low = (double)(l->key & 0xffffffffu),
                 .simulations = (double)task->simulations,
                 .evaluations = (double)task->evaluations,
                 .met = task->met,
                 .met_value = task->met_value,
                 .first_value = task->first_value,
                 .seconds = pb_seconds() - task->clock,
                 .counted = task->counted,
                 .history_count = task->history.count,
                 .history_stride = task->history.stride,
                 .since = l->since,
                 .stuck = l->stuck,
                 .left = l->left};
  double *out = write_numbers(l->state, (const double *)&saved, SAVED);

  // In the order that restore_state reads.
  out = write_numbers(out, task->met_z, (size_t)task->n);
  out = write_numbers(out, task->last_z, (size_t)task->n);
  out = write_numbers(out, &task->history.rows[0][0], HISTORY);
  pbTask_SaveMultipliers(task, out);
  out += pbTask_MultiplierNumbers(task);
  pbOptimizer_Save(l->optimizer, out);
  PB_ASSERT(out + pbOptimizer_StateSize(l->optimizer) == l->state + l->size);
}

static pbStatus restore_state(Loop *l, const char *file) {
  pbTask *task = l->task;
  Saved saved;
  const double *in = read_numbers(l->state, (double *)&saved, SAVED);

  // The key: a run by another method or seed would go on to other bits.
  if (saved.version != 1 || saved.key_high != (double)(l->key >> 32) || saved.key_low != (double)(l->key & 0xffffffffu))
    return pbContext_Fail(
        task->ctx, pb_bad_input,
        "%.400s: holds a run of %.400s by another method or seed; remove it or optimize with --fresh to begin anew", file,
        task->name);

  bool history = saved.history_count >= 0 && saved.history_count <= PB_HISTORY_ROWS;
  if (!(history && saved.history_stride >= 1 && saved.history_stride < 1e9))
    return pbContext_Fail(task->ctx, pb_bad_input, "%.400s: is damaged; remove it or optimize with --fresh to begin anew", file);

  // Counts and times go on from where they were.
  task->simulations = (int64_t)saved.simulations;
  task->evaluations = (int64_t)saved.evaluations;
  task->met = saved.met != 0;
  task->met_value = saved.met_value;
  task->first_value = saved.first_value;
  task->clock = pb_seconds() - saved.seconds;
  task->counted = saved.counted != 0;
  task->history.count = (int)saved.history_count;
  task->history.stride = (int)saved.history_stride;

  in = read_numbers(in, task->met_z, (size_t)task->n);
  in = read_numbers(in, task->last_z, (size_t)task->n);
  in = read_numbers(in, &task->history.rows[0][0], HISTORY);
  pbTask_LoadMultipliers(task, in);
  l->since = (int)saved.since;
  l->stuck = (int)saved.stuck;
  l->left = saved.left == left_open || saved.left == left_above ? (int)saved.left : left_none;

  return pbOptimizer_Restore(l->optimizer, in + pbTask_MultiplierNumbers(task));
}

static pbStatus save_state(Loop *l, const pbRunStore *store) {
  l->saved_at = pb_seconds();
  return store && store->save ? store->save(store->user, l->state, l->size) : pb_ok;
}

// ---- history and news -----------------------------------------------------------------------------------------------
// A row for every `stride` iterations; when the table is full, every second row goes and the stride doubles.
static void note_iteration(pbTask *task, const pbIterate *i) {
  pbHistory *h = &task->history;
  PB_ASSERT(h->stride >= 1 && h->count >= 0 && h->count <= PB_HISTORY_ROWS);
  int iteration = task->before.iterations + i->iteration;
  if (iteration % h->stride != 0) return;

  if (h->count == PB_HISTORY_ROWS) {
    for (int k = 0; 2 * k < h->count; k++) memcpy(h->rows[k], h->rows[2 * k], sizeof h->rows[k]);
    h->count /= 2;
    h->stride *= 2;
    if (iteration % h->stride != 0) return;
  }

  // Columns of pbHistory.
  double row[4] = {iteration, (double)task->simulations, i->best_value, i->gradient_norm};
  memcpy(h->rows[h->count++], row, sizeof row);
}

static int report_progress(Loop *l) {
  pbTask *task = l->task;
  pbIterate i = pbOptimizer_Get(l->optimizer);
  double seconds = pb_seconds() - task->clock;
  double left = i.iteration > 0 ? seconds * (l->iterations - i.iteration) / i.iteration : -1;

  // The rollouts report with this until the next iteration.
  task->now = (pbProgress){
      .phase = task->phase, .done = i.iteration, .total = l->iterations, .seconds = seconds, .left = left, .value = i.best_value};

  return task->progress ? task->progress(task->user, &task->now) : 0;
}

// ---- the loop -------------------------------------------------------------------------------------------------------
static pbStatus interrupted(Loop *l, const pbRunStore *store) {
  PB_TRY(save_state(l, store));
  return pbContext_Fail(l->task->ctx, pb_interrupted, "%s: interrupted after %d iterations", l->task->name,
                        pbOptimizer_Get(l->optimizer).iteration);
}

// An iteration that could not be finished: what was kept before it stays, in the file, too.
static pbStatus failed(Loop *l, const pbRunStore *store, pbStatus status) {
  char why[1000];
  snprintf(why, sizeof why, "%s", pbContext_Error(l->task->ctx));
  pbStatus saved = save_state(l, store);
  return pbContext_Fail(l->task->ctx, status, "%s%s", why, saved == pb_ok ? "" : "; nor could the run be saved");
}

enum { most_between = 10, most_stuck = 12 };  // iterations of a search, looks at constraints

static pbStatus run_iterations(Loop *l, const pbRunStore *store, double save_seconds) {
  pbTask *task = l->task;
  for (;;) {
    // A whole iteration: what is saved is always the end of one.
    pbIterate i = pbOptimizer_Get(l->optimizer);
    bool open = pbOptimizer_HasGaps(l->optimizer, &l->gap);
    if (task->met || i.outcome != pb_running || i.iteration >= l->iterations) return save_state(l, store);
    if (l->constrained && !open && l->since >= most_between) return pb_ok;
    if (report_progress(l)) return interrupted(l, store);

    // Its own draws; the same again where it is begun anew after an interruption.
    if (task->sample.fresh) task->sample.iteration = i.iteration + 1;

    // Criteria that are met end an iteration as an interruption does: that is not one.
    pbStatus status = pbOptimizer_Iterate(l->optimizer);
    if (status == pb_interrupted && !task->met) return interrupted(l, store);
    if (status != pb_ok && !task->met) return failed(l, store, status);

    i = pbOptimizer_Get(l->optimizer);
    l->since++;
    note_iteration(task, &i);
    copy_state(l);
    if (pb_seconds() - l->saved_at >= save_seconds) PB_TRY(save_state(l, store));
  }
}

static pbStatus choose_method(Loop *l, const pbRunOptions *options, pbOptimizerOptions *o) {
  pbTask *task = l->task;
  char text[200];
  if (options->has_seed) o->seed = options->seed;
  if (options->method && !pbMethod_Find(options->method, &o->method))
    return pbContext_Fail(task->ctx, pb_bad_argument, "%s", pbMethod_Unknown(options->method, text, sizeof text));
  PB_TRY(pbTask_CheckMethod(task, options->method));
  PB_TRY(pbTask_CheckStates(task, o->method));

  l->method = o->method;
  task->has_gains = o->method == pb_methodIlqr;
  task->sample.seed = o->seed;
  task->sample.fresh = pbTask_Sampled(task) && (o->method == pb_methodAdam || o->method == pb_methodEs);
  l->key = o->seed * 0x9e3779b97f4a7c15u + (uint64_t)o->method;

  return pb_ok;
}

// How Gauss-Newton's linear problem is solved, by the task alone: the bits of a run depend on it.
static pbStatus choose_sweep(Loop *l) {
  pbTask *task = l->task;
  PB_ASSERT(!l->sweep);
  if (l->method != pb_methodGaussNewton || task->jacobian == pb_jacobianDense) return pb_ok;

  const char *why = pbTaskSweep_WhyNot(task);
  if (why || (task->jacobian == pb_jacobianAuto && !pbTaskSweep_Pays(task))) return pb_ok;

  return pbTaskSweep_Create(task, &l->sweep);
}

static size_t count_gaps(const Loop *l) {
  return l->shooting && pbTask_Begins(l->task) ? pbTaskShooting_GapNumbers(l->shooting) : 0;
}

static pbStatus begin_loop(Loop *l, const pbRunOptions *options, const pbRunStore *store, bool *resumed) {
  pbTask *task = l->task;
  pbOptimizerOptions o = task->optimizer;
  PB_TRY(choose_method(l, options, &o));
  l->iterations = options->iterations > 0 ? options->iterations : task->iterations;

  // The optimizer sees the task through these functions only.
  pbProblem problem = {.n = task->n,
                       .m = task->m,
                       .lower = task->lower,
                       .upper = task->upper,
                       .user = task,
                       .value = value_of,
                       .gradient = gradient_of,
                       .residuals = task->m ? residuals_of : NULL};
  const pbNormal normal = {l, linearize_of, solve_of, squared_of};
  PB_TRY(choose_sweep(l));
  if (l->method == pb_methodIlqr) PB_TRY(pbTaskShooting_Create(task, &l->shooting));
  const pbShooting shooting = {.user = l,
                               .linearize = linearize_loss_of,
                               .plan = plan_of,
                               .attempt = try_of,
                               .gap_numbers = count_gaps(l),
                               .measure = measure_of,
                               .use = use_of};
  if (l->method == pb_methodNewtonCg) PB_TRY(pbTaskProducts_Serve(task, &problem, &l->products));
  const pbStructure structure = {l->sweep ? &normal : NULL, l->shooting ? &shooting : NULL};
  PB_TRY(pbOptimizer_CreateWith(task->ctx, &problem, &structure, &o, task->start, &l->optimizer));

  // What is saved: this loop's numbers, two points, the history, the optimizer's state.
  l->constrained = pbTask_IsConstrained(task);
  l->size = SAVED + 2 * (size_t)task->n + HISTORY + pbTask_MultiplierNumbers(task) + pbOptimizer_StateSize(l->optimizer);
  l->state = pbContext_AllocArray(task->ctx, l->size, sizeof(double));
  if (!l->state) return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory to keep the run", task->name);

  // A saved run of this task is continued; the first save is then of the state as loaded.
  *resumed = false;
  if (options->resume && store && store->load) PB_TRY(store->load(store->user, l->state, l->size, resumed));
  if (*resumed) return restore_state(l, store->name);
  copy_state(l);

  return pb_ok;
}

static void reset_task(pbTask *task, const pbRunOptions *options) {
  task->simulations = task->before.simulations;
  task->evaluations = 0;
  task->met = false;
  task->same = false;
  task->counted = false;
  task->watch = true;
  task->first_value = INFINITY;
  if (!task->before.iterations) task->history = (pbHistory){.stride = 1};
  task->progress = options->progress;
  task->user = options->user;
  task->clock = pb_seconds() - task->before.seconds;
  pbTask_ClearMultipliers(task);
  pbTask_ForgetMultipliers(task);
}

static void write_result(const Loop *l, const pbIterate *i, pbRunResult *result) {
  pbTask *task = l->task;
  result->met = task->met;
  result->iterations = task->before.iterations + i->iteration;
  result->simulations = task->simulations;
  result->gradients = task->before.gradients + i->gradients + i->jacobians;
  result->products = task->before.products + i->products;
  result->differences = task->before.differences + i->differences;
  result->inexact = pbTask_WhyInexact(task, l->products, i->differences);
  if (task->met) result->loss = task->met_value;
  else result->loss = l->iterations ? i->best_value : task->first_value;
  result->start_loss = task->first_value;
  result->seconds = pb_seconds() - task->clock;

  // Among draws that change the least value is a lucky one: the last point is the answer.
  const double *best = task->sample.fresh ? i->x : i->best;
  memcpy(task->result_z, task->met ? task->met_z : best, (size_t)task->n * sizeof(double));
  result->z = task->result_z;
}

static void tell_verdict(const Loop *l, pbRunResult *result) {
  const pbVerdict *v = &l->task->verdict;
  result->left = l->task->before.left + pbOptimizer_Left(l->optimizer);
  result->direction = v->outcome == pb_runSaddle ? v->direction : NULL;
  result->outcome = v->outcome;
  result->reason = v->reason;
  result->advice = v->advice;
  result->notes = v->notes;
}

static void find_no_noise(pbRunResult *result) {
  result->noise = (pbNoise){.time = INFINITY, .step = -1, .window = INFINITY};
  result->noise_trajectory = -1;
}

// Of gradients that the search went by; where it found what it was to find nobody asks.
static pbStatus look_for_noise(const Loop *l, pbRunResult *result) {
  pbTask *task = l->task;
  bool by_gradients = l->method == pb_methodAdam || l->method == pb_methodLbfgs || l->method == pb_methodGaussNewton ||
                      l->method == pb_methodIlqr || l->method == pb_methodNewtonCg;
  find_no_noise(result);
  if (pbOptimizer_HasNothingToGain(l->optimizer)) return pb_ok;  // a plan's feedback says so, whatever gradients are
  if (!by_gradients || result->met || task->verdict.outcome == pb_runNoInfluence || pbTask_IsTruncated(task)) return pb_ok;

  return pbTask_Noise(task, task->result_z, &result->noise, &result->noise_trajectory);
}

// The verdict was of the loss with multipliers, which are none of the answer's; then the answer has constraints that are met,
// or not.
static void tell_constraints(const Loop *l) {
  const pbTerm *worst = pbTask_WorstConstraint(l->task);

  // of the answer, without multipliers
  pbVerdict *v = &l->task->verdict;
  if (!worst) return;

  if (v->outcome != pb_runIterationLimit) v->outcome = pb_runStalled;
  snprintf(v->reason, sizeof v->reason, "constraint '%.100s' is off by %.3g, more than %.3g", worst->name, worst->deviation,
           worst->constraint->tolerance);
}

// Gaps that have not closed: the answer is the start as it runs, which nobody has looked at.
static void tell_gaps(const Loop *l) {
  pbVerdict *v = &l->task->verdict;
  if (!(l->gap > 0) || l->task->met) return;

  if (v->outcome != pb_runIterationLimit) v->outcome = pb_runStalled;
  snprintf(v->reason, sizeof v->reason,
           "the given states have become no run: gaps between them are open, the largest %.3g; the answer is the start", l->gap);
}

// A search that went on without its states.
static void tell_left(const Loop *l) {
  pbVerdict *v = &l->task->verdict;
  size_t used = strlen(v->reason);
  if (!l->left || !used) return;

  snprintf(v->reason + used, sizeof v->reason - used, "; %s, and the search went on from the start as it runs",
           l->left == left_open ? "the given states became no run" : "the given states led to no run better than the start");
}

// Along a motion that is unstable gradients by single controls are noise where the plan's feedback still tells what is to gain.
static void tell_promise(const Loop *l) {
  pbVerdict *v = &l->task->verdict;
  if (v->outcome != pb_runStalled || !pbOptimizer_HasNothingToGain(l->optimizer)) return;

  v->outcome = pb_runConverged;
  snprintf(v->reason, sizeof v->reason, "a whole plan, with its feedback, promises less than rounding of the loss");
}

// Why it ended, and what else is to be known. Of a stage that others follow nobody asks more than how far it came.
static pbStatus say_why(Loop *l, bool used_up, pbRunResult *result) {
  pbTask *task = l->task;
  find_no_noise(result);
  if (task->passing && (used_up || task->met)) {
    task->verdict.outcome = task->met ? pb_runCriteriaMet : pb_runIterationLimit;
    return pb_ok;
  }

  if (!l->judged) PB_TRY(pbTask_Judge(task, used_up));
  tell_promise(l);
  tell_gaps(l);

  return task->passing ? pb_ok : look_for_noise(l, result);
}

// What the run came to; at last the loss at the answer again, so that the terms are those of the answer.
static pbStatus conclude_run(Loop *l, pbRunResult *result) {
  pbTask *task = l->task;
  pbIterate i = pbOptimizer_Get(l->optimizer);
  int64_t simulations = task->simulations, evaluations = task->evaluations;
  task->sample.iteration = 0;
  write_result(l, &i, result);
  PB_TRY(pbAnswer_Evaluate(task, result));
  if (!isfinite(result->loss) && l->gap > 0)
    return pbContext_Fail(task->ctx, pb_no_convergence,
                          "%.400s: the start cannot be run, and its states have become no run: gaps between them are open, the "
                          "largest %.3g",
                          task->name, l->gap);
  if (!isfinite(result->loss))
    return pbContext_Fail(task->ctx, pb_no_convergence,
                          "%.400s: no point could be evaluated, not even the start; the last one: %s", task->name,
                          pbContext_Error(task->ctx));

  pbStatus status = say_why(l, i.outcome == pb_running, result);

  // Evaluations made here are none of the run's. Constraints that are met add nothing to the loss.
  double loss;
  if (status == pb_ok && l->constrained) {
    status = pbTask_Loss(task, task->result_z, &loss, NULL);
    if (status == pb_ok) pbTask_KeepMultipliers(task);
  }
  if (l->constrained) pbTask_ClearMultipliers(task);
  if (status == pb_ok && !task->passing) status = pbAnswer_Confirm(task, result);
  if (status == pb_ok) status = pbTask_Loss(task, task->result_z, &loss, NULL);
  if (status == pb_ok && l->constrained) result->loss = loss;
  if (status == pb_ok && l->constrained) tell_constraints(l);
  tell_left(l);
  tell_verdict(l, result);
  if (status == pb_ok && !task->passing) status = pbAnswer_Test(task, result);
  if (status == pb_ok && task->uncertain && !task->passing) status = pbAnswer_LookHowSure(task, result);
  task->simulations = simulations;
  task->evaluations = evaluations;

  return status;
}

// A search that ended by itself at a saddle goes on beside it. What is evaluated to find that out is none of the run's, and
// after an interruption it is found out again.
static pbStatus leave_saddle(Loop *l, bool *again) {
  pbTask *task = l->task;
  pbIterate i = pbOptimizer_Get(l->optimizer);
  int64_t simulations = task->simulations, evaluations = task->evaluations;
  *again = false;
  if (task->report_saddles || task->met || i.outcome == pb_running || i.iteration >= l->iterations) return pb_ok;
  if (l->gap > 0) return pb_ok;

  // By the draws that results are told by.
  task->watch = false;
  task->sample.iteration = 0;
  memcpy(task->result_z, task->sample.fresh ? i.x : i.best, (size_t)task->n * sizeof(double));
  if (isfinite(i.best_value)) PB_TRY(pbTask_Judge(task, false));
  l->judged = isfinite(i.best_value);

  // As if nothing had been looked at.
  task->simulations = simulations;
  task->evaluations = evaluations;
  task->same = false;
  task->counted = false;
  task->watch = !task->sample.fresh;

  // Anything else is the end.
  if (!l->judged || task->verdict.outcome != pb_runSaddle) return pb_ok;

  // The new answer is judged when the search ends there.
  pbOptimizer_Leave(l->optimizer, task->verdict.beside);
  copy_state(l);
  l->judged = false;
  *again = true;

  return pb_ok;
}

// A run that ends for want of memory or room, or by a fault of whoever evaluates the loss, has a result, too: the best so far.
// Returns what it ended with, in its words.
static pbStatus save_best(Loop *l, pbStatus ended, pbRunResult *result) {
  pbTask *task = l->task;
  pbVerdict *v = &task->verdict;
  if (ended == pb_ok) return ended;

  // Nothing, or nothing that was ever evaluated, is no result.
  result->z = NULL;
  if (!l->optimizer || ended == pb_interrupted) return ended;
  pbIterate i = pbOptimizer_Get(l->optimizer);
  if (!task->met && !isfinite(i.best_value)) return ended;

  // The verdict is the error: nothing more is looked at.
  find_no_noise(result);
  memset(v->notes, 0, (size_t)task->n);
  *v = (pbVerdict){.outcome = pb_runFailed, .notes = v->notes, .direction = v->direction, .beside = v->beside};
  snprintf(v->reason, sizeof v->reason, "%s", pbContext_Error(task->ctx));
  write_result(l, &i, result);
  result->loss = task->met ? task->met_value : i.best_value;
  if (!task->met) memcpy(task->result_z, i.best, (size_t)task->n * sizeof(double));

  // Its terms, if they can be had.
  double loss;
  int64_t simulations = task->simulations, evaluations = task->evaluations;
  task->progress = NULL;
  task->sample.iteration = 0;
  if (pbTask_Loss(task, task->result_z, &loss, NULL) != pb_ok) pbAnswer_ForgetTerms(task);
  task->simulations = simulations;
  task->evaluations = evaluations;
  tell_verdict(l, result);

  return pbContext_Fail(task->ctx, ended, "%s", v->reason);
}

// Constraints that are met where the search has come to its end are done with; else their multipliers move, and it goes on.
static pbStatus look_at_constraints(Loop *l, bool *again) {
  pbIterate i = pbOptimizer_Get(l->optimizer);
  PB_ASSERT(l->since >= 0 && l->stuck >= 0);
  bool ended = i.outcome != pb_running;
  *again = false;
  if (!l->constrained || l->task->met || i.iteration >= l->iterations || !isfinite(i.best_value)) return pb_ok;
  if (l->gap > 0) return pb_ok;

  // nothing but multipliers could help what has no iteration left to make
  PB_TRY(pbAnswer_TermsAside(l->task, i.best));

  // multipliers are those of the search that has come to its end, and stay
  if (ended && !pbTask_WorstConstraint(l->task)) return pb_ok;

  // a search that ended at once, with constraints that will not come closer, ends
  if (ended && l->since <= 1 && l->stuck++ >= most_stuck) return pb_ok;
  if (l->since > 1) l->stuck = 0;
  (void)pbTask_MoveMultipliers(l->task, (pbMultiplierMove){.may_stiffen = true});
  memcpy(l->task->met_z, i.best, (size_t)l->task->n * sizeof(double));
  pbOptimizer_Anew(l->optimizer, l->task->met_z);
  l->since = 0;
  copy_state(l);
  *again = true;

  return pb_ok;
}

// Given states that have led nowhere: to no run, or to none that is better than the start. That, which can be run, is searched
// from as if there had been none.
static bool leave_states(Loop *l) {
  pbTask *task = l->task;
  pbIterate i = pbOptimizer_Get(l->optimizer);
  PB_ASSERT(l->left >= left_none && l->left <= left_above);
  if (l->left || !count_gaps(l) || task->met || i.outcome == pb_running || i.iteration >= l->iterations) return false;
  if (!isfinite(i.best_value) || !pbAnswer_IsStart(task, i.best)) return false;

  l->left = l->gap > 0 ? left_open : left_above;
  memcpy(task->met_z, i.best, (size_t)task->n * sizeof(double));
  pbOptimizer_Anew(l->optimizer, task->met_z);
  l->since = l->stuck = 0;
  copy_state(l);

  return true;
}

static pbStatus run_to_end(Loop *l, const pbRunStore *store, double save_seconds) {
  bool again = true;
  while (again) {
    PB_TRY(run_iterations(l, store, save_seconds));
    again = leave_states(l);
    if (again) continue;

    PB_TRY(look_at_constraints(l, &again));
    if (!again) PB_TRY(leave_saddle(l, &again));
  }

  return pb_ok;
}

// With draws that change: the start by those that results are told by. Criteria are judged by them at the end.
static pbStatus evaluate_start(Loop *l) {
  pbTask *task = l->task;
  double value;
  pbStatus status = pbTask_Loss(task, task->start, &value, NULL);
  copy_state(l);

  return status == pb_not_finite || status == pb_no_convergence || status == pb_singular ? pb_ok : status;
}

pbStatus pbTask_RunLoop(pbTask *task, const pbRunOptions *options, const pbRunStore *store, pbRunResult *result) {
  Loop loop = {.task = task};
  *result = (pbRunResult){.test_loss = NAN};
  reset_task(task, options);
  pbStatus status = begin_loop(&loop, options, store, &result->resumed);
  loop.saved_at = pb_seconds();
  task->watch = !task->sample.fresh;
  if (status == pb_ok && task->sample.fresh && !result->resumed) status = evaluate_start(&loop);
  if (status == pb_ok) status = run_to_end(&loop, store, options->save_seconds > 0 ? options->save_seconds : 1);

  // Nothing to search for: the start is the answer.
  if (status == pb_ok && loop.iterations == 0) {
    double value;
    status = pbTask_Loss(task, pbOptimizer_Get(loop.optimizer).best, &value, NULL);
  }

  task->watch = false;
  if (status == pb_ok) status = conclude_run(&loop, result);
  status = save_best(&loop, status, result);
  pbOptimizer_Destroy(loop.optimizer);
  pbTaskSweep_Destroy(task, loop.sweep);
  pbTaskShooting_Destroy(task, loop.shooting);
  pbTaskProducts_Destroy(task, loop.products);
  pbContext_Free(task->ctx, loop.state);
  task->progress = NULL;
  task->sample.iteration = 0;

  return status;
}
