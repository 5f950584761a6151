// A pool of threads on POSIX threads, the library's only ones. Workers sleep on a condition, the caller works with them, tasks
// come from one counter.
//
// Memory. The pool and a Worker for each thread but the caller's, allocated once. There is no queue: one job is under way at a
// time, a function with a count of tasks, and it stands in the pool itself, written under the lock before the round begins. So a
// run allocates nothing and cannot fail; two threads that share a pool must take turns.
//
// Who does which task is left to chance: whoever is free takes the next. Results do not depend on it, since tasks write to places
// of their own, and sums over them are taken in a fixed tree by whoever asked (batch/sum.c). Every worker takes part in every
// round, if only to find that nothing is left: a count of those at work is then all that the end needs. A single task wakes
// nobody.
//
// A child of fork has none of its parent's threads, and locks as they happened to be: it is found out by the process number, and
// starts its own, or does the work alone. Signals go to the caller's threads. Tests: tests/unit/test_pool.c,
// tests/hostile/test_threads.c under the sanitizer for threads.
#include "base/pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/context.h"

typedef struct Worker {
  struct pbPool *pool;
  pthread_t thread;
  int index;  // 1 and up: 0 is the caller
} Worker;

struct pbPool {
  pbContext *ctx;
  int threads, started;  // workers started: threads - 1, or fewer where a child of fork could not have them
  pid_t process;         // in which they run
  Worker *worker;        // threads - 1

  pthread_mutex_t lock;  // of all down to `stop`
  pthread_cond_t wake, done;
  unsigned round;  // number of the job
  int working;     // workers that have not finished it
  bool stop;

  // The job: written before the round begins.
  pbPoolWork work;
  void *user;
  int tasks;
  atomic_int next;
  void (*wait)(void *user);  // while the caller waits, NULL: nothing
  void *wait_user;
};

enum { STACK = 8 << 20 };  // of a thread, in bytes

static void take_tasks(pbPool *p, int worker) {
  // Which thread gets which task is left to chance; what it does with it must not depend on that.
  for (;;) {
    int task = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
    if (task >= p->tasks) return;
    p->work(p->user, task, worker);
  }
}

static void *worker_main(void *argument) {
  const Worker *w = argument;
  pbPool *p = w->pool;
  unsigned seen = 0;  // rounds are counted from the start of the threads

  pthread_mutex_lock(&p->lock);
  for (;;) {
    while (!p->stop && p->round == seen) pthread_cond_wait(&p->wake, &p->lock);
    if (p->stop) break;
    seen = p->round;
    pthread_mutex_unlock(&p->lock);

    // Every worker takes part in every round, if only to find that nothing is left.
    take_tasks(p, w->index);

    pthread_mutex_lock(&p->lock);
    p->working--;
    if (p->working == 0) pthread_cond_signal(&p->done);
  }

  pthread_mutex_unlock(&p->lock);
  return NULL;
}

// Threads from `started` on; the reason where one cannot be had, else 0.
static int start_workers(pbPool *p) {
  // Signals go to the threads of the caller, who knows what to do with them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);

  // As large as those of the caller's threads are on Linux; musl gives 128 KiB, Darwin 512.
  pthread_attr_t roomy;
  int reason = pthread_attr_init(&roomy);
  if (!reason) reason = pthread_attr_setstacksize(&roomy, STACK);

  while (!reason && p->started < p->threads - 1) {
    Worker *w = &p->worker[p->started];
    *w = (Worker){.pool = p, .index = p->started + 1};
    reason = pthread_create(&w->thread, &roomy, worker_main, w);
    if (reason) break;
    p->started++;
  }

  pthread_attr_destroy(&roomy);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return reason;
}

// A condition that is waited for with a limit, whatever becomes of the time of day; and the processors that this process may run
// on, which can be fewer than the machine has (0: not told). Darwin has neither a clock of a condition nor such a set.
#ifdef __APPLE__
static void init_limited(pthread_cond_t *condition) { pthread_cond_init(condition, NULL); }

static int wait_limited(pthread_cond_t *condition, pthread_mutex_t *lock, long ns) {
  struct timespec most = {.tv_nsec = ns};
  return pthread_cond_timedwait_relative_np(condition, lock, &most);
}

static int allowed_processors(void) { return 0; }
#else
static void init_limited(pthread_cond_t *condition) {
  // Its clock is not set back.
  pthread_condattr_t steady;
  pthread_condattr_init(&steady);
  pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &steady);
  pthread_condattr_destroy(&steady);
}

static int wait_limited(pthread_cond_t *condition, pthread_mutex_t *lock, long ns) {
  // The end by the clock of the condition.
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += ns;

  if (until.tv_nsec >= 1000000000) {
    until.tv_nsec -= 1000000000;
    until.tv_sec++;
  }
  return pthread_cond_timedwait(condition, lock, &until);
}

static int allowed_processors(void) {
  // It fails where the machine has more processors than a set.
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}
#endif

// Locks as new, nobody at work: at first, and in a child of fork, which has none of its parent's threads.
static void begin_process(pbPool *p) {
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->wake, NULL);
  init_limited(&p->done);

  p->process = getpid();
  p->started = 0;
  p->round = 0;
  p->working = 0;
}

static int processors(void) {
  int allowed = allowed_processors();
  if (allowed) return allowed;

  long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? (int)count : 1;
}

pbStatus pbPool_Create(pbContext *ctx, int threads, pbPool **pool) {
  *pool = NULL;
  if (threads < 0 || threads > pb_mostThreads)
    return pbContext_Fail(ctx, pb_bad_argument, "expected 1 to %d threads (0: as many as processors), found %d", pb_mostThreads,
                          threads);
  if (threads == 0) threads = processors();

  pbPool *p = pbContext_Alloc(ctx, sizeof *p);
  Worker *worker = pbContext_AllocArray(ctx, (size_t)threads, sizeof *worker);
  if (!p || !worker) {
    pbContext_Free(ctx, p);
    pbContext_Free(ctx, worker);
    return pbContext_Fail(ctx, pb_no_memory, "no memory for a pool of %d threads", threads);
  }

  // Threads begin to sleep on what is set up here.
  p->ctx = ctx;
  p->threads = threads;
  p->worker = worker;
  begin_process(p);

  int reason = start_workers(p);
  if (reason) {
    pbStatus status =
        pbContext_Fail(ctx, pb_no_memory, "thread %d of %d cannot be started: %s", p->started + 2, threads, strerror(reason));
    pbPool_Destroy(p);
    return status;
  }

  *pool = p;
  return pb_ok;
}

void pbPool_Destroy(pbPool *p) {
  if (!p) return;

  // In a child of fork there is nobody to wait for, and its locks are as the fork found them.
  if (p->process == getpid()) {
    pthread_mutex_lock(&p->lock);
    PB_ASSERT(p->working == 0);
    p->stop = true;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);

    for (int i = 0; i < p->started; i++) pthread_join(p->worker[i].thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
  }

  pbContext_Free(p->ctx, p->worker);
  pbContext_Free(p->ctx, p);
}

int pbPool_Threads(const pbPool *p) { return p ? p->threads : 1; }

void pbPool_WhileWaiting(pbPool *p, void (*wait)(void *user), void *user) {
  if (!p) return;
  PB_ASSERT(p->working == 0);
  p->wait = wait;
  p->wait_user = user;
}

// Until all workers have come to their end, with the lock.
static void wait_for_workers(pbPool *p) {
  enum { interval = 20000000 };  // ns
  PB_ASSERT(p->working >= 0 && p->working <= p->started);

  while (p->working > 0) {
    if (!p->wait) {
      pthread_cond_wait(&p->done, &p->lock);
      continue;
    }

    if (wait_limited(&p->done, &p->lock, interval) != ETIMEDOUT) continue;
    pthread_mutex_unlock(&p->lock);
    p->wait(p->wait_user);
    pthread_mutex_lock(&p->lock);
  }
}

void pbPool_Run(pbPool *p, int tasks, pbPoolWork work, void *user) {
  PB_ASSERT(tasks >= 0 && work);

  // A single task wakes nobody.
  if (!p || p->threads == 1 || tasks <= 1) {
    for (int i = 0; i < tasks; i++) work(user, i, 0);
    return;
  }

  // Fewer threads than wanted do the same work.
  if (p->process != getpid()) {
    begin_process(p);
    (void)start_workers(p);
  }

  pthread_mutex_lock(&p->lock);
  PB_ASSERT(p->working == 0);
  p->work = work;
  p->user = user;
  p->tasks = tasks;
  atomic_store_explicit(&p->next, 0, memory_order_relaxed);
  p->working = p->started;
  p->round++;
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->lock);

  take_tasks(p, 0);

  // What workers wrote is seen behind the lock.
  pthread_mutex_lock(&p->lock);
  wait_for_workers(p);
  pthread_mutex_unlock(&p->lock);
}
