// Iterative solution of linear systems: conjugate gradients where the matrix is symmetric and positive definite, restarted
// GMRES where it is not. Matrix and preconditioner are functions, among them block matrices, block Jacobi and a factor, be it
// that of the matrix, of its symmetric part or of an earlier matrix: a stale factor costs a solve an iteration and no
// factorization.
#ifndef PB_SPARSE_KRYLOV_H
#define PB_SPARSE_KRYLOV_H

#include "sparse/sparse.h"

// y = B x, or B' x; x and y are different arrays.
typedef struct pbLinear {
  void (*apply)(void *user, bool transposed, const double *x, double *y);
  void *user;
} pbLinear;

// Block matrix; upper as in pbSparse_Multiply.
typedef struct pbSparseMatrix {
  const pbSparsePattern *pattern;
  const double *values, *upper;
} pbSparseMatrix;
pbLinear pbLinear_Matrix(pbSparseMatrix *matrix);

// Inverse by a factor. work: pbSparseAnalysis_WorkSize.
typedef struct pbSparseInverse {
  const pbSparseFactor *factor;
  void *work;
} pbSparseInverse;
pbLinear pbLinear_Inverse(pbSparseInverse *inverse);

// Inverses of the diagonal blocks (9n, the caller's; whole blocks are read). pbBlockJacobi_Make returns the first block row
// whose determinant is not above 1e-14 of the cube of its largest entry, -1 where there is none.
typedef struct pbBlockJacobi {
  int n;            // block rows
  double *inverse;  // borrowed, 9n
} pbBlockJacobi;
int pbBlockJacobi_Make(const pbSparsePattern *pattern, const double *values, pbBlockJacobi *jacobi);
pbLinear pbLinear_Jacobi(pbBlockJacobi *jacobi);

typedef struct pbKrylov {
  int n;                          // unknowns: 3 times the blocks
  pbLinear matrix, precondition;  // precondition approximates the inverse; apply NULL: none
  double tolerance;               // of |b - A x| / |b|, 2-norms
  int iterations;                 // most
  int restart;                    // GMRES: vectors kept, at least 1
  bool transposed;                // GMRES: A' x = b
} pbKrylov;

typedef struct pbKrylovReport {
  int iterations;   // products with the matrix, those for residuals not counted
  double residual;  // |b - A x| / |b|, computed from x
} pbKrylovReport;

// x: the start on entry. pb_no_convergence: x is as far as it came, the report says how far. pb_singular: conjugate gradients
// met a direction of no positive curvature (matrix or preconditioner). pb_not_finite. work: as many bytes as asked for here.
size_t pbCg_WorkSize(int n);
size_t pbGmres_WorkSize(int n, int restart);
PB_NODISCARD pbStatus pbCg_Solve(pbContext *ctx, const pbKrylov *k, const double *b, double *x, void *work,
                                 pbKrylovReport *report);
PB_NODISCARD pbStatus pbGmres_Solve(pbContext *ctx, const pbKrylov *k, const double *b, double *x, void *work,
                                    pbKrylovReport *report);

#endif
