// The extension module pullback._core: what its parts give each other. Arrays come in through the buffer protocol, and everything
// about shapes that a user sees is in the Python files beside it; here numbers are counted, so that no mistake there can reach
// beyond an array.
#ifndef PB_PYTHON_CORE_H
#define PB_PYTHON_CORE_H

#ifndef Py_LIMITED_API
#error "the extension is built against the limited API: one binary for all versions of Python from 3.11 on"
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>
//
#include <pullback/pullback.h>

// ---- arrays.c: doubles in memory that Python owns
typedef struct pyArray {
  Py_buffer view;
  bool held;
  double *data;  // NULL: None was given
} pyArray;
// Contiguous float64, `count` of them. False with an exception that says what was expected and found. Read: None is no array.
bool pyArray_Read(PyObject *object, Py_ssize_t count, const char *name, pyArray *array);
bool pyArray_Write(PyObject *object, Py_ssize_t count, const char *name, pyArray *array);
void pyArray_Release(pyArray *array, int count);
PyObject *pyMemory_Copy(const void *bytes, size_t size);  // a bytearray; NULL with an exception
// Of a dict by their names, each with its count; what it has not is as None. A name that is none of these is an error. The arrays
// must be released by now, and are to be whatever is returned.
typedef struct pyMember {
  const char *name;
  Py_ssize_t count;
} pyMember;
bool pyMembers_Read(PyObject *dict, int members, const pyMember *member, pyArray *array);
bool pyMembers_Write(PyObject *dict, int members, const pyMember *member, pyArray *array);

// ---- errors.c
// Sets the exception of a status (pullback/errors.py) and returns NULL. pb_interrupted: that of the signal's handler, if it left
// one.
PyObject *pyStatus_Raise(pbStatus status, const char *text);
// Is the exception that is set the interpreter's own for want of memory? Making an object of it may end the process.
bool pyErr_NoObject(void);
void pyStatus_TellWorld(Py_ssize_t world);  // of the exception that is set, where it has one

// ---- pools.c: one pool for each number of threads, for all who ask
typedef struct pyPool {
  pbContext *ctx;
  pbPool *pool;  // NULL: one thread
  int threads;
  PyThread_type_lock lock;  // one caller at a time
  unsigned long holder;     // the thread that has it; 0: none
  struct pyPool *next;
} pyPool;
// 0: the processors that this process may run on; NULL with an exception. One thread where the caller's own call has the pool.
pyPool *pyPool_Of(int threads);
bool pyPool_Lock(pyPool *pool);  // false with an exception: a signal's handler raised, or the caller's own call has it
void pyPool_Unlock(pyPool *pool);
void pyPool_AfterFork(void);  // in a child: locks that other threads held are free
// Without the interpreter's lock while it waits; false where a signal's handler raised.
bool pyLock_Take(PyThread_type_lock lock);

// ---- model.c
typedef struct pyWork {  // of one thread at a time
  pbContext *ctx;
  pbScratch *scratch;
  struct pyWork *next;
} pyWork;
typedef struct pyTape {  // a batch with its tape, of one rollout at a time (tape.c)
  pbContext *ctx;
  pbBatch *batch;
  pbBatchOptions options;  // its shape
  atomic_size_t bytes;     // that it holds now
  pbGradientKind kind;     // as chosen last
  bool none;               // no parameter is wanted
  struct pyTape *next;
} pyTape;
typedef struct pyCompiled {
  PyObject_HEAD pbContext *ctx;
  pbModel *model;
  pyWork *idle;   // scratches that nobody uses now
  pyTape *tapes;  // and batches of rollouts, the last first
  int nx, n, nu, nv, na, nbody, nsite, nsensordata, nmocap, commands;
  Py_ssize_t ntheta;
} pyCompiled;
typedef struct pyModel {  // a compiled model and the parameters that act where none are given
  PyObject_HEAD pyCompiled *compiled;
  pyArray theta;
} pyModel;
extern PyTypeObject *pyCompiled_Type, *pyModel_Type, *pyState_Type, *pyRun_Type, *pySpec_Type;
bool pyModel_Register(PyObject *module);
// A scratch for a call; NULL with an exception. Back with Give.
pyWork *pyCompiled_Take(pyCompiled *compiled);
void pyCompiled_Give(pyCompiled *compiled, pyWork *work);

// ---- tape.c
// A batch of that shape: one that waits, or a new one; NULL with an exception. Give: it waits for the next rollout, or is freed.
// spoiled: freed, what a call left in it is not as new.
pyTape *pyTape_Take(pyCompiled *compiled, const pbBatchOptions *options);
void pyTape_Give(pyCompiled *compiled, pyTape *tape, bool spoiled);
void pyTape_DestroyAll(pyCompiled *compiled);
// Kind of gradient, and parameters that it is wanted by: before each derivative, the rollout before may have chosen others.
pbStatus pyTape_Choose(pyTape *tape, pbGradientKind kind, const char *const *names, int count);

// ---- state.c: states and single steps
typedef struct pyState {
  PyObject_HEAD pyCompiled *compiled;
  pyArray flat;    // (StateSize) or (worlds, StateSize)
  int worlds;      // 0: one world, without an axis
  pbContext *ctx;  // of several worlds, from the first step on
  pbBatch *batch;
  pyPool *pool;
} pyState;
bool pyState_Register(PyObject *module);
PyObject *pyModel_StepInto(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
// (worlds, states, ctrl, sensordata, steps, names): so many steps of each in place, 0: an evaluation alone; a list of quantities
// of its last evaluation for each.
PyObject *pyModel_Evaluate(PyObject *self, PyObject *args);
// Quantities of an evaluation as a list of (rows, columns, bytes).
PyObject *pyFields_Of(const pbScratch *scratch, PyObject *names);
// ---- observe.c: the same with derivatives along directions
PyObject *pyModel_Observe(PyObject *self, PyObject *args);
// The same of one state: steps, or for 0 of them an evaluation alone; the scratch of `work` then has its quantities. False with
// an exception.
bool pyModel_Advance(const pyModel *model, double *x, const pbInput *input, int steps, pyWork *work, double *sensordata);

// ---- mirror.c: what environments of Gymnasium read
bool pyMirror_Register(PyObject *module);
PyObject *pyModel_Mirror(PyObject *self, PyObject *args);

// ---- watch.c: arrays in which changes are noticed
bool pyWatch_Register(PyObject *module);

// ---- job.c: long work that Python is told of
typedef struct pyJob {
  pbContext *ctx;
  const char *what;       // what progress functions hear of it
  PyObject *tell, *host;  // a progress function, a function that computes losses; borrowed, NULL: none
  PyObject *raised[3];    // what the first of them raised, or a signal's handler
  atomic_bool stopped;    // one has
  double told, done;      // of what the progress function has heard last: when, s, how far
  const char *part;
} pyJob;
bool pyJob_Begin(pyJob *job, const char *what, PyObject *tell, PyObject *host);  // None: none; false with an exception
void pyJob_End(pyJob *job);
// What was put into a draft, as a file, where that went well (status); else the draft is dropped.
pbStatus pyDraft_Save(pbDraft *draft, pbStatus status, const char *path);
// These are called without the interpreter's lock, from any thread.
bool pyJob_Stopped(pyJob *job);                                                           // also looks for signals
int pyJob_Tell(pyJob *job, const char *what, double done, double all, const char *note);  // nonzero: it shall end
int pyJob_Progress(void *job, const pbProgress *progress);
int pyJob_Parts(void *job, const pbProgress *progress);  // the same with the phase as a note
// host(name, trajectory, time, rows, whether slopes are wanted): (value, a list of slopes or None).
pbStatus pyJob_Loss(void *job, const pbLossView *view, double *value);
PyObject *pyJob_Raise(pyJob *job, pbStatus status);  // what was raised, else the exception of the status; NULL

// ---- values.c: what the library describes
typedef struct pyValues {
  PyObject *root, *open[PB_JSON_DEPTH];
  int depth;
  bool failed;
  PyGILState_STATE gil;
} pyValues;
pbJson pyValues_Begin(pyValues *values);                             // tells them, with or without the interpreter's lock
PyObject *pyValues_Take(pyValues *values);                           // NULL with an exception
PyObject *pyArrays_Dict(const pbArrays *set);                        // (kind, shape, memory) by name
bool pyArrays_Read(PyObject *list, pbContext *ctx, pbArrays **set);  // of (name, shape, array); false with an exception

// ---- page.c: what a function writes into a stream, as a file
typedef pbStatus pyPut(void *user, FILE *out);
pbStatus pyPage_Save(pbContext *ctx, const char *path, pyPut *put, void *user);

// ---- describe.c: models, energies, evaluations, checks of derivatives, pages
PyObject *pyDescribe_Energies(PyObject *module, PyObject *none);
PyObject *pyDescribe_Info(PyObject *module, PyObject *args);
PyObject *pyDescribe_Inspect(PyObject *module, PyObject *args);
PyObject *pyRecording_Load(PyObject *module, PyObject *args);  // values.c
PyObject *pyDescribe_Check(PyObject *module, PyObject *args);
PyObject *pyDescribe_Page(PyObject *module, PyObject *args);
PyObject *pyModel_StartInto(PyObject *self, PyObject *args);

// ---- task.c: optimizations, audits, trainings
PyObject *pyTask_Optimize(PyObject *module, PyObject *args);
PyObject *pyTask_Audit(PyObject *module, PyObject *args);
PyObject *pyTask_Train(PyObject *module, PyObject *args);
PyObject *pyTask_Evaluate(PyObject *module, PyObject *args);

// ---- energy.c: formulas over elements
bool pyEnergy_Register(PyObject *module);

// ---- xla.c: custom calls of programs that JAX compiled
// (find, call): find(token) is the object that stands for a call; call(object, inputs, outputs) computes from memories into
// memories, None or (a code of XLA's, bytes) of a failure. Capsules of the handlers and of the type of their state, None without
// XLA's header.
PyObject *pyXla_Targets(PyObject *module, PyObject *args);
PyObject *pyXla_Close(PyObject *module, PyObject *none);  // no more calls; how many are still going on
void pyXla_AfterFork(void);

// ---- spec.c: editable descriptions of worlds
typedef struct pySpec {
  PyObject_HEAD pbContext *ctx;
  pbSpec *spec;
  size_t written, live;  // bytes: written since all of it was copied, and of its lists then
} pySpec;
bool pySpec_Register(PyObject *module);
PyObject *pySpec_Kinds(PyObject *module, PyObject *none);

// ---- build.c
// ABI, compiler, kernels, whether there are hulls, and libraries as "expat=2.5.0 zlib= ...", without a version where it was not
// there.
PyObject *pyBuild_Info(PyObject *module, PyObject *none);

// ---- certificate.c
PyObject *pyCertificates_List(const pbCertificate *certificate, int count);  // of dictionaries; NULL with an exception

// ---- run.c: rollouts of batches and their derivatives
bool pyRun_Register(PyObject *module);

// ---- single.c: one step of one world as a function of memories
bool pySingle_Register(PyObject *module);

// ---- control.c: plans of a task from state after state
bool pyMpc_Register(PyObject *module);

#endif
