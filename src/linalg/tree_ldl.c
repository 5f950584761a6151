// Factorization, solution and product of tree-sparse matrices (tree_ldl.h), a block of rows that share their ancestors at a
// time. Tests: every step of tests/conformance.
// Tests: tests/oracle/test_stages.py, tests/oracle/test_derivatives.py.
#include "linalg/tree_ldl.h"

#include "base/assert.h"
#include "linalg/vector.h"

_Static_assert(PB_TREE_PAD % PB_WIDTH == 0, "rows hold whole vectors");

size_t NUM(pbTree_Entries)(pbTreePattern *tree) {
  size_t entries = 0;
  for (int i = 0; i < tree->n; i++) {
    int p = tree->parent[i];
    PB_ASSERT(p < i);
    tree->depth[i] = p < 0 ? 0 : tree->depth[p] + 1;
    entries += (size_t)PB_TREE_PADDED(tree->depth[i]);
  }
  return entries;
}

void NUM(pbTree_Layout)(pbTreePattern *tree) {
  int adr = 0;
  for (int i = 0; i < tree->n; i++) {  // a row's chain is its parent's and itself
    int p = tree->parent[i], d = p < 0 ? 0 : tree->depth[p] + 1;
    PB_ASSERT(p < i);
    tree->depth[i] = d;
    tree->adr[i] = adr;
    int *to = tree->chain + adr;
    // In blocks, as rows are padded: what is copied beyond its end is written over by the row itself.
    const int *from = p < 0 ? to : tree->chain + tree->adr[p];
    for (int a = 0; a < d; a += PB_TREE_PAD) memcpy(to + a, from + a, PB_TREE_PAD * sizeof(int));
    to[d] = i;
    adr += PB_TREE_PADDED(d);
  }
  PB_ASSERT(adr <= PB_TREE_ROOM(tree->n));
  tree->size = adr;

  // Blocks from the last row up: each row is the parent of the one behind it.
  for (int k = tree->n - 1, length; k >= 0; k -= length) {
    for (length = 1; length < PB_TREE_BLOCK && k >= length && tree->parent[k - length + 1] == k - length;) length++;
    tree->block[k] = tree->block[k - length + 1] = length;
  }
}

void NUM(pbTree_Join)(int *parent, int i, int j) {
  while (i != j && i >= 0 && j >= 0) {
    if (i < j) {
      int t = i;
      i = j;
      j = t;
    }

    int p = parent[i];  // j < i must become an ancestor of i, and so meet p
    if (p < j) parent[i] = j;
    i = p;
  }
}

// Functions of a block of n rows, of which k is the last: n is a constant in each of the copies.
#define BY_LENGTH(n, function, ...)           \
  switch (n) {                                \
    case 1: function(1, __VA_ARGS__); break;  \
    case 2: function(2, __VA_ARGS__); break;  \
    case 3: function(3, __VA_ARGS__); break;  \
    default: function(4, __VA_ARGS__); break; \
  }

// The rows of a block from the last, and the number of ancestors that all of them have outside the block.
PB_COPIES int rows_of(int n, const pbTreePattern *tree, const num *A, int k, const num *row[]) {
  for (int r = 0; r < n; r++) row[r] = A + tree->adr[k - r];
  return tree->depth[k] - (n - 1);
}

// Row i, `count` entries: minus n rows, each times its entry in column `at` over its pivot.
PB_COPIES void eliminate_rows(int n, num *restrict y, int count, num *const row[], const num *inv, int at) {
  num s[PB_TREE_BLOCK];

  for (int r = 0; r < n; r++) s[r] = row[r][at] * inv[r];

  // The rest falls into padding.
  for (int i = 0; i < count; i += PB_WIDTH) {
    pbVector v = *vec_in(y + i);
    for (int r = 0; r < n; r++) v -= s[r] * *vec_in(row[r] + i);
    *vec_at(y + i) = v;
  }
}

// Rows of a block, already eliminated: A -> L, but for the diagonal.
PB_COPIES void scale_rows(int n, num *const row[], const num *inv, int outside, int depth) {
  num pivot[PB_TREE_BLOCK];
  for (int r = 0; r < n; r++) pivot[r] = row[r][depth - r];

  // Ancestors of all rows in whole vectors, then the rows' own triangle; the diagonal is put back.
  int i = 0;
  for (; i <= outside; i += PB_WIDTH) {
    for (int r = 0; r < n; r++) *vec_at(row[r] + i) *= inv[r];
  }
  for (; i < depth; i++) {
    for (int r = 0; r < depth - i; r++) row[r][i] *= inv[r];
  }

  for (int r = 0; r < n; r++) row[r][depth - r] = pivot[r];
}

PB_COPIES int factor_block(int n, const pbTreePattern *tree, num *A, int k, num *diag_inv) {
  num *row[PB_TREE_BLOCK], inv[PB_TREE_BLOCK];
  int depth = tree->depth[k], outside = depth - (n - 1), bad = -1;
  const int *chain = tree->chain + tree->adr[k];

  // The block's own rows: each loses its share of those below it, which are constants for the compiler.
  for (int r = 0; r < n; r++) {
    num *y = row[r] = A + tree->adr[k - r];
    if (r == 1) eliminate_rows(1, y, depth, row, inv, depth - 1);
    if (r == 2) eliminate_rows(2, y, depth - 1, row, inv, depth - 2);
    if (r == 3) eliminate_rows(3, y, depth - 2, row, inv, depth - 3);

    if (!(re(y[depth - r]) > 0)) bad = k - r;
    diag_inv[k - r] = inv[r] = 1 / y[depth - r];
  }

  // The rows of all ancestors outside, nearest first.
  for (int a = outside - 1; a >= 0; a--) eliminate_rows(n, A + tree->adr[chain[a]], a + 1, row, inv, a);
  scale_rows(n, row, inv, outside, depth);
  return bad;
}

int NUM(pbTree_Factor)(const pbTreePattern *tree, num *A, num *diag_inv) {
  int bad = -1;
  for (int k = tree->n - 1; k >= 0; k -= tree->block[k]) {  // from the leaves
    int wrong;
    BY_LENGTH(tree->block[k], wrong = factor_block, tree, A, k, diag_inv)
    if (wrong >= 0) bad = wrong;
  }
  return bad;
}

// Ancestors: x -= L' x_block.
PB_COPIES void solve_up(int n, const pbTreePattern *tree, const num *LD, int k, num *x) {
  const num *row[PB_TREE_BLOCK];
  num s[PB_TREE_BLOCK];
  int outside = rows_of(n, tree, LD, k, row), depth = tree->depth[k], a = 0;
  const int *chain = tree->chain + tree->adr[k];

  // Within the block.
  for (int r = 0; r < n; r++) {
    s[r] = x[k - r];
    for (int q = 0; q < r; q++) s[r] -= row[q][depth - r] * s[q];
    x[k - r] = s[r];
  }

  // Ancestors outside, in whole vectors, then one by one.
  for (; a + PB_WIDTH <= outside; a += PB_WIDTH) {
    pbVector v;
    vec_gather(x, chain + a, &v);
    for (int r = 0; r < n; r++) v -= s[r] * *vec_in(row[r] + a);
    vec_scatter(&v, x, chain + a);
  }

  for (int i = 0; i < PB_WIDTH - 1 && a < outside; i++, a++) {
    num t = x[chain[a]];
    for (int r = 0; r < n; r++) t -= s[r] * row[r][a];
    x[chain[a]] = t;
  }
}

// The block: x_block = D^-1 x_block - L x of its ancestors.
PB_COPIES void solve_down(int n, const pbTreePattern *tree, const num *LD, int k, const num *diag_inv, num *x) {
  const num *row[PB_TREE_BLOCK];
  pbVector dot[PB_TREE_BLOCK] = {0};
  num s[PB_TREE_BLOCK];
  int outside = rows_of(n, tree, LD, k, row), depth = tree->depth[k], a = 0;
  const int *chain = tree->chain + tree->adr[k];

  // Products with the ancestors outside.
  for (; a + PB_WIDTH <= outside; a += PB_WIDTH) {
    pbVector v;
    vec_gather(x, chain + a, &v);
    for (int r = 0; r < n; r++) dot[r] += *vec_in(row[r] + a) * v;
  }
  for (int r = 0; r < n; r++) s[r] = x[k - r] * diag_inv[k - r] - vec_sum(dot + r);
  for (int i = 0; i < PB_WIDTH - 1 && a < outside; i++, a++) {
    for (int r = 0; r < n; r++) s[r] -= row[r][a] * x[chain[a]];
  }

  // Within the block, from its first row down.
  for (int r = n - 1; r >= 0; r--) {
    for (int q = n - 1; q > r; q--) s[r] -= row[r][depth - q] * s[q];
    x[k - r] = s[r];
  }
}

void NUM(pbTree_Solve)(const pbTreePattern *tree, const num *LD, const num *diag_inv, num *x) {
  // L' x := x from the leaves, then L x := D^-1 x from the roots.
  for (int k = tree->n - 1; k >= 0; k -= tree->block[k]) BY_LENGTH(tree->block[k], solve_up, tree, LD, k, x)

  for (int k = 0; k < tree->n; k++) {
    int n = tree->block[k];
    k += n - 1;
    BY_LENGTH(n, solve_down, tree, LD, k, diag_inv, x)
  }
}

// The ancestors' part of mul_block: y of the ancestors += their entries times z, s = the rows' products with x of the
// ancestors.
PB_COPIES void mul_outside(int n, int outside, const int *chain, const num *const row[], const num *x, num *y, const num *z,
                           num *s) {
  pbVector dot[PB_TREE_BLOCK] = {0};
  int a = 0;
  for (; a + PB_WIDTH <= outside; a += PB_WIDTH) {
    pbVector v, u;
    vec_gather(x, chain + a, &v);
    vec_gather(y, chain + a, &u);
    for (int r = 0; r < n; r++) {
      pbVector e = *vec_in(row[r] + a);
      dot[r] += e * v;
      u += z[r] * e;
    }
    vec_scatter(&u, y, chain + a);
  }
  for (int r = 0; r < n; r++) s[r] = vec_sum(dot + r);

  // What is left of a vector.
  for (int i = 0; i < PB_WIDTH - 1 && a < outside; i++, a++) {
    num v = x[chain[a]], u = y[chain[a]];
    for (int r = 0; r < n; r++) {
      s[r] += row[r][a] * v;
      u += z[r] * row[r][a];
    }
    y[chain[a]] = u;
  }
}

// y_block = A x, and the block's share for its ancestors.
PB_COPIES void mul_block(int n, const pbTreePattern *tree, const num *A, int k, const num *x, num *y) {
  const num *row[PB_TREE_BLOCK];
  num s[PB_TREE_BLOCK], z[PB_TREE_BLOCK];
  int outside = rows_of(n, tree, A, k, row), depth = tree->depth[k];
  for (int r = 0; r < n; r++) z[r] = x[k - r];
  mul_outside(n, outside, tree->chain + tree->adr[k], row, x, y, z, s);

  // The block's own symmetric triangle.
  for (int r = 0; r < n; r++) {
    s[r] += row[r][depth - r] * z[r];
    for (int q = 0; q < r; q++) {
      s[r] += row[q][depth - r] * z[q];
      s[q] += row[q][depth - r] * z[r];
    }
  }

  for (int r = 0; r < n; r++) y[k - r] = s[r];
}

void NUM(pbTree_Mul)(const pbTreePattern *tree, const num *A, const num *restrict x, num *restrict y) {
  for (int k = 0; k < tree->n; k++) {
    int n = tree->block[k];
    k += n - 1;
    BY_LENGTH(n, mul_block, tree, A, k, x, y)
  }
}
