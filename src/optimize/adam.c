// Adam (Kingma & Ba, ICLR 2015, algorithm 1), projected on the bounds, with rates by iteration.
// Tests: tests/unit/test_optimize.c, tests/unit/test_verdict.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "optimize/optimizer.h"

// own state: m (n), v (n), products of the betas, damping after failed evaluations
enum { adam_b1, adam_b2, adam_slow, adam_scalars };

size_t pbAdam_StateSize(const pbOptimizer *o) { return 2 * (size_t)o->n + adam_scalars; }
static size_t work_size(const pbOptimizer *o) { return 2 * (size_t)o->n; }

void pbAdam_Begin(pbOptimizer *o) {
  double *scalars = o->own + 2 * o->n;  // adam_scalars, behind both moments
  for (int i = 0; i < adam_scalars; i++) scalars[i] = 1;
}

static double rate_at(const pbOptimizer *o, int iteration) {
  PB_ASSERT(o->options.rate_count >= 1);
  const pbRate *at = o->rates, *last = o->rates + o->options.rate_count - 1;
  while (at < last && at[1].iteration <= iteration) at++;
  if (!o->options.linear_rates || at == last) return at->rate;

  // On the line to the next.
  double part = (double)(iteration - at->iteration) / (at[1].iteration - at->iteration);

  return at->rate + part * (at[1].rate - at->rate);
}

void pbAdam_Clip(const pbOptimizer *o, double *g) {
  double norm = pbVec_Norm(g, o->n), most = o->options.clip;

  // Its direction stays.
  if (!(most > 0) || norm <= most) return;

  for (int i = 0; i < o->n; i++) g[i] *= most / norm;
}

// The last step led where nothing can be evaluated: half way back to the best point, more slowly from here.
void pbAdam_Retreat(pbOptimizer *o) {
  double *m = o->own, *scalars = o->own + 2 * o->n;
  if (!isfinite(o->h->best_value)) o->h->outcome = pb_noDescent;
  scalars[adam_slow] *= 0.5;

  for (int i = 0; i < o->n; i++) {
    o->x[i] = 0.5 * (o->x[i] + o->best[i]);
    m[i] = 0;
  }
}

// Moments m and v with their bias corrected: x -= rate m^ / (sqrt(v^) + epsilon).
void pbAdam_Step(pbOptimizer *o, const double *g, double *before) {
  int n = o->n;
  double *m = o->own, *v = o->own + n, *scalars = o->own + 2 * n;
  double b1 = o->options.beta1, b2 = o->options.beta2, rate = rate_at(o, (int)o->h->iteration) * scalars[adam_slow];

  // Products of the betas: how much of the moments is still their start, zero.
  scalars[adam_b1] *= b1;
  scalars[adam_b2] *= b2;
  memcpy(before, o->x, (size_t)n * sizeof *before);

  for (int i = 0; i < n; i++) {
    m[i] = b1 * m[i] + (1 - b1) * g[i];
    v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
    o->x[i] -= rate * (m[i] / (1 - scalars[adam_b1])) / (sqrt(v[i] / (1 - scalars[adam_b2])) + o->options.epsilon);
  }

  pbOptimizer_Project(o, o->x);
  for (int i = 0; i < n; i++) before[i] -= o->x[i];
  pbOptimizer_Moved(o, pbVec_Norm(before, n));
}

static pbStatus iterate_adam(pbOptimizer *o) {
  int n = o->n;
  double *g = o->work, *before = o->work + n;

  PB_TRY(pbOptimizer_Gradient(o, o->x, &o->h->value, g));
  if (!isfinite(o->h->value)) {
    pbAdam_Retreat(o);
    return pb_ok;
  }

  o->h->gradient_norm = pbOptimizer_ProjectedNorm(o, o->x, g);
  if (o->h->gradient_norm <= o->options.gradient_tolerance) {
    o->h->outcome = pb_smallGradient;
    return pb_ok;
  }

  pbAdam_Clip(o, g);
  pbAdam_Step(o, g, before);

  return pb_ok;
}

const pbMinimizer pbMinimizer_Adam = {.name = "adam",
                                      .needs_gradient = true,
                                      .state_size = pbAdam_StateSize,
                                      .work_size = work_size,
                                      .begin = pbAdam_Begin,
                                      .iterate = iterate_adam};
