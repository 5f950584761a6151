// Substitution with the factor of a front after the other: L, D, L', for one right-hand side and for several side by side.
// Tests: tests/unit/test_sparse.c.
#include "linalg/vector.h"
#include "sparse/kernels.h"

enum { GROUP = 4 };  // columns taken together

// w: the front's part of the solution, pivots first. Forward: w[i] -= L(i, j) w[j] for the columns j of the panel.
static void forward(const double *L, int lead, int m, int k, double *w) {
  int j = 0;
  for (; j + GROUP <= k; j += GROUP) {
    const double *l0 = L + (size_t)j * (size_t)lead, *l1 = l0 + lead, *l2 = l1 + lead, *l3 = l2 + lead;

    // The group's own triangle first, then its columns together: w is read and written once for four of them.
    double w0 = w[j], w1 = w[j + 1] -= l0[j + 1] * w0, w2 = w[j + 2] = (w[j + 2] - l0[j + 2] * w0) - l1[j + 2] * w1;
    double w3 = w[j + 3] = ((w[j + 3] - l0[j + 3] * w0) - l1[j + 3] * w1) - l2[j + 3] * w2;
    for (int i = j + GROUP; i < m; i++) w[i] = (((w[i] - l0[i] * w0) - l1[i] * w1) - l2[i] * w2) - l3[i] * w3;
  }

  for (; j < k; j++) {
    const double *l = L + (size_t)j * (size_t)lead;
    for (int i = j + 1; i < m; i++) w[i] -= l[i] * w[j];
  }
}

// Backward: w[j] -= sum over i > j of L(i, j) w[i].
static double dot(const double *l, const double *w, int from, int m) {
  pbVector sum = {0};
  double rest = 0;
  int i = from;
  for (; i + PB_WIDTH <= m; i += PB_WIDTH) sum += *(const pbVector *)(l + i) * *(const pbVector *)(w + i);
  for (; i < m; i++) rest += l[i] * w[i];
  return vec_sum(&sum) + rest;
}

static void backward(const double *L, int lead, int m, int k, double *w) {
  int j = k;
  // Columns beyond the last whole group.
  for (; j % GROUP; j--) w[j - 1] -= dot(L + (size_t)(j - 1) * (size_t)lead, w, j, m);

  for (j -= GROUP; j >= 0; j -= GROUP) {
    const double *l[GROUP];
    pbVector sum[GROUP] = {{0}};
    double rest[GROUP] = {0};
    for (int c = 0; c < GROUP; c++) l[c] = L + (size_t)(j + c) * (size_t)lead;

    int i = j + GROUP;
    for (; i + PB_WIDTH <= m; i += PB_WIDTH) {
      for (int c = 0; c < GROUP; c++) sum[c] += *(const pbVector *)(l[c] + i) * *(const pbVector *)(w + i);
    }
    for (; i < m; i++) {
      for (int c = 0; c < GROUP; c++) rest[c] += l[c][i] * w[i];
    }

    // Within the group, the last column first.
    for (int c = GROUP - 1; c >= 0; c--) {
      double s = vec_sum(&sum[c]) + rest[c];
      for (int b = GROUP - 1; b > c; b--) s += l[c][j + b] * w[j + b];
      w[j + c] -= s;
    }
  }
}

// Rows of the further part from or to their places in y.
static void add_further_rows(const pbSparseAnalysis *a, const pbFrontShape *f, const double *w, double *y) {
  const int *row = a->row + f->row;
  for (int i = 0; i < f->rows; i++) {
    for (int r = 0; r < 3; r++) y[3 * row[i] + r] += w[3 * i + r];
  }
}
static void get_further_rows(const pbSparseAnalysis *a, const pbFrontShape *f, const double *y, double *w) {
  const int *row = a->row + f->row;
  for (int i = 0; i < f->rows; i++) {
    for (int r = 0; r < 3; r++) w[3 * i + r] = y[3 * row[i] + r];
  }
}

void NUM(pbSparse_Substitute)(const pbSparseAnalysis *a, const double *L, const double *D, double *y, double *w) {
  // L y := y, children before parents; each front's further rows take what its pivots leave them.
  for (const pbFrontShape *f = a->front; f < a->front + a->fronts; f++) {
    int k = pb_front_k(f), m = pb_front_m(f);
    memcpy(w, y + 3 * f->first, sizeof *w * (size_t)k);
    memset(w + k, 0, sizeof *w * (size_t)(m - k));
    forward(L + f->panel, pb_aligned(m), m, k, w);
    memcpy(y + 3 * f->first, w, sizeof *w * (size_t)k);
    add_further_rows(a, f, w + k, y);
  }

  for (int i = 0; i < 3 * a->n; i++) y[i] /= D[i];

  // L' y := y, parents before children.
  for (const pbFrontShape *f = a->front + a->fronts; f-- > a->front;) {
    int k = pb_front_k(f), m = pb_front_m(f);
    memcpy(w, y + 3 * f->first, sizeof *w * (size_t)k);
    get_further_rows(a, f, y, w + k);
    backward(L + f->panel, pb_aligned(m), m, k, w);
    memcpy(y + 3 * f->first, w, sizeof *w * (size_t)k);
  }
}

// ---- several right-hand sides side by side --------------------------------------------------------------------------
// The same sums in the same order as above, so the same bits; L is read once for all.
static void forward_lanes(const double *L, int lead, int m, int k, pbVector *w) {
  int j = 0;
  for (; j + GROUP <= k; j += GROUP) {
    const double *l0 = L + (size_t)j * (size_t)lead, *l1 = l0 + lead, *l2 = l1 + lead, *l3 = l2 + lead;
    pbVector w0 = w[j], w1 = w[j + 1] -= l0[j + 1] * w0, w2 = w[j + 2] = (w[j + 2] - l0[j + 2] * w0) - l1[j + 2] * w1;
    pbVector w3 = w[j + 3] = ((w[j + 3] - l0[j + 3] * w0) - l1[j + 3] * w1) - l2[j + 3] * w2;
    for (int i = j + GROUP; i < m; i++) w[i] = (((w[i] - l0[i] * w0) - l1[i] * w1) - l2[i] * w2) - l3[i] * w3;
  }

  for (; j < k; j++) {
    const double *l = L + (size_t)j * (size_t)lead;
    for (int i = j + 1; i < m; i++) w[i] -= l[i] * w[j];
  }
}

// Sums over i >= from of `columns` columns, split as those of a vector of PB_WIDTH.
PB_COPIES void dot_lanes(int columns, const double *l, int lead, const pbVector *w, int from, int m, pbVector *result) {
  pbVector sum[2][PB_WIDTH] = {{{0}}}, rest[2] = {{0}};
  int i = from;
  for (; i + PB_WIDTH <= m; i += PB_WIDTH)
#pragma GCC unroll 4
    for (int v = 0; v < PB_WIDTH; v++)
#pragma GCC unroll 2
      for (int c = 0; c < columns; c++) sum[c][v] += l[(size_t)c * (size_t)lead + (size_t)(i + v)] * w[i + v];
  for (; i < m; i++) {
    for (int c = 0; c < columns; c++) rest[c] += l[(size_t)c * (size_t)lead + (size_t)i] * w[i];
  }
  for (int c = 0; c < columns; c++) result[c] = ((sum[c][0] + sum[c][2]) + (sum[c][1] + sum[c][3])) + rest[c];
}

static void backward_lanes(const double *L, int lead, int m, int k, pbVector *w) {
  int j = k;
  for (; j % GROUP; j--) {
    pbVector sum;
    dot_lanes(1, L + (size_t)(j - 1) * (size_t)lead, lead, w, j, m, &sum);
    w[j - 1] -= sum;
  }

  for (j -= GROUP; j >= 0; j -= GROUP) {
    const double *l = L + (size_t)j * (size_t)lead;
    pbVector sum[GROUP];
    for (int c = 0; c < GROUP; c += 2) dot_lanes(2, l + (size_t)c * (size_t)lead, lead, w, j + GROUP, m, sum + c);

    for (int c = GROUP - 1; c >= 0; c--) {
      for (int b = GROUP - 1; b > c; b--) sum[c] += l[(size_t)c * (size_t)lead + (size_t)(j + b)] * w[j + b];
      w[j + c] -= sum[c];
    }
  }
}

static void add_further_lanes(const pbSparseAnalysis *a, const pbFrontShape *f, const pbVector *w, pbVector *y) {
  const int *row = a->row + f->row;
  for (int i = 0; i < f->rows; i++) {
    for (int r = 0; r < 3; r++) y[3 * row[i] + r] += w[3 * i + r];
  }
}
static void get_further_lanes(const pbSparseAnalysis *a, const pbFrontShape *f, const pbVector *y, pbVector *w) {
  const int *row = a->row + f->row;
  for (int i = 0; i < f->rows; i++) {
    for (int r = 0; r < 3; r++) w[3 * i + r] = y[3 * row[i] + r];
  }
}

void NUM(pbSparse_SubstituteLanes)(const pbSparseAnalysis *a, const double *L, const double *D, double *lanes, double *front) {
  pbVector *y = vec_at(lanes), *w = vec_at(front);
  for (const pbFrontShape *f = a->front; f < a->front + a->fronts; f++) {
    int k = pb_front_k(f), m = pb_front_m(f);
    memcpy(w, y + 3 * f->first, sizeof *w * (size_t)k);
    memset(w + k, 0, sizeof *w * (size_t)(m - k));
    forward_lanes(L + f->panel, pb_aligned(m), m, k, w);
    memcpy(y + 3 * f->first, w, sizeof *w * (size_t)k);
    add_further_lanes(a, f, w + k, y);
  }

  for (int i = 0; i < 3 * a->n; i++) y[i] /= D[i];

  for (const pbFrontShape *f = a->front + a->fronts; f-- > a->front;) {
    int k = pb_front_k(f), m = pb_front_m(f);
    memcpy(w, y + 3 * f->first, sizeof *w * (size_t)k);
    get_further_lanes(a, f, y, w + k);
    backward_lanes(L + f->panel, pb_aligned(m), m, k, w);
    memcpy(y + 3 * f->first, w, sizeof *w * (size_t)k);
  }
}
