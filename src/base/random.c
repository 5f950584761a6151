// Normal numbers, the same with every C library. Tests: tests/unit/test_base.c.
#include "pullback/random.h"

#include <math.h>

#include "elementary/elementary.h"

double pbRng_Normal(pbRng *rng) {
  if (rng->has_spare) {
    rng->has_spare = 0;
    return rng->spare;
  }

  // a point of the unit disc gives two of them
  double u, v, q;

  do {
    u = 2 * pbRng_Uniform(rng) - 1;
    v = 2 * pbRng_Uniform(rng) - 1;
    q = u * u + v * v;
  } while (q >= 1 || q == 0);

  double f = sqrt(-2 * pbLog(q) / q);
  rng->spare = v * f;
  rng->has_spare = 1;
  return u * f;
}
