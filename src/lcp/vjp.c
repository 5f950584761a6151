// Implicit adjoint of the linear complementarity problem (include/pullback/lcp.h).
#include <math.h>
#include <string.h>

#include "lcp/work.h"

static const double NONE = 1e-11;      // a multiplier or slack below this fraction of the largest counts as zero
static const double SINGULAR = 1e-10;  // a pivot below this fraction of the largest counts as zero

typedef struct Adjoint {
  const pbLcp *l;
  const pbLcpSolution *at;
  const pbLcpCotangent *bar;
  pbLcpWork *w;
  double *lambda, *nu, *u;  // n, e, m
} Adjoint;

// Scaled rows with z > 0, into rows; the others get u from the cotangent on s.
static int active_rows(Adjoint *a, int *rows, int *degenerate) {
  const pbReduced *r = &a->w->reduced;
  double size = 0;
  int count = 0;
  for (int i = 0; i < r->m; i++) size = fmax(size, fmax(a->at->z[i] / r->S[i], a->at->s[i] * r->S[i]));
  for (int i = 0; i < r->m; i++) {
    double z = a->at->z[i] / r->S[i], s = a->at->s[i] * r->S[i];
    bool active = z > NONE * size && z > 1e-9 * s;
    *degenerate += !active && s <= NONE * size;
    a->u[i] = active || !a->bar->s ? 0 : a->bar->s[i];
    if (active) rows[count++] = i;
  }
  return count;
}

// lambda, nu from u: Q l + A'v + G'u = g, A l = g of y
static void primal(Adjoint *a) {
  double *rhs = a->w->rhs;
  for (int i = 0; i < a->l->n; i++) rhs[i] = a->bar->x ? -a->bar->x[i] : 0;
  pbDense_AddMulT(rhs, a->l->G, a->u, a->l->m, a->l->n);
  pbReduced_Primal(&a->w->reduced, rhs, a->bar->y, a->lambda, a->nu);
}

// What is left of row i of the adjoint system, scaled: G l - (s/z + F')u - g of z
static double left(const Adjoint *a, int i) {
  const pbLcp *l = a->l;
  double sum = pbDense_Dot(l->G + (size_t)i * (size_t)l->n, a->lambda, l->n) - a->at->s[i] / a->at->z[i] * a->u[i];
  for (int j = 0; j < l->m && l->F; j++) sum -= l->F[(size_t)j * (size_t)l->m + (size_t)i] * a->u[j];
  if (a->bar->z) sum -= a->bar->z[i];
  return sum * a->w->reduced.S[i];
}

// u of the active rows: (M' + s/z) u = what is left without them. A second round takes the rounding out.
static void solve(Adjoint *a, const int *rows, int k, pbLcpAdjointReport *report) {
  pbInterior *in = &a->w->interior;
  pbReduced *r = &a->w->reduced;
  in->cod.n = k;
  for (int j = 0; j < k; j++)  // column j of the transposed matrix: row j of M
    for (int i = 0; i < k; i++)
      in->cod.A[(size_t)j * (size_t)k + (size_t)i] = r->M[(size_t)rows[j] * (size_t)r->m + (size_t)rows[i]];
  for (int i = 0; i < k; i++)
    in->cod.A[(size_t)i * (size_t)(k + 1)] += a->at->s[rows[i]] / a->at->z[rows[i]] * r->S[rows[i]] * r->S[rows[i]];
  pbDenseCod_Factor(&in->cod, SINGULAR);
  primal(a);
  double first = 0, rest = 0;
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < k; i++) in->r[i] = left(a, rows[i]);
    if (!round) first = pbDense_MaxAbs(in->r, k);
    pbDenseCod_Solve(&in->cod, in->r, in->t);
    for (int i = 0; i < k; i++) a->u[rows[i]] += in->r[i] * r->S[rows[i]];
    primal(a);
  }
  for (int i = 0; i < k; i++) rest = fmax(rest, fabs(left(a, rows[i])));
  report->deficiency = k - in->cod.rank;
  report->condition = fmax(r->condition, in->cod.condition);
  report->residual = first > 0 ? rest / first : 0;
}

static void add_outer(double *out, double scale, const double *a, const double *b, int rows, int cols) {
  for (int i = 0; i < rows; i++)
    if (a[i] != 0) pbDense_Add(out + (size_t)i * (size_t)cols, scale * a[i], b, cols);
}

static void hand_out(const Adjoint *a, const pbLcpBar *bar) {
  const double *x = a->at->x, *y = a->at->y, *z = a->at->z;
  int n = a->l->n, m = a->l->m, e = a->l->e;
  if (bar->p) pbDense_Add(bar->p, -1, a->lambda, n);
  if (bar->Q) add_outer(bar->Q, -.5, a->lambda, x, n, n), add_outer(bar->Q, -.5, x, a->lambda, n, n);
  if (bar->h) pbDense_Add(bar->h, 1, a->u, m);
  if (bar->G) add_outer(bar->G, -1, z, a->lambda, m, n), add_outer(bar->G, -1, a->u, x, m, n);
  if (bar->F) add_outer(bar->F, 1, a->u, z, m, m);
  if (bar->A) add_outer(bar->A, -1, y, a->lambda, e, n), add_outer(bar->A, -1, a->nu, x, e, n);
  if (bar->b) pbDense_Add(bar->b, 1, a->nu, e);
}

static pbStatus check_values(pbContext *ctx, const pbLcp *l, const pbLcpSolution *at, const pbLcpCotangent *bar) {
  size_t n = (size_t)l->n, m = (size_t)l->m, e = (size_t)l->e;
  if (!at->x || (m && (!at->z || !at->s)) || (e && !at->y))
    return pbContext_Fail(ctx, pb_bad_argument, "LCP: the solution is missing");
  if (!pbLcp_AllFinite(at->x, n) || !pbLcp_AllFinite(at->y, e) || !pbLcp_AllFinite(at->z, m) || !pbLcp_AllFinite(at->s, m))
    return pbContext_Fail(ctx, pb_bad_input, "LCP: the solution is not finite");
  for (size_t i = 0; i < m; i++)
    if (at->z[i] < 0 || at->s[i] < 0) return pbContext_Fail(ctx, pb_bad_input, "LCP: row %zu of the solution is negative", i);
  if (!pbLcp_AllFinite(bar->x, n) || !pbLcp_AllFinite(bar->y, e) || !pbLcp_AllFinite(bar->z, m) || !pbLcp_AllFinite(bar->s, m))
    return pbContext_Fail(ctx, pb_bad_input, "LCP: a cotangent is not finite");
  return pb_ok;
}

pbStatus pbLcp_Vjp(pbContext *ctx, const pbLcp *l, const pbLcpSolution *at, const pbLcpCotangent *cotangent, void *work,
                   size_t work_size, const pbLcpBar *bar, pbLcpAdjointReport *report) {
  pbLcpAdjointReport own;
  if (!report) report = &own;
  *report = (pbLcpAdjointReport){.condition = 1};
  pbLcpWork w;
  PB_TRY(pbLcpWork_Begin(ctx, l, work, work_size, &w));
  PB_TRY(check_values(ctx, l, at, cotangent));
  int row;
  pbStatus status = pbReduced_Matrices(&w.reduced, l, &row);
  if (status) return pbContext_Fail(ctx, status, "LCP: Q is not positive definite (row %d)", row);
  Adjoint a = {l, at, cotangent, &w, w.x, w.y, w.z};
  report->active = active_rows(&a, w.interior.rows, &report->degenerate);
  report->condition = w.reduced.condition;
  if (report->active) solve(&a, w.interior.rows, report->active, report);
  else primal(&a);
  if (!pbLcp_AllFinite(a.lambda, (size_t)l->n) || !pbLcp_AllFinite(a.u, (size_t)l->m) || !pbLcp_AllFinite(a.nu, (size_t)l->e))
    return pbContext_Fail(ctx, pb_not_finite, "LCP: the adjoint left the range of finite numbers");
  hand_out(&a, bar);
  return pb_ok;
}
