#include <unistd.h>

#include "rollout/rollout.h"
#include "model/model.h"

static pbStatus begin(pbContext *ctx, const pbModel *model, int steps, pbRolloutPlan *plan) {
  if (steps < 0)
    return pbContext_Fail(ctx, pb_bad_argument, "rollout of %d steps: the number of steps must not be negative", steps);
  size_t nx = (size_t)pbModel_StateSize(model), n = (size_t)pbModel_TangentSize(model), record = (size_t)pbTape_Size(model);
  *plan = (pbRolloutPlan){.steps = steps, .record_bytes = record * sizeof(double), .snapshot_bytes = nx * sizeof(double)};
  plan->full_bytes = plan->record_bytes * (size_t)steps;
  plan->fixed_bytes = sizeof(pbRollout) + (3 * nx + 2 * n + record) * sizeof(double);

  return pb_ok;
}

static void finish(pbRolloutPlan *plan, int64_t cost) {
  plan->planned_bytes = (size_t)plan->leaf * plan->record_bytes + (size_t)plan->snapshots * plan->snapshot_bytes;
  plan->forward_steps = cost;
  plan->recomputed = cost - plan->steps;
}

// What the core's own cache holds. From slower memory cached evaluations gain nothing: a step is evaluated again as soon.
static size_t cache_bytes(void) {
  enum { unknown = 1 << 20, most = 16 << 20 };
  long size = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return size <= 0 ? unknown : size < most ? (size_t)size : most;
}

// What is left of the budget holds evaluations.
static void keep(const pbModel *model, size_t budget, pbRolloutPlan *plan) {
  enum { contacts = 16, factors = 1 << 30 };  // of most steps; one with more of them may take the room of another
  size_t room = (size_t)plan->leaf * pbCached_Room(model, contacts), left = budget - plan->planned_bytes;
  size_t most = model->deform ? factors : cache_bytes();  // a factor of deformables costs more than reading it
  if (room > most) room = most;
  plan->cached_bytes = room < left ? room : left;
  plan->planned_bytes += plan->cached_bytes;
}

pbStatus pbRollout_Plan(pbContext *ctx, const pbModel *model, int steps, size_t budget, pbRolloutPlan *plan) {
  PB_TRY(begin(ctx, model, steps, plan));
  if (budget == 0) budget = SIZE_MAX;
  int64_t cost = pbSchedule_Choose(steps, budget, plan->snapshot_bytes, plan->record_bytes, &plan->snapshots, &plan->leaf);
  if (cost < 0)
    return pbContext_Fail(ctx, pb_capacity,
                          "memory of %zu bytes is too little: one tape record takes %zu bytes (all %d steps take %zu)", budget,
                          plan->record_bytes, steps, plan->full_bytes);
  finish(plan, cost);
  keep(model, budget, plan);

  return pb_ok;
}

pbStatus pbRollout_PlanSlots(pbContext *ctx, const pbModel *model, int steps, int snapshots, int leaf, pbRolloutPlan *plan) {
  PB_TRY(begin(ctx, model, steps, plan));
  if (snapshots < 0 || leaf < 1)
    return pbContext_Fail(ctx, pb_bad_argument, "a plan needs at least 0 snapshots and 1 record; got %d and %d", snapshots, leaf);
  plan->snapshots = snapshots < steps ? snapshots : steps;
  plan->leaf = steps == 0 ? 1 : leaf < steps ? leaf : steps;
  finish(plan, pbSchedule_Cost(steps, (int64_t)plan->snapshots + 1, plan->leaf));

  return pb_ok;
}

pbGradientMode pbRollout_GradientMode(size_t parameters, size_t outputs) {
  return parameters <= 2 || parameters <= outputs ? pb_modeForward : pb_modeReverse;
}
