// Lengths of tendons and their rates.
// Tests: tests/conformance/test_lists.c, tests/conformance/test_step.c, tests/oracle/test_derivatives.py.
#include <pullback/sensors.h>

#include "bodies/sensor.h"

static void value(const NUM(pbMechanism) *w, int i, num *y) {
  int tendon = w->m->sensor_objid[i];
  y[0] = w->m->sensor_type[i] == pb_sensTendonpos ? w->ten_length[tendon] : w->ten_velocity[tendon];
}
PB_SENSOR_VALUE(tendon, value);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/sensor_adjoint.h"

static void pull(LANE(pbAdjoint) *a, int i, const lane *bar) {
  int tendon = a->w->m->sensor_objid[i];
  if (a->w->m->sensor_type[i] == pb_sensTendonpos) a->ten_len[tendon] += bar[0];
  else a->ten_vel[tendon] += bar[0];
}
PB_SENSOR_PULL(tendon, pull);
#endif
