// Hard contact in a step: forces f of all rows and their residuals x = J a - aref + R f = A f + b, A = J M^-1 J' + R, related by
// the laws of contact/law.h (whose formulas call the residual w), which are no minimum of a potential. Found by projected
// Gauss-Seidel and Newton's method on the laws; the same equations, linearized at the solution, give the derivatives. Real
// numbers throughout; in the complex program the imaginary parts of f follow from those of x by one solve.
//
// A row is open where its law holds its force at zero (pbLaw_Held, zone pb_zoneOpen): it has no equation. All others are active.
#ifndef PB_DUAL_H
#define PB_DUAL_H

#include <pullback/base.h>

#include "eval/found.h"
#include "eval/names.h"

// Forces, qacc, Ma, x, zones (open: no force), from nothing or (w->dual.known) as they are. pb_no_convergence: w->residual and
// w->worst_row tell.
pbStatus NUM(pbDual_Solve)(NUM(pbWork) *w);
// What was found, for others.
void NUM(pbDual_Found)(NUM(pbWork) *w, pbFound *found);
// Factor of the linearized equations at the solution, for derivatives: dual.LU over the dual.count rows dual.active.
pbStatus NUM(pbDual_Factor)(NUM(pbWork) *w);
// Where the laws leave a row no derivative of every direction: to rounding it neither pushes nor parts, or stands at the edge of
// sliding or of a bound.
typedef enum pbEdge { pb_edgeNone, pb_edgeIdle, pb_edgeBound } pbEdge;
pbEdge NUM(pbDual_Edge)(const NUM(pbWork) *w, const NUM(pbRow) *r);
// Which branch of its law a row is on besides its zone: which of its forces are at the bound that friction has.
int NUM(pbDual_Branch)(const NUM(pbWork) *w, const NUM(pbRow) *r);

#endif
