// States, and single steps of them.
// Tests: tests/python/test_contract.py.
#include <math.h>
#include <string.h>

#include "core.h"

PyTypeObject *pyState_Type;

// (compiled, flat, worlds): flat is a writable array that the state keeps alive; worlds 0: one state without an axis.
static PyObject *state_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  (void)kwargs;
  PyObject *compiled, *flat;
  int worlds;
  if (!PyArg_ParseTuple(args, "O!Oi", pyCompiled_Type, &compiled, &flat, &worlds)) return NULL;
  if (worlds < 0) return PyErr_Format(PyExc_ValueError, "expected 1 world or more, found %d", worlds);
  pyState *s = (pyState *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!s) return NULL;
  s->compiled = (pyCompiled *)Py_NewRef(compiled);
  s->worlds = worlds;

  Py_ssize_t numbers = (Py_ssize_t)(worlds > 0 ? worlds : 1) * s->compiled->nx;
  bool right = pyArray_Write(flat, numbers, "state", &s->flat);
  if (right && !s->flat.data) PyErr_SetString(PyExc_TypeError, "state: expected an array");
  if (!right || !s->flat.data) Py_CLEAR(s);
  return (PyObject *)s;
}

static void state_dealloc(PyObject *self) {
  pyState *s = (pyState *)self;
  pbBatch_Destroy(s->batch);
  pbContext_Destroy(s->ctx);
  pyArray_Release(&s->flat, 1);
  Py_XDECREF((PyObject *)s->compiled);

  PyTypeObject *type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// ---- one world ------------------------------------------------------------------------------------------------------------
// The text of a step that failed is the scratch's, and where that has none (an argument that is wrong) the context's.
static const char *text_of(const pyWork *work) {
  const char *text = pbScratch_Error(work->scratch);
  return *text ? text : pbContext_Error(work->ctx);
}

static bool step_one(const pyModel *m, pyState *s, const double *ctrl) {
  pyWork *work = pyCompiled_Take(m->compiled);
  if (!work) return false;
  const pbInput input = {.ctrl = ctrl};
  pbStatus status;

  Py_BEGIN_ALLOW_THREADS;
  do status = pbStep_Forward(m->compiled->model, m->theta.data, s->flat.data, &input, work->scratch, NULL);
  while (pbScratch_Grow(work->scratch, &status));
  Py_END_ALLOW_THREADS;

  if (status != pb_ok) pyStatus_Raise(status, text_of(work));
  pyCompiled_Give(m->compiled, work);
  return status == pb_ok;
}

// ---- several worlds ---------------------------------------------------------------------------------------------------------
static bool make_batch(pyState *s) {
  if (s->batch) return true;
  if (!s->pool) s->pool = pyPool_Of(0);
  if (!s->ctx) s->ctx = pbContext_Create(NULL);
  if (!s->pool) return false;
  if (!s->ctx) return PyErr_NoMemory() != NULL;

  const pbBatchOptions options = {.worlds = s->worlds, .pool = s->pool->pool};
  if (!pyPool_Lock(s->pool)) return false;
  pbStatus status = pbBatch_Create(s->ctx, s->compiled->model, &options, &s->batch);
  pyPool_Unlock(s->pool);
  if (status != pb_ok) pyStatus_Raise(status, pbContext_Error(s->ctx));
  return status == pb_ok;
}

static bool step_all(const pyModel *m, pyState *s, const double *ctrl) {
  if (!make_batch(s)) return false;
  const pbBatchInput input = {.ctrl = ctrl};
  size_t bytes = (size_t)s->worlds * (size_t)s->compiled->nx * sizeof(double);
  pbStatus status;

  // The batch's own states, so that those of the caller stay as they were where a world fails.
  if (!pyPool_Lock(s->pool)) return false;
  Py_BEGIN_ALLOW_THREADS;
  memcpy(pbBatch_States(s->batch), s->flat.data, bytes);
  status = pbBatch_Step(s->batch, m->theta.data, NULL, 0, &input, NULL);
  if (status == pb_ok) memcpy(s->flat.data, pbBatch_States(s->batch), bytes);
  Py_END_ALLOW_THREADS;
  pyPool_Unlock(s->pool);

  if (status == pb_ok) return true;
  int world = 0;
  while (world < s->worlds - 1 && pbBatch_Status(s->batch)[world] == pb_ok) world++;
  pyStatus_Raise(status, pbContext_Error(s->ctx));
  pyStatus_TellWorld(world);
  return false;
}

// ---- step_into --------------------------------------------------------------------------------------------------------------
static bool read_arguments(PyObject *const *args, Py_ssize_t count, PyObject *names, PyObject **state, PyObject **ctrl) {
  Py_ssize_t named = names ? PyTuple_Size(names) : 0;
  PyObject **to[] = {state, ctrl};
  static const char *const word[] = {"state", "ctrl"};
  *state = NULL;
  *ctrl = Py_None;

  if (count + named > 2)
    return PyErr_Format(PyExc_TypeError, "step_into: expected a state and ctrl, found %zd arguments", count + named) != NULL;
  for (Py_ssize_t i = 0; i < count; i++) *to[i] = args[i];
  for (Py_ssize_t i = 0; i < named; i++) {
    PyObject *name = PyTuple_GetItem(names, i);
    int which = PyUnicode_CompareWithASCIIString(name, word[0]) == 0   ? 0
                : PyUnicode_CompareWithASCIIString(name, word[1]) == 0 ? 1
                                                                       : -1;
    if (which < 0 || which < count) {
      PyErr_Format(PyExc_TypeError, "step_into: unexpected argument %R", name);
      return false;
    }
    *to[which] = args[count + i];
  }

  if (*state && PyObject_TypeCheck(*state, pyState_Type)) return true;
  PyErr_SetString(PyExc_TypeError, "step_into: expected a State of this model (model.init())");
  return false;
}

static bool is_finite(const double *x, Py_ssize_t count) {
  for (Py_ssize_t i = 0; x && i < count; i++)
    if (!isfinite(x[i])) return false;
  return true;
}

// (nu,), or (worlds, nu); numbers are counted already.
static bool has_axes(const pyArray *a, int worlds) {
  if (!a->held) return true;
  return worlds > 0 ? a->view.ndim == 2 && a->view.shape[0] == worlds : a->view.ndim == 1;
}

PyObject *pyModel_StepInto(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  const pyModel *m = (pyModel *)self;
  PyObject *state_object, *ctrl_object;
  if (!read_arguments(args, count, names, &state_object, &ctrl_object)) return NULL;
  pyState *s = (pyState *)state_object;
  if (s->compiled != m->compiled) return pyStatus_Raise(pb_bad_argument, "step_into: this state belongs to another model");

  // Arrays as they are; everything else is made one, or refused, by Python.
  Py_ssize_t worlds = s->worlds > 0 ? s->worlds : 1;
  PyObject *made = NULL;
  pyArray ctrl;
  bool plain = pyArray_Read(ctrl_object, worlds * m->compiled->nu, "ctrl", &ctrl) && has_axes(&ctrl, s->worlds) &&
               is_finite(ctrl.data, worlds * m->compiled->nu);
  if (!plain) {
    PyErr_Clear();
    pyArray_Release(&ctrl, 1);
    made = PyObject_CallMethod(self, "_read_ctrl", "Oi", ctrl_object, s->worlds);
    if (!made || !pyArray_Read(made, worlds * m->compiled->nu, "ctrl", &ctrl)) {
      Py_XDECREF(made);
      return NULL;
    }
  }

  bool done = s->worlds > 0 ? step_all(m, s, ctrl.data) : step_one(m, s, ctrl.data);
  pyArray_Release(&ctrl, 1);
  Py_XDECREF(made);
  return done ? Py_NewRef(Py_None) : NULL;
}

// ---- what is known after an evaluation --------------------------------------------------------------------------------------
// Quantities of pbScratch_Field as (rows, columns, bytes).
PyObject *pyFields_Of(const pbScratch *scratch, PyObject *names) {
  Py_ssize_t count = PyTuple_Size(names);
  PyObject *list = PyList_New(0);

  for (Py_ssize_t i = 0; list && i < count; i++) {
    const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL);
    const double *data;
    int rows, columns;
    PyObject *one = NULL;
    if (name && pbScratch_Field(scratch, name, &data, &rows, &columns)) {
      Py_ssize_t bytes = (Py_ssize_t)rows * columns * (Py_ssize_t)sizeof(double);
      one = Py_BuildValue("iiy#", rows, columns, data ? (const char *)data : "", bytes);
    } else if (name) PyErr_Format(PyExc_KeyError, "nothing is called '%s' after an evaluation", name);
    if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }

  return list;
}

static pbStatus evaluate(const pyModel *m, double *x, const pbInput *input, int steps, pbScratch *scratch, double *sensordata) {
  pbStatus status;
  if (steps == 0) {
    do status = pbStep_Observe(m->compiled->model, m->theta.data, x, input, scratch, sensordata);
    while (pbScratch_Grow(scratch, &status));
    return status;
  }

  for (int k = 0; k < steps; k++) {
    do status = pbStep_Forward(m->compiled->model, m->theta.data, x, input, scratch, sensordata);
    while (pbScratch_Grow(scratch, &status));
    if (status != pb_ok) return status;
  }
  return pb_ok;
}

bool pyModel_Advance(const pyModel *m, double *x, const pbInput *input, int steps, pyWork *work, double *sensordata) {
  pbStatus status;
  Py_BEGIN_ALLOW_THREADS;
  status = evaluate(m, x, input, steps, work->scratch, sensordata);
  if (status == pb_ok) status = pbScratch_Gather(work->scratch);
  Py_END_ALLOW_THREADS;
  if (status != pb_ok) pyStatus_Raise(status, text_of(work));
  return status == pb_ok;
}

// World by world, the fields of each; a world that fails ends the call where it began.
static PyObject *evaluate_all(const pyModel *m, const pyArray array[3], Py_ssize_t worlds, int steps, PyObject *names,
                              pyWork *work) {
  const pyCompiled *c = m->compiled;
  PyObject *list = PyList_New(0);

  for (Py_ssize_t w = 0; list && w < worlds; w++) {
    const pbInput input = {.ctrl = array[1].data ? array[1].data + w * c->nu : NULL};
    double *sensordata = array[2].data ? array[2].data + w * c->nsensordata : NULL;
    bool went = pyModel_Advance(m, array[0].data + w * c->nx, &input, steps, work, sensordata);
    PyObject *one = went ? pyFields_Of(work->scratch, names) : NULL;
    if (!went) pyStatus_TellWorld(w);
    if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

PyObject *pyModel_Evaluate(PyObject *self, PyObject *args) {
  const pyModel *m = (const pyModel *)self;
  pyCompiled *c = m->compiled;
  PyObject *object[3], *names, *result = NULL;
  Py_ssize_t worlds;
  int steps;
  pyArray array[3] = {{.held = false}};
  static const char *const what[] = {"state", "ctrl", "sensordata"};
  if (!PyArg_ParseTuple(args, "nOOOiO!", &worlds, &object[0], &object[1], &object[2], &steps, &PyTuple_Type, &names)) return NULL;
  const Py_ssize_t length[] = {worlds * c->nx, worlds * c->nu, worlds * c->nsensordata};
  pyWork *work = NULL;
  for (int i = 0; i < 3; i++)
    if (!(i == 1 ? pyArray_Read : pyArray_Write)(object[i], length[i], what[i], &array[i])) goto done;
  if (!array[0].data) {
    PyErr_SetString(PyExc_TypeError, "state: expected an array");
    goto done;
  }
  work = pyCompiled_Take(c);
  if (work) result = evaluate_all(m, array, worlds, steps, names, work);

done:
  if (work) pyCompiled_Give(c, work);
  pyArray_Release(array, 3);
  return result;
}

static PyType_Slot slots[] = {{Py_tp_new, state_new},
                              {Py_tp_dealloc, state_dealloc},
                              {Py_tp_doc, (char *)"A state, or several side by side, in an array."},
                              {0, NULL}};
static PyType_Spec spec = {"pullback._core.State", sizeof(pyState), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

bool pyState_Register(PyObject *module) {
  pyState_Type = (PyTypeObject *)PyType_FromSpec(&spec);
  return pyState_Type && PyModule_AddType(module, pyState_Type) == 0;
}
