// What a CSV says of a run: its controls, the state it starts from, the poses of mocap bodies.
// Tests: tests/unit/test_columns.c, tests/oracle/test_csv.py.
#include "io/trajectory/recording.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "io/trajectory/columns.h"
#include "model/joint.h"
#include "model/model.h"

enum { MOST_STEPS = 10000000, PLACE = PB_COLUMN_NAME + 400 };

size_t pbRecording_Rows(const pbArrays *set) {
  const pbCsv *csv = pbArrays_Csv(set);
  return csv ? csv->rows : 0;
}

static pbStatus missing_sample(pbContext *ctx, const pbArrays *set, const pbArray *column, size_t row, const char *why) {
  char place[PLACE];
  return pbContext_Fail(ctx, pb_bad_input, "%s: a missing sample; %s", pbArrays_Place(set, column, row, place, sizeof place),
                        why);
}

// ---- controls ---------------------------------------------------------------------------------------------------------
static pbStatus find_control(pbContext *ctx, const pbModel *m, const pbArrays *set, const pbControlTiming *timing, int control,
                             const pbArray **column) {
  pbColumn wanted = pbColumn_Of(m, pb_columnControl, control);
  char list[600];

  if (timing->columns) {
    *column = pbArrays_Find(set, timing->columns[control]);
    if (*column) return pb_ok;
    return pbContext_Fail(ctx, pb_bad_input, "%s: has no column '%.80s'; its columns are %s", pbArrays_Csv(set)->file,
                          timing->columns[control], pbColumn_List(set, list, sizeof list));
  }

  // what is read are controls: a name needs no word in front
  PB_TRY(pbColumn_Find(ctx, m, set, &wanted, true, column));
  return *column ? pb_ok : pbColumn_Missing(ctx, set, &wanted, true);
}

// Samples that are there, with their times; rows without a time are a step each.
static pbStatus fill_series(pbContext *ctx, const pbArrays *set, const pbArray *column, const pbArray *time,
                            const pbControlTiming *timing, pbSeries *series) {
  size_t there = 0;

  for (size_t k = 0; k < column->count; k++) {
    bool missing = isnan(column->reals[k]);
    there += !missing;
    if (missing && !time) return missing_sample(ctx, set, column, k, "controls without times have one in each row");
  }
  if (there == 0) return missing_sample(ctx, set, column, 0, "the column has none at all");

  // in their order
  PB_TRY(pbSeries_Allocate(ctx, series, there));
  for (size_t k = 0, at = 0; k < column->count; k++) {
    if (isnan(column->reals[k])) continue;
    series->time[at] = time ? time->reals[k] - timing->start : (double)k * timing->timestep;
    series->value[at++] = column->reals[k];
  }

  pbSeries_Snap(series, timing->timestep);
  return pb_ok;
}

// The last step that begins at or before the last row.
static pbStatus count_steps(pbContext *ctx, const pbArrays *set, const pbArray *time, const pbControlTiming *timing, int *steps) {
  size_t rows = pbArrays_Csv(set)->rows;
  double last = time ? (time->reals[rows - 1] - timing->start) / timing->timestep : (double)(rows - 1);
  double whole = floor(last + 1e-5 * (1 + 1e-6 * fabs(last)));
  char place[PLACE];
  *steps = 1;

  // one row holds throughout
  if (rows == 1) return pb_ok;
  if (whole < 0 || whole >= MOST_STEPS)
    return pbContext_Fail(ctx, pb_bad_input, "%s: ends at %.12g s, which is no time of a run in steps of %.12g s",
                          time ? pbArrays_Place(set, time, rows - 1, place, sizeof place) : pbArrays_Csv(set)->file,
                          last * timing->timestep, timing->timestep);
  *steps = (int)whole + 1;
  return pb_ok;
}

pbStatus pbRecording_Read(pbContext *ctx, const pbModel *m, const pbArrays *set, const pbControlTiming *timing,
                          pbRecorded **recorded, int *steps) {
  int width = pb_controls(m);
  const pbArray *time;
  pbRecorded *r = NULL;
  PB_ASSERT(pbArrays_Csv(set) && timing->timestep > 0);
  if (width == 0) return pbContext_Fail(ctx, pb_bad_input, "%s: the model has no controls", pbArrays_Csv(set)->file);

  PB_TRY(pbColumn_Time(ctx, set, timing->time, &time));
  PB_TRY(count_steps(ctx, set, time, timing, steps));
  PB_TRY(pbRecorded_Create(ctx, width, timing->timestep, &r));
  r->linear = timing->linear;
  r->timed = time != NULL;

  // each control for itself: columns may have samples at other times
  pbStatus status = pb_ok;
  for (int i = 0; i < width && status == pb_ok; i++) {
    const pbArray *column;
    status = find_control(ctx, m, set, timing, i, &column);
    if (status == pb_ok) status = fill_series(ctx, set, column, time, timing, &r->series[i]);
  }

  if (status == pb_ok) *recorded = r;
  else pbRecorded_Destroy(ctx, r);
  return status;
}

pbStatus pbRecording_CheckCover(pbContext *ctx, const char *file, const pbRecorded *r, const pbControlTiming *timing, int steps) {
  double end = (steps - 1) * timing->timestep - timing->delay;

  for (int i = 0; i < r->width; i++) {
    const pbSeries *s = &r->series[i];
    double gap = timing->timestep, last = s->time[s->count - 1];

    // as sparse as it is, so much is missing at its ends
    for (size_t k = 1; k < s->count; k++) gap = fmax(gap, s->time[k] - s->time[k - 1]);

    // one value holds throughout
    if (s->count == 1) continue;
    if (s->time[0] > gap * (1 + 1e-9))
      return pbContext_Fail(ctx, pb_bad_input,
                            "%s: the controls begin at %.12g s, the trajectory at 0 (\"start\" says when it does)", file,
                            s->time[0]);

    if (last >= end - gap * (1 + 1e-9)) continue;
    return pbContext_Fail(ctx, pb_bad_input, "%s: the controls end at %.12g s; the trajectory has %d steps, to %.12g s", file,
                          last, steps, steps * timing->timestep);
  }
  return pb_ok;
}

pbStatus pbRecording_Controls(pbContext *ctx, const pbModel *model, const pbArrays *set, double timestep, long steps,
                              pbArrays **controls) {
  pbControlTiming timing = {.timestep = timestep};
  PB_ASSERT(pbRecording_Rows(set) > 0);
  const char *file = pbArrays_Csv(set)->file;
  pbRecorded *recorded = NULL;
  pbArrays *out = NULL;
  double *rows = NULL;
  int covered = 0;
  size_t shape[2] = {0, (size_t)pb_controls(model)};
  PB_TRY(pbRecording_Read(ctx, model, set, &timing, &recorded, &covered));

  // one row alone stays one
  bool one = covered == 1 && pbArrays_Csv(set)->rows == 1;
  int count = steps > 0 && steps < INT_MAX && recorded->timed && !one ? (int)steps : covered;
  shape[0] = (size_t)count;
  pbStatus status = pbRecording_CheckCover(ctx, file, recorded, &timing, count);
  if (status == pb_ok) status = pbArrays_Create(ctx, &out);
  if (status == pb_ok)
    status = one ? pbArrays_AddReals(out, "control", 1, &shape[1], NULL, &rows)
                 : pbArrays_AddReals(out, "control", 2, shape, NULL, &rows);
  if (status == pb_ok) pbRecorded_Controls(recorded, 0, count, rows);

  pbRecorded_Destroy(ctx, recorded);
  if (status != pb_ok) {
    pbArrays_Destroy(out);
    return status;
  }
  *controls = out;
  return pb_ok;
}

// ---- states -----------------------------------------------------------------------------------------------------------
// Fields of a state that may have columns.
static const struct {
  const char *name;
  pbRecordedKind kind;
} state_fields[] = {{"qpos", pb_columnQpos},
                    {"qvel", pb_columnQvel},
                    {"act", pb_columnAct},
                    {"points", pb_columnPoints},
                    {"point_velocity", pb_columnPointVelocity}};
enum { STATE_FIELDS = sizeof state_fields / sizeof *state_fields };

static pbStateField field_of(const pbModel *m, const char *name) {
  for (int i = 0; i < pbModel_StateFieldCount(m); i++) {
    pbStateField f = pbModel_StateFieldAt(m, i);
    if (strcmp(f.name, name) == 0) return f;
  }
  return (pbStateField){0};
}

// The column of each number of a field, as far as there are any: of a quaternion all or none.
static pbStatus find_field(pbContext *ctx, const pbModel *m, const pbArrays *set, pbRecordedKind kind, const pbArray **columns,
                           int *found) {
  pbColumn last = {0};
  int count = pbColumn_Count(m, kind);

  for (int i = 0; i < count; i++) {
    pbColumn c = pbColumn_Of(m, kind, i);
    PB_TRY(pbColumn_Find(ctx, m, set, &c, false, &columns[i]));

    bool turns = kind == pb_columnQpos && c.count >= 4 && c.index > c.count - 4;
    if (turns && !columns[i] != !columns[i - 1]) return pbColumn_Missing(ctx, set, columns[i] ? &last : &c, false);
    last = c;
    *found += columns[i] != NULL;
  }
  return pb_ok;
}

// A log of another robot has nothing of any field.
static pbStatus no_state(pbContext *ctx, const pbArrays *set) {
  char list[600];
  return pbContext_Fail(
      ctx, pb_bad_input,
      "%s: no column is a position, velocity or activation of this model (docs/csv.md says how they are called); "
      "its columns are %s",
      pbArrays_Csv(set)->file, pbColumn_List(set, list, sizeof list));
}

// What is done with the columns of a field, numbers of which begin in a state at f.offset.
typedef struct Taking {
  pbContext *ctx;
  const pbModel *model;
  const pbArrays *set;
  const pbArray **columns;
  size_t row;          // of a state,
  const double *time;  // or a moment between rows of these times; NULL: a row,
  double at;
  double *x;         // which goes there;
  pbArrays *out;     // or of all rows, to arrays
  const double *x0;  // and what has no column, or no sample so far; NULL: both are NaN
} Taking;

static pbStatus take_row(const Taking *t, pbStateField f) {
  for (int i = 0; i < f.size; i++) {
    const pbArray *column = t->columns[i];
    if (!column) continue;
    if (isnan(column->reals[t->row])) return missing_sample(t->ctx, t->set, column, t->row, "a state has all of its numbers");
    t->x[f.offset + i] = column->reals[t->row];
  }
  return pb_ok;
}

// Rows before and after the moment that have `count` samples (a number's, or a quaternion's four); beyond the first or last twice
// the nearest one. false: there is none.
static bool rows_around(const Taking *t, const pbArray *const *columns, int count, size_t *before, size_t *after) {
  size_t rows = pbRecording_Rows(t->set);
  *before = *after = rows;

  for (size_t k = 0; k < rows; k++) {
    bool there = true;
    for (int i = 0; i < count; i++) there = there && !isnan(columns[i]->reals[k]);
    if (!there) continue;
    if (t->time[k] <= t->at) *before = k;
    if (t->time[k] <= t->at) continue;

    // the first that is later
    *after = k;
    break;
  }

  if (*before == rows) *before = *after;
  if (*after == rows) *after = *before;
  return *before < rows;
}

// On the lines between the rows around the moment. q and -q are one rotation.
static void take_moment(const Taking *t, pbStateField f, bool positions) {
  for (int i = 0, count = 1; i < f.size; i += count) {
    const pbArray *const *c = t->columns + i;
    pbColumn number = positions ? pbColumn_Of(t->model, pb_columnQpos, i) : (pbColumn){.count = 1};
    count = number.count >= 4 && number.index == number.count - 4 ? 4 : 1;
    if (!c[0]) continue;

    size_t a, b;
    if (!rows_around(t, c, count, &a, &b)) continue;  // a sensor that was dead says nothing
    double share = b > a ? (t->at - t->time[a]) / (t->time[b] - t->time[a]) : 0, product = 0;
    for (int k = 0; k < count; k++) product += c[k]->reals[a] * c[k]->reals[b];
    double far = count > 1 && product < 0 ? -share : share;
    for (int k = 0; k < count; k++) t->x[f.offset + i + k] = (1 - share) * c[k]->reals[a] + far * c[k]->reals[b];
  }
}

static pbStatus take_rows(const Taking *t, pbStateField f) {
  double *out = NULL;
  size_t rows = pbRecording_Rows(t->set), size = (size_t)f.size;
  PB_TRY(pbArrays_AddReals(t->out, f.name, 2, (size_t[]){rows, size}, NULL, &out));

  // a sample that is missing is the one before it
  for (size_t i = 0; i < size; i++) {
    double value = t->x0 ? t->x0[(size_t)f.offset + i] : NAN;
    for (size_t k = 0; k < rows; k++) {
      bool seen = t->columns[i] && !(t->x0 && isnan(t->columns[i]->reals[k]));
      if (seen) value = t->columns[i]->reals[k];
      out[k * size + i] = value;
    }
  }
  return pb_ok;
}

// One field after the other; *taken: numbers that have columns.
static pbStatus take_field(const Taking *t, size_t which, int *taken) {
  pbStateField f = field_of(t->model, state_fields[which].name);
  int found = 0;
  if (f.size == 0) return pb_ok;

  memset(t->columns, 0, (size_t)f.size * sizeof *t->columns);
  PB_TRY(find_field(t->ctx, t->model, t->set, state_fields[which].kind, t->columns, &found));
  *taken += found;

  // positions are there in each trajectory
  if (t->time) {
    take_moment(t, f, which == 0);
    return pb_ok;
  }
  if (!t->out) return take_row(t, f);
  return found || which == 0 ? take_rows(t, f) : pb_ok;
}

static pbStatus take_fields(Taking *t) {
  int taken = 0;
  t->columns = pbContext_AllocArray(t->ctx, (size_t)pbModel_StateSize(t->model) + 1, sizeof *t->columns);
  if (!t->columns) return pbContext_Fail(t->ctx, pb_no_memory, "no memory for a recording");

  pbStatus status = pb_ok;
  for (size_t k = 0; status == pb_ok && k < STATE_FIELDS; k++) status = take_field(t, k, &taken);
  pbContext_Free(t->ctx, t->columns);
  return status == pb_ok && !taken ? no_state(t->ctx, t->set) : status;
}

pbStatus pbRecording_State(pbContext *ctx, const pbModel *model, const pbArrays *set, size_t row, double *x) {
  size_t bytes = (size_t)pbModel_StateSize(model) * sizeof *x;
  const pbArray *time;
  PB_ASSERT(row < pbRecording_Rows(set));
  PB_TRY(pbColumn_Time(ctx, set, NULL, &time));

  // what fails leaves x as it is
  Taking t = {.ctx = ctx, .model = model, .set = set, .row = row, .x = pbContext_Alloc(ctx, bytes)};
  if (!t.x) return pbContext_Fail(ctx, pb_no_memory, "no memory for a state");
  memcpy(t.x, x, bytes);

  pbStatus status = take_fields(&t);
  if (status == pb_ok && time) t.x[field_of(model, "time").offset] = time->reals[row];
  if (status == pb_ok) memcpy(x, t.x, bytes);
  pbContext_Free(ctx, t.x);
  return status;
}

// ---- between rows -------------------------------------------------------------------------------------------------------
static bool any_column(const pbArray *const *columns, int count) {
  bool any = false;
  for (int i = 0; i < count; i++) any = any || columns[i];
  return any;
}

// Velocities that have no column follow from positions that have: over so many rows to either side, as far as there are any.
static const double rows_of_a_slope = 1.5;

// States at both ends, and the columns of positions and velocities behind one another.
static pbStatus take_ends(Taking *t, const double *x, double from, double to, double *ends, const pbArray **columns) {
  size_t size = (size_t)pbModel_StateSize(t->model);
  int found = 0;
  for (int k = 0; k < 2; k++) {
    t->x = ends + (size_t)k * size;
    t->at = k ? to : from;
    memcpy(t->x, x, size * sizeof *x);
    PB_TRY(take_fields(t));
  }

  PB_TRY(find_field(t->ctx, t->model, t->set, pb_columnQpos, columns, &found));
  return find_field(t->ctx, t->model, t->set, pb_columnQvel, columns + size, &found);
}

// Of joints whose positions have columns and whose velocities have none.
static void fill_slopes(const pbModel *m, const double *moved, double seconds, const pbArray *const *columns, double *x) {
  size_t size = (size_t)pbModel_StateSize(m);
  double *velocity = x + field_of(m, "qvel").offset;
  PB_ASSERT(seconds > 0);

  for (int j = 0; j < m->njnt; j++) {
    int type = m->jnt_type[j], dof = m->jnt_dofadr[j], count = pbJoint_DofCount(type);
    if (!any_column(columns + m->jnt_qposadr[j], pbJoint_PositionCount(type))) continue;
    if (any_column(columns + size + dof, count)) continue;

    // rotations by their tangent
    for (int i = dof; i < dof + count; i++) velocity[i] = moved[i] / seconds;
  }
}

static pbStatus take_slopes(const Taking *t, const double *x) {
  size_t rows = pbRecording_Rows(t->set), size = (size_t)pbModel_StateSize(t->model);
  double first = t->time[0], last = t->time[rows - 1], wide = 0;
  if (rows > 1) wide = rows_of_a_slope * (last - first) / (double)(rows - 1);

  // one sample, or a time far from all of them, has none
  double from = fmax(t->at - wide, first), to = fmin(t->at + wide, last);
  if (!(to > from)) return pb_ok;

  // both ends, and the way between them
  Taking other = *t;
  double *ends = pbContext_AllocArray(t->ctx, 3 * size, sizeof *ends);
  const pbArray **columns = pbContext_AllocArray(t->ctx, 2 * size, sizeof *columns);
  pbStatus status = ends && columns ? pb_ok : pbContext_Fail(t->ctx, pb_no_memory, "no memory for a state");
  if (status == pb_ok) status = take_ends(&other, x, from, to, ends, columns);
  if (status == pb_ok) {
    pbState_Difference(t->model, ends, ends + size, ends + 2 * size);
    fill_slopes(t->model, ends + 2 * size, to - from, columns, t->x);
  }

  pbContext_Free(t->ctx, ends);
  pbContext_Free(t->ctx, columns);
  return status;
}

static pbStatus no_times(pbContext *ctx, const pbArrays *set) {
  return pbContext_Fail(ctx, pb_bad_input, "%s: has no column of times; between rows is read by their times",
                        pbArrays_Csv(set)->file);
}

pbStatus pbRecording_StateAt(pbContext *ctx, const pbModel *model, const pbArrays *set, const char *time_name, double at,
                             double *x) {
  size_t bytes = (size_t)pbModel_StateSize(model) * sizeof *x;
  const pbArray *time;
  PB_ASSERT(pbRecording_Rows(set) > 0);
  PB_TRY(pbColumn_Time(ctx, set, time_name, &time));
  if (!time) return no_times(ctx, set);

  // what fails leaves x as it is
  Taking t = {.ctx = ctx, .model = model, .set = set, .time = time->reals, .at = at, .x = pbContext_Alloc(ctx, bytes)};
  if (!t.x) return pbContext_Fail(ctx, pb_no_memory, "no memory for a state");
  memcpy(t.x, x, bytes);

  pbStatus status = take_fields(&t);
  if (status == pb_ok) status = take_slopes(&t, x);
  if (status == pb_ok) memcpy(x, t.x, bytes);
  pbContext_Free(ctx, t.x);
  return status;
}

pbStatus pbRecording_CheckSpan(pbContext *ctx, const pbArrays *set, const char *time_name, double timestep, double from,
                               double to) {
  size_t rows = pbRecording_Rows(set);
  const pbArray *time;
  PB_ASSERT(rows > 0 && timestep > 0 && from < to);
  PB_TRY(pbColumn_Time(ctx, set, time_name, &time));
  if (!time) return no_times(ctx, set);

  // a log of n rows lasts as long as n of their distances
  double first = time->reals[0], last = time->reals[rows - 1], apart = rows > 1 ? (last - first) / (double)(rows - 1) : 0;
  double slack = fmax(fmin(apart, (to - from) / 10), timestep) * (1 + 1e-9);
  if (first <= from + slack && last >= to - timestep - slack) return pb_ok;

  return pbContext_Fail(ctx, pb_bad_input,
                        "%s: its rows are from %.12g s to %.12g s; the trajectory is from %.12g s to %.12g s by its clock "
                        "(\"start\" says when it begins)",
                        pbArrays_Csv(set)->file, first, last, from, to);
}

static pbStatus take_trajectory(Taking *t, double timestep) {
  const pbArray *time;
  double *out = NULL;
  size_t rows = pbRecording_Rows(t->set);
  PB_TRY(pbColumn_Time(t->ctx, t->set, NULL, &time));
  if (!time && !t->x0) return no_times(t->ctx, t->set);
  PB_TRY(pbArrays_AddReals(t->out, "time", 1, &rows, NULL, &out));

  // rows without times are steps
  for (size_t k = 0; k < rows; k++) out[k] = time ? time->reals[k] : (double)k * timestep;
  return take_fields(t);
}

pbStatus pbRecording_Trajectory(pbContext *ctx, const pbModel *model, const pbArrays *set, double timestep, const double *x0,
                                pbArrays **trajectory) {
  Taking t = {.ctx = ctx, .model = model, .set = set, .x0 = x0};
  PB_ASSERT(pbRecording_Rows(set) > 0);
  PB_TRY(pbArrays_Create(ctx, &t.out));

  pbStatus status = take_trajectory(&t, timestep);
  if (status != pb_ok) {
    pbArrays_Destroy(t.out);
    return status;
  }
  *trajectory = t.out;
  return pb_ok;
}

// ---- poses of mocap bodies --------------------------------------------------------------------------------------------
// All numbers of a kind, as an array (rows, nmocap, width), or none of it.
static pbStatus take_poses(pbContext *ctx, const pbModel *m, const pbArrays *set, pbRecordedKind kind, const char *name,
                           pbArrays *to) {
  int count = pbColumn_Count(m, kind), found = 0, lost = -1;
  size_t rows = pbRecording_Rows(set);
  size_t shape[3] = {rows, (size_t)m->nmocap, (size_t)(count / m->nmocap)};
  const pbArray *column;
  double *out = NULL;

  // that they are all there is known before the first is taken
  for (int i = 0; i < count; i++) {
    pbColumn c = pbColumn_Of(m, kind, i);
    PB_TRY(pbColumn_Find(ctx, m, set, &c, true, &column));
    if (column) found++;
    else if (lost < 0) lost = i;
  }
  if (found == 0) return pb_ok;
  if (lost >= 0) {
    pbColumn c = pbColumn_Of(m, kind, lost);
    return pbColumn_Missing(ctx, set, &c, true);
  }

  PB_TRY(pbArrays_AddReals(to, name, 3, shape, NULL, &out));

  // column by column
  for (int i = 0; i < count; i++) {
    pbColumn c = pbColumn_Of(m, kind, i);
    PB_TRY(pbColumn_Find(ctx, m, set, &c, true, &column));
    for (size_t k = 0; k < rows; k++) {
      if (isnan(column->reals[k])) return missing_sample(ctx, set, column, k, "poses are given for every step");
      out[k * (size_t)count + (size_t)i] = column->reals[k];
    }
  }
  return pb_ok;
}

// Rows are those of steps: poses are not interpolated.
static pbStatus check_grid(pbContext *ctx, const pbArrays *set, const pbArray *time, double timestep) {
  char place[PLACE];
  size_t rows = time ? time->count : 0;

  // without times rows are steps
  for (size_t k = 0; k < rows; k++) {
    if (fabs(time->reals[k] - (double)k * timestep) <= 1e-5 * timestep * (1 + 1e-6 * (double)k)) continue;
    return pbContext_Fail(ctx, pb_bad_input, "%s: %.12g s; poses have a row for each step, of %.12g s here",
                          pbArrays_Place(set, time, k, place, sizeof place), time->reals[k], (double)k * timestep);
  }
  return pb_ok;
}

static pbStatus take_all_poses(pbContext *ctx, const pbModel *m, const pbArrays *set, double timestep, pbArrays *to) {
  const pbArray *time;
  PB_TRY(pbColumn_Time(ctx, set, NULL, &time));
  if (m->nmocap == 0) return pb_ok;

  PB_TRY(check_grid(ctx, set, time, timestep));
  PB_TRY(take_poses(ctx, m, set, pb_columnMocapPos, "mocap_pos", to));
  PB_TRY(take_poses(ctx, m, set, pb_columnMocapQuat, "mocap_quat", to));
  PB_TRY(take_poses(ctx, m, set, pb_columnMocapVel, "mocap_vel", to));
  if (pbArrays_Count(to)) return pb_ok;

  pbColumn c = pbColumn_Of(m, pb_columnMocapPos, 0);
  return pbColumn_Missing(ctx, set, &c, true);
}

pbStatus pbRecording_Poses(pbContext *ctx, const pbModel *model, const pbArrays *set, double timestep, pbArrays **poses) {
  pbArrays *out = NULL;
  PB_ASSERT(pbRecording_Rows(set) > 0);
  PB_TRY(pbArrays_Create(ctx, &out));

  pbStatus status = take_all_poses(ctx, model, set, timestep, out);
  if (status != pb_ok) {
    pbArrays_Destroy(out);
    return status;
  }
  *poses = out;
  return pb_ok;
}
