// Model predictive control: iLQR of a task from state after state, each plan the guess of the next, and its feedback in between.
// Tests: tests/unit/test_mpc.c.
#include <pullback/control.h>

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/context.h"
#include "elementary/elementary.h"
#include "model/model.h"
#include "optimize/shoot.h"
#include "step/scratch.h"

struct pbMpc {
  pbContext *ctx;
  pbTask *task;
  pbTaskShooting *shooting;
  pbOptimizer *optimizer;
  pbMpcPlan plan;
  double *z, *guess;             // n of the task: of the plan, the guess of the next
  double *off, *off_next;        // tangent size
  double *ctrl, *states, *gain;  // of the plan
  double *x0;                    // of the task, from before
  pbMpcNews *news;               // of the call at hand
  bool planned;                  // in it
  double longest;                // of the last call's iterations
};

// ---- what iLQR asks for, with a look at the clock -----------------------------------------------------------------------
static pbStatus linearize(void *user, const double *z, double *value, double *gradient) {
  pbMpc *mpc = user;
  double begun = pb_seconds();
  pbStatus status = pbTaskShooting_Linearize(mpc->shooting, z, value, gradient);

  // the first is that of the guess
  mpc->news->linearize_seconds += pb_seconds() - begun;
  if (status == pb_ok && isnan(mpc->news->guess_loss)) mpc->news->guess_loss = *value;
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
  const char *why = pbTaskSweep_WhyNot(task);

  // what it cannot be though iLQR could
  if (task->trajectory_count != 1) why = "it has several trajectories";
  for (int i = 0; i < task->variable_count && !why; i++) {
    if (task->variables[i].kind != pb_varyControl) why = "a variable is none of controls";
  }
  if (!why && pbTask_IsConstrained(task)) why = "a term is a constraint: here terms above and below are weighed";
  if (!why && task->stage_count) why = "it has stages";
  if (!why && task->trajectories[0].steps < 1) why = "its horizon has no step";
  return why ? pbContext_Fail(ctx, pb_bad_input, "%.400s: it cannot be planned again and again: %s", task->name, why) : pb_ok;
}

static pbStatus allocate(pbMpc *mpc) {
  const pbTask *task = mpc->task;

  // of the task's unknowns, of the horizon's controls, states and gains
  size_t n = (size_t)task->n, steps = (size_t)mpc->plan.steps, nu = (size_t)mpc->plan.nu, nx = (size_t)mpc->plan.nx;
  const struct {
    double **to;
    size_t count;
  } pieces[] = {{&mpc->z, n},
                {&mpc->guess, n},
                {&mpc->ctrl, steps * nu},
                {&mpc->states, (steps + 1) * nx},
                {&mpc->gain, steps * nu * (size_t)mpc->plan.n},
                {&mpc->off, (size_t)mpc->plan.n},
                {&mpc->off_next, (size_t)mpc->plan.n},
                {&mpc->x0, nx}};
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
    *pieces[i].to = pbContext_AllocArray(mpc->ctx, pieces[i].count + 1, sizeof(double));
    if (!*pieces[i].to) return pbContext_Fail(mpc->ctx, pb_no_memory, "%s: no memory for a plan", task->name);
  }

  return pb_ok;
}

// Controls of the start, with nobody to answer: what there is before the first plan.
static pbStatus begin(pbMpc *mpc) {
  pbTask *task = mpc->task;
  pbTrajectory *tr = &task->trajectories[0];

  // the plan before the first one is the task's start, standing where it begins
  memcpy(mpc->z, task->start, (size_t)task->n * sizeof *mpc->z);
  memcpy(mpc->x0, tr->x0, (size_t)mpc->plan.nx * sizeof *mpc->x0);
  PB_TRY(pbTask_Apply(task, mpc->z));
  memcpy(mpc->ctrl, tr->ctrl_now, (size_t)mpc->plan.steps * (size_t)mpc->plan.nu * sizeof *mpc->ctrl);
  for (int k = 0; k <= mpc->plan.steps; k++)
    memcpy(mpc->states + (size_t)k * (size_t)mpc->plan.nx, tr->x0, (size_t)mpc->plan.nx * sizeof *mpc->x0);

  // iLQR as of a run of the task, but for what it looks at
  const pbProblem problem = {.n = task->n, .lower = task->lower, .upper = task->upper};
  const pbShooting shooting = {mpc, linearize, plan, attempt};
  pbOptimizerOptions options = task->optimizer;
  options.method = pb_methodIlqr;
  options.restarts = 0;  // at random: not of plans that are followed
  PB_TRY(pbTaskShooting_Create(task, &mpc->shooting));
  return pbOptimizer_CreateWith(mpc->ctx, &problem, &(pbStructure){.shooting = &shooting}, &options, task->start,
                                &mpc->optimizer);
}

pbStatus pbMpc_Create(pbContext *ctx, pbTask *task, pbMpc **created) {
  *created = NULL;
  PB_TRY(check_task(ctx, task));
  pbMpc *mpc = pbContext_Alloc(ctx, sizeof *mpc);
  if (!mpc) return pbContext_Fail(ctx, pb_no_memory, "%s: no memory for a plan", task->name);

  const pbTermSet *set = &task->trajectories[0].terms;
  pbParam timestep;

  // sizes first, then memory by them
  mpc->ctx = ctx;
  mpc->task = task;
  mpc->plan = (pbMpcPlan){.steps = set->steps, .nu = set->nu, .nx = set->nx, .n = set->n};
  pbStatus status = pbModel_Param(ctx, task->model, "timestep", &timestep);
  if (status == pb_ok) mpc->plan.timestep = task->theta[timestep.offset];
  if (status == pb_ok) status = allocate(mpc);
  if (status == pb_ok) status = begin(mpc);
  if (status != pb_ok) {
    pbMpc_Destroy(mpc);
    return status;
  }

  mpc->plan.ctrl = mpc->ctrl;
  mpc->plan.states = mpc->states;
  mpc->plan.gain = mpc->gain;
  *created = mpc;

  return pb_ok;
}

void pbMpc_Destroy(pbMpc *mpc) {
  if (!mpc) return;

  // the task as it was
  if (mpc->x0) memcpy(mpc->task->trajectories[0].x0, mpc->x0, (size_t)mpc->plan.nx * sizeof *mpc->x0);
  mpc->task->same = false;
  pbTaskShooting_Destroy(mpc->task, mpc->shooting);
  pbOptimizer_Destroy(mpc->optimizer);
  double *all[] = {mpc->z, mpc->guess, mpc->off, mpc->off_next, mpc->ctrl, mpc->states, mpc->gain, mpc->x0};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(mpc->ctx, all[i]);
  pbContext_Free(mpc->ctx, mpc);
}

pbMpcPlan pbMpc_Get(const pbMpc *mpc) { return mpc->plan; }

// ---- the guess ----------------------------------------------------------------------------------------------------------
// Number of the step that acts at a time, 0 .. steps - 1; *part: how far it is gone.
static int step_at(const pbMpc *mpc, double time, double *part) {
  PB_ASSERT(mpc->plan.timestep > 0 && mpc->plan.steps > 0);
  double at = fmax(time, 0) / mpc->plan.timestep, last = mpc->plan.steps - 1;
  int k = (int)fmin(floor(at + 1e-9), last);  // times are sums of steps but for rounding
  *part = fmin(fmax(at - k, 0), 1);
  return k;
}

static double control_at(const pbMpc *mpc, size_t actuator, double time, bool between) {
  double part;
  int k = step_at(mpc, time, &part), next = k + 1 < mpc->plan.steps ? k + 1 : k;
  size_t nu = (size_t)mpc->plan.nu;

  // held, or on a line to the next step's
  const double *u = mpc->ctrl + actuator;
  return between ? (1 - part) * u[(size_t)k * nu] + part * u[(size_t)next * nu] : u[(size_t)k * nu];
}

// Controls of the plan, `later` seconds later, at the knots.
static void guess_variable(pbMpc *mpc, const pbVariable *v, double later) {
  int steps = mpc->plan.steps;

  // pieces begin at whole steps, lines bend where knots are
  for (int knot = 0; knot < v->knots; knot++) {
    double at = v->linear && v->knots > 1 ? (double)knot * (steps - 1) / (v->knots - 1) : ceil((double)knot * steps / v->knots);
    for (int a = 0; a < v->index_count; a++) {
      double value = control_at(mpc, v->index[a], later + at * mpc->plan.timestep, v->linear);
      mpc->guess[v->first + knot * v->index_count + a] = (v->logarithm ? pbLog(value) : value) / v->scale;
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

static pbStatus improve(pbMpc *mpc, const pbMpcLimits *limits, double begun) {
  int most = limits->iterations > 0 ? limits->iterations : 1;
  pbIterate now = pbOptimizer_Get(mpc->optimizer);
  mpc->longest = 0;

  // one at least: a late plan is better than none
  for (int i = 0; i < most && now.outcome == pb_running && is_in_time(mpc, limits, begun, i); i++) {
    double before = pb_seconds();
    mpc->news->iterations = i + 1;
    PB_TRY(pbOptimizer_Iterate(mpc->optimizer));
    now = pbOptimizer_Get(mpc->optimizer);
    mpc->longest = fmax(mpc->longest, pb_seconds() - before);
  }

  mpc->news->converged = now.outcome != pb_running;
  mpc->news->loss = now.value;
  if (isfinite(now.value)) return pb_ok;

  return pbContext_Fail(mpc->ctx, pb_not_finite, "%s: the plan cannot be run from this state: %s", mpc->task->name,
                        pbContext_Error(mpc->task->ctx));
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
  pbMpcPlan *p = &mpc->plan;
  memcpy(mpc->z, mpc->optimizer->x, (size_t)mpc->task->n * sizeof *mpc->z);

  // controls and states of the last move, answers about them
  for (int k = 0; k < p->steps; k++) pbTask_ApplyControlsAt(mpc->task, 0, mpc->z, k);
  memcpy(mpc->ctrl, tr->ctrl_now, (size_t)p->steps * (size_t)p->nu * sizeof *mpc->ctrl);
  memcpy(mpc->states, pbTaskShooting_States(mpc->shooting, 0, mpc->z),
         ((size_t)p->steps + 1) * (size_t)p->nx * sizeof *mpc->states);
  pbTaskShooting_Gains(mpc->shooting, 0, mpc->gain);
  p->age = 0;
}

pbStatus pbMpc_Plan(pbMpc *mpc, double elapsed, const double *x, const pbMpcLimits *limits, pbMpcNews *told) {
  static const pbMpcLimits one = {.iterations = 1};

  // nothing is changed by what is refused
  pbMpcNews news = {.loss = NAN, .guess_loss = NAN};
  double begun = pb_seconds();
  char text[400];
  if (!limits) limits = &one;
  if (!(elapsed >= 0) || !isfinite(elapsed))
    return pbContext_Fail(mpc->ctx, pb_bad_argument, "a plan begins %g s after the last one", elapsed);
  if (!pb_allFinite(x, (size_t)mpc->plan.nx))
    return pbContext_Fail(mpc->ctx, pb_bad_argument, "the state to plan from is not finite");
  if (!pbState_Readable(mpc->task->model, x, text, sizeof text))
    return pbContext_Fail(mpc->ctx, pb_bad_argument, "the state to plan from: %s", text);

  PB_ASSERT(mpc->plan.age >= 0);
  mpc->news = &news;
  mpc->planned = false;
  mpc->plan.age += elapsed;
  mpc->plan.plans++;

  // from here, with what the last plan would do
  make_guess(mpc, mpc->plan.age);
  memcpy(mpc->task->trajectories[0].x0, x, (size_t)mpc->plan.nx * sizeof *x);
  mpc->task->same = false;
  pbOptimizer_MoveTo(mpc->optimizer, mpc->guess);

  pbStatus status = improve(mpc, limits, begun);
  if (status == pb_ok) {
    find_gains(mpc);
    keep_plan(mpc);
  } else {
    mpc->plan.failed++;
  }

  // told of a failure, too
  news.seconds = pb_seconds() - begun;
  news.late = limits->seconds > 0 && news.seconds > limits->seconds;
  if (told) *told = news;

  return status;
}

void pbMpc_Feedback(const pbMpc *mpc, double time, const double *x, double *ctrl) {
  const pbMpcPlan *p = &mpc->plan;
  double part;
  int k = step_at(mpc, p->age + time, &part);
  size_t nu = (size_t)p->nu, n = (size_t)p->n;
  const double *gain = mpc->gain + (size_t)k * nu * n;
  PB_ASSERT(k >= 0 && k < p->steps);

  // in the tangent space of the plan's state, which within a step is on its way to the next
  const double *here = mpc->states + (size_t)k * (size_t)p->nx;
  pbState_Difference(mpc->task->model, here, x, mpc->off);
  if (part > 1e-9) {
    pbState_Difference(mpc->task->model, here + p->nx, x, mpc->off_next);
    for (size_t i = 0; i < n; i++) mpc->off[i] += part * (mpc->off_next[i] - mpc->off[i]);
  }

  for (size_t a = 0; a < nu; a++) {
    ctrl[a] = mpc->ctrl[(size_t)k * nu + a];
    for (size_t i = 0; i < n; i++) ctrl[a] += gain[a * n + i] * mpc->off[i];
  }
  pbTask_LimitControls(mpc->task, 0, k, ctrl);
}
