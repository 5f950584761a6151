// Inside of sweeps: what there is of each trajectory of a task.
#ifndef PB_ALONG_H
#define PB_ALONG_H

#include "control/riccati.h"
#include "optimize/sweep.h"

typedef struct pbSeat {  // of a thread: numbers of the step at hand
  struct pbAlong *along;
  pbScratch *scratch;  // NULL: the rollout's
  // Jacobians, n x n and n x nu; weights of slots in their controls, by the unknown; a residual by state and controls; what
  // linearizing needs
  double *A, *B, *weight, *row, *room;
} pbSeat;

typedef struct pbAlong {  // one trajectory
  struct pbTaskSweep *sweep;
  pbRiccati riccati;
  int *actuator;  // slots: which control a slot is added to
  pbSeat own;     // of the trajectory's thread
  int seat_count;
  pbSeat *seats;     // of all threads, for its steps alone; none where there are trajectories enough
  pbStatus *failed;  // steps + 1: how these ended
  // with second derivatives of steps: costates after each step (steps, n), one of these by state and controls, room to find it
  double *costates, *H, *hessian_room;
  double *states;  // (steps + 1, nx): where it is linearized; NULL: nobody asks
  bool solved;
  double squared;
} pbAlong;

struct pbTaskSweep {
  pbTask *task;
  int count;
  pbAlong *along;  // as many as trajectories; those that test the answer have nothing
  // of the call at hand
  double *g, *diagonal, lambda, *p;
  const double *D, *move;
  const bool *held;
};

// Weight of each slot in the control of a step, at the values that the task has now.
void pbAlong_Weigh(const pbTask *task, int t, int step, double *weight);

#endif
