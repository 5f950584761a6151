// Binary tree of axis-aligned boxes: who overlaps a box. Leaves are primitives 0..count-1. The shape of the tree depends on the count
// alone, so it needs no links: a node over k leaves has its left child, over (k + 1) / 2 of them, right behind it, then the other.
#ifndef PB_BARRIER_TREE_H
#define PB_BARRIER_TREE_H

#include "base/arena.h"

typedef struct pbBox {
  double lo[3], hi[3];
} pbBox;

typedef struct pbTree {
  int count;
  int *leaf;    // primitives, ordered so that near ones are neighbours
  pbBox *node;  // 2 count - 1
  pbBox *box;   // of each primitive, filled by the caller before Build and Refit
} pbTree;

void pbTree_Layout(pbArena *arena, pbTree *tree, int count);
void pbTree_Build(pbTree *tree);  // orders the leaves by the middles of their boxes, then as Refit
void pbTree_Refit(pbTree *tree);
// Primitives leaf[from], leaf[from + 1], ... whose boxes touch `box`, into hits (room for count). Returns how many.
int pbTree_Query(const pbTree *tree, const pbBox *box, int from, int *hits);

#endif
