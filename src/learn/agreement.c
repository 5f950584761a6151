// How far the gradient of an update can be trusted, from the gradients of its worlds, which are independent; and the window of
// decisions that follows from it. docs/training.md has the method. Tests: tests/unit/test_agreement.c.
//
// With g_w the gradient of world w, W of them, A = |sum g_w|^2 and B = sum |g_w|^2, the mean similarity of two worlds is
//   q = (A - B) / ((W - 1) B),      -1/(W - 1) <= q <= 1,
// the intraclass correlation (Fisher 1925). Its expectation is about |E g|^2 / E |g|^2, and it is the mean over all ways to split
// the worlds in halves of what the halves have in common. Gradients of two independent batches of W worlds then agree with
//   r = W q / (1 + (W - 1) q),
// the cosine expected between them (Spearman 1910, Brown 1910: the reliability of a mean of W parts). q is bounded, however long
// single gradients are, so that q is what is averaged over updates, and r is told of the average.
//
// On its way back through a window, the gradient of what lies behind decision k is that of a window which begins there: so a
// window measures all shorter ones, at their ends, in the same pullback. Gradients are kept as sums of their entries with random
// signs in a few hundred to a thousand places (Charikar, Chen & Farach-Colton 2002), which leaves inner products as they are in
// the mean; where there are no more weights than places, as they are.
#include <math.h>
#include <string.h>

#include <pullback/random.h>

#include "base/assert.h"
#include "learn/train.h"

enum { MOST_PLACES = 1024, LEAST_PLACES = 32, MOST_NUMBERS = 1 << 22 };
static const double memory = 0.95;  // of the averages, per update
static const int trial_every = 16;  // updates from one trial of a longer window to the next
static const double margin = 0.1;   // of what is missing to 1, by which a longer window must agree better than asked

// ---- windows ----------------------------------------------------------------------------------------------------------
void pbTrain_SetLevels(pbTrain *t) {
  pbLearnAgreement *a = &t->agreement;
  const pbTrainSettings *s = &t->settings;
  a->level[0] = s->window;
  a->levels = 1;
  if (!(s->agree > 0)) return;

  while (a->level[a->levels - 1] / 2 >= s->least) {
    PB_ASSERT(a->levels < PB_TRAIN_LEVELS);
    a->level[a->levels] = a->level[a->levels - 1] / 2;
    a->levels++;
  }
}

size_t pbTrain_MostRows(const pbTrain *t) {
  int shortest = t->agreement.level[t->agreement.levels - 1];
  return (size_t)t->settings.updates * (size_t)((t->agreement.level[0] + shortest - 1) / shortest) + 1;
}

static void set_window(pbTrain *t, int level) {
  t->agreement.first = level;
  t->settings.window = t->agreement.level[level];
  t->steps = t->settings.window * t->every;
}

double pbTrain_Decisions(const pbTrain *t, int updates) { return (double)updates * t->agreement.level[0]; }

// Averages that have seen something; else NAN.
static double agreement_of(const pbTrain *t, int level) {
  const double *e = t->agreement.estimate + 2 * level;
  double worlds = t->settings.worlds, q = e[0] / e[1], all = 1 + (worlds - 1) * q;
  if (!(e[1] > 0)) return NAN;
  double r = all > 0 ? worlds * q / all : -1;

  return r > -1 ? r : -1;
}

double pbTrain_Agreement(const pbTrain *t) { return t->agreement.estimate ? agreement_of(t, (int)t->now->level) : NAN; }

// What an update with this window is worth, at most 1: agreeing better than asked helps no more. NAN: nothing is known of it.
static double share_of(const pbTrain *t, int level) {
  double share = agreement_of(t, level) / t->settings.agree;
  if (share > 1) return 1;

  return share < 0 ? 0 : share;
}

// Where a critic stands behind it, each window sees all that follows, and shorter ones make more updates of the same decisions:
// what counts is the worth of an update by its decisions.
static double worth_of(const pbTrain *t, int level) { return share_of(t, level) / t->agreement.level[level]; }

static bool has_critic(const pbTrain *t) { return t->settings.method == pb_trainShac; }

// The most worth of the present window, all shorter ones, and the next longer one where that is better by a margin.
static int best_level(const pbTrain *t) {
  const pbLearnAgreement *a = &t->agreement;
  int level = (int)t->now->level, best = level;
  if (level > 0 && worth_of(t, level - 1) > (1 + margin) * worth_of(t, level)) best = level - 1;

  for (int i = level + 1; i < a->levels; i++) {
    if (worth_of(t, i) >= worth_of(t, best)) best = i;
  }
  return best;
}

// Without a critic the longest that agrees: shorter, as far as it takes, where the present one does not; longer by one where that
// one agrees well.
static int longest_level(const pbTrain *t) {
  const pbLearnAgreement *a = &t->agreement;
  double asked = t->settings.agree;
  int level = (int)t->now->level;
  if (level > 0 && agreement_of(t, level - 1) >= asked + margin * (1 - asked) && agreement_of(t, level) >= asked)
    return level - 1;

  while (level < a->levels - 1 && agreement_of(t, level) < asked) level++;
  return level;
}

// A window twice as long is worth at most half of what it could be.
static bool is_tried(const pbTrain *t, int level) { return level > 0 && (!has_critic(t) || share_of(t, level) < 0.5); }

void pbTrain_ChooseWindow(pbTrain *t) {
  pbLearnAgreement *a = &t->agreement;
  double left = pbTrain_Decisions(t, t->settings.updates) - t->now->decisions;
  bool first = t->now->decisions == 0;
  if (a->levels == 1) return;

  int level = 0;
  if (!first) level = has_critic(t) ? best_level(t) : longest_level(t);
  if (level != (int)t->now->level) t->now->since = 0;
  t->now->level = level;

  // the first is on trial, too
  a->trial = first || (++t->now->since >= trial_every && is_tried(t, level));
  if (a->trial) t->now->since = 0;
  if (a->trial && level > 0) level--;

  // no more decisions than there are
  while (level < a->levels - 1 && a->level[level] > left) level++;
  a->trial = a->trial && (first || level < (int)t->now->level);
  set_window(t, level);
}

void pbTrain_LastWindow(pbTrain *t) {
  if (t->agreement.levels > 1) set_window(t, (int)t->now->level);
}

// ---- gradients of worlds ----------------------------------------------------------------------------------------------
size_t pbTrain_Places(const pbTrain *t) {
  size_t rows = (size_t)t->settings.worlds * (size_t)t->agreement.levels, fit = MOST_NUMBERS / rows;
  size_t places = fit < MOST_PLACES ? fit : MOST_PLACES;
  if (places < LEAST_PLACES) places = LEAST_PLACES;

  return t->unknowns < places ? t->unknowns : places;
}

// Place and sign of each weight, others in each update: what two gradients seem to share by chance is no lasting error.
static void draw_places(pbTrain *t) {
  pbLearnAgreement *a = &t->agreement;
  bool plain = a->places >= t->unknowns;
  pbRng rng = pbRng_Seed(pbTrain_Draw(t, pb_drawPlaces, (uint64_t)t->now->update, 0));

  for (size_t i = 0; i < t->unknowns; i++) {
    int place = plain ? (int)i : (int)(pbRng_Uniform(&rng) * (double)a->places);
    bool negative = !plain && pbRng_Uniform(&rng) < 0.5;
    a->place[i] = negative ? -1 - place : place;
  }
}

void pbTrain_AddPlace(const pbLearnAgreement *a, size_t i, double g, double *numbers) {
  if (a->place[i] >= 0) numbers[a->place[i]] += g;
  else numbers[-1 - a->place[i]] -= g;
}

double *pbTrain_NumbersOf(const pbTrain *t, int world, int level) {
  const pbLearnAgreement *a = &t->agreement;
  return a->numbers + ((size_t)world * (size_t)a->levels + (size_t)level) * a->places;
}

// Marks come from the end of a window on: shorter windows first.
static void note_world(void *user, int world, int mark, const double *theta_bar) {
  const pbTrain *t = user;
  const pbLearnAgreement *a = &t->agreement;
  double *to = pbTrain_NumbersOf(t, world, a->levels - 1 - mark);

  for (size_t i = 0; i < t->unknowns; i++) pbTrain_AddPlace(a, i, theta_bar[t->unknown[i]], to);
}

pbPullMarks pbTrain_Marks(pbTrain *t) {
  pbLearnAgreement *a = &t->agreement;
  int count = a->levels - a->first;
  draw_places(t);
  memset(a->numbers, 0, (size_t)t->settings.worlds * (size_t)a->levels * a->places * sizeof *a->numbers);

  for (int i = 0; i < count; i++) a->mark[i] = (t->settings.window - a->level[a->levels - 1 - i]) * t->every;
  return (pbPullMarks){.count = count, .step = a->mark, .note = note_world, .user = t};
}

// ---- what they have in common ----------------------------------------------------------------------------------------
double pbTrain_Similarity(const double *const *gradient, int count, size_t size) {
  double together = 0, apart = 0;
  for (size_t i = 0; i < size; i++) {
    double sum = 0;
    for (int w = 0; w < count; w++) {
      sum += gradient[w][i];
      apart += gradient[w][i] * gradient[w][i];
    }
    together += sum * sum;
  }

  return count > 1 ? (together - apart) / ((count - 1) * apart) : NAN;
}

void pbTrain_Agree(pbTrain *t) {
  pbLearnAgreement *a = &t->agreement;
  for (int level = 0; level < a->levels; level++) {
    double *e = a->estimate + 2 * level;
    int count = 0;
    for (int w = 0; w < t->settings.worlds; w++) {
      if (t->length[w] > 0) a->row[count++] = pbTrain_NumbersOf(t, w, level);
    }

    // old ones fade, whether or not there is a new one
    double q = level >= a->first ? pbTrain_Similarity(a->row, count, a->places) : NAN;
    e[0] *= memory;
    e[1] *= memory;
    if (!isfinite(q)) continue;
    e[0] += (1 - memory) * q;
    e[1] += 1 - memory;
  }
  if (!a->trial || t->settings.mix) return;

  // What is on trial counts by what of it is signal: the best factor of a noisy gradient (Wiener)
  double share = agreement_of(t, a->first);
  if (isnan(share)) return;
  for (size_t i = 0; i < t->unknowns; i++) t->theta_bar[t->unknown[i]] *= share > 0 ? share : 0;
}
