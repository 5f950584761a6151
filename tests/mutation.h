// For tests that must turn red for every pullback: in builds with PULLBACK_MUTATE (src/base/mutate.h) an entry of a list is
// emptied, then halved, and a test that listens counts what it would have failed at.
#ifndef PB_TEST_MUTATION_H
#define PB_TEST_MUTATION_H

#include <stdbool.h>

#include "base/mutate.h"

#ifdef PULLBACK_MUTATE
static long heard = -1;  // -1: nobody listens
#define LISTENS (heard >= 0)
#define FAIL(...)                         \
  do {                                    \
    if (heard < 0) fail_msg(__VA_ARGS__); \
    else heard++;                         \
  } while (0)

// Does `check`, which else says nothing, see it when the entry's pullback is empty, and when it is half?
static inline bool sees_mutation(pbMuteList list, int entry, const char *name, void (*check)(const void *), const void *of) {
  heard = 0;
  check(of);
  bool sees = heard == 0;
  for (int half = 0; half < 2; half++) {
    heard = 0;
    pb_mutation = (pbMutation){.list = list, .entry = entry, .name = name, .factor = 0.5 * half};
    check(of);
    pb_mutation = (pbMutation){.list = pb_muteNothing};
    sees = sees && heard > 0;
    heard = -1;
  }
  return sees;
}
#else
#define LISTENS   false
#define FAIL(...) fail_msg(__VA_ARGS__)
#endif

#endif
