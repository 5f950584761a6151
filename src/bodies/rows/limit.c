// Limits of joints and tendons.
// Tests: tests/unit/test_kinks.c, tests/oracle/test_stages.py, tests/conformance/test_step.c.
#include "bodies/row.h"
#include "contact/row_build.h"
#include "math/vec.h"
#include "model/joint.h"

// Ball: pos = range - angle of the rotation vector, J = -axis.
static void ball_limit(NUM(pbConstraints) *w, int joint) {
  const pbModel *m = w->m;
  num q[4], axis[3];

  quat_copy(q, w->qpos + m->jnt_qposadr[joint]);
  quat_normalize(q);
  quat_log(axis, q);
  num angle = v3_normalize(axis);
  num range = num_max(w->p.jnt_range[2 * joint], w->p.jnt_range[2 * joint + 1]);
  if (!(re(range - angle) < re(w->p.jnt_margin[joint]))) return;

  // The row acts on all three dofs of the ball, against the axis of its rotation.
  NUM(pbRow) *r = NUM(pbRow_New)(w, pb_rowLimit, joint, 1);
  for (int k = 0; k < 3; k++) w->row_dofs[r->dofs + k] = m->jnt_dofadr[joint] + k;
  num *J = NUM(pbRow_Claim)(w, r, 3);
  v3_neg(J, axis);
  r->pos[0] = range - angle;
  r->margin = w->p.jnt_margin[joint];
  r->diag[0] = w->p.dof_invweight0[m->jnt_dofadr[joint]];
  NUM(pbRow_Finish)(w, r, w->p.jnt_solref + 2 * joint, w->p.jnt_solimp + 5 * joint);
}

// Both ends of a slide's or hinge's range: pos = side (range - q), J = -side.
static void joint_limit(NUM(pbConstraints) *w, int joint) {
  const pbModel *m = w->m;
  for (int side = -1; side <= 1; side += 2) {
    num dist = side * (w->p.jnt_range[2 * joint + (side > 0)] - w->qpos[m->jnt_qposadr[joint]]);
    if (!(re(dist) < re(w->p.jnt_margin[joint]))) continue;

    // Pushing back into the range.
    NUM(pbRow) *r = NUM(pbRow_OfDof)(w, pb_rowLimit, joint, m->jnt_dofadr[joint], -side);
    r->side = side;
    r->pos[0] = dist;
    r->margin = w->p.jnt_margin[joint];
    NUM(pbRow_Finish)(w, r, w->p.jnt_solref + 2 * joint, w->p.jnt_solimp + 5 * joint);
  }
}

static void tendon_limit(NUM(pbConstraints) *w, int tendon) {
  for (int side = -1; side <= 1; side += 2) {
    num dist = side * (w->p.tendon_range[2 * tendon + (side > 0)] - w->ten_length[tendon]);
    if (!(re(dist) < re(w->p.tendon_margin[tendon]))) continue;

    NUM(pbRow) *r = NUM(pbRow_OfTendon)(w, pb_rowLimit, w->m->njnt + tendon, tendon, -side);
    r->side = side;
    r->pos[0] = dist;
    r->margin = w->p.tendon_margin[tendon];
    NUM(pbRow_Finish)(w, r, w->p.tendon_solref_lim + 2 * tendon, w->p.tendon_solimp_lim + 5 * tendon);
  }
}

static void make(NUM(pbConstraints) *w) {
  const pbModel *m = w->m;
  for (int j = 0; j < m->njnt; j++) {
    if (!m->jnt_limited[j]) continue;
    if (m->jnt_type[j] == pb_jntBall) ball_limit(w, j);
    if (pbJoint_IsScalar(m->jnt_type[j])) joint_limit(w, j);
  }

  // Then tendons, as MuJoCo orders them.
  for (int k = 0; k < m->ntendon; k++) {
    if (m->tendon_limited[k]) tendon_limit(w, k);
  }
}
PB_ROW(limit, .make = make);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/row_adjoint.h"

// Ball: pos = range - angle, J = -axis, angle and axis of the rotation vector d; cotangents of pos and of the entries of J.
static void pull_ball_limit(LANE(pbAdjoint) *a, const NUM(pbRow) *r, lane pos, const lane J[3]) {
  const NUM(pbConstraints) *w = a->constraints;
  const pbModel *m = w->m;
  int dof = m->jnt_dofadr[r->joint];
  num q[4], d[3], axis[3];

  quat_copy(q, w->qpos + m->jnt_qposadr[r->joint]);
  quat_normalize(q);
  quat_log(d, q);
  v3_copy(axis, d);
  num angle = v3_normalize(axis);

  // axis = d / angle, angle = |d|
  lane g[3], t[3];
  for (int k = 0; k < 3; k++) g[k] = -J[k] / angle;
  lane radial = PB_DOT3(axis, g);
  for (int k = 0; k < 3; k++) g[k] += -radial * axis[k] - pos * axis[k];
  pb_log_pull(d, g, t);

  // By the rotation vector, to the tangent of the quaternion.
  for (int k = 0; k < 3; k++) a->q[dof + k] += t[k];

  // The larger end counts, half each at a tie.
  const num *range = w->p.jnt_range + 2 * r->joint;
  num upper = re(range[0]) < re(range[1]) ? 1 : 0;
  if (re(range[0]) == re(range[1])) upper = 0.5;
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

static void distance(LANE(pbAdjoint) *a, const NUM(pbRow) *r, lane pos) {
  const lane none[3] = {0};
  if (r->side) pull_limit_distance(a, r, pos);
  else pull_ball_limit(a, r, pos, none);
}

static void pull(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar) {
  if (r->tendon < 0) pull_joint_velocity(a, r, bar);

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

#if PB_LANES == 1
// diagApprox and margin.
static void parameters(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar) {
  if (r->tendon >= 0) {
    PB_THETA(a, tendon_invweight0, r->tendon, bar->diag[0]);
    PB_THETA(a, tendon_margin, r->tendon, bar->margin);
  } else {
    PB_THETA(a, dof_invweight0, a->w->m->jnt_dofadr[r->joint], bar->diag[0]);
    PB_THETA(a, jnt_margin, r->joint, bar->margin);
  }
}
#endif
PB_ROW_PULL(limit, .pull = pull, .distance = distance, PB_ROW_PARAMETERS(parameters));
#endif
