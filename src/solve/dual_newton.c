// Newton's method on the laws of hard contact, and the solution of their linearized equations.
// Tests: tests/unit/test_hard.c, tests/oracle/test_jammed.py.
#include "base/assert.h"
#include "contact/law.h"
#include "contact/row.h"
#include "eval/work.h"
#include "solve/dual_parts.h"

static const double tie = 1e-10;  // forces that are found to this share decide at random where a law is undecided

// Zones: open where a row can have no force (f - rho w < 0), else active.
void NUM(pbDual_Classify)(NUM(pbWork) *w, const double *f, const double *x) {
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    r->zone = NUM(pbLaw_Held)(w, r, f + r->at, x + r->at) ? pb_zoneOpen : pb_zoneActive;
  }
}

// ---- the linearized laws --------------------------------------------------------------------------------------------------
// T df = rhs, T = Nw (J M^-1 J' + R) + Nf over the active rows: either as it stands, or, where there are more rows than dofs,
// with B = Nw R + Nf row by row and K = B^-1 Nw, by way of the dofs:  H h = J'B^-1 rhs,  df = B^-1 rhs - K J h,  H = M + J'K J.
// R: and what a method has added to the diagonal (w->dual.softness).

static void swap_rows(double *A, int n, int a, int b) {
  for (int j = 0; j < n; j++) {
    double t = A[a * n + j];
    A[a * n + j] = A[b * n + j];
    A[b * n + j] = t;
  }
}

// Inverse of B (n x n, destroyed) by Gauss-Jordan elimination with partial pivoting; false where it is singular.
static bool invert(int n, double *B, double *inverse) {
  for (int i = 0; i < n * n; i++) inverse[i] = i % (n + 1) == 0;

  for (int k = 0; k < n; k++) {
    int pivot = k;
    for (int i = k + 1; i < n; i++) pivot = fabs(B[i * n + k]) > fabs(B[pivot * n + k]) ? i : pivot;
    if (!(fabs(B[pivot * n + k]) > 0)) return false;
    swap_rows(B, n, pivot, k);
    swap_rows(inverse, n, pivot, k);

    // Normalize the pivot's row and clear its column in all others.
    double scale = 1 / B[k * n + k];
    for (int j = 0; j < n; j++) {
      B[k * n + j] *= scale;
      inverse[k * n + j] *= scale;
    }
    for (int i = 0; i < n; i++) {
      if (i == k) continue;
      double s = B[i * n + k];
      for (int j = 0; j < n; j++) {
        B[i * n + j] -= s * B[k * n + j];
        inverse[i * n + j] -= s * inverse[k * n + j];
      }
    }
  }
  return true;
}

// A row's B^-1 and K.
static bool set_block(NUM(pbWork) *w, int index, const pbLaw *law) {
  const NUM(pbRow) *r = w->row + index;
  int n = r->dim;
  double B[36];
  double *inverse = w->dual.Binv + 36 * index;
  double *K = w->dual.K + 36 * index;

  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++)
      B[i * n + j] = law->Nw[i * n + j] * (re(r->R[j]) + w->dual.softness[r->at + j]) + law->Nf[i * n + j];
  }
  if (!invert(n, B, inverse)) return false;

  // K = B^-1 Nw
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) {
      K[i * n + j] = 0;
      for (int k = 0; k < n; k++) K[i * n + j] += inverse[i * n + k] * law->Nw[k * n + j];
    }
  }

  return true;
}

// H += J'K J
static void add_block(NUM(pbWork) *w, int index) {
  const NUM(pbRow) *r = w->row + index;
  const int *dofs = w->row_dofs + r->dofs;
  const double *K = w->dual.K + 36 * index;

  for (int j = 0; j < r->n; j++) {
    double KJ[6] = {0};  // column j of K J
    for (int k = 0; k < r->dim; k++) {
      for (int l = 0; l < r->dim; l++) KJ[k] += K[k * r->dim + l] * re(w->row_J[r->J + l * r->n + j]);
    }

    // All of H, not a triangle: K is not symmetric.
    for (int i = 0; i < r->n; i++) {
      double *entry = w->dual.LU + dofs[i] * w->m->nv + dofs[j];
      for (int k = 0; k < r->dim; k++) *entry += re(w->row_J[r->J + k * r->n + i]) * KJ[k];
    }
  }
}

static void set_dense_mass(NUM(pbWork) *w) {
  int nv = w->m->nv;
  const pbTreePattern *M = &w->t->M;

  memset(w->dual.LU, 0, (size_t)(nv * nv) * sizeof(double));

  // From the chains of the tree, lower triangle, to a full matrix.
  for (int i = 0; i < nv; i++) {
    for (int a = 0; a <= M->depth[i]; a++) {
      int j = M->chain[M->adr[i] + a];
      w->dual.LU[i * nv + j] = w->dual.LU[j * nv + i] = re(w->M[M->adr[i] + a]);
    }
  }
}

// Row `index` of T, from number `at` on.
static void add_law(NUM(pbWork) *w, int index, int at, const pbLaw *law) {
  const NUM(pbRow) *r = w->row + index;
  int count = w->dual.count;

  for (int i = 0; i < r->dim; i++) {
    double *row = w->dual.LU + (at + i) * count;
    memset(row, 0, (size_t)count * sizeof(double));

    // Nw A over the active columns, Nf on the row's own.
    for (int j = 0; j < r->dim; j++) {
      double s = law->Nw[i * r->dim + j];
      const double *A = w->dual.A + (r->at + j) * w->dual.n;
      if (s != 0) {
        for (int c = 0; c < count; c++) row[c] += s * A[w->dual.active[c]];
      }
      row[at + j] += law->Nf[i * r->dim + j];
    }
  }
}

// Lists the active numbers: those of every row that is not open.
static void set_active(NUM(pbWork) *w) {
  int count = 0;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (!r->zone) continue;
    for (int j = 0; j < r->dim; j++) w->dual.active[count++] = r->at + j;
  }
  w->dual.count = count;
  PB_VALIDATE(pb_ascending(w->dual.active, count) && pb_allWithin(w->dual.active, count, 0, w->dual.n));
}

// By way of the dofs, H; false where a row without regularization has no B^-1.
static bool assemble_dofs(NUM(pbWork) *w, const double *f, const double *x) {
  set_dense_mass(w);
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    pbLaw law;
    if (!r->zone) continue;
    NUM(pbLaw_At)(w, r, f + r->at, x + r->at, &law);
    if (!set_block(w, k, &law)) return false;
    add_block(w, k);
  }
  return true;
}

// As they stand, T.
static void assemble_rows(NUM(pbWork) *w, const double *f, const double *x) {
  int at = 0;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    pbLaw law;
    if (!r->zone) continue;
    NUM(pbLaw_At)(w, r, f + r->at, x + r->at, &law);
    add_law(w, k, at, &law);
    at += r->dim;
  }
  PB_ASSERT(at == w->dual.count);
}

pbStatus NUM(pbDual_FactorLaws)(NUM(pbWork) *w, const double *f, const double *x) {
  set_active(w);
  w->dual.condensed = w->dual.count > w->m->nv && assemble_dofs(w, f, x);
  if (!w->dual.condensed) assemble_rows(w, f, x);

  int size = w->dual.condensed ? w->m->nv : w->dual.count;
  return NUM(pbLu_Factor)(w->dual.LU, w->dual.perm, size) ? pb_ok : pb_singular;
}

// out = B x of a block of n numbers.
static void block_times(int n, const double *B, const double *x, double *out) {
  for (int i = 0; i < n; i++) {
    out[i] = 0;
    for (int j = 0; j < n; j++) out[i] += B[i * n + j] * x[j];
  }
}

// x := B^-1 x of every active row; h = J'x.
static void eliminate_blocks(NUM(pbWork) *w, double *x, double *h) {
  int at = 0;
  memset(h, 0, (size_t)w->m->nv * sizeof(double));
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    double g[6];
    if (!r->zone) continue;
    block_times(r->dim, w->dual.Binv + 36 * k, x + at, g);

    // B^-1 x stays in place, its force goes to the dofs.
    for (int i = 0; i < r->dim; i++) {
      x[at + i] = g[i];
      for (int j = 0; j < r->n; j++) h[w->row_dofs[r->dofs + j]] += re(w->row_J[r->J + i * r->n + j]) * g[i];
    }
    at += r->dim;
  }
}

// x (count numbers, room for twice) := T^-1 x
void NUM(pbDual_SolveLaws)(NUM(pbWork) *w, double *x) {
  double *h = w->dual.h;
  if (!w->dual.condensed) {
    NUM(pbLu_Solve)(w->dual.LU, w->dual.perm, w->dual.count, x);
    return;
  }

  eliminate_blocks(w, x, h);
  NUM(pbLu_Solve)(w->dual.LU, w->dual.perm, w->m->nv, h);

  // x -= K J h
  int at = 0;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    double Jh[6] = {0}, KJh[6];
    if (!r->zone) continue;
    for (int i = 0; i < r->dim; i++) {
      for (int j = 0; j < r->n; j++) Jh[i] += re(w->row_J[r->J + i * r->n + j]) * h[w->row_dofs[r->dofs + j]];
    }
    block_times(r->dim, w->dual.K + 36 * k, Jh, KJh);
    for (int i = 0; i < r->dim; i++) x[at + i] -= KJh[i];
    at += r->dim;
  }
}

// ---- steps ----------------------------------------------------------------------------------------------------------------
// Right-hand side of Newton's step for the active rows: -N - Nw (x_active - x). x_active: the residuals x with the forces of all
// open rows set to zero.
static void newton_rhs(const NUM(pbWork) *w, const double *f, const double *x, const double *x_active, double *rhs) {
  int at = 0;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    pbLaw law;
    double move[6];
    if (!r->zone) continue;
    NUM(pbLaw_At)(w, r, f + r->at, x + r->at, &law);
    NUM(pbLaw_Misfit)(w, r, f + r->at, x + r->at, move);

    // Friction has its equation in its own scale.
    for (int i = 0; i < r->dim; i++, at++) {
      rhs[at] = is_contact(r) && i > 0 ? move[i] / row_mu(w, r, i) : move[i];
      for (int j = 0; j < r->dim; j++) rhs[at] -= law.Nw[i * r->dim + j] * (x_active[r->at + j] - x[r->at + j]);
    }
  }
}

// Merit function of the line search: the squared misfits of all laws, each times the weight of its number.
static double merit(const NUM(pbWork) *w, const double *f, const double *x) {
  double sum = 0;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    double move[6];
    NUM(pbLaw_Misfit)(w, r, f + r->at, x + r->at, move);
    for (int j = 0; j < r->dim; j++) sum += move[j] * move[j] * w->dual.weight[r->at + j];
  }
  return sum;
}

// Largest share of the move from `from` to `after`. Smoothed laws need normal and limit forces above zero: none may lose more
// than 95 % of itself (the fraction-to-the-boundary rule of interior-point methods).
static double longest_step(const NUM(pbWork) *w, const double *from, const double *after) {
  double alpha = 1;
  if (!(w->dual.kappa > 0)) return alpha;
  for (int k = 0; k < w->nrow; k++) {
    int i = w->row[k].at;
    if (is_one_sided(w->row + k) && after[i] < 0.05 * from[i]) alpha = fmin(alpha, 0.95 * from[i] / (from[i] - after[i]));
  }
  PB_ASSERT(!(alpha < 0));  // from inside
  return alpha;
}

// The forces after a whole step of Newton's method on the misfit, in w->dual.after; false where its matrix is singular.
static bool whole_step(NUM(pbWork) *w, const double *f, const double *x) {
  int n = w->dual.n;
  double *step = w->dual.step;
  double *after = w->dual.after;

  NUM(pbDual_Classify)(w, f, x);

  // Residuals once the forces of open rows are zero: x - A f over these.
  memcpy(after, x, (size_t)n * sizeof(double));
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (r->zone) continue;
    for (int i = r->at; i < r->at + r->dim; i++) {
      if (f[i] != 0) pb_axpy(after, -f[i], w->dual.A + i * n, n);
    }
  }
  if (NUM(pbDual_FactorLaws)(w, f, x) != pb_ok) return false;
  newton_rhs(w, f, x, after, step);
  NUM(pbDual_SolveLaws)(w, step);

  // The new forces: zero for open rows, a Newton step for active ones.
  memcpy(after, f, (size_t)n * sizeof(double));
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (r->zone) continue;
    for (int i = r->at; i < r->at + r->dim; i++) after[i] = 0;
  }
  for (int c = 0; c < w->dual.count; c++) after[w->dual.active[c]] += step[c];
  return true;
}

// One step, shortened until the misfit falls; false where its matrix is singular.
static bool newton_step(NUM(pbWork) *w, double *f, double *x) {
  int n = w->dual.n;
  double *after = w->dual.after;
  double *from = w->dual.from;
  double before = merit(w, f, x);

  if (!whole_step(w, f, x)) return false;

  // Backtracking on the merit of the misfits.
  memcpy(from, f, (size_t)n * sizeof(double));
  double most = longest_step(w, from, after);
  for (double alpha = most; alpha > 1e-3 * most; alpha *= 0.5) {
    for (int i = 0; i < n; i++) f[i] = from[i] + alpha * (after[i] - from[i]);
    NUM(pbDual_Residuals)(w, f, x);
    if (merit(w, f, x) < (1 - 1e-3 * alpha) * before) return true;
  }

  // No decrease. Sharp laws: the whole step, either at rounding or to start again elsewhere.
  if (w->dual.kappa > 0) return false;
  memcpy(f, after, (size_t)n * sizeof(double));
  NUM(pbDual_Residuals)(w, f, x);
  return true;
}

// Do the laws of method sweeps, whose slopes are steps, decide alike at f, x and at g, y?
static bool decide_alike(const NUM(pbWork) *w, const double *f, const double *x, const double *g, const double *y) {
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    pbLaw here, there;
    bool held = NUM(pbLaw_Held)(w, r, f + r->at, x + r->at);
    if (held != NUM(pbLaw_Held)(w, r, g + r->at, y + r->at)) return false;
    if (held) continue;

    // In the box slopes have two values, inside and outside: equal ones mean the same decision.
    NUM(pbLaw_At)(w, r, f + r->at, x + r->at, &here);
    NUM(pbLaw_At)(w, r, g + r->at, y + r->at, &there);
    for (int i = 0; i < r->dim * r->dim; i++) {
      if (here.Nw[i] != there.Nw[i] || here.Nf[i] != there.Nf[i]) return false;
    }
  }

  return true;
}

double NUM(pbDual_Distance)(NUM(pbWork) *w, const double *f, const double *x) {
  if (!whole_step(w, f, x)) return 1;

  // The longest move of a force, in units of the largest.
  double most = 0;
  double size = 1e-300;
  for (int i = 0; i < w->dual.n; i++) {
    double moved = fabs(w->dual.after[i] - f[i]);
    if (!(moved <= most)) most = moved;
    size = fmax(size, fmax(fabs(f[i]), fabs(w->dual.after[i])));
  }
  double distance = most / size;

  double *end = w->dual.from;  // residuals after the step
  NUM(pbDual_Residuals)(w, w->dual.after, end);
  return !(distance > tie) || decide_alike(w, f, x, w->dual.after, end) ? distance : fmax(1, distance);
}

// Newton's method from f, x; true where it came below the tolerance, at 0 to rounding.
bool NUM(pbDual_Polish)(NUM(pbWork) *w, double tolerance, double *f, double *x) {
  double least = INFINITY;
  for (int it = 0; it < 12; it++) {
    // At rounding, or close to it and no longer improving.
    double misfit = NUM(pbDual_Worst)(w, f, x);
    if (misfit <= fmax(tolerance, 1e-15) || (misfit <= 1e-11 && !(misfit < 0.5 * least))) return true;

    least = fmin(least, misfit);
    w->iterations++;
    if (!newton_step(w, f, x)) return false;
  }

  return NUM(pbDual_Worst)(w, f, x) <= 1e-9;
}
