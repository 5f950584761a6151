// Products over numbers of type `real` (product.h), included by product_kernel.c once for each: register tiles over slivers of
// op(B) that are packed so that they are read in one stream (Goto & van de Geijn 2008). Vectors run along the columns of C, or,
// where there are too few, along its rows: then both sides change their roles.
#include "linalg/tile.h"

enum { OF(LINES) = PB_REGISTER == 8 ? 8 : 4, OF(SLIVER) = OF(TILE_VECTORS) *OF(WIDTH) };

// A matrix as it is looked at: entry (i, j) is x[i * down + j * right]; one of both is 1.
typedef struct OF(View) {
  const real *x;
  size_t down, right;
} OF(View);

// What remains to do: C += A B with C as it is written to.
typedef struct OF(Job) {
  OF(View) A, B;
  real *C;
  size_t down, right;  // of C
  int m, n, k;
  real *packed_a, *packed_b;
} OF(Job);

// ---- packing --------------------------------------------------------------------------------------------------------
// Columns that follow each other in memory, row by row; zeros from `columns` up to `width`.
static void OF(pack_rows)(OF(View) B, int columns, int width, int depth, real *out) {
  for (int p = 0; p < depth; p++, out += width) {
    const real *from = B.x + (size_t)p * B.down;

    // Whole vectors, then entries.
    int j = 0;
    for (; j + OF(WIDTH) <= columns; j += OF(WIDTH)) OF(store)(out + j, OF(load)(from + j));
    for (; j < width; j++) out[j] = j < columns ? from[j] : 0;
  }
}

// A square of columns becomes rows: log2(width) rounds of the same exchange, halves against halves.
static inline __attribute__((always_inline)) void OF(turn)(OF(wide) x[OF(WIDTH)]) {
#pragma GCC unroll 4
  for (int round = 1; round < OF(WIDTH); round *= 2) {
    OF(wide) y[OF(WIDTH)];
#pragma GCC unroll 16
    for (int i = 0; i < OF(WIDTH) / 2; i++) {
      // Entries of both in turn: those that belong together come closer by half.
      y[2 * i] = OF(LOW)(x[i], x[i + OF(WIDTH) / 2]);
      y[2 * i + 1] = OF(HIGH)(x[i], x[i + OF(WIDTH) / 2]);
    }

#pragma GCC unroll 16
    for (int i = 0; i < OF(WIDTH); i++) x[i] = y[i];
  }
}

// WIDTH columns, each of which follows itself in memory.
static inline void OF(pack_square_columns)(OF(View) B, int width, int depth, real *out) {
  int p = 0;
  for (; p + OF(WIDTH) <= depth; p += OF(WIDTH), out += OF(WIDTH) *width) {
    OF(wide) x[OF(WIDTH)];
#pragma GCC unroll 16
    for (int j = 0; j < OF(WIDTH); j++) x[j] = OF(load)(B.x + (size_t)j * B.right + p);

    OF(turn)(x);

#pragma GCC unroll 16
    for (int q = 0; q < OF(WIDTH); q++) OF(store)(out + q * width, x[q]);
  }

  // Rows that fill no square.
  for (; p < depth; p++, out += width)
    for (int j = 0; j < OF(WIDTH); j++) out[j] = B.x[(size_t)j * B.right + (size_t)p];
}

static void OF(pack_columns)(OF(View) B, int columns, int width, int depth, real *out) {
  int j = 0;
  for (; j + OF(WIDTH) <= columns; j += OF(WIDTH)) {
    const OF(View) square = {.x = B.x + (size_t)j * B.right, .down = 1, .right = B.right};
    OF(pack_square_columns)(square, width, depth, out + j);
  }

  // Columns of the last vector one by one.
  for (; j < width; j++)
    for (int p = 0; p < depth; p++)
      out[(size_t)p * (size_t)width + (size_t)j] = j < columns ? B.x[(size_t)j * B.right + (size_t)p] : 0;
}

// op(B): `deep` rows from p, `breadth` columns from j, in slivers (OF(sliver_of)).
typedef struct OF(Block) {
  int p, deep, j, breadth;
} OF(Block);

typedef struct OF(Sliver) {
  int first, vectors;  // column within its block
} OF(Sliver);

// Slivers of a block are as even as can be, so that no tile is much smaller than the others.
static int OF(count_slivers)(int breadth) {
  int vectors = (breadth + OF(WIDTH) - 1) / OF(WIDTH);
  return (vectors + OF(TILE_VECTORS) - 1) / OF(TILE_VECTORS);
}
static OF(Sliver) OF(sliver_of)(int breadth, int count, int s) {
  int vectors = (breadth + OF(WIDTH) - 1) / OF(WIDTH), least = vectors / count, more = vectors % count;
  return (OF(Sliver)){.first = (s * least + (s < more ? s : more)) * OF(WIDTH), .vectors = least + (s < more)};
}

static void OF(pack_block)(const OF(Job) *job, OF(Block) b) {
  int count = OF(count_slivers)(b.breadth);
  for (int s = 0; s < count; s++) {
    OF(Sliver) sliver = OF(sliver_of)(b.breadth, count, s);
    int width = sliver.vectors * OF(WIDTH), rest = b.breadth - sliver.first, columns = rest < width ? rest : width;
    OF(View) from = job->B;
    from.x += (size_t)b.p * from.down + (size_t)(b.j + sliver.first) * from.right;

    // Slivers before this one have filled as many columns.
    real *to = job->packed_b + (size_t)sliver.first * (size_t)b.deep;
    if (from.right == 1) {
      OF(pack_rows)(from, columns, width, b.deep, to);
    } else {
      OF(pack_columns)(from, columns, width, b.deep, to);
    }
  }
}

// Rows of op(A) that follow each other in memory, `lines` of them to a sliver, the last ones in smaller slivers.
static int OF(lines_of)(int rows) {
  int lines = OF(LINES);
  while (lines > rows) lines /= 2;
  return lines;
}
static void OF(pack_strip)(OF(View) A, int rows, int deep, real *out) {
  for (int i = 0, lines; i < rows; i += lines) {
    lines = OF(lines_of)(rows - i);
    for (int p = 0; p < deep; p++, out += lines) {
      const real *from = A.x + (size_t)p * A.right + (size_t)i;

      // Whole slivers without a test in the loop.
      if (lines == OF(LINES)) {
#pragma GCC unroll 8
        for (int r = 0; r < OF(LINES); r++) out[r] = from[r];
      } else {
        for (int r = 0; r < lines; r++) out[r] = from[r];
      }
    }
  }
}

// ---- tiles ----------------------------------------------------------------------------------------------------------
typedef struct OF(Sides) {
  OF(Side) one, many;
  int depth;
} OF(Sides);

static inline __attribute__((always_inline)) void OF(add_tile)(int lines, int vectors, OF(Sides) s, real *C, size_t down) {
  OF(wide) sum[OF(TILE_LINES)][OF(TILE_VECTORS)];
#pragma GCC unroll 8
  for (int i = 0; i < lines; i++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) sum[i][v] = OF(load)(C + (size_t)i * down + v * OF(WIDTH));

  // Sums begin with what is there, so that blocks of terms follow each other as the terms do.
  OF(tile)(lines, vectors, s.depth, s.one, s.many, sum);

#pragma GCC unroll 8
  for (int i = 0; i < lines; i++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) OF(store)(C + (size_t)i * down + v * OF(WIDTH), sum[i][v]);
}

// A copy for every extent, and for lines packed together.
static inline __attribute__((always_inline)) void OF(add_vectors)(int lines, int vectors, OF(Sides) s, real *C, size_t down) {
  if (vectors == 1) {
    OF(add_tile)(lines, 1, s, C, down);
  } else if (vectors == 2) {
    OF(add_tile)(lines, 2, s, C, down);
  } else {
    OF(add_tile)(lines, OF(TILE_VECTORS), s, C, down);
  }
}
static inline __attribute__((always_inline)) void OF(add_lines)(int lines, int vectors, OF(Sides) s, real *C, size_t down) {
  if (s.one.line == 1 && s.one.step == (size_t)lines) {
    // Said again: constants from here on.
    s.one.line = 1;
    s.one.step = (size_t)lines;
    OF(add_vectors)(lines, vectors, s, C, down);
  } else {
    OF(add_vectors)(lines, vectors, s, C, down);
  }
}
static void OF(add_whole)(int lines, int vectors, OF(Sides) s, real *C, size_t down) {
  switch (lines) {
    case 1: OF(add_lines)(1, vectors, s, C, down); break;
    case 2: OF(add_lines)(2, vectors, s, C, down); break;
    case 4: OF(add_lines)(4, vectors, s, C, down); break;
    default: OF(add_lines)(OF(LINES), vectors, s, C, down);
  }
}

// A tile of C that is not made of whole vectors, by way of one that is.
static void OF(add_edge)(int lines, int vectors, OF(Sides) s, const OF(Job) *job, real *C, int columns) {
  real edge[OF(TILE_LINES) *OF(SLIVER)] = {0};
  int width = vectors * OF(WIDTH);
  for (int i = 0; i < lines; i++)
    for (int j = 0; j < columns; j++) edge[i * width + j] = C[(size_t)i * job->down + (size_t)j * job->right];

  // Sums that nobody wants are thrown away.
  OF(add_whole)(lines, vectors, s, edge, (size_t)width);

  for (int i = 0; i < lines; i++)
    for (int j = 0; j < columns; j++) C[(size_t)i * job->down + (size_t)j * job->right] = edge[i * width + j];
}

// `lines` rows of C from i, all columns of a block.
static void OF(add_row)(const OF(Job) *job, OF(Block) b, int i, int lines, OF(Side) one) {
  int count = OF(count_slivers)(b.breadth);
  for (int s = 0; s < count; s++) {
    OF(Sliver) sliver = OF(sliver_of)(b.breadth, count, s);
    int width = sliver.vectors * OF(WIDTH), columns = b.breadth - sliver.first;
    const OF(Sides) sides = {
        .one = one, .many = {.x = job->packed_b + (size_t)sliver.first * (size_t)b.deep, .step = (size_t)width}, .depth = b.deep};

    // Whole vectors that follow each other are added to where they stand.
    real *C = job->C + (size_t)i * job->down + (size_t)(b.j + sliver.first) * job->right;
    if (job->right == 1 && columns >= width) {
      OF(add_whole)(lines, sliver.vectors, sides, C, job->down);
    } else {
      OF(add_edge)(lines, sliver.vectors, sides, job, C, columns < width ? columns : width);
    }
  }
}

// ---- blocks ---------------------------------------------------------------------------------------------------------
static void OF(add_block)(const OF(Job) *job, OF(Block) b, bool packed) {
  OF(pack_block)(job, b);
  for (int start = 0; start < job->m; start += PB_PRODUCT_STRIP) {
    int rows = job->m - start < PB_PRODUCT_STRIP ? job->m - start : PB_PRODUCT_STRIP;
    OF(View) A = job->A;
    A.x += (size_t)start * A.down + (size_t)b.p * A.right;
    if (packed) OF(pack_strip)(A, rows, b.deep, job->packed_a);

    for (int i = 0, lines; i < rows; i += lines) {
      // Packed, or as they stand.
      lines = OF(lines_of)(rows - i);
      const OF(Side) sliver = {.x = job->packed_a + (size_t)i * (size_t)b.deep, .line = 1, .step = (size_t)lines};
      const OF(Side) straight = {.x = A.x + (size_t)i * A.down, .line = A.down, .step = A.right};
      OF(add_row)(job, b, start + i, lines, packed ? sliver : straight);
    }
  }
}

// `breadth` columns of C from j.
static void OF(add_columns)(const OF(Job) *job, int j, int breadth) {
  // Rows of op(A) that run across memory are packed for several slivers. One takes them as they stand, and then only so many
  // terms at a time as are read side by side.
  bool across = job->A.right != 1, once = OF(count_slivers)(breadth) == 1;
  int most = across && once && job->m > OF(LINES) ? PB_PRODUCT_STREAMS : PB_PRODUCT_DEPTH;

  for (int p = 0; p < job->k; p += most) {
    int deep = job->k - p < most ? job->k - p : most;
    OF(add_block)(job, (OF(Block)){.p = p, .deep = deep, .j = j, .breadth = breadth}, across && !once);
  }
}

// `columns` columns, whole vectors, from where op(B) stands: for so few rows of C that packed ones would not be used again.
static void OF(add_straight)(const OF(Job) *job, const real *B, int columns, real *C, size_t down) {
  for (int p = 0; p < job->k; p += PB_PRODUCT_STREAMS) {
    // A few of its rows at a time from end to end: streams that the processor sees.
    int deep = job->k - p < PB_PRODUCT_STREAMS ? job->k - p : PB_PRODUCT_STREAMS;
    int count = OF(count_slivers)(columns);

    for (int s = 0; s < count; s++) {
      OF(Sliver) sliver = OF(sliver_of)(columns, count, s);
      const real *a = job->A.x + (size_t)p * job->A.right, *b = B + (size_t)p * job->B.down + sliver.first;
      const OF(Sides) sides = {
          .one = {.x = a, .line = job->A.down, .step = job->A.right}, .many = {.x = b, .step = job->B.down}, .depth = deep};
      OF(add_whole)(job->m, sliver.vectors, sides, C + sliver.first, down);
    }
  }
}

// What whole vectors leave: with the last columns that make one, the others of which are thrown away.
static void OF(add_last)(const OF(Job) *job, int rest) {
  real edge[OF(LINES) *OF(WIDTH)];
  int first = job->n - OF(WIDTH);
  for (int i = 0; i < job->m; i++) OF(store)(edge + i * OF(WIDTH), OF(load)(job->C + (size_t)i * job->down + first));

  OF(add_straight)(job, job->B.x + first, OF(WIDTH), edge, OF(WIDTH));

  for (int i = 0; i < job->m; i++)
    for (int j = OF(WIDTH) - rest; j < OF(WIDTH); j++)
      job->C[(size_t)i * job->down + (size_t)(first + j)] = edge[i * OF(WIDTH) + j];
}

#include "linalg/product_column.h"

// C' += B' A', with the same sums.
static OF(Job) OF(turned)(const OF(Job) *job) {
  OF(Job) t = *job;
  t.A = (OF(View)){.x = job->B.x, .down = job->B.right, .right = job->B.down};
  t.B = (OF(View)){.x = job->A.x, .down = job->A.right, .right = job->A.down};
  t.down = job->right;
  t.right = job->down;
  t.m = job->n;
  t.n = job->m;
  return t;
}

static void OF(add_all)(const OF(Job) *job) {
  // Whole vectors of columns that stand in rows, for a few rows of C.
  int j = 0;
  if (job->m == OF(lines_of)(job->m) && job->B.right == 1 && job->right == 1) {
    j = job->n / OF(WIDTH) *OF(WIDTH);
    OF(add_straight)(job, job->B.x, j, job->C, job->down);
    if (j > 0 && j < job->n) {
      OF(add_last)(job, job->n - j);
      return;
    }
  }

  // The rest in blocks.
  int most = job->m <= OF(LINES) ? OF(SLIVER) : PB_PRODUCT_BREADTH;
  for (; j < job->n; j += most) OF(add_columns)(job, j, job->n - j < most ? job->n - j : most);
}

// A few rows of C whose entries do not follow each other, by way of such as do.
static void OF(add_parts)(const OF(Job) *job) {
  real part[OF(LINES) *PB_PRODUCT_BREADTH];
  for (int first = 0; first < job->n; first += PB_PRODUCT_BREADTH) {
    int columns = job->n - first < PB_PRODUCT_BREADTH ? job->n - first : PB_PRODUCT_BREADTH;
    real *C = job->C + (size_t)first * job->right;
    OF(Job) there = *job;
    there.B.x += first;
    there.C = part;
    there.n = columns;
    there.down = (size_t)columns;
    there.right = 1;

    for (int j = 0; j < columns; j++)
      for (int i = 0; i < job->m; i++) part[i * columns + j] = C[(size_t)i * job->down + (size_t)j * job->right];
    OF(add_all)(&there);
    for (int j = 0; j < columns; j++)
      for (int i = 0; i < job->m; i++) C[(size_t)i * job->down + (size_t)j * job->right] = part[i * columns + j];
  }
}

static void OF(multiply)(const pbProductShape *shape, const real *A, const real *B, real *C, void *work) {
  size_t lda = (size_t)shape->lda, ldb = (size_t)shape->ldb, ldc = (size_t)shape->ldc;
  OF(Job)
  job = {.A = {.x = A, .down = shape->a_transposed ? 1 : lda, .right = shape->a_transposed ? lda : 1},
         .B = {.x = B, .down = shape->b_transposed ? 1 : ldb, .right = shape->b_transposed ? ldb : 1},
         .C = C,
         .down = ldc,
         .right = 1,
         .m = shape->m,
         .n = shape->n,
         .k = shape->k,
         .packed_a = work,
         .packed_b = (real *)work + pbProduct_StripEntries(shape)};

  // One column: rows as they stand.
  if (job.n == 1 && job.A.right == 1) {
    OF(add_column)((OF(Column)){.A = A, .b = B, .lda = lda, .step = job.B.down, .rows = job.m, .depth = job.k}, C, ldc);
    return;
  }

  // A register that is half empty at least does less than turning costs. A few columns with a matrix that runs across memory
  // become a few rows, with which it is read as it stands.
  bool few = job.A.right != 1 && job.n == OF(lines_of)(job.n) && job.m > OF(LINES);
  if (job.n == 1 || 2 * job.n <= OF(WIDTH) || few) job = OF(turned)(&job);
  if (job.m == 0 || job.n == 0 || job.k == 0) return;

  if (job.right != 1 && job.B.right == 1 && job.m == OF(lines_of)(job.m)) {
    OF(add_parts)(&job);
  } else {
    OF(add_all)(&job);
  }
}
