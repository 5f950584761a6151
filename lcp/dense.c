// Dense linear algebra (dense.h). Sums are taken in a fixed order, so that results do not depend on the build.
// Tests: tests/unit/test_lcp.c.
#include "lcp/dense.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

#define AT(A, i, j, n) ((A)[(size_t)(i) * (size_t)(n) + (size_t)(j)])

// Four partial sums, so that the loop can be vectorized without changing its result from build to build.
double pbDense_Dot(const double *a, const double *b, int n) {
  double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  int i = 0;

  for (; i + 4 <= n; i += 4) {
    s0 += a[i] * b[i];
    s1 += a[i + 1] * b[i + 1];
    s2 += a[i + 2] * b[i + 2];
    s3 += a[i + 3] * b[i + 3];
  }

  for (; i < n; i++) s0 += a[i] * b[i];
  return (s0 + s1) + (s2 + s3);
}

void pbDense_Add(double *restrict y, double a, const double *restrict x, int n) {
  for (int i = 0; i < n; i++) y[i] += a * x[i];
}

void pbDense_Mul(double *y, const double *A, const double *x, int rows, int cols) {
  for (int i = 0; i < rows; i++) y[i] = pbDense_Dot(&AT(A, i, 0, cols), x, cols);
}

void pbDense_AddMulT(double *y, const double *A, const double *x, int rows, int cols) {
  for (int i = 0; i < rows; i++) {
    if (x[i] != 0) pbDense_Add(y, x[i], &AT(A, i, 0, cols), cols);
  }
}

double pbDense_MaxAbs(const double *x, int n) {
  double most = 0;
  for (int i = 0; i < n; i++) {
    if (!(fabs(x[i]) <= most)) most = fabs(x[i]);  // NaN, too
  }

  return most;
}

// ---- symmetric positive definite ------------------------------------------------------------------------------------
// Row by row (Golub & Van Loan, 4.2.5), from the first entry of each that is not zero.
int pbDense_Cholesky(double *A, int n, double smallest) {
  PB_ASSERT(n >= 0 && smallest >= 0);
  for (int i = 0; i < n; i++) {
    double *row = &AT(A, i, 0, n);
    int first = 0;  // bodies apart from each other leave blocks of zeros

    while (row[first] == 0 && first < i) first++;
    for (int j = first; j < i; j++) row[j] = (row[j] - pbDense_Dot(row + first, &AT(A, j, first, n), j - first)) / AT(A, j, j, n);

    // The pivot.
    double d = row[i] - pbDense_Dot(row + first, row + first, i - first);
    if (!(d > smallest)) return i;
    row[i] = sqrt(d);
  }

  return -1;
}

void pbDense_Forward(const double *L, double *x, int n) {
  for (int i = 0; i < n; i++) x[i] = (x[i] - pbDense_Dot(&AT(L, i, 0, n), x, i)) / AT(L, i, i, n);
}

void pbDense_Backward(const double *L, double *x, int n) {
  for (int i = n - 1; i >= 0; i--) {
    x[i] /= AT(L, i, i, n);
    pbDense_Add(x, -x[i], &AT(L, i, 0, n), i);
  }
}

// ---- square ---------------------------------------------------------------------------------------------------------
enum { PANEL = 24 };

static void swap_rows(double *A, int a, int b, int n) {
  double *restrict ra = &AT(A, a, 0, n), *restrict rb = &AT(A, b, 0, n);
  for (int j = 0; j < n; j++) {
    double t = ra[j];
    ra[j] = rb[j];
    rb[j] = t;
  }
}

// Gauss on columns first .. last-1 of the rows from `first` on, with partial pivoting.
static bool factor_panel(double *A, int *perm, int n, int first, int last) {
  PB_ASSERT(first >= 0 && first < last && last <= n);
  for (int k = first; k < last; k++) {
    int best = k;
    for (int i = k + 1; i < n; i++) {
      if (fabs(AT(A, i, k, n)) > fabs(AT(A, best, k, n))) best = i;
    }

    double pivot = AT(A, best, k, n);
    if (pivot == 0 || !isfinite(pivot)) return false;
    perm[k] = best;
    if (best != k) swap_rows(A, best, k, n);

    for (int i = k + 1; i < n; i++) {
      double *row = &AT(A, i, 0, n);
      row[k] /= pivot;
      if (row[k] != 0) pbDense_Add(row + k + 1, -row[k], &AT(A, k, k + 1, n), last - k - 1);
    }
  }

  return true;
}

// row -= sum over k of row[k] U[k], for the columns behind a panel; four rows of U at a time
static void eliminate(double *A, int n, int i, int first, int last, int begin) {
  double *restrict row = &AT(A, i, 0, n);
  int k = first;

  for (; k + 4 <= last; k += 4) {
    const double *restrict u = &AT(A, k, 0, n);
    double a0 = row[k], a1 = row[k + 1], a2 = row[k + 2], a3 = row[k + 3];

    // Bodies that do not touch leave zeros.
    if (a0 == 0 && a1 == 0 && a2 == 0 && a3 == 0) continue;
    for (int j = begin; j < n; j++) row[j] -= (a0 * u[j] + a1 * u[j + n]) + (a2 * u[j + 2 * n] + a3 * u[j + 3 * n]);
  }

  for (; k < last; k++) pbDense_Add(row + begin, -row[k], &AT(A, k, begin, n), n - begin);
}

// By panels of columns, so that what is left of the matrix is read once a panel (Golub & Van Loan, 3.4.7).
bool pbDense_Lu(double *A, int *perm, int n) {
  for (int first = 0; first < n; first += PANEL) {
    int last = first + PANEL < n ? first + PANEL : n;
    if (!factor_panel(A, perm, n, first, last)) return false;

    // Rows of U behind the panel, then what is left below them.
    for (int i = first + 1; i < last; i++) {
      for (int k = first; k < i; k++) pbDense_Add(&AT(A, i, last, n), -AT(A, i, k, n), &AT(A, k, last, n), n - last);
    }
    for (int i = last; i < n; i++) eliminate(A, n, i, first, last, last);
  }

  return true;
}

void pbDense_LuSolve(const double *LU, const int *perm, double *x, int n) {
  PB_VALIDATE(pb_allWithin(perm, n, 0, n));
  for (int k = 0; k < n; k++) {
    double t = x[perm[k]];
    x[perm[k]] = x[k];
    x[k] = t;
  }

  // L has ones on its diagonal.
  for (int i = 0; i < n; i++) x[i] -= pbDense_Dot(&AT(LU, i, 0, n), x, i);
  for (int i = n - 1; i >= 0; i--) x[i] = (x[i] - pbDense_Dot(&AT(LU, i, i + 1, n), x + i + 1, n - i - 1)) / AT(LU, i, i, n);
}

void pbDense_LuSolveT(const double *LU, const int *perm, double *x, int n) {
  for (int i = 0; i < n; i++) {
    x[i] /= AT(LU, i, i, n);
    pbDense_Add(x + i + 1, -x[i], &AT(LU, i, i + 1, n), n - i - 1);
  }

  for (int i = n - 1; i >= 0; i--) pbDense_Add(x, -x[i], &AT(LU, i, 0, n), i);
  for (int k = n - 1; k >= 0; k--) {
    double t = x[perm[k]];
    x[perm[k]] = x[k];
    x[k] = t;
  }
}

double pbDense_LuSign(const double *LU, const int *perm, int n) {
  double sign = 1;
  for (int i = 0; i < n; i++) {
    if (AT(LU, i, i, n) < 0) sign = -sign;
    if (perm[i] != i) sign = -sign;
  }

  return sign;
}

double pbDense_Norm1(const double *A, int n) {
  double most = 0;
  for (int j = 0; j < n; j++) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += fabs(AT(A, i, j, n));
    if (!(sum <= most)) most = sum;
  }

  return most;
}

// |A^-1 x| over |x|_1 = 1 is convex: ascends from vertex to vertex of the ball.
double pbDense_LuInverseNorm(const double *LU, const int *perm, double *x, double *sign, int n) {
  double estimate = 0;
  for (int i = 0; i < n; i++) x[i] = 1.0 / n;

  for (int round = 0; round < 5; round++) {
    pbDense_LuSolve(LU, perm, x, n);
    double norm = 0;
    for (int i = 0; i < n; i++) {
      norm += fabs(x[i]);
      sign[i] = x[i] >= 0 ? 1 : -1;
    }

    if (!(norm > estimate)) break;
    estimate = norm;

    // The gradient's largest entry is the next vertex.
    pbDense_LuSolveT(LU, perm, sign, n);
    int most = 0;
    for (int i = 1; i < n; i++) {
      if (fabs(sign[i]) > fabs(sign[most])) most = i;
    }
    memset(x, 0, sizeof *x * (size_t)n);
    x[most] = 1;
  }

  return estimate;
}

// ---- singular or not ------------------------------------------------------------------------------------------------
// Householder vector of v (length n) with v[0] = 1 implied: v becomes (beta, tail), returns tau.
static double householder(double *v, int n) {
  PB_ASSERT(n >= 1);
  double tail = pbDense_Dot(v + 1, v + 1, n - 1);
  if (tail == 0) return 0;

  // The sign that does not cancel in v[0] - beta.
  double norm = sqrt(v[0] * v[0] + tail), beta = v[0] > 0 ? -norm : norm, tau = (beta - v[0]) / beta;
  double scale = 1 / (v[0] - beta);
  for (int i = 1; i < n; i++) v[i] *= scale;
  v[0] = beta;

  return tau;
}

// x := (1 - tau v v') x.
static void reflect(const double *v, double tau, double *x, int n) {
  double d = tau * (x[0] + pbDense_Dot(v + 1, x + 1, n - 1));
  x[0] -= d;
  pbDense_Add(x + 1, -d, v + 1, n - 1);
}

static void swap_columns(pbDenseCod *c, int a, int b) {
  if (a == b) return;
  swap_rows(c->A, a, b, c->n);

  double norm = c->norm[a];
  int p = c->perm[a];
  c->norm[a] = c->norm[b];
  c->norm[b] = norm;
  c->perm[a] = c->perm[b];
  c->perm[b] = p;
}

// [R11 R12]' (columns of length n, one per row of R) by reflections again: T holds them and the triangle.
static void factor_rows(pbDenseCod *c) {
  int n = c->n, r = c->rank;
  for (int i = 0; i < r; i++) {
    for (int j = 0; j < n; j++) AT(c->T, i, j, n) = j < i ? 0 : AT(c->A, j, i, n);
  }

  for (int k = 0; k < r; k++) {
    double *col = &AT(c->T, k, k, n);
    c->tau2[k] = householder(col, n - k);
    for (int j = k + 1; j < r; j++) reflect(col, c->tau2[k], &AT(c->T, j, k, n), n - k);
  }
}

// QR with column pivoting (Golub & Van Loan, 5.4.2). Column norms are recomputed rather than updated: as expensive as the
// reflections, and never wrong.
void pbDenseCod_Factor(pbDenseCod *c, double tolerance) {
  PB_ASSERT(c->n >= 1 && tolerance >= 0);
  int n = c->n;
  for (int j = 0; j < n; j++) c->perm[j] = j;
  c->rank = n;
  c->condition = 1;
  double first = 0;

  for (int k = 0; k < n; k++) {
    // The column of which most is left.
    int best = k;
    for (int j = k; j < n; j++) {
      const double *col = &AT(c->A, j, k, n);
      c->norm[j] = pbDense_Dot(col, col, n - k);
      if (c->norm[j] > c->norm[best]) best = j;
    }

    swap_columns(c, k, best);
    double pivot = sqrt(c->norm[k]);
    if (k == 0) first = pivot;

    // What is left is rounding: the rank is found.
    if (!(pivot > tolerance * first)) {
      c->rank = k;
      break;
    }

    c->condition = first / pivot;
    double *col = &AT(c->A, k, k, n);
    c->tau[k] = householder(col, n - k);
    for (int j = k + 1; j < n; j++) reflect(col, c->tau[k], &AT(c->A, j, k, n), n - k);
    if (k + 1 == n) break;
  }

  PB_ASSERT(c->rank >= 0 && c->rank <= n);
  PB_VALIDATE(pb_allWithin(c->perm, n, 0, n));
  if (c->rank < n) factor_rows(c);
}

void pbDenseCod_Solve(const pbDenseCod *c, double *x, double *tmp) {
  int n = c->n, r = c->rank;

  // Q'x; what is beyond the rank no solution meets.
  for (int k = 0; k < r; k++) reflect(&AT(c->A, k, k, n), c->tau[k], x + k, n - k);

  // Of the solutions that of least norm: zero in the directions left open.
  memset(tmp, 0, sizeof *tmp * (size_t)n);

  if (r == n) {
    memcpy(tmp, x, sizeof *tmp * (size_t)n);
    for (int i = n - 1; i >= 0; i--) {
      tmp[i] /= AT(c->A, i, i, n);
      pbDense_Add(tmp, -tmp[i], &AT(c->A, i, 0, n), i);
    }
  } else {
    // [R11 R12] = U' Z': U' y = x, then Z y.
    for (int i = 0; i < r; i++) {
      double sum = x[i];
      for (int k = 0; k < i; k++) sum -= AT(c->T, i, k, n) * tmp[k];
      tmp[i] = sum / AT(c->T, i, i, n);
    }

    for (int k = r - 1; k >= 0; k--) reflect(&AT(c->T, k, k, n), c->tau2[k], tmp + k, n - k);
  }

  for (int j = 0; j < n; j++) x[c->perm[j]] = tmp[j];
}
