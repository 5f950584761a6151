// Outputs by formulas of the inputs x0, x1, ... and the parameters p0, p1, ...: expressions of the energies' language, whose
// gradients are derived when they are read. Computed in double. Where a formula has no value (log of a negative number) or no
// derivative (the root of zero) NaN comes out, in that column alone.
// Tests: tests/unit/test_network.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "energy/expression.h"
#include "policy/compile_formula.h"
#include "policy/layer.h"

// What the expression of one output works with, for PB_FORMULA_BLOCK columns at a time.
typedef struct Room {
  double *in, *value, *gradient;  // in and gradient: columns x width
  int width;
  void *work;
} Room;

static Room take_room(const pbFormula *f, pbArena *arena) {
  int width = pbExpression_Width(f->expression);
  Room room = {.in = pbArena_Take(arena, (size_t)width * PB_FORMULA_BLOCK, sizeof(double)), .width = width};
  room.gradient = pbArena_Take(arena, (size_t)width * PB_FORMULA_BLOCK, sizeof(double));
  room.value = pbArena_Take(arena, PB_FORMULA_BLOCK, sizeof(double));
  room.work = pbArena_Take(arena, pbExpression_WorkBytes(f->expression), 1);
  return room;
}

static void fill_inputs(const pbLayer *l, const pbPass *pass, const pbFormula *f, const real *x, int first, int columns,
                        const Room *room) {
  memset(room->in, 0, (size_t)room->width * (size_t)columns * sizeof *room->in);

  for (int j = 0; j < f->used; j++) {
    int row = f->row[j];
    for (int b = 0; b < columns; b++) {
      double *to = &room->in[(size_t)b * (size_t)room->width + (size_t)j];
      *to = row < l->inputs ? (double)x[(size_t)row * (size_t)pass->batch + (size_t)(first + b)]
                            : pass->param[l->param + row - l->inputs];
    }
  }
}

// Values of columns first, first + 1, ... and, where asked for, their gradients.
static void evaluate(const pbLayer *l, const pbPass *pass, const pbFormula *f, const real *x, int first, int columns, bool slopes,
                     const Room *room) {
  fill_inputs(l, pass, f, x, first, columns, room);
  bool fine =
      pbExpression_EvaluateIn(f->expression, columns, room->in, room->value, slopes ? room->gradient : NULL, room->work, NULL);
  PB_ASSERT(columns <= PB_FORMULA_BLOCK && f->used <= room->width);
  if (fine) return;

  // An infinite value is a fault's mark.
  for (int b = 0; b < columns; b++) {
    if (isfinite(room->value[b])) continue;
    room->value[b] = NAN;
    for (int j = 0; j < room->width; j++) room->gradient[(size_t)b * (size_t)room->width + (size_t)j] = NAN;
  }
}

static int columns_from(const pbPass *pass, int first) {
  int left = pass->batch - first;
  return left < PB_FORMULA_BLOCK ? left : PB_FORMULA_BLOCK;
}

static void forward(const pbLayer *l, pbPass *pass, const real *x, real *y, real *tape) {
  (void)tape;
  for (int i = 0; i < l->outputs; i++) {
    size_t mark = pbArena_Mark(&pass->arena);
    Room room = take_room(&l->formula[i], &pass->arena);

    for (int first = 0; first < pass->batch; first += PB_FORMULA_BLOCK) {
      int columns = columns_from(pass, first);
      evaluate(l, pass, &l->formula[i], x, first, columns, false, &room);
      for (int b = 0; b < columns; b++) y[(size_t)i * (size_t)pass->batch + (size_t)(first + b)] = (real)room.value[b];
    }

    pbArena_Release(&pass->arena, mark);
  }
}

// Adds what one output's cotangents give its inputs and parameters.
static void pull_output(const pbLayer *l, pbPass *pass, int i, const real *x, const real *y_bar, real *x_bar, real *param_bar) {
  size_t n = (size_t)pass->batch, mark = pbArena_Mark(&pass->arena);
  const pbFormula *f = &l->formula[i];
  Room room = take_room(f, &pass->arena);

  for (int first = 0; first < pass->batch; first += PB_FORMULA_BLOCK) {
    int columns = columns_from(pass, first);
    evaluate(l, pass, f, x, first, columns, true, &room);

    for (int j = 0; j < f->used; j++) {
      int row = f->row[j];
      real *to = (row < l->inputs ? x_bar + (size_t)row * n : param_bar + (size_t)(row - l->inputs) * n) + first;
      const real *bar = y_bar + (size_t)i * n + (size_t)first;
      for (int b = 0; b < columns; b++) to[b] += (real)room.gradient[(size_t)b * (size_t)room.width + (size_t)j] * bar[b];
    }
  }

  pbArena_Release(&pass->arena, mark);
}

static void pull(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *y_bar, real *x_bar) {
  (void)y;
  (void)tape;
  size_t n = (size_t)pass->batch, mark = pbArena_Mark(&pass->arena);
  real *param_bar = pb_takeRows(&pass->arena, l->params, pass->batch);

  if (l->inputs) memset(x_bar, 0, (size_t)l->inputs * n * sizeof *x_bar);
  if (l->params) memset(param_bar, 0, (size_t)l->params * n * sizeof *x_bar);
  for (int i = 0; i < l->outputs; i++) pull_output(l, pass, i, x, y_bar, x_bar, param_bar);

  if (pass->kept) REAL(pbKept_Put)(l, pass, 0, l->params, param_bar);
  pbArena_Release(&pass->arena, mark);
}

static double tangent(const pbLayer *l, const pbPass *pass, int row, const real *x_dot, int column) {
  if (row < l->inputs) return (double)x_dot[(size_t)row * (size_t)pass->batch + (size_t)column];
  return pass->param_dot ? pass->param_dot[l->param + row - l->inputs] : 0;
}

static void push(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *x_dot, real *y_dot) {
  (void)y;
  (void)tape;
  for (int i = 0; i < l->outputs; i++) {
    size_t mark = pbArena_Mark(&pass->arena);
    const pbFormula *f = &l->formula[i];
    Room room = take_room(f, &pass->arena);

    for (int first = 0; first < pass->batch; first += PB_FORMULA_BLOCK) {
      int columns = columns_from(pass, first);
      evaluate(l, pass, f, x, first, columns, true, &room);

      for (int b = 0; b < columns; b++) {
        double sum = 0;
        for (int j = 0; j < f->used; j++)
          sum += room.gradient[(size_t)b * (size_t)room.width + (size_t)j] * tangent(l, pass, f->row[j], x_dot, first + b);
        y_dot[(size_t)i * (size_t)pass->batch + (size_t)(first + b)] = (real)sum;
      }
    }

    pbArena_Release(&pass->arena, mark);
  }
}

static void reserve(const pbLayer *l, int batch, pbArena *arena) {
  size_t mark = pbArena_Mark(arena);
  pb_takeRows(arena, l->params, batch);

  for (int i = 0; i < l->outputs; i++) {
    size_t inside = pbArena_Mark(arena);
    take_room(&l->formula[i], arena);
    pbArena_Release(arena, inside);
  }

  pbArena_Release(arena, mark);
}

const pbLayerOps REAL(pbLayer_Formula) = {
    .forward = forward, .pull = pull, .push = push, .gather = REAL(pbKept_Sum), .reserve = reserve};
