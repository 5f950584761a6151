// A step from one state to the next: Euler and implicitfast in one evaluation, Runge-Kutta (classical, of order 4) in four.
// Pullback: step_adjoint.c and runge_kutta_adjoint.c; forward derivative: jvp_kernel.c.
// Tests: tests/conformance/test_golden.c, tests/oracle/test_step.py.
#include <pullback/actuators.h>

#include "base/assert.h"
#include "bodies/actuators.h"
#include "eval/stages.h"
#include "eval/work.h"
#include "math/vec.h"
#include "model/joint.h"
#include "step/integrate.h"
#include "step/kernels.h"

static void save_start(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  memcpy(w->q0, w->qpos, (size_t)m->nq * sizeof(num));
  memcpy(w->v0, w->qvel, (size_t)m->nv * sizeof(num));
  memcpy(w->a0, w->act, (size_t)m->na * sizeof(num));
}

// Sensors, and for jvp positions, as they are at the start of the step.
static void observe_start(NUM(pbWork) *w) {
  NUM(pbStage_Acceleration)(&w->mechanism);
  NUM(pbStage_Sensors)(&w->constraints);

#if PB_IS_COMPLEX
  // Whose derivatives jvp gives; later stages place them anew.
  memcpy(w->observed_xpos, w->xpos, 3 * (size_t)w->m->nbody * sizeof(num));
  NUM(pbStage_AllSites)(&w->mechanism);
  memcpy(w->observed_site, w->site_xpos, 3 * (size_t)w->m->nsite * sizeof(num));
#endif
}

// Evaluate at the state in w; the solution is that of `known`, or where that is NULL goes to stages.
static pbStatus evaluate(NUM(pbWork) *w, const double *known, double *stages, int stage) {
  int nv = w->m->nv, solution = stage * nv;
  int found = pb_noslip(w->m) ? (pb_stages(w->m) + stage) * nv : solution;
  double worst = stage ? w->residual : 0;  // the residual of a step is that of its worst stage
  PB_ASSERT(stage >= 0 && stage < pb_stages(w->m));
  if (known) {
    for (int i = 0; i < nv; i++) w->qacc_warmstart[i] = known[found + i];
  }

  PB_TRY(NUM(pbEvaluate)(w, known != NULL));
  w->residual = fmax(w->residual, worst);

  // Later stages, and pullbacks, build states from these.
  for (int i = 0; i < nv; i++) {
    if (!known && pb_noslip(w->m)) stages[found + i] = re(w->slip.qacc[i]);
    if (!known) stages[solution + i] = re(w->qacc[i]);
    w->rk_v[stage * nv + i] = w->qvel[i];
    w->rk_a[stage * nv + i] = w->qacc[i];
  }
  memcpy(w->rk_d + stage * w->m->na, w->act_dot, (size_t)w->m->na * sizeof(num));
  return pb_ok;
}

// ---- Runge-Kutta ----------------------------------------------------------------------------------------------------
// K <- corrected rates of one rotation, in the stages before `stage`: K_i at the rotation vector u_i = h c_i K_{i-1} from the
// start, u_0 = 0; see pbRk_Correct.
static void rotation_rates(const NUM(pbWork) *w, int dof, int stage, num K[4][3]) {
  int nv = w->m->nv;
  num h = w->p.timestep[0], u[3] = {0};
  for (int i = 0; i < stage; i++) {
    v3_scale(u, i ? K[i - 1] : u, i ? h * pb_rkStep[i] : 0);
    NUM(pbRk_Correct)(u, w->rk_v + i * nv + dof, K[i]);
  }
}

// The rate that leads to stage s < 4, which is that of the stage before; s = 4: the weighted sum of all four, for the whole step.
// rates: one for each stage, `stride` numbers apart.
static num combined_rate(const num *rates, int stride, int s) {
  num sum = 0;
  if (s < 4) return rates[(s - 1) * stride];
  for (int k = 0; k < 4; k++) sum += pb_rkWeight[k] * rates[k * stride];
  return sum;
}

// Rates that move positions from the start: to stage s (then times pb_rkStep[s] h), or over the whole step (s = 4).
static void position_rates(NUM(pbWork) *w, int s, num *rate) {
  const pbModel *m = w->m;
  PB_ASSERT(s >= 1 && s <= 4);
  for (int i = 0; i < m->nv; i++) rate[i] = combined_rate(w->rk_v + i, m->nv, s);

  for (int j = 0; j < m->njnt; j++) {
    if (!pbJoint_HasRotation(m->jnt_type[j])) continue;
    int dof = m->jnt_dofadr[j] + pbJoint_PlainCount(m->jnt_type[j]);
    num K[4][3];
    rotation_rates(w, dof, s, K);
    for (int c = 0; c < 3; c++) rate[dof + c] = combined_rate(&K[0][c], 3, s);
  }
}

// The controls of a stage, where they are not those of the start.
static void choose_controls(NUM(pbWork) *w, int stage) {
  size_t nu = (size_t)w->m->nu;
  if (pb_staged(w->m)) memcpy(w->ctrl, w->rk_ctrl + (size_t)pb_rkControl[stage] * nu, nu * sizeof(num));
}

// The state of stage s > 0 from the start and the stage before.
static void make_stage_state(NUM(pbWork) *w, int s) {
  const pbModel *m = w->m;
  choose_controls(w, s);
  num h = pb_rkStep[s] * w->p.timestep[0];
  position_rates(w, s, w->tmp);
  memcpy(w->qpos, w->q0, (size_t)m->nq * sizeof(num));
  NUM(pbIntegrate_Position)(m, w->qpos, w->tmp, h);

  for (int i = 0; i < m->nv; i++) w->qvel[i] = w->v0[i] + h * w->rk_a[(s - 1) * m->nv + i];
  for (int i = 0; i < m->na; i++) w->act[i] = w->a0[i] + h * w->rk_d[(s - 1) * m->na + i];
}

// The state after the step: from the start, by the weighted rates of all stages.
static void combine_stages(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  num h = w->p.timestep[0];
  for (int i = 0; i < m->na; i++) w->act_dot[i] = combined_rate(w->rk_d + i, m->na, 4);
  NUM(pbIntegrate_Activation)(w, w->a0, w->act_dot, w->act);

  position_rates(w, 4, w->tmp);
  memcpy(w->qpos, w->q0, (size_t)m->nq * sizeof(num));
  NUM(pbIntegrate_Position)(m, w->qpos, w->tmp, h);
  for (int i = 0; i < m->nv; i++) w->qvel[i] = w->v0[i] + h * combined_rate(w->rk_a + i, m->nv, 4);
}

static pbStatus step_runge_kutta(NUM(pbWork) *w, double *stages, bool replay) {
  // Each stage's solver starts at the solution of the one before.
  for (int s = 1; s < 4; s++) {
    memcpy(w->qacc_warmstart, w->qacc, (size_t)w->m->nv * sizeof(num));
    make_stage_state(w, s);
    PB_TRY(evaluate(w, replay ? stages : NULL, stages, s));
  }

  choose_controls(w, 0);
  combine_stages(w);
  return pb_ok;
}

// ---- Euler, implicitfast --------------------------------------------------------------------------------------------
// Semi-implicit: velocities first, positions with the new ones.
static pbStatus step_euler(NUM(pbWork) *w) {
  num h = w->p.timestep[0];
  PB_TRY(NUM(pbIntegrate_Damp)(w));
  NUM(pbIntegrate_Activation)(w, w->a0, w->act_dot, w->act);
  for (int i = 0; i < w->m->nv; i++) w->qvel[i] += h * w->qacc_integrated[i];
  NUM(pbIntegrate_Position)(w->m, w->qpos, w->qvel, h);
  return pb_ok;
}

pbStatus NUM(pbStep_Run)(NUM(pbWork) *w, double *stages, bool replay, bool sense, bool integrate) {
  save_start(w);
  PB_TRY(evaluate(w, replay ? stages : NULL, stages, 0));
  if (sense) observe_start(w);
  if (!integrate) return pb_ok;
  return w->m->integrator == pb_intRK4 ? step_runge_kutta(w, stages, replay) : step_euler(w);
}

// ---- one stage again ------------------------------------------------------------------------------------------------
// act_dot of the activations at the state in w: closed forms, without a whole evaluation.
static void activation_rates(NUM(pbWork) *w, num *dot) {
  const pbModel *m = w->m;
  for (int u = 0; u < m->nu; u++) {
    int first = m->actuator_actadr[u], end = first + m->actuator_actnum[u];
    if (pb_actuator_off(m, u)) continue;
    for (int a = first; a < end; a++)
      dot[a] = NUM(pbActuator_Rate)(&w->mechanism, u, NUM(pbActuator_Control)(&w->mechanism, u), a);
  }
}

// The state of the next stage, without an evaluation of this one, whose accelerations are known.
static void pass_stage(NUM(pbWork) *w, const double *stages, int s) {
  const pbModel *m = w->m;
  for (int i = 0; i < m->nv; i++) {
    w->rk_v[s * m->nv + i] = w->qvel[i];
    if (!PB_IS_COMPLEX) w->rk_a[s * m->nv + i] = stages[s * m->nv + i];
  }
  memset(w->rk_d + s * m->na, 0, (size_t)m->na * sizeof(num));
  activation_rates(w, w->rk_d + s * m->na);
  make_stage_state(w, s + 1);
}

pbStatus NUM(pbStep_Stage)(NUM(pbWork) *w, const double *stages, int stage, bool known) {
  const pbModel *m = w->m;
  memcpy(w->qpos, w->q0, (size_t)m->nq * sizeof(num));
  memcpy(w->qvel, w->v0, (size_t)m->nv * sizeof(num));
  memcpy(w->act, w->a0, (size_t)m->na * sizeof(num));
  choose_controls(w, 0);

  // The states of the stages before need their accelerations, which are on the tape, and nothing else of their evaluations;
  // derivatives of these are not on the tape.
  for (int s = 0; s < stage; s++) {
    if (PB_IS_COMPLEX && !known) {
      PB_TRY(evaluate(w, stages, NULL, s));
      make_stage_state(w, s + 1);
    } else pass_stage(w, stages, s);
  }
  return evaluate(w, stages, NULL, stage);
}
