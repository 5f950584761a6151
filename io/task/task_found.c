// What optimize found, used again: a task that begins there, and its parameters in a model.
// Tests: tests/oracle/test_found.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <pullback/audit.h>

#include "base/context.h"
#include "io/task/task_reader.h"

// ---- a task that begins where another search ended -----------------------------------------------------------------------
// Values have passed through logarithms and scales: what is beyond a bound by rounding is at it.
static pbStatus keep_in_bounds(const pbTask *task, const char *path, double *z) {
  for (int i = 0; i < task->n; i++) {
    double least = task->lower[i], most = task->upper[i], slack = 1e-12 * (1 + fabs(z[i]));
    if (z[i] < least - slack || z[i] > most + slack) {
      char name[256], bound_name[256];
      double value, bound;
      pbTask_Unknown(task, i, z, name, sizeof name, &value);
      pbTask_Unknown(task, i, z[i] < least ? task->lower : task->upper, bound_name, sizeof bound_name, &bound);
      return pbContext_Fail(task->ctx, pb_bad_input, "%.400s: %s is %.7g, %s its bound %.7g in this task", path, name, value,
                            z[i] < least ? "below" : "above", bound);
    }
    z[i] = fmin(fmax(z[i], least), most);
  }

  return pb_ok;
}

// What a run is made from has the file in it, too: a run that was begun elsewhere is not gone on with.
static pbStatus add_to_manifest(pbTask *task, const pbManifest *m) {
  size_t before = task->made_from ? strlen(task->made_from) : 0;
  char *grown = pbContext_Resize(task->ctx, task->made_from, before + m->length + 1);
  if (!grown) return pbContext_Fail(task->ctx, pb_no_memory, "no memory for a task");

  memcpy(grown + before, m->text, m->length + 1);
  task->made_from = grown;

  return pb_ok;
}

static pbStatus begin_at(pbTask *task, const char *path, double *z) {
  pbManifest manifest;
  char *text = NULL;
  pbManifest_Begin(&manifest, task->ctx);
  pbStatus status = pbTask_ReadResult(task, path, z), ended = pbManifest_End(&manifest, &text);

  if (status == pb_ok) status = ended;
  if (status == pb_ok) status = keep_in_bounds(task, path, z);
  if (status == pb_ok) status = add_to_manifest(task, &manifest);
  pbContext_Free(task->ctx, text);
  PB_TRY(status);

  memcpy(task->start, z, (size_t)task->n * sizeof *z);
  task->moved = true;

  return pb_ok;
}

pbStatus pbTask_StartAt(pbTask *task, const char *path) {
  double *z = pbContext_AllocArray(task->ctx, (size_t)task->n + 1, sizeof *z);
  if (!z) return pbContext_Fail(task->ctx, pb_no_memory, "no memory for a task");
  if (task->n) memcpy(z, task->start, (size_t)task->n * sizeof *z);

  pbStatus status = begin_at(task, path, z);
  pbContext_Free(task->ctx, z);

  return status;
}

// ---- parameters of a model -------------------------------------------------------------------------------------------------
static pbStatus name_again(pbTaskReader *r, const char *name) {
  pbTaskReader_Enter(r, name);
  pbStatus status = pbTaskReader_FailAgain(r, pb_bad_input);
  pbTaskReader_Leave(r);
  return status;
}

static pbStatus put_value(pbTaskReader *r, const char *name, const json_t *value, double *theta) {
  pbParam p;
  if (!json_is_number(value)) return pbTaskReader_FailAt(r, name, "expected a number");
  if (pbModel_Param(r->ctx, r->model, name, &p) != pb_ok) return name_again(r, name);
  if (p.rows * p.cols != 1)
    return pbTaskReader_FailAt(r, name, "expected the name of one number, as \"%s\" has %d", name, p.rows * p.cols);

  theta[p.offset] = json_number_value(value);

  return pb_ok;
}

static pbStatus put_values(pbTaskReader *r, const json_t *root, double *theta, bool *recompute) {
  const json_t *found = json_object_get(root, "parameters");
  const char *name, *constants = json_string_value(json_object_get(root, "constants"));
  json_t *value;

  pbTaskReader_Enter(r, "parameters");
  if (!json_is_array(json_object_get(root, "variables")) || (found && !json_is_object(found)))
    return pbTaskReader_Fail(r, pb_bad_input, "expected an object {name: number}: this is no result of an optimization");
  if (!found)
    return pbTaskReader_Fail(r, pb_bad_input,
                             "is missing: the result is of an earlier version; give its task instead of the model");

  json_object_foreach((json_t *)found, name, value) PB_TRY(put_value(r, name, value, theta));
  pbTaskReader_Leave(r);
  *recompute = constants && strcmp(constants, "recompute") == 0;

  return pb_ok;
}

pbStatus pbModel_ReadResult(pbContext *ctx, const pbModel *model, const char *path, double *theta, bool *recompute) {
  pbTaskReader r;
  char *text = NULL;
  json_t *root = NULL;
  size_t count = pbModel_ParamSize(model);
  double *now = pbContext_AllocArray(ctx, count + 1, sizeof *now);
  if (!now) return pbContext_Fail(ctx, pb_no_memory, "no memory for parameters");

  memcpy(now, theta, count * sizeof *now);
  pbStatus status = pbTaskReader_Open(ctx, path, NULL, &r, &text);
  r.model = model;
  if (status == pb_ok) status = pbTaskReader_Parse(&r, &root);
  if (status == pb_ok) status = put_values(&r, root, now, recompute);
  if (status == pb_ok) memcpy(theta, now, count * sizeof *now);

  // also of a file that could not be read
  json_decref(root);
  pbTaskReader_End(&r);
  pbContext_Free(ctx, text);
  pbContext_Free(ctx, now);

  return status;
}
