// The adjoint of hard contact. With q = J M^-1 c + g, c and g the cotangents of qacc and of the rows' forces:
//
//   T'u = q (T = Nw A + Nf, over rows that are not held; or by way of the dofs, see dual.c),   z = Nw'u,   lam = M^-1 (c - J'z)
//
// and the cotangents are  z . (-dJ a + d(aref) - f dR),  -u . (dN by mu and loss),  lam . (the residual of the equations of
// motion).
#include "contact/law.h"
#include "eval/adjoint.h"
#include "solve/dual.h"

// x := A'^-1 x of P A = L U; y is room for as many.
static void solve_transposed(const double *LU, const int *perm, int n, lane *x, lane *y) {
  memcpy(y, x, (size_t)n * sizeof(lane));
  for (int k = 0; k < n; k++) {
    const double *row = LU + k * n;
    y[k] /= row[k];
    for (int j = k + 1; j < n; j++) y[j] -= row[j] * y[k];
  }
  for (int k = n - 1; k >= 0; k--) {
    const double *row = LU + k * n;
    for (int j = 0; j < k; j++) y[j] -= row[j] * y[k];
  }
  for (int k = 0; k < n; k++) x[perm[k]] = y[k];
}

// u = B^-T (J lam + y0), z = Nw'u = K'(J lam + y0), with lam from  H'lam = c - J'K'y0.
static void by_dofs(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  for (int side = 0, at = 0; side < 2; side++, at = 0) {
    for (int k = 0; k < w->nrow; k++) {
      const NUM(pbRow) *r = w->row + k;
      const double *B = w->dual.Binv + 36 * k, *K = w->dual.K + 36 * k;
      lane *z = a->z + 6 * k, y[6], minus[6];
      if (!r->zone) continue;
      for (int i = 0; i < 6; i++) y[i] = PB_LANE_ZERO;
      if (side) LANE(pbRow_Times)(w, r, a->lam, y);
      for (int i = 0; i < r->dim; i++) y[i] += a->y0[6 * k + i];
      for (int i = 0; i < r->dim; i++) {
        z[i] = a->u[at + i] = PB_LANE_ZERO;
        for (int j = 0; j < r->dim; j++) z[i] += K[j * r->dim + i] * y[j], a->u[at + i] += B[j * r->dim + i] * y[j];
        minus[i] = -z[i];
      }
      if (!side) LANE(pbRow_AddForce)(w, r, minus, a->lam);
      at += r->dim;
    }
    if (!side) solve_transposed(w->dual.LU, w->dual.perm, w->m->nv, a->lam, a->c);
  }
}

pbStatus LANE(pbDual_Adjoint)(LANE(pbAdjoint) *a) {
  NUM(pbWork) *w = (NUM(pbWork) *)a->w;
  const pbTreePattern *tree = &w->t->M;
  size_t bytes = (size_t)w->m->nv * sizeof(lane);
  lane *free = a->c, *u = a->u;
  int at = 0;
  memcpy(a->lam, a->qacc, bytes);
  if (!w->nrow) {
    LANE(pbSweep_Solve)(&w->H, w->H_LD, w->H_Dinv, a->lam);
    return pb_ok;
  }
  if (a->fresh_dual) PB_TRY(NUM(pbDual_Factor)(w));
  a->fresh_dual = false;
  if (w->dual.condensed) {
    by_dofs(a);
    return pb_ok;
  }
  memcpy(free, a->qacc, bytes);
  LANE(pbSweep_Solve)(tree, w->LD, w->Dinv, free);
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (!r->zone) continue;
    LANE(pbRow_Times)(w, r, free, u + at);
    for (int i = 0; i < r->dim; i++) u[at + i] += a->y0[6 * k + i];
    at += r->dim;
  }
  solve_transposed(w->dual.LU, w->dual.perm, w->dual.count, u, u + w->dual.count);
  at = 0;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    lane *z = a->z + 6 * k, minus[6];
    pbLaw law;
    if (!r->zone) continue;
    NUM(pbLaw_Here)(w, r, &law);
    for (int i = 0; i < r->dim; i++) {
      z[i] = PB_LANE_ZERO;
      for (int j = 0; j < r->dim; j++) z[i] += law.Nw[j * r->dim + i] * u[at + j];
      minus[i] = -z[i];
    }
    LANE(pbRow_AddForce)(w, r, minus, a->lam);
    at += r->dim;
  }
  LANE(pbSweep_Solve)(tree, w->LD, w->Dinv, a->lam);
  return pb_ok;
}
