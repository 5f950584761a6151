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
    if (!name || i == members) return PyErr_Format(PyExc_TypeError, "no array is called %R here", key);
  }
  return false;
}

static bool hold_members(PyObject *dict, int flags, int members, const pyMember *member, pyArray *array) {
  Py_ssize_t found = 0;
  if (!PyDict_Check(dict)) return PyErr_Format(PyExc_TypeError, "expected a dict of arrays");

  for (int i = 0; i < members; i++) {
    PyObject *object = PyDict_GetItemString(dict, member[i].name);
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

void pyArray_Release(pyArray *array, int count) {
  for (int i = 0; i < count; i++) {
    if (array[i].held) PyBuffer_Release(&array[i].view);
    array[i] = (pyArray){.held = false};
  }
}
