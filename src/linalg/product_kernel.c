// Products of dense matrices (product.h), written once for both types of number.
#include "linalg/product_kernels.h"

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
