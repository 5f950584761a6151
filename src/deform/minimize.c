// Minimizers of a step's potential to be compared with Newton's method, and that of a user.
// Tests: tests/unit/test_minimise.c.
#include <math.h>
#include <string.h>

#include "deform/deform.h"
#include "elementary/elementary.h"

static const char *const names[pb_deformMinimizerCount] = {"newton", "newton_cg", "lbfgs", "gradient", "adam", "user"};

const char *pbDeformMinimizer_Name(pbDeformMinimizer method) {
  return method >= 0 && method < pb_deformMinimizerCount ? names[method] : NULL;
}

bool pbDeformMinimizer_Named(const char *name, pbDeformMinimizer *method) {
  for (int i = 0; i < pb_deformMinimizerCount; i++) {
    if (strcmp(names[i], name)) continue;
    *method = (pbDeformMinimizer)i;
    return true;
  }

  return false;
}

// x := x - s step with sufficient decrease, s from `first` down by `shrink`; *value and the gradient there. 0 where none is
// found.
static double search_line(pbDeformWork *w, double *value, double first, double shrink) {
  enum { most_trials = 60 };
  int n = 3 * w->d->npoint;
  double slope = pb_dot(w->step, w->gradient, n), limit = pbDeform_MaxStep(w, w->x, w->step);
  double s = first < limit ? first : limit;

  for (int k = 0; k < most_trials; k++, s *= shrink) {
    if (!pbDeform_Decreases(w, *value, s, slope)) continue;
    memcpy(w->x, w->next_x, (size_t)n * sizeof(double));
    return pbDeform_Look(w, w->x, value, w->gradient, false, 0) == pb_ok ? s : 0;
  }

  return 0;
}

static void steepest_descent(pbDeformWork *w) { memcpy(w->step, w->gradient, 3 * (size_t)w->d->npoint * sizeof(double)); }

// ---- L-BFGS (Nocedal and Wright 2006, algorithm 7.4) ------------------------------------------------------------------
// The last pairs of a step s_i = x_(i+1) - x_i and the change of the gradient y_i, in a ring; rho_i = 1 / (y_i . s_i).
typedef struct LbfgsPairs {
  int count, next;
  double rho[PB_LBFGS_PAIRS];
} LbfgsPairs;

static double *pair_step(pbDeformWork *w, int i) { return w->history + (size_t)(2 * i) * 3 * (size_t)w->d->npoint; }
static double *pair_change(pbDeformWork *w, int i) { return w->history + (size_t)(2 * i + 1) * 3 * (size_t)w->d->npoint; }

// step := H gradient, H the approximate inverse Hessian, by two loops over the pairs.
static void lbfgs_direction(pbDeformWork *w, const LbfgsPairs *p) {
  int n = 3 * w->d->npoint, last = (p->next + PB_LBFGS_PAIRS - 1) % PB_LBFGS_PAIRS;
  double alpha[PB_LBFGS_PAIRS];

  // From the newest pair to the oldest.
  steepest_descent(w);
  for (int k = 0; k < p->count; k++) {
    int i = (last + PB_LBFGS_PAIRS - k) % PB_LBFGS_PAIRS;
    alpha[i] = p->rho[i] * pb_dot(pair_step(w, i), w->step, n);
    for (int j = 0; j < n; j++) w->step[j] -= alpha[i] * pair_change(w, i)[j];
  }

  // H starts as gamma I, gamma = s.y / y.y of the newest pair (their equation 7.20).
  if (p->count) {
    double scale = 1 / (p->rho[last] * pb_dot(pair_change(w, last), pair_change(w, last), n));
    for (int j = 0; j < n; j++) w->step[j] *= scale;
  }

  // And back.
  for (int k = p->count - 1; k >= 0; k--) {
    int i = (last + PB_LBFGS_PAIRS - k) % PB_LBFGS_PAIRS;
    double beta = p->rho[i] * pb_dot(pair_change(w, i), w->step, n);

    for (int j = 0; j < n; j++) w->step[j] += (alpha[i] - beta) * pair_step(w, i)[j];
  }
}

// Stores the pair of the step just taken; its place for y holds the gradient before the step. A pair without positive curvature,
// s.y <= 0, is dropped: H would not stay positive definite.
static void store_pair(pbDeformWork *w, LbfgsPairs *p, double s) {
  int n = 3 * w->d->npoint;
  double *move = pair_step(w, p->next), *change = pair_change(w, p->next);

  for (int i = 0; i < n; i++) {
    move[i] = -s * w->step[i];
    change[i] = w->gradient[i] - change[i];
  }

  double curve = pb_dot(move, change, n);
  if (!(curve > 1e-14 * sqrt(pb_dot(move, move, n) * pb_dot(change, change, n)))) return;

  p->rho[p->next] = 1 / curve;
  p->next = (p->next + 1) % PB_LBFGS_PAIRS;
  if (p->count < PB_LBFGS_PAIRS) p->count++;
}

// ---- Newton with conjugate gradients (Steihaug's end at negative curvature) -----------------------------------------------
static void pack_unknowns(const pbDeform *d, const double *x, double *packed) {
  for (int i = 0; i < d->nfree; i++) memcpy(packed + 3 * i, x + 3 * d->point[i], 3 * sizeof(double));
}

static void unpack_unknowns(const pbDeform *d, const double *packed, double *x) {
  memset(x, 0, 3 * (size_t)d->npoint * sizeof *x);
  for (int i = 0; i < d->nfree; i++) memcpy(x + 3 * d->point[i], packed + 3 * i, 3 * sizeof(double));
}

// z := r over the diagonal of the matrix, where that is positive.
static void precondition(pbDeformWork *w, const double *r, double *z) {
  for (int i = 0; i < 3 * w->d->nfree; i++) {
    double diagonal = pbDeformMatrix_Diagonal(w, i / 3)[4 * (i % 3)];
    z[i] = diagonal > 0 ? r[i] / diagonal : r[i];
  }
}

// step := about H^-1 gradient, as accurate as the distance from the solution deserves.
static void truncated_newton(pbDeformWork *w) {
  const pbDeform *d = w->d;
  int n = 3 * d->nfree;
  size_t row = 3 * (size_t)d->npoint;
  double *x = w->rhs;                    // workspace, n: the solution so far
  double *r = w->history, *p = r + row;  // workspace, n of row each: residual, direction
  double *q = p + row, *z = q + row;     // workspace, likewise: matrix times direction, preconditioner times residual

  pack_unknowns(d, w->gradient, r);
  memset(x, 0, (size_t)n * sizeof *x);
  double first = sqrt(pb_dot(r, r, n)), rz = 0, enough = 1e-3 * fmin(1, sqrt(first)) * first;

  for (int k = 0; k < 10 * n && sqrt(pb_dot(r, r, n)) > enough; k++) {
    precondition(w, r, z);

    // Conjugate gradients (Golub and Van Loan 11.5.2).
    double next = pb_dot(r, z, n), beta = k ? next / rz : 0;

    rz = next;

    for (int i = 0; i < n; i++) p[i] = z[i] + (k ? beta * p[i] : 0);
    pbSparse_Multiply(w->matrix.pattern, w->matrix.values, NULL, false, p, q);
    double curve = pb_dot(p, q, n);

    // Negative curvature: what is found so far is a descent direction; at the start, the first direction is.
    if (!(curve > 0)) {
      if (k == 0) memcpy(x, p, (size_t)n * sizeof *x);
      break;
    }

    for (int i = 0; i < n; i++) {
      x[i] += rz / curve * p[i];
      r[i] -= rz / curve * q[i];
    }
  }

  unpack_unknowns(d, x, w->step);
}

// ---- Adam (Kingma and Ba 2015) ----------------------------------------------------------------------------------------
static pbStatus adam_step(pbDeformWork *w, double *value, int k) {
  int n = 3 * w->d->npoint;
  double *m = w->history, *v = m + n;  // kept from step to step, n each: mean and mean square of the gradient
  double rate = w->d->options.rate > 0 ? w->d->options.rate : 0.1;

  if (k == 0) memset(m, 0, 2 * (size_t)n * sizeof *m);

  // Moments of the gradient, and the same without the bias of their start at zero.
  for (int i = 0; i < n; i++) {
    double g = w->gradient[i];
    m[i] = 0.9 * m[i] + 0.1 * g;
    v[i] = 0.999 * v[i] + 0.001 * g * g;
    w->step[i] = rate * (m[i] / (1 - pbPow(0.9, k + 1))) / (sqrt(v[i] / (1 - pbPow(0.999, k + 1))) + 1e-8);
  }

  // No line search: only contact shortens the step.
  double s = pbDeform_MaxStep(w, w->x, w->step);
  for (int i = 0; i < n; i++) w->x[i] -= s * w->step[i];
  return pbDeform_Look(w, w->x, value, w->gradient, false, 0);
}

// ---- the loop ---------------------------------------------------------------------------------------------------------
// The potential as the user's function sees it.
static bool user_evaluate(const pbPotential *p, const double *x, double *value, double *gradient) {
  return pbDeform_Look(p->inside, x, value, gradient, false, 0) == pb_ok && *value < INFINITY;
}

static double user_max_step(const pbPotential *p, const double *x, const double *step) {
  return pbDeform_MaxStep(p->inside, x, step);
}

static pbStatus minimize_by_user(pbDeformWork *w, double *value) {
  const pbDeformOptions *o = &w->d->options;
  pbPotential p = {3 * w->d->npoint, user_evaluate, user_max_step, w};

  if (!o->minimize) return pbDeform_Fail(w, pb_bad_argument, "the method 'user' needs a function that minimizes");

  // What is fixed is compared with where it was.
  memcpy(w->next_x, w->x, (size_t)p.n * sizeof(double));
  pbStatus status = o->minimize(o->user, &p, w->x, &w->report.iterations);

  if (status != pb_ok) return pbDeform_Fail(w, status, "the user's minimizer failed: %s", pbStatus_Text(status));

  // What it may not do: move what is fixed, or lose the points.
  for (int i = 0; i < p.n; i++) {
    if (w->d->fixed[i / 3] >> (i % 3) & 1 && w->x[i] != w->next_x[i])
      return pbDeform_Fail(w, pb_bad_argument, "the user's minimizer moved point %d, which is fixed", i / 3);
    if (!isfinite(w->x[i])) return pbDeform_Fail(w, pb_not_finite, "the user's minimizer left point %d at %g", i / 3, w->x[i]);
  }

  return pbDeform_Look(w, w->x, value, w->gradient, false, 0);
}

// One iteration; *going is false where the method can go no further.
static pbStatus iterate(pbDeformWork *w, double *value, LbfgsPairs *p, double *length, bool *going) {
  int n = 3 * w->d->npoint;
  double s = 1;

  switch (w->d->options.method) {
    case pb_minimizeAdam: return adam_step(w, value, w->report.iterations);
    case pb_minimizeNewtonCg:
      PB_TRY(pbDeform_Look(w, w->x, value, w->gradient, true, 0));
      pbDeformMatrix_Finish(w);
      truncated_newton(w);
      s = search_line(w, value, 1, 0.5);
      break;
    case pb_minimizeLbfgs:
      lbfgs_direction(w, p);
      memcpy(pair_change(w, p->next), w->gradient, (size_t)n * sizeof(double));
      s = search_line(w, value, p->count ? 1 : *length, 0.5);
      store_pair(w, p, s);
      break;
    default:  // steepest descent: four times the step that did last time, to begin with
      steepest_descent(w);
      s = search_line(w, value, 4 * *length, 0.3);
      *length = s;
  }

  *going = s > 0;
  w->report.change = s * pb_largest(w->step, n);
  return pb_ok;
}

pbStatus pbDeform_Minimize(pbDeformWork *w) {
  const pbDeform *d = w->d;
  const pbDeformOptions *o = &d->options;
  int n = 3 * d->npoint, most = o->iterations ? o->iterations : 100000;
  double value, c = pbDeform_Scale(w), length = 1;
  bool going = true;
  LbfgsPairs p = {0};

  w->report = (pbDeformReport){0};
  PB_TRY(pbDeform_Look(w, w->x, &value, w->gradient, false, 0));
  if (o->method == pb_minimizeUser) PB_TRY(minimize_by_user(w, &value));

  // Converged when no force is larger than the tolerance, whatever the method; a user's function is called once.
  for (;; w->report.iterations++) {
    w->report.force = pb_largest(w->gradient, n) / c;
    w->report.converged = w->report.force <= (o->residual > 0 ? o->residual : 1e-8);
    if (w->report.converged || !going || w->report.iterations >= most || o->method == pb_minimizeUser) break;

    PB_TRY(iterate(w, &value, &p, &length, &going));
  }

  w->report.residual = w->report.change / d->size;

  if (w->report.converged || o->approximate) return pb_ok;
  return pbDeform_Fail(w, pb_no_convergence, "%s did not converge: a force of %.3g N is left after %d iterations%s",
                       names[o->method], w->report.force, w->report.iterations, pbDeform_Loose(d));
}
