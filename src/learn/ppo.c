// Proximal policy optimization (Schulman et al. 2017): the policy's output is the mean of a normal distribution with the given
// deviation; costs in place of rewards, so that an advantage below zero is good.
// Tests: tests/unit/test_learn.c.
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "elementary/elementary.h"
#include "learn/train.h"
#include "model/policy_data.h"

// Generalized advantages (Schulman et al. 2016) by the critic, and from them its targets. next: value of each row of the window.
static void judge_world(pbTrain *t, int w) {
  const pbTrainSettings *s = &t->settings;
  int window = s->window, length = t->length[w];
  double *advantage = t->advantage + (size_t)w * (size_t)window, *target = t->target + (size_t)w * (size_t)window, follows = 0;
  const double *cost = t->costs + (size_t)w * (size_t)window, *value = t->next;

  for (int k = length - 1; k >= 0; k--) {
    bool over = pbTrain_Ended(t, w, k);
    follows = cost[k] - value[k] + (over ? 0 : s->discount * (value[k + 1] + s->lambda * follows));
    advantage[k] = follows;
    target[k] = follows + value[k];
  }
}

static pbStatus judge_all(pbTrain *t) {
  int count = 0, at = 0, window = t->settings.window;
  for (int w = 0; w < t->settings.worlds; w++) {
    const double *first = t->observed + (size_t)w * (size_t)(window + 1) * (size_t)t->nobs;
    if (!t->length[w]) continue;

    for (int k = 0; k <= t->length[w]; k++) t->batch_row[count++] = first + (size_t)k * (size_t)t->nobs;
  }
  PB_TRY(pbHead_Forward(t, &t->head_fit, t->critic_param, t->batch_row, count));

  for (int w = 0; w < t->settings.worlds; w++) {
    if (!t->length[w]) continue;

    for (int k = 0; k <= t->length[w]; k++) t->next[k] = pbTrain_ValueAt(&t->head_fit, count, at++, false);
    judge_world(t, w);
  }

  return pb_ok;
}

// To mean zero and deviation one.
static void standardize(pbTrain *t, int count) {
  double mean = 0, square = 0;
  for (int i = 0; i < count; i++) mean += t->advantage[t->order[i]] / count;
  for (int i = 0; i < count; i++) square += pbPow(t->advantage[t->order[i]] - mean, 2) / count;
  for (int i = 0; i < count; i++) t->advantage[t->order[i]] = (t->advantage[t->order[i]] - mean) / (sqrt(square) + 1e-8);
}

// What comes before a squash has its own weights in front of the policy's.
static double *weights(const pbTrain *t) { return t->theta + t->model->policy->theta; }

// What the policy put out at each decision before the first step of the update.
static pbStatus remember_means(pbTrain *t, int count) {
  pbHead *head = &t->head_policy;
  for (int i = 0; i < count; i++) t->batch_row[i] = pbTrain_Observation(t, t->order[i]);
  PB_TRY(pbHead_Forward(t, head, weights(t), t->batch_row, count));
  for (int i = 0; i < count; i++) {
    double *mean = t->mean + (size_t)t->order[i] * (size_t)head->f->outputs;
    for (int k = 0; k < head->f->outputs; k++) mean[k] = head->out[pbHead_At(head, count, k, i)];
  }
  if (pbTrain_Explores(t)) memcpy(t->old_log, t->theta + t->explore_at, (size_t)t->explored * sizeof *t->old_log);

  return pb_ok;
}

// How far the action was from what the policy puts out now.
static double away(const pbTrain *t, int decision, int k, double out) {
  const pbOutputTarget *to = &t->model->policy->target[k];
  const double *old = t->mean + (size_t)decision * (size_t)t->head_policy.f->outputs;
  return pbTrain_NoiseOf(t, decision)[to->index] - to->scale * (out - old[k]);
}

// Derivative of the cost's max (r A, clip (r) A), r the ratio of densities now and before, by the outputs of one column.
typedef struct Samples {
  const pbTrain *t;
  const int *order;
  int count;
  double deviation;
} Samples;

static void pull_column(const Samples *s, int decision, const double *out, double *out_bar, int stride) {
  const pbTrain *t = s->t;
  const pbHead *head = &t->head_policy;
  const pbOutputTarget *target = t->model->policy->target;
  double exponent = 0, advantage = t->advantage[decision], variance = s->deviation * s->deviation;

  for (int k = 0; k < head->f->outputs; k++) {
    double before = pbTrain_NoiseOf(t, decision)[target[k].index], now = away(t, decision, k, out[k * stride]);
    exponent += 0.5 * (before * before - now * now) / variance;
  }

  double ratio = pbExp(exponent);
  bool held = advantage < 0 ? ratio > 1 + t->settings.ratio : ratio < 1 - t->settings.ratio;
  for (int k = 0; k < head->f->outputs; k++) {
    double now = away(t, decision, k, out[k * stride]);
    out_bar[k * stride] = held ? 0 : advantage * ratio * target[k].scale * now / variance / s->count;
  }
}

static void pull_samples(void *user, int first, int count, const double *out, double *out_bar) {
  const Samples *s = user;
  bool explores = pbTrain_Explores(s->t);
  for (int i = 0; i < count; i++) {
    int decision = s->order[first + i];
    if (explores) pbTrain_PullSample(s->t, decision, out + i, count, 1.0 / s->count, out_bar + i, NULL);
    else pull_column(s, decision, out + i, out_bar + i, count);
  }
}

// By the logarithms of deviations, sample by sample in their order: what comes before them has none of these.
static void pull_deviations(pbTrain *t, const int *order, int count) {
  const pbHead *head = &t->head_policy;
  double *bar = t->theta_bar + t->explore_at, *out = t->old_log + t->explored;
  memset(bar, 0, (size_t)t->explored * sizeof *bar);

  for (int i = 0; i < count; i++) {
    for (int k = 0; k < t->explored; k++) out[k] = head->out[pbHead_At(head, count, k, i)];
    pbTrain_PullSample(t, order[i], out, 1, 1.0 / count, NULL, bar);
  }
}

static pbStatus fit_policy(pbTrain *t, const int *order, int count, double *norm) {
  pbHead *head = &t->head_policy;
  Samples samples = {t, order, count, pbTrain_Deviation(t)};
  for (int i = 0; i < count; i++) t->batch_row[i] = pbTrain_Observation(t, order[i]);
  PB_TRY(pbHead_Fit(t, head, weights(t), t->batch_row, count, pull_samples, &samples));

  memcpy(t->theta_bar + t->model->policy->theta, head->bar, head->params * sizeof(double));
  if (t->settings.learned) pull_deviations(t, order, count);
  *norm = pbTrain_Adam(t);
  return pb_ok;
}

pbStatus pbTrain_Ppo(pbTrain *t, double *norm) {
  const pbTrainSettings *s = &t->settings;
  PB_TRY(judge_all(t));
  int count = pbTrain_Shuffle(t, 0);
  standardize(t, count);
  PB_TRY(remember_means(t, count));
  memset(t->theta_bar, 0, t->ntheta * sizeof(double));

  for (int round = 0; round < s->rounds; round++) {
    count = pbTrain_Shuffle(t, 1000 + (uint64_t)round);
    for (int b = 0; b < s->batches; b++) {
      int from = (int)((int64_t)count * b / s->batches), to = (int)((int64_t)count * (b + 1) / s->batches);
      if (to > from) PB_TRY(fit_policy(t, t->order + from, to - from, norm));
    }
  }

  return pb_ok;
}
