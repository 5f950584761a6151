// Products of dense matrices (product.h), written once for both types of number.
// Tests: tests/unit/test_product.c.
#include "linalg/product_kernels.h"

// Halves of two vectors entry by entry in turn: the lower ones, the upper ones.
#define LOW_2(x, y)   __builtin_shufflevector(x, y, 0, 2)
#define HIGH_2(x, y)  __builtin_shufflevector(x, y, 1, 3)
#define LOW_4(x, y)   __builtin_shufflevector(x, y, 0, 4, 1, 5)
#define HIGH_4(x, y)  __builtin_shufflevector(x, y, 2, 6, 3, 7)
#define LOW_8(x, y)   __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_8(x, y)  __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW_16(x, y)  __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_16(x, y) __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#if PB_REGISTER == 8
#define LOW_double  LOW_8
#define HIGH_double HIGH_8
#define LOW_single  LOW_16
#define HIGH_single HIGH_16
#elif PB_REGISTER == 4
#define LOW_double  LOW_4
#define HIGH_double HIGH_4
#define LOW_single  LOW_8
#define HIGH_single HIGH_8
#else
#define LOW_double  LOW_2
#define HIGH_double HIGH_2
#define LOW_single  LOW_4
#define HIGH_single HIGH_4
#endif

#define real     double
#define OF(name) name##_double
#include "linalg/product_body.h"
#undef real
#undef OF

#define real     float
#define OF(name) name##_single
#include "linalg/product_body.h"
#undef real
#undef OF

void NUM(pbProduct_Double)(const pbProductShape *shape, const double *A, const double *B, double *C, void *work) {
  multiply_double(shape, A, B, C, work);
}

void NUM(pbProduct_Single)(const pbProductShape *shape, const float *A, const float *B, float *C, void *work) {
  multiply_single(shape, A, B, C, work);
}
