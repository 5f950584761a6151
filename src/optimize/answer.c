// What is asked of a point beside a search: of its answer, that of the end, or a point on the way.
// Tests: tests/unit/test_task.c, tests/unit/test_gaps.c, tests/oracle/test_task_run.py.
#include "optimize/answer.h"

#include <math.h>
#include <string.h>

// What is kept out of a fit may fail by itself: then its loss is not known.
pbStatus pbAnswer_Test(pbTask *task, pbRunResult *result) {
  pbStatus status = pbTask_Test(task, task->result_z, &result->test_loss);
  if (status == pb_ok || status == pb_no_memory || status == pb_interrupted) return status;

  result->test_loss = INFINITY;

  return pb_ok;
}

// A Jacobian that cannot be had is said; the answer stays.
pbStatus pbAnswer_LookHowSure(pbTask *task, pbRunResult *result) {
  pbStatus status = pbTask_Uncertainty(task, task->result_z, &result->uncertainty);
  return status == pb_no_memory || status == pb_interrupted ? status : pb_ok;
}

// The loss once more at a finer time step; a simulation that fails there is reported as not confirmed.
pbStatus pbAnswer_Confirm(pbTask *task, pbRunResult *result) {
  if (task->confirm <= 1) return pb_ok;

  pbStatus status = pbTask_Confirm(task, task->result_z, &result->confirm_loss, &result->confirm_timestep);
  result->confirmed_run = status == pb_ok;
  if (status == pb_not_finite || status == pb_no_convergence || status == pb_singular) return pb_ok;
  return status;
}

// With draws that change: loss and criteria by those that results are told by.
pbStatus pbAnswer_Evaluate(pbTask *task, pbRunResult *result) {
  if (!task->sample.fresh || task->met) return pb_ok;

  // As if found there: what is reported is this point's.
  PB_TRY(pbTask_Loss(task, task->result_z, &result->loss, NULL));
  task->met = pbTask_Met(task, result->loss);
  task->met_value = result->loss;
  memcpy(task->met_z, task->result_z, (size_t)task->n * sizeof(double));
  result->met = task->met;

  return pb_ok;
}

// Terms of a point at which the loss cannot be had again.
void pbAnswer_ForgetTerms(pbTask *task) {
  for (int t = 0; t < task->trajectory_count; t++) {
    pbTermSet *set = &task->trajectories[t].terms;
    for (int k = 0; k < set->count; k++) {
      set->terms[k].value = NAN;
      set->terms[k].deviation = NAN;
    }
  }
}

// The terms at z, by no evaluation of the search.
pbStatus pbAnswer_TermsAside(pbTask *task, const double *z) {
  int64_t simulations = task->simulations, evaluations = task->evaluations;
  bool watch = task->watch;
  double value;

  // criteria end a search at its own evaluations

  task->watch = false;
  pbStatus status = pbTask_Loss(task, z, &value, NULL);
  task->watch = watch;
  task->simulations = simulations;
  task->evaluations = evaluations;

  return status;
}

bool pbAnswer_IsStart(const pbTask *task, const double *z) {
  bool same = true;

  // a search moves its start within bounds
  for (int i = 0; i < task->n && same; i++) {
    double lower = task->lower ? task->lower[i] : -INFINITY, upper = task->upper ? task->upper[i] : INFINITY;
    same = z[i] == fmin(fmax(task->start[i], lower), upper);
  }

  return same;
}
