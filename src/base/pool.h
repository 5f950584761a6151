// A context whose memory is one block that is allocated beforehand: what is made and dropped within a step without a call of the
// allocator. Blocks are stacked; what is released is taken back once all above it is released too.
#ifndef PB_POOL_H
#define PB_POOL_H

#include <pullback/base.h>

typedef struct pbPool pbPool;

// `size` bytes from `parent`, which outlives the pool; they are not touched before they are used.
PB_NODISCARD pbStatus pbPool_Create(pbContext *parent, size_t size, pbPool **pool);
void pbPool_Destroy(pbPool *pool);  // NULL is fine
// What hands the memory out; NULL from it where the block is too small.
pbContext *pbPool_Context(pbPool *pool);
// Everything is taken back; nothing that was handed out may be used any more.
void pbPool_Reset(pbPool *pool);
// Bytes that the block has; and that would have been enough for the request that was refused last (0: none was).
size_t pbPool_Size(const pbPool *pool);
size_t pbPool_Wanted(const pbPool *pool);
// A block of at least `size` bytes, empty. On pb_no_memory the old one stays, with what is in it.
PB_NODISCARD pbStatus pbPool_Grow(pbPool *pool, size_t size);

#endif
