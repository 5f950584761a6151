#include "pullback/lcp.h"

#include <math.h>
#include <string.h>

#include "complementarity/work.h"

const char *pbLcpMethod_Name(pbLcpMethod method) {
  static const char *names[pb_lcpMethodCount] = {"interior", "path"};
  return method < pb_lcpMethodCount ? names[method] : "unknown";
}

size_t pbLcp_WorkSize(int n, int m, int e) {
  if (!pbLcpWork_SizesFit(n, m, e)) return 0;
  pbArena a = pbArena_Measure();
  pbLcpWork w;
  pbLcpWork_Layout(&a, &w, n, m, e, m);

  return pbArena_Needed(&a);
}

// Condensed where that is cheaper and leads to a solution; otherwise dense.
static void find(pbLcpWork *w, const pbLcp *l, pbLcpMethod *method) {
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

pbStatus pbLcp_Solve(pbContext *ctx, const pbLcp *l, const pbLcpOptions *options, void *work, size_t work_size,
                     const pbLcpSolution *out, pbLcpReport *report) {
  pbLcpReport own;
  if (!report) report = &own;
  *report = (pbLcpReport){.worst_row = -1, .complementarity = INFINITY, .equality = INFINITY, .stationarity = INFINITY};
  double tolerance = options && options->tolerance > 0 ? options->tolerance : 1e-10;
  pbLcpWork w;
  PB_TRY(pbLcpWork_Check(ctx, l, work_size, pbLcp_WorkSize(l->n, l->m, l->e)));
  pbArena a = pbArena_Over(work, work_size);
  pbLcpWork_Layout(&a, &w, l->n, l->m, l->e, l->m);
  pbInterior *in = &w.interior;
  int row;
  pbStatus status = pbReduced_Begin(&w.reduced, l, &row);
  report->condition = w.reduced.condition;
  if (status)
    return pbContext_Fail(ctx, status, "LCP: Q is not positive definite (row %d, condition above %.1e)", row,
                          w.reduced.condition);
  in->q = w.reduced.q;
  in->limit = options && options->iterations > 0 ? options->iterations : 1500;
  in->tolerance = fmin(1e-12, tolerance);
  find(&w, l, &report->method);
  report->iterations = in->iterations;
  pbLcpWork_Recover(&w, l, in->zbest);
  report->complementarity = 0;

  for (int i = 0; i < l->m; i++) {
    double off = fabs(fmin(w.s[i], w.z[i]));
    if (!(off <= report->complementarity)) {
      report->complementarity = off;
      report->worst_row = i;
    }
  }

  PB_TRY(pbLcpWork_Judge(ctx, &w, l, tolerance, report));
  for (int i = 0; i < l->m; i++) {
    bool open = w.s[i] > w.z[i];
    out->z[i] = open ? 0 : w.z[i];
    out->s[i] = open ? w.s[i] : 0;
  }

  memcpy(out->x, w.x, sizeof(double) * (size_t)l->n);
  if (l->e) memcpy(out->y, w.y, sizeof(double) * (size_t)l->e);
  return pb_ok;
}
