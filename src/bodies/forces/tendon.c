// Springs and dampers of tendons.
// Tests: tests/conformance/test_step.c, tests/conformance/test_lists.c, tests/oracle/test_derivatives.py.
#include "bodies/force.h"
#include "multibody/damping.h"
#include "multibody/kink.h"
#include "multibody/outer.h"
#include "multibody/polynomial.h"

// Spring and damper of a tendon, along its Jacobian.
static void add_tendon(NUM(pbMechanism) *w, int k, bool springs, bool dampers) {
  num spring = 0, damper = 0, c[3];
  if (springs) {
    num x = tendon_stretch(w, k);
    c[0] = w->p.tendon_stiffness[k];
    c[1] = w->p.tendon_stiffnesspoly[2 * k];
    c[2] = w->p.tendon_stiffnesspoly[2 * k + 1];
    spring = -x * pb_polynomialForce(c, x, false);
  }

  if (dampers) {
    NUM(pbTendon_Damping)(w, k, c);
    damper = -w->ten_velocity[k] * pb_polynomialForce(c, w->ten_velocity[k], true);
  }

  for (int a = w->ten_start[k]; a < w->ten_start[k + 1]; a++) {
    w->qfrc_spring[w->ten_dofs[a]] += w->ten_J[a] * spring;
    w->qfrc_damper[w->ten_dofs[a]] += w->ten_J[a] * damper;
  }
}

static void add(NUM(pbMechanism) *w) {
  bool springs = !(w->m->disableflags & pb_disSpring), dampers = !(w->m->disableflags & pb_disDamper);
  for (int k = 0; k < w->m->ntendon; k++) add_tendon(w, k, springs, dampers);
}

static void slopes(const NUM(pbMechanism) *w, num *D) {
  num c[3];
  if (w->m->disableflags & pb_disDamper) return;

  for (int k = 0; k < w->m->ntendon; k++) {
    NUM(pbTendon_Damping)(w, k, c);
    num slope = pb_polynomialSlope(c, w->ten_velocity[k], true);
    int adr = w->ten_start[k], n = w->ten_start[k + 1] - adr;
    if (re(slope) != 0 || im(slope) != 0) add_outer(w, w->ten_dofs + adr, w->ten_J + adr, n, -slope, D);
  }
}
PB_FORCE(tendon, .add = add, .slopes = slopes);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/force_adjoint.h"
#include "multibody/force_adjoint.h"

// W = -x k(x) (J lam), x the stretch beyond the spring's band: returns the force.
num LANE(pbTendon_PullSpring)(LANE(pbAdjoint) *a, int k, lane power) {
  const NUM(pbMechanism) *w = a->w;
  const num *band = w->p.tendon_lengthspring + 2 * k;
  num c[3] = {w->p.tendon_stiffness[k], w->p.tendon_stiffnesspoly[2 * k], w->p.tendon_stiffnesspoly[2 * k + 1]};
  num x = tendon_stretch(w, k);
  double share[2];
  band_shares(w->ten_length[k], band[0], band[1], share);

  // At an end of the band half of a slope belongs to each side.
  lane slope = -power * pb_polynomialSlope(c, x, false);
  a->ten_len[k] += slope * (share[0] + share[1]);
  for (int side = 0; side < 2; side++) PB_THETA(a, tendon_lengthspring, 2 * k + side, -slope * share[side]);

  PB_THETA(a, tendon_stiffness, k, -power * x);
  PB_THETA(a, tendon_stiffnesspoly, 2 * k, -power * x * x);
  PB_THETA(a, tendon_stiffnesspoly, 2 * k + 1, -power * x * x * x);
  return -x * pb_polynomialForce(c, x, false);
}

// Under implicitfast W = -h slope mu' (J'J) ahat, slope = d(v b)/dv; bar: of the damper's coefficients.
static void pull_implicit(LANE(pbAdjoint) *a, int k, const num c[3], lane bar[3]) {
  const NUM(pbMechanism) *w = a->w;
  num v = w->ten_velocity[k], s = num_abs(v), h = w->p.timestep[0], slope = pb_polynomialSlope(c, v, true);
  int adr = w->ten_start[k], n = w->ten_start[k + 1] - adr;
  lane *row = LANE(pbTendon_Other)(a, k);
  lane p = pb_outerPower(w, w->ten_dofs + adr, w->ten_J + adr, n, -h * slope, a->mu, w->qacc_integrated, row);

  a->h_bar -= PB_LANE0(p) * slope;
  a->ten_vel[k] -= h * p * pb_signOf(v) * (2 * c[1] + 6 * c[2] * s);
  bar[0] -= h * p;
  bar[1] -= h * p * 2 * s;
  bar[2] -= h * p * 3 * s * s;
}

// W = -v b(|v|) (J lam): returns the force.
static num pull_damper(LANE(pbAdjoint) *a, int k, lane power) {
  const NUM(pbMechanism) *w = a->w;
  num c[3], v = w->ten_velocity[k], s = num_abs(v);
  NUM(pbTendon_Damping)(w, k, c);
  a->ten_vel[k] -= power * pb_polynomialSlope(c, v, true);

  // b's coefficients multiply 1, |v|, v^2.
  lane bar[3] = {-power * v, -power * v * s, -power * v * s * s};
  if (a->damped && w->m->integrator == pb_intImplicitfast) pull_implicit(a, k, c, bar);
  if (PB_WANTS(a, pb_wantDamping)) {
    damping_parameters(a, bar, a->bar.tendon_damping + k, a->bar.tendon_dampingpoly + 2 * k, w->t->ten_actuator_start,
                       w->t->ten_actuator, k);
  }
  return v * pb_polynomialForce(c, v, true);
}

// Springs and dampers: cotangents of length and velocity, theta, and the force, which multiplies J lam. power: J lam.
static void pull_tendon(LANE(pbAdjoint) *a, int k, lane power) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  num force = 0;
  if (!(m->disableflags & pb_disSpring)) force += LANE(pbTendon_PullSpring)(a, k, power);
  if (!(m->disableflags & pb_disDamper)) force -= pull_damper(a, k, power);
  a->ten_lam[k] += force;
}
PB_FORCE_PULL(tendon, .pull_tendon = pull_tendon);
#endif
