// The "at" of a term: at which times of a trajectory it looks.
// Tests: tests/unit/test_task.c, tests/unit/test_task_terms.c.
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "io/task/task_loss.h"

static pbStatus outside(const pbTaskReader *r, double time, int steps) {
  return pbTaskReader_Fail(r, pb_bad_input, "time %.12g is outside of the trajectory (0 to %.12g)", time,
                           steps * pbTaskReader_Timestep(r));
}

static pbStatus step_of_time(const pbTaskReader *r, double time, int steps, int *step) {
  double h = pbTaskReader_Timestep(r), k = time / h;
  if (!(k > -0.5 && k < steps + 0.5)) return outside(r, time, steps);

  // a multiple up to the rounding of times written in decimals
  *step = (int)floor(k + 0.5);
  if (fabs(k - *step) > 1e-5 * (1 + fabs(k) * 1e-6))
    return pbTaskReader_Fail(r, pb_bad_input, "time %.12g is not a multiple of the time step %.12g; the nearest is %.12g", time,
                             h, *step * h);
  return pb_ok;
}

// A time that is none of a state's is of the interval from the state before it.
static pbStatus time_at(const pbTaskReader *r, double time, int steps, int *step, bool *between) {
  double k = time / pbTaskReader_Timestep(r), near = floor(k + 0.5);
  if (!(near >= 0 && near <= steps)) return outside(r, time, steps);

  *between = fabs(k - near) > 1e-5 * (1 + fabs(k) * 1e-6);
  if (*between && (k < 0 || k > steps)) return outside(r, time, steps);
  *step = (int)(*between ? floor(k) : near);

  return pb_ok;
}

pbStatus pbTask_Times(const pbTaskReader *r, const double *times, size_t count, int steps, pbTerm *t) {
  bool between = false, off = false;
  t->timed = true;
  if (count > PB_TASK_NUMBERS) return pbTaskReader_Fail(r, pb_capacity, "too many times: %zu", count);

  t->step_count = (int)count;
  if (!(t->steps = pbContext_AllocArray(r->ctx, count + 1, sizeof *t->steps)))
    return pbTaskReader_Fail(r, pb_no_memory, "no memory for times");

  for (size_t i = 0; i < count; i++) {
    // states are observed in one pass over the trajectory
    if (i && !(times[i] >= times[i - 1]))
      return pbTaskReader_Fail(r, pb_bad_input, "times must not go backwards: entry %zu is %.12g, the one before it %.12g", i,
                               times[i], times[i - 1]);
    PB_TRY(time_at(r, times[i], steps, &t->steps[i], &between));
    off = off || between;
  }
  if (!off) return pb_ok;

  // times of their own, kept as they are
  PB_TRY(pbReading_Create(r->ctx, t, &t->reading));
  PB_TRY(pbReading_AtTimes(r->ctx, t, pbTaskReader_Timestep(r)));
  memcpy(t->reading->time, times, count * sizeof *times);
  return pb_ok;
}

pbStatus pbTask_StepsRange(const pbTaskReader *r, int from, int to, int every, pbTerm *t) {
  t->step_count = from > to ? 0 : (to - from) / every + 1;
  if (!(t->steps = pbContext_AllocArray(r->ctx, (size_t)t->step_count + 1, sizeof *t->steps)))
    return pbTaskReader_Fail(r, pb_no_memory, "no memory for times");

  for (int i = 0; i < t->step_count; i++) t->steps[i] = from + i * every;
  return pb_ok;
}

static pbStatus read_range(pbTaskReader *r, const json_t *at, int steps, pbTerm *t) {
  static const char *const keys[] = {"from", "to", "every", NULL};
  double h = pbTaskReader_Timestep(r), from = 0, to = steps * h, every = h;

  int first, last, stride;
  t->timed = true;
  PB_TRY(pbTaskReader_Keys(r, at, keys));
  PB_TRY(pbTaskReader_Real(r, at, "from", &from));
  PB_TRY(pbTaskReader_Real(r, at, "to", &to));
  PB_TRY(pbTaskReader_Real(r, at, "every", &every));

  // times as steps; the stride is a time, too
  PB_TRY(step_of_time(r, from, steps, &first));
  PB_TRY(step_of_time(r, to, steps, &last));
  PB_TRY(step_of_time(r, every, steps, &stride));

  if (stride < 1 || last < first) return pbTaskReader_Fail(r, pb_bad_input, "expected from <= to and every > 0");
  return pbTask_StepsRange(r, first, last, stride, t);
}

pbStatus pbTask_ReadAt(pbTaskReader *r, const json_t *at, int steps, pbTerm *t) {
  const char *word = json_string_value(at);

  if (word && strcmp(word, "final") == 0) return pbTask_StepsRange(r, steps, steps, 1, t);
  if (word && strcmp(word, "all") == 0) return pbTask_StepsRange(r, 0, steps, 1, t);
  if (json_is_object(at)) return read_range(r, at, steps, t);
  if (word)
    return pbTaskReader_Fail(r, pb_bad_input, "'%.40s': expected \"final\", \"all\", a list of times or {from, to, every}%s",
                             word, strcmp(word, "end") == 0 || strcmp(word, "last") == 0 ? "; did you mean \"final\"?" : "");

  pbTaskNumbers times;
  PB_TRY(pbTaskReader_Numbers(r, at, &times));
  pbStatus status = times.nested ? pbTaskReader_Fail(r, pb_bad_input, "expected a list of times")
                                 : pbTask_Times(r, times.data, times.cols, steps, t);

  pbContext_Free(r->ctx, times.data);
  return status;
}
