// What the library describes, as objects of Python: dicts and lists from values of JSON, and arrays by name.
// Tests: tests/python/test_commands.py.
#include <string.h>

#include "core.h"

// ---- values of JSON -------------------------------------------------------------------------------------------------------
// The interpreter's lock is held from the outermost bracket to its end: what is in between only tells.
static void put(pyValues *v, const char *key, PyObject *value) {
  PyObject *to = v->depth ? v->open[v->depth - 1] : NULL;
  bool put = value && !v->failed && to;
  if (put && key) put = PyDict_SetItemString(to, key, value) == 0;
  else if (put) put = PyList_Append(to, value) == 0;
  v->failed = v->failed || !put;
  Py_XDECREF(value);
}

static void tell_open(void *user, const char *key, char bracket) {
  pyValues *v = user;
  if (!v->depth) v->gil = PyGILState_Ensure();
  PyObject *made = bracket == '{' ? PyDict_New() : PyList_New(0);
  if (!v->depth) v->root = made;
  else put(v, key, Py_XNewRef(made));
  v->open[v->depth++] = made;

  // whoever has it in it keeps it
  if (v->depth > 1) Py_XDECREF(made);
  v->failed = v->failed || !made;
}

static void tell_close(void *user) {
  pyValues *v = user;
  if (--v->depth) return;
  if (v->failed) PyErr_Clear();
  PyGILState_Release(v->gil);
}

static void tell_text(void *user, const char *key, const char *value) {
  put(user, key, PyUnicode_DecodeUTF8(value, (Py_ssize_t)strlen(value), "replace"));
}
static void tell_number(void *user, const char *key, double value) { put(user, key, PyFloat_FromDouble(value)); }
static void tell_integer(void *user, const char *key, int64_t value) { put(user, key, PyLong_FromLongLong(value)); }
static void tell_boolean(void *user, const char *key, bool value) { put(user, key, PyBool_FromLong(value)); }
static void tell_nothing(void *user, const char *key) { put(user, key, Py_NewRef(Py_None)); }

pbJson pyValues_Begin(pyValues *values) {
  static const pbJsonTold told = {.open = tell_open,
                                  .close = tell_close,
                                  .text = tell_text,
                                  .number = tell_number,
                                  .integer = tell_integer,
                                  .boolean = tell_boolean,
                                  .nothing = tell_nothing};
  *values = (pyValues){.depth = 0};
  return (pbJson){.told = &told, .user = values};
}

PyObject *pyValues_Take(pyValues *values) {
  PyObject *root = values->root;
  values->root = NULL;
  if (root && !values->failed) return root;
  Py_XDECREF(root);
  return PyErr_NoMemory();
}

// ---- arrays ---------------------------------------------------------------------------------------------------------------
// (kind, shape, memory): "d" and "i" with a bytearray, "U" with a text.
static PyObject *array_object(const pbArray *a) {
  if (a->type == pb_arrayText) return Py_BuildValue("s()s", "U", a->text);

  PyObject *shape = PyTuple_New(a->ndim);
  for (int i = 0; shape && i < a->ndim; i++) {
    PyObject *size = PyLong_FromSize_t(a->shape[i]);
    if (!size || PyTuple_SetItem(shape, i, size) != 0) Py_CLEAR(shape);
  }
  if (!shape) return NULL;
  bool real = a->type == pb_arrayReal;
  size_t bytes = a->count * (real ? sizeof *a->reals : sizeof *a->integers);
  PyObject *memory = pyMemory_Copy(real ? (const void *)a->reals : (const void *)a->integers, bytes);
  return Py_BuildValue("sNN", real ? "d" : "i", shape, memory);
}

PyObject *pyArrays_Dict(const pbArrays *set) {
  PyObject *dict = PyDict_New();
  for (size_t i = 0; dict && i < pbArrays_Count(set); i++) {
    const pbArray *a = pbArrays_At(set, i);
    PyObject *one = array_object(a);
    if (!one || PyDict_SetItemString(dict, a->name, one) != 0) Py_CLEAR(dict);
    Py_XDECREF(one);
  }
  return dict;
}

static bool add_array(PyObject *one, pbContext *ctx, pbArrays *set) {
  const char *name;
  PyObject *shape, *object;
  pyArray a;
  size_t sizes[PB_ARRAY_DIMS];
  Py_ssize_t count = 1;
  if (!PyArg_ParseTuple(one, "sO!O", &name, &PyTuple_Type, &shape, &object)) return false;

  int ndim = (int)PyTuple_Size(shape);
  for (int i = 0; i < ndim && i < PB_ARRAY_DIMS; i++) {
    sizes[i] = PyLong_AsSize_t(PyTuple_GetItem(shape, i));
    count *= (Py_ssize_t)sizes[i];
  }
  if (PyErr_Occurred() || ndim > PB_ARRAY_DIMS || !pyArray_Read(object, count, name, &a)) return false;
  pbStatus status = pbArrays_AddReals(set, name, ndim, sizes, a.data, NULL);
  pyArray_Release(&a, 1);
  if (status != pb_ok) pyStatus_Raise(status, pbContext_Error(ctx));
  return status == pb_ok;
}

bool pyArrays_Read(PyObject *list, pbContext *ctx, pbArrays **set) {
  pbStatus status = pbArrays_Create(ctx, set);
  if (status != pb_ok) {
    pyStatus_Raise(status, pbContext_Error(ctx));
    return false;
  }
  for (Py_ssize_t i = 0; i < PyList_Size(list); i++)
    if (!add_array(PyList_GetItem(list, i), ctx, *set)) return false;
  return true;
}

// (path): the arrays of an NPY, NPZ or CSV.
PyObject *pyRecording_Load(PyObject *module, PyObject *args) {
  (void)module;
  const char *path;
  pyJob job;
  pbArrays *set = NULL;
  if (!PyArg_ParseTuple(args, "s", &path) || !pyJob_Begin(&job, "recording", Py_None, Py_None)) return NULL;

  pbStatus status;
  Py_BEGIN_ALLOW_THREADS;
  status = pbArrays_Load(job.ctx, path, &set);
  Py_END_ALLOW_THREADS;
  PyObject *result = status == pb_ok ? pyArrays_Dict(set) : pyJob_Raise(&job, status);
  pbArrays_Destroy(set);
  pyJob_End(&job);
  return result;
}
