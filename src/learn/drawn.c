// What is drawn for each world and episode: parameters, commands that change, pushes, noise of what is observed. All of it
// follows from the seed, the episode and the time within it, so that neither order nor threads nor interruptions matter.
// Tests: tests/unit/test_learn_drawn.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "batch/batch.h"
#include "elementary/elementary.h"
#include "learn/train.h"
#include "model/policy_data.h"

enum { NAME = 256, MOST_ATTEMPTS = 100 };

static bool draws(const pbTrain *t, pbDrawTarget target) {
  for (int i = 0; i < t->task->sample.count; i++) {
    if (t->task->sample.draws[i].target == target) return true;
  }

  return false;
}

bool pbTrain_DrawsPushes(const pbTrain *t, bool velocities) {
  for (int i = 0; i < t->task->sample.count; i++) {
    const pbDraw *d = &t->task->sample.draws[i];
    if (d->target == pb_drawPush && (d->push == pb_pushVelocity) == velocities) return true;
  }

  return false;
}

bool pbTrain_DrawsNoise(const pbTrain *t) { return draws(t, pb_drawObserved); }

// ---- parameters ---------------------------------------------------------------------------------------------------------
bool pbTrain_IsDrawn(const pbTrain *t, size_t entry) {
  for (size_t i = 0; i < t->own_size; i++) {
    if (t->own_at[i] == entry) return true;
  }

  return false;
}

size_t pbTrain_DrawnCount(const pbTrain *t) {
  size_t count = 0;
  for (int i = 0; i < t->task->sample.count; i++) {
    const pbDraw *d = &t->task->sample.draws[i];
    count += d->target == pb_drawParam ? (size_t)d->count : 0;
  }

  return count;
}

// Each entry once, with the name by which a batch knows it.
void pbTrain_FindDrawn(pbTrain *t) {
  for (int i = 0; i < t->task->sample.count; i++) {
    const pbDraw *d = &t->task->sample.draws[i];
    int count = d->target == pb_drawParam ? d->count : 0;
    for (int k = 0; k < count; k++) {
      char *name = t->own_text + t->own_size * NAME;
      if (pbTrain_IsDrawn(t, d->index[k])) continue;
      t->own_name[t->own_size] = pbModel_ParamName(t->model, d->index[k], name, NAME);
      t->own_at[t->own_size++] = d->index[k];
    }
  }
}

size_t pbTrain_NameSize(void) { return NAME; }

static void put_own(const pbTrain *t, const double *own, double *theta) {
  for (size_t i = 0; i < t->own_size; i++) theta[t->own_at[i]] = own[i];
}

// What no model can have is drawn again: tails of normal laws. Where all are such the world fails, and says so.
void pbTrain_DrawOwn(const pbTrain *t, uint64_t stream, uint64_t a, uint64_t b, double *own) {
  const uint64_t counter[3] = {pbTrain_Draw(t, stream, a, b), a, b};
  bool can_be = t->own_size == 0;
  for (uint64_t attempt = 0; attempt < MOST_ATTEMPTS && !can_be; attempt++) {
    memcpy(t->theta_world, t->task->theta, t->ntheta * sizeof *t->theta_world);
    pbTask_DrawParameters(t->task, counter, attempt, t->theta_world);
    can_be = pbModel_CheckParams(NULL, t->model, t->theta_world) == pb_ok;
  }
  for (size_t i = 0; i < t->own_size; i++) own[i] = can_be ? t->theta_world[t->own_at[i]] : NAN;
}

static double *own_row(const pbTrain *t, int w, int k) {
  return t->own_rows + ((size_t)w * (size_t)(t->settings.window + 1) + (size_t)k) * t->own_size;
}

const double *pbTrain_OwnRow(const pbTrain *t, int w, int k) { return own_row(t, w, k); }

// From decision k on.
static void note_own(pbTrain *t, int w, int k) {
  size_t bytes = t->own_size * sizeof *t->own;
  for (; t->own_size && k <= t->settings.window; k++) memcpy(own_row(t, w, k), t->own + (size_t)w * t->own_size, bytes);
}

void pbTrain_NewOwn(pbTrain *t, int w, int k) {
  double *own = t->own + (size_t)w * t->own_size;
  if (!t->own_size) return;
  pbTrain_DrawOwn(t, pb_drawStart, (uint64_t)w, (uint64_t)t->episode[w], own);
  note_own(t, w, k);

  // behind the window the batch has those of the next one, when it begins
  if (k < t->settings.window) memcpy(pbBatch_Own(t->batch) + (size_t)w * t->own_size, own, t->own_size * sizeof *own);
}

void pbTrain_NoteOwn(pbTrain *t) {
  for (int w = 0; w < t->settings.worlds; w++) note_own(t, w, 0);
}

// Numbers of an observed row: those of the model's table; behind them what was drawn, where a critic sees it.
int pbTrain_ObservedWidth(const pbTrain *t, int table) { return table + (t->critic_drawn ? (int)t->own_size : 0); }

void pbTrain_AddDrawn(const pbTrain *t, int w, int k, double *observed) {
  if (!t->critic_drawn) return;
  double *to = observed + t->nobs - (int)t->own_size;
  memcpy(to, pbTrain_OwnRow(t, w, k), t->own_size * sizeof *to);
}

static pbStatus derive(const pbTrain *t, pbBatch *batch, const double *theta) {
  return t->own_size && t->task->recompute ? pbBatch_Derive(batch, theta, NULL, 0) : pb_ok;
}

pbStatus pbTrain_GiveOwn(pbTrain *t) {
  if (t->own_size) memcpy(pbBatch_Own(t->batch), t->own, (size_t)t->settings.worlds * t->own_size * sizeof *t->own);
  return derive(t, t->batch, t->theta);
}

pbStatus pbTrain_GiveTrialOwn(pbTrain *t, const double *theta, uint64_t stream, int starts) {
  for (int w = 0; w < starts && t->own_size; w++)
    pbTrain_DrawOwn(t, stream, (uint64_t)w, 0, pbBatch_Own(t->trial) + (size_t)w * t->own_size);
  return derive(t, t->trial, theta);
}

pbStatus pbTrain_ThetaAt(const pbTrain *t, int w, int k, const double **theta) {
  *theta = t->theta;
  if (!t->own_size) return pb_ok;

  *theta = t->theta_world;
  memcpy(t->theta_world, t->theta, t->ntheta * sizeof *t->theta_world);
  put_own(t, own_row(t, w, k), t->theta_world);

  return t->task->recompute ? pbModel_SetConstants(t->ctx, t->model, t->theta_world) : pb_ok;
}

bool pbTrain_SameOwn(const pbTrain *t, int w, int k) {
  return !t->own_size || (k > 0 && memcmp(own_row(t, w, k), own_row(t, w, k - 1), t->own_size * sizeof(double)) == 0);
}

pbStatus pbTrain_EvaluationTheta(const pbTrain *train, int start, double *theta) {
  PB_ASSERT(train->now && start >= 0);
  double *own = pbContext_AllocArray(train->ctx, train->own_size + 1, sizeof *own);
  if (!own) return pbContext_Fail(train->ctx, pb_no_memory, "no memory for parameters of an evaluation");

  pbTrain_DrawOwn(train, pb_drawEvaluation, (uint64_t)start, 0, own);
  put_own(train, own, theta);
  pbContext_Free(train->ctx, own);
  bool follow = train->own_size && train->task->recompute;

  return follow ? pbModel_SetConstants(train->ctx, train->model, theta) : pb_ok;
}

// ---- commands -----------------------------------------------------------------------------------------------------------
static double timestep(const pbTrain *t) { return t->task->theta[t->model->timestep - t->model->theta0]; }

static bool commands_change(const pbTrain *t) {
  for (int i = 0; i < t->task->sample.count; i++) {
    const pbDraw *d = &t->task->sample.draws[i];
    if (d->target == pb_drawCommand && d->every[0] > 0) return true;
  }

  return false;
}

// Rows of steps `row` on of an episode.
static void put_commands(const pbTrain *t, const uint64_t counter[3], long row, long count, double *command) {
  size_t width = (size_t)t->ncommand;
  bool change = commands_change(t);
  if (!width) return;

  // drawn again only where they change within an episode
  for (long k = 0; k < count; k++) {
    double *to = command + (size_t)k * width;
    if (k == 0 || change) pbTask_DrawCommand(t->task, counter, (double)(row + k) * timestep(t), to);
    else memcpy(to, to - width, width * sizeof *to);
  }
}

void pbTrain_EvaluationCommand(const pbTrain *train, int start, int steps, double *command) {
  PB_ASSERT(train->now && start >= 0 && steps >= 0);
  const uint64_t a = (uint64_t)start, counter[3] = {pbTrain_Draw(train, pb_drawEvaluation, a, 0), a, 0};
  put_commands(train, counter, 0, steps, command);
}

// ---- pushes -------------------------------------------------------------------------------------------------------------
// Of a turn: numbers, or a size along a direction.
static void push_vector(const pbDraw *d, const uint64_t counter[4], uint64_t turn, double out[3]) {
  static const double whole[2] = {0, 1};
  double sine, cosine, up = 0, size;
  uint64_t own[4];
  pbDraw_Turned(counter, turn, own);
  pbDraw_Numbers(d, own, d->now);
  size = d->now[0];
  if (d->way == pb_wayNone) {
    memcpy(out, d->now, (size_t)d->count * sizeof *out);
    return;
  }
  if (d->way == pb_wayGiven) {
    for (int k = 0; k < 3; k++) out[k] = size * d->axis[k];
    return;
  }

  // on the circle or, by its height and angle, on the sphere
  if (d->way == pb_wayAny) up = 2 * pbDraw_Between(whole, counter, turn, 3) - 1;
  pbSinCos(6.283185307179586 * pbDraw_Between(whole, counter, turn, 2), &sine, &cosine);
  double across = sqrt(fmax(1 - up * up, 0));
  out[0] = size * across * cosine;
  out[1] = size * across * sine;
  out[2] = size * up;
}

static void add(double *to, const double *from, int count) {
  for (int i = 0; i < count; i++) to[i] += from[i];
}

// A push that begins with step `at` of a window, of which steps from `first` on are written.
static void put_push(pbTrain *t, const pbDraw *d, const uint64_t counter[4], uint64_t turn, int lane, long at, int first) {
  double vector[3];
  size_t rows = (size_t)lane * (size_t)t->steps;
  push_vector(d, counter, turn, vector);

  // velocities are there when the step begins: added at the end of the one before
  if (d->push == pb_pushVelocity) {
    long before = at - 1;
    if (before >= first && before < t->steps)
      add(t->kick + (rows + (size_t)before) * (size_t)t->model->nv + d->on, vector, d->count);
    return;
  }

  long steps = (long)(pbDraw_Between(d->duration, counter, turn, 4) / timestep(t) + 0.5);
  size_t column = 6 * (size_t)d->on + (d->push == pb_pushTorque ? 3 : 0);
  for (long step = at; step < at + (steps > 1 ? steps : 1) && step < t->steps; step++) {
    if (step >= first) add(t->xfrc + (rows + (size_t)step) * 6 * (size_t)t->model->nbody + column, vector, 3);
  }
}

static void put_pushes(pbTrain *t, const pbDraw *d, const uint64_t counter[4], int lane, long row, int first) {
  double begins = 0, h = timestep(t);
  for (uint64_t turn = 1;; turn++) {
    if (d->every[0] > 0) begins += pbDraw_Between(d->every, counter, turn - 1, 0);
    else begins = pbDraw_Between(d->at, counter, turn, 1);

    // a velocity at the very start is one after the first step
    long at = (long)ceil(begins / h - 1e-6);
    if (d->push == pb_pushVelocity && at < 1) at = 1;
    at += first - row;
    if (at <= t->steps) put_push(t, d, counter, turn, lane, at, first);
    if (at > t->steps || !(d->every[0] > 0)) return;
  }
}

static void clear(double *rows, const pbTrain *t, int lane, int first, int width) {
  size_t from = (size_t)lane * (size_t)t->steps + (size_t)first, count = (size_t)(t->steps - first);
  if (rows) memset(rows + from * (size_t)width, 0, count * (size_t)width * sizeof *rows);
}

void pbTrain_SetDrawn(pbTrain *t, int lane, const pbTrainEpisode *of, long row, int first) {
  uint64_t counter[4] = {pbTrain_Draw(t, of->stream, of->a, of->b), of->a, of->b};
  size_t from = (size_t)lane * (size_t)t->steps + (size_t)first;
  PB_ASSERT(lane >= 0 && lane < t->lanes && row >= 0 && first >= 0);
  put_commands(t, counter, row, t->steps - first, t->command_steps + from * (size_t)t->ncommand);

  clear(t->xfrc, t, lane, first, 6 * t->model->nbody);
  clear(t->kick, t, lane, first, t->model->nv);
  for (int i = 0; i < t->task->sample.count; i++) {
    const pbDraw *d = &t->task->sample.draws[i];
    counter[3] = (uint64_t)i;
    if (d->target == pb_drawPush && first < t->steps) put_pushes(t, d, counter, lane, row, first);
  }
}

// ---- noise --------------------------------------------------------------------------------------------------------------
// Drawn for each decision, and held through it. decision: number of the window's first.
void pbTrain_SetNoise(pbTrain *t, int lane, uint64_t draw, int decision) {
  size_t width = (size_t)t->model->policy->observed;
  if (!t->noise) return;

  // at the first step of each decision
  for (int k = 0; k < t->settings.window; k++) {
    double *row = t->noise + ((size_t)lane * (size_t)t->steps + (size_t)(k * t->every)) * width;
    memset(row, 0, width * sizeof *row);
    for (int i = 0; i < t->task->sample.count; i++) {
      const pbDraw *d = &t->task->sample.draws[i];
      const uint64_t counter[4] = {draw, (uint64_t)lane, (uint64_t)(decision + k), (uint64_t)i};
      if (d->target != pb_drawObserved) continue;
      pbDraw_Numbers(d, counter, d->now);
      for (int e = 0; e < d->count; e++) row[d->index[e]] = d->now[e];
    }
    for (int j = 1; j < t->every; j++) memcpy(row + (size_t)j * width, row, width * sizeof *row);
  }
}

void pbTrain_AddNoise(const pbTrain *t, int w, int k, double *observed) {
  int width = t->noise ? t->model->policy->observed : 0, last = t->steps - 1;
  int step = k * t->every < last ? k * t->every : last;
  const double *row = t->noise ? t->noise + ((size_t)w * (size_t)t->steps + (size_t)step) * (size_t)width : NULL;
  for (int i = 0; i < width; i++) observed[i] += row[i];
}

void pbTrain_Disturb(const pbTrain *t, pbBatch *batch, bool noise) {
  pbBatch_Disturb(batch, &(pbDisturbance){.kick = t->kick, .noise = noise ? t->noise : NULL});
}
