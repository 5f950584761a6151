// Minimisers to be compared with Newton's method (cases E1, E7), and that of a user.
#include <math.h>
#include <string.h>

#include "deform/deform.h"

static const char *const names[pb_minimiserCount] = {"newton", "newton_cg", "lbfgs", "gradient", "adam", "user"};

const char *pbMinimiser_Name(pbMinimiser method) { return method >= 0 && method < pb_minimiserCount ? names[method] : NULL; }

bool pbMinimiser_Named(const char *name, pbMinimiser *method) {
  for (int i = 0; i < pb_minimiserCount; i++) {
    if (!strcmp(names[i], name)) return *method = (pbMinimiser)i, true;
  }

  return false;
}

// x := x - s step with sufficient decrease, s from `first` down by `shrink`; *value and the gradient there. 0 where none is found.
static double descend(pbDeformWork *w, double *value, double first, double shrink) {
  int n = 3 * w->d->npoint;
  double slope = pb_dot(w->step, w->gradient, n), limit = pbDeform_MaxStep(w, w->x, w->step), s = first < limit ? first : limit;

  for (int k = 0; k < 60; k++, s *= shrink) {
    if (!pbDeform_Decreases(w, *value, s, slope)) continue;
    memcpy(w->x, w->next_x, (size_t)n * sizeof(double));
    return pbDeform_Look(w, w->x, value, w->gradient, false, 0) == pb_ok ? s : 0;
  }

  return 0;
}

static void steepest(pbDeformWork *w) { memcpy(w->step, w->gradient, 3 * (size_t)w->d->npoint * sizeof(double)); }

// ---- L-BFGS (Nocedal and Wright 2006, algorithm 7.4) ------------------------------------------------------------------
typedef struct pairs {
  int count, next;
  double rho[PB_LBFGS_PAIRS];
} pairs;

static double *moved(pbDeformWork *w, int i) { return w->history + (size_t)(2 * i) * 3 * (size_t)w->d->npoint; }
static double *bent(pbDeformWork *w, int i) { return w->history + (size_t)(2 * i + 1) * 3 * (size_t)w->d->npoint; }

static void two_loops(pbDeformWork *w, const pairs *p) {
  int n = 3 * w->d->npoint, last = (p->next + PB_LBFGS_PAIRS - 1) % PB_LBFGS_PAIRS;
  double alpha[PB_LBFGS_PAIRS];

  steepest(w);
  for (int k = 0; k < p->count; k++) {
    int i = (last + PB_LBFGS_PAIRS - k) % PB_LBFGS_PAIRS;
    alpha[i] = p->rho[i] * pb_dot(moved(w, i), w->step, n);
    for (int j = 0; j < n; j++) w->step[j] -= alpha[i] * bent(w, i)[j];
  }

  if (p->count) {
    double scale = 1 / (p->rho[last] * pb_dot(bent(w, last), bent(w, last), n));
    for (int j = 0; j < n; j++) w->step[j] *= scale;
  }

  for (int k = p->count - 1; k >= 0; k--) {
    int i = (last + PB_LBFGS_PAIRS - k) % PB_LBFGS_PAIRS;
    double beta = p->rho[i] * pb_dot(bent(w, i), w->step, n);

    for (int j = 0; j < n; j++) w->step[j] += (alpha[i] - beta) * moved(w, i)[j];
  }
}

// The pair of the step just taken, where it curves upwards.
static void remember(pbDeformWork *w, pairs *p, double s) {
  int n = 3 * w->d->npoint;
  double *move = moved(w, p->next), *bend = bent(w, p->next);

  for (int i = 0; i < n; i++) {
    move[i] = -s * w->step[i];
    bend[i] = w->gradient[i] - bend[i];
  }

  double curve = pb_dot(move, bend, n);
  if (!(curve > 1e-14 * sqrt(pb_dot(move, move, n) * pb_dot(bend, bend, n)))) return;
  p->rho[p->next] = 1 / curve;
  p->next = (p->next + 1) % PB_LBFGS_PAIRS;
  if (p->count < PB_LBFGS_PAIRS) p->count++;
}

// ---- Newton with conjugate gradients (Steihaug's end at negative curvature) -----------------------------------------------
static void pack(const pbDeform *d, const double *x, double *packed) {
  for (int i = 0; i < d->nfree; i++) memcpy(packed + 3 * i, x + 3 * d->point[i], 3 * sizeof(double));
}

static void truncated(pbDeformWork *w) {
  const pbDeform *d = w->d;
  int n = 3 * d->nfree;
  size_t row = 3 * (size_t)d->npoint;
  double *x = w->rhs, *r = w->history, *p = r + row, *q = p + row, *z = q + row;

  pack(d, w->gradient, r);
  memset(x, 0, (size_t)n * sizeof *x);
  double first = sqrt(pb_dot(r, r, n)), rz = 0;

  for (int k = 0; k < 10 * n && sqrt(pb_dot(r, r, n)) > 1e-3 * fmin(1, sqrt(first)) * first; k++) {
    for (int i = 0; i < n; i++) {
      double diagonal = pbDeformMatrix_Diagonal(w, i / 3)[4 * (i % 3)];
      z[i] = diagonal > 0 ? r[i] / diagonal : r[i];
    }

    double next = pb_dot(r, z, n), beta = k ? next / rz : 0;
    rz = next;
    for (int i = 0; i < n; i++) p[i] = z[i] + (k ? beta * p[i] : 0);
    pbSparse_Multiply(w->matrix.pattern, w->matrix.values, NULL, false, p, q);
    double curve = pb_dot(p, q, n);

    if (!(curve > 0)) {
      if (k == 0) memcpy(x, p, (size_t)n * sizeof *x);
      break;
    }

    for (int i = 0; i < n; i++) {
      x[i] += rz / curve * p[i];
      r[i] -= rz / curve * q[i];
    }
  }

  memset(w->step, 0, row * sizeof(double));
  for (int i = 0; i < d->nfree; i++) memcpy(w->step + 3 * d->point[i], x + 3 * i, 3 * sizeof(double));
}

// ---- Adam (Kingma and Ba 2015) ----------------------------------------------------------------------------------------
static pbStatus adam(pbDeformWork *w, double *value, int k) {
  int n = 3 * w->d->npoint;
  double *m = w->history, *v = m + n, rate = w->d->options.rate > 0 ? w->d->options.rate : 0.1;

  if (k == 0) memset(m, 0, 2 * (size_t)n * sizeof *m);
  for (int i = 0; i < n; i++) {
    double g = w->gradient[i];
    m[i] = 0.9 * m[i] + 0.1 * g;
    v[i] = 0.999 * v[i] + 0.001 * g * g;
    w->step[i] = rate * (m[i] / (1 - pow(0.9, k + 1))) / (sqrt(v[i] / (1 - pow(0.999, k + 1))) + 1e-8);
  }

  double s = pbDeform_MaxStep(w, w->x, w->step);
  for (int i = 0; i < n; i++) w->x[i] -= s * w->step[i];
  return pbDeform_Look(w, w->x, value, w->gradient, false, 0);
}

// ---- the loop ---------------------------------------------------------------------------------------------------------
static bool user_evaluate(const pbPotential *p, const double *x, double *value, double *gradient) {
  return pbDeform_Look(p->inside, x, value, gradient, false, 0) == pb_ok && *value < INFINITY;
}

static double user_max_step(const pbPotential *p, const double *x, const double *step) {
  return pbDeform_MaxStep(p->inside, x, step);
}

static pbStatus by_user(pbDeformWork *w, double *value) {
  const pbDeformOptions *o = &w->d->options;
  pbPotential p = {3 * w->d->npoint, user_evaluate, user_max_step, w};

  if (!o->minimise) return pbDeform_Fail(w, pb_bad_argument, "the method 'user' needs a function that minimises");
  memcpy(w->next_x, w->x, (size_t)p.n * sizeof(double));
  pbStatus status = o->minimise(o->user, &p, w->x, &w->report.iterations);
  if (status != pb_ok) return pbDeform_Fail(w, status, "the user's minimiser failed: %s", pbStatus_Text(status));

  for (int i = 0; i < p.n; i++) {
    if (w->d->fixed[i / 3] >> (i % 3) & 1 && w->x[i] != w->next_x[i])
      return pbDeform_Fail(w, pb_bad_argument, "the user's minimiser moved point %d, which is fixed", i / 3);
    if (!isfinite(w->x[i])) return pbDeform_Fail(w, pb_not_finite, "the user's minimiser left point %d at %g", i / 3, w->x[i]);
  }

  return pbDeform_Look(w, w->x, value, w->gradient, false, 0);
}

// One iteration; false where the method can go no further.
static pbStatus iterate(pbDeformWork *w, double *value, pairs *p, double *length, bool *going) {
  int n = 3 * w->d->npoint;
  double s = 1;

  switch (w->d->options.method) {
    case pb_minimiseAdam: return adam(w, value, w->report.iterations);
    case pb_minimiseNewtonCg:
      PB_TRY(pbDeform_Look(w, w->x, value, w->gradient, true, 0));
      pbDeformMatrix_Finish(w);
      truncated(w);
      s = descend(w, value, 1, 0.5);
      break;
    case pb_minimiseLbfgs:
      two_loops(w, p);
      memcpy(bent(w, p->next), w->gradient, (size_t)n * sizeof(double));
      s = descend(w, value, p->count ? 1 : *length, 0.5);
      remember(w, p, s);
      break;
    default: steepest(w); s = *length = descend(w, value, 4 * *length, 0.3);
  }

  *going = s > 0;
  w->report.change = s * pb_largest(w->step, n);
  return pb_ok;
}

pbStatus pbDeform_Minimise(pbDeformWork *w) {
  const pbDeform *d = w->d;
  const pbDeformOptions *o = &d->options;
  int n = 3 * d->npoint, most = o->iterations ? o->iterations : 100000;
  double value, c = pbDeform_Scale(w), length = 1;
  bool going = true;
  pairs p = {0};

  w->report = (pbDeformReport){0};
  PB_TRY(pbDeform_Look(w, w->x, &value, w->gradient, false, 0));
  if (o->method == pb_minimiseUser) PB_TRY(by_user(w, &value));

  for (;; w->report.iterations++) {
    w->report.force = pb_largest(w->gradient, n) / c;
    w->report.converged = w->report.force <= (o->residual > 0 ? o->residual : 1e-8);
    if (w->report.converged || !going || w->report.iterations >= most || o->method == pb_minimiseUser) break;
    PB_TRY(iterate(w, &value, &p, &length, &going));
  }

  w->report.residual = w->report.change / d->size;
  if (w->report.converged || o->approximate) return pb_ok;
  return pbDeform_Fail(w, pb_no_convergence, "%s did not converge: a force of %.3g N is left after %d iterations%s",
                       names[o->method], w->report.force, w->report.iterations, pbDeform_Loose(d));
}
