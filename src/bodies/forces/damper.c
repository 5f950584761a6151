// Dampers of joints, with those that actuators reflect to them.
// Tests: tests/conformance/test_step.c, tests/conformance/test_lists.c, tests/oracle/test_derivatives.py.
#include "bodies/force.h"
#include "multibody/damping.h"
#include "multibody/polynomial.h"

static void joint_dampers(NUM(pbMechanism) *w) {
  for (int i = 0; i < w->m->nv; i++) {
    num c[3], v = w->qvel[i];
    NUM(pbDof_Damping)(w, i, c);
    w->qfrc_damper[i] -= v * pb_polynomialForce(c, v, true);
  }
}

static void slopes(const NUM(pbMechanism) *w, num *D) {
  const pbTreePattern *tree = &w->t->M;
  num c[3];
  for (int i = 0; i < w->m->nv; i++) {
    NUM(pbDof_Damping)(w, i, c);
    D[tree->adr[i] + tree->depth[i]] -= pb_polynomialSlope(c, w->qvel[i], true);
  }
}
PB_FORCE(damper, .add = joint_dampers, .slopes = slopes);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/force_adjoint.h"
#include "multibody/force_adjoint.h"

// Explicitly W = -lam v b(|v|); with implicit damping W = -h mu slope(v) ahat comes to it, slope = d(v b)/dv.
static void pull_damper(LANE(pbAdjoint) *a, int i) {
  const NUM(pbMechanism) *w = a->w;
  const num *c = a->damping + 3 * i;
  num v = w->qvel[i], s = num_abs(v), h = w->p.timestep[0];
  lane bar[3], lam = a->lam[i];

  // b's coefficients multiply 1, |v|, v^2.
  a->v[i] -= lam * pb_polynomialSlope(c, v, true);
  bar[0] = -lam * v;
  bar[1] = -lam * v * s;
  bar[2] = -lam * v * s * s;

  bool euler = w->m->integrator == pb_intEuler && !(w->m->disableflags & pb_disEulerdamp);
  bool implicit = euler || w->m->integrator == pb_intImplicitfast;
  // In one step with deformables dampers are a part of what is minimized: its adjoint is lam.
  bool inside = euler && w->couple_S && !(w->m->disableflags & pb_disDamper);
  if (inside || (a->has_mu && implicit)) {
    lane x = inside ? -h * lam * w->qacc_integrated[i] : -h * a->mu[i] * w->qacc_integrated[i];
    a->v[i] += x * pb_signOf(v) * (2 * c[1] + 6 * c[2] * s);
    bar[0] += x;
    bar[1] += x * 2 * s;
    bar[2] += x * 3 * s * s;
    a->h_bar += PB_LANE0(x) / h * pb_polynomialSlope(c, v, true);
  }

  if (PB_WANTS(a, pb_wantDamping)) {
    damping_parameters(a, bar, a->bar.dof_damping + i, a->bar.dof_dampingpoly + 2 * i, w->t->dof_actuator_start,
                       w->t->dof_actuator, i);
  }
}

static void pull(LANE(pbAdjoint) *a) {
  for (int i = 0; i < a->w->m->nv; i++) pull_damper(a, i);
}
PB_FORCE_PULL(damper, .pull = pull);
#endif
