// y = scale x + offset by constants, row by row.
// Tests: tests/unit/test_network.c.
#include "policy/layer.h"

static void forward(const pbLayer *l, pbPass *pass, const real *x, real *y, real *tape) {
  (void)tape;
  size_t n = (size_t)pass->batch;

  for (int i = 0; i < l->inputs; i++, x += n, y += n) {
    real scale = (real)l->number[i], offset = (real)l->number[l->inputs + i];
    for (size_t b = 0; b < n; b++) y[b] = scale * x[b] + offset;
  }
}

static void pull(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *y_bar, real *x_bar) {
  (void)x;
  (void)y;
  (void)tape;
  size_t n = (size_t)pass->batch;

  for (int i = 0; i < l->inputs; i++, x_bar += n, y_bar += n) {
    real scale = (real)l->number[i];
    for (size_t b = 0; b < n; b++) x_bar[b] = scale * y_bar[b];
  }
}

static void push(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *x_dot, real *y_dot) {
  pull(l, pass, x, y, tape, x_dot, y_dot);
}

const pbLayerOps REAL(pbLayer_Scale) = {.forward = forward, .pull = pull, .push = push};
