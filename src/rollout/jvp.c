// Forward sensitivities: tangents of the state are pushed through each step beside the trajectory, which is run once more.
// Tests: tests/unit/test_rollout.c, tests/unit/test_schedule.c, tests/oracle/test_wanted.py.
#include <string.h>

#include "base/assert.h"

#include "base/context.h"
#include "rollout/rollout.h"
#include "step/scratch.h"

typedef struct Tangents {
  double *now, *next;           // (count, n): at the present state, and at the next
  double *record, *x, *before;  // of the step in hand: its record, the state after it and before
  int count;
  pbSensitivity *rows;  // all directions at once; NULL: one after the other
} Tangents;

static const double *row(const double *data, int k, int width) { return data ? data + (size_t)k * (size_t)width : NULL; }
static double *out_row(double *data, int k, int width) { return data && k >= 0 ? data + (size_t)k * (size_t)width : NULL; }

static pbDirection direction_at(const pbRollout *r, const pbRolloutDirection *d, const double *x, int k) {
  pbDirection out = {.x = x, .theta = d->theta};
  if (r->plan.steps == 0 && !r->input.constant) return out;

  out.mocap_vel = pbPrescribed_Push(r, d, k);
  k = pbRollout_InputRow(r, k);

  // Inputs of a direction have the rows of the inputs themselves.
  out.ctrl = row(d->ctrl, k, r->nu);
  out.qfrc = row(d->qfrc, k, r->nv);
  out.xfrc = row(d->xfrc, k, 6 * r->nbody);
  out.command = row(d->command, k, r->ncommand);

  // Rotations of mocap bodies in their own frames, three numbers each.
  out.mocap_pos = row(d->mocap_pos, k, 3 * r->nmocap);
  out.mocap_rot = row(d->mocap_rot, k, 3 * r->nmocap);

  return out;
}

pbStatus pbRollout_PushOne(pbRollout *r, pbScratch *s, int k, const pbStepRecord *step, const double *before, const double *after,
                           const pbDirection *d, const pbStepTangent *out) {
  pbStatus status;
  s->ticks = k;
  do {
    status = pbStep_Jvp(step->model, step->theta, step->record, step->input, d, s, out->next, out->sensordata, out->xpos,
                        out->site_xpos);
  } while (pbScratch_Grow(s, &status));
  s->ticks = 0;

  // What the step holds fixed: the clock, and with pb_gradientEvent the times of onsets and releases.
  if (status == pb_ok) pbClock_Push(r, d->theta, before, k, out->sensordata);
  if (status == pb_ok && out->next && r->gradient == pb_gradientEvent)
    status = pbStep_EventsJvp(step, after, d, k == 0, s, out->next);
  return status == pb_ok ? status : pbRollout_StepFailed(r, status, k, pbScratch_Error(s));
}

// One direction through step k (at the last state through its observation), from `now` to `next`.
static pbStatus push_one(pbRollout *r, const Tangents *all, int k, const pbRolloutDirection *along, const pbRolloutTangent *t,
                         const double *now, double *next) {
  bool smooth = r->gradient == pb_gradientSmooth;
  const pbModel *m = smooth ? r->smooth : r->model;
  pbScratch *s = smooth ? r->smooth_scratch : r->scratch;
  const double *record = smooth ? r->smooth_record : all->record;

  // The state's own tangent needs no step; without outputs the last state needs nothing more.
  int at = pbRows_Find(t->rows, t->row_count, k);
  bool sees = at >= 0 && (t->sensordata || t->xpos || t->site_xpos);
  if (t->x && at >= 0) memcpy(out_row(t->x, at, r->n), now, (size_t)r->n * sizeof *now);
  if (k == r->plan.steps && !sees) return pb_ok;

  pbInput input = pbRollout_InputAt(r, k);
  pbDirection d = direction_at(r, along, now, k);
  const pbStepRecord step = {.model = m, .theta = r->theta, .record = record, .input = &input};

  // From the last state no step was taken: there is none to push.
  const pbStepTangent out = {.next = k < r->plan.steps ? next : NULL,
                             .sensordata = out_row(t->sensordata, at, r->ns),
                             .xpos = out_row(t->xpos, at, 3 * r->nbody),
                             .site_xpos = out_row(t->site_xpos, at, 3 * r->nsite)};
  return pbRollout_PushOne(r, s, k, &step, all->before, all->x, &d, &out);
}

// The tangents of a state, where it is asked for.
static void keep_state(const pbRollout *r, const Tangents *all, int k, const pbRolloutTangent *tangents) {
  for (int i = 0; i < all->count; i++) {
    int at = pbRows_Find(tangents[i].rows, tangents[i].row_count, k);
    const double *now = all->now + (size_t)i * (size_t)r->n;
    if (tangents[i].x && at >= 0) memcpy(out_row(tangents[i].x, at, r->n), now, (size_t)r->n * sizeof *now);
  }
}

static bool sees_final(int count, const pbRolloutTangent *tangents) {
  for (int i = 0; i < count; i++) {
    if (tangents[i].sensordata || tangents[i].xpos || tangents[i].site_xpos) return true;
  }

  return false;
}

static pbStatus push_by_rows(pbRollout *r, Tangents *all, int k, const pbInput *input, const pbRolloutTangent *tangents) {
  const pbStepRecord step = {.model = r->model, .theta = r->theta, .record = all->record, .input = input};
  keep_state(r, all, k, tangents);
  if (k < r->plan.steps) PB_TRY(pbSensitivity_Step(r, all->rows, k, &step, all->x, all->now, all->next));

  // Outputs are of the state before the step, and of those alone that are asked for.
  int at = pbRows_Find(tangents->rows, tangents->row_count, k);
  bool sees = at >= 0 && sees_final(1, tangents);
  return sees ? pbSensitivity_See(r, all->rows, k, &step, all->before, at, tangents, all->now) : pb_ok;
}

static pbStatus push_all(pbRollout *r, Tangents *all, int k, const pbRolloutDirection *directions,
                         const pbRolloutTangent *tangents) {
  pbInput input = pbRollout_InputAt(r, k);
  if (r->gradient == pb_gradientSmooth) PB_TRY(pbSmooth_Step(r, all->record, &input, k));

  // All directions share the step's evaluation.
  if (all->rows) PB_TRY(push_by_rows(r, all, k, &input, tangents));
  int alone = all->rows ? 0 : all->count;
  for (int i = 0; i < alone; i++) {
    const double *now = all->now + (size_t)i * (size_t)r->n;
    double *next = all->next + (size_t)i * (size_t)r->n;

    PB_TRY(push_one(r, all, k, &directions[i], &tangents[i], now, next));
    if (pbProgressMeter_At(&r->meter, r->meter.phase, r->meter.done, r->meter.total)) return pbRollout_Stopped(r, k);
  }

  double *swap = all->now;
  all->now = all->next;
  all->next = swap;

  return pb_ok;
}

static pbStatus push_trajectory(pbRollout *r, Tangents *all, const pbRolloutDirection *directions,
                                const pbRolloutTangent *tangents) {
  int steps = r->plan.steps;
  memcpy(all->x, r->x0, (size_t)r->nx * sizeof(double));

  // The states are those of Forward, bit for bit: the same call from the same state.
  for (int k = 0; k <= steps; k++) {
    pbInput input = pbRollout_InputAt(r, k);
    memcpy(all->before, all->x, (size_t)r->nx * sizeof(double));

    // The last state has no step; it is evaluated where something observes it.
    if (k < steps) {
      PB_TRY(pbRollout_StepChecked(r, r->theta, all->x, &input, k, NULL));
    } else if (sees_final(all->count, tangents)) {
      pbStatus status = pbStep_Observe(r->model, r->theta, all->x, &input, r->scratch, NULL);
      if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));
    }

    pbTape_Record(r->model, all->before, r->scratch, all->record);
    PB_TRY(push_all(r, all, k, directions, tangents));
    if (k < steps && pbProgressMeter_Step(&r->meter)) return pbRollout_Stopped(r, k);
  }

  return pb_ok;
}

pbStatus pbRollout_Jvp(pbRollout *r, int count, const pbRolloutDirection *directions, const pbRolloutTangent *tangents) {
  if (!r->ran) return pbContext_Fail(r->ctx, pb_bad_argument, "sensitivities need a rollout that ran to its end first");
  if (count < 0)
    return pbContext_Fail(r->ctx, pb_bad_argument, "sensitivities along %d directions: there must be none or more", count);
  if (count == 0) return pb_ok;
  PB_TRY(pbRollout_Ready(r));
  PB_TRY(pbPrescribed_CheckAll(r));
  for (int i = 0; i < count; i++) PB_TRY(pbRows_Check(r, tangents[i].rows, tangents[i].row_count));

  // One block: tangents of all directions at two states, a record, two states.
  size_t n = (size_t)r->n;
  size_t block = (size_t)count * n;
  size_t rest = (size_t)r->nrecord + 2 * (size_t)r->nx;
  double *memory = pbRollout_TakeRoom(r, 2 * block + rest);
  if (!memory) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for %d directions", count);

  Tangents all = {.now = memory, .next = memory + block, .record = memory + 2 * block, .count = count};
  all.x = all.record + r->nrecord;
  all.before = all.x + r->nx;
  PB_ASSERT(all.before + r->nx == memory + 2 * block + rest);

  // A direction without x0 begins at zero, as allocated.
  for (int i = 0; i < count; i++) {
    if (directions[i].x0) memcpy(all.now + (size_t)i * n, directions[i].x0, n * sizeof(double));
  }

  bool stopped = pbProgressMeter_Begin(&r->meter, "forward", r->plan.steps);
  pbStatus status = stopped ? pbRollout_Stopped(r, 0) : pb_ok;
  if (status == pb_ok && pbSensitivity_Serves(r, count, tangents)) status = pbSensitivity_Create(r, count, directions, &all.rows);
  if (status == pb_ok) status = push_trajectory(r, &all, directions, tangents);
  pbSensitivity_Destroy(r, all.rows);
  pbRollout_LeaveRoom(r, memory);

  return status;
}
