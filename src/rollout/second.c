// How the gradient of a rollout changes along a direction: states are run once more with their tangents, then steps are pulled
// back in complex numbers, costate and its tangent together. Tests: tests/unit/test_second.c.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/joint.h"
#include "rollout/rollout.h"
#include "step/jvp.h"
#include "step/scratch.h"
#include "step/second.h"

typedef struct Stretch {
  pbRollout *r;
  const pbRolloutSecond *second;
  bool taped;                       // the tape has the records of all steps
  double *records;                  // (steps + 1) x nrecord: of each state, before its step; of a tape that of the last state
  double *tangents;                 // (steps + 1) x n
  double *moved;                    // steps x 3 nv: how accelerations of stages change; NULL: steps have one
  double *bar, *bar_tangent;        // n: cotangent of the state at hand, and how it changes
  double *before, *before_tangent;  // n: the same of the state before
  double *x, *x_before;             // nx
} Stretch;

static pbStatus refuse(const pbRollout *r, const char *what) {
  return pbContext_Fail(r->ctx, pb_bad_input, "second derivatives of a rollout: %s", what);
}

static pbStatus check(const pbRollout *r, const pbRolloutSecond *second) {
  static const pbRolloutDirection still;
  const pbRolloutDirection *d = second->direction ? second->direction : &still;
  const pbRolloutGradient *g = &second->gradient;
  if (!r->ran) return pbContext_Fail(r->ctx, pb_bad_argument, "second derivatives need a rollout that ran to its end first");

  // By what the rollout and its model have.
  if (r->gradient != pb_gradientExact) return refuse(r, "of the gradient 'exact' alone");
  const char *what = pbSecond_Lacks(r->model);
  if (what) return pbContext_Fail(r->ctx, pb_bad_input, "second derivatives of a rollout: %s none", what);

  // By what is asked for.
  bool moves_mocap = d->mocap_pos || d->mocap_rot || d->mocap_vel || d->mocap_pos_before || d->mocap_rot_before;
  bool by_mocap = g->mocap_pos || g->mocap_rot || g->mocap_vel || g->mocap_pos_before || g->mocap_rot_before;
  if (moves_mocap || by_mocap) return refuse(r, "not by poses of mocap bodies");
  if (d->command || g->command) return refuse(r, "not by commands");
  if (g->theta) return refuse(r, "not by parameters, which a direction may move");

  PB_TRY(second->bar ? pbRolloutBar_Check(r, second->bar) : pb_ok);
  return second->bar_tangent ? pbRolloutBar_Check(r, second->bar_tangent) : pb_ok;
}

static const double *row(const double *data, int k, int width) { return data ? data + (size_t)k * (size_t)width : NULL; }
static double *out_row(double *data, int k, int width) { return data ? data + (size_t)k * (size_t)width : NULL; }

// Along the state's tangent and the direction's inputs at state k.
static pbDirection direction_at(const Stretch *s, int k) {
  const pbRollout *r = s->r;
  const pbRolloutDirection *d = s->second->direction;
  pbDirection out = {.x = s->tangents + (size_t)k * (size_t)r->n};
  PB_ASSERT(k >= 0 && k <= r->plan.steps);
  if (!d) return out;

  out.theta = d->theta;
  if (r->plan.steps == 0 && !r->input.constant) return out;

  // Inputs of a direction have the rows of the inputs themselves.
  k = pbRollout_InputRow(r, k);
  out.ctrl = row(d->ctrl, k, r->nu);
  out.qfrc = row(d->qfrc, k, r->nv);
  out.xfrc = row(d->xfrc, k, 6 * r->nbody);
  return out;
}

static double *record_at(const Stretch *s, int k) {
  const pbRollout *r = s->r;

  if (!s->taped) return s->records + (size_t)k * (size_t)r->nrecord;
  return k < r->plan.steps ? pbRollout_RecordAt(r, k) : s->records;
}

// The record of state k, which is s->x, and the next state.
static pbStatus make_record(Stretch *s, int k, const pbInput *input) {
  pbRollout *r = s->r;
  bool last = k == r->plan.steps;
  memcpy(s->x_before, s->x, (size_t)r->nx * sizeof *s->x);

  if (s->taped && !last) {
    memcpy(s->x, k + 1 < r->plan.steps ? pbRollout_RecordAt(r, k + 1) : r->x_final, (size_t)r->nx * sizeof *s->x);
    return pb_ok;
  }

  // From the last state there is no step: it is looked at.
  if (last) {
    pbStatus status = pbStep_Observe(r->model, r->theta, s->x, input, r->scratch, NULL);
    if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));
  } else PB_TRY(pbRollout_StepChecked(r, r->theta, s->x, input, k, NULL));
  pbTape_Record(r->model, s->x_before, r->scratch, record_at(s, k));
  PB_ASSERT(record_at(s, k)[0] == s->x_before[0]);
  return pb_ok;
}

// State k, which is s->x: its record and, but of the last, the next state with its tangent.
static pbStatus push(Stretch *s, int k) {
  pbRollout *r = s->r;
  pbInput input = pbRollout_InputAt(r, k);
  PB_TRY(make_record(s, k, &input));

  if (k == r->plan.steps) return pb_ok;

  const double *record = record_at(s, k);
  pbDirection d = direction_at(s, k);
  const pbStepRecord step = {.model = r->model, .theta = r->theta, .record = record, .input = &input};
  const pbStepTangent out = {.next = s->tangents + (size_t)(k + 1) * (size_t)r->n};
  PB_TRY(pbRollout_PushOne(r, r->scratch, k, &step, s->x_before, s->x, &d, &out));
  if (s->moved) pbJvp_Stages(r->scratch->complex_work, s->moved + (size_t)k * 3 * (size_t)r->nv);
  return pb_ok;
}

// Cotangents of what is seen of state k; false: there are none.
static bool seen_at(const pbRollout *r, const pbRolloutBar *bar, int k, pbObservationBar *seen) {
  int steps = r->plan.steps;
  *seen = (pbObservationBar){0};
  if (!bar) return false;

  seen->sensordata = pbCotangent_At(&bar->sensordata, r->ns, k, steps);
  seen->xpos = pbCotangent_At(&bar->xpos, 3 * r->nbody, k, steps);
  seen->site_xpos = pbCotangent_At(&bar->site_xpos, 3 * r->nsite, k, steps);
  return seen->sensordata || seen->xpos || seen->site_xpos;
}

static void add(double *to, const double *from, int n) {
  if (!from) return;
  PB_ASSERT(n >= 0);

  for (int i = 0; i < n; i++) to[i] += from[i];
}

// What the caller's cotangents say of state k itself.
static void add_direct(const pbRollout *r, const pbRolloutBar *bar, int k, double *x_bar) {
  int steps = r->plan.steps;
  if (!bar) return;
  PB_ASSERT(r->np == 0);

  // In the order of the tangent space.
  add(x_bar, pbCotangent_At(&bar->qpos, r->nv, k, steps), r->nv);
  add(x_bar + r->nv, pbCotangent_At(&bar->qvel, r->nv, k, steps), r->nv);
  add(x_bar + 2 * r->nv, pbCotangent_At(&bar->act, r->na, k, steps), r->na);
  add(x_bar, pbCotangent_At(&bar->x, r->n, k, steps), r->n);
}

// The cotangent of state k + 1, and of what is seen at state k, to state k.
static pbStatus pull(Stretch *s, int k) {
  pbRollout *r = s->r;
  const pbRolloutSecond *second = s->second;
  bool last = k == r->plan.steps;
  pbInput input = pbRollout_InputAt(r, k);
  pbDirection d = direction_at(s, k);
  const pbStepRecord step = {.model = r->model, .theta = r->theta, .record = record_at(s, k), .input = &input};

  memset(s->before, 0, (size_t)r->n * sizeof *s->before);
  memset(s->before_tangent, 0, (size_t)r->n * sizeof *s->before_tangent);

  // Of the last state only what is seen there.
  pbSecond one = {.direction = &d, .next = last ? NULL : s->bar, .next_tangent = last ? NULL : s->bar_tangent};
  one.x = s->before_tangent;
  if (r->plan.steps > 0 || r->input.constant) {
    int at = pbRollout_InputRow(r, k);
    one.input.ctrl = out_row(second->gradient.ctrl, at, r->nu);
    one.input.qfrc = out_row(second->gradient.qfrc, at, r->nv);
    one.input.xfrc = out_row(second->gradient.xfrc, at, 6 * r->nbody);
  }

  bool seen = seen_at(r, second->bar, k, &one.observed);
  seen = seen_at(r, second->bar_tangent, k, &one.observed_tangent) || seen;
  if (last && !seen) return pb_ok;
  pbStatus status = pbStep_SecondRecord(r->scratch, &step, last ? NULL : row(s->moved, k, 3 * r->nv), &one, s->before);
  return status == pb_ok ? pb_ok : pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));
}

static pbStatus pull_all(Stretch *s) {
  pbRollout *r = s->r;
  for (int k = r->plan.steps; k >= 0; k--) {
    PB_TRY(pull(s, k));
    add_direct(r, s->second->bar, k, s->before);
    add_direct(r, s->second->bar_tangent, k, s->before_tangent);

    // What was the state before is the one at hand.
    double *bar = s->bar, *tangent = s->bar_tangent;
    s->bar = s->before;
    s->bar_tangent = s->before_tangent;
    s->before = bar;
    s->before_tangent = tangent;
    if (pbProgressMeter_Step(&r->meter)) return pbRollout_Stopped(r, k);
  }

  return pb_ok;
}

// As a function of the coordinates w of x0 exp(w), whose gradient is Jr(w)' bar, Jr' = 1 + [w]x / 2 + ...
static void turn_start(const Stretch *s, double *x0) {
  const pbModel *m = s->r->model;
  for (int j = 0; j < m->njnt; j++) {
    if (!pbJoint_HasRotation(m->jnt_type[j])) continue;
    int at = m->jnt_dofadr[j] + pbJoint_PlainCount(m->jnt_type[j]);
    PB_ASSERT(at + 3 <= m->nv);
    const double *w = s->tangents + at, *v = s->bar + at;
    for (int i = 0; i < 3; i++) {
      int next = (i + 1) % 3, last = (i + 2) % 3;
      x0[at + i] += 0.5 * (w[next] * v[last] - w[last] * v[next]);
    }
  }
}

static pbStatus run(Stretch *s) {
  pbRollout *r = s->r;
  const pbRolloutDirection *d = s->second->direction;
  memcpy(s->x, r->x0, (size_t)r->nx * sizeof *s->x);
  if (d && d->x0) memcpy(s->tangents, d->x0, (size_t)r->n * sizeof *s->tangents);

  // There, and back.
  if (pbProgressMeter_Begin(&r->meter, "second derivatives", 2 * (int64_t)r->plan.steps + 1)) return pbRollout_Stopped(r, 0);
  for (int k = 0; k <= r->plan.steps; k++) {
    PB_TRY(push(s, k));
    if (k < r->plan.steps && pbProgressMeter_Step(&r->meter)) return pbRollout_Stopped(r, k);
  }

  PB_TRY(pull_all(s));

  double *x0 = s->second->gradient.x0;
  if (!x0) return pb_ok;
  add(x0, s->bar_tangent, r->n);
  turn_start(s, x0);
  return pb_ok;
}

pbStatus pbRollout_Second(pbRollout *r, const pbRolloutSecond *second) {
  PB_TRY(check(r, second));
  PB_TRY(pbRollout_Ready(r));
  size_t states = (size_t)r->plan.steps + 1, n = (size_t)r->n, nx = (size_t)r->nx;
  bool taped = r->tape_fresh && r->leaf_from == 0 && r->plan.leaf >= r->plan.steps && r->plan.steps > 0;
  bool staged = r->model->integrator == pb_intRK4;
  size_t records = (taped ? 1 : states) * (size_t)r->nrecord, moved = staged ? states * 3 * (size_t)r->nv : 0;

  double *room = pbContext_AllocArray(r->ctx, records + states * n + moved + 4 * n + 2 * nx, sizeof *room);
  if (!room) return pbContext_Fail(r->ctx, pb_no_memory, "second derivatives: no memory for %d steps", r->plan.steps);

  // Laid out one after the other.
  Stretch s = {.r = r, .second = second, .taped = taped, .records = room};
  s.tangents = s.records + records;
  s.moved = staged ? s.tangents + states * n : NULL;
  s.bar = s.tangents + states * n + moved;
  s.bar_tangent = s.bar + n;
  s.before = s.bar_tangent + n;
  s.before_tangent = s.before + n;
  s.x = s.before_tangent + n;
  s.x_before = s.x + nx;
  memset(s.tangents, 0, (states * n + moved + 4 * n) * sizeof *room);

  pbStatus status = run(&s);
  pbContext_Free(r->ctx, room);
  return status;
}
