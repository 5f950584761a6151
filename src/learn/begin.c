// Memory of a training: the batch, networks, what passes from one update to the next, and the arrays of a window.
// Tests: tests/unit/test_learn.c.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "elementary/elementary.h"
#include "learn/train.h"
#include "model/policy_data.h"

static pbStatus fail_memory(pbTrain *t) {
  return pbContext_Fail(t->ctx, pb_no_memory, "%.400s: no memory for %d worlds of %d steps", t->task->name, t->settings.worlds,
                        t->steps);
}

// Everything that is taken is noted, and given back at the end.
static pbStatus take(pbTrain *t, size_t count, size_t size, void *out) {
  PB_ASSERT(t->blocks < PB_TRAIN_BLOCKS);
  void *memory = pbContext_AllocArray(t->ctx, count + 1, size);
  t->block[t->blocks++] = memory;

  memcpy(out, &memory, sizeof memory);
  return memory ? pb_ok : fail_memory(t);
}
static pbStatus reals(pbTrain *t, size_t count, double **out) { return take(t, count, sizeof(double), out); }

// Memory that is a part of what is kept.
static pbStatus segment(pbTrain *t, size_t count, double **out) {
  PB_ASSERT(t->segments < PB_TRAIN_SEGMENTS);
  PB_TRY(reals(t, count, out));
  t->segment[t->segments++] = (pbSegment){*out, count};
  t->kept_size += count;

  return pb_ok;
}

// ---- the policy's slices ------------------------------------------------------------------------------------------------
static bool of_policy(const pbParam *p) { return strncmp(p->name, "policy.", 7) == 0; }

static size_t count_of(const pbParam *p) { return (size_t)p->rows * (size_t)p->cols; }

// Where the policy's slices begin, and how many numbers they have and how many of them are learned.
static size_t measure_slices(pbTrain *t) {
  size_t learned = 0;
  t->policy_at = t->ntheta;

  for (int i = 0; i < pbModel_ParamCount(t->model); i++) {
    pbParam p = pbModel_ParamAt(t->model, i);
    if (!of_policy(&p)) continue;

    // they lie side by side
    if (p.offset < t->policy_at) t->policy_at = p.offset;
    t->policy_count += count_of(&p);
    learned += p.fixed ? 0 : count_of(&p);
  }

  return learned + (t->settings.learned ? (size_t)t->explored : 0);
}

// Behind the weights: their slice is fixed, for whoever else asks.
static void add_deviations(pbTrain *t) {
  for (int i = 0; i < pbModel_ParamCount(t->model); i++) {
    pbParam p = pbModel_ParamAt(t->model, i);
    if (p.offset == (size_t)t->explore_at) t->slices[t->slice_count++] = p.name;
  }

  for (int i = 0; i < t->explored; i++) t->unknown[t->unknowns++] = (size_t)(t->explore_at + i);
}

static pbStatus find_slices(pbTrain *t) {
  PB_TRY(take(t, measure_slices(t), sizeof *t->unknown, &t->unknown));
  PB_TRY(take(t, (size_t)pbModel_ParamCount(t->model), sizeof *t->slices, &t->slices));

  for (int i = 0; i < pbModel_ParamCount(t->model); i++) {
    pbParam p = pbModel_ParamAt(t->model, i);
    if (!of_policy(&p) || p.fixed) continue;

    // by name for the pullback, by entry for the update; what is drawn is not learned
    t->slices[t->slice_count++] = p.name;
    for (size_t k = 0; k < count_of(&p); k++) {
      if (!pbTrain_IsDrawn(t, p.offset + k)) t->unknown[t->unknowns++] = p.offset + k;
    }
  }

  if (t->settings.learned) add_deviations(t);
  return pb_ok;
}

static bool gradients(const pbTrain *t) { return t->settings.method == pb_trainBptt || t->settings.method == pb_trainShac; }

// ---- what is kept -----------------------------------------------------------------------------------------------------
static pbStatus take_kept(pbTrain *t) {
  const pbTrainSettings *s = &t->settings;
  double *numbers, *theta;
  PB_TRY(segment(t, sizeof(pbTrainNumbers) / sizeof(double), &numbers));
  t->now = (pbTrainNumbers *)numbers;

  // all of theta, of which the policy's part changes
  PB_TRY(reals(t, t->ntheta, &theta));
  t->theta = theta;
  t->segment[t->segments++] = (pbSegment){theta + t->policy_at, t->policy_count};
  t->kept_size += t->policy_count;

  PB_TRY(segment(t, t->policy_count, &t->best));
  PB_TRY(segment(t, t->unknowns, &t->adam_m));
  PB_TRY(segment(t, t->unknowns, &t->adam_v));
  PB_TRY(segment(t, (size_t)s->worlds * (size_t)t->nx, &t->states));
  PB_TRY(segment(t, (size_t)s->worlds, &t->age));
  PB_TRY(segment(t, (size_t)s->worlds, &t->episode));
  PB_TRY(segment(t, (size_t)s->worlds * (size_t)t->ncommand, &t->command));
  PB_TRY(segment(t, (size_t)s->worlds * t->own_size, &t->own));
  PB_TRY(segment(t, (size_t)t->features, &t->stat_mean));
  PB_TRY(segment(t, (size_t)t->features, &t->stat_square));
  if (gradients(t)) PB_TRY(segment(t, 2 * (size_t)t->agreement.levels, &t->agreement.estimate));
  if (!t->critic) return pb_ok;

  PB_TRY(segment(t, t->head_critic.params, &t->critic_param));
  PB_TRY(segment(t, t->head_critic.params, &t->critic_slow));
  PB_TRY(segment(t, t->head_critic.unknowns, &t->critic_m));

  return segment(t, t->head_critic.unknowns, &t->critic_v);
}

// Last of all: of a state those that are made are saved, so that a run may go on with another number of updates.
static pbStatus take_rows(pbTrain *t) {
  size_t updates = pbTrain_MostRows(t);
  t->kept_size += updates * pbTrain_RowSize(t);
  PB_TRY(reals(t, updates * 2 * (size_t)t->cost.count, &t->term_rows));

  return take(t, updates, sizeof *t->rows, &t->rows);
}

static pbStatus take_learned(pbTrain *t) { return segment(t, pbTrain_LearnedSize(t), &t->best_learned); }

// ---- arrays of a window -------------------------------------------------------------------------------------------------
static pbStatus take_bars(pbTrain *t, size_t rows) {
  const pbTermSet *c = &t->cost;
  PB_TRY(reals(t, rows * (size_t)t->nt, &t->bar_x));
  if (c->sensordata) PB_TRY(reals(t, rows * (size_t)c->ns, &t->bar_sensor));
  if (c->xpos) PB_TRY(reals(t, rows * 3 * (size_t)c->nbody, &t->bar_xpos));

  return c->site_xpos ? reals(t, rows * 3 * (size_t)c->nsite, &t->bar_site) : pb_ok;
}

static pbStatus take_drawn(pbTrain *t) {
  size_t rows = (size_t)t->lanes * (size_t)t->steps;
  size_t decisions = (size_t)t->settings.worlds * (size_t)(t->settings.window + 1);
  PB_TRY(reals(t, decisions * t->own_size, &t->own_rows));
  PB_TRY(reals(t, t->ntheta, &t->theta_world));
  if (pbTrain_DrawsPushes(t, false)) PB_TRY(reals(t, rows * 6 * (size_t)t->model->nbody, &t->xfrc));
  if (pbTrain_DrawsPushes(t, true)) PB_TRY(reals(t, rows * (size_t)t->model->nv, &t->kick));

  bool noise = pbTrain_DrawsNoise(t) || t->model->policy->decide->draws > 0;
  return noise ? reals(t, rows * (size_t)t->model->policy->observed, &t->noise) : pb_ok;
}

// Rows and orders of samples, what became of each world.
static pbStatus take_orders(pbTrain *t) {
  size_t worlds = (size_t)t->lanes, window = (size_t)t->settings.window, rows = worlds * (window + 1);
  PB_TRY(take(t, rows, sizeof *t->batch_row, &t->batch_row));
  PB_TRY(take(t, worlds * window, sizeof *t->order, &t->order));
  PB_TRY(take(t, worlds, sizeof *t->length, &t->length));
  PB_TRY(take(t, worlds, sizeof *t->done, &t->done));
  PB_TRY(take(t, worlds, sizeof *t->ids, &t->ids));
  PB_TRY(take(t, worlds * window, sizeof *t->ended, &t->ended));
  PB_TRY(take(t, worlds, sizeof *t->lost, &t->lost));

  PB_TRY(take(t, window + 1, sizeof *t->row_steps, &t->row_steps));
  for (int k = 0; k <= t->settings.window; k++) t->row_steps[k] = k * t->every;
  return take_bars(t, rows);
}

static pbStatus take_window(pbTrain *t) {
  const pbTermSet *c = &t->cost, *e = &t->end, *y = &t->success;
  size_t worlds = (size_t)t->lanes, window = (size_t)t->settings.window, rows = worlds * (window + 1);

  // what goes in, and what is kept of the worlds between decisions
  PB_TRY(reals(t, worlds * (size_t)t->steps * (size_t)t->nu, &t->ctrl));
  PB_TRY(reals(t, worlds * (size_t)t->ncommand, &t->trial_command));
  PB_TRY(reals(t, worlds * (size_t)t->steps * (size_t)t->ncommand, &t->command_steps));
  PB_TRY(take_drawn(t));

  size_t poses = 0;
  PB_TRY(pbTrain_GivePoses(t, &poses));
  if (poses) PB_TRY(reals(t, worlds * (size_t)t->steps * poses, &t->pose_pos));
  if (poses) t->pose_quat = t->pose_pos + worlds * (size_t)t->steps * poses / 13 * 3;
  if (poses) t->pose_vel = t->pose_pos + worlds * (size_t)t->steps * poses / 13 * 7;
  PB_TRY(reals(t, rows * (size_t)t->nx, &t->row_states));
  if (c->sensordata || e->sensordata || y->sensordata) PB_TRY(reals(t, rows * (size_t)c->ns, &t->row_sensor));
  if (c->xpos || e->xpos || y->xpos) PB_TRY(reals(t, rows * 3 * (size_t)c->nbody, &t->row_xpos));
  if (c->site_xpos || e->site_xpos || y->site_xpos) PB_TRY(reals(t, rows * 3 * (size_t)c->nsite, &t->row_site));
  PB_TRY(reals(t, rows * (size_t)t->nobs, &t->observed));
  if (t->critic) PB_TRY(reals(t, worlds * (size_t)t->head_critic.f->outputs, &t->value_bar));
  if (t->critic) PB_TRY(reals(t, worlds * (size_t)t->nobs, &t->observed_bar));

  // numbers of each decision
  PB_TRY(reals(t, worlds * window, &t->costs));
  PB_TRY(reals(t, worlds * window, &t->clock));
  PB_TRY(reals(t, worlds * window * (size_t)c->count, &t->term_costs));
  PB_TRY(reals(t, (size_t)c->count, &t->term_means));
  PB_TRY(take(t, (size_t)e->count + 1, sizeof *t->episodes_ended, &t->episodes_ended));
  PB_TRY(reals(t, worlds * window, &t->target));
  PB_TRY(reals(t, worlds * window, &t->advantage));
  PB_TRY(reals(t, worlds * window * (size_t)t->nx, &t->fresh));
  size_t outputs = (size_t)t->model->policy->outputs, explored = (size_t)t->explored;
  PB_TRY(reals(t, worlds * window * (outputs > explored ? outputs : explored), &t->mean));
  PB_TRY(reals(t, 2 * explored, &t->old_log));
  t->soft = t->costs;
  if (t->settings.entropy) PB_TRY(reals(t, worlds * window, &t->soft));

  // one world's, one state's
  PB_TRY(reals(t, window + 1, &t->next));
  PB_TRY(reals(t, worlds, &t->factor));
  PB_TRY(reals(t, (size_t)t->nt, &t->tangent));
  PB_TRY(reals(t, (size_t)pbPool_Threads(t->pool) * (size_t)pbTape_Size(t->model), &t->record));
  PB_TRY(take(t, (size_t)pbPool_Threads(t->pool), sizeof *t->scratch, &t->scratch));
  PB_TRY(take(t, worlds, sizeof *t->fate, &t->fate));

  return take_orders(t);
}

static pbStatus take_agreement(pbTrain *t) {
  pbLearnAgreement *a = &t->agreement;
  size_t worlds = (size_t)t->settings.worlds;
  a->places = pbTrain_Places(t);
  PB_TRY(take(t, t->unknowns, sizeof *a->place, &a->place));
  PB_TRY(take(t, worlds, sizeof *a->row, &a->row));
  PB_TRY(reals(t, worlds * (size_t)a->levels * a->places, &a->numbers));
  if (!t->settings.mix) return pb_ok;

  PB_TRY(reals(t, t->unknowns, &t->mix.bar));
  PB_TRY(take(t, worlds, sizeof *t->mix.row, &t->mix.row));
  return reals(t, worlds * a->places, &t->mix.numbers);
}

// ---- batches, networks ------------------------------------------------------------------------------------------------
static pbStatus create_batch(pbTrain *t, int worlds, bool tape, pbBatch **batch) {
  pbBatchOptions options = {.worlds = worlds,
                            .pool = t->pool,
                            .steps = tape ? t->steps : 0,
                            .restarts = tape ? t->settings.window : 0,
                            .own = t->own_name,
                            .own_count = (int)t->own_size,
                            .own_given = true};
  PB_TRY(pbBatch_Create(t->ctx, t->model, &options, batch));
  pbTrain_Disturb(t, *batch, true);
  pbBatch_OnProgress(*batch, pbTrain_Tell, t);
  if (!tape) return pb_ok;
  PB_TRY(pbBatch_WantParameters(*batch, t->slices, t->slice_count));

  return pbBatch_SetGradient(*batch, t->task->gradient);
}

static pbStatus create_heads(pbTrain *t) {
  int worlds = t->settings.worlds, row = t->settings.window + 1;
  if ((double)worlds * row > INT32_MAX) return fail_memory(t);
  if (t->critic) {
    PB_TRY(pbHead_Create(t->ctx, t->pool, pbNetwork_Function(t->critic), worlds, &t->head_critic));
    PB_TRY(pbHead_Create(t->ctx, t->pool, pbNetwork_Function(t->critic_single), worlds * row, &t->head_fit));
  }
  if (t->before) PB_TRY(pbHead_Create(t->ctx, t->pool, pbNetwork_Function(t->before), row, &t->head_before));
  int columns = 0;  // the policy's alone, where it learns from samples
  if (t->settings.method == pb_trainPpo) columns = worlds * t->settings.window;
  else if (t->settings.mix) columns = t->settings.window;

  const pbPolicyFunction *f = t->body ? pbNetwork_Function(t->body) : t->model->policy->decide;
  return columns ? pbHead_Create(t->ctx, t->pool, f, columns, &t->head_policy) : pb_ok;
}

static pbStatus find_drawn(pbTrain *t) {
  size_t most = pbTrain_DrawnCount(t);
  PB_TRY(take(t, most, sizeof *t->own_at, &t->own_at));
  PB_TRY(take(t, most, sizeof *t->own_name, &t->own_name));
  PB_TRY(take(t, most, pbTrain_NameSize(), &t->own_text));
  pbTrain_FindDrawn(t);

  return pb_ok;
}

static pbStatus set_sizes(pbTrain *t) {
  pbTrainSettings *s = &t->settings;
  pbPolicyInfo info;
  if (s->agree > 0) s->window = s->most;
  pbTrain_SetLevels(t);
  t->model = t->task->model;
  bool there = pbModel_PolicyInfo(t->model, &info);
  PB_ASSERT(there);

  // sizes of the model
  t->nx = pbModel_StateSize(t->model);
  t->nt = pbModel_TangentSize(t->model);
  t->nu = pbModel_Size(t->model, "nu");
  t->ntheta = pbModel_ParamSize(t->model);

  // and of the policy: decisions of so many steps
  t->every = info.every;
  t->nobs = info.observations;
  t->ncommand = info.commands;
  t->steps = s->window * info.every;
  t->lanes = s->worlds > s->evaluate_starts ? s->worlds : s->evaluate_starts;
  PB_TRY(find_drawn(t));

  return there ? find_slices(t) : pb_bad_argument;
}

// What the policy's normalizer knows already.
static void take_statistics(pbTrain *t) {
  for (int i = 0; i < t->features; i++) {
    double deviation = t->theta[t->deviation_at + i];
    t->stat_mean[i] = t->theta[t->mean_at + i];
    t->stat_square[i] = deviation * deviation;
  }
  t->now->stats = t->now->best_stats = t->samples;
}

static void set_first_states(pbTrain *t) {
  memcpy(t->theta, t->task->theta, t->ntheta * sizeof(double));
  t->now->log_temperature = pbLog(t->settings.temperature);
  memcpy(t->best, t->theta + t->policy_at, t->policy_count * sizeof(double));
  for (int i = 0; i < t->features; i++) t->stat_square[i] = 1;
  if (t->brought) take_statistics(t);
  if (t->critic) {
    memcpy(t->critic_param, t->head_critic.param, t->head_critic.params * sizeof(double));
    memcpy(t->critic_slow, t->head_critic.param, t->head_critic.params * sizeof(double));
  }
  pbTrain_TakeGiven(t);
  if (t->brought) pbTrain_SyncNormalizer(t);

  for (int w = 0; w < t->settings.worlds; w++) {
    t->age[w] = pbTrain_FirstAge(t, w);
    pbTrain_Start(t, pb_drawStart, (uint64_t)w, 0, t->states + (size_t)w * (size_t)t->nx,
                  t->command + (size_t)w * (size_t)t->ncommand);
    pbTrain_DrawOwn(t, pb_drawStart, (uint64_t)w, 0, t->own + (size_t)w * t->own_size);
  }
}

pbStatus pbTrain_Begin(pbTrain *t, int threads) {
  PB_TRY(set_sizes(t));

  // its own noise is a part of what a policy did last; where another function acts on the decision, noise comes behind that
  pbPolicyModel *policy = t->task->model->policy;
  policy->hears = !policy->act && !pbTrain_Explores(t);
  PB_TRY(pbPool_Create(t->ctx, threads, &t->pool));
  PB_TRY(create_heads(t));
  PB_TRY(take_kept(t));
  PB_TRY(take_learned(t));
  PB_TRY(take_window(t));
  if (gradients(t)) PB_TRY(take_agreement(t));
  PB_TRY(reals(t, t->ntheta, &t->theta_bar));
  PB_TRY(reals(t, 2 * t->ntheta, &t->theta_out));

  // tape for those methods that differentiate
  PB_TRY(create_batch(t, t->lanes, false, &t->trial));
  if (gradients(t) || t->settings.method == pb_trainPpo) PB_TRY(create_batch(t, t->settings.worlds, gradients(t), &t->batch));
  for (int i = 0; i < pbPool_Threads(t->pool); i++) PB_TRY(pbScratch_Create(t->ctx, t->model, NULL, &t->scratch[i]));
  set_first_states(t);

  if (t->settings.method == pb_trainEs || t->settings.method == pb_trainSepCma) PB_TRY(pbTrain_BeginSearch(t));
  if (t->search) {
    t->segment[t->segments++] = (pbSegment){t->search_state, t->search_size};
    t->kept_size += t->search_size;
  }
  PB_TRY(take_rows(t));

  return reals(t, t->kept_size, &t->kept);
}

void pbTrain_End(pbTrain *t) {
  if (t->model) t->task->model->policy->hears = false;
  pbOptimizer_Destroy(t->search);
  pbBatch_Destroy(t->batch);
  pbBatch_Destroy(t->trial);
  int scratches = t->scratch ? pbPool_Threads(t->pool) : 0;
  for (int i = 0; i < scratches; i++) pbScratch_Destroy(t->scratch[i]);
  pbHead_Destroy(t->ctx, &t->head_critic);
  pbHead_Destroy(t->ctx, &t->head_policy);
  pbHead_Destroy(t->ctx, &t->head_before);
  pbHead_Destroy(t->ctx, &t->head_fit);
  pbPool_Destroy(t->pool);

  for (int i = 0; i < t->blocks; i++) pbContext_Free(t->ctx, t->block[i]);
  pbContext_Free(t->ctx, t->search_state);

  // what the file gave stays
  pbTrain kept = {.ctx = t->ctx,
                  .task = t->task,
                  .settings = t->settings,
                  .cost = t->cost,
                  .end = t->end,
                  .success = t->success,
                  .spread = t->spread,
                  .before = t->before,
                  .critic = t->critic,
                  .critic_single = t->critic_single,
                  .mean_at = t->mean_at,
                  .deviation_at = t->deviation_at,
                  .critic_mean_at = t->critic_mean_at,
                  .critic_deviation_at = t->critic_deviation_at,
                  .features = t->features,
                  .brought = t->brought,
                  .samples = t->samples,
                  .given = t->given,
                  .critic_text = t->critic_text,
                  .fresh_critic = t->fresh_critic,
                  .explore_at = t->explore_at,
                  .explored = t->explored,
                  .squashed = t->squashed,
                  .body = t->body,
                  .ramp = t->ramp,
                  .ramps = t->ramps,
                  .schedule = t->schedule,
                  .schedules = t->schedules,
                  .test_terms = t->test_terms,
                  .test_ends = t->test_ends};
  *t = kept;
}
