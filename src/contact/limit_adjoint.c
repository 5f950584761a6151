// Geometry of limits and friction loss: residual and Jacobian by coordinates, lengths and ranges (row.c).
// Tests: tests/unit/test_kinks.c, tests/oracle/test_stages.py.
#include "contact/row_adjoint.h"

#include "math/vec.h"
#include "multibody/spatial.h"

void LANE(pbRow_TendonEntries)(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar, int tendon, double scale) {
  // pbRow_EntryBar of every dof.
  a->ten_lam[tendon] += scale * bar->f[0];
  a->ten_acc[tendon] -= scale * bar->z[0];
  a->ten_vel[tendon] -= scale * r->b * bar->z[0];
}

// Ball: pos = range - angle, J = -axis, angle and axis of the rotation vector d; cotangents of pos and of the entries of J.
static void pull_ball_limit(LANE(pbAdjoint) *a, const NUM(pbRow) *r, lane pos, const lane J[3]) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int dof = m->jnt_dofadr[r->joint];
  double q[4], d[3], axis[3];

  quat_copy(q, w->qpos + m->jnt_qposadr[r->joint]);
  quat_normalize(q);
  quat_log(d, q);
  v3_copy(axis, d);
  double angle = v3_normalize(axis);

  // axis = d / angle, angle = |d|
  lane g[3], t[3];
  for (int k = 0; k < 3; k++) g[k] = -J[k] / angle;
  lane radial = PB_DOT3(axis, g);
  for (int k = 0; k < 3; k++) g[k] += -radial * axis[k] - pos * axis[k];
  pb_log_pull(d, g, t);

  // By the rotation vector, to the tangent of the quaternion.
  for (int k = 0; k < 3; k++) a->q[dof + k] += t[k];

  // The larger end counts, half each at a tie.
  const double *range = w->p.jnt_range + 2 * r->joint;
  double upper = range[0] < range[1] ? 1 : 0;
  if (range[0] == range[1]) upper = 0.5;
  PB_THETA(a, jnt_range, 2 * r->joint, pos * (1 - upper));
  PB_THETA(a, jnt_range, 2 * r->joint + 1, pos * upper);
}

// pos = side (range - x)
static void pull_limit_distance(LANE(pbAdjoint) *a, const NUM(pbRow) *r, lane pos) {
  if (r->tendon >= 0) {
    a->ten_len[r->tendon] -= r->side * pos;
    PB_THETA(a, tendon_range, 2 * r->tendon + (r->side > 0), r->side * pos);
  } else {
    a->q[a->w->m->jnt_dofadr[r->joint]] -= r->side * pos;
    PB_THETA(a, jnt_range, 2 * r->joint + (r->side > 0), r->side * pos);
  }
}

void LANE(pbLimit_PullDistance)(LANE(pbAdjoint) *a, const NUM(pbRow) *r, lane pos) {
  const lane none[3] = {0};
  if (r->side) pull_limit_distance(a, r, pos);
  else pull_ball_limit(a, r, pos, none);
}

// Limits: pos, and J = -side along the joint or tendon; friction loss: J alone, 1 along the dof or tendon.
void LANE(pbLimit_PullRow)(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar) {
  if (r->kind == pb_rowFriction) {
    if (r->tendon >= 0) LANE(pbRow_TendonEntries)(a, r, bar, r->tendon, 1);
    return;
  }

  // The angle of a ball has a Jacobian that moves with its axis; others have constant entries.
  if (!r->side) {
    lane J[3];
    for (int k = 0; k < 3; k++) J[k] = LANE(pbRow_EntryBar)(a, r, bar, a->w->m->jnt_dofadr[r->joint] + k);
    pull_ball_limit(a, r, bar->pos[0], J);
    return;
  }
  pull_limit_distance(a, r, bar->pos[0]);
  if (r->tendon >= 0) LANE(pbRow_TendonEntries)(a, r, bar, r->tendon, -r->side);
}
