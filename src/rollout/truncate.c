// Truncated gradients: decay, windows and clipping of the costate on its way back. Order and meaning: pbVjpOptions
// (include/pullback/rollout.h). Tests: tests/unit/test_truncate.c, validation/K84.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "elementary/elementary.h"
#include "rollout/rollout.h"

static pbStatus not_in_range(const pbRollout *r, const char *name, double value, const char *expected) {
  return pbContext_Fail(r->ctx, pb_bad_argument, "%s of the costate: expected %s, found %g", name, expected, value);
}

// Length of a window in steps; 0: none. Boundaries are counted from the end, so only those within the horizon act.
static pbStatus window_steps(const pbRollout *r, double window, int *steps) {
  *steps = 0;
  if (window == 0 || isinf(window)) return pb_ok;

  double count = round(window / r->timestep);
  if (count < 1) return not_in_range(r, "window", window, "at least one time step (s)");
  if (count < r->plan.steps) *steps = (int)count;
  return pb_ok;
}

bool pbTruncation_Acts(const pbTruncation *t) { return t->factor < 1 || t->window > 0 || isfinite(t->clip); }

pbStatus pbTruncation_Begin(pbRollout *r, const pbVjpOptions *options, pbCertificate *c) {
  pbTruncation *t = &r->truncation;
  *t = (pbTruncation){.factor = 1, .clip = INFINITY};
  c->clip_step = -1;
  if (!options) return pb_ok;

  if (!(options->decay >= 0) || isinf(options->decay)) return not_in_range(r, "decay", options->decay, "a rate >= 0 (1/s)");
  if (!(options->window >= 0)) return not_in_range(r, "window", options->window, "a time >= 0 (s)");
  if (!(options->clip >= 0)) return not_in_range(r, "clip", options->clip, "a norm >= 0");

  PB_TRY(window_steps(r, options->window, &t->window));
  t->factor = pbExp(-options->decay * r->timestep);
  if (options->clip > 0) t->clip = options->clip;

  // What acts, whatever it meets: clips and cuts are counted on the way.
  c->decay = options->decay;
  c->window = t->window * r->timestep;
  c->clip = isfinite(t->clip) ? t->clip : 0;
  c->truncated = t->factor < 1 && r->plan.steps > 0;
  return pb_ok;
}

static double norm_of(const double *v, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += v[i] * v[i];
  return sqrt(sum);
}

static void note_clip(pbCertificate *c, int state, double norm) {
  c->truncated = true;
  c->clips++;
  if (!(norm > c->clip_most)) return;
  c->clip_most = norm;
  c->clip_step = state;
}

void pbTruncation_Shorten(pbRollout *r, int state, pbCertificate *c) {
  const pbTruncation *t = &r->truncation;
  PB_ASSERT(state > 0 && state <= r->plan.steps);
  double factor = t->factor;

  if (isfinite(t->clip)) {
    double norm = norm_of(r->costate, r->n);
    if (norm > t->clip) {
      factor *= t->clip / norm;
      note_clip(c, state, norm);
    }
  }

  // Nothing is multiplied where nothing acts: the bits stay those of the derivative.
  if (factor == 1) return;
  for (int i = 0; i < r->n; i++) r->costate[i] *= factor;
}

bool pbTruncation_Cuts(const pbRollout *r, int state) {
  int window = r->truncation.window;
  return window > 0 && state > 0 && state < r->plan.steps && (r->plan.steps - state) % window == 0;
}

// ---- in words -------------------------------------------------------------------------------------------------------
static void append(char *text, size_t size, const char *part) {
  size_t used = strlen(text);
  snprintf(text + used, size - used, "%s%s", used ? ", " : "", part);
}

char *pbCertificate_Truncation(const pbCertificate *c, char *text, size_t size) {
  char part[160];
  PB_ASSERT(size > 0);
  *text = 0;

  // Only what acted is told.
  if (!c->truncated) return text;

  if (c->decay > 0) {
    snprintf(part, sizeof part, "decay %g /s", c->decay);
    append(text, size, part);
  }

  if (c->cuts) {
    snprintf(part, sizeof part, "windows of %g s (%lld %s)", c->window, (long long)c->cuts, c->cuts == 1 ? "cut" : "cuts");
    append(text, size, part);
  }

  if (c->clips) {
    snprintf(part, sizeof part, "norm clipped to %g at %lld %s (most at %d: %.2g)", c->clip, (long long)c->clips,
             c->clips == 1 ? "state" : "states", c->clip_step, c->clip_most);
    append(text, size, part);
  }

  return text;
}
