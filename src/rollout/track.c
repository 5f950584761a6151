// The tape of a trajectory apart from the rollout that ran it: one rollout (scratch, costates) serves many worlds in turn, each
// of which keeps its own records.
//
// Memory. A batch has rollouts by threads and tracks by worlds. A rollout has what one evaluation needs, and one record
// (pbRollout_CreateBare): it is large, whatever the number of steps. A track has what is the world's own: a record of each step
// (or one, where nobody will go back), a final record, a state, and for each new start on the way one record of the state that
// was left with the inputs that it had. Lend points the rollout into the track, Resume makes it as if it had just run that world.
// Nothing is copied but the certificate and a few numbers.
//
// Such a tape holds all steps and has no cache: nothing is ever run again. Worlds for whose tapes a batch has no budget have no
// track of records; they are run again by a rollout with snapshots (batch.c).
//
// New starts. Trainings had a world whose episode ended wait for the end of its window. Now the next one begins at once on the
// same tape, and the costate stops there: what the caller wants of that state is of the one that was left, which the records do
// not hold, since each begins with the state before its step. Hence the records that are kept aside.
// Tests: tests/unit/test_batch.c, tests/unit/test_batch_pack.c, tests/unit/test_batch_policy.c.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "rollout/rollout.h"

pbStatus pbRollout_CreateBare(pbContext *ctx, const pbModel *model, const pbCapacity *capacity, pbRollout **rollout,
                              pbTrack *bare) {
  pbRolloutPlan plan;
  *rollout = NULL;
  PB_TRY(pbRollout_PlanSlots(ctx, model, 0, 0, 1, &plan));
  PB_TRY(pbRollout_Create(ctx, model, &plan, capacity, rollout));

  *bare = (pbTrack){.records = (*rollout)->records, .final_record = (*rollout)->final_record, .x_final = (*rollout)->x_final};
  return pb_ok;
}

void pbRollout_Lend(pbRollout *r, pbTrack *track, int steps) {
  PB_ASSERT(steps >= 0 && r->plan.snapshots == 0 && r->plan.cached_bytes == 0);

  // Nothing is run again: the only leaf is the whole, or one record that each step overwrites.
  r->plan.steps = steps;
  r->plan.forward_steps = steps;
  r->plan.recomputed = 0;
  r->plan.leaf = track->whole && steps > 0 ? steps : 1;
  r->plan.full_bytes = (size_t)steps * r->plan.record_bytes;
  r->plan.planned_bytes = (size_t)r->plan.leaf * r->plan.record_bytes;

  r->track = track;
  r->records = track->records;
  r->final_record = track->final_record;
  r->x_final = track->x_final;
}

pbStatus pbRollout_Shorten(pbRollout *r, int steps) {
  PB_ASSERT(!r->track);
  if (steps == r->plan.steps) return pb_ok;

  // Within the memory that there is.
  pbRolloutPlan plan;
  PB_TRY(pbRollout_PlanSlots(r->ctx, r->model, steps, r->most_snapshots, r->most_leaf, &plan));

  plan.cached_bytes = r->plan.cached_bytes;
  plan.planned_bytes += plan.cached_bytes;
  r->plan = plan;
  r->ran = false;

  return pb_ok;
}

// ---- new starts on the way ------------------------------------------------------------------------------------------------
// An input in its place of a kept row, of which *at is moved on; NULL where it was not given.
static const double *kept_input(const double *given, int width, const double **at) {
  const double *here = *at;
  *at += width;
  return given ? here : NULL;
}

// The row kept as number i, in the shape of the inputs given.
static pbInput kept_row(const pbRollout *r, int i) {
  const pbRolloutInput *given = &r->input;
  const double *at = r->track->left_input + (size_t)i * pbTrack_InputSize(r->model);
  pbInput input = {0};
  PB_ASSERT(i >= 0 && i <= r->track->most);

  // In the order of pbTrack_KeepInput.
  input.ctrl = kept_input(given->ctrl, r->nu, &at);
  input.qfrc = kept_input(given->qfrc, r->nv, &at);
  input.xfrc = kept_input(given->xfrc, 6 * r->nbody, &at);
  input.command = kept_input(given->command, r->ncommand, &at);
  input.mocap_pos = kept_input(given->mocap_pos, 3 * r->nmocap, &at);
  input.mocap_quat = kept_input(given->mocap_quat, 4 * r->nmocap, &at);
  input.mocap_vel = kept_input(at, 6 * r->nmocap, &at);

  PB_ASSERT(at == r->track->left_input + (size_t)(i + 1) * pbTrack_InputSize(r->model));
  return input;
}

size_t pbTrack_InputSize(const pbModel *m) {
  int commands = m->policy ? m->policy->commands : 0;
  return (size_t)(m->nu + m->nv + 6 * m->nbody + commands + 13 * m->nmocap);
}

static double *keep(double *to, const double *from, int width) {
  if (from) memcpy(to, from, (size_t)width * sizeof *to);
  return to + width;
}

void pbTrack_KeepInput(const pbRollout *r, int k) {
  const pbTrack *t = r->track;
  if (!t->whole || !t->most) return;
  PB_ASSERT(t->restarts >= 0 && t->restarts <= t->most);

  pbInput input = pbRollout_InputAt(r, k);
  double *to = t->left_input + (size_t)t->restarts * pbTrack_InputSize(r->model);
  to = keep(to, input.ctrl, r->nu);
  to = keep(to, input.qfrc, r->nv);
  to = keep(to, input.xfrc, 6 * r->nbody);
  to = keep(to, input.command, r->ncommand);
  to = keep(to, input.mocap_pos, 3 * r->nmocap);
  to = keep(to, input.mocap_quat, 4 * r->nmocap);

  // Bodies whose motion is not said are at rest.
  memset(to, 0, 6 * (size_t)r->nmocap * sizeof *to);
  keep(to, input.mocap_vel, 6 * r->nmocap);
}

// A start that has other parameters is a new one, wherever it is.
static bool same_start(const pbRollout *r, const double *x) {
  return !r->theta_left && memcmp(x, r->track->x_final, (size_t)r->nx * sizeof *x) == 0;
}

static pbStatus set_parameters(pbRollout *r, const double *theta) {
  if (!r->theta_left) return pb_ok;
  r->theta = theta;
  return pbRollout_Ready(r);
}

pbStatus pbTrack_NoteRestart(pbRollout *r, const double *x, int k) {
  pbTrack *t = r->track;

  // A part that goes on from where the one before ended is no new start.
  if (k == 0) t->restarts = 0;
  if (k == 0 || !t->whole || same_start(r, x)) return pb_ok;
  if (t->restarts == t->most)
    return pbContext_Fail(r->ctx, pb_bad_argument, "step %d: a new start, of which a rollout with this tape has at most %d", k,
                          t->most);

  // What the caller wants of state k is of the one that is left, with the inputs and parameters that it had.
  const double *now = r->theta;
  pbInput input = kept_row(r, t->restarts);
  PB_TRY(set_parameters(r, r->theta_left));
  PB_TRY(pbRollout_ObserveWith(r, t->x_final, k, &input, NULL));
  pbTape_Record(r->model, t->x_final, r->scratch, t->left + (size_t)t->restarts * (size_t)r->nrecord);
  t->restart_at[t->restarts++] = k;
  return set_parameters(r, now);
}

const double *pbTrack_LeftAt(const pbRollout *r, int k, pbInput *input) {
  const pbTrack *t = r->track;
  int i = t ? t->restarts - 1 : -1;

  // They are ascending.
  while (i >= 0 && t->restart_at[i] > k) i--;
  if (i < 0 || t->restart_at[i] != k) return NULL;
  if (input) *input = kept_row(r, i);
  return t->left + (size_t)i * (size_t)r->nrecord;
}

pbStatus pbTrack_PullBefore(pbRollout *r, int k, double *theta_bar) {
  const pbTrack *t = r->track;
  int part = t->restarts - 1;
  while (part > 0 && t->restart_at[part] > k) part--;
  PB_ASSERT(part >= 0 && t->restart_at[part] == k);

  PB_TRY(r->pull_before(r->pull_before_user, part, theta_bar));
  return pbRollout_Ready(r);
}

// ---- from one rollout to another ------------------------------------------------------------------------------------------
void pbTrack_Keep(const pbRollout *r, pbTrack *track) {
  track->ran = r->ran;
  track->has_final_record = r->has_final_record;
  track->timestep = r->timestep;
  track->forward = r->forward;
}

void pbTrack_Resume(pbRollout *r, pbTrack *track, int steps, const double *theta, const pbRolloutInput *input) {
  PB_ASSERT(track->whole);
  pbRollout_Lend(r, track, steps);
  r->theta = theta;
  r->input = *input;

  // The first record begins with the first state.
  r->x0 = steps > 0 ? track->records : track->x_final;
  r->leaf_from = 0;
  r->ran = track->ran;
  r->tape_fresh = true;
  r->has_final_record = track->has_final_record;
  r->timestep = track->timestep;
  r->forward = track->forward;
}
