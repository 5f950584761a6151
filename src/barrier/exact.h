// Does an edge meet a triangle? Decided without rounding errors: a determinant in doubles where its error bound settles the sign,
// else as an exact sum of doubles (two-sum and two-product expansions: Dekker 1971, Shewchuk 1997). Exact as long as products of
// three coordinates neither overflow nor fall below the smallest doubles.
#ifndef PB_BARRIER_EXACT_H
#define PB_BARRIER_EXACT_H

#include <stdbool.h>

// Sign of det(b - a, c - a, d - a): 1, 0, -1
int pbExact_Side(const double *a, const double *b, const double *c, const double *d);
// Closed edge (2 x 3), closed triangle (3 x 3); touching is meeting. Degenerate ones are the segments or points that they are.
bool pbExact_EdgeMeetsTriangle(const double *edge, const double *triangle);

#endif
