// Products with a matrix of parameters, and the gradient by it of many columns at once: what dense layers and recurrent ones are
// made of.
//
// In float the matrix stays double: it is converted in blocks of rows that stay in the cache while they are used.
// Tests: tests/unit/test_network.c, tests/oracle/test_policy.py.
#include <string.h>

#include "base/assert.h"
#include "linalg/product.h"
#include "policy/layer.h"

#ifdef PB_SINGLE
#define pb_addProduct pbProduct_AddSingle
#else
#define pb_addProduct pbProduct_Add
#endif

enum {
  CACHED = 1 << 16,  // bytes of a matrix that are converted at a time
  COLUMNS = 64       // columns of a gradient in float before it goes on in double
};

static int least(int a, int b) { return a < b ? a : b; }

// Rows of a matrix that are worked on at a time: all of them where nothing is to be converted.
static int block_rows(int rows, int cols) {
  if (sizeof(real) == sizeof(double)) return rows;
  int some = CACHED / (int)sizeof(real) / cols / 16 * 16;
  return least(rows, some > 16 ? some : 16);
}

// Rows first, first + 1, ... as numbers to compute with.
static const real *rows_of(const double *matrix, int cols, int first, int rows, real *room) {
  const double *from = matrix + (size_t)first * (size_t)cols;
  if (sizeof(real) == sizeof(double)) return (const real *)from;

  for (size_t i = 0; i < (size_t)rows * (size_t)cols; i++) room[i] = (real)from[i];
  return room;
}

// Room for the largest of the three products below, whichever way round they stand.
static void *take_work(int rows, int cols, int batch, pbArena *arena) {
  int most = rows > cols ? rows : cols;
  pbProductShape shape = {.m = most, .n = most > batch ? most : batch, .k = most > batch ? most : batch};
  return pbArena_Take(arena, pbProduct_WorkBytes(&shape), 1);
}

static real *take_block(int rows, int cols, pbArena *arena) {
  return sizeof(real) == sizeof(double) ? NULL : pb_takeRows(arena, block_rows(rows, cols), cols);
}

void REAL(pbMatrix_Apply)(pbPass *pass, const double *matrix, int rows, int cols, const real *x, real *y) {
  PB_ASSERT(rows > 0 && cols > 0 && pass->batch >= 0);
  size_t mark = pbArena_Mark(&pass->arena);
  void *work = take_work(rows, cols, pass->batch, &pass->arena);
  real *room = take_block(rows, cols, &pass->arena);
  int block = block_rows(rows, cols);

  for (int first = 0; first < rows; first += block) {
    int some = least(block, rows - first);
    pbProductShape shape = {.m = some, .n = pass->batch, .k = cols, .lda = cols, .ldb = pass->batch, .ldc = pass->batch};
    const real *part = rows_of(matrix, cols, first, some, room);
    pb_addProduct(&shape, part, x, y + (size_t)first * (size_t)pass->batch, work);
  }

  pbArena_Release(&pass->arena, mark);
}

void REAL(pbMatrix_Pull)(pbPass *pass, const double *matrix, int rows, int cols, const real *y_bar, real *x_bar) {
  PB_ASSERT(rows > 0 && cols > 0 && pass->batch >= 0);
  size_t mark = pbArena_Mark(&pass->arena);
  void *work = take_work(rows, cols, pass->batch, &pass->arena);
  real *room = take_block(rows, cols, &pass->arena);
  int block = block_rows(rows, cols);

  for (int first = 0; first < rows; first += block) {
    int some = least(block, rows - first);
    pbProductShape shape = {.m = cols, .n = pass->batch, .k = some, .a_transposed = true, .lda = cols, .ldb = pass->batch};
    const real *part = rows_of(matrix, cols, first, some, room);
    shape.ldc = pass->batch;
    pb_addProduct(&shape, part, y_bar + (size_t)first * (size_t)pass->batch, x_bar, work);
  }

  pbArena_Release(&pass->arena, mark);
}

// ---- the gradient of many columns ---------------------------------------------------------------------------------------
// Sums of floats go on in double after every COLUMNS.
#ifdef PB_SINGLE
static void gather_columns(const pbLayer *l, pbPass *pass, pbKeptMatrix k, int first, int columns, double *bar) {
  size_t mark = pbArena_Mark(&pass->arena);
  real *x_room = pb_takeRows(&pass->arena, k.cols, COLUMNS), *y_room = pb_takeRows(&pass->arena, k.rows, COLUMNS);
  real *sum = pb_takeRows(&pass->arena, block_rows(k.rows, k.cols), k.cols);
  void *work = take_work(k.rows, k.cols, COLUMNS, &pass->arena);
  int ldx, ldy, block = block_rows(k.rows, k.cols);
  const real *x = REAL(pbKept_Get)(l, pass, k.x, k.cols, first, columns, x_room, &ldx);
  const real *y = REAL(pbKept_Get)(l, pass, k.y, k.rows, first, columns, y_room, &ldy);

  for (int row = 0; row < k.rows; row += block) {
    int some = least(block, k.rows - row);
    size_t count = (size_t)some * (size_t)k.cols;
    double *to = bar + (size_t)row * (size_t)k.cols;
    pbProductShape shape = {.m = some, .n = k.cols, .k = columns, .b_transposed = true, .lda = ldy, .ldb = ldx, .ldc = k.cols};

    memset(sum, 0, count * sizeof *sum);
    pb_addProduct(&shape, y + (size_t)row * (size_t)ldy, x, sum, work);
    for (size_t i = 0; i < count; i++) to[i] += (double)sum[i];
  }

  pbArena_Release(&pass->arena, mark);
}

void REAL(pbMatrix_Gather)(const pbLayer *l, pbPass *pass, pbKeptMatrix k, double *bar) {
  for (int first = 0; first < pass->batch; first += COLUMNS)
    gather_columns(l, pass, k, first, least(COLUMNS, pass->batch - first), bar);
}
#else
void REAL(pbMatrix_Gather)(const pbLayer *l, pbPass *pass, pbKeptMatrix k, double *bar) {
  size_t mark = pbArena_Mark(&pass->arena);
  void *work = take_work(k.rows, k.cols, pass->batch, &pass->arena);
  int ldx, ldy;
  const real *x = REAL(pbKept_Get)(l, pass, k.x, k.cols, 0, pass->batch, NULL, &ldx);
  const real *y = REAL(pbKept_Get)(l, pass, k.y, k.rows, 0, pass->batch, NULL, &ldy);
  pbProductShape shape = {
      .m = k.rows, .n = k.cols, .k = pass->batch, .b_transposed = true, .lda = ldy, .ldb = ldx, .ldc = k.cols};

  pb_addProduct(&shape, y, x, bar, work);
  pbArena_Release(&pass->arena, mark);
}
#endif

void REAL(pbBias_Gather)(const pbLayer *l, pbPass *pass, int row, int rows, double *bar) {
  size_t mark = pbArena_Mark(&pass->arena);
  real *room = pb_takeRows(&pass->arena, rows, COLUMNS);

  for (int first = 0; first < pass->batch; first += COLUMNS) {
    int columns = least(COLUMNS, pass->batch - first), stride;
    const real *y = REAL(pbKept_Get)(l, pass, row, rows, first, columns, room, &stride);

    for (int i = 0; i < rows; i++) {
      for (int b = 0; b < columns; b++) bar[i] += (double)y[(size_t)i * (size_t)stride + (size_t)b];
    }
  }

  pbArena_Release(&pass->arena, mark);
}

void REAL(pbBias_Fill)(const double *bias, int rows, int batch, real *y) {
  if (!bias) {
    memset(y, 0, (size_t)rows * (size_t)batch * sizeof *y);
    return;
  }
  if (batch == 1) {
    for (int i = 0; i < rows; i++) y[i] = (real)bias[i];
    return;
  }

  for (int i = 0; i < rows; i++) {
    for (int b = 0; b < batch; b++) *y++ = (real)bias[i];
  }
}

void REAL(pbMatrix_Reserve)(int rows, int cols, int batch, pbArena *arena) {
  size_t mark = pbArena_Mark(arena);
  pb_takeRows(arena, cols, COLUMNS);
  pb_takeRows(arena, rows, COLUMNS);
  pb_takeRows(arena, block_rows(rows, cols), cols);
  take_work(rows, cols, batch > COLUMNS ? batch : COLUMNS, arena);
  pbArena_Release(arena, mark);
}
