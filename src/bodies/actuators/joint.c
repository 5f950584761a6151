// Actuators on joints: gear on the joint's velocity, in the child's frame or (joint in parent) the parent's.
// Tests: tests/conformance/test_step.c, tests/conformance/test_lists.c, tests/oracle/test_derivatives.py.
#include <pullback/actuators.h>

#include "bodies/actuator.h"
#include "math/vec.h"
#include "model/joint.h"
#include "multibody/spatial.h"

static void moment(NUM(pbMechanism) *w, int u, int *used) {
  const pbModel *m = w->m;
  int j = m->actuator_trnid[2 * u], type = m->jnt_type[j], dof = m->jnt_dofadr[j];
  const num *gear = w->p.actuator_gear + 6 * u, *qpos = w->qpos + m->jnt_qposadr[j];
  if (pbJoint_IsScalar(type)) {
    w->act_length[u] = qpos[0] * gear[0];
    put_moment(w, used, dof, gear[0]);
    return;
  }

  // Rotations: the length is gear . (rotation vector); of a free joint it is zero, as in MuJoCo.
  num q[4], axis[3] = {0}, rotated[3];
  bool free = type == pb_jntFree;

  quat_copy(q, free ? qpos + 3 : qpos);
  quat_normalize(q);
  v3_copy(rotated, free ? gear + 3 : gear);
  if (!free) quat_log(axis, q);
  if (m->actuator_trntype[u] == pb_trnJointInParent) {
    quat_conj(q, q);
    quat_rotate(rotated, q, free ? gear + 3 : gear);
  }
  w->act_length[u] = free ? 0 : v3_dot(axis, rotated);

  if (free) {
    for (int k = 0; k < 3; k++) put_moment(w, used, dof + k, gear[k]);
  }
  for (int k = 0; k < 3; k++) put_moment(w, used, dof + (free ? 3 : 0) + k, rotated[k]);
}

PB_TRANSMISSION(joint, moment);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/actuator_adjoint.h"

// Rotations: length = axis . gear', axis = log(q) (a free joint has none) and gear' = R' gear where the parent's frame counts.
static void pull_rotation(LANE(pbAdjoint) *a, int u, lane length) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  int j = m->actuator_trnid[2 * u], dof = m->jnt_dofadr[j], qadr = m->jnt_qposadr[j];
  const num *gear = w->p.actuator_gear + 6 * u;
  bool free = m->jnt_type[j] == pb_jntFree, parent = m->actuator_trntype[u] == pb_trnJointInParent;
  int first = free ? dof + 3 : dof, g0 = 6 * u + (free ? 3 : 0);
  num q[4], axis[3] = {0}, rotated[3];
  lane c[3], t[3] = {0}, onto[3];

  quat_copy(q, w->qpos + qadr + (free ? 3 : 0));
  quat_normalize(q);
  if (!free) quat_log(axis, q);
  v3_copy(rotated, free ? gear + 3 : gear);
  if (parent) quat_rotate(rotated, (num[4]){q[0], -q[1], -q[2], -q[3]}, free ? gear + 3 : gear);

  // Cotangent of the rotated gear: of the moment, and through the length.
  for (int k = 0; k < 3; k++) c[k] = a->c[first + k] + length * axis[k];
  if (free) {
    for (int k = 0; k < 3; k++) PB_THETA(a, actuator_gear, 6 * u + k, a->c[dof + k]);
  }

  // The length also moves with the rotation vector.
  if (!free) {
    for (int k = 0; k < 3; k++) onto[k] = length * rotated[k];
    pb_log_pull(axis, onto, t);
  }
  if (parent) PB_ADDCROSS(t, -1, rotated, c);
  for (int k = 0; k < 3; k++) a->q[first + k] += t[k];

#if PB_LANES == 1
  if (a->theta) {
    num g[3];
    v3_copy(g, c);
    if (parent) quat_rotate(g, q, c);
    for (int k = 0; k < 3; k++) PB_THETA(a, actuator_gear, g0 + k, g[k]);
  }
#else
  (void)g0;
#endif
}
// Slides and hinges: length = gear q, moment gear.
static void pull(LANE(pbAdjoint) *a, int u, lane length) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  int j = m->actuator_trnid[2 * u], dof = m->jnt_dofadr[j];

  if (!pbJoint_IsScalar(m->jnt_type[j])) {
    pull_rotation(a, u, length);
    return;
  }
  a->q[dof] += length * w->p.actuator_gear[6 * u];
  PB_THETA(a, actuator_gear, 6 * u, a->c[dof] + length * w->qpos[m->jnt_qposadr[j]]);
}

PB_TRANSMISSION_PULL(joint, pull);
#endif
