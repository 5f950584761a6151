// Passive forces: springs, dampers, gravity compensation, fluid; and their derivative by velocity for implicitfast.
// Tests: tests/unit/test_kinks.c, tests/oracle/test_stages.py, tests/oracle/test_derivatives.py.
#include "base/assert.h"
#include "eval/work.h"
#include "math/vec.h"
#include "multibody/kink.h"
#include "multibody/muscle.h"
#include "multibody/spatial.h"

// Damping that actuators reflect to a joint's dof or a tendon: actuator_damping gear^2, with its polynomial.
static inline void add_reflected_damping(const NUM(pbWork) *w, const int *start, const int *list, int i, num c[3]) {
  for (int k = start[i]; k < start[i + 1]; k++) {
    int u = list[k];
    if (num_is(w->p.actuator_damping[u], 0) && num_is(w->p.actuator_dampingpoly[2 * u], 0) &&
        num_is(w->p.actuator_dampingpoly[2 * u + 1], 0))
      continue;
    num gear2 = w->p.actuator_gear[6 * u] * w->p.actuator_gear[6 * u];
    c[0] += w->p.actuator_damping[u] * gear2;
    c[1] += w->p.actuator_dampingpoly[2 * u] * gear2;
    c[2] += w->p.actuator_dampingpoly[2 * u + 1] * gear2;
  }
}

void NUM(pbDof_Damping)(const NUM(pbWork) *w, int dof, num c[3]) {
  c[0] = w->p.dof_damping[dof];
  c[1] = w->p.dof_dampingpoly[2 * dof];
  c[2] = w->p.dof_dampingpoly[2 * dof + 1];
  add_reflected_damping(w, w->t->dof_actuator_start, w->t->dof_actuator, dof, c);
}

void NUM(pbTendon_Damping)(const NUM(pbWork) *w, int tendon, num c[3]) {
  c[0] = w->p.tendon_damping[tendon];
  c[1] = w->p.tendon_dampingpoly[2 * tendon];
  c[2] = w->p.tendon_dampingpoly[2 * tendon + 1];
  add_reflected_damping(w, w->t->ten_actuator_start, w->t->ten_actuator, tendon, c);
}

// force -= k(|dif|) dif
static void add_spring3(const num c[3], const num dif[3], num *force) {
  num r = re(v3_dot(dif, dif)) > 0 ? v3_norm(dif) : 0;
  v3_addscl(force, dif, -pb_polynomialForce(c, r, false));
}

// Joints resist by k(x) x: x the distance from rest, of a free joint that of its position, then of its rotation.
static void joint_spring(NUM(pbWork) *w, int j) {
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

// Spring and damper of a tendon, along its Jacobian.
static void tendon_passive(NUM(pbWork) *w, int k, bool springs, bool dampers) {
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

// out += J' wrench for the body's dofs, wrench about its tree's ref.
static void add_wrench(const NUM(pbWork) *w, int body, const num wrench[6], num *out) {
  for (int i = w->t->body_dofend[body]; i >= 0; i = w->m->dof_parentid[i]) out[i] += PB_DOT6(w->S + 6 * i, wrench);
}

static bool gravity_acts(const NUM(pbWork) *w) {
  const num *g = w->p.gravity;
  return !(w->m->disableflags & pb_disGravity) && !v3_is_zero(g);
}

// Against gravity, at the center of mass.
static void gravity_compensation(NUM(pbWork) *w) {
  for (int b = 1; b < w->m->nbody; b++) {
    if (w->t->body_tree[b] < 0 || num_is(w->p.body_gravcomp[b], 0)) continue;
    num d[3], force[3], wrench[6] = {0};

    v3_scale(force, w->p.gravity, -w->p.body_mass[b] * w->p.body_gravcomp[b]);
    body_offset(w, b, w->xipos + 3 * b, d);
    PB_ADDWRENCH(wrench, 1, d, force);
    add_wrench(w, b, wrench, w->qfrc_gravcomp);
  }
}

static void fluid_forces(NUM(pbWork) *w) {
  for (int b = 1; b < w->m->nbody; b++) {
    if (w->t->body_tree[b] < 0 || re(w->p.body_mass[b]) < 1e-15) continue;
    num wrench[6] = {0};
    NUM(pbFluid_Body)(w, b, wrench);
    add_wrench(w, b, wrench, w->qfrc_fluid);
  }
}

static void joint_dampers(NUM(pbWork) *w) {
  for (int i = 0; i < w->m->nv; i++) {
    num c[3], v = w->qvel[i];
    NUM(pbDof_Damping)(w, i, c);
    w->qfrc_damper[i] = -v * pb_polynomialForce(c, v, true);
  }
}

static void joint_springs(NUM(pbWork) *w) {
  for (int j = 0; j < w->m->njnt; j++) joint_spring(w, j);
}

void NUM(pbStage_Passive)(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  size_t bytes = (size_t)m->nv * sizeof(num);
  memset(w->qfrc_spring, 0, bytes);
  memset(w->qfrc_damper, 0, bytes);
  memset(w->qfrc_gravcomp, 0, bytes);

  memset(w->qfrc_fluid, 0, bytes);

  w->has_fluid = !num_is(w->p.density[0], 0) || !num_is(w->p.viscosity[0], 0);
  if (w->has_fluid) NUM(pbStage_AllGeoms)(w);

  // MuJoCo's flags of springs and dampers both switch off all passive forces.
  bool springs = !(m->disableflags & pb_disSpring), dampers = !(m->disableflags & pb_disDamper);
  if (springs || dampers) {
    if (springs) joint_springs(w);
    if (dampers) joint_dampers(w);
    for (int k = 0; k < m->ntendon; k++) tendon_passive(w, k, springs, dampers);
    if (gravity_acts(w)) gravity_compensation(w);
    if (w->has_fluid) fluid_forces(w);
  }

  // Gravity compensation that goes through actuators is theirs.
  for (int i = 0; i < m->nv; i++) {
    num sum = w->qfrc_spring[i] + w->qfrc_damper[i] + w->qfrc_fluid[i];
    w->qfrc_passive[i] = m->jnt_actgravcomp[m->dof_jntid[i]] ? sum : sum + w->qfrc_gravcomp[i];
  }
}

// ---- derivative by velocity (implicitfast) --------------------------------------------------------------------------
// D += b r r' for a sparse row r, on the pattern of M.
static void add_outer(const NUM(pbWork) *w, const int *dofs, const num *row, int n, num b, num *D) {
  const pbTreePattern *tree = &w->t->M;
  for (int a = 0; a < n; a++) {
    PB_ASSERT(dofs[a] >= 0 && dofs[a] < w->m->nv);
    for (int c = 0; c <= a; c++) {
      int i = dofs[a], depth = tree->depth[dofs[c]];
      if (depth <= tree->depth[i] && tree->chain[tree->adr[i] + depth] == dofs[c]) D[tree->adr[i] + depth] += b * row[a] * row[c];
    }
  }
}

static bool at_end(num x, const num range[2]) { return re(x) <= re(range[0]) || re(x) >= re(range[1]); }

bool NUM(pbActuator_Saturated)(const NUM(pbWork) *w, int u) {
  const pbModel *m = w->m;
  int id = m->actuator_trnid[2 * u];

  if (m->actuator_servo[u] || pb_actuator_off(m, u)) return true;  // the force of a servo is a row's
  if (m->actuator_forcelimited[u] && at_end(w->actuator_force[u], w->p.actuator_forcerange + 2 * u)) return true;

  // A tendon's scale is one where its limit does not hold; joints have theirs, others none.
  if (m->actuator_trntype[u] == pb_trnTendon) return re(w->act_scale[u]) != 1;
  if (m->actuator_trntype[u] > pb_trnJointInParent || !m->jnt_actfrclimited[id]) return false;
  return at_end(w->qfrc_actuator[m->jnt_dofadr[id]], w->p.jnt_actfrcrange + 2 * id);
}

// Biases and gains that are affine in velocity, and the gain of muscles.
num NUM(pbActuator_Slope)(const NUM(pbWork) *w, int u) {
  if (NUM(pbActuator_Saturated)(w, u)) return 0;
  num slope = w->m->actuator_biastype[u] == pb_biasAffine ? w->p.actuator_biasprm[10 * u + 2] : 0;
  if (w->m->actuator_gaintype[u] == pb_gainAffine) slope += w->p.actuator_gainprm[10 * u + 2] * w->act_input[u];
  if (w->m->actuator_gaintype[u] == pb_gainMuscle) slope += NUM(pbMuscle_GainSlope)(w, u) * w->act_input[u];
  return slope;
}

// D += S_i' B S_j for a body's 6x6 velocity derivative B about ref.
static void add_body_block(const NUM(pbWork) *w, int body, const num B[36], num *D) {
  const pbTreePattern *tree = &w->t->M;
  int end = w->t->body_dofend[body];
  if (end < 0) return;
  const int *chain = tree->chain + tree->adr[end];
  PB_VALIDATE(pb_ascending(chain, tree->depth[end] + 1));

  for (int a = 0; a <= tree->depth[end]; a++) {
    num BS[6];
    const num *S = w->S + 6 * chain[a];
    for (int c = 0; c < 6; c++) {
      num s = 0;
      for (int r = 0; r < 6; r++) s += S[r] * B[6 * r + c];
      BS[c] = s;
    }
    for (int c = 0; c <= a; c++) D[tree->adr[chain[a]] + c] += PB_DOT6(BS, w->S + 6 * chain[c]);
  }
}

static void add_actuator_slopes(const NUM(pbWork) *w, num *D) {
  for (int u = 0; u < w->m->nu; u++) {
    num slope = NUM(pbActuator_Slope)(w, u);
    int adr = w->mom_start[u], n = w->mom_start[u + 1] - adr;
    if (re(slope) != 0 || im(slope) != 0) add_outer(w, w->mom_dofs + adr, w->mom + adr, n, slope, D);
  }
}

static void add_fluid_slopes(const NUM(pbWork) *w, num *D) {
  for (int b = 1; b < w->m->nbody; b++) {
    if (w->t->body_tree[b] < 0 || re(w->p.body_mass[b]) < 1e-15) continue;
    num B[36] = {0};
    NUM(pbFluid_Damping)(w, b, B);
    add_body_block(w, b, B, D);
  }
}

static void add_damper_slopes(const NUM(pbWork) *w, num *D) {
  const pbModel *m = w->m;
  const pbTreePattern *tree = &w->t->M;
  num c[3];
  for (int i = 0; i < m->nv; i++) {
    NUM(pbDof_Damping)(w, i, c);
    D[tree->adr[i] + tree->depth[i]] -= pb_polynomialSlope(c, w->qvel[i], true);
  }

  for (int k = 0; k < m->ntendon; k++) {
    NUM(pbTendon_Damping)(w, k, c);
    num slope = pb_polynomialSlope(c, w->ten_velocity[k], true);
    int adr = w->ten_start[k], n = w->ten_start[k + 1] - adr;
    if (re(slope) != 0 || im(slope) != 0) add_outer(w, w->ten_dofs + adr, w->ten_J + adr, n, -slope, D);
  }
}

void NUM(pbForce_Derivative)(const NUM(pbWork) *w, num *D) {
  const pbModel *m = w->m;
  if (!(m->disableflags & pb_disActuation)) add_actuator_slopes(w, D);
  if ((m->disableflags & pb_disSpring) && (m->disableflags & pb_disDamper)) return;
  if (w->has_fluid) add_fluid_slopes(w, D);
  if (!(m->disableflags & pb_disDamper)) add_damper_slopes(w, D);
}
