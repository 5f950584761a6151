#include "contact/law.h"
#include "contact/row.h"
#include "solve/dual_parts.h"

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
// The laws smoothed by kappa = exp(2 tau) have solutions f(tau) on a curve, which leads to a solution of the sharp laws but may
// turn back on its way: followed by its arc length, with Newton's method across it.
static void set_tau(NUM(pbWork) *w, double tau) { w->dual.kappa = exp(2 * tau); }

// rhs (of Newton's step) at f, tau, all rows in zone 1.
static void equations(NUM(pbWork) *w, const double *f, double tau, double *x, double *rhs) {
  set_tau(w, tau);
  NUM(pbDual_Residuals)(w, f, x);
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
  NUM(pbDual_Classify)(w, f, x);
  w->iterations++;
  if (NUM(pbDual_FactorLaws)(w, f, x) != pb_ok) return false;
  memcpy(w->dual.step, across, (size_t)w->dual.n * sizeof(double));
  NUM(pbDual_SolveLaws)(w, w->dual.step);
  memcpy(across, w->dual.step, (size_t)w->dual.n * sizeof(double));
  memcpy(w->dual.step, by_tau, (size_t)w->dual.n * sizeof(double));
  NUM(pbDual_SolveLaws)(w, w->dual.step);
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
  NUM(pbDual_Residuals)(w, w->dual.trial, w->dual.trial_x);
  return NUM(pbDual_Polish)(w, 0, w->dual.trial, w->dual.trial_x);
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
    NUM(pbDual_Residuals)(w, p->f, w->dual.trial_x);
    if (!NUM(pbDual_Polish)(w, 1e-6, p->f, w->dual.trial_x)) continue;
    for (int i = 0; i < w->dual.n; i++) p->F = fmax(p->F, fabs(p->f[i]));
    return true;
  }
  return false;
}

// The problem with a proximal term about the forces `at`: the diagonal of A gets a share of the rows' weight more, b loses as
// much.
static void centre(NUM(pbWork) *w, double share, const double *at) {
  for (int i = 0; i < w->dual.n; i++) {
    w->dual.A[i * (w->dual.n + 1)] = w->dual.diagonal[i] + share * w->dual.weight[i];
    w->dual.b[i] = w->dual.origin[i] - share * w->dual.weight[i] * at[i];
  }
}

// From a point near the end of the path: redundant rows leave forces so open that Newton's method on the sharp laws runs away
// along them. About the forces there are it does not, and what the proximal term holds back goes with each repetition
// (Rockafellar 1976).
bool NUM(pbDual_Approach)(NUM(pbWork) *w, double share, double *f, double *x) {
  size_t bytes = (size_t)w->dual.n * sizeof(double);
  double *trial = w->dual.trial, *trial_x = w->dual.trial_x, e = INFINITY;
  memcpy(w->dual.origin, w->dual.b, bytes);
  for (int i = 0; i < w->dual.n; i++) w->dual.diagonal[i] = w->dual.A[i * (w->dual.n + 1)];
  w->dual.kappa = 0;
  memcpy(trial, f, bytes);
  for (int round = 0; round < 12 && e > 1e-12; round++) {
    centre(w, share, trial);
    NUM(pbDual_Residuals)(w, trial, trial_x);
    if (!NUM(pbDual_Polish)(w, 0, trial, trial_x)) break;
    centre(w, 0, trial);
    NUM(pbDual_Residuals)(w, trial, trial_x);
    double now = NUM(pbDual_Worst)(w, trial, trial_x);
    if (!(now < 0.9 * e)) break;
    e = now;
    memcpy(f, trial, bytes), memcpy(x, trial_x, bytes);
  }
  centre(w, 0, f);
  memcpy(w->dual.b, w->dual.origin, bytes);
  return e <= 1e-9;
}

// Where the sharp laws are degenerate to rounding (between sticking and sliding, a force of nearly nothing): the point of the
// path that was reached, if it is close to its end. The laws stay smoothed by that little, and so do the derivatives.
static bool near_enough(NUM(pbWork) *w, const path *p, double *x) {
  if (p->tau > log(1e-4 * p->F)) return false;
  size_t bytes = (size_t)w->dual.n * sizeof(double);
  memcpy(p->across, p->f, bytes);
  for (double share = 1e-2; share > 1e-7; share *= 1e-2) {
    if (NUM(pbDual_Approach)(w, share, p->f, x)) return true;
    memcpy(p->f, p->across, bytes);
  }
  set_tau(w, p->tau);
  NUM(pbDual_Residuals)(w, p->f, x);
  return NUM(pbDual_Polish)(w, 0, p->f, x);
}

bool NUM(pbDual_Follow)(NUM(pbWork) *w, double sigma, double *f, double *x) {
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
