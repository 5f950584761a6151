// Contacts with Coulomb's cone along a central path. With b = (mu z_n, z_t) and (psi, s_t) both within the cone {|t| <= b_0}:
//
//   z_n s_n = t c,   mu z_n psi + z_t s_t = t e,   mu z_n s_t + psi z_t = 0,   s = W z + q + t d
//
// is the law at t = 0 (psi = |s_t| where there is slip), smooth before (Howell et al. 2022). Followed from t = 1 by arc length as
// in interior.c. Contacts without friction have z_t = 0 instead.
// Tests: tests/unit/test_lcp_cones.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "lcp/cones.h"

typedef struct Path {
  int contacts, m;
  const double *mu, *M, *q;
  double *z, *s, *psi;   // point: 3 c, 3 c, c
  double *tz, *ts, *tp;  // tangent for dt = 1
  double *cz, *cs, *cp;  // correction at dt = 0
  double *nz, *ns, *np;  // trial
  double *d, *c;         // 3 c, c
  double t, e;
} Path;

static double dot2(const double *a, const double *b) { return a[1] * b[1] + a[2] * b[2]; }

// Misfits of a contact's three laws
static void misfit(const Path *p, int i, const double *z, const double *s, double psi, double t, double out[4]) {
  // In the order of the laws above.
  out[0] = z[0] * s[0] - t * p->c[i];
  out[1] = p->mu[i] * z[0] * psi + dot2(z, s) - t * p->e;
  for (int k = 1; k < 3; k++) out[1 + k] = p->mu[i] * z[0] * s[k] + psi * z[k];
}

// How far the trial is from the path, relative; infinite outside the cones
static double off_path(const Path *p, double t) {
  double worst = 0;
  if (!(t > 0) || !isfinite(t)) return INFINITY;
  for (int i = 0; i < p->contacts; i++) {
    const double *z = p->nz + 3 * i, *s = p->ns + 3 * i;
    double f[4];

    misfit(p, i, z, s, p->np[i], t, f);

    // Within the cones, and each law by its size on the path.
    if (!(z[0] > 0) || !(s[0] > 0)) return INFINITY;
    worst = fmax(worst, fabs(f[0]) / (t * p->c[i]));
    if (p->mu[i] == 0) continue;
    if (!(p->np[i] > pbHypot(s[1], s[2])) || !(p->mu[i] * z[0] > pbHypot(z[1], z[2]))) return INFINITY;
    worst = fmax(worst, (fabs(f[1]) + pbHypot(f[2], f[3])) / (t * p->e));
  }

  return worst;
}

// The laws linearized, psi eliminated: by_z dz + by_s ds = value
typedef struct Rows {
  double by_z[3][3], by_s[3][3];
} Rows;

static Rows rows_of(const Path *p, int i) {
  const double *z = p->z + 3 * i, *s = p->s + 3 * i;
  double mu = p->mu[i], b = mu * z[0], psi = p->psi[i];
  Rows r = {0};

  r.by_z[0][0] = s[0];
  r.by_s[0][0] = z[0];

  // psi from its own law: dpsi = -(psi dz_n / z_n + z_t ds_t / b + s_t dz_t / b).
  for (int k = 1; k < 3; k++) {
    r.by_z[k][k] = mu > 0 ? psi : 1;
    if (mu == 0) continue;
    r.by_s[k][k] = b;
    r.by_z[k][0] = mu * s[k] - z[k] * psi / z[0];

    for (int j = 1; j < 3; j++) {
      r.by_z[k][j] -= z[k] * s[j] / b;
      r.by_s[k][j] -= z[k] * z[j] / b;
    }
  }

  return r;
}

static bool factor(pbInterior *in, const Path *p) {
  int m = p->m;
  if (in->iterations >= in->limit) return false;
  in->iterations++;

  for (int i = 0; i < p->contacts; i++) {
    // by_z + by_s W, three rows a contact.
    Rows r = rows_of(p, i);
    for (int k = 0; k < 3; k++) {
      double *row = in->K + (size_t)(3 * i + k) * (size_t)m;
      memset(row, 0, sizeof *row * (size_t)m);
      for (int j = 0; j < 3; j++) {
        if (r.by_s[k][j] != 0) pbDense_Add(row, r.by_s[k][j], p->M + (size_t)(3 * i + j) * (size_t)m, m);
      }
      for (int j = 0; j < 3; j++) row[3 * i + j] += r.by_z[k][j];
    }
  }

  return pbDense_Lu(in->K, in->perm, m);
}

// dz, ds, dpsi that change t by `dt` to first order and take away `share` of the misfit.
static void find_direction(const pbInterior *in, const Path *p, double dt, double share, double *dz, double *ds, double *dpsi) {
  int m = p->m;
  for (int i = 0; i < p->contacts; i++) {
    const double *z = p->z + 3 * i, *s = p->s + 3 * i;
    double f[4], mu = p->mu[i], *out = dz + 3 * i;

    misfit(p, i, z, s, p->psi[i], p->t, f);
    Rows r = rows_of(p, i);

    // The law of psi, put into the tangential ones.
    double second = dt * p->e - share * f[1];
    out[0] = dt * p->c[i] - share * f[0];
    for (int k = 1; k < 3; k++) out[k] = mu > 0 ? -share * f[1 + k] - z[k] * second / (mu * z[0]) : -share * z[k];
    for (int k = 0; k < 3; k++) {
      for (int j = 0; j < 3; j++) out[k] -= r.by_s[k][j] * dt * p->d[3 * i + j];
    }
  }

  // dz; ds by W; dpsi by its law.
  pbDense_LuSolve(in->K, in->perm, dz, m);
  pbDense_Mul(ds, p->M, dz, m, m);
  for (int i = 0; i < m; i++) ds[i] += dt * p->d[i];

  for (int i = 0; i < p->contacts; i++) {
    const double *z = p->z + 3 * i, *s = p->s + 3 * i;
    double f[4], mu = p->mu[i];

    misfit(p, i, z, s, p->psi[i], p->t, f);
    dpsi[i] = 0;
    if (mu == 0) continue;
    double tangential = dot2(z, ds + 3 * i);
    dpsi[i] = (dt * p->e - share * f[1] - mu * p->psi[i] * dz[3 * i] - tangential - dot2(s, dz + 3 * i)) / (mu * z[0]);
  }
}

// Product of two directions in relative lengths
static double product(const Path *p, const double *az, const double *as, const double *ap, const double *bz, const double *bs,
                      const double *bp) {
  double sum = 0;
  for (int i = 0; i < p->contacts; i++) {
    const double *z = p->z + 3 * i, *s = p->s + 3 * i;

    // Tangential parts by the radius of their cones.
    double b = p->mu[i] * z[0], psi = p->psi[i];

    sum += az[3 * i] * bz[3 * i] / (z[0] * z[0]) + as[3 * i] * bs[3 * i] / (s[0] * s[0]);
    if (b > 0) sum += dot2(az + 3 * i, bz + 3 * i) / (b * b) + (dot2(as + 3 * i, bs + 3 * i) + ap[i] * bp[i]) / (psi * psi);
  }

  return sum;
}

// The largest relative change by the tangent.
static double relative_speed(const Path *p) {
  double most = 1 / p->t;
  for (int i = 0; i < p->contacts; i++) {
    const double *dz = p->tz + 3 * i, *ds = p->ts + 3 * i;
    double z = p->z[3 * i], s = p->s[3 * i], b = p->mu[i] * z, psi = p->psi[i];

    most = fmax(most, fmax(fabs(dz[0]) / z, fabs(ds[0]) / s));
    if (b > 0) most = fmax(most, fmax(pbHypot(dz[1], dz[2]) / b, fmax(pbHypot(ds[1], ds[2]), fabs(p->tp[i])) / psi));
  }

  return most;
}

static void accept_trial(Path *p, double dt) {
  p->t += dt;
  memcpy(p->z, p->nz, sizeof *p->z * (size_t)p->m);
  memcpy(p->s, p->ns, sizeof *p->s * (size_t)p->m);
  memcpy(p->psi, p->np, sizeof *p->psi * (size_t)p->contacts);
}

// One predictor-corrector step, as path_step of interior.c. sense: +-1, the direction in t.
static bool path_step(pbInterior *in, Path *p, double sense, double *h) {
  enum { most_tries = 40 };
  int m = p->m;
  PB_ASSERT(p->t > 0 && *h > 0);
  find_direction(in, p, 1, 0, p->tz, p->ts, p->tp);
  find_direction(in, p, 0, 1, p->cz, p->cs, p->cp);

  // The correction orthogonal to the tangent, in relative lengths.
  double length = 1 / (p->t * p->t) + product(p, p->tz, p->ts, p->tp, p->tz, p->ts, p->tp);
  double along = product(p, p->tz, p->ts, p->tp, p->cz, p->cs, p->cp), pace = relative_speed(p);
  *h = fmin(1, 2 * *h);

  for (int tries = 0; tries < most_tries; tries++, *h *= .5) {
    double dt = *h * sense / pace - along / length;
    for (int i = 0; i < m; i++) {
      p->nz[i] = p->z[i] + p->cz[i] + dt * p->tz[i];
      p->ns[i] = p->s[i] + p->cs[i] + dt * p->ts[i];
    }

    for (int i = 0; i < p->contacts; i++) p->np[i] = p->psi[i] + p->cp[i] + dt * p->tp[i];

    // Too far off: half the step.
    if (!(off_path(p, p->t + dt) < .4)) continue;
    accept_trial(p, dt);
    return true;
  }

  return false;
}

// z_n = z everywhere, no friction and no slip; d makes up for it, its normal part larger than its tangential one.
static void start_path(Path *p, double z) {
  PB_ASSERT(z > 0);
  p->t = 1;
  p->e = 0;
  memset(p->z, 0, sizeof *p->z * (size_t)p->m);
  for (int i = 0; i < p->contacts; i++) p->z[3 * i] = z;
  pbDense_Mul(p->s, p->M, p->z, p->m, p->m);

  double most = 1;
  for (int i = 0; i < p->m; i++) {
    p->s[i] += p->q[i];
    most = fmax(most, fabs(p->s[i]));
  }

  // On the path by the choice of d, c and e.
  for (int i = 0; i < p->contacts; i++) {
    double *s = p->s + 3 * i, *d = p->d + 3 * i;
    d[0] = 3 * most * (1 + p->mu[i]);
    d[1] = -s[1];
    d[2] = -s[2];
    s[0] += d[0];
    s[1] = 0;
    s[2] = 0;
    p->psi[i] = p->mu[i] > 0 ? z / p->mu[i] : 1;
    p->c[i] = z * s[0];
    p->e = z * z;  // mu z psi
  }
}

// In the working memory of the interior point method, which does not run meanwhile: its vectors have six numbers a contact, where
// these have three or one.
static Path borrow_path(const pbConesWork *w, const double *mu) {
  const pbInterior *in = &w->base.interior;
  int m = w->base.reduced.m;
  return (Path){.contacts = m / 3,
                .m = m,
                .mu = mu,
                .M = w->base.reduced.M,
                .q = w->base.reduced.q,
                // the point
                .z = in->z,
                .s = in->s,
                .psi = in->c,
                // its tangent and correction
                .tz = in->az,
                .ts = in->az + m,
                .tp = in->as,
                .cz = in->dz,
                .cs = in->dz + m,
                .cp = in->ds,
                // a trial, and the path's constants
                .nz = in->zs,
                .ns = in->zs + m,
                .np = in->ss,
                .d = in->d,
                .c = in->r};
}

bool pbCones_Follow(pbConesWork *w, const double *mu, double z, pbConesTry *try, void *user) {
  enum { most_steps = 500 };
  static const double first_length = .1, first_try = 1e-4;  // of the arc; of t, at which a solution is first looked for
  static const double end_of_path = 1e-15,
                      far_away = 1e9;  // t below which nothing is left to follow; forces of a ray to infinity
  pbInterior *in = &w->base.interior;
  int m = w->base.reduced.m;
  double length = first_length, try_below = first_try, first_sign = 0;

  Path p = borrow_path(w, mu);
  start_path(&p, z);
  for (int step = 0; step < most_steps; step++) {
    // Newton's method is tried each time that t is ten times smaller.
    if (p.t < try_below) {
      try_below = .1 * p.t;
      memcpy(w->z, p.z, sizeof *p.z * (size_t)m);
      if (try(w, user)) return true;
    }

    // Converged elsewhere, or on a ray to infinity.
    if (p.t < end_of_path || pbDense_MaxAbs(p.z, m) > far_away || !factor(in, &p)) return false;

    // The sign of the determinant is the orientation of the path: where it changes, t turns.
    double sign = pbDense_LuSign(in->K, in->perm, m);
    if (step == 0) first_sign = sign;
    if (!path_step(in, &p, -sign * first_sign, &length)) return false;
  }

  return false;
}
