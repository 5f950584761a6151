// Hard rows' forces by parameters: residual x = J a - aref + R f and law N(f, x; friction, bounds) = 0 (law.h), with the
// cotangents z of the residual and u of the law (solve/dual_adjoint.c).
// Tests: tests/unit/test_hard.c, tests/oracle/test_jammed.py.
#include "contact/law.h"

#include "contact/row_adjoint.h"

// -z . f dR, R = (regularization) + little diag. Error reduction has R = cfm / h, which moves with the time step.
static void pull_softness(const NUM(pbConstraints) *w, const NUM(pbRow) *r, LANE(pbRowBar) *bar) {
  double little = pb_little(w->m);
  for (int i = 0; i < r->dim; i++) bar->diag[pb_diag_entry(r, i)] -= bar->z[i] * bar->f[i] * little;

  // Friction loss has no error reduction: its R is that of soft rows.
  if (r->kind == pb_rowFriction) {
    lane g = bar->z[0] * bar->f[0] * (r->R[0] - little * r->diag[0]);
    LANE(pbRow_PullRegularization)(w, r, 1, &g, bar);
    return;
  }
  for (int i = 0; i < r->dim; i++) bar->log_timestep += bar->z[i] * bar->f[i] * (pb_cfm(w->m) / w->p.timestep[0]);
}

void LANE(pbLaw_Pull)(LANE(pbAdjoint) *a, const NUM(pbRow) *r, LANE(pbRowBar) *bar) {
  const NUM(pbConstraints) *w = a->constraints;
  pull_softness(w, r, bar);

  // -u . dN
  pbLaw law;
  NUM(pbLaw_Here)(a->work, r, &law);
  for (int i = 0; i < r->dim; i++) {
    for (int side = 0; side < 2; side++) bar->bound[side] -= law.Nbound[side] * bar->u[i];
    if (r->kind != pb_rowContact) continue;
    for (int j = 1; j < r->dim; j++) bar->friction[j - 1] -= law.Nmu[i * (r->dim - 1) + j - 1] * bar->u[i];
  }
}
