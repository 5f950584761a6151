// Inputs over time: controls and applied forces from files, tasks or keyframes, and how many steps they make.
// Tests: tests/oracle/test_cli.py.
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/trajectory.h>

#include "inputs.h"

typedef struct Series {  // an input over time as its file has it
  const char *option, *path;
  const char *name;  // of one of several arrays of the file, which may lack it; NULL: the option's, or the only one
  int ndim;          // of one step
  size_t shape[2], width;
  pbArrays *set;
  const pbArray *array;
  bool constant;
} Series;

// A trajectory of every so many states has inputs of some steps only.
static pbStatus check_thinned(const cliRun *run, const Series *s) {
  long every = pbSimulation_Every(s->set);
  if (every == 1) return pb_ok;
  return pbContext_Fail(run->ctx, pb_bad_input,
                        "--%s %s: was written with --every %ld and has the inputs of some steps only; expected all", s->option,
                        s->path, every);
}

// Columns of a CSV as the arrays that are looked for: controls at the steps, poses of mocap bodies.
static pbStatus take_columns(const cliRun *run, Series *s) {
  pbParam timestep;
  pbArrays *arrays = NULL;
  long steps = 0;
  if (pbRecording_Rows(s->set) == 0) return pb_ok;
  PB_TRY(pbModel_Param(run->ctx, run->model, "timestep", &timestep));
  PB_TRY(cliArgs_Integer(run->app, opt_steps, 1, INT_MAX - 1, 0, &steps));

  // a note of the option: the text has the place in the file
  pbStatus status;
  double h = run->theta[timestep.offset];
  if (strcmp(s->option, "control") == 0) {
    status = pbRecording_Controls(run->ctx, run->model, s->set, h, steps, &arrays);
  } else if (strcmp(s->option, "mocap") == 0) {
    status = pbRecording_Poses(run->ctx, run->model, s->set, h, &arrays);
  } else {
    return pbContext_Fail(run->ctx, pb_unsupported, "--%s %s: is a CSV, expected NPY or NPZ", s->option, s->path);
  }
  if (status != pb_ok) return pbContext_Fail(run->ctx, status, "--%s %s", s->option, pbContext_Error(run->ctx));

  pbArrays_Destroy(s->set);
  s->set = arrays;
  return pb_ok;
}

// The one array of a file, or of a trajectory the one with the option's name.
static pbStatus find_series(const cliRun *run, Series *s) {
  PB_TRY(pbArrays_Load(run->ctx, s->path, &s->set));
  PB_TRY(take_columns(run, s));
  PB_TRY(check_thinned(run, s));
  size_t count = pbArrays_Count(s->set);
  if (s->name) {
    s->array = pbArrays_Find(s->set, s->name);

    // an array that is not there is none of the file's
    if (!s->array || s->array->type == pb_arrayReal) return pb_ok;
    return pbContext_Fail(run->ctx, pb_bad_input, "--%s %s: '%s': expected numbers, found text", s->option, s->path, s->name);
  }

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
  return pbContext_Fail(run->ctx, pb_bad_input, "--%s %s: %s%sshape %s; expected (N, %s), or (%s%s) for all steps%s", s->option,
                        s->path, s->name ? s->name : "", s->name ? ": " : "",
                        pbArray_ShapeText(a->ndim, a->shape, given, sizeof given), expected, expected, s->ndim == 1 ? "," : "",
                        transposed ? " (rows and columns seem to be exchanged)" : "");
}

static pbStatus load_series(const cliRun *run, Series *s) {
  if (!s->path) return pb_ok;
  PB_TRY(find_series(run, s));

  const pbArray *a = s->array;
  if (!a) return pb_ok;
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

// ---- poses of mocap bodies -------------------------------------------------------------------------------------------
enum {
  in_control,
  in_qfrc,
  in_xfrc,
  in_command,
  in_mocap_pos,
  in_mocap_quat,
  in_mocap_vel,
  in_pos_before,
  in_quat_before,
  series_count
};

size_t cliRun_NoDirection(const pbArray *quat) {
  for (size_t i = 0; i < quat->count / 4; i++) {
    const double *q = quat->reals + 4 * i;
    double length = hypot(hypot(q[0], q[1]), hypot(q[2], q[3]));
    if (!(length >= 1e-6 && length <= 1e6)) return i;
  }
  return quat->count / 4;
}

// Where they were before there is one row.
static pbStatus check_before(const cliRun *run, const Series *s) {
  if (!s->array || s->constant) return pb_ok;
  return wrong_series(run, s);
}

// A file has one of the arrays at least, says in one way how bodies move, and has no quaternion without direction: which row is
// at fault.
static pbStatus check_poses(const cliRun *run, const Series *s) {
  const Series *pos = &s[in_mocap_pos], *quat = &s[in_mocap_quat];
  bool any = false;
  if (!pos->path) return pb_ok;
  if (!run->nmocap) return pbContext_Fail(run->ctx, pb_bad_input, "--mocap %s: the model has no mocap bodies", pos->path);
  for (int i = in_mocap_pos; i < series_count; i++) any = any || s[i].array;
  if (!any)
    return pbContext_Fail(
        run->ctx, pb_bad_input,
        "--mocap %s: expected some of mocap_pos, mocap_quat, mocap_vel, mocap_pos_before and mocap_quat_before, "
        "found none",
        pos->path);

  const Series *before = s[in_pos_before].array ? &s[in_pos_before] : &s[in_quat_before];
  if (s[in_mocap_vel].array && before->array)
    return pbContext_Fail(
        run->ctx, pb_bad_input,
        "--mocap %s: mocap_vel and %s: velocities that are given do not follow from poses; expected one of both", pos->path,
        before->name);

  // named by the first that has no direction
  size_t bodies = (size_t)run->nmocap, at = quat->array ? cliRun_NoDirection(quat->array) : 0;
  if (!quat->array || 4 * at >= quat->array->count) return pb_ok;
  return pbContext_Fail(run->ctx, pb_bad_input,
                        "--mocap %s: mocap_quat: row %zu, mocap body %zu: expected a quaternion of length 1e-6 to 1e6",
                        quat->path, at / bodies, at % bodies);
}

static pbStatus keep_poses(cliRun *run, const double *pos, const double *quat, bool constant) {
  size_t n = (size_t)run->nmocap;

  // rows of all steps
  PB_TRY(expand(run, pos, constant, 3 * n, &run->mocap_pos));
  return expand(run, quat, constant, 4 * n, &run->mocap_quat);
}

// As a task gives them.
static pbStatus task_velocities(cliRun *run, size_t rows) {
  size_t width = 6 * (size_t)run->nmocap;
  double *all = pbContext_Alloc(run->ctx, (rows * width + 1) * sizeof *all);
  if (!all) return cli_noMemory(run->ctx);

  pbStatus status = pb_ok;
  if (pbTask_PoseMotion(run->task, run->trajectory, NULL, NULL, all))
    status = expand(run, all, (size_t)run->steps > rows, width, &run->mocap_vel);
  pbContext_Free(run->ctx, all);
  return status;
}

// Those of a task, for as many steps as the run has: the first of them, or, where they are constant, the same ones further on.
static pbStatus task_poses(cliRun *run) {
  size_t n = (size_t)run->nmocap, rows = (size_t)pbTask_Steps(run->task, run->trajectory);
  bool given = false, same = true;
  double *pos = pbContext_Alloc(run->ctx, (rows * 7 * n + 1) * sizeof *pos), *quat = pos + rows * 3 * n;
  if (!pos) return cli_noMemory(run->ctx);

  // a path that does not move can be held for longer
  pbStatus status = pbTask_Poses(run->task, pbTask_Start(run->task), run->trajectory, pos, quat, &given);
  size_t moving = given ? rows : 0;
  for (size_t k = 1; k < moving; k++) {
    same = same && memcmp(pos, pos + k * 3 * n, 3 * n * sizeof *pos) == 0 &&
           memcmp(quat, quat + k * 4 * n, 4 * n * sizeof *quat) == 0;
  }
  if (status == pb_ok && given && (size_t)run->steps > rows && !same)
    status = pbContext_Fail(run->ctx, pb_bad_input, "%s: poses of mocap bodies cover %zu steps, but %ld are requested",
                            run->model_path, rows, run->steps);
  if (status == pb_ok && given) status = keep_poses(run, pos, quat, (size_t)run->steps > rows);
  if (status == pb_ok && given) status = task_velocities(run, rows);
  pbContext_Free(run->ctx, pos);
  return status;
}

// A keyframe's, which hold for all steps, or the task's.
static pbStatus start_poses(cliRun *run, bool task, int keyframe) {
  size_t n = (size_t)run->nmocap;

  // without a keyframe or a task's they stay the model's
  if (!n) return pb_ok;
  if (keyframe < 0) return task ? task_poses(run) : pb_ok;

  double *pos = pbContext_Alloc(run->ctx, 7 * n * sizeof *pos);
  if (!pos) return cli_noMemory(run->ctx);

  // one row, which holds throughout
  pbModel_MocapPose(run->model, run->theta, keyframe, pos, pos + 3 * n);
  pbStatus status = keep_poses(run, pos, pos + 3 * n, true);
  pbContext_Free(run->ctx, pos);
  return status;
}

// Before row 0 stands what the file says; else, where the poses are one row, that row; else the keyframe's pose or the model's.
static pbStatus keep_before(cliRun *run, const Series *s, int keyframe) {
  size_t n = (size_t)run->nmocap;
  const Series *given[2] = {&s[in_pos_before], &s[in_quat_before]}, *path[2] = {&s[in_mocap_pos], &s[in_mocap_quat]};
  const double *rows[2] = {run->mocap_pos, run->mocap_quat};
  bool task = run->task && keyframe < 0 && !path[0]->array && !path[1]->array;
  run->mocap_before = pbContext_Alloc(run->ctx, 7 * n * sizeof *run->mocap_before);
  if (!run->mocap_before) return cli_noMemory(run->ctx);

  if (task) pbTask_PoseMotion(run->task, run->trajectory, run->mocap_before, run->mocap_before + 3 * n, NULL);
  else pbModel_MocapPose(run->model, run->theta, keyframe, run->mocap_before, run->mocap_before + 3 * n);
  for (int i = 0; i < 2; i++) {
    size_t width = (i ? 4 : 3) * n;
    bool moves = path[i]->array && !path[i]->constant;
    const double *from = !moves && rows[i] && run->steps > 0 ? rows[i] : NULL;
    // a task says it itself
    if (task) from = NULL;
    if (given[i]->array) from = given[i]->array->reals;
    if (from) memcpy(run->mocap_before + (i ? 3 * n : 0), from, width * sizeof *from);
  }
  return pb_ok;
}

pbStatus cliRun_KeepRates(cliRun *run) {
  pbSimulation s = cliRun_Simulation(run);
  PB_TRY(expand(run, NULL, true, 6 * (size_t)run->nmocap, &run->mocap_rate));
  return pbSimulation_Rates(run->ctx, &s, run->mocap_rate);
}

// Velocities: the file's; the task's, unless the file has another path; else what the poses say.
static pbStatus keep_motion(cliRun *run, const Series *s, int keyframe) {
  const Series *vel = &s[in_mocap_vel];
  bool path = false;
  for (int i = in_mocap_pos; i < series_count; i++) path = path || s[i].array;

  if (path) {
    pbContext_Free(run->ctx, run->mocap_vel);
    run->mocap_vel = NULL;
  }
  if (vel->array) return expand(run, vel->array->reals, vel->constant, vel->width, &run->mocap_vel);
  if (run->mocap_vel || (!run->mocap_pos && !run->mocap_quat && !path)) return pb_ok;

  PB_TRY(keep_before(run, s, keyframe));
  return cliRun_KeepRates(run);
}

static pbStatus read_series(cliRun *run, Series *s, int keyframe, long other) {
  bool task = run->task && pbTask_Steps(run->task, run->trajectory) > 0;
  for (int i = 0; i < series_count; i++) PB_TRY(load_series(run, &s[i]));
  PB_TRY(check_poses(run, s));
  PB_TRY(check_before(run, &s[in_pos_before]));
  PB_TRY(check_before(run, &s[in_quat_before]));
  PB_TRY(settle_steps(run, s, series_count, default_steps(run, other)));

  // controls: a file's, else the task's, else the keyframe's or zeros
  if (s[in_control].array)
    PB_TRY(expand(run, s[in_control].array->reals, s[in_control].constant, s[in_control].width, &run->control));
  else if (task && keyframe < 0) PB_TRY(task_controls(run));
  else PB_TRY(start_controls(run, keyframe));

  // without a file no forces: NULL, not zeros
  if (s[in_qfrc].array) PB_TRY(expand(run, s[in_qfrc].array->reals, s[in_qfrc].constant, s[in_qfrc].width, &run->qfrc));
  if (s[in_xfrc].array) PB_TRY(expand(run, s[in_xfrc].array->reals, s[in_xfrc].constant, s[in_xfrc].width, &run->xfrc));
  if (s[in_command].array)
    PB_TRY(expand(run, s[in_command].array->reals, s[in_command].constant, s[in_command].width, &run->command));
  else if (run->ncommand && !run->app->args.text[opt_quiet] && !run->app->args.text[opt_worlds])
    fprintf(cli_err, "pullback: note: the policy observes %d commands; without --command they are zero\n", run->ncommand);

  // poses: a file's, else the keyframe's or the task's, else the model's: NULL
  PB_TRY(start_poses(run, task, keyframe));
  double **poses[in_xfrc] = {&run->mocap_pos, &run->mocap_quat};
  for (int i = 0; i < 2; i++) {
    const Series *given = &s[in_mocap_pos + i];
    if (!given->array) continue;

    // over those of keyframe or task
    pbContext_Free(run->ctx, *poses[i]);
    *poses[i] = NULL;
    PB_TRY(expand(run, given->array->reals, given->constant, given->width, poses[i]));
  }

  return keep_motion(run, s, keyframe);
}

pbStatus cliRun_ReadInputs(cliRun *run, int keyframe, long other) {
  const char *const *text = run->app->args.text;
  size_t nu = (size_t)run->nu, nv = (size_t)run->nv, nbody = (size_t)run->nbody, commands = (size_t)run->ncommand;
  size_t nmocap = (size_t)run->nmocap;
  const char *mocap = text[opt_mocap];
  Series s[series_count] = {
      {.option = "control", .path = text[opt_control], .ndim = 1, .shape = {nu}, .width = nu},
      {.option = "qfrc", .path = text[opt_qfrc], .ndim = 1, .shape = {nv}, .width = nv},
      {.option = "xfrc", .path = text[opt_xfrc], .ndim = 2, .shape = {nbody, 6}, .width = 6 * nbody},
      {.option = "command", .path = text[opt_command], .ndim = 1, .shape = {commands}, .width = commands},
      {.option = "mocap", .name = "mocap_pos", .path = mocap, .ndim = 2, .shape = {nmocap, 3}, .width = 3 * nmocap},
      {.option = "mocap", .name = "mocap_quat", .path = mocap, .ndim = 2, .shape = {nmocap, 4}, .width = 4 * nmocap},
      {.option = "mocap", .name = "mocap_vel", .path = mocap, .ndim = 2, .shape = {nmocap, 6}, .width = 6 * nmocap},
      {.option = "mocap", .name = "mocap_pos_before", .path = mocap, .ndim = 2, .shape = {nmocap, 3}, .width = 3 * nmocap},
      {.option = "mocap", .name = "mocap_quat_before", .path = mocap, .ndim = 2, .shape = {nmocap, 4}, .width = 4 * nmocap}};

  pbStatus status = read_series(run, s, keyframe, other);
  for (int i = 0; i < series_count; i++) pbArrays_Destroy(s[i].set);
  return status;
}
