// Progress of a long call: tells the caller's function, which may stop it, at the start and then some tens of times a second.
// Tests: tests/unit/test_rollout.c.
#include <math.h>

#include "base/assert.h"
#include "base/clock.h"
#include "rollout/rollout.h"

static const double interval = 0.02;  // s, between two reports: who interrupts is heard as soon

static int report(pbProgressMeter *t, double time) {
  double seconds = time - t->start;
  pbProgress p = {.phase = t->phase, .done = t->done, .total = t->total, .seconds = seconds, .left = -1, .value = NAN};

  // The rest goes on as fast as what is done, on average.
  if (t->done > 0) p.left = seconds * (double)(t->total - t->done) / (double)t->done;

  t->last = time;
  return t->function(t->user, &p);
}

int pbProgressMeter_Begin(pbProgressMeter *t, const char *phase, int64_t total) {
  PB_ASSERT(total >= 0);
  t->phase = phase;
  t->done = 0;
  t->total = total;
  if (!t->function) return 0;

  t->start = pb_seconds();
  return report(t, t->start);
}

int pbProgressMeter_Step(pbProgressMeter *t) {
  t->done++;
  if (!t->function) return 0;

  double time = pb_seconds();
  return time - t->last < interval ? 0 : report(t, time);
}

int pbProgressMeter_At(pbProgressMeter *t, const char *phase, int64_t done, int64_t total) {
  PB_ASSERT(done >= 0 && total >= done);
  if (!t->function) return 0;

  double time = pb_seconds();
  if (t->phase != phase) t->start = time;
  t->phase = phase;
  t->done = done;
  t->total = total;
  return time - t->last < interval ? 0 : report(t, time);
}
