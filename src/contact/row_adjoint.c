// What the pullback of rows shares: J x and J'f, forces, contacts of pairs (row_adjoint.h). All rows: bodies/rows_adjoint.c.
// Tests: tests/unit/test_servo.c, tests/conformance/test_step.c.
#include "contact/row_adjoint.h"

#include "base/assert.h"
#include "math/vec.h"

typedef LANE(pbRowBar) row_bar;

void LANE(pbRow_Times)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, const lane *v, lane *out) {
  const int *dofs = w->row_dofs + r->dofs;
  const num *J = w->row_J + r->J;

  for (int k = 0; k < r->dim; k++, J += r->n) {
    lane s = PB_LANE_ZERO;
    for (int i = 0; i < r->n; i++) s += J[i] * v[dofs[i]];
    out[k] = s;
  }
}

void LANE(pbRow_AddForce)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, const lane *f, lane *out) {
  const int *dofs = w->row_dofs + r->dofs;
  const num *J = w->row_J + r->J;
  for (int k = 0; k < r->dim; k++, J += r->n) {
    for (int i = 0; i < r->n; i++) out[dofs[i]] += J[i] * f[k];
  }
}

// ---- forces -----------------------------------------------------------------------------------------------------------
// What sweeps against slip ask of Newton's solution.
static void add_slip(const NUM(pbConstraints) *w, const NUM(pbRow) *r, const LANE(pbSlipBar) *slip, row_bar *bar) {
  for (int i = 0; i < r->dim; i++) bar->z[i] -= slip->x[i];
  for (int i = 0; i < 5; i++) bar->friction[i] += slip->friction[i];
  if (r->kind == pb_rowFriction) bar->bound[1] += slip->bound;
  if (pb_pyramidal(w->m, r)) LANE(pbRow_PullRegularization)(w, r, 1, &slip->log_D, bar);
}

// Of a row that is solved for.
void LANE(pbRow_PullLaw)(LANE(pbAdjoint) *a, int index, int at, row_bar *bar) {
  const NUM(pbConstraints) *w = a->constraints;
  const NUM(pbRow) *r = w->row + index;

  // z is the cotangent of the residual: solved for with lam where forces are hard, K y where they are not.
  if (!PB_IS_COMPLEX && pb_hard(w->m)) {
    memcpy(bar->z, a->z + 6 * index, sizeof bar->z);
    bar->u = a->u + at;
    LANE(pbLaw_Pull)(a, r, bar);
  } else {
    LANE(pbRow_HessianTimes)(r, bar->y, bar->z);
    LANE(pbPotential_Pull)(w, r, bar);
    if (pb_noslip(w->m)) add_slip(w, r, a->slip_row + index, bar);
  }
}

void LANE(pbRow_PullForce)(LANE(pbAdjoint) *a, int index, int at, row_bar *bar) {
  const NUM(pbConstraints) *w = a->constraints;
  const NUM(pbRow) *r = w->row + index;

  // The force, and what its residual was made of.
  if (pb_explicit(w->m, r)) {
    LANE(pbPenalty_Pull)(w, r, bar);
  } else {
    LANE(pbRow_PullLaw)(a, index, at, bar);
    LANE(pbRow_PullReference)(w, r, bar);
  }

#if PB_LANES == 1
  if (PB_WANTS(a, pb_wantFriction)) LANE(pbPotential_PullSmoothCone)(w, r, bar);
  if (PB_WANTS(a, pb_wantRows)) LANE(pbRow_PullParameters)(a, r, bar);
#endif
}

// ---- contacts ---------------------------------------------------------------------------------------------------------
// How contacts move with their geoms, of every pair of geoms with a contact that carries a force.
void LANE(pbRows_Evaluation)(LANE(pbAdjoint) *a) {
  const NUM(pbConstraints) *w = a->constraints;
  int done = -1;
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

#if PB_LANES == 1
void LANE(pbRows_Touch)(LANE(pbAdjoint) *a, int contact, double reach, num dist, const num pos[3], num axes[3][3],
                        const num friction[2], num restitution) {
  const NUM(pbContact) *c = a->constraints->contact + contact;
  num bar[10] = {dist, pos[0], pos[1], pos[2]};
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
