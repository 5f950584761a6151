// Arrays of NumPy as memory, by the buffer protocol; shapes that are wrong are named.
// Tests: tests/python/test_contract.py.
#include "core.h"

#include <string.h>

static bool is_float64(const Py_buffer *view) {
  const char *format = view->format ? view->format : "B";
  if (*format == '@' || *format == '=' || *format == '<') format++;
  return view->itemsize == (Py_ssize_t)sizeof(double) && strcmp(format, "d") == 0;
}

static bool hold(PyObject *object, int flags, Py_ssize_t count, const char *name, pyArray *a) {
  *a = (pyArray){.held = false};
  if (PyObject_GetBuffer(object, &a->view, flags | PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) return false;
  a->held = true;
  a->data = a->view.buf;

  if (!is_float64(&a->view)) {
    PyErr_Format(PyExc_TypeError, "%s: expected contiguous float64, found format '%s'", name,
                 a->view.format ? a->view.format : "B");
    pyArray_Release(a, 1);
    return false;
  }
  if (a->view.len != count * (Py_ssize_t)sizeof(double)) {
    PyErr_Format(PyExc_ValueError, "%s: expected %zd numbers, found %zd", name, count, a->view.len / (Py_ssize_t)sizeof(double));
    pyArray_Release(a, 1);
    return false;
  }

  return true;
}

bool pyArray_Read(PyObject *object, Py_ssize_t count, const char *name, pyArray *a) {
  *a = (pyArray){.held = false};
  return object == Py_None || hold(object, PyBUF_SIMPLE, count, name, a);
}

bool pyArray_Write(PyObject *object, Py_ssize_t count, const char *name, pyArray *a) {
  *a = (pyArray){.held = false};
  return object == Py_None || hold(object, PyBUF_WRITABLE, count, name, a);
}

static bool raise_unknown(PyObject *dict, int members, const pyMember *member) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(dict, &at, &key, &value)) {
    const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : "";
    int i = 0;
    while (name && i < members && strcmp(name, member[i].name) != 0) i++;
    if (!name) return false;
    if (i == members) return PyErr_Format(PyExc_TypeError, "no array is called %R here", key);
  }
  return false;
}

// A member, NULL where there is none; false with an exception. (GetItemString takes want of memory for a member that is not there.)
static bool find(PyObject *dict, const char *name, PyObject **object) {
  PyObject *key = PyUnicode_FromString(name);
  *object = key ? PyDict_GetItemWithError(dict, key) : NULL;
  Py_XDECREF(key);
  return *object || !PyErr_Occurred();
}

static bool hold_members(PyObject *dict, int flags, int members, const pyMember *member, pyArray *array) {
  Py_ssize_t found = 0;
  if (!PyDict_Check(dict)) return PyErr_Format(PyExc_TypeError, "expected a dict of arrays");

  for (int i = 0; i < members; i++) {
    PyObject *object;
    if (!find(dict, member[i].name, &object)) return false;
    found += object != NULL;
    if (object && object != Py_None && !hold(object, flags, member[i].count, member[i].name, &array[i])) return false;
  }
  return found == PyDict_Size(dict) || raise_unknown(dict, members, member);
}

bool pyMembers_Read(PyObject *dict, int members, const pyMember *member, pyArray *array) {
  return hold_members(dict, PyBUF_SIMPLE, members, member, array);
}

bool pyMembers_Write(PyObject *dict, int members, const pyMember *member, pyArray *array) {
  return hold_members(dict, PyBUF_WRITABLE, members, member, array);
}

// Grown from nothing: the interpreter's own way to make one with content leaves a bad object behind where memory ends.
PyObject *pyMemory_Copy(const void *bytes, size_t size) {
  PyObject *memory = PyByteArray_FromStringAndSize(NULL, 0);
  if (memory && PyByteArray_Resize(memory, (Py_ssize_t)size) != 0) Py_CLEAR(memory);
  if (memory && size) memcpy(PyByteArray_AsString(memory), bytes, size);
  return memory;
}

void pyArray_Release(pyArray *array, int count) {
  for (int i = 0; i < count; i++) {
    if (array[i].held) PyBuffer_Release(&array[i].view);
    array[i] = (pyArray){.held = false};
  }
}
