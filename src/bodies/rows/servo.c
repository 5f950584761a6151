// Servos: a row along the actuator's moment that asks for a velocity, its force within the actuator's range.
// Tests: tests/unit/test_servo.c, tests/conformance/test_step.c.
#include <pullback/actuators.h>

#include "bodies/actuators.h"
#include "bodies/row.h"
#include "contact/row_build.h"
#include "model/joint.h"

// diagApprox: the inverse weights of the dofs or the tendon that the actuator moves, by the gear.
static num servo_weight(const NUM(pbConstraints) *w, int u) {
  const pbModel *m = w->m;
  const num *gear = w->p.actuator_gear + 6 * u;
  int id = m->actuator_trnid[2 * u];
  if (m->actuator_trntype[u] == pb_trnTendon) return gear[0] * gear[0] * w->p.tendon_invweight0[id];

  num sum = 0;
  for (int k = 0; k < pbJoint_DofCount(m->jnt_type[id]); k++) {
    sum += gear[k] * gear[k] * w->p.dof_invweight0[m->jnt_dofadr[id] + k];
  }
  return sum;
}

// solref and solimp: those of friction loss on the tendon, or the first dof of the joint, that the actuator moves.
static const num *reference(const NUM(pbConstraints) *w, int u, const num **solimp) {
  int id = w->m->actuator_trnid[2 * u];
  if (w->m->actuator_trntype[u] == pb_trnTendon) {
    *solimp = w->p.tendon_solimp_fri + 5 * id;
    return w->p.tendon_solref_fri + 2 * id;
  }

  int dof = w->m->jnt_dofadr[id];
  *solimp = w->p.dof_solimp + 5 * dof;
  return w->p.dof_solref + 2 * dof;
}

// J is the actuator's moment: x = J a + b (J v - target), the force within the actuator's range.
static void make(NUM(pbConstraints) *w) {
  for (int u = 0; u < w->m->nu; u++) {
    if (!pb_servo(w->m, u)) continue;
    NUM(pbRow) *r = NUM(pbRow_New)(w, pb_rowServo, u, 1);
    int start = w->mom_start[u];
    int n = w->mom_start[u + 1] - start;

    memcpy(w->row_dofs + r->dofs, w->mom_dofs + start, (size_t)n * sizeof(int));
    memcpy(NUM(pbRow_Claim)(w, r, n), w->mom + start, (size_t)n * sizeof(num));
    r->diag[0] = servo_weight(w, u);
    r->bound[0] = w->p.actuator_forcerange[2 * u];
    r->bound[1] = w->p.actuator_forcerange[2 * u + 1];
    r->target = w->act_target[u];

    const num *solimp, *solref = reference(w, u, &solimp);
    NUM(pbRow_Finish)(w, r, solref, solimp);
  }
}
PB_ROW(servo, .make = make);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/row_adjoint.h"

// J and the target are the actuator's.
static void pull(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar) { pull_joint_velocity(a, r, bar); }

#if PB_LANES == 1
// Of a servo: the weights of what its actuator moves, by the gear squared.
static void pull_servo_weight(LANE(pbAdjoint) *a, int u, num bar) {
  const NUM(pbConstraints) *w = a->constraints;
  const pbModel *m = w->m;
  const num *gear = w->p.actuator_gear + 6 * u;
  int id = m->actuator_trnid[2 * u];
  if (m->actuator_trntype[u] == pb_trnTendon) {
    PB_THETA(a, tendon_invweight0, id, bar * gear[0] * gear[0]);
    PB_THETA(a, actuator_gear, 6 * u, bar * 2 * gear[0] * w->p.tendon_invweight0[id]);
    return;
  }

  for (int k = 0; k < pbJoint_DofCount(m->jnt_type[id]); k++) {
    int dof = m->jnt_dofadr[id] + k;
    PB_THETA(a, dof_invweight0, dof, bar * gear[k] * gear[k]);
    PB_THETA(a, actuator_gear, 6 * u + k, bar * 2 * gear[k] * w->p.dof_invweight0[dof]);
  }
}

static void parameters(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar) {
  pull_servo_weight(a, r->actuator, bar->diag[0]);
  for (int side = 0; side < 2; side++) PB_THETA(a, actuator_forcerange, 2 * r->actuator + side, bar->bound[side]);
}
#endif
PB_ROW_PULL(servo, .pull = pull, PB_ROW_PARAMETERS(parameters));

void LANE(pbRows_Servos)(LANE(pbAdjoint) *a) {
  for (int k = 0; k < a->constraints->nrow; k++) {
    const NUM(pbRow) *r = a->constraints->row + k;
    if (r->kind != pb_rowServo) continue;

    lane y = PB_LANE_ZERO;
    lane z = PB_LANE_ZERO;
    pull_functional(a, k, &y);
    if (pb_hard(a->w->m)) z = a->z[6 * k];
    else LANE(pbRow_HessianTimes)(r, &y, &z);
    a->act_residual[r->actuator] = z;
    a->act_target[r->actuator] = r->b * z;
  }
}
#endif
