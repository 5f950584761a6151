// The worlds of a group step by step: the functions of their policy are called once for all of them, so that its weights are read
// once. The bits are those of worlds one by one. Tests: tests/unit/test_batch_pack.c.
#include <stdio.h>

#include "base/assert.h"
#include "base/context.h"
#include "batch/batch.h"
#include "step/scratch.h"

// The functions read theta as it is: there must be nothing in it that kernels see otherwise.
bool pbBatch_Packs(const pbBatch *b) {
  const pbBatchWorker *k = &b->worker[0];
  const double *theta = b->theta;
  if (!k->pack || b->groups.bits == 0) return false;
  return pbScratch_Enter(k->slot->rollout->scratch, b->model, &theta) == pb_ok && theta == b->theta;
}

void pbBatch_SetSlot(pbBatchWorker *k, pbBatchSlot *slot, pbStatus status) {
  if (slot->status != pb_ok) return;
  slot->status = status;
  if (status != pb_ok) snprintf(slot->error, sizeof slot->error, "%s", pbContext_Error(k->ctx));
}

// The active worlds of a group into the slots.
static void fill_slots(pbBatchWorker *k, int group) {
  const pbBatch *b = k->batch;
  int first = group << b->groups.bits, end = first + (1 << b->groups.bits);
  k->group = group;
  k->packed = 0;

  for (int w = first; w < end && w < b->worlds; w++) {
    if (!b->active[w]) continue;

    PB_ASSERT(k->packed < k->slots);
    pbBatchSlot *slot = &k->slot[k->packed++];
    slot->world = w;
    slot->status = pb_ok;
    slot->error[0] = 0;
  }
}

pbStatus pbBatch_InPack(pbBatchWorker *k, int world, pbBatchPackWork work, const void *user, pbBatchSlot **slot) {
  int group = world >> k->batch->groups.bits;
  if (k->group != group) {
    fill_slots(k, group);
    work(k, user);
  }

  pbBatchSlot *s = k->slot;
  while (s->world != world) s++;
  PB_ASSERT(s < k->slot + k->packed);
  *slot = s;
  return s->status == pb_ok ? pb_ok : pbContext_Fail(k->ctx, s->status, "%s", s->error);
}

// ---- the policy's functions -------------------------------------------------------------------------------------------------
static void fail_slots(pbBatchWorker *k, const pbPackWorld *world, int step) {
  for (int i = 0; i < k->packed; i++) {
    pbBatchSlot *s = &k->slot[i];
    if (s->status != pb_ok || world[i].status == pb_ok) continue;
    pbBatch_SetSlot(k, s, pbRollout_StepFailed(s->rollout, world[i].status, step, pbScratch_Error(world[i].scratch)));
  }
}

void pbBatch_CallPack(pbBatchWorker *k, int step) {
  pbPackWorld world[PB_PACK];
  for (int i = 0; i < k->packed; i++) {
    const pbBatchSlot *s = &k->slot[i];
    world[i] = (pbPackWorld){.scratch = s->rollout->scratch, .x = s->rollout->x, .status = s->status};
  }

  pbPolicyPack_Forward(k->pack, k->batch->theta, world, k->packed);
  fail_slots(k, world, step);
}

void pbBatch_PullPack(pbBatchWorker *k, const pbPulling *pulling, int step) {
  pbPackWorld world[PB_PACK];
  for (int i = 0; i < k->packed; i++) {
    const pbBatchSlot *s = &k->slot[i];
    const pbRollout *r = s->rollout;
    world[i] = (pbPackWorld){.scratch = r->scratch,
                             .step = {.model = r->model, .theta = r->theta},
                             .next = r->costate,
                             .x_bar = r->costate_before,
                             .theta_bar = pulling[i].gradient.theta,
                             .status = s->status};
    if (s->status == pb_ok) world[i].step.record = pbRollout_RecordAt(r, step);
  }

  pbPolicyPack_Pull(k->pack, k->batch->theta, world, k->packed);
  fail_slots(k, world, step);
}
