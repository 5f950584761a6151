// Rows of the Jacobian of the new velocities: lam and mu of every seed by solves with many right-hand sides at once, then a
// traversal of the tree for every PB_LANES of them; and of the new positions, which follow from those.
// Tests: tests/conformance/test_step.c, tests/conformance/test_jacobian_bits.c.
#include "step/step_adjoint.h"

#if PB_LANES > 1

#include <math.h>

#include "base/assert.h"
#include "contact/row.h"
#include "elementary/elementary.h"
#include "eval/stages.h"
#include "eval/work.h"
#include "math/vec.h"
#include "model/columns.h"
#include "model/joint.h"
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
// Of so many of the strips, which the compiler knows where these are called (solve_columns).
#define EACH   for (int s = 0; s < used; s++)
#define INLINE static inline __attribute__((always_inline))

// L' D L of a matrix on the pattern of a tree (linalg/tree_ldl.h).
typedef struct factor {
  const pbTreePattern *tree;
  const double *LD, *diag_inv;
} factor;

// x := L^-T x (a row of strips for each dof): from the leaves, each dof is taken off its ancestors. Rows of zeros, as
// unit vectors have them, cost nothing.
INLINE void solve_from_leaves(factor f, int from, int to, int used, lane *x) {
  const pbTreePattern *tree = f.tree;
  for (int k = to - 1; k >= from; k--) {
    const int *chain = tree->chain + tree->adr[k];
    const double *row = f.LD + tree->adr[k];
    lane xk[strips];
    if (all_zero(x + strips * k, used)) continue;

    EACH xk[s] = x[strips * k + s];
    for (int a = 0; a < tree->depth[k]; a++) EACH x[strips * chain[a] + s] -= row[a] * xk[s];
  }
}

// The same on the pattern of M, where what a dof carries follows it (end: how far): nothing is written twice. Rows from `zeros`
// on are zero.
INLINE void gather_from_leaves(factor f, const int *end, int from, int to, int zeros, int used, lane *x) {
  const pbTreePattern *tree = f.tree;
  for (int k = (to < zeros ? to : zeros) - 1; k >= from; k--) {
    int last = end[k] < zeros ? end[k] : zeros;
    lane xk[strips];
    EACH xk[s] = x[strips * k + s];
    for (int d = k + 1; d < last; d++) {
      double entry = f.LD[tree->adr[d] + tree->depth[k]];
      EACH xk[s] -= entry * x[strips * d + s];
    }
    EACH x[strips * k + s] = xk[s];
  }
}

// x := L^-1 D^-1 x, from the root.
INLINE void solve_from_root(factor f, int from, int to, int used, lane *x) {
  const pbTreePattern *tree = f.tree;
  for (int k = from; k < to; k++) {
    const int *chain = tree->chain + tree->adr[k];
    const double *row = f.LD + tree->adr[k];
    lane xk[strips];
    EACH xk[s] = x[strips * k + s] * f.diag_inv[k];
    for (int a = 0; a < tree->depth[k]; a++) EACH xk[s] -= row[a] * x[strips * chain[a] + s];
    EACH x[strips * k + s] = xk[s];
  }
}

// x := A^-1 x, for a range [from, to) of whole trees of dofs: A = L' D L as linalg/tree_ldl.h factors it. Rows of x from `zeros`
// on are zero.
INLINE void solve_strips(const NUM(pbWork) *w, factor f, int from, int to, int zeros, int used, lane *x) {
  PB_ASSERT(0 <= from && from <= to && to <= f.tree->n);
  if (f.tree->chain == w->t->M.chain) gather_from_leaves(f, w->t->dof_end, from, to, zeros, used, x);
  else solve_from_leaves(f, from, to, used, x);
  solve_from_root(f, from, to, used, x);
}

// Does the damper of a dof outweigh its inertia? What Mhat mu has without its share is rounding there.
static bool damper_outweighs(const NUM(pbWork) *w, int dof) {
  return w->p.timestep[0] * fabs(w->damp[dof]) * w->Mhat_Dinv[dof] > 0.4;
}

// Row i of M x: the diagonal, then what carries the dof and what it carries.
INLINE void mass_row(const NUM(pbWork) *w, int i, int used, const lane *x, lane *product) {
  const pbTreePattern *tree = &w->t->M;
  const int *chain = tree->chain + tree->adr[i];
  const double *row = w->M + tree->adr[i];
  lane sum[strips];
  EACH sum[s] = row[tree->depth[i]] * x[strips * i + s];
  for (int a = 0; a < tree->depth[i]; a++) EACH sum[s] += row[a] * x[strips * chain[a] + s];
  for (int d = i + 1; d < w->t->dof_end[i]; d++) {
    double entry = w->M[tree->adr[d] + tree->depth[i]];
    EACH sum[s] += entry * x[strips * d + s];
  }
  EACH product[strips * i + s] = sum[s];
}

// M mu, mu being Mhat^-1 of h times the unit vectors from `first` on. Under Euler's method, whose damping is of single dofs,
// it is these less the dampers' share, where that is not most of it.
INLINE void mass_strips(const NUM(pbWork) *w, int first, int behind, int used, const lane *mu, lane *product) {
  double h = w->p.timestep[0];
  bool euler = w->m->integrator == pb_intEuler;
  for (int i = 0; i < w->m->nv; i++) {
    if (!euler || damper_outweighs(w, i)) {
      mass_row(w, i, used, mu, product);
      continue;
    }

    EACH product[strips * i + s] = -h * w->damp[i] * mu[strips * i + s];
    if (i >= first && i < behind) ((double *)(product + strips * i))[i - first] += h;
  }
}

#define BY_STRIPS(call)      \
  switch (used) {            \
    case 1: call(1); return; \
    case 2: call(2); return; \
    case 3: call(3); return; \
    default: call(4);        \
  }

static void solve_columns(const NUM(pbWork) *w, factor f, int from, int to, int zeros, int used, lane *x) {
#define CALL(n) solve_strips(w, f, from, to, zeros, n, x)
  BY_STRIPS(CALL)
#undef CALL
}

static void multiply_mass(const NUM(pbWork) *w, int first, int behind, int used, const lane *mu, lane *product) {
#define CALL(n) mass_strips(w, first, behind, n, mu, product)
  BY_STRIPS(CALL)
#undef CALL
}
#undef EACH
#undef INLINE
#undef BY_STRIPS

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

// x := Mhat^-T x; free bodies that stand alone have a block of their own under implicitfast. Rows from `zeros` on are zero.
static void solve_damped(const NUM(pbWork) *w, int zeros, int used, lane *x) {
  const pbModel *m = w->m;
  const factor damped = {&w->t->M, w->Mhat, w->Mhat_Dinv};
  int from = 0;

  if (m->integrator == pb_intImplicitfast) {
    for (int j = 0; j < m->njnt; j++) {
      if (!free_standalone(m, j)) continue;
      int dof = m->jnt_dofadr[j];
      solve_columns(w, damped, from, dof, zeros, used, x);
      solve_free_block(w, j, x);
      from = dof + 6;
    }
  }
  solve_columns(w, damped, from, m->nv, zeros, used, x);
}

// ---- seeds ----------------------------------------------------------------------------------------------------------
// Does no row add to H? Then it is M.
static bool without_rows(const NUM(pbWork) *w) {
  for (int i = 0; i < w->nrow; i++) {
    if (w->row[i].zone && !pb_explicit(w->m, w->row + i)) return false;
  }
  return true;
}

// Virtual velocities of all seeds: mu = h Mhat^-T of the unit vectors, lam = H^-1 M mu.
static void solve_seeds(block *k) {
  const NUM(pbWork) *w = k->a.work;
  int nv = w->m->nv, room = strips * PB_LANES;
  const factor solver = {&w->H, w->H_LD, w->H_Dinv};
  k->one_rate = w->damped && without_rows(w);
  for (int first = 0; first < nv; first += room) {
    lane *mu = k->mu_of + first / PB_LANES * nv, *lam = k->lam_of + first / PB_LANES * nv;
    int behind = first + room < nv ? first + room : nv, used = (behind - first + PB_LANES - 1) / PB_LANES;
    lane *unit = w->damped && !k->one_rate ? mu : lam;
    memset(unit, 0, (size_t)(strips * nv) * sizeof(lane));
    for (int i = first; i < behind; i++) ((double *)(unit + strips * i))[i - first] = w->p.timestep[0];

    if (w->damped) solve_damped(w, behind, used, unit);
    else solve_columns(w, solver, 0, nv, behind, used, unit);
    if (!w->damped || k->one_rate) continue;
    multiply_mass(w, first, behind, used, mu, lam);
    solve_columns(w, solver, 0, nv, nv, used, lam);
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
  enum { parts = 5 };
  const lane *inputs[parts] = {a->ctrl, a->mocap_pos, a->mocap_rot, a->qfrc, a->xfrc};
  const int size[parts] = {m->nu, 3 * m->nmocap, 3 * m->nmocap, nv, 6 * m->nbody};
  double *row = B + (size_t)i * (size_t)pb_inputColumns(m, by);
  for (int part = 0; part < parts; part++) {
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
  memset(k->qfrc, 0, (size_t)nv * sizeof(lane));
  memset(k->xfrc, 0, 6 * (size_t)m->nbody * sizeof(lane));
  a->damped = a->has_mu = w->damped;
  for (int i = 0; i < nv; i++) {
    a->lam[i] = k->lam_of[offset + strips * i];
    a->mu[i] = LANE(pbVjp_MuOf)(k)[offset + strips * i];
  }

  LANE(pbVjp_Power)(k);
  for (int i = first; i < nv && i < first + PB_LANES; i++) store_row(k, i, i - first, by, A, B);
}

// ---- positions ------------------------------------------------------------------------------------------------------
// q+ = q exp(r): dq+ = back dq + J dr, back = exp(-r), J the right Jacobian of exp,
//   J e = e - b r x e + c r x (r x e),   b = (1 - cos t) / t^2,   c = (t - sin t) / t^3,   t = |r|
static void rotation_step(const double rotation[3], double back[9], double J[9]) {
  double minus[3], q[4];

  v3_neg(minus, rotation);
  // back = exp(-r)
  quat_exp(q, minus);
  PB_VALIDATE(pb_isUnit(q, 4));
  quat_to_mat(back, q);

  double t2 = v3_dot(rotation, rotation);
  double t = sqrt(t2), sine, cosine;
  pbSinCos(t, &sine, &cosine);
  double b = t2 < 1e-6 ? 0.5 - t2 / 24 : (1 - cosine) / t2;
  double c = t2 < 1e-6 ? 1. / 6 - t2 / 120 : (t - sine) / (t2 * t);
  for (int k = 0; k < 3; k++) {
    double e[3] = {0};
    double once[3], twice[3];
    // Column k
    e[k] = 1;
    v3_cross(once, rotation, e);
    v3_cross(twice, rotation, once);
    for (int r = 0; r < 3; r++) J[3 * r + k] = e[r] - b * once[r] + c * twice[r];
  }
}

// q+ = q + h v+ of one degree of freedom: its row from that of v+.
static void translation_row(double h, int row, int from, double *J, int cols) {
  if (!J) return;
  for (int c = 0; c < cols; c++) J[row * cols + c] = h * J[from * cols + c];
}

// The three rows of a rotation q exp(h v+): h times the right Jacobian times those of v+.
static void rotation_rows(double h, const double right[9], int row, int from, double *J, int cols) {
  if (!J) return;
  for (int r = 0; r < 3; r++) {
    for (int c = 0; c < cols; c++) {
      const double *col = J + from * cols + c;
      double along = right[3 * r] * col[0] + right[3 * r + 1] * col[cols] + right[3 * r + 2] * col[2 * cols];
      J[(row + r) * cols + c] = h * along;
    }
  }
}

// q+ = q (+) h v+: rows of q+ from those of v+ (semi-implicit integrators), a joint at a time; all of a Jacobian by the state (A)
// and by inputs (of so many columns); either may be NULL.
static void position_rows(const NUM(pbWork) *w, int columns, double *A, double *B) {
  const pbModel *m = w->m;
  int nv = m->nv, n = 2 * nv + m->na;
  double h = w->p.timestep[0];

  for (int j = 0; j < m->njnt; j++) {
    int type = m->jnt_type[j];
    int dof = m->jnt_dofadr[j];
    int translations = pbJoint_PlainCount(type);
    // Plain positions: dq+ = dq + h dv+
    for (int i = dof; i < dof + translations; i++) {
      translation_row(h, i, nv + i, A, n);
      translation_row(h, i, nv + i, B, columns);
      if (A) A[i * n + i] += 1;
    }
    if (!pbJoint_HasRotation(type)) continue;

    // The rotation by h v+: dq+ = back dq + J h dv+
    double rotation[3], back[9], right[9];
    dof += translations;
    for (int k = 0; k < 3; k++) rotation[k] = h * (w->v0[dof + k] + h * w->qacc_integrated[dof + k]);
    rotation_step(rotation, back, right);
    rotation_rows(h, right, dof, nv + dof, A, n);
    rotation_rows(h, right, dof, nv + dof, B, columns);
    if (!A) continue;
    for (int k = 0; k < 9; k++) A[(dof + k / 3) * n + dof + k % 3] += back[k];
  }
}

// ---- all --------------------------------------------------------------------------------------------------------------
static void velocity_jacobian(block *k, unsigned by, double *A, double *B) {
  const NUM(pbWork) *w = k->a.work;
  solve_seeds(k);
  if (!(by & ~(unsigned)(pb_byControl | pb_byForce)) && LANE(pbPairs_Rows)(k, by, A, B)) return;

  if (by & pb_byForce) k->a.qfrc = k->qfrc;
  if (by & pb_byWrench) k->a.xfrc = k->xfrc;
  for (int first = 0; first < w->m->nv; first += PB_LANES) velocity_rows(k, first, by, A, B);
}

pbStatus LANE(pbVjp_State)(void *memory, NUM(pbWork) *w, const double *stages, bool cached, unsigned by, double *A, double *B) {
  block *k = LANE(pbVjp_Block)(memory);
  LANE(pbVjp_SaveStart)(w);
  k->phase = pb_pullWhole;
  if (cached) NUM(pbStage_Composites)(&w->mechanism);  // which pullbacks do without, and pairs do not
  PB_TRY(LANE(pbVjp_Replay)(k, w, stages, cached, false));

  // Gradients by parameters are for one cotangent.
  k->a.theta = NULL;
  k->a.want = 0;
  k->a.ctrl = k->ctrl;
  k->a.qfrc = k->a.xfrc = NULL;
  k->a.mocap_pos = by & pb_byMocapPos ? k->mocap_pos : NULL;
  k->a.mocap_rot = by & pb_byMocapRot ? k->mocap_rot : NULL;
  k->a.mocap_vel = NULL;
  LANE(pbVjp_Set)(&k->a, w);

  int nv = w->m->nv, columns = pb_inputColumns(w->m, by);
  velocity_jacobian(k, by, A ? A + nv * (2 * nv + w->m->na) : NULL, B ? B + nv * columns : NULL);
  position_rows(w, columns, A, B);
  return pb_ok;
}

#endif
