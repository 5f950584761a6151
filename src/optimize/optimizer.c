// The front of all minimizers: their table, options and their defaults, the saved state. What they share: evaluation.c.
// Tests: tests/unit/test_optimize.c.
#include "optimize/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include <pullback/random.h>
#include "base/suggest.h"
#include "elementary/elementary.h"

static const pbMinimizer *const methods[pb_methodCount] = {&pbMinimizer_Adam,  &pbMinimizer_Lbfgs,   &pbMinimizer_GaussNewton,
                                                           &pbMinimizer_Cmaes, &pbMinimizer_Es,      &pbMinimizer_SepCma,
                                                           &pbMinimizer_Ilqr,  &pbMinimizer_NewtonCg};

const char *pbMethod_Name(pbMethod method) { return (unsigned)method < pb_methodCount ? methods[method]->name : "unknown"; }

bool pbMethod_Find(const char *name, pbMethod *method) {
  for (int i = 0; i < pb_methodCount; i++) {
    if (strcmp(name, methods[i]->name) != 0) continue;
    *method = (pbMethod)i;
    return true;
  }

  return false;
}

const char *pbMethod_Unknown(const char *name, char *text, size_t size) {
  pbSuggest near = pbSuggest_For(name);
  char hint[64];
  for (int i = 0; i < pb_methodCount; i++) pbSuggest_Offer(&near, methods[i]->name);
  size_t used = (size_t)snprintf(text, size, "unknown method '%.60s'%s (", name, pbSuggest_Write(&near, hint, sizeof hint));

  // All of them, "a, b or c".
  for (int i = 0; i < pb_methodCount && used < size; i++) {
    const char *before = i == 0 ? "" : ", ";
    if (i == pb_methodCount - 1) before = " or ";
    used += (size_t)snprintf(text + used, size - used, "%s%s", before, methods[i]->name);
  }

  if (used < size) snprintf(text + used, size - used, ")");
  return text;
}

const char *pbOutcome_Text(pbOutcome outcome) {
  static const char *const texts[pb_outcomeCount] = {"running", "the gradient is zero", "the steps have become tiny",
                                                     "no better point could be found"};
  return (unsigned)outcome < pb_outcomeCount ? texts[outcome] : "unknown";
}

// ---- life -----------------------------------------------------------------------------------------------------------
static void set_defaults(pbOptimizerOptions *p, int n) {
  // beta1 and beta2: zero is the default, below zero is none.
  if (p->beta1 == 0) p->beta1 = 0.9;
  if (p->beta2 == 0) p->beta2 = 0.999;
  p->beta1 = fmax(p->beta1, 0);
  p->beta2 = fmax(p->beta2, 0);

  // Of L-BFGS, Gauss-Newton and CMA-ES (Hansen's population).
  if (p->epsilon == 0) p->epsilon = 1e-8;
  if (p->memory <= 0) p->memory = 10;
  if (p->damping <= 0) p->damping = p->method == pb_methodIlqr ? 0 : 1e-3;
  bool es = p->method == pb_methodEs;
  if (p->sigma <= 0) p->sigma = es ? 0.1 : 1;
  if (p->population < 4) p->population = 4 + (int)floor(3 * pbLog(n > 1 ? n : 1));

  // Pairs.
  if (es) p->population += p->population % 2;

  // Below zero: never satisfied.
  if (p->gradient_tolerance == 0) p->gradient_tolerance = 1e-9;
  if (p->step_tolerance == 0) p->step_tolerance = 1e-12;
  if (p->restart_size <= 0) p->restart_size = 0.01;
}

static pbStatus check_problem(pbContext *ctx, const pbProblem *p, const pbStructure *structure, const pbOptimizerOptions *options,
                              const double *start) {
  if (p->n < 1) return pbContext_Fail(ctx, pb_bad_argument, "there is nothing to vary: 0 unknowns");
  if ((unsigned)options->method >= pb_methodCount)
    return pbContext_Fail(ctx, pb_bad_argument, "unknown method %d", (int)options->method);

  // What the method needs.
  const pbMinimizer *method = methods[options->method];
  if (method->needs_gradient && !p->gradient) return pbContext_Fail(ctx, pb_bad_argument, "%s needs a gradient", method->name);
  if (method->needs_residuals && (!p->residuals || p->m == 0))
    return pbContext_Fail(ctx, pb_bad_argument, "%s needs residuals: a loss that is a sum of squares", method->name);
  if (method->needs_shooting && !structure->shooting)
    return pbContext_Fail(ctx, pb_bad_argument, "%s needs trajectories: it is a method of tasks", method->name);
  if (!p->value && !p->gradient && !method->needs_residuals && !method->needs_shooting)
    return pbContext_Fail(ctx, pb_bad_argument, "%s needs a value", method->name);

  // What a search would take for data must be in order.
  for (int i = 0; i < p->n; i++) {
    if (!isfinite(start[i])) return pbContext_Fail(ctx, pb_bad_argument, "start of unknown %d is not finite", i);
    if (p->lower && p->upper && !(p->lower[i] <= p->upper[i]))
      return pbContext_Fail(ctx, pb_bad_argument, "bounds of unknown %d are not in order", i);
  }

  for (int i = 0; i < options->rate_count; i++) {
    int least = i ? options->rates[i - 1].iteration : 0;
    if (!(options->rates[i].rate > 0) || options->rates[i].iteration < least)
      return pbContext_Fail(ctx, pb_bad_argument, "learning rates must be positive, their iterations ascending");
  }

  return pb_ok;
}

static pbStatus allocate_optimizer(pbOptimizer *o) {
  size_t n = (size_t)o->n, work = o->method->work_size(o);
  o->state_size = PB_HEADER_DOUBLES + 2 * n + o->method->state_size(o);

  // Bounds and rates are copied: the caller's need not stay.
  o->lower = pbContext_AllocArray(o->ctx, n, sizeof(double));
  o->upper = pbContext_AllocArray(o->ctx, n, sizeof(double));
  o->rates = pbContext_AllocArray(o->ctx, (size_t)o->options.rate_count + 1, sizeof *o->rates);
  o->state = pbContext_AllocArray(o->ctx, o->state_size, sizeof(double));
  o->work = work < n ? NULL : pbContext_AllocArray(o->ctx, work, sizeof(double));

  // work is none, too, where the problem is too large for the method.
  if (!o->lower || !o->upper || !o->rates || !o->state || !o->work)
    return pbContext_Fail(o->ctx, pb_no_memory, "no memory for %s with %d unknowns and %zu residuals", o->method->name, o->n,
                          o->problem.m);

  return pb_ok;
}

static void begin_optimizer(pbOptimizer *o, const double *start) {
  for (int i = 0; i < o->n; i++) {
    o->lower[i] = o->problem.lower ? o->problem.lower[i] : -INFINITY;
    o->upper[i] = o->problem.upper ? o->problem.upper[i] : INFINITY;
    PB_ASSERT(o->lower[i] <= o->upper[i]);
  }

  for (int i = 0; i < o->options.rate_count; i++) o->rates[i] = o->options.rates[i];
  if (o->options.rate_count == 0) o->rates[o->options.rate_count++] = (pbRate){0, 1e-2};

  // From here on our copies of what was the caller's.
  o->options.rates = o->rates;
  o->problem.lower = o->lower;
  o->problem.upper = o->upper;

  o->h = (pbOptimizerHeader *)o->state;
  *o->h = (pbOptimizerHeader){.value = INFINITY, .best_value = INFINITY, .gradient_norm = NAN, .step_norm = NAN};

  // Header, x, best, then what the method adds.
  o->x = o->state + PB_HEADER_DOUBLES;
  o->best = o->x + o->n;
  o->own = o->best + o->n;
  PB_ASSERT(o->own + o->method->state_size(o) == o->state + o->state_size);

  // The start is moved within its bounds.
  memcpy(o->x, start, (size_t)o->n * sizeof *start);
  pbOptimizer_Project(o, o->x);
  memcpy(o->best, o->x, (size_t)o->n * sizeof *start);
  o->method->begin(o);
}

pbStatus pbOptimizer_Create(pbContext *ctx, const pbProblem *problem, const pbOptimizerOptions *options, const double *start,
                            pbOptimizer **optimizer) {
  return pbOptimizer_CreateWith(ctx, problem, &(pbStructure){0}, options, start, optimizer);
}

pbStatus pbOptimizer_CreateWith(pbContext *ctx, const pbProblem *problem, const pbStructure *structure,
                                const pbOptimizerOptions *options, const double *start, pbOptimizer **optimizer) {
  *optimizer = NULL;
  PB_TRY(check_problem(ctx, problem, structure, options, start));
  pbOptimizer *o = pbContext_Alloc(ctx, sizeof *o);
  if (!o) return pbContext_Fail(ctx, pb_no_memory, "no memory for an optimizer");
  *o = (pbOptimizer){.ctx = ctx, .problem = *problem, .options = *options, .method = methods[options->method], .n = problem->n};
  if (structure->normal) o->normal = *structure->normal;
  if (structure->shooting) o->shooting = *structure->shooting;
  set_defaults(&o->options, o->n);

  pbStatus status = allocate_optimizer(o);

  if (status != pb_ok) {
    pbOptimizer_Destroy(o);
    return status;
  }

  begin_optimizer(o, start);
  *optimizer = o;
  return pb_ok;
}

void pbOptimizer_Destroy(pbOptimizer *o) {
  if (!o) return;
  pbContext_Free(o->ctx, o->lower);
  pbContext_Free(o->ctx, o->upper);
  pbContext_Free(o->ctx, o->rates);
  pbContext_Free(o->ctx, o->state);
  pbContext_Free(o->ctx, o->work);
  pbContext_Free(o->ctx, o);
}

// As if begun at x, but for the counts and the best point.
static void begin_anew(pbOptimizer *o) {
  pbOptimizer_Project(o, o->x);
  memset(o->own, 0, o->method->state_size(o) * sizeof *o->own);
  o->method->begin(o);
  o->h->begun = 0;
  o->h->outcome = pb_running;
}

// Stuck: forget all but the best point, and go on beside it. What is random follows from the seed and the number of restarts.
static void restart(pbOptimizer *o) {
  pbOptimizerHeader *h = o->h;
  h->restarts++;
  pbRng rng = pbRng_Seed(o->options.seed ^ ((uint64_t)h->restarts << 32));
  for (int i = 0; i < o->n; i++) o->x[i] = o->best[i] + o->options.restart_size * (1 + fabs(o->best[i])) * pbRng_Normal(&rng);

  begin_anew(o);
}

void pbOptimizer_MoveTo(pbOptimizer *o, const double *x) {
  memcpy(o->x, x, (size_t)o->n * sizeof *x);
  pbOptimizer_Project(o, o->x);
  o->h->value = o->h->best_value = INFINITY;
  o->h->outcome = pb_running;
}

void pbOptimizer_Anew(pbOptimizer *o, const double *x) {
  pbOptimizer_MoveTo(o, x);
  begin_anew(o);
}

void pbOptimizer_Leave(pbOptimizer *o, const double *x) {
  PB_ASSERT(o->h->outcome != pb_running);
  memcpy(o->x, x, (size_t)o->n * sizeof *x);
  o->h->left++;
  begin_anew(o);
}

pbStatus pbOptimizer_Iterate(pbOptimizer *o) {
  // A search that ended is begun again beside its best point, as often as it may.
  if (o->h->outcome != pb_running) return pb_ok;
  PB_TRY(o->method->iterate(o));
  o->h->iteration++;
  if (o->h->outcome != pb_running && o->h->restarts < o->options.restarts) restart(o);

  return pb_ok;
}

pbIterate pbOptimizer_Get(const pbOptimizer *o) {
  const pbOptimizerHeader *h = o->h;
  return (pbIterate){.iteration = (int)h->iteration,
                     .values = (int64_t)h->values,
                     .gradients = (int64_t)h->gradients,
                     .jacobians = (int64_t)h->jacobians,
                     .products = (int64_t)h->products,
                     .differences = (int64_t)h->differences,
                     .x = o->x,
                     .best = o->best,
                     .value = h->value,
                     .best_value = h->best_value,
                     .gradient_norm = h->gradient_norm,
                     .step_norm = h->step_norm,
                     .outcome = (pbOutcome)h->outcome};
}

int pbOptimizer_Left(const pbOptimizer *o) { return (int)o->h->left; }

size_t pbOptimizer_StateSize(const pbOptimizer *o) { return o->state_size; }

void pbOptimizer_Save(const pbOptimizer *o, double *state) { memcpy(state, o->state, o->state_size * sizeof *state); }

pbStatus pbOptimizer_Restore(pbOptimizer *o, const double *state) {
  const pbOptimizerHeader *h = (const pbOptimizerHeader *)state;
  if (!(h->iteration >= 0 && h->iteration < 1e9) || !(h->outcome >= 0 && h->outcome < pb_outcomeCount) ||
      !(h->left >= 0 && h->left < 1e9))
    return pbContext_Fail(o->ctx, pb_bad_input, "the saved state of the optimizer is not one");

  // Options and bounds are not part of it: they come from the task again.
  memcpy(o->state, state, o->state_size * sizeof *state);

  return pb_ok;
}
