// Constraint rows: what the solver and the derivative need to know of how they are made.
#ifndef PB_ROW_H
#define PB_ROW_H

#include "eval/constraints.h"
#include "eval/contact.h"
#include "eval/row.h"

// solref and solimp a row takes its parameters from; solreffriction (contacts) or NULL.
const num *NUM(pbRow_Parameters)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, const num **solimp,
                                 const num **solreffriction);
// Reference after the safety rules (mixed formats replaced, time constant at least two steps).
void NUM(pbRow_Reference)(const NUM(pbConstraints) *w, const num *solref, num out[2], bool friction);
// Impedance d(pos) and its slope by pos.
void NUM(pbRow_Impedance)(const num *solimp, num pos, num margin, num *imp, num *slope);
// Impedance, k, b, R, D and aref of a row whose J, pos, margin and diag are set, at the velocity v.
void NUM(pbRow_SetNumbers)(const NUM(pbConstraints) *w, NUM(pbRow) *r, const num *v);
// The row of a limit or contact as it is where its distance passes the margin at the velocity v.
void NUM(pbRow_AtGuard)(const NUM(pbConstraints) *w, NUM(pbRow) *r, const num *v);
// Regularization of basis row i before it is kept from zero and, for cones, distributed over their rows.
num NUM(pbRow_Regularization)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, int i);
#define PB_LEAST_R 1e-15

// Entry of diag that row i of the basis has: a contact's rows share one.
static inline int pb_diag_entry(const NUM(pbRow) *r, int i) { return r->kind == pb_rowContact ? 0 : i; }

// A force given by state and parameters, not by the acceleration (contact.h: method penalty)? Nothing to solve for: K = 0.
static inline bool pb_explicit(const pbModel *m, const NUM(pbRow) *r) {
  return r->kind == pb_rowContact && m->contact.method == pb_contactPenalty;
}

// Softness of hard rows besides cfm: this share of diagApprox, less where cfm is set. It makes redundant forces unique.
static inline double pb_little(const pbModel *m) { return m->contact.cfm < 0 ? 1e-5 : 1e-10; }

// Soft contacts with friction, by the model's cone. Hard ones have rows of their own, as an elliptic cone's.
static inline bool pb_soft_cone(const pbModel *m, const NUM(pbRow) *r) {
  return r->kind == pb_rowContact && r->dim > 1 && !pb_hard(m) && !pb_explicit(m, r);
}
static inline bool pb_elliptic(const pbModel *m, const NUM(pbRow) *r) { return pb_soft_cone(m, r) && m->cone == pb_coneElliptic; }
static inline bool pb_pyramidal(const pbModel *m, const NUM(pbRow) *r) {
  return pb_soft_cone(m, r) && m->cone != pb_coneElliptic;
}

// Are the tangential rows of contacts damped by b_tangent, not by b?
static inline bool pb_tangent_damping(const pbModel *m, const NUM(pbRow) *r) { return pb_elliptic(m, r) || pb_hard(m); }

// ---- the normal of a hard contact -----------------------------------------------------------------------------------
// Methods lcp and cones, and no spring that the step resolves (erp and cfm of h^2 K / m < erp / 2): geoms that do not give.
static inline bool pb_unyielding(const NUM(pbConstraints) *w, const NUM(pbRow) *r) {
  bool coulomb = w->m->contact.method == pb_contactLcp || w->m->contact.method == pb_contactCones;
  if (!coulomb || r->kind != pb_rowContact) return false;
  return pb_erp(w->m) * pb_cfm(w->m) < 2 * re(w->p.timestep[0]) * re(r->diag[0]);
}

// Open at the start of the step before: by its depth and speed the distance passed the margin within that step.
static inline bool pb_lands(const NUM(pbConstraints) *w, const NUM(pbRow) *r) {
  return pb_unyielding(w, r) && re(r->pos[0]) - re(r->margin) - re(w->p.timestep[0]) * re(r->vel[0]) >= 0;
}

// Magnitude of gravity where it acts.
static inline num pb_weight(const NUM(pbConstraints) *w) {
  const num *g = w->p.gravity;
  double size = re(g[0]) * re(g[0]) + re(g[1]) * re(g[1]) + re(g[2]) * re(g[2]);
  if (!(size > 0) || (w->m->disableflags & pb_disGravity)) return 0;
  return num_sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2]);
}

// The speed at which what rises against gravity g, in steps of h, comes to rest at the surface: v^2 / 2g + v h / 2 = depth.
static inline num pb_rising(num g, num h, num depth) {
  num lost = 0.5 * g * h;
  return num_sqrt(lost * lost + 2 * g * depth) - lost;
}

// What the reference of the normal asks for. Bounce: J v+ >= e s, s the speed of closing, at a landing and where that is
// more than error reduction. Correct: J v+ >= erp / h depth. Rise: pb_rising, where that is less: weight stops it.
typedef enum pbNormalLaw { pb_normalCorrect, pb_normalBounce, pb_normalRise } pbNormalLaw;
static inline pbNormalLaw pb_normal_law(const NUM(pbConstraints) *w, const NUM(pbRow) *r) {
  if (!pb_hard(w->m) || r->kind != pb_rowContact) return pb_normalCorrect;
  if (pb_lands(w, r)) return pb_normalBounce;

  double h = re(w->p.timestep[0]);
  double depth = re(r->margin) - re(r->pos[0]);
  double speed = pb_erp(w->m) / h * depth;
  double rebound = -re(w->contact[r->contact].restitution) * re(r->vel[0]);

  // Error reduction throws nothing up: its speed is at most the one that weight stops at the surface.
  double weight = re(pb_weight(w));
  double rising = depth > 0 ? re(pb_rising(weight, h, depth)) : 0;
  bool rise = pb_unyielding(w, r) && weight > 0 && depth > 0 && rising < speed;
  if (rise) speed = rising;

  if (rebound > 0 && rebound > speed) return pb_normalBounce;
  return rise ? pb_normalRise : pb_normalCorrect;
}

// Error reduction and force mixing instead of solref and solimp (contact.h)? Friction loss has no error to reduce.
static inline bool pb_mixing(const pbModel *m, pbRowKind kind) {
  return (m->contact.cfm >= 0 || pb_hard(m)) && kind != pb_rowFriction;
}

// A contact that makes a row at a distance (contact.h: onset)?
static inline bool pb_before_touch(const NUM(pbRow) *r) { return r->kind == pb_rowContact && re(r->pos[0]) > re(r->margin); }

// Is the row's force bounded on both sides? It asks for a velocity and has no position to correct.
static inline bool pb_bounded(const NUM(pbRow) *r) { return pb_row_law(r->kind) == pb_lawBounded; }

// Does the row's residual have several components, whose norm its impedance depends on (connect, weld)?
static inline bool pb_vector_residual(const NUM(pbRow) *r) { return r->kind == pb_rowEquality && r->dim > 1; }

// J v of a row, and out += J'f.
void NUM(pbRow_Times)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, const num *v, num *out);
void NUM(pbRow_AddForce)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, const num *f, num *out);

// Most rows of many models have one entry: friction loss and limits of joints.
static inline void pb_row_times(const NUM(pbConstraints) *w, const NUM(pbRow) *r, const num *v, num *out) {
  if (r->n == 1 && r->dim == 1) out[0] = 0 + w->row_J[r->J] * v[w->row_dofs[r->dofs]];
  else NUM(pbRow_Times)(w, r, v, out);
}
static inline void pb_row_add_force(const NUM(pbConstraints) *w, const NUM(pbRow) *r, const num *f, num *out) {
  if (r->n == 1 && r->dim == 1) out[w->row_dofs[r->dofs]] += f[0] * w->row_J[r->J];
  else NUM(pbRow_AddForce)(w, r, f, out);
}

#endif
