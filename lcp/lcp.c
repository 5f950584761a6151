// Linear complementarity problems on dense matrices (pullback/lcp.h): reduced to the inequalities, solved by an interior point
// method or a homotopy, and checked against the problem as stated. A library of its own (docs/lcp.md): the engine's method=lcp
// is src/solve/dual*.c.
// The derivative: vjp.c. Tests: tests/unit/test_lcp.c.
#include <pullback/lcp.h>

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "lcp/work.h"

const char *pbLcpMethod_Name(pbLcpMethod method) {
  static const char *names[pb_lcpMethodCount] = {"interior", "path"};
  return (unsigned)method < pb_lcpMethodCount ? names[method] : "unknown";
}

size_t pbLcp_WorkSize(int n, int m, int e) {
  if (!pbLcpWork_SizesFit(n, m, e)) return 0;
  pbArena a = pbArena_Measure();
  pbLcpWork w;
  pbLcpWork_Layout(&a, &w, n, m, e, m);

  return pbArena_Needed(&a);
}

// Condensed where that is cheaper and leads to a solution; otherwise dense.
static void solve_reduced(pbLcpWork *w, const pbLcp *l, pbLcpMethod *method) {
  pbInterior *in = &w->interior;
  pbCondensed_Make(&w->condensed, &w->reduced, l, 1);
  in->condensed = w->condensed.pays ? &w->condensed : NULL;

  if (in->condensed) {
    pbReduced_Vector(&w->reduced, l);
    if (pbInterior_Solve(in, method)) return;
    in->condensed = NULL;
  }

  pbReduced_Matrices(&w->reduced, l);
  pbReduced_Vector(&w->reduced, l);
  in->M = w->reduced.M;
  pbInterior_Solve(in, method);
}

// Largest |min(s, z)| of all rows, and its row.
static void note_complementarity(const pbLcpWork *w, int m, pbLcpReport *report) {
  report->complementarity = 0;
  for (int i = 0; i < m; i++) {
    double off = fabs(fmin(w->s[i], w->z[i]));
    if (off <= report->complementarity) continue;  // NaN is the worst
    report->complementarity = off;
    report->worst_row = i;
  }
}

// Of each row the smaller one of s and z is exactly zero in the solution that is handed out.
static void write_solution(const pbLcpWork *w, const pbLcp *l, const pbLcpSolution *out) {
  for (int i = 0; i < l->m; i++) {
    bool open = w->s[i] > w->z[i];
    out->z[i] = open ? 0 : w->z[i];
    out->s[i] = open ? w->s[i] : 0;
  }

  memcpy(out->x, w->x, sizeof(double) * (size_t)l->n);
  if (l->e) memcpy(out->y, w->y, sizeof(double) * (size_t)l->e);
}

pbStatus pbLcp_Solve(pbContext *ctx, const pbLcp *l, const pbLcpOptions *options, void *work, size_t work_size,
                     const pbLcpSolution *out, pbLcpReport *report) {
  pbLcpReport own;
  if (!report) report = &own;
  *report = (pbLcpReport){.worst_row = -1, .complementarity = INFINITY, .equality = INFINITY, .stationarity = INFINITY};
  double tolerance = options && options->tolerance > 0 ? options->tolerance : 1e-10;
  PB_TRY(pbLcpWork_Check(ctx, l, work_size, pbLcp_WorkSize(l->n, l->m, l->e)));

  pbLcpWork w;
  pbArena a = pbArena_Over(work, work_size);
  pbLcpWork_Layout(&a, &w, l->n, l->m, l->e, l->m);
  int row;
  pbStatus status = pbReduced_Begin(&w.reduced, l, &row);
  report->condition = w.reduced.condition;
  if (status)
    return pbContext_Fail(ctx, status, "LCP: Q is not positive definite (row %d, condition above %.1e)", row,
                          w.reduced.condition);

  // The reduced problem is solved further than asked for: scales come in between.
  pbInterior *in = &w.interior;
  in->q = w.reduced.q;
  in->limit = options && options->iterations > 0 ? options->iterations : 1500;
  in->tolerance = fmin(1e-12, tolerance);
  solve_reduced(&w, l, &report->method);
  report->iterations = in->iterations;

  pbLcpWork_Recover(&w, l, in->zbest);
  note_complementarity(&w, l->m, report);
  PB_TRY(pbLcpWork_Judge(ctx, &w, l, tolerance, report));
  PB_VALIDATE(pb_allFinite(w.x, (size_t)l->n));
  write_solution(&w, l, out);

  return pb_ok;
}
