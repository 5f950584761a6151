// What a run starts from: model, parameters, initial state, inputs.
// Tests: tests/oracle/test_cli.py.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inputs.h"

// ---- parameters ----------------------------------------------------------------------------------------------------

// NAME of NAME=VALUE as a text of its own; the value behind it.
static pbStatus split(pbContext *ctx, const char *what, const char *text, char *name, size_t size, const char **value) {
  size_t n = strcspn(text, "=");
  *value = text[n] ? text + n + 1 : "";
  if (!text[n] || !n) return pbContext_Fail(ctx, pb_bad_argument, "--%s: '%.80s' is not NAME=VALUE", what, text);
  if (n >= size) return pbContext_Fail(ctx, pb_bad_argument, "--%s: '%.80s...': the name is too long", what, text);

  memcpy(name, text, n);
  name[n] = 0;
  return pb_ok;
}

static pbStatus parameter_from_file(const cliRun *run, const char *name, const pbParam *param, const char *path) {
  pbArrays *set = NULL;
  PB_TRY(pbArrays_Load(run->ctx, path, &set));
  const pbArray *array = pbArrays_Count(set) == 1 ? pbArrays_At(set, 0) : NULL;
  size_t count = (size_t)param->rows * (size_t)param->cols;
  pbStatus status = pb_ok;
  char text[200];

  // one array: as many numbers as the field, and rows as wide or all in one
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
  // numbers beyond the field's are counted for the message
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

static pbStatus set_parameter(const cliRun *run, const char *what, const char *text) {
  char name[256];
  const char *value = NULL;
  pbParam param;

  PB_TRY(split(run->ctx, what, text, name, sizeof name, &value));
  PB_TRY(pbModel_Param(run->ctx, run->model, name, &param));

  if (cli_hasSuffix(value, ".npy")) return parameter_from_file(run, name, &param, value);
  return parameter_inline(run, name, &param, value);
}

// timestep, gravity, ... are parameters; but "gravity" with enable or disable is a flag.
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

    // called twice: options of the model come before contact settings, parameters after them
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

  // settings are checked together: each may be valid with the others only
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

    // recomputing must not change what was given by name
    PB_TRY(pbModel_CheckGiven(run->ctx, run->model, &param, run->theta_before, run->theta));
  }
  return pb_ok;
}

// Options that set parameters.
static pbStatus set_given(cliRun *run) {
  PB_TRY(set_options(run, true));
  for (int i = 0; i < run->app->args.params.count; i++) PB_TRY(set_parameter(run, "param", run->app->args.params.items[i]));
  return pb_ok;
}

// The run of a task file: values of its variables, at their start or as found, come before the options.
static pbStatus read_task(cliRun *run) {
  const char *result = run->app->args.text[opt_result];
  PB_TRY(pbTask_LoadRun(run->ctx, run->model_path, run->app->args.text[opt_allow_root], run->model, run->theta, &run->task));
  if (result) PB_TRY(pbTask_StartAt(run->task, result));
  PB_TRY(pbTask_Parameters(run->task, pbTask_Start(run->task), run->theta));
  run->trajectories = pbTask_TrajectoryCount(run->task);

  if (!run->app->args.text[opt_constants]) run->recompute = strcmp(pbTask_Constants(run->task), "recompute") == 0;

  // once more: options rule over the start values of variables
  return set_given(run);
}

// What was found, in a model without its task.
static pbStatus read_result(cliRun *run) {
  const char *path = run->app->args.text[opt_result];
  bool recompute = false;
  if (!path) return pb_ok;
  PB_TRY(pbModel_ReadResult(run->ctx, run->model, path, run->theta, &recompute));
  if (!run->app->args.text[opt_constants]) run->recompute = recompute;
  return pb_ok;
}

// Unless an option has changed one, a bad parameter is the file's.
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
  if (!run->theta) return cli_noMemory(run->ctx);

  // the model is const: the run has parameters of its own
  memcpy(run->theta, pbModel_DefaultParams(run->model), bytes);

  if (!task) PB_TRY(read_result(run));
  PB_TRY(set_given(run));
  if (task) PB_TRY(read_task(run));
  PB_TRY(check_parameters(run));

  // a design is nothing without
  if (pbModel_Size(run->model, "ndesignbody") > 0) {
    if (run->app->args.text[opt_constants] && !run->recompute)
      return pbContext_Fail(run->ctx, pb_bad_argument, "--constants keep: those of a design follow its parameters");
    run->recompute = true;
  }

  // derived constants follow from the parameters, unless --param sets them
  if (!run->recompute) return pb_ok;
  run->theta_before = pbContext_Alloc(run->ctx, bytes);
  if (!run->theta_before) return cli_noMemory(run->ctx);
  memcpy(run->theta_before, run->theta, bytes);
  PB_TRY(pbModel_SetConstants(run->ctx, run->model, run->theta));
  return check_given(run);
}

// Penalty contacts that the time step is too long for.
static void warn_timestep(const cliRun *run) {
  int geoms[2];
  pbParam timestep;
  if (pbModel_Param(NULL, run->model, "timestep", &timestep) != pb_ok) return;

  double limit = pbModel_ContactTimestep(run->model, run->theta, geoms), h = run->theta[timestep.offset];
  if (h < limit) return;

  fprintf(cli_err,
          "pullback: warning: penalty contact of geoms %d '%s' and %d '%s': the time step %.3g is not below %.3g, the limit for "
          "stable contact with their stiffness and damping\n",
          geoms[0], pbModel_Name(run->model, pb_objGeom, geoms[0]), geoms[1], pbModel_Name(run->model, pb_objGeom, geoms[1]), h,
          limit);
}

// Sweeps against slip follow Newton's method alone.
static void warn_noslip(const cliRun *run) {
  int method = pbModel_ContactSettings(run->model).method, sweeps = pbModel_Integer(run->model, "noslip_iterations", 0);
  if (!sweeps || method == pb_contactSoft) return;

  fprintf(
      cli_err,
      "pullback: note: noslip_iterations is %d, which has no effect with the contact method given: sweeps are of method soft\n",
      sweeps);
}

void cliRun_Sizes(cliRun *run) {
  const pbModel *m = run->model;
  run->nq = pbModel_Size(m, "nq");
  run->nv = pbModel_Size(m, "nv");
  run->na = pbModel_Size(m, "na");
  run->nu = pbModel_Size(m, "nu");
  run->nbody = pbModel_Size(m, "nbody");
  run->nmocap = pbModel_Size(m, "nmocap");
  run->nsite = pbModel_Size(m, "nsite");
  run->nsensordata = pbModel_Size(m, "nsensordata");
  pbPolicyInfo policy;
  run->ncommand = pbModel_PolicyInfo(m, &policy) ? policy.commands : 0;
  run->nx = pbModel_StateSize(m);
  run->nt = pbModel_TangentSize(m);
  run->ntheta = pbModel_ParamSize(m);

  // no step so far
  run->notes = pbStepNotes_None();
}

static pbStatus add_deformables(cliRun *run, const pbLoadOptions *load) {
  const char *file = run->app->args.text[opt_deformables];
  pbDeformable *d;

  if (!file) return pb_ok;
  PB_TRY(pbDeformable_Load(run->ctx, run->loaded, file, load, &d));
  pbStatus status = pbModel_SetDeformable(run->loaded, d);

  // the model has a compiled copy
  pbDeformable_Destroy(d);
  return status;
}

static pbStatus expose_names(cliRun *run, const char *text) {
  char name[256];

  // with commas between them
  while (text) {
    size_t n = strcspn(text, ",");
    if (!n || n >= sizeof name)
      return pbContext_Fail(run->ctx, pb_bad_argument, "--expose: '%.80s' is not a list of names", text);
    memcpy(name, text, n);
    name[n] = 0;
    PB_TRY(pbModel_Expose(run->loaded, name));
    text = text[n] ? text + n + 1 : NULL;
  }
  return pb_ok;
}

// Before a policy, whose parameters come last.
static pbStatus expose(cliRun *run) {
  for (int i = 0; i < run->app->args.exposed.count; i++) PB_TRY(expose_names(run, run->app->args.exposed.items[i]));
  return pb_ok;
}

static pbStatus read_urdf_options(cliApp *app, pbUrdfOptions *urdf) {
  static const char *const rules[] = {"refuse", "keep", "repair"};
  const char *missing = app->args.text[opt_missing_meshes];
  const char *const *text = app->args.text;

  // options without a value are there or not
  *urdf = (pbUrdfOptions){.package_path = text[opt_package_path],
                          .floating_base = text[opt_floating_base] != NULL,
                          .fuse = text[opt_fuse] != NULL,
                          .motors = text[opt_motors] != NULL};
  if (missing && !strcmp(missing, "skip")) urdf->missing_meshes = pb_missingSkip;
  else if (missing && strcmp(missing, "refuse") != 0)
    return pbContext_Fail(app->ctx, pb_bad_argument, "--missing-meshes: expected refuse or skip, found '%.60s'", missing);
  if (!text[opt_inertia]) return pb_ok;

  // by pbInertiaRule
  int found = 0;
  while (found < 3 && strcmp(text[opt_inertia], rules[found]) != 0) found++;
  urdf->inertia = (pbInertiaRule)found;
  return found < 3 ? pb_ok
                   : pbContext_Fail(app->ctx, pb_bad_argument, "--inertia: expected refuse, keep or repair, found '%.60s'",
                                    text[opt_inertia]);
}

static pbStatus load_model(cliApp *app, bool task, bool whole, cliRun *run) {
  *run = (cliRun){.app = app, .ctx = app->ctx, .model_path = app->args.positional[0]};

  PB_TRY(read_constants(run));

  bool drawn = app->command->options & 1ull << opt_shapes || app->args.text[opt_vtu] || app->args.text[opt_glb];
  pbLoadOptions load = {
      .allow_root = app->args.text[opt_allow_root], .surfaces = drawn, .design = app->args.text[opt_design] != NULL};
  PB_TRY(read_urdf_options(app, &load.urdf));
  PB_TRY((whole ? pbModel_LoadWhole : pbModel_Load)(run->ctx, run->model_path, &load, &run->loaded));
  PB_TRY(add_deformables(run, &load));
  PB_TRY(expose(run));
  if (app->args.text[opt_policy]) PB_TRY(pbPolicy_Load(run->loaded, app->args.text[opt_policy], &load));
  cliRun_Warn(pbContext_Warnings(run->ctx));

  run->model = run->loaded;
  cliRun_Sizes(run);

  // flags first: they decide what parameters mean
  PB_TRY(set_options(run, false));

  // settings may depend on options, parameters on both
  PB_TRY(set_contact(run));
  PB_TRY(set_theta(run, task));
  warn_timestep(run);
  warn_noslip(run);
  return pb_ok;
}

// What was found of a task is known by its variables.
pbStatus cliRun_Model(cliApp *app, cliRun *run) {
  bool task = cli_hasSuffix(app->args.positional[0], ".json");
  return load_model(app, task && app->args.text[opt_result], false, run);
}

pbStatus cliRun_Whole(cliApp *app, cliRun *run) {
  return load_model(app, cli_hasSuffix(app->args.positional[0], ".json"), true, run);
}

// ---- from beginning to end ---------------------------------------------------------------------------------------

// Which trajectory of a task. Of several, `gradient` takes all, and the other commands the first, with a note.
static pbStatus choose_trajectory(cliRun *run) {
  const char *text = run->app->args.text[opt_trajectory];
  long k = 0;
  if (!text) return pb_ok;

  if (!run->task || run->trajectories < 2)
    return pbContext_Fail(run->ctx, pb_bad_argument, "--trajectory: %s has no list of trajectories", run->model_path);

  PB_TRY(cliArgs_Integer(run->app, opt_trajectory, 0, run->trajectories - 1, 0, &k));
  run->trajectory = (int)k;

  // one run from here on, however many the task has
  run->trajectories = 1;
  return pb_ok;
}

static pbStatus begin_trajectory(cliRun *run) {
  int keyframe = -1;
  PB_TRY(cliRun_ReadKeyframe(run, &keyframe));
  PB_TRY(cliRun_ReadState(run, keyframe));
  return cliRun_ReadInputs(run, keyframe, run->other_steps);
}

pbStatus cliRun_Trajectory(cliRun *run, int trajectory) {
  double **memory[] = {&run->x0,        &run->control,    &run->qfrc,      &run->xfrc,       &run->command,
                       &run->mocap_pos, &run->mocap_quat, &run->mocap_vel, &run->mocap_rate, &run->mocap_before};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
    pbContext_Free(run->ctx, *memory[i]);
    *memory[i] = NULL;
  }

  // parameters stay as they are
  run->trajectory = trajectory;
  return begin_trajectory(run);
}

pbStatus cliRun_Begin(cliApp *app, long steps, cliRun *run) {
  PB_TRY(load_model(app, cli_hasSuffix(app->args.positional[0], ".json"), false, run));

  run->other_steps = steps;
  PB_TRY(choose_trajectory(run));
  return begin_trajectory(run);
}

void cliRun_FirstTrajectory(const cliRun *run) {
  if (run->trajectories < 2) return;
  fprintf(cli_err, "pullback: trajectory 0 of %d; --trajectory chooses another\n", run->trajectories);
}

void cliRun_End(cliRun *run) {
  if (!run->ctx) return;

  pbScratch_Destroy(run->scratch);
  double *memory[] = {run->theta,   run->theta_before, run->x0,         run->control,   run->qfrc,       run->xfrc,
                      run->command, run->mocap_pos,    run->mocap_quat, run->mocap_vel, run->mocap_rate, run->mocap_before};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) pbContext_Free(run->ctx, memory[i]);

  // the model last: others refer to it
  pbTask_Destroy(run->task);
  pbModel_Destroy(run->loaded);
  *run = (cliRun){0};
}
