// Bounding volume hierarchy of boxes (Ericson 2005, chapter 6), its nodes in one array, in the order of a walk.
// Tests: tests/unit/test_barrier.c, tests/unit/test_barrier_geometry.c.
#include "barrier/tree.h"

#include <math.h>
#include <stdbool.h>

#include "base/assert.h"

void pbBoxTree_Layout(pbArena *a, pbBoxTree *t, int count) {
  t->count = count;
  t->leaf = pbArena_Take(a, (size_t)count, sizeof(int));
  t->box = pbArena_Take(a, (size_t)count, sizeof(pbBounds));
  t->node = pbArena_Take(a, 2 * (size_t)count, sizeof(pbBounds));
  if (!t->leaf) return;  // only measured
  for (int i = 0; i < count; i++) t->leaf[i] = i;
}

static pbBounds join_boxes(const pbBounds *a, const pbBounds *b) {
  pbBounds r;
  for (int k = 0; k < 3; k++) {
    r.lo[k] = fmin(a->lo[k], b->lo[k]);
    r.hi[k] = fmax(a->hi[k], b->hi[k]);
  }

  return r;
}

// Twice the middle of a box: comparisons do not mind.
static inline double middle(const pbBoxTree *t, int i, int axis) { return t->box[i].lo[axis] + t->box[i].hi[axis]; }

// The axis along which the middles of some leaves are spread most.
static int longest_axis(const pbBoxTree *t, int first, int count) {
  double lo[3], hi[3];

  for (int k = 0; k < 3; k++) {
    lo[k] = INFINITY;
    hi[k] = -INFINITY;
  }

  for (int i = first; i < first + count; i++) {
    for (int k = 0; k < 3; k++) {
      double m = middle(t, t->leaf[i], k);
      lo[k] = m < lo[k] ? m : lo[k];
      hi[k] = m > hi[k] ? m : hi[k];
    }
  }

  double x = hi[0] - lo[0], y = hi[1] - lo[1], z = hi[2] - lo[2];
  if (x >= y && x >= z) return 0;
  return y >= z ? 1 : 2;
}

// The k smallest of leaf[0..count) come first (Hoare's selection, middle element as pivot).
static void select_smallest(const pbBoxTree *t, int *leaf, int count, int k, int axis) {
  int lo = 0, hi = count - 1;
  while (lo < hi) {
    double pivot = middle(t, leaf[lo + (hi - lo) / 2], axis);
    int i = lo, j = hi;

    // Partition: what is at most the pivot to the left, what is at least the pivot to the right.
    while (i <= j) {
      while (middle(t, leaf[i], axis) < pivot) i++;
      while (middle(t, leaf[j], axis) > pivot) j--;
      if (i > j) break;

      int swap = leaf[i];
      leaf[i] = leaf[j];
      leaf[j] = swap;
      i++;
      j--;
    }

    // The part that holds the k-th; between j and i all are the pivot.
    if (k - 1 <= j) hi = j;
    else if (k - 1 >= i) lo = i;
    else return;
  }
}

// Leaves of a node and of all below it, halved at the median along the longest axis.
static void order_leaves(pbBoxTree *t, int first, int count) {
  if (count < 3) return;
  int left = (count + 1) / 2;

  select_smallest(t, t->leaf + first, count, left, longest_axis(t, first, count));
  order_leaves(t, first, left);
  order_leaves(t, first + left, count - left);
}

static void refit_node(pbBoxTree *t, int node, int first, int count) {
  if (count == 1) {
    t->node[node] = t->box[t->leaf[first]];
    return;
  }

  // The left child stands right behind its parent, with its 2 left - 1 nodes, then the other.
  int left = (count + 1) / 2, other = node + 2 * left;
  refit_node(t, node + 1, first, left);
  refit_node(t, other, first + left, count - left);
  t->node[node] = join_boxes(t->node + node + 1, t->node + other);
}

void pbBoxTree_Refit(pbBoxTree *t) {
  if (t->count) refit_node(t, 0, 0, t->count);
}

void pbBoxTree_Build(pbBoxTree *t) {
  order_leaves(t, 0, t->count);
  pbBoxTree_Refit(t);
}

static inline bool overlap(const pbBounds *a, const pbBounds *b) {
  for (int k = 0; k < 3; k++) {
    if (!(a->lo[k] <= b->hi[k] && b->lo[k] <= a->hi[k])) return false;
  }

  return true;
}

typedef struct Open {  // a node to be looked into, with its leaves
  int node, first, count;
} Open;

int pbBoxTree_Query(const pbBoxTree *t, const pbBounds *box, int from, int *overlaps) {
  Open stack[64];  // one open right child per level, 31 at most
  int depth = 0, found = 0;

  if (t->count) stack[depth++] = (Open){0, 0, t->count};

  while (depth) {
    depth--;
    Open at = stack[depth];
    if (at.first + at.count <= from || !overlap(t->node + at.node, box)) continue;

    if (at.count == 1) {
      overlaps[found++] = t->leaf[at.first];
      continue;
    }

    // The left child on top, so that leaves come in order.
    int left = (at.count + 1) / 2;
    PB_ASSERT(depth + 2 <= (int)(sizeof stack / sizeof *stack));
    stack[depth++] = (Open){at.node + 2 * left, at.first + left, at.count - left};
    stack[depth++] = (Open){at.node + 1, at.first, left};
  }

  PB_ASSERT(found <= t->count);
  return found;
}
