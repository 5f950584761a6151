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
    memcpy(X + 6 * b, X + 6 * m->body_parentid[b], 6 * sizeof(lane));
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
// Gradient of X . I Y by mass, inertial frame and inertia, all at the centre of mass (offset d); for one cotangent.
static void inertia_parameters(LANE(pbAdjoint) *a, int b, const double *X, const double *Y, double sign) {
  const NUM(pbWork) *w = a->w;
  double d[3], ux[3], uy[3], lx[3], ly[3], g[3], t[3], c[3];
  const double *R = w->ximat + 9 * b, *I = w->p.body_inertia + 3 * b, mass = sign * w->p.body_mass[b];
  body_offset(w, b, w->xipos + 3 * b, d);
  PB_POINTVEL(ux, X, d);
  PB_POINTVEL(uy, Y, d);
  m3_tmulv(lx, R, X), m3_tmulv(ly, R, Y);
  PB_THETA(a, body_mass, b, sign * PB_DOT3(ux, uy));
  for (int k = 0; k < 3; k++) PB_THETA(a, body_inertia, 3 * b + k, sign * lx[k] * ly[k]);
  PB_CROSS(g, ux, Y);
  PB_ADDCROSS(g, 1, uy, X);
  m3_tmulv(g, w->xmat + 9 * b, g);
  for (int k = 0; k < 3; k++) PB_THETA(a, body_ipos, 3 * b + k, mass * g[k]);
  for (int k = 0; k < 3; k++) c[k] = I[k] * ly[k];
  PB_CROSS(t, lx, c);
  for (int k = 0; k < 3; k++) c[k] = I[k] * lx[k];
  PB_ADDCROSS(t, 1, ly, c);
  for (int k = 0; k < 3; k++) t[k] *= -sign;
  LANE(pbSweep_Quat)(a, a->theta + (w->m->body_iquat - w->m->theta0) + 4 * b, w->p.body_iquat + 4 * b, t);
}
#endif

// W = -Vx . (I A + V x* I V) + Vm . I Vw
void LANE(pbSweep_Inertia)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  for (int b = 1; b < w->m->nbody; b++) {
    if (w->t->body_tree[b] < 0) continue;
    const double *I = w->inert + 10 * b, *V = w->V + 6 * b, *A = w->A + 6 * b;
    const lane *Vx = a->Vx + 6 * b;
    double momentum[6] = {0};
    lane turned[6] = {0}, *FV = a->FV + 6 * b;
    PB_ADDINERT(momentum, 1, I, V);
    PB_ADDINERT(a->FX + 6 * b, -1, I, A);
    PB_ADDMXF(a->FX + 6 * b, -1, V, momentum);
    PB_ADDINERT(a->FA + 6 * b, -1, I, Vx);
    PB_ADDMXF(FV, 1, Vx, momentum);
    PB_ADDMXM(turned, 1, Vx, V);
    PB_ADDINERT(FV, -1, I, turned);
    if (a->damped) {
      PB_ADDINERT(a->FM + 6 * b, 1, I, a->Vw + 6 * b);
      PB_ADDINERT(a->FW + 6 * b, 1, I, a->Vm + 6 * b);
    }
#if PB_LANES == 1
    if (a->theta) {  // Vx . (V x* I V) = (Vx x V) . I V
      inertia_parameters(a, b, Vx, A, -1);
      inertia_parameters(a, b, turned, V, -1);
      if (a->damped) inertia_parameters(a, b, a->Vm + 6 * b, a->Vw + 6 * b, 1);
    }
#endif
  }
}

// ---- points and sites -----------------------------------------------------------------------------------------------
void LANE(pbSweep_Point)(LANE(pbAdjoint) *a, int body, const double d[3], const double F[3], const lane X[6], const lane p[3],
                         double *field) {
  double wrench[6] = {0};
  PB_ADDWRENCH(wrench, 1, d, F);
  PB_AXPY6(field + 6 * body, 1, wrench);
  PB_ADDMXF(a->P + 6 * body, 1, X, wrench);
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
// What travels from a body to its parent while joints are peeled off: the incoming fields and their cotangents.
typedef struct carried {
  lane Vl[6], Vm[6];
  double V[6], A[6], Va[6], Vw[6];
  lane FV[6], FA[6], FVa[6], FW[6], P[6];
  double F[6], FM[6];  // cotangents of Vl (with Vx) and Vm
  double R[9];         // orientation of the body before the joints peeled off so far (for parameters)
} carried;

// Pose cotangent when everything above this point moves rigidly and the incoming fields stay: P - sum X x* F.
static void turn(const LANE(pbAdjoint) *a, const carried *c, lane Q[6]) {
  memcpy(Q, c->P, sizeof c->P);
  PB_ADDMXF(Q, -1, c->Vl, c->F);
  PB_ADDMXF(Q, -1, c->V, c->FV);
  PB_ADDMXF(Q, -1, c->A, c->FA);
  PB_ADDMXF(Q, -1, c->Va, c->FVa);
  if (!a->damped) return;
  PB_ADDMXF(Q, -1, c->Vm, c->FM);
  PB_ADDMXF(Q, -1, c->Vw, c->FW);
}

#if PB_LANES == 1
// Cotangent of the motion axis S of dof i (the fields in c are those after the dof).
static void axis_cotangent(const LANE(pbAdjoint) *a, const carried *c, int i, double Sb[6]) {
  const NUM(pbWork) *w = a->w;
  double vw = w->qacc[i] - w->qacc_integrated[i];
  for (int k = 0; k < 6; k++) {
    Sb[k] = c->F[k] * a->lam[i] + c->FV[k] * w->qvel[i] + c->FA[k] * w->qacc[i] + c->FVa[k] * w->qacc[i];
    if (a->damped) Sb[k] += c->FM[k] * a->mu[i] + c->FW[k] * vw;
  }
  PB_ADDMXF(Sb, -w->qvel[i], w->Vb + 6 * i, c->FA);
}

// Torque of a wrench about the point with offset d.
static void torque_about(const double Q[6], const double d[3], double t[3]) {
  PB_CROSS(t, Q + 3, d);
  for (int k = 0; k < 3; k++) t[k] += Q[k];
}

// Gradient by a joint's axis and anchor. Q: pose cotangent of what the joint carries; c->R: orientation after the joint.
static void joint_parameters(LANE(pbAdjoint) *a, carried *c, int j, const double Q[6]) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int type = m->jnt_type[j], dof = m->jnt_dofadr[j], qadr = m->jnt_qposadr[j];
  double Sb[6], arm[3], t[3], before[9], turned[9], q[4] = {1}, force[3] = {0}, axis[3] = {0};
  const double *ax = w->xaxis + 3 * j;
  body_offset(w, m->jnt_bodyid[j], w->xanchor + 3 * j, arm);
  if (type == pb_jntFree) return;
  memcpy(before, c->R, sizeof before);
  if (type == pb_jntHinge) quat_axisangle(q, w->p.jnt_axis + 3 * j, -(w->qpos[qadr] - w->p.qpos0[qadr]));
  if (type == pb_jntBall) quat_copy(q, w->qpos + qadr), quat_normalize(q), quat_conj(q, q);
  if (type != pb_jntSlide) quat_to_mat(turned, q), m3_mul(before, c->R, turned);
  for (int k = 0; k < (type == pb_jntBall ? 3 : 1); k++) {
    axis_cotangent(a, c, dof + k, Sb);
    if (type == pb_jntSlide) continue;
    PB_ADDCROSS(force, 1, w->S + 6 * (dof + k), Sb + 3);  // by the anchor: axis x Sb_lin
  }
  if (type == pb_jntSlide) {
    double x = w->qpos[qadr] - w->p.qpos0[qadr];
    for (int k = 0; k < 3; k++) axis[k] = Sb[3 + k] + x * Q[3 + k];
  }
  if (type == pb_jntHinge) {  // the carried bodies turn by sin da + (1 - cos) a x da about the anchor
    double s = sin(w->qpos[qadr] - w->p.qpos0[qadr]), cs = cos(w->qpos[qadr] - w->p.qpos0[qadr]);
    torque_about(Q, arm, t);
    for (int k = 0; k < 3; k++) axis[k] = Sb[k] + s * t[k];
    PB_ADDCROSS(axis, 1, Sb + 3, arm);
    PB_ADDCROSS(axis, 1 - cs, t, ax);
  }
  if (type != pb_jntSlide) {
    double b[3], after[3];
    for (int k = 0; k < 3; k++) b[k] = Q[3 + k] + force[k];
    m3_tmulv(b, before, b), m3_tmulv(after, c->R, Q + 3);
    for (int k = 0; k < 3; k++) PB_THETA(a, jnt_pos, 3 * j + k, b[k] - after[k]);
  }
  if (type != pb_jntBall) {
    double along, *local = axis;
    const double *unit = w->p.jnt_axis + 3 * j;
    m3_tmulv(local, before, axis);
    along = PB_DOT3(local, unit);
    for (int k = 0; k < 3; k++) PB_THETA(a, jnt_axis, 3 * j + k, local[k] - along * unit[k]);
  }
  memcpy(c->R, before, sizeof before);
}

// Gradient by the body's place in its parent.
static void body_parameters(LANE(pbAdjoint) *a, const carried *c, int b) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int parent = m->body_parentid[b];
  double Q[6], g[3], x0[3], d[3], t[3];
  turn(a, c, Q);
  m3_tmulv(g, w->xmat + 9 * parent, Q + 3);
  for (int k = 0; k < 3; k++) PB_THETA(a, body_pos, 3 * b + k, g[k]);
  m3_mulv(x0, w->xmat + 9 * parent, w->p.body_pos + 3 * b);
  v3_addto(x0, w->xpos + 3 * parent);
  body_offset(w, b, x0, d);
  torque_about(Q, d, t);
  m3_tmulv(t, c->R, t);
  LANE(pbSweep_Quat)(a, a->theta + (m->body_quat - m->theta0) + 4 * b, w->p.body_quat + 4 * b, t);
}
#endif

// Take dof i (of a joint with n dofs at once, first dof i) off: v, cotangents before it.
static void peel(LANE(pbAdjoint) *a, carried *c, int i, int n) {
  const NUM(pbWork) *w = a->w;
  lane FA[6];
  memcpy(FA, c->FA, sizeof FA);
  for (int k = i; k < i + n; k++) a->v[k] += PB_DOT6(w->S + 6 * k, c->FV) + PB_DOT6(w->Sdot + 6 * k, FA);
  for (int k = i; k < i + n; k++) {
    const double *S = w->S + 6 * k, *Sdot = w->Sdot + 6 * k;
    double Sv[6];
    for (int e = 0; e < 6; e++) Sv[e] = S[e] * w->qvel[k];
    PB_ADDMXF(c->FV, 1, Sv, FA);
    PB_AXPY6(c->Vl, -a->lam[k], S);
    PB_AXPY6(c->V, -w->qvel[k], S);
    PB_AXPY6(c->A, -w->qacc[k], S);
    PB_AXPY6(c->A, -w->qvel[k], Sdot);
    PB_AXPY6(c->Va, -w->qacc[k], S);
    if (!a->damped) continue;
    PB_AXPY6(c->Vm, -a->mu[k], S);
    PB_AXPY6(c->Vw, -(w->qacc[k] - w->qacc_integrated[k]), S);
  }
}

// One joint: gradient of its coordinates, then the fields before it.
static void pull_joint(LANE(pbAdjoint) *a, carried *c, int j) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int type = m->jnt_type[j], dof = m->jnt_dofadr[j];
  lane Q[6];
#if PB_LANES == 1
  if (a->theta) {
    turn(a, c, Q);
    joint_parameters(a, c, j, Q);
  }
#endif
  int first = type == pb_jntFree ? dof + 3 : dof, n = type == pb_jntFree || type == pb_jntBall ? 3 : 1;
  peel(a, c, first, n);
  turn(a, c, Q);
  for (int k = first; k < first + n; k++) {
    lane g = PB_DOT6(w->S + 6 * k, Q);
    a->q[k] += g;
    if (n == 1) PB_THETA(a, qpos0, m->jnt_qposadr[j], -g);
  }
  if (type != pb_jntFree) return;
  for (int k = dof; k < dof + 3; k++) {  // translations: S-dot and turning are nil
    a->v[k] += PB_DOT6(w->S + 6 * k, c->FV);
    a->q[k] += PB_DOT6(w->S + 6 * k, c->P);
    PB_AXPY6(c->A, -w->qacc[k], w->S + 6 * k);
    PB_AXPY6(c->V, -w->qvel[k], w->S + 6 * k);
    PB_AXPY6(c->Vl, -a->lam[k], w->S + 6 * k);
    PB_AXPY6(c->Va, -w->qacc[k], w->S + 6 * k);
  }
}

// r += a wrench about another reference point: shift is where its point lies from r's.
#define ADD_SHIFTED(r, F, shift)                \
  do {                                          \
    for (int e = 0; e < 6; e++) (r)[e] += (F)[e]; \
    PB_ADDCROSS(r, 1, shift, (F) + 3);          \
  } while (0)

static void load(const LANE(pbAdjoint) *a, int b, carried *c) {
  const NUM(pbWork) *w = a->w;
  memcpy(c->Vl, a->Vl + 6 * b, sizeof c->Vl);
  memcpy(c->V, w->V + 6 * b, sizeof c->V);
  memcpy(c->A, w->A + 6 * b, sizeof c->A);
  memcpy(c->Va, a->Va + 6 * b, sizeof c->Va);
  memcpy(c->FV, a->FV + 6 * b, sizeof c->FV);
  memcpy(c->FA, a->FA + 6 * b, sizeof c->FA);
  memcpy(c->FVa, a->FVa + 6 * b, sizeof c->FVa);
  memcpy(c->P, a->P + 6 * b, sizeof c->P);
  for (int k = 0; k < 6; k++) c->F[k] = a->FL[6 * b + k] + a->FX[6 * b + k];
  if (a->damped) {
    memcpy(c->Vm, a->Vm + 6 * b, sizeof c->Vm);
    memcpy(c->Vw, a->Vw + 6 * b, sizeof c->Vw);
    memcpy(c->FM, a->FM + 6 * b, sizeof c->FM);
    memcpy(c->FW, a->FW + 6 * b, sizeof c->FW);
  }
  memcpy(c->R, w->xmat + 9 * b, sizeof c->R);
}

static void to_parent(LANE(pbAdjoint) *a, int b, const carried *c) {
  const NUM(pbWork) *w = a->w;
  int parent = w->m->body_parentid[b], tree = w->t->body_tree[b];
  double shift[3] = {0};
  if (tree >= 0 && w->t->body_tree[parent] < 0) v3_copy(shift, w->ref + 3 * tree);
  ADD_SHIFTED(a->P + 6 * parent, c->P, shift);
  ADD_SHIFTED(a->FV + 6 * parent, c->FV, shift);
  ADD_SHIFTED(a->FA + 6 * parent, c->FA, shift);
  ADD_SHIFTED(a->FVa + 6 * parent, c->FVa, shift);
  ADD_SHIFTED(a->FL + 6 * parent, a->FL + 6 * b, shift);
  ADD_SHIFTED(a->FX + 6 * parent, a->FX + 6 * b, shift);
  if (!a->damped) return;
  ADD_SHIFTED(a->FM + 6 * parent, c->FM, shift);
  ADD_SHIFTED(a->FW + 6 * parent, c->FW, shift);
}

void LANE(pbSweep_Pull)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  for (int b = m->nbody - 1; b > 0; b--) {
    carried c;
    load(a, b, &c);
    if (a->has_Vs) {  // motions injected at b and above do not turn with what carries them
      PB_ADDMXF(c.P, -1, a->Vs + 6 * b, a->FX + 6 * b);
      memcpy(a->P + 6 * b, c.P, sizeof c.P);
      for (int k = 0; k < 6; k++) a->G[k] = a->Vx[6 * b + k] - a->Vl[6 * b + k] - a->Vs[6 * b + k];
      lane P[6];
      memcpy(P, c.P, sizeof P);
      PB_ADDMXF(c.P, -1, a->G, a->FX + 6 * b);
      for (int k = m->body_jntnum[b] - 1; k >= 0; k--) pull_joint(a, &c, m->body_jntadr[b] + k);
#if PB_LANES == 1
      if (a->theta && (m->body_jntnum[b] == 0 || m->jnt_type[m->body_jntadr[b]] != pb_jntFree)) body_parameters(a, &c, b);
#endif
      memcpy(c.P, P, sizeof P);
    } else {
      for (int k = m->body_jntnum[b] - 1; k >= 0; k--) pull_joint(a, &c, m->body_jntadr[b] + k);
#if PB_LANES == 1
      if (a->theta && (m->body_jntnum[b] == 0 || m->jnt_type[m->body_jntadr[b]] != pb_jntFree)) body_parameters(a, &c, b);
#endif
    }
    to_parent(a, b, &c);
  }
  if (!(m->disableflags & pb_dsblGravity)) {
    for (int k = 0; k < 3; k++) PB_THETA(a, gravity, k, -a->FA[3 + k]);
  }
}

// ---- one extra field ------------------------------------------------------------------------------------------------
// The main sweep with every other field zero: Vl plays the extra field.
void LANE(pbSweep_PullExtra)(LANE(pbAdjoint) *a, const lane *rate) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  const lane *X = a->X;
  double *sub = a->F;
  for (int b = m->nbody - 1; b > 0; b--) {
    int parent = m->body_parentid[b];
    carried c;
    memset(&c, 0, sizeof c);
    memcpy(c.Vl, X + 6 * b, sizeof c.Vl);
    memcpy(c.F, sub + 6 * b, sizeof c.F);
    memcpy(c.R, w->xmat + 9 * b, sizeof c.R);
    for (int k = m->body_jntnum[b] - 1; k >= 0; k--) {
      int j = m->body_jntadr[b] + k, type = m->jnt_type[j], dof = m->jnt_dofadr[j];
      int n = type == pb_jntFree ? 6 : type == pb_jntBall ? 3 : 1, turning = type == pb_jntFree ? dof + 3 : dof;
      lane Q[6] = {0};
#if PB_LANES == 1
      if (a->theta) {
        LANE(pbAdjoint) only = *a;  // axis_cotangent reads lam; the other cotangents in c are zero
        only.lam = (lane *)rate, only.damped = false;
        PB_ADDMXF(Q, -1, c.Vl, c.F);
        joint_parameters(&only, &c, j, Q);
        memset(Q, 0, sizeof Q);
      }
#endif
      for (int i = turning; i < dof + n; i++) PB_AXPY6(c.Vl, -rate[i], w->S + 6 * i);
      PB_ADDMXF(Q, -1, c.Vl, c.F);
      for (int i = turning; i < dof + n; i++) {
        lane g = PB_DOT6(w->S + 6 * i, Q);
        a->q[i] += g;
        if (n == 1) PB_THETA(a, qpos0, m->jnt_qposadr[j], -g);
      }
      for (int i = dof; i < turning; i++) PB_AXPY6(c.Vl, -rate[i], w->S + 6 * i);
    }
#if PB_LANES == 1
    if (a->theta && (m->body_jntnum[b] == 0 || m->jnt_type[m->body_jntadr[b]] != pb_jntFree)) body_parameters(a, &c, b);
#endif
    double shift[3] = {0};
    if (w->t->body_tree[b] >= 0 && w->t->body_tree[parent] < 0) v3_copy(shift, w->ref + 3 * w->t->body_tree[b]);
    ADD_SHIFTED(sub + 6 * parent, sub + 6 * b, shift);
  }
}
