// Products of dense matrices: the bits of plain sums in ascending order, for every shape, orientation and instruction set.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/random.h>
#include "linalg/product_kernels.h"

enum { GUARD = 64 };  // entries before and behind C that must stay as they are

// Both types of number behind one interface: entries as doubles.
typedef struct Type {
  const char *name;
  size_t size;
} Type;
static const Type types[] = {{"double", sizeof(double)}, {"float", sizeof(float)}};

static double get(Type t, const void *x, size_t i) {
  return t.size == sizeof(double) ? ((const double *)x)[i] : (double)((const float *)x)[i];
}
static void set(Type t, void *x, size_t i, double value) {
  if (t.size == sizeof(double)) {
    ((double *)x)[i] = value;
  } else {
    ((float *)x)[i] = (float)value;
  }
}

static void *filled(Type t, pbRng *r, size_t count) {
  void *x = calloc(count + 1, t.size);
  for (size_t i = 0; i < count; i++) set(t, x, i, pbRng_Normal(r));
  return x;
}

static void run(Type t, const pbProductKernels *kernels, const pbProductShape *s, const void *A, const void *B, void *C) {
  // A buffer of just the size that is asked for, full of NaN: the address sanitizer sees what reads or writes beyond it.
  size_t bytes = pbProduct_WorkBytes(s);
  void *work = aligned_alloc(64, bytes);
  memset(work, 0xff, bytes);
  if (t.size == sizeof(double)) {
    kernels->in_double(s, A, B, C, work);
  } else {
    kernels->in_single(s, A, B, C, work);
  }
  free(work);
}

static size_t at(int i, int j, int lead, bool transposed) {
  return transposed ? (size_t)j * (size_t)lead + (size_t)i : (size_t)i * (size_t)lead + (size_t)j;
}

// What product.h promises, word by word.
static void expect(Type t, const pbProductShape *s, const void *A, const void *B, void *C) {
  for (int i = 0; i < s->m; i++)
    for (int j = 0; j < s->n; j++) {
      size_t c = at(i, j, s->ldc, false);
      for (int p = 0; p < s->k; p++) {
        double a = get(t, A, at(i, p, s->lda, s->a_transposed)), b = get(t, B, at(p, j, s->ldb, s->b_transposed));
        // A product of two floats is exact in double; their sum may be rounded twice without harm
        // (53 >= 2 x 24 + 2 digits, Figueroa 1995).
        double product = a * b;
        if (t.size == sizeof(float)) product = (double)(float)product;
        set(t, C, c, get(t, C, c) + product);
      }
    }
}

static bool same(Type t, const void *x, const void *y, size_t i) {
  double a = get(t, x, i), b = get(t, y, i);
  return (isnan(a) && isnan(b)) || !memcmp((const char *)x + i * t.size, (const char *)y + i * t.size, t.size);
}

typedef struct Case {
  void *A, *B, *C;
  size_t count;  // entries of C with its guards
} Case;

static Case make(Type t, pbRng *r, const pbProductShape *s) {
  size_t rows_a = (size_t)(s->a_transposed ? s->k : s->m), rows_b = (size_t)(s->b_transposed ? s->n : s->k);
  size_t count = (size_t)s->m * (size_t)s->ldc + 2 * GUARD;
  return (Case){.A = filled(t, r, rows_a * (size_t)s->lda),
                .B = filled(t, r, rows_b * (size_t)s->ldb),
                .C = filled(t, r, count),
                .count = count};
}

static void destroy(Case *c) {
  free(c->A);
  free(c->B);
  free(c->C);
}

// Every kernel that this processor runs gives the bits expected and touches nothing else.
static void compare(Type t, const pbProductShape *s, const Case *c) {
  void *expected = malloc(c->count * t.size), *found = malloc(c->count * t.size);
  memcpy(expected, c->C, c->count * t.size);
  expect(t, s, c->A, c->B, (char *)expected + GUARD * t.size);

  for (int v = 0; pbProductKernels_At(v); v++) {
    memcpy(found, c->C, c->count * t.size);
    run(t, pbProductKernels_At(v), s, c->A, c->B, (char *)found + GUARD * t.size);
    for (size_t i = 0; i < c->count; i++) {
      if (same(t, expected, found, i)) continue;
      long place = (long)i - GUARD;
      fail_msg("%s, kernels %d, %d x %d x %d%s%s: entry %ld of C (rows of %d): expected %.17g, found %.17g", t.name, v, s->m,
               s->n, s->k, s->a_transposed ? ", A'" : "", s->b_transposed ? ", B'" : "", place, s->ldc, get(t, expected, i),
               get(t, found, i));
    }
  }

  free(expected);
  free(found);
}

static pbProductShape shaped(int m, int n, int k, int orientation, int slack) {
  bool at = orientation & 1, bt = orientation & 2;
  return (pbProductShape){.m = m,
                          .n = n,
                          .k = k,
                          .a_transposed = at,
                          .b_transposed = bt,
                          .lda = (at ? m : k) + slack,
                          .ldb = (bt ? k : n) + slack,
                          .ldc = n + slack};
}

static void check_shape(pbRng *r, int m, int n, int k, int slack) {
  for (int orientation = 0; orientation < 4; orientation++)
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
      const pbProductShape s = shaped(m, n, k, orientation, slack);
      Case c = make(types[t], r, &s);
      compare(types[t], &s, &c);
      destroy(&c);
    }
}

static void small_shapes(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(1);
  const int sizes[] = {0, 1, 2, 3, 5, 8, 17};
  enum { COUNT = sizeof sizes / sizeof *sizes };
  for (int i = 0; i < COUNT; i++)
    for (int j = 0; j < COUNT; j++)
      for (int p = 0; p < COUNT; p++) check_shape(&r, sizes[i], sizes[j], sizes[p], (i + j + p) % 2 * 3);
}

// Widths of every number of registers and one more or less; beyond the blocks in every direction.
static void large_shapes(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(2);
  for (int n = 1; n <= 70; n++) check_shape(&r, 19, n, 9, n % 2);
  const int shapes[][3] = {{70, 33, 600}, {300, 65, 40},  {33, 1100, 11}, {257, 9, 130}, {131, 16, 515},
                           {600, 1, 70},  {70, 1, 600},   {1, 600, 33},   {40, 4, 530},  {129, 130, 131},
                           {1, 1, 1000},  {1030, 2, 257}, {64, 64, 64},   {9, 200, 300}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    check_shape(&r, shapes[i][0], shapes[i][1], shapes[i][2], i % 3 == 1 ? 5 : 0);
}

// 0 inf is NaN, inf - inf too; what is not finite stays in its own row and column.
static void not_finite(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(3);
  const int widths[] = {1, 2, 8, 16, 21, 64};
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
    for (int orientation = 0; orientation < 4; orientation++)
      for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const pbProductShape s = shaped(23, widths[w], 19, orientation, 0);
        Case c = make(types[t], &r, &s);
        set(types[t], c.A, at(3, 7, s.lda, s.a_transposed), 0);
        set(types[t], c.B, at(7, 0, s.ldb, s.b_transposed), INFINITY);
        set(types[t], c.A, at(5, 2, s.lda, s.a_transposed), -INFINITY);
        set(types[t], c.A, at(20, 18, s.lda, s.a_transposed), NAN);
        compare(types[t], &s, &c);

        run(types[t], pbProductKernels_At(0), &s, c.A, c.B, c.C);
        assert_true(isnan(get(types[t], c.C, at(3, 0, s.ldc, false))));
        if (s.n > 1) assert_true(isfinite(get(types[t], c.C, at(3, 1, s.ldc, false))));
        assert_true(isnan(get(types[t], c.C, at(20, s.n - 1, s.ldc, false))));
        destroy(&c);
      }
}

// Columns alone, rows alone, and the sum in two parts: the bits of the whole.
static void parts(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(4);
  const pbProductShape s = shaped(45, 37, 300, 0, 0);
  Case c = make(types[0], &r, &s);
  const double *A = c.A, *B = c.B;
  double *whole = calloc((size_t)(s.m * s.n), sizeof *whole), *part = calloc((size_t)(s.m * s.n), sizeof *part);
  void *work = aligned_alloc(64, pbProduct_WorkBytes(&s));
  pbProduct_Add(&s, A, B, whole, work);

  for (int j = 0; j < s.n; j++) {
    pbProductShape column = s;
    column.n = 1;
    pbProduct_Add(&column, A, B + j, part + j, work);
  }
  assert_memory_equal(whole, part, sizeof *whole * (size_t)(s.m * s.n));

  memset(part, 0, sizeof *part * (size_t)(s.m * s.n));
  pbProductShape half = s;
  half.k = 111;
  pbProduct_Add(&half, A, B, part, work);
  half.k = s.k - 111;
  pbProduct_Add(&half, A + 111, B + 111 * s.ldb, part, work);
  assert_memory_equal(whole, part, sizeof *whole * (size_t)(s.m * s.n));

  free(work);
  free(whole);
  free(part);
  destroy(&c);
}

// A buffer for the largest product serves all smaller ones.
static void work_grows(void **state) {
  (void)state;
  const int sizes[] = {0, 1, 7, 8, 9, 31, 64, 100, 255, 256, 257, 600, 5000};
  enum { COUNT = sizeof sizes / sizeof *sizes };
  for (int i = 1; i < COUNT; i++)
    for (int j = 1; j < COUNT; j++)
      for (int p = 1; p < COUNT; p++) {
        const pbProductShape large = shaped(sizes[i], sizes[j], sizes[p], 0, 0);
        size_t most = pbProduct_WorkBytes(&large);
        const pbProductShape less[] = {
            shaped(sizes[i - 1], sizes[j], sizes[p], 0, 0), shaped(sizes[i], sizes[j - 1], sizes[p], 1, 0),
            shaped(sizes[i], sizes[j], sizes[p - 1], 2, 0), shaped(sizes[i], sizes[j], sizes[p], 3, 0)};
        for (int l = 0; l < 4; l++) assert_true(pbProduct_WorkBytes(&less[l]) <= most);
        assert_true(most % 64 == 0);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_shapes), cmocka_unit_test(large_shapes), cmocka_unit_test(not_finite),
      cmocka_unit_test(parts),        cmocka_unit_test(work_grows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
