// A task as iLQR sees it: linearized along its trajectories, answered by feedback, and run again with that feedback.
#ifndef PB_SHOOT_H
#define PB_SHOOT_H

#include "optimize/optimizer.h"
#include "optimize/sweep.h"

typedef struct pbTaskShooting pbTaskShooting;
// Why there is none of a task: what a sweep has against it, or derivatives it asks for that there are not. NULL: there is one.
const char *pbTaskShooting_WhyNot(const pbTask *task);
// Of a task that WhyNot has nothing against. Destroyed by the caller, after a failure, too.
PB_NODISCARD pbStatus pbTaskShooting_Create(pbTask *task, pbTaskShooting **shooting);
void pbTaskShooting_Destroy(pbTask *task, pbTaskShooting *shooting);  // NULL is fine

// As of pbShooting.
PB_NODISCARD pbStatus pbTaskShooting_Linearize(pbTaskShooting *s, const double *z, double *value, double *gradient);
bool pbTaskShooting_Plan(pbTaskShooting *s, const double *z, double lambda, double *moves, double *linear, double *quadratic);
PB_NODISCARD pbStatus pbTaskShooting_Try(pbTaskShooting *s, const double *z, double alpha, double *trial, double *value);

// Of states that the task's trajectories are given (gaps.h): numbers of all gaps, those of one trajectory behind the other; what
// they are at z; those of the calls above from here on (borrowed; NULL: closed, as from Create on).
size_t pbTaskShooting_GapNumbers(const pbTaskShooting *s);
PB_NODISCARD pbStatus pbTaskShooting_MeasureGaps(pbTaskShooting *s, const double *z, double *gaps);
void pbTaskShooting_UseGaps(pbTaskShooting *s, const double *gaps);

// States (steps + 1, StateSize) of a trajectory at z, which is where it was linearized or what was tried last.
const double *pbTaskShooting_States(const pbTaskShooting *s, int t, const double *z);
// How controls answer the state (steps, nu, n) by the last plan. Knots that act for several steps answer the state where they
// begin; what is asked of them later they answer as if it were that.
void pbTaskShooting_Gains(const pbTaskShooting *s, int t, double *gain);

#endif
