// Exponential, logarithm, power, length of two.
//
// Tables and steps: P. T. P. Tang, Table-driven implementation of the exponential function, ACM TOMS 15 (1989), and of the
// logarithm function, ACM TOMS 16 (1990).
// Tests: tests/unit/test_elementary.c.
#include <math.h>
#include <stdbool.h>

#include "elementary/bits.h"
#include "elementary/elementary.h"
#include "elementary/tables.h"

enum { FRACTION = 52, BIAS = 1023 };

static double power_of_two(int64_t k) { return of_bits((uint64_t)(BIAS + k) << FRACTION); }

// ---- exponential ---------------------------------------------------------------------------------------------------

// exp(x + rest), |rest| far below |x| < 746: 2^(k/128) exp(r), the power from a table.
static double exp_with(double x, double rest) {
  static const double scale = 0x1.71547652b82fep+7, ln2_high = 0x1.62e42fefa0000p-8, ln2_low = 0x1.cf79abc9e3b3ap-47;
  double k = x * scale + SHIFTER - SHIFTER;
  double r = (x - k * ln2_high) - k * ln2_low + rest, r2 = r * r;

  int64_t whole = (int64_t)k;
  const double *entry = exp_table[whole & 127];
  int64_t power = whole >> 7;

  // Powers of two beyond the range come in two parts.
  int64_t part = 0;
  if (power > 1000) part = power - 1000;
  if (power < -1000) part = power + 1000;
  double start = of_bits(bits_of(entry[0]) + ((uint64_t)(power - part) << FRACTION));
  double more = entry[1] + r + r2 * (0.5 + r * (1. / 6) + r2 * (1. / 24 + r * (1. / 120)));
  double value = start + start * more;
  return part ? value * power_of_two(part) : value;
}

double pbExp(double x) {
  if (isnan(x)) return x;
  if (x < -746) return 0;
  return x > 709.782712893384 ? INFINITY : exp_with(x, 0);
}

// ---- logarithm -----------------------------------------------------------------------------------------------------
static const double ln2_head = 0x1.62e42fefa3800p-1, ln2_rest = 0x1.ef35793c76730p-45;  // k times the first is exact

typedef struct octave {
  double k, z;          // x = 2^k z
  const double *entry;  // of the part of [.6875, 1.375) that has z
} octave;

static octave octave_of(double x) {
  static const uint64_t low = UINT64_C(0x3fe6000000000000);  // .6875
  int64_t less = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p52;
    less = 52;
  }
  uint64_t above = bits_of(x) - low;
  octave o = {.k = (double)(((int64_t)above >> FRACTION) - less), .entry = log_table[above >> 45 & 127]};
  o.z = of_bits(bits_of(x) - (above & UINT64_C(0xfff) << FRACTION));
  return o;
}

// log(1 + d), |d| < 1/32: the series, its first two terms in two parts.
static double log_near_one(double d) {
  double h = head(d), square = 0.5 * h * h, rest = 0.5 * (d - h) * (d + h);
  double first = d - square, lost = (d - first) - square - rest, d2 = d * d, d4 = d2 * d2;

  double low = (1. / 3 - d * 0.25) + d2 * (0.2 - d * (1. / 6)), high = (1. / 7 - d * 0.125) + d2 * (1. / 9 - d * 0.1);
  double tail = d * d2 * (low + d4 * (high + d4 * (1. / 11 - d * (1. / 12))));
  return first + (lost + tail);
}

// log(x) + rest, x positive and finite, not near one.
static double log_with(double x, double rest) {
  octave o = octave_of(x);
  double r = (o.z - o.entry[0]) * o.entry[1], r2 = r * r;
  double first = o.k * ln2_head + o.entry[2];
  pair s = sum(first, r);

  const double *c = log_terms;
  double tail = r2 * ((c[0] + c[1] * r) + r2 * ((c[2] + c[3] * r) + r2 * c[4]));
  return s.high + (s.low + (o.k * ln2_rest + o.entry[3] + rest) + tail);
}

double pbLog(double x) {
  if (x == 0) return -INFINITY;
  if (x < 0) return NAN;
  if (!(x < INFINITY)) return x;

  double d = x - 1;
  return fabs(d) < 0x1p-5 ? log_near_one(d) : log_with(x, 0);
}

double pbLog1p(double x) {
  if (fabs(x) < 0x1p-54) return x;
  if (fabs(x) < 0x1p-5) return log_near_one(x);
  if (!(x > -1) || x == INFINITY) return pbLog(1 + x);

  // what the sum lost
  pair s = x > 1 ? sum(x, 1) : sum(1, x);
  return log_with(s.high, s.low / s.high);
}

// ---- power ---------------------------------------------------------------------------------------------------------

// log(x) in two parts, some 68 bits; x positive and finite.
static pair log_pair(double x) {
  octave o = octave_of(x);
  double c = o.entry[0], d = o.z - c;

  // d/c: 26 bits, whose product with the nine of c is exact, and the rest
  double q = head(d * o.entry[1]), q_rest = (d - q * c) * o.entry[1];
  double first = o.k * ln2_head + o.entry[2], square = 0.5 * q * q;
  pair a = sum(first, q), b = sum(a.high, -square);

  double q2 = q * q, q4 = q2 * q2;
  double low = (1. / 3 - q * 0.25) + q2 * (0.2 - q * (1. / 6)), high = (1. / 7 - q * 0.125) + q2 * (1. / 9 - q * 0.1);
  double by_rest =
      q_rest * ((1 - q) * (1 + q2) * (1 + q4)) - 0.5 * q_rest * q_rest;  // the derivative 1 / (1 + q), the second one
  return sum(b.high, a.low + b.low + (o.k * ln2_rest + o.entry[3]) + by_rest + q2 * q * (low + q4 * high));
}

// x^y, x > 0, both finite, |y| < 2^65.
static double pow_usual(double x, double y) {
  pair l = log_pair(x);
  double yh = head(y), lh = head(l.high), high = yh * lh, low = (y - yh) * lh + y * (l.high - lh + l.low);
  if (fabs(high) < 700) return exp_with(high, low);

  if (high + low > 709.79) return INFINITY;
  return high + low < -746 ? 0 : exp_with(high, low);
}

static bool is_odd(double y) { return fabs(y) < 0x1p53 && fmod(y, 2) != 0; }

// What zeros, infinities, negative numbers and huge powers give.
static double pow_special(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (isnan(x) || isnan(y)) return x + y;
  if (x == -1 && isinf(y)) return 1;

  bool whole = floor(y) == y;
  double sign = signbit(x) && whole && is_odd(y) ? -1 : 1, size = fabs(x);
  if (size == 0 || size == INFINITY) return (size == 0) == (y > 0) ? sign * 0 : sign * INFINITY;
  if (isinf(y)) return (size > 1) == (y > 0) ? INFINITY : 0;
  if (x < 0 && !whole) return NAN;

  if (size == 1) return sign;
  if (fabs(y) >= 0x1p65) return (size > 1) == (y > 0) ? INFINITY : 0;
  return sign * pow_usual(size, y);
}

double pbPow(double x, double y) {
  static const uint64_t least = UINT64_C(0x0010000000000000), normal = UINT64_C(0x7fe0000000000000);
  return bits_of(x) - least < normal && fabs(y) < 0x1p65 ? pow_usual(x, y) : pow_special(x, y);
}

// ---- length --------------------------------------------------------------------------------------------------------
// sqrt(a^2 + b^2), a >= b > 0, less its error (h^2 - a^2 - b^2) / 2h, by differences that are exact (C. F. Borges, An improved
// algorithm for hypot(a, b), ACM TOMS 2020).
static double hypot_usual(double a, double b) {
  double h = sqrt(a * a + b * b);
  if (h <= 2 * b) {
    double d = h - b;
    return h - (a * (2 * d - a) + (d - 2 * (a - b)) * d) / (2 * h);
  }
  double d = h - a;
  return h - (2 * d * (a - 2 * b) + (4 * d - b) * b + d * d) / (2 * h);
}

double pbHypot(double x, double y) {
  x = fabs(x);
  y = fabs(y);
  double a = x > y ? x : y, b = x > y ? y : x;
  if (a < 0x1p500 && b > 0x1p-450) return hypot_usual(a, b);

  // squares beyond the range
  if (isinf(x) || isinf(y)) return INFINITY;
  if (!(b > a * 0x1p-60)) return x + y;  // zero and NaN, too
  return a > 1 ? hypot_usual(a * 0x1p-600, b * 0x1p-600) * 0x1p600 : hypot_usual(a * 0x1p600, b * 0x1p600) * 0x1p-600;
}
