// Trajectories of a task: how many steps, from where, under which controls.
// Tests: tests/unit/test_task.c, tests/unit/test_task_terms.c.
#include <math.h>
#include <string.h>

#include <pullback/trajectory.h>

#include "base/context.h"
#include "io/task/task_reader.h"
#include "io/task/task_windows.h"
#include "io/trajectory/recording.h"
#include "model/joint.h"
#include "model/model.h"
#include "model/sphere.h"

static const char *const trajectory_keys[] = {"steps", "duration", "init",    "controls", "mocap",  "loss",
                                              "role",  "window",   "cluster", "comment",  "states", NULL};
static const char *const init_keys[] = {"keyframe", "qpos", "qvel", "act",       "points", "point_velocity",
                                        "joints",   "file", "row",  "recording", NULL};
static const char *const moment_keys[] = {"file", "at", "time", NULL};
static const char *const joint_keys[] = {"qpos", "qvel", NULL};

// A trajectory's own value, else the one for all.
static const json_t *member(const json_t *own, const json_t *root, const char *key) {
  const json_t *value = json_object_get(own, key);
  return value ? value : json_object_get(root, key);
}

// ---- initial state --------------------------------------------------------------------------------------------------
static pbStateField state_field(const pbModel *m, const char *name) {
  for (int i = 0; i < pbModel_StateFieldCount(m); i++) {
    pbStateField f = pbModel_StateFieldAt(m, i);
    if (strcmp(f.name, name) == 0) return f;
  }
  return (pbStateField){name, 0, 0};
}

static pbStatus read_keyframe(pbTaskReader *r, const json_t *init, int *key) {
  const json_t *value = json_object_get(init, "keyframe");
  *key = -1;
  if (!value) return pb_ok;

  if (json_is_string(value)) {
    pbTaskReader_Enter(r, "keyframe");
    pbStatus status = pbTaskReader_Id(r, json_string_value(value), pb_objKeyframe, key);
    pbTaskReader_Leave(r);
    return status;
  }

  if (r->model->nkey == 0) return pbTaskReader_Fail(r, pb_bad_input, "the model has no keyframes");
  return pbTaskReader_Int(r, init, "keyframe", 0, r->model->nkey - 1, key);
}

static pbStatus copy_field(pbTaskReader *r, const pbArray *a, pbStateField f, int row, double *x0) {
  size_t width = (size_t)f.size, rows = a->count / width, at = rows ? rows - 1 : 0;
  if (row >= 0) at = (size_t)row;

  bool fits = a->count == rows * width && (a->ndim == 0 || a->shape[a->ndim - 1] == width || f.size == 1);
  if (!fits || at >= rows)
    return pbTaskReader_Fail(r, pb_bad_input, "array '%s' of the file: expected rows of %d numbers, row %zu among them", f.name,
                             f.size, at);

  memcpy(x0 + f.offset, a->reals + at * width, width * sizeof *x0);
  return pb_ok;
}

static pbStatus row_of_recording(pbTaskReader *r, const pbArrays *set, size_t row, double *x0) {
  size_t rows = pbRecording_Rows(set);
  if (row >= rows) return pbTaskReader_FailAt(r, "row", "%zu: the file has %zu rows", row, rows);
  pbStatus status = pbRecording_State(r->ctx, r->model, set, row, x0);
  return status == pb_ok ? pb_ok : pbTaskReader_FailAgain(r, status);
}

// What a CSV shows at a time.
static pbStatus read_moment(pbTaskReader *r, const json_t *moment, double *x0) {
  pbArrays *set;
  const char *time = NULL;
  double at = 0;
  PB_TRY(pbTaskReader_Keys(r, moment, moment_keys));
  PB_TRY(pbTaskReader_Real(r, moment, "at", &at));
  PB_TRY(pbTaskReader_Text(r, moment, "time", &time));
  PB_TRY(pbTaskReader_LoadRecording(r, moment, &set));

  pbStatus status = pb_ok;
  if (!pbRecording_Rows(set)) status = pbTaskReader_FailAt(r, "file", "only a CSV is read between its rows");
  else if ((status = pbRecording_StateAt(r->ctx, r->model, set, time, at, x0)) != pb_ok)
    status = pbTaskReader_FailAgain(r, status);
  pbArrays_Destroy(set);
  return status;
}

// The state from a file: the row that is asked for, else the last.
static pbStatus from_file(pbTaskReader *r, const json_t *init, double *x0) {
  pbArrays *set;
  int row = -1;
  PB_TRY(pbTaskReader_Int(r, init, "row", 0, 1 << 30, &row));
  PB_TRY(pbTaskReader_LoadRecording(r, init, &set));

  // columns of a CSV are numbers of the state, not fields
  pbStatus status = pb_ok;
  size_t rows = pbRecording_Rows(set);
  if (rows) {
    status = row_of_recording(r, set, row < 0 ? rows - 1 : (size_t)row, x0);
    pbArrays_Destroy(set);
    return status;
  }

  for (int i = 0; status == pb_ok && i < pbModel_StateFieldCount(r->model); i++) {
    pbStateField f = pbModel_StateFieldAt(r->model, i);
    const pbArray *a = pbArrays_Find(set, f.name);

    // fields that the file lacks keep what they have
    if (a && f.size > 0 && a->type == pb_arrayReal) status = copy_field(r, a, f, row, x0);
  }

  pbArrays_Destroy(set);
  return status;
}

static pbStatus joint_values(pbTaskReader *r, const json_t *joints, double *x0) {
  const pbModel *m = r->model;
  const char *name;
  json_t *value;
  if (!json_is_object(joints)) return pbTaskReader_Fail(r, pb_bad_input, "expected an object {joint: {qpos, qvel}}");

  json_object_foreach((json_t *)joints, name, value) {
    int j;
    pbTaskReader_Enter(r, name);
    PB_TRY(pbTaskReader_Id(r, name, pb_objJoint, &j));
    PB_TRY(pbTaskReader_Keys(r, value, joint_keys));

    int type = m->jnt_type[j];
    double *qpos = x0 + state_field(m, "qpos").offset + m->jnt_qposadr[j];
    double *qvel = x0 + state_field(m, "qvel").offset + m->jnt_dofadr[j];
    PB_TRY(pbTaskReader_Spread(r, value, "qpos", (size_t)pbJoint_PositionCount(type), qpos));
    PB_TRY(pbTaskReader_Spread(r, value, "qvel", (size_t)pbJoint_DofCount(type), qvel));
    pbTaskReader_Leave(r);
  }
  return pb_ok;
}

static pbStatus read_init(pbTaskReader *r, const json_t *init, double *x0, int *key) {
  // later ones replace what earlier ones give: keyframe, file, fields, joints, recording
  *key = -1;
  if (init) PB_TRY(pbTaskReader_Keys(r, init, init_keys));
  if (init) PB_TRY(read_keyframe(r, init, key));
  pbStatus status = pbState_Init(r->ctx, r->model, r->theta, *key, x0);
  if (status != pb_ok) return pbTaskReader_FailAgain(r, status);

  if (!init) return pb_ok;
  if (json_object_get(init, "file")) PB_TRY(from_file(r, init, x0));

  static const char *const fields[] = {"qpos", "qvel", "act", "points", "point_velocity"};
  for (int i = 0; i < 5; i++) {
    pbStateField f = state_field(r->model, fields[i]);
    PB_TRY(pbTaskReader_Spread(r, init, f.name, (size_t)f.size, x0 + f.offset));
  }

  const json_t *joints = json_object_get(init, "joints");
  if (joints) {
    pbTaskReader_Enter(r, "joints");
    PB_TRY(joint_values(r, joints, x0));
    pbTaskReader_Leave(r);
  }

  const json_t *moment = json_object_get(init, "recording");
  if (moment) {
    pbTaskReader_Enter(r, "recording");
    PB_TRY(read_moment(r, moment, x0));
    pbTaskReader_Leave(r);
  }
  return pbTask_NormalizeJoints(r, x0);
}

// ---- inputs ---------------------------------------------------------------------------------------------------------
// What a task may say of mocap bodies, and how many numbers a body has.
enum { of_velocities = 2, of_before, MOTIONS = 5 };
static const char *const pose_names[MOTIONS] = {"mocap_pos", "mocap_quat", "mocap_vel", "mocap_pos_before", "mocap_quat_before"};
static const int pose_widths[MOTIONS] = {3, 4, 6, 3, 4};

// ---- poses of mocap bodies ------------------------------------------------------------------------------------------
// One row for all steps, or one for each; what is absent keeps what it has.
static pbStatus spread_poses(pbTaskReader *r, const char *name, const pbTaskNumbers *given, size_t width, int steps, double *to) {
  size_t rows = steps > 0 ? (size_t)steps : 1, count = given->rows * given->cols;

  // nested lists count as one
  if (!given->data) return pb_ok;
  if (count != width && count != rows * width)
    return pbTaskReader_FailAt(
        r, name, "expected rows of %zu numbers, one for all steps or one for each of %d, found %zu numbers", width, steps, count);

  for (size_t k = 0; k < rows; k++) memcpy(to + k * width, given->data + (count == width ? 0 : k * width), width * sizeof *to);
  return pb_ok;
}

static pbStatus check_quaternions(pbTaskReader *r, const char *name, size_t count, size_t bodies, const double *quat) {
  // of any length that has a direction: steps normalize them
  for (size_t i = 0; i < count; i++) {
    double length = pbSphere_Length(quat + 4 * i, 4);
    if (length >= PB_SPHERE_SHORTEST && length <= PB_SPHERE_LONGEST) continue;
    return pbTaskReader_Fail(r, pb_bad_input,
                             "%s: row %zu, mocap body %zu: a quaternion of length %g, expected one of 1e-6 to 1e6", name,
                             i / bodies, i % bodies, length);
  }
  return pb_ok;
}

// (N, nmocap, width), or without N for all steps.
static pbStatus check_shape(pbTaskReader *r, const char *file, const pbArray *a, size_t width) {
  size_t n = (size_t)r->model->nmocap;
  char shape[200];
  if (a->type != pb_arrayReal) return pbTaskReader_FailAt(r, "file", "%s: '%s': expected numbers, found text", file, a->name);

  bool fits = a->ndim == 2 || (a->ndim == 3 && a->shape[0] > 0);
  if (fits && a->shape[a->ndim - 2] == n && a->shape[a->ndim - 1] == width) return pb_ok;
  return pbTaskReader_FailAt(r, "file", "%s: %s: shape %s; expected (N, %zu, %zu), or (%zu, %zu) for all steps", file, a->name,
                             pbArray_ShapeText(a->ndim, a->shape, shape, sizeof shape), n, width, n, width);
}

// A CSV by the names of its columns.
static pbStatus poses_of_columns(pbTaskReader *r, pbArrays **set) {
  pbArrays *poses = NULL;
  if (pbRecording_Rows(*set) == 0) return pb_ok;

  pbStatus status = pbRecording_Poses(r->ctx, r->model, *set, pbTaskReader_Timestep(r), &poses);
  if (status != pb_ok) status = pbTaskReader_FailAgain(r, status);
  pbArrays_Destroy(*set);
  *set = poses;
  return status;
}

// The arrays of a file, as numbers.
static pbStatus poses_of_file(pbTaskReader *r, const json_t *value, pbTaskNumbers numbers[MOTIONS]) {
  pbArrays *set;
  PB_TRY(pbTaskReader_LoadRecording(r, value, &set));
  PB_TRY(poses_of_columns(r, &set));

  // positions, quaternions, or both
  pbStatus status = pbTask_CheckThinned(r, value, set);
  for (int i = 0; i < MOTIONS && status == pb_ok; i++) {
    const pbArray *a = pbArrays_Find(set, pose_names[i]);
    if (!a) continue;
    status = check_shape(r, json_string_value(json_object_get(value, "file")), a, (size_t)pose_widths[i]);
    if (status != pb_ok) break;
    numbers[i] = (pbTaskNumbers){.data = pbContext_AllocArray(r->ctx, a->count + 1, sizeof(double)), .rows = 1, .cols = a->count};
    if (!numbers[i].data) status = pbTaskReader_Fail(r, pb_no_memory, "no memory for poses");
    else memcpy(numbers[i].data, a->reals, a->count * sizeof(double));
  }

  pbArrays_Destroy(set);
  bool any = false;
  for (int i = 0; i < MOTIONS; i++) any = any || numbers[i].data;
  if (status == pb_ok && !any)
    status = pbTaskReader_FailAt(r, "file",
                                 "%s: expected some of mocap_pos, mocap_quat, mocap_vel, mocap_pos_before and mocap_quat_before, "
                                 "found none",
                                 json_string_value(json_object_get(value, "file")));
  return status;
}

// {"file": ...}, or "mocap_pos" and "mocap_quat" as numbers.
static pbStatus read_poses(pbTaskReader *r, const json_t *value, pbTaskNumbers numbers[MOTIONS]) {
  static const char *const keys[] = {"file", "mocap_pos", "mocap_quat", "mocap_vel", "mocap_pos_before", "mocap_quat_before",
                                     NULL};
  if (!value) return pb_ok;
  if (!r->model->nmocap) return pbTaskReader_Fail(r, pb_bad_input, "the model has no mocap bodies");

  PB_TRY(pbTaskReader_Keys(r, value, keys));
  pbStatus status = json_object_get(value, "file") ? poses_of_file(r, value, numbers) : pb_ok;
  for (int i = 0; i < MOTIONS && status == pb_ok; i++) {
    const json_t *given = json_object_get(value, pose_names[i]);
    if (!given) continue;

    // numbers stand over those of a file
    pbContext_Free(r->ctx, numbers[i].data);
    numbers[i] = (pbTaskNumbers){0};
    pbTaskReader_Enter(r, pose_names[i]);
    status = pbTaskReader_Numbers(r, given, &numbers[i]);
    if (status == pb_ok) pbTaskReader_Leave(r);
  }
  return status;
}

// How many rows there are of what is given, where there are more than one.
static size_t pose_rows(const pbModel *m, const pbTaskNumbers numbers[MOTIONS]) {
  size_t n = (size_t)m->nmocap, rows = 1;
  for (int i = 0; i < of_before && rows == 1; i++) {
    size_t width = (size_t)pose_widths[i] * n;
    if (numbers[i].data && numbers[i].rows * numbers[i].cols > width) rows = numbers[i].rows * numbers[i].cols / width;
  }
  return rows;
}

// Velocities, where they are given, and the poses before the first row: what is given; of a path the keyframe's or the model's;
// else the row that holds for all steps.
static pbStatus fill_motion(pbTaskReader *r, const pbTaskNumbers numbers[MOTIONS], pbTask *task, int key, pbTrajectory *tr) {
  size_t n = (size_t)r->model->nmocap;
  pbPoses *p = &tr->poses;
  PB_TRY(pbPoses_GiveMotion(task, tr));
  pbModel_MocapPose(r->model, task->theta, key, p->before[0], p->before[1]);

  for (int i = 0; i < 2; i++) {
    const pbTaskNumbers *before = &numbers[of_before + i];
    size_t count = numbers[i].rows * numbers[i].cols, width = (size_t)pose_widths[i] * n;
    bool path = numbers[i].data && count > width;

    // a row that is alone has stood there for ever
    p->origin[i] = pb_fromFirstRow;
    if (path) p->origin[i] = key < 0 ? pb_fromModel : pb_fromGiven;
    if (!before->data) continue;

    // what the task says stands over both; beside velocities it would be ignored
    p->origin[i] = pb_fromGiven;
    if (numbers[of_velocities].data)
      return pbTaskReader_FailAt(
          r, pose_names[of_before + i],
          "found mocap_vel beside it: velocities that are given do not follow from poses; expected one of both");
    if (before->rows * before->cols != width)
      return pbTaskReader_FailAt(r, pose_names[of_before + i], "expected %zu numbers, found %zu", width,
                                 before->rows * before->cols);
    memcpy(p->before[i], before->data, width * sizeof(double));
  }

  // as those of the rows: any length that has a direction
  PB_TRY(check_quaternions(r, "mocap_quat_before", n, n, p->before[1]));

  const pbTaskNumbers *velocities = &numbers[of_velocities];
  if (velocities->data) return spread_poses(r, pose_names[of_velocities], velocities, 6 * n, tr->steps, p->vel);
  p->vel = NULL;
  return pb_ok;
}

// What the keyframe or the model has, and over it what is given.
static pbStatus fill_poses(pbTaskReader *r, const pbTaskNumbers numbers[MOTIONS], pbTask *task, int key, pbTrajectory *tr) {
  bool given = false;
  for (int i = 0; i < MOTIONS; i++) given = given || numbers[i].data;
  size_t n = (size_t)r->model->nmocap, rows = tr->steps > 0 ? (size_t)tr->steps : 1;
  if (key >= 0 || given) PB_TRY(pbPoses_Give(task, tr, key));
  if (!given) return pb_ok;

  PB_TRY(spread_poses(r, pose_names[0], &numbers[0], 3 * n, tr->steps, tr->poses.pos));
  PB_TRY(spread_poses(r, pose_names[1], &numbers[1], 4 * n, tr->steps, tr->poses.quat));
  PB_TRY(check_quaternions(r, "mocap_quat", rows * n, n, tr->poses.quat));
  return fill_motion(r, numbers, task, key, tr);
}

pbStatus pbTask_GivePoses(pbTaskReader *r, pbTask *task, pbTrajectory *tr, pbVariableKind kind) {
  PB_TRY(pbPoses_Give(task, tr, -1));
  if (kind == pb_varyMocapVel && !tr->poses.vel)
    return pbTaskReader_Fail(
        r, pb_bad_input,
        "velocities of mocap bodies follow from their poses where the task gives none: expected mocap_vel in \"mocap\"");
  if (kind != pb_varyMocapPosBefore && kind != pb_varyMocapRotBefore) return pb_ok;

  // they would be ignored
  if (tr->poses.vel)
    return pbTaskReader_Fail(r, pb_bad_input, "the task gives mocap_vel: such velocities do not follow from poses before");
  return pbPoses_GiveBefore(task, tr, kind == pb_varyMocapRotBefore);
}

// ---- a trajectory ---------------------------------------------------------------------------------------------------
enum { MOST_STEPS = 10000000, MOST_CONTROLS = 1 << 23, MOST_TRAJECTORIES = 1000 };

static pbStatus steps_of_duration(pbTaskReader *r, const json_t *object, int *steps) {
  double h = pbTaskReader_Timestep(r), seconds = 0;
  PB_TRY(pbTaskReader_Real(r, object, "duration", &seconds));

  double k = seconds / h;
  if (!(k > 0.5 && k <= MOST_STEPS) || fabs(k - floor(k + 0.5)) > 1e-5 * fmax(1, 1e-6 * k))
    return pbTaskReader_FailAt(r, "duration", "%.12g must be a positive multiple of the time step %.12g (at most %d steps)",
                               seconds, h, MOST_STEPS);
  *steps = (int)floor(k + 0.5);
  return pb_ok;
}

// "steps" or "duration", a trajectory's own before those for all; else as many as there are rows of controls or poses.
static pbStatus read_steps(pbTaskReader *r, const json_t *own, const json_t *root, size_t rows, int *steps) {
  const json_t *count = member(own, root, "steps"), *duration = member(own, root, "duration");
  bool own_steps = json_object_get(own, "steps"), own_duration = json_object_get(own, "duration");

  // its own duration rules over steps given for all
  if (own_duration) count = json_object_get(own, "steps");

  const json_t *given = own_steps || own_duration ? own : root;
  if (json_object_get(given, "steps") && json_object_get(given, "duration"))
    return pbTaskReader_Fail(r, pb_bad_input, "expected one of \"steps\" and \"duration\", found both");

  *steps = rows < MOST_STEPS ? (int)rows : MOST_STEPS;

  // one row serves any number of steps and says none
  if (rows <= 1) *steps = 0;
  if (count) PB_TRY(pbTaskReader_Int(r, own_steps ? own : root, "steps", 1, MOST_STEPS, steps));
  else if (duration) PB_TRY(steps_of_duration(r, own_duration ? own : root, steps));

  if (*steps == 0 && !r->run) return pbTaskReader_Fail(r, pb_bad_input, "\"steps\" or \"duration\" is missing");

  if ((double)*steps * pb_controls(r->model) > MOST_CONTROLS)
    return pbTaskReader_Fail(r, pb_capacity, "%d steps of %d controls are too many", *steps, pb_controls(r->model));
  return pb_ok;
}

// A part under its key, so that errors name the path to it.
static pbStatus read_part(pbTaskReader *r, const json_t *value, const char *key,
                          pbStatus (*read)(pbTaskReader *, const json_t *, void *), void *out) {
  pbTaskReader_Enter(r, key);
  PB_TRY(read(r, value, out));
  pbTaskReader_Leave(r);
  return pb_ok;
}

typedef struct Start {
  double *x0;
  int key;
} Start;

static pbStatus init_into(pbTaskReader *r, const json_t *value, void *out) {
  return read_init(r, value, ((Start *)out)->x0, &((Start *)out)->key);
}
static pbStatus controls_into(pbTaskReader *r, const json_t *value, void *out) { return pbTask_ReadControls(r, value, out); }
static pbStatus states_into(pbTaskReader *r, const json_t *value, void *out) { return pbTask_ReadStates(r, value, out); }
static pbStatus poses_into(pbTaskReader *r, const json_t *value, void *out) { return read_poses(r, value, out); }
static pbStatus loss_into(pbTaskReader *r, const json_t *value, void *out) { return pbTask_ReadLoss(r, value, out); }

// What acts along a trajectory, as it is read.
typedef struct Given {
  pbTaskControls controls;
  pbTaskNumbers poses[MOTIONS];  // positions, quaternions, ...; data NULL: not given
} Given;

// What is kept out of a search begins with none: its own would be ignored, those of all trajectories are the others'.
static pbStatus fill_states(pbTaskReader *r, const json_t *own, const json_t *root, pbTrajectory *tr) {
  const json_t *states = member(own, root, "states");
  if (!states || r->run) return pb_ok;
  if (!tr->test) return read_part(r, states, "states", states_into, tr);
  if (!json_object_get(own, "states")) return pb_ok;

  return pbTaskReader_FailAt(r, "states", "a trajectory of role \"test\" is none that a search begins with");
}

static pbStatus fill_trajectory(pbTaskReader *r, const json_t *own, const json_t *root, pbTask *task, Given *given,
                                pbTrajectory *tr) {
  pbContext *ctx = r->ctx;
  Start start = {pbContext_AllocArray(ctx, (size_t)pbModel_StateSize(r->model) + 1, sizeof(double)), -1};
  tr->x0 = start.x0;
  if (!tr->x0) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a state");

  // what acts before steps, of which there may be as many as rows
  PB_TRY(read_part(r, member(own, root, "init"), "init", init_into, &start));
  PB_TRY(read_part(r, member(own, root, "controls"), "controls", controls_into, &given->controls));
  PB_TRY(read_part(r, member(own, root, "mocap"), "mocap", poses_into, given->poses));
  size_t rows = given->controls.rows > 1 ? given->controls.rows : pose_rows(r->model, given->poses);
  PB_TRY(read_steps(r, own, root, rows, &tr->steps));

  tr->ctrl = pbContext_AllocArray(ctx, (size_t)tr->steps * (size_t)pb_controls(r->model) + 1, sizeof(double));
  if (!tr->ctrl) return pbTaskReader_Fail(r, pb_no_memory, "no memory for controls");
  pbTaskReader_Enter(r, "controls");
  PB_TRY(pbTask_SpreadControls(r, &given->controls, start.key, tr));
  if (json_object_get(member(own, root, "init"), "recording")) pbTask_LookBack(r, tr);
  pbTaskReader_Leave(r);
  pbTaskReader_Enter(r, "mocap");
  PB_TRY(fill_poses(r, given->poses, task, start.key, tr));
  pbTaskReader_Leave(r);

  PB_TRY(fill_states(r, own, root, tr));

  // a run has no loss
  pbTermSet_Begin(&tr->terms, ctx, r->model, tr->steps);
  if (r->run) return pb_ok;
  if (!member(own, root, "loss")) return pbTaskReader_Fail(r, pb_bad_input, "\"loss\" is missing");
  return read_part(r, member(own, root, "loss"), "loss", loss_into, &tr->terms);
}

static pbStatus read_trajectory(pbTaskReader *r, const json_t *own, const json_t *root, pbTask *task, pbTrajectory *tr) {
  Given given = {0};
  pbStatus status = fill_trajectory(r, own, root, task, &given, tr);
  pbTaskControls_Free(r->ctx, &given.controls);
  for (int i = 0; i < MOTIONS; i++) pbContext_Free(r->ctx, given.poses[i].data);
  return status;
}

static pbStatus read_role(pbTaskReader *r, const json_t *own, pbTrajectory *tr) {
  const char *role = "fit";
  PB_TRY(pbTaskReader_Text(r, own, "role", &role));
  tr->test = strcmp(role, "test") == 0;
  if (tr->test || strcmp(role, "fit") == 0) return pb_ok;
  return pbTaskReader_FailAt(r, "role", "expected \"fit\" or \"test\", found '%.60s'", role);
}

// All of a trajectory's windows, from number `first` on; those in which nothing was recorded are left out. w->count: those that
// stay.
static pbStatus read_windows(pbTaskReader *r, const json_t *own, const json_t *root, pbWindows *w, pbTask *task, int first) {
  int kept = 0;
  for (int k = 0; k < w->count; k++) {
    pbTrajectory *tr = &task->trajectories[first + kept];
    const json_t *piece = own;

    // who reads it leaves out terms that have no sample in it
    r->window = w->each > 0;
    if (w->each) PB_TRY(pbTask_CutWindow(r, own, root, w, k, &piece));
    if (piece) PB_TRY(read_role(r, piece, tr));
    PB_TRY(read_trajectory(r, piece, root, task, tr));

    if (w->each && !r->run && pbTermSet_Samples(&tr->terms) == 0) pbTask_DropTrajectory(task, tr);
    else kept++;
  }
  r->window = false;
  w->count = kept;
  return kept ? pb_ok : pbTaskReader_FailAt(r, "window", "nothing was recorded in any window");
}

// Trajectories have a cluster of their own, or that of the first which names the same; *named: some do.
static pbStatus read_cluster(pbTaskReader *r, const json_t *list, size_t t, const int *first, pbTask *task, int windows) {
  const json_t *name = json_object_get(json_array_get(list, t), "cluster");
  size_t same = t;
  if (name && !json_is_string(name) && !json_is_integer(name))
    return pbTaskReader_FailAt(r, "cluster", "expected a name or a whole number");
  if (name) task->clustered = true;

  // nothing is equal to no name
  for (size_t u = 0; u < t && same == t; u++) {
    const json_t *other = json_object_get(json_array_get(list, u), "cluster");
    if (other && json_equal(other, name)) same = u;
  }
  for (int k = 0; k < windows; k++) task->trajectories[first[t] + k].cluster = (int)same;
  return pb_ok;
}

static pbStatus read_list(pbTaskReader *r, const json_t *list, const json_t *root, pbTask *task, pbWindows *windows, int *first) {
  size_t count = list ? json_array_size(list) : 1;
  int next = 0;
  bool fitted = false;

  // windows that are left out make room
  for (size_t t = 0; t < count; t++) {
    const json_t *own = list ? json_array_get(list, t) : NULL;
    first[t] = next;
    if (list) pbTaskReader_EnterAt(r, t);
    PB_TRY(read_windows(r, own, root, &windows[t], task, first[t]));
    if (list) PB_TRY(read_cluster(r, list, t, first, task, windows[t].count));
    if (list) pbTaskReader_Leave(r);
    fitted = fitted || !task->trajectories[first[t]].test;
    next += windows[t].count;
  }
  task->trajectory_count = next;
  return fitted ? pb_ok : pbTaskReader_Fail(r, pb_bad_input, "every trajectory is a test: there is nothing to fit");
}

// How many windows each has, and all of them.
static pbStatus count_windows(pbTaskReader *r, const json_t *list, const json_t *root, pbWindows *windows, int *total) {
  size_t count = list ? json_array_size(list) : 1;
  for (size_t t = 0; t < count; t++) {
    const json_t *own = list ? json_array_get(list, t) : NULL;
    if (list) pbTaskReader_EnterAt(r, t);
    if (list) PB_TRY(pbTaskReader_Keys(r, own, trajectory_keys));

    // one, where it is not cut
    windows[t] = (pbWindows){.count = 1};
    if (member(own, root, "window")) {
      PB_TRY(read_steps(r, own, root, 0, &windows[t].steps));
      PB_TRY(pbTask_ReadWindow(r, own, root, &windows[t]));
    }
    *total += windows[t].count;
    if (*total > MOST_TRAJECTORIES)
      return pbTaskReader_Fail(r, pb_bad_input, "more than %d trajectories, with their windows", MOST_TRAJECTORIES);
    if (list) pbTaskReader_Leave(r);
  }
  return pb_ok;
}

static pbStatus read_all(pbTaskReader *r, const json_t *list, const json_t *root, pbTask *task, pbWindows *windows, int *first) {
  int count = 0;
  PB_TRY(count_windows(r, list, root, windows, &count));
  task->trajectories = pbContext_AllocArray(r->ctx, (size_t)count, sizeof *task->trajectories);
  if (!task->trajectories) return pbTaskReader_Fail(r, pb_no_memory, "no memory for trajectories");
  task->trajectory_count = count;

  // a trajectory that is never read is freed, too
  for (int t = 0; t < count; t++) task->trajectories[t].terms.ctx = r->ctx;
  return read_list(r, list, root, task, windows, first);
}

// Without a list the task itself is the only one.
pbStatus pbTask_ReadTrajectories(pbTaskReader *r, const json_t *root, pbTask *task) {
  const json_t *list = json_object_get(root, "trajectories");
  size_t count = list ? json_array_size(list) : 1;
  if (list) pbTaskReader_Enter(r, "trajectories");
  if (list && (!json_is_array(list) || count == 0 || count > MOST_TRAJECTORIES))
    return pbTaskReader_Fail(r, pb_bad_input, "expected a list of 1 to %d objects", MOST_TRAJECTORIES);

  pbWindows *windows = pbContext_AllocArray(r->ctx, count, sizeof *windows);
  int *first = pbContext_AllocArray(r->ctx, count, sizeof *first);
  pbStatus status = windows && first ? pb_ok : pbTaskReader_Fail(r, pb_no_memory, "no memory for trajectories");
  if (status == pb_ok) status = read_all(r, list, root, task, windows, first);
  pbContext_Free(r->ctx, windows);
  pbContext_Free(r->ctx, first);
  if (status == pb_ok && list) pbTaskReader_Leave(r);
  return status;
}
