// Short vectors of numbers, the same width for every instruction set: element by element, and sums in one fixed order, so that
// results have the same bits everywhere. Complex numbers come one by one.
#ifndef PB_VECTOR_H
#define PB_VECTOR_H

#include "number/number.h"

#if PB_IS_COMPLEX

enum { PB_WIDTH = 1 };
typedef num pbVector;
static inline num vec_sum(const pbVector *v) { return *v; }
static inline void vec_gather(const num *x, const int *at, pbVector *v) { *v = x[*at]; }
static inline void vec_scatter(const pbVector *v, num *x, const int *at) { x[*at] = *v; }

#else

enum { PB_WIDTH = 4 };
typedef double pbVector __attribute__((vector_size(8 * PB_WIDTH), aligned(8), may_alias));
static inline double vec_sum(const pbVector *v) { return ((*v)[0] + (*v)[2]) + ((*v)[1] + (*v)[3]); }
// Entries of x at ascending places, which mostly follow each other.
static inline void vec_gather(const double *x, const int *at, pbVector *v) {
  if (at[3] - at[0] == 3) {
    *v = *(const pbVector *)(x + at[0]);
  } else {
    *v = (pbVector){x[at[0]], x[at[1]], x[at[2]], x[at[3]]};
  }
}
static inline void vec_scatter(const pbVector *v, double *x, const int *at) {
  if (at[3] - at[0] == 3) {
    *(pbVector *)(x + at[0]) = *v;
  } else {
    x[at[0]] = (*v)[0];
    x[at[1]] = (*v)[1];
    x[at[2]] = (*v)[2];
    x[at[3]] = (*v)[3];
  }
}

#endif

static inline pbVector *vec_at(num *x) { return (pbVector *)x; }
static inline const pbVector *vec_in(const num *x) { return (const pbVector *)x; }

// Functions of which a copy is made for each constant they are called with.
#define PB_COPIES static inline __attribute__((always_inline))

#endif
