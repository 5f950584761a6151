// A strictly convex quadratic in a box: the least x'H x / 2 + g'x with lower <= x <= upper, for some tens of unknowns. Newton's
// method on those that no bound holds, with a projected line search (Bertsekas 1982; in differential dynamic programming: Tassa,
// Mansard & Todorov 2014). Which are held changes finitely often, and the last step is exact: the answer is that of the active
// set, to rounding, not to a tolerance.
#ifndef PB_BOX_QP_H
#define PB_BOX_QP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct pbBoxQp {
  int n;
  double *H, *g;          // n x n, both triangles; n
  double *lower, *upper;  // n, in order; infinite where open
  double *x;              // n: a guess, then the answer
  // Of the answer: those that no bound holds, ascending, and the Cholesky factor of their block of H (free_count x free_count)
  int free_count, *free;
  double *L;
  double *slope, *step, *trial;  // n each, workspace
} pbBoxQp;

// Room for n unknowns, and its pieces put in place.
size_t pbBoxQp_Doubles(int n);
void pbBoxQp_Place(pbBoxQp *q, int n, double *doubles, int *integers);  // n integers
// False: H is not positive definite on the unknowns that no bound holds.
bool pbBoxQp_Solve(pbBoxQp *q);

#endif
