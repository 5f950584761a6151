// "states" of a trajectory: what a search begins with, and need not be a run: poses of an animation, an interpolation from here
// to there, what a planner or a measurement says. Tests: tests/unit/test_gaps.c.
#include <math.h>
#include <string.h>

#include <pullback/trajectory.h>
#include <pullback/world.h>

#include "base/context.h"
#include "io/task/task_reader.h"
#include "io/trajectory/recording.h"
#include "model/joint.h"
#include "model/model.h"
#include "step/scratch.h"

static const char *const states_keys[] = {"file", "time", "start", "every", "qpos", "qvel", "act", NULL};
static const char *const fields[] = {"qpos", "qvel", "act"};
enum { of_velocities = 1, FIELDS = 3 };

// Numbers of a field for each of the states 0 .. steps; NULL: not given.
typedef struct Rows {
  const double *data;
  pbStateField field;
} Rows;

typedef struct States {
  pbTrajectory *tr;
  double timestep, start;  // of steps; the file's clock where the trajectory begins
  const char *time;
  pbArrays *set;  // NULL: rows are in the task
  pbTaskNumbers numbers[FIELDS];
  Rows rows[FIELDS];
} States;

static pbStateField field_of(const pbModel *m, const char *name) {
  for (int i = 0; i < pbModel_StateFieldCount(m); i++) {
    pbStateField f = pbModel_StateFieldAt(m, i);
    if (strcmp(f.name, name) == 0) return f;
  }
  return (pbStateField){name, 0, 0};
}

pbStatus pbTask_NormalizeJoints(pbTaskReader *r, double *x0) {
  const pbModel *m = r->model;
  double *qpos = x0 + field_of(m, "qpos").offset;

  for (int j = 0; j < m->njnt; j++) {
    if (!pbJoint_HasRotation(m->jnt_type[j])) continue;

    // a free joint's quaternion comes behind its position
    double *q = qpos + m->jnt_qposadr[j] + pbJoint_PlainCount(m->jnt_type[j]), norm = 0;

    // shorter than any that somebody means: its direction may be rounding
    for (int i = 0; i < 4; i++) norm += q[i] * q[i];
    if (!(norm > 1e-20) || !isfinite(norm))
      return pbTaskReader_Fail(r, pb_bad_input, "the quaternion of joint '%s' is zero", pbModel_Name(m, pb_objJoint, j));

    // a unit quaternion keeps its bits
    if (norm == 1) continue;
    for (int i = 0; i < 4; i++) q[i] /= sqrt(norm);
  }
  return pb_ok;
}

// ---- which ------------------------------------------------------------------------------------------------------------
// Before every step, or one in so many: where windows begin. The initial state is given by itself, and the last one is followed
// by no step.
static pbStatus place_states(pbTaskReader *r, const json_t *value, States *s) {
  pbTrajectory *tr = s->tr;
  double seconds = s->timestep;
  PB_TRY(pbTaskReader_Real(r, value, "every", &seconds));
  if (!(seconds > 0)) return pbTaskReader_FailAt(r, "every", "expected seconds above 0, found %.9g", seconds);

  int each = (int)fmin(fmax(ceil(seconds / s->timestep - 1e-9), 1), tr->steps), count = (tr->steps - 1) / each;
  tr->given.step = pbContext_AllocArray(r->ctx, (size_t)count + 1, sizeof *tr->given.step);
  tr->given.x = pbContext_AllocArray(r->ctx, ((size_t)count + 1) * (size_t)pbModel_StateSize(r->model), sizeof(double));
  if (!tr->given.step || !tr->given.x) return pbTaskReader_Fail(r, pb_no_memory, "no memory for states");

  tr->given.count = count;
  for (int i = 0; i < count; i++) tr->given.step[i] = (i + 1) * each;
  return pb_ok;
}

// ---- rows of fields -----------------------------------------------------------------------------------------------------
static pbStatus check_rows(pbTaskReader *r, const States *s, int i, size_t rows, size_t width) {
  const pbStateField *f = &s->rows[i].field;
  size_t states = (size_t)s->tr->steps + 1;
  if (f->size > 0 && rows == states && width == (size_t)f->size) return pb_ok;
  return pbTaskReader_FailAt(r, fields[i], "expected a row for each of the states 0 .. %d of %d numbers, found %zu of %zu",
                             s->tr->steps, f->size, rows, width);
}

static pbStatus rows_of_array(pbTaskReader *r, States *s, int i) {
  const pbArray *a = pbArrays_Find(s->set, fields[i]);
  if (!a || s->rows[i].field.size == 0) return pb_ok;
  if (a->type != pb_arrayReal || a->ndim == 0) return pbTaskReader_FailAt(r, fields[i], "expected rows of numbers");

  // of a state of one number the file may have a list
  size_t rows = a->shape[0];
  PB_TRY(check_rows(r, s, i, rows, rows ? a->count / rows : 0));
  s->rows[i].data = a->reals;
  return pb_ok;
}

static pbStatus rows_of_task(pbTaskReader *r, const json_t *value, States *s, int i) {
  const json_t *given = json_object_get(value, fields[i]);
  pbTaskNumbers *n = &s->numbers[i];
  if (!given) return pb_ok;

  pbTaskReader_Enter(r, fields[i]);
  PB_TRY(pbTaskReader_Numbers(r, given, n));
  pbTaskReader_Leave(r);

  // of one number a state a list is enough
  bool list = !n->nested && s->rows[i].field.size == 1;
  PB_TRY(check_rows(r, s, i, list ? n->cols : n->rows, list ? 1 : n->cols));
  s->rows[i].data = n->data;
  return pb_ok;
}

static void put_row(const Rows *rows, int k, double *x) {
  size_t size = (size_t)rows->field.size;
  if (rows->data) memcpy(x + rows->field.offset, rows->data + (size_t)k * size, size * sizeof *x);
}

// Velocities that are not given are those by which positions go on to the next row.
static pbStatus put_slope(pbTaskReader *r, const States *s, int k, double *x) {
  const pbModel *m = r->model;
  size_t nx = (size_t)pbModel_StateSize(m), n = (size_t)pbModel_TangentSize(m);
  double *next = pbContext_AllocArray(r->ctx, nx + n, sizeof *next), *by = next + nx;
  if (!next) return pbTaskReader_Fail(r, pb_no_memory, "no memory for states");

  // the last state has none, and is not asked for
  memcpy(next, x, nx * sizeof *next);
  put_row(&s->rows[0], k + 1, next);
  pbStatus status = pbTask_NormalizeJoints(r, next);
  if (status == pb_ok) {
    pbState_Difference(m, x, next, by);
    for (int i = 0; i < m->nv; i++) x[s->rows[of_velocities].field.offset + i] = by[i] / s->timestep;
  }
  pbContext_Free(r->ctx, next);
  return status;
}

static pbStatus state_of_rows(pbTaskReader *r, const States *s, int k, double *x) {
  for (int i = 0; i < FIELDS; i++) put_row(&s->rows[i], k, x);
  PB_TRY(pbTask_NormalizeJoints(r, x));
  bool slope = s->rows[0].data && !s->rows[of_velocities].data;
  return slope ? put_slope(r, s, k, x) : pb_ok;
}

// ---- states -------------------------------------------------------------------------------------------------------------
// What is not given is as at the beginning.
static pbStatus read_state(pbTaskReader *r, const States *s, int i) {
  const pbTrajectory *tr = s->tr;
  size_t nx = (size_t)pbModel_StateSize(r->model);
  int k = tr->given.step[i];
  double *x = tr->given.x + (size_t)i * nx;
  char text[400];

  // what neither rows nor columns have stays
  memcpy(x, tr->x0, nx * sizeof *x);
  if (!s->set || !pbRecording_Rows(s->set)) PB_TRY(state_of_rows(r, s, k, x));
  else {
    pbStatus status = pbRecording_StateAt(r->ctx, r->model, s->set, s->time, s->start + k * s->timestep, x);
    if (status != pb_ok) return pbTaskReader_FailAgain(r, status);
    PB_TRY(pbTask_NormalizeJoints(r, x));
  }

  return pbState_Readable(r->model, x, text, sizeof text) ? pb_ok : pbTaskReader_Fail(r, pb_bad_input, "state %d: %s", k, text);
}

static pbStatus refuse_both(pbTaskReader *r, const json_t *value) {
  for (int i = 0; i < FIELDS; i++) {
    if (json_object_get(value, fields[i])) return pbTaskReader_FailAt(r, fields[i], "expected rows or a file, found both");
  }
  return pb_ok;
}

static pbStatus read_rows(pbTaskReader *r, const json_t *value, States *s) {
  bool any = false;
  for (int i = 0; i < FIELDS; i++) {
    s->rows[i].field = field_of(r->model, fields[i]);
    PB_TRY(s->set ? rows_of_array(r, s, i) : rows_of_task(r, value, s, i));
    any |= s->rows[i].data != NULL;
  }
  return any ? pb_ok
             : pbTaskReader_Fail(r, pb_bad_input, "expected states: a \"file\", or rows of qpos, qvel or act; found none");
}

// Beyond a file's rows there would be one pose for all times.
static pbStatus check_cover(pbTaskReader *r, const States *s) {
  double seconds = s->tr->steps * s->timestep;
  pbStatus status = pbRecording_CheckSpan(r->ctx, s->set, s->time, s->timestep, s->start, s->start + seconds);
  return status == pb_ok ? pb_ok : pbTaskReader_FailAgain(r, status);
}

static pbStatus read_states(pbTaskReader *r, const json_t *value, States *s) {
  const json_t *file = json_object_get(value, "file");

  // a CSV has its own times, and is read where steps begin
  if (file) PB_TRY(refuse_both(r, value));
  if (file) PB_TRY(pbTaskReader_LoadRecording(r, value, &s->set));
  bool timed = s->set && pbRecording_Rows(s->set);
  if (!timed && (json_object_get(value, "time") || json_object_get(value, "start")))
    return pbTaskReader_FailAt(r, json_object_get(value, "time") ? "time" : "start",
                               "only a CSV has times: rows of arrays are those of the states");

  PB_TRY(pbTaskReader_Text(r, value, "time", &s->time));
  PB_TRY(pbTaskReader_Real(r, value, "start", &s->start));
  if (!timed) PB_TRY(read_rows(r, value, s));
  PB_TRY(place_states(r, value, s));
  if (timed && s->tr->given.count) PB_TRY(check_cover(r, s));
  for (int i = 0; i < s->tr->given.count; i++) PB_TRY(read_state(r, s, i));

  return pb_ok;
}

pbStatus pbTask_ReadStates(pbTaskReader *r, const json_t *value, pbTrajectory *tr) {
  PB_TRY(pbTaskReader_Keys(r, value, states_keys));

  // stages after the first begin at an answer, and may be of another length
  if (r->laid && r->laid_at > 0) return pb_ok;
  States s = {.tr = tr, .timestep = pbTaskReader_Timestep(r)};
  pbStatus status = read_states(r, value, &s);

  // also where it failed
  for (int i = 0; i < FIELDS; i++) pbContext_Free(r->ctx, s.numbers[i].data);
  pbArrays_Destroy(s.set);
  return status;
}
