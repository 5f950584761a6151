// Friction loss of dofs and tendons: one row along each, whose force is at most the loss. That of dofs may depend on velocity and
// load (multibody/friction_law.h).
// Tests: tests/unit/test_kinks.c, tests/unit/test_friction_law.c, tests/oracle/test_stages.py, tests/conformance/test_step.c.
#include "bodies/row.h"
#include "contact/row_build.h"
#include "multibody/friction_law.h"
#include "multibody/kink.h"

// A loss of zero makes no row, but has a slope: a force in the complex program, at the accelerations that are given to it.
static void add_slopes(NUM(pbConstraints) *w) {
  for (int i = 0; i < w->m->nv; i++) {
    num loss = dof_loss(&w->mechanism, i);
    if (dof_has_loss(&w->mechanism, i) || im(loss) == 0) continue;
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
  if (PB_IS_COMPLEX) add_slopes(w);

  for (int i = 0; i < m->nv; i++) {
    if (!dof_has_loss(&w->mechanism, i)) continue;
    NUM(pbRow) *r = NUM(pbRow_OfDof)(w, pb_rowFriction, i, i, 1);
    set_loss(r, dof_loss(&w->mechanism, i));
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

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/row_adjoint.h"

// J is 1 along the dof or tendon.
static void pull(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar) {
  if (r->tendon >= 0) LANE(pbRow_TendonEntries)(a, r, bar, r->tendon, 1);
  else pull_joint_velocity(a, r, bar);
}

// The loss by what its level is made of, but for state and forces: to theta.
void LANE(pbLoss_PullParameters)(LANE(pbAdjoint) *a, int i, num bar) {
#if PB_LANES == 1
  const NUM(pbMechanism) *w = a->w;
  const num *load = PB_TERM(w, dof_frictionload) + 2 * i, *more = PB_TERM(w, dof_stictionload) + 2 * i;
  num motor = w->qfrc_actuator[i], external = w->qfrc_load[i], exponent = stribeck_exponent(w, i), share[2];
  num s = stribeck_share(exponent);
  load_parts of = load_of(w, i, load), rest = load_of(w, i, more);
  quad_shares(w, i, share);

  PB_THETA(a, dof_frictionloss, i, bar);
  PB_TERM_THETA(a, dof_stiction, i, bar * s);
  PB_TERM_THETA(a, dof_frictionload, 2 * i, bar * of.motor);
  PB_TERM_THETA(a, dof_frictionload, 2 * i + 1, bar * of.external);
  PB_TERM_THETA(a, dof_stictionload, 2 * i, bar * s * rest.motor);
  PB_TERM_THETA(a, dof_stictionload, 2 * i + 1, bar * s * rest.external);
  PB_TERM_THETA(a, dof_stictionquad, 2 * i, bar * s * share[0] * motor * motor);
  PB_TERM_THETA(a, dof_stictionquad, 2 * i + 1, bar * s * share[1] * external * external);

  // s = exp(-x), x = |v / scale|^power
  if (!(exponent > 0) || s == 0) return;
  num scale = PB_TERM(w, dof_stribeck)[i], by_exponent = -bar * s * exponent * rest_level(w, i);
  PB_TERM_THETA(a, dof_stribeck, i, -by_exponent * PB_TERM(w, dof_stribeckpower)[i] / scale);
  PB_TERM_THETA(a, dof_stribeckpower, i, by_exponent * num_log(num_abs(w->qvel[i]) / scale));
#else
  (void)a;
  (void)i;
  (void)bar;
#endif
}

#if PB_LANES == 1
// diagApprox, and both bounds by the loss.
static void parameters(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar) {
  if (r->tendon >= 0) {
    PB_THETA(a, tendon_invweight0, r->tendon, bar->diag[0]);
    PB_THETA(a, tendon_frictionloss, r->tendon, bar->bound[1] - bar->bound[0]);
  } else {
    PB_THETA(a, dof_invweight0, r->dof, bar->diag[0]);
    LANE(pbLoss_PullParameters)(a, r->dof, bar->bound[1] - bar->bound[0]);
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
    if (dof_has_loss(&w->mechanism, i)) continue;
    num power = a->lam[i] + (swept ? a->slip_loss[i] : 0);
    LANE(pbLoss_PullParameters)(a, i, -loss_sign(&w->mechanism, i, a->at.qacc) * power);
  }

  // Tendons: the power of their Jacobian.
  for (int k = 0; k < w->m->ntendon; k++) {
    if (w->p.tendon_frictionloss[k] > 0) continue;
    num power = swept ? a->slip_loss[w->m->nv + k] : 0;
    for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) power += w->ten_J[i] * a->lam[w->ten_dofs[i]];
    PB_THETA(a, tendon_frictionloss, k, -loss_sign(&w->mechanism, w->m->nv + k, a->at.qacc) * power);
  }
#else
  (void)a;
#endif
}
PB_ROW_PULL(friction, .pull = pull, .begin = pull_zero_losses, PB_ROW_PARAMETERS(parameters));

// Cotangents of velocities and of forces, by which the level of losses goes. Those of forces have a power of their own, so they
// are known before the powers of actuators and of all other forces are pulled.
void LANE(pbRows_Losses)(LANE(pbAdjoint) *a) {
  const NUM(pbConstraints) *w = a->constraints;
  a->loaded = false;
  int at = 0;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (!r->zone) continue;
    int first = at;
    at += r->dim;
    if (r->kind != pb_rowFriction || r->tendon >= 0 || !dof_has_law(&w->mechanism, r->dof)) continue;

    LANE(pbRowBar) bar;
    memset(&bar, 0, sizeof bar);
    bar.f = a->at.force ? a->at.force + 6 * k : r->f;
    pull_functional(a, k, bar.y);
    LANE(pbRow_PullLaw)(a, k, first, &bar);

    lane loss = bar.bound[1] - bar.bound[0];
    const loss_slopes d = dof_loss_slopes(&w->mechanism, r->dof);
    a->v[r->dof] += d.velocity * loss;
    a->loss[r->dof] += d.motor * loss;
    a->loss[w->m->nv + r->dof] += d.external * loss;
    a->loaded = a->loaded || d.motor != 0 || d.external != 0;
  }
}
#endif
