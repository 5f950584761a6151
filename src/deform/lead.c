// Led points: prescribed ones that go along a path, given as displacements from where they start, a row for each step or
// controls. A step gives them the velocity of their way, (target - y)/h, in place of the state's; the rest of a step and of its
// derivatives knows prescribed points with a velocity. Below each part what the derivatives owe to that line.
// Tests: tests/python/test_deformables.py.
#include <math.h>
#include <string.h>

#include "deform/deform.h"

// Steps since the time was zero.
static double count_of(const pbDeformWork *w) {
  PB_ASSERT(w->in.h > 0 && w->d->lead_parts >= 1);
  return fmax(floor(w->in.time / w->in.h + 0.5), 0);
}

// The row of the step at hand: as many steps as the time at its start has; the last row stays. Of a finer run several steps go to
// one row.
static size_t row_of(const pbDeformWork *w, const pbLedCoordinate *c) {
  PB_ASSERT(c->steps >= 0);
  return (size_t)fmin(floor(count_of(w) / w->d->lead_parts), c->steps - 1);
}

static size_t entry_of(const pbDeformWork *w, const pbLedCoordinate *c) {
  PB_ASSERT(c->coordinate >= 0 && c->coordinate < 3 * w->d->npoint);
  return c->control ? c->at : c->at + row_of(w, c) * c->stride;
}

// Time in which the points are to be where the row or the control says: the step, or what is left of the parts of one.
static double span_of(const pbDeformWork *w) {
  int parts = w->d->lead_parts;
  return (parts - fmod(count_of(w), parts)) * w->in.h;
}

void pbDeformLead_Begin(pbDeformWork *w) {
  const pbDeform *d = w->d;
  if (!d->nled) return;

  double span = span_of(w);
  for (const pbLedCoordinate *c = d->led; c < d->led + d->nled; c++) {
    double displacement = (c->control ? w->in.control : w->in.theta)[entry_of(w, c)];
    w->v[c->coordinate] = (d->start[c->coordinate] + displacement - w->y[c->coordinate]) / span;
  }
}

// What the state's own velocity had of cotangents before the step's came is kept, and comes back in PullEnd.
void pbDeformLead_PullBegin(pbDeformWork *w, double *state_bar) {
  double *velocity_bar = state_bar + pbDeform_State(w->d).v;
  for (int i = 0; i < w->d->nled; i++) {
    w->led_bar[i] = velocity_bar[w->d->led[i].coordinate];
    velocity_bar[w->d->led[i].coordinate] = 0;
  }
}

void pbDeformLead_PullEnd(pbDeformWork *w, double *state_bar, const pbDeformBar *bar) {
  const pbDeform *d = w->d;
  pbDeformState at = pbDeform_State(d);
  double h = w->in.h, span = d->nled ? span_of(w) : h;

  for (int i = 0; i < d->nled; i++) {
    const pbLedCoordinate *c = d->led + i;
    double v_bar = state_bar[at.v + c->coordinate];
    double *to = c->control ? bar->control : bar->theta;

    // v = (start + displacement - y) / span, which is so many h
    if (to) to[entry_of(w, c)] += v_bar / span;
    state_bar[at.x + c->coordinate] -= v_bar / span;
    if (bar->h) *bar->h -= v_bar * w->v[c->coordinate] / h;
    state_bar[at.v + c->coordinate] = w->led_bar[i];
  }
}

const double *pbDeformLead_Push(pbDeformWork *w, const pbDeformDirection *along) {
  const pbDeform *d = w->d;
  pbDeformState at = pbDeform_State(d);
  if (!d->nled) return along->state;

  if (along->state) memcpy(w->led_state, along->state, (size_t)at.tangent * sizeof(double));
  else memset(w->led_state, 0, (size_t)at.tangent * sizeof(double));

  // dv = (ddisplacement - dy - v dspan) / span
  double span = span_of(w), parts = span / w->in.h;
  for (const pbLedCoordinate *c = d->led; c < d->led + d->nled; c++) {
    const double *from = c->control ? along->control : along->theta;
    double displacement = from ? from[entry_of(w, c)] : 0;
    double rest = w->led_state[at.x + c->coordinate] + w->v[c->coordinate] * parts * along->h;
    w->led_state[at.v + c->coordinate] = (displacement - rest) / span;
  }

  return w->led_state;
}
