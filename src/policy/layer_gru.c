// A gated recurrent unit (Cho et al. 2014): its states h are the memory and the outputs.
//
//   r = sigmoid(W_r x + U_r h + b_r)    z = sigmoid(W_z x + U_z h + b_z)    c = tanh(W_c x + U_c (r h) + b_c)
//   h' = z h + (1 - z) c
//
// Slices, gates r, z, c one below the other: "weight" (3 n x inputs), "recurrent" (3 n x n), "bias" (3 n).
// Tests: tests/unit/test_network.c.
#include <string.h>

#include "policy/exponential.h"
#include "policy/layer.h"

// Where the slices are, of parameters or of what goes with them.
typedef struct Slices {
  const double *weight, *recurrent, *candidate, *bias;  // candidate: the rows of recurrent that belong to c
} Slices;

static Slices slices_of(const pbLayer *l, const double *param) {
  size_t n = (size_t)l->outputs, inputs = (size_t)l->inputs;
  Slices s = {.weight = param + l->param};
  s.recurrent = s.weight + 3 * n * inputs;
  s.candidate = s.recurrent + 2 * n * n;
  s.bias = s.recurrent + 3 * n * n;
  return s;
}

// The tape: gates r, z, c, then r h.
typedef struct Tape {
  const real *r, *z, *c, *rh;
} Tape;

static Tape tape_of(const pbLayer *l, const pbPass *pass, const real *tape) {
  size_t size = (size_t)l->outputs * (size_t)pass->batch;
  return (Tape){tape, tape + size, tape + 2 * size, tape + 3 * size};
}

// Rows of memory as numbers to compute with; zeros where there are none.
static real *memory_rows(const pbLayer *l, pbPass *pass, const double *memory) {
  size_t size = (size_t)l->outputs * (size_t)pass->batch;
  const double *from = memory ? memory + (size_t)l->state * (size_t)pass->batch : NULL;
  real *to = pb_takeRows(&pass->arena, l->outputs, pass->batch);
  for (size_t i = 0; i < size; i++) to[i] = from ? (real)from[i] : 0;
  return to;
}

static void forward(const pbLayer *l, pbPass *pass, const real *x, real *y, real *tape) {
  size_t size = (size_t)l->outputs * (size_t)pass->batch, mark = pbArena_Mark(&pass->arena);
  Slices s = slices_of(l, pass->param);
  real *h = memory_rows(l, pass, pass->m), *z = tape + size, *c = tape + 2 * size, *rh = tape + 3 * size;

  REAL(pbBias_Fill)(s.bias, 3 * l->outputs, pass->batch, tape);
  REAL(pbMatrix_Apply)(pass, s.weight, 3 * l->outputs, l->inputs, x, tape);
  REAL(pbMatrix_Apply)(pass, s.recurrent, 2 * l->outputs, l->outputs, h, tape);

  for (size_t i = 0; i < 2 * size; i++) tape[i] = pb_sigmoid(tape[i]);
  for (size_t i = 0; i < size; i++) rh[i] = tape[i] * h[i];
  REAL(pbMatrix_Apply)(pass, s.candidate, l->outputs, l->outputs, rh, c);

  double *next = pass->m_next + (size_t)l->state * (size_t)pass->batch;
  for (size_t i = 0; i < size; i++) {
    c[i] = pb_tanh(c[i]);
    y[i] = z[i] * h[i] + (1 - z[i]) * c[i];
    next[i] = (double)y[i];
  }

  pbArena_Release(&pass->arena, mark);
}

static void pull(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *y_bar, real *x_bar) {
  (void)y;
  size_t size = (size_t)l->outputs * (size_t)pass->batch, mark = pbArena_Mark(&pass->arena);
  Slices s = slices_of(l, pass->param);
  Tape t = tape_of(l, pass, tape);
  real *h = memory_rows(l, pass, pass->m), *next_bar = memory_rows(l, pass, pass->m_next_bar);
  real *h_bar = pb_takeRows(&pass->arena, l->outputs, pass->batch), *rh_bar = pb_takeRows(&pass->arena, l->outputs, pass->batch);
  real *gate = pb_takeRows(&pass->arena, 3 * l->outputs, pass->batch), *z_bar = gate + size, *c_bar = gate + 2 * size;

  // Into the gates' arguments, c first.
  for (size_t i = 0; i < size; i++) {
    real bar = y_bar[i] + next_bar[i];
    h_bar[i] = t.z[i] * bar;
    z_bar[i] = (h[i] - t.c[i]) * bar * t.z[i] * (1 - t.z[i]);
    c_bar[i] = (1 - t.z[i]) * bar * (1 - t.c[i] * t.c[i]);
    rh_bar[i] = 0;
  }

  REAL(pbMatrix_Pull)(pass, s.candidate, l->outputs, l->outputs, c_bar, rh_bar);
  for (size_t i = 0; i < size; i++) {
    h_bar[i] += rh_bar[i] * t.r[i];
    gate[i] = rh_bar[i] * h[i] * t.r[i] * (1 - t.r[i]);
  }

  // Through the matrices, into the inputs and the states before.
  REAL(pbMatrix_Pull)(pass, s.recurrent, 2 * l->outputs, l->outputs, gate, h_bar);
  memset(x_bar, 0, (size_t)l->inputs * (size_t)pass->batch * sizeof *x_bar);
  REAL(pbMatrix_Pull)(pass, s.weight, 3 * l->outputs, l->inputs, gate, x_bar);
  for (size_t i = 0; i < size; i++) pass->m_bar[(size_t)l->state * (size_t)pass->batch + i] += (double)h_bar[i];

  if (pass->kept) {
    REAL(pbKept_Put)(l, pass, 0, l->inputs, x);
    REAL(pbKept_Put)(l, pass, l->inputs, l->outputs, h);
    REAL(pbKept_Put)(l, pass, l->inputs + l->outputs, l->outputs, t.rh);
    REAL(pbKept_Put)(l, pass, l->inputs + 2 * l->outputs, 3 * l->outputs, gate);
  }

  pbArena_Release(&pass->arena, mark);
}

// Tangents of the gates' arguments; those of c without what comes through r h.
static void push_gates(const pbLayer *l, pbPass *pass, const real *x, const real *x_dot, const real *h, const real *h_dot,
                       real *gate) {
  Slices s = slices_of(l, pass->param), dot = {0};
  if (pass->param_dot) dot = slices_of(l, pass->param_dot);

  REAL(pbBias_Fill)(dot.bias, 3 * l->outputs, pass->batch, gate);
  REAL(pbMatrix_Apply)(pass, s.weight, 3 * l->outputs, l->inputs, x_dot, gate);
  REAL(pbMatrix_Apply)(pass, s.recurrent, 2 * l->outputs, l->outputs, h_dot, gate);
  if (!pass->param_dot) return;

  REAL(pbMatrix_Apply)(pass, dot.weight, 3 * l->outputs, l->inputs, x, gate);
  REAL(pbMatrix_Apply)(pass, dot.recurrent, 2 * l->outputs, l->outputs, h, gate);
}

static void push(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *x_dot, real *y_dot) {
  (void)y;
  size_t size = (size_t)l->outputs * (size_t)pass->batch, mark = pbArena_Mark(&pass->arena);
  Tape t = tape_of(l, pass, tape);
  real *h = memory_rows(l, pass, pass->m), *h_dot = memory_rows(l, pass, pass->m_dot);
  real *rh_dot = pb_takeRows(&pass->arena, l->outputs, pass->batch);
  real *gate = pb_takeRows(&pass->arena, 3 * l->outputs, pass->batch), *z_dot = gate + size, *c_dot = gate + 2 * size;

  push_gates(l, pass, x, x_dot, h, h_dot, gate);
  for (size_t i = 0; i < size; i++) {
    rh_dot[i] = gate[i] * t.r[i] * (1 - t.r[i]) * h[i] + t.r[i] * h_dot[i];
    z_dot[i] *= t.z[i] * (1 - t.z[i]);
  }

  REAL(pbMatrix_Apply)(pass, slices_of(l, pass->param).candidate, l->outputs, l->outputs, rh_dot, c_dot);
  if (pass->param_dot) REAL(pbMatrix_Apply)(pass, slices_of(l, pass->param_dot).candidate, l->outputs, l->outputs, t.rh, c_dot);

  for (size_t i = 0; i < size; i++) {
    y_dot[i] = z_dot[i] * (h[i] - t.c[i]) + t.z[i] * h_dot[i] + (1 - t.z[i]) * (1 - t.c[i] * t.c[i]) * c_dot[i];
    pass->m_next_dot[(size_t)l->state * (size_t)pass->batch + i] = (double)y_dot[i];
  }

  pbArena_Release(&pass->arena, mark);
}

static void gather(const pbLayer *l, pbPass *pass, double *bar) {
  int n = l->outputs, gates = l->inputs + 2 * n;
  size_t square = (size_t)n * (size_t)n;
  double *recurrent = bar + 3 * (size_t)n * (size_t)l->inputs;

  REAL(pbMatrix_Gather)(l, pass, (pbKeptMatrix){3 * n, l->inputs, 0, gates}, bar);
  REAL(pbMatrix_Gather)(l, pass, (pbKeptMatrix){2 * n, n, l->inputs, gates}, recurrent);
  REAL(pbMatrix_Gather)(l, pass, (pbKeptMatrix){n, n, l->inputs + n, gates + 2 * n}, recurrent + 2 * square);
  REAL(pbBias_Gather)(l, pass, gates, 3 * n, recurrent + 3 * square);
}

static void reserve(const pbLayer *l, int batch, pbArena *arena) {
  size_t mark = pbArena_Mark(arena);
  for (int i = 0; i < 4; i++) pb_takeRows(arena, l->outputs, batch);
  pb_takeRows(arena, 3 * l->outputs, batch);

  int widest = l->inputs > l->outputs ? l->inputs : l->outputs;
  REAL(pbMatrix_Reserve)(3 * l->outputs, widest, batch, arena);
  pbArena_Release(arena, mark);
}

const pbLayerOps REAL(pbLayer_Gru) = {.forward = forward, .pull = pull, .push = push, .gather = gather, .reserve = reserve};
