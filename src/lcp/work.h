// Working memory of one linear complementarity problem, for its solution and the adjoint.
#ifndef PB_LCP_WORK_H
#define PB_LCP_WORK_H

#include "lcp/interior.h"
#include "lcp/reduced.h"

typedef struct pbLcpWork {
  pbReduced reduced;
  pbInterior interior;
  double *x, *y, *z, *s, *rhs;  // n, e, m, m, n: the solution before it is handed out
} pbLcpWork;

// Looks at sizes, arrays and values, then lays the work out.
pbStatus pbLcpWork_Begin(pbContext *ctx, const pbLcp *problem, void *work, size_t work_size, pbLcpWork *w);
bool pbLcp_AllFinite(const double *x, size_t count);  // NULL is fine

#endif
