// Worlds going on: resets, single steps, rollouts with a tape for each world.
// Tests: tests/unit/test_batch.c, tests/unit/test_batch_policy.c, tests/unit/test_batch_pack.c.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/policy_data.h"
#include "batch/batch.h"
#include "step/scratch.h"

// ---- inputs -----------------------------------------------------------------------------------------------------------
const double *pbBatch_Row(const double *data, int world, size_t size) { return data ? data + (size_t)world * size : NULL; }

size_t pbBatch_InputSize(const pbBatch *b, int width, int steps) {
  return (size_t)width * (size_t)(b->input.constant ? 1 : steps);
}

static const double *part_of(const pbBatch *b, const double *data, int width, unsigned shared, int world, int steps) {
  return b->input.shared & shared ? data : pbBatch_Row(data, world, pbBatch_InputSize(b, width, steps));
}

static const double *before_of(const pbBatch *b, const double *data, int width, int world) {
  return b->input.shared & pb_sharedMocap ? data : pbBatch_Row(data, world, (size_t)width);
}

pbRolloutInput pbBatch_InputOf(const pbBatch *b, int world, int steps) {
  const pbBatchInput *in = &b->input;
  return (pbRolloutInput){.ctrl = part_of(b, in->ctrl, b->nu, pb_sharedCtrl, world, steps),
                          .qfrc = part_of(b, in->qfrc, b->nv, pb_sharedQfrc, world, steps),
                          .xfrc = part_of(b, in->xfrc, 6 * b->nbody, pb_sharedXfrc, world, steps),
                          .command = part_of(b, in->command, b->ncommand, pb_sharedCommand, world, steps),
                          .mocap_pos = part_of(b, in->mocap_pos, 3 * b->nmocap, pb_sharedMocap, world, steps),
                          .mocap_quat = part_of(b, in->mocap_quat, 4 * b->nmocap, pb_sharedMocap, world, steps),
                          .mocap_vel = part_of(b, in->mocap_vel, 6 * b->nmocap, pb_sharedMocap, world, steps),
                          .mocap_pos_before = before_of(b, in->mocap_pos_before, 3 * b->nmocap, world),
                          .mocap_quat_before = before_of(b, in->mocap_quat_before, 4 * b->nmocap, world),
                          .constant = in->constant};
}

// Of a single step.
static pbInput step_input(const pbBatch *b, int world) {
  pbRolloutInput all = pbBatch_InputOf(b, world, 1);
  return (pbInput){.ctrl = all.ctrl,
                   .qfrc = all.qfrc,
                   .xfrc = all.xfrc,
                   .command = all.command,
                   .mocap_pos = all.mocap_pos,
                   .mocap_quat = all.mocap_quat,
                   .mocap_vel = all.mocap_vel};
}

// ---- resets -------------------------------------------------------------------------------------------------------------
static double *state_of(const pbBatch *b, int world) { return b->states + (size_t)world * (size_t)b->nx; }

typedef struct Reset {
  int keyframe;
  const double *x0;
} Reset;

static pbStatus reset_world(pbBatchWorker *k, int world, const void *user) {
  const Reset *reset = user;
  const pbBatch *b = k->batch;
  double *x = state_of(b, world);

  // The whole state: what the solver starts from belongs to it.
  if (!reset->x0) return pbState_Init(k->ctx, b->model, pbBatch_ThetaOf(k, world), reset->keyframe, x);
  memcpy(x, pbBatch_Row(reset->x0, world, (size_t)b->nx), (size_t)b->nx * sizeof *x);
  return pb_ok;
}

pbStatus pbBatch_Reset(pbBatch *b, const double *theta, const int *ids, int count, int keyframe, const double *x0) {
  PB_TRY(pbBatch_Begin(b, theta, ids, count, 1, "reset"));
  pbBatch_Each(b, reset_world, &(Reset){keyframe, x0});
  return pbBatch_End(b);
}

// ---- a step -----------------------------------------------------------------------------------------------------------
static pbStatus step_world(pbBatchWorker *k, int world, const void *user) {
  double *const *sensordata = user;
  pbBatch *b = k->batch;
  pbRollout *r = k->slot->rollout;
  double *x = state_of(b, world);

  pbRollout_Lend(r, &k->slot->bare, 1);
  r->theta = pbBatch_ThetaOf(k, world);
  PB_TRY(pbRollout_Ready(r));
  r->scratch->contacts_before = -1;

  // In the thread's own memory: what fails leaves the world where it was.
  pbInput input = step_input(b, world);
  double *sensors = *sensordata ? *sensordata + (size_t)world * (size_t)b->ns : NULL;
  memcpy(r->x, x, (size_t)b->nx * sizeof *x);
  PB_TRY(pbRollout_StepChecked(r, r->theta, r->x, &input, 0, sensors));

  memcpy(x, r->x, (size_t)b->nx * sizeof *x);
  b->report[world] = pbScratch_Report(r->scratch);
  return pb_ok;
}

static pbStatus check_input(pbBatch *b, const pbBatchInput *input) {
  const unsigned known = pb_sharedCtrl | pb_sharedQfrc | pb_sharedXfrc | pb_sharedCommand | pb_sharedMocap;
  b->failed = 0;
  if (!input || !(input->shared & ~known)) return pb_ok;
  return pbContext_Fail(b->ctx, pb_bad_argument, "pbBatchInput.shared: there is no bit %#x; all there are make %#x",
                        input->shared & ~known, known);
}

// What single steps cannot do as they know of no step before.
static pbStatus check_step(pbBatch *b, const pbBatchInput *input) {
  PB_TRY(check_input(b, input));
  if (!input || !(input->mocap_pos_before || input->mocap_quat_before)) return pb_ok;
  return pbContext_Fail(b->ctx, pb_bad_argument,
                        "pbBatchInput: poses before are of rollouts; how mocap bodies move in a single step is mocap_vel "
                        "(pbModel_MocapVelocity)");
}

static void read_input(pbBatch *b, const pbBatchInput *input) { b->input = input ? *input : (pbBatchInput){0}; }

pbStatus pbBatch_Step(pbBatch *b, const double *theta, const int *ids, int count, const pbBatchInput *input, double *sensordata) {
  PB_TRY(check_step(b, input));
  PB_TRY(pbBatch_Begin(b, theta, ids, count, 1, "forward"));
  read_input(b, input);
  pbBatch_Each(b, step_world, &sensordata);
  return pbBatch_End(b);
}

// ---- what a policy sees -----------------------------------------------------------------------------------------------
static pbStatus observe_world(pbBatchWorker *k, int world, const void *user) {
  double *const *observation = user;
  pbBatch *b = k->batch;
  pbRollout *r = k->slot->rollout;
  r->theta = pbBatch_ThetaOf(k, world);
  PB_TRY(pbRollout_Ready(r));

  pbInput input = step_input(b, world);
  double *to = *observation + (size_t)world * (size_t)b->nobservation;
  pbStatus status = pbPolicy_Observe(b->model, r->theta, state_of(b, world), &input, r->scratch, to);
  return status == pb_ok ? pb_ok : pbContext_Fail(k->ctx, status, "%s", pbScratch_Error(r->scratch));
}

pbStatus pbBatch_Observe(pbBatch *b, const double *theta, const int *ids, int count, const pbBatchInput *input,
                         double *observation) {
  b->failed = 0;
  if (!b->model->policy) return pbContext_Fail(b->ctx, pb_bad_argument, "observations are a policy's: this model has none");
  PB_TRY(check_step(b, input));
  PB_TRY(pbBatch_Begin(b, theta, ids, count, 1, "forward"));
  read_input(b, input);
  pbBatch_Each(b, observe_world, &observation);
  return pbBatch_End(b);
}

// ---- a rollout --------------------------------------------------------------------------------------------------------
typedef struct Roll {
  int steps, first, last;  // in all; this part
  const pbBatchOutput *output;
} Roll;

static double *output_of(double *data, int world, size_t rows, int width) {
  return data ? data + (size_t)world * rows * (size_t)width : NULL;
}

static pbRolloutOutput outputs_of(const pbBatch *b, const Roll *job, int world) {
  const pbBatchOutput *o = job->output;
  size_t rows = o->rows ? (size_t)o->row_count : (size_t)job->steps + 1;
  return (pbRolloutOutput){.states = output_of(o->states, world, rows, b->nx),
                           .sensordata = output_of(o->sensordata, world, rows, b->ns),
                           .xpos = output_of(o->xpos, world, rows, 3 * b->nbody),
                           .site_xpos = output_of(o->site_xpos, world, rows, 3 * b->nsite),
                           .rows = o->rows,
                           .row_count = o->row_count};
}

// Where a world is after a rollout: at its end, or where the step that failed began. One that was interrupted has not moved.
static const double *reached(const pbRollout *r, pbStatus status, int done, const Roll *job) {
  if (status == pb_interrupted) return NULL;
  if (status == pb_ok || done == job->last) return r->x;
  return done > job->first ? r->x_before : NULL;
}

void pbBatch_Disturb(pbBatch *b, const pbDisturbance *disturbance) {
  PB_ASSERT(!b->thin);
  b->disturbance = *disturbance;
}

void pbBatch_DisturbWorld(const pbBatch *b, pbRollout *r, int world, int steps) {
  const pbPolicyModel *p = b->model->policy;
  r->kick = pbBatch_Row(b->disturbance.kick, world, (size_t)steps * (size_t)b->nv);
  r->noise = pbBatch_Row(b->disturbance.noise, world, (size_t)steps * (size_t)(p ? p->observed : 0));
}

static pbTrack *track_of(const pbBatch *b, pbBatchSlot *slot, int world) {
  return b->tape_steps >= 0 && !b->thin ? &b->track[world] : &slot->bare;
}

// What became of a world that a rollout has run.
static pbStatus end_roll(pbBatch *b, pbRollout *r, const Roll *job, int world, int done, pbStatus status) {
  double *x = state_of(b, world);
  const double *at = reached(r, status, done, job);
  if (at) memcpy(x, at, (size_t)b->nx * sizeof *x);
  if (job->output->steps_done) job->output->steps_done[world] = done;
  if (done > job->first) b->report[world] = pbScratch_Report(r->scratch);

  bool partly = b->partial && done > 0 && job->first == 0 && status != pb_interrupted;
  b->has_tape[world] = status == pb_ok || partly;
  if (b->made) b->made[world] = done;
  if (status == pb_ok && b->tape_steps >= 0 && !b->thin) pbTrack_Keep(r, &b->track[world]);
  return status;
}

// In a thread's own tape: the derivatives of the world that it has run last need no other run.
static pbStatus roll_planned(pbBatchWorker *k, int world, const Roll *job, pbRolloutOutput *output) {
  pbBatch *b = k->batch;
  pbRolloutInput input = pbBatch_InputOf(b, world, job->steps);
  PB_TRY(pbRollout_Shorten(k->planned, job->steps));
  k->planned_world = world;
  return pbRollout_Forward(k->planned, pbBatch_ThetaOf(k, world), b->starts + (size_t)world * (size_t)b->nx, &input, output);
}

static pbStatus roll(pbBatchWorker *k, int world, const Roll *job, pbRolloutOutput *output) {
  pbRollout *r = k->slot->rollout;
  pbRolloutInput input = pbBatch_InputOf(k->batch, world, job->steps);

  const double *theta;
  pbRollout_Lend(r, track_of(k->batch, k->slot, world), job->steps);
  pbBatch_DisturbWorld(k->batch, r, world, job->steps);
  PB_TRY(pbBatch_EnterPart(k, r, world, job->first, &theta));
  PB_TRY(pbRollout_BeginForward(r, theta, state_of(k->batch, world), &input, job->first, output));
  pbBatch_NotePart(k->batch, world);
  for (int step = job->first; step < job->last; step++) PB_TRY(pbRollout_ForwardStep(r, step, output));
  return pbRollout_EndForward(r, job->last, output);
}

static pbStatus roll_world(pbBatchWorker *k, int world, const void *user) {
  const Roll *job = user;
  pbBatch *b = k->batch;
  pbRolloutOutput output = outputs_of(b, job, world);
  bool planned = b->thin && b->tape_steps >= 0;
  pbStatus status = planned ? roll_planned(k, world, job, &output) : roll(k, world, job, &output);
  return end_roll(b, planned ? k->planned : k->slot->rollout, job, world, output.steps_done, status);
}

// The worlds of a group, step by step.
static void roll_pack(pbBatchWorker *k, const void *user) {
  const Roll *job = user;
  pbBatch *b = k->batch;
  pbRolloutOutput output[PB_PACK];
  pbBatchSlot *end = k->slot + k->packed;

  for (pbBatchSlot *s = k->slot; s < end; s++) {
    pbRolloutInput input = pbBatch_InputOf(b, s->world, job->steps);
    output[s - k->slot] = outputs_of(b, job, s->world);
    pbRollout_Lend(s->rollout, track_of(b, s, s->world), job->steps);
    pbBatch_DisturbWorld(b, s->rollout, s->world, job->steps);
    const double *x = state_of(b, s->world);
    pbBatch_SetSlot(k, s, pbRollout_BeginForward(s->rollout, b->theta, x, &input, job->first, &output[s - k->slot]));
  }

  for (int step = job->first; step < job->last; step++) {
    // All look, all decide, all move.
    for (pbBatchSlot *s = k->slot; s < end; s++)
      if (s->status == pb_ok) pbBatch_SetSlot(k, s, pbRollout_Sense(s->rollout, step));
    pbBatch_CallPack(k, step);
    for (pbBatchSlot *s = k->slot; s < end; s++)
      if (s->status == pb_ok) pbBatch_SetSlot(k, s, pbRollout_ForwardStep(s->rollout, step, &output[s - k->slot]));
  }

  for (pbBatchSlot *s = k->slot; s < end; s++) {
    pbRolloutOutput *o = &output[s - k->slot];
    if (s->status == pb_ok) pbBatch_SetSlot(k, s, pbRollout_EndForward(s->rollout, job->last, o));
    pbBatch_SetSlot(k, s, end_roll(b, s->rollout, job, s->world, o->steps_done, s->status));
  }
}

static pbStatus roll_in_pack(pbBatchWorker *k, int world, const void *user) {
  pbBatchSlot *slot;
  return pbBatch_InPack(k, world, roll_pack, user, &slot);
}

static pbStatus check_rows(const pbBatch *b, int steps, const pbBatchOutput *output) {
  pbBatchWorker *k = &b->worker[0];
  pbRollout_Lend(k->slot->rollout, &k->slot->bare, steps);
  pbStatus status = pbRows_Check(k->slot->rollout, output->rows, output->row_count);
  return status == pb_ok ? status : pbContext_Fail(b->ctx, status, "%s", pbContext_Error(k->ctx));
}

static pbStatus roll_part(pbBatch *b, const Roll *job) {
  pbBatch_Each(b, pbBatch_Packs(b) ? roll_in_pack : roll_world, job);
  b->part_steps = job->steps;
  b->reached = job->last;
  return pbBatch_End(b);
}

static pbStatus begin_rollout(pbBatch *b, const double *theta, const int *ids, int count, int steps, const pbBatchInput *input) {
  PB_TRY(check_input(b, input));
  PB_TRY(pbBatch_Begin(b, theta, ids, count, steps, "forward"));
  read_input(b, input);

  // Each world that comes through has a tape from here on.
  if (b->steps > 0 && steps <= b->steps) b->tape_steps = steps;
  if (b->starts) memcpy(b->starts, b->states, (size_t)b->worlds * (size_t)b->nx * sizeof *b->starts);
  return pb_ok;
}

pbStatus pbBatch_Rollout(pbBatch *b, const double *theta, const int *ids, int count, int steps, const pbBatchInput *input,
                         const pbBatchOutput *output) {
  b->failed = 0;
  if (steps < 0)
    return pbContext_Fail(b->ctx, pb_bad_argument, "rollout of %d steps: the number of steps must not be negative", steps);
  pbBatchOutput none = {0};
  if (!output) output = &none;
  PB_TRY(check_rows(b, steps, output));
  PB_TRY(begin_rollout(b, theta, ids, count, steps, input));
  return roll_part(b, &(Roll){steps, 0, steps, output});
}

pbStatus pbBatch_RolloutPart(pbBatch *b, const double *theta, int steps, int first, int last, const pbBatchInput *input,
                             const pbBatchOutput *output) {
  b->failed = 0;
  if (first < 0 || first >= last || last > steps)
    return pbContext_Fail(b->ctx, pb_bad_argument, "part of a rollout of %d steps: found steps %d to %d", steps, first, last);
  if (first > 0 && (b->reached != first || b->part_steps != steps))
    return pbContext_Fail(b->ctx, pb_bad_argument,
                          "part of a rollout of %d steps: it begins at %d, where no part before has ended", steps, first);
  if (b->starts)
    return pbContext_Fail(b->ctx, pb_unsupported, "a rollout in parts of a batch with pbBatchOptions.budget or partial");
  pbBatchOutput none = {0};
  if (!output) output = &none;
  PB_TRY(check_rows(b, steps, output));

  PB_TRY(first > 0 ? pbBatch_BeginPart(b, steps, "forward") : begin_rollout(b, theta, NULL, 0, steps, input));
  return roll_part(b, &(Roll){steps, first, last, output});
}
