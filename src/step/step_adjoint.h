// What the pullback of a step works with, for the files that write parts of it.
#ifndef PB_STEP_ADJOINT_H
#define PB_STEP_ADJOINT_H

#include "eval/adjoint.h"

typedef struct LANE(pbVjpBlock) {
  LANE(pbAdjoint) a;
  lane *q_next, *v_next, *act_next;  // cotangents after the step
  lane *q_sum, *v_sum, *act_sum;     // results of all stages
  lane *ctrl, *qfrc, *xfrc;          // the same; a points to those that are wanted
  lane *rk_v, *rk_a, *rk_d;          // 4 x nv, nv, na: of the stages' velocities, accelerations, activation rates
  lane *rate;                        // nv: of the rates that move positions
  lane *Vx;                          // room for a->Vx
  lane *sensordata;
  const double *more_qacc;  // pbPullback.qacc, lam
  double *lam_out;
  lane *lam_of, *mu_of;             // groups / strips x nv x strips: lam and mu of every seed
  size_t bodies_from;               // cotangents of body fields, up to cleared_from: zero at the start
  size_t cleared_from, cleared_to;  // the rest of what is zero at the start of an evaluation
  char *base;
} LANE(pbVjpBlock);

// The handle that pbVjp_Carve was given, at the next multiple of 64.
static inline LANE(pbVjpBlock) *LANE(pbVjp_Block)(void *memory) {
  return (LANE(pbVjpBlock) *)((char *)memory + (64 - (size_t)memory % 64) % 64);
}
// The adjoint of the evaluation in w begins: what is collected is zero.
void LANE(pbVjp_Begin)(LANE(pbVjpBlock) *k, const NUM(pbWork) *w);
// to += from, for the cotangents that are wanted (to NULL: not).
void LANE(pbVjp_AddOut)(double *to, const lane *from, int n);

#endif
