// Trajectories linearized, planned and run again with feedback. The plan itself: control/feedback.c.
// Tests: tests/unit/test_ilqr.c.
#include "optimize/shoot.h"

#include <pullback/control.h>

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "control/feedback.h"
#include "optimize/along.h"
#include "rollout/rollout.h"

static const double longest_logarithm = 2;  // of a move: a factor of 7.4

typedef struct Shot {  // one trajectory
  pbTaskShooting *of;
  int t, entry;  // its number; the next of the problem's entries, backwards
  pbFeedback feedback;
  double *x;       // by how much state and knots at hand are off
  double *states;  // (steps + 1, nx): of the last run with feedback
  int *entered;    // slots: the entry that acts
  bool planned;
} Shot;

struct pbTaskShooting {
  pbTask *task;
  pbTaskSweep *sweep;
  Shot *shots;  // as many as trajectories; those that test the answer have nothing
  // of the call at hand
  const double *z;
  double lambda, alpha, *moves, *trial, *gradient;
  double *tried, *lower, *upper;  // n: the knots of the last run, limits of those of the next
};

static bool is_shot(const pbTaskShooting *s, int t) { return !s->task->trajectories[t].test; }

static pbStatus create_shot(pbTaskShooting *s, int t) {
  pbTask *task = s->task;
  pbAlong *along = &s->sweep->along[t];
  Shot *shot = &s->shots[t];

  // the sweep is made: its sizes are those of all here
  shot->of = s;
  shot->t = t;
  PB_TRY(pbFeedback_Create(task->ctx, &shot->feedback, &along->riccati));

  size_t states = ((size_t)along->riccati.steps + 1) * (size_t)task->trajectories[t].terms.nx;
  shot->states = pbContext_AllocArray(task->ctx, states, sizeof(double));
  shot->entered = pbContext_AllocArray(task->ctx, (size_t)along->riccati.slots + 1, sizeof(int));
  along->states = pbContext_AllocArray(task->ctx, states, sizeof(double));
  shot->x = pbContext_AllocArray(task->ctx, (size_t)along->riccati.size, sizeof(double));
  if (!along->states || !shot->x || !shot->states || !shot->entered)
    return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for the states of a trajectory", task->name);

  return task->second_order ? pbTaskSweep_BeginHessians(s->sweep, t) : pb_ok;
}

pbStatus pbTaskShooting_Create(pbTask *task, pbTaskShooting **created) {
  pbTaskShooting *s = *created = pbContext_Alloc(task->ctx, sizeof *s);
  if (s) s->shots = pbContext_AllocArray(task->ctx, (size_t)task->trajectory_count, sizeof *s->shots);
  if (s) s->tried = pbContext_AllocArray(task->ctx, 3 * (size_t)task->n + 1, sizeof *s->tried);
  if (!s || !s->shots || !s->tried) return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for feedback", task->name);

  // what feedback needs of a trajectory is sized by its sweep
  s->lower = s->tried + task->n;
  s->upper = s->lower + task->n;
  s->task = task;
  PB_TRY(pbTaskSweep_Create(task, &s->sweep));
  for (int t = 0; t < task->trajectory_count; t++) {
    if (is_shot(s, t)) PB_TRY(create_shot(s, t));
  }

  return pb_ok;
}

void pbTaskShooting_Destroy(pbTask *task, pbTaskShooting *s) {
  if (!s) return;

  // also where it was made by half
  int count = s->shots && s->sweep ? task->trajectory_count : 0;
  for (int t = 0; t < count; t++) {
    pbFeedback_Free(task->ctx, &s->shots[t].feedback);
    void *all[] = {s->shots[t].x, s->shots[t].states, s->shots[t].entered};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(task->ctx, all[i]);
  }
  pbTaskSweep_Destroy(task, s->sweep);
  pbContext_Free(task->ctx, s->shots);
  pbContext_Free(task->ctx, s->tried);
  pbContext_Free(task->ctx, s);
}

// ---- linearize, plan ----------------------------------------------------------------------------------------------------
static void each(pbTaskShooting *s, pbPoolWork work) { pbGroups_Each(&s->task->groups, s->task->pool, work, s); }

// On the trajectory's own thread, right after its run.
static pbStatus take_trajectory(void *user, int t) {
  pbTaskShooting *s = user;
  pbAlong *along = &s->sweep->along[t];
  const pbTaskTaker taker = pbTaskSweep_Taker(s->sweep);
  PB_TRY(taker.take(taker.user, t));
  pbRiccati_Gradient(&along->riccati, s->gradient, along->costates);

  return s->task->second_order ? pbTaskSweep_TakeHessians(s->sweep, t) : pb_ok;
}

pbStatus pbTaskShooting_Linearize(pbTaskShooting *s, const double *z, double *value, double *gradient) {
  const pbTaskTaker taker = {take_trajectory, s};

  // states of runs before are those of another start, perhaps
  s->trial = NULL;

  // of what no trajectory sees, zero
  memset(gradient, 0, (size_t)s->task->n * sizeof *gradient);
  s->gradient = gradient;
  PB_TRY(pbTask_Linearize(s->task, z, value, NULL, &taker));
  for (int i = 0; i < s->task->n; i++) gradient[i] *= 2;

  return pb_ok;
}

// Limits of the moves at hand: those of the task, and of logarithms a factor, since they are straight for short moves alone.
static void limit_moves(pbTaskShooting *s, const double *z) {
  const pbTask *task = s->task;
  memcpy(s->lower, task->lower, (size_t)task->n * sizeof *s->lower);
  memcpy(s->upper, task->upper, (size_t)task->n * sizeof *s->upper);

  for (int v = 0; v < task->variable_count; v++) {
    const pbVariable *of = &task->variables[v];
    int count = of->logarithm ? of->count : 0;
    for (int i = of->first; i < of->first + count; i++) {
      s->lower[i] = fmax(s->lower[i], z[i] - longest_logarithm / of->scale);
      s->upper[i] = fmin(s->upper[i], z[i] + longest_logarithm / of->scale);
    }
  }
}

// Where second derivatives make the loss curve downwards, or a plan with them would lead upwards, Gauss-Newton's curvature alone.
static void plan_task(void *user, int t, int worker) {
  pbTaskShooting *s = user;
  pbFeedback *f = &s->shots[t].feedback;
  bool planned = false;
  (void)worker;
  for (int hessians = s->task->second_order; hessians >= 0 && !planned; hessians--) {
    f->of->hessians = hessians;
    planned = pbFeedback_Plan(f, s->lambda, s->z, s->lower, s->upper, s->moves) && pbFeedback_Descends(f);
  }
  s->shots[t].planned = planned;
}

bool pbTaskShooting_Plan(pbTaskShooting *s, const double *z, double lambda, double *moves, double *linear, double *quadratic) {
  bool planned = true;
  *linear = *quadratic = 0;
  PB_ASSERT(lambda >= 0);

  // what each needs
  s->z = z;
  limit_moves(s, z);
  s->lambda = lambda;
  s->moves = moves;
  each(s, plan_task);

  // In the order of the trajectories, whoever was first.
  for (int t = 0; t < s->task->trajectory_count; t++) {
    if (!is_shot(s, t)) continue;
    planned &= s->shots[t].planned;
    *linear += s->shots[t].feedback.linear;
    *quadratic += s->shots[t].feedback.quadratic;
  }

  return planned;
}

// ---- run again ----------------------------------------------------------------------------------------------------------
static double within(const pbTaskShooting *s, int i, double z) { return fmin(fmax(z, s->lower[i]), s->upper[i]); }

// Before step k from state x: the knots that enter there, and the controls of the step.
static void steer(void *user, int k, const double *x) {
  Shot *shot = user;
  pbTaskShooting *s = shot->of;
  pbTask *task = s->task;
  const pbAlong *along = &s->sweep->along[shot->t];
  const pbRiccati *riccati = &along->riccati;
  size_t nx = (size_t)task->trajectories[shot->t].terms.nx;
  PB_ASSERT(k >= 0 && k < riccati->steps);

  // knots at hand stay off as they are
  if (k == 0) {
    memset(shot->x, 0, (size_t)riccati->size * sizeof *shot->x);
    shot->entry = riccati->entry_count - 1;
  }
  memcpy(shot->states + (size_t)k * nx, x, nx * sizeof *x);
  pbState_Difference(task->model, along->states + (size_t)k * nx, x, shot->x);

  for (; shot->entry >= 0 && riccati->entries[shot->entry].step == k; shot->entry--) {
    const pbRiccatiEntry *in = &riccati->entries[shot->entry];
    int i = in->unknown;
    double move = pbFeedback_Move(&shot->feedback, shot->entry, s->alpha, shot->x);
    s->trial[i] = within(s, i, s->z[i] + (isfinite(move) ? move : 0));  // too far off to be answered: the run is none
    shot->x[riccati->n + in->slot] = s->trial[i] - s->z[i];
  }

  pbTask_ApplyControlsAt(task, shot->t, s->trial, k);
}

static void steer_all(pbTaskShooting *s, bool on) {
  for (int t = 0; t < s->task->trajectory_count; t++) {
    if (!is_shot(s, t)) continue;
    pbRollout *r = s->task->trajectories[t].rollout;

    // on threads each has its own
    r->steer = on ? steer : NULL;
    r->steer_user = &s->shots[t];
  }
}

pbStatus pbTaskShooting_Try(pbTaskShooting *s, const double *z, double alpha, double *trial, double *value) {
  PB_ASSERT(z == s->z && alpha > 0 && alpha <= 1);

  // knots that no step comes to stay where they are
  s->alpha = alpha;
  s->trial = trial;
  memcpy(trial, z, (size_t)s->task->n * sizeof *trial);

  // initial states first; knots as their steps come
  for (int t = 0; t < s->task->trajectory_count; t++) {
    const pbRiccati *riccati = &s->sweep->along[t].riccati;
    int starts = is_shot(s, t) ? riccati->start_count : 0;
    for (int a = 0; a < starts; a++) {
      int i = riccati->start_unknown[a];
      trial[i] = within(s, i, z[i] + alpha * s->shots[t].feedback.start_move[a]);
    }
  }

  steer_all(s, true);
  pbStatus status = pbTask_Shoot(s->task, trial, value);
  steer_all(s, false);

  memcpy(s->tried, trial, (size_t)s->task->n * sizeof *trial);

  // states before steps are noted; here is the last
  for (int t = 0; t < s->task->trajectory_count; t++) {
    const pbTrajectory *tr = &s->task->trajectories[t];
    size_t nx = (size_t)tr->terms.nx;
    if (is_shot(s, t)) memcpy(s->shots[t].states + (size_t)tr->steps * nx, tr->rollout->x_final, nx * sizeof *trial);
  }

  return status;
}

// ---- what came of it ----------------------------------------------------------------------------------------------------
const double *pbTaskShooting_States(const pbTaskShooting *s, int t, const double *z) {
  // after a move that was made, the run that made it; else where it was linearized
  bool tried = s->trial && memcmp(z, s->tried, (size_t)s->task->n * sizeof *z) == 0;
  return tried ? s->shots[t].states : s->sweep->along[t].states;
}

void pbTaskShooting_Gains(const pbTaskShooting *s, int t, double *gain) {
  const Shot *shot = &s->shots[t];
  const pbAlong *along = &s->sweep->along[t];
  const pbRiccati *r = &along->riccati;
  size_t n = (size_t)r->n, nu = (size_t)s->task->trajectories[t].terms.nu;
  int e = r->entry_count - 1;
  PB_ASSERT(is_shot(s, t));
  memset(gain, 0, (size_t)r->steps * nu * n * sizeof *gain);

  for (int k = 0; k < r->steps; k++) {
    // knots that act from here on
    for (; e >= 0 && r->entries[e].step == k; e--) shot->entered[r->entries[e].slot] = e;
    pbAlong_Weigh(s->task, t, k, along->weight);

    // minus: a feedback's gain is what is taken away
    for (int c = 0; c < r->slots; c++) {
      const double *answer = shot->feedback.gain + (size_t)shot->entered[c] * (size_t)r->size;
      double *to = gain + ((size_t)k * nu + (size_t)along->actuator[c]) * n;
      for (size_t i = 0; i < n; i++) to[i] -= along->weight[c] * answer[i];
    }
  }
}

// As little damping as there is a plan with.
static pbStatus gains_at(pbTaskShooting *s, const double *z, int t, double *numbers, double *gain) {
  const double most = 1e6;
  size_t n = (size_t)s->task->n;
  double *gradient = numbers, *moves = numbers + n, value, linear, quadratic, lambda = 0;

  // moves are of no interest: at an answer there are none to make
  PB_TRY(pbTaskShooting_Linearize(s, z, &value, gradient));

  while (!pbTaskShooting_Plan(s, z, lambda, moves, &linear, &quadratic)) {
    lambda = fmax(10 * lambda, 1e-9);
    if (lambda > most) return pbContext_Fail(s->task->ctx, pb_singular, "%s: no feedback is best along its run", s->task->name);
  }
  pbTaskShooting_Gains(s, t, gain);

  return pb_ok;
}

pbStatus pbTask_Gains(pbTask *task, const double *z, int t, double *gain) {
  const char *why = pbTaskSweep_WhyNot(task);
  if (!why && task->trajectories[t].test) why = "the trajectory tests the answer";
  if (why) return pbContext_Fail(task->ctx, pb_bad_input, "%.400s: there is no feedback along its run: %s", task->name, why);

  // the plan's own room, given back
  pbTaskShooting *s = NULL;
  double *numbers = pbContext_AllocArray(task->ctx, 2 * (size_t)task->n + 1, sizeof(double));
  pbStatus status = numbers ? pb_ok : pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for feedback", task->name);
  if (status == pb_ok) status = pbTaskShooting_Create(task, &s);
  if (status == pb_ok) status = gains_at(s, z, t, numbers, gain);
  pbTaskShooting_Destroy(task, s);
  pbContext_Free(task->ctx, numbers);

  return status;
}
