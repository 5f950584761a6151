// What tests of trainings have in common: a pendulum, its task, and the gradient of a window against differences.
#ifndef PB_TEST_LEARN_H
#define PB_TEST_LEARN_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <pullback/io.h>
#include <pullback/learn.h>

#include "learn/train.h"
#include "model/policy_data.h"
#include "support/support.h"

#define PENDULUM                                                                                                           \
  "<mujoco><option timestep='0.01'/><worldbody><geom type='plane' size='5 5 1' pos='0 0 -.448' friction='.05'/><body "     \
  "name='arm'>"                                                                                                            \
  "<joint name='swing' axis='0 1 0' damping='.02'/><geom type='capsule' size='.05' fromto='0 0 0 0 0 -.4' friction='.05' " \
  "mass='1'/>"                                                                                                             \
  "<site name='tip' pos='0 0 -.4'/></body></worldbody><actuator><motor name='motor' joint='swing' "                        \
  "gear='2'/></actuator></mujoco>"

static char folder[64];

static __attribute__((unused)) const char *path_of(const char *name) {
  static char path[4][160];
  static int next;
  next = (next + 1) % 4;
  snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
  return path[next];
}

static __attribute__((unused)) const char *write_file(const char *name, const char *text) {
  const char *path = path_of(name);
  FILE *out = fopen(path, "w");
  assert_non_null(out);
  fputs(text, out);
  fclose(out);
  return path;
}

#define POLICY                                                                                                             \
  "{\"every\": 2, \"observe\": [{\"site_rotation\": \"tip\", \"components\": [0, 2]}, {\"qvel\": true, \"scale\": 0.2}, "  \
  "{\"time\": true}, {\"last\": true}], \"layers\": [{\"scale\": [1, 1, 1, 1, 1]}, {\"normalize\": true}, {\"dense\": 6, " \
  "\"activation\": \"elu\"}, "                                                                                             \
  "{\"dense\": 1, \"activation\": \"tanh\"}]}"
#define LOSS_TERMS                                                                \
  "[{\"site\": \"tip\", \"components\": [2], \"target\": 0.4, \"at\": \"all\"}, " \
  "{\"qvel\": true, \"target\": 0, \"weight\": 0.01, \"at\": \"all\"}"
#define LOSS LOSS_TERMS "]"

static __attribute__((unused)) const char *task_text(char *text, size_t size, const char *train, const char *episode) {
  snprintf(text, size, "{\"model\": \"%s\", \"policy\": %s, \"loss\": %s, \"train\": {%s}, \"episode\": {%s}}", PENDULUM, POLICY,
           LOSS, train, episode);
  return text;
}

static __attribute__((unused)) pbTrain *load(pbContext *ctx, const char *train, const char *episode) {
  char text[6000];
  pbTrain *t;
  const char *path = write_file("task.json", task_text(text, sizeof text, train, episode));
  good(ctx, pbTrain_Load(ctx, path, NULL, NULL, &t));
  return t;
}

#define EPISODE "\"seconds\": 0.4, \"spread\": {\"qpos\": 0.5, \"qvel\": 1}"
#define ENDING  EPISODE ", \"done\": [{\"qvel\": true, \"type\": \"above\", \"target\": -0.4}]"
#define SMALL   "\"worlds\": 5, \"window\": 4, \"updates\": 12, \"evaluate\": {\"every\": 3, \"starts\": 3}"

// ---- gradients --------------------------------------------------------------------------------------------------------
// A window as if there had been none before it.
static __attribute__((unused)) void collect_again(pbTrain *t) {
  size_t worlds = (size_t)t->settings.worlds;
  double steps = t->now->steps, *age = malloc(2 * worlds * sizeof *age), *episode = age + worlds;
  size_t commands = worlds * (size_t)t->ncommand * sizeof(double);
  double *command = malloc(commands + 1), *own = malloc(worlds * t->own_size * sizeof(double) + 1);
  memcpy(age, t->age, worlds * sizeof *age);
  memcpy(episode, t->episode, worlds * sizeof *age);
  memcpy(command, t->command, commands);
  memcpy(own, t->own, worlds * t->own_size * sizeof(double));

  good(t->ctx, pbTrain_Collect(t));
  good(t->ctx, pbTrain_Observe(t));
  t->now->steps = steps;
  memcpy(t->age, age, worlds * sizeof *age);
  memcpy(t->episode, episode, worlds * sizeof *age);
  memcpy(t->command, command, commands);
  memcpy(t->own, own, worlds * t->own_size * sizeof(double));
  free(age);
  free(command);
  free(own);
}

// Mean discounted cost of a window, each of its episodes by itself, with the critic behind it, at present weights.
static __attribute__((unused)) double objective(pbTrain *t, bool critic) {
  double sum = 0, decisions = 0;
  collect_again(t);

  for (int w = 0; w < t->settings.worlds; w++) {
    double factor = 1;
    decisions += t->length[w];
    for (int k = 0; k < t->length[w]; k++) {
      sum += factor * t->costs[w * t->settings.window + k];
      factor = pbTrain_Ended(t, w, k) ? 1 : factor * t->settings.discount;
    }

    if (!critic || pbTrain_Ended(t, w, t->length[w] - 1)) continue;
    const double *last = t->observed + (size_t)(w * (t->settings.window + 1) + t->length[w]) * (size_t)t->nobs;
    good(t->ctx, pbHead_Forward(t, &t->head_critic, t->critic_slow, &last, 1));
    sum += factor * pbTrain_ValueAt(&t->head_critic, 1, 0, false);
  }
  return sum / decisions;
}

static __attribute__((unused)) void check_gradient(pbContext *ctx, pbTrain *t, bool critic, bool ends) {
  static const pbTrainOptions none;
  t->options = &none;
  good(ctx, pbTrain_Begin(t, 1));

  // some updates first, so that worlds, normalizer and critic are in the middle of things
  double value = objective(t, critic), slope = 0, size = 0;
  good(ctx, pbTrain_Normalize(t));
  pbTrain_Advance(t);
  value = objective(t, critic);
  assert_true(isfinite(value));

  // in the middle of a window, too, from where another episode goes on
  int ended = 0, window = t->settings.window;
  for (int w = 0; w < t->settings.worlds; w++) {
    for (int k = 1; k < window - 1; k++) {
      if (!pbTrain_Ended(t, w, k)) continue;
      ended++;
      assert_true(t->observed[(w * (window + 1) + k + 1) * t->nobs + 3] == 0);  // its time
    }
  }
  assert_true((ended > 0) == ends);
  good(ctx, pbTrain_Gradient(t, critic));

  double *theta = malloc(t->ntheta * sizeof *theta), side[2];
  memcpy(theta, t->theta, t->ntheta * sizeof *theta);
  for (size_t i = 0; i < t->unknowns; i++) slope += t->theta_bar[t->unknown[i]] * cos((double)i);
  for (size_t i = 0; i < t->unknowns; i++) size += fabs(t->theta_bar[t->unknown[i]]);
  assert_true(size > 1e-4);

  for (int k = 0; k < 2; k++) {
    for (size_t i = 0; i < t->unknowns; i++) t->theta[t->unknown[i]] = theta[t->unknown[i]] + (k ? -1e-5 : 1e-5) * cos((double)i);
    side[k] = objective(t, critic);
  }
  double quotient = (side[0] - side[1]) / 2e-5;
  if (!(fabs(quotient - slope) < 1e-6 * size)) fail_msg("gradient %.12g, differences %.12g", slope, quotient);
  free(theta);
  pbTrain_Destroy(t);
}

// ---- mistakes ---------------------------------------------------------------------------------------------------------
static __attribute__((unused)) void refused(pbContext *ctx, const char *text, const char *words) {
  pbTrain *t;
  pbStatus status = pbTrain_Load(ctx, write_file("bad.json", text), NULL, NULL, &t);
  assert_true(status == pb_bad_input || status == pb_unsupported);
  if (!strstr(pbContext_Error(ctx), words)) fail_msg("%s", pbContext_Error(ctx));
  assert_null(t);
}

#endif
