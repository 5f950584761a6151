// The pullback of one step: integrators around the adjoint of an evaluation.
#include "model/joint.h"
#include "math/vec.h"
#include "step/step_adjoint.h"
#include "multibody/spatial.h"
#include "step/integrate.h"
#include "step/kernels.h"
#include "step/vjp.h"

typedef LANE(pbVjpBlock) block;

enum { strips = 4 };  // Jacobians solve for so many times PB_LANES right-hand sides together

// ---- memory ---------------------------------------------------------------------------------------------------------
static void *take(char *base, size_t *used, size_t size) {
  size_t at = *used;
  *used = (at + size + 63) & ~(size_t)63;
  return base ? base + at : NULL;
}

static size_t carve(block *k, const pbModel *m, int contacts, char *base) {
  LANE(pbAdjoint) *a = &k->a;
  size_t used = (sizeof(block) + 63) & ~(size_t)63, nb = 6 * (size_t)m->nbody, nv = (size_t)m->nv;
  size_t rows = 6 * (size_t)(contacts + m->topology->max_blocks);
  k->base = base;
#define TAKE(field, count) field = take(base, &used, sizeof(*field) * (size_t)(count))
  TAKE(k->q_next, nv), TAKE(k->v_next, nv), TAKE(k->act_next, m->na);
  TAKE(k->q_sum, nv), TAKE(k->v_sum, nv), TAKE(k->act_sum, m->na), TAKE(k->ctrl, m->nu), TAKE(k->qfrc, nv), TAKE(k->xfrc, nb);
  TAKE(k->rk_v, 4 * nv), TAKE(k->rk_a, 4 * nv), TAKE(k->rk_d, 4 * m->na), TAKE(k->rate, nv), TAKE(k->sensordata, m->nsensordata);
  TAKE(a->lam, nv), TAKE(a->mu, nv), TAKE(a->Vl, nb), TAKE(a->Vm, nb), TAKE(k->Vx, nb), TAKE(a->Va, nb), TAKE(a->Vw, nb);
  TAKE(a->IV, nb), TAKE(a->rate_IV, nb), TAKE(a->IW, nb), TAKE(a->damping, 3 * nv), TAKE(a->contact_jacobian, contacts);
  TAKE(a->c, nv), TAKE(a->lam_act, nv), TAKE(a->X, nb), TAKE(a->G, nb), TAKE(a->F, nb), TAKE(a->y0, rows);
  k->bodies_from = used;
  TAKE(a->Vs, nb), TAKE(a->FV, nb), TAKE(a->FA, nb), TAKE(a->FW, nb), TAKE(a->FVa, nb);
  TAKE(a->FL, nb), TAKE(a->FX, nb), TAKE(a->FM, nb), TAKE(a->P, nb);
  k->cleared_from = used;
  TAKE(a->qacc, nv), TAKE(a->ten_len, m->ntendon), TAKE(a->ten_vel, m->ntendon), TAKE(a->act_len, m->nu), TAKE(a->act_vel, m->nu);
  TAKE(a->act_force, m->nu), TAKE(a->qfrc_actuator, nv), TAKE(a->act_dot, m->na), TAKE(a->ten_c, (size_t)m->ntendon * nv);
  TAKE(a->q, nv), TAKE(a->v, nv), TAKE(a->act, m->na);
  k->cleared_to = used;
  if (PB_LANES > 1 && m->integrator != pb_intRK4) {
    size_t groups = (nv + PB_LANES - 1) / PB_LANES, strip = (groups + strips - 1) / strips * strips;
    TAKE(k->lam_of, strip * nv), TAKE(k->mu_of, strip * nv);
  }
  TAKE(a->force, rows);  // cleared for the rows there are
  if (pb_hard(m)) {
    size_t numbers = (size_t)(contacts * m->topology->max_dim + m->topology->max_blocks + 5 * m->neq);
    TAKE(a->z, rows), TAKE(a->u, 2 * numbers);
  }
#undef TAKE
  return used;
}

size_t LANE(pbVjp_Size)(const pbModel *m, int contacts) {
  block probe;
  return carve(&probe, m, contacts, NULL) + 64;
}

void LANE(pbVjp_Carve)(void *memory, const pbModel *m, int contacts) {
  block *k = LANE(pbVjp_Block)(memory);
  carve(k, m, contacts, (char *)k);
}

// ---- gyroscopic force of free bodies, implicitfast ------------------------------------------------------------------
// The bias derivative of a tree on one free joint; its gradient by complex step, one direction at a time.

enum { free_turn = 0, free_rate = 3, free_mass = 6, free_ipos = 7, free_iquat = 10, free_inertia = 13, free_inputs = 16 };

// Column of the derivative of body b's share of dbias/dv ahat by one input: a turn of the tree, its rates, mass, place and
// turn of the body's inertial frame in the root's, principal inertia.
static void free_column(const NUM(pbWork) *w, int j, int b, int input, double out[6]) {
  const pbModel *m = w->m;
  int root = m->jnt_bodyid[j], dof = m->jnt_dofadr[j] + 3;
  _Complex double R[9], rate[3], a[3], ipos[3], iquat[4], inertia[3], mass = w->p.body_mass[b], z[6];
  double place[3], turned[4];
  NUM(pbFree_Frame)(w, root, b, place, turned);
  for (int k = 0; k < 9; k++) R[k] = w->xmat[9 * root + k];
  for (int k = 0; k < 3; k++) rate[k] = w->qvel[dof + k], a[k] = w->qacc_integrated[dof + k];
  for (int k = 0; k < 3; k++) ipos[k] = place[k], inertia[k] = w->p.body_inertia[3 * b + k];
  for (int k = 0; k < 4; k++) iquat[k] = turned[k];
  const double step = PB_IMAG_STEP;
  if (input < free_rate) {  // child frame: column e of R [e_input]x
    int p = (input + 1) % 3, q = (input + 2) % 3;
    for (int r = 0; r < 3; r++) {
      __imag__ R[3 * r + p] = step * w->xmat[9 * root + 3 * r + q];
      __imag__ R[3 * r + q] = -step * w->xmat[9 * root + 3 * r + p];
    }
  } else if (input < free_mass) {
    __imag__ rate[input - free_rate] = step;
  } else if (input < free_ipos) {
    __imag__ mass = step;
  } else if (input < free_iquat) {
    __imag__ ipos[input - free_ipos] = step;
  } else if (input < free_inertia) {
    double t[3] = {0}, g[4];
    t[input - free_iquat] = 0.5;
    quat_mulaxis(g, turned, t);
    for (int k = 0; k < 4; k++) __imag__ iquat[k] = step * g[k];
  } else {
    __imag__ inertia[input - free_inertia] = step;
  }
  pbFree_BiasDerivative_c(R, rate, a, mass, ipos, iquat, inertia, z);
  for (int k = 0; k < 6; k++) out[k] = __imag__ z[k] / step;
}

// Cotangents of a body's inertial frame in the root's (place; turn in the inertial frame's axes) to its own parameters and,
// for a child, to its pose relative to the root.
static void free_frame(LANE(pbAdjoint) *a, int root, int b, const lane place[3], const lane turn[3]) {
  const NUM(pbWork) *w = a->w;
  const double *R = w->xmat + 9 * root, *X = w->ximat + 9 * b;
  lane f[3], t[3];
  double d[3];
  for (int k = 0; k < 3; k++) {
    f[k] = R[3 * k] * place[0] + R[3 * k + 1] * place[1] + R[3 * k + 2] * place[2];
    t[k] = X[3 * k] * turn[0] + X[3 * k + 1] * turn[1] + X[3 * k + 2] * turn[2];
  }
  body_offset(w, b, w->xipos + 3 * b, d);
  for (int side = 0; side < 2 && b != root; side++) {  // moving both together changes nothing
    int body = side ? root : b;
    double sign = side ? -1 : 1;
    PB_ADDWRENCH(a->P + 6 * body, sign, d, f);
    for (int k = 0; k < 3; k++) a->P[6 * body + k] += sign * t[k];
  }
#if PB_LANES == 1
  if (!a->theta) return;
  double local[3];
  m3_tmulv(local, w->xmat + 9 * b, f);
  for (int k = 0; k < 3; k++) PB_THETA(a, body_ipos, 3 * b + k, local[k]);
  pb_quat_pull(a->bar.body_iquat + 4 * b, w->p.body_iquat + 4 * b, turn);
#endif
}

// Before the sweep down: W = -h mu . (dbias/dv ahat) of a tree on one free joint.
static void free_bias(LANE(pbAdjoint) *a, int j, double h) {
  const NUM(pbWork) *w = a->w;
  int root = w->m->jnt_bodyid[j], dof = w->m->jnt_dofadr[j];
  for (int b = root; b < w->m->nbody; b++) {
    lane place[3], turn[3];
    if (w->t->body_tree[b] != w->t->body_tree[root]) continue;
    for (int i = 0; i < free_inputs; i++) {
      double d[6];
      free_column(w, j, b, i, d);
      lane g = -h * PB_DOT6(d, a->mu + dof);
      if (i < free_rate) a->q[dof + 3 + i] += g;
      else if (i < free_mass) a->v[dof + 3 + i - free_rate] += g;
      else if (i < free_ipos) PB_THETA(a, body_mass, b, g);
      else if (i < free_iquat) place[i - free_ipos] = g;
      else if (i < free_inertia) turn[i - free_iquat] = g;
      else PB_THETA(a, body_inertia, 3 * b + i - free_inertia, g);
    }
    free_frame(a, root, b, place, turn);
#if PB_LANES == 1
    if (!a->theta) continue;
    double value[6], ipos[3], iquat[4];
    NUM(pbFree_Frame)(w, root, b, ipos, iquat);
    NUM(pbFree_BiasDerivative)(w->xmat + 9 * root, w->qvel + dof + 3, w->qacc_integrated + dof + 3, w->p.body_mass[b], ipos,
                               iquat, w->p.body_inertia + 3 * b, value);
    a->h_bar -= PB_DOT6(value, a->mu + dof);
#endif
  }
}

// ---- one evaluation -------------------------------------------------------------------------------------------------
// Begin an evaluation: everything zero.
void LANE(pbVjp_Begin)(block *k, const NUM(pbWork) *w) {
  LANE(pbAdjoint) *a = &k->a;
  a->w = w;
  a->fresh = true;
  a->fresh_dual = true;
  a->damped = a->has_mu = a->has_Vs = a->has_FA = a->has_force = false;
  memset(k->base + k->cleared_from, 0, k->cleared_to - k->cleared_from);
  memset(a->force, 0, 6 * (size_t)w->nrow * sizeof(lane));
  memset(a->y0, 0, 6 * (size_t)w->nrow * sizeof(lane));
}

// Vx = Vl + Vs of the body and all above it.
static void inject(block *k) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->w;
  a->Vx = a->has_Vs ? k->Vx : a->Vl;
  if (!a->has_Vs) return;
  memcpy(a->Vx, a->Vl, 6 * (size_t)w->m->nbody * sizeof(lane));
  memset(a->X, 0, 6 * sizeof(lane));
  for (int b = 1; b < w->m->nbody; b++) {
    int parent = w->m->body_parentid[b], tree = w->t->body_tree[b];
    lane *S = a->X + 6 * b;
    memcpy(S, a->X + 6 * parent, 6 * sizeof(lane));
    if (tree >= 0 && w->t->body_tree[parent] < 0) PB_ADDCROSS(S + 3, 1, S, w->ref + 3 * tree);  // about another point
    PB_AXPY6(S, 1, a->Vs + 6 * b);
    PB_AXPY6(a->Vx + 6 * b, 1, S);
  }
}

// The gradient of W at lam and mu.
static void power(block *k) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->w;
  LANE(pbSweep_Push)(w, a->lam, a->Vl);
  inject(k);
  if (a->damped) LANE(pbSweep_Push)(w, a->mu, a->Vm);
  LANE(pbForce_LimitActuators)(a);
  LANE(pbSweep_Inertia)(a);
  LANE(pbForce_Actuators)(a);
  LANE(pbForce_Joints)(a);
  LANE(pbRows_Adjoint)(a);
  LANE(pbForce_Tendons)(a);
  for (int j = 0; a->damped && w->m->integrator == pb_intImplicitfast && j < w->m->njnt; j++) {
    if (free_standalone(w->m, j)) free_bias(a, j, w->p.timestep[0]);
  }
  LANE(pbSweep_Pull)(a);
}

// With the cotangents of qacc (a->qacc) and of what sensors see set: everything else. damping: mu is set and counts.
static pbStatus finish(block *k, bool sensed) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->w;
  size_t nv = (size_t)w->m->nv, bytes = 6 * (size_t)w->m->nbody * sizeof(lane);
  if (sensed) {  // their share of the cotangent of qacc; inertia under Vs counts among the accelerations
    memset(a->Vl, 0, bytes);
    inject(k);
    if (a->has_Vs) {
      for (int b = 1; b < w->m->nbody; b++) {
        if (w->t->body_tree[b] >= 0) PB_ADDINERT(a->FA + 6 * b, -1, w->inert + 10 * b, a->Vx + 6 * b);
      }
    }
    LANE(pbSweep_Acceleration)(a);
    if (a->has_Vs) {  // taken out again: the inertial sweep adds it with the rest of Vx
      for (int b = 1; b < w->m->nbody; b++) {
        if (w->t->body_tree[b] >= 0) PB_ADDINERT(a->FA + 6 * b, 1, w->inert + 10 * b, a->Vx + 6 * b);
      }
    }
    LANE(pbRows_Direct)(a);
  }
  for (size_t i = 0; PB_LANES == 1 && k->more_qacc && i < nv; i++) a->qacc[i] += k->more_qacc[i];
  if (pb_hard(w->m)) {
    PB_TRY(LANE(pbDual_Adjoint)(a));
  } else {
    memcpy(a->lam, a->qacc, nv * sizeof(lane));
    LANE(pbSweep_Solve)(&w->H, w->H_LD, w->H_Dinv, a->lam);
  }
  for (size_t i = 0; PB_LANES == 1 && k->lam_out && i < nv; i++) k->lam_out[i] = PB_LANE0(a->lam[i]);
  power(k);
  return pb_ok;
}

// Cotangents of what is seen at the start of the step. Returns whether there were any.
static bool observe(block *k, const pbPullback *p) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  double d[3];
  bool any = false;
  if (!p->sensordata && !p->xpos && !p->site_xpos && !p->distance) return false;
  a->fresh = false;
  memset(k->base + k->bodies_from, 0, k->cleared_from - k->bodies_from);
  if (p->sensordata && m->nsensordata) {
    memcpy(k->sensordata, p->sensordata, (size_t)m->nsensordata * sizeof(lane));
    LANE(pbSensor_Adjoint)(a, k->sensordata);
    for (int i = 0; i < 6 * m->nbody; i++) {
      for (int l = 0; l < PB_LANES; l++) a->has_Vs = a->has_Vs || ((const double *)(a->Vs + i))[l] != 0;
    }
    any = true;
  }
  for (int b = 0; p->xpos && b < m->nbody; b++) {
    lane f[3];
    memcpy(f, p->xpos + (size_t)(3 * b * PB_LANES), sizeof f);
    body_offset(w, b, w->xpos + 3 * b, d);
    PB_ADDWRENCH(a->P + 6 * b, 1, d, f);
  }
  for (int s = 0; p->site_xpos && s < m->nsite; s++) {
    lane f[3];
    memcpy(f, p->site_xpos + (size_t)(3 * s * PB_LANES), sizeof f);
    body_offset(w, m->site_bodyid[s], w->site_xpos + 3 * s, d);
    PB_ADDWRENCH(a->P + 6 * m->site_bodyid[s], 1, d, f);
    LANE(pbSweep_Site)(a, s, f, NULL);
  }
  for (int i = 0; p->distance && i < w->nrow; i++) {
    if (p->distance[i] != 0) LANE(pbRows_Distance)(a, i, PB_LANE_ZERO + p->distance[i]);
  }
  return any;
}

// Results of an evaluation, added to the sums.
static void collect(block *k) {
  LANE(pbAdjoint) *a = &k->a;
  const pbModel *m = a->w->m;
  for (int i = 0; i < m->nv; i++) k->q_sum[i] += a->q[i], k->v_sum[i] += a->v[i];
  for (int i = 0; i < m->na; i++) k->act_sum[i] += a->act[i];
}

// ---- positions ------------------------------------------------------------------------------------------------------
// out = exp(scale w) x for a rotation vector, scale +-1
static void rotate_by(const double w[3], double scale, const lane x[3], lane out[3]) {
  double v[3] = {scale * w[0], scale * w[1], scale * w[2]}, q[4], R[9];
  quat_exp(q, v);
  quat_to_mat(R, q);
  for (int k = 0; k < 3; k++) out[k] = R[3 * k] * x[0] + R[3 * k + 1] * x[1] + R[3 * k + 2] * x[2];
}

// Right Jacobian of exp, transposed: out = Jr(w)' x.
static void right_jacobian(const double w[3], const lane x[3], lane out[3]) {
  double t2 = v3_dot(w, w), t = sqrt(t2), b, c;
  lane y[3], yy[3];
  if (t2 < 1e-6) {
    b = 0.5 - t2 / 24, c = 1. / 6 - t2 / 120;
  } else {
    b = (1 - cos(t)) / t2, c = (t - sin(t)) / (t2 * t);
  }
  PB_CROSS(y, w, x);
  PB_CROSS(yy, w, y);
  for (int k = 0; k < 3; k++) out[k] = x[k] + b * y[k] + c * yy[k];
}

// q+ = q (+) h u: cotangent of q+ to q (added), to u (added), to h.
static void position_pull(const pbModel *m, const double *u, double h, const lane *q_next, lane *q, lane *rate, double *h_bar) {
  for (int j = 0; j < m->njnt; j++) {
    int dof = m->jnt_dofadr[j], type = m->jnt_type[j], n = pbJoint_PlainCount(type);
    for (int i = dof; i < dof + n; i++) {
      q[i] += q_next[i];
      rate[i] += h * q_next[i];
      *h_bar += PB_LANE0(q_next[i]) * u[i];
    }
    if (!pbJoint_HasRotation(type)) continue;
    const double *w = u + dof + n, turn[3] = {h * w[0], h * w[1], h * w[2]};
    lane back[3], on[3];
    rotate_by(turn, 1, q_next + dof + n, back);
    right_jacobian(turn, q_next + dof + n, on);
    for (int k = 0; k < 3; k++) {
      q[dof + n + k] += back[k];
      rate[dof + n + k] += h * on[k];
      *h_bar += PB_LANE0(q_next[dof + n + k]) * w[k];
    }
  }
}

static double *lane_copy(lane *to, const double *from, int n) {
  if (from) memcpy(to, from, (size_t)n * sizeof(lane));
  else memset(to, 0, (size_t)n * sizeof(lane));
  return (double *)to;
}

void LANE(pbVjp_AddOut)(double *to, const lane *from, int n) {
  const double *x = (const double *)from;
  for (int i = 0; to && i < n * PB_LANES; i++) to[i] += x[i];
}

// ---- Euler, implicitfast ----------------------------------------------------------------------------------------------
// mu = Mhat^-T (h vbar); then the cotangent of qacc is M mu.
static void damped_velocity(block *k, double h) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  a->damped = a->has_mu = true;
  for (int i = 0; i < m->nv; i++) a->mu[i] = h * k->v_next[i];
  LANE(pbSweep_Solve)(&w->t->M, w->Mhat, w->Mhat_Dinv, a->mu);
  for (int j = 0; m->integrator == pb_intImplicitfast && j < m->njnt; j++) {
    if (!free_standalone(m, j)) continue;
    int dof = m->jnt_dofadr[j];
    for (int l = 0; l < PB_LANES; l++) {
      double x[6];
      for (int r = 0; r < 6; r++) x[r] = h * ((const double *)(k->v_next + dof + r))[l];
      NUM(pbSolve6)(w->free_A + 36 * j, x, true);
      for (int r = 0; r < 6; r++) ((double *)(a->mu + dof + r))[l] = x[r];
    }
  }
  lane *moved = a->c;
  LANE(pbSweep_Mul)(&w->t->M, w->M, a->mu, moved);
  for (int i = 0; i < m->nv; i++) a->qacc[i] += moved[i];
}

// The same without damping: Mhat is M. mu is wanted by the gradients of damping coefficients at zero only.
static void undamped_velocity(block *k, double h) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->w;
  for (int i = 0; i < w->m->nv; i++) a->mu[i] = h * k->v_next[i], a->qacc[i] += a->mu[i];
  a->has_mu = PB_WANTS(a, pb_wantDamping);
  if (!a->has_mu) return;
  memcpy(w->LD, w->M, (size_t)w->t->M.size * sizeof(num));  // a replay leaves M unfactored
  NUM(pbTree_Factor)(&w->t->M, w->LD, w->Dinv);
  LANE(pbSweep_Solve)(&w->t->M, w->LD, w->Dinv, a->mu);
}

static pbStatus euler(block *k, const pbPullback *p, bool step) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  double h = w->p.timestep[0];
  if (step) {  // q+ = q (+) h v+, v+ = v + h ahat
    for (int i = 0; i < m->nv; i++) w->tmp[i] = w->qvel[i] + h * w->qacc_integrated[i];
    position_pull(m, w->tmp, h, k->q_next, k->q_sum, k->v_next, &a->h_bar);
    for (int i = 0; i < m->nv; i++) {
      k->v_sum[i] += k->v_next[i];
      a->h_bar += PB_LANE0(k->v_next[i]) * w->qacc_integrated[i];
    }
    if (w->damped) damped_velocity(k, h);
    else undamped_velocity(k, h);
    for (int u = 0; u < m->nu; u++) {
      for (int i = m->actuator_actadr[u], e = i + m->actuator_actnum[u]; i >= 0 && i < e; i++) {
        if (m->disableflags & pb_disActuation) a->act[i] += k->act_next[i];
        else LANE(pbForce_Next)(a, u, i, w->act[i], w->act_dot[i], k->act_next[i], a->act, a->act_dot);
      }
    }
  }
  bool sensed = observe(k, p);
  PB_TRY(finish(k, sensed));
  collect(k);
  return pb_ok;
}

// The evaluation as the step left it, from the accelerations of the tape or (cached) from all but a few fields.
static pbStatus evaluate(block *k, NUM(pbWork) *w, const double *stages, bool cached, bool sense) {
  const pbModel *m = w->m;
  if (!cached) {
    PB_TRY(NUM(pbStep_Stage)(w, stages, 0));
    if (m->integrator == pb_intRK4) memcpy(w->qacc_integrated, w->qacc, (size_t)m->nv * sizeof(double)), w->damped = false;
    else PB_TRY(NUM(pbIntegrate_Damp)(w));
  }
  NUM(pbStage_Acceleration)(w);
  if (sense) NUM(pbStage_Sensors)(w);
  LANE(pbSweep_Evaluation)(&k->a, w);
  LANE(pbRows_Evaluation)(&k->a, w);
  return pb_ok;
}

// ---- Runge-Kutta ------------------------------------------------------------------------------------------------------
// Rates K_i = corrected(u_i, k_i), u_0 = 0, u_i = h c_i K_{i-1}; cotangents of the rates used (bar[i] of K_i) to the k_i.
static void rotation_pull(block *k, int dof, int stage, lane bar[4][3]) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->w;
  int nv = w->m->nv;
  double h = w->p.timestep[0], K[4][3], u[4][3] = {0};
  for (int i = 0; i < stage; i++) {
    if (i) v3_scale(u[i], K[i - 1], h * pb_rkStep[i]);
    NUM(pbRk_Correct)(u[i], w->rk_v + i * nv + dof, K[i]);
  }
  for (int i = stage - 1; i >= 0; i--) {
    const double *x = u[i], *rate = w->rk_v + i * nv + dof;
    double t2 = v3_dot(x, x), g, dg, c[3], cc[3];  // g(t) and (dg/dt) / t
    if (t2 < 1e-2) {
      g = 1. / 12 + t2 * (1. / 720 + t2 * (1. / 30240 + t2 * (1. / 1209600 + t2 / 47900160)));
      dg = 1. / 360 + t2 * (4. / 30240 + t2 * (6. / 1209600 + t2 * (8. / 47900160)));
    } else {
      double t = sqrt(t2), half = 0.5 * t, cot = cos(half) / sin(half), f = 1 - half * cot;
      g = f / t2;
      dg = ((-0.5 * cot + 0.25 * t / (sin(half) * sin(half))) / t2 - 2 * f / (t2 * t)) / t;
    }
    PB_CROSS(c, x, rate);
    PB_CROSS(cc, x, c);
    // K = k + 1/2 x x k + g x x (x x k)
    lane y[3], yy[3], u_bar[3];
    PB_CROSS(y, x, bar[i]);
    PB_CROSS(yy, x, y);
    for (int e = 0; e < 3; e++) k->rk_v[i * nv + dof + e] += bar[i][e] - 0.5 * y[e] + g * yy[e];
    lane along = PB_DOT3(bar[i], cc);
    PB_CROSS(u_bar, rate, bar[i]);  // k x bar
    for (int e = 0; e < 3; e++) u_bar[e] = 0.5 * u_bar[e] + dg * along * x[e];
    lane s1[3], s2[3];
    PB_CROSS(s1, c, bar[i]);  // x x c by the outer x: c x bar
    PB_CROSS(s2, bar[i], x);  // inner: bar . (x x (dx x k)) = dx . (k x (bar x x))
    for (int e = 0; e < 3; e++) u_bar[e] += g * s1[e];
    PB_ADDCROSS(u_bar, g, rate, s2);
    if (i == 0) continue;
    for (int e = 0; e < 3; e++) {
      bar[i - 1][e] += h * pb_rkStep[i] * u_bar[e];
      a->h_bar += PB_LANE0(u_bar[e]) * pb_rkStep[i] * K[i - 1][e];
    }
  }
}

// Cotangent of position rates (k->rate) of stage s (4: the whole step) to the stages' velocities.
static void rates_pull(block *k, int s) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int nv = m->nv;
  for (int j = 0; j < m->njnt; j++) {
    int dof = m->jnt_dofadr[j], type = m->jnt_type[j], n = pbJoint_PlainCount(type);
    for (int i = dof; i < dof + n; i++) {
      if (s < 4) k->rk_v[(s - 1) * nv + i] += k->rate[i];
      for (int e = 0; e < 4 && s == 4; e++) k->rk_v[e * nv + i] += pb_rkWeight[e] * k->rate[i];
    }
    if (!pbJoint_HasRotation(type)) continue;
    lane bar[4][3] = {0};
    for (int c = 0; c < 3; c++) {
      if (s < 4) bar[s - 1][c] = k->rate[dof + n + c];
      for (int e = 0; e < 4 && s == 4; e++) bar[e][c] = pb_rkWeight[e] * k->rate[dof + n + c];
    }
    rotation_pull(k, dof + n, s, bar);
  }
}

// Rates over the whole step or to a stage, as the forward program has them (step_kernel.c).
static void rates(const NUM(pbWork) *w, int s, double *rate) {
  const pbModel *m = w->m;
  double h = w->p.timestep[0];
  for (int i = 0; i < m->nv; i++) {
    rate[i] = s < 4 ? w->rk_v[(s - 1) * m->nv + i] : 0;
    for (int k = 0; k < 4 && s == 4; k++) rate[i] += pb_rkWeight[k] * w->rk_v[k * m->nv + i];
  }
  for (int j = 0; j < m->njnt; j++) {
    if (!pbJoint_HasRotation(m->jnt_type[j])) continue;
    int dof = m->jnt_dofadr[j] + pbJoint_PlainCount(m->jnt_type[j]);
    double K[4][3], u[3] = {0};
    for (int i = 0; i < s; i++) {
      if (i) v3_scale(u, K[i - 1], h * pb_rkStep[i]);
      NUM(pbRk_Correct)(u, w->rk_v + i * m->nv + dof, K[i]);
    }
    for (int c = 0; c < 3; c++) {
      rate[dof + c] = s < 4 ? K[s - 1][c] : 0;
      for (int k = 0; k < 4 && s == 4; k++) rate[dof + c] += pb_rkWeight[k] * K[k][c];
    }
  }
}

// The last line of the step: q+ = q0 (+) h rate, v+ = v0 + h sum b_i a_i, act+ = Next(act0, sum b_i d_i).
static void runge_kutta_end(block *k) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int nv = m->nv;
  double h = w->p.timestep[0];
  memset(k->rk_v, 0, 4 * (size_t)nv * sizeof(lane));
  memset(k->rk_a, 0, 4 * (size_t)nv * sizeof(lane));
  memset(k->rk_d, 0, 4 * (size_t)m->na * sizeof(lane));
  memset(k->rate, 0, (size_t)nv * sizeof(lane));
  rates(w, 4, w->tmp);
  position_pull(m, w->tmp, h, k->q_next, k->q_sum, k->rate, &a->h_bar);
  rates_pull(k, 4);
  for (int i = 0; i < nv; i++) {
    k->v_sum[i] += k->v_next[i];
    for (int s = 0; s < 4; s++) {
      k->rk_a[s * nv + i] += h * pb_rkWeight[s] * k->v_next[i];
      a->h_bar += PB_LANE0(k->v_next[i]) * pb_rkWeight[s] * w->rk_a[s * nv + i];
    }
  }
  memset(a->act_dot, 0, (size_t)m->na * sizeof(lane));
  for (int u = 0; u < m->nu; u++) {
    for (int i = m->actuator_actadr[u], e = i + m->actuator_actnum[u]; i >= 0 && i < e; i++) {
      double dot = 0;
      for (int s = 0; s < 4; s++) dot += pb_rkWeight[s] * w->rk_d[s * m->na + i];
      if (m->disableflags & pb_disActuation) k->act_sum[i] += k->act_next[i];
      else LANE(pbForce_Next)(a, u, i, w->a0[i], dot, k->act_next[i], k->act_sum, a->act_dot);
      for (int s = 0; s < 4; s++) k->rk_d[s * m->na + i] += pb_rkWeight[s] * a->act_dot[i];
    }
  }
}

// Stage s > 0: x_s = x_0 (+) h c_s (rate, a_{s-1}, d_{s-1}). The evaluation's results in a are cotangents of x_s.
static void runge_kutta_stage(block *k, int s) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int nv = m->nv;
  double h = w->p.timestep[0], step = pb_rkStep[s] * h, step_bar = 0;
  memset(k->rate, 0, (size_t)nv * sizeof(lane));
  rates(w, s, w->tmp);
  position_pull(m, w->tmp, step, a->q, k->q_sum, k->rate, &step_bar);
  rates_pull(k, s);
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

static pbStatus runge_kutta(block *k, NUM(pbWork) *w, const double *stages, const pbPullback *p) {
  LANE(pbAdjoint) *a = &k->a;
  const pbModel *m = w->m;
  int nv = m->nv;
  for (int s = 3; s >= 0; s--) {
    PB_TRY(NUM(pbStep_Stage)(w, stages, s));
    NUM(pbStage_Acceleration)(w);
    memcpy(w->qacc_integrated, w->qacc, (size_t)nv * sizeof(double));
    w->damped = false;
    LANE(pbSweep_Evaluation)(&k->a, w);
    LANE(pbRows_Evaluation)(&k->a, w);
    LANE(pbVjp_Begin)(k, w);
    if (s == 3) {
      runge_kutta_end(k);
      LANE(pbVjp_Begin)(k, w);
    }
    for (int i = 0; i < nv; i++) a->qacc[i] = k->rk_a[s * nv + i];
    for (int i = 0; i < m->na; i++) a->act_dot[i] = k->rk_d[s * m->na + i];
    if (s == 0) NUM(pbStage_Sensors)(w);
    bool sensed = s == 0 && observe(k, p);
    PB_TRY(finish(k, sensed));
    if (s) {
      runge_kutta_stage(k, s);
      continue;
    }
    for (int i = 0; i < nv; i++) k->q_sum[i] += a->q[i], k->v_sum[i] += a->v[i] + k->rk_v[i];
    for (int i = 0; i < m->na; i++) k->act_sum[i] += a->act[i];
  }
  return pb_ok;
}

// ---- Jacobian of the new velocities ----------------------------------------------------------------------------------
#if PB_LANES > 1
static bool all_zero(const lane *x, int n) {
  long long bits = 0, e[PB_LANES];
  for (int i = 0; i < n; i++) {
    memcpy(e, x + i, sizeof e);
    for (int l = 0; l < PB_LANES; l++) bits |= e[l];
  }
  return !bits;
}

// x (a row of strips for each dof) := A^-1 x, for dofs [from, to) that no others hang on.
static void solve_columns(const pbTreePattern *tree, const double *LD, const double *diag_inv, int from, int to, lane *x) {
  for (int k = to - 1; k >= from; k--) {
    const int *chain = tree->chain + tree->adr[k];
    const double *row = LD + tree->adr[k];
    const lane *xk = x + strips * k, x0 = xk[0], x1 = xk[1], x2 = xk[2], x3 = xk[3];
    if (all_zero(xk, strips)) continue;
    for (int a = 0; a < tree->depth[k]; a++) {
      lane *y = x + strips * chain[a];
      y[0] -= row[a] * x0, y[1] -= row[a] * x1, y[2] -= row[a] * x2, y[3] -= row[a] * x3;
    }
  }
  for (int k = from; k < to; k++) {
    const int *chain = tree->chain + tree->adr[k];
    const double *row = LD + tree->adr[k];
    lane *xk = x + strips * k;
    lane x0 = xk[0] * diag_inv[k], x1 = xk[1] * diag_inv[k], x2 = xk[2] * diag_inv[k], x3 = xk[3] * diag_inv[k];
    for (int a = 0; a < tree->depth[k]; a++) {
      const lane *y = x + strips * chain[a];
      x0 -= row[a] * y[0], x1 -= row[a] * y[1], x2 -= row[a] * y[2], x3 -= row[a] * y[3];
    }
    xk[0] = x0, xk[1] = x1, xk[2] = x2, xk[3] = x3;
  }
}

// y += A x by columns
static void add_product(const pbTreePattern *tree, const double *A, const lane *x, lane *y) {
  for (int k = 0; k < tree->n; k++) {
    const int *chain = tree->chain + tree->adr[k];
    const double *row = A + tree->adr[k], diag = row[tree->depth[k]];
    const lane *xk = x + strips * k, x0 = xk[0], x1 = xk[1], x2 = xk[2], x3 = xk[3];
    lane *yk = y + strips * k;
    lane y0 = yk[0] + diag * x0, y1 = yk[1] + diag * x1, y2 = yk[2] + diag * x2, y3 = yk[3] + diag * x3;
    for (int a = 0; a < tree->depth[k]; a++) {
      const lane *xa = x + strips * chain[a];
      lane *ya = y + strips * chain[a];
      y0 += row[a] * xa[0], y1 += row[a] * xa[1], y2 += row[a] * xa[2], y3 += row[a] * xa[3];
      ya[0] += row[a] * x0, ya[1] += row[a] * x1, ya[2] += row[a] * x2, ya[3] += row[a] * x3;
    }
    yk[0] = y0, yk[1] = y1, yk[2] = y2, yk[3] = y3;
  }
}

// x := Mhat^-T x; free bodies that stand alone have a block of their own under implicitfast.
static void solve_damped(const NUM(pbWork) *w, lane *x) {
  const pbModel *m = w->m;
  int from = 0;
  for (int j = 0; m->integrator == pb_intImplicitfast && j < m->njnt; j++) {
    if (!free_standalone(m, j)) continue;
    int dof = m->jnt_dofadr[j];
    solve_columns(&w->t->M, w->Mhat, w->Mhat_Dinv, from, dof, x);
    for (int c = 0; c < strips * PB_LANES; c++) {
      double *column = (double *)(x + strips * dof) + c, b[6];
      for (int r = 0; r < 6; r++) b[r] = column[r * strips * PB_LANES];
      NUM(pbSolve6)(w->free_A + 36 * j, b, true);
      for (int r = 0; r < 6; r++) column[r * strips * PB_LANES] = b[r];
    }
    from = dof + 6;
  }
  solve_columns(&w->t->M, w->Mhat, w->Mhat_Dinv, from, m->nv, x);
}

// Virtual velocities of all seeds: mu = h Mhat^-T of the unit vectors, lam = H^-1 M mu.
static void seeds(block *k) {
  const NUM(pbWork) *w = k->a.w;
  int nv = w->m->nv, room = strips * PB_LANES;
  size_t size = (size_t)(strips * nv) * sizeof(lane);
  for (int first = 0; first < nv; first += room) {
    lane *mu = k->mu_of + first / PB_LANES * nv, *lam = k->lam_of + first / PB_LANES * nv;
    memset(mu, 0, size);
    for (int i = first; i < nv && i < first + room; i++) ((double *)(mu + strips * i))[i - first] = w->p.timestep[0];
    if (w->damped) {
      solve_damped(w, mu);
      memset(lam, 0, size);
      add_product(&w->t->M, w->M, mu, lam);
    } else {
      memcpy(lam, mu, size);
    }
    solve_columns(&w->H, w->H_LD, w->H_Dinv, 0, nv, lam);
  }
}

// Rows of v+ of PB_LANES seeds.
static void velocity_rows(block *k, int first, double *A, double *B) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int nv = m->nv, n = 2 * nv + m->na, at = first / PB_LANES, offset = at / strips * strips * nv + at % strips;
  LANE(pbVjp_Begin)(k, w);
  memset(k->ctrl, 0, (size_t)m->nu * sizeof(lane));
  a->damped = a->has_mu = w->damped;
  for (int i = 0; i < nv; i++) a->lam[i] = k->lam_of[offset + strips * i], a->mu[i] = k->mu_of[offset + strips * i];
  power(k);
  for (int i = first; i < nv && i < first + PB_LANES; i++) {
    const double *q = (double *)a->q + (i - first), *v = (double *)a->v + (i - first);
    const double *act = (double *)a->act + (i - first), *ctrl = (double *)a->ctrl + (i - first);
    double *row = A + i * n;
    for (int c = 0; A && c < nv; c++) row[c] = q[PB_LANES * c], row[nv + c] = v[PB_LANES * c];
    for (int c = 0; A && c < m->na; c++) row[2 * nv + c] = act[PB_LANES * c];
    if (A) row[nv + i] += 1;  // v+ = v + h ahat
    for (int c = 0; B && c < m->nu; c++) B[i * m->nu + c] = ctrl[PB_LANES * c];
  }
}

pbStatus LANE(pbVjp_Velocity)(void *memory, NUM(pbWork) *w, const double *stages, double *A, double *B) {
  block *k = LANE(pbVjp_Block)(memory);
  const pbModel *m = w->m;
  memcpy(w->q0, w->qpos, (size_t)m->nq * sizeof(double));
  memcpy(w->v0, w->qvel, (size_t)m->nv * sizeof(double));
  memcpy(w->a0, w->act, (size_t)m->na * sizeof(double));
  PB_TRY(evaluate(k, w, stages, false, false));
  k->a.theta = NULL, k->a.want = 0;
  k->a.ctrl = k->ctrl, k->a.qfrc = k->a.xfrc = NULL;
  k->a.w = w;
  seeds(k);
  for (int first = 0; first < m->nv; first += PB_LANES) velocity_rows(k, first, A, B);
  return pb_ok;
}
#endif

// ---- the step ---------------------------------------------------------------------------------------------------------
static pbStatus pull(block *k, NUM(pbWork) *w, const double *stages, const pbPullback *p) {
  const pbModel *m = w->m;
  bool step = p->q_next != NULL;
  memcpy(w->q0, w->qpos, (size_t)m->nq * sizeof(double));
  memcpy(w->v0, w->qvel, (size_t)m->nv * sizeof(double));
  memcpy(w->a0, w->act, (size_t)m->na * sizeof(double));
  if (step && m->integrator == pb_intRK4) return runge_kutta(k, w, stages, p);
  if (!p->evaluated) PB_TRY(evaluate(k, w, stages, p->cached, p->sensordata != NULL));
  LANE(pbVjp_Begin)(k, w);
  return euler(k, p, step);
}

int LANE(pbVjp_Lanes)(void) { return PB_LANES; }

pbStatus LANE(pbVjp_Run)(void *memory, NUM(pbWork) *w, const double *stages, const pbPullback *p) {
  block *k = LANE(pbVjp_Block)(memory);
  LANE(pbAdjoint) *a = &k->a;
  const pbModel *m = w->m;
  int nv = m->nv;
  a->theta = PB_LANES == 1 ? p->theta : NULL;
  a->want = a->theta ? pb_wantEverything & ~p->skip : 0;
  if (a->theta) bars_view(&a->bar, w->m, a->theta);
  a->h_bar = 0;
  k->more_qacc = p->qacc, k->lam_out = p->lam;
  lane_copy(k->q_next, p->q_next, nv), lane_copy(k->v_next, p->v_next, nv), lane_copy(k->act_next, p->act_next, m->na);
  a->ctrl = k->ctrl, a->qfrc = p->qfrc ? k->qfrc : NULL, a->xfrc = p->xfrc ? k->xfrc : NULL;
  lane *sums[] = {k->q_sum, k->v_sum, k->act_sum, a->ctrl, a->qfrc, a->xfrc};
  int sizes[] = {nv, nv, m->na, m->nu, nv, 6 * m->nbody};
  double *out[] = {p->q, p->v, p->act, p->ctrl, p->qfrc, p->xfrc};
  for (int i = 0; i < 6; i++) {
    if (sums[i]) memset(sums[i], 0, (size_t)sizes[i] * sizeof(lane));
  }
  PB_TRY(pull(k, w, stages, p));
  for (int i = 0; i < 6; i++) LANE(pbVjp_AddOut)(out[i], sums[i], sizes[i]);
  if (a->theta) *a->bar.timestep += a->h_bar;
  return pb_ok;
}
