// Muscles (multibody/muscle.h): gain, bias and the rate of the activation.
// Tests: tests/oracle/test_muscles.py, tests/conformance/test_lists.c.
#include "bodies/actuator.h"
#include "bodies/actuators.h"
#include "multibody/muscle.h"

PB_GAIN(muscle, NUM(pbMuscle_Gain), .slope = NUM(pbMuscle_GainSlope));
PB_BIAS(muscle, NUM(pbMuscle_Bias));

static num rate(const NUM(pbMechanism) *w, int u, num ctrl, int i) { return NUM(pbMuscle_Rate)(w, u, ctrl, w->act[i]); }
PB_DYNAMICS(muscle, rate);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/actuator_adjoint.h"
#include "model/term_fields.h"

// Cotangent of a muscle's gain, its slope by velocity, or its bias; field: of its parameters.
static void pull_part(LANE(pbAdjoint) *a, int u, pbMusclePart part, lane bar, lane *length, lane *velocity) {
  NUM(pbMusclePartials) d;
  PB_ASSERT(u >= 0 && u < a->w->m->nu);
  if (!NUM(pbMuscle_Partials)(a->w, u, part, &d)) return;
  *length += bar * d.length;
  *velocity += bar * d.velocity;
  for (int k = 0; k < 2; k++) PB_TERM_THETA(a, actuator_lengthrange, 2 * u + k, bar * d.lengthrange[k]);
  PB_TERM_THETA(a, actuator_acc0, u, bar * d.acc0);

#if PB_LANES == 1
  if (!a->theta) return;
  num *prm_bar = (part == pb_muscleBias ? a->bar.actuator_biasprm : a->bar.actuator_gainprm) + 10 * u;
  for (int k = 0; k < 9; k++) prm_bar[k] += bar * d.prm[k];
#endif
}

static void pull_gain(LANE(pbAdjoint) *a, int u, lane bar, lane *length, lane *velocity) {
  pull_part(a, u, pb_muscleGain, bar, length, velocity);
}
static void pull_gain_slope(LANE(pbAdjoint) *a, int u, lane bar, lane *length, lane *velocity) {
  pull_part(a, u, pb_muscleGainSlope, bar, length, velocity);
}
PB_GAIN_PULL(muscle, pull_gain, .pull_slope = pull_gain_slope);

static void pull_bias(LANE(pbAdjoint) *a, int u, lane bar, lane *length, lane *velocity) {
  pull_part(a, u, pb_muscleBias, bar, length, velocity);
}
PB_BIAS_PULL(muscle, pull_bias);

// act_dot = (u - act) / tau of a muscle
static void pull_rate(LANE(pbAdjoint) *a, int u, int i, lane *velocity) {
  const NUM(pbMechanism) *w = a->w;
  lane bar = a->act_dot[i];
  (void)velocity;
  num ctrl = NUM(pbActuator_Control)(w, u);
  PB_ASSERT(i >= 0 && i < w->m->na);

  NUM(pbMuscleRatePartials) d;
  NUM(pbMuscle_RatePartials)(w, u, ctrl, w->act[i], &d);
  a->act[i] += bar * d.act;
  for (int k = 0; k < 3; k++) PB_THETA(a, actuator_dynprm, 10 * u + k, bar * d.dynprm[k]);
  LANE(pbActuator_PullControl)(a, u, bar * d.ctrl);
}

PB_DYNAMICS_PULL(muscle, pull_rate);
#endif
