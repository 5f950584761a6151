// Products with one column over numbers of type `real`, included by product_body.h: rows of the matrix side by side in vectors,
// squares of it turned in registers and used at once. Nothing is packed, since nothing would be used twice.
enum { OF(LOTS) = PB_REGISTER == 8 ? 2 : 4 };  // vectors of rows in flight: each sum waits for itself

typedef struct OF(Column) {
  const real *A, *b;
  size_t lda, step;  // from one row of A to the next, from one entry of b to the next
  int rows, depth;   // rows: the last stands for those that whole vectors lack
} OF(Column);

static inline __attribute__((always_inline)) const real *OF(column_row)(const OF(Column) *c, int i) {
  return c->A + (size_t)(i < c->rows ? i : c->rows - 1) * c->lda;
}

// sum[v] += rows of v times b, `lots` vectors.
static inline __attribute__((always_inline)) void OF(add_rows)(int lots, const OF(Column) *c, OF(wide) sum[OF(LOTS)]) {
  int p = 0;

  // Each square becomes as many columns, whose products come one after the other.
  for (; p + OF(WIDTH) <= c->depth; p += OF(WIDTH)) {
#pragma GCC unroll 4
    for (int v = 0; v < lots; v++) {
      OF(wide) x[OF(WIDTH)];
#pragma GCC unroll 16
      for (int i = 0; i < OF(WIDTH); i++) x[i] = OF(load)(OF(column_row)(c, v * OF(WIDTH) + i) + p);

      OF(turn)(x);
#pragma GCC unroll 16
      for (int q = 0; q < OF(WIDTH); q++) sum[v] += x[q] * c->b[(size_t)(p + q) * c->step];
    }
  }

  // Columns of the matrix that fill no square.
  for (; p < c->depth; p++) {
#pragma GCC unroll 4
    for (int v = 0; v < lots; v++) {
      OF(wide) x = {0};
#pragma GCC unroll 16
      for (int i = 0; i < OF(WIDTH); i++) x[i] = OF(column_row)(c, v * OF(WIDTH) + i)[p];
      sum[v] += x * c->b[(size_t)p * c->step];
    }
  }
}

// C, `down` from one row to the next; rows beyond the last are not written.
static inline __attribute__((always_inline)) void OF(add_lots)(int lots, const OF(Column) *c, real *C, size_t down) {
  OF(wide) sum[OF(LOTS)];

  // By way of whole vectors, whatever there is of C.
  real entry[OF(LOTS) *OF(WIDTH)] = {0};
  for (int i = 0; i < c->rows; i++) entry[i] = C[(size_t)i * down];
  for (int v = 0; v < lots; v++) sum[v] = OF(load)(entry + v * OF(WIDTH));

  // Sums begin with what is there.
  OF(add_rows)(lots, c, sum);

  for (int v = 0; v < lots; v++) OF(store)(entry + v * OF(WIDTH), sum[v]);
  for (int i = 0; i < c->rows; i++) C[(size_t)i * down] = entry[i];
}

static void OF(add_column)(OF(Column) c, real *C, size_t down) {
  enum { MOST = OF(LOTS) *OF(WIDTH) };
  int rest = c.rows;

  // As many as go side by side, vector by vector, what fills none.
  for (; rest >= MOST; rest -= MOST, c.A += MOST * c.lda, C += MOST * down) {
    c.rows = MOST;
    OF(add_lots)(OF(LOTS), &c, C, down);
  }

  for (; rest >= OF(WIDTH); rest -= OF(WIDTH), c.A += OF(WIDTH) *c.lda, C += OF(WIDTH) *down) {
    c.rows = OF(WIDTH);
    OF(add_lots)(1, &c, C, down);
  }

  c.rows = rest;
  if (rest) OF(add_lots)(1, &c, C, down);
}
