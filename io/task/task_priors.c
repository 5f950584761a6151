// What is known of variables before anything is measured: "prior".
// Tests: tests/unit/test_uncertainty.c.
#include <math.h>

#include "base/context.h"
#include "elementary/elementary.h"
#include "io/task/task_variables.h"
#include "optimize/inertia.h"

static pbStatus allocate(pbTaskReader *r, pbTask *task) {
  size_t n = (size_t)task->n + 1;
  if (task->prior_at) return pb_ok;
  task->prior_at = pbContext_AllocArray(r->ctx, n, sizeof(double));
  task->prior_weight = pbContext_AllocArray(r->ctx, n, sizeof(double));
  return task->prior_at && task->prior_weight ? pb_ok : pbTaskReader_Fail(r, pb_no_memory, "no memory for a prior");
}

// The second moments' logarithms are numbers without unit, as the mass's is, of which one is half; what has lengths is relative
// to the body's own.
static double unit_of(const pbTask *task, const pbVariable *v, int k) {
  const double *z = task->start + v->first;
  if (v->kind == pb_varyInertia && k == 0) return 0.5;
  return v->kind == pb_varyInertia && k > 3 ? pbExp((z[1] + z[2] + z[3]) / 3) : 1;
}

// Of a logarithm sigma is relative; of the minimizer's coordinate it is a multiple.
static pbStatus put_prior(pbTaskReader *r, pbTask *task, const pbVariable *v, int k, double mean, double sigma) {
  int i = v->first + k;
  bool positive = !v->logarithm || mean > 0;
  if (!(sigma > 0)) return pbTaskReader_FailAt(r, "sigma", "expected standard deviations above zero, found %.12g", sigma);
  if (!positive) return pbTaskReader_FailAt(r, "mean", "a logarithm needs a positive mean, found %.12g", mean);

  bool own = v->kind == pb_varyInertia;
  double at = v->logarithm && !own ? pbLog(mean) : mean;
  task->prior_at[i] = own ? task->start[i] : at / v->scale;
  task->prior_weight[i] = (own ? 1 : v->scale) / (sigma * unit_of(task, v, k));
  task->prior_count++;

  return pb_ok;
}

static pbStatus read_prior(pbTaskReader *r, const json_t *prior, pbTask *task, const pbVariable *v) {
  static const char *const keys[] = {"mean", "sigma", NULL};
  size_t count = (size_t)v->count;
  if (json_is_object(prior)) PB_TRY(pbTaskReader_Keys(r, prior, keys));
  if (!json_is_object(prior) || !json_object_get(prior, "sigma"))
    return pbTaskReader_Fail(r, pb_bad_input, "expected an object {\"sigma\": ..., \"mean\": ...}");

  // directions have no mean, and an inertia is its own unit
  if (v->row_count) return pbTaskReader_Fail(r, pb_unsupported, "an axis or quaternion has no prior");
  if (v->kind == pb_varyInertia && json_object_get(prior, "mean"))
    return pbTaskReader_FailAt(r, "mean", "that of a body's inertia is its start");

  double *numbers = pbContext_AllocArray(r->ctx, 2 * count + 1, sizeof *numbers), *mean = numbers, *sigma = numbers + count;
  if (!numbers) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a prior");

  // means that are not given are the start
  for (size_t k = 0; k < count; k++) {
    char name[256];
    pbTask_Unknown(task, v->first + (int)k, task->start, name, sizeof name, &mean[k]);
  }

  pbStatus status = pbTaskReader_Spread(r, prior, "mean", count, mean);
  if (status == pb_ok) status = pbTaskReader_Spread(r, prior, "sigma", count, sigma);
  for (size_t k = 0; status == pb_ok && k < count; k++) status = put_prior(r, task, v, (int)k, mean[k], sigma[k]);
  pbContext_Free(r->ctx, numbers);

  return status;
}

pbStatus pbTask_ReadPriors(pbTaskReader *r, const json_t *list, pbTask *task) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *prior = json_object_get(json_array_get(list, i), "prior");
    if (!prior || task->variables[i].count == 0) continue;

    pbTaskReader_EnterAt(r, i);
    pbTaskReader_Enter(r, "prior");
    PB_TRY(allocate(r, task));
    PB_TRY(read_prior(r, prior, task, &task->variables[i]));
    pbTaskReader_Leave(r);
    pbTaskReader_Leave(r);
  }

  return pb_ok;
}
