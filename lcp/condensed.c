// The condensed form (condensed.h): its memory, products, and the factorization within the envelope. Blocks of rows, their
// features and the order of the unknowns: condensed_blocks.c. Tests: tests/unit/test_condensed.c.
#include "lcp/condensed.h"

#include "base/assert.h"
#include "elementary/elementary.h"

#include <math.h>
#include <string.h>

static const double SMALL = 1e-13;  // a pivot below this fraction of its diagonal entry is none

// Memory for the most that n unknowns and m rows can take.
void pbCondensed_Layout(pbArena *a, pbCondensed *c, int n, int m) {
  size_t N = (size_t)n, M = (size_t)m;
  *c = (pbCondensed){.n = n, .m = m};

  // Rows and blocks of them.
  int **indices[] = {&c->row, &c->feature, &c->features};
  for (size_t k = 0; k < sizeof indices / sizeof *indices; k++) *indices[k] = pbArena_Take(a, M, sizeof(int));
  c->begin = pbArena_Take(a, M + 1, sizeof(int));
  c->dof_begin = pbArena_Take(a, M + 1, sizeof(int));
  c->J_begin = pbArena_Take(a, M + 1, sizeof(size_t));
  c->square = pbArena_Take(a, M + 1, sizeof(size_t));
  c->dof = pbArena_Take(a, M * N, sizeof(int));

  c->J = pbArena_Take(a, M * N, sizeof(double));
  double **vectors[] = {&c->factor, &c->t, &c->g};
  for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++) *vectors[k] = pbArena_Take(a, M, sizeof(double));
  double **squares[] = {&c->F, &c->B, &c->S};
  for (size_t k = 0; k < sizeof squares / sizeof *squares; k++) *squares[k] = pbArena_Take(a, M * PB_BLOCK, sizeof(double));

  // Unknowns: order and envelope.
  int **places[] = {&c->order, &c->place, &c->start};
  for (size_t k = 0; k < sizeof places / sizeof *places; k++) *places[k] = pbArena_Take(a, N, sizeof(int));
  double **triangles[] = {&c->L, &c->U, &c->Q};
  for (size_t k = 0; k < sizeof triangles / sizeof *triangles; k++) *triangles[k] = pbArena_Take(a, N * N, sizeof(double));
  c->D = pbArena_Take(a, N, sizeof(double));
  double **rows[] = {&c->x, &c->low, &c->up};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) *rows[k] = pbArena_Take(a, N, sizeof(double));
}

static double *in_row(double *A, int i, int n) { return A + (size_t)i * (size_t)n; }

// ---- products -------------------------------------------------------------------------------------------------------
// c->x, by place, = G'v.
static void gather(pbCondensed *c, const double *v) {
  memset(c->x, 0, sizeof *c->x * (size_t)c->n);
  for (int b = 0; b < c->blocks; b++) {
    double f[PB_BLOCK] = {0};
    const int *dof = c->dof + c->dof_begin[b];
    int n = c->dof_begin[b + 1] - c->dof_begin[b];

    // By way of the features, of which there are fewer than rows.
    for (int k = c->begin[b]; k < c->begin[b + 1]; k++) {
      if (c->feature[k] >= 0) f[c->feature[k]] += c->factor[k] * v[c->row[k]];
    }

    // From features to unknowns.
    for (int k = 0; k < c->features[b]; k++) {
      const double *J = c->J + c->J_begin[b] + (size_t)(k * n);
      for (int j = 0; j < n; j++) c->x[dof[j]] += f[k] * J[j];
    }
  }
}

// v = G (x by place).
static void scatter(const pbCondensed *c, const double *x, double *v) {
  for (int b = 0; b < c->blocks; b++) {
    double f[PB_BLOCK];
    const int *dof = c->dof + c->dof_begin[b];
    int n = c->dof_begin[b + 1] - c->dof_begin[b];

    // To features first, then to the rows that are multiples of them.
    for (int k = 0; k < c->features[b]; k++) {
      const double *J = c->J + c->J_begin[b] + (size_t)(k * n);
      double sum = 0;

      for (int j = 0; j < n; j++) sum += J[j] * x[dof[j]];
      f[k] = sum;
    }

    for (int k = c->begin[b]; k < c->begin[b + 1]; k++) v[c->row[k]] = c->feature[k] >= 0 ? c->factor[k] * f[c->feature[k]] : 0;
  }
}

// out = A v of a block, or A' v; rows as they are in the block
static void multiply_block(const pbCondensed *c, const double *A, int b, bool transposed, const double *v, double *out) {
  int n = c->begin[b + 1] - c->begin[b];
  const int *row = c->row + c->begin[b];
  PB_ASSERT(n <= PB_BLOCK);
  double in[PB_BLOCK];

  for (int i = 0; i < n; i++) in[i] = v[row[i]];
  for (int i = 0; i < n; i++) {
    double sum = 0;
    for (int j = 0; j < n; j++) sum += A[transposed ? j * n + i : i * n + j] * in[j];
    out[row[i]] = sum;
  }
}
static void blocks_times(const pbCondensed *c, const double *A, bool transposed, const double *v, double *out) {
  for (int b = 0; b < c->blocks; b++) multiply_block(c, A + c->square[b], b, transposed, v, out);
}

static void to_unknowns(const pbCondensed *c, const double *x, double *out) {
  for (int i = 0; i < c->n; i++) out[c->order[i]] = x[i];
}

void pbCondensed_Mul(pbCondensed *c, const double *z, double *out) {
  pbReduced *r = c->reduced;  // its vectors are scratch

  // G P G'z: Primal gives -P of its right-hand side.
  gather(c, z);
  to_unknowns(c, c->x, r->tmp);
  pbReduced_Primal(r, r->tmp, NULL, c->t, NULL);
  for (int i = 0; i < c->n; i++) c->x[i] = -c->t[c->order[i]];
  scatter(c, c->x, out);
  if (!c->l->F) return;

  // And the block's own part, F z.
  blocks_times(c, c->F, false, z, c->t);
  for (int i = 0; i < c->m; i++) out[i] += c->t[i];
}

void pbCondensed_Rows(pbCondensed *c, const double *x, double *out) {
  for (int i = 0; i < c->n; i++) c->x[i] = x[c->order[i]];
  scatter(c, c->x, out);
}

void pbCondensed_OwnT(const pbCondensed *c, const double *v, double *out) {
  if (c->l->F) blocks_times(c, c->F, true, v, out);
  else memset(out, 0, sizeof *out * (size_t)c->m);
}

// ---- factorization --------------------------------------------------------------------------------------------------
static void swap_rows(double *A, int n, int a, int b) {
  for (int j = 0; j < n; j++) {
    double t = A[a * n + j];
    A[a * n + j] = A[b * n + j];
    A[b * n + j] = t;
  }
}

static void swap_columns(double *A, int n, int a, int b) {
  for (int i = 0; i < n; i++) {
    double t = A[i * n + a];
    A[i * n + a] = A[i * n + b];
    A[i * n + b] = t;
  }
}

// A := A^-1, n <= PB_BLOCK, by Gauss and Jordan with row exchanges; log |det A| is added (NULL: not wanted). False where it is
// singular.
static bool invert(double *A, int n, double *log_det) {
  double det = 1;
  int swapped[PB_BLOCK];
  PB_ASSERT(n >= 0 && n <= PB_BLOCK);

  for (int k = 0; k < n; k++) {
    int best = k;
    for (int i = k + 1; i < n; i++) {
      if (fabs(A[i * n + k]) > fabs(A[best * n + k])) best = i;
    }

    double pivot = A[best * n + k];
    if (pivot == 0 || !isfinite(pivot)) return false;
    swapped[k] = best;
    det *= pivot;
    if (best != k) swap_rows(A, n, k, best);

    double inverse = 1 / pivot;
    A[k * n + k] = 1;
    for (int j = 0; j < n; j++) A[k * n + j] *= inverse;

    for (int i = 0; i < n; i++) {
      double f = A[i * n + k];
      if (i == k || f == 0) continue;
      A[i * n + k] = 0;
      for (int j = 0; j < n; j++) A[i * n + j] -= f * A[k * n + j];
    }
  }

  // Exchanged rows of A are exchanged columns of its inverse.
  for (int k = n - 1; k >= 0; k--) {
    if (swapped[k] != k) swap_columns(A, n, k, swapped[k]);
  }

  if (log_det) *log_det += pbLog(fabs(det));
  return true;
}

// out = weights[0] J_0 + ... + weights[features - 1] J_last, to its first n entries
static void combine(const double *weights, const double *restrict J, int features, int stride, int n, double *restrict out) {
  if (features == 3) {  // the usual contact: normal and two tangents
    const double *restrict J1 = J + stride, *restrict J2 = J + 2 * stride;
    double a = weights[0], b = weights[1], c = weights[2];
    for (int j = 0; j < n; j++) out[j] = a * J[j] + b * J1[j] + c * J2[j];

    return;
  }

  // Any number of features.
  for (int j = 0; j < n; j++) out[j] = 0;
  for (int f = 0; f < features; f++) {
    for (int j = 0; j < n; j++) out[j] += weights[f] * J[f * stride + j];
  }
}

// H += J'K J of a block, K between its features
static void add_block(pbCondensed *c, int b, const double *K) {
  int n = c->dof_begin[b + 1] - c->dof_begin[b], features = c->features[b];
  const int *dof = c->dof + c->dof_begin[b];
  const double *J = c->J + c->J_begin[b];
  double *low = c->low, *up = c->up;

  for (int i = 0; i < n; i++) {
    // Of J'K J only what is on or below the diagonal goes to L, what is above it to U.
    double lower[PB_BLOCK], upper[PB_BLOCK];  // row i of J'K, column i of K J
    for (int g = 0; g < features; g++) {
      lower[g] = 0;
      upper[g] = 0;
      for (int f = 0; f < features; f++) {
        lower[g] += J[f * n + i] * K[f * features + g];
        upper[g] += K[g * features + f] * J[f * n + i];
      }
    }

    // Unknowns of the block ascend, so that those before i are left of its diagonal.
    double *L = in_row(c->L, dof[i], c->n), *U = in_row(c->U, dof[i], c->n);
    combine(lower, J, features, n, i + 1, low);
    combine(upper, J, features, n, i, up);

    for (int j = 0; j < i; j++) {
      L[dof[j]] += low[j];
      U[dof[j]] += up[j];
    }

    c->D[dof[i]] += low[i];
  }
}

// K = factors' A factors
static void to_features(const pbCondensed *c, int b, const double *A, double *K) {
  int rows = c->begin[b + 1] - c->begin[b], features = c->features[b];
  const int *feature = c->feature + c->begin[b];
  const double *factor = c->factor + c->begin[b];

  memset(K, 0, sizeof *K * (size_t)(features * features));

  // Rows without a feature have no effect on the unknowns.
  for (int i = 0; i < rows; i++) {
    if (feature[i] < 0) continue;
    for (int j = 0; j < rows; j++) {
      if (feature[j] >= 0) K[feature[i] * features + feature[j]] += factor[i] * A[i * rows + j] * factor[j];
    }
  }
}

// L U with L's diagonal one, rows of L and columns of U side by side
static bool factor_envelope(pbCondensed *c) {
  int n = c->n;
  for (int i = 0; i < n; i++) {
    double *Li = in_row(c->L, i, n), *Ui = in_row(c->U, i, n), before = fabs(c->D[i]), sum = 0;

    // L_ij and U_ji: products over the columns that both rows have in the envelope.
    for (int j = c->start[i]; j < i; j++) {
      const double *Lj = in_row(c->L, j, n), *Uj = in_row(c->U, j, n);
      int from = c->start[i] > c->start[j] ? c->start[i] : c->start[j];
      double l = 0, u = 0;

      for (int k = from; k < j; k++) {
        l += Li[k] * Uj[k];
        u += Ui[k] * Lj[k];
      }

      Li[j] = (Li[j] - l) / c->D[j];
      Ui[j] -= u;
    }

    // The pivot; one that cancellation has all but erased is none.
    for (int k = c->start[i]; k < i; k++) sum += Li[k] * Ui[k];
    c->D[i] -= sum;
    if (!(fabs(c->D[i]) > SMALL * before)) return false;
    c->log_det += pbLog(fabs(c->D[i]));
  }

  return true;
}

// H := Q, in its triangles.
static void begin_factor(pbCondensed *c) {
  int n = c->n;
  c->log_det = 0;
  for (int i = 0; i < n; i++) {
    size_t bytes = sizeof *c->L * (size_t)(i - c->start[i]);

    // Symmetric: L and U begin alike.
    const double *Q = in_row(c->Q, i, n) + c->start[i];

    memcpy(in_row(c->L, i, n) + c->start[i], Q, bytes);
    memcpy(in_row(c->U, i, n) + c->start[i], Q, bytes);
    c->D[i] = Q[i - c->start[i]];
  }
}

// B = (Z + F)^-1 of a block, the rows that are not active cut out of it.
static bool invert_block(pbCondensed *c, int b, const double *diag, const bool *active) {
  int n = c->begin[b + 1] - c->begin[b];
  const int *row = c->row + c->begin[b];
  double *B = c->B + c->square[b];
  memcpy(B, c->F + c->square[b], sizeof *B * (size_t)(n * n));

  // Rows of the unit matrix for those that are left out, so that the block stays regular.
  for (int i = 0; i < n; i++) {
    if (!active || active[row[i]]) {
      B[i * n + i] += diag[row[i]];
      continue;
    }

    for (int j = 0; j < n; j++) {
      B[i * n + j] = 0;
      B[j * n + i] = 0;
    }
    B[i * n + i] = 1;
  }

  if (!invert(B, n, active ? &c->log_det : NULL)) return false;

  // In the solution they are zero.
  if (!active) return true;
  for (int i = 0; i < n; i++) {
    if (!active[row[i]]) B[i * n + i] = 0;
  }

  return true;
}

bool pbCondensed_Factor(pbCondensed *c, const double *diag, const bool *active) {
  double K[PB_BLOCK * PB_BLOCK];
  PB_ASSERT(c->pays);
  c->plain = true;
  begin_factor(c);

  // H = Q + G'B G, block by block.
  for (int b = 0; b < c->blocks; b++) {
    if (!invert_block(c, b, diag, active)) return false;
    to_features(c, b, c->B + c->square[b], K);
    add_block(c, b, K);
  }

  return factor_envelope(c);
}

bool pbCondensed_FactorLaws(pbCondensed *c, double (*by_s)[3][3], double (*by_z)[3][3], double delta) {
  double K[PB_BLOCK * PB_BLOCK], product[9];
  PB_ASSERT(c->pays && 3 * c->blocks == c->m);
  c->plain = false;
  begin_factor(c);

  for (int b = 0; b < c->blocks; b++) {
    // A block is a contact here.
    double *B = c->B + c->square[b], *S = c->S + c->square[b];
    memcpy(S, by_s[b], sizeof *S * 9);
    memcpy(B, by_z[b], sizeof *B * 9);

    // B = (Z + delta S)^-1, and H gets B S between the contact's features.
    for (int i = 0; i < 9; i++) B[i] += delta * S[i];
    if (!invert(B, 3, &c->log_det)) return false;
    for (int i = 0; i < 3; i++) {
      for (int j = 0; j < 3; j++) {
        product[3 * i + j] = 0;
        for (int k = 0; k < 3; k++) product[3 * i + j] += B[3 * i + k] * S[3 * k + j];
      }
    }

    to_features(c, b, product, K);
    add_block(c, b, K);
  }

  return factor_envelope(c);
}

// c->x := H^-1 x, or H'^-1 x, whose factors are U' and L'.
static void solve_envelope(pbCondensed *c, bool transposed) {
  int n = c->n;
  double *x = c->x, *low = transposed ? c->U : c->L, *up = transposed ? c->L : c->U;

  // Forward by rows of the lower factor, back by columns of the upper one.
  for (int i = 0; i < n; i++) {
    const double *row = in_row(low, i, n);
    double sum = 0;

    for (int k = c->start[i]; k < i; k++) sum += row[k] * x[k];
    x[i] -= sum;
    if (transposed) x[i] /= c->D[i];
  }

  for (int i = n - 1; i >= 0; i--) {
    const double *row = in_row(up, i, n);
    if (!transposed) x[i] /= c->D[i];
    for (int k = c->start[i]; k < i; k++) x[k] -= row[k] * x[i];
  }
}

// v := B (v - S G H^-1 G'B v), or the transpose: B'(v - G H'^-1 G'S'B'v).
static void solve_condensed(pbCondensed *c, double *v, bool transposed) {
  double *t = c->t, *g = c->g;
  blocks_times(c, c->B, transposed, v, t);
  if (transposed && !c->plain) blocks_times(c, c->S, true, t, t);

  gather(c, t);
  solve_envelope(c, transposed);
  scatter(c, c->x, g);
  if (!transposed && !c->plain) blocks_times(c, c->S, false, g, g);

  for (int i = 0; i < c->m; i++) v[i] -= g[i];
  blocks_times(c, c->B, transposed, v, v);
}

void pbCondensed_Solve(pbCondensed *c, double *v) { solve_condensed(c, v, false); }
void pbCondensed_SolveT(pbCondensed *c, double *v) { solve_condensed(c, v, true); }

// Condition number of M on the rows that are not left out, from the factor of M + d, d small. A = (M + d)^-1 M (M + d)^-1 has
// about 1 / lambda for each eigenvalue lambda of M, and 0 where that is 0, so that redundant rows do not count: its powers turn a
// vector towards the least lambda. On the way x = (M + d)^-1 v and M x are there, and |M x| / |x| lies between the least and the
// largest lambda: the greatest of these ratios stands for the largest one, the least, once the vector has turned, for the least.
double pbCondensed_Condition(pbCondensed *c, double *v, double *t) {
  double largest = 0, inverse = 0, size;
  for (int i = 0; i < c->m; i++) v[i] = i % 3 ? 1 : -1;

  for (int round = 0; round < 3; round++) {
    pbCondensed_Solve(c, v);
    size = pbDense_MaxAbs(v, c->m);
    if (!(size > 0) || !isfinite(size)) return 1;

    // Rows that are left out stay at zero.
    pbCondensed_Mul(c, v, t);
    for (int i = 0; i < c->m; i++) t[i] = v[i] == 0 ? 0 : t[i];

    // |M x| / |x|
    double after = pbDense_MaxAbs(t, c->m);
    largest = fmax(largest, after / size);
    if (round) inverse = fmax(inverse, after > 0 ? size / after : 0);
    for (int i = 0; i < c->m; i++) v[i] = after > 0 ? t[i] / after : 0;
  }

  return fmax(1, largest * inverse);
}
