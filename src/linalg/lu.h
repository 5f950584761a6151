// Dense LU factorization with partial pivoting of square matrices of plain doubles, row-major; element by element, so that
// every instruction set gives the same bits.
#ifndef PB_LU_H
#define PB_LU_H

#include "number/number.h"

// y += s x
static inline void pb_axpy(double *restrict y, double s, const double *restrict x, int n) {
  typedef double quad __attribute__((vector_size(32), aligned(8), may_alias));
  int i = 0;
  for (; i + 4 <= n; i += 4) *(quad *)(y + i) += s * *(const quad *)(x + i);
  for (; i < n; i++) y[i] += s * x[i];
}

// In place: P A = L U. perm has n entries. False where a pivot is zero or not finite.
bool NUM(pbLu_Factor)(double *A, int *perm, int n);
// x := A^-1 x; x has room for 2 n.
void NUM(pbLu_Solve)(const double *LU, const int *perm, int n, double *x);

#endif
