// An allocator that counts, fails where it is told to, and fills what it hands out and takes back with 0xff: NaN, read as
// doubles.
#ifndef PB_HOSTILE_H
#define PB_HOSTILE_H

#include <pullback/pullback.h>

#include <stdlib.h>
#include <string.h>

typedef struct Meter {
  long calls, live;      // allocations so far, blocks not yet given back
  long fail_at;          // the call that fails, counted from 1; 0: none
  bool fail_ever_after;  // and all that follow
  long failed;           // calls refused
} Meter;

enum { meter_head = 64 };  // bytes before each block: its size

static bool meter_refuses(Meter *meter) {
  meter->calls++;
  bool refuse = meter->fail_at && (meter->calls == meter->fail_at || (meter->fail_ever_after && meter->calls > meter->fail_at));
  meter->failed += refuse;
  return refuse;
}
static void *meter_alloc(void *user, size_t size) {
  Meter *meter = user;
  char *block = meter_refuses(meter) ? NULL : malloc(size + meter_head);
  if (!block) return NULL;
  meter->live++;
  memcpy(block, &size, sizeof size);
  return memset(block + meter_head, 0xff, size);
}
static void meter_release(void *user, void *memory) {
  char *block = (char *)memory - meter_head;
  size_t size;
  memcpy(&size, block, sizeof size);
  memset(block, 0xff, size + meter_head);
  free(block);
  ((Meter *)user)->live--;
}
static void *meter_resize(void *user, void *memory, size_t size) {  // always moves
  void *moved = meter_alloc(user, size);
  if (!moved || !memory) return moved;
  size_t old;
  memcpy(&old, (char *)memory - meter_head, sizeof old);
  memcpy(moved, memory, old < size ? old : size);
  meter_release(user, memory);
  return moved;
}
static inline pbAllocator meter_hooks(Meter *meter) { return (pbAllocator){meter_alloc, meter_resize, meter_release, meter}; }

#endif
