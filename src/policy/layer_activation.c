// Activations, entry by entry: relu, tanh, elu (Clevert et al. 2016, alpha 1), softplus log(1 + exp x), sigmoid, silu x
// sigmoid(x) (Elfwing et al. 2018). Slopes are those at the outputs, which forward has left; of silu, which has a minimum, at the
// inputs. NaN stays NaN.
// Tests: tests/unit/test_network.c.
#include <tgmath.h>

#include "elementary/elementary.h"
#include "policy/exponential.h"
#include "policy/layer.h"

// A loop for each, so that compilers run several entries at a time.
static void forward(const pbLayer *l, pbPass *pass, const real *x, real *y, real *tape) {
  (void)tape;
  size_t n = (size_t)l->inputs * (size_t)pass->batch;

  switch (l->activation) {
    case pb_activationRelu:
      for (size_t i = 0; i < n; i++) y[i] = x[i] < 0 ? 0 : x[i];
      break;
    case pb_activationTanh:
      for (size_t i = 0; i < n; i++) y[i] = pb_tanh(x[i]);
      break;
    case pb_activationElu:
      for (size_t i = 0; i < n; i++) {
        real below = x[i] > 0 ? 0 : x[i];
        y[i] = x[i] > 0 ? x[i] : pb_expm1(below);
      }
      break;
    case pb_activationSoftplus:
      for (size_t i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] + pbLog1p(pbExp(-x[i])) : pbLog1p(pbExp(x[i]));
      break;
    case pb_activationSigmoid:
      for (size_t i = 0; i < n; i++) y[i] = pb_sigmoid(x[i]);
      break;
    case pb_activationSilu:
      for (size_t i = 0; i < n; i++) y[i] = x[i] * pb_sigmoid(x[i]);
      break;
    case pb_activationCount: break;
  }
}

static inline real slope_of(pbActivation activation, real y) {
  switch (activation) {
    case pb_activationRelu: return y > 0 ? 1 : 0;
    case pb_activationTanh: return 1 - y * y;
    case pb_activationElu: return y < 0 ? y + 1 : 1;
    case pb_activationSoftplus: return -pb_expm1(-y);
    case pb_activationSilu:
    case pb_activationSigmoid:
    case pb_activationCount: break;
  }

  return y * (1 - y);
}

static inline void scale_by(pbActivation activation, size_t n, const real *y, const real *y_bar, real *x_bar) {
  for (size_t i = 0; i < n; i++) x_bar[i] = y_bar[i] * slope_of(activation, y[i]);
}

static void pull_silu(size_t n, const real *x, const real *y_bar, real *x_bar) {
  for (size_t i = 0; i < n; i++) {
    real s = pb_sigmoid(x[i]);
    x_bar[i] = y_bar[i] * s * (1 + x[i] * (1 - s));
  }
}

// A loop for each, as above.
static void pull(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *y_bar, real *x_bar) {
  (void)tape;
  size_t n = (size_t)l->inputs * (size_t)pass->batch;

  switch (l->activation) {
    case pb_activationRelu: scale_by(pb_activationRelu, n, y, y_bar, x_bar); break;
    case pb_activationTanh: scale_by(pb_activationTanh, n, y, y_bar, x_bar); break;
    case pb_activationElu: scale_by(pb_activationElu, n, y, y_bar, x_bar); break;
    case pb_activationSilu: pull_silu(n, x, y_bar, x_bar); break;
    default: scale_by(l->activation, n, y, y_bar, x_bar); break;
  }
}

static void push(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *x_dot, real *y_dot) {
  pull(l, pass, x, y, tape, x_dot, y_dot);  // a diagonal is its own transpose
}

const pbLayerOps REAL(pbLayer_Activation) = {.forward = forward, .pull = pull, .push = push};
