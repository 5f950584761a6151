// The minimizer of a step: 1/2 |a - a0|_M^2 + sum over rows of s(J a - aref), by Newton's method with exact line search. The
// potentials s of rows are those of contact/potential.h.
#ifndef PB_NEWTON_H
#define PB_NEWTON_H

#include <pullback/base.h>

#include "eval/names.h"

// Pattern, values and factor of H = M + J'KJ at the current K. pb_singular if a pivot is not positive.
pbStatus NUM(pbSolve_Factor)(NUM(pbWork) *w);
// Pattern of H for the rows there are.
PB_NODISCARD pbStatus NUM(pbSolve_Pattern)(NUM(pbWork) *w);
// After a solve: the factor of H at the solution, where it is not what the last iteration had (factor_current).
pbStatus NUM(pbSolve_Complete)(NUM(pbWork) *w);
// qacc_smooth, the acceleration without constraint rows, and the factor of M. No step needs it once it has a warm start.
pbStatus NUM(pbSolve_Smooth)(NUM(pbWork) *w);

#if !PB_IS_COMPLEX
// What is minimized at accelerations a, but for a constant and without the further potential; its gradient (nv).
double NUM(pbSolve_Cost)(NUM(pbWork) *w, const double *a, double *gradient);
// pbStage_Solve from the accelerations a, which become the solution. Ends where rows hold hard contact: not for those.
pbStatus NUM(pbSolve_Again)(NUM(pbWork) *w, double *a);
#endif

#endif
