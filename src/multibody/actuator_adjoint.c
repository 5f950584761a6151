// Gradient of the virtual power of actuators: limits, activations, force laws, transmissions. Each line stands below the power it
// differentiates. Primal: actuator.c; tests: tests/conformance/test_step.c.
#include "base/mutate.h"
#include "math/vec.h"
#include "model/joint.h"
#include "model/servo.h"
#include "model/term_fields.h"
#include "multibody/force_adjoint.h"
#include "multibody/muscle.h"
#include "multibody/spatial.h"

// ---- limits ---------------------------------------------------------------------------------------------------------
// A limit holds what is beyond it. What has its very value is free, as in the forward program: forces of zero on a range that
// begins there, above all.

// Force of actuators on a dof before the joint's limit, summed as the forward program does.
static double before_joint_limit(const NUM(pbWork) *w, int dof) {
  double sum = 0;
  for (int u = 0; u < w->m->nu; u++) {
    for (int a = w->mom_start[u]; a < w->mom_start[u + 1]; a++) {
      if (w->mom_dofs[a] == dof) sum += w->mom[a] * w->actuator_force[u];
    }
  }
  return w->m->jnt_actgravcomp[w->m->dof_jntid[dof]] ? sum + w->qfrc_gravcomp[dof] : sum;
}

static bool all_zero(const lane *x, int n) {
  for (int i = 0; i < n * PB_LANES; i++) {
    if (((const double *)x)[i] != 0) return false;
  }
  return true;
}

void LANE(pbForce_LimitActuators)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  for (int i = 0; i < m->nv; i++) a->lam_act[i] = a->lam[i] + a->qfrc_actuator[i];
  // J lam of tendons.
  for (int k = 0; k < m->ntendon; k++) {
    a->ten_power[k] = PB_LANE_ZERO;
    for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) a->ten_power[k] += w->ten_J[i] * a->lam[w->ten_dofs[i]];
  }
  a->act_free = all_zero(a->qfrc_actuator, m->nv);
  if ((m->disableflags & pb_disActuation) || !m->nu) return;

  // At a joint's limit the force is the end of its range, whatever the actuators do.
  for (int j = 0; j < m->njnt; j++) {
    int dof = m->jnt_dofadr[j];
    if (!m->jnt_actfrclimited[j]) continue;
    for (int side = 0; side < 2; side++) {
      double edge = w->p.jnt_actfrcrange[2 * j + side];
      if (w->qfrc_actuator[dof] != edge || before_joint_limit(w, dof) == edge) continue;
      PB_THETA(a, jnt_actfrcrange, 2 * j + side, a->lam_act[dof]);
      a->lam_act[dof] = PB_LANE_ZERO;
      a->act_free = false;
      break;
    }
  }
}

// The end of the range of activations that holds `next`: 0, 1, or -1 for none.
static int activation_end(const NUM(pbWork) *w, int u, double next) {
  if (!w->m->actuator_actlimited[u]) return -1;
  if (next < w->p.actuator_actrange[2 * u]) return 0;
  return next > w->p.actuator_actrange[2 * u + 1] ? 1 : -1;
}

// A setpoint that was taken less its turns, 2 pi |gear| each.
static void pull_turns(LANE(pbAdjoint) *a, int u, double setpoint, double near, lane bar) {
  const NUM(pbWork) *w = a->w;
  const double *gear = NUM(pbActuator_Turning)(w, u);
  double turns = gear ? NUM(pbActuator_Turns)(gear, setpoint, near) : 0;
  if (turns == 0) return;

  double rate = -turns * 2 * PB_PI / v3_norm(gear);
  for (int k = 0; k < 3; k++) PB_THETA(a, actuator_gear, (int)(gear - w->p.actuator_gear) + k, bar * (rate * gear[k]));
}

// act_next = act + act_dot step, step = h or (filterexact) tau (1 - exp(-h / tau)), clamped, less its turns
void LANE(pbForce_Next)(LANE(pbAdjoint) *a, int u, int index, double act, double act_dot, lane bar, lane *act_bar,
                        lane *dot_bar) {
  const NUM(pbWork) *w = a->w;
  double h = w->p.timestep[0], tau = fmax(w->p.actuator_dynprm[10 * u], 1e-15);
  bool exact = w->m->actuator_dyntype[u] == pb_dynFilterExact;
  double decay = exact ? exp(-h / tau) : 1;  // and d(step)/dh
  double step = exact ? tau * (1 - decay) : h;
  PB_ASSERT(index >= 0 && index < w->m->na);

  if (index == w->m->actuator_actadr[u] + w->m->actuator_actnum[u] - 1)
    pull_turns(a, u, NUM(pbActuator_Next)(w, u, act, act_dot), w->act_length[u], bar);

  int end = activation_end(w, u, act + act_dot * step);
  if (end >= 0) {
    PB_THETA(a, actuator_actrange, 2 * u + end, bar);
    return;
  }

  if (exact && tau > 1e-15) PB_THETA(a, actuator_dynprm, 10 * u, bar * act_dot * (1 - decay - h / tau * decay));
  act_bar[index] += bar;
  dot_bar[index] += bar * step;
  a->h_bar += PB_LANE0(bar) * act_dot * decay;
}

// ---- one actuator's force -------------------------------------------------------------------------------------------
// Cotangent of the control to ctrl or the end of its range.
static void pull_control(LANE(pbAdjoint) *a, int u, lane bar) {
  const NUM(pbWork) *w = a->w;
  if (w->m->actuator_ctrllimited[u] && !(w->m->disableflags & pb_disClampctrl)) {
    for (int side = 0; side < 2; side++) {
      double edge = w->p.actuator_ctrlrange[2 * u + side];
      if (side ? w->ctrl[u] <= edge : w->ctrl[u] >= edge) continue;
      PB_THETA(a, actuator_ctrlrange, 2 * u + side, bar);
      return;
    }
  }

  if (a->ctrl) a->ctrl[u] += bar;
}

// Cotangent of what the gain multiplies: the control, or the last activation (of this step, or with actearly of the next).
static void pull_input(LANE(pbAdjoint) *a, int u, lane bar) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  if (m->actuator_dyntype[u] == pb_dynNone) {
    pull_turns(a, u, NUM(pbActuator_Control)(w, u), w->act_length[u], bar);
    pull_control(a, u, bar);
    return;
  }

  int i = m->actuator_actadr[u] + m->actuator_actnum[u] - 1;
  if (m->actuator_actearly[u]) {
    LANE(pbForce_Next)(a, u, i, w->act[i], w->act_dot[i], bar, a->act, a->act_dot);
    return;
  }

  pull_turns(a, u, w->act[i], w->act_length[u], bar);
  a->act[i] += bar;
}

// act_dot = (u - act) / tau of a muscle
static void pull_muscle_rate(LANE(pbAdjoint) *a, int u, int i) {
  const NUM(pbWork) *w = a->w;
  lane bar = a->act_dot[i];
  double ctrl = NUM(pbActuator_Control)(w, u);
  PB_ASSERT(i >= 0 && i < w->m->na);

  NUM(pbMuscleRatePartials) d;
  NUM(pbMuscle_RatePartials)(w, u, ctrl, w->act[i], &d);
  a->act[i] += bar * d.act;
  for (int k = 0; k < 3; k++) PB_THETA(a, actuator_dynprm, 10 * u + k, bar * d.dynprm[k]);
  pull_control(a, u, bar * d.ctrl);
}

// act_dot = ctrl (integrator) | (ctrl - act) / tau (filters)
static void pull_activation(LANE(pbAdjoint) *a, int u) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  if (m->actuator_dyntype[u] == pb_dynNone) return;
  int i = m->actuator_actadr[u] + m->actuator_actnum[u] - 1;
  if (m->actuator_dyntype[u] == pb_dynMuscle) {
    pull_muscle_rate(a, u, i);
    return;
  }

  // A filter's rate depends on the activation and the time constant.
  lane bar = a->act_dot[i];
  double tau = w->p.actuator_dynprm[10 * u];

  if (m->actuator_dyntype[u] != pb_dynIntegrator) {
    double t = fmax(tau, 1e-15);
    bar = bar / t;
    a->act[i] -= bar;
    if (tau > 1e-15) PB_THETA(a, actuator_dynprm, 10 * u, -bar * w->act_dot[i]);
    pull_turns(a, u, NUM(pbActuator_Control)(w, u), w->act[i], bar);
  }
  pull_control(a, u, bar);
}

// End of its own range that holds an actuator's force: 0, 1, or -1 for none.
static int holding_end(const NUM(pbWork) *w, int u) {
  if (!w->m->actuator_forcelimited[u]) return -1;
  const double *range = w->p.actuator_forcerange + 2 * u;
  double force = w->act_scale[u] == 1 ? w->act_raw[u] : w->act_raw[u] * w->act_scale[u];
  if (force < range[0]) return 0;
  return force > range[1] ? 1 : -1;
}

// Cotangent of the actuator's force before any limit, from that of the force applied (of all actuators: all).
static lane pull_limits(LANE(pbAdjoint) *a, int u, lane bar, const lane *all) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int end = holding_end(w, u);
  if (end >= 0) PB_THETA(a, actuator_forcerange, 2 * u + end, bar);
  if (w->act_scale[u] == 1) return end >= 0 ? PB_LANE_ZERO : bar;

  // The tendon's limit scales f = held f0 / total: all its actuators share the scale, and also one at an end of its own range
  // moves the total.
  if (end >= 0) bar = PB_LANE_ZERO;
  int k = m->actuator_trnid[2 * u];
  double total = 0;
  lane shared = PB_LANE_ZERO;
  for (int o = 0; o < m->nu; o++) {
    if (m->actuator_trntype[o] != pb_trnTendon || m->actuator_trnid[2 * o] != k) continue;
    total += w->act_raw[o];
    if (holding_end(w, o) < 0) shared += all[o] * w->act_raw[o];
  }

  // held is the end of the tendon's range that is nearer.
  double held = w->act_scale[u] * total;
  bool low = fabs(held - w->p.tendon_actfrcrange[2 * k]) < fabs(held - w->p.tendon_actfrcrange[2 * k + 1]);
  PB_THETA(a, tendon_actfrcrange, 2 * k + !low, bar * w->act_raw[u] / total);
  return w->act_scale[u] * (bar - shared / total);
}

// Cotangent of a muscle's gain, its slope by velocity, or its bias; field: of its parameters.
static void pull_muscle(LANE(pbAdjoint) *a, int u, pbMusclePart part, lane bar, lane *length, lane *velocity) {
  NUM(pbMusclePartials) d;
  PB_ASSERT(u >= 0 && u < a->w->m->nu);
  if (!NUM(pbMuscle_Partials)(a->w, u, part, &d)) return;
  *length += bar * d.length;
  *velocity += bar * d.velocity;
  for (int k = 0; k < 2; k++) PB_TERM_THETA(a, actuator_lengthrange, 2 * u + k, bar * d.lengthrange[k]);
  PB_TERM_THETA(a, actuator_acc0, u, bar * d.acc0);

#if PB_LANES == 1
  if (!a->theta) return;
  double *prm_bar = (part == pb_muscleBias ? a->bar.actuator_biasprm : a->bar.actuator_gainprm) + 10 * u;
  for (int k = 0; k < 9; k++) prm_bar[k] += bar * d.prm[k];
#endif
}

// f = gain input + bias, gain and bias affine in length and velocity: their cotangents, parameters, the input's.
static void pull_force_law(LANE(pbAdjoint) *a, int u, lane bar, lane *length, lane *velocity) {
  const NUM(pbWork) *w = a->w;
  const double *g = w->p.actuator_gainprm + 10 * u, *b = w->p.actuator_biasprm + 10 * u;
  PB_ASSERT(u >= 0 && u < w->m->nu);
  double l = w->act_length[u], v = w->act_velocity[u], input = w->act_input[u];

  pull_input(a, u, bar * w->act_gain[u]);
  lane gain = bar * input;
  if (w->m->actuator_gaintype[u] == pb_gainMuscle) pull_muscle(a, u, pb_muscleGain, gain, length, velocity);
  else PB_THETA(a, actuator_gainprm, 10 * u, gain);
  if (w->m->actuator_biastype[u] == pb_biasMuscle) pull_muscle(a, u, pb_muscleBias, bar, length, velocity);

  // gain = g0 + g1 length + g2 velocity
  if (w->m->actuator_gaintype[u] == pb_gainAffine) {
    *length += gain * g[1];
    *velocity += gain * g[2];
    PB_THETA(a, actuator_gainprm, 10 * u + 1, gain * l);
    PB_THETA(a, actuator_gainprm, 10 * u + 2, gain * v);
  }

  // bias = b0 + b1 length + b2 velocity
  if (w->m->actuator_biastype[u] == pb_biasAffine) {
    *length += bar * b[1];
    *velocity += bar * b[2];
    PB_THETA(a, actuator_biasprm, 10 * u, bar);
    PB_THETA(a, actuator_biasprm, 10 * u + 1, bar * l);
    PB_THETA(a, actuator_biasprm, 10 * u + 2, bar * v);
  }
}

// Servos: the velocity asked for is -(gain input + b0 + b1 length) / b2, clipped to the speed, zero in the dead band.
static void pull_servo_law(LANE(pbAdjoint) *a, int u, lane *length) {
  const NUM(pbWork) *w = a->w;
  const double *b = w->p.actuator_biasprm + 10 * u;
  double speed = PB_TERM(w, actuator_speed)[u], asked = w->act_raw[u];
  lane bar = a->act_target[u];
  if (pbServo_Rests(asked, PB_TERM(w, actuator_deadband)[u])) return;
  if (speed > 0 && fabs(asked) > speed) {
    PB_TERM_THETA(a, actuator_speed, u, asked > 0 ? bar : -bar);
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

// implicitfast: W = h slope mu' (r r') ahat, r the moment and slope that of the force by velocity
static void implicit_actuator(LANE(pbAdjoint) *a, int u, lane *length, lane *velocity) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  double slope = NUM(pbActuator_Slope)(w, u), h = w->p.timestep[0];
  int adr = w->mom_start[u], n = w->mom_start[u + 1] - adr;
  if (NUM(pbActuator_Saturated)(w, u)) return;

  lane power = pb_outerPower(w, w->mom_dofs + adr, w->mom + adr, n, h * slope, a->mu, w->qacc_integrated, a->c);
  a->h_bar += PB_LANE0(power) * slope;

  // slope = biasprm[2] + gainprm[2] input
  lane bar = h * power;
  if (m->actuator_biastype[u] == pb_biasAffine) PB_THETA(a, actuator_biasprm, 10 * u + 2, bar);
  if (m->actuator_gaintype[u] == pb_gainMuscle) {  // slope = (gain's) input
    pull_muscle(a, u, pb_muscleGainSlope, bar * w->act_input[u], length, velocity);
    pull_input(a, u, bar * NUM(pbMuscle_GainSlope)(w, u));
  }

  if (m->actuator_gaintype[u] != pb_gainAffine) return;
  PB_THETA(a, actuator_gainprm, 10 * u + 2, bar * w->act_input[u]);
  pull_input(a, u, bar * w->p.actuator_gainprm[10 * u + 2]);
}

// ---- transmissions: c is the cotangent of the moment, length that of the length --------------------------------------
// Rotations: length = axis . gear', axis = log(q) (a free joint has none) and gear' = R' gear where the parent's frame counts.
static void rotation_moment(LANE(pbAdjoint) *a, int u, lane length) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int j = m->actuator_trnid[2 * u], dof = m->jnt_dofadr[j], qadr = m->jnt_qposadr[j];
  const double *gear = w->p.actuator_gear + 6 * u;
  bool free = m->jnt_type[j] == pb_jntFree, parent = m->actuator_trntype[u] == pb_trnJointInParent;
  int first = free ? dof + 3 : dof, g0 = 6 * u + (free ? 3 : 0);
  double q[4], axis[3] = {0}, rotated[3];
  lane c[3], t[3] = {0}, onto[3];

  quat_copy(q, w->qpos + qadr + (free ? 3 : 0));
  quat_normalize(q);
  if (!free) quat_log(axis, q);
  v3_copy(rotated, free ? gear + 3 : gear);
  if (parent) quat_rotate(rotated, (double[4]){q[0], -q[1], -q[2], -q[3]}, free ? gear + 3 : gear);

  // Cotangent of the rotated gear: of the moment, and through the length.
  for (int k = 0; k < 3; k++) c[k] = a->c[first + k] + length * axis[k];
  if (free) {
    for (int k = 0; k < 3; k++) PB_THETA(a, actuator_gear, 6 * u + k, a->c[dof + k]);
  }

  // The length also moves with the rotation vector.
  if (!free) {
    for (int k = 0; k < 3; k++) onto[k] = length * rotated[k];
    pb_log_pull(axis, onto, t);
  }
  if (parent) PB_ADDCROSS(t, -1, rotated, c);
  for (int k = 0; k < 3; k++) a->q[first + k] += t[k];

#if PB_LANES == 1
  if (a->theta) {
    double g[3];
    v3_copy(g, c);
    if (parent) quat_rotate(g, q, c);
    for (int k = 0; k < 3; k++) PB_THETA(a, actuator_gear, g0 + k, g[k]);
  }
#else
  (void)g0;
#endif
}
// Slides and hinges: length = gear q, moment gear.
static void joint_moment(LANE(pbAdjoint) *a, int u, lane length) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int j = m->actuator_trnid[2 * u], dof = m->jnt_dofadr[j];

  if (!pbJoint_IsScalar(m->jnt_type[j])) {
    rotation_moment(a, u, length);
    return;
  }
  a->q[dof] += length * w->p.actuator_gear[6 * u];
  PB_THETA(a, actuator_gear, 6 * u, a->c[dof] + length * w->qpos[m->jnt_qposadr[j]]);
}

// length = gear L, moment = gear dL/dq
static void tendon_moment(LANE(pbAdjoint) *a, int u, lane length) {
  const NUM(pbWork) *w = a->w;
  int k = w->m->actuator_trnid[2 * u];
  double gear = w->p.actuator_gear[6 * u];
  lane bar = length * w->ten_length[k], *other = LANE(pbTendon_Other)(a, k);

  for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) {
    other[w->ten_dofs[i]] += gear * a->c[w->ten_dofs[i]];
    bar += w->ten_J[i] * a->c[w->ten_dofs[i]];
  }
  a->ten_len[k] += gear * length;
  PB_THETA(a, actuator_gear, 6 * u, bar);
}

// The same where the moment's cotangent is force lam + velocity v: then the tendon has both.
static void tendon_pull(LANE(pbAdjoint) *a, int u, lane length, lane velocity) {
  const NUM(pbWork) *w = a->w;
  int k = w->m->actuator_trnid[2 * u];
  double gear = w->p.actuator_gear[6 * u], force = w->actuator_force[u];
  // moment = gear J
  a->ten_len[k] += gear * length;
  a->ten_vel[k] += gear * velocity;
  a->ten_lam[k] += gear * force;
  PB_THETA(a, actuator_gear, 6 * u, length * w->ten_length[k] + velocity * w->ten_velocity[k] + force * a->ten_power[k]);
}

// Last dof that moves both bodies; -1 if none. Dofs are numbered from the root, so the later one goes up.
static int common_dof(const NUM(pbWork) *w, int body1, int body2) {
  int a = w->t->body_dofend[body1], b = w->t->body_dofend[body2];
  while (a != b && a >= 0 && b >= 0) {
    if (a < b) b = w->m->dof_parentid[b];
    else a = w->m->dof_parentid[a];
  }
  return a == b ? a : -1;
}

// Torque on a body (world axes) into P, and on its site's frame.
static void add_torque(LANE(pbAdjoint) *a, int body, const lane t[3]) {
  for (int k = 0; k < 3; k++) a->P[6 * body + k] += t[k];
}

// What the two ends of a site transmission share: the wrench (world, plain) of unit force, and velocities it works on, first
// minus second.
typedef struct site_wrench {
  double force[3], torque[3];
  lane velocity[3], rotation[3];
  lane at[3];  // cotangent of the first end's position minus the second's
} site_wrench;

// One end: the wrench on the site's motion under X, with sign. p: cotangent of the site's position.
static void site_end(LANE(pbAdjoint) *a, int site, double sign, site_wrench *s, lane p[3]) {
  const NUM(pbWork) *w = a->w;
  int b = w->m->site_bodyid[site];
  const lane *X = a->X + 6 * b;
  double d[3], F[3], T[3];
  lane vel[3];

  body_offset(w, b, w->site_xpos + 3 * site, d);
  v3_scale(F, s->force, sign);
  v3_scale(T, s->torque, sign);
  PB_POINTVEL(vel, X, d);
  PB_CROSS(p, F, X);

  for (int k = 0; k < 3; k++) {
    p[k] += sign * s->at[k];
    s->velocity[k] += sign * vel[k];
    s->rotation[k] += sign * X[k];
  }
  LANE(pbSweep_Point)(a, b, d, F, p, a->F);
  for (int k = 0; k < 3; k++) a->F[6 * b + k] += T[k];
}

// Gradient of the reference length's rotational part: gear . log(r^-1 q), q and r the orientations of site and reference.
static void refsite_rotation(LANE(pbAdjoint) *a, int site, int ref, const double gear[3], lane length) {
  const NUM(pbWork) *w = a->w;
  double q[4], r[4], c[4], d[3], minus[3], R[9];
  lane g[3], right[3], left[3], torque[3], back[3];

  // d = log(r^-1 q)
  quat_mul(q, w->xquat + 4 * w->m->site_bodyid[site], w->p.site_quat + 4 * site);
  quat_mul(r, w->xquat + 4 * w->m->site_bodyid[ref], w->p.site_quat + 4 * ref);
  quat_conj(c, r);
  quat_mul(q, c, q);
  quat_log(d, q);

  v3_neg(minus, d);
  for (int k = 0; k < 3; k++) g[k] = length * gear[k];
  pb_log_pull(d, g, right);     // rotated from the right: by the site in its own axes
  pb_log_pull(minus, g, left);  // from the left: in the reference's axes

  quat_to_mat(R, r);
  for (int k = 0; k < 3; k++) {
    torque[k] = R[3 * k] * left[0] + R[3 * k + 1] * left[1] + R[3 * k + 2] * left[2];
    back[k] = -torque[k];
  }
  add_torque(a, w->m->site_bodyid[site], torque);
  add_torque(a, w->m->site_bodyid[ref], back);
#if PB_LANES == 1
  if (a->theta) {
    double *bar = a->bar.site_quat, other[3];
    v3_neg(other, left);
    pb_quat_pull(bar + 4 * site, w->p.site_quat + 4 * site, right);
    pb_quat_pull(bar + 4 * ref, w->p.site_quat + 4 * ref, other);
    for (int k = 0; k < 3; k++) PB_THETA(a, actuator_gear, (int)(gear - w->p.actuator_gear) + k, length * d[k]);
  }
#else
  (void)right;
#endif
}

// Parameters of a site transmission: poses of sites, gear in the frame's axes R.
static void site_parameters(LANE(pbAdjoint) *a, int u, const double *R, const site_wrench *s, const lane p[3], const lane q[3],
                            const lane torque[3]) {
#if PB_LANES == 1
  double g[3];
  int site = a->w->m->actuator_trnid[2 * u], ref = a->w->m->actuator_trnid[2 * u + 1];
  if (!a->theta) return;
  LANE(pbSweep_Site)(a, site, p, ref < 0 ? torque : NULL);
  if (ref >= 0) LANE(pbSweep_Site)(a, ref, q, torque);

  m3_tmulv(g, R, s->velocity);
  for (int k = 0; k < 3; k++) PB_THETA(a, actuator_gear, 6 * u + k, g[k]);
  m3_tmulv(g, R, s->rotation);
  for (int k = 0; k < 3; k++) PB_THETA(a, actuator_gear, 6 * u + 3 + k, g[k]);
#else
  (void)a;
  (void)u;
  (void)R;
  (void)s;
  (void)p;
  (void)q;
  (void)torque;
#endif
}

// The moment is a wrench of gear, fixed in the site's frame or the reference's, on the site's motion (against the reference's):
// W = (force, torque) . (motion of the rates c); with a reference the length is gear . (pose in its frame).
static void site_moment(LANE(pbAdjoint) *a, int u, lane length) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int site = m->actuator_trnid[2 * u], ref = m->actuator_trnid[2 * u + 1], frame = ref < 0 ? site : ref;
  const double *gear = w->p.actuator_gear + 6 * u, *R = w->site_xmat + 9 * frame;
  double apart[3] = {0};
  lane p[3], q[3] = {0}, torque[3];
  site_wrench s = {0};
  m3_mulv(s.force, R, gear);
  m3_mulv(s.torque, R, gear + 3);

  // Motions common to both ends do not count. The length is force . apart, and the rotation's share.
  if (ref >= 0) {
    int stop = common_dof(w, m->site_bodyid[site], m->site_bodyid[ref]);
    for (int i = stop; i >= 0; i = m->dof_parentid[i]) a->c[i] = PB_LANE_ZERO;
    v3_sub(apart, w->site_xpos + 3 * site, w->site_xpos + 3 * ref);
    for (int k = 0; k < 3; k++) s.at[k] = length * s.force[k];
    if (gear[3] != 0 || gear[4] != 0 || gear[5] != 0) refsite_rotation(a, site, ref, gear + 3, length);
  }

  LANE(pbSweep_Push)(w, a->c, a->X);
  memset(a->F, 0, 6 * (size_t)m->nbody * sizeof(double));
  site_end(a, site, 1, &s, p);
  if (ref >= 0) site_end(a, ref, -1, &s, q);

  // The frame of force and torque rotates with its body.
  for (int k = 0; k < 3; k++) s.velocity[k] += length * apart[k];
  PB_CROSS(torque, s.force, s.velocity);
  PB_ADDCROSS(torque, 1, s.torque, s.rotation);
  add_torque(a, m->site_bodyid[frame], torque);
  LANE(pbSweep_PullExtra)(a, a->c);
  site_parameters(a, u, R, &s, p, q, torque);
}

// Cotangents a->c of the moment and of the length to what makes them.
static void pull_transmission(LANE(pbAdjoint) *a, int u, lane length) {
  switch (a->w->m->actuator_trntype[u]) {
    case pb_trnTendon: tendon_moment(a, u, length); break;
    case pb_trnSite: site_moment(a, u, length); break;
    case pb_trnSliderCrank: LANE(pbSliderCrank_Pull)(a, u, length); break;
    case pb_trnBody: break;  // by its contacts: contact/adhesion_adjoint.c
    default: joint_moment(a, u, length);
  }
}

// ---- actuators ------------------------------------------------------------------------------------------------------
// Cotangent of the moment's entry at a dof. Of a servo's force and its row's residual J a + b (J v - target); sensors read its
// force on dofs as well.
static lane moment_bar(const LANE(pbAdjoint) *a, int u, int dof) {
  const NUM(pbWork) *w = a->w;
  double force = w->actuator_force[u];
  if (!w->m->actuator_servo[u]) return force * a->lam_act[dof];
  return force * (a->lam[dof] + a->qfrc_actuator[dof]) - a->act_residual[u] * a->at.qacc[dof] - a->act_target[u] * w->qvel[dof];
}

// Is the moment the motion of sites? Entries that are zero now may not stay so.
static bool sees_sites(const pbModel *m, int u) {
  return m->actuator_trntype[u] == pb_trnSite || m->actuator_trntype[u] == pb_trnSliderCrank;
}

// c is zero for the next one.
static void clear_moment(LANE(pbAdjoint) *a, int u) {
  const NUM(pbWork) *w = a->w;
  if (sees_sites(w->m, u)) memset(a->c, 0, (size_t)w->m->nv * sizeof(lane));
  for (int i = w->mom_start[u]; i < w->mom_start[u + 1]; i++) a->c[w->mom_dofs[i]] = PB_LANE_ZERO;
}

// W = f (m . lam) + velocity (m . v), m the moment; bar is the cotangent of f.
static void pull_actuator(LANE(pbAdjoint) *a, int u, lane bar, const lane *all) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int adr = w->mom_start[u], end = w->mom_start[u + 1];
  PB_VALIDATE(pb_ascending(w->mom_dofs + adr, end - adr) && pb_allWithin(w->mom_dofs + adr, end - adr, 0, m->nv));
  lane length = a->act_len[u], velocity = a->act_vel[u];
  if (pb_servo(m, u)) pull_servo_law(a, u, &length);
  else if (!pb_actuator_off(m, u)) pull_force_law(a, u, pull_limits(a, u, bar, all), &length, &velocity);

  // c is zero so far; implicit damping may add to the cotangent of the velocity.
  bool implicit = a->damped && m->integrator == pb_intImplicitfast;
  if (implicit) implicit_actuator(a, u, &length, &velocity);
  if (m->actuator_trntype[u] == pb_trnTendon && a->act_free && !m->actuator_servo[u]) {
    tendon_pull(a, u, length, velocity);
    if (implicit) tendon_moment(a, u, PB_LANE_ZERO);
    clear_moment(a, u);
    return;
  }
  for (int i = adr; i < end; i++) a->v[w->mom_dofs[i]] += w->mom[i] * velocity;

  // Of the moment.
  if (sees_sites(m, u)) {
    for (int i = 0; i < m->nv; i++) a->c[i] += w->actuator_force[u] * a->lam_act[i] + velocity * w->qvel[i];
  } else {
    for (int i = adr; i < end; i++) a->c[w->mom_dofs[i]] += moment_bar(a, u, w->mom_dofs[i]) + velocity * w->qvel[w->mom_dofs[i]];
  }
  pull_transmission(a, u, length);

  clear_moment(a, u);
}

void LANE(pbForce_Actuators)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;

  // No forces, but lengths are still observed.
  if (m->disableflags & pb_disActuation) {
    memset(a->c, 0, (size_t)m->nv * sizeof(lane));
    for (int u = 0; u < m->nu; u++) pull_transmission(a, u, a->act_len[u]);
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

  // Activations last: inputs have added to what they will be.
  for (int u = 0; u < m->nu; u++) {
    if (pb_actuator_off(m, u)) continue;
    PB_MUTE(pb_muteDynamics, m->actuator_dyntype[u], a->act_dot + m->actuator_actadr[u], m->actuator_actnum[u]);
    pull_activation(a, u);
  }
}
