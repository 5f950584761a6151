// Linear algebra of implicit deformables: symmetric sparse matrices of 3x3 blocks, their factorization A = P' L D L' P, and
// iterative methods on them.
//
// A matrix is a pattern and an array of values. The pattern holds the lower triangle by block columns: column j has the rows
// row[begin[j]] .. row[begin[j + 1] - 1], ascending, j itself first (the diagonal is always there). A place in this list is
// a slot; the block A(3i..3i+2, 3j..3j+2), i >= j, stands row-major in values[9 slot .. 9 slot + 8]:
//
//   if (i >= j) values[9 * pbSparse_Slot(p, i, j) + 3 * r + c] += block_ij[3 * r + c];      // skip i < j: it is the transpose
//
// Diagonal blocks are given whole. An unsymmetric matrix has a second array, `upper`: upper[9 slot ..] is the block (j, i),
// row-major as it is (what stands at the diagonal's slots is not read). Vectors have 3n entries, block by block.
//
// Results have the same bits on every instruction set: sums run in one order, nothing is fused.
#ifndef PB_SPARSE_H
#define PB_SPARSE_H

#include <pullback/base.h>

// ---- patterns -------------------------------------------------------------------------------------------------------
typedef struct pbSparsePattern {
  pbContext *ctx;
  int n, slots;  // block rows; blocks of the lower triangle
  int *begin;    // n + 1
  int *row;      // slots
} pbSparsePattern;

// The blocks of `base` (NULL: none; else of n rows too) and those of `count` pairs (i, j) in any order, repeated or not;
// (i, j) and (j, i) are one. pb_bad_input where an index is not in 0 .. n - 1.
PB_NODISCARD pbStatus pbSparsePattern_Create(pbContext *ctx, int n, const pbSparsePattern *base, const int *pairs, size_t count,
                                             pbSparsePattern **pattern);
void pbSparsePattern_Destroy(pbSparsePattern *pattern);  // NULL is fine
// Of (i, j) or (j, i); -1 where there is none.
int pbSparse_Slot(const pbSparsePattern *pattern, int i, int j);

// y = A x, or A' x where transposed; upper NULL: symmetric. y is not x.
void pbSparse_Multiply(const pbSparsePattern *pattern, const double *values, const double *upper, bool transposed,
                       const double *x, double *y);

// ---- factorization --------------------------------------------------------------------------------------------------
// What is known from the pattern alone: an order that keeps fill small, the tree of fronts, where everything goes. Const, so
// one analysis serves many threads and factors; it does not look at the pattern again.
typedef struct pbSparseAnalysis pbSparseAnalysis;
typedef struct pbSparseFactor pbSparseFactor;

// order: n blocks in the order of their elimination; NULL: found here, which takes most of the time. pb_bad_input where it is
// no permutation. The order of an earlier analysis serves again where the pattern lost blocks, or gained some between
// neighbors; blocks that join distant parts, as contacts do, make it many times worse (pbSparseAnalysis_Flops tells) than a
// new one.
PB_NODISCARD pbStatus pbSparseAnalysis_Create(pbContext *ctx, const pbSparsePattern *pattern, const int *order,
                                              pbSparseAnalysis **analysis);
void pbSparseAnalysis_Destroy(pbSparseAnalysis *analysis);  // NULL is fine
const int *pbSparseAnalysis_Order(const pbSparseAnalysis *analysis);
double pbSparseAnalysis_Flops(const pbSparseAnalysis *analysis);     // of one factorization: multiplications and additions
size_t pbSparseAnalysis_Entries(const pbSparseAnalysis *analysis);   // of L, zeros that were let in included
size_t pbSparseAnalysis_WorkSize(const pbSparseAnalysis *analysis);  // bytes of `work` below; any alignment, any contents

// Room for a factor; it may not outlive its analysis.
PB_NODISCARD pbStatus pbSparseFactor_Create(pbContext *ctx, const pbSparseAnalysis *analysis, pbSparseFactor **factor);
void pbSparseFactor_Destroy(pbSparseFactor *factor);                       // NULL is fine
size_t pbSparseFactor_Bytes(const pbSparseAnalysis *analysis);             // what one factor takes
void pbSparseFactor_Copy(const pbSparseFactor *from, pbSparseFactor *to);  // both of one analysis

// To and from plain memory of so many bytes (aligned to 8), between factors of analyses of the same pattern.
size_t pbSparseFactor_SavedBytes(const pbSparseAnalysis *analysis);
void pbSparseFactor_Save(const pbSparseFactor *factor, void *memory);
void pbSparseFactor_Load(pbSparseFactor *factor, const void *memory);

typedef struct pbSparseInertia {
  int positive, negative;  // pivots, 3n together: a factor has no zero ones
  double smallest;         // least |pivot| over the largest entry of its row of A; 1 where n = 0
  int block;               // the block row where that is
} pbSparseInertia;

// A = P' L D L' P of the symmetric matrix `values`; of diagonal blocks the lower triangle is read. D is diagonal and may have
// both signs. Pivots are taken as they come, none is exchanged: where A is indefinite the residual tells of growth
// (pbSparse_SolveRefined). pb_singular, with the block row in *block (may be NULL) and in the text: a pivot below 1e-14 of the
// largest entry of its row of A; pb_not_finite, likewise: NaN or overflow. The factor must not be used after a failure.
PB_NODISCARD pbStatus pbSparse_Factor(pbContext *ctx, pbSparseFactor *factor, const double *values, void *work, int *block);
pbSparseInertia pbSparseFactor_Inertia(const pbSparseFactor *factor);

// X = A^-1 B for `count` right-hand sides, one after the other (3n each); x may be b. A is symmetric: also the transposed. A
// solution has the same bits alone and among others.
void pbSparse_Solve(const pbSparseFactor *factor, int count, const double *b, double *x, void *work);
// The same for one, then one step of refinement with the matrix itself. Returns the largest |b - A x| over the largest |b|
// before that step, 0 where b = 0. x is not b.
double pbSparse_SolveRefined(const pbSparseFactor *factor, const pbSparsePattern *pattern, const double *values, const double *b,
                             double *x, void *work);
// Estimate (from below, mostly within a factor of 3) of |A| |A^-1| in the 1-norm, after Hager 1984 and Higham 1988.
double pbSparse_Condition(const pbSparseFactor *factor, const pbSparsePattern *pattern, const double *values, void *work);

#endif
