// CMA-ES as in Hansen's tutorial (arXiv 1604.00772) with its default parameters and positive weights: the gradient-free
// baseline. Points beyond a bound are put on it and learned from where they were put.
// Tests: tests/unit/test_optimize.c, tests/unit/test_verdict.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include <pullback/random.h>
#include "elementary/elementary.h"
#include "optimize/evolution.h"

// The distribution, by the tutorial's letters: N(x, sigma^2 C) with C = B D^2 B'. All in the optimizer's own state.
typedef struct Cma {
  double *rng;              // random generator, PB_RNG_DOUBLES
  double *sigma, *age;      // step size; generations since B and D were found; one number each
  double *C, *B;            // covariance, and its axes as columns, n x n each
  double *D;                // standard deviations along the axes, n
  double *path_c, *path_s;  // how the mean has moved: as it is, for C, and times C^-1/2, for sigma; n each
} Cma;
static size_t layout(const pbOptimizer *o, Cma *c) {
  double *next = o->own;
  size_t n = (size_t)o->n, sizes[8] = {PB_RNG_DOUBLES, 1, 1, n * n, n * n, n, n, n}, total = 0;
  double **pieces[8] = {&c->rng, &c->sigma, &c->age, &c->C, &c->B, &c->D, &c->path_c, &c->path_s};

  // With no memory yet this only adds up.
  for (int i = 0; i < 8; i++) {
    if (next) *pieces[i] = next + total;
    total += sizes[i];
  }

  return total;
}

static size_t state_size(const pbOptimizer *o) {
  Cma unused;
  return layout(o, &unused);
}

// What the optimizer's work holds beyond its first n numbers, which are those of pbOptimizer_Value.
typedef struct Generation {
  double *moves;                     // y of each point, lambda x n
  double *values, *order, *weights;  // of the points; their numbers, best first; of the best mu: lambda each
  double *x, *z;                     // a point and what it was drawn from, later the mean move and its round form; n each
  double *copy;                      // room for Jacobi's method, n x n
} Generation;
static void take_generation(const pbOptimizer *o, Generation *g) {
  size_t n = (size_t)o->n, lambda = (size_t)o->options.population;
  g->moves = o->work + n;
  g->values = g->moves + lambda * n;
  g->order = g->values + lambda;
  g->weights = g->order + lambda;
  g->x = g->weights + lambda;
  g->z = g->x + n;
  g->copy = g->z + n;
}

static size_t work_size(const pbOptimizer *o) {
  size_t n = (size_t)o->n, lambda = (size_t)o->options.population;
  return lambda * (n + 3) + 3 * n + n * n;
}

static void begin_cmaes(pbOptimizer *o) {
  Cma c;
  layout(o, &c);

  // The generator is a part of the state: a resumed run draws the same numbers.
  pbRng rng = pbRng_Seed(o->options.seed);
  pbRng_Save(&rng, c.rng);
  *c.sigma = o->options.sigma;

  // C = B D^2 B' is the unit matrix.
  for (int i = 0; i < o->n; i++) {
    c.C[i * o->n + i] = 1;
    c.B[i * o->n + i] = 1;
    c.D[i] = 1;
  }
}

pbStatus pbEvolution_Begin(pbOptimizer *o) {
  if (o->h->begun) return pb_ok;
  o->h->begun = 1;
  return pbOptimizer_Value(o, o->x, &o->h->value);
}

pbCmaConstants pbCma_Constants(const pbOptimizer *o, double *weights) {
  int lambda = o->options.population, mu = lambda / 2;
  double n = o->n, sum = 0, squares = 0;

  // Logarithmic weights of the better half, summing to one; the rest are the default parameters of the tutorial's table 1.
  for (int i = 0; i < mu; i++) {
    weights[i] = pbLog((lambda + 1) / 2.0) - pbLog(i + 1.0);
    sum += weights[i];
  }
  for (int i = 0; i < mu; i++) {
    weights[i] /= sum;
    squares += weights[i] * weights[i];
  }

  // mu_eff: the number of equal weights that would vary as much.
  pbCmaConstants k = {.mu = mu, .mu_eff = 1 / squares};
  k.cc = (4 + k.mu_eff / n) / (n + 4 + 2 * k.mu_eff / n);
  k.cs = (k.mu_eff + 2) / (n + k.mu_eff + 5);
  k.c1 = 2 / ((n + 1.3) * (n + 1.3) + k.mu_eff);
  k.cmu = fmin(1 - k.c1, 2 * (k.mu_eff - 2 + 1 / k.mu_eff) / ((n + 2) * (n + 2) + k.mu_eff));
  k.damps = 1 + 2 * fmax(0, sqrt((k.mu_eff - 1) / (n + 1)) - 1) + k.cs;
  k.chi = sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n));

  return k;
}

// A generation: x = mean + sigma B D z, z normal, put on the bounds; y is the move that became of it.
static pbStatus draw_generation(pbOptimizer *o, const Cma *c, const Generation *g) {
  PB_ASSERT(*c->sigma > 0);
  int n = o->n;
  pbRng rng = pbRng_Load(c->rng);

  for (int k = 0; k < o->options.population; k++) {
    // Of each point only the move is kept.
    double *y = g->moves + (size_t)k * (size_t)n;
    for (int i = 0; i < n; i++) g->z[i] = c->D[i] * pbRng_Normal(&rng);
    for (int i = 0; i < n; i++) g->x[i] = o->x[i] + *c->sigma * pbVec_Dot(c->B + i * n, g->z, n);
    pbOptimizer_Project(o, g->x);
    for (int i = 0; i < n; i++) y[i] = (g->x[i] - o->x[i]) / *c->sigma;
    PB_TRY(pbOptimizer_Value(o, g->x, &g->values[k]));
  }

  pbRng_Save(&rng, c->rng);

  return pb_ok;
}

// Insertion: stable, and populations are small.
void pbRank_Order(const double *values, double *order, int count) {
  for (int k = 0; k < count; k++) {
    int at = k;
    while (at > 0 && values[(int)order[at - 1]] > values[k]) {
      order[at] = order[at - 1];
      at--;
    }
    order[at] = k;
  }
}

// C = keep C + c1 p_c p_c' + c_mu sum_b w_b y_b y_b'.
static void update_covariance(const Cma *c, const pbCmaConstants *k, const double *ys, const double *order, const double *weights,
                              double keep, int n) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j <= i; j++) {
      // Rank one by the path, rank mu by the best moves.
      double sum = keep * c->C[i * n + j] + k->c1 * c->path_c[i] * c->path_c[j];
      for (int b = 0; b < k->mu; b++) {
        const double *y = ys + (size_t)order[b] * (size_t)n;
        sum += k->cmu * weights[b] * y[i] * y[j];
      }

      c->C[i * n + j] = sum;
      c->C[j * n + i] = sum;
    }
  }
}

// Paths and covariance after a generation; y_mean is the weighted mean of the best moves, z: room, n numbers.
static void learn(pbOptimizer *o, const Cma *c, const pbCmaConstants *k, const Generation *of, const double *y_mean, double *z) {
  int n = o->n;

  // z = D^-1 B' y, the move in the coordinates in which the distribution is round.
  for (int i = 0; i < n; i++) {
    z[i] = 0;
    for (int j = 0; j < n; j++) z[i] += c->B[j * n + i] * y_mean[j];
    z[i] = c->D[i] > 0 ? z[i] / c->D[i] : 0;
  }

  // Paths forget at the rates cs and cc; what a generation adds keeps their length where moves are random.
  double add_s = sqrt(k->cs * (2 - k->cs) * k->mu_eff), add_c = sqrt(k->cc * (2 - k->cc) * k->mu_eff);
  for (int i = 0; i < n; i++) c->path_s[i] = (1 - k->cs) * c->path_s[i] + add_s * pbVec_Dot(c->B + i * n, z, n);

  // Where the path of the step size is long, the path of C waits: else C would grow too fast along it. (The tutorial's h_sigma:
  // its length as if it had not begun at zero, beside 1.4 + 2 / (n + 1) times the mean length chi of a normal vector.)
  double length = pbVec_Norm(c->path_s, n), generations = o->h->iteration + 1;
  bool goes_on = length / sqrt(1 - pbPow(1 - k->cs, 2 * generations)) < (1.4 + 2.0 / (n + 1)) * k->chi;
  for (int i = 0; i < n; i++) c->path_c[i] = (1 - k->cc) * c->path_c[i] + (goes_on ? add_c * y_mean[i] : 0);

  double keep = 1 - k->c1 - k->cmu + (goes_on ? 0 : k->c1 * k->cc * (2 - k->cc));
  update_covariance(c, k, of->moves, of->order, of->weights, keep, n);

  // A path as long as that of a random walk leaves sigma as it is; in one generation it grows by a factor e at most.
  *c->sigma *= pbExp(fmin(1, k->cs / k->damps * (length / k->chi - 1)));
}

// B and D from C, now and then: it costs n^3. C changes at the rate c1 + cmu, so a tenth of its time over n is soon enough
// (the tutorial, B.2).
static void refresh_axes(pbOptimizer *o, const Cma *c, const pbCmaConstants *k, double *copy) {
  int n = o->n;
  ++*c->age;
  if (*c->age < 0.1 / (n * (k->c1 + k->cmu))) return;

  *c->age = 0;

  // Jacobi's method destroys its matrix.
  memcpy(copy, c->C, (size_t)n * (size_t)n * sizeof(double));
  pbVec_Eigen(copy, c->B, c->D, n);

  double least = INFINITY, most = 0;

  for (int i = 0; i < n; i++) {
    least = fmin(least, c->D[i]);
    most = fmax(most, c->D[i]);
  }

  // Axes whose lengths differ by more than 1e7, whose squares in C double precision no longer holds beside each other.
  if (!(most <= 1e7 * least)) o->h->outcome = pb_noDescent;
}

static pbStatus iterate_cmaes(pbOptimizer *o) {
  int n = o->n, lambda = o->options.population;
  Cma c;
  Generation g;

  layout(o, &c);
  take_generation(o, &g);
  pbCmaConstants k = pbCma_Constants(o, g.weights);
  PB_TRY(pbEvolution_Begin(o));
  PB_TRY(draw_generation(o, &c, &g));
  pbRank_Order(g.values, g.order, lambda);
  o->h->value = g.values[(int)g.order[0]];

  // The mean of the better half, weighted.
  double *y_mean = g.x, length = 0;
  for (int i = 0; i < n; i++) {
    y_mean[i] = 0;
    for (int b = 0; b < k.mu; b++) y_mean[i] += g.weights[b] * g.moves[(size_t)g.order[b] * (size_t)n + (size_t)i];
    length += y_mean[i] * y_mean[i];
  }

  // The move has the step size that it was drawn with.
  double sigma = *c.sigma;
  learn(o, &c, &k, &g, y_mean, g.z);
  for (int i = 0; i < n; i++) o->x[i] += sigma * y_mean[i];
  pbOptimizer_Project(o, o->x);
  refresh_axes(o, &c, &k, g.copy);
  o->h->step_norm = sigma * sqrt(length);

  // The longest standard deviation along an axis of the unknowns.
  double spread = 0;
  for (int i = 0; i < n; i++) spread = fmax(spread, *c.sigma * sqrt(c.C[i * n + i]));
  if (spread <= o->options.step_tolerance * (1 + pbVec_Norm(o->x, n)) || !isfinite(spread)) o->h->outcome = pb_smallStep;

  return pb_ok;
}

const pbMinimizer pbMinimizer_Cmaes = {
    .name = "cmaes", .state_size = state_size, .work_size = work_size, .begin = begin_cmaes, .iterate = iterate_cmaes};
