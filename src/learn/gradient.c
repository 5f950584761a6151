// Gradient of a window's discounted cost, and of the critic behind it, by the policy's weights, through the physics.
// Tests: tests/unit/test_learn.c, tests/oracle/test_train.py.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
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

static void pull_cost(pbTrain *t, size_t row, double factor) {
  const pbTermSet *c = &t->cost;
  double *x = at_row(t->bar_x, row, t->nt);
  pbTrain_Cost(t, row, true);
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
    pull_cost(t, (size_t)w * (size_t)(t->settings.window + 1) + (size_t)k + 1, factor);
    factor = pbTrain_Ended(t, w, k) ? share : factor * t->settings.discount;
  }
  return factor;
}

// ---- the critic behind a window ---------------------------------------------------------------------------------------
// Cotangent of what the policy observes at a row into that of the state there: all of it, what the policy holds too.
static pbStatus pull_observation(pbTrain *t, int w, size_t row, const double *observation_bar) {
  const double *x = t->row_states + row * (size_t)t->nx;

  pbTape_Record(t->model, x, t->scratch, t->record);
  pbInput input = pbTrain_Input(t, w, t->length[w]);
  const double *theta;
  PB_TRY(pbTrain_ThetaAt(t, w, t->length[w], &theta));
  pbStatus status =
      pbPolicy_ObserveVjp(t->model, theta, t->record, &input, t->scratch, observation_bar, at_row(t->bar_x, row, t->nt));
  return status == pb_ok ? pb_ok : pbContext_Fail(t->ctx, status, "%s", pbScratch_Error(t->scratch));
}

// What follows the last decision of world w, where its episode did not end by itself. bar: its factor.
static pbStatus pull_value(pbTrain *t, int w, double bar) {
  pbHead *head = &t->head_critic;
  if (t->lost[w] || pbTrain_Ended(t, w, t->length[w] - 1)) return pb_ok;

  size_t row = (size_t)w * (size_t)(t->settings.window + 1) + (size_t)t->length[w];
  const double *observed = t->observed + row * (size_t)t->nobs;
  memset(head->in_bar, 0, (size_t)t->nobs * sizeof(double));

  PB_TRY(
      head->f->pull(head->f->self, 1, t->critic_slow, observed, NULL, &bar, NULL, head->in_bar, NULL, NULL, NULL, 0, head->work));
  return pull_observation(t, w, row, head->in_bar);
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
  pbStatus status = pbBatch_Vjp(t->batch, &bar, &options, &gradient, NULL);
  return t->stopped ? pb_interrupted : status;
}

pbStatus pbTrain_Gradient(pbTrain *t, bool critic) {
  double decisions = 0;
  for (int w = 0; w < t->settings.worlds; w++) decisions += t->length[w];

  PB_ASSERT(decisions > 0);
  clear_bars(t);
  for (int w = 0; w < t->settings.worlds; w++) {
    double factor = pull_world(t, w, 1 / decisions);
    if (critic) PB_TRY(pull_value(t, w, factor));
  }
  return pull_window(t, 1 / decisions);
}
