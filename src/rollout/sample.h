// What the checks of single steps share: sample.c, which draws and judges, and sample_quotient.c, the differences of the program.
#ifndef PB_SAMPLE_H
#define PB_SAMPLE_H

#include "probe/probe.h"
#include "rollout/vectors.h"

struct pbStepCheck {
  const pbRolloutGradient *gradient;
  pbRng rng;
  int *steps, *quotients;  // ascending; those at the end are the next
  int step_count, quotient_count, most_drawn;
  int event_seen;                      // a step with events was sampled
  pbVectors direction, added, before;  // of a step; added: by the step to the gradients; before: of inputs, what was there
  pbVectors aside;                     // a direction, while parts of it are looked at
  pbMoved moved;
  double *next, *x;  // forward derivative: tangent of the next state, a state
  void *memory;
};

// The step that is checked.
typedef struct StepCheck {
  pbRollout *r;
  pbStepCheck *s;
  const pbModel *m;
  pbScratch *scratch;
  const double *record;
  void *cached;
  const pbObservationBar *observed;  // NULL: nothing
  const double *w_next;
  pbInput input;
  int k;
} StepCheck;

// What the quotients of a step say along a direction; error and limit relative to the size of the gradient's terms.
PB_NODISCARD pbStatus pbStepCheck_Compare(const StepCheck *a, const pbVectors *direction, pbJudgement *found);

#endif
