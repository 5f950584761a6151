// What files of src/bodies/sensors that read forces of rows share on the way back.
#ifndef PB_BODIES_SENSOR_ROW_ADJOINT_H
#define PB_BODIES_SENSOR_ROW_ADJOINT_H

#include "bodies/sensor_adjoint.h"
#include "eval/constraints.h"
#include "eval/row.h"

static inline void pull_force(LANE(pbAdjoint) *a, const NUM(pbRow) *row, lane bar) {
  a->has_force = true;
  a->force[6 * (row - a->constraints->row)] += bar;
}

#endif
