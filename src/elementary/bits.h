// Bits of numbers, and products without an error.
#ifndef PB_ELEMENTARY_BITS_H
#define PB_ELEMENTARY_BITS_H

#include <stdint.h>
#include <string.h>

#define SHIFTER 0x1.8p52  // adding it rounds to a whole number

// A number in two parts: the second is what the first lacks.
typedef struct pair {
  double high, low;
} pair;

static inline uint64_t bits_of(double x) {
  uint64_t b;
  memcpy(&b, &x, sizeof b);
  return b;
}

static inline double of_bits(uint64_t b) {
  double x;
  memcpy(&x, &b, sizeof x);
  return x;
}

// The first 26 bits: products of two such, or of one with 27 bits, are exact.
static inline double head(double x) { return of_bits(bits_of(x) & ~UINT64_C(0x7ffffff)); }

// x y (Dekker 1971).
static inline pair product(double x, double y) {
  double xh = head(x), xl = x - xh, yh = head(y), yl = y - yh, high = x * y;
  return (pair){high, (xh * yh - high) + xh * yl + xl * yh + xl * yl};
}

// x + y where |x| >= |y| or x is zero.
static inline pair sum(double x, double y) {
  double high = x + y;
  return (pair){high, x - high + y};
}

#endif
