// Jacobians of all steps of a rollout, from the first to the last. Steps that the last Forward left on its tape with their
// evaluations are taken from there; others are made once more, with the same bits: so Jacobians need no tape, and no bit of them
// depends on a memory budget. The evaluation of a step is cached for them, unless it has very many contacts.
// Tests: tests/unit/test_sweep.c.
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

static pbStatus take_jacobians(pbRollout *r, int k, const pbStepRecord *step, pbScratch *scratch, const pbLinearized *out) {
  size_t n = (size_t)r->n, nu = (size_t)r->nu;
  const pbJacobian to = {.by = pb_byControl, .A = out->A, .B = nu ? out->B : NULL};
  pbStatus status = pbStep_JacobianRecord(step, scratch, &to);
  if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(scratch));

  bool finite = pb_allFinite(out->A, n * n) && pb_allFinite(out->B, n * nu);
  return finite ? pb_ok : pbRollout_StepFailed(r, pb_not_finite, k, "the derivative of this step is not finite");
}

// The step from state k, with its evaluation cached where there is room.
static pbStatus step_from(pbRollout *r, int k, const Place *at, const pbInput *input, void **cached) {
  size_t size = 0;
  bool begun = r->model->nhistory == 0 && pbCached_Begin(r->scratch, at->cached, at->room);
  PB_TRY(pbRollout_StepChecked(r, r->theta, at->x, input, k, NULL));
  if (begun) PB_TRY(pbCached_Save(r->scratch, at->room, &size));
  *cached = size ? at->cached : NULL;
  return pb_ok;
}

// Of step k, if it is on the tape with its evaluation: the record, and the next state; else NULL.
static const double *recorded(const pbRollout *r, int k, const Place *at, void **cached) {
  bool whole = r->tape_fresh && r->leaf_from == 0 && r->plan.leaf >= r->plan.steps && r->model->nhistory == 0;
  *cached = whole && k < r->plan.steps ? pbRollout_CachedAt(r, k) : NULL;
  if (!*cached) return NULL;

  // a record begins with the state
  memcpy(at->x, k + 1 < r->plan.steps ? pbRollout_RecordAt(r, k + 1) : r->x_final, (size_t)r->nx * sizeof(double));
  return pbRollout_RecordAt(r, k);
}

// State k: its step, or at the last one a look where somebody asks for it; then what is seen of it.
static pbStatus linearize_at(pbRollout *r, int k, const Place *at, const pbLinearized *out) {
  pbInput input = pbRollout_InputAt(r, k);
  void *cached = NULL;
  const double *record = recorded(r, k, at, &cached);
  bool last = k == r->plan.steps;
  if (!record) memcpy(at->before, at->x, (size_t)r->nx * sizeof(double));
  if (last) {
    pbStatus status = pbStep_Observe(r->model, r->theta, at->x, &input, r->scratch, NULL);
    if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));
  } else if (!record) {
    PB_TRY(step_from(r, k, at, &input, &cached));
  }

  if (!record) pbTape_Record(r->model, at->before, r->scratch, at->record);
  pbStepRecord step = {
      .model = r->model, .theta = r->theta, .record = record ? record : at->record, .cached = cached, .input = &input};
  pbScratch *scratch = r->scratch;

  // the smooth gradient is that of the same step with smooth contacts, from the state of the sharp run
  if (r->gradient == pb_gradientSmooth) {
    PB_TRY(pbSmooth_Step(r, step.record, &input, k));
    step = (pbStepRecord){.model = r->smooth, .theta = r->theta, .record = r->smooth_record, .input = &input};
    scratch = r->smooth_scratch;
  }

  if (!last) PB_TRY(take_jacobians(r, k, &step, scratch, out));
  pbStatus status = out->see(out->user, k, &step, scratch);
  return status == pb_ok ? pb_ok : pbRollout_StepFailed(r, status, k, pbScratch_Error(scratch));
}

pbStatus pbRollout_Linearize(pbRollout *r, const pbLinearized *out) {
  if (!r->ran) return pbContext_Fail(r->ctx, pb_bad_argument, "Jacobians need a rollout that ran to its end first");
  PB_ASSERT(r->gradient != pb_gradientEvent && !r->model->deform && !r->model->policy);
  PB_TRY(pbRollout_Ready(r));
  PB_TRY(pbPrescribed_CheckAll(r));

  size_t nx = (size_t)r->nx, tape = (size_t)pbTape_Size(r->model);
  char *behind = (char *)(out->room + 2 * nx + tape);
  const Place at = {.x = out->room,
                    .before = out->room + nx,
                    .record = out->room + 2 * nx,
                    .cached = behind + (64 - (size_t)behind % 64) % 64,
                    .room = pbCached_Room(r->model, cached_contacts)};
  memcpy(at.x, r->x0, nx * sizeof(double));

  // The states are those of Forward, bit for bit: the same call from the same state.
  pbStatus status = pbProgressMeter_Begin(&r->meter, "forward", r->plan.steps) ? pbRollout_Stopped(r, 0) : pb_ok;
  for (int k = 0; k <= r->plan.steps && status == pb_ok; k++) {
    status = linearize_at(r, k, &at, out);
    if (status == pb_ok && k < r->plan.steps && pbProgressMeter_Step(&r->meter)) status = pbRollout_Stopped(r, k);
  }

  // The room is the caller's.
  pbCached_Leave(r->scratch);
  return status;
}

size_t pbRollout_LinearizeRoom(const pbModel *m) {
  size_t cached = pbCached_Room(m, cached_contacts) / sizeof(double) + 64 / sizeof(double);
  return 2 * (size_t)pbModel_StateSize(m) + (size_t)pbTape_Size(m) + cached;
}
