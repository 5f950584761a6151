// Sums in an order that depends on nothing but the numbers of what is added: the nodes of a binary tree over them. A number that
// has nothing to add is no zero but is not there, so a sum over some of the numbers has the same bits however many there are
// beside them; and a tree over groups of 2^k numbers, each summed by a tree of its own, is the same tree.
// Tests: tests/unit/test_batch.c, tests/unit/test_batch_pack.c, tests/unit/test_batch_policy.c.
#include "batch/sum.h"

#include <string.h>

#include "base/assert.h"
#include "base/context.h"

// ---- groups -------------------------------------------------------------------------------------------------------------
void pbGroups_Make(pbGroups *g, int least) {
  int active = 0;
  for (int i = 0; i < g->things; i++) active += g->active[i];

  g->bits = 0;
  while ((1 << g->bits) < PB_SUM_GROUP && (1 << g->bits) < g->things) g->bits++;
  while (g->bits > 0 && least > 1 && (active >> g->bits) < least) g->bits--;

  g->count = 0;
  for (int i = 0; i < g->things; i++) {
    int group = i >> g->bits;
    bool begun = g->count > 0 && g->group[g->count - 1] == group;
    if (g->active[i] && !begun) g->group[g->count++] = group;
  }
}

typedef struct EachJob {
  const pbGroups *groups;
  pbPoolWork work;
  void *user;
} EachJob;

static void each_group(void *user, int task, int worker) {
  const EachJob *job = user;
  const pbGroups *g = job->groups;
  int first = g->group[task] << g->bits;

  for (int i = first; i < first + (1 << g->bits) && i < g->things; i++) {
    if (g->active[i]) job->work(job->user, i, worker);
  }
}

void pbGroups_Each(const pbGroups *g, pbPool *pool, pbPoolWork work, void *user) {
  EachJob job = {g, work, user};
  pbPool_Run(pool, g->count, each_group, &job);
}

// ---- the tree -----------------------------------------------------------------------------------------------------------
static void add(double *restrict to, const double *restrict from, size_t begin, size_t end) {
  for (size_t i = begin; i < end; i++) to[i] += from[i];
}

void pbSumTree_Insert(const pbSumTree *tree, bool *present, int index, const double *data, size_t from, size_t to) {
  const double *carry = data;
  int level = 0;

  // An odd number completes the pair that its left neighbour began, on this level, and so on upwards.
  for (; index & 1; index >>= 1) {
    if (present[level]) {
      if (carry) add(tree->slot[level], carry, from, to);
      carry = tree->slot[level];
      present[level] = false;
    }
    level++;
  }

  PB_ASSERT(level < tree->levels && !present[level]);
  if (carry) memcpy(tree->slot[level] + from, carry + from, (to - from) * sizeof *carry);
  present[level] = carry != NULL;
}

// Written before they are read, and of long rollouts large: what is not wanted of a gradient is never touched.
static double *numbers(pbContext *ctx, size_t count) {
  return count > SIZE_MAX / sizeof(double) ? NULL : pbContext_AllocRoom(ctx, count * sizeof(double));
}

static pbStatus create_tree(pbContext *ctx, int levels, size_t size, pbSumTree *tree) {
  PB_ASSERT(levels <= PB_SUM_LEVELS);
  tree->levels = levels;
  for (int i = 0; i < levels; i++) {
    tree->slot[i] = numbers(ctx, size);
    if (!tree->slot[i]) return pb_no_memory;
  }

  return pb_ok;
}

static void destroy_tree(pbContext *ctx, pbSumTree *tree) {
  for (int i = 0; i < tree->levels; i++) pbContext_Free(ctx, tree->slot[i]);
}

// ---- memory ---------------------------------------------------------------------------------------------------------
static int bits_of(int count) {  // of the smallest power of two that is no smaller
  int bits = 0;
  while (bits < PB_SUM_LEVELS - 2 && (1 << bits) < count) bits++;
  return bits;
}

// As many arrays as 128 MiB hold, at least two for each thread.
static int count_arrays(int things, int threads, size_t size) {
  static const size_t most = (size_t)128 << 20;
  int groups = (things + PB_SUM_GROUP - 1) / PB_SUM_GROUP;
  int wanted = groups > 8 * threads ? groups : 8 * threads;

  size_t fit = most / (size * sizeof(double) + 1);
  if (fit < (size_t)wanted) wanted = (int)fit;
  if (wanted < 2 * threads) wanted = 2 * threads;
  return wanted < things ? wanted : things;
}

pbStatus pbGroupSum_Create(pbContext *ctx, pbPool *pool, int things, size_t size, pbGroupSum *sum) {
  int threads = pbPool_Threads(pool);
  *sum = (pbGroupSum){.ctx = ctx, .pool = pool, .things = things, .threads = threads, .size = size};
  sum->arrays = count_arrays(things, threads, size);
  sum->filled = pbContext_AllocArray(ctx, (size_t)sum->arrays, sizeof *sum->filled);
  sum->array = pbContext_AllocArray(ctx, (size_t)sum->arrays, sizeof *sum->array);
  sum->thread = pbContext_AllocArray(ctx, (size_t)threads, sizeof *sum->thread);
  if (!sum->filled || !sum->array || !sum->thread) return pb_no_memory;

  for (int i = 0; i < sum->arrays; i++) {
    sum->array[i] = numbers(ctx, size);
    if (!sum->array[i]) return pb_no_memory;
  }

  // The top of a group's tree is an array.
  int levels = bits_of(things < PB_SUM_GROUP ? things : PB_SUM_GROUP);
  for (int i = 0; i < threads; i++) PB_TRY(create_tree(ctx, levels, size, &sum->thread[i]));
  return create_tree(ctx, bits_of(things) + 1, size, &sum->total);
}

void pbGroupSum_Destroy(pbGroupSum *sum) {
  if (!sum->ctx) return;

  // Also of one that was left half made.
  int arrays = sum->array ? sum->arrays : 0;
  int threads = sum->thread ? sum->threads : 0;
  for (int i = 0; i < arrays; i++) pbContext_Free(sum->ctx, sum->array[i]);
  for (int i = 0; i < threads; i++) destroy_tree(sum->ctx, &sum->thread[i]);
  destroy_tree(sum->ctx, &sum->total);

  pbContext_Free(sum->ctx, sum->array);
  pbContext_Free(sum->ctx, sum->filled);
  pbContext_Free(sum->ctx, sum->thread);
  *sum = (pbGroupSum){0};
}

// ---- a sum ------------------------------------------------------------------------------------------------------------
enum { sum_block = 8192 };  // entries that one thread merges, of all groups

typedef struct SumJob {
  pbGroupSum *sum;
  const pbGroups *groups;
  size_t used;
  pbGroupLeaf leaf;
  void *user;
  int first, here;  // groups of this wave
  int next;         // number that comes next in the tree of groups
  bool before[PB_SUM_LEVELS], after[PB_SUM_LEVELS];
} SumJob;

// A group, whose sum goes to its array of this wave.
static void sum_group(void *user, int task, int worker) {
  const SumJob *job = user;
  const pbGroups *g = job->groups;
  pbGroupSum *sum = job->sum;
  bool present[PB_SUM_LEVELS] = {false};
  pbSumTree tree = sum->thread[worker];
  tree.slot[g->bits] = sum->array[task];
  tree.levels = g->bits + 1;

  for (int i = 0; i < 1 << g->bits; i++) {
    int thing = (g->group[job->first + task] << g->bits) + i;
    bool active = thing < g->things && g->active[thing];
    const double *data = active ? job->leaf(job->user, thing, worker) : NULL;
    pbSumTree_Insert(&tree, present, i, data, 0, job->used);
  }

  sum->filled[task] = present[g->bits];
}

static void merge_block(void *user, int task, int worker) {
  SumJob *job = user;
  const pbGroupSum *sum = job->sum;
  bool present[PB_SUM_LEVELS];
  size_t from = (size_t)task * sum_block;
  size_t to = from + sum_block < job->used ? from + sum_block : job->used;
  (void)worker;

  // Groups without anything active are numbers of the tree, too.
  memcpy(present, job->before, sizeof present);
  int next = job->next;
  for (int i = 0; i < job->here; i++) {
    int group = job->groups->group[job->first + i];
    while (next < group) pbSumTree_Insert(&sum->total, present, next++, NULL, from, to);
    pbSumTree_Insert(&sum->total, present, next++, sum->filled[i] ? sum->array[i] : NULL, from, to);
  }

  if (task == 0) memcpy(job->after, present, sizeof present);
}

static void merge_wave(SumJob *job) {
  pbGroupSum *sum = job->sum;
  memcpy(job->before, sum->total.present, sizeof job->before);
  pbPool_Run(sum->pool, (int)((job->used + sum_block - 1) / sum_block), merge_block, job);

  if (job->used > 0) memcpy(sum->total.present, job->after, sizeof job->after);
  job->next = job->groups->group[job->first + job->here - 1] + 1;
}

void pbGroupSum_Run(pbGroupSum *sum, const pbGroups *groups, size_t used, pbGroupLeaf leaf, void *user) {
  SumJob job = {.sum = sum, .groups = groups, .used = used, .leaf = leaf, .user = user};
  PB_ASSERT(used <= sum->size && groups->things <= sum->things && (1 << groups->bits) <= PB_SUM_GROUP);
  memset(sum->total.present, 0, sizeof sum->total.present);

  // As many groups at a time as there are arrays; then each thread takes some of the entries through the tree.
  for (; job.first < groups->count; job.first += sum->arrays) {
    int left = groups->count - job.first;
    job.here = left < sum->arrays ? left : sum->arrays;
    pbPool_Run(sum->pool, job.here, sum_group, &job);
    merge_wave(&job);
  }
}

void pbGroupSum_Add(const pbGroupSum *sum, size_t from, size_t count, double *to) {
  const pbSumTree *tree = &sum->total;
  const double *carry = NULL;

  // What waits is completed by nothing, from the smallest node up.
  for (int level = 0; level < tree->levels; level++) {
    if (!tree->present[level]) continue;
    if (carry) add(tree->slot[level], carry, from, from + count);
    carry = tree->slot[level];
  }

  if (!carry) return;
  for (size_t i = 0; i < count; i++) to[i] += carry[from + i];
}
