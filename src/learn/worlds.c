// Worlds of a training: starts, windows of decisions with what they cost, episodes that end, evaluations.
// Tests: tests/unit/test_learn.c, tests/oracle/test_train.py.
#include <math.h>
#include <string.h>

#include <pullback/random.h>

#include "base/assert.h"
#include "base/context.h"
#include "learn/train.h"
#include "model/joint.h"

// ---- starts ------------------------------------------------------------------------------------------------------------
void pbTrain_Start(const pbTrain *t, uint64_t stream, uint64_t a, uint64_t b, double *x, double *command) {
  uint64_t draw = pbTrain_Draw(t, stream, a, b);
  memcpy(x, pbTrain_Trajectory(t, a, b)->x0, (size_t)t->nx * sizeof *x);
  pbTask_DrawStart(t->task, &t->cost, (const uint64_t[3]){draw, a, b}, x, command);

  // about what was drawn
  pbRng rng = pbRng_Seed(draw);
  if (!t->spread) return;

  for (int i = 0; i < t->nt; i++) t->tangent[i] = t->spread[i] * (2 * pbRng_Uniform(&rng) - 1);
  pbState_Move(t->model, x, t->tangent, 1);
}

void pbTrain_EvaluationStart(const pbTrain *train, int start, double *x0, double *command) {
  PB_ASSERT(train->now && start >= 0);
  pbTrain_Start(train, pb_drawEvaluation, (uint64_t)start, 0, x0, command);
}

int pbTrain_FirstAge(const pbTrain *t, int w) {
  int64_t decisions = (int64_t)pbTrain_EpisodeSteps(t) * w / t->settings.worlds / t->every;
  return (int)(decisions * t->every);
}

// ---- costs ------------------------------------------------------------------------------------------------------------
// What a set of terms looks at: the state after decision k of world w, what was decided, and why.
static void load_row(const pbTrain *t, pbTermSet *set, int w, int k) {
  size_t row = (size_t)w * (size_t)(t->settings.window + 1) + (size_t)k + 1;
  if (set->states) memcpy(set->states, t->row_states + row * (size_t)t->nx, (size_t)t->nx * sizeof(double));
  if (set->sensordata) memcpy(set->sensordata, t->row_sensor + row * (size_t)set->ns, (size_t)set->ns * sizeof(double));
  if (set->xpos) memcpy(set->xpos, t->row_xpos + row * 3 * (size_t)set->nbody, 3 * (size_t)set->nbody * sizeof(double));
  if (set->site_xpos) memcpy(set->site_xpos, t->row_site + row * 3 * (size_t)set->nsite, 3 * (size_t)set->nsite * sizeof(double));

  set->command = pbTrain_Input(t, w, k).command;
  set->last = pbTrain_Began(t, w, k) + set->held_at;
  set->clock = t->clock[(size_t)w * (size_t)t->settings.window + (size_t)k];
}

double pbTrain_Cost(pbTrain *t, int w, int k, bool pull) {
  load_row(t, &t->cost, w, k);
  return pbTermSet_Value(&t->cost, NULL, pull, NULL);
}

// Terms of "done" after this decision: the episode ends where they are above zero. NaN: they have no value there.
static double end_value(pbTrain *t, int w, int k) {
  if (!t->end.count) return 0;
  load_row(t, &t->end, w, k);
  return pbTermSet_Value(&t->end, NULL, false, NULL);
}

bool pbTrain_Ended(const pbTrain *t, int w, int k) { return t->ended[(size_t)w * (size_t)t->settings.window + (size_t)k]; }

// What decision k of a world cost, and whether its episode ended with it. there: it came to its end. False: the world failed, or
// its loss is not finite, or whether it has ended has no answer. steps: that its episode has made by then.
static bool judge(pbTrain *t, int w, int k, long steps, bool there) {
  size_t at = (size_t)w * (size_t)t->settings.window + (size_t)k;
  t->clock[at] = (double)steps * t->cost.timestep;
  t->costs[at] = there ? pbTrain_Cost(t, w, k, false) : NAN;
  pbTrain_KeepTerms(t, w, k);
  double end = isfinite(t->costs[at]) ? end_value(t, w, k) : NAN;
  t->ended[at] = end > 0;

  return !isnan(end);
}

// ---- windows ----------------------------------------------------------------------------------------------------------
static bool soft(pbStatus status) { return status == pb_not_finite || status == pb_no_convergence || status == pb_singular; }

// Exploration: a draw for each decision, held through it.
static void draw_noise(pbTrain *t) {
  const pbTrainSettings *s = &t->settings;
  double deviation = pbTrain_Explores(t) ? 0 : pbTrain_Deviation(t);

  for (int w = 0; w < s->worlds; w++) {
    pbRng rng = pbRng_Seed(pbTrain_Draw(t, pb_drawNoise, (uint64_t)t->now->update, (uint64_t)w));
    double *ctrl = t->ctrl + (size_t)w * (size_t)t->steps * (size_t)t->nu;
    for (int k = 0; k < s->window; k++) {
      double *first = ctrl + (size_t)k * (size_t)t->every * (size_t)t->nu;
      for (int i = 0; i < t->nu; i++) first[i] = deviation > 0 ? deviation * pbRng_Normal(&rng) : 0;
      for (int j = 1; j < t->every; j++) memcpy(first + j * t->nu, first, (size_t)t->nu * sizeof *first);
    }
  }
}

const double *pbTrain_NoiseOf(const pbTrain *t, int decision) {
  size_t w = (size_t)(decision / t->settings.window), k = (size_t)(decision % t->settings.window);
  return t->ctrl + (w * (size_t)t->steps + k * (size_t)t->every) * (size_t)t->nu;
}

static pbBatchOutput outputs(pbTrain *t) {
  return (pbBatchOutput){.states = t->row_states,
                         .sensordata = t->row_sensor,
                         .xpos = t->row_xpos,
                         .site_xpos = t->row_site,
                         .rows = t->row_steps,
                         .row_count = t->settings.window + 1,
                         .steps_done = t->done};
}

// Statuses of the worlds of a call: pb_ok where they are such that training can go on without those that failed.
static pbStatus tolerate(pbTrain *t, pbBatch *batch, pbStatus status, int worlds) {
  if (status == pb_ok) return pb_ok;
  if (!soft(status)) return status;

  for (int w = 0; w < worlds; w++) {
    pbStatus own = pbBatch_Status(batch)[w];
    if (own != pb_ok && !soft(own)) return own;
  }

  return t->stopped ? pb_interrupted : pb_ok;
}

static double sum_done(const pbTrain *t, int worlds) {
  double sum = 0;
  for (int w = 0; w < worlds; w++) sum += t->done[w];
  return sum;
}

// Nothing to learn from; what the first world said is the likeliest reason.
pbStatus pbTrain_FailAll(const pbTrain *t, const pbBatch *batch) {
  const char *why = pbBatch_Error(batch, 0);
  if (!*why) why = t->cost.fault[0] ? t->cost.fault : t->end.fault;
  if (!*why) why = "the loss is not finite";
  return pbContext_Fail(t->ctx, pb_not_finite, "%.400s: no world has a finite loss at update %.0f: %.600s", t->task->name,
                        t->now->update + 1, why);
}

static pbTrainEpisode present_episode(const pbTrain *t, int w) {
  return (pbTrainEpisode){pb_drawStart, (uint64_t)w, (uint64_t)t->episode[w]};
}

// A new episode of a world, by its number, from the state x on; what is drawn for it from decision k of the window on.
static void begin_episode(pbTrain *t, int w, int k, double *x) {
  t->age[w] = 0;
  t->episode[w]++;
  pbTrainEpisode episode = present_episode(t, w);
  pbTrain_Start(t, episode.stream, episode.a, episode.b, x, t->command + (size_t)w * (size_t)t->ncommand);
  pbTrain_NewOwn(t, w, k);
  pbTrain_SetDrawn(t, w, &episode, 0, k * t->every);
  pbTrain_SetPath(t, w, pbTrain_Trajectory(t, (uint64_t)w, (uint64_t)t->episode[w]), 0, k * t->every);
}

// Steps of its episode that a world has made: ages of the first ones are set off from one another.
static long path_row(const pbTrain *t, int w) { return (long)t->age[w] - (t->episode[w] > 0 ? 0 : pbTrain_FirstAge(t, w)); }

// Decision k of a world that has come so far: a world that is lost is left out of the update as a whole.
static void note_decision(pbTrain *t, int w, int k) {
  if (t->lost[w]) return;
  t->age[w] += t->every;
  t->lost[w] = !judge(t, w, k, path_row(t, w), t->done[w] >= (k + 1) * t->every);
  if (t->lost[w]) t->length[w] = 0;
  if (t->lost[w] || !pbTrain_Ended(t, w, k)) return;

  // at once: the rest of the window is of another episode
  double *fresh = t->fresh + ((size_t)w * (size_t)t->settings.window + (size_t)k) * (size_t)t->nx;
  begin_episode(t, w, k + 1, fresh);
  memcpy(pbBatch_States(t->batch) + (size_t)w * (size_t)t->nx, fresh, (size_t)t->nx * sizeof *fresh);
}

// Decisions from .. to - 1 of all worlds.
static pbStatus collect_part(pbTrain *t, int from, int to, const pbBatchInput *input) {
  int worlds = t->settings.worlds;
  pbBatchOutput output = outputs(t);
  pbStatus status = pbBatch_RolloutPart(t->batch, t->theta, t->steps, from * t->every, to * t->every, input, &output);
  PB_TRY(tolerate(t, t->batch, status, worlds));

  for (int w = 0; w < worlds; w++) {
    for (int k = from; k < to; k++) note_decision(t, w, k);
  }

  return pb_ok;
}

void pbTrain_Prepare(pbTrain *t) {
  pbTrain_NoteOwn(t);
  for (int w = 0; w < t->settings.worlds; w++) {
    pbTrainEpisode episode = present_episode(t, w);
    pbTrain_SetDrawn(t, w, &episode, path_row(t, w), 0);
    pbTrain_SetNoise(t, w, pbTrain_Draw(t, pb_drawSeen, (uint64_t)t->now->update, (uint64_t)w), 0);
    pbTrain_SetPath(t, w, pbTrain_Trajectory(t, episode.a, episode.b), path_row(t, w), 0);
  }
  pbTrain_DrawExploration(t);
}

pbStatus pbTrain_Collect(pbTrain *t) {
  int worlds = t->settings.worlds, window = t->settings.window, lost = 0;
  draw_noise(t);
  PB_TRY(pbTrain_GiveOwn(t));
  memcpy(pbBatch_States(t->batch), t->states, (size_t)worlds * (size_t)t->nx * sizeof(double));
  for (int w = 0; w < worlds; w++) {
    t->length[w] = window;
    t->lost[w] = false;
  }

  // decision by decision where an episode may end with one
  pbTrain_Prepare(t);
  pbBatchInput input = pbTrain_Inputs(t, t->ctrl);
  int part = t->end.count ? 1 : window;
  for (int k = 0; k < window; k += part) PB_TRY(collect_part(t, k, k + part, &input));

  t->now->steps += sum_done(t, worlds);
  for (int w = 0; w < worlds; w++) lost += t->lost[w];
  t->dropped = lost;
  t->now->dropped += lost;

  if (lost == worlds) return pbTrain_FailAll(t, t->batch);
  pbTrain_Soften(t);

  return pb_ok;
}

double pbTrain_MeanCost(const pbTrain *t) {
  double sum = 0, count = 0;
  int window = t->settings.window;
  for (int w = 0; w < t->settings.worlds; w++) {
    for (int k = 0; k < t->length[w]; k++) sum += t->costs[(size_t)w * (size_t)window + (size_t)k];
    count += t->length[w];
  }

  return sum / count;
}

void pbTrain_Advance(pbTrain *t) {
  const pbTrainSettings *s = &t->settings;
  int most = pbTrain_EpisodeSteps(t);
  memcpy(t->states, pbBatch_States(t->batch), (size_t)s->worlds * (size_t)t->nx * sizeof(double));

  for (int w = 0; w < s->worlds; w++) {
    if (t->lost[w] || t->age[w] >= most) begin_episode(t, w, s->window, t->states + (size_t)w * (size_t)t->nx);
  }
}

// ---- observations -----------------------------------------------------------------------------------------------------
const double *pbTrain_Began(const pbTrain *t, int w, int k) {
  size_t window = (size_t)t->settings.window, nx = (size_t)t->nx;
  if (k > 0 && pbTrain_Ended(t, w, k - 1)) return t->fresh + ((size_t)w * window + (size_t)(k - 1)) * nx;
  return t->row_states + ((size_t)w * (window + 1) + (size_t)k) * nx;
}

typedef struct Spread {
  pbTrain *t;
  pbStatus (*work)(pbTrain *t, int w, int worker);
} Spread;

static void one_world(void *user, int w, int worker) {
  const Spread *s = user;
  s->t->fate[w] = s->work(s->t, w, worker);
}

pbStatus pbTrain_Spread(pbTrain *t, int count, pbStatus (*work)(pbTrain *t, int w, int worker)) {
  Spread spread = {t, work};
  PB_ASSERT(count <= t->lanes);

  // parameters of their own have room for one world at a time
  if (t->own_size)
    for (int w = 0; w < count; w++) one_world(&spread, w, 0);
  else pbPool_Run(t->pool, count, one_world, &spread);

  // the text is of what a thread did last: the first that failed says it again
  for (int w = 0; w < count; w++) {
    if (t->fate[w] == pb_ok) continue;
    pbStatus status = work(t, w, 0);
    return pbContext_Fail(t->ctx, status == pb_ok ? t->fate[w] : status, "%s", pbScratch_Error(t->scratch[0]));
  }

  return pb_ok;
}

static pbStatus observe_world(pbTrain *t, int w, int worker) {
  const double *theta = t->theta;
  for (int k = 0; k <= t->length[w]; k++) {
    double *observed = t->observed + ((size_t)w * (size_t)(t->settings.window + 1) + (size_t)k) * (size_t)t->nobs;
    pbInput input = pbTrain_Input(t, w, k);
    if (t->own_size && (k == 0 || !pbTrain_SameOwn(t, w, k))) PB_TRY(pbTrain_ThetaAt(t, w, k, &theta));
    PB_TRY(pbPolicy_Observe(t->model, theta, pbTrain_Began(t, w, k), &input, t->scratch[worker], observed));
    pbTrain_AddNoise(t, w, k, observed);
    pbTrain_AddDrawn(t, w, k, observed);
  }

  return pb_ok;
}

pbStatus pbTrain_Observe(pbTrain *t) { return pbTrain_Spread(t, t->settings.worlds, observe_world); }

const double *pbTrain_Observation(const pbTrain *t, int decision) {
  size_t w = (size_t)(decision / t->settings.window), k = (size_t)(decision % t->settings.window);
  return t->observed + (w * (size_t)(t->settings.window + 1) + k) * (size_t)t->nobs;
}

// ---- evaluation -------------------------------------------------------------------------------------------------------
typedef struct Tally {
  double sum, worst, path;
  int decisions;
  bool over, ended, diverged, success;
} Tally;

// How far the first free body went with a decision, level. NaN: no body is free.
static double way(const pbTrain *t, int w, int k) {
  const pbModel *m = t->model;
  int j = 0;
  while (j < m->njnt && !(pbJoint_HasRotation(m->jnt_type[j]) && pbJoint_PlainCount(m->jnt_type[j]))) j++;
  if (j == m->njnt) return NAN;

  size_t row = (size_t)w * (size_t)(t->settings.window + 1) + (size_t)k;
  const double *from = t->row_states + row * (size_t)t->nx + t->cost.qpos_at + m->jnt_qposadr[j], *to = from + t->nx;
  double x = to[0] - from[0], y = to[1] - from[1];

  return sqrt(x * x + y * y);
}

// Terms of "done" that end an episode now.
static void note_ends(pbTrain *t) {
  for (int i = 0; i < t->end.count; i++) t->episodes_ended[i] += t->end.terms[i].value > 0;
}

// What an episode that ended, or diverged, would have gone on to cost: no less than nothing, and its worst so far. One that
// diverged before it cost anything is no cheap one.
static double tally_cost(const Tally *tally, int decisions) {
  if (!tally->decisions) return INFINITY;
  double rest = tally->worst > 0 ? tally->worst : 0;
  return (tally->sum + rest * (decisions - tally->decisions)) / decisions;
}

// In the end, that is: an episode that ends before its time is none.
static bool succeeds(pbTrain *t, int w, int k) {
  if (!t->success.count) return false;
  load_row(t, &t->success, w, k);
  return pbTermSet_Value(&t->success, NULL, false, NULL) <= 0;
}

static void tally_window(pbTrain *t, Tally *tally, int w, int decisions) {
  bool ended = false;
  for (int k = 0; k < t->settings.window && tally->decisions < decisions && !ended; k++) {
    long steps = (long)(tally->decisions + 1) * t->every;
    ended = tally->diverged = !judge(t, w, k, steps, t->done[w] >= (k + 1) * t->every);
    if (ended) break;

    double cost = t->costs[(size_t)w * (size_t)t->settings.window + (size_t)k];
    tally->sum += cost;
    tally->worst = tally->decisions && tally->worst > cost ? tally->worst : cost;
    tally->decisions++;
    for (int i = 0; i < t->cost.count; i++) t->term_means[i] += pbTrain_TermCosts(t, w, k)[i];
    tally->path += way(t, w, k);
    ended = pbTrain_Ended(t, w, k);
    if (ended && tally->decisions < decisions) note_ends(t);
    if (tally->decisions == decisions) tally->success = succeeds(t, w, k);
  }

  // an end at the very last decision is one in time
  tally->ended = ended && tally->decisions < decisions;
  tally->over = tally->ended || tally->decisions >= decisions;
}

// What acts on the starts that are still running, in the window to come: their numbers into ids, how many there are.
static int prepare_trials(pbTrain *t, uint64_t stream, int starts, const Tally *tally) {
  int count = 0;
  for (int w = 0; w < starts; w++) {
    const pbTrainEpisode episode = {stream, (uint64_t)w, 0};
    long row = (long)tally[w].decisions * t->every;
    if (tally[w].over) continue;
    t->ids[count++] = w;
    pbTrain_SetPath(t, w, pbTrain_Trajectory(t, episode.a, 0), row, 0);
    pbTrain_SetDrawn(t, w, &episode, row, 0);
    pbTrain_SetNoise(t, w, pbTrain_Draw(t, stream, (uint64_t)w, 1), tally[w].decisions);
  }

  return count;
}

static pbStatus run_trials(pbTrain *t, const double *theta, uint64_t stream, int starts, int decisions, Tally *tally) {
  int running = starts;
  while (running > 0) {
    int count = prepare_trials(t, stream, starts, tally);
    memset(t->done, 0, (size_t)starts * sizeof *t->done);
    pbBatchOutput output = outputs(t);
    pbBatchInput input = pbTrain_Inputs(t, NULL);
    pbStatus status = pbBatch_Rollout(t->trial, theta, t->ids, count, t->steps, &input, &output);
    PB_TRY(tolerate(t, t->trial, status, 0));
    t->now->steps += sum_done(t, starts);

    for (int i = 0; i < count; i++) tally_window(t, &tally[t->ids[i]], t->ids[i], decisions);
    running = 0;
    for (int w = 0; w < starts; w++) running += !tally[w].over;
  }

  return pb_ok;
}

pbStatus pbTrain_Evaluate(pbTrain *t, const double *theta, uint64_t stream, int starts, double *score, double *alive) {
  int decisions = pbTrain_EpisodeSteps(t) / t->every;
  Tally *tally = pbContext_AllocArray(t->ctx, (size_t)starts, sizeof *tally);
  if (!tally) return pbContext_Fail(t->ctx, pb_no_memory, "no memory for an evaluation");

  for (int w = 0; w < starts; w++)
    pbTrain_Start(t, stream, (uint64_t)w, 0, pbBatch_States(t->trial) + (size_t)w * (size_t)t->nx,
                  t->trial_command + (size_t)w * (size_t)t->ncommand);
  for (int i = 0; i < t->cost.count; i++) t->term_means[i] = 0;
  for (int i = 0; i < t->end.count; i++) t->episodes_ended[i] = 0;
  pbTrain_Disturb(t, t->trial, stream != pb_drawEvaluation || t->settings.evaluate_noise);
  pbStatus status = pbTrain_GiveTrialOwn(t, theta, stream, starts);
  if (status == pb_ok) status = run_trials(t, theta, stream, starts, decisions, tally);

  double made = 0;
  *score = *alive = t->success_rate = t->episode_path = 0;
  t->episodes_diverged = 0;
  for (int w = 0; w < starts; w++) {
    *score += tally_cost(&tally[w], decisions) / starts;
    *alive += (tally[w].ended ? 0.0 : 1.0) / starts;
    t->success_rate += (tally[w].success ? 1.0 : 0.0) / starts;
    made += tally[w].decisions;
    t->episode_path += tally[w].path / starts;
    t->episodes_diverged += tally[w].diverged;
  }
  if (!t->success.count) t->success_rate = NAN;
  t->episode_length = made / starts * t->every * t->cost.timestep;
  for (int i = 0; i < t->cost.count; i++) t->term_means[i] /= made;
  pbContext_Free(t->ctx, tally);

  return status;
}
