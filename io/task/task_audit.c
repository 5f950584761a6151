// "audit" of a task file, and an audit's report as JSON.
// Tests: tests/oracle/test_audit.py.
#include <math.h>
#include <string.h>

#include <pullback/audit.h>

#include "elementary/elementary.h"
#include "io/json/tree.h"
#include "base/context.h"
#include "io/task/task_reader.h"
#include "optimize/inertia.h"
#include "model/joint.h"
#include "model/model.h"

// ---- reading ----------------------------------------------------------------------------------------------------------------
static pbStatus no_memory(const pbTaskReader *r) { return pbTaskReader_Fail(r, pb_no_memory, "no memory for an audit"); }

static pbStatus copy_text(pbTaskReader *r, const json_t *object, const char *key, char **kept, const char **out) {
  const char *text = NULL;
  PB_TRY(pbTaskReader_Text(r, object, key, &text));
  if (!text) return pb_ok;

  // the tree is gone before the task is
  *out = *kept = pbContext_CopyText(r->ctx, text);
  return *kept ? pb_ok : no_memory(r);
}

// An object of numbers, any of which may be missing; a number is the first.
static pbStatus read_pair(pbTaskReader *r, const json_t *object, const char *key, const pbTaskKey *keys, pbAuditOptions *o) {
  const json_t *pair = json_object_get(object, key);
  if (!json_is_object(pair)) {
    const pbTaskKey alone = {.name = key, .kind = keys->kind, .at = keys->at};
    return pbTaskReader_Key(r, object, &alone, o);
  }

  pbTaskReader_Enter(r, key);
  PB_TRY(pbTaskReader_Fill(r, pair, keys, o));
  pbTaskReader_Leave(r);
  return pb_ok;
}

// One joint's deviations, over those of all.
static pbStatus read_joint_spread(pbTaskReader *r, const json_t *value, const char *name, double *spread) {
  static const char *const keys[] = {"qpos", "qvel", NULL};
  const pbModel *m = r->model;
  int joint = 0;
  PB_TRY(pbTaskReader_Id(r, name, pb_objJoint, &joint));

  pbTaskReader_Enter(r, name);
  PB_TRY(pbTaskReader_Keys(r, value, keys));

  // velocities follow positions in the tangent space
  int dof = m->jnt_dofadr[joint];
  size_t count = (size_t)pbJoint_DofCount(m->jnt_type[joint]);
  PB_TRY(pbTaskReader_Spread(r, value, "qpos", count, spread + dof));
  PB_TRY(pbTaskReader_Spread(r, value, "qvel", count, spread + m->nv + dof));
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus read_spread(pbTaskReader *r, const json_t *object, pbTask *task) {
  static const char *const keys[] = {"qpos", "qvel", "joints", NULL};
  const json_t *joints = json_object_get(object, "joints");
  const char *name;
  json_t *value;
  size_t nv = (size_t)r->model->nv;

  double *spread = pbContext_AllocArray(r->ctx, (size_t)pbModel_TangentSize(r->model) + 1, sizeof *spread);
  if (!spread) return no_memory(r);

  // the task's from here on, whatever fails
  task->audit_numbers[0] = spread;
  task->audit.spread = spread;

  pbTaskReader_Enter(r, "spread");
  PB_TRY(pbTaskReader_Keys(r, object, keys));
  PB_TRY(pbTaskReader_Spread(r, object, "qpos", nv, spread));
  PB_TRY(pbTaskReader_Spread(r, object, "qvel", nv, spread + nv));

  if (joints && !json_is_object(joints)) return pbTaskReader_FailAt(r, "joints", "expected an object {joint: {qpos, qvel}}");
  pbTaskReader_Enter(r, "joints");
  json_object_foreach((json_t *)joints, name, value) PB_TRY(read_joint_spread(r, value, name, spread));
  pbTaskReader_Leave(r);

  // deviations have no sign
  for (size_t i = 0; i < 2 * nv; i++) {
    if (!(spread[i] >= 0)) return pbTaskReader_Fail(r, pb_bad_input, "expected numbers >= 0");
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

// Its own, or that of the episodes of a training, whose numbers are half widths.
static pbStatus find_spread(pbTaskReader *r, const json_t *root, const json_t *audit, pbTask *task) {
  const json_t *own = json_object_get(audit, "spread"), *episode = json_object_get(json_object_get(root, "episode"), "spread");

  // what is said of the audit itself rules
  if (own) {
    pbTaskReader_Enter(r, "audit");
    PB_TRY(read_spread(r, own, task));
    pbTaskReader_Leave(r);
    return pb_ok;
  }

  if (!episode) return pb_ok;
  task->audit.uniform = true;
  pbTaskReader_Enter(r, "episode");
  PB_TRY(read_spread(r, episode, task));
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus read_perturbed(pbTaskReader *r, const json_t *audit, pbTask *task) {
  const json_t *object = json_object_get(audit, "perturb");
  const char *name;
  json_t *value;
  pbParam p;
  if (!object) return pb_ok;

  pbTaskReader_Enter(r, "perturb");
  if (!json_is_object(object)) return pbTaskReader_Fail(r, pb_bad_input, "expected an object {parameter: relative}");
  task->audit_fields = pbContext_AllocArray(r->ctx, json_object_size(object) + 1, sizeof *task->audit_fields);
  double *relative = pbContext_AllocArray(r->ctx, json_object_size(object) + 1, sizeof *relative);
  task->audit_numbers[1] = relative;
  if (!task->audit_fields || !relative) return no_memory(r);

  json_object_foreach((json_t *)object, name, value) {
    double by = json_is_number(value) ? json_number_value(value) : -1;
    PB_TRY(pbTask_FindParam(r, name, &p));
    if (!(by >= 0 && by < 1)) return pbTaskReader_FailAt(r, name, "expected a relative deviation, 0 <= x < 1");

    // counted as soon as it is there, so that it is freed
    char *copy = pbContext_CopyText(r->ctx, name);
    if (!copy) return no_memory(r);
    relative[task->audit.fields] = by;
    task->audit_fields[task->audit.fields++] = copy;
  }

  task->audit.field = (const char *const *)task->audit_fields;
  task->audit.relative = relative;
  pbTaskReader_Leave(r);
  return pb_ok;
}

// Zeros stand for defaults, so what is given is positive.
#define POSITIVE(key, member) PB_KEY(key, Positive, pbAuditOptions, member)
static const pbTaskKey audit_keys[] = {PB_KEY_FROM("starts", Int, pbAuditOptions, starts, 1, 1000000),
                                       PB_KEY_PART("seed"),
                                       PB_KEY_PART("spread"),
                                       PB_KEY_PART("objective"),
                                       PB_KEY("factor", Real, pbAuditOptions, factor),
                                       PB_KEY_PART("unit"),
                                       PB_KEY_PART("loss"),
                                       PB_KEY_PART("tolerance"),
                                       POSITIVE("penetration", penetration),
                                       PB_KEY_PART("torque"),
                                       POSITIVE("ledger", ledger),
                                       PB_KEY_PART("method"),
                                       PB_KEY_PART("perturb"),
                                       PB_KEY_PART("stops"),
                                       PB_KEYS_END};
static const pbTaskKey tolerances[] = {POSITIVE("relative", tolerance), POSITIVE("absolute", absolute), PB_KEYS_END};
static const pbTaskKey torques[] = {POSITIVE("actuator", torque), POSITIVE("joint", joint_torque), PB_KEYS_END};
static const pbTaskKey stops[] = {POSITIVE("angle", stop_angle), POSITIVE("length", stop_length), PB_KEYS_END};

static pbStatus read_seed(pbTaskReader *r, const json_t *object, pbAuditOptions *o) {
  int seed = 0;
  PB_TRY(pbTaskReader_Int(r, object, "seed", 0, 2147483647, &seed));
  o->seed = (uint64_t)seed;
  return pb_ok;
}

pbStatus pbTask_ReadAudit(pbTaskReader *r, const json_t *root, pbTask *task) {
  const json_t *object = json_object_get(root, "audit");
  pbAuditOptions *o = &task->audit;
  PB_TRY(find_spread(r, root, object, task));
  if (!object) return pb_ok;

  pbTaskReader_Enter(r, "audit");
  PB_TRY(pbTaskReader_Fill(r, object, audit_keys, o));
  PB_TRY(read_seed(r, object, o));
  PB_TRY(copy_text(r, object, "objective", &task->audit_texts[0], &o->objective));
  PB_TRY(copy_text(r, object, "unit", &task->audit_texts[1], &o->unit));
  PB_TRY(copy_text(r, object, "method", &task->audit_texts[2], &o->method));
  if (json_object_get(object, "factor") && o->factor == 0)
    return pbTaskReader_FailAt(r, "factor", "expected a number other than 0");

  PB_TRY(read_pair(r, object, "tolerance", tolerances, o));
  PB_TRY(read_pair(r, object, "torque", torques, o));
  if (json_is_number(json_object_get(object, "torque"))) o->joint_torque = o->torque;
  if (json_is_number(json_object_get(object, "stops")))
    return pbTaskReader_FailAt(r, "stops", "expected {\"angle\": rad, \"length\": m}: one number cannot be both");
  PB_TRY(read_pair(r, object, "stops", stops, o));
  PB_TRY(read_perturbed(r, object, task));
  pbTaskReader_Leave(r);
  return pb_ok;
}

// For a training, which is not audited now: a mistake is told before the hours that it takes, not after them.
static pbStatus check_loss(pbTaskReader *r, const json_t *loss, int steps) {
  pbTermSet set;
  if (!loss) return pb_ok;

  pbTaskReader_Enter(r, "audit");
  pbTaskReader_Enter(r, "loss");
  pbTermSet_Begin(&set, r->ctx, r->model, steps);

  // a host program's functions are called by audits, which see commands
  bool functions = r->functions, audit = r->audit;
  r->functions = r->audit = true;
  pbStatus status = pbTask_ReadLoss(r, loss, &set);
  r->functions = functions;
  r->audit = audit;
  pbTermSet_Free(&set);
  PB_TRY(status);

  pbTaskReader_Leave(r);
  pbTaskReader_Leave(r);
  return pb_ok;
}

pbStatus pbTask_CheckAudit(pbTaskReader *r, const json_t *root, pbTask *task, double seconds) {
  const json_t *audit = json_object_get(root, "audit");
  if (!audit) return pb_ok;
  PB_TRY(pbTask_ReadAudit(r, root, task));

  // as long as it says of itself, else as an episode
  int own = task->trajectory_count ? task->trajectories[0].steps : 0,
      steps = (int)fmin(1e6, round(seconds / pbTaskReader_Timestep(r)));
  return check_loss(r, json_object_get(audit, "loss"), own > steps ? own : steps);
}

// ---- results ----------------------------------------------------------------------------------------------------------------
static const json_t *named(const json_t *list, const char *name) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *other = json_string_value(json_object_get(json_array_get(list, i), "name"));
    if (other && strcmp(other, name) == 0) return json_array_get(list, i);
  }
  return NULL;
}

// The minimizer's coordinate of a value: of the numbers beside it the one that gives this value, to the bit where there is one.
static double coordinate(const pbVariable *v, double value) {
  double z = (v->logarithm ? pbLog(value) : value) / v->scale, below = nextafter(z, -INFINITY), above = nextafter(z, INFINITY);
  const double tried[] = {z, below, above, nextafter(below, -INFINITY), nextafter(above, INFINITY)};

  for (int i = 0; i < 5; i++) {
    double back = v->logarithm ? pbExp(v->scale * tried[i]) : v->scale * tried[i];
    if (back == value) return tried[i];
  }
  return z;
}

// Values of a body's inertia are one number of the minimizer's each only together.
static pbStatus read_inertia(pbTaskReader *r, const json_t *values, const pbVariable *v, double *z) {
  double numbers[PB_INERTIA];
  for (int k = 0; k < PB_INERTIA; k++) numbers[k] = json_number_value(json_array_get(values, (size_t)k));
  if (pbInertia_Start(numbers, z + v->first)) return pb_ok;
  return pbTaskReader_Fail(r, pb_bad_input, "variable '%.80s' has values that no body has", v->name);
}

static pbStatus read_values(pbTaskReader *r, const json_t *list, const pbVariable *v, double *z) {
  if (v->count == 0) return pb_ok;  // of terms that a run does not have
  const json_t *values = json_object_get(named(list, v->name), "value");
  if (!json_is_array(values) || json_array_size(values) != (size_t)v->count)
    return pbTaskReader_Fail(r, pb_bad_input, "expected a variable '%.80s' with %d values, as a result of this task has", v->name,
                             v->count);

  if (v->kind == pb_varyInertia) return read_inertia(r, values, v, z);

  // to the minimizer's coordinates
  for (int k = 0; k < v->count; k++) {
    const json_t *value = json_array_get(values, (size_t)k);
    double number = json_number_value(value);
    if (!json_is_number(value) || (v->logarithm && !(number > 0)))
      return pbTaskReader_Fail(r, pb_bad_input, "value %d of variable '%.80s' is none that it may have", k, v->name);
    z[v->first + k] = coordinate(v, number);
  }
  return pb_ok;
}

static bool varies(const pbTask *task, const char *name) {
  for (int k = 0; k < task->variable_count; k++) {
    if (strcmp(task->variables[k].name, name) == 0) return true;
  }
  return false;
}

// A file of something else, or the result of another task, would be taken for the start unseen.
static pbStatus check_result(const pbTaskReader *r, const json_t *list, const pbTask *task) {
  if (!json_is_array(list)) return pbTaskReader_Fail(r, pb_bad_input, "is missing: this is no result of an optimization");

  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *text = json_string_value(json_object_get(json_array_get(list, i), "name")), *name = text ? text : "";
    if (varies(task, name)) continue;
    return pbTaskReader_Fail(r, pb_bad_input, "%zu is '%.80s', which the task does not vary: a result of another task", i, name);
  }
  return pb_ok;
}

pbStatus pbTask_ReadResult(pbTask *task, const char *path, double *z) {
  pbTaskReader r;
  char *text = NULL;
  json_t *root = NULL;
  pbStatus status = pbTaskReader_Open(task->ctx, path, NULL, &r, &text);

  if (status == pb_ok) status = pbTaskReader_Parse(&r, &root);
  pbTaskReader_Enter(&r, "variables");
  if (status == pb_ok) status = check_result(&r, json_object_get(root, "variables"), task);
  for (int i = 0; status == pb_ok && i < task->variable_count; i++)
    status = read_values(&r, json_object_get(root, "variables"), &task->variables[i], z);

  // also of a file that could not be read
  json_decref(root);
  pbTaskReader_End(&r);
  pbContext_Free(task->ctx, text);
  return status;
}

// ---- the report as JSON -----------------------------------------------------------------------------------------------------
static json_t *real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *ledger_json(const pbAuditRow *row) {
  // no ledger is no ledger of zeros
  if (!row->has_ledger) return json_null();

  json_t *o = json_object();
  pbJson_Put(&o, "work", real(row->work));
  pbJson_Put(&o, "energy", real(row->energy));
  pbJson_Put(&o, "taken", real(row->taken));
  pbJson_Put(&o, "remainder", real(row->remainder));
  pbJson_Put(&o, "gap", real(row->gap));
  pbJson_Put(&o, "power", real(row->power));
  return o;
}

// null: nothing of the kind was seen.
static json_t *most_json(const pbAuditMost *most) {
  if (!most->name[0]) return json_null();

  json_t *o = json_object();
  pbJson_Put(&o, "value", real(most->value));
  pbJson_Put(&o, "limit", real(most->limit));
  pbJson_Put(&o, "name", pbJson_String(most->name));
  return o;
}

static json_t *row_json(const pbAuditRow *row) {
  json_t *o = json_object();
  pbJson_Put(&o, "name", pbJson_String(row->name));
  pbJson_Put(&o, "counts", json_boolean(row->counts));
  pbJson_Put(&o, "ran", json_integer(row->ran));
  pbJson_Put(&o, "failed", json_integer(row->failed));
  if (row->why[0]) pbJson_Put(&o, "why", pbJson_String(row->why));

  // a kind of run that was not to be had has nothing but its reason
  if (!row->ran) return o;

  pbJson_Put(&o, "timestep", real(row->timestep));
  pbJson_Put(&o, "mean", real(row->mean));
  pbJson_Put(&o, "deviation", real(row->deviation));
  pbJson_Put(&o, "least", real(row->least));
  pbJson_Put(&o, "most", real(row->most));

  // limits and what came near them
  pbJson_Put(&o, "penetration", real(row->overlap.value));
  pbJson_Put(&o, "penetration_limit", real(row->overlap.limit));
  pbJson_Put(&o, "penetrating", pbJson_String(row->overlap.name));
  pbJson_Put(&o, "stop", most_json(&row->given_way));
  pbJson_Put(&o, "joint_force", most_json(&row->at_joint));
  pbJson_Put(&o, "torque", real(row->torque));
  pbJson_Put(&o, "torque_limit", real(row->torque_limit));
  pbJson_Put(&o, "actuator", pbJson_String(row->actuator));
  pbJson_Put(&o, "ledger", ledger_json(row));
  return o;
}

static json_t *report_json(const pbAuditReport *report) {
  json_t *o = json_object(), *rows = json_array();

  // the verdict, then what it is about
  pbJson_Put(&o, "confirmed", json_boolean(report->confirmed));
  pbJson_Put(&o, "verdict", pbJson_String(report->verdict));
  pbJson_Put(&o, "objective", pbJson_String(report->objective));
  pbJson_Put(&o, "unit", pbJson_String(report->unit));
  pbJson_Put(&o, "starts", json_integer(report->starts));
  pbJson_Put(&o, "seed", json_integer((json_int_t)report->seed));

  pbJson_Put(&o, "tolerance", real(report->tolerance));
  pbJson_Put(&o, "tolerance_absolute", real(report->absolute));
  pbJson_Put(&o, "better", json_integer((json_int_t)report->better));
  pbJson_Put(&o, "gained", real(report->gained));
  pbJson_Put(&o, "ledger_limit", real(report->ledger));
  if (report->why_no_ledger[0]) pbJson_Put(&o, "why_no_ledger", pbJson_String(report->why_no_ledger));

  for (int i = 0; i < pb_auditRunCount; i++) pbJson_Add(&rows, row_json(&report->row[i]));
  pbJson_Put(&o, "runs", rows);
  return o;
}

pbStatus pbAuditReport_Describe(const pbAuditReport *report, pbJson *json) {
  json_t *o = report_json(report);
  if (!o) return pb_no_memory;

  pbJson_Tree(json, NULL, o);
  json_decref(o);
  return pb_ok;
}

pbStatus pbAuditReport_Json(pbContext *ctx, const pbAuditReport *report, char **text) {
  json_t *o = report_json(report);
  pbStatus status = pbJson_Dump(ctx, o, JSON_INDENT(2) | JSON_REAL_PRECISION(17), text);
  json_decref(o);
  return status;
}
