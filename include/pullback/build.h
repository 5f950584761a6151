// Pullback: how this library was built, and what of it this processor takes.
#ifndef PULLBACK_BUILD_H
#define PULLBACK_BUILD_H

#include <pullback/base.h>

#ifdef __cplusplus
extern "C" {
#endif

PB_API const char *pbBuild_Compiler(void);  // "gcc 12.2.0"
// The kernels that this processor can run, those that steps take first: "v4" (x86-64-v4, AVX-512), "v3" (AVX2), "r" (any
// processor). NULL from index past the last on, and for negative ones.
PB_API const char *pbBuild_Kernels(int index);
PB_API bool pbBuild_Hulls(void);  // false: meshes that collide are refused (PULLBACK_QHULL=OFF)
// The library that pages of the viewer are drawn by: "three.js r168, SHA-256 ..."; NULL: none was there.
PB_API const char *pbBuild_Viewer(void);

#ifdef __cplusplus
}
#endif
#endif
