// Feedback along a linearized trajectory, by dynamic programming backwards through its steps (differential dynamic programming
// with limits on controls: Tassa, Mansard & Todorov 2014): what each knot is to move by, and how it answers a state that is
// off. Knots that act from the same step on are found together, between their bounds; those at a bound answer nothing.
//
// Damping lambda is of states (Tassa, Erez & Todorov 2012): the value after each step is made steeper by lambda times its mean
// curvature in all directions, for the choice of moves alone, so that a trajectory stays near the one that it was linearized
// about; knots and unknowns of the initial state likewise, by the mean curvature of those that are chosen together.
#ifndef PB_FEEDBACK_H
#define PB_FEEDBACK_H

#include "control/box_qp.h"
#include "control/riccati.h"

typedef struct pbFeedback {
  pbRiccati *of;
  double *move, *gain;       // entry_count, (entry_count, size): a knot moves by alpha move - gain (state and knots at hand)
  double *start_move;        // start_count: likewise of the initial state
  double linear, quadratic;  // the loss is to change by alpha linear + alpha^2 quadratic
  double size;               // sum of the absolute values that `linear` is the sum of
  // Gaps (gap_count, n) of the linearized trajectory, NULL: none: the state before step gap_step (ascending from 1 on) is by so
  // much off from where the step before it leads; a part alpha of the plan closes that part of them. The caller's.
  const double *gaps;
  const int *gap_step;
  int gap_count;
  // Workspace
  double *room;   // of a box problem
  double *W, *M;  // (slots, size) each
  double *moved;  // size: what moves of later steps, and gaps that close there, have added to q
  int *at;        // of a group: where its knots stand among state and knots
  void *product;
  double *numbers;
  int *integers;
} pbFeedback;

PB_NODISCARD pbStatus pbFeedback_Create(pbContext *ctx, pbFeedback *f, pbRiccati *of);  // freed after a failure, too
void pbFeedback_Free(pbContext *ctx, pbFeedback *f);

// From the linearized trajectory: moves between lower - z and upper - z, all by the problem's unknowns. moves: a guess, then
// what they are; which unknowns the guess holds at a bound makes it fast, and may change the last digits. False: with so little
// damping there is no least value.
bool pbFeedback_Plan(pbFeedback *f, double lambda, const double *z, const double *lower, const double *upper, double *moves);
// Is it downwards, but for rounding? Where P is all but singular, or curves downwards, a plan may not be.
bool pbFeedback_Descends(const pbFeedback *f);
// Of an entry of the problem: by how much its knot moves where state and knots at hand are off by x (size). Knots that enter at
// the same step do not answer each other.
double pbFeedback_Move(const pbFeedback *f, int entry, double alpha, const double *x);

#endif
