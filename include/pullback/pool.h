// Pullback: threads that sleep until there is work. Whoever makes a pool owns it; batches and tasks borrow it.
//
//   pbPool *pool;      pbPool_Create(ctx, 8, &pool)      a NULL pool, wherever one is taken, is the caller's thread alone
//
// Results never depend on the number of threads: tasks are cut from the work alone, and sums run in an order of their own.
#ifndef PULLBACK_POOL_H
#define PULLBACK_POOL_H

#include <pullback/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pbPool pbPool;

enum { pb_mostThreads = 1024 };
// `threads` threads, the caller's among them, who works too: 1 to pb_mostThreads; 0: as many as processors that this process may
// run on. They are started here, with all signals blocked, and sleep between calls. A child of fork starts them anew at its first
// use. pb_bad_argument for other numbers; pb_no_memory, with the system's reason, where a thread cannot be had.
// One caller at a time, and none of its calls from within its work.
PB_API PB_NODISCARD pbStatus pbPool_Create(pbContext *ctx, int threads, pbPool **pool);
PB_API void pbPool_Destroy(pbPool *pool);       // NULL is fine; not while it works
PB_API int pbPool_Threads(const pbPool *pool);  // NULL: 1

#ifdef __cplusplus
}
#endif
#endif
