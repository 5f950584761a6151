// Jacobians of open-loop steps of bodies: what a closed loop's are made of (world/policy_jacobian.c), and where no policy acts
// all of them. Not of worlds with deformables or histories.
#ifndef PB_OPEN_JACOBIAN_H
#define PB_OPEN_JACOBIAN_H

#include "model/columns.h"
#include "step/record.h"

// Numbers of a state's tangent that an open step of bodies has: positions, velocities, activations.
static inline int pb_openSize(const pbModel *m) { return 2 * m->nv + m->na; }

// As pbStep_JacobianBy, with rows and columns of pb_openSize for the state and pb_inputColumns for inputs, by a normalized theta.
PB_NODISCARD pbStatus pbStep_JacobianOpen(pbScratch *s, const pbStepRecord *step, const pbJacobian *out);

// Rows (count x observing) of cotangents of what a policy observes of the state before the step, pulled to that state and to the
// poses of mocap bodies: added to A (rows of `n` numbers) and B (pb_inputColumns by `by`, without controls and forces; NULL: not
// wanted). After pbStep_JacobianOpen of the same step. room: observing x pb_lanesMost.
typedef struct pbObservedRows {
  int count, n;
  unsigned by;
  const double *observation;
  double *A, *B, *room;
} pbObservedRows;
PB_NODISCARD pbStatus pbStep_JacobianObserved(pbScratch *s, const pbStepRecord *step, const pbObservedRows *rows);

// Where the columns of a pullback with so many cotangents side by side go, among `inputs`.
pbInputBar pbJacobian_Inputs(const pbModel *m, unsigned by, int lanes, double *inputs);

#endif
