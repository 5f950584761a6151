// Sweeps against slip (noslip.h). Derivative: noslip_adjoint.c.
// Tests: tests/conformance/test_step.c, tests/oracle/test_noslip.py, tests/python/test_noslip_meetings.py.
#include "solve/noslip.h"

#include "base/assert.h"
#include "contact/potential.h"
#include "contact/row.h"
#include "eval/contact.h"
#include "eval/work.h"
#include "linalg/tree_ldl.h"
#include "math/vec.h"
#include "multibody/friction_law.h"
#include "multibody/kink.h"

typedef NUM(pbSlipBlock) slip_block;
typedef NUM(pbSlipUpdate) slip_update;

// ---- the ellipsoid --------------------------------------------------------------------------------------------------
// A + la = L D L': L below the diagonal of F, D on it. False: singular but for rounding, by MuJoCo's thresholds, which are on the
// determinant of two and three rows, and on the pivots of more.
static bool factor_block(const slip_block *s, num la, num *F) {
  const double least = 1e-10;
  double determinant = 1, smallest = INFINITY;
  int n = s->n;
  PB_ASSERT(n >= 1 && n <= 5);

  for (int i = 0; i < n; i++) {
    for (int j = 0; j <= i; j++) {
      num sum = s->A[i * n + j] + (i == j ? la : 0);
      for (int k = 0; k < j; k++) sum -= F[i * n + k] * F[j * n + k] * F[k * n + k];
      F[i * n + j] = i == j ? sum : num_div(sum, F[j * n + j]);
    }

    // A pivot of zero must not divide.
    double pivot = re(F[i * n + i]);
    if (!(pivot > 0)) return false;
    determinant *= pivot;
    smallest = fmin(smallest, pivot);
  }

  return (n <= 3 ? determinant : smallest) >= least;
}

static void solve_factored(int n, const num *F, num *x) {
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < i; k++) x[i] -= F[i * n + k] * x[k];
  }

  // Then by the diagonal and the transpose.
  for (int i = n - 1; i >= 0; i--) {
    x[i] = num_div(x[i], F[i * n + i]);
    for (int k = i + 1; k < n; k++) x[i] -= F[k * n + i] * x[k];
  }
}

bool NUM(pbSlip_Solve)(const slip_block *s, num la, num *x) {
  num F[25];
  if (!factor_block(s, la, F)) return false;

  solve_factored(s->n, F, x);
  return true;
}

static inline bool is_zero(num x) { return re(x) == 0 && im(x) == 0; }

static num dot(int n, const num *a, const num *b) {
  num sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

// Least 1/2 v'A v + b'v within |v| <= r, as MuJoCo's Newton iteration on the multiplier finds it: where it stops early the answer
// is off by as much, and then on the ball, where it is put.
static void solve_ellipsoid(slip_block *s) {
  int n = s->n;
  s->updates = 0;
  s->la[0] = 0;
  s->scale = 1;

  for (int k = 0; k < PB_SLIP_NEWTON; k++) {
    num F[25], q[5];
    s->at = k;
    s->held = !factor_block(s, s->la[k], F);
    if (s->held) return;

    // v at this multiplier, and how far it is outside.
    for (int i = 0; i < n; i++) s->v[i] = -s->b[i];
    solve_factored(n, F, s->v);
    num outside = dot(n, s->v, s->v) - s->r * s->r;
    if (re(outside) < 1e-10) break;

    // The slope of that by the multiplier is -2 v'(A + la)^-1 v.
    memcpy(q, s->v, (size_t)n * sizeof(num));
    solve_factored(n, F, q);
    num step = num_div(outside, 2 * dot(n, s->v, q));
    if (re(step) < 1e-10) break;
    s->la[k + 1] = s->la[k] + step;
    s->updates = k + 1;
  }

  // On the ball, where the search ended near it.
  if (!s->updates) return;
  num square = dot(n, s->v, s->v);
  s->scale = num_div(s->r, num_sqrt(re(square) > 1e-15 ? square : 1e-15));
}

// ---- a block --------------------------------------------------------------------------------------------------------
void NUM(pbSlip_Edges)(const NUM(pbWork) *w, const NUM(pbRow) *r, int k, num edge[2]) {
  num mu = w->contact[r->contact].friction[k - 1];

  for (int side = 0; side < 2; side++) {
    num phi, slope;
    bool pushes = pb_side(r->x[0] + (side ? -mu : mu) * r->x[k], w->m->contact.kappa, &phi, &slope);
    edge[side] = pushes ? r->edge_D * phi : 0;
  }
}

// One number: dry friction, or a tangent of a pyramid.
static void update_one(const NUM(pbWork) *w, const NUM(pbRow) *r, int i, const num *f, const num *x, slip_update *u) {
  int at = u->at;
  bool dry = r->kind == pb_rowFriction;
  PB_ASSERT(at < w->slip.n);

  num A = w->slip.A[at * w->slip.n + at];

  if (dry) {
    u->bound = r->bound[1];
    if (re(A) < 1e-15) A = 1e-15;
  } else {
    num edge[2], mu = w->contact[r->contact].friction[i];
    NUM(pbSlip_Edges)(w, r, i + 1, edge);
    u->bound = mu * (edge[0] + edge[1]);

    // Nothing moves it, or nothing presses.
    if (re(4 * mu * mu * A) < 1e-15 || re(u->bound) <= 0) {
      u->zone = pb_slipZero;
      u->f[0] = 0;
      return;
    }
  }

  // The least of its quadratic, or the bound before it.
  u->zone = pb_slipFree;
  u->f[0] = f[at] - num_div(x[at], A);
  if (re(u->f[0]) < -re(u->bound)) {
    u->zone = pb_slipBelow;
    u->f[0] = -u->bound;
  } else if (re(u->f[0]) > re(u->bound)) {
    u->zone = pb_slipAbove;
    u->f[0] = u->bound;
  }
}

// Tangents of an elliptic cone.
static void update_several(const NUM(pbWork) *w, const NUM(pbRow) *r, const num *f, const num *x, slip_update *u) {
  const num *mu = w->contact[r->contact].friction;
  slip_block *s = &u->block;
  int n = u->n;
  PB_ASSERT(u->at + n <= w->slip.n);
  s->n = n;
  s->r = r->f[0];

  // In coordinates of the ball: mu A mu, and mu times the slope without the block's own forces.
  for (int i = 0; i < n; i++) {
    const num *A = w->slip.A + (u->at + i) * w->slip.n + u->at;
    num slope = x[u->at + i];

    for (int j = 0; j < n; j++) {
      num entry = i == j && re(A[j]) < 1e-10 ? 1e-10 : A[j];
      slope -= entry * f[u->at + j];
      s->A[i * n + j] = entry * mu[i] * mu[j];
    }
    s->b[i] = slope * mu[i];
  }

  // No force where nothing presses.
  u->zone = pb_slipZero;
  for (int i = 0; i < n; i++) u->f[i] = 0;
  if (re(s->r) < 1e-15) return;
  solve_ellipsoid(s);
  if (s->held) return;

  u->zone = pb_slipEllipsoid;
  for (int i = 0; i < n; i++) u->f[i] = s->v[i] * mu[i] * s->scale;
}

void NUM(pbSlip_Update)(const NUM(pbWork) *w, const NUM(pbRow) *r, int i, const num *f, const num *x, slip_update *u) {
  u->at = r->at + i;
  u->n = pb_slip_together(w->m, r);
  if (r->kind == pb_rowContact && w->m->cone == pb_coneElliptic) update_several(w, r, f, x, u);
  else update_one(w, r, i, f, x, u);

  // The cost falls by -1/2 d'A d - d'x, d the change of forces.
  u->gain = 0;
  for (int k = 0; k < u->n; k++) {
    const num *A = w->slip.A + (u->at + k) * w->slip.n + u->at;
    double slope = re(x[u->at + k]);

    for (int j = 0; j < u->n; j++) slope += 0.5 * re(A[j]) * re(u->f[j] - f[u->at + j]);
    u->gain -= slope * re(u->f[k] - f[u->at + k]);
  }

  // A contact whose cost would rise keeps its forces.
  if (r->kind != pb_rowContact || u->gain >= -1e-10) return;
  u->zone = pb_slipKept;
  u->gain = 0;
  for (int k = 0; k < u->n; k++) u->f[k] = f[u->at + k];
}

// ---- what is swept --------------------------------------------------------------------------------------------------
// Numbers the rows that slide, with forces and residuals at Newton's solution, which is kept.
static pbStatus list_rows(NUM(pbWork) *w) {
  int n = 0, all = 0;
  for (int k = 0; k < w->nrow; k++) all += pb_slip_count(w->row + k);
  PB_TRY(NUM(pbWork_ReserveSlip)(w, all));
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    const int first = pb_slip_first(r), count = pb_slip_count(r);

    // Its numbers begin here.
    r->at = n;
    PB_ASSERT(n + count <= w->slip.max);

    for (int i = 0; i < count; i++) {
      w->slip.f[n + i] = r->f[first + i];
      w->slip.x[n + i] = r->x[first + i];
    }
    n += count;
  }

  w->slip.n = n;
  w->slip.sweeps = 0;
  memcpy(w->slip.qacc, w->qacc, (size_t)w->m->nv * sizeof(num));
  return pb_ok;
}

static const num *jacobian_row(const NUM(pbWork) *w, const NUM(pbRow) *r, int i) {
  return w->row_J + r->J + (pb_slip_first(r) + i) * r->n;
}

// Z = M^-1 J', row by row.
static pbStatus make_responses(NUM(pbWork) *w) {
  const pbTreePattern *tree = &w->t->M;
  int nv = w->m->nv;
  memcpy(w->LD, w->M, (size_t)tree->size * sizeof(num));
  if (NUM(pbTree_Factor)(tree, w->LD, w->Dinv) >= 0) return pb_singular;

  memset(w->slip.Z, 0, (size_t)(w->slip.n * nv) * sizeof(num));
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    for (int i = 0; i < pb_slip_count(r); i++) {
      const num *J = jacobian_row(w, r, i);
      num *z = w->slip.Z + (r->at + i) * nv;

      for (int d = 0; d < r->n; d++) z[w->row_dofs[r->dofs + d]] = J[d];
      NUM(pbTree_Solve)(tree, w->LD, w->Dinv, z);
    }
  }
  return pb_ok;
}

// A = J Z
static void make_matrix(NUM(pbWork) *w) {
  int n = w->slip.n, nv = w->m->nv;

  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    const int *dofs = w->row_dofs + r->dofs;
    for (int i = 0; i < pb_slip_count(r); i++) {
      // Row i of J, dense in its dofs; one triangle is the other's image.
      const num *J = jacobian_row(w, r, i);
      int row = r->at + i;

      for (int j = 0; j <= row; j++) {
        num entry = 0;
        for (int d = 0; d < r->n; d++) entry += J[d] * w->slip.Z[j * nv + dofs[d]];
        w->slip.A[row * n + j] = w->slip.A[j * n + row] = entry;
      }
    }
  }
}

// ---- islands --------------------------------------------------------------------------------------------------------
static int root_of(const int *island, int tree) {
  while (island[tree] != tree) tree = island[tree];
  return tree;
}

static int tree_of(const NUM(pbWork) *w, const NUM(pbRow) *r, int d) { return w->m->dof_treeid[w->row_dofs[r->dofs + d]]; }

// Trees that rows connect are an island, known by its first tree; without the flag all are one.
static void find_islands(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  int *island = w->slip.island;
  bool one = m->disableflags & pb_disIsland;
  for (int i = 0; i < m->nv; i++) island[i] = one ? 0 : i;

  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    for (int d = 1; d < r->n; d++) {
      int a = root_of(island, tree_of(w, r, 0)), b = root_of(island, tree_of(w, r, d));
      island[a > b ? a : b] = a > b ? b : a;
    }
  }
  for (int i = 0; i < m->nv; i++) {
    island[i] = root_of(island, i);
    w->slip.inertia[i] = 0;
  }

  // Gains are told beside the trace of the mass matrix.
  const pbTreePattern *M = &w->t->M;
  for (int i = 0; i < m->nv; i++) w->slip.inertia[island[m->dof_treeid[i]]] += re(w->M[M->adr[i] + M->depth[i]]);
}

static int island_of(const NUM(pbWork) *w, const NUM(pbRow) *r) { return r->n ? w->slip.island[tree_of(w, r, 0)] : 0; }

bool NUM(pbSlip_Goes)(const NUM(pbWork) *w, const NUM(pbRow) *r, int s) {
  PB_ASSERT(s >= 0);
  bool slides = r->kind == pb_rowFriction || (r->kind == pb_rowContact && r->dim > 1);
  return slides && w->slip.ended[island_of(w, r)] > s;
}

int NUM(pbSlip_LossSign)(const NUM(pbWork) *w, int id, int s, const num *a) {
  const pbModel *m = w->m;
  int tendon = id - m->nv;
  if (tendon < 0 ? dof_has_loss(&w->mechanism, id) : re(w->p.tendon_frictionloss[tendon]) > 0) return pb_slipNoLoss;

  // Tendons without a dof move nothing.
  if (tendon >= 0 && w->ten_start[tendon] == w->ten_start[tendon + 1]) return pb_slipNoLoss;
  int dof = tendon < 0 ? id : w->ten_dofs[w->ten_start[tendon]];
  if (w->slip.ended[w->slip.island[m->dof_treeid[dof]]] <= s) return pb_slipNoLoss;
  return (int)loss_sign(&w->mechanism, id, a);
}

// What the cost loses where forces are no longer softened: 1/2 f'R f.
static double soft_cost(const NUM(pbWork) *w, const NUM(pbRow) *r) {
  double sum = 0;

  if (!pb_pyramidal(w->m, r)) {
    for (int i = 0; i < r->dim; i++) sum += 0.5 * re(r->R[i]) * re(r->f[i]) * re(r->f[i]);
    return sum;
  }

  for (int k = 1; k < r->dim; k++) {
    num edge[2];
    NUM(pbSlip_Edges)(w, r, k, edge);
    for (int side = 0; side < 2; side++) sum += 0.5 * re(r->edge_R) * re(edge[side]) * re(edge[side]);
  }
  return sum;
}

// ---- losses of zero -------------------------------------------------------------------------------------------------
// In the complex program each is a force of an imaginary size: against its sign at Newton's solution, then at its turns.
static void begin_losses(NUM(pbWork) *w) {
  if (!PB_IS_COMPLEX || !loss_acts(w->m)) return;
  memcpy(w->tmp, w->qacc, (size_t)w->m->nv * sizeof(num));

  for (int id = 0; id < w->m->nv + w->m->ntendon; id++) w->slip.sign[id] = NUM(pbSlip_LossSign)(w, id, 0, w->tmp);
}

// One of them turns: accelerations and residuals of all move.
static void move_loss(NUM(pbWork) *w, int id, num change) {
  int nv = w->m->nv, tendon = id - nv;
  num *z = w->step;

  // z = M^-1 J'
  memset(z, 0, (size_t)nv * sizeof(num));
  if (tendon < 0) z[id] = 1;
  else
    for (int i = w->ten_start[tendon]; i < w->ten_start[tendon + 1]; i++) z[w->ten_dofs[i]] = w->ten_J[i];
  NUM(pbTree_Solve)(&w->t->M, w->LD, w->Dinv, z);

  // By it accelerations move, by J z residuals.
  for (int d = 0; d < nv; d++) w->qacc[d] += z[d] * change;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    for (int i = 0; i < pb_slip_count(r); i++) {
      const num *J = jacobian_row(w, r, i);
      for (int d = 0; d < r->n; d++) w->slip.x[r->at + i] += J[d] * z[w->row_dofs[r->dofs + d]] * change;
    }
  }
}

// Those before `end` in this sweep, at accelerations w->tmp. Returns which come next.
static int turn_losses(NUM(pbWork) *w, int next, int end) {
  if (!PB_IS_COMPLEX || !loss_acts(w->m)) return next;

  for (; next < end; next++) {
    int tendon = next - w->m->nv, sign = NUM(pbSlip_LossSign)(w, next, w->slip.sweeps, w->tmp);
    double size = im(tendon < 0 ? dof_loss(&w->mechanism, next) : w->p.tendon_frictionloss[tendon]);
    if (sign == pb_slipNoLoss || size == 0) continue;

    // Only where it turns.
    if (sign != w->slip.sign[next]) move_loss(w, next, num_make(0, (w->slip.sign[next] - sign) * size));
    w->slip.sign[next] = sign;
  }
  return next;
}

// ---- sweeps ---------------------------------------------------------------------------------------------------------
// All blocks of islands that go on, at forces f. gain: by island, added to.
static void sweep_once(NUM(pbWork) *w, num *f) {
  int n = w->slip.n, nv = w->m->nv, loss = 0;
  num *x = w->slip.x;

  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    int island = island_of(w, r);
    if (!NUM(pbSlip_Goes)(w, r, w->slip.sweeps)) continue;
    loss = turn_losses(w, loss, pb_slip_losses(w, r));

    for (int i = 0; i < pb_slip_count(r); i += pb_slip_together(w->m, r)) {
      slip_update u;
      NUM(pbSlip_Update)(w, r, i, f, x, &u);
      w->slip.gain[island] += u.gain;

      // Residuals of all by the change of these.
      for (int c = 0; c < u.n; c++) {
        num change = u.f[c] - f[u.at + c];
        f[u.at + c] = u.f[c];
        if (is_zero(change)) continue;
        const num *A = w->slip.A + (u.at + c) * n;
        for (int j = 0; j < n; j++) x[j] += A[j] * change;
        if (!PB_IS_COMPLEX) continue;
        for (int d = 0; d < nv; d++) w->tmp[d] += w->slip.Z[(u.at + c) * nv + d] * change;
      }
    }
  }
  turn_losses(w, loss, nv + w->m->ntendon);
}

// Each sweep begins with a copy of the forces before it, which the way back needs.
static void sweep_all(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  int n = w->slip.n, most = m->noslip_iterations;
  PB_ASSERT(most > 0 && most <= PB_NOSLIP_MOST);

  // The first sweep also gains what softness cost.
  for (int i = 0; i < m->nv; i++) {
    w->slip.gain[i] = 0;
    w->slip.ended[i] = most;
  }
  for (int k = 0; k < w->nrow; k++) w->slip.gain[island_of(w, w->row + k)] += soft_cost(w, w->row + k);

  begin_losses(w);
  for (bool going = n > 0; going && w->slip.sweeps < most; w->slip.sweeps++) {
    num *f = w->slip.f + (w->slip.sweeps + 1) * n;
    memcpy(f, f - n, (size_t)n * sizeof(num));
    sweep_once(w, f);

    // Islands that gained too little have ended behind this sweep.
    going = false;
    for (int i = 0; i < m->nv; i++) {
      bool ends = w->slip.gain[i] < m->noslip_tolerance[0] * w->slip.inertia[i];
      if (ends && w->slip.ended[i] > w->slip.sweeps + 1) w->slip.ended[i] = w->slip.sweeps + 1;
      going = going || w->slip.ended[i] > w->slip.sweeps + 1;
      w->slip.gain[i] = 0;
    }
  }
}

// Forces and accelerations after the sweeps: qacc += Z (f - f of Newton's solution).
static void finish(NUM(pbWork) *w) {
  int n = w->slip.n, nv = w->m->nv;
  const num *f = w->slip.f + w->slip.sweeps * n;

  memset(w->qfrc_constraint, 0, (size_t)nv * sizeof(num));
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    for (int i = 0; i < pb_slip_count(r); i++) r->f[pb_slip_first(r) + i] = f[r->at + i];

    if (r->zone) NUM(pbRow_AddForce)(&w->constraints, r, r->f, w->qfrc_constraint);
  }

  for (int i = 0; i < n; i++) {
    num change = f[i] - w->slip.f[i];
    if (is_zero(change)) continue;

    for (int d = 0; d < nv; d++) w->qacc[d] += w->slip.Z[i * nv + d] * change;
  }
  NUM(pbTree_Mul)(&w->t->M, w->M, w->qacc, w->Ma);
}

pbStatus NUM(pbSlip_Sweep)(NUM(pbWork) *w) {
  PB_TRY(list_rows(w));
  if (!w->slip.n) return pb_ok;

  PB_TRY(make_responses(w));
  make_matrix(w);
  find_islands(w);
  sweep_all(w);
  finish(w);
  return pb_ok;
}
