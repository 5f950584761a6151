// The kernels of a factorization and of a solution, and the table of their variants.
#ifndef PB_SPARSE_KERNELS_H
#define PB_SPARSE_KERNELS_H

#include "number/kernel_table.h"
#include "sparse/analysis.h"
#include "sparse/front.h"

// L: panels; D: 3n. Returns the first pivot (by place, scalar) that is too small or not finite, -1 where there is none.
typedef struct pbFactorWork {
  double *stack;  // workspace, stack_size: updates of fronts that their parents have not taken yet
  double *tiny;   // input, 3n by place: pivots up to this are none
  pbFrontWork front;
} pbFactorWork;
int NUM(pbSparse_Eliminate)(const pbSparseAnalysis *a, const double *values, double *L, double *D, const pbFactorWork *work);

// y := A^-1 y, by place; front: room for the most rows of a front.
void NUM(pbSparse_Substitute)(const pbSparseAnalysis *a, const double *L, const double *D, double *y, double *front);
// The same, with the same bits, for PB_SOLVE_LANES right-hand sides: entry i of all of them together in y[PB_SOLVE_LANES i ..].
enum { PB_SOLVE_LANES = 4 };
void NUM(pbSparse_SubstituteLanes)(const pbSparseAnalysis *a, const double *L, const double *D, double *y, double *front);

// The table of a variant: X(member, function, ...), see number/kernel_table.h.
#define PB_SPARSE_KERNELS(X, ...)                   \
  X(eliminate, pbSparse_Eliminate, ##__VA_ARGS__)   \
  X(substitute, pbSparse_Substitute, ##__VA_ARGS__) \
  X(substitute_lanes, pbSparse_SubstituteLanes, ##__VA_ARGS__)

typedef struct pbSparseKernels {
  PB_SPARSE_KERNELS(PB_KERNEL_MEMBER)
} pbSparseKernels;

// Those this processor can run, the best first; NULL beyond the last.
const pbSparseKernels *pbSparseKernels_At(int index);
void pbSparseFactor_Use(pbSparseFactor *factor, int index);  // kernels other than the best, to compare them

#endif
