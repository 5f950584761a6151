// Equalities that couple two joints or two tendons by a polynomial, or hold one.
// Tests: tests/oracle/test_stages.py, tests/oracle/test_derivatives.py, tests/conformance/test_step.c.
#include <pullback/equalities.h>

#include "bodies/row.h"
#include "contact/row_build.h"
#include "model/equality_data.h"

// The Jacobian row of a joint or tendon equality while it is put together: by dof, and which dofs it touches.
typedef struct dense_row {
  num *J;         // nv
  bool *touched;  // nv
  num diag;
} dense_row;

// Value less rest value of a joint or tendon that an equality couples.
static num coupled_value(const NUM(pbConstraints) *w, int equality, int id) {
  if (w->m->eq_type[equality] != pb_eqJoint) return w->ten_length[id] - w->p.tendon_length0[id];
  int q = w->m->jnt_qposadr[id];
  return w->qpos[q] - w->p.qpos0[q];
}

// Adds its Jacobian times scale to the row, and its share of diagApprox.
static void add_coupled(const NUM(pbConstraints) *w, int equality, int id, num scale, dense_row *row) {
  if (w->m->eq_type[equality] == pb_eqJoint) {
    int dof = w->m->jnt_dofadr[id];
    row->touched[dof] = true;
    row->J[dof] += scale;
    row->diag += w->p.dof_invweight0[dof];
    return;
  }

  // A tendon: its own row of the tendons' Jacobian.
  for (int a = w->ten_start[id]; a < w->ten_start[id + 1]; a++) {
    row->touched[w->ten_dofs[a]] = true;
    row->J[w->ten_dofs[a]] += scale * w->ten_J[a];
  }
  row->diag += w->p.tendon_invweight0[id];
}

// pos = x1 - P(x2), J = J1 - P'(x2) J2, with the polynomial P of eq_data and x the values less those at rest.
static void hold(NUM(pbConstraints) *w, int equality) {
  const pbModel *m = w->m;
  const num *c = w->p.eq_data + pbCoupling_Polycoef(equality);
  NUM(pbRow) *r = NUM(pbRow_New)(w, pb_rowEquality, equality, 1);
  int first = m->eq_obj1id[equality];
  int second = m->eq_obj2id[equality];

  // tmp and step are free until rows are solved for.
  dense_row row = {.J = w->tmp, .touched = (bool *)w->step};
  memset(row.J, 0, (size_t)m->nv * sizeof(num));
  memset(row.touched, 0, (size_t)m->nv * sizeof(bool));

  r->pos[0] = coupled_value(w, equality, first) - c[0];
  add_coupled(w, equality, first, 1, &row);
  if (second >= 0) {
    num x = coupled_value(w, equality, second);
    r->pos[0] -= x * (c[1] + x * (c[2] + x * (c[3] + x * c[4])));
    add_coupled(w, equality, second, -(c[1] + x * (2 * c[2] + x * (3 * c[3] + x * 4 * c[4]))), &row);
  }
  r->diag[0] = row.diag;

  // From the dense row to the dofs that it touches.
  int n = 0;
  int *dofs = w->row_dofs + r->dofs;
  for (int i = 0; i < m->nv; i++) {
    if (row.touched[i]) dofs[n++] = i;
  }
  num *J = NUM(pbRow_Claim)(w, r, n);
  for (int i = 0; i < n; i++) J[i] = row.J[dofs[i]];
  NUM(pbRow_Finish)(w, r, w->p.eq_solref + 2 * equality, w->p.eq_solimp + 5 * equality);
}
PB_ROW(coupling, .hold = hold);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/row_adjoint.h"
#include "elementary/elementary.h"

typedef LANE(pbRowBar) row_bar;

// Cotangent of the second value's Jacobian, times that Jacobian.
static lane second_entries(const LANE(pbAdjoint) *a, const NUM(pbRow) *r, const row_bar *bar, bool joints, int id) {
  const NUM(pbConstraints) *w = a->constraints;
  if (joints) return LANE(pbRow_EntryBar)(a, r, bar, w->m->jnt_dofadr[id]);

  lane sum = PB_LANE_ZERO;
  for (int i = w->ten_start[id]; i < w->ten_start[id + 1]; i++)
    sum += w->ten_J[i] * LANE(pbRow_EntryBar)(a, r, bar, w->ten_dofs[i]);
  return sum;
}

// The cotangent of a coupled value, and its Jacobian's, which the row has times scale.
static void pull_value(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const row_bar *bar, bool joints, int id, lane x_bar, num scale) {
  const pbModel *m = a->w->m;

  // The value is counted from that at rest.
  if (joints) {
    a->q[m->jnt_dofadr[id]] += x_bar;
    PB_THETA(a, qpos0, m->jnt_qposadr[id], -x_bar);
  } else {
    a->ten_len[id] += x_bar;
    PB_THETA(a, tendon_length0, id, -x_bar);
    LANE(pbRow_TendonEntries)(a, r, bar, id, scale);
  }
}

// pos = x1 - P(x2), J = J1 - P'(x2) J2
static void pull(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const row_bar *bar) {
  const NUM(pbConstraints) *w = a->constraints;
  const pbModel *m = w->m;
  bool joints = m->eq_type[r->equality] == pb_eqJoint;
  int first = m->eq_obj1id[r->equality];
  int second = m->eq_obj2id[r->equality];
  int polycoef = pbCoupling_Polycoef(r->equality);

  if (joints) pull_joint_velocity(a, r, bar);
  PB_THETA(a, eq_data, polycoef, -bar->pos[0]);
  if (second < 0) {
    pull_value(a, r, bar, joints, first, bar->pos[0], 1);
    return;
  }

  // x2 moves the residual by -P' and, in J1 - P' J2, the Jacobian by -P'' J2.
  const num *c = w->p.eq_data + polycoef;
  int q = joints ? m->jnt_qposadr[second] : 0;
  num x = joints ? w->qpos[q] - w->p.qpos0[q] : w->ten_length[second] - w->p.tendon_length0[second];
  num slope = c[1] + x * (2 * c[2] + x * (3 * c[3] + x * 4 * c[4]));
  num curve = 2 * c[2] + x * (6 * c[3] + x * 12 * c[4]);
  lane entries = second_entries(a, r, bar, joints, second);
  lane x_bar = -slope * bar->pos[0] - curve * entries;
  for (int k = 1; k <= 4; k++) PB_THETA(a, eq_data, polycoef + k, -bar->pos[0] * num_pow(x, k) - entries * k * num_pow(x, k - 1));

  pull_value(a, r, bar, joints, first, bar->pos[0], 1);
  pull_value(a, r, bar, joints, second, x_bar, -slope);
}

#if PB_LANES == 1
// diagApprox: the sum of the inverse weights of what is coupled.
static void parameters(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const row_bar *bar) {
  const pbModel *m = a->w->m;
  const int ends[2] = {m->eq_obj1id[r->equality], m->eq_obj2id[r->equality]};
  for (int e = 0; e < 2 && ends[e] >= 0; e++) {
    if (m->eq_type[r->equality] == pb_eqJoint) PB_THETA(a, dof_invweight0, m->jnt_dofadr[ends[e]], bar->diag[0]);
    else PB_THETA(a, tendon_invweight0, ends[e], bar->diag[0]);
  }
}
#endif
PB_ROW_PULL(coupling, .pull = pull, PB_ROW_PARAMETERS(parameters));
#endif
