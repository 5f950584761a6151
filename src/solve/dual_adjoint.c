// The adjoint of hard contact. With q = J M^-1 c + g, c and g the cotangents of qacc and of the rows' forces:
//
//   T'u = q,   z = Nw'u,   lam = M^-1 (c - J'z),   T = Nw A + Nf of active rows (or by way of dofs: dual_newton.c)
//
// and the cotangents are  z . (-dJ a + d(aref) - f dR),  -u . (dN by mu and loss),  lam . (the residual of the equations of
// motion).
// Tests: tests/unit/test_hard.c, tests/oracle/test_jammed.py.
#include "base/assert.h"
#include "contact/law.h"
#include "eval/adjoint.h"
#include "eval/work.h"
#include "solve/dual.h"

// x := A'^-1 x of P A = L U; y is room for as many.
static void solve_transposed(const double *LU, const int *perm, int n, lane *x, lane *y) {
  memcpy(y, x, (size_t)n * sizeof(lane));

  // U'y = x, then L' of the result, both by rows of LU.
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

// lam -= J'z of a row.
static void subtract_force(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const lane *z) {
  lane minus[6];
  for (int i = 0; i < r->dim; i++) minus[i] = -z[i];
  LANE(pbRow_AddForce)(a->constraints, r, minus, a->lam);
}

// ---- by way of the dofs -----------------------------------------------------------------------------------------------
// out = X'y of a row's block X.
static void transposed_times(const NUM(pbRow) *r, const double *X, const lane *y, lane *out) {
  for (int i = 0; i < r->dim; i++) {
    out[i] = PB_LANE_ZERO;
    for (int j = 0; j < r->dim; j++) out[i] += X[j * r->dim + i] * y[j];
  }
}

// H'lam = c - J'K'g, H = M + J'K J.
static void solve_by_dofs(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->work;

  // What the forces' own cotangents ask of the motion.
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    lane z[6];
    if (!r->zone) continue;
    transposed_times(r, w->dual.K + 36 * k, a->y0 + 6 * k, z);
    subtract_force(a, r, z);
  }
  solve_transposed(w->dual.LU, w->dual.perm, w->m->nv, a->lam, a->c);
}

// u = B^-T (J lam + g), z = Nw'u = K'(J lam + g)
static void rows_by_dofs(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->work;
  int at = 0;

  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    lane y[6];
    if (!r->zone) continue;

    // y = J lam + g
    LANE(pbRow_Times)(&w->constraints, r, a->lam, y);
    for (int i = 0; i < r->dim; i++) y[i] += a->y0[6 * k + i];
    transposed_times(r, w->dual.K + 36 * k, y, a->z + 6 * k);
    transposed_times(r, w->dual.Binv + 36 * k, y, a->u + at);
    at += r->dim;
  }
  PB_ASSERT(at == w->dual.count);
}

// ---- by rows ----------------------------------------------------------------------------------------------------------
// T'u = q, q = J M^-1 c + g.
static void solve_by_rows(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->work;
  lane *free = a->c;  // M^-1 c
  lane *u = a->u;

  memcpy(free, a->qacc, (size_t)w->m->nv * sizeof(lane));
  LANE(pbSweep_Solve)(&w->t->M, w->LD, w->Dinv, free);

  // q in the place of u.
  int at = 0;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (!r->zone) continue;
    LANE(pbRow_Times)(&w->constraints, r, free, u + at);
    for (int i = 0; i < r->dim; i++) u[at + i] += a->y0[6 * k + i];
    at += r->dim;
  }
  PB_ASSERT(at == w->dual.count);
  solve_transposed(w->dual.LU, w->dual.perm, w->dual.count, u, u + w->dual.count);
}

// z = Nw'u, lam = M^-1 (c - J'z)
static void motion_by_rows(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->work;
  int at = 0;

  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    pbLaw law;
    if (!r->zone) continue;
    NUM(pbLaw_Here)(w, r, &law);

    // z, and its share of c - J'z.
    transposed_times(r, law.Nw, a->u + at, a->z + 6 * k);
    subtract_force(a, r, a->z + 6 * k);
    at += r->dim;
  }
  LANE(pbSweep_Solve)(&w->t->M, w->LD, w->Dinv, a->lam);
}

void LANE(pbDual_Adjoint)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->work;
  memcpy(a->lam, a->qacc, (size_t)w->m->nv * sizeof(lane));
  if (!w->nrow) {
    LANE(pbSweep_Solve)(&w->H, w->H_LD, w->H_Dinv, a->lam);
    return;
  }

  if (w->dual.condensed) {
    solve_by_dofs(a);
    rows_by_dofs(a);
  } else {
    solve_by_rows(a);
    motion_by_rows(a);
  }
}
