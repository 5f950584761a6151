// A bias that brakes by the square of the velocity: -p0 v |v|.
// Tests: tests/conformance/test_lists.c, tests/conformance/test_step.c.
#include "bodies/actuator.h"

static num bias(const NUM(pbMechanism) *w, int u) {
  num v = w->act_velocity[u];
  return -w->p.actuator_biasprm[10 * u] * v * num_abs(v);
}
static num bias_slope(const NUM(pbMechanism) *w, int u) {
  return -2 * w->p.actuator_biasprm[10 * u] * num_abs(w->act_velocity[u]);
}
PB_BIAS(quadratic, bias, .slope = bias_slope);

#if !PB_IS_COMPLEX  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/actuator_adjoint.h"

static void pull_bias(LANE(pbAdjoint) *a, int u, lane bar, lane *length, lane *velocity) {
  double v = a->w->act_velocity[u];
  (void)length;
  *velocity += bar * bias_slope(a->w, u);
  PB_THETA(a, actuator_biasprm, 10 * u, bar * (-v * fabs(v)));
}

// slope = -2 p0 |v|
static void pull_bias_slope(LANE(pbAdjoint) *a, int u, lane bar, lane *length, lane *velocity) {
  double v = a->w->act_velocity[u];
  (void)length;
  *velocity -= bar * (2 * a->w->p.actuator_biasprm[10 * u] * pb_signOf(v));
  PB_THETA(a, actuator_biasprm, 10 * u, bar * (-2 * fabs(v)));
}
PB_BIAS_PULL(quadratic, pull_bias, .pull_slope = pull_bias_slope);
#endif
