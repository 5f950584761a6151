// Products by the best kernels that the processor has.
// Tests: tests/unit/test_product.c.
#include "linalg/product.h"

#include <stdint.h>

#include "base/assert.h"
#include "linalg/product_kernels.h"

PB_PRODUCT_KERNELS(PB_KERNEL_DECLARE)

#define TABLE(suffix) {PB_PRODUCT_KERNELS(PB_KERNEL_ENTRY, suffix)},
static const pbProductKernels tables[] = {PB_VARIANTS(TABLE)};

const pbProductKernels *pbProductKernels_At(int index) {
  int variant = pbCpu_Variant(index);
  return variant < 0 ? NULL : &tables[variant];
}

size_t pbProduct_WorkBytes(const pbProductShape *shape) {
  size_t entries = pbProduct_StripEntries(shape) + pbProduct_Entries(shape, PB_PRODUCT_BREADTH);
  return (sizeof(double) * entries + 64) & ~(size_t)63;
}

// Rows are as long as they have to be.
static bool fits(const pbProductShape *s) {
  return s->lda >= (s->a_transposed ? s->m : s->k) && s->ldb >= (s->b_transposed ? s->k : s->n) && s->ldc >= s->n;
}

void pbProduct_Add(const pbProductShape *shape, const double *A, const double *B, double *C, void *work) {
  PB_ASSERT(shape->m >= 0 && shape->n >= 0 && shape->k >= 0);
  PB_ASSERT(fits(shape));
  PB_ASSERT((uintptr_t)work % 64 == 0);

  pbProductKernels_At(0)->in_double(shape, A, B, C, work);
}

void pbProduct_AddSingle(const pbProductShape *shape, const float *A, const float *B, float *C, void *work) {
  PB_ASSERT(shape->m >= 0 && shape->n >= 0 && shape->k >= 0);
  PB_ASSERT(fits(shape));
  PB_ASSERT((uintptr_t)work % 64 == 0);

  pbProductKernels_At(0)->in_single(shape, A, B, C, work);
}
