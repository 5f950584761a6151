// Rollouts of batches: the tape that a Rollout of Python keeps, and its derivatives.
//
// A tape is a batch with the working memory of each thread, some hundred times what a step leaves to know. A graph of many short
// rollouts parks each (Park): the tape goes to the next one, and a derivative takes one from the model and runs the rollout again
// from its inputs, to the same bits.
// Tests: tests/python/test_contract.py, tests/python/test_torch.py.
#include <stdatomic.h>
#include <string.h>

#include "core.h"

PyTypeObject *pyRun_Type;

enum {
  in_theta,
  in_x0,
  in_own,
  in_ctrl,
  in_qfrc,
  in_xfrc,
  in_command,
  in_mocap_pos,
  in_mocap_quat,
  in_mocap_vel,
  in_pos_before,
  in_quat_before,
  in_count
};

typedef struct Run {
  PyObject_HEAD pyCompiled *compiled;
  pyTape *tape;  // NULL: parked; whose are:
  pbContext *ctx;
  pbBatch *batch;
  pbBatchOptions options;  // of the tape, but for the names in `own`
  PyObject *own;
  Py_ssize_t own_size;  // of a world
  bool derive;          // constants of each world
  bool spoiled;         // by constants derived in it, or a call that failed
  bool ran;             // the tape is of its own rollout, not of one before whose arrays are gone
  pyPool *pool;
  int worlds, steps;
  unsigned shared;          // pb_sharedCtrl, ...
  pyArray input[in_count];  // held from Forward on: derivatives read them again
  PyObject *progress;
  double told;        // s, of the call at hand: when it has heard last
  const char *phase;  // of which; NULL: of none yet
} Run;

static Py_ssize_t rows_of(const Run *r, unsigned bit, Py_ssize_t width) {
  return (r->shared & bit ? 1 : r->worlds) * (Py_ssize_t)r->steps * width;
}

static PyObject *fail(Run *r, pbStatus status) {
  r->spoiled = true;
  return pyStatus_Raise(status, pbContext_Error(r->ctx));
}

static bool has_run(const Run *r) {
  if (!r->ran) PyErr_SetString(PyExc_ValueError, "derivatives need a rollout before them");
  return r->ran;
}

// For pbBatch_OnProgress: nonzero where a signal's handler raised, or whoever hears of progress, at most ten times a second.
static int tell_progress(void *user, const pbProgress *p) {
  static const double interval = 0.1;  // s
  Run *r = user;
  PyGILState_STATE gil = PyGILState_Ensure();
  int stop = PyErr_CheckSignals();

  if (stop == 0 && r->progress && (r->phase != p->phase || p->seconds - r->told >= interval)) {
    r->told = p->seconds;
    r->phase = p->phase;
    PyObject *answer =
        PyObject_CallFunction(r->progress, "sLLdd", p->phase, (long long)p->done, (long long)p->total, p->seconds, p->left);
    stop = answer ? 0 : -1;
    Py_XDECREF(answer);
  }

  PyGILState_Release(gil);
  return stop;
}

static PyObject *run_bytes(PyObject *self, PyObject *none) {
  (void)none;
  const Run *r = (Run *)self;
  return PyLong_FromSize_t(r->tape ? atomic_load(&r->tape->bytes) : 0);
}

// ---- creation ---------------------------------------------------------------------------------------------------------
// A progress function may hold the rollout that this belongs to.
static int run_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((Run *)self)->progress);
  return 0;
}

static void run_dealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  Run *r = (Run *)self;
  if (r->compiled) pyTape_Give(r->compiled, r->tape, r->spoiled);
  pyArray_Release(r->input, in_count);
  Py_XDECREF(r->own);
  Py_XDECREF(r->progress);
  Py_XDECREF((PyObject *)r->compiled);

  PyTypeObject *type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// Texts of a tuple, which keeps them alive; NULL with an exception.
static const char **texts_of(PyObject *tuple) {
  Py_ssize_t count = PyTuple_Size(tuple);
  if (count < 0) return NULL;
  const char **text = PyMem_Calloc((size_t)count + 1, sizeof *text);
  if (!text) return (const char **)PyErr_NoMemory();

  for (Py_ssize_t i = 0; i < count; i++) {
    text[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, i), NULL);
    if (!text[i]) {
      PyMem_Free(text);
      return NULL;
    }
  }
  return text;
}

// A tape of its shape, while its pool is held.
static bool take_tape(Run *r) {
  const char **names = texts_of(r->own);
  if (!names) return false;
  pbBatchOptions options = r->options;
  options.own = names;
  options.own_count = (int)PyTuple_Size(r->own);
  r->tape = pyTape_Take(r->compiled, &options);
  PyMem_Free(names);
  if (!r->tape) return false;

  r->ctx = r->tape->ctx;
  r->batch = r->tape->batch;
  r->spoiled = false;
  r->own_size = (Py_ssize_t)pbBatch_OwnSize(r->batch);
  pbBatch_OnProgress(r->batch, tell_progress, r);
  return true;
}

static PyObject *run_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static const char *const words[] = {"compiled", "worlds", "steps",   "threads",  "keep", "shared_inputs",
                                      "own",      "budget", "partial", "progress", NULL};
  PyObject *compiled, *own, *progress;
  int worlds, steps, threads, keep, shared_inputs, partial;
  Py_ssize_t budget;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!iiippO!npO", (char **)words, pyCompiled_Type, &compiled, &worlds, &steps,
                                   &threads, &keep, &shared_inputs, &PyTuple_Type, &own, &budget, &partial, &progress))
    return NULL;
  Run *r = (Run *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!r) return NULL;
  r->compiled = (pyCompiled *)Py_NewRef(compiled);
  r->worlds = worlds;
  r->steps = steps;
  r->own = Py_NewRef(own);
  r->progress = progress == Py_None ? NULL : Py_NewRef(progress);

  r->pool = pyPool_Of(worlds == 1 ? 1 : threads);
  if (!r->pool || !pyPool_Lock(r->pool)) {
    Py_CLEAR(r);
    return NULL;
  }
  r->options = (pbBatchOptions){.worlds = worlds,
                                .pool = r->pool->pool,
                                .steps = keep ? steps : 0,
                                .budget = budget > 0 ? (size_t)budget : 1,
                                .partial = keep && partial,
                                .shared_inputs = shared_inputs};
  bool taken = take_tape(r);
  pyPool_Unlock(r->pool);
  if (!taken) Py_CLEAR(r);
  return (PyObject *)r;
}

// Columns of own values: name, first column, rows, columns. Before it is parked.
static PyObject *run_own(PyObject *self, PyObject *none) {
  (void)none;
  const Run *r = (const Run *)self;
  PyObject *list = PyList_New(0);
  Py_ssize_t at = 0, size = r->tape ? r->own_size : 0;

  for (int i = 0; list && at < size; i++) {
    size_t column;
    pbParam p = pbBatch_OwnAt(r->batch, i, &column);
    PyObject *one = Py_BuildValue("sniin", p.name, (Py_ssize_t)column, p.rows, p.cols, (Py_ssize_t)p.offset);
    if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
    at = (Py_ssize_t)column + (Py_ssize_t)p.rows * p.cols;
  }
  return list;
}

// ---- forward ------------------------------------------------------------------------------------------------------------
static pbBatchInput inputs_of(const Run *r) {
  return (pbBatchInput){.ctrl = r->input[in_ctrl].data,
                        .qfrc = r->input[in_qfrc].data,
                        .xfrc = r->input[in_xfrc].data,
                        .command = r->input[in_command].data,
                        .mocap_pos = r->input[in_mocap_pos].data,
                        .mocap_quat = r->input[in_mocap_quat].data,
                        .mocap_vel = r->input[in_mocap_vel].data,
                        .mocap_pos_before = r->input[in_pos_before].data,
                        .mocap_quat_before = r->input[in_quat_before].data,
                        .shared = r->shared};
}

// Poses before the first step: one row.
static Py_ssize_t before_of(const Run *r, Py_ssize_t width) { return (r->shared & pb_sharedMocap ? 1 : r->worlds) * width; }

static bool hold_inputs(Run *r, PyObject *dict) {
  const pyCompiled *c = r->compiled;
  const Py_ssize_t worlds = r->worlds, bodies = c->nmocap;
  const pyMember member[in_count] = {
      [in_theta] = {"theta", c->ntheta},
      [in_x0] = {"state", worlds * c->nx},
      [in_own] = {"own", worlds * r->own_size},
      [in_ctrl] = {"ctrl", rows_of(r, pb_sharedCtrl, c->nu)},
      [in_qfrc] = {"qfrc_applied", rows_of(r, pb_sharedQfrc, c->nv)},
      [in_xfrc] = {"xfrc_applied", rows_of(r, pb_sharedXfrc, 6 * (Py_ssize_t)c->nbody)},
      [in_command] = {"command", rows_of(r, pb_sharedCommand, c->commands)},
      [in_mocap_pos] = {"mocap_pos", rows_of(r, pb_sharedMocap, 3 * bodies)},
      [in_mocap_quat] = {"mocap_quat", rows_of(r, pb_sharedMocap, 4 * bodies)},
      [in_mocap_vel] = {"mocap_vel", rows_of(r, pb_sharedMocap, 6 * bodies)},
      [in_pos_before] = {"mocap_pos_before", before_of(r, 3 * bodies)},
      [in_quat_before] = {"mocap_quat_before", before_of(r, 4 * bodies)},
  };

  r->ran = false;
  pyArray_Release(r->input, in_count);
  if (!pyMembers_Read(dict, in_count, member, r->input)) return false;
  if (r->input[in_theta].data && r->input[in_x0].data) return true;
  PyErr_SetString(PyExc_TypeError, "a rollout needs parameters and a state");
  return false;
}

// What is written of every state, so many times over. size: of the states themselves, or of their tangents.
enum { seen_states, seen_sensordata, seen_xpos, seen_site_xpos, seen_count };
static bool hold_seen(const Run *r, PyObject *dict, Py_ssize_t size, int times, pyArray seen[seen_count]) {
  const pyCompiled *c = r->compiled;
  const Py_ssize_t rows = (Py_ssize_t)r->worlds * (r->steps + 1) * times;
  const pyMember member[seen_count] = {
      [seen_states] = {"states", rows * size},
      [seen_sensordata] = {"sensordata", rows * c->nsensordata},
      [seen_xpos] = {"xpos", rows * 3 * c->nbody},
      [seen_site_xpos] = {"site_xpos", rows * 3 * c->nsite},
  };
  return pyMembers_Write(dict, seen_count, member, seen);
}

static pbStatus roll_out(const Run *r, const pbBatchOutput *output) {
  const pbBatchInput input = inputs_of(r);
  const double *theta = r->input[in_theta].data, *own = r->input[in_own].data;

  if (own) memcpy(pbBatch_Own(r->batch), own, (size_t)(r->worlds * r->own_size) * sizeof(double));
  if (r->derive) PB_TRY(pbBatch_Derive(r->batch, theta, NULL, 0));
  PB_TRY(pbBatch_Reset(r->batch, theta, NULL, 0, -1, r->input[in_x0].data));
  return pbBatch_Rollout(r->batch, theta, NULL, 0, r->steps, &input, output);
}

// (inputs, shared, derive, outputs, steps_done): worlds that failed. inputs, outputs: arrays by the names above; steps_done: a
// writable array of int32.
static PyObject *run_forward(PyObject *self, PyObject *args) {
  Run *r = (Run *)self;
  PyObject *inputs, *outputs, *counts, *result = NULL;
  int derive;
  Py_buffer done;
  pyArray seen[seen_count] = {{.held = false}};

  // "w*" would take want of memory for an object of another type
  if (!PyArg_ParseTuple(args, "OIpOO", &inputs, &r->shared, &derive, &outputs, &counts)) return NULL;
  if (PyObject_GetBuffer(counts, &done, PyBUF_WRITABLE) != 0) return NULL;

  if (done.len != r->worlds * (Py_ssize_t)sizeof(int)) {
    PyErr_SetString(PyExc_ValueError, "steps_done: expected one int32 for each world");
    goto done;
  }
  if (!hold_inputs(r, inputs) || !hold_seen(r, outputs, r->compiled->nx, 1, seen) || !pyPool_Lock(r->pool)) goto done;
  const pbBatchOutput output = {.states = seen[seen_states].data,
                                .sensordata = seen[seen_sensordata].data,
                                .xpos = seen[seen_xpos].data,
                                .site_xpos = seen[seen_site_xpos].data,
                                .steps_done = done.buf};
  pbStatus status;
  r->phase = NULL;
  r->derive = derive;
  r->spoiled = r->spoiled || derive;
  Py_BEGIN_ALLOW_THREADS;
  status = roll_out(r, &output);
  r->ran = true;
  Py_END_ALLOW_THREADS;
  pyPool_Unlock(r->pool);

  // Failed worlds are told apart by whoever asked; whatever else went wrong is an error.
  int failed = pbBatch_Failed(r->batch);
  r->spoiled = r->spoiled || failed > 0;
  result = status == pb_ok || (failed > 0 && status != pb_interrupted) ? PyLong_FromLong(failed) : fail(r, status);

done:
  pyArray_Release(seen, seen_count);
  PyBuffer_Release(&done);
  return result;
}

// ---- parked rollouts ------------------------------------------------------------------------------------------------------
static PyObject *run_park(PyObject *self, PyObject *none) {
  (void)none;
  Run *r = (Run *)self;
  if (r->tape) pyTape_Give(r->compiled, r->tape, r->spoiled);
  r->tape = NULL;
  r->batch = NULL;
  r->ctx = NULL;
  Py_RETURN_NONE;
}

// Before a derivative: the tape is there, and of its own rollout. False with an exception.
static bool unpark(Run *r) {
  r->phase = NULL;
  if (!has_run(r)) return false;
  if (r->tape) return true;
  if (!pyPool_Lock(r->pool)) return false;

  pbStatus status = pb_ok;
  bool taken = take_tape(r);
  if (taken) {
    r->spoiled = r->derive;
    Py_BEGIN_ALLOW_THREADS;
    status = roll_out(r, &(pbBatchOutput){0});
    Py_END_ALLOW_THREADS;
  }
  pyPool_Unlock(r->pool);
  if (!taken) return false;

  // Worlds that failed do so again, where they may.
  int failed = pbBatch_Failed(r->batch);
  r->spoiled = r->spoiled || failed > 0;
  if (status == pb_ok || (failed > 0 && status != pb_interrupted)) return true;
  fail(r, status);
  Py_XDECREF(run_park((PyObject *)r, NULL));
  return false;
}

static PyObject *run_status(PyObject *self, PyObject *object) {
  const Run *r = (const Run *)self;
  long world = PyLong_AsLong(object);
  if (world == -1 && PyErr_Occurred()) return NULL;
  if (world < 0 || world >= r->worlds || !r->tape) return PyErr_Format(PyExc_IndexError, "world %ld of %d", world, r->worlds);
  return Py_BuildValue("is", (int)pbBatch_Status(r->batch)[world], pbBatch_Error(r->batch, (int)world));
}

// ---- derivatives ----------------------------------------------------------------------------------------------------------
static PyObject *run_choose(PyObject *self, PyObject *args) {
  Run *r = (Run *)self;
  PyObject *names_object;
  const char *kind_name;
  pbGradientKind kind;
  if (!PyArg_ParseTuple(args, "sO!", &kind_name, &PyTuple_Type, &names_object)) return NULL;
  if (!pbGradientKind_Named(kind_name, &kind))
    return PyErr_Format(PyExc_ValueError, "gradient: expected exact, event or smooth, found %s", kind_name);
  const char **names = unpark(r) ? texts_of(names_object) : NULL;
  if (!names) return NULL;

  pbStatus status = pyTape_Choose(r->tape, kind, names, (int)PyTuple_Size(names_object));
  PyMem_Free(names);
  if (status != pb_ok) return fail(r, status);
  Py_RETURN_NONE;
}

enum { bar_qpos, bar_qvel, bar_act, bar_sensordata, bar_xpos, bar_site_xpos, bar_x, bar_count };
// Cotangents of the last state, (worlds, width), and of all states, (worlds, steps + 1, width). Of a quantity at most one.
typedef struct Cotangents {
  pyArray last[bar_count], all[bar_count];
} Cotangents;

static bool hold_cotangents(const Run *r, PyObject *last, PyObject *all, Cotangents *held, pbRolloutBar *bar) {
  const pyCompiled *c = r->compiled;
  pyMember member[bar_count] = {
      [bar_qpos] = {"qpos", c->nv},
      [bar_qvel] = {"qvel", c->nv},
      [bar_act] = {"act", c->na},
      [bar_sensordata] = {"sensordata", c->nsensordata},
      [bar_xpos] = {"xpos", 3 * (Py_ssize_t)c->nbody},
      [bar_site_xpos] = {"site_xpos", 3 * (Py_ssize_t)c->nsite},
      [bar_x] = {"state", c->n},
  };
  pbCotangent *const to[bar_count] = {&bar->qpos, &bar->qvel, &bar->act, &bar->sensordata, &bar->xpos, &bar->site_xpos, &bar->x};

  for (int i = 0; i < bar_count; i++) member[i].count *= r->worlds;
  if (!pyMembers_Read(last, bar_count, member, held->last)) return false;
  for (int i = 0; i < bar_count; i++) member[i].count *= r->steps + 1;
  if (!pyMembers_Read(all, bar_count, member, held->all)) return false;

  for (int i = 0; i < bar_count; i++) {
    *to[i] = held->all[i].data ? (pbCotangent){.data = held->all[i].data, .count = r->steps + 1}
                               : (pbCotangent){.data = held->last[i].data, .count = held->last[i].data ? 1 : 0};
  }
  return true;
}

// What derivatives are by: gradients to be added to, directions to be read.
enum {
  by_state,
  by_ctrl,
  by_qfrc,
  by_xfrc,
  by_command,
  by_mocap_pos,
  by_mocap_rot,
  by_mocap_vel,
  by_pos_before,
  by_rot_before,
  by_theta,
  by_own,
  by_count
};

static void members_by(const Run *r, pyMember member[by_count]) {
  const pyCompiled *c = r->compiled;
  const Py_ssize_t worlds = r->worlds, bodies = c->nmocap;
  member[by_state] = (pyMember){"state", worlds * c->n};
  member[by_ctrl] = (pyMember){"ctrl", rows_of(r, pb_sharedCtrl, c->nu)};
  member[by_qfrc] = (pyMember){"qfrc_applied", rows_of(r, pb_sharedQfrc, c->nv)};
  member[by_xfrc] = (pyMember){"xfrc_applied", rows_of(r, pb_sharedXfrc, 6 * (Py_ssize_t)c->nbody)};
  member[by_command] = (pyMember){"command", rows_of(r, pb_sharedCommand, c->commands)};
  member[by_mocap_pos] = (pyMember){"mocap_pos", rows_of(r, pb_sharedMocap, 3 * bodies)};
  member[by_mocap_rot] = (pyMember){"mocap_rot", rows_of(r, pb_sharedMocap, 3 * bodies)};
  member[by_mocap_vel] = (pyMember){"mocap_vel", rows_of(r, pb_sharedMocap, 6 * bodies)};
  member[by_pos_before] = (pyMember){"mocap_pos_before", before_of(r, 3 * bodies)};
  member[by_rot_before] = (pyMember){"mocap_rot_before", before_of(r, 3 * bodies)};
  member[by_theta] = (pyMember){"theta", c->ntheta};
  member[by_own] = (pyMember){"own", worlds * r->own_size};
}

static PyObject *pull(Run *r, const pbRolloutBar *bar, const pbVjpOptions *options, const pbBatchGradient *gradient) {
  pbCertificate *certificate = PyMem_Calloc((size_t)r->worlds, sizeof *certificate);
  if (!certificate) return PyErr_NoMemory();
  pbStatus status;

  if (!unpark(r) || !pyPool_Lock(r->pool)) {
    PyMem_Free(certificate);
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS;
  status = pbBatch_Vjp(r->batch, bar, options, gradient, certificate);
  Py_END_ALLOW_THREADS;
  pyPool_Unlock(r->pool);

  PyObject *result = status == pb_ok ? pyCertificates_List(certificate, r->worlds) : fail(r, status);
  PyMem_Free(certificate);
  return result;
}

// (cotangents of the last state, cotangents of all states, gradients, check, seed, decay, window, clip): certificates. The first
// three are arrays by their names; gradients are added to.
static PyObject *run_vjp(PyObject *self, PyObject *args) {
  Run *r = (Run *)self;
  PyObject *last, *all, *gradients, *result = NULL;
  int check;
  unsigned long long seed;
  pbVjpOptions options = {0};
  if (!PyArg_ParseTuple(args, "OOOiKddd", &last, &all, &gradients, &check, &seed, &options.decay, &options.window, &options.clip))
    return NULL;
  options.spot_check = (pbSpotCheck)check;
  options.seed = seed;

  Cotangents cotangents;
  memset(&cotangents, 0, sizeof cotangents);
  pyArray out[by_count] = {{.held = false}};
  pyMember member[by_count];
  pbRolloutBar bar = {0};
  members_by(r, member);
  if (hold_cotangents(r, last, all, &cotangents, &bar) && pyMembers_Write(gradients, by_count, member, out)) {
    const pbBatchGradient gradient = {.x0 = out[by_state].data,
                                      .ctrl = out[by_ctrl].data,
                                      .qfrc = out[by_qfrc].data,
                                      .xfrc = out[by_xfrc].data,
                                      .command = out[by_command].data,
                                      .mocap_pos = out[by_mocap_pos].data,
                                      .mocap_rot = out[by_mocap_rot].data,
                                      .mocap_vel = out[by_mocap_vel].data,
                                      .mocap_pos_before = out[by_pos_before].data,
                                      .mocap_rot_before = out[by_rot_before].data,
                                      .theta = out[by_theta].data,
                                      .own = out[by_own].data};
    result = pull(r, &bar, &options, &gradient);
  }

  pyArray_Release(cotangents.last, bar_count);
  pyArray_Release(cotangents.all, bar_count);
  pyArray_Release(out, by_count);
  return result;
}

// (directions, tangents, count), arrays by their names: tangents of all states along `count` directions a world.
static PyObject *run_jvp(PyObject *self, PyObject *args) {
  Run *r = (Run *)self;
  PyObject *directions, *tangents, *result = NULL;
  int count;
  if (!PyArg_ParseTuple(args, "OOi", &directions, &tangents, &count)) return NULL;
  if (count < 1) return PyErr_Format(PyExc_ValueError, "directions: expected 1 or more, found %d", count);

  pyArray way[by_count] = {{.held = false}}, seen[seen_count] = {{.held = false}};
  pyMember member[by_count];
  members_by(r, member);
  for (int i = 0; i < by_count; i++) member[i].count *= count;
  if (!pyMembers_Read(directions, by_count, member, way) || !hold_seen(r, tangents, r->compiled->n, count, seen) || !unpark(r) ||
      !pyPool_Lock(r->pool))
    goto done;

  const pbBatchDirection direction = {.x0 = way[by_state].data,
                                      .ctrl = way[by_ctrl].data,
                                      .qfrc = way[by_qfrc].data,
                                      .xfrc = way[by_xfrc].data,
                                      .command = way[by_command].data,
                                      .mocap_pos = way[by_mocap_pos].data,
                                      .mocap_rot = way[by_mocap_rot].data,
                                      .mocap_vel = way[by_mocap_vel].data,
                                      .mocap_pos_before = way[by_pos_before].data,
                                      .mocap_rot_before = way[by_rot_before].data,
                                      .theta = way[by_theta].data,
                                      .own = way[by_own].data};
  const pbBatchTangent tangent = {.x = seen[seen_states].data,
                                  .sensordata = seen[seen_sensordata].data,
                                  .xpos = seen[seen_xpos].data,
                                  .site_xpos = seen[seen_site_xpos].data};
  pbStatus status;
  Py_BEGIN_ALLOW_THREADS;
  status = pbBatch_JvpAlong(r->batch, count, &direction, &tangent);
  Py_END_ALLOW_THREADS;
  pyPool_Unlock(r->pool);
  result = status == pb_ok ? Py_NewRef(Py_None) : fail(r, status);

done:
  pyArray_Release(way, by_count);
  pyArray_Release(seen, seen_count);
  return result;
}

// Second derivatives of the worlds: cotangents and their changes by states, each of the last or of all.
typedef struct Second {
  Cotangents bar, tangent;
  pbRolloutBar bars, tangents;
  pyArray way[by_count], out[by_count];
} Second;

static bool hold_second(Run *r, PyObject *const given[6], Second *s) {
  pyMember member[by_count];
  members_by(r, member);
  return hold_cotangents(r, given[0], given[1], &s->bar, &s->bars) &&
         hold_cotangents(r, given[2], given[3], &s->tangent, &s->tangents) &&
         pyMembers_Read(given[4], by_count, member, s->way) && pyMembers_Write(given[5], by_count, member, s->out);
}

static void release_second(Second *s) {
  pyArray_Release(s->bar.last, bar_count);
  pyArray_Release(s->bar.all, bar_count);
  pyArray_Release(s->tangent.last, bar_count);
  pyArray_Release(s->tangent.all, bar_count);
  pyArray_Release(s->way, by_count);
  pyArray_Release(s->out, by_count);
}

// (cotangents of the last state, of all states, their changes likewise, directions, results): arrays by their names; results are
// added to. What has no second derivatives is unsupported, by name.
static PyObject *run_second(PyObject *self, PyObject *args) {
  Run *r = (Run *)self;
  PyObject *given[6], *result = NULL;
  if (!PyArg_ParseTuple(args, "OOOOOO", &given[0], &given[1], &given[2], &given[3], &given[4], &given[5])) return NULL;

  Second s;
  memset(&s, 0, sizeof s);
  if (!hold_second(r, given, &s) || !unpark(r) || !pyPool_Lock(r->pool)) goto done;
  const pbBatchDirection direction = {.x0 = s.way[by_state].data,
                                      .ctrl = s.way[by_ctrl].data,
                                      .qfrc = s.way[by_qfrc].data,
                                      .xfrc = s.way[by_xfrc].data,
                                      .theta = s.way[by_theta].data,
                                      .own = s.way[by_own].data};
  const pbBatchSecond second = {
      .direction = &direction,
      .bar = &s.bars,
      .bar_tangent = &s.tangents,
      .gradient = {
          .x0 = s.out[by_state].data, .ctrl = s.out[by_ctrl].data, .qfrc = s.out[by_qfrc].data, .xfrc = s.out[by_xfrc].data}};
  pbStatus status;
  Py_BEGIN_ALLOW_THREADS;
  status = pbBatch_Second(r->batch, &second);
  Py_END_ALLOW_THREADS;
  pyPool_Unlock(r->pool);
  if (status == pb_bad_input) status = pb_unsupported;
  result = status == pb_ok ? Py_NewRef(Py_None) : fail(r, status);

done:
  release_second(&s);
  return result;
}

// Of each world a dict, with the verdict and the proposal in words ("" without noise).
static PyObject *describe_noise(const pbNoise *noise, int count) {
  char says[512], helps[512];
  PyObject *list = PyList_New(0);

  for (int i = 0; list && i < count; i++) {
    const pbNoise *n = &noise[i];
    PyObject *one =
        Py_BuildValue("{sdsisdsdsdsdsNssss}", "time", n->time, "step", n->step, "move", n->move, "growth", n->growth,
                      "unforeseen", n->unforeseen, "window", n->window, "contact", PyBool_FromLong(n->contact), "verdict",
                      pbNoise_Say(n, says, sizeof says), "proposal", pbNoise_Propose(n, helps, sizeof helps));
    if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

// (move, directions, seed): how far derivatives of each world reach.
static PyObject *run_noise(PyObject *self, PyObject *args) {
  Run *r = (Run *)self;
  unsigned long long seed;
  pbNoiseOptions options = {0};
  if (!PyArg_ParseTuple(args, "diK", &options.move, &options.directions, &seed)) return NULL;
  options.seed = seed;

  pbNoise *noise = PyMem_Calloc((size_t)r->worlds, sizeof *noise);
  if (!noise) return PyErr_NoMemory();
  PyObject *result = NULL;
  if (unpark(r) && pyPool_Lock(r->pool)) {
    pbStatus status;
    Py_BEGIN_ALLOW_THREADS;
    status = pbBatch_Noise(r->batch, &options, noise);
    Py_END_ALLOW_THREADS;
    pyPool_Unlock(r->pool);
    result = status == pb_ok ? describe_noise(noise, r->worlds) : fail(r, status);
  }

  PyMem_Free(noise);
  return result;
}

// (A, B, C, D, by): Jacobians of every step; None: not wanted. by: pb_byControl, ... of B and D.
static PyObject *run_linearize(PyObject *self, PyObject *args) {
  Run *r = (Run *)self;
  PyObject *object[4], *result = NULL;
  unsigned by;
  if (!PyArg_ParseTuple(args, "OOOOI", &object[0], &object[1], &object[2], &object[3], &by)) return NULL;

  const pyCompiled *c = r->compiled;
  const Py_ssize_t rows = (Py_ssize_t)r->worlds * r->steps, columns = pbModel_Columns(c->model, by);
  const Py_ssize_t size[4] = {(Py_ssize_t)c->n * c->n, c->n * columns, (Py_ssize_t)c->nsensordata * c->n,
                              c->nsensordata * columns};
  static const char *const name[4] = {"A", "B", "C", "D"};
  pyArray out[4] = {{.held = false}};
  for (int i = 0; i < 4; i++)
    if (!pyArray_Write(object[i], rows * size[i], name[i], &out[i])) goto done;

  pbStatus status;
  if (!unpark(r) || !pyPool_Lock(r->pool)) goto done;
  Py_BEGIN_ALLOW_THREADS;
  status = pbBatch_LinearizeBy(r->batch,
                               &(pbJacobian){.by = by, .A = out[0].data, .B = out[1].data, .C = out[2].data, .D = out[3].data});
  Py_END_ALLOW_THREADS;
  pyPool_Unlock(r->pool);
  result = status == pb_ok ? Py_NewRef(Py_None) : fail(r, status);

done:
  pyArray_Release(out, 4);
  return result;
}

static PyMethodDef methods[] = {{"bytes", run_bytes, METH_NOARGS, "Memory that it holds now."},
                                {"own", run_own, METH_NOARGS, "Columns of the values that worlds have of their own."},
                                {"forward", run_forward, METH_VARARGS, "The rollout; how many worlds failed."},
                                {"status", run_status, METH_O, "Status and text of a world."},
                                {"park", run_park, METH_NOARGS, "Lets go of the tape; a derivative runs the rollout again."},
                                {"choose", run_choose, METH_VARARGS, "Kind of gradient, and parameters that it is wanted by."},
                                {"vjp", run_vjp, METH_VARARGS, "Pullback; certificates."},
                                {"jvp", run_jvp, METH_VARARGS, "Tangents along directions of each world."},
                                {"second", run_second, METH_VARARGS, "How gradients change along a direction of each world."},
                                {"noise", run_noise, METH_VARARGS, "How far derivatives of each world reach."},
                                {"linearize", run_linearize, METH_VARARGS, "Jacobians of every step."},
                                {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, run_new},
                              {Py_tp_dealloc, run_dealloc},
                              {Py_tp_traverse, (void *)run_traverse},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, (char *)"A rollout of one or more worlds with its tape."},
                              {0, NULL}};
static PyType_Spec spec = {"pullback._core.Run", sizeof(Run), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

bool pyRun_Register(PyObject *module) {
  pyRun_Type = (PyTypeObject *)PyType_FromSpec(&spec);
  return pyRun_Type && PyModule_AddType(module, pyRun_Type) == 0;
}
