// A context whose memory is one block that is allocated beforehand: what is made and dropped within a step without a call of the
// allocator. Blocks are stacked; what is released is taken back once all above it is released too.
#ifndef PB_RESERVE_H
#define PB_RESERVE_H

#include <pullback/base.h>

typedef struct pbReserve pbReserve;

// `size` bytes from `parent`, which outlives the reserve; they are not touched before they are used.
PB_NODISCARD pbStatus pbReserve_Create(pbContext *parent, size_t size, pbReserve **reserve);
void pbReserve_Destroy(pbReserve *reserve);  // NULL is fine
// What hands the memory out; NULL from it where the block is too small.
pbContext *pbReserve_Context(pbReserve *reserve);
// Everything is taken back; nothing that was handed out may be used any more.
void pbReserve_Reset(pbReserve *reserve);
// Bytes that the block has; and that would have been enough for the request that was refused last (0: none was).
size_t pbReserve_Size(const pbReserve *reserve);
size_t pbReserve_Wanted(const pbReserve *reserve);
// A block of at least `size` bytes, empty. On pb_no_memory the old one stays, with what is in it.
PB_NODISCARD pbStatus pbReserve_Grow(pbReserve *reserve, size_t size);

#endif
