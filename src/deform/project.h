// Nearest positive semidefinite matrix, for Newton's method away from a minimum.
#ifndef PB_PROJECT_H
#define PB_PROJECT_H

// The symmetric part of A (n x n, row-major) with its eigenvalues replaced by their absolute values (which bends less than dropping them where
// a material is compressed: Chen et al. 2024). room: pbProject_Room(n) numbers. Cyclic Jacobi rotations (Golub and Van Loan 8.5).
void pbProject_Definite(double *A, int n, double *room);
static inline int pbProject_Room(int n) { return 2 * n * n; }

#endif
