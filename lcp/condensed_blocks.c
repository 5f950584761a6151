// What of the condensed form (condensed.h) does not change with the law: blocks of rows, their unknowns and features, an order of
// the unknowns with its envelope, and the mass matrix in that order.
// Tests: tests/unit/test_condensed.c.
#include "lcp/condensed.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

static const double PENALTY = 1e-9;  // what an equality gives, rows scaled

static double *in_row(double *A, int i, int n) { return A + (size_t)i * (size_t)n; }

// ---- blocks ---------------------------------------------------------------------------------------------------------
// Of a union-find forest, whose paths are halved on the way (Tarjan & van Leeuwen 1984).
static int find_root(int *parent, int i) {
  while (parent[i] != i) {
    parent[i] = parent[parent[i]];
    i = parent[i];
  }

  return i;
}

static void unite(int *parent, int i, int j) {
  int a = find_root(parent, i), b = find_root(parent, j);
  parent[a > b ? a : b] = a > b ? b : a;
}

// Rows of one contact, and rows that an entry of F ties together, get one root: the first row of their block.
static void unite_rows(const pbCondensed *c, int contact, int *parent) {
  int m = c->m;
  for (int i = 0; i < m; i++) parent[i] = i - i % contact;

  if (c->l->F) {
    for (int i = 0; i < m; i++) {
      const double *f = c->l->F + (size_t)i * (size_t)m;
      for (int j = 0; j < m; j++) {
        while (j + 8 <= m && pbDense_Zero8(f + j)) j += 8;
        if (j < m && f[j] != 0 && j != i) unite(parent, i, j);
      }
    }
  }

  for (int i = 0; i < m; i++) parent[i] = find_root(parent, i);
}

// Rows that F ties together, directly or not, or that are of one contact. False where a block is too large.
static bool find_blocks(pbCondensed *c, int contact) {
  PB_ASSERT(contact >= 1 && contact <= PB_BLOCK && c->m % contact == 0);
  int m = c->m, *parent = c->feature, *count = c->features;
  unite_rows(c, contact, parent);

  // Blocks in the order of their first rows, which are their roots; from here on parent is the block.
  c->blocks = 0;
  for (int i = 0; i < m; i++) {
    bool first = parent[i] == i;
    int block = first ? c->blocks++ : parent[parent[i]];
    parent[i] = block;
    count[block] = first ? 1 : count[block] + 1;
  }

  // Where the rows and the square of each block begin.
  c->begin[0] = 0;
  c->square[0] = 0;
  for (int b = 0; b < c->blocks; b++) {
    if (count[b] > PB_BLOCK) return false;
    c->begin[b + 1] = c->begin[b] + count[b];
    c->square[b + 1] = c->square[b] + (size_t)(count[b] * count[b]);
    count[b] = c->begin[b];
  }

  // count is now where the next row of a block goes.
  for (int i = 0; i < m; i++) c->row[count[parent[i]]++] = i;
  return true;
}

// The unknowns of a block's rows, marked in `seen`, which has zeros on entry and exit; in the order of their places.
static void find_dofs(pbCondensed *c, int b, unsigned char *seen) {
  int n = c->n, count = 0, *dof = c->dof + c->dof_begin[b];
  for (int k = c->begin[b]; k < c->begin[b + 1]; k++) {
    const double *g = c->l->G + (size_t)c->row[k] * (size_t)n;

    // Marks any unknown that a row of the block has an entry by.
    for (int j = 0; j < n; j++) {
      while (j + 8 <= n && pbDense_Zero8(g + j)) j += 8;
      if (j < n && g[j] != 0) seen[j] = 1;
    }
  }

  for (int j = 0; j < n; j++) {
    if (!seen[j]) continue;
    dof[count++] = j;
    seen[j] = 0;
  }

  PB_VALIDATE(pb_ascending(dof, count) && pb_allWithin(dof, count, 0, n));
  c->dof_begin[b + 1] = c->dof_begin[b] + count;
}

// Is row g a multiple of row J, on the block's unknowns?  Only the same and the opposite are tried.
static double multiple(const double *g, const double *J, const int *dof, int n) {
  double sign = 0;
  for (int j = 0; j < n; j++) {
    if (J[j] == 0) continue;
    sign = g[dof[j]] == J[j] ? 1 : -1;
    break;
  }

  for (int j = 0; j < n; j++) {
    if (g[dof[j]] != sign * J[j]) return 0;
  }

  return sign;
}

// The feature that row k is a multiple of; -1: none yet. The edges of a friction pyramid come in such pairs.
static int find_feature(pbCondensed *c, int k, const double *g, const double *J, int count, const int *dof, int n) {
  for (int f = 0; f < count; f++) {
    c->factor[k] = multiple(g, J + (size_t)(f * n), dof, n);
    if (c->factor[k] != 0) return f;
  }

  return -1;
}

// The block's features in J, unscaled; each row's feature and factor. The unknowns are in `dof` by their own number.
static void find_features(pbCondensed *c, int b) {
  int n = c->dof_begin[b + 1] - c->dof_begin[b], count = 0;
  const int *dof = c->dof + c->dof_begin[b];
  double *J = c->J + c->J_begin[b];

  for (int k = c->begin[b]; k < c->begin[b + 1]; k++) {
    const double *g = c->l->G + (size_t)c->row[k] * (size_t)c->n;

    // Only on the block's unknowns: elsewhere the row is zero.
    bool zero = true;

    for (int j = 0; j < n; j++) zero &= g[dof[j]] == 0;
    // A row of zeros has none, and the factor 0.
    c->feature[k] = -1;
    c->factor[k] = 0;
    if (zero) continue;
    c->feature[k] = find_feature(c, k, g, J, count, dof, n);
    if (c->feature[k] >= 0) continue;

    for (int j = 0; j < n; j++) J[count * n + j] = g[dof[j]];
    c->feature[k] = count++;
    c->factor[k] = 1;
  }

  PB_ASSERT(count <= c->begin[b + 1] - c->begin[b]);
  c->features[b] = count;
  c->J_begin[b + 1] = c->J_begin[b] + (size_t)(count * n);
}

// ---- ordering -------------------------------------------------------------------------------------------------------
// Unknowns that a row, a block or Q ties together.
static void find_neighbors(const pbCondensed *c, unsigned char *next_to) {
  size_t n = (size_t)c->n;
  memset(next_to, 0, n * n);
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < i; j++) {
      if (c->l->Q[i * n + j] == 0) continue;
      next_to[i * n + j] = 1;
      next_to[j * n + i] = 1;
    }
  }

  // A block's rows make its unknowns a clique of H.
  for (int b = 0; b < c->blocks; b++) {
    for (int i = c->dof_begin[b]; i < c->dof_begin[b + 1]; i++) {
      for (int j = c->dof_begin[b]; j < c->dof_begin[b + 1]; j++) next_to[(size_t)c->dof[i] * n + (size_t)c->dof[j]] = 1;
    }
  }

  // So do the equalities, by their penalty.
  for (int k = 0; k < c->l->e; k++) {
    const double *a = c->l->A + (size_t)k * n;
    for (size_t i = 0; i < n; i++) {
      if (a[i] == 0) continue;
      for (size_t j = 0; j < n; j++) {
        if (a[j] != 0) next_to[i * n + j] = 1;
      }
    }
  }
}

// Breadth first from `from`, appended to order from `count` on; place: -1 where not yet reached. Returns the new count.
static int spread(pbCondensed *c, const unsigned char *next_to, int from, int count) {
  int at = count;
  c->order[count] = from;
  c->place[from] = count++;

  // Neighbors in the order of their numbers: the order is the same on every machine.
  for (; at < count; at++) {
    const unsigned char *row = next_to + (size_t)c->order[at] * (size_t)c->n;
    for (int j = 0; j < c->n; j++) {
      if (!row[j] || c->place[j] >= 0) continue;
      c->order[count] = j;
      c->place[j] = count++;
    }
  }

  return count;
}

// Cuthill and McKee's order (1969), each connected part from the end that a first round finds; then the envelope.
static void find_order(pbCondensed *c, unsigned char *next_to) {
  int n = c->n, count = 0;
  for (int i = 0; i < n; i++) c->place[i] = -1;

  for (int i = 0; i < n; i++) {
    // A part of the graph that no row has reached yet.
    if (c->place[i] >= 0) continue;
    int end = spread(c, next_to, i, count), last = c->order[end - 1];
    for (int k = count; k < end; k++) c->place[c->order[k]] = -1;
    count = spread(c, next_to, last, count);
  }

  PB_ASSERT(count == n);
  PB_VALIDATE(pb_allWithin(c->place, n, 0, n));

  // The first column of each row that can fill in.
  for (int i = 0; i < n; i++) {
    const unsigned char *row = next_to + (size_t)c->order[i] * (size_t)n;
    int first = i;

    for (int j = 0; j < n; j++) {
      if (row[j] && c->place[j] < first) first = c->place[j];
    }
    c->start[i] = first;
  }
}

// ---- what does not change -------------------------------------------------------------------------------------------
// The block's unknowns by place, ascending, and the columns of J with them. Insertion: they are nearly in order.
static void sort_unknowns(int *dof, int n, double *J, int features) {
  for (int i = 1; i < n; i++) {
    for (int j = i; j > 0 && dof[j - 1] > dof[j]; j--) {
      int d = dof[j];
      dof[j] = dof[j - 1];
      dof[j - 1] = d;

      for (int f = 0; f < features; f++) {
        double t = J[f * n + j];
        J[f * n + j] = J[f * n + j - 1];
        J[f * n + j - 1] = t;
      }
    }
  }
}

// Features and factors scaled as the rows are; unknowns by place, ascending.
static void scale_block(pbCondensed *c, int b) {
  const double *S = c->reduced->S;
  int rows = c->begin[b + 1] - c->begin[b], n = c->dof_begin[b + 1] - c->dof_begin[b], *dof = c->dof + c->dof_begin[b];
  const int *row = c->row + c->begin[b];
  double *J = c->J + c->J_begin[b], *F = c->F + c->square[b], scale[PB_BLOCK] = {0};

  // A feature is scaled as the first of its rows; the others' factors make up for it.
  for (int i = 0; i < rows; i++) {
    int f = c->feature[c->begin[b] + i];
    if (f < 0) continue;
    if (scale[f] == 0) scale[f] = S[row[i]];
    c->factor[c->begin[b] + i] *= S[row[i]] / scale[f];
  }

  for (int i = 0; i < rows; i++) {
    for (int j = 0; j < rows; j++) {
      double own = c->l->F ? c->l->F[(size_t)row[i] * (size_t)c->m + (size_t)row[j]] : 0;
      F[i * rows + j] = c->l->F ? S[row[i]] * own * S[row[j]] : 0;
    }
  }

  for (int f = 0; f < c->features[b]; f++) {
    for (int j = 0; j < n; j++) J[f * n + j] *= scale[f];
  }

  for (int i = 0; i < n; i++) dof[i] = c->place[dof[i]];
  sort_unknowns(dof, n, J, c->features[b]);
  PB_VALIDATE(pb_ascending(dof, n));
}

// Q by place, within the envelope, and the penalty of the equalities, (row A)'(row A) / PENALTY.
static void place_mass(pbCondensed *c) {
  int n = c->n;

  // The caller's Q counts by its lower triangle.
  for (int i = 0; i < n; i++) {
    for (int j = c->start[i]; j <= i; j++) {
      int a = c->order[i], b = c->order[j];
      in_row(c->Q, i, n)[j] = c->l->Q[(size_t)(a > b ? a : b) * (size_t)n + (size_t)(a > b ? b : a)];
    }
  }

  for (int k = 0; k < c->l->e; k++) {
    const double *A = c->l->A + (size_t)k * (size_t)n;
    double weight = c->reduced->row[k] * c->reduced->row[k] / PENALTY;

    for (int i = 0; i < n; i++) {
      double a = weight * A[c->order[i]];
      if (a == 0) continue;
      for (int j = c->start[i]; j <= i; j++) in_row(c->Q, i, n)[j] += a * A[c->order[j]];
    }
  }
}

// What one factorization costs: of the envelope, and of each block with its products.
static double condensed_cost(const pbCondensed *c) {
  double cost = 0;
  for (int i = 0; i < c->n; i++) cost += (double)(i - c->start[i]) * (i - c->start[i]);

  for (int b = 0; b < c->blocks; b++) {
    int rows = c->begin[b + 1] - c->begin[b], dofs = c->dof_begin[b + 1] - c->dof_begin[b];
    cost += (double)rows * rows * rows + dofs * (dofs + 10) * c->features[b];
  }

  return cost;
}

void pbCondensed_Make(pbCondensed *c, pbReduced *reduced, const pbLcp *problem, int contact) {
  PB_ASSERT(problem->n == c->n && problem->m == c->m);
  c->reduced = reduced;
  c->l = problem;
  c->pays = false;
  unsigned char *bytes = (unsigned char *)c->U;  // n x n of them, before there is a factor
  double dense = (double)c->m * c->m * c->m / 3;
  if (c->m < 12 || !find_blocks(c, contact)) return;

  c->dof_begin[0] = 0;
  c->J_begin[0] = 0;
  memset(bytes, 0, (size_t)c->n);
  for (int b = 0; b < c->blocks; b++) {
    find_dofs(c, b, bytes);
    find_features(c, b);
  }

  find_neighbors(c, bytes);
  find_order(c, bytes);

  // Compared with one dense factorization of M.
  if (condensed_cost(c) > dense) return;

  for (int b = 0; b < c->blocks; b++) scale_block(c, b);
  place_mass(c);
  c->pays = true;
}
