// What an analysis consists of. Blocks are renumbered by their place in the order; runs of block columns with (nearly) the same
// rows are fronts. A front has k = 3 (columns) pivots and u = 3 (rows) further rows, m = k + u; its panel in L has m rows,
// `lead` from one column to the next, and k columns; what it leaves to its parent is the square update of u rows.
#ifndef PB_SPARSE_ANALYSIS_H
#define PB_SPARSE_ANALYSIS_H

#include "sparse/front.h"
#include "sparse/sparse.h"

typedef struct pbFrontShape {
  int first, columns;    // blocks
  int rows, row;         // further block rows: row[row] .. of the analysis
  int parent;            // -1: none
  int child, children;   // child[child] .. of the analysis
  int run, runs;         // run[run] ..: where the further rows are in the parent
  int entry, entries;    // entry[entry] ..: blocks of A
  size_t panel, update;  // where in L, in the stack (doubles)
} pbFrontShape;

typedef struct pbFrontRun {
  int from, to, count;  // further rows from .. are rows to .. of the parent's front (blocks)
} pbFrontRun;

typedef struct pbFrontEntry {
  int slot, place;  // place in the panel; its complement for a block that goes there transposed
} pbFrontEntry;

struct pbSparseAnalysis {
  pbContext *ctx;
  int n, slots, fronts;
  int *order, *place;             // n each: order[k]: the block eliminated k-th; place: the inverse
  pbFrontShape *front;            // fronts: children before parents
  int *row, *child;               // further block rows of the fronts, their children, a front's after another's
  pbFrontRun *run;                // runs of further rows, likewise
  pbFrontEntry *entry;            // slots: blocks of A, likewise
  int *slot_row, *slot_column;    // slots each: the pattern, by original numbers
  size_t panel_size, stack_size;  // doubles
  int most_rows, most_pivots;     // of a front, scalars
  double flops;
  size_t entries;
};

static inline int pb_front_k(const pbFrontShape *f) { return 3 * f->columns; }
static inline int pb_front_u(const pbFrontShape *f) { return 3 * f->rows; }
static inline int pb_front_m(const pbFrontShape *f) { return 3 * (f->columns + f->rows); }

#endif
