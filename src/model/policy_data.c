// A policy as a part of the model: its memory. Made by world/policy_model.c.
// Tests: tests/conformance/test_policy.c, tests/hostile/test_failing_allocator.c.
#include "model/policy_data.h"

#include "base/assert.h"
#include "base/context.h"

void pbPolicyModel_Destroy(pbContext *ctx, pbPolicyModel *p) {
  if (!p) return;
  PB_ASSERT(p->rows >= 0 && p->params >= 0);
  PB_ASSERT((p->row || !p->rows) && (p->param || !p->params));

  // Rows and names that were read before memory ran out
  for (int i = 0; i < p->rows; i++) {
    pbContext_Free(ctx, p->row[i].component);
    pbContext_Free(ctx, p->row[i].points);
  }
  for (int i = 0; i < p->params; i++) pbContext_Free(ctx, p->param[i].name);

  // The functions are borrowed.
  pbContext_Free(ctx, p->row);
  pbContext_Free(ctx, p->target);
  pbContext_Free(ctx, p->param);
  pbContext_Free(ctx, p);
}
