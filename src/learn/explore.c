// Exploration before the squash: draws of a policy's layer "explore", its deviation, fixed, on a schedule or learned, and what
// the entropy of decisions is worth, at a temperature that may tune itself (Haarnoja et al. 2018, arXiv 1812.05905, section 5;
// with gradients of the physics Xing et al. 2024, arXiv 2412.12089).
// Tests: tests/unit/test_learn_explore.c.
#include <math.h>
#include <string.h>

#include <pullback/random.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "elementary/hyperbolic.h"
#include "learn/train.h"
#include "model/policy_data.h"
#include "model/state_layout.h"

// Deviations that learning keeps to, as logarithms: as in SAC's own code a wide one, whose squash is nearly all at its ends.
static const double least_log = -5, most_log = 2;
// Where a squash has come to its end the logarithm of its slope goes on as if that were this.
static const double least_slope = 1e-6;
static const double half_log_2_pi_e = 1.4189385332046727;

bool pbTrain_Explores(const pbTrain *t) { return t->explore_at >= 0; }

static int draws_of(const pbTrain *t) { return t->model->policy->decide->draws; }

double pbTrain_Temperature(const pbTrain *t) { return t->settings.entropy ? pbExp(t->now->log_temperature) : 0; }

// ---- draws ------------------------------------------------------------------------------------------------------------
static double *noise_row(const pbTrain *t, int w, int k) {
  size_t width = (size_t)t->model->policy->observed, step = (size_t)w * (size_t)t->steps + (size_t)(k * t->every);
  return t->noise + step * width;
}

const double *pbTrain_Draws(const pbTrain *t, int w, int k) {
  return noise_row(t, w, k) + t->model->policy->observed - draws_of(t);
}

// What a decision draws stands among the noise of what it observes, in all of its steps.
void pbTrain_DrawExploration(pbTrain *t) {
  int width = t->model->policy->observed, draws = draws_of(t);
  if (!pbTrain_Explores(t)) return;

  // of a world by its number and the update's, whatever threads there are
  for (int w = 0; w < t->settings.worlds; w++) {
    pbRng rng = pbRng_Seed(pbTrain_Draw(t, pb_drawNoise, (uint64_t)t->now->update, (uint64_t)w));
    for (int k = 0; k < t->settings.window; k++) {
      double *first = noise_row(t, w, k) + width - draws;
      for (int i = 0; i < draws; i++) first[i] = pbRng_Normal(&rng);
      for (int j = 1; j < t->every; j++) memcpy(first + j * width, first, (size_t)draws * sizeof *first);
    }
  }
}

// ---- deviations -------------------------------------------------------------------------------------------------------
void pbTrain_HoldDeviation(pbTrain *t) {
  if (!t->settings.learned) return;

  for (int i = 0; i < t->explored; i++) {
    double *log = &t->theta[t->explore_at + i];
    *log = fmin(fmax(*log, least_log), most_log);
  }
}

// ---- entropy ----------------------------------------------------------------------------------------------------------
// What was decided, of each output between -1 and 1 where it is squashed.
static const double *decided(const pbTrain *t, int w, int k) {
  size_t row = (size_t)w * (size_t)(t->settings.window + 1) + (size_t)k + 1;
  return t->row_states + row * (size_t)t->nx + state_layout(t->model).policy + t->model->policy->memory;
}

// Of the slope of the squash, 1 - tanh^2, and its derivative by what is squashed.
double pbTrain_LogSlope(double y) { return pbLog(1 - y * y + least_slope); }
double pbTrain_LogSlopeBar(double y) { return -2 * y * (1 - y * y) / (1 - y * y + least_slope); }

// Of a normal distribution exactly, and of its squash at what was drawn.
double pbTrain_Entropy(const pbTrain *t, int w, int k) {
  const double *y = decided(t, w, k);
  double sum = 0;

  for (int i = 0; i < t->explored; i++) {
    sum += t->theta[t->explore_at + i] + half_log_2_pi_e;
    if (t->squashed) sum += pbTrain_LogSlope(y[i]);
  }

  return sum;
}

// What decisions cost, less what their entropy is worth.
void pbTrain_Soften(pbTrain *t) {
  double temperature = pbTrain_Temperature(t), sum = 0, count = 0;
  if (!pbTrain_Explores(t)) return;

  // the mean entropy is told, whether or not it is worth something
  for (int w = 0; w < t->settings.worlds; w++) {
    for (int k = 0; k < t->length[w]; k++) {
      size_t at = (size_t)w * (size_t)t->settings.window + (size_t)k;
      double entropy = pbTrain_Entropy(t, w, k);
      if (t->settings.entropy) t->soft[at] = t->costs[at] - temperature * entropy;
      sum += entropy;
    }
    count += t->length[w];
  }
  t->entropy = sum / count;
}

// Derivative below its primal: by what was decided, through the steps; by deviations at once (pbTrain_PullDeviations).
void pbTrain_PullEntropy(pbTrain *t, int w, int k, double factor, double *held_bar) {
  const double *y = decided(t, w, k);
  double temperature = pbTrain_Temperature(t);
  if (!t->settings.entropy) return;

  // the slope's share, if there is a squash
  t->entropy_share += factor;
  if (!t->squashed) return;
  for (int i = 0; i < t->explored; i++) held_bar[i] += temperature * factor * 2 * y[i] / (1 - y[i] * y[i] + least_slope);
}

void pbTrain_PullDeviations(pbTrain *t) {
  double temperature = pbTrain_Temperature(t);
  if (!t->settings.learned || !t->settings.entropy) return;

  // of the normal distribution it is the logarithm itself
  for (int i = 0; i < t->explored; i++) t->theta_bar[t->explore_at + i] -= temperature * t->entropy_share;
}

// A step down J = temperature (entropy - target), by the temperature's logarithm (equation 18 there).
void pbTrain_Temper(pbTrain *t) {
  const pbTrainSettings *s = &t->settings;
  static const size_t first = 0;
  if (!s->entropy || !s->tunes) return;

  double gradient = pbTrain_Temperature(t) * (t->entropy - s->target_entropy);
  pbTrainSettings plain = {.beta1 = 0.9, .beta2 = 0.999};
  pbLearnAdam adam = {1, &first, &t->now->temperature_m, &t->now->temperature_v, &t->now->temperature_steps};
  pbLearnAdam_Step(&adam, &plain, s->temperature_rate, &gradient, &t->now->log_temperature);
}

void pbTrain_NoteExploration(const pbTrain *t, double temperature, pbTrainRow *row) {
  double sum = 0;
  row->deviation = row->entropy = row->temperature = NAN;
  if (!pbTrain_Explores(t) || !t->batch) return;

  for (int i = 0; i < t->explored; i++) sum += pbExp(t->theta[t->explore_at + i]);
  row->deviation = sum / t->explored;
  row->entropy = t->entropy;
  if (t->settings.entropy) row->temperature = temperature;
}

// ---- samples ----------------------------------------------------------------------------------------------------------
// Of a decision whose draws were e about the means `old`: cotangents of the means now (stride apart) and, added to, of the
// logarithms of deviations, of  max (r A, clip (r) A) - temperature entropy,  by a share (Schulman et al. 2017,
// equations 7 and 9).
// r = N(z; now) / N(z; old), z = old + deviation e before the squash, whose slope is in both and cancels.
void pbTrain_PullSample(const pbTrain *t, int decision, const double *out, int stride, double share, double *out_bar,
                        double *log_bar) {
  int w = decision / t->settings.window, k = decision % t->settings.window;
  const double *old = t->mean + (size_t)decision * (size_t)t->explored, *e = pbTrain_Draws(t, w, k);
  const double *log = t->theta + t->explore_at, *old_log = t->old_log;
  double exponent = 0, advantage = t->advantage[decision], temperature = pbTrain_Temperature(t);

  for (int i = 0; i < t->explored; i++) {
    double z = (old[i] + pbExp(old_log[i]) * e[i] - out[i * stride]) / pbExp(log[i]);
    exponent += 0.5 * (e[i] * e[i] - z * z) + old_log[i] - log[i];
  }

  // the clip holds a ratio that has gone far enough the right way
  double ratio = pbExp(exponent);
  bool held = advantage < 0 ? ratio > 1 + t->settings.ratio : ratio < 1 - t->settings.ratio;
  for (int i = 0; i < t->explored; i++) {
    double deviation = pbExp(log[i]), z = (old[i] + pbExp(old_log[i]) * e[i] - out[i * stride]) / deviation;
    double along = held ? 0 : share * advantage * ratio;
    double y = pbTanh(out[i * stride] + deviation * e[i]);
    double slope_bar = t->squashed ? -share * temperature * pbTrain_LogSlopeBar(y) : 0;

    if (out_bar) out_bar[i * stride] = along * z / deviation + slope_bar;
    if (log_bar) log_bar[i] += along * (z * z - 1) + slope_bar * deviation * e[i] - share * temperature;
  }
}
