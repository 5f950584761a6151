// Assertions: errors of the programmer, not of data. Bad data and missing convergence are a pbStatus.
//
//   PB_ASSERT(condition)    what a function relies on, in constant time: sizes, ranges, the order of calls; in all
//                           builds but release.
//   PB_VALIDATE(condition)  an invariant, whatever it costs: sorted lists, unit quaternions, positive definite factors; where the
//                           build has PULLBACK_VALIDATE (the presets `validate`, `asan` and `asan-quick`).
//   PB_POISON(memory, size) room that nobody has written yet is filled with NaN there, so that who reads it shows.
//
// One that does not hold names itself on standard error and aborts. With PULLBACK_ASSERT=off in the environment it goes on: so a
// test of tests can see who else notices. Where they are off, conditions are compiled, not evaluated.
#ifndef PB_BASE_ASSERT_H
#define PB_BASE_ASSERT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/assert.h"

void pbAssert_Fail(const char *condition, const char *file, int line, const char *function);

#define PB_CHECKED(condition)   ((condition) ? (void)0 : pbAssert_Fail(#condition, __FILE__, __LINE__, __func__))
#define PB_UNCHECKED(condition) ((void)(0 && (condition)))

#ifdef NDEBUG
#define PB_ASSERT(condition) PB_UNCHECKED(condition)
#else
#define PB_ASSERT(condition) PB_CHECKED(condition)
#endif
#ifdef PULLBACK_VALIDATE
#define PB_VALIDATE(condition)  PB_CHECKED(condition)
#define PB_POISON(memory, size) memset(memory, 0xff, size)
#else
#define PB_VALIDATE(condition)  PB_UNCHECKED(condition)
#define PB_POISON(memory, size) ((void)0)
#endif

// ---- invariants that many files share ---------------------------------------------------------------------------------
// Are n numbers finite?
static inline bool pb_allFinite(const double *x, size_t n) {
  typedef double two __attribute__((vector_size(16)));  // every instruction set has it
  two a = {0}, b = {0}, c, d;
  double sum = 0;
  size_t i = 0;

  // 0 x is zero, or not a number.
  for (; i + 4 <= n; i += 4) {
    memcpy(&c, x + i, sizeof c);
    memcpy(&d, x + i + 2, sizeof d);
    a += 0 * c;
    b += 0 * d;
  }
  for (; i < n; i++) sum += 0 * x[i];
  return sum + (a[0] + a[1]) + (b[0] + b[1]) == 0;
}

// Are all parts of n numbers of any type finite: doubles, complex numbers, lanes?
#define PB_FINITE(x, n) pb_allFinite((const double *)(x), (size_t)(n) * (sizeof *(x) / sizeof(double)))

// Do n numbers ascend, each larger than the one before?
static inline bool pb_ascending(const int *list, int n) {
  for (int i = 1; i < n; i++) {
    if (list[i] <= list[i - 1]) return false;
  }
  return true;
}

// Are n numbers from `low` up to, not including, `high`?
static inline bool pb_allWithin(const int *list, int n, int low, int high) {
  for (int i = 0; i < n; i++) {
    if (list[i] < low || list[i] >= high) return false;
  }
  return true;
}

// Has a vector (n = 3, 4) the length one, but for rounding?
static inline bool pb_isUnit(const double *v, int n) {
  double squared = 0;
  for (int i = 0; i < n; i++) squared += v[i] * v[i];
  return squared > 1 - 1e-9 && squared < 1 + 1e-9;
}

#endif
