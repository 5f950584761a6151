// What a policy sees: the first half of an evaluation, positions and velocities, and the numbers of the table of observations
// that come from it. Those of inputs, the clock and what is held are put beside them by world/policy_step.c. Pullback:
// observe_adjoint.c; forward derivative: jvp_kernel.c.
// Tests: tests/conformance/test_policy.c.
#include "base/assert.h"
#include "eval/stages.h"
#include "eval/work.h"
#include "math/vec.h"
#include "model/joint.h"
#include "model/policy_data.h"
#include "model/sensor.h"
#include "bodies/sensors.h"
#include "multibody/spatial.h"
#include "step/integrate.h"
#include "step/kernels.h"

// ---- rows of the table ---------------------------------------------------------------------------------------------
// A unit quaternion from where a joint's rotation stands in qpos.
static void joint_rotation(const num *qpos, num q[4]) {
  quat_copy(q, qpos);
  quat_normalize(q);
}

// Translations as they are, a rotation as its matrix. Returns how many numbers that makes.
static int put_position(const NUM(pbWork) *w, int joint, num *out) {
  const num *q = w->qpos + w->m->jnt_qposadr[joint];
  int type = w->m->jnt_type[joint], plain = pbJoint_PlainCount(type);
  PB_ASSERT(joint >= 0 && joint < w->m->njnt);

  for (int i = 0; i < plain; i++) out[i] = q[i];
  if (!pbJoint_HasRotation(type)) return plain;

  num unit[4];
  joint_rotation(q + plain, unit);
  quat_to_mat(out + plain, unit);
  return plain + 9;
}

static void put_positions(const NUM(pbWork) *w, int joint, num *out) {
  if (joint >= 0) {
    put_position(w, joint, out);
    return;
  }
  for (int j = 0; j < w->m->njnt; j++) out += put_position(w, j, out);
}

// The rotation vector from the orientation in qpos0.
static void put_rotation(const NUM(pbWork) *w, int joint, num out[3]) {
  int at = w->m->jnt_qposadr[joint] + pbJoint_PlainCount(w->m->jnt_type[joint]);
  num q[4], start[4];

  // From there to here, seen in the axes of there.
  joint_rotation(w->qpos + at, q);
  joint_rotation(w->p.qpos0 + at, start);
  quat_conj(start, start);
  quat_mul(q, start, q);
  quat_log(out, q);
}

static void put_velocities(const NUM(pbWork) *w, int joint, num *out) {
  int from = joint < 0 ? 0 : w->m->jnt_dofadr[joint];
  int count = joint < 0 ? w->m->nv : pbJoint_DofCount(w->m->jnt_type[joint]);
  memcpy(out, w->qvel + from, (size_t)count * sizeof(num));
}

static void put_activations(const NUM(pbWork) *w, int actuator, num *out) {
  int from = actuator < 0 ? 0 : w->m->actuator_actadr[actuator];
  int count = actuator < 0 ? w->m->na : w->m->actuator_actnum[actuator];
  memcpy(out, w->act + from, (size_t)count * sizeof(num));
}

// One sensor's numbers, where they stand.
static const num *read_sensor(NUM(pbWork) *w, int sensor) {
  PB_ASSERT(pbSensor_IsEarly(w->m, sensor));
  NUM(pbSensor_Read)(&w->constraints, sensor);
  return w->sensordata + w->m->sensor_adr[sensor];
}

static void put_sensors(NUM(pbWork) *w, num *out) {
  for (int i = 0; i < w->m->nsensor; i++) {
    if (!pbSensor_IsEarly(w->m, i)) continue;
    memcpy(out, read_sensor(w, i), (size_t)w->m->sensor_dim[i] * sizeof(num));
    out += w->m->sensor_dim[i];
  }
}

void NUM(pbObserve_Point)(const NUM(pbWork) *w, const pbObserveRow *r, num point[3]) {
  if (r->kind == pb_observeSitePosition) {
    v3_copy(point, w->site_xpos + 3 * r->object);
    return;
  }

  // A point of the body, in its own axes.
  num local[3] = {r->point[0], r->point[1], r->point[2]};
  m3_mulv(point, w->xmat + 9 * r->object, local);
  v3_addto(point, w->xpos + 3 * r->object);
}

static void put_point(const NUM(pbWork) *w, const pbObserveRow *r, num out[3]) {
  NUM(pbObserve_Point)(w, r, out);
  if (r->frame < 0) return;

  v3_subfrom(out, w->xpos + 3 * r->frame);
  m3_tmulv(out, w->xmat + 9 * r->frame, out);
}

static void put_matrix(const NUM(pbWork) *w, const pbObserveRow *r, num out[9]) {
  const num *R = r->kind == pb_observeSiteRotation ? w->site_xmat + 9 * r->object : w->xmat + 9 * r->object;
  if (r->frame < 0) m3_copy(out, R);
  else m3_tmul(out, w->xmat + 9 * r->frame, R);
}

// All numbers of a row: in `out`, or where they stand.
static const num *put_row(NUM(pbWork) *w, const pbObserveRow *r, num *out) {
  if (r->kind == pb_observeSensor && r->object >= 0) return read_sensor(w, r->object);

  switch (r->kind) {
    case pb_observeQpos: put_positions(w, r->object, out); break;
    case pb_observeRotation: put_rotation(w, r->object, out); break;
    case pb_observeQvel: put_velocities(w, r->object, out); break;
    case pb_observeAct: put_activations(w, r->object, out); break;
    case pb_observeSensor: put_sensors(w, out); break;
    case pb_observeBodyPosition:
    case pb_observeSitePosition: put_point(w, r, out); break;
    default: put_matrix(w, r, out);
  }
  return out;
}

// Those of its numbers that are wanted.
static inline void choose(const pbObserveRow *r, const num *from, num *to) {
  if (!r->component && r->count == 3) {
    // Most are vectors.
    for (int i = 0; i < 3; i++) to[i] = r->scale * from[i];
    return;
  }
  if (!r->component) {
    for (int i = 0; i < r->count; i++) to[i] = r->scale * from[i];
    return;
  }
  for (int i = 0; i < r->count; i++) to[i] = r->scale * from[r->component[i]];
}

// ---- all -----------------------------------------------------------------------------------------------------------
static void fill(NUM(pbWork) *w) {
  const pbPolicyModel *p = w->m->policy;
  num *raw = w->observed_row;

  // What several rows share
  if (p->transmissions) NUM(pbActuator_Transmissions)(&w->constraints);
  if (p->sensors) NUM(pbSensor_Share)(&w->constraints, true);

  for (const pbObserveRow *r = p->row; r < p->row + p->rows; r++) {
    if (!pb_observeEvaluates(r->kind)) continue;
    PB_ASSERT(r->width <= p->widest && r->at + r->count <= p->observing);
    choose(r, put_row(w, r, raw), w->observation + r->at);
  }
}

void NUM(pbObserve_Sense)(NUM(pbWork) *w) {
  PB_ASSERT(w->m->policy);
  NUM(pbEvaluate_Sense)(w);
  fill(w);
  w->sensed = true;
}
