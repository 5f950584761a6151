// Forward kinematics at a configuration: poses of bodies, inertial frames and sites, anchors and axes of joints, lengths of
// tendons. The same as those of a step (multibody/kinematics.c), without velocities and an adjoint.
// Tests: tests/oracle/test_constants.py.
#include "compile/setconst.h"

#include "math/vec.h"
#include "model/joint.h"
#include "model/par.h"
#include "number/number.h"

#define MIN_VALUE 1e-15  // MuJoCo's mjMINVAL

typedef NUM(pbDerive) derive;

// One joint moves the pose (x, q) of its body, and leaves its anchor and axis in world coordinates.
static void joint_pose(const pbModel *m, const NUM(pbPar) *p, const num *qpos, int j, derive *w, num x[3], num q[4]) {
  const num *at = qpos + m->jnt_qposadr[j];
  const num *pos = p->jnt_pos + 3 * j;
  num *anchor = w->xanchor + 3 * j;
  num *xaxis = w->xaxis + 3 * j;
  num axis[3], arm[3], rotation[4];
  v3_copy(axis, p->jnt_axis + 3 * j);
  v3_normalize(axis);

  // A free joint replaces the pose.
  if (m->jnt_type[j] == pb_jntFree) {
    v3_copy(x, at);
    quat_copy(q, at + 3);
    quat_normalize(q);
    v3_copy(anchor, x);
    v3_copy(xaxis, axis);
    return;
  }

  quat_rotate(arm, q, pos);
  v3_add(anchor, x, arm);
  quat_rotate(xaxis, q, axis);

  // A slide joint and a hinge are measured from the reference configuration.
  num displacement = at[0] - p->qpos0[m->jnt_qposadr[j]];
  if (m->jnt_type[j] == pb_jntSlide) {
    v3_addscl(x, xaxis, displacement);
    return;
  }

  if (m->jnt_type[j] == pb_jntHinge) {
    quat_axisangle(rotation, axis, displacement);
  } else {
    quat_copy(rotation, at);
    quat_normalize(rotation);
  }

  // A rotation about the anchor, which stays where it is.
  quat_mul(q, q, rotation);
  quat_rotate(arm, q, pos);
  v3_sub(x, anchor, arm);
}

// Pose of a body from that of its parent: its own, then its joints in order, then the inertial frame.
static void body_pose(const pbModel *m, const NUM(pbPar) *p, const num *qpos, int b, derive *w) {
  int parent = m->body_parentid[b];
  num *x = w->xpos + 3 * b;
  num *q = w->xquat + 4 * b;
  num local[4], iquat[4], offset[3];

  // Where the body is at zero displacement.
  quat_copy(local, p->body_quat + 4 * b);
  quat_normalize(local);
  m3_mulv(offset, w->xmat + 9 * parent, p->body_pos + 3 * b);
  v3_add(x, w->xpos + 3 * parent, offset);
  quat_mul(q, w->xquat + 4 * parent, local);

  // Joints in order, each in the frame that the one before it left.
  for (int k = 0; k < m->body_jntnum[b]; k++) joint_pose(m, p, qpos, m->body_jntadr[b] + k, w, x, q);
  quat_normalize(q);
  quat_to_mat(w->xmat + 9 * b, q);

  // Inertial frame.
  m3_mulv(offset, w->xmat + 9 * b, p->body_ipos + 3 * b);
  v3_add(w->xipos + 3 * b, x, offset);
  quat_copy(iquat, p->body_iquat + 4 * b);
  quat_normalize(iquat);
  quat_mul(iquat, q, iquat);
  quat_to_mat(w->ximat + 9 * b, iquat);
}

static num fixed_length(const pbModel *m, const NUM(pbPar) *p, const num *qpos, int t) {
  num length = 0;
  for (int i = m->tendon_adr[t]; i < m->tendon_adr[t] + m->tendon_num[t]; i++) {
    length += p->wrap_prm[i] * qpos[m->jnt_qposadr[m->wrap_objid[i]]];
  }
  return length;
}

bool NUM(pbDerive_Wraps)(const pbModel *m, const NUM(pbPar) *p, const derive *w, const pbPiece *piece, NUM(pbWrapPath) *path) {
  if (piece->geom < 0) return false;

  int g = piece->geom, b = m->geom_bodyid[g];
  num pos[3], quat[4], mat[9];

  // The geom's pose in the world.
  m3_mulv(pos, w->xmat + 9 * b, p->geom_pos + 3 * g);
  v3_addto(pos, w->xpos + 3 * b);
  quat_copy(quat, p->geom_quat + 4 * g);
  quat_normalize(quat);
  quat_mul(quat, w->xquat + 4 * b, quat);
  quat_to_mat(mat, quat);

  // And its side site, which has one already.
  NUM(pbObstacle) o = {.type = piece->type, .pos = pos, .mat = mat, .radius = p->geom_size[3 * g]};
  if (piece->side >= 0) o.side = w->site_xpos + 3 * piece->side;
  return NUM(pbWrap_Find)(&o, w->site_xpos + 3 * piece->site[0], w->site_xpos + 3 * piece->site[1], path);
}

// Length of the pieces between neighboring sites, each divided by the divisor of the branch's pulley.
static num spatial_length(const pbModel *m, const NUM(pbPar) *p, const derive *w, int t) {
  num length = 0;
  pbPiece piece = pb_pathOf(m, t);
  while (pb_nextPiece(m, t, &piece)) {
    num d[3], divisor = piece.pulley < 0 ? 1 : num_max(p->wrap_prm[piece.pulley], MIN_VALUE);
    NUM(pbWrapPath) path;

    // Around a geom, or straight.
    v3_sub(d, w->site_xpos + 3 * piece.site[1], w->site_xpos + 3 * piece.site[0]);
    length += (NUM(pbDerive_Wraps)(m, p, w, &piece, &path) ? path.length : v3_norm(d)) / divisor;
  }
  return length;
}

void NUM(pbDerive_Poses)(const pbModel *m, const num *theta, const num *qpos, derive *w) {
  NUM(pbPar) p;
  par_view(&p, m, theta);

  memset(w->xpos, 0, 3 * sizeof(num));
  memset(w->xipos, 0, 3 * sizeof(num));
  quat_identity(w->xquat);
  m3_identity(w->xmat);
  m3_identity(w->ximat);

  for (int b = 1; b < m->nbody; b++) body_pose(m, &p, qpos, b, w);

  // Sites go with their bodies.
  for (int s = 0; s < m->nsite; s++) {
    num offset[3];
    m3_mulv(offset, w->xmat + 9 * m->site_bodyid[s], p.site_pos + 3 * s);
    v3_add(w->site_xpos + 3 * s, w->xpos + 3 * m->site_bodyid[s], offset);
  }

  // All stations of a tendon are of one kind.
  for (int t = 0; t < m->ntendon; t++) {
    w->ten_length[t] = pb_isSpatial(m, t) ? spatial_length(m, &p, w, t) : fixed_length(m, &p, qpos, t);
  }
}
