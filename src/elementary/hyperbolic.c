// Hyperbolic functions and their inverses, exp(x) - 1, and the error function, from the exponential and the logarithm.
// Tests: tests/unit/test_elementary.c.
#include "elementary/hyperbolic.h"

#include <math.h>

#include "elementary/elementary.h"

static const double log_of_two = 0x1.62e42fefa39efp-1;

// ---- hyperbolic functions ---------------------------------------------------------------------------------------------
// Kahan's quotient: what rounding of the exponential takes from u - 1, it takes from log(u) too (Higham 2002, 1.14.1).
double pbExpm1(double x) {
  if (fabs(x) < 0x1p-54 || isnan(x)) return x;
  if (x > 40) return pbExp(x);

  double u = pbExp(x), below = u - 1;
  if (u == 1) return x;
  return below == -1 ? -1 : below * (x / pbLog(u));
}

// Half of exp(a), a > 22, without overflow before its time.
static double half_exp(double a) {
  if (a < 700) return 0.5 * pbExp(a);
  double root = pbExp(0.5 * a);
  return 0.5 * root * root;
}

double pbSinh(double x) {
  double a = fabs(x);
  if (!(a >= 0x1p-28)) return x;
  if (a > 22) return copysign(half_exp(a), x);

  double e = pbExpm1(a);
  return copysign(0.5 * (e + e / (e + 1)), x);
}

double pbCosh(double x) {
  double a = fabs(x);
  if (a > 22) return half_exp(a);

  double e = pbExp(a);
  return 0.5 * e + 0.5 / e;
}

double pbTanh(double x) {
  double a = fabs(x);
  if (!(a >= 0x1p-28)) return x;
  if (a > 22) return copysign(1, x);

  double e = pbExpm1(2 * a);
  return copysign(e / (e + 2), x);
}

double pbAsinh(double x) {
  double a = fabs(x);
  if (!(a >= 0x1p-28) || a == INFINITY) return x;
  if (a > 0x1p28) return copysign(pbLog(a) + log_of_two, x);

  double square = a * a;
  return copysign(pbLog1p(a + square / (1 + sqrt(1 + square))), x);
}

double pbAcosh(double x) {
  if (x < 1) return NAN;
  if (x > 0x1p28) return pbLog(x) + log_of_two;

  double above = x - 1;
  return pbLog1p(above + sqrt(2 * above + above * above));
}

double pbAtanh(double x) {
  double a = fabs(x);
  if (a > 1) return NAN;
  if (!(a >= 0x1p-28)) return x;
  return copysign(0.5 * pbLog1p(2 * a / (1 - a)), x);
}

// ---- error function ---------------------------------------------------------------------------------------------------
// Its series about zero, |x| < 1/2.
static double erf_near_zero(double x) {
  static const double two_over_root_pi = 0x1.20dd750429b6dp+0;
  double square = x * x, power = 1, sum = 0;
  for (int n = 0; n < 14; n++) {
    sum += power / (2 * n + 1);
    power *= -square / (n + 1);
  }
  return two_over_root_pi * x * sum;
}

// exp(-x^2) with what is lost of the square.
static double bell(double x) {
  double high = (float)x, rest = (x - high) * (x + high);
  return pbExp(-high * high) * pbExp(-rest);
}

// The trapezoidal rule, with the residue of the pole that lies between the contours (Matta & Reichel, Math. Comp. 25 (1971));
// x >= 1/2. Steps of 1/2: what is neglected is of the order of exp(-4 pi^2).
static double erfc_beyond(double x) {
  static const double pi = 0x1.921fb54442d18p+1, h = 0.5;
  double square = x * x, sum = 0.5 / square;
  for (int n = 13; n >= 1; n--) {
    double t = n * h;
    sum += pbExp(-t * t) / (t * t + square);
  }

  double value = 2 * h * x / pi * bell(x) * sum;
  return x < 6 ? value - 2 / pbExpm1(2 * pi * x / h) : value;
}

double pbErf(double x) {
  double a = fabs(x);
  if (isnan(x)) return x;
  if (a < 0.5) return erf_near_zero(x);
  return copysign(a > 6 ? 1 : 1 - erfc_beyond(a), x);
}

double pbErfc(double x) {
  if (isnan(x)) return x;
  if (x < 0.5) return 1 - pbErf(x);
  return x > 27.3 ? 0 : erfc_beyond(x);
}
