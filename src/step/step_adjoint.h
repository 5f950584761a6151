// What the pullback of a step works with, for the files that write parts of it:
//   room_adjoint.c         memory
//   step_adjoint.c         one evaluation, Euler and implicitfast, the step
//   runge_kutta_adjoint.c  the four stages of Runge-Kutta
//   integrate_adjoint.c    how positions move, the gyroscopic block of free bodies (primal: integrate_kernel.c)
//   jacobian_adjoint.c     rows of the Jacobian of the new velocities, many seeds at once
//   pairs_adjoint.c        the same by pairs of dofs of which one carries the other (pairs.h),
//   pairs_product_adjoint.c  and their product with the seeds
#ifndef PB_STEP_ADJOINT_H
#define PB_STEP_ADJOINT_H

#include "eval/adjoint.h"
#include "eval/work.h"
#include "solve/noslip_adjoint.h"
#include "step/pairs.h"
#include "step/vjp.h"

enum { pb_jacobianStrips = 4 };  // Jacobians solve for so many times PB_LANES right-hand sides together

typedef struct LANE(pbVjpBlock) {
  LANE(pbAdjoint) a;
  LANE(pbSlipAdjoint) slip;          // of a
  lane *q_next, *v_next, *act_next;  // cotangents after the step
  lane *q_sum, *v_sum, *act_sum;     // results of all stages
  lane *mocap_pos, *mocap_rot;       // the same, nmocap x 3 each
  lane *mocap_vel;                   // nmocap x 6
  lane *ctrl, *qfrc, *xfrc;          // the same; a points to those that are wanted
  lane *ctrl_later;                  // 2 x nu: of controls in the middle and at the end (pb_staged)
  lane *rk_v, *rk_a, *rk_d;          // 4 x nv, nv, na: of the stages' velocities, accelerations, activation rates
  lane *rate;                        // nv: of the rates that move positions
  lane *Vx;                          // room for a->Vx
  lane *sensordata;
  lane *observed_row;  // of a policy's observations: room for a row
  pbPullPhase phase;
  bool stepped;             // of what is pulled in two halves: it is a step
  const double *more_qacc;  // pbPullback.qacc, lam
  double *lam_out;
  lane *lam_of, *mu_of;  // groups / strips x nv x strips: lam and mu of every seed
  bool one_rate;         // mu is lam, and lam_of has both: no row adds to H
#if PB_SEEDS > 1
  LANE(pbPairs) pairs;
#endif
  size_t bodies_from;               // cotangents of body fields, up to cleared_from: zero at the start
  size_t cleared_from, cleared_to;  // the rest of what is zero at the start of an evaluation
  char *base;
  pbContext *ctx;
  void *lists;                 // what is as long as contacts and rows, in a block of its own,
  int max_contacts, max_slip;  // for so many contacts, and numbers of rows that slide
} LANE(pbVjpBlock);

// The handle that pbVjp_Create gave.
static inline LANE(pbVjpBlock) *LANE(pbVjp_Block)(void *memory) {
  return (LANE(pbVjpBlock) *)((char *)memory + (64 - (size_t)memory % 64) % 64);
}
// mu of every seed.
static inline const lane *LANE(pbVjp_MuOf)(const LANE(pbVjpBlock) *k) { return k->one_rate ? k->lam_of : k->mu_of; }
// Room for the contacts and rows of the evaluation in w.
PB_NODISCARD pbStatus LANE(pbVjp_Reserve)(LANE(pbVjpBlock) *k, const NUM(pbWork) *w);
// The evaluation in w is what the adjoint is of, as each of its files sees it.
static inline void LANE(pbVjp_Set)(LANE(pbAdjoint) *a, const NUM(pbWork) *w) {
  a->work = w;
  a->constraints = &w->constraints;
  a->w = &w->mechanism;
}
// The adjoint of the evaluation in w begins: what is collected is zero.
void LANE(pbVjp_Begin)(LANE(pbVjpBlock) *k, const NUM(pbWork) *w);
// to += from, for the cotangents that are wanted (to NULL: not).
void LANE(pbVjp_AddOut)(double *to, const lane *from, int n);

// ---- one evaluation (step_adjoint.c) --------------------------------------------------------------------------------
// The evaluation at the state in w as the step left it: from the accelerations of the tape, or (cached) from all but a few
// fields.
PB_NODISCARD pbStatus LANE(pbVjp_Replay)(LANE(pbVjpBlock) *k, NUM(pbWork) *w, const double *stages, bool cached, bool sense);
// Of an evaluation, for all cotangents: at which solution it is differentiated and what follows from that.
PB_NODISCARD pbStatus LANE(pbVjp_Prepare)(LANE(pbVjpBlock) *k, NUM(pbWork) *w);
// Poses that no step reads and these cotangents do.
void LANE(pbVjp_Place)(const LANE(pbVjpBlock) *k, NUM(pbWork) *w, const pbPullback *p);
// Cotangents of what is observed at the start of the step. Returns whether sensors gave any.
bool LANE(pbVjp_Observe)(LANE(pbVjpBlock) *k, const pbPullback *p);
// Cotangents of what a policy observes (step/observe_adjoint.c), with room for those of body fields.
void LANE(pbVjp_Policy)(LANE(pbVjpBlock) *k, const double *observation);
// With the cotangents of qacc (a->qacc) and of what sensors see set: lam, and everything else. sensed: by pbVjp_Observe.
void LANE(pbVjp_Evaluation)(LANE(pbVjpBlock) *k, bool sensed);
// The gradient of the virtual power W at lam and mu: to bodies, joints and inputs, and unless a policy comes between, down the
// tree (pbSweep_Pull).
void LANE(pbVjp_Power)(LANE(pbVjpBlock) *k);
// A part of it: every term of the power adds its gradient to cotangents of bodies, joints, tendons and parameters.
void LANE(pbVjp_Terms)(LANE(pbVjpBlock) *k);
// The state before the step, which later stages overwrite.
void LANE(pbVjp_SaveStart)(NUM(pbWork) *w);

// ---- integrators ----------------------------------------------------------------------------------------------------
// q+ = q (+) h u: cotangent of q+ to q (added), to u (added), to h.
void LANE(pbVjp_Position)(const pbModel *m, const num *u, num h, const lane *q_next, lane *q, lane *rate, num *h_bar);
// Before the sweep down: W = -h mu . (dbias/dv ahat) of the tree on free joint j, under implicitfast.
void LANE(pbVjp_FreeBias)(LANE(pbAdjoint) *a, int joint, num h);
// The whole step under Runge-Kutta; what the first stage, evaluated at the state before the step, gives that state.
void LANE(pbVjp_FirstStage)(LANE(pbVjpBlock) *k);
PB_NODISCARD pbStatus LANE(pbVjp_RungeKutta)(LANE(pbVjpBlock) *k, NUM(pbWork) *w, const double *stages, const pbPullback *p);

#endif
