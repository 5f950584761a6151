// Gauss-Newton as Levenberg and Marquardt damp it: (J'J + lambda D) p = -J'r on the variables no bound holds, D the largest
// diagonal of J'J seen so far (More 1978), lambda by Nielsen's rule (Madsen, Nielsen & Tingleff 2004), steps projected. The
// linear problem is solved here, with J as a matrix, or by whoever knows a shorter way (pbNormal).
// Tests: tests/unit/test_optimize.c, tests/unit/test_verdict.c, tests/unit/test_sweep.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "linalg/small.h"
#include "optimize/optimizer.h"

// own state: D (n), lambda, growth of lambda
enum { gn_lambda, gn_growth, gn_scalars };

static size_t state_size(const pbOptimizer *o) { return (size_t)o->n + gn_scalars; }

// Cut from the optimizer's work; m residuals.
typedef struct Work {
  double *r, *trial_r;   // m each: residuals here, and at the trial point
  double *g, *diagonal;  // n each: J'r, of J'J
  double *p, *trial;     // n each: move, trial point
  bool *held;            // n: by a bound that the move would cross
  double *J;             // m x n: Jacobian
  double *A, *L;         // n x n each: J'J; A + lambda D, then its factor
} Work;

static size_t layout(const pbOptimizer *o, double *base, Work *w) {
  bool dense = !o->normal.linearize;
  size_t n = (size_t)o->n, m = o->problem.m;
  if (dense && m > SIZE_MAX / sizeof(double) / 8 / (n + 2)) return 0;  // too much: refused by the caller

  // Offsets of the pieces; without the matrices the last two have no size.
  size_t r = 0, trial_r = m, g = 2 * m, diagonal = g + n, p = diagonal + n, trial = p + n, held = trial + n, J = held + n;
  size_t A = J + (dense ? m * n : 0), L = A + (dense ? n * n : 0);
  if (base)
    *w = (Work){base + r,     base + trial_r,        base + g, base + diagonal, base + p,
                base + trial, (bool *)(base + held), base + J, base + A,        base + L};

  return L + (dense ? n * n : 0);
}

static size_t work_size(const pbOptimizer *o) { return layout(o, NULL, NULL); }

static void begin_gauss_newton(pbOptimizer *o) {
  o->own[o->n + gn_lambda] = o->options.damping;
  o->own[o->n + gn_growth] = 2;
}

// ---- J as a matrix --------------------------------------------------------------------------------------------------
// A = J'J, g = J'r
static void normal_equations(const pbOptimizer *o, Work *w) {
  int n = o->n;
  memset(w->A, 0, (size_t)n * (size_t)n * sizeof(double));
  memset(w->g, 0, (size_t)n * sizeof(double));

  // The lower triangle, row by row of J; what is zero is passed over.
  for (size_t k = 0; k < o->problem.m; k++) {
    const double *row = w->J + k * (size_t)n;
    for (int i = 0; i < n; i++) {
      if (row[i] == 0) continue;
      w->g[i] += row[i] * w->r[k];
      for (int j = 0; j <= i; j++) w->A[i * n + j] += row[i] * row[j];
    }
  }

  for (int i = 0; i < n; i++) {
    for (int j = 0; j < i; j++) w->A[j * n + i] = w->A[i * n + j];
    w->diagonal[i] = w->A[i * n + i];
  }
}

// L := A + lambda D, p := -g; what is held stays: rows of the identity, and 0.
static void begin_move(const pbOptimizer *o, Work *w, double lambda) {
  int n = o->n;
  const double *D = o->own;

  for (int i = 0; i < n; i++) {
    w->p[i] = w->held[i] ? 0 : -w->g[i];
    for (int j = 0; j < i; j++) w->L[i * n + j] = w->held[i] || w->held[j] ? 0 : w->A[i * n + j];
    w->L[i * n + i] = w->held[i] ? 1 : w->A[i * n + i] + lambda * D[i];
  }
}

// Solves L L' p = -g; false where the matrix is not positive definite.
static bool solve_dense(const pbOptimizer *o, Work *w, double lambda) {
  int n = o->n;
  double *L = w->L;
  begin_move(o, w, lambda);

  for (int i = 0; i < n; i++) {
    double pivot = small_cholesky_row(L, n, i);
    if (!(pivot > 0)) return false;
    L[i * n + i] = sqrt(pivot);
  }
  small_forward(L, n, w->p);

  // Back substitution by columns of L.
  for (int i = n - 1; i >= 0; i--) {
    for (int k = i + 1; k < n; k++) w->p[i] -= L[k * n + i] * w->p[k];
    w->p[i] /= L[i * n + i];
  }

  return true;
}

// |r|^2 - |r + J p|^2 = -p'(2 J'r + J'J p)
static double promise_dense(const pbOptimizer *o, const Work *w) {
  int n = o->n;
  double promised = 0;
  for (int i = 0; i < n; i++) promised -= w->p[i] * (2 * w->g[i] + pbVec_Dot(w->A + i * n, w->p, n));
  return promised;
}

// ---- either way -----------------------------------------------------------------------------------------------------
static pbStatus linearize(pbOptimizer *o, Work *w) {
  if (o->normal.linearize) return pbOptimizer_Linearize(o, o->x, &o->h->value, w->r, w->g, w->diagonal);

  PB_TRY(pbOptimizer_Residuals(o, o->x, &o->h->value, w->r, w->J));
  if (isfinite(o->h->value)) normal_equations(o, w);
  return pb_ok;
}

// D only grows, so that the region of trust shrinks where the model has once been steep; unknowns without influence get a little.
static void update_scale(pbOptimizer *o, const Work *w) {
  double *D = o->own, most = 0;

  // The largest entry says what is small.
  for (int i = 0; i < o->n; i++) most = fmax(most, w->diagonal[i]);
  for (int i = 0; i < o->n; i++) D[i] = fmax(fmax(D[i], w->diagonal[i]), fmax(1e-14 * most, 1e-300));
}

static bool solve_move(const pbOptimizer *o, Work *w, double lambda) {
  PB_ASSERT(lambda > 0);
  for (int i = 0; i < o->n; i++) w->held[i] = pbOptimizer_Stuck(o, o->x, w->g, i);

  return o->normal.solve ? o->normal.solve(o->normal.user, lambda, o->own, w->held, w->p) : solve_dense(o, w, lambda);
}

// The move after projection, and the decrease of the sum of squares the linear model promises for it.
static double project_move(const pbOptimizer *o, Work *w) {
  int n = o->n;

  // P(x + p) and the move that is left of p.
  for (int i = 0; i < n; i++) {
    w->trial[i] = fmin(fmax(o->x[i] + w->p[i], o->lower[i]), o->upper[i]);
    w->p[i] = w->trial[i] - o->x[i];
  }
  if (!o->normal.squared) return promise_dense(o, w);

  return -2 * pbVec_Dot(w->g, w->p, n) - o->normal.squared(o->normal.user, w->p);
}

// The move makes the sum smaller: it is made, and the damping falls by how well the linear model foretold it.
static void accept_move(pbOptimizer *o, const Work *w, double value, double ratio, double length) {
  double *lambda = &o->own[o->n + gn_lambda], *growth = &o->own[o->n + gn_growth];
  double q = 2 * ratio - 1;
  *lambda = fmax(*lambda * fmax(1.0 / 3, 1 - q * q * q), 1e-15);
  *growth = 2;
  memcpy(o->x, w->trial, (size_t)o->n * sizeof(double));
  o->h->value = value;
  pbOptimizer_Moved(o, length);
}

// Damping up until a move makes the sum smaller.
enum { most_trials = 40 };
static pbStatus find_move(pbOptimizer *o, Work *w) {
  double *lambda = &o->own[o->n + gn_lambda], *growth = &o->own[o->n + gn_growth];

  for (int trial = 0; trial < most_trials; trial++) {
    double promised = solve_move(o, w, *lambda) ? project_move(o, w) : 0, value = INFINITY;
    double length = pbVec_Norm(w->p, o->n), tiny = 1e-16 * (1 + pbVec_Norm(o->x, o->n));

    // Moves that promise nothing are not tried, but damped more.
    if (promised > 0) PB_TRY(pbOptimizer_Residuals(o, w->trial, &value, w->trial_r, NULL));
    double ratio = promised > 0 ? (o->h->value - value) / promised : -1;
    if (value < o->h->value && ratio > 1e-4) {
      accept_move(o, w, value, ratio, length);
      return pb_ok;
    }

    *lambda *= *growth;
    *growth *= 2;
    if (promised > 0 && length <= tiny) break;
  }

  o->h->outcome = pb_noDescent;

  return pb_ok;
}

static pbStatus iterate_gauss_newton(pbOptimizer *o) {
  Work w = {0};
  layout(o, o->work, &w);
  PB_TRY(linearize(o, &w));

  // The point stands since the last iteration; only the start can fail.
  if (!isfinite(o->h->value)) {
    o->h->outcome = pb_noDescent;
    return pb_ok;
  }

  update_scale(o, &w);

  // The gradient of r'r is 2 J'r; p lends its room.
  for (int i = 0; i < o->n; i++) w.p[i] = 2 * w.g[i];
  o->h->gradient_norm = pbOptimizer_ProjectedNorm(o, o->x, w.p);

  if (o->h->gradient_norm <= o->options.gradient_tolerance) {
    o->h->outcome = pb_smallGradient;
    return pb_ok;
  }

  return find_move(o, &w);
}

const pbMinimizer pbMinimizer_GaussNewton = {.name = "gauss-newton",
                                             .needs_residuals = true,
                                             .state_size = state_size,
                                             .work_size = work_size,
                                             .begin = begin_gauss_newton,
                                             .iterate = iterate_gauss_newton};
