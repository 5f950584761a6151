// Inputs over time: controls and applied forces from files, tasks or keyframes, and how many steps they make.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inputs.h"

typedef struct Series {  // an input over time as its file has it
  const char *option, *path;
  int ndim;  // of one step
  size_t shape[2], width;
  pbArrays *set;
  const pbArray *array;
  bool constant;
} Series;

// The one array of a file, or of a trajectory the one with the option's name.
static pbStatus find_series(const cliRun *run, Series *s) {
  PB_TRY(pbArrays_Load(run->ctx, s->path, &s->set));
  size_t count = pbArrays_Count(s->set);
  s->array = count == 1 ? pbArrays_At(s->set, 0) : pbArrays_Find(s->set, s->option);
  if (!s->array)
    return pbContext_Fail(run->ctx, pb_bad_input, "--%s %s: holds %zu arrays; expected one, or one named '%s'", s->option,
                          s->path, count, s->option);
  if (s->array->type != pb_arrayReal)
    return pbContext_Fail(run->ctx, pb_bad_input, "--%s %s: expected numbers, found text", s->option, s->path);
  return pb_ok;
}

static pbStatus wrong_series(const cliRun *run, const Series *s) {
  const pbArray *a = s->array;
  char given[200], expected[64] = "";
  snprintf(expected, sizeof expected, s->ndim == 1 ? "%zu" : "%zu, %zu", s->shape[0], s->shape[1]);

  // the common mistake: rows and columns exchanged
  bool transposed = s->ndim == 1 && a->ndim == 2 && a->shape[0] == s->shape[0];
  return pbContext_Fail(run->ctx, pb_bad_input, "--%s %s: shape %s; expected (N, %s), or (%s%s) for all steps%s", s->option,
                        s->path, pbArray_ShapeText(a->ndim, a->shape, given, sizeof given), expected, expected,
                        s->ndim == 1 ? "," : "", transposed ? " (rows and columns seem to be exchanged)" : "");
}

static pbStatus load_series(const cliRun *run, Series *s) {
  if (!s->path) return pb_ok;
  PB_TRY(find_series(run, s));

  const pbArray *a = s->array;
  bool fits = a->ndim == s->ndim || a->ndim == s->ndim + 1;
  for (int i = 0; i < s->ndim && fits; i++) fits = a->shape[a->ndim - s->ndim + i] == s->shape[i];
  if (!fits) return wrong_series(run, s);

  s->constant = a->ndim == s->ndim;
  return pbArray_CheckFinite(run->ctx, a, s->path);
}

// The number of steps: --steps and the rows of every file must agree; where neither is given, `other`.
static pbStatus settle_steps(cliRun *run, const Series *series, int count, long other) {
  const char *from = NULL;
  long given = 0;
  PB_TRY(cliArgs_Integer(run->app, opt_steps, 1, INT_MAX - 1, 0, &given));
  if (given) from = "--steps";

  // files that have a row for each step
  for (int i = 0; i < count; i++) {
    const Series *s = &series[i];
    if (!s->array || s->constant) continue;

    size_t rows = s->array->shape[0];
    if (!rows || rows >= INT_MAX)
      return pbContext_Fail(run->ctx, pb_bad_input, "--%s %s: expected one row per step, found %zu rows", s->option, s->path,
                            rows);
    if (given && (size_t)given != rows) {
      return pbContext_Fail(run->ctx, pb_bad_input, "--%s %s: %zu rows, but %s says %ld steps", s->option, s->path, rows, from,
                            given);
    }

    given = (long)rows;
    from = s->path;
  }

  run->steps = given ? given : other;
  return pb_ok;
}

// Rows for every step; values NULL: zeros.
static pbStatus expand(const cliRun *run, const double *values, bool constant, size_t width, double **out) {
  size_t rows = (size_t)run->steps;
  if (width && rows > PB_ARRAY_LIMIT / sizeof **out / width) {
    return pbContext_Fail(run->ctx, pb_capacity, "inputs of %zu steps need more than %zu MiB", rows, PB_ARRAY_LIMIT >> 20);
  }

  // zeroed by the allocator
  *out = pbContext_Alloc(run->ctx, rows * width * sizeof **out);
  if (!*out) return cli_noMemory(run->ctx);
  if (!values || !width) return pb_ok;

  for (size_t k = 0; k < rows; k++) memcpy(*out + k * width, values + (constant ? 0 : k * width), width * sizeof **out);
  return pb_ok;
}

static pbStatus start_controls(cliRun *run, int keyframe) {
  double *row = pbContext_Alloc(run->ctx, (size_t)(run->nu + 1) * sizeof *row);
  if (!row) return cli_noMemory(run->ctx);

  pbModel_StartControls(run->model, keyframe, row);
  pbStatus status = expand(run, row, true, (size_t)run->nu, &run->control);
  pbContext_Free(run->ctx, row);
  return status;
}

// The controls of a task, for as many steps as the run has: the first of them, or, where they are constant, the same ones
// further on.
static pbStatus task_controls(cliRun *run) {
  long steps = pbTask_Steps(run->task, run->trajectory);
  size_t nu = (size_t)run->nu;
  double *all = pbContext_Alloc(run->ctx, ((size_t)steps * nu + 1) * sizeof *all);
  if (!all) return cli_noMemory(run->ctx);

  pbStatus status = pbTask_Expand(run->task, pbTask_Start(run->task), run->trajectory, NULL, NULL, all);
  bool same = true;
  for (long k = 1; k < steps; k++) same = same && memcmp(all, all + (size_t)k * nu, nu * sizeof *all) == 0;

  if (status == pb_ok && run->steps > steps && !same) {
    status = pbContext_Fail(run->ctx, pb_bad_input, "%s: the controls cover %ld steps, but %ld are requested", run->model_path,
                            steps, run->steps);
  }

  if (status == pb_ok) status = expand(run, all, run->steps > steps, nu, &run->control);
  pbContext_Free(run->ctx, all);
  return status;
}

// The command's own number of steps (`other`), unless the task says how many; `check` takes the smaller one.
static long default_steps(const cliRun *run, long other) {
  long of_task = run->task ? pbTask_Steps(run->task, run->trajectory) : 0;
  bool horizon = run->app->command->options >> opt_horizon & 1;
  if (of_task <= 0 || (horizon && other < of_task)) return other;
  return of_task;
}

static pbStatus read_series(cliRun *run, Series *s, int keyframe, long other) {
  bool task = run->task && pbTask_Steps(run->task, run->trajectory) > 0;
  for (int i = 0; i < 4; i++) PB_TRY(load_series(run, &s[i]));
  PB_TRY(settle_steps(run, s, 4, default_steps(run, other)));

  // controls: a file's, else the task's, else the keyframe's or zeros
  if (s[0].array) PB_TRY(expand(run, s[0].array->reals, s[0].constant, s[0].width, &run->control));
  else if (task && keyframe < 0) PB_TRY(task_controls(run));
  else PB_TRY(start_controls(run, keyframe));

  // without a file no forces: NULL, not zeros
  if (s[1].array) PB_TRY(expand(run, s[1].array->reals, s[1].constant, s[1].width, &run->qfrc));
  if (s[2].array) PB_TRY(expand(run, s[2].array->reals, s[2].constant, s[2].width, &run->xfrc));
  if (s[3].array) PB_TRY(expand(run, s[3].array->reals, s[3].constant, s[3].width, &run->command));
  else if (run->ncommand && !run->app->args.text[opt_quiet] && !run->app->args.text[opt_worlds])
    fprintf(stderr, "pullback: note: the policy observes %d commands; without --command they are zero\n", run->ncommand);
  return pb_ok;
}

pbStatus cliRun_ReadInputs(cliRun *run, int keyframe, long other) {
  const char *const *text = run->app->args.text;
  size_t nu = (size_t)run->nu, nv = (size_t)run->nv, nbody = (size_t)run->nbody, commands = (size_t)run->ncommand;
  Series s[4] = {{.option = "control", .path = text[opt_control], .ndim = 1, .shape = {nu}, .width = nu},
                 {.option = "qfrc", .path = text[opt_qfrc], .ndim = 1, .shape = {nv}, .width = nv},
                 {.option = "xfrc", .path = text[opt_xfrc], .ndim = 2, .shape = {nbody, 6}, .width = 6 * nbody},
                 {.option = "command", .path = text[opt_command], .ndim = 1, .shape = {commands}, .width = commands}};

  pbStatus status = read_series(run, s, keyframe, other);
  for (int i = 0; i < 4; i++) pbArrays_Destroy(s[i].set);
  return status;
}
