// Hard contact where Newton's method alone finds no forces: the central path of smoothed laws, followed by its arc length, and
// the proximal point method for redundant rows.
// Tests: tests/unit/test_hard.c, tests/oracle/test_jammed.py.
#include "base/assert.h"
#include "contact/law.h"
#include "contact/row.h"
#include "elementary/elementary.h"
#include "eval/work.h"
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

// ---- proximal point method ----------------------------------------------------------------------------------------------
// The problem with a proximal term about the forces `at`: the diagonal of A gets a share of the rows' weight more, b loses as
// much.
static void set_proximal(NUM(pbWork) *w, double share, const double *at) {
  PB_ASSERT(share >= 0);
  for (int i = 0; i < w->dual.n; i++) {
    w->dual.softness[i] = share * w->dual.weight[i];
    w->dual.A[i * (w->dual.n + 1)] = w->dual.diagonal[i] + w->dual.softness[i];
    w->dual.b[i] = w->dual.origin[i] - share * w->dual.weight[i] * at[i];
  }
}

// From a point near the end of the path: redundant rows leave forces non-unique, and Newton's method on the sharp laws diverges
// along the null space. With the proximal term they are unique, and its effect vanishes as it is repeated (Rockafellar 1976).
bool NUM(pbDual_Approach)(NUM(pbWork) *w, double share, double *f, double *x) {
  size_t bytes = (size_t)w->dual.n * sizeof(double);
  double *trial = w->dual.trial;
  double *trial_x = w->dual.trial_x;
  double misfit = INFINITY;

  memcpy(w->dual.origin, w->dual.b, bytes);
  for (int i = 0; i < w->dual.n; i++) w->dual.diagonal[i] = w->dual.A[i * (w->dual.n + 1)];
  w->dual.kappa = 0;
  memcpy(trial, f, bytes);

  for (int round = 0; round < 12 && misfit > 1e-12; round++) {
    set_proximal(w, share, trial);
    NUM(pbDual_Residuals)(w, trial, trial_x);
    if (!NUM(pbDual_Polish)(w, 0, trial, trial_x)) break;

    // What is left of the problem itself.
    set_proximal(w, 0, trial);
    NUM(pbDual_Residuals)(w, trial, trial_x);
    double now = NUM(pbDual_Worst)(w, trial, trial_x);
    if (!(now < 0.9 * misfit)) break;
    misfit = now;
    memcpy(f, trial, bytes);
    memcpy(x, trial_x, bytes);
  }

  set_proximal(w, 0, f);
  memcpy(w->dual.b, w->dual.origin, bytes);
  return misfit <= 1e-9;
}

// ---- along the central path ---------------------------------------------------------------------------------------------
// The laws smoothed by kappa = exp(2 tau) have solutions f(tau) on a curve, which leads to a solution of the sharp laws but may
// turn back on its way: followed by its arc length, with Newton's method across it.
typedef struct path {
  double *f;        // in and out, n: forces of all rows
  double *tangent;  // workspace, n: d f / ds along the path
  double *trial;    // workspace, n: forces of the next point
  double *across;   // workspace, n: Newton's step at fixed tau
  double *by_tau;   // workspace, n: d f / d tau
  double tau;
  double tangent_tau;  // d tau / ds
  double scale;        // of forces
} path;

static void set_tau(NUM(pbWork) *w, double tau) { w->dual.kappa = pbExp(2 * tau); }

// Right-hand side of Newton's step at f, tau, all rows active.
static void equations(NUM(pbWork) *w, const double *f, double tau, double *x, double *rhs) {
  set_tau(w, tau);
  NUM(pbDual_Residuals)(w, f, x);
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    NUM(pbLaw_Misfit)(w, r, f + r->at, x + r->at, rhs + r->at);
    if (!is_contact(r)) continue;
    for (int j = 1; j < r->dim; j++) rhs[r->at + j] /= row_mu(w, r, j);
  }
}

// x := T^-1 x in the room that pbDual_SolveLaws needs.
static void solve_in_place(NUM(pbWork) *w, double *x) {
  size_t bytes = (size_t)w->dual.n * sizeof(double);
  memcpy(w->dual.step, x, bytes);
  NUM(pbDual_SolveLaws)(w, w->dual.step);
  memcpy(x, w->dual.step, bytes);
}

// Newton's step at tau held (-> across) and the move of f with tau (-> by_tau). False where the matrix is singular.
static bool set_directions(NUM(pbWork) *w, const double *f, double tau, double *across, double *by_tau) {
  static const double eps = 1e-5;
  double *x = w->dual.after;

  // The equations' derivative by tau, from central differences.
  equations(w, f, tau + eps, x, across);
  memcpy(by_tau, across, (size_t)w->dual.n * sizeof(double));
  equations(w, f, tau - eps, x, across);
  for (int i = 0; i < w->dual.n; i++) by_tau[i] = (by_tau[i] - across[i]) / (2 * eps);

  equations(w, f, tau, x, across);
  NUM(pbDual_Classify)(w, f, x);
  w->iterations++;
  if (NUM(pbDual_FactorLaws)(w, f, x) != pb_ok) return false;
  solve_in_place(w, across);
  solve_in_place(w, by_tau);
  return true;
}

// a . b of forces in their scale.
static double product(const NUM(pbWork) *w, const double *a, const double *b, double scale) {
  double sum = 0;
  for (int i = 0; i < w->dual.n; i++) sum += a[i] * b[i];
  return sum / (scale * scale);
}

// Do all limits and normals of contacts push?
static bool all_push(const NUM(pbWork) *w, const double *f) {
  for (int k = 0; k < w->nrow; k++) {
    if (is_one_sided(w->row + k) && !(f[w->row[k].at] > 0)) return false;
  }
  return true;
}

// Corrector: back onto the path, square to its tangent, from p->trial and *tau; true where it is reached.
static bool correct(NUM(pbWork) *w, const path *p, double *tau) {
  for (int it = 0; it < 6; it++) {
    if (!set_directions(w, p->trial, *tau, p->across, p->by_tau)) return false;

    // The move of tau that keeps the correction square to the tangent.
    double slope = product(w, p->tangent, p->by_tau, p->scale) + p->tangent_tau;
    double move = -product(w, p->tangent, p->across, p->scale) / slope;
    if (!(fabs(move) < 2)) return false;

    double size = 0;
    double far = 0;
    for (int i = 0; i < w->dual.n; i++) {
      double d = p->across[i] + move * p->by_tau[i];
      p->trial[i] += d;
      size = fmax(size, fabs(p->trial[i]));
      far = fmax(far, fabs(d));
    }
    *tau += move;
    if (!all_push(w, p->trial)) return false;
    if (far <= 1e-4 * fmin(size, pbExp(*tau) * 10)) return true;
  }

  return false;
}

// The tangent at p->f, onward.
static bool set_tangent(NUM(pbWork) *w, path *p) {
  if (!set_directions(w, p->f, p->tau, p->across, p->by_tau)) return false;
  double size = sqrt(1 + product(w, p->by_tau, p->by_tau, p->scale));
  double onward = product(w, p->tangent, p->by_tau, p->scale) + p->tangent_tau < 0 ? -1 : 1;
  for (int i = 0; i < w->dual.n; i++) p->tangent[i] = onward * p->by_tau[i] / size;
  p->tangent_tau = onward / size;
  return true;
}

// Does Newton's method on the sharp laws reach a solution from here?
static bool solve_sharp(NUM(pbWork) *w, const path *p) {
  w->dual.kappa = 0;
  memcpy(w->dual.trial, p->f, (size_t)w->dual.n * sizeof(double));
  NUM(pbDual_Residuals)(w, w->dual.trial, w->dual.trial_x);
  return NUM(pbDual_Polish)(w, 0, w->dual.trial, w->dual.trial_x);
}

// Onto the path where it is easy: forces as large as kappa's root.
static bool begin_path(NUM(pbWork) *w, path *p, double sigma) {
  for (; sigma < 1e6; sigma *= 10) {
    p->tau = pbLog(sigma * p->scale);
    set_tau(w, p->tau);
    for (int k = 0; k < w->nrow; k++) {
      const NUM(pbRow) *r = w->row + k;
      for (int j = 0; j < r->dim; j++) p->f[r->at + j] = 0;
      if (is_one_sided(r)) p->f[r->at] = sigma * p->scale;
    }

    // Onto the path; where Newton's method does not get there, smoother laws.
    NUM(pbDual_Residuals)(w, p->f, w->dual.trial_x);
    if (!NUM(pbDual_Polish)(w, 1e-6, p->f, w->dual.trial_x)) continue;
    for (int i = 0; i < w->dual.n; i++) p->scale = fmax(p->scale, fabs(p->f[i]));
    return true;
  }

  return false;
}

// Where the sharp laws are degenerate to rounding (between sticking and sliding, a force of nearly nothing): the point of the
// path that was reached, if it is close to its end. The laws stay smoothed by that little, and so do the derivatives.
static bool accept_nearby(NUM(pbWork) *w, const path *p, double *x) {
  if (p->tau > pbLog(1e-4 * p->scale)) return false;

  size_t bytes = (size_t)w->dual.n * sizeof(double);
  memcpy(p->across, p->f, bytes);
  for (double share = 1e-2; share > 1e-7; share *= 1e-2) {
    if (NUM(pbDual_Approach)(w, share, p->f, x)) return true;
    memcpy(p->f, p->across, bytes);
  }

  // Back to the smoothed laws, and onto their solution to full accuracy.
  set_tau(w, p->tau);
  NUM(pbDual_Residuals)(w, p->f, x);
  return NUM(pbDual_Polish)(w, 0, p->f, x);
}

bool NUM(pbDual_Follow)(NUM(pbWork) *w, double sigma, bool nearby, double *f, double *x) {
  int n = w->dual.n;
  size_t bytes = (size_t)n * sizeof(double);
  double *room = w->dual.path;  // borrowed, 4 n here
  path p = {.f = f, .tangent = room, .trial = room + n, .across = room + 2 * n, .by_tau = room + 3 * n};

  p.tangent_tau = -1;
  p.scale = force_scale(w);
  memset(p.tangent, 0, bytes);
  if (!begin_path(w, &p, sigma) || !set_tangent(w, &p)) return false;

  // Predictor along the tangent, corrector; the step grows where it succeeds. Now and then the sharp laws are tried from there.
  double ds = 0.5;
  double next = pbLog(1e-2 * p.scale);
  double end = pbLog(1e3 * p.scale);
  for (int step = 0; step < 400 && ds > 1e-7; step++) {
    double tau = p.tau + ds * p.tangent_tau;
    for (int i = 0; i < n; i++) p.trial[i] = p.f[i] + ds * p.tangent[i];
    if (!correct(w, &p, &tau)) {
      ds *= 0.4;
      continue;
    }

    memcpy(p.f, p.trial, bytes);
    p.tau = tau;
    if (!set_tangent(w, &p) || p.tau > end) return false;
    ds = fmin(2 * ds, 2);
    if (p.tau > next) continue;

    next = p.tau - 1;
    if (!solve_sharp(w, &p)) continue;
    memcpy(f, w->dual.trial, bytes);
    memcpy(x, w->dual.trial_x, bytes);
    return true;
  }

  return nearby && accept_nearby(w, &p, x);
}
