// What many C tests begin with (support.h).
#include "support/support.h"

#include <math.h>
#include <stdlib.h>

#include "math/vec.h"

int make_context(void **state) { return (*state = pbContext_Create(NULL)) ? 0 : 1; }

int drop_context(void **state) {
  pbContext_Destroy(*state);
  return 0;
}

void good(pbContext *ctx, pbStatus status) {
  if (status != pb_ok) fail_msg("%s: %s", pbStatus_Text(status), pbContext_Error(ctx));
}

// ---- numbers --------------------------------------------------------------------------------------------------------
double *zeros(size_t count) {
  double *v = calloc(count + 1, sizeof *v);
  assert_non_null(v);
  return v;
}

double noise(unsigned *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return (double)(*seed >> 8) / (1 << 23) - 1;
}

double noise64(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(*seed >> 11) / (double)(1ull << 52) - 1;
}

void fill_noise(uint64_t *seed, double *to, int count, double size) {
  for (int i = 0; i < count; i++) to[i] = size * noise64(seed);
}

double *random_numbers(size_t count, double size, unsigned *seed) {
  double *v = zeros(count);
  for (size_t i = 0; i < count; i++) v[i] = size * noise(seed);
  return v;
}

double random_unit(uint64_t *seed) {
  *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
  return (double)(int64_t)*seed / 9223372036854775808.0;
}

void random_rotation(uint64_t *seed, double mat[9]) {
  double q[4];
  for (int i = 0; i < 4; i++) q[i] = random_unit(seed);
  quat_normalize(q);
  quat_to_mat(mat, q);
}

// ---- sums, comparisons ----------------------------------------------------------------------------------------------
double dot(const double *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

double dot_and_size(const double *a, const double *b, size_t n, double *size) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    sum += a[i] * b[i];
    *size += fabs(a[i] * b[i]);
  }
  return sum;
}

void assert_near(double found, double expected, double tolerance) {
  if (!(fabs(found - expected) <= tolerance)) fail_msg("%.17g is not %.17g +- %g", found, expected, tolerance);
}

void assert_near_of(const char *what, double found, double expected, double tolerance) {
  if (!(fabs(found - expected) <= tolerance)) fail_msg("%s: %.17g is not %.17g +- %g", what, found, expected, tolerance);
}
