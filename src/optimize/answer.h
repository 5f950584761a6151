// What is asked of a point beside a search (run.c): of its answer, that of the end, or a point on the way.
#ifndef PB_ANSWER_H
#define PB_ANSWER_H

#include "optimize/task.h"

// Of task->result_z, into the result. The loss once more at a finer time step; a simulation that fails there is reported as not
// confirmed.
PB_NODISCARD pbStatus pbAnswer_Confirm(pbTask *task, pbRunResult *result);
// With draws that change: loss and criteria by those that results are told by.
PB_NODISCARD pbStatus pbAnswer_Evaluate(pbTask *task, pbRunResult *result);
// Of what is kept out of a fit; infinite where that fails.
PB_NODISCARD pbStatus pbAnswer_Test(pbTask *task, pbRunResult *result);
PB_NODISCARD pbStatus pbAnswer_LookHowSure(pbTask *task, pbRunResult *result);

// Terms of a point at which the loss cannot be had again.
void pbAnswer_ForgetTerms(pbTask *task);
// The terms at z, by no evaluation of the search.
PB_NODISCARD pbStatus pbAnswer_TermsAside(pbTask *task, const double *z);
// Is z where the task's search began?
bool pbAnswer_IsStart(const pbTask *task, const double *z);

#endif
