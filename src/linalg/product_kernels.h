// The kernels of products and the table of their variants.
#ifndef PB_PRODUCT_KERNELS_H
#define PB_PRODUCT_KERNELS_H

#include "linalg/product.h"
#include "number/kernel_table.h"

enum {
  PB_PRODUCT_DEPTH = 128,    // products over which slivers are packed: two tiles' sides stay in the first cache
  PB_PRODUCT_BREADTH = 240,  // columns packed together, whole tiles of every width: stay in the second cache
  PB_PRODUCT_STRIP = 64,     // rows packed together
  PB_PRODUCT_STREAMS = 16    // rows that are read side by side without packing
};

// Room for a packed strip, and for packed columns behind it, in entries: whatever changes its role, and whole vectors.
static inline size_t pbProduct_Entries(const pbProductShape *shape, int most) {
  int depth = shape->k < PB_PRODUCT_DEPTH ? shape->k : PB_PRODUCT_DEPTH, side = shape->m > shape->n ? shape->m : shape->n;
  int whole = side < most ? (side + 15) & -16 : most;
  return (size_t)depth * (size_t)whole;
}
static inline size_t pbProduct_StripEntries(const pbProductShape *shape) {
  return (pbProduct_Entries(shape, PB_PRODUCT_STRIP) + 15) & ~(size_t)15;
}

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
