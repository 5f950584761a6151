// The loop of a training: collect, gradient, update, evaluate, save; stopped at any moment, it goes on to the same bits.
// Tests: tests/unit/test_learn.c, tests/oracle/test_train.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/context.h"
#include "learn/train.h"
#include "model/policy_data.h"

// ---- methods ----------------------------------------------------------------------------------------------------------
static pbStatus update_gradient(pbTrain *t, bool critic, pbTrainRow *row) {
  pbTrain_ChooseWindow(t);
  PB_TRY(pbTrain_Collect(t));
  PB_TRY(pbTrain_Observe(t));
  PB_TRY(pbTrain_Gradient(t, critic));
  pbTrain_Agree(t);
  if (t->settings.mix) PB_TRY(pbTrain_Mix(t));
  row->cost = pbTrain_MeanCost(t);
  row->dropped = t->dropped;
  row->norm = pbTrain_Adam(t);

  if (critic) {
    PB_TRY(pbTrain_MakeTargets(t));
    PB_TRY(pbTrain_FitCritic(t, &row->value));
  }
  PB_TRY(pbTrain_Normalize(t));
  pbTrain_Advance(t);

  return pb_ok;
}

static pbStatus update_bptt(pbTrain *t, pbTrainRow *row) { return update_gradient(t, false, row); }
static pbStatus update_shac(pbTrain *t, pbTrainRow *row) { return update_gradient(t, true, row); }

static pbStatus update_ppo(pbTrain *t, pbTrainRow *row) {
  PB_TRY(pbTrain_Collect(t));
  PB_TRY(pbTrain_Observe(t));
  row->cost = pbTrain_MeanCost(t);
  row->dropped = t->dropped;
  PB_TRY(pbTrain_Ppo(t, &row->norm));
  PB_TRY(pbTrain_FitCritic(t, &row->value));
  PB_TRY(pbTrain_Normalize(t));
  pbTrain_Advance(t);

  return pb_ok;
}

static pbStatus update_search(pbTrain *t, pbTrainRow *row) { return pbTrain_Search(t, &row->cost); }

static const struct TrainMethod {
  const char *name;
  pbStatus (*update)(pbTrain *t, pbTrainRow *row);
} methods[pb_trainMethodCount] = {[pb_trainBptt] = {"bptt", update_bptt},
                                  [pb_trainShac] = {"shac", update_shac},
                                  [pb_trainPpo] = {"ppo", update_ppo},
                                  [pb_trainEs] = {"es", update_search},
                                  [pb_trainSepCma] = {"sep-cma", update_search}};

const char *pbTrainMethod_Name(pbTrainMethod method) {
  return method >= 0 && method < pb_trainMethodCount ? methods[method].name : NULL;
}

bool pbTrainMethod_Named(const char *name, pbTrainMethod *method) {
  for (int i = 0; i < pb_trainMethodCount; i++) {
    if (strcmp(methods[i].name, name) != 0) continue;
    *method = (pbTrainMethod)i;
    return true;
  }

  return false;
}

// ---- what is kept -----------------------------------------------------------------------------------------------------

// Segments, then each update's row with its terms.
static void copy_kept(pbTrain *t) {
  double *out = t->kept;
  for (int i = 0; i < t->segments; i++) {
    memcpy(out, t->segment[i].data, t->segment[i].count * sizeof *out);
    out += t->segment[i].count;
  }
  for (int k = 0; k < (int)pbTrain_MostRows(t); k++, out += pbTrain_RowSize(t)) {
    memcpy(out, t->rows + k, sizeof *t->rows);
    memcpy(out + PB_TRAIN_COLUMNS, pbTrain_TermRow(t, k, false), 2 * (size_t)t->cost.count * sizeof *out);
  }
  PB_ASSERT(out == t->kept + t->kept_size);
}

static void put_kept(pbTrain *t) {
  const double *in = t->kept;
  for (int i = 0; i < t->segments; i++) {
    memcpy(t->segment[i].data, in, t->segment[i].count * sizeof *in);
    in += t->segment[i].count;
  }
  for (int k = 0; k < (int)pbTrain_MostRows(t); k++, in += pbTrain_RowSize(t)) {
    memcpy(t->rows + k, in, sizeof *t->rows);
    memcpy(pbTrain_TermRow(t, k, false), in + PB_TRAIN_COLUMNS, 2 * (size_t)t->cost.count * sizeof *in);
  }
}

static pbStatus restore_kept(pbTrain *t, const char *file) {
  double seed = t->now->seed, method = t->now->method;
  put_kept(t);

  const pbTrainNumbers *n = t->now;
  bool whole = n->update >= 0 && n->update < (double)pbTrain_MostRows(t) && n->update == floor(n->update) && n->level >= 0 &&
               n->level < t->agreement.levels && n->level == floor(n->level);
  if (!whole) return pbContext_Fail(t->ctx, pb_bad_input, "%.400s: is damaged; remove it or start with --fresh", file);
  if (t->now->seed != seed || t->now->method != method)
    return pbContext_Fail(t->ctx, pb_bad_input,
                          "%.400s: holds a training by another method or --seed; remove it or start with --fresh", file);

  return t->search ? pbOptimizer_Restore(t->search, t->search_state) : pb_ok;
}

static pbStatus save(pbTrain *t, const pbRunStore *store) {
  t->saved = pb_seconds();
  size_t ahead = (pbTrain_MostRows(t) - (size_t)t->now->update) * pbTrain_RowSize(t);
  return store ? store->save(store->user, t->kept, t->kept_size - ahead) : pb_ok;
}

// ---- the loop ---------------------------------------------------------------------------------------------------------
static bool better(const pbTrain *t, double score) { return !t->now->evaluated || score < t->now->best_score; }

// The best policy is that of the best evaluation; its starts are drawn as those of training are, and are never the test's.
static pbStatus evaluate(pbTrain *t, pbTrainRow *row) {
  PB_TRY(pbTrain_Evaluate(t, t->theta, pb_drawEvaluation, t->settings.evaluate_starts, &row->score, &row->alive));
  t->last_score = row->score;
  row->length = t->episode_length;
  row->success = t->success_rate;
  if (!better(t, row->score)) return pb_ok;

  if (!t->now->evaluated) t->now->first_score = row->score;
  t->now->evaluated = 1;
  t->now->best_score = row->score;
  t->now->best_alive = row->alive;
  t->now->best_update = row->update;
  t->now->best_length = row->length;
  t->now->best_success = row->success;
  t->now->best_stats = t->now->stats;
  t->now->starts = t->settings.evaluate_starts;
  memcpy(t->best, t->theta + t->policy_at, t->policy_count * sizeof(double));
  pbTrain_NoteLearned(t);

  return pb_ok;
}

// A run that goes on with other starts of its evaluations: the best so far is judged by these, for what comes to be compared.
static pbStatus judge_again(pbTrain *t) {
  if (!t->now->evaluated || t->now->starts == t->settings.evaluate_starts) return pb_ok;

  double *theta = t->theta_out;
  memcpy(theta, t->theta, t->ntheta * sizeof *theta);
  memcpy(theta + t->policy_at, t->best, t->policy_count * sizeof *theta);
  PB_TRY(pbTrain_Evaluate(t, theta, pb_drawEvaluation, t->settings.evaluate_starts, &t->now->best_score, &t->now->best_alive));
  t->now->starts = t->settings.evaluate_starts;
  copy_kept(t);

  return pb_ok;
}

// Evaluations are as far apart in decisions, whatever windows were.
static bool is_judged(const pbTrain *t, double before) {
  int64_t every = (int64_t)pbTrain_Decisions(t, t->settings.evaluate_every);
  bool last = t->now->decisions >= pbTrain_Decisions(t, t->settings.updates);
  return last || (int64_t)t->now->decisions / every > (int64_t)before / every;
}

// Terms of the update, and of its evaluation; a search has no window of its own.
static void note_terms(pbTrain *t, bool evaluated) {
  double *to = pbTrain_TermRow(t, (int)t->now->update, evaluated);
  if (evaluated) memcpy(to, t->term_means, (size_t)t->cost.count * sizeof *to);
  else if (t->batch) pbTrain_MeanTerms(t, to);
}

static pbStatus one_update(pbTrain *t) {
  const pbTrainSettings *s = &t->settings;
  double before = t->now->decisions;
  pbTrainRow row = {
      .update = t->now->update + 1, .norm = NAN, .value = NAN, .score = NAN, .alive = NAN, .length = NAN, .success = NAN};
  double *terms = pbTrain_TermRow(t, (int)t->now->update, false);
  for (int i = 0; i < 2 * t->cost.count; i++) terms[i] = NAN;

  // what is judged and kept is of the task's own physics
  PB_TRY(pbTrain_Ramp(t, pbTrain_Fraction(t)));
  pbTrain_SetDeviation(t);
  double temperature = pbTrain_Temperature(t);
  pbStatus status = methods[s->method].update(t, &row);
  PB_TRY(pbTrain_Ramp(t, 1));
  PB_TRY(status);
  note_terms(t, false);
  pbTrain_NoteExploration(t, temperature, &row);
  pbTrain_Temper(t);

  t->now->decisions += s->window;
  if (is_judged(t, before)) {
    PB_TRY(evaluate(t, &row));
    note_terms(t, true);
  }
  row.steps = t->now->steps;
  row.agreement = pbTrain_Agreement(t);
  row.mixed = t->settings.mix ? t->mix.share : NAN;
  row.window = t->search ? NAN : t->agreement.level[(int)t->now->level];
  t->last_cost = row.cost;
  t->rows[(int)t->now->update] = row;
  t->now->update = row.update;

  return pb_ok;
}

static pbStatus run_updates(pbTrain *t, const pbRunStore *store) {
  int most = t->options->updates > 0 && t->options->updates < t->settings.updates ? t->options->updates : t->settings.updates;
  double every = t->options->save_seconds > 0 ? t->options->save_seconds : 1;

  while (t->now->decisions < pbTrain_Decisions(t, most)) {
    pbStatus status = pbTrain_Tell(t, NULL) ? pb_interrupted : one_update(t);

    // what is saved is always the end of a whole update
    if (status == pb_interrupted) {
      put_kept(t);
      PB_TRY(save(t, store));
      return pbContext_Fail(t->ctx, pb_interrupted, "%s: interrupted", t->task->name);
    }
    PB_TRY(status);
    t->now->seconds = t->seconds_before + pb_seconds() - t->began;
    copy_kept(t);
    if (pb_seconds() - t->saved >= every) PB_TRY(save(t, store));
  }

  return save(t, store);
}

static void write_result(pbTrain *t, pbTrainResult *result) {
  double *best = t->theta_out, *last = t->theta_out + t->ntheta;
  memcpy(best, t->theta, t->ntheta * sizeof *best);
  memcpy(last, t->theta, t->ntheta * sizeof *last);
  memcpy(best + t->policy_at, t->best, t->policy_count * sizeof *best);

  result->updates = (int)t->now->update;
  result->best_update = (int)t->now->best_update;
  result->steps = t->now->steps;
  result->score = t->now->best_score;
  result->alive = t->now->best_alive;
  result->length = t->now->best_length;
  result->success = t->now->best_success;
  result->first_score = t->now->first_score;
  result->seconds = t->now->seconds;
  result->dropped = t->now->dropped;
  result->theta = best;
  result->last = last;
}

static pbStatus begin(pbTrain *t, const pbRunStore *store, bool *resumed) {
  const pbTrainOptions *o = t->options;
  if (o->has_seed) t->settings.seed = o->seed;
  PB_TRY(pbTrain_Begin(t, o->threads));
  t->now->seed = (double)(t->settings.seed & 0x1fffffffffffff);
  t->now->method = t->settings.method;
  t->last_cost = t->last_score = NAN;

  if (o->resume && store) PB_TRY(store->load(store->user, t->kept, t->kept_size, resumed));
  if (*resumed) PB_TRY(restore_kept(t, store->name));
  t->began = t->saved = pb_seconds();
  t->seconds_before = t->now->seconds;
  t->steps_before = t->now->steps;
  t->first_fraction = pbTrain_Fraction(t);
  if (*resumed) return judge_again(t);

  // the policy as it was given is the first to be judged
  pbTrainRow row = {0};
  pbStatus status = evaluate(t, &row);
  if (status == pb_ok) copy_kept(t);

  return status;
}

pbStatus pbTrain_Loop(pbTrain *t, const pbTrainOptions *options, const pbRunStore *store, pbTrainResult *result) {
  *result = (pbTrainResult){0};
  pbTrain_End(t);
  t->options = options;
  pbStatus status = begin(t, store, &result->resumed);
  if (status == pb_ok) status = run_updates(t, store);
  t->task->model->policy->hears = false;
  if (status == pb_ok || status == pb_interrupted) {
    if (t->theta_out && t->now->evaluated) write_result(t, result);
  }
  if (status != pb_ok) return status;
  pbTrain_LastWindow(t);

  return pbTrain_Noise(t, result);
}

// ---- what is known of it ----------------------------------------------------------------------------------------------
const pbModel *pbTrain_Model(const pbTrain *train) { return train->task->model; }
pbTrainMethod pbTrain_Method(const pbTrain *train) { return train->settings.method; }
int pbTrain_Worlds(const pbTrain *train) { return train->settings.worlds; }
const pbTrainRow *pbTrain_Rows(const pbTrain *train) { return train->rows; }

void pbTrain_Destroy(pbTrain *train) {
  if (!train) return;
  pbTrain_End(train);
  pbTermSet_Free(&train->cost);
  pbTermSet_Free(&train->end);
  pbTermSet_Free(&train->success);
  pbContext_Free(train->ctx, train->spread);
  pbContext_Free(train->ctx, train->ramp);
  pbContext_Free(train->ctx, train->schedule);
  pbContext_Free(train->ctx, train->critic_text);
  pbContext_Free(train->ctx, train->test_terms);
  pbContext_Free(train->ctx, train->test_ends);
  pbNetwork_Destroy(train->before);
  pbNetwork_Destroy(train->body);
  pbNetwork_Destroy(train->critic);
  pbNetwork_Destroy(train->critic_single);
  if (train->task) pbTask_Destroy(train->task);
  pbContext_Free(train->ctx, train);
}
