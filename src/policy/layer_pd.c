// Controllers of n joints side by side: PD, PID and servo, with limits. Rows of inputs: set-points, positions, velocities (the
// servo has none). What is clipped has no derivative.
//
//   pd      tau = kp e - kd v                e = set-point - position
//   pid     tau = kp e - kd v + ki I         I = clip(I before + interval e, +-windup), the memory
//   servo   v* = gain e
// Tests: tests/unit/test_network.c.
#include "base/assert.h"
#include "policy/layer.h"

// Whether a number is within +-limit; 0: there is none.
static bool within(double x, double limit) { return limit == 0 || (x >= -limit && x <= limit); }

static double clipped(double x, double limit) {
  if (limit == 0) return x;
  if (x > limit) return limit;
  return x < -limit ? -limit : x;
}

// One joint of one world: what a law reads, what its derivatives are.
typedef struct Joint {
  double e, v, before, integral, raw;  // error, velocity, integral before and after, output before its limit
} Joint;

static int slices(const pbLayer *l) { return l->params / l->outputs; }  // kp, kd, ki
static double gain(const pbLayer *l, const double *param, int slice, int i) {
  return slice < slices(l) ? param[l->param + slice * l->outputs + i] : 0;
}

static double entry(const double *rows, const pbLayer *l, size_t at, size_t n) {
  return rows && l->memory ? rows[(size_t)l->state * n + at] : 0;
}

static Joint evaluate(const pbLayer *l, const pbPass *pass, const real *x, int i, size_t b) {
  PB_ASSERT(i < l->outputs && (!l->memory || pass->m));
  size_t n = (size_t)pass->batch, at = (size_t)i * n + b, rows = (size_t)l->outputs * n;
  Joint j = {.e = (double)x[at] - (double)x[rows + at], .before = entry(pass->m, l, at, n)};

  if (slices(l) > 1) j.v = (double)x[2 * rows + at];
  if (l->memory) j.integral = clipped(j.before + l->interval * j.e, l->windup);
  j.raw = gain(l, pass->param, 0, i) * j.e - gain(l, pass->param, 1, i) * j.v + gain(l, pass->param, 2, i) * j.integral;
  return j;
}

static void forward(const pbLayer *l, pbPass *pass, const real *x, real *y, real *tape) {
  (void)tape;
  size_t n = (size_t)pass->batch;

  for (int i = 0; i < l->outputs; i++) {
    for (size_t b = 0; b < n; b++) {
      Joint j = evaluate(l, pass, x, i, b);
      y[(size_t)i * n + b] = (real)clipped(j.raw, l->limit);
      if (l->memory) pass->m_next[((size_t)l->state + (size_t)i) * n + b] = j.integral;
    }
  }
}

// Cotangents of a joint's gains, row by row: those of the columns are summed by gather.
static void keep(const pbLayer *l, pbPass *pass, int i, size_t b, const double *bar) {
  for (int s = 0; s < slices(l); s++) {
    pbPass column = *pass;
    real value = (real)bar[s];
    column.batch = 1;
    column.kept += b;
    REAL(pbKept_Put)(l, &column, s * l->outputs + i, 1, &value);
  }
}

static void pull_joint(const pbLayer *l, pbPass *pass, const real *x, double y_bar, int i, size_t b, real *x_bar) {
  size_t n = (size_t)pass->batch, at = (size_t)i * n + b, rows = (size_t)l->outputs * n;
  Joint j = evaluate(l, pass, x, i, b);
  double raw_bar = within(j.raw, l->limit) ? y_bar : 0, e_bar = gain(l, pass->param, 0, i) * raw_bar;

  // Through the integral, into the error and the memory before.
  double integral_bar = gain(l, pass->param, 2, i) * raw_bar + entry(pass->m_next_bar, l, at, n);
  bool free = within(j.before + l->interval * j.e, l->windup);
  if (l->memory && free) {
    e_bar += l->interval * integral_bar;
    pass->m_bar[(size_t)l->state * n + at] += integral_bar;
  }

  x_bar[at] = (real)e_bar;
  x_bar[rows + at] = (real)-e_bar;
  if (slices(l) > 1) x_bar[2 * rows + at] = (real)(-gain(l, pass->param, 1, i) * raw_bar);
  if (pass->kept) keep(l, pass, i, b, (double[]){j.e * raw_bar, -j.v * raw_bar, j.integral * raw_bar});
}

static void pull(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *y_bar, real *x_bar) {
  (void)y;
  (void)tape;
  for (int i = 0; i < l->outputs; i++) {
    for (size_t b = 0; b < (size_t)pass->batch; b++)
      pull_joint(l, pass, x, (double)y_bar[(size_t)i * (size_t)pass->batch + b], i, b, x_bar);
  }
}

static double push_joint(const pbLayer *l, pbPass *pass, const real *x, const real *x_dot, int i, size_t b) {
  size_t n = (size_t)pass->batch, at = (size_t)i * n + b, rows = (size_t)l->outputs * n;
  Joint j = evaluate(l, pass, x, i, b);
  const double *dot = pass->param_dot;
  double e_dot = (double)x_dot[at] - (double)x_dot[rows + at], v_dot = slices(l) > 1 ? (double)x_dot[2 * rows + at] : 0;
  double integral_dot = entry(pass->m_dot, l, at, n) + l->interval * e_dot;

  if (!within(j.before + l->interval * j.e, l->windup)) integral_dot = 0;
  if (l->memory) pass->m_next_dot[(size_t)l->state * n + at] = integral_dot;

  double raw_dot = gain(l, pass->param, 0, i) * e_dot - gain(l, pass->param, 1, i) * v_dot;
  raw_dot += gain(l, pass->param, 2, i) * integral_dot;
  if (dot) raw_dot += gain(l, dot, 0, i) * j.e - gain(l, dot, 1, i) * j.v + gain(l, dot, 2, i) * j.integral;
  return within(j.raw, l->limit) ? raw_dot : 0;
}

static void push(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *x_dot, real *y_dot) {
  (void)y;
  (void)tape;
  for (int i = 0; i < l->outputs; i++) {
    for (size_t b = 0; b < (size_t)pass->batch; b++)
      y_dot[(size_t)i * (size_t)pass->batch + b] = (real)push_joint(l, pass, x, x_dot, i, b);
  }
}

const pbLayerOps REAL(pbLayer_Pd) = {.forward = forward, .pull = pull, .push = push, .gather = REAL(pbKept_Sum)};
