// y = gain (x - mean) / sqrt(variance + 1e-5) + bias, mean and variance over the entries of a column (Ba, Kiros & Hinton 2016):
// slices "gain" and "bias". Where all entries are alike the root keeps it smooth: y is the bias there.
// Tests: tests/unit/test_network.c, tests/unit/test_layer_norm.c, tests/oracle/test_policy.py.
#include <tgmath.h>

#include "policy/layer.h"

#define LEAST_VARIANCE ((real)1e-5)

// Rows of the tape: (x - mean) / deviation of each input, then 1 / deviation.
static real *inverse_of(const pbLayer *l, const pbPass *pass, real *tape) {
  return tape + (size_t)l->inputs * (size_t)pass->batch;
}

// mean[b] = sum over rows of a (and, where it is given, times c) / rows, in ascending order.
static void average(const real *a, const real *c, int rows, size_t n, real *mean) {
  for (size_t b = 0; b < n; b++) mean[b] = 0;
  for (size_t i = 0; i < (size_t)rows; i++) {
    for (size_t b = 0; b < n; b++) mean[b] += c ? a[i * n + b] * c[i * n + b] : a[i * n + b];
  }
  for (size_t b = 0; b < n; b++) mean[b] /= (real)rows;
}

static void forward(const pbLayer *l, pbPass *pass, const real *x, real *y, real *tape) {
  size_t n = (size_t)pass->batch, mark = pbArena_Mark(&pass->arena);
  const double *gain = pass->param + l->param, *bias = gain + l->inputs;
  real *mean = pb_takeRows(&pass->arena, 1, pass->batch), *inverse = inverse_of(l, pass, tape);

  // of what is left without the mean, so that large inputs lose nothing
  average(x, NULL, l->inputs, n, mean);
  for (size_t i = 0; i < (size_t)l->inputs; i++) {
    for (size_t b = 0; b < n; b++) tape[i * n + b] = x[i * n + b] - mean[b];
  }
  average(tape, tape, l->inputs, n, inverse);
  for (size_t b = 0; b < n; b++) inverse[b] = 1 / sqrt(inverse[b] + LEAST_VARIANCE);

  for (size_t i = 0; i < (size_t)l->inputs; i++) {
    for (size_t b = 0; b < n; b++) {
      tape[i * n + b] *= inverse[b];
      y[i * n + b] = (real)gain[i] * tape[i * n + b] + (real)bias[i];
    }
  }
  pbArena_Release(&pass->arena, mark);
}

// What a cotangent or a tangent z of the normed numbers' inputs becomes: (z - mean z - normed mean(normed z)) / deviation, a
// symmetric matrix.
static void project(const pbLayer *l, pbPass *pass, const real *tape, real *z) {
  size_t n = (size_t)pass->batch, mark = pbArena_Mark(&pass->arena);
  const real *inverse = tape + (size_t)l->inputs * n;
  real *mean = pb_takeRows(&pass->arena, 1, pass->batch), *along = pb_takeRows(&pass->arena, 1, pass->batch);

  average(z, NULL, l->inputs, n, mean);
  average(z, tape, l->inputs, n, along);
  for (size_t i = 0; i < (size_t)l->inputs; i++) {
    for (size_t b = 0; b < n; b++) z[i * n + b] = (z[i * n + b] - mean[b] - tape[i * n + b] * along[b]) * inverse[b];
  }
  pbArena_Release(&pass->arena, mark);
}

static void pull(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *y_bar, real *x_bar) {
  (void)x;
  (void)y;
  size_t n = (size_t)pass->batch;
  const double *gain = pass->param + l->param;

  // by gain and bias, each column for itself
  for (size_t i = 0; i < (size_t)l->inputs; i++) {
    for (size_t b = 0; b < n; b++) x_bar[i * n + b] = y_bar[i * n + b] * tape[i * n + b];
  }
  if (pass->kept) REAL(pbKept_Put)(l, pass, 0, l->inputs, x_bar);
  if (pass->kept) REAL(pbKept_Put)(l, pass, l->inputs, l->inputs, y_bar);

  for (size_t i = 0; i < (size_t)l->inputs; i++) {
    for (size_t b = 0; b < n; b++) x_bar[i * n + b] = y_bar[i * n + b] * (real)gain[i];
  }
  project(l, pass, tape, x_bar);
}

static void push(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *x_dot, real *y_dot) {
  (void)x;
  (void)y;
  size_t n = (size_t)pass->batch;
  const double *gain = pass->param + l->param;
  const double *gain_dot = pass->param_dot ? pass->param_dot + l->param : NULL;

  for (size_t i = 0; i < (size_t)l->inputs * n; i++) y_dot[i] = x_dot[i];
  project(l, pass, tape, y_dot);
  for (size_t i = 0; i < (size_t)l->inputs; i++) {
    real by_gain = gain_dot ? (real)gain_dot[i] : 0, by_bias = gain_dot ? (real)gain_dot[(size_t)l->inputs + i] : 0;
    for (size_t b = 0; b < n; b++) y_dot[i * n + b] = (real)gain[i] * y_dot[i * n + b] + by_gain * tape[i * n + b] + by_bias;
  }
}

static void reserve(const pbLayer *l, int batch, pbArena *arena) {
  (void)l;
  size_t mark = pbArena_Mark(arena);
  for (int i = 0; i < 2; i++) pb_takeRows(arena, 1, batch);
  pbArena_Release(arena, mark);
}

const pbLayerOps REAL(pbLayer_Norm) = {
    .forward = forward, .pull = pull, .push = push, .gather = REAL(pbKept_Sum), .reserve = reserve};
