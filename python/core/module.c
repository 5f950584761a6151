// The module pullback._core.
#include "core.h"

static PyObject *after_fork(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  pyPool_AfterFork();
  Py_RETURN_NONE;
}

// Codes of status with their names and meanings, in order.
static PyObject *status_table(void) {
  static const char *const name[] = {
#define X(name, exit_code, text) #name,
      PB_STATUS_TABLE(X)
#undef X
  };
  PyObject *list = PyList_New(0);
  for (int i = 0; list && i < pb_status_count; i++) {
    PyObject *one = Py_BuildValue("ss", name[i], pbStatus_Text((pbStatus)i));
    if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

static bool add(PyObject *module, const char *name, PyObject *value) {
  bool added = value && PyModule_AddObjectRef(module, name, value) == 0;
  Py_XDECREF(value);
  return added;
}

static PyMethodDef methods[] = {{"after_fork", after_fork, METH_NOARGS, "In a child of fork: locks are free."},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", "Pullback's C library.", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError,
                    "pullback works in the main interpreter of a process only: use processes instead of subinterpreters");
    return NULL;
  }

  PyObject *module = PyModule_Create(&definition);
  if (!module) return NULL;
  bool all = pyModel_Register(module) && pyState_Register(module) && pyRun_Register(module) &&
             add(module, "version", PyUnicode_FromString(pbVersion())) && add(module, "statuses", status_table());
  if (!all) Py_CLEAR(module);
  return module;
}
