// The policy of several worlds: one call of its functions with a column for each. Functions work column by column, so each world
// has the bits that it would have alone; what is gained is that weights are read once for all of them.
#ifndef PB_POLICY_PACK_H
#define PB_POLICY_PACK_H

#include "world/policy_step.h"

enum { PB_PACK = 8 };  // most worlds
typedef struct pbPolicyPack pbPolicyPack;
// For a model with a policy, up to `worlds` at a time. pb_no_memory.
PB_NODISCARD pbStatus pbPolicyPack_Create(pbContext *ctx, const pbModel *model, int worlds, pbPolicyPack **pack);
void pbPolicyPack_Destroy(pbPolicyPack *pack);  // NULL is fine

// A world that takes part. Its scratch, and of it:
typedef struct pbPackWorld {
  pbScratch *scratch;
  const double *x;     // forward: the state that pbStep_Sense has looked at
  pbStepRecord step;   // pullback: the step that pbStep_VjpToFunctions has pulled,
  const double *next;  // and of its arguments the cotangent of the state after it, that of the state, of theta (NULL: none)
  double *x_bar, *theta_bar;
  pbStatus status;  // written; the scratch has the text
} pbPackWorld;
// Worlds whose status is pb_ok; all have the same parameters. pbStep_Forward, pbStep_VjpCached of each go on from there.
void pbPolicyPack_Forward(pbPolicyPack *pack, const double *theta, pbPackWorld *world, int count);
void pbPolicyPack_Pull(pbPolicyPack *pack, const double *theta, pbPackWorld *world, int count);

#endif
