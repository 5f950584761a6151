// Laws of hard contact (contact.h: methods lcp, cones and sweeps), row by row: force f and residual w = J a - aref + R f satisfy
//
//   f = P(f - rho w),   P the projection on the forces a row may have, friction in the scale u_j = f_j / mu_j
//
// (Alart & Curnier 1991): equalities any force, loss and servos within bounds, limits, normals f >= 0, friction on disks
// (cones), in the linearized cone's section |u_1| + |u_2| + ... <= f_n (lcp) or in the box (sweeps) of radius f_n. rho > 0 is any
// scale (w->dual.rho). Real numbers throughout. Derivatives of the equation by friction and bounds are part of it: law_adjoint.c.
#ifndef PB_LAW_H
#define PB_LAW_H

#include "eval/contact.h"
#include "eval/row.h"
#include "eval/work.h"

// The equation f - P = 0 of a row, friction in its scale, linearized: derivatives by f and w (dim x dim), by friction
// (dim x dim - 1) and by the bounds of a bounded row.
typedef struct pbLaw {
  double Nf[36], Nw[36], Nmu[30], Nbound[2];
} pbLaw;

static inline bool is_contact(const NUM(pbRow) *r) { return r->kind == pb_rowContact; }
static inline double row_mu(const NUM(pbWork) *w, const NUM(pbRow) *r, int j) {
  return re(w->contact[r->contact].friction[j - 1]);
}
// Limits and contacts: the (normal) force has one sign.
static inline bool is_one_sided(const NUM(pbRow) *r) { return is_contact(r) || pb_row_law(r->kind) == pb_lawOneSided; }

// Is the row's force held at zero? Then it has no equation.
bool NUM(pbLaw_Held)(const NUM(pbWork) *w, const NUM(pbRow) *r, const double *f, const double *x);
// P(f - rho w) - f of a row, friction as forces; dim numbers.
void NUM(pbLaw_Misfit)(const NUM(pbWork) *w, const NUM(pbRow) *r, const double *f, const double *x, double *out);
// Linearized at f and w = x; of rows that are not held.
void NUM(pbLaw_At)(const NUM(pbWork) *w, const NUM(pbRow) *r, const double *f, const double *x, pbLaw *law);
// The same at the solution.
void NUM(pbLaw_Here)(const NUM(pbWork) *w, const NUM(pbRow) *r, pbLaw *law);

#endif
