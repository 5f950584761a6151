// Springs of joints.
// Tests: tests/conformance/test_step.c, tests/conformance/test_lists.c, tests/oracle/test_derivatives.py.
#include "bodies/force.h"
#include "math/vec.h"
#include "multibody/polynomial.h"

// force -= k(|dif|) dif
static void add_spring3(const num c[3], const num dif[3], num *force) {
  num r = re(v3_dot(dif, dif)) > 0 ? v3_norm(dif) : 0;
  v3_addscl(force, dif, -pb_polynomialForce(c, r, false));
}

// Joints resist by k(x) x: x the distance from rest, of a free joint that of its position, then of its rotation.
static void joint_spring(NUM(pbMechanism) *w, int j) {
  const pbModel *m = w->m;
  num c[3] = {w->p.jnt_stiffness[j], w->p.jnt_stiffnesspoly[2 * j], w->p.jnt_stiffnesspoly[2 * j + 1]}, dif[3], q[4], s[4];
  if (v3_is_zero(c)) return;

  const num *qpos = w->qpos + m->jnt_qposadr[j], *rest = w->p.qpos_spring + m->jnt_qposadr[j];
  num *force = w->qfrc_spring + m->jnt_dofadr[j];
  switch (m->jnt_type[j]) {
    case pb_jntFree:
      v3_sub(dif, qpos, rest);
      add_spring3(c, dif, force);
      qpos += 3;
      rest += 3;
      force += 3;
      // fall through - and the rotation

    case pb_jntBall:  // rotation vector from rest to q, in the child frame
      quat_copy(q, qpos);
      quat_normalize(q);
      quat_conj(s, rest);
      quat_mul(q, s, q);
      quat_log(dif, q);
      add_spring3(c, dif, force);
      return;
    default: force[0] -= (qpos[0] - rest[0]) * pb_polynomialForce(c, qpos[0] - rest[0], false);
  }
}

static void joint_springs(NUM(pbMechanism) *w) {
  for (int j = 0; j < w->m->njnt; j++) joint_spring(w, j);
}
PB_FORCE(spring, .add = joint_springs);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/force_adjoint.h"
#include "math/vec.h"
#include "model/joint.h"
#include "multibody/spatial.h"

// W = -k(r) lam . d, r = |d|: cotangent g of d, theta of the stiffness coefficients.
static void pull_spring3(LANE(pbAdjoint) *a, int j, const num d[3], const lane *lam, lane g[3]) {
  const NUM(pbMechanism) *w = a->w;
  num c[3] = {w->p.jnt_stiffness[j], w->p.jnt_stiffnesspoly[2 * j], w->p.jnt_stiffnesspoly[2 * j + 1]};
  num r = num_sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
  num k = pb_polynomialForce(c, r, false);
  num slope = re(r) > 0 ? (c[1] + 2 * c[2] * r) / r : 0;

  // Along d the stiffness changes, too. At the origin of a pure polynomial it has no slope.
  lane along = PB_DOT3(lam, d);
  for (int i = 0; i < 3; i++) g[i] = -k * lam[i] - slope * along * d[i];
  PB_THETA(a, jnt_stiffness, j, -along);
  PB_THETA(a, jnt_stiffnesspoly, 2 * j, -along * r);
  PB_THETA(a, jnt_stiffnesspoly, 2 * j + 1, -along * r * r);
}

// Rotation by q (ball, free): d = log(rest^-1 q), in the child's frame.
static void pull_rotation(LANE(pbAdjoint) *a, int j, int qadr, int dof) {
  const NUM(pbMechanism) *w = a->w;
  num q[4], s[4], d[3];
  lane g[3], t[3];

  // d is the rotation vector from rest.
  quat_copy(q, w->qpos + qadr);
  quat_normalize(q);
  quat_conj(s, w->p.qpos_spring + qadr);
  quat_mul(q, s, q);
  quat_log(d, q);

  pull_spring3(a, j, d, a->lam + dof, g);
  pb_log_pull(d, g, t);
  for (int i = 0; i < 3; i++) a->q[dof + i] += t[i];

// The rest orientation rotates the other way, seen from the left.
#if PB_LANES == 1
  if (PB_WANTS(a, pb_wantSprings)) {
    num back[3], minus[3] = {-d[0], -d[1], -d[2]};
    pb_log_pull(minus, g, back);
    v3_neg(back, back);
    pb_quat_pull(a->bar.qpos_spring + qadr, w->p.qpos_spring + qadr, back);
  }
#endif
}

static void pull_spring(LANE(pbAdjoint) *a, int j) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  num c[3] = {w->p.jnt_stiffness[j], w->p.jnt_stiffnesspoly[2 * j], w->p.jnt_stiffnesspoly[2 * j + 1]}, d[3];
  bool none = c[0] == 0 && c[1] == 0 && c[2] == 0;
  int qadr = m->jnt_qposadr[j], dof = m->jnt_dofadr[j], type = m->jnt_type[j];
  if (none && !PB_WANTS(a, pb_wantSprings)) return;

  // A slide or hinge: W = -lam x k(x), x from the rest position.
  if (pbJoint_IsScalar(type)) {
    num x = w->qpos[qadr] - w->p.qpos_spring[qadr];
    lane slope = -a->lam[dof] * pb_polynomialSlope(c, x, false);

    a->q[dof] += slope;
    PB_THETA(a, qpos_spring, qadr, -slope);
    PB_THETA(a, jnt_stiffness, j, -a->lam[dof] * x);
    PB_THETA(a, jnt_stiffnesspoly, 2 * j, -a->lam[dof] * x * x);
    PB_THETA(a, jnt_stiffnesspoly, 2 * j + 1, -a->lam[dof] * x * x * x);
    return;
  }

  // A free joint has a spring of three translations, and like a ball one of its rotation.
  if (type == pb_jntFree) {
    lane g[3];
    v3_sub(d, w->qpos + qadr, w->p.qpos_spring + qadr);
    pull_spring3(a, j, d, a->lam + dof, g);
    for (int i = 0; i < 3; i++) {
      a->q[dof + i] += g[i];
      PB_THETA(a, qpos_spring, qadr + i, -g[i]);
    }
    qadr += 3;
    dof += 3;
  }
  pull_rotation(a, j, qadr, dof);
}

static void pull(LANE(pbAdjoint) *a) {
  for (int j = 0; j < a->w->m->njnt; j++) pull_spring(a, j);
}
PB_FORCE_PULL(spring, .pull = pull);
#endif
