// What follows from the reference configuration once all fields stand: derived constants, actuators, springs, statistics.
#include <math.h>
#include <string.h>

#include "model/joint.h"
#include "base/context.h"
#include "math/vec.h"
#include "compile/compile.h"
#include "compile/setconst.h"

#define MIN_VALUE 1e-15

// ---- actuators ----------------------------------------------------------------------------------------------------
static int add_dof(pbDerive_r *w, int dof, double value, int n) {
  w->mark[dof] = true;
  w->row[dof] = value;
  w->touched[n] = dof;
  return n + 1;
}

// Length and moment of an actuator on a joint.
static int joint_moment(const pbModel *m, int a, pbDerive_r *w, double *length) {
  int j = m->actuator_trnid[2 * a], dof = m->jnt_dofadr[j], n = 0;
  const double *gear = m->actuator_gear + 6 * a, *q = m->qpos0 + m->jnt_qposadr[j];
  bool in_parent = m->actuator_trntype[a] == pb_trnJointInParent;
  double back[4], turned[3], vector[3];
  if (pbJoint_IsScalar(m->jnt_type[j])) {
    *length = q[0] * gear[0];
    return add_dof(w, dof, gear[0], 0);
  }
  bool ball = m->jnt_type[j] == pb_jntBall;
  quat_conj(back, ball ? q : q + 3);
  if (in_parent) {
    quat_rotate(turned, back, ball ? gear : gear + 3);
  } else {
    memcpy(turned, ball ? gear : gear + 3, sizeof turned);
  }
  if (ball) {
    quat_log(vector, q);
    *length = v3_dot(vector, turned);
  }
  for (int k = 0; k < 3 && !ball; k++) n = add_dof(w, dof++, gear[k], n);
  for (int k = 0; k < 3; k++) n = add_dof(w, dof++, turned[k], n);
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

// Dofs that move both sites do not change the one seen from the other.
static void clear_common(const pbModel *m, int s1, int s2, pbDerive_r *w) {
  int i = last_dof_of_weld(m, m->site_bodyid[s1]), j = last_dof_of_weld(m, m->site_bodyid[s2]);
  while (i >= 0 && j >= 0 && i != j) {
    if (i < j) {
      j = m->dof_parentid[j];
    } else {
      i = m->dof_parentid[i];
    }
  }
  for (; i == j && i >= 0; i = j = m->dof_parentid[i]) w->row[i] = 0;
}

static int site_moment(const pbModel *m, int a, pbDerive_r *w, double *length) {
  int s = m->actuator_trnid[2 * a], r = m->actuator_trnid[2 * a + 1], n = 0;
  const double *gear = m->actuator_gear + 6 * a;
  double mat[9], quat[4], force[3], torque[3], seen[3];
  site_pose(m, w, s, mat, quat);
  if (r < 0) {
    m3_mulv(force, mat, gear);
    m3_mulv(torque, mat, gear + 3);
    return pbDerive_AddPoint_r(m, w, m->site_bodyid[s], w->site_xpos + 3 * s, force, torque, 1, 0);
  }
  double frame[9], reference[4];
  site_pose(m, w, r, frame, reference);
  m3_mulv(force, frame, gear);
  m3_mulv(torque, frame, gear + 3);
  v3_sub(seen, w->site_xpos + 3 * s, w->site_xpos + 3 * r);
  *length = v3_dot(seen, force);
  if (gear[3] || gear[4] || gear[5]) {
    quat_conj(reference, reference);
    quat_mul(quat, reference, quat);
    quat_log(seen, quat);
    *length += v3_dot(seen, gear + 3);
  }
  n = pbDerive_AddPoint_r(m, w, m->site_bodyid[s], w->site_xpos + 3 * s, force, torque, 1, n);
  n = pbDerive_AddPoint_r(m, w, m->site_bodyid[r], w->site_xpos + 3 * r, force, torque, -1, n);
  clear_common(m, s, r, w);
  return n;
}

static int moment(const pbModel *m, int a, pbDerive_r *w, double *length) {
  *length = 0;
  if (m->actuator_trntype[a] == pb_trnSite) return site_moment(m, a, w, length);
  if (m->actuator_trntype[a] != pb_trnTendon) return joint_moment(m, a, w, length);
  int t = m->actuator_trnid[2 * a];
  *length = w->ten_length[t] * m->actuator_gear[6 * a];
  int n = pbDerive_TendonRow_r(m, m->theta0, w, t);
  for (int i = 0; i < n; i++) w->row[w->touched[i]] *= m->actuator_gear[6 * a];
  return n;
}

// |M^-1 row|, and row' M^-1 row
static double acceleration(pbDerive_r *w, int n, double *mobility) {
  double sum = 0;
  *mobility = 0;
  for (int c = 0; c < w->plan.ncomp; c++) {
    bool any = false;
    memset(w->jac, 0, (size_t)w->plan.size[c] * sizeof *w->jac);
    for (int i = 0; i < n; i++) {
      int dof = w->touched[i];
      if (w->plan.comp[dof] != c) continue;
      any = true;
      w->jac[w->plan.local[dof]] = w->row[dof];
    }
    if (!any) continue;
    pbDerive_Solve_r(w, c, w->jac, false);
    for (int i = 0; i < w->plan.size[c]; i++) sum += w->jac[i] * w->jac[i];
    for (int i = 0; i < n; i++) {
      int dof = w->touched[i];
      if (w->plan.comp[dof] == c) *mobility += w->jac[w->plan.local[dof]] * w->row[dof];
    }
  }
  return sqrt(sum);
}

// A positive biasprm[2] of a servo is a damping ratio; the inertia it feels, 1 / (row' M^-1 row), makes a coefficient of it.
static void resolve_damping_ratio(pbModel *m, int a, double mobility) {
  const double *gain = m->actuator_gainprm + 10 * a;
  double *bias = m->actuator_biasprm + 10 * a;
  if (gain[0] != -bias[1] || bias[2] <= 0) return;
  double mass = mobility > MIN_VALUE ? 1 / mobility : 0;
  bias[2] = -(bias[2] * 2 * sqrt(gain[0] * mass));
}

static void finish_actuators(pbModel *m, pbDerive_r *w) {
  for (int a = 0; a < m->nu; a++) {
    int n = moment(m, a, w, &m->actuator_length0[a]);
    double mobility;
    m->actuator_acc0[a] = acceleration(w, n, &mobility);
    resolve_damping_ratio(m, a, mobility);
    pbDerive_ClearRow_r(w, n);
  }
}

// ---- springs ------------------------------------------------------------------------------------------------------
// springdamper: the time constant and damping ratio of a joint with the mean inertia of its dofs.
static void finish_springdampers(pbCompiler *c) {
  static const int dofs[4] = {6, 3, 1, 1};
  pbModel *m = c->m;
  for (int i = 0; i < c->spec->njoint; i++) {
    const double *set = c->spec->joints[i].springdamper;
    int id = c->joints[i].id, adr = m->jnt_dofadr[id], n = dofs[m->jnt_type[id] & 3];
    if (!(set[0] > 0 && set[1] > 0)) continue;
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
  for (int t = 0; t < m->ntendon; t++)
    needed = needed || (m->tendon_lengthspring[2 * t] == -1 && m->tendon_lengthspring[2 * t + 1] == -1);
  if (!needed) return;
  pbDerive_Poses_r(m, m->theta0, m->qpos_spring, w);
  for (int t = 0; t < m->ntendon; t++) {
    double *range = m->tendon_lengthspring + 2 * t;
    if (range[0] == -1 && range[1] == -1) range[0] = range[1] = w->ten_length[t];
  }
}

// ---- statistics ---------------------------------------------------------------------------------------------------
typedef struct pbBox {
  double low[3], high[3];
} pbBox;

static void enclose(pbBox *box, const double x[3], double radius) {
  for (int k = 0; k < 3; k++) {
    box->low[k] = fmin(box->low[k], x[k] - radius);
    box->high[k] = fmax(box->high[k], x[k] + radius);
  }
}

static bool near(const double *a, const double *b, int n, double sign) {
  for (int i = 0; i < n; i++) {
    if (!(fabs(a[i] - sign * b[i]) < 1e-6)) return false;
  }
  return true;
}

// Where MuJoCo sees a geom: frames closer than 1e-6 to the inertial frame count as the same.
static void geom_position(const pbModel *m, const pbDerive_r *w, int g, double x[3]) {
  int b = m->geom_bodyid[g];
  const double *quat = m->geom_quat + 4 * g, *iquat = m->body_iquat + 4 * b;
  if (near(m->geom_pos + 3 * g, m->body_ipos + 3 * b, 3, 1) && (near(quat, iquat, 4, 1) || near(quat, iquat, 4, -1))) {
    v3_copy(x, w->xipos + 3 * b);
    return;
  }
  m3_mulv(x, w->xmat + 9 * b, m->geom_pos + 3 * g);
  v3_addto(x, w->xpos + 3 * b);
}

static double seen_radius(const pbModel *m, int g) {
  if (m->geom_rbound[g] > 0) return m->geom_rbound[g];
  if (m->geom_type[g] != pb_geomPlane) return 0;
  double largest = fmax(m->geom_size[3 * g], m->geom_size[3 * g + 1]);
  return m->geom_size[3 * g] || m->geom_size[3 * g + 1] ? 0.1 * largest : 0.01;
}

static void find_extent(pbModel *m, const pbDerive_r *w) {
  pbBox box = {{1e10, 1e10, 1e10}, {-1e10, -1e10, -1e10}};
  double x[3];
  for (int b = 1; b < m->nbody; b++) {
    enclose(&box, w->xpos + 3 * b, 0);
    enclose(&box, w->xipos + 3 * b, 0);
  }
  for (int j = 0; j < m->njnt; j++) enclose(&box, w->xanchor + 3 * j, 0);
  for (int s = 0; s < m->nsite; s++) enclose(&box, w->site_xpos + 3 * s, 0);
  for (int g = 0; g < m->ngeom; g++) {
    geom_position(m, w, g, x);
    enclose(&box, x, seen_radius(m, g));
  }
  for (int k = 0; k < 3; k++) m->stat_center[k] = 0.5 * (box.low[k] + box.high[k]);
  if (!(box.high[0] > box.low[0])) return;
  double extent = 1e-5;
  for (int k = 0; k < 3; k++) extent = fmax(extent, box.high[k] - box.low[k]);
  m->stat_extent[0] = extent;
}

static double distance(const double a[3], const double b[3]) {
  double d[3];
  v3_sub(d, a, b);
  return v3_norm(d);
}

// A length for each body: how far its joints, its children's joints and its shapes reach from its centre of mass.
static void body_lengths(const pbModel *m, const pbDerive_r *w, double *length) {
  for (int j = 0; j < m->njnt; j++) {
    int b = m->jnt_bodyid[j], parent = m->body_parentid[b];
    length[b] = fmax(length[b], distance(w->xipos + 3 * b, w->xanchor + 3 * j));
    length[parent] = fmax(length[parent], distance(w->xipos + 3 * parent, w->xanchor + 3 * j));
  }
  length[0] = 0;
  for (int g = 0; g < m->ngeom; g++) {
    int b = m->geom_bodyid[g];
    double x[3];
    geom_position(m, w, g, x);
    if (b > 0 && m->geom_rbound[g] > 0) length[b] = fmax(length[b], m->geom_rbound[g] + distance(w->xipos + 3 * b, x));
  }
  for (int b = 1; b < m->nbody; b++) length[b] = fmax(length[b], 1e-5);
}

static void dof_lengths(pbModel *m, const double *length) {
  for (int i = 0; i < m->nv; i++) {
    int j = m->dof_jntid[i], type = m->jnt_type[j];
    bool turns = type == pb_jntBall || type == pb_jntHinge || (type == pb_jntFree && i - m->jnt_dofadr[j] >= 3);
    m->dof_length[i] = turns ? length[m->dof_bodyid[i]] : 1;
  }
}

static void find_means(pbModel *m, const pbDerive_r *w, const double *length) {
  if (m->nbody > 1) {
    m->stat_meansize[0] = m->stat_meanmass[0] = 0;
    for (int b = 1; b < m->nbody; b++) {
      m->stat_meansize[0] += length[b] / (m->nbody - 1);
      m->stat_meanmass[0] += m->body_mass[b];
    }
    m->stat_meanmass[0] /= m->nbody - 1;
  }
  m->stat_extent[0] = fmax(m->stat_extent[0], 2 * m->stat_meansize[0]);
  if (!m->nv) return;
  m->stat_meaninertia[0] = 0;
  for (int i = 0; i < m->nv; i++) m->stat_meaninertia[0] += w->diagonal[i];
  m->stat_meaninertia[0] /= m->nv;
}

static pbStatus finish_statistics(pbCompiler *c, const pbDerive_r *w) {
  pbModel *m = c->m;
  const pbStatisticSettings *set = &c->spec->statistic;
  double *length = pbCompile_Take(c, (size_t)m->nbody, sizeof *length);
  if (!length) return pb_no_memory;
  m->stat_meaninertia[0] = 1;
  m->stat_meanmass[0] = 1;
  m->stat_meansize[0] = 0.2;
  m->stat_extent[0] = 2;
  find_extent(m, w);
  body_lengths(m, w, length);
  dof_lengths(m, length);
  find_means(m, w, length);
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
  if (bad >= 0) pbContext_Warn(c->ctx, PB_SINGULAR_TEXT, pbModel_Name(m, pb_objDof, bad));
  if (m->nv) memcpy(m->dof_M0, w.M0, (size_t)m->nv * sizeof *w.M0);
  finish_actuators(m, &w);
  finish_springdampers(c);
  pbStatus status = finish_statistics(c, &w);
  finish_tendon_springs(m, &w);
  pbDerive_Destroy(c->ctx, &w, memory);
  return status;
}
