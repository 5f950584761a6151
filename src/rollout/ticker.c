#include <math.h>
#include <time.h>

#include "rollout/rollout.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int tell(pbTicker *t, double time) {
  double seconds = time - t->start;
  pbProgress p = {.phase = t->phase, .done = t->done, .total = t->total, .seconds = seconds, .left = -1, .value = NAN};

  if (t->done > 0) p.left = seconds * (double)(t->total - t->done) / (double)t->done;
  t->last = time;
  return t->function(t->user, &p);
}

int pbTicker_Begin(pbTicker *t, const char *phase, int64_t total) {
  t->phase = phase;
  t->done = 0;
  t->total = total;
  if (!t->function) return 0;
  t->start = now();

  return tell(t, t->start);
}

int pbTicker_Step(pbTicker *t) {
  t->done++;
  if (!t->function) return 0;
  double time = now();

  return time - t->last < 0.1 ? 0 : tell(t, time);
}
