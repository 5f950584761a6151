// The power of the actuators of a joint.
// Tests: tests/conformance/test_lists.c, tests/conformance/test_step.c.
#include "bodies/sensor.h"

// Force of servos on a dof: of rows, not in qfrc_actuator.
static num servo_force(const NUM(pbMechanism) *w, int dof) {
  num sum = 0;
  for (int u = 0; u < w->m->nu; u++) {
    if (!w->m->actuator_servo[u]) continue;
    for (int a = w->mom_start[u]; a < w->mom_start[u + 1]; a++) {
      if (w->mom_dofs[a] == dof) sum += w->mom[a] * w->actuator_force[u];
    }
  }
  return sum;
}

static void value(const NUM(pbMechanism) *w, int i, num *y) {
  int dof = w->m->jnt_dofadr[w->m->sensor_objid[i]];
  y[0] = (w->qfrc_actuator[dof] + servo_force(w, dof)) * w->qvel[dof];
}
PB_SENSOR_VALUE(joint_power, value);

#if !PB_IS_COMPLEX  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/sensor_adjoint.h"

// y = f v: what falls to qfrc_actuator goes to servos, too (sensors_adjoint.c).
static void pull(LANE(pbAdjoint) *a, int i, const lane *bar) {
  const NUM(pbMechanism) *w = a->w;
  int dof = w->m->jnt_dofadr[w->m->sensor_objid[i]];
  a->v[dof] += bar[0] * (w->qfrc_actuator[dof] + servo_force(w, dof));
  a->qfrc_actuator[dof] += bar[0] * w->qvel[dof];
}
PB_SENSOR_PULL(joint_power, pull);
#endif
