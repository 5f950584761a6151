// What a policy sees at a state, pulled back to the state without a step: for whoever learns from observations alone.
// Tests: tests/unit/test_learn.c, tests/oracle/test_train.py.
#include <string.h>

#include "base/assert.h"
#include "model/state_layout.h"
#include "step/scratch.h"
#include "world/cached.h"
#include "world/history_step.h"
#include "world/policy_points.h"
#include "world/policy_step.h"

pbStatus pbPolicy_ObserveVjp(const pbModel *m, const double *theta, const double *record, const pbInput *input, pbScratch *s,
                             const double *observation_bar, double *x_bar) {
  PB_TRY(pbScratch_Enter(s, m, &theta));
  PB_TRY(pbScratch_CheckRecord(s, record));
  if (!m->policy) return pbScratch_Fail(s, pb_bad_argument, "the model has no policy");

  pbPolicy_PullHeld(m, observation_bar, x_bar);
  pbPolicyPoints_Pull(m, observation_bar, x_bar + tangent_deform(m));
  if (!m->policy->evaluates) return pb_ok;

  // the kernels read the cotangents of all rows, and leave those alone that need no evaluation
  pbPolicy_Sense(s, theta, record, input);
  s->w.sensed = false;
  memcpy(s->policy->observation_bar, observation_bar, (size_t)m->policy->observing * sizeof(double));
  if (s->history) pbHistory_PullObserved(s, theta, record, s->policy->observation_bar, x_bar, NULL);

  const pbStepRecord open = {.model = m, .theta = theta, .record = record, .input = input, .open = true};
  const pbStepCotangent seen = {.observation = s->policy->observation_bar};
  return pbStep_VjpOpen(s, &open, &seen, &(pbStepBar){x_bar, NULL, NULL});
}
