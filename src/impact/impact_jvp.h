// Forward derivative of an impact, behind plain pointers (step/jvp.h).
#ifndef PB_IMPACT_JVP_H
#define PB_IMPACT_JVP_H

#include <pullback/world.h>

// The impact at contact point `point` of a candidate in a state.
typedef struct pbImpactAt {
  const double *theta, *x;
  const pbInput *input;  // poses of mocap bodies
  int candidate, point;
  double span, span_rate;  // how far mocap bodies have gone beyond their pose, and along the direction
} pbImpactAt;
// The slope of its gap, and of the velocity after (nv), along a direction.
pbStatus pbJvp_Impact(void *block, const pbImpactAt *impact, const pbDirection *direction, double *gap, double *velocity);

#endif
