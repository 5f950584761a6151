// Gradient of a window's discounted cost, and of the critic behind it, by the policy's weights, through the physics.
// Tests: tests/unit/test_learn.c, tests/oracle/test_train.py.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "batch/batch.h"
#include "learn/train.h"

// ---- cotangents of costs ----------------------------------------------------------------------------------------------
static void add_scaled(double *out, const double *in, double factor, int width) {
  if (!out || !in) return;
  for (int i = 0; i < width; i++) out[i] += factor * in[i];
}

static double *at_row(double *bars, size_t row, int width) { return bars ? bars + row * (size_t)width : NULL; }

static void clear_bars(pbTrain *t) {
  const pbTermSet *c = &t->cost;
  size_t rows = (size_t)t->settings.worlds * (size_t)(t->settings.window + 1);
  double *bars[] = {t->bar_x, t->bar_sensor, t->bar_xpos, t->bar_site};
  int widths[] = {t->nt, c->ns, 3 * c->nbody, 3 * c->nsite};
  for (int i = 0; i < 4; i++) {
    if (bars[i]) memset(bars[i], 0, rows * (size_t)widths[i] * sizeof(double));
  }
}

// Cost of decision k of world w. What was decided is a part of the state after it, and what was decided last of the state before,
// but at a new start, where nothing was.
static void pull_cost(pbTrain *t, int w, int k, double factor) {
  const pbTermSet *c = &t->cost;
  size_t row = (size_t)w * (size_t)(t->settings.window + 1) + (size_t)k + 1;
  double *x = at_row(t->bar_x, row, t->nt), *held = x + t->nt - c->nheld;
  pbTrain_Cost(t, w, k, true);
  add_scaled(held, c->bar_decision, factor, c->nheld);
  if (k > 0 && !pbTrain_Ended(t, w, k - 1)) add_scaled(held - t->nt, c->bar_last, factor, c->nheld);
  pbTrain_PullEntropy(t, w, k, factor, x + t->nt - t->model->policy->held);
  add_scaled(x, c->bar_q, factor, c->nv);
  add_scaled(x + c->nv, c->bar_v, factor, c->nv);
  add_scaled(x + 2 * c->nv, c->bar_a, factor, c->na);
  add_scaled(x + 2 * c->nv + c->na, c->bar_points, factor, c->np);
  add_scaled(x + 2 * c->nv + c->na + c->np, c->bar_point_velocity, factor, c->np);
  add_scaled(at_row(t->bar_sensor, row, c->ns), c->bar_sensor, factor, c->ns);
  add_scaled(at_row(t->bar_xpos, row, 3 * c->nbody), c->bar_xpos, factor, 3 * c->nbody);
  add_scaled(at_row(t->bar_site, row, 3 * c->nsite), c->bar_site, factor, 3 * c->nsite);
}

// Costs of a world's decisions, the k-th of an episode with discount^k, by the share that one decision has in the mean. Returns
// the factor of what follows the last.
static double pull_world(pbTrain *t, int w, double share) {
  double factor = share;
  for (int k = 0; k < t->length[w]; k++) {
    pull_cost(t, w, k, factor);
    factor = pbTrain_Ended(t, w, k) ? share : factor * t->settings.discount;
  }

  return factor;
}

static size_t last_row(const pbTrain *t, int w) { return (size_t)w * (size_t)(t->settings.window + 1) + (size_t)t->length[w]; }

// ---- the critic behind a window ---------------------------------------------------------------------------------------
// Cotangent of what the policy observes at a row into that of the state there: all of it, what the policy holds too.
static pbStatus pull_observation(pbTrain *t, int w, int worker, const double *observation_bar) {
  size_t row = last_row(t, w);
  double *record = t->record + (size_t)worker * (size_t)pbTape_Size(t->model);

  pbTape_Record(t->model, t->row_states + row * (size_t)t->nx, t->scratch[worker], record);
  pbInput input = pbTrain_Input(t, w, t->length[w]);
  const double *theta;
  PB_TRY(pbTrain_ThetaAt(t, w, t->length[w], &theta));

  return pbPolicy_ObserveVjp(t->model, theta, record, &input, t->scratch[worker], observation_bar, at_row(t->bar_x, row, t->nt));
}

static bool goes_on(const pbTrain *t, int w) { return !t->lost[w] && !pbTrain_Ended(t, w, t->length[w] - 1); }

static pbStatus pull_one(pbTrain *t, int i, int worker) {
  return pull_observation(t, t->ids[i], worker, t->observed_bar + (size_t)i * (size_t)t->nobs);
}

// What follows the last decisions of worlds whose episode did not end by itself: the mean of all critics.
static pbStatus pull_values(pbTrain *t) {
  pbHead *head = &t->head_critic;
  int count = 0, critics = head->f->outputs;

  for (int w = 0; w < t->settings.worlds; w++) {
    if (!goes_on(t, w)) continue;
    for (int k = 0; k < critics; k++) t->value_bar[count * critics + k] = t->factor[w] / critics;
    t->batch_row[count] = t->observed + last_row(t, w) * (size_t)t->nobs;
    t->ids[count++] = w;
  }
  if (!count) return pb_ok;

  PB_TRY(pbHead_PullInputs(t, head, t->critic_slow, t->batch_row, count, t->value_bar, t->observed_bar));
  return pbTrain_Spread(t, count, pull_one);
}

// ---- the whole --------------------------------------------------------------------------------------------------------
static pbStatus pull_window(pbTrain *t, double share) {
  const pbTrainSettings *s = &t->settings;
  int count = s->window + 1;
  const int *rows = t->row_steps;
  pbRolloutBar bar = {.x = {t->bar_x, count, rows},
                      .sensordata = {t->bar_sensor, count, rows},
                      .xpos = {t->bar_xpos, count, rows},
                      .site_xpos = {t->bar_site, count, rows}};
  pbVjpOptions options = t->task->truncation;
  options.clip *= share;  // by what one decision costs, however many are averaged
  pbBatchGradient gradient = {.theta = t->theta_bar};

  memset(t->theta_bar, 0, t->ntheta * sizeof(double));
  pbPullMarks marks = pbTrain_Marks(t);
  pbStatus status = pbBatch_VjpMarked(t->batch, &bar, &options, &gradient, &marks);

  return t->stopped ? pb_interrupted : status;
}

pbStatus pbTrain_Gradient(pbTrain *t, bool critic) {
  double decisions = 0;
  for (int w = 0; w < t->settings.worlds; w++) decisions += t->length[w];

  PB_ASSERT(decisions > 0);
  clear_bars(t);
  t->entropy_share = 0;
  for (int w = 0; w < t->settings.worlds; w++) {
    t->factor[w] = pull_world(t, w, 1 / decisions);
  }
  if (critic) PB_TRY(pull_values(t));

  PB_TRY(pull_window(t, 1 / decisions));
  pbTrain_PullDeviations(t);

  return pb_ok;
}
