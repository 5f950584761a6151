// Sum of numbers in any order: finite only where all of them are. It is taken at every step, so it is wide.
// Tests: tests/conformance/test_step.c.
#include "step/kernels.h"

#if !PB_IS_COMPLEX

#if defined(__AVX512F__)
enum { width = 8 };
#elif defined(__AVX__)
enum { width = 4 };
#else
enum { width = 2 };
#endif
typedef double wide __attribute__((vector_size(width * sizeof(double)), aligned(16), may_alias));

double NUM(pbFinite_Sum)(const double *x, size_t n) {
  enum { rounds = 8, together = 4 * width * rounds };
  wide a = {0}, b = {0}, c = {0}, d = {0};
  size_t i = 0;
  double sum = 0;

  // Four sums side by side hide the latency of additions; only the first number may be off the alignment of 16.
  if (n > 0 && (size_t)x % 16) {
    sum = *x++;
    n--;
  }
  for (; i + together <= n; i += together) {
    const wide *v = (const wide *)(x + i);
#pragma GCC unroll 8
    for (int k = 0; k < rounds; k++, v += 4) {
      a += v[0];
      b += v[1];
      c += v[2];
      d += v[3];
    }
  }
  for (; i < n; i++) sum += x[i];

  // Infinities and NaN come through every sum.
  a += b + (c + d);
  for (int k = 0; k < width; k++) sum += a[k];
  return sum;
}

#endif
