// A policy as a part of the model: its memory. Made by world/policy_model.c.
#include "model/policy_data.h"

#include "base/context.h"

void pbPolicyModel_Destroy(pbContext *ctx, pbPolicyModel *p) {
  if (!p) return;
  for (int i = 0; p->row && i < p->rows; i++) pbContext_Free(ctx, p->row[i].component);
  for (int i = 0; p->param && i < p->params; i++) pbContext_Free(ctx, p->param[i].name);

  pbContext_Free(ctx, p->row);
  pbContext_Free(ctx, p->target);
  pbContext_Free(ctx, p->param);
  pbContext_Free(ctx, p);
}
