// What a file of src/bodies/sensors offers on the way back (sensor.h). Where PB_HAS_PULLBACK (eval/lane.h).
#ifndef PB_BODIES_SENSOR_ADJOINT_H
#define PB_BODIES_SENSOR_ADJOINT_H

#include "bodies/sensor.h"
#include "eval/adjoint.h"

#if PB_LANES > 1
#pragma GCC diagnostic ignored "-Wpsabi"  // lanes are passed between functions of one file only
#endif

typedef struct LANE(pbSensorPull) {
  // Cotangents of its numbers to what they were made of. What reads accelerations adds to FA and sets has_FA, what reads forces
  // of rows calls pull_force (sensor_row_adjoint.h), velocities to FV; all add to P.
  void (*pull)(LANE(pbAdjoint) *a, int sensor, const lane *bar);
  // Before the first pull, and after the last. NULL: nothing.
  void (*begin)(LANE(pbAdjoint) *a);
  void (*end)(LANE(pbAdjoint) *a);
} LANE(pbSensorPull);

#define PB_SENSOR_PULL(file, function, ...) const LANE(pbSensorPull) LANE(pbSensorPull_##file) = {.pull = function, ##__VA_ARGS__}

// What the files share.
static inline bool is_zero(const lane *x, int n) {
  for (int i = 0; i < n; i++) {
    double part[PB_LANES];
    memcpy(part, x + i, sizeof part);
    for (int k = 0; k < PB_LANES; k++) {
      if (part[k] != 0) return false;
    }
  }
  return true;
}

#endif
