#include "sparse/kernels.h"

#define DECLARE(suffix)                                                                                                \
  int pbSparse_Eliminate##suffix(const pbSparseAnalysis *, const double *, double *, double *, const pbFactorWork *);  \
  void pbSparse_Substitute##suffix(const pbSparseAnalysis *, const double *, const double *, double *, double *);      \
  void pbSparse_SubstituteLanes##suffix(const pbSparseAnalysis *, const double *, const double *, double *, double *); \
  static const pbSparseKernels kernels##suffix = {pbSparse_Eliminate##suffix, pbSparse_Substitute##suffix,             \
                                                  pbSparse_SubstituteLanes##suffix};
DECLARE(_r)
#ifdef PB_HAVE_V3
DECLARE(_v3)
#endif
#ifdef PB_HAVE_V4
DECLARE(_v4)
#endif

const pbSparseKernels *pbSparseKernels_At(int index) {
#ifdef PB_HAVE_V4
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") && index-- == 0) {
    return &kernels_v4;
  }
#endif
#ifdef PB_HAVE_V3
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") && index-- == 0)
    return &kernels_v3;
#endif
  return index == 0 ? &kernels_r : NULL;
}
