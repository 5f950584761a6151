// What pull leaves for gather: rows of doubles, or of floats two by two in a double.
// Tests: tests/unit/test_network.c.
#include <string.h>

#include "base/assert.h"
#include "policy/layer.h"

enum { IN_ONE = sizeof(double) / sizeof(real) };  // rows that a row of doubles holds

int REAL(pbKept_Size)(int rows) { return (rows + IN_ONE - 1) / IN_ONE; }

// Where entry 0 of a row stands; entries follow each other in steps of IN_ONE.
static real *row_of(const pbLayer *l, const pbPass *pass, int row) {
  size_t at = (size_t)(l->kept + row);
  return (real *)(pass->kept + at / IN_ONE * (size_t)pass->kept_stride) + at % IN_ONE;
}

void REAL(pbKept_Put)(const pbLayer *l, pbPass *pass, int row, int rows, const real *from) {
  size_t n = (size_t)pass->batch;
  PB_ASSERT(pass->kept && row + rows <= l->keeps);

  // One column without a loop over columns.
  if (n == 1) {
    for (int i = 0; i < rows; i++) *row_of(l, pass, row + i) = from[i];
    return;
  }

  for (int i = 0; i < rows; i++, from += n) {
    real *to = row_of(l, pass, row + i);
    for (size_t b = 0; b < n; b++) to[b * IN_ONE] = from[b];
  }
}

const real *REAL(pbKept_Get)(const pbLayer *l, const pbPass *pass, int row, int rows, int first, int columns, real *room,
                             int *stride) {
  PB_ASSERT(row + rows <= l->keeps && first + columns <= pass->batch);

  // Doubles stand as they are wanted.
  if (IN_ONE == 1) {
    *stride = pass->kept_stride;
    return row_of(l, pass, row) + first;
  }

  for (int i = 0; i < rows; i++) {
    const real *from = row_of(l, pass, row + i) + (size_t)first * IN_ONE;
    for (int b = 0; b < columns; b++) room[(size_t)i * (size_t)columns + (size_t)b] = from[(size_t)b * IN_ONE];
  }

  *stride = columns;
  return room;
}

void REAL(pbKept_Sum)(const pbLayer *l, pbPass *pass, double *bar) {
  for (int i = 0; i < l->keeps; i++) {
    const real *from = row_of(l, pass, i);
    for (size_t b = 0; b < (size_t)pass->batch; b++) bar[i] += (double)from[b * IN_ONE];
  }
}
