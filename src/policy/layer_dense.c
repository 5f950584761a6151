// y = W x + b: slices "weight" (outputs x inputs) and "bias". Inputs and cotangents of outputs are kept, so that the gradient of
// many columns is one product, summed in ascending order of the columns.
// Tests: tests/unit/test_network.c, tests/oracle/test_policy.py.
#include <string.h>

#include "policy/layer.h"

static const double *bias_of(const pbLayer *l, const double *param) {
  return param + l->param + (size_t)l->outputs * (size_t)l->inputs;
}

static void forward(const pbLayer *l, pbPass *pass, const real *x, real *y, real *tape) {
  (void)tape;
  REAL(pbBias_Fill)(bias_of(l, pass->param), l->outputs, pass->batch, y);
  REAL(pbMatrix_Apply)(pass, pass->param + l->param, l->outputs, l->inputs, x, y);
}

static void pull(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *y_bar, real *x_bar) {
  (void)y;
  (void)tape;
  memset(x_bar, 0, (size_t)l->inputs * (size_t)pass->batch * sizeof *x_bar);
  REAL(pbMatrix_Pull)(pass, pass->param + l->param, l->outputs, l->inputs, y_bar, x_bar);
  if (!pass->kept) return;

  REAL(pbKept_Put)(l, pass, 0, l->inputs, x);
  REAL(pbKept_Put)(l, pass, l->inputs, l->outputs, y_bar);
}

static void push(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *x_dot, real *y_dot) {
  (void)y;
  (void)tape;
  const double *dot = pass->param_dot;

  REAL(pbBias_Fill)(dot ? bias_of(l, dot) : NULL, l->outputs, pass->batch, y_dot);
  REAL(pbMatrix_Apply)(pass, pass->param + l->param, l->outputs, l->inputs, x_dot, y_dot);
  if (dot) REAL(pbMatrix_Apply)(pass, dot + l->param, l->outputs, l->inputs, x, y_dot);
}

static void gather(const pbLayer *l, pbPass *pass, double *bar) {
  pbKeptMatrix kept = {.rows = l->outputs, .cols = l->inputs, .x = 0, .y = l->inputs};
  REAL(pbMatrix_Gather)(l, pass, kept, bar);
  REAL(pbBias_Gather)(l, pass, l->inputs, l->outputs, bar + (size_t)l->outputs * (size_t)l->inputs);
}

static void reserve(const pbLayer *l, int batch, pbArena *arena) { REAL(pbMatrix_Reserve)(l->outputs, l->inputs, batch, arena); }

const pbLayerOps REAL(pbLayer_Dense) = {.forward = forward, .pull = pull, .push = push, .gather = gather, .reserve = reserve};
