// Forward derivative of an impact, behind plain pointers (step/jvp.h).
#ifndef PB_IMPACT_JVP_H
#define PB_IMPACT_JVP_H

#include <pullback/world.h>

// Contact `point` of a candidate strikes in state x: the slope of its gap, and of the velocity after (nv), along a direction.
pbStatus pbJvp_Strike(void *block, const double *theta, const double *x, const pbDirection *direction, int candidate, int point,
                      double *gap, double *velocity);

#endif
