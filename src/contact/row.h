// Constraint rows: what the solver and the derivative need to know of how they are made.
#ifndef PB_ROW_H
#define PB_ROW_H

#include "multibody/work.h"

enum { pb_eqObjBody = 1, pb_eqObjSite = 6 };  // mjtObj of an equality's ends

// solref and solimp a row takes its parameters from; solreffriction (contacts) or NULL.
const num *NUM(pbRow_Parameters)(const NUM(pbWork) *w, const NUM(pbRow) *r, const num **solimp, const num **solreffriction);
// Reference after the safety rules (mixed formats replaced, time constant at least two steps).
void NUM(pbRow_Reference)(const NUM(pbWork) *w, const num *solref, num out[2], bool friction);
// Impedance d(pos) and its slope by pos.
void NUM(pbRow_Impedance)(const num *solimp, num pos, num margin, num *imp, num *slope);
// The row of a limit or contact as it is where its distance passes the margin at the velocity v.
void NUM(pbRow_AtGuard)(const NUM(pbWork) *w, NUM(pbRow) *r, const num *v);
// Any row at another velocity.
void NUM(pbRow_AtVelocity)(const NUM(pbWork) *w, NUM(pbRow) *r, const num *v);
// Regularisation of basis row i before it is kept from zero and, for cones, shared out.
num NUM(pbRow_Regularisation)(const NUM(pbWork) *w, const NUM(pbRow) *r, int i);
#define PB_LEAST_R 1e-15
// A force given by state and parameters, not by the acceleration (contact.h: method penalty)? Nothing to solve for: K = 0.
static inline bool pb_explicit(const pbModel *m, const NUM(pbRow) *r) {
  return r->kind == pb_rowContact && m->contact.method == pb_contactPenalty;
}
// Softness of hard rows besides cfm: this share of diagApprox, less where cfm is set. It tells redundant forces apart.
static inline double pb_little(const pbModel *m) { return m->contact.cfm < 0 ? 1e-5 : 1e-10; }
// Soft contacts with friction, by the model's cone. Hard ones have rows of their own, as an elliptic cone's.
static inline bool pb_elliptic(const pbModel *m, const NUM(pbRow) *r) {
  return r->kind == pb_rowContact && r->dim > 1 && m->cone == pb_coneElliptic && !pb_hard(m) && !pb_explicit(m, r);
}
static inline bool pb_pyramidal(const pbModel *m, const NUM(pbRow) *r) {
  return r->kind == pb_rowContact && r->dim > 1 && m->cone != pb_coneElliptic && !pb_hard(m) && !pb_explicit(m, r);
}
// Has a hard contact's normal row restitution in its reference, instead of error reduction? The larger speed counts.
static inline bool pb_bounces(const NUM(pbWork) *w, const NUM(pbRow) *r) {
  if (!pb_hard(w->m) || r->kind != pb_rowContact) return false;
  double h = re(w->p.timestep[0]), depth = re(r->margin) - re(r->pos[0]);
  double rebound = -re(w->contact[r->id].restitution) * re(r->vel[0]);
  return rebound > 0 && rebound > pb_erp(w->m) / h * depth;
}
// Error reduction and force mixing instead of solref and solimp (contact.h)? Friction loss has no error to reduce.
static inline bool pb_mixing(const pbModel *m, int kind) { return (m->contact.cfm >= 0 || pb_hard(m)) && kind != pb_rowFriction; }
// A contact that makes a row at a distance (contact.h: onset)?
static inline bool pb_before_touch(const NUM(pbRow) *r) { return r->kind == pb_rowContact && re(r->pos[0]) > re(r->margin); }
// J v of a row, and out += J'f.
void NUM(pbRow_Times)(const NUM(pbWork) *w, const NUM(pbRow) *r, const num *v, num *out);
void NUM(pbRow_AddForce)(const NUM(pbWork) *w, const NUM(pbRow) *r, const num *f, num *out);
// Ends of a connect or weld: bodies, points, orientations (q1 includes the relative pose).
void NUM(pbEquality_Ends)(const NUM(pbWork) *w, int equality, int body[2], num p1[3], num p2[3], num q1[4], num q2[4]);

#endif
