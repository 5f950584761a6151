// Dense kernels of a front (front.h): products by register tiles over packed slivers (Goto & van de Geijn 2008), panels by
// halves.
// Tests: tests/unit/test_sparse.c, tests/unit/test_sparse_krylov.c.
#include "sparse/front.h"

#define real     double
#define OF(name) name
#include "linalg/tile.h"
#undef real
#undef OF

enum {
  W = WIDTH,
  VECTORS = TILE_VECTORS,  // of rows in a tile
  TILE = VECTORS * W,
#if PB_REGISTER == 8
  COLUMNS = 8
#elif PB_REGISTER == 4
  COLUMNS = 5
#else
  COLUMNS = 4
#endif
};

// ---- products -------------------------------------------------------------------------------------------------------
// C -= A B' of a tile: `vectors` vectors of rows, of which packed columns follow each other, `columns` columns of C wanted.
static inline __attribute__((always_inline)) void subtract_tile(int vectors, int depth, const double *restrict a,
                                                                const double *restrict b, double *restrict C, int lead,
                                                                int columns) {
  wide sum[TILE_LINES][TILE_VECTORS];
#pragma GCC unroll 8
  for (int j = 0; j < COLUMNS; j++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) sum[j][v] = (wide){0};

  tile(COLUMNS, vectors, depth, (Side){.x = b, .line = 1, .step = COLUMNS}, (Side){.x = a, .step = (size_t)(vectors * W)}, sum);

#pragma GCC unroll 8
  for (int j = 0; j < COLUMNS; j++) {
    // Sums go to C once, so that the order of sums does not depend on the tile.
    if (j >= columns) break;
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) {
      wide *c = (wide *)(C + (size_t)j * (size_t)lead + v * W);
      *c -= sum[j][v];
    }
  }
}

// Rows in slivers of TILE, the last one of as many whole vectors as it needs.
static void pack_left(const double *L, int lead, int rows, int depth, double *out) {
  for (int i = 0; i < rows; i += TILE) {
    // A sliver's rows of one column follow each other, then those of the next.
    int width = rows - i >= TILE ? TILE : (rows - i + W - 1) / W * W;
    for (int p = 0; p < depth; p++, out += width) {
      const double *from = L + (size_t)p * (size_t)lead + i;
      for (int v = 0; v < width; v += W) *(wide *)(out + v) = load(from + v);
    }
  }
}

// Rows times D in slivers of COLUMNS, zeros beyond the last.
static void pack_right(const double *L, int lead, const double *D, int rows, int depth, double *out) {
  for (int i = 0; i < rows; i += COLUMNS) {
    int count = rows - i < COLUMNS ? rows - i : COLUMNS;
    for (int p = 0; p < depth; p++, out += COLUMNS) {
      const double *from = L + (size_t)p * (size_t)lead + i;

      // Whole slivers without a test in the loop.
      if (count == COLUMNS) {
#pragma GCC unroll 8
        for (int j = 0; j < COLUMNS; j++) out[j] = from[j] * D[p];
      } else {
        for (int j = 0; j < COLUMNS; j++) out[j] = j < count ? from[j] * D[p] : 0;
      }
    }
  }
}

// What of C a packed strip of rows and columns covers.
typedef struct Strip {
  int row, rows, column, columns;
} Strip;

// Tiles of one strip that meet the lower triangle.
static void update_strip(const double *left, const double *right, int depth, double *C, int lead, Strip s) {
  for (int j = 0; j < s.columns; j += COLUMNS, right += (size_t)COLUMNS * (size_t)depth) {
    // Tiles that are above the diagonal altogether are left out.
    int above = s.column + j - s.row, first = above > 0 ? above / TILE * TILE : 0, wanted = s.columns - j;
    for (int i = first; i < s.rows; i += TILE) {
      const double *a = left + (size_t)i * (size_t)depth;
      double *c = C + (size_t)(s.column + j) * (size_t)lead + s.row + i;
      int vectors = (s.rows - i + W - 1) / W;
      if (vectors >= VECTORS) {
        subtract_tile(VECTORS, depth, a, right, c, lead, wanted);
      } else if (vectors == 2) {
        subtract_tile(VECTORS > 2 ? 2 : 1, depth, a, right, c, lead, wanted);
      } else {
        subtract_tile(1, depth, a, right, c, lead, wanted);
      }
    }
  }
}

void NUM(pbFront_Update)(const pbFrontProduct *product, double *C, int lead, int rows, int columns, const pbFrontWork *work) {
  const double *D = product->D;
  for (int j = 0; j < columns; j += PB_BREADTH) {
    int breadth = columns - j < PB_BREADTH ? columns - j : PB_BREADTH;
    for (int p = 0; p < product->depth; p += PB_DEPTH) {
      int deep = product->depth - p < PB_DEPTH ? product->depth - p : PB_DEPTH;
      const double *from = product->L + (size_t)p * (size_t)product->lead;
      pack_right(from + j, product->lead, D + p, breadth, deep, work->right);

      // Strips of rows from the diagonal down, packed one after the other into the same room.
      for (int i = j; i < rows; i += PB_STRIP) {
        int height = rows - i < PB_STRIP ? rows - i : PB_STRIP;
        pack_left(from + i, product->lead, height, deep, work->left);
        const Strip strip = {.row = i, .rows = height, .column = j, .columns = breadth};
        update_strip(work->left, work->right, deep, C, lead, strip);
      }
    }
  }
}

// ---- panels ---------------------------------------------------------------------------------------------------------
// y -= s x over whole vectors from that of row `from` on
static inline void subtract_column(double *restrict y, const double *restrict x, double s, int from, int rows) {
  for (int i = from & -W; i < rows; i += W) *(wide *)(y + i) -= load(x + i) * s;
}

// L D L' of the top of a block of k <= PB_BLOCK_COLUMNS columns: `rows` rows, k and those up to a whole vector of any variant.
static int factor_top(double *A, int lead, int rows, int k, double *D, const double *tiny) {
  for (int j = 0; j < k; j++) {
    double *column = A + (size_t)j * (size_t)lead, d = column[j], inverse = 1 / d, X[PB_BLOCK_COLUMNS];
    D[j] = d;

    // No pivot: too small beside its row, or NaN.
    if (!(fabs(d) > tiny[j]) || !isfinite(d)) return j;

    for (int i = j + 1; i < rows; i++) {
      X[i] = column[i];
      column[i] *= inverse;
    }

    for (int c = j + 1; c < k; c++) subtract_column(A + (size_t)c * (size_t)lead, column, X[c], c, rows);
  }
  return -1;
}

// Rows below the top: X L' = A with X = L D, then L = X / D. `count` vectors of rows at a time.
static inline __attribute__((always_inline)) void solve_rows(int count, const double *top, double *A, int lead, int k,
                                                             const double *inverse) {
  double X[PB_BLOCK_COLUMNS][4 * W] __attribute__((aligned(64)));
  for (int j = 0; j < k; j++) {
    wide sum[4];
#pragma GCC unroll 4
    for (int v = 0; v < count; v++) sum[v] = load(A + (size_t)j * (size_t)lead + v * W);

    for (int p = 0; p < j; p++) {
      // Forward substitution, column by column.
      double s = top[(size_t)p * (size_t)lead + j];
#pragma GCC unroll 4
      for (int v = 0; v < count; v++) sum[v] -= load(X[p] + v * W) * s;
    }

#pragma GCC unroll 4
    for (int v = 0; v < count; v++) {
      *(wide *)(X[j] + v * W) = sum[v];
      *(wide *)(A + (size_t)j * (size_t)lead + v * W) = sum[v] * inverse[j];
    }
  }
}

// A block of k <= PB_BLOCK_COLUMNS columns: its top, then the rows below, four vectors at a time.
static int factor_block(double *A, int lead, int m, int k, double *D, const double *tiny) {
  int i = pb_aligned(k), bad = factor_top(A, lead, i, k, D, tiny);
  if (bad >= 0) return bad;

  double inverse[PB_BLOCK_COLUMNS];
  for (int j = 0; j < k; j++) inverse[j] = 1 / D[j];
  for (; i + 4 * W <= m; i += 4 * W) solve_rows(4, A, A + i, lead, k, inverse);
  for (; i < m; i += W) solve_rows(1, A, A + i, lead, k, inverse);
  return -1;
}

int NUM(pbFront_Factor)(double *A, int lead, int m, int k, double *D, const double *tiny, const pbFrontWork *work) {
  if (k <= PB_BLOCK_COLUMNS) return factor_block(A, lead, m, k, D, tiny);

  // By halves, so that almost all products are of tiles: the left half, its update of the right, the right half.
  int blocks = (k + PB_BLOCK_COLUMNS - 1) / PB_BLOCK_COLUMNS, half = blocks / 2 * PB_BLOCK_COLUMNS;
  int bad = NUM(pbFront_Factor)(A, lead, m, half, D, tiny, work);
  if (bad >= 0) return bad;

  double *rest = A + (size_t)half * (size_t)lead + half;
  const pbFrontProduct left = {.L = A + half, .lead = lead, .D = D, .depth = half};
  NUM(pbFront_Update)(&left, rest, lead, m - half, k - half, work);

  bad = NUM(pbFront_Factor)(rest, lead, m - half, k - half, D + half, tiny + half, work);
  return bad < 0 ? -1 : half + bad;
}
