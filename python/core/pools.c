#include "core.h"

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

pyPool *pyPool_Of(int threads) {
  for (pyPool *p = all; p; p = p->next)
    if (p->threads == threads) return p;
  return create(threads);
}

void pyPool_Lock(pyPool *pool) {
  if (PyThread_acquire_lock(pool->lock, NOWAIT_LOCK)) return;
  Py_BEGIN_ALLOW_THREADS;
  PyThread_acquire_lock(pool->lock, WAIT_LOCK);
  Py_END_ALLOW_THREADS;
}

void pyPool_Unlock(pyPool *pool) { PyThread_release_lock(pool->lock); }

void pyPool_AfterFork(void) {
  for (pyPool *p = all; p; p = p->next) {
    PyThread_type_lock fresh = PyThread_allocate_lock();
    if (fresh) p->lock = fresh;
  }
}
