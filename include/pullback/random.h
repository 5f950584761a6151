// Pullback: random numbers that can be seeded and saved: xoshiro256** (Blackman & Vigna 2018), seeded by splitmix64; normal
// deviates by the polar method (Marsaglia & Bray 1964). The same seed gives the same numbers on every machine.
#ifndef PULLBACK_RANDOM_H
#define PULLBACK_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

#include <pullback/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PB_RNG_DOUBLES = 10 };  // a generator as numbers: pbRng_Save
typedef struct pbRng {
  uint64_t s[4];
  double spare;  // the second of a pair of normal deviates
  int has_spare;
} pbRng;

static inline pbRng pbRng_Seed(uint64_t seed) {
  pbRng rng;
  rng.spare = 0;
  rng.has_spare = 0;
  for (int i = 0; i < 4; i++) {
    uint64_t z = (seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    rng.s[i] = z ^ (z >> 31);
  }
  return rng;
}
static inline uint64_t pbRng_RotateLeft(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
static inline uint64_t pbRng_Next(pbRng *rng) {
  uint64_t *s = rng->s, result = pbRng_RotateLeft(s[1] * 5, 7) * 9, t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = pbRng_RotateLeft(s[3], 45);
  return result;
}
// In [0, 1): 53 bits times 2^-53.
static inline double pbRng_Uniform(pbRng *rng) { return (double)(pbRng_Next(rng) >> 11) * 1.1102230246251565e-16; }
// Of mean 0 and deviation 1, by Marsaglia's polar method.
PB_API double pbRng_Normal(pbRng *rng);
// The generator in and out of PB_RNG_DOUBLES numbers that any file keeps exactly.
static inline void pbRng_Save(const pbRng *rng, double *out) {
  for (int i = 0; i < 4; i++) {
    out[2 * i] = (double)(rng->s[i] >> 32);
    out[2 * i + 1] = (double)(rng->s[i] & 0xffffffffu);
  }
  out[8] = rng->spare;
  out[9] = rng->has_spare;
}
// Are these numbers of a generator? One whose state is all zeros gives zeros for ever.
static inline bool pbRng_Fits(const double *in) {
  bool any = false;
  for (int i = 0; i < 8; i++) {
    if (!(in[i] >= 0 && in[i] <= 4294967295.0)) return false;
    any = any || in[i] >= 1;
  }
  return any;
}
static inline pbRng pbRng_Load(const double *in) {
  pbRng rng;
  rng.spare = in[8];
  rng.has_spare = in[9] != 0;
  for (int i = 0; i < 4; i++) rng.s[i] = (uint64_t)in[2 * i] << 32 | (uint64_t)in[2 * i + 1];
  return rng;
}

#ifdef __cplusplus
}
#endif
#endif
