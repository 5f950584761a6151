// Gauss-Newton's linear problem of a task by Riccati sweeps, one a trajectory, where unknowns are controls or initial states and
// each residual is of one state.
#ifndef PB_SWEEP_H
#define PB_SWEEP_H

#include "optimize/optimizer.h"
#include "optimize/task.h"

typedef struct pbTaskSweep pbTaskSweep;
// Why the task cannot be solved so, in words; NULL: it can.
const char *pbTaskSweep_WhyNot(const pbTask *task);
// Is it worth it, by an estimate of operations? Small problems are solved by a matrix.
bool pbTaskSweep_Pays(const pbTask *task);
// Destroyed by the caller, after a failure, too.
PB_NODISCARD pbStatus pbTaskSweep_Create(pbTask *task, pbTaskSweep **sweep);
void pbTaskSweep_Destroy(pbTask *task, pbTaskSweep *sweep);  // NULL is fine

// For pbTask_Linearize.
pbTaskTaker pbTaskSweep_Taker(pbTaskSweep *sweep);
// The steps of one trajectory on all threads, where there are fewer trajectories than these. Spread makes the memory for it, by
// the task's pool as it is then. TakeSpread, where IsSpread after the run of the trajectory, is what its taker does; called by
// whoever calls the pool, errors are in the trajectory's context.
PB_NODISCARD pbStatus pbTaskSweep_Spread(pbTaskSweep *sweep, int t);
bool pbTaskSweep_IsSpread(const pbTaskSweep *sweep, int t);
PB_NODISCARD pbStatus pbTaskSweep_TakeSpread(pbTaskSweep *sweep, int t);
// After all are taken; as of pbNormal.
void pbTaskSweep_Look(pbTaskSweep *sweep, double *g, double *diagonal);
bool pbTaskSweep_Solve(pbTaskSweep *sweep, double lambda, const double *D, const bool *held, double *p);
double pbTaskSweep_Squared(pbTaskSweep *sweep, const double *p);

// Second derivatives of the steps of a trajectory go to its sweep, from costates and states that are kept: of the loss's own
// costates that is all that Newton's method adds to Gauss-Newton's but for what terms curve. Errors are in the
// trajectory's context.
PB_NODISCARD pbStatus pbTaskSweep_BeginHessians(pbTaskSweep *sweep, int t);  // memory; freed with the sweep
PB_NODISCARD pbStatus pbTaskSweep_TakeHessians(pbTaskSweep *sweep, int t);

#endif
