// Work on numbered things (worlds, trajectories) in groups, on the threads of a pool, and sums over them whose order depends on
// nothing but the numbers.
#ifndef PB_SUM_H
#define PB_SUM_H

#include "base/pool.h"

enum { PB_SUM_LEVELS = 32, PB_SUM_GROUP = 8 };

// Groups of numbers that differ in their last `bits` bits alone: what one task goes through.
typedef struct pbGroups {
  int things, bits, count;
  int *group;          // numbers of those with anything active, ascending; room for `things`
  const bool *active;  // things
} pbGroups;
// As large as leaves `least` groups, PB_SUM_GROUP at most: sums have the same bits for groups of any size.
void pbGroups_Make(pbGroups *groups, int least);
// So many that threads which are done early find others.
static inline int pbGroups_For(int threads) { return threads > 1 ? 4 * threads : 1; }
// work(user, thing, worker) for each active thing.
void pbGroups_Each(const pbGroups *groups, pbPool *pool, pbPoolWork work, void *user);

// ---- the tree -----------------------------------------------------------------------------------------------------------
// Nodes that wait for their right neighbours, as a binary counter: slot[level] is a sum over 2^level numbers.
typedef struct pbSumTree {
  int levels;
  double *slot[PB_SUM_LEVELS];  // each as long as the sum
  bool present[PB_SUM_LEVELS];
} pbSumTree;
// Numbers come in ascending order, all of them: NULL where one has nothing to add. Entries from .. to - 1. The flags are
// `present`, so that threads may share a tree, each with its own entries.
void pbSumTree_Insert(const pbSumTree *tree, bool *present, int index, const double *data, size_t from, size_t to);

// ---- sums over groups -----------------------------------------------------------------------------------------------------
// Arrays for groups at work wait for each other: not one for each thing, since there may be many and each may be long.
typedef struct pbGroupSum {
  pbContext *ctx;
  pbPool *pool;
  int things, threads, arrays;
  size_t size;
  double **array;  // arrays
  bool *filled;
  pbSumTree *thread;  // threads: of a group
  pbSumTree total;    // of groups
} pbGroupSum;
// For `things` numbers and sums of at most `size` entries; pb_no_memory leaves what Destroy takes.
PB_NODISCARD pbStatus pbGroupSum_Create(pbContext *ctx, pbPool *pool, int things, size_t size, pbGroupSum *sum);
void pbGroupSum_Destroy(pbGroupSum *sum);
// leaf(user, thing, worker): the first `used` numbers of an active thing, the worker's until its next; NULL: it has none.
typedef const double *(*pbGroupLeaf)(void *user, int thing, int worker);
void pbGroupSum_Run(pbGroupSum *sum, const pbGroups *groups, size_t used, pbGroupLeaf leaf, void *user);
// Entries from .. from + count - 1 of the sum are added to `to`; once for each.
void pbGroupSum_Add(const pbGroupSum *sum, size_t from, size_t count, double *to);

#endif
