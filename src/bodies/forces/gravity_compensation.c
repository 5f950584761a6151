// Gravity compensation: against the weight of bodies, at their centers of mass.
// Tests: tests/conformance/test_step.c, tests/conformance/test_lists.c, tests/oracle/test_derivatives.py.
#include "bodies/force.h"
#include "math/vec.h"
#include "multibody/spatial.h"
#include "multibody/wrench.h"

static bool gravity_acts(const NUM(pbMechanism) *w) {
  const num *g = w->p.gravity;
  return !(w->m->disableflags & pb_disGravity) && !v3_is_zero(g);
}

// Against gravity, at the center of mass.
static void compensate(NUM(pbMechanism) *w) {
  if (!gravity_acts(w)) return;

  for (int b = 1; b < w->m->nbody; b++) {
    if (w->t->body_tree[b] < 0 || num_is(w->p.body_gravcomp[b], 0)) continue;
    num d[3], force[3], wrench[6] = {0};

    v3_scale(force, w->p.gravity, -w->p.body_mass[b] * w->p.body_gravcomp[b]);
    body_offset(w, b, w->xipos + 3 * b, d);
    PB_ADDWRENCH(wrench, 1, d, force);
    add_wrench(w, b, wrench, w->qfrc_gravcomp);
  }
}
PB_FORCE(gravity_compensation, .add = compensate);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/force_adjoint.h"

// W = -m gravcomp g . (velocity of the center of mass) under the field X
static void pull_body(LANE(pbAdjoint) *a, int b, const lane *X, num *field) {
  const NUM(pbMechanism) *w = a->w;
  num d[3], force[3], m = w->p.body_mass[b], gc = w->p.body_gravcomp[b];
  const num *g = w->p.gravity;
  lane u[3], p[3];

  // Without compensation there is no power, but its derivative by body_gravcomp.
  if (gc == 0 && !PB_WANTS(a, pb_wantGravcomp)) return;

  body_offset(w, b, w->xipos + 3 * b, d);
  PB_POINTVEL(u, X, d);
  PB_THETA(a, body_gravcomp, b, -m * PB_DOT3(g, u));
  if (gc == 0) return;

  // The force -m gc g at the center of mass: to the field's cotangent and to the point.
  v3_scale(force, g, -m * gc);
  PB_CROSS(p, force, X);
  LANE(pbSweep_Point)(a, b, d, force, p, field);

  PB_THETA(a, body_mass, b, -gc * PB_DOT3(g, u));
  for (int k = 0; k < 3; k++) PB_THETA(a, gravity, k, -m * gc * u[k]);
#if PB_LANES == 1
  if (a->theta) {
    num local[3];
    m3_tmulv(local, w->xmat + 9 * b, p);
    for (int k = 0; k < 3; k++) PB_THETA(a, body_ipos, 3 * b + k, local[k]);
  }
#endif
}

// Gravity has slopes at zero, too.
static bool has_slopes(const LANE(pbAdjoint) *a) {
  bool wanted = PB_LANES == 1 && a->theta && !(a->w->m->disableflags & pb_disGravity);
  return wanted || gravity_acts(a->w);
}

// a->c: the virtual rate that gravity compensation does its power on, dof by dof. That is lam, but where a joint takes the
// compensation as a part of its actuator force (jnt_actgravcomp) it is lam_act, which is zero at a limit of that force; and none
// where actuators are off. Returns whether there is such a joint: then the rates need a field of body motions of their own.
static bool compensated_rates(LANE(pbAdjoint) *a) {
  const pbModel *m = a->w->m;
  bool off = (m->disableflags & pb_disActuation) || !m->nu, any = false;

  for (int i = 0; i < m->nv; i++) {
    bool through = m->jnt_actgravcomp[m->dof_jntid[i]];
    if (!through) a->c[i] = a->lam[i];
    else if (off) a->c[i] = PB_LANE_ZERO;
    else a->c[i] = a->lam_act[i];
    any = any || through;
  }
  return any;
}

static void pull(LANE(pbAdjoint) *a) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  bool any = PB_WANTS(a, pb_wantGravcomp);
  for (int b = 1; b < m->nbody; b++) any = any || w->p.body_gravcomp[b] != 0;

  if (!any || !has_slopes(a)) return;

  bool own = compensated_rates(a);
  if (own) {
    LANE(pbSweep_Push)(w, a->c, a->X);
    memset(a->F, 0, 6 * (size_t)m->nbody * sizeof(num));
  }
  for (int b = 1; b < m->nbody; b++) {
    if (w->t->body_tree[b] >= 0) pull_body(a, b, (own ? a->X : a->Vl) + 6 * b, own ? a->F : a->FL);
  }
  if (own) LANE(pbSweep_PullExtra)(a, a->c);
}
PB_FORCE_PULL(gravity_compensation, .pull = pull);
#endif
