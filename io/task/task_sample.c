// "sample" of a task: what is drawn at random for each world, and from which law.
// Tests: tests/unit/test_task_sample.c.
#include <math.h>
#include <string.h>

#include <pullback/policy.h>

#include "base/context.h"
#include "io/task/task_reader.h"
#include "model/joint.h"
#include "model/model.h"

enum { MOST_WORLDS = 10000, MOST_DRAWS = 1000 };

// ---- laws -------------------------------------------------------------------------------------------------------------
// A number for all components, or one for each.
static pbStatus read_each(pbTaskReader *r, const json_t *value, size_t index, int count, double *out) {
  pbTaskNumbers numbers;
  pbTaskReader_EnterAt(r, index);
  PB_TRY(pbTaskReader_Numbers(r, value, &numbers));

  bool one = json_is_number(value), fits = one || (!numbers.nested && numbers.cols == (size_t)count);
  int filled = fits ? count : 0;
  for (int k = 0; k < filled; k++) out[k] = numbers.data[one ? 0 : k];
  pbContext_Free(r->ctx, numbers.data);

  if (!fits) return pbTaskReader_Fail(r, pb_bad_input, "expected a number, or %d of them", count);
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus read_pair(pbTaskReader *r, const json_t *value, pbDraw *d) {
  if (!json_is_array(value) || json_array_size(value) != 2)
    return pbTaskReader_Fail(r, pb_bad_input, "expected [%s]", d->law == pb_drawUniform ? "least, most" : "mean, deviation");

  d->first = pbContext_AllocArray(r->ctx, (size_t)d->count, sizeof(double));
  d->second = pbContext_AllocArray(r->ctx, (size_t)d->count, sizeof(double));
  if (!d->first || !d->second) return pbTaskReader_Fail(r, pb_no_memory, "no memory for draws");

  PB_TRY(read_each(r, json_array_get(value, 0), 0, d->count, d->first));
  PB_TRY(read_each(r, json_array_get(value, 1), 1, d->count, d->second));

  for (int k = 0; k < d->count; k++) {
    if (d->law == pb_drawUniform && !(d->first[k] <= d->second[k]))
      return pbTaskReader_Fail(r, pb_bad_input, "the least, %.12g, is above the most, %.12g", d->first[k], d->second[k]);
    if (d->law == pb_drawNormal && !(d->second[k] >= 0))
      return pbTaskReader_Fail(r, pb_bad_input, "a deviation is not negative: %.12g", d->second[k]);
  }
  return pb_ok;
}

// Rows of `count` numbers; of one number a flat list is one of rows.
static pbStatus read_list(pbTaskReader *r, const json_t *value, pbDraw *d) {
  pbTaskNumbers numbers;
  PB_TRY(pbTaskReader_Numbers(r, value, &numbers));
  bool flat = !numbers.nested && d->count == 1 && json_is_array(value);
  size_t rows = flat ? numbers.cols : numbers.rows, cols = flat ? 1 : numbers.cols;

  // the numbers are the draw's from here
  d->first = numbers.data;
  d->rows = (int)(rows < 1u << 30 ? rows : 1u << 30);
  if (rows > 0 && cols == (size_t)d->count && (flat || numbers.nested)) return pb_ok;
  return pbTaskReader_Fail(r, pb_bad_input, "expected a list of rows of %d numbers", d->count);
}

static pbStatus read_law(pbTaskReader *r, const json_t *object, pbDraw *d) {
  static const char *const laws[] = {"uniform", "normal", "list"};
  const json_t *value = NULL;
  int found = 0;

  for (int k = 0; k < 3; k++) {
    if (!json_object_get(object, laws[k])) continue;
    value = json_object_get(object, laws[k]);
    d->law = (pbDrawLaw)k;
    found++;
  }

  // one of them, and no default
  if (found != 1) return pbTaskReader_Fail(r, pb_bad_input, "expected one of uniform, normal, list");

  d->now = pbContext_AllocArray(r->ctx, (size_t)d->count, sizeof(double));
  if (!d->now) return pbTaskReader_Fail(r, pb_no_memory, "no memory for draws");

  pbTaskReader_Enter(r, laws[d->law]);
  PB_TRY(d->law == pb_drawList ? read_list(r, value, d) : read_pair(r, value, d));
  pbTaskReader_Leave(r);
  return pb_ok;
}

// ---- use --------------------------------------------------------------------------------------------------------------
static pbStatus read_use(pbTaskReader *r, const json_t *object, pbDraw *d) {
  static const char *const uses[] = {"value", "offset", "factor"};
  const char *as = d->target == pb_drawState ? "offset" : "value";
  PB_TRY(pbTaskReader_Text(r, object, "as", &as));

  // a factor of a coordinate means nothing
  int k = 0, most = d->target == pb_drawParam ? 3 : 2;
  while (k < most && strcmp(uses[k], as) != 0) k++;
  if (k == most) return pbTaskReader_FailAt(r, "as", "expected \"value\", \"offset\"%s", most == 3 ? " or \"factor\"" : "");

  d->use = (pbDrawUse)k;
  return pb_ok;
}

static bool is_rotation(const pbModel *m, const pbDraw *d, int k) {
  if (d->target != pb_drawState || d->kind != pb_varyQpos) return false;
  int j = m->dof_jntid[d->index[k]], from = (int)d->index[k] - m->jnt_dofadr[j];
  return from >= pbJoint_PlainCount(m->jnt_type[j]);
}

static bool has_entry(const pbVariable *v, size_t index) {
  for (int i = 0; i < v->index_count; i++) {
    if (v->index[i] == index) return true;
  }
  return false;
}

static bool same_place(const pbVariable *v, const pbDraw *d) {
  bool parameter = v->kind == pb_varyParam || v->kind == pb_varySets;
  return d->target == pb_drawParam ? parameter : !parameter && v->kind == d->kind;
}

// A draw that replaces what a variable says would make it one without influence; rotations are not composed with those of
// variables.
static pbStatus check_use(const pbTaskReader *r, const pbTask *task, const pbDraw *d) {
  for (int k = 0; k < d->count; k++) {
    bool turns = is_rotation(r->model, d, k);
    if (turns && d->use == pb_drawValue)
      return pbTaskReader_Fail(r, pb_bad_input, "rotations are drawn as offsets: rotation vectors in the body's frame");
    if (!turns && d->use != pb_drawValue) continue;

    for (int i = 0; i < task->variable_count; i++) {
      const pbVariable *v = &task->variables[i];
      if (same_place(v, d) && has_entry(v, d->index[k]))
        return pbTaskReader_Fail(r, pb_bad_input, "replaces what variables[%d] ('%.100s') varies%s", i, v->name,
                                 turns ? "" : ": draw an offset or, of a parameter, a factor");
    }
  }
  return pb_ok;
}

// Draws of a target stand side by side.
static int first_of(const pbTask *task, pbDrawTarget target) {
  int first = 0;
  while (task->sample.draws[first].target != target) first++;
  return first;
}

// Component of d whose entry another draw has, too; -1: none. component: by entry, from 1 on.
static int shared_component(const pbDraw *other, const int *component, size_t entries) {
  for (int k = 0; k < other->count; k++) {
    if (other->index[k] < entries && component[other->index[k]]) return component[other->index[k]] - 1;
  }
  return -1;
}

// A number is drawn once, or a value and then an offset or factor of it: of two draws beside each other it would be open whether
// they add up or the last one counts.
static pbStatus check_once(const pbTaskReader *r, const pbTask *task, const pbDraw *d) {
  size_t entries = 0;
  for (int k = 0; k < d->count; k++) entries = d->index[k] + 1 > entries ? d->index[k] + 1 : entries;
  int *component = pbContext_AllocArray(r->ctx, entries, sizeof *component), shared = -1;
  if (!component) return pbTaskReader_Fail(r, pb_no_memory, "no memory for draws");
  for (int k = 0; k < d->count; k++) component[d->index[k]] = k + 1;

  const pbDraw *other = task->sample.draws;
  for (; other < d && shared < 0; other++) {
    bool same = other->target == d->target && other->kind == d->kind;
    if (same && (other->use != pb_drawValue || d->use == pb_drawValue)) shared = shared_component(other, component, entries);
  }
  pbContext_Free(r->ctx, component);

  if (shared < 0) return pb_ok;
  return pbTaskReader_Fail(r, pb_bad_input, "component %d is drawn by entry %d of this list, too", shared,
                           (int)(other - 1 - task->sample.draws) - first_of(task, d->target));
}

// ---- draws ------------------------------------------------------------------------------------------------------------
static pbStatus command_slice(pbTaskReader *r, const json_t *object, pbDraw *d) {
  pbPolicyInfo policy = {0};
  if (!pbModel_PolicyInfo(r->model, &policy) || policy.commands == 0)
    return pbTaskReader_Fail(r, pb_bad_input, "the model has no policy that observes commands");

  int *chosen = pbContext_AllocArray(r->ctx, (size_t)policy.commands, sizeof *chosen);
  d->index = pbContext_AllocArray(r->ctx, (size_t)policy.commands, sizeof *d->index);
  pbStatus status = chosen && d->index ? pbTaskReader_Components(r, object, policy.commands, chosen, &d->count)
                                       : pbTaskReader_Fail(r, pb_no_memory, "no memory for draws");
  if (status != pb_ok) d->count = 0;
  for (int k = 0; k < d->count; k++) d->index[k] = (size_t)chosen[k];

  pbContext_Free(r->ctx, chosen);
  if (status == pb_ok && d->count == 0) return pbTaskReader_Fail(r, pb_bad_input, "no components");
  return status;
}

static pbStatus read_draw(pbTaskReader *r, const json_t *object, const pbTask *task, pbDraw *d) {
  static const char *const param_keys[] = {"parameter", "components", "uniform", "normal", "list", "as", NULL};
  static const char *const state_keys[] = {"state",   "joint",  "actuator", "points", "components",
                                           "uniform", "normal", "list",     "as",     NULL};
  static const char *const command_keys[] = {"components", "uniform", "normal", "list", NULL};
  static const char *const *const keys[] = {param_keys, state_keys, command_keys};
  PB_TRY(pbTaskReader_Keys(r, object, keys[d->target]));

  // commands have no names, only numbers
  const char *what = d->target == pb_drawParam ? "parameter" : "state";
  if (d->target == pb_drawCommand) {
    PB_TRY(command_slice(r, object, d));
  } else {
    if (!json_object_get(object, what)) return pbTaskReader_Fail(r, pb_bad_input, "\"%s\" is missing", what);
    PB_TRY(pbTask_ReadSlice(r, object, task, &d->kind, &d->index, &d->count));
  }

  PB_TRY(read_law(r, object, d));
  if (d->target != pb_drawCommand) PB_TRY(read_use(r, object, d));
  PB_TRY(check_once(r, task, d));
  return d->target == pb_drawCommand ? pb_ok : check_use(r, task, d);
}

static pbStatus read_draws(pbTaskReader *r, const json_t *sample, const char *key, pbDrawTarget target, pbTask *task) {
  const json_t *list = json_object_get(sample, key);
  if (!list) return pb_ok;
  pbTaskReader_Enter(r, key);
  if (!json_is_array(list)) return pbTaskReader_Fail(r, pb_bad_input, "expected a list of draws");

  for (size_t i = 0; i < json_array_size(list); i++) {
    // counted first: what was read of it is freed with the task
    pbDraw *d = &task->sample.draws[task->sample.count++];
    d->target = target;
    pbTaskReader_EnterAt(r, i);

    PB_TRY(read_draw(r, json_array_get(list, i), task, d));
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

pbStatus pbTask_ReadSample(pbTaskReader *r, const json_t *root, pbTask *task) {
  static const char *const keys[] = {"worlds", "init", "command", "parameters", NULL};
  const json_t *sample = json_object_get(root, "sample");
  if (!sample) return pb_ok;

  pbTaskReader_Enter(r, "sample");
  PB_TRY(pbTaskReader_Keys(r, sample, keys));
  task->sample.worlds = 1;
  PB_TRY(pbTaskReader_Int(r, sample, "worlds", 1, MOST_WORLDS, &task->sample.worlds));

  // room for all of them at once
  size_t count = 0;
  for (int k = 1; k < 4; k++) count += json_array_size(json_object_get(sample, keys[k]));
  if (count > MOST_DRAWS) return pbTaskReader_Fail(r, pb_bad_input, "more than %d draws", (int)MOST_DRAWS);
  task->sample.draws = pbContext_AllocArray(r->ctx, count + 1, sizeof *task->sample.draws);
  if (!task->sample.draws) return pbTaskReader_Fail(r, pb_no_memory, "no memory for draws");

  PB_TRY(read_draws(r, sample, "init", pb_drawState, task));
  PB_TRY(read_draws(r, sample, "command", pb_drawCommand, task));
  PB_TRY(read_draws(r, sample, "parameters", pb_drawParam, task));
  if (count == 0) return pbTaskReader_Fail(r, pb_bad_input, "expected draws in init, command or parameters");
  pbTaskReader_Leave(r);
  return pb_ok;
}
