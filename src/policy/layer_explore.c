// y = x + exp(l) e: what is learned with noise e before its squash, where it may have any size and still has a derivative.
// Without draws e is zero, and y = x. Slice "log_deviation" (l).
// Tests: tests/unit/test_network.c, tests/unit/test_learn_explore.c.
#include <string.h>

#include "elementary/elementary.h"
#include "policy/layer.h"

// Entries that noise is added to.
static size_t drawn_of(const pbLayer *l) { return l->drawn ? (size_t)l->inputs : 0; }

static real deviation_of(const pbLayer *l, const pbPass *pass, size_t i) {
  return (real)pbExp(pass->param[(size_t)l->param + i]);
}

static void forward(const pbLayer *l, pbPass *pass, const real *x, real *y, real *tape) {
  (void)tape;
  size_t n = (size_t)pass->batch;
  memcpy(y, x, (size_t)l->inputs * n * sizeof *y);

  for (size_t i = 0; i < drawn_of(l); i++) {
    real deviation = deviation_of(l, pass, i);
    for (size_t b = 0; b < n; b++) y[i * n + b] += deviation * pass->draw[i * n + b];
  }
}

static void pull(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *y_bar, real *x_bar) {
  (void)x;
  (void)y;
  (void)tape;
  size_t n = (size_t)pass->batch;

  // by the logarithm: deviation e, each column for itself
  memset(x_bar, 0, (size_t)l->inputs * n * sizeof *x_bar);
  for (size_t i = 0; i < drawn_of(l); i++) {
    real deviation = deviation_of(l, pass, i);
    for (size_t b = 0; b < n; b++) {
      pass->draw_bar[i * n + b] += (double)(deviation * y_bar[i * n + b]);
      x_bar[i * n + b] = deviation * pass->draw[i * n + b] * y_bar[i * n + b];
    }
  }
  if (pass->kept) REAL(pbKept_Put)(l, pass, 0, l->inputs, x_bar);

  memcpy(x_bar, y_bar, (size_t)l->inputs * n * sizeof *x_bar);
}

static void push(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *x_dot, real *y_dot) {
  (void)x;
  (void)y;
  (void)tape;
  size_t n = (size_t)pass->batch;
  memcpy(y_dot, x_dot, (size_t)l->inputs * n * sizeof *y_dot);

  for (size_t i = 0; i < drawn_of(l); i++) {
    real deviation = deviation_of(l, pass, i), by_log = pass->param_dot ? (real)pass->param_dot[(size_t)l->param + i] : 0;
    for (size_t b = 0; b < n; b++) y_dot[i * n + b] += deviation * (pass->draw_dot[i * n + b] + by_log * pass->draw[i * n + b]);
  }
}

const pbLayerOps REAL(pbLayer_Explore) = {.forward = forward, .pull = pull, .push = push, .gather = REAL(pbKept_Sum)};
