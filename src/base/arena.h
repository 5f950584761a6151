// One bump arena over memory that somebody else owns. Layouts are written once, as code that takes from an arena: run on a
// measuring arena it says how much is needed, run on a real one it hands the memory out. So sizes cannot drift apart.
//
//   static void layout(pbArena *a, thing *t, int n) { t->x = pbArena_Take(a, n, sizeof *t->x); ... }
//   pbArena a = pbArena_Measure();   layout(&a, &t, n);   memory = pbContext_Alloc(ctx, pbArena_Needed(&a));
//   a = pbArena_Over(memory, pbArena_Needed(&a));          layout(&a, &t, n);
//
// Layout code must not look into what it takes: while measuring it is NULL.
//
// Memory. One block for each owner: a scratch, a work of deformables, an analysis. Every piece begins on a cache line of its own,
// up to 63 bytes between two; Needed counts them, and one more line, since the block may begin anywhere. Mark and Release give
// back what was taken last, so that two layouts may share a room that is never used for both: `peak`, not the sum, is what is
// needed. Pieces are not zeroed, and no piece is ever given back alone or made larger.
//
// Why the same code twice, and no table of sizes: sizes follow from a model in a hundred ways, and a size that is computed in one
// place and used in another is a memory error that waits for a model. Why one block, and no allocation for each array: steps may
// then allocate nothing at all (tests/hostile/test_failing_allocator.c). What grew with the steps, such as lists of close pairs
// and matrices of contacts, was allocated on the way at first; it has capacities and reserves now (base/reserve.h).
#ifndef PB_ARENA_H
#define PB_ARENA_H

#include <pullback/base.h>

enum { PB_ARENA_ALIGN = 64 };  // every piece starts on a cache line, wide enough for any vector instruction

typedef struct pbArena {
  char *base;       // NULL: only measures
  size_t capacity;  // bytes behind base
  size_t used, peak;
  bool failed;  // a piece did not fit, or a size overflowed; stays set until pbArena_Release (when measuring: for good)
} pbArena;

pbArena pbArena_Measure(void);
// Memory need not be aligned; `size` counts from it (what pbArena_Needed said always suffices).
pbArena pbArena_Over(void *memory, size_t size);

// count * size bytes, not zeroed. NULL while measuring, and with `failed` set where it does not fit.
void *pbArena_Take(pbArena *arena, size_t count, size_t size);

// Bytes that hold the most that was taken at one time, slack for alignment included; SIZE_MAX after an overflow.
size_t pbArena_Needed(const pbArena *arena);

// Memory of a context for all that `lay_out` takes, which is called twice: to measure, and with the memory. NULL when out of
// memory.
void *pbArena_Make(pbContext *ctx, void (*lay_out)(pbArena *arena, void *self), void *self);

// Everything taken since the mark is given back.
size_t pbArena_Mark(const pbArena *arena);
void pbArena_Release(pbArena *arena, size_t mark);

#endif
