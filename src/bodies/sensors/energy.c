// Energies of a state (multibody/energy.h).
// Tests: tests/conformance/test_lists.c, tests/conformance/test_step.c, tests/oracle/test_derivatives.py.
#include <pullback/sensors.h>

#include "bodies/sensor.h"
#include "math/vec.h"
#include "model/joint.h"
#include "multibody/energy.h"
#include "multibody/frame.h"
#include "multibody/kink.h"
#include "multibody/spatial.h"
#include "multibody/tendon.h"

static void value(const NUM(pbMechanism) *w, int i, num *y) {
  if (w->m->sensor_type[i] == pb_sensKinetic) y[0] = NUM(pbEnergy_Kinetic)(w);
  else y[0] = NUM(pbEnergy_Gravity)(w, false) + NUM(pbEnergy_Springs)(w);
}
PB_SENSOR_VALUE(energy, value);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/sensor_adjoint.h"
#include "multibody/frame_adjoint.h"
#include "multibody/polynomial.h"

// ---- potential energy -------------------------------------------------------------------------------------------------
// -m g . x
static void pull_weight(LANE(pbAdjoint) *a, int b, lane bar) {
  const num *g = a->w->p.gravity;
  num mass = a->w->p.body_mass[b];

  // At the center of mass.
  frame_bar s;
  frame_bar_at(a, pb_refBody, b, &s);

  for (int k = 0; k < 3; k++) {
    s.force[k] = -mass * g[k] * bar;
    PB_THETA(a, gravity, k, -mass * s.f.pos[k] * bar);
  }
  PB_THETA(a, body_mass, b, -v3_dot(g, s.f.pos) * bar);
  frame_bar_done(a, &s);
}

// x^2 (c0 / 2 + c1 x / 3 + c2 x^2 / 4) of a joint by its coefficients; returns the slope by x over x.
static num pull_stiffness(LANE(pbAdjoint) *a, int j, num x, lane bar) {
  const NUM(pbMechanism) *w = a->w;
  const num c[3] = {w->p.jnt_stiffness[j], w->p.jnt_stiffnesspoly[2 * j], w->p.jnt_stiffnesspoly[2 * j + 1]};
  PB_THETA(a, jnt_stiffness, j, bar * (x * x / 2));
  PB_THETA(a, jnt_stiffnesspoly, 2 * j, bar * (x * x * x / 3));
  PB_THETA(a, jnt_stiffnesspoly, 2 * j + 1, bar * (x * x * x * x / 4));
  return pb_polynomialForce(c, x, false);
}

// By the angle of the rotation d from rest to q: both turn about d itself, one against the other.
static void pull_rotation(LANE(pbAdjoint) *a, int j, int qadr, int dof, lane bar) {
  const NUM(pbMechanism) *w = a->w;
  num q[4], back[4], d[3];

  // The rotation vector.
  quat_copy(q, w->qpos + qadr);
  quat_normalize(q);
  quat_conj(back, w->p.qpos_spring + qadr);
  quat_mul(q, back, q);
  quat_log(d, q);

  num k = pull_stiffness(a, j, v3_norm(d), bar);
  for (int i = 0; i < 3; i++) a->q[dof + i] += k * d[i] * bar;
#if PB_LANES == 1
  if (PB_WANTS(a, pb_wantSprings)) {
    v3_scale(d, d, -k * bar);
    pb_quat_pull(a->bar.qpos_spring + qadr, w->p.qpos_spring + qadr, d);
  }
#endif
}

static void pull_joint_spring(LANE(pbAdjoint) *a, int j, lane bar) {
  const NUM(pbMechanism) *w = a->w;
  int qadr = w->m->jnt_qposadr[j], dof = w->m->jnt_dofadr[j], type = w->m->jnt_type[j];
  if (!pbJoint_IsScalar(type) && type != pb_jntFree) {
    pull_rotation(a, j, qadr, dof, bar);
    return;
  }

  // A slide's or hinge's one number, or the three of a free joint's position.
  int n = type == pb_jntFree ? 3 : 1;
  num d[3] = {0};
  for (int i = 0; i < n; i++) d[i] = w->qpos[qadr + i] - w->p.qpos_spring[qadr + i];
  num k = pull_stiffness(a, j, n == 3 ? v3_norm(d) : d[0], bar);
  for (int i = 0; i < n; i++) {
    a->q[dof + i] += k * d[i] * bar;
    PB_THETA(a, qpos_spring, qadr + i, -k * d[i] * bar);
  }
  if (n == 3) pull_rotation(a, j, qadr + 3, dof + 3, bar);
}

static void pull_tendon_spring(LANE(pbAdjoint) *a, int k, lane bar) {
  const NUM(pbMechanism) *w = a->w;
  const num c[3] = {w->p.tendon_stiffness[k], w->p.tendon_stiffnesspoly[2 * k], w->p.tendon_stiffnesspoly[2 * k + 1]};
  num x = tendon_stretch(w, k), force = x * pb_polynomialForce(c, x, false);
  double share[2];

  // At an end of the band half of a slope belongs to each side.
  band_shares(w->ten_length[k], w->p.tendon_lengthspring[2 * k], w->p.tendon_lengthspring[2 * k + 1], share);

  a->ten_len[k] += force * (share[0] + share[1]) * bar;
  for (int side = 0; side < 2; side++) PB_THETA(a, tendon_lengthspring, 2 * k + side, -force * share[side] * bar);
  PB_THETA(a, tendon_stiffness, k, bar * (x * x / 2));
  PB_THETA(a, tendon_stiffnesspoly, 2 * k, bar * (x * x * x / 3));
  PB_THETA(a, tendon_stiffnesspoly, 2 * k + 1, bar * (x * x * x * x / 4));
}

static void pull_potential(LANE(pbAdjoint) *a, lane bar) {
  const pbModel *m = a->w->m;
  if (!(m->disableflags & pb_disGravity)) {
    for (int b = 1; b < m->nbody; b++) pull_weight(a, b, bar);
  }

  if (m->disableflags & pb_disSpring) return;
  for (int j = 0; j < m->njnt; j++) pull_joint_spring(a, j, bar);
  for (int k = 0; k < m->ntendon; k++) pull_tendon_spring(a, k, bar);
}

// ---- kinetic energy ---------------------------------------------------------------------------------------------------
// m u^2 / 2 + L . w / 2 of a body, u the velocity of its center of mass, L = R diag(I) R' w
static void pull_body(LANE(pbAdjoint) *a, int b, lane bar) {
  const NUM(pbMechanism) *w = a->w;
  const num *I = w->p.body_inertia + 3 * b, *V = w->V + 6 * b;
  num u[3], own[3], spin[3], mass = w->p.body_mass[b];
  lane momentum[3];

  frame_bar s;
  frame_bar_at(a, pb_refBody, b, &s);

  NUM(pbFrame_Velocity)(w, &s.f, u);
  PB_THETA(a, body_mass, b, bar * (v3_dot(u, u) / 2));
  for (int k = 0; k < 3; k++) momentum[k] = mass * u[k] * bar;
  pull_velocity(a, &s, momentum);

  // By the turn t of the frame: L . (w x t), which is t . (L x w).
  m3_tmulv(own, s.f.mat, V);
  int products = w->m->ndesignbody ? 3 : 0;
  for (int k = 0; k < products; k++) PB_THETA(a, body_products, 3 * b + k, bar * (own[(k + 1) % 3] * own[(k + 2) % 3]));
  for (int k = 0; k < 3; k++) {
    PB_THETA(a, body_inertia, 3 * b + k, bar * (own[k] * own[k] / 2));
    own[k] *= I[k];
  }
  m3_mulv(spin, s.f.mat, own);
  for (int k = 0; k < 3; k++) {
    momentum[k] = spin[k] * bar;
    a->FV[6 * b + k] += momentum[k];
  }
  PB_CROSS(s.torque, momentum, V);
  frame_bar_done(a, &s);
}

// Sum of the rotors' share; its cotangent goes to their own and to gears.
static num pull_reflected(LANE(pbAdjoint) *a, const int *start, const int *list, int i, lane bar) {
  const NUM(pbMechanism) *w = a->w;
  num sum = 0;

  // Each by the square of its gear.
  for (int k = start[i]; k < start[i + 1]; k++) {
    int u = list[k];
    num gear = w->p.actuator_gear[6 * u], own = w->p.actuator_armature[u];
    sum += own * gear * gear;
    PB_THETA(a, actuator_armature, u, bar * (gear * gear));
    PB_THETA(a, actuator_gear, 6 * u, bar * (2 * gear * own));
  }
  return sum;
}

// Dofs of one chain alone have a place in M (dynamics.c, add_tendon_armature).
static bool has_place(const pbTreePattern *tree, int i, int j) {
  int late = i > j ? i : j, depth = tree->depth[i > j ? j : i];
  return depth <= tree->depth[late] && tree->chain[tree->adr[late] + depth] == (i > j ? j : i);
}

// armature / 2 sum of J_a v_a J_b v_b over the entries that M has
static void pull_tendon(LANE(pbAdjoint) *a, int k, lane bar) {
  const NUM(pbMechanism) *w = a->w;
  num armature = NUM(pbTendon_Armature)(w, k), power = 0;
  lane *other = armature != 0 ? LANE(pbTendon_Other)(a, k) : NULL;

  for (int x = w->ten_start[k]; x < w->ten_start[k + 1]; x++) {
    int i = w->ten_dofs[x];
    num sum = 0;
    for (int y = w->ten_start[k]; y < w->ten_start[k + 1]; y++) {
      if (has_place(&w->t->M, i, w->ten_dofs[y])) sum += w->ten_J[y] * w->qvel[w->ten_dofs[y]];
    }

    power += w->ten_J[x] * w->qvel[i] * sum;
    a->v[i] += armature * w->ten_J[x] * sum * bar;
    if (other) other[i] += armature * w->qvel[i] * sum * bar;
  }
  PB_THETA(a, tendon_armature, k, bar * (power / 2));
  pull_reflected(a, w->t->ten_actuator_start, w->t->ten_actuator, k, bar * (power / 2));
}

static void pull_kinetic(LANE(pbAdjoint) *a, lane bar) {
  const NUM(pbMechanism) *w = a->w;
  const pbTopology *t = w->t;
  for (int b = 1; b < w->m->nbody; b++) {
    if (t->body_tree[b] >= 0) pull_body(a, b, bar);
  }

  // Rotors: of the dofs' own, and of actuators.
  for (int i = 0; i < w->m->nv; i++) {
    num v = w->qvel[i];
    PB_THETA(a, dof_armature, i, bar * (v * v / 2));
    num reflected = pull_reflected(a, t->dof_actuator_start, t->dof_actuator, i, bar * (v * v / 2));
    a->v[i] += (w->p.dof_armature[i] + reflected) * v * bar;
  }
  for (int k = 0; k < w->m->ntendon; k++) pull_tendon(a, k, bar);
}

// ---- both -------------------------------------------------------------------------------------------------------------
static void pull(LANE(pbAdjoint) *a, int i, const lane *bar) {
  if (a->w->m->sensor_type[i] == pb_sensKinetic) pull_kinetic(a, bar[0]);
  else pull_potential(a, bar[0]);
}
PB_SENSOR_PULL(energy, pull);
#endif
