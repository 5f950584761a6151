// What a training leaves beside the best policy's weights: how its optimizer stands, and the critic, so that the next training
// goes on from there.
// Tests: tests/oracle/test_train_on.py.
#include <string.h>

#include "base/assert.h"
#include "learn/train.h"

enum { PARTS = 6 };
typedef struct Part {
  double *now;
  const double *given;
  size_t count;
} Part;

static bool by_adam(const pbTrain *t) { return t->settings.method != pb_trainEs && t->settings.method != pb_trainSepCma; }

size_t pbTrain_Weights(const pbTrain *t) { return t->unknowns - (t->settings.learned ? (size_t)t->explored : 0); }

// In the order in which they are kept.
static void list_parts(const pbTrain *t, Part part[PARTS]) {
  const pbLearned *g = &t->given;
  size_t policy = by_adam(t) ? pbTrain_Weights(t) : 0;
  size_t critic = t->critic ? t->head_critic.params : 0, unknowns = t->critic ? t->head_critic.unknowns : 0;

  part[0] = (Part){t->adam_m, g->m, policy};
  part[1] = (Part){t->adam_v, g->v, policy};
  part[2] = (Part){t->critic_param, g->critic, critic};
  part[3] = (Part){t->critic_slow, g->slow, critic};
  part[4] = (Part){t->critic_m, g->critic_m, unknowns};
  part[5] = (Part){t->critic_v, g->critic_v, unknowns};
}

size_t pbTrain_LearnedSize(const pbTrain *t) {
  Part part[PARTS];
  size_t size = 0;
  list_parts(t, part);

  for (int i = 0; i < PARTS; i++) size += part[i].count;
  return size;
}

void pbTrain_NoteLearned(pbTrain *t) {
  Part part[PARTS];
  double *to = t->best_learned;
  list_parts(t, part);

  for (int i = 0; i < PARTS; i++) {
    if (part[i].count) memcpy(to, part[i].now, part[i].count * sizeof *to);
    to += part[i].count;
  }
  t->now->best_adam = t->now->adam;
  t->now->best_critic_adam = t->now->critic_adam;
}

void pbTrain_TakeGiven(pbTrain *t) {
  Part part[PARTS];
  list_parts(t, part);

  for (int i = 0; i < PARTS; i++) {
    if (part[i].given && part[i].count) memcpy(part[i].now, part[i].given, part[i].count * sizeof(double));
  }
  if (t->given.m) t->now->adam = t->given.steps;
  if (t->given.critic) t->now->critic_adam = t->given.critic_steps;
}

pbLearned pbTrain_Learned(const pbTrain *t) {
  Part part[PARTS];
  const double *at = t->best_learned, *found[PARTS];
  PB_ASSERT(t->now && t->now->evaluated);
  list_parts(t, part);

  for (int i = 0; i < PARTS; i++) {
    found[i] = part[i].count ? at : NULL;
    at += part[i].count;
  }
  return (pbLearned){.steps = t->now->best_adam,
                     .critic_steps = t->now->best_critic_adam,
                     .m = found[0],
                     .v = found[1],
                     .critic = found[2],
                     .slow = found[3],
                     .critic_m = found[4],
                     .critic_v = found[5]};
}
