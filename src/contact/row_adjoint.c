// The rows' part of the adjoint: which cotangents each row collects, in which order (row_adjoint.h).
// Tests: tests/unit/test_servo.c, tests/conformance/test_step.c.
#include "contact/row_adjoint.h"

#include "base/assert.h"
#include "base/mutate.h"
#include "math/vec.h"
#include "multibody/kink.h"
#include "multibody/spatial.h"

typedef LANE(pbRowBar) row_bar;

void LANE(pbRow_Times)(const NUM(pbWork) *w, const NUM(pbRow) *r, const lane *v, lane *out) {
  const int *dofs = w->row_dofs + r->dofs;
  const double *J = w->row_J + r->J;

  for (int k = 0; k < r->dim; k++, J += r->n) {
    lane s = PB_LANE_ZERO;
    for (int i = 0; i < r->n; i++) s += J[i] * v[dofs[i]];
    out[k] = s;
  }
}

void LANE(pbRow_AddForce)(const NUM(pbWork) *w, const NUM(pbRow) *r, const lane *f, lane *out) {
  const int *dofs = w->row_dofs + r->dofs;
  const double *J = w->row_J + r->J;
  for (int k = 0; k < r->dim; k++, J += r->n) {
    for (int i = 0; i < r->n; i++) out[dofs[i]] += J[i] * f[k];
  }
}

// ---- the functional under Vs (before lam) ----------------------------------------------------------------------------
// Relative velocity of a contact's bodies at its point under a field X, in its frame; then their relative angular velocity.
static void relative_contact_rows(const NUM(pbWork) *w, const NUM(pbRow) *r, const lane *X, lane out[6]) {
  const NUM(pbContact) *c = w->contact + r->contact;
  int b1 = w->m->geom_bodyid[c->geom1];
  int b2 = w->m->geom_bodyid[c->geom2];
  double d1[3], d2[3];
  lane u1[3], u[3], omega[3];

  body_offset(w, b1, c->pos, d1);
  body_offset(w, b2, c->pos, d2);

  PB_POINTVEL(u1, X + 6 * b1, d1);
  PB_POINTVEL(u, X + 6 * b2, d2);
  for (int k = 0; k < 3; k++) {
    u[k] -= u1[k];
    omega[k] = X[6 * b2 + k] - X[6 * b1 + k];
  }

  // In the frame: normal and tangents, then spin and rolling.
  for (int k = 0; k < r->dim; k++) out[k] = k < 3 ? PB_DOT3(c->frame + 3 * k, u) : PB_DOT3(c->frame + 3 * (k - 3), omega);
}

// Rows of two bodies' relative motion under a field X: contacts, connect, weld. False for rows that see joints.
static bool relative_rows(const NUM(pbWork) *w, const NUM(pbRow) *r, const lane *X, lane out[6]) {
  if (r->kind == pb_rowContact) relative_contact_rows(w, r, X, out);
  else if (pb_vector_residual(r)) LANE(pbEquality_RelativeRows)(w, r, X, out);
  else return false;
  return true;
}

void LANE(pbRows_Direct)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    lane *y0 = a->y0 + 6 * k;
    lane by_Vs[6], z[6];

    // What sensors ask of the row's force, and the power of the force under Vs.
    memcpy(y0, a->force + 6 * k, 6 * sizeof(lane));
    if (a->has_Vs && relative_rows(w, r, a->Vx, by_Vs)) {
      for (int i = 0; i < r->dim; i++) y0[i] += by_Vs[i];
    }
    if (!r->zone || pb_hard(w->m) || pb_noslip(w->m)) continue;  // see pbDual_Adjoint, pbSlip_Pull

    // The force moves with the acceleration by -K J.
    LANE(pbRow_HessianTimes)(r, y0, z);
    for (int i = 0; i < r->dim; i++) z[i] = -z[i];
    LANE(pbRow_AddForce)(w, r, z, a->qacc);
  }
}

// What sweeps against slip ask of Newton's solution.
static void add_slip(const NUM(pbWork) *w, const NUM(pbRow) *r, const LANE(pbSlipBar) *slip, row_bar *bar) {
  for (int i = 0; i < r->dim; i++) bar->z[i] -= slip->x[i];
  for (int i = 0; i < 5; i++) bar->friction[i] += slip->friction[i];
  if (r->kind == pb_rowFriction) bar->bound[1] += slip->bound;
  if (pb_pyramidal(w->m, r)) LANE(pbRow_PullRegularization)(w, r, 1, &slip->log_D, bar);
}

// ---- a row ------------------------------------------------------------------------------------------------------------
// y . f of a row that is solved for. at: with hard contact, the row's first number among those of active rows (solve/dual.h).
static void pull_solved_force(LANE(pbAdjoint) *a, int index, int at, row_bar *bar) {
  const NUM(pbWork) *w = a->w;
  const NUM(pbRow) *r = w->row + index;

  // z is the cotangent of the residual: solved for with lam where forces are hard, K y where they are not.
  if (pb_hard(w->m)) {
    memcpy(bar->z, a->z + 6 * index, sizeof bar->z);
    bar->u = a->u + at;
    LANE(pbLaw_Pull)(a, r, bar);
  } else {
    LANE(pbRow_HessianTimes)(r, bar->y, bar->z);
    LANE(pbPotential_Pull)(w, r, bar);
    if (pb_noslip(w->m)) add_slip(w, r, a->slip_row + index, bar);
  }
  LANE(pbRow_PullReference)(w, r, bar);
}

static void pull_geometry(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const row_bar *bar) {
  if (r->kind == pb_rowContact) {
    LANE(pbContact_PullRows)(a, r, bar);
    return;
  }
  if (pb_vector_residual(r)) {
    LANE(pbEquality_PullEnds)(a, r, bar);
    return;
  }

  // One row on joints: aref has -b J v. On tendons that is a part of their velocity's cotangent.
  lane bz = -r->b * bar->z[0];
  bool coupled = r->kind == pb_rowEquality && a->w->m->eq_type[r->equality] == pb_eqTendon;
  if (r->tendon < 0 && !coupled) LANE(pbRow_AddForce)(a->w, r, &bz, a->v);
  if (r->kind == pb_rowServo) return;  // J and the target are the actuator's
  if (r->kind == pb_rowEquality) LANE(pbEquality_PullCoupling)(a, r, bar);
  else LANE(pbLimit_PullRow)(a, r, bar);
}

// y = J lam and what sensors ask besides.
static void row_functional(const LANE(pbAdjoint) *a, int index, lane *y) {
  const NUM(pbRow) *r = a->w->row + index;
  LANE(pbRow_Times)(a->w, r, a->lam, y);
  for (int i = 0; i < r->dim; i++) y[i] += a->y0[6 * index + i];
}

void LANE(pbRows_Servos)(LANE(pbAdjoint) *a) {
  for (int k = 0; k < a->w->nrow; k++) {
    const NUM(pbRow) *r = a->w->row + k;
    if (r->kind != pb_rowServo) continue;

    lane y = PB_LANE_ZERO;
    lane z = PB_LANE_ZERO;
    row_functional(a, k, &y);
    if (pb_hard(a->w->m)) z = a->z[6 * k];
    else LANE(pbRow_HessianTimes)(r, &y, &z);
    a->act_residual[r->actuator] = z;
    a->act_target[r->actuator] = r->b * z;
  }
}

static void pull_row(LANE(pbAdjoint) *a, int index, int at) {
  const NUM(pbWork) *w = a->w;
  const NUM(pbRow) *r = w->row + index;
  row_bar bar;

  memset(&bar, 0, sizeof bar);
  bar.f = a->at.force ? a->at.force + 6 * index : r->f;
  row_functional(a, index, bar.y);
  PB_MUTE(pb_muteRow, pb_mute_row(r->kind, r->kind ? 0 : w->m->eq_type[r->equality]), bar.y, r->dim);

  // The force, and what its residual was made of.
  if (pb_explicit(w->m, r)) LANE(pbPenalty_Pull)(w, r, &bar);
  else pull_solved_force(a, index, at, &bar);

#if PB_LANES == 1
  if (PB_WANTS(a, pb_wantFriction)) LANE(pbPotential_PullSmoothCone)(w, r, &bar);
  if (PB_WANTS(a, pb_wantRows)) LANE(pbRow_PullParameters)(a, r, &bar);
#endif
  pull_geometry(a, r, &bar);
}

// How contacts move with their geoms, of every pair of geoms with a contact that carries a force.
void LANE(pbRows_Evaluation)(LANE(pbAdjoint) *a, const NUM(pbWork) *w) {
  int done = -1;
  a->w = w;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (r->kind != pb_rowContact || !r->zone) continue;

    // Contacts of a pair follow each other; the first of them stands for all.
    int first = r->contact - w->contact[r->contact].point;
    if (first == done) continue;
    LANE(pbContact_PairJacobians)(a, first, w->m->contact.onset);
    done = first;
  }
}

void LANE(pbRows_Distance)(LANE(pbAdjoint) *a, int index, lane distance_bar) {
  const NUM(pbWork) *w = a->w;
  const NUM(pbRow) *r = w->row + index;

#if PB_LANES == 1
  LANE(pbContact_ClearMeshes)(a);
#endif

  // Of a contact: through the distance that its pair has found.
  if (r->kind == pb_rowContact) {
    lane bar[10] = {distance_bar};
    LANE(pbContact_PairJacobians)(a, r->contact - w->contact[r->contact].point, w->m->contact.onset);
    LANE(pbContact_PullPair)(a, r->contact, bar);
  } else {
    LANE(pbLimit_PullDistance)(a, r, distance_bar);
  }

#if PB_LANES == 1
  LANE(pbContact_PullMeshes)(a, w->m->contact.onset);
  if (a->theta) LANE(pbRow_PullMargin)(a, r, -distance_bar);
#endif
}

// ---- all rows ---------------------------------------------------------------------------------------------------------
// A loss of zero makes no row: W = -loss sign (J lam) has its slope alone (multibody/kink.h), and what sweeps against slip ask of
// the force that they begin with.
static void pull_zero_losses(LANE(pbAdjoint) *a) {
#if PB_LANES == 1
  const NUM(pbWork) *w = a->w;
  if (!PB_WANTS(a, pb_wantLoss) || !loss_acts(w->m)) return;
  bool swept = pb_noslip(w->m);

  for (int i = 0; i < w->m->nv; i++) {
    // Those that act have rows.
    if (w->p.dof_frictionloss[i] != 0) continue;
    double power = a->lam[i] + (swept ? a->slip_loss[i] : 0);
    PB_THETA(a, dof_frictionloss, i, -loss_sign(w, i, a->at.qacc) * power);
  }

  // Tendons: the power of their Jacobian.
  for (int k = 0; k < w->m->ntendon; k++) {
    if (w->p.tendon_frictionloss[k] > 0) continue;
    double power = swept ? a->slip_loss[w->m->nv + k] : 0;
    for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) power += w->ten_J[i] * a->lam[w->ten_dofs[i]];
    PB_THETA(a, tendon_frictionloss, k, -loss_sign(w, w->m->nv + k, a->at.qacc) * power);
  }
#else
  (void)a;
#endif
}

void LANE(pbRows_Adjoint)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  int at = 0;
  PB_VALIDATE(PB_FINITE(a->lam, w->m->nv));

  pull_zero_losses(a);

  // Rows that carry no force have no power.
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (!r->zone) continue;
    pull_row(a, k, at);
    at += r->dim;
  }
}

#if PB_LANES == 1
void LANE(pbRows_Touch)(LANE(pbAdjoint) *a, int contact, double reach, double dist, const double pos[3], double axes[3][3],
                        const double friction[2], double restitution) {
  const NUM(pbContact) *c = a->w->contact + contact;
  double bar[10] = {dist, pos[0], pos[1], pos[2]};
  LANE(pbContact_ClearMeshes)(a);

  // The frame to normal and hint, these and the point to the geoms.
  LANE(pbContact_PairJacobians)(a, contact - c->point, reach);
  memcpy(bar + 4, axes[0], sizeof axes[0]);
  LANE(pbContact_PullFrame)(c, bar + 4, axes[1], axes[2], bar + 7);
  LANE(pbContact_PullPair)(a, contact, bar);
  LANE(pbContact_PullMeshes)(a, reach);
  if (!a->theta) return;

  const row_bar row = {.margin = -dist, .friction = {friction[0], friction[1]}, .restitution = restitution};
  LANE(pbContact_PullParameters)(a, contact, &row);
}
#endif
