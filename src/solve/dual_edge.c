// Where the laws of hard contact have a kink: rows that are idle or at the edge of a bound, to rounding.
// Tests: tests/unit/test_hard.c, tests/oracle/test_jammed.py.
#include "base/assert.h"
#include "contact/law.h"
#include "contact/row.h"
#include "eval/work.h"
#include "solve/dual.h"
#include "solve/dual_parts.h"

static const double share = 1e-12;  // of the terms of a residual: what rounding may leave of it

// What rounding may make of entry j of a row's residual x = J a - aref + A f.
static double rounding(const NUM(pbWork) *w, const NUM(pbRow) *r, int j) {
  const double *A = w->dual.A + (r->at + j) * w->dual.n;
  double sum = fabs(re(r->aref[j]));

  for (int i = 0; i < r->n; i++) sum += fabs(re(w->row_J[r->J + j * r->n + i]) * re(w->qacc_smooth[w->row_dofs[r->dofs + i]]));
  for (int i = 0; i < w->dual.n; i++) sum += fabs(A[i] * w->dual.f[i]);
  return share * sum;
}

// Does it neither push nor part, to so many times what rounding makes?
static bool is_idle(const NUM(pbWork) *w, const NUM(pbRow) *r, double times) {
  double rho = w->dual.rho[r->at];
  return is_one_sided(r) && fabs(w->dual.f[r->at] - rho * w->dual.x[r->at]) <= times * rho * rounding(w, r, 0);
}

void NUM(pbDual_OpenIdle)(NUM(pbWork) *w) {
  if (w->dual.kappa > 0) return;
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    if (r->zone && is_idle(w, r, 1)) r->zone = pb_zoneOpen;
  }
}

// Does the slope of the law jump where x moves to y?
static bool slope_jumps(const NUM(pbWork) *w, const NUM(pbRow) *r, const double *x, const double *y) {
  const double *f = w->dual.f + r->at;
  pbLaw here, there;
  double most = 0;
  double moved = 0;

  NUM(pbLaw_At)(w, r, f, x, &here);
  NUM(pbLaw_At)(w, r, f, y, &there);
  for (int i = 0; i < r->dim * r->dim; i++) {
    most = fmax(most, fmax(fabs(here.Nf[i]), fabs(there.Nf[i])));
    moved = fmax(moved, fabs(here.Nf[i] - there.Nf[i]));
  }
  return moved > 1e-3 * most;
}

pbEdge NUM(pbDual_Edge)(const NUM(pbWork) *w, const NUM(pbRow) *r) {
  double x[6];
  PB_ASSERT(r->dim <= 6);
  if (r->kind == pb_rowEquality || w->dual.kappa > 0) return pb_edgeNone;

  // What rises by the speed that it was given to come to rest at the surface is idle to the softness of rows.
  if (is_idle(w, r, 1e4)) return pb_edgeIdle;
  if (!r->zone) return pb_edgeNone;

  // Both ways along each number.
  for (int side = 0; side < 2 * r->dim; side++) {
    int j = side / 2;
    memcpy(x, w->dual.x + r->at, (size_t)r->dim * sizeof(double));
    x[j] += (side % 2 ? 1 : -1) * rounding(w, r, j);
    if (slope_jumps(w, r, w->dual.x + r->at, x)) return pb_edgeBound;
  }
  return pb_edgeNone;
}

int NUM(pbDual_Branch)(const NUM(pbWork) *w, const NUM(pbRow) *r) {
  pbLaw law;
  int branch = 0;
  if (!r->zone || w->dual.kappa > 0) return 0;
  NUM(pbLaw_Here)(w, r, &law);
  if (pb_bounded(r)) return law.Nf[0] != 0;
  if (!is_contact(r)) return 0;

  // The disk is one bound for all, of other shapes each number has its own sides.
  bool disk = w->m->contact.method == pb_contactCones;
  for (int i = 1; i < r->dim; i++) {
    double g = law.Nf[i * r->dim];
    if (disk && g != 0) branch = 1;
    if (!disk) branch = 3 * branch + (g > 0) + 2 * (g < 0);
  }
  return branch;
}
