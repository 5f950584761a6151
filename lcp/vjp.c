// Implicit adjoint of the linear complementarity problem (pullback/lcp.h).
// Tests: tests/unit/test_lcp.c, tests/unit/test_lcp_cones.c, tests/unit/test_condensed.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "lcp/work.h"

static const double NONE = 1e-11;      // a multiplier or slack below this fraction of the largest counts as zero
static const double SINGULAR = 1e-10;  // a pivot below this fraction of the largest counts as zero

// Scaled rows with z > 0, into rows; the others get u from the cotangent on s.
static int active_rows(pbLcpAdjoint *a, int *rows, int *degenerate) {
  const pbReduced *r = &a->w->reduced;
  double size = 0;
  int count = 0;

  for (int i = 0; i < r->m; i++) size = fmax(size, fmax(a->at->z[i] / r->S[i], a->at->s[i] * r->S[i]));
  for (int i = 0; i < r->m; i++) {
    // Scaled, so that sizes compare.
    double z = a->at->z[i] / r->S[i], s = a->at->s[i] * r->S[i];
    bool active = z > NONE * size && z > 1e-9 * s;

    *degenerate += !active && s <= NONE * size;
    a->u[i] = active || !a->bar->s ? 0 : a->bar->s[i];
    if (active) rows[count++] = i;
  }

  return count;
}

// The residual of row i of the adjoint system, scaled: G l - (s/z + F')u - g of z.
static double row_residual(const pbLcpAdjoint *a, int i) {
  PB_ASSERT(a->at->z[i] > 0);
  const pbLcp *l = a->l;
  double sum = pbDense_Dot(l->G + (size_t)i * (size_t)l->n, a->lambda, l->n) - a->at->s[i] / a->at->z[i] * a->u[i];

  if (l->F) {
    for (int j = 0; j < l->m; j++) sum -= l->F[(size_t)j * (size_t)l->m + (size_t)i] * a->u[j];
  }
  if (a->bar->z) sum -= a->bar->z[i];
  return sum * a->w->reduced.S[i];
}

// The same of all active rows, by blocks; out: m. Returns the largest.
static double residual_condensed(pbLcpAdjoint *a, const bool *active, double *out) {
  pbReduced *r = &a->w->reduced;
  double *own = a->w->interior.dz, *scaled = a->w->interior.ds, worst = 0;

  // M' by G and F' in turn.
  for (int i = 0; i < r->m; i++) scaled[i] = a->u[i] / r->S[i];
  pbCondensed_Rows(&a->w->condensed, a->lambda, out);
  pbCondensed_OwnT(&a->w->condensed, scaled, own);

  for (int i = 0; i < r->m; i++) {
    // Rows with z = 0 have no equation: u there is the cotangent of s.
    if (!active[i]) {
      out[i] = 0;
      continue;
    }

    out[i] -= own[i] + a->at->s[i] / a->at->z[i] * r->S[i] * a->u[i];
    if (a->bar->z) out[i] -= a->bar->z[i] * r->S[i];
    worst = fmax(worst, fabs(out[i]));
  }

  return worst;
}

// The regularized matrix, factored. How singular the matrix is without that shows in how fast its determinant grows with what is
// added: deficiency is the power. False where a pivot is none.
static bool factor_condensed(pbLcpAdjoint *a, const int *rows, int k, int *deficiency) {
  pbInterior *in = &a->w->interior;
  const pbReduced *r = &a->w->reduced;
  double grown[2];

  for (int i = 0; i < r->m; i++) in->active[i] = false;
  for (int i = 0; i < k; i++) in->active[rows[i]] = true;

  for (int round = 0; round < 2; round++) {
    double added = (round ? 1 : 10) * PB_CONDENSED_DELTA;
    for (int i = 0; i < k; i++) {
      int row = rows[i];
      in->d[row] = a->at->s[row] / a->at->z[row] * r->S[row] * r->S[row] + added;
    }
    if (!pbCondensed_Factor(&a->w->condensed, in->d, in->active)) return false;
    grown[round] = a->w->condensed.log_det;
  }

  *deficiency = (int)lround((grown[0] - grown[1]) / pbLog(10));
  return true;
}

// u of the active rows in the condensed form: the regularized matrix is used until what it adds is gone. False where this does
// not lead to the end.
static bool solve_condensed(pbLcpAdjoint *a, const int *rows, int k, pbLcpAdjointReport *report) {
  pbInterior *in = &a->w->interior;
  pbReduced *r = &a->w->reduced;
  pbCondensed *c = &a->w->condensed;
  double first = 0, rest = INFINITY, last;
  int deficiency;
  if (!factor_condensed(a, rows, k, &deficiency)) return false;

  // lambda and nu without the active rows' u.
  pbLcpAdjoint_Primal(a);
  for (int round = 0; round < 8; round++) {
    last = rest;
    rest = residual_condensed(a, in->active, in->r);
    if (!round) first = rest;
    if (rest <= 1e-13 * first || !(rest < .5 * last)) break;
    pbCondensed_SolveT(c, in->r);
    for (int i = 0; i < k; i++) a->u[rows[i]] += in->r[rows[i]] * r->S[rows[i]];
    pbLcpAdjoint_Primal(a);
  }

  report->deficiency = deficiency;
  report->condition = fmax(r->condition, pbCondensed_Condition(c, in->r, in->t));
  report->residual = first > 0 ? rest / first : 0;

  return report->residual <= 1e-11;
}

// u of the active rows: (M' + s/z) u = what is left without them. A second round takes the rounding out.
static void solve_dense(pbLcpAdjoint *a, const int *rows, int k, pbLcpAdjointReport *report) {
  pbInterior *in = &a->w->interior;
  pbReduced *r = &a->w->reduced;

  // Column j of the transposed matrix: row j of M.
  in->cod.n = k;
  for (int j = 0; j < k; j++) {
    for (int i = 0; i < k; i++)
      in->cod.A[(size_t)j * (size_t)k + (size_t)i] = r->M[(size_t)rows[j] * (size_t)r->m + (size_t)rows[i]];
  }
  for (int i = 0; i < k; i++)
    in->cod.A[(size_t)i * (size_t)(k + 1)] += a->at->s[rows[i]] / a->at->z[rows[i]] * r->S[rows[i]] * r->S[rows[i]];
  pbDenseCod_Factor(&in->cod, SINGULAR);

  // The residual without the active rows' u comes first.
  pbLcpAdjoint_Primal(a);
  double first = 0, rest = 0;

  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < k; i++) in->r[i] = row_residual(a, rows[i]);
    if (!round) first = pbDense_MaxAbs(in->r, k);
    pbDenseCod_Solve(&in->cod, in->r, in->t);
    for (int i = 0; i < k; i++) a->u[rows[i]] += in->r[i] * r->S[rows[i]];
    pbLcpAdjoint_Primal(a);
  }

  for (int i = 0; i < k; i++) rest = fmax(rest, fabs(row_residual(a, rows[i])));
  report->deficiency = k - in->cod.rank;
  report->condition = fmax(r->condition, in->cod.condition);
  report->residual = first > 0 ? rest / first : 0;
}

// u, lambda and nu: condensed where that pays and leads to the end, else dense.
static void solve_adjoint(pbLcpAdjoint *a, pbLcpAdjointReport *report) {
  pbReduced *r = &a->w->reduced;
  int *rows = a->w->interior.rows;

  if (a->w->condensed.pays) {
    report->active = active_rows(a, rows, &report->degenerate);
    if (!report->active) {
      pbLcpAdjoint_Primal(a);
      return;
    }

    if (solve_condensed(a, rows, report->active, report)) return;
  }

  report->degenerate = 0;
  pbReduced_Matrices(r, a->l);
  report->active = active_rows(a, rows, &report->degenerate);
  if (report->active) solve_dense(a, rows, report->active, report);
  else pbLcpAdjoint_Primal(a);
}

pbStatus pbLcp_Vjp(pbContext *ctx, const pbLcp *l, const pbLcpSolution *at, const pbLcpCotangent *cotangent, void *work,
                   size_t work_size, const pbLcpBar *bar, pbLcpAdjointReport *report) {
  pbLcpAdjointReport own;
  if (!report) report = &own;
  *report = (pbLcpAdjointReport){.condition = 1};

  // A solution, as pbLcp_Solve hands it out.
  PB_TRY(pbLcpWork_Check(ctx, l, work_size, pbLcp_WorkSize(l->n, l->m, l->e)));
  PB_TRY(pbLcpAdjoint_Check(ctx, l, at, cotangent));
  for (int i = 0; i < l->m; i++) {
    if (at->z[i] < 0 || at->s[i] < 0) return pbContext_Fail(ctx, pb_bad_input, "LCP: row %d of the solution is negative", i);
  }

  pbLcpWork w;
  pbArena arena = pbArena_Over(work, work_size);
  pbLcpWork_Layout(&arena, &w, l->n, l->m, l->e, l->m);

  // Scales and factors are those of the solve.
  int row;
  pbStatus status = pbReduced_Begin(&w.reduced, l, &row);
  if (status) return pbContext_Fail(ctx, status, "LCP: Q is not positive definite (row %d)", row);

  pbCondensed_Make(&w.condensed, &w.reduced, l, 1);
  pbLcpAdjoint a = {l, at, cotangent, &w, w.x, w.y, w.z};
  report->condition = w.reduced.condition;
  solve_adjoint(&a, report);

  return pbLcpAdjoint_HandOut(ctx, &a, bar);
}
