// Threads of calls from Python: pools by the number of threads, and how an interrupt reaches long calls.
// Tests: tests/python/test_threads.py, tests/python/test_processes.py.
#include "core.h"

enum { signals_every = 50000 };  // us

bool pyLock_Take(PyThread_type_lock lock) {
  PyLockStatus status = PyThread_acquire_lock_timed(lock, 0, 0);
  while (status != PY_LOCK_ACQUIRED) {
    if (PyErr_CheckSignals() != 0) return false;
    Py_BEGIN_ALLOW_THREADS;
    status = PyThread_acquire_lock_timed(lock, signals_every, 0);
    Py_END_ALLOW_THREADS;
  }
  return true;
}

static pyPool *all;  // guarded by the interpreter's lock

static pyPool *create(int threads) {
  pyPool *p = PyMem_Calloc(1, sizeof *p);
  if (!p) return (pyPool *)PyErr_NoMemory();
  p->threads = threads;
  p->lock = PyThread_allocate_lock();
  p->ctx = pbContext_Create(NULL);

  // Of one thread no pool is needed.
  pbStatus status = p->lock && p->ctx ? pb_ok : pb_no_memory;
  if (status == pb_ok && threads != 1) status = pbPool_Create(p->ctx, threads, &p->pool);
  if (status != pb_ok) {
    pyStatus_Raise(status, p->ctx ? pbContext_Error(p->ctx) : NULL);
    if (p->lock) PyThread_free_lock(p->lock);
    pbContext_Destroy(p->ctx);
    PyMem_Free(p);
    return NULL;
  }

  p->next = all;
  all = p;
  return p;
}

static bool is_mine(const pyPool *p) { return p->holder == PyThread_get_thread_ident(); }

pyPool *pyPool_Of(int threads) {
  pyPool *p = all;
  while (p && p->threads != threads) p = p->next;
  if (!p) return create(threads);
  return is_mine(p) ? pyPool_Of(1) : p;  // a progress function asks, whose own call keeps them busy
}

bool pyPool_Lock(pyPool *pool) {
  if (!pool->pool) return true;  // nothing that callers share
  if (is_mine(pool)) {
    pyStatus_Raise(pb_bad_argument, "its threads are at work for the call that this one comes from: wait until that returns");
    return false;
  }
  if (!pyLock_Take(pool->lock)) return false;
  pool->holder = PyThread_get_thread_ident();
  return true;
}

void pyPool_Unlock(pyPool *pool) {
  if (!pool->pool) return;
  pool->holder = 0;
  PyThread_release_lock(pool->lock);
}

// Locks of other threads are free; what forked in a progress function goes on to give its own back.
void pyPool_AfterFork(void) {
  for (pyPool *p = all; p; p = p->next) {
    PyThread_type_lock fresh = PyThread_allocate_lock();
    if (fresh) p->lock = fresh;
    if (is_mine(p)) PyThread_acquire_lock(p->lock, NOWAIT_LOCK);
    else p->holder = 0;
  }
}
