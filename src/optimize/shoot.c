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
#include "optimize/gaps.h"
#include "rollout/rollout.h"
#include "step/scratch.h"

static const double longest_logarithm = 2;  // of a move: a factor of 7.4

typedef struct Shot {  // one trajectory
  pbTaskShooting *of;
  pbTask *task;  // that of the shooting, or a lane's
  double alpha, *trial;
  int t, entry;  // its number; the next of the problem's entries, backwards
  pbFeedback feedback;
  double *x;       // by how much state and knots at hand are off
  double *states;  // (steps + 1, nx): of the last run with feedback
  int *entered;    // slots: the entry that acts
  bool planned;
  pbGapRun gaps;
} Shot;

// A run beside the task's own: of the next parts of a plan, while this one is tried. It is exchanged with the task's when its
// turn comes, so all that follows is as if the task had run it.
typedef struct Lane {
  pbTask task;      // as the shooting's, with one trajectory
  pbTrajectory tr;  // as the task's, with its own rollout, controls, start and what terms see
  Shot shot;        // with its own states, and feedback of the task's
  double *numbers;
  pbStatus status;
} Lane;

struct pbTaskShooting {
  pbTask *task;
  pbTaskSweep *sweep;
  Shot *shots;  // as many as trajectories; those that test the answer have nothing
  // of the call at hand
  const double *z;
  double lambda, alpha, *moves, *trial, *gradient;
  double *tried, *lower, *upper;  // n: the knots of the last run, limits of those of the next
  const double *gaps;             // of all trajectories, one after the other; NULL: closed
  int lane_count, ahead;          // ahead: of these, in order, those that have run by the plan at hand
  Lane *lanes;
};

const char *pbTaskShooting_WhyNot(const pbTask *task) {
  const char *why = pbTaskSweep_WhyNot(task);
  if (!why && task->second_order && task->gradient != pb_gradientExact)
    why = "second derivatives (\"second_order\") are those of mode \"exact\"";
  return why;
}

static bool is_shot(const pbTaskShooting *s, int t) { return !s->task->trajectories[t].test; }

static pbGapRun gaps_of(const pbTask *task, int t, double *moved) {
  const pbTrajectory *tr = &task->trajectories[t];
  return (pbGapRun){.model = task->model, .given = &tr->given, .n = tr->terms.n, .moved = moved};
}

static pbStatus create_shot(pbTaskShooting *s, int t) {
  pbTask *task = s->task;
  pbAlong *along = &s->sweep->along[t];
  Shot *shot = &s->shots[t];

  // the sweep is made: its sizes are those of all here
  shot->of = s;
  shot->task = task;
  shot->t = t;
  PB_TRY(pbFeedback_Create(task->ctx, &shot->feedback, &along->riccati));

  size_t states = ((size_t)along->riccati.steps + 1) * (size_t)task->trajectories[t].terms.nx;
  shot->states = pbContext_AllocArray(task->ctx, states, sizeof(double));
  shot->entered = pbContext_AllocArray(task->ctx, (size_t)along->riccati.slots + 1, sizeof(int));
  along->states = pbContext_AllocArray(task->ctx, states, sizeof(double));
  shot->x = pbContext_AllocArray(task->ctx, (size_t)along->riccati.size + (size_t)along->riccati.n, sizeof(double));
  if (!along->states || !shot->x || !shot->states || !shot->entered)
    return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for the states of a trajectory", task->name);

  shot->gaps = gaps_of(task, t, shot->x + along->riccati.size);
  PB_TRY(pbTaskSweep_Spread(s->sweep, t));
  return task->second_order ? pbTaskSweep_BeginHessians(s->sweep, t) : pb_ok;
}

// Numbers of a lane, one after the other: start, controls and what terms see in the order of `seen_of`, then of the shot and the
// task.
enum { seen_arrays = 4 };
static void seen_of(pbTermSet *set, double **arrays[seen_arrays], size_t counts[seen_arrays]) {
  size_t rows = (size_t)set->row_count;
  double **all[seen_arrays] = {&set->states, &set->sensordata, &set->xpos, &set->site_xpos};
  const int widths[seen_arrays] = {set->nx, set->ns, 3 * set->nbody, 3 * set->nsite};
  for (int i = 0; i < seen_arrays; i++) {
    arrays[i] = all[i];
    counts[i] = *all[i] ? rows * (size_t)widths[i] : 0;
  }
}

static pbStatus create_lane(pbTaskShooting *s, Lane *lane) {
  pbTask *task = s->task;
  const pbTrajectory *tr = &task->trajectories[0];
  const pbTermSet *set = &tr->terms;
  size_t n = (size_t)task->n, nx = (size_t)set->nx, controls = (size_t)tr->steps * (size_t)set->nu;
  size_t states = ((size_t)tr->steps + 1) * nx, size = (size_t)s->sweep->along[0].riccati.size, counts[seen_arrays], seen = 0;
  size_t tangent = (size_t)set->n;
  double **arrays[seen_arrays];

  // what it shares with the task's, and what it must not
  lane->tr = *tr;
  lane->tr.rollout = NULL;
  lane->tr.ctx = NULL;

  // as the task's is made
  PB_TRY(pbTrajectory_SetUp(task, &lane->tr));
  seen_of(&lane->tr.terms, arrays, counts);
  for (int i = 0; i < seen_arrays; i++) seen += counts[i];
  lane->numbers = pbContext_AllocArray(task->ctx, nx + controls + seen + states + size + tangent + 2 * n + 1, sizeof(double));

  // it may be linearized from, and iterations take no memory
  pbScratch *scratch = lane->tr.rollout->scratch;
  bool made = lane->numbers && pbScratch_MakeLanes(scratch) == pb_ok && pbScratch_MakeAdjoint(scratch) == pb_ok;
  if (!made) return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for runs side by side", task->name);

  // one after the other
  double *next = lane->numbers;
  lane->tr.x0_now = next;
  lane->tr.ctrl_now = next += nx;
  next += controls;
  for (int i = 0; i < seen_arrays; i++) {
    if (counts[i]) *arrays[i] = next;
    next += counts[i];
  }
  lane->shot = (Shot){.of = s, .states = next, .x = next + states, .trial = next + states + size + tangent};
  lane->shot.gaps = gaps_of(task, 0, lane->shot.x + size);
  lane->task.value = lane->shot.trial + n;

  return pb_ok;
}

static void free_lane(pbTaskShooting *s, Lane *lane) {
  pbTrajectory_Free(&lane->tr);
  pbContext_Free(s->task->ctx, lane->numbers);
}

// Runs of one trajectory side by side, on the threads that there are; of several they are the trajectories themselves.
static pbStatus create_lanes(pbTaskShooting *s) {
  enum { most = 8 };
  pbTask *task = s->task;
  int threads = pbPool_Threads(task->pool), count = threads < most ? threads : most;
  if (count < 2 || task->trajectory_count != 1) return pb_ok;

  // one more counts before it is whole: half of one is given back, too
  s->lanes = pbContext_AllocArray(task->ctx, (size_t)count, sizeof *s->lanes);
  if (!s->lanes) return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for runs side by side", task->name);
  while (s->lane_count < count) PB_TRY(create_lane(s, &s->lanes[s->lane_count++]));

  return pb_ok;
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

  return create_lanes(s);
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
  for (int i = 0; i < s->lane_count; i++) free_lane(s, &s->lanes[i]);
  pbContext_Free(task->ctx, s->lanes);
  pbContext_Free(task->ctx, s->shots);
  pbContext_Free(task->ctx, s->tried);
  pbContext_Free(task->ctx, s);
}

// ---- gaps -------------------------------------------------------------------------------------------------------------
static size_t gap_numbers(const pbTaskShooting *s, int t) {
  const pbTrajectory *tr = &s->task->trajectories[t];
  return is_shot(s, t) ? (size_t)tr->given.count * (size_t)tr->terms.n : 0;
}

size_t pbTaskShooting_GapNumbers(const pbTaskShooting *s) {
  size_t count = 0;
  for (int t = 0; t < s->task->trajectory_count; t++) count += gap_numbers(s, t);

  return count;
}

void pbTaskShooting_UseGaps(pbTaskShooting *s, const double *gaps) {
  s->gaps = gaps;
  s->ahead = 0;

  // where a plan finds them; without any there is none to close
  for (int t = 0; t < s->task->trajectory_count; t++) {
    if (!is_shot(s, t)) continue;
    const pbGivenStates *given = &s->task->trajectories[t].given;
    Shot *shot = &s->shots[t];

    shot->feedback.gaps = shot->gaps.gap = given->count ? gaps : NULL;
    shot->feedback.gap_step = given->step;
    shot->feedback.gap_count = given->count;
    if (gaps) gaps += gap_numbers(s, t);
  }
}

static void jump(pbRollout *r, pbGapRun *run) {
  bool on = run && (run->gap || run->measured);

  r->jump = on ? pbGapRun_Jump : NULL;
  r->jump_user = run;
}

// Of the runs to come; a run with gaps is held by nobody but the call at hand, and meets no criteria.
typedef struct Jumping {
  bool watched;
} Jumping;

static Jumping begin_jumping(pbTaskShooting *s, double part) {
  Jumping before = {s->task->watch};
  bool open = s->gaps && part > 0;
  if (!open) return before;

  s->task->watch = s->task->same = false;
  for (int t = 0; t < s->task->trajectory_count; t++) {
    if (!is_shot(s, t)) continue;
    s->shots[t].gaps.part = part;
    jump(s->task->trajectories[t].rollout, &s->shots[t].gaps);
  }

  return before;
}

static void end_jumping(pbTaskShooting *s, Jumping before) {
  for (int t = 0; t < s->task->trajectory_count; t++) {
    if (is_shot(s, t)) jump(s->task->trajectories[t].rollout, NULL);
  }

  // nobody else is to take it for a run
  if (s->gaps) s->task->same = false;
  s->task->watch = before.watched;
}

pbStatus pbTaskShooting_MeasureGaps(pbTaskShooting *s, const double *z, double *gaps) {
  double value;

  // a pass over the given states, each of which is reached from the one before
  pbTaskShooting_UseGaps(s, gaps);
  for (int t = 0; t < s->task->trajectory_count; t++) s->shots[t].gaps.measured = (double *)(uintptr_t)s->shots[t].gaps.gap;

  // as one that is steered, by nobody
  Jumping before = begin_jumping(s, 1);
  memcpy(s->tried, z, (size_t)s->task->n * sizeof *z);
  pbStatus status = pbTask_Shoot(s->task, s->tried, &value);
  end_jumping(s, before);

  for (int t = 0; t < s->task->trajectory_count; t++) s->shots[t].gaps.measured = NULL;

  return status;
}

// ---- linearize, plan ----------------------------------------------------------------------------------------------------
static void each(pbTaskShooting *s, pbPoolWork work) { pbGroups_Each(&s->task->groups, s->task->pool, work, s); }

// Steps that lead to gaps.
static void transport_gaps(const pbTaskShooting *s, int t) {
  const pbRiccati *riccati = &s->sweep->along[t].riccati;
  const pbFeedback *f = &s->shots[t].feedback;
  size_t n = (size_t)riccati->n, step = n * (size_t)riccati->size;

  for (int i = 0; i < f->gap_count; i++)
    pbGap_Transport(s->task->model, f->gaps + (size_t)i * n, riccati->F + (size_t)(f->gap_step[i] - 1) * step, riccati->size);
}

static pbStatus finish_trajectory(pbTaskShooting *s, int t) {
  pbAlong *along = &s->sweep->along[t];
  if (s->gaps) transport_gaps(s, t);
  pbRiccati_Gradient(&along->riccati, s->gradient, along->costates);

  return s->task->second_order ? pbTaskSweep_TakeHessians(s->sweep, t) : pb_ok;
}

// On the trajectory's own thread, right after its run, but for what all threads do together.
static pbStatus take_trajectory(void *user, int t) {
  pbTaskShooting *s = user;
  const pbTaskTaker taker = pbTaskSweep_Taker(s->sweep);
  if (pbTaskSweep_IsSpread(s->sweep, t)) return pb_ok;
  PB_TRY(taker.take(taker.user, t));
  return finish_trajectory(s, t);
}

static pbStatus take_spread(pbTaskShooting *s, int t) {
  if (!is_shot(s, t) || !pbTaskSweep_IsSpread(s->sweep, t)) return pb_ok;
  pbStatus status = pbTaskSweep_TakeSpread(s->sweep, t);
  if (status == pb_ok) status = finish_trajectory(s, t);

  return status == pb_ok ? pb_ok : pbContext_Fail(s->task->ctx, status, "%s", pbContext_Error(s->task->trajectories[t].ctx));
}

pbStatus pbTaskShooting_Linearize(pbTaskShooting *s, const double *z, double *value, double *gradient) {
  const pbTaskTaker taker = {take_trajectory, s};

  // states of runs before are those of another start, perhaps
  s->trial = NULL;
  s->ahead = 0;

  // of what no trajectory sees, zero
  memset(gradient, 0, (size_t)s->task->n * sizeof *gradient);
  s->gradient = gradient;
  Jumping before = begin_jumping(s, 1);
  pbStatus status = pbTask_Linearize(s->task, z, value, NULL, &taker);
  for (int t = 0; t < s->task->trajectory_count && status == pb_ok; t++) status = take_spread(s, t);
  end_jumping(s, before);
  PB_TRY(status);
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
// To close gaps the loss may have to rise.
static void plan_task(void *user, int t, int worker) {
  pbTaskShooting *s = user;
  pbFeedback *f = &s->shots[t].feedback;
  bool planned = false;
  (void)worker;
  for (int hessians = s->task->second_order; hessians >= 0 && !planned; hessians--) {
    f->of->hessians = hessians;
    planned = pbFeedback_Plan(f, s->lambda, s->z, s->lower, s->upper, s->moves) && (f->gaps || pbFeedback_Descends(f));
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
  s->ahead = 0;
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
  const pbTaskShooting *s = shot->of;
  pbTask *task = shot->task;
  const pbAlong *along = &s->sweep->along[shot->t];
  const pbFeedback *feedback = &s->shots[shot->t].feedback;
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
    double move = pbFeedback_Move(feedback, shot->entry, shot->alpha, shot->x);
    shot->trial[i] = within(s, i, s->z[i] + (isfinite(move) ? move : 0));  // too far off to be answered: the run is none
    shot->x[riccati->n + in->slot] = shot->trial[i] - s->z[i];
  }

  pbTask_ApplyControlsAt(task, shot->t, shot->trial, k);
}

// Before the run: initial states; knots that no step comes to stay where they are, others follow as their steps come.
static void begin_trial(const pbTaskShooting *s, double alpha, double *trial) {
  memcpy(trial, s->z, (size_t)s->task->n * sizeof *trial);
  for (int t = 0; t < s->task->trajectory_count; t++) {
    const pbRiccati *riccati = &s->sweep->along[t].riccati;
    int starts = is_shot(s, t) ? riccati->start_count : 0;
    for (int a = 0; a < starts; a++) {
      int i = riccati->start_unknown[a];
      trial[i] = within(s, i, s->z[i] + alpha * s->shots[t].feedback.start_move[a]);
    }
  }
}

// On threads each trajectory has its own.
static void steer_all(pbTaskShooting *s, bool on) {
  for (int t = 0; t < s->task->trajectory_count; t++) {
    if (!is_shot(s, t)) continue;
    pbRollout *r = s->task->trajectories[t].rollout;
    Shot *shot = &s->shots[t];

    // as a lane has its own
    shot->alpha = s->alpha;
    shot->trial = s->trial;
    r->steer = on ? steer : NULL;
    r->steer_user = shot;
  }
}

// States before steps are noted; here is the last.
static void note_last(const Shot *shot, const pbTrajectory *tr) {
  size_t nx = (size_t)tr->terms.nx;
  memcpy(shot->states + (size_t)tr->steps * nx, tr->rollout->x_final, nx * sizeof *shot->states);
}

static pbStatus try_alone(pbTaskShooting *s, double *value) {
  begin_trial(s, s->alpha, s->trial);
  Jumping before = begin_jumping(s, 1 - s->alpha);
  steer_all(s, true);
  pbStatus status = pbTask_Shoot(s->task, s->trial, value);
  steer_all(s, false);
  end_jumping(s, before);

  for (int t = 0; t < s->task->trajectory_count; t++) {
    if (is_shot(s, t)) note_last(&s->shots[t], &s->task->trajectories[t]);
  }

  return status;
}

// ---- runs side by side --------------------------------------------------------------------------------------------------
static void run_lane(void *user, int i, int worker) {
  Lane *lane = &((pbTaskShooting *)user)->lanes[i];
  pbRollout *r = lane->tr.rollout;

  // the caller's thread asks whether to go on
  lane->tr.worker = worker;

  r->steer = steer;
  r->steer_user = &lane->shot;
  jump(r, lane->shot.gaps.part > 0 ? &lane->shot.gaps : NULL);
  lane->status = pbTrajectory_Forward(&lane->tr);
  r->steer = NULL;
  jump(r, NULL);
  note_last(&lane->shot, &lane->tr);
}

// This part of the plan and the halves that would be asked for after it, as many as there are lanes.
static pbStatus run_ahead(pbTaskShooting *s, double alpha) {
  pbTask *task = s->task;
  const pbTrajectory *tr = &task->trajectories[0];
  for (int i = 0; i < s->lane_count; i++, alpha /= 2) {
    Lane *lane = &s->lanes[i];
    double *value = lane->task.value;

    // the start of this part; its controls follow as it runs
    begin_trial(s, alpha, lane->shot.trial);
    task->same = false;
    PB_TRY(pbTask_Apply(task, lane->shot.trial));
    memcpy(lane->tr.x0_now, tr->x0_now, (size_t)tr->terms.nx * sizeof(double));
    memcpy(lane->tr.ctrl_now, tr->ctrl_now, (size_t)tr->steps * (size_t)tr->terms.nu * sizeof(double));

    // what has been given to the task since
    lane->task = *task;
    lane->task.value = value;
    lane->task.trajectories = &lane->tr;
    atomic_store(&lane->task.stopped, 0);
    memcpy(value, task->value, (size_t)task->n * sizeof *value);
    lane->tr.task = lane->shot.task = &lane->task;
    lane->shot.alpha = alpha;
    lane->shot.gaps.gap = s->shots[0].gaps.gap;
    lane->shot.gaps.part = 1 - alpha;
  }

  pbPool_Run(task->pool, s->lane_count, run_lane, s);
  s->ahead = s->lane_count;

  // the caller is asked in any of them, and may not ask again
  int stopped = 0;
  for (int i = 0; i < s->lane_count; i++) stopped |= atomic_load(&s->lanes[i].task.stopped);
  return stopped ? pbContext_Fail(task->ctx, pb_interrupted, "interrupted while parts of a plan were tried") : pb_ok;
}

// The lane's run becomes the task's.
static pbStatus take_lane(pbTaskShooting *s, Lane *lane, double *value) {
  pbTrajectory *tr = &s->task->trajectories[0];
  pbRollout *rollout = tr->rollout;
  pbContext *ctx = tr->ctx;
  double **from[seen_arrays], **to[seen_arrays];
  size_t counts[seen_arrays];

  // rollouts change places, with the contexts that their errors are in
  tr->rollout = lane->tr.rollout;
  tr->ctx = lane->tr.ctx;
  lane->tr.rollout = rollout;
  lane->tr.ctx = ctx;
  pbRollout_OnProgress(tr->rollout, pbTrajectory_OnProgress, tr);
  pbRollout_OnProgress(rollout, pbTrajectory_OnProgress, &lane->tr);

  // what terms see, controls, states
  seen_of(&lane->tr.terms, from, counts);
  seen_of(&tr->terms, to, counts);
  for (int i = 0; i < seen_arrays; i++) {
    if (counts[i]) memcpy(*to[i], *from[i], counts[i] * sizeof(double));
  }
  memcpy(s->trial, lane->shot.trial, (size_t)s->task->n * sizeof(double));
  memcpy(s->shots[0].states, lane->shot.states, ((size_t)tr->steps + 1) * (size_t)tr->terms.nx * sizeof(double));

  // controls and start are applied there once more: the run was of the same numbers
  tr->rollout->x0 = pbTrajectory_Start(tr);
  tr->rollout->input.ctrl = tr->ctrl_now;
  tr->ran_ahead = true;
  tr->ahead_status = lane->status;

  Jumping before = begin_jumping(s, 1 - s->alpha);
  pbStatus status = pbTask_Shoot(s->task, s->trial, value);
  end_jumping(s, before);
  tr->ran_ahead = false;

  return status;
}

pbStatus pbTaskShooting_Try(pbTaskShooting *s, const double *z, double alpha, double *trial, double *value) {
  PB_ASSERT(z == s->z && alpha > 0 && alpha <= 1);
  s->alpha = alpha;
  s->trial = trial;
  bool together = s->lane_count > 1 && s->lane_count <= pbPool_Threads(s->task->pool);

  // one that has run already, else this one and those that may come next
  int lane = 0;
  while (together && lane < s->ahead && s->lanes[lane].shot.alpha != alpha) lane++;
  if (together && lane == s->ahead) {
    lane = 0;
    PB_TRY(run_ahead(s, alpha));
  }

  pbStatus status = together ? take_lane(s, &s->lanes[lane], value) : try_alone(s, value);
  memcpy(s->tried, trial, (size_t)s->task->n * sizeof *trial);

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
    pbAlong_Weigh(s->task, t, k, along->own.weight);

    // minus: a feedback's gain is what is taken away
    for (int c = 0; c < r->slots; c++) {
      const double *answer = shot->feedback.gain + (size_t)shot->entered[c] * (size_t)r->size;
      double *to = gain + ((size_t)k * nu + (size_t)along->actuator[c]) * n;
      for (size_t i = 0; i < n; i++) to[i] -= along->own.weight[c] * answer[i];
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
  const char *why = pbTaskShooting_WhyNot(task);
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
