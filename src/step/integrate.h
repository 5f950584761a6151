// Integrators on the number type: how accelerations move a state. Derivatives in integrate_adjoint.c.
#ifndef PB_INTEGRATE_H
#define PB_INTEGRATE_H

#include "eval/names.h"

// One evaluation at w's inputs: all stages up to qacc. replay: w->qacc_warmstart is the solution.
void NUM(pbEvaluate_Sense)(NUM(pbWork) *w);
pbStatus NUM(pbEvaluate)(NUM(pbWork) *w, bool replay);
// Mhat = M + h B (Euler) or M - h D (implicitfast), factored, and qacc_integrated = Mhat^-1 M qacc.
pbStatus NUM(pbIntegrate_Damp)(NUM(pbWork) *w);
#include "step/integrate_number.h"
#if !PB_IS_COMPLEX
#include "number/complex_begin.h"
#include "step/integrate_number.h"
#include "number/complex_end.h"
#endif
void NUM(pbSolve6)(const num A[36], num x[6], bool transposed);
// Inertial frame of a body seen from the root of its tree.
void NUM(pbFree_Frame)(const NUM(pbWork) *w, int root, int body, num ipos[3], num iquat[4]);
// Principal moments, then products of inertia (of a design, zero but for a derivative).
void NUM(pbFree_Inertia)(const NUM(pbWork) *w, int body, num inertia[6]);
// q <- q (+) h v for all joints.
void NUM(pbIntegrate_Position)(const pbModel *m, num *qpos, const num *v, num h);
// Activations after a step from weighted act_dot, with ranges and wraps.
void NUM(pbIntegrate_Activation)(const NUM(pbWork) *w, const num *act0, const num *act_dot, num *act);

// Runge-Kutta: coefficients and the correction of rotation rates on SO(3) (Munthe-Kaas):
// K = k + 1/2 u x k + g(|u|) u x (u x k), g(t) = (1 - t/2 cot(t/2)) / t^2.
static const int pb_rkControl[4] = {0, 1, 1, 2};  // of a stage: its row of rk_ctrl (eval/work.h)
static const double pb_rkStep[4] = {0, 0.5, 0.5, 1}, pb_rkWeight[4] = {1. / 6, 1. / 3, 1. / 3, 1. / 6};
void NUM(pbRk_Correct)(const num u[3], const num k[3], num K[3]);

#endif
