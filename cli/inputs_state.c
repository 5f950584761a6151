// Initial states: keyframes, and the files of --init.
// Tests: tests/oracle/test_cli.py.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/policy.h>
#include <pullback/trajectory.h>

#include "inputs.h"

pbStatus cliRun_ReadKeyframe(const cliRun *run, int *keyframe) {
  const char *text = run->app->args.text[opt_keyframe];
  *keyframe = -1;
  if (!text) return pb_ok;

  // a number, else a name
  int count = pbModel_Size(run->model, "nkey");
  char *end = NULL;
  long number = strtol(text, &end, 10);
  *keyframe = *text && !*end && number >= 0 && number < count ? (int)number : pbModel_Id(run->model, pb_objKeyframe, text);
  if (*keyframe >= 0) return pb_ok;

  // the nearest name is a suggestion only
  const char *names[64];
  int named = 0;
  for (int i = 0; i < count && named < 64; i++) names[named++] = pbModel_Name(run->model, pb_objKeyframe, i);
  const char *near = pbName_Nearest(text, names, named);
  return pbContext_Fail(run->ctx, pb_bad_input, "--keyframe: the model has no keyframe '%.60s' (it has %d, counted from 0)%s%s%s",
                        text, count, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

// Names that a trajectory file holds beside state fields; an initial state ignores them.
static bool known_beside_state(const char *name) {
  static const char *const names[] = {"control",
                                      "sensordata",
                                      "meta",
                                      "qfrc",
                                      "xfrc",
                                      "command",
                                      "xpos",
                                      "site_xpos",
                                      "mocap_pos",
                                      "mocap_quat",
                                      "mocap_vel",
                                      "mocap_pos_before",
                                      "mocap_quat_before"};
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
                          "%s: expected an NPZ file with qpos, qvel, act, time, ..., found one array without a name", file);

  int fields = pbModel_StateFieldCount(run->model);
  for (int i = 0; i < fields && count < 32; i++) names[count++] = pbModel_StateFieldAt(run->model, i).name;
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

  // a trajectory of times alone
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
  if (!fits) {
    char text[200];
    return pbContext_Fail(run->ctx, pb_bad_input, "%s: '%s' %s; expected (%zu,), or (N, %zu) in a trajectory", file, field.name,
                          pbArray_What(a, text, sizeof text), width, width);
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
    if (type.integers[j] != pb_jntFree && type.integers[j] != pb_jntBall) continue;
    const double *q = run->x0 + qpos.offset + address.integers[j] + (type.integers[j] == pb_jntFree ? 3 : 0);
    if (q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3] > 1e-20) continue;
    return pbContext_Fail(run->ctx, pb_bad_input, "%s: the quaternion of joint %d ('%s') has length zero", file, j,
                          pbModel_Name(run->model, pb_objJoint, j));
  }
  return pb_ok;
}

// Steps since a policy's decision: a number that no run has would put the next decision off.
static pbStatus check_policy_count(const cliRun *run, const char *file) {
  pbPolicyInfo info;
  pbStateField field;
  if (!pbModel_PolicyInfo(run->model, &info) || !state_field(run->model, "policy_count", &field)) return pb_ok;

  double count = run->x0[field.offset];
  if (count >= 0 && count < info.every && count == floor(count)) return pb_ok;
  return pbContext_Fail(run->ctx, pb_bad_input,
                        "%s: policy_count is %g; expected a whole number from 0 to %d (decisions every %d)", file, count,
                        info.every - 1, info.every);
}

// A row of a CSV, the last by default.
static pbStatus apply_row(cliRun *run, const char *file, const pbArrays *set, size_t rows) {
  long row = 0;
  PB_TRY(cliArgs_Integer(run->app, opt_init_row, -(long)rows, (long)rows - 1, -1, &row));
  PB_TRY(pbRecording_State(run->ctx, run->model, set, (size_t)(row < 0 ? row + (long)rows : row), run->x0));
  return check_quaternions(run, file);
}

static pbStatus apply_init(cliRun *run, const char *file, const pbArrays *set) {
  size_t rows = pbRecording_Rows(set);
  if (rows) return apply_row(run, file, set, rows);

  PB_TRY(trajectory_rows(run, file, set, &rows));
  // which row: counted from the end if negative, the last by default
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

      // a time alone is no state
      used += strcmp(a->name, "time") != 0;
    } else if (!known_beside_state(a->name)) {
      return unknown_state_field(run, file, a->name);
    }
  }

  if (!used)
    return pbContext_Fail(run->ctx, pb_bad_input,
                          "%s: holds no state; expected at least one of qpos, qvel, act (points, point_velocity)", file);
  PB_TRY(check_quaternions(run, file));
  return check_policy_count(run, file);
}

pbStatus cliRun_ReadState(cliRun *run, int keyframe) {
  run->x0 = pbContext_Alloc(run->ctx, (size_t)run->nx * sizeof *run->x0);
  if (!run->x0) return cli_noMemory(run->ctx);

  // the model's or a keyframe's, else the task's; then what --init changes
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
