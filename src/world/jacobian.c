// The public Jacobians of a step, and which way they are made: of open steps all rows together, of closed loops from those and
// the policy's own, else a pullback for each row. Tests: tests/conformance/test_step.c, tests/conformance/test_policy.c.
#include <string.h>

#include "base/context.h"
#include "impact/impact.h"
#include "step/scratch.h"
#include "world/cached.h"
#include "world/open_jacobian.h"
#include "world/policy_jacobian.h"

// A pullback for each row, of the state and then of the sensors: worlds with deformables, histories, or policies and impacts.
static pbStatus row_by_row(const pbStepRecord *given, pbScratch *s, const pbJacobian *out) {
  const pbModel *m = given->model;
  size_t n = (size_t)pbModel_TangentSize(m);
  size_t nu = (size_t)pbModel_Columns(m, out->by);
  size_t ns = (size_t)m->nsensordata;
  double *seed = s->row;
  double *sensor_seed = seed + n;
  double *x_bar = sensor_seed + ns;
  double *inputs = x_bar + n;
  const pbObservationBar observed = {.sensordata = sensor_seed};
  const pbInputBar input_bar = pbJacobian_Inputs(m, out->by, 1, inputs);

  memset(seed, 0, (2 * n + nu + ns) * sizeof *seed);

  for (size_t r = 0; r < n + ns; r++) {
    // First rows of the state, then of the sensors
    bool step = r < n;
    size_t row = step ? r : r - n;
    double *by_state = step ? out->A : out->C, *by_inputs = step ? out->B : out->D;
    if (!by_state && !by_inputs) continue;

    memset(x_bar, 0, (n + nu) * sizeof *x_bar);
    // The seeds of both stand side by side.
    seed[r] = 1;
    pbStepCotangent in = {.next = step ? seed : NULL, .observed = step ? NULL : &observed};
    pbStatus status = pbStep_VjpCached(given, &in, s, &(pbStepBar){x_bar, &input_bar, NULL});
    seed[r] = 0;
    if (by_state) memcpy(by_state + row * n, x_bar, n * sizeof *x_bar);
    if (by_inputs) memcpy(by_inputs + row * nu, inputs, nu * sizeof *inputs);
    PB_TRY(status);
  }

  return pb_ok;
}

pbStatus pbStep_JacobianRecord(const pbStepRecord *given, pbScratch *s, const pbJacobian *out) {
  const pbModel *m = given->model;
  pbStepRecord step = *given;
  pbJacobian to = *out;
  to.by &= pb_byGiven;

  PB_TRY(pbScratch_Enter(s, m, &step.theta));
  PB_TRY(pbScratch_CheckRecord(s, step.record));
  if (m->deform || m->nhistory || (m->policy && pbImpacts_Recorded(s, step.record))) {
    if (s->policy) s->policy->rows = true;
    pbStatus status = row_by_row(&step, s, &to);
    if (s->policy) s->policy->rows = false;
    return status;
  }

  unsigned failures = s->failures;
  pbStatus status = m->policy ? pbPolicy_Jacobian(s, &step, &to) : pbStep_JacobianOpen(s, &step, &to);
  if (status == pb_ok || s->failures != failures) return status;
  return pbScratch_Fail(s, status, "Jacobian: %s", pbStatus_Text(status));
}

pbStatus pbStep_JacobianBy(const pbModel *m, const double *theta, const double *record, const pbInput *input, pbScratch *s,
                           const pbJacobian *out) {
  const pbStepRecord step = {.model = m, .theta = theta, .record = record, .input = input};
  return pbStep_JacobianRecord(&step, s, out);
}

pbStatus pbStep_Jacobian(const pbModel *m, const double *theta, const double *record, const pbInput *input, pbScratch *s,
                         double *A, double *B, double *C, double *D) {
  return pbStep_JacobianBy(m, theta, record, input, s, &(pbJacobian){pb_byControl, A, B, C, D});
}
