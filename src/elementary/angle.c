// Sine, cosine, and the inverses of these and of the tangent.
//
// Large angles: M. Payne and R. Hanek, Radian reduction for trigonometric functions, SIGNUM 18 (1983). The arc tangent by a
// table: P. T. P. Tang, Table-lookup algorithms for elementary functions and their error analysis, ARITH 10 (1991).
// Tests: tests/unit/test_elementary.c.
#include <math.h>
#include <stdbool.h>

#include "elementary/bits.h"
#include "elementary/elementary.h"
#include "elementary/tables.h"

typedef unsigned __int128 wide;

static const pair half_pi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};

// An angle as quarters of a turn and what is left, at most pi/4 to either side.
typedef struct angle {
  pair left;
  int quarters;
} angle;

// ---- what is left of quarters of a turn ----------------------------------------------------------------------------

static uint64_t word_of_two_over_pi(int k) { return k < 0 ? 0 : two_over_pi[k]; }

// x = m 2^e in turns modulo one, as 192 bits behind the point. Bits of 2/pi before the (e - 2)th make whole turns.
static void turns_of(double x, uint64_t turns[3]) {
  int e = (int)(bits_of(x) >> 52) - 1075, from = e - 2, first = from < 0 ? -1 : from / 64, shift = from - 64 * first;
  uint64_t m = (bits_of(x) & UINT64_C(0xfffffffffffff)) | UINT64_C(1) << 52;

  wide carried = 0;
  for (int i = 2; i >= 0; i--) {
    wide two = (wide)word_of_two_over_pi(first + i) << 64 | word_of_two_over_pi(first + i + 1);
    carried += (wide)m * (uint64_t)(two >> (64 - shift));
    turns[i] = (uint64_t)carried;
    carried >>= 64;
  }
}

static angle reduce_large(double x) {
  uint64_t t[3];
  turns_of(x, t);
  angle a = {.quarters = (int)(t[0] >> 62)};

  // The part of a quarter, to the nearest: then it may be negative.
  wide part = (wide)(t[0] << 2 | t[1] >> 62) << 64 | (t[1] << 2 | t[2] >> 62);
  uint64_t below = t[2] << 2;
  bool negative = part >> 127;
  if (negative) {
    a.quarters++;
    part = ~part;
    below = ~below;
  }

  // Without its leading zeros, of which there are at most 64 (the nearest double to a multiple of pi/2).
  int zeros = 0;
  for (; zeros < 64 && !(part >> 127); zeros++) {
    part = part << 1 | below >> 63;
    below <<= 1;
  }
  double scale = of_bits((uint64_t)(1023 - 53 - zeros) << 52), sign = negative ? -1 : 1;
  double high = sign * scale * (double)(uint64_t)(part >> 75);
  double low = sign * scale * 0x1p-53 * (double)((uint64_t)(part >> 22) & ((UINT64_C(1) << 53) - 1));

  pair p = product(high, half_pi.high);
  a.left = sum(p.high, p.low + (high * half_pi.low + low * half_pi.high));
  return a;
}

// x >= 0. Multiples of pi/2 in three parts, of which the first two have 33 bits (Cody and Waite).
static angle reduce(double x) {
  static const double two_by_pi = 0x1.45f306dc9c883p-1,
                      part[] = {0x1.921fb54400000p+0, 0x1.0b4611a600000p-34, 0x1.3198a2e037073p-69};
  if (x <= 0.78539816339744828) return (angle){.left = {x, 0}};
  if (x > 0x1p18) return reduce_large(x);

  double n = x * two_by_pi + SHIFTER - SHIFTER;
  double a = x - n * part[0], w = n * part[1], b = a - w, lost = (a - b - w) - n * part[2];
  return (angle){.left = sum(b, lost), .quarters = (int)n};
}

// ---- sine and cosine -----------------------------------------------------------------------------------------------

static double six(const double c[6], double z) {
  double z2 = z * z;
  return (c[0] + c[1] * z) + z2 * ((c[2] + c[3] * z) + z2 * (c[4] + c[5] * z));
}

static double sine(pair x) {
  double z = x.high * x.high;
  return x.high + (x.high * z * six(sine_terms, z) + x.low * (1 - 0.5 * z));
}

static double cosine(pair x) {
  double z = x.high * x.high, h = 0.5 * z;
  pair s = sum(1, -h);
  return s.high + (s.low + (z * z * six(cosine_terms, z) - x.high * x.low));
}

double pbSin(double x) {
  if (!(fabs(x) < INFINITY)) return x - x;
  if (fabs(x) < 0x1p-27) return x;

  angle a = reduce(fabs(x));
  double s = a.quarters & 1 ? cosine(a.left) : sine(a.left);
  return ((a.quarters & 2) != 0) != (x < 0) ? -s : s;
}

double pbCos(double x) {
  if (!(fabs(x) < INFINITY)) return x - x;

  angle a = reduce(fabs(x));
  double c = a.quarters & 1 ? sine(a.left) : cosine(a.left);
  return ((a.quarters + 1) & 2) != 0 ? -c : c;
}

void pbSinCos(double x, double *s, double *c) {
  if (!(0x1p-27 <= fabs(x) && fabs(x) < INFINITY)) {
    *s = pbSin(x);
    *c = pbCos(x);
    return;
  }

  angle a = reduce(fabs(x));
  double in = sine(a.left), out = cosine(a.left), first = a.quarters & 1 ? out : in, second = a.quarters & 1 ? in : out;
  *s = ((a.quarters & 2) != 0) != (x < 0) ? -first : first;
  *c = ((a.quarters + 1) & 2) != 0 ? -second : second;
}

// ---- inverses ------------------------------------------------------------------------------------------------------

// atan(y/x) for 0 <= y <= x, x > 0, in two parts: near j/64 by t = (y - x j/64) / (x + y j/64).
static pair small_angle(double y, double x) {
  double q = y / x;
  int j = (int)(q * 64 + 0.5);
  if (j < 4) {
    pair back = product(q, x);
    double rest = ((y - back.high) - back.low) / x, z = q * q;
    return (pair){q, q * z * six(arc_terms, z) + rest * (1 - z)};
  }

  double c = j * (1. / 64), h = head(x), t = ((y - c * h) - c * (x - h)) / (x + c * y), z = t * t;
  pair s = sum(angle_table[j][0], t);
  return (pair){s.high, s.low + (angle_table[j][1] + t * z * six(arc_terms, z))};
}

// The angle of the point (x, y), y >= 0, not both zero.
static double angle_of(double y, double x) {
  bool left = x < 0;
  x = fabs(x);

  // above the diagonal what is left of pi/2, to the left what is left of pi
  bool steep = y > x;
  pair a = steep ? small_angle(x, y) : small_angle(y, x);
  if (!steep && !left) return a.high + a.low;

  double turn = steep ? 1 : 2, sign = steep && left ? 1 : -1;
  pair s = sum(turn * half_pi.high, sign * a.high);
  return s.high + (s.low + (turn * half_pi.low + sign * a.low));
}

double pbAtan2(double y, double x) {
  if (isnan(x) || isnan(y)) return x + y;
  double up = fabs(y), size = fmax(up, fabs(x)), scale = 1;

  // infinite ones count alone, zeros keep their signs
  if (size == INFINITY) {
    x = isinf(x) ? copysign(1, x) : copysign(0, x);
    up = isinf(y) ? 1 : 0;
  }
  if (up == 0) return copysign(signbit(x) ? 2 * half_pi.high : 0, y);

  // products beyond the range
  if (size > 0x1p900) scale = 0x1p-200;
  else if (size < 0x1p-900) scale = 0x1p200;
  up *= scale;
  x *= scale;
  if (up < fabs(x) * 0x1p-80) return x > 0 ? y / (x / scale) : copysign(2 * half_pi.high, y);
  return copysign(angle_of(up, x), y);
}

// asin(x) - x, |x| <= 1/2.
static double arcsine_beyond(double x) {
  const double *c = arcsine_terms;
  double z = x * x, z6 = z * z * (z * z) * (z * z);
  return x * z * (six(c, z) + z6 * (six(c + 6, z) + z6 * (c[12] + c[13] * z)));
}

// asin(sqrt((1 - x) / 2)) in two parts, 1/2 <= x <= 1: half of acos(x).
static pair half_arccosine(double x) {
  double w = 0.5 - 0.5 * x, r = sqrt(w);
  pair back = product(r, r);
  double rest = r > 0 ? ((w - back.high) - back.low) / (2 * r) : 0;
  return sum(r, rest + arcsine_beyond(r));
}

double pbAsin(double x) {
  double size = fabs(x);
  if (!(size <= 1)) return NAN;
  if (size < 0.5) return x + arcsine_beyond(x);

  pair a = half_arccosine(size), s = sum(half_pi.high, -2 * a.high);
  return copysign(s.high + (s.low + (half_pi.low - 2 * a.low)), x);
}

double pbAcos(double x) {
  if (!(fabs(x) <= 1)) return NAN;
  if (fabs(x) < 0.5) {
    pair s = sum(half_pi.high, -x);
    return s.high + (s.low + (half_pi.low - arcsine_beyond(x)));
  }

  pair a = half_arccosine(fabs(x));
  if (x > 0) return 2 * a.high + 2 * a.low;
  pair s = sum(2 * half_pi.high, -2 * a.high);
  return s.high + (s.low + (2 * half_pi.low - 2 * a.low));
}
