// Inside of the library: work for a pool of threads.
#ifndef PB_POOL_H
#define PB_POOL_H

#include <pullback/pool.h>

// Calls work(user, task, worker) for each task from 0 to tasks - 1 and returns when all have returned. Tasks are taken in
// ascending order, by whoever is free; `worker` is in 0 .. pbPool_Threads - 1, 0 is the calling thread, and no number is at work
// twice at one time. A NULL pool runs all here.
typedef void (*pbPoolWork)(void *user, int task, int worker);
void pbPool_Run(pbPool *pool, int tasks, pbPoolWork work, void *user);
// While the caller has no task left and others are at work, this is called some tens of times a second on its thread; NULL:
// nothing. As one caller at a time, so one function. NULL pool: never.
void pbPool_WhileWaiting(pbPool *pool, void (*wait)(void *user), void *user);

#endif
