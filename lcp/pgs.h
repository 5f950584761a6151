// What projected Gauss-Seidel and the derivative of its fixed point have in common.
#ifndef PB_COMPLEMENTARITY_PGS_H
#define PB_COMPLEMENTARITY_PGS_H

#include <pullback/pgs.h>

#include "base/context.h"
#include "lcp/dense.h"

pbPgsOptions pbPgs_OptionsOf(const pbPgsCall *call);
pbStatus pbPgs_Check(pbContext *ctx, const pbPgsCall *call, bool cone, size_t need);
int pbPgs_Rows(const pbPgs *p, bool cone, int i);               // 2 where row i is the first of a cone's two, else 1
double pbPgs_Scale(const pbPgs *p, int i, int rows);            // d
double pbPgs_Velocity(const pbPgs *p, int i, const double *f);  // w
// u[rows] within the bounds of row i, and i + 1 if rows is 2, at forces f
void pbPgs_Project(const pbPgs *p, int i, int rows, const double *f, double *u);

#endif
