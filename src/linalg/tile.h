// Register tiles of dense products, included once for each type of number: `real`, and OF(name) for what is defined here. What a
// tile sums depends on no other entry of it, and products come in ascending order: instruction sets change the tile, no sum.
typedef real OF(wide) __attribute__((vector_size(8 * PB_REGISTER), aligned(sizeof(real)), may_alias));
enum { OF(WIDTH) = 8 * PB_REGISTER / sizeof(real) };
static inline OF(wide) OF(load)(const real *x) { return *(const OF(wide) *)x; }
static inline void OF(store)(real *x, OF(wide) value) { *(OF(wide) *)x = value; }

// A tile's extent, constants where it is called: `lines` numbers times `vectors` vectors each.
enum {
  OF(TILE_VECTORS) = PB_REGISTER == 8 ? 3 : 2,
  OF(TILE_LINES) = 8  // most
};

// One side of a tile: its first entry, from one line to the next, from one product to the next.
typedef struct OF(Side) {
  const real *x;
  size_t line, step;
} OF(Side);

// sum[i][v] += one[i] many[v] over `depth` products, rank one by rank one; the vectors of `many` follow each other.
static inline __attribute__((always_inline)) void OF(tile)(int lines, int vectors, int depth, OF(Side) one, OF(Side) many,
                                                           OF(wide) sum[OF(TILE_LINES)][OF(TILE_VECTORS)]) {
  for (int p = 0; p < depth; p++, one.x += one.step, many.x += many.step) {
    OF(wide) row[OF(TILE_VECTORS)];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) row[v] = OF(load)(many.x + v * OF(WIDTH));
#pragma GCC unroll 8
    for (int i = 0; i < lines; i++)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) sum[i][v] += row[v] * one.x[(size_t)i * one.line];
  }
}
