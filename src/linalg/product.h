// Products of dense matrices, in double and in float: C += op(A) op(B), row-major, op(X) = X or its transpose.
//
// Every entry of C is one sum, begun with what stands in C, of products in ascending order of k, each product and each sum
// rounded (nothing is fused). So its bits depend on C, on its row of op(A) and its column of op(B) alone: not on m and n, on
// blocks and registers, nor on the instruction set; a column of many has the bits of the product with that column alone, and a
// product over 2 k terms those of two products over k terms each. NaN and infinities go where the sums take them, 0 inf is NaN;
// the sign and payload of a NaN are not part of the promise.
//
// One thread. Parts of a product (rows or columns of C) may be given to several threads with a work buffer each.
#ifndef PB_PRODUCT_H
#define PB_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct pbProductShape {
  int m, n, k;                      // C: m x n, op(A): m x k, op(B): k x n; any may be 0
  bool a_transposed, b_transposed;  // A stands as k x m, B as n x k
  int lda, ldb, ldc;                // from one row to the next as they stand: at least as long as the rows are
} pbProductShape;

// Room a product needs, for double and float alike: not less for a larger m, n or k, whatever is transposed.
size_t pbProduct_WorkBytes(const pbProductShape *shape);

// C shares nothing with A and B. work: pbProduct_WorkBytes, from a multiple of 64.
void pbProduct_Add(const pbProductShape *shape, const double *A, const double *B, double *C, void *work);
void pbProduct_AddSingle(const pbProductShape *shape, const float *A, const float *B, float *C, void *work);

#endif
