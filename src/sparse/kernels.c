// The table of the kernels' variants, written from their list.
// Tests: tests/unit/test_sparse.c.
#include "sparse/kernels.h"

PB_SPARSE_KERNELS(PB_KERNEL_DECLARE)

#define TABLE(suffix) {PB_SPARSE_KERNELS(PB_KERNEL_ENTRY, suffix)},
static const pbSparseKernels tables[] = {PB_VARIANTS(TABLE)};

const pbSparseKernels *pbSparseKernels_At(int index) {
  int variant = pbCpu_Variant(index);
  return variant < 0 ? NULL : &tables[variant];
}
