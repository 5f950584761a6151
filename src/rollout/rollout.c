// The driver: plays the actions of the checkpoint schedule on the world's step. What is computed again is computed from the same
// bits by the same call, so every budget gives the same gradient. The way back: pullback.c.
//
// Memory. All that a rollout will need is allocated with it, by the plan that its budget gives (plan.c):
//   records    `leaf` thin records, of the state before a step and the accelerations found: one for every step where the budget
//              allows it
//   snapshots  states at steps of a binomial schedule (schedule.c), where the leaf is shorter than the rollout: what lies between
//              two is run again, from the later ones first, and recorded in the leaf
//   cached     whole evaluations of the leaf's last steps, in what is left (world/cached.h)
// and a few states and costates. Where the leaf is not the whole, a Vjp uses the records up, and another one runs the rollout
// again. A batch lends the rollout of a thread the tape of a world in place of its own (track.c). Room for contacts alone grows
// as they come.
//
// A leaf is run forward with its evaluations directed into the cache. Where that cannot hold the whole leaf the last steps are
// kept: they are the first that the way back reads.
//
// The check of a gradient was here, too, at first: whole rollouts along a direction. That doubled the cost of gradients, left
// parameters out, and took moves that contacts make large for the gradient's fault. Steps drawn at random are checked on the way
// back instead (sample.c), for some 2 %; the whole is checked where it is asked for (spot.c). Tests: tests/unit/test_rollout.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"
#include "model/mocap.h"
#include "model/policy_data.h"
#include "rollout/rollout.h"
#include "step/scratch.h"

// ---- memory ---------------------------------------------------------------------------------------------------------

static void layout(pbArena *a, pbRollout *r) {
  size_t nx = (size_t)r->nx, n = (size_t)r->n, record = (size_t)r->nrecord;

  // The tape: records of a leaf, cached evaluations, snapshots.
  r->records = pbArena_Take(a, (size_t)r->plan.leaf, record * sizeof(double));
  r->cached = pbArena_Take(a, r->plan.cached_bytes, 1);
  r->cached_at = pbArena_Take(a, (size_t)r->plan.leaf, sizeof(size_t));
  r->snapshots = pbArena_Take(a, (size_t)r->plan.snapshots, nx * sizeof(double));
  r->held = pbArena_Take(a, (size_t)r->plan.snapshots, sizeof(int));

  // Fixed: pbRolloutPlan.fixed_bytes.
  r->final_record = pbArena_Take(a, record, sizeof(double));
  r->x = pbArena_Take(a, nx, sizeof(double));
  r->x_before = pbArena_Take(a, nx, sizeof(double));
  r->x_final = pbArena_Take(a, nx, sizeof(double));
  r->costate = pbArena_Take(a, n, sizeof(double));
  r->costate_before = pbArena_Take(a, n, sizeof(double));

  size_t bodies = (size_t)r->nmocap;
  r->mocap_rate = pbArena_Take(a, 6 * bodies, sizeof(double));
  r->mocap_rate_bar = pbArena_Take(a, 6 * bodies, sizeof(double));
  r->mocap_own = pbArena_Take(a, 7 * bodies, sizeof(double));
  r->mocap_own_rate = pbArena_Take(a, 6 * bodies, sizeof(double));
}

static void read_sizes(pbRollout *r, const pbModel *m) {
  r->nx = pbModel_StateSize(m);
  r->n = pbModel_TangentSize(m);
  r->nrecord = pbTape_Size(m);
  r->nv = m->nv;
  r->na = m->na;
  r->nu = pb_controls(m);
  r->ns = m->nsensordata;
  r->nbody = m->nbody;
  r->nsite = m->nsite;
  r->np = 3 * pbModel_PointCount(m);
  r->ncommand = m->policy ? m->policy->commands : 0;
  r->nmocap = m->nmocap;
  r->ntheta = pbModel_ParamSize(m);

  // These evaluate once more at the end of a step, or at an impact within it.
  r->xpos_by_observing = m->integrator == pb_intRK4 || pbModel_ContactSettings(m).method == pb_contactImpact;
}

// scratch: another's, or NULL.
static pbStatus create(pbContext *ctx, const pbModel *model, const pbRolloutPlan *plan, const pbCapacity *capacity,
                       pbScratch *scratch, pbRollout **rollout) {
  *rollout = NULL;
  PB_ASSERT(plan->steps >= 0 && plan->snapshots >= 0 && plan->leaf >= 1);
  PB_ASSERT(plan->record_bytes == (size_t)pbTape_Size(model) * sizeof(double));
  pbRollout *r = pbContext_Alloc(ctx, sizeof *r);
  if (!r) return pbContext_Fail(ctx, pb_no_memory, "no memory for a rollout");
  *r = (pbRollout){
      .ctx = ctx, .model = model, .plan = *plan, .most_snapshots = plan->snapshots, .most_leaf = plan->leaf, .bound = 1e10};
  if (capacity) r->capacity = *capacity;
  read_sizes(r, model);

  // One block, sized by the same code that divides it.
  pbArena a = pbArena_Measure();
  layout(&a, r);
  size_t needed = pbArena_Needed(&a);
  if (needed != SIZE_MAX) r->memory = pbContext_AllocRoom(ctx, needed);

  pbStatus status = pb_ok;
  r->scratch = scratch;
  r->borrowed = scratch != NULL;

  if (!r->memory)
    status = pbContext_Fail(ctx, pb_no_memory, "no memory for the tape of a rollout: %zu bytes", plan->planned_bytes);
  else if (!scratch) status = pbScratch_Create(ctx, model, capacity, &r->scratch);
  if (status != pb_ok) {
    pbRollout_Destroy(r);
    return status;
  }

  a = pbArena_Over(r->memory, needed);
  layout(&a, r);
  // But for the tape, which is written before it is read.
  memset(r->final_record, 0, (size_t)((char *)r->memory + needed - (char *)r->final_record));
  *rollout = r;

  return pb_ok;
}

pbStatus pbRollout_Create(pbContext *ctx, const pbModel *model, const pbRolloutPlan *plan, const pbCapacity *capacity,
                          pbRollout **rollout) {
  return create(ctx, model, plan, capacity, NULL, rollout);
}

pbStatus pbRollout_CreateBeside(const pbRollout *other, const pbRolloutPlan *plan, pbRollout **rollout) {
  PB_ASSERT(other->scratch && !other->borrowed);

  return create(other->ctx, other->model, plan, &other->capacity, other->scratch, rollout);
}

void pbRollout_Destroy(pbRollout *r) {
  if (!r) return;

  if (!r->borrowed) pbScratch_Destroy(r->scratch);
  pbSmooth_Destroy(r);
  pbSelection_Destroy(r);
  pbContext_Free(r->ctx, r->room);
  pbContext_Free(r->ctx, r->memory);
  pbContext_Free(r->ctx, r);
}

double *pbRollout_TakeRoom(pbRollout *r, size_t count) {
  if (r->room && r->room_count >= count) {
    memset(r->room, 0, count * sizeof *r->room);
    return r->room;
  }

  double *room = pbContext_AllocArray(r->ctx, count, sizeof *room);
  if (!room || !r->keeps_room) return room;
  pbContext_Free(r->ctx, r->room);
  r->room = room;
  r->room_count = count;

  return room;
}

void pbRollout_LeaveRoom(pbRollout *r, double *room) {
  if (room != r->room) pbContext_Free(r->ctx, room);
}

void pbRollout_OnProgress(pbRollout *r, pbProgressFunction function, void *user) {
  r->meter.function = function;
  r->meter.user = user;
}

void pbRollout_SetBound(pbRollout *r, double bound) { r->bound = bound; }

// Before anything runs: the model is as it was when the rollout was made, and theta can be read.
pbStatus pbRollout_Ready(pbRollout *r) {
  // What a call that failed has left half done
  r->ahead = false;
  if (r->scratch->policy) r->scratch->policy->called = false;
  if (r->vouched) return pb_ok;

  if (pbScratch_Stale(r->scratch, r->model))
    return pbContext_Fail(
        r->ctx, pb_bad_argument,
        "this rollout was made for the model as it was before its options or contact settings changed; make it anew");

  // Checked once a rollout; the steps then trust theta.
  pbStatus status = pbScratch_Trust(r->scratch, r->model, r->theta);
  if (status != pb_ok) return pbContext_Fail(r->ctx, status, "%s", pbScratch_Error(r->scratch));

  // The smooth model is a copy: it does not see that settings of its original change.
  if (r->gradient == pb_gradientSmooth && !pbSmooth_Fits(r))
    return pbContext_Fail(r->ctx, pb_bad_argument,
                          "smooth_kappa or smooth_onset has changed since the gradient 'smooth' was chosen; choose it again");

  return r->smooth_scratch ? pbScratch_Trust(r->smooth_scratch, r->smooth, r->theta) : pb_ok;
}

// ---- one step -------------------------------------------------------------------------------------------------------
int pbRollout_InputRow(const pbRollout *r, int k) {
  PB_ASSERT(k >= 0 && k <= r->plan.steps);
  if (r->input.constant || k == 0) return 0;
  return k < r->plan.steps ? k : r->plan.steps - 1;
}

static const double *row(const double *data, int k, int width) { return data ? data + (size_t)k * (size_t)width : NULL; }

pbInput pbRollout_InputAt(const pbRollout *r, int k) {
  if (r->plan.steps == 0 && !r->input.constant) return (pbInput){0};

  const double *velocity = pbPrescribed_Rate(r, k);
  k = pbRollout_InputRow(r, k);
  return (pbInput){.ctrl = row(r->input.ctrl, k, r->nu),
                   .qfrc = row(r->input.qfrc, k, r->nv),
                   .xfrc = row(r->input.xfrc, k, 6 * r->nbody),
                   .command = row(r->input.command, k, r->ncommand),
                   .mocap_pos = row(r->input.mocap_pos, k, 3 * r->nmocap),
                   .mocap_quat = row(r->input.mocap_quat, k, 4 * r->nmocap),
                   .mocap_vel = velocity};
}

pbStatus pbRollout_StepFailed(pbRollout *r, pbStatus status, int k, const char *what) {
  int step = r->told_from + k, steps = r->told_steps > 0 ? r->told_steps : r->plan.steps;
  return pbContext_Fail(r->ctx, status, "step %d of %d (time %.9g): %s", step, steps, step * r->timestep, what);
}

pbStatus pbRollout_Stopped(const pbRollout *r, int k) {
  return pbContext_Fail(r->ctx, pb_interrupted, "interrupted at step %d of %d", k, r->plan.steps);
}

static bool within(const double *x, int n, double bound) {
  // Without a branch: this is done after every step.
  bool good = true;
  for (int i = 0; i < n; i++) good &= fabs(x[i]) <= bound;  // false for NaN
  return good;
}

// Which entry left the bounds, for the message.
static pbStatus out_of_bounds(pbRollout *r, const double *x, int k) {
  char text[320], name[160];
  int i = 0;

  while (fabs(x[i]) <= r->bound) i++;
  snprintf(text, sizeof text,
           "%s became %g: the state grows beyond bounds (unstable motion; a smaller time step or more damping helps)",
           pbState_EntryName(r->model, i, name, sizeof name), x[i]);

  return pbRollout_StepFailed(r, pb_not_finite, k, text);
}

// What the policy observes at state k has the noise of its row.
static void put_noise(const pbRollout *r, int k) {
  const pbPolicyModel *p = r->model->policy;
  if (p) r->scratch->policy->noise = r->noise ? row(r->noise, pbRollout_InputRow(r, k), p->observed) : NULL;
}

pbStatus pbRollout_StepChecked(pbRollout *r, const double *theta, double *x, const pbInput *input, int k, double *sensordata) {
  // A step that needs more room for contacts of deformables is repeated with it.
  pbStatus status;
  put_noise(r, k);
  do {
    status = pbStep_Forward(r->model, theta, x, input, r->scratch, sensordata);
  } while (pbScratch_Grow(r->scratch, &status));
  if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));

  return within(x, r->nx, r->bound) ? pb_ok : out_of_bounds(r, x, k);
}

const double *pbRollout_ObservedField(const pbScratch *s, const char *name) {
  const double *data = NULL;
  int rows, cols;
  return pbScratch_Field(s, name, &data, &rows, &cols) ? data : NULL;
}

pbStatus pbRollout_ObserveWith(pbRollout *r, const double *x, int k, const pbInput *input, double *sensordata) {
  put_noise(r, k);
  pbStatus status = pbStep_Observe(r->model, r->theta, x, input, r->scratch, sensordata);

  return status == pb_ok ? pb_ok : pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));
}

pbStatus pbRollout_Observe(pbRollout *r, const double *x, int k, double *sensordata) {
  pbInput input = pbRollout_InputAt(r, k);
  return pbRollout_ObserveWith(r, x, k, &input, sensordata);
}

// ---- forward --------------------------------------------------------------------------------------------------------
// Where the arrays of the caller hold state k, by bisection; -1: not wanted.
int pbRows_Find(const int *rows, int count, int k) {
  if (!rows) return k;

  int low = 0, high = count - 1;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (rows[middle] < k) low = middle + 1;
    else high = middle;
  }

  PB_ASSERT(low == 0 || rows[low - 1] < k);
  return count > 0 && rows[low] == k ? low : -1;
}

pbStatus pbRows_Check(const pbRollout *r, const int *rows, int count) {
  if (!rows) return pb_ok;

  for (int i = 0; i < count; i++) {
    int least = i ? rows[i - 1] + 1 : 0;
    if (rows[i] < least || rows[i] > r->plan.steps)
      return pbContext_Fail(r->ctx, pb_bad_argument, "states to keep: %d (number %d) is not ascending in 0 .. %d", rows[i], i,
                            r->plan.steps);
  }

  return pb_ok;
}

static void put_row(double *out, int row, int width, const double *data) {
  if (out && data && width > 0) memcpy(out + (size_t)row * (size_t)width, data, (size_t)width * sizeof *data);
}

// What is wanted of state k: a view of the output with every array at its row, empty where nothing is.
static pbRolloutOutput wanted_at(const pbRollout *r, const pbRolloutOutput *out, int k) {
  // A later part goes on from a state whose row the part before has written.
  bool written = k == r->began && k > 0;
  int row = out && !written ? pbRows_Find(out->rows, out->row_count, k) : -1;
  if (row < 0) return (pbRolloutOutput){0};

  size_t at = (size_t)row;

  return (pbRolloutOutput){.states = out->states ? out->states + at * (size_t)r->nx : NULL,
                           .sensordata = out->sensordata ? out->sensordata + at * (size_t)r->ns : NULL,
                           .xpos = out->xpos ? out->xpos + at * 3 * (size_t)r->nbody : NULL,
                           .site_xpos = out->site_xpos ? out->site_xpos + at * 3 * (size_t)r->nsite : NULL};
}

static void put_positions(const pbRollout *r, const pbRolloutOutput *wanted) {
  if (wanted->xpos) put_row(wanted->xpos, 0, 3 * r->nbody, pbRollout_ObservedField(r->scratch, "xpos"));
  if (wanted->site_xpos) put_row(wanted->site_xpos, 0, 3 * r->nsite, pbRollout_ObservedField(r->scratch, "site_xpos"));
}

double *pbRollout_RecordAt(const pbRollout *r, int k) {
  PB_ASSERT(k >= r->leaf_from && k - r->leaf_from < r->plan.leaf);
  return r->records + (size_t)(k - r->leaf_from) * (size_t)r->nrecord;
}

// Before a step: directs its evaluation into the cache, if it is to be kept. `left`: steps of the leaf still to come, this one
// included. Where the cache cannot hold the whole leaf, its last steps are kept: a pullback reads them first, while they are
// still near the core.
static bool begin_caching(pbRollout *r, int left) {
  PB_ASSERT(left >= 1 && left <= r->plan.leaf);
  PB_ASSERT(r->cached_used <= r->plan.cached_bytes);
  size_t room = r->plan.cached_bytes - r->cached_used;
  if (room == 0) return false;

  // The first that is kept is the one from which on all would fit, if they are as large as this one.
  if (r->cached_used == 0 && pbCached_Guess(r->scratch) > room / (size_t)left) return false;

  return pbCached_Begin(r->scratch, r->cached + r->cached_used, room);
}

static pbStatus save_evaluation(pbRollout *r, int index, bool begun) {
  PB_ASSERT(index >= 0 && index < r->plan.leaf);
  if (!r->plan.cached_bytes) return pb_ok;
  size_t size = 0;
  size_t left = r->plan.cached_bytes - r->cached_used;
  if (begun) PB_TRY(pbCached_Save(r->scratch, left, &size));

  // The size is rounded up to where the next one may begin, which may lie beyond the end.
  r->cached_at[index] = size ? r->cached_used : SIZE_MAX;
  r->cached_used += size < left ? size : left;
  return pb_ok;
}

void *pbRollout_CachedAt(const pbRollout *r, int k) {
  int index = k - r->leaf_from;
  PB_ASSERT(index >= 0 && index < r->plan.leaf);
  if (!r->plan.cached_bytes) return NULL;
  return r->cached_at[index] == SIZE_MAX ? NULL : r->cached + r->cached_at[index];
}

// At the end of step k.
static void add_kick(pbRollout *r, int k) {
  double *qvel = r->x + state_layout(r->model).qvel;
  const double *kick = row(r->kick, pbRollout_InputRow(r, k), r->nv);
  for (int i = 0; kick && i < r->nv; i++) qvel[i] += kick[i];
}

// Step k from r->x. left: steps that are still to be recorded, this one among them; 0: it is not.
static pbStatus advance(pbRollout *r, int k, int left, const pbRolloutOutput *out) {
  pbInput input = pbRollout_InputAt(r, k);
  pbRolloutOutput wanted = wanted_at(r, out, k);

  memcpy(r->x_before, r->x, (size_t)r->nx * sizeof *r->x);
  put_row(wanted.states, 0, r->nx, r->x);

  // Positions of state k: those of the step's evaluation, or where its last evaluation is at another state, of one more.
  bool early = r->xpos_by_observing && (wanted.xpos || wanted.site_xpos);

  if (early) {
    PB_TRY(pbRollout_Observe(r, r->x, k, NULL));
    put_positions(r, &wanted);
  }

  // The evaluation is written where it is cached, not copied.
  bool begun = left > 0 && begin_caching(r, left);
  PB_TRY(pbRollout_StepChecked(r, r->theta, r->x, &input, k, wanted.sensordata));
  if (!early) put_positions(r, &wanted);
  add_kick(r, k);
  if (r->watch) r->watch(r->watcher, r->scratch);

  if (left == 0) return pb_ok;

  // The thin record: the state before the step and the accelerations found.
  pbTape_Record(r->model, r->x_before, r->scratch, pbRollout_RecordAt(r, k));
  pbStatus status = save_evaluation(r, k - r->leaf_from, begun);

  return status == pb_ok ? status : pbRollout_StepFailed(r, status, k, pbStatus_Text(status));
}

// Step k of the first sweep, and what it says.
static pbStatus first_step(pbRollout *r, int k, int left, pbRolloutOutput *out) {
  if (r->steer) r->steer(r->steer_user, k, r->x);
  PB_TRY(pbPrescribed_Check(r, k));
  PB_TRY(advance(r, k, left, out));

  // What the solver and the contacts were like
  pbReport report = pbScratch_Report(r->scratch);
  pbCertificate_Step(&r->forward, &report, pbScratch_WorstRow(r->scratch), k);
  if (out) out->steps_done = k + 1;

  return pb_ok;
}

// Steps from .. to - 1 of an action Advance or Record. first: in Forward, which writes outputs and the certificate.
static pbStatus play_steps(pbRollout *r, const pbScheduleAction *a, pbRolloutOutput *out, bool first) {
  bool record = a->kind == pb_scheduleRecord;
  if (record) {
    // A new leaf overwrites the records of the one before.
    PB_ASSERT(a->to - a->from <= r->plan.leaf);
    r->leaf_from = a->from;
    r->cached_used = 0;
  }

  for (int k = a->from; k < a->to; k++) {
    int left = record ? a->to - k : 0;
    if (r->jump) r->jump(r->jump_user, k, r->x);
    PB_TRY(first ? first_step(r, k, left, out) : advance(r, k, left, NULL));
    if (pbProgressMeter_Step(&r->meter)) return pbRollout_Stopped(r, k + 1);
  }

  return pb_ok;
}

static double *snapshot_at(const pbRollout *r, int slot) {
  PB_ASSERT(slot >= 0 && slot < r->plan.snapshots);
  return r->snapshots + (size_t)slot * (size_t)r->nx;
}

// Plays actions up to the next Reverse (returned) or Done. `out` and the certificate only on the first sweep.
pbStatus pbRollout_Play(pbRollout *r, pbRolloutOutput *out, bool first, pbScheduleAction *action) {
  size_t bytes = (size_t)r->nx * sizeof *r->x;

  for (;;) {
    *action = pbSchedule_Next(&r->schedule);
    switch (action->kind) {
      case pb_scheduleStore: memcpy(snapshot_at(r, action->slot), r->x, bytes); break;
      case pb_scheduleRestore: memcpy(r->x, action->slot < 0 ? r->x0 : snapshot_at(r, action->slot), bytes); break;
      case pb_scheduleAdvance:
      case pb_scheduleRecord: PB_TRY(play_steps(r, action, out, first)); break;
      default: return pb_ok;
    }
  }
}

static pbStatus read_timestep(pbRollout *r) {
  pbParam timestep;
  PB_TRY(pbModel_Param(r->ctx, r->model, "timestep", &timestep));
  r->timestep = r->theta[timestep.offset];

  return pb_ok;
}

static pbStatus final_state(pbRollout *r, int k, pbRolloutOutput *out) {
  pbRolloutOutput wanted = wanted_at(r, out, k);

  // Vjp observes the last state again, if its outputs have cotangents.
  memcpy(r->x_final, r->x, (size_t)r->nx * sizeof *r->x);
  if (out) put_row(out->final_state, 0, r->nx, r->x);
  put_row(wanted.states, 0, r->nx, r->x);
  if (!wanted.sensordata && !wanted.xpos && !wanted.site_xpos) return pb_ok;

  // No step begins at the last state: what is observed there takes an evaluation of its own.
  PB_TRY(pbRollout_Observe(r, r->x, k, wanted.sensordata));
  put_positions(r, &wanted);

  return pb_ok;
}

void pbRollout_Restart(pbRollout *r) {
  memcpy(r->x, r->x0, (size_t)r->nx * sizeof *r->x);
  r->schedule = pbSchedule_Begin(r->plan.steps, r->plan.snapshots, r->plan.leaf, r->held);
}

static pbCertificate empty_certificate(void) {
  return (pbCertificate){.worst_residual_step = -1,
                         .approach = INFINITY,
                         .event_step = -1,
                         .grazing_step = -1,
                         .simultaneous_step = -1,
                         .tie_step = -1,
                         .kink_step = -1,
                         .penetrating = {-1, -1},
                         .penetration_step = -1,
                         .gaining = {-1, -1},
                         .gain_step = -1,
                         .spot_step = -1,
                         .spot_kink = -1,
                         .spot_tie_step = -1,
                         .most_contacts_step = -1};
}

pbStatus pbRollout_BeginForward(pbRollout *r, const double *theta, const double *x0, const pbRolloutInput *input, int first,
                                pbRolloutOutput *out) {
  PB_ASSERT(first >= 0 && (first == 0 || r->track));
  r->theta = theta;
  r->x0 = x0;
  r->input = input ? *input : (pbRolloutInput){0};
  r->began = first;
  r->ran = false;
  r->has_final_record = false;
  r->tape_fresh = false;
  r->forward = first > 0 ? r->track->forward : empty_certificate();
  if (out) out->steps_done = first;

  // All that the caller gives is checked before the first step.
  if (out) PB_TRY(pbRows_Check(r, out->rows, out->row_count));
  PB_TRY(pbRollout_Ready(r));
  PB_TRY(read_timestep(r));
  char text[400];
  if (!pbState_Readable(r->model, x0, text, sizeof text))
    return pbContext_Fail(r->ctx, pb_bad_input, "the initial state: %s", text);
  if (!within(x0, r->nx, r->bound)) return out_of_bounds(r, x0, first);
  PB_TRY(pbPrescribed_CheckBefore(r));
  if (r->track) PB_TRY(pbTrack_NoteRestart(r, x0, first));

  // What the scratch did before is no step of this rollout: its contacts neither appear nor go.
  r->scratch->contacts_before = -1;
  pbRollout_Restart(r);
  return pbProgressMeter_Begin(&r->meter, "forward", r->plan.steps) ? pbRollout_Stopped(r, first) : pb_ok;
}

pbStatus pbRollout_EndForward(pbRollout *r, int last, pbRolloutOutput *out) {
  PB_TRY(final_state(r, last, out));
  if (r->track && last < r->plan.steps) pbTrack_KeepInput(r, last);
  r->ran = last == r->plan.steps;
  r->tape_fresh = true;

  return pb_ok;
}

pbStatus pbRollout_Forward(pbRollout *r, const double *theta, const double *x0, const pbRolloutInput *input,
                           pbRolloutOutput *out) {
  PB_TRY(pbRollout_BeginForward(r, theta, x0, input, 0, out));

  // The schedule stops before its first Reverse: Vjp goes on from there.
  pbScheduleAction action;
  PB_TRY(pbRollout_Play(r, out, true, &action));
  return pbRollout_EndForward(r, r->plan.steps, out);
}

// ---- steps of several rollouts in turn --------------------------------------------------------------------------------------
pbStatus pbRollout_Sense(pbRollout *r, int k) {
  pbInput input = pbRollout_InputAt(r, k);
  put_noise(r, k);

  pbStatus status = pbStep_Sense(r->model, r->theta, r->x, &input, r->scratch);
  return status == pb_ok ? pb_ok : pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));
}

pbStatus pbRollout_ForwardStep(pbRollout *r, int k, pbRolloutOutput *out) {
  PB_ASSERT(r->plan.snapshots == 0 && r->plan.cached_bytes == 0);
  int left = r->plan.steps - k;
  bool whole = r->plan.leaf >= r->plan.steps;

  // A tape of all steps, or the record of the last.
  if (whole || left == 1) r->leaf_from = whole ? 0 : k;
  PB_TRY(first_step(r, k, whole || left == 1 ? left : 0, out));

  return pbProgressMeter_Step(&r->meter) ? pbRollout_Stopped(r, k + 1) : pb_ok;
}
