// A gain that is one number.
// Tests: tests/conformance/test_step.c, tests/conformance/test_lists.c, tests/oracle/test_derivatives.py.
#include "bodies/actuator.h"

static num gain(const NUM(pbMechanism) *w, int u) { return w->p.actuator_gainprm[10 * u]; }
PB_GAIN(fixed, gain);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/actuator_adjoint.h"

static void pull_gain(LANE(pbAdjoint) *a, int u, lane bar, lane *length, lane *velocity) {
  (void)length;
  (void)velocity;
  PB_THETA(a, actuator_gainprm, 10 * u, bar);
}
PB_GAIN_PULL(fixed, pull_gain);
#endif
