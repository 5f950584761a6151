// Where weights start: orthogonal (Saxe et al. 2014) or uniform (Glorot and Bengio 2010), from a seed.
// Tests: tests/unit/test_network.c.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/random.h>

#include "base/assert.h"
#include "base/context.h"
#include "linalg/product.h"
#include "policy/network.h"

enum { BLOCK = 32 };  // rows that are made orthogonal to those before them by one product

// Libraries of mathematics differ in the last bits of normal deviates: they are left out.
static double coarse_normal(pbRng *rng) { return nearbyint(pbRng_Normal(rng) * 0x1p20) * 0x1p-20; }

static double dot(const double *a, const double *b, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

// Rows first, first + 1, ... of Q without their parts along the rows before them: B -= (B Q') Q.
static void project_block(double *Q, int first, int rows, int cols, double *along, void *work) {
  double *B = Q + (size_t)first * (size_t)cols;
  pbProductShape in = {.m = rows, .n = first, .k = cols, .b_transposed = true, .lda = cols, .ldb = cols, .ldc = first};
  pbProductShape out = {.m = rows, .n = cols, .k = first, .lda = first, .ldb = cols, .ldc = cols};
  size_t count = (size_t)rows * (size_t)first;
  PB_ASSERT(rows <= BLOCK && first + rows <= cols);

  memset(along, 0, count * sizeof *along);
  pbProduct_Add(&in, B, Q, along, work);
  for (size_t i = 0; i < count; i++) along[i] = -along[i];
  pbProduct_Add(&out, along, Q, B, work);
}

// One row without its parts along the rows of its block, of length one.
static void finish_row(double *Q, int block, int row, int cols) {
  double *own = Q + (size_t)row * (size_t)cols;

  for (int twice = 0; twice < 2; twice++) {
    for (int j = block; j < row; j++) {
      const double *other = Q + (size_t)j * (size_t)cols;
      double part = dot(own, other, cols);
      for (int k = 0; k < cols; k++) own[k] -= part * other[k];
    }
  }

  double length = sqrt(dot(own, own, cols));
  for (int k = 0; k < cols; k++) own[k] /= length;
}

// Gram and Schmidt's method, by blocks and twice over (Giraud et al. 2005: then to rounding): rows <= cols rows orthonormal.
static pbStatus make_orthonormal(pbContext *ctx, double *Q, int rows, int cols) {
  pbProductShape most = {.m = BLOCK, .n = cols, .k = cols};
  double *along = pbContext_AllocArray(ctx, (size_t)rows * BLOCK, sizeof *along);
  char *work = pbContext_Alloc(ctx, pbProduct_WorkBytes(&most) + 64);
  if (!along || !work) {
    pbContext_Free(ctx, along);
    pbContext_Free(ctx, work);
    return pbContext_Fail(ctx, pb_no_memory, "out of memory");
  }

  void *aligned = work + (64 - (uintptr_t)work % 64) % 64;
  for (int first = 0; first < rows; first += BLOCK) {
    int some = rows - first < BLOCK ? rows - first : BLOCK;
    for (int twice = 0; twice < 2; twice++) project_block(Q, first, some, cols, along, aligned);
    for (int i = first; i < first + some; i++) finish_row(Q, first, i, cols);
  }

  pbContext_Free(ctx, along);
  pbContext_Free(ctx, work);
  return pb_ok;
}

static pbStatus start_orthogonal(pbContext *ctx, double gain, int rows, int cols, pbRng *rng, double *weight) {
  // The shorter side's vectors are made orthonormal.
  bool tall = rows > cols;
  int count = tall ? cols : rows, length = tall ? rows : cols;
  size_t size = (size_t)rows * (size_t)cols;
  double *Q = pbContext_AllocArray(ctx, size, sizeof *Q);
  if (!Q) return pbContext_Fail(ctx, pb_no_memory, "out of memory");

  for (size_t i = 0; i < size; i++) Q[i] = coarse_normal(rng);
  pbStatus status = make_orthonormal(ctx, Q, count, length);

  for (int i = 0; i < rows; i++) {
    for (int j = 0; j < cols; j++) {
      size_t at = tall ? (size_t)j * (size_t)length + (size_t)i : (size_t)i * (size_t)length + (size_t)j;
      weight[(size_t)i * (size_t)cols + (size_t)j] = gain * Q[at];
    }
  }

  pbContext_Free(ctx, Q);
  return status;
}

pbStatus pbWeights_Start(pbContext *ctx, pbWeightInit init, double gain, int rows, int cols, uint64_t seed, double *weight) {
  pbRng rng = pbRng_Seed(seed * 0x9e3779b97f4a7c15u + 1);  // neighboring seeds must not share a stream's beginning
  if (init == pb_initZero) {
    memset(weight, 0, (size_t)rows * (size_t)cols * sizeof *weight);
    return pb_ok;
  }

  if (init == pb_initOrthogonal) return start_orthogonal(ctx, gain, rows, cols, &rng, weight);

  double most = gain * sqrt(6. / ((double)rows + (double)cols));
  for (size_t i = 0; i < (size_t)rows * (size_t)cols; i++) weight[i] = most * (2 * pbRng_Uniform(&rng) - 1);
  return pb_ok;
}
