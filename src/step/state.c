// The state vector: its fields and their names, tangents, and moves along them.
// Tests: tests/unit/test_contact.c.
#include <pullback/world.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "math/vec.h"
#include "model/history.h"
#include "model/joint.h"
#include "model/sphere.h"
#include "step/integrate.h"
#include "step/scratch.h"

int pbModel_StateSize(const pbModel *m) { return state_layout(m).size; }

static int deform_fields(const pbModel *m) { return m->deform ? pbDeform_FieldCount(m->deform) : 0; }
int pbModel_StateFieldCount(const pbModel *m) { return 5 + deform_fields(m) + (m->nhistory > 0) + (m->policy ? 3 : 0); }

// Of a policy, by its number among the policy's own.
static pbStateField policy_field(const pbModel *m, int index) {
  int at = state_layout(m).policy;
  if (!m->policy) return (pbStateField){NULL, 0, 0};

  switch (index) {
    case 0: return (pbStateField){"policy_memory", at, m->policy->memory};
    case 1: return (pbStateField){"policy_held", at + m->policy->memory, m->policy->held};
    case 2: return (pbStateField){"policy_count", at + m->policy->memory + m->policy->held, 1};
    default: return (pbStateField){NULL, 0, 0};
  }
}

pbStateField pbModel_StateFieldAt(const pbModel *m, int index) {
  pbStateLayout s = state_layout(m);

  switch (index) {
    case 0: return (pbStateField){"time", s.time, 1};
    case 1: return (pbStateField){"qpos", s.qpos, m->nq};
    case 2: return (pbStateField){"qvel", s.qvel, m->nv};
    case 3: return (pbStateField){"act", s.act, m->na};
    case 4: return (pbStateField){"qacc_warmstart", s.warm, m->nv};
    default: break;
  }

  int behind = index - 5 - deform_fields(m), keeps = m->nhistory > 0;
  if (behind < 0 && m->deform) return pbDeform_FieldAt(m->deform, index - 5, s.deform);
  if (behind == 0 && keeps) return (pbStateField){"history", s.history, m->nhistory};
  return policy_field(m, behind - keeps);
}

static char *put_entry(const char *field, int i, const char *kind, const char *name, char *text, size_t size) {
  if (name && *name) snprintf(text, size, "%s[%d] (%s '%.100s')", field, i, kind, name);
  else snprintf(text, size, "%s[%d]", field, i);
  return text;
}

char *pbState_DofName(const pbModel *m, const char *field, int i, char *text, size_t size) {
  return put_entry(field, i, "joint", pbModel_Name(m, pb_objDof, i), text, size);
}

static char *put_activation(const pbModel *m, int i, char *text, size_t size) {
  int u = 0;
  while (u < m->nu && (m->actuator_actadr[u] < 0 || i >= m->actuator_actadr[u] + m->actuator_actnum[u])) u++;
  return put_entry("act", i, "actuator", pbModel_Name(m, pb_objActuator, u), text, size);
}

// entry: counted from the first of the policy's, which has the order of its tangent.
static char *put_policy(const pbModel *m, int entry, char *text, size_t size) {
  int memory = m->policy->memory, held = m->policy->held;
  if (entry < memory) snprintf(text, size, "policy_memory[%d]", entry);
  else if (entry < memory + held) snprintf(text, size, "policy_held[%d]", entry - memory);
  else snprintf(text, size, "policy_count");
  return text;
}

char *pbState_EntryName(const pbModel *m, int entry, char *text, size_t size) {
  pbStateLayout s = state_layout(m);
  // From the last field to the first.
  if (entry >= s.policy) return put_policy(m, entry - s.policy, text, size);
  if (entry >= s.history) return pbHistory_EntryName(m, entry - s.history, false, text, size);
  if (entry >= s.deform) return pbDeform_EntryName(m->deform, entry - s.deform, text, size);
  if (entry >= s.warm) return pbState_DofName(m, "qacc_warmstart", entry - s.warm, text, size);
  if (entry >= s.act) return put_activation(m, entry - s.act, text, size);
  if (entry >= s.qvel) return pbState_DofName(m, "qvel", entry - s.qvel, text, size);
  snprintf(text, size, "time");
  if (entry < s.qpos) return text;

  // The joint that has the entry of qpos.
  int joint = m->njnt - 1;
  while (m->jnt_qposadr[joint] > entry - s.qpos) joint--;
  return put_entry("qpos", entry - s.qpos, "joint", pbModel_Name(m, pb_objJoint, joint), text, size);
}

char *pbState_TangentName(const pbModel *m, int entry, char *text, size_t size) {
  if (entry >= tangent_policy(m)) return put_policy(m, entry - tangent_policy(m), text, size);
  if (entry >= tangent_history(m)) return pbHistory_EntryName(m, entry - tangent_history(m), true, text, size);
  if (entry >= 2 * m->nv + m->na) return pbDeform_EntryName(m->deform, entry - 2 * m->nv - m->na, text, size);
  if (entry >= 2 * m->nv) return put_activation(m, entry - 2 * m->nv, text, size);
  bool velocity = entry >= m->nv;
  return pbState_DofName(m, velocity ? "qvel" : "qpos", velocity ? entry - m->nv : entry, text, size);
}

pbStatus pbState_Init(pbContext *ctx, const pbModel *m, const double *theta, int key, double *x) {
  pbStateLayout s = state_layout(m);

  if (key >= m->nkey) return pbContext_Fail(ctx, pb_bad_argument, "keyframe %d: the model has %d keyframes", key, m->nkey);
  memset(x, 0, (size_t)s.size * sizeof(double));
  if (m->deform) pbDeform_Init(m->deform, x + s.deform);
  pbHistory_Init(m, theta, x + s.history);

  // Rest, or a keyframe.
  if (key < 0) {
    memcpy(x + s.qpos, theta + (m->qpos0 - m->theta0), (size_t)m->nq * sizeof(double));
    return pb_ok;
  }
  x[s.time] = m->key_time[key];
  memcpy(x + s.qpos, m->key_qpos + (size_t)key * (size_t)m->nq, (size_t)m->nq * sizeof(double));
  memcpy(x + s.qvel, m->key_qvel + (size_t)key * (size_t)m->nv, (size_t)m->nv * sizeof(double));
  memcpy(x + s.act, m->key_act + (size_t)key * (size_t)m->na, (size_t)m->na * sizeof(double));
  return pb_ok;
}

// Every rotation of a state in turn: its first quaternion entry and its first dof.
typedef struct rotation_walk {
  int joint, q, dof;
} rotation_walk;

static bool next_rotation(const pbModel *m, rotation_walk *r) {
  for (r->joint++; r->joint < m->njnt; r->joint++) {
    int type = m->jnt_type[r->joint], shift = pbJoint_PlainCount(type);

    if (!pbJoint_HasRotation(type)) continue;
    r->q = m->jnt_qposadr[r->joint] + shift;
    r->dof = m->jnt_dofadr[r->joint] + shift;
    return true;
  }
  return false;
}

// A step normalizes quaternions of states, so it leaves them at length one; what it is given may have any length in range.
bool pbState_Readable(const pbModel *m, const double *x, char *text, size_t size) {
  pbStateLayout s = state_layout(m);
  if (!pbHistory_Readable(m, x + s.history, text, size)) return false;
  for (rotation_walk r = {.joint = -1}; next_rotation(m, &r);) {
    const double *q = x + s.qpos + r.q;
    double squared = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3];

    if (squared >= 1e-12 && squared <= 1e12) continue;
    double length = pbSphere_Length(q, 4);
    if (isnan(squared) || !isfinite(length)) continue;  // that is another mistake
    char first[160];
    snprintf(text, size, "%s and the three entries behind it: a quaternion of length %.3g; states may have lengths from %g to %g",
             pbState_EntryName(m, s.qpos + r.q, first, sizeof first), length, PB_SPHERE_SHORTEST, PB_SPHERE_LONGEST);
    return false;
  }
  return true;
}

// Samples of the history, the only part of it that has a tangent: one by one from {.object = -1}, {-1}.
typedef struct sample_walk {
  pbBuffer buffer;
  int sample;
} sample_walk;

static bool next_sample(const pbModel *m, sample_walk *k, int *entry, int *tangent) {
  pbBuffer *b = &k->buffer;
  k->sample++;
  if (b->object < 0 || k->sample >= b->n * b->dim) {
    if (!pbBuffer_Next(m, b)) return false;
    k->sample = 0;
  }
  *entry = state_layout(m).history + pbBuffer_Samples(b) + k->sample;
  *tangent = tangent_history(m) + b->tangent + k->sample;
  return true;
}

void pbState_Difference(const pbModel *m, const double *a, const double *b, double *out) {
  pbStateLayout s = state_layout(m);

  // Joints without a rotation, and what others have before it, subtract; rotations take the rotation vector from one to the
  // other.
  for (int j = 0; j < m->njnt; j++) {
    int n = pbJoint_PlainCount(m->jnt_type[j]);
    for (int k = 0; k < n; k++) out[m->jnt_dofadr[j] + k] = b[s.qpos + m->jnt_qposadr[j] + k] - a[s.qpos + m->jnt_qposadr[j] + k];
  }
  for (rotation_walk r = {.joint = -1}; next_rotation(m, &r);) {
    double qa[4], qb[4];
    quat_copy(qa, a + s.qpos + r.q);
    quat_copy(qb, b + s.qpos + r.q);
    quat_normalize(qa);
    quat_normalize(qb);
    quat_conj(qa, qa);
    quat_mul(qa, qa, qb);
    quat_log(out + r.dof, qa);
  }

  for (int i = 0; i < m->nv + m->na; i++) out[m->nv + i] = b[s.qvel + i] - a[s.qvel + i];
  for (int i = 0; i < m->deform_tangent; i++) out[2 * m->nv + m->na + i] = b[s.deform + i] - a[s.deform + i];
  for (int i = 0; i < pb_policyTangent(m); i++) out[tangent_policy(m) + i] = b[s.policy + i] - a[s.policy + i];
  int entry, at;
  for (sample_walk k = {{.object = -1}, -1}; next_sample(m, &k, &entry, &at);) out[at] = b[entry] - a[entry];
}

void pbState_Move(const pbModel *m, double *x, const double *tangent, double eps) {
  pbStateLayout s = state_layout(m);
  pbIntegrate_Position_r(m, x + s.qpos, tangent, eps);

  for (int i = 0; i < m->nv + m->na; i++) x[s.qvel + i] += eps * tangent[m->nv + i];
  for (int i = 0; i < m->deform_tangent; i++) x[s.deform + i] += eps * tangent[2 * m->nv + m->na + i];
  for (int i = 0; i < pb_policyTangent(m); i++) x[s.policy + i] += eps * tangent[tangent_policy(m) + i];
  int entry, at;
  for (sample_walk k = {{.object = -1}, -1}; next_sample(m, &k, &entry, &at);) x[entry] += eps * tangent[at];
}

// A tangent t of a rotation moves its quaternion by q (0, t) / 2.
void pbState_TangentFromAmbient(const pbModel *m, const double *x, const double *qpos_bar, double *dq_bar) {
  const double *q = x + 1;
  for (int j = 0; j < m->njnt; j++) {
    int n = pbJoint_PlainCount(m->jnt_type[j]);
    for (int k = 0; k < n; k++) dq_bar[m->jnt_dofadr[j] + k] = qpos_bar[m->jnt_qposadr[j] + k];
  }

  for (rotation_walk r = {.joint = -1}; next_rotation(m, &r);) {
    double u[4], t[4];
    quat_copy(u, q + r.q);
    quat_normalize(u);
    quat_conj(u, u);
    quat_mul(t, u, qpos_bar + r.q);
    for (int k = 0; k < 3; k++) dq_bar[r.dof + k] = 0.5 * t[1 + k];
  }
}

void pbState_AmbientFromTangent(const pbModel *m, const double *x, const double *dq_bar, double *qpos_bar) {
  const double *q = x + 1;
  for (int j = 0; j < m->njnt; j++) {
    int n = pbJoint_PlainCount(m->jnt_type[j]);
    for (int k = 0; k < n; k++) qpos_bar[m->jnt_qposadr[j] + k] = dq_bar[m->jnt_dofadr[j] + k];
  }

  for (rotation_walk r = {.joint = -1}; next_rotation(m, &r);) {
    double u[4], t[3];
    quat_copy(u, q + r.q);
    quat_normalize(u);
    v3_scale(t, dq_bar + r.dof, 2);
    quat_mulaxis(qpos_bar + r.q, u, t);
  }
}
