// Derivatives of a graph, as nodes of the same graph.
#ifndef PB_ENERGY_DERIVE_H
#define PB_ENERGY_DERIVE_H

#include "energy/graph.h"

typedef struct pbDerived {
  int value;
  int *gradient;  // 3 points: by x, what is in freeze() held
  int *hessian;   // 3 points x 3 points: of the gradient, nothing held
  int *pull;      // one per input before the weights: of w . gradient, nothing held; 0 of constant parameters
  bool symmetric;
} pbDerived;

// g->status says whether it went well. `def` tells which parameters are constant.
void pbDerive_All(pbGraph *g, const pbEnergyDef *def, int value, pbDerived *d);
// Derivatives of a value by the positions alone: nodes, 3 points.
void pbDerive_Gradient(pbGraph *g, int value, int *gradient);
void pbDerived_Destroy(pbContext *ctx, pbDerived *d);

#endif
