// Forward sensitivities: directions ride along with the trajectory.
#include <string.h>

#include "base/context.h"
#include "rollout/rollout.h"
#include "step/scratch.h"

typedef struct Ride {
  double *now, *next, *record, *x, *before;  // (count, n) twice, a record, two states
  int count;
} Ride;

static const double *row(const double *data, int k, int width) { return data ? data + (size_t)k * (size_t)width : NULL; }
static double *out_row(double *data, int k, int width) { return data && k >= 0 ? data + (size_t)k * (size_t)width : NULL; }

static pbDirection direction_at(const pbRollout *r, const pbRolloutDirection *d, const double *x, int k) {
  pbDirection out = {.x = x, .theta = d->theta};
  if (r->plan.steps == 0 && !r->input.constant) return out;
  k = r->input.constant || k == 0 ? 0 : k < r->plan.steps ? k : r->plan.steps - 1;
  out.ctrl = row(d->ctrl, k, r->nu);
  out.qfrc = row(d->qfrc, k, r->nv);
  out.xfrc = row(d->xfrc, k, 6 * r->nbody);

  return out;
}

static pbStatus push_all(pbRollout *r, Ride *ride, int k, const pbRolloutDirection *directions,
                         const pbRolloutTangent *tangents) {
  pbInput input = pbRollout_InputAt(r, k);
  bool smooth = r->gradient == pb_gradientSmooth;

  if (smooth) PB_TRY(pbSmooth_Step(r, ride->record, &input, k));
  const pbModel *m = smooth ? r->smooth : r->model;
  pbScratch *s = smooth ? r->smooth_scratch : r->scratch;
  const double *record = smooth ? r->smooth_record : ride->record;

  for (int i = 0; i < ride->count; i++) {
    const pbRolloutTangent *t = &tangents[i];
    int at = pbRows_Find(t->rows, t->row_count, k);
    bool sees = at >= 0 && (t->sensordata || t->xpos || t->site_xpos);
    double *now = ride->now + (size_t)i * (size_t)r->n, *next = ride->next + (size_t)i * (size_t)r->n;

    if (t->x && at >= 0) memcpy(out_row(t->x, at, r->n), now, (size_t)r->n * sizeof *now);
    if (k == r->plan.steps && !sees) continue;
    pbDirection d = direction_at(r, &directions[i], now, k);
    pbStatus status;
    s->ticks = k;

    do {
      status = pbStep_Jvp(m, r->theta, record, &input, &d, s, next, out_row(t->sensordata, at, r->ns),
                          out_row(t->xpos, at, 3 * r->nbody), out_row(t->site_xpos, at, 3 * r->nsite));
    } while (pbScratch_Grow(s, &status));
    s->ticks = 0;
    if (status == pb_ok && at >= 0) pbClock_Push(r, directions[i].theta, ride->before, k, out_row(t->sensordata, at, r->ns));
    if (status == pb_ok && k < r->plan.steps && r->gradient == pb_gradientEvent)
      status = pbStep_EventsJvp(&(pbStepRecord){m, r->theta, record, NULL, &input}, ride->x, &d, k == 0, s, next);
    if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(s));
  }

  double *swap = ride->now;
  ride->now = ride->next;
  ride->next = swap;

  return pb_ok;
}

static bool sees_final(int count, const pbRolloutTangent *tangents) {
  for (int i = 0; i < count; i++)
    if (tangents[i].sensordata || tangents[i].xpos || tangents[i].site_xpos) return true;
  return false;
}

static pbStatus ride_through(pbRollout *r, Ride *ride, const pbRolloutDirection *directions, const pbRolloutTangent *tangents) {
  int steps = r->plan.steps;
  memcpy(ride->x, r->x0, (size_t)r->nx * sizeof(double));
  for (int k = 0; k <= steps; k++) {
    pbInput input = pbRollout_InputAt(r, k);
    memcpy(ride->before, ride->x, (size_t)r->nx * sizeof(double));
    if (k < steps) {
      PB_TRY(pbRollout_StepChecked(r, r->theta, ride->x, &input, k, NULL));
    } else if (sees_final(ride->count, tangents)) {
      pbStatus status = pbStep_Observe(r->model, r->theta, ride->x, &input, r->scratch, NULL);
      if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));
    }

    pbTape_Record(r->model, ride->before, r->scratch, ride->record);
    PB_TRY(push_all(r, ride, k, directions, tangents));
    if (k < steps && pbTicker_Step(&r->ticker)) return pbRollout_Stopped(r, k);
  }

  return pb_ok;
}

pbStatus pbRollout_Jvp(pbRollout *r, int count, const pbRolloutDirection *directions, const pbRolloutTangent *tangents) {
  if (!r->ran) return pbContext_Fail(r->ctx, pb_bad_argument, "sensitivities need a rollout that ran to its end first");
  if (count < 0)
    return pbContext_Fail(r->ctx, pb_bad_argument, "sensitivities along %d directions: there must be none or more", count);
  if (count == 0) return pb_ok;
  PB_TRY(pbRollout_Ready(r));
  for (int i = 0; i < count; i++) PB_TRY(pbRows_Check(r, tangents[i].rows, tangents[i].row_count));
  size_t n = (size_t)r->n, block = (size_t)count * n, rest = (size_t)r->nrecord + 2 * (size_t)r->nx;
  double *memory = pbContext_AllocArray(r->ctx, 2 * block + rest, sizeof(double));
  if (!memory) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for %d directions", count);
  Ride ride = {
      memory, memory + block, memory + 2 * block, memory + 2 * block + r->nrecord, memory + 2 * block + r->nrecord + r->nx,
      count};
  for (int i = 0; i < count; i++)
    if (directions[i].x0) memcpy(ride.now + (size_t)i * n, directions[i].x0, n * sizeof(double));
  pbStatus status = pbTicker_Begin(&r->ticker, "forward", r->plan.steps) ? pbRollout_Stopped(r, 0)
                                                                         : ride_through(r, &ride, directions, tangents);
  pbContext_Free(r->ctx, memory);

  return status;
}
