// The forward derivative of a coupled step: the derivative of its residual along a direction, and the block system for the
// tangents of accelerations and points. Equations: docs/coupling.md.
// Tests: tests/unit/test_deform.c, tests/oracle/test_deform_cli.py.
#include <math.h>
#include <string.h>

#include "couple/couple_parts.h"
#include "elementary/elementary.h"
#include "step/scratch.h"

void pbCouple_PushAttachments(pbScratch *s, const pbStepRecord *step, const pbDirection *direction) {
  const pbModel *m = s->model;
  pbCouple *c = s->couple;
  pbAttachmentTangent tangent = {
      .q = direction->x, .mocap_pos = direction->mocap_pos, .mocap_rot = direction->mocap_rot, .mocap_vel = direction->mocap_vel};

  if (direction->x) tangent.v = direction->x + m->nv;
  if (direction->theta) tangent.local = direction->theta + m->deform_theta + m->deform->local_at;
  pbCouple_LoadAttachments(s, step->theta, step->record, step->input, direction->theta);

  // At the start of the step, then at its end, there with the forces that act
  pbAttachmentQuery query = c->query;
  query.start = true;
  pbJvp_Attachments(s->complex_work, &query, &tangent, &(pbAttachmentOut){.x_tangent = c->start_tangent});
  query.start = false;
  query.force = c->force;
  pbJvp_Attachments(s->complex_work, &query, &tangent,
                    &(pbAttachmentOut){.x_tangent = c->x_tangent, .tau_tangent = c->tau_tangent});
  pbJvp_JointDamping(s->complex_work, &query, &tangent, NULL, c->damping_tangent);
}

// The state's tangent, with that of attached points where their bodies have them.
static const double *state_tangent(pbScratch *s, const double *given) {
  pbCouple *c = s->couple;
  const pbDeform *d = s->deform->d;
  size_t bytes = (size_t)s->model->deform_tangent * sizeof(double);

  if (given) memcpy(c->state_tangent, given, bytes);
  else memset(c->state_tangent, 0, bytes);
  pbCouple_Scatter(d, c->start_tangent, c->state_tangent);
  pbCouple_ClearVelocities(d, c->state_tangent);

  return c->state_tangent;
}

// dg = (dtau + B dx0 - 2 tau dh / h) / h^4 at held accelerations, dtau = (J'f)' with f held + J' df and dx0 = -Hxx^-1 dV_x: what
// the model of the deformables changes by. w->step holds -df on attached points, -dV_x on free ones, and dx0 afterwards.    (14)
static pbStatus reduce_tangent(pbScratch *s, double h_tangent) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  const pbDeform *d = w->d;
  int nv = c->attached.n;
  double h4 = pbPow(w->in.h, 4);

  // At held accelerations and free points; by the time step as in (12)
  for (int k = 0; k < nv; k++) {
    c->g_tangent[k] = c->tau_tangent[k] - 2 * h_tangent / w->in.h * c->tau[k];
    for (int i = 0; i < 3 * d->nattached; i++) c->g_tangent[k] -= c->attached.J[i * nv + k] * w->step[pb_attachedAt(d, i)];
  }

  // The free points follow
  PB_TRY(pbDeform_Solve(w, false, w->step));
  for (int k = 0; k < nv; k++) {
    double sum = pbCouple_AddFree(d, c->g_tangent[k], 1, c->attached.B + k * 3 * d->nfree, w->step);
    c->g_tangent[k] = sum / h4 + c->damping_tangent[k] * c->acc[k];
  }

  return pb_ok;
}

// (Phi'' + S) da = -(dPhi' + dg), by the bodies' own forward derivative with the quadratic taken along                  (15)
static pbStatus solve_tangent_bodies(pbScratch *s, const pbStepRecord *step, const pbDirection *direction,
                                     const pbStepTangent *out) {
  pbCouple *c = s->couple;

  pbJvp_Couple(s->complex_work, c->S, c->g, c->g_tangent, c->model_at);
  pbStatus status = pbJvp_Run(s->complex_work, step, c->acc, direction, true, out);
  // The run's, before the quadratic is taken away
  pbJvp_Acceleration(s->complex_work, c->acc_tangent);
  pbJvp_Couple(s->complex_work, NULL, NULL, NULL, NULL);

  return status;
}

// dx = dx0 - Hxx^-1 B' da on free points; dP + J da on attached ones, where JvpEnd reads what is prescribed            (16)
static void back_substitute(pbScratch *s) {
  const pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  const pbDeform *d = w->d;
  int nv = c->attached.n;
  int all = 3 * d->npoint;

  for (int k = 0; k < nv; k++) {
    const double *column = c->columns + (size_t)k * (size_t)all;
    for (int i = 0; i < all; i++) w->step[i] -= column[i] * c->acc_tangent[k];
  }
  for (int i = 0; i < 3 * d->nattached; i++)
    w->z_bar[pb_attachedAt(d, i)] = c->x_tangent[i] + pb_dot(c->attached.J + i * nv, c->acc_tangent, nv);
}

static pbStatus jvp(pbScratch *s, const pbStepRecord *step, const pbDirection *direction, const pbStepTangent *out) {
  const pbModel *m = s->model;
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  double *next_tangent = out->next + 2 * m->nv + m->na;
  pbDeformDirection along = pbDeformDirection_Of(m, direction);
  const double *next;
  double potential;

  // The block system at the solution, of the true Hessians
  PB_TRY(pbCouple_LoadSolution(s, step, &next));
  PB_TRY(pbCouple_Linearize(s, false, &potential));
  PB_TRY(pbCouple_Eliminate(s));

  // The residual's derivative along the direction                                                                    (13)
  memcpy(c->force, c->attached.gradient, 3 * (size_t)m->deform->nattached * sizeof(double));
  pbCouple_PushAttachments(s, step, direction);
  along.state = state_tangent(s, along.state);
  along.state = pbDeformLead_Push(w, &along);
  PB_TRY(pbDeform_JvpBegin(w, c->state, next, &along, c->x_tangent));

  PB_TRY(reduce_tangent(s, along.h));
  PB_TRY(solve_tangent_bodies(s, step, direction, out));
  back_substitute(s);

  pbDeform_JvpEnd(w, c->state, next, &along, next_tangent);
  pbCouple_ClearVelocities(m->deform, next_tangent);

  return pb_ok;
}

pbStatus pbCouple_Jvp(pbScratch *s, const pbStepRecord *step, const pbDirection *direction, const pbStepTangent *out) {
  return pbDeform_Settle(s->deform, jvp(s, step, direction, out));
}
