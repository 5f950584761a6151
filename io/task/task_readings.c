// What was recorded beside what the simulation reads there, for pages.
// Tests: tests/unit/test_readings.c, tests/oracle/test_pages.py.
#include <math.h>

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
