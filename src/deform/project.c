// Negative eigenvalues of element matrices changed: elimination finds most matrices definite; the others are diagonalized.
// Tests: tests/unit/test_deform.c.
#include "deform/project.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"

// Most matrices need nothing: elimination without a negative pivot says so for a fraction of the cost. L: in, the matrix;
// destroyed.
static bool semidefinite(double *L, int n) {
  double most = 0;
  for (int i = 0; i < n; i++) most = fmax(most, fabs(L[i * n + i]));

  // A triangular factorization without pivoting, in the lower triangle of L.
  for (int k = 0; k < n; k++) {
    double pivot = L[k * n + k];

    // A rigid motion has no pivot: the rest of its column must vanish too.
    bool none = fabs(pivot) <= 1e-10 * most;

    if (!none && pivot < 0) return false;
    for (int i = k + 1; i < n; i++) {
      double f = L[i * n + k];
      if (none && fabs(f) > 1e-9 * most) return false;
      if (none) continue;
      for (int j = k + 1; j <= i; j++) L[i * n + j] -= f * L[j * n + k] / pivot;
    }
  }

  return true;
}

// A := (1 - beta v v') A (1 - beta v v') on its trailing rows and columns from `first`, where v lives; A symmetric. p: room, n
// numbers.
static void reflect(double *A, int n, int first, const double *v, double beta, double *p) {
  // p = beta A v, then A -= v w' + w v' with w = p - (beta/2) (p.v) v (Golub and Van Loan 8.3.1).
  double pv = 0;
  for (int i = first; i < n; i++) {
    p[i] = 0;
    for (int j = first; j < n; j++) p[i] += A[i * n + j] * v[j];
    p[i] *= beta;
    pv += p[i] * v[i];
  }

  for (int i = first; i < n; i++) p[i] -= 0.5 * beta * pv * v[i];
  for (int i = first; i < n; i++) {
    for (int j = first; j < n; j++) A[i * n + j] -= v[i] * p[j] + p[i] * v[j];
  }
}

// Q := (1 - beta v v') Q. p: room, n numbers.
static void reflect_rows(double *Q, int n, int first, const double *v, double beta, double *p) {
  memset(p, 0, (size_t)n * sizeof *p);
  for (int i = first; i < n; i++) {
    for (int j = 0; j < n; j++) p[j] += v[i] * Q[i * n + j];
  }

  for (int i = first; i < n; i++) {
    for (int j = 0; j < n; j++) Q[i * n + j] -= beta * v[i] * p[j];
  }
}

// A = Q' T Q with T tridiagonal: diagonal d, beside it e. A is destroyed.
static void tridiagonal(double *A, int n, double *Q, double *d, double *e) {
  memset(Q, 0, (size_t)(n * n) * sizeof *Q);
  for (int i = 0; i < n; i++) Q[i * n + i] = 1;

  for (int k = 0; k + 1 < n; k++) {
    // The reflection that maps column k below its head to a multiple of the first unit vector. v in d: filled when all are done.
    double *v = d, below = 0, head = A[(k + 1) * n + k];
    for (int i = k + 2; i < n; i++) below += A[i * n + k] * A[i * n + k];

    if (below > 0) {
      double length = sqrt(head * head + below);

      // The head moves away from zero, so that nothing cancels.
      for (int i = k + 1; i < n; i++) v[i] = A[i * n + k];
      v[k + 1] += head >= 0 ? length : -length;
      double beta = 2 / (v[k + 1] * v[k + 1] + below);

      reflect(A, n, k + 1, v, beta, e);
      reflect_rows(Q, n, k + 1, v, beta, e);
      A[k * n + k + 1] = head >= 0 ? -length : length;
    } else {
      A[k * n + k + 1] = head;
    }
  }

  for (int i = 0; i < n; i++) d[i] = A[i * n + i];
  for (int i = 0; i + 1 < n; i++) e[i] = A[i * n + i + 1];
}

// One implicit QR sweep over rows lo .. hi of T, which has d on its diagonal and e beside it, with Wilkinson's shift (Golub and
// Van Loan, algorithm 8.3.2). T := G T G' for one rotation G of neighboring rows after the other; the rows of Q rotate along.
static void sweep(double *d, double *e, int lo, int hi, double *Q, int n) {
  // The shift: that eigenvalue of the last 2 x 2 block which is nearer to its last entry.
  double half = 0.5 * (d[hi - 1] - d[hi]), last = e[hi - 1], root = sqrt(half * half + last * last);
  double shift = d[hi] - last * last / (half >= 0 ? half + root : half - root);

  // head: entry beside the diagonal that stays; bulge: the one below it that the next rotation takes to zero.
  double head = d[lo] - shift, bulge = e[lo];
  for (int k = lo; k < hi; k++) {
    double length = pbHypot(head, bulge), cosine = length > 0 ? head / length : 1, sine = length > 0 ? -bulge / length : 0;
    double upper = d[k], beside = e[k], lower = d[k + 1];

    if (k > lo) e[k - 1] = length;
    d[k] = cosine * cosine * upper - 2 * cosine * sine * beside + sine * sine * lower;
    d[k + 1] = sine * sine * upper + 2 * cosine * sine * beside + cosine * cosine * lower;
    e[k] = cosine * sine * (upper - lower) + (cosine * cosine - sine * sine) * beside;

    // It makes the next bulge, one row below.
    if (k + 1 < hi) {
      head = e[k];
      bulge = -sine * e[k + 1];
      e[k + 1] *= cosine;
    }

    double *row = Q + k * n, *next = row + n;
    for (int i = 0; i < n; i++) {
      double before = row[i], below = next[i];
      row[i] = cosine * before - sine * below;
      next[i] = sine * before + cosine * below;
    }
  }
}

// Eigenvalues to d, eigenvectors to the rows of Q; false where T is not finite.
static bool diagonalize(double *d, double *e, double *Q, int n) {
  int hi = n - 1;

  for (int left = 30 * n; hi > 0 && left > 0; left--) {
    int lo = hi;

    // The trailing block that does not decouple yet.
    while (lo > 0 && fabs(e[lo - 1]) > DBL_EPSILON * (fabs(d[lo - 1]) + fabs(d[lo]))) lo--;
    if (lo == hi) hi--;
    else sweep(d, e, lo, hi, Q, n);
  }

  return hi == 0;
}

void pbProject_Definite(double *A, int n, double share, double *room) {
  double *S = room, *Q = S + n * n;   // workspace, n x n each: symmetric part; a copy, later eigenvectors as rows
  double *d = Q + n * n, *e = d + n;  // workspace, n each: diagonal, later eigenvalues; beside the diagonal
  PB_ASSERT(n > 0 && share > 0 && share <= 1);

  // The symmetric part twice: one is destroyed by the test for definiteness.
  for (int i = 0; i < n; i++) {
    for (int j = 0; j <= i; j++) {
      double mean = 0.5 * (A[i * n + j] + A[j * n + i]);
      S[i * n + j] = mean;
      S[j * n + i] = mean;
      Q[i * n + j] = mean;
    }
  }

  // Most element matrices end here.
  if (semidefinite(Q, n)) return;
  tridiagonal(S, n, Q, d, e);
  if (!diagonalize(d, e, Q, n)) return;

  // A += (l' - l) q q' for each negative eigenvalue l, which becomes l' = (1 - share) l - share l.

  for (int k = 0; k < n; k++) {
    const double *q = Q + k * n;
    if (!(d[k] < 0)) continue;

    for (int i = 0; i < n; i++) {
      double more = -2 * share * d[k] * q[i];
      for (int j = 0; j < n; j++) A[i * n + j] += more * q[j];
    }
  }
}
