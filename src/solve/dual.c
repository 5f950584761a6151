#include "solve/dual.h"

#include "contact/law.h"
#include "contact/row.h"
#include "linalg/lu.h"
#include "solve/newton.h"

typedef double quad __attribute__((vector_size(32), aligned(8), may_alias));

// y += s x
static inline void add(double *restrict y, double s, const double *restrict x, int n) {
  int i = 0;
  for (; i + 4 <= n; i += 4) *(quad *)(y + i) += s * *(const quad *)(x + i);
  for (; i < n; i++) y[i] += s * x[i];
}

// ---- A and b ----------------------------------------------------------------------------------------------------------
// Z = L^-T J' of M = L'DL, dof by dof: row i holds entry i of every row of the problem.
static void half_solve(NUM(pbWork) *w) {
  const pbTreePattern *tree = &w->t->M;
  int n = w->dual.n;
  memset(w->dual.Z, 0, (size_t)(tree->n * n) * sizeof(double));
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    for (int i = 0; i < r->n; i++) {
      double *z = w->dual.Z + w->row_dofs[r->dofs + i] * n + r->at;
      for (int j = 0; j < r->dim; j++) z[j] = re(w->row_J[r->J + j * r->n + i]);
    }
  }
  for (int i = tree->n - 1; i >= 0; i--) {
    const num *L = w->LD + tree->adr[i];
    for (int a = 0; a < tree->depth[i]; a++) {
      if (re(L[a]) != 0) add(w->dual.Z + tree->chain[tree->adr[i] + a] * n, -re(L[a]), w->dual.Z + i * n, n);
    }
  }
}

// A = Z' D^-1 Z + R
static void delassus(NUM(pbWork) *w) {
  int n = w->dual.n, *some = w->dual.active;
  double *A = w->dual.A;
  memset(A, 0, (size_t)(n * n) * sizeof(double));
  for (int i = 0; i < w->m->nv; i++) {
    const double *z = w->dual.Z + i * n, scale = re(w->Dinv[i]);
    int count = 0;
    for (int k = 0; k < n; k++) {
      if (z[k] != 0) some[count++] = k;
    }
    for (int a = 0; a < count; a++) {
      double s = z[some[a]] * scale, *row = A + some[a] * n;
      for (int b = 0; b < count; b++) row[some[b]] += s * z[some[b]];
    }
  }
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    for (int j = 0; j < r->dim; j++) A[(r->at + j) * (n + 1)] += re(r->R[j]);
  }
}

static void set_residuals(NUM(pbWork) *w, const num *a) {
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    NUM(pbRow_Times)(w, r, a, r->x);
    for (int i = 0; i < r->dim; i++) r->x[i] -= r->aref[i];
  }
}

// rho of a row: of friction, scaled, from a bound of its largest eigenvalue; where nothing moves, of the largest entry.
static void set_scale(const NUM(pbWork) *w, const NUM(pbRow) *r, double *rho) {
  double bound = 0, most = 1e-2 * re(r->diag[0]);
  const double *A = w->dual.A + r->at * (w->dual.n + 1);
  for (int i = 0; i < r->dim; i++) {
    double sum = 0;
    most = fmax(most, A[i * (w->dual.n + 1)]);
    for (int j = 1; i > 0 && is_contact(r) && j < r->dim; j++)
      sum += row_mu(w, r, i) * row_mu(w, r, j) * fabs(A[i * w->dual.n + j]);
    bound = fmax(bound, sum);
  }
  for (int i = 0; i < r->dim; i++) {
    double own = is_contact(r) && i > 0 ? bound : A[i * (w->dual.n + 1)];
    rho[i] = 1 / fmax(own, 1e-6 * most);
    w->dual.weight[r->at + i] = fmax(A[i * (w->dual.n + 1)], 1e-6 * most);
  }
}

static pbStatus assemble(NUM(pbWork) *w) {
  int n = 0;
  PB_TRY(NUM(pbSolve_Smooth)(w));
  for (int k = 0; k < w->nrow; k++) w->row[k].at = n, n += w->row[k].dim;
  w->dual.n = n;
  half_solve(w);
  delassus(w);
  set_residuals(w, w->qacc_smooth);
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    for (int j = 0; j < r->dim; j++) w->dual.b[r->at + j] = re(r->x[j]);
    set_scale(w, r, w->dual.rho + r->at);
  }
  return pb_ok;
}

// ---- sweeps -----------------------------------------------------------------------------------------------------------
// A row goes omega of the way to the forces that its own law wants; w follows.
static void relax(NUM(pbWork) *w, const NUM(pbRow) *r, double omega, double *f, double *x) {
  int n = w->dual.n;
  for (int j = 0; j < r->dim; j++) {
    double move[6];
    NUM(pbLaw_Misfit)(w, r, f + r->at, x + r->at, move);
    int together = is_contact(r) && j > 0 ? r->dim : j + 1;  // friction moves as one
    for (int i = j; i < together; i++) {
      if (move[i] == 0) continue;
      f[r->at + i] += omega * move[i];
      add(x, omega * move[i], w->dual.A + (r->at + i) * n, n);
    }
    j = together - 1;
  }
}

// x = A f + b
static void residuals(const NUM(pbWork) *w, const double *f, double *x) {
  int n = w->dual.n;
  memcpy(x, w->dual.b, (size_t)n * sizeof(double));
  for (int i = 0; i < n; i++) {
    if (f[i] != 0) add(x, f[i], w->dual.A + i * n, n);
  }
}

// Largest misfit relative to the largest force, and its row.
static double worst(NUM(pbWork) *w, const double *f, const double *x) {
  double most = 0, size = 1e-300;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    double move[6];
    NUM(pbLaw_Misfit)(w, r, f + r->at, x + r->at, move);
    for (int j = 0; j < r->dim; j++) {
      size = fmax(size, fmax(fabs(f[r->at + j]), fabs(w->dual.rho[r->at + j] * w->dual.b[r->at + j])));
      if (!(fabs(move[j]) <= most)) most = fabs(move[j]), w->worst_row = k;
    }
  }
  return most / size;
}

// ---- Newton -----------------------------------------------------------------------------------------------------------
// Zones: 0 where a row can have no force (f - rho w < 0), else 1.
static void classify(NUM(pbWork) *w, const double *f, const double *x) {
  for (int k = 0; k < w->nrow; k++) w->row[k].zone = !NUM(pbLaw_Held)(w, w->row + k, f + w->row[k].at, x + w->row[k].at);
}

// ---- the linearised laws --------------------------------------------------------------------------------------------------
// T df = rhs, T = Nw (J M^-1 J' + R) + Nf over the rows of zone 1: either as it stands, or, where there are more rows than dofs, with
// B = Nw R + Nf row by row and K = B^-1 Nw, by way of the dofs:  H h = J'B^-1 rhs,  df = B^-1 rhs - K J h,  H = M + J'K J.

// Inverse of B (n x n, destroyed); false where it is singular.
static bool invert(int n, double *B, double *inverse) {
  for (int i = 0; i < n * n; i++) inverse[i] = i % (n + 1) == 0;
  for (int k = 0; k < n; k++) {
    int p = k;
    for (int i = k + 1; i < n; i++) p = fabs(B[i * n + k]) > fabs(B[p * n + k]) ? i : p;
    if (!(fabs(B[p * n + k]) > 0)) return false;
    for (int j = 0; j < n; j++) {
      double t = B[p * n + j], u = inverse[p * n + j];
      B[p * n + j] = B[k * n + j], B[k * n + j] = t;
      inverse[p * n + j] = inverse[k * n + j], inverse[k * n + j] = u;
    }
    double scale = 1 / B[k * n + k];
    for (int j = 0; j < n; j++) B[k * n + j] *= scale, inverse[k * n + j] *= scale;
    for (int i = 0; i < n; i++) {
      double s = B[i * n + k];
      for (int j = 0; i != k && j < n; j++) B[i * n + j] -= s * B[k * n + j], inverse[i * n + j] -= s * inverse[k * n + j];
    }
  }
  return true;
}

// A row's B^-1 and K.
static bool set_block(NUM(pbWork) *w, int index, const pbLaw *law) {
  const NUM(pbRow) *r = w->row + index;
  int n = r->dim;
  double B[36], *inverse = w->dual.Binv + 36 * index, *K = w->dual.K + 36 * index;
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) B[i * n + j] = law->Nw[i * n + j] * re(r->R[j]) + law->Nf[i * n + j];
  }
  if (!invert(n, B, inverse)) return false;
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
    double KJ[6] = {0};
    for (int k = 0; k < r->dim; k++) {
      for (int l = 0; l < r->dim; l++) KJ[k] += K[k * r->dim + l] * re(w->row_J[r->J + l * r->n + j]);
    }
    for (int i = 0; i < r->n; i++) {
      double *entry = w->dual.LU + dofs[i] * w->m->nv + dofs[j];
      for (int k = 0; k < r->dim; k++) *entry += re(w->row_J[r->J + k * r->n + i]) * KJ[k];
    }
  }
}

static void dense_mass(NUM(pbWork) *w) {
  int nv = w->m->nv;
  const pbTreePattern *M = &w->t->M;
  memset(w->dual.LU, 0, (size_t)(nv * nv) * sizeof(double));
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
    for (int j = 0; j < r->dim; j++) {
      double s = law->Nw[i * r->dim + j];
      const double *A = w->dual.A + (r->at + j) * w->dual.n;
      for (int c = 0; s != 0 && c < count; c++) row[c] += s * A[w->dual.active[c]];
      row[at + j] += law->Nf[i * r->dim + j];
    }
  }
}

static pbStatus factor_laws(NUM(pbWork) *w, const double *f, const double *x) {
  int count = 0;
  for (int k = 0; k < w->nrow; k++) {
    for (int j = 0; w->row[k].zone && j < w->row[k].dim; j++) w->dual.active[count++] = w->row[k].at + j;
  }
  w->dual.count = count;
  w->dual.condensed = count > w->m->nv;
  if (w->dual.condensed) dense_mass(w);
  for (int k = 0, at = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    pbLaw law;
    if (!r->zone) continue;
    NUM(pbLaw_At)(w, r, f + r->at, x + r->at, &law);
    if (!w->dual.condensed) add_law(w, k, at, &law);
    else if (set_block(w, k, &law)) add_block(w, k);
    else return pb_singular;
    at += r->dim;
  }
  return NUM(pbLu_Factor)(w->dual.LU, w->dual.perm, w->dual.condensed ? w->m->nv : count) ? pb_ok : pb_singular;
}

// out = B x of a block of n numbers.
static void block_times(int n, const double *B, const double *x, double *out) {
  for (int i = 0; i < n; i++) {
    out[i] = 0;
    for (int j = 0; j < n; j++) out[i] += B[i * n + j] * x[j];
  }
}

// x (count numbers, room for twice) := T^-1 x
static void solve_laws(NUM(pbWork) *w, double *x) {
  double *h = w->dual.h;
  if (!w->dual.condensed) {
    NUM(pbLu_Solve)(w->dual.LU, w->dual.perm, w->dual.count, x);
    return;
  }
  memset(h, 0, (size_t)w->m->nv * sizeof(double));
  for (int k = 0, at = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    double g[6];
    if (!r->zone) continue;
    block_times(r->dim, w->dual.Binv + 36 * k, x + at, g);
    for (int i = 0; i < r->dim; i++, at++) {
      x[at] = g[i];
      for (int j = 0; j < r->n; j++) h[w->row_dofs[r->dofs + j]] += re(w->row_J[r->J + i * r->n + j]) * g[i];
    }
  }
  NUM(pbLu_Solve)(w->dual.LU, w->dual.perm, w->m->nv, h);
  for (int k = 0, at = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    double Jh[6] = {0}, KJh[6];
    if (!r->zone) continue;
    for (int i = 0; i < r->dim; i++) {
      for (int j = 0; j < r->n; j++) Jh[i] += re(w->row_J[r->J + i * r->n + j]) * h[w->row_dofs[r->dofs + j]];
    }
    block_times(r->dim, w->dual.K + 36 * k, Jh, KJh);
    for (int i = 0; i < r->dim; i++, at++) x[at] -= KJh[i];
  }
}

// Right-hand side of Newton's step: -N - Nw (x_after - x), where the other rows let go (x_after: the residuals then).
static void newton_rhs(const NUM(pbWork) *w, const double *f, const double *x, const double *x_after, double *rhs) {
  for (int k = 0, at = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    pbLaw law;
    double move[6];
    if (!r->zone) continue;
    NUM(pbLaw_At)(w, r, f + r->at, x + r->at, &law);
    NUM(pbLaw_Misfit)(w, r, f + r->at, x + r->at, move);
    for (int i = 0; i < r->dim; i++, at++) {
      rhs[at] = is_contact(r) && i > 0 ? move[i] / row_mu(w, r, i) : move[i];
      for (int j = 0; j < r->dim; j++) rhs[at] -= law.Nw[i * r->dim + j] * (x_after[r->at + j] - x[r->at + j]);
    }
  }
}

// Misfits as an energy.
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

// How far towards `after`: with smoothed laws, forces of one sign stay inside.
static double longest(const NUM(pbWork) *w, const double *from, const double *after) {
  double alpha = 1;
  for (int k = 0; k < w->nrow && w->dual.kappa > 0; k++) {
    int i = w->row[k].at;
    bool signed_force = is_contact(w->row + k) || w->row[k].kind == pb_rowLimit;
    if (signed_force && after[i] < 0.05 * from[i]) alpha = fmin(alpha, 0.95 * from[i] / (from[i] - after[i]));
  }
  return alpha;
}

// One step of Newton's method on the misfit, shortened until the misfit falls; false where its matrix is singular.
static bool newton_step(NUM(pbWork) *w, double *f, double *x) {
  int n = w->dual.n;
  double *step = w->dual.step, *after = w->dual.after, *from = w->dual.from, before = merit(w, f, x);
  memcpy(after, x, (size_t)n * sizeof(double));
  classify(w, f, x);
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    for (int i = r->at; !r->zone && i < r->at + r->dim; i++) {
      if (f[i] != 0) add(after, -f[i], w->dual.A + i * n, n);
    }
  }
  if (factor_laws(w, f, x) != pb_ok) return false;
  newton_rhs(w, f, x, after, step);
  solve_laws(w, step);
  memcpy(from, f, (size_t)n * sizeof(double));
  memcpy(after, f, (size_t)n * sizeof(double));  // now the forces at the end of the whole step
  for (int k = 0; k < w->nrow; k++) {
    for (int i = w->row[k].at; !w->row[k].zone && i < w->row[k].at + w->row[k].dim; i++) after[i] = 0;
  }
  for (int c = 0; c < w->dual.count; c++) after[w->dual.active[c]] += step[c];
  double most = longest(w, from, after);
  for (double alpha = most; alpha > 1e-3 * most; alpha *= 0.5) {
    for (int i = 0; i < n; i++) f[i] = from[i] + alpha * (after[i] - from[i]);
    residuals(w, f, x);
    if (merit(w, f, x) < (1 - 1e-3 * alpha) * before) return true;
  }
  if (w->dual.kappa > 0) return false;
  memcpy(f, after, (size_t)n * sizeof(double));  // at rounding, or a fresh start elsewhere
  residuals(w, f, x);
  return true;
}

// Newton's method from f, x; true where it came below the tolerance, at 0 to rounding.
static bool polish(NUM(pbWork) *w, double tolerance, double *f, double *x) {
  double least = INFINITY;
  for (int it = 0; it < 12; it++) {
    double e = worst(w, f, x);
    if (e <= fmax(tolerance, 1e-15) || (e <= 1e-11 && !(e < 0.5 * least))) return true;
    least = fmin(least, e);
    w->iterations++;
    if (!newton_step(w, f, x)) return false;
  }
  return worst(w, f, x) <= 1e-9;
}

static void sweep(NUM(pbWork) *w, int count, double *f, double *x) {
  for (int s = 0; s < count; s++) {
    for (int k = 0; k < w->nrow; k++) relax(w, w->row + k, 1, f, x);
  }
}

// Typical force, the scale of kappa.
static double force_scale(const NUM(pbWork) *w) {
  double most = 1e-300;
  for (int k = 0; k < w->nrow; k++) {
    int i = w->row[k].at;
    most = fmax(most, fabs(w->dual.b[i]) / w->dual.weight[i]);
  }
  return most;
}

// ---- along the central path ---------------------------------------------------------------------------------------------
// The laws smoothed by kappa = exp(2 tau) have solutions f(tau) on a curve, which leads to a solution of the sharp laws but may turn
// back on its way: followed by its arc length, with Newton's method across it.
static void set_tau(NUM(pbWork) *w, double tau) { w->dual.kappa = exp(2 * tau); }

// rhs (of Newton's step) at f, tau, all rows in zone 1.
static void equations(NUM(pbWork) *w, const double *f, double tau, double *x, double *rhs) {
  set_tau(w, tau);
  residuals(w, f, x);
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    NUM(pbLaw_Misfit)(w, r, f + r->at, x + r->at, rhs + r->at);
    for (int j = 1; is_contact(r) && j < r->dim; j++) rhs[r->at + j] /= row_mu(w, r, j);
  }
}

// Newton's step at tau held (-> across) and the move of f with tau (-> by_tau). False where the matrix is singular.
static bool directions(NUM(pbWork) *w, const double *f, double tau, double *across, double *by_tau) {
  static const double eps = 1e-5;
  double *x = w->dual.after;
  equations(w, f, tau + eps, x, across);
  memcpy(by_tau, across, (size_t)w->dual.n * sizeof(double));
  equations(w, f, tau - eps, x, across);
  for (int i = 0; i < w->dual.n; i++) by_tau[i] = (by_tau[i] - across[i]) / (2 * eps);
  equations(w, f, tau, x, across);
  classify(w, f, x);
  w->iterations++;
  if (factor_laws(w, f, x) != pb_ok) return false;
  memcpy(w->dual.step, across, (size_t)w->dual.n * sizeof(double));
  solve_laws(w, w->dual.step);
  memcpy(across, w->dual.step, (size_t)w->dual.n * sizeof(double));
  memcpy(w->dual.step, by_tau, (size_t)w->dual.n * sizeof(double));
  solve_laws(w, w->dual.step);
  memcpy(by_tau, w->dual.step, (size_t)w->dual.n * sizeof(double));
  return true;
}

static double product(const NUM(pbWork) *w, const double *a, const double *b, double F) {
  double sum = 0;
  for (int i = 0; i < w->dual.n; i++) sum += a[i] * b[i];
  return sum / (F * F);
}

typedef struct path {
  double *f, *tangent, *trial, *across, *by_tau;
  double tau, by, F;  // by: of the tangent, d tau / ds
} path;

// Back onto the path, square to its tangent, from p->trial and *tau; true where it is reached.
static bool correct(NUM(pbWork) *w, const path *p, double *tau) {
  for (int it = 0; it < 6; it++) {
    if (!directions(w, p->trial, *tau, p->across, p->by_tau)) return false;
    double move = -product(w, p->tangent, p->across, p->F) / (product(w, p->tangent, p->by_tau, p->F) + p->by), size = 0, far = 0;
    if (!(fabs(move) < 2)) return false;
    for (int i = 0; i < w->dual.n; i++) {
      double d = p->across[i] + move * p->by_tau[i];
      p->trial[i] += d;
      size = fmax(size, fabs(p->trial[i])), far = fmax(far, fabs(d));
    }
    *tau += move;
    for (int k = 0; k < w->nrow; k++) {
      bool one_sided = is_contact(w->row + k) || w->row[k].kind == pb_rowLimit;
      if (one_sided && !(p->trial[w->row[k].at] > 0)) return false;
    }
    if (far <= 1e-4 * fmin(size, exp(*tau) * 10)) return true;
  }
  return false;
}

// The tangent at p->f, onward.
static bool turn(NUM(pbWork) *w, path *p) {
  if (!directions(w, p->f, p->tau, p->across, p->by_tau)) return false;
  double size = sqrt(1 + product(w, p->by_tau, p->by_tau, p->F));
  double onward = product(w, p->tangent, p->by_tau, p->F) + p->by < 0 ? -1 : 1;
  for (int i = 0; i < w->dual.n; i++) p->tangent[i] = onward * p->by_tau[i] / size;
  p->by = onward / size;
  return true;
}

static bool sharp(NUM(pbWork) *w, const path *p) {
  w->dual.kappa = 0;
  memcpy(w->dual.trial, p->f, (size_t)w->dual.n * sizeof(double));
  residuals(w, w->dual.trial, w->dual.trial_x);
  return polish(w, 0, w->dual.trial, w->dual.trial_x);
}

// Onto the path where it is easy: forces as large as kappa's root.
static bool begin_path(NUM(pbWork) *w, path *p, double sigma) {
  for (; sigma < 1e6; sigma *= 10) {
    p->tau = log(sigma * p->F);
    set_tau(w, p->tau);
    for (int k = 0; k < w->nrow; k++) {
      const NUM(pbRow) *r = w->row + k;
      for (int j = 0; j < r->dim; j++) p->f[r->at + j] = 0;
      if (is_contact(r) || r->kind == pb_rowLimit) p->f[r->at] = sigma * p->F;
    }
    residuals(w, p->f, w->dual.trial_x);
    if (!polish(w, 1e-6, p->f, w->dual.trial_x)) continue;
    for (int i = 0; i < w->dual.n; i++) p->F = fmax(p->F, fabs(p->f[i]));
    return true;
  }
  return false;
}

// The problem with a proximal term about the forces `at`: the diagonal of A gets a share of the rows' weight more, b loses as much.
static void centre(NUM(pbWork) *w, double share, const double *at) {
  for (int i = 0; i < w->dual.n; i++) {
    w->dual.A[i * (w->dual.n + 1)] = w->dual.diagonal[i] + share * w->dual.weight[i];
    w->dual.b[i] = w->dual.origin[i] - share * w->dual.weight[i] * at[i];
  }
}

// From a point near the end of the path: redundant rows leave forces so open that Newton's method on the sharp laws runs away along
// them. About the forces there are it does not, and what the proximal term holds back goes with each repetition (Rockafellar 1976).
static bool approach(NUM(pbWork) *w, double share, double *f, double *x) {
  size_t bytes = (size_t)w->dual.n * sizeof(double);
  double *trial = w->dual.trial, *trial_x = w->dual.trial_x, e = INFINITY;
  memcpy(w->dual.origin, w->dual.b, bytes);
  for (int i = 0; i < w->dual.n; i++) w->dual.diagonal[i] = w->dual.A[i * (w->dual.n + 1)];
  w->dual.kappa = 0;
  memcpy(trial, f, bytes);
  for (int round = 0; round < 12 && e > 1e-12; round++) {
    centre(w, share, trial);
    residuals(w, trial, trial_x);
    if (!polish(w, 0, trial, trial_x)) break;
    centre(w, 0, trial);
    residuals(w, trial, trial_x);
    double now = worst(w, trial, trial_x);
    if (!(now < 0.9 * e)) break;
    e = now;
    memcpy(f, trial, bytes), memcpy(x, trial_x, bytes);
  }
  centre(w, 0, f);
  memcpy(w->dual.b, w->dual.origin, bytes);
  return e <= 1e-9;
}

// Where the sharp laws are degenerate to rounding (between sticking and sliding, a force of nearly nothing): the point of the path
// that was reached, if it is close to its end. The laws stay smoothed by that little, and so do the derivatives.
static bool near_enough(NUM(pbWork) *w, const path *p, double *x) {
  if (p->tau > log(1e-4 * p->F)) return false;
  size_t bytes = (size_t)w->dual.n * sizeof(double);
  memcpy(p->across, p->f, bytes);
  for (double share = 1e-2; share > 1e-7; share *= 1e-2) {
    if (approach(w, share, p->f, x)) return true;
    memcpy(p->f, p->across, bytes);
  }
  set_tau(w, p->tau);
  residuals(w, p->f, x);
  return polish(w, 0, p->f, x);
}

static bool follow(NUM(pbWork) *w, double sigma, double *f, double *x) {
  size_t bytes = (size_t)w->dual.n * sizeof(double);
  path p = {f,  w->dual.path,  w->dual.path + w->dual.n, w->dual.path + 2 * w->dual.n, w->dual.path + 3 * w->dual.n, 0,
            -1, force_scale(w)};
  memset(p.tangent, 0, bytes);
  if (!begin_path(w, &p, sigma) || !turn(w, &p)) return false;
  double ds = 0.5, next = log(1e-2 * p.F), end = log(1e3 * p.F);
  for (int step = 0; step < 400 && ds > 1e-7; step++) {
    double tau = p.tau + ds * p.by;
    for (int i = 0; i < w->dual.n; i++) p.trial[i] = p.f[i] + ds * p.tangent[i];
    bool good = correct(w, &p, &tau);
    if (!good) {
      ds *= 0.4;
      continue;
    }
    memcpy(p.f, p.trial, bytes);
    p.tau = tau;
    if (!turn(w, &p) || p.tau > end) return false;
    ds = fmin(2 * ds, 2);
    if (p.tau > next) continue;
    next = p.tau - 1;
    if (!sharp(w, &p)) continue;
    memcpy(f, w->dual.trial, bytes), memcpy(x, w->dual.trial_x, bytes);
    return true;
  }
  return near_enough(w, &p, x);
}

// ---- sweeps alone ---------------------------------------------------------------------------------------------------------
// A bound of the largest eigenvalue of rho A, by a power iteration.
static double largest_eigenvalue(NUM(pbWork) *w) {
  int n = w->dual.n;
  double *v = w->dual.trial, *Av = w->dual.trial_x, size = 1;
  for (int i = 0; i < n; i++) v[i] = 1 + 0.1 * (i % 7);
  for (int it = 0; it < 40; it++) {
    memset(Av, 0, (size_t)n * sizeof(double));
    for (int i = 0; i < n; i++) add(Av, v[i], w->dual.A + i * n, n);
    size = 0;
    for (int i = 0; i < n; i++) Av[i] *= w->dual.rho[i], size = fmax(size, fabs(Av[i]));
    for (int i = 0; i < n; i++) v[i] = Av[i] / size;
  }
  return size;
}

// All rows at once from the same residuals.
static void sweep_together(NUM(pbWork) *w, double omega, double *f, double *x) {
  double *move = w->dual.trial;
  for (int k = 0; k < w->nrow; k++) NUM(pbLaw_Misfit)(w, w->row + k, f + w->row[k].at, x + w->row[k].at, move + w->row[k].at);
  for (int i = 0; i < w->dual.n; i++) f[i] += omega * move[i];
  residuals(w, f, x);
}

// So many sweeps as the settings say; the residual tells what they left.
static bool sweep_only(NUM(pbWork) *w) {
  const pbContactSettings *c = &w->m->contact;
  double *f = w->dual.f, *x = w->dual.x,
         omega = c->omega > 0                 ? c->omega
                 : c->order == pb_orderJacobi ? fmin(1, 1.8 / largest_eigenvalue(w))
                                              : 1;
  for (w->iterations = 0; w->iterations < c->sweeps; w->iterations++) {
    for (int k = 0; c->order == pb_orderGaussSeidel && k < w->nrow; k++) relax(w, w->row + k, omega, f, x);
    if (c->order == pb_orderJacobi) sweep_together(w, omega, f, x);
  }
  w->residual = worst(w, f, x);
  return w->residual - w->residual == 0;  // else they grow beyond bounds
}

static bool find(NUM(pbWork) *w) {
  size_t bytes = (size_t)w->dual.n * sizeof(double);
  double *f = w->dual.f, *x = w->dual.x;
  w->iterations = 0;
  w->dual.kappa = 0;
  memset(f, 0, bytes);
  memcpy(x, w->dual.b, bytes);
  if (w->m->contact.method == pb_contactSweeps) return sweep_only(w);
  sweep(w, 8, f, x);
  memcpy(w->dual.trial, f, bytes), memcpy(w->dual.trial_x, x, bytes);
  bool found = polish(w, 0, w->dual.trial, w->dual.trial_x);
  if (found) memcpy(f, w->dual.trial, bytes), memcpy(x, w->dual.trial_x, bytes);
  else found = approach(w, 1e-3, f, x) || follow(w, 1, f, x) || follow(w, 1e3, f, x);  // the second start is beyond any turn back
  double kappa = w->dual.kappa;
  w->dual.kappa = 0;
  w->residual = worst(w, f, x);
  w->dual.kappa = found ? kappa : 0;
  return found;
}

// ---- the solution ------------------------------------------------------------------------------------------------------
// Ma, qacc and x of the rows' forces.
static void accelerate(NUM(pbWork) *w) {
  size_t bytes = (size_t)w->m->nv * sizeof(num);
  memset(w->qfrc_constraint, 0, bytes);
  for (int k = 0; k < w->nrow; k++) {
    if (w->row[k].zone) NUM(pbRow_AddForce)(w, w->row + k, w->row[k].f, w->qfrc_constraint);
  }
  for (int i = 0; i < w->m->nv; i++) w->Ma[i] = w->qfrc_smooth[i] + w->qfrc_constraint[i];
  memcpy(w->qacc, w->Ma, bytes);
  NUM(pbTree_Solve)(&w->t->M, w->LD, w->Dinv, w->qacc);
  set_residuals(w, w->qacc);
}

static void set_forces(NUM(pbWork) *w) {
  classify(w, w->dual.f, w->dual.x);
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    for (int j = 0; j < r->dim; j++) r->f[j] = r->zone ? w->dual.f[r->at + j] : 0;
  }
  accelerate(w);
}

pbStatus NUM(pbDual_Factor)(NUM(pbWork) *w) { return factor_laws(w, w->dual.f, w->dual.x); }

// Once more for what rounding left: by way of the dofs, forces far apart in size (rows that nothing can move) lose digits.
static void refine(NUM(pbWork) *w, const double *rhs, double *step) {
  double *left = w->dual.path, *moved = w->dual.after;
  int count = w->dual.count;
  memset(moved, 0, (size_t)w->dual.n * sizeof(double));
  for (int c = 0; c < count; c++) add(moved, step[c], w->dual.A + w->dual.active[c] * w->dual.n, w->dual.n);
  for (int k = 0, at = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    int first = at;
    pbLaw law;
    if (!r->zone) continue;
    NUM(pbLaw_Here)(w, r, &law);
    for (int i = 0; i < r->dim; i++, at++) {
      left[at] = rhs[at];
      for (int j = 0; j < r->dim; j++)
        left[at] -= law.Nw[i * r->dim + j] * moved[r->at + j] + law.Nf[i * r->dim + j] * step[first + j];
    }
  }
  solve_laws(w, left);
  for (int c = 0; c < count; c++) step[c] += left[c];
}

// Imaginary parts of f: T df = -(Nw dw + Nmu dmu + Nloss dloss), dw at the given f.
static pbStatus carry_derivative(NUM(pbWork) *w) {
  if (!PB_IS_COMPLEX) return pb_ok;
  double *step = w->dual.step, *rhs = w->dual.from;
  int at = 0;
  PB_TRY(NUM(pbDual_Factor)(w));
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    pbLaw law;
    if (!r->zone) continue;
    NUM(pbLaw_At)(w, r, w->dual.f + r->at, w->dual.x + r->at, &law);
    for (int i = 0; i < r->dim; i++, at++) {
      step[at] = -law.Nloss * im(r->loss);
      for (int j = 0; j < r->dim; j++) step[at] -= law.Nw[i * r->dim + j] * (im(r->x[j]) + im(r->R[j]) * re(r->f[j]));
      for (int j = 1; is_contact(r) && j < r->dim; j++)
        step[at] -= law.Nmu[i * (r->dim - 1) + j - 1] * im(w->contact[r->id].friction[j - 1]);
    }
  }
  memcpy(rhs, step, (size_t)w->dual.count * sizeof(double));
  solve_laws(w, step);
  if (w->dual.condensed) refine(w, rhs, step);
  at = 0;
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    for (int j = 0; r->zone && j < r->dim; j++) r->f[j] = num_make(re(r->f[j]), step[at++]);
  }
  accelerate(w);
  return pb_ok;
}

pbStatus NUM(pbDual_Solve)(NUM(pbWork) *w) {
  PB_TRY(assemble(w));
  if (!find(w)) return pb_no_convergence;
  set_forces(w);
  return carry_derivative(w);
}
