// Activations that are the integral of the control.
// Tests: tests/conformance/test_step.c, tests/conformance/test_lists.c, tests/oracle/test_derivatives.py.
#include "bodies/actuator.h"

static num rate(const NUM(pbMechanism) *w, int u, num ctrl, int i) {
  (void)w;
  (void)u;
  (void)i;
  return ctrl;
}
PB_DYNAMICS(integrator, rate);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/actuator_adjoint.h"

static void pull_rate(LANE(pbAdjoint) *a, int u, int i, lane *velocity) {
  (void)velocity;
  LANE(pbActuator_PullControl)(a, u, a->act_dot[i]);
}
PB_DYNAMICS_PULL(integrator, pull_rate);
#endif
