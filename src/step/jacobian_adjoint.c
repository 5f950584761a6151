// Rows of the Jacobian of the new velocities: lam and mu of every seed by solves with many right-hand sides at once, then a
// traversal of the tree for every PB_LANES of them. Tests: tests/conformance/test_step.c.
#include "step/step_adjoint.h"

#if PB_LANES > 1

#include "base/assert.h"
#include "eval/work.h"
#include "step/integrate.h"
#include "step/kernels.h"

typedef LANE(pbVjpBlock) block;
enum { strips = pb_jacobianStrips };

static bool all_zero(const lane *x, int n) {
  long long bits = 0, e[PB_LANES];
  for (int i = 0; i < n; i++) {
    memcpy(e, x + i, sizeof e);
    for (int l = 0; l < PB_LANES; l++) bits |= e[l];
  }

  return !bits;
}

// ---- several right-hand sides ---------------------------------------------------------------------------------------
// x := L^-T x (a row of strips for each dof): from the leaves, each dof is taken off its ancestors. Rows of zeros, as
// unit vectors have them, cost nothing.
static void solve_from_leaves(const pbTreePattern *tree, const double *LD, int from, int to, lane *x) {
  for (int k = to - 1; k >= from; k--) {
    const int *chain = tree->chain + tree->adr[k];
    const double *row = LD + tree->adr[k];
    const lane *xk = x + strips * k, x0 = xk[0], x1 = xk[1], x2 = xk[2], x3 = xk[3];
    if (all_zero(xk, strips)) continue;

    for (int a = 0; a < tree->depth[k]; a++) {
      lane *y = x + strips * chain[a];
      y[0] -= row[a] * x0;
      y[1] -= row[a] * x1;
      y[2] -= row[a] * x2;
      y[3] -= row[a] * x3;
    }
  }
}

// x := L^-1 D^-1 x, from the root.
static void solve_from_root(const pbTreePattern *tree, const double *LD, const double *diag_inv, int from, int to, lane *x) {
  for (int k = from; k < to; k++) {
    const int *chain = tree->chain + tree->adr[k];
    const double *row = LD + tree->adr[k];
    lane *xk = x + strips * k;
    lane x0 = xk[0] * diag_inv[k], x1 = xk[1] * diag_inv[k], x2 = xk[2] * diag_inv[k], x3 = xk[3] * diag_inv[k];

    for (int a = 0; a < tree->depth[k]; a++) {
      const lane *y = x + strips * chain[a];
      x0 -= row[a] * y[0];
      x1 -= row[a] * y[1];
      x2 -= row[a] * y[2];
      x3 -= row[a] * y[3];
    }
    xk[0] = x0;
    xk[1] = x1;
    xk[2] = x2;
    xk[3] = x3;
  }
}

// x := A^-1 x, for a range [from, to) of whole trees of dofs: A = L' D L as linalg/tree_ldl.h factors it.
static void solve_columns(const pbTreePattern *tree, const double *LD, const double *diag_inv, int from, int to, lane *x) {
  PB_ASSERT(0 <= from && from <= to && to <= tree->n);
  solve_from_leaves(tree, LD, from, to, x);
  solve_from_root(tree, LD, diag_inv, from, to, x);
}

// y += A x by columns
static void add_product(const pbTreePattern *tree, const double *A, const lane *x, lane *y) {
  for (int k = 0; k < tree->n; k++) {
    const int *chain = tree->chain + tree->adr[k];
    const double *row = A + tree->adr[k], diag = row[tree->depth[k]];
    const lane *xk = x + strips * k, x0 = xk[0], x1 = xk[1], x2 = xk[2], x3 = xk[3];
    lane *yk = y + strips * k;
    lane y0 = yk[0] + diag * x0, y1 = yk[1] + diag * x1, y2 = yk[2] + diag * x2, y3 = yk[3] + diag * x3;

    // An entry beside the diagonal counts twice: in row k, and in that of its ancestor.
    for (int a = 0; a < tree->depth[k]; a++) {
      const lane *xa = x + strips * chain[a];
      lane *ya = y + strips * chain[a];
      y0 += row[a] * xa[0];
      y1 += row[a] * xa[1];
      y2 += row[a] * xa[2];
      y3 += row[a] * xa[3];
      ya[0] += row[a] * x0;
      ya[1] += row[a] * x1;
      ya[2] += row[a] * x2;
      ya[3] += row[a] * x3;
    }
    yk[0] = y0;
    yk[1] = y1;
    yk[2] = y2;
    yk[3] = y3;
  }
}

// x := A^-T x for the six dofs of a free body that stands alone, one column after another.
static void solve_free_block(const NUM(pbWork) *w, int joint, lane *x) {
  int dof = w->m->jnt_dofadr[joint];
  for (int c = 0; c < strips * PB_LANES; c++) {
    double *column = (double *)(x + strips * dof) + c, b[6];
    for (int r = 0; r < 6; r++) b[r] = column[r * strips * PB_LANES];
    NUM(pbSolve6)(w->free_A + 36 * joint, b, true);
    for (int r = 0; r < 6; r++) column[r * strips * PB_LANES] = b[r];
  }
}

// x := Mhat^-T x; free bodies that stand alone have a block of their own under implicitfast.
static void solve_damped(const NUM(pbWork) *w, lane *x) {
  const pbModel *m = w->m;
  int from = 0;

  if (m->integrator == pb_intImplicitfast) {
    for (int j = 0; j < m->njnt; j++) {
      if (!free_standalone(m, j)) continue;
      int dof = m->jnt_dofadr[j];
      solve_columns(&w->t->M, w->Mhat, w->Mhat_Dinv, from, dof, x);
      solve_free_block(w, j, x);
      from = dof + 6;
    }
  }
  solve_columns(&w->t->M, w->Mhat, w->Mhat_Dinv, from, m->nv, x);
}

// ---- seeds ----------------------------------------------------------------------------------------------------------
// Virtual velocities of all seeds: mu = h Mhat^-T of the unit vectors, lam = H^-1 M mu.
static void solve_seeds(block *k) {
  const NUM(pbWork) *w = k->a.work;
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

// Row i of A and B: what cotangent l of the pullback has collected.
static void store_row(const block *k, int i, int l, unsigned by, double *A, double *B) {
  const LANE(pbAdjoint) *a = &k->a;
  const pbModel *m = a->w->m;
  int nv = m->nv, n = 2 * nv + m->na;
  const double *q = (const double *)a->q + l, *v = (const double *)a->v + l;
  const double *act = (const double *)a->act + l;

  // By the state before the step.
  if (A) {
    double *row = A + i * n;
    for (int c = 0; c < nv; c++) {
      row[c] = q[PB_LANES * c];
      row[nv + c] = v[PB_LANES * c];
    }
    for (int c = 0; c < m->na; c++) row[2 * nv + c] = act[PB_LANES * c];
    row[nv + i] += 1;  // v+ = v + h ahat
  }

  if (!B) return;

  // By the inputs that are asked for.
  const lane *inputs[3] = {a->ctrl, a->mocap_pos, a->mocap_rot};
  const int size[3] = {m->nu, 3 * m->nmocap, 3 * m->nmocap};
  double *row = B + (size_t)i * (size_t)pbModel_Columns(m, by);
  for (int part = 0; part < 3; part++) {
    if (!(by >> part & 1)) continue;
    const double *from = (const double *)inputs[part] + l;
    for (int c = 0; c < size[part]; c++) *row++ = from[PB_LANES * c];
  }
}

// Rows of v+ of PB_LANES seeds.
static void velocity_rows(block *k, int first, unsigned by, double *A, double *B) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->work;
  const pbModel *m = w->m;
  int nv = m->nv, at = first / PB_LANES, offset = at / strips * strips * nv + at % strips;
  LANE(pbVjp_Begin)(k, w);
  memset(k->ctrl, 0, (size_t)m->nu * sizeof(lane));
  memset(k->mocap_pos, 0, 3 * (size_t)m->nmocap * sizeof(lane));
  memset(k->mocap_rot, 0, 3 * (size_t)m->nmocap * sizeof(lane));
  a->damped = a->has_mu = w->damped;
  for (int i = 0; i < nv; i++) {
    a->lam[i] = k->lam_of[offset + strips * i];
    a->mu[i] = k->mu_of[offset + strips * i];
  }

  LANE(pbVjp_Power)(k);
  for (int i = first; i < nv && i < first + PB_LANES; i++) store_row(k, i, i - first, by, A, B);
}

pbStatus LANE(pbVjp_Velocity)(void *memory, NUM(pbWork) *w, const double *stages, unsigned by, double *A, double *B) {
  block *k = LANE(pbVjp_Block)(memory);
  LANE(pbVjp_SaveStart)(w);
  k->phase = pb_pullWhole;
  PB_TRY(LANE(pbVjp_Replay)(k, w, stages, false, false));

  // Gradients by parameters are for one cotangent.
  k->a.theta = NULL;
  k->a.want = 0;
  k->a.ctrl = k->ctrl;
  k->a.qfrc = k->a.xfrc = NULL;
  k->a.mocap_pos = by & pb_byMocapPos ? k->mocap_pos : NULL;
  k->a.mocap_rot = by & pb_byMocapRot ? k->mocap_rot : NULL;
  k->a.mocap_vel = NULL;
  LANE(pbVjp_Set)(&k->a, w);
  solve_seeds(k);
  for (int first = 0; first < w->m->nv; first += PB_LANES) velocity_rows(k, first, by, A, B);
  return pb_ok;
}

#endif
