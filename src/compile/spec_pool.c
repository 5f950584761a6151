// Memory of a spec (spec_pool.h): a list of blocks, each filled from its start.
// Tests: tests/unit/test_compile.c, tests/oracle/test_compile.py.
#include "compile/spec_pool.h"

#include <string.h>

#include "base/assert.h"

enum { BLOCK_SIZE = 32 * 1024 };

struct pbSpecPoolBlock {
  pbSpecPoolBlock *next;
  size_t used, capacity;
  max_align_t data[];
};

static pbSpecPoolBlock *add_block(pbSpecPool *pool, size_t size) {
  size_t capacity = size > BLOCK_SIZE / 4 ? size : BLOCK_SIZE;
  pbSpecPoolBlock *block = pbContext_Alloc(pool->ctx, sizeof *block + capacity);
  if (!block) return NULL;
  block->capacity = capacity;

  // A large piece has a block of its own, behind the one that is being filled.
  if (pool->blocks && capacity != BLOCK_SIZE) {
    block->next = pool->blocks->next;
    pool->blocks->next = block;
  } else {
    block->next = pool->blocks;
    pool->blocks = block;
  }
  return block;
}

void *pbSpecPool_Take(pbSpecPool *pool, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) return NULL;

  // Rounded up to the alignment of any type; never zero, so that each piece has an address of its own.
  bytes = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
  if (!bytes) bytes = sizeof(max_align_t);

  pbSpecPoolBlock *block = pool->blocks;
  if (!block || block->capacity - block->used < bytes) block = add_block(pool, bytes);
  if (!block) return NULL;

  void *memory = (char *)block->data + block->used;
  block->used += bytes;
  PB_ASSERT(block->used <= block->capacity);
  return memory;
}

char *pbSpecPool_Text(pbSpecPool *pool, const char *text, size_t length) {
  char *copy = pbSpecPool_Take(pool, length + 1, 1);
  if (copy) memcpy(copy, text, length);
  return copy;
}

// Behind its own, so that the block which is being filled stays the first.
void pbSpecPool_Join(pbSpecPool *pool, pbSpecPool *other) {
  pbSpecPoolBlock **end = &pool->blocks;
  while (*end) end = &(*end)->next;
  *end = other->blocks;
  other->blocks = NULL;
}

void pbSpecPool_Clear(pbSpecPool *pool) {
  while (pool->blocks) {
    pbSpecPoolBlock *next = pool->blocks->next;
    pbContext_Free(pool->ctx, pool->blocks);
    pool->blocks = next;
  }
}
