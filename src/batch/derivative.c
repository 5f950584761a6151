// Derivatives of the last rollout, world by world from its tape; gradients by what worlds share, summed by src/batch/sum.c.
// Tests: tests/unit/test_batch.c, tests/unit/test_batch_policy.c, tests/unit/test_batch_pack.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "batch/batch.h"
#include "step/scratch.h"
#include "world/cached.h"

// ---- pullback -----------------------------------------------------------------------------------------------------------
// Where the parts of a gradient stand in a thread's memory: first what is summed over worlds, then what is a world's own.
typedef struct Part {
  double *to;  // the caller's: one for all worlds, or (worlds, size)
  size_t size, at;
  bool wanted, shared;
} Part;
enum {
  part_theta,
  part_ctrl,
  part_qfrc,
  part_xfrc,
  part_command,
  part_mocap_pos,
  part_mocap_rot,
  part_mocap_vel,
  part_pos_before,
  part_rot_before,
  part_x0,
  part_count
};

typedef struct Pull {
  pbBatch *batch;
  const pbRolloutBar *bar;
  const pbVjpOptions *options;
  pbCertificate *certificate;
  const pbPullMarks *marks;
  double *own;
  const pbBatchSecond *second;  // of second derivatives, whose results are handed out likewise
  Part part[part_count];
  size_t shared;  // numbers that are summed: the first
  bool packs;     // worlds of a group go step by step
} Pull;

static Part input_part(const pbBatch *b, double *to, int width, unsigned shared) {
  return (Part){.to = to,
                .size = pbBatch_InputSize(b, width, b->tape_steps),
                .wanted = to != NULL && width > 0,
                .shared = (b->input.shared & shared) != 0};
}

// One row, whatever the steps.
static Part before_part(const pbBatch *b, double *to) {
  Part part = input_part(b, to, 3 * b->nmocap, pb_sharedMocap);
  part.size = 3 * (size_t)b->nmocap;
  return part;
}

static void place_parts(const pbBatch *b, const pbBatchGradient *g, Pull *p) {
  p->part[part_theta] = (Part){.to = g->theta, .size = b->ntheta, .wanted = g->theta || g->own, .shared = g->theta != NULL};
  p->part[part_ctrl] = input_part(b, g->ctrl, b->nu, pb_sharedCtrl);
  p->part[part_qfrc] = input_part(b, g->qfrc, b->nv, pb_sharedQfrc);
  p->part[part_xfrc] = input_part(b, g->xfrc, 6 * b->nbody, pb_sharedXfrc);
  p->part[part_command] = input_part(b, g->command, b->ncommand, pb_sharedCommand);
  p->part[part_mocap_pos] = input_part(b, g->mocap_pos, 3 * b->nmocap, pb_sharedMocap);
  p->part[part_mocap_rot] = input_part(b, g->mocap_rot, 3 * b->nmocap, pb_sharedMocap);
  p->part[part_mocap_vel] = input_part(b, g->mocap_vel, 6 * b->nmocap, pb_sharedMocap);
  p->part[part_pos_before] = before_part(b, g->mocap_pos_before);
  p->part[part_rot_before] = before_part(b, g->mocap_rot_before);
  p->part[part_x0] = (Part){.to = g->x0, .size = (size_t)b->n, .wanted = g->x0 != NULL};

  size_t at = 0;
  for (int shared = 1; shared >= 0; shared--) {
    for (int i = 0; i < part_count; i++) {
      Part *part = &p->part[i];
      if (!part->wanted || part->shared != (shared == 1)) continue;
      part->at = at;
      at += part->size;
    }
    if (shared) p->shared = at;
  }
}

static double *piece(const pbBatchSlot *slot, const Part *part) {
  if (!part->wanted) return NULL;
  double *at = slot->bar + part->at;
  memset(at, 0, part->size * sizeof *at);
  return at;
}

// Has the world derivatives though it failed?
static bool came_short(const pbBatch *b, int world) { return b->partial && b->made[world] < b->tape_steps; }

// Those of a world; of one that came less far, without those of states that it did not reach.
static pbCotangent cotangent_of(const pbBatch *b, const pbCotangent *c, int world, int width) {
  pbCotangent out = *c;
  if (!c->data) return out;
  out.data += (size_t)world * (size_t)c->count * (size_t)width;
  int done = b->made[world];
  if (!came_short(b, world)) return out;

  if (c->steps) {
    while (out.count > 0 && c->steps[out.count - 1] > done) out.count--;
  } else out.count = c->count > 1 ? done + 1 : 0;
  return out.count > 0 ? out : (pbCotangent){0};
}

static pbRolloutBar bar_of(const pbBatch *b, const pbRolloutBar *bar, int world) {
  int np = 3 * pbModel_PointCount(b->model);
  return (pbRolloutBar){.qpos = cotangent_of(b, &bar->qpos, world, b->nv),
                        .qvel = cotangent_of(b, &bar->qvel, world, b->nv),
                        .act = cotangent_of(b, &bar->act, world, b->na),
                        .sensordata = cotangent_of(b, &bar->sensordata, world, b->ns),
                        .xpos = cotangent_of(b, &bar->xpos, world, 3 * b->nbody),
                        .site_xpos = cotangent_of(b, &bar->site_xpos, world, 3 * b->nsite),
                        .points = cotangent_of(b, &bar->points, world, np),
                        .point_velocity = cotangent_of(b, &bar->point_velocity, world, np),
                        .x = cotangent_of(b, &bar->x, world, b->n)};
}

static void resume(pbBatchWorker *k, pbBatchSlot *slot, int world) {
  pbBatch *b = k->batch;
  pbRolloutInput input = pbBatch_InputOf(b, world, b->tape_steps);
  pbTrack_Resume(slot->rollout, &b->track[world], b->tape_steps, pbBatch_ThetaOf(k, world), &input);
  pbBatch_PullParts(k, slot->rollout, world);
  pbBatch_DisturbWorld(b, slot->rollout, world, b->tape_steps);
}

// A world with its tape: its own, or run again, as far as it came.
static pbStatus reach(pbBatchWorker *k, int world, pbRollout **r) {
  pbBatch *b = k->batch;
  int done = b->made[world];
  *r = k->slot->rollout;
  if (!b->thin && !came_short(b, world)) {
    resume(k, k->slot, world);
    return pb_ok;
  }

  *r = k->planned;
  const double *theta = pbBatch_ThetaOf(k, world);
  pbRolloutInput input = pbBatch_InputOf(b, world, b->tape_steps);
  if (k->planned_world == world && k->planned->ran) {
    k->planned->theta = theta;
    k->planned->input = input;
    return pb_ok;
  }
  k->planned_world = world;
  k->sweeps = 2;
  PB_TRY(pbRollout_Shorten(k->planned, done));
  PB_TRY(pbRollout_Forward(k->planned, theta, b->starts + (size_t)world * (size_t)b->nx, &input, NULL));
  k->sweep = 1;
  return pb_ok;
}

// All into the thread's memory: a world that fails leaves nothing in the caller's.
static pbRolloutGradient gradient_in(const pbBatchSlot *slot, const Part *part) {
  return (pbRolloutGradient){.x0 = piece(slot, &part[part_x0]),
                             .ctrl = piece(slot, &part[part_ctrl]),
                             .qfrc = piece(slot, &part[part_qfrc]),
                             .xfrc = piece(slot, &part[part_xfrc]),
                             .command = piece(slot, &part[part_command]),
                             .mocap_pos = piece(slot, &part[part_mocap_pos]),
                             .mocap_rot = piece(slot, &part[part_mocap_rot]),
                             .mocap_vel = piece(slot, &part[part_mocap_vel]),
                             .mocap_pos_before = piece(slot, &part[part_pos_before]),
                             .mocap_rot_before = piece(slot, &part[part_rot_before]),
                             .theta = piece(slot, &part[part_theta])};
}

static pbVjpOptions options_of(const Pull *p, int world) {
  pbVjpOptions options = p->options ? *p->options : (pbVjpOptions){0};
  options.seed += (uint64_t)world;
  return options;
}

// From there what is the world's own to the caller's arrays.
static pbStatus hand_out(pbBatchWorker *k, const pbBatchSlot *slot, const pbRollout *r, int world, const Pull *p,
                         double *theta_bar) {
  pbBatch *b = k->batch;
  const Part *part = p->part;
  if (r->track) pbTrack_Keep(r, &b->track[world]);
  double *own = p->own ? p->own + (size_t)world * b->own_size : NULL;
  if (theta_bar) PB_TRY(pbBatch_PullOwn(k, world, theta_bar, own));

  for (int i = 0; i < part_count; i++) {
    if (!part[i].wanted || part[i].shared || !part[i].to) continue;
    double *to = part[i].to + (size_t)world * part[i].size;
    const double *from = slot->bar + part[i].at;
    for (size_t e = 0; e < part[i].size; e++) to[e] += from[e];
  }

  return pb_ok;
}

static pbStatus pull_world(pbBatchWorker *k, int world, const void *user) {
  const Pull *p = user;
  pbBatchSlot *slot = k->slot;
  pbRolloutBar bar = bar_of(k->batch, p->bar, world);
  pbVjpOptions options = options_of(p, world);
  pbPulling pulling = {.bar = &bar,
                       .options = &options,
                       .gradient = gradient_in(slot, p->part),
                       .certificate = p->certificate ? &p->certificate[world] : NULL,
                       .marks = p->marks,
                       .world = world};
  double *theta_bar = pulling.gradient.theta;

  pbRollout *r;
  PB_TRY(reach(k, world, &r));
  PB_TRY(pbRollout_Pull(r, &pulling));
  slot->world = world;
  return hand_out(k, slot, r, world, p, theta_bar);
}

// The worlds of a group, step by step.
static void pull_pack(pbBatchWorker *k, const void *user) {
  const Pull *p = user;
  pbRolloutBar bar[PB_PACK];
  pbVjpOptions options[PB_PACK];
  pbPulling pulling[PB_PACK];
  pbBatchSlot *end = k->slot + k->packed;

  for (pbBatchSlot *s = k->slot; s < end; s++) {
    size_t i = (size_t)(s - k->slot);
    bar[i] = bar_of(k->batch, p->bar, s->world);
    options[i] = options_of(p, s->world);
    pulling[i] = (pbPulling){.bar = &bar[i],
                             .options = &options[i],
                             .gradient = gradient_in(s, p->part),
                             .certificate = p->certificate ? &p->certificate[s->world] : NULL,
                             .marks = p->marks,
                             .world = s->world};
    resume(k, s, s->world);
    pbBatch_SetSlot(k, s, pbRollout_BeginVjp(s->rollout, &pulling[i]));
  }

  for (int step = k->batch->tape_steps - 1; step >= 0; step--) {
    // Each to what its policy put out, all through that, each on.
    for (pbBatchSlot *s = k->slot; s < end; s++)
      if (s->status == pb_ok) pbBatch_SetSlot(k, s, pbRollout_PullAhead(s->rollout, &pulling[s - k->slot], step));
    pbBatch_PullPack(k, pulling, step);
    for (pbBatchSlot *s = k->slot; s < end; s++)
      if (s->status == pb_ok) pbBatch_SetSlot(k, s, pbRollout_PullStep(s->rollout, &pulling[s - k->slot], step));
  }

  for (pbBatchSlot *s = k->slot; s < end; s++) {
    pbPulling *of = &pulling[s - k->slot];
    pbBatch_SetSlot(k, s, pbRollout_EndVjp(s->rollout, of, s->status));
    if (s->status == pb_ok) pbBatch_SetSlot(k, s, hand_out(k, s, s->rollout, s->world, p, of->gradient.theta));
  }
}

static pbStatus pull_in_pack(pbBatchWorker *k, int world, const void *user) {
  pbBatchSlot *slot;
  return pbBatch_InPack(k, world, pull_pack, user, &slot);
}

static pbStatus second_of_world(pbBatchWorker *k, int world, const void *user);

static bool is_checked(const Pull *p) { return p->options && p->options->spot_check != pb_checkNone; }

// Spot checks look at single steps, smooth contacts at other ones.
static bool goes_in_packs(const Pull *p) {
  return pbBatch_Packs(p->batch) && !p->batch->partial && !is_checked(p) &&
         p->batch->worker[0].slot->rollout->gradient == pb_gradientExact;
}

static const double *leaf(void *user, int world, int worker) {
  const Pull *p = user;
  pbBatchWorker *k = &p->batch->worker[worker];
  pbBatchWork work = p->packs ? pull_in_pack : pull_world;
  if (p->second) work = second_of_world;
  if (!pbBatch_Do(k, world, work, p)) return NULL;

  const pbBatchSlot *slot = k->slot;
  while (slot->world != world) slot++;
  return slot->bar;
}

static void pull_all(Pull *p) {
  pbBatch *b = p->batch;
  pbBatch_Watch(b, true);
  pbGroupSum_Run(&b->sum, &b->groups, p->shared, leaf, p);
  pbBatch_Watch(b, false);
  if (atomic_load(&b->stopped)) return;

  for (int i = 0; i < part_count; i++) {
    const Part *part = &p->part[i];
    if (part->wanted && part->shared) pbGroupSum_Add(&b->sum, part->at, part->size, part->to);
  }
}

static pbStatus check_bar(pbBatch *b, const pbRolloutBar *bar) {
  pbBatchWorker *k = &b->worker[0];
  pbRollout_Lend(k->slot->rollout, &k->slot->bare, b->tape_steps);
  pbStatus status = pbRolloutBar_Check(k->slot->rollout, bar);
  return status == pb_ok ? status : pbContext_Fail(b->ctx, status, "%s", pbContext_Error(k->ctx));
}

static pbStatus check_shared(const pbBatch *b, const Pull *p) {
  bool inputs = false;
  for (int i = part_ctrl; i < part_x0; i++) inputs |= p->part[i].wanted && p->part[i].shared;
  if (!inputs || b->shared_inputs) return pb_ok;
  return pbContext_Fail(b->ctx, pb_bad_argument,
                        "gradients by inputs that worlds share need pbBatchOptions.shared_inputs: memory for their sums");
}

static pbStatus check_restarts(const pbBatch *b, const char *what) {
  bool any = false;
  int taped = b->track ? b->worlds : 0;
  for (int w = 0; w < taped; w++) any |= b->active[w] && b->track[w].restarts > 0;
  if (!any) return pb_ok;
  return pbContext_Fail(b->ctx, pb_unsupported, "%s of a rollout with new starts on the way", what);
}

static pbStatus pull_tape(Pull *p, const pbBatchGradient *gradient) {
  pbBatch *b = p->batch;
  pbBatchGradient none = {0};
  if (!gradient) gradient = &none;
  PB_TRY(pbBatch_BeginTape(b, "backward"));
  if (gradient->own && b->own_given)
    return pbContext_Fail(b->ctx, pb_bad_argument,
                          "own values are given (pbBatchOptions.own_given): there is no gradient by them");
  PB_TRY(check_bar(b, p->bar));

  p->own = gradient->own;
  place_parts(b, gradient, p);
  PB_TRY(check_shared(b, p));
  if (is_checked(p)) PB_TRY(check_restarts(b, "spot checks"));
  p->packs = goes_in_packs(p);  // asked before there are threads: it looks into a worker's scratch
  pull_all(p);
  return pbBatch_End(b);
}

pbStatus pbBatch_Vjp(pbBatch *b, const pbRolloutBar *bar, const pbVjpOptions *options, const pbBatchGradient *gradient,
                     pbCertificate *certificate) {
  Pull p = {.batch = b, .bar = bar, .options = options, .certificate = certificate};
  return pull_tape(&p, gradient);
}

pbStatus pbBatch_VjpMarked(pbBatch *b, const pbRolloutBar *bar, const pbVjpOptions *options, const pbBatchGradient *gradient,
                           const pbPullMarks *marks) {
  Pull p = {.batch = b, .bar = bar, .options = options, .marks = marks};
  return pull_tape(&p, gradient);
}

// ---- forward derivatives --------------------------------------------------------------------------------------------------
typedef struct Push {
  int count;  // directions of each world
  const pbBatchDirection *direction;
  const pbBatchTangent *tangent;
} Push;

// Of direction i: what worlds share once a direction, else a part for each world.
static const double *direction_part(const pbBatch *b, const double *data, size_t size, bool shared, int i, int world) {
  size_t part = shared ? (size_t)i : (size_t)i * (size_t)b->worlds + (size_t)world;
  return data ? data + part * size : NULL;
}

static const double *acting_part(const pbBatch *b, const double *data, int width, unsigned shared, int i, int world) {
  return direction_part(b, data, pbBatch_InputSize(b, width, b->tape_steps), b->input.shared & shared, i, world);
}

static pbRolloutDirection direction_of(const pbBatch *b, const pbBatchDirection *d, int i, int world) {
  bool mocap = b->input.shared & pb_sharedMocap;
  size_t before = 3 * (size_t)b->nmocap;
  return (pbRolloutDirection){.x0 = direction_part(b, d->x0, (size_t)b->n, false, i, world),
                              .ctrl = acting_part(b, d->ctrl, b->nu, pb_sharedCtrl, i, world),
                              .qfrc = acting_part(b, d->qfrc, b->nv, pb_sharedQfrc, i, world),
                              .xfrc = acting_part(b, d->xfrc, 6 * b->nbody, pb_sharedXfrc, i, world),
                              .command = acting_part(b, d->command, b->ncommand, pb_sharedCommand, i, world),
                              .mocap_pos = acting_part(b, d->mocap_pos, 3 * b->nmocap, pb_sharedMocap, i, world),
                              .mocap_rot = acting_part(b, d->mocap_rot, 3 * b->nmocap, pb_sharedMocap, i, world),
                              .mocap_vel = acting_part(b, d->mocap_vel, 6 * b->nmocap, pb_sharedMocap, i, world),
                              .mocap_pos_before = direction_part(b, d->mocap_pos_before, before, mocap, i, world),
                              .mocap_rot_before = direction_part(b, d->mocap_rot_before, before, mocap, i, world),
                              .theta = direction_part(b, d->theta, b->ntheta, true, i, world)};
}

static pbRolloutTangent tangent_of(const pbBatch *b, const pbBatchTangent *t, int i, int world) {
  size_t rows = t->rows ? (size_t)t->row_count : (size_t)b->tape_steps + 1;
  size_t at = ((size_t)i * (size_t)b->worlds + (size_t)world) * rows;
  return (pbRolloutTangent){.x = t->x ? t->x + at * (size_t)b->n : NULL,
                            .sensordata = t->sensordata ? t->sensordata + at * (size_t)b->ns : NULL,
                            .xpos = t->xpos ? t->xpos + at * 3 * (size_t)b->nbody : NULL,
                            .site_xpos = t->site_xpos ? t->site_xpos + at * 3 * (size_t)b->nsite : NULL,
                            .rows = t->rows,
                            .row_count = t->row_count};
}

// Directions of theta with own values in them are in the memory of a gradient, one at a time.
static pbStatus push_own(pbBatchWorker *k, pbRollout *r, int world, const Push *p) {
  const pbBatch *b = k->batch;
  const pbBatchDirection *d = p->direction;

  for (int i = 0; i < p->count; i++) {
    pbRolloutDirection direction = direction_of(b, d, i, world);
    pbRolloutTangent tangent = tangent_of(b, p->tangent, i, world);
    PB_TRY(pbBatch_PushOwn(k, world, direction.theta, direction_part(b, d->own, b->own_size, false, i, world), k->slot->bar));
    direction.theta = k->slot->bar;
    PB_TRY(pbRollout_Jvp(r, 1, &direction, &tangent));
  }
  return pb_ok;
}

static pbStatus push_world(pbBatchWorker *k, int world, const void *user) {
  const Push *p = user;
  const pbBatch *b = k->batch;
  const pbBatchDirection *d = p->direction;
  int count = p->count;
  pbRollout *r;
  PB_TRY(reach(k, world, &r));
  if (b->own_count > 0 && (d->theta || d->own)) return push_own(k, r, world, p);

  pbRolloutDirection one, *directions = &one;
  pbRolloutTangent seen, *tangents = &seen;
  if (count > 1) {
    directions = pbContext_AllocArray(k->ctx, (size_t)count, sizeof *directions);
    tangents = pbContext_AllocArray(k->ctx, (size_t)count, sizeof *tangents);
  }
  pbStatus status = pb_no_memory;
  if (directions && tangents) {
    for (int i = 0; i < count; i++) {
      directions[i] = direction_of(b, d, i, world);
      tangents[i] = tangent_of(b, p->tangent, i, world);
    }
    status = pbRollout_Jvp(r, count, directions, tangents);
  } else pbContext_Fail(k->ctx, status, "no memory for %d directions", count);

  if (count > 1) {
    pbContext_Free(k->ctx, directions);
    pbContext_Free(k->ctx, tangents);
  }
  return status;
}

pbStatus pbBatch_JvpAlong(pbBatch *b, int count, const pbBatchDirection *direction, const pbBatchTangent *tangent) {
  if (count < 1) return pbContext_Fail(b->ctx, pb_bad_argument, "%d directions: one or more are needed", count);
  PB_TRY(pbBatch_BeginTape(b, "forward"));
  PB_TRY(check_restarts(b, "forward derivatives"));
  pbBatch_Each(b, push_world, &(Push){count, direction, tangent});
  return pbBatch_End(b);
}

pbStatus pbBatch_Jvp(pbBatch *b, const pbBatchDirection *direction, const pbBatchTangent *tangent) {
  return pbBatch_JvpAlong(b, 1, direction, tangent);
}

// ---- second derivatives ---------------------------------------------------------------------------------------------------
// Along the world's direction; where it has own values in its theta, these are written there.
static pbStatus second_along(pbBatchWorker *k, pbRollout *r, int world, const Pull *p, double *own_theta) {
  static const pbBatchDirection still;
  static const pbRolloutBar none;
  const pbBatch *b = k->batch;
  const pbBatchSecond *of = p->second;
  const pbBatchDirection *d = of->direction ? of->direction : &still;
  pbRolloutDirection direction = direction_of(b, d, 0, world);
  if (own_theta) {
    PB_TRY(pbBatch_PushOwn(k, world, d->theta, direction_part(b, d->own, b->own_size, false, 0, world), own_theta));
    direction.theta = own_theta;
  }

  // Results are in the thread's memory until all of them are there.
  const pbRolloutBar bar = bar_of(b, of->bar ? of->bar : &none, world);
  const pbRolloutBar tangent = bar_of(b, of->bar_tangent ? of->bar_tangent : &none, world);
  const pbRolloutSecond second = {
      .direction = &direction, .bar = &bar, .bar_tangent = &tangent, .gradient = gradient_in(k->slot, p->part)};
  PB_TRY(pbRollout_Second(r, &second));
  k->slot->world = world;
  return hand_out(k, k->slot, r, world, p, NULL);
}

static pbStatus second_of_world(pbBatchWorker *k, int world, const void *user) {
  const Pull *p = user;
  const pbBatch *b = k->batch;
  const pbBatchDirection *d = p->second->direction;
  pbRollout *r;
  PB_TRY(reach(k, world, &r));
  if (b->own_count == 0 || !d || (!d->theta && !d->own)) return second_along(k, r, world, p, NULL);

  double *theta = pbContext_AllocArray(k->ctx, b->ntheta, sizeof *theta);
  if (!theta) return pbContext_Fail(k->ctx, pb_no_memory, "second derivatives: no memory for a direction of parameters");
  pbStatus status = second_along(k, r, world, p, theta);
  pbContext_Free(k->ctx, theta);
  return status;
}

pbStatus pbBatch_Second(pbBatch *b, const pbBatchSecond *second) {
  PB_TRY(pbBatch_BeginTape(b, "second derivatives"));
  PB_TRY(check_restarts(b, "second derivatives"));
  if (second->bar) PB_TRY(check_bar(b, second->bar));
  if (second->bar_tangent) PB_TRY(check_bar(b, second->bar_tangent));

  Pull p = {.batch = b, .own = second->gradient.own, .second = second};
  place_parts(b, &second->gradient, &p);
  PB_TRY(check_shared(b, &p));
  pull_all(&p);
  return pbBatch_End(b);
}

// ---- how far they reach -----------------------------------------------------------------------------------------------------
typedef struct Reach {
  pbNoiseOptions options;
  pbNoise *noise;
} Reach;

static pbStatus noise_of_world(pbBatchWorker *k, int world, const void *user) {
  const Reach *reached = user;
  pbNoiseOptions options = reached->options;
  options.seed += (uint64_t)world;
  pbRollout *r;
  PB_TRY(reach(k, world, &r));

  return pbRollout_Noise(r, &options, &reached->noise[world]);
}

pbStatus pbBatch_Noise(pbBatch *b, const pbNoiseOptions *options, pbNoise *noise) {
  PB_TRY(pbBatch_BeginTape(b, "noise"));
  PB_TRY(check_restarts(b, "noise"));

  // Of worlds without a tape nothing is known.
  for (int w = 0; w < b->worlds; w++) noise[w] = (pbNoise){.time = INFINITY, .step = -1, .window = INFINITY};
  pbBatch_Each(b, noise_of_world, &(Reach){options ? *options : (pbNoiseOptions){0}, noise});
  return pbBatch_End(b);
}

// ---- Jacobians --------------------------------------------------------------------------------------------------------
static double *matrix_at(double *data, int world, int step, const pbBatch *b, int rows, int cols) {
  if (!data) return NULL;
  size_t index = (size_t)world * (size_t)b->tape_steps + (size_t)step;
  return data + index * (size_t)rows * (size_t)cols;
}

// Jacobians of step i of a world: of the state from the evaluation that is kept, of sensors, which see more, from the record.
static pbStatus linearize_step(const pbBatch *b, pbRollout *r, int i, const pbJacobian *to) {
  const pbInput input = pbRollout_InputAt(r, i);
  const pbJacobian of_state = {.by = to->by, .A = to->A, .B = to->B}, of_sensors = {.by = to->by, .C = to->C, .D = to->D};
  pbStepRecord step = {.model = b->model, .theta = r->theta, .record = pbRollout_RecordAt(r, i), .input = &input};

  if (to->A || to->B) {
    if (b->model->nhistory == 0) step.cached = pbRollout_CachedAt(r, i);
    pbStatus status = pbStep_JacobianRecord(&step, r->scratch, &of_state);
    pbCached_Leave(r->scratch);
    PB_TRY(status);
  }
  step.cached = NULL;
  return to->C || to->D ? pbStep_JacobianRecord(&step, r->scratch, &of_sensors) : pb_ok;
}

static pbStatus linearize_world(pbBatchWorker *k, int world, const void *user) {
  const pbJacobian *to = user;
  const pbBatch *b = k->batch;
  int columns = pbModel_Columns(b->model, to->by);
  pbRollout *r;
  PB_TRY(reach(k, world, &r));
  PB_TRY(pbRollout_Ready(r));
  if (r->plan.leaf < b->made[world])
    return pbContext_Fail(k->ctx, pb_capacity, "Jacobians of all %d steps need their tape: %zu bytes", b->made[world],
                          r->plan.full_bytes);

  if (pbProgressMeter_Begin(&r->meter, "forward", b->made[world])) return pbRollout_Stopped(r, 0);
  for (int i = 0; i < b->made[world]; i++) {
    const pbJacobian here = {.by = to->by,
                             .A = matrix_at(to->A, world, i, b, b->n, b->n),
                             .B = matrix_at(to->B, world, i, b, b->n, columns),
                             .C = matrix_at(to->C, world, i, b, b->ns, b->n),
                             .D = matrix_at(to->D, world, i, b, b->ns, columns)};
    pbStatus status;
    do status = linearize_step(b, r, i, &here);
    while (pbScratch_Grow(r->scratch, &status));
    if (status != pb_ok) return pbRollout_StepFailed(r, status, i, pbScratch_Error(r->scratch));
    if (pbProgressMeter_Step(&r->meter)) return pbRollout_Stopped(r, i);
  }

  return pb_ok;
}

pbStatus pbBatch_LinearizeBy(pbBatch *b, const pbJacobian *out) {
  PB_TRY(pbBatch_BeginTape(b, "forward"));
  pbBatch_Each(b, linearize_world, out);
  return pbBatch_End(b);
}

pbStatus pbBatch_Linearize(pbBatch *b, double *A, double *B, double *C, double *D) {
  return pbBatch_LinearizeBy(b, &(pbJacobian){pb_byControl, A, B, C, D});
}
