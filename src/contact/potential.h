// Potentials of one-sided rows, a row's force f = -ds/dx and the curvature of s, as functions of a number type; sharp
// (MuJoCo's: zero on one side) and smoothed by kappa (contact.h).
#ifndef PB_POTENTIAL_H
#define PB_POTENTIAL_H

#include "number/number.h"

// phi(x) = (sqrt(x^2 + 4 kappa) - x) / 2, free of cancellation, with its root: the smoothed max(0, -x); phi' = -phi / root
// (Chen-Harker-Kanzow-Smale).
static inline num pb_smooth_side(num x, double kappa, num *root) {
  num s = num_sqrt(x * x + 4 * kappa);
  *root = s;
  return re(x) > 0 ? 2 * kappa / (s + x) : 0.5 * (s - x);
}

// One side: force D phi, curvature D slope. False: none here (only for kappa = 0).
static inline bool pb_side(num x, double kappa, num *phi, num *slope) {
  if (kappa > 0) {
    num root;
    *phi = pb_smooth_side(x, kappa, &root);
    *slope = *phi / root;
    return true;
  }
  *phi = -x, *slope = 1;
  return re(x) < 0;
}

// Cost of the same; used only to compare two points.
static inline double pb_side_cost(double x, double D, double kappa) {
  if (kappa > 0) return D * (0.25 * x * x - 0.25 * x * sqrt(x * x + 4 * kappa) - kappa * asinh(x / (2 * sqrt(kappa))));
  return x < 0 ? 0.5 * D * x * x : 0;
}

#include "contact/potential_number.h"
#if !PB_IS_COMPLEX
#include "number/complex_begin.h"
#include "contact/potential_number.h"
#include "number/complex_end.h"
#endif

#endif
