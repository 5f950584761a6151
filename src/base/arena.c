// A bump allocator that also measures: the same layout code first says how much it needs, then takes it. Sizes that overflow are
// no smaller ones: `failed` stays set, Needed is SIZE_MAX, and whoever allocates it has none.
// Tests: tests/unit/test_base.c.
#include "base/arena.h"

#include <stdint.h>

#include "base/assert.h"

pbArena pbArena_Measure(void) { return (pbArena){.capacity = SIZE_MAX - 2 * PB_ARENA_ALIGN}; }

pbArena pbArena_Over(void *memory, size_t size) {
  size_t slack = (size_t)(-(uintptr_t)memory & (PB_ARENA_ALIGN - 1));
  if (!memory || size < slack) return (pbArena){.base = memory};
  return (pbArena){.base = (char *)memory + slack, .capacity = size - slack};
}

void *pbArena_Take(pbArena *arena, size_t count, size_t size) {
  size_t start = arena->used;  // always a multiple of the alignment
  PB_ASSERT(start % PB_ARENA_ALIGN == 0 && start <= arena->peak);

  size_t room = arena->capacity > start ? arena->capacity - start : 0;
  // Checked by division, so that no product overflows.
  if (size && count > room / size) {
    arena->failed = true;
    return NULL;
  }

  size_t bytes = count * size;
  arena->used = start + (bytes + PB_ARENA_ALIGN - 1) / PB_ARENA_ALIGN * PB_ARENA_ALIGN;
  if (arena->used > arena->peak) arena->peak = arena->used;

  return arena->base ? arena->base + start : NULL;
}

size_t pbArena_Needed(const pbArena *arena) { return arena->failed ? SIZE_MAX : arena->peak + PB_ARENA_ALIGN; }

void *pbArena_Make(pbContext *ctx, void (*lay_out)(pbArena *arena, void *self), void *self) {
  pbArena a = pbArena_Measure();
  lay_out(&a, self);

  size_t size = pbArena_Needed(&a);
  void *memory = pbContext_Alloc(ctx, size);
  if (!memory) return NULL;
  a = pbArena_Over(memory, size);
  lay_out(&a, self);
  PB_ASSERT(!a.failed);
  return memory;
}

size_t pbArena_Mark(const pbArena *arena) { return arena->used; }

void pbArena_Release(pbArena *arena, size_t mark) {
  PB_ASSERT(mark <= arena->used);
  arena->used = mark;
  if (arena->base) arena->failed = false;  // a measurement that overflowed stays one
}
