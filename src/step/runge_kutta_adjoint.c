// The pullback of a step of Runge-Kutta (classical, of order 4; rotations by Munthe-Kaas' correction, see pbRk_Correct): stage by
// stage from the last to the first. Primal: step_kernel.c; tests: tests/conformance/test_step.c.
#include "eval/stages.h"
#include "step/step_adjoint.h"

#include "base/assert.h"
#include "elementary/elementary.h"
#include "eval/work.h"
#include "math/vec.h"
#include "model/joint.h"
#include "multibody/spatial.h"
#include "step/integrate.h"
#include "step/kernels.h"

typedef LANE(pbVjpBlock) block;

// ---- rates of rotations ---------------------------------------------------------------------------------------------
// g(t) = (1 - t/2 cot(t/2)) / t^2 and (dg/dt) / t, by t^2; near zero by their series.
static void correction_factor(num t2, num *g, num *dg) {
  if (re(t2) < 1e-2) {
    *g = 1. / 12 + t2 * (1. / 720 + t2 * (1. / 30240 + t2 * (1. / 1209600 + t2 / 47900160)));
    *dg = 1. / 360 + t2 * (4. / 30240 + t2 * (6. / 1209600 + t2 * (8. / 47900160)));
  } else {
    num t = num_sqrt(t2), half = 0.5 * t, cot = num_cos(half) / num_sin(half), f = 1 - half * cot;
    *g = f / t2;
    *dg = ((-0.5 * cot + 0.25 * t / (num_sin(half) * num_sin(half))) / t2 - 2 * f / (t2 * t)) / t;
  }
}

// K = k + 1/2 u x k + g(|u|) u x (u x k): cotangent of K to k (added) and to u.
static void pull_correction(const num u[3], const num k[3], const lane bar[3], lane *k_bar, lane u_bar[3]) {
  num g, dg, c[3], cc[3];
  correction_factor(v3_dot(u, u), &g, &dg);
  v3_cross(c, u, k);
  v3_cross(cc, u, c);

  // By k: every cross product by u turns its sign.
  lane y[3], yy[3];
  PB_CROSS(y, u, bar);
  PB_CROSS(yy, u, y);
  for (int e = 0; e < 3; e++) k_bar[e] += bar[e] - 0.5 * y[e] + g * yy[e];

  // By u in the second term, and through g.
  lane along = PB_DOT3(bar, cc);
  PB_CROSS(u_bar, k, bar);
  for (int e = 0; e < 3; e++) u_bar[e] = 0.5 * u_bar[e] + dg * along * u[e];

  // By u in the num product: the outer one gives c x bar; the inner one bar . (u x (du x k)) = du . (k x (bar x u)).
  lane outer[3], inner[3];
  PB_CROSS(outer, c, bar);
  PB_CROSS(inner, bar, u);
  for (int e = 0; e < 3; e++) u_bar[e] += g * outer[e];
  PB_ADDCROSS(u_bar, g, k, inner);
}

// Rates K_i = corrected(u_i, k_i), u_0 = 0, u_i = h c_i K_{i-1}; cotangents of the rates used (bar[i] of K_i) to the k_i.
static void pull_rotation(block *k, int dof, int stage, lane bar[4][3]) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->work;
  int nv = w->m->nv;
  num h = w->p.timestep[0], K[4][3], u[4][3] = {0};
  for (int i = 0; i < stage; i++) {
    if (i) v3_scale(u[i], K[i - 1], h * pb_rkStep[i]);
    NUM(pbRk_Correct)(u[i], w->rk_v + i * nv + dof, K[i]);
  }

  for (int i = stage - 1; i >= 0; i--) {
    lane u_bar[3];
    pull_correction(u[i], w->rk_v + i * nv + dof, bar[i], k->rk_v + i * nv + dof, u_bar);
    if (i == 0) continue;
    for (int e = 0; e < 3; e++) {
      bar[i - 1][e] += h * pb_rkStep[i] * u_bar[e];
      a->h_bar += PB_LANE0(u_bar[e]) * pb_rkStep[i] * K[i - 1][e];
    }
  }
}

// ---- rates that move positions --------------------------------------------------------------------------------------
// Cotangent of position rates (k->rate) of stage s (4: the whole step) to the stages' velocities.
static void pull_rates(block *k, int s) {
  const NUM(pbWork) *w = k->a.work;
  const pbModel *m = w->m;
  int nv = m->nv;
  PB_ASSERT(s >= 1 && s <= 4);
  for (int j = 0; j < m->njnt; j++) {
    int dof = m->jnt_dofadr[j], type = m->jnt_type[j], n = pbJoint_PlainCount(type);

    // Everything else: a stage moves by the velocity of the one before, the step by the weighted ones.
    for (int i = dof; i < dof + n; i++) {
      if (s < 4) {
        k->rk_v[(s - 1) * nv + i] += k->rate[i];
      } else {
        for (int e = 0; e < 4; e++) k->rk_v[e * nv + i] += pb_rkWeight[e] * k->rate[i];
      }
    }
    if (!pbJoint_HasRotation(type)) continue;

    // Rotations: to the corrected rates, and through the correction.
    lane bar[4][3] = {0};
    for (int c = 0; c < 3; c++) {
      if (s < 4) {
        bar[s - 1][c] = k->rate[dof + n + c];
      } else {
        for (int e = 0; e < 4; e++) bar[e][c] = pb_rkWeight[e] * k->rate[dof + n + c];
      }
    }
    pull_rotation(k, dof + n, s, bar);
  }
}

// Rates of one rotation, corrected, over the whole step or to stage s.
static void rotation_rate(const NUM(pbWork) *w, int dof, int s, num rate[3]) {
  num h = w->p.timestep[0], K[4][3], u[3] = {0};
  for (int i = 0; i < s; i++) {
    if (i) v3_scale(u, K[i - 1], h * pb_rkStep[i]);
    NUM(pbRk_Correct)(u, w->rk_v + i * w->m->nv + dof, K[i]);
  }

  if (s < 4) {
    v3_copy(rate, K[s - 1]);
    return;
  }
  for (int c = 0; c < 3; c++) {
    rate[c] = 0;
    for (int i = 0; i < 4; i++) rate[c] += pb_rkWeight[i] * K[i][c];
  }
}

// Rates over the whole step or to a stage, as the forward program has them (step_kernel.c).
static void position_rates(const NUM(pbWork) *w, int s, num *rate) {
  const pbModel *m = w->m;

  for (int i = 0; i < m->nv; i++) {
    rate[i] = s < 4 ? w->rk_v[(s - 1) * m->nv + i] : 0;
    if (s < 4) continue;
    for (int k = 0; k < 4; k++) rate[i] += pb_rkWeight[k] * w->rk_v[k * m->nv + i];
  }
  for (int j = 0; j < m->njnt; j++) {
    int dof = m->jnt_dofadr[j] + pbJoint_PlainCount(m->jnt_type[j]);
    if (pbJoint_HasRotation(m->jnt_type[j])) rotation_rate(w, dof, s, rate + dof);
  }
}

// ---- the last line of the step --------------------------------------------------------------------------------------
// act+ = Next(act0, sum b_i d_i): to the activations before, and to the stages' rates d_i.
static void pull_last_activations(block *k) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->work;
  const pbModel *m = w->m;
  memset(a->act_dot, 0, (size_t)m->na * sizeof(lane));
  for (int u = 0; u < m->nu; u++) {
    int first = m->actuator_actadr[u], end = first + m->actuator_actnum[u];
    if (first < 0) continue;
    for (int i = first; i < end; i++) {
      // the rate of the whole step; its cotangent goes to every stage's by its weight
      num dot = 0;
      for (int s = 0; s < 4; s++) dot += pb_rkWeight[s] * w->rk_d[s * m->na + i];
      if (m->disableflags & pb_disActuation) k->act_sum[i] += k->act_next[i];
      else LANE(pbForce_Next)(a, u, i, w->a0[i], dot, k->act_next[i], k->act_sum, a->act_dot);

      for (int s = 0; s < 4; s++) k->rk_d[s * m->na + i] += pb_rkWeight[s] * a->act_dot[i];
    }
  }
}

// q+ = q0 (+) h rate, v+ = v0 + h sum b_i a_i, act+ = Next(act0, sum b_i d_i).
static void pull_last_line(block *k) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->work;
  const pbModel *m = w->m;
  int nv = m->nv;
  num h = w->p.timestep[0];
  memset(k->rk_v, 0, 4 * (size_t)nv * sizeof(lane));
  memset(k->rk_a, 0, 4 * (size_t)nv * sizeof(lane));
  memset(k->rk_d, 0, 4 * (size_t)m->na * sizeof(lane));
  memset(k->rate, 0, (size_t)nv * sizeof(lane));

  // q+ = q0 (+) h rate
  position_rates(w, 4, w->tmp);
  LANE(pbVjp_Position)(m, w->tmp, h, k->q_next, k->q_sum, k->rate, &a->h_bar);
  pull_rates(k, 4);

  for (int i = 0; i < nv; i++) {
    // v+ = v0 + h sum b_i a_i
    k->v_sum[i] += k->v_next[i];
    for (int s = 0; s < 4; s++) {
      k->rk_a[s * nv + i] += h * pb_rkWeight[s] * k->v_next[i];
      a->h_bar += PB_LANE0(k->v_next[i]) * pb_rkWeight[s] * w->rk_a[s * nv + i];
    }
  }
  pull_last_activations(k);
}

// ---- stages ---------------------------------------------------------------------------------------------------------
// Stage s > 0: x_s = x_0 (+) h c_s (rate, a_{s-1}, d_{s-1}). The evaluation's results in a are cotangents of x_s.
static void pull_stage_state(block *k, int s) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->work;
  const pbModel *m = w->m;
  int nv = m->nv;
  num h = w->p.timestep[0], step = pb_rkStep[s] * h, step_bar = 0;
  memset(k->rate, 0, (size_t)nv * sizeof(lane));
  position_rates(w, s, w->tmp);
  LANE(pbVjp_Position)(m, w->tmp, step, a->q, k->q_sum, k->rate, &step_bar);
  pull_rates(k, s);

  for (int i = 0; i < nv; i++) {
    lane v = a->v[i] + k->rk_v[s * nv + i];  // the stage's velocity also moves positions
    k->v_sum[i] += v;
    k->rk_a[(s - 1) * nv + i] += step * v;
    step_bar += PB_LANE0(v) * w->rk_a[(s - 1) * nv + i];
  }
  for (int i = 0; i < m->na; i++) {
    k->act_sum[i] += a->act[i];
    k->rk_d[(s - 1) * m->na + i] += step * a->act[i];
    step_bar += PB_LANE0(a->act[i]) * w->rk_d[(s - 1) * m->na + i];
  }
  a->h_bar += pb_rkStep[s] * step_bar;
}

// Stage 0 is at the state before the step.
void LANE(pbVjp_FirstStage)(block *k) {
  LANE(pbAdjoint) *a = &k->a;
  const pbModel *m = a->w->m;
  for (int i = 0; i < m->nv; i++) {
    k->q_sum[i] += a->q[i];
    k->v_sum[i] += a->v[i] + k->rk_v[i];
  }

  for (int i = 0; i < m->na; i++) k->act_sum[i] += a->act[i];
}

// The evaluation of stage s once more, and what its pullback needs. Nothing is damped implicitly.
static pbStatus replay_stage(block *k, NUM(pbWork) *w, const double *stages, int s, bool known) {
  PB_TRY(NUM(pbStep_Stage)(w, stages, s, known));

  NUM(pbStage_Acceleration)(&w->mechanism);
  memcpy(w->qacc_integrated, w->qacc, (size_t)w->m->nv * sizeof(num));
  w->damped = false;
  PB_TRY(LANE(pbVjp_Prepare)(k, w));
  LANE(pbVjp_Begin)(k, w);
  return pb_ok;
}

pbStatus LANE(pbVjp_RungeKutta)(block *k, NUM(pbWork) *w, const double *stages, const pbPullback *p) {
  LANE(pbAdjoint) *a = &k->a;
  const pbModel *m = w->m;
  int nv = m->nv;
  pbPullPhase phase = k->phase;  // a policy looks at the first stage alone
  for (int s = 3; s >= 0; s--) {
    int row = pb_staged(m) ? pb_rkControl[s] : 0;
    a->ctrl = row ? k->ctrl_later + (size_t)(row - 1) * (size_t)m->nu : k->ctrl;
    k->phase = s == 0 ? phase : pb_pullWhole;
    PB_TRY(replay_stage(k, w, stages, s, s < 3 || p->knows_stages));
    LANE(pbVjp_Place)(k, w, p);
    if (s == 3) {
      pull_last_line(k);
      LANE(pbVjp_Begin)(k, w);
    }

    // Later stages have left the cotangents of this one's accelerations and activation rates.
    for (int i = 0; i < nv; i++) a->qacc[i] = k->rk_a[s * nv + i];
    for (int i = 0; i < m->na; i++) a->act_dot[i] = k->rk_d[s * m->na + i];
    if (s == 0) {
      NUM(pbStage_Sensors)(&w->constraints);
    }
    bool sensed = s == 0 && LANE(pbVjp_Observe)(k, p);
    LANE(pbVjp_Evaluation)(k, sensed);

    if (s > 0) pull_stage_state(k, s);
    else if (k->phase == pb_pullWhole) LANE(pbVjp_FirstStage)(k);
  }
  return pb_ok;
}
