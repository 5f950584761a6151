// What a file of src/bodies/sensors offers: values of its sensors and, below them, their pullback. The sensors are rows of
// PB_SENSOR_TABLE (pullback/sensors.h), which name their files. A file is compiled for each kind
// of lane, value and pullback together, and for the forward program in complex numbers, the value alone.
#ifndef PB_BODIES_SENSOR_H
#define PB_BODIES_SENSOR_H

#include "base/assert.h"
#include "eval/lane.h"
#include "eval/mechanism.h"

#define TINY 1e-15  // MuJoCo's mjMINVAL

typedef struct LANE(pbSensorValue) {
  // Its numbers, into y, which holds zeros.
  void (*value)(const NUM(pbMechanism) *w, int sensor, num *y);
  // What several sensors share, before the first value. NULL: nothing.
  void (*share)(const NUM(pbMechanism) *w);
  // The same of files that read contacts and rows (eval/constraints.h), in place of these.
  void (*value_constrained)(const NUM(pbConstraints) *w, int sensor, num *y);
  void (*share_constrained)(const NUM(pbConstraints) *w);
} LANE(pbSensorValue);

#define PB_SENSOR_VALUE(file, function, ...) \
  const LANE(pbSensorValue) LANE(pbSensorValue_##file) = {.value = function, ##__VA_ARGS__}

#endif
