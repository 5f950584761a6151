// What evolution strategies share: the numbers of CMA-ES, ranks of a generation.
#ifndef PB_EVOLUTION_H
#define PB_EVOLUTION_H

#include "optimize/optimizer.h"

typedef struct pbCmaConstants {
  int mu;                                      // points that the next mean is made of
  double mu_eff, cc, cs, c1, cmu, damps, chi;  // chi: expected length of n normal deviates
} pbCmaConstants;
// Table 1 of Hansen's tutorial (arXiv 1604.00772); weights (population): of the better half, summing to one.
pbCmaConstants pbCma_Constants(const pbOptimizer *o, double *weights);
// The indices of values in ascending order; of equal ones the first comes first.
void pbRank_Order(const double *values, double *order, int count);
// The start itself is a point, too: evaluated once before the first generation.
PB_NODISCARD pbStatus pbEvolution_Begin(pbOptimizer *o);

#endif
