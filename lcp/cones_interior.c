// Contacts with Coulomb's cone by an interior point method, condensed to the unknowns. With b = mu z_n the law is
//
//   z_n s_n = t,   psi g = t,   b s_t + psi z_t = 0,   g = b - |z_t|^2 / b,   all of z_n, s_n, psi, g positive,
//
// at t = 0 (there psi = |s_t|, and g is the cone's room): the path of cones_path.c, but with g a variable of its own, which
// keeps its digits as it goes to zero. Newton's method with predictor and corrector (Mehrotra 1992). Contacts without friction
// have z_t = 0 instead.
// Tests: tests/unit/test_lcp_cones.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "lcp/cones.h"

static const double ROOM = 1e-8;  // fraction of a cone's radius
static const double APART = 1e3;  // numbers of which a product vanishes and that are that far apart are decided

static double min(double a, double b) { return a < b ? a : b; }
static double max(double a, double b) { return a > b ? a : b; }
static double dot2(const double *a, const double *b) { return a[1] * b[1] + a[2] * b[2]; }

typedef struct Point {
  double *z, *s, *psi, *g;  // 3 c, 3 c, c, c
} Point;
typedef struct Iterate {
  pbConesWork *w;
  pbCondensed *c;
  const double *mu, *q;
  int contacts, m;
  Point at, ahead, step;  // iterate, predictor, step
  double *r;              // M z + q - s
} Iterate;

// The misfit of g to its equation.
static double room_left(const Iterate *p, int i) {
  const double *z = p->at.z + 3 * i;
  double b = p->mu[i] * z[0];

  return b - dot2(z, z) / b - p->at.g[i];
}

// While there is room enough in the cone, g is what its equation says. False where a contact is left without room.
static bool follow_room(Iterate *p) {
  for (int i = 0; i < p->contacts; i++) {
    if (p->mu[i] == 0) continue;

    // Near the mantle g keeps what the steps give it; a step from farther inside has minded the cone, not g.
    double left = room_left(p, i);
    if (p->at.g[i] + left > ROOM * p->mu[i] * p->at.z[3 * i] || p->at.g[i] <= 0) p->at.g[i] += left;
    if (!(p->at.g[i] > 0)) return false;
  }
  return true;
}

// The laws' derivatives, psi and g eliminated.
static void linearize(const Iterate *p, int i, double by_s[3][3], double by_z[3][3]) {
  PB_ASSERT(p->at.g[i] > 0 || p->mu[i] == 0);
  const double *z = p->at.z + 3 * i, *s = p->at.s + 3 * i;
  double mu = p->mu[i], b = mu * z[0], psi = p->at.psi[i], steep = psi / p->at.g[i];

  memset(by_s, 0, 9 * sizeof(double));
  memset(by_z, 0, 9 * sizeof(double));
  by_z[0][0] = s[0];
  by_s[0][0] = z[0];

  // Without friction the tangential law is z_t = 0.
  for (int k = 1; k < 3; k++) {
    by_z[k][k] = mu > 0 ? psi : 1;
    if (mu == 0) continue;
    by_s[k][k] = b;
    by_z[k][0] = mu * (s[k] - z[k] * steep * (1 + dot2(z, z) / (b * b)));
    for (int j = 1; j < 3; j++) by_z[k][j] += 2 * steep * z[k] * z[j] / b;
  }
}

static bool factor(Iterate *p) {
  pbInterior *in = &p->w->base.interior;
  if (in->iterations >= in->limit) return false;
  in->iterations++;
  for (int i = 0; i < p->contacts; i++) linearize(p, i, p->w->by_s[i], p->w->by_z[i]);

  return pbCondensed_FactorLaws(p->c, p->w->by_s, p->w->by_z, 1e-13);
}

// Right-hand side of a contact's laws at t, which stands in to->z until find_direction solves for dz. Each law f(z, s, psi, g)
// = 0 is asked to hold after the step: its linear part is minus its misfit here, less, with `second`, its second-order part along
// the predictor (Mehrotra's corrector). ds = M dz + r, dpsi and dg are eliminated; the parts of the last two that do not depend
// on the others are left in to->psi and to->g, which find_direction completes:
//   dg = room_left - |dz_t - z_t db / b|^2 / b + (terms in dz),   dpsi = (t - psi g - dpsi dg) / g - psi / g dg.
static void contact_target(const Iterate *p, int i, double t, bool second, const Point *to) {
  const double *z = p->at.z + 3 * i, *s = p->at.s + 3 * i;
  const double *z_ahead = p->ahead.z + 3 * i, *s_ahead = p->ahead.s + 3 * i;
  double *target = to->z + 3 * i;

  // normal: z_n s_n = t
  target[0] = t - z[0] * s[0] - (second ? z_ahead[0] * s_ahead[0] : 0);

  // tangential: without friction z_t = 0, else b s_t + psi z_t = 0
  double mu = p->mu[i], b = mu * z[0], b_ahead = mu * z_ahead[0], psi = p->at.psi[i], g = p->at.g[i];
  if (mu == 0) {
    for (int k = 1; k < 3; k++) target[k] = -z[k];
  } else {
    double curved[2] = {z_ahead[1] - z[1] * b_ahead / b, z_ahead[2] - z[2] * b_ahead / b};
    to->g[i] = room_left(p, i) - (second ? (curved[0] * curved[0] + curved[1] * curved[1]) / b : 0);
    to->psi[i] = (t - psi * g - (second ? p->ahead.psi[i] * p->ahead.g[i] : 0)) / g;
    for (int k = 1; k < 3; k++) {
      double second_order = second ? b_ahead * s_ahead[k] + p->ahead.psi[i] * z_ahead[k] : 0;
      target[k] = -b * s[k] - psi * z[k] - second_order - z[k] * (to->psi[i] - psi / g * to->g[i]);
    }
  }

  // ds = M dz + r: what r contributes
  for (int k = 0; k < 3; k++) target[k] -= p->w->by_s[i][k][k] * p->r[3 * i + k];
}

// Step towards t, with the second order of the predictor or without.
static void find_direction(Iterate *p, double t, bool second, Point to) {
  for (int i = 0; i < p->contacts; i++) contact_target(p, i, t, second, &to);

  // Condensed: dz, then ds = M dz + r.
  pbCondensed_Solve(p->c, to.z);
  pbCondensed_Mul(p->c, to.z, to.s);
  for (int i = 0; i < p->m; i++) to.s[i] += p->r[i];

  // Back substitution: s_n by its law, so that it keeps its digits; g, then psi.
  for (int i = 0; i < p->contacts; i++) {
    const double *z = p->at.z + 3 * i, *dz = to.z + 3 * i;
    double mu = p->mu[i], b = mu * z[0], second_order = second ? p->ahead.z[3 * i] * p->ahead.s[3 * i] : 0;

    to.s[3 * i] = (t - second_order - p->at.s[3 * i] * dz[0]) / z[0] - p->at.s[3 * i];
    if (mu == 0) continue;
    to.g[i] += (1 + dot2(z, z) / (b * b)) * mu * dz[0] - 2 * dot2(z, dz) / b;
    to.psi[i] -= p->at.psi[i] / p->at.g[i] * to.g[i];
  }
}

// How far (b, z_t) may go along (db, dz_t) within |z_t| <= b
static double within(double b, const double *v, double db, const double *dv) {
  // A a^2 + 2 B a + C = 0 where the cone is left.
  double A = db * db - dot2(dv, dv), B = b * db - dot2(v, dv), C = b * b - dot2(v, v), root = B * B - A * C;
  if (root < 0 || (A >= 0 && B >= 0)) return 1e300;
  double far = C / (-B + sqrt(root));  // the smaller positive root of A a^2 + 2 B a + C

  return far > 0 ? far : 1e300;
}

static double longest_step(const Iterate *p, Point d) {
  double a = 1e300;
  for (int i = 0; i < p->contacts; i++) {
    if (d.z[3 * i] < 0) a = min(a, -p->at.z[3 * i] / d.z[3 * i]);
    if (d.s[3 * i] < 0) a = min(a, -p->at.s[3 * i] / d.s[3 * i]);
    if (p->mu[i] == 0) continue;
    if (d.psi[i] < 0) a = min(a, -p->at.psi[i] / d.psi[i]);

    // Where there is room, by the cone itself; else by g.
    double b = p->mu[i] * p->at.z[3 * i];
    if (p->at.g[i] > ROOM * b) a = min(a, within(b, p->at.z + 3 * i, p->mu[i] * d.z[3 * i], d.z + 3 * i));
    else if (d.g[i] < 0) a = min(a, -p->at.g[i] / d.g[i]);
  }

  return a;
}

// Mean of the products, a of the predictor's step ahead
static double mean_product(const Iterate *p, double a) {
  double sum = 0;
  int count = p->contacts;

  for (int i = 0; i < p->contacts; i++) {
    sum += (p->at.z[3 * i] + a * p->ahead.z[3 * i]) * (p->at.s[3 * i] + a * p->ahead.s[3 * i]);
    if (p->mu[i] == 0) continue;

    // Contacts without friction have no second product.
    sum += (p->at.psi[i] + a * p->ahead.psi[i]) * (p->at.g[i] + a * p->ahead.g[i]);
    count++;
  }

  return sum / count;
}

// Is every contact clearly open or closed, and sliding or sticking? Before, Newton's method does not know which it is.
static bool decided(const Iterate *p) {
  for (int i = 0; i < p->contacts; i++) {
    double z = p->at.z[3 * i], s = p->at.s[3 * i], psi = p->at.psi[i], g = p->at.g[i];
    if (z < APART * s && s < APART * z) return false;
    if (p->mu[i] > 0 && z > s && psi < APART * g && g < APART * psi) return false;
  }

  return true;
}

static Point point_of(double *zpg, double *s, int contacts) {
  return (Point){.z = zpg, .s = s, .psi = zpg + 3 * contacts, .g = zpg + 4 * contacts};
}

static void begin_iterate(Iterate *p, double start) {
  pbInterior *in = &p->w->base.interior;
  int all = 5 * p->contacts;
  p->at = point_of(in->z, in->s, p->contacts);
  p->ahead = point_of(in->az, in->as, p->contacts);
  p->step = point_of(in->dz, in->ds, p->contacts);

  // Two arrays a vector: z, psi and g follow one another.
  double *every[] = {in->z, in->s, in->az, in->as, in->dz, in->ds};
  for (int k = 0; k < 6; k++) memset(every[k], 0, sizeof(double) * (size_t)all);

  // z_n = s_n = start, no friction: in the middle of the cone.
  for (int i = 0; i < p->contacts; i++) {
    p->at.s[3 * i] = start;
    p->at.z[3 * i] = start;
    p->at.g[i] = p->mu[i] * start;
    p->at.psi[i] = p->mu[i] > 0 ? start / p->mu[i] : 1;
  }
}

// One step of predictor and corrector; t: the mean of the products. False where no step gets on.
static bool step_mehrotra(Iterate *p, double t, int *short_steps) {
  pbInterior *in = &p->w->base.interior;
  int all = 5 * p->contacts;
  memset(p->ahead.z, 0, sizeof(double) * (size_t)all);
  find_direction(p, 0, false, p->ahead);

  // Centering by what the predictor alone would leave.
  double a = min(1, longest_step(p, p->ahead)), ratio = mean_product(p, a) / t;
  double sigma = min(1, max(ratio * ratio * ratio, 1e-9));
  if (*short_steps) sigma = max(sigma, .5);
  find_direction(p, sigma * t, !*short_steps, p->step);

  a = min(1, max(.99, 1 - t) * longest_step(p, p->step));
  *short_steps = a < .05 ? *short_steps + 1 : 0;
  if (!(a > 1e-9) || *short_steps > 8) return false;
  pbDense_Add(in->z, a, in->dz, all);
  pbDense_Add(in->s, a, in->ds, p->m);

  return follow_room(p);
}

bool pbCones_Interior(pbConesWork *w, const double *mu, double start, pbConesTry *try, void *user) {
  enum { most_steps = 60 };
  pbInterior *in = &w->base.interior;
  int m = w->base.reduced.m, contacts = m / 3, short_steps = 0;
  double next = 1e-2;
  PB_ASSERT(start > 0 && m % 3 == 0);
  Iterate p = {.w = w, .c = in->condensed, .mu = mu, .q = w->base.reduced.q, .contacts = contacts, .m = m, .r = in->r};
  begin_iterate(&p, start);

  for (int it = 0; it < most_steps; it++) {
    // What s lacks to its equation.
    pbCondensed_Mul(p.c, p.at.z, p.r);
    for (int i = 0; i < m; i++) p.r[i] += p.q[i] - p.at.s[i];
    double t = mean_product(&p, 0), size = max(1, pbDense_MaxAbs(p.at.z, m)), level = t / size;
    if (!isfinite(level)) return false;

    // Every contact decided: Newton's method may finish it.
    if (level < next && (level < 1e-15 || decided(&p))) {
      next = .1 * level;
      memcpy(w->z, p.at.z, sizeof(double) * (size_t)m);
      if (try(w, user)) return true;
    }

    if (t <= 1e-26 * size || !factor(&p)) return false;
    if (!step_mehrotra(&p, t, &short_steps)) return false;
  }

  return false;
}
