// The reduction of a mixed problem to its inequalities (reduced.h): Cholesky's factor of Q, Gram-Schmidt on the equalities,
// scales of the rows.
// Tests: tests/unit/test_condensed.c.
#include "lcp/reduced.h"

#include "base/assert.h"

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

// Q = (L / dx)(L / dx)', its diagonal scaled to one.
static pbStatus factor_mass(pbReduced *r, const pbLcp *l, int *bad_row) {
  int n = r->n;
  for (int i = 0; i < n; i++) {
    double d = l->Q[(size_t)i * (size_t)n + (size_t)i];
    *bad_row = i;
    if (!(d > 0)) return pb_singular;
    r->dx[i] = 1 / sqrt(d);
  }

  for (int i = 0; i < n; i++) {
    for (int j = 0; j <= i; j++) row_of(r->L, i, n)[j] = l->Q[(size_t)i * (size_t)n + (size_t)j] * r->dx[i] * r->dx[j];
  }
  *bad_row = pbDense_Cholesky(r->L, n, SINGULAR);
  if (*bad_row >= 0) return pb_singular;

  // The smallest pivot tells of the condition, from below.
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

// x := the velocity whose whitened form is x.
static void unwhiten(const pbReduced *r, double *x) {
  pbDense_Backward(r->L, x, r->n);
  for (int i = 0; i < r->n; i++) x[i] *= r->dx[i];
}

// Takes the part within the row space of A out of x, twice, against rounding; coefficients are added to c (NULL: not wanted).
static void project(const pbReduced *r, double *x, double *c, int rank) {
  PB_ASSERT(rank >= 0 && rank <= r->e);
  for (int round = 0; round < 2; round++) {
    for (int k = 0; k < rank; k++) {
      double *v = row_of(r->V, k, r->n), d = pbDense_Dot(v, x, r->n);
      pbDense_Add(x, -d, v, r->n);
      if (c) c[k] += d;
    }
  }
}

// The rows of A, whitened and of length one.
static void scale_equalities(pbReduced *r, const pbLcp *l) {
  int n = r->n, e = r->e;
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
}

// The row from k on of which most is left.
static int largest_remainder(const pbReduced *r, int k) {
  int best = k;
  double most = -1;

  for (int i = k; i < r->e; i++) {
    double *v = row_of(r->V, i, r->n), left = pbDense_Dot(v, v, r->n);
    if (left > most) {
      most = left;
      best = i;
    }
  }

  return best;
}

static void swap_numbers(double *a, double *b, int n) {
  for (int j = 0; j < n; j++) {
    double t = a[j];
    a[j] = b[j];
    b[j] = t;
  }
}

static void swap_equalities(pbReduced *r, int a, int b) {
  if (a == b) return;
  swap_numbers(row_of(r->V, a, r->n), row_of(r->V, b, r->n), r->n);
  swap_numbers(row_of(r->R, a, r->e), row_of(r->R, b, r->e), a);

  int i = r->kept[a];
  r->kept[a] = r->kept[b];
  r->kept[b] = i;
}

// Gram-Schmidt on the whitened rows of A, the largest remainder first (Golub & Van Loan, 5.2.8). Rows that follow from others are
// left out.
static void factor_equalities(pbReduced *r, const pbLcp *l) {
  int n = r->n, e = r->e;
  if (!e) return;
  scale_equalities(r, l);
  r->rank = 0;

  for (int k = 0; k < e; k++) {
    swap_equalities(r, k, largest_remainder(r, k));

    // Orthogonalized again, against what rounding left of the rows before it, then normalized.
    double *v = row_of(r->V, k, n);
    project(r, v, row_of(r->R, k, e), k);
    double norm = sqrt(pbDense_Dot(v, v, n));
    if (!(norm > DEPENDENT) || k >= n) break;
    for (int j = 0; j < n; j++) v[j] /= norm;
    row_of(r->R, k, e)[k] = norm;
    r->condition = fmax(r->condition, 1 / norm);
    r->rank = k + 1;

    // Modified Gram-Schmidt: all later rows lose their part along v right away.
    for (int i = k + 1; i < e; i++) {
      double *u = row_of(r->V, i, n), d = pbDense_Dot(u, v, n);
      pbDense_Add(u, -d, v, n);
      row_of(r->R, i, e)[k] += d;
    }
  }

  PB_ASSERT(r->rank <= n && r->rank <= e);
  PB_VALIDATE(pb_allWithin(r->kept, e, 0, e));
}

// c = V x for the x that satisfies A x = b: forward substitution over the rows that count.
static void equality_point(const pbReduced *r, const double *b, double *c) {
  for (int i = 0; i < r->rank; i++) {
    const double *R = r->R + (size_t)i * (size_t)r->e;

    // Row i of R c = scaled b.
    double rhs = b ? b[r->kept[i]] * r->row[r->kept[i]] : 0;

    c[i] = (rhs - pbDense_Dot(R, c, i)) / R[i];
  }
}

// Rows that have no scale yet, by the largest entry of theirs in F, scaled on its other side.
static void scale_by_own(pbReduced *r, const pbLcp *l) {
  int m = r->m;
  double *most = r->tmp2;
  memset(most, 0, sizeof *most * (size_t)m);

  int rows = l->F ? m : 0;
  for (int i = 0; i < rows; i++) {
    const double *f = l->F + (size_t)i * (size_t)m;
    for (int j = 0; j < m; j++) {
      while (j + 8 <= m && pbDense_Zero8(f + j)) j += 8;
      if (j == m || f[j] == 0) continue;
      if (r->S[i] == 0) most[i] = fmax(most[i], fabs(f[j]) * r->S[j]);
      if (r->S[j] == 0) most[j] = fmax(most[j], fabs(f[j]) * r->S[i]);
    }
  }

  for (int i = 0; i < m; i++) {
    if (r->S[i] == 0) r->S[i] = most[i] > 0 ? 1 / most[i] : 1;
  }
}

// Scale of row i so that the diagonal, of which `diagonal` lacks F, is one; rows without a diagonal by the largest entry of
// theirs in F.
static void scale_rows(pbReduced *r, const pbLcp *l, const double *diagonal) {
  int m = r->m;
  for (int i = 0; i < m; i++) {
    // The diagonal of M.
    double d = diagonal[i];
    if (l->F) d += fabs(l->F[(size_t)i * (size_t)m + (size_t)i]);
    r->S[i] = d > 0 ? 1 / sqrt(d) : 0;
  }

  // Cones keep their shape: one scale for the rows of a contact.
  if (r->by_contact) {
    PB_ASSERT(m % 3 == 0);
    for (int i = 0; i + 2 < m; i += 3) {
      double least = INFINITY;
      for (int k = 0; k < 3; k++) least = fmin(least, r->S[i + k] > 0 ? r->S[i + k] : 1);
      for (int k = 0; k < 3; k++) r->S[i + k] = least;
    }
  }

  scale_by_own(r, l);
}

pbStatus pbReduced_Begin(pbReduced *r, const pbLcp *l, int *bad_row) {
  PB_TRY(factor_mass(r, l, bad_row));
  factor_equalities(r, l);

  // G Q^-1 G' roughly: with Q's diagonal, and without what the equalities take away.
  for (int i = 0; i < r->m; i++) {
    const double *g = l->G + (size_t)i * (size_t)r->n;
    r->tmp[i] = 0;
    for (int j = 0; j < r->n; j++) {
      if (g[j] != 0) r->tmp[i] += g[j] * r->dx[j] * (g[j] * r->dx[j]);
    }
  }

  scale_rows(r, l, r->tmp);
  return pb_ok;
}

void pbReduced_Matrices(pbReduced *r, const pbLcp *l) {
  int n = r->n, m = r->m;
  if (m) memcpy(r->C, l->G, sizeof(double) * (size_t)m * (size_t)n);

  // C: whitened rows of G in the space that A leaves open; one that the equalities fix is zero but for rounding.
  for (int i = 0; i < m; i++) {
    double *c = row_of(r->C, i, n);
    whiten(r, c);
    double before = pbDense_Dot(c, c, n), after;
    project(r, c, NULL, r->rank);
    after = pbDense_Dot(c, c, n);

    if (after <= DEPENDENT * DEPENDENT * before) {
      memset(c, 0, sizeof *c * (size_t)n);
      after = 0;
    }
    r->tmp[i] = after;
  }

  // Now with the diagonal that the equalities leave.
  scale_rows(r, l, r->tmp);
  for (int i = 0; i < m; i++) {
    double *c = row_of(r->C, i, n);
    for (int j = 0; j < n; j++) c[j] *= r->S[i];
  }

  // M = C C' + S F S.
  for (int i = 0; i < m; i++) {
    for (int j = 0; j <= i; j++) {
      double product = pbDense_Dot(row_of(r->C, i, n), row_of(r->C, j, n), n);
      row_of(r->M, j, m)[i] = product;
      row_of(r->M, i, m)[j] = product;
    }
  }

  if (!l->F) return;
  for (int i = 0; i < m; i++) {
    for (int j = 0; j < m; j++) row_of(r->M, i, m)[j] += r->S[i] * l->F[(size_t)i * (size_t)m + (size_t)j] * r->S[j];
  }
}

void pbReduced_Vector(pbReduced *r, const pbLcp *l) {
  memcpy(r->tmp, l->p, sizeof(double) * (size_t)r->n);
  pbReduced_Primal(r, r->tmp, l->b, r->w0, NULL);

  // q = h - G w0, w0 the unknowns without inequalities; its largest entry is the size of the problem.
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

  // Whitened: x = -rhs within the open space, and the point that satisfies A x = b.
  whiten(r, rhs);
  equality_point(r, b, c);
  for (int j = 0; j < n; j++) x[j] = -rhs[j];
  project(r, x, NULL, r->rank);
  for (int k = 0; k < r->rank; k++) pbDense_Add(x, c[k], row_of(r->V, k, n), n);

  // R'y = -(c + V rhs) over the rows that count; the others have none.
  if (y) {
    memset(y, 0, sizeof(double) * (size_t)r->e);
    for (int k = 0; k < r->rank; k++) c[k] = -(c[k] + pbDense_Dot(row_of(r->V, k, n), rhs, n));

    for (int i = r->rank - 1; i >= 0; i--) {
      const double *R = r->R + (size_t)i * (size_t)r->e;
      c[i] /= R[i];
      pbDense_Add(c, -c[i], R, i);
      y[r->kept[i]] = c[i] * r->row[r->kept[i]];
    }
  }

  unwhiten(r, x);
}
