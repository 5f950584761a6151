// Clip to lower..upper. Its derivative beyond a bound is that of the program, zero, or projected: what a descent along the
// cotangents would do to the input is let through where it leads inwards (the projected gradient of bound constraints). Forward
// mode is the program's in both.
// Tests: tests/unit/test_network.c.
#include "policy/layer.h"

static void forward(const pbLayer *l, pbPass *pass, const real *x, real *y, real *tape) {
  (void)tape;
  size_t n = (size_t)l->inputs * (size_t)pass->batch;
  real lower = (real)l->lower, upper = (real)l->upper;

  for (size_t i = 0; i < n; i++) {
    y[i] = x[i];
    if (x[i] < lower) y[i] = lower;
    if (x[i] > upper) y[i] = upper;
  }
}

static void pull(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *y_bar, real *x_bar) {
  (void)y;
  (void)tape;
  size_t n = (size_t)l->inputs * (size_t)pass->batch;
  real lower = (real)l->lower, upper = (real)l->upper;

  // A descent moves x against its cotangent.
  for (size_t i = 0; i < n; i++) {
    bool below = x[i]<lower, above = x[i]> upper;
    bool inwards = l->projected && !pass->exact && (below ? y_bar[i] < 0 : y_bar[i] > 0);
    x_bar[i] = (!below && !above) || inwards ? y_bar[i] : 0;
  }
}

static void push(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *x_dot, real *y_dot) {
  (void)y;
  (void)tape;
  size_t n = (size_t)l->inputs * (size_t)pass->batch;
  real lower = (real)l->lower, upper = (real)l->upper;
  for (size_t i = 0; i < n; i++) y_dot[i] = x[i] < lower || x[i] > upper ? 0 : x_dot[i];
}

const pbLayerOps REAL(pbLayer_Clip) = {.forward = forward, .pull = pull, .push = push};
