// The sum of several chains over the same input: skips, a controller and a network beside it. The tape is theirs, one behind the
// other.
// Tests: tests/unit/test_network.c.
#include <string.h>

#include "base/assert.h"
#include "policy/layer.h"

static void add(real *to, const real *from, size_t n) {
  for (size_t i = 0; i < n; i++) to[i] += from[i];
}

static void forward(const pbLayer *l, pbPass *pass, const real *x, real *y, real *tape) {
  size_t n = (size_t)pass->batch, size = (size_t)l->outputs * n;

  for (int k = 0; k < l->chains; k++) {
    const pbChain *chain = &l->chain[k];
    REAL(pbChain_Forward)(chain, pass, x, tape);

    PB_ASSERT(chain->outputs == l->outputs && chain->inputs == l->inputs);
    const real *part = REAL(pbChain_Outputs)(chain, pass->batch, x, tape);
    if (k) add(y, part, size);
    else memcpy(y, part, size * sizeof *y);
    tape += (size_t)chain->tape * n;
  }
}

static void pull(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *y_bar, real *x_bar) {
  (void)y;
  size_t n = (size_t)pass->batch, size = (size_t)l->inputs * n, mark = pbArena_Mark(&pass->arena);
  real *part = pb_takeRows(&pass->arena, l->inputs, pass->batch);

  for (int k = 0; k < l->chains; k++) {
    REAL(pbChain_Pull)(&l->chain[k], pass, x, tape, y_bar, k ? part : x_bar);
    if (k) add(x_bar, part, size);
    tape += (size_t)l->chain[k].tape * n;
  }

  pbArena_Release(&pass->arena, mark);
}

static void push(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *x_dot, real *y_dot) {
  (void)y;
  size_t n = (size_t)pass->batch, size = (size_t)l->outputs * n, mark = pbArena_Mark(&pass->arena);
  real *part = pb_takeRows(&pass->arena, l->outputs, pass->batch);

  for (int k = 0; k < l->chains; k++) {
    REAL(pbChain_Push)(&l->chain[k], pass, x, tape, x_dot, k ? part : y_dot);
    if (k) add(y_dot, part, size);
    tape += (size_t)l->chain[k].tape * n;
  }

  pbArena_Release(&pass->arena, mark);
}

// Layers inside know their places among the function's parameters.
static void gather(const pbLayer *l, pbPass *pass, double *bar) {
  for (int k = 0; k < l->chains; k++) REAL(pbChain_Gather)(&l->chain[k], pass, bar - l->param);
}

static void reserve(const pbLayer *l, int batch, pbArena *arena) {
  size_t mark = pbArena_Mark(arena);
  pb_takeRows(arena, l->inputs > l->outputs ? l->inputs : l->outputs, batch);
  for (int k = 0; k < l->chains; k++) REAL(pbChain_Reserve)(&l->chain[k], batch, arena);
  pbArena_Release(arena, mark);
}

const pbLayerOps REAL(pbLayer_Sum) = {.forward = forward, .pull = pull, .push = push, .gather = gather, .reserve = reserve};
