// Solvers of s = M z + q, s, z >= 0, s_i z_i = 0 (interior.h): Mehrotra's predictor and corrector, Newton's method on the active
// set that polishes its end, and a homotopy where the first fails.
// Tests: tests/unit/test_lcp.c.
#include "lcp/interior.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

void pbInterior_Layout(pbArena *a, pbInterior *w, int m) {
  size_t M = (size_t)m;
  *w = (pbInterior){.m = m, .condition = 1};
  double **vectors[] = {&w->z, &w->s,  &w->zbest, &w->sbest, &w->r, &w->dz,      &w->ds,       &w->az,      &w->as,
                        &w->t, &w->zs, &w->ss,    &w->c,     &w->d, &w->cod.tau, &w->cod.tau2, &w->cod.norm};
  for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++) *vectors[k] = pbArena_Take(a, M, sizeof(double));
  double **matrices[] = {&w->K, &w->cod.T};
  for (size_t k = 0; k < sizeof matrices / sizeof *matrices; k++) *matrices[k] = pbArena_Take(a, M * M, sizeof(double));

  // The decomposition works on K, where the matrix is.
  w->cod.A = w->K;
  w->perm = pbArena_Take(a, M, sizeof(int));
  w->rows = pbArena_Take(a, M, sizeof(int));
  w->cod.perm = w->perm;
  w->active = pbArena_Take(a, M, sizeof(bool));
}

static const double APART = 1e3;       // a row of which s and z are that far apart is decided
static const double POLISH_MU = 1e-2;  // relative products s z below which a polish of the condensed form is tried,
static const double EXACT_MU = 1e-13;  // and below which nothing is left to gain

static double min(double a, double b) { return a < b ? a : b; }
static double max(double a, double b) { return a > b ? a : b; }

// out = M z, dense or condensed.
static void times(const pbInterior *w, const double *z, double *out) {
  if (w->condensed) pbCondensed_Mul(w->condensed, z, out);
  else pbDense_Mul(out, w->M, z, w->m, w->m);
}

// max |min(s, z)| with s as z makes it, relative; s is filled
static double residual(const pbInterior *w, const double *z, double *s) {
  double worst = 0;

  // A NaN counts as the worst.
  times(w, z, s);
  for (int i = 0; i < w->m; i++) {
    s[i] += w->q[i];
    double e = fabs(min(s[i], z[i]));
    if (!(e <= worst)) worst = e;
  }

  return worst;
}

// Keeps z where its residual is the least so far. True: it is a solution.
static bool keep_best(pbInterior *w, const double *z) {
  double e = residual(w, z, w->t);
  if (!(e < w->best)) return e <= w->tolerance;

  w->best = e;
  memcpy(w->zbest, z, sizeof *z * (size_t)w->m);
  memcpy(w->sbest, w->t, sizeof *z * (size_t)w->m);

  return e <= w->tolerance;
}

// Chooses the active rows, those with z > s; the others' z become zero. Returns how many there are.
static int choose_active(pbInterior *w, double *z, const double *s) {
  int k = 0;
  for (int i = 0; i < w->m; i++) {
    if (z[i] > s[i]) w->rows[k++] = i;
    else z[i] = 0;
  }

  return k;
}

// M z + q = 0 on the k active rows, from z: of the solutions of a singular system the one nearest to it. Two more rounds take the
// rounding out.
static void solve_active(pbInterior *w, int k, double *z) {
  int m = w->m;
  w->cod.n = k;
  for (int j = 0; j < k; j++) {
    for (int i = 0; i < k; i++)
      w->K[(size_t)j * (size_t)k + (size_t)i] = w->M[(size_t)w->rows[i] * (size_t)m + (size_t)w->rows[j]];
  }

  pbDenseCod_Factor(&w->cod, 1e-11);
  w->iterations++;
  for (int again = 0; again < 3; again++) {
    for (int a = 0; a < k; a++) w->r[a] = -w->q[w->rows[a]] - pbDense_Dot(w->M + (size_t)w->rows[a] * (size_t)m, z, m);
    pbDenseCod_Solve(&w->cod, w->r, w->t);
    for (int a = 0; a < k; a++) z[w->rows[a]] += w->r[a];
  }
}

// z, negative entries cut off, if it is the best so far. True: it is a solution.
static bool keep_positive_part(pbInterior *w, const double *z) {
  for (int i = 0; i < w->m; i++) w->dz[i] = max(z[i], 0);
  return keep_best(w, w->dz);
}

// Newton's method on min(s, z) = 0 from the iterate: rows with z > s active. Leaves the outcome in zbest if it is the best yet.
static bool polish_dense(pbInterior *w) {
  int m = w->m;
  double *z = w->zs, *s = w->ss, last = INFINITY;
  memcpy(z, w->z, sizeof *z * (size_t)m);
  memcpy(s, w->s, sizeof *s * (size_t)m);

  for (int round = 0; round < 5 && w->iterations < w->limit; round++) {
    int k = choose_active(w, z, s);
    if (k) solve_active(w, k, z);

    // Active sets may go round in circles.
    double e = residual(w, z, s);
    if (e <= 1e-6 && keep_positive_part(w, z)) return true;
    if (!(e < last) && round > 2) break;
    last = e;
  }

  return false;
}

// One round of the same in the condensed form, z and s at the iterate, active rows chosen: the regularized matrix is factored
// once and used until what it adds is gone, which also leads to a solution near the iterate where there are many. s is that of z.
static bool polish_round(pbInterior *w, double *z, double *s) {
  int m = w->m;
  double last = INFINITY;

  // Regularized, so that redundant rows have a pivot.
  for (int i = 0; i < m; i++) w->d[i] = PB_CONDENSED_DELTA;
  w->iterations++;
  if (!pbCondensed_Factor(w->condensed, w->d, w->active)) return false;

  for (int again = 0;; again++) {
    // s = M z + q, of which the active rows are to vanish.
    times(w, z, s);
    double rest = 0;
    for (int i = 0; i < m; i++) {
      s[i] += w->q[i];
      w->az[i] = w->active[i] ? -s[i] : 0;
      rest = max(rest, fabs(w->az[i]));
    }

    // At its end, or no longer getting less.
    if (again == 6 || rest <= .01 * w->tolerance || !(rest < .5 * last)) return isfinite(rest);

    last = rest;
    pbCondensed_Solve(w->condensed, w->az);
    for (int i = 0; i < m; i++) {
      if (w->active[i]) z[i] += w->az[i];
    }
  }
}

static bool polish_condensed(pbInterior *w) {
  int m = w->m;
  double *z = w->zs, *s = w->ss, last = INFINITY;

  memcpy(z, w->z, sizeof *z * (size_t)m);
  memcpy(s, w->s, sizeof *s * (size_t)m);

  // Active sets by the sign of z - s, as in polish_dense.
  for (int round = 0; round < 5 && w->iterations < w->limit; round++) {
    for (int i = 0; i < m; i++) {
      w->active[i] = z[i] > s[i];
      if (!w->active[i]) z[i] = 0;
    }

    if (!polish_round(w, z, s)) return false;
    double e = 0;
    for (int i = 0; i < m; i++) e = max(e, fabs(min(s[i], z[i])));

    if (e <= 1e-6 && keep_positive_part(w, z)) return true;

    if (!(e < last) && round > 1) return false;
    last = e;
  }

  return false;
}

static bool polish(pbInterior *w) { return w->condensed ? polish_condensed(w) : polish_dense(w); }

// K = M + s/z, factored. The diagonal is moved a little for the sake of redundant rows.
static bool factor(pbInterior *w) {
  int m = w->m;
  if (w->iterations >= w->limit) return false;
  w->iterations++;

  // The law z ds + s dz, divided by z.
  if (w->condensed) {
    for (int i = 0; i < m; i++) w->d[i] = w->s[i] / w->z[i] + 1e-13;
    return pbCondensed_Factor(w->condensed, w->d, NULL);
  }

  memcpy(w->K, w->M, sizeof *w->K * (size_t)m * (size_t)m);
  for (int i = 0; i < m; i++) w->K[(size_t)i * (size_t)(m + 1)] += w->s[i] / w->z[i] + 1e-13;
  return pbDense_Lu(w->K, w->perm, m);
}

// Newton's direction: ds = M dz + r, s dz + z ds = target. ds eliminated: (M + s/z) dz = target/z - r.
static void find_direction(const pbInterior *w, const double *r, const double *target, double *dz, double *ds) {
  int m = w->m;
  for (int i = 0; i < m; i++) dz[i] = target[i] / w->z[i] - r[i];

  // factor has been called at this point.
  if (w->condensed) pbCondensed_Solve(w->condensed, dz);
  else pbDense_LuSolve(w->K, w->perm, dz, m);
  for (int i = 0; i < m; i++) ds[i] = (target[i] - w->s[i] * dz[i]) / w->z[i];
}

// How far z and s may go until an entry is zero.
static double longest_step(const pbInterior *w, const double *dz, const double *ds) {
  double a = 1e300;
  for (int i = 0; i < w->m; i++) {
    if (dz[i] < 0) a = min(a, -w->z[i] / dz[i]);
    if (ds[i] < 0) a = min(a, -w->s[i] / ds[i]);
  }

  return a;
}

// r = M z + q - s
static double infeasibility(pbInterior *w) {
  times(w, w->z, w->r);
  for (int i = 0; i < w->m; i++) w->r[i] += w->q[i] - w->s[i];
  return pbDense_MaxAbs(w->r, w->m);
}

// Is it clear of each row whether it is active, z or s so much larger than the other that their product is as good as zero?
static bool rows_are_decided(const pbInterior *w) {
  for (int i = 0; i < w->m; i++) {
    if (w->z[i] < APART * w->s[i] && w->s[i] < APART * w->z[i]) return false;
  }

  return true;
}

// Has mu fallen tenfold since a polish was last tried?
static bool worth_polishing(double mu, double *retry) {
  if (mu > *retry) return false;
  *retry = .1 * mu;
  return true;
}

// Ends at the present point if that is possible; mu: the largest product s_i z_i, relative. A polish, one solve on the rows that
// are active here, is tried again when mu has fallen tenfold. Dense, it costs no more than a step;
// condensed, as much as some steps, which go on to the end if need be: only once every row is decided. True: w->zbest solves it.
static bool try_to_end(pbInterior *w, double mu, double *retry) {
  if (w->condensed && mu <= EXACT_MU && keep_best(w, w->z)) return true;
  if (w->condensed && (mu > POLISH_MU || !rows_are_decided(w))) return false;

  return worth_polishing(mu, retry) && polish(w);
}

// Starts from the solution of (M + d) z = -q, moved into the positive orthant (Mehrotra 1992, section 7).
static bool start_from_equations(pbInterior *w) {
  double d = .1, least = 0, dot = 0, sum_z = 0, sum_s = 0;
  int m = w->m;

  for (int i = 0; i < m; i++) {
    w->d[i] = d;
    w->z[i] = -w->q[i];
  }

  // Regularized by d, which s then stands for.
  w->iterations++;
  if (!pbCondensed_Factor(w->condensed, w->d, NULL)) return false;
  pbCondensed_Solve(w->condensed, w->z);

  for (int i = 0; i < m; i++) {
    w->s[i] = -d * w->z[i];
    least = min(least, min(w->z[i], w->s[i]));
  }

  // All entries positive, then at a distance from zero by the mean of the products.
  for (int i = 0; i < m; i++) {
    w->z[i] -= 1.5 * least;
    w->s[i] -= 1.5 * least;
    dot += w->z[i] * w->s[i];
    sum_z += w->z[i];
    sum_s += w->s[i];
  }

  for (int i = 0; i < m; i++) {
    w->z[i] += .5 * dot / sum_s;
    w->s[i] += .5 * dot / sum_z;
  }

  return true;
}

// sigma of the corrector, by what the predictor alone would leave of mu: its cube (Mehrotra).
static double choose_centering(const pbInterior *w, double mu, bool careful) {
  int m = w->m;
  double a = min(1, longest_step(w, w->az, w->as)), ahead = 0;
  for (int i = 0; i < m; i++) ahead += (w->z[i] + a * w->az[i]) * (w->s[i] + a * w->as[i]);

  double ratio = ahead / m / mu, sigma = min(1, max(ratio * ratio * ratio, w->condensed ? 1e-9 : 1e-6));
  return careful ? max(sigma, .5) : sigma;
}

// One step of predictor and corrector; mu: the mean of the products. After short steps towards the center, without the second
// order. False where no step gets on.
static bool step_mehrotra(pbInterior *w, double mu, int *short_steps) {
  int m = w->m;
  for (int i = 0; i < m; i++) w->t[i] = -w->z[i] * w->s[i];
  find_direction(w, w->r, w->t, w->az, w->as);

  double sigma = choose_centering(w, mu, *short_steps > 0);
  for (int i = 0; i < m; i++) w->t[i] = sigma * mu - w->z[i] * w->s[i] - (*short_steps ? 0 : w->az[i] * w->as[i]);
  find_direction(w, w->r, w->t, w->dz, w->ds);

  double a = min(1, max(.995, 1 - mu) * longest_step(w, w->dz, w->ds));
  *short_steps = a < .05 ? *short_steps + 1 : 0;
  if (!(a > 1e-9) || *short_steps > 8) return false;
  pbDense_Add(w->z, a, w->dz, m);
  pbDense_Add(w->s, a, w->ds, m);

  return true;
}

// Predictor and corrector (Mehrotra 1992), from s = z = start or, with 0, from the equations; with one length for both, as M is
// not monotone.
static bool solve_mehrotra(pbInterior *w, double start) {
  enum { most_steps = 60 };
  int m = w->m, short_steps = 0;
  double next = w->condensed ? 1 : 1e-5;
  PB_ASSERT(start > 0 || w->condensed);

  if (start == 0 && !start_from_equations(w)) return false;
  if (start > 0) {
    for (int i = 0; i < m; i++) {
      w->s[i] = start;
      w->z[i] = start;
    }
  }

  for (int it = 0; it < most_steps; it++) {
    double r = infeasibility(w), mu = pbDense_Dot(w->z, w->s, m) / m, size = max(1, pbDense_MaxAbs(w->z, m));
    if (!isfinite(mu) || !isfinite(r)) return false;
    if (try_to_end(w, max(r, mu) / size, &next)) return true;

    // At the end of double precision, not at a solution.
    bool exhausted = w->condensed ? mu <= 1e-26 * size : max(r, mu) <= 1e-15 * size;
    if (exhausted || !factor(w)) return false;
    if (!step_mehrotra(w, mu, &short_steps)) return false;
  }

  return false;
}

// How far the trial is from the path: max |s z / (mu c) - 1|, infinite outside
static double off_path(const pbInterior *w, double mu) {
  double worst = 0;

  // Relative to each row's own product on the path.
  for (int i = 0; i < w->m; i++) {
    if (!(w->zs[i] > 0) || !(w->ss[i] > 0)) return INFINITY;
    worst = max(worst, fabs(w->ss[i] * w->zs[i] / (mu * w->c[i]) - 1));
  }

  return isfinite(mu) && mu > 0 ? worst : INFINITY;
}

// Point on the path with z the same everywhere, at mu = 1: sets d and c.
static void path_start(pbInterior *w, double z) {
  int m = w->m;
  double least = INFINITY;

  for (int i = 0; i < m; i++) w->z[i] = z;
  pbDense_Mul(w->s, w->M, w->z, m, m);

  // d lifts s to one at least.
  for (int i = 0; i < m; i++) {
    w->s[i] += w->q[i];
    least = min(least, w->s[i]);
  }

  for (int i = 0; i < m; i++) {
    w->d[i] = max(1, 1 - least);
    w->s[i] += w->d[i];
    w->c[i] = w->s[i] * z;
  }
}

// Tangent and correction at a point of the path, for path_step: az, as per unit of mu, and dz, ds back to the path at this mu.
// Relative lengths: *length of the tangent squared, *along: the correction's part along it, *speed: its largest entry.
static void path_directions(pbInterior *w, double mu, double *length, double *along, double *speed) {
  int m = w->m;
  find_direction(w, w->d, w->c, w->az, w->as);  // for dmu = 1
  memset(w->r, 0, sizeof *w->r * (size_t)m);
  for (int i = 0; i < m; i++) w->t[i] = mu * w->c[i] - w->s[i] * w->z[i];
  find_direction(w, w->r, w->t, w->dz, w->ds);

  *length = 1 / (mu * mu);
  *along = 0;
  *speed = 1 / mu;
  for (int i = 0; i < m; i++) {
    double az = w->az[i] / w->z[i], as = w->as[i] / w->s[i];
    *length += az * az + as * as;
    *along += az * w->dz[i] / w->z[i] + as * w->ds[i] / w->s[i];
    *speed = max(*speed, max(fabs(az), fabs(as)));
  }
}

// The trial is taken. s from its equation where that keeps it, lest rounding adds up.
static void accept_trial(pbInterior *w, double mu) {
  int m = w->m;
  memcpy(w->z, w->zs, sizeof *w->z * (size_t)m);
  pbDense_Mul(w->t, w->M, w->z, m, m);
  for (int i = 0; i < m; i++) {
    double s = w->t[i] + w->q[i] + mu * w->d[i];
    w->s[i] = fabs(s - w->ss[i]) < 1e-3 * w->ss[i] ? s : w->ss[i];
  }
}

// One predictor-corrector step along the path: the tangent, of relative speed 1, times at most *h, and orthogonally to it (in
// relative lengths) Newton's step back to the path. sense: +-1, the direction in mu. False where no step stays near the path.
static bool path_step(pbInterior *w, double sense, double *mu, double *h) {
  enum { most_tries = 40 };
  int m = w->m;
  double length, along, speed;
  PB_ASSERT(*mu > 0 && *h > 0);
  path_directions(w, *mu, &length, &along, &speed);

  *h = min(1, 2 * *h);
  for (int tries = 0; tries < most_tries; tries++, *h *= .5) {
    double dmu = *h * sense / speed - along / length;
    for (int i = 0; i < m; i++) {
      w->zs[i] = w->z[i] + w->dz[i] + dmu * w->az[i];
      w->ss[i] = w->s[i] + w->ds[i] + dmu * w->as[i];
    }

    // Too far off: half the step.
    if (!(off_path(w, *mu + dmu) < .4)) continue;
    *mu += dmu;
    accept_trial(w, *mu);
    return true;
  }

  return false;
}

// s = M z + q + mu d, s_i z_i = mu c_i, followed from mu = 1 to 0 by arc length: mu may rise in between. The orientation of
// the path is the sign of a determinant, so a step that lands on it further along cannot turn round. With M copositive and d
// positive the path leads to a solution under the conditions of Lemke's method (Cottle, Pang & Stone 1992, section 4.4), whose
// corners it rounds off; degenerate pivots do not concern it.
static bool follow_path(pbInterior *w, double z) {
  path_start(w, z);
  double size = pbDense_MaxAbs(w->c, w->m), mu = 1, h = .1, first = 0, next = 1e-5;
  for (int it = 0; it < 500; it++) {
    if (worth_polishing(mu * size, &next) && polish(w)) return true;

    // Converged elsewhere, or on a ray to infinity: no solution here.
    if (mu * size < 1e-16 || pbDense_MaxAbs(w->z, w->m) > 1e9 || !factor(w)) return false;

    // Its change says that the path has turned back in mu.
    double sign = pbDense_LuSign(w->K, w->perm, w->m);
    if (!it) first = sign;
    if (!path_step(w, -sign * first, &mu, &h)) return false;
  }

  return false;
}

// Condition of the last matrix of the interior point method, rows scaled.
static double condition(pbInterior *w) {
  w->limit = w->iterations + 1;
  for (int i = 0; i < w->m; i++) {
    if (!(w->z[i] > 0) || !(w->s[i] > 0)) return INFINITY;
  }
  if (!factor(w)) return INFINITY;

  // Without the little that factor added to the diagonal.
  double inverse = pbDense_LuInverseNorm(w->K, w->perm, w->r, w->t, w->m);
  memcpy(w->K, w->M, sizeof *w->K * (size_t)w->m * (size_t)w->m);
  for (int i = 0; i < w->m; i++) w->K[(size_t)i * (size_t)(w->m + 1)] += w->s[i] / w->z[i];

  return inverse * pbDense_Norm1(w->K, w->m);
}

bool pbInterior_Solve(pbInterior *w, pbLcpMethod *method) {
  // Zero may be a solution already.
  w->best = INFINITY;

  w->cod.condition = 1;
  memset(w->z, 0, sizeof *w->z * (size_t)w->m);
  *method = pb_lcpInterior;
  if (keep_best(w, w->z)) return true;

  // From several starts; then along the path, which needs the matrix.
  bool found = solve_mehrotra(w, w->condensed ? 0 : 1) || solve_mehrotra(w, 10) || solve_mehrotra(w, .1);
  static const double starts[] = {1, .1, 10};
  if (!w->condensed) {
    for (int k = 0; k < 3 && !found; k++) {
      *method = pb_lcpPath;
      found = follow_path(w, starts[k]);
    }
  }

  if (w->condensed) w->condition = pbCondensed_Condition(w->condensed, w->r, w->t);
  else w->condition = found ? w->cod.condition : condition(w);
  return found;
}
