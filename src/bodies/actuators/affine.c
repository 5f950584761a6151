// Gains and biases that are affine in length and velocity: p0 + p1 length + p2 velocity.
// Tests: tests/conformance/test_step.c, tests/conformance/test_lists.c, tests/oracle/test_derivatives.py.
#include "bodies/actuator.h"

static num value(const num *p, num length, num velocity) { return p[0] + p[1] * length + p[2] * velocity; }

static num gain(const NUM(pbMechanism) *w, int u) {
  return value(w->p.actuator_gainprm + 10 * u, w->act_length[u], w->act_velocity[u]);
}
static num gain_slope(const NUM(pbMechanism) *w, int u) { return w->p.actuator_gainprm[10 * u + 2]; }
PB_GAIN(affine, gain, .slope = gain_slope);

static num bias(const NUM(pbMechanism) *w, int u) {
  return value(w->p.actuator_biasprm + 10 * u, w->act_length[u], w->act_velocity[u]);
}
static num bias_slope(const NUM(pbMechanism) *w, int u) { return w->p.actuator_biasprm[10 * u + 2]; }
PB_BIAS(affine, bias, .slope = bias_slope);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/actuator_adjoint.h"

static void pull_gain(LANE(pbAdjoint) *a, int u, lane bar, lane *length, lane *velocity) {
  const num *p = a->w->p.actuator_gainprm + 10 * u;
  *length += bar * p[1];
  *velocity += bar * p[2];
  PB_THETA(a, actuator_gainprm, 10 * u, bar);
  PB_THETA(a, actuator_gainprm, 10 * u + 1, bar * a->w->act_length[u]);
  PB_THETA(a, actuator_gainprm, 10 * u + 2, bar * a->w->act_velocity[u]);
}

static void pull_gain_slope(LANE(pbAdjoint) *a, int u, lane bar, lane *length, lane *velocity) {
  (void)length;
  (void)velocity;
  PB_THETA(a, actuator_gainprm, 10 * u + 2, bar);
}
PB_GAIN_PULL(affine, pull_gain, .pull_slope = pull_gain_slope);

static void pull_bias(LANE(pbAdjoint) *a, int u, lane bar, lane *length, lane *velocity) {
  const num *p = a->w->p.actuator_biasprm + 10 * u;
  *length += bar * p[1];
  *velocity += bar * p[2];
  PB_THETA(a, actuator_biasprm, 10 * u, bar);
  PB_THETA(a, actuator_biasprm, 10 * u + 1, bar * a->w->act_length[u]);
  PB_THETA(a, actuator_biasprm, 10 * u + 2, bar * a->w->act_velocity[u]);
}

static void pull_bias_slope(LANE(pbAdjoint) *a, int u, lane bar, lane *length, lane *velocity) {
  (void)length;
  (void)velocity;
  PB_THETA(a, actuator_biasprm, 10 * u + 2, bar);
}
PB_BIAS_PULL(affine, pull_bias, .pull_slope = pull_bias_slope);
#endif
