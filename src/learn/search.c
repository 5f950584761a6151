// Training without gradients: a minimizer of optimize.h over all weights, whose values are the mean cost of whole episodes.
// Tests: tests/unit/test_learn.c.
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "learn/train.h"

// Episodes begin alike for all points of one iteration, and anew in the next: comparisons are fair, and none is learned by heart.
static pbStatus value_of(void *user, const double *z, double *value) {
  pbTrain *t = user;
  double alive;
  for (size_t i = 0; i < t->unknowns; i++) t->theta[t->unknown[i]] = z[i];
  return pbTrain_Evaluate(t, t->theta, pb_drawSearch + 1000 * (uint64_t)t->now->update, t->settings.worlds, value, &alive);
}

pbStatus pbTrain_BeginSearch(pbTrain *t) {
  const pbTrainSettings *s = &t->settings;
  pbOptimizerOptions options = {.method = s->method == pb_trainEs ? pb_methodEs : pb_methodSepCma,
                                .sigma = s->sigma,
                                .population = s->population,
                                .rates = &t->search_rate,
                                .rate_count = 1,
                                .beta1 = s->beta1,
                                .beta2 = s->beta2,
                                .seed = s->seed,
                                .gradient_tolerance = -1,
                                .step_tolerance = -1};

  // no tolerance ends it: all updates are made
  pbProblem problem = {.n = (int)t->unknowns, .user = t, .value = value_of};
  t->search_rate = (pbRate){0, s->rate};

  double *start = pbContext_AllocArray(t->ctx, t->unknowns + 1, sizeof *start);
  if (!start) return pbContext_Fail(t->ctx, pb_no_memory, "no memory for a search over %zu weights", t->unknowns);
  for (size_t i = 0; i < t->unknowns; i++) start[i] = t->theta[t->unknown[i]];
  pbStatus status = pbOptimizer_Create(t->ctx, &problem, &options, start, &t->search);
  pbContext_Free(t->ctx, start);
  PB_TRY(status);

  // all that passes from one iteration to the next
  t->search_size = pbOptimizer_StateSize(t->search);
  t->search_state = pbContext_AllocArray(t->ctx, t->search_size, sizeof(double));
  if (!t->search_state) return pbContext_Fail(t->ctx, pb_no_memory, "no memory for a search over %zu weights", t->unknowns);
  pbOptimizer_Save(t->search, t->search_state);
  return pb_ok;
}

pbStatus pbTrain_Search(pbTrain *t, double *cost) {
  PB_TRY(pbOptimizer_Iterate(t->search));
  pbIterate found = pbOptimizer_Get(t->search);
  if (!isfinite(found.best_value)) return pbTrain_FailAll(t, t->trial);
  *cost = found.value;
  for (size_t i = 0; i < t->unknowns; i++) t->theta[t->unknown[i]] = found.x[i];
  pbOptimizer_Save(t->search, t->search_state);
  return pb_ok;
}
