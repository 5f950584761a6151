// --worlds FILE.npz: many worlds of one model. Arrays have the worlds as their first axis: fields of the initial state (qpos,
// qvel, ...), control, qfrc, xfrc, command, poses of mocap bodies (N rows of each world, or one that is constant), param/NAME.
// What the file lacks, all worlds have from the other options.
// Tests: tests/oracle/test_worlds.py.
#include "worlds.h"

#include <string.h>

static pbStatus wrong(const cliWorlds *w, const pbArray *a, const char *expected) {
  char shape[200];
  return pbContext_Fail(w->run->ctx, pb_bad_input, "%s: '%s' %s; expected %s", w->file, a->name,
                        pbArray_What(a, shape, sizeof shape), expected);
}

// ---- what arrays there are ----------------------------------------------------------------------------------------
static pbStatus count_worlds(cliWorlds *w) {
  for (size_t i = 0; i < pbArrays_Count(w->set); i++) {
    const pbArray *a = pbArrays_At(w->set, i);
    if (strcmp(a->name, "meta") == 0) continue;
    if (a->type != pb_arrayReal || a->ndim < 1 || a->shape[0] < 1 || a->shape[0] > 1 << 24)
      return wrong(w, a, "numbers, with the worlds as the first axis");

    // all arrays are about the same worlds
    if (!w->count) w->count = (int)a->shape[0];
    if (a->shape[0] != (size_t)w->count)
      return pbContext_Fail(w->run->ctx, pb_bad_input, "%s: '%s' is of %zu worlds, the arrays before it are of %d", w->file,
                            a->name, a->shape[0], w->count);
    PB_TRY(pbArray_CheckFinite(w->run->ctx, a, w->file));
  }

  if (w->count) return pb_ok;
  return pbContext_Fail(w->run->ctx, pb_bad_input, "%s: holds no array of worlds (qpos, qvel, control, param/NAME, ...)",
                        w->file);
}

// (worlds, steps, width) or, constant, (worlds, width); xfrc has bodies and six numbers for its width.
static pbStatus read_input(cliWorlds *w, const char *name, int width, unsigned bit, const double *given, const double **to) {
  const pbArray *a = pbArrays_Find(w->set, name);
  size_t one = (size_t)w->count * (size_t)width;
  *to = given;
  if (!a) {
    w->input.shared |= bit;
    return pb_ok;
  }

  bool constant = a->count == one && w->run->steps != 1;
  if (a->count != one * (size_t)w->run->steps && !constant) {
    char text[120];
    snprintf(text, sizeof text, "(%d, %ld, ...) for the run's steps or (%d, ...) for all of them, %d numbers a row", w->count,
             w->run->steps, w->count, width);
    return wrong(w, a, text);
  }

  *to = a->reals;
  if (!constant) return pb_ok;

  // one row for every step: as many as others have
  size_t n = (size_t)width, steps = (size_t)w->run->steps;
  size_t shape[3] = {(size_t)w->count, steps, n};
  char held[64];
  double *rows = NULL;
  snprintf(held, sizeof held, "%s of all steps", name);
  PB_TRY(pbArrays_AddReals(w->set, held, 3, shape, NULL, &rows));
  a = pbArrays_Find(w->set, name);
  for (size_t k = 0; k < (size_t)w->count * steps; k++) memcpy(rows + k * n, a->reals + k / steps * n, n * sizeof *rows);
  *to = rows;

  return pb_ok;
}

// (worlds, steps, nmocap, width) or, constant or before them all, without the steps; quaternions with a direction.
static pbStatus check_poses(const cliWorlds *w, const pbArray *a, int numbers, bool before) {
  size_t bodies = (size_t)w->run->nmocap, width = (size_t)numbers;
  if (!a) return pb_ok;
  if (a->ndim < 3 || a->ndim > (before ? 3 : 4) || a->shape[a->ndim - 1] != width || a->shape[a->ndim - 2] != bodies) {
    char text[120];
    if (before) snprintf(text, sizeof text, "(%d, %zu, %zu)", w->count, bodies, width);
    else
      snprintf(text, sizeof text, "(%d, N, %zu, %zu), or (%d, %zu, %zu) for all steps", w->count, bodies, width, w->count, bodies,
               width);
    return wrong(w, a, text);
  }

  size_t rows = a->count / (width * bodies * (size_t)w->count), at = width == 4 ? cliRun_NoDirection(a) : a->count;
  if (at * width >= a->count) return pb_ok;
  return pbContext_Fail(w->run->ctx, pb_bad_input,
                        "%s: %s: world %zu, row %zu, mocap body %zu: expected a quaternion of length 1e-6 to 1e6", w->file,
                        a->name, at / bodies / rows, at / bodies % rows, at % bodies);
}

// The run's, a row for each world.
static pbStatus repeat(cliWorlds *w, const char *name, const double *row, size_t n, const double **to) {
  double *rows = NULL;
  *to = row;
  if (!row || w->input.shared & pb_sharedMocap) return pb_ok;

  PB_TRY(pbArrays_AddReals(w->set, name, 2, (size_t[]){(size_t)w->count, n}, NULL, &rows));
  for (size_t k = 0; k < (size_t)w->count; k++) memcpy(rows + k * n, row, n * sizeof *rows);
  *to = rows;
  return pb_ok;
}

enum { path_pos, path_quat, path_vel, path_pos_before, path_quat_before, PATHS };
static const char *const path_names[PATHS] = {"mocap_pos", "mocap_quat", "mocap_vel", "mocap_pos_before", "mocap_quat_before"};
static const int path_widths[PATHS] = {3, 4, 6, 3, 4};

// Before the first row all worlds stand where the file says, or its single rows; else where the run does.
static pbStatus keep_before(cliWorlds *w, const pbArray *const path[PATHS]) {
  size_t n = (size_t)w->run->nmocap;
  const double *given = w->run->mocap_before, *own[2] = {given, given ? given + 3 * n : NULL},
               **to[2] = {&w->input.mocap_pos_before, &w->input.mocap_quat_before};

  // velocities that are given say it all
  if (w->input.mocap_vel) return pb_ok;

  for (int i = 0; i < 2; i++) {
    const pbArray *rows = path[path_pos + i], *before = path[path_pos_before + i];
    size_t width = (i ? 4 : 3) * n;
    char name[64];
    snprintf(name, sizeof name, "%s of the run", path_names[path_pos_before + i]);
    PB_TRY(repeat(w, name, own[i], width, to[i]));

    if (rows && rows->ndim == 3) *to[i] = rows->reals;
    if (before) *to[i] = before->reals;
  }
  return pb_ok;
}

// What says how bodies move, by the worlds' file or by the run: one and the same for all of it.
static pbStatus check_motion(const cliWorlds *w, const pbArray *const path[PATHS]) {
  const cliRun *run = w->run;
  const double *of_run[PATHS] = {run->mocap_pos, run->mocap_quat, run->mocap_vel, NULL, NULL};
  int own = -1, other = -1;

  for (int i = 0; i < PATHS; i++) {
    if (path[i]) own = i;
    else if (of_run[i]) other = i;
  }

  // refused, not ignored
  if (own >= 0 && !run->nmocap)
    return pbContext_Fail(run->ctx, pb_bad_input, "%s: poses of mocap bodies, of which the model has none", w->file);
  if (own >= 0 && other >= 0)
    return pbContext_Fail(run->ctx, pb_bad_input, "%s: %s of each world, but %s of all; expected both of each world, or neither",
                          w->file, path_names[own], path_names[other]);

  int before = path[path_pos_before] ? path_pos_before : path_quat_before;
  if (path[path_vel] && path[before])
    return pbContext_Fail(run->ctx, pb_bad_input,
                          "%s: mocap_vel and %s: velocities that are given do not follow from poses; expected one of both",
                          w->file, path_names[before]);
  return pb_ok;
}

static pbStatus read_poses(cliWorlds *w) {
  const cliRun *run = w->run;
  const double *of_run[PATHS] = {run->mocap_pos, run->mocap_quat, run->mocap_vel};
  const double **to[] = {&w->input.mocap_pos, &w->input.mocap_quat, &w->input.mocap_vel};
  const pbArray *path[PATHS];
  bool any = false;

  for (int i = 0; i < PATHS; i++) {
    path[i] = pbArrays_Find(w->set, path_names[i]);
    any = any || path[i];
  }
  PB_TRY(check_motion(w, path));
  for (int i = 0; i < PATHS; i++) PB_TRY(check_poses(w, path[i], path_widths[i], i >= path_pos_before));
  for (int i = 0; i <= path_vel; i++)
    PB_TRY(read_input(w, path_names[i], path_widths[i] * run->nmocap, pb_sharedMocap, of_run[i], to[i]));

  // one bit is of all
  if (any) w->input.shared &= ~(unsigned)pb_sharedMocap;
  return run->nmocap ? keep_before(w, path) : pb_ok;
}

static pbStatus read_parameter(cliWorlds *w, const pbArray *a) {
  // by the name that --param takes
  const char *name = a->name + strlen("param/");
  pbParam p;
  if (pbModel_Param(w->run->ctx, w->run->model, name, &p) != pb_ok)
    return pbContext_Fail(w->run->ctx, pb_bad_input, "%s: %s", w->file, pbContext_Error(w->run->ctx));
  if (w->own_count == CLI_WORLD_PARAMS)
    return pbContext_Fail(w->run->ctx, pb_capacity, "%s: more than %d parameters", w->file, CLI_WORLD_PARAMS);

  if (a->count != (size_t)w->count * (size_t)p.rows * (size_t)p.cols) {
    char text[80];
    snprintf(text, sizeof text, "(%d, ...) with %d numbers a world", w->count, p.rows * p.cols);
    return wrong(w, a, text);
  }

  w->own[w->own_count] = name;
  w->own_from[w->own_count++] = a;

  return pb_ok;
}

static bool is_state(const cliRun *run, const char *name) {
  for (int i = 0; i < pbModel_StateFieldCount(run->model); i++) {
    if (strcmp(pbModel_StateFieldAt(run->model, i).name, name) == 0) return true;
  }

  return false;
}

static pbStatus read_names(cliWorlds *w) {
  static const char *const inputs[] = {"control",           "qfrc",       "xfrc",      "command",
                                       "mocap_pos",         "mocap_quat", "mocap_vel", "mocap_pos_before",
                                       "mocap_quat_before", "meta"};
  // every array is a field of the state, an input, a parameter, or meta
  for (size_t i = 0; i < pbArrays_Count(w->set); i++) {
    const pbArray *a = pbArrays_At(w->set, i);
    bool known = is_state(w->run, a->name);
    for (size_t k = 0; k < sizeof inputs / sizeof *inputs; k++) known |= strcmp(inputs[k], a->name) == 0;
    if (strncmp(a->name, "param/", 6) == 0) PB_TRY(read_parameter(w, a));
    else if (!known)
      return pbContext_Fail(
          w->run->ctx, pb_bad_input,
          "%s: unknown array '%.80s' (fields of the state, control, qfrc, xfrc, command, mocap_pos, mocap_quat, mocap_vel, "
          "mocap_pos_before, mocap_quat_before, param/NAME)",
          w->file, a->name);
  }

  return pb_ok;
}

// As many steps as the controls of worlds have rows, unless --steps says so.
static pbStatus read_steps(cliWorlds *w) {
  const pbArray *a = pbArrays_Find(w->set, "control");
  cliRun *run = w->run;

  // constant ones say nothing of it
  if (!a || a->ndim < 3) return pb_ok;
  if (run->app->args.text[opt_steps] || run->app->args.text[opt_control]) return pb_ok;

  // the run's own controls are zeros, of another length
  run->steps = (long)a->shape[1];

  return pb_ok;
}

// ---- into the batch -----------------------------------------------------------------------------------------------
static pbStatus put_states(const cliWorlds *w) {
  // the run's state first: what the file lacks is the same in all worlds
  const cliRun *run = w->run;
  size_t nx = (size_t)run->nx;
  double *x = pbBatch_States(w->batch);
  for (size_t k = 0; k < (size_t)w->count; k++) memcpy(x + k * nx, run->x0, nx * sizeof *x);

  for (int i = 0; i < pbModel_StateFieldCount(run->model); i++) {
    pbStateField f = pbModel_StateFieldAt(run->model, i);
    const pbArray *a = pbArrays_Find(w->set, f.name);
    size_t size = (size_t)f.size;
    if (!a) continue;

    if (a->count != (size_t)w->count * size) {
      char text[80];
      snprintf(text, sizeof text, "(%d, %d)", w->count, f.size);
      return wrong(w, a, text);
    }
    for (size_t k = 0; k < (size_t)w->count; k++) memcpy(x + k * nx + (size_t)f.offset, a->reals + k * size, size * sizeof *x);
  }

  return pb_ok;
}

static pbStatus put_parameters(const cliWorlds *w) {
  const cliRun *run = w->run;
  double *own = pbBatch_Own(w->batch);
  size_t width = pbBatch_OwnSize(w->batch);

  for (int i = 0; i < w->own_count; i++) {
    size_t column, size = w->own_from[i]->count / (size_t)w->count;
    pbBatch_OwnAt(w->batch, i, &column);
    for (size_t k = 0; k < (size_t)w->count; k++)
      memcpy(own + k * width + column, w->own_from[i]->reals + k * size, size * sizeof *own);
  }

  // each world's parameters as those of one run are checked
  double *theta = pbContext_Alloc(run->ctx, run->ntheta * sizeof *theta);
  if (!theta) return cli_noMemory(run->ctx);
  pbStatus status = pb_ok;
  int checked = w->own_count ? w->count : 0;
  for (int k = 0; k < checked && status == pb_ok; k++) {
    pbBatch_Theta(w->batch, run->theta, k, theta);
    status = pbModel_CheckParams(run->ctx, run->model, theta);
    char text[1024];
    snprintf(text, sizeof text, "%s", pbContext_Error(run->ctx));
    if (status != pb_ok) status = pbContext_Fail(run->ctx, status, "%s: world %d: %s", w->file, k, text);
  }
  pbContext_Free(run->ctx, theta);

  return status;
}

static pbStatus check_options(const cliRun *run) {
  static const cliOptionId none[] = {opt_vtu,    opt_glb,  opt_loss,  opt_memory,     opt_strict, opt_wrt,
                                     opt_window, opt_clip, opt_decay, opt_spot_check, opt_seed};
  // what is not done for many worlds is refused, not ignored
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    if (run->app->args.text[none[i]])
      return pbContext_Fail(run->ctx, pb_bad_argument, "--%s does not go with --worlds", cliArgs_Name(none[i]));
  }

  return pb_ok;
}

pbStatus cliWorlds_Begin(cliRun *run, bool tape, cliWorlds *w) {
  *w = (cliWorlds){.run = run, .file = run->app->args.text[opt_worlds]};
  PB_TRY(check_options(run));
  PB_TRY(pbArrays_Load(run->ctx, w->file, &w->set));
  PB_TRY(count_worlds(w));
  PB_TRY(read_names(w));
  long steps = run->steps;
  PB_TRY(read_steps(w));

  // zeros for a run of another length are of no use
  const double *control = run->steps == steps ? run->control : NULL;
  PB_TRY(read_input(w, "control", run->nu, pb_sharedCtrl, control, &w->input.ctrl));
  PB_TRY(read_input(w, "qfrc", run->nv, pb_sharedQfrc, run->qfrc, &w->input.qfrc));
  PB_TRY(read_input(w, "xfrc", 6 * run->nbody, pb_sharedXfrc, run->xfrc, &w->input.xfrc));
  PB_TRY(read_input(w, "command", run->ncommand, pb_sharedCommand, run->command, &w->input.command));
  PB_TRY(read_poses(w));

  PB_TRY(cliArgs_Pool(run->app, &w->pool));
  pbBatchOptions options = {.worlds = w->count,
                            .pool = w->pool,
                            .steps = tape ? (int)run->steps : 0,
                            .shared_inputs = tape,
                            .own = w->own,
                            .own_count = w->own_count};
  PB_TRY(pbBatch_Create(run->ctx, run->model, &options, &w->batch));
  PB_TRY(put_states(w));
  PB_TRY(put_parameters(w));

  // constants of each world follow from its own parameters
  return run->recompute && w->own_count ? pbBatch_Derive(w->batch, run->theta, NULL, 0) : pb_ok;
}

void cliWorlds_End(cliWorlds *w) {
  pbBatch_Destroy(w->batch);
  pbPool_Destroy(w->pool);
  pbArrays_Destroy(w->set);
}

pbStatus cliWorlds_Note(const cliWorlds *w, pbStatus status, pbStatus *failed) {
  enum { most = 10 };
  int failures = pbBatch_Failed(w->batch), told = 0;
  if (status == pb_ok) return pb_ok;
  if (failures == 0) return status;

  // the first by number, and how many more
  for (int k = 0; k < w->count && told < most; k++) {
    const char *text = pbBatch_Error(w->batch, k);
    if (!*text) continue;
    fprintf(cli_err, "pullback %s: world %d: %s\n", w->run->app->command->name, k, text);
    told++;
  }
  if (failures > told) fprintf(cli_err, "pullback %s: and %d other worlds\n", w->run->app->command->name, failures - told);

  // the others are written all the same; the command ends with the status of the first
  if (*failed == pb_ok) *failed = pbContext_Fail(w->run->ctx, status, "%d of %d worlds failed", failures, w->count);

  return pb_ok;
}
