// A policy in episodes that no training has seen.
// Tests: tests/oracle/test_evaluate.py.
#include <math.h>

#include "base/clock.h"
#include "base/context.h"
#include "learn/train.h"

// Of terms whose value is a sum of squares.
static double root_mean_square(const pbTerm *term, double cost) {
  bool squares = term->type == pb_termSquared || term->type == pb_termAbove || term->type == pb_termBelow;
  return squares && cost / term->weight >= 0 ? sqrt(cost / term->weight) : NAN;
}

static pbStatus list_terms(pbTrain *t) {
  // those of an evaluation before are gone with it
  pbContext_Free(t->ctx, t->test_terms);
  pbContext_Free(t->ctx, t->test_ends);
  t->test_terms = pbContext_AllocArray(t->ctx, (size_t)t->cost.count + 1, sizeof *t->test_terms);
  t->test_ends = pbContext_AllocArray(t->ctx, (size_t)t->end.count + 1, sizeof *t->test_ends);
  if (!t->test_terms || !t->test_ends) return pbContext_Fail(t->ctx, pb_no_memory, "no memory for an evaluation");

  for (int i = 0; i < t->cost.count; i++) {
    const pbTerm *term = &t->cost.terms[i];
    t->test_terms[i] = (pbTrainTestTerm){term->name, t->term_means[i], root_mean_square(term, t->term_means[i])};
  }
  for (int i = 0; i < t->end.count; i++) t->test_ends[i] = (pbTrainTestEnd){t->end.terms[i].name, t->episodes_ended[i]};

  return pb_ok;
}

static pbStatus run_test(pbTrain *t, pbTrainTest *test) {
  double alive = 0;
  PB_TRY(pbTrain_Begin(t, t->options->threads));
  t->began = pb_seconds();

  // starts of a stream that no training draws from
  pbStatus status = pbTrain_Evaluate(t, t->theta, pb_drawTest, test->starts, &test->score, &alive);
  t->task->model->policy->hears = false;
  PB_TRY(status);
  PB_TRY(list_terms(t));

  test->seed = t->settings.seed;
  test->seconds = pbTrain_EpisodeSteps(t) * t->cost.timestep;
  test->ended = (int)lround((1 - alive) * test->starts);
  test->diverged = t->episodes_diverged;
  test->length = t->episode_length;
  test->success = t->success_rate;
  test->distance = t->episode_path;
  test->terms = t->cost.count;
  test->ends = t->end.count;
  test->term = t->test_terms;
  test->end = t->test_ends;

  return pb_ok;
}

pbStatus pbTrain_Test(pbTrain *train, const pbTrainOptions *options, int starts, pbTrainTest *test) {
  static const pbTrainOptions none;
  *test = (pbTrainTest){.starts = starts};
  if (starts < 1 || starts > 100000) return pbContext_Fail(train->ctx, pb_bad_argument, "an evaluation has 1 to 100000 starts");

  // as many lanes as starts
  int own = train->settings.evaluate_starts;
  pbTrain_End(train);
  train->options = options ? options : &none;
  if (train->options->has_seed) train->settings.seed = train->options->seed;
  train->settings.evaluate_starts = starts;
  pbStatus status = run_test(train, test);
  train->settings.evaluate_starts = own;

  return status;
}
