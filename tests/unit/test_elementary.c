// The elementary functions beside the C library's for long double (64 bits of a number or more): errors below one unit in the
// last place over the whole range, special values as the C library has them, and the same bits in every build.
#include "elementary/elementary.h"
#include "elementary/hyperbolic.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <pullback/random.h>

#include "support/support.h"

enum { DRAWN = 20000 };

typedef double one(double);
typedef double two(double, double);
typedef long double one_long(long double);
typedef long double two_long(long double, long double);

static pbRng rng;

static double within(double low, double high) { return low + (high - low) * pbRng_Uniform(&rng); }
static double sized(double low, double high) {  // by exponents of two, of either sign
  double x = exp2(within(low, high));
  return pbRng_Uniform(&rng) < 0.5 ? -x : x;
}

// Units in the last place of the value.
static double error_of(double found, long double value) {
  if (found == (double)value) return (double)fabsl((long double)found - value) > 0 ? 0.5 : 0;

  int e;
  frexp((double)value, &e);
  double unit = fmax(ldexp(1, e - DBL_MANT_DIG), 0x1p-1074);
  return (double)(fabsl((long double)found - value) / unit);
}

static void see(const char *name, double x, double y, double found, long double value) {
  double error = error_of(found, value);
  if (!(error <= 0.95)) fail_msg("%s(%.17g, %.17g): %.17g is %.3f units off", name, x, y, found, error);
}

static void see_one(const char *name, one *ours, one_long *theirs, double x) { see(name, x, 0, ours(x), theirs(x)); }
static void see_two(const char *name, two *ours, two_long *theirs, double x, double y) {
  see(name, x, y, ours(x, y), theirs(x, y));
}

#define NEEDS_LONG_DOUBLE \
  if (LDBL_MANT_DIG < 64) skip()

static void test_exponential_and_logarithm(void **state) {
  (void)state;
  NEEDS_LONG_DOUBLE;
  rng = pbRng_Seed(1);
  for (int i = 0; i < DRAWN; i++) {
    see_one("exp", pbExp, expl, within(-745, 709.7));
    see_one("exp", pbExp, expl, sized(-60, 3));
    see_one("log", pbLog, logl, fabs(sized(-1074, 1023)));
    see_one("log", pbLog, logl, 1 + sized(-52, -1.1));
    see_one("log1p", pbLog1p, log1pl, sized(-60, -0.01));
    see_one("log1p", pbLog1p, log1pl, fabs(sized(-10, 1023)));
  }
}

static void test_power(void **state) {
  (void)state;
  NEEDS_LONG_DOUBLE;
  rng = pbRng_Seed(2);
  for (int i = 0; i < DRAWN; i++) {
    double x = fabs(sized(-40, 40)), near = 1 + sized(-50, -2);
    see_two("pow", pbPow, powl, x, within(-24, 24));
    see_two("pow", pbPow, powl, near, within(-1, 1) * 650 / log(near));
    see_two("pow", pbPow, powl, -x, round(within(-20, 20)));
    see_two("pow", pbPow, powl, fabs(sized(-1074, -1000)), within(-0.9, 0.9));
  }
}

static void test_angles(void **state) {
  (void)state;
  NEEDS_LONG_DOUBLE;
  rng = pbRng_Seed(3);
  for (int i = 0; i < DRAWN; i++) {
    // odd multiples of pi/4, where errors are largest, among them
    const double angle[] = {sized(-40, 1), sized(1, 20), sized(20, 1023), i * 1.5707963267948966,
                            i % 1000 * 1.5707963267948966 + within(0.7, 0.87)};
    for (int k = 0; k < 5; k++) {
      double sine, cosine;
      see_one("sin", pbSin, sinl, angle[k]);
      see_one("cos", pbCos, cosl, angle[k]);
      pbSinCos(angle[k], &sine, &cosine);
      assert_true(sine == pbSin(angle[k]) && cosine == pbCos(angle[k]));
    }

    const double leg[] = {within(-1, 1), sized(-40, 0), 1 - fabs(sized(-52, -1)), -1 + fabs(sized(-52, -1))};
    for (int k = 0; k < 4; k++) {
      see_one("asin", pbAsin, asinl, leg[k]);
      see_one("acos", pbAcos, acosl, leg[k]);
    }

    double y = sized(-1000, 1000);
    see_two("atan2", pbAtan2, atan2l, y, y * sized(-20, 20));
    see_two("atan2", pbAtan2, atan2l, sized(-1060, -1010), sized(-1060, -1010));
    see_two("atan2", pbAtan2, atan2l, sized(-3, 3), sized(-3, 3));
  }
}

static void test_length(void **state) {
  (void)state;
  NEEDS_LONG_DOUBLE;
  rng = pbRng_Seed(4);
  for (int i = 0; i < DRAWN; i++) {
    double x = sized(-1060, 1020);
    see_two("hypot", pbHypot, hypotl, x, x * sized(-3, 3) / 10);
    see_two("hypot", pbHypot, hypotl, sized(-3, 3), sized(-3, 3));
    see_two("hypot", pbHypot, hypotl, sized(-1074, -1000), sized(-1074, -1000));
  }
}

// Those that are made of others.
static void see_about(const char *name, one *ours, one_long *theirs, double x) {
  double error = error_of(ours(x), theirs(x));
  if (!(error <= 5)) fail_msg("%s(%.17g): %.17g is %.3f units off", name, x, ours(x), error);
}

static void test_hyperbolic(void **state) {
  (void)state;
  NEEDS_LONG_DOUBLE;
  rng = pbRng_Seed(6);
  for (int i = 0; i < DRAWN; i++) {
    const double x[] = {sized(-60, 9), within(-3, 3), within(-745, 709)};
    for (int k = 0; k < 3; k++) {
      see_about("expm1", pbExpm1, expm1l, x[k]);
      see_about("sinh", pbSinh, sinhl, x[k]);
      see_about("cosh", pbCosh, coshl, x[k]);
      see_about("tanh", pbTanh, tanhl, x[k]);
      see_about("asinh", pbAsinh, asinhl, x[k]);
    }

    see_about("asinh", pbAsinh, asinhl, sized(9, 1023));
    see_about("acosh", pbAcosh, acoshl, 1 + fabs(sized(-52, 1023)));
    see_about("atanh", pbAtanh, atanhl, sized(-60, 0));
    see_about("atanh", pbAtanh, atanhl, 1 - fabs(sized(-52, 0)));
  }
}

static void test_error_function(void **state) {
  (void)state;
  NEEDS_LONG_DOUBLE;
  rng = pbRng_Seed(7);
  for (int i = 0; i < DRAWN; i++) {
    see_about("erf", pbErf, erfl, sized(-60, 3));
    see_about("erfc", pbErfc, erfcl, within(-7, 7));
    see_about("erfc", pbErfc, erfcl, within(6, 26.5));
  }
}

// What cannot be said by an error: zeros with their sign, infinities, NaN.
static void same_within(const char *name, double x, double y, double found, double expected, double units) {
  bool same = found == expected && signbit(found) == signbit(expected);
  if (isnan(expected)) same = isnan(found);
  else if (expected != 0 && isfinite(expected)) same = error_of(found, expected) <= units;
  if (!same) fail_msg("%s(%g, %g): %.17g instead of %.17g", name, x, y, found, expected);
}

static void same_kind(const char *name, double x, double y, double found, double expected) {
  same_within(name, x, y, found, expected, 1.5);
}

static void test_special_values(void **state) {
  (void)state;
  static const double v[] = {0,
                             -0.,
                             INFINITY,
                             -INFINITY,
                             NAN,
                             1,
                             -1,
                             2,
                             -2,
                             0.5,
                             -0.5,
                             3,
                             -3,
                             1e308,
                             -1e308,
                             5e-324,
                             -5e-324,
                             0x1p-1022,
                             0x1p53,
                             0x1p65,
                             -0x1p65,
                             0x1p70,
                             -0x1p70,
                             1.5,
                             710,
                             -746,
                             0x1.fffffffffffffp-1,
                             0x1.0000000000001p0,
                             DBL_MAX};
  enum { COUNT = sizeof v / sizeof *v };
  static const struct {
    const char *name;
    one *ours, *theirs;
  } f[] = {{"exp", pbExp, exp}, {"log", pbLog, log},    {"log1p", pbLog1p, log1p}, {"sin", pbSin, sin},
           {"cos", pbCos, cos}, {"asin", pbAsin, asin}, {"acos", pbAcos, acos}},
    about[] = {{"expm1", pbExpm1, expm1}, {"sinh", pbSinh, sinh},    {"cosh", pbCosh, cosh},
               {"tanh", pbTanh, tanh},    {"asinh", pbAsinh, asinh}, {"acosh", pbAcosh, acosh},
               {"atanh", pbAtanh, atanh}, {"erf", pbErf, erf},       {"erfc", pbErfc, erfc}};
  static const struct {
    const char *name;
    two *ours, *theirs;
  } g[] = {{"pow", pbPow, pow}, {"atan2", pbAtan2, atan2}, {"hypot", pbHypot, hypot}};

  for (int i = 0; i < COUNT; i++) {
    for (size_t k = 0; k < sizeof f / sizeof *f; k++) same_kind(f[k].name, v[i], 0, f[k].ours(v[i]), f[k].theirs(v[i]));
    for (size_t k = 0; k < sizeof about / sizeof *about; k++)
      same_within(about[k].name, v[i], 0, about[k].ours(v[i]), about[k].theirs(v[i]), 6);
    for (int j = 0; j < COUNT; j++)
      for (size_t k = 0; k < sizeof g / sizeof *g; k++)
        same_kind(g[k].name, v[i], v[j], g[k].ours(v[i], v[j]), g[k].theirs(v[i], v[j]));
  }
}

// Any compiler, processor and C library gives this.
static void test_bits(void **state) {
  (void)state;
  uint64_t h = 14695981039346656037u;
  rng = pbRng_Seed(5);
  for (int i = 0; i < DRAWN; i++) {
    double x = within(-30, 30), y = within(-1, 1), z = within(0, 4), s, c;
    pbSinCos(x * 1e5 * z, &s, &c);
    const double found[] = {pbExp(x),  pbLog(z),      pbLog1p(z), pbPow(z, x), pbHypot(x, z),     pbSin(x), pbCos(x), pbAsin(y),
                            pbAcos(y), pbAtan2(x, y), s,          c,           pbRng_Normal(&rng)};
    for (size_t k = 0; k < sizeof found / sizeof *found; k++) {
      uint64_t b;
      memcpy(&b, &found[k], sizeof b);
      h = (h ^ b) * 1099511628211u;
    }
  }
  if (h != UINT64_C(0x8df04ac807ebd405)) fail_msg("other bits: 0x%016llx", (unsigned long long)h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_exponential_and_logarithm),
      cmocka_unit_test(test_power),
      cmocka_unit_test(test_angles),
      cmocka_unit_test(test_length),
      cmocka_unit_test(test_hyperbolic),
      cmocka_unit_test(test_error_function),
      cmocka_unit_test(test_special_values),
      cmocka_unit_test(test_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
