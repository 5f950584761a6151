// A state that goes on for a while at its velocity, without forces: what tangents and cotangents of it become.
// Tests: tests/unit/test_event.c, tests/python/test_single_impacts.py.
#include "world/drift.h"

#include <math.h>

#include "base/assert.h"
#include "math/vec.h"
#include "model/joint.h"
#include "model/model.h"

// Angular tangents are in the body's axes, which turn.
void pbDrift_Push(const pbModel *m, const double *v, double time, double *x) {
  PB_VALIDATE(isfinite(time));
  // Rotations of joints that have one
  for (int j = 0; j < m->njnt; j++) {
    if (!pbJoint_HasRotation(m->jnt_type[j])) continue;
    int dof = m->jnt_dofadr[j] + pbJoint_PlainCount(m->jnt_type[j]);
    double angle[3], turn[4];
    v3_scale(angle, v + dof, -time);
    quat_exp(turn, angle);
    quat_rotate(x + dof, turn, x + dof);
  }
  for (int i = 0; i < m->nv; i++) x[i] += time * x[m->nv + i];
}

void pbDrift_Pull(const pbModel *m, const double *v, double time, double *x_bar) {
  PB_VALIDATE(isfinite(time));
  for (int i = 0; i < m->nv; i++) x_bar[m->nv + i] += time * x_bar[i];
  // Rotations of joints that have one
  for (int j = 0; j < m->njnt; j++) {
    if (!pbJoint_HasRotation(m->jnt_type[j])) continue;
    int dof = m->jnt_dofadr[j] + pbJoint_PlainCount(m->jnt_type[j]);
    double angle[3], turn[4];
    v3_scale(angle, v + dof, time);
    quat_exp(turn, angle);
    quat_rotate(x_bar + dof, turn, x_bar + dof);
  }
}
