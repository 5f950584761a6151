// Energies as formulas over elements: values, gradients, Hessians, and the pullback of gradients.
// Tests: tests/python/test_energy.py.
#include <string.h>

#include "core.h"

static PyTypeObject *type_of_energy;

typedef struct Energy {
  PyObject_HEAD pbContext *ctx;
  pbEnergy *energy;
} Energy;

enum { PARAMETERS = PB_ENERGY_PARAMETERS, STATE = 3 };  // x, rest, previous

static void energy_dealloc(PyObject *self) {
  Energy *e = (Energy *)self;
  pbEnergy_Destroy(e->energy);
  pbContext_Destroy(e->ctx);

  PyTypeObject *type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// (name, formula, points, [(name, rows, columns), ...])
static PyObject *energy_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  (void)kwargs;
  pbEnergyParameter parameter[PARAMETERS] = {{.name = NULL}};
  pbEnergyDef def = {.parameters = parameter};
  PyObject *list;
  if (!PyArg_ParseTuple(args, "ssiO!", &def.name, &def.formula, &def.points, &PyList_Type, &list)) return NULL;
  if (PyList_Size(list) > PARAMETERS)
    return PyErr_Format(PyExc_ValueError, "expected at most %d parameters, found %zd", PARAMETERS, PyList_Size(list));

  for (; def.parameter_count < PyList_Size(list); def.parameter_count++) {
    pbEnergyParameter *p = &parameter[def.parameter_count];
    if (!PyArg_ParseTuple(PyList_GetItem(list, def.parameter_count), "sii", &p->name, &p->rows, &p->cols)) return NULL;
  }

  Energy *e = (Energy *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!e) return NULL;
  e->ctx = pbContext_Create(NULL);
  pbStatus status = e->ctx ? pbEnergy_Create(e->ctx, &def, &e->energy) : pb_no_memory;
  if (status == pb_ok) return (PyObject *)e;

  pyStatus_Raise(status, e->ctx ? pbContext_Error(e->ctx) : NULL);
  Py_DECREF(e);
  return NULL;
}

// ---- what a call is given -------------------------------------------------------------------------------------------------
typedef struct Given {
  int count, points, vertices;
  Py_buffer vertex;  // count x points, of type int
  bool held;
  pyArray state[STATE], parameter[PARAMETERS];
  const double *value[PARAMETERS];
  int stride[PARAMETERS];
  double timestep, time;
  pbElements elements;
  void *work;
} Given;

static void release(Given *g) {
  if (g->held) PyBuffer_Release(&g->vertex);
  pyArray_Release(g->state, STATE);
  pyArray_Release(g->parameter, PARAMETERS);
  PyMem_Free(g->work);
}

// Vertices within range: everything else is counted here.
static bool hold_elements(PyObject *object, Given *g) {
  if (PyObject_GetBuffer(object, &g->vertex, PyBUF_C_CONTIGUOUS) != 0) return false;
  g->held = true;
  Py_ssize_t numbers = g->vertex.len / (Py_ssize_t)sizeof(int);
  g->count = (int)(numbers / g->points);
  const int *vertex = g->vertex.buf;

  for (Py_ssize_t i = 0; i < numbers; i++) {
    if (vertex[i] >= 0 && vertex[i] < g->vertices) continue;
    PyErr_Format(PyExc_ValueError, "elements: vertex %d; there are %d", vertex[i], g->vertices);
    return false;
  }
  return true;
}

// One value for all elements, or one of each.
static bool hold_parameters(PyObject *tuple, const pbEnergyDef *def, Given *g) {
  for (int i = 0; i < def->parameter_count; i++) {
    int size = def->parameters[i].rows * def->parameters[i].cols;
    PyObject *pair = PyTuple_GetItem(tuple, i), *object;
    int own;
    if (!pair || !PyArg_ParseTuple(pair, "Op", &object, &own)) return false;
    if (!pyArray_Read(object, own ? (Py_ssize_t)size * g->count : size, def->parameters[i].name, &g->parameter[i])) return false;
    g->value[i] = g->parameter[i].data;
    g->stride[i] = own ? size : 0;
  }
  return true;
}

// (elements, vertices, (x, rest, previous), ((parameter, whether elements have their own), ...), timestep, time, ...)
static bool read_given(const Energy *e, PyObject *args, Given *g) {
  PyObject *elements, *states, *parameters;
  const pbEnergyDef *def = pbEnergy_Definition(e->energy);
  static const char *const name[STATE] = {"x", "rest", "previous"};
  if (!PyArg_ParseTuple(args, "OiO!O!dd", &elements, &g->vertices, &PyTuple_Type, &states, &PyTuple_Type, &parameters,
                        &g->timestep, &g->time))
    return false;

  g->points = def->points;
  if (!hold_elements(elements, g)) return false;
  for (int i = 0; i < STATE; i++)
    if (!pyArray_Read(PyTuple_GetItem(states, i), 3 * (Py_ssize_t)g->vertices, name[i], &g->state[i])) return false;
  if (!hold_parameters(parameters, def, g)) return false;

  g->elements = (pbElements){.count = g->count,
                             .vertex = g->vertex.buf,
                             .x = g->state[0].data,
                             .rest = g->state[1].data,
                             .previous = g->state[2].data,
                             .parameter = g->value,
                             .stride = g->stride,
                             .timestep = g->timestep,
                             .time = g->time};
  g->work = PyMem_Malloc(pbEnergy_WorkSize(e->energy) + 1);
  if (!g->work) PyErr_NoMemory();
  return g->work != NULL;
}

// None, or what left the domain of the formula: (element, line, column, text).
static PyObject *told(bool fine, const pbEnergyFault *fault) {
  if (fine) Py_RETURN_NONE;
  return Py_BuildValue("iiis", fault->element, fault->line, fault->column, fault->what);
}

// (what it is given, (value, gradient, hessian)): filled; None: not wanted.
static PyObject *energy_evaluate(PyObject *self, PyObject *args) {
  const Energy *e = (const Energy *)self;
  PyObject *given, *out, *result = NULL;
  Given g = {.held = false};
  pyArray array[3] = {{.held = false}};
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &given, &PyTuple_Type, &out) || !read_given(e, given, &g)) goto done;

  Py_ssize_t size = 3 * (Py_ssize_t)g.points, length[3] = {g.count, g.count * size, g.count * size * size};
  static const char *const name[] = {"value", "gradient", "hessian"};
  for (int i = 0; i < 3; i++)
    if (!pyArray_Write(PyTuple_GetItem(out, i), length[i], name[i], &array[i])) goto done;

  const pbElementsOut wanted = {.value = array[0].data, .gradient = array[1].data, .hessian = array[2].data};
  pbEnergyFault fault = {.element = -1};
  bool fine;
  Py_BEGIN_ALLOW_THREADS;
  fine = pbEnergy_Evaluate(e->energy, &g.elements, &wanted, g.work, &fault);
  Py_END_ALLOW_THREADS;
  result = told(fine, &fault);

done:
  pyArray_Release(array, 3);
  release(&g);
  return result;
}

// (what it is given, w, (x, rest, previous, timestep and time), (parameter, ...)): derivatives of the sum of w . gradient, added.
static PyObject *energy_pullback(PyObject *self, PyObject *args) {
  const Energy *e = (const Energy *)self;
  PyObject *given, *direction, *states, *parameters, *result = NULL;
  Given g = {.held = false};
  pyArray w = {.held = false}, bar[STATE + 1] = {{.held = false}}, by[PARAMETERS] = {{.held = false}};
  double *to[PARAMETERS] = {NULL};
  if (!PyArg_ParseTuple(args, "O!OO!O!", &PyTuple_Type, &given, &direction, &PyTuple_Type, &states, &PyTuple_Type, &parameters) ||
      !read_given(e, given, &g))
    goto done;

  const Py_ssize_t numbers = 3 * (Py_ssize_t)g.vertices;
  if (!pyArray_Read(direction, numbers, "w", &w)) goto done;
  for (int i = 0; i <= STATE; i++)
    if (!pyArray_Write(PyTuple_GetItem(states, i), i == STATE ? 2 : numbers, "cotangent", &bar[i])) goto done;
  for (int i = 0; i < pbEnergy_Definition(e->energy)->parameter_count; i++) {
    if (!pyArray_Write(PyTuple_GetItem(parameters, i), g.parameter[i].view.len / (Py_ssize_t)sizeof(double), "cotangent", &by[i]))
      goto done;
    to[i] = by[i].data;
  }

  const pbElementsBar out = {.x = bar[0].data,
                             .rest = bar[1].data,
                             .previous = bar[2].data,
                             .parameter = to,
                             .timestep = bar[STATE].data,
                             .time = bar[STATE].data + 1};
  pbEnergyFault fault = {.element = -1};
  bool fine;
  Py_BEGIN_ALLOW_THREADS;
  fine = pbEnergy_Pullback(e->energy, &g.elements, w.data, &out, g.work, &fault);
  Py_END_ALLOW_THREADS;
  result = told(fine, &fault);

done:
  pyArray_Release(&w, 1);
  pyArray_Release(bar, STATE + 1);
  pyArray_Release(by, PARAMETERS);
  release(&g);
  return result;
}

// Whether the formula has x, rest, previous, the time step, the time in it, and whether its Hessian is symmetric.
static PyObject *energy_uses(PyObject *self, PyObject *none) {
  (void)none;
  const pbEnergy *e = ((Energy *)self)->energy;
  return Py_BuildValue("iiiiii", pbEnergy_Uses(e, pb_inputPosition), pbEnergy_Uses(e, pb_inputRest),
                       pbEnergy_Uses(e, pb_inputPrevious), pbEnergy_Uses(e, pb_inputTimestep), pbEnergy_Uses(e, pb_inputTime),
                       pbEnergy_Symmetric(e));
}

static PyMethodDef methods[] = {{"evaluate", energy_evaluate, METH_VARARGS, "Values, gradients and Hessians of elements."},
                                {"pullback", energy_pullback, METH_VARARGS, "Derivatives of w . gradient."},
                                {"uses", energy_uses, METH_NOARGS, "What the formula has in it."},
                                {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, energy_new},
                              {Py_tp_dealloc, energy_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, (char *)"A formula over elements with its derivatives."},
                              {0, NULL}};
static PyType_Spec spec = {"pullback._core.Energy", sizeof(Energy), 0, Py_TPFLAGS_DEFAULT, slots};

bool pyEnergy_Register(PyObject *module) {
  type_of_energy = (PyTypeObject *)PyType_FromSpec(&spec);
  return type_of_energy && PyModule_AddType(module, type_of_energy) == 0;
}
