// What all minimizers share: evaluations that count and keep the best point, bounds, vectors.
// Tests: tests/unit/test_optimize.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "optimize/optimizer.h"

// ---- vectors --------------------------------------------------------------------------------------------------------
double pbVec_Dot(const double *a, const double *b, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

double pbVec_Norm(const double *a, int n) { return sqrt(pbVec_Dot(a, a, n)); }

// (x, y) := G (x, y), entry by entry of two vectors whose entries are `stride` apart.
static void rotate_vectors(double *x, double *y, int stride, int n, double cosine, double sine) {
  for (int k = 0; k < n; k++) {
    double before = x[k * stride], beside = y[k * stride];
    x[k * stride] = cosine * before - sine * beside;
    y[k * stride] = sine * before + cosine * beside;
  }
}

// A := G A G', B := B G' by the rotation of p and q that makes A_pq zero, the one with the smaller angle (Golub & Van Loan, 8.5):
// cot(2 angle) = (A_qq - A_pp) / (2 A_pq).
static void rotate_pair(double *A, double *B, int n, int p, int q) {
  double cotangent = (A[q * n + q] - A[p * n + p]) / (2 * A[p * n + q]);
  double tangent = copysign(1, cotangent) / (fabs(cotangent) + sqrt(cotangent * cotangent + 1));
  double cosine = 1 / sqrt(tangent * tangent + 1), sine = tangent * cosine;

  rotate_vectors(A + p, A + q, n, n, cosine, sine);          // columns
  rotate_vectors(A + p * n, A + q * n, 1, n, cosine, sine);  // rows
  rotate_vectors(B + p, B + q, n, n, cosine, sine);
}

// Are the entries off the diagonal rounding?
static bool is_diagonal(const double *A, int n) {
  double off = 0, diagonal = 0;
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) {
      double squared = A[i * n + j] * A[i * n + j];
      if (i == j) diagonal += squared;
      else off += squared;
    }
  }

  return off <= 1e-30 * diagonal;
}

// Jacobi's method, cyclic by rows.
void pbVec_Eigen(double *A, double *B, double *D, int n) {
  enum { most_sweeps = 60 };
  memset(B, 0, (size_t)n * (size_t)n * sizeof(double));
  for (int i = 0; i < n; i++) B[i * n + i] = 1;

  for (int sweep = 0; sweep < most_sweeps && !is_diagonal(A, n); sweep++) {
    for (int p = 0; p < n; p++) {
      for (int q = p + 1; q < n; q++) {
        if (A[p * n + q] != 0) rotate_pair(A, B, n, p, q);
      }
    }
  }

  // Of a positive semidefinite matrix: below zero is rounding.
  for (int i = 0; i < n; i++) D[i] = sqrt(fmax(A[i * n + i], 0));
}

// ---- evaluations ----------------------------------------------------------------------------------------------------
// A trial that cannot be computed is worth nothing, and the search goes on. Input that is refused is so, too, once a point was
// found that can: then it is the trial's unknowns that are out of range (a mass of 0, a gap that is closed), not the file.
static bool is_soft(const pbOptimizer *o, pbStatus status) {
  if (status == pb_bad_input) return isfinite(o->h->best_value);
  return status == pb_not_finite || status == pb_no_convergence || status == pb_singular;
}

void pbOptimizer_Remember(pbOptimizer *o, const double *x, double value) {
  if (!(value < o->h->best_value)) return;

  // x may be best itself.
  o->h->best_value = value;
  memmove(o->best, x, (size_t)o->n * sizeof *x);
}

// An evaluation is complete: a soft failure is an infinite value, the best point is remembered.
static pbStatus end_evaluation(pbOptimizer *o, const double *x, pbStatus status, double *value) {
  PB_VALIDATE(pb_allFinite(x, (size_t)o->n));
  if (status != pb_ok && !is_soft(o, status)) return status;
  if (status != pb_ok || isnan(*value)) *value = INFINITY;

  if (!o->open) pbOptimizer_Remember(o, x, *value);

  return pb_ok;
}

static pbStatus check_gradient(const pbOptimizer *o, pbStatus status, const double *gradient) {
  if (status != pb_ok || pb_allFinite(gradient, (size_t)o->n)) return status;

  int i = 0;
  while (isfinite(gradient[i])) i++;
  return pbContext_Fail(o->ctx, pb_not_finite, "the gradient by unknown %d is not finite", i);
}

pbStatus pbOptimizer_Gradient(pbOptimizer *o, const double *x, double *value, double *gradient) {
  o->h->gradients++;
  pbStatus status = o->problem.gradient(o->problem.user, x, value, gradient);
  return end_evaluation(o, x, check_gradient(o, status, gradient), value);
}

static double sum_squares(const pbOptimizer *o, const double *r) {
  double sum = 0;
  for (size_t i = 0; i < o->problem.m; i++) sum += r[i] * r[i];
  return sum;
}

pbStatus pbOptimizer_Residuals(pbOptimizer *o, const double *x, double *value, double *r, double *J) {
  if (J) o->h->jacobians++;
  else o->h->values++;

  pbStatus status = o->problem.residuals(o->problem.user, x, r, J);
  *value = status == pb_ok ? sum_squares(o, r) : 0;

  return end_evaluation(o, x, status, value);
}

pbStatus pbOptimizer_Linearize(pbOptimizer *o, const double *x, double *value, double *r, double *g, double *diagonal) {
  o->h->jacobians++;
  pbStatus status = o->normal.linearize(o->normal.user, x, r, g, diagonal);
  *value = status == pb_ok ? sum_squares(o, r) : 0;
  return end_evaluation(o, x, status, value);
}

pbStatus pbOptimizer_LinearizeLoss(pbOptimizer *o, const double *x, double *value, double *gradient) {
  o->h->gradients++;
  pbStatus status = o->shooting.linearize(o->shooting.user, x, value, gradient);
  return end_evaluation(o, x, check_gradient(o, status, gradient), value);
}

pbStatus pbOptimizer_Try(pbOptimizer *o, double alpha, double *trial, double *value) {
  o->h->values++;
  return end_evaluation(o, trial, o->shooting.attempt(o->shooting.user, o->x, alpha, trial, value), value);
}

pbStatus pbOptimizer_Value(pbOptimizer *o, const double *x, double *value) {
  if (o->problem.value) {
    o->h->values++;
    return end_evaluation(o, x, o->problem.value(o->problem.user, x, value), value);
  }

  // Only methods without gradients come here; work holds n numbers at least.
  return pbOptimizer_Gradient(o, x, value, o->work);
}

// ---- bounds ---------------------------------------------------------------------------------------------------------
void pbOptimizer_Project(const pbOptimizer *o, double *x) {
  for (int i = 0; i < o->n; i++) x[i] = fmin(fmax(x[i], o->lower[i]), o->upper[i]);
}

double pbOptimizer_ProjectedNorm(const pbOptimizer *o, const double *x, const double *g) {
  double worst = 0;
  for (int i = 0; i < o->n; i++) {
    double moved = fmin(fmax(x[i] - g[i], o->lower[i]), o->upper[i]);
    worst = fmax(worst, fabs(moved - x[i]));
  }

  return worst;
}

bool pbOptimizer_Stuck(const pbOptimizer *o, const double *x, const double *g, int i) {
  return (x[i] <= o->lower[i] && g[i] > 0) || (x[i] >= o->upper[i] && g[i] < 0);
}

void pbOptimizer_Moved(pbOptimizer *o, double length) {
  o->h->step_norm = length;
  if (length <= o->options.step_tolerance * (1 + pbVec_Norm(o->x, o->n))) o->h->outcome = pb_smallStep;
}
