// Points attached to bodies that rest are prescribed points of a world whose deformables are not coupled: where they are at the
// start and the end of a step follows from theta, and from poses and velocities of mocap bodies, and derivatives of them go
// there. Their velocity is that way over the time step: led points are pins whose velocity may change from step to step.
// Tests: tests/unit/test_deform.c.
#include <string.h>

#include "base/assert.h"
#include "couple/couple_parts.h"
#include "model/state_layout.h"
#include "step/scratch.h"

static double timestep_of(const pbModel *m, const double *theta) { return theta[m->timestep - m->theta0]; }

// v = (end - start) / h, after pbCouple_PlaceAtStart: the step takes x + h v for the end. Without motion exactly 0.
static void set_velocities(pbScratch *s, const double *theta) {
  const pbDeform *d = s->model->deform;
  pbCouple *c = s->couple;
  double *velocity = c->state + 3 * d->npoint;
  double h = timestep_of(s->model, theta);

  // Where they are at the start, then where no acceleration leaves them at the end.
  pbCouple_Gather(d, c->state, c->led);
  memset(c->acc, 0, (size_t)s->model->nv * sizeof(double));
  pbCouple_PlaceAt(s, c->acc, velocity);
  for (int i = 0; i < 3 * d->nattached; i++) {
    double *v = velocity + pb_attachedAt(d, i);
    *v = (*v - c->led[i]) / h;
  }
}

const double *pbCouple_State(pbScratch *s, const double *theta, const double *x, const pbInput *input) {
  const pbModel *m = s->model;
  pbCouple *c = s->couple;

  PB_ASSERT(!pb_coupled(m));  // bodies that move have a step of their own
  memcpy(c->state, x + state_layout(m).deform, (size_t)m->deform_state * sizeof(double));
  // Their entries in x are not read: they follow from theta.
  pbCouple_PlaceAtStart(s, theta, x, input, c->state);
  set_velocities(s, theta);

  return c->state;
}

pbRestingBar pbCouple_RestBegin(pbScratch *s, const double *next_bar) {
  pbCouple *c = s->couple;
  size_t bytes = (size_t)s->model->deform_tangent * sizeof(double);

  memcpy(c->next_bar, next_bar, bytes);
  memset(c->state_bar, 0, bytes);
  return (pbRestingBar){c->next_bar, c->state_bar};
}

// No bodies move: the cotangents of what only a coupled step has are zero.
static void clear_coupled_cotangents(pbScratch *s) {
  pbCouple *c = s->couple;
  size_t attached = 3 * (size_t)c->points.count * sizeof(double);
  size_t dofs = (size_t)s->model->nv * sizeof(double);

  memset(c->force, 0, attached);
  memset(c->lam, 0, dofs);
  memset(c->acc, 0, dofs);
}

void pbCouple_RestEnd(pbScratch *s, const pbStepRecord *step, const pbStepBar *out) {
  const pbModel *m = s->model;
  const pbDeform *d = m->deform;
  pbCouple *c = s->couple;

  // v = (end - start) / h. The state's own entries are not read.
  double *velocity_bar = c->state_bar + 3 * d->npoint;
  double h = timestep_of(m, step->theta);
  double h_bar = 0;
  pbCouple_Gather(d, c->state_bar, c->start_bar);
  for (int i = 0; i < 3 * d->nattached; i++) {
    int at = pb_attachedAt(d, i);
    c->end_bar[i] = velocity_bar[at] / h;
    c->start_bar[i] -= velocity_bar[at] / h;
    h_bar -= velocity_bar[at] * s->deform->v[at] / h;
    c->state_bar[at] = 0;
  }
  pbCouple_ClearVelocities(d, c->state_bar);
  pbCouple_AddTo(out->x + 2 * m->nv + m->na, c->state_bar, m->deform_tangent);
  if (!out->theta && !out->input) return;

  clear_coupled_cotangents(s);
  pbCouple_LoadAttachments(s, step->theta, step->record, step->input, NULL);
  pbCouple_PullMocap(s, out->input);
  // The time step, and what places the bodies.
  if (!out->theta) return;
  out->theta[m->timestep - m->theta0] += h_bar;
  pbCouple_PullParameters(s, step->theta, out->theta);
}

const double *pbCouple_RestTangent(pbScratch *s, const pbStepRecord *step, const pbDirection *direction) {
  const pbModel *m = s->model;
  const pbDeform *d = m->deform;
  pbCouple *c = s->couple;
  size_t bytes = (size_t)m->deform_tangent * sizeof(double);

  if (direction->x) memcpy(c->state_tangent, direction->x + 2 * m->nv + m->na, bytes);
  else memset(c->state_tangent, 0, bytes);

  // No forces, no accelerations: positions at the start and the end are all that counts.
  memset(c->force, 0, 3 * (size_t)d->nattached * sizeof(double));
  memset(c->acc, 0, (size_t)m->nv * sizeof(double));
  pbCouple_PushAttachments(s, step, direction);
  pbCouple_Scatter(d, c->start_tangent, c->state_tangent);

  // dv = (dend - dstart - v dh) / h, v as pbCouple_State left it
  double *velocity = c->state_tangent + 3 * d->npoint;
  double h = timestep_of(m, step->theta);
  double h_tangent = direction->theta ? timestep_of(m, direction->theta) : 0;
  for (int i = 0; i < 3 * d->nattached; i++) {
    int at = pb_attachedAt(d, i);
    velocity[at] = (c->x_tangent[i] - c->start_tangent[i] - c->state[3 * d->npoint + at] * h_tangent) / h;
  }

  return c->state_tangent;
}
