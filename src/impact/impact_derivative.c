// Derivatives of a step with impacts: those of flights and impacts one after the other, with the times of the impacts, which
// move with the gaps (docs/contact-gradients.md).
// Tests: tests/unit/test_mocap_rate.c, tests/unit/test_impact.c, tests/python/test_prescribed.py.
#include "impact/impact_parts.h"

#include "impact/impact_jvp.h"
#include "model/mocap.h"
#include "step/jvp.h"

static double dot(const double *a, const double *b, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

static void add(double *to, const double *from, int n) {
  for (int i = 0; i < n; i++) to[i] += from[i];
}

static const char reverse[] = "pullback";
static const char forward[] = "forward derivative";

// What failed in a derivative.
static pbStatus explain(pbScratch *s, pbStatus status, const char *what) {
  return status == pb_ok ? status : pbScratch_Fail(s, status, "%s: %s", what, pbStatus_Text(status));
}

// ---- reverse --------------------------------------------------------------------------------------------------------
// Flights of a recorded step, computed again.
static pbStatus replay(pbScratch *s, const pbStepRecord *step) {
  return pbImpacts_Fly(s, step->theta, step->record, step->input, false);
}

// Pullback of a flight: x_bar becomes the cotangent of its start. *time_bar: that of its time.
static pbStatus pull_flight(pbScratch *s, const pbFlight *f, const pbInput *input, const pbStepBar *out, double *time_bar) {
  const pbModel *m = s->model;
  pbImpacts *p = s->impacts;
  size_t nv = (size_t)m->nv;
  double *x = p->x_bar;
  double *start = p->pulled;
  pbPullback b = {.q_next = x,
                  .v_next = x + nv,
                  .act_next = x + 2 * nv,
                  .q = start,
                  .v = start + nv,
                  .act = start + 2 * nv,
                  .theta = out->theta};

  if (out->input) {
    b.ctrl = out->input->ctrl;
    b.qfrc = out->input->qfrc;
    b.xfrc = out->input->xfrc;
    b.mocap_pos = out->input->mocap_pos;
    b.mocap_rot = out->input->mocap_rot;
    b.mocap_vel = out->input->mocap_vel;
  }

  // The flight's time is the kernels' time step.
  double *step_bar = out->theta + pb_timestepAt(m);
  double before = *step_bar;
  memset(start, 0, pb_tangentBytes(m));
  *step_bar = 0;
  pbImpacts_SetTime(s, f->time);
  pbScratch_Load(s, p->theta, f->start, input);
  PB_TRY(explain(s, s->variant->vjp_one(s->adjoint_one, &s->w, f->stages, &b), reverse));
  *time_bar = *step_bar;
  *step_bar = before;

  // What was the result is the next cotangent.
  p->x_bar = start;
  p->pulled = x;

  return pb_ok;
}

// tangent := D(flight) along a direction.
static pbStatus push_along(pbScratch *s, const pbFlight *f, const pbInput *input, const pbDirection *direction, double *tangent) {
  const pbModel *m = s->model;
  const pbStepRecord step = {.model = m, .theta = s->impacts->theta, .record = f->start, .input = input};

  memcpy(s->stages, f->stages, pb_stageBytes(m));
  pbImpacts_SetTime(s, f->time);
  pbStatus status = pbJvp_Run(s->complex_work, &step, s->stages, direction, true, &(pbStepTangent){.next = tangent});

  return explain(s, status, forward);
}

// Motion of the state by a flight's time, at its end.
static pbStatus motion_by_time(pbScratch *s, const pbFlight *f, const pbInput *input) {
  pbImpacts *p = s->impacts;
  memset(p->direction, 0, s->model->ntheta * sizeof(double));
  // The flight's time is the time step of its kernels.
  p->direction[pb_timestepAt(s->model)] = 1;
  return push_along(s, f, input, &(pbDirection){.theta = p->direction}, p->by_time);
}

// Cotangents of where bodies that are led stand at an instant, a time `span` from their pose: to pose and velocity, to the step,
// and to the time of the step that is over.
static void pull_poses(pbScratch *s, double span, const pbStepBar *out, double *over_bar) {
  const pbModel *m = s->model;
  pbImpacts *p = s->impacts;
  size_t n = 3 * (size_t)m->nmocap;
  const double *pos = p->pose_bar, *rot = pos + n, *vel = rot + n;
  const pbInputBar *to = out->input;
  double along;
  if (!n) return;

  // Along the path: what the instant's time moves them by.
  PB_ASSERT(out->theta && over_bar);
  pbMocap_Flow(m, s->w.mocap_quat, s->w.mocap_vel, p->flow, p->flow + n);
  along = dot(p->pose_bar, p->flow, 2 * (int)n);
  *over_bar += along;
  out->theta[pb_timestepAt(m)] -= along;

  // At held time: the pose itself, and the velocity over the span.
  if (to && to->mocap_pos) add(to->mocap_pos, pos, (int)n);
  if (to && to->mocap_rot) add(to->mocap_rot, rot, (int)n);
  if (!to || !to->mocap_vel) return;
  add(to->mocap_vel, vel, 2 * (int)n);
  pbMocap_PullMove(m, s->w.mocap_quat, s->w.mocap_vel, span, pos, rot, to->mocap_vel);
}

// Pullback of the impact at the end of a flight: x_bar becomes the cotangent of the state before it, the share of its time
// included. *over_bar: cotangent of the time of the step that is over then, and becomes that of the flight's start.
static pbStatus pull_impact(pbScratch *s, const pbFlight *f, const pbInput *input, const pbStepBar *out, double *over_bar) {
  const pbModel *m = s->model;
  pbImpacts *p = s->impacts;
  int nv = m->nv;
  size_t n = 3 * (size_t)m->nmocap;
  double *q = p->x_bar;
  double *v = q + nv;
  double span = pb_spanAt(p, f->begun + f->time);

  if (f->timed) PB_TRY(motion_by_time(s, f, input));

  // The velocity after, at a given time
  memcpy(p->v_bar, v, (size_t)nv * sizeof(double));
  memset(p->pose_bar, 0, 4 * n * sizeof(double));
  pbPullback b = {.v_next = p->v_bar,
                  .q = q,
                  .v = v,
                  .theta = out->theta,
                  .mocap_pos = p->pose_bar,
                  .mocap_rot = p->pose_bar + n,
                  .mocap_vel = p->pose_bar + 2 * n};

  pbImpacts_SetTime(s, 0);
  pbScratch_Load(s, p->theta, f->end, input);
  s->variant->impact->stand(&s->w, span);
  pbStatus status = s->variant->impact->vjp_impact(s->adjoint_one, &s->w, f->candidate, f->point, &b, p->slope);
  PB_TRY(explain(s, status, reverse));
  pull_poses(s, span, out, over_bar);
  if (!f->timed) return pb_ok;

  // The time, at which the gap is zero: dt = -dgap / (rate of the gap by the time)
  double time_bar = dot(p->x_bar, p->by_time, pbModel_TangentSize(m)) + *over_bar;
  double rate = dot(p->slope, p->by_time, nv) + p->slope[nv];
  memset(p->pose_bar, 0, 4 * n * sizeof(double));
  s->variant->impact->vjp_gap(s->adjoint_one, &s->w, f->point, -time_bar / rate, &b);
  pull_poses(s, span, out, over_bar);

  return pb_ok;
}

// From x_bar after the step to x_bar before it.
static pbStatus pull_step(pbScratch *s, const pbInput *input, const pbStepBar *out) {
  pbImpacts *p = s->impacts;
  double rest_bar, time_bar;

  // The last flight has the time that is left: a later impact shortens it.
  PB_TRY(pull_flight(s, p->flight + p->count, input, out, &rest_bar));
  double over_bar = -rest_bar;
  for (int i = p->count - 1; i >= 0; i--) {
    const pbFlight *f = p->flight + i;
    PB_TRY(pull_impact(s, f, input, out, &over_bar));
    // Its time is that of the gap's root, which pull_impact has taken into account.
    if (f->time > 0) PB_TRY(pull_flight(s, f, input, out, &time_bar));
  }
  // A longer step lengthens the last flight.
  out->theta[pb_timestepAt(s->model)] += rest_bar;

  return pb_ok;
}

pbStatus pbImpacts_Vjp(pbScratch *s, const pbStepRecord *step, const double *next_bar, const pbStepBar *given) {
  const pbModel *m = s->model;
  pbImpacts *p = s->impacts;
  pbStepBar out = *given;

  PB_TRY(replay(s, step));

  memcpy(p->x_bar, next_bar, pb_tangentBytes(m));
  // Kernels add to some theta always: the cotangent of a flight's time is there.
  if (!out.theta) {
    memset(p->unused, 0, m->ntheta * sizeof(double));
    out.theta = p->unused;
  }
  PB_TRY(pull_step(s, step->input, &out));
  add(out.x, p->x_bar, pbModel_TangentSize(m));

  return pb_ok;
}

pbStatus pbImpacts_Jacobian(pbScratch *s, const pbStepRecord *step, unsigned by, double *A, double *B) {
  const pbModel *m = s->model;
  pbImpacts *p = s->impacts;
  size_t n = (size_t)pbModel_TangentSize(m);
  size_t columns = (size_t)pbModel_Columns(m, by), poses = 3 * (size_t)m->nmocap;

  PB_TRY(replay(s, step));
  for (size_t i = 0; i < n; i++) {
    pbInputBar bar = {0};
    double *next = B + i * columns;

    // The row itself: by controls, by positions, by rotations of mocap bodies
    if (B) memset(next, 0, columns * sizeof(double));
    if (B && by & pb_byControl) bar.ctrl = next;
    if (by & pb_byControl) next += m->nu;
    if (B && by & pb_byMocapPos) bar.mocap_pos = next;
    if (by & pb_byMocapPos) next += poses;
    if (B && by & pb_byMocapRot) bar.mocap_rot = next;

    // One row: the pullback of a unit cotangent
    memset(p->x_bar, 0, n * sizeof(double));
    memset(p->unused, 0, m->ntheta * sizeof(double));
    p->x_bar[i] = 1;
    PB_TRY(pull_step(s, step->input, &(pbStepBar){.input = &bar, .theta = p->unused}));
    if (A) memcpy(A + i * n, p->x_bar, n * sizeof(double));
  }

  return pb_ok;
}

// ---- forward derivatives --------------------------------------------------------------------------------------------
// tangent := D(flight) (tangent, direction), the flight's time moving at `rate`.
static pbStatus push_flight(pbScratch *s, const pbFlight *f, const pbInput *input, const pbDirection *d, double rate) {
  const pbModel *m = s->model;
  pbImpacts *p = s->impacts;

  if (d->theta) memcpy(p->direction, d->theta, m->ntheta * sizeof(double));
  else memset(p->direction, 0, m->ntheta * sizeof(double));
  p->direction[pb_timestepAt(m)] = rate;

  pbDirection along = *d;
  // With the tangent of the flight's start
  along.x = p->tangent;
  along.theta = p->direction;
  PB_TRY(push_along(s, f, input, &along, p->moved));
  memcpy(p->tangent, p->moved, pb_tangentBytes(m));

  return pb_ok;
}

// tangent := that of the state after the impact. *rate: of the time left.
static pbStatus push_impact(pbScratch *s, const pbFlight *f, const pbInput *input, const pbDirection *d, double *rate) {
  pbImpacts *p = s->impacts;
  int nv = s->model->nv;
  // At held time bodies that are led stand where they do but for what is left of the step; with the time they go on.
  pbImpactAt impact = {p->theta, f->end, input, f->candidate, f->point, pb_spanAt(p, f->begun + f->time), 1};
  double gap, closing;

  // Motion by the time: the gap's rate, and what the impact makes of the velocity
  if (f->timed) {
    const pbDirection later = {.x = p->by_time};
    PB_TRY(motion_by_time(s, f, input));
    pbImpacts_SetTime(s, 0);
    PB_TRY(explain(s, pbJvp_Impact(s->complex_work, &impact, &later, &closing, p->v_bar), forward));
  }

  // The velocity after, at a given time
  const pbDirection along = {
      .x = p->tangent, .theta = d->theta, .mocap_pos = d->mocap_pos, .mocap_rot = d->mocap_rot, .mocap_vel = d->mocap_vel};
  impact.span_rate = -*rate;
  pbImpacts_SetTime(s, 0);
  PB_TRY(pbJvp_Impact(s->complex_work, &impact, &along, &gap, p->moved));
  memcpy(p->tangent + nv, p->moved, (size_t)nv * sizeof(double));
  if (!f->timed) return pb_ok;

  // The time, at which the gap is zero
  double later = -gap / closing;
  memcpy(p->by_time + nv, p->v_bar, (size_t)nv * sizeof(double));
  for (int i = 0; i < pbModel_TangentSize(s->model); i++) p->tangent[i] += later * p->by_time[i];
  *rate -= later;

  return pb_ok;
}

pbStatus pbImpacts_Jvp(pbScratch *s, const pbStepRecord *step, const pbDirection *d, double *next) {
  const pbModel *m = s->model;
  pbImpacts *p = s->impacts;
  double rate = d->theta ? d->theta[pb_timestepAt(m)] : 0;

  PB_TRY(replay(s, step));

  if (d->x) memcpy(p->tangent, d->x, pb_tangentBytes(m));
  else memset(p->tangent, 0, pb_tangentBytes(m));
  for (int i = 0; i < p->count; i++) {
    const pbFlight *f = p->flight + i;
    // Up to the impact at held time, then with the time's tangent
    if (f->time > 0) PB_TRY(push_flight(s, f, step->input, d, 0));
    PB_TRY(push_impact(s, f, step->input, d, &rate));
  }
  PB_TRY(push_flight(s, p->flight + p->count, step->input, d, rate));
  memcpy(next, p->tangent, pb_tangentBytes(m));

  return pb_ok;
}
