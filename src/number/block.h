// Transposes of blocks of numbers, in registers where the compiler has shuffles.
#ifndef PB_BLOCK_H
#define PB_BLOCK_H

#include "number/number.h"

#if defined(PB_NUMBER_COMPLEX) || !defined(__has_builtin)
#define PB_TRANSPOSE_BY_LOOPS
#elif !__has_builtin(__builtin_shufflevector)
#define PB_TRANSPOSE_BY_LOOPS
#endif

// Four numbers each of a, b, c, d, transposed: row i of `to`, n numbers from the one before, is a[i], b[i], c[i], d[i].
#ifdef PB_TRANSPOSE_BY_LOOPS
static inline void num_transpose4(const num *a, const num *b, const num *c, const num *d, num *to, size_t n) {
  for (int i = 0; i < 4; i++, to += n) {
    to[0] = a[i];
    to[1] = b[i];
    to[2] = c[i];
    to[3] = d[i];
  }
}
#else
typedef double num_two __attribute__((vector_size(16)));
static inline num_two num_pair(const num *a) {
  num_two pair;
  memcpy(&pair, a, sizeof pair);
  return pair;
}
#ifdef __AVX__
static inline void num_transpose2(const num *a, const num *b, const num *c, const num *d, num *to, size_t n) {
  typedef double num_four __attribute__((vector_size(32)));
  num_four ac = __builtin_shufflevector(num_pair(a), num_pair(c), 0, 1, 2, 3);
  num_four bd = __builtin_shufflevector(num_pair(b), num_pair(d), 0, 1, 2, 3);

  // Rows 0 and 1: of each pair the lower numbers, and the upper ones.
  num_four first = __builtin_shufflevector(ac, bd, 0, 4, 2, 6), second = __builtin_shufflevector(ac, bd, 1, 5, 3, 7);

  memcpy(to, &first, sizeof first);
  memcpy(to + n, &second, sizeof second);
}
#else
static inline void num_transpose2(const num *a, const num *b, const num *c, const num *d, num *to, size_t n) {
  num_two A = num_pair(a), B = num_pair(b), C = num_pair(c), D = num_pair(d), part;

  // Row 0, then row 1.
  part = __builtin_shufflevector(A, B, 0, 2);
  memcpy(to, &part, sizeof part);
  part = __builtin_shufflevector(C, D, 0, 2);
  memcpy(to + 2, &part, sizeof part);

  part = __builtin_shufflevector(A, B, 1, 3);
  memcpy(to + n, &part, sizeof part);
  part = __builtin_shufflevector(C, D, 1, 3);
  memcpy(to + n + 2, &part, sizeof part);
}
#endif
static inline void num_transpose4(const num *a, const num *b, const num *c, const num *d, num *to, size_t n) {
  num_transpose2(a, b, c, d, to, n);
  num_transpose2(a + 2, b + 2, c + 2, d + 2, to + 2 * n, n);
}
#endif

#endif
