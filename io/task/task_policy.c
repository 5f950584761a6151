// "policy" of a task: what is observed, layers, outputs; the same from a file of its own, with weights or without.
// Tests: tests/unit/test_policy_file.c, tests/oracle/test_train.py.
#include <stdio.h>
#include <math.h>
#include <string.h>

#include <pullback/io.h>

#include <pullback/sensors.h>

#include "base/context.h"
#include "base/suggest.h"
#include "io/json/tree.h"
#include "io/task/policy.h"
#include "model/joint.h"
#include "model/observe.h"
#include "model/sensor.h"
#include "model/policy_data.h"

enum { MOST_ROWS = 4096, MOST_NUMBERS = 1 << 20 };

static const char *const policy_keys[] = {"observe", "layers", "every", "act", "output", "seed", "single", NULL};

static pbStatus fail_memory(const pbTaskReader *r) { return pbTaskReader_Fail(r, pb_no_memory, "no memory for a policy"); }

// ---- rows of observations ---------------------------------------------------------------------------------------------
typedef struct Rows {
  pbTaskReader *r;
  pbPolicyFile *file;
  pbObserveDef *row;
  int count, numbers;  // rows, and what they come to
  int held;            // outputs of a decision; -1: not known
} Rows;

static int objects_of(const pbModel *m, pbObserveKind kind) {
  switch (pbObserve_Object(kind)) {
    case pb_objJoint: return m->njnt;
    case pb_objActuator: return m->nu;
    case pb_objSensor: return m->nsensor;
    default: return 0;
  }
}

// Points of a row: those named, or all that are no scenery.
static int point_numbers(const pbModel *m, const pbObserveDef *d) {
  int count = pbModel_PointCount(m);
  pbScenery scenery;

  for (int i = 0; pbModel_SceneryAt(m, i, &scenery); i++) count -= scenery.count;
  return d->point_count ? d->point_count : count;
}

// Numbers of a row before components are chosen; id -1: of all.
static int row_numbers(const Rows *w, const pbObserveDef *d, int id) {
  int own = 0;
  if (d->kind == pb_observeCommand) own = d->count;
  if (d->kind == pb_observeLast) own = w->held;
  if (pb_observesPoints(d->kind)) own = d->form == pb_formMean ? 1 : point_numbers(w->r->model, d);

  return pbObserve_Width(w->r->model, d->kind, id, own);
}

static pbStatus copy_name(Rows *w, const char *name, const char **out) {
  *out = pbSpecPool_Text(&w->file->pool, name, strlen(name));
  return *out ? pb_ok : fail_memory(w->r);
}

static pbStatus read_components(Rows *w, const json_t *object, int numbers, pbObserveDef *d) {
  if (!json_object_get(object, "components")) return pb_ok;

  // indices among the numbers that the row has by itself
  int *chosen = pbSpecPool_Take(&w->file->pool, (size_t)numbers + 1, sizeof *chosen);
  if (!chosen) return fail_memory(w->r);

  PB_TRY(pbTaskReader_Components(w->r, object, numbers, chosen, &d->components));
  if (d->components == 0) return pbTaskReader_FailAt(w->r, "components", "no components");
  d->component = chosen;

  return pb_ok;
}

// What SetPolicy would refuse by the number of the row is told by its place in the file.
static pbStatus check_object(const pbTaskReader *r, pbObserveKind kind, int id, const char *name) {
  const pbModel *m = r->model;
  if (kind == pb_observeRotation && !pbJoint_HasRotation(m->jnt_type[id]))
    return pbTaskReader_Fail(r, pb_bad_input, "joint '%.80s' is no ball or free joint: it has no rotation vector", name);
  if (kind == pb_observeSensor && m->sensor_type[id] == pb_sensClock)
    return pbTaskReader_Fail(r, pb_bad_input, "a clock is observed as {\"time\": true}, not as a sensor");
  if (kind == pb_observeSensor && !pbSensor_Row(m->sensor_type[id])->early)
    return pbTaskReader_Fail(r, pb_bad_input,
                             "sensor '%.80s' depends on the controls of the very step; a policy sees sensors of positions and "
                             "velocities",
                             name);

  return pb_ok;
}

// One row of one object (NULL: all), whose other keys are read already.
static pbStatus add_row(Rows *w, const json_t *object, pbObserveDef d, const char *name) {
  int id = -1;
  if (w->count == MOST_ROWS) return pbTaskReader_Fail(w->r, pb_bad_input, "more than %d rows", MOST_ROWS);

  // by name in the description, whatever its number in the model
  if (name) {
    PB_TRY(pbTaskReader_Id(w->r, name, pbObserve_Object(d.kind), &id));
    PB_TRY(check_object(w->r, d.kind, id, name));
    PB_TRY(copy_name(w, name, &d.object));
  }

  int numbers = row_numbers(w, &d, id);
  if (numbers < 0)
    return pbTaskReader_Fail(w->r, pb_bad_input,
                             "what the last decision was needs a layer at the end that says how many outputs there are");
  PB_TRY(read_components(w, object, numbers, &d));

  w->numbers += d.component ? d.components : numbers;
  if (w->numbers > MOST_NUMBERS) return pbTaskReader_Fail(w->r, pb_bad_input, "too many numbers");
  w->row[w->count++] = d;

  return pb_ok;
}

static pbObserveKind kind_of(const json_t *object) {
  for (int i = 0; i < pb_observeKindCount; i++) {
    if (json_object_get(object, pbObserveKind_Name((pbObserveKind)i))) return (pbObserveKind)i;
  }

  return pb_observeKindCount;
}

static pbStatus fail_kind(const pbTaskReader *r, const json_t *object) {
  const char *key = json_object_iter_key(json_object_iter((json_t *)object));
  if (!key) return pbTaskReader_Fail(r, pb_bad_input, "expected a row such as {\"qpos\": true}");

  char hint[200];
  pbSuggest near = pbSuggest_For(key);
  for (int i = 0; i < pb_observeKindCount; i++) pbSuggest_Offer(&near, pbObserveKind_Name((pbObserveKind)i));
  return pbTaskReader_Fail(r, pb_bad_input, "'%.80s' is nothing that can be observed%s", key,
                           pbSuggest_Write(&near, hint, sizeof hint));
}

// Keys beside the kind's own that rows of a kind may have.
static void row_keys(pbObserveKind kind, const char **keys) {
  int n = 0;
  keys[n++] = pbObserveKind_Name(kind);
  keys[n++] = "components";
  keys[n++] = "scale";
  if (pbObserve_TakesFrame(kind)) keys[n++] = "frame";
  if (kind == pb_observeBodyPosition) keys[n++] = "point";
  if (kind == pb_observeCommand) keys[n++] = "first";
  if (kind == pb_observeSensor) keys[n++] = "previous";
  if (pb_observesPoints(kind)) keys[n++] = "as";
  keys[n] = NULL;
}

// A 0 that is written down would be taken for none, which is 1.
static pbStatus read_scale(Rows *w, const json_t *object, double *scale) {
  PB_TRY(pbTaskReader_Real(w->r, object, "scale", scale));
  if (json_object_get(object, "scale") && *scale == 0)
    return pbTaskReader_FailAt(w->r, "scale", "expected a number other than 0");

  return pb_ok;
}

static pbStatus read_form(pbTaskReader *r, const json_t *object, pbObserveDef *d) {
  static const char *const forms[pb_observeFormCount] = {"value", "offset", "mean"};
  const char *form = NULL;

  PB_TRY(pbTaskReader_Text(r, object, "as", &form));
  if (!form) return pb_ok;

  for (int i = 0; i < pb_observeFormCount; i++) {
    if (strcmp(form, forms[i]) != 0) continue;
    d->form = (pbObserveForm)i;
    return pb_ok;
  }

  return pbTaskReader_FailAt(r, "as", "expected \"value\", \"offset\" or \"mean\"");
}

static pbStatus read_row_options(Rows *w, const json_t *object, pbObserveDef *d) {
  const char *frame = NULL;
  int id;

  PB_TRY(read_scale(w, object, &d->scale));
  PB_TRY(pbTaskReader_Spread(w->r, object, "point", 3, d->point));
  PB_TRY(pbTaskReader_Bool(w->r, object, "previous", &d->previous));
  if (d->previous) return pbTaskReader_FailAt(w->r, "previous", "sensors of the step before are not supported");
  PB_TRY(pbTaskReader_Int(w->r, object, "first", 0, MOST_NUMBERS, &d->first));
  PB_TRY(pbTaskReader_Text(w->r, object, "frame", &frame));
  if (pb_observesPoints(d->kind)) PB_TRY(read_form(w->r, object, d));
  if (!frame) return pb_ok;

  pbTaskReader_Enter(w->r, "frame");
  PB_TRY(pbTaskReader_Id(w->r, frame, pb_objBody, &id));
  pbTaskReader_Leave(w->r);

  return copy_name(w, frame, &d->frame);
}

// Names of sets and numbers make one row together, of which there is one mean.
static pbStatus read_points(Rows *w, const json_t *value, pbObserveDef *d) {
  int *ids, count;
  if (json_is_true(value)) return pb_ok;

  PB_TRY(pbTaskReader_Points(w->r, value, &ids, &count));
  int *points = pbSpecPool_Take(&w->file->pool, (size_t)count + 1, sizeof *points);
  if (points) memcpy(points, ids, (size_t)count * sizeof *points);
  pbContext_Free(w->r->ctx, ids);
  if (!points) return fail_memory(w->r);

  d->points = points;
  d->point_count = count;
  return count ? pb_ok : pbTaskReader_Fail(w->r, pb_bad_input, "this names nothing the model has");
}

// A name, a list of names, or true.
static pbStatus read_objects(Rows *w, const json_t *object, const json_t *value, pbObserveDef d) {
  bool all = pbObserve_TakesAll(d.kind) && objects_of(w->r->model, d.kind) > 0;
  if (json_is_true(value) && all) return add_row(w, object, d, NULL);
  if (json_is_string(value)) return add_row(w, object, d, json_string_value(value));

  // of a list each name is a row
  size_t count = json_array_size(value);
  if (!count) return pbTaskReader_Fail(w->r, pb_bad_input, "expected a name%s", all ? ", a list of names or true" : " or a list");
  for (size_t i = 0; i < count; i++) {
    const char *name = json_string_value(json_array_get(value, i));
    pbTaskReader_EnterAt(w->r, i);
    if (!name) return pbTaskReader_Fail(w->r, pb_bad_input, "expected a name");
    PB_TRY(add_row(w, object, d, name));
    pbTaskReader_Leave(w->r);
  }

  return pb_ok;
}

static pbStatus read_row(Rows *w, const json_t *object) {
  const char *keys[8];
  pbObserveDef d = {.kind = kind_of(object)};
  if (d.kind == pb_observeKindCount) return fail_kind(w->r, object);

  row_keys(d.kind, keys);
  PB_TRY(pbTaskReader_Keys(w->r, object, keys));
  PB_TRY(read_row_options(w, object, &d));

  // what the kind's own key says: a count, or names
  const char *key = pbObserveKind_Name(d.kind);
  const json_t *value = json_object_get(object, key);
  if (d.kind == pb_observeCommand) {
    PB_TRY(pbTaskReader_Int(w->r, object, key, 1, MOST_NUMBERS, &d.count));
    return add_row(w, object, d, NULL);
  }

  pbTaskReader_Enter(w->r, key);
  bool points = pb_observesPoints(d.kind), whole = d.kind == pb_observeLast || d.kind == pb_observeTime;
  if (points && pbModel_PointCount(w->r->model) == 0)
    return pbTaskReader_Fail(w->r, pb_bad_input, "the model has no deformables, so no points");
  if (points) PB_TRY(read_points(w, value, &d));
  if (whole && !json_is_true(value)) return pbTaskReader_Fail(w->r, pb_bad_input, "expected true");
  PB_TRY(whole || points ? add_row(w, object, d, NULL) : read_objects(w, object, value, d));
  pbTaskReader_Leave(w->r);

  return pb_ok;
}

// Rows that the list comes to once names in lists are counted.
static size_t rows_most(const json_t *list) {
  size_t most = 0;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *object = json_array_get(list, i);
    pbObserveKind kind = kind_of(object);
    const json_t *value = kind < pb_observeKindCount ? json_object_get(object, pbObserveKind_Name(kind)) : NULL;
    most += json_is_array(value) ? json_array_size(value) : 1;
  }

  return most < MOST_ROWS ? most : MOST_ROWS;
}

static pbStatus read_observe(Rows *w, const json_t *parent, const char *key, bool needed) {
  const json_t *list = json_object_get(parent, key);
  if (!list && needed) return pbTaskReader_Fail(w->r, pb_bad_input, "\"%s\" is missing", key);
  if (!list) return pb_ok;

  // room for names in lists, which make a row each
  pbTaskReader_Enter(w->r, key);
  if (!json_is_array(list) || (needed && !json_array_size(list)))
    return pbTaskReader_Fail(w->r, pb_bad_input, "expected a list of rows such as {\"qpos\": true}");
  w->row = pbSpecPool_Take(&w->file->pool, rows_most(list) + 1, sizeof *w->row);
  if (!w->row) return fail_memory(w->r);

  for (size_t i = 0; i < json_array_size(list); i++) {
    pbTaskReader_EnterAt(w->r, i);
    PB_TRY(read_row(w, json_array_get(list, i)));
    pbTaskReader_Leave(w->r);
  }
  pbTaskReader_Leave(w->r);

  return pb_ok;
}

// ---- outputs ----------------------------------------------------------------------------------------------------------
typedef struct OutputKind {
  const char *key;
  pbObject object;
} OutputKind;
static const OutputKind output_kinds[pb_outputKindCount] = {[pb_outputControl] = {"control", pb_objActuator},
                                                            [pb_outputForce] = {"force", pb_objJoint},
                                                            [pb_outputWrench] = {"wrench", pb_objBody}};

static pbStatus add_output(Rows *w, const char *name, pbOutputDef d, pbOutputDef *out, int *count) {
  int id;
  if (*count == MOST_ROWS) return pbTaskReader_Fail(w->r, pb_bad_input, "more than %d rows", MOST_ROWS);
  if (name) {
    PB_TRY(pbTaskReader_Id(w->r, name, output_kinds[d.kind].object, &id));
    if (d.kind == pb_outputWrench && id == 0) return pbTaskReader_Fail(w->r, pb_bad_input, "the world does not move");
    PB_TRY(copy_name(w, name, &d.object));
  }
  out[(*count)++] = d;

  return pb_ok;
}

static pbStatus read_output(Rows *w, const json_t *object, pbOutputDef *out, int *count) {
  static const char *const keys[] = {"control", "force", "wrench", "scale", NULL};
  pbOutputDef d = {.kind = pb_outputKindCount};
  PB_TRY(pbTaskReader_Keys(w->r, object, keys));

  for (int i = 0; i < pb_outputKindCount; i++) {
    if (!json_object_get(object, output_kinds[i].key)) continue;
    if (d.kind != pb_outputKindCount) return pbTaskReader_Fail(w->r, pb_bad_input, "expected one of control, force, wrench");
    d.kind = (pbOutputKind)i;
  }
  if (d.kind == pb_outputKindCount) return pbTaskReader_Fail(w->r, pb_bad_input, "expected one of control, force, wrench");
  PB_TRY(read_scale(w, object, &d.scale));

  // one name, several, or all
  const json_t *value = json_object_get(object, output_kinds[d.kind].key);
  pbTaskReader_Enter(w->r, output_kinds[d.kind].key);
  if (!json_is_true(value) && !json_is_string(value) && !json_array_size(value))
    return pbTaskReader_Fail(w->r, pb_bad_input, "expected a name, a list of names or true");
  if (!json_is_array(value)) PB_TRY(add_output(w, json_string_value(value), d, out, count));

  for (size_t i = 0; i < json_array_size(value); i++) {
    const char *name = json_string_value(json_array_get(value, i));
    pbTaskReader_EnterAt(w->r, i);
    if (!name) return pbTaskReader_Fail(w->r, pb_bad_input, "expected a name");
    PB_TRY(add_output(w, name, d, out, count));
    pbTaskReader_Leave(w->r);
  }
  pbTaskReader_Leave(w->r);

  return pb_ok;
}

// Names in lists make a row each.
static size_t outputs_of(const json_t *object) {
  size_t most = 1;
  for (int k = 0; k < pb_outputKindCount; k++) most += json_array_size(json_object_get(object, output_kinds[k].key));

  return most;
}

static size_t outputs_most(const json_t *list) {
  size_t most = json_is_object(list) ? outputs_of(list) : 0;
  for (size_t i = 0; i < json_array_size(list); i++) most += outputs_of(json_array_get(list, i));

  return most < MOST_ROWS ? most : MOST_ROWS;
}

// A row, or a list of rows.
static pbStatus read_outputs(Rows *w, const json_t *root, pbPolicyDef *def) {
  const json_t *list = json_object_get(root, "output");
  if (!list) return pb_ok;

  pbOutputDef *out = pbSpecPool_Take(&w->file->pool, outputs_most(list) + 2, sizeof *out);
  if (!out) return fail_memory(w->r);
  pbTaskReader_Enter(w->r, "output");
  if (json_is_object(list)) PB_TRY(read_output(w, list, out, &def->output_count));
  else if (!json_array_size(list)) return pbTaskReader_Fail(w->r, pb_bad_input, "expected a row such as {\"control\": true}");

  for (size_t i = 0; i < json_array_size(list); i++) {
    pbTaskReader_EnterAt(w->r, i);
    PB_TRY(read_output(w, json_array_get(list, i), out, &def->output_count));
    pbTaskReader_Leave(w->r);
  }
  pbTaskReader_Leave(w->r);
  def->output = out;

  return pb_ok;
}

// ---- networks ---------------------------------------------------------------------------------------------------------
typedef struct Settings {
  uint64_t seed;
  bool single;
} Settings;

static pbStatus read_network(Rows *w, const json_t *object, int inputs, const Settings *settings, pbNetwork **network,
                             int *outputs) {
  pbChainDef chain;
  const json_t *list = json_object_get(object, "layers");
  if (!list) return pbTaskReader_Fail(w->r, pb_bad_input, "\"layers\" is missing");

  pbTaskReader_Enter(w->r, "layers");
  PB_TRY(pbTask_ReadLayers(w->r, list, &w->file->pool, inputs, &chain, outputs));
  pbStatus status = pbNetwork_Create(w->r->ctx, inputs, chain.layer, chain.count, settings->seed, settings->single, network);
  if (status != pb_ok) return pbTaskReader_FailAgain(w->r, status);
  pbTaskReader_Leave(w->r);

  return pb_ok;
}

static pbStatus read_settings(pbTaskReader *r, const json_t *root, Settings *settings) {
  PB_TRY(pbTaskReader_Seed(r, root, &settings->seed));
  return pbTaskReader_Bool(r, root, "single", &settings->single);
}

// The part that acts at every step: what is held, then its own observations, go in.
static pbStatus read_act(Rows *decide, const json_t *root, const Settings *settings, int held, pbPolicyDef *def) {
  static const char *const keys[] = {"observe", "layers", NULL};
  const json_t *act = json_object_get(root, "act");
  Rows w = {.r = decide->r, .file = decide->file, .held = held};
  int outputs;
  if (!act) return pb_ok;

  // it sees what is held in front of its own rows
  pbTaskReader_Enter(w.r, "act");
  PB_TRY(pbTaskReader_Keys(w.r, act, keys));
  PB_TRY(read_observe(&w, act, "observe", false));
  PB_TRY(read_network(&w, act, held + w.numbers, settings, &w.file->act, &outputs));
  pbTaskReader_Leave(w.r);

  def->act_observe = w.row;
  def->act_observe_count = w.count;
  def->act = pbNetwork_Function(w.file->act);

  return pb_ok;
}

static pbStatus read_parts(pbTaskReader *r, const json_t *root, pbPolicyFile *file, pbPolicyDef *def) {
  Settings settings = {0};
  int held;
  Rows w = {.r = r, .file = file, .held = pbTask_LayerOutputs(json_object_get(root, "layers"))};

  PB_TRY(pbTaskReader_Keys(r, root, policy_keys));
  PB_TRY(read_settings(r, root, &settings));
  PB_TRY(pbTaskReader_Int(r, root, "every", 1, 1000000, &def->every));
  PB_TRY(read_observe(&w, root, "observe", true));
  PB_TRY(read_network(&w, root, w.numbers, &settings, &file->decide, &held));

  def->observe = w.row;
  def->observe_count = w.count;
  def->decide = pbNetwork_Function(file->decide);
  PB_TRY(read_act(&w, root, &settings, held, def));

  return read_outputs(&w, root, def);
}

// ---- into the model ---------------------------------------------------------------------------------------------------
static void destroy_file(pbPolicyFile *file) {
  if (!file) return;
  pbContext *ctx = file->ctx;
  pbNetwork_Destroy(file->decide);
  pbNetwork_Destroy(file->act);
  pbSpecPool_Clear(&file->pool);
  pbLearned_Free(file);
  pbContext_Free(ctx, file->text);
  pbContext_Free(ctx, file);
}

// One line, keys in order: the same description has the same text.
static char *text_of(pbContext *ctx, const json_t *object) {
  char *text = NULL;
  return pbJson_Dump(ctx, object, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17), &text) == pb_ok ? text : NULL;
}

// The model's own policy is kept where it is the same.
static pbStatus same_policy(const pbTaskReader *r, const json_t *root, const pbModel *model) {
  const char *own = pbPolicy_Text(model);
  char *text = text_of(r->ctx, root);
  if (!text) return fail_memory(r);
  bool same = own && strcmp(own, text) == 0;
  pbContext_Free(r->ctx, text);

  return same ? pb_ok : pbTaskReader_Fail(r, pb_bad_input, "the model has another policy already");
}

static pbStatus set_policy(pbTaskReader *r, const json_t *root, pbModel *model) {
  pbPolicyInfo info;
  pbPolicyDef def = {.every = 1};
  if (pbModel_PolicyInfo(model, &info)) return same_policy(r, root, model);

  pbPolicyFile *file = pbContext_Alloc(model->ctx, sizeof *file);
  if (!file) return fail_memory(r);
  file->ctx = model->ctx;
  file->pool.ctx = model->ctx;

  // the model takes what was made for its policy, or nothing is left of it
  pbStatus status = read_parts(r, root, file, &def);
  if (status == pb_ok && !(file->text = text_of(model->ctx, root))) status = fail_memory(r);
  if (status == pb_ok && (status = pbModel_SetPolicy(model, &def)) != pb_ok) {
    // what fails its check is a mistake in the file: a formula outside of its domain
    status = pbTaskReader_FailAgain(r, status == pb_check_failed ? pb_bad_input : status);
  }

  if (status != pb_ok) {
    destroy_file(file);
    return status;
  }
  model->policy_file = file;
  model->release_policy_file = destroy_file;

  return pb_ok;
}

// ---- weights ----------------------------------------------------------------------------------------------------------
static bool is_slice(const char *name) { return strncmp(name, "policy.", 7) == 0; }

static pbStatus take_slice(pbModel *model, const pbArrays *set, const pbParam *p, const char *path) {
  char shape[200];
  const pbArray *array = pbArrays_Find(set, p->name);
  size_t count = (size_t)p->rows * (size_t)p->cols;
  if (!array || array->type != pb_arrayReal)
    return pbContext_Fail(model->ctx, pb_bad_input, "%.400s: has no array '%s'", path, p->name);

  // a row of bias may be a list or a column
  bool rows = array->ndim < 2 || (array->shape[0] == (size_t)p->rows && array->count == count);
  if (array->count != count || !rows)
    return pbContext_Fail(model->ctx, pb_bad_input, "%.400s: %s: expected %d x %d, found %s", path, p->name, p->rows, p->cols,
                          pbArray_ShapeText(array->ndim, array->shape, shape, sizeof shape));
  PB_TRY(pbArray_CheckFinite(model->ctx, array, path));
  memcpy(model->theta0 + p->offset, array->reals, count * sizeof(double));

  return pb_ok;
}

static pbStatus take_weights(pbModel *model, const pbArrays *set, const char *path) {
  for (int i = 0; i < pbModel_ParamCount(model); i++) {
    pbParam p = pbModel_ParamAt(model, i);
    if (is_slice(p.name)) PB_TRY(take_slice(model, set, &p, path));
  }

  // what no slice is would silently be lost
  for (size_t i = 0; i < pbArrays_Count(set); i++) {
    const char *name = pbArrays_At(set, i)->name;
    pbParam p;
    if (is_slice(name) && pbModel_Param(NULL, model, name, &p) != pb_ok)
      return pbContext_Fail(model->ctx, pb_bad_input, "%.400s: the policy has no slice '%.100s'", path, name);
  }

  return pb_ok;
}

// How many samples the normalizer's numbers are of: training goes on from there.
static pbStatus take_samples(pbModel *model, const pbArrays *set, const char *path) {
  const pbArray *array = pbArrays_Find(set, PB_SAMPLES);
  model->policy_file->trained = true;
  if (!array) return pb_ok;

  if (array->type != pb_arrayReal || array->count != 1 || !isfinite(array->reals[0]) || array->reals[0] < 0)
    return pbContext_Fail(model->ctx, pb_bad_input, "%.400s: %s: expected one number, zero or positive", path, PB_SAMPLES);

  model->policy_file->samples = array->reals[0];
  return pb_ok;
}

// ---- files ------------------------------------------------------------------------------------------------------------
static pbStatus parse(pbTaskReader *r, pbModel *model) {
  json_t *root;
  r->model = model;
  PB_TRY(pbTaskReader_Parse(r, &root));

  // a task, or the object itself
  const json_t *object = json_object_get(root, "policy");
  if (object) pbTaskReader_Enter(r, "policy");
  pbStatus status = object ? pbTask_ReadPolicy(r, object, model) : set_policy(r, root, model);
  json_decref(root);

  return status;
}

static pbStatus parse_for(pbModel *model, const char *text, size_t length, const char *name, const json_t *training) {
  pbTaskReader r = {.ctx = model->ctx, .name = name ? name : "policy", .text = text, .length = length, .training = training};
  return parse(&r, model);
}

pbStatus pbPolicy_Parse(pbModel *model, const char *text, size_t length, const char *name) {
  return parse_for(model, text, length, name, NULL);
}

static pbStatus load_arrays(pbModel *model, const char *path, const json_t *training) {
  pbArrays *set;
  PB_TRY(pbArrays_Load(model->ctx, path, &set));

  // the description first: it says which weights there are
  const pbArray *text = pbArrays_Find(set, "policy");
  pbStatus status;
  if (!text || text->type != pb_arrayText || text->count != 1)
    status = pbContext_Fail(model->ctx, pb_bad_input, "%.400s: holds no policy (a text 'policy' and its weights)", path);
  else status = parse_for(model, text->text, strlen(text->text), path, training);

  if (status == pb_ok) status = take_weights(model, set, path);
  if (status == pb_ok) status = take_samples(model, set, path);
  if (status == pb_ok) status = pbLearned_Take(model->policy_file, set, path);
  pbArrays_Destroy(set);

  return status;
}

static bool ends_in(const char *path, const char *suffix) {
  size_t n = strlen(path), m = strlen(suffix);
  return n > m && strcmp(path + n - m, suffix) == 0;
}

pbStatus pbPolicy_LoadFor(pbModel *model, const char *path, const pbLoadOptions *options, const json_t *training) {
  if (ends_in(path, ".npz")) return load_arrays(model, path, training);

  // else it is JSON
  pbTaskReader r;
  char *text = NULL;
  pbStatus status = pbTaskReader_Open(model->ctx, path, options ? options->allow_root : NULL, &r, &text);
  r.training = training;
  if (status == pb_ok) status = parse(&r, model);
  pbTaskReader_End(&r);
  pbContext_Free(model->ctx, text);

  return status;
}

pbStatus pbPolicy_Load(pbModel *model, const char *path, const pbLoadOptions *options) {
  return pbPolicy_LoadFor(model, path, options, NULL);
}

pbStatus pbTask_ReadPolicy(pbTaskReader *r, const json_t *value, pbModel *model) {
  if (!value) return pb_ok;
  if (!json_is_string(value)) return set_policy(r, value, model);

  char *path;
  PB_TRY(pbTaskReader_Path(r, json_string_value(value), &path));
  pbStatus status = pbPolicy_LoadFor(model, path, &(pbLoadOptions){.allow_root = r->allow_root}, r->training);
  pbContext_Free(r->ctx, path);

  return status == pb_ok ? pb_ok : pbTaskReader_FailAgain(r, status);
}

const char *pbPolicy_Text(const pbModel *model) { return model->policy_file ? model->policy_file->text : NULL; }

static pbStatus add_slices(const pbModel *model, const double *theta, pbArrays *set) {
  PB_TRY(pbArrays_AddText(set, "policy", pbPolicy_Text(model)));
  for (int i = 0; i < pbModel_ParamCount(model); i++) {
    pbParam p = pbModel_ParamAt(model, i);
    size_t shape[2] = {(size_t)p.rows, (size_t)p.cols};
    if (is_slice(p.name)) PB_TRY(pbArrays_AddReals(set, p.name, p.cols > 1 ? 2 : 1, shape, theta + p.offset, NULL));
  }

  const double *samples = &model->policy_file->samples;
  if (*samples > 0) PB_TRY(pbArrays_AddReals(set, PB_SAMPLES, 0, NULL, samples, NULL));
  return pbLearned_Add(model->policy_file, set);
}

pbStatus pbPolicy_Save(pbContext *ctx, const pbModel *model, const double *theta, const char *path) {
  pbArrays *set;
  if (!pbPolicy_Text(model))
    return pbContext_Fail(ctx, pb_bad_argument, "the model has no policy with a description, as one from a file has");

  PB_TRY(pbArrays_Create(ctx, &set));
  pbStatus status = add_slices(model, theta, set);
  if (status == pb_ok) status = pbArrays_SaveNpz(set, path, false);
  pbArrays_Destroy(set);

  return status;
}
