// Statuses of the library as exceptions of Python, with their texts.
// Tests: tests/python/test_contract.py.
#include "core.h"

PyObject *pyStatus_Raise(pbStatus status, const char *text) {
  if (PyErr_Occurred()) return NULL;

  PyObject *module = PyImport_ImportModule("pullback.errors");
  PyObject *error =
      module ? PyObject_CallMethod(module, "of_status", "is", (int)status, text && *text ? text : pbStatus_Text(status)) : NULL;
  if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);

  Py_XDECREF(error);
  Py_XDECREF(module);
  return NULL;
}

bool pyErr_NoObject(void) {
  PyObject *type = PyErr_Occurred();
  return type == PyExc_MemoryError;
}

void pyStatus_TellWorld(Py_ssize_t world) {
  PyObject *type, *error, *trace;
  if (pyErr_NoObject()) return;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);

  PyObject *number = PyLong_FromSsize_t(world);
  if (number && error && PyObject_HasAttrString(error, "world")) PyObject_SetAttrString(error, "world", number);
  Py_XDECREF(number);
  PyErr_Restore(type, error, trace);
}
