// The way back through the sweeps against slip (noslip.h): what it works with, and its parts.
#ifndef PB_NOSLIP_ADJOINT_H
#define PB_NOSLIP_ADJOINT_H

#include "eval/adjoint.h"
#include "solve/noslip.h"

// Of n rows that slide.
typedef struct LANE(pbSlipAdjoint) {
  lane *w;                    // nv: M^-1 of the cotangent of qacc
  lane *f, *x, *z;            // n each: of forces, of residuals, part of the first
  lane *G;                    // n x n: of A
  lane *u, *Fz, *FA;          // nv, nbody x 6 each: fields
  double *Y;                  // nbody x 6
  lane *M, *S, *I;            // cotangents of M's entries, of axes (nv x 6); room (nbody x 10)
  NUM(pbSlipUpdate) *update;  // n: of one sweep
  bool seen;                  // FA is set
  double *A, *force;          // nbody x 6, max_row x 6: Newton's accelerations of bodies, forces of rows
  int *sign;                  // nv + ntendon: of losses of zero, against which their force is in a sweep
} LANE(pbSlipAdjoint);

// Sweeps against slip: Newton's solution; from the cotangents of qacc and forces after them (qacc, y0) to those of that solution;
// after the rows and before tendons: what falls to the sweeps themselves.
LANE(pbSolution) LANE(pbSlip_Solution)(LANE(pbAdjoint) *a, const NUM(pbWork) *w);
void LANE(pbSlip_Pull)(LANE(pbAdjoint) *a);
void LANE(pbSlip_Power)(LANE(pbAdjoint) *a);

#endif
