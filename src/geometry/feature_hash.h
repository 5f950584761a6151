// Hashes of which features meet (pbPair_Feature), FNV-1a by ints.
#ifndef PB_FEATURE_HASH_H
#define PB_FEATURE_HASH_H

#include <stdbool.h>

static inline unsigned mix(unsigned hash, int value) { return (hash ^ (unsigned)value) * 16777619u; }  // FNV-1a by an int

// A set of corners, in any order; each counts once.
static inline int mix_corners(const int *id, int count, int stride) {
  unsigned sum = 0;
  for (int i = 0; i < count; i++) {
    bool fresh = true;
    for (int j = 0; j < i; j++) fresh = fresh && id[stride * j] != id[stride * i];
    if (fresh) sum += mix(2166136261u, id[stride * i] + 1);
  }
  return (int)sum;
}

#endif
