// Points attached to bodies that rest are prescribed points of a world whose deformables are not coupled: their positions
// follow from theta and from the poses of mocap bodies, and derivatives of them go there.
#include <string.h>

#include "base/assert.h"
#include "couple/couple_parts.h"
#include "model/state_layout.h"

const double *pbCouple_State(pbScratch *s, const double *theta, const double *x, const pbInput *input) {
  const pbModel *m = s->model;
  pbCouple *c = s->couple;

  PB_ASSERT(!pb_coupled(m));  // bodies that move have a step of their own
  memcpy(c->state, x + state_layout(m).deform, (size_t)m->deform_state * sizeof(double));
  // Their entries in x are not read: they follow from theta.
  pbCouple_PlaceAtStart(s, theta, x, input, c->state);
  pbCouple_ClearVelocities(m->deform, c->state);
  return c->state;
}

pbRestingBar pbCouple_RestBegin(pbScratch *s, const double *next_bar) {
  pbCouple *c = s->couple;
  size_t bytes = (size_t)s->model->deform_tangent * sizeof(double);

  memcpy(c->next_bar, next_bar, bytes);
  memset(c->state_bar, 0, bytes);
  pbCouple_ClearVelocities(s->model->deform, c->next_bar);
  return (pbRestingBar){c->next_bar, c->state_bar};
}

// No bodies move: the cotangents of what only a coupled step has are zero.
static void clear_coupled_cotangents(pbScratch *s) {
  pbCouple *c = s->couple;
  size_t attached = 3 * (size_t)c->points.count * sizeof(double);
  size_t dofs = (size_t)s->model->nv * sizeof(double);

  memset(c->end_bar, 0, attached);
  memset(c->force, 0, attached);
  memset(c->lam, 0, dofs);
  memset(c->acc, 0, dofs);
}

void pbCouple_RestEnd(pbScratch *s, const pbStepRecord *step, const pbStepBar *out) {
  const pbModel *m = s->model;
  const pbDeform *d = m->deform;
  pbCouple *c = s->couple;

  // A point at rest ends where it starts: the cotangent of the start is all of it. The state's own entries are not read.
  pbCouple_Gather(d, c->state_bar, c->start_bar);
  for (int i = 0; i < 3 * d->nattached; i++) c->state_bar[pb_attachedAt(d, i)] = 0;
  pbCouple_ClearVelocities(d, c->state_bar);
  pbCouple_AddTo(out->x + 2 * m->nv + m->na, c->state_bar, m->deform_tangent);
  if (!out->theta && !out->input) return;

  clear_coupled_cotangents(s);
  pbCouple_LoadAttachments(s, step->theta, step->record, step->input, NULL);
  pbCouple_PullMocap(s, out->input);
  if (out->theta) pbCouple_PullParameters(s, step->theta, out->theta);
}

const double *pbCouple_RestTangent(pbScratch *s, const pbStepRecord *step, const pbDirection *direction) {
  const pbModel *m = s->model;
  const pbDeform *d = m->deform;
  pbCouple *c = s->couple;
  size_t bytes = (size_t)m->deform_tangent * sizeof(double);

  if (direction->x) memcpy(c->state_tangent, direction->x + 2 * m->nv + m->na, bytes);
  else memset(c->state_tangent, 0, bytes);

  // No forces, no accelerations: positions at the start are all that counts.
  memset(c->force, 0, 3 * (size_t)d->nattached * sizeof(double));
  memset(c->acc, 0, (size_t)m->nv * sizeof(double));
  pbCouple_PushAttachments(s, step, direction);
  pbCouple_Scatter(d, c->start_tangent, c->state_tangent);
  pbCouple_ClearVelocities(d, c->state_tangent);
  return c->state_tangent;
}
