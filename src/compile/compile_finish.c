// What follows from the reference configuration once all fields stand: derived constants, actuators, springs, statistics.
// Tests: tests/unit/test_compile.c, tests/oracle/test_compile.py.
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
// row' M^-1 row: how much a unit force of the actuator accelerates its own length.
static double mobility_of(pbDerive_r *w, int n) {
  double sum = 0;
  for (int c = 0; c < w->plan.ncomp; c++) {
    if (!pbDerive_SolveRow_r(w, c, n)) continue;
    for (int i = 0; i < n; i++) {
      int dof = w->touched[i];
      if (w->plan.comp[dof] == c) sum += w->jac[w->plan.local[dof]] * w->row[dof];
    }
  }
  return sum;
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
    int n = pbDerive_ActuatorRow_r(m, m->theta0, w, a, &m->actuator_length0[a]);
    PB_VALIDATE(n <= m->nv && pb_allWithin(w->touched, n, 0, m->nv));
    resolve_damping_ratio(m, a, mobility_of(w, n));
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

  int bad = pbDerive_Run_r(m, m->theta0, &w), huge = pbDerive_Overflow(m, &w);
  if (huge >= 0) {
    pbDerive_Destroy(c->ctx, &w, memory);
    return pbContext_Fail(c->ctx, pb_bad_input, PB_OVERFLOW_TEXT, huge, pbModel_Name(m, pb_objDof, huge));
  }
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
