#include "pullback/lcp.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "lcp/work.h"

const char *pbLcpMethod_Name(pbLcpMethod method) {
  static const char *names[pb_lcpMethodCount] = {"interior", "path"};
  return method < pb_lcpMethodCount ? names[method] : "unknown";
}

static void layout(pbArena *a, pbLcpWork *w, int n, int m, int e) {
  pbReduced_Layout(a, &w->reduced, n, m, e);
  pbInterior_Layout(a, &w->interior, m);
  w->x = pbArena_Take(a, (size_t)n, sizeof(double));
  w->y = pbArena_Take(a, (size_t)e, sizeof(double));
  w->z = pbArena_Take(a, (size_t)m, sizeof(double));
  w->s = pbArena_Take(a, (size_t)m, sizeof(double));
  w->rhs = pbArena_Take(a, (size_t)n, sizeof(double));
}

size_t pbLcp_WorkSize(int n, int m, int e) {
  if (n < 1 || m < 0 || e < 0 || n > 20000 || m > 20000 || e > 20000) return 0;
  pbArena a = pbArena_Measure();
  pbLcpWork w;
  layout(&a, &w, n, m, e);
  return pbArena_Needed(&a);
}

bool pbLcp_AllFinite(const double *x, size_t count) {
  if (!x) return true;
  for (size_t i = 0; i < count; i++)
    if (!isfinite(x[i])) return false;
  return true;
}

pbStatus pbLcpWork_Begin(pbContext *ctx, const pbLcp *l, void *work, size_t work_size, pbLcpWork *w) {
  size_t need = pbLcp_WorkSize(l->n, l->m, l->e), n = (size_t)l->n, m = (size_t)l->m, e = (size_t)l->e;
  if (!need) return pbContext_Fail(ctx, pb_bad_argument, "LCP: sizes n %d, m %d, e %d", l->n, l->m, l->e);
  if (work_size < need) return pbContext_Fail(ctx, pb_bad_argument, "LCP: %zu bytes of work, %zu needed", work_size, need);
  const struct {
    const char *name;
    const double *data;
    size_t count;
    bool optional;
  } arrays[] = {{"Q", l->Q, n * n, 0}, {"p", l->p, n, 0},     {"G", l->G, m * n, 0}, {"h", l->h, m, 0},
                {"F", l->F, m * m, 1}, {"A", l->A, e * n, 0}, {"b", l->b, e, 0}};
  for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++) {
    if (!arrays[k].count || (arrays[k].optional && !arrays[k].data)) continue;
    if (!arrays[k].data) return pbContext_Fail(ctx, pb_bad_argument, "LCP: %s is missing", arrays[k].name);
    if (!pbLcp_AllFinite(arrays[k].data, arrays[k].count))
      return pbContext_Fail(ctx, pb_bad_input, "LCP: %s has an entry that is not finite", arrays[k].name);
  }
  pbArena a = pbArena_Over(work, work_size);
  layout(&a, w, l->n, l->m, l->e);
  return pb_ok;
}

// From the scaled z: everything else.
static void recover(pbLcpWork *w, const pbLcp *l) {
  pbReduced *r = &w->reduced;
  for (int i = 0; i < l->m; i++) w->z[i] = w->interior.zbest[i] * r->S[i] * r->size;
  memcpy(w->rhs, l->p, sizeof(double) * (size_t)l->n);
  pbDense_AddMulT(w->rhs, l->G, w->z, l->m, l->n);
  pbReduced_Primal(r, w->rhs, l->b, w->x, w->y);
  for (int i = 0; i < l->m; i++) {
    w->s[i] = l->h[i] - pbDense_Dot(l->G + (size_t)i * (size_t)l->n, w->x, l->n);
    if (l->F) w->s[i] += pbDense_Dot(l->F + (size_t)i * (size_t)l->m, w->z, l->m);
  }
}

// How well the problem as it was stated is satisfied.
static void measure(pbLcpWork *w, const pbLcp *l, pbLcpReport *report) {
  int n = l->n;
  report->complementarity = report->equality = report->stationarity = 0;
  for (int i = 0; i < l->m; i++) {
    double off = fabs(fmin(w->s[i], w->z[i]));
    if (!(off <= report->complementarity)) report->complementarity = off, report->worst_row = i;
  }
  for (int i = 0; i < l->e; i++) {
    double off = fabs(pbDense_Dot(l->A + (size_t)i * (size_t)n, w->x, n) - l->b[i]);
    if (!(off <= report->equality)) report->equality = off;
    if (!(off <= report->complementarity) && off >= report->equality) report->worst_row = l->m + i;
  }
  for (int i = 0; i < n; i++) {
    double off = l->p[i];
    for (int j = 0; j < n; j++) off += l->Q[(size_t)(i > j ? i : j) * (size_t)n + (size_t)(i > j ? j : i)] * w->x[j];
    w->rhs[i] = off;
  }
  pbDense_AddMulT(w->rhs, l->G, w->z, l->m, n);
  pbDense_AddMulT(w->rhs, l->A, w->y, l->e, n);
  report->stationarity = pbDense_MaxAbs(w->rhs, n);
}

pbStatus pbLcp_Solve(pbContext *ctx, const pbLcp *l, const pbLcpOptions *options, void *work, size_t work_size,
                     const pbLcpSolution *out, pbLcpReport *report) {
  pbLcpReport own;
  if (!report) report = &own;
  *report = (pbLcpReport){.worst_row = -1, .complementarity = INFINITY, .equality = INFINITY, .stationarity = INFINITY};
  double tolerance = options && options->tolerance > 0 ? options->tolerance : 1e-10;
  pbLcpWork w;
  PB_TRY(pbLcpWork_Begin(ctx, l, work, work_size, &w));
  pbInterior *in = &w.interior;
  int row;
  pbStatus status = pbReduced_Make(&w.reduced, l, &row);
  report->condition = w.reduced.condition;
  if (status)
    return pbContext_Fail(ctx, status, "LCP: Q is not positive definite (row %d, condition above %.1e)", row,
                          w.reduced.condition);
  in->M = w.reduced.M;
  in->q = w.reduced.q;
  in->limit = options && options->iterations > 0 ? options->iterations : 1500;
  in->tolerance = fmin(1e-12, tolerance);
  pbInterior_Solve(in, &report->method);
  recover(&w, l);
  measure(&w, l, report);
  report->scale = fmax(1, fmax(pbDense_MaxAbs(l->p, l->n), fmax(pbDense_MaxAbs(l->h, l->m), pbDense_MaxAbs(l->b, l->e))));
  report->iterations = in->iterations;
  report->condition = fmax(w.reduced.condition, in->condition);
  report->dropped_rows = l->e - w.reduced.rank;
  double worst = fmax(report->complementarity, fmax(report->equality, report->stationarity));
  if (!(worst <= tolerance * report->scale))
    return pbContext_Fail(
        ctx, pb_no_convergence,
        "LCP: complementarity %.1e, equality %.1e, stationarity %.1e after %d factorisations, scale %.1e; worst "
        "row %d, condition %.1e",
        report->complementarity, report->equality, report->stationarity, report->iterations, report->scale, report->worst_row,
        report->condition);
  for (int i = 0; i < l->m; i++) {
    bool open = w.s[i] > w.z[i];
    out->z[i] = open ? 0 : w.z[i];
    out->s[i] = open ? w.s[i] : 0;
  }
  memcpy(out->x, w.x, sizeof(double) * (size_t)l->n);
  if (l->e) memcpy(out->y, w.y, sizeof(double) * (size_t)l->e);
  return pb_ok;
}
