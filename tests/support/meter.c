// The allocator of tests that look at memory (meter.h).
#include "support/meter.h"

#include <stdlib.h>
#include <string.h>

enum { head = 64 };  // bytes before each block: its size

static bool refuses(Meter *meter) {
  meter->calls++;
  bool refuse = meter->fail_at && (meter->calls == meter->fail_at || (meter->fail_ever_after && meter->calls > meter->fail_at));
  meter->failed += refuse;
  return refuse;
}

static void *meter_alloc(void *user, size_t size) {
  Meter *meter = user;
  char *block = refuses(meter) ? NULL : malloc(size + head);
  if (!block) return NULL;

  meter->live++;
  meter->bytes += size;
  if (meter->bytes > meter->most) meter->most = meter->bytes;
  memcpy(block, &size, sizeof size);
  return memset(block + head, 0xff, size);
}

static void meter_release(void *user, void *memory) {
  char *block = (char *)memory - head;
  size_t size;
  memcpy(&size, block, sizeof size);
  memset(block, 0xff, size + head);
  free(block);
  ((Meter *)user)->live--;
  ((Meter *)user)->bytes -= size;
}

static void *meter_resize(void *user, void *memory, size_t size) {
  void *moved = meter_alloc(user, size);
  if (!moved || !memory) return moved;

  size_t old;
  memcpy(&old, (char *)memory - head, sizeof old);
  memcpy(moved, memory, old < size ? old : size);
  meter_release(user, memory);
  return moved;
}

pbAllocator meter_hooks(Meter *meter) { return (pbAllocator){meter_alloc, meter_resize, meter_release, meter}; }
