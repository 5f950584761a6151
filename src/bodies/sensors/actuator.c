// Lengths of actuators, their rates, and forces of actuators: of one, of all on a joint or a tendon.
// Tests: tests/conformance/test_lists.c, tests/conformance/test_step.c, tests/oracle/test_derivatives.py.
#include <pullback/actuators.h>
#include <pullback/sensors.h>

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

static bool pulls_tendon(const pbModel *m, int u, int tendon) {
  return m->actuator_trntype[u] == pb_trnTendon && m->actuator_trnid[2 * u] == tendon;
}

static void value(const NUM(pbMechanism) *w, int i, num *y) {
  const pbModel *m = w->m;
  int id = m->sensor_objid[i];
  switch (m->sensor_type[i]) {
    case pb_sensActuatorpos: y[0] = w->act_length[id]; break;
    case pb_sensActuatorvel: y[0] = w->act_velocity[id]; break;
    case pb_sensActuatorfrc: y[0] = w->actuator_force[id]; break;
    case pb_sensJointactuatorfrc: y[0] = w->qfrc_actuator[m->jnt_dofadr[id]] + servo_force(w, m->jnt_dofadr[id]); break;
    default:
      for (int u = 0; u < m->nu; u++) {
        if (pulls_tendon(m, u, id)) y[0] += w->actuator_force[u];
      }
  }
}
PB_SENSOR_VALUE(actuator, value);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/sensor_adjoint.h"

// The force of a servo is that of its row: what falls to act_force and qfrc_actuator goes there (pull_servo_forces).
static void pull(LANE(pbAdjoint) *a, int i, const lane *bar) {
  const pbModel *m = a->w->m;
  int id = m->sensor_objid[i];
  switch (m->sensor_type[i]) {
    case pb_sensActuatorpos: a->act_len[id] += bar[0]; break;
    case pb_sensActuatorvel:
      if (!(m->disableflags & pb_disActuation)) a->act_vel[id] += bar[0];
      break;
    case pb_sensActuatorfrc: a->act_force[id] += bar[0]; break;
    case pb_sensJointactuatorfrc: a->qfrc_actuator[m->jnt_dofadr[id]] += bar[0]; break;
    default:
      for (int u = 0; u < m->nu; u++) {
        if (pulls_tendon(m, u, id)) a->act_force[u] += bar[0];
      }
  }
}
PB_SENSOR_PULL(actuator, pull);
#endif
