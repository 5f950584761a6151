// Orders of elimination that keep the fill of a symmetric sparse matrix small.
#ifndef PB_SPARSE_ORDER_H
#define PB_SPARSE_ORDER_H

#include <stddef.h>

// Graph of a matrix: neighbors of i, without i, are adjacent[begin[i]] .. adjacent[begin[i + 1] - 1].
typedef struct pbGraphOf {
  int n;
  const int *begin, *adjacent;
} pbGraphOf;

// The order for a factorization: nested dissection (George 1973) by multilevel vertex separators, minimum degree where the
// parts are small or where it serves as well. order has n entries; work: pbOrder_Room ints.
size_t pbOrder_Room(int n, size_t adjacent);
void pbOrder_Find(const pbGraphOf *graph, int *order, int *work);

// Minimum degree on the quotient graph with approximate external degrees, mass elimination, merging of indistinguishable
// variables and absorption of elements (Amestoy, Davis & Duff 1996). Returns about how many multiplications of blocks a
// factorization then takes, those of rows with very many neighbors not counted; these come last, the same way.
size_t pbOrder_MinimumDegreeRoom(int n, size_t adjacent);
double pbOrder_MinimumDegree(const pbGraphOf *graph, int *order, int *work);

// More neighbors than this are very many.
int pbOrder_Dense(int n);

#endif
