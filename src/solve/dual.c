#include "solve/dual.h"

#include "contact/law.h"
#include "contact/row.h"
#include "solve/dual_parts.h"
#include "solve/newton.h"

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
      if (re(L[a]) != 0) pb_axpy(w->dual.Z + tree->chain[tree->adr[i] + a] * n, -re(L[a]), w->dual.Z + i * n, n);
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
      pb_axpy(x, omega * move[i], w->dual.A + (r->at + i) * n, n);
    }
    j = together - 1;
  }
}

// x = A f + b
void NUM(pbDual_Residuals)(const NUM(pbWork) *w, const double *f, double *x) {
  int n = w->dual.n;
  memcpy(x, w->dual.b, (size_t)n * sizeof(double));
  for (int i = 0; i < n; i++) {
    if (f[i] != 0) pb_axpy(x, f[i], w->dual.A + i * n, n);
  }
}

// Largest misfit relative to the largest force, and its row.
double NUM(pbDual_Worst)(NUM(pbWork) *w, const double *f, const double *x) {
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

static void sweep(NUM(pbWork) *w, int count, double *f, double *x) {
  for (int s = 0; s < count; s++) {
    for (int k = 0; k < w->nrow; k++) relax(w, w->row + k, 1, f, x);
  }
}

// ---- sweeps alone ---------------------------------------------------------------------------------------------------------
// A bound of the largest eigenvalue of rho A, by a power iteration.
static double largest_eigenvalue(NUM(pbWork) *w) {
  int n = w->dual.n;
  double *v = w->dual.trial, *Av = w->dual.trial_x, size = 1;
  for (int i = 0; i < n; i++) v[i] = 1 + 0.1 * (i % 7);
  for (int it = 0; it < 40; it++) {
    memset(Av, 0, (size_t)n * sizeof(double));
    for (int i = 0; i < n; i++) pb_axpy(Av, v[i], w->dual.A + i * n, n);
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
  NUM(pbDual_Residuals)(w, f, x);
}

// So many sweeps as the settings say; the residual tells what they left. The last corrections may be small because they are slow
// to come: what is left counts as well.
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
  w->residual = NUM(pbDual_Worst)(w, f, x);
  if (w->residual - w->residual != 0) return false;  // they grow beyond bounds
  w->residual = fmax(w->residual, NUM(pbDual_Distance)(w, f, x));
  return true;
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
  bool found = NUM(pbDual_Polish)(w, 0, w->dual.trial, w->dual.trial_x);
  if (found) memcpy(f, w->dual.trial, bytes), memcpy(x, w->dual.trial_x, bytes);
  else
    found = NUM(pbDual_Approach)(w, 1e-3, f, x) || NUM(pbDual_Follow)(w, 1, f, x) ||
            NUM(pbDual_Follow)(w, 1e3, f, x);  // the second start is beyond any turn back
  double kappa = w->dual.kappa;
  w->dual.kappa = 0;
  w->residual = NUM(pbDual_Worst)(w, f, x);
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
  NUM(pbDual_Classify)(w, w->dual.f, w->dual.x);
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    for (int j = 0; j < r->dim; j++) r->f[j] = r->zone ? w->dual.f[r->at + j] : 0;
  }
  accelerate(w);
}

pbStatus NUM(pbDual_Factor)(NUM(pbWork) *w) { return NUM(pbDual_FactorLaws)(w, w->dual.f, w->dual.x); }

// Once more for what rounding left: by way of the dofs, forces far apart in size (rows that nothing can move) lose digits.
static void refine(NUM(pbWork) *w, const double *rhs, double *step) {
  double *left = w->dual.path, *moved = w->dual.after;
  int count = w->dual.count;
  memset(moved, 0, (size_t)w->dual.n * sizeof(double));
  for (int c = 0; c < count; c++) pb_axpy(moved, step[c], w->dual.A + w->dual.active[c] * w->dual.n, w->dual.n);
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
  NUM(pbDual_SolveLaws)(w, left);
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
        step[at] -= law.Nmu[i * (r->dim - 1) + j - 1] * im(w->contact[r->contact].friction[j - 1]);
    }
  }
  memcpy(rhs, step, (size_t)w->dual.count * sizeof(double));
  NUM(pbDual_SolveLaws)(w, step);
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
