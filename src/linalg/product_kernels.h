// The kernels of products and the table of their variants.
#ifndef PB_PRODUCT_KERNELS_H
#define PB_PRODUCT_KERNELS_H

#include "linalg/product.h"
#include "number/kernel_table.h"

// As pbProduct_Add and pbProduct_AddSingle.
void NUM(pbProduct_Double)(const pbProductShape *shape, const double *A, const double *B, double *C, void *work);
void NUM(pbProduct_Single)(const pbProductShape *shape, const float *A, const float *B, float *C, void *work);

// The table of a variant: X(member, function, ...), see number/kernel_table.h.
#define PB_PRODUCT_KERNELS(X, ...)              \
  X(in_double, pbProduct_Double, ##__VA_ARGS__) \
  X(in_single, pbProduct_Single, ##__VA_ARGS__)

typedef struct pbProductKernels {
  PB_PRODUCT_KERNELS(PB_KERNEL_MEMBER)
} pbProductKernels;

// Those this processor can run, the best first; NULL beyond the last.
const pbProductKernels *pbProductKernels_At(int index);

#endif
