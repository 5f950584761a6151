#include "complementarity/condensed.h"

#include <math.h>
#include <string.h>

static const double PENALTY = 1e-9;  // what an equality gives, rows scaled
static const double SMALL = 1e-13;   // a pivot below this fraction of its diagonal entry is none

void pbCondensed_Layout(pbArena *a, pbCondensed *c, int n, int m) {
  size_t N = (size_t)n, M = (size_t)m;
  *c = (pbCondensed){.n = n, .m = m};
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
  int **places[] = {&c->order, &c->place, &c->start};
  for (size_t k = 0; k < sizeof places / sizeof *places; k++) *places[k] = pbArena_Take(a, N, sizeof(int));
  double **triangles[] = {&c->L, &c->U, &c->Q};
  for (size_t k = 0; k < sizeof triangles / sizeof *triangles; k++) *triangles[k] = pbArena_Take(a, N * N, sizeof(double));
  c->D = pbArena_Take(a, N, sizeof(double));
  double **rows[] = {&c->x, &c->low, &c->up};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) *rows[k] = pbArena_Take(a, N, sizeof(double));
}

// ---- blocks ---------------------------------------------------------------------------------------------------------
static int root(int *parent, int i) {
  while (parent[i] != i) i = parent[i] = parent[parent[i]];
  return i;
}

// Rows that F ties together, directly or not, or that are of one contact. False where a block is too large.
static bool find_blocks(pbCondensed *c, int contact) {
  int m = c->m, *parent = c->feature, *count = c->features;
  for (int i = 0; i < m; i++) parent[i] = i - i % contact;
  for (int i = 0; i < m && c->l->F; i++) {
    const double *f = c->l->F + (size_t)i * (size_t)m;
    for (int j = 0; j < m; j++) {
      while (j + 8 <= m && pbDense_Zero8(f + j)) j += 8;
      if (j < m && f[j] != 0 && j != i) {
        int a = root(parent, i), b = root(parent, j);
        parent[a > b ? a : b] = a > b ? b : a;
      }
    }
  }

  c->blocks = 0;
  for (int i = 0; i < m; i++) parent[i] = root(parent, i);
  for (int i = 0; i < m; i++) {  // a root is the first row of its block: blocks in that order
    bool first = parent[i] == i;
    int block = parent[i] = first ? c->blocks++ : parent[parent[i]];
    count[block] = first ? 1 : count[block] + 1;
  }

  c->begin[0] = 0;
  c->square[0] = 0;
  for (int b = 0; b < c->blocks; b++) {
    if (count[b] > PB_BLOCK) return false;
    c->begin[b + 1] = c->begin[b] + count[b];
    c->square[b + 1] = c->square[b] + (size_t)(count[b] * count[b]);
    count[b] = c->begin[b];
  }

  for (int i = 0; i < m; i++) c->row[count[parent[i]]++] = i;
  return true;
}

// The unknowns of a block's rows, marked in `seen`, which has zeros on entry and exit; in the order of their places.
static void find_dofs(pbCondensed *c, int b, unsigned char *seen) {
  int n = c->n, count = 0, *dof = c->dof + c->dof_begin[b];
  for (int k = c->begin[b]; k < c->begin[b + 1]; k++) {
    const double *g = c->l->G + (size_t)c->row[k] * (size_t)n;
    for (int j = 0; j < n; j++) {
      while (j + 8 <= n && pbDense_Zero8(g + j)) j += 8;
      if (j < n && g[j] != 0) seen[j] = 1;
    }
  }

  for (int j = 0; j < n; j++)
    if (seen[j]) {
      dof[count++] = j;
      seen[j] = 0;
    }

  c->dof_begin[b + 1] = c->dof_begin[b] + count;
}

// Is row g a multiple of row J, on the block's unknowns?  Only the same and the opposite are looked for.
static double multiple(const double *g, const double *J, const int *dof, int n) {
  double sign = 0;
  for (int j = 0; j < n && sign == 0; j++)
    if (J[j] != 0) sign = g[dof[j]] == J[j] ? 1 : -1;
  for (int j = 0; j < n; j++)
    if (g[dof[j]] != sign * J[j]) return 0;

  return sign;
}

// The block's features in J, unscaled; each row's feature and factor. The unknowns are in `dof` by their own number.
static void find_features(pbCondensed *c, int b) {
  int n = c->dof_begin[b + 1] - c->dof_begin[b], count = 0;
  const int *dof = c->dof + c->dof_begin[b];
  double *J = c->J + c->J_begin[b];

  for (int k = c->begin[b]; k < c->begin[b + 1]; k++) {
    const double *g = c->l->G + (size_t)c->row[k] * (size_t)c->n;
    bool zero = true;

    for (int j = 0; j < n; j++) zero &= g[dof[j]] == 0;
    c->feature[k] = -1;
    c->factor[k] = 0;

    for (int f = 0; f < count && !zero && c->feature[k] < 0; f++) {
      c->factor[k] = multiple(g, J + (size_t)(f * n), dof, n);
      if (c->factor[k] != 0) c->feature[k] = f;
    }

    if (zero || c->feature[k] >= 0) continue;
    for (int j = 0; j < n; j++) J[count * n + j] = g[dof[j]];
    c->feature[k] = count++;
    c->factor[k] = 1;
  }

  c->features[b] = count;
  c->J_begin[b + 1] = c->J_begin[b] + (size_t)(count * n);
}

// ---- ordering -------------------------------------------------------------------------------------------------------
// Unknowns that a row, a block or Q ties together.
static void find_neighbours(const pbCondensed *c, unsigned char *next_to) {
  size_t n = (size_t)c->n;
  memset(next_to, 0, n * n);
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < i; j++)
      if (c->l->Q[i * n + j] != 0) next_to[i * n + j] = next_to[j * n + i] = 1;
  for (int b = 0; b < c->blocks; b++)
    for (int i = c->dof_begin[b]; i < c->dof_begin[b + 1]; i++)
      for (int j = c->dof_begin[b]; j < c->dof_begin[b + 1]; j++) next_to[(size_t)c->dof[i] * n + (size_t)c->dof[j]] = 1;

  for (int k = 0; k < c->l->e; k++) {
    const double *a = c->l->A + (size_t)k * n;
    for (size_t i = 0; i < n; i++)
      for (size_t j = 0; j < n && a[i] != 0; j++)
        if (a[j] != 0) next_to[i * n + j] = 1;
  }
}

// Breadth first from `from`, appended to order from `count` on; place: -1 where not yet reached. Returns the new count.
static int spread(pbCondensed *c, const unsigned char *next_to, int from, int count) {
  int at = count;
  c->order[count] = from;
  c->place[from] = count++;

  for (; at < count; at++) {
    const unsigned char *row = next_to + (size_t)c->order[at] * (size_t)c->n;
    for (int j = 0; j < c->n; j++)
      if (row[j] && c->place[j] < 0) {
        c->order[count] = j;
        c->place[j] = count++;
      }
  }

  return count;
}

// Cuthill and McKee's order, each connected part from the end that a first round finds; then the envelope.
static void find_order(pbCondensed *c, unsigned char *next_to) {
  int n = c->n, count = 0;
  for (int i = 0; i < n; i++) c->place[i] = -1;
  for (int i = 0; i < n; i++) {
    if (c->place[i] >= 0) continue;
    int end = spread(c, next_to, i, count), last = c->order[end - 1];
    for (int k = count; k < end; k++) c->place[c->order[k]] = -1;
    count = spread(c, next_to, last, count);
  }

  for (int i = 0; i < n; i++) {
    const unsigned char *row = next_to + (size_t)c->order[i] * (size_t)n;
    int first = i;

    for (int j = 0; j < n; j++)
      if (row[j] && c->place[j] < first) first = c->place[j];
    c->start[i] = first;
  }
}

// ---- what does not change -------------------------------------------------------------------------------------------
static double *in_row(double *A, int i, int n) { return A + (size_t)i * (size_t)n; }

// Features and factors scaled as the rows are; unknowns by place, ascending.
static void scale_block(pbCondensed *c, int b) {
  const double *S = c->reduced->S;
  int rows = c->begin[b + 1] - c->begin[b], n = c->dof_begin[b + 1] - c->dof_begin[b], *dof = c->dof + c->dof_begin[b];
  const int *row = c->row + c->begin[b];
  double *J = c->J + c->J_begin[b], *F = c->F + c->square[b], scale[PB_BLOCK] = {0};

  for (int i = 0; i < rows; i++) {
    int f = c->feature[c->begin[b] + i];
    if (f < 0) continue;
    if (scale[f] == 0) scale[f] = S[row[i]];
    c->factor[c->begin[b] + i] *= S[row[i]] / scale[f];
  }

  for (int i = 0; i < rows; i++)
    for (int j = 0; j < rows; j++)
      F[i * rows + j] = c->l->F ? S[row[i]] * c->l->F[(size_t)row[i] * (size_t)c->m + (size_t)row[j]] * S[row[j]] : 0;
  for (int f = 0; f < c->features[b]; f++)
    for (int j = 0; j < n; j++) J[f * n + j] *= scale[f];
  for (int i = 0; i < n; i++) dof[i] = c->place[dof[i]];
  for (int i = 1; i < n; i++)  // insertion: nearly in order
    for (int j = i; j > 0 && dof[j - 1] > dof[j]; j--) {
      int d = dof[j];
      dof[j] = dof[j - 1];
      dof[j - 1] = d;

      for (int f = 0; f < c->features[b]; f++) {
        double t = J[f * n + j];
        J[f * n + j] = J[f * n + j - 1];
        J[f * n + j - 1] = t;
      }
    }
}

static void place_mass(pbCondensed *c) {
  int n = c->n;
  for (int i = 0; i < n; i++)
    for (int j = c->start[i]; j <= i; j++) {
      int a = c->order[i], b = c->order[j];
      in_row(c->Q, i, n)[j] = c->l->Q[(size_t)(a > b ? a : b) * (size_t)n + (size_t)(a > b ? b : a)];
    }

  for (int k = 0; k < c->l->e; k++) {
    const double *A = c->l->A + (size_t)k * (size_t)n;
    double weight = c->reduced->row[k] * c->reduced->row[k] / PENALTY;

    for (int i = 0; i < n; i++) {
      double a = weight * A[c->order[i]];
      for (int j = c->start[i]; j <= i && a != 0; j++) in_row(c->Q, i, n)[j] += a * A[c->order[j]];
    }
  }
}

void pbCondensed_Make(pbCondensed *c, const pbReduced *reduced, const pbLcp *problem, int contact) {
  c->reduced = reduced;
  c->l = problem;
  c->pays = false;
  unsigned char *bytes = (unsigned char *)c->U;
  double dense = (double)c->m * c->m * c->m / 3, here = 0;
  if (c->m < 12 || !find_blocks(c, contact)) return;
  c->dof_begin[0] = 0;
  c->J_begin[0] = 0;
  memset(bytes, 0, (size_t)c->n);

  for (int b = 0; b < c->blocks; b++) {
    find_dofs(c, b, bytes);
    find_features(c, b);
  }

  find_neighbours(c, bytes);
  find_order(c, bytes);
  for (int i = 0; i < c->n; i++) here += (double)(i - c->start[i]) * (i - c->start[i]);

  for (int b = 0; b < c->blocks; b++) {
    int rows = c->begin[b + 1] - c->begin[b], dofs = c->dof_begin[b + 1] - c->dof_begin[b];
    here += (double)rows * rows * rows + dofs * (dofs + 10) * c->features[b];
  }

  if (here > dense) return;
  for (int b = 0; b < c->blocks; b++) scale_block(c, b);
  place_mass(c);
  c->pays = true;
}

// ---- products -------------------------------------------------------------------------------------------------------
// c->x, by place, = G'v;  v = G (x by place)
static void gather(pbCondensed *c, const double *v) {
  memset(c->x, 0, sizeof *c->x * (size_t)c->n);
  for (int b = 0; b < c->blocks; b++) {
    double f[PB_BLOCK] = {0};
    const int *dof = c->dof + c->dof_begin[b];
    int n = c->dof_begin[b + 1] - c->dof_begin[b];

    for (int k = c->begin[b]; k < c->begin[b + 1]; k++)
      if (c->feature[k] >= 0) f[c->feature[k]] += c->factor[k] * v[c->row[k]];
    for (int k = 0; k < c->features[b]; k++) {
      const double *J = c->J + c->J_begin[b] + (size_t)(k * n);
      for (int j = 0; j < n; j++) c->x[dof[j]] += f[k] * J[j];
    }
  }
}
static void scatter(const pbCondensed *c, const double *x, double *v) {
  for (int b = 0; b < c->blocks; b++) {
    double f[PB_BLOCK];
    const int *dof = c->dof + c->dof_begin[b];
    int n = c->dof_begin[b + 1] - c->dof_begin[b];

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
static void square_times(const pbCondensed *c, const double *A, int b, bool transposed, const double *v, double *out) {
  int n = c->begin[b + 1] - c->begin[b];
  const int *row = c->row + c->begin[b];
  double in[PB_BLOCK];

  for (int i = 0; i < n; i++) in[i] = v[row[i]];
  for (int i = 0; i < n; i++) {
    double sum = 0;
    for (int j = 0; j < n; j++) sum += A[transposed ? j * n + i : i * n + j] * in[j];
    out[row[i]] = sum;
  }
}
static void blocks_times(const pbCondensed *c, const double *A, bool transposed, const double *v, double *out) {
  for (int b = 0; b < c->blocks; b++) square_times(c, A + c->square[b], b, transposed, v, out);
}

static void to_unknowns(const pbCondensed *c, const double *x, double *out) {
  for (int i = 0; i < c->n; i++) out[c->order[i]] = x[i];
}

void pbCondensed_Mul(pbCondensed *c, const double *z, double *out) {
  pbReduced *r = (pbReduced *)c->reduced;  // its vectors are scratch
  gather(c, z);
  to_unknowns(c, c->x, r->tmp);
  pbReduced_Primal(r, r->tmp, NULL, c->t, NULL);
  for (int i = 0; i < c->n; i++) c->x[i] = -c->t[c->order[i]];
  scatter(c, c->x, out);
  if (!c->l->F) return;
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

// ---- factorisation --------------------------------------------------------------------------------------------------
// A := A^-1, n <= PB_BLOCK, by Gauss and Jordan with row exchanges; log |det A| is added (NULL: not wanted). False where it is singular.
static bool invert(double *A, int n, double *log_det) {
  double det = 1;
  int swapped[PB_BLOCK];

  for (int k = 0; k < n; k++) {
    int best = k;
    for (int i = k + 1; i < n; i++)
      if (fabs(A[i * n + k]) > fabs(A[best * n + k])) best = i;
    double pivot = A[best * n + k];
    if (pivot == 0 || !isfinite(pivot)) return false;
    swapped[k] = best;
    det *= pivot;
    if (best != k)
      for (int j = 0; j < n; j++) {
        double t = A[k * n + j];
        A[k * n + j] = A[best * n + j];
        A[best * n + j] = t;
      }

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

  for (int k = n - 1; k >= 0; k--)
    for (int i = 0; i < n && swapped[k] != k; i++) {
      double t = A[i * n + k];
      A[i * n + k] = A[i * n + swapped[k]];
      A[i * n + swapped[k]] = t;
    }

  if (log_det) *log_det += log(fabs(det));
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

  for (int j = 0; j < n; j++) out[j] = 0;
  for (int f = 0; f < features; f++)
    for (int j = 0; j < n; j++) out[j] += weights[f] * J[f * stride + j];
}

// H += J'K J of a block, K between its features
static void add_block(pbCondensed *c, int b, const double *K) {
  int n = c->dof_begin[b + 1] - c->dof_begin[b], features = c->features[b];
  const int *dof = c->dof + c->dof_begin[b];
  const double *J = c->J + c->J_begin[b];
  double *low = c->low, *up = c->up;

  for (int i = 0; i < n; i++) {
    double lower[PB_BLOCK], upper[PB_BLOCK];  // row i of J'K, column i of K J
    for (int g = 0; g < features; g++) {
      lower[g] = upper[g] = 0;
      for (int f = 0; f < features; f++) {
        lower[g] += J[f * n + i] * K[f * features + g];
        upper[g] += K[g * features + f] * J[f * n + i];
      }
    }

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
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < rows; j++)
      if (feature[i] >= 0 && feature[j] >= 0) K[feature[i] * features + feature[j]] += factor[i] * A[i * rows + j] * factor[j];
}

// L U with L's diagonal one, rows of L and columns of U side by side
static bool factor_envelope(pbCondensed *c) {
  int n = c->n;
  for (int i = 0; i < n; i++) {
    double *Li = in_row(c->L, i, n), *Ui = in_row(c->U, i, n), before = fabs(c->D[i]), sum = 0;
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

    for (int k = c->start[i]; k < i; k++) sum += Li[k] * Ui[k];
    c->D[i] -= sum;
    if (!(fabs(c->D[i]) > SMALL * before)) return false;
    c->log_det += log(fabs(c->D[i]));
  }

  return true;
}

static void begin_factor(pbCondensed *c) {
  int n = c->n;
  c->log_det = 0;
  for (int i = 0; i < n; i++) {
    size_t bytes = sizeof *c->L * (size_t)(i - c->start[i]);
    const double *Q = in_row(c->Q, i, n) + c->start[i];

    memcpy(in_row(c->L, i, n) + c->start[i], Q, bytes);
    memcpy(in_row(c->U, i, n) + c->start[i], Q, bytes);
    c->D[i] = Q[i - c->start[i]];
  }
}

bool pbCondensed_Factor(pbCondensed *c, const double *diag, const bool *active) {
  double K[PB_BLOCK * PB_BLOCK];
  c->plain = true;
  begin_factor(c);

  for (int b = 0; b < c->blocks; b++) {
    int n = c->begin[b + 1] - c->begin[b];
    const int *row = c->row + c->begin[b];
    double *B = c->B + c->square[b];

    memcpy(B, c->F + c->square[b], sizeof *B * (size_t)(n * n));
    for (int i = 0; i < n; i++) {
      if (active && !active[row[i]])
        for (int j = 0; j < n; j++) B[i * n + j] = B[j * n + i] = 0;
      B[i * n + i] = active && !active[row[i]] ? 1 : B[i * n + i] + diag[row[i]];
    }

    if (!invert(B, n, active ? &c->log_det : NULL)) return false;
    for (int i = 0; i < n && active; i++)
      if (!active[row[i]]) B[i * n + i] = 0;
    to_features(c, b, B, K);
    add_block(c, b, K);
  }

  return factor_envelope(c);
}

bool pbCondensed_FactorLaws(pbCondensed *c, double (*by_s)[3][3], double (*by_z)[3][3], double delta) {
  double K[PB_BLOCK * PB_BLOCK], product[9];
  c->plain = false;
  begin_factor(c);

  for (int b = 0; b < c->blocks; b++) {
    double *B = c->B + c->square[b], *S = c->S + c->square[b];
    memcpy(S, by_s[b], sizeof *S * 9);
    memcpy(B, by_z[b], sizeof *B * 9);
    for (int i = 0; i < 9; i++) B[i] += delta * S[i];
    if (!invert(B, 3, &c->log_det)) return false;
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 3; j++) {
        product[3 * i + j] = 0;
        for (int k = 0; k < 3; k++) product[3 * i + j] += B[3 * i + k] * S[3 * k + j];
      }

    to_features(c, b, product, K);
    add_block(c, b, K);
  }

  return factor_envelope(c);
}

// c->x := H^-1 x, H'^-1 x
static void solve_envelope(pbCondensed *c, bool transposed) {
  int n = c->n;
  double *x = c->x, *low = transposed ? c->U : c->L, *up = transposed ? c->L : c->U;

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

static void solve(pbCondensed *c, double *v, bool transposed) {
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
void pbCondensed_Solve(pbCondensed *c, double *v) { solve(c, v, false); }
void pbCondensed_SolveT(pbCondensed *c, double *v) { solve(c, v, true); }

// Power iteration with (M + d)^-1 M (M + d)^-1, whose eigenvalues are about 1 / lambda, and 0 where lambda is.
double pbCondensed_Condition(pbCondensed *c, double *v, double *t) {
  double largest = 0, inverse = 0, size;
  for (int i = 0; i < c->m; i++) v[i] = i % 3 ? 1 : -1;
  for (int round = 0; round < 3; round++) {
    pbCondensed_Solve(c, v);
    size = pbDense_MaxAbs(v, c->m);
    if (!(size > 0) || !isfinite(size)) return 1;
    pbCondensed_Mul(c, v, t);
    for (int i = 0; i < c->m; i++) t[i] = v[i] == 0 ? 0 : t[i];  // rows that are left out
    double after = pbDense_MaxAbs(t, c->m);
    largest = fmax(largest, after / size);
    if (round) inverse = fmax(inverse, after > 0 ? size / after : 0);
    for (int i = 0; i < c->m; i++) v[i] = after > 0 ? t[i] / after : 0;
  }

  return fmax(1, largest * inverse);
}
