// Many worlds of one model: memory of worlds, of threads, and of sums of gradients. Tests: tests/unit/test_batch.c.
#include "batch/batch.h"

#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/policy_data.h"

// ---- threads ----------------------------------------------------------------------------------------------------------
// Contexts of threads take their memory from the batch's, as it is: they clear what is to be zero. They have texts of their own.
static void *take(void *user, size_t size) { return pbContext_AllocRoom(user, size); }
static void *resize(void *user, void *memory, size_t size) { return pbContext_Resize(user, memory, size); }
static void release(void *user, void *memory) { pbContext_Free(user, memory); }

// Numbers of inputs of a rollout as long as the tape.
static size_t input_numbers(const pbBatch *b) {
  size_t rows = (size_t)(b->steps > 0 ? b->steps : 1);
  return rows * (size_t)(b->nu + b->nv + 6 * b->nbody + b->ncommand + 12 * b->nmocap) + 6 * (size_t)b->nmocap;
}

static size_t sum_numbers(const pbBatch *b) { return b->ntheta + (b->shared_inputs ? input_numbers(b) : 0); }

// Tape and gradient of one world.
static pbStatus create_slot(pbBatch *b, pbBatchWorker *k, pbBatchSlot *slot, const pbCapacity *capacity) {
  pbStatus status = pbRollout_CreateBare(k->ctx, b->model, capacity, &slot->rollout, &slot->bare);
  if (status != pb_ok) return pbContext_Fail(b->ctx, status, "%s", pbContext_Error(k->ctx));

  // Cleared where a gradient is wanted: of long rollouts it is large.
  size_t bar = b->ntheta + (b->steps > 0 ? input_numbers(b) + (size_t)b->n : 0);
  if (bar <= SIZE_MAX / sizeof(double)) slot->bar = pbContext_AllocRoom(b->ctx, bar * sizeof(double));
  return slot->bar ? pb_ok : pb_no_memory;
}

// What runs worlds again: with the share of the budget that the thread has, and with its working memory.
static pbStatus create_planned(pbBatch *b, pbBatchWorker *k) {
  k->planned_world = -1;
  if (!b->starts) return pb_ok;

  pbRolloutPlan plan;
  pbStatus status = pbRollout_Plan(k->ctx, b->model, b->steps, b->budget / (size_t)b->threads, &plan);
  if (status == pb_ok) status = pbRollout_CreateBeside(k->slot->rollout, &plan, &k->planned);
  return status == pb_ok ? pb_ok : pbContext_Fail(b->ctx, status, "%s", pbContext_Error(k->ctx));
}

static bool makes_products(const pbPolicyFunction *f) { return !f || f->gather; }

// Worlds with the same policy, whose steps have one evaluation at the state that it sees, where there is much of it to read.
static bool goes_together(const pbBatch *b) {
  static const size_t least = 4096;  // numbers: what a core holds beside a world
  const pbPolicyModel *p = b->model->policy;
  if (!p || b->worlds == 1 || b->thin || b->own_count > 0 || b->model->deform || b->worker[0].slot->rollout->xpos_by_observing)
    return false;
  return p->theta_size >= least && makes_products(p->decide) && makes_products(p->act);
}

static pbStatus create_worker(pbBatch *b, int index, const pbCapacity *capacity) {
  pbBatchWorker *k = &b->worker[index];
  k->batch = b;
  k->index = index;
  k->ctx = pbContext_Create(&(pbAllocator){take, resize, release, b->ctx});
  if (!k->ctx) return pb_no_memory;

  PB_TRY(create_slot(b, k, &k->slot[0], capacity));
  k->slots = 1;
  PB_TRY(create_planned(b, k));

  // Parameters of one world, where they differ.
  k->theta = pbContext_AllocArray(b->ctx, b->own_count > 0 ? b->ntheta : 0, sizeof(double));
  k->theta_left = pbContext_AllocArray(b->ctx, b->own_given ? b->ntheta : 0, sizeof(double));
  if (!k->theta || !k->theta_left) return pb_no_memory;
  if (!goes_together(b)) return pb_ok;

  // Worlds of a group side by side.
  for (; k->slots < PB_PACK && k->slots < b->worlds; k->slots++) PB_TRY(create_slot(b, k, &k->slot[k->slots], capacity));
  return pbPolicyPack_Create(b->ctx, b->model, k->slots, &k->pack);
}

static void destroy_worker(pbBatch *b, pbBatchWorker *k) {
  // Tapes are the worlds', and freed with them.
  pbRollout_Destroy(k->planned);
  for (int i = 0; i < PB_PACK; i++) {
    pbRollout_Destroy(k->slot[i].rollout);
    pbContext_Free(b->ctx, k->slot[i].bar);
  }
  pbPolicyPack_Destroy(k->pack);
  pbContext_Destroy(k->ctx);
  pbContext_Free(b->ctx, k->theta);
  pbContext_Free(b->ctx, k->theta_left);
}

// ---- worlds -------------------------------------------------------------------------------------------------------------
static pbStatus create_worlds(pbBatch *b) {
  size_t worlds = (size_t)b->worlds;
  b->states = pbContext_AllocArray(b->ctx, worlds, (size_t)b->nx * sizeof(double));
  b->active = pbContext_AllocArray(b->ctx, worlds, sizeof *b->active);
  b->has_tape = pbContext_AllocArray(b->ctx, worlds, sizeof *b->has_tape);
  b->status = pbContext_AllocArray(b->ctx, worlds, sizeof *b->status);
  b->error = pbContext_AllocArray(b->ctx, worlds, sizeof *b->error);
  b->report = pbContext_AllocArray(b->ctx, worlds, sizeof *b->report);
  b->groups = (pbGroups){.things = b->worlds, .active = b->active};
  b->groups.group = pbContext_AllocArray(b->ctx, worlds, sizeof *b->groups.group);
  bool all = b->states && b->active && b->has_tape && b->status && b->error && b->report && b->groups.group;
  return all ? pb_ok : pb_no_memory;
}

static pbStatus create_tapes(pbBatch *b) {
  size_t worlds = (size_t)b->worlds, steps = (size_t)b->steps, nx = (size_t)b->nx, restarts = (size_t)b->restarts;
  size_t world = steps * b->record * sizeof(double);
  b->tape_steps = -1;
  if (b->steps == 0) return pb_ok;
  if (world / b->record / sizeof(double) != steps) return pb_no_memory;

  b->made = pbContext_AllocArray(b->ctx, worlds, sizeof *b->made);
  if (!b->made) return pb_no_memory;
  b->thin = b->budget > 0 && (worlds == 1 || world > b->budget / worlds);
  if (b->thin || b->partial) {
    b->starts = pbContext_AllocArray(b->ctx, worlds, nx * sizeof(double));
    if (!b->starts) return pb_no_memory;
  }
  if (b->thin) return pb_ok;

  b->track = pbContext_AllocArray(b->ctx, worlds, sizeof *b->track);
  b->records = world > SIZE_MAX / worlds ? NULL : pbContext_AllocRoom(b->ctx, worlds * world);  // written before they are read
  b->ends = pbContext_AllocArray(b->ctx, worlds, (b->record + nx) * sizeof(double));
  b->left = pbContext_AllocArray(b->ctx, worlds, (restarts * b->record + 1) * sizeof(double));
  size_t inputs = restarts ? (restarts + 1) * pbTrack_InputSize(b->model) : 0;
  b->left_input = pbContext_AllocArray(b->ctx, worlds, (inputs + 1) * sizeof(double));
  b->restart_at = pbContext_AllocArray(b->ctx, worlds, (restarts + 1) * sizeof(int));
  if (!b->track || !b->records || !b->ends || !b->left || !b->left_input || !b->restart_at) return pb_no_memory;

  for (size_t w = 0; w < worlds; w++) {
    double *end = b->ends + w * (b->record + nx);
    b->track[w] = (pbTrack){.whole = true,
                            .records = b->records + w * steps * b->record,
                            .final_record = end,
                            .x_final = end + b->record,
                            .most = b->restarts,
                            .restart_at = b->restart_at + w * restarts,
                            .left = b->left + w * restarts * b->record,
                            .left_input = b->left_input + w * inputs};
  }

  return pb_ok;
}

// ---- all of it ------------------------------------------------------------------------------------------------------------
static pbStatus check_options(pbContext *ctx, const pbBatchOptions *o) {
  if (o->worlds < 1) return pbContext_Fail(ctx, pb_bad_argument, "expected 1 world or more, found %d", o->worlds);
  if (o->steps < 0) return pbContext_Fail(ctx, pb_bad_argument, "expected a tape of 0 steps or more, found %d", o->steps);
  if (o->restarts < 0) return pbContext_Fail(ctx, pb_bad_argument, "expected 0 new starts or more, found %d", o->restarts);
  if (o->lanes != 0 && o->lanes != 1)
    return pbContext_Fail(ctx, pb_bad_argument, "expected 1 lane (or 0: what there is), found %d", o->lanes);
  return pb_ok;
}

static void read_model(pbBatch *b, const pbModel *m) {
  b->nx = pbModel_StateSize(m);
  b->n = pbModel_TangentSize(m);
  b->nu = pb_controls(m);
  b->nv = m->nv;
  b->na = m->na;
  b->ns = m->nsensordata;
  b->nbody = m->nbody;
  b->nsite = m->nsite;
  b->nmocap = m->nmocap;
  b->ncommand = m->policy ? m->policy->commands : 0;
  b->nobservation = m->policy ? m->policy->observing : 0;
  b->ntheta = pbModel_ParamSize(m);
  b->record = (size_t)pbTape_Size(m);
}

static pbStatus create(pbBatch *b, const pbBatchOptions *options) {
  PB_TRY(create_worlds(b));
  PB_TRY(create_tapes(b));
  PB_TRY(pbBatch_CreateOwn(b, options));

  b->worker = pbContext_AllocArray(b->ctx, (size_t)b->threads, sizeof *b->worker);
  if (!b->worker) return pb_no_memory;
  for (int i = 0; i < b->threads; i++) PB_TRY(create_worker(b, i, &options->capacity));
  if (b->steps > 0) PB_TRY(pbGroupSum_Create(b->ctx, b->pool, b->worlds, sum_numbers(b), &b->sum));

  return pbBatch_Reset(b, NULL, NULL, 0, -1, NULL);
}

pbStatus pbBatch_Create(pbContext *ctx, const pbModel *model, const pbBatchOptions *options, pbBatch **batch) {
  *batch = NULL;
  PB_TRY(check_options(ctx, options));
  PB_TRY(pbModel_Check(ctx, model));
  pbBatch *b = pbContext_Alloc(ctx, sizeof *b);
  if (!b) return pbContext_Fail(ctx, pb_no_memory, "no memory for a batch");

  // What is borrowed, and sizes; then all memory.
  b->ctx = ctx;
  b->model = model;
  b->pool = options->pool;
  b->threads = pbPool_Threads(options->pool);
  b->worlds = options->worlds;
  b->steps = options->steps;
  b->restarts = options->restarts;
  b->budget = options->budget;
  b->partial = options->partial;
  b->shared_inputs = options->shared_inputs;
  b->own_given = options->own_given;
  read_model(b, model);

  pbStatus status = create(b, options);
  if (status == pb_no_memory)
    status = pbContext_Fail(ctx, status, "no memory for a batch of %d worlds with tapes of %d steps", b->worlds, b->steps);
  if (status != pb_ok) {
    pbBatch_Destroy(b);
    return status;
  }

  *batch = b;
  return pb_ok;
}

void pbBatch_Destroy(pbBatch *b) {
  if (!b) return;
  // Also of a batch that was left half made.
  int workers = b->worker ? b->threads : 0;
  for (int i = 0; i < workers; i++) destroy_worker(b, &b->worker[i]);
  pbGroupSum_Destroy(&b->sum);
  pbBatch_DestroyOwn(b);

  void *all[] = {b->worker,     b->states, b->starts, b->made,     b->records, b->ends,  b->left,   b->left_input,
                 b->restart_at, b->track,  b->active, b->has_tape, b->status,  b->error, b->report, b->groups.group};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(b->ctx, all[i]);
  pbContext_Free(b->ctx, b);
}

int pbBatch_Worlds(const pbBatch *b) { return b->worlds; }
double *pbBatch_States(pbBatch *b) { return b->states; }

void pbBatch_SetBound(pbBatch *b, double bound) {
  for (int i = 0; i < b->threads; i++) {
    pbBatchWorker *k = &b->worker[i];
    pbRollout *r;
    for (int s = 0; (r = pbBatch_RolloutAt(k, s)); s++) pbRollout_SetBound(r, bound);
  }
}
