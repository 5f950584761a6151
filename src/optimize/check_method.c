// What a method cannot do with a task, before a run.
// Tests: tests/unit/test_ilqr.c, tests/unit/test_gaps.c, tests/unit/test_task.c.
#include "base/context.h"
#include "optimize/shoot.h"
#include "optimize/sweep.h"
#include "optimize/task.h"

static pbStatus refuse_gauss_newton(const pbTask *task) {
  const pbTerm *term = NULL;
  for (int t = 0; t < task->trajectory_count && !term; t++) {
    if (!task->trajectories[t].test) term = pbTermSet_NoSquares(&task->trajectories[t].terms);
  }

  return pbContext_Fail(task->ctx, pb_bad_input,
                        "%.400s: optimizer.method: gauss-newton needs a loss that is a sum of squares, and term '%.100s' is none "
                        "(types squared, above and below with weights >= 0 are); lbfgs takes any",
                        task->name, term ? term->name : "");
}

// States that nobody looks at would be ignored.
static pbStatus check_states(const pbTask *task, pbMethod method) {
  bool used = method == pb_methodIlqr || task->before.iterations || task->moved;
  if (used) return pb_ok;

  for (int t = 0; t < task->trajectory_count; t++) {
    if (task->trajectories[t].given.count)
      return pbContext_Fail(task->ctx, pb_bad_input,
                            "%.400s: states: only a search by \"ilqr\" begins with states that are no run; its method is \"%s\"",
                            task->name, pbMethod_Name(method));
  }

  return pb_ok;
}

pbStatus pbTask_CheckMethod(const pbTask *task, const char *asked) {
  pbMethod method = task->optimizer.method;
  if (asked && !pbMethod_Find(asked, &method)) return pb_ok;  // who runs it says so

  PB_TRY(check_states(task, method));
  if (method == pb_methodGaussNewton && task->m == 0) return refuse_gauss_newton(task);

  const char *why = pbTaskSweep_WhyNot(task);
  if (why && method == pb_methodGaussNewton && task->jacobian == pb_jacobianSweep)
    return pbContext_Fail(task->ctx, pb_bad_input, "%.400s: optimizer.jacobian: a sweep is not possible: %s", task->name, why);

  why = method == pb_methodIlqr ? pbTaskShooting_WhyNot(task) : NULL;
  return why ? pbContext_Fail(task->ctx, pb_bad_input, "%.400s: optimizer.method: ilqr is not possible: %s", task->name, why)
             : pb_ok;
}
