// The gradient of the rows' virtual power y . f, y = J lam (+ what sensors ask), at a frozen acceleration. With z = K y
//
//   d(y . f) = f . (dJ lam) - z . (dJ a) + z . d(aref) + y . (df by D, mu, friction, bounds)
//
// the first, second and the velocity in aref being velocity functionals of the same geometry with coefficients f, -z, -b z. Each
// row first collects the cotangents of its own numbers, then passes them on to what those are made of:
//
//   potential_adjoint.c          force by D, mu, friction, bounds, of every row potential (potential.c)
//   law_adjoint.c                the same of hard contact's laws (law.c)
//   penalty_adjoint.c            the same of penalty forces (penalty.c)
//   parameters_adjoint.c         D, aref and impedance by solref, solimp and what else they are made of (row.c, contact.c)
//   contact_geometry_adjoint.c   Jacobian and distance of contacts
//   bodies/rows/                 Jacobian, residual and diagApprox of every kind of row
#ifndef PB_ROW_ADJOINT_H
#define PB_ROW_ADJOINT_H

#include "contact/contact.h"
#include "contact/row.h"
#include "eval/adjoint.h"
#include "eval/contact.h"
#include "eval/row.h"

// Cotangents of a row's numbers.
typedef struct LANE(pbRowBar) {
  const num *f;  // the row's forces where they are differentiated
  lane y[6], z[6];
  lane pos[6];  // of the position residual
  lane vel[6];  // of J v
  lane k, b, b_tangent;
  lane imp;
  lane margin;
  lane diag[6];       // of the logarithm of diagApprox; contacts: in [0]
  lane log_timestep;  // of the logarithm of the time step in force mixing
  lane friction[5], impratio, bound[2], restitution;
  lane stiffness, damping;  // of penalty contacts
  const lane *u;            // of a hard row's law
#if PB_LANES == 1
  num solref[2], solreffriction[2], solimp[5];  // of those that the row is made with
#endif
} LANE(pbRowBar);

// z = K y
static inline void LANE(pbRow_HessianTimes)(const NUM(pbRow) *r, const lane *y, lane *z) {
  for (int i = 0; i < r->dim; i++) {
    z[i] = PB_LANE_ZERO;
    for (int j = 0; j < r->dim; j++) z[i] += r->K[i * r->dim + j] * y[j];
  }
}

// Cotangent of the Jacobian entry of a dof, in rows of one: f lam - z a - b z v.
static inline lane LANE(pbRow_EntryBar)(const LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar, int dof) {
  const NUM(pbConstraints) *w = a->constraints;
  return bar->f[0] * a->lam[dof] - bar->z[0] * a->at.qacc[dof] - r->b * bar->z[0] * w->qvel[dof];
}

// The same of all entries of a tendon, which the row has times scale, with the velocity in them.
static inline void LANE(pbRow_TendonEntries)(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar, int tendon,
                                             num scale) {
  a->ten_lam[tendon] += scale * bar->f[0];
  a->ten_acc[tendon] -= scale * bar->z[0];
  a->ten_vel[tendon] -= scale * r->b * bar->z[0];
}

// ---- forces -----------------------------------------------------------------------------------------------------------
// y . df by D (passed on to impedance, diag, ...), friction, impratio, bounds. Of the smoothed cone without friction.
void LANE(pbPotential_Pull)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, LANE(pbRowBar) *bar);
// -z . f dR and -u . dN by friction and bounds.
void LANE(pbLaw_Pull)(LANE(pbAdjoint) *a, const NUM(pbRow) *r, LANE(pbRowBar) *bar);
// y . df of a force given by depth and velocity.
void LANE(pbPenalty_Pull)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, LANE(pbRowBar) *bar);
// y . f of a row to its other cotangents and, of what all kinds share, to theta. at: with hard contact, the row's first number
// among those of active rows (solve/dual.h).
void LANE(pbRow_PullForce)(LANE(pbAdjoint) *a, int index, int at, LANE(pbRowBar) *bar);
// A part of it, of rows that are solved for: y . df by the force's own numbers, with z.
void LANE(pbRow_PullLaw)(LANE(pbAdjoint) *a, int index, int at, LANE(pbRowBar) *bar);
#if PB_LANES == 1
// The smoothed cone's force by mu and the frictions.
void LANE(pbPotential_PullSmoothCone)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, LANE(pbRowBar) *bar);
#endif

// ---- numbers ----------------------------------------------------------------------------------------------------------
// D_i moves, with the cotangents g of its logarithm, i < n: to impedance, diagApprox, time step, friction, impratio.
void LANE(pbRow_PullRegularization)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, int n, const lane *g, LANE(pbRowBar) *bar);
// z . d(aref): to k, b, impedance, residual, margin, J v; and the impedance to the residual it depends on.
void LANE(pbRow_PullReference)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, LANE(pbRowBar) *bar);
#if PB_LANES == 1
// What all kinds share: reference and impedance to solref and solimp, to theta where they lie there; time step, impratio.
void LANE(pbRow_PullParameters)(LANE(pbAdjoint) *a, const NUM(pbRow) *r, LANE(pbRowBar) *bar);
// Friction, restitution, margin, solref and solimp of a contact to its geoms or pair; its diagApprox.
void LANE(pbContact_PullParameters)(LANE(pbAdjoint) *a, int contact, const LANE(pbRowBar) *bar);
void LANE(pbContact_PullWeight)(LANE(pbAdjoint) *a, int contact, num bar);
#endif

// ---- geometry ---------------------------------------------------------------------------------------------------------
// Fills a->contact_jacobian of all contacts of the pair that contact `first` is the first of, found within `reach` of their
// margin.
void LANE(pbContact_PairJacobians)(LANE(pbAdjoint) *a, int first, double reach);
// Cotangents of (dist, pos, normal, hint) of a contact to the two geoms' poses and sizes.
void LANE(pbContact_PullPair)(LANE(pbAdjoint) *a, int contact, const lane bar[10]);
#if PB_LANES == 1
// Keeps them, with the wrenches on both geoms about their centers, for pbContact_PullMeshes.
void LANE(pbContact_KeepBar)(LANE(pbAdjoint) *a, int contact, const num bar[10], const num w1[6], const num w2[6]);
#endif
// Cotangents of the frame's axes to normal and hint, added to or set in n_bar and hint_bar; t1, t2 are changed.
void LANE(pbContact_PullFrame)(const NUM(pbContact) *c, lane n_bar[3], lane t1[3], lane t2[3], lane hint_bar[3]);
void LANE(pbContact_PullRows)(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar);

#endif
