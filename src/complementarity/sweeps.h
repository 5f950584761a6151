// What the sweeps and the derivative of their fixed point have in common.
#ifndef PB_LCP_SWEEPS_H
#define PB_LCP_SWEEPS_H

#include <pullback/sweeps.h>

#include "base/context.h"
#include "complementarity/dense.h"

pbStatus pbSweeps_Check(pbContext *ctx, const pbSweeps *problem, bool cone, size_t work_size, size_t need);
int pbSweeps_Rows(const pbSweeps *p, bool cone, int i);               // 2 where row i is the first of a cone's two, else 1
double pbSweeps_Scale(const pbSweeps *p, int i, int rows);            // d
double pbSweeps_Velocity(const pbSweeps *p, int i, const double *f);  // w
// u[rows] within the bounds of row i, and i + 1 if rows is 2, at forces f
void pbSweeps_Project(const pbSweeps *p, int i, int rows, const double *f, double *u);

#endif
