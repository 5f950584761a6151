// Orders of elimination that keep the fill of a symmetric sparse matrix small.
#ifndef PB_SPARSE_ORDER_H
#define PB_SPARSE_ORDER_H

#include <stddef.h>

// Graph of a matrix: neighbours of i, without i, are adjacent[begin[i]] .. adjacent[begin[i + 1] - 1].
typedef struct pbGraphOf {
  int n;
  const int *begin, *adjacent;
} pbGraphOf;

// Minimum degree on the quotient graph with approximate external degrees, mass elimination, merging of indistinguishable
// variables and absorption of elements (Amestoy, Davis & Duff 1996). order has n entries; work: pbOrder_Room ints.
size_t pbOrder_Room(int n, size_t adjacent);
void pbOrder_MinimumDegree(const pbGraphOf *graph, int *order, int *work);

#endif
