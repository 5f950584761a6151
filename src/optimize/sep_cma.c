// CMA-ES with a diagonal covariance (Ros & Hansen, PPSN 2008): the method of cmaes.c with memory and work proportional to the
// number of unknowns, and rates of learning (n + 2) / 3 times as high, for there are only n variances to learn. Tests:
// tests/unit/test_optimize.c.
#include <math.h>
#include <string.h>

#include <pullback/random.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "optimize/evolution.h"

// The distribution, as in cmaes.c, C diagonal. In the optimizer's own state.
typedef struct Sep {
  double *rng;                  // random generator, PB_RNG_DOUBLES
  double *sigma, *generation;   // one number each
  double *C, *path_c, *path_s;  // n each: variances, paths
} Sep;

static size_t state_size(const pbOptimizer *o) { return PB_RNG_DOUBLES + 2 + 3 * (size_t)o->n; }

static Sep layout(const pbOptimizer *o) {
  double *sigma = o->own + PB_RNG_DOUBLES, *C = sigma + 2;
  return (Sep){o->own, sigma, sigma + 1, C, C + o->n, C + 2 * o->n};
}

// work: n to spare, moves (population n), values, order and weights (population each), a point (n)
static size_t work_size(const pbOptimizer *o) {
  size_t n = (size_t)o->n, lambda = (size_t)o->options.population;
  return lambda * (n + 3) + 2 * n;
}

static void begin_sep(pbOptimizer *o) {
  Sep c = layout(o);
  pbRng rng = pbRng_Seed(o->options.seed);
  pbRng_Save(&rng, c.rng);
  *c.sigma = o->options.sigma;
  for (int i = 0; i < o->n; i++) c.C[i] = 1;
}

static pbCmaConstants constants(const pbOptimizer *o, double *weights) {
  pbCmaConstants k = pbCma_Constants(o, weights);
  double faster = (o->n + 2) / 3.0;

  // Together they forget at most all.
  k.c1 = fmin(0.5, k.c1 * faster);
  k.cmu = fmin(1 - k.c1, k.cmu * faster);

  return k;
}

// y is the move that became of a point on the bounds, in units of sigma.
static pbStatus draw_generation(pbOptimizer *o, const Sep *c, double *ys, double *values, double *x) {
  PB_ASSERT(*c->sigma > 0);
  int n = o->n;
  pbRng rng = pbRng_Load(c->rng);

  // Of each point only the move is kept.
  for (int k = 0; k < o->options.population; k++) {
    double *y = ys + (size_t)k * (size_t)n;
    for (int i = 0; i < n; i++) x[i] = o->x[i] + *c->sigma * sqrt(c->C[i]) * pbRng_Normal(&rng);
    pbOptimizer_Project(o, x);
    for (int i = 0; i < n; i++) y[i] = (x[i] - o->x[i]) / *c->sigma;
    PB_TRY(pbOptimizer_Value(o, x, &values[k]));
  }

  pbRng_Save(&rng, c->rng);

  return pb_ok;
}

// C = keep C + c1 p_c^2 + c_mu sum_b w_b y_b^2, entry by entry.
static void update_variances(const Sep *c, const pbCmaConstants *k, const double *ys, const double *order, const double *weights,
                             double keep, int n) {
  for (int i = 0; i < n; i++) {
    double sum = keep * c->C[i] + k->c1 * c->path_c[i] * c->path_c[i];
    for (int b = 0; b < k->mu; b++) {
      double y = ys[(size_t)order[b] * (size_t)n + (size_t)i];
      sum += k->cmu * weights[b] * y * y;
    }
    c->C[i] = sum;
  }
}

// Paths, variances and sigma after a generation, as in cmaes.c; y_mean is the weighted mean of the best moves.
static void learn(pbOptimizer *o, const Sep *c, const pbCmaConstants *k, const double *ys, const double *order,
                  const double *weights, const double *y_mean) {
  int n = o->n;
  double fs = sqrt(k->cs * (2 - k->cs) * k->mu_eff), fc = sqrt(k->cc * (2 - k->cc) * k->mu_eff);
  for (int i = 0; i < n; i++) {
    double round = c->C[i] > 0 ? y_mean[i] / sqrt(c->C[i]) : 0;
    c->path_s[i] = (1 - k->cs) * c->path_s[i] + fs * round;
  }

  // Where the path of the step size is long, the other waits: else variances would grow too fast along it.
  ++*c->generation;
  double length = pbVec_Norm(c->path_s, n);
  bool go = length / sqrt(1 - pbPow(1 - k->cs, 2 * *c->generation)) < (1.4 + 2.0 / (n + 1)) * k->chi;
  for (int i = 0; i < n; i++) c->path_c[i] = (1 - k->cc) * c->path_c[i] + (go ? fc * y_mean[i] : 0);

  double keep = 1 - k->c1 - k->cmu + (go ? 0 : k->c1 * k->cc * (2 - k->cc));
  update_variances(c, k, ys, order, weights, keep, n);

  // A path as long as that of a random walk leaves sigma as it is.
  *c->sigma *= pbExp(fmin(1, k->cs / k->damps * (length / k->chi - 1)));
}

static pbStatus iterate_sep(pbOptimizer *o) {
  int n = o->n, lambda = o->options.population;
  double *ys = o->work + n;                                    // workspace, lambda x n: moves
  double *values = ys + (size_t)lambda * (size_t)n;            // workspace, lambda: of the points
  double *order = values + lambda, *weights = order + lambda;  // workspace, lambda each: their numbers, best first; of the best
  double *x = weights + lambda, *y_mean = x;                   // workspace, n: a point, later the mean of the best moves
  Sep c = layout(o);
  pbCmaConstants k = constants(o, weights);

  PB_TRY(pbEvolution_Begin(o));
  PB_TRY(draw_generation(o, &c, ys, values, x));
  pbRank_Order(values, order, lambda);
  o->h->value = values[(int)order[0]];

  // The mean of the better half, weighted.
  for (int i = 0; i < n; i++) {
    y_mean[i] = 0;
    for (int b = 0; b < k.mu; b++) y_mean[i] += weights[b] * ys[(size_t)order[b] * (size_t)n + (size_t)i];
  }

  // The move has the step size that it was drawn with.
  double sigma = *c.sigma, spread = 0;
  learn(o, &c, &k, ys, order, weights, y_mean);
  for (int i = 0; i < n; i++) o->x[i] += sigma * y_mean[i];
  pbOptimizer_Project(o, o->x);
  o->h->step_norm = sigma * pbVec_Norm(y_mean, n);

  // The longest standard deviation of an unknown.
  for (int i = 0; i < n; i++) spread = fmax(spread, *c.sigma * sqrt(c.C[i]));
  if (spread <= o->options.step_tolerance * (1 + pbVec_Norm(o->x, n)) || !isfinite(spread)) o->h->outcome = pb_smallStep;

  return pb_ok;
}

const pbMinimizer pbMinimizer_SepCma = {
    .name = "sep-cma", .state_size = state_size, .work_size = work_size, .begin = begin_sep, .iterate = iterate_sep};
