// A context over one block of memory: pieces follow each other like on a stack, each with a header that says where the one
// below begins. What is released under others is free when those are. Between steps the block may grow.
// Tests: tests/unit/test_base.c.
#include "base/reserve.h"

#include <string.h>

#include "base/arena.h"
#include "base/assert.h"

enum { head = PB_ARENA_ALIGN };  // bytes before each piece: its Piece
static const size_t nothing = (size_t)-1;

typedef struct Piece {
  size_t below, bytes;  // where the piece below begins (nothing: the first), and what this one holds
  bool released;
} Piece;

struct pbReserve {
  pbContext *parent, *ctx;
  char *block, *base;  // as it was allocated; aligned
  size_t size, used, top, wanted;
  bool open;  // the block serves requests; before and after, the parent does
};

static Piece *piece_at(const pbReserve *p, size_t at) { return (Piece *)(void *)(p->base + at); }

static void *take_piece(void *user, size_t size) {
  pbReserve *p = user;
  if (!p->open) return pbContext_Alloc(p->parent, size);

  // Sizes are checked so that none overflows; what was wanted says how large the block should be.
  size_t room = p->size - p->used, most = (size_t)-1 - 4 * head;
  size_t bytes = size < most ? (size + head - 1) / head * head : most;
  if (room < head || bytes > room - head) {
    p->wanted = p->used + bytes + head;
    return NULL;
  }

  *piece_at(p, p->used) = (Piece){.below = p->top, .bytes = size};
  p->top = p->used;
  p->used += head + bytes;

  PB_ASSERT(p->used <= p->size);
  return p->base + p->top + head;
}

static void release_piece(void *user, void *memory) {
  pbReserve *p = user;
  if (!p->open) {
    pbContext_Free(p->parent, memory);
    return;
  }

  // Released pieces at the top of the stack are free at once.
  Piece *piece = (Piece *)(void *)((char *)memory - head);
  PB_ASSERT(!piece->released);
  piece->released = true;
  while (p->top != nothing && piece_at(p, p->top)->released) {
    p->used = p->top;
    p->top = piece_at(p, p->top)->below;
  }
}

static void *resize_piece(void *user, void *memory, size_t size) {
  void *moved = take_piece(user, size);
  if (!moved || !memory) return moved;

  size_t old = ((Piece *)(void *)((char *)memory - head))->bytes;
  memcpy(moved, memory, old < size ? old : size);
  release_piece(user, memory);
  return moved;
}

pbStatus pbReserve_Create(pbContext *parent, size_t size, pbReserve **reserve) {
  *reserve = NULL;
  pbReserve *p = pbContext_Alloc(parent, sizeof *p);
  if (!p) return pb_no_memory;

  *p = (pbReserve){.parent = parent, .top = nothing};
  p->ctx = pbContext_Create(&(pbAllocator){take_piece, resize_piece, release_piece, p});
  pbStatus status = p->ctx ? pbReserve_Grow(p, size) : pb_no_memory;
  if (status != pb_ok) {
    pbReserve_Destroy(p);
    return status;
  }
  *reserve = p;
  return pb_ok;
}

void pbReserve_Destroy(pbReserve *p) {
  if (!p) return;
  p->open = false;
  pbContext_Destroy(p->ctx);
  pbContext_Free(p->parent, p->block);
  pbContext_Free(p->parent, p);
}

pbContext *pbReserve_Context(pbReserve *p) { return p->ctx; }

void pbReserve_Reset(pbReserve *p) {
  p->used = 0;
  p->top = nothing;
}

size_t pbReserve_Size(const pbReserve *p) { return p->size; }
size_t pbReserve_Wanted(const pbReserve *p) { return p->wanted; }

pbStatus pbReserve_Grow(pbReserve *p, size_t size) {
  size_t whole = size + head;
  char *block = whole > size ? pbContext_Resize(p->parent, NULL, whole) : NULL;  // not zeroed, so not touched
  if (!block) return pb_no_memory;

  // What was in the block is gone: pools grow between steps.
  pbContext_Free(p->parent, p->block);
  p->block = block;
  p->base = block + (-(uintptr_t)block & (head - 1));
  p->size = size;
  p->wanted = 0;
  p->open = true;
  PB_ASSERT((size_t)(p->base - block) + size <= whole);
  pbReserve_Reset(p);
  return pb_ok;
}
