// The gradient of a window a second time, from its samples alone: the likelihood ratio (Williams 1992), which knows no slope of
// the physics, and so none of its noise either; and the mean of both with the least variance (alpha-order gradients: Suh et al.
// 2022, with the measured covariance). Tests: tests/unit/test_agreement.c.
//
// With the cost of a window J = sum over decisions k of f_k c_k, f_k its factor (discount^k by a decision's share), and the
// value of what follows its last one, decisions being normal about the policy's output m with deviation s,
//   grad J = E sum_k f_k (R_k - b_k) (a_k - m_k) / s^2 . dm_k,      R_k = c_k + discount R_(k + 1),
// for any b_k that the decision has no part in: the critic's value of what it saw. Of noise e before a squash, with the
// deviation d, it is e / d dm_k + (e^2 - 1) d(log d); costs are then less what entropy is worth, which has log d in it by itself.
//
// Both are estimates of the same gradient, and sums over independent worlds, so a mean of both with the share p of this one has
// the variance (1 - p)^2 V + 2 p (1 - p) C + p^2 V', least at p = (V - C) / (V + V' - 2 C).
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "learn/train.h"
#include "model/policy_data.h"

// ---- by samples -------------------------------------------------------------------------------------------------------
// Values of all rows of a window, by the slow critic, as what follows a window is.
static pbStatus find_values(pbTrain *t, int w, double *value) {
  int count = t->length[w] + 1;
  const double *first = t->observed + (size_t)w * (size_t)(t->settings.window + 1) * (size_t)t->nobs;

  for (int k = 0; k < count; k++) t->batch_row[k] = first + (size_t)k * (size_t)t->nobs;
  PB_TRY(pbHead_Forward(t, &t->head_fit, t->critic_slow, t->batch_row, count));
  for (int k = 0; k < count; k++) value[k] = pbTrain_ValueAt(&t->head_fit, count, k, false);

  return pb_ok;
}

// What each decision of a world weighs: its factor, by how much more followed than was expected.
static void weigh(pbTrain *t, int w, double share, const double *value, double *weight) {
  int length = t->length[w];
  double follows = value[length], factor = share, discount = t->settings.discount;
  const double *cost = t->soft + (size_t)w * (size_t)t->settings.window;

  // from the end: what followed each decision
  for (int k = length - 1; k >= 0; k--) {
    follows = cost[k] + (pbTrain_Ended(t, w, k) ? 0 : discount * follows);
    weight[k] = follows - value[k];
  }
  for (int k = 0; k < length; k++) {
    weight[k] *= factor;
    factor = pbTrain_Ended(t, w, k) ? share : factor * discount;
  }
}

typedef struct Decisions {
  const pbTrain *t;
  int first;  // of the world
  const double *weight;
  double variance;
} Decisions;

// How much likelier a decision gets by output k of the policy's.
static double score(const Decisions *d, int decision, int k) {
  const pbTrain *t = d->t;
  const pbOutputTarget *target = t->model->policy->target;
  int window = t->settings.window;
  if (!pbTrain_Explores(t)) return target[k].scale * pbTrain_NoiseOf(t, decision)[target[k].index] / d->variance;

  return pbTrain_Draws(t, decision / window, decision % window)[k] / pbExp(t->theta[t->explore_at + k]);
}

static void pull_decisions(void *user, int first, int count, const double *out, double *out_bar) {
  const Decisions *d = user;
  (void)out;

  for (int i = 0; i < count; i++) {
    for (int k = 0; k < d->t->head_policy.f->outputs; k++)
      out_bar[k * count + i] = d->weight[first + i] * score(d, d->first + first + i, k);
  }
}

// By the logarithms of deviations, behind those by what comes before the noise.
static void pull_deviations(const pbTrain *t, int w, double share, const double *weight, double *bar) {
  double factor = share, worth = pbTrain_Temperature(t);
  memset(bar, 0, (size_t)t->explored * sizeof *bar);
  for (int k = 0; k < t->length[w]; k++) {
    const double *e = pbTrain_Draws(t, w, k);
    for (int i = 0; i < t->explored; i++) bar[i] += weight[k] * (e[i] * e[i] - 1) - worth * factor;
    factor = pbTrain_Ended(t, w, k) ? share : factor * t->settings.discount;
  }
}

// Adds a world's gradient to that of all, and its sums to its places. What stands behind the noise has no part in a likelihood.
static void keep_world(pbTrain *t, int w, const double *by_deviation) {
  const pbLearnAgreement *a = &t->agreement;
  const pbHead *head = &t->head_policy;
  double *to = t->mix.numbers + (size_t)w * a->places;
  size_t at = t->model->policy->theta;

  memset(to, 0, a->places * sizeof *to);
  for (size_t i = 0; i < t->unknowns; i++) {
    size_t own = t->unknown[i] - at;
    PB_ASSERT(own < head->params || t->settings.learned);
    double g = own < head->params ? head->bar[own] : by_deviation[t->unknown[i] - (size_t)t->explore_at];
    t->mix.bar[i] += g;
    pbTrain_AddPlace(a, i, g, to);
  }
}

static pbStatus pull_world(pbTrain *t, int w, double share, double deviation) {
  double *value = t->next, *weight = t->advantage + (size_t)w * (size_t)t->settings.window;
  PB_TRY(find_values(t, w, value));
  weigh(t, w, share, value, weight);

  Decisions d = {t, w * t->settings.window, weight, deviation * deviation};
  for (int k = 0; k < t->length[w]; k++) t->batch_row[k] = pbTrain_Observation(t, d.first + k);
  PB_TRY(pbHead_Fit(t, &t->head_policy, t->theta + t->model->policy->theta, t->batch_row, t->length[w], pull_decisions, &d));
  if (t->settings.learned) pull_deviations(t, w, share, weight, t->old_log);
  keep_world(t, w, t->old_log);

  return pb_ok;
}

// ---- both ---------------------------------------------------------------------------------------------------------------
double pbTrain_MixShare(const double *const *physics, const double *const *samples, int count, size_t size) {
  double own = 0, other = 0, both = 0;
  for (size_t i = 0; i < size; i++) {
    double mean = 0, mean_other = 0;
    for (int w = 0; w < count; w++) {
      mean += physics[w][i] / count;
      mean_other += samples[w][i] / count;
    }
    for (int w = 0; w < count; w++) {
      double away = physics[w][i] - mean, away_other = samples[w][i] - mean_other;
      own += away * away;
      other += away_other * away_other;
      both += away * away_other;
    }
  }

  // one that overflowed has no share
  double share = (own - both) / (own + other - 2 * both);
  if (!isfinite(other)) return 0;
  if (!isfinite(own)) return 1;
  return share > 0 ? fmin(share, 1) : 0;
}

pbStatus pbTrain_Mix(pbTrain *t) {
  const pbLearnAgreement *a = &t->agreement;
  int count = 0, decisions = 0;
  for (int w = 0; w < t->settings.worlds; w++) decisions += t->length[w];

  memset(t->mix.bar, 0, t->unknowns * sizeof *t->mix.bar);
  for (int w = 0; w < t->settings.worlds; w++) {
    if (!t->length[w]) continue;
    PB_TRY(pull_world(t, w, 1. / decisions, pbTrain_Deviation(t)));
    t->mix.row[count] = t->mix.numbers + (size_t)w * a->places;
    a->row[count++] = pbTrain_NumbersOf(t, w, a->first);
  }

  // worlds are independent: how far they are apart is the variance
  t->mix.share = pbTrain_MixShare(a->row, t->mix.row, count, a->places);
  for (size_t i = 0; i < t->unknowns; i++) {
    double *g = &t->theta_bar[t->unknown[i]];
    *g = t->mix.share < 1 ? (1 - t->mix.share) * *g + t->mix.share * t->mix.bar[i] : t->mix.bar[i];
  }

  return pb_ok;
}
