// The pullback of one step: the adjoint of an evaluation, and around it Euler and implicitfast. Primal: step_kernel.c and
// integrate_kernel.c; derivation: docs/derivatives.md; tests: tests/conformance/test_step.c.
#include <stdio.h>

#include "eval/stages.h"
#include "step/step_adjoint.h"

#include "base/assert.h"
#include "base/mutate.h"
#include "eval/work.h"
#include "math/vec.h"
#include "model/policy_data.h"
#include "multibody/spatial.h"
#include "solve/dual.h"
#include "solve/newton.h"
#include "step/integrate.h"
#include "step/kernels.h"

typedef LANE(pbVjpBlock) block;

// ---- one evaluation -------------------------------------------------------------------------------------------------
void LANE(pbVjp_Begin)(block *k, const NUM(pbWork) *w) {
  LANE(pbAdjoint) *a = &k->a;
  LANE(pbVjp_Set)(a, w);
  a->fresh = true;
  a->damped = a->has_mu = a->has_Vs = a->has_FA = a->has_force = a->loaded = a->apart = false;

  PB_ASSERT(k->bodies_from < k->cleared_from && k->cleared_from <= k->cleared_to);
  PB_ASSERT(w->nrow >= 0 && w->nrow <= w->max_row);
  memset(k->base + k->cleared_from, 0, k->cleared_to - k->cleared_from);
  memset(a->force, 0, 6 * (size_t)w->nrow * sizeof(lane));
  memset(a->y0, 0, 6 * (size_t)w->nrow * sizeof(lane));
}

// Vx = Vl + Vs of the body and all above it, the motions that force and torque sensors give: summed on the way up in a->X.
static void inject_sensor_motions(block *k) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->work;
  a->Vx = a->has_Vs ? k->Vx : a->Vl;
  if (!a->has_Vs) return;

  memcpy(a->Vx, a->Vl, 6 * (size_t)w->m->nbody * sizeof(lane));
  memset(a->X, 0, 6 * sizeof(lane));
  for (int b = 1; b < w->m->nbody; b++) {
    int parent = w->m->body_parentid[b], tree = w->t->body_tree[b];
    lane *S = a->X + 6 * b;
    memcpy(S, a->X + 6 * parent, 6 * sizeof(lane));

    // Bodies that cannot move have theirs about the world's origin; a root takes it to the reference point of its tree.
    if (tree >= 0 && w->t->body_tree[parent] < 0) PB_ADDCROSS(S + 3, 1, S, w->ref + 3 * tree);
    PB_AXPY6(S, 1, a->Vs + 6 * b);
    PB_AXPY6(a->Vx + 6 * b, 1, S);
  }
}

// Rows, and when all of them are done meshes: one search serves all contacts of a pair.
static void pull_rows(LANE(pbAdjoint) *a) {
  const pbModel *m = a->w->m;
#if PB_LANES == 1
  LANE(pbContact_ClearMeshes)(a);
#endif
  LANE(pbRows_Adjoint)(a);
  LANE(pbAdhesion_Pull)(a);
  if (!PB_IS_COMPLEX && pb_noslip(m)) LANE(pbSlip_Power)(a);
#if PB_LANES == 1
  LANE(pbContact_PullMeshes)(a, m->contact.onset);
#endif
}

void LANE(pbVjp_Terms)(block *k) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->work;
  LANE(pbForce_LimitActuators)(a);
  if (!a->apart) LANE(pbSweep_Inertia)(a);
  LANE(pbRows_Servos)(a);
  LANE(pbForce_Actuators)(a);
  LANE(pbForce_Joints)(a);
  pull_rows(a);
  LANE(pbForce_Tendons)(a);
  if (a->damped && w->m->integrator == pb_intImplicitfast) {
    for (int j = 0; j < w->m->njnt; j++) {
      if (free_standalone(w->m, j)) LANE(pbVjp_FreeBias)(a, j, w->p.timestep[0]);
    }
  }
}

void LANE(pbVjp_Power)(block *k) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->work;

  // Virtual motions of all bodies, on the way up.
  LANE(pbSweep_Push)(&w->mechanism, a->lam, a->Vl);
  inject_sensor_motions(k);
  if (a->damped) LANE(pbSweep_Push)(&w->mechanism, a->mu, a->Vm);
  LANE(pbVjp_Terms)(k);

  // Cotangents of bodies go down the tree to joints, with those of a policy's observations where there is one.
  if (k->phase == pb_pullWhole) LANE(pbSweep_Pull)(a);
}

// FA += sign I Vx of all bodies: inertia under the sensors' motions counts among the accelerations.
static void add_sensor_inertia(LANE(pbAdjoint) *a, num sign) {
  const NUM(pbWork) *w = a->work;
  if (!a->has_Vs) return;
  for (int b = 1; b < w->m->nbody; b++) {
    if (w->t->body_tree[b] >= 0) PB_ADDINERT(a->FA + 6 * b, sign, w->inert + 10 * b, a->Vx + 6 * b);
  }
}

// The share of sensors in the cotangent of qacc. Their inertia is taken out again: the inertial sweep adds it with the rest of
// Vx.
static void pull_sensed_accelerations(block *k) {
  LANE(pbAdjoint) *a = &k->a;
  memset(a->Vl, 0, 6 * (size_t)a->w->m->nbody * sizeof(lane));
  inject_sensor_motions(k);

  // W = -Vs . I A: the cotangent of A is -I Vs.
  add_sensor_inertia(a, -1);
  LANE(pbSweep_Acceleration)(a);
  add_sensor_inertia(a, 1);
  LANE(pbRows_Direct)(a);
}

void LANE(pbVjp_Evaluation)(block *k, bool sensed) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->work;
  size_t nv = (size_t)w->m->nv;
  if (sensed) pull_sensed_accelerations(k);
  if (PB_LANES == 1 && k->more_qacc) {
    for (size_t i = 0; i < nv; i++) a->qacc[i] += k->more_qacc[i];
  }
  PB_VALIDATE(pb_allFinite((const double *)a->qacc, nv * PB_LANES));

  if (!PB_IS_COMPLEX && pb_noslip(w->m)) LANE(pbSlip_Pull)(a);

  // The adjoint system: H lam = cotangent of qacc. Nothing else of the solve is differentiated.
  if (!PB_IS_COMPLEX && pb_hard(w->m)) {
    LANE(pbDual_Adjoint)(a);
  } else {
    memcpy(a->lam, a->qacc, nv * sizeof(lane));
    LANE(pbSweep_Solve)(&w->H, w->H_LD, w->H_Dinv, a->lam);
  }
  if (PB_LANES == 1 && k->lam_out) {
    for (size_t i = 0; i < nv; i++) k->lam_out[i] = PB_LANE0(a->lam[i]);
  }

  LANE(pbVjp_Power)(k);
}

// ---- what is observed at the start ----------------------------------------------------------------------------------
// Cotangents of sensors; has_Vs: whether any gives bodies a motion.
static void observe_sensors(block *k, const double *sensordata) {
  LANE(pbAdjoint) *a = &k->a;
  const pbModel *m = a->w->m;
  memcpy(k->sensordata, sensordata, (size_t)m->nsensordata * sizeof(lane));
  for (int i = 0; i < m->nsensor; i++) {
    PB_MUTE(pb_muteSensor, m->sensor_type[i], k->sensordata + m->sensor_adr[i], m->sensor_dim[i]);
  }
  LANE(pbSensor_Adjoint)(a, k->sensordata);

  for (int i = 0; i < 6 * m->nbody; i++) {
    for (int l = 0; l < PB_LANES; l++) a->has_Vs = a->has_Vs || ((const double *)(a->Vs + i))[l] != 0;
  }
}

// Cotangent of a point of a body, to the body's pose.
static void observe_point(LANE(pbAdjoint) *a, int body, const num *point, const lane f[3]) {
  num d[3];
  body_offset(a->w, body, point, d);
  PB_ADDWRENCH(a->P + 6 * body, 1, d, f);
}

bool LANE(pbVjp_Observe)(block *k, const pbPullback *p) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->work;
  const pbModel *m = w->m;
  lane f[3];
  if (!p->sensordata && !p->xpos && !p->site_xpos && !p->distance && !p->observation) return false;

  // Cotangents of body fields come before the inertial sweep, which else clears them.
  a->fresh = false;
  memset(k->base + k->bodies_from, 0, k->cleared_from - k->bodies_from);

  bool sensed = p->sensordata && m->nsensordata;
  if (sensed) observe_sensors(k, p->sensordata);

  // Positions of bodies and sites.
  if (p->xpos) {
    for (int b = 0; b < m->nbody; b++) {
      memcpy(f, p->xpos + (size_t)(3 * b * PB_LANES), sizeof f);
      observe_point(a, b, w->xpos + 3 * b, f);
    }
  }
  if (p->site_xpos) {
    PB_ASSERT(w->all_sites);
    for (int s = 0; s < m->nsite; s++) {
      memcpy(f, p->site_xpos + (size_t)(3 * s * PB_LANES), sizeof f);
      observe_point(a, m->site_bodyid[s], w->site_xpos + 3 * s, f);
      LANE(pbSweep_Site)(a, s, f, NULL);
    }
  }

  // Distances of limits and contacts.
  if (p->distance) {
    for (int i = 0; i < w->nrow; i++) {
      if (p->distance[i] != 0) LANE(pbRows_Distance)(a, i, PB_LANE_ZERO + p->distance[i]);
    }
  }

  // What a policy sees comes from positions and velocities alone: it has no share in the accelerations.
  if (!PB_IS_COMPLEX && p->observation) LANE(pbVjp_Policy)(k, p->observation);
  return sensed;
}

// Results of an evaluation, added to the sums.
static void add_results(block *k) {
  LANE(pbAdjoint) *a = &k->a;
  const pbModel *m = a->w->m;
  for (int i = 0; i < m->nv; i++) {
    k->q_sum[i] += a->q[i];
    k->v_sum[i] += a->v[i];
  }
  for (int i = 0; i < m->na; i++) k->act_sum[i] += a->act[i];
}

static void copy_or_clear(lane *to, const double *from, int n) {
  if (from) memcpy(to, from, (size_t)n * sizeof(lane));
  else memset(to, 0, (size_t)n * sizeof(lane));
}

void LANE(pbVjp_AddOut)(double *to, const lane *from, int n) {
  const double *x = (const double *)from;
  if (!to) return;
  for (int i = 0; i < n * PB_LANES; i++) to[i] += x[i];
}

// ---- Euler, implicitfast --------------------------------------------------------------------------------------------
// mu = Mhat^-T (h vbar) for the six dofs of a free body that stands alone: its block is not symmetric.
static void solve_free_block(block *k, int joint, num h) {
  const NUM(pbWork) *w = k->a.work;
  int dof = w->m->jnt_dofadr[joint];

#if PB_IS_COMPLEX
  num x[6];
  for (int r = 0; r < 6; r++) x[r] = h * k->v_next[dof + r];
  NUM(pbSolve6)(w->free_A + 36 * joint, x, true);
  memcpy(k->a.mu + dof, x, sizeof x);
#else
  for (int l = 0; l < PB_LANES; l++) {
    double x[6];
    for (int r = 0; r < 6; r++) x[r] = h * ((const double *)(k->v_next + dof + r))[l];
    NUM(pbSolve6)(w->free_A + 36 * joint, x, true);
    for (int r = 0; r < 6; r++) ((double *)(k->a.mu + dof + r))[l] = x[r];
  }
#endif
}

// mu = Mhat^-T (h vbar); then the cotangent of qacc is M mu.
static void pull_damped_velocity(block *k, num h) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->work;
  const pbModel *m = w->m;
  a->damped = a->has_mu = true;
  for (int i = 0; i < m->nv; i++) a->mu[i] = h * k->v_next[i];
  LANE(pbSweep_Solve)(&w->t->M, w->Mhat, w->Mhat_Dinv, a->mu);
  if (m->integrator == pb_intImplicitfast) {
    for (int j = 0; j < m->njnt; j++) {
      if (free_standalone(m, j)) solve_free_block(k, j, h);
    }
  }

  lane *product = a->c;
  LANE(pbSweep_Mul)(&w->t->M, w->M, a->mu, product);
  for (int i = 0; i < m->nv; i++) a->qacc[i] += product[i];
}

// The same without damping: Mhat is M. mu is wanted by the gradients of damping coefficients at zero only.
static void pull_undamped_velocity(block *k, num h) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->work;
  for (int i = 0; i < w->m->nv; i++) {
    a->mu[i] = h * k->v_next[i];
    a->qacc[i] += a->mu[i];
  }

  // H mu is of no use to the accelerations; only W = -h mu . B ahat has a slope by B at zero.
  a->has_mu = PB_WANTS(a, pb_wantDamping);
  if (!a->has_mu) return;
  memcpy(w->LD, w->M, (size_t)w->t->M.size * sizeof(num));  // a replay leaves M unfactored
  NUM(pbTree_Factor)(&w->t->M, w->LD, w->Dinv);
  LANE(pbSweep_Solve)(&w->t->M, w->LD, w->Dinv, a->mu);
}

static void pull_activations(block *k) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->work;
  const pbModel *m = w->m;

  for (int u = 0; u < m->nu; u++) {
    int first = m->actuator_actadr[u], end = first + m->actuator_actnum[u];
    if (first < 0) continue;
    for (int i = first; i < end; i++) {
      if (m->disableflags & pb_disActuation) a->act[i] += k->act_next[i];
      else LANE(pbForce_Next)(a, u, i, w->act[i], w->act_dot[i], k->act_next[i], a->act, a->act_dot);
    }
  }
}

// q+ = q (+) h v+, v+ = v + h ahat, ahat = Mhat^-1 M qacc: what the step did with qacc, from its last line to its first.
static void pull_euler_update(block *k) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->work;
  const pbModel *m = w->m;
  num h = w->p.timestep[0];
  for (int i = 0; i < m->nv; i++) w->tmp[i] = w->qvel[i] + h * w->qacc_integrated[i];
  LANE(pbVjp_Position)(m, w->tmp, h, k->q_next, k->q_sum, k->v_next, &a->h_bar);

  for (int i = 0; i < m->nv; i++) {
    k->v_sum[i] += k->v_next[i];
    a->h_bar += PB_LANE0(k->v_next[i]) * w->qacc_integrated[i];
  }

  // v+ = v + h Mhat^-1 M qacc
  if (w->damped) pull_damped_velocity(k, h);
  else pull_undamped_velocity(k, h);
  pull_activations(k);
}

// Rows of Jacobians by what a policy observes alone: of positions and velocities, so nothing is pulled through forces. Lengths of
// tendons and actuators are pulled with theirs.
static bool only_observes(const pbModel *m, const pbPullback *p, bool step) {
  return PB_LANES > 1 && !step && p->observation && !p->sensordata && !p->xpos && !p->site_xpos && !m->policy->lengths;
}

static void pull_euler(block *k, const pbPullback *p, bool step) {
  LANE(pbAdjoint) *a = &k->a;
  if (step) pull_euler_update(k);
  bool sensed = LANE(pbVjp_Observe)(k, p);
  if (only_observes(a->w->m, p, step)) {
    memset(a->Vl, 0, 6 * (size_t)a->w->m->nbody * sizeof(lane));
    a->Vx = a->Vl;
    LANE(pbSweep_Pull)(a);
  } else {
    LANE(pbVjp_Evaluation)(k, sensed);
  }
  if (k->phase == pb_pullWhole) add_results(k);
}

// ---- the step -------------------------------------------------------------------------------------------------------
void LANE(pbVjp_SaveStart)(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  memcpy(w->q0, w->qpos, (size_t)m->nq * sizeof(num));
  memcpy(w->v0, w->qvel, (size_t)m->nv * sizeof(num));
  memcpy(w->a0, w->act, (size_t)m->na * sizeof(num));
}

pbStatus LANE(pbVjp_Replay)(block *k, NUM(pbWork) *w, const double *stages, bool cached, bool sense) {
  const pbModel *m = w->m;
  if (!cached) {
    PB_TRY(NUM(pbStep_Stage)(w, stages, 0, false));
    if (m->integrator == pb_intRK4) {
      memcpy(w->qacc_integrated, w->qacc, (size_t)m->nv * sizeof(num));
      w->damped = false;
    } else {
      PB_TRY(NUM(pbIntegrate_Damp)(w));
    }
  }

  if (cached) {
    w->all_geoms = false;
    NUM(pbStage_Sites)(&w->mechanism);
  }

  // What the way back reads besides: accelerations of bodies, momenta, how contacts move.
  NUM(pbStage_Acceleration)(&w->mechanism);
  if (sense) {
    NUM(pbStage_Sensors)(&w->constraints);
  }
  return LANE(pbVjp_Prepare)(k, w);
}

pbStatus LANE(pbVjp_Prepare)(block *k, NUM(pbWork) *w) {
  LANE(pbAdjoint) *a = &k->a;
  const LANE(pbSolution) work = {.qacc = w->qacc, .A = w->A};
  PB_TRY(LANE(pbVjp_Reserve)(k, w));
  LANE(pbVjp_Set)(a, w);
  LANE(pbSweep_Evaluation)(a, &w->mechanism, !PB_IS_COMPLEX && pb_noslip(w->m) ? LANE(pbSlip_Solution)(a, w) : work);
  LANE(pbRows_Evaluation)(a);

  // The solution has moved since its factor was made: so does the curvature.
  if (PB_IS_COMPLEX && w->nrow) PB_TRY(NUM(pbSolve_Factor)(w));

  // The factor of the laws at the solution serves all cotangents.
  return pb_hard(w->m) && w->nrow ? NUM(pbDual_Factor)(w) : pb_ok;
}

void LANE(pbVjp_Place)(const block *k, NUM(pbWork) *w, const pbPullback *p) {
  if (p->site_xpos) NUM(pbStage_AllSites)(&w->mechanism);
  if (!PB_WANTS(&k->a, pb_wantMedium) || w->has_fluid) return;

  // A medium that is absent: what it would make of shapes has a slope.
  for (int g = 0; g < w->m->ngeom; g++) {
    if (re(w->p.geom_fluid[12 * g]) > 0) NUM(pbStage_AllGeoms)(&w->mechanism);
  }
}

static pbStatus pull_step(block *k, NUM(pbWork) *w, const double *stages, const pbPullback *p) {
  bool step = p->q_next != NULL;
  LANE(pbVjp_SaveStart)(w);
  if (step && w->m->integrator == pb_intRK4) return LANE(pbVjp_RungeKutta)(k, w, stages, p);

  if (!p->evaluated) PB_TRY(LANE(pbVjp_Replay)(k, w, stages, p->cached, p->sensordata != NULL));
  LANE(pbVjp_Place)(k, w, p);
  LANE(pbVjp_Begin)(k, w);
  pull_euler(k, p, step);
  return pb_ok;
}

#if !PB_IS_COMPLEX
int LANE(pbVjp_Lanes)(void) { return PB_LANES; }
#endif

// Which parameters are wanted; with several cotangents side by side none.
static void want_parameters(LANE(pbAdjoint) *a, const pbModel *m, const pbPullback *p) {
  a->theta = PB_LANES == 1 ? (num *)p->theta : NULL;
  a->want = a->theta ? pb_wantEverything & ~p->skip : 0;
  if (a->theta) bars_view(&a->bar, m, a->theta);
  a->h_bar = 0;
  a->refused = NULL;
}

// The second half: all cotangents of the evaluation at the state before the step are there.
static void pull_from_observations(block *k, const pbPullback *p) {
  LANE(pbAdjoint) *a = &k->a;
  const pbModel *m = a->w->m;
  PB_ASSERT(k->phase == pb_pullToInputs);

  // The inertial sweep has cleared cotangents of body fields, if sensors had not.
  a->fresh = false;
  if (!PB_IS_COMPLEX) LANE(pbVjp_Policy)(k, p->observation);
  LANE(pbSweep_Pull)(a);
  if (k->stepped && m->integrator == pb_intRK4) LANE(pbVjp_FirstStage)(k);
  else add_results(k);

  LANE(pbVjp_AddOut)(p->q, k->q_sum, m->nv);
  LANE(pbVjp_AddOut)(p->v, k->v_sum, m->nv);
  LANE(pbVjp_AddOut)(p->act, k->act_sum, m->na);
  LANE(pbVjp_AddOut)(p->mocap_pos, k->mocap_pos, 3 * m->nmocap);
  LANE(pbVjp_AddOut)(p->mocap_rot, k->mocap_rot, 3 * m->nmocap);
  if (a->theta) *a->bar.timestep += a->h_bar;
  k->phase = pb_pullWhole;
}

// In complex numbers: what was met and has no second derivatives.
static pbStatus refuse(const LANE(pbAdjoint) *a, NUM(pbWork) *w) {
  if (!a->refused) return pb_ok;

  snprintf(w->error, sizeof w->error, "%s have no second derivatives", a->refused);
  return pb_bad_input;
}

pbStatus LANE(pbVjp_Run)(void *memory, NUM(pbWork) *w, const double *stages, const pbPullback *p) {
  block *k = LANE(pbVjp_Block)(memory);
  LANE(pbAdjoint) *a = &k->a;
  if (p->phase == pb_pullFromObservations) {
    pull_from_observations(k, p);
    return pb_ok;
  }

  const pbModel *m = w->m;
  int nv = m->nv;
  PB_ASSERT(PB_LANES == 1 || !(p->qacc || p->lam || p->distance));  // of one cotangent only

  want_parameters(a, m, p);
  k->phase = p->phase;
  k->stepped = p->q_next != NULL;
  k->more_qacc = p->qacc;
  k->lam_out = p->lam;

  // Cotangents that are not given are zero; inputs that are not wanted have no room.
  copy_or_clear(k->q_next, p->q_next, nv);
  copy_or_clear(k->v_next, p->v_next, nv);
  copy_or_clear(k->act_next, p->act_next, m->na);
  a->ctrl = k->ctrl;
  a->qfrc = p->qfrc ? k->qfrc : NULL;
  a->xfrc = p->xfrc ? k->xfrc : NULL;
  a->mocap_pos = p->mocap_pos ? k->mocap_pos : NULL;
  a->mocap_rot = p->mocap_rot ? k->mocap_rot : NULL;
  a->mocap_vel = p->mocap_vel ? k->mocap_vel : NULL;

  // Sums of all stages, and where they go: first what comes down the tree.
  enum { tree_results = 5, result_count = 10 };
  struct {
    lane *sum;
    int size;
    double *out;
  } results[result_count] = {{k->q_sum, nv, p->q},
                             {k->v_sum, nv, p->v},
                             {k->act_sum, m->na, p->act},
                             {a->mocap_pos, 3 * m->nmocap, p->mocap_pos},
                             {a->mocap_rot, 3 * m->nmocap, p->mocap_rot},
                             {a->ctrl, m->nu, p->ctrl},
                             {k->ctrl_later, pb_staged(m) ? 2 * m->nu : 0, p->ctrl_later},
                             {a->qfrc, nv, p->qfrc},
                             {a->xfrc, 6 * m->nbody, p->xfrc},
                             {a->mocap_vel, 6 * m->nmocap, p->mocap_vel}};
  for (int i = 0; i < result_count; i++) {
    if (results[i].sum) memset(results[i].sum, 0, (size_t)results[i].size * sizeof(lane));
  }

  // The step itself; the time step's gradient was collected from everywhere.
  PB_TRY(pull_step(k, w, stages, p));
  PB_TRY(refuse(a, w));
  int first = p->phase == pb_pullWhole ? 0 : tree_results;
  for (int i = first; i < result_count; i++) LANE(pbVjp_AddOut)(results[i].out, results[i].sum, results[i].size);
  if (a->theta && p->phase == pb_pullWhole) *a->bar.timestep += a->h_bar;
  if (a->theta) PB_MUTE_PARAMS(m, a->theta);
  return pb_ok;
}
