// A Scotch yoke: a pin on the second joint moves the first in a slot, x1 = c0 + c1 sin(x2), c of polycoef, x less that at rest.
// Tests: tests/conformance/test_lists.c, tests/conformance/test_step.c.
#include "bodies/row.h"
#include "contact/row_build.h"
#include "model/equality_data.h"

static num from_rest(const NUM(pbMechanism) *w, int joint) {
  if (joint < 0) return 0;
  int q = w->m->jnt_qposadr[joint];
  return w->qpos[q] - w->p.qpos0[q];
}

static void hold(NUM(pbConstraints) *w, int equality) {
  const pbModel *m = w->m;
  const num *c = w->p.eq_data + pbCoupling_Polycoef(equality);
  int joint[2] = {m->eq_obj1id[equality], m->eq_obj2id[equality]};
  num angle = from_rest(&w->mechanism, joint[1]);
  num slope[2] = {1, -c[1] * num_cos(angle)};
  NUM(pbRow) *r = NUM(pbRow_New)(w, pb_rowEquality, equality, 1);
  r->pos[0] = from_rest(&w->mechanism, joint[0]) - c[0] - c[1] * num_sin(angle);

  // Dofs ascend; without a second joint the first is held.
  int n = joint[1] < 0 ? 1 : 2, *dofs = w->row_dofs + r->dofs;
  int first = n == 2 && m->jnt_dofadr[joint[1]] < m->jnt_dofadr[joint[0]];
  for (int i = 0; i < n; i++) dofs[i] = m->jnt_dofadr[joint[i ^ first]];

  num *J = NUM(pbRow_Claim)(w, r, n);
  r->diag[0] = 0;
  for (int i = 0; i < n; i++) {
    J[i] = slope[i ^ first];
    r->diag[0] += w->p.dof_invweight0[dofs[i]];
  }
  NUM(pbRow_Finish)(w, r, w->p.eq_solref + 2 * equality, w->p.eq_solimp + 5 * equality);
}
PB_ROW(yoke, .hold = hold);

#if !PB_IS_COMPLEX  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/row_adjoint.h"

// The cotangent of a joint's way from rest.
static void pull_way(LANE(pbAdjoint) *a, int joint, lane bar) {
  a->q[a->w->m->jnt_dofadr[joint]] += bar;
  PB_THETA(a, qpos0, a->w->m->jnt_qposadr[joint], -bar);
}

static void pull(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar) {
  const pbModel *m = a->w->m;
  int c = pbCoupling_Polycoef(r->equality), crank = m->eq_obj2id[r->equality];
  double size = a->w->p.eq_data[c + 1], angle = from_rest(a->w, crank);

  pull_joint_velocity(a, r, bar);
  pull_way(a, m->eq_obj1id[r->equality], bar->pos[0]);
  PB_THETA(a, eq_data, c, -bar->pos[0]);
  if (crank < 0) return;

  // The angle moves the residual by -c1 cos and the second entry of J, -c1 cos, by c1 sin.
  lane entry = LANE(pbRow_EntryBar)(a, r, bar, m->jnt_dofadr[crank]);
  pull_way(a, crank, size * (sin(angle) * entry - cos(angle) * bar->pos[0]));
  PB_THETA(a, eq_data, c + 1, -sin(angle) * bar->pos[0] - cos(angle) * entry);
}

#if PB_LANES == 1
static void parameters(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar) {
  const int *dofs = a->constraints->row_dofs + r->dofs;
  for (int i = 0; i < r->n; i++) PB_THETA(a, dof_invweight0, dofs[i], bar->diag[0]);
}
#endif
PB_ROW_PULL(yoke, .pull = pull, PB_ROW_PARAMETERS(parameters));
#endif
