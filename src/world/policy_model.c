// A policy becomes part of a model: its table of observations is read against the model's names, where its outputs go, its
// parameters in theta.
// Tests: tests/conformance/test_policy.c.
#include <pullback/policy.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <pullback/sensors.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/suggest.h"
#include "model/joint.h"
#include "model/observe.h"
#include "model/policy_data.h"
#include "model/sensor.h"
#include "step/scratch.h"
#include "world/policy_points.h"
#include "world/policy_step.h"

static const char *object_word(pbObject object) {
  switch (object) {
    case pb_objJoint: return "joint";
    case pb_objActuator: return "actuator";
    case pb_objSensor: return "sensor";
    case pb_objBody: return "body";
    case pb_objPoint: return "set of points";
    default: return "site";
  }
}

// ---- reading a table -----------------------------------------------------------------------------------------------
// The row in hand, for messages.
typedef struct reader {
  pbModel *m;
  const char *table;
  int row;
} reader;

static pbStatus fail_row(const reader *r, const char *reason) {
  return pbContext_Fail(r->m->ctx, pb_bad_argument, "%s row %d: %s", r->table, r->row, reason);
}

// Points are named by sets.
static const char *name_at(const pbModel *m, pbObject kind, int id) {
  return kind == pb_objPoint ? pbModel_PointSetName(m, id) : pbModel_Name(m, kind, id);
}

static int set_id(const pbModel *m, const char *name) {
  for (int i = 0; pbModel_PointSetName(m, i); i++) {
    if (!strcmp(pbModel_PointSetName(m, i), name)) return i;
  }
  return -1;
}

static pbStatus find_object(const reader *r, pbObject kind, const char *name, int *id) {
  char hint[256];
  // The world is a body without a name of its own.
  *id = kind == pb_objPoint ? set_id(r->m, name) : pbModel_Id(r->m, kind, name);
  if (*id < 0 && kind == pb_objBody && name && !strcmp(name, "world")) *id = 0;
  if (*id >= 0) return pb_ok;

  // Names of the same kind that are near
  pbSuggest near = pbSuggest_For(name);
  for (int i = 0; name_at(r->m, kind, i); i++) pbSuggest_Offer(&near, name_at(r->m, kind, i));
  return pbContext_Fail(r->m->ctx, pb_bad_argument, "%s row %d: the model has no %s '%.80s'%s", r->table, r->row,
                        object_word(kind), name, pbSuggest_Write(&near, hint, sizeof hint));
}

// What a row says itself of its width.
static int own_width(const pbObserveRow *row, const pbObserveDef *def, int held) {
  if (row->kind == pb_observeCommand) return def->count;
  if (row->kind == pb_observeLast) return held;
  return row->form == pb_formMean ? 1 : row->point_count;
}

// What a row is of, and whether that can be observed.
static pbStatus read_object(const reader *r, const pbObserveDef *def, pbObserveRow *row) {
  const pbModel *m = r->m;
  pbObject object = pbObserve_Object(def->kind);
  row->object = row->frame = -1;

  // A kind of things has them by name, some all at once; of bodies and sites a frame may look.
  if (def->object && object == pb_objCount) return fail_row(r, "this kind of observation is of no object");
  if (!def->object && object != pb_objCount && !pbObserve_TakesAll(def->kind))
    return fail_row(r, "expected the name of an object");
  if (def->object) PB_TRY(find_object(r, object, def->object, &row->object));
  if (def->frame && !pbObserve_TakesFrame(def->kind))
    return fail_row(r, "only positions and rotations of bodies and sites have a frame");
  if (def->frame) PB_TRY(find_object(r, pb_objBody, def->frame, &row->frame));

  if (def->kind == pb_observeAct && row->object >= m->nu) return fail_row(r, "controls of deformables have no activation");
  if (def->kind == pb_observeAct && row->object >= 0 && !m->actuator_actnum[row->object])
    return fail_row(r, "this actuator has no activation");
  if (def->kind == pb_observeRotation && !pbJoint_HasRotation(m->jnt_type[row->object]))
    return fail_row(r, "expected a ball or free joint");
  return pb_ok;
}

// What a row says of points, in the names of sets.
static pbStatus read_points(const reader *r, const pbObserveDef *def, pbObserveRow *row) {
  const char *reason;

  if (!pb_observesPoints(def->kind))
    return def->point_count || def->form ? fail_row(r, "only rows of points have points and a form") : pb_ok;
  if ((unsigned)def->form >= pb_observeFormCount) return fail_row(r, "points are seen as values, offsets or their mean");
  row->form = def->form;

  pbStatus status = pbPolicyPoints_Choose(r->m, def, row, &reason);
  if (status == pb_no_memory) return pbContext_Fail(r->m->ctx, status, "%s", reason);
  return status == pb_ok ? pb_ok : fail_row(r, reason);
}

// Sensors that come after the controls are refused by name.
static pbStatus check_sensor(const reader *r, const pbObserveDef *def, const pbObserveRow *row) {
  if (def->previous)
    return fail_row(r, "sensors of the step before (previous) are not supported: observe a sensor of positions or velocities");
  if (def->kind != pb_observeSensor || row->object < 0 || pbSensor_IsEarly(r->m, row->object)) return pb_ok;
  if (r->m->sensor_type[row->object] == pb_sensClock) return fail_row(r, "a clock is observed as 'time', not as a sensor");
  return pbContext_Fail(
      r->m->ctx, pb_bad_argument,
      "%s row %d: the sensor '%.80s' depends on the controls of the very step; a policy sees sensors of positions "
      "and velocities",
      r->table, r->row, def->object);
}

static pbStatus read_components(const reader *r, const pbObserveDef *def, pbObserveRow *row) {
  row->count = row->width;
  if (!def->component) return pb_ok;

  row->count = def->components;
  row->component = pbContext_AllocArray(r->m->ctx, (size_t)def->components + 1, sizeof(int));
  if (!row->component) return pbContext_Fail(r->m->ctx, pb_no_memory, "no memory for a policy");
  // Numbers of the row, in the order of the caller
  for (int i = 0; i < def->components; i++) {
    row->component[i] = def->component[i];
    if (def->component[i] >= 0 && def->component[i] < row->width) continue;
    return pbContext_Fail(r->m->ctx, pb_bad_argument, "%s row %d: component %d: expected one of 0 .. %d", r->table, r->row,
                          def->component[i], row->width - 1);
  }
  return pb_ok;
}

// What must be evaluated for the sensors of a row.
static void note_sensors(const pbModel *m, const pbObserveRow *row, pbPolicyModel *p) {
  p->sensors = true;
  for (int i = 0; i < m->nsensor; i++) {
    const pbSensorRow *sensor = pbSensor_Row(m->sensor_type[i]);
    if (!sensor->early || (row->object >= 0 && row->object != i)) continue;

    bool actuator = sensor->of == pb_ofActuator, tendon = sensor->of == pb_ofTendon;
    p->transmissions = p->transmissions || actuator;
    p->lengths = p->lengths || actuator || tendon;
  }
}

static pbStatus read_row(const reader *r, const pbObserveDef *def, int held, pbPolicyModel *p, pbObserveRow *row) {
  if ((unsigned)def->kind >= pb_observeKindCount) return fail_row(r, "no such kind of observation");
  if (def->components < 0 || (def->kind == pb_observeCommand && (def->count < 1 || def->first < 0)))
    return fail_row(r, "expected counts of one or more, from 0 on");
  if (!isfinite(def->scale)) return fail_row(r, "the scale is not finite");

  // What it is of, and which of its numbers
  row->kind = def->kind;
  PB_TRY(read_object(r, def, row));
  PB_TRY(check_sensor(r, def, row));
  PB_TRY(read_points(r, def, row));
  row->scale = def->scale == 0 ? 1 : def->scale;
  row->first = def->kind == pb_observeCommand ? def->first : 0;
  memcpy(row->point, def->point, sizeof row->point);
  row->width = pbObserve_Width(r->m, row->kind, row->object, own_width(row, def, held));
  PB_TRY(read_components(r, def, row));

  // What all rows together need
  row->at = p->observing;
  p->observing += row->count;
  if (row->width > p->widest) p->widest = row->width;
  if (row->kind == pb_observeCommand && row->first + row->width > p->commands) p->commands = row->first + row->width;
  p->evaluates = p->evaluates || pb_observeEvaluates(row->kind);
  if (row->kind == pb_observeSensor) note_sensors(r->m, row, p);
  return pb_ok;
}

static pbStatus read_table(pbModel *m, const char *table, const pbObserveDef *def, int count, int held, pbPolicyModel *p) {
  for (int i = 0; i < count; i++) {
    const reader r = {m, table, i};
    PB_TRY(read_row(&r, &def[i], held, p, &p->row[p->rows++]));
  }
  return pb_ok;
}

// ---- outputs -------------------------------------------------------------------------------------------------------
// First number and how many of an output row, in ctrl, qfrc or xfrc.
static pbStatus read_output(const reader *r, const pbOutputDef *def, int *first, int *count) {
  const pbModel *m = r->m;
  static const pbObject object[pb_outputKindCount] = {pb_objActuator, pb_objJoint, pb_objBody};
  const int all[pb_outputKindCount] = {pb_controls(m), m->nv, 6 * (m->nbody - 1)};
  int id;
  if ((unsigned)def->kind >= pb_outputKindCount) return fail_row(r, "no such kind of output");
  if (!isfinite(def->scale)) return fail_row(r, "the scale is not finite");

  // All: of bodies all but the world.
  *first = def->kind == pb_outputWrench ? 6 : 0;
  *count = all[def->kind];
  if (!def->object) return pb_ok;

  PB_TRY(find_object(r, object[def->kind], def->object, &id));
  switch (def->kind) {
    case pb_outputControl:
      *first = id;
      *count = 1;
      break;
    case pb_outputForce:
      *first = m->jnt_dofadr[id];
      *count = pbJoint_DofCount(m->jnt_type[id]);
      break;
    default:
      if (id == 0) return fail_row(r, "the world does not move");
      *first = 6 * id;
      *count = 6;
  }
  return pb_ok;
}

static pbStatus read_outputs(pbModel *m, const pbPolicyDef *def, pbPolicyModel *p) {
  static const pbOutputDef controls = {.kind = pb_outputControl};
  const pbOutputDef *row = def->output_count ? def->output : &controls;
  int rows = def->output_count ? def->output_count : 1, first, count;

  // Counted, then filled in
  for (int i = 0; i < rows; i++) {
    PB_TRY(read_output(&(reader){m, "output", i}, &row[i], &first, &count));
    p->outputs += count;
  }

  // One target for each number, in the order of the rows
  p->target = pbContext_AllocArray(m->ctx, (size_t)p->outputs + 1, sizeof *p->target);
  if (!p->target) return pbContext_Fail(m->ctx, pb_no_memory, "no memory for a policy");
  pbOutputTarget *to = p->target;
  for (int i = 0; i < rows; i++) {
    PB_TRY(read_output(&(reader){m, "output", i}, &row[i], &first, &count));
    double scale = row[i].scale == 0 ? 1 : row[i].scale;
    for (int k = 0; k < count; k++) *to++ = (pbOutputTarget){row[i].kind, first + k, scale};
    p->reaches[row[i].kind] = true;
  }
  return pb_ok;
}

// ---- functions -----------------------------------------------------------------------------------------------------
static pbStatus check_size(pbModel *m, const pbPolicyFunction *f, const char *what, int expected, int found) {
  if (expected == found) return pb_ok;
  return pbContext_Fail(m->ctx, pb_bad_argument, "policy '%.100s': it has %d %s, the model's table gives %d", f->name, expected,
                        what, found);
}

static pbStatus check_functions(pbModel *m, const pbPolicyDef *def) {
  const pbPolicyFunction *all[] = {def->decide, def->act};
  if (!def->decide) return pbContext_Fail(m->ctx, pb_bad_argument, "a policy needs a function 'decide'");
  if (!def->act && def->act_observe_count)
    return pbContext_Fail(m->ctx, pb_bad_argument, "observations of act without a function 'act'");
  if (def->every < 0)
    return pbContext_Fail(m->ctx, pb_bad_argument, "policy: expected a decision every 1 or more steps, found %d", def->every);

  // The struct of functions itself; whether they do what they say is found by calling them.
  for (int i = 0; i < 2; i++) {
    const pbPolicyFunction *f = all[i];
    if (!f) continue;
    if (!f->name || !f->forward || !f->pull || f->observations < 0 || f->outputs < 0 || f->memory < 0 || f->slices < 0 ||
        f->draws < 0 || f->draws > f->observations)
      return pbContext_Fail(m->ctx, pb_bad_argument, "policy: '%s' needs a name, forward, pull, and sizes of 0 or more",
                            i ? "act" : "decide");
  }
  return pb_ok;
}

static size_t slice_size(const pbPolicySlice *s) { return (size_t)s->rows * (size_t)s->cols; }

static size_t params_of(const pbPolicyFunction *f) {
  size_t size = 0;
  if (!f) return 0;
  for (int i = 0; i < f->slices; i++) size += slice_size(&f->slice[i]);
  return size;
}

static pbStatus name_slices(pbModel *m, const pbPolicyFunction *f, const char *prefix, size_t at, pbPolicyModel *p) {
  if (!f) return pb_ok;

  for (int i = 0; i < f->slices; i++) {
    const pbPolicySlice *s = &f->slice[i];
    char name[256];
    if (!s->name || s->rows < 0 || s->cols < 0)
      return pbContext_Fail(m->ctx, pb_bad_argument, "policy '%.100s': slice %d has no name or a negative size", f->name, i);

    // The name in theta, with what it is a part of before it
    snprintf(name, sizeof name, "%s%.200s", prefix, s->name);
    for (int k = 0; k < p->params; k++) {
      if (strcmp(p->param[k].name, name) == 0)
        return pbContext_Fail(m->ctx, pb_bad_argument, "policy '%.100s': two slices have the name '%s'", f->name, name);
    }
    pbPolicyParam *to = &p->param[p->params++];
    *to = (pbPolicyParam){.name = pbContext_CopyText(m->ctx, name), .slice = s, .offset = at};
    if (!to->name) return pbContext_Fail(m->ctx, pb_no_memory, "no memory for a policy");
    at += slice_size(s);
  }
  return pb_ok;
}

static void start_params(pbModel *m, const pbPolicyModel *p) {
  for (int i = 0; i < p->params; i++) {
    const pbPolicyParam *param = &p->param[i];
    // Parameters that are new are zero.
    if (param->slice->start) memcpy(m->theta0 + param->offset, param->slice->start, slice_size(param->slice) * sizeof(double));
  }
}

enum { check_seed = 1 };  // of the points at which functions are tried

// ---- into the model ------------------------------------------------------------------------------------------------
static pbStatus read_policy(pbModel *m, const pbPolicyDef *def, pbPolicyModel *p) {
  const pbPolicyFunction *decide = def->decide, *act = def->act;
  // Sizes first: rows of what is held have them.
  p->decide = decide;
  p->act = act;
  p->held = decide->outputs;
  p->decide_memory = decide->memory;
  p->memory = decide->memory + (act ? act->memory : 0);
  p->every = def->every ? def->every : 1;

  PB_TRY(read_table(m, "observe", def->observe, def->observe_count, p->held, p));
  p->observing += decide->draws;
  p->observed = p->observing;
  PB_TRY(read_table(m, "act_observe", def->act_observe, def->act_observe_count, p->held, p));
  p->acted = p->observing - p->observed;
  PB_TRY(read_table(m, "critic_observe", def->critic_observe, def->critic_observe_count, p->held, p));
  PB_TRY(read_outputs(m, def, p));

  // What the functions take and give must be what the tables say.
  PB_TRY(check_size(m, decide, "observations", decide->observations, p->observed));
  if (!act) return check_size(m, decide, "outputs", decide->outputs, p->outputs);
  PB_TRY(check_size(m, act, "observations (those held first)", act->observations, p->held + p->acted));
  return check_size(m, act, "outputs", act->outputs, p->outputs);
}

static pbStatus create_policy(pbModel *m, const pbPolicyDef *def, pbPolicyModel **policy) {
  // Rows and slices of both functions
  size_t rows = (size_t)def->observe_count + (size_t)def->act_observe_count + (size_t)def->critic_observe_count;
  size_t slices = (size_t)def->decide->slices + (def->act ? (size_t)def->act->slices : 0);
  pbPolicyModel *p = *policy = pbContext_Alloc(m->ctx, sizeof *p);
  if (!p) return pbContext_Fail(m->ctx, pb_no_memory, "no memory for a policy");
  p->row = pbContext_AllocArray(m->ctx, rows + 1, sizeof *p->row);
  p->param = pbContext_AllocArray(m->ctx, slices + 1, sizeof *p->param);
  if (!p->row || !p->param) return pbContext_Fail(m->ctx, pb_no_memory, "no memory for a policy");

  PB_TRY(read_policy(m, def, p));

  // Parameters stand behind all others.
  p->theta = m->ntheta;
  p->act_theta = p->theta + params_of(def->decide);
  p->theta_size = params_of(def->decide) + params_of(def->act);
  PB_TRY(name_slices(m, def->decide, "policy.", p->theta, p));
  return name_slices(m, def->act, "policy.act.", p->act_theta, p);
}

static pbStatus check_def(pbModel *m, const pbPolicyDef *def) {
  if (m->policy) return pbContext_Fail(m->ctx, pb_bad_argument, "the model has a policy already");
  if (def->observe_count < 0 || def->act_observe_count < 0 || def->output_count < 0 || def->critic_observe_count < 0)
    return pbContext_Fail(m->ctx, pb_bad_argument, "policy: expected tables of 0 or more rows");
  return check_functions(m, def);
}

pbStatus pbModel_SetPolicy(pbModel *m, const pbPolicyDef *def) {
  PB_TRY(check_def(m, def));

  // What a function says of itself is tried: a wrong derivative would only be seen as training that does not work.
  pbPolicyReport report;
  PB_TRY(pbPolicy_Check(m->ctx, def->decide, check_seed, &report));
  if (def->act) PB_TRY(pbPolicy_Check(m->ctx, def->act, check_seed, &report));
  return pbModel_TrustPolicy(m, def);
}

pbStatus pbModel_TrustPolicy(pbModel *m, const pbPolicyDef *def) {
  pbPolicyModel *p = NULL;
  PB_TRY(check_def(m, def));

  // On failure the model stays as it was.
  pbStatus status = create_policy(m, def, &p);
  if (status == pb_ok) status = pbModel_GrowParams(m, p->theta_size);
  if (status != pb_ok) {
    pbPolicyModel_Destroy(m->ctx, p);
    return status;
  }

  start_params(m, p);
  PB_ASSERT(m->ntheta == p->theta + p->theta_size);

  // States, records and theta have other sizes from here on.
  m->policy = p;
  m->revision++;
  return pb_ok;
}

// ---- what callers ask ----------------------------------------------------------------------------------------------
bool pbModel_PolicyInfo(const pbModel *m, pbPolicyInfo *info) {
  const pbPolicyModel *p = m->policy;
  if (!p) return false;
  // Observations of act count too.
  *info = (pbPolicyInfo){.name = p->decide->name,
                         .observations = p->observing,
                         .outputs = p->outputs,
                         .memory = p->memory,
                         .held = p->held,
                         .every = p->every,
                         .commands = p->commands,
                         .params = p->theta_size};
  return true;
}

// Points have no names of their own.
static char *name_point(const pbObserveRow *r, int index, char *text, size_t size) {
  int entry = r->component ? r->component[index] : index;
  char axis = "xyz"[entry % 3];

  if (r->form == pb_formMean) {
    snprintf(text, size, "%s: %c of the mean of %d points", pbObserveKind_Name(r->kind), axis, r->point_count);
    return text;
  }
  snprintf(text, size, "%s: %c of point %d%s", pbObserveKind_Name(r->kind), axis, r->points[entry / 3],
           r->form == pb_formOffset ? " less the mean" : "");
  return text;
}

char *pbModel_ObservationName(const pbModel *m, int index, char *text, size_t size) {
  const pbPolicyModel *p = m->policy;
  snprintf(text, size, "?");

  if (!p) return text;

  for (int i = 0; i < p->rows; i++) {
    const pbObserveRow *r = &p->row[i];
    if (index < r->at || index >= r->at + r->count) continue;
    if (pb_observesPoints(r->kind)) return name_point(r, index - r->at, text, size);

    // Which number of what, and as seen from where

    int entry = r->first + (r->component ? r->component[index - r->at] : index - r->at);
    pbObject object = pbObserve_Object(r->kind);
    const char *name = r->object >= 0 ? pbModel_Name(m, object, r->object) : NULL;
    char of[160] = "", frame[160] = "";
    if (name) snprintf(of, sizeof of, " of %s '%.100s'", object_word(object), name);
    if (r->frame >= 0) snprintf(frame, sizeof frame, " in the frame of body '%.100s'", pbModel_Name(m, pb_objBody, r->frame));
    snprintf(text, size, "%s[%d]%s%s", pbObserveKind_Name(r->kind), entry, of, frame);
  }
  return text;
}

pbStatus pbPolicy_Observe(const pbModel *m, const double *theta, const double *x, const pbInput *input, pbScratch *s,
                          double *observation) {
  PB_TRY(pbScratch_Enter(s, m, &theta));
  if (!m->policy) return pbScratch_Fail(s, pb_bad_argument, "the model has no policy");

  // It is no step: the next call evaluates anew.
  pbPolicy_Sense(s, theta, x, input);
  s->w.sensed = false;
  memcpy(observation, s->policy->observation, (size_t)m->policy->observing * sizeof(double));
  return pb_ok;
}
