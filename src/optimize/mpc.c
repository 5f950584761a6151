// Model predictive control: iLQR of a task from state after state, each plan the guess of the next. Its feedback in between:
// mpc_shown.c. Tests: tests/unit/test_mpc.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/context.h"
#include "model/model.h"
#include "optimize/mpc.h"
#include "step/scratch.h"

enum { most_between = 5, most_futile = 3 };  // iterations until multipliers move; looks that are no closer
static const double most_in_motion = 10;     // times the weight
static const double no_closer = 0.5;         // of what was off: of what is stiffer less is expected

// ---- what iLQR asks for, with a look at the clock -----------------------------------------------------------------------
// Of the last evaluation, without constraints: these are met, and not weighed.
static double weighed_loss(const pbMpc *mpc) {
  const pbTermSet *set = &mpc->task->trajectories[0].terms;
  double sum = 0;

  // multipliers are in the values of constraints
  for (int i = 0; i < set->count; i++) sum += set->terms[i].constraint ? 0 : set->terms[i].value;
  return sum;
}

static pbStatus linearize(void *user, const double *z, double *value, double *gradient) {
  pbMpc *mpc = user;
  double begun = pb_seconds();
  pbStatus status = pbTaskShooting_Linearize(mpc->shooting, z, value, gradient);

  // the first is that of the guess
  mpc->news->linearize_seconds += pb_seconds() - begun;
  if (status == pb_ok && isnan(mpc->news->guess_loss)) mpc->news->guess_loss = mpc->constrained ? weighed_loss(mpc) : *value;
  return status;
}

static bool plan(void *user, const double *z, double lambda, double *moves, double *linear, double *quadratic) {
  pbMpc *mpc = user;
  double begun = pb_seconds();
  bool planned = pbTaskShooting_Plan(mpc->shooting, z, lambda, moves, linear, quadratic);

  // gains are of the last that there was
  mpc->news->plan_seconds += pb_seconds() - begun;
  mpc->planned |= planned;
  return planned;
}

static pbStatus attempt(void *user, const double *z, double alpha, double *trial, double *value) {
  pbMpc *mpc = user;
  double begun = pb_seconds();
  pbStatus status = pbTaskShooting_Try(mpc->shooting, z, alpha, trial, value);
  mpc->news->run_seconds += pb_seconds() - begun;
  return status;
}

// ---- life ---------------------------------------------------------------------------------------------------------------
static pbStatus check_task(pbContext *ctx, const pbTask *task) {
  const char *why = pbTaskShooting_WhyNot(task);

  // what it cannot be though iLQR could
  if (task->trajectory_count != 1) why = "it has several trajectories";
  for (int i = 0; i < task->variable_count && !why; i++) {
    if (task->variables[i].kind != pb_varyControl) why = "a variable is none of controls";
  }
  if (!why && task->trajectories[0].given.count) why = "it begins with states that are given (\"states\")";
  if (!why && task->stage_count) why = "it has stages";
  if (!why && task->trajectories[0].steps < 1) why = "its horizon has no step";
  return why ? pbContext_Fail(ctx, pb_bad_input, "%.400s: it cannot be planned again and again: %s", task->name, why) : pb_ok;
}

static pbStatus allocate(pbMpc *mpc) {
  const pbTask *task = mpc->task;
  size_t n = (size_t)task->n;
  mpc->constrained = pbTask_IsConstrained(task);

  // numbers of the plan; what others read of it; what changes
  mpc->z = pbContext_AllocArray(mpc->ctx, 2 * n + 1, sizeof(double));
  mpc->multipliers = pbContext_AllocArray(mpc->ctx, pbTask_MultiplierNumbers(task) + 1, sizeof(double));
  if (!mpc->z || !mpc->multipliers) return pbContext_Fail(mpc->ctx, pb_no_memory, "%s: no memory for a plan", task->name);
  mpc->guess = mpc->z + n;
  PB_TRY(pbMpcShown_Create(mpc));

  return pbMpcChanges_Create(mpc);
}

// Controls of the start, with nobody to answer: what there is before the first plan.
static pbStatus begin(pbMpc *mpc) {
  pbTask *task = mpc->task;
  pbTrajectory *tr = &task->trajectories[0];
  const pbMpcPlan *p = &mpc->shown->plan;
  const pbMpcBuffer *back = &mpc->shown->back;

  // the plan before the first one is the task's start, standing where it begins
  memcpy(tr->x0, mpc->x0, (size_t)p->nx * sizeof *tr->x0);
  pbOptimizer_Anew(mpc->optimizer, task->start);
  memcpy(mpc->z, mpc->optimizer->x, (size_t)task->n * sizeof *mpc->z);
  pbTask_ClearMultipliers(task);
  pbTask_SaveMultipliers(task, mpc->multipliers);
  PB_TRY(pbTask_Apply(task, mpc->z));

  memcpy(back->ctrl, tr->ctrl_now, (size_t)p->steps * (size_t)p->nu * sizeof *back->ctrl);

  // it stands still, and answers nobody
  memset(back->gain, 0, (size_t)p->steps * (size_t)p->nu * (size_t)p->n * sizeof *back->gain);
  for (int k = 0; k <= p->steps; k++) memcpy(back->states + (size_t)k * (size_t)p->nx, tr->x0, (size_t)p->nx * sizeof *tr->x0);

  // from here on it is what is read
  pbMpcShown_Clear(mpc);
  pbMpcShown_Publish(mpc);

  return pb_ok;
}

// iLQR as of a run of the task, but for what it looks at.
static pbStatus create_optimizer(pbMpc *mpc) {
  pbTask *task = mpc->task;
  const pbProblem problem = {.n = task->n, .lower = task->lower, .upper = task->upper};
  const pbShooting shooting = {.user = mpc, .linearize = linearize, .plan = plan, .attempt = attempt};
  pbOptimizerOptions options = task->optimizer;
  options.method = pb_methodIlqr;
  options.restarts = 0;  // at random: not of plans that are followed

  // bounds are copied: a change writes both
  PB_TRY(pbTaskShooting_Create(task, &mpc->shooting));
  return pbOptimizer_CreateWith(mpc->ctx, &problem, &(pbStructure){.shooting = &shooting}, &options, task->start,
                                &mpc->optimizer);
}

pbStatus pbMpc_Create(pbContext *ctx, pbTask *task, pbMpc **created) {
  *created = NULL;
  PB_TRY(check_task(ctx, task));
  pbMpc *mpc = pbContext_Alloc(ctx, sizeof *mpc);
  if (!mpc) return pbContext_Fail(ctx, pb_no_memory, "%s: no memory for a plan", task->name);

  mpc->ctx = ctx;
  mpc->task = task;
  pbStatus status = allocate(mpc);
  if (status == pb_ok) status = create_optimizer(mpc);
  if (status == pb_ok) status = begin(mpc);
  if (status != pb_ok) {
    pbMpc_Destroy(mpc);
    return status;
  }

  *created = mpc;

  return pb_ok;
}

void pbMpc_Destroy(pbMpc *mpc) {
  if (!mpc) return;

  pbMpcChanges_Undo(mpc);
  pbTaskShooting_Destroy(mpc->task, mpc->shooting);
  pbOptimizer_Destroy(mpc->optimizer);
  pbMpcShown_Free(mpc);
  pbContext_Free(mpc->ctx, mpc->z);
  pbContext_Free(mpc->ctx, mpc->multipliers);
  pbContext_Free(mpc->ctx, mpc);
}

pbStatus pbMpc_Restart(pbMpc *mpc) { return begin(mpc); }

// ---- the guess ----------------------------------------------------------------------------------------------------------
// Number of the step that acts at a time, 0 .. steps - 1; *part: how far it is gone.
static int step_at(const pbMpcPlan *p, double time, double *part) {
  PB_ASSERT(p->timestep > 0 && p->steps > 0);
  double at = fmax(time, 0) / p->timestep, last = p->steps - 1;
  int k = (int)fmin(floor(at + 1e-9), last);  // times are sums of steps but for rounding
  *part = fmin(fmax(at - k, 0), 1);
  return k;
}

static double control_at(const pbMpc *mpc, size_t actuator, double time, bool between) {
  const pbMpcPlan *p = &mpc->shown->plan;
  double part;
  int k = step_at(p, time, &part), next = k + 1 < p->steps ? k + 1 : k;
  size_t nu = (size_t)p->nu;

  // held, or on a line to the next step's
  const double *u = mpc->shown->front.ctrl + actuator;
  return between ? (1 - part) * u[(size_t)k * nu] + part * u[(size_t)next * nu] : u[(size_t)k * nu];
}

// Controls of the plan, `later` seconds later, at the knots.
static void guess_variable(pbMpc *mpc, const pbVariable *v, double later) {
  int steps = mpc->shown->plan.steps;
  double timestep = mpc->shown->plan.timestep;

  // pieces begin at whole steps, lines bend where knots are
  for (int knot = 0; knot < v->knots; knot++) {
    double at = v->linear && v->knots > 1 ? (double)knot * (steps - 1) / (v->knots - 1) : ceil((double)knot * steps / v->knots);
    for (int a = 0; a < v->index_count; a++) {
      double value = control_at(mpc, v->index[a], later + at * timestep, v->linear);
      mpc->guess[v->first + knot * v->index_count + a] = pbVariable_Scaled(v, value);
    }
  }
}

static void make_guess(pbMpc *mpc, double later) {
  const pbTask *task = mpc->task;
  memcpy(mpc->guess, mpc->z, (size_t)task->n * sizeof *mpc->guess);

  // from the same time again: no rounding
  if (later == 0) return;
  for (int i = 0; i < task->variable_count; i++) guess_variable(mpc, &task->variables[i], later);
}

// ---- plans --------------------------------------------------------------------------------------------------------------
static bool is_in_time(const pbMpc *mpc, const pbMpcLimits *limits, double begun, int done) {
  return done == 0 || limits->seconds <= 0 || pb_seconds() - begun + mpc->longest <= limits->seconds;
}

// Those of the last plan, moved to now.
static void recall_multipliers(pbMpc *mpc) {
  pbTask_LoadMultipliers(mpc->task, mpc->multipliers);
  pbTask_ShiftMultipliers(mpc->task, mpc->shown->plan.age);
}

// Where the search is, the rollouts hold that run if it is where the last one was.
static pbStatus evaluate_here(pbMpc *mpc) {
  pbTask *task = mpc->task;
  const double *z = mpc->optimizer->x;
  double value;
  PB_ASSERT(mpc->constrained);

  // mostly it is: a move that was made is the last run
  if (task->same && memcmp(z, task->last_z, (size_t)task->n * sizeof *z) == 0) return pb_ok;
  return pbTask_Loss(task, z, &value, NULL);
}

// The largest deviation of a constraint by its tolerance, of the last evaluation. The state that is begun with is what it is.
static double violation(const pbMpc *mpc) {
  const pbTrajectory *tr = &mpc->task->trajectories[0];
  double most = 0;

  // each by what it may be off by
  for (int i = 0; i < tr->terms.count; i++) {
    const pbTerm *t = &tr->terms.terms[i];
    if (t->constraint) most = fmax(most, pbTerm_WorstToCome(tr, t) / t->constraint->tolerance);
  }

  return most;
}

static void move_multipliers(const pbMpc *mpc, bool may_stiffen) {
  pbTask_MoveMultipliers(mpc->task, (pbMultiplierMove){.may_stiffen = may_stiffen, .to_come = true});
}

typedef struct Looks {  // at constraints, of one plan
  int since;            // iterations
  double before;        // violation where a search had come to its end; NaN: none has
  bool stiffened;       // since then
  int futile;           // in a row, where what is stiffer was no closer
} Looks;

static void note_violation(pbMpc *mpc) {
  mpc->news->loss = weighed_loss(mpc);
  mpc->news->violation = violation(mpc);
}

// A state that was reached may be a hair beyond a wall and not to be brought back at once: very stiff, that alone would count.
// From the same moment again, as at first, there is no such haste.
static bool may_stiffen(const pbMpc *mpc, double stiff) { return mpc->shown->plan.age == 0 || stiff < most_in_motion; }

// Where a search has ended multipliers are what it says, however stiff the constraint. *over: they are met, or what is stiffer is
// no closer: that cannot be met, and multipliers move once from where the plan began, so that they do not run away.
static void look_at_end(pbMpc *mpc, Looks *looks, bool *over) {
  pbTask *task = mpc->task;
  double now = mpc->news->violation, stiff = pbTask_Stiffness(task);
  looks->futile = looks->stiffened && now > no_closer * looks->before ? looks->futile + 1 : 0;
  bool met = now <= 1, futile = looks->futile >= most_futile;
  if (futile) recall_multipliers(mpc);
  move_multipliers(mpc, !met && !futile && may_stiffen(mpc, stiff));

  *over = met || futile;
  looks->before = now;
  looks->stiffened = pbTask_Stiffness(task) > stiff;
}

// Of the plan as it is. In the midst of a search multipliers would be what an unfinished plan is off by, times the stiffness.
static pbStatus look_at_constraints(pbMpc *mpc, bool ended, Looks *looks, bool *over) {
  looks->since = 0;
  PB_TRY(evaluate_here(mpc));
  note_violation(mpc);

  // stiffer ones wait for the end of the search
  if (ended) look_at_end(mpc, looks, over);
  else if (pbTask_Stiffness(mpc->task) == 1) move_multipliers(mpc, false);

  return pb_ok;
}

// The next plan begins with what this one has found. Where that is not met by stiffer constraints, most likely since it cannot be
// met from here (a state that is beyond a wall), multipliers would run away.
static pbStatus look_at_last(pbMpc *mpc, const Looks *looks) {
  bool stiffened = pbTask_Stiffness(mpc->task) > 1;
  if (looks->since == 0 && !stiffened) return pb_ok;

  // the plan is told of as it is
  PB_TRY(evaluate_here(mpc));
  note_violation(mpc);
  if (stiffened) recall_multipliers(mpc);
  move_multipliers(mpc, false);

  return pb_ok;
}

static void go_on(pbMpc *mpc) {
  // what it has learnt stays: the guess is room that nobody needs any more
  memcpy(mpc->guess, mpc->optimizer->x, (size_t)mpc->task->n * sizeof *mpc->guess);
  pbOptimizer_MoveTo(mpc->optimizer, mpc->guess);
}

static pbStatus refuse_state(pbMpc *mpc) {
  return pbContext_Fail(mpc->ctx, pb_not_finite, "%s: the plan cannot be run from this state: %s", mpc->task->name,
                        pbContext_Error(mpc->task->ctx));
}

// One iteration, and a look at the constraints where it is time for one. *over: nothing is left to gain.
static pbStatus iterate(pbMpc *mpc, Looks *looks, bool *over) {
  double before = pb_seconds();
  PB_TRY(pbOptimizer_Iterate(mpc->optimizer));
  pbIterate now = pbOptimizer_Get(mpc->optimizer);
  bool ended = now.outcome != pb_running;
  if (!isfinite(now.value)) return refuse_state(mpc);

  // a search that goes on has other values than before
  looks->since++;
  *over = ended && !mpc->constrained;
  if (mpc->constrained && (ended || looks->since >= most_between)) {
    PB_TRY(look_at_constraints(mpc, ended, looks, over));
    if (!*over) go_on(mpc);
  }
  mpc->longest = fmax(mpc->longest, pb_seconds() - before);

  return pb_ok;
}

static pbStatus improve(pbMpc *mpc, const pbMpcLimits *limits, double begun) {
  int most = limits->iterations > 0 ? limits->iterations : 1;
  Looks looks = {.before = NAN};
  bool over = false;
  mpc->longest = 0;

  // one at least: a late plan is better than none
  for (int i = 0; i < most && !over && is_in_time(mpc, limits, begun, i); i++) {
    mpc->news->iterations = i + 1;
    PB_TRY(iterate(mpc, &looks, &over));
  }

  if (mpc->constrained && !over) PB_TRY(look_at_last(mpc, &looks));
  mpc->news->converged = over && mpc->news->violation <= 1;
  if (!mpc->constrained) mpc->news->loss = pbOptimizer_Get(mpc->optimizer).value;

  return pb_ok;
}

// Where nothing was left to do there are no gains yet of this trajectory.
static void find_gains(pbMpc *mpc) {
  pbOptimizer *o = mpc->optimizer;
  double linear, quadratic, lambda = 0;

  // the moves that come with them are not made
  while (!mpc->planned && lambda < 1e6) {
    plan(mpc, o->x, lambda, mpc->guess, &linear, &quadratic);
    lambda = fmax(10 * lambda, 1e-6);
  }
}

static void keep_plan(pbMpc *mpc) {
  const pbTrajectory *tr = &mpc->task->trajectories[0];
  const pbMpcPlan *p = &mpc->shown->plan;
  const pbMpcBuffer *back = &mpc->shown->back;
  memcpy(mpc->z, mpc->optimizer->x, (size_t)mpc->task->n * sizeof *mpc->z);
  pbTask_SaveMultipliers(mpc->task, mpc->multipliers);

  // controls and states of the last move, answers about them
  for (int k = 0; k < p->steps; k++) pbTask_ApplyControlsAt(mpc->task, 0, mpc->z, k);
  memcpy(back->ctrl, tr->ctrl_now, (size_t)p->steps * (size_t)p->nu * sizeof *back->ctrl);
  memcpy(back->states, pbTaskShooting_States(mpc->shooting, 0, mpc->z),
         ((size_t)p->steps + 1) * (size_t)p->nx * sizeof *back->states);
  pbTaskShooting_Gains(mpc->shooting, 0, back->gain);
  pbMpcShown_Publish(mpc);
}

static pbStatus check_question(const pbMpc *mpc, double elapsed, const double *x) {
  char text[400];
  if (!(elapsed >= 0) || !isfinite(elapsed))
    return pbContext_Fail(mpc->ctx, pb_bad_argument, "a plan begins %g s after the last one", elapsed);
  if (!pb_allFinite(x, (size_t)mpc->shown->plan.nx))
    return pbContext_Fail(mpc->ctx, pb_bad_argument, "the state to plan from is not finite");
  if (!pbState_Readable(mpc->task->model, x, text, sizeof text))
    return pbContext_Fail(mpc->ctx, pb_bad_argument, "the state to plan from: %s", text);

  return pb_ok;
}

// From here, with what the last plan would do.
static void prepare(pbMpc *mpc, double elapsed, const double *x) {
  pbTask *task = mpc->task;
  mpc->planned = false;
  pbMpcShown_Begin(mpc, elapsed);
  PB_ASSERT(mpc->shown->plan.age >= 0);

  // controls and multipliers of the same plan, by the same time
  make_guess(mpc, mpc->shown->plan.age);
  if (mpc->constrained) recall_multipliers(mpc);

  memcpy(task->trajectories[0].x0, x, (size_t)mpc->shown->plan.nx * sizeof *x);
  task->same = false;

  // with the damping that is asked for, else that which served the last plan
  if (mpc->optimizer->options.damping > 0) pbOptimizer_Anew(mpc->optimizer, mpc->guess);
  else pbOptimizer_MoveTo(mpc->optimizer, mpc->guess);
}

pbStatus pbMpc_Plan(pbMpc *mpc, double elapsed, const double *x, const pbMpcLimits *limits, pbMpcNews *told) {
  static const pbMpcLimits one = {.iterations = 1};
  pbMpcNews news = {.loss = NAN, .guess_loss = NAN};
  double begun = pb_seconds();
  if (!limits) limits = &one;
  pbStatus status = check_question(mpc, elapsed, x);
  if (status != pb_ok) {
    pbMpcShown_Refuse(mpc);
    return status;
  }

  // by phase, with a look at the clock after each
  mpc->news = &news;
  prepare(mpc, elapsed, x);
  double prepared = pb_seconds();
  status = improve(mpc, limits, begun);
  double improved = pb_seconds();

  // what fails leaves the last plan to those who ask
  if (status == pb_ok) {
    find_gains(mpc);
    keep_plan(mpc);
  } else {
    pbMpcShown_Fail(mpc);
  }

  // told of a failure, too
  double end = pb_seconds();
  news.seconds = end - begun;
  news.prepare_seconds = prepared - begun;
  news.iterate_seconds = improved - prepared;
  news.finish_seconds = end - improved;
  news.late = limits->seconds > 0 && news.seconds > limits->seconds;
  if (told) *told = news;

  return status;
}
