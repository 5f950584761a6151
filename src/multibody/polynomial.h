// Springs and dampers whose coefficients are polynomials.
#ifndef PB_POLYNOMIAL_H
#define PB_POLYNOMIAL_H

#include "number/number.h"

// Polynomial force coefficients: c0 + c1 |x| + c2 x^2 (odd: |x|; else x), and the derivative of x times it.
static inline num pb_polynomialForce(const num c[3], num x, bool odd) {
  if (odd) x = num_abs(x);

  return c[0] + x * (c[1] + x * c[2]);
}
static inline num pb_polynomialSlope(const num c[3], num x, bool odd) {
  if (odd) x = num_abs(x);

  return c[0] + x * (2 * c[1] + 3 * x * c[2]);
}

#endif
