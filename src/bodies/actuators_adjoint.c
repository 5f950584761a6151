// Gradient of the virtual power of actuators: limits, activations, forces, moments; their laws are those of
// src/bodies/actuators. Each line stands below the power it differentiates. Primal: actuators.c; tests:
// tests/conformance/test_step.c.
#include <pullback/actuators.h>

#include "base/mutate.h"
#include "bodies/actuator_adjoint.h"
#include "bodies/actuators.h"
#include "contact/row_adjoint.h"
#include "math/vec.h"
#include "model/joint.h"
#include "model/servo.h"
#include "model/term_fields.h"

// ---- laws, by type ----------------------------------------------------------------------------------------------------
#define X(name, value, word, law) extern const LANE(pbTransmissionPull) LANE(pbTransmissionPull_##law);
PB_TRANSMISSIONS(X)
#undef X
#define X(name, value, word, law) extern const LANE(pbActuatorLawPull) LANE(pbGainPull_##law);
PB_GAINS(X)
#undef X
#define X(name, value, word, law) extern const LANE(pbActuatorLawPull) LANE(pbBiasPull_##law);
PB_BIASES(X)
#undef X
#define X(name, value, word, law) extern const LANE(pbActivationLawPull) LANE(pbDynamicsPull_##law);
PB_DYNAMICS_KINDS(X)
#undef X

static const LANE(pbTransmissionPull) *const transmissions[PB_ACTUATOR_KINDS] = {
#define X(name, value, word, law) [value] = &LANE(pbTransmissionPull_##law),
    PB_TRANSMISSIONS(X)
#undef X
};
static const LANE(pbActuatorLawPull) *const gains[PB_ACTUATOR_KINDS] = {
#define X(name, value, word, law) [value] = &LANE(pbGainPull_##law),
    PB_GAINS(X)
#undef X
};
// NULL: none.
static const LANE(pbActuatorLawPull) *const biases[PB_ACTUATOR_KINDS] = {
#define X(name, value, word, law) [value] = &LANE(pbBiasPull_##law),
    PB_BIASES(X)
#undef X
};
static const LANE(pbActivationLawPull) *const dynamics[PB_ACTUATOR_KINDS] = {
#define X(name, value, word, law) [value] = &LANE(pbDynamicsPull_##law),
    PB_DYNAMICS_KINDS(X)
#undef X
};

// ---- limits ---------------------------------------------------------------------------------------------------------
// A limit holds what is beyond it. What has its very value is free, as in the forward program: forces of zero on a range that
// begins there, above all.

// Force of actuators on a dof before the joint's limit, summed as the forward program does.
static num before_joint_limit(const NUM(pbMechanism) *w, int dof) {
  num sum = 0;
  for (int u = 0; u < w->m->nu; u++) {
    for (int a = w->mom_start[u]; a < w->mom_start[u + 1]; a++) {
      if (w->mom_dofs[a] == dof) sum += w->mom[a] * w->actuator_force[u];
    }
  }
  return w->m->jnt_actgravcomp[w->m->dof_jntid[dof]] ? sum + w->qfrc_gravcomp[dof] : sum;
}

static bool all_zero(const lane *x, int n) {
  for (int i = 0; i < n * PB_LANES; i++) {
    if (((const num *)x)[i] != 0) return false;
  }
  return true;
}

void LANE(pbForce_LimitActuators)(LANE(pbAdjoint) *a) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  LANE(pbRows_Losses)(a);
  for (int i = 0; i < m->nv; i++) a->lam_act[i] = a->lam[i] + (a->qfrc_actuator[i] + a->loss[i]);
  // J lam of tendons.
  for (int k = 0; k < m->ntendon; k++) {
    a->ten_power[k] = PB_LANE_ZERO;
    for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) a->ten_power[k] += w->ten_J[i] * a->lam[w->ten_dofs[i]];
  }
  a->act_free = all_zero(a->qfrc_actuator, m->nv) && !a->loaded;
  if ((m->disableflags & pb_disActuation) || !m->nu) return;

  // At a joint's limit the force is the end of its range, whatever the actuators do.
  for (int j = 0; j < m->njnt; j++) {
    int dof = m->jnt_dofadr[j];
    if (!m->jnt_actfrclimited[j]) continue;
    for (int side = 0; side < 2; side++) {
      num edge = w->p.jnt_actfrcrange[2 * j + side];
      if (w->qfrc_actuator[dof] != edge || before_joint_limit(w, dof) == edge) continue;
      PB_THETA(a, jnt_actfrcrange, 2 * j + side, a->lam_act[dof]);
      a->lam_act[dof] = PB_LANE_ZERO;
      a->act_free = false;
      break;
    }
  }
}

// The end of the range of activations that holds `next`: 0, 1, or -1 for none.
static int activation_end(const NUM(pbMechanism) *w, int u, num next) {
  if (!w->m->actuator_actlimited[u]) return -1;
  if (re(next) < re(w->p.actuator_actrange[2 * u])) return 0;
  return re(next) > re(w->p.actuator_actrange[2 * u + 1]) ? 1 : -1;
}

void LANE(pbActuator_PullTurns)(LANE(pbAdjoint) *a, int u, num setpoint, num near, lane bar) {
  const NUM(pbMechanism) *w = a->w;
  const num *gear = NUM(pbActuator_Turning)(w, u);
  num turns = gear ? NUM(pbActuator_Turns)(gear, setpoint, near) : 0;
  if (turns == 0) return;

  num rate = -turns * 2 * PB_PI / v3_norm(gear);
  for (int k = 0; k < 3; k++) PB_THETA(a, actuator_gear, (int)(gear - w->p.actuator_gear) + k, bar * (rate * gear[k]));
}

void LANE(pbForce_EulerNext)(LANE(pbAdjoint) *a, int i, num act_dot, lane bar, lane *act_bar, lane *dot_bar) {
  a->h_bar += PB_LANE0(bar) * act_dot;
  act_bar[i] += bar;
  dot_bar[i] += bar * a->w->p.timestep[0];
}

// The next activation, clamped, less its turns: act + act_dot h, or what the law says.
void LANE(pbForce_Next)(LANE(pbAdjoint) *a, int u, int index, num act, num act_dot, lane bar, lane *act_bar, lane *dot_bar) {
  const NUM(pbMechanism) *w = a->w;
  const LANE(pbActivationLawPull) *law = dynamics[w->m->actuator_dyntype[u]];
  PB_ASSERT(index >= 0 && index < w->m->na);

  if (index == w->m->actuator_actadr[u] + w->m->actuator_actnum[u] - 1)
    LANE(pbActuator_PullTurns)(a, u, NUM(pbActuator_Next)(w, u, index, act, act_dot), w->act_length[u], bar);

  int end = activation_end(w, u, NUM(pbActuator_Free)(w, u, index, act, act_dot));
  if (end >= 0) {
    PB_THETA(a, actuator_actrange, 2 * u + end, bar);
    return;
  }

  if (law->pull_next) law->pull_next(a, u, index, act, act_dot, bar, act_bar, dot_bar);
  else LANE(pbForce_EulerNext)(a, index, act_dot, bar, act_bar, dot_bar);
}

// ---- one actuator's force -------------------------------------------------------------------------------------------
void LANE(pbActuator_PullControl)(LANE(pbAdjoint) *a, int u, lane bar) {
  const NUM(pbMechanism) *w = a->w;
  if (w->m->actuator_ctrllimited[u] && !(w->m->disableflags & pb_disClampctrl)) {
    for (int side = 0; side < 2; side++) {
      num edge = w->p.actuator_ctrlrange[2 * u + side];
      if (side ? re(w->ctrl[u]) <= re(edge) : re(w->ctrl[u]) >= re(edge)) continue;
      PB_THETA(a, actuator_ctrlrange, 2 * u + side, bar);
      return;
    }
  }

  if (a->ctrl) a->ctrl[u] += bar;
}

// Cotangent of what the gain multiplies: the control, or the last activation (of this step, or with actearly of the next).
static void pull_input(LANE(pbAdjoint) *a, int u, lane bar) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  if (pb_actuator_direct(m, u)) {
    LANE(pbActuator_PullTurns)(a, u, NUM(pbActuator_Control)(w, u), w->act_length[u], bar);
    LANE(pbActuator_PullControl)(a, u, bar);
    return;
  }

  int i = m->actuator_actadr[u] + m->actuator_actnum[u] - 1;
  if (m->actuator_actearly[u]) {
    LANE(pbForce_Next)(a, u, i, w->act[i], w->act_dot[i], bar, a->act, a->act_dot);
    return;
  }

  LANE(pbActuator_PullTurns)(a, u, w->act[i], w->act_length[u], bar);
  a->act[i] += bar;
}

// End of its own range that holds an actuator's force: 0, 1, or -1 for none.
static int holding_end(const NUM(pbMechanism) *w, int u) {
  if (!w->m->actuator_forcelimited[u]) return -1;
  const num *range = w->p.actuator_forcerange + 2 * u;
  num force = w->act_scale[u] == 1 ? w->act_raw[u] : w->act_raw[u] * w->act_scale[u];
  if (re(force) < re(range[0])) return 0;
  return re(force) > re(range[1]) ? 1 : -1;
}

// Cotangent of the actuator's force before any limit, from that of the force applied (of all actuators: all).
static lane pull_limits(LANE(pbAdjoint) *a, int u, lane bar, const lane *all) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  int end = holding_end(w, u);
  if (end >= 0) PB_THETA(a, actuator_forcerange, 2 * u + end, bar);
  if (w->act_scale[u] == 1) return end >= 0 ? PB_LANE_ZERO : bar;

  // The tendon's limit scales f = held f0 / total: all its actuators share the scale, and also one at an end of its own range
  // moves the total.
  if (end >= 0) bar = PB_LANE_ZERO;
  int k = m->actuator_trnid[2 * u];
  num total = 0;
  lane shared = PB_LANE_ZERO;
  for (int o = 0; o < m->nu; o++) {
    if (m->actuator_trntype[o] != pb_trnTendon || m->actuator_trnid[2 * o] != k) continue;
    total += w->act_raw[o];
    if (holding_end(w, o) < 0) shared += all[o] * w->act_raw[o];
  }

  // held is the end of the tendon's range that is nearer.
  num held = w->act_scale[u] * total;
  bool low = fabs(re(held - w->p.tendon_actfrcrange[2 * k])) < fabs(re(held - w->p.tendon_actfrcrange[2 * k + 1]));
  PB_THETA(a, tendon_actfrcrange, 2 * k + !low, bar * w->act_raw[u] / total);
  return w->act_scale[u] * (bar - shared / total);
}

// f = gain input + bias within limits, and what is beyond them: to the input, length, velocity and parameters.
static void pull_force_law(LANE(pbAdjoint) *a, int u, lane bar, const lane *all, lane *length, lane *velocity) {
  const NUM(pbMechanism) *w = a->w;
  const LANE(pbActuatorLawPull) *bias = biases[w->m->actuator_biastype[u]];
  PB_ASSERT(u >= 0 && u < w->m->nu);
  if (bias && bias->pull_beyond) bias->pull_beyond(a, u, bar, length, velocity);
  bar = pull_limits(a, u, bar, all);

  pull_input(a, u, bar * w->act_gain[u]);
  gains[w->m->actuator_gaintype[u]]->pull(a, u, bar * w->act_input[u], length, velocity);
  if (bias) bias->pull(a, u, bar, length, velocity);
}

// The rates of its activations, once their cotangents are whole: inputs have added to what they will be.
static void pull_rates(LANE(pbAdjoint) *a, int u, lane *velocity) {
  const pbModel *m = a->w->m;
  int first = m->actuator_actadr[u], end = first + m->actuator_actnum[u];
  if (pb_actuator_off(m, u) || first < 0) return;

  PB_MUTE(pb_muteDynamics, m->actuator_dyntype[u], a->act_dot + first, m->actuator_actnum[u]);
  for (int i = first; i < end; i++) dynamics[m->actuator_dyntype[u]]->pull(a, u, i, velocity);
}

// Servos: the velocity asked for is -(gain input + b0 + b1 length) / b2, clipped to the speed, zero in the dead band.
static void pull_servo_law(LANE(pbAdjoint) *a, int u, lane *length) {
  const NUM(pbMechanism) *w = a->w;
  const num *b = w->p.actuator_biasprm + 10 * u;
  num speed = PB_TERM(w, actuator_speed)[u], asked = w->act_raw[u];
  lane bar = a->act_target[u];
  if (pbServo_Rests(re(asked), re(PB_TERM(w, actuator_deadband)[u]))) return;
  if (re(speed) > 0 && fabs(re(asked)) > re(speed)) {
    PB_TERM_THETA(a, actuator_speed, u, re(asked) > 0 ? bar : -bar);
    return;
  }

  // From here on the cotangent of gain input + b0 + b1 length.
  PB_THETA(a, actuator_biasprm, 10 * u + 2, -bar * (asked / b[2]));
  bar = bar / -b[2];
  PB_THETA(a, actuator_gainprm, 10 * u, bar * w->act_input[u]);
  PB_THETA(a, actuator_biasprm, 10 * u, bar);
  PB_THETA(a, actuator_biasprm, 10 * u + 1, bar * w->act_length[u]);
  *length += bar * b[1];
  pull_input(a, u, bar * w->act_gain[u]);
}

// implicitfast: W = h slope mu' (r r') ahat, r the moment, slope = bias' + gain' input that of the force by velocity
static void implicit_actuator(LANE(pbAdjoint) *a, int u, lane *length, lane *velocity) {
  const NUM(pbMechanism) *w = a->w;
  const LANE(pbActuatorLawPull) *gain = gains[w->m->actuator_gaintype[u]], *bias = biases[w->m->actuator_biastype[u]];
  num slope = NUM(pbActuator_Slope)(w, u), h = w->p.timestep[0];
  int adr = w->mom_start[u], n = w->mom_start[u + 1] - adr;
  if (NUM(pbActuator_Held)(w, u)) return;

  lane power = pb_outerPower(w, w->mom_dofs + adr, w->mom + adr, n, h * slope, a->mu, w->qacc_integrated, a->c);
  a->h_bar += PB_LANE0(power) * slope;

  lane bar = h * power;
  if (bias && bias->pull_beyond_slope) bias->pull_beyond_slope(a, u, bar);
  if (NUM(pbActuator_Saturated)(w, u)) return;
  if (bias && bias->pull_slope) bias->pull_slope(a, u, bar, length, velocity);
  if (!gain->pull_slope) return;
  gain->pull_slope(a, u, bar * w->act_input[u], length, velocity);
  pull_input(a, u, bar * NUM(pbActuator_GainSlope)(w, u));
}

// ---- actuators ------------------------------------------------------------------------------------------------------
// Cotangent of the moment's entry at a dof. Of a servo's force and its row's residual J a + b (J v - target); sensors read its
// force on dofs as well.
static lane moment_bar(const LANE(pbAdjoint) *a, int u, int dof) {
  const NUM(pbMechanism) *w = a->w;
  num force = w->actuator_force[u];
  if (!w->m->actuator_servo[u]) return force * a->lam_act[dof];
  return force * (a->lam[dof] + a->qfrc_actuator[dof]) - a->act_residual[u] * a->at.qacc[dof] - a->act_target[u] * w->qvel[dof];
}

// c is zero for the next one.
static void clear_moment(LANE(pbAdjoint) *a, int u) {
  const NUM(pbMechanism) *w = a->w;
  if (transmissions[w->m->actuator_trntype[u]]->sees_sites) memset(a->c, 0, (size_t)w->m->nv * sizeof(lane));
  for (int i = w->mom_start[u]; i < w->mom_start[u + 1]; i++) a->c[w->mom_dofs[i]] = PB_LANE_ZERO;
}

// W = f (m . lam) + velocity (m . v), m the moment; bar is the cotangent of f.
static void pull_actuator(LANE(pbAdjoint) *a, int u, lane bar, const lane *all) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  int adr = w->mom_start[u], end = w->mom_start[u + 1];
  PB_VALIDATE(pb_ascending(w->mom_dofs + adr, end - adr) && pb_allWithin(w->mom_dofs + adr, end - adr, 0, m->nv));
  const LANE(pbTransmissionPull) *transmission = transmissions[m->actuator_trntype[u]];
  lane length = a->act_len[u], velocity = a->act_vel[u];
  if (pb_servo(m, u)) pull_servo_law(a, u, &length);
  else if (!pb_actuator_off(m, u)) pull_force_law(a, u, bar, all, &length, &velocity);

  // c is zero so far; implicit damping may add to the cotangent of the velocity.
  bool implicit = a->damped && m->integrator == pb_intImplicitfast;
  if (implicit) implicit_actuator(a, u, &length, &velocity);
  pull_rates(a, u, &velocity);
  if (transmission->pull_along && a->act_free && !m->actuator_servo[u]) {
    transmission->pull_along(a, u, length, velocity);
    if (implicit) transmission->pull(a, u, PB_LANE_ZERO);
    clear_moment(a, u);
    return;
  }
  for (int i = adr; i < end; i++) a->v[w->mom_dofs[i]] += w->mom[i] * velocity;

  // Of the moment. Entries of sites that are zero now may not stay so.
  if (transmission->sees_sites) {
    for (int i = 0; i < m->nv; i++) a->c[i] += w->actuator_force[u] * a->lam_act[i] + velocity * w->qvel[i];
  } else {
    for (int i = adr; i < end; i++) a->c[w->mom_dofs[i]] += moment_bar(a, u, w->mom_dofs[i]) + velocity * w->qvel[w->mom_dofs[i]];
  }
  transmission->pull(a, u, length);

  clear_moment(a, u);
}

void LANE(pbForce_Actuators)(LANE(pbAdjoint) *a) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;

  // No forces, but lengths are still observed.
  if (m->disableflags & pb_disActuation) {
    memset(a->c, 0, (size_t)m->nv * sizeof(lane));
    for (int u = 0; u < m->nu; u++) transmissions[m->actuator_trntype[u]]->pull(a, u, a->act_len[u]);
    return;
  }

  lane *all = a->act_force;  // cotangent of each force: m . lam and what sensors gave
  for (int u = 0; u < m->nu; u++) {
    for (int i = w->mom_start[u]; i < w->mom_start[u + 1]; i++) all[u] += w->mom[i] * a->lam_act[w->mom_dofs[i]];
    PB_MUTE(pb_muteTransmission, m->actuator_trntype[u], all + u, 1);
    PB_MUTE(pb_muteGain, m->actuator_gaintype[u], all + u, 1);
    PB_MUTE(pb_muteBias, m->actuator_biastype[u], all + u, 1);
  }

  memset(a->c, 0, (size_t)m->nv * sizeof(lane));
  for (int u = 0; u < m->nu; u++) pull_actuator(a, u, all[u], all);
}
