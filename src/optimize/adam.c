// Adam (Kingma & Ba, ICLR 2015, algorithm 1), projected on the bounds, with rates by iteration.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "optimize/optimizer.h"

// own state: m (n), v (n), products of the betas, damping after failed evaluations
enum { adam_b1, adam_b2, adam_slow, adam_scalars };

static size_t state_size(const pbOptimizer *o) { return 2 * (size_t)o->n + adam_scalars; }
static size_t work_size(const pbOptimizer *o) { return 2 * (size_t)o->n; }

static void begin_adam(pbOptimizer *o) {
  double *scalars = o->own + 2 * o->n;
  for (int i = 0; i < adam_scalars; i++) scalars[i] = 1;
}

static double rate_at(const pbOptimizer *o, int iteration) {
  PB_ASSERT(o->options.rate_count >= 1);
  double rate = o->rates[0].rate;

  for (int i = 0; i < o->options.rate_count; i++) {
    if (o->rates[i].iteration > iteration) break;
    rate = o->rates[i].rate;
  }

  return rate;
}

// The last step led where nothing can be evaluated: half way back to the best point, more slowly from here.
static void retreat(pbOptimizer *o, double *m, double *scalars) {
  if (!isfinite(o->h->best_value)) o->h->outcome = pb_noDescent;
  scalars[adam_slow] *= 0.5;

  for (int i = 0; i < o->n; i++) {
    o->x[i] = 0.5 * (o->x[i] + o->best[i]);
    m[i] = 0;
  }
}

static pbStatus iterate_adam(pbOptimizer *o) {
  int n = o->n;
  double *g = o->work, *before = o->work + n, *m = o->own, *v = o->own + n, *scalars = o->own + 2 * n;

  PB_TRY(pbOptimizer_Gradient(o, o->x, &o->h->value, g));
  memcpy(before, o->x, (size_t)n * sizeof *before);

  if (!isfinite(o->h->value)) {
    retreat(o, m, scalars);
    return pb_ok;
  }

  o->h->gradient_norm = pbOptimizer_ProjectedNorm(o, o->x, g);
  if (o->h->gradient_norm <= o->options.gradient_tolerance) {
    o->h->outcome = pb_smallGradient;
    return pb_ok;
  }

  // Moments m and v with their bias corrected: x -= rate m^ / (sqrt(v^) + epsilon).
  double b1 = o->options.beta1, b2 = o->options.beta2, rate = rate_at(o, (int)o->h->iteration) * scalars[adam_slow];
  scalars[adam_b1] *= b1;
  scalars[adam_b2] *= b2;

  for (int i = 0; i < n; i++) {
    m[i] = b1 * m[i] + (1 - b1) * g[i];
    v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
    o->x[i] -= rate * (m[i] / (1 - scalars[adam_b1])) / (sqrt(v[i] / (1 - scalars[adam_b2])) + o->options.epsilon);
  }

  pbOptimizer_Project(o, o->x);
  for (int i = 0; i < n; i++) before[i] -= o->x[i];
  pbOptimizer_Moved(o, pbVec_Norm(before, n));

  return pb_ok;
}

const pbMinimizer pbMinimizer_Adam = {"adam", true, false, state_size, work_size, begin_adam, iterate_adam};
