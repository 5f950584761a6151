// Binary tree of axis-aligned boxes: who overlaps a box. Leaves are primitives 0..count-1. The shape of the tree depends on the
// count alone, so it needs no links: a node over k leaves has its left child, over (k + 1) / 2 of them, right behind it, then the
// other.
#ifndef PB_BARRIER_TREE_H
#define PB_BARRIER_TREE_H

#include "base/arena.h"

typedef struct pbBounds {
  double lo[3], hi[3];
} pbBounds;

typedef struct pbBoxTree {
  int count;
  int *leaf;       // primitives, ordered so that near ones are neighbours
  pbBounds *node;  // 2 count - 1
  pbBounds *box;   // of each primitive, filled by the caller before Build and Refit
} pbBoxTree;

void pbBoxTree_Layout(pbArena *arena, pbBoxTree *tree, int count);
void pbBoxTree_Build(pbBoxTree *tree);  // orders the leaves by the middles of their boxes, then as Refit
void pbBoxTree_Refit(pbBoxTree *tree);
// Primitives leaf[from], leaf[from + 1], ... whose boxes touch `box`, into `overlaps` (room for count). Returns how many.
int pbBoxTree_Query(const pbBoxTree *tree, const pbBounds *box, int from, int *overlaps);

#endif
