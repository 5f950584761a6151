// How the extension was built; pullback/build.py says it.
// Tests: tests/python/test_build.py.
#include "core.h"

#ifndef PB_LIBRARIES
#define PB_LIBRARIES ""
#endif

static PyObject *kernels(void) {
  PyObject *list = PyList_New(0);
  for (int i = 0; list && pbBuild_Kernels(i); i++) {
    PyObject *one = PyUnicode_FromString(pbBuild_Kernels(i));
    if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

PyObject *pyBuild_Info(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  PyObject *list = kernels();
  if (!list) return NULL;
  return Py_BuildValue("{si ss sN sN sz ss}", "abi", pbAbi(), "compiler", pbBuild_Compiler(), "kernels", list, "hulls",
                       PyBool_FromLong(pbBuild_Hulls()), "viewer", pbBuild_Viewer(), "libraries", PB_LIBRARIES);
}
