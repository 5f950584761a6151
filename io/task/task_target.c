// The "target" of a term: numbers in the file or a recording, with times of its own, with gaps; and how the recording was made:
// noise, delay, gain, bias.
// Tests: tests/unit/test_task_terms.c, tests/unit/test_readings.c.
#include <math.h>
#include <string.h>

#include <pullback/array.h>

#include "base/context.h"
#include "io/task/task_loss.h"

static pbStatus target_room(const pbTaskReader *r, pbTerm *t, size_t rows) {
  t->target_rows = (int)rows;
  if (rows * (size_t)t->target_width > PB_TASK_NUMBERS) return pbTaskReader_Fail(r, pb_capacity, "too many target values");
  t->target = pbContext_AllocArray(r->ctx, rows * (size_t)t->target_width + 1, sizeof(double));
  return t->target ? pb_ok : pbTaskReader_Fail(r, pb_no_memory, "no memory for targets");
}

// Row `row` of the target from a row of the data: the full quantity, what the term names, or its components.
static pbStatus fill_row(const pbTaskReader *r, pbTerm *t, const pbTermLayout *l, size_t row, const double *data, size_t width) {
  double *out = t->target + row * (size_t)t->target_width;

  // rotations have more target entries than parts: a row of parts cannot give them
  bool rotations = false;

  for (int i = 0; i < t->part_count; i++) rotations |= t->parts[i].axis >= 0;

  if (width == (size_t)t->target_width) {
    memcpy(out, data, width * sizeof *out);
  } else if (width == (size_t)l->full_width) {
    for (int i = 0; i < t->target_width; i++) out[i] = data[l->columns[i]];
  } else if (width == (size_t)t->part_count && !rotations) {
    for (int i = 0; i < t->part_count; i++) out[t->parts[i].target] = data[i];
  } else {
    return pbTaskReader_Fail(r, pb_bad_input, "expected %d values per time (or a full row of %d), found %zu", t->target_width,
                             l->full_width, width);
  }

  return pbTerm_NormalizeTarget(t, out) ? pb_ok : pbTaskReader_Fail(r, pb_bad_input, "a target quaternion is zero");
}

// A target in the file: one number for all, one row for all times, or a row for each.
static pbStatus inline_target(pbTaskReader *r, const json_t *target, const pbTermLayout *l, pbTerm *t) {
  pbTaskNumbers numbers;
  PB_TRY(pbTaskReader_Samples(r, target, &numbers));

  // a flat list over several times is one value per time where the term is a single number
  bool single = t->part_count == 1 && numbers.cols != (size_t)t->target_width && numbers.cols != (size_t)l->full_width;
  if (!numbers.nested && (t->target_width == 1 || single) && numbers.cols == (size_t)t->step_count) {
    numbers.rows = numbers.cols;
    numbers.cols = 1;
  }

  pbStatus status = numbers.rows != 1 && numbers.rows != (size_t)t->step_count
                        ? pbTaskReader_Fail(r, pb_bad_input, "expected 1 or %d rows, found %zu", t->step_count, numbers.rows)
                        : target_room(r, t, numbers.rows);

  for (size_t i = 0; status == pb_ok && i < numbers.rows; i++) {
    // one number is the value of every entry
    if (json_is_number(target) && t->target_width > 1) {
      for (int k = 0; k < t->target_width; k++) t->target[k] = numbers.data[0];
      status = fill_row(r, t, l, 0, t->target, (size_t)t->target_width);
    } else {
      status = fill_row(r, t, l, i, numbers.data + i * numbers.cols, numbers.cols);
    }
  }

  pbContext_Free(r->ctx, numbers.data);

  return status;
}

// A file of data: rows of a quantity, and their times.
typedef struct Recording {
  const double *data, *times;    // times NULL: there are none
  size_t first, rows, width;     // rows from `first` on are those of the trajectory
  double start, end;             // the recording's time at which it begins; rows from `end` on are no part of it
  const char *name, *time_name;  // arrays
} Recording;

static double sample_time(const Recording *d, size_t row) { return d->times[row] - d->start; }

static double reach(const pbTaskReader *r, double time) {
  double h = pbTaskReader_Timestep(r);
  return 1e-5 * h * (1 + 1e-6 * fabs(time) / h);
}

// Rows that lie on the trajectory, where the recording is longer.
static pbStatus choose_rows(const pbTaskReader *r, int steps, Recording *d) {
  double end = steps * pbTaskReader_Timestep(r);
  size_t from = 0;
  while (from < d->rows && sample_time(d, from) < -reach(r, 0)) from++;
  size_t to = from;
  while (to < d->rows && sample_time(d, to) <= end + reach(r, end) && d->times[to] < d->end - reach(r, end)) to++;

  if (from == to && !r->window)
    return pbTaskReader_Fail(r, pb_bad_input, "the recording, of times %.12g to %.12g, has none from %.12g to %.12g", d->times[0],
                             d->times[d->rows - 1], d->start, d->start + end);
  d->first = from;
  d->rows = to - from;

  return pb_ok;
}

// Times ascend, and are known; what is recorded may be missing, and is finite.
static pbStatus check_recording(const pbTaskReader *r, const Recording *d) {
  size_t times = d->times ? d->rows : 0;
  for (size_t i = 0; i < times; i++) {
    if (!isfinite(d->times[i]))
      return pbTaskReader_Fail(r, pb_bad_input, "%s[%zu] is %s; times must be numbers", d->time_name, i,
                               isnan(d->times[i]) ? "NaN" : "infinite");
    if (i && d->times[i] < d->times[i - 1])
      return pbTaskReader_Fail(r, pb_bad_input, "times must not go backwards: %s[%zu] is %.12g, the one before it %.12g",
                               d->time_name, i, d->times[i], d->times[i - 1]);
  }
  for (size_t i = 0; i < d->rows * d->width; i++) {
    if (isinf(d->data[i]))
      return pbTaskReader_Fail(r, pb_bad_input, "%s has an infinite number in row %zu; what is missing is NaN", d->name,
                               i / d->width);
  }

  return pb_ok;
}

static pbStatus open_recording(const pbTaskReader *r, const pbArray *data, const pbArray *times, Recording *d) {
  if (!data || data->type != pb_arrayReal)
    return pbTaskReader_Fail(r, pb_bad_input, "the file has no array '%.80s' of numbers", d->name);
  d->data = data->reals;
  d->rows = data->ndim > 0 ? data->shape[0] : 1;
  d->width = d->rows ? data->count / d->rows : 0;
  if (!times) return pb_ok;

  if (times->type != pb_arrayReal || times->count != d->rows || !d->rows)
    return pbTaskReader_Fail(r, pb_bad_input, "\"time\" has %zu entries, the data %zu rows", times->count, d->rows);
  d->times = times->reals;

  return pb_ok;
}

// Index of the row recorded at the time of sample k, from *hint on; times ascend.
static pbStatus find_time(const pbTaskReader *r, const Recording *d, double time, size_t *hint) {
  double within = reach(r, time);

  // both ascend: one pass over the recording
  while (*hint < d->first + d->rows && sample_time(d, *hint) < time - within) ++*hint;
  if (*hint < d->first + d->rows && sample_time(d, *hint) <= time + within) return pb_ok;
  return pbTaskReader_Fail(r, pb_bad_input, "the recording has nothing at time %.12g (times must be equal)", time);
}

// Targets from rows of data: those recorded at the term's times, or one row for each of them, or for each state.
static pbStatus recorded_rows(pbTaskReader *r, const Recording *d, int steps, const pbTermLayout *l, pbTerm *t) {
  size_t rows = d->rows, at = d->first;

  // controls have no row for the last state: it takes that of the last step
  bool each = rows == (size_t)t->step_count;
  bool every = rows == (size_t)steps + 1 || (t->quantity == pb_observedControl && rows == (size_t)steps);
  if (!d->times && !each && !every)
    return pbTaskReader_Fail(r, pb_bad_input,
                             "expected %d rows (one per time) or %d (one per state), or an array \"time\"; found %zu rows",
                             t->step_count, steps + 1, rows);

  PB_TRY(target_room(r, t, (size_t)t->step_count));
  for (int i = 0; i < t->step_count; i++) {
    size_t last = rows - 1, step = (size_t)t->steps[i];
    if (d->times) PB_TRY(find_time(r, d, pbTerm_Time(t, i, pbTaskReader_Timestep(r)), &at));
    else if (each) at = (size_t)i;
    else at = step < rows ? step : last;
    PB_TRY(fill_row(r, t, l, (size_t)i, d->data + at * d->width, d->width));

    // of several rows at one time each is a sample
    if (d->times && each) at++;
  }

  return pb_ok;
}

// Without "at" the recording's own times say when is looked.
static pbStatus times_of(pbTaskReader *r, const Recording *d, int steps, pbTerm *t) {
  if (!d->times) return pbTask_StepsRange(r, 0, steps, 1, t);

  double *times = pbContext_AllocArray(r->ctx, d->rows + 1, sizeof *times);
  if (!times) return pbTaskReader_Fail(r, pb_no_memory, "no memory for times");
  for (size_t i = 0; i < d->rows; i++) times[i] = sample_time(d, d->first + i);

  // Rows beyond the run are an error unless "start" says how the clocks fit: they may be times of another unit.
  double end = steps * pbTaskReader_Timestep(r), last = d->rows ? times[d->rows - 1] : 0;
  pbStatus status = last > end + 1e-5 * pbTaskReader_Timestep(r)
                        ? pbTaskReader_Fail(r, pb_bad_input,
                                            "time %.12g is outside of the trajectory (0 to %.12g); with \"start\", what the "
                                            "recording's clock shows when it begins, such rows are left out",
                                            last, end)
                        : pbTask_Times(r, times, d->rows, steps, t);
  pbContext_Free(r->ctx, times);

  return status;
}

static pbStatus recorded_target(pbTaskReader *r, const json_t *target, const json_t *at, int steps, const pbTermLayout *l,
                                pbTerm *t) {
  static const char *const keys[] = {"file", "array", "time", "columns", "start", "end", NULL};
  Recording d = {.name = l->array, .time_name = "time", .end = INFINITY};
  pbArrays *set;
  PB_TRY(pbTaskReader_Keys(r, target, keys));
  PB_TRY(pbTaskReader_Text(r, target, "array", &d.name));
  PB_TRY(pbTaskReader_Text(r, target, "time", &d.time_name));
  PB_TRY(pbTaskReader_Real(r, target, "start", &d.start));
  PB_TRY(pbTaskReader_Real(r, target, "end", &d.end));
  PB_TRY(pbTask_LoadTarget(r, target, d.name, t, l->columns, &set));

  // the array of the quantity's name, or the only one of the file
  const pbArray *data = pbArrays_Find(set, d.name), *times = pbArrays_Find(set, d.time_name);
  if (!data && pbArrays_Count(set) == 1 && !json_object_get(target, "array")) data = pbArrays_At(set, 0);

  bool ends = json_object_get(target, "end") != NULL, begins = ends || json_object_get(target, "start");
  pbStatus status = open_recording(r, data, times, &d);
  if (status == pb_ok) status = check_recording(r, &d);
  if (status == pb_ok && begins && !d.times)
    status = pbTaskReader_FailAt(r, ends ? "end" : "start", "the recording has no array '%.80s' of times", d.time_name);
  if (status == pb_ok && begins) status = choose_rows(r, steps, &d);
  bool none = begins && d.rows == 0;
  if (status == pb_ok && !at && !none) status = times_of(r, &d, steps, t);
  if (status == pb_ok && !none) status = recorded_rows(r, &d, steps, l, t);
  pbArrays_Destroy(set);
  return status;
}

// Without a target all values are zero, and rotations none.
pbStatus pbTask_DefaultTarget(const pbTaskReader *r, pbTerm *t) {
  PB_TRY(target_room(r, t, 1));
  for (int i = 0; i < t->part_count; i++) {
    if (t->parts[i].axis >= 0) t->target[t->parts[i].target] = 1;
  }
  return pb_ok;
}

pbStatus pbTask_ReadTarget(pbTaskReader *r, const json_t *object, int steps, const pbTermLayout *l, pbTerm *t) {
  const json_t *target = json_object_get(object, "target"), *at = json_object_get(object, "at");
  pbStatus status = pb_ok;
  t->target_width = l->target_width;

  if (at) {
    pbTaskReader_Enter(r, "at");
    status = pbTask_ReadAt(r, at, steps, t);
    pbTaskReader_Leave(r);
  } else if (!json_is_object(target)) {
    status = pbTask_StepsRange(r, steps, steps, 1, t);
  }

  if (status != pb_ok) return status;

  // from a file, from the task, or none
  pbTaskReader_Enter(r, "target");
  if (json_is_object(target)) {
    status = recorded_target(r, target, at, steps, l, t);
  } else if (target) {
    status = inline_target(r, target, l, t);
  } else {
    status = pbTask_DefaultTarget(r, t);
  }
  pbTaskReader_Leave(r);
  t->recorded = json_is_object(target) || t->target_rows > 1;

  // who reads a window leaves it out
  bool empty = t->step_count == 0 || (status == pb_ok && pbTerm_Samples(t) == 0);
  if (status == pb_ok && r->window && empty) t->step_count = 0;
  if (status == pb_ok && r->window) return pb_ok;

  if (status == pb_ok && t->step_count == 0) return pbTaskReader_Fail(r, pb_bad_input, "the term looks at no state");
  if (status == pb_ok && pbTerm_Samples(t) == 0) return pbTaskReader_FailAt(r, "target", "every sample is missing");
  return status;
}

// ---- how it was recorded --------------------------------------------------------------------------------------------
static pbStatus read_sigma(pbTaskReader *r, const json_t *object, pbTerm *t) {
  size_t count = (size_t)t->part_count;
  if (!json_object_get(object, "sigma")) return pb_ok;

  t->sigma = pbContext_AllocArray(r->ctx, count + 1, sizeof *t->sigma);
  if (!t->sigma) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a term");
  PB_TRY(pbTaskReader_Spread(r, object, "sigma", count, t->sigma));
  t->recorded = true;

  for (size_t i = 0; i < count; i++) {
    if (!(t->sigma[i] > 0))
      return pbTaskReader_FailAt(r, "sigma", "expected standard deviations above zero, found %.12g", t->sigma[i]);
  }

  return pb_ok;
}

pbStatus pbTask_NeedReading(pbTaskReader *r, pbTerm *t, const char *what) {
  for (int i = 0; i < t->part_count; i++) {
    if (what && t->parts[i].axis >= 0)
      return pbTaskReader_Fail(r, pb_bad_input, "a rotation has no %s; choose plain numbers by \"components\"", what);
  }

  pbStatus status = t->reading ? pb_ok : pbReading_Create(r->ctx, t, &t->reading);

  return status == pb_ok ? pb_ok : pbTaskReader_FailAgain(r, status);
}

// A delay by which no sample is within the trajectory any more: all would show its start, or its end.
pbStatus pbTask_CheckDelay(pbTaskReader *r, const pbTerm *t, int steps, double delay) {
  double first = t->reading->time[0], last = t->reading->time[t->step_count - 1], end = steps * pbTaskReader_Timestep(r);
  if (delay > 0 && delay >= last && last > 0)
    return pbTaskReader_Fail(r, pb_bad_input,
                             "%.9g s: the last sample is at %.9g s: so late all of them show where the trajectory begins", delay,
                             last);
  if (delay < 0 && first - delay >= end && first < end)
    return pbTaskReader_Fail(r, pb_bad_input,
                             "%.9g s: the first sample is at %.9g s: so early all of them show where the trajectory ends", delay,
                             first);
  return pb_ok;
}

pbStatus pbTask_ReadReading(pbTaskReader *r, const json_t *object, int steps, pbTerm *t) {
  size_t count = (size_t)t->part_count;
  PB_TRY(read_sigma(r, object, t));

  if (json_object_get(object, "gain")) {
    PB_TRY(pbTask_NeedReading(r, t, "gain"));
    PB_TRY(pbTaskReader_Spread(r, object, "gain", count, t->reading->values + 1));
  }
  if (json_object_get(object, "bias")) {
    PB_TRY(pbTask_NeedReading(r, t, "bias"));
    PB_TRY(pbTaskReader_Spread(r, object, "bias", count, t->reading->values + 1 + count));
  }

  // what is seen late is seen at other times
  if (!json_object_get(object, "delay")) return pb_ok;
  PB_TRY(pbTask_NeedReading(r, t, NULL));
  PB_TRY(pbTaskReader_Real(r, object, "delay", t->reading->values));
  PB_TRY(pbReading_AtTimes(r->ctx, t, pbTaskReader_Timestep(r)));

  pbTaskReader_Enter(r, "delay");
  PB_TRY(pbTask_CheckDelay(r, t, steps, t->reading->values[0]));
  pbTaskReader_Leave(r);
  return pb_ok;
}
