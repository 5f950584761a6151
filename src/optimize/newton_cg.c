// Newton's method in a region of trust: conjugate gradients on the model g'p + p'Hp / 2 end at the region's boundary, at a
// direction of no or negative curvature (Steihaug 1983, Toint 1981), or where the model's gradient is small enough for an end
// that is quadratic. H is a product with a vector: the problem's, else a difference of gradients. What reaches a bound stays
// there until the next iteration (Lin & More 1999). Tests: tests/unit/test_newton_cg.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "optimize/optimizer.h"

// own state: g (n), then
enum { ncg_radius, ncg_most, ncg_scalars };  // 0: not yet known; largest gradient so far

enum { PIECES = 9, most_points = 64, most_trials = 40, least_products = 20 };
static const double difference_size = 1e-5;  // of 1 + |x|

static size_t state_size(const pbOptimizer *o) { return (size_t)o->n + ncg_scalars; }
static void begin_newton(pbOptimizer *o) { (void)o; }

// Cut from the optimizer's work, n each.
typedef struct Work {
  double *trial, *trial_g;   // a point and its gradient; both lent to differences
  double *p, *r;             // move, and the model's gradient there, g + H p
  double *d, *Hd, *s, *Hs;   // direction; a step beside it
  double *free;              // 1 where no bound holds the variable, else 0
  double *path_p, *path_r;   // points x n: corners of the way of p, from the first on; the last one is the newest
  int points, count;         // room for, and how many there are
  int products, most;        // made for this p, and to be made at most
  double radius, tolerance;  // of |p|, of |r| of what is free
  bool ended;                // p is where it is to be
} Work;

// Fewer corners of very many unknowns.
static int points_of(const pbOptimizer *o) { return (int)fmin(fmax(4e6 / o->n, 4), most_points); }
static size_t work_size(const pbOptimizer *o) { return (size_t)o->n * (PIECES + 2 * (size_t)points_of(o)); }

static Work lay_out(const pbOptimizer *o) {
  Work w = {.points = points_of(o), .most = 2 * o->n > least_products ? 2 * o->n : least_products};
  double *next = o->work, **all[] = {&w.trial, &w.trial_g, &w.p, &w.r, &w.d, &w.Hd, &w.s, &w.Hs, &w.free};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    *all[i] = next;
    next += o->n;
  }

  // what is left
  w.path_p = next;
  w.path_r = next + (size_t)w.points * (size_t)o->n;

  return w;
}

// ---- products with the Hessian --------------------------------------------------------------------------------------
// How far v can be followed from x until a bound is in the way; sign -1: backwards.
static double room_along(const pbOptimizer *o, const double *v, double sign) {
  double room = INFINITY;
  for (int i = 0; i < o->n; i++) {
    double by = sign * v[i];
    if (by != 0) room = fmin(room, ((by > 0 ? o->upper[i] : o->lower[i]) - o->x[i]) / by);
  }

  return room;
}

// The gradient where x is moved by `by` along v; made: false where there is none.
static pbStatus gradient_along(pbOptimizer *o, Work *w, const double *v, double by, double *g, bool *made) {
  for (int i = 0; i < o->n; i++) w->trial[i] = o->x[i] + by * v[i];
  pbOptimizer_Project(o, w->trial);

  return pbOptimizer_Beside(o, w->trial, g, made);
}

// Differences of gradients to both sides, or to one where a bound or a failure leaves no other; zero where neither is there.
static pbStatus take_difference(pbOptimizer *o, Work *w, const double *v, double *Hv) {
  double size = difference_size * (1 + pbVec_Norm(o->x, o->n)) / pbVec_Norm(v, o->n);
  double ahead = fmin(size, room_along(o, v, 1)), behind = fmin(size, room_along(o, v, -1));
  bool forth = ahead >= size / 2 || ahead >= behind, back = behind >= size / 2 || !forth;
  const double *g = o->own;

  // a side that fails leaves the other
  o->h->differences++;
  if (forth) PB_TRY(gradient_along(o, w, v, ahead, Hv, &forth));
  if (back || !forth) PB_TRY(gradient_along(o, w, v, -behind, w->trial_g, &back));
  double length = (forth ? ahead : 0) + (back ? behind : 0);

  for (int i = 0; i < o->n; i++) {
    double up = forth ? Hv[i] : g[i], down = back ? w->trial_g[i] : g[i];
    Hv[i] = length > 0 ? (up - down) / length : 0;
  }

  return pb_ok;
}

static pbStatus multiply(pbOptimizer *o, Work *w, const double *v, double *Hv) {
  bool made;
  w->products++;
  PB_TRY(pbOptimizer_Product(o, o->x, v, Hv, &made));

  return made ? pb_ok : take_difference(o, w, v, Hv);
}

// ---- the move ---------------------------------------------------------------------------------------------------------
// What the model promises for a move whose gradient of the model is r: -(g'p + p'Hp / 2) with Hp = r - g.
static double promise(const pbOptimizer *o, const double *p, const double *r) {
  double sum = 0;
  for (int i = 0; i < o->n; i++) sum -= 0.5 * p[i] * (o->own[i] + r[i]);
  return sum;
}

static void keep_corner(const pbOptimizer *o, Work *w) {
  size_t n = (size_t)o->n;
  if (w->count < w->points) w->count++;

  // behind the others, or in place of the last
  memcpy(w->path_p + (size_t)(w->count - 1) * n, w->p, n * sizeof(double));
  memcpy(w->path_r + (size_t)(w->count - 1) * n, w->r, n * sizeof(double));
}

// t > 0 with |p + t d| = radius.
static double to_region(const pbOptimizer *o, const Work *w) {
  double dd = pbVec_Dot(w->d, w->d, o->n), pd = pbVec_Dot(w->p, w->d, o->n);
  double left = fmax(w->radius * w->radius - pbVec_Dot(w->p, w->p, o->n), 0), root = sqrt(pd * pd + dd * left);

  return pd > 0 ? left / (pd + root) : (root - pd) / dd;
}

// How far along d the first variable reaches its bound.
static double to_bound(const pbOptimizer *o, const Work *w) {
  double most = INFINITY;
  for (int i = 0; i < o->n; i++) {
    if (w->d[i] == 0) continue;
    double bound = w->d[i] > 0 ? o->upper[i] : o->lower[i];
    most = fmin(most, fmax((bound - o->x[i] - w->p[i]) / w->d[i], 0));
  }

  return most;
}

// Where a step t along d crosses bounds, the first at `first`: all of it, projected, where the model is less there than where the
// first bound is met, else to that place. What has reached a bound stays there.
static pbStatus bend(pbOptimizer *o, Work *w, double t, double first, double curvature) {
  int n = o->n;
  for (int i = 0; i < n; i++) w->s[i] = fmin(fmax(w->p[i] + t * w->d[i], o->lower[i] - o->x[i]), o->upper[i] - o->x[i]) - w->p[i];

  // what the model falls by either way
  PB_TRY(multiply(o, w, w->s, w->Hs));
  double part = -first * pbVec_Dot(w->r, w->d, n) - 0.5 * first * first * curvature;
  double whole = -pbVec_Dot(w->r, w->s, n) - 0.5 * pbVec_Dot(w->s, w->Hs, n);
  bool bent = whole > part;

  for (int i = 0; i < n; i++) {
    double end = (w->d[i] > 0 ? o->upper[i] : o->lower[i]) - o->x[i], room = end - w->p[i];
    bool reached = w->d[i] != 0 && (bent ? w->s[i] != w->p[i] + t * w->d[i] - w->p[i] : room / w->d[i] <= first * (1 + 1e-12));
    w->p[i] += bent ? w->s[i] : first * w->d[i];
    w->r[i] += bent ? w->Hs[i] : first * w->Hd[i];
    if (!reached) continue;

    w->p[i] = end;
    w->free[i] = 0;
  }

  return pb_ok;
}

static double free_norm(const pbOptimizer *o, const Work *w, const double *r) {
  double sum = 0;
  for (int i = 0; i < o->n; i++) sum += w->free[i] != 0 ? r[i] * r[i] : 0;
  return sqrt(sum);
}

// One step of conjugate gradients; bent: a bound was in its way, so that directions begin anew.
static pbStatus step_along(pbOptimizer *o, Work *w, bool *bent) {
  int n = o->n;
  *bent = false;
  PB_TRY(multiply(o, w, w->d, w->Hd));
  double curvature = pbVec_Dot(w->d, w->Hd, n), slope = pbVec_Dot(w->r, w->d, n), region = to_region(o, w);

  // rounding is no curvature
  bool curved = curvature > 1e-15 * pbVec_Norm(w->d, n) * pbVec_Norm(w->Hd, n);

  // to the model's least value, the region's boundary, the first bound
  double t = curved ? fmin(-slope / curvature, region) : region, first = to_bound(o, w);
  *bent = first < t;
  w->ended = !*bent && t == region;

  if (*bent) {
    PB_TRY(bend(o, w, t, first, curvature));
  } else {
    for (int i = 0; i < n; i++) {
      w->p[i] += t * w->d[i];
      w->r[i] += t * w->Hd[i];
    }
  }

  keep_corner(o, w);

  return pb_ok;
}

// p and r for the region at hand.
static pbStatus find_move(pbOptimizer *o, Work *w) {
  size_t n = (size_t)o->n;
  memset(w->p, 0, n * sizeof(double));
  memcpy(w->r, o->own, n * sizeof(double));
  w->count = w->products = 0;
  w->ended = false;
  double before = 0, norm = free_norm(o, w, w->r);

  // Fletcher and Reeves' coefficient; after a bound directions begin anew along the gradient
  bool anew = true;
  while (!w->ended && norm > w->tolerance && w->products < w->most) {
    double beta = anew ? 0 : norm * norm / (before * before);
    for (int i = 0; i < o->n; i++) {
      double along = anew ? 0 : beta * w->d[i];
      w->d[i] = w->free[i] != 0 ? along - w->r[i] : 0;
    }

    PB_TRY(step_along(o, w, &anew));
    before = norm;
    norm = free_norm(o, w, w->r);
    w->ended |= pbVec_Norm(w->p, o->n) >= w->radius * (1 - 1e-12);
  }

  return pb_ok;
}

// The same way of p as far as a smaller region reaches: no product is made again.
static void shorten_move(const pbOptimizer *o, Work *w) {
  int n = o->n, k = 0;
  while (k + 1 < w->count && pbVec_Norm(w->path_p + (size_t)k * (size_t)n, n) < w->radius) k++;
  const double *end = w->path_p + (size_t)k * (size_t)n, *end_r = w->path_r + (size_t)k * (size_t)n;

  // the corner before it, or x
  const double *from = k > 0 ? end - n : NULL, *from_r = k > 0 ? end_r - n : o->own;

  // from there on to the boundary
  for (int i = 0; i < n; i++) {
    w->p[i] = from ? from[i] : 0;
    w->d[i] = end[i] - w->p[i];
  }
  double t = pbVec_Norm(w->d, n) > 0 ? fmin(to_region(o, w), 1) : 0;

  for (int i = 0; i < n; i++) {
    w->p[i] += t * w->d[i];
    w->r[i] = from_r[i] + t * (end_r[i] - from_r[i]);
  }
}

// ---- the iteration ------------------------------------------------------------------------------------------------------
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

// x + p; where that is a bound but for rounding, the bound.
static void make_trial(const pbOptimizer *o, const Work *w) {
  for (int i = 0; i < o->n; i++) {
    double at = o->x[i] + w->p[i], near = 4e-16 * (fabs(at) + fabs(o->x[i]));
    if (at <= o->lower[i] + near) at = o->lower[i];
    if (at >= o->upper[i] - near) at = o->upper[i];
    w->trial[i] = at;
  }
}

static void accept_trial(pbOptimizer *o, const Work *w, double value) {
  double length = pbVec_Norm(w->p, o->n);
  memcpy(o->x, w->trial, (size_t)o->n * sizeof(double));
  memcpy(o->own, w->trial_g, (size_t)o->n * sizeof(double));
  o->h->value = value;

  o->h->gradient_norm = pbOptimizer_ProjectedNorm(o, o->x, o->own);
  pbOptimizer_Moved(o, length);
  if (o->h->gradient_norm <= o->options.gradient_tolerance) o->h->outcome = pb_smallGradient;
}

// Is the move worth it? By what the value falls of what was promised; where both are rounding, by the gradient.
static bool is_better(const pbOptimizer *o, const Work *w, double value, double promised, double *ratio) {
  double fall = o->h->value - value, rounding = 4e-15 * (fabs(o->h->value) + fabs(value));
  *ratio = isfinite(value) && promised > 0 ? fall / promised : -1;
  if (isfinite(value) && promised > 0 && promised <= rounding && fabs(fall) <= rounding) {
    *ratio = pbOptimizer_ProjectedNorm(o, w->trial, w->trial_g) < o->h->gradient_norm ? 1 : -1;
    return *ratio > 0;
  }

  return *ratio > 1e-4 && fall > 0;
}

// Shorter and shorter regions until a move makes the value less.
static pbStatus make_move(pbOptimizer *o, Work *w) {
  double *radius = &o->own[o->n + ncg_radius], ratio;
  for (int trial = 0; trial < most_trials; trial++) {
    double promised = promise(o, w->p, w->r), value = INFINITY, length = pbVec_Norm(w->p, o->n);
    make_trial(o, w);
    if (promised > 0) PB_TRY(pbOptimizer_Gradient(o, w->trial, &value, w->trial_g));

    bool better = is_better(o, w, value, promised, &ratio);
    // the region by how well the model foretold it
    if (ratio < 0.25) *radius = 0.25 * length;
    else if (ratio > 0.75 && length > 0.99 * *radius) *radius *= 3;
    if (better) {
      accept_trial(o, w, value);
      return pb_ok;
    }

    if (length <= 1e-16 * (1 + pbVec_Norm(o->x, o->n))) break;
    // less far along the same way
    w->radius = *radius;
    shorten_move(o, w);
  }

  o->h->outcome = pb_noDescent;

  return pb_ok;
}

static pbStatus iterate_newton(pbOptimizer *o) {
  Work w = lay_out(o);
  double *radius = &o->own[o->n + ncg_radius], *most = &o->own[o->n + ncg_most];
  if (o->h->begun == 0) PB_TRY(evaluate_start(o));
  if (o->h->outcome != pb_running) return pb_ok;

  for (int i = 0; i < o->n; i++) w.free[i] = pbOptimizer_Stuck(o, o->x, o->own, i) ? 0 : 1;
  double norm = free_norm(o, &w, o->own);
  if (*radius == 0) *radius = fmax(1, pbVec_Norm(o->x, o->n));
  *most = fmax(*most, norm);
  PB_ASSERT(norm > 0 && *radius > 0);

  // a gradient of the model as the square of the gradient's: a quadratic end
  w.radius = *radius;
  w.tolerance = norm * fmin(0.1, norm / *most);
  PB_TRY(find_move(o, &w));

  return make_move(o, &w);
}

const pbMinimizer pbMinimizer_NewtonCg = {.name = "newton-cg",
                                          .needs_gradient = true,
                                          .state_size = state_size,
                                          .work_size = work_size,
                                          .begin = begin_newton,
                                          .iterate = iterate_newton};
