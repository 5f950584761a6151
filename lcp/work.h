// What the linear problem and the one with cones have in common: working memory, checks, the way back from the reduced
// problem, and the frame of the adjoint.
#ifndef PB_LCP_WORK_H
#define PB_LCP_WORK_H

#include "lcp/condensed.h"
#include "lcp/interior.h"
#include "lcp/reduced.h"

typedef struct pbLcpWork {
  pbReduced reduced;
  pbCondensed condensed;
  pbInterior interior;
  double *x, *y, *z, *s, *rhs;  // n, e, m, m, n: the solution before it is handed out
} pbLcpWork;

bool pbLcpWork_SizesFit(int n, int m, int e);
// inner: rows of the problem that the interior point method works on
void pbLcpWork_Layout(pbArena *arena, pbLcpWork *w, int n, int m, int e, int inner);
// Arrays are there and finite; the memory is as large as `need` (0: the sizes are wrong).
pbStatus pbLcpWork_Check(pbContext *ctx, const pbLcp *problem, size_t work_size, size_t need);
pbStatus pbLcpWork_CheckArray(pbContext *ctx, const char *name, const double *data, size_t count, bool optional);

// x, y, z, s from the scaled z of the reduced problem
void pbLcpWork_Recover(pbLcpWork *w, const pbLcp *problem, const double *z);
// Completes a report whose complementarity and worst_row are there, and judges it.
pbStatus pbLcpWork_Judge(pbContext *ctx, pbLcpWork *w, const pbLcp *problem, double tolerance, pbLcpReport *report);

typedef struct pbLcpAdjoint {
  const pbLcp *l;
  const pbLcpSolution *at;
  const pbLcpCotangent *bar;
  pbLcpWork *w;
  double *lambda, *nu, *u;  // n, e, m: in w's x, y, z
} pbLcpAdjoint;

pbStatus pbLcpAdjoint_Check(pbContext *ctx, const pbLcp *problem, const pbLcpSolution *at, const pbLcpCotangent *bar);
// lambda, nu from u: Q l + A'v + G'u = g, A l = g of y
void pbLcpAdjoint_Primal(pbLcpAdjoint *a);
// pb_not_finite, or everything added into bar
pbStatus pbLcpAdjoint_HandOut(pbContext *ctx, const pbLcpAdjoint *a, const pbLcpBar *bar);

#endif
