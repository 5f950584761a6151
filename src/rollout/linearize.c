// Jacobians of all steps of a rollout, from the first to the last, by the steps of Forward made once more: so they need no tape,
// and no bit of them depends on a memory budget.
// Tests: tests/unit/test_sweep.c.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "rollout/rollout.h"
#include "step/scratch.h"

// Numbers of the state at hand.
typedef struct Place {
  double *x, *before, *record;
} Place;

static pbStatus take_jacobians(pbRollout *r, int k, const Place *at, const pbInput *input, const pbLinearized *out) {
  size_t n = (size_t)r->n, nu = (size_t)r->nu;
  const pbJacobian to = {.by = pb_byControl, .A = out->A, .B = nu ? out->B : NULL};
  pbStatus status = pbStep_JacobianBy(r->model, r->theta, at->record, input, r->scratch, &to);
  if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));

  bool finite = pb_allFinite(out->A, n * n) && pb_allFinite(out->B, n * nu);
  return finite ? pb_ok : pbRollout_StepFailed(r, pb_not_finite, k, "the derivative of this step is not finite");
}

// State k: its step, or at the last one a look where somebody asks for it; then what is seen of it.
static pbStatus linearize_at(pbRollout *r, int k, const Place *at, const pbLinearized *out) {
  pbInput input = pbRollout_InputAt(r, k);
  bool last = k == r->plan.steps;
  memcpy(at->before, at->x, (size_t)r->nx * sizeof(double));
  if (last) {
    pbStatus status = pbStep_Observe(r->model, r->theta, at->x, &input, r->scratch, NULL);
    if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));
  } else {
    PB_TRY(pbRollout_StepChecked(r, r->theta, at->x, &input, k, NULL));
  }

  pbTape_Record(r->model, at->before, r->scratch, at->record);
  if (!last) PB_TRY(take_jacobians(r, k, at, &input, out));

  const pbStepRecord step = {.model = r->model, .theta = r->theta, .record = at->record, .input = &input};
  pbStatus status = out->see(out->user, k, &step, r->scratch);
  return status == pb_ok ? pb_ok : pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));
}

pbStatus pbRollout_Linearize(pbRollout *r, const pbLinearized *out) {
  if (!r->ran) return pbContext_Fail(r->ctx, pb_bad_argument, "Jacobians need a rollout that ran to its end first");
  PB_ASSERT(r->gradient == pb_gradientExact && !r->model->deform && !r->model->policy);
  PB_TRY(pbRollout_Ready(r));
  PB_TRY(pbPrescribed_CheckAll(r));

  size_t nx = (size_t)r->nx;
  const Place at = {.x = out->room, .before = out->room + nx, .record = out->room + 2 * nx};
  memcpy(at.x, r->x0, nx * sizeof(double));

  // The states are those of Forward, bit for bit: the same call from the same state.
  pbStatus status = pbProgressMeter_Begin(&r->meter, "forward", r->plan.steps) ? pbRollout_Stopped(r, 0) : pb_ok;
  for (int k = 0; k <= r->plan.steps && status == pb_ok; k++) {
    status = linearize_at(r, k, &at, out);
    if (status == pb_ok && k < r->plan.steps && pbProgressMeter_Step(&r->meter)) status = pbRollout_Stopped(r, k);
  }

  return status;
}

size_t pbRollout_LinearizeRoom(const pbModel *m) { return 2 * (size_t)pbModel_StateSize(m) + (size_t)pbTape_Size(m); }
