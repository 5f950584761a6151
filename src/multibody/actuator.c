// Actuators: transmission (length, moment), activation dynamics, forces, velocities that servos ask for.
// Tests: tests/conformance/test_step.c, tests/unit/test_servo.c, tests/oracle/test_stages.py.
#include "base/assert.h"
#include "eval/work.h"
#include "math/vec.h"
#include "model/joint.h"
#include "model/servo.h"
#include "model/term_fields.h"
#include "multibody/contact_gap.h"
#include "multibody/muscle.h"
#include "multibody/slider_crank.h"
#include "multibody/spatial.h"

static void put_moment(NUM(pbWork) *w, int *used, int dof, num value) {
  PB_ASSERT(dof >= 0 && dof < w->m->nv && *used < w->m->nu * w->m->nv);
  w->mom_dofs[*used] = dof;
  w->mom[(*used)++] = value;
}

// Joint: gear on the joint's velocity, in the child's frame or (joint in parent) the parent's.
static void joint_moment(NUM(pbWork) *w, int u, int *used) {
  const pbModel *m = w->m;
  int j = m->actuator_trnid[2 * u], type = m->jnt_type[j], dof = m->jnt_dofadr[j];
  const num *gear = w->p.actuator_gear + 6 * u, *qpos = w->qpos + m->jnt_qposadr[j];
  if (pbJoint_IsScalar(type)) {
    w->act_length[u] = qpos[0] * gear[0];
    put_moment(w, used, dof, gear[0]);
    return;
  }

  // Rotations: the length is gear . (rotation vector); of a free joint it is zero, as in MuJoCo.
  num q[4], axis[3] = {0}, rotated[3];
  bool free = type == pb_jntFree;

  quat_copy(q, free ? qpos + 3 : qpos);
  quat_normalize(q);
  v3_copy(rotated, free ? gear + 3 : gear);
  if (!free) quat_log(axis, q);
  if (m->actuator_trntype[u] == pb_trnJointInParent) {
    quat_conj(q, q);
    quat_rotate(rotated, q, free ? gear + 3 : gear);
  }
  w->act_length[u] = free ? 0 : v3_dot(axis, rotated);

  if (free) {
    for (int k = 0; k < 3; k++) put_moment(w, used, dof + k, gear[k]);
  }
  for (int k = 0; k < 3; k++) put_moment(w, used, dof + (free ? 3 : 0) + k, rotated[k]);
}

// A tendon: its length and Jacobian, times the gear.
static void tendon_moment(NUM(pbWork) *w, int u, int *used) {
  int k = w->m->actuator_trnid[2 * u];
  num gear = w->p.actuator_gear[6 * u];
  w->act_length[u] = w->ten_length[k] * gear;
  for (int a = w->ten_start[k]; a < w->ten_start[k + 1]; a++) put_moment(w, used, w->ten_dofs[a], w->ten_J[a] * gear);
}

// Last dof that moves both bodies; -1 if none.
static int common_dof(const NUM(pbWork) *w, int body1, int body2) {
  int a = w->t->body_dofend[body1], b = w->t->body_dofend[body2];
  while (a != b && a >= 0 && b >= 0) {
    if (a < b) b = w->m->dof_parentid[b];
    else a = w->m->dof_parentid[a];
  }
  return a == b ? a : -1;
}

// A force at a point of a body, and a torque.
typedef struct point_load {
  int body;
  const num *point;
  num force[3], torque[3];
} point_load;

// dense += sign load . velocity of the body, over dofs after `stop`.
static void add_load_moment(const NUM(pbWork) *w, const point_load *load, double sign, int stop, num *dense) {
  num d[3], wrench[6] = {0};

  body_offset(w, load->body, load->point, d);
  PB_ADDWRENCH(wrench, 1, d, load->force);
  v3_addto(wrench, load->torque);
  int i = w->t->body_dofend[load->body];
  for (; i > stop; i = w->m->dof_parentid[i]) dense[i] += sign * PB_DOT6(w->S + 6 * i, wrench);
}

static void add_site_moment(const NUM(pbWork) *w, int site, const num force[3], const num torque[3], double sign, int stop,
                            num *dense) {
  point_load load = {.body = w->m->site_bodyid[site], .point = w->site_xpos + 3 * site};
  v3_copy(load.force, force);
  v3_copy(load.torque, torque);
  add_load_moment(w, &load, sign, stop, dense);
}

// Length of a site transmission with a reference site: gear . (position, rotation vector) in the reference's frame.
static num refsite_length(const NUM(pbWork) *w, int site, int ref, const num gear[6]) {
  num vec[3], q[4], r[4], length = 0;
  bool rotates = re(gear[3]) != 0 || re(gear[4]) != 0 || re(gear[5]) != 0;

  // What no gear asks for is left out.
  if (re(gear[0]) != 0 || re(gear[1]) != 0 || re(gear[2]) != 0) {
    v3_sub(vec, w->site_xpos + 3 * site, w->site_xpos + 3 * ref);
    m3_tmulv(vec, w->site_xmat + 9 * ref, vec);
    length += v3_dot(vec, gear);
  }

  if (rotates) {
    quat_mul(q, w->xquat + 4 * w->m->site_bodyid[site], w->p.site_quat + 4 * site);
    quat_mul(r, w->xquat + 4 * w->m->site_bodyid[ref], w->p.site_quat + 4 * ref);
    quat_conj(r, r);
    quat_mul(q, r, q);
    quat_log(vec, q);
    length += v3_dot(vec, gear + 3);
  }
  return length;
}

// A wrench of gear in the frame of the site or of its reference; dofs that move both do not count.
static void site_moment(NUM(pbWork) *w, int u, int *used) {
  const pbModel *m = w->m;
  int site = m->actuator_trnid[2 * u], ref = m->actuator_trnid[2 * u + 1], stop = -1;
  const num *gear = w->p.actuator_gear + 6 * u, *R = w->site_xmat + 9 * (ref < 0 ? site : ref);
  num force[3], torque[3], *dense = w->tmp;
  m3_mulv(force, R, gear);
  m3_mulv(torque, R, gear + 3);

  memset(dense, 0, (size_t)m->nv * sizeof(num));
  w->act_length[u] = ref < 0 ? 0 : refsite_length(w, site, ref, gear);
  if (ref >= 0) stop = common_dof(w, m->site_bodyid[site], m->site_bodyid[ref]);

  add_site_moment(w, site, force, torque, 1, stop, dense);
  if (ref >= 0) add_site_moment(w, ref, force, torque, -1, stop, dense);

  // Zeros, too: they may have slopes.
  int e1 = w->t->body_dofend[m->site_bodyid[site]], e2 = ref < 0 ? -1 : w->t->body_dofend[m->site_bodyid[ref]];
  for (int i = stop + 1; i <= (e1 > e2 ? e1 : e2); i++) put_moment(w, used, i, dense[i]);
}

// The rod's end moves with the crank's site, and against the slider's, whose axis turns.
static void slider_crank_moment(NUM(pbWork) *w, int u, int *used) {
  const pbModel *m = w->m;
  num gear = w->p.actuator_gear[6 * u], force[3], torque[3], none[3] = {0}, *dense = w->tmp;
  NUM(pbSliderCrank) s;
  NUM(pbSliderCrank_At)(w, u, &s);
  w->act_length[u] = gear * s.length;
  v3_scale(force, s.by_vec, gear);
  v3_cross(torque, s.by_axis, s.axis);
  v3_scale(torque, torque, gear);

  memset(dense, 0, (size_t)m->nv * sizeof(num));
  add_site_moment(w, s.crank, force, none, 1, -1, dense);
  add_site_moment(w, s.slider, force, torque, -1, -1, dense);

  // Zeros, too, as of sites.
  int e1 = w->t->body_dofend[m->site_bodyid[s.crank]], e2 = w->t->body_dofend[m->site_bodyid[s.slider]];
  for (int i = 0; i <= (e1 > e2 ? e1 : e2); i++) put_moment(w, used, i, dense[i]);
}

// Adhesion: the mean over the body's contacts of what draws their sides together, those in the gap included.
static void body_moment(NUM(pbWork) *w, int u, int *used) {
  const pbModel *m = w->m;
  int count = count_adhering(w, u);
  num *dense = w->tmp;
  w->act_length[u] = 0;
  if (!count) return;

  memset(dense, 0, (size_t)m->nv * sizeof(num));
  for (int k = 0; k < w->ncon; k++) {
    const NUM(pbContact) *c = w->contact + k;
    if (!adheres(w, u, c)) continue;

    // Along the normal, from the first to the second.
    point_load load = {.body = m->geom_bodyid[c->geom1], .point = c->pos};
    v3_copy(load.force, c->frame);
    add_load_moment(w, &load, 1. / count, -1, dense);
    load.body = m->geom_bodyid[c->geom2];
    add_load_moment(w, &load, -1. / count, -1, dense);
  }

  for (int i = 0; i < m->nv; i++) {
    if (!num_is(dense[i], 0)) put_moment(w, used, i, dense[i]);
  }
}

void NUM(pbActuator_Transmissions)(NUM(pbWork) *w) {
  int used = 0;
  bool off = w->m->disableflags & pb_disActuation;  // then velocities are zero, as MuJoCo 4.0.0
  for (int u = 0; u < w->m->nu; u++) {
    w->mom_start[u] = used;
    switch (w->m->actuator_trntype[u]) {
      case pb_trnTendon: tendon_moment(w, u, &used); break;
      case pb_trnSite: site_moment(w, u, &used); break;
      case pb_trnSliderCrank: slider_crank_moment(w, u, &used); break;
      case pb_trnBody: body_moment(w, u, &used); break;
      default: joint_moment(w, u, &used);
    }

    num v = 0;
    for (int a = off ? used : w->mom_start[u]; a < used; a++) v += w->mom[a] * w->qvel[w->mom_dofs[a]];
    w->act_velocity[u] = v;
  }
  if (w->m->nu) w->mom_start[w->m->nu] = used;
}

// act_next = act + act_dot h, or exactly for a filter whose control stays: act + act_dot tau (1 - exp(-h / tau)).
num NUM(pbActuator_Next)(const NUM(pbWork) *w, int u, num act, num act_dot) {
  num h = w->p.timestep[0];

  if (w->m->actuator_dyntype[u] == pb_dynFilterExact) {
    num tau = num_max(w->p.actuator_dynprm[10 * u], 1e-15);
    act += act_dot * tau * (1 - num_exp(-h / tau));
  } else {
    act += act_dot * h;
  }
  if (w->m->actuator_actlimited[u]) act = num_clip(act, w->p.actuator_actrange[2 * u], w->p.actuator_actrange[2 * u + 1]);
  return act;
}

const num *NUM(pbActuator_Turning)(const NUM(pbWork) *w, int u) {
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

num NUM(pbActuator_Wrap)(const NUM(pbWork) *w, int u, num setpoint, num near) {
  const num *gear = NUM(pbActuator_Turning)(w, u);
  double turns = gear ? NUM(pbActuator_Turns)(gear, setpoint, near) : 0;
  return turns != 0 ? setpoint - turns * 2 * PB_PI * v3_norm(gear) : setpoint;
}

// act_dot = ctrl (integrator) or (ctrl - act) / tau (filters, muscles)
num NUM(pbActuator_Rate)(const NUM(pbWork) *w, int u, num ctrl, num act) {
  switch (w->m->actuator_dyntype[u]) {
    case pb_dynIntegrator: return ctrl;
    case pb_dynMuscle: return NUM(pbMuscle_Rate)(w, u, ctrl, act);
    // The shorter way round, of rotations.
    default: return (NUM(pbActuator_Wrap)(w, u, ctrl, act) - act) / num_max(w->p.actuator_dynprm[10 * u], 1e-15);
  }
}

num NUM(pbActuator_Control)(const NUM(pbWork) *w, int u) {
  bool free = !w->m->actuator_ctrllimited[u] || (w->m->disableflags & pb_disClampctrl);
  return free ? w->ctrl[u] : num_clip(w->ctrl[u], w->p.actuator_ctrlrange[2 * u], w->p.actuator_ctrlrange[2 * u + 1]);
}

// What the gain multiplies: the control (clamped), or the activation.
static num actuator_input(NUM(pbWork) *w, int u) {
  const pbModel *m = w->m;
  num ctrl = NUM(pbActuator_Control)(w, u);
  if (m->actuator_dyntype[u] == pb_dynNone) return ctrl;

  // actearly takes the activation after this step.
  int adr = m->actuator_actadr[u] + m->actuator_actnum[u] - 1;
  num act = w->act[adr], *dot = w->act_dot + adr;
  *dot = NUM(pbActuator_Rate)(w, u, ctrl, act);
  return m->actuator_actearly[u] ? NUM(pbActuator_Next)(w, u, act, *dot) : act;
}

// force = gain input + bias, gain and bias affine in length and velocity, or a muscle's.
static num actuator_force(NUM(pbWork) *w, int u) {
  const num *g = w->p.actuator_gainprm + 10 * u, *b = w->p.actuator_biasprm + 10 * u;
  num l = w->act_length[u], v = w->act_velocity[u];

  w->act_input[u] = NUM(pbActuator_Wrap)(w, u, actuator_input(w, u), w->act_length[u]);
  w->act_gain[u] = w->m->actuator_gaintype[u] == pb_gainAffine ? g[0] + g[1] * l + g[2] * v : g[0];

  if (w->m->actuator_gaintype[u] == pb_gainMuscle) w->act_gain[u] = NUM(pbMuscle_Gain)(w, u);

  num force = w->act_gain[u] * w->act_input[u];
  if (w->m->actuator_biastype[u] == pb_biasMuscle) force += NUM(pbMuscle_Bias)(w, u);
  if (w->m->actuator_biastype[u] == pb_biasAffine) force += b[0] + b[1] * l + b[2] * v;
  return force;
}

// The velocity that a servo asks for: the one at which its force law gain input + b0 + b1 length + b2 velocity is zero, none
// within the dead band, at most the speed.
static num servo_target(NUM(pbWork) *w, int u) {
  const num *b = w->p.actuator_biasprm + 10 * u;
  num speed = PB_TERM(w, actuator_speed)[u];

  w->act_input[u] = NUM(pbActuator_Wrap)(w, u, actuator_input(w, u), w->act_length[u]);
  w->act_gain[u] = w->p.actuator_gainprm[10 * u];
  w->act_raw[u] = (w->act_gain[u] * w->act_input[u] + b[0] + b[1] * w->act_length[u]) / -b[2];

  if (pbServo_Rests(re(w->act_raw[u]), re(PB_TERM(w, actuator_deadband)[u]))) return 0;
  return re(speed) > 0 ? num_clip(w->act_raw[u], -speed, speed) : w->act_raw[u];
}

// Tendons with a force range: scale all their actuators alike so that the sum stays within it.
static void limit_tendons(NUM(pbWork) *w) {
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
static void joint_forces(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  for (int u = 0; u < m->nu; u++) {
    if (m->actuator_forcelimited[u] && !m->actuator_servo[u]) {
      w->actuator_force[u] = num_clip(w->actuator_force[u], w->p.actuator_forcerange[2 * u], w->p.actuator_forcerange[2 * u + 1]);
    }
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

void NUM(pbStage_Actuation)(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  memset(w->qfrc_actuator, 0, (size_t)m->nv * sizeof(num));
  memset(w->act_dot, 0, (size_t)m->na * sizeof(num));
  NUM(pbActuator_Transmissions)(w);

  for (int u = 0; u < m->nu; u++) {
    w->act_scale[u] = 1;
    w->actuator_force[u] = w->act_raw[u] = w->act_target[u] = 0;
    if (pb_servo(m, u)) w->act_target[u] = servo_target(w, u);
    else if (!pb_actuator_off(m, u)) w->actuator_force[u] = w->act_raw[u] = actuator_force(w, u);
  }

  // Switched off, lengths are still there for sensors.
  if ((m->disableflags & pb_disActuation) || !m->nu) return;
  limit_tendons(w);
  joint_forces(w);
}

void NUM(pbStage_Servos)(NUM(pbWork) *w) {
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (r->kind != pb_rowServo) continue;

    // Solved for: nothing that the accelerations follow from reads it. On the dofs it is among qfrc_constraint.
    w->actuator_force[r->actuator] = r->f[0];
  }
}

void NUM(pbStage_Smooth)(NUM(pbWork) *w) {
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
}

// ---- derivative by velocity (implicitfast) --------------------------------------------------------------------------
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
