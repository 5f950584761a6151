// "sample" of a task: what is drawn at random for each world, and from which law.
// Tests: tests/unit/test_task_sample.c.
#include <math.h>
#include <string.h>

#include <pullback/policy.h>

#include "base/context.h"
#include "io/task/task_reader.h"
#include "model/joint.h"
#include "model/model.h"
#include "model/policy_data.h"

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

// Numbers that the law is of.
static int drawn(const pbDraw *d) { return d->together || d->way != pb_wayNone ? 1 : d->count; }

static pbStatus read_pair(pbTaskReader *r, const json_t *value, pbDraw *d) {
  int count = drawn(d);
  if (!json_is_array(value) || json_array_size(value) != 2)
    return pbTaskReader_Fail(r, pb_bad_input, "expected [%s]", d->law == pb_drawUniform ? "least, most" : "mean, deviation");

  d->first = pbContext_AllocArray(r->ctx, (size_t)count, sizeof(double));
  d->second = pbContext_AllocArray(r->ctx, (size_t)count, sizeof(double));
  if (!d->first || !d->second) return pbTaskReader_Fail(r, pb_no_memory, "no memory for draws");

  PB_TRY(read_each(r, json_array_get(value, 0), 0, count, d->first));
  PB_TRY(read_each(r, json_array_get(value, 1), 1, count, d->second));

  for (int k = 0; k < count; k++) {
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
  int count = drawn(d);
  PB_TRY(pbTaskReader_Numbers(r, value, &numbers));
  bool flat = !numbers.nested && count == 1 && json_is_array(value);
  size_t rows = flat ? numbers.cols : numbers.rows, cols = flat ? 1 : numbers.cols;

  // the numbers are the draw's from here
  d->first = numbers.data;
  d->rows = (int)(rows < 1u << 30 ? rows : 1u << 30);
  if (rows > 0 && cols == (size_t)count && (flat || numbers.nested)) return pb_ok;

  return pbTaskReader_Fail(r, pb_bad_input, "expected a list of rows of %d numbers", count);
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

// Of several names the entries one after the other.
static pbStatus join_parameters(pbTaskReader *r, const json_t *names, const pbTask *task, pbDraw *d) {
  json_t *name;
  size_t i;
  json_array_foreach(names, i, name) {
    size_t *index = NULL, *all;
    int count = 0;
    json_t *one = json_pack("{s:O}", "parameter", name);
    pbStatus status = one ? pbTask_ReadSlice(r, one, task, &d->kind, &index, &count) : pb_no_memory;
    json_decref(one);
    all = status == pb_ok ? pbContext_AllocArray(r->ctx, (size_t)d->count + (size_t)count, sizeof *all) : NULL;
    if (status == pb_ok && !all) status = pbTaskReader_Fail(r, pb_no_memory, "no memory for draws");
    // behind those of the names before
    if (all) {
      for (int k = 0; k < d->count; k++) all[k] = d->index[k];
      for (int k = 0; k < count; k++) all[d->count + k] = index[k];
      pbContext_Free(r->ctx, d->index);
      d->index = all;
      d->count += count;
    }
    pbContext_Free(r->ctx, index);
    PB_TRY(status);
  }

  return pb_ok;
}

static bool twice(const pbDraw *d) {
  for (int i = 0; i < d->count; i++) {
    for (int k = 0; k < i; k++) {
      if (d->index[i] == d->index[k]) return true;
    }
  }

  return false;
}

static pbStatus parameter_slice(pbTaskReader *r, const json_t *object, const pbTask *task, pbDraw *d) {
  const json_t *names = json_object_get(object, "parameter");
  PB_TRY(pbTaskReader_Bool(r, object, "together", &d->together));
  if (!json_is_array(names)) return pbTask_ReadSlice(r, object, task, &d->kind, &d->index, &d->count);

  if (json_object_get(object, "components")) return pbTaskReader_FailAt(r, "components", "are of one parameter, not of a list");
  PB_TRY(join_parameters(r, names, task, d));
  if (d->count == 0) return pbTaskReader_FailAt(r, "parameter", "expected a name, or a list of names");

  return twice(d) ? pbTaskReader_FailAt(r, "parameter", "names a number twice") : pb_ok;
}

// Seconds between draws: a number, or the least and the most.
static pbStatus read_range(pbTaskReader *r, const json_t *object, const char *key, double least, double most, double out[2]) {
  const json_t *value = json_object_get(object, key);
  if (!value) return pb_ok;

  bool pair = json_is_array(value) && json_array_size(value) == 2;
  for (size_t k = 0; k < 2; k++) {
    const json_t *number = pair ? json_array_get(value, k) : value;
    if (!json_is_number(number)) return pbTaskReader_FailAt(r, key, "expected seconds, or [least, most] of them");
    out[k] = json_number_value(number);
  }
  // also where one of them is no number
  if (least <= out[0] && out[0] <= out[1] && out[1] <= most) return pb_ok;

  return pbTaskReader_FailAt(r, key, "expected seconds from %.12g to %.12g, the least first", least, most);
}

static pbStatus read_every(pbTaskReader *r, const json_t *object, const pbTask *task, pbDraw *d) {
  double h = task->theta[task->model->timestep - task->model->theta0];
  return read_range(r, object, "every", h, 1e9, d->every);
}

static pbStatus read_draw(pbTaskReader *r, const json_t *object, const pbTask *task, pbDraw *d) {
  static const char *const param_keys[] = {"parameter", "components", "uniform", "normal", "list", "as", "together", NULL};
  static const char *const state_keys[] = {"state",   "joint",  "actuator", "points", "components",
                                           "uniform", "normal", "list",     "as",     NULL};
  static const char *const command_keys[] = {"components", "uniform", "normal", "list", "every", NULL};
  static const char *const *const keys[] = {param_keys, state_keys, command_keys};
  PB_TRY(pbTaskReader_Keys(r, object, keys[d->target]));

  // commands have no names, only numbers
  const char *what = d->target == pb_drawParam ? "parameter" : "state";
  if (d->target == pb_drawCommand) {
    PB_TRY(command_slice(r, object, d));
    PB_TRY(read_every(r, object, task, d));
  } else {
    if (!json_object_get(object, what)) return pbTaskReader_Fail(r, pb_bad_input, "\"%s\" is missing", what);
    if (d->target == pb_drawParam) PB_TRY(parameter_slice(r, object, task, d));
    else PB_TRY(pbTask_ReadSlice(r, object, task, &d->kind, &d->index, &d->count));
  }

  PB_TRY(read_law(r, object, d));
  if (d->target != pb_drawCommand) PB_TRY(read_use(r, object, d));
  PB_TRY(check_once(r, task, d));

  return d->target == pb_drawCommand ? pb_ok : check_use(r, task, d);
}

// ---- of trainings: pushes, noise of what is observed --------------------------------------------------------------------
static pbStatus read_way(pbTaskReader *r, const json_t *object, pbDraw *d) {
  const json_t *way = json_object_get(object, "direction");
  if (!way) return pb_ok;

  const char *word = json_string_value(way);
  if (d->count != 3) return pbTaskReader_FailAt(r, "direction", "a joint of one degree of freedom has none: numbers have a sign");
  if (word && strcmp(word, "horizontal") == 0) d->way = pb_wayHorizontal;
  if (word && strcmp(word, "any") == 0) d->way = pb_wayAny;
  if (!word && json_array_size(way) == 3) d->way = pb_wayGiven;

  // given ones are made unit vectors
  double square = 0;
  size_t numbers = d->way == pb_wayGiven ? 3 : 0;
  for (size_t k = 0; k < numbers; k++) {
    d->axis[k] = json_number_value(json_array_get(way, k));
    square += d->axis[k] * d->axis[k];
  }
  bool fits = d->way == pb_wayGiven ? square > 0 && square < 1e300 : d->way != pb_wayNone;
  if (!fits) return pbTaskReader_FailAt(r, "direction", "expected \"horizontal\", \"any\" or a direction [x, y, z]");
  d->together = true;
  for (size_t k = 0; k < 3; k++) d->axis[k] /= d->way == pb_wayGiven ? sqrt(square) : 1;

  return pb_ok;
}

static pbStatus read_id(pbTaskReader *r, const json_t *object, const char *key, pbObject kind, int *id) {
  const char *name = NULL;
  PB_TRY(pbTaskReader_Text(r, object, key, &name));
  pbTaskReader_Enter(r, key);
  PB_TRY(pbTaskReader_Id(r, name, kind, id));
  pbTaskReader_Leave(r);

  return pb_ok;
}

// What is pushed: a body, or a joint, whose velocity changes at once; of a free joint how it moves along.
static pbStatus read_pushed(pbTaskReader *r, const json_t *object, pbDraw *d) {
  const pbModel *m = r->model;
  d->count = 3;
  if (d->push != pb_pushVelocity) {
    PB_TRY(read_id(r, object, "body", pb_objBody, &d->on));
    return d->on > 0 ? pb_ok : pbTaskReader_FailAt(r, "body", "the world cannot be pushed");
  }

  // a joint: of more than one degree of freedom how it moves along
  int joint = 0;
  PB_TRY(read_id(r, object, "joint", pb_objJoint, &joint));
  d->on = m->jnt_dofadr[joint];
  d->count = pbJoint_DofCount(m->jnt_type[joint]) > 1 ? 3 : 1;

  return pb_ok;
}

static pbStatus read_push_kind(pbTaskReader *r, const json_t *object, pbDraw *d) {
  static const char *const kinds[] = {"force", "torque", "velocity"};
  bool body = json_object_get(object, "body"), joint = json_object_get(object, "joint");
  int found = 0;
  if (body == joint)
    return pbTaskReader_Fail(r, pb_bad_input, "expected one of \"body\" (pushed) and \"joint\" (whose velocity changes)");

  // exactly one, and of what is pushed
  for (int k = 0; k < 3; k++) {
    if (!json_object_get(object, kinds[k])) continue;
    d->push = (pbPushKind)k;
    found++;
  }
  if (found != 1 || (d->push == pb_pushVelocity) != joint)
    return pbTaskReader_Fail(r, pb_bad_input, "expected \"force\" or \"torque\" of a body, or \"velocity\" of a joint");

  return pb_ok;
}

static pbStatus read_push(pbTaskReader *r, const json_t *object, const pbTask *task, pbDraw *d) {
  static const char *const keys[] = {"body",      "joint",    "force", "torque", "velocity",
                                     "direction", "duration", "at",    "every",  NULL};
  static const char *const laws[] = {"uniform", "normal", "list", NULL};
  static const char *const kinds[] = {"force", "torque", "velocity"};
  PB_TRY(pbTaskReader_Keys(r, object, keys));
  PB_TRY(read_push_kind(r, object, d));
  PB_TRY(read_pushed(r, object, d));
  PB_TRY(read_way(r, object, d));

  // how strong
  const json_t *law = json_object_get(object, kinds[d->push]);
  pbTaskReader_Enter(r, kinds[d->push]);
  PB_TRY(pbTaskReader_Keys(r, law, laws));
  PB_TRY(read_law(r, law, d));
  pbTaskReader_Leave(r);

  // when, and for how long
  PB_TRY(read_range(r, object, "at", 0, 1e9, d->at));
  PB_TRY(read_every(r, object, task, d));
  PB_TRY(read_range(r, object, "duration", 0, 1e9, d->duration));
  if (d->push == pb_pushVelocity && json_object_get(object, "duration"))
    return pbTaskReader_FailAt(r, "duration", "a joint's velocity changes at once");
  if (!json_object_get(object, "at") == !json_object_get(object, "every"))
    return pbTaskReader_Fail(r, pb_bad_input, "expected one of \"at\" and \"every\"");

  return pb_ok;
}

// Entries of the observation: all of a kind, or all there are.
static pbStatus observed_slice(pbTaskReader *r, const json_t *object, pbDraw *d) {
  const pbPolicyModel *p = r->model->policy;
  const char *word = NULL;
  pbObserveKind kind = pb_observeKindCount;
  if (!p) return pbTaskReader_Fail(r, pb_bad_input, "the model has no policy that observes anything");
  PB_TRY(pbTaskReader_Text(r, object, "observe", &word));
  if (word && !pbObserveKind_Named(word, &kind))
    return pbTaskReader_FailAt(r, "observe", "expected what the policy observes, such as \"qvel\", found '%.40s'", word);

  // room for all of them
  int total = 0, *chosen = pbContext_AllocArray(r->ctx, (size_t)p->observed + 1, sizeof *chosen);
  size_t *all = pbContext_AllocArray(r->ctx, (size_t)p->observed + 1, sizeof *all);
  d->index = pbContext_AllocArray(r->ctx, (size_t)p->observed + 1, sizeof *d->index);
  pbStatus status = chosen && all && d->index ? pb_ok : pbTaskReader_Fail(r, pb_no_memory, "no memory for draws");
  const pbObserveRow *end = status == pb_ok ? p->row + p->rows : p->row;
  for (const pbObserveRow *row = p->row; row < end; row++) {
    if ((word && row->kind != kind) || row->at >= p->observed) continue;
    for (int k = 0; k < row->count; k++) all[total++] = (size_t)(row->at + k);
  }

  // of these the components that are asked for
  if (status == pb_ok && total == 0) status = pbTaskReader_FailAt(r, "observe", "the policy observes no %.40s", word);
  if (status == pb_ok) status = pbTaskReader_Components(r, object, total, chosen, &d->count);
  if (status != pb_ok) d->count = 0;
  for (int k = 0; k < d->count; k++) d->index[k] = all[chosen[k]];
  pbContext_Free(r->ctx, chosen);
  pbContext_Free(r->ctx, all);

  return status;
}

// Of the row that an entry is of.
static double scale_of(const pbPolicyModel *p, size_t entry) {
  const pbObserveRow *row = p->row;
  // rows are in the order of their entries
  while (entry >= (size_t)(row->at + row->count)) row++;
  return row->scale;
}

// Laws are of the quantity itself: the policy sees it scaled.
static void scale_law(const pbPolicyModel *p, const pbDraw *d) {
  int rows = d->law == pb_drawList ? d->rows : 1;
  for (int k = 0; k < d->count; k++) {
    double scale = scale_of(p, d->index[k]);
    for (int i = 0; i < rows; i++) d->first[i * d->count + k] *= scale;
    if (d->second) d->second[k] *= scale;
  }
}

static pbStatus read_observed(pbTaskReader *r, const json_t *object, const pbTask *task, pbDraw *d) {
  static const char *const keys[] = {"observe", "components", "uniform", "normal", "list", NULL};
  PB_TRY(pbTaskReader_Keys(r, object, keys));
  PB_TRY(observed_slice(r, object, d));
  if (d->count == 0) return pbTaskReader_Fail(r, pb_bad_input, "no components");
  PB_TRY(read_law(r, object, d));
  PB_TRY(check_once(r, task, d));
  scale_law(r->model->policy, d);

  return pb_ok;
}

static pbStatus read_one(pbTaskReader *r, const json_t *object, const pbTask *task, pbDraw *d) {
  if (d->target == pb_drawPush) return read_push(r, object, task, d);
  if (d->target == pb_drawObserved) return read_observed(r, object, task, d);
  return read_draw(r, object, task, d);
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

    PB_TRY(read_one(r, json_array_get(list, i), task, d));
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);

  return pb_ok;
}

pbStatus pbTask_ReadSample(pbTaskReader *r, const json_t *root, pbTask *task) {
  static const char *const keys[] = {"worlds", "init", "command", "parameters", "pushes", "noise", NULL};
  bool training = r->train || json_object_get(root, "train");
  const json_t *sample = json_object_get(root, "sample");
  if (!sample) return pb_ok;

  pbTaskReader_Enter(r, "sample");
  PB_TRY(pbTaskReader_Keys(r, sample, keys));
  task->sample.worlds = 1;
  PB_TRY(pbTaskReader_Int(r, sample, "worlds", 1, MOST_WORLDS, &task->sample.worlds));

  // room for all of them at once
  size_t count = 0;
  for (int k = 1; keys[k]; k++) count += json_array_size(json_object_get(sample, keys[k]));
  if (count > MOST_DRAWS) return pbTaskReader_Fail(r, pb_bad_input, "more than %d draws", (int)MOST_DRAWS);
  task->sample.draws = pbContext_AllocArray(r->ctx, count + 1, sizeof *task->sample.draws);
  if (!task->sample.draws) return pbTaskReader_Fail(r, pb_no_memory, "no memory for draws");

  PB_TRY(read_draws(r, sample, "init", pb_drawState, task));
  PB_TRY(read_draws(r, sample, "command", pb_drawCommand, task));
  PB_TRY(read_draws(r, sample, "parameters", pb_drawParam, task));
  for (int k = training ? 6 : 4; k < 6; k++) {
    if (json_object_get(sample, keys[k])) return pbTaskReader_FailAt(r, keys[k], "are drawn in a training: \"train\" is missing");
  }
  PB_TRY(read_draws(r, sample, "pushes", pb_drawPush, task));
  PB_TRY(read_draws(r, sample, "noise", pb_drawObserved, task));
  if (count == 0) return pbTaskReader_Fail(r, pb_bad_input, "expected draws in init, command, parameters, pushes or noise");
  pbTaskReader_Leave(r);

  return pb_ok;
}
