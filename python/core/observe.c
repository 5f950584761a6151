// Quantities at a state with their derivatives along directions.
// Tests: tests/python/test_contacts.py.
#include <stdlib.h>
#include <string.h>

#include "core.h"

// What directions are of, each (count, width); none: zero.
enum { way_state, way_ctrl, way_qfrc, way_theta, way_count };

typedef struct Looked {
  const pyModel *m;
  pyWork *work;
  double *state;
  pbInput input;
  double *record;  // of the evaluation; NULL: no directions
  pyArray way[way_count];
  int count;
} Looked;

static pbStatus look(Looked *k) {
  const pbModel *model = k->m->compiled->model;
  pbScratch *scratch = k->work->scratch;
  pbStatus status;

  do status = pbStep_Observe(model, k->m->theta.data, k->state, &k->input, scratch, NULL);
  while (pbScratch_Grow(scratch, &status));
  if (status != pb_ok) return status;
  PB_TRY(pbScratch_Gather(scratch));
  if (k->record) pbTape_Record(model, k->state, scratch, k->record);
  return pb_ok;
}

static const double *row_of(const pyArray *a, int i, Py_ssize_t width) { return a->data ? a->data + i * width : NULL; }

static pbStatus push(Looked *k, int i) {
  const pyCompiled *c = k->m->compiled;
  const pbDirection direction = {.x = row_of(&k->way[way_state], i, c->n),
                                 .ctrl = row_of(&k->way[way_ctrl], i, c->nu),
                                 .qfrc = row_of(&k->way[way_qfrc], i, c->nv),
                                 .theta = row_of(&k->way[way_theta], i, c->ntheta)};
  pbStatus status;
  Py_BEGIN_ALLOW_THREADS;
  status = pbStep_Jvp(c->model, k->m->theta.data, k->record, &k->input, &direction, k->work->scratch, NULL, NULL, NULL, NULL);
  Py_END_ALLOW_THREADS;
  return status;
}

// Derivatives of all names along one direction: bytes of each.
static PyObject *tangents_of(Looked *k, PyObject *names, PyObject *values) {
  PyObject *list = PyList_New(PyTuple_Size(names));
  if (!list) return NULL;
  for (Py_ssize_t i = 0; i < PyTuple_Size(names); i++) {
    PyObject *value = PyList_GetItem(values, i);  // (rows, columns, bytes)
    const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL);
    Py_ssize_t size = value ? PyBytes_Size(PyTuple_GetItem(value, 2)) : -1;
    double *out = name && size >= 0 ? PyMem_Calloc((size_t)size + 1, 1) : NULL;
    PyObject *one = NULL;

    if (out && pbScratch_Tangent(k->work->scratch, name, out)) one = PyBytes_FromStringAndSize((char *)out, size);
    else if (out) PyErr_Format(PyExc_KeyError, "'%s' has no derivative here", name);
    PyMem_Free(out);
    if (!one || PyList_SetItem(list, i, one) != 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

static PyObject *all_tangents(Looked *k, PyObject *names, PyObject *values) {
  PyObject *list = PyList_New(k->count);
  if (!list) return NULL;
  for (int i = 0; i < k->count; i++) {
    pbStatus status = push(k, i);
    PyObject *one = status == pb_ok ? tangents_of(k, names, values) : pyStatus_Raise(status, pbScratch_Error(k->work->scratch));
    if (!one || PyList_SetItem(list, i, one) != 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

static PyObject *see(Looked *k, PyObject *names) {
  pbStatus status;
  Py_BEGIN_ALLOW_THREADS;
  status = look(k);
  Py_END_ALLOW_THREADS;
  if (status != pb_ok) return pyStatus_Raise(status, pbScratch_Error(k->work->scratch));

  PyObject *values = pyFields_Of(k->work->scratch, names);
  PyObject *tangents = values ? all_tangents(k, names, values) : NULL;
  PyObject *result = tangents ? Py_BuildValue("OO", values, tangents) : NULL;
  Py_XDECREF(values);
  Py_XDECREF(tangents);
  return result;
}

// (state, ctrl, qfrc_applied, names, count, directions): values [(rows, columns, bytes), ...] and of each direction the bytes of
// their derivatives. directions: "state", "ctrl", "qfrc_applied", "theta", (count, width) each.
PyObject *pyModel_Observe(PyObject *self, PyObject *args) {
  Looked k = {.m = (const pyModel *)self};
  const pyCompiled *c = k.m->compiled;
  PyObject *state, *ctrl, *qfrc, *names, *directions, *result = NULL;
  pyArray in[3] = {{.held = false}};
  if (!PyArg_ParseTuple(args, "OOOO!iO", &state, &ctrl, &qfrc, &PyTuple_Type, &names, &k.count, &directions)) return NULL;
  if (k.count < 0) return PyErr_Format(PyExc_ValueError, "directions: expected 0 or more, found %d", k.count);

  const pyMember member[way_count] = {[way_state] = {"state", (Py_ssize_t)k.count * c->n},
                                      [way_ctrl] = {"ctrl", (Py_ssize_t)k.count * c->nu},
                                      [way_qfrc] = {"qfrc_applied", (Py_ssize_t)k.count * c->nv},
                                      [way_theta] = {"theta", (Py_ssize_t)k.count * c->ntheta}};
  if (!pyArray_Write(state, c->nx, "state", &in[0]) || !pyArray_Read(ctrl, c->nu, "ctrl", &in[1]) ||
      !pyArray_Read(qfrc, c->nv, "qfrc_applied", &in[2]) || !pyMembers_Read(directions, way_count, member, k.way))
    goto done;
  if (!in[0].data) {
    PyErr_SetString(PyExc_TypeError, "state: expected an array");
    goto done;
  }

  k.state = in[0].data;
  k.input = (pbInput){.ctrl = in[1].data, .qfrc = in[2].data};
  k.record = k.count ? PyMem_Calloc((size_t)pbTape_Size(c->model), sizeof *k.record) : NULL;
  k.work = k.count && !k.record ? NULL : pyCompiled_Take(k.m->compiled);
  if (k.work) result = see(&k, names);
  else if (!PyErr_Occurred()) PyErr_NoMemory();

done:
  if (k.work) pyCompiled_Give(k.m->compiled, k.work);
  PyMem_Free(k.record);
  pyArray_Release(in, 3);
  pyArray_Release(k.way, way_count);
  return result;
}
