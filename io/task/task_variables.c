// Variables of a task: parameters, initial states and controls that are to be found, with start, bounds and transform.
// Tests: tests/unit/test_task.c, tests/unit/test_task_csv.c.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "elementary/elementary.h"
#include "io/task/policy.h"
#include "io/task/task_variables.h"
#include "io/task/task_windows.h"
#include "model/joint.h"
#include "model/model.h"

static const char *const variable_keys[] = {
    "parameter", "state",    "control",   "mocap_pos",  "mocap_rot",  "mocap_vel", "mocap_pos_before", "mocap_rot_before",
    "joint",     "actuator", "points",    "components", "trajectory", "knots",     "interpolation",    "start",
    "lower",     "upper",    "transform", "scale",      "name",       "sets",      "constants",        "delay",
    "gain",      "bias",     "body",      "prior",      NULL};

// Slices of the model's policy that are not fixed, by index from 0; false at their end.
static bool policy_unknown(const pbModel *model, int index, pbParam *param) {
  for (int i = 0; i < pbModel_ParamCount(model); i++) {
    *param = pbModel_ParamAt(model, i);
    if (strncmp(param->name, "policy.", 7) == 0 && !param->fixed && index-- == 0) return true;
  }

  return false;
}

// All weights of the policy but constants, which a normalizer's numbers are.
static pbStatus policy_entries(pbTaskReader *r, pbTaskEntries *e) {
  pbParam p;
  size_t count = 0;
  for (int i = 0; policy_unknown(r->model, i, &p); i++) count += (size_t)p.rows * (size_t)p.cols;
  if (!count) return pbTaskReader_FailAt(r, "parameter", "the task has no policy, or one without weights");

  PB_TRY(pbTaskEntries_Room(r, count, e));
  for (int i = 0; policy_unknown(r->model, i, &p); i++) {
    for (size_t k = 0; k < (size_t)p.rows * (size_t)p.cols; k++)
      pbTaskEntries_Add(e, p.offset + k, r->theta[p.offset + k], p.lower, p.upper);
  }
  return pb_ok;
}

// drawn: it is that, and no unknown.
static pbStatus param_entries(pbTaskReader *r, const char *name, bool recompute, bool drawn, pbTaskEntries *e) {
  pbParam p;
  if (strcmp(name, "policy") == 0) return policy_entries(r, e);
  pbTaskReader_Enter(r, "parameter");
  if (strcmp(name, "timestep") == 0 && !drawn) PB_TRY(pbTask_FindParam(r, name, &p));
  else PB_TRY(pbTask_FindVariedParam(r, name, recompute, &p));
  pbTaskReader_Leave(r);

  size_t count = (size_t)p.rows * (size_t)p.cols;
  PB_TRY(pbTaskEntries_Room(r, count, e));

  // bounds are those of the field, the same for every entry
  for (size_t i = 0; i < count; i++) pbTaskEntries_Add(e, p.offset + i, r->theta[p.offset + i], p.lower, p.upper);
  return pb_ok;
}

static int state_offset(const pbModel *m, const char *name) {
  for (int i = 0; i < pbModel_StateFieldCount(m); i++)
    if (strcmp(pbModel_StateFieldAt(m, i).name, name) == 0) return pbModel_StateFieldAt(m, i).offset;
  return 0;
}

// Degrees of freedom of the joints named; rotations start at zero: they are relative to what the file says.
static pbStatus dof_entries(pbTaskReader *r, const json_t *object, bool velocity, const double *x0, pbTaskEntries *e) {
  const pbModel *m = r->model;
  const json_t *joint = json_object_get(object, "joint");
  json_t *all = json_true();
  int *ids, count, qpos = state_offset(m, "qpos"), qvel = state_offset(m, "qvel");
  PB_TRY(pbTaskReader_Ids(r, joint ? joint : all, pb_objJoint, m->njnt, &ids, &count));

  // six at most: those of a free joint
  pbStatus status = pbTaskEntries_Room(r, (size_t)count * 6, e);
  if (status != pb_ok) count = 0;

  for (int i = 0; i < count; i++) {
    int j = ids[i], type = m->jnt_type[j];
    for (int k = 0; k < pbJoint_DofCount(type); k++) {
      bool rotation = k >= pbJoint_PlainCount(type);
      size_t dof = (size_t)m->jnt_dofadr[j] + (size_t)k;
      double value = rotation ? 0 : x0[qpos + m->jnt_qposadr[j] + k];
      if (velocity) value = x0[qvel + (int)dof];
      pbTaskEntries_Add(e, dof, value, -INFINITY, INFINITY);
    }
  }

  pbContext_Free(r->ctx, ids);
  return status;
}

static void add_control(const pbModel *m, int a, const pbTrajectory *tr, pbTaskEntries *e) {
  bool limited = a < m->nu && m->actuator_ctrllimited[a];  // controls of deformables follow the actuators and have no range
  double lower = limited ? m->actuator_ctrlrange[2 * a] : -INFINITY;
  double upper = limited ? m->actuator_ctrlrange[2 * a + 1] : INFINITY;
  pbTaskEntries_Add(e, (size_t)a, tr->ctrl[a], lower, upper);
}

static void add_activations(const pbModel *m, int a, const double *act, pbTaskEntries *e) {
  int first = m->actuator_actadr[a];
  if (first < 0) return;

  for (int k = first; k < first + m->actuator_actnum[a]; k++) pbTaskEntries_Add(e, (size_t)k, act[k], -INFINITY, INFINITY);
}

static pbStatus actuator_entries(pbTaskReader *r, const json_t *names, bool activation, const pbTrajectory *tr,
                                 pbTaskEntries *e) {
  const pbModel *m = r->model;
  int *ids, count, act = state_offset(m, "act");
  PB_TRY(pbTaskReader_Ids(r, names, pb_objActuator, activation ? m->nu : pb_controls(m), &ids, &count));

  // an actuator may have several activations: room for all with each
  pbStatus status = pbTaskEntries_Room(r, activation ? (size_t)count * ((size_t)m->na + 1) : (size_t)count, e);
  if (status != pb_ok) count = 0;
  for (int i = 0; i < count; i++) {
    if (activation) add_activations(m, ids[i], tr->x0 + act, e);
    else add_control(m, ids[i], tr, e);
  }

  pbContext_Free(r->ctx, ids);
  return status;
}

static pbStatus each_once(pbTaskReader *r, const int *ids, int count) {
  char *seen = pbContext_AllocArray(r->ctx, (size_t)pbModel_PointCount(r->model) + 1, 1);
  if (!seen) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a variable");

  pbStatus status = pb_ok;
  for (int i = 0; status == pb_ok && i < count; i++) {
    if (seen[ids[i]]) status = pbTaskReader_Fail(r, pb_bad_input, "point %d is named twice", ids[i]);
    seen[ids[i]] = 1;
  }

  pbContext_Free(r->ctx, seen);
  return status;
}

static pbStatus point_entries(pbTaskReader *r, const json_t *object, const double *x0, pbTaskEntries *e) {
  const json_t *points = json_object_get(object, "points");
  json_t *all = json_true();
  int *ids, count;
  pbTaskReader_Enter(r, points ? "points" : "state");
  if (pbModel_PointCount(r->model) == 0) return pbTaskReader_Fail(r, pb_bad_input, "the model has no deformables");

  PB_TRY(pbTaskReader_Points(r, points ? points : all, &ids, &count));
  pbStatus status = each_once(r, ids, count);
  if (status == pb_ok) pbTaskReader_Leave(r);
  if (status == pb_ok) status = pbTaskEntries_Room(r, 3 * (size_t)count, e);

  if (status != pb_ok) count = 0;
  for (int i = 0; i < 3 * count; i++) {
    int entry = 3 * ids[i / 3] + i % 3;
    pbTaskEntries_Add(e, (size_t)entry, x0[entry], -INFINITY, INFINITY);
  }

  pbContext_Free(r->ctx, ids);
  return status;
}

static pbStatus state_entries(pbTaskReader *r, const json_t *object, const char *which, const pbTrajectory *tr, pbVariable *v,
                              pbTaskEntries *e) {
  json_t *all = json_true();
  const json_t *actuator = json_object_get(object, "actuator");
  if (strcmp(which, "qpos") == 0) {
    v->kind = pb_varyQpos;
    return dof_entries(r, object, false, tr->x0, e);
  }

  if (strcmp(which, "qvel") == 0) {
    v->kind = pb_varyQvel;
    return dof_entries(r, object, true, tr->x0, e);
  }

  // points and their velocities are counted alike
  bool velocity = strcmp(which, "point_velocity") == 0;
  v->kind = velocity ? pb_varyPointVelocity : pb_varyPoints;
  if (velocity || strcmp(which, "points") == 0) return point_entries(r, object, tr->x0 + state_offset(r->model, which), e);

  v->kind = pb_varyAct;
  if (strcmp(which, "act") == 0) return actuator_entries(r, actuator ? actuator : all, true, tr, e);
  return pbTaskReader_FailAt(r, "state", "expected qpos, qvel, act, points or point_velocity, found '%.60s'", which);
}

static pbStatus control_knots(pbTaskReader *r, const json_t *object, int steps, pbVariable *v) {
  const char *interpolation = "constant";

  // a value for every step, unless knots are given
  v->knots = steps;
  PB_TRY(pbTaskReader_Int(r, object, "knots", 1, steps, &v->knots));
  PB_TRY(pbTaskReader_Text(r, object, "interpolation", &interpolation));

  // values hold until the next knot, or run linearly to it
  v->linear = strcmp(interpolation, "linear") == 0;
  if (!v->linear && strcmp(interpolation, "constant") != 0)
    return pbTaskReader_FailAt(r, "interpolation", "expected \"constant\" or \"linear\"");
  return pb_ok;
}

// What varies along a trajectory, by its key.
static const struct {
  const char *key;
  pbVariableKind kind;
} courses[] = {{"control", pb_varyControl},
               {"mocap_pos", pb_varyMocapPos},
               {"mocap_rot", pb_varyMocapRot},
               {"mocap_vel", pb_varyMocapVel},
               {"mocap_pos_before", pb_varyMocapPosBefore},
               {"mocap_rot_before", pb_varyMocapRotBefore}};
enum { COURSES = sizeof courses / sizeof *courses };

static bool is_before(const pbVariable *v) { return v->kind == pb_varyMocapPosBefore || v->kind == pb_varyMocapRotBefore; }

// Components of mocap bodies by name.
static pbStatus pose_entries(pbTaskReader *r, const json_t *names, pbTask *task, const pbVariable *v, pbTaskEntries *e) {
  const pbModel *m = r->model;
  int *ids, count, width = v->kind == pb_varyMocapVel ? 6 : 3;
  PB_TRY(pbTaskReader_Ids(r, names, pb_objBody, m->nbody, &ids, &count));

  pbStatus status = m->nmocap ? pbTaskEntries_Room(r, (size_t)(count * width), e)
                              : pbTaskReader_Fail(r, pb_bad_input, "the model has no mocap bodies");
  for (int t = 0; status == pb_ok && t < task->trajectory_count; t++) {
    if (v->trajectory < 0 || v->trajectory == t) status = pbTask_GivePoses(r, task, &task->trajectories[t], v->kind);
  }

  // as the first of them has them
  const double *from = pbPoses_Start(&task->trajectories[v->trajectory < 0 ? 0 : v->trajectory], v->kind);
  for (int i = 0; status == pb_ok && i < count; i++) {
    int mocap = m->body_mocapid[ids[i]];

    // all bodies stand for all that are mocap bodies
    if (mocap < 0 && json_is_true(names)) continue;
    if (mocap < 0)
      status = pbTaskReader_Fail(r, pb_bad_input, "body '%.100s' is no mocap body", pbModel_Name(m, pb_objBody, ids[i]));
    int end = status == pb_ok ? width * (mocap + 1) : 0;

    // all components of each
    for (int k = width * mocap; k < end; k++) pbTaskEntries_Add(e, (size_t)k, from ? from[k] : 0, -INFINITY, INFINITY);
  }

  pbContext_Free(r->ctx, ids);
  return status;
}

static pbStatus find_entries(pbTaskReader *r, const json_t *object, pbTask *task, pbVariable *v, pbTaskEntries *e) {
  const char *parameter = NULL, *state = NULL, *reading = NULL;
  const json_t *course = NULL;
  int count = 0;
  PB_TRY(pbTaskReader_Text(r, object, "parameter", &parameter));
  PB_TRY(pbTaskReader_Text(r, object, "state", &state));
  for (int i = 0; i < COURSES; i++) {
    const json_t *given = json_object_get(object, courses[i].key);
    if (!given) continue;
    course = given;
    v->kind = courses[i].kind;
    count++;
  }
  count += pbTask_ReadingKeys(object, &reading);
  if ((parameter != NULL) + (state != NULL) + count != 1)
    return pbTaskReader_Fail(r, pb_bad_input,
                             "expected one of parameter, state, control, mocap_pos, mocap_rot, mocap_vel, mocap_pos_before, "
                             "mocap_rot_before, delay, gain, bias, sets");

  v->trajectory = -1;
  v->knots = 1;
  PB_TRY(pbTaskReader_Int(r, object, "trajectory", 0, task->trajectory_count - 1, &v->trajectory));

  // a variable of all trajectories starts as in the first
  const pbTrajectory *tr = &task->trajectories[v->trajectory < 0 ? 0 : v->trajectory];

  if (reading) return pbTask_ReadingEntries(r, object, reading, task, v, e);

  // theta is one for all trajectories
  if (!course) v->kind = pb_varyParam;
  if (parameter)
    return v->trajectory >= 0 ? pbTaskReader_Fail(r, pb_bad_input, "parameters belong to all trajectories")
                              : param_entries(r, parameter, task->recompute, false, e);

  if (state) return state_entries(r, object, state, tr, v, e);

  if (is_before(v) && json_object_get(object, "knots"))
    return pbTaskReader_FailAt(r, "knots", "before the first step there is one pose: expected no knots");
  PB_TRY(control_knots(r, object, is_before(v) ? 1 : tr->steps, v));
  if (v->kind == pb_varyControl) return actuator_entries(r, course, false, tr, e);
  return pose_entries(r, course, task, v, e);
}

static pbStatus choose_entries(pbTaskReader *r, const json_t *object, pbTaskEntries *e) {
  int *chosen = pbContext_AllocArray(r->ctx, (size_t)e->count + 1, sizeof *chosen), count = 0;
  if (!chosen) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a variable");

  pbTaskEntries copy = {0};
  pbStatus status = pbTaskReader_Components(r, object, e->count, chosen, &count);
  if (status == pb_ok && count == 0) status = pbTaskReader_Fail(r, pb_bad_input, "this variable has no components");
  if (status == pb_ok) status = pbTaskEntries_Room(r, (size_t)count, &copy);
  if (status != pb_ok) count = 0;
  for (int i = 0; i < count; i++)
    pbTaskEntries_Add(&copy, e->index[chosen[i]], e->value[chosen[i]], e->lower[chosen[i]], e->upper[chosen[i]]);

  pbContext_Free(r->ctx, chosen);
  pbContext_Free(r->ctx, e->index);
  pbContext_Free(r->ctx, e->memory);
  *e = copy;
  return status;
}

// What a draw is of: a slice as of a variable, without its values.
pbStatus pbTask_ReadSlice(pbTaskReader *r, const json_t *object, const pbTask *task, pbVariableKind *kind, size_t **index,
                          int *count) {
  const char *parameter = NULL, *state = NULL;
  pbVariable v = {.kind = pb_varyParam};
  pbTaskEntries e = {0};
  PB_TRY(pbTaskReader_Text(r, object, "parameter", &parameter));
  PB_TRY(pbTaskReader_Text(r, object, "state", &state));

  pbStatus status = parameter ? param_entries(r, parameter, task->recompute, true, &e)
                              : state_entries(r, object, state, &task->trajectories[0], &v, &e);
  if (status == pb_ok) status = choose_entries(r, object, &e);
  pbContext_Free(r->ctx, e.memory);
  *kind = v.kind;
  *index = e.index;
  *count = e.count;

  return status;
}

// ---- ranges ---------------------------------------------------------------------------------------------------------
static pbStatus check_range(pbTaskReader *r, const pbVariable *v, const double *start, const double *lower, const double *upper) {
  for (int i = 0; i < v->count; i++) {
    // a NaN fails each of these
    if (!(lower[i] <= upper[i]))
      return pbTaskReader_Fail(r, pb_bad_input, "component %d: the lower bound %.12g is above the upper bound %.12g", i, lower[i],
                               upper[i]);

    if (!(lower[i] <= start[i] && start[i] <= upper[i]))
      return pbTaskReader_Fail(r, pb_bad_input, "component %d starts at %.12g, outside of its bounds %.12g to %.12g", i, start[i],
                               lower[i], upper[i]);

    if (v->logarithm && !(start[i] > 0 && upper[i] > 0 && lower[i] >= 0))
      return pbTaskReader_Fail(r, pb_bad_input,
                               "a logarithm needs a positive start and bounds that are not negative (component %d starts at "
                               "%.12g, bounds %.12g to %.12g)",
                               i, start[i], lower[i], upper[i]);
  }
  return pb_ok;
}

static pbStatus read_transform(pbTaskReader *r, const json_t *object, pbVariable *v) {
  const char *transform = "none";
  v->scale = 1;
  PB_TRY(pbTaskReader_Real(r, object, "scale", &v->scale));
  PB_TRY(pbTaskReader_Text(r, object, "transform", &transform));
  v->logarithm = strcmp(transform, "log") == 0;

  if (!(v->scale > 0)) return pbTaskReader_FailAt(r, "scale", "expected a positive number");
  if (!v->logarithm && strcmp(transform, "none") != 0)
    return pbTaskReader_FailAt(r, "transform", "expected \"none\" or \"log\"; \"inertia\" is of a \"body\"");
  return pb_ok;
}

// Controls and positions that say nothing of their start begin as the task's are at each knot.
static void start_at_controls(const pbTaskReader *r, const pbTask *task, const pbVariable *v, const pbTaskEntries *e,
                              double *start) {
  const pbTrajectory *tr = &task->trajectories[v->trajectory < 0 ? 0 : v->trajectory];
  bool poses = v->kind != pb_varyControl;
  int width = v->kind == pb_varyMocapVel ? 6 : 3, knots = v->knots;
  int nu = poses ? width * r->model->nmocap : pb_controls(r->model);
  const double *from = poses ? pbPoses_Start(tr, v->kind) : tr->ctrl;
  for (int knot = 0; knot < knots; knot++) {
    // the first step at which its value holds; of a line the step next to it
    int64_t step = ((int64_t)knot * tr->steps + knots - 1) / knots;
    if (v->linear) step = knots > 1 ? ((int64_t)knot * (tr->steps - 1) + (knots - 1) / 2) / (knots - 1) : 0;

    for (int c = 0; c < e->count; c++) start[knot * e->count + c] = from[step * nu + (int64_t)v->index[c]];
  }
}

// start, lower, upper: per component, for controls the same at every knot unless all are given.
static pbStatus read_ranges(pbTaskReader *r, const json_t *object, pbTask *task, pbVariable *v, const pbTaskEntries *e) {
  size_t count = (size_t)v->count, each = (size_t)e->count;
  double *memory = pbContext_AllocArray(r->ctx, 3 * count + each, sizeof(double));
  if (!memory) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a variable");

  // `few`: one value per component, before it is repeated for every knot
  double *values[3] = {memory, memory + count, memory + 2 * count}, *few = memory + 3 * count;
  const double *preset[3] = {e->value, e->lower, e->upper};
  const char *const keys[3] = {"start", "lower", "upper"};
  pbStatus status = pb_ok;

  for (int k = 0; status == pb_ok && k < 3; k++) {
    const json_t *given = json_object_get(object, keys[k]);

    // as many values as components hold at every knot; otherwise one for all or all of them
    bool spread = json_is_array(given) && json_array_size(given) == each && each != count;
    memcpy(few, preset[k], each * sizeof *few);
    if (spread) status = pbTaskReader_Spread(r, object, keys[k], each, few);
    for (size_t i = 0; i < count; i++) values[k][i] = few[i % each];
    if (!spread && status == pb_ok) status = pbTaskReader_Spread(r, object, keys[k], count, values[k]);
  }

  // a logarithm reaches no number below zero: only a bound that somebody states can be wrong
  size_t logarithms = v->logarithm && !json_object_get(object, "lower") ? count : 0;
  for (size_t i = 0; i < logarithms; i++) values[1][i] = fmax(values[1][i], 0);

  // a start that is not given lies within the bounds
  bool free_start = status == pb_ok && !json_object_get(object, "start");
  size_t moved = free_start ? count : 0;
  bool course = v->kind == pb_varyControl || v->kind == pb_varyMocapPos || v->kind == pb_varyMocapVel;
  if (free_start && course) start_at_controls(r, task, v, e, values[0]);
  for (size_t i = 0; i < moved; i++) values[0][i] = fmin(fmax(values[0][i], values[1][i]), values[2][i]);

  if (status == pb_ok) status = pbVariable_StartRows(r, v, values[0], values[1], values[2]);
  if (status == pb_ok) status = check_range(r, v, values[0], values[1], values[2]);
  if (status == pb_ok) status = pbTask_AppendUnknowns(r, task, v, values[0], values[1], values[2]);

  pbContext_Free(r->ctx, memory);
  return status;
}

static const char *text_of(const json_t *object, const char *key) { return json_string_value(json_object_get(object, key)); }

// The given name, else one of what varies: "qpos:hinge", "control:motor@1".
static pbStatus name_variable(pbTaskReader *r, const json_t *object, pbVariable *v) {
  const char *name = NULL, *parameter = text_of(object, "parameter"), *state = text_of(object, "state");
  const char *joint = text_of(object, "joint"), *points = text_of(object, "points"), *key = "";
  const char *of = joint ? joint : points;
  char made[200];
  PB_TRY(pbTaskReader_Text(r, object, "name", &name));

  if (v->kind == pb_varyDelay) snprintf(made, sizeof made, "delay");
  else if (parameter) snprintf(made, sizeof made, "%s", parameter);
  else if (state) snprintf(made, sizeof made, "%s%s%s", state, of ? ":" : "", of ? of : "");
  else {
    for (int i = 0; i < COURSES; i++) key = courses[i].kind == v->kind ? courses[i].key : key;
    if (v->kind == pb_varyReading) pbTask_ReadingKeys(object, &key);
    of = text_of(object, key);
    snprintf(made, sizeof made, "%s%s%s", key, of ? ":" : "", of ? of : "");
  }

  if (!name && v->trajectory >= 0) snprintf(made + strlen(made), sizeof made - strlen(made), "@%d", v->trajectory);
  v->name = pbContext_CopyText(r->ctx, name ? name : made);
  return v->name ? pb_ok : pbTaskReader_Fail(r, pb_no_memory, "no memory for a name");
}

// What follows a variable is a parameter as those that are variables.
static pbVariableKind place_of(const pbVariable *v) {
  return v->kind == pb_varySets || v->kind == pb_varyInertia ? pb_varyParam : v->kind;
}

// Whether a varies one of the numbers that are marked in `varied`, in the same trajectory as b.
static bool varies_same(const pbVariable *a, const pbVariable *b, const char *varied, size_t most) {
  // one of all trajectories (-1) meets those of each
  bool other = a->term && b->term && strcmp(a->term, b->term) != 0;
  bool apart =
      other || place_of(a) != place_of(b) || (a->trajectory >= 0 && b->trajectory >= 0 && a->trajectory != b->trajectory);
  if (apart) return false;

  for (int i = 0; i < a->index_count; i++) {
    if (a->index[i] <= most && varied[a->index[i]]) return true;
  }
  return false;
}

// Two variables for one number are refused: the later would silently win.
static pbStatus check_twice(pbTaskReader *r, const pbTask *task, const pbVariable *v) {
  size_t most = 0;
  for (int i = 0; i < v->index_count; i++) most = v->index[i] > most ? v->index[i] : most;
  char *varied = pbContext_AllocArray(r->ctx, most + 1, 1);
  if (!varied) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a variable");

  for (int i = 0; i < v->index_count; i++) varied[v->index[i]] = 1;
  const pbVariable *other = task->variables;
  while (other < v && !varies_same(other, v, varied, most)) other++;

  pbContext_Free(r->ctx, varied);
  if (other == v) return pb_ok;
  return pbTaskReader_Fail(r, pb_bad_input, "varies what variables[%d] ('%.100s') varies already", (int)(other - task->variables),
                           other->name);
}

// An unknown that is no number of the model: what it sets is in v->index, by which formulas is read when all variables are known.
static pbStatus read_tie(pbTaskReader *r, const json_t *object, pbTask *task, pbVariable *v, pbTaskEntries *e) {
  static const char *const keys[] = {"sets", "constants", "name", "start", "lower", "upper", "transform", "scale", "prior", NULL};
  PB_TRY(pbTaskReader_Keys(r, object, keys));
  v->kind = pb_varySets;
  v->trajectory = -1;
  v->knots = 1;
  v->count = 1;

  PB_TRY(pbTask_ReadTargets(r, object, task->recompute, v));
  PB_TRY(check_twice(r, task, v));
  PB_TRY(read_transform(r, object, v));
  if (!json_object_get(object, "start"))
    return pbTaskReader_Fail(r, pb_bad_input, "\"start\" is missing: the model has no such number");

  PB_TRY(pbTaskEntries_Room(r, 1, e));
  pbTaskEntries_Add(e, 0, 1, v->logarithm ? 0 : -INFINITY, INFINITY);
  return read_ranges(r, object, task, v, e);
}

// A run has no loss, and what its terms read changes nothing of it.
static pbStatus pass_reading(pbTaskReader *r, const json_t *object, const pbTask *task, pbVariable *v) {
  v->kind = pb_varyReading;
  v->trajectory = -1;
  v->knots = 1;
  v->first = task->n;
  return name_variable(r, object, v);
}

// Some trajectory sees more than the first sample, or no derivative would ever move the delay.
static pbStatus start_within(pbTaskReader *r, const pbTask *task, const pbVariable *v) {
  double z = v->scale * task->start[v->first];
  int seen = 0;
  pbTaskReader_Enter(r, "start");

  for (int t = 0; t < task->trajectory_count; t++) {
    const pbTrajectory *tr = &task->trajectories[t];
    if (v->trajectory >= 0 && v->trajectory != t) continue;
    seen += !tr->recorded || pbTask_CheckControlDelay(r, tr, v->logarithm ? pbExp(z) : z) == pb_ok;
  }
  if (!seen) return pb_bad_input;  // told of the last one

  pbTaskReader_Leave(r);
  return pb_ok;
}

// {"delay": "controls"}: seconds by which all recorded controls come later.
static pbStatus read_delay(pbTaskReader *r, const json_t *object, pbTask *task, pbVariable *v, pbTaskEntries *e) {
  static const char *const keys[] = {"delay", "trajectory", "name", "start", "lower", "upper", "transform", "scale", NULL};
  PB_TRY(pbTaskReader_Keys(r, object, keys));
  *v = (pbVariable){.kind = pb_varyDelay, .trajectory = -1, .knots = 1, .count = 1, .index_count = 1};
  PB_TRY(pbTaskReader_Int(r, object, "trajectory", 0, task->trajectory_count - 1, &v->trajectory));

  // one number for all of its trajectories
  v->index = pbContext_AllocArray(r->ctx, 1, sizeof *v->index);
  if (!v->index) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a variable");
  PB_TRY(name_variable(r, object, v));
  PB_TRY(check_twice(r, task, v));
  PB_TRY(read_transform(r, object, v));
  for (int t = 0; t < task->trajectory_count; t++) {
    if (v->trajectory < 0 || v->trajectory == t) PB_TRY(pbTask_RecordControls(r, &task->trajectories[t]));
  }

  // from what the task says on, and never an advance unless that is meant
  PB_TRY(pbTaskEntries_Room(r, 1, e));
  pbTaskEntries_Add(e, 0, task->trajectories[v->trajectory < 0 ? 0 : v->trajectory].delay, 0, INFINITY);
  PB_TRY(read_ranges(r, object, task, v, e));

  return start_within(r, task, v);
}

static pbStatus read_variable(pbTaskReader *r, const json_t *object, pbTask *task, pbVariable *v, pbTaskEntries *e) {
  const char *key, *delay = json_string_value(json_object_get(object, "delay"));
  if (delay && strcmp(delay, "controls") == 0) return read_delay(r, object, task, v, e);
  PB_TRY(pbTaskReader_Keys(r, object, variable_keys));
  if (json_object_get(object, "sets")) return read_tie(r, object, task, v, e);
  if (json_object_get(object, "body")) {
    PB_TRY(pbTask_ReadInertia(r, object, task, v));
    return check_twice(r, task, v);
  }
  if (r->run && pbTask_ReadingKeys(object, &key)) return pass_reading(r, object, task, v);
  if (json_object_get(object, "constants"))
    return pbTaskReader_FailAt(r, "constants", "only formulas of \"sets\" have constants");
  PB_TRY(find_entries(r, object, task, v, e));
  PB_TRY(choose_entries(r, object, e));
  PB_TRY(name_variable(r, object, v));
  PB_TRY(read_transform(r, object, v));

  // as a double: the product may be beyond int
  double count = (double)e->count * v->knots;
  if (count + task->n > 1 << 20) return pbTaskReader_Fail(r, pb_capacity, "more than %d unknowns", 1 << 20);

  // the variable owns the indices from here
  v->index_count = e->count;
  v->count = (int)count;
  v->index = e->index;
  e->index = NULL;

  PB_TRY(check_twice(r, task, v));
  PB_TRY(pbVariable_FindRows(r, v));
  PB_TRY(pbVariable_CheckRows(r, object, v));
  PB_TRY(read_ranges(r, object, task, v, e));
  if (v->kind == pb_varyReading && v->index[0] == 0) PB_TRY(pbTask_VaryDelay(r, task, v));
  return pb_ok;
}

pbStatus pbTask_ReadVariables(pbTaskReader *r, const json_t *root, pbTask *task) {
  const json_t *list = json_object_get(root, "variables");

  // a run needs no variables
  if (!list && (r->run || r->audit)) return pb_ok;
  pbTaskReader_Enter(r, "variables");

  if (json_is_array(list) && json_array_size(list) == 0)
    return pbTaskReader_Fail(r, pb_bad_input, "the list of variables is empty");
  if (!json_is_array(list)) return pbTaskReader_Fail(r, pb_bad_input, "expected a list of variables");
  PB_TRY(pbTask_SpreadVariables(r, task, list, &list));
  size_t count = json_array_size(list);
  if (count > 10000) return pbTaskReader_Fail(r, pb_bad_input, "expected a list of variables, at most 10 000");

  task->variables = pbContext_AllocArray(r->ctx, count, sizeof *task->variables);
  if (!task->variables) return pbTaskReader_Fail(r, pb_no_memory, "no memory for variables");

  pbStatus status = pb_ok;
  for (size_t i = 0; status == pb_ok && i < count; i++) {
    // the path stays at the variable that failed, for the message
    pbTaskEntries e = {0};
    pbTaskReader_EnterAt(r, i);

    // counted first: what was read of it is freed with the task
    task->variable_count++;
    status = read_variable(r, json_array_get(list, i), task, &task->variables[i], &e);

    pbContext_Free(r->ctx, e.index);
    pbContext_Free(r->ctx, e.memory);
    if (status == pb_ok) pbTaskReader_Leave(r);
  }

  if (status == pb_ok) status = pbTask_ReadPriors(r, list, task);

  // formulas name any of the variables
  if (status == pb_ok) status = pbTask_ReadTies(r, list, task);
  if (status == pb_ok) status = pbTask_VaryTimestep(r, task);
  if (status == pb_ok) pbTaskReader_Leave(r);
  return status;
}
