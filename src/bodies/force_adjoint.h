// What a file of src/bodies/forces offers on the way back (force.h). Where PB_HAS_PULLBACK (eval/lane.h).
#ifndef PB_BODIES_FORCE_ADJOINT_H
#define PB_BODIES_FORCE_ADJOINT_H

#include "base/assert.h"
#include "eval/adjoint.h"

#if PB_LANES > 1
#pragma GCC diagnostic ignored "-Wpsabi"  // lanes are passed between functions of one file only
#endif

typedef struct LANE(pbForcePull) {
  // Gradient of the virtual power lam . f of all of it: by positions to q or P, by velocities to v or FV, by theta with PB_THETA
  // (a field of its own: PB_TERM_THETA). Under implicitfast also of W = -h mu' D qacc_integrated, D what `slopes` adds.
  void (*pull)(LANE(pbAdjoint) *a);
  // Of what acts along a tendon, power being J lam: by its length to ten_len, by its velocity to ten_vel; the force to ten_lam.
  void (*pull_tendon)(LANE(pbAdjoint) *a, int tendon, lane power);
} LANE(pbForcePull);

#define PB_FORCE_PULL(file, ...) const LANE(pbForcePull) LANE(pbForcePull_##file) = {__VA_ARGS__}

#endif
