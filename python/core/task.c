// Tasks: optimizations, audits and trainings, with losses and progress functions of Python.
// Tests: tests/python/test_commands.py, tests/python/test_losses.py.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core.h"

typedef struct Given {  // of all of them
  const char *path, *output, *policy, *roots;
  const char *start;  // a result to begin at; NULL: the task's start
  long long seed;     // -1: the task's
  int threads;        // 0: as many as there are processors
  int fresh;
  const char *page, *command;  // NULL: none; what makes the page again
} Given;

// ---- optimization -----------------------------------------------------------------------------------------------------------
typedef struct Search {
  pyJob job;
  Given given;
  pbTask *task;
  pbPool *pool;
  pbRunResult result;
  char state[PB_RUN_PATH];  // "": nothing is written
  int count;                // trajectories
  pbArrays **set;           // of each; NULL where one failed
  char (*file)[PB_RUN_PATH];
  const char **files;
  pyValues values;
  pbDraft warnings;
  char *warned;  // what they were
} Search;

static int on_search(void *user, const pbProgress *p) {
  char note[64];
  return pyJob_Tell(user, p->phase, (double)p->done, (double)p->total, pbRun_Say(p, note, sizeof note));
}

static int on_simulation(void *user, const pbProgress *p) {
  return pyJob_Tell(user, p->phase, (double)p->done, (double)p->total, NULL);
}

static pbStatus no_memory(pbContext *ctx) { return pbContext_Fail(ctx, pb_no_memory, "out of memory"); }

// The state of a run that is to begin anew: where it stays the run would go on from it.
static pbStatus forget(pbContext *ctx, const char *state) {
  if (unlink(state) == 0 || errno == ENOENT) return pb_ok;
  return pbContext_Fail(ctx, pb_file, "%s: cannot be removed: %s", state, strerror(errno));
}

static pbStatus name_files(Search *s) {
  pbContext *ctx = s->job.ctx;
  char ending[40] = ".trajectory.npz";
  s->count = pbTask_TrajectoryCount(s->task);
  size_t count = (size_t)s->count;
  s->set = pbContext_Alloc(ctx, count * sizeof(pbArrays *));
  s->file = pbContext_Alloc(ctx, count * sizeof *s->file);
  s->files = pbContext_Alloc(ctx, count * sizeof(char *));
  if (!s->set || !s->file || !s->files) return no_memory(ctx);

  for (size_t t = 0; t < count && s->given.output; t++) {
    if (t) snprintf(ending, sizeof ending, ".trajectory-%zu.npz", t);
    PB_TRY(pbRun_FileName(ctx, s->given.output, s->given.path, ending, s->file[t], sizeof s->file[t]));
    s->files[t] = s->file[t];
  }

  // asked before the work that is to be written
  if (s->given.page) PB_TRY(pbFile_CanWrite(ctx, s->given.page));
  if (!s->given.output) return pb_ok;
  PB_TRY(pbFile_CanWrite(ctx, s->given.output));
  return pbFile_CanWrite(ctx, s->file[0]);
}

static pbStatus load(Search *s) {
  pbContext *ctx = s->job.ctx;
  const Given *g = &s->given;
  if (g->output) PB_TRY(pbRun_FileName(ctx, g->output, g->path, ".state", s->state, sizeof s->state));
  PB_TRY(pbTask_LoadWith(ctx, g->path, g->roots, g->policy, &s->task));
  if (g->start) PB_TRY(pbTask_StartAt(s->task, g->start));
  if (s->job.host) pbTask_OnFunction(s->task, pyJob_Loss, &s->job);

  PB_TRY(name_files(s));
  if ((s->count < 2 && pbTask_StartCount(s->task) < 2) || g->threads == 1) return pb_ok;
  PB_TRY(pbPool_Create(ctx, g->threads, &s->pool));
  return pbTask_UsePool(s->task, s->pool);
}

static pbStatus search(Search *s) {
  if (s->given.fresh && s->state[0]) PB_TRY(forget(s->job.ctx, s->state));
  const pbRunOptions options = {.state_file = s->state[0] ? s->state : NULL,
                                .resume = true,
                                .has_seed = s->given.seed >= 0,
                                .seed = (uint64_t)s->given.seed,
                                .progress = on_search,
                                .user = &s->job};
  pbStatus status = pbTask_Run(s->task, &options, &s->result);

  // one that came behind the last iteration ends it, too: the run can be resumed
  return status == pb_ok && pyJob_Stopped(&s->job) ? pb_interrupted : status;
}

static pbStatus keep_trajectory(Search *s, int t) {
  char text[PB_NOTES_TEXT];
  pbStepNotes notes;
  const pbTaskAnswer answer = {
      .z = s->result.z, .trajectory = t, .path = s->given.path, .progress = on_simulation, .user = &s->job};
  PB_TRY(pbArrays_Create(s->job.ctx, &s->set[t]));
  PB_TRY(pbTask_Simulate(s->job.ctx, s->task, &answer, s->set[t], &notes));

  fputs(pbStepNotes_Say(&notes, pbTask_Model(s->task), pbTask_Steps(s->task, t), text, sizeof text), s->warnings.stream);
  return s->given.output ? pbArrays_SaveNpz(s->set[t], s->file[t], false) : pb_ok;
}

static pbStatus describe(Search *s) {
  pbContext *ctx = s->job.ctx;
  pbJson json = pyValues_Begin(&s->values);
  if (!s->given.output) return pbTask_DescribeResult(s->task, &s->result, NULL, 0, &json, NULL);

  pbDraft draft;
  PB_TRY(pbDraft_Begin(ctx, &draft));
  pbStatus status = pbTask_DescribeResult(s->task, &s->result, s->files, s->count, &json, draft.stream);
  return pyDraft_Save(&draft, status, s->given.output);
}

static pbStatus put_search(void *user, FILE *out) {
  const Search *s = user;
  const pbPageHead head = {.path = s->given.path, .command = s->given.command};
  bool written = s->given.output != NULL;
  return pbRun_Page(s->job.ctx, s->task, &s->result, written ? s->files : NULL, written ? s->count : 0, &head, out);
}

static pbStatus keep_results(Search *s) {
  char text[PB_NOTES_TEXT];
  for (int t = 0; t < s->count; t++) {
    pbStatus kept = keep_trajectory(s, t);
    if (kept == pb_ok) continue;

    // what ended a run may end this, too: its result is more
    if (s->result.outcome != pb_runFailed || kept == pb_interrupted) return kept;
    pbArrays_Destroy(s->set[t]);
    s->set[t] = NULL;
  }
  PB_TRY(describe(s));
  if (s->given.page) PB_TRY(pyPage_Save(s->job.ctx, s->given.page, put_search, s));

  // done: the next run starts over; one that failed goes on where it was
  if (s->result.outcome != pb_runFailed && s->state[0]) unlink(s->state);
  fputs(pbNoise_Warning(&s->result.noise, "", text, sizeof text), s->warnings.stream);
  return pb_ok;
}

// The error remains, with the best so far.
static pbStatus keep_best(Search *s, pbStatus ended) {
  pbContext *ctx = s->job.ctx;
  pbStatus status = keep_results(s);
  if (status == pb_interrupted) return status;
  if (status == pb_ok)
    return pbContext_Fail(ctx, ended, "%s; the best so far is %s", s->result.reason, s->given.output ? "written" : "its result");
  return pbContext_Fail(ctx, ended, "%s; the best so far (loss %.17g) could not be written", s->result.reason, s->result.loss);
}

static pbStatus optimize(Search *s) {
  PB_TRY(load(s));
  PB_TRY(pbDraft_Begin(s->job.ctx, &s->warnings));

  pbStatus status = search(s);
  if (status == pb_ok) status = keep_results(s);
  else if (status != pb_interrupted && s->result.z) status = keep_best(s, status);

  // a run that failed numerically would fail again where it left off
  bool numeric = status != pb_ok && pbStatus_ExitCode(status) == pbStatus_ExitCode(pb_not_finite);
  if (numeric && s->state[0]) unlink(s->state);
  pbStatus told = pbDraft_End(&s->warnings, &s->warned, NULL);
  return status == pb_ok ? told : status;
}

static PyObject *trajectories(const Search *s) {
  PyObject *list = PyList_New(0);
  for (int t = 0; list && t < s->count; t++) {
    if (!s->set[t]) continue;
    PyObject *one = pyArrays_Dict(s->set[t]);
    if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

// The exception of a search that ended with its best, which is to be raised with that; NULL with another.
static PyObject *error_of(pyJob *job, pbStatus status) {
  PyObject *type, *error, *trace;
  pyJob_Raise(job, status);
  if (pyErr_NoObject()) return NULL;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return error;
}

// (error or None, whether the criteria are met, result, trajectories, warnings in lines)
static PyObject *answer_of(Search *s, pbStatus status) {
  if (s->job.raised[0] || (status != pb_ok && !s->values.root)) return pyJob_Raise(&s->job, status);
  PyObject *error = status == pb_ok ? Py_NewRef(Py_None) : error_of(&s->job, status);
  PyObject *found = error ? pyValues_Take(&s->values) : NULL, *motions = found ? trajectories(s) : NULL;
  if (!error || !motions) {
    Py_XDECREF(error);
    Py_XDECREF(found);
    return NULL;
  }
  bool met = status == pb_ok && (!pbTask_HasStop(s->task) || s->result.met);
  return Py_BuildValue("NNNNs", error, PyBool_FromLong(met), found, motions, s->warned ? s->warned : "");
}

static void end_search(Search *s) {
  pbContext *ctx = s->job.ctx;
  if (!ctx) return;
  for (int t = 0; s->set && t < s->count; t++) pbArrays_Destroy(s->set[t]);
  pbDraft_Drop(&s->warnings);
  if (s->warned) pbContext_Free(s->job.ctx, s->warned);
  Py_XDECREF(s->values.root);
  pbContext_Free(ctx, s->set);
  pbContext_Free(ctx, s->file);
  pbContext_Free(ctx, (void *)s->files);
  pbTask_Destroy(s->task);
  pbPool_Destroy(s->pool);
  pyJob_End(&s->job);
}

// (path, output, policy, start, roots, seed, threads, fresh, page, command, progress, loss)
PyObject *pyTask_Optimize(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *tell, *host, *result = NULL;
  Search *s = PyMem_Calloc(1, sizeof *s);
  if (!s) return PyErr_NoMemory();
  Given *g = &s->given;
  bool right = PyArg_ParseTuple(args, "szzzzLipzzOO", &g->path, &g->output, &g->policy, &g->start, &g->roots, &g->seed,
                                &g->threads, &g->fresh, &g->page, &g->command, &tell, &host);

  if (right && pyJob_Begin(&s->job, "optimize", tell, host)) {
    pbStatus status;
    Py_BEGIN_ALLOW_THREADS;
    status = optimize(s);
    Py_END_ALLOW_THREADS;
    result = answer_of(s, status);
  }
  end_search(s);
  PyMem_Free(s);
  return result;
}

// ---- audit ------------------------------------------------------------------------------------------------------------------
static pbStatus audit(pyJob *job, pbTask *task, const char *found, pbAuditOptions *options, pbAuditReport *report) {
  size_t size = (size_t)pbTask_Size(task) * sizeof(double);
  double *z = pbContext_Alloc(job->ctx, size + 1);
  if (!z) return no_memory(job->ctx);

  // what is audited: the task at its start, or what a search has found
  memcpy(z, pbTask_Start(task), size);
  options->progress = pyJob_Progress;
  options->user = job;
  pbStatus status = found ? pbTask_ReadResult(task, found, z) : pb_ok;
  if (status == pb_ok) status = pbTask_Audit(task, z, options, report);
  pbContext_Free(job->ctx, z);
  return status == pb_ok && pyJob_Stopped(job) ? pb_interrupted : status;
}

typedef struct Audited {  // what the page is of
  pbContext *ctx;
  const Given *given;
  const pbAuditReport *report;
} Audited;

static pbStatus put_audit(void *user, FILE *out) {
  const Audited *a = user;
  return pbAuditReport_Page(a->ctx, a->report, &(pbPageHead){.path = a->given->path, .command = a->given->command}, out);
}

static pbStatus load_and_audit(pyJob *job, const Given *g, const char *found, int starts, pbAuditReport *report) {
  pbTask *task;
  if (g->page) PB_TRY(pbFile_CanWrite(job->ctx, g->page));
  PB_TRY(pbTask_LoadAudit(job->ctx, g->path, g->roots, g->policy, &task));
  if (job->host) pbTask_OnFunction(task, pyJob_Loss, job);

  pbAuditOptions options = pbTask_AuditOptions(task);
  if (starts >= 0) options.starts = starts;
  if (g->seed >= 0) options.seed = (uint64_t)g->seed;
  pbStatus status = audit(job, task, found, &options, report);
  Audited audited = {.ctx = job->ctx, .given = g, .report = report};
  if (status == pb_ok && g->page) status = pyPage_Save(job->ctx, g->page, put_audit, &audited);
  pbTask_Destroy(task);
  return status;
}

// (path, result, policy, roots, seed, starts or -1, page, command, progress, loss): (whether it is confirmed, the report)
PyObject *pyTask_Audit(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *tell, *host, *result = NULL;
  const char *found;
  int starts;
  Given g = {0};
  pyJob job;
  if (!PyArg_ParseTuple(args, "szzzLizzOO", &g.path, &found, &g.policy, &g.roots, &g.seed, &starts, &g.page, &g.command, &tell,
                        &host))
    return NULL;
  if (!pyJob_Begin(&job, "audit", tell, host)) return NULL;
  pbAuditReport *report = PyMem_Calloc(1, sizeof *report);
  if (!report) {
    pyJob_End(&job);
    return PyErr_NoMemory();
  }

  pbStatus status;
  Py_BEGIN_ALLOW_THREADS;
  status = load_and_audit(&job, &g, found, starts, report);
  Py_END_ALLOW_THREADS;

  if (status == pb_ok) {
    pyValues values;
    pbJson json = pyValues_Begin(&values);
    status = pbAuditReport_Describe(report, &json);
    PyObject *told = pyValues_Take(&values);
    if (status != pb_ok) Py_CLEAR(told);
    if (told) result = Py_BuildValue("NN", PyBool_FromLong(report->confirmed), told);
  }
  if (status != pb_ok) pyJob_Raise(&job, status);
  PyMem_Free(report);
  pyJob_End(&job);
  return result;
}

// ---- training ---------------------------------------------------------------------------------------------------------------
typedef struct Training {
  pyJob job;
  Given given;
  pbTrain *train;
  pbTrainResult result;
  char policy[PB_RUN_PATH], state[PB_RUN_PATH], table[PB_RUN_PATH], page[PB_RUN_PATH];
  char warned[2 * PB_NOTES_TEXT];
} Training;

static int on_training(void *user, const pbTrainNews *news) {
  char note[160];
  return pyJob_Tell(user, "train", news->update, news->updates, pbTrainNews_Say(news, note, sizeof note));
}

static pbStatus name_outputs(Training *t) {
  const struct {
    const char *ending;
    char *name;
  } names[] = {{".npz", t->policy}, {".state", t->state}, {".csv", t->table}, {".html", t->page}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    PB_TRY(pbRun_FileName(t->job.ctx, t->given.output, t->given.path, names[i].ending, names[i].name, PB_RUN_PATH));
  return pbFile_CanWrite(t->job.ctx, t->policy);
}

static pbStatus put_table(void *user, FILE *out) {
  const Training *t = user;
  pbTrain_Table(t->train, out);
  return pb_ok;
}

static pbStatus put_page(void *user, FILE *out) {
  Training *t = user;
  pbStepNotes notes;
  pbStatus status = pbTrain_Page(t->job.ctx, t->train, &t->result, t->given.path, t->given.roots, t->page, &notes, out);
  pbStepNotes_Say(&notes, pbTrain_Model(t->train), pbTrain_EpisodeSteps(t->train), t->warned, PB_NOTES_TEXT);
  return status;
}

static pbStatus train(Training *t) {
  pbContext *ctx = t->job.ctx;
  const Given *g = &t->given;
  PB_TRY(name_outputs(t));
  PB_TRY(pbTrain_Load(ctx, g->path, g->roots, g->policy, &t->train));
  if (g->fresh) PB_TRY(forget(t->job.ctx, t->state));

  const pbTrainOptions options = {.threads = g->threads,
                                  .has_seed = g->seed >= 0,
                                  .seed = (uint64_t)g->seed,
                                  .state_file = t->state,
                                  .resume = true,
                                  .progress = on_training,
                                  .user = &t->job};
  PB_TRY(pbTrain_Run(t->train, &options, &t->result));
  if (pyJob_Stopped(&t->job)) return pb_interrupted;

  PB_TRY(pbPolicy_Save(ctx, pbTrain_Model(t->train), t->result.theta, t->policy));
  PB_TRY(pyPage_Save(ctx, t->table, put_table, t));
  PB_TRY(pyPage_Save(ctx, t->page, put_page, t));

  // done: the next run starts over
  unlink(t->state);
  size_t said = strlen(t->warned);
  pbTrainResult_Warning(&t->result, t->warned + said, sizeof t->warned - said);
  return pb_ok;
}

// (names of the columns, rows as bytes, warnings in lines)
static PyObject *curves(const Training *t) {
  PyObject *names = PyList_New(0);
  char text[160];
  int columns = pbTrain_ColumnCount(t->train), count = pbTrain_RowCount(t->train);
  for (int k = 0; names && k < columns; k++) {
    const char *said = pbTrain_ColumnName(t->train, k, text, sizeof text);
    PyObject *name = PyUnicode_DecodeUTF8(said, (Py_ssize_t)strlen(said), "replace");
    if (!name || PyList_Append(names, name) != 0) Py_CLEAR(names);
    Py_XDECREF(name);
  }
  if (!names) return NULL;

  size_t numbers = (size_t)count * (size_t)columns;
  double *row = PyMem_Malloc((numbers + 1) * sizeof *row);
  if (!row) {
    Py_DECREF(names);
    return PyErr_NoMemory();
  }
  for (size_t i = 0; i < numbers; i++) row[i] = pbTrain_Number(t->train, (int)(i / (size_t)columns), (int)(i % (size_t)columns));
  PyObject *result = Py_BuildValue("NNs", names, pyMemory_Copy(row, numbers * sizeof *row), t->warned);
  PyMem_Free(row);
  return result;
}

// ---- evaluation of a policy ---------------------------------------------------------------------------------------------------
static pbStatus evaluate(Training *t, int starts, char **text) {
  pbTrainTest test;
  const Given *g = &t->given;
  PB_TRY(pbTrain_Load(t->job.ctx, g->path, g->roots, g->policy, &t->train));
  const pbTrainOptions options = {
      .threads = g->threads, .has_seed = g->seed >= 0, .seed = (uint64_t)g->seed, .progress = on_training, .user = &t->job};
  PB_TRY(pbTrain_Test(t->train, &options, starts, &test));
  return pbTrainTest_Json(t->job.ctx, &test, text);
}

// (path, policy, roots, seed, starts, threads, progress): the numbers as JSON
PyObject *pyTask_Evaluate(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *tell, *result = NULL;
  char *text = NULL;
  int starts;
  Training *t = PyMem_Calloc(1, sizeof *t);
  if (!t) return PyErr_NoMemory();
  Given *g = &t->given;
  bool right = PyArg_ParseTuple(args, "szzLiiO", &g->path, &g->policy, &g->roots, &g->seed, &starts, &g->threads, &tell);

  if (right && pyJob_Begin(&t->job, "evaluate", tell, Py_None)) {
    pbStatus status;
    Py_BEGIN_ALLOW_THREADS;
    status = evaluate(t, starts, &text);
    Py_END_ALLOW_THREADS;
    result = status == pb_ok ? PyUnicode_FromString(text) : pyJob_Raise(&t->job, status);
    pbContext_Free(t->job.ctx, text);
    pbTrain_Destroy(t->train);
    pyJob_End(&t->job);
  }
  PyMem_Free(t);
  return result;
}

// (path, output, policy, roots, seed, threads, fresh, progress)
PyObject *pyTask_Train(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *tell, *result = NULL;
  Training *t = PyMem_Calloc(1, sizeof *t);
  if (!t) return PyErr_NoMemory();
  Given *g = &t->given;
  bool right =
      PyArg_ParseTuple(args, "sszzLipO", &g->path, &g->output, &g->policy, &g->roots, &g->seed, &g->threads, &g->fresh, &tell);

  if (right && pyJob_Begin(&t->job, "train", tell, Py_None)) {
    pbStatus status;
    Py_BEGIN_ALLOW_THREADS;
    status = train(t);
    Py_END_ALLOW_THREADS;
    result = status == pb_ok ? curves(t) : pyJob_Raise(&t->job, status);
    pbTrain_Destroy(t->train);
    pyJob_End(&t->job);
  }
  PyMem_Free(t);
  return result;
}
