// One step of one world as a function of (qpos, qvel, act, ctrl), and its pullback: what a loop of single steps in a compiled
// program of JAX calls, from memories into memories. Of a call that takes a hundred microseconds in Python the arithmetic is
// twenty; here it is most of it. The numbers are those of a Rollout of one step to the bit.
//
// What is not as usual (entries that are not finite, quaternions without length, a step that fails) is left to that, which knows
// how to say so: calls answer whether they have done it.
// Tests: tests/python/test_jax.py.
#include <math.h>
#include <string.h>

#include "core.h"

enum { of_qpos, of_qvel, of_act, of_ctrl, of_count, of_state = of_ctrl };

typedef struct Single {
  PyObject_HEAD pyCompiled *compiled;
  pyArray theta, start;  // of the model; a state as it begins
  int width[of_count], at[of_state];
  int *quat, quats;  // first numbers of quaternions in qpos
  double least;      // length of them
  size_t budget;
} Single;

static void single_dealloc(PyObject *self) {
  Single *s = (Single *)self;
  pyArray_Release(&s->theta, 1);
  pyArray_Release(&s->start, 1);
  PyMem_Free(s->quat);
  Py_XDECREF((PyObject *)s->compiled);

  PyTypeObject *type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static bool read_quaternions(Single *s, PyObject *places) {
  Py_ssize_t count = PyTuple_Size(places);
  s->quat = PyMem_Calloc((size_t)count + 1, sizeof *s->quat);
  if (!s->quat) return PyErr_NoMemory() != NULL;

  for (Py_ssize_t i = 0; i < count; i++) {
    long at = PyLong_AsLong(PyTuple_GetItem(places, i));
    if (at == -1 && PyErr_Occurred()) return false;
    if (at < 0 || at + 4 > s->width[of_qpos]) return PyErr_Format(PyExc_IndexError, "no quaternion at %ld", at) != NULL;
    s->quat[i] = (int)at;
  }
  s->quats = (int)count;
  return true;
}

static void read_layout(Single *s) {
  static const char *const name[of_state] = {"qpos", "qvel", "act"};
  const pbModel *m = s->compiled->model;
  for (int i = 0; i < pbModel_StateFieldCount(m); i++) {
    pbStateField f = pbModel_StateFieldAt(m, i);
    for (int k = 0; k < of_state; k++) {
      if (strcmp(f.name, name[k]) != 0) continue;
      s->at[k] = f.offset;
      s->width[k] = f.size;
    }
  }
  s->width[of_ctrl] = s->compiled->nu;
}

// (compiled, theta, start, places of quaternions, their least length, budget of a tape)
static PyObject *single_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  (void)kwargs;
  PyObject *compiled, *theta, *start, *places;
  double least;
  Py_ssize_t budget;
  if (!PyArg_ParseTuple(args, "O!OOO!dn", pyCompiled_Type, &compiled, &theta, &start, &PyTuple_Type, &places, &least, &budget))
    return NULL;
  Single *s = (Single *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!s) return NULL;
  s->compiled = (pyCompiled *)Py_NewRef(compiled);
  s->least = least;
  s->budget = budget > 0 ? (size_t)budget : 1;
  read_layout(s);

  bool right = pyArray_Read(theta, s->compiled->ntheta, "parameters", &s->theta) &&
               pyArray_Read(start, s->compiled->nx, "state", &s->start) && read_quaternions(s, places);
  if (right && (!s->theta.data || !s->start.data)) {
    PyErr_SetString(PyExc_TypeError, "a step needs parameters and a state");
    right = false;
  }
  if (!right) Py_CLEAR(s);
  return (PyObject *)s;
}

// ---- memories -------------------------------------------------------------------------------------------------------------
// Of bytes, whoever they belong to: so many numbers times `rows`. None: NULL.
typedef struct Memory {
  Py_buffer view;
  bool held;
  double *data;
} Memory;

static bool hold(PyObject *object, int flags, Py_ssize_t count, Memory *m) {
  if (object == Py_None) return true;
  if (PyObject_GetBuffer(object, &m->view, flags) != 0) return false;
  m->held = true;
  m->data = m->view.buf;
  if (m->view.len == count * (Py_ssize_t)sizeof(double)) return true;
  return PyErr_Format(PyExc_ValueError, "expected %zd numbers, found %zd bytes", count, m->view.len) != NULL;
}

static bool hold_all(PyObject *tuple, int flags, const Single *s, int count, int rows, Memory *m) {
  if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != count)
    return PyErr_Format(PyExc_TypeError, "expected a tuple of %d memories", count) != NULL;
  for (int i = 0; i < count; i++)
    if (!hold(PyTuple_GetItem(tuple, i), flags, (Py_ssize_t)rows * s->width[i], &m[i])) return false;
  return true;
}

static void release(Memory *m, int count) {
  for (int i = 0; i < count; i++)
    if (m[i].held) PyBuffer_Release(&m[i].view);
}

static bool all_finite(const double *x, int count) {
  bool good = true;
  if (!x) return good;
  for (int i = 0; i < count; i++) good &= isfinite(x[i]) != 0;
  return good;
}

// ---- a step ---------------------------------------------------------------------------------------------------------------
typedef struct Work {  // of one call
  const Single *s;
  const Memory *in;              // of_count
  double *x0, *states, *length;  // the start; both states; of quaternions
  pyTape *tape;
} Work;

static double length_of(const double *q) { return sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]); }

// The state that a call begins from; false where the long way has something to say of it.
static bool put_start(const Work *w) {
  const Single *s = w->s;
  memcpy(w->x0, s->start.data, (size_t)s->compiled->nx * sizeof *w->x0);
  for (int i = 0; i < of_count; i++) {
    if (!all_finite(w->in[i].data, s->width[i])) return false;
    if (i < of_state && w->in[i].data) memcpy(w->x0 + s->at[i], w->in[i].data, (size_t)s->width[i] * sizeof *w->x0);
  }

  for (int k = 0; k < s->quats; k++) {
    double *q = w->x0 + s->at[of_qpos] + s->quat[k];
    w->length[k] = length_of(q);
    if (!(w->length[k] >= s->least)) return false;
    for (int i = 0; i < 4; i++) q[i] /= w->length[k];
  }
  return true;
}

static pbStatus take_step(const Work *w) {
  const double *theta = w->s->theta.data;
  const pbBatchInput input = {.ctrl = w->in[of_ctrl].data};
  const pbBatchOutput output = {.states = w->states};
  PB_TRY(pbBatch_Reset(w->tape->batch, theta, NULL, 0, -1, w->x0));
  return pbBatch_Rollout(w->tape->batch, theta, NULL, 0, 1, &input, &output);
}

// Rows of both states.
static void give_states(const Work *w, const Memory *out) {
  const Single *s = w->s;
  for (int i = 0; i < of_state; i++) {
    size_t size = (size_t)s->width[i];
    if (!out[i].data) continue;
    for (int row = 0; row < 2; row++)
      memcpy(out[i].data + (size_t)row * size, w->states + row * s->compiled->nx + s->at[i], size * sizeof(double));
  }
}

// ---- its pullback -----------------------------------------------------------------------------------------------------------
typedef struct Pull {
  const Memory *bar, *out;  // of_state of all states; of_count
  double *tangent, *x_bar;  // (2, nv) of positions; n
  double *ctrl_bar;
} Pull;

static pbStatus pull_step(const Work *w, const Pull *p) {
  const Single *s = w->s;
  const pyCompiled *c = s->compiled;
  static const char *const none[] = {NULL};
  pbRolloutBar bar = {.qvel = {.data = p->bar[of_qvel].data, .count = p->bar[of_qvel].data ? 2 : 0},
                      .act = {.data = p->bar[of_act].data, .count = p->bar[of_act].data ? 2 : 0}};

  // Cotangents of numbers become those of the tangent space, and at the end the other way round.
  if (p->bar[of_qpos].data) {
    for (int row = 0; row < 2; row++)
      pbState_TangentFromAmbient(c->model, w->states + row * c->nx, p->bar[of_qpos].data + row * s->width[of_qpos],
                                 p->tangent + row * c->nv);
    bar.qpos = (pbCotangent){.data = p->tangent, .count = 2};
  }

  const pbBatchGradient gradient = {.x0 = p->x_bar, .ctrl = p->out[of_ctrl].data ? p->ctrl_bar : NULL};
  PB_TRY(pyTape_Choose(w->tape, pb_gradientExact, none, 0));
  return pbBatch_Vjp(w->tape->batch, &bar, NULL, &gradient, NULL);
}

static void give_gradient(const Work *w, const Pull *p) {
  const Single *s = w->s;
  const pyCompiled *c = s->compiled;
  const double *x_bar = p->x_bar;
  double *qpos = p->out[of_qpos].data;

  if (qpos) {
    pbState_AmbientFromTangent(c->model, w->states, x_bar, qpos);
    for (int k = 0; k < s->quats; k++)
      for (int i = 0; i < 4; i++) qpos[s->quat[k] + i] /= w->length[k];
  }
  if (p->out[of_qvel].data) memcpy(p->out[of_qvel].data, x_bar + c->nv, (size_t)c->nv * sizeof *x_bar);
  if (p->out[of_act].data) memcpy(p->out[of_act].data, x_bar + 2 * c->nv, (size_t)c->na * sizeof *x_bar);
  if (p->out[of_ctrl].data) memcpy(p->out[of_ctrl].data, p->ctrl_bar, (size_t)c->nu * sizeof *x_bar);
}

// ---- calls ----------------------------------------------------------------------------------------------------------------
// pull: NULL for the step alone. What is written is written at the end, where all went well: *went.
static bool run(const Single *s, const Memory *in, const Memory *states, Pull *pull, bool *went) {
  const pyCompiled *c = s->compiled;
  size_t nx = (size_t)c->nx, numbers = 3 * nx + (size_t)(s->quats + 2 * c->nv + c->n + c->nu);
  double *room = PyMem_Calloc(numbers + 1, sizeof *room);
  if (!room) return PyErr_NoMemory() != NULL;
  Work w = {.s = s, .in = in, .x0 = room, .states = room + nx, .length = room + 3 * nx};
  if (pull) {
    pull->tangent = w.length + s->quats;
    pull->x_bar = pull->tangent + 2 * c->nv;
    pull->ctrl_bar = pull->x_bar + c->n;
  }

  bool begun = put_start(&w);
  const pbBatchOptions options = {.worlds = 1, .steps = 1, .budget = s->budget, .shared_inputs = true};
  if (begun) w.tape = pyTape_Take(s->compiled, &options);
  if (w.tape) {
    pbStatus status;
    Py_BEGIN_ALLOW_THREADS;
    status = take_step(&w);
    if (status == pb_ok && pull) status = pull_step(&w, pull);
    Py_END_ALLOW_THREADS;
    *went = status == pb_ok;
    pyTape_Give(s->compiled, w.tape, !*went);
  }

  if (*went && pull) give_gradient(&w, pull);
  else if (*went) give_states(&w, states);
  PyMem_Free(room);
  return !begun || w.tape;
}

// (qpos, qvel, act, ctrl), (qpos, qvel, act) of both states: whether it was done; None where there is none.
static PyObject *single_step(PyObject *self, PyObject *args) {
  const Single *s = (Single *)self;
  PyObject *inputs, *outputs;
  Memory in[of_count] = {{.held = false}}, out[of_state] = {{.held = false}};
  bool went = false, right = false;
  if (PyArg_ParseTuple(args, "OO", &inputs, &outputs))
    right = hold_all(inputs, PyBUF_SIMPLE, s, of_count, 1, in) && hold_all(outputs, PyBUF_WRITABLE, s, of_state, 2, out) &&
            run(s, in, out, NULL, &went);
  release(in, of_count);
  release(out, of_state);
  return right ? PyBool_FromLong(went) : NULL;
}

// The same, cotangents of both states, then gradients by qpos, qvel, act, ctrl.
static PyObject *single_pull(PyObject *self, PyObject *args) {
  const Single *s = (Single *)self;
  PyObject *inputs, *cotangents, *gradients;
  Memory in[of_count] = {{.held = false}}, bar[of_state] = {{.held = false}}, out[of_count] = {{.held = false}};
  bool went = false, right = false;
  if (PyArg_ParseTuple(args, "OOO", &inputs, &cotangents, &gradients))
    right = hold_all(inputs, PyBUF_SIMPLE, s, of_count, 1, in) && hold_all(cotangents, PyBUF_SIMPLE, s, of_state, 2, bar) &&
            hold_all(gradients, PyBUF_WRITABLE, s, of_count, 1, out);

  bool numbers = right;
  for (int i = 0; numbers && i < of_state; i++) numbers = all_finite(bar[i].data, 2 * s->width[i]);
  if (numbers) right = run(s, in, NULL, &(Pull){.bar = bar, .out = out}, &went);
  release(in, of_count);
  release(bar, of_state);
  release(out, of_count);
  return right ? PyBool_FromLong(went) : NULL;
}

static PyMethodDef methods[] = {{"step", single_step, METH_VARARGS, "A step, from memories into memories; whether it was done."},
                                {"pull", single_pull, METH_VARARGS, "Its pullback; whether it was done."},
                                {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, single_new},
                              {Py_tp_dealloc, single_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, (char *)"One step of one world as a function, and its pullback."},
                              {0, NULL}};
static PyType_Spec spec = {"pullback._core.Single", sizeof(Single), 0, Py_TPFLAGS_DEFAULT, slots};

bool pySingle_Register(PyObject *module) {
  PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(&spec);
  return type && PyModule_AddType(module, type) == 0;
}
