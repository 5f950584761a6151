// Actuators on tendons: length and Jacobian of the tendon, times the gear.
// Tests: tests/conformance/test_step.c, tests/conformance/test_lists.c, tests/oracle/test_derivatives.py.
#include "bodies/actuator.h"

static void moment(NUM(pbMechanism) *w, int u, int *used) {
  int k = w->m->actuator_trnid[2 * u];
  num gear = w->p.actuator_gear[6 * u];
  w->act_length[u] = w->ten_length[k] * gear;
  for (int a = w->ten_start[k]; a < w->ten_start[k + 1]; a++) put_moment(w, used, w->ten_dofs[a], w->ten_J[a] * gear);
}

PB_TRANSMISSION(tendon, moment);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/actuator_adjoint.h"

// length = gear L, moment = gear dL/dq
static void pull(LANE(pbAdjoint) *a, int u, lane length) {
  const NUM(pbMechanism) *w = a->w;
  int k = w->m->actuator_trnid[2 * u];
  num gear = w->p.actuator_gear[6 * u];
  lane bar = length * w->ten_length[k], *other = LANE(pbTendon_Other)(a, k);

  for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) {
    other[w->ten_dofs[i]] += gear * a->c[w->ten_dofs[i]];
    bar += w->ten_J[i] * a->c[w->ten_dofs[i]];
  }
  a->ten_len[k] += gear * length;
  PB_THETA(a, actuator_gear, 6 * u, bar);
}

// The same where the moment's cotangent is force lam + velocity v: then the tendon has both.
static void pull_along(LANE(pbAdjoint) *a, int u, lane length, lane velocity) {
  const NUM(pbMechanism) *w = a->w;
  int k = w->m->actuator_trnid[2 * u];
  num gear = w->p.actuator_gear[6 * u], force = w->actuator_force[u];
  // moment = gear J
  a->ten_len[k] += gear * length;
  a->ten_vel[k] += gear * velocity;
  a->ten_lam[k] += gear * force;
  PB_THETA(a, actuator_gear, 6 * u, length * w->ten_length[k] + velocity * w->ten_velocity[k] + force * a->ten_power[k]);
}

PB_TRANSMISSION_PULL(tendon, pull, .pull_along = pull_along);
#endif
