// Exponentials of numbers that are not positive, and what activations make of them: by additions and products alone, so that
// they have the same bits with every library of mathematics and compilers run several at a time. Errors: 2 units in the last
// place. NaN stays NaN.
#ifndef PB_POLICY_EXPONENTIAL_H
#define PB_POLICY_EXPONENTIAL_H

#include <stdint.h>
#include <string.h>

#include "policy/real.h"

#ifdef PB_SINGLE
typedef uint32_t pbBits;
enum { PB_FRACTION = 23, PB_BIAS = 127, PB_TERMS = 7 };
#define PB_SHIFTER   0x1.8p23f  // adding it rounds to a whole number, which stands in the last bits
#define PB_LN2_HIGH  0x1.62ep-1f
#define PB_LN2_LOW   0x1.0bfbe8p-15f
#define PB_LEAST_EXP -87.f
#else
typedef uint64_t pbBits;
enum { PB_FRACTION = 52, PB_BIAS = 1023, PB_TERMS = 13 };
#define PB_SHIFTER   0x1.8p52
#define PB_LN2_HIGH  0x1.62e42feep-1
#define PB_LN2_LOW   0x1.a39ef35793c76p-33
#define PB_LEAST_EXP -708.
#endif

// exp(y) = power (1 + rest), y <= 0: power is 2^k, rest = expm1 of what is left of y, at most ln(2)/2 (Taylor's series).
typedef struct pbExponential {
  real power, rest;
} pbExponential;

static inline pbExponential pb_exponential(real y) {
  static const real factor[] = {(real)(1. / 6227020800), (real)(1. / 479001600), (real)(1. / 39916800), (real)(1. / 3628800),
                                (real)(1. / 362880),     (real)(1. / 40320),     (real)(1. / 5040),     (real)(1. / 720),
                                (real)(1. / 120),        (real)(1. / 24),        (real)(1. / 6),        (real)0.5};
  y = y < PB_LEAST_EXP ? PB_LEAST_EXP : y;
  real shifted = y * (real)1.4426950408889634 + (real)PB_SHIFTER, k = shifted - (real)PB_SHIFTER;
  real r = (y - k * PB_LN2_HIGH) - k * PB_LN2_LOW, sum = factor[13 - PB_TERMS];
  for (int i = 14 - PB_TERMS; i < 12; i++) sum = sum * r + factor[i];

  pbBits bits;
  pbExponential e;
  memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + PB_BIAS) << PB_FRACTION;
  memcpy(&e.power, &bits, sizeof bits);
  e.rest = r + r * r * sum;
  return e;
}

// exp(y) - 1, y <= 0
static inline real pb_expm1(real y) {
  pbExponential e = pb_exponential(y);
  return e.power * e.rest + (e.power - 1);
}

static inline real pb_tanh(real x) {
  real e = pb_expm1(x < 0 ? 2 * x : -2 * x), y = e / (2 + e);  // -tanh|x|
  return x < 0 ? y : -y;
}

static inline real pb_sigmoid(real x) {
  pbExponential e = pb_exponential(x < 0 ? x : -x);
  real small = e.power + e.power * e.rest;
  return (x < 0 ? small : 1) / (1 + small);
}

#endif
