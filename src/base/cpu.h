// The variants of the double kernels that this build has, and which of them the processor can run: the one place that asks it.
#ifndef PB_CPU_H
#define PB_CPU_H

// Variants (cmake/kernels.cmake), widest registers first: X(suffix, ...).
#ifdef PB_HAVE_V4
#define PB_IF_V4(X, ...) X(_v4, ##__VA_ARGS__)
#else
#define PB_IF_V4(X, ...)
#endif
#ifdef PB_HAVE_V3
#define PB_IF_V3(X, ...) X(_v3, ##__VA_ARGS__)
#else
#define PB_IF_V3(X, ...)
#endif
#define PB_VARIANTS(X, ...) PB_IF_V4(X, ##__VA_ARGS__) PB_IF_V3(X, ##__VA_ARGS__) X(_r, ##__VA_ARGS__)

// Places in tables that are written with PB_VARIANTS.
enum {
#define X(suffix) pb_variant##suffix,
  PB_VARIANTS(X)
#undef X
      pb_variantCount
};

// The place of those that this processor can run, index 0 the best; -1 past the last.
int pbCpu_Variant(int index);

#endif
