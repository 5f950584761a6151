// Draws of a task: starts, commands and parameters that are random, for several worlds of each trajectory. What is drawn follows
// from the seed, the iteration, the world and the number of the draw alone, so neither order nor threads matter, and a resumed
// run draws the same. Tests: tests/unit/test_task_sample.c.
#include <math.h>
#include <string.h>

#include <pullback/random.h>

#include "base/assert.h"
#include "base/context.h"
#include "optimize/task.h"

void pbSample_Free(pbContext *ctx, pbSample *sample) {
  int count = sample->draws ? sample->count : 0;
  for (int i = 0; i < count; i++) {
    void *all[] = {sample->draws[i].index, sample->draws[i].first, sample->draws[i].second, sample->draws[i].now};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) pbContext_Free(ctx, all[k]);
  }

  pbContext_Free(ctx, sample->draws);
  *sample = (pbSample){0};
}

int pbTask_Worlds(const pbTask *task) { return task->sample.count ? task->sample.worlds : 1; }
bool pbTask_Sampled(const pbTask *task) { return task->sample.count > 0; }

// ---- numbers ----------------------------------------------------------------------------------------------------------
// The finalizer of splitmix64 (Steele, Lea & Flood 2014) over what was mixed so far and the next word.
static uint64_t mix(uint64_t so_far, uint64_t word) {
  uint64_t z = so_far * 0xd1342543de82ef95u + word + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static pbRng stream(const uint64_t counter[4]) {
  uint64_t seed = 0;
  for (int i = 0; i < 4; i++) seed = mix(seed, counter[i]);
  return pbRng_Seed(seed);
}

static void draw_numbers(const pbDraw *d, const uint64_t counter[4], int count, double *out) {
  pbRng rng = stream(counter);
  if (d->law == pb_drawList) {
    int row = (int)(pbRng_Uniform(&rng) * d->rows);
    PB_ASSERT(row >= 0 && row < d->rows);
    memcpy(out, d->first + (size_t)row * (size_t)count, (size_t)count * sizeof *out);
    return;
  }

  // Numbers of a law of two numbers each.
  for (int k = 0; k < count; k++) {
    double a = d->first[k], b = d->second[k];
    out[k] = d->law == pb_drawUniform ? a + (b - a) * pbRng_Uniform(&rng) : a + b * pbRng_Normal(&rng);
  }
}

void pbDraw_Numbers(const pbDraw *d, const uint64_t counter[4], double *out) {
  draw_numbers(d, counter, d->together ? 1 : d->count, out);
  for (int k = 1; d->together && k < d->count; k++) out[k] = out[0];
}

// ---- again and again ----------------------------------------------------------------------------------------------------
// Beside the number of the draw, which is below 2^12: nothing of turn 0 is other than what is drawn once.
void pbDraw_Turned(const uint64_t counter[4], uint64_t turn, uint64_t out[4]) {
  PB_ASSERT(counter[3] < 1u << 12);
  memcpy(out, counter, 4 * sizeof *out);
  out[3] |= turn << 16;
}

double pbDraw_Between(const double range[2], const uint64_t counter[4], uint64_t turn, uint64_t what) {
  uint64_t own[4];
  if (!(range[1] > range[0])) return range[0];
  pbDraw_Turned(counter, turn, own);
  own[3] |= (what + 1) << 12;
  pbRng rng = stream(own);
  return range[0] + (range[1] - range[0]) * pbRng_Uniform(&rng);
}

uint64_t pbDraw_TurnAt(const pbDraw *d, const uint64_t counter[4], double time, double *began) {
  uint64_t turn = 0;
  *began = 0;
  while (d->every[0] > 0) {
    // times of steps are sums of rounded numbers
    double next = *began + pbDraw_Between(d->every, counter, turn, 0);
    if (next > time + 1e-9) break;
    *began = next;
    turn++;
  }
  return turn;
}

// ---- a world ----------------------------------------------------------------------------------------------------------
void pbDraw_PutParameters(const pbDraw *d, double *theta) {
  for (int k = 0; k < d->count; k++) {
    double *at = theta + d->index[k];
    switch (d->use) {
      case pb_drawOffset: *at += d->now[k]; break;
      case pb_drawFactor: *at *= d->now[k]; break;
      default: *at = d->now[k];
    }
  }
}

static void put_state(const pbTask *task, const pbTermSet *set, const pbDraw *d, double *x) {
  if (d->kind == pb_varyQpos) {
    pbTask_MoveQpos(task, d->index, d->now, d->count, d->use == pb_drawValue, x + set->qpos_at);
    return;
  }

  // Plain entries.
  double *entries = x + pbTask_StateAt(set, d->kind);
  for (int k = 0; k < d->count; k++) entries[d->index[k]] = d->now[k] + (d->use == pb_drawOffset ? entries[d->index[k]] : 0);
}

static void command_at(const pbDraw *d, const uint64_t counter[4], double time, double *command) {
  double began;
  uint64_t own[4], turn = pbDraw_TurnAt(d, counter, time, &began);
  pbDraw_Turned(counter, turn, own);
  pbDraw_Numbers(d, own, d->now);
  for (int k = 0; k < d->count; k++) command[d->index[k]] = d->now[k];
}

// One row for every step.
static void put_command(const pbTask *task, const pbTrajectory *tr, const pbDraw *d, const uint64_t counter[4]) {
  double h = task->theta_now[task->model->timestep - task->model->theta0];
  for (int step = 0; step < tr->steps; step++) {
    double *row = tr->command + (size_t)step * (size_t)task->commands;
    if (d->every[0] > 0) command_at(d, counter, step * h, row);
    for (int k = 0; k < d->count; k++) row[d->index[k]] = d->now[k];
  }
}

void pbTask_DrawStart(const pbTask *task, const pbTermSet *set, const uint64_t counter[3], double *x, double *command) {
  for (int i = 0; i < task->sample.count; i++) {
    const pbDraw *d = &task->sample.draws[i];
    const uint64_t all[4] = {counter[0], counter[1], counter[2], (uint64_t)i};
    int commands = d->target == pb_drawCommand ? d->count : 0;
    if (d->target != pb_drawState && !commands) continue;

    // Parameters belong to whoever calls.
    pbDraw_Numbers(d, all, d->now);
    if (d->target == pb_drawState) put_state(task, set, d, x);
    for (int k = 0; k < commands; k++) command[d->index[k]] = d->now[k];
  }
}

void pbTask_DrawCommand(const pbTask *task, const uint64_t counter[3], double time, double *command) {
  for (int i = 0; i < task->sample.count; i++) {
    const uint64_t all[4] = {counter[0], counter[1], counter[2], (uint64_t)i};
    if (task->sample.draws[i].target == pb_drawCommand) command_at(&task->sample.draws[i], all, time, command);
  }
}

void pbTask_DrawParameters(const pbTask *task, const uint64_t counter[3], uint64_t attempt, double *theta) {
  for (int i = 0; i < task->sample.count; i++) {
    const pbDraw *d = &task->sample.draws[i];
    const uint64_t all[4] = {counter[0], counter[1], counter[2], (uint64_t)i};
    uint64_t own[4];
    if (d->target != pb_drawParam) continue;
    pbDraw_Turned(all, attempt, own);
    pbDraw_Numbers(d, own, d->now);
    pbDraw_PutParameters(d, theta);
  }
}

static void put_draw(pbTask *task, pbTrajectory *tr, const pbDraw *d, const uint64_t counter[4]) {
  switch (d->target) {
    case pb_drawParam: pbDraw_PutParameters(d, task->theta_world); return;
    case pb_drawState: put_state(task, &tr->terms, d, tr->x0_world); return;
    case pb_drawCommand: put_command(task, tr, d, counter); return;
    default: return;  // of a training
  }
}

pbStatus pbTask_BeginWorld(pbTask *task, int t, int world) {
  pbSample *sample = &task->sample;
  pbTrajectory *tr = &task->trajectories[t];
  PB_ASSERT(world >= 0 && world < pbTask_Worlds(task));
  if (!pbTask_Sampled(task)) return pb_ok;

  // From the unknowns' values each time: nothing of another world stays.
  memcpy(task->theta_world, task->theta_now, task->ntheta * sizeof(double));
  memcpy(tr->x0_world, tr->x0_now, (size_t)tr->terms.nx * sizeof(double));
  for (int i = 0; i < sample->count; i++) {
    uint64_t number = (uint64_t)t * (uint64_t)sample->worlds + (uint64_t)world;
    const uint64_t counter[4] = {sample->seed, (uint64_t)sample->iteration, number, (uint64_t)i};
    pbDraw_Numbers(&sample->draws[i], counter, sample->draws[i].now);
    put_draw(task, tr, &sample->draws[i], counter);
  }

  // As pbTask_Apply ends.
  memcpy(task->theta_used, task->theta_world, task->ntheta * sizeof(double));
  task->theta_raw = task->theta_world;
  if (pbModel_CheckParams(task->ctx, task->model, task->theta_used) != pb_ok) return pb_not_finite;

  return task->recompute ? pbModel_SetConstants(task->ctx, task->model, task->theta_used) : pb_ok;
}

// ---- derivatives: what a draw multiplies --------------------------------------------------------------------------------
// A cotangent or a motion of the parameters through the draws of the present world: the map is diagonal.
void pbTask_ThroughWorld(const pbTask *task, double *theta) {
  for (int i = task->sample.count - 1; i >= 0; i--) {
    const pbDraw *d = &task->sample.draws[i];
    if (d->target != pb_drawParam || d->use == pb_drawOffset) continue;

    // What a value replaces has no influence.
    for (int k = 0; k < d->count; k++) theta[d->index[k]] *= d->use == pb_drawFactor ? d->now[k] : 0;
  }
}

// ---- what terms say: their mean over the worlds, the worst deviation ------------------------------------------------------
void pbTask_NoteWorld(const pbTask *task, int t, int world) {
  const pbTermSet *set = &task->trajectories[t].terms;
  int worlds = pbTask_Worlds(task);
  PB_ASSERT(world < worlds);

  for (int i = 0; i < set->count; i++) {
    pbTerm *term = &set->terms[i];
    term->sum = term->value / worlds + (world ? term->sum : 0);
    term->worst = fmax(term->deviation, world ? term->worst : 0);

    // The last one ends the sum.
    if (world < worlds - 1) continue;
    term->value = term->sum;
    term->deviation = term->worst;
  }
}
