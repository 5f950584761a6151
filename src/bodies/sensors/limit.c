// Limits of joints and tendons: distance less the margin, velocity, force. One that does not act has no row: zero.
// Tests: tests/conformance/test_lists.c, tests/conformance/test_step.c, tests/oracle/test_derivatives.py.
#include <pullback/sensors.h>

#include "bodies/sensor.h"
#include "eval/constraints.h"
#include "eval/row.h"

// First limit row of a joint (or njnt + tendon) that is there; NULL: it does not act.
static const NUM(pbRow) *row_of(const NUM(pbConstraints) *w, int id) {
  for (int k = 0; k < w->nrow; k++) {
    if (w->row[k].kind == pb_rowLimit && w->row[k].id == id) return w->row + k;
  }
  return NULL;
}

static bool of_joint(const pbModel *m, int i) { return m->sensor_objtype[i] == pb_refJoint; }

static void value(const NUM(pbConstraints) *w, int i, num *y) {
  const pbModel *m = w->m;
  const NUM(pbRow) *r = row_of(w, of_joint(m, i) ? m->sensor_objid[i] : m->njnt + m->sensor_objid[i]);
  if (!r) return;

  switch (m->sensor_type[i]) {
    case pb_sensJointlimitpos:
    case pb_sensTendonlimitpos: y[0] = r->pos[0] - r->margin; break;
    case pb_sensJointlimitvel:
    case pb_sensTendonlimitvel: y[0] = r->vel[0]; break;
    default: y[0] = r->f[0];
  }
}
PB_SENSOR_VALUE(limit, NULL, .value_constrained = value);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/sensor_row_adjoint.h"
#include "elementary/elementary.h"
#include "multibody/spatial.h"

// Axis v / |v| of a ball joint's rotation vector v, cotangent c, to the tangent: inverse right Jacobian, transposed.
static void ball_axis_adjoint(const LANE(pbAdjoint) *a, int j, const lane c[3], lane *out) {
  const NUM(pbConstraints) *w = a->constraints;
  const NUM(pbRow) *row = row_of(w, j);
  num angle = num_max(w->p.jnt_range[2 * j], w->p.jnt_range[2 * j + 1]) - row->pos[0], v[3], g;
  lane p[3], t[3];

  if (re(angle) < 1e-8) return;
  for (int k = 0; k < 3; k++) v[k] = -angle * w->row_J[row->J + k];

  // By v / |v|, then by the tangent.
  lane along = PB_DOT3(v, c) / (angle * angle);
  for (int k = 0; k < 3; k++) p[k] = (c[k] - along * v[k]) / angle;

  g = (1 - 0.5 * angle * num_cos(0.5 * angle) / num_sin(0.5 * angle)) / (angle * angle);
  for (int k = 0; k < 3; k++) out[k] += p[k];
  PB_ADDCROSS(out, -0.5, v, p);
  PB_CROSS(t, v, p);
  PB_ADDCROSS(out, g, v, t);
}

static void pull_joint(LANE(pbAdjoint) *a, int type, int j, lane bar) {
  const NUM(pbConstraints) *w = a->constraints;
  const NUM(pbRow) *row = row_of(w, j);
  if (!row) return;

  const int *dofs = w->row_dofs + row->dofs;
  const num *J = w->row_J + row->J;

  // Its force, its velocity J v, or its distance; of a ball joint J is the axis of its rotation vector.
  if (type == pb_sensJointlimitfrc) {
    pull_force(a, row, bar);
  } else if (type == pb_sensJointlimitvel) {
    lane c[3] = {0};
    for (int i = 0; i < row->n; i++) a->v[dofs[i]] += bar * J[i];
    if (row->n != 3) return;
    for (int k = 0; k < 3; k++) c[k] = bar * -w->qvel[dofs[k]];
    ball_axis_adjoint(a, j, c, a->q + dofs[0]);
  } else {
    const num *range = w->p.jnt_range + 2 * j;
    int side = row->n == 3 ? re(range[0]) < re(range[1]) : row->side > 0;
    num sign = row->n == 3 ? 1 : row->side;
    for (int i = 0; i < row->n; i++) a->q[dofs[i]] += bar * J[i];
    PB_THETA(a, jnt_range, 2 * j + side, bar * sign);
    PB_THETA(a, jnt_margin, j, -bar);
  }
}

static void pull_tendon(LANE(pbAdjoint) *a, int type, int k, lane bar) {
  const NUM(pbRow) *row = row_of(a->constraints, a->w->m->njnt + k);
  if (!row) return;

  int side = row->side;
  if (type == pb_sensTendonlimitfrc) {
    pull_force(a, row, bar);
  } else if (type == pb_sensTendonlimitvel) {
    a->ten_vel[k] -= bar * side;
  } else {
    a->ten_len[k] -= bar * side;
    PB_THETA(a, tendon_range, 2 * k + (side > 0), bar * side);
    PB_THETA(a, tendon_margin, k, -bar);
  }
}

static void pull(LANE(pbAdjoint) *a, int i, const lane *bar) {
  const pbModel *m = a->w->m;
  if (of_joint(m, i)) pull_joint(a, m->sensor_type[i], m->sensor_objid[i], bar[0]);
  else pull_tendon(a, m->sensor_type[i], m->sensor_objid[i], bar[0]);
}
PB_SENSOR_PULL(limit, pull);
#endif
