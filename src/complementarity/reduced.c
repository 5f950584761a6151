#include "complementarity/reduced.h"

#include <math.h>
#include <string.h>

static const double SINGULAR = 1e-14;  // pivot of the scaled Q that is none
static const double DEPENDENT = 1e-9;  // what is left of a scaled row of A that follows from others

static double *row_of(double *A, int i, int n) { return A + (size_t)i * (size_t)n; }

void pbReduced_Layout(pbArena *a, pbReduced *r, int n, int m, int e) {
  size_t N = (size_t)n, E = (size_t)e, I = (size_t)m, most = N > I ? N : I;
  if (E > most) most = E;
  *r = (pbReduced){.n = n, .m = m, .e = e, .size = 1, .condition = 1};
  r->dx = pbArena_Take(a, N, sizeof(double));
  r->L = pbArena_Take(a, N * N, sizeof(double));
  r->V = pbArena_Take(a, E * N, sizeof(double));
  r->R = pbArena_Take(a, E * E, sizeof(double));
  r->row = pbArena_Take(a, E, sizeof(double));
  r->kept = pbArena_Take(a, E, sizeof(int));
  r->C = pbArena_Take(a, I * N, sizeof(double));
  r->S = pbArena_Take(a, I, sizeof(double));
  r->M = pbArena_Take(a, I * I, sizeof(double));
  r->q = pbArena_Take(a, I, sizeof(double));
  r->w0 = pbArena_Take(a, N, sizeof(double));
  r->tmp = pbArena_Take(a, most, sizeof(double));
  r->tmp2 = pbArena_Take(a, most, sizeof(double));
}

static pbStatus factor_mass(pbReduced *r, const pbLcp *l, int *bad_row) {
  int n = r->n;
  for (int i = 0; i < n; i++) {
    double d = row_of((double *)l->Q, i, n)[i];
    *bad_row = i;
    if (!(d > 0)) return pb_singular;
    r->dx[i] = 1 / sqrt(d);
  }

  for (int i = 0; i < n; i++)
    for (int j = 0; j <= i; j++) row_of(r->L, i, n)[j] = l->Q[(size_t)i * (size_t)n + (size_t)j] * r->dx[i] * r->dx[j];
  *bad_row = pbDense_Cholesky(r->L, n, SINGULAR);
  if (*bad_row >= 0) return pb_singular;
  double least = 1;
  for (int i = 0; i < n; i++) least = fmin(least, row_of(r->L, i, n)[i]);
  r->condition = 1 / (least * least);

  return pb_ok;
}

// x := L^-1 (dx x): a row of A or G, or a covector, in the coordinates where Q is the identity
static void whiten(const pbReduced *r, double *x) {
  for (int i = 0; i < r->n; i++) x[i] *= r->dx[i];
  pbDense_Forward(r->L, x, r->n);
}
// x := the velocity whose whitened form is x
static void colour(const pbReduced *r, double *x) {
  pbDense_Backward(r->L, x, r->n);
  for (int i = 0; i < r->n; i++) x[i] *= r->dx[i];
}
// Take the part within the row space of A out of x, twice; coefficients are added to c (NULL: not wanted).
static void project(const pbReduced *r, double *x, double *c, int rank) {
  for (int round = 0; round < 2; round++)
    for (int k = 0; k < rank; k++) {
      double *v = row_of(r->V, k, r->n), d = pbDense_Dot(v, x, r->n);
      pbDense_Add(x, -d, v, r->n);
      if (c) c[k] += d;
    }
}

// Gram-Schmidt on the whitened rows of A, the largest remainder first. Rows that follow from others are left out.
static void factor_equalities(pbReduced *r, const pbLcp *l) {
  int n = r->n, e = r->e;
  if (!e) return;
  memcpy(r->V, l->A, sizeof(double) * (size_t)e * (size_t)n);
  memset(r->R, 0, sizeof(double) * (size_t)e * (size_t)e);

  for (int i = 0; i < e; i++) {
    double *v = row_of(r->V, i, n);
    whiten(r, v);
    double norm = sqrt(pbDense_Dot(v, v, n));
    r->row[i] = norm > 0 ? 1 / norm : 0;
    for (int j = 0; j < n; j++) v[j] *= r->row[i];
    r->kept[i] = i;
  }

  r->rank = 0;
  for (int k = 0; k < e; k++) {
    int best = k;
    double most = -1;

    for (int i = k; i < e; i++) {
      double *v = row_of(r->V, i, n), left = pbDense_Dot(v, v, n);
      if (left > most) {
        most = left;
        best = i;
      }
    }

    if (best != k) {
      double *a = row_of(r->V, k, n), *b = row_of(r->V, best, n), *ca = row_of(r->R, k, e), *cb = row_of(r->R, best, e), t;
      for (int j = 0; j < n; j++) {
        t = a[j];
        a[j] = b[j];
        b[j] = t;
      }

      for (int j = 0; j < k; j++) {
        t = ca[j];
        ca[j] = cb[j];
        cb[j] = t;
      }

      int i = r->kept[k];
      r->kept[k] = r->kept[best];
      r->kept[best] = i;
    }

    double *v = row_of(r->V, k, n);
    project(r, v, row_of(r->R, k, e), k);
    double norm = sqrt(pbDense_Dot(v, v, n));
    if (!(norm > DEPENDENT) || k >= n) break;
    for (int j = 0; j < n; j++) v[j] /= norm;
    row_of(r->R, k, e)[k] = norm;
    r->condition = fmax(r->condition, 1 / norm);
    r->rank = k + 1;

    for (int i = k + 1; i < e; i++) {
      double *u = row_of(r->V, i, n), d = pbDense_Dot(u, v, n);
      pbDense_Add(u, -d, v, n);
      row_of(r->R, i, e)[k] += d;
    }
  }
}

// c = V x for the x that satisfies A x = b: forward substitution over the rows that count.
static void equality_point(const pbReduced *r, const double *b, double *c) {
  for (int i = 0; i < r->rank; i++) {
    const double *R = r->R + (size_t)i * (size_t)r->e;
    double rhs = b ? b[r->kept[i]] * r->row[r->kept[i]] : 0;

    c[i] = (rhs - pbDense_Dot(R, c, i)) / R[i];
  }
}

// Scale of row i so that the diagonal, of which `diagonal` lacks F, is one; rows without a diagonal by the largest entry of
// theirs in F.
static void scale_rows(pbReduced *r, const pbLcp *l, const double *diagonal) {
  int m = r->m;
  for (int i = 0; i < m; i++) {
    double d = diagonal[i];
    if (l->F) d += fabs(l->F[(size_t)i * (size_t)m + (size_t)i]);
    r->S[i] = d > 0 ? 1 / sqrt(d) : 0;
  }

  for (int i = 0; i + 2 < m && r->by_contact; i += 3) {  // cones keep their shape
    double least = fmin(r->S[i] > 0 ? r->S[i] : 1, fmin(r->S[i + 1] > 0 ? r->S[i + 1] : 1, r->S[i + 2] > 0 ? r->S[i + 2] : 1));
    r->S[i] = r->S[i + 1] = r->S[i + 2] = least;
  }

  double *most = r->tmp2;
  memset(most, 0, sizeof *most * (size_t)m);
  for (int i = 0; i < m && l->F; i++) {
    const double *f = l->F + (size_t)i * (size_t)m;
    for (int j = 0; j < m; j++) {
      while (j + 8 <= m && pbDense_Zero8(f + j)) j += 8;
      if (j == m || f[j] == 0) continue;
      if (r->S[i] == 0) most[i] = fmax(most[i], fabs(f[j]) * r->S[j]);
      if (r->S[j] == 0) most[j] = fmax(most[j], fabs(f[j]) * r->S[i]);
    }
  }

  for (int i = 0; i < m; i++)
    if (r->S[i] == 0) r->S[i] = most[i] > 0 ? 1 / most[i] : 1;
}

pbStatus pbReduced_Begin(pbReduced *r, const pbLcp *l, int *bad_row) {
  PB_TRY(factor_mass(r, l, bad_row));
  factor_equalities(r, l);
  for (int i = 0; i < r->m; i++) {
    const double *g = l->G + (size_t)i * (size_t)r->n;
    r->tmp[i] = 0;
    for (int j = 0; j < r->n; j++)
      if (g[j] != 0) r->tmp[i] += g[j] * r->dx[j] * (g[j] * r->dx[j]);
  }

  scale_rows(r, l, r->tmp);
  return pb_ok;
}

void pbReduced_Matrices(pbReduced *r, const pbLcp *l) {
  int n = r->n, m = r->m;
  if (m) memcpy(r->C, l->G, sizeof(double) * (size_t)m * (size_t)n);
  for (int i = 0; i < m; i++) {
    double *c = row_of(r->C, i, n);
    whiten(r, c);
    double before = pbDense_Dot(c, c, n), after;
    project(r, c, NULL, r->rank);
    after = pbDense_Dot(c, c, n);

    if (after <= DEPENDENT * DEPENDENT * before) {
      memset(c, 0, sizeof *c * (size_t)n);
      after = 0;
    }  // the equalities fix it
    r->tmp[i] = after;
  }

  scale_rows(r, l, r->tmp);
  for (int i = 0; i < m; i++) {
    double *c = row_of(r->C, i, n);
    for (int j = 0; j < n; j++) c[j] *= r->S[i];
  }

  for (int i = 0; i < m; i++)
    for (int j = 0; j <= i; j++)
      row_of(r->M, i, m)[j] = row_of(r->M, j, m)[i] = pbDense_Dot(row_of(r->C, i, n), row_of(r->C, j, n), n);
  for (int i = 0; i < m && l->F; i++)
    for (int j = 0; j < m; j++) row_of(r->M, i, m)[j] += r->S[i] * l->F[(size_t)i * (size_t)m + (size_t)j] * r->S[j];
}

void pbReduced_Vector(pbReduced *r, const pbLcp *l) {
  memcpy(r->tmp, l->p, sizeof(double) * (size_t)r->n);
  pbReduced_Primal(r, r->tmp, l->b, r->w0, NULL);
  double most = 0;

  for (int i = 0; i < r->m; i++) {
    r->q[i] = (l->h[i] - pbDense_Dot(l->G + (size_t)i * (size_t)r->n, r->w0, r->n)) * r->S[i];
    most = fmax(most, fabs(r->q[i]));
  }

  r->size = most > 0 ? most : 1;
  for (int i = 0; i < r->m; i++) r->q[i] /= r->size;
}

void pbReduced_Primal(pbReduced *r, double *rhs, const double *b, double *x, double *y) {
  int n = r->n;
  double *c = r->tmp2;

  whiten(r, rhs);
  equality_point(r, b, c);
  for (int j = 0; j < n; j++) x[j] = -rhs[j];
  project(r, x, NULL, r->rank);
  for (int k = 0; k < r->rank; k++) pbDense_Add(x, c[k], row_of(r->V, k, n), n);

  if (y) {  // R'y = -(c + V rhs) over the rows that count
    memset(y, 0, sizeof(double) * (size_t)r->e);
    for (int k = 0; k < r->rank; k++) c[k] = -(c[k] + pbDense_Dot(row_of(r->V, k, n), rhs, n));

    for (int i = r->rank - 1; i >= 0; i--) {
      const double *R = r->R + (size_t)i * (size_t)r->e;
      c[i] /= R[i];
      pbDense_Add(c, -c[i], R, i);
      y[r->kept[i]] = c[i] * r->row[r->kept[i]];
    }
  }

  colour(r, x);
}
