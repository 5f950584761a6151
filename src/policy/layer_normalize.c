// y = (x - mean) / deviation by the fixed slices "mean" and "deviation", which training sets from what it has seen.
// Tests: tests/unit/test_network.c.
#include "policy/layer.h"

static void forward(const pbLayer *l, pbPass *pass, const real *x, real *y, real *tape) {
  (void)tape;
  size_t n = (size_t)pass->batch;
  const double *mean = pass->param + l->param, *deviation = mean + l->inputs;

  for (int i = 0; i < l->inputs; i++, x += n, y += n) {
    for (size_t b = 0; b < n; b++) y[b] = (x[b] - (real)mean[i]) / (real)deviation[i];
  }
}

static void pull(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *y_bar, real *x_bar) {
  (void)x;
  (void)tape;
  size_t n = (size_t)pass->batch, mark = pbArena_Mark(&pass->arena);
  const double *deviation = pass->param + l->param + l->inputs;
  real *by_mean = pb_takeRows(&pass->arena, 1, pass->batch), *by_deviation = pb_takeRows(&pass->arena, 1, pass->batch);

  // d y = (d x - d mean - y d deviation) / deviation
  for (int i = 0; i < l->inputs; i++, y += n, x_bar += n, y_bar += n) {
    for (size_t b = 0; b < n; b++) {
      x_bar[b] = y_bar[b] / (real)deviation[i];
      by_mean[b] = -x_bar[b];
      by_deviation[b] = -x_bar[b] * y[b];
    }

    if (!pass->kept) continue;
    REAL(pbKept_Put)(l, pass, i, 1, by_mean);
    REAL(pbKept_Put)(l, pass, l->inputs + i, 1, by_deviation);
  }

  pbArena_Release(&pass->arena, mark);
}

static void push(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *x_dot, real *y_dot) {
  (void)x;
  (void)tape;
  size_t n = (size_t)pass->batch;
  const double *deviation = pass->param + l->param + l->inputs;
  const double *mean_dot = pass->param_dot ? pass->param_dot + l->param : NULL;

  for (int i = 0; i < l->inputs; i++, y += n, x_dot += n, y_dot += n) {
    real mean = mean_dot ? (real)mean_dot[i] : 0, spread = mean_dot ? (real)mean_dot[l->inputs + i] : 0;
    for (size_t b = 0; b < n; b++) y_dot[b] = (x_dot[b] - mean - y[b] * spread) / (real)deviation[i];
  }
}

static void reserve(const pbLayer *l, int batch, pbArena *arena) {
  (void)l;
  size_t mark = pbArena_Mark(arena);
  for (int i = 0; i < 2; i++) pb_takeRows(arena, 1, batch);
  pbArena_Release(arena, mark);
}

const pbLayerOps REAL(pbLayer_Normalize) = {
    .forward = forward, .pull = pull, .push = push, .gather = REAL(pbKept_Sum), .reserve = reserve};
