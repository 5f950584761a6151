// The fields of MuJoCo's data as it leaves them after a step: computed with the step, shown when the environment asks for its
// own. What acts in a step beside the controls is read from the same data: wrenches, and where mocap bodies are.
// Tests: tests/python/test_gym.py, tests/python/test_gym_fields.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core.h"

static PyTypeObject *type_of_mirror;

// What is converted; after these stand the fields that are copied, then numbers of the model.
enum { to_xmat, to_cvel, to_cinert, to_cfrc_ext, to_sensordata, to_count };
enum { from_inertia, from_mass, from_qfrc, from_xfrc, from_mocap_pos, from_mocap_quat, from_count, from_inputs = from_qfrc };

typedef struct Mirror {
  PyObject_HEAD int copied, nbody;
  PyObject *names;  // of what is copied
  pyArray *to;      // to_count of what is converted, then those that are copied
  double *stage;    // the same, one after the other, of a step that was computed
  double *acted;    // the inputs that it was computed with, one after the other
  pyArray from[from_count];
  Py_buffer root, geom_body;  // body_rootid, geom_bodyid: int
  bool held;
  bool bodies;  // cfrc_ext is among what was computed
} Mirror;

static Py_ssize_t numbers(const Mirror *m, int i) { return m->to[i].view.len / (Py_ssize_t)sizeof(double); }
static Py_ssize_t given(const Mirror *m, int i) { return m->from[i].view.len / (Py_ssize_t)sizeof(double); }

static double *staged(const Mirror *m, int which) {
  double *at = m->stage;
  for (int i = 0; i < which; i++) at += numbers(m, i);
  return at;
}

static void mirror_dealloc(PyObject *self) {
  Mirror *m = (Mirror *)self;
  if (m->to) pyArray_Release(m->to, to_count + m->copied);
  pyArray_Release(m->from, from_count);
  if (m->held) {
    PyBuffer_Release(&m->root);
    PyBuffer_Release(&m->geom_body);
  }
  Py_XDECREF(m->names);
  PyMem_Free(m->to);
  PyMem_Free(m->stage);
  PyMem_Free(m->acted);

  PyTypeObject *type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// A whole array, however long.
static bool hold_any(PyObject *object, const char *name, bool write, pyArray *a) {
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_C_CONTIGUOUS) != 0) return false;
  Py_ssize_t count = view.len / (Py_ssize_t)sizeof(double);
  PyBuffer_Release(&view);
  return (write ? pyArray_Write : pyArray_Read)(object, count, name, a);
}

// A body for each row of `rows`, a tree's or a geom's.
static bool hold_bodies(PyObject *object, int nbody, Py_buffer *view) {
  if (PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS) != 0) return false;
  const int *body = view->buf;

  for (Py_ssize_t i = 0; i < view->len / (Py_ssize_t)sizeof(int); i++) {
    if (body[i] >= 0 && body[i] < nbody) continue;
    PyBuffer_Release(view);
    PyErr_SetString(PyExc_ValueError, "a body that there is not");
    return false;
  }
  return true;
}

static bool lengths_fit(const Mirror *m) {
  static const int to_width[to_count] = {9, 6, 10, 6, 0};
  bool fit = given(m, from_inertia) == 3 * (Py_ssize_t)m->nbody && given(m, from_xfrc) == 6 * (Py_ssize_t)m->nbody;
  for (int i = 0; i < to_sensordata; i++) fit = fit && numbers(m, i) == (Py_ssize_t)to_width[i] * m->nbody;
  if (!fit) PyErr_SetString(PyExc_ValueError, "arrays of other lengths than MuJoCo's");
  return fit;
}

// (names of what is copied, their arrays, (xmat, cvel, cinert, cfrc_ext, sensordata), (body_inertia, body_mass, qfrc_applied,
// xfrc_applied, mocap_pos, mocap_quat), body_rootid, geom_bodyid): arrays of MuJoCo's data and model.
static PyObject *mirror_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  (void)kwargs;
  PyObject *names, *copied, *converted, *model, *root, *geom_body;
  if (!PyArg_ParseTuple(args, "O!O!O!O!OO", &PyTuple_Type, &names, &PyTuple_Type, &copied, &PyTuple_Type, &converted,
                        &PyTuple_Type, &model, &root, &geom_body))
    return NULL;

  Mirror *m = (Mirror *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!m) return NULL;
  m->names = Py_NewRef(names);
  m->copied = (int)PyTuple_Size(copied);
  m->to = PyMem_Calloc((size_t)(to_count + m->copied), sizeof *m->to);

  bool right =
      m->to && PyTuple_Size(names) == m->copied && PyTuple_Size(converted) == to_count && PyTuple_Size(model) == from_count;
  if (!right) PyErr_SetString(PyExc_ValueError, "arrays are missing");

  // All lengths follow from what MuJoCo has.
  Py_ssize_t all = 1;
  for (int i = 0; right && i < to_count + m->copied; i++) {
    PyObject *one = i < to_count ? PyTuple_GetItem(converted, i) : PyTuple_GetItem(copied, i - to_count);
    right = hold_any(one, "MuJoCo's data", true, &m->to[i]);
    if (right) all += numbers(m, i);
  }
  for (int i = 0; right && i < from_count; i++) right = hold_any(PyTuple_GetItem(model, i), "MuJoCo's model", false, &m->from[i]);
  if (right) m->nbody = (int)(m->from[from_mass].view.len / (Py_ssize_t)sizeof(double));
  right = right && lengths_fit(m) && hold_bodies(root, m->nbody, &m->root);
  if (right && !hold_bodies(geom_body, m->nbody, &m->geom_body)) {
    PyBuffer_Release(&m->root);
    right = false;
  }
  m->held = right;

  Py_ssize_t inputs = 1;
  for (int i = from_inputs; right && i < from_count; i++) inputs += given(m, i);
  m->stage = right ? PyMem_Calloc((size_t)all, sizeof *m->stage) : NULL;
  m->acted = right ? PyMem_Calloc((size_t)inputs, sizeof *m->acted) : NULL;
  if (right && (!m->stage || !m->acted)) PyErr_NoMemory();
  if (!m->stage || !m->acted) Py_CLEAR(m);
  return (PyObject *)m;
}

// ---- conversions --------------------------------------------------------------------------------------------------------
static const double *field_of(const pbScratch *scratch, const char *name, int *rows) {
  const double *data;
  int cols;
  if (!pbScratch_Field(scratch, name, &data, rows, &cols)) return NULL;
  return data;
}

static void cross(const double a[3], const double b[3], double out[3]) {
  out[0] = a[1] * b[2] - a[2] * b[1];
  out[1] = a[2] * b[0] - a[0] * b[2];
  out[2] = a[0] * b[1] - a[1] * b[0];
}

static void rotation(const double q[4], double R[9]) {
  double w = q[0], x = q[1], y = q[2], z = q[3];
  const double all[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
                         2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                         2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
  memcpy(R, all, sizeof all);
}

// Ten numbers of a body: inertia about the center of its tree, mass times the way from there, mass.
static void spatial_inertia(const double *axes, const double *moment, double mass, const double way[3], double out[10]) {
  static const int place[6][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {0, 2}, {1, 2}};
  double square = way[0] * way[0] + way[1] * way[1] + way[2] * way[2];

  for (int k = 0; k < 6; k++) {
    int i = place[k][0], j = place[k][1];
    double sum = mass * ((i == j ? square : 0) - way[i] * way[j]);
    for (int c = 0; c < 3; c++) sum += axes[3 * i + c] * moment[c] * axes[3 * j + c];
    out[k] = sum;
  }
  for (int k = 0; k < 3; k++) out[6 + k] = mass * way[k];
  out[9] = mass;
}

// The forces of a contact on the body of a geom, about the center of mass of its tree.
static void push_body(const Mirror *m, const double *center, int geom, double sign, const double pos[3], const double f[3],
                      const double t[3]) {
  int body = ((const int *)m->geom_body.buf)[geom];
  if (!body) return;

  double arm[3], turn[3], *out = staged(m, to_cfrc_ext) + 6 * (Py_ssize_t)body;
  const double *about = center + 3 * (Py_ssize_t)((const int *)m->root.buf)[body];
  for (int k = 0; k < 3; k++) arm[k] = pos[k] - about[k];
  cross(arm, f, turn);
  for (int k = 0; k < 3; k++) {
    out[k] += sign * (t[k] + turn[k]);
    out[3 + k] += sign * f[k];
  }
}

// External forces on bodies: applied ones and those of contacts, as mj_rnePostConstraint sums them.
static void external_forces(const Mirror *m, const pbScratch *s, const double *center, const double *xipos) {
  double *out = staged(m, to_cfrc_ext);
  const int *root = m->root.buf;
  for (int b = 0; b < m->nbody; b++) {
    const double *applied = m->from[from_xfrc].data + 6 * (Py_ssize_t)b;
    double arm[3], turn[3];
    for (int k = 0; k < 3; k++) arm[k] = xipos[3 * b + k] - center[3 * root[b] + k];
    cross(arm, applied, turn);
    for (int k = 0; k < 3; k++) {
      out[6 * b + k] = b ? applied[3 + k] + turn[k] : 0;
      out[6 * b + 3 + k] = b ? applied[k] : 0;
    }
  }

  int count = 0;
  const double *pos = field_of(s, "contact_pos", &count), *frame = field_of(s, "contact_frame", &count);
  const double *geom = field_of(s, "contact_geom", &count), *force = field_of(s, "contact_force", &count);
  for (int c = 0; c < count; c++) {
    double f[3] = {0}, t[3] = {0};
    for (int axis = 0; axis < 3; axis++)
      for (int k = 0; k < 3; k++) {
        f[k] += force[6 * c + axis] * frame[9 * c + 3 * axis + k];
        t[k] += force[6 * c + 3 + axis] * frame[9 * c + 3 * axis + k];
      }
    push_body(m, center, (int)geom[2 * c], -1, pos + 3 * c, f, t);
    push_body(m, center, (int)geom[2 * c + 1], 1, pos + 3 * c, f, t);
  }
}

static void convert(const Mirror *m, const pbScratch *s) {
  int rows;
  const double *quat = field_of(s, "xquat", &rows), *velocity = field_of(s, "cvel", &rows),
               *center = field_of(s, "subtree_com", &rows);
  const double *axes = field_of(s, "ximat", &rows), *xipos = field_of(s, "xipos", &rows);
  double *xmat = staged(m, to_xmat), *cvel = staged(m, to_cvel), *cinert = staged(m, to_cinert);
  const int *root = m->root.buf;

  for (int b = 0; b < m->nbody; b++) {
    const double *about = center + 3 * root[b], *v = velocity + 6 * b;
    double way[3], moved[3];
    rotation(quat + 4 * b, xmat + 9 * b);

    // velocities and inertias about the center of mass of the tree
    cross(v, about, moved);
    for (int k = 0; k < 3; k++) {
      cvel[6 * b + k] = v[k];
      cvel[6 * b + 3 + k] = v[3 + k] + moved[k];
      way[k] = xipos[3 * b + k] - about[k];
    }
    spatial_inertia(axes + 9 * b, m->from[from_inertia].data + 3 * b, m->from[from_mass].data[b], way, cinert + 10 * b);
  }
  memset(cinert, 0, 10 * sizeof *cinert);
  if (m->bodies) external_forces(m, s, center, xipos);
}

// What was computed last, into the stage.
static bool take(Mirror *m, const pbScratch *scratch) {
  convert(m, scratch);

  double *at = staged(m, to_count);
  for (int i = 0; i < m->copied; i++) {
    const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(m->names, i), NULL);
    Py_ssize_t count = numbers(m, to_count + i);
    int rows, cols;
    const double *data;
    if (!name) return false;
    if (!pbScratch_Field(scratch, name, &data, &rows, &cols) || (Py_ssize_t)rows * cols != count) {
      PyErr_Format(PyExc_ValueError, "'%s' has other numbers in MuJoCo's data", name);
      return false;
    }
    if (count) memcpy(at, data, (size_t)count * sizeof *at);
    at += count;
  }
  return true;
}

// The model's bodies and geoms are those of the arrays.
static bool fits(const Mirror *m, const pyCompiled *c) {
  bool same = c->nbody == m->nbody && m->root.len == m->nbody * (Py_ssize_t)sizeof(int) &&
              numbers(m, to_sensordata) == c->nsensordata && given(m, from_qfrc) == c->nv &&
              given(m, from_mocap_pos) == 3 * (Py_ssize_t)c->nmocap && given(m, from_mocap_quat) == 4 * (Py_ssize_t)c->nmocap &&
              m->geom_body.len == pbModel_Size(c->model, "ngeom") * (Py_ssize_t)sizeof(int);
  if (!same) PyErr_SetString(PyExc_ValueError, "MuJoCo's data is of another model");
  return same;
}

// ---- what acts ------------------------------------------------------------------------------------------------------------
// -1: all are finite.
static Py_ssize_t first_bad(const double *x, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; i++)
    if (!isfinite(x[i])) return i;
  return -1;
}

static void refuse(const char *what, double value) {
  char text[400];
  snprintf(text, sizeof text, "%s is %s: expected a finite number", what, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
  pyStatus_Raise(pb_bad_argument, text);
}

static bool check_action(const pyCompiled *c, const double *ctrl) {
  Py_ssize_t bad = first_bad(ctrl, ctrl ? c->nu : 0);
  if (bad < 0) return true;

  char what[300];
  const char *name = pbModel_Name(c->model, pb_objActuator, (int)bad);
  if (name && *name) snprintf(what, sizeof what, "action: ctrl[%zd] (actuator '%.200s')", bad, name);
  else snprintf(what, sizeof what, "action: ctrl[%zd]", bad);
  refuse(what, ctrl[bad]);
  return false;
}

// Wrenches and mocap bodies as they are in the data now; noted, so that Acted can tell whether they changed since.
static bool read_inputs(Mirror *m, pbInput *input) {
  static const char *const name[from_count] = {[from_qfrc] = "qfrc_applied",
                                               [from_xfrc] = "xfrc_applied",
                                               [from_mocap_pos] = "mocap_pos",
                                               [from_mocap_quat] = "mocap_quat"};
  const double **to[from_count] = {[from_qfrc] = &input->qfrc,
                                   [from_xfrc] = &input->xfrc,
                                   [from_mocap_pos] = &input->mocap_pos,
                                   [from_mocap_quat] = &input->mocap_quat};
  double *at = m->acted;

  for (int i = from_inputs; i < from_count; i++) {
    Py_ssize_t count = given(m, i), bad = first_bad(m->from[i].data, count);
    if (bad >= 0) {
      char what[80];
      snprintf(what, sizeof what, "data.%s: number %zd of it", name[i], bad);
      refuse(what, m->from[i].data[bad]);
      return false;
    }

    // wrenches that are zero are none
    bool acts = i >= from_mocap_pos && count > 0;
    for (Py_ssize_t k = 0; k < count && !acts; k++) acts = m->from[i].data[k] != 0;
    if (count) memcpy(at, m->from[i].data, (size_t)count * sizeof *at);
    *to[i] = acts ? at : NULL;
    at += count;
  }
  return true;
}

// Whether what acts is what the staged step was computed with.
static PyObject *mirror_acted(PyObject *self, PyObject *none) {
  (void)none;
  const Mirror *m = (const Mirror *)self;
  const double *at = m->acted;
  bool same = true;
  for (int i = from_inputs; i < from_count; i++) {
    Py_ssize_t count = given(m, i);
    same = same && (count == 0 || memcmp(at, m->from[i].data, (size_t)count * sizeof *at) == 0);
    at += count;
  }
  return PyBool_FromLong(same);
}

// So many steps of a world in place, 0: an evaluation alone, into the stage of its mirror. False with an exception.
static bool advance_world(const pyModel *model, double *x, const double *ctrl, int steps, Mirror *m) {
  pyCompiled *c = model->compiled;
  pbInput input = {.ctrl = ctrl};
  if (!fits(m, c) || !check_action(c, ctrl) || !read_inputs(m, &input)) return false;

  pyWork *work = pyCompiled_Take(c);
  if (!work) return false;
  m->bodies = steps > 0;
  bool taken = pyModel_Advance(model, x, &input, steps, work, staged(m, to_sensordata)) && take(m, work->scratch);
  pyCompiled_Give(c, work);
  return taken;
}

// The exception that is set, as an object; it is no longer set. NULL: it stays.
static PyObject *catch_error(void) {
  PyObject *type, *error, *trace;
  if (pyErr_NoObject()) return NULL;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return error;
}

// (states, ctrl, steps, mirrors): a list of what went wrong in each world, None where nothing did. Worlds do not hear of each
// other.
PyObject *pyModel_Mirror(PyObject *self, PyObject *args) {
  const pyModel *model = (const pyModel *)self;
  const pyCompiled *c = model->compiled;
  PyObject *object[2], *mirrors, *result = NULL;
  pyArray states = {.held = false}, ctrl = {.held = false};
  int steps;
  if (!PyArg_ParseTuple(args, "OOiO!", &object[0], &object[1], &steps, &PyTuple_Type, &mirrors)) return NULL;
  Py_ssize_t worlds = PyTuple_Size(mirrors);
  if (!pyArray_Write(object[0], worlds * c->nx, "state", &states) || !pyArray_Read(object[1], worlds * c->nu, "ctrl", &ctrl))
    goto done;

  result = PyList_New(0);
  for (Py_ssize_t w = 0; result && w < worlds; w++) {
    PyObject *m = PyTuple_GetItem(mirrors, w), *error = NULL;
    if (!PyObject_TypeCheck(m, type_of_mirror)) PyErr_SetString(PyExc_TypeError, "expected mirrors");
    else if (!advance_world(model, states.data + w * c->nx, ctrl.data ? ctrl.data + w * c->nu : NULL, steps, (Mirror *)m))
      error = catch_error();
    if (PyErr_Occurred() || PyList_Append(result, error ? error : Py_None) != 0) Py_CLEAR(result);
    Py_XDECREF(error);
  }

done:
  pyArray_Release(&states, 1);
  pyArray_Release(&ctrl, 1);
  return result;
}

// Into MuJoCo's data; of an evaluation without a step cfrc_ext stays, as mj_forward leaves it.
static PyObject *mirror_show(PyObject *self, PyObject *none) {
  (void)none;
  const Mirror *m = (const Mirror *)self;
  const double *at = m->stage;
  for (int i = 0; i < to_count + m->copied; i++) {
    Py_ssize_t count = numbers(m, i);
    if (count && (i != to_cfrc_ext || m->bodies)) memcpy(m->to[i].data, at, (size_t)count * sizeof *at);
    at += count;
  }
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"show", mirror_show, METH_NOARGS, "What was computed last, into MuJoCo's data."},
                                {"acted", mirror_acted, METH_NOARGS, "Whether what acts is what it was computed with."},
                                {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, mirror_new},
                              {Py_tp_dealloc, mirror_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, (char *)"The fields of MuJoCo's data as it leaves them after a step."},
                              {0, NULL}};
static PyType_Spec spec = {"pullback._core.Mirror", sizeof(Mirror), 0, Py_TPFLAGS_DEFAULT, slots};

bool pyMirror_Register(PyObject *module) {
  type_of_mirror = (PyTypeObject *)PyType_FromSpec(&spec);
  return type_of_mirror && PyModule_AddType(module, type_of_mirror) == 0;
}
