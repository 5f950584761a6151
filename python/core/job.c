// Long work that Python is told of: progress, losses that Python computes, and what both raise. Everything of a call is in its job:
// any number of them work at once, on any threads, and functions that they call may begin others.
// Tests: tests/python/test_commands.py, tests/python/test_losses.py, tests/python/test_threads.py.
#include <string.h>
#include <time.h>

#include "core.h"

bool pyJob_Begin(pyJob *job, const char *what, PyObject *tell, PyObject *host) {
  *job = (pyJob){.what = what, .tell = tell == Py_None ? NULL : tell, .host = host == Py_None ? NULL : host};
  job->ctx = pbContext_Create(NULL);
  if (!job->ctx) pyStatus_Raise(pb_no_memory, NULL);
  return job->ctx != NULL;
}

void pyJob_End(pyJob *job) {
  for (int i = 0; i < 3; i++) Py_XDECREF(job->raised[i]);
  pbContext_Destroy(job->ctx);
}

pbStatus pyDraft_Save(pbDraft *draft, pbStatus status, const char *path) {
  pbContext *ctx = draft->ctx;
  char *text = NULL;
  size_t size = 0;
  if (status == pb_ok) status = pbDraft_End(draft, &text, &size);
  if (status == pb_ok) status = pbFile_Write(ctx, path, text, size);
  pbDraft_Drop(draft);
  pbContext_Free(ctx, text);
  return status;
}

// Whoever raised first is heard; the exception waits for the end of the work, on whatever thread it came up.
static void stop(pyJob *job) {
  if (job->raised[0]) PyErr_Clear();
  else PyErr_Fetch(&job->raised[0], &job->raised[1], &job->raised[2]);
  atomic_store(&job->stopped, true);
}

bool pyJob_Stopped(pyJob *job) {
  if (atomic_load(&job->stopped)) return true;
  PyGILState_STATE gil = PyGILState_Ensure();
  if (PyErr_CheckSignals() != 0) stop(job);
  PyGILState_Release(gil);
  return atomic_load(&job->stopped);
}

// Signals are looked for more often than anyone wants to hear of the same thing.
static bool is_news(pyJob *job, double done, const char *part) {
  static const double interval = 0.1;  // s
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  double now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
  bool same = done == job->done || (part && part == job->part);
  if (same && now - job->told < interval) return false;

  job->told = now;
  job->done = done;
  job->part = part;
  return true;
}

static int tell(pyJob *job, const char *what, double done, double all, const char *note, const char *part) {
  if (pyJob_Stopped(job) || !job->tell) return atomic_load(&job->stopped);

  PyGILState_STATE gil = PyGILState_Ensure();
  if (is_news(job, done, part)) {
    PyObject *answer = PyObject_CallFunction(job->tell, "sddz", what, done, all, note);
    if (!answer) stop(job);
    Py_XDECREF(answer);
  }
  PyGILState_Release(gil);
  return atomic_load(&job->stopped);
}

int pyJob_Tell(pyJob *job, const char *what, double done, double all, const char *note) {
  return tell(job, what, done, all, note, NULL);
}

int pyJob_Progress(void *user, const pbProgress *p) {
  pyJob *job = user;
  return pyJob_Tell(job, job->what, (double)p->done, (double)p->total, NULL);
}

int pyJob_Parts(void *user, const pbProgress *p) {
  pyJob *job = user;
  return tell(job, job->what, (double)p->done, (double)p->total, p->phase, p->phase);
}

PyObject *pyJob_Raise(pyJob *job, pbStatus status) {
  if (!job->raised[0]) return pyStatus_Raise(status, pbContext_Error(job->ctx));

  // of who stopped it
  PyErr_Restore(job->raised[0], job->raised[1], job->raised[2]);
  memset(job->raised, 0, sizeof job->raised);
  return NULL;
}

// ---- losses ---------------------------------------------------------------------------------------------------------------
// [(name, width, width of slopes, values as bytes), ...]: copies, which may outlive the call.
static PyObject *seen(const pbLossView *view) {
  PyObject *list = PyList_New(0);
  for (int i = 0; list && i < view->row_count; i++) {
    const pbLossRows *rows = &view->rows[i];
    Py_ssize_t bytes = (Py_ssize_t)view->count * rows->width * (Py_ssize_t)sizeof(double);
    PyObject *one = Py_BuildValue("siiy#", rows->name, rows->width, rows->bar_width, (const char *)rows->value, bytes);
    if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

static bool take_slopes(PyObject *list, const pbLossView *view) {
  for (int i = 0; i < view->row_count; i++) {
    const pbLossRows *rows = &view->rows[i];
    Py_ssize_t count = (Py_ssize_t)view->count * rows->bar_width;
    PyObject *one = PyList_GetItem(list, i);
    pyArray a;
    if (!one || !pyArray_Read(one, count, rows->name, &a)) return false;
    if (a.data && rows->bar) memcpy(rows->bar, a.data, (size_t)count * sizeof(double));
    pyArray_Release(&a, 1);
  }
  return true;
}

static bool call_host(PyObject *host, const pbLossView *view, double *value) {
  Py_ssize_t times = (Py_ssize_t)view->count * (Py_ssize_t)sizeof(double);
  PyObject *slopes = NULL, *rows = seen(view), *answer = NULL;
  if (rows)
    answer = PyObject_CallFunction(host, "siy#Oi", view->name, view->trajectory, (const char *)view->time, times, rows,
                                   view->row_count && view->rows[0].bar);
  Py_XDECREF(rows);

  bool right = answer && PyArg_ParseTuple(answer, "dO!", value, &PyList_Type, &slopes) && take_slopes(slopes, view);
  Py_XDECREF(answer);
  return right;
}

pbStatus pyJob_Loss(void *user, const pbLossView *view, double *value) {
  pyJob *job = user;
  PyGILState_STATE gil = PyGILState_Ensure();
  if (!atomic_load(&job->stopped) && !call_host(job->host, view, value)) stop(job);
  PyGILState_Release(gil);
  return atomic_load(&job->stopped) ? pb_interrupted : pb_ok;
}
