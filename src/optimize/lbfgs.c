// L-BFGS (Nocedal 1980) on the variables no bound holds, with a line search along the projected path: weak Wolfe conditions
// by bracketing (Lewis & Overton 2013, which also copes with kinks), Armijo alone where a bound cuts the path.
// Tests: tests/unit/test_optimize.c, tests/unit/test_verdict.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "optimize/optimizer.h"

// own state: g (n), then per pair s (n), y (n); then the number of pairs
static size_t state_size(const pbOptimizer *o) { return (size_t)o->n * (1 + 2 * (size_t)o->options.memory) + 1; }
static size_t work_size(const pbOptimizer *o) { return 4 * (size_t)o->n + 2 * (size_t)o->options.memory; }
static void begin_lbfgs(pbOptimizer *o) { (void)o; }

static double *pairs_used(pbOptimizer *o) { return o->own + (size_t)o->n * (1 + 2 * (size_t)o->options.memory); }
static double *pair_s(pbOptimizer *o, int i) { return o->own + (size_t)o->n * (1 + 2 * (size_t)i); }  // 0: oldest
static double *pair_y(pbOptimizer *o, int i) { return pair_s(o, i) + o->n; }

// On the variables that no bound holds.
static double free_dot(const double *a, const double *b, const double *free, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += free[i] != 0 ? a[i] * b[i] : 0;
  return sum;
}

// Two-loop recursion for d = -H g on the free variables (free[i] is 1 or 0).
static void find_direction(pbOptimizer *o, const double *free, double *d, double *alpha) {
  int n = o->n, used = (int)*pairs_used(o);
  PB_ASSERT(used >= 0 && used <= o->options.memory);
  const double *g = o->own;
  double scale = 0;
  for (int i = 0; i < n; i++) d[i] = free[i] != 0 ? -g[i] : 0;

  // Newest pair first; what a bound has made useless is passed over. alpha: s'y and a, pair by pair.
  for (int j = used - 1; j >= 0; j--) {
    double sy = free_dot(pair_s(o, j), pair_y(o, j), free, n);
    alpha[2 * j] = sy;
    if (sy <= 0) continue;
    if (scale == 0) scale = sy / free_dot(pair_y(o, j), pair_y(o, j), free, n);

    double a = free_dot(pair_s(o, j), d, free, n) / sy;
    alpha[2 * j + 1] = a;
    for (int i = 0; i < n; i++) d[i] -= free[i] * a * pair_y(o, j)[i];
  }

  // s'y / y'y of the newest pair; nothing known yet: a step of length one at most.
  if (scale == 0) scale = 1 / fmax(pbVec_Norm(d, n), 1);
  for (int i = 0; i < n; i++) d[i] *= scale;

  // Oldest pair first, with the same pairs passed over.
  for (int j = 0; j < used; j++) {
    if (alpha[2 * j] <= 0) continue;
    double b = alpha[2 * j + 1] - free_dot(pair_y(o, j), d, free, n) / alpha[2 * j];
    for (int i = 0; i < n; i++) d[i] += free[i] * b * pair_s(o, j)[i];
  }
}

typedef struct Search {
  const double *d;
  double *x, *g;  // trial point and its gradient
  double value, slope, t;
  bool cut;  // a bound cut the path
} Search;

static pbStatus evaluate_at(pbOptimizer *o, Search *s, double t) {
  s->t = t;
  s->cut = false;
  for (int i = 0; i < o->n; i++) {
    double wanted = o->x[i] + t * s->d[i];
    s->x[i] = fmin(fmax(wanted, o->lower[i]), o->upper[i]);
    s->cut |= s->x[i] != wanted;
  }

  PB_TRY(pbOptimizer_Gradient(o, s->x, &s->value, s->g));

  // A failed point slopes up steeply: it lies too far.
  s->slope = isfinite(s->value) ? pbVec_Dot(s->g, s->d, o->n) : INFINITY;

  return pb_ok;
}

// Point of least value of the cubic through two values and slopes (Nocedal & Wright, 3.59), kept off the ends of the bracket.
static double between(double a, double fa, double da, double b, double fb, double db) {
  double middle = 0.5 * (a + b);
  if (!isfinite(fb) || !isfinite(db)) return a + 0.1 * (b - a);

  double z = 3 * (fa - fb) / (b - a) + da + db, root = z * z - da * db;

  // No such cubic has a minimum here.
  if (!(root >= 0)) return middle;

  double w = copysign(sqrt(root), b - a), t = b - (b - a) * (db + w - z) / (db - da + 2 * w);
  double low = a + 0.1 * (b - a), high = b - 0.1 * (b - a);

  return isfinite(t) ? fmin(fmax(t, low), high) : middle;
}

enum { most_trials = 30 };
static pbStatus search_line(pbOptimizer *o, Search *s, double first, bool *found) {
  const double c1 = 1e-4, c2 = 0.9;
  double f0 = o->h->value, d0 = pbVec_Dot(o->own, s->d, o->n);
  PB_ASSERT(first > 0);
  double low = 0, flow = f0, dlow = d0, high = INFINITY, fhigh = 0, dhigh = 0, t = first;

  *found = false;
  for (int trial = 0; trial < most_trials; trial++) {
    PB_TRY(evaluate_at(o, s, t));

    // Armijo's condition, by the slope along the move that the bounds left.
    double moved = 0;
    for (int i = 0; i < o->n; i++) moved += o->own[i] * (s->x[i] - o->x[i]);
    bool less = s->value <= f0 + c1 * fmin(moved, 0) && s->value < f0;

    // Too far; not far enough (Wolfe's second condition); or found.
    if (!less) {
      high = t;
      fhigh = s->value;
      dhigh = s->slope;
    } else if (!s->cut && s->slope < c2 * d0) {
      low = t;
      flow = s->value;
      dlow = s->slope;
    } else {
      *found = true;
      return pb_ok;
    }

    // No upper end yet: double; else within the bracket.
    t = isinf(high) ? 2 * t : between(low, flow, dlow, high, fhigh, dhigh);
    if (t - low < 1e-16 * (1 + low) && low == 0) break;
  }

  // Less, though still going down steeply: good enough.
  if (low > 0) {
    PB_TRY(evaluate_at(o, s, low));
    *found = true;
  }

  return pb_ok;
}

// Notes the pair (s, y) of this move; the oldest makes room.
static void remember_pair(pbOptimizer *o, const Search *s) {
  int n = o->n, memory = o->options.memory, used = (int)*pairs_used(o);
  double sy = 0, yy = 0, ss = 0;

  // s = x+ - x, y = g+ - g.
  for (int i = 0; i < n; i++) {
    double ds = s->x[i] - o->x[i], dy = s->g[i] - o->own[i];
    sy += ds * dy;
    yy += dy * dy;
    ss += ds * ds;
  }

  // Without positive curvature the approximation would not stay positive definite.
  if (!(sy > 1e-10 * sqrt(yy * ss))) return;
  if (used == memory) {
    memmove(pair_s(o, 0), pair_s(o, 1), (size_t)(memory - 1) * 2 * (size_t)n * sizeof(double));
    used--;
  }

  for (int i = 0; i < n; i++) {
    pair_s(o, used)[i] = s->x[i] - o->x[i];
    pair_y(o, used)[i] = s->g[i] - o->own[i];
  }

  *pairs_used(o) = used + 1;
}

static void accept_point(pbOptimizer *o, const Search *s) {
  double length = 0;
  remember_pair(o, s);
  for (int i = 0; i < o->n; i++) length += (s->x[i] - o->x[i]) * (s->x[i] - o->x[i]);

  // The trial point becomes the iterate, its gradient the method's.
  memcpy(o->x, s->x, (size_t)o->n * sizeof(double));
  memcpy(o->own, s->g, (size_t)o->n * sizeof(double));
  o->h->value = s->value;

  o->h->gradient_norm = pbOptimizer_ProjectedNorm(o, o->x, o->own);
  pbOptimizer_Moved(o, sqrt(length));
  if (o->h->gradient_norm <= o->options.gradient_tolerance) o->h->outcome = pb_smallGradient;
}

static pbStatus evaluate_start(pbOptimizer *o) {
  PB_TRY(pbOptimizer_Gradient(o, o->x, &o->h->value, o->own));
  o->h->begun = 1;
  if (!isfinite(o->h->value)) {
    o->h->outcome = pb_noDescent;
    return pb_ok;
  }

  o->h->gradient_norm = pbOptimizer_ProjectedNorm(o, o->x, o->own);
  if (o->h->gradient_norm <= o->options.gradient_tolerance) o->h->outcome = pb_smallGradient;
  return pb_ok;
}

static pbStatus iterate_lbfgs(pbOptimizer *o) {
  int n = o->n;
  double *d = o->work, *free = d + n;  // workspace, n each: direction; 1 where no bound holds the variable, else 0
  double *alpha = d + 4 * n;           // workspace, 2 memory, behind trial point and gradient: s'y and a of each pair

  if (o->h->begun == 0) PB_TRY(evaluate_start(o));
  if (o->h->outcome != pb_running) return pb_ok;

  for (int i = 0; i < n; i++) free[i] = pbOptimizer_Stuck(o, o->x, o->own, i) ? 0 : 1;
  find_direction(o, free, d, alpha);

  // No descent: what was learned is of no use here, the gradient is.

  if (!(pbVec_Dot(d, o->own, n) < 0)) {
    *pairs_used(o) = 0;
    find_direction(o, free, d, alpha);
  }

  // work: d, free, trial point and gradient, alpha.
  Search s = {.d = d, .x = d + 2 * n, .g = d + 3 * n};
  bool found;

  PB_TRY(search_line(o, &s, 1, &found));
  if (found) {
    accept_point(o, &s);
  } else if (*pairs_used(o) > 0) {
    *pairs_used(o) = 0;  // what was learned misleads: begin again along the gradient
  } else {
    o->h->outcome = pb_noDescent;
  }

  return pb_ok;
}

const pbMinimizer pbMinimizer_Lbfgs = {.name = "lbfgs",
                                       .needs_gradient = true,
                                       .state_size = state_size,
                                       .work_size = work_size,
                                       .begin = begin_lbfgs,
                                       .iterate = iterate_lbfgs};
