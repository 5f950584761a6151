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

pbStatus pbTaskReader_Seed(pbTaskReader *r, const json_t *root, uint64_t *seed) {
  double number = 0;
  PB_TRY(pbTaskReader_NotNegative(r, root, "seed", 9007199254740992.0, &number));
  if (floor(number) != number) return pbTaskReader_FailAt(r, "seed", "expected a whole number");

  // up to 2^53 every whole number is a double
  *seed = (uint64_t)number;
  return pb_ok;
}

// What a method's object says, beside its rates. Limits that no sensible task meets keep slips from running for days.
typedef struct Method {
  pbOptimizerOptions o;
  const char *method;
  int iterations, saddle, between, starts, jacobian, hessian;
  double spread;
  bool second_order;
} Method;

static const char *const saddle_words[] = {"leave", "report", NULL}, *const rate_words[] = {"constant", "linear", NULL};
static const char *const jacobian_words[] = {"auto", "dense", "sweep", NULL};       // in the order of pbJacobianKind
static const char *const hessian_words[] = {"auto", "exact", "differences", NULL};  // in the order of pbHessianKind
static const pbTaskKey method_keys[] = {PB_KEY("method", Text, Method, method),
                                        PB_KEY_FROM("iterations", Int, Method, iterations, 0, 100000000),
                                        PB_KEY_PART("rate"),
                                        PB_KEY_WORD("rate_interpolation", Method, between, rate_words),
                                        PB_KEY_FROM("clip", Real, Method, o.clip, 0, 1e300),
                                        PB_KEY_FROM("beta1", Real, Method, o.beta1, 0, 0.999999999),
                                        PB_KEY_FROM("beta2", Real, Method, o.beta2, 0, 0.999999999),
                                        PB_KEY_FROM("epsilon", Real, Method, o.epsilon, 0, 1),
                                        PB_KEY_FROM("memory", Int, Method, o.memory, 1, 1000),
                                        PB_KEY_FROM("damping", Real, Method, o.damping, 0, 1e12),
                                        PB_KEY_FROM("sigma", Real, Method, o.sigma, 0, 1e12),
                                        PB_KEY_FROM("population", Int, Method, o.population, 4, 100000),
                                        PB_KEY_FROM("restarts", Int, Method, o.restarts, 0, 1000000),
                                        PB_KEY_FROM("restart_size", Real, Method, o.restart_size, 0, 1e6),
                                        PB_KEY("gradient_tolerance", Real, Method, o.gradient_tolerance),
                                        PB_KEY("step_tolerance", Real, Method, o.step_tolerance),
                                        PB_KEY_WORD("saddle", Method, saddle, saddle_words),
                                        PB_KEY_WORD("jacobian", Method, jacobian, jacobian_words),
                                        PB_KEY_WORD("hessian", Method, hessian, hessian_words),
                                        PB_KEY("second_order", Bool, Method, second_order),
                                        PB_KEY_FROM("starts", Int, Method, starts, 1, 10000),
                                        PB_KEY_FROM("start_spread", Real, Method, spread, 0, 1e6),
                                        PB_KEYS_END};

pbStatus pbTask_ReadMethod(pbTaskReader *r, const json_t *object, pbTask *task) {
  Method m = {.o = task->optimizer, .method = "lbfgs", .iterations = task->iterations, .starts = 1, .spread = 0.3};
  char text[200];
  PB_TRY(pbTaskReader_Fill(r, object, method_keys, &m));
  if (!pbMethod_Find(m.method, &m.o.method))
    return pbTaskReader_FailAt(r, "method", "%s", pbMethod_Unknown(m.method, text, sizeof text));

  if (json_object_get(object, "second_order") && m.o.method != pb_methodIlqr)
    return pbTaskReader_FailAt(r, "second_order", "method \"%s\" has none: ilqr does", pbMethod_Name(m.o.method));

  if (json_object_get(object, "hessian") && m.o.method != pb_methodNewtonCg)
    return pbTaskReader_FailAt(r, "hessian", "method \"%s\" has none: newton-cg does", pbMethod_Name(m.o.method));

  // to the minimizer zero means its default, a negative value zero
  if (m.o.beta1 == 0 && json_object_get(object, "beta1")) m.o.beta1 = -1;
  if (m.o.beta2 == 0 && json_object_get(object, "beta2")) m.o.beta2 = -1;
  m.o.linear_rates = m.between == 1;

  task->optimizer = m.o;
  task->iterations = m.iterations;
  task->report_saddles = m.saddle == 1;
  task->jacobian = (pbJacobianKind)m.jacobian;
  task->second_order = m.second_order;
  task->hessian = (pbHessianKind)m.hessian;

  task->start_count = m.starts;
  task->start_spread = m.spread;
  return read_rates(r, object, task);
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
  // the minimizer has the last two by itself, under its own names
  static const pbTaskKey keys[] = {PB_KEY("loss", Real, pbTask, stop.loss), PB_KEY_PART("terms"),
                                   PB_KEY("gradient", Real, pbTask, optimizer.gradient_tolerance),
                                   PB_KEY("step", Real, pbTask, optimizer.step_tolerance), PB_KEYS_END};
  if (!object) return pb_ok;
  pbTaskReader_Enter(r, "stop");
  PB_TRY(pbTaskReader_Fill(r, object, keys, task));
  task->stop.has_loss = json_object_get(object, "loss") != NULL;
  PB_TRY(stop_terms(r, json_object_get(object, "terms"), task));
  pbTaskReader_Leave(r);
  return pb_ok;
}
