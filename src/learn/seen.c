// The own normalizer of a critic that looks at other things than its policy does.
// Tests: tests/unit/test_learn_seen.c.
#include <math.h>

#include "learn/train.h"

enum { MOST_SAMPLES = 200000 };  // beyond, old ones are forgotten: as of the policy's normalizer

// ---- the normalizer ---------------------------------------------------------------------------------------------------
static void put_statistics(pbTrain *t) {
  // fixed entries: no fit moves them
  double *to[] = {t->critic_param, t->critic_slow};
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < t->critic_inputs; i++) {
      to[k][t->critic_mean_at + i] = t->seen_mean[i];
      to[k][t->critic_deviation_at + i] = sqrt(t->seen_square[i] + 1e-5);
    }
  }
}

// Mean and variance with one more row: Chan, Golub & LeVeque 1979.
static void note_row(pbTrain *t, const double *row) {
  double before = t->now->seen, all = before + 1;
  for (int i = 0; i < t->critic_inputs; i++) {
    double away = row[t->critic_column[i]] - t->seen_mean[i];
    t->seen_mean[i] += away / all;
    t->seen_square[i] = (t->seen_square[i] * before + away * away * before / all) / all;
  }

  t->now->seen = all < MOST_SAMPLES ? all : MOST_SAMPLES;
}

void pbTrain_NoteSeen(pbTrain *t) {
  if (!t->critic_inputs) return;
  for (int w = 0; w < t->settings.worlds; w++) {
    for (int k = 0; k < t->length[w]; k++) note_row(t, pbTrain_Observation(t, w * t->settings.window + k));
  }

  put_statistics(t);
}

// Of a critic that goes on: from its own numbers, and of how many samples they are.
void pbTrain_TakeSeen(pbTrain *t) {
  if (!t->critic_inputs || !t->given.critic) return;
  for (int i = 0; i < t->critic_inputs; i++) {
    double deviation = t->critic_param[t->critic_deviation_at + i];
    t->seen_mean[i] = t->critic_param[t->critic_mean_at + i];
    t->seen_square[i] = fmax(deviation * deviation - 1e-5, 0);
  }

  // so that new samples count as they would have
  t->now->seen = t->given.critic_samples;
}
