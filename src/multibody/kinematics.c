// Poses of bodies, joints, geoms and sites; motion axes; inertias about the reference points.
// Tests: tests/conformance/test_step.c, tests/oracle/test_stages.py, tests/oracle/test_derivatives.py.
#include "base/assert.h"
#include "eval/mechanism.h"
#include "eval/stages.h"
#include "math/vec.h"
#include "model/joint.h"
#include "multibody/spatial.h"

// Where a point of a body is in the world.
static void point_place(const NUM(pbMechanism) *w, int body, const num pos[3], num xpos[3]) {
  num moved[3];
  PB_ASSERT(body >= 0 && body < w->m->nbody);
  v3_copy(xpos, w->xpos + 3 * body);
  if (v3_is_zero(pos)) return;

  m3_mulv(moved, w->xmat + 9 * body, pos);
  v3_addto(xpos, moved);
}

// Pose of the frame (pos, quat given in the body) in the world.
static void frame_pose(const NUM(pbMechanism) *w, int body, const num pos[3], const num quat[4], num xpos[3], num xmat[9]) {
  const num *R = w->xmat + 9 * body;
  num q[4];

  // Most frames are at their body's, or only moved: products with zero and one are left out.
  point_place(w, body, pos, xpos);
  if (quat_is_identity(quat)) {
    m3_copy(xmat, R);
    return;
  }

  quat_mul(q, w->xquat + 4 * body, quat);
  quat_to_mat(xmat, q);
}

// A geom; often its frame is the body's inertial frame, whose pose is known already.
static void geom_pose(NUM(pbMechanism) *w, int g) {
  int b = w->m->geom_bodyid[g];
  const num *pos = w->p.geom_pos + 3 * g, *quat = w->p.geom_quat + 4 * g;
  if (num_same(pos, w->p.body_ipos + 3 * b, 3) && num_same(quat, w->p.body_iquat + 4 * b, 4)) {
    v3_copy(w->geom_xpos + 3 * g, w->xipos + 3 * b);
    m3_copy(w->geom_xmat + 9 * g, w->ximat + 9 * b);
    return;
  }
  frame_pose(w, b, pos, quat, w->geom_xpos + 3 * g, w->geom_xmat + 9 * g);
}

// Apply one joint to the pose (x, q) of its body; leaves anchor and axis in the world.
static void apply_joint(NUM(pbMechanism) *w, int j, num x[3], num q[4]) {
  const pbModel *m = w->m;
  const num *qpos = w->qpos + m->jnt_qposadr[j];
  PB_ASSERT(m->jnt_qposadr[j] >= 0 && m->jnt_qposadr[j] < m->nq);
  num *anchor = w->xanchor + 3 * j, *axis = w->xaxis + 3 * j, *r = w->jnt_rotation + 4 * j, t[3];

  // A free joint is the pose itself.
  if (m->jnt_type[j] == pb_jntFree) {
    v3_copy(x, qpos);
    quat_copy(q, qpos + 3);
    quat_normalize(q);
    v3_copy(anchor, x);
    v3_copy(axis, w->p.jnt_axis + 3 * j);
    return;
  }

  // Anchor and axis before the joint. An anchor at the origin stays there.
  bool central = v3_is_zero(w->p.jnt_pos + 3 * j);
  v3_copy(anchor, x);
  if (!central) {
    quat_rotate(t, q, w->p.jnt_pos + 3 * j);
    v3_addto(anchor, t);
  }
  quat_rotate(axis, q, w->p.jnt_axis + 3 * j);

  switch (m->jnt_type[j]) {
    case pb_jntSlide: v3_addscl(x, axis, qpos[0] - w->p.qpos0[m->jnt_qposadr[j]]); return;
    case pb_jntHinge: quat_axisangle(r, w->p.jnt_axis + 3 * j, qpos[0] - w->p.qpos0[m->jnt_qposadr[j]]); break;
    default: quat_copy(r, qpos); quat_normalize(r);
  }

  // Rotate about the anchor: the anchor stays, the origin moves.
  quat_mul(q, q, r);
  if (!central) {
    quat_rotate(t, q, w->p.jnt_pos + 3 * j);
    v3_sub(x, anchor, t);
  }
}

// Pose of a body: its frame in the parent, then its joints in order.
static void body_pose(NUM(pbMechanism) *w, int b) {
  const pbModel *m = w->m;
  int parent = m->body_parentid[b], mocap = m->body_mocapid[b];
  num *x = w->xpos + 3 * b, *q = w->xquat + 4 * b, t[3];
  bool free = m->body_jntnum[b] == 1 && m->jnt_type[m->body_jntadr[b]] == pb_jntFree;
  PB_ASSERT(parent < b);

  if (mocap >= 0) {
    v3_copy(x, w->mocap_pos + 3 * mocap);
    quat_copy(q, w->mocap_quat + 4 * mocap);
  } else if (!free) {
    m3_mulv(t, w->xmat + 9 * parent, w->p.body_pos + 3 * b);
    v3_add(x, w->xpos + 3 * parent, t);
    quat_copy(q, w->xquat + 4 * parent);
    if (!quat_is_identity(w->p.body_quat + 4 * b)) quat_mul(q, q, w->p.body_quat + 4 * b);
  }

  for (int k = 0; k < m->body_jntnum[b]; k++) apply_joint(w, m->body_jntadr[b] + k, x, q);
  quat_normalize(q);
  PB_VALIDATE(!(fabs(re(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]) - 1) > 1e-9));
  quat_to_mat(w->xmat + 9 * b, q);
}

// Motion axes of a joint's dofs about ref.
static void joint_motion(NUM(pbMechanism) *w, int j) {
  const pbModel *m = w->m;
  int b = m->jnt_bodyid[j];
  num *S = w->S + 6 * m->jnt_dofadr[j], arm[3];
  PB_ASSERT(m->jnt_dofadr[j] + pbJoint_DofCount(m->jnt_type[j]) <= m->nv);
  body_offset(w, b, w->xanchor + 3 * j, arm);
  switch (m->jnt_type[j]) {
    case pb_jntSlide:
      v3_zero(S);
      v3_copy(S + 3, w->xaxis + 3 * j);
      return;
    case pb_jntHinge:
      v3_copy(S, w->xaxis + 3 * j);
      v3_cross(S + 3, arm, S);  // velocity of ref: axis x (ref - anchor)
      return;
    case pb_jntFree:
      memset(S, 0, 18 * sizeof(num));
      for (int k = 0; k < 3; k++) S[6 * k + 3 + k] = 1;
      S += 18;
      break;
    default: break;
  }

  // Rotations of ball and free joints: about the body's axes.
  for (int k = 0; k < 3; k++) {
    m3_col(S + 6 * k, w->xmat + 9 * b, k);
    v3_cross(S + 6 * k + 3, arm, S + 6 * k);
  }
}

// What a design's products of inertia (yz zx xy in the inertial frame), which are zero but for a derivative, add: R P R'.
static void add_products(const num R[9], const num products[3], num I[10]) {
  static const int row[6] = {0, 1, 2, 0, 0, 1}, col[6] = {0, 1, 2, 1, 2, 2};

  for (int e = 0; e < 6; e++) {
    const num *a = R + 3 * row[e], *b = R + 3 * col[e];
    for (int i = 0; i < 3; i++) {
      int j = (i + 1) % 3, k = (i + 2) % 3;
      I[4 + e] += products[i] * (a[j] * b[k] + a[k] * b[j]);
    }
  }
}

// Inertia of a body about ref, from mass, principal inertia and inertial frame.
static void body_inertia(NUM(pbMechanism) *w, int b) {
  num *I = w->inert + 10 * b, d[3], *R = w->ximat + 9 * b;
  const num *inertia = w->p.body_inertia + 3 * b;
  num mass = w->p.body_mass[b];

  body_offset(w, b, w->xipos + 3 * b, d);
  num dd = v3_dot(d, d);
  I[0] = mass;
  v3_scale(I + 1, d, mass);

  // R diag(I) R' + m (|d|^2 1 - d d'): Steiner's theorem.
  num RI[9];
  for (int k = 0; k < 9; k++) RI[k] = R[k] * inertia[k % 3];
  I[4] = v3_dot(RI, R) + mass * (dd - d[0] * d[0]);
  I[5] = v3_dot(RI + 3, R + 3) + mass * (dd - d[1] * d[1]);
  I[6] = v3_dot(RI + 6, R + 6) + mass * (dd - d[2] * d[2]);
  I[7] = v3_dot(RI, R + 3) - mass * d[0] * d[1];
  I[8] = v3_dot(RI, R + 6) - mass * d[0] * d[2];
  I[9] = v3_dot(RI + 3, R + 6) - mass * d[1] * d[2];
  if (w->m->ndesignbody) add_products(R, w->p.body_products + 3 * b, I);
}

static void site_pose(NUM(pbMechanism) *w, int s) {
  frame_pose(w, w->m->site_bodyid[s], w->p.site_pos + 3 * s, w->p.site_quat + 4 * s, w->site_xpos + 3 * s, w->site_xmat + 9 * s);
}

void NUM(pbStage_AllGeoms)(NUM(pbMechanism) *w) {
  if (w->all_geoms) return;
  for (int g = 0; g < w->m->ngeom; g++) geom_pose(w, g);
  w->all_geoms = true;
}

// Where deformables may be attached to any of them: all.
static void place_geoms(NUM(pbMechanism) *w) {
  const pbTopology *t = w->t;
  w->all_geoms = false;
  if (w->m->deform) NUM(pbStage_AllGeoms)(w);
  else
    for (int i = 0; i < t->ngeom_read; i++) geom_pose(w, t->geom_read[i]);
}

void NUM(pbStage_AllSites)(NUM(pbMechanism) *w) {
  if (w->all_sites) return;
  for (int s = 0; s < w->m->nsite; s++) site_pose(w, s);
  w->all_sites = true;
}

void NUM(pbStage_Sites)(NUM(pbMechanism) *w) {
  const pbTopology *t = w->t;
  w->all_sites = false;
  if (w->m->policy) {
    NUM(pbStage_AllSites)(w);
    return;
  }

  // Of a tendon the position alone.
  for (int i = 0; i < t->nsite_read; i++) {
    int s = t->site_read[i];
    if (t->site_turned[s]) site_pose(w, s);
    else point_place(w, w->m->site_bodyid[s], w->p.site_pos + 3 * s, w->site_xpos + 3 * s);
  }
}

void NUM(pbStage_Kinematics)(NUM(pbMechanism) *w) {
  const pbModel *m = w->m;

  // The world's frame, then bodies, parents first.
  v3_zero(w->xpos);
  quat_identity(w->xquat);
  m3_identity(w->xmat);
  for (int b = 1; b < m->nbody; b++) body_pose(w, b);

  // The reference point of a tree is where its root is: a constant to derivatives, so the real part.
  for (int k = 0; k < w->t->ntree; k++) {
    for (int c = 0; c < 3; c++) w->ref[3 * k + c] = re(w->xpos[3 * w->t->tree_root[k] + c]);
  }

  // Frames fixed to bodies, inertias, and axes of joints.
  for (int b = 0; b < m->nbody; b++)
    frame_pose(w, b, w->p.body_ipos + 3 * b, w->p.body_iquat + 4 * b, w->xipos + 3 * b, w->ximat + 9 * b);
  for (int b = 1; b < m->nbody; b++) {
    if (w->t->body_tree[b] >= 0) body_inertia(w, b);
  }
  place_geoms(w);
  NUM(pbStage_Sites)(w);
  for (int j = 0; j < m->njnt; j++) joint_motion(w, j);
}
