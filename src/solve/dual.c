// The solver of hard contact (dual.h): the dual problem A f + b, projected Gauss-Seidel (Jacobi), and which of the methods finds
// the forces.
//
// Memory. In w->dual, for at most `max` numbers of all rows; where a step has more of them room grows before anything is written
// there. A = J M^-1 J' whole (n x n), Z = L^-T J' by which it is made (nv x n), and a dozen vectors.
// The matrix of Newton's method is that of the active rows, or, where these are more than the dofs, one of nv x nv (`condensed`),
// by which forces far apart in size lose digits: forward derivatives are refined with A.
//
// Which method. Coulomb's law is the minimum of nothing, so no single method finds it from everywhere. Methods lcp and cones go
// from the quick to the safe: eight sweeps of projected Gauss-Seidel, Newton's method from there (dual_newton.c), the proximal
// point method for rows that leave forces undetermined (dual_path.c), the central path, which may turn back, from two starts.
// Forces that are found are then sought to the digits of the motion (dual_jam.c). Of 800 random starts in which bodies overlap
// floor, walls and each other (tests/oracle/jammed_starts.py) 162 once had no solution. Two causes are gone: a softness that is a
// share of an inverse weight that is zero where a center of mass cannot move, and a matrix over the dofs without what the
// proximal method adds to the diagonal. For the rest rows are softened until Newton's method solves them from nothing, and the
// softness is taken back in steps; smoothed laws come last.
//
// What sweeps leave. Method sweeps ends after so many iterations, whatever is left. Its residual was first the size of the last
// corrections, which are small wherever it converges slowly: gradients off by a factor of three counted as converged. Now one
// step of Newton's method tells how far the forces are from the fixed point (pbDual_Distance).
// Tests: tests/unit/test_hard.c, tests/oracle/test_jammed.py.
#include "solve/dual.h"

#include "base/assert.h"
#include "contact/law.h"
#include "contact/row.h"
#include "eval/work.h"
#include "solve/dual_parts.h"
#include "solve/newton.h"

// ---- A and b ----------------------------------------------------------------------------------------------------------
// Z = L^-T J' of M = L'DL, dof by dof: row i holds entry i of every row of the problem.
static void half_solve(NUM(pbWork) *w) {
  const pbTreePattern *tree = &w->t->M;
  int n = w->dual.n;

  memset(w->dual.Z, 0, (size_t)(tree->n * n) * sizeof(double));

  // J', dense.
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    for (int i = 0; i < r->n; i++) {
      double *z = w->dual.Z + w->row_dofs[r->dofs + i] * n + r->at;
      for (int j = 0; j < r->dim; j++) z[j] = re(w->row_J[r->J + j * r->n + i]);
    }
  }

  // Backward substitution along the chains of the tree.
  for (int i = tree->n - 1; i >= 0; i--) {
    const num *L = w->LD + tree->adr[i];
    for (int a = 0; a < tree->depth[i]; a++) {
      if (re(L[a]) != 0) pb_axpy(w->dual.Z + tree->chain[tree->adr[i] + a] * n, -re(L[a]), w->dual.Z + i * n, n);
    }
  }
}

// Symmetric but for rounding, with no negative diagonal entry?
static bool is_symmetric(const double *A, int n) {
  for (int i = 0; i < n; i++) {
    double own = A[i * n + i];
    if (own < 0) return false;
    for (int j = 0; j < i; j++) {
      if (fabs(A[i * n + j] - A[j * n + i]) > 1e-9 * (own + A[j * n + j])) return false;
    }
  }
  return true;
}

// The Delassus matrix A = Z' D^-1 Z + R.
static void set_delassus(NUM(pbWork) *w) {
  int n = w->dual.n;
  int *nonzero = w->dual.active;
  double *A = w->dual.A;

  memset(A, 0, (size_t)(n * n) * sizeof(double));

  // Dof by dof: the outer product of the rows that it moves.
  for (int i = 0; i < w->m->nv; i++) {
    const double *z = w->dual.Z + i * n;
    double scale = re(w->Dinv[i]);
    int count = 0;
    for (int k = 0; k < n; k++) {
      if (z[k] != 0) nonzero[count++] = k;
    }
    for (int a = 0; a < count; a++) {
      double s = z[nonzero[a]] * scale;
      double *row = A + nonzero[a] * n;
      for (int b = 0; b < count; b++) row[nonzero[b]] += s * z[nonzero[b]];
    }
  }

  PB_VALIDATE(is_symmetric(A, n));

  // Regularization makes A positive definite.
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    for (int j = 0; j < r->dim; j++) A[(r->at + j) * (n + 1)] += re(r->R[j]);
  }
}

// x = J a - aref of every row.
static void set_residuals(NUM(pbWork) *w, const num *a) {
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    NUM(pbRow_Times)(&w->constraints, r, a, r->x);
    for (int i = 0; i < r->dim; i++) r->x[i] -= r->aref[i];
  }
}

// rho of a row, and its weights (diagonal of A): of friction, scaled, from a bound of its largest eigenvalue (Gershgorin); where
// nothing moves, of the largest entry.
static void set_scale(const NUM(pbWork) *w, const NUM(pbRow) *r, double *rho) {
  const double *A = w->dual.A + r->at * (w->dual.n + 1);
  double bound = 0;
  double most = 1e-2 * re(r->diag[0]);

  for (int i = 0; i < r->dim; i++) {
    most = fmax(most, A[i * (w->dual.n + 1)]);
    if (i == 0 || !is_contact(r)) continue;

    double sum = 0;
    for (int j = 1; j < r->dim; j++) sum += row_mu(w, r, i) * row_mu(w, r, j) * fabs(A[i * w->dual.n + j]);
    bound = fmax(bound, sum);
  }

  // rho is the inverse of what a unit of force changes in the row itself.
  for (int i = 0; i < r->dim; i++) {
    double diagonal = A[i * (w->dual.n + 1)];
    double own = is_contact(r) && i > 0 ? bound : diagonal;
    double least = i == 0 && is_contact(r) ? 1e-2 * re(r->diag[0]) : 1e-6 * most;
    rho[i] = 1 / fmax(own, least);
    w->dual.weight[r->at + i] = fmax(diagonal, least);
    PB_ASSERT(!(rho[i] <= 0));
  }
}

void NUM(pbDual_SetScales)(NUM(pbWork) *w) {
  for (int k = 0; k < w->nrow; k++) set_scale(w, w->row + k, w->dual.rho + w->row[k].at);
}

static pbStatus assemble(NUM(pbWork) *w) {
  // Where each row begins among all numbers.
  int n = 0;
  PB_TRY(NUM(pbSolve_Smooth)(w));
  for (int k = 0; k < w->nrow; k++) {
    w->row[k].at = n;
    n += w->row[k].dim;
  }
  PB_TRY(NUM(pbWork_ReserveDual)(w, n, w->nrow));
  PB_ASSERT(n <= w->dual.max && w->nrow <= w->dual.max_rows);
  w->dual.n = n;
  memset(w->dual.softness, 0, (size_t)n * sizeof(double));
  half_solve(w);
  set_delassus(w);

  // b: the residuals without forces.
  set_residuals(w, w->qacc_smooth);
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    for (int j = 0; j < r->dim; j++) w->dual.b[r->at + j] = re(r->x[j]);
  }

  NUM(pbDual_SetScales)(w);
  return pb_ok;
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
  double most = 0;
  double size = 1e-300;

  // The scale: forces, and those that the residuals without force ask for.
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    double move[6];
    NUM(pbLaw_Misfit)(w, r, f + r->at, x + r->at, move);
    for (int j = 0; j < r->dim; j++) {
      size = fmax(size, fmax(fabs(f[r->at + j]), fabs(w->dual.rho[r->at + j] * w->dual.b[r->at + j])));
      if (fabs(move[j]) <= most) continue;
      most = fabs(move[j]);  // also where it is no number
      w->worst_row = k;
    }
  }

  return most / size;
}

// ---- projected Gauss-Seidel -------------------------------------------------------------------------------------------
// Moves the forces from number `from` to `to` of a row by omega times `move`; w follows.
static void add_move(NUM(pbWork) *w, const NUM(pbRow) *r, int from, int to, double omega, const double *move, double *f,
                     double *x) {
  int n = w->dual.n;
  for (int i = from; i < to; i++) {
    if (move[i] == 0) continue;
    f[r->at + i] += omega * move[i];
    pb_axpy(x, omega * move[i], w->dual.A + (r->at + i) * n, n);
  }
}

// Relaxes a row towards the forces that its own law wants, number by number; a contact's friction moves as one, at its new
// normal force.
static void relax(NUM(pbWork) *w, const NUM(pbRow) *r, double omega, double *f, double *x) {
  double move[6];
  int j = 0;

  while (j < r->dim) {
    int next = is_contact(r) && j > 0 ? r->dim : j + 1;
    NUM(pbLaw_Misfit)(w, r, f + r->at, x + r->at, move);
    add_move(w, r, j, next, omega, move, f, x);
    j = next;
  }
}

static void relax_all(NUM(pbWork) *w, double omega, double *f, double *x) {
  for (int k = 0; k < w->nrow; k++) relax(w, w->row + k, omega, f, x);
}

// Jacobi: all rows at once from the same residuals.
static void relax_together(NUM(pbWork) *w, double omega, double *f, double *x) {
  double *move = w->dual.trial;
  for (int k = 0; k < w->nrow; k++) {
    int at = w->row[k].at;
    NUM(pbLaw_Misfit)(w, w->row + k, f + at, x + at, move + at);
  }
  for (int i = 0; i < w->dual.n; i++) f[i] += omega * move[i];
  NUM(pbDual_Residuals)(w, f, x);
}

// A bound of the largest eigenvalue of rho A, by a power iteration.
static double largest_eigenvalue(NUM(pbWork) *w) {
  int n = w->dual.n;
  double *v = w->dual.trial;
  double *Av = w->dual.trial_x;
  double size = 1;

  // A start that no symmetry of a model shares; the norm is the largest entry.
  for (int i = 0; i < n; i++) v[i] = 1 + 0.1 * (i % 7);

  for (int it = 0; it < 40; it++) {
    memset(Av, 0, (size_t)n * sizeof(double));
    for (int i = 0; i < n; i++) pb_axpy(Av, v[i], w->dual.A + i * n, n);

    size = 0;
    for (int i = 0; i < n; i++) {
      Av[i] *= w->dual.rho[i];
      size = fmax(size, fabs(Av[i]));
    }
    for (int i = 0; i < n; i++) v[i] = Av[i] / size;
  }

  return size;
}

// Relaxation factor: the one that is set, else 1. Jacobi's iteration converges below 2 / (largest eigenvalue of rho A): at most
// 0.9 of it.
static double relaxation(NUM(pbWork) *w) {
  const pbContactSettings *c = &w->m->contact;
  if (c->omega > 0) return c->omega;
  return c->order == pb_orderJacobi ? fmin(1, 1.8 / largest_eigenvalue(w)) : 1;
}

// Method sweeps: so many iterations as the settings say; the residual tells what they left. The last corrections may be small
// because the method converges slowly: the distance to its fixed point counts as well.
static bool relax_only(NUM(pbWork) *w) {
  const pbContactSettings *c = &w->m->contact;
  double *f = w->dual.f;
  double *x = w->dual.x;
  double omega = relaxation(w);

  for (w->iterations = 0; w->iterations < c->sweeps; w->iterations++) {
    if (c->order == pb_orderGaussSeidel) relax_all(w, omega, f, x);
    if (c->order == pb_orderJacobi) relax_together(w, omega, f, x);
  }

  // The misfit at the end, and the length of a Newton step from there.
  w->residual = NUM(pbDual_Worst)(w, f, x);
  if (w->residual - w->residual != 0) return false;  // they grow beyond bounds
  w->residual = fmax(w->residual, NUM(pbDual_Distance)(w, f, x));
  return true;
}

// ---- the solution ------------------------------------------------------------------------------------------------------
// Methods lcp and cones: some projected Gauss-Seidel; from there Newton's method; where that fails the proximal point method,
// then the central path, whose second start is beyond any turning point.
static bool find_exact(NUM(pbWork) *w) {
  size_t bytes = (size_t)w->dual.n * sizeof(double);
  double *f = w->dual.f;
  double *x = w->dual.x;

  for (int s = 0; s < 8; s++) relax_all(w, 1, f, x);

  // On a copy: what follows a failure begins at the relaxed forces.
  memcpy(w->dual.trial, f, bytes);
  memcpy(w->dual.trial_x, x, bytes);
  if (NUM(pbDual_Polish)(w, 0, w->dual.trial, w->dual.trial_x)) {
    memcpy(f, w->dual.trial, bytes);
    memcpy(x, w->dual.trial_x, bytes);
    return true;
  }

  return NUM(pbDual_Approach)(w, 1e-3, f, x) || NUM(pbDual_Follow)(w, 1, false, f, x) || NUM(pbDual_Follow)(w, 1e3, false, f, x);
}

static bool find_forces(NUM(pbWork) *w) {
  size_t bytes = (size_t)w->dual.n * sizeof(double);
  w->iterations = 0;
  w->dual.kappa = 0;
  memset(w->dual.f, 0, bytes);
  memcpy(w->dual.x, w->dual.b, bytes);

  // Sweeps leave what so many iterations leave; the other methods solve the laws.
  if (w->m->contact.method == pb_contactSweeps) return relax_only(w);

  return NUM(pbDual_Resolve)(w, find_exact(w));
}

// Ma, qacc and x of the rows' forces.
static void accelerate(NUM(pbWork) *w) {
  size_t bytes = (size_t)w->m->nv * sizeof(num);
  memset(w->qfrc_constraint, 0, bytes);
  for (int k = 0; k < w->nrow; k++) {
    if (w->row[k].zone) NUM(pbRow_AddForce)(&w->constraints, w->row + k, w->row[k].f, w->qfrc_constraint);
  }

  // M a = qfrc_smooth + J'f
  for (int i = 0; i < w->m->nv; i++) w->Ma[i] = w->qfrc_smooth[i] + w->qfrc_constraint[i];
  memcpy(w->qacc, w->Ma, bytes);
  NUM(pbTree_Solve)(&w->t->M, w->LD, w->Dinv, w->qacc);
  set_residuals(w, w->qacc);
}

// The forces that are known, of the same rows.
static bool take_known(NUM(pbWork) *w) {
  const pbFound *known = w->dual.known;
  size_t bytes = (size_t)w->dual.n * sizeof(double);
  int c = 0;
  if (!known || known->n != w->dual.n || known->rows != w->nrow) return false;

  memcpy(w->dual.f, known->f, bytes);
  memcpy(w->dual.x, known->x, bytes);
  memcpy(w->dual.rho, known->rho, bytes);
  w->dual.kappa = known->kappa;
  w->iterations = 0;
  w->residual = 0;

  // Zones too: a row at the edge of being idle is what it was there.
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    r->zone = c < known->count && known->active[c] == r->at ? pb_zoneActive : pb_zoneOpen;
    if (r->zone) c += r->dim;
  }
  return c == known->count;
}

void NUM(pbDual_Found)(NUM(pbWork) *w, pbFound *found) {
  int count = 0;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (!r->zone) continue;
    for (int j = 0; j < r->dim; j++) w->dual.active[count++] = r->at + j;
  }
  *found = (pbFound){.rows = w->nrow,
                     .n = w->nrow ? w->dual.n : 0,
                     .kappa = w->dual.kappa,
                     .f = w->dual.f,
                     .x = w->dual.x,
                     .rho = w->dual.rho,
                     .active = w->dual.active,
                     .count = count};
}

static void set_zones(NUM(pbWork) *w) {
  NUM(pbDual_Classify)(w, w->dual.f, w->dual.x);
  NUM(pbDual_OpenIdle)(w);
}

static void set_forces(NUM(pbWork) *w) {
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    for (int j = 0; j < r->dim; j++) r->f[j] = r->zone ? w->dual.f[r->at + j] : 0;
  }
  accelerate(w);
}

// ---- derivatives --------------------------------------------------------------------------------------------------------
pbStatus NUM(pbDual_Factor)(NUM(pbWork) *w) { return NUM(pbDual_FactorLaws)(w, w->dual.f, w->dual.x); }

// One step of iterative refinement: by way of the dofs, forces far apart in size (rows that nothing can move) lose digits.
static void refine(NUM(pbWork) *w, const double *rhs, double *step) {
  int count = w->dual.count;
  double *left = w->dual.path;    // rhs - T step
  double *moved = w->dual.after;  // A step

  memset(moved, 0, (size_t)w->dual.n * sizeof(double));
  for (int c = 0; c < count; c++) pb_axpy(moved, step[c], w->dual.A + w->dual.active[c] * w->dual.n, w->dual.n);

  // left = rhs - Nw A step - Nf step, row by row.
  int first = 0;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    pbLaw law;
    if (!r->zone) continue;
    NUM(pbLaw_Here)(w, r, &law);
    for (int i = 0; i < r->dim; i++) {
      left[first + i] = rhs[first + i];
      for (int j = 0; j < r->dim; j++)
        left[first + i] -= law.Nw[i * r->dim + j] * moved[r->at + j] + law.Nf[i * r->dim + j] * step[first + j];
    }
    first += r->dim;
  }

  NUM(pbDual_SolveLaws)(w, left);
  for (int c = 0; c < count; c++) step[c] += left[c];
}

// -(Nw dw + Nmu dmu + Nbound dbound) of all active rows at fixed f, the derivatives dw, dmu, dbound read from the imaginary
// parts.
static void derivative_rhs(const NUM(pbWork) *w, double *rhs) {
  int at = 0;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    pbLaw law;
    if (!r->zone) continue;
    NUM(pbLaw_At)(w, r, w->dual.f + r->at, w->dual.x + r->at, &law);

    // x holds J a - aref at the real solution: its imaginary part is what moved besides f.
    for (int i = 0; i < r->dim; i++, at++) {
      rhs[at] = -(law.Nbound[0] * im(r->bound[0]) + law.Nbound[1] * im(r->bound[1]));
      for (int j = 0; j < r->dim; j++) rhs[at] -= law.Nw[i * r->dim + j] * (im(r->x[j]) + im(r->R[j]) * re(r->f[j]));
      if (!is_contact(r)) continue;
      for (int j = 1; j < r->dim; j++) rhs[at] -= law.Nmu[i * (r->dim - 1) + j - 1] * im(w->contact[r->contact].friction[j - 1]);
    }
  }
  PB_ASSERT(at == w->dual.count);  // an equation for each active number
}

// Imaginary parts of f: T df = -(Nw dw + Nmu dmu + Nbound dbound).
static pbStatus carry_derivative(NUM(pbWork) *w) {
  if (!PB_IS_COMPLEX) return pb_ok;

  double *step = w->dual.step;
  double *rhs = w->dual.from;
  PB_TRY(NUM(pbDual_Factor)(w));
  derivative_rhs(w, step);
  memcpy(rhs, step, (size_t)w->dual.count * sizeof(double));
  NUM(pbDual_SolveLaws)(w, step);
  if (w->dual.condensed) refine(w, rhs, step);

  // Imaginary parts of the active rows' forces, then of the acceleration they give.
  int at = 0;
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    if (!r->zone) continue;
    for (int j = 0; j < r->dim; j++) r->f[j] = num_make(re(r->f[j]), step[at++]);
  }
  accelerate(w);
  return pb_ok;
}

pbStatus NUM(pbDual_Solve)(NUM(pbWork) *w) {
  PB_TRY(assemble(w));
  if (!take_known(w)) {
    if (!find_forces(w)) return pb_no_convergence;
    set_zones(w);
  }
  set_forces(w);
  return carry_derivative(w);
}
