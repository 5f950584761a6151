// Contacts: normal, tangents, spin and rolling of two bodies at a point. How they move with their geoms:
// contact/contact_geometry_adjoint.c; what mixes their parameters: contact/parameters_adjoint.c.
// Tests: tests/unit/test_contact.c, tests/conformance/test_step.c.
#include "contact/contact.h"

#include "bodies/row.h"
#include "contact/penalty.h"
#include "contact/prescribed.h"
#include "contact/row.h"
#include "contact/row_build.h"
#include "contact/weight.h"
#include "math/vec.h"

// Penalty contact: the force of a row whose J, pos and margin are set; nothing of it depends on the acceleration.
static void set_force(NUM(pbConstraints) *w, NUM(pbRow) *r) {
  const num *friction = w->contact[r->contact].friction;
  const pbContactSettings *c = &w->m->contact;
  num stiffness = w->p.contact_stiffness[0];
  num damping = w->p.contact_damping[0];

  NUM(pbRow_Times)(w, r, w->qvel, r->vel);
  NUM(pb_add_prescribed)(w, r);
  num normal = NUM(pbPenalty_Normal)(stiffness, damping, c->width, r->margin - r->pos[0], r->vel[0]).force;
  NUM(pbPenalty_Force)(r->dim, normal, friction, c->slip, r->vel, r->f);

  // Nothing is solved for: no reference, no regularization.
  r->imp = r->dimp = 0;
  r->k = r->b = r->b_tangent = 0;
  for (int i = 0; i < r->dim; i++) r->aref[i] = r->R[i] = r->D[i] = 0;
}

// Velocity of body 2 at the contact point less that of body 1, in the contact's frame; then their relative angular velocity.
static void fill_contact_jacobian(NUM(pbConstraints) *w, NUM(pbRow) *r, int b1, int b2, int n) {
  const NUM(pbContact) *c = w->contact + r->contact;
  const int *dofs = w->row_dofs + r->dofs;
  num *J = NUM(pbRow_Claim)(w, r, n);
  num d1[3], d2[3];

  body_offset(&w->mechanism, b1, c->pos, d1);
  body_offset(&w->mechanism, b2, c->pos, d2);

  // A dof moves one of the two: those that move both are left out.
  for (int i = 0; i < n; i++) {
    const num *S = w->S + 6 * dofs[i];
    bool second = pb_moves(w, dofs[i], b2);
    const num *arm = second ? d2 : d1;
    num u[3], sign = second ? 1 : -1;
    PB_POINTVEL(u, S, arm);
    for (int k = 0; k < r->dim; k++) J[k * n + i] = sign * v3_dot(c->frame + 3 * (k < 3 ? k : k - 3), k < 3 ? u : S);
  }
}

static void contact_row(NUM(pbConstraints) *w, int contact) {
  const NUM(pbContact) *c = w->contact + contact;
  if (!(re(c->dist) < re(c->margin) + w->m->contact.onset)) return;

  // Dofs that move both bodies alike do not move them against each other; a contact that nothing moves makes no row.
  int b1 = w->m->geom_bodyid[c->geom1];
  int b2 = w->m->geom_bodyid[c->geom2];
  NUM(pbRow) *r = NUM(pbRow_New)(w, pb_rowContact, contact, c->dim);
  int n = NUM(pbRow_Chains)(w, b1, b2, true, w->row_dofs + r->dofs);
  if (n == 0) {
    w->nrow--;
    return;
  }

  fill_contact_jacobian(w, r, b1, b2, n);
  r->pos[0] = c->dist;
  r->margin = c->margin;
  r->diag[0] = NUM(pb_contact_weight)(w, c);
  if (pb_explicit(w->m, r)) set_force(w, r);
  else NUM(pbRow_Finish)(w, r, NULL, NULL);
}

// Rigid impacts have no rows: they come between steps.
static void make(NUM(pbConstraints) *w) {
  if (w->m->contact.method == pb_contactImpact) return;
  for (int c = 0; c < w->ncon; c++) contact_row(w, c);
}
PB_ROW(contact, .make = make);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/row_adjoint.h"

// Relative velocity of a contact's bodies at its point under a field X, in its frame; then their relative angular velocity.
static void relative(const NUM(pbConstraints) *w, const NUM(pbRow) *r, const lane *X, lane out[6]) {
  const NUM(pbContact) *c = w->contact + r->contact;
  int b1 = w->m->geom_bodyid[c->geom1];
  int b2 = w->m->geom_bodyid[c->geom2];
  num d1[3], d2[3];
  lane u1[3], u[3], omega[3];

  body_offset(&w->mechanism, b1, c->pos, d1);
  body_offset(&w->mechanism, b2, c->pos, d2);

  PB_POINTVEL(u1, X + 6 * b1, d1);
  PB_POINTVEL(u, X + 6 * b2, d2);
  for (int k = 0; k < 3; k++) {
    u[k] -= u1[k];
    omega[k] = X[6 * b2 + k] - X[6 * b1 + k];
  }

  // In the frame: normal and tangents, then spin and rolling.
  for (int k = 0; k < r->dim; k++) out[k] = k < 3 ? PB_DOT3(c->frame + 3 * k, u) : PB_DOT3(c->frame + 3 * (k - 3), omega);
}

// Through the distance that its pair has found.
static void distance(LANE(pbAdjoint) *a, const NUM(pbRow) *r, lane pos) {
  lane bar[10] = {pos};
  LANE(pbContact_PairJacobians)(a, r->contact - a->constraints->contact[r->contact].point, a->w->m->contact.onset);
  LANE(pbContact_PullPair)(a, r->contact, bar);
}

#if PB_LANES == 1
static void parameters(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar) {
  LANE(pbContact_PullWeight)(a, r->contact, bar->diag[0]);
  LANE(pbContact_PullParameters)(a, r->contact, bar);
}
#endif
PB_ROW_PULL(contact, .pull = LANE(pbContact_PullRows), .relative = relative, .distance = distance, PB_ROW_PARAMETERS(parameters));
#endif
