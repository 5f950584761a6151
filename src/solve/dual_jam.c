// Hard contact that Newton's method from relaxed forces does not solve to the digits of the motion. Jammed rows work against each
// other and are held by little more than their regularization: their forces are thousands of times what their residuals ask of
// each alone, a share of 1e-9 of them is no small acceleration, and whether a contact slides is lost in them. At a rho at which
// forces and accelerations are of one size both count.
// Tests: tests/unit/test_hard.c, tests/oracle/test_jammed.py.
#include "base/assert.h"
#include "contact/law.h"
#include "contact/row.h"
#include "elementary/elementary.h"
#include "eval/work.h"
#include "solve/dual_parts.h"

static const double resolved = 1e-9;  // residual of forces that are found
static const double believed = 1e-6;  // ... that may be taken where none are better
static const double jammed = 1e3;

// How far forces exceed what the residuals ask of each row alone. A power of two.
static double jam(const NUM(pbWork) *w) {
  double most = 0;
  double asked = 1e-300;
  for (int i = 0; i < w->dual.n; i++) {
    most = fmax(most, fabs(w->dual.f[i]));
    asked = fmax(asked, fabs(w->dual.rho[i] * w->dual.b[i]));
  }
  return most > asked && most < INFINITY ? ldexp(1, ilogb(most / asked)) : 1;
}

static void scale_rho(NUM(pbWork) *w, double scale) {
  for (int i = 0; i < w->dual.n; i++) w->dual.rho[i] *= scale;
}

// Of the sharp laws, whatever kappa the forces at hand have kept.
double NUM(pbDual_JamResidual)(NUM(pbWork) *w) {
  double kappa = w->dual.kappa;
  double scale = jam(w);

  w->dual.kappa = 0;
  scale_rho(w, scale);
  NUM(pbDual_Residuals)(w, w->dual.f, w->dual.x);
  double residual = NUM(pbDual_Worst)(w, w->dual.f, w->dual.x);
  scale_rho(w, 1 / scale);
  w->dual.kappa = kappa;
  return residual;
}

// Newton's method on the sharp laws with rho times `scale` from the forces at hand, which stay where it finds none.
static bool solve_scaled(NUM(pbWork) *w, double scale, int rounds) {
  size_t bytes = (size_t)w->dual.n * sizeof(double);
  double *f = w->dual.trial;
  double *x = w->dual.trial_x;
  double kappa = w->dual.kappa;
  bool found = false;

  w->dual.kappa = 0;
  scale_rho(w, scale);
  memcpy(f, w->dual.f, bytes);
  NUM(pbDual_Residuals)(w, f, x);
  for (int round = 0; round < rounds && !found; round++) found = NUM(pbDual_Polish)(w, 0, f, x);
  scale_rho(w, 1 / scale);

  if (!found) {
    w->dual.kappa = kappa;
    return false;
  }
  memcpy(w->dual.f, f, bytes);
  memcpy(w->dual.x, x, bytes);
  return true;
}

// ---- what was found -----------------------------------------------------------------------------------------------------
// The best forces so far, in w->dual.nearest.
typedef struct best {
  double residual, kappa;
  bool found;
} best;

// Are the forces at hand those of the sharp laws to rounding? Else they are kept if none were better.
static bool is_resolved(NUM(pbWork) *w, bool found, best *b) {
  double residual = NUM(pbDual_JamResidual)(w);
  if (found && w->dual.kappa == 0 && residual <= resolved) return true;

  // What obeys the laws of forces alone has accelerations of any kind.
  found = found && (w->dual.kappa > 0 || residual <= believed);
  bool better = found == b->found ? residual < b->residual : found;
  if (!better) return false;
  *b = (best){.residual = residual, .kappa = w->dual.kappa, .found = found};
  memcpy(w->dual.nearest, w->dual.f, (size_t)w->dual.n * sizeof(double));
  return false;
}

// Sharp laws from forces near their solution; at which rho Newton's method gets there differs.
static bool sharpen(NUM(pbWork) *w, best *b) {
  static const int shifts[] = {0, 5, -5, 10, -10, 15};
  double scale = jam(w);

  // In powers of two about the scale of the forces.
  for (int i = 0; i < 6; i++) {
    if (solve_scaled(w, ldexp(scale, shifts[i]), 4) && is_resolved(w, true, b)) return true;
  }
  return false;
}

// ---- from soft to hard --------------------------------------------------------------------------------------------------
// With a share of their weight more on the diagonal rows no longer work against each other, and Newton's method solves them from
// nothing. The share is then taken back step by step: forces never grow by much at a time.
typedef struct hardening {
  double *weight;              // workspace, n: of the rows
  double *now, *before;        // workspace, n each: forces at the last two shares
  double share, last, factor;  // of the softness that is tried, of the last that was solved (INFINITY: none), their quotient
  double drift;                // log(last / share before)
} hardening;

static void set_softness(NUM(pbWork) *w, const hardening *h, double share) {
  for (int i = 0; i < w->dual.n; i++) {
    w->dual.softness[i] = share * h->weight[i];
    w->dual.A[i * (w->dual.n + 1)] = w->dual.diagonal[i] + w->dual.softness[i];
  }
  NUM(pbDual_SetScales)(w);
}

// Forces at the share that is tried: from those at the last, moved on as they went before, or as they are.
static bool solve_share(NUM(pbWork) *w, const hardening *h) {
  double ahead = h->drift < 0 && h->share > 0 ? fmin(pbLog(h->share / h->last) / h->drift, 3) : 0;

  for (int guess = 0; guess < 2; guess++) {
    double scale = 1;

    // As it is, at the scale of the forces, beyond it.
    for (int k = 0; k < 3; k++) {
      for (int i = 0; i < w->dual.n; i++) w->dual.f[i] = h->now[i] + ahead * (h->now[i] - h->before[i]);
      if (k == 1) scale = jam(w);
      if (k == 2) scale *= 32;
      if (solve_scaled(w, scale, 2) && NUM(pbDual_JamResidual)(w) <= resolved) return true;
    }
    if (ahead == 0) return false;
    ahead = 0;
  }
  return false;
}

// The next share; false where there is none.
static bool next_share(hardening *h, bool found) {
  static const double softest = 1e7, hardest = 1e-9;
  static const double slowest = 0.985;

  // Soft enough to begin with?
  if (!found && h->last == INFINITY) {
    h->share *= 10;
    return h->share <= softest;
  }
  // Too far: half as much harder, in the logarithm.
  if (!found) {
    h->factor = sqrt(h->factor);
    h->share = h->last * h->factor;
    return h->factor <= slowest;
  }

  // Farther the next time.
  h->drift = h->last == INFINITY ? 0 : pbLog(h->share / h->last);
  h->last = h->share;
  h->factor = fmax(h->factor * sqrt(h->factor), 0.05);
  h->share = h->last * h->factor > hardest ? h->last * h->factor : 0;
  return true;
}

static bool harden(NUM(pbWork) *w) {
  int n = w->dual.n;
  size_t bytes = (size_t)n * sizeof(double);
  hardening h = {.weight = w->dual.path, .now = w->dual.path + n, .before = w->dual.path + 2 * n};
  bool found = false;
  bool ended = false;

  // Ten times as heavy to push: most start there.
  h.share = 10;
  h.last = INFINITY;
  h.factor = 0.1;
  memcpy(h.weight, w->dual.weight, bytes);
  memset(h.now, 0, 2 * bytes);
  for (int i = 0; i < n; i++) w->dual.diagonal[i] = w->dual.A[i * (n + 1)];

  // Softer or harder, as Newton's method gets there.
  w->dual.kappa = 0;
  for (int step = 0; step < 300 && !ended; step++) {
    set_softness(w, &h, h.share);
    found = solve_share(w, &h);
    if (found) {
      memcpy(h.before, h.now, bytes);
      memcpy(h.now, w->dual.f, bytes);
    }
    ended = (found && h.share == 0) || !next_share(&h, found);
  }

  set_softness(w, &h, 0);
  return found && h.share == 0;
}

// ---- all ------------------------------------------------------------------------------------------------------------------
// From nothing, at a rho times a power of two, and where that fails along the smoothed laws.
static bool try_power(NUM(pbWork) *w, int power, best *b) {
  double scale = ldexp(1, power);
  memset(w->dual.f, 0, (size_t)w->dual.n * sizeof(double));
  w->dual.kappa = 0;
  if (solve_scaled(w, scale, 4) && is_resolved(w, true, b)) return true;

  scale_rho(w, scale);
  bool found = NUM(pbDual_Follow)(w, scale, true, w->dual.f, w->dual.x);
  scale_rho(w, 1 / scale);
  if (found && is_resolved(w, true, b)) return true;
  return sharpen(w, b);
}

static bool find(NUM(pbWork) *w, bool found) {
  size_t bytes = (size_t)w->dual.n * sizeof(double);
  best b = {.residual = INFINITY};

  bool solved = is_resolved(w, found, &b);
  if (sharpen(w, &b) || solved) return true;
  // From soft rows, then along the smoothed laws.
  if (harden(w) && is_resolved(w, true, &b)) return true;
  for (int power = 0; power < 28; power += 5) {
    if (try_power(w, power, &b)) return true;
  }

  // The error tells of what came nearest.
  memcpy(w->dual.f, w->dual.nearest, bytes);
  w->dual.kappa = b.found ? b.kappa : 0;
  NUM(pbDual_Residuals)(w, w->dual.f, w->dual.x);
  return b.found;
}

bool NUM(pbDual_Resolve)(NUM(pbWork) *w, bool found) {
  // Few are jammed.
  w->residual = NUM(pbDual_JamResidual)(w);
  if (found && w->dual.kappa == 0 && w->residual <= resolved && jam(w) < jammed) return true;

  found = find(w, found);
  w->residual = NUM(pbDual_JamResidual)(w);
  double scale = jam(w);
  if (found && scale >= jammed) scale_rho(w, scale);
  return found;
}
