// "optimizer" and "stop" of a task: the method, its numbers, and when a run ends.
// Tests: tests/unit/test_task.c.
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "io/task/task_reader.h"
#include "optimize/optimizer.h"

// One learning rate, or rows [iteration, rate] that hold from their iteration on.
static pbStatus read_rates(pbTaskReader *r, const json_t *object, pbTask *task) {
  pbTaskNumbers n;
  const json_t *rate = json_object_get(object, "rate");
  if (!rate) return pb_ok;

  pbTaskReader_Enter(r, "rate");
  PB_TRY(pbTaskReader_Numbers(r, rate, &n));

  size_t count = n.nested ? n.rows : 1;
  bool good = n.nested ? n.cols == 2 && count > 0 && n.data[0] == 0 : json_is_number(rate);
  if (good) task->rates = pbContext_AllocArray(r->ctx, count, sizeof *task->rates);
  size_t filled = task->rates ? count : 0;
  for (size_t i = 0; i < filled; i++) {
    double from = n.nested ? n.data[2 * i] : 0, value = n.nested ? n.data[2 * i + 1] : n.data[0];

    // iterations ascend and are small enough for an int
    good &= from >= 0 && from < 1e9 && value > 0 && (i == 0 || from > n.data[2 * i - 2]);
    task->rates[i] = (pbRate){good ? (int)from : 0, value};
  }

  pbContext_Free(r->ctx, n.data);
  if (!good)
    return pbTaskReader_Fail(r, pb_bad_input,
                             "expected a positive number, or rows [iteration, rate] with ascending iterations from 0");
  if (!task->rates) return pbTaskReader_Fail(r, pb_no_memory, "no memory for learning rates");

  task->optimizer.rates = task->rates;
  task->optimizer.rate_count = (int)count;
  pbTaskReader_Leave(r);
  return pb_ok;
}

pbStatus pbTaskReader_NotNegative(pbTaskReader *r, const json_t *object, const char *key, double most, double *out) {
  PB_TRY(pbTaskReader_Real(r, object, key, out));
  if (*out >= 0 && *out <= most) return pb_ok;
  return pbTaskReader_FailAt(r, key, "expected a number from 0 to %g", most);
}

static pbStatus read_saddle(pbTaskReader *r, const json_t *object, pbTask *task) {
  const char *text = "leave";
  PB_TRY(pbTaskReader_Text(r, object, "saddle", &text));
  task->report_saddles = strcmp(text, "report") == 0;
  if (task->report_saddles || strcmp(text, "leave") == 0) return pb_ok;
  return pbTaskReader_FailAt(r, "saddle", "expected \"leave\" or \"report\"");
}

pbStatus pbTask_ReadMethod(pbTaskReader *r, const json_t *object, pbTask *task) {
  static const char *const keys[] = {"method",
                                     "iterations",
                                     "rate",
                                     "rate_interpolation",
                                     "clip",
                                     "beta1",
                                     "beta2",
                                     "epsilon",
                                     "memory",
                                     "damping",
                                     "sigma",
                                     "population",
                                     "restarts",
                                     "restart_size",
                                     "gradient_tolerance",
                                     "step_tolerance",
                                     "saddle",
                                     NULL};
  const char *method = "lbfgs", *between = "constant";
  char text[200];
  pbOptimizerOptions *o = &task->optimizer;

  PB_TRY(pbTaskReader_Keys(r, object, keys));
  PB_TRY(pbTaskReader_Text(r, object, "method", &method));
  if (!pbMethod_Find(method, &o->method))
    return pbTaskReader_FailAt(r, "method", "%s", pbMethod_Unknown(method, text, sizeof text));

  // limits that no sensible task meets keep slips from running for days
  PB_TRY(pbTaskReader_Int(r, object, "iterations", 0, 100000000, &task->iterations));
  PB_TRY(read_rates(r, object, task));
  PB_TRY(pbTaskReader_Text(r, object, "rate_interpolation", &between));
  o->linear_rates = strcmp(between, "linear") == 0;
  if (!o->linear_rates && strcmp(between, "constant") != 0)
    return pbTaskReader_FailAt(r, "rate_interpolation", "expected \"constant\" or \"linear\"");
  PB_TRY(pbTaskReader_NotNegative(r, object, "clip", 1e300, &o->clip));
  PB_TRY(pbTaskReader_NotNegative(r, object, "beta1", 0.999999999, &o->beta1));
  PB_TRY(pbTaskReader_NotNegative(r, object, "beta2", 0.999999999, &o->beta2));

  // to the minimizer zero means its default, a negative value zero
  if (o->beta1 == 0 && json_object_get(object, "beta1")) o->beta1 = -1;
  if (o->beta2 == 0 && json_object_get(object, "beta2")) o->beta2 = -1;
  PB_TRY(pbTaskReader_NotNegative(r, object, "epsilon", 1, &o->epsilon));
  PB_TRY(pbTaskReader_NotNegative(r, object, "damping", 1e12, &o->damping));
  PB_TRY(pbTaskReader_NotNegative(r, object, "sigma", 1e12, &o->sigma));

  PB_TRY(pbTaskReader_Int(r, object, "memory", 1, 1000, &o->memory));
  PB_TRY(pbTaskReader_Int(r, object, "population", 4, 100000, &o->population));
  PB_TRY(pbTaskReader_Int(r, object, "restarts", 0, 1000000, &o->restarts));
  PB_TRY(pbTaskReader_NotNegative(r, object, "restart_size", 1e6, &o->restart_size));
  PB_TRY(read_saddle(r, object, task));
  PB_TRY(pbTaskReader_Real(r, object, "gradient_tolerance", &o->gradient_tolerance));
  return pbTaskReader_Real(r, object, "step_tolerance", &o->step_tolerance);
}

static bool has_term(const pbTask *task, const char *name) {
  for (int t = 0; t < task->trajectory_count; t++) {
    const pbTermSet *set = &task->trajectories[t].terms;
    for (int i = 0; i < set->count; i++) {
      if (strcmp(set->terms[i].name, name) == 0) return true;
    }
  }
  return false;
}

static pbStatus stop_terms(pbTaskReader *r, const json_t *terms, pbTask *task) {
  const char *name;
  json_t *value;
  pbStop *stop = &task->stop;
  if (!terms) return pb_ok;

  pbTaskReader_Enter(r, "terms");
  if (!json_is_object(terms)) return pbTaskReader_Fail(r, pb_bad_input, "expected an object {term: deviation}");

  // names and deviations, side by side
  stop->terms = pbContext_AllocArray(r->ctx, json_object_size(terms) + 1, sizeof *stop->terms);
  stop->deviations = pbContext_AllocArray(r->ctx, json_object_size(terms) + 1, sizeof *stop->deviations);
  if (!stop->terms || !stop->deviations) return pbTaskReader_Fail(r, pb_no_memory, "no memory for stop criteria");

  json_object_foreach((json_t *)terms, name, value) {
    // deviations of a term that is not there would be met by anything
    if (!has_term(task, name)) return pbTaskReader_Fail(r, pb_bad_input, "the loss has no term '%.80s'", name);

    PB_TRY(pbTaskReader_NotNegative(r, terms, name, INFINITY, &stop->deviations[stop->term_count]));
    stop->terms[stop->term_count] = pbContext_CopyText(r->ctx, name);
    if (!stop->terms[stop->term_count++]) return pbTaskReader_Fail(r, pb_no_memory, "no memory for stop criteria");
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

pbStatus pbTask_ReadStop(pbTaskReader *r, const json_t *object, pbTask *task) {
  static const char *const keys[] = {"loss", "terms", "gradient", "step", NULL};
  if (!object) return pb_ok;
  pbTaskReader_Enter(r, "stop");
  PB_TRY(pbTaskReader_Keys(r, object, keys));

  task->stop.has_loss = json_object_get(object, "loss") != NULL;
  PB_TRY(pbTaskReader_Real(r, object, "loss", &task->stop.loss));

  // the minimizer has these two by itself, under its own names
  PB_TRY(pbTaskReader_Real(r, object, "gradient", &task->optimizer.gradient_tolerance));
  PB_TRY(pbTaskReader_Real(r, object, "step", &task->optimizer.step_tolerance));

  PB_TRY(stop_terms(r, json_object_get(object, "terms"), task));
  pbTaskReader_Leave(r);
  return pb_ok;
}
