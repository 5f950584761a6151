// The "controls" of a trajectory: rows as they are written, an array of a file, or a recording at times of its own.
// Tests: tests/unit/test_task.c, tests/unit/test_task_csv.c.
#include <math.h>
#include <string.h>

#include <pullback/trajectory.h>

#include "base/context.h"
#include "io/arrays/csv.h"
#include "io/task/task_reader.h"
#include "io/trajectory/recording.h"
#include "model/history.h"
#include "model/model.h"

static const char *const keys[] = {"file", "array", "time", "columns", "interpolation", "delay", "start", "comment", NULL};

// What a file of controls is read by.
typedef struct Source {
  const char *array;
  pbControlTiming timing;
  const char **columns;  // of each control, where they are given
} Source;

pbStatus pbTask_CheckThinned(pbTaskReader *r, const json_t *value, const pbArrays *set) {
  long every = pbSimulation_Every(set);
  if (every == 1) return pb_ok;
  return pbTaskReader_FailAt(r, "file",
                             "%.300s: was written with --every %ld and has the inputs of some steps only; expected all",
                             json_string_value(json_object_get(value, "file")), every);
}

// ---- how a file is read -----------------------------------------------------------------------------------------------
static pbStatus read_columns(pbTaskReader *r, const json_t *list, Source *s) {
  size_t width = (size_t)pb_controls(r->model);
  if (!json_is_array(list) || json_array_size(list) != width)
    return pbTaskReader_Fail(r, pb_bad_input, "expected a list of %zu names, one for each control", width);

  s->columns = pbContext_AllocArray(r->ctx, width + 1, sizeof *s->columns);
  if (!s->columns) return pbTaskReader_Fail(r, pb_no_memory, "no memory for controls");
  s->timing.columns = s->columns;

  // they live as long as the tree
  for (size_t i = 0; i < width; i++) {
    s->columns[i] = json_string_value(json_array_get(list, i));
    if (!s->columns[i]) return pbTaskReader_Fail(r, pb_bad_input, "entry %zu is no name of a column", i);
  }
  return pb_ok;
}

static pbStatus read_source(pbTaskReader *r, const json_t *value, Source *s) {
  const char *interpolation = "hold";
  *s = (Source){.array = "control", .timing = {.timestep = pbTaskReader_Timestep(r)}};
  PB_TRY(pbTaskReader_Keys(r, value, keys));
  PB_TRY(pbTaskReader_Text(r, value, "array", &s->array));
  PB_TRY(pbTaskReader_Text(r, value, "time", &s->timing.time));
  PB_TRY(pbTaskReader_Text(r, value, "interpolation", &interpolation));
  PB_TRY(pbTaskReader_Real(r, value, "delay", &s->timing.delay));
  PB_TRY(pbTaskReader_Real(r, value, "start", &s->timing.start));

  // held until the next, or on lines between them
  s->timing.linear = strcmp(interpolation, "linear") == 0;
  if (!s->timing.linear && strcmp(interpolation, "hold") != 0)
    return pbTaskReader_FailAt(r, "interpolation", "expected \"hold\" or \"linear\", found '%.40s'", interpolation);
  if (fabs(s->timing.delay) > 1e6) return pbTaskReader_FailAt(r, "delay", "expected seconds, found %g", s->timing.delay);

  const json_t *columns = json_object_get(value, "columns");
  if (!columns) return pb_ok;
  pbTaskReader_Enter(r, "columns");
  PB_TRY(read_columns(r, columns, s));
  pbTaskReader_Leave(r);
  return pb_ok;
}

// ---- an array of a file -----------------------------------------------------------------------------------------------
// Rows at times that the file has beside them.
static pbStatus give_times(pbTaskReader *r, const pbArrays *set, const Source *s, pbTaskControls *c) {
  const pbArray *time = pbArrays_Find(set, s->timing.time);

  // a trajectory has a state more than it has steps
  if (!time || time->type != pb_arrayReal || (time->count != c->rows && time->count != c->rows + 1))
    return pbTaskReader_FailAt(r, "time", "the file has no array '%.80s' of %zu times", s->timing.time, c->rows);
  for (size_t k = 1; k < c->rows; k++) {
    if (!(time->reals[k] > time->reals[k - 1])) return pbTaskReader_FailAt(r, "time", "times must ascend (entry %zu)", k);
  }

  // the same of all controls
  for (int i = 0; i < c->recorded->width; i++) {
    for (size_t k = 0; k < c->rows; k++) c->recorded->series[i].time[k] = time->reals[k] - s->timing.start;
    pbSeries_Snap(&c->recorded->series[i], s->timing.timestep);
  }

  // as many steps as begin until the last
  double last = (time->reals[c->rows - 1] - s->timing.start) / s->timing.timestep;
  if (!(last > -0.5 && last < 1e7)) return pbTaskReader_FailAt(r, "time", "the last, %.12g s, is no time of a run", last);
  c->recorded->timed = true;
  c->rows = (size_t)floor(last + 1e-5 * (1 + 1e-6 * last)) + 1;
  return pb_ok;
}

// Rows that are not simply one a step.
static pbStatus make_recording(pbTaskReader *r, const pbArrays *set, const Source *s, pbTaskControls *c) {
  bool timed = s->timing.time != NULL;
  if (s->timing.start != 0 && !timed) return pbTaskReader_FailAt(r, "start", "rows without times begin with the trajectory");
  if ((!timed && s->timing.delay == 0 && !s->timing.linear) || c->rows == 0) return pb_ok;

  pbStatus status = pbRecorded_OfRows(r->ctx, c->data, c->rows, (int)c->cols, s->timing.timestep, &c->recorded);
  if (status != pb_ok) return pbTaskReader_FailAgain(r, status);
  c->recorded->linear = s->timing.linear;
  return timed && c->rows > 1 ? give_times(r, set, s, c) : pb_ok;
}

static pbStatus check_width(const pbTaskReader *r, const pbTaskControls *c) {
  if (c->cols == (size_t)pb_controls(r->model)) return pb_ok;
  return pbTaskReader_Fail(r, pb_bad_input, "rows of %zu controls; the model has %d", c->cols, pb_controls(r->model));
}

static pbStatus take_array(pbTaskReader *r, const json_t *value, const pbArrays *set, const Source *s, pbTaskControls *c) {
  PB_TRY(pbTask_CheckThinned(r, value, set));
  if (s->columns) return pbTaskReader_FailAt(r, "columns", "only a CSV has columns by name");

  // an array of that name, or the only one of the file
  const pbArray *a = pbArrays_Find(set, s->array);
  if (!a && pbArrays_Count(set) == 1) a = pbArrays_At(set, 0);
  if (!a || a->type != pb_arrayReal || a->ndim < 1 || a->ndim > 2)
    return pbTaskReader_Fail(r, pb_bad_input, "the file has no array '%.80s' of shape (steps, nu)", s->array);

  // a single row holds for all steps
  c->rows = a->ndim == 2 ? a->shape[0] : 1;
  c->cols = a->ndim == 2 ? a->shape[1] : a->shape[0];
  c->data = pbContext_AllocArray(r->ctx, a->count + 1, sizeof(double));
  if (!c->data) return pbTaskReader_Fail(r, pb_no_memory, "no memory for controls");
  memcpy(c->data, a->reals, a->count * sizeof(double));
  PB_TRY(check_width(r, c));
  return make_recording(r, set, s, c);
}

// ---- a CSV ------------------------------------------------------------------------------------------------------------
static pbStatus take_columns(pbTaskReader *r, const json_t *value, const pbArrays *set, const Source *s, pbTaskControls *c) {
  int steps;
  if (json_object_get(value, "array"))
    return pbTaskReader_FailAt(r, "array", "columns of a CSV are found by the names of controls, or by \"columns\"");

  pbStatus status = pbRecording_Read(r->ctx, r->model, set, &s->timing, &c->recorded, &steps);
  if (status != pb_ok) return pbTaskReader_FailAgain(r, status);
  c->rows = (size_t)steps;
  c->cols = (size_t)c->recorded->width;
  return pb_ok;
}

// ---- the whole --------------------------------------------------------------------------------------------------------
static pbStatus read_file(pbTaskReader *r, const json_t *value, Source *s, pbTaskControls *c) {
  pbArrays *set;
  PB_TRY(read_source(r, value, s));
  PB_TRY(pbTaskReader_LoadRecording(r, value, &set));
  c->delay = s->timing.delay;
  c->file = json_string_value(json_object_get(value, "file"));

  pbStatus status = pbRecording_Rows(set) ? take_columns(r, value, set, s, c) : take_array(r, value, set, s, c);
  pbArrays_Destroy(set);
  return status;
}

pbStatus pbTask_ReadControls(pbTaskReader *r, const json_t *value, pbTaskControls *c) {
  if (!value) return pb_ok;
  if (json_is_object(value)) {
    Source source = {0};
    pbStatus status = read_file(r, value, &source, c);
    pbContext_Free(r->ctx, source.columns);
    return status;
  }

  pbTaskNumbers numbers;
  PB_TRY(pbTaskReader_Numbers(r, value, &numbers));
  *c = (pbTaskControls){.data = numbers.data, .rows = numbers.rows, .cols = numbers.cols};
  return check_width(r, c);
}

pbStatus pbTask_CheckControlDelay(pbTaskReader *r, const pbTrajectory *tr, double delay) {
  double end = tr->steps * pbTaskReader_Timestep(r);
  bool any = false, seen = false;

  // what comes behind the first sample, at once and so late
  for (int i = 0; i < tr->recorded->width; i++) {
    const pbSeries *s = &tr->recorded->series[i];
    if (s->count < 2 || s->time[1] >= end) continue;
    any = true;
    seen = seen || s->time[1] + delay < end;
  }
  if (!any || seen) return pb_ok;

  return pbTaskReader_Fail(r, pb_bad_input,
                           "%.9g s: the trajectory ends at %.9g s: of what is recorded so late it has the first sample alone",
                           delay, end);
}

static pbStatus spread_recording(pbTaskReader *r, pbTaskControls *c, pbTrajectory *tr) {
  pbControlTiming timing = {.timestep = pbTaskReader_Timestep(r), .delay = c->delay};
  pbStatus status = c->recorded->timed ? pbRecording_CheckCover(r->ctx, c->file, c->recorded, &timing, tr->steps) : pb_ok;
  if (status != pb_ok) return pbTaskReader_FailAgain(r, status);

  tr->recorded = c->recorded;
  tr->delay = c->delay;
  c->recorded = NULL;
  pbTaskReader_Enter(r, "delay");
  PB_TRY(pbTask_CheckControlDelay(r, tr, tr->delay));
  pbTaskReader_Leave(r);
  pbRecorded_Controls(tr->recorded, tr->delay, tr->steps, tr->ctrl);
  return pb_ok;
}

// One row for all steps, one for each, or what the keyframe has; of a training nothing: its policy acts alone, and what that puts
// out is added to these.
pbStatus pbTask_SpreadControls(pbTaskReader *r, pbTaskControls *c, int key, pbTrajectory *tr) {
  size_t nu = (size_t)pb_controls(r->model);
  bool given = c->data || c->recorded, timed = c->recorded && c->recorded->timed;
  if (given && !timed && c->rows != 1 && c->rows != (size_t)tr->steps)
    return pbTaskReader_Fail(r, pb_bad_input, "%zu rows of controls; the trajectory has %d steps", c->rows, tr->steps);
  if (c->recorded) return spread_recording(r, c, tr);

  for (size_t k = 0; k < (size_t)tr->steps; k++) {
    if (c->data) memcpy(tr->ctrl + k * nu, c->data + (c->rows == 1 ? 0 : k * nu), nu * sizeof(double));
    else pbModel_StartControls(r->model, r->trains ? -1 : key, tr->ctrl + k * nu);
  }
  return pb_ok;
}

void pbTask_LookBack(const pbTaskReader *r, pbTrajectory *tr) {
  const pbModel *m = r->model;
  int nu = pb_controls(m);
  double h = pbTaskReader_Timestep(r), *history = NULL;
  if (!m->nhistory) return;

  for (int i = 0; i < pbModel_StateFieldCount(m); i++) {
    pbStateField f = pbModel_StateFieldAt(m, i);
    if (strcmp(f.name, "history") == 0) history = tr->x0 + f.offset;
  }

  // a sample is what acts in the step that begins with it
  for (pbBuffer b = {.object = -1}; pbBuffer_Next(m, &b);) {
    if (b.sensor) continue;
    const double *times = pbBuffer_Times(&b, history);
    double *samples = history + pbBuffer_Samples(&b), first = tr->steps > 0 && b.object < nu ? tr->ctrl[b.object] : 0;

    for (int k = 0; k < b.n; k++) {
      double from = times[k] - tr->delay;
      samples[k] = tr->recorded ? pbSeries_Mean(&tr->recorded->series[b.object], tr->recorded->linear, from, from + h) : first;
    }
  }
}

pbStatus pbTask_RecordControls(pbTaskReader *r, pbTrajectory *tr) {
  int nu = pb_controls(r->model);
  if (nu == 0) return pbTaskReader_Fail(r, pb_bad_input, "the model has no controls");

  // a run without steps has none to delay
  if (tr->steps == 0) return pb_ok;

  // rows that the file has, or what the keyframe has, are a step each
  if (!tr->recorded) {
    pbStatus status = pbRecorded_OfRows(r->ctx, tr->ctrl, (size_t)tr->steps, nu, pbTaskReader_Timestep(r), &tr->recorded);
    if (status != pb_ok) return pbTaskReader_FailAgain(r, status);
  }
  tr->delay_slope = pbContext_AllocArray(r->ctx, (size_t)tr->steps * (size_t)nu + 1, sizeof *tr->delay_slope);
  return tr->delay_slope ? pb_ok : pbTaskReader_Fail(r, pb_no_memory, "no memory for a variable");
}

// ---- of a training ----------------------------------------------------------------------------------------------------
// Numbers, in lists of lists, that are all zero.
static bool is_zero(const json_t *value) {
  if (!json_is_array(value)) return json_is_number(value) && json_number_value(value) == 0;

  for (size_t i = 0; i < json_array_size(value); i++) {
    if (!is_zero(json_array_get(value, i))) return false;
  }

  return true;
}

// In a training the policy alone acts, and noise: controls that the file adds in other commands would change what it learns from.
static pbStatus check_controls(pbTaskReader *r, const json_t *object) {
  const json_t *controls = json_object_get(object, "controls");
  if (json_object_get(object, "states"))
    return pbTaskReader_FailAt(r, "states", "a training has none: its episodes begin with \"init\", and run");
  if (!controls || is_zero(controls)) return pb_ok;

  return pbTaskReader_FailAt(r, "controls", "a training has none: its policy acts alone; expected zeros, or nothing");
}

pbStatus pbTask_RefuseControls(pbTaskReader *r, const json_t *root) {
  const json_t *list = json_object_get(root, "trajectories"), *own;
  size_t i;
  PB_TRY(check_controls(r, root));

  json_array_foreach(list, i, own) PB_TRY(check_controls(r, own));
  return pb_ok;
}

void pbTaskControls_Free(pbContext *ctx, pbTaskControls *c) {
  pbContext_Free(ctx, c->data);
  pbRecorded_Destroy(ctx, c->recorded);
  *c = (pbTaskControls){0};
}
