// The one way around const, which casts cannot take (-Wcast-qual): memory of ours that its owner frees or fills, known to others
// as const, and what a library reads without saying so. Never for what a caller has lent.
#ifndef PB_OWN_H
#define PB_OWN_H

#include <string.h>

static inline void *pb_own(const void *memory) {
  void *own;
  memcpy(&own, &memory, sizeof own);
  return own;
}

#endif
