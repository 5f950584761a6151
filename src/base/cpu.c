// What the processor can run. The C runtime reads its features once, before main; asking again is looking at a word.
// Tests: tests/unit/test_base.c.
#include "base/cpu.h"

#include <stdbool.h>

#ifdef PB_HAVE_V4
static bool runs_v4(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd");
}
#endif

#ifdef PB_HAVE_V3
static bool runs_v3(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
#endif

static bool runs_r(void) { return true; }

int pbCpu_Variant(int index) {
#define X(suffix) {pb_variant##suffix, runs##suffix},
  static const struct {
    int variant;
    bool (*runs)(void);
  } all[] = {PB_VARIANTS(X)};
#undef X

  for (int k = 0; k < pb_variantCount; k++) {
    if (all[k].runs() && index-- == 0) return all[k].variant;
  }

  return -1;
}
