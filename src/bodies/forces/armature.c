// Armature of joints, with that of rotors that actuators reflect to them. Primal: on the diagonal of M (multibody/dynamics.c).
// Tests: tests/conformance/test_step.c, tests/conformance/test_lists.c, tests/oracle/test_derivatives.py.
#include "bodies/force.h"

PB_FORCE(armature);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/force_adjoint.h"

#if PB_LANES == 1
// bar: cotangent of the armature of a dof. Actuators reflect their rotors' armature times gear^2.
static void pull_dof_armature(LANE(pbAdjoint) *a, int i, num bar) {
  const NUM(pbMechanism) *w = a->w;
  if (!PB_WANTS(a, pb_wantArmature)) return;
  PB_THETA(a, dof_armature, i, bar);
  for (int k = w->t->dof_actuator_start[i]; k < w->t->dof_actuator_start[i + 1]; k++) {
    int u = w->t->dof_actuator[k];
    num gear = w->p.actuator_gear[6 * u];
    PB_THETA(a, actuator_armature, u, bar * gear * gear);
    PB_THETA(a, actuator_gear, 6 * u, bar * 2 * gear * w->p.actuator_armature[u]);
  }
}
#endif

// W = -armature lam a + armature mu (a - ahat)
static void pull_armature(LANE(pbAdjoint) *a, int i) {
#if PB_LANES == 1
  const NUM(pbMechanism) *w = a->w;
  num bar = -a->lam[i] * a->at.qacc[i];

  // Implicit damping sees it, too: in M and in Mhat.
  if (a->damped) bar += a->mu[i] * (a->at.qacc[i] - w->qacc_integrated[i]);
  pull_dof_armature(a, i, bar);
#else
  (void)a;
  (void)i;
#endif
}

void LANE(pbForce_ArmaturePair)(LANE(pbAdjoint) *a, num s, const lane *u, const num *z) {
#if PB_LANES == 1
  for (int i = 0; i < a->w->m->nv; i++) pull_dof_armature(a, i, s * u[i] * z[i]);
#endif
  for (int k = 0; k < a->w->m->ntendon; k++) LANE(pbForce_TendonArmaturePair)(a, k, s, u, z);
}

void LANE(pbForce_ArmatureMass)(LANE(pbAdjoint) *a, const lane *M_bar) {
#if PB_LANES == 1
  const pbTreePattern *tree = &a->w->t->M;
  for (int i = 0; i < tree->n; i++) pull_dof_armature(a, i, M_bar[tree->adr[i] + tree->depth[i]]);
#endif
  for (int k = 0; k < a->w->m->ntendon; k++) LANE(pbForce_TendonArmatureMass)(a, k, M_bar);
}

static void pull(LANE(pbAdjoint) *a) {
  for (int i = 0; i < a->w->m->nv; i++) pull_armature(a, i);
}
PB_FORCE_PULL(armature, .pull = pull);
#endif
