// Positions and velocities of hinges, slides and ball joints.
// Tests: tests/conformance/test_lists.c, tests/conformance/test_step.c, tests/oracle/test_derivatives.py.
#include <pullback/sensors.h>

#include "bodies/sensor.h"
#include "math/vec.h"
#include "multibody/frame.h"
#include "multibody/spatial.h"

static void value(const NUM(pbMechanism) *w, int i, num *y) {
  const pbModel *m = w->m;
  int joint = m->sensor_objid[i];
  const num *q = w->qpos + m->jnt_qposadr[joint], *v = w->qvel + m->jnt_dofadr[joint];
  switch (m->sensor_type[i]) {
    case pb_sensJointpos: y[0] = q[0]; break;
    case pb_sensJointvel: y[0] = v[0]; break;
    case pb_sensBallangvel: v3_copy(y, v); break;
    default: quat_copy(y, q); quat_normalize(y);
  }
}
PB_SENSOR_VALUE(joint, value);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/sensor_adjoint.h"
#include "multibody/frame_adjoint.h"

// y = q / |q|: the child turns by y (0, t / 2).
static void pull_quat(LANE(pbAdjoint) *a, int j, const lane bar[4]) {
  const num *q = a->w->qpos + a->w->m->jnt_qposadr[j];
  num y[4], n = num_sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
  lane t[4];

  if (re(n) < TINY) return;
  for (int k = 0; k < 4; k++) y[k] = q[k] / n;
  quat_left(t, y, bar);
  for (int k = 0; k < 3; k++) a->q[a->w->m->jnt_dofadr[j] + k] += 0.5 * t[1 + k];
}

static void pull(LANE(pbAdjoint) *a, int i, const lane *bar) {
  const pbModel *m = a->w->m;
  int joint = m->sensor_objid[i], dof = m->jnt_dofadr[joint];
  switch (m->sensor_type[i]) {
    case pb_sensJointpos: a->q[dof] += bar[0]; break;
    case pb_sensJointvel: a->v[dof] += bar[0]; break;
    case pb_sensBallangvel:
      for (int k = 0; k < 3; k++) a->v[dof + k] += bar[k];
      break;
    default: pull_quat(a, joint, bar);
  }
}
PB_SENSOR_PULL(joint, pull);
#endif
