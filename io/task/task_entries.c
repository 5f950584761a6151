// What variables of a task are made of: parameters by name, entries with present value and bounds, unknowns of the task.
// Tests: tests/unit/test_task.c, tests/unit/test_task_ties.c.
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "elementary/elementary.h"
#include "io/task/task_variables.h"
#include "model/model.h"

pbStatus pbTask_FindParam(pbTaskReader *r, const char *name, pbParam *param) {
  pbStatus status = pbModel_Param(r->ctx, r->model, name, param);
  return status == pb_ok ? pb_ok : pbTaskReader_FailAgain(r, status);
}

pbStatus pbTask_FindVariedParam(pbTaskReader *r, const char *name, bool recompute, pbParam *p) {
  PB_TRY(pbTask_FindParam(r, name, p));
  if (strcmp(p->name, "timestep") == 0)
    return pbTaskReader_Fail(r, pb_unsupported,
                             "the time step cannot be varied so: expected {\"parameter\": \"timestep\"} among the variables");
  bool follows = p->derived;
  for (size_t i = 0; i < (size_t)p->rows * (size_t)p->cols; i++) follows = follows || pbModel_Follows(r->model, p->offset + i);
  if (follows && recompute)
    return pbTaskReader_Fail(
        r, pb_bad_input, "%s follows from other parameters with \"constants\": \"recompute\"; vary those, or keep the constants",
        p->name);

  return pb_ok;
}

// ---- entries --------------------------------------------------------------------------------------------------------
pbStatus pbTaskEntries_Room(pbTaskReader *r, size_t count, pbTaskEntries *e) {
  // bounded before anything is allocated
  e->count = 0;
  e->index = count > (1u << 22) ? NULL : pbContext_AllocArray(r->ctx, count + 1, sizeof *e->index);
  e->memory = e->index ? pbContext_AllocArray(r->ctx, 3 * count + 1, sizeof(double)) : NULL;
  if (!e->memory) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a variable of %zu numbers", count);

  e->value = e->memory;
  e->lower = e->value + count;
  e->upper = e->lower + count;

  return pb_ok;
}

void pbTaskEntries_Add(pbTaskEntries *e, size_t index, double value, double lower, double upper) {
  int i = e->count++;
  e->index[i] = index;
  e->value[i] = value;
  e->lower[i] = lower;
  e->upper[i] = upper;
}

// ---- unknowns -------------------------------------------------------------------------------------------------------
// Numbers of a variable, in the minimizer's coordinates, appended to the task's.
pbStatus pbTask_AppendUnknowns(pbTaskReader *r, pbTask *task, pbVariable *v, const double *start, const double *lower,
                               const double *upper) {
  double **all[3] = {&task->start, &task->lower, &task->upper};
  const double *from[3] = {start, lower, upper};
  size_t count = (size_t)task->n + (size_t)v->count;

  for (int k = 0; k < 3; k++) {
    double *grown = pbContext_Resize(r->ctx, *all[k], count * sizeof(double));
    if (!grown) return pbTaskReader_Fail(r, pb_no_memory, "no memory for variables");
    *all[k] = grown;
    for (int i = 0; i < v->count; i++) grown[task->n + i] = pbVariable_Scaled(v, from[k][i]);
  }

  v->first = task->n;
  task->n = (int)count;
  return pb_ok;
}
