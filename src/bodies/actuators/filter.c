// Activations that follow the control with a time constant tau: act_dot = (ctrl - act) / tau, the shorter way round of
// rotations. The exact filter integrates that over a time step in which the control stays: act + act_dot tau (1 - exp(-h /
// tau)).
// Tests: tests/conformance/test_step.c, tests/conformance/test_lists.c, tests/oracle/test_derivatives.py.
#include "bodies/actuator.h"
#include "bodies/actuators.h"

static num time_constant(const NUM(pbMechanism) *w, int u) { return num_max(w->p.actuator_dynprm[10 * u], 1e-15); }

static num rate(const NUM(pbMechanism) *w, int u, num ctrl, int i) {
  return (NUM(pbActuator_Wrap)(w, u, ctrl, w->act[i]) - w->act[i]) / time_constant(w, u);
}

static num exact_next(const NUM(pbMechanism) *w, int u, int i, num act, num act_dot) {
  (void)i;
  num h = w->p.timestep[0], tau = time_constant(w, u);
  return act + act_dot * tau * (1 - num_exp(-h / tau));
}
PB_DYNAMICS(filter, rate);
PB_DYNAMICS(filter_exact, rate, .next = exact_next);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/actuator_adjoint.h"
#include "elementary/elementary.h"

static void pull_rate(LANE(pbAdjoint) *a, int u, int i, lane *velocity) {
  const NUM(pbMechanism) *w = a->w;
  num tau = w->p.actuator_dynprm[10 * u];
  lane bar = a->act_dot[i] / num_max(tau, 1e-15);
  (void)velocity;

  a->act[i] -= bar;
  if (re(tau) > 1e-15) PB_THETA(a, actuator_dynprm, 10 * u, -bar * w->act_dot[i]);
  LANE(pbActuator_PullTurns)(a, u, NUM(pbActuator_Control)(w, u), w->act[i], bar);
  LANE(pbActuator_PullControl)(a, u, bar);
}

// step = tau (1 - exp(-h / tau)): by h the exponential itself.
void LANE(pbForce_FilterNext)(LANE(pbAdjoint) *a, int u, int i, num act_dot, lane bar, lane *act_bar, lane *dot_bar) {
  const NUM(pbMechanism) *w = a->w;
  num h = w->p.timestep[0], tau = num_max(w->p.actuator_dynprm[10 * u], 1e-15), decay = num_exp(-h / tau);
  if (re(tau) > 1e-15) PB_THETA(a, actuator_dynprm, 10 * u, bar * act_dot * (1 - decay - h / tau * decay));
  a->h_bar += PB_LANE0(bar) * act_dot * decay;
  act_bar[i] += bar;
  dot_bar[i] += bar * (tau * (1 - decay));
}

static void pull_exact_next(LANE(pbAdjoint) *a, int u, int i, num act, num act_dot, lane bar, lane *act_bar, lane *dot_bar) {
  (void)act;
  LANE(pbForce_FilterNext)(a, u, i, act_dot, bar, act_bar, dot_bar);
}
PB_DYNAMICS_PULL(filter, pull_rate);
PB_DYNAMICS_PULL(filter_exact, pull_rate, .pull_next = pull_exact_next);
#endif
