// Bodies and deformables in one step: memory, attached points, and the linearization that the step and its derivatives share.
// Equation numbers are those of docs/coupling.md.
// Tests: tests/unit/test_deform.c, tests/oracle/test_deform_cli.py.
#include "couple/couple_parts.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"
#include "elementary/elementary.h"
#include "model/state_layout.h"
#include "step/scratch.h"

// ---- memory -----------------------------------------------------------------------------------------------------------
static void take_vectors(pbArena *a, size_t size, double ***vectors, size_t count) {
  for (size_t i = 0; i < count; i++) *vectors[i] = pbArena_Take(a, size, sizeof(double));
}

static void layout(pbArena *a, const pbModel *m, pbCouple *c) {
  const pbDeform *d = m->deform;
  size_t nv = (size_t)m->nv;
  size_t attached = 3 * (size_t)d->nattached;
  size_t all = 3 * (size_t)d->npoint;

  // Vectors by what they have an entry for
  double **by_dof[] = {&c->acc,         &c->tau,          &c->g,         &c->model_at,
                       &c->direction,   &c->phi_gradient, &c->trial_acc, &c->path_acc,
                       &c->adjoint_rhs, &c->lam,          &c->g_tangent, &c->acc_tangent,
                       &c->tau_tangent, &c->unit,         &c->damping,   &c->damping_tangent};
  double **by_attached[] = {&c->attached.x, &c->attached.gradient, &c->force,      &c->start_bar, &c->end_bar,
                            &c->x_tangent,  &c->start_tangent,     &c->local_unit, &c->led};
  double **by_point[] = {&c->path_from, &c->path_to, &c->path_step};
  double **by_tangent[] = {&c->next_bar, &c->state_bar, &c->state_tangent};
  take_vectors(a, nv, by_dof, sizeof by_dof / sizeof *by_dof);
  take_vectors(a, attached, by_attached, sizeof by_attached / sizeof *by_attached);
  take_vectors(a, all, by_point, sizeof by_point / sizeof *by_point);
  take_vectors(a, (size_t)m->deform_tangent, by_tangent, sizeof by_tangent / sizeof *by_tangent);
  c->state = pbArena_Take(a, (size_t)m->deform_state, sizeof(double));
  c->mocap_unit = pbArena_Take(a, 6 * (size_t)m->nmocap, sizeof(double));

  // Matrices
  c->K = pbArena_Take(a, nv * nv, sizeof(double));
  c->S = pbArena_Take(a, nv * nv, sizeof(double));
  c->eigen = pbArena_Take(a, (size_t)pbProject_Room(m->nv), sizeof(double));
  c->columns = pbArena_Take(a, nv * all, sizeof(double));
  c->attached.J = pbArena_Take(a, attached * nv, sizeof(double));
  c->attached.A = pbArena_Take(a, nv * nv, sizeof(double));
  c->attached.B = pbArena_Take(a, nv * 3 * (size_t)d->nfree, sizeof(double));
  c->query.room = pbArena_Take(a, pbJvp_AttachmentRoom(m, d->nattached), 1);
}

pbStatus pbCouple_Create(pbScratch *s) {
  const pbModel *m = s->model;
  const pbDeform *d = m->deform;
  pbCouple *c = s->couple = pbContext_Alloc(s->ctx, sizeof *c);
  if (!c) return pb_no_memory;

  pbArena a = pbArena_Measure();
  layout(&a, m, c);
  size_t needed = pbArena_Needed(&a);
  if (needed == SIZE_MAX || !(c->memory = pbContext_Alloc(s->ctx, needed))) return pb_no_memory;
  // The same walk again, now over the block
  a = pbArena_Over(c->memory, needed);
  layout(&a, m, c);
  PB_ASSERT(!a.failed && pbArena_Needed(&a) == needed);

  c->points = (pbAttachments){d->nattached, d->attached_body, d->attached_geom, d->attached_size};
  c->query.points = &c->points;
  c->attached.n = m->nv;
  c->led_share = 1;

  return pb_ok;
}

void pbCouple_Destroy(pbScratch *s) {
  if (!s->couple) return;
  pbContext_Free(s->ctx, s->couple->memory);
  pbContext_Free(s->ctx, s->couple);
}

// ---- vectors over points ------------------------------------------------------------------------------------------------
void pbCouple_Scatter(const pbDeform *d, const double *attached, double *points) {
  for (int i = 0; i < 3 * d->nattached; i++) points[pb_attachedAt(d, i)] = attached[i];
}

void pbCouple_Gather(const pbDeform *d, const double *points, double *attached) {
  for (int i = 0; i < 3 * d->nattached; i++) attached[i] = points[pb_attachedAt(d, i)];
}

void pbCouple_ClearVelocities(const pbDeform *d, double *state) {
  double *velocity = state + 3 * d->npoint;
  for (int i = 0; i < 3 * d->nattached; i++) velocity[pb_attachedAt(d, i)] = 0;
}

double pbCouple_AddFree(const pbDeform *d, double sum, double sign, const double *row, const double *x) {
  for (int i = 0; i < 3 * d->nfree; i++) sum += sign * row[i] * x[pb_freeAt(d, i)];
  return sum;
}

void pbCouple_AddTo(double *to, const double *from, int n) {
  if (!to) return;
  for (int i = 0; i < n; i++) to[i] += from[i];
}

// ---- positions of attached points -------------------------------------------------------------------------------------
static const pbAttachmentTangent no_tangent = {.q = NULL};

void pbCouple_LoadAttachments(pbScratch *s, const double *theta, const double *x, const pbInput *input,
                              const double *theta_tangent) {
  const pbModel *m = s->model;
  pbCouple *c = s->couple;
  pbStateLayout at = state_layout(m);

  // The bodies' state, and local coordinates on them
  c->query.qpos = x + at.qpos;
  c->query.qvel = x + at.qvel;
  c->query.acc = c->acc;
  c->query.local = theta + m->deform_theta + m->deform->local_at;
  c->query.force = NULL;
  c->query.input = input;
  c->query.start = false;

  pbJvp_LoadAttachmentTheta(s->complex_work, theta, theta_tangent);
}

void pbCouple_PlaceAtStart(pbScratch *s, const double *theta, const double *x, const pbInput *input, double *points) {
  pbCouple *c = s->couple;

  pbCouple_LoadAttachments(s, theta, x, input, NULL);
  pbAttachmentQuery query = c->query;
  query.start = true;
  pbJvp_Attachments(s->complex_work, &query, &no_tangent, &(pbAttachmentOut){.x = c->attached.x});
  pbCouple_Scatter(s->model->deform, c->attached.x, points);
}

void pbCouple_PlaceAt(pbScratch *s, const double *acc, double *points) {
  pbCouple *c = s->couple;
  pbAttachmentQuery query = c->query;

  query.acc = acc;
  query.force = NULL;
  pbJvp_Attachments(s->complex_work, &query, &no_tangent, &(pbAttachmentOut){.x = c->attached.x});

  // Of what is led only a share of the way, where contacts stopped it.
  int led = c->led_share < 1 ? 3 * c->points.count : 0;
  for (int i = 0; i < led; i++) c->attached.x[i] -= (1 - c->led_share) * c->led[i];
  pbCouple_Scatter(s->model->deform, c->attached.x, points);
}

// J = dP/da at c->acc, a column for each degree of freedom.
static void differentiate_positions(pbScratch *s) {
  pbCouple *c = s->couple;
  int nv = c->attached.n;

  memset(c->unit, 0, (size_t)nv * sizeof(double));
  for (int k = 0; k < nv; k++) {
    c->unit[k] = 1;
    pbJvp_Attachments(s->complex_work, &c->query, &(pbAttachmentTangent){.acc = c->unit},
                      &(pbAttachmentOut){.x_tangent = c->x_tangent});
    c->unit[k] = 0;
    for (int i = 0; i < 3 * c->points.count; i++) c->attached.J[i * nv + k] = c->x_tangent[i];
  }
}

// tau = J'f and K = d(J'f)/da with the forces f held: K = sum_i f_i d^2 P_i / da^2, the curvature of the points' paths.
static void differentiate_forces(pbScratch *s, const double *force) {
  pbCouple *c = s->couple;
  int nv = c->attached.n;
  pbAttachmentQuery query = c->query;

  query.force = force;

  memset(c->unit, 0, (size_t)nv * sizeof(double));
  for (int k = 0; k < nv; k++) {
    c->unit[k] = 1;
    pbJvp_Attachments(s->complex_work, &query, &(pbAttachmentTangent){.acc = c->unit},
                      &(pbAttachmentOut){.tau = c->tau, .tau_tangent = c->tau_tangent});
    c->unit[k] = 0;
    for (int i = 0; i < nv; i++) c->K[i * nv + k] = c->tau_tangent[i];
  }
}

// ---- the start of a step ------------------------------------------------------------------------------------------------
pbStatus pbCouple_Begin(pbScratch *s, const double *theta, const double *x, const pbInput *input, double *state) {
  const pbModel *m = s->model;
  pbDeformInput in = pbDeformInput_Of(m, theta, x, input);

  in.ticks = s->ticks;

  memcpy(state, x + state_layout(m).deform, (size_t)m->deform_state * sizeof(double));
  pbCouple_PlaceAtStart(s, theta, x, input, state);
  pbJvp_JointDamping(s->complex_work, &s->couple->query, &no_tangent, s->couple->damping, NULL);
  pbCouple_ClearVelocities(m->deform, state);

  return pbDeform_Begin(s->deform, &in, state);
}

pbStatus pbCouple_LoadSolution(pbScratch *s, const pbStepRecord *step, const double **next) {
  const pbModel *m = s->model;

  pbScratch_Load(s, step->theta, step->record, step->input);
  PB_TRY(pbCouple_Begin(s, step->theta, step->record, step->input, s->couple->state));

  PB_ASSERT(tape_stages(m) + m->nv <= pbTape_Size(m) - pb_deformRecord(m));

  // The record has the state after the step behind the bodies' part, and the accelerations found.
  *next = step->record + pbTape_Size(m) - pb_deformRecord(m);
  memcpy(s->couple->acc, step->record + tape_stages(m), (size_t)m->nv * sizeof(double));
  memcpy(s->deform->x, *next, 3 * (size_t)m->deform->npoint * sizeof(double));

  return pb_ok;
}

// ---- the coupled system -----------------------------------------------------------------------------------------------
pbStatus pbCouple_Linearize(pbScratch *s, bool definite, double *value) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  int negative;

  // P and J first: the sum over elements needs them where it meets attached points.
  pbCouple_PlaceAt(s, c->acc, w->x);
  differentiate_positions(s);

  // V, V_x, f = V_P, A = J' V_PP J, B = J' V_Px, and Hxx = V_xx with its factor.
  if (definite) {
    PB_TRY(pbDeform_LookDefinite(w, w->x, value, w->gradient));
  } else {
    PB_TRY(pbDeform_Look(w, w->x, value, w->gradient, true, 0));
    PB_TRY(pbDeformMatrix_Factor(w, &negative));
  }

  differentiate_forces(s, c->attached.gradient);

  return pb_ok;
}

// columns = Hxx^-1 B', a row for each degree of freedom.
static pbStatus solve_columns(pbScratch *s) {
  pbCouple *c = s->couple;
  const pbDeform *d = s->deform->d;
  size_t all = 3 * (size_t)d->npoint;
  int width = 3 * d->nfree;

  for (int k = 0; k < c->attached.n; k++) {
    double *column = c->columns + (size_t)k * all;
    memset(column, 0, all * sizeof(double));
    for (int i = 0; i < width; i++) column[pb_freeAt(d, i)] = c->attached.B[k * width + i];
    PB_TRY(pbDeform_Solve(s->deform, false, column));
  }

  return pb_ok;
}

// g = (tau - B Hxx^-1 V_x) / h^4 + D a, with Hxx^-1 V_x in w->step                                                       (5)
static void reduce_gradient(pbScratch *s, double h4) {
  pbCouple *c = s->couple;
  const pbDeform *d = s->deform->d;
  int width = 3 * d->nfree;

  for (int k = 0; k < c->attached.n; k++) {
    // The sum in the order of the points
    double sum = pbCouple_AddFree(d, c->tau[k], -1, c->attached.B + k * width, s->deform->step);
    c->g[k] = sum / h4 + c->damping[k] * c->acc[k];
  }
}

// S = (A + K - B Hxx^-1 B') / h^4 + D, the Schur complement of the free points, symmetric but for rounding              (5)
static void reduce_matrix(pbScratch *s, double h4) {
  pbCouple *c = s->couple;
  const pbDeform *d = s->deform->d;
  size_t all = 3 * (size_t)d->npoint;
  int n = c->attached.n;
  int width = 3 * d->nfree;

  for (int k = 0; k < n; k++) {
    for (int l = 0; l < n; l++) {
      double damping = l == k ? c->damping[k] : 0;
      double direct = c->attached.A[k * n + l] + c->K[k * n + l];
      c->S[k * n + l] = pbCouple_AddFree(d, direct, -1, c->attached.B + k * width, c->columns + (size_t)l * all) / h4 + damping;
    }
  }

  // The solvers read one triangle.
  for (int k = 0; k < n; k++) {
    for (int l = 0; l < k; l++) {
      double mean = 0.5 * (c->S[k * n + l] + c->S[l * n + k]);
      c->S[k * n + l] = mean;
      c->S[l * n + k] = mean;
    }
  }
}

pbStatus pbCouple_Eliminate(pbScratch *s) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  double h4 = pbPow(w->in.h, 4);
  PB_ASSERT(h4 > 0);

  // Hxx^-1 of all right sides
  memcpy(w->step, w->gradient, 3 * (size_t)w->d->npoint * sizeof(double));
  PB_TRY(pbDeform_Solve(w, false, w->step));
  PB_TRY(solve_columns(s));

  // What is left is a quadratic about these accelerations.
  reduce_gradient(s, h4);
  reduce_matrix(s, h4);
  memcpy(c->model_at, c->acc, (size_t)c->attached.n * sizeof(double));

  return pb_ok;
}

void pbCouple_UseModel(pbScratch *s, bool on) {
  pbCouple *c = s->couple;
  s->w.couple_S = on ? c->S : NULL;
  s->w.couple_g = c->g;
  s->w.couple_at = c->model_at;
}

// ---- failures -----------------------------------------------------------------------------------------------------------
pbStatus pbCouple_Settle(pbScratch *s, pbStatus status, unsigned failures) {
  pbDeformWork *w = s->deform;
  bool explained = s->failures != failures && !w->lacks;

  status = pbDeform_Settle(w, status);
  // Solvers of the deformables leave their text in w->error.
  if (status == pb_ok || explained) return status;

  return pbScratch_Fail(s, status, "%s at time %.9g", *w->error ? w->error : pbStatus_Text(status), *s->w.time);
}
