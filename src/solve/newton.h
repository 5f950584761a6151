// The one minimiser: 1/2 |a - a0|_M^2 + sum over rows of s(J a - aref), by Newton's method with exact line search.
#ifndef PB_NEWTON_H
#define PB_NEWTON_H

#include "multibody/work.h"

// Force f = -ds/dx, Hessian K (dim x dim, row-major) and zone (active set) of a row at its x; returns the cost.
num NUM(pbRow_Evaluate)(const NUM(pbWork) *w, NUM(pbRow) *r);
// Pattern, values and factor of H = M + J'KJ at the current K. pb_singular if a pivot is not positive.
pbStatus NUM(pbSolve_Factor)(NUM(pbWork) *w);

#endif
