// One evaluation in stages, and how its accelerations move a state: implicit damping, positions, activations. Derivatives in
// integrate_adjoint.c, step_adjoint.c and runge_kutta_adjoint.c.
// Tests: tests/oracle/test_step.py.
#include "bodies/actuators.h"
#include "bodies/forces.h"
#include "eval/stages.h"
#include "multibody/damping.h"
#include "multibody/fluid.h"
#include "step/integrate.h"

#include "base/assert.h"
#include "eval/work.h"
#include "math/vec.h"
#include "model/topology.h"
#include "multibody/polynomial.h"
#include "multibody/spatial.h"

void NUM(pbEvaluate_Sense)(NUM(pbWork) *w) {
  NUM(pbStage_Kinematics)(&w->mechanism);
  NUM(pbStage_Tendon)(&w->mechanism);
  NUM(pbStage_Velocity)(&w->mechanism);
}

pbStatus NUM(pbEvaluate)(NUM(pbWork) *w, bool replay) {
  w->replay = replay;
  if (!w->sensed) NUM(pbEvaluate_Sense)(w);
  w->sensed = false;

  // Motions are there, and what else follows from positions; now forces, then the accelerations that they and the rows give.
  NUM(pbStage_Inertia)(&w->mechanism);
  PB_TRY(NUM(pbStage_Collide)(&w->constraints));
  NUM(pbStage_Passive)(&w->mechanism);
  NUM(pbStage_Actuation)(&w->constraints);
  NUM(pbStage_Smooth)(&w->mechanism);
  PB_TRY(NUM(pbStage_Rows)(&w->constraints));
  return NUM(pbStage_Solve)(w);
}

// ---- implicit damping -----------------------------------------------------------------------------------------------
void NUM(pbFree_Frame)(const NUM(pbWork) *w, int root, int body, num ipos[3], num iquat[4]) {
  if (body == root) {
    v3_copy(ipos, w->p.body_ipos + 3 * body);
    quat_copy(iquat, w->p.body_iquat + 4 * body);
    return;
  }

  // Position and orientation of the body's inertial frame, both taken back by the root's.
  num q[4];
  v3_sub(ipos, w->xipos + 3 * body, w->xpos + 3 * root);
  m3_tmulv(ipos, w->xmat + 9 * root, ipos);
  quat_conj(q, w->xquat + 4 * root);
  quat_mul(q, q, w->xquat + 4 * body);
  quat_mul(iquat, q, w->p.body_iquat + 4 * body);
}

void NUM(pbFree_Inertia)(const NUM(pbWork) *w, int body, num inertia[6]) {
  v3_copy(inertia, w->p.body_inertia + 3 * body);
  v3_zero(inertia + 3);
  if (w->m->ndesignbody) v3_copy(inertia + 3, w->p.body_products + 3 * body);
}

// The bias is the force m w x (w x s), s the center of mass, and about the body's origin the torque s x force + w x I w. Its
// derivative by w along wa: m (wa x (w x s) + w x (wa x s)), and wa x I w + w x I wa. All in world axes, but for the torque at
// last.
void NUM(pbFree_BiasDerivative)(const num R[9], const num rate[3], const num a[3], num mass, const num ipos[3],
                                const num iquat[4], const num inertia[6], num out[6]) {
  num w[3], wa[3], s[3], t[3], u[3], force[3], torque[3], Xi[9], X[9], Iw[3], Ia[3];
  m3_mulv(w, R, rate);
  m3_mulv(wa, R, a);
  m3_mulv(s, R, ipos);

  v3_cross(t, w, s);
  v3_cross(force, wa, t);
  v3_cross(t, wa, s);
  v3_cross(u, w, t);
  v3_addto(force, u);
  v3_scale(force, force, mass);

  // I w = X diag(I) X' w, X the principal axes in the world.
  quat_to_mat(Xi, iquat);
  m3_mul(X, R, Xi);
  m3_tmulv(Iw, X, w);
  m3_tmulv(Ia, X, wa);
  m3_inertia(Iw, inertia, inertia + 3);
  m3_inertia(Ia, inertia, inertia + 3);
  m3_mulv(Iw, X, Iw);
  m3_mulv(Ia, X, Ia);

  v3_cross(torque, s, force);
  v3_addcross(torque, wa, Iw);
  v3_addcross(torque, w, Ia);

  v3_copy(out, force);
  m3_tmulv(out + 3, R, torque);
}

// a := its row k changed with the one below it whose entry in column k is the largest; x likewise.
static void pivot_row(num a[36], num x[6], int k) {
  int p = k;
  for (int i = k + 1; i < 6; i++) p = fabs(re(a[6 * i + k])) > fabs(re(a[6 * p + k])) ? i : p;
  if (p == k) return;

  for (int j = 0; j < 6; j++) {
    num t = a[6 * k + j];
    a[6 * k + j] = a[6 * p + j];
    a[6 * p + j] = t;
  }
  num t = x[k];
  x[k] = x[p];
  x[p] = t;
}

// Dense A x = b for a 6x6, Gaussian elimination with partial pivots; transposed on request. A is not changed.
void NUM(pbSolve6)(const num A[36], num x[6], bool transposed) {
  num a[36];

  // Forward elimination, then back substitution.
  for (int i = 0; i < 36; i++) a[i] = transposed ? A[(i % 6) * 6 + i / 6] : A[i];

  for (int k = 0; k < 6; k++) {
    pivot_row(a, x, k);
    for (int i = k + 1; i < 6; i++) {
      num f = num_div(a[6 * i + k], a[6 * k + k]);
      for (int j = k; j < 6; j++) a[6 * i + j] -= f * a[6 * k + j];
      x[i] -= f * x[k];
    }
  }

  for (int k = 5; k >= 0; k--) {
    for (int j = k + 1; j < 6; j++) x[k] -= a[6 * k + j] * x[j];
    x[k] = num_div(x[k], a[6 * k + k]);
  }
}

// Fluid damping of such a body is not symmetric (MuJoCo symmetrizes it elsewhere); D has taken its lower triangle for both, so
// its upper one is made good here.
static void correct_upper_triangle(const NUM(pbWork) *w, int body, int dof, num A[36]) {
  num B[36] = {0}, h = w->p.timestep[0];
  bool passive = !(w->m->disableflags & pb_disSpring) || !(w->m->disableflags & pb_disDamper);
  if (!w->has_fluid || re(w->p.body_mass[body]) < 1e-15 || !passive) return;

  NUM(pbFluid_Damping)(&w->mechanism, body, B);
  for (int r = 0; r < 6; r++) {
    for (int c = r + 1; c < 6; c++) {
      const num *Sr = w->S + 6 * (dof + r), *Sc = w->S + 6 * (dof + c);
      for (int i = 0; i < 36; i++) A[6 * r + c] -= h * B[i] * (Sr[i / 6] * Sc[i % 6] - Sc[i / 6] * Sr[i % 6]);
    }
  }
}

// M - h D + h dbias/dv of a standalone free body; its rows of the symmetric matrix go back to M.
static void make_free_block(NUM(pbWork) *w, int j) {
  const pbModel *m = w->m;
  const pbTreePattern *tree = &w->t->M;
  int dof = m->jnt_dofadr[j], b = m->jnt_bodyid[j];
  num *A = w->free_A + 36 * j, h = w->p.timestep[0];
  PB_ASSERT(m->jnt_type[j] == pb_jntFree && tree->depth[dof + 5] == 5);
  for (int r = 0; r < 6; r++) {
    for (int c = 0; c <= r; c++) {
      A[6 * r + c] = A[6 * c + r] = w->Mhat[tree->adr[dof + r] + c];
      w->Mhat[tree->adr[dof + r] + c] = w->M[tree->adr[dof + r] + c];
    }
  }

  // Three columns of dbias/dv, by rates about the body's axes; the bodies of the tree are a rigid whole.
  for (int c = 0; c < 3; c++) {
    num e[3] = {0}, column[6], ipos[3], iquat[4], inertia[6];
    e[c] = 1;
    for (int k = b; k < m->nbody; k++) {
      if (w->t->body_tree[k] != w->t->body_tree[b]) continue;
      if (c == 0) correct_upper_triangle(w, k, dof, A);
      NUM(pbFree_Frame)(w, b, k, ipos, iquat);
      NUM(pbFree_Inertia)(w, k, inertia);
      NUM(pbFree_BiasDerivative)(w->xmat + 9 * b, w->qvel + dof + 3, e, w->p.body_mass[k], ipos, iquat, inertia, column);
      for (int r = 0; r < 6; r++) A[6 * r + 3 + c] += h * column[r];
    }
  }
}

// Mhat = M + h B, B the dampers' slopes. Is any of them not zero? With deformables (couple_S) they are in the accelerations
// already.
static bool make_euler_matrix(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  const pbTreePattern *tree = &w->t->M;
  bool any = false;
  if ((m->disableflags & (pb_disEulerdamp | pb_disDamper)) || w->couple_S) return false;

  memcpy(w->Mhat, w->M, (size_t)tree->size * sizeof(num));
  for (int i = 0; i < m->nv; i++) {
    num c[3];
    NUM(pbDof_Damping)(&w->mechanism, i, c);

    w->damp[i] = pb_polynomialSlope(c, w->qvel[i], true);
    any = any || re(w->damp[i]) != 0 || im(w->damp[i]) != 0;
    w->Mhat[tree->adr[i] + tree->depth[i]] += w->p.timestep[0] * w->damp[i];
  }
  return any;
}

// Mhat = M - h D, D the derivative of smooth forces by velocity.
static bool make_implicitfast_matrix(NUM(pbWork) *w) {
  const pbTreePattern *tree = &w->t->M;
  memset(w->Mhat, 0, (size_t)tree->size * sizeof(num));
  NUM(pbForce_Derivative)(&w->mechanism, w->Mhat);
  for (int i = 0; i < tree->size; i++) w->Mhat[i] = w->M[i] - w->p.timestep[0] * w->Mhat[i];

  for (int j = 0; j < w->m->njnt; j++) {
    if (free_standalone(w->m, j)) make_free_block(w, j);
  }
  return true;
}

// qacc_integrated: of the free bodies that stand alone, by blocks of their own.
static void solve_free_blocks(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  for (int j = 0; j < m->njnt; j++) {
    if (!free_standalone(m, j)) continue;
    num *x = w->qacc_integrated + m->jnt_dofadr[j];
    memcpy(x, w->Ma + m->jnt_dofadr[j], 6 * sizeof(num));
    NUM(pbSolve6)(w->free_A + 36 * j, x, false);
  }
}

pbStatus NUM(pbIntegrate_Damp)(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  const pbTreePattern *tree = &w->t->M;
  bool fast = m->integrator == pb_intImplicitfast;

  // Without damping the accelerations move velocities as they are.
  w->damped = fast ? make_implicitfast_matrix(w) : m->integrator == pb_intEuler && make_euler_matrix(w);
  memcpy(w->qacc_integrated, w->qacc, (size_t)m->nv * sizeof(num));
  if (!w->damped) return pb_ok;

  if (NUM(pbTree_Factor)(tree, w->Mhat, w->Mhat_Dinv) >= 0) return pb_singular;
  PB_ASSERT(m->nv == 0 || re(w->Mhat_Dinv[m->nv - 1]) > 0);
  memcpy(w->qacc_integrated, w->Ma, (size_t)m->nv * sizeof(num));
  NUM(pbTree_Solve)(tree, w->Mhat, w->Mhat_Dinv, w->qacc_integrated);
  if (fast) solve_free_blocks(w);
  return pb_ok;
}

// ---- positions, activations -----------------------------------------------------------------------------------------
// Is the length one but for rounding? NaN passes: other checks report it.
static inline bool is_unit(const num q[4]) {
  double squared = 0;
  for (int k = 0; k < 4; k++) squared += re(q[k]) * re(q[k]);
  return !(fabs(squared - 1) > 1e-9);
}

void NUM(pbIntegrate_Position)(const pbModel *m, num *qpos, const num *v, num h) {
  for (int j = 0; j < m->njnt; j++) {
    num *q = qpos + m->jnt_qposadr[j];
    const num *u = v + m->jnt_dofadr[j];

    // Quaternions first come to length one: they are read so everywhere.
    switch (m->jnt_type[j]) {
      // A translation in world axes, then the rotation.
      case pb_jntFree:
        v3_addscl(q, u, h);
        q += 3;
        u += 3;
        // fall through
      // A rotation: by exp(h u) from the right, so rates are about the body's axes.
      case pb_jntBall:
        quat_normalize(q);
        quat_integrate(q, u, h);
        PB_VALIDATE(is_unit(q));
        break;
      default: q[0] += h * u[0];
    }
  }
}

void NUM(pbIntegrate_Activation)(const NUM(pbWork) *w, const num *act0, const num *act_dot, num *act) {
  const pbModel *m = w->m;
  if (m->disableflags & pb_disActuation) {
    memmove(act, act0, (size_t)m->na * sizeof(num));
    return;
  }

  for (int u = 0; u < m->nu; u++) {
    int first = m->actuator_actadr[u], end = first + m->actuator_actnum[u];
    PB_ASSERT(first < 0 || end <= m->na);
    if (first < 0) continue;
    for (int a = first; a < end; a++) {
      act[a] = NUM(pbActuator_Next)(&w->mechanism, u, a, act0[a], act_dot[a]);
      if (a == end - 1) act[a] = NUM(pbActuator_Wrap)(&w->mechanism, u, act[a], w->act_length[u]);
    }
  }
}

// Of a tangent rate k at the rotation exp(u) from the start: to the rate of u itself, by the inverse right Jacobian of exp
// (Hairer, Lubich, Wanner, Geometric Numerical Integration, IV.7).
void NUM(pbRk_Correct)(const num u[3], const num k[3], num K[3]) {
  num t2 = v3_dot(u, u), g, c[3], cc[3];
  if (re(t2) < 1e-4) {  // series of (1 - t/2 cot(t/2)) / t^2
    g = 1. / 12 + t2 * (1. / 720 + t2 * (1. / 30240 + t2 / 1209600));
  } else {
    num half = 0.5 * num_sqrt(t2), sine, cosine;
    num_sincos(half, &sine, &cosine);
    g = num_div(1 - num_div(half * cosine, sine), t2);
  }

  v3_cross(c, u, k);
  v3_cross(cc, u, c);
  for (int i = 0; i < 3; i++) K[i] = k[i] + 0.5 * c[i] + g * cc[i];
}
