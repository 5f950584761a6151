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

// Values by the slow critic of all rows of a world, the first of its window excepted; into head->out.
static pbStatus target_world(pbTrain *t, int w, const double **row, double *next) {
  int window = t->settings.window, length = t->length[w];
  const double *first = t->observed + (size_t)w * (size_t)(window + 1) * (size_t)t->nobs;
  if (!length) return pb_ok;

  for (int k = 0; k < length; k++) row[k] = first + (size_t)(k + 1) * (size_t)t->nobs;
  PB_TRY(pbHead_Forward(t, &t->head_critic, t->critic_slow, row, length));
  memcpy(next, t->head_critic.out, (size_t)length * sizeof *next);

  size_t at = (size_t)w * (size_t)window;
  pbTrain_Targets(&t->settings, length, t->costs + at, next, t->ended + at, t->target + at);
  return pb_ok;
}

// ---- the fit ----------------------------------------------------------------------------------------------------------
// A batch of samples: `order` are numbers of decisions. Adds to *error the squares.
static pbStatus fit_batch(pbTrain *t, const int *order, int count, double rate, double *error) {
  pbHead *head = &t->head_critic;
  for (int i = 0; i < count; i++) t->batch_row[i] = pbTrain_Observation(t, order[i]);
  PB_TRY(pbHead_Forward(t, head, t->critic_param, t->batch_row, count));
  for (int i = 0; i < count; i++) {
    double difference = head->out[i] - t->target[order[i]];
    *error += difference * difference;
    head->out_bar[i] = 2 * difference / count;
  }
  PB_TRY(pbHead_Pull(t, head, t->critic_param, count));

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

pbStatus pbTrain_MakeTargets(pbTrain *t) {
  for (int w = 0; w < t->settings.worlds; w++) PB_TRY(target_world(t, w, t->batch_row, t->next));
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
      if (t->before) note_features(t, t->head_before.out + k, (size_t)count);
      else note_features(t, t->batch_row[k], 1);
    }
  }
  pbTrain_SyncNormalizer(t);
  return pb_ok;
}
