// Sweeps of the adjoint over the tree: motions up, wrenches down. Derivation in docs/derivatives.md.
// Tests: tests/conformance/test_step.c, tests/oracle/test_stages.py, tests/oracle/test_derivatives.py.
#include "base/assert.h"
#include "eval/adjoint.h"
#include "math/vec.h"
#include "model/joint.h"
#include "multibody/damping.h"
#include "multibody/lane3.h"
#include "multibody/spatial.h"

#if PB_LANES == 1
void LANE(pbSweep_Solve)(const pbTreePattern *tree, const num *LD, const num *diag_inv, lane *x) {
  NUM(pbTree_Solve)(tree, LD, diag_inv, x);
}

void LANE(pbSweep_Mul)(const pbTreePattern *tree, const num *A, const lane *x, lane *y) { NUM(pbTree_Mul)(tree, A, x, y); }
#else
// The same for lanes: L' D L x = b, from the leaves, then from the root (linalg/tree_ldl.h).
void LANE(pbSweep_Solve)(const pbTreePattern *tree, const num *LD, const num *diag_inv, lane *x) {
  for (int k = tree->n - 1; k >= 0; k--) {
    const int *chain = tree->chain + tree->adr[k];
    const num *row = LD + tree->adr[k];

    lane xk = x[k];
    for (int a = 0; a < tree->depth[k]; a++) x[chain[a]] -= row[a] * xk;
  }
  for (int k = 0; k < tree->n; k++) {
    const int *chain = tree->chain + tree->adr[k];
    const num *row = LD + tree->adr[k];

    lane s = x[k] * diag_inv[k];
    for (int a = 0; a < tree->depth[k]; a++) s -= row[a] * x[chain[a]];
    x[k] = s;
  }
}

void LANE(pbSweep_Mul)(const pbTreePattern *tree, const num *A, const lane *x, lane *y) {
  for (int k = 0; k < tree->n; k++) {
    const int *chain = tree->chain + tree->adr[k];
    const num *row = A + tree->adr[k];
    lane s = row[tree->depth[k]] * x[k];
    for (int a = 0; a < tree->depth[k]; a++) {
      s += row[a] * x[chain[a]];
      y[chain[a]] += row[a] * x[k];
    }
    y[k] = s;
  }
}
#endif

static void push_body(const NUM(pbMechanism) *w, int b, const lane *rate, lane *X) {
  const pbModel *m = w->m;
  l6 move = l6_load(X + 6 * m->body_parentid[b]);

  for (int i = m->body_dofadr[b], e = i + m->body_dofnum[b]; i < e; i++) {
    move = l6_add(move, l6_times(p6_load(w->S + 6 * i), rate[i]));
  }

  l6_store(X + 6 * b, move);
}

void LANE(pbSweep_Push)(const NUM(pbMechanism) *w, const lane *rate, lane *X) {
  memset(X, 0, 6 * sizeof(lane));
  for (int b = 1; b < w->m->nbody; b++) push_body(w, b, rate, X);
}

void LANE(pbSweep_PushTendon)(const NUM(pbMechanism) *w, int tendon, const lane *rate, lane *X) {
  const int *bodies = w->t->ten_body[tendon];
  PB_ASSERT(tendon >= 0 && tendon < w->m->ntendon);
  memset(X + 6 * w->t->ten_carrier[tendon], 0, 6 * sizeof(lane));
  for (int i = 0; i < w->t->ten_bodies[tendon]; i++) push_body(w, bodies[i], rate, X);
}

void LANE(pbSweep_PushPlain)(const NUM(pbMechanism) *w, const num *rate, num *X) {
  const pbModel *m = w->m;
  memset(X, 0, 6 * sizeof(num));

  for (int b = 1; b < m->nbody; b++) {
    p6 move = p6_load(X + 6 * m->body_parentid[b]);
    for (int i = m->body_dofadr[b], e = i + m->body_dofnum[b]; i < e; i++) {
      move = p6_add(move, p6_scale(p6_load(w->S + 6 * i), rate[i]));
    }

    p6_store(X + 6 * b, move);
  }
}

void LANE(pbSweep_Acceleration)(LANE(pbAdjoint) *a) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  memcpy(a->G, a->FA, 6 * (size_t)m->nbody * sizeof(lane));

  for (int b = m->nbody - 1; b > 0; b--) {
    if (w->t->body_tree[b] < 0) continue;
    for (int i = m->body_dofadr[b], e = i + m->body_dofnum[b]; i < e; i++) a->qacc[i] += PB_DOT6(w->S + 6 * i, a->G + 6 * b);
    if (w->t->body_tree[m->body_parentid[b]] >= 0) PB_AXPY6(a->G + 6 * m->body_parentid[b], 1, a->G + 6 * b);
  }
}

// ---- inertia --------------------------------------------------------------------------------------------------------
#if PB_LANES == 1
// Gradient of X . I Y by I: mass, m d, diagonal, and the entries xy, yz, zx.
typedef struct inertia_bar {
  num m;
  p3 h, diag, off;
} inertia_bar;

PB_INLINE void inertia_gradient(inertia_bar *g, p6 X, p6 Y, num sign) {
  g->m += sign * l3_dot(X.l, Y.l);
  g->h += sign * l3_cross2(Y.l, X.a, X.l, Y.a);  // X . (I Y) has m d . (v_Y x w_X + v_X x w_Y)
  g->diag += sign * (X.a * Y.a);
  g->off += sign * (X.a * PB_TURN3(Y.a) + PB_TURN3(X.a) * Y.a);
}

PB_INLINE void add3(num *to, p3 x) {
  for (int k = 0; k < 3; k++) to[k] += x[k];
}

// From the ten numbers to mass, inertial frame and principal inertia; see body_inertia in kinematics.c.
static void inertia_parameters(LANE(pbAdjoint) *a, int b, const inertia_bar *g) {
  const NUM(pbMechanism) *w = a->w;
  const p3 off = 0.5 * g->off, I = p3_load(w->p.body_inertia + 3 * b);
  const p3 G[3] = {p3_make(g->diag[0], off[0], off[2]), p3_make(off[0], g->diag[1], off[1]), p3_make(off[2], off[1], g->diag[2])};
  num mass = w->p.body_mass[b], trace = (g->diag[0] + g->diag[1]) + g->diag[2];
  p3 R[3], body[3], GR[3];

  const p3 d = offset_of(w, b, w->xipos + 3 * b), Gd = l3_columns(G, d);

  // I(d) = R diag R' + m (|d|^2 1 - d d'); its position in the body's axes.
  a->bar.body_mass[b] += g->m + p3_dot(g->h, d) + p3_dot(d, d) * trace - p3_dot(d, Gd);
  rows_load(body, w->xmat + 9 * b);
  add3(a->bar.body_ipos + 3 * b, l3_columns(body, mass * (g->h + 2 * (trace * d - Gd))));

  // R' G R in the inertial frame: a rotation t changes diag(I) by [t]x diag(I) - diag(I) [t]x.
  rows_load(R, w->ximat + 9 * b);
  for (int k = 0; k < 3; k++) GR[k] = l3_columns(R, G[k]);
  add3(a->bar.body_inertia + 3 * b, R[0] * GR[0] + R[1] * GR[1] + R[2] * GR[2]);

  // Beside the diagonal, where a design has them; turns of the axes.
  p3 entry = {0};
  for (int k = 0; k < 3; k++) entry += PB_TURN3(R[k]) * PB_TURN3(PB_TURN3(GR[k]));
  if (w->m->ndesignbody > 0) add3(a->bar.body_products + 3 * b, 2 * entry);
  if (!PB_WANTS(a, pb_wantInertiaAxes)) return;

  num rotation[3];
  l3_store(rotation, 2 * entry * (PB_TURN3(I) - PB_TURN3(PB_TURN3(I))));
  pb_quat_pull(a->bar.body_iquat + 4 * b, w->p.body_iquat + 4 * b, rotation);
}
#endif

void LANE(pbSweep_Evaluation)(LANE(pbAdjoint) *a, const NUM(pbMechanism) *w, LANE(pbSolution) at) {
  const pbModel *m = w->m;
  a->at = at;

  // Motions of bodies by the accelerations, and by what implicit damping took of them.
  LANE(pbSweep_PushPlain)(w, at.qacc, a->Va);
  if (w->damped) {
    for (int i = 0; i < m->nv; i++) w->tmp[i] = at.qacc[i] - w->qacc_integrated[i];
    LANE(pbSweep_PushPlain)(w, w->tmp, a->Vw);
  }
  for (int b = 1; b < m->nbody; b++) {
    if (w->t->body_tree[b] < 0) continue;
    const p3inertia I = inertia_load(w->inert + 10 * b);
    const p6 V = p6_load(w->V + 6 * b), momentum = p6_momentum(&I, V);

    // I V, and what the body's motion takes: I A + V x* I V.
    p6_store(a->IV + 6 * b, momentum);
    p6_store(a->rate_IV + 6 * b, p6_add(p6_momentum(&I, p6_load(at.A + 6 * b)), p6_wrench(V, momentum)));
    if (w->damped) p6_store(a->IW + 6 * b, p6_momentum(&I, p6_load(a->Vw + 6 * b)));
  }

  for (int i = 0; i < m->nv; i++) NUM(pbDof_Damping)(w, i, a->damping + 3 * i);
}

// to += F, or where nothing was added to it yet F
PB_INLINE void add_field(lane *to, l6 F, bool fresh) { l6_store(to, fresh ? F : l6_add(l6_load(to), F)); }
PB_INLINE void add_plain(num *to, p6 F, bool fresh) { p6_store(to, fresh ? F : p6_add(p6_load(to), F)); }

// Cotangents of the fields of a body that no inertia adds to, each for the first time.
static void clear_body(LANE(pbAdjoint) *a, int b, bool moves) {
  LANE(pbLane_Zero6)(a->FVa + 6 * b);
  for (int k = 6 * b; k < 6 * b + 6; k++) a->FL[k] = 0;
  if (moves && a->damped) return;
  LANE(pbLane_Zero6)(a->FW + 6 * b);
  for (int k = 6 * b; k < 6 * b + 6; k++) a->FM[k] = 0;
  if (moves) return;

  LANE(pbLane_Zero6)(a->FV + 6 * b);
  LANE(pbLane_Zero6)(a->FA + 6 * b);
  LANE(pbLane_Zero6)(a->P + 6 * b);
  for (int k = 6 * b; k < 6 * b + 6; k++) a->FX[k] = 0;
}

// W = -Vx . (I A + V x* I V) + Vm . I Vw. The pose of the inertia at held fields: minus the sum of X x* (cotangent of X).
void LANE(pbSweep_Inertia)(LANE(pbAdjoint) *a) {
  const NUM(pbMechanism) *w = a->w;
  const l6 zero = {0};
  const p6 plain_zero = {0};

  for (int b = 0; b < w->m->nbody; b++) {
    bool moves = w->t->body_tree[b] >= 0;
    if (a->fresh) clear_body(a, b, moves);
    if (!moves) continue;

    const p3inertia I = inertia_load(w->inert + 10 * b);
    const p6 V = p6_load(w->V + 6 * b), A = p6_load(a->at.A + 6 * b), rate = p6_load(a->rate_IV + 6 * b);
    const l6 Vx = l6_load(a->Vx + 6 * b), moved = inertia_times(&I, Vx), across = l6_motion(V, Vx);  // V x Vx
    const l6 fv = l6_sub(inertia_times(&I, across), l6_onto(p6_load(a->IV + 6 * b), Vx));

    // By A: -I Vx; by V: I (V x Vx) - (Vx x* I V) with its sign; by Vx: what the motion takes.
    l6 P = l6_sub(l6_wrench(A, moved), l6_wrench(V, fv));
    P = l6_sub(P, l6_onto(rate, Vx));

    add_field(a->FA + 6 * b, l6_sub(zero, moved), a->fresh);
    add_field(a->FV + 6 * b, fv, a->fresh);
    add_plain(a->FX + 6 * b, p6_sub(plain_zero, rate), a->fresh);
    if (a->damped) {
      const p6 Vw = p6_load(a->Vw + 6 * b), moved_w = p6_load(a->IW + 6 * b);
      const l6 Vm = l6_load(a->Vm + 6 * b), fw = inertia_times(&I, Vm);
      P = l6_add(P, l6_sub(l6_onto(moved_w, Vm), l6_wrench(Vw, fw)));
      add_field(a->FW + 6 * b, fw, a->fresh);
      add_plain(a->FM + 6 * b, moved_w, a->fresh);
    }
    add_field(a->P + 6 * b, P, a->fresh);
#if PB_LANES == 1
    if (PB_WANTS(a, pb_wantInertia)) {  // Vx . (V x* I V) = (Vx x V) . I V
      inertia_bar g = {0};
      inertia_gradient(&g, Vx, A, -1);
      inertia_gradient(&g, across, V, 1);
      if (a->damped) inertia_gradient(&g, p6_load(a->Vm + 6 * b), p6_load(a->Vw + 6 * b), 1);
      inertia_parameters(a, b, &g);
    }
#endif
  }
}

void LANE(pbSweep_InertiaPair)(LANE(pbAdjoint) *a, num s, const lane *U, const num *Y, lane *Fz) {
  const NUM(pbMechanism) *w = a->w;
  for (int b = 1; b < w->m->nbody; b++) {
    if (w->t->body_tree[b] < 0) continue;
    const p3inertia I = inertia_load(w->inert + 10 * b);
    const p6 y = p6_load(Y + 6 * b);
    const l6 u = l6_load(U + 6 * b), by_y = l6_scale(inertia_times(&I, u), s);
    num by_u[6] = {0};
    PB_ADDINERT(by_u, s, w->inert + 10 * b, Y + 6 * b);

    l6_store(Fz + 6 * b, l6_add(l6_load(Fz + 6 * b), by_y));
    for (int k = 0; k < 6; k++) a->F[6 * b + k] += by_u[k];
    const l6 P = l6_sub(l6_onto(p6_load(by_u), u), l6_wrench(y, by_y));
    l6_store(a->P + 6 * b, l6_add(l6_load(a->P + 6 * b), P));
#if PB_LANES == 1
    if (PB_WANTS(a, pb_wantInertia)) {
      inertia_bar g = {0};
      inertia_gradient(&g, u, y, s);
      inertia_parameters(a, b, &g);
    }
#endif
  }
}

// Gradient of X . I Y by I, added: as inertia_gradient, in the order of the ten numbers.
static void add_inertia_bar(lane g[10], const lane X[6], const num Y[6]) {
  g[0] += PB_DOT3(Y + 3, X + 3);
  PB_ADDCROSS(g + 1, 1, Y + 3, X);
  PB_ADDCROSS(g + 1, 1, X + 3, Y);

  // diagonal; xy, xz, yz
  for (int k = 0; k < 3; k++) g[4 + k] += X[k] * Y[k];
  g[7] += X[0] * Y[1] + X[1] * Y[0];
  g[8] += X[0] * Y[2] + X[2] * Y[0];
  g[9] += X[1] * Y[2] + X[2] * Y[1];
}

// From the gradient g by the inertia I to the body's pose: with G the symmetric matrix of g and I that about the reference point,
// a rotation t changes I by [t]x I - I [t]x, a translation v by 2 (h . v) - v h' - h v', h = m d by m v.
static void inertia_pose(const num I[10], const lane g[10], lane P[6]) {
  const num M[9] = {I[4], I[7], I[8], I[7], I[5], I[9], I[8], I[9], I[6]}, *h = I + 1;
  const lane G[9] = {g[4], 0.5 * g[7], 0.5 * g[8], 0.5 * g[7], g[5], 0.5 * g[9], 0.5 * g[8], 0.5 * g[9], g[6]};
  lane trace = (G[0] + G[4]) + G[8];

  PB_ADDCROSS(P, 1, h, g + 1);

  // I G - G I is skew.
  for (int k = 0; k < 3; k++) {
    int i = (k + 1) % 3, j = (k + 2) % 3;
    for (int r = 0; r < 3; r++) P[k] += 2 * (M[3 * i + r] * G[3 * r + j] - G[3 * i + r] * M[3 * r + j]);
    P[3 + k] += I[0] * g[1 + k] + 2 * (trace * h[k] - (G[3 * k] * h[0] + G[3 * k + 1] * h[1] + G[3 * k + 2] * h[2]));
  }
}

// Row i of M, M_ia = S_a . I_composite S_i: to the axes, and to the inertias of all that the dof carries.
static void pull_mass_row(const LANE(pbAdjoint) *a, int i, const lane *M_bar, lane *axes, lane *inertia) {
  const NUM(pbMechanism) *w = a->w;
  const pbTreePattern *tree = &w->t->M;
  const int *chain = tree->chain + tree->adr[i];
  const num *I = w->crb + 10 * w->m->dof_bodyid[i], *S = w->S + 6 * i;
  num F[6] = {0};
  lane y[6];

  memset(y, 0, sizeof y);
  PB_ADDINERT(F, 1, I, S);
  for (int d = 0; d <= tree->depth[i]; d++) {
    lane c = M_bar[tree->adr[i] + d];
    PB_AXPY6(y, c, w->S + 6 * chain[d]);
    PB_AXPY6(axes + 6 * chain[d], c, F);
  }
  PB_ADDINERT(axes + 6 * i, 1, I, y);
  add_inertia_bar(inertia, y, S);
}

// ---- points and sites -----------------------------------------------------------------------------------------------
void LANE(pbSweep_Point)(LANE(pbAdjoint) *a, int body, const num d[3], const num F[3], const lane p[3], num *field) {
  PB_ADDWRENCH(field + 6 * body, 1, d, F);
  PB_ADDWRENCH(a->P + 6 * body, 1, d, p);
}

void LANE(pbSweep_Site)(LANE(pbAdjoint) *a, int site, const lane p[3], const lane torque[3]) {
#if PB_LANES == 1
  const NUM(pbMechanism) *w = a->w;
  num local[3];
  if (!PB_WANTS(a, pb_wantSites)) return;

  // Position in the body's axes, orientation in the site's own.
  m3_tmulv(local, w->xmat + 9 * w->m->site_bodyid[site], p);
  for (int k = 0; k < 3; k++) PB_THETA(a, site_pos, 3 * site + k, local[k]);
  if (!torque) return;
  m3_tmulv(local, w->site_xmat + 9 * site, torque);
  pb_quat_pull(a->bar.site_quat + 4 * site, w->p.site_quat + 4 * site, local);
#else
  (void)a;
  (void)site;
  (void)p;
  (void)torque;
#endif
}

// ---- pulling down ---------------------------------------------------------------------------------------------------
// P[b] is the gradient by the pose of body b with all its fields held. Going down through a dof with axis S, the gradient
// by a rigid motion of everything it carries, with the fields before it held, is
//   Q_before = Q_after + S x* Sb,   Sb = gradient by S itself = sum over fields of (cotangent) (rate) - rate_v Vb x* FA
// because what is carried, and S, rotate together. Every kinematic gradient is a projection of these two.
#if PB_LANES == 1
// The vector y rotated by a unit quaternion.
PB_INLINE p3 rotated(const num q[4], p3 y) {
  const p3 axis = p3_load(q + 1), t = l3_cross(axis, y);
  return y + 2 * (t * q[0] + l3_cross(axis, t));
}
// Gradient by a joint's axis and anchor. Sb: of its axes; Q: of what it carries. R: rows of the orientation of the body after
// the joint, before it on return.
static void joint_parameters(LANE(pbAdjoint) *a, int j, const l6 *Sb, const l6 *Q, p3 R[3]) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  int type = m->jnt_type[j], dof = m->jnt_dofadr[j], qadr = m->jnt_qposadr[j];
  const num *rotation = w->jnt_rotation + 4 * j, *unit = w->p.jnt_axis + 3 * j;

  p3 axis = {0};
  if (type == pb_jntSlide) {
    axis = Sb[0].l + (w->qpos[qadr] - w->p.qpos0[qadr]) * Q->l;
  } else {
    p3 after = l3_columns(R, Q->l), drawn = Q->l;
    for (int k = 0; k < (type == pb_jntBall ? 3 : 1); k++) drawn += l3_cross(p3_load(w->S + 6 * (dof + k)), Sb[k].l);
    if (type == pb_jntHinge) {  // what is carried rotates by sin x da + (1 - cos x) a x da about the anchor
      num half = v3_dot(rotation + 1, unit), whole = rotation[0];  // sin, cos of x / 2
      num s = 2 * half * whole, c = whole * whole - half * half;
      p3 arm = offset_of(w, m->jnt_bodyid[j], w->xanchor + 3 * j), t = Q->a + l3_cross(Q->l, arm);
      axis = Sb[0].a + s * t + l3_cross2(Sb[0].l, arm, (1 - c) * t, p3_load(w->xaxis + 3 * j));
    }
    for (int k = 0; k < 3; k++) R[k] = rotated(rotation, R[k]);
    add3(a->bar.jnt_pos + 3 * j, l3_columns(R, drawn) - after);
  }
  if (type == pb_jntBall) return;

  // An axis moves on the unit sphere.
  axis = l3_columns(R, axis);
  add3(a->bar.jnt_axis + 3 * j, axis - l3_dot(axis, p3_load(unit)) * p3_load(unit));
}

#endif

// Gradient by the pose of a mocap body. Q: of a rigid motion of its frame and all it carries, about the world's origin.
static void mocap_pose(LANE(pbAdjoint) *a, int b, const l6 *Q) {
  const NUM(pbMechanism) *w = a->w;
  int k = 3 * w->m->body_mocapid[b];
  const num *x = w->xpos + 3 * b, *R = w->xmat + 9 * b;
  lane F[6], torque[3];

  // The position moves the frame; a rotation goes about its origin, in its own axes.
  l6_store(F, *Q);
  if (a->mocap_pos) {
    for (int i = 0; i < 3; i++) a->mocap_pos[k + i] += F[3 + i];
  }
  if (!a->mocap_rot) return;

  PB_CROSS(torque, x, F + 3);
  for (int i = 0; i < 3; i++) torque[i] = F[i] - torque[i];
  for (int i = 0; i < 3; i++) a->mocap_rot[k + i] += R[i] * torque[0] + R[3 + i] * torque[1] + R[6 + i] * torque[2];
}

#if PB_LANES == 1
// Gradient by the body's pose in its parent. Q: of a rigid motion of the body's frame and all it carries; R: rows of its
// orientation before its joints.
static void body_parameters(LANE(pbAdjoint) *a, int b, const l6 *Q, const p3 R[3]) {
  const NUM(pbMechanism) *w = a->w;
  int parent = w->m->body_parentid[b];
  bool mocap = w->m->body_mocapid[b] >= 0;
  num t[3];
  p3 Rp[3];

  rows_load(Rp, w->xmat + 9 * parent);

  if (!mocap || w->mocap_own_pos) add3(a->bar.body_pos + 3 * b, l3_columns(Rp, Q->l));
  if (mocap && !w->mocap_own_quat) return;

  // Its orientation: a rotation about the frame's origin before the joints.
  const p3 pos = p3_load(w->p.body_pos + 3 * b);
  p3 arm = offset_of(w, b, (mocap ? w->xpos + 3 * b : w->xpos + 3 * parent));
  if (!mocap) arm += p3_make(p3_dot(Rp[0], pos), p3_dot(Rp[1], pos), p3_dot(Rp[2], pos));
  l3_store(t, l3_columns(R, Q->a + l3_cross(Q->l, arm)));
  pb_quat_pull(a->bar.body_quat + 4 * b, w->p.body_quat + 4 * b, t);
}
#endif

// One joint with the gradients Sb of its axes: coordinates, parameters; Q becomes that before the joint.
static void through_joint(LANE(pbAdjoint) *a, int j, int first, int n, const l6 *Sb, l6 *Q, p3 R[3]) {
  const NUM(pbMechanism) *w = a->w;
#if PB_LANES == 1
  if (PB_WANTS(a, pb_wantPoses) && w->m->jnt_type[j] != pb_jntFree) joint_parameters(a, j, Sb, Q, R);
#else
  (void)R;
#endif
  for (int k = 0; k < n; k++) *Q = l6_add(*Q, l6_wrench(p6_load(w->S + 6 * (first + k)), Sb[k]));
  for (int k = 0; k < n; k++) {
    lane g = l6_dot(p6_load(w->S + 6 * (first + k)), *Q);
    a->q[first + k] += g;
    if (n == 1) PB_THETA(a, qpos0, w->m->jnt_qposadr[j], -g);
  }
}

#if PB_LANES == 1
static bool is_free(const pbModel *m, int b) { return m->body_jntnum[b] && m->jnt_type[m->body_jntadr[b]] == pb_jntFree; }
#endif

// Where the reference point of a body's tree lies from that of its parent: only a root has another.
static bool other_point(const NUM(pbMechanism) *w, int b, p3 *shift) {
  int tree = w->t->body_tree[b];
  if (tree < 0 || w->t->body_tree[w->m->body_parentid[b]] >= 0) return false;
  *shift = p3_plain(w->ref + 3 * tree);
  return true;
}

// Sums over subtrees at a body, on the way from what its joints carry to its parent.
typedef struct load {
  l6 Q, V, A, a;  // of the pose, V, A; of A and Va together
  l6 W;           // of Vw
  p6 L, M;        // of Vl and Vx together, Vm
} load;

// Gradients by n axes from dof `first` on, and by their rates; f->V becomes that before them.
PB_INLINE void pull_axes(LANE(pbAdjoint) *a, int first, int n, load *f, l6 *Sb) {
  const NUM(pbMechanism) *w = a->w;
  for (int k = 0; k < n; k++) {
    int i = first + k;
    num v = w->qvel[i], acc = a->at.qacc[i];

    // By the axis itself: every field that it moves, times its rate there.
    l6 g = l6_add(l6_times(f->L, a->lam[i]), l6_scale(f->a, acc));
    g = l6_add(g, l6_scale(l6_sub(f->V, l6_wrench(p6_load(w->Vb + 6 * i), f->A)), v));
    if (a->damped) g = l6_add(g, l6_add(l6_times(f->M, a->mu[i]), l6_scale(f->W, acc - w->qacc_integrated[i])));

    // By its rate: V by S, A by S-dot.
    a->v[i] += l6_dot(p6_load(w->S + 6 * i), f->V) + l6_dot(p6_load(w->Sdot + 6 * i), f->A);
    Sb[k] = g;
  }
  for (int i = first; i < first + n; i++) f->V = l6_add(f->V, l6_scale(l6_wrench(p6_load(w->S + 6 * i), f->A), w->qvel[i]));
}

// to += F, about another point where shift is given
PB_INLINE void add_load(lane *to, l6 F, const p3 *shift) {
  if (shift) F.a = l3_add(F.a, l3_cross(*shift, F.l));
  l6_store(to, l6_add(l6_load(to), F));
}
PB_INLINE void add_shifted(num *to, p6 F, const p3 *shift) {
  if (shift) F.a = p3_add(F.a, p3_cross(*shift, F.l));
  add_plain(to, F, false);
}

void LANE(pbSweep_Pull)(LANE(pbAdjoint) *a) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  for (int b = m->nbody - 1; b > 0; b--) {
    int parent = 6 * m->body_parentid[b], at = 6 * b;
    PB_ASSERT(parent < at);

    l6 Sb[3], acc = l6_load(a->FVa + at);
    p3 R[3], shift;
    load f = {.Q = l6_load(a->P + at), .V = l6_load(a->FV + at), .A = l6_load(a->FA + at)};
    f.L = p6_add(p6_load(a->FX + at), p6_load(a->FL + at));
    f.a = l6_add(f.A, acc);
    if (a->damped) {
      f.W = l6_load(a->FW + at);
      f.M = p6_load(a->FM + at);
    }

    // Through the joints, from the last to the first.
    if (PB_WANTS(a, pb_wantPoses)) rows_load(R, w->xmat + 9 * b);
    for (int k = m->body_jntnum[b] - 1; k >= 0; k--) {
      int j = m->body_jntadr[b] + k, type = m->jnt_type[j], dof = m->jnt_dofadr[j];
      if (pbJoint_IsScalar(type)) {
        pull_axes(a, dof, 1, &f, Sb);
        through_joint(a, j, dof, 1, Sb, &f.Q, R);
        continue;
      }
      for (int first = type == pb_jntFree ? dof + 3 : dof; first >= dof; first -= 3) {
        pull_axes(a, first, 3, &f, Sb);
        through_joint(a, j, first, 3, Sb, &f.Q, R);
      }
    }
#if PB_LANES == 1
    if (PB_WANTS(a, pb_wantPoses) && !is_free(m, b)) body_parameters(a, b, &f.Q, R);
#endif
    if (m->body_mocapid[b] >= 0) mocap_pose(a, b, &f.Q);

    // To the parent; a root's wrenches about the world's origin.
    const p3 *moved = other_point(w, b, &shift) ? &shift : NULL;
    add_load(a->P + parent, f.Q, moved);
    add_load(a->FV + parent, f.V, moved);
    add_load(a->FA + parent, f.A, moved);
    add_load(a->FVa + parent, acc, moved);
    add_shifted(a->FX + parent, f.L, moved);
    if (a->damped) {
      add_load(a->FW + parent, f.W, moved);
      add_shifted(a->FM + parent, f.M, moved);
    }
  }

  // Gravity is the world's upward acceleration.
  if (!(m->disableflags & pb_disGravity)) {
    for (int k = 0; k < 3; k++) PB_THETA(a, gravity, k, -a->FA[3 + k]);
  }
}

// ---- extra fields ---------------------------------------------------------------------------------------------------
// A body in the main sweep for fields that only this power has, with every other field zero: one from lane rates with plain
// cotangents a->F, and (z not NULL) one from plain rates z with lane cotangents Fz; or (axes not NULL) for gradients by the axes.
static void pull_extra(LANE(pbAdjoint) *a, int b, const lane *rate, const num *z, lane *Fz, const lane *axes) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  int parent = m->body_parentid[b];
  PB_ASSERT(parent < b);
  l6 Q = l6_load(a->G + 6 * b), Sb[3];
  num *F = a->F + 6 * b;
  p3 R[3], shift;
  rows_load(R, w->xmat + 9 * b);
  for (int k = m->body_jntnum[b] - 1; k >= 0; k--) {
    int j = m->body_jntadr[b] + k, dof = m->jnt_dofadr[j], type = m->jnt_type[j];
    for (int first = type == pb_jntFree ? dof + 3 : dof; first >= dof; first -= 3) {
      int n = pbJoint_GroupSize(type);
      // X = sum of S rate, so the gradient by an axis S is the field's cotangent times the rate
      for (int i = 0; i < n; i++) {
        Sb[i] = axes ? l6_load(axes + 6 * (first + i)) : l6_times(p6_load(F), rate[first + i]);
        if (z) Sb[i] = l6_add(Sb[i], l6_scale(l6_load(Fz + 6 * b), z[first + i]));
      }
      through_joint(a, j, first, n, Sb, &Q, R);
    }
  }
#if PB_LANES == 1
  if (PB_WANTS(a, pb_wantPoses) && !is_free(m, b)) body_parameters(a, b, &Q, R);
#endif
  if (m->body_mocapid[b] >= 0) mocap_pose(a, b, &Q);

  bool root = other_point(w, b, &shift);
  add_load(a->G + 6 * parent, Q, root ? &shift : NULL);
  if (axes) return;
  add_shifted(a->F + 6 * parent, p6_load(F), root ? &shift : NULL);
  if (z) add_load(Fz + 6 * parent, l6_load(Fz + 6 * b), root ? &shift : NULL);
}

void LANE(pbSweep_PullPair)(LANE(pbAdjoint) *a, const lane *u, const num *z, lane *Fz) {
  const pbModel *m = a->w->m;
  memset(a->G, 0, 6 * (size_t)m->nbody * sizeof(lane));
  for (int b = m->nbody - 1; b > 0; b--) pull_extra(a, b, u, z, Fz, NULL);
}

void LANE(pbSweep_PullExtra)(LANE(pbAdjoint) *a, const lane *rate) { LANE(pbSweep_PullPair)(a, rate, NULL, NULL); }

void LANE(pbSweep_PullMass)(LANE(pbAdjoint) *a, const lane *M_bar, lane *axes, lane *inertias) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  memset(inertias, 0, 10 * (size_t)m->nbody * sizeof(lane));
  for (int b = 1; b < m->nbody; b++) {
    lane *g = inertias + 10 * b;
    if (w->t->body_tree[b] < 0) continue;

    // What carries the parent carries the body.
    if (w->t->body_tree[m->body_parentid[b]] >= 0) memcpy(g, inertias + 10 * m->body_parentid[b], 10 * sizeof(lane));
    for (int i = m->body_dofadr[b], e = i + m->body_dofnum[b]; i < e; i++) pull_mass_row(a, i, M_bar, axes, g);
    inertia_pose(w->inert + 10 * b, g, a->P + 6 * b);
#if PB_LANES == 1
    if (!PB_WANTS(a, pb_wantInertia)) continue;
    const inertia_bar bar = {g[0], p3_load(g + 1), p3_load(g + 4), p3_load((const num[]){g[7], g[9], g[8]})};
    inertia_parameters(a, b, &bar);
#endif
  }

  memset(a->G, 0, 6 * (size_t)m->nbody * sizeof(lane));
  for (int b = m->nbody - 1; b > 0; b--) pull_extra(a, b, NULL, NULL, NULL, axes);
}

void LANE(pbSweep_ClearTendon)(LANE(pbAdjoint) *a, int tendon) {
  const pbTopology *t = a->w->t;
  memset(a->F + 6 * t->ten_carrier[tendon], 0, 6 * sizeof(num));
  LANE(pbLane_Zero6)(a->G + 6 * t->ten_carrier[tendon]);
  for (int i = 0; i < t->ten_bodies[tendon]; i++) {
    memset(a->F + 6 * t->ten_body[tendon][i], 0, 6 * sizeof(num));
    LANE(pbLane_Zero6)(a->G + 6 * t->ten_body[tendon][i]);
  }
}

void LANE(pbSweep_PullTendon)(LANE(pbAdjoint) *a, int tendon, const lane *rate) {
  const pbTopology *t = a->w->t;
  int carrier = t->ten_carrier[tendon];
  PB_VALIDATE(pb_ascending(t->ten_body[tendon], t->ten_bodies[tendon]));
  for (int i = t->ten_bodies[tendon] - 1; i >= 0; i--) pull_extra(a, t->ten_body[tendon][i], rate, NULL, NULL, NULL);

  // A rigid motion of all goes on in the main sweep.
  PB_AXPY6(a->P + 6 * carrier, 1, a->G + 6 * carrier);
}
