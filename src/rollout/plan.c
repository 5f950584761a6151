// The memory plan of a rollout: how many snapshots, tape records and cached evaluations a budget holds, and what they save.
// Tests: tests/unit/test_rollout.c, tests/unit/test_schedule.c, tests/oracle/test_wanted.py.
#include <unistd.h>

#include "base/assert.h"
#include "model/model.h"
#include "rollout/rollout.h"

static pbStatus begin_plan(pbContext *ctx, const pbModel *model, int steps, pbRolloutPlan *plan) {
  if (steps < 0)
    return pbContext_Fail(ctx, pb_bad_argument, "rollout of %d steps: the number of steps must not be negative", steps);

  size_t nx = (size_t)pbModel_StateSize(model);
  size_t n = (size_t)pbModel_TangentSize(model);
  size_t record = (size_t)pbTape_Size(model);
  PB_ASSERT(record >= nx && nx >= n);

  *plan = (pbRolloutPlan){.steps = steps, .record_bytes = record * sizeof(double), .snapshot_bytes = nx * sizeof(double)};
  plan->full_bytes = plan->record_bytes * (size_t)steps;

  // What layout() in rollout.c takes however many steps there are: three states, two costates, the record of the last state.
  plan->fixed_bytes = sizeof(pbRollout) + (3 * nx + 2 * n + record) * sizeof(double);

  return pb_ok;
}

static void sum_costs(pbRolloutPlan *plan, int64_t cost) {
  PB_ASSERT(cost >= plan->steps);
  plan->planned_bytes = (size_t)plan->leaf * plan->record_bytes + (size_t)plan->snapshots * plan->snapshot_bytes;
  plan->forward_steps = cost;
  plan->recomputed = cost - plan->steps;
}

// Four times what the core's own cache holds. A step is evaluated again as soon as an evaluation comes from memory; from the
// cache that cores share, which is behind their own, it comes sooner (bench/beds.py). Where most of an evaluation is paths of
// tendons, which leave few numbers for their cost, memory pays too.
static size_t cache_bytes(const pbModel *model) {
  enum { unknown = 1 << 20, most = 16 << 20, shared = 4 };

#ifdef _SC_LEVEL2_CACHE_SIZE
  long size = sysconf(_SC_LEVEL2_CACHE_SIZE);
#else
  long size = 0;  // musl and others than Linux do not tell
#endif

  if (model->nwrap > 4 * model->nv) return most;

  size_t held = shared * (size > 0 ? (size_t)size : (size_t)unknown);
  return held < most ? held : most;
}

// What is left of the budget holds cached evaluations.
static void plan_cache(const pbModel *model, size_t budget, pbRolloutPlan *plan) {
  enum { contacts = 16, factors = 1 << 30 };  // of most steps; one with more of them may take the room of another
  PB_ASSERT(plan->planned_bytes <= budget);

  // A factor of deformables costs more than reading it from slow memory.
  size_t room = (size_t)plan->leaf * pbCached_Room(model, contacts);
  size_t left = budget - plan->planned_bytes;
  size_t most = model->deform ? factors : cache_bytes(model);
  if (room > most) room = most;

  plan->cached_bytes = room < left ? room : left;
  plan->planned_bytes += plan->cached_bytes;
}

pbStatus pbRollout_Plan(pbContext *ctx, const pbModel *model, int steps, size_t budget, pbRolloutPlan *plan) {
  PB_TRY(begin_plan(ctx, model, steps, plan));
  if (budget == 0) budget = SIZE_MAX;

  int64_t cost = pbSchedule_Choose(steps, budget, plan->snapshot_bytes, plan->record_bytes, &plan->snapshots, &plan->leaf);
  if (cost < 0)
    return pbContext_Fail(ctx, pb_capacity,
                          "memory of %zu bytes is too little: one tape record takes %zu bytes (all %d steps take %zu)", budget,
                          plan->record_bytes, steps, plan->full_bytes);

  sum_costs(plan, cost);
  plan_cache(model, budget, plan);

  return pb_ok;
}

pbStatus pbRollout_PlanSlots(pbContext *ctx, const pbModel *model, int steps, int snapshots, int leaf, pbRolloutPlan *plan) {
  PB_TRY(begin_plan(ctx, model, steps, plan));
  if (snapshots < 0 || leaf < 1)
    return pbContext_Fail(ctx, pb_bad_argument, "a plan needs at least 0 snapshots and 1 record; got %d and %d", snapshots, leaf);

  // More than one for each step is of no use; no step at all still has a record, of the last state.
  int most = steps > 0 ? steps : 1;
  plan->snapshots = snapshots < steps ? snapshots : steps;
  plan->leaf = leaf < most ? leaf : most;
  sum_costs(plan, pbSchedule_Cost(steps, (int64_t)plan->snapshots + 1, plan->leaf));

  return pb_ok;
}

pbGradientMode pbRollout_GradientMode(size_t parameters, size_t outputs) {
  return parameters <= 2 || parameters <= outputs ? pb_modeForward : pb_modeReverse;
}
