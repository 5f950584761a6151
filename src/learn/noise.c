// Are the gradients of a training noise? Asked once, when it has ended: a few worlds go on for a window by the policy as it is,
// and what comes of moves is compared with what derivatives foresee (src/rollout/noise.c). No number of the training is touched.
// Test: tests/oracle/test_noise.py.
#include <math.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/context.h"
#include "learn/train.h"

enum { most_looked_at = 6 };

static pbStatus look_at(pbTrain *t, pbRollout *r, int w, pbNoise *noise) {
  size_t first = (size_t)w * (size_t)t->steps, n = (size_t)t->model->nmocap;
  pbRolloutInput input = {.command = t->ncommand ? t->command_steps + first * (size_t)t->ncommand : NULL};
  if (t->pose_pos) {
    input.mocap_pos = t->pose_pos + first * 3 * n;
    input.mocap_quat = t->pose_quat + first * 4 * n;
    input.mocap_vel = t->pose_vel + first * 6 * n;
  }

  // pushes that change velocities are left out
  const double *theta;
  if (t->xfrc) input.xfrc = t->xfrc + first * 6 * (size_t)t->model->nbody;
  PB_TRY(pbTrain_ThetaAt(t, w, 0, &theta));
  PB_TRY(pbRollout_Forward(r, theta, t->states + (size_t)w * (size_t)t->nx, &input, NULL));
  return pbRollout_Noise(r, NULL, noise);
}

static int by_time(const void *a, const void *b) {
  const pbNoise *first = a, *second = b;
  return (first->time > second->time) - (first->time < second->time);
}

// Of those that were looked at, the infinite times last: the median of the finite ones, where these are half at least.
static void judge(const pbTrain *t, pbNoise *found, int count, pbTrainResult *result) {
  int noisy = 0;
  qsort(found, (size_t)count, sizeof *found, by_time);
  for (int i = 0; i < count; i++) noisy += found[i].step >= 0;
  if (noisy == 0 || 2 * noisy < count) return;

  result->noise = found[noisy / 2];
  int half = result->noise.step / t->every / 2;
  PB_ASSERT(result->noise.step > 0);
  result->noise_window = half > 1 ? half : 1;
}

pbStatus pbTrain_Noise(pbTrain *t, pbTrainResult *result) {
  pbNoise found[most_looked_at];
  pbRolloutPlan plan;
  pbRollout *r = NULL;
  const pbVjpOptions *o = &t->task->truncation;
  bool whole = !(o->decay > 0 || o->window > 0 || o->clip > 0);
  int worlds = t->settings.worlds < most_looked_at ? t->settings.worlds : most_looked_at, count = 0;
  result->noise = (pbNoise){.time = INFINITY, .step = -1, .window = INFINITY};
  if (!whole || (t->settings.method != pb_trainBptt && t->settings.method != pb_trainShac)) return pb_ok;

  pbTrain_Prepare(t);
  PB_TRY(pbRollout_PlanSlots(t->ctx, t->model, t->steps, 0, 1, &plan));
  PB_TRY(pbRollout_Create(t->ctx, t->model, &plan, NULL, &r));

  // Worlds from all over an episode; one that cannot go on says nothing.
  pbStatus status = pb_ok;
  for (int i = 0; i < worlds && status != pb_no_memory; i++) {
    status = look_at(t, r, i * t->settings.worlds / worlds, &found[count]);
    count += status == pb_ok;
  }

  pbRollout_Destroy(r);
  judge(t, found, count, result);
  return status == pb_no_memory ? status : pb_ok;
}
