// Friction loss of dofs and tendons: one row along each, whose force is at most the loss.
// Tests: tests/unit/test_kinks.c, tests/oracle/test_stages.py, tests/conformance/test_step.c.
#include "bodies/row.h"
#include "contact/row_build.h"
#include "multibody/kink.h"

// A loss of zero makes no row, but has a slope: a force in the complex program, at the accelerations that are given to it.
static void loss_slopes(NUM(pbConstraints) *w) {
  for (int i = 0; i < w->m->nv; i++) {
    num loss = w->p.dof_frictionloss[i];
    if (re(loss) != 0 || im(loss) == 0) continue;
    w->qfrc_smooth[i] += num_make(0, -loss_sign(&w->mechanism, i, w->qacc_warmstart) * im(loss));
  }

  // Tendons pull by their Jacobian, whose own derivative meets no force.
  for (int k = 0; k < w->m->ntendon; k++) {
    num loss = w->p.tendon_frictionloss[k];
    if (re(loss) > 0 || im(loss) == 0) continue;
    double force = -loss_sign(&w->mechanism, w->m->nv + k, w->qacc_warmstart) * im(loss);
    for (int a = w->ten_start[k]; a < w->ten_start[k + 1]; a++) {
      w->qfrc_smooth[w->ten_dofs[a]] += num_make(0, force * re(w->ten_J[a]));
    }
  }
}

static void set_loss(NUM(pbRow) *r, num loss) {
  r->bound[0] = -loss;
  r->bound[1] = loss;
}

static void make(NUM(pbConstraints) *w) {
  const pbModel *m = w->m;
  if (PB_IS_COMPLEX) loss_slopes(w);

  for (int i = 0; i < m->nv; i++) {
    if (re(w->p.dof_frictionloss[i]) == 0) continue;
    NUM(pbRow) *r = NUM(pbRow_OfDof)(w, pb_rowFriction, i, i, 1);
    set_loss(r, w->p.dof_frictionloss[i]);
    NUM(pbRow_Finish)(w, r, w->p.dof_solref + 2 * i, w->p.dof_solimp + 5 * i);
  }

  // As in MuJoCo, dofs make rows for all losses but zero, tendons for positive ones.
  for (int k = 0; k < m->ntendon; k++) {
    if (!(re(w->p.tendon_frictionloss[k]) > 0)) continue;
    NUM(pbRow) *r = NUM(pbRow_OfTendon)(w, pb_rowFriction, m->nv + k, k, 1);
    set_loss(r, w->p.tendon_frictionloss[k]);
    NUM(pbRow_Finish)(w, r, w->p.tendon_solref_fri + 2 * k, w->p.tendon_solimp_fri + 5 * k);
  }
}
PB_ROW(friction, .make = make);

#if !PB_IS_COMPLEX  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/row_adjoint.h"

// J is 1 along the dof or tendon.
static void pull(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar) {
  if (r->tendon >= 0) LANE(pbRow_TendonEntries)(a, r, bar, r->tendon, 1);
  else pull_joint_velocity(a, r, bar);
}

#if PB_LANES == 1
// diagApprox, and both bounds by the loss.
static void parameters(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar) {
  if (r->tendon >= 0) {
    PB_THETA(a, tendon_invweight0, r->tendon, bar->diag[0]);
    PB_THETA(a, tendon_frictionloss, r->tendon, bar->bound[1] - bar->bound[0]);
  } else {
    PB_THETA(a, dof_invweight0, r->dof, bar->diag[0]);
    PB_THETA(a, dof_frictionloss, r->dof, bar->bound[1] - bar->bound[0]);
  }
}
#endif

// A loss of zero makes no row: W = -loss sign (J lam) has its slope alone (multibody/kink.h), and what sweeps against slip ask of
// the force that they begin with.
static void pull_zero_losses(LANE(pbAdjoint) *a) {
#if PB_LANES == 1
  const NUM(pbConstraints) *w = a->constraints;
  if (!PB_WANTS(a, pb_wantLoss) || !loss_acts(w->m)) return;
  bool swept = pb_noslip(w->m);

  for (int i = 0; i < w->m->nv; i++) {
    // Those that act have rows.
    if (w->p.dof_frictionloss[i] != 0) continue;
    double power = a->lam[i] + (swept ? a->slip_loss[i] : 0);
    PB_THETA(a, dof_frictionloss, i, -loss_sign(&w->mechanism, i, a->at.qacc) * power);
  }

  // Tendons: the power of their Jacobian.
  for (int k = 0; k < w->m->ntendon; k++) {
    if (w->p.tendon_frictionloss[k] > 0) continue;
    double power = swept ? a->slip_loss[w->m->nv + k] : 0;
    for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) power += w->ten_J[i] * a->lam[w->ten_dofs[i]];
    PB_THETA(a, tendon_frictionloss, k, -loss_sign(&w->mechanism, w->m->nv + k, a->at.qacc) * power);
  }
#else
  (void)a;
#endif
}
PB_ROW_PULL(friction, .pull = pull, .begin = pull_zero_losses, PB_ROW_PARAMETERS(parameters));
#endif
