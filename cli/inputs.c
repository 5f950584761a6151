// What a run starts from: model, parameters, initial state, inputs.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

bool cli_finite(const double *values, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!isfinite(values[i])) return false;
  }
  return true;
}

static pbStatus no_memory(pbContext *ctx) { return pbContext_Fail(ctx, pb_no_memory, "out of memory"); }

// ---- parameters ----------------------------------------------------------------------------------------------------

int cliParam_Shape(const pbParam *param, size_t shape[2]) {
  int n = 0;
  if (!param->option) shape[n++] = (size_t)param->rows;
  if (param->cols != 1) shape[n++] = (size_t)param->cols;
  return n;
}

// NAME of NAME=VALUE as a text of its own; the value behind it.
static pbStatus split(pbContext *ctx, const char *what, const char *text, char *name, size_t size, const char **value) {
  size_t n = strcspn(text, "=");
  if (!text[n] || !n) return pbContext_Fail(ctx, pb_bad_argument, "--%s: '%.80s' is not NAME=VALUE", what, text);
  if (n >= size) return pbContext_Fail(ctx, pb_bad_argument, "--%s: '%.80s...': the name is too long", what, text);
  memcpy(name, text, n);
  name[n] = 0;
  *value = text + n + 1;
  return pb_ok;
}

static pbStatus parameter_from_file(const cliRun *run, const char *name, const pbParam *param, const char *path) {
  pbArrays *set = NULL;
  PB_TRY(pbArrays_Load(run->ctx, path, &set));
  const pbArray *array = pbArrays_Count(set) == 1 ? pbArrays_At(set, 0) : NULL;
  size_t count = (size_t)param->rows * (size_t)param->cols;
  pbStatus status = pb_ok;
  char text[200];
  if (!array || array->type != pb_arrayReal) {
    status = pbContext_Fail(run->ctx, pb_bad_input, "%s: does not hold one array of numbers", path);
  } else if (array->count != count || (array->ndim > 1 && array->shape[array->ndim - 1] != (size_t)param->cols &&
                                       array->shape[array->ndim - 1] != count)) {
    status = pbContext_Fail(run->ctx, pb_bad_input, "%s: shape %s does not fit %s (%d x %d)", path,
                            pbArray_ShapeText(array->ndim, array->shape, text, sizeof text), name, param->rows, param->cols);
  } else {
    status = pbArray_CheckFinite(run->ctx, array, path);
    if (status == pb_ok) memcpy(run->theta + param->offset, array->reals, count * sizeof *array->reals);
  }
  pbArrays_Destroy(set);
  return status;
}

static pbStatus parameter_inline(const cliRun *run, const char *name, const pbParam *param, const char *text) {
  size_t count = (size_t)param->rows * (size_t)param->cols, n = 0;
  for (const char *at = text;; at++) {
    double value = 0;
    const char *end = NULL;
    if (!cli_number(at, &end, &value) || (*end && *end != ',')) {
      return pbContext_Fail(run->ctx, pb_bad_input, "--param %s: '%.80s' is not a list of finite numbers (1.5,2,3) or a FILE.npy",
                            name, text);
    }
    if (n < count) run->theta[param->offset + n] = value;
    n++;
    at = end;
    if (!*at) break;
  }
  if (n == count) return pb_ok;
  return pbContext_Fail(run->ctx, pb_bad_input, "--param %s: %zu number%s given, %zu needed (%d x %d)%s", name, n,
                        n == 1 ? "" : "s", count, param->rows, param->cols,
                        strchr(name, ':') || param->rows < 2 ? "" : "; one row is FIELD:OBJECT=...");
}

static bool has_suffix(const char *text, const char *suffix) {
  size_t n = strlen(text), m = strlen(suffix);
  return n >= m && strcmp(text + n - m, suffix) == 0;
}

static pbStatus set_parameter(const cliRun *run, const char *what, const char *text) {
  char name[256];
  const char *value = NULL;
  pbParam param;
  PB_TRY(split(run->ctx, what, text, name, sizeof name, &value));
  PB_TRY(pbModel_Param(run->ctx, run->model, name, &param));
  if (has_suffix(value, ".npy")) return parameter_from_file(run, name, &param, value);
  return parameter_inline(run, name, &param, value);
}

// timestep, gravity, ... are parameters; "gravity" with enable or disable is a flag.
static bool option_is_parameter(const pbModel *model, const char *name, const char *value) {
  pbParam param;
  return pbModel_Param(NULL, model, name, &param) == pb_ok && param.option && strcmp(value, "enable") != 0 &&
         strcmp(value, "disable") != 0;
}

static pbStatus set_options(cliRun *run, bool parameters) {
  for (int i = 0; i < run->app->args.options.count; i++) {
    const char *text = run->app->args.options.items[i], *value = NULL;
    char name[256];
    PB_TRY(split(run->ctx, "option", text, name, sizeof name, &value));
    if (option_is_parameter(run->model, name, value) != parameters) continue;
    if (parameters) {
      PB_TRY(set_parameter(run, "option", text));
    } else {
      PB_TRY(pbModel_SetOption(run->loaded, name, value));
    }
  }
  return pb_ok;
}

static pbStatus set_contact(cliRun *run) {
  for (int i = 0; i < run->app->args.contact.count; i++) {
    char name[256];
    const char *value = NULL;
    PB_TRY(split(run->ctx, "contact", run->app->args.contact.items[i], name, sizeof name, &value));
    PB_TRY(pbModel_SetContact(run->loaded, name, value));
  }
  return pbModel_Check(run->ctx, run->model);
}

static pbStatus read_constants(cliRun *run) {
  const char *text = run->app->args.text[opt_constants];
  if (!text || strcmp(text, "keep") == 0) return pb_ok;
  if (strcmp(text, "recompute") != 0) {
    const char *const names[] = {"keep", "recompute"}, *near = pbName_Nearest(text, names, 2);
    return pbContext_Fail(run->ctx, pb_bad_argument, "--constants: '%.40s' is neither keep nor recompute%s%s%s", text,
                          near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
  }
  run->recompute = true;
  return pb_ok;
}

static pbStatus check_given(const cliRun *run) {
  for (int i = 0; i < run->app->args.params.count; i++) {
    char name[256];
    const char *value = NULL;
    pbParam param;
    PB_TRY(split(run->ctx, "param", run->app->args.params.items[i], name, sizeof name, &value));
    PB_TRY(pbModel_Param(run->ctx, run->model, name, &param));
    PB_TRY(pbModel_CheckGiven(run->ctx, run->model, &param, run->theta_before, run->theta));
  }
  return pb_ok;
}

// What options say of parameters.
static pbStatus set_given(cliRun *run) {
  PB_TRY(set_options(run, true));
  for (int i = 0; i < run->app->args.params.count; i++) PB_TRY(set_parameter(run, "param", run->app->args.params.items[i]));
  return pb_ok;
}

// The run of a task file: its variables' start values come before what options say.
static pbStatus read_task(cliRun *run) {
  PB_TRY(pbTask_LoadRun(run->ctx, run->model_path, run->app->args.text[opt_allow_root], run->model, run->theta, &run->task));
  pbTask_Parameters(run->task, pbTask_Start(run->task), run->theta);
  run->trajectories = pbTask_TrajectoryCount(run->task);
  if (!run->app->args.text[opt_constants]) run->recompute = strcmp(pbTask_Constants(run->task), "recompute") == 0;
  return set_given(run);
}

// Where no option has changed any, a bad parameter stands in the file.
static pbStatus check_parameters(cliRun *run) {
  char text[1024];
  pbStatus status = pbModel_CheckParams(run->ctx, run->model, run->theta);
  if (status == pb_ok || run->app->args.params.count || run->app->args.options.count) return status;
  snprintf(text, sizeof text, "%s", pbContext_Error(run->ctx));
  return pbContext_Fail(run->ctx, status, "%s: %s", run->model_path, text);
}

static pbStatus set_theta(cliRun *run, bool task) {
  size_t bytes = run->ntheta * sizeof *run->theta;
  run->theta = pbContext_Alloc(run->ctx, bytes);
  if (!run->theta) return no_memory(run->ctx);
  memcpy(run->theta, pbModel_DefaultParams(run->model), bytes);
  PB_TRY(set_given(run));
  if (task) PB_TRY(read_task(run));
  PB_TRY(check_parameters(run));
  if (!run->recompute) return pb_ok;
  run->theta_before = pbContext_Alloc(run->ctx, bytes);
  if (!run->theta_before) return no_memory(run->ctx);
  memcpy(run->theta_before, run->theta, bytes);
  PB_TRY(pbModel_SetConstants(run->ctx, run->model, run->theta));
  return check_given(run);
}

static void show_warnings(const pbContext *ctx) {
  const char *text = pbContext_Warnings(ctx);
  while (*text) {
    int n = (int)strcspn(text, "\n");
    fprintf(stderr, "pullback: warning: %.*s\n", n, text);
    text += n + (text[n] != 0);
  }
}

// Penalty contacts that the time step is too long for.
static void warn_timestep(const cliRun *run) {
  int geoms[2];
  pbParam timestep;
  if (pbModel_Param(NULL, run->model, "timestep", &timestep) != pb_ok) return;

  double limit = pbModel_ContactTimestep(run->model, run->theta, geoms), h = run->theta[timestep.offset];
  if (h < limit) return;

  fprintf(stderr,
          "pullback: warning: penalty contact of geoms %d '%s' and %d '%s': the time step %.3g is not below %.3g, from where on "
          "stiffness and damping make such a contact unstable\n",
          geoms[0], pbModel_Name(run->model, pb_objGeom, geoms[0]), geoms[1], pbModel_Name(run->model, pb_objGeom, geoms[1]), h,
          limit);
}

void cliRun_Sizes(cliRun *run) {
  const pbModel *m = run->model;
  run->nq = pbModel_Size(m, "nq");
  run->nv = pbModel_Size(m, "nv");
  run->na = pbModel_Size(m, "na");
  run->nu = pbModel_Size(m, "nu");
  run->nbody = pbModel_Size(m, "nbody");
  run->nsite = pbModel_Size(m, "nsite");
  run->nsensordata = pbModel_Size(m, "nsensordata");
  run->nx = pbModel_StateSize(m);
  run->nt = pbModel_TangentSize(m);
  run->ntheta = pbModel_ParamSize(m);
  run->worst_residual_step = run->penetration_step = run->gain_step = -1;
  run->gaining[0] = run->gaining[1] = -1;
  run->penetrating[0] = run->penetrating[1] = -1;
}

static pbStatus add_deformables(cliRun *run, const pbLoadOptions *load) {
  const char *file = run->app->args.text[opt_deformables];
  pbDeformable *d;
  if (!file) return pb_ok;
  PB_TRY(pbDeformable_Load(run->ctx, run->loaded, file, load, &d));
  pbStatus status = pbModel_SetDeformable(run->loaded, d);
  pbDeformable_Destroy(d);
  return status;
}

static pbStatus load_model(cliApp *app, bool task, cliRun *run) {
  *run = (cliRun){.app = app, .ctx = app->ctx, .model_path = app->args.positional[0]};
  PB_TRY(read_constants(run));
  pbLoadOptions load = {.allow_root = app->args.text[opt_allow_root]};
  PB_TRY(pbModel_Load(run->ctx, run->model_path, &load, &run->loaded));
  PB_TRY(add_deformables(run, &load));
  show_warnings(run->ctx);
  run->model = run->loaded;
  cliRun_Sizes(run);
  PB_TRY(set_options(run, false));
  PB_TRY(set_contact(run));
  PB_TRY(set_theta(run, task));
  warn_timestep(run);
  return pb_ok;
}

pbStatus cliRun_Model(cliApp *app, cliRun *run) { return load_model(app, false, run); }

// ---- initial state -------------------------------------------------------------------------------------------------

static pbStatus read_keyframe(const cliRun *run, int *keyframe) {
  const char *text = run->app->args.text[opt_keyframe];
  *keyframe = -1;
  if (!text) return pb_ok;
  int count = pbModel_Size(run->model, "nkey");
  char *end = NULL;
  long number = strtol(text, &end, 10);
  *keyframe = *text && !*end && number >= 0 && number < count ? (int)number : pbModel_Id(run->model, pb_objKeyframe, text);
  if (*keyframe >= 0) return pb_ok;
  const char *near = NULL, *names[64];
  int named = 0;
  for (int i = 0; i < count && named < 64; i++) names[named++] = pbModel_Name(run->model, pb_objKeyframe, i);
  near = pbName_Nearest(text, names, named);
  return pbContext_Fail(run->ctx, pb_bad_input, "--keyframe: the model has no keyframe '%.60s' (it has %d, counted from 0)%s%s%s",
                        text, count, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

// Names that a trajectory file holds beside state fields; an initial state passes over them.
static bool known_beside_state(const char *name) {
  static const char *const names[] = {"control", "sensordata", "meta", "qfrc", "xfrc", "xpos", "site_xpos"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(name, names[i]) == 0) return true;
  }
  return false;
}

static pbStatus unknown_state_field(const cliRun *run, const char *file, const char *name) {
  const char *names[32], *near;
  int count = 0;
  if (!*name)
    return pbContext_Fail(run->ctx, pb_bad_input,
                          "%s: holds one array without a name; an initial state is an NPZ file with qpos, qvel, act, time, ...",
                          file);
  for (int i = 0; i < pbModel_StateFieldCount(run->model) && count < 32; i++)
    names[count++] = pbModel_StateFieldAt(run->model, i).name;
  near = pbName_Nearest(name, names, count);
  return pbContext_Fail(run->ctx, pb_bad_input,
                        "%s: unknown array '%.80s'%s%s%s (an initial state holds qpos, qvel, act, time, ...)", file, name,
                        near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static bool state_field(const pbModel *model, const char *name, pbStateField *field) {
  for (int i = 0; i < pbModel_StateFieldCount(model); i++) {
    *field = pbModel_StateFieldAt(model, i);
    if (strcmp(field->name, name) == 0) return true;
  }
  return false;
}

// Rows of a trajectory file: the first count of any two-dimensional state array (time alone tells by its length); 0: one state.
static pbStatus trajectory_rows(const cliRun *run, const char *file, const pbArrays *set, size_t *rows) {
  *rows = 0;
  pbStateField field;
  for (size_t i = 0; i < pbArrays_Count(set); i++) {
    const pbArray *a = pbArrays_At(set, i);
    if (!state_field(run->model, a->name, &field) || a->ndim != 2) continue;
    if (*rows && a->shape[0] != *rows) {
      return pbContext_Fail(run->ctx, pb_bad_input, "%s: '%s' has %zu rows where others have %zu", file, a->name, a->shape[0],
                            *rows);
    }
    *rows = a->shape[0];
    if (!*rows) return pbContext_Fail(run->ctx, pb_bad_input, "%s: '%s' has no rows", file, a->name);
  }
  const pbArray *time = pbArrays_Find(set, "time");
  if (!*rows && time && time->ndim == 1 && time->count > 1) *rows = time->count;
  return pb_ok;
}

static pbStatus copy_state_field(const cliRun *run, const char *file, const pbArray *a, pbStateField field, size_t rows,
                                 size_t row) {
  bool is_time = strcmp(field.name, "time") == 0;
  size_t width = (size_t)field.size;
  bool many = rows && (a->ndim == 2 || (is_time && a->ndim == 1 && a->count == rows));
  bool fits = a->type == pb_arrayReal && (many ? a->count == rows * width : a->count == width && a->ndim <= 1);
  char text[200];
  if (!fits) {
    return pbContext_Fail(run->ctx, pb_bad_input, "%s: '%s' has shape %s; (%zu,) is expected, or (N, %zu) in a trajectory", file,
                          field.name, pbArray_ShapeText(a->ndim, a->shape, text, sizeof text), width, width);
  }
  PB_TRY(pbArray_CheckFinite(run->ctx, a, file));
  if (width) memcpy(run->x0 + field.offset, a->reals + (many ? row * width : 0), width * sizeof *a->reals);
  return pb_ok;
}

// A quaternion of length zero is no orientation.
static pbStatus check_quaternions(const cliRun *run, const char *file) {
  pbField type, address;
  pbStateField qpos;
  if (!pbModel_Field(run->model, "jnt_type", &type) || !pbModel_Field(run->model, "jnt_qposadr", &address)) return pb_ok;
  if (!state_field(run->model, "qpos", &qpos)) return pb_ok;
  for (int j = 0; j < type.rows; j++) {
    if (type.integers[j] > 1) continue;
    const double *q = run->x0 + qpos.offset + address.integers[j] + (type.integers[j] == 0 ? 3 : 0);
    if (q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3] > 1e-20) continue;
    return pbContext_Fail(run->ctx, pb_bad_input, "%s: the quaternion of joint %d ('%s') has length zero", file, j,
                          pbModel_Name(run->model, pb_objJoint, j));
  }
  return pb_ok;
}

static pbStatus apply_init(cliRun *run, const char *file, const pbArrays *set) {
  size_t rows = 0;
  PB_TRY(trajectory_rows(run, file, set, &rows));
  long row = 0;
  if (run->app->args.text[opt_init_row] && !rows)
    return pbContext_Fail(run->ctx, pb_bad_input, "--init-row: %s holds one state, not a trajectory", file);
  if (rows) PB_TRY(cliArgs_Integer(run->app, opt_init_row, -(long)rows, (long)rows - 1, -1, &row));
  if (row < 0) row += (long)rows;
  int used = 0;
  for (size_t i = 0; i < pbArrays_Count(set); i++) {
    const pbArray *a = pbArrays_At(set, i);
    pbStateField field;
    if (state_field(run->model, a->name, &field)) {
      PB_TRY(copy_state_field(run, file, a, field, rows, (size_t)row));
      used += strcmp(a->name, "time") != 0;
    } else if (!known_beside_state(a->name)) {
      return unknown_state_field(run, file, a->name);
    }
  }
  if (!used)
    return pbContext_Fail(run->ctx, pb_bad_input,
                          "%s: holds no state: at least one of qpos, qvel, act (points, point_velocity) is needed", file);
  return check_quaternions(run, file);
}

static pbStatus read_state(cliRun *run, int keyframe) {
  run->x0 = pbContext_Alloc(run->ctx, (size_t)run->nx * sizeof *run->x0);
  if (!run->x0) return no_memory(run->ctx);
  PB_TRY(pbState_Init(run->ctx, run->model, run->theta, keyframe, run->x0));
  if (run->task && keyframe < 0) {
    PB_TRY(pbTask_Expand(run->task, pbTask_Start(run->task), run->trajectory, NULL, run->x0, NULL));
  }
  const char *file = run->app->args.text[opt_init];
  if (!file && run->app->args.text[opt_init_row]) return pbContext_Fail(run->ctx, pb_bad_argument, "--init-row needs --init");
  if (!file) return pb_ok;
  pbArrays *set = NULL;
  PB_TRY(pbArrays_Load(run->ctx, file, &set));
  pbStatus status = apply_init(run, file, set);
  pbArrays_Destroy(set);
  return status;
}

// ---- inputs --------------------------------------------------------------------------------------------------------

typedef struct Series {  // an input over time as its file has it
  const char *option, *path;
  int ndim;  // of one step
  size_t shape[2], width;
  pbArrays *set;
  const pbArray *array;
  bool constant;
} Series;

static pbStatus load_series(const cliRun *run, Series *s) {
  if (!s->path) return pb_ok;
  PB_TRY(pbArrays_Load(run->ctx, s->path, &s->set));
  const pbArray *a = s->array = pbArrays_Count(s->set) == 1 ? pbArrays_At(s->set, 0) : NULL;
  char given[200], wanted[64] = "";
  if (!a) a = s->array = pbArrays_Find(s->set, s->option);  // of a trajectory
  if (!a) {
    return pbContext_Fail(run->ctx, pb_bad_input, "--%s %s: holds %zu arrays; one, or one named '%s', is needed", s->option,
                          s->path, pbArrays_Count(s->set), s->option);
  }
  if (a->type != pb_arrayReal)
    return pbContext_Fail(run->ctx, pb_bad_input, "--%s %s: holds text; numbers are needed", s->option, s->path);
  bool fits = a->ndim == s->ndim || a->ndim == s->ndim + 1;
  for (int i = 0; i < s->ndim && fits; i++) fits = a->shape[a->ndim - s->ndim + i] == s->shape[i];
  s->constant = a->ndim == s->ndim;
  if (!fits) {
    snprintf(wanted, sizeof wanted, s->ndim == 1 ? "%zu" : "%zu, %zu", s->shape[0], s->shape[1]);
    bool turned = s->ndim == 1 && a->ndim == 2 && a->shape[0] == s->shape[0];
    return pbContext_Fail(run->ctx, pb_bad_input, "--%s %s: shape %s; (N, %s) is expected, or (%s%s) for all steps%s", s->option,
                          s->path, pbArray_ShapeText(a->ndim, a->shape, given, sizeof given), wanted, wanted,
                          s->ndim == 1 ? "," : "", turned ? " (rows and columns seem to be exchanged)" : "");
  }
  return pbArray_CheckFinite(run->ctx, a, s->path);
}

static pbStatus settle_steps(cliRun *run, const Series *series, int count, long other) {
  const char *from = NULL;
  long given = 0;
  PB_TRY(cliArgs_Integer(run->app, opt_steps, 1, INT_MAX - 1, 0, &given));
  if (given) from = "--steps";
  for (int i = 0; i < count; i++) {
    const Series *s = &series[i];
    if (!s->array || s->constant) continue;
    size_t rows = s->array->shape[0];
    if (!rows || rows >= INT_MAX)
      return pbContext_Fail(run->ctx, pb_bad_input, "--%s %s: %zu rows; one for every step is needed", s->option, s->path, rows);
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
  *out = pbContext_Alloc(run->ctx, rows * width * sizeof **out);
  if (!*out) return no_memory(run->ctx);
  for (size_t k = 0; k < rows && values && width; k++) {
    memcpy(*out + k * width, values + (constant ? 0 : k * width), width * sizeof **out);
  }
  return pb_ok;
}

static pbStatus start_controls(cliRun *run, int keyframe) {
  double *row = pbContext_Alloc(run->ctx, (size_t)(run->nu + 1) * sizeof *row);
  if (!row) return no_memory(run->ctx);
  pbModel_StartControls(run->model, keyframe, row);
  pbStatus status = expand(run, row, true, (size_t)run->nu, &run->control);
  pbContext_Free(run->ctx, row);
  return status;
}

// The controls of a task, for as many steps as are wanted: the first of them, or the same ones on where they do not change.
static pbStatus task_controls(cliRun *run) {
  long steps = pbTask_Steps(run->task, run->trajectory);
  size_t nu = (size_t)run->nu;
  double *all = pbContext_Alloc(run->ctx, ((size_t)steps * nu + 1) * sizeof *all);
  if (!all) return no_memory(run->ctx);
  pbStatus status = pbTask_Expand(run->task, pbTask_Start(run->task), run->trajectory, NULL, NULL, all);
  bool same = true;
  for (long k = 1; k < steps; k++) same = same && memcmp(all, all + (size_t)k * nu, nu * sizeof *all) == 0;
  if (status == pb_ok && run->steps > steps && !same) {
    status = pbContext_Fail(run->ctx, pb_bad_input, "%s: the controls are those of %ld steps; %ld steps are asked for",
                            run->model_path, steps, run->steps);
  }
  if (status == pb_ok) status = expand(run, all, run->steps > steps, nu, &run->control);
  pbContext_Free(run->ctx, all);
  return status;
}

static pbStatus read_series(cliRun *run, Series *s, int keyframe, long other) {
  long of_task = run->task ? pbTask_Steps(run->task, run->trajectory) : 0;
  bool task = of_task > 0, horizon = run->app->command->options >> opt_horizon & 1;
  for (int i = 0; i < 3; i++) PB_TRY(load_series(run, &s[i]));
  PB_TRY(settle_steps(run, s, 3, !task || (horizon && other < of_task) ? other : of_task));
  if (s[0].array) PB_TRY(expand(run, s[0].array->reals, s[0].constant, s[0].width, &run->control));
  else if (task && keyframe < 0) PB_TRY(task_controls(run));
  else PB_TRY(start_controls(run, keyframe));
  if (s[1].array) PB_TRY(expand(run, s[1].array->reals, s[1].constant, s[1].width, &run->qfrc));
  if (s[2].array) PB_TRY(expand(run, s[2].array->reals, s[2].constant, s[2].width, &run->xfrc));
  return pb_ok;
}

static pbStatus read_inputs(cliRun *run, int keyframe, long other) {
  const char *const *text = run->app->args.text;
  size_t nu = (size_t)run->nu, nv = (size_t)run->nv, nbody = (size_t)run->nbody;
  Series s[3] = {{.option = "control", .path = text[opt_control], .ndim = 1, .shape = {nu}, .width = nu},
                 {.option = "qfrc", .path = text[opt_qfrc], .ndim = 1, .shape = {nv}, .width = nv},
                 {.option = "xfrc", .path = text[opt_xfrc], .ndim = 2, .shape = {nbody, 6}, .width = 6 * nbody}};
  pbStatus status = read_series(run, s, keyframe, other);
  for (int i = 0; i < 3; i++) pbArrays_Destroy(s[i].set);
  return status;
}

// Which trajectory of a task; several are all of them for `gradient`, and the first, with a word, for the other commands.
static pbStatus choose_trajectory(cliRun *run) {
  const char *text = run->app->args.text[opt_trajectory];
  long k = 0;
  if (!text) return pb_ok;
  if (!run->task || run->trajectories < 2)
    return pbContext_Fail(run->ctx, pb_bad_argument, "--trajectory: %s has no list of trajectories", run->model_path);
  PB_TRY(cliArgs_Integer(run->app, opt_trajectory, 0, run->trajectories - 1, 0, &k));
  run->trajectory = (int)k;
  run->trajectories = 1;
  return pb_ok;
}

static pbStatus begin_trajectory(cliRun *run) {
  int keyframe = -1;
  PB_TRY(read_keyframe(run, &keyframe));
  PB_TRY(read_state(run, keyframe));
  return read_inputs(run, keyframe, run->other_steps);
}

pbStatus cliRun_Trajectory(cliRun *run, int trajectory) {
  double **memory[] = {&run->x0, &run->control, &run->qfrc, &run->xfrc};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
    pbContext_Free(run->ctx, *memory[i]);
    *memory[i] = NULL;
  }
  run->trajectory = trajectory;
  return begin_trajectory(run);
}

pbStatus cliRun_Begin(cliApp *app, long steps, cliRun *run) {
  PB_TRY(load_model(app, has_suffix(app->args.positional[0], ".json"), run));
  run->other_steps = steps;
  PB_TRY(choose_trajectory(run));
  return begin_trajectory(run);
}

void cliRun_FirstTrajectory(const cliRun *run) {
  if (run->trajectories < 2) return;
  fprintf(stderr, "pullback: trajectory 0 of %d; --trajectory picks another\n", run->trajectories);
}

void cliRun_End(cliRun *run) {
  if (!run->ctx) return;
  pbScratch_Destroy(run->scratch);
  double *memory[] = {run->theta, run->theta_before, run->x0, run->control, run->qfrc, run->xfrc};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) pbContext_Free(run->ctx, memory[i]);
  pbTask_Destroy(run->task);
  pbModel_Destroy(run->loaded);
  *run = (cliRun){0};
}

pbInput cliRun_Input(const cliRun *run, long k) {
  size_t row = (size_t)(k < run->steps ? k : run->steps - 1);
  return (pbInput){.ctrl = run->control + row * (size_t)run->nu,
                   .qfrc = run->qfrc ? run->qfrc + row * (size_t)run->nv : NULL,
                   .xfrc = run->xfrc ? run->xfrc + row * 6 * (size_t)run->nbody : NULL};
}

pbStatus cliRun_StepFailed(const cliRun *run, pbStatus status, long k) {
  const char *text = run->scratch ? pbScratch_Error(run->scratch) : "";
  return pbContext_Fail(run->ctx, status, "step %ld of %ld: %s", k, run->steps, *text ? text : pbStatus_Text(status));
}

pbStatus cliRun_CheckState(const cliRun *run, const double *x, long k) {
  static const double bound = 1e10;  // MuJoCo's mjMAXVAL: beyond it a state counts as lost
  char name[160];
  for (int i = 0; i < run->nx; i++) {
    if (fabs(x[i]) <= bound) continue;
    return pbContext_Fail(
        run->ctx, pb_not_finite,
        "step %ld of %ld: %s became %g: the state grows beyond bounds (unstable motion; a smaller time step or more "
        "damping helps)",
        k, run->steps, pbState_EntryName(run->model, i, name, sizeof name), x[i]);
  }
  return pb_ok;
}

// ---- the constraint solver -----------------------------------------------------------------------------------------

void cliRun_NoteResidual(cliRun *run, double residual, double condition, const char *row, long k) {
  if (run->worst_residual_step >= 0 && residual <= run->worst_residual) return;
  run->worst_residual = residual;
  run->worst_residual_step = k;
  run->worst_condition = condition;
  snprintf(run->worst_row, sizeof run->worst_row, "%s", row);
}

void cliRun_NoteSolve(cliRun *run, long k) {
  pbReport report = pbScratch_Report(run->scratch);
  if (report.rows || report.deforms)
    cliRun_NoteResidual(run, report.residual, report.condition, pbScratch_WorstRow(run->scratch), k);
  run->unconverged += !report.converged;
  cliRun_NotePenetration(run, report.penetration, report.penetrating, k);
  run->gains += report.gains;
  if (!(report.gain > run->gain)) return;
  run->gain = report.gain, run->gain_step = k;
  memcpy(run->gaining, report.gaining, sizeof run->gaining);
}

void cliRun_NotePenetration(cliRun *run, double depth, const int geoms[2], long k) {
  if (!(depth > run->penetration)) return;
  run->penetration = depth;
  run->penetration_step = k;
  memcpy(run->penetrating, geoms, sizeof run->penetrating);
}

// What a solve that did not converge depends on: hard contact has neither that condition number nor those iterations.
static void solver_detail(const cliRun *run, char *text, size_t size) {
  pbContactSettings c = pbModel_ContactSettings(run->model);
  text[0] = 0;
  if (c.method == pb_contactSweeps) snprintf(text, size, " (contact setting sweeps is %.0f)", c.sweeps);
  else if (c.method != pb_contactLcp && c.method != pb_contactCones)
    snprintf(text, size, " (condition number about %.0e; option iterations is %d)", run->worst_condition,
             cliModel_Integer(run->model, "iterations", 0));
}

// Newton's restitution speaks of normal velocities alone: friction that couples back can leave more energy than there was.
static void warn_energy(const cliRun *run) {
  if (!run->gains) return;

  bool impact = pbModel_ContactSettings(run->model).method == pb_contactImpact;
  const char *remedy = impact ? "contact setting restitution_law=capped makes none"
                              : "less restitution makes less, and contact method impact with restitution_law=capped none";
  fprintf(stderr,
          "pullback: warning: step %ld of %ld: the impact of geom %d '%s' and geom %d '%s' made %.3g J of kinetic energy, the "
          "worst of %ld that did: Newton's restitution with friction can; %s\n",
          run->gain_step, run->steps, run->gaining[0], pbModel_Name(run->model, pb_objGeom, run->gaining[0]), run->gaining[1],
          pbModel_Name(run->model, pb_objGeom, run->gaining[1]), run->gain, run->gains, remedy);
}

// The worst step is one of deformables where no constraint is to blame.
static bool deformables_stopped(const cliRun *run) {
  return pbModel_PointCount(run->model) > 0 && !run->worst_row[0] && run->worst_condition == 0;
}

void cliRun_WarnSolver(const cliRun *run) {
  char detail[96];
  warn_energy(run);
  if (!run->unconverged) return;
  if (deformables_stopped(run)) {
    fprintf(
        stderr,
        "pullback: warning: step %ld of %ld: the minimiser of the deformables stopped where points still moved by %.1e of the "
        "scene's size, the worst of %ld steps that did not converge; results are off by at least as much, and gradients, which "
        "are those of a minimum, may be wrong altogether (deformables' iterations, tolerance and approximate set this)\n",
        run->worst_residual_step, run->steps, run->worst_residual, run->unconverged);
    return;
  }
  solver_detail(run, detail, sizeof detail);
  bool sweeps = pbModel_ContactSettings(run->model).method == pb_contactSweeps;
  fprintf(
      stderr,
      "pullback: warning: step %ld of %ld: the constraint solver stopped at relative residual %.1e%s%s, the worst of %ld steps "
      "that did not converge; results are off by about as much%s%s\n",
      run->worst_residual_step, run->steps, run->worst_residual, run->worst_row[0] ? " at the " : "", run->worst_row,
      run->unconverged, sweeps ? ", gradients, which are those of sweeps that have settled, perhaps by far more" : "", detail);
}

// ---- results -------------------------------------------------------------------------------------------------------

static void meta_names(const cliRun *run, cliJson *j, const char *key, pbObject kind, const char *size) {
  int count = pbModel_Size(run->model, size);
  cliJson_OpenLine(j, key, '[');
  for (int i = 0; i < count; i++) {
    const char *name = pbModel_Name(run->model, kind, i);
    cliJson_Text(j, NULL, name ? name : "");
  }
  cliJson_Close(j, ']');
}

void cliRun_Contact(const cliRun *run, cliJson *j) {
  const char *name;
  char text[64];
  const char *end = "";
  double number;

  cliJson_Open(j, "contact", '{');
  for (int i = 0; pbModel_ContactSettingAt(run->model, i, &name, text, sizeof text); i++) {
    if (cli_number(text, &end, &number) && !*end) cliJson_Number(j, name, number);
    else cliJson_Text(j, name, text);
  }
  cliJson_Close(j, '}');
}

int cliModel_Integer(const pbModel *model, const char *name, int row) {
  pbField f;
  bool known = pbModel_Field(model, name, &f) && f.integers && row >= 0 && row < f.rows;
  return known ? f.integers[row] : -1;
}

pbStateField cliRun_StateField(const cliRun *run, const char *name) {
  for (int i = 0; i < pbModel_StateFieldCount(run->model); i++) {
    pbStateField f = pbModel_StateFieldAt(run->model, i);
    if (strcmp(f.name, name) == 0) return f;
  }
  return (pbStateField){.name = name};
}

bool cli_consecutive(int count, const int *points) {
  for (int i = 1; i < count; i++) {
    if (points[i] != points[0] + i) return false;
  }
  return true;
}

static void point_set(const char *name, int count, const int *points, cliJson *j) {
  cliJson_OpenLine(j, NULL, '{');
  cliJson_Text(j, "name", name);
  cliJson_Integer(j, "points", count);
  if (count && cli_consecutive(count, points)) {
    cliJson_Integer(j, "first", points[0]);
  } else {
    cliJson_OpenLine(j, "indices", '[');
    for (int i = 0; i < count; i++) cliJson_Integer(j, NULL, points[i]);
    cliJson_Close(j, ']');
  }
  cliJson_Close(j, '}');
}

static void scenery_points(const pbModel *m, const char *key, bool geom, cliJson *j) {
  pbScenery s;

  cliJson_Open(j, key, '[');
  for (int i = 0; pbModel_SceneryAt(m, i, &s); i++) {
    if (s.geom != geom) continue;
    cliJson_OpenLine(j, NULL, '{');
    cliJson_Text(j, "name", s.name);
    cliJson_Integer(j, "points", s.count);
    cliJson_Integer(j, "first", s.first);
    cliJson_Close(j, '}');
  }
  cliJson_Close(j, ']');
}

void cliRun_PointSets(const cliRun *run, cliJson *j) {
  const char *name;

  cliJson_Open(j, "sets", '[');
  for (int i = 0; (name = pbModel_PointSetName(run->model, i)) != NULL; i++) {
    int count = 0;
    const int *points = pbModel_PointSet(run->model, name, &count);
    point_set(name, count, points, j);
  }
  cliJson_Close(j, ']');

  scenery_points(run->model, "geoms", true, j);
  scenery_points(run->model, "planes", false, j);
}

static void meta_deformables(const cliRun *run, cliJson *j) {
  cliJson_Open(j, "deformables", '{');
  cliJson_Integer(j, "points", pbModel_PointCount(run->model));
  cliRun_PointSets(run, j);
  cliJson_Close(j, '}');
}

void cli_energy_made(cliJson *j, long impacts, double joules, long step, const int geoms[2]) {
  cliJson_Open(j, "energy_made", '{');
  cliJson_Integer(j, "impacts", impacts);
  cliJson_Number(j, "joules", joules);
  cliJson_Integer(j, "step", step);
  cliJson_OpenLine(j, "geoms", '[');
  for (int i = 0; i < 2; i++) cliJson_Integer(j, NULL, geoms[i]);
  cliJson_Close(j, ']');
  cliJson_Close(j, '}');
}

void cliRun_Meta(const cliRun *run, cliJson *j) {
  pbParam timestep;
  cliJson_Text(j, "program", "pullback");
  cliJson_Text(j, "version", pbVersion());
  cliJson_Text(j, "command", run->app->command->name);
  cliJson_Text(j, "model", run->model_path);
  if (run->task && pbTask_TrajectoryCount(run->task) > 1 && run->trajectories == 1)
    cliJson_Integer(j, "trajectory", run->trajectory);
  cliJson_Integer(j, "steps", run->steps);
  if (pbModel_Param(run->ctx, run->model, "timestep", &timestep) == pb_ok)
    cliJson_Number(j, "timestep", run->theta[timestep.offset]);
  cliJson_Open(j, "solver", '{');
  cliJson_Number(j, "worst_residual", run->worst_residual);
  cliJson_Integer(j, "step", run->worst_residual_step);
  cliJson_Integer(j, "unconverged", run->unconverged);
  cliJson_Text(j, "worst_row", run->worst_row);
  cliJson_Number(j, "worst_condition", run->worst_condition);
  cliJson_Close(j, '}');
  cliJson_Open(j, "penetration", '{');
  cliJson_Number(j, "depth", run->penetration);
  cliJson_Integer(j, "step", run->penetration_step);
  cliJson_OpenLine(j, "geoms", '[');
  for (int i = 0; i < 2; i++) cliJson_Integer(j, NULL, run->penetrating[i]);
  cliJson_Close(j, ']');
  cliJson_Close(j, '}');
  if (run->gains) cli_energy_made(j, run->gains, run->gain, run->gain_step, run->gaining);
  cliJson_Text(j, "constants", run->recompute ? "recompute" : "keep");
  cliRun_Contact(run, j);
  cliJson_Open(j, "units", '{');
  cliJson_Text(j, "time", "s");
  cliJson_Text(j, "qpos", "m|rad|quaternion");
  cliJson_Text(j, "qvel", "m/s|rad/s");
  cliJson_Close(j, '}');
  cliJson_Open(j, "names", '{');
  meta_names(run, j, "body", pb_objBody, "nbody");
  meta_names(run, j, "joint", pb_objJoint, "njnt");
  meta_names(run, j, "geom", pb_objGeom, "ngeom");
  meta_names(run, j, "site", pb_objSite, "nsite");
  meta_names(run, j, "actuator", pb_objActuator, "nu");
  meta_names(run, j, "sensor", pb_objSensor, "nsensor");
  cliJson_Close(j, '}');
  if (pbModel_PointCount(run->model)) meta_deformables(run, j);
}

pbStatus cliRun_AddMeta(pbArrays *set, FILE *stream, char **text) {
  bool bad = ferror(stream) != 0;
  if (fclose(stream) != 0) bad = true;
  pbStatus status = bad ? pb_no_memory : pbArrays_AddText(set, "meta", *text);
  free(*text);
  *text = NULL;
  return status;
}

pbStatus cli_saveText(cliApp *app, FILE *stream, char **text, const size_t *size) {
  bool bad = ferror(stream) != 0;
  if (fclose(stream) != 0) bad = true;

  cliSignals_Hold();
  pbStatus status = bad ? no_memory(app->ctx) : pbFile_Write(app->ctx, app->args.text[opt_output], *text, *size);
  cliSignals_Release();

  free(*text);
  *text = NULL;
  return status;
}

pbStatus cli_save(cliApp *app, const pbArrays *set) {
  cliSignals_Hold();
  pbStatus status = pbArrays_SaveNpz(set, app->args.text[opt_output], app->args.text[opt_compressed] != NULL);
  cliSignals_Release();
  return status;
}
