// Dense linear algebra of the complementarity solver: row-major, in place, on memory of the caller.
#ifndef PB_LCP_DENSE_H
#define PB_LCP_DENSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Are all of eight entries +0? Most of a contact problem's matrices is.
static inline bool pbDense_Zero8(const double *a) {
  uint64_t bits[8], any = 0;
  memcpy(bits, a, sizeof bits);
  for (int k = 0; k < 8; k++) any |= bits[k];
  return !any;
}

double pbDense_Dot(const double *a, const double *b, int n);
void pbDense_Add(double *y, double a, const double *x, int n);                          // y += a x
void pbDense_Mul(double *y, const double *A, const double *x, int rows, int cols);      // y = A x
void pbDense_AddMulT(double *y, const double *A, const double *x, int rows, int cols);  // y += A' x
double pbDense_MaxAbs(const double *x, int n);                                          // NaN where there is one

// A = L L', lower triangle in place. Returns the first row whose pivot is not above `smallest`, -1 when done.
int pbDense_Cholesky(double *A, int n, double smallest);
void pbDense_Forward(const double *L, double *x, int n);   // x = L^-1 x
void pbDense_Backward(const double *L, double *x, int n);  // x = L'^-1 x

// P A = L U with partial pivoting; perm has n entries. False where a pivot is zero or not finite.
bool pbDense_Lu(double *A, int *perm, int n);
void pbDense_LuSolve(const double *LU, const int *perm, double *x, int n);   // x = A^-1 x
void pbDense_LuSolveT(const double *LU, const int *perm, double *x, int n);  // x = A'^-1 x
double pbDense_LuSign(const double *LU, const int *perm, int n);             // of the determinant
// Estimate of |A^-1|_1 (Hager 1984, Higham 1988); x and y: n each, overwritten.
double pbDense_LuInverseNorm(const double *LU, const int *perm, double *x, double *y, int n);
double pbDense_Norm1(const double *A, int n);

// Solution of least norm of a square system that may be singular, in the sense of least squares: complete orthogonal
// decomposition (Golub & Van Loan, 5.5.2). The rank counts pivots above `tolerance` times the largest.
typedef struct pbDenseCod {
  int n, rank;
  double *A;                  // n x n, columns contiguous; filled by the caller with the matrix, then holds the factors
  double *tau, *tau2, *norm;  // n each
  double *T;                  // n x n
  int *perm;                  // n
  double condition;           // ratio of the largest pivot to the smallest that counts
} pbDenseCod;
void pbDenseCod_Factor(pbDenseCod *cod, double tolerance);
void pbDenseCod_Solve(const pbDenseCod *cod, double *x, double *tmp);  // x: right-hand side in, solution out; tmp: n

#endif
