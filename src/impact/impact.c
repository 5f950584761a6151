#include "impact/impact.h"
#include "impact/impact_jvp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "impact/variants.h"
#include "step/jvp.h"
#include "step/scratch.h"
#include "model/topology.h"

enum { MOST = 128 };            // impacts in a step
static const double reach = 1;  // m: gaps are looked at up to here

// From `start` for a time to `flown`; there, but for the last of a step, contact `point` of a candidate strikes.
typedef struct flight {
  double time;
  int candidate, point;
  bool timed;  // the moment of the strike moves with the gap; false: the geoms were deep in each other, and strike at once
  double *start, *flown, *stages;
} flight;

struct pbImpacts {
  int count, simultaneous;  // of the last step
  int gains, gaining[2];    // impacts that made energy, geoms of the worst, and its joules
  double approach, residual, gain;
  bool converged;  // every solve of its flights
  flight flight[MOST + 1];
  pbTouch *now, *then;  // at a flight's start, and after it
  int most, now_count, then_count;
  double *theta, *direction, *unused;  // ntheta: theta with a flight's time step; one of its directions; a gradient not wanted
  double *stages;                      // of the evaluation at the start of the step
  double *x_bar, *pulled, *by_time, *slope;  // tangent size, and nv: cotangents, motion by a flight's time, slope of a gap
  double *v_bar, *tangent, *moved;
};

// ---- memory ---------------------------------------------------------------------------------------------------------
static double *take(double *block, size_t *used, size_t count) {
  double *at = block ? block + *used : NULL;
  *used += count;
  return at;
}

static size_t carve(pbImpacts *p, const pbModel *m, double *block) {
  size_t used = 0, nx = (size_t)pbModel_StateSize(m), n = (size_t)pbModel_TangentSize(m);
  size_t stages = (size_t)(pb_stages(m) * m->nv);
  for (int i = 0; i <= MOST; i++) {
    flight *f = &p->flight[i];
    f->start = take(block, &used, nx), f->flown = take(block, &used, nx), f->stages = take(block, &used, stages);
  }
  p->theta = take(block, &used, m->ntheta), p->direction = take(block, &used, m->ntheta);
  p->unused = take(block, &used, m->ntheta), p->stages = take(block, &used, stages);
  p->x_bar = take(block, &used, n), p->pulled = take(block, &used, n), p->by_time = take(block, &used, n);
  p->slope = take(block, &used, (size_t)m->nv), p->v_bar = take(block, &used, n);
  p->tangent = take(block, &used, n), p->moved = take(block, &used, n);
  return used;
}

pbStatus pbImpacts_Create(pbScratch *s, int contacts) {
  pbContext *ctx = s->ctx;
  pbImpacts probe, *p = s->impacts = pbContext_Alloc(ctx, sizeof *p);
  if (!p) return pb_no_memory;
  p->most = contacts;
  p->flight[0].start = pbContext_AllocArray(ctx, carve(&probe, s->model, NULL), sizeof(double));
  p->now = pbContext_AllocArray(ctx, (size_t)(2 * contacts + 1), sizeof *p->now);
  if (!p->flight[0].start || !p->now) return pb_no_memory;
  p->then = p->now + contacts;
  carve(p, s->model, p->flight[0].start);
  return pb_ok;
}

void pbImpacts_Destroy(pbScratch *s) {
  pbContext *ctx = s->ctx;
  if (!s->impacts) return;
  pbContext_Free(ctx, s->impacts->flight[0].start);
  pbContext_Free(ctx, s->impacts->now);
  pbContext_Free(ctx, s->impacts);
}

int pbImpacts_Count(const pbScratch *s) { return s->impacts->count; }
void pbImpacts_Forget(pbScratch *s) { s->impacts->count = 0; }
int pbImpacts_Recorded(const pbScratch *s, const double *record) {
  return s->impacts ? (int)record[pbTape_Size(s->model) - 1] : 0;
}

// ---- flights --------------------------------------------------------------------------------------------------------
static size_t timestep_at(const pbModel *m) { return (size_t)(m->timestep - m->theta0); }

static void set_time(pbScratch *s, double time) { s->impacts->theta[timestep_at(s->model)] = time; }

// Work and flown: the state after `time`.
static pbStatus fly(pbScratch *s, flight *f, const pbInput *input, double time, bool sense) {
  set_time(s, time);
  f->time = time;
  pbScratch_Load(s, s->impacts->theta, f->start, input);
  PB_TRY(pbScratch_Run(s, sense, true));
  s->impacts->residual = fmax(s->impacts->residual, s->report.residual);
  s->impacts->converged = s->impacts->converged && s->report.converged;
  pbScratch_State(s, f->start[state_layout(s->model).time] + time, f->flown);
  return pb_ok;
}

// Contacts near touch at a state.
static pbStatus look(pbScratch *s, const double *x, const pbInput *input, pbTouch *touch, int *count) {
  pbScratch_Load(s, s->impacts->theta, x, input);
  *count = s->variant->impact->look(&s->w, PB_TOUCH, s->impacts->most, touch);
  if (*count >= 0) return pb_ok;
  return pbScratch_Fail(s, pb_capacity, "more than %d contacts at time %.9g", s->impacts->most, s->w.time);
}

static const char *geom_name(const pbScratch *s, int geom, char text[96]) {
  const char *name = pbModel_Name(s->model, pb_objGeom, geom);
  if (name && *name) snprintf(text, 96, "'%.80s'", name);
  else snprintf(text, 96, "%d", geom);
  return text;
}

static pbStatus resting(pbScratch *s, const double *x, int candidate, const char *how) {
  const pbCandidate *c = s->model->topology->candidate + candidate;
  char first[96], second[96];
  return pbScratch_Fail(s, pb_no_convergence,
                        "geoms %s and %s %s at time %.9g: impacts alone cannot hold a contact, contact method soft can",
                        geom_name(s, c->geom1, first), geom_name(s, c->geom2, second), how, x[state_layout(s->model).time]);
}

// Smallest gap and rate of a candidate in a list; false: it is not there.
static bool nearest(const pbTouch *list, int count, int candidate, double *gap, double *rate) {
  bool found = false;
  for (int i = 0; i < count; i++) {
    if (list[i].candidate != candidate) continue;
    *gap = found ? fmin(*gap, list[i].gap) : list[i].gap;
    *rate = found ? fmin(*rate, list[i].rate) : list[i].rate;
    found = true;
  }
  return found;
}

// The contact that approaches fastest, of one candidate or of all (-1); -1 where none does.
static int fastest(const pbTouch *list, int count, int candidate) {
  int best = -1;
  for (int i = 0; i < count; i++) {
    if (candidate >= 0 && list[i].candidate != candidate) continue;
    if (list[i].rate < -PB_REST && (best < 0 || list[i].rate < list[best].rate)) best = i;
  }
  return best;
}

// The candidate that went deepest during the flight, of those that were not in each other at its start; -1: none.
static int deepest(const pbImpacts *p) {
  double most = -PB_TOUCH, gap, rate;
  int found = -1;
  for (int i = 0; i < p->then_count; i++) {
    const pbTouch *t = p->then + i;
    gap = 0;
    if (!(t->gap < most)) continue;
    if (nearest(p->now, p->now_count, t->candidate, &gap, &rate) && gap < -PB_TOUCH) continue;
    most = t->gap, found = t->candidate;
  }
  return found;
}

// ---- the moment of touch --------------------------------------------------------------------------------------------
// Gap of a candidate after a time; of one that touches at the start, divided by the time, so that the start is no root.
static pbStatus gap_after(pbScratch *s, flight *f, const pbInput *input, int candidate, bool touched, double time, double *gap) {
  PB_TRY(fly(s, f, input, time, false));
  *gap = s->variant->impact->gap(&s->w, candidate, reach) / (touched ? time : 1);
  return pb_ok;
}

// Root between 0, where the gap is `open` > 0, and `end`, where it is not, to rounding (Brent 1973: zeroin).
static pbStatus touch_time(pbScratch *s, flight *f, const pbInput *input, int candidate, bool touched, double open, double end,
                           double *time) {
  double a = 0, fa = open, b = end, fb, c, fc, d, e;
  PB_TRY(gap_after(s, f, input, candidate, touched, b, &fb));
  c = a, fc = fa, d = e = b - a;
  for (int i = 0; i < 200; i++) {
    if ((fb > 0) == (fc > 0)) c = a, fc = fa, d = e = b - a;
    if (fabs(fc) < fabs(fb)) {
      a = b, b = c, c = a;
      fa = fb, fb = fc, fc = fa;
    }
    double tolerance = 2.3e-16 * fabs(b), m = 0.5 * (c - b);
    if (fabs(m) <= tolerance || fb == 0) break;
    if (fabs(e) < tolerance || fabs(fa) <= fabs(fb)) {
      d = e = m;
    } else {
      double r = fb / fa, p, q;
      if (a == c) {
        p = 2 * m * r, q = 1 - r;
      } else {
        double u = fa / fc, v = fb / fc;
        p = r * (2 * m * u * (u - v) - (b - a) * (v - 1)), q = (u - 1) * (v - 1) * (r - 1);
      }
      if (p > 0) q = -q;
      else p = -p;
      bool good = 2 * p < fmin(3 * m * q - fabs(tolerance * q), fabs(e * q));
      e = good ? d : m, d = good ? p / q : m;
    }
    a = b, fa = fb;
    b += fabs(d) > tolerance ? d : m > 0 ? tolerance : -tolerance;
    PB_TRY(gap_after(s, f, input, candidate, touched, b, &fb));
  }
  *time = b;
  return pb_ok;
}

// Shorten the flight, which ends in an overlap, to the first touch.
static pbStatus first_touch(pbScratch *s, flight *f, const pbInput *input, int *candidate) {
  pbImpacts *p = s->impacts;
  for (int next = deepest(p); next >= 0; next = deepest(p)) {
    double gap = reach, rate = 0, time, end = f->time;
    *candidate = next;
    bool touched = nearest(p->now, p->now_count, next, &gap, &rate);
    if (touched && !(rate > PB_REST)) return resting(s, f->start, next, "come to rest on each other");
    if (!touched) {
      pbScratch_Load(s, p->theta, f->start, input);
      gap = s->variant->impact->gap(&s->w, next, reach);
    }
    PB_TRY(touch_time(s, f, input, next, touched, touched ? rate : gap, end, &time));
    PB_TRY(fly(s, f, input, time, false));
    PB_TRY(look(s, f->flown, input, p->then, &p->then_count));
    if (time >= end) break;
  }
  return pb_ok;
}

// Impact of a contact in a list of those that touch.
static void set_strike(pbImpacts *p, flight *f, const pbTouch *list, int count, int index) {
  f->candidate = list[index].candidate, f->point = list[index].point;
  p->approach = fmin(p->approach, -list[index].rate);
  for (int i = 0; i < count; i++) {
    if (i == index || !(list[i].rate < -PB_REST)) continue;
    p->simultaneous++;
    break;
  }
}

// ---- the step -------------------------------------------------------------------------------------------------------
// Flight i up to its strike, or to the end of the step. False in *strikes: the latter.
static pbStatus next_touch(pbScratch *s, flight *f, const pbInput *input, double left, bool sense, bool *strikes) {
  pbImpacts *p = s->impacts;
  int point, candidate = -1;
  PB_TRY(fly(s, f, input, left, sense));
  memcpy(f->stages, s->stages, (size_t)(pb_stages(s->model) * s->model->nv) * sizeof(double));
  PB_TRY(look(s, f->start, input, p->now, &p->now_count));
  point = fastest(p->now, p->now_count, -1);
  *strikes = true;
  f->timed = true;
  if (point >= 0) {  // at once
    set_strike(p, f, p->now, p->now_count, point);
    f->time = 0, f->timed = p->now[point].gap >= -PB_TOUCH;
    memcpy(f->flown, f->start, (size_t)pbModel_StateSize(s->model) * sizeof(double));
    return pb_ok;
  }
  PB_TRY(look(s, f->flown, input, p->then, &p->then_count));
  if (deepest(p) < 0) {
    *strikes = false;
    return pb_ok;
  }
  PB_TRY(first_touch(s, f, input, &candidate));
  point = fastest(p->then, p->then_count, candidate);
  if (point < 0)
    return resting(s, f->flown, candidate,
                   "touch without approaching (they graze, rest, or bounce within one step of an integrator other than RK4)");
  set_strike(p, f, p->then, p->then_count, point);
  return pb_ok;
}

// Kinetic energy after an impact less that before, (w + v)' M (w - v) / 2, where it is more than rounding; v: the velocities before.
static void note_energy(pbScratch *s, const flight *f, const double *v) {
  pbImpacts *p = s->impacts;
  pbWork_r *w = &s->w;
  const pbCandidate *pair = s->model->topology->candidate + f->candidate;
  double gain = 0, before = 0;
  for (int i = 0; i < s->model->nv; i++) w->tmp[i] = w->qvel[i] - v[i];
  pbTree_Mul_r(&w->t->M, w->M, w->tmp, w->Mstep);
  for (int i = 0; i < s->model->nv; i++) gain += 0.5 * (w->qvel[i] + v[i]) * w->Mstep[i];
  pbTree_Mul_r(&w->t->M, w->M, v, w->Mstep);
  for (int i = 0; i < s->model->nv; i++) before += 0.5 * v[i] * w->Mstep[i];
  if (!(gain > 1e-9 * before)) return;
  p->gains++;
  if (gain <= p->gain) return;
  p->gain = gain, p->gaining[0] = pair->geom1, p->gaining[1] = pair->geom2;
}

static pbStatus strike(pbScratch *s, const flight *f, const pbInput *input, double *after) {
  const pbModel *m = s->model;
  set_time(s, 0);
  pbScratch_Load(s, s->impacts->theta, f->flown, input);
  pbStatus status = s->variant->impact->change(&s->w, f->candidate, f->point);
  if (status == pb_singular) return pbScratch_Explain(s, status);
  if (status != pb_ok) return resting(s, f->flown, f->candidate, "strike without a solution of Coulomb's law");
  note_energy(s, f, f->flown + state_layout(m).qvel);
  memcpy(after, f->flown, (size_t)pbModel_StateSize(m) * sizeof(double));
  memcpy(after + state_layout(m).qvel, s->w.qvel, (size_t)m->nv * sizeof(double));
  return pb_ok;
}

// All flights of the step from x.
static pbStatus run(pbScratch *s, const double *theta, const double *x, const pbInput *input, bool sense) {
  const pbModel *m = s->model;
  pbImpacts *p = s->impacts;
  double left = theta[timestep_at(m)];
  size_t stages = (size_t)(pb_stages(m) * m->nv) * sizeof(double);
  memcpy(p->theta, theta, m->ntheta * sizeof(double));
  memcpy(p->flight[0].start, x, (size_t)pbModel_StateSize(m) * sizeof(double));
  p->count = p->simultaneous = 0, p->approach = INFINITY, p->residual = 0, p->converged = true;
  p->gains = 0, p->gain = 0, p->gaining[0] = p->gaining[1] = -1;
  for (bool strikes = true;; p->count++) {
    flight *f = p->flight + p->count;
    PB_TRY(next_touch(s, f, input, left, sense && p->count == 0, &strikes));
    if (p->count == 0) memcpy(p->stages, f->stages, stages);
    if (!strikes) return pb_ok;
    if (f->time > 0) memcpy(f->stages, s->stages, stages);
    if (p->count == MOST) return resting(s, f->flown, f->candidate, "strike too often in one step: they come to rest");
    left -= f->time;
    PB_TRY(strike(s, f, input, f[1].start));
  }
}

pbStatus pbImpacts_Step(pbScratch *s, const double *theta, const double *x, const pbInput *input, bool sense, double *next) {
  const pbModel *m = s->model;
  pbImpacts *p = s->impacts;
  PB_TRY(run(s, theta, x, input, sense));
  memcpy(next, p->flight[p->count].flown, (size_t)pbModel_StateSize(m) * sizeof(double));
  next[state_layout(m).time] = x[state_layout(m).time] + theta[timestep_at(m)];
  memcpy(s->stages, p->stages, (size_t)(pb_stages(m) * m->nv) * sizeof(double));
  s->w.ncon = 0;
  s->report.contacts = s->report.onsets = p->count, s->report.releases = 0;
  s->report.simultaneous = p->simultaneous, s->report.approach = p->approach;
  s->report.residual = p->residual, s->report.converged = p->converged;
  s->report.gains = p->gains, s->report.gain = p->gain;
  memcpy(s->report.gaining, p->gaining, sizeof p->gaining);
  return pb_ok;
}

static const char forward[] = "forward derivative";

// What failed in a derivative.
static pbStatus named(pbScratch *s, pbStatus status, const char *what) {
  return status == pb_ok ? status : pbScratch_Fail(s, status, "%s: %s", what, pbStatus_Text(status));
}

// ---- reverse --------------------------------------------------------------------------------------------------------
// Flights of a recorded step, computed again.
static pbStatus replay(pbScratch *s, const double *theta, const double *record, const pbInput *input) {
  return run(s, theta, record, input, false);
}

// Pullback of a flight: x_bar becomes the cotangent of its start. *time_bar: that of its time.
static pbStatus pull_flight(pbScratch *s, const flight *f, const pbInput *input, const pbInputBar *input_bar, double *theta_bar,
                            double *time_bar) {
  const pbModel *m = s->model;
  pbImpacts *p = s->impacts;
  size_t n = (size_t)pbModel_TangentSize(m), nv = (size_t)m->nv;
  double *x = p->x_bar, *out = p->pulled, *step_bar = theta_bar + timestep_at(m), before = *step_bar;
  pbPullback b = {.q_next = x, .v_next = x + nv, .act_next = x + 2 * nv, .q = out, .v = out + nv, .act = out + 2 * nv};
  b.theta = theta_bar;
  if (input_bar) b.ctrl = input_bar->ctrl, b.qfrc = input_bar->qfrc, b.xfrc = input_bar->xfrc;
  memset(out, 0, n * sizeof(double));
  *step_bar = 0;
  set_time(s, f->time);
  pbScratch_Load(s, p->theta, f->start, input);
  PB_TRY(named(s, s->variant->vjp_one(s->adjoint_one, &s->w, f->stages, &b), "pullback"));
  *time_bar = *step_bar;
  *step_bar = before;
  p->x_bar = out, p->pulled = x;
  return pb_ok;
}

// Motion of the state by a flight's time, at its end.
static pbStatus motion_by_time(pbScratch *s, const flight *f, const pbInput *input) {
  pbImpacts *p = s->impacts;
  memset(p->direction, 0, s->model->ntheta * sizeof(double));
  p->direction[timestep_at(s->model)] = 1;
  memcpy(s->stages, f->stages, (size_t)(pb_stages(s->model) * s->model->nv) * sizeof(double));
  set_time(s, f->time);
  return named(s,
               pbJvp_Run(s->complex_work, &(pbStepRecord){s->model, p->theta, f->start, NULL, input}, s->stages,
                         &(pbDirection){.theta = p->direction}, true, &(pbStepTangent){.next = p->by_time}),
               forward);
}

static double dot(const double *a, const double *b, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

// Pullback of the strike at the end of a flight: x_bar becomes the cotangent of the state before it, the moment's share
// included. rest_bar: cotangent of the time left after it.
static pbStatus pull_strike(pbScratch *s, const flight *f, const pbInput *input, double *theta_bar, double rest_bar) {
  const pbModel *m = s->model;
  pbImpacts *p = s->impacts;
  int nv = m->nv;
  double *q = p->x_bar, *v = q + nv;
  if (f->timed) PB_TRY(motion_by_time(s, f, input));
  memcpy(p->v_bar, v, (size_t)nv * sizeof(double));
  pbPullback b = {.v_next = p->v_bar, .q = q, .v = v, .theta = theta_bar};
  set_time(s, 0);
  pbScratch_Load(s, p->theta, f->flown, input);
  PB_TRY(named(s, s->variant->impact->vjp_strike(s->adjoint_one, &s->w, f->candidate, f->point, &b, p->slope), "pullback"));
  if (!f->timed) return pb_ok;
  double time_bar = dot(p->x_bar, p->by_time, pbModel_TangentSize(m)) - rest_bar;
  s->variant->impact->vjp_gap(s->adjoint_one, &s->w, f->point, -time_bar / dot(p->slope, p->by_time, nv), &b);
  return pb_ok;
}

// From x_bar after the step to x_bar before it.
static pbStatus pull_step(pbScratch *s, const pbInput *input, const pbInputBar *input_bar, double *theta_bar) {
  pbImpacts *p = s->impacts;
  double rest_bar, time_bar;
  PB_TRY(pull_flight(s, p->flight + p->count, input, input_bar, theta_bar, &rest_bar));
  for (int i = p->count - 1; i >= 0; i--) {
    const flight *f = p->flight + i;
    PB_TRY(pull_strike(s, f, input, theta_bar, rest_bar));
    if (f->time > 0) PB_TRY(pull_flight(s, f, input, input_bar, theta_bar, &time_bar));
  }
  theta_bar[timestep_at(s->model)] += rest_bar;
  return pb_ok;
}

static void add(double *to, const double *from, int n) {
  for (int i = 0; i < n; i++) to[i] += from[i];
}

pbStatus pbImpacts_Vjp(pbScratch *s, const pbStepRecord *step, const double *next_bar, const pbStepBar *out) {
  pbImpacts *p = s->impacts;
  int n = pbModel_TangentSize(s->model);
  PB_TRY(replay(s, step->theta, step->record, step->input));
  memcpy(p->x_bar, next_bar, (size_t)n * sizeof(double));
  if (!out->theta) memset(p->unused, 0, s->model->ntheta * sizeof(double));
  PB_TRY(pull_step(s, step->input, out->input, out->theta ? out->theta : p->unused));
  add(out->x, p->x_bar, n);
  return pb_ok;
}

pbStatus pbImpacts_Jacobian(pbScratch *s, const pbStepRecord *step, double *A, double *B) {
  const pbModel *m = s->model;
  pbImpacts *p = s->impacts;
  size_t n = (size_t)pbModel_TangentSize(m), nu = (size_t)m->nu;
  PB_TRY(replay(s, step->theta, step->record, step->input));
  for (size_t i = 0; i < n; i++) {
    pbInputBar bar = {.ctrl = B ? B + i * nu : NULL};
    if (B) memset(bar.ctrl, 0, nu * sizeof(double));
    memset(p->x_bar, 0, n * sizeof(double)), memset(p->unused, 0, m->ntheta * sizeof(double));
    p->x_bar[i] = 1;
    PB_TRY(pull_step(s, step->input, &bar, p->unused));
    if (A) memcpy(A + i * n, p->x_bar, n * sizeof(double));
  }
  return pb_ok;
}

// ---- forward derivatives --------------------------------------------------------------------------------------------
// tangent := D(flight) (tangent, direction), the flight's time moving at `rate`.
static pbStatus push_flight(pbScratch *s, const flight *f, const pbInput *input, const pbDirection *d, double rate) {
  pbImpacts *p = s->impacts;
  pbDirection along = *d;
  along.x = p->tangent, along.theta = p->direction;
  if (d->theta) memcpy(p->direction, d->theta, s->model->ntheta * sizeof(double));
  else memset(p->direction, 0, s->model->ntheta * sizeof(double));
  p->direction[timestep_at(s->model)] = rate;
  memcpy(s->stages, f->stages, (size_t)(pb_stages(s->model) * s->model->nv) * sizeof(double));
  set_time(s, f->time);
  PB_TRY(named(s,
               pbJvp_Run(s->complex_work, &(pbStepRecord){s->model, p->theta, f->start, NULL, input}, s->stages, &along, true,
                         &(pbStepTangent){.next = p->moved}),
               forward));
  memcpy(p->tangent, p->moved, (size_t)pbModel_TangentSize(s->model) * sizeof(double));
  return pb_ok;
}

// tangent := that of the state after the strike. *rate: of the time left.
static pbStatus push_strike(pbScratch *s, const flight *f, const pbInput *input, const pbDirection *d, double *rate) {
  pbImpacts *p = s->impacts;
  int nv = s->model->nv, n = pbModel_TangentSize(s->model);
  double gap, closing, later = 0;
  set_time(s, 0);
  if (f->timed) {
    PB_TRY(motion_by_time(s, f, input));
    set_time(s, 0);
    const pbDirection way = {.x = p->by_time};
    PB_TRY(
        named(s, pbJvp_Strike(s->complex_work, p->theta, f->flown, &way, f->candidate, f->point, &closing, p->v_bar), forward));
  }
  PB_TRY(pbJvp_Strike(s->complex_work, p->theta, f->flown, &(pbDirection){.x = p->tangent, .theta = d->theta}, f->candidate,
                      f->point, &gap, p->moved));
  memcpy(p->tangent + nv, p->moved, (size_t)nv * sizeof(double));
  if (!f->timed) return pb_ok;
  later = -gap / closing;
  memcpy(p->by_time + nv, p->v_bar, (size_t)nv * sizeof(double));
  for (int i = 0; i < n; i++) p->tangent[i] += later * p->by_time[i];
  *rate -= later;
  return pb_ok;
}

pbStatus pbImpacts_Jvp(pbScratch *s, const pbStepRecord *step, const pbDirection *d, double *next) {
  const pbModel *m = s->model;
  pbImpacts *p = s->impacts;
  size_t n = (size_t)pbModel_TangentSize(m);
  double rate = d->theta ? d->theta[timestep_at(m)] : 0;
  const pbInput *input = step->input;
  PB_TRY(replay(s, step->theta, step->record, input));
  if (d->x) memcpy(p->tangent, d->x, n * sizeof(double));
  else memset(p->tangent, 0, n * sizeof(double));
  for (int i = 0; i < p->count; i++) {
    if (p->flight[i].time > 0) PB_TRY(push_flight(s, p->flight + i, input, d, 0));
    PB_TRY(push_strike(s, p->flight + i, input, d, &rate));
  }
  PB_TRY(push_flight(s, p->flight + p->count, input, d, rate));
  memcpy(next, p->tangent, n * sizeof(double));
  return pb_ok;
}
