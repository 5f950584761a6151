// Bodies and deformables in one step: the minimum of
//   F(a, x) = h^4 Phi(a) + V(x, P(a)),
// Phi what the bodies minimise, V the potential of the deformables, P where the points that ride on bodies are after a step with
// accelerations a. Newton's method eliminates the free points, S = A - B Hxx^-1 B', and hands S to the bodies' own solver, which
// minimises Phi with that quadratic exactly, its constraint rows included.
#ifndef PB_COUPLE_H
#define PB_COUPLE_H

#include "couple/attach.h"
#include "couple/deform_step.h"
#include "couple/attach_jvp.h"
#include "step/jvp.h"

typedef struct pbCouple {
  pbAttach at;
  pbRiders riders;
  pbRide ride;
  double *K;                                          // nv x nv: curvature of the places along the forces
  double *S, *g, *at_acc;                             // nv x nv, nv, nv: what the bodies' solver gets, by h^4
  double *eigen;                                      // room of the projection of S
  double *acc, *way, *slope, *lam, *more;             // nv
  double *trial_acc, *unit, *columns;                 // nv; nv; nv x 3 npoint: Hxx^-1 B'
  double *x_bar, *y_bar, *x_way, *local_way, *force;  // 3 riders
  double *tau, *tau_way;                              // nv
  double *state, *next_bar, *state_bar;               // of the deformables' part
  void *memory;
} pbCouple;

PB_NODISCARD pbStatus pbCouple_Create(pbScratch *s);
void pbCouple_Destroy(pbScratch *s);
// Points on bodies at state x (start of a step) into `points` (npoint x 3).
void pbCouple_Place(pbScratch *s, const double *theta, const double *x, double *points);
PB_NODISCARD pbStatus pbCouple_Step(pbScratch *s, const double *theta, const double *x, const pbInput *input, bool sense,
                                    double *next);
PB_NODISCARD pbStatus pbCouple_Vjp(pbScratch *s, const double *theta, const double *record, const pbInput *input,
                                   const double *next_bar, pbPullback *pull, double *x_bar, const pbInputBar *input_bar,
                                   double *theta_bar);
PB_NODISCARD pbStatus pbCouple_Jvp(pbScratch *s, const double *theta, const double *record, const pbInput *input,
                                   const pbDirection *direction, double *next, double *sensordata, double *xpos,
                                   double *site_xpos);

// ---- points on bodies that rest: fixed points whose places follow from theta ------------------------------------------
// The deformables' part of state x with these points where they are; valid until the next call.
const double *pbCouple_State(pbScratch *s, const double *theta, const double *x);
// Around a pullback: cotangents of the state after and before to work with; then what they give to x_bar and theta_bar.
typedef struct pbRestingBar {
  const double *next_bar;
  double *state_bar;
} pbRestingBar;
pbRestingBar pbCouple_RestBegin(pbScratch *s, const double *next_bar);
void pbCouple_RestEnd(pbScratch *s, const double *theta, const double *x, double *x_bar, double *theta_bar);
// The direction of the deformables' part of the state, with these points on their way.
const double *pbCouple_RestWay(pbScratch *s, const double *theta, const double *x, const pbDirection *direction);

#endif
