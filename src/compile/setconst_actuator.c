// Rows of actuators at the reference configuration: their lengths by every dof.
// Tests: tests/oracle/test_constants.py.
#include <pullback/actuators.h>

#include "base/assert.h"
#include "compile/setconst.h"
#include "math/vec.h"
#include "model/joint.h"

typedef NUM(pbDerive) derive;

// moment: d(length)/d(velocities) of an actuator at qpos0, a row over the touched dofs; the functions return their number.
static int add_dof(derive *w, int dof, num value, int n) {
  w->mark[dof] = true;
  w->row[dof] = value;
  w->touched[n] = dof;
  return n + 1;
}

// Length and moment of an actuator on a joint. Of ball and free joints, gear is a torque (and force) in the frame of the child,
// or in the parent's where the transmission is jointinparent.
static int joint_moment(const pbModel *m, const NUM(pbPar) *p, int a, derive *w, num *length) {
  int j = m->actuator_trnid[2 * a];
  int dof = m->jnt_dofadr[j];
  const num *gear = p->actuator_gear + 6 * a;
  const num *q = p->qpos0 + m->jnt_qposadr[j];
  bool in_parent = m->actuator_trntype[a] == pb_trnJointInParent;

  // Scalar joints: length = gear q.
  if (pbJoint_IsScalar(m->jnt_type[j])) {
    *length = q[0] * gear[0];
    return add_dof(w, dof, gear[0], 0);
  }

  // The torque in the child's frame, in which velocities of rotations are.
  bool ball = m->jnt_type[j] == pb_jntBall;
  const num *torque = ball ? gear : gear + 3;
  num in_child[3];
  if (in_parent) {
    num back[4];
    quat_conj(back, ball ? q : q + 3);
    quat_rotate(in_child, back, torque);
  } else {
    memcpy(in_child, torque, sizeof in_child);
  }

  // A ball's length is its rotation vector along the gear; a free joint has none.
  if (ball) {
    num vector[3];
    quat_log(vector, q);
    *length = v3_dot(vector, in_child);
  }

  // Forces of a free joint act along the world's axes.
  int n = 0;
  if (!ball) {
    for (int k = 0; k < 3; k++) n = add_dof(w, dof++, gear[k], n);
  }

  for (int k = 0; k < 3; k++) n = add_dof(w, dof++, in_child[k], n);
  return n;
}

static void site_pose(const pbModel *m, const NUM(pbPar) *p, const derive *w, int s, num mat[9], num quat[4]) {
  quat_mul(quat, w->xquat + 4 * m->site_bodyid[s], p->site_quat + 4 * s);
  quat_to_mat(mat, quat);
}

static int last_dof_of_weld(const pbModel *m, int body) {
  int b = m->body_weldid[body];
  return m->body_dofnum[b] ? m->body_dofadr[b] + m->body_dofnum[b] - 1 : -1;
}

// Dofs that move both sites do not change the pose of one in the frame of the other.
static void clear_common(const pbModel *m, int s1, int s2, derive *w) {
  int i = last_dof_of_weld(m, m->site_bodyid[s1]);
  int j = last_dof_of_weld(m, m->site_bodyid[s2]);

  // The first common ancestor: of two dofs, the one with the larger id cannot be an ancestor of the other.

  // All dofs above that are common.
  while (i >= 0 && j >= 0 && i != j) {
    if (i < j) {
      j = m->dof_parentid[j];
    } else {
      i = m->dof_parentid[i];
    }
  }

  for (; i == j && i >= 0; i = j = m->dof_parentid[i]) w->row[i] = 0;
}

// Length and moment of an actuator on a site: gear is a wrench in the frame of the reference site, or of the site itself, which
// then has no length.
static int site_moment(const pbModel *m, const NUM(pbPar) *p, int a, derive *w, num *length) {
  int s = m->actuator_trnid[2 * a];
  int r = m->actuator_trnid[2 * a + 1];
  const num *gear = p->actuator_gear + 6 * a;
  num mat[9], quat[4], force[3], torque[3];
  site_pose(m, p, w, s, mat, quat);

  // Without a reference there is a force, and no length.
  if (r < 0) {
    m3_mulv(force, mat, gear);
    m3_mulv(torque, mat, gear + 3);
    return NUM(pbDerive_AddPoint)(m, w, m->site_bodyid[s], w->site_xpos + 3 * s, force, torque, 1, 0);
  }

  num frame[9], reference[4];
  site_pose(m, p, w, r, frame, reference);
  m3_mulv(force, frame, gear);
  m3_mulv(torque, frame, gear + 3);

  // Relative position, and relative rotation vector where the gear has a torque.
  num relative[3];
  v3_sub(relative, w->site_xpos + 3 * s, w->site_xpos + 3 * r);
  *length = v3_dot(relative, force);
  if (re(gear[3]) != 0 || re(gear[4]) != 0 || re(gear[5]) != 0) {
    quat_conj(reference, reference);
    quat_mul(quat, reference, quat);
    quat_log(relative, quat);
    *length += v3_dot(relative, gear + 3);
  }

  // The wrench acts on one site and its opposite on the other.
  int n = NUM(pbDerive_AddPoint)(m, w, m->site_bodyid[s], w->site_xpos + 3 * s, force, torque, 1, 0);
  n = NUM(pbDerive_AddPoint)(m, w, m->site_bodyid[r], w->site_xpos + 3 * r, force, torque, -1, n);
  clear_common(m, s, r, w);
  return n;
}

// A slider-crank, as bodies/actuators/slider_crank.c has it.
static int slider_crank_moment(const pbModel *m, const NUM(pbPar) *p, int a, derive *w, num *length) {
  int crank = m->actuator_trnid[2 * a], slider = m->actuator_trnid[2 * a + 1];
  double rod = m->actuator_cranklength[a];
  num mat[9], quat[4], vec[3], axis[3], force[3], torque[3], gear = p->actuator_gear[6 * a];
  site_pose(m, p, w, slider, mat, quat);
  m3_col(axis, mat, 2);
  v3_sub(vec, w->site_xpos + 3 * crank, w->site_xpos + 3 * slider);

  // Slopes by the way between the sites and by the axis.
  num along = v3_dot(axis, vec), square = along * along + rod * rod - v3_dot(vec, vec), share = 1;
  bool reaches = re(square) > 0;
  num root = reaches ? num_sqrt(square) : 0;
  *length = gear * (along - root);
  if (reaches) share = 1 - num_div(along, root);
  v3_scale(force, axis, gear * share);
  if (reaches) v3_addscl(force, vec, num_div(gear, root));
  v3_cross(torque, vec, axis);
  v3_scale(torque, torque, gear * share);

  int n = NUM(pbDerive_AddPoint)(m, w, m->site_bodyid[crank], w->site_xpos + 3 * crank, force, NULL, 1, 0);
  return NUM(pbDerive_AddPoint)(m, w, m->site_bodyid[slider], w->site_xpos + 3 * slider, force, torque, -1, n);
}

int NUM(pbDerive_ActuatorRow)(const pbModel *m, const num *theta, derive *w, int a, num *length) {
  NUM(pbPar) p;
  par_view(&p, m, theta);
  *length = 0;
  if (m->actuator_trntype[a] == pb_trnSite) return site_moment(m, &p, a, w, length);
  if (m->actuator_trntype[a] == pb_trnSliderCrank) return slider_crank_moment(m, &p, a, w, length);
  if (m->actuator_trntype[a] == pb_trnBody) return 0;  // nothing touches yet
  if (m->actuator_trntype[a] != pb_trnTendon) return joint_moment(m, &p, a, w, length);

  // A tendon scaled by the gear.
  int t = m->actuator_trnid[2 * a];
  PB_ASSERT(t >= 0 && t < m->ntendon);
  *length = w->ten_length[t] * p.actuator_gear[6 * a];
  int n = NUM(pbDerive_TendonRow)(m, theta, w, t);
  for (int i = 0; i < n; i++) w->row[w->touched[i]] *= p.actuator_gear[6 * a];
  return n;
}
