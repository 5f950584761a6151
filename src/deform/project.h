// Element matrices made definite, for Newton's method away from a minimum.
#ifndef PB_PROJECT_H
#define PB_PROJECT_H

// A (n x n, row-major) with every negative eigenvalue l of its symmetric part replaced by (1 - share) l + share |l|, share in (0,
// 1]: 1/2 drops them, 1 turns their sign, which bends less where a material is compressed (Chen et al. 2024). The antisymmetric
// part stays.
// room: pbProject_Room(n) numbers. Tridiagonal form by reflections, then QR with Wilkinson's shifts (Golub and Van Loan 8.3).
void pbProject_Definite(double *A, int n, double share, double *room);
static inline int pbProject_Room(int n) { return 2 * n * n + 2 * n; }

#endif
