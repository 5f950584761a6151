// Parts of the solver of hard contact (dual.h), which share the numbers in w->dual: f forces, x residuals, of all rows one after
// the other.
#ifndef PB_DUAL_PARTS_H
#define PB_DUAL_PARTS_H

#include "eval/names.h"
#include "eval/row.h"
#include "linalg/lu.h"

// ---- dual.c -----------------------------------------------------------------------------------------------------------
// x = A f + b
void NUM(pbDual_Residuals)(const NUM(pbWork) *w, const double *f, double *x);
// rho and weight of all rows, from A.
void NUM(pbDual_SetScales)(NUM(pbWork) *w);
// Largest misfit of a law relative to the largest force; its row goes to w->worst_row.
double NUM(pbDual_Worst)(NUM(pbWork) *w, const double *f, const double *x);

// ---- dual_newton.c ----------------------------------------------------------------------------------------------------
// Zones: open where a row can have no force (f - rho w < 0), else active.
void NUM(pbDual_Classify)(NUM(pbWork) *w, const double *f, const double *x);
// The linearized laws T over the active rows (w->dual.active), factored; and x := T^-1 x, with room for twice the rows.
pbStatus NUM(pbDual_FactorLaws)(NUM(pbWork) *w, const double *f, const double *x);
void NUM(pbDual_SolveLaws)(NUM(pbWork) *w, double *x);
// Newton's method from f, x; true where it came below the tolerance, at 0 to rounding.
bool NUM(pbDual_Polish)(NUM(pbWork) *w, double tolerance, double *f, double *x);
// How far forces that projected Gauss-Seidel has left are from their fixed point, relative to the largest: the length of one
// step of Newton's method. 1 where the laws decide otherwise at its end (sticks or slides, pushes or not): derivatives there are
// those of another motion.
double NUM(pbDual_Distance)(NUM(pbWork) *w, const double *f, const double *x);

// ---- dual_path.c ------------------------------------------------------------------------------------------------------
// From forces near a solution of sharp laws, where redundant rows leave them undetermined: by the proximal point method.
bool NUM(pbDual_Approach)(NUM(pbWork) *w, double share, double *f, double *x);
// From nothing along the central path, which begins at forces sigma times the typical one. nearby: is a point close to its end
// good enough, where the laws stay smoothed?
bool NUM(pbDual_Follow)(NUM(pbWork) *w, double sigma, bool nearby, double *f, double *x);

// ---- dual_jam.c -------------------------------------------------------------------------------------------------------
// The forces to the digits of the motion, from those at hand, which are (found) or are not those of the laws; their residual to
// w->residual. False where none are found: those that came nearest.
bool NUM(pbDual_Resolve)(NUM(pbWork) *w, bool found);
// Residual of the sharp laws at a rho at which forces and accelerations are of one size.
double NUM(pbDual_JamResidual)(NUM(pbWork) *w);

// ---- dual_edge.c ------------------------------------------------------------------------------------------------------
// Opens rows that to rounding neither push nor part: whatever moves them apart, even along, meets no force.
void NUM(pbDual_OpenIdle)(NUM(pbWork) *w);

#endif
