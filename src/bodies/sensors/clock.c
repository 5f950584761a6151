// The time. Its slope is on the steps before this one (rollout/clock.c).
// Tests: tests/conformance/test_lists.c, tests/conformance/test_step.c, tests/oracle/test_derivatives.py.
#include "bodies/sensor.h"

static void value(const NUM(pbMechanism) *w, int i, num *y) {
  (void)i;
  y[0] = *w->time;
}
PB_SENSOR_VALUE(clock, value);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/sensor_adjoint.h"

static void pull(LANE(pbAdjoint) *a, int i, const lane *bar) {
  (void)a;
  (void)i;
  (void)bar;
}
PB_SENSOR_PULL(clock, pull);
#endif
