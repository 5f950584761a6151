// The critic: targets from the costs of a window (TD(lambda), Sutton & Barto 2018, chapter 12), its fit, and the normalizer that
// it shares with the policy.
// Tests: tests/unit/test_learn.c.
#include <math.h>
#include <string.h>

#include <pullback/random.h>

#include "base/assert.h"
#include "base/context.h"
#include "learn/train.h"

// ---- targets ----------------------------------------------------------------------------------------------------------
// Mixture of the returns over 1, 2, ... decisions with weights (1 - lambda) lambda^(n - 1), the longest with what is left.
//   next[k]: value of what follows decision k; ended[k]: the episode ends with it, and nothing follows.
void pbTrain_Targets(const pbTrainSettings *s, int length, const double *cost, const double *next, const bool *ended,
                     double *target) {
  double follows = 0;
  for (int k = length - 1; k >= 0; k--) {
    bool last = k == length - 1;
    // of the recursion G = c + discount ((1 - lambda) V' + lambda G')
    double beyond = last ? next[k] : (1 - s->lambda) * next[k] + s->lambda * follows;
    if (ended[k]) beyond = 0;
    follows = target[k] = cost[k] + s->discount * beyond;
  }
}

double pbTrain_ValueAt(const pbHead *head, int count, int column, bool worst) {
  int critics = head->f->outputs;
  double sum = 0, most = -INFINITY;
  PB_ASSERT(critics >= 1);

  for (int k = 0; k < critics; k++) {
    double value = head->out[pbHead_At(head, count, k, column)];
    sum += value;
    most = value > most || isnan(value) ? value : most;
  }

  return worst ? most : sum / critics;
}

// By the slow critic, of all rows but the first of each window.
pbStatus pbTrain_MakeTargets(pbTrain *t) {
  int count = 0, window = t->settings.window;

  for (int w = 0; w < t->settings.worlds; w++) {
    const double *first = t->observed + (size_t)w * (size_t)(window + 1) * (size_t)t->nobs;
    for (int k = 1; k <= t->length[w]; k++) t->batch_row[count++] = first + (size_t)k * (size_t)t->nobs;
  }
  PB_TRY(pbHead_Forward(t, &t->head_fit, t->critic_slow, t->batch_row, count));

  int column = 0;
  for (int w = 0; w < t->settings.worlds; w++) {
    size_t at = (size_t)w * (size_t)window;
    for (int k = 0; k < t->length[w]; k++) t->next[k] = pbTrain_ValueAt(&t->head_fit, count, column++, true);
    pbTrain_Targets(&t->settings, t->length[w], t->soft + at, t->next, t->ended + at, t->target + at);
  }

  return pb_ok;
}

// ---- the fit ----------------------------------------------------------------------------------------------------------
typedef struct Batch {
  const pbTrain *t;
  const int *order;
  int count;
} Batch;

static double miss(const Batch *b, int i, double value) { return value - b->t->target[b->order[i]]; }

static void pull_squares(void *user, int first, int count, const double *out, double *out_bar) {
  const Batch *b = user;
  for (int at = 0; at < count * b->t->head_fit.f->outputs; at++)
    out_bar[at] = 2 * miss(b, first + at % count, out[at]) / b->count;
}

// Of several critics the mean.
static double mean_square(const Batch *b, int i) {
  const pbHead *head = &b->t->head_fit;
  double sum = 0;

  for (int k = 0; k < head->f->outputs; k++) {
    double off = miss(b, i, head->out[pbHead_At(head, b->count, k, i)]);
    sum += off * off / head->f->outputs;
  }

  return sum;
}

// A batch of samples: `order` are numbers of decisions. Adds to *error the squares.
static pbStatus fit_batch(pbTrain *t, const int *order, int count, double rate, double *error) {
  pbHead *head = &t->head_fit;
  Batch batch = {t, order, count};
  for (int i = 0; i < count; i++) t->batch_row[i] = pbTrain_Observation(t, order[i]);
  PB_TRY(pbHead_Fit(t, head, t->critic_param, t->batch_row, count, pull_squares, &batch));

  for (int i = 0; i < count; i++) *error += mean_square(&batch, i);

  pbLearnAdam adam = {head->unknowns, head->index, t->critic_m, t->critic_v, &t->now->critic_adam};
  pbLearnAdam_Step(&adam, &t->settings, rate, head->bar, t->critic_param);
  return pb_ok;
}

// Numbers of the decisions that count, in random order.
int pbTrain_Shuffle(pbTrain *t, uint64_t round) {
  int count = 0, window = t->settings.window;
  pbRng rng = pbRng_Seed(pbTrain_Draw(t, pb_drawOrder, (uint64_t)t->now->update, round));
  for (int w = 0; w < t->settings.worlds; w++) {
    for (int k = 0; k < t->length[w]; k++) t->order[count++] = w * window + k;
  }

  for (int i = count - 1; i > 0; i--) {
    int j = (int)(pbRng_Uniform(&rng) * (i + 1)), other = t->order[j];
    t->order[j] = t->order[i];
    t->order[i] = other;
  }

  return count;
}

// `error`: mean square before the first step.
pbStatus pbTrain_FitCritic(pbTrain *t, double *error) {
  const pbTrainSettings *s = &t->settings;
  double rate = s->critic_rate * pbTrain_Rate(t);

  for (int round = 0; round < s->critic_rounds; round++) {
    int count = pbTrain_Shuffle(t, (uint64_t)round);
    double squares = 0;
    for (int b = 0; b < s->critic_batches; b++) {
      int from = (int)((int64_t)count * b / s->critic_batches), to = (int)((int64_t)count * (b + 1) / s->critic_batches);
      if (to > from) PB_TRY(fit_batch(t, t->order + from, to - from, rate, &squares));
    }
    if (!round) *error = squares / count;
  }

  // the slow critic follows
  for (size_t i = 0; i < t->head_critic.params; i++)
    t->critic_slow[i] = s->critic_target * t->critic_slow[i] + (1 - s->critic_target) * t->critic_param[i];
  pbTrain_SyncNormalizer(t);

  return pb_ok;
}

// ---- the normalizer ---------------------------------------------------------------------------------------------------
enum { MOST_SAMPLES = 200000 };  // beyond, old ones are forgotten: the policy's states change

// The numbers in theta and in the critic's from the statistics. Those that a policy brought are what its weights were learned
// on: in theta they stay, to the bit.
void pbTrain_SyncNormalizer(pbTrain *t) {
  if (t->mean_at < 0) return;
  for (int i = 0; i < t->features; i++) {
    double deviation = t->brought ? t->theta[t->deviation_at + i] : sqrt(t->stat_square[i] + 1e-5);
    t->theta[t->mean_at + i] = t->stat_mean[i];
    t->theta[t->deviation_at + i] = deviation;
    if (!t->critic || t->critic_mean_at < 0) continue;

    t->critic_param[t->critic_mean_at + i] = t->critic_slow[t->critic_mean_at + i] = t->stat_mean[i];
    t->critic_param[t->critic_deviation_at + i] = t->critic_slow[t->critic_deviation_at + i] = deviation;
  }
}

// Mean and variance with one more set of numbers: Chan, Golub & LeVeque 1979, one column at a time.
static void note_features(pbTrain *t, const double *feature, size_t stride) {
  double before = t->now->stats, all = before + 1;
  for (int i = 0; i < t->features; i++) {
    double away = feature[(size_t)i * stride] - t->stat_mean[i];
    t->stat_mean[i] += away / all;
    t->stat_square[i] = (t->stat_square[i] * before + away * away * before / all) / all;
  }
  t->now->stats = all < MOST_SAMPLES ? all : MOST_SAMPLES;
}

pbStatus pbTrain_Normalize(pbTrain *t) {
  int window = t->settings.window;
  if (t->mean_at < 0 || t->brought) return pb_ok;

  for (int w = 0; w < t->settings.worlds; w++) {
    const double *first = t->observed + (size_t)w * (size_t)(window + 1) * (size_t)t->nobs;
    int count = t->length[w];
    for (int k = 0; k < count; k++) t->batch_row[k] = first + (size_t)k * (size_t)t->nobs;

    // what the layers before the normalizer make of it
    if (t->before && count) PB_TRY(pbHead_Forward(t, &t->head_before, t->head_before.param, t->batch_row, count));
    for (int k = 0; k < count; k++) {
      const pbHead *before = &t->head_before;
      size_t at = t->before ? pbHead_At(before, count, 0, k) : 0;
      if (t->before) note_features(t, before->out + at, pbHead_At(before, count, 1, k) - at);
      else note_features(t, t->batch_row[k], 1);
    }
  }
  pbTrain_SyncNormalizer(t);

  return pb_ok;
}
