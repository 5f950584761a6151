// Contact method `impact`: a step as a sequence of ballistic flights and impacts between them, its pullback and its forward
// derivative with the times of the impacts (docs/contact-gradients.md).
// Tests: tests/unit/test_impact.c.
#include "impact/impact_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "contact/prescribed.h"
#include "impact/variants.h"
#include "model/topology.h"

static const double reach = 1;  // m: gaps are measured up to here

// ---- memory ---------------------------------------------------------------------------------------------------------
static double *take(double *block, size_t *used, size_t count) {
  double *at = block ? block + *used : NULL;
  *used += count;
  return at;
}

static size_t carve(pbImpacts *p, const pbModel *m, double *block) {
  size_t used = 0;
  size_t nx = (size_t)pbModel_StateSize(m);
  size_t n = (size_t)pbModel_TangentSize(m);
  size_t stages = (size_t)(pb_solutions(m) * m->nv);

  // The start of the first flight is the block itself, which is freed by it.
  for (int i = 0; i <= pb_maxImpacts; i++) {
    pbFlight *f = &p->flight[i];
    f->start = take(block, &used, nx);
    f->end = take(block, &used, nx);
    f->stages = take(block, &used, stages);
  }

  // Parameters with a time step of their own, and their directions
  p->theta = take(block, &used, m->ntheta);
  p->direction = take(block, &used, m->ntheta);
  p->unused = take(block, &used, m->ntheta);
  p->stages = take(block, &used, stages);

  // Cotangents and tangents
  p->x_bar = take(block, &used, n);
  p->pulled = take(block, &used, n);
  p->by_time = take(block, &used, n);
  p->slope = take(block, &used, (size_t)m->nv + 1);
  p->v_bar = take(block, &used, n);
  p->tangent = take(block, &used, n);
  p->moved = take(block, &used, n);
  p->pose_bar = take(block, &used, 12 * (size_t)m->nmocap);
  p->flow = take(block, &used, 6 * (size_t)m->nmocap);

  return used;
}

pbStatus pbImpacts_Create(pbScratch *s, int contacts) {
  pbContext *ctx = s->ctx;
  pbImpacts probe;
  pbImpacts *p = s->impacts = pbContext_Alloc(ctx, sizeof *p);
  if (!p) return pb_no_memory;

  p->most = contacts;
  p->flight[0].start = pbContext_AllocArray(ctx, carve(&probe, s->model, NULL), sizeof(double));
  p->now.list = pbContext_AllocArray(ctx, (size_t)(2 * contacts + 1), sizeof *p->now.list);
  if (!p->flight[0].start || !p->now.list) return pb_no_memory;
  // One list behind the other
  p->then.list = p->now.list + contacts;
  carve(p, s->model, p->flight[0].start);

  return pb_ok;
}

void pbImpacts_Destroy(pbScratch *s) {
  pbContext *ctx = s->ctx;
  if (!s->impacts) return;
  pbContext_Free(ctx, s->impacts->flight[0].start);
  pbContext_Free(ctx, s->impacts->now.list);
  pbContext_Free(ctx, s->impacts);
}

int pbImpacts_Count(const pbScratch *s) { return s->impacts->count; }
void pbImpacts_Forget(pbScratch *s) { s->impacts->count = 0; }
int pbImpacts_Recorded(const pbScratch *s, const double *record) {
  return s->impacts ? (int)record[tape_policy(s->model) - 1] : 0;
}

// ---- failures -------------------------------------------------------------------------------------------------------
static const char *geom_name(const pbScratch *s, int geom, char text[96]) {
  const char *name = pbModel_Name(s->model, pb_objGeom, geom);
  if (name && *name) snprintf(text, 96, "'%.80s'", name);
  else snprintf(text, 96, "%d", geom);
  return text;
}

// Contacts that do not end have no impacts: how they came to that.
static pbStatus fail_at_rest(pbScratch *s, const double *x, int candidate, const char *how) {
  const pbModel *m = s->model;
  const pbCandidate *c = m->topology->candidate + candidate;
  const double *restitution = s->impacts->theta + (m->geom_restitution - m->theta0);
  bool bounces = restitution[c->geom1] > 0 || restitution[c->geom2] > 0;
  char first[96], second[96];

  const char *why = bounces ? "" : " (they have no restitution, so the first touch is the last)";

  // Either the law takes all speed, or what is led comes after it again.
  bool led = pb_carrier(m, c->geom1) != pb_carrier(m, c->geom2) && s->w.mocap_moves && !pb_follows(m);
  if (bounces && led) why = " (one is led and the other not thrown, unless mocap_motion is followed)";
  return pbScratch_Fail(s, pb_no_convergence,
                        "geoms %s and %s %s at time %.9g%s: impacts alone cannot hold a contact, contact method soft can",
                        geom_name(s, c->geom1, first), geom_name(s, c->geom2, second), how, x[state_layout(m).time], why);
}

void pbImpacts_CountLed(const pbScratch *s, pbEventCount *count) {
  const pbModel *m = s->model;
  char first[96], second[96];
  if (!pb_follows(m) || !s->w.mocap_moves) return;

  for (int i = 0; i < s->impacts->count; i++) {
    const pbCandidate *c = m->topology->candidate + s->impacts->flight[i].candidate;
    int a = pb_carrier(m, c->geom1), b = pb_carrier(m, c->geom2);
    if (a == b) continue;

    count->led++;
    count->led_by = a > b ? a : b;
    snprintf(count->led_name, sizeof count->led_name, "contact of geom %.80s and geom %.80s", geom_name(s, c->geom1, first),
             geom_name(s, c->geom2, second));
  }
}

// ---- flights --------------------------------------------------------------------------------------------------------
// Work and f->end: the state after `time`.
static pbStatus fly(pbScratch *s, pbFlight *f, const pbInput *input, double time, bool sense) {
  pbImpacts *p = s->impacts;
  PB_ASSERT(!(time < 0));

  pbImpacts_SetTime(s, time);
  f->time = time;
  pbScratch_Load(s, p->theta, f->start, input);
  PB_TRY(pbScratch_Run(s, sense, true));

  // The report speaks of one solve, the step of all.
  p->residual = fmax(p->residual, s->report.residual);
  p->converged = p->converged && s->report.converged;
  pbScratch_State(s, f->start[state_layout(s->model).time] + time, f->end);

  return pb_ok;
}

// Bodies that are led go from where they stood in the step before to the pose of this one: where they are after a part of it.
static void stand(pbScratch *s, double over) { s->variant->impact->stand(&s->w, pb_spanAt(s->impacts, over)); }

static pbStatus find_touches(pbScratch *s, const double *x, double over, const pbInput *input, pbTouches *found) {
  pbScratch_Load(s, s->impacts->theta, x, input);
  stand(s, over);
  found->count = s->variant->impact->find_contacts(&s->w, PB_TOUCH, s->impacts->most, found->list);
  PB_ASSERT(found->count <= s->impacts->most);
  if (found->count >= 0) return pb_ok;
  return pbScratch_Fail(s, pb_capacity, "more than %d contacts at time %.9g", s->impacts->most, *s->w.time);
}

// Smallest gap and rate of a candidate in a list; false: it is not there.
static bool find_nearest(const pbTouches *in, int candidate, double *gap, double *rate) {
  bool found = false;

  for (int i = 0; i < in->count; i++) {
    const pbTouch *t = in->list + i;
    if (t->candidate != candidate) continue;
    *gap = found ? fmin(*gap, t->gap) : t->gap;
    *rate = found ? fmin(*rate, t->rate) : t->rate;
    found = true;
  }

  return found;
}

// The contact that approaches fastest, of one candidate or of all (-1); -1 where none does.
static int find_fastest(const pbTouches *in, int candidate) {
  int best = -1;

  for (int i = 0; i < in->count; i++) {
    const pbTouch *t = in->list + i;
    if (candidate >= 0 && t->candidate != candidate) continue;
    if (t->rate < -PB_REST && (best < 0 || t->rate < in->list[best].rate)) best = i;
  }

  return best;
}

// The candidate that overlaps most after the flight, of those that did not at its start; -1: none.
static int find_deepest(const pbImpacts *p) {
  double most = -PB_TOUCH;
  int found = -1;

  for (int i = 0; i < p->then.count; i++) {
    const pbTouch *t = p->then.list + i;
    double gap = 0;
    double rate;
    // What overlapped already is no new touch.
    if (!(t->gap < most)) continue;
    if (find_nearest(&p->now, t->candidate, &gap, &rate) && gap < -PB_TOUCH) continue;
    most = t->gap;
    found = t->candidate;
  }

  return found;
}

// A candidate of those at the start whose geoms overlap and do not part; -1: none. Impacts would never drive them apart.
static int find_stuck(const pbImpacts *p) {
  for (int i = 0; i < p->now.count; i++) {
    // What parts by itself comes out; what rests or closes would sink.
    const pbTouch *t = p->now.list + i;
    PB_ASSERT(t->candidate >= 0);
    if (t->gap < -PB_TOUCH && !(t->rate > PB_REST)) return t->candidate;
  }
  return -1;
}

// ---- the time of impact ---------------------------------------------------------------------------------------------
// The gap of a candidate as a function of a flight's time.
typedef struct gap_function {
  pbFlight *f;
  const pbInput *input;
  int candidate;
  bool touched;  // it touches at the start: the gap is divided by the time, so that the start is no root
  double sunk;   // then by how much it has sunk in there, by rounding: less than this is no touch
} gap_function;

static pbStatus gap_after(pbScratch *s, const gap_function *g, double time, double *gap) {
  PB_ASSERT(!g->touched || time > 0);
  PB_TRY(fly(s, g->f, g->input, time, false));
  stand(s, g->f->begun + time);
  // The gap over the time is the mean rate, which starts at the rate and stays positive until the next touch.
  *gap = (s->variant->impact->gap(&s->w, g->candidate, reach) + g->sunk) / (g->touched ? time : 1);
  return pb_ok;
}

// Brent's zeroin (Brent 1973, chapter 4): b is the best estimate, a the one before, and the root lies between b and c. d is the
// last step, e that before it.
typedef struct bracket {
  double a, b, c, fa, fb, fc, d, e;
} bracket;

// c opposite to b, and b the better of the two.
static void order_bracket(bracket *z) {
  if ((z->fb > 0) == (z->fc > 0)) {
    z->c = z->a;
    z->fc = z->fa;
    z->d = z->b - z->a;
    z->e = z->d;
  }
  if (fabs(z->fc) < fabs(z->fb)) {
    z->a = z->b;
    z->b = z->c;
    z->c = z->a;
    z->fa = z->fb;
    z->fb = z->fc;
    z->fc = z->fa;
  }
}

// The next step to z->d: by interpolation where that stays well inside and shrinks, else half of the bracket (m).
static void choose_step(bracket *z, double tolerance, double m) {
  if (fabs(z->e) < tolerance || fabs(z->fa) <= fabs(z->fb)) {
    z->d = m;
    z->e = m;
    return;
  }

  double r = z->fb / z->fa;
  double p, q;
  if (z->a == z->c) {  // linear
    p = 2 * m * r;
    q = 1 - r;
  } else {  // inverse quadratic
    double u = z->fa / z->fc;
    double v = z->fb / z->fc;
    p = r * (2 * m * u * (u - v) - (z->b - z->a) * (v - 1));
    q = (u - 1) * (v - 1) * (r - 1);
  }
  // p positive, the sign in q
  if (p > 0) q = -q;
  else p = -p;

  // Interpolation is taken if it lands within three quarters of the bracket and moves less than half of the step before the last.
  bool good = 2 * p < fmin(3 * m * q - fabs(tolerance * q), fabs(z->e * q));
  z->e = good ? z->d : m;
  z->d = good ? p / q : m;
}

// Root between 0, where the gap is `open` > 0, and `end`, where it is not, to rounding.
static pbStatus find_touch_time(pbScratch *s, const gap_function *g, double open, double end, double *time) {
  bracket z = {.a = 0, .fa = open, .b = end, .c = 0, .fc = open, .d = end, .e = end};

  PB_TRY(gap_after(s, g, z.b, &z.fb));
  for (int i = 0; i < 200; i++) {
    order_bracket(&z);
    double tolerance = 2.3e-16 * fabs(z.b);
    double m = 0.5 * (z.c - z.b);
    if (fabs(m) <= tolerance || z.fb == 0) break;
    choose_step(&z, tolerance, m);

    // At least by the tolerance, towards c
    z.a = z.b;
    z.fa = z.fb;
    if (fabs(z.d) > tolerance) z.b += z.d;
    else z.b += m > 0 ? tolerance : -tolerance;
    PB_TRY(gap_after(s, g, z.b, &z.fb));
  }
  *time = z.b;

  return pb_ok;
}

// Shorten the flight, which ends in an overlap, to the first touch: candidate by candidate, as long as any overlaps at its end.
static pbStatus shorten_to_touch(pbScratch *s, pbFlight *f, const pbInput *input, int *candidate) {
  pbImpacts *p = s->impacts;

  for (int next = find_deepest(p); next >= 0; next = find_deepest(p)) {
    double gap = reach;
    double rate = 0;
    double end = f->time;
    double time;
    *candidate = next;

    // What touches at the start must separate first.
    bool touched = find_nearest(&p->now, next, &gap, &rate);
    if (touched && !(rate > PB_REST)) return fail_at_rest(s, f->start, next, "come to rest on each other");
    if (!touched) {
      pbScratch_Load(s, p->theta, f->start, input);
      stand(s, f->begun);
      gap = s->variant->impact->gap(&s->w, next, reach);
    }

    const gap_function g = {f, input, next, touched, touched ? fmax(-gap, 0) : 0};
    PB_TRY(find_touch_time(s, &g, touched ? rate : gap, end, &time));
    PB_TRY(fly(s, f, input, time, false));
    PB_TRY(find_touches(s, f->end, f->begun + f->time, input, &p->then));
    // To rounding the same flight: no further candidate can shorten it.
    if (time >= end) break;
  }

  return pb_ok;
}

// The impact at the end of a flight: contact `index` of those that touch there.
static void set_impact(pbImpacts *p, pbFlight *f, const pbTouches *at, int index) {
  PB_ASSERT(index >= 0 && index < at->count);
  f->candidate = at->list[index].candidate;
  f->point = at->list[index].point;
  // For the report: the slowest approach, and whether another contact approaches at the same time
  p->approach = fmin(p->approach, -at->list[index].rate);
  for (int i = 0; i < at->count; i++) {
    if (i == index || !(at->list[i].rate < -PB_REST)) continue;
    p->simultaneous++;
    break;
  }
}

// ---- the step -------------------------------------------------------------------------------------------------------
// An impact at the start of a flight, which takes no time.
static void set_impact_at_start(pbScratch *s, pbFlight *f, int index) {
  pbImpacts *p = s->impacts;
  set_impact(p, f, &p->now, index);
  f->time = 0;
  f->timed = p->now.list[index].gap >= -PB_TOUCH;
  memcpy(f->end, f->start, pb_stateBytes(s->model));
}

// A flight up to its impact, or to the end of the step. False in *ends: the latter.
static pbStatus fly_to_impact(pbScratch *s, pbFlight *f, const pbInput *input, double left, bool sense, bool *ends) {
  pbImpacts *p = s->impacts;

  *ends = true;
  f->timed = true;
  PB_TRY(fly(s, f, input, left, sense));
  memcpy(f->stages, s->stages, pb_stageBytes(s->model));

  // At the start geoms that touch and approach collide at once.
  PB_TRY(find_touches(s, f->start, f->begun, input, &p->now));
  int index = find_fastest(&p->now, -1);
  if (index >= 0) {
    set_impact_at_start(s, f, index);
    return pb_ok;
  }

  // What is in each other already has no instant of touch.
  int stuck = find_stuck(p);
  if (stuck >= 0) return fail_at_rest(s, f->start, stuck, "overlap and do not part (start them apart)");

  PB_TRY(find_touches(s, f->end, f->begun + f->time, input, &p->then));
  // Without an overlap at its end the flight is the rest of the step.
  if (find_deepest(p) < 0) {
    *ends = false;
    return pb_ok;
  }

  // Else it ends at the first touch.
  int candidate = -1;
  PB_TRY(shorten_to_touch(s, f, input, &candidate));
  index = find_fastest(&p->then, candidate);
  if (index < 0)
    return fail_at_rest(
        s, f->end, candidate,
        "touch without approaching (they graze, rest, or bounce within one step of an integrator other than RK4)");
  set_impact(p, f, &p->then, index);

  return pb_ok;
}

// Kinetic energy after an impact less that before, (w + v)' M (w - v) / 2, where it is more than rounding; v: the velocities
// before.
static void note_energy(pbScratch *s, const pbFlight *f, const double *v) {
  pbImpacts *p = s->impacts;
  pbWork_r *w = &s->w;
  int nv = s->model->nv;
  double gain = 0;
  double before = 0;

  // M (w - v), then M v, in the same vector
  for (int i = 0; i < nv; i++) w->tmp[i] = w->qvel[i] - v[i];
  pbTree_Mul_r(&w->t->M, w->M, w->tmp, w->Mstep);
  for (int i = 0; i < nv; i++) gain += 0.5 * (w->qvel[i] + v[i]) * w->Mstep[i];
  pbTree_Mul_r(&w->t->M, w->M, v, w->Mstep);
  for (int i = 0; i < nv; i++) before += 0.5 * v[i] * w->Mstep[i];
  if (!(gain > 1e-9 * before)) return;

  // The worst of the step is named.
  p->gains++;
  if (gain <= p->gain) return;
  const pbCandidate *pair = s->model->topology->candidate + f->candidate;
  p->gain = gain;
  p->gaining[0] = pair->geom1;
  p->gaining[1] = pair->geom2;
}

// The state after the impact at the end of a flight.
static pbStatus apply_impact(pbScratch *s, const pbFlight *f, const pbInput *input, double *after) {
  const pbModel *m = s->model;
  int qvel = state_layout(m).qvel;

  pbImpacts_SetTime(s, 0);
  pbScratch_Load(s, s->impacts->theta, f->end, input);
  stand(s, f->begun + f->time);
  pbStatus status = s->variant->impact->change(&s->w, f->candidate, f->point);
  // A singular mass matrix has its own text.
  if (status == pb_singular) return pbScratch_Explain(s, status);
  if (status != pb_ok) return fail_at_rest(s, f->end, f->candidate, "collide without a solution of Coulomb's law");

  // What a body that is led gives is no fault of the law.
  bool led = m->contact.mocap_motion == pb_mocapFollowed && s->w.mocap_moves;
  if (!led) note_energy(s, f, f->end + qvel);
  // Positions stay, velocities jump.
  memcpy(after, f->end, pb_stateBytes(m));
  memcpy(after + qvel, s->w.qvel, (size_t)m->nv * sizeof(double));

  return pb_ok;
}

static void begin_step(pbScratch *s, const double *theta, const double *x) {
  pbImpacts *p = s->impacts;

  memcpy(p->theta, theta, s->model->ntheta * sizeof(double));
  p->timestep = theta[pb_timestepAt(s->model)];
  memcpy(p->flight[0].start, x, pb_stateBytes(s->model));
  p->count = 0;
  p->simultaneous = 0;
  p->approach = INFINITY;
  p->residual = 0;
  p->converged = true;
  p->gains = 0;
  p->gain = 0;
  p->gaining[0] = -1;
  p->gaining[1] = -1;
}

// All flights of the step from x.
pbStatus pbImpacts_Fly(pbScratch *s, const double *theta, const double *x, const pbInput *input, bool sense) {
  const pbModel *m = s->model;
  pbImpacts *p = s->impacts;
  double left = theta[pb_timestepAt(m)];

  // Flights and impacts alternate, each flight trying to take all the time that is left
  begin_step(s, theta, x);
  for (;; p->count++) {
    pbFlight *f = p->flight + p->count;
    bool impact;
    f->begun = p->timestep - left;
    PB_TRY(fly_to_impact(s, f, input, left, sense && p->count == 0, &impact));
    if (p->count == 0) memcpy(p->stages, f->stages, pb_stageBytes(m));
    if (!impact) return pb_ok;

    // The shortened flight has accelerations of its own.
    if (f->time > 0) memcpy(f->stages, s->stages, pb_stageBytes(m));
    if (p->count == pb_maxImpacts)
      return fail_at_rest(s, f->end, f->candidate, "collide too often in one step: they come to rest");
    left -= f->time;
    PB_ASSERT(!(left < 0));  // a flight ends within the time that is left
    PB_TRY(apply_impact(s, f, input, f[1].start));
  }
}

static void report_impacts(pbScratch *s) {
  const pbImpacts *p = s->impacts;
  pbReport *r = &s->report;

  r->contacts = p->count;
  r->onsets = p->count;
  r->releases = 0;
  r->simultaneous = p->simultaneous;
  r->approach = p->approach;
  r->residual = p->residual;
  r->converged = p->converged;
  r->gains = p->gains;
  r->gain = p->gain;
  memcpy(r->gaining, p->gaining, sizeof p->gaining);
}

pbStatus pbImpacts_Step(pbScratch *s, const double *theta, const double *x, const pbInput *input, bool sense, double *next) {
  const pbModel *m = s->model;
  pbImpacts *p = s->impacts;
  int time = state_layout(m).time;

  PB_TRY(pbImpacts_Fly(s, theta, x, input, sense));

  // The sum of the flights' times is the step but for rounding.
  memcpy(next, p->flight[p->count].end, pb_stateBytes(m));
  next[time] = x[time] + theta[pb_timestepAt(m)];
  memcpy(s->stages, p->stages, pb_stageBytes(m));
  s->w.ncon = 0;
  report_impacts(s);

  return pb_ok;
}
