// Sine, exponential, power and their kind beside the C library's: nanoseconds a call, and their ratio.   make bench-elementary
#include "elementary/elementary.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include <pullback/random.h>

enum { DRAWN = 4096, ROUNDS = 200, TRIES = 9 };

static double x[DRAWN], y[DRAWN];
static volatile double kept;

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double both(double angle) {
  double s, c;
  pbSinCos(angle, &s, &c);
  return s + c;
}

static double both_theirs(double angle) {
  double s, c;
  sincos(angle, &s, &c);
  return s + c;
}

static double time_one(double (*f)(double)) {
  double start = seconds(), sum = 0;
  for (int k = 0; k < ROUNDS; k++)
    for (int i = 0; i < DRAWN; i++) sum += f(x[i]);
  kept = sum;
  return (seconds() - start) * 1e9 / ROUNDS / DRAWN;
}

static double time_two(double (*f)(double, double)) {
  double start = seconds(), sum = 0;
  for (int k = 0; k < ROUNDS; k++)
    for (int i = 0; i < DRAWN; i++) sum += f(x[i], y[i]);
  kept = sum;
  return (seconds() - start) * 1e9 / ROUNDS / DRAWN;
}

int main(void) {
  static const struct {
    const char *name;
    double (*ours)(double), (*theirs)(double), (*ours_of_two)(double, double), (*theirs_of_two)(double, double), low, high;
  } f[] = {{"sin", pbSin, sin, NULL, NULL, -10, 10},         {"cos", pbCos, cos, NULL, NULL, -10, 10},
           {"sincos", both, both_theirs, NULL, NULL, -3, 3}, {"asin", pbAsin, asin, NULL, NULL, -1, 1},
           {"acos", pbAcos, acos, NULL, NULL, -1, 1},        {"exp", pbExp, exp, NULL, NULL, -10, 10},
           {"log", pbLog, log, NULL, NULL, 0.01, 20},        {"log1p", pbLog1p, log1p, NULL, NULL, 0, 1},
           {"atan2", NULL, NULL, pbAtan2, atan2, -1, 1},     {"hypot", NULL, NULL, pbHypot, hypot, -1, 1},
           {"pow", NULL, NULL, pbPow, pow, 0.01, 20}};

  printf("function,ns,C library ns,ratio\n");
  for (size_t k = 0; k < sizeof f / sizeof *f; k++) {
    pbRng rng = pbRng_Seed(k);
    for (int i = 0; i < DRAWN; i++) {
      x[i] = f[k].low + (f[k].high - f[k].low) * pbRng_Uniform(&rng);
      y[i] = 4 * pbRng_Uniform(&rng) - 2;
    }

    // the least of several, in turn
    double mine = INFINITY, theirs = INFINITY;
    for (int i = 0; i < TRIES; i++) {
      mine = fmin(mine, f[k].ours ? time_one(f[k].ours) : time_two(f[k].ours_of_two));
      theirs = fmin(theirs, f[k].theirs ? time_one(f[k].theirs) : time_two(f[k].theirs_of_two));
    }
    printf("%s,%.2f,%.2f,%.2f\n", f[k].name, mine, theirs, mine / theirs);
  }
  return 0;
}
