// Cotangents of what a policy observes, to states, poses and velocities of bodies, sensors and parameters. Primal:
// observe_kernel.c; tests: tests/conformance/test_policy.c.
#include "base/assert.h"
#include "eval/work.h"
#include "math/vec.h"
#include "model/joint.h"
#include "model/policy_data.h"
#include "model/sensor.h"
#include "bodies/sensors.h"
#include "multibody/spatial.h"
#include "step/kernels.h"
#include "step/step_adjoint.h"

// ---- rotations -----------------------------------------------------------------------------------------------------
// R turned by a small t about axes of the world moves by t x R; cotangent G of its entries, to t.
static void pull_matrix(const double R[9], const lane G[9], lane torque[3]) {
  for (int k = 0; k < 3; k++) torque[k] = PB_LANE_ZERO;
  for (int c = 0; c < 3; c++) {
    const double column[3] = {R[c], R[3 + c], R[6 + c]};
    const lane bar[3] = {G[c], G[3 + c], G[6 + c]};
    PB_ADDCROSS(torque, 1, column, bar);
  }
}

// out = R' x and R x
static void turn_back(const double R[9], const lane x[3], lane out[3]) {
  for (int k = 0; k < 3; k++) out[k] = R[k] * x[0] + R[3 + k] * x[1] + R[6 + k] * x[2];
}
static void turn(const double R[9], const lane x[3], lane out[3]) {
  for (int k = 0; k < 3; k++) out[k] = R[3 * k] * x[0] + R[3 * k + 1] * x[1] + R[3 * k + 2] * x[2];
}

// ---- states --------------------------------------------------------------------------------------------------------
// Translations as they are; a rotation's tangent is about its own axes.
static int pull_position(LANE(pbAdjoint) *a, int joint, const lane *bar) {
  const NUM(pbWork) *w = a->work;
  const double *qpos = w->qpos + w->m->jnt_qposadr[joint];
  int type = w->m->jnt_type[joint], dof = w->m->jnt_dofadr[joint], plain = pbJoint_PlainCount(type);
  PB_ASSERT(joint >= 0 && joint < w->m->njnt);
  for (int i = 0; i < plain; i++) a->q[dof + i] += bar[i];
  if (!pbJoint_HasRotation(type)) return plain;

  double q[4], R[9];
  lane torque[3], own[3];

  // A torque in the axes of the world, then in those that move.
  quat_copy(q, qpos + plain);
  quat_normalize(q);
  quat_to_mat(R, q);
  pull_matrix(R, bar + plain, torque);
  turn_back(R, torque, own);
  for (int k = 0; k < 3; k++) a->q[dof + plain + k] += own[k];
  return plain + 9;
}

static void pull_positions(LANE(pbAdjoint) *a, int joint, const lane *bar) {
  if (joint >= 0) {
    pull_position(a, joint, bar);
    return;
  }
  for (int j = 0; j < a->w->m->njnt; j++) bar += pull_position(a, j, bar);
}

// r = log(q0' q); qpos0 turns the other way, seen from the left.
static void pull_rotation(LANE(pbAdjoint) *a, int joint, const lane bar[3]) {
  const NUM(pbWork) *w = a->work;
  int plain = pbJoint_PlainCount(w->m->jnt_type[joint]);
  int at = w->m->jnt_qposadr[joint] + plain, dof = w->m->jnt_dofadr[joint] + plain;
  double q[4], start[4], r[3];
  lane t[3];

  // The rotation vector again, and its own cotangent
  quat_copy(q, w->qpos + at);
  quat_normalize(q);
  quat_conj(start, w->p.qpos0 + at);
  quat_normalize(start);
  quat_mul(q, start, q);
  quat_log(r, q);
  pb_log_pull(r, bar, t);
  for (int k = 0; k < 3; k++) a->q[dof + k] += t[k];

#if PB_LANES == 1
  if (a->theta) {
    double back[3], minus[3];
    v3_neg(minus, r);
    pb_log_pull(minus, bar, back);
    v3_neg(back, back);
    pb_quat_pull(a->bar.qpos0 + at, w->p.qpos0 + at, back);
  }
#endif
}

static void pull_velocities(LANE(pbAdjoint) *a, int joint, const lane *bar) {
  const pbModel *m = a->w->m;
  int from = joint < 0 ? 0 : m->jnt_dofadr[joint];
  int count = joint < 0 ? m->nv : pbJoint_DofCount(m->jnt_type[joint]);
  for (int i = 0; i < count; i++) a->v[from + i] += bar[i];
}

static void pull_activations(LANE(pbAdjoint) *a, int actuator, const lane *bar) {
  const pbModel *m = a->w->m;
  int from = actuator < 0 ? 0 : m->actuator_actadr[actuator];
  int count = actuator < 0 ? m->na : m->actuator_actnum[actuator];
  for (int i = 0; i < count; i++) a->act[from + i] += bar[i];
}

// Cotangents of sensors are gathered first: several rows may read one.
static int gather_sensor(const pbModel *m, int sensor, const lane *bar, lane *sensordata) {
  for (int k = 0; k < m->sensor_dim[sensor]; k++) sensordata[m->sensor_adr[sensor] + k] += bar[k];
  return m->sensor_dim[sensor];
}

static void gather_sensors(const pbModel *m, const lane *bar, lane *sensordata) {
  for (int i = 0; i < m->nsensor; i++) {
    if (pbSensor_IsEarly(m, i)) bar += gather_sensor(m, i, bar, sensordata);
  }
}

// ---- poses ---------------------------------------------------------------------------------------------------------
// A force at a point of a body, and a torque.
static void push_body(LANE(pbAdjoint) *a, int body, const double point[3], const lane force[3], const lane torque[3]) {
  double d[3];
  lane *P = a->P + 6 * body;
  PB_ASSERT(body >= 0 && body < a->w->m->nbody);

  body_offset(a->w, body, point, d);
  PB_ADDWRENCH(P, 1, d, force);
  for (int k = 0; k < 3; k++) P[k] += torque[k];
}

static int body_of(const pbModel *m, const pbObserveRow *r) {
  bool site = r->kind == pb_observeSitePosition || r->kind == pb_observeSiteRotation;
  return site ? m->site_bodyid[r->object] : r->object;
}

// y = R' (p - o) in a frame (R, o)
static void pull_point(LANE(pbAdjoint) *a, const pbObserveRow *r, const lane bar[3]) {
  const NUM(pbWork) *w = a->work;
  const lane none[3] = {0};
  lane force[3], back[3], torque[3] = {0};
  double p[3], arm[3];

  // A force at the point, in axes of the world
  NUM(pbObserve_Point)(w, r, p);
  memcpy(force, bar, sizeof force);
  if (r->frame >= 0) turn(w->xmat + 9 * r->frame, bar, force);

  push_body(a, body_of(w->m, r), p, force, none);
  if (r->kind == pb_observeSitePosition) LANE(pbSweep_Site)(a, r->object, force, NULL);
  if (r->frame < 0) return;

  // The frame feels the opposite, at its origin.
  const double *origin = w->xpos + 3 * r->frame;
  v3_sub(arm, p, origin);
  for (int k = 0; k < 3; k++) back[k] = -force[k];
  PB_ADDCROSS(torque, 1, arm, back);
  push_body(a, r->frame, origin, back, torque);
}

static void turn_columns(const double F[9], const lane x[9], lane out[9]) {
  for (int c = 0; c < 3; c++) {
    const lane column[3] = {x[c], x[3 + c], x[6 + c]};
    lane turned[3];
    turn(F, column, turned);
    for (int k = 0; k < 3; k++) out[3 * k + c] = turned[k];
  }
}

// Y = F' R in a frame F
static void pull_pose(LANE(pbAdjoint) *a, const pbObserveRow *r, const lane bar[9]) {
  const NUM(pbWork) *w = a->work;
  bool site = r->kind == pb_observeSiteRotation;
  const double *R = site ? w->site_xmat + 9 * r->object : w->xmat + 9 * r->object;
  const lane none[3] = {0};
  lane G[9], torque[3], back[3];
  memcpy(G, bar, sizeof G);

  // Cotangents of R itself: column by column in axes of the world
  if (r->frame >= 0) turn_columns(w->xmat + 9 * r->frame, bar, G);
  pull_matrix(R, G, torque);
  int body = body_of(w->m, r);
  push_body(a, body, w->xpos + 3 * body, none, torque);
  if (site) LANE(pbSweep_Site)(a, r->object, none, torque);
  if (r->frame < 0) return;

  // The frame turns the other way.
  for (int k = 0; k < 3; k++) back[k] = -torque[k];
  push_body(a, r->frame, w->xpos + 3 * r->frame, none, back);
}

// ---- all -----------------------------------------------------------------------------------------------------------
static void pull_row(LANE(pbVjpBlock) *k, const pbObserveRow *r, const lane *bar) {
  LANE(pbAdjoint) *a = &k->a;

  switch (r->kind) {
    case pb_observeQpos: pull_positions(a, r->object, bar); break;
    case pb_observeRotation: pull_rotation(a, r->object, bar); break;
    case pb_observeQvel: pull_velocities(a, r->object, bar); break;
    case pb_observeAct: pull_activations(a, r->object, bar); break;
    case pb_observeSensor: gather_sensors(a->w->m, bar, k->sensordata); break;
    case pb_observeBodyPosition:
    case pb_observeSitePosition: pull_point(a, r, bar); break;
    default: pull_pose(a, r, bar);
  }
}

// Cotangents of what was observed of a row, added to those of all its numbers.
static inline void spread(const pbObserveRow *r, const double *observation, lane *raw) {
  const int *component = r->component;
  observation += (size_t)r->at * PB_LANES;

  for (int i = 0; i < r->count; i++, observation += PB_LANES) {
    lane bar;
    memcpy(&bar, observation, sizeof bar);
    raw[component ? component[i] : i] += r->scale * bar;
  }
}

// What the pullback of sensors reads besides the evaluation: motions of subtrees, and which values are at a cutoff.
static void sense_again(const NUM(pbWork) *w) {
  const pbModel *m = w->m;
  NUM(pbSensor_Share)(&w->constraints, true);

  for (int i = 0; i < m->nsensor; i++) {
    if (w->p.sensor_cutoff[i] > 0 && pbSensor_IsEarly(m, i)) NUM(pbSensor_Read)(&w->constraints, i);
  }
}

void LANE(pbVjp_Policy)(LANE(pbVjpBlock) *k, const double *observation) {
  const pbModel *m = k->a.w->m;
  const pbPolicyModel *p = m->policy;
  lane *raw = k->observed_row;
  PB_ASSERT(p && !k->a.fresh);
  if (p->sensors) {
    sense_again(k->a.work);
    memset(k->sensordata, 0, (size_t)m->nsensordata * sizeof(lane));
  }

  for (const pbObserveRow *r = p->row; r < p->row + p->rows; r++) {
    if (!pb_observeEvaluates(r->kind)) continue;
    PB_ASSERT(r->width <= p->widest);

    // One sensor's stand together already.
    if (r->kind == pb_observeSensor && r->object >= 0) {
      spread(r, observation, k->sensordata + m->sensor_adr[r->object]);
      continue;
    }

    memset(raw, 0, (size_t)r->width * sizeof(lane));
    spread(r, observation, raw);
    pull_row(k, r, raw);
  }

  if (p->sensors) LANE(pbSensor_Adjoint)(&k->a, k->sensordata);
}
