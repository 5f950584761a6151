// Plans of a task that are made again and again. Tests: tests/python/test_mpc.py.
#include <string.h>

#include "core.h"

typedef struct pyMpc {
  PyObject_HEAD pbContext *ctx;
  pbTask *task;
  pbMpc *mpc;
  pbPool *pool;             // NULL: the caller's thread alone
  PyThread_type_lock lock;  // one call at a time
} pyMpc;

static void mpc_dealloc(PyObject *self) {
  pyMpc *p = (pyMpc *)self;
  pbMpc_Destroy(p->mpc);
  pbTask_Destroy(p->task);
  pbPool_Destroy(p->pool);
  pbContext_Destroy(p->ctx);
  if (p->lock) PyThread_free_lock(p->lock);

  PyTypeObject *type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// (path, roots, threads; 0: as many as there are processors)
static PyObject *mpc_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  (void)kwargs;
  const char *path, *roots;
  int threads;
  if (!PyArg_ParseTuple(args, "szi", &path, &roots, &threads)) return NULL;
  pyMpc *p = (pyMpc *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!p) return NULL;
  p->ctx = pbContext_Create(NULL);
  p->lock = PyThread_allocate_lock();
  if (!p->ctx || !p->lock) {
    Py_DECREF(p);
    return PyErr_NoMemory();
  }

  pbStatus status;
  Py_BEGIN_ALLOW_THREADS;
  status = pbTask_Load(p->ctx, path, roots, &p->task);
  if (status == pb_ok && threads != 1) status = pbPool_Create(p->ctx, threads, &p->pool);
  if (status == pb_ok) status = pbTask_UsePool(p->task, p->pool);
  if (status == pb_ok) status = pbMpc_Create(p->ctx, p->task, &p->mpc);
  Py_END_ALLOW_THREADS;
  if (status == pb_ok) return (PyObject *)p;

  pyStatus_Raise(status, pbContext_Error(p->ctx));
  Py_DECREF(p);
  return NULL;
}

// [(name, first number, numbers)] of a state, the initial state, steps, nu, size of the tangent space, time step
static PyObject *mpc_layout(PyObject *self, PyObject *none) {
  const pyMpc *p = (pyMpc *)self;
  const pbModel *m = pbTask_Model(p->task);
  pbMpcPlan plan = pbMpc_Get(p->mpc);
  (void)none;
  int count = pbModel_StateFieldCount(m);
  PyObject *fields = PyList_New(count);
  if (!fields) return NULL;
  for (int i = 0; i < count; i++) {
    pbStateField f = pbModel_StateFieldAt(m, i);
    PyObject *one = Py_BuildValue("sii", f.name, f.offset, f.size);
    if (one && PyList_SetItem(fields, i, one) == 0) continue;
    Py_DECREF(fields);
    return NULL;
  }
  return Py_BuildValue("NNiiid", fields, pyMemory_Copy(pbTask_InitialState(p->task, 0), (size_t)plan.nx * sizeof(double)),
                       plan.steps, plan.nu, plan.n, plan.timestep);
}

// (elapsed, state, iterations, seconds): (iterations, loss, loss of the guess, seconds, of phases, late, converged)
static PyObject *mpc_plan(PyObject *self, PyObject *args) {
  pyMpc *p = (pyMpc *)self;
  double elapsed;
  pbMpcLimits limits;
  pbMpcNews news = {0};
  PyObject *state;
  pyArray x = {.held = false};
  pbStatus status = pb_ok;
  if (!PyArg_ParseTuple(args, "dOid", &elapsed, &state, &limits.iterations, &limits.seconds)) return NULL;
  if (!pyArray_Read(state, pbMpc_Get(p->mpc).nx, "state", &x)) return NULL;

  bool taken = pyLock_Take(p->lock);
  if (taken) {
    Py_BEGIN_ALLOW_THREADS;
    status = pbMpc_Plan(p->mpc, elapsed, x.data, &limits, &news);
    Py_END_ALLOW_THREADS;
    if (status != pb_ok) pyStatus_Raise(status, pbContext_Error(p->ctx));
    PyThread_release_lock(p->lock);
  }
  pyArray_Release(&x, 1);
  if (!taken || status != pb_ok) return NULL;

  return Py_BuildValue("iddddddNN", news.iterations, news.loss, news.guess_loss, news.seconds, news.linearize_seconds,
                       news.plan_seconds, news.run_seconds, PyBool_FromLong(news.late), PyBool_FromLong(news.converged));
}

// (time, state, ctrl)
static PyObject *mpc_feedback(PyObject *self, PyObject *args) {
  pyMpc *p = (pyMpc *)self;
  double time;
  PyObject *state, *ctrl;
  pyArray in[2] = {{.held = false}};
  if (!PyArg_ParseTuple(args, "dOO", &time, &state, &ctrl)) return NULL;

  pbMpcPlan plan = pbMpc_Get(p->mpc);
  bool right =
      pyArray_Read(state, plan.nx, "state", &in[0]) && pyArray_Write(ctrl, plan.nu, "ctrl", &in[1]) && pyLock_Take(p->lock);
  if (right) {
    pbMpc_Feedback(p->mpc, time, in[0].data, in[1].data);
    PyThread_release_lock(p->lock);
  }
  pyArray_Release(in, 2);
  if (!right) return NULL;
  Py_RETURN_NONE;
}

// (controls, states, gains, age, plans, failed)
static PyObject *mpc_get(PyObject *self, PyObject *none) {
  pyMpc *p = (pyMpc *)self;
  (void)none;
  if (!pyLock_Take(p->lock)) return NULL;
  pbMpcPlan plan = pbMpc_Get(p->mpc);
  size_t steps = (size_t)plan.steps, controls = steps * (size_t)plan.nu;
  PyObject *told =
      Py_BuildValue("NNNdii", pyMemory_Copy(plan.ctrl, controls * sizeof(double)),
                    pyMemory_Copy(plan.states, (steps + 1) * (size_t)plan.nx * sizeof(double)),
                    pyMemory_Copy(plan.gain, controls * (size_t)plan.n * sizeof(double)), plan.age, plan.plans, plan.failed);
  PyThread_release_lock(p->lock);
  return told;
}

static PyMethodDef methods[] = {{"layout", mpc_layout, METH_NOARGS, "Sizes and the initial state."},
                                {"plan", mpc_plan, METH_VARARGS, "A plan from a state."},
                                {"feedback", mpc_feedback, METH_VARARGS, "Controls at a state."},
                                {"get", mpc_get, METH_NOARGS, "The plan."},
                                {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, mpc_new},
                              {Py_tp_dealloc, mpc_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, (char *)"Plans of a task from state after state."},
                              {0, NULL}};
static PyType_Spec spec = {"pullback._core.Mpc", sizeof(pyMpc), 0, Py_TPFLAGS_DEFAULT, slots};

bool pyMpc_Register(PyObject *module) {
  PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(&spec);
  return type && PyModule_AddType(module, type) == 0;
}
