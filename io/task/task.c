// Task files: model, trajectories, variables, loss, optimizer. docs/task.md describes them.
// Tests: tests/unit/test_task.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/io.h>
#include <pullback/spec.h>

#include "base/context.h"
#include "base/text.h"
#include "io/file.h"
#include "io/load.h"
#include "io/task/policy.h"
#include "io/task/task_deform.h"
#include "io/task/task_reader.h"
#include "model/model.h"
#include "optimize/optimizer.h"

const char *const pbTask_Keys[] = {
    "model", "deformables", "policy", "expose",      "comment", "options",      "contact",   "parameters", "constants",
    "steps", "duration",    "init",   "controls",    "mocap",   "trajectories", "variables", "loss",       "optimizer",
    "stop",  "confirm",     "seed",   "memory",      "mode",    "gradient",     "sample",    "episode",    "train",
    "audit", "urdf",        "design", "uncertainty", "window",  "states",       "stages",    "control",    NULL};

// ---- model ----------------------------------------------------------------------------------------------------------
// The text of a model, or the name of its file.
static pbStatus compile_model(pbTaskReader *r, const char *text, const pbLoadOptions *options, pbModel **model) {
  pbSpec *spec = NULL;
  pbStatus status;

  // A text begins with its first element.
  if (text[strspn(text, " \t\r\n")] == '<') {
    status = pbSpec_Parse(r->ctx, text, strlen(text), "model", options, &spec);
  } else {
    char *path;
    PB_TRY(pbTaskReader_Path(r, text, &path));
    status = pbSpec_LoadFor(r->ctx, path, options, r->whole, &spec);
    pbContext_Free(r->ctx, path);
  }

  if (status == pb_ok && r->whole) pbSpec_KeepSource(spec);
  if (status == pb_ok) status = pbSpec_Compile(spec, model);
  pbSpec_Destroy(spec);
  return status;
}

static pbStatus read_rigid(pbTaskReader *r, const json_t *root, pbTask *task) {
  const char *model = NULL;
  PB_TRY(pbTaskReader_Text(r, root, "model", &model));
  if (!model && !json_object_get(root, "deformables")) return pbTaskReader_Fail(r, pb_bad_input, "\"model\" is missing");

  // deformables alone live in an empty world
  if (!model) model = "<mujoco/>";

  pbLoadOptions options = {.allow_root = r->allow_root, .surfaces = r->surfaces, .design = r->design};
  char *package_path;
  PB_TRY(pbTaskReader_Bool(r, root, "design", &options.design));
  pbStatus status = pbTask_ReadUrdf(r, root, &options.urdf, &package_path);
  if (status != pb_ok) {
    pbContext_Free(r->ctx, package_path);
    return status;
  }

  // MJCF or URDF in the task itself, or the name of a file.
  pbTaskReader_Enter(r, "model");
  status = compile_model(r, model, &options, &task->model);
  pbContext_Free(r->ctx, package_path);
  if (status != pb_ok) return pbTaskReader_FailAgain(r, status);
  pbTaskReader_Leave(r);
  r->model = task->model;
  return pb_ok;
}

static pbStatus read_deformables(pbTaskReader *r, const json_t *root, pbTask *task) {
  const json_t *value = json_object_get(root, "deformables");
  pbDeformable *d;

  if (!value) return pb_ok;
  pbTaskReader_Enter(r, "deformables");
  PB_TRY(pbTask_ReadDeformable(r, value, &d));

  // compiled into the model: the description has served
  pbStatus status = pbModel_SetDeformable(task->model, d);
  pbDeformable_Destroy(d);
  if (status != pb_ok) return pbTaskReader_FailAgain(r, status);
  pbTaskReader_Leave(r);
  return pb_ok;
}

// Names of what becomes a parameter on request.
static pbStatus read_exposed(pbTaskReader *r, const json_t *root, pbTask *task) {
  const json_t *list = json_object_get(root, "expose");
  if (!list) return pb_ok;
  if (!json_is_array(list)) return pbTaskReader_FailAt(r, "expose", "expected a list of names such as \"mesh_vert:NAME\"");

  pbTaskReader_Enter(r, "expose");
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *name = json_string_value(json_array_get(list, i));
    if (!name) return pbTaskReader_Fail(r, pb_bad_input, "expected a list of names such as \"mesh_vert:NAME\"");

    pbStatus status = pbModel_Expose(task->model, name);
    if (status != pb_ok) return pbTaskReader_FailAgain(r, status);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus read_model(pbTaskReader *r, const json_t *root, pbTask *task) {
  PB_TRY(read_rigid(r, root, task));
  PB_TRY(read_deformables(r, root, task));
  PB_TRY(read_exposed(r, root, task));
  r->training = r->train ? json_object_get(root, "train") : NULL;
  pbTaskReader_Enter(r, "policy");
  PB_TRY(pbTask_ReadPolicy(r, json_object_get(root, "policy"), task->model));
  pbTaskReader_Leave(r);

  // weights that the caller names
  pbStatus status = pb_ok;
  if (r->policy) status = pbPolicy_LoadFor(task->model, r->policy, &(pbLoadOptions){.allow_root = r->allow_root}, r->training);
  r->training = NULL;

  return status;
}

// A single number does not stand for all entries of an array: gravity -9.81 would act along all three axes.
static pbStatus set_param(pbTaskReader *r, const pbParam *p, const json_t *object, const char *name, double *theta) {
  size_t count = (size_t)p->rows * (size_t)p->cols;
  bool part = p->option || strchr(name, ':');

  if (count != 1 && json_is_number(json_object_get(object, name)))
    return pbTaskReader_FailAt(r, name, "expected %zu numbers, found one (one entry is \"%s%s%s\")", count, name,
                               part ? "" : ":OBJECT", part || p->cols > 1 ? ":ENTRY" : "");

  return pbTaskReader_Spread(r, object, name, count, theta + p->offset);
}

static pbStatus read_parameters(pbTaskReader *r, const json_t *object, double *theta) {
  const char *name;
  json_t *value;

  if (!object) return pb_ok;
  pbTaskReader_Enter(r, "parameters");
  if (!json_is_object(object)) return pbTaskReader_Fail(r, pb_bad_input, "expected an object {name: value}");

  json_object_foreach((json_t *)object, name, value) {
    pbParam p;
    pbTaskReader_Enter(r, name);
    PB_TRY(pbTask_FindParam(r, name, &p));
    pbTaskReader_Leave(r);
    PB_TRY(set_param(r, &p, object, name, theta));
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

// Options that are parameters (timestep, gravity) go into theta, the others into the model.
static pbStatus read_options(pbTaskReader *r, const json_t *object, pbTask *task) {
  const char *name;
  json_t *value;

  if (!object) return pb_ok;
  pbTaskReader_Enter(r, "options");
  if (!json_is_object(object)) return pbTaskReader_Fail(r, pb_bad_input, "expected an object {name: value}");
  json_object_foreach((json_t *)object, name, value) {
    pbParam p;
    char text[64];

    // without a context no message: it need not be a parameter
    bool known = pbModel_Param(NULL, task->model, name, &p) == pb_ok;
    pbTaskReader_Enter(r, name);
    if (known && p.option) {
      pbTaskReader_Leave(r);
      PB_TRY(set_param(r, &p, object, name, task->theta));
      continue;
    }
    if (known) return pbTaskReader_Fail(r, pb_bad_input, "is a parameter, not an option: move it to \"parameters\"");

    // options are set by text, as on the command line
    if (json_is_number(value)) pbText_PutReal(text, sizeof text, json_number_value(value));
    else if (!json_is_string(value)) return pbTaskReader_Fail(r, pb_bad_input, "expected a text or a number");

    pbStatus status = pbModel_SetOption(task->model, name, json_is_string(value) ? json_string_value(value) : text);
    if (status != pb_ok) return pbTaskReader_FailAgain(r, status);
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

// Some settings are parameters of the model: they are read before theta is copied from it.
static pbStatus read_contact(pbTaskReader *r, const json_t *object, pbTask *task) {
  const char *name;
  json_t *value;

  if (!object) return pb_ok;
  pbTaskReader_Enter(r, "contact");
  if (!json_is_object(object)) return pbTaskReader_Fail(r, pb_bad_input, "expected an object {name: value}");

  json_object_foreach((json_t *)object, name, value) {
    char text[64];
    pbTaskReader_Enter(r, name);

    // settings are set by text, as on the command line
    if (json_is_number(value)) pbText_PutReal(text, sizeof text, json_number_value(value));
    else if (!json_is_string(value)) return pbTaskReader_Fail(r, pb_bad_input, "expected a number or a text");

    pbStatus status = pbModel_SetContact(task->model, name, json_is_string(value) ? json_string_value(value) : text);
    if (status != pb_ok) return pbTaskReader_FailAgain(r, status);
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus check_settings(pbTaskReader *r, const pbTask *task) {
  pbTaskReader_Enter(r, "contact");
  pbStatus status = pbModel_CheckContact(task->ctx, task->model);
  if (status != pb_ok) return pbTaskReader_FailAgain(r, status);
  pbTaskReader_Leave(r);

  status = pbModel_CheckDeform(task->ctx, task->model);
  return status == pb_ok ? pb_ok : pbTaskReader_FailAgain(r, status);
}

static pbStatus read_mode(pbTaskReader *r, const json_t *root, pbTask *task) {
  const char *mode = "exact";
  PB_TRY(pbTaskReader_Text(r, root, "mode", &mode));
  if (pbGradientKind_Named(mode, &task->gradient)) return pb_ok;
  return pbTaskReader_FailAt(r, "mode", "expected \"exact\", \"event\" or \"smooth\"");
}

// The costate's truncation: pbVjpOptions.
static pbStatus read_truncation(pbTaskReader *r, const json_t *root, pbTask *task) {
  // a zero would turn off what the key asks for
  static const pbTaskKey keys[] = {PB_KEY("decay", Positive, pbTask, truncation.decay),
                                   PB_KEY("window", Positive, pbTask, truncation.window),
                                   PB_KEY("clip", Positive, pbTask, truncation.clip), PB_KEYS_END};
  const json_t *object = json_object_get(root, "gradient");
  if (!object) return pb_ok;

  pbTaskReader_Enter(r, "gradient");
  PB_TRY(pbTaskReader_Fill(r, object, keys, task));

  if (task->truncation.window > 0 && task->truncation.window < 0.5 * pbTaskReader_Timestep(r))
    return pbTaskReader_FailAt(r, "window", "expected at least one time step");
  pbTaskReader_Leave(r);
  return pb_ok;
}

pbStatus pbTask_ReadMode(pbTaskReader *r, const json_t *root, pbTask *task) {
  PB_TRY(read_mode(r, root, task));
  return read_truncation(r, root, task);
}

static pbStatus check_truncation(pbTaskReader *r, const json_t *root, const pbTask *task) {
  if (!json_object_get(root, "gradient") || task->optimizer.method != pb_methodGaussNewton) return pb_ok;
  return pbTaskReader_FailAt(r, "gradient",
                             "truncated gradients serve \"lbfgs\" and \"adam\"; gauss-newton needs derivatives of "
                             "residuals");
}

// Derived constants from the others; those that the file gives itself must not change.
static pbStatus recompute(pbTaskReader *r, const json_t *given, pbTask *task) {
  const char *name;
  json_t *value;
  pbParam p;
  double *before = pbContext_AllocArray(r->ctx, task->ntheta + 1, sizeof *before);
  if (!before) return pbTaskReader_Fail(r, pb_no_memory, "no memory for parameters");

  // the values given, to compare with those computed
  memcpy(before, task->theta, task->ntheta * sizeof *before);

  pbStatus status = pbModel_SetConstants(task->ctx, task->model, task->theta);
  if (status != pb_ok) status = pbTaskReader_FailAgain(r, status);

  json_object_foreach((json_t *)given, name, value) {
    if (status != pb_ok) break;
    status = pbTask_FindParam(r, name, &p);
    if (status == pb_ok && pbModel_CheckGiven(task->ctx, task->model, &p, before, task->theta) != pb_ok) {
      pbTaskReader_Enter(r, "parameters");
      pbTaskReader_Enter(r, name);
      status = pbTaskReader_FailAgain(r, pb_bad_input);
    }
  }
  pbContext_Free(r->ctx, before);
  return status;
}

// Those of a design follow.
static pbStatus choose_constants(pbTaskReader *r, const json_t *root, pbTask *task) {
  bool design = task->model->design != NULL;
  const char *constants = design ? "recompute" : "keep";

  PB_TRY(pbTaskReader_Text(r, root, "constants", &constants));
  task->recompute = strcmp(constants, "recompute") == 0;

  // The word must be one of two, and fit.
  if (design && !task->recompute) return pbTaskReader_FailAt(r, "constants", "expected \"recompute\", for a design needs it");
  if (!task->recompute && strcmp(constants, "keep") != 0)
    return pbTaskReader_FailAt(r, "constants", "expected \"keep\" or \"recompute\"");
  return pb_ok;
}

static pbStatus read_constants(pbTaskReader *r, const json_t *root, pbTask *task) {
  PB_TRY(choose_constants(r, root, task));
  pbStatus status = pbModel_CheckParams(task->ctx, task->model, task->theta);
  if (status == pb_ok && task->recompute) return recompute(r, json_object_get(root, "parameters"), task);
  return status == pb_ok ? pb_ok : pbTaskReader_FailAgain(r, status);
}

// ---- how long, how much ----------------------------------------------------------------------------------------------
// Bytes of a text such as "200MiB" or "1.5GB"; 0 where it is none. Without strtod, which takes more than numbers and units.
static double bytes_of_text(const char *text) {
  static const struct {
    const char *unit;
    double size;
  } units[] = {{"", 1}, {"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}};
  size_t digits = strspn(text, "0123456789"), at = digits;
  double number = 0, scale = 1;
  if (!digits) return 0;

  // whole part, then decimals
  for (size_t i = 0; i < digits; i++) number = 10 * number + (text[i] - '0');
  if (text[at] == '.') {
    for (at++; text[at] >= '0' && text[at] <= '9'; at++) {
      scale /= 10;
      number += (text[at] - '0') * scale;
    }
  }

  const char *unit = text + at + strspn(text + at, " ");
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcmp(unit, units[i].unit) == 0) return number * units[i].size;
  }
  return 0;
}

static pbStatus read_memory(pbTaskReader *r, const json_t *root, size_t *bytes) {
  const json_t *value = json_object_get(root, "memory");
  *bytes = (size_t)256 << 20;
  if (!value) return pb_ok;

  double number = json_is_string(value) ? bytes_of_text(json_string_value(value)) : json_number_value(value);

  if (!(number >= 1 && number < 1e18)) return pbTaskReader_FailAt(r, "memory", "expected bytes, or a text such as \"200MiB\"");
  *bytes = (size_t)number;
  return pb_ok;
}

static pbStatus read_confirm(pbTaskReader *r, const json_t *root, pbTask *task) {
  const json_t *value = json_object_get(root, "confirm");
  if (json_is_boolean(value)) {
    // true confirms with a quarter of the time step
    task->confirm = json_is_true(value) ? 4 : 0;
    return pb_ok;
  }
  if (value && !json_is_number(value)) return pbTaskReader_FailAt(r, "confirm", "expected true, false or a whole number");
  return pbTaskReader_Int(r, root, "confirm", 1, 1000, &task->confirm);
}

// What is found from a recording has an uncertainty, unless the task says otherwise.
static pbStatus read_uncertainty(pbTaskReader *r, const json_t *root, pbTask *task) {
  for (int t = 0; t < task->trajectory_count; t++) {
    const pbTermSet *set = &task->trajectories[t].terms;
    for (int i = 0; i < set->count; i++)
      task->uncertain = task->uncertain || (set->terms[i].recorded && !task->trajectories[t].test);
  }
  return pbTaskReader_Bool(r, root, "uncertainty", &task->uncertain);
}

pbStatus pbTask_ReadOptimizer(pbTaskReader *r, const json_t *root, pbTask *task) {
  const json_t *optimizer = json_object_get(root, "optimizer");
  task->iterations = 100;
  task->optimizer.method = pb_methodLbfgs;
  if (optimizer) {
    pbTaskReader_Enter(r, "optimizer");
    PB_TRY(pbTask_ReadMethod(r, optimizer, task));
    pbTaskReader_Leave(r);
  }

  PB_TRY(pbTask_ReadStop(r, json_object_get(root, "stop"), task));

  PB_TRY(pbTaskReader_Seed(r, root, &task->optimizer.seed));
  PB_TRY(read_confirm(r, root, task));
  PB_TRY(read_uncertainty(r, root, task));
  return read_memory(r, root, &task->memory);
}

// ---- the whole ------------------------------------------------------------------------------------------------------
pbStatus pbTask_ReadWorld(pbTaskReader *r, const json_t *root, pbTask *task) {
  PB_TRY(pbTaskReader_Keys(r, root, pbTask_Keys));
  PB_TRY(read_model(r, root, task));
  task->ntheta = pbModel_ParamSize(task->model);
  task->theta = pbContext_AllocArray(r->ctx, task->ntheta + 1, sizeof(double));
  if (!task->theta) return pbTaskReader_Fail(r, pb_no_memory, "no memory for parameters");

  // contact before theta, options before parameters: later ones replace earlier ones
  PB_TRY(read_contact(r, json_object_get(root, "contact"), task));
  memcpy(task->theta, pbModel_DefaultParams(task->model), task->ntheta * sizeof(double));
  r->theta = task->theta;

  PB_TRY(read_options(r, json_object_get(root, "options"), task));
  PB_TRY(check_settings(r, task));

  PB_TRY(read_parameters(r, json_object_get(root, "parameters"), task->theta));
  return read_constants(r, root, task);
}

// Parameters that follow variables are checked together, at the start: each alone need not make sense.
static pbStatus check_ties(pbTaskReader *r, pbTask *task) {
  bool ties = false;
  for (int i = 0; i < task->variable_count; i++) ties |= task->variables[i].follower_count > 0;
  if (!ties || pbTask_Apply(task, task->start) == pb_ok) return pb_ok;

  char reason[1000];
  snprintf(reason, sizeof reason, "%s", pbContext_Error(task->ctx));
  return pbTaskReader_FailAt(r, "variables", "their start is refused: %s", reason);
}

pbStatus pbTask_ReadWhole(pbTaskReader *r, const json_t *root, pbTask *task) {
  PB_TRY(pbTask_ReadWorld(r, root, task));
  PB_TRY(pbTask_ReadMode(r, root, task));
  PB_TRY(pbTask_ReadTrajectories(r, root, task));
  PB_TRY(pbTask_ReadVariables(r, root, task));
  PB_TRY(pbTask_ReadSample(r, root, task));
  PB_TRY(pbTask_ReadOptimizer(r, root, task));
  PB_TRY(check_truncation(r, root, task));
  PB_TRY(pbTask_ReadAudit(r, root, task));
  PB_TRY(pbTask_SetUp(task));
  return check_ties(r, task);
}

// ---- sections that are not read for what is wanted: of their kind nevertheless ----------------------------------------------
static bool is_one_of(const json_t *value, const char *kinds) {
  static const char letters[] = {[JSON_OBJECT] = 'o', [JSON_ARRAY] = 'a', [JSON_STRING] = 's', [JSON_INTEGER] = 'n',
                                 [JSON_REAL] = 'n',   [JSON_TRUE] = 'b',  [JSON_FALSE] = 'b',  [JSON_NULL] = '0'};
  return strchr(kinds, letters[json_typeof(value)]) != NULL;
}

// Who reads a section has said more of it by now.
static pbStatus check_kinds(pbTaskReader *r, const json_t *root) {
  static const struct {
    const char *kinds, *name, *keys[15];  // NULL at the end
  } table[] = {{"o",
                "an object {...}",
                {"options", "contact", "parameters", "mocap", "optimizer", "stop", "gradient", "sample", "episode", "train",
                 "audit", "urdf", "control", "states"}},
               {"a", "a list [...]", {"expose", "trajectories", "variables", "loss"}},
               {"s", "a text", {"model", "constants", "mode"}},
               {"n", "a number", {"steps", "duration", "seed"}},
               {"b", "true or false", {"design", "uncertainty"}},
               {"os", "an object or a text", {"deformables", "policy", "init"}},
               {"nb", "a number, true or false", {"confirm"}},
               {"ns", "a number or a text", {"memory"}},
               {"naos", "a number, a list, an object or a text", {"controls"}}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    for (const char *const *key = table[i].keys; *key; key++) {
      const json_t *value = json_object_get(root, *key);
      if (value && !is_one_of(value, table[i].kinds)) return pbTaskReader_FailAt(r, *key, "expected %s", table[i].name);
    }
  }
  return pb_ok;
}

static pbStatus keep_text(pbContext *ctx, const char *text, char **kept) {
  if (text && !(*kept = pbContext_CopyText(ctx, text))) return pbContext_Fail(ctx, pb_no_memory, "no memory for a task");
  return pb_ok;
}

// Searches from several starts, and stages, read it again, each for itself.
static pbStatus keep_source(const pbTaskReader *r, pbTask *task) {
  pbTaskSource *s = &task->source;
  if (task->start_count < 2 && !task->stage_count) return pb_ok;

  s->length = r->length;
  s->text = pbContext_Alloc(r->ctx, r->length + 1);
  if (!s->text) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for a task");
  memcpy(s->text, r->text, r->length);
  PB_TRY(keep_text(r->ctx, r->folder, &s->folder));
  PB_TRY(keep_text(r->ctx, r->allow_root, &s->allow_root));
  return keep_text(r->ctx, r->policy, &s->policy);
}

// The task of a tree, and in `t` what a search of it needs besides.
static pbStatus read_laid(pbTaskReader *r, const json_t *file, const json_t *root, pbReadPart read, pbTask *t) {
  PB_TRY(read(r, root, t));
  PB_TRY(check_kinds(r, root));
  if (read != pbTask_ReadWhole) return pb_ok;

  PB_TRY(pbTask_KeepStages(r, file, t));
  return keep_source(r, t);
}

// Each stage is read once before the first is run: a mistake in the last is not found after an hour.
static pbStatus check_stages(pbTask *task) {
  for (int k = 1; k < task->stage_count; k++) {
    pbTask *stage;
    PB_TRY(pbTask_Again(task->ctx, task, k, &stage));

    // what is carried from one to the next
    PB_ASSERT(stage->variable_count == task->variable_count && stage->trajectory_count == task->trajectory_count);
    pbTask_Destroy(stage);
  }

  return pb_ok;
}

static pbStatus read_task(pbTaskReader *r, const json_t *file, const json_t *root, pbReadPart read, pbTask *t) {
  pbManifest manifest;
  t->ctx = r->ctx;

  // the manifest notes every file that is read, for state files
  pbManifest_Begin(&manifest, r->ctx);
  pbManifest_AddTask(&manifest, file);
  t->name = pbContext_CopyText(r->ctx, r->name);
  pbStatus status = t->name ? pb_ok : pbContext_Fail(r->ctx, pb_no_memory, "no memory for a task");
  if (status == pb_ok) status = read_laid(r, file, root, read, t);
  pbStatus ended = pbManifest_End(&manifest, &t->made_from);
  if (status == pb_ok) status = ended;

  return status == pb_ok && t->stage_count ? check_stages(t) : status;
}

static pbStatus parse(pbTaskReader *r, pbReadPart read, pbTask **task) {
  json_t *file, *root = NULL;
  PB_TRY(pbTaskReader_Parse(r, &file));
  pbStatus status = pbTask_Lay(r, file, &root);
  pbTask *t = status == pb_ok ? pbContext_Alloc(r->ctx, sizeof *t) : NULL;
  if (status == pb_ok && !t) status = pbContext_Fail(r->ctx, pb_no_memory, "no memory for a task");
  if (t) status = read_task(r, file, root, read, t);

  // what was read of a task that failed is freed as a task
  json_decref(root);
  json_decref(file);
  if (status == pb_ok) *task = t;
  else pbTask_Destroy(t);
  return status;
}

pbStatus pbTask_Parse(pbContext *ctx, const char *text, size_t length, const char *folder, const char *name, pbTask **task) {
  pbTaskReader r = {.ctx = ctx, .name = name ? name : "task", .text = text, .length = length, .functions = true};
  *task = NULL;

  pbStatus status = pbTaskReader_Folders(&r, folder, NULL);
  if (status == pb_ok) status = parse(&r, pbTask_ReadWhole, task);
  pbTaskReader_End(&r);
  return status;
}

pbStatus pbTask_Again(pbContext *ctx, const pbTask *task, int stage, pbTask **made) {
  const pbTaskSource *s = &task->source;
  pbTaskReader r = {.ctx = ctx, .name = task->name, .text = s->text, .length = s->length, .policy = s->policy, .functions = true};
  r.stage = stage;
  *made = NULL;

  pbStatus status = pbTaskReader_Folders(&r, s->folder, s->allow_root);
  if (status == pb_ok) status = parse(&r, pbTask_ReadWhole, made);
  pbTaskReader_End(&r);
  return status;
}

pbStatus pbTask_LoadPart(const pbTaskReader *with, const char *path, pbReadPart read, pbTask **task) {
  pbTaskReader r;
  char *text = NULL;
  *task = NULL;
  pbStatus status = pbTaskReader_Open(with->ctx, path, with->allow_root, &r, &text);
  r.policy = with->policy;
  r.train = with->train;
  r.control = with->control;
  r.audit = with->audit;
  r.surfaces = with->surfaces;
  r.design = with->design;
  r.whole = with->whole;
  r.functions = with->functions;

  if (status == pb_ok) status = parse(&r, read, task);
  pbTaskReader_End(&r);
  pbContext_Free(with->ctx, text);
  return status;
}

pbStatus pbTask_Load(pbContext *ctx, const char *path, const char *allow_root, pbTask **task) {
  return pbTask_LoadWith(ctx, path, allow_root, NULL, task);
}

pbStatus pbTask_LoadWith(pbContext *ctx, const char *path, const char *allow_root, const char *policy, pbTask **task) {
  const pbTaskReader with = {.ctx = ctx, .allow_root = allow_root, .policy = policy, .functions = true};
  return pbTask_LoadPart(&with, path, pbTask_ReadWhole, task);
}

// ---- a task as a run -------------------------------------------------------------------------------------------------
static pbStatus read_run(pbTaskReader *r, const json_t *root, pbTask *task) {
  PB_TRY(pbTaskReader_Keys(r, root, pbTask_Keys));

  // the model is the caller's: only read, and not destroyed
  task->model = (pbModel *)(uintptr_t)r->model;
  task->borrowed = true;

  task->ntheta = pbModel_ParamSize(r->model);
  task->theta = pbContext_AllocArray(r->ctx, task->ntheta + 1, sizeof(double));
  if (!task->theta) return pbTaskReader_Fail(r, pb_no_memory, "no memory for parameters");
  memcpy(task->theta, r->theta, task->ntheta * sizeof(double));

  PB_TRY(choose_constants(r, root, task));
  PB_TRY(pbTask_ReadMode(r, root, task));
  PB_TRY(pbTask_ReadTrajectories(r, root, task));
  PB_TRY(pbTask_ReadVariables(r, root, task));
  return pbTask_SetUpRun(task);
}

pbStatus pbTask_LoadRun(pbContext *ctx, const char *path, const char *allow_root, const pbModel *model, const double *theta,
                        pbTask **task) {
  pbTaskReader r;
  char *text = NULL;
  *task = NULL;
  pbStatus status = pbTaskReader_Open(ctx, path, allow_root, &r, &text);

  r.model = model;
  r.theta = theta;
  r.run = true;

  if (status == pb_ok) status = parse(&r, read_run, task);
  pbTaskReader_End(&r);
  pbContext_Free(ctx, text);
  return status;
}

// The task's parameters become the model's own.
pbStatus pbTask_LoadModel(pbContext *ctx, const char *path, const pbLoadOptions *options, bool whole, pbModel **model) {
  pbTask *task;
  pbTaskReader reader = {.ctx = ctx};
  if (options) reader.allow_root = options->allow_root;
  if (options) reader.surfaces = options->surfaces;
  if (options) reader.design = options->design;
  reader.whole = whole;

  *model = NULL;
  PB_TRY(pbTask_LoadPart(&reader, path, pbTask_ReadWorld, &task));

  // the model outlives the task, with its parameters as defaults
  memcpy(task->model->theta0, task->theta, task->ntheta * sizeof(double));
  *model = task->model;
  task->model = NULL;
  pbTask_Destroy(task);
  return pb_ok;
}
