// Memory that lives until its owner goes: blocks that only grow, for strings and lists of a spec and for the tree a file is read
// into. Nothing is given back one by one.
#ifndef PB_SPEC_POOL_H
#define PB_SPEC_POOL_H

#include <pullback/base.h>

typedef struct pbSpecPoolBlock pbSpecPoolBlock;

typedef struct pbSpecPool {
  pbContext *ctx;
  pbSpecPoolBlock *blocks;  // the newest first
  int keys;                 // of a spec: the greatest key that an element of it has, or had
  bool source;              // of a spec: models keep what they were made from (pbSpec_KeepSource)
  bool borrow;              // of a spec: what is added to it lies in this pool already, no copies are needed
} pbSpecPool;

// count * size bytes, zeroed, aligned for any number or pointer; NULL when out of memory.
void *pbSpecPool_Take(pbSpecPool *pool, size_t count, size_t size);
// Copy of the first `length` bytes of a text, closed by zero.
char *pbSpecPool_Text(pbSpecPool *pool, const char *text, size_t length);
// What the second holds belongs to the first.
void pbSpecPool_Join(pbSpecPool *pool, pbSpecPool *other);
void pbSpecPool_Clear(pbSpecPool *pool);

#endif
