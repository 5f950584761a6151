// Dense LU factorisation with partial pivoting of square matrices of plain doubles, row-major; element by element, so that every
// instruction set gives the same bits.
#ifndef PB_LU_H
#define PB_LU_H

#include "number/number.h"

// In place: P A = L U. perm has n entries. False where a pivot is zero or not finite.
bool NUM(pbLu_Factor)(double *A, int *perm, int n);
// x := A^-1 x; x has room for 2 n.
void NUM(pbLu_Solve)(const double *LU, const int *perm, int n, double *x);

#endif
