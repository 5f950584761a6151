// The number type in which layers compute: every layer_*.c is compiled twice, for double and, with PB_SINGLE, for float
// (CMakeLists.txt). Parameters and memory are double in both.
#ifndef PB_POLICY_REAL_H
#define PB_POLICY_REAL_H

#ifdef PB_SINGLE
typedef float real;
#define REAL(name) name##_single
#else
typedef double real;
#define REAL(name) name##_double
#endif

#endif
