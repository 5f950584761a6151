// The model of a task at a finer time step, for whoever asks whether an answer survives it.
// Tests: tests/unit/test_task.c, tests/oracle/test_task_run.py.
#include "base/assert.h"
#include "base/context.h"
#include "optimize/task.h"

// A part that acts every step and remembers (integrals, delays) counts steps: at another step it is another controller.
static bool counts_steps(const pbPolicyModel *p) { return p->act && p->memory > p->decide_memory; }

pbStatus pbTask_Fine(const pbTask *task, int divide, pbFineModel *fine) {
  const pbModel *m = task->model;
  PB_ASSERT(divide >= 1);
  fine->model = *m;

  // Rows of paths are for the steps that they were written for: led points go through them in the same time.
  if (m->deform) {
    fine->deform = *m->deform;
    fine->deform.lead_parts *= divide;
    fine->model.deform = &fine->deform;
  }

  // A delay would reach further back than as many samples of shorter steps.
  if (divide > 1 && m->nhistory)
    return pbContext_Fail(task->ctx, pb_unsupported,
                          "%s: the model keeps samples of controls or sensors, as many as its time step needs: at h/%d delays "
                          "would reach beyond them",
                          task->name, divide);
  if (!m->policy) return pb_ok;

  if (divide > 1 && counts_steps(m->policy))
    return pbContext_Fail(task->ctx, pb_unsupported,
                          "%s: the part of the policy that acts every step has a memory, which counts steps: at h/%d it would be "
                          "another controller; let it decide with the rest (\"every\")",
                          task->name, divide);

  // Decisions at the same times.
  fine->policy = *m->policy;
  fine->policy.every *= divide;
  fine->model.policy = &fine->policy;

  return pb_ok;
}

void pbFineModel_Start(const pbFineModel *fine, int divide, double *x) {
  if (fine->model.policy) x[state_layout(&fine->model).size - 1] *= divide;
}
