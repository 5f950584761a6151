// Sums in an order that depends on nothing but the numbers of what is added: the nodes of a binary tree over them. A number that
// has nothing to add is no zero but is not there, so a sum over some of the numbers has the same bits however many there are
// beside them; and a tree over groups of 2^k numbers, each summed by a tree of its own, is the same tree.
#include <string.h>

#include "base/assert.h"
#include "batch/batch.h"

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

void pbSumTree_Total(const pbSumTree *tree, const bool *present, double *sum, size_t from, size_t to) {
  const double *carry = NULL;

  // What waits is completed by nothing, from the smallest node up.
  for (int level = 0; level < tree->levels; level++) {
    if (!present[level]) continue;
    if (carry) add(tree->slot[level], carry, from, to);
    carry = tree->slot[level];
  }

  if (!carry) return;
  for (size_t i = from; i < to; i++) sum[i - from] += carry[i];
}
