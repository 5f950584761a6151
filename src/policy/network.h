// Making of networks: definitions checked and compiled into layers, slices of parameters with their starts.
#ifndef PB_POLICY_NETWORK_H
#define PB_POLICY_NETWORK_H

#include "policy/layer.h"

// What a network owns is taken here and freed with it. NULL: out of memory, the context has the error.
void *pbNetwork_Take(pbNetwork *network, size_t count, size_t size);

// Where a definition is looked at: for messages, and in names of slices.
typedef struct pbPlace {
  pbNetwork *network;
  const struct pbPlace *outer;  // of the sum that the chain is in; NULL: the network's own chain
  int chain, layer;             // numbers in it
  const char *name;             // of the layer in names of slices; NULL: its number
  pbLayerKind kind;
  uint64_t seed;
} pbPlace;

// pb_bad_argument with "layer 2 (clip): " before the reason.
pbStatus pbPlace_Fail(const pbPlace *place, const char *format, ...) PB_PRINTF(2, 3);
// A slice of parameters "LAYER.NAME" behind those there are. start: of the network's own memory; NULL: zeros.
PB_NODISCARD pbStatus pbPlace_AddSlice(const pbPlace *place, pbLayer *l, pbPolicySlice slice);

// Checks and compiles the definition of one layer over `inputs` inputs.
PB_NODISCARD pbStatus pbLayer_Compile(const pbPlace *place, const pbLayerDef *def, int inputs, pbLayer *l);
PB_NODISCARD pbStatus pbChain_Compile(pbNetwork *network, const pbPlace *outer, int number, int inputs, const pbChainDef *def,
                                      uint64_t seed, pbChain *chain);

// rows x cols weights from a seed; the same on every machine.
PB_NODISCARD pbStatus pbWeights_Start(pbContext *ctx, pbWeightInit init, double gain, int rows, int cols, uint64_t seed,
                                      double *weight);

#endif
