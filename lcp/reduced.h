// A mixed problem reduced to its inequalities: x and y leave by way of Q's factor and of the space that the equalities leave
// open, s = M z + q remains, rows scaled so that M's entries are about one.
#ifndef PB_LCP_REDUCED_H
#define PB_LCP_REDUCED_H

#include <pullback/lcp.h>

#include "base/arena.h"
#include "lcp/dense.h"

typedef struct pbReduced {
  int n, m, e, rank;  // rank of A
  double *dx, *L;     // n, n x n: Q = (L / dx)(L / dx)', row by row
  double *V, *R;      // rank x n, e x e: scaled rows of A = R V, V orthonormal
  double *row;        // e: scale of the rows of A
  int *kept;          // e: rows of A that count come first
  double *C;          // m x n: scaled rows of G in the space that A leaves open
  double *S;          // m: z = size S z_scaled, s = size s_scaled / S
  double *M, *q;      // m x m, m: scaled
  double size;
  double *w0, *tmp, *tmp2;  // n (solution for z = 0), max(n, m, e)
  bool by_contact;          // three rows a contact, scaled alike
  double condition;         // of Q (scaled) and A
} pbReduced;

void pbReduced_Layout(pbArena *arena, pbReduced *r, int n, int m, int e);
// Q and the equalities, and the scales of rows, roughly (by Q's diagonal). pb_ok or pb_singular with the row of Q
pbStatus pbReduced_Begin(pbReduced *r, const pbLcp *problem, int *bad_row);
// C and M, and the scales of rows, exactly.
void pbReduced_Matrices(pbReduced *r, const pbLcp *problem);
// q and size, with the scales that there are
void pbReduced_Vector(pbReduced *r, const pbLcp *problem);
// x, y with Q x + A'y = -rhs, A x = b for given rhs = p + G'z (overwritten); b may be NULL for zero.
void pbReduced_Primal(pbReduced *r, double *rhs, const double *b, double *x, double *y);

#endif
