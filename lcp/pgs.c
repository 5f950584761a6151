// Projected Gauss-Seidel and Jacobi (pullback/pgs.h), and back through their sweeps. Derivative of the fixed point: pgs_vjp.c.
// The engine's method=sweeps is src/solve/dual*.c. Tests: tests/unit/test_pgs.c.
#include "lcp/pgs.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"

static const int LARGEST = 20000, SWEEPS = 50, POWER = 60;

size_t pbPgs_WorkSize(int m) { return m < 0 || m > LARGEST ? 0 : sizeof(double) * 4 * (size_t)(m + 1); }
size_t pbPgs_HistorySize(int m, int sweeps) { return (size_t)m * (size_t)(sweeps > 0 ? sweeps + 1 : SWEEPS + 1); }

pbPgsOptions pbPgs_OptionsOf(const pbPgsCall *call) { return call->options ? *call->options : (pbPgsOptions){0}; }

static double min(double a, double b) { return a < b ? a : b; }
static double max(double a, double b) { return a > b ? a : b; }
static const double *row_of(const pbPgs *p, int i) { return p->A + (size_t)i * (size_t)p->m; }

static bool friction(const pbPgs *p, int i) { return i < p->m && p->kind[i] == pb_pgsFriction; }

int pbPgs_Rows(const pbPgs *p, bool cone, int i) {
  PB_ASSERT(i >= 0 && i < p->m);
  return cone && friction(p, i) && friction(p, i + 1) && p->normal[i] == p->normal[i + 1] ? 2 : 1;
}

double pbPgs_Scale(const pbPgs *p, int i, int rows) {
  double d = row_of(p, i)[i];
  return rows == 2 ? max(d, row_of(p, i + 1)[i + 1]) : d;
}

double pbPgs_Velocity(const pbPgs *p, int i, const double *f) { return pbDense_Dot(row_of(p, i), f, p->m) + p->b[i]; }

// ---- checks ---------------------------------------------------------------------------------------------------------
static bool all_finite(const double *x, size_t count) { return pb_allFinite(x, count); }

static pbStatus check_row(pbContext *ctx, const pbPgs *p, int i, bool cone) {
  if ((unsigned)p->kind[i] >= pb_pgsKindCount) return pbContext_Fail(ctx, pb_bad_argument, "sweeps: row %d is of no kind", i);
  if (!(row_of(p, i)[i] > 0))
    return pbContext_Fail(ctx, pb_singular, "sweeps: the diagonal entry of row %d is not positive; CFM makes it so", i);
  if (p->kind[i] == pb_pgsBox && (!p->bound || !(p->bound[i] >= 0)))
    return pbContext_Fail(ctx, pb_bad_input, "sweeps: row %d has no bound, or a negative one", i);
  if (p->kind[i] != pb_pgsFriction) return pb_ok;

  // Friction: its normal row, its coefficient, and of a cone two rows that agree.
  if (!p->normal || p->normal[i] < 0 || p->normal[i] >= p->m || friction(p, p->normal[i]))
    return pbContext_Fail(ctx, pb_bad_input, "sweeps: friction row %d has no normal row", i);
  if (!p->mu || !(p->mu[i] >= 0) || !isfinite(p->mu[i]))
    return pbContext_Fail(ctx, pb_bad_input, "sweeps: friction of row %d is missing, negative or not finite", i);
  if (pbPgs_Rows(p, cone, i) == 2 && p->mu[i] != p->mu[i + 1])
    return pbContext_Fail(ctx, pb_bad_input, "sweeps: rows %d and %d are one cone, with two coefficients of friction", i, i + 1);
  if (pbPgs_Rows(p, cone, i) == 2 && pbPgs_Rows(p, cone, i + 1) == 2)
    return pbContext_Fail(ctx, pb_bad_input, "sweeps: rows %d to %d: a cone has two rows of friction", i, i + 2);

  return pb_ok;
}

pbStatus pbPgs_Check(pbContext *ctx, const pbPgsCall *call, bool cone, size_t need) {
  const pbPgs *p = call->problem;
  size_t m = (size_t)p->m;
  if (p->m < 0 || p->m > LARGEST) return pbContext_Fail(ctx, pb_bad_argument, "sweeps: %d rows", p->m);
  if (call->work_size < need)
    return pbContext_Fail(ctx, pb_bad_argument, "sweeps: %zu bytes of work, %zu needed", call->work_size, need);
  if (m && (!p->A || !p->b || !p->kind)) return pbContext_Fail(ctx, pb_bad_argument, "sweeps: A, b or kind is missing");
  if (!all_finite(p->A, m * m) || !all_finite(p->b, m))
    return pbContext_Fail(ctx, pb_bad_input, "sweeps: A or b has an entry that is not finite");
  for (int i = 0; i < p->m; i++) PB_TRY(check_row(ctx, p, i, cone));

  return pb_ok;
}

// ---- bounds ---------------------------------------------------------------------------------------------------------
// The largest |f| of row i; friction's follows the normal force that f holds at this moment of the sweep.
static double bound_of(const pbPgs *p, int i, const double *f) {
  if (p->kind[i] == pb_pgsBox) return p->bound[i];
  if (p->kind[i] == pb_pgsFriction) return p->mu[i] * max(0, f[p->normal[i]]);
  return INFINITY;
}

void pbPgs_Project(const pbPgs *p, int i, int rows, const double *f, double *u) {
  double bound = bound_of(p, i, f);
  PB_ASSERT(bound >= 0 && (rows == 1 || rows == 2));

  // Onto the disc, the half line or the interval.
  if (rows == 2) {
    double norm = pbHypot(u[0], u[1]), share = norm > bound ? bound / norm : 1;
    u[0] *= share;
    u[1] *= share;
  } else {
    u[0] = p->kind[i] == pb_pgsOneSided ? max(0, u[0]) : max(-bound, min(bound, u[0]));
  }
}

// Derivative of u[0], u[1] after Project by u before and by what bounds them, backwards: `at` is u before; bar: in after, out
// before. What reaches the normal's force is added to its entry of f_bar.
static void project_back(const pbPgs *p, int i, int rows, const double *f, const double *at, double *bar, double *f_bar,
                         const pbPgsBar *out) {
  double bound = bound_of(p, i, f), norm = rows == 2 ? pbHypot(at[0], at[1]) : fabs(at[0]);

  // At a kink (exactly at a bound) the derivative within is taken.
  if (p->kind[i] == pb_pgsOneSided) {
    if (at[0] < 0) bar[0] = 0;
    return;
  }

  if (norm <= bound) return;

  // d u/|u| bound: across u the bound's share, along u what the bound owes.
  double by_bound = 0, d[2] = {at[0] / norm, rows == 2 ? at[1] / norm : 0};
  for (int k = 0; k < rows; k++) by_bound += d[k] * bar[k];
  for (int k = 0; k < rows; k++) bar[k] = rows == 2 ? bound / norm * (bar[k] - by_bound * d[k]) : 0;

  if (p->kind[i] == pb_pgsBox) {
    if (out->bound) out->bound[i] += by_bound;
  } else if (f[p->normal[i]] > 0) {
    if (out->mu) out->mu[i] += by_bound * f[p->normal[i]];
    f_bar[p->normal[i]] += by_bound * p->mu[i];
  }
}

// ---- forwards -------------------------------------------------------------------------------------------------------
// Largest eigenvalue of D^-1 A, from below, by the power iteration.
static double largest_eigenvalue(const pbPgs *p, bool cone, double *v, double *next) {
  // Its largest entry is what it grows by.
  double lambda = 0;
  for (int i = 0; i < p->m; i++) v[i] = 1 + .1 * (i % 7);

  for (int round = 0; round < POWER; round++) {
    for (int i = 0; i < p->m;) {
      int rows = pbPgs_Rows(p, cone, i);
      double d = pbPgs_Scale(p, i, rows);

      for (int k = 0; k < rows; k++) next[i + k] = pbDense_Dot(row_of(p, i + k), v, p->m) / d;
      i += rows;
    }

    lambda = pbDense_MaxAbs(next, p->m);
    if (!(lambda > 0)) continue;
    for (int i = 0; i < p->m; i++) v[i] = next[i] / lambda;
  }

  return lambda;
}

static double omega_of(const pbPgs *p, const pbPgsOptions *o, double *work) {
  if (o->omega > 0) return o->omega;
  if (o->order == pb_pgsGaussSeidel || !p->m) return 1;

  // Jacobi's sweeps converge below 2 / lambda; a tenth is kept away from it.
  return min(1, 1.8 / largest_eigenvalue(p, o->cone, work, work + p->m));
}

// f := the next; old: the state before, where Jacobi's order takes everything from.
static void sweep_once(const pbPgs *p, const pbPgsOptions *o, double omega, double *f, double *old) {
  const double *from = f;
  if (o->order == pb_pgsJacobi) {
    memcpy(old, f, sizeof *f * (size_t)p->m);
    from = old;
  }

  for (int i = 0; i < p->m;) {
    // u = f - omega w / d, then the bounds.
    int rows = pbPgs_Rows(p, o->cone, i);
    double d = pbPgs_Scale(p, i, rows), u[2];

    for (int k = 0; k < rows; k++) u[k] = from[i + k] - omega * pbPgs_Velocity(p, i + k, from) / d;
    pbPgs_Project(p, i, rows, from, u);
    for (int k = 0; k < rows; k++) f[i + k] = u[k];
    i += rows;
  }
}

// Largest |f - P(f - w / d)|, relative to the largest of |f| and |b| / d.
static double residual(const pbPgs *p, bool cone, const double *f, int *worst_row) {
  double worst = 0, size = 1e-300;
  *worst_row = -1;
  for (int i = 0; i < p->m;) {
    int rows = pbPgs_Rows(p, cone, i);
    double d = pbPgs_Scale(p, i, rows), u[2];

    // With a full step: omega is no part of the fixed point.
    for (int k = 0; k < rows; k++) u[k] = f[i + k] - pbPgs_Velocity(p, i + k, f) / d;
    pbPgs_Project(p, i, rows, f, u);
    for (int k = 0; k < rows; k++) {
      // NaN is the worst.
      double off = fabs(f[i + k] - u[k]);
      if (!(off <= worst)) {
        worst = off;
        *worst_row = i + k;
      }

      size = max(size, max(fabs(f[i + k]), fabs(p->b[i + k]) / d));
    }

    i += rows;
  }

  return worst / size;
}

// Sweeps from x until they are all done or the tolerance is reached.
static void run_sweeps(const pbPgs *p, const pbPgsOptions *o, double *x, double *tmp, double *history, pbPgsReport *report) {
  size_t bytes = sizeof(double) * (size_t)p->m;
  int limit = o->sweeps > 0 ? o->sweeps : SWEEPS;

  while (report->sweeps < limit) {
    if (o->tolerance > 0) report->residual = residual(p, o->cone, x, &report->worst_row);
    if (o->tolerance > 0 && report->residual <= o->tolerance) break;
    sweep_once(p, o, report->omega, x, tmp);
    report->sweeps++;
    if (history) memcpy(history + (size_t)report->sweeps * (size_t)p->m, x, bytes);
  }

  report->residual = residual(p, o->cone, x, &report->worst_row);
}

pbStatus pbPgs_Solve(pbContext *ctx, const pbPgsCall *call, const double *f0, double *f, double *history, pbPgsReport *report) {
  const pbPgs *p = call->problem;
  pbPgsOptions o = pbPgs_OptionsOf(call);
  pbPgsReport own;
  if (!report) report = &own;
  *report = (pbPgsReport){.residual = INFINITY, .worst_row = -1};
  PB_TRY(pbPgs_Check(ctx, call, o.cone, pbPgs_WorkSize(p->m)));
  if (f0 && !all_finite(f0, (size_t)p->m))
    return pbContext_Fail(ctx, pb_bad_input, "sweeps: the start has an entry that is not finite");

  // f may be f0, and stays as it is on failure.
  size_t bytes = sizeof(double) * (size_t)p->m;
  double *x = call->work, *tmp = x + p->m;
  report->omega = omega_of(p, &o, tmp);
  PB_ASSERT(report->omega > 0);
  if (f0) memmove(x, f0, bytes);
  else memset(x, 0, bytes);
  if (history) memcpy(history, x, bytes);

  run_sweeps(p, &o, x, tmp, history, report);
  if (!isfinite(report->residual))
    return pbContext_Fail(ctx, pb_not_finite, "sweeps: diverged, row %d, relaxation %g", report->worst_row, report->omega);
  memcpy(f, x, bytes);
  if (report->residual > o.tolerance && o.tolerance > 0)
    return pbContext_Fail(ctx, pb_no_convergence, "sweeps: residual %.1e after %d sweeps, row %d", report->residual,
                          report->sweeps, report->worst_row);

  return pb_ok;
}

// ---- backwards ------------------------------------------------------------------------------------------------------
// One row, or a cone's two: u = f - omega w / d, then the bounds. f: everything as it was then; g: cotangent of the state after,
// of these rows; what reaches the state before is added to f_bar.
static void pull_rows(const pbPgs *p, double omega, int i, int rows, const double *f, const double *g, double *f_bar,
                      const pbPgsBar *out) {
  double d = pbPgs_Scale(p, i, rows), step = omega / d, w[2], u[2], bar[2] = {g[0], rows == 2 ? g[1] : 0}, d_bar = 0;
  PB_ASSERT(d > 0);

  // Forwards once more, for what the bounds were applied to.
  for (int k = 0; k < rows; k++) {
    w[k] = pbPgs_Velocity(p, i + k, f);
    u[k] = f[i + k] - step * w[k];
  }

  project_back(p, i, rows, f, u, bar, f_bar, out);
  for (int k = 0; k < rows; k++) {
    // By f itself, by w = A f + b, and by d.
    double w_bar = -step * bar[k];
    f_bar[i + k] += bar[k];
    pbDense_Add(f_bar, w_bar, row_of(p, i + k), p->m);
    if (out->A) pbDense_Add(out->A + (size_t)(i + k) * (size_t)p->m, w_bar, f, p->m);
    if (out->b) out->b[i + k] += w_bar;
    d_bar += step * w[k] / d * bar[k];
  }

  // d is the larger diagonal entry of a cone's two.
  int largest = rows == 2 && row_of(p, i + 1)[i + 1] > row_of(p, i)[i] ? i + 1 : i;
  if (out->A) out->A[(size_t)largest * (size_t)(p->m + 1)] += d_bar;
}

static int first_of(const pbPgs *p, bool cone, int last) {
  return last > 0 && pbPgs_Rows(p, cone, last - 1) == 2 ? last - 1 : last;
}

// Back through one sweep: now, the cotangent of the state after it, becomes that of the state `old` before. f, before: m each.
static void pull_sweep(const pbPgs *p, const pbPgsOptions *o, double omega, const double *old, double *f, double *now,
                       double *before, const pbPgsBar *bar) {
  size_t bytes = sizeof(double) * (size_t)p->m;
  bool jacobi = o->order == pb_pgsJacobi;
  memcpy(f, jacobi ? old : old + p->m, bytes);
  if (jacobi) memset(before, 0, bytes);
  double *to = jacobi ? before : now;  // Gauss-Seidel's rows write into the state that the next ones read

  // Rows from the last to the first; f is the state that each of them read.
  for (int last = p->m - 1; last >= 0;) {
    int i = first_of(p, o->cone, last), rows = last - i + 1;
    double g[2] = {now[i], rows == 2 ? now[i + 1] : 0};

    for (int j = i; j <= last; j++) {
      f[j] = old[j];
      if (!jacobi) now[j] = 0;
    }

    pull_rows(p, omega, i, rows, f, g, to, bar);
    last = i - 1;
  }

  if (jacobi) memcpy(now, before, bytes);
}

pbStatus pbPgs_VjpUnrolled(pbContext *ctx, const pbPgsCall *call, const pbPgsReport *report, const double *history,
                           const double *f_bar, const pbPgsBar *bar) {
  const pbPgs *p = call->problem;
  pbPgsOptions o = pbPgs_OptionsOf(call);
  PB_TRY(pbPgs_Check(ctx, call, o.cone, pbPgs_WorkSize(p->m)));
  if (!all_finite(f_bar, (size_t)p->m))
    return pbContext_Fail(ctx, pb_bad_input, "sweeps: the cotangent has an entry that is not finite");

  double *now = call->work, *before = now + p->m, *f = before + p->m;
  memcpy(now, f_bar, sizeof(double) * (size_t)p->m);
  PB_ASSERT(report->sweeps >= 0 && report->omega > 0);
  for (int k = report->sweeps - 1; k >= 0; k--)
    pull_sweep(p, &o, report->omega, history + (size_t)k * (size_t)p->m, f, now, before, bar);

  if (!all_finite(now, (size_t)p->m))
    return pbContext_Fail(ctx, pb_not_finite, "sweeps: the derivative left the range of finite numbers");
  if (bar->f0) pbDense_Add(bar->f0, 1, now, p->m);

  return pb_ok;
}
