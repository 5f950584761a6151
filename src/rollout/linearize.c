// Jacobians of all steps of a rollout, from the first to the last. Steps that the last Forward left on its tape with their
// evaluations are taken from there; others are made once more, with the same bits: so Jacobians need no tape, and no bit of them
// depends on a memory budget. The evaluation of a step is cached for them, unless it has very many contacts.
// Tests: tests/unit/test_sweep.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "rollout/rollout.h"
#include "step/scratch.h"
#include "world/cached.h"

enum { cached_contacts = 64 };  // at most

// Numbers of the state at hand.
typedef struct Place {
  double *x, *before, *record;
  void *cached;
  size_t room;  // bytes of cached
} Place;

// The room is the caller's.
static Place place_in(const pbRollout *r, double *room) {
  size_t nx = (size_t)r->nx;
  char *behind = (char *)(room + 2 * nx + (size_t)pbTape_Size(r->model));
  return (Place){.x = room,
                 .before = room + nx,
                 .record = room + 2 * nx,
                 .cached = behind + (64 - (size_t)behind % 64) % 64,
                 .room = pbCached_Room(r->model, cached_contacts)};
}

// Sums are quick, but may overflow where no number is infinite.
static bool all_finite(const pbScratch *s, const double *x, size_t n) {
  return isfinite(s->variant->sum(x, n)) || pb_allFinite(x, n);
}

static pbStatus take_jacobians(const pbStepRecord *step, pbScratch *s, const pbLinearized *out) {
  size_t n = (size_t)pbModel_TangentSize(step->model), nu = (size_t)step->model->nu;
  const pbJacobian to = {.by = pb_byControl, .A = out->A, .B = nu ? out->B : NULL};
  PB_TRY(pbStep_JacobianRecord(step, s, &to));

  bool finite = all_finite(s, out->A, n * n) && all_finite(s, out->B, n * nu);
  return finite ? pb_ok : pbScratch_Fail(s, pb_not_finite, "the derivative of this step is not finite");
}

// The step from the state at hand, with its evaluation cached where there is room.
static pbStatus step_from(const pbRollout *r, const Place *at, const pbInput *input, pbScratch *s, void **cached) {
  size_t size = 0;
  bool begun = r->model->nhistory == 0 && pbCached_Begin(s, at->cached, at->room);
  PB_TRY(pbStep_Forward(r->model, r->theta, at->x, input, s, NULL));
  if (begun) PB_TRY(pbCached_Save(s, at->room, &size));
  *cached = size ? at->cached : NULL;
  return pb_ok;
}

static bool is_whole(const pbRollout *r) { return r->tape_fresh && r->leaf_from == 0 && r->plan.leaf >= r->plan.steps; }

// State k of a tape that is whole; a record begins with it.
static const double *state_on_tape(const pbRollout *r, int k) {
  return k < r->plan.steps ? pbRollout_RecordAt(r, k) : r->x_final;
}

// Of step k, if it is on the tape with its evaluation: the record, and the next state; else NULL.
static const double *recorded(const pbRollout *r, int k, const Place *at, void **cached) {
  bool there = is_whole(r) && r->model->nhistory == 0 && k < r->plan.steps;
  *cached = there ? pbRollout_CachedAt(r, k) : NULL;
  if (!*cached) return NULL;

  memcpy(at->x, state_on_tape(r, k + 1), (size_t)r->nx * sizeof(double));
  return pbRollout_RecordAt(r, k);
}

// State k: its step, or at the last one a look where somebody asks for it. Errors are the scratch's.
static pbStatus step_at(const pbRollout *r, int k, const Place *at, const pbInput *input, pbScratch *s, pbStepRecord *step) {
  void *cached = NULL;
  const double *record = recorded(r, k, at, &cached);
  bool last = k == r->plan.steps;

  // made once more, where it is not there
  if (!record) memcpy(at->before, at->x, (size_t)r->nx * sizeof(double));
  if (last) PB_TRY(pbStep_Observe(r->model, r->theta, at->x, input, s, NULL));
  else if (!record) PB_TRY(step_from(r, at, input, s, &cached));

  if (!record) pbTape_Record(r->model, at->before, s, at->record);
  *step = (pbStepRecord){
      .model = r->model, .theta = r->theta, .record = record ? record : at->record, .cached = cached, .input = input};
  return pb_ok;
}

// Then what is seen of it.
static pbStatus see_step(const pbRollout *r, int k, const pbStepRecord *step, pbScratch *s, const pbLinearized *out) {
  if (k < r->plan.steps) PB_TRY(take_jacobians(step, s, out));
  return out->see(out->user, k, step, s);
}

static pbStatus linearize_at(const pbRollout *r, int k, const Place *at, pbScratch *s, const pbLinearized *out) {
  pbInput input = pbRollout_InputAt(r, k);
  pbStepRecord step;
  PB_TRY(step_at(r, k, at, &input, s, &step));
  return see_step(r, k, &step, s, out);
}

// The smooth gradient is that of the same step with smooth contacts, from the state of the sharp run.
static pbStatus linearize_smooth(pbRollout *r, int k, const Place *at, const pbLinearized *out) {
  pbInput input = pbRollout_InputAt(r, k);
  pbStepRecord step;
  pbStatus status = step_at(r, k, at, &input, r->scratch, &step);
  if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));

  // another model, with a scratch of its own
  PB_TRY(pbSmooth_Step(r, step.record, &input, k));
  step = (pbStepRecord){.model = r->smooth, .theta = r->theta, .record = r->smooth_record, .input = &input};
  status = see_step(r, k, &step, r->smooth_scratch, out);
  return status == pb_ok ? pb_ok : pbRollout_StepFailed(r, status, k, pbScratch_Error(r->smooth_scratch));
}

static pbStatus linearize_sharp(pbRollout *r, int k, const Place *at, const pbLinearized *out) {
  pbStatus status = linearize_at(r, k, at, r->scratch, out);
  return status == pb_ok ? pb_ok : pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));
}

// The state before a step of a run that jumps: a tape that is whole has it behind the jump.
static void begin_where_it_jumped(const pbRollout *r, int k, const Place *at) {
  if (is_whole(r)) memcpy(at->x, state_on_tape(r, k), (size_t)r->nx * sizeof(double));
  else if (k < r->plan.steps) r->jump(r->jump_user, k, at->x);
}

static pbStatus check_ready(pbRollout *r) {
  if (!r->ran) return pbContext_Fail(r->ctx, pb_bad_argument, "Jacobians need a rollout that ran to its end first");
  PB_ASSERT(r->gradient != pb_gradientEvent && !r->model->deform && !r->model->policy);
  PB_TRY(pbRollout_Ready(r));
  return pbPrescribed_CheckAll(r);
}

pbStatus pbRollout_Linearize(pbRollout *r, const pbLinearized *out) {
  PB_TRY(check_ready(r));
  const Place at = place_in(r, out->room);
  memcpy(at.x, r->x0, (size_t)r->nx * sizeof(double));

  // The states are those of Forward, bit for bit: the same call from the same state.
  pbStatus status = pbProgressMeter_Begin(&r->meter, "forward", r->plan.steps) ? pbRollout_Stopped(r, 0) : pb_ok;
  for (int k = 0; k <= r->plan.steps && status == pb_ok; k++) {
    if (r->jump) begin_where_it_jumped(r, k, &at);
    status = r->gradient == pb_gradientSmooth ? linearize_smooth(r, k, &at, out) : linearize_sharp(r, k, &at, out);
    if (status == pb_ok && k < r->plan.steps && pbProgressMeter_Step(&r->meter)) status = pbRollout_Stopped(r, k);
  }

  pbCached_Leave(r->scratch);
  return status;
}

// ---- steps apart ----------------------------------------------------------------------------------------------------------
// Smooth steps are made in one place.
bool pbRollout_HasSteps(const pbRollout *r) {
  return r->ran && is_whole(r) && r->gradient != pb_gradientSmooth && !r->nmocap && !r->model->nhistory;
}

pbStatus pbRollout_BeginLinearizing(pbRollout *r, pbScratch *const *scratch, int count) {
  PB_ASSERT(pbRollout_HasSteps(r));
  PB_TRY(check_ready(r));

  // once for all steps
  for (int i = 0; i < count; i++) {
    pbStatus status = pbScratch_Trust(scratch[i], r->model, r->theta);
    if (status != pb_ok) return pbContext_Fail(r->ctx, status, "%s", pbScratch_Error(scratch[i]));
  }

  return pb_ok;
}

pbStatus pbRollout_LinearizeStep(const pbRollout *r, int k, pbScratch *scratch, const pbLinearized *out) {
  const Place at = place_in(r, out->room);
  PB_ASSERT(k >= 0 && k <= r->plan.steps);
  memcpy(at.x, state_on_tape(r, k), (size_t)r->nx * sizeof(double));

  pbStatus status = linearize_at(r, k, &at, scratch, out);
  pbCached_Leave(scratch);
  return status;
}

size_t pbRollout_LinearizeRoom(const pbModel *m) {
  size_t cached = pbCached_Room(m, cached_contacts) / sizeof(double) + 64 / sizeof(double);
  return 2 * (size_t)pbModel_StateSize(m) + (size_t)pbTape_Size(m) + cached;
}
