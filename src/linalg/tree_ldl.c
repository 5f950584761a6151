#include "linalg/tree_ldl.h"

void NUM(pbTree_Layout)(pbTreePattern *tree) {
  int adr = 0;
  for (int i = 0; i < tree->n; i++) {
    int p = tree->parent[i], d = p < 0 ? 0 : tree->depth[p] + 1;
    tree->depth[i] = d;
    tree->adr[i] = adr;
    if (d) memcpy(tree->chain + adr, tree->chain + tree->adr[p], (size_t)d * sizeof(int));
    tree->chain[adr + d] = i;
    adr += (d + PB_TREE_PAD) / PB_TREE_PAD * PB_TREE_PAD;
  }
  tree->size = adr;
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

// Short indirect loops: vectors with gathers would only cost.
#if defined(__GNUC__) && !defined(__clang__)
#define SCALAR_LOOPS __attribute__((optimize("no-tree-vectorize")))
#else
#define SCALAR_LOOPS
#endif

// y -= s x and x *= s over whole vectors that hold n entries.
#if PB_IS_COMPLEX
static inline void subtract(num *restrict y, const num *restrict x, num s, int n) {
  for (int i = 0; i < n; i++) y[i] -= s * x[i];
}
static inline void scale(num *x, num s, int n) {
  for (int i = 0; i < n; i++) x[i] *= s;
}
#else
typedef double vector __attribute__((vector_size(8 * PB_TREE_PAD), aligned(8), may_alias));
static inline void subtract(double *restrict y, const double *restrict x, double s, int n) {
  for (int i = 0; i < n; i += PB_TREE_PAD) *(vector *)(y + i) -= s * *(const vector *)(x + i);  // the rest falls into padding
}
static inline void scale(double *x, double s, int n) {
  for (int i = 0; i < n; i += PB_TREE_PAD) *(vector *)(x + i) *= s;
}
#endif

int NUM(pbTree_Factor)(const pbTreePattern *tree, num *restrict A, num *restrict diag_inv) {
  int bad = -1;
  for (int k = tree->n - 1; k >= 0; k--) {
    int depth = tree->depth[k];
    num *row = A + tree->adr[k];
    const int *chain = tree->chain + tree->adr[k];
    if (!(re(row[depth]) > 0)) bad = k;
    num pivot = row[depth], inv = 1 / pivot;
    diag_inv[k] = inv;
    for (int a = depth - 1; a >= 0; a--) {
      if (re(row[a]) == 0 && (!PB_IS_COMPLEX || im(row[a]) == 0)) continue;
      subtract(A + tree->adr[chain[a]], row, row[a] * inv, a + 1);
    }
    scale(row, inv, depth);
    row[depth] = pivot;
  }
  return bad;
}

SCALAR_LOOPS void NUM(pbTree_Solve)(const pbTreePattern *tree, const num *restrict LD, const num *restrict diag_inv,
                                    num *restrict x) {
  for (int k = tree->n - 1; k >= 0; k--) {  // L' from the leaves
    const int *chain = tree->chain + tree->adr[k];
    const num *row = LD + tree->adr[k];
    num xk = x[k];
    for (int a = 0; a < tree->depth[k]; a++) x[chain[a]] -= row[a] * xk;
  }
  for (int k = 0; k < tree->n; k++) {
    const int *chain = tree->chain + tree->adr[k];
    const num *row = LD + tree->adr[k];
    num s = x[k] * diag_inv[k];
    for (int a = 0; a < tree->depth[k]; a++) s -= row[a] * x[chain[a]];
    x[k] = s;
  }
}

SCALAR_LOOPS void NUM(pbTree_Mul)(const pbTreePattern *tree, const num *restrict A, const num *restrict x, num *restrict y) {
  for (int k = 0; k < tree->n; k++) {
    const int *chain = tree->chain + tree->adr[k];
    const num *row = A + tree->adr[k];
    num s = row[tree->depth[k]] * x[k];
    for (int a = 0; a < tree->depth[k]; a++) {
      s += row[a] * x[chain[a]];
      y[chain[a]] += row[a] * x[k];
    }
    y[k] = s;
  }
}
