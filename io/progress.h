// Telling of progress about ten times a second.
#ifndef PB_IO_PROGRESS_H
#define PB_IO_PROGRESS_H

#include <math.h>
#include <time.h>

#include <pullback/rollout.h>

typedef struct pbTicker {
  const char *phase;
  pbProgressFunction function;  // NULL: nobody is told
  void *user;
  double began, last;
} pbTicker;

static inline double pb_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline pbTicker pbTicker_Begin(const char *phase, pbProgressFunction function, void *user) {
  return (pbTicker){.phase = phase, .function = function, .user = user, .began = function ? pb_seconds() : 0, .last = -1};
}

// Tells of it at the start and where it is time again; whether the work shall end.
static inline bool pbTicker_Stops(pbTicker *t, int64_t done, int64_t total) {
  if (!t->function) return false;
  double now = pb_seconds(), passed = now - t->began;
  if (t->last >= 0 && now - t->last < 0.1) return false;
  t->last = now;

  double left = done > 0 ? passed * (double)(total - done) / (double)done : -1;
  pbProgress progress = {t->phase, done, total, passed, left, NAN};
  return t->function(t->user, &progress) != 0;
}

#endif
