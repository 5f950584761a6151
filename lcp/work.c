// What the linear problem and the one with cones have in common.
// Tests: tests/unit/test_condensed.c.
#include "lcp/work.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

static const int LARGEST = 20000;

bool pbLcpWork_SizesFit(int n, int m, int e) {
  return n >= 1 && m >= 0 && e >= 0 && n <= LARGEST && m <= LARGEST && e <= LARGEST;
}

// inner: rows of the problem that the interior point method works on.
void pbLcpWork_Layout(pbArena *a, pbLcpWork *w, int n, int m, int e, int inner) {
  PB_ASSERT(n >= 1 && m >= 0 && e >= 0 && inner >= m);
  pbReduced_Layout(a, &w->reduced, n, m, e);
  pbCondensed_Layout(a, &w->condensed, n, m);
  pbInterior_Layout(a, &w->interior, inner);
  w->x = pbArena_Take(a, (size_t)n, sizeof(double));
  w->y = pbArena_Take(a, (size_t)e, sizeof(double));
  w->z = pbArena_Take(a, (size_t)m, sizeof(double));
  w->s = pbArena_Take(a, (size_t)m, sizeof(double));
  w->rhs = pbArena_Take(a, (size_t)n, sizeof(double));
}

// A finite number times zero is zero; four sums, which go side by side.
static bool all_finite(const double *x, size_t count) {
  double sum[4] = {0};
  size_t i = 0;

  for (; i + 4 <= count; i += 4) {
    for (int k = 0; k < 4; k++) sum[k] += 0 * x[i + (size_t)k];
  }
  for (; i < count; i++) sum[0] += 0 * x[i];

  return sum[0] + sum[1] + sum[2] + sum[3] == 0;
}

pbStatus pbLcpWork_CheckArray(pbContext *ctx, const char *name, const double *data, size_t count, bool optional) {
  if (!count || (optional && !data)) return pb_ok;
  if (!data) return pbContext_Fail(ctx, pb_bad_argument, "LCP: %s is missing", name);
  if (!all_finite(data, count)) return pbContext_Fail(ctx, pb_bad_input, "LCP: %s has an entry that is not finite", name);

  return pb_ok;
}

pbStatus pbLcpWork_Check(pbContext *ctx, const pbLcp *l, size_t work_size, size_t need) {
  size_t n = (size_t)l->n, m = (size_t)l->m, e = (size_t)l->e;
  if (!need)
    return pbContext_Fail(ctx, pb_bad_argument, "LCP: sizes %d unknowns, %d inequalities, %d equalities", l->n, l->m, l->e);
  if (work_size < need) return pbContext_Fail(ctx, pb_bad_argument, "LCP: %zu bytes of work, %zu needed", work_size, need);

  // Every number is finite: what follows need not look.
  PB_TRY(pbLcpWork_CheckArray(ctx, "Q", l->Q, n * n, false));
  PB_TRY(pbLcpWork_CheckArray(ctx, "p", l->p, n, false));
  PB_TRY(pbLcpWork_CheckArray(ctx, "G", l->G, m * n, false));
  PB_TRY(pbLcpWork_CheckArray(ctx, "h", l->h, m, false));
  PB_TRY(pbLcpWork_CheckArray(ctx, "F", l->F, m * m, true));
  PB_TRY(pbLcpWork_CheckArray(ctx, "A", l->A, e * n, false));

  return pbLcpWork_CheckArray(ctx, "b", l->b, e, false);
}

// From the scaled z: everything else.
void pbLcpWork_Recover(pbLcpWork *w, const pbLcp *l, const double *z) {
  pbReduced *r = &w->reduced;

  // In the caller's units: row i of z is scaled by S_i, and all of it by the size of q.
  for (int i = 0; i < l->m; i++) w->z[i] = z[i] * r->S[i] * r->size;

  // rhs = p + G'z, of which x and y follow.
  memcpy(w->rhs, l->p, sizeof(double) * (size_t)l->n);
  pbDense_AddMulT(w->rhs, l->G, w->z, l->m, l->n);
  pbReduced_Primal(r, w->rhs, l->b, w->x, w->y);

  // s = h - G x + F z, by the problem as stated.
  for (int i = 0; i < l->m; i++) {
    w->s[i] = l->h[i] - pbDense_Dot(l->G + (size_t)i * (size_t)l->n, w->x, l->n);
    if (l->F) w->s[i] += pbDense_Dot(l->F + (size_t)i * (size_t)l->m, w->z, l->m);
  }
}

pbStatus pbLcpWork_Judge(pbContext *ctx, pbLcpWork *w, const pbLcp *l, double tolerance, pbLcpReport *report) {
  int n = l->n;

  // A x = b.
  report->equality = 0;
  for (int i = 0; i < l->e; i++) {
    double off = fabs(pbDense_Dot(l->A + (size_t)i * (size_t)n, w->x, n) - l->b[i]);
    if (!(off <= report->equality)) report->equality = off;
    if (!(off <= report->complementarity) && off >= report->equality) report->worst_row = l->m + i;
  }

  // Q x + p + G'z + A'y = 0, of Q its lower triangle.
  for (int i = 0; i < n; i++) {
    double off = l->p[i];
    for (int j = 0; j < n; j++) off += l->Q[(size_t)(i > j ? i : j) * (size_t)n + (size_t)(i > j ? j : i)] * w->x[j];
    w->rhs[i] = off;
  }

  pbDense_AddMulT(w->rhs, l->G, w->z, l->m, n);
  pbDense_AddMulT(w->rhs, l->A, w->y, l->e, n);
  report->stationarity = pbDense_MaxAbs(w->rhs, n);

  // All by the size of the data; what dependent rows of A ask for shows in the equality.
  report->scale = fmax(1, fmax(pbDense_MaxAbs(l->p, n), fmax(pbDense_MaxAbs(l->h, l->m), pbDense_MaxAbs(l->b, l->e))));
  report->condition = fmax(w->reduced.condition, w->interior.condition);
  report->dropped_rows = l->e - w->reduced.rank;
  double worst = fmax(report->complementarity, fmax(report->equality, report->stationarity));
  if (worst <= tolerance * report->scale && isfinite(worst)) return pb_ok;

  return pbContext_Fail(ctx, pb_no_convergence,
                        "LCP: complementarity %.1e, equality %.1e, stationarity %.1e after %d factorisations, scale %.1e; worst "
                        "row %d, condition %.1e",
                        report->complementarity, report->equality, report->stationarity, report->iterations, report->scale,
                        report->worst_row, report->condition);
}

// ---- adjoint --------------------------------------------------------------------------------------------------------
pbStatus pbLcpAdjoint_Check(pbContext *ctx, const pbLcp *l, const pbLcpSolution *at, const pbLcpCotangent *bar) {
  size_t n = (size_t)l->n, m = (size_t)l->m, e = (size_t)l->e;
  PB_TRY(pbLcpWork_CheckArray(ctx, "x", at->x, n, false));
  PB_TRY(pbLcpWork_CheckArray(ctx, "y", at->y, e, false));
  PB_TRY(pbLcpWork_CheckArray(ctx, "z", at->z, m, false));
  PB_TRY(pbLcpWork_CheckArray(ctx, "s", at->s, m, false));
  PB_TRY(pbLcpWork_CheckArray(ctx, "cotangent on x", bar->x, n, true));
  PB_TRY(pbLcpWork_CheckArray(ctx, "cotangent on y", bar->y, e, true));
  PB_TRY(pbLcpWork_CheckArray(ctx, "cotangent on z", bar->z, m, true));

  return pbLcpWork_CheckArray(ctx, "cotangent on s", bar->s, m, true);
}

// lambda and nu from u: Q l + A'v + G'u = g, A l = g of y. The same system as that of x and y.
void pbLcpAdjoint_Primal(pbLcpAdjoint *a) {
  double *rhs = a->w->rhs;
  for (int i = 0; i < a->l->n; i++) rhs[i] = a->bar->x ? -a->bar->x[i] : 0;
  pbDense_AddMulT(rhs, a->l->G, a->u, a->l->m, a->l->n);
  pbReduced_Primal(&a->w->reduced, rhs, a->bar->y, a->lambda, a->nu);
}

static void add_outer(double *out, double scale, const double *a, const double *b, int rows, int cols) {
  for (int i = 0; i < rows; i++) {
    if (a[i] != 0) pbDense_Add(out + (size_t)i * (size_t)cols, scale * a[i], b, cols);
  }
}

pbStatus pbLcpAdjoint_HandOut(pbContext *ctx, const pbLcpAdjoint *a, const pbLcpBar *bar) {
  const double *x = a->at->x, *y = a->at->y, *z = a->at->z;
  int n = a->l->n, m = a->l->m, e = a->l->e;

  if (!all_finite(a->lambda, (size_t)n) || !all_finite(a->u, (size_t)m) || !all_finite(a->nu, (size_t)e))
    return pbContext_Fail(ctx, pb_not_finite, "LCP: the adjoint left the range of finite numbers");

  // Minus the multipliers times the residuals' derivatives; that by Q symmetric.
  if (bar->p) pbDense_Add(bar->p, -1, a->lambda, n);

  if (bar->Q) {
    add_outer(bar->Q, -.5, a->lambda, x, n, n);
    add_outer(bar->Q, -.5, x, a->lambda, n, n);
  }

  if (bar->h) pbDense_Add(bar->h, 1, a->u, m);

  // Entries of G and A are in two residuals each.
  if (bar->G) {
    add_outer(bar->G, -1, z, a->lambda, m, n);
    add_outer(bar->G, -1, a->u, x, m, n);
  }

  if (bar->F) add_outer(bar->F, 1, a->u, z, m, m);
  if (bar->A) {
    add_outer(bar->A, -1, y, a->lambda, e, n);
    add_outer(bar->A, -1, a->nu, x, e, n);
  }

  if (bar->b) pbDense_Add(bar->b, 1, a->nu, e);
  return pb_ok;
}
