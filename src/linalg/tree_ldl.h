// L'DL factorization of symmetric matrices whose sparsity is a tree (Featherstone 2005): entry (i, j), j < i, is non-zero
// only where j is an ancestor of i. Rows hold the chain root..parent(i), i; eliminating from the leaves makes no fill.
// Because the ancestors of an ancestor come first in every row, each inner loop is one contiguous AXPY. Rows that follow each
// other up a chain share their ancestors: up to PB_TREE_BLOCK of them are taken together.
#ifndef PB_TREE_LDL_H
#define PB_TREE_LDL_H

#include "number/number.h"

// Pattern: parent[i] < i (or -1), depth[i] = number of ancestors, row i of the matrix starts at adr[i] and has depth[i] + 1
// entries, the diagonal last; chain (same layout) holds the column of each entry. Rows are padded to whole vectors
// (PB_TREE_PAD): what stands in the padding is arbitrary, and never reaches an entry. block[i] is the number of rows of the
// block that i begins or ends.
enum { PB_TREE_PAD = 4, PB_TREE_BLOCK = 4 };
// Room that a pattern of n rows may need.
#define PB_TREE_ROOM(n) ((n) * ((n) + 1) / 2 + (PB_TREE_PAD - 1) * (n))
// Entries of a row with so many ancestors.
#define PB_TREE_PADDED(depth) (((depth) + PB_TREE_PAD) / PB_TREE_PAD * PB_TREE_PAD)
typedef struct pbTreePattern {
  int n, size;  // size: entries in all
  int *parent, *depth, *adr, *chain, *block;
} pbTreePattern;

// Entries of the pattern, the size of its matrix, from parent; writes depth.
size_t NUM(pbTree_Entries)(pbTreePattern *tree);
// Fill depth, adr, chain, block, size from parent. chain has room for as many entries.
void NUM(pbTree_Layout)(pbTreePattern *tree);
// Make i and j lie on one chain (all their ancestors with them): the elimination tree after a new coupling. O(depth).
void NUM(pbTree_Join)(int *parent, int i, int j);

// In place: A -> L (unit lower, strictly below the diagonal) and D (diagonal), A = L' D L. diag_inv[i] = 1 / D[i].
// Returns the index of the first pivot that is not positive, -1 if all are.
int NUM(pbTree_Factor)(const pbTreePattern *tree, num *A, num *diag_inv);
// x := A^-1 x
void NUM(pbTree_Solve)(const pbTreePattern *tree, const num *LD, const num *diag_inv, num *x);
// y = A x for an unfactored A
void NUM(pbTree_Mul)(const pbTreePattern *tree, const num *A, const num *x, num *y);

#endif
