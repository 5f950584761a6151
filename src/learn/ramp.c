// Parameters that reach the task's values on the way: a training may begin with easier physics, such as softer contacts.
// Tests: tests/unit/test_learn.c.
#include <math.h>

#include "elementary/elementary.h"
#include "learn/train.h"

static double value_at(const pbRamp *r, double fraction) {
  if (fraction >= r->end) return r->own;

  // even steps of the ratio
  double part = fraction > r->begin ? (fraction - r->begin) / (r->end - r->begin) : 0;
  return r->from * pbPow(r->own / r->from, part);
}

pbStatus pbTrain_Ramp(pbTrain *t, double fraction) {
  pbTrain_Weigh(t, fraction);
  for (int i = 0; i < t->ramps; i++) t->theta[t->ramp[i].at] = value_at(&t->ramp[i], fraction);
  return t->ramps && t->task->recompute ? pbModel_SetConstants(t->ctx, t->model, t->theta) : pb_ok;
}
