// Energies of a state. Derivative: bodies/sensors/energy.c.
// Tests: tests/oracle/test_stages.py, tests/oracle/test_derivatives.py, tests/oracle/test_sensors.py.
#include "multibody/energy.h"

#include "base/assert.h"
#include "math/vec.h"
#include "model/joint.h"
#include "multibody/kink.h"

// Of a force x (c0 + c1 |x| + c2 x^2): of a spring along a line |x| is x itself, as the force has it.
static num spring_energy(const num c[3], num x) { return x * x * (c[0] / 2 + x * (c[1] / 3 + x * c[2] / 4)); }

// Without a length's slope at zero, where it has none.
static num length_of(const num x[3]) { return v3_is_zero(x) ? 0 : v3_norm(x); }

static num joint_spring_energy(const NUM(pbMechanism) *w, int j) {
  const pbModel *m = w->m;
  const num c[3] = {w->p.jnt_stiffness[j], w->p.jnt_stiffnesspoly[2 * j], w->p.jnt_stiffnesspoly[2 * j + 1]};
  const num *q = w->qpos + m->jnt_qposadr[j], *rest = w->p.qpos_spring + m->jnt_qposadr[j];
  num energy = 0, apart[3], turned[4], back[4];
  if (v3_is_zero(c)) return 0;
  if (pbJoint_IsScalar(m->jnt_type[j])) return spring_energy(c, q[0] - rest[0]);

  // A free joint's position, then the rotation of free and ball joints by its angle.
  if (m->jnt_type[j] == pb_jntFree) {
    v3_sub(apart, q, rest);
    energy = spring_energy(c, length_of(apart));
    q += 3;
    rest += 3;
  }

  // The shorter way round.
  quat_copy(turned, q);
  quat_normalize(turned);
  quat_conj(back, rest);
  quat_mul(turned, back, turned);
  quat_log(apart, turned);

  return energy + spring_energy(c, length_of(apart));
}

static num tendon_spring_energy(const NUM(pbMechanism) *w, int k) {
  const num c[3] = {w->p.tendon_stiffness[k], w->p.tendon_stiffnesspoly[2 * k], w->p.tendon_stiffnesspoly[2 * k + 1]};
  return spring_energy(c, tendon_stretch(w, k));
}

num NUM(pbEnergy_Gravity)(const NUM(pbMechanism) *w, bool moving) {
  num energy = 0;

  // Heights count along gravity, from the origin of the world.
  if (w->m->disableflags & pb_disGravity) return 0;

  for (int b = 1; b < w->m->nbody; b++) {
    if (!moving || w->t->body_tree[b] >= 0) energy -= w->p.body_mass[b] * v3_dot(w->p.gravity, w->xipos + 3 * b);
  }
  return energy;
}

num NUM(pbEnergy_Springs)(const NUM(pbMechanism) *w) {
  num energy = 0;
  if (w->m->disableflags & pb_disSpring) return 0;  // switched off they hold nothing

  for (int j = 0; j < w->m->njnt; j++) energy += joint_spring_energy(w, j);
  for (int k = 0; k < w->m->ntendon; k++) energy += tendon_spring_energy(w, k);
  return energy;
}

num NUM(pbEnergy_Kinetic)(const NUM(pbMechanism) *w) {
  num sum = 0;

  // M holds armatures, too.
  NUM(pbTree_Mul)(&w->t->M, w->M, w->qvel, w->tmp);
  for (int i = 0; i < w->m->nv; i++) sum += w->qvel[i] * w->tmp[i];
  return sum / 2;
}
