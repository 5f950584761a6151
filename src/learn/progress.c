// How far a training is: rates that change on the way, and what the caller is told.
// Tests: tests/unit/test_learn.c.
#include <math.h>

#include "base/clock.h"
#include "elementary/elementary.h"
#include "learn/train.h"

double pbTrain_Fraction(const pbTrain *t) { return t->now->decisions / pbTrain_Decisions(t, t->settings.updates); }

double pbTrain_Rate(const pbTrain *t) { return 1 + (t->settings.last_rate - 1) * pbTrain_Fraction(t); }

double pbTrain_Deviation(const pbTrain *t) {
  const pbTrainSettings *s = &t->settings;
  return s->noise + (s->last_noise - s->noise) * pbTrain_Fraction(t);
}

void pbTrain_SetDeviation(pbTrain *t) {
  if (!pbTrain_Explores(t) || !t->settings.scheduled) return;
  for (int i = 0; i < t->explored; i++) t->theta[t->explore_at + i] = pbLog(pbTrain_Deviation(t));
}

double pbTrain_Adam(pbTrain *t) {
  pbLearnAdam adam = {t->unknowns, t->unknown, t->adam_m, t->adam_v, &t->now->adam};
  double norm = pbLearnAdam_Step(&adam, &t->settings, t->settings.rate * pbTrain_Rate(t), t->theta_bar, t->theta);
  pbTrain_HoldDeviation(t);

  return norm;
}

// At most fifty times a second, so that who interrupts is heard at once, from wherever work goes on.
int pbTrain_Tell(void *user, const pbProgress *progress) {
  (void)progress;
  pbTrain *t = user;
  double now = pb_seconds(), seconds = now - t->began, fraction = pbTrain_Fraction(t), here = fraction - t->first_fraction;
  if (!t->options->progress || (now - t->told < 0.02 && !t->often)) return t->stopped;

  t->told = now;
  // in updates of the longest window
  pbTrainNews news = {.update = (int)(t->now->decisions / pbTrain_Decisions(t, 1)),
                      .updates = t->settings.updates,
                      .steps = t->now->steps,
                      .steps_per_second = (t->now->steps - t->steps_before) / (seconds > 0 ? seconds : 1),
                      .seconds = seconds,
                      .left = here > 0 ? seconds * (1 - fraction) / here : -1,
                      .cost = t->last_cost,
                      .score = t->last_score,
                      .agreement = pbTrain_Agreement(t),
                      .window = t->agreement.level[(int)t->now->level]};
  t->stopped = t->stopped || t->options->progress(t->options->user, &news) != 0;

  return t->stopped;
}

// Whole decisions, at least one.
int pbTrain_EpisodeSteps(const pbTrain *train) {
  pbPolicyInfo info = {.every = 1};
  pbParam h;
  bool known = pbModel_PolicyInfo(train->task->model, &info) && pbModel_Param(NULL, train->task->model, "timestep", &h) == pb_ok;
  double decision = known ? train->task->theta[h.offset] * info.every : 1;
  int count = (int)floor(train->settings.episode / decision + 0.5);

  return (count > 1 ? count : 1) * info.every;
}
