// What the compiler and CMake knew when this was built.
// Tests: tests/unit/test_base.c.
#include <pullback/build.h>

#include "base/cpu.h"

const char *pbBuild_Compiler(void) {
#ifdef __clang__
  return __VERSION__;  // with its name
#else
  return "gcc " __VERSION__;
#endif
}

const char *pbBuild_Kernels(int index) {
#define X(suffix) &#suffix[1],
  static const char *const name[] = {PB_VARIANTS(X)};
#undef X
  int variant = index < 0 ? -1 : pbCpu_Variant(index);
  return variant < 0 ? NULL : name[variant];
}

bool pbBuild_Hulls(void) {
#ifdef PB_HAVE_QHULL
  return true;
#else
  return false;
#endif
}

const char *pbBuild_Viewer(void) {
#ifdef PB_THREE
  return PB_THREE;
#else
  return NULL;
#endif
}
