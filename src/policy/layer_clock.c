// The inputs without the first, which is a time, and behind them sin and cos of 2 pi frequency time for each frequency. The
// angle is taken in double: after an hour a float's would be off by a thousandth.
// Tests: tests/unit/test_network.c.
#include <math.h>
#include <string.h>

#include "elementary/elementary.h"
#include "policy/layer.h"

static int frequencies(const pbLayer *l) { return (l->outputs - (l->inputs - 1)) / 2; }
static double rate(const pbLayer *l, int k) { return 2 * 3.14159265358979323846 * l->number[k]; }

static void forward(const pbLayer *l, pbPass *pass, const real *x, real *y, real *tape) {
  (void)tape;
  size_t n = (size_t)pass->batch, rest = (size_t)(l->inputs - 1) * n;
  if (rest) memcpy(y, x + n, rest * sizeof *y);
  y += rest;

  for (int k = 0; k < frequencies(l); k++, y += 2 * n) {
    for (size_t b = 0; b < n; b++) {
      double sine, cosine;
      pbSinCos(rate(l, k) * (double)x[b], &sine, &cosine);
      y[b] = (real)sine;
      y[n + b] = (real)cosine;
    }
  }
}

static void pull(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *y_bar, real *x_bar) {
  (void)x;
  (void)tape;
  size_t n = (size_t)pass->batch, rest = (size_t)(l->inputs - 1) * n;
  if (rest) memcpy(x_bar + n, y_bar, rest * sizeof *y);
  for (size_t b = 0; b < n; b++) x_bar[b] = 0;

  y += rest;
  y_bar += rest;
  for (int k = 0; k < frequencies(l); k++, y += 2 * n, y_bar += 2 * n) {
    for (size_t b = 0; b < n; b++) x_bar[b] += (real)rate(l, k) * (y[n + b] * y_bar[b] - y[b] * y_bar[n + b]);
  }
}

static void push(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *x_dot, real *y_dot) {
  (void)x;
  (void)tape;
  size_t n = (size_t)pass->batch, rest = (size_t)(l->inputs - 1) * n;
  if (rest) memcpy(y_dot, x_dot + n, rest * sizeof *y);

  y += rest;
  y_dot += rest;
  for (int k = 0; k < frequencies(l); k++, y += 2 * n, y_dot += 2 * n) {
    for (size_t b = 0; b < n; b++) {
      real angle = (real)rate(l, k) * x_dot[b];
      y_dot[b] = y[n + b] * angle;
      y_dot[n + b] = -y[b] * angle;
    }
  }
}

const pbLayerOps REAL(pbLayer_Clock) = {.forward = forward, .pull = pull, .push = push};
