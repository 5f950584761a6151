// The rows' laws at a fixed point of projected Gauss-Seidel, and its implicit derivative: with the laws
// F df + W dw = T df + c of the rows (T takes the normal row's force), dw = A df + dA f + db and K = F - T + W A,
//
//   K'y = f_bar,   b_bar = -W'y,   A_bar = -(W'y) f',   and c's derivatives by mu and bounds times y.
// Tests: tests/unit/test_pgs.c.
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "elementary/elementary.h"
#include "lcp/pgs.h"

static const double NONE = 1e-11;  // of the largest: counts as zero

static pbPgsLaw held(double by_bound) {
  return (pbPgsLaw){.state = pb_pgsHeld, .other = -1, .normal = -1, .force = {1}, .by_bound = by_bound};
}

// w = 0, as a force.
static pbPgsLaw free_row(double d) {
  PB_ASSERT(d > 0);
  return (pbPgsLaw){.state = pb_pgsFree, .other = -1, .normal = -1, .velocity = {1 / d}};
}

// A row of its own; u = f - w / d. True: at a kink.
static bool one_law(const pbPgs *p, int i, double d, double u, const double *f, double tiny, pbPgsLaw *law) {
  double bound, side = u < 0 ? -1 : 1;
  *law = free_row(d);
  if (p->kind[i] == pb_pgsEquality) return false;

  if (p->kind[i] == pb_pgsOneSided) {
    if (u < 0) *law = held(0);
    return fabs(u) <= tiny;
  }

  // Within the bound w = 0; at it the row is held, and friction's follows the normal row's force.
  bound = p->kind[i] == pb_pgsBox ? p->bound[i] : p->mu[i] * fmax(0, f[p->normal[i]]);
  bool kink = bound > tiny && fabs(fabs(u) - bound) <= tiny;
  if (fabs(u) <= bound && bound > 0) return kink;
  *law = held(p->kind[i] == pb_pgsBox ? side : 0);

  // A normal row without force moves no bound.
  if (p->kind[i] == pb_pgsFriction && f[p->normal[i]] > 0) {
    law->state = pb_pgsTied;
    law->normal = p->normal[i];
    law->tie = side * p->mu[i];
    law->by_mu = side * f[p->normal[i]];
  }

  return kink;
}

// A cone's two rows: f = P(f - w / d), P on the disc of radius mu f_normal, its derivative bound / |u| across u
static bool cone_law(const pbPgs *p, int i, double d, const double *u, const double *f, double tiny, pbPgsLaw *law) {
  double normal = f[p->normal[i]], bound = p->mu[i] * fmax(0, normal), norm = pbHypot(u[0], u[1]);
  bool kink = bound > tiny && fabs(norm - bound) <= tiny;

  for (int k = 0; k < 2; k++) law[k] = norm <= bound && bound > 0 ? free_row(d) : held(0);
  if ((norm <= bound && bound > 0) || bound == 0) return kink;

  for (int k = 0; k < 2; k++) {
    // Across u the share bound / |u|, along it the bound.
    double along = u[k] / norm, own = bound / norm * (1 - along * along), other = -bound / norm * along * u[1 - k] / norm;
    law[k] = (pbPgsLaw){.state = pb_pgsTied,
                        .other = i + 1 - k,
                        .normal = p->normal[i],
                        .force = {1 - own, -other},
                        .velocity = {own / d, other / d},
                        .tie = along * p->mu[i],
                        .by_mu = along * normal};
  }

  return kink;
}

static int linearize(const pbPgs *p, bool cone, const double *f, double *u, pbPgsLaw *law) {
  double tiny = 0;
  int kinks = 0;

  // What a row tends to, and what is small beside the largest.
  for (int i = 0; i < p->m;) {
    int rows = pbPgs_Rows(p, cone, i);
    double d = pbPgs_Scale(p, i, rows);

    for (int k = i; k < i + rows; k++) {
      // The point that is projected.
      u[k] = f[k] - pbPgs_Velocity(p, k, f) / d;
      tiny = fmax(tiny, NONE * fmax(fabs(u[k]), fabs(f[k])));
    }

    i += rows;
  }

  for (int i = 0; i < p->m;) {
    int rows = pbPgs_Rows(p, cone, i);
    double d = pbPgs_Scale(p, i, rows);

    if (rows == 2) kinks += cone_law(p, i, d, u + i, f, tiny, law + i);
    else kinks += one_law(p, i, d, u[i], f, tiny, law + i);
    i += rows;
  }

  return kinks;
}

int pbPgs_Linearize(const pbPgsCall *call, const double *f, pbPgsLaw *law) {
  if (call->work_size < sizeof(double) * (size_t)call->problem->m) return 0;
  return linearize(call->problem, pbPgs_OptionsOf(call).cone, f, call->work, law);
}

// ---- the adjoint ----------------------------------------------------------------------------------------------------
typedef struct Adjoint {
  const pbPgs *p;
  pbPgsLaw *law;
  double *u, *y, *g, *rhs, *tmp;  // m each
  int *rows;                      // those that are not held
  pbDenseCod cod;
} Adjoint;

static void layout_adjoint(pbArena *arena, Adjoint *a, int m) {
  size_t M = (size_t)m;
  *a = (Adjoint){.law = pbArena_Take(arena, M, sizeof *a->law)};
  double **vectors[] = {&a->u, &a->y, &a->g, &a->rhs, &a->tmp, &a->cod.tau, &a->cod.tau2, &a->cod.norm};
  for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++) *vectors[k] = pbArena_Take(arena, M, sizeof(double));
  a->cod.A = pbArena_Take(arena, M * M, sizeof(double));
  a->cod.T = pbArena_Take(arena, M * M, sizeof(double));
  a->cod.perm = pbArena_Take(arena, M, sizeof(int));
  a->rows = pbArena_Take(arena, M, sizeof(int));
}

size_t pbPgs_ImplicitWorkSize(int m) {
  if (!pbPgs_WorkSize(m)) return 0;
  pbArena arena = pbArena_Measure();
  Adjoint a;
  layout_adjoint(&arena, &a, m);

  return pbArena_Needed(&arena);
}

// Entry of K: the law of row i by the force of row j
static double entry_of(const Adjoint *a, int i, int j) {
  PB_ASSERT(i >= 0 && i < a->p->m && j >= 0 && j < a->p->m);
  const pbPgsLaw *l = a->law + i;
  const double *A = a->p->A;
  size_t m = (size_t)a->p->m;
  double sum = (j == i ? l->force[0] : 0) - (j == l->normal ? l->tie : 0) + l->velocity[0] * A[(size_t)i * m + (size_t)j];

  // A cone's law has both of its rows' velocities.
  if (l->other >= 0) sum += (j == l->other ? l->force[1] : 0) + l->velocity[1] * A[(size_t)l->other * m + (size_t)j];
  return sum;
}

// K'y = f_bar: rows that are held come after the others, as no other law's adjoint sees them.
static void solve_adjoint(Adjoint *a, const double *f_bar, pbPgsAdjointReport *report) {
  int m = a->p->m, n = 0;
  for (int i = 0; i < m; i++) {
    if (a->law[i].state != pb_pgsHeld) a->rows[n++] = i;
  }

  // Rows may be redundant: of all solutions that of least norm.
  a->cod.n = n;
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) a->cod.A[(size_t)i * (size_t)n + (size_t)j] = entry_of(a, a->rows[i], a->rows[j]);
  }
  if (n) pbDenseCod_Factor(&a->cod, 1e-11);
  memset(a->y, 0, sizeof *a->y * (size_t)m);

  // Two rounds, the second for the rounding of the first; the third only measures.
  double rest = 0;

  for (int round = 0; round < 3; round++) {
    rest = 0;
    for (int j = 0; j < n; j++) {
      a->rhs[j] = f_bar[a->rows[j]];
      for (int i = 0; i < n; i++) a->rhs[j] -= entry_of(a, a->rows[i], a->rows[j]) * a->y[a->rows[i]];
      rest = fmax(rest, fabs(a->rhs[j]));
    }

    // A round each, but for the last.
    if (round == 2 || !n) break;
    pbDenseCod_Solve(&a->cod, a->rhs, a->tmp);
    for (int i = 0; i < n; i++) a->y[a->rows[i]] += a->rhs[i];
  }

  // Now the held rows: each by itself.
  for (int j = 0; j < m; j++) {
    if (a->law[j].state != pb_pgsHeld) continue;
    a->y[j] = f_bar[j];
    for (int i = 0; i < n; i++) a->y[j] -= entry_of(a, a->rows[i], j) * a->y[a->rows[i]];
  }

  double size = pbDense_MaxAbs(f_bar, m);
  report->residual = size > 0 ? rest / size : 0;
  report->deficiency = n - (n ? a->cod.rank : 0);
}

static pbStatus add_bars(pbContext *ctx, Adjoint *a, const double *f, const pbPgsBar *bar) {
  int m = a->p->m;
  // g = W'y.
  memset(a->g, 0, sizeof *a->g * (size_t)m);
  for (int i = 0; i < m; i++) {
    const pbPgsLaw *l = a->law + i;
    a->g[i] += l->velocity[0] * a->y[i];
    if (l->other >= 0) a->g[l->other] += l->velocity[1] * a->y[i];
  }

  if (!isfinite(pbDense_MaxAbs(a->y, m)))
    return pbContext_Fail(ctx, pb_not_finite, "sweeps: the adjoint left the range of finite numbers");

  for (int i = 0; i < m; i++) {
    const pbPgsLaw *l = a->law + i;
    if (bar->b) bar->b[i] -= a->g[i];
    if (bar->A) pbDense_Add(bar->A + (size_t)i * (size_t)m, -a->g[i], f, m);
    if (bar->bound) bar->bound[i] += l->by_bound * a->y[i];

    // A cone's coefficient is that of its first row.
    if (bar->mu) bar->mu[l->other >= 0 && l->other < i ? l->other : i] += l->by_mu * a->y[i];
  }

  return pb_ok;
}

pbStatus pbPgs_VjpImplicit(pbContext *ctx, const pbPgsCall *call, const double *f, const double *f_bar, const pbPgsBar *bar,
                           pbPgsAdjointReport *report) {
  const pbPgs *p = call->problem;
  pbPgsAdjointReport own;
  bool cone = pbPgs_OptionsOf(call).cone;
  if (!report) report = &own;
  *report = (pbPgsAdjointReport){0};
  PB_TRY(pbPgs_Check(ctx, call, cone, pbPgs_ImplicitWorkSize(p->m)));
  if (p->m && (!isfinite(pbDense_MaxAbs(f, p->m)) || !isfinite(pbDense_MaxAbs(f_bar, p->m))))
    return pbContext_Fail(ctx, pb_bad_input, "sweeps: the forces or their cotangent have an entry that is not finite");

  // Laws of all rows at f, then one linear system.
  pbArena arena = pbArena_Over(call->work, call->work_size);
  Adjoint a;
  layout_adjoint(&arena, &a, p->m);
  a.p = p;
  report->degenerate = linearize(p, cone, f, a.u, a.law);
  for (int i = 0; i < p->m; i++) {
    report->free += a.law[i].state == pb_pgsFree;
    report->held += a.law[i].state == pb_pgsHeld;
    report->tied += a.law[i].state == pb_pgsTied;
  }
  PB_ASSERT(report->free + report->held + report->tied == p->m);

  solve_adjoint(&a, f_bar, report);
  return add_bars(ctx, &a, f, bar);
}
