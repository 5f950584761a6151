// Dense kernels of a front, column-major, column by column `lead` apart. Tiles differ with the instruction set, results do not:
// every entry is a sum of products in ascending order, PB_DEPTH at a time.
#ifndef PB_SPARSE_FRONT_H
#define PB_SPARSE_FRONT_H

#include "number/number.h"

enum { PB_PANEL_ALIGN = 8 };  // doubles: columns of panels and updates begin on whole vectors
static inline int pb_aligned(int rows) { return (rows + PB_PANEL_ALIGN - 1) & -PB_PANEL_ALIGN; }

enum {
  PB_DEPTH = 256,    // products summed up before they are taken from an entry
  PB_STRIP = 144,    // rows packed together
  PB_BREADTH = 480,  // columns packed together
  PB_TILE_ROWS = 24,
  PB_TILE_COLUMNS = 8,   // most of a tile
  PB_BLOCK_COLUMNS = 24  // columns of a panel that are factored without tiles
};

// Room for packed slivers of PB_DEPTH columns (or as many as there are): (PB_STRIP + PB_TILE_ROWS) rows left and (PB_BREADTH +
// PB_TILE_COLUMNS) right, or m and a tile where that is less.
typedef struct pbFrontWork {
  double *left;   // workspace, (min(PB_STRIP, most_rows) + PB_TILE_ROWS) x depth
  double *right;  // workspace, (min(PB_BREADTH, most_rows) + PB_TILE_COLUMNS) x depth
} pbFrontWork;

// L D L' of `depth` columns of L.
typedef struct pbFrontProduct {
  const double *L, *D;
  int lead, depth;
} pbFrontProduct;

// C := C - L D L', the lower triangle of its first `columns` columns; L has `rows` >= columns rows. Entries of C above the
// diagonal, and rows up to whole vectors, are overwritten with anything.
void NUM(pbFront_Update)(const pbFrontProduct *product, double *C, int lead, int rows, int columns, const pbFrontWork *work);

// In place the first k columns of L D L' of a panel with m rows. tiny[j]: pivots up to this are none. Returns the first such
// column (D holds its pivot), -1 where there is none.
int NUM(pbFront_Factor)(double *A, int lead, int m, int k, double *D, const double *tiny, const pbFrontWork *work);

#endif
