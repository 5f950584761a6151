// An allocator that counts, fails where it is told to, and fills what it hands out and takes back with 0xff: NaN, read as
// doubles. What is resized always moves.
#ifndef PB_TEST_METER_H
#define PB_TEST_METER_H

#include <pullback/base.h>

typedef struct Meter {
  long calls, live;      // allocations so far, blocks not yet given back
  size_t bytes, most;    // in these blocks now, and at most so far
  long fail_at;          // the call that fails, counted from 1; 0: none
  bool fail_ever_after;  // and all that follow
  long failed;           // calls refused
} Meter;

pbAllocator meter_hooks(Meter *meter);

#endif
