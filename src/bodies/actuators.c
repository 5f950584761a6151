// Actuators: transmissions, activations, forces, velocities that servos ask for; their laws are those of src/bodies/actuators.
// Derivative: actuators_adjoint.c.
// Tests: tests/conformance/test_step.c, tests/unit/test_servo.c, tests/oracle/test_stages.py.
#include <pullback/actuators.h>

#include "base/assert.h"
#include "bodies/actuator.h"
#include "bodies/actuators.h"
#include "eval/constraints.h"
#include "eval/row.h"
#include "eval/stages.h"
#include "math/vec.h"
#include "model/joint.h"
#include "model/servo.h"
#include "model/term_fields.h"
#include "multibody/spatial.h"

// ---- laws, by type ----------------------------------------------------------------------------------------------------
#define X(name, value, word, law) extern const LANE(pbTransmission) LANE(pbTransmission_##law);
PB_TRANSMISSIONS(X)
#undef X
#define X(name, value, word, law) extern const LANE(pbActuatorLaw) LANE(pbGain_##law);
PB_GAINS(X)
#undef X
#define X(name, value, word, law) extern const LANE(pbActuatorLaw) LANE(pbBias_##law);
PB_BIASES(X)
#undef X
#define X(name, value, word, law) extern const LANE(pbActivationLaw) LANE(pbDynamics_##law);
PB_DYNAMICS_KINDS(X)
#undef X

static const LANE(pbTransmission) *const transmissions[PB_ACTUATOR_KINDS] = {
#define X(name, value, word, law) [value] = &LANE(pbTransmission_##law),
    PB_TRANSMISSIONS(X)
#undef X
};
static const LANE(pbActuatorLaw) *const gains[PB_ACTUATOR_KINDS] = {
#define X(name, value, word, law) [value] = &LANE(pbGain_##law),
    PB_GAINS(X)
#undef X
};
// NULL: none.
static const LANE(pbActuatorLaw) *const biases[PB_ACTUATOR_KINDS] = {
#define X(name, value, word, law) [value] = &LANE(pbBias_##law),
    PB_BIASES(X)
#undef X
};
static const LANE(pbActivationLaw) *const dynamics[PB_ACTUATOR_KINDS] = {
#define X(name, value, word, law) [value] = &LANE(pbDynamics_##law),
    PB_DYNAMICS_KINDS(X)
#undef X
};

// ---- transmissions ----------------------------------------------------------------------------------------------------
void NUM(pbActuator_Transmissions)(NUM(pbConstraints) *w) {
  int used = 0;
  bool off = w->m->disableflags & pb_disActuation;  // then velocities are zero, as MuJoCo 4.0.0
  for (int u = 0; u < w->m->nu; u++) {
    w->mom_start[u] = used;
    const LANE(pbTransmission) *law = transmissions[w->m->actuator_trntype[u]];
    if (law->moment) law->moment(&w->mechanism, u, &used);
    else law->moment_constrained(w, u, &used);

    num v = 0;
    for (int a = off ? used : w->mom_start[u]; a < used; a++) v += w->mom[a] * w->qvel[w->mom_dofs[a]];
    w->act_velocity[u] = v;
  }
  if (w->m->nu) w->mom_start[w->m->nu] = used;
}

// ---- activations ------------------------------------------------------------------------------------------------------
num NUM(pbActuator_Free)(const NUM(pbMechanism) *w, int u, int i, num act, num act_dot) {
  const LANE(pbActivationLaw) *law = dynamics[w->m->actuator_dyntype[u]];
  return law->next ? law->next(w, u, i, act, act_dot) : act + act_dot * w->p.timestep[0];
}

num NUM(pbActuator_Next)(const NUM(pbMechanism) *w, int u, int i, num act, num act_dot) {
  act = NUM(pbActuator_Free)(w, u, i, act, act_dot);
  if (w->m->actuator_actlimited[u]) act = num_clip(act, w->p.actuator_actrange[2 * u], w->p.actuator_actrange[2 * u + 1]);
  return act;
}

const num *NUM(pbActuator_Turning)(const NUM(pbMechanism) *w, int u) {
  const pbModel *m = w->m;
  bool servo = m->actuator_gaintype[u] == pb_gainFixed && m->actuator_biastype[u] == pb_biasAffine &&
               re(w->p.actuator_gainprm[10 * u]) == -re(w->p.actuator_biasprm[10 * u + 1]) &&
               m->actuator_dyntype[u] != pb_dynMuscle;
  const num *gear = w->p.actuator_gear + 6 * u;
  if (!servo) return NULL;

  // A site's rotation against its reference, and a ball joint's.
  if (m->actuator_trntype[u] == pb_trnSite) {
    bool rotation = m->actuator_trnid[2 * u + 1] >= 0 && re(gear[0]) == 0 && re(gear[1]) == 0 && re(gear[2]) == 0;
    return rotation ? gear + 3 : NULL;
  }
  bool ball = m->actuator_trntype[u] <= pb_trnJointInParent && m->jnt_type[m->actuator_trnid[2 * u]] == pb_jntBall;
  return ball ? gear : NULL;
}

double NUM(pbActuator_Turns)(const num *gear, num setpoint, num near) {
  double period = 2 * PB_PI * re(v3_norm(gear));
  return period > 0 ? round((re(setpoint) - re(near)) / period) : 0;
}

num NUM(pbActuator_Wrap)(const NUM(pbMechanism) *w, int u, num setpoint, num near) {
  const num *gear = NUM(pbActuator_Turning)(w, u);
  double turns = gear ? NUM(pbActuator_Turns)(gear, setpoint, near) : 0;
  return turns != 0 ? setpoint - turns * 2 * PB_PI * v3_norm(gear) : setpoint;
}

num NUM(pbActuator_Rate)(const NUM(pbMechanism) *w, int u, num ctrl, int i) {
  PB_ASSERT(i >= 0 && i < w->m->na);
  return dynamics[w->m->actuator_dyntype[u]]->rate(w, u, ctrl, i);
}

num NUM(pbActuator_Control)(const NUM(pbMechanism) *w, int u) {
  bool free = !w->m->actuator_ctrllimited[u] || (w->m->disableflags & pb_disClampctrl);
  return free ? w->ctrl[u] : num_clip(w->ctrl[u], w->p.actuator_ctrlrange[2 * u], w->p.actuator_ctrlrange[2 * u + 1]);
}

// ---- forces -----------------------------------------------------------------------------------------------------------
// What the gain multiplies: the control (clamped), or the activation.
static num actuator_input(NUM(pbMechanism) *w, int u) {
  const pbModel *m = w->m;
  num ctrl = NUM(pbActuator_Control)(w, u);
  int first = m->actuator_actadr[u], last = first + m->actuator_actnum[u] - 1;
  for (int i = first; i <= last; i++) w->act_dot[i] = NUM(pbActuator_Rate)(w, u, ctrl, i);
  if (pb_actuator_direct(m, u)) return ctrl;

  // actearly takes the activation after this step.
  num act = w->act[last];
  return m->actuator_actearly[u] ? NUM(pbActuator_Next)(w, u, last, act, w->act_dot[last]) : act;
}

// force = gain input + bias
static num actuator_force(NUM(pbMechanism) *w, int u) {
  const LANE(pbActuatorLaw) *bias = biases[w->m->actuator_biastype[u]];

  w->act_input[u] = NUM(pbActuator_Wrap)(w, u, actuator_input(w, u), w->act_length[u]);
  w->act_gain[u] = gains[w->m->actuator_gaintype[u]]->value(w, u);

  num force = w->act_gain[u] * w->act_input[u];
  return bias ? force + bias->value(w, u) : force;
}

// The velocity that a servo asks for: the one at which its force law gain input + b0 + b1 length + b2 velocity is zero, none
// within the dead band, at most the speed.
static num servo_target(NUM(pbMechanism) *w, int u) {
  const num *b = w->p.actuator_biasprm + 10 * u;
  num speed = PB_TERM(w, actuator_speed)[u];

  w->act_input[u] = NUM(pbActuator_Wrap)(w, u, actuator_input(w, u), w->act_length[u]);
  w->act_gain[u] = w->p.actuator_gainprm[10 * u];
  w->act_raw[u] = (w->act_gain[u] * w->act_input[u] + b[0] + b[1] * w->act_length[u]) / -b[2];

  if (pbServo_Rests(re(w->act_raw[u]), re(PB_TERM(w, actuator_deadband)[u]))) return 0;
  return re(speed) > 0 ? num_clip(w->act_raw[u], -speed, speed) : w->act_raw[u];
}

// Tendons with a force range: scale all their actuators alike so that the sum stays within it.
static void limit_tendons(NUM(pbMechanism) *w) {
  const pbModel *m = w->m;
  for (int k = 0; k < m->ntendon; k++) {
    if (!m->tendon_actfrclimited[k]) continue;

    // Where the sum of their forces leaves the range, all get the same share of its end.
    num total = 0;
    for (int u = 0; u < m->nu; u++) {
      if (m->actuator_trntype[u] == pb_trnTendon && m->actuator_trnid[2 * u] == k) total += w->actuator_force[u];
    }
    num held = num_clip(total, w->p.tendon_actfrcrange[2 * k], w->p.tendon_actfrcrange[2 * k + 1]);

    if (re(held) == re(total) || re(total) == 0) continue;
    for (int u = 0; u < m->nu; u++) {
      if (m->actuator_trntype[u] == pb_trnTendon && m->actuator_trnid[2 * u] == k) {
        w->act_scale[u] = held / total;
        w->actuator_force[u] *= w->act_scale[u];
      }
    }
  }
}

// Forces of joints by actuators: moments, gravity compensation that goes through them, the joint's limit.
static void joint_forces(NUM(pbMechanism) *w) {
  const pbModel *m = w->m;
  for (int u = 0; u < m->nu; u++) {
    if (m->actuator_forcelimited[u] && !m->actuator_servo[u]) {
      w->actuator_force[u] = num_clip(w->actuator_force[u], w->p.actuator_forcerange[2 * u], w->p.actuator_forcerange[2 * u + 1]);
    }
    const LANE(pbActuatorLaw) *bias = biases[m->actuator_biastype[u]];
    if (bias && bias->beyond && !pb_actuator_off(m, u)) w->actuator_force[u] += bias->beyond(w, u);
    for (int a = w->mom_start[u]; a < w->mom_start[u + 1]; a++)
      w->qfrc_actuator[w->mom_dofs[a]] += w->mom[a] * w->actuator_force[u];
  }

  for (int j = 0; j < m->njnt; j++) {
    int dof = m->jnt_dofadr[j], n = pbJoint_DofCount(m->jnt_type[j]);
    if (m->jnt_actgravcomp[j]) {
      for (int k = dof; k < dof + n; k++) w->qfrc_actuator[k] += w->qfrc_gravcomp[k];
    }
    if (m->jnt_actfrclimited[j]) {
      w->qfrc_actuator[dof] = num_clip(w->qfrc_actuator[dof], w->p.jnt_actfrcrange[2 * j], w->p.jnt_actfrcrange[2 * j + 1]);
    }
  }
}

void NUM(pbStage_Actuation)(NUM(pbConstraints) *w) {
  const pbModel *m = w->m;
  memset(w->qfrc_actuator, 0, (size_t)m->nv * sizeof(num));
  memset(w->act_dot, 0, (size_t)m->na * sizeof(num));
  NUM(pbActuator_Transmissions)(w);

  for (int u = 0; u < m->nu; u++) {
    w->act_scale[u] = 1;
    w->actuator_force[u] = w->act_raw[u] = w->act_target[u] = 0;
    if (pb_servo(m, u)) w->act_target[u] = servo_target(&w->mechanism, u);
    else if (!pb_actuator_off(m, u)) w->actuator_force[u] = w->act_raw[u] = actuator_force(&w->mechanism, u);
  }

  // Switched off, lengths are still there for sensors.
  if ((m->disableflags & pb_disActuation) || !m->nu) return;
  limit_tendons(&w->mechanism);
  joint_forces(&w->mechanism);
}

void NUM(pbStage_Servos)(NUM(pbConstraints) *w) {
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (r->kind != pb_rowServo) continue;

    // Solved for: nothing that the accelerations follow from reads it. On the dofs it is among qfrc_constraint.
    w->actuator_force[r->actuator] = r->f[0];
  }
}

void NUM(pbStage_Smooth)(NUM(pbMechanism) *w) {
  const pbModel *m = w->m;
  for (int i = 0; i < m->nv; i++) {
    w->qfrc_smooth[i] = w->qfrc_passive[i] - w->qfrc_bias[i] + w->qfrc_applied[i] + w->qfrc_actuator[i];
  }

  // Applied wrenches act at centers of mass.
  for (int b = 1; b < m->nbody; b++) {
    const num *x = w->xfrc_applied + 6 * b;
    if (w->t->body_tree[b] < 0 || (v3_is_zero(x) && v3_is_zero(x + 3))) continue;

    num d[3], wrench[6] = {0};
    body_offset(w, b, w->xipos + 3 * b, d);
    PB_ADDWRENCH(wrench, 1, d, x);
    v3_addto(wrench, x + 3);
    for (int i = w->t->body_dofend[b]; i >= 0; i = m->dof_parentid[i]) w->qfrc_smooth[i] += PB_DOT6(w->S + 6 * i, wrench);
  }

  // What friction by load sees of it (multibody/friction_law.h): from the bias of bodies alone.
  for (int i = 0; i < m->nv; i++) {
    num drift = w->qfrc_bias[i] - w->qfrc_load[i];
    w->qfrc_load[i] = w->qfrc_smooth[i] - w->qfrc_actuator[i] - w->qfrc_damper[i] + drift;
  }
}

// ---- derivative by velocity (implicitfast) --------------------------------------------------------------------------
static bool at_end(num x, const num range[2]) { return re(x) <= re(range[0]) || re(x) >= re(range[1]); }

bool NUM(pbActuator_Held)(const NUM(pbMechanism) *w, int u) {
  const pbModel *m = w->m;
  int id = m->actuator_trnid[2 * u];

  if (m->actuator_servo[u] || pb_actuator_off(m, u)) return true;  // the force of a servo is a row's
  if (m->actuator_trntype[u] > pb_trnJointInParent || !m->jnt_actfrclimited[id]) return false;
  return at_end(w->qfrc_actuator[m->jnt_dofadr[id]], w->p.jnt_actfrcrange + 2 * id);
}

bool NUM(pbActuator_Saturated)(const NUM(pbMechanism) *w, int u) {
  const pbModel *m = w->m;
  if (NUM(pbActuator_Held)(w, u)) return true;
  if (m->actuator_forcelimited[u] && at_end(w->act_raw[u] * w->act_scale[u], w->p.actuator_forcerange + 2 * u)) return true;

  // A tendon's scale is one where its limit does not hold.
  return m->actuator_trntype[u] == pb_trnTendon && re(w->act_scale[u]) != 1;
}

num NUM(pbActuator_GainSlope)(const NUM(pbMechanism) *w, int u) {
  const LANE(pbActuatorLaw) *gain = gains[w->m->actuator_gaintype[u]];
  return gain->slope ? gain->slope(w, u) : 0;
}

num NUM(pbActuator_Slope)(const NUM(pbMechanism) *w, int u) {
  const LANE(pbActuatorLaw) *bias = biases[w->m->actuator_biastype[u]];
  if (NUM(pbActuator_Held)(w, u)) return 0;

  num beyond = bias && bias->beyond_slope ? bias->beyond_slope(w, u) : 0;
  if (NUM(pbActuator_Saturated)(w, u)) return beyond;

  num slope = bias && bias->slope ? bias->slope(w, u) : 0;
  return slope + NUM(pbActuator_GainSlope)(w, u) * w->act_input[u] + beyond;
}
