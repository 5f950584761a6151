// y = W x + b: slices "weight" (outputs x inputs) and "bias". Inputs and cotangents of outputs are kept, so that the gradient of
// many columns is one product, summed in ascending order of the columns.
//
// In float the weights stay double: they are converted in blocks of rows that stay in the cache while they are used.
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
  CACHED = 1 << 16,  // bytes of weights that are converted at a time
  COLUMNS = 64       // columns of a gradient in float before it goes on in double
};

static int least(int a, int b) { return a < b ? a : b; }

// Rows of weights that are worked on at a time: all of them where nothing is to be converted.
static int block_rows(const pbLayer *l) {
  if (sizeof(real) == sizeof(double)) return l->outputs;
  int rows = CACHED / (int)sizeof(real) / l->inputs / 16 * 16;
  return least(l->outputs, rows > 16 ? rows : 16);
}

// Rows first, first + 1, ... of a matrix of weights as numbers to compute with.
static const real *weights(const pbLayer *l, const double *matrix, int first, int rows, real *room) {
  const double *from = matrix + (size_t)first * (size_t)l->inputs;
  if (sizeof(real) == sizeof(double)) return (const real *)from;

  for (size_t i = 0; i < (size_t)rows * (size_t)l->inputs; i++) room[i] = (real)from[i];
  return room;
}

static void *product_room(const pbLayer *l, int batch, pbArena *arena) {
  // The largest of all three products below, whichever way round they stand.
  int most = l->inputs > l->outputs ? l->inputs : l->outputs;
  pbProductShape shape = {.m = most, .n = most > batch ? most : batch, .k = most > batch ? most : batch};
  return pbArena_Take(arena, pbProduct_WorkBytes(&shape), 1);
}

static real *weights_room(const pbLayer *l, pbArena *arena) {
  return sizeof(real) == sizeof(double) ? NULL : pb_takeRows(arena, block_rows(l), l->inputs);
}

// y += W x
static void apply(const pbLayer *l, pbPass *pass, const double *matrix, const real *x, real *y) {
  size_t mark = pbArena_Mark(&pass->arena);
  void *work = product_room(l, pass->batch, &pass->arena);
  real *room = weights_room(l, &pass->arena);
  int rows = block_rows(l);

  for (int first = 0; first < l->outputs; first += rows) {
    int some = least(rows, l->outputs - first);
    pbProductShape shape = {.m = some, .n = pass->batch, .k = l->inputs};
    shape.lda = l->inputs;
    shape.ldb = pass->batch;
    shape.ldc = pass->batch;
    pb_addProduct(&shape, weights(l, matrix, first, some, room), x, y + (size_t)first * (size_t)pass->batch, work);
  }

  pbArena_Release(&pass->arena, mark);
}

static void fill_rows(const pbLayer *l, int batch, const double *bias, real *y) {
  for (int i = 0; i < l->outputs; i++) {
    for (int b = 0; b < batch; b++) *y++ = bias ? (real)bias[i] : 0;
  }
}

static const double *bias_of(const pbLayer *l, const double *param) {
  return param + l->param + (size_t)l->outputs * (size_t)l->inputs;
}

static void forward(const pbLayer *l, pbPass *pass, const real *x, real *y, real *tape) {
  (void)tape;
  fill_rows(l, pass->batch, bias_of(l, pass->param), y);
  apply(l, pass, pass->param + l->param, x, y);
}

static void pull(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *y_bar, real *x_bar) {
  (void)y;
  (void)tape;
  size_t mark = pbArena_Mark(&pass->arena), n = (size_t)pass->batch;
  void *work = product_room(l, pass->batch, &pass->arena);
  real *room = weights_room(l, &pass->arena);
  int rows = block_rows(l);

  // x_bar = W' y_bar, by rows of W.
  memset(x_bar, 0, (size_t)l->inputs * n * sizeof *x_bar);
  for (int first = 0; first < l->outputs; first += rows) {
    int some = least(rows, l->outputs - first);
    pbProductShape shape = {.m = l->inputs, .n = pass->batch, .k = some, .a_transposed = true};
    shape.lda = l->inputs;
    shape.ldb = pass->batch;
    shape.ldc = pass->batch;
    pb_addProduct(&shape, weights(l, pass->param + l->param, first, some, room), y_bar + (size_t)first * n, x_bar, work);
  }

  pbArena_Release(&pass->arena, mark);
  if (!pass->kept) return;

  REAL(pbKept_Put)(l, pass, 0, l->inputs, x);
  REAL(pbKept_Put)(l, pass, l->inputs, l->outputs, y_bar);
}

static void push(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *x_dot, real *y_dot) {
  (void)y;
  (void)tape;
  const double *dot = pass->param_dot;

  fill_rows(l, pass->batch, dot ? bias_of(l, dot) : NULL, y_dot);
  apply(l, pass, pass->param + l->param, x_dot, y_dot);
  if (dot) apply(l, pass, dot + l->param, x, y_dot);
}

// ---- the gradient by weights and bias -----------------------------------------------------------------------------------
// Sums of floats go on in double after every COLUMNS.
#ifdef PB_SINGLE
static void gather_weights(const pbLayer *l, pbPass *pass, int first, int columns, double *bar) {
  size_t mark = pbArena_Mark(&pass->arena);
  real *x_room = pb_takeRows(&pass->arena, l->inputs, COLUMNS), *y_room = pb_takeRows(&pass->arena, l->outputs, COLUMNS);
  real *sum = pb_takeRows(&pass->arena, block_rows(l), l->inputs);
  void *work = product_room(l, COLUMNS, &pass->arena);
  int ldx, ldy, rows = block_rows(l);
  const real *x = REAL(pbKept_Get)(l, pass, 0, l->inputs, first, columns, x_room, &ldx);
  const real *y = REAL(pbKept_Get)(l, pass, l->inputs, l->outputs, first, columns, y_room, &ldy);

  for (int row = 0; row < l->outputs; row += rows) {
    int some = least(rows, l->outputs - row);
    size_t count = (size_t)some * (size_t)l->inputs;
    double *to = bar + (size_t)row * (size_t)l->inputs;
    pbProductShape shape = {.m = some, .n = l->inputs, .k = columns, .b_transposed = true, .lda = ldy, .ldb = ldx};
    shape.ldc = l->inputs;

    memset(sum, 0, count * sizeof *sum);
    pb_addProduct(&shape, y + (size_t)row * (size_t)ldy, x, sum, work);
    for (size_t i = 0; i < count; i++) to[i] += (double)sum[i];
  }

  pbArena_Release(&pass->arena, mark);
}
#else
static void gather_weights(const pbLayer *l, pbPass *pass, int first, int columns, double *bar) {
  size_t mark = pbArena_Mark(&pass->arena);
  void *work = product_room(l, columns, &pass->arena);
  int ldx, ldy;
  const real *x = REAL(pbKept_Get)(l, pass, 0, l->inputs, first, columns, NULL, &ldx);
  const real *y = REAL(pbKept_Get)(l, pass, l->inputs, l->outputs, first, columns, NULL, &ldy);
  pbProductShape shape = {.m = l->outputs, .n = l->inputs, .k = columns, .b_transposed = true, .lda = ldy, .ldb = ldx};

  shape.ldc = l->inputs;
  pb_addProduct(&shape, y, x, bar, work);
  pbArena_Release(&pass->arena, mark);
}
#endif

static void gather_bias(const pbLayer *l, pbPass *pass, int first, int columns, double *bar) {
  size_t mark = pbArena_Mark(&pass->arena);
  real *room = pb_takeRows(&pass->arena, l->outputs, COLUMNS);
  int stride;
  const real *y = REAL(pbKept_Get)(l, pass, l->inputs, l->outputs, first, columns, room, &stride);

  for (int i = 0; i < l->outputs; i++) {
    for (int b = 0; b < columns; b++) bar[i] += (double)y[(size_t)i * (size_t)stride + (size_t)b];
  }

  pbArena_Release(&pass->arena, mark);
}

static void gather(const pbLayer *l, pbPass *pass, double *bar) {
  double *bias = bar + (size_t)l->outputs * (size_t)l->inputs;

  for (int first = 0; first < pass->batch; first += COLUMNS) {
    int columns = least(COLUMNS, pass->batch - first);
    if (sizeof(real) < sizeof(double)) gather_weights(l, pass, first, columns, bar);
    gather_bias(l, pass, first, columns, bias);
  }

  if (sizeof(real) == sizeof(double) && pass->batch) gather_weights(l, pass, 0, pass->batch, bar);
}

static void reserve(const pbLayer *l, int batch, pbArena *arena) {
  size_t mark = pbArena_Mark(arena);
  pb_takeRows(arena, l->inputs, COLUMNS);
  pb_takeRows(arena, l->outputs, COLUMNS);
  pb_takeRows(arena, block_rows(l), l->inputs);
  product_room(l, batch > COLUMNS ? batch : COLUMNS, arena);
  pbArena_Release(arena, mark);
}

const pbLayerOps REAL(pbLayer_Dense) = {.forward = forward, .pull = pull, .push = push, .gather = gather, .reserve = reserve};
