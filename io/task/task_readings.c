// What was recorded beside what the simulation reads there, for pages.
// Tests: tests/unit/test_readings.c, tests/oracle/test_pages.py, tests/oracle/test_ghost.py.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/trajectory.h>

#include "io/json/json.h"
#include "io/task/task_reader.h"

// One component of a term: every so many times, so that no page has more than `most`.
static void describe(const pbTrajectory *tr, const pbTerm *t, int i, int most, pbJson *j) {
  int every = (t->step_count + most - 1) / most;
  double h = tr->terms.timestep, recorded;

  pbJson_OpenLine(j, "time", '[');
  for (int k = 0; k < t->step_count; k += every) pbJson_Number(j, NULL, pbTerm_Time(t, k, h));
  pbJson_Close(j, ']');
  pbJson_OpenLine(j, "recorded", '[');
  for (int k = 0; k < t->step_count; k += every) {
    pbTerm_Reading(&tr->terms, t, k, i, tr->ctrl_now, &recorded);
    pbJson_Number(j, NULL, recorded);
  }
  pbJson_Close(j, ']');
  pbJson_OpenLine(j, "simulated", '[');
  for (int k = 0; k < t->step_count; k += every)
    pbJson_Number(j, NULL, pbTerm_Reading(&tr->terms, t, k, i, tr->ctrl_now, &recorded));
  pbJson_Close(j, ']');
}

static void describe_term(const pbTask *task, int trajectory, const pbTerm *t, int most, pbJson *j) {
  const pbTrajectory *tr = &task->trajectories[trajectory];
  for (int i = 0; i < t->part_count; i++) {
    pbJson_Open(j, NULL, '{');
    pbJson_Text(j, "name", t->name);
    if (t->part_count > 1) pbJson_Integer(j, "component", i);
    if (task->trajectory_count > 1) pbJson_Integer(j, "trajectory", trajectory);
    if (tr->test) pbJson_Bool(j, "test", true);
    if (t->sigma) pbJson_Number(j, "sigma", t->sigma[i]);
    if (t->parts[i].axis >= 0) pbJson_Bool(j, "rotation", true);
    describe(tr, t, i, most, j);
    pbJson_Close(j, '}');
  }
}

pbStatus pbTask_DescribeReadings(pbTask *task, const double *z, int most, const char *key, pbJson *json) {
  double value;
  bool any = false;
  for (int t = 0; t < task->trajectory_count; t++) {
    const pbTermSet *set = &task->trajectories[t].terms;
    for (int i = 0; i < set->count; i++) any = any || set->terms[i].recorded;
  }
  if (!any) return pb_ok;

  // The rollouts hold the run at z from here on, those that test it too.
  PB_TRY(pbTask_Loss(task, z, &value, NULL));
  PB_TRY(pbTask_Test(task, z, &value));

  pbJson_Open(json, key, '[');
  for (int t = 0; t < task->trajectory_count; t++) {
    const pbTermSet *set = &task->trajectories[t].terms;
    for (int i = 0; i < set->count; i++) {
      if (set->terms[i].recorded && !set->terms[i].hosted) describe_term(task, t, &set->terms[i], most, json);
    }
  }
  pbJson_Close(json, ']');
  return pb_ok;
}

// ---- positions ------------------------------------------------------------------------------------------------------
typedef struct Look {  // a time of a term
  double time;
  const pbTerm *term;
  int k;
} Look;

static bool has_positions(const pbTerm *t) {
  bool bound = t->type == pb_termAbove || t->type == pb_termBelow;
  return t->recorded && t->quantity == pb_observedQpos && !bound;
}

static size_t count_looks(const pbTermSet *set) {
  size_t count = 0;
  for (int i = 0; i < set->count; i++) count += has_positions(&set->terms[i]) ? (size_t)set->terms[i].step_count : 0;
  return count;
}

static int by_time(const void *a, const void *b) {
  const Look *x = a, *y = b;
  return (x->time > y->time) - (x->time < y->time);
}

static void find_looks(const pbTermSet *set, Look *look) {
  size_t count = 0;
  for (int i = 0; i < set->count; i++) {
    const pbTerm *t = &set->terms[i];
    double delay = t->reading ? t->reading->now[0] : 0;
    if (!has_positions(t)) continue;

    for (int k = 0; k < t->step_count; k++)
      look[count++] = (Look){.time = pbTerm_Time(t, k, set->timestep) - delay, .term = t, .k = k};
  }
  qsort(look, count, sizeof *look, by_time);
}

// What was there where the instrument showed the target; of rotations the whole quaternion.
static void put_positions(const Look *look, double *qpos) {
  const pbTerm *t = look->term;
  const double *target = t->target + (size_t)(t->target_rows > 1 ? look->k : 0) * (size_t)t->target_width;

  for (int i = 0; i < t->part_count; i++) {
    const pbPart *part = &t->parts[i];
    double gain = t->reading ? t->reading->now[1 + i] : 1, bias = t->reading ? t->reading->now[1 + t->part_count + i] : 0;
    if (part->axis >= 0) memcpy(qpos + part->coord, target + part->target, 4 * sizeof *qpos);
    else qpos[part->coord] = gain != 0 ? (target[part->target] - bias) / gain : NAN;
  }
}

static pbStatus put_rows(const pbTermSet *set, Look *look, size_t rows, pbArrays *out) {
  size_t nq = (size_t)pbModel_Size(set->model, "nq");
  double *time = NULL, *qpos = NULL;
  PB_TRY(pbArrays_AddReals(out, "time", 1, &rows, NULL, &time));
  PB_TRY(pbArrays_AddReals(out, "qpos", 2, (size_t[]){rows, nq}, NULL, &qpos));

  find_looks(set, look);
  for (size_t i = 0; i < rows * nq; i++) qpos[i] = NAN;
  for (size_t k = 0; k < rows; k++) {
    time[k] = look[k].time;
    put_positions(&look[k], qpos + k * nq);
  }
  return pb_ok;
}

pbStatus pbTask_Recorded(pbTask *task, const double *z, int trajectory, pbArrays *out) {
  const pbTrajectory *tr = &task->trajectories[trajectory];
  size_t rows = count_looks(&tr->terms);
  double value;
  if (!rows) return pb_ok;

  // gains, biases and delays are those at z from here on
  PB_TRY(tr->test ? pbTask_Test(task, z, &value) : pbTask_Loss(task, z, &value, NULL));
  Look *look = pbContext_AllocArray(task->ctx, rows, sizeof *look);
  if (!look) return pbContext_Fail(task->ctx, pb_no_memory, "no memory for a recording");
  pbStatus status = put_rows(&tr->terms, look, rows, out);
  pbContext_Free(task->ctx, look);
  return status;
}
