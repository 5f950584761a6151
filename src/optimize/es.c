// Evolution strategy as in Salimans et al. (arXiv 1703.03864): antithetic pairs about the mean, values replaced by their ranks,
// and Adam along the gradient that they estimate. Memory is a few times the number of unknowns: the noise of a generation is
// drawn again instead of kept. Points beyond a bound are put on it and learned from where they were put. Tests:
// tests/unit/test_optimize.c.
#include <math.h>
#include <string.h>

#include <pullback/random.h>

#include "base/assert.h"
#include "optimize/evolution.h"

// own state: Adam's, then the random generator
static size_t state_size(const pbOptimizer *o) { return pbAdam_StateSize(o) + PB_RNG_DOUBLES; }
static double *rng_of(const pbOptimizer *o) { return o->own + pbAdam_StateSize(o); }

// work: n to spare, a point (n), gradient (n), values, order and shaped values (population each)
static size_t work_size(const pbOptimizer *o) { return 3 * (size_t)o->n + 3 * (size_t)o->options.population; }

static void begin_es(pbOptimizer *o) {
  pbAdam_Begin(o);
  pbRng rng = pbRng_Seed(o->options.seed);
  pbRng_Save(&rng, rng_of(o));
}

// x = mean + sign sigma z, on the bounds; the generator goes on.
static void draw_point(const pbOptimizer *o, pbRng *rng, double sign, double *x) {
  double size = sign * o->options.sigma;
  for (int i = 0; i < o->n; i++) x[i] = o->x[i] + size * pbRng_Normal(rng);
  pbOptimizer_Project(o, x);
}

// Point 2k and 2k + 1 are a pair: the same draw to either side.
static pbStatus evaluate_generation(pbOptimizer *o, pbRng *rng, double *x, double *values) {
  for (int k = 0; k < o->options.population; k += 2) {
    // The generator is as it was for the second of the pair.
    pbRng again = *rng;
    draw_point(o, rng, 1, x);
    PB_TRY(pbOptimizer_Value(o, x, &values[k]));
    draw_point(o, &again, -1, x);
    PB_TRY(pbOptimizer_Value(o, x, &values[k + 1]));
  }

  return pb_ok;
}

// Ranks from -1/2 (best) to 1/2; equal values share theirs, so that a plateau has no slope.
static void shape_values(const double *values, double *order, double *shaped, int count) {
  pbRank_Order(values, order, count);

  // Runs of equal values: the mean of the places they take.
  for (int first = 0, end; first < count; first = end) {
    for (end = first + 1; end < count && values[(int)order[end]] == values[(int)order[first]]; end++) continue;

    double rank = 0.5 * (first + end - 1) / (count - 1) - 0.5;
    for (int k = first; k < end; k++) shaped[(int)order[k]] = rank;
  }
}

// g = sum of rank times move, over population and sigma: the same draws as those evaluated.
static void estimate_gradient(const pbOptimizer *o, pbRng rng, const double *shaped, double *x, double *g) {
  int n = o->n, count = o->options.population;
  double sigma = o->options.sigma;
  memset(g, 0, (size_t)n * sizeof *g);

  for (int k = 0; k < count; k += 2) {
    pbRng again = rng;
    for (int side = 0; side < 2; side++) {
      draw_point(o, side ? &again : &rng, side ? -1 : 1, x);
      for (int i = 0; i < n; i++) g[i] += shaped[k + side] * (x[i] - o->x[i]) / (sigma * sigma * count);
    }
  }
}

static pbStatus iterate_es(pbOptimizer *o) {
  int count = o->options.population;
  double *x = o->work + o->n, *g = x + o->n;           // workspace, n each: a point, the estimate of the gradient
  double *values = g + o->n, *order = values + count;  // workspace, count each: of the points; their numbers, best first
  double *shaped = order + count;                      // workspace, count: weights by rank
  PB_ASSERT(count % 2 == 0 && o->options.sigma > 0);

  // The mean itself: what progress is told by, and where the next one begins.
  PB_TRY(pbOptimizer_Value(o, o->x, &o->h->value));
  pbRng rng = pbRng_Load(rng_of(o)), before = rng;
  PB_TRY(evaluate_generation(o, &rng, x, values));
  pbRng_Save(&rng, rng_of(o));

  // The last step led where nothing can be evaluated.
  if (!isfinite(o->h->value)) {
    pbAdam_Retreat(o);
    return pb_ok;
  }

  shape_values(values, order, shaped, count);
  estimate_gradient(o, before, shaped, x, g);
  pbAdam_Clip(o, g);
  pbAdam_Step(o, g, x);

  return pb_ok;
}

const pbMinimizer pbMinimizer_Es = {
    .name = "es", .state_size = state_size, .work_size = work_size, .begin = begin_es, .iterate = iterate_es};
