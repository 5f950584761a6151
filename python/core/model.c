// Models: compiled ones with the scratches that belong to them, and compiled ones with parameters.
// Tests: tests/python/test_load.py, tests/python/test_contract.py.
#include <string.h>

#include "core.h"

PyTypeObject *pyCompiled_Type, *pyModel_Type;

static PyObject *fail(const pyCompiled *c, pbStatus status) { return pyStatus_Raise(status, pbContext_Error(c->ctx)); }

// ---- scratches --------------------------------------------------------------------------------------------------------
static void destroy_work(pyWork *work) {
  pbScratch_Destroy(work->scratch);
  pbContext_Destroy(work->ctx);
  PyMem_Free(work);
}

pyWork *pyCompiled_Take(pyCompiled *c) {
  pyWork *work = c->idle;
  if (work) {
    c->idle = work->next;
    return work;
  }

  work = PyMem_Calloc(1, sizeof *work);
  if (!work) return (pyWork *)PyErr_NoMemory();
  work->ctx = pbContext_Create(NULL);
  pbStatus status = work->ctx ? pbScratch_Create(work->ctx, c->model, NULL, &work->scratch) : pb_no_memory;
  if (status == pb_ok) return work;

  pyStatus_Raise(status, work->ctx ? pbContext_Error(work->ctx) : NULL);
  destroy_work(work);
  return NULL;
}

void pyCompiled_Give(pyCompiled *c, pyWork *work) {
  work->next = c->idle;
  c->idle = work;
}

// ---- compiled: from files and texts -----------------------------------------------------------------------------------------
static void read_sizes(pyCompiled *c) {
  const pbModel *m = c->model;
  c->nx = pbModel_StateSize(m);
  c->n = pbModel_TangentSize(m);
  c->nu = pbModel_Size(m, "nu");
  c->nv = pbModel_Size(m, "nv");
  c->na = pbModel_Size(m, "na");
  c->nbody = pbModel_Size(m, "nbody");
  c->nsite = pbModel_Size(m, "nsite");
  c->nsensordata = pbModel_Size(m, "nsensordata");
  c->nmocap = pbModel_Size(m, "nmocap");
  c->ntheta = (Py_ssize_t)pbModel_ParamSize(m);

  pbPolicyInfo policy;
  c->commands = pbModel_PolicyInfo(m, &policy) ? policy.commands : 0;
}

// Options or contact settings by name; names and values are texts.
static pbStatus set_all(pbModel *model, PyObject *pairs, pbStatus (*set)(pbModel *, const char *, const char *)) {
  PyObject *name, *value;
  Py_ssize_t at = 0;

  while (PyDict_Next(pairs, &at, &name, &value)) {
    const char *n = PyUnicode_AsUTF8AndSize(name, NULL), *v = PyUnicode_AsUTF8AndSize(value, NULL);
    if (!n || !v) return pb_bad_argument;
    PB_TRY(set(model, n, v));
  }
  return pb_ok;
}

static void compiled_dealloc(PyObject *self) {
  pyCompiled *c = (pyCompiled *)self;
  while (c->idle) {
    pyWork *work = c->idle;
    c->idle = work->next;
    destroy_work(work);
  }
  pyTape_DestroyAll(c);
  pbModel_Destroy(c->model);
  pbContext_Destroy(c->ctx);

  PyTypeObject *type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static pyCompiled *empty(PyTypeObject *type) {
  pyCompiled *c = (pyCompiled *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (c) c->ctx = pbContext_Create(NULL);
  if (c && !c->ctx) {
    PyErr_NoMemory();
    Py_CLEAR(c);
  }
  return c;
}

// What a model gets beside its file: deformables, parameters on request, a policy (whose parameters come last).
static pbStatus add_parts(pbModel *model, pbContext *ctx, const pbLoadOptions *load, const char *deformables, PyObject *expose,
                          const char *policy) {
  if (deformables) {
    pbDeformable *d;
    PB_TRY(pbDeformable_Load(ctx, model, deformables, load, &d));
    pbStatus status = pbModel_SetDeformable(model, d);
    pbDeformable_Destroy(d);
    PB_TRY(status);
  }

  for (Py_ssize_t i = 0; i < PyTuple_Size(expose); i++) {
    const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(expose, i), NULL);
    if (!name) return pb_bad_argument;
    PB_TRY(pbModel_Expose(model, name));
  }
  return policy ? pbPolicy_Load(model, policy, load) : pb_ok;
}

// From a spec of the context, which is dropped, from a text, or from a file.
static pbStatus load_model(pbContext *ctx, pbSpec *spec, const char *name, const char *text, Py_ssize_t length,
                           const pbLoadOptions *load, pbModel **model) {
  if (!text && !spec) return pbModel_LoadWhole(ctx, name, load, model);

  pbStatus status = spec ? pb_ok : pbSpec_Parse(ctx, text, (size_t)length, name, load, &spec);
  if (status == pb_ok) pbSpec_KeepSource(spec);
  if (status == pb_ok) status = pbSpec_Compile(spec, model);
  pbSpec_Destroy(spec);
  return status;
}

static PyObject *compiled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static const char *const words[] = {
      "path",   "text",    "allow_root",  "package_path", "floating_base", "fuse",    "motors", "inertia", "skip_missing",
      "design", "options", "deformables", "expose",       "policy",        "contact", "spec",   NULL};
  PyObject *path = NULL, *options, *contact, *expose, *given = NULL;
  const char *text, *allow_root, *package_path, *deformables, *policy;
  Py_ssize_t length;
  int floating, fuse, motors, inertia, skip_missing, design;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&z#zzpppippO!zO!zO!|O", (char **)words, PyUnicode_FSConverter, &path, &text,
                                   &length, &allow_root, &package_path, &floating, &fuse, &motors, &inertia, &skip_missing,
                                   &design, &PyDict_Type, &options, &deformables, &PyTuple_Type, &expose, &policy, &PyDict_Type,
                                   &contact, &given))
    return NULL;

  pyCompiled *c = empty(type);
  if (!c) goto done;

  // It may be edited while the copy is compiled.
  pbSpec *spec = NULL;
  bool edited = given && PyObject_TypeCheck(given, pySpec_Type);
  pbStatus status = edited ? pbSpec_Copy(c->ctx, ((pySpec *)given)->spec, &spec) : pb_ok;

  const pbLoadOptions load = {.allow_root = allow_root,
                              .design = design,
                              .urdf = {.package_path = package_path,
                                       .floating_base = floating,
                                       .fuse = fuse,
                                       .motors = motors,
                                       .missing_meshes = skip_missing ? pb_missingSkip : pb_missingRefuse,
                                       .inertia = (pbInertiaRule)inertia}};
  if (status == pb_ok) {
    Py_BEGIN_ALLOW_THREADS;
    status = load_model(c->ctx, spec, PyBytes_AsString(path), text, length, &load, &c->model);
    Py_END_ALLOW_THREADS;
  }

  if (status == pb_ok) status = add_parts(c->model, c->ctx, &load, deformables, expose, policy);
  if (status == pb_ok) status = set_all(c->model, options, pbModel_SetOption);
  if (status == pb_ok) status = set_all(c->model, contact, pbModel_SetContact);
  if (status == pb_ok) status = pbModel_Check(c->ctx, c->model);
  if (status == pb_ok) read_sizes(c);
  else {
    fail(c, status);
    Py_CLEAR(c);
  }

done:
  Py_XDECREF(path);
  return (PyObject *)c;
}

// ---- to bytes and back ------------------------------------------------------------------------------------------------------
static PyObject *compiled_pack(PyObject *self, PyObject *none) {
  (void)none;
  const pyCompiled *c = (const pyCompiled *)self;
  void *bytes;
  size_t size;
  pbStatus status = pbModel_Pack(c->ctx, c->model, &bytes, &size);
  if (status != pb_ok) return fail(c, status);

  PyObject *result = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size);
  pbContext_Free(c->ctx, bytes);
  return result;
}

static PyObject *compiled_unpack(PyObject *type, PyObject *object) {
  char *bytes;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(object, &bytes, &size) != 0) return NULL;
  pyCompiled *c = empty((PyTypeObject *)type);
  if (!c) return NULL;

  pbStatus status = pbModel_Unpack(c->ctx, bytes, (size_t)size, &c->model);
  if (status == pb_ok) read_sizes(c);
  else {
    fail(c, status);
    Py_CLEAR(c);
  }
  return (PyObject *)c;
}

// ---- what it is -----------------------------------------------------------------------------------------------------------
static PyObject *compiled_size(PyObject *self, PyObject *name) {
  const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
  return text ? PyLong_FromLong(pbModel_Size(((pyCompiled *)self)->model, text)) : NULL;
}

static PyObject *compiled_warnings(PyObject *self, PyObject *none) {
  (void)none;
  return PyUnicode_FromString(pbContext_Warnings(((pyCompiled *)self)->ctx));
}

// [(name, value as text), ...] of all that a function tells one by one.
typedef bool setting_at(const pbModel *model, int index, const char **name, char *text, size_t size);

static PyObject *settings(const pyCompiled *c, setting_at *at) {
  PyObject *list = PyList_New(0);
  const char *name;
  char text[4096];
  for (int i = 0; list && at(c->model, i, &name, text, sizeof text); i++) {
    PyObject *one = Py_BuildValue("ss", name, text);
    if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

static PyObject *compiled_options(PyObject *self, PyObject *none) {
  (void)none;
  return settings((pyCompiled *)self, pbModel_OptionAt);
}

static PyObject *compiled_contact(PyObject *self, PyObject *none) {
  (void)none;
  return settings((pyCompiled *)self, pbModel_ContactSettingAt);
}

static PyObject *describe_param(const pbParam *p) {
  return Py_BuildValue("sssiiniddOOO", p->name, p->unit, p->meaning, p->rows, p->cols, (Py_ssize_t)p->offset, (int)p->rows_are,
                       p->lower, p->upper, p->derived ? Py_True : Py_False, p->fixed ? Py_True : Py_False,
                       p->option ? Py_True : Py_False);
}

// All slices of theta, or the one of a name.
static PyObject *compiled_params(PyObject *self, PyObject *none) {
  (void)none;
  const pbModel *m = ((pyCompiled *)self)->model;
  PyObject *list = PyList_New(0);

  for (int i = 0; list && i < pbModel_ParamCount(m); i++) {
    pbParam p = pbModel_ParamAt(m, i);
    PyObject *one = describe_param(&p);
    if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

static PyObject *compiled_param(PyObject *self, PyObject *name) {
  pyCompiled *c = (pyCompiled *)self;
  const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
  pbParam p;
  if (!text) return NULL;
  pbStatus status = pbModel_Param(c->ctx, c->model, text, &p);
  return status == pb_ok ? describe_param(&p) : fail(c, status);
}

static PyObject *compiled_theta(PyObject *self, PyObject *none) {
  (void)none;
  pyCompiled *c = (pyCompiled *)self;
  return PyBytes_FromStringAndSize((const char *)pbModel_DefaultParams(c->model), c->ntheta * (Py_ssize_t)sizeof(double));
}

// (theta): masses of deformables' points as bytes.
static PyObject *compiled_point_masses(PyObject *self, PyObject *object) {
  pyCompiled *c = (pyCompiled *)self;
  Py_ssize_t size = pbModel_Size(c->model, "npoint") * (Py_ssize_t)sizeof(double);
  pyArray theta;
  if (!pyArray_Read(object, c->ntheta, "parameters", &theta)) return NULL;

  PyObject *mass = PyBytes_FromStringAndSize(NULL, size);
  if (mass) memset(PyBytes_AsString(mass), 0, (size_t)size);
  pbStatus status = pb_ok;
  if (mass) status = pbModel_PointMasses(c->ctx, c->model, theta.data, (double *)PyBytes_AsString(mass));
  pyArray_Release(&theta, 1);
  if (status == pb_ok) return mass;
  Py_DECREF(mass);
  return fail(c, status);
}

static PyObject *compiled_state_fields(PyObject *self, PyObject *none) {
  (void)none;
  const pbModel *m = ((pyCompiled *)self)->model;
  PyObject *list = PyList_New(0);

  for (int i = 0; list && i < pbModel_StateFieldCount(m); i++) {
    pbStateField f = pbModel_StateFieldAt(m, i);
    PyObject *one = Py_BuildValue("sii", f.name, f.offset, f.size);
    if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

// Every compiled field: name, rows, columns, "i" or "d", bytes.
static PyObject *compiled_fields(PyObject *self, PyObject *none) {
  (void)none;
  const pbModel *m = ((pyCompiled *)self)->model;
  PyObject *list = PyList_New(0);
  pbField f;

  for (int i = 0; list && pbModel_FieldAt(m, i, &f); i++) {
    Py_ssize_t numbers = (Py_ssize_t)f.rows * f.cols, size = f.integers ? (Py_ssize_t)sizeof(int) : (Py_ssize_t)sizeof(double);
    const void *data = f.integers ? (const void *)f.integers : (const void *)f.reals;
    PyObject *one = Py_BuildValue("siisy#", f.name, f.rows, f.cols, f.integers ? "i" : "d", data ? data : "", numbers * size);
    if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

static PyObject *compiled_name(PyObject *self, PyObject *args) {
  int kind, id;
  if (!PyArg_ParseTuple(args, "ii", &kind, &id)) return NULL;
  const char *name = pbModel_Name(((pyCompiled *)self)->model, (pbObject)kind, id);
  if (!name) Py_RETURN_NONE;
  return PyUnicode_FromString(name);
}

static PyObject *compiled_id(PyObject *self, PyObject *args) {
  int kind;
  const char *name;
  if (!PyArg_ParseTuple(args, "is", &kind, &name)) return NULL;
  return PyLong_FromLong(pbModel_Id(((pyCompiled *)self)->model, (pbObject)kind, name));
}

static PyObject *compiled_entry_names(PyObject *self, PyObject *tangent) {
  pyCompiled *c = (pyCompiled *)self;
  bool of_tangent = PyObject_IsTrue(tangent);
  PyObject *list = PyList_New(0);
  char text[200];

  for (int i = 0; list && i < (of_tangent ? c->n : c->nx); i++) {
    (of_tangent ? pbState_TangentName : pbState_EntryName)(c->model, i, text, sizeof text);
    PyObject *one = PyUnicode_FromString(text);
    if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

// ---- parameters -----------------------------------------------------------------------------------------------------------
static PyObject *compiled_check_params(PyObject *self, PyObject *object) {
  pyCompiled *c = (pyCompiled *)self;
  pyArray theta;
  if (!pyArray_Read(object, c->ntheta, "parameters", &theta)) return NULL;
  pbStatus status = theta.data ? pbModel_CheckParams(c->ctx, c->model, theta.data) : pb_bad_argument;
  pyArray_Release(&theta, 1);
  if (status != pb_ok) return fail(c, status);
  Py_RETURN_NONE;
}

// (path, theta): the file is written; lines of what it cannot say. A name that ends in .c: the policy, as C.
static PyObject *compiled_save(PyObject *self, PyObject *args) {
  pyCompiled *c = (pyCompiled *)self;
  PyObject *object;
  const char *path;
  pyArray theta;
  char *unsaid = NULL;
  if (!PyArg_ParseTuple(args, "sO", &path, &object) || !pyArray_Read(object, c->ntheta, "parameters", &theta)) return NULL;

  size_t length = strlen(path);
  bool as_c = length > 2 && strcmp(path + length - 2, ".c") == 0;
  pbStatus status =
      as_c ? pbPolicy_SaveC(c->ctx, c->model, theta.data, path) : pbModel_SaveMjcf(c->ctx, c->model, theta.data, path, &unsaid);
  pyArray_Release(&theta, 1);
  const char *said = unsaid ? unsaid : "";
  PyObject *lines = status == pb_ok ? PyUnicode_FromString(said) : fail(c, status);
  pbContext_Free(c->ctx, unsaid);
  return lines;
}

// (theta): layers of the policy, as JSON.
static PyObject *compiled_layout(PyObject *self, PyObject *object) {
  pyCompiled *c = (pyCompiled *)self;
  pyArray theta;
  char *text = NULL;
  if (!pyArray_Read(object, c->ntheta, "parameters", &theta)) return NULL;

  pbStatus status = pbPolicy_Layout(c->ctx, c->model, theta.data, &text);
  pyArray_Release(&theta, 1);
  PyObject *layout = status == pb_ok ? PyUnicode_FromString(text) : fail(c, status);
  pbContext_Free(c->ctx, text);
  return layout;
}

// (path, theta): what a result found, in place of theta's.
static PyObject *compiled_found(PyObject *self, PyObject *args) {
  pyCompiled *c = (pyCompiled *)self;
  PyObject *object;
  const char *path;
  pyArray theta;
  bool recompute = false;
  if (!PyArg_ParseTuple(args, "sO", &path, &object) || !pyArray_Write(object, c->ntheta, "parameters", &theta)) return NULL;
  if (!theta.data) {
    PyErr_SetString(PyExc_TypeError, "parameters: expected an array");
    return NULL;
  }

  pbStatus status = pbModel_ReadResult(c->ctx, c->model, path, theta.data, &recompute);
  pyArray_Release(&theta, 1);
  return status == pb_ok ? PyBool_FromLong(recompute) : fail(c, status);
}

// (theta): derived entries in place. (theta, bar): pullback at theta, in place of bar. (theta, direction, True): forward.
static PyObject *compiled_constants(PyObject *self, PyObject *args) {
  pyCompiled *c = (pyCompiled *)self;
  PyObject *theta_object, *other_object = Py_None, *result = NULL;
  int forward = 0;
  pyArray theta, other = {.held = false};
  if (!PyArg_ParseTuple(args, "O|Op", &theta_object, &other_object, &forward)) return NULL;
  bool alone = other_object == Py_None;
  if (!(alone ? pyArray_Write : pyArray_Read)(theta_object, c->ntheta, "parameters", &theta)) return NULL;
  if (!pyArray_Write(other_object, c->ntheta, "directions", &other)) goto done;
  if (!theta.data) {
    PyErr_SetString(PyExc_TypeError, "parameters: expected an array");
    goto done;
  }

  pbStatus status;
  if (alone) status = pbModel_SetConstants(c->ctx, c->model, theta.data);
  else status = (forward ? pbModel_SetConstantsJvp : pbModel_SetConstantsVjp)(c->ctx, c->model, theta.data, other.data);
  result = status == pb_ok ? Py_NewRef(Py_None) : fail(c, status);

done:
  pyArray_Release(&theta, 1);
  pyArray_Release(&other, 1);
  return result;
}

// ---- states as points of a manifold -----------------------------------------------------------------------------------------
// Rows of two arrays in, rows of a third out; widths of each. call: what to do with a row.
typedef void rows_function(const pbModel *model, const double *a, const double *b, double *out);

static PyObject *by_rows(pyCompiled *c, PyObject *args, const int width[3], rows_function *call) {
  PyObject *object[3], *result = NULL;
  Py_ssize_t rows;
  pyArray array[3] = {{.held = false}, {.held = false}, {.held = false}};
  if (!PyArg_ParseTuple(args, "nOOO", &rows, &object[0], &object[1], &object[2])) return NULL;
  if (rows < 0) return PyErr_Format(PyExc_ValueError, "expected 0 rows or more, found %zd", rows);

  static const char *name[] = {"first array", "second array", "result"};
  for (int i = 0; i < 3; i++) {
    if (!(i == 2 ? pyArray_Write : pyArray_Read)(object[i], rows * width[i], name[i], &array[i])) goto done;
    if (!array[i].data && rows * width[i] > 0) {
      PyErr_Format(PyExc_TypeError, "%s: expected an array", name[i]);
      goto done;
    }
  }

  for (Py_ssize_t k = 0; k < rows; k++)
    call(c->model, array[0].data + k * width[0], array[1].data + k * width[1], array[2].data + k * width[2]);
  result = Py_NewRef(Py_None);

done:
  pyArray_Release(array, 3);
  return result;
}

static void move(const pbModel *m, const double *x, const double *tangent, double *out) {
  memcpy(out, x, (size_t)pbModel_StateSize(m) * sizeof *out);
  pbState_Move(m, out, tangent, 1);
}

static PyObject *compiled_difference(PyObject *self, PyObject *args) {
  pyCompiled *c = (pyCompiled *)self;
  return by_rows(c, args, (int[3]){c->nx, c->nx, c->n}, pbState_Difference);
}
static PyObject *compiled_move(PyObject *self, PyObject *args) {
  pyCompiled *c = (pyCompiled *)self;
  return by_rows(c, args, (int[3]){c->nx, c->n, c->nx}, move);
}
static PyObject *compiled_to_tangent(PyObject *self, PyObject *args) {
  pyCompiled *c = (pyCompiled *)self;
  return by_rows(c, args, (int[3]){c->nx, pbModel_Size(c->model, "nq"), c->nv}, pbState_TangentFromAmbient);
}
static PyObject *compiled_to_ambient(PyObject *self, PyObject *args) {
  pyCompiled *c = (pyCompiled *)self;
  return by_rows(c, args, (int[3]){c->nx, c->nv, pbModel_Size(c->model, "nq")}, pbState_AmbientFromTangent);
}

static PyMethodDef compiled_methods[] = {
    {"pack", compiled_pack, METH_NOARGS, "The model as bytes."},
    {"unpack", compiled_unpack, METH_O | METH_CLASS, "A model from such bytes."},
    {"size", compiled_size, METH_O, "A count by MuJoCo's name, -1 if there is none."},
    {"warnings", compiled_warnings, METH_NOARGS, "Warnings of the load, one per line."},
    {"options", compiled_options, METH_NOARGS, "Options that no gradient reaches: name, text."},
    {"contact", compiled_contact, METH_NOARGS, "How contacts are modelled: name, text."},
    {"params", compiled_params, METH_NOARGS, "All slices of theta."},
    {"param", compiled_param, METH_O, "The slice of a name."},
    {"theta", compiled_theta, METH_NOARGS, "The values that the model was compiled with, as bytes."},
    {"point_masses", compiled_point_masses, METH_O, "Masses of deformables' points at parameters, as bytes."},
    {"state_fields", compiled_state_fields, METH_NOARGS, "Fields of a state: name, offset, size."},
    {"fields", compiled_fields, METH_NOARGS, "Compiled fields: name, rows, columns, type, bytes."},
    {"name", compiled_name, METH_VARARGS, "Name of a thing by kind and number, None where there is none."},
    {"id", compiled_id, METH_VARARGS, "Number of a thing by kind and name, -1 where there is none."},
    {"entry_names", compiled_entry_names, METH_O, "What the entries of a state (False) or of its tangent (True) are."},
    {"check_params", compiled_check_params, METH_O, "Raises where values are out of range."},
    {"constants", compiled_constants, METH_VARARGS, "Derived constants, their pullback, their derivative."},
    {"save", compiled_save, METH_VARARGS, "An MJCF file; what it cannot say. Or the policy as C."},
    {"layout", compiled_layout, METH_O, "Layers of the policy at parameters, as JSON."},
    {"found", compiled_found, METH_VARARGS, "Parameters of a result in place; whether constants follow them."},
    {"difference", compiled_difference, METH_VARARGS, "Tangents of the ways from states to states."},
    {"move", compiled_move, METH_VARARGS, "States moved along tangents."},
    {"to_tangent", compiled_to_tangent, METH_VARARGS, "Cotangents of qpos in the tangent space."},
    {"to_ambient", compiled_to_ambient, METH_VARARGS, "Cotangents of qpos in ambient coordinates."},
    {NULL, NULL, 0, NULL}};

// ---- a compiled model with parameters ---------------------------------------------------------------------------------------
static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  (void)kwargs;
  PyObject *compiled, *theta;
  if (!PyArg_ParseTuple(args, "O!O", pyCompiled_Type, &compiled, &theta)) return NULL;
  pyModel *m = (pyModel *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!m) return NULL;
  m->compiled = (pyCompiled *)Py_NewRef(compiled);

  bool right = pyArray_Read(theta, m->compiled->ntheta, "parameters", &m->theta);
  if (right && !m->theta.data) PyErr_SetString(PyExc_TypeError, "parameters: expected an array");
  if (!right || !m->theta.data) Py_CLEAR(m);
  return (PyObject *)m;
}

static void model_dealloc(PyObject *self) {
  pyModel *m = (pyModel *)self;
  pyArray_Release(&m->theta, 1);
  Py_XDECREF((PyObject *)m->compiled);

  PyTypeObject *type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// State of a keyframe (-1: the reference) with the model's parameters, into an array.
static PyObject *model_init_into(PyObject *self, PyObject *args) {
  pyModel *m = (pyModel *)self;
  pyArray x;
  int keyframe;
  PyObject *object;
  if (!PyArg_ParseTuple(args, "iO", &keyframe, &object) || !pyArray_Write(object, m->compiled->nx, "state", &x)) return NULL;
  if (!x.data) return PyErr_Format(PyExc_TypeError, "state: expected an array");

  pbStatus status = pbState_Init(m->compiled->ctx, m->compiled->model, m->theta.data, keyframe, x.data);
  pyArray_Release(&x, 1);
  if (status != pb_ok) return fail(m->compiled, status);
  Py_RETURN_NONE;
}

static PyMethodDef model_methods[] = {
    {"step_into", (PyCFunction)(void (*)(void))pyModel_StepInto, METH_FASTCALL | METH_KEYWORDS,
     "step_into($self, state, ctrl=None)\n--\n\nAdvance a state by one time step, in place; nothing "
     "is allocated. On failure it stays as it was.\n\n"
     "ctrl: (nu,) or, of states of several worlds, (B, nu); None: zero. Raises StepError."},
    {"_init_into", model_init_into, METH_VARARGS, "State of a keyframe (-1: the reference), into an array."},
    {"_start_into", pyModel_StartInto, METH_VARARGS, "Controls and poses of mocap bodies at a keyframe, into arrays."},
    {"_mirror", pyModel_Mirror, METH_VARARGS, "Steps of states in place, staged for MuJoCo's data."},
    {"_evaluate", pyModel_Evaluate, METH_VARARGS, "Steps of states in place, and quantities of the last evaluation."},
    {"_observe", pyModel_Observe, METH_VARARGS, "Quantities at a state, and their derivatives along directions."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot compiled_slots[] = {{Py_tp_new, compiled_new},
                                       {Py_tp_dealloc, compiled_dealloc},
                                       {Py_tp_methods, compiled_methods},
                                       {Py_tp_doc, (char *)"A compiled model: pbModel with the scratches that belong to it."},
                                       {0, NULL}};
static PyType_Spec compiled_spec = {"pullback._core.Compiled", sizeof(pyCompiled), 0, Py_TPFLAGS_DEFAULT, compiled_slots};
static PyType_Slot model_slots[] = {{Py_tp_new, model_new},
                                    {Py_tp_dealloc, model_dealloc},
                                    {Py_tp_methods, model_methods},
                                    {Py_tp_doc, (char *)"A compiled model and the parameters that act where none are given."},
                                    {0, NULL}};
static PyType_Spec model_spec = {"pullback._core.Model", sizeof(pyModel), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                 model_slots};

bool pyModel_Register(PyObject *module) {
  pyCompiled_Type = (PyTypeObject *)PyType_FromSpec(&compiled_spec);
  pyModel_Type = (PyTypeObject *)PyType_FromSpec(&model_spec);
  return pyCompiled_Type && pyModel_Type && PyModule_AddType(module, pyCompiled_Type) == 0 &&
         PyModule_AddType(module, pyModel_Type) == 0;
}
