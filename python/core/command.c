// The program's commands as functions: the same code, with their texts in memory and the signals of Python. One runs at a time.
// Tests: tests/python/test_commands.py.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "core.h"

static PyThread_type_lock running;
static PyObject *teller;          // hears of progress; NULL: nobody does
static bool stopped;              // a signal's handler, the teller or a loss has raised
static PyObject *raised[3];       // what
static _Thread_local int within;  // functions of Python that a command calls on this thread now

bool pyCommand_Register(PyObject *module) {
  PyObject *list = PyList_New(0);
  for (int i = 0; list && i < cliCommand_Count; i++) {
    PyObject *name = PyUnicode_FromString(cliCommands[i].name);
    if (!name || PyList_Append(list, name) != 0) Py_CLEAR(list);
    Py_XDECREF(name);
  }
  pyCommand_AfterFork();
  bool added = list && running && PyModule_AddObjectRef(module, "commands", list) == 0;
  Py_XDECREF(list);
  return added;
}

// A child that was forked by a loss goes on with its command.
void pyCommand_AfterFork(void) {
  running = PyThread_allocate_lock();
  if (running && within) PyThread_acquire_lock(running, NOWAIT_LOCK);
}

// ---- what the program has a terminal for ------------------------------------------------------------------------------
void cliSignals_Hold(void) {}
void cliSignals_Release(void) {}
void cliSignals_Defer(void) {}
void cliSignals_Undefer(void) {}

// Whoever raised first is heard; the exception waits for the end of the command, on whatever thread it came up.
static void stop(void) {
  if (stopped) PyErr_Clear();
  else PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
  stopped = true;
}

bool cliSignals_Caught(void) {
  if (stopped) return true;
  PyGILState_STATE gil = PyGILState_Ensure();
  within++;
  if (PyErr_CheckSignals() != 0) stop();
  within--;
  PyGILState_Release(gil);
  return stopped;
}

double cli_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void cliProgress_Begin(cliProgress *p, const cliApp *app, const char *what) {
  *p = (cliProgress){.what = what, .on = teller && !app->args.text[opt_quiet], .started = cli_seconds()};
}

void cliProgress_Show(cliProgress *p, double done, double all, const char *note) {
  double now = cli_seconds();
  if (!p->on || stopped || (done < all && now - p->last < 0.1)) return;
  p->last = now;

  PyGILState_STATE gil = PyGILState_Ensure();
  within++;
  PyObject *answer = PyObject_CallFunction(teller, "sddz", p->what, done, all, note);
  within--;
  if (!answer) stop();
  Py_XDECREF(answer);
  PyGILState_Release(gil);
}

void cliProgress_End(cliProgress *p) { p->on = false; }

// ---- losses that Python computes ------------------------------------------------------------------------------------------
// [(name, width, width of slopes, values as bytes), ...]: copies, which may outlive the call.
static PyObject *seen(const pbLossView *view) {
  PyObject *list = PyList_New(0);
  for (int i = 0; list && i < view->row_count; i++) {
    const pbLossRows *rows = &view->rows[i];
    Py_ssize_t bytes = (Py_ssize_t)view->count * rows->width * (Py_ssize_t)sizeof(double);
    PyObject *one = Py_BuildValue("siiy#", rows->name, rows->width, rows->bar_width, (const char *)rows->value, bytes);
    if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

static bool take_slopes(PyObject *list, const pbLossView *view) {
  for (int i = 0; i < view->row_count; i++) {
    const pbLossRows *rows = &view->rows[i];
    Py_ssize_t count = (Py_ssize_t)view->count * rows->bar_width;
    PyObject *one = PyList_GetItem(list, i);
    pyArray a;
    if (!one || !pyArray_Read(one, count, rows->name, &a)) return false;
    if (a.data && rows->bar) memcpy(rows->bar, a.data, (size_t)count * sizeof(double));
    pyArray_Release(&a, 1);
  }
  return true;
}

static bool call_host(PyObject *host, const pbLossView *view, double *value) {
  Py_ssize_t times = (Py_ssize_t)view->count * (Py_ssize_t)sizeof(double);
  PyObject *slopes = NULL, *rows = seen(view), *answer = NULL;
  if (rows)
    answer = PyObject_CallFunction(host, "siy#Oi", view->name, view->trajectory, (const char *)view->time, times, rows,
                                   view->row_count && view->rows[0].bar);
  Py_XDECREF(rows);

  bool right = answer && PyArg_ParseTuple(answer, "dO!", value, &PyList_Type, &slopes) && take_slopes(slopes, view);
  Py_XDECREF(answer);
  return right;
}

static pbStatus on_loss(void *host, const pbLossView *view, double *value) {
  PyGILState_STATE gil = PyGILState_Ensure();
  within++;
  if (!stopped && !call_host(host, view, value)) stop();
  within--;
  PyGILState_Release(gil);
  return stopped ? pb_interrupted : pb_ok;
}

// ---- a command ------------------------------------------------------------------------------------------------------------
typedef struct Call {
  cliApp app;
  char **argv;
  int argc;
  char *text[2];  // of cli_out and cli_err
  size_t size[2];
  pbStatus status;
} Call;

static void run(Call *c) {
  cli_out = open_memstream(&c->text[0], &c->size[0]);
  cli_err = open_memstream(&c->text[1], &c->size[1]);
  c->app.ctx = pbContext_Create(NULL);
  c->status = cli_out && cli_err && c->app.ctx ? pb_ok : pb_no_memory;

  if (c->status == pb_ok) c->status = cliArgs_Parse(c->app.ctx, c->app.command, c->argc, c->argv, &c->app.args);
  if (c->status == pb_ok) c->status = c->app.command->run(&c->app);

  if (cli_out && fclose(cli_out) != 0 && c->status == pb_ok) c->status = pb_no_memory;
  if (cli_err && fclose(cli_err) != 0 && c->status == pb_ok) c->status = pb_no_memory;
  cli_out = cli_err = NULL;
}

static PyObject *answer(const Call *c) {
  if (stopped) {  // with the exception of who stopped it
    PyErr_Restore(raised[0], raised[1], raised[2]);
    return NULL;
  }
  if (c->status != pb_ok && c->status != pb_check_failed)
    return pyStatus_Raise(c->status, c->app.ctx ? pbContext_Error(c->app.ctx) : NULL);
  return Py_BuildValue("Os#s#", c->status == pb_ok ? Py_True : Py_False, c->text[0] ? c->text[0] : "", (Py_ssize_t)c->size[0],
                       c->text[1] ? c->text[1] : "", (Py_ssize_t)c->size[1]);
}

// The command's name, then what the program takes as arguments; the texts live as long as the list.
static bool read_words(PyObject *words, Call *c) {
  Py_ssize_t count = PyList_Size(words);
  c->argv = count > 0 ? PyMem_Calloc((size_t)count + 1, sizeof *c->argv) : NULL;
  if (!c->argv) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a command is missing");
    return false;
  }

  for (; c->argc < count; c->argc++) {
    c->argv[c->argc] = (char *)PyUnicode_AsUTF8AndSize(PyList_GetItem(words, c->argc), NULL);
    if (!c->argv[c->argc]) return false;
  }
  c->app.command = cliCommand_Find(c->argv[0]);
  if (!c->app.command) PyErr_Format(PyExc_ValueError, "no command '%s'", c->argv[0]);
  return c->app.command != NULL;
}

PyObject *pyCommand_Run(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *words, *model, *tell, *host;
  Call c = {0};
  if (!PyArg_ParseTuple(args, "O!OOO", &PyList_Type, &words, &model, &tell, &host)) return NULL;
  if (host != Py_None) {
    c.app.function = on_loss;
    c.app.user = host;
  }
  if (model != Py_None) {
    if (!PyObject_TypeCheck(model, pyModel_Type)) return PyErr_Format(PyExc_TypeError, "expected a model");
    c.app.model = ((pyModel *)model)->compiled->model;
    c.app.theta = ((pyModel *)model)->theta.data;
  }

  PyObject *result = NULL;
  if (!read_words(words, &c)) goto done;
  if (within) {
    pyStatus_Raise(pb_unsupported, "a loss or a progress function of a command cannot run another command: rollouts work there");
    goto done;
  }
  if (!pyLock_Take(running)) goto done;
  teller = tell == Py_None ? NULL : tell;
  stopped = false;

  Py_BEGIN_ALLOW_THREADS;
  run(&c);
  Py_END_ALLOW_THREADS;
  result = answer(&c);

  PyThread_release_lock(running);
  if (c.app.ctx) cliArgs_Free(c.app.ctx, &c.app.args);
  pbContext_Destroy(c.app.ctx);
  free(c.text[0]);
  free(c.text[1]);
done:
  PyMem_Free(c.argv);
  return result;
}
