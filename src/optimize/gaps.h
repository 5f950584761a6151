// Gaps of a start whose states are given and are no run (Mastalli et al. 2020, "Crocoddyl: an efficient and versatile framework
// for multi-contact optimal control", IV): before some steps the state is by a tangent d off from where the step before it leads.
// Steps begin at the given states, so that each is short, whatever a run from the initial state would come to. A part alpha of a
// plan closes that part of every gap, so a whole one closes all of them, exactly, and what remains is a run.
#ifndef PB_GAPS_H
#define PB_GAPS_H

#include "optimize/task.h"

typedef struct pbGapRun {  // a run of one trajectory that jumps
  const pbModel *model;
  const pbGivenStates *given;
  int n;              // TangentSize
  const double *gap;  // (count, n)
  double part;        // of each
  double *measured;   // (count, n): found on the way, so that the run passes the given states to rounding; NULL: gap is known
  double *moved;      // n: room
} pbGapRun;

// pbRollout.jump, with a pbGapRun: the state before step k, which is where the step before it led, moves by its gap.
void pbGapRun_Jump(void *run, int k, double *x);

// Rows (n, width) of the motion of where the step before a gap leads become those of the state behind it: a rotation of it is
// seen from a frame that is turned by the gap.
void pbGap_Transport(const pbModel *model, const double *gap, double *rows, int width);

#endif
