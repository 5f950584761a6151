// The pullback of a coupled step: the transposed block system at the solution, then what its solution (lam for the bodies, w
// for the points) gives to everything that the residual depends on. Equations: docs/coupling.md.
// Tests: tests/unit/test_deform.c, tests/oracle/test_deform_cli.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/mutate.h"
#include "couple/couple_parts.h"
#include "elementary/elementary.h"
#include "model/state_layout.h"
#include "step/scratch.h"
#include "step/vjp.h"

// ---- attached points ------------------------------------------------------------------------------------------------------
double pbCouple_Pull(pbScratch *s, const pbAttachmentTangent *tangent) {
  pbCouple *c = s->couple;
  int nv = c->attached.n;
  int n = 3 * c->points.count;

  // At the end of the step, forces held: end_bar . dP - lam . dtau
  pbAttachmentQuery query = c->query;
  query.force = c->force;
  pbJvp_Attachments(s->complex_work, &query, tangent,
                    &(pbAttachmentOut){.x_tangent = c->x_tangent, .tau_tangent = c->tau_tangent});
  double sum = pb_dot(c->end_bar, c->x_tangent, n) - pb_dot(c->lam, c->tau_tangent, nv);

  // At its start
  // Forces act at the end alone.
  query.start = true;
  query.force = NULL;
  pbJvp_Attachments(s->complex_work, &query, tangent, &(pbAttachmentOut){.x_tangent = c->x_tangent});

  sum += pb_dot(c->start_bar, c->x_tangent, n);
  PB_MUTE(pb_muteCoupling, pb_mute_coupled(tangent->q, tangent->v, tangent->local), &sum, 1);

  return sum;
}

// A field of theta that positions depend on: rows of numbers; unit: of quaternions or axes.
typedef struct field {
  const double *at;  // in theta0
  int rows, cols;
  bool unit;
} field;

static void pull_field(pbScratch *s, const double *theta, const field *f, double *theta_bar) {
  // One entry at a time: the direction of theta is that entry alone.
  size_t first = (size_t)(f->at - s->model->theta0);
  PB_ASSERT(first + (size_t)f->rows * (size_t)f->cols <= s->model->ntheta);
  for (int i = 0; i < f->rows * f->cols; i++) {
    size_t entry = first + (size_t)i;
    pbJvp_SeedAttachmentTheta(s->complex_work, theta, entry, i % f->cols, f->cols, f->unit, 1);
    theta_bar[entry] += pbCouple_Pull(s, &(pbAttachmentTangent){.q = NULL});
    pbJvp_SeedAttachmentTheta(s->complex_work, theta, entry, i % f->cols, f->cols, f->unit, 0);
  }
}

static void pull_local_positions(pbScratch *s, double *local_bar) {
  pbCouple *c = s->couple;
  int n = 3 * c->points.count;

  memset(c->local_unit, 0, (size_t)n * sizeof(double));
  for (int i = 0; i < n; i++) {
    c->local_unit[i] = 1;
    local_bar[i] += pbCouple_Pull(s, &(pbAttachmentTangent){.local = c->local_unit});
    c->local_unit[i] = 0;
  }
}

void pbCouple_PullParameters(pbScratch *s, const double *theta, double *theta_bar) {
  const pbModel *m = s->model;
  const field fields[] = {
      {m->timestep, 1, 1, false},          {m->body_pos, m->nbody, 3, false},    {m->body_quat, m->nbody, 4, true},
      {m->jnt_pos, m->njnt, 3, false},     {m->jnt_axis, m->njnt, 3, true},      {m->qpos0, m->nq, 1, false},
      {m->geom_pos, m->ngeom, 3, false},   {m->geom_quat, m->ngeom, 4, true},    {m->geom_size, m->ngeom, 3, false},
      {m->mesh_scale, m->nmesh, 3, false}, {m->mesh_refpos, m->nmesh, 3, false}, {m->mesh_refquat, m->nmesh, 4, true}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) pull_field(s, theta, fields + i, theta_bar);
  pull_local_positions(s, theta_bar + m->deform_theta + m->deform->local_at);
}

// `tangent` has the unit vector (n numbers) in the place that the cotangents are of.
static void pull_mocap(pbScratch *s, double *bar, int n, const pbAttachmentTangent *tangent) {
  double *unit = s->couple->mocap_unit;
  if (!bar) return;

  memset(unit, 0, (size_t)n * sizeof *unit);
  for (int i = 0; i < n; i++) {
    unit[i] = 1;
    bar[i] += pbCouple_Pull(s, tangent);
    unit[i] = 0;
  }
}

void pbCouple_PullMocap(pbScratch *s, const pbInputBar *bar) {
  // One direction at a time, as of all that attached points follow.
  const double *unit = s->couple->mocap_unit;
  int n = s->model->nmocap;
  if (!bar) return;
  pull_mocap(s, bar->mocap_pos, 3 * n, &(pbAttachmentTangent){.mocap_pos = unit});
  pull_mocap(s, bar->mocap_rot, 3 * n, &(pbAttachmentTangent){.mocap_rot = unit});
  pull_mocap(s, bar->mocap_vel, 6 * n, &(pbAttachmentTangent){.mocap_vel = unit});
}

// From start_bar, end_bar and lam to the bodies' state (q and v, one degree of freedom at a time), to theta and mocap bodies.
static void pull_attachment_points(pbScratch *s, const pbStepRecord *step, const pbStepBar *out) {
  pbCouple *c = s->couple;
  int nv = s->model->nv;
  double *x_bar = out->x;

  pbCouple_LoadAttachments(s, step->theta, step->record, step->input, NULL);
  memcpy(c->force, c->attached.gradient, 3 * (size_t)c->points.count * sizeof(double));

  memset(c->unit, 0, (size_t)nv * sizeof(double));
  for (int k = 0; k < nv; k++) {
    c->unit[k] = 1;
    x_bar[k] += pbCouple_Pull(s, &(pbAttachmentTangent){.q = c->unit});
    x_bar[nv + k] += pbCouple_Pull(s, &(pbAttachmentTangent){.v = c->unit});
    c->unit[k] = 0;
  }
  pbCouple_PullMocap(s, out->input);
  if (out->theta) pbCouple_PullParameters(s, step->theta, out->theta);
}

// ---- the adjoint system -----------------------------------------------------------------------------------------------
// Cotangents of the deformables' part: of attached points those of positions go to end_bar, and they have no velocities of
// their own.
static void split_cotangents(pbScratch *s, const double *next_bar) {
  pbCouple *c = s->couple;
  const pbDeform *d = s->deform->d;
  size_t bytes = (size_t)s->model->deform_tangent * sizeof(double);

  memcpy(c->next_bar, next_bar, bytes);
  memset(c->state_bar, 0, bytes);
  pbCouple_Gather(d, c->next_bar, c->end_bar);
  pbCouple_ClearVelocities(d, c->next_bar);
}

// w0 = Hxx^-T x_bar, in w->adjoint                                                                                   (8)
static pbStatus solve_adjoint_points(pbScratch *s) { return pbDeform_Solve(s->deform, true, s->deform->adjoint); }

// h^4 (Phi'' + S) lam = a_bar + J' P_bar - B w0. The bodies' own pullback has a_bar, solves without the factor h^4, and pulls
// Phi' back with that solution, which is right: -lam . d(h^4 Phi').                                                   (9)
static pbStatus solve_adjoint_bodies(pbScratch *s, const pbStepRecord *step, pbPullback *pull) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  const pbDeform *d = w->d;
  int nv = c->attached.n;
  double h4 = pbPow(w->in.h, 4);

  // What the points add to the right side
  for (int k = 0; k < nv; k++) {
    c->adjoint_rhs[k] = pbCouple_AddFree(d, 0, -1, c->attached.B + k * 3 * d->nfree, w->adjoint);
    for (int i = 0; i < 3 * d->nattached; i++) c->adjoint_rhs[k] += c->attached.J[i * nv + k] * c->end_bar[i];
  }

  PB_MUTE(pb_muteCoupling, pb_coupledForces, c->adjoint_rhs, nv);

  // With S in the solver as in the step
  pull->qacc = c->adjoint_rhs;
  pull->lam = c->lam;
  pbCouple_UseModel(s, true);
  pbStatus status = s->variant->vjp_one(s->adjoint_one, &s->w, step->record + tape_stages(s->model), pull);
  pbCouple_UseModel(s, false);
  PB_TRY(status);

  // Theirs is h^4 times the coupled system's.
  for (int k = 0; k < nv; k++) c->lam[k] /= h4;
  PB_VALIDATE(pb_allFinite(c->lam, (size_t)nv));

  return pb_ok;
}

// w = w0 - Hxx^-1 B' lam on free points; J lam on attached ones, whose forces do their virtual work there              (10)
static void back_substitute(pbScratch *s) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  const pbDeform *d = w->d;
  int nv = c->attached.n;
  int all = 3 * d->npoint;

  for (int k = 0; k < nv; k++) {
    const double *column = c->columns + (size_t)k * (size_t)all;
    for (int i = 0; i < all; i++) w->adjoint[i] -= column[i] * c->lam[k];
  }
  for (int i = 0; i < 3 * d->nattached; i++) w->adjoint[pb_attachedAt(d, i)] = pb_dot(c->attached.J + i * nv, c->lam, nv);
}

// ---- the pullback -----------------------------------------------------------------------------------------------------
// -w . dV_x of the points' residual by all that V depends on. By the time step: h^4 stands before Phi', h^2 before the forces f
// of tau, so h^4 Phi' + tau = 0 leaves lam . tau (4 - 2) / h.                                              (12)
static pbStatus pull_points(pbScratch *s, const pbDeformBar *bar) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  const pbDeform *d = w->d;

  if (bar->h) *bar->h += 2 / w->in.h * pb_dot(c->lam, c->tau, c->attached.n);
  PB_TRY(pbDeform_VjpEnd(w, c->next_bar, c->state_bar, bar));

  // What V took for positions of attached points, at the end of the step and at its start. Their entries of the state are not
  // read.
  pbCouple_Gather(d, w->y_bar, c->start_bar);
  for (int i = 0; i < 3 * d->nattached; i++) {
    int at = pb_attachedAt(d, i);
    c->end_bar[i] += w->z_bar[at];
    c->state_bar[at] = 0;
  }
  pbCouple_ClearVelocities(d, c->state_bar);

  return pb_ok;
}

static pbStatus vjp(pbScratch *s, const pbStepRecord *step, const double *next_bar, pbPullback *pull, const pbStepBar *out) {
  const pbModel *m = s->model;
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  int tangent = 2 * m->nv + m->na;
  pbDeformBar bar = pbDeformBar_Of(m, out->input, out->theta);
  const double *next;
  double potential;

  // The block system at the solution, of the true Hessians
  PB_TRY(pbCouple_LoadSolution(s, step, &next));
  split_cotangents(s, next_bar + tangent);
  pbDeform_VjpBegin(w, c->state, next, c->next_bar);
  PB_TRY(pbCouple_Linearize(s, false, &potential));
  PB_TRY(pbCouple_Eliminate(s));

  // Its transpose                                                                                                    (7)
  PB_TRY(solve_adjoint_points(s));
  pbDeformLead_PullBegin(w, c->state_bar);
  pbDeform_VjpPast(w, next, c->next_bar, c->state_bar, &bar);
  PB_TRY(solve_adjoint_bodies(s, step, pull));
  back_substitute(s);

  // From the residual to what it depends on                                                                          (11)
  PB_TRY(pull_points(s, &bar));
  pbDeformLead_PullEnd(w, c->state_bar, &bar);
  pbCouple_AddTo(out->x + tangent, c->state_bar, m->deform_tangent);
  pull_attachment_points(s, step, out);

  return pb_ok;
}

pbStatus pbCouple_Vjp(pbScratch *s, const pbStepRecord *step, const double *next_bar, pbPullback *pull, const pbStepBar *out) {
  unsigned failures = s->failures;
  PB_VALIDATE(pb_allFinite(next_bar, (size_t)pbModel_TangentSize(s->model)));
  return pbCouple_Settle(s, vjp(s, step, next_bar, pull, out), failures);
}
