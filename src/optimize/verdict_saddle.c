// Is an answer a saddle? The loss is looked at sideways: where its gradient vanishes, it may still fall to both sides along a
// direction of several unknowns. Lanczos' iteration on differences of gradients finds the direction of least curvature, relative
// to J'J where the loss is a sum of squares (then what J does not see comes first); a few random directions besides. Only values
// of the loss decide. Tests: tests/unit/test_verdict.c, validation/SADDLE1.py.
#include <math.h>
#include <pullback/random.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "optimize/optimizer.h"
#include "optimize/verdict.h"

enum {
  LANCZOS_STEPS = 12,
  RANDOM_DIRECTIONS = 4,
  SIZES = 8,  // of moves along a direction: each half a decade longer than the one before
  MOST_DOUBLINGS = 20
};
static const double first_size = 3e-4;       // of 1 + |z|
static const double difference_size = 1e-4;  // likewise: of a difference of gradients
static const double alike = 1e-3;            // curvatures that differ by less
static const double worth = 1e-6;            // of the loss: a fall along the whole line that is worth leaving for

typedef struct Look {
  Judge *j;
  int n, steps;
  // (steps + 1) x n: Lanczos' vectors; n each: the vector at hand, a difference of gradients, lengths of the columns of J
  double *basis, *v, *up, *down, *length;
  double T[LANCZOS_STEPS * LANCZOS_STEPS];
  bool known;       // the curvatures of all directions are
  bool whitened;    // by the eigenvectors of J'J, in j->B and j->D
  double most;      // of j->D
  const char *way;  // it was found
  pbRng rng;
} Look;

static double size_of(const Judge *j, int i) { return 1 + fabs(j->z[i]); }

// An unknown at a bound stays there.
static bool is_free(const Judge *j, int i) { return j->z[i] > j->task->lower[i] && j->z[i] < j->task->upper[i]; }

// ---- coordinates ----------------------------------------------------------------------------------------------------------
// Unknowns without a column count by their size.
static double unit_of(const Look *l, int i) { return l->length[i] > 0 ? 1 / l->length[i] : size_of(l->j, i); }

// Directions that J hardly sees are not beyond a million times longer than those that it sees best.
static double weight_of(const Look *l, int e) {
  double d = l->j->D[e], least = 1e-3 * l->most;
  PB_ASSERT(least > 0);
  return 1 / sqrt(d * d + least * least);
}

// v = W y: from Lanczos' coordinates to unknowns.
static void to_unknowns(const Look *l, const double *y, double *v) {
  int n = l->n;

  for (int i = 0; i < n; i++) {
    v[i] = 0;
    if (!is_free(l->j, i)) continue;

    if (!l->whitened) {
      v[i] = size_of(l->j, i) * y[i];
      continue;
    }

    // Along the eigenvectors.
    for (int e = 0; e < n; e++) v[i] += l->j->B[i * n + e] * weight_of(l, e) * y[e];
    v[i] *= unit_of(l, i);
  }
}

// y = W' u
static void from_gradient(const Look *l, const double *u, double *y) {
  int n = l->n;

  if (!l->whitened) {
    for (int e = 0; e < n; e++) y[e] = is_free(l->j, e) ? size_of(l->j, e) * u[e] : 0;
    return;
  }

  // Unknowns at their bounds take no part.
  for (int e = 0; e < n; e++) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += is_free(l->j, i) ? l->j->B[i * n + e] * unit_of(l, i) * u[i] : 0;
    y[e] = weight_of(l, e) * sum;
  }
}

// Largest entry relative to the size of the unknowns.
static double largest_entry(const Judge *j, const double *v) {
  double most = 0;
  for (int i = 0; i < j->n; i++) most = fmax(most, fabs(v[i]) / size_of(j, i));

  return most;
}

// ---- Lanczos' iteration ---------------------------------------------------------------------------------------------------
// Gradient at z + t v, within the bounds; false: there is none.
static pbStatus gradient_beside(Judge *j, const double *v, double t, double *g, bool *good) {
  double value;
  for (int i = 0; i < j->n; i++) j->trial[i] = fmin(fmax(j->z[i] + t * v[i], j->task->lower[i]), j->task->upper[i]);
  pbStatus status = pbTask_Loss(j->task, j->trial, &value, g);
  *good = status == pb_ok && pb_allFinite(g, (size_t)j->n);

  // Where the simulation fails nothing is known.
  return pbJudge_IsSoft(status) ? pb_ok : status;
}

// out = W' H W q, by a difference of gradients to both sides.
static pbStatus curve(Look *l, const double *q, double *out, bool *good) {
  to_unknowns(l, q, l->v);
  double most = largest_entry(l->j, l->v);
  *good = most > 0;
  if (!*good) return pb_ok;

  // All entries move by a small part of their size.
  double t = difference_size / most;
  PB_TRY(gradient_beside(l->j, l->v, t, l->up, good));
  if (*good) PB_TRY(gradient_beside(l->j, l->v, -t, l->down, good));
  if (!*good) return pb_ok;

  for (int i = 0; i < l->n; i++) l->up[i] = (l->up[i] - l->down[i]) / (2 * t);
  from_gradient(l, l->up, out);

  return pb_ok;
}

static bool make_unit(double *q, int n) {
  double norm = pbVec_Norm(q, n);
  if (!(norm > 0) || !isfinite(norm)) return false;

  for (int i = 0; i < n; i++) q[i] /= norm;
  return true;
}

// Off the vectors before it, twice for rounding.
static void orthogonalize(const Look *l, double *q, int count) {
  PB_ASSERT(count >= 0 && count <= l->steps);

  for (int pass = 0; pass < 2; pass++) {
    for (int k = 0; k < count; k++) {
      const double *other = l->basis + (size_t)k * (size_t)l->n;
      double along = pbVec_Dot(other, q, l->n);
      for (int i = 0; i < l->n; i++) q[i] -= along * other[i];
    }
  }
}

static void draw(Look *l, double *q) {
  for (int i = 0; i < l->n; i++) q[i] = pbRng_Normal(&l->rng);
}

// Least eigenvalue of the first k rows and columns of T, and its vector as unknowns in j->d.
static double least_curvature(Look *l, int k) {
  double A[LANCZOS_STEPS * LANCZOS_STEPS], B[LANCZOS_STEPS * LANCZOS_STEPS], D[LANCZOS_STEPS];
  int least = 0;

  // What is written of T.
  PB_ASSERT(k >= 1 && k <= LANCZOS_STEPS);
  for (int a = 0; a < k; a++) {
    for (int b = 0; b < k; b++) A[a * k + b] = l->T[a * LANCZOS_STEPS + b];
  }

  // Jacobi's method leaves the eigenvalues, of either sign, on the diagonal.
  pbVec_Eigen(A, B, D, k);
  for (int e = 1; e < k; e++) {
    if (A[e * k + e] < A[least * k + least]) least = e;
  }

  // y = Q s
  memset(l->down, 0, (size_t)l->n * sizeof(double));
  for (int a = 0; a < k; a++) {
    const double *q = l->basis + (size_t)a * (size_t)l->n;
    for (int i = 0; i < l->n; i++) l->down[i] += B[a * k + least] * q[i];
  }
  to_unknowns(l, l->down, l->j->d);

  return A[least * k + least];
}

// *curvature: the least found, along j->d; what is not negative is none.
static pbStatus iterate(Look *l, double *curvature) {
  int n = l->n, done = 0;
  *curvature = 0;
  draw(l, l->basis);
  if (!make_unit(l->basis, n)) return pb_ok;

  for (int k = 0; k < l->steps; k++) {
    double *q = l->basis + (size_t)k * (size_t)n, *next = q + n;
    bool good;
    PB_TRY(curve(l, q, next, &good));
    if (!good) break;

    // q' W'H W q': the product of the vectors fills a row and column, so that differences need not be symmetric.
    for (int a = 0; a <= k; a++) {
      double entry = pbVec_Dot(l->basis + (size_t)a * (size_t)n, next, n);
      l->T[a * LANCZOS_STEPS + k] = entry;
      l->T[k * LANCZOS_STEPS + a] = entry;
    }

    // The next vector; none is left where the space is used up, or all curvatures that a random vector meets are alike.
    done = k + 1;
    double whole = pbVec_Norm(next, n);
    orthogonalize(l, next, done);
    l->known = done == n || (whole > 0 && pbVec_Norm(next, n) <= alike * whole);
    if (l->known || !make_unit(next, n)) break;
  }

  if (done > 0) *curvature = least_curvature(l, done);
  return pb_ok;
}

// ---- values decide --------------------------------------------------------------------------------------------------------
static pbStatus value_at(Judge *j, double t, double *value) {
  for (int i = 0; i < j->n; i++) j->trial[i] = fmin(fmax(j->z[i] + t * j->d[i], j->task->lower[i]), j->task->upper[i]);
  return pbJudge_Value(j, j->trial, value);
}

// On from a fall at t, as long as the loss falls; the better side. What is lowest goes to the verdict.
static pbStatus descend(Judge *j, double t, double side, double value) {
  for (int k = 0; k < MOST_DOUBLINGS; k++) {
    double next;
    PB_TRY(value_at(j, 2 * side * t, &next));
    if (!(next < value)) break;

    // Further on.
    value = next;
    t *= 2;
  }

  // The other side may have been better.
  if (!(value < j->verdict->beside_value)) return pb_ok;

  PB_TRY(value_at(j, side * t, &value));
  memcpy(j->verdict->beside, j->trial, (size_t)j->n * sizeof(double));
  j->verdict->beside_value = value;

  return pb_ok;
}

// Along j->d to both sides, shortest move first, until two neighbours agree that the loss falls as a parabola does.
static pbStatus look_along(Judge *j, bool *found) {
  double most = largest_entry(j, j->d), t = first_size, curvature = 0, threshold = 1e3 * j->noise;
  *found = false;
  if (!(most > 0)) return pb_ok;

  // Lengths of moves are parts of the unknowns' sizes.
  for (int i = 0; i < j->n; i++) j->d[i] /= most;

  for (int k = 0; k < SIZES; k++) {
    double up, down, before = curvature;
    PB_TRY(value_at(j, t, &up));
    PB_TRY(value_at(j, -t, &down));
    curvature = (up - j->value + (down - j->value)) / (t * t);
    bool falls = j->value - up > threshold && j->value - down > threshold;

    // Up to one side or both: nothing to find further away, that would be another basin.
    if (!falls && fmax(up, down) - j->value > threshold) return pb_ok;
    if (falls && before > 2 * curvature && before < 0.5 * curvature) {
      *found = true;
      PB_TRY(descend(j, t, 1, up));
      return descend(j, t, -1, down);
    }

    // Below rounding yet.
    if (!falls) curvature = 0;
    t *= sqrt(10);
  }

  return pb_ok;
}

// Unknowns at a bound whose slopes vanish, too, may go inwards: to one side there is nothing to be seen. Together at first, then
// each by another part of its size.
static bool point_inwards(Look *l, int attempt) {
  Judge *j = l->j;
  bool any = false;

  for (int i = 0; i < j->n; i++) {
    double size = size_of(j, i), slope = fabs(j->g[i]) * size, part = attempt ? pbRng_Uniform(&l->rng) : 1;
    bool flat = !is_free(j, i) && slope <= 1e-6 * fmax(fabs(j->value), 1e3 * j->noise);
    double side = j->z[i] > j->task->lower[i] ? -1 : 1;
    j->d[i] = flat ? side * part * size : 0;
    any = any || j->d[i] != 0;
  }

  return any;
}

// Along j->d to its own side, shortest move first, until two neighbours agree that the loss falls as a parabola does.
static pbStatus look_inwards(Judge *j, bool *found) {
  double most = largest_entry(j, j->d), t = first_size, curvature = 0, threshold = 1e3 * j->noise;
  PB_ASSERT(most > 0);
  for (int i = 0; i < j->n; i++) j->d[i] /= most;

  for (int k = 0; k < SIZES; k++, t *= sqrt(10)) {
    double up, before = curvature;
    PB_TRY(value_at(j, t, &up));
    if (up - j->value > threshold) return pb_ok;
    curvature = j->value - up > threshold ? (up - j->value) / (t * t) : 0;
    *found = curvature < 0 && before > 2 * curvature && before < 0.5 * curvature;
    if (*found) return descend(j, t, 1, up);
  }

  return pb_ok;
}

// Along j->d to one side, shortest move first, until two neighbours agree that the loss falls as a parabola or a higher power.
static pbStatus look_to_side(Judge *j, double direction, bool *found) {
  double t = first_size, before = 0, threshold = 1e3 * j->noise;
  PB_ASSERT(direction == 1 || direction == -1);

  for (int k = 0; k < SIZES; k++, t *= sqrt(10)) {
    double value;
    PB_TRY(value_at(j, direction * t, &value));

    // Up: nothing to find further away.
    double fall = j->value - value;
    if (-fall > threshold) return pb_ok;

    // Tenfold by a parabola, more by what has no curvature.
    *found = fall > threshold && before > threshold && fall > 5 * before;
    if (*found) return descend(j, t, direction, value);
    before = fall;
  }

  return pb_ok;
}

// To one side or the other.
static pbStatus look_aside(Judge *j, bool *found) {
  double most = largest_entry(j, j->d);
  if (!(most > 0)) return pb_ok;

  // Lengths of moves are parts of the unknowns' sizes.
  for (int i = 0; i < j->n; i++) j->d[i] /= most;

  PB_TRY(look_to_side(j, 1, found));

  return *found ? pb_ok : look_to_side(j, -1, found);
}

// ---- the whole --------------------------------------------------------------------------------------------------------------
static pbStatus prepare(Look *l) {
  Judge *j = l->j;
  size_t n = (size_t)j->n;
  PB_TRY(pbJudge_Allocate(j, (size_t)(l->steps + 5) * n, &j->look));

  // One block.
  l->basis = j->look;
  l->v = l->basis + (size_t)(l->steps + 1) * n;
  l->up = l->v + n;
  l->down = l->up + n;
  l->length = l->down + n;

  // Eigenvectors of J'J anew: the verdict has written over them.
  if (!j->J) return pb_ok;
  pbJudge_Decompose(j, l->length);
  for (int e = 0; e < j->n; e++) l->most = fmax(l->most, j->D[e]);
  l->whitened = l->most > 0;

  return pb_ok;
}

// j->d at random, each unknown by its size; those at bounds stay.
static void draw_direction(Look *l) {
  draw(l, l->up);
  for (int i = 0; i < l->n; i++) l->j->d[i] = is_free(l->j, i) ? l->up[i] * size_of(l->j, i) : 0;
}

static pbStatus look(Look *l, bool *found) {
  Judge *j = l->j;
  double curvature;

  PB_TRY(iterate(l, &curvature));
  if (curvature < 0) PB_TRY(look_along(j, found));

  // Chance finds what differences of gradients hide.
  for (int k = 0; k < RANDOM_DIRECTIONS; k++) {
    if (*found || l->known) break;
    draw_direction(l);
    PB_TRY(look_along(j, found));
  }

  // Products of three factors that are zero have no curvature, and fall to one side.
  for (int k = 0; k < RANDOM_DIRECTIONS; k++) {
    if (*found || !j->together) break;
    draw_direction(l);
    PB_TRY(look_aside(j, found));
    if (*found) l->way = "to one side";
  }

  for (int k = 0; k < RANDOM_DIRECTIONS; k++) {
    if (*found || !point_inwards(l, k)) break;
    PB_TRY(look_inwards(j, found));
    if (*found) l->way = "inwards from bounds";
  }

  return pb_ok;
}

// The largest parts of the direction by name.
static void name_parts(Judge *j) {
  char text[400] = "", name[160];
  size_t used = 0;
  double largest = 0;
  for (int i = 0; i < j->n; i++) largest = fmax(largest, fabs(j->d[i]));

  // From half of the largest on: the others are in the result.
  for (int i = 0; i < j->n && used < sizeof text - 1; i++) {
    double part = j->d[i] / largest;
    if (fabs(part) < 0.5) continue;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%+.3g %s", used ? ", " : "", part,
                             pbJudge_NameOf(j, i, name, sizeof name));
  }

  pbJudge_Advise(j, "the loss falls along %s", text);
}

pbStatus pbJudge_FindSaddle(Judge *j, bool *found) {
  int n = j->n, steps = n < LANCZOS_STEPS ? n : LANCZOS_STEPS;
  Look l = {.j = j, .n = n, .steps = steps, .way = "to both sides", .rng = pbRng_Seed(0x5add1e)};
  *found = false;
  j->verdict->beside_value = INFINITY;

  PB_TRY(prepare(&l));
  PB_TRY(look(&l, found));

  // A fall that is not worth the name: a flat direction.
  double fall = j->value - j->verdict->beside_value;
  *found &= fall > worth * fabs(j->value);
  if (!*found) return pb_ok;

  // For the result.
  memcpy(j->verdict->direction, j->d, (size_t)j->n * sizeof(double));
  j->verdict->outcome = pb_runSaddle;
  pbJudge_Say(j, "the gradient is zero, but the loss falls %s along one direction, by %.3g where it is least", l.way, fall);
  name_parts(j);

  return pb_ok;
}
