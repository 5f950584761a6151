// The multifrontal elimination: each front is assembled from entries of the matrix and its children's updates, loses its
// pivots, and leaves its update to its parent (Duff & Reid 1983; Liu 1992). The dense arithmetic is in front_kernel.c.
// Tests: tests/unit/test_sparse.c.
#include "sparse/kernels.h"

// The lower triangle, by whole vectors.
static void clear_triangle(double *A, int lead, int n) {
  for (int j = 0; j < n; j++) {
    int from = j & -PB_PANEL_ALIGN;
    memset(A + (size_t)j * (size_t)lead + from, 0, sizeof *A * (size_t)(lead - from));
  }
}

// Blocks of the matrix into the panel; a complemented place takes the transposed block.
static void place_entries(const pbSparseAnalysis *a, const pbFrontShape *f, const double *values, double *panel, int lead) {
  for (const pbFrontEntry *e = a->entry + f->entry; e < a->entry + f->entry + f->entries; e++) {
    const double *block = values + 9 * (size_t)e->slot;
    double *to = panel + (e->place < 0 ? ~e->place : e->place);
    for (int c = 0; c < 3; c++) {
      for (int r = 0; r < 3; r++) to[c * lead + r] = e->place < 0 ? block[3 * c + r] : block[3 * r + c];
    }
  }
}

// One column of a child's update, of whose runs this is the first: its entries from the diagonal down.
static void add_column(const pbFrontRun *run, const pbFrontRun *end, int c, const double *in, double *out) {
  for (const pbFrontRun *r = run; r < end; r++) {
    // A run's rows follow each other in both fronts.
    const double *x = in + 3 * r->from;
    double *y = out + 3 * r->to;
    for (int i = r == run ? c : 0; i < 3 * r->count; i++) y[i] += x[i];
  }
}

// Extend-add: the child's update into the parent's panel (columns of pivots) and its update.
static void add_child(const pbSparseAnalysis *a, const pbFrontShape *child, const double *from, const pbFrontShape *f,
                      double *panel, double *update) {
  int lead = pb_aligned(pb_front_m(f)), lead_update = pb_aligned(pb_front_u(f)), lead_from = pb_aligned(pb_front_u(child));
  const pbFrontRun *run = a->run + child->run, *end = run + child->runs;
  int k = pb_front_k(f);
  for (; run < end; run++) {
    for (int c = 0; c < 3 * run->count; c++) {
      int column = 3 * run->to + c;
      const double *in = from + (size_t)(3 * run->from + c) * (size_t)lead_from;

      // Rows of `out` are those of the front, in the panel and in the update.
      double *out = column < k ? panel + (size_t)column * (size_t)lead : update + (size_t)(column - k) * (size_t)lead_update - k;
      add_column(run, end, c, in, out);
    }
  }
}

int NUM(pbSparse_Eliminate)(const pbSparseAnalysis *a, const double *values, double *L, double *D, const pbFactorWork *work) {
  for (int i = 0; i < a->fronts; i++) {
    const pbFrontShape *f = &a->front[i];
    int k = pb_front_k(f), u = pb_front_u(f), m = k + u, lead = pb_aligned(m), lead_update = pb_aligned(u);
    double *panel = L + f->panel, *update = work->stack + f->update;

    // Assembly: entries of the matrix, then the children's updates.
    memset(panel, 0, sizeof *panel * (size_t)lead * (size_t)k);
    clear_triangle(update, lead_update, u);
    place_entries(a, f, values, panel, lead);

    for (int c = f->child; c < f->child + f->children; c++) {
      const pbFrontShape *child = &a->front[a->child[c]];
      add_child(a, child, work->stack + child->update, f, panel, update);
    }

    // Elimination of the pivots.
    int first = 3 * f->first, bad = NUM(pbFront_Factor)(panel, lead, m, k, D + first, work->tiny + first, &work->front);
    if (bad >= 0) return first + bad;

    // What is left goes to the parent.
    const pbFrontProduct product = {.L = panel + k, .lead = lead, .D = D + first, .depth = k};
    NUM(pbFront_Update)(&product, update, lead_update, u, u, &work->front);
  }
  return -1;
}
