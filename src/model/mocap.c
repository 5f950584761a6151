// Poses of mocap bodies: those that a model or a keyframe has, and whether an input can be read.
// Tests: tests/conformance/test_step.c, tests/oracle/test_mocap.py.
#include "model/mocap.h"

#include <pullback/world.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "math/vec.h"
#include "model/model.h"
#include "model/sphere.h"

int pbModel_MocapBody(const pbModel *m, int mocap) {
  if (mocap < 0) return -1;

  int b = 0;
  while (b < m->nbody && m->body_mocapid[b] != mocap) b++;
  return b < m->nbody ? b : -1;
}

void pbModel_MocapPose(const pbModel *m, const double *theta, int key, double *pos, double *quat) {
  PB_ASSERT(key < m->nkey);
  size_t n = (size_t)m->nmocap;

  if (key >= 0) {
    if (pos && n) memcpy(pos, m->key_mpos + (size_t)key * 3 * n, 3 * n * sizeof *pos);
    if (quat && n) memcpy(quat, m->key_mquat + (size_t)key * 4 * n, 4 * n * sizeof *quat);
    return;
  }

  // The model's are those of the bodies in their parent, the world.
  const double *body_pos = theta + (m->body_pos - m->theta0);
  const double *body_quat = theta + (m->body_quat - m->theta0);
  for (int b = 0; b < m->nbody; b++) {
    int k = m->body_mocapid[b];
    if (k < 0) continue;
    if (pos) memcpy(pos + 3 * k, body_pos + 3 * b, 3 * sizeof *pos);
    if (quat) memcpy(quat + 4 * k, body_quat + 4 * b, 4 * sizeof *quat);
  }
}

void pbModel_MocapMove(const pbModel *m, const double *pos_direction, const double *rotation, double eps, double *pos,
                       double *quat) {
  int moving = pos_direction ? 3 * m->nmocap : 0;
  int turning = rotation ? m->nmocap : 0;

  for (int i = 0; i < moving; i++) pos[i] += eps * pos_direction[i];

  // Rotations are in the bodies' own frames.
  for (int k = 0; k < turning; k++) {
    double step[3], turn[4];

    v3_scale(step, rotation + 3 * k, eps);
    quat_exp(turn, step);
    quat_mul(quat + 4 * k, quat + 4 * k, turn);
  }
}

int pbModel_Columns(const pbModel *m, unsigned by) {
  int columns = by & pb_byControl ? pb_controls(m) : 0;
  if (by & pb_byMocapPos) columns += 3 * m->nmocap;
  if (by & pb_byMocapRot) columns += 3 * m->nmocap;
  return columns;
}

void pbMocap_Name(const pbModel *m, int mocap, char *text, size_t size) {
  const char *name = pbModel_Name(m, pb_objBody, pbModel_MocapBody(m, mocap));

  if (name && *name) snprintf(text, size, "mocap body '%.100s'", name);
  else snprintf(text, size, "mocap body %d", mocap);
}

static bool is_finite(const double *x, int n) {
  bool finite = true;
  for (int i = 0; i < n; i++) finite = finite && isfinite(x[i]);
  return finite;
}

bool pbMocap_Readable(const pbModel *m, const pbInput *input, const char *when, char *text, size_t size) {
  const double *pos = input->mocap_pos, *quat = input->mocap_quat, *vel = input->mocap_vel;
  char body[160];

  for (int k = 0; k < m->nmocap; k++) {
    pbMocap_Name(m, k, body, sizeof body);
    if (pos && !is_finite(pos + 3 * k, 3)) {
      snprintf(text, size, "mocap_pos%s of %s is not finite", when, body);
      return false;
    }

    // As directions in theta and in states
    double length = quat ? pbSphere_Length(quat + 4 * k, 4) : 1;
    if (!(length >= PB_SPHERE_SHORTEST && length <= PB_SPHERE_LONGEST)) {
      snprintf(text, size, "mocap_quat%s of %s has length %g; it is normalized, from lengths of %g to %g", when, body, length,
               PB_SPHERE_SHORTEST, PB_SPHERE_LONGEST);
      return false;
    }

    // Behind poses, which it may come of
    if (!vel || is_finite(vel + 6 * k, 6)) continue;
    snprintf(text, size, "mocap_vel%s of %s is not finite", when, body);
    return false;
  }

  return true;
}
