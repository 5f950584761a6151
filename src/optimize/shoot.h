// A task as iLQR sees it: linearized along its trajectories, answered by feedback, and run again with that feedback.
#ifndef PB_SHOOT_H
#define PB_SHOOT_H

#include "optimize/optimizer.h"
#include "optimize/sweep.h"

typedef struct pbTaskShooting pbTaskShooting;
// Of a task that pbTaskSweep_WhyNot has nothing against. Destroyed by the caller, after a failure, too.
PB_NODISCARD pbStatus pbTaskShooting_Create(pbTask *task, pbTaskShooting **shooting);
void pbTaskShooting_Destroy(pbTask *task, pbTaskShooting *shooting);  // NULL is fine

// As of pbShooting.
PB_NODISCARD pbStatus pbTaskShooting_Linearize(pbTaskShooting *s, const double *z, double *value, double *gradient);
bool pbTaskShooting_Plan(pbTaskShooting *s, const double *z, double lambda, double *moves, double *linear, double *quadratic);
PB_NODISCARD pbStatus pbTaskShooting_Try(pbTaskShooting *s, const double *z, double alpha, double *trial, double *value);

#endif
