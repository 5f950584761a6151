// The time step as a variable: what of a task stands at times in seconds, or was made from steps of the file's length, would no
// longer be where it is, and is refused. Tests: tests/unit/test_timestep.c.
#include <math.h>

#include "io/task/task_variables.h"
#include "model/model.h"

static const char *refuse_model(const pbModel *m) {
  if (m->deform) return "the model has deformables";
  if (m->policy) return "the model has a policy";
  if (m->nhistory) return "the model has delays, whose samples are of steps";
  return NULL;
}

static const char *refuse_term(const pbTerm *t) {
  if (t->recorded) return "it has a recording";
  if (t->timed) return "it has times in seconds: expected \"final\" or \"all\"";
  if (t->reading && (t->reading->time || t->reading->varied || t->reading->values[0] != 0)) return "it has a delay";
  if (t->discount != 0) return "it has a discount";
  return t->hosted ? "it is a function of the calling program" : NULL;
}

static pbStatus check_trajectory(pbTaskReader *r, const pbTask *task, const pbTrajectory *tr) {
  if (tr->recorded) return pbTaskReader_Fail(r, pb_unsupported, "the time step cannot be varied: controls are a recording");
  if (!pbPoses_AreModels(task, tr))
    return pbTaskReader_Fail(r, pb_unsupported, "the time step cannot be varied: mocap bodies follow a path");

  for (int i = 0; i < tr->terms.count; i++) {
    const char *why = refuse_term(&tr->terms.terms[i]);
    if (why)
      return pbTaskReader_Fail(r, pb_unsupported, "the time step cannot be varied beside term '%.80s': %s",
                               tr->terms.terms[i].name, why);
  }

  return pb_ok;
}

// A step that may become as long as it likes is a simulation of nothing.
static pbStatus check_bounds(pbTaskReader *r, const pbTask *task, const pbVariable *v) {
  if (isfinite(task->upper[v->first])) return pb_ok;
  return pbTaskReader_Fail(r, pb_bad_input, "variable '%.80s': expected \"upper\", the longest time step that is meant", v->name);
}

static pbStatus vary(pbTaskReader *r, pbTask *task, const pbVariable *v) {
  const char *why = refuse_model(task->model);
  PB_TRY(check_bounds(r, task, v));
  if (why) return pbTaskReader_Fail(r, pb_unsupported, "the time step cannot be varied: %s", why);

  for (int t = 0; t < task->trajectory_count; t++) {
    pbTermSet *set = &task->trajectories[t].terms;
    PB_TRY(check_trajectory(r, task, &task->trajectories[t]));
    pbContext_Free(r->ctx, set->timestep_bar);
    set->timestep_bar = pbContext_AllocArray(r->ctx, 1, sizeof(double));
    if (!set->timestep_bar) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a variable");
  }
  task->timestep_varies = true;

  return pb_ok;
}

pbStatus pbTask_VaryTimestep(pbTaskReader *r, pbTask *task) {
  size_t at = (size_t)(task->model->timestep - task->model->theta0);
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    if (v->kind == pb_varyParam && v->index_count == 1 && v->index[0] == at) PB_TRY(vary(r, task, v));
  }

  return pb_ok;
}
