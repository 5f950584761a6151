// A pool of threads: every task once, whatever the number of threads; a child of fork; errors.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/pool.h"

enum { tasks = 1000 };
typedef struct Count {
  atomic_int times[tasks];
  atomic_int at_work[64];
  int threads;
  atomic_int wrong;
} Count;

static void count(void *user, int task, int worker) {
  Count *c = user;
  if (worker < 0 || worker >= c->threads) atomic_fetch_add(&c->wrong, 1);
  if (atomic_fetch_add(&c->at_work[worker], 1) != 0) atomic_fetch_add(&c->wrong, 1);
  atomic_fetch_add(&c->times[task], 1);
  atomic_fetch_sub(&c->at_work[worker], 1);
}

static int run_all(pbPool *pool, int n) {
  static Count c;
  memset(&c, 0, sizeof c);
  c.threads = pbPool_Threads(pool);
  pbPool_Run(pool, n, count, &c);
  int wrong = c.wrong;
  for (int i = 0; i < tasks; i++) wrong += c.times[i] != (i < n);
  return wrong;
}

static void test_every_task_once(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  assert_int_equal(run_all(NULL, tasks), 0);
  for (int threads = 1; threads <= 8; threads++) {
    pbPool *pool;
    assert_int_equal(pbPool_Create(ctx, threads, &pool), pb_ok);
    assert_int_equal(pbPool_Threads(pool), threads);
    for (int n = 0; n <= 20; n++) assert_int_equal(run_all(pool, n), 0);
    for (int k = 0; k < 50; k++) assert_int_equal(run_all(pool, tasks), 0);
    pbPool_Destroy(pool);
  }
  pbPool_Destroy(NULL);
  pbContext_Destroy(ctx);
}

static void test_a_child_of_fork_starts_anew(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  pbPool *pool;
  assert_int_equal(pbPool_Create(ctx, 3, &pool), pb_ok);
  assert_int_equal(run_all(pool, tasks), 0);

  for (int used = 0; used < 2; used++) {  // used, and destroyed unused
    pid_t child = fork();
    if (child == 0) {
      alarm(20);
      int wrong = used ? run_all(pool, tasks) + run_all(pool, 7) : 0;
      pbPool_Destroy(pool);
      _exit(wrong != 0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }

  assert_int_equal(run_all(pool, tasks), 0);
  pbPool_Destroy(pool);
  pbContext_Destroy(ctx);
}

static void test_numbers_of_threads(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  pbPool *pool;
  assert_int_equal(pbPool_Create(ctx, -1, &pool), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(ctx), "expected 1 to 1024 threads (0: as many as processors), found -1"));
  assert_int_equal(pbPool_Create(ctx, 1025, &pool), pb_bad_argument);
  assert_null(pool);
  assert_int_equal(pbPool_Create(ctx, 0, &pool), pb_ok);
  assert_true(pbPool_Threads(pool) >= 1);
  pbPool_Destroy(pool);
  pbContext_Destroy(ctx);
}

// Whoever waits for other threads is asked meanwhile; the second task ends where it has been, or after ten seconds.
typedef struct Wait {
  atomic_int waited, begun;
} Wait;

static void note_wait(void *user) { atomic_fetch_add(&((Wait *)user)->waited, 1); }

static void hold_up(void *user, int task, int worker) {
  Wait *w = user;
  (void)task;

  // The caller's own waits until another thread has one.
  atomic_fetch_add(&w->begun, worker != 0);
  const atomic_int *until = worker ? &w->waited : &w->begun;
  int left = 10000;
  while (*until == 0 && left > 0) {
    usleep(1000);
    left--;
  }
}

static void test_the_caller_is_asked_while_it_waits(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  pbPool *pool;
  Wait w = {0};
  assert_int_equal(pbPool_Create(ctx, 2, &pool), pb_ok);
  pbPool_WhileWaiting(pool, note_wait, &w);
  pbPool_Run(pool, 2, hold_up, &w);
  assert_true(w.begun == 1 && w.waited > 0);

  // No longer.
  int before = w.waited;
  pbPool_WhileWaiting(pool, NULL, NULL);
  assert_int_equal(run_all(pool, tasks), 0);
  assert_int_equal(w.waited, before);
  pbPool_WhileWaiting(NULL, note_wait, &w);
  pbPool_Destroy(pool);
  pbContext_Destroy(ctx);
}

// In a child, which may have no more memory for stacks: some threads start, one does not, and all of it is given back.
static void test_threads_that_cannot_be_had(void **state) {
  (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip();  // sanitizers map more than this limit leaves
#endif
  pid_t child = fork();
  if (child == 0) {
    pbContext *ctx = pbContext_Create(NULL);
    struct rlimit limit = {(rlim_t)256 << 20, (rlim_t)256 << 20};
    if (setrlimit(RLIMIT_AS, &limit)) _exit(0);  // not ours to set
    pbPool *pool = NULL;
    pbStatus status = pbPool_Create(ctx, pb_mostThreads, &pool);
    bool told = status == pb_no_memory && !pool && strstr(pbContext_Error(ctx), " of 1024 cannot be started: ");
    pbContext_Destroy(ctx);
    _exit(told ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_task_once),
      cmocka_unit_test(test_the_caller_is_asked_while_it_waits),
      cmocka_unit_test(test_a_child_of_fork_starts_anew),
      cmocka_unit_test(test_numbers_of_threads),
      cmocka_unit_test(test_threads_that_cannot_be_had),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
