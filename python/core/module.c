// The module pullback._core.
// Tests: tests/python/test_package.py.
#include "core.h"

#ifdef PB_WITHOUT_EXPAT
#include <expat.h>
#endif
#ifdef PB_WITHOUT_ZLIB
#include <zlib.h>
#endif

static PyObject *after_fork(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  pyPool_AfterFork();
  pyXla_AfterFork();
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

// Enumerators by name: Python has no numbers of its own for them.
static PyObject *constants(void) {
  static const struct {
    const char *name;
    int value;
  } table[] = {
#define X(name) {#name, name}
      X(pb_objBody),     X(pb_objJoint),      X(pb_objGeom),    X(pb_objSite),     X(pb_objPair),    X(pb_objEquality),
      X(pb_objTendon),   X(pb_objActuator),   X(pb_objSensor),  X(pb_objKeyframe), X(pb_objNumeric), X(pb_objCamera),
      X(pb_objLight),    X(pb_objExclude),    X(pb_objText),    X(pb_objTuple),    X(pb_objDof),     X(pb_objPoint),
      X(pb_objMesh),     X(pb_jntFree),       X(pb_jntBall),    X(pb_jntSlide),    X(pb_jntHinge),   X(pb_inertiaRefuse),
      X(pb_inertiaKeep), X(pb_inertiaRepair), X(pb_sharedCtrl), X(pb_sharedQfrc),  X(pb_sharedXfrc), X(pb_sharedCommand),
      X(pb_sharedMocap), X(pb_checkNone),     X(pb_checkSteps), X(pb_checkFull),   X(pb_byControl),  X(pb_byMocapPos),
      X(pb_byMocapRot),
#undef X
  };

  PyObject *dict = PyDict_New();
  for (size_t i = 0; dict && i < sizeof table / sizeof *table; i++) {
    PyObject *value = PyLong_FromLong(table[i].value);
    if (!value || PyDict_SetItemString(dict, table[i].name, value) != 0) Py_CLEAR(dict);
    Py_XDECREF(value);
  }
  return dict;
}

static bool add(PyObject *module, const char *name, PyObject *value) {
  bool added = value && PyModule_AddObjectRef(module, name, value) == 0;
  Py_XDECREF(value);
  return added;
}

static PyMethodDef methods[] = {{"energies", pyDescribe_Energies, METH_NOARGS, "The built-in energies of deformables."},
                                {"info", pyDescribe_Info, METH_VARARGS, "What a model holds."},
                                {"inspect", pyDescribe_Inspect, METH_VARARGS, "All fields, and all quantities of an evaluation."},
                                {"check", pyDescribe_Check, METH_VARARGS, "The check of a model's derivatives."},
                                {"page", pyDescribe_Page, METH_VARARGS, "A page or a moving scene of a model."},
                                {"optimize", pyTask_Optimize, METH_VARARGS, "A task's search."},
                                {"audit", pyTask_Audit, METH_VARARGS, "The audit of an answer."},
                                {"train", pyTask_Train, METH_VARARGS, "The training of a task's policy."},
                                {"evaluate", pyTask_Evaluate, METH_VARARGS, "What a policy does in episodes of its own."},
                                {"xla_targets", pyXla_Targets, METH_VARARGS, "Handlers for XLA's custom calls, or None."},
                                {"xla_close", pyXla_Close, METH_NOARGS, "No more custom calls; how many are going on."},
                                {"recording", pyRecording_Load, METH_VARARGS, "The arrays of a file of recorded data."},
                                {"spec_kinds", pySpec_Kinds, METH_NOARGS, "Kinds of elements of specs with their fields."},
                                {"build", pyBuild_Info, METH_NOARGS, "How the extension was built."},
                                {"after_fork", after_fork, METH_NOARGS, "In a child of fork: locks are free."},
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

  if (pbAbi() != PB_ABI)
    return PyErr_Format(PyExc_ImportError, "pullback: this extension was built for interface %d, and the library has %d", PB_ABI,
                        pbAbi());

#ifdef PB_WITHOUT_EXPAT
  if (!pyExpat_Start()) return NULL;
#endif
#ifdef PB_WITHOUT_ZLIB
  if (!pyZlib_Start()) return NULL;
#endif

  PyObject *module = PyModule_Create(&definition);
  if (!module) return NULL;
  bool all = pyModel_Register(module) && pyState_Register(module) && pyRun_Register(module) && pyEnergy_Register(module) &&
             pyMirror_Register(module) && pyWatch_Register(module) && pySingle_Register(module) && pySpec_Register(module) &&
             pyMpc_Register(module) && add(module, "version", PyUnicode_FromString(pbVersion())) &&
             add(module, "statuses", status_table()) && add(module, "constants", constants());
  if (!all) Py_CLEAR(module);
  return module;
}
