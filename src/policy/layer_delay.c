// Each input as it was `delay` decisions ago: between two of them by linear interpolation, so that there is a derivative by the
// delay, the slice "delay". The memory is what the inputs were: 1, 2, ... decisions ago, one block of rows behind the other;
// zeros before the first decision. Delays beyond the memory count as the longest it has, below zero as zero: their derivative
// is zero.
// Tests: tests/unit/test_network.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "policy/layer.h"

// The two decisions between which a delay is, and how far it is from the newer one.
typedef struct Place {
  int newer;
  double fraction;
  bool inside;  // the delay is one that moves
} Place;

static int longest(const pbLayer *l) { return l->memory / l->inputs; }

static Place place_of(const pbLayer *l, const pbPass *pass) {
  double delay = pass->param[l->param], most = longest(l);
  Place place = {.inside = delay >= 0 && delay <= most};
  if (delay != delay) place.fraction = delay;
  if (!place.inside && !(delay > most)) return place;

  // At the end of the memory it is at the end of its last piece.
  double at = delay > most ? most : delay;
  place.newer = (int)at < longest(l) ? (int)at : longest(l) - 1;
  place.fraction = at - place.newer;
  PB_ASSERT(place.newer >= 0 && place.newer < longest(l) && place.fraction >= 0 && place.fraction <= 1);
  return place;
}

// Input i of column b as it was k decisions ago; k = 0 is now. NULL: zeros.
static double value_at(const pbLayer *l, const pbPass *pass, const real *now, const double *memory, int k, size_t at) {
  size_t n = (size_t)pass->batch;
  if (k == 0) return now ? (double)now[at] : 0;
  return memory ? memory[((size_t)l->state + (size_t)(k - 1) * (size_t)l->inputs) * n + at] : 0;
}

// The memory one decision later.
static void shift(const pbLayer *l, const pbPass *pass, const real *now, const double *memory, double *next) {
  size_t size = (size_t)l->inputs * (size_t)pass->batch;
  double *to = next + (size_t)l->state * (size_t)pass->batch;

  for (int k = 0; k < longest(l); k++, to += size) {
    for (size_t i = 0; i < size; i++) to[i] = value_at(l, pass, now, memory, k, i);
  }
}

static void forward(const pbLayer *l, pbPass *pass, const real *x, real *y, real *tape) {
  (void)tape;
  size_t size = (size_t)l->inputs * (size_t)pass->batch;
  Place p = place_of(l, pass);

  for (size_t i = 0; i < size; i++) {
    double newer = value_at(l, pass, x, pass->m, p.newer, i), older = value_at(l, pass, x, pass->m, p.newer + 1, i);
    y[i] = (real)(newer + p.fraction * (older - newer));
  }

  shift(l, pass, x, pass->m, pass->m_next);
}

// What came `k` decisions late goes back to where it was then.
static void add_back(const pbLayer *l, pbPass *pass, int k, size_t at, double bar, real *x_bar) {
  size_t n = (size_t)pass->batch;
  if (k == 0) x_bar[at] += (real)bar;
  else pass->m_bar[((size_t)l->state + (size_t)(k - 1) * (size_t)l->inputs) * n + at] += bar;
}

static void pull(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *y_bar, real *x_bar) {
  (void)y;
  (void)tape;
  size_t n = (size_t)pass->batch, size = (size_t)l->inputs * n, mark = pbArena_Mark(&pass->arena);
  Place p = place_of(l, pass);
  real *by_delay = pb_takeRows(&pass->arena, 1, pass->batch);
  memset(x_bar, 0, size * sizeof *x_bar);
  for (size_t b = 0; b < n; b++) by_delay[b] = 0;

  for (size_t i = 0; i < size; i++) {
    double newer = value_at(l, pass, x, pass->m, p.newer, i), older = value_at(l, pass, x, pass->m, p.newer + 1, i);
    add_back(l, pass, p.newer, i, (1 - p.fraction) * (double)y_bar[i], x_bar);
    add_back(l, pass, p.newer + 1, i, p.fraction * (double)y_bar[i], x_bar);
    if (p.inside) by_delay[i % n] += (real)((older - newer) * (double)y_bar[i]);
  }

  // And the memory after to the one before.
  const double *next_bar = pass->m_next_bar ? pass->m_next_bar + (size_t)l->state * n : NULL;
  for (int k = 0; k < longest(l); k++) {
    for (size_t i = 0; i < size; i++) add_back(l, pass, k, i, next_bar ? next_bar[(size_t)k * size + i] : 0, x_bar);
  }

  if (pass->kept) REAL(pbKept_Put)(l, pass, 0, 1, by_delay);
  pbArena_Release(&pass->arena, mark);
}

static void push(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *x_dot, real *y_dot) {
  (void)y;
  (void)tape;
  size_t size = (size_t)l->inputs * (size_t)pass->batch;
  Place p = place_of(l, pass);
  double delay_dot = pass->param_dot && p.inside ? pass->param_dot[l->param] : 0;

  for (size_t i = 0; i < size; i++) {
    double newer = value_at(l, pass, x, pass->m, p.newer, i), older = value_at(l, pass, x, pass->m, p.newer + 1, i);
    double newer_dot = value_at(l, pass, x_dot, pass->m_dot, p.newer, i);
    double older_dot = value_at(l, pass, x_dot, pass->m_dot, p.newer + 1, i);
    y_dot[i] = (real)(newer_dot + p.fraction * (older_dot - newer_dot) + delay_dot * (older - newer));
  }

  shift(l, pass, x_dot, pass->m_dot, pass->m_next_dot);
}

static void reserve(const pbLayer *l, int batch, pbArena *arena) {
  (void)l;
  size_t mark = pbArena_Mark(arena);
  pb_takeRows(arena, 1, batch);
  pbArena_Release(arena, mark);
}

const pbLayerOps REAL(pbLayer_Delay) = {
    .forward = forward, .pull = pull, .push = push, .gather = REAL(pbKept_Sum), .reserve = reserve};
