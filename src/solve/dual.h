// Hard contact in a step: forces f of all rows and their residuals x = J a - aref + R f = A f + b, A = J M^-1 J' + R, related by
// the laws of contact/law.h (whose formulas call the residual w), which are no minimum of a potential. Found by projected
// Gauss-Seidel and Newton's method on the laws; the same equations, linearized at the solution, give the derivatives. Real
// numbers throughout; in the complex program the imaginary parts of f follow from those of x by one solve.
//
// A row is open where its law holds its force at zero (pbLaw_Held, zone pb_zoneOpen): it has no equation. All others are active.
#ifndef PB_DUAL_H
#define PB_DUAL_H

#include "eval/work.h"

// Forces, qacc, Ma, x, zones (open: no force), from nothing. pb_no_convergence: w->residual and w->worst_row tell.
pbStatus NUM(pbDual_Solve)(NUM(pbWork) *w);
// Factor of the linearized equations at the solution, for derivatives: dual.LU over the dual.count rows dual.active.
pbStatus NUM(pbDual_Factor)(NUM(pbWork) *w);

#endif
