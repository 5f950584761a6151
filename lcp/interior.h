// s = M z + q, s >= 0, z >= 0, s_i z_i = 0 with a matrix that need not be monotone: interior point, Newton on the active set,
// and a homotopy. Entries of M and q are about one (lcp/reduced.h). The first two work on the condensed form as well.
#ifndef PB_LCP_INTERIOR_H
#define PB_LCP_INTERIOR_H

#include <pullback/lcp.h>

#include "lcp/condensed.h"

typedef struct pbInterior {
  int m, iterations, limit;
  double tolerance;             // of max |min(s, z)|
  pbCondensed *condensed;       // instead of M; NULL: M is there
  const double *M, *q;          // m x m, m
  double *z, *s;                // iterate
  double *zbest, *sbest, best;  // the one with the least residual so far
  double *K;                    // matrix that is factored
  int *perm, *rows;
  double *r, *dz, *ds, *az, *as, *t;  // m each
  double *zs, *ss;                    // trial
  double *c, *d;                      // of the path
  bool *active;                       // m
  pbDenseCod cod;
  double condition;  // of the rows that are active in the end; without a solution: of the last K
} pbInterior;

void pbInterior_Layout(pbArena *arena, pbInterior *w, int m);
// M or condensed, q, limit and tolerance set by the caller, iterations 0 or what came before. True: zbest solves it; false: zbest
// comes closest. The path needs M: without it the predictor-corrector is all.
bool pbInterior_Solve(pbInterior *w, pbLcpMethod *method);

#endif
