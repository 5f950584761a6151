// Bodies and deformables in one step, derived in docs/coupling.md: the minimum of
//   F(a, x) = h^4 Phi(a) + V(x, P(a)),
// Phi what the bodies minimize over their accelerations a, V the incremental potential of the deformables with free points x,
// P(a) where the points attached to bodies are after a step. Newton's method eliminates the free points and hands what they
// mean to the bodies, a quadratic in a, to the bodies' own solver, which minimizes Phi with it exactly, its constraint rows
// included.
#ifndef PB_COUPLE_H
#define PB_COUPLE_H

#include "couple/attach.h"
#include "couple/attach_jvp.h"
#include "couple/deform_step.h"
#include "step/jvp.h"
#include "step/record.h"

typedef struct pbCouple {
  pbAttachments points;      // which points, on which bodies
  pbAttachmentQuery query;   // of their positions and forces at an iterate
  pbAttachedTerms attached;  // P (x), J = dP/da, f = dV/dP (gradient), A = J' V_PP J, B = J' V_Px

  // The iterate and what Newton's method solves with there
  double *acc;               // nv: a
  double *tau, *K;           // nv, nv x nv: J'f, and its derivative by a with f held
  double *columns;           // nv x 3 npoint: Hxx^-1 B'
  double *S, *g, *model_at;  // nv x nv, nv, nv: the quadratic for the bodies, g . (a - at) + 1/2 (a - at)' S (a - at)
  double *eigen;             // room of the projection of S
  double *damping;           // nv: h B, B the slopes of the joints' dampers: Phi gains 1/2 a' h B a

  // Points that mocap bodies lead: their way over the step with the other bodies where they were, and the share of it that the
  // search has gone (1: all of it)
  double *led;  // 3 per attached point
  double led_share;

  const double *guess;  // nv: accelerations where the search of a step begins, with pbDeformWork.guess; NULL: as the past says

  // The line search
  double *direction, *phi_gradient;         // nv: of a; dPhi/da
  double *trial_acc, *path_acc;             // nv: at a trial; on the path there
  double *path_from, *path_to, *path_step;  // 3 npoint: ends of a piece of the path of points

  // Derivatives: cotangents (bar), tangents
  double *force;                      // 3 per attached point: f at the solution
  double *adjoint_rhs, *lam;          // nv
  double *start_bar, *end_bar;        // 3 per attached point: of positions at the start and the end of the step
  double *g_tangent, *acc_tangent;    // nv
  double *x_tangent, *start_tangent;  // 3 per attached point: of positions at the end and the start
  double *tau_tangent;                // nv
  double *damping_tangent;            // nv
  double *unit, *local_unit;          // nv, 3 per attached point: a direction, one entry at a time
  double *mocap_unit;                 // 6 nmocap: likewise
  double *state;                      // the deformables' part of a state, attached points where their bodies have them
  double *next_bar, *state_bar, *state_tangent;

  void *memory;
} pbCouple;

PB_NODISCARD pbStatus pbCouple_Create(pbScratch *s);
void pbCouple_Destroy(pbScratch *s);
PB_NODISCARD pbStatus pbCouple_Step(pbScratch *s, const double *theta, const double *x, const pbInput *input, bool sense,
                                    double *next);
// pull: what the bodies' own pullback takes and gives.
PB_NODISCARD pbStatus pbCouple_Vjp(pbScratch *s, const pbStepRecord *step, const double *next_bar, pbPullback *pull,
                                   const pbStepBar *out);
PB_NODISCARD pbStatus pbCouple_Jvp(pbScratch *s, const pbStepRecord *step, const pbDirection *direction,
                                   const pbStepTangent *out);

// ---- points attached to bodies that rest: prescribed points whose positions follow from theta and from
// where mocap bodies are
// The deformables' part of state x with these points where they are; valid until the next call.
const double *pbCouple_State(pbScratch *s, const double *theta, const double *x, const pbInput *input);
// Around a pullback: cotangents of the state after and before to work with; then what they give to out.
typedef struct pbRestingBar {
  const double *next_bar;
  double *state_bar;
} pbRestingBar;
pbRestingBar pbCouple_RestBegin(pbScratch *s, const double *next_bar);
void pbCouple_RestEnd(pbScratch *s, const pbStepRecord *step, const pbStepBar *out);
// A direction of the deformables' part of the state, with the tangents of these points.
const double *pbCouple_RestTangent(pbScratch *s, const pbStepRecord *step, const pbDirection *direction);

#endif
