// Rows of forces in matrices on the pattern of M.
#ifndef PB_OUTER_H
#define PB_OUTER_H

#include "base/assert.h"
#include "eval/mechanism.h"

// D += b r r' for a sparse row r, on the pattern of M.
static inline void add_outer(const NUM(pbMechanism) *w, const int *dofs, const num *row, int n, num b, num *D) {
  const pbTreePattern *tree = &w->t->M;
  for (int a = 0; a < n; a++) {
    PB_ASSERT(dofs[a] >= 0 && dofs[a] < w->m->nv);
    for (int c = 0; c <= a; c++) {
      int i = dofs[a], depth = tree->depth[dofs[c]];
      if (depth <= tree->depth[i] && tree->chain[tree->adr[i] + depth] == dofs[c]) D[tree->adr[i] + depth] += b * row[a] * row[c];
    }
  }
}

#endif
