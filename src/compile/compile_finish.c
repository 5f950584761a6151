// What follows from the reference configuration once all fields stand: derived constants, actuators, springs, statistics.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "compile/compile.h"
#include "compile/setconst.h"
#include "math/vec.h"
#include "model/joint.h"

#define MIN_VALUE 1e-15

// ---- actuators ----------------------------------------------------------------------------------------------------
// moment: d(length)/d(velocities) of an actuator at qpos0, a row over the touched dofs; the functions return their number.
static int add_dof(pbDerive_r *w, int dof, double value, int n) {
  w->mark[dof] = true;
  w->row[dof] = value;
  w->touched[n] = dof;
  return n + 1;
}

// Length and moment of an actuator on a joint. Of ball and free joints, gear is a torque (and force) in the frame of the child,
// or in the parent's where the transmission is jointinparent.
static int joint_moment(const pbModel *m, int a, pbDerive_r *w, double *length) {
  int j = m->actuator_trnid[2 * a];
  int dof = m->jnt_dofadr[j];
  const double *gear = m->actuator_gear + 6 * a;
  const double *q = m->qpos0 + m->jnt_qposadr[j];
  bool in_parent = m->actuator_trntype[a] == pb_trnJointInParent;

  // Scalar joints: length = gear q.
  if (pbJoint_IsScalar(m->jnt_type[j])) {
    *length = q[0] * gear[0];
    return add_dof(w, dof, gear[0], 0);
  }

  // The torque in the child's frame, in which velocities of rotations are.
  bool ball = m->jnt_type[j] == pb_jntBall;
  const double *torque = ball ? gear : gear + 3;
  double in_child[3];
  if (in_parent) {
    double back[4];
    quat_conj(back, ball ? q : q + 3);
    quat_rotate(in_child, back, torque);
  } else {
    memcpy(in_child, torque, sizeof in_child);
  }

  // A ball's length is its rotation vector along the gear; a free joint has none.
  if (ball) {
    double vector[3];
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

static void site_pose(const pbModel *m, const pbDerive_r *w, int s, double mat[9], double quat[4]) {
  quat_mul(quat, w->xquat + 4 * m->site_bodyid[s], m->site_quat + 4 * s);
  quat_to_mat(mat, quat);
}

static int last_dof_of_weld(const pbModel *m, int body) {
  int b = m->body_weldid[body];
  return m->body_dofnum[b] ? m->body_dofadr[b] + m->body_dofnum[b] - 1 : -1;
}

// Dofs that move both sites do not change the pose of one in the frame of the other.
static void clear_common(const pbModel *m, int s1, int s2, pbDerive_r *w) {
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
static int site_moment(const pbModel *m, int a, pbDerive_r *w, double *length) {
  int s = m->actuator_trnid[2 * a];
  int r = m->actuator_trnid[2 * a + 1];
  const double *gear = m->actuator_gear + 6 * a;
  double mat[9], quat[4], force[3], torque[3];
  site_pose(m, w, s, mat, quat);

  // Without a reference there is a force, and no length.
  if (r < 0) {
    m3_mulv(force, mat, gear);
    m3_mulv(torque, mat, gear + 3);
    return pbDerive_AddPoint_r(m, w, m->site_bodyid[s], w->site_xpos + 3 * s, force, torque, 1, 0);
  }

  double frame[9], reference[4];
  site_pose(m, w, r, frame, reference);
  m3_mulv(force, frame, gear);
  m3_mulv(torque, frame, gear + 3);

  // Relative position, and relative rotation vector where the gear has a torque.
  double relative[3];
  v3_sub(relative, w->site_xpos + 3 * s, w->site_xpos + 3 * r);
  *length = v3_dot(relative, force);
  if (gear[3] || gear[4] || gear[5]) {
    quat_conj(reference, reference);
    quat_mul(quat, reference, quat);
    quat_log(relative, quat);
    *length += v3_dot(relative, gear + 3);
  }

  // The wrench acts on one site and its opposite on the other.
  int n = pbDerive_AddPoint_r(m, w, m->site_bodyid[s], w->site_xpos + 3 * s, force, torque, 1, 0);
  n = pbDerive_AddPoint_r(m, w, m->site_bodyid[r], w->site_xpos + 3 * r, force, torque, -1, n);
  clear_common(m, s, r, w);
  return n;
}

static int actuator_moment(const pbModel *m, int a, pbDerive_r *w, double *length) {
  *length = 0;
  if (m->actuator_trntype[a] == pb_trnSite) return site_moment(m, a, w, length);
  if (m->actuator_trntype[a] != pb_trnTendon) return joint_moment(m, a, w, length);

  // A tendon scaled by the gear.
  int t = m->actuator_trnid[2 * a];
  *length = w->ten_length[t] * m->actuator_gear[6 * a];
  int n = pbDerive_TendonRow_r(m, m->theta0, w, t);
  for (int i = 0; i < n; i++) w->row[w->touched[i]] *= m->actuator_gear[6 * a];
  return n;
}

// |M^-1 row|, the acceleration by a unit force of the actuator, and row' M^-1 row.
static double solve_acceleration(pbDerive_r *w, int n, double *mobility) {
  double sum = 0;
  *mobility = 0;

  for (int c = 0; c < w->plan.ncomp; c++) {
    bool any = false;
    memset(w->jac, 0, (size_t)w->plan.size[c] * sizeof *w->jac);

    // The part of the row in this block.
    for (int i = 0; i < n; i++) {
      int dof = w->touched[i];
      if (w->plan.comp[dof] != c) continue;
      any = true;
      w->jac[w->plan.local[dof]] = w->row[dof];
    }
    if (!any) continue;

    // x = M^-1 row adds |x|^2 and x . row.
    pbDerive_Solve_r(w, c, w->jac, false);
    for (int i = 0; i < w->plan.size[c]; i++) sum += w->jac[i] * w->jac[i];

    for (int i = 0; i < n; i++) {
      int dof = w->touched[i];
      if (w->plan.comp[dof] == c) *mobility += w->jac[w->plan.local[dof]] * w->row[dof];
    }
  }
  return sqrt(sum);
}

// A positive biasprm[2] of a servo is a damping ratio zeta; with the inertia that it feels, m = 1 / (row' M^-1 row), the
// coefficient is -2 zeta sqrt(k m).
static void resolve_damping_ratio(pbModel *m, int a, double mobility) {
  const double *gain = m->actuator_gainprm + 10 * a;
  double *bias = m->actuator_biasprm + 10 * a;
  if (gain[0] != -bias[1] || bias[2] <= 0) return;

  double mass = mobility > MIN_VALUE ? 1 / mobility : 0;
  bias[2] = -(bias[2] * 2 * sqrt(gain[0] * mass));
}

static void finish_actuators(pbModel *m, pbDerive_r *w) {
  for (int a = 0; a < m->nu; a++) {
    int n = actuator_moment(m, a, w, &m->actuator_length0[a]);
    PB_VALIDATE(n <= m->nv && pb_allWithin(w->touched, n, 0, m->nv));
    double mobility;
    m->actuator_acc0[a] = solve_acceleration(w, n, &mobility);

    resolve_damping_ratio(m, a, mobility);
    pbDerive_ClearRow_r(w, n);
  }
}

// ---- springs ------------------------------------------------------------------------------------------------------
// springdamper: time constant T and damping ratio zeta of a joint with the mean inertia I of its dofs make
//   stiffness = I / (T zeta)^2, damping = 2 I / T.
static void finish_springdampers(pbCompiler *c) {
  pbModel *m = c->m;
  for (int i = 0; i < c->spec->njoint; i++) {
    const double *set = c->spec->joints[i].springdamper;
    if (!(set[0] > 0 && set[1] > 0)) continue;
    int id = c->joints[i].id;
    PB_ASSERT(id >= 0 && id < m->njnt);  // joints are never fused or discarded
    int adr = m->jnt_dofadr[id];
    int n = pbJoint_DofCount(m->jnt_type[id]);

    // The mean of inverse weights is 1 / I.
    double sum = 0;
    for (int k = 0; k < n; k++) sum += m->dof_invweight0[adr + k];
    double inertia = n / fmax(MIN_VALUE, sum);

    m->jnt_stiffness[id] = inertia / fmax(MIN_VALUE, set[0] * set[0] * set[1] * set[1]);
    for (int k = 0; k < n; k++) m->dof_damping[adr + k] = 2 * inertia / fmax(MIN_VALUE, set[0]);
  }
}

// springlength -1 -1: the length with all springs of joints at rest. Moves the poses to qpos_spring, so it comes last.
static void finish_tendon_springs(pbModel *m, pbDerive_r *w) {
  bool needed = false;
  for (int t = 0; t < m->ntendon; t++) {
    needed = needed || (m->tendon_lengthspring[2 * t] == -1 && m->tendon_lengthspring[2 * t + 1] == -1);
  }
  if (!needed) return;

  // One more forward kinematics, with all joint springs at rest.
  pbDerive_Poses_r(m, m->theta0, m->qpos_spring, w);
  for (int t = 0; t < m->ntendon; t++) {
    double *range = m->tendon_lengthspring + 2 * t;
    if (range[0] == -1 && range[1] == -1) range[0] = range[1] = w->ten_length[t];
  }
}

// ---- statistics ---------------------------------------------------------------------------------------------------
// mjStatistic of MuJoCo: means and extent of the model, which viewers and scales go by.
typedef struct pbBox {
  double low[3], high[3];
} pbBox;

static void enclose_ball(pbBox *box, const double x[3], double radius) {
  for (int k = 0; k < 3; k++) {
    box->low[k] = fmin(box->low[k], x[k] - radius);
    box->high[k] = fmax(box->high[k], x[k] + radius);
  }
}

static bool are_near(const double *a, const double *b, int n, double sign) {
  for (int i = 0; i < n; i++) {
    if (!(fabs(a[i] - sign * b[i]) < 1e-6)) return false;
  }
  return true;
}

// Position of a geom as MuJoCo computes it: frames closer than 1e-6 to the inertial frame count as the same.
static void geom_position(const pbModel *m, const pbDerive_r *w, int g, double x[3]) {
  int b = m->geom_bodyid[g];
  const double *quat = m->geom_quat + 4 * g;
  const double *iquat = m->body_iquat + 4 * b;

  // The same frame: the position is then that of the inertial one, bit by bit.
  if (are_near(m->geom_pos + 3 * g, m->body_ipos + 3 * b, 3, 1) &&
      (are_near(quat, iquat, 4, 1) || are_near(quat, iquat, 4, -1))) {
    v3_copy(x, w->xipos + 3 * b);
    return;
  }

  m3_mulv(x, w->xmat + 9 * b, m->geom_pos + 3 * g);
  v3_addto(x, w->xpos + 3 * b);
}

// How far a geom reaches: planes, which are infinite, by a tenth of their stated size.
static double visible_radius(const pbModel *m, int g) {
  if (m->geom_rbound[g] > 0) return m->geom_rbound[g];
  if (m->geom_type[g] != pb_geomPlane) return 0;

  double largest = fmax(m->geom_size[3 * g], m->geom_size[3 * g + 1]);
  return m->geom_size[3 * g] || m->geom_size[3 * g + 1] ? 0.1 * largest : 0.01;
}

// Center and extent of a box around all that stands in the model.
static void find_extent(pbModel *m, const pbDerive_r *w) {
  pbBox box = {{1e10, 1e10, 1e10}, {-1e10, -1e10, -1e10}};
  double x[3];

  // Frames and centers of mass of bodies, anchors, sites, then geoms with their radius.
  for (int b = 1; b < m->nbody; b++) {
    enclose_ball(&box, w->xpos + 3 * b, 0);
    enclose_ball(&box, w->xipos + 3 * b, 0);
  }

  for (int j = 0; j < m->njnt; j++) enclose_ball(&box, w->xanchor + 3 * j, 0);
  for (int s = 0; s < m->nsite; s++) enclose_ball(&box, w->site_xpos + 3 * s, 0);

  for (int g = 0; g < m->ngeom; g++) {
    geom_position(m, w, g, x);
    enclose_ball(&box, x, visible_radius(m, g));
  }

  // An empty model keeps the default extent.
  for (int k = 0; k < 3; k++) m->stat_center[k] = 0.5 * (box.low[k] + box.high[k]);
  if (!(box.high[0] > box.low[0])) return;  // it is empty
  double extent = 1e-5;

  for (int k = 0; k < 3; k++) extent = fmax(extent, box.high[k] - box.low[k]);
  m->stat_extent[0] = extent;
}

static double distance_between(const double a[3], const double b[3]) {
  double d[3];
  v3_sub(d, a, b);
  return v3_norm(d);
}

// A length for each body: how far its joints, its children's joints and its geoms reach from its center of mass.
static void body_lengths(const pbModel *m, const pbDerive_r *w, double *length) {
  for (int j = 0; j < m->njnt; j++) {
    int b = m->jnt_bodyid[j], parent = m->body_parentid[b];
    length[b] = fmax(length[b], distance_between(w->xipos + 3 * b, w->xanchor + 3 * j));
    length[parent] = fmax(length[parent], distance_between(w->xipos + 3 * parent, w->xanchor + 3 * j));
  }

  // The world has no length.
  length[0] = 0;
  for (int g = 0; g < m->ngeom; g++) {
    int b = m->geom_bodyid[g];
    double x[3];

    geom_position(m, w, g, x);
    if (b > 0 && m->geom_rbound[g] > 0) length[b] = fmax(length[b], m->geom_rbound[g] + distance_between(w->xipos + 3 * b, x));
  }

  // It divides, so it is never zero.
  for (int b = 1; b < m->nbody; b++) length[b] = fmax(length[b], 1e-5);
}

// Velocities of rotations count by the length of their body, translations as they are.
static void dof_lengths(pbModel *m, const double *length) {
  for (int i = 0; i < m->nv; i++) {
    int j = m->dof_jntid[i];
    int type = m->jnt_type[j];
    bool rotates = pbJoint_IsAngle(type) || (pbJoint_HasRotation(type) && i - m->jnt_dofadr[j] >= pbJoint_PlainCount(type));
    m->dof_length[i] = rotates ? length[m->dof_bodyid[i]] : 1;
  }
}

static void find_means(pbModel *m, const pbDerive_r *w, const double *length) {
  if (m->nbody > 1) {
    // The world does not count.
    m->stat_meansize[0] = m->stat_meanmass[0] = 0;
    for (int b = 1; b < m->nbody; b++) {
      m->stat_meansize[0] += length[b] / (m->nbody - 1);
      m->stat_meanmass[0] += m->body_mass[b];
    }
    m->stat_meanmass[0] /= m->nbody - 1;
  }

  PB_ASSERT(m->stat_meansize[0] > 0);
  m->stat_extent[0] = fmax(m->stat_extent[0], 2 * m->stat_meansize[0]);
  if (!m->nv) return;

  // Mean diagonal of the mass matrix.
  m->stat_meaninertia[0] = 0;
  for (int i = 0; i < m->nv; i++) m->stat_meaninertia[0] += w->diagonal[i];
  m->stat_meaninertia[0] /= m->nv;
}

static pbStatus finish_statistics(pbCompiler *c, const pbDerive_r *w) {
  pbModel *m = c->m;
  const pbStatisticSettings *set = &c->spec->statistic;
  double *length = pbCompile_Take(c, (size_t)m->nbody, sizeof *length);
  if (!length) return pb_no_memory;

  // MuJoCo's values for a model without bodies.
  m->stat_meaninertia[0] = 1;
  m->stat_meanmass[0] = 1;
  m->stat_meansize[0] = 0.2;
  m->stat_extent[0] = 2;

  find_extent(m, w);
  body_lengths(m, w, length);
  dof_lengths(m, length);
  find_means(m, w, length);

  // What the file states takes precedence.
  if (!isnan(set->extent)) m->stat_extent[0] = set->extent;
  if (!isnan(set->meaninertia)) m->stat_meaninertia[0] = set->meaninertia;
  if (!isnan(set->meanmass)) m->stat_meanmass[0] = set->meanmass;
  if (!isnan(set->meansize)) m->stat_meansize[0] = set->meansize;
  if (!isnan(set->center[0])) memcpy(m->stat_center, set->center, sizeof set->center);
  return pb_ok;
}

pbStatus pbCompile_Constants(pbCompiler *c) {
  pbModel *m = c->m;
  pbDerive_r w;
  void *memory;
  PB_TRY(pbDerive_Create(c->ctx, m, &w, &memory));

  int bad = pbDerive_Run_r(m, m->theta0, &w);
  if (bad >= 0 && m->inertia_kept) {
    pbDerive_Destroy(c->ctx, &w, memory);
    return pbContext_Fail(c->ctx, pb_singular, PB_SINGULAR_TEXT, pbModel_Name(m, pb_objDof, bad));
  }
  if (bad >= 0) pbContext_Warn(c->ctx, PB_SINGULAR_TEXT, pbModel_Name(m, pb_objDof, bad));
  if (m->nv) memcpy(m->dof_M0, w.M0, (size_t)m->nv * sizeof *w.M0);

  // Actuators go by the factor of M at qpos0, springdampers by weights. Springs of tendons move the poses, so they come last.
  finish_actuators(m, &w);
  finish_springdampers(c);
  pbStatus status = finish_statistics(c, &w);
  finish_tendon_springs(m, &w);

  pbDerive_Destroy(c->ctx, &w, memory);
  return status;
}
