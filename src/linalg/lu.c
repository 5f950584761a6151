// Dense LU with partial pivoting, outer product form (Golub & Van Loan, Matrix Computations, 3.4).
// Tests: tests/unit/test_hard.c.
#include "linalg/lu.h"

#include "base/assert.h"

static void swap_rows(double *A, int n, int i, int j) {
  if (i == j) return;
  for (int c = 0; c < n; c++) {
    double t = A[i * n + c];
    A[i * n + c] = A[j * n + c];
    A[j * n + c] = t;
  }
}

bool NUM(pbLu_Factor)(double *A, int *perm, int n) {
  for (int i = 0; i < n; i++) perm[i] = i;
  for (int k = 0; k < n; k++) {
    // The largest entry of the column is the pivot.
    int p = k;
    for (int i = k + 1; i < n; i++) p = fabs(A[i * n + k]) > fabs(A[p * n + k]) ? i : p;
    if (!(fabs(A[p * n + k]) > 0) || !isfinite(A[p * n + k])) return false;

    swap_rows(A, n, p, k);
    int t = perm[k];
    perm[k] = perm[p];
    perm[p] = t;

    // The column of L, and its outer product with the row of U off the rest.
    const double *pivot = A + k * n, inverse = 1 / pivot[k];
    for (int i = k + 1; i < n; i++) {
      double *row = A + i * n;
      if (row[k] == 0) continue;
      row[k] *= inverse;
      pb_axpy(row + k + 1, -row[k], pivot + k + 1, n - k - 1);
    }
  }
  return true;
}

void NUM(pbLu_Solve)(const double *LU, const int *perm, int n, double *x) {
  PB_VALIDATE(pb_allWithin(perm, n, 0, n));
  double *y = x + n;  // the second half is room for the permuted right-hand side
  for (int i = 0; i < n; i++) y[i] = x[perm[i]];
  // L y := y, U y := y

  for (int i = 0; i < n; i++) {
    for (int j = 0; j < i; j++) y[i] -= LU[i * n + j] * y[j];
  }

  for (int i = n - 1; i >= 0; i--) {
    for (int j = i + 1; j < n; j++) y[i] -= LU[i * n + j] * y[j];
    y[i] /= LU[i * n + i];
  }

  memcpy(x, y, (size_t)n * sizeof *x);
}
