// A state that goes on for `time` (s, may be negative) at velocity v (nv), q <- q (+) time v: of its tangent and its cotangent
// the first 2 nv numbers, positions and velocities, in place. The velocity stays. To first order in the turn for rotations.
#ifndef PB_DRIFT_H
#define PB_DRIFT_H

#include <pullback/world.h>

void pbDrift_Push(const pbModel *m, const double *v, double time, double *x);
void pbDrift_Pull(const pbModel *m, const double *v, double time, double *x_bar);

#endif
