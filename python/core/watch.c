// Arrays in which changes are noticed: those of MuJoCo's model, which the code of an environment may write into.
// Tests: tests/python/test_threads.py, tests/python/test_processes.py.
#include <string.h>

#include "core.h"

typedef struct Watch {
  PyObject_HEAD Py_ssize_t count;
  Py_buffer *view;
  unsigned char *seen;  // their bytes, one array after the other
} Watch;

static void watch_dealloc(PyObject *self) {
  Watch *w = (Watch *)self;
  for (Py_ssize_t i = 0; i < w->count; i++) PyBuffer_Release(&w->view[i]);
  PyMem_Free(w->view);
  PyMem_Free(w->seen);

  PyTypeObject *type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static void accept(Watch *w) {
  unsigned char *at = w->seen;
  for (Py_ssize_t i = 0; i < w->count; i++) {
    if (w->view[i].len) memcpy(at, w->view[i].buf, (size_t)w->view[i].len);
    at += w->view[i].len;
  }
}

// (arrays): a tuple of contiguous ones, of any type.
static PyObject *watch_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  (void)kwargs;
  PyObject *arrays;
  if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &arrays)) return NULL;
  Watch *w = (Watch *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!w) return NULL;

  Py_ssize_t count = PyTuple_Size(arrays), bytes = 1;
  w->view = PyMem_Calloc((size_t)count + 1, sizeof *w->view);
  bool right = w->view != NULL;
  if (!right) PyErr_NoMemory();
  for (Py_ssize_t i = 0; right && i < count; i++) {
    right = PyObject_GetBuffer(PyTuple_GetItem(arrays, i), &w->view[i], PyBUF_C_CONTIGUOUS) == 0;
    if (right) bytes += w->view[i].len;
    w->count += right;
  }

  if (right) w->seen = PyMem_Malloc((size_t)bytes);
  if (right && !w->seen) PyErr_NoMemory();
  if (w->seen) accept(w);
  else Py_CLEAR(w);
  return (PyObject *)w;
}

// Whether an array is no longer as it was accepted.
static PyObject *watch_changed(PyObject *self, PyObject *none) {
  (void)none;
  const Watch *w = (const Watch *)self;
  const unsigned char *at = w->seen;
  for (Py_ssize_t i = 0; i < w->count; i++) {
    if (w->view[i].len && memcmp(at, w->view[i].buf, (size_t)w->view[i].len) != 0) Py_RETURN_TRUE;
    at += w->view[i].len;
  }
  Py_RETURN_FALSE;
}

static PyObject *watch_accept(PyObject *self, PyObject *none) {
  (void)none;
  accept((Watch *)self);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"changed", watch_changed, METH_NOARGS, "Whether an array is no longer as it was accepted."},
                                {"accept", watch_accept, METH_NOARGS, "The arrays are right as they are now."},
                                {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, watch_new},
                              {Py_tp_dealloc, watch_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, (char *)"Arrays in which changes are noticed."},
                              {0, NULL}};
static PyType_Spec spec = {"pullback._core.Watch", sizeof(Watch), 0, Py_TPFLAGS_DEFAULT, slots};

bool pyWatch_Register(PyObject *module) {
  PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(&spec);
  return type && PyModule_AddType(module, type) == 0;
}
