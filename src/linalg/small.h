// Dense linear algebra of small symmetric matrices, row-major, where they stand: for what has some tens of rows at most, outside
// the solvers' inner loops. Sums run in ascending order, element by element, so every instruction set gives the same bits.
// Larger ones: lu.h; tree-sparse ones: tree_ldl.h; those of complementarity problems have panels (lcp/dense.c).
#ifndef PB_SMALL_H
#define PB_SMALL_H

#include "number/number.h"

// Row i of the Cholesky factor, A = L L' (Golub & Van Loan 4.2.5), after the rows before it: L(i, 0 .. i-1) in place of A's.
// Returns L(i, i)^2, which is still to be judged and stored: what counts as a pivot is the caller's matter.
static inline num small_cholesky_row(num *A, int n, int i) {
  num *row = A + (size_t)i * (size_t)n;
  for (int j = 0; j < i; j++) {
    const num *other = A + (size_t)j * (size_t)n;
    num sum = row[j];
    for (int k = 0; k < j; k++) sum -= row[k] * other[k];
    row[j] = sum / other[j];
  }

  num left = row[i];
  for (int k = 0; k < i; k++) left -= row[k] * row[k];
  return left;
}

// x := L^-1 x
static inline void small_forward(const num *L, int n, num *x) {
  for (int i = 0; i < n; i++) {
    const num *row = L + (size_t)i * (size_t)n;
    num sum = x[i];
    for (int k = 0; k < i; k++) sum -= row[k] * x[k];
    x[i] = sum / row[i];
  }
}

// x := L^-T x, by rows of L.
static inline void small_backward(const num *L, int n, num *x) {
  for (int i = n - 1; i >= 0; i--) {
    const num *row = L + (size_t)i * (size_t)n;
    x[i] /= row[i];
    for (int k = 0; k < i; k++) x[k] -= row[k] * x[i];
  }
}

#endif
