// Quadratics in a box, by projected Newton steps. Tests: tests/unit/test_box_qp.c.
#include "control/box_qp.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "linalg/small.h"

size_t pbBoxQp_Doubles(int n) { return 2 * (size_t)n * (size_t)n + 7 * (size_t)n; }

void pbBoxQp_Place(pbBoxQp *q, int n, double *doubles, int *integers) {
  size_t width = (size_t)n, square = width * width;
  double **vectors[] = {&q->g, &q->lower, &q->upper, &q->x, &q->slope, &q->step, &q->trial};
  PB_ASSERT(n >= 0);
  q->n = n;
  q->H = doubles;
  q->L = doubles + square;
  q->free = integers;
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) *vectors[i] = doubles + 2 * square + i * width;
}

static double within(const pbBoxQp *q, int i, double x) { return fmin(fmax(x, q->lower[i]), q->upper[i]); }

static double dot(const double *a, const double *b, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

static void find_slope(pbBoxQp *q) {
  for (int i = 0; i < q->n; i++) q->slope[i] = q->g[i] + dot(q->H + (size_t)i * (size_t)q->n, q->x, q->n);
}

// A bound holds an unknown where it stands there and would leave. Says whether others are free than before.
static bool choose_free(pbBoxQp *q) {
  int count = 0;
  bool changed = false;
  for (int i = 0; i < q->n; i++) {
    bool low = q->x[i] <= q->lower[i] && q->slope[i] >= 0, high = q->x[i] >= q->upper[i] && q->slope[i] <= 0;
    if (low || high || q->lower[i] == q->upper[i]) continue;
    changed |= count >= q->free_count || q->free[count] != i;
    q->free[count++] = i;
  }

  changed |= count != q->free_count;
  q->free_count = count;

  return changed;
}

static bool factor_free(pbBoxQp *q) {
  const double least = 1e-14;  // of the diagonal: what is left of a pivot below that is rounding
  int count = q->free_count;
  size_t n = (size_t)q->n, width = (size_t)count;

  for (int a = 0; a < count; a++) {
    double *row = q->L + (size_t)a * width;
    for (int b = 0; b < count; b++) row[b] = q->H[(size_t)q->free[a] * n + (size_t)q->free[b]];
    double diagonal = row[a], pivot = small_cholesky_row(q->L, count, a);
    if (!(pivot > least * diagonal)) return false;
    row[a] = sqrt(pivot);
  }

  return true;
}

// To the least value with the rest held; false: that is no move but for rounding.
static bool newton_step(pbBoxQp *q) {
  double *of_free = q->trial;
  bool moves = false;
  for (int a = 0; a < q->free_count; a++) of_free[a] = -q->slope[q->free[a]];
  small_forward(q->L, q->free_count, of_free);
  small_backward(q->L, q->free_count, of_free);

  memset(q->step, 0, (size_t)q->n * sizeof *q->step);
  for (int a = 0; a < q->free_count; a++) {
    int i = q->free[a];
    q->step[i] = of_free[a];
    moves |= fabs(of_free[a]) > 1e-15 * fabs(q->x[i]);
  }

  return moves;
}

// Moves x along the step, cut off at the bounds, as far as the value falls (Armijo). True: all of it.
static bool search(pbBoxQp *q) {
  enum { halvings = 40 };
  int n = q->n;
  double part = 1;

  for (int k = 0; k < halvings; k++, part /= 2) {
    double slope = 0, curvature = 0;
    bool whole = part == 1;
    for (int i = 0; i < n; i++) {
      double to = q->x[i] + part * q->step[i];
      q->trial[i] = within(q, i, to) - q->x[i];
      whole &= within(q, i, to) == to;
      slope += q->slope[i] * q->trial[i];
    }

    for (int i = 0; i < n; i++) curvature += q->trial[i] * dot(q->H + (size_t)i * (size_t)n, q->trial, n);
    if (!whole && slope + curvature / 2 > 0.1 * slope) continue;

    // sums that end at a bound end there exactly
    for (int i = 0; i < n; i++) q->x[i] = within(q, i, q->x[i] + part * q->step[i]);
    return whole;
  }

  return true;
}

bool pbBoxQp_Solve(pbBoxQp *q) {
  enum { most_rounds = 200 };
  PB_ASSERT(q->n >= 0);
  for (int i = 0; i < q->n; i++) q->x[i] = within(q, i, q->x[i]);

  // a set that no choice is, so that the first one counts as another
  q->free_count = -1;

  bool whole = false;
  for (int round = 0; round < most_rounds; round++) {
    find_slope(q);
    bool changed = choose_free(q);
    if (!changed && whole) return true;

    if (changed && !factor_free(q)) return false;
    if (!newton_step(q)) return true;
    whole = search(q);
  }

  return true;
}
