#include "barrier/tree.h"

#include <math.h>

void pbBoxTree_Layout(pbArena *a, pbBoxTree *t, int count) {
  t->count = count;
  t->leaf = pbArena_Take(a, (size_t)count, sizeof(int));
  t->box = pbArena_Take(a, (size_t)count, sizeof(pbBounds));
  t->node = pbArena_Take(a, 2 * (size_t)count, sizeof(pbBounds));
  if (!t->leaf) return;  // only measured
  for (int i = 0; i < count; i++) t->leaf[i] = i;
}

static pbBounds join(const pbBounds *a, const pbBounds *b) {
  pbBounds r;
  for (int k = 0; k < 3; k++) {
    r.lo[k] = fmin(a->lo[k], b->lo[k]);
    r.hi[k] = fmax(a->hi[k], b->hi[k]);
  }

  return r;
}

static inline double middle(const pbBoxTree *t, int i, int axis) { return t->box[i].lo[axis] + t->box[i].hi[axis]; }

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
  return x >= y && x >= z ? 0 : y >= z ? 1 : 2;
}

// The k smallest of leaf[0..count) come first (Hoare's selection, middle element as pivot).
static void select_smallest(const pbBoxTree *t, int *leaf, int count, int k, int axis) {
  int lo = 0, hi = count - 1;
  while (lo < hi) {
    double pivot = middle(t, leaf[lo + (hi - lo) / 2], axis);
    int i = lo, j = hi;

    while (i <= j) {
      while (middle(t, leaf[i], axis) < pivot) i++;
      while (middle(t, leaf[j], axis) > pivot) j--;
      if (i > j) break;
      int swap = leaf[i];
      leaf[i++] = leaf[j];
      leaf[j--] = swap;
    }

    if (k - 1 <= j) hi = j;
    else if (k - 1 >= i) lo = i;
    else return;
  }
}

static void order(pbBoxTree *t, int first, int count) {
  if (count < 3) return;
  int left = (count + 1) / 2;
  select_smallest(t, t->leaf + first, count, left, longest_axis(t, first, count));
  order(t, first, left);
  order(t, first + left, count - left);
}

static void refit(pbBoxTree *t, int node, int first, int count) {
  if (count == 1) {
    t->node[node] = t->box[t->leaf[first]];
    return;
  }

  int left = (count + 1) / 2, other = node + 2 * left;
  refit(t, node + 1, first, left);
  refit(t, other, first + left, count - left);
  t->node[node] = join(t->node + node + 1, t->node + other);
}

void pbBoxTree_Refit(pbBoxTree *t) {
  if (t->count) refit(t, 0, 0, t->count);
}

void pbBoxTree_Build(pbBoxTree *t) {
  order(t, 0, t->count);
  pbBoxTree_Refit(t);
}

static inline bool touch(const pbBounds *a, const pbBounds *b) {
  return a->lo[0] <= b->hi[0] && b->lo[0] <= a->hi[0] && a->lo[1] <= b->hi[1] && b->lo[1] <= a->hi[1] && a->lo[2] <= b->hi[2] &&
         b->lo[2] <= a->hi[2];
}

int pbBoxTree_Query(const pbBoxTree *t, const pbBounds *box, int from, int *hits) {
  struct {
    int node, first, count;
  } stack[64];  // one open right child per level, 31 at most
  int depth = 0, found = 0;

  if (t->count) {
    stack[depth].node = 0;
    stack[depth].first = 0;
    stack[depth++].count = t->count;
  }

  while (depth) {
    int node = stack[--depth].node, first = stack[depth].first, count = stack[depth].count;
    if (first + count <= from || !touch(t->node + node, box)) continue;
    if (count == 1) {
      hits[found++] = t->leaf[first];
      continue;
    }

    int left = (count + 1) / 2;
    stack[depth].node = node + 2 * left;
    stack[depth].first = first + left;
    stack[depth++].count = count - left;
    stack[depth].node = node + 1;
    stack[depth].first = first;
    stack[depth++].count = left;
  }

  return found;
}
