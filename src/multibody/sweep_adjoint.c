// Sweeps of the adjoint over the tree: motions up, wrenches down. Derivation in docs/derivatives.md.
#include "math/vec.h"
#include "multibody/adjoint.h"
#include "multibody/spatial.h"

void LANE(pbSweep_Solve)(const pbTreePattern *tree, const double *LD, const double *diag_inv, lane *x) {
  for (int k = tree->n - 1; k >= 0; k--) {
    const int *chain = tree->chain + tree->adr[k];
    const double *row = LD + tree->adr[k];
    lane xk = x[k];
    for (int a = 0; a < tree->depth[k]; a++) x[chain[a]] -= row[a] * xk;
  }
  for (int k = 0; k < tree->n; k++) {
    const int *chain = tree->chain + tree->adr[k];
    const double *row = LD + tree->adr[k];
    lane s = x[k] * diag_inv[k];
    for (int a = 0; a < tree->depth[k]; a++) s -= row[a] * x[chain[a]];
    x[k] = s;
  }
}

void LANE(pbSweep_Mul)(const pbTreePattern *tree, const double *A, const lane *x, lane *y) {
  for (int k = 0; k < tree->n; k++) {
    const int *chain = tree->chain + tree->adr[k];
    const double *row = A + tree->adr[k];
    lane s = row[tree->depth[k]] * x[k];
    for (int a = 0; a < tree->depth[k]; a++) {
      s += row[a] * x[chain[a]];
      y[chain[a]] += row[a] * x[k];
    }
    y[k] = s;
  }
}

void LANE(pbSweep_Push)(const NUM(pbWork) *w, const lane *rate, lane *X) {
  const pbModel *m = w->m;
  memset(X, 0, 6 * sizeof(lane));
  for (int b = 1; b < m->nbody; b++) {
    LANE(pbLane_Copy6)(X + 6 * b, X + 6 * m->body_parentid[b]);
    for (int i = m->body_dofadr[b], e = i + m->body_dofnum[b]; i < e; i++) PB_AXPY6(X + 6 * b, rate[i], w->S + 6 * i);
  }
}

void LANE(pbSweep_PushPlain)(const NUM(pbWork) *w, const double *rate, double *X) {
  const pbModel *m = w->m;
  memset(X, 0, 6 * sizeof(double));
  for (int b = 1; b < m->nbody; b++) {
    memcpy(X + 6 * b, X + 6 * m->body_parentid[b], 6 * sizeof(double));
    for (int i = m->body_dofadr[b], e = i + m->body_dofnum[b]; i < e; i++) PB_AXPY6(X + 6 * b, rate[i], w->S + 6 * i);
  }
}

void LANE(pbSweep_Acceleration)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  memcpy(a->G, a->FA, 6 * (size_t)m->nbody * sizeof(lane));
  for (int b = m->nbody - 1; b > 0; b--) {
    if (w->t->body_tree[b] < 0) continue;
    for (int i = m->body_dofadr[b], e = i + m->body_dofnum[b]; i < e; i++) a->qacc[i] += PB_DOT6(w->S + 6 * i, a->G + 6 * b);
    if (w->t->body_tree[m->body_parentid[b]] >= 0) PB_AXPY6(a->G + 6 * m->body_parentid[b], 1, a->G + 6 * b);
  }
}

void LANE(pbSweep_Quat)(LANE(pbAdjoint) *a, double *bar, const double *q, const double t[3]) {
  (void)a;
  bar[0] += 2 * (-q[1] * t[0] - q[2] * t[1] - q[3] * t[2]);
  bar[1] += 2 * (q[0] * t[0] + q[2] * t[2] - q[3] * t[1]);
  bar[2] += 2 * (q[0] * t[1] + q[3] * t[0] - q[1] * t[2]);
  bar[3] += 2 * (q[0] * t[2] + q[1] * t[1] - q[2] * t[0]);
}

// ---- inertia --------------------------------------------------------------------------------------------------------
#if PB_LANES == 1
// g += sign times the gradient of X . I Y by I = {m, m d (3), Ixx, Iyy, Izz, Ixy, Ixz, Iyz}.
static void inertia_gradient(double g[10], const double *X, const double *Y, double sign) {
  double h[3];
  PB_CROSS(h, Y + 3, X);  // X . (I Y) has m d . (v_Y x w_X + v_X x w_Y)
  PB_ADDCROSS(h, 1, X + 3, Y);
  g[0] += sign * PB_DOT3(X + 3, Y + 3);
  for (int k = 0; k < 3; k++) g[1 + k] += sign * h[k], g[4 + k] += sign * X[k] * Y[k];
  g[7] += sign * (X[0] * Y[1] + X[1] * Y[0]);
  g[8] += sign * (X[0] * Y[2] + X[2] * Y[0]);
  g[9] += sign * (X[1] * Y[2] + X[2] * Y[1]);
}

// From the ten numbers to mass, inertial frame and principal inertia; see body_inertia in kinematics.c.
static void inertia_parameters(LANE(pbAdjoint) *a, int b, const double g[10]) {
  const NUM(pbWork) *w = a->w;
  const double *R = w->ximat + 9 * b, *I = w->p.body_inertia + 3 * b, mass = w->p.body_mass[b], *h = g + 1;
  const double G[9] = {g[4], 0.5 * g[7], 0.5 * g[8], 0.5 * g[7], g[5], 0.5 * g[9], 0.5 * g[8], 0.5 * g[9], g[6]};
  double d[3], Gd[3], move[3], GR[9], L[9], turn[3], trace = g[4] + g[5] + g[6];
  body_offset(w, b, w->xipos + 3 * b, d);
  m3_mulv(Gd, G, d);
  double dd = v3_dot(d, d);
  // I(d) = R diag R' + m (|d|^2 1 - d d')
  PB_THETA(a, body_mass, b, g[0] + v3_dot(h, d) + dd * trace - v3_dot(d, Gd));
  for (int k = 0; k < 3; k++) move[k] = mass * (h[k] + 2 * (trace * d[k] - Gd[k]));
  m3_tmulv(move, w->xmat + 9 * b, move);
  for (int k = 0; k < 3; k++) PB_THETA(a, body_ipos, 3 * b + k, move[k]);
  m3_mul(GR, G, R);
  m3_tmul(L, R, GR);  // in the inertial frame
  for (int k = 0; k < 3; k++) PB_THETA(a, body_inertia, 3 * b + k, L[4 * k]);
  for (int k = 0; k < 3; k++) {  // a turn t changes diag by [t]x diag - diag [t]x
    int i = (k + 1) % 3, j = (k + 2) % 3;
    turn[k] = 2 * L[3 * i + j] * (I[i] - I[j]);
  }
  LANE(pbSweep_Quat)(a, a->theta + (w->m->body_iquat - w->m->theta0) + 4 * b, w->p.body_iquat + 4 * b, turn);
}
#endif

void LANE(pbSweep_Evaluation)(LANE(pbAdjoint) *a, const NUM(pbWork) *w) {
  const pbModel *m = w->m;
  LANE(pbSweep_PushPlain)(w, w->qacc, a->Va);
  if (w->damped) {
    for (int i = 0; i < m->nv; i++) w->tmp[i] = w->qacc[i] - w->qacc_integrated[i];
    LANE(pbSweep_PushPlain)(w, w->tmp, a->Vw);
  }
  for (int b = 1; b < m->nbody; b++) {
    if (w->t->body_tree[b] < 0) continue;
    const double *I = w->inert + 10 * b, *V = w->V + 6 * b, *A = w->A + 6 * b, *Vw = a->Vw + 6 * b;
    double momentum[6] = {0}, rate[6] = {0}, moved[6] = {0};
    PB_ADDINERT(momentum, 1, I, V);
    PB_ADDINERT(rate, 1, I, A);
    PB_ADDMXF(rate, 1, V, momentum);
    memcpy(a->IV + 6 * b, momentum, sizeof momentum), memcpy(a->rate_IV + 6 * b, rate, sizeof rate);
    if (!w->damped) continue;
    PB_ADDINERT(moved, 1, I, Vw);
    memcpy(a->IW + 6 * b, moved, sizeof moved);
  }
  for (int i = 0; i < m->nv; i++) NUM(pbDof_Damping)(w, i, a->damping + 3 * i);
}

static void clear_body(LANE(pbAdjoint) *a, int b) {
  lane *of_lanes[] = {a->FV, a->FA, a->FW, a->FVa, a->P};
  double *plain[] = {a->FL, a->FX, a->FM};
  for (int i = 0; i < 5; i++) LANE(pbLane_Zero6)(of_lanes[i] + 6 * b);
  for (int i = 0; i < 3; i++) memset(plain[i] + 6 * b, 0, 6 * sizeof(double));
}

// W = -Vx . (I A + V x* I V) + Vm . I Vw. The pose of the inertia at held fields: minus the sum of X x* (cotangent of X).
void LANE(pbSweep_Inertia)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  for (int b = 0; b < w->m->nbody; b++) {
    if (a->fresh) clear_body(a, b);
    if (w->t->body_tree[b] < 0) continue;
    const double *I = w->inert + 10 * b, *V = w->V + 6 * b, *A = w->A + 6 * b;
    const lane *Vx = a->Vx + 6 * b;
    const double *momentum = a->IV + 6 * b, *fx = a->rate_IV + 6 * b, *fm = a->IW + 6 * b;  // -fx is the cotangent of Vx
    lane turned[6] = {0}, fv[6] = {0}, fa[6] = {0}, fw[6] = {0}, *P = a->P + 6 * b;
    PB_ADDINERT(fa, -1, I, Vx);
    PB_ADDMXF(fv, 1, Vx, momentum);
    PB_ADDMXM(turned, 1, Vx, V);
    PB_ADDINERT(fv, -1, I, turned);
    PB_ADDMXF(P, 1, Vx, fx);
    PB_ADDMXF(P, -1, A, fa);
    PB_ADDMXF(P, -1, V, fv);
    PB_AXPY6(a->FX + 6 * b, -1, fx);
    PB_AXPY6(a->FA + 6 * b, 1, fa);
    PB_AXPY6(a->FV + 6 * b, 1, fv);
    if (a->damped) {
      const double *Vw = a->Vw + 6 * b;
      const lane *Vm = a->Vm + 6 * b;
      PB_ADDINERT(fw, 1, I, Vm);
      PB_ADDMXF(P, -1, Vm, fm);
      PB_ADDMXF(P, -1, Vw, fw);
      PB_AXPY6(a->FM + 6 * b, 1, fm);
      PB_AXPY6(a->FW + 6 * b, 1, fw);
    }
#if PB_LANES == 1
    if (a->theta) {  // Vx . (V x* I V) = (Vx x V) . I V
      double g[10] = {0};
      inertia_gradient(g, Vx, A, -1);
      inertia_gradient(g, turned, V, -1);
      if (a->damped) inertia_gradient(g, a->Vm + 6 * b, a->Vw + 6 * b, 1);
      inertia_parameters(a, b, g);
    }
#endif
  }
}

// ---- points and sites -----------------------------------------------------------------------------------------------
void LANE(pbSweep_Point)(LANE(pbAdjoint) *a, int body, const double d[3], const double F[3], const lane p[3], double *field) {
  PB_ADDWRENCH(field + 6 * body, 1, d, F);
  PB_ADDWRENCH(a->P + 6 * body, 1, d, p);
}

void LANE(pbSweep_Site)(LANE(pbAdjoint) *a, int site, const lane p[3], const lane torque[3]) {
#if PB_LANES == 1
  const NUM(pbWork) *w = a->w;
  double local[3];
  if (!a->theta) return;
  m3_tmulv(local, w->xmat + 9 * w->m->site_bodyid[site], p);
  for (int k = 0; k < 3; k++) PB_THETA(a, site_pos, 3 * site + k, local[k]);
  if (!torque) return;
  m3_tmulv(local, w->site_xmat + 9 * site, torque);
  LANE(pbSweep_Quat)(a, a->theta + (w->m->site_quat - w->m->theta0) + 4 * site, w->p.site_quat + 4 * site, local);
#else
  (void)a, (void)site, (void)p, (void)torque;
#endif
}

// ---- pulling down ---------------------------------------------------------------------------------------------------
// P[b] is the gradient by the pose of body b with all its fields held. Going down through a dof with axis S, the gradient
// by a rigid motion of everything it carries, with the fields before it held, is
//   Q_before = Q_after + S x* Sb,   Sb = gradient by S itself = sum over fields of (cotangent) (rate) - rate_v Vb x* FA
// because what is carried, and S, turn together. Every kinematic gradient is a projection of these two.
#if PB_LANES == 1
// Torque of a wrench about the point with offset d.
static void torque_about(const double Q[6], const double d[3], double t[3]) {
  PB_CROSS(t, Q + 3, d);
  for (int k = 0; k < 3; k++) t[k] += Q[k];
}

// Gradient by a joint's axis and anchor. Sb: of its axes (n x 6); Q: of what it carries. R: orientation of the body after
// the joint, before it on return.
static void joint_parameters(LANE(pbAdjoint) *a, int j, const double *Sb, const double Q[6], double R[9]) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int type = m->jnt_type[j], dof = m->jnt_dofadr[j], qadr = m->jnt_qposadr[j];
  double arm[3], t[3], before[9], turned[9], q[4], b[3], after[3], axis[3] = {0};
  const double *ax = w->xaxis + 3 * j, *unit = w->p.jnt_axis + 3 * j;
  memcpy(before, R, sizeof before);
  if (type == pb_jntSlide) {
    double x = w->qpos[qadr] - w->p.qpos0[qadr];
    for (int k = 0; k < 3; k++) axis[k] = Sb[3 + k] + x * Q[3 + k];
  } else {
    body_offset(w, m->jnt_bodyid[j], w->xanchor + 3 * j, arm);
    if (type == pb_jntHinge) {  // what is carried turns by sin x da + (1 - cos x) a x da about the anchor
      double half = v3_dot(w->jnt_turn + 4 * j + 1, unit), whole = w->jnt_turn[4 * j];  // sin, cos of x / 2
      double s = 2 * half * whole, c = whole * whole - half * half;
      torque_about(Q, arm, t);
      for (int k = 0; k < 3; k++) axis[k] = Sb[k] + s * t[k];
      PB_ADDCROSS(axis, 1, Sb + 3, arm);
      PB_ADDCROSS(axis, 1 - c, t, ax);
    }
    quat_conj(q, w->jnt_turn + 4 * j);
    quat_to_mat(turned, q);
    m3_mul(before, R, turned);
    v3_copy(b, Q + 3);
    for (int k = 0; k < (type == pb_jntBall ? 3 : 1); k++) PB_ADDCROSS(b, 1, w->S + 6 * (dof + k), Sb + 6 * k + 3);
    m3_tmulv(b, before, b), m3_tmulv(after, R, Q + 3);
    for (int k = 0; k < 3; k++) PB_THETA(a, jnt_pos, 3 * j + k, b[k] - after[k]);
  }
  memcpy(R, before, sizeof before);
  if (type == pb_jntBall) return;
  m3_tmulv(axis, before, axis);
  double along = v3_dot(axis, unit);
  for (int k = 0; k < 3; k++) PB_THETA(a, jnt_axis, 3 * j + k, axis[k] - along * unit[k]);
}

// Gradient by the body's place in its parent. Q: of a rigid motion of the body's frame and all it carries.
static void body_parameters(LANE(pbAdjoint) *a, int b, const double Q[6], const double R[9]) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int parent = m->body_parentid[b];
  double g[3], x0[3], d[3], t[3];
  m3_tmulv(g, w->xmat + 9 * parent, Q + 3);
  for (int k = 0; k < 3; k++) PB_THETA(a, body_pos, 3 * b + k, g[k]);
  m3_mulv(x0, w->xmat + 9 * parent, w->p.body_pos + 3 * b);
  v3_addto(x0, w->xpos + 3 * parent);
  body_offset(w, b, x0, d);
  torque_about(Q, d, t);
  m3_tmulv(t, R, t);
  LANE(pbSweep_Quat)(a, a->theta + (m->body_quat - m->theta0) + 4 * b, w->p.body_quat + 4 * b, t);
}
#endif

// One joint with the gradients Sb of its axes: coordinates, parameters; Q becomes that before the joint.
static void through_joint(LANE(pbAdjoint) *a, int j, int first, int n, const lane *Sb, lane Q[6], double R[9]) {
  const NUM(pbWork) *w = a->w;
#if PB_LANES == 1
  if (a->theta && w->m->jnt_type[j] != pb_jntFree) joint_parameters(a, j, Sb, Q, R);
#else
  (void)R;
#endif
  for (int k = 0; k < n; k++) PB_ADDMXF(Q, 1, w->S + 6 * (first + k), Sb + 6 * k);
  for (int k = 0; k < n; k++) {
    lane g = PB_DOT6(w->S + 6 * (first + k), Q);
    a->q[first + k] += g;
    if (n == 1) PB_THETA(a, qpos0, w->m->jnt_qposadr[j], -g);
  }
}

// r += a wrench about another reference point: shift is where its point lies from r's.
#define ADD_SHIFTED(r, F, shift)                  \
  do {                                            \
    for (int e = 0; e < 6; e++) (r)[e] += (F)[e]; \
    PB_ADDCROSS(r, 1, shift, (F) + 3);            \
  } while (0)

#if PB_LANES == 1
static bool is_free(const pbModel *m, int b) { return m->body_jntnum[b] && m->jnt_type[m->body_jntadr[b]] == pb_jntFree; }
#endif

// Gradients by n axes from dof `first` on, and by their rates; FV becomes that before them.
static void peel(LANE(pbAdjoint) *a, int b, int first, int n, lane *Sb) {
  const NUM(pbWork) *w = a->w;
  const double *FL = a->FL + 6 * b, *FX = a->FX + 6 * b, *FM = a->FM + 6 * b;
  lane *FV = a->FV + 6 * b, *FA = a->FA + 6 * b, *FVa = a->FVa + 6 * b, *FW = a->FW + 6 * b;
  for (int k = 0; k < n; k++) {
    int i = first + k;
    double v = w->qvel[i], acc = w->qacc[i], vw = acc - w->qacc_integrated[i];
    lane *g = Sb + 6 * k, lam = a->lam[i];
    for (int e = 0; e < 6; e++) g[e] = (FL[e] + FX[e]) * lam + FV[e] * v + (FA[e] + FVa[e]) * acc;
    if (a->damped) {
      lane mu = a->mu[i];
      for (int e = 0; e < 6; e++) g[e] += FM[e] * mu + FW[e] * vw;
    }
    PB_ADDMXF(g, -v, w->Vb + 6 * i, FA);
    a->v[i] += PB_DOT6(w->S + 6 * i, FV) + PB_DOT6(w->Sdot + 6 * i, FA);
  }
  for (int k = 0; k < n; k++) PB_ADDMXF(FV, w->qvel[first + k], w->S + 6 * (first + k), FA);
}

static void to_parent(LANE(pbAdjoint) *a, int b, const lane Q[6]) {
  const NUM(pbWork) *w = a->w;
  int parent = w->m->body_parentid[b], tree = w->t->body_tree[b];
  double shift[3] = {0};
  if (tree >= 0 && w->t->body_tree[parent] < 0) v3_copy(shift, w->ref + 3 * tree);
  ADD_SHIFTED(a->P + 6 * parent, Q, shift);
  ADD_SHIFTED(a->FV + 6 * parent, a->FV + 6 * b, shift);
  ADD_SHIFTED(a->FA + 6 * parent, a->FA + 6 * b, shift);
  ADD_SHIFTED(a->FVa + 6 * parent, a->FVa + 6 * b, shift);
  ADD_SHIFTED(a->FL + 6 * parent, a->FL + 6 * b, shift);
  ADD_SHIFTED(a->FX + 6 * parent, a->FX + 6 * b, shift);
  if (!a->damped) return;
  ADD_SHIFTED(a->FM + 6 * parent, a->FM + 6 * b, shift);
  ADD_SHIFTED(a->FW + 6 * parent, a->FW + 6 * b, shift);
}

void LANE(pbSweep_Pull)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  for (int b = m->nbody - 1; b > 0; b--) {
    lane Q[6], Sb[18];
    double R[9];
    LANE(pbLane_Copy6)(Q, a->P + 6 * b);
    memcpy(R, w->xmat + 9 * b, sizeof R);
    for (int k = m->body_jntnum[b] - 1; k >= 0; k--) {
      int j = m->body_jntadr[b] + k, type = m->jnt_type[j], dof = m->jnt_dofadr[j], n = type < pb_jntSlide ? 3 : 1;
      int first = type == pb_jntFree ? dof + 3 : dof;
      peel(a, b, first, n, Sb);
      through_joint(a, j, first, n, Sb, Q, R);
      if (type != pb_jntFree) continue;
      peel(a, b, dof, n, Sb);
      through_joint(a, j, dof, n, Sb, Q, R);
    }
#if PB_LANES == 1
    if (a->theta && !is_free(m, b)) body_parameters(a, b, Q, R);
#endif
    to_parent(a, b, Q);
  }
  if (!(m->disableflags & pb_dsblGravity)) {
    for (int k = 0; k < 3; k++) PB_THETA(a, gravity, k, -a->FA[3 + k]);
  }
}

// ---- one extra field ------------------------------------------------------------------------------------------------
// The main sweep with every other field zero.
void LANE(pbSweep_PullExtra)(LANE(pbAdjoint) *a, const lane *rate) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  memset(a->G, 0, 6 * (size_t)m->nbody * sizeof(lane));
  for (int b = m->nbody - 1; b > 0; b--) {
    int parent = m->body_parentid[b];
    lane *Q = a->G + 6 * b, Sb[18];
    double *F = a->F + 6 * b, R[9], shift[3] = {0};
    memcpy(R, w->xmat + 9 * b, sizeof R);
    for (int k = m->body_jntnum[b] - 1; k >= 0; k--) {
      int j = m->body_jntadr[b] + k, dof = m->jnt_dofadr[j], type = m->jnt_type[j];
      for (int first = type == pb_jntFree ? dof + 3 : dof; first >= dof; first -= 3) {
        int n = type < pb_jntSlide ? 3 : 1;
        for (int i = 0; i < n; i++) {
          for (int e = 0; e < 6; e++) Sb[6 * i + e] = F[e] * rate[first + i];
        }
        through_joint(a, j, first, n, Sb, Q, R);
      }
    }
#if PB_LANES == 1
    if (a->theta && !is_free(m, b)) body_parameters(a, b, Q, R);
#endif
    if (w->t->body_tree[b] >= 0 && w->t->body_tree[parent] < 0) v3_copy(shift, w->ref + 3 * w->t->body_tree[b]);
    ADD_SHIFTED(a->G + 6 * parent, Q, shift);
    ADD_SHIFTED(a->F + 6 * parent, F, shift);
  }
}
