// The number type of the numerical kernels. Every kernel source is compiled once per number type (CMake does it):
//   double          the plain program, and the same for wider instruction sets (PB_NUMBER_SUFFIX)
//   _Complex double with PB_NUMBER_COMPLEX: the value in the real part, a derivative along one direction, scaled by
//                   PB_IMAG_STEP, in the imaginary part. With so small a step products of imaginary parts are zero, so the
//                   type is a dual number and derivatives are exact to rounding (complex step). Not merely small beside
//                   real parts: where those are zero a sign or a tie would be decided by what is left.
// Rules for kernels: arithmetic with operators; functions from the list below; comparisons, switches and loops look at
// re(x) only. Functions with external linkage are named NUM(name), and so are structs of numbers. A struct that a kernel gets
// from sources outside is the same type in all variants of doubles, pbThing_r: the header that defines it says so by macros, so
// that a table of the variants (kernel_table.h) needs no casts.
#ifndef PB_NUMBER_H
#define PB_NUMBER_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "elementary/elementary.h"

#define PB_IMAG_STEP 1e-200
#define PB_PI        3.14159265358979323846

#ifdef PB_NUMBER_COMPLEX

typedef _Complex double num;
#define NUM(name)     name##_c
#define PB_IS_COMPLEX 1

static inline double re(num x) { return __real__ x; }
static inline double im(num x) { return __imag__ x; }
static inline num num_make(double value, double derivative) {
  num x;
  __real__ x = value;
  __imag__ x = derivative;
  return x;
}

#else

typedef double num;
#ifdef PB_NUMBER_SUFFIX  // the same double kernels built for a wider instruction set
#define PB_PASTE2(a, b) a##b
#define PB_PASTE(a, b)  PB_PASTE2(a, b)
#define NUM(name)       PB_PASTE(name, PB_NUMBER_SUFFIX)
#else
#define NUM(name) name##_r
#endif
#define PB_IS_COMPLEX 0

static inline double re(num x) { return x; }
static inline double im(num x) {
  (void)x;
  return 0;
}
static inline num num_make(double value, double derivative) {
  (void)derivative;
  return value;
}

#endif

// Doubles in a vector register of the instruction set compiled for: how dense kernels tile their work, never what they compute.
#if defined(__AVX512F__)
#define PB_REGISTER 8
#elif defined(__AVX__)
#define PB_REGISTER 4
#else
#define PB_REGISTER 2
#endif

// A function of one number from its value and slope at the real part.
static inline num num_chain(num x, double value, double slope) { return num_make(value, slope * im(x)); }

static inline num num_sqrt(num x) {
  if (!PB_IS_COMPLEX) return num_make(sqrt(re(x)), 0);

  // The slope at zero is infinite: 0 keeps a branch that does not use it finite.
  double r = sqrt(re(x));
  return num_chain(x, r, r > 0 ? 0.5 / r : 0);
}
static inline void num_sincos(num x, num *sine, num *cosine) {
  double s, c;
  pbSinCos(re(x), &s, &c);

  // each is the other's slope
  *sine = num_chain(x, s, c);
  *cosine = num_chain(x, c, -s);
}
static inline num num_sin(num x) {
  num s, c;
  if (!PB_IS_COMPLEX) return num_make(pbSin(re(x)), 0);

  num_sincos(x, &s, &c);
  return s;
}
static inline num num_cos(num x) {
  num s, c;
  if (!PB_IS_COMPLEX) return num_make(pbCos(re(x)), 0);

  // with its slope
  num_sincos(x, &s, &c);
  return c;
}
static inline num num_exp(num x) { return num_chain(x, pbExp(re(x)), PB_IS_COMPLEX ? pbExp(re(x)) : 0); }
static inline num num_log(num x) { return num_chain(x, pbLog(re(x)), 1 / re(x)); }
static inline num num_asin(num x) { return num_chain(x, pbAsin(re(x)), PB_IS_COMPLEX ? 1 / sqrt(1 - re(x) * re(x)) : 0); }
static inline num num_acos(num x) { return num_chain(x, pbAcos(re(x)), PB_IS_COMPLEX ? -1 / sqrt(1 - re(x) * re(x)) : 0); }
static inline num num_atan2(num y, num x) {
  // d atan2 = (x dy - y dx) / (x^2 + y^2)
  double d = re(x) * re(x) + re(y) * re(y);
  return num_make(pbAtan2(re(y), re(x)), PB_IS_COMPLEX && d > 0 ? (re(x) * im(y) - re(y) * im(x)) / d : 0);
}
static inline num num_pow(num x, num p) {  // x >= 0
  double v = pbPow(re(x), re(p));
  if (!PB_IS_COMPLEX) return num_make(v, 0);

  // At zero only x itself has a slope.
  double dx = re(p) == 1, dp = 0;
  if (re(x) > 0) {
    dx = re(p) * pbPow(re(x), re(p) - 1);
    dp = v * pbLog(re(x));
  }
  return num_make(v, dx * im(x) + dp * im(p));
}
// Branches on the real part; at a tie both have an even share of the slope, which is the central difference. |x| has slope 0 at
// 0, the mean of both sides.
static inline num num_abs(num x) {
  if (!PB_IS_COMPLEX) return num_make(fabs(re(x)), 0);

  if (re(x) < 0) return -x;
  return re(x) > 0 ? x : num_make(0, 0);
}
static inline num num_max(num a, num b) {
  // A tie.
  if (PB_IS_COMPLEX && re(a) == re(b)) return num_make(re(a), 0.5 * (im(a) + im(b)));

  return re(a) >= re(b) ? a : b;
}
static inline num num_min(num a, num b) {
  if (PB_IS_COMPLEX && re(a) == re(b)) return num_make(re(a), 0.5 * (im(a) + im(b)));

  return re(a) <= re(b) ? a : b;
}
// max(x, least) of a value that means no less: at the bound itself the slope into the domain.
static inline num num_at_least(num x, double least) { return re(x) >= least ? x : least; }
static inline num num_clip(num x, num lo, num hi) {
  if (re(x) < re(lo)) return lo;
  return re(x) > re(hi) ? hi : x;
}
static inline num num_sign(num x) {
  if (re(x) > 0) return 1;
  return re(x) < 0 ? -1 : 0;
}

#endif
