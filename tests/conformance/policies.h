// Policies of the tests, in plain C as a user would write them: `network`, out = tanh(W (o, m, 1)), whose last rows are the memory
// after; `blend`, out = gain held + mix sin(o), a linear part of what it is given and a nonlinear one of what it sees.
#ifndef PB_TEST_POLICIES_H
#define PB_TEST_POLICIES_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/pullback.h>

#include "support/support.h"

typedef struct TestNetwork {
  int o, out, m;
  double *start;
  pbPolicySlice slice;
  pbPolicyFunction function;
} TestNetwork;

static size_t network_bytes(const void *self, int batch) {
  const TestNetwork *n = self;
  return 2 * (size_t)(n->out + n->m) * (size_t)batch * sizeof(double);
}

static double network_entry(const TestNetwork *n, const double *o, const double *m, int i, int batch, int b) {
  if (i < n->o) return o[i * batch + b];
  return i < n->o + n->m ? m[(i - n->o) * batch + b] : 1;
}

static double network_tangent(const TestNetwork *n, const double *o, const double *m, int i, int batch, int b) {
  const double *from = i < n->o ? o : m;
  if (!from || i >= n->o + n->m) return 0;
  return from[(i < n->o ? i : i - n->o) * batch + b];
}

static pbStatus network_forward(const void *self, int batch, const double *param, const double *o, const double *m, double *out,
                                double *m_next, void *work) {
  const TestNetwork *n = self;
  int cols = n->o + n->m + 1;
  (void)work;
  for (int b = 0; b < batch; b++) {
    for (int r = 0; r < n->out + n->m; r++) {
      double z = 0;
      for (int i = 0; i < cols; i++) z += param[r * cols + i] * network_entry(n, o, m, i, batch, b);
      if (r < n->out) out[r * batch + b] = tanh(z);
      else m_next[(r - n->out) * batch + b] = tanh(z);
    }
  }
  return pb_ok;
}

static pbStatus network_pull(const void *self, int batch, const double *param, const double *o, const double *m,
                             const double *out_bar, const double *m_next_bar, double *o_bar, double *m_bar, double *param_bar,
                             double *kept, int kept_stride, void *work) {
  const TestNetwork *n = self;
  int cols = n->o + n->m + 1;
  (void)work;
  for (int b = 0; b < batch; b++) {
    for (int i = 0; kept && i < cols; i++) kept[i * kept_stride + b] = network_entry(n, o, m, i, batch, b);
    for (int r = 0; r < n->out + n->m; r++) {
      double z = 0;
      for (int i = 0; i < cols; i++) z += param[r * cols + i] * network_entry(n, o, m, i, batch, b);
      double bar = r < n->out ? out_bar[r * batch + b] : m_next_bar[(r - n->out) * batch + b];
      double delta = bar * (1 - tanh(z) * tanh(z));
      for (int i = 0; i < n->o; i++) o_bar[i * batch + b] += delta * param[r * cols + i];
      for (int i = 0; i < n->m; i++) m_bar[i * batch + b] += delta * param[r * cols + n->o + i];
      if (kept) {
        kept[(cols + r) * kept_stride + b] = delta;
      } else if (param_bar) {
        for (int i = 0; i < cols; i++) param_bar[r * cols + i] += delta * network_entry(n, o, m, i, batch, b);
      }
    }
  }
  return pb_ok;
}

static pbStatus network_push(const void *self, int batch, const double *param, const double *param_dot, const double *o,
                             const double *o_dot, const double *m, const double *m_dot, double *out_dot, double *m_next_dot,
                             void *work) {
  const TestNetwork *n = self;
  int cols = n->o + n->m + 1;
  (void)work;
  for (int b = 0; b < batch; b++) {
    for (int r = 0; r < n->out + n->m; r++) {
      double z = 0, d = 0;
      for (int i = 0; i < cols; i++) {
        double x = network_entry(n, o, m, i, batch, b);
        double t = network_tangent(n, o_dot, m_dot, i, batch, b);
        z += param[r * cols + i] * x;
        d += param[r * cols + i] * t + (param_dot ? param_dot[r * cols + i] * x : 0);
      }
      d *= 1 - tanh(z) * tanh(z);
      if (r < n->out) out_dot[r * batch + b] = d;
      else m_next_dot[(r - n->out) * batch + b] = d;
    }
  }
  return pb_ok;
}

static pbStatus network_gather(const void *self, int columns, const double *param, const double *kept, int kept_stride,
                               double *param_bar, void *work) {
  const TestNetwork *n = self;
  int cols = n->o + n->m + 1;
  (void)param;
  (void)work;
  for (int r = 0; r < n->out + n->m; r++) {
    for (int i = 0; i < cols; i++) {
      double sum = 0;
      for (int b = 0; b < columns; b++) sum += kept[(cols + r) * kept_stride + b] * kept[i * kept_stride + b];
      param_bar[r * cols + i] += sum;
    }
  }
  return pb_ok;
}

static inline void TestNetwork_Begin(TestNetwork *n, int o, int out, int m, double size, uint64_t seed) {
  int rows = out + m, cols = o + m + 1;
  *n = (TestNetwork){.o = o, .out = out, .m = m, .start = malloc((size_t)(rows * cols) * sizeof(double) + 8)};
  for (int i = 0; i < rows * cols; i++) n->start[i] = size / sqrt(cols) * noise64(&seed);
  n->slice = (pbPolicySlice){
      .name = "weight", .unit = "1", .rows = rows, .cols = cols, .start = n->start, .lower = -INFINITY, .upper = INFINITY};
  n->function = (pbPolicyFunction){.name = "network",
                                   .self = n,
                                   .observations = o,
                                   .outputs = out,
                                   .memory = m,
                                   .slice = &n->slice,
                                   .slices = 1,
                                   .work_bytes = network_bytes,
                                   .forward = network_forward,
                                   .pull = network_pull,
                                   .push = network_push,
                                   .kept_size = (size_t)(rows + cols),
                                   .gather = network_gather};
}
// self points into it, so it stays where it is.
static inline void TestNetwork_End(TestNetwork *n) { free(n->start); }

// ---- blend: no memory; as many outputs as set-points ---------------------------------------------------------------------------
typedef struct TestBlend {
  int held, seen;
  double start[2];
  pbPolicySlice slice[2];
  pbPolicyFunction function;
} TestBlend;

static size_t blend_bytes(const void *self, int batch) {
  (void)self;
  (void)batch;
  return 0;
}

static pbStatus blend_forward(const void *self, int batch, const double *param, const double *o, const double *m, double *out,
                              double *m_next, void *work) {
  const TestBlend *f = self;
  (void)m;
  (void)m_next;
  (void)work;
  for (int b = 0; b < batch; b++) {
    for (int i = 0; i < f->held; i++) {
      double s = f->seen ? sin(o[(f->held + i % f->seen) * batch + b]) : 0;
      out[i * batch + b] = param[0] * o[i * batch + b] + param[1] * s;
    }
  }
  return pb_ok;
}

static pbStatus blend_pull(const void *self, int batch, const double *param, const double *o, const double *m,
                           const double *out_bar, const double *m_next_bar, double *o_bar, double *m_bar, double *param_bar,
                           double *kept, int kept_stride, void *work) {
  const TestBlend *f = self;
  (void)m;
  (void)m_next_bar;
  (void)m_bar;
  (void)kept;
  (void)kept_stride;
  (void)work;
  for (int b = 0; b < batch; b++) {
    for (int i = 0; i < f->held; i++) {
      int k = f->seen ? (f->held + i % f->seen) * batch + b : 0;
      double bar = out_bar[i * batch + b];
      o_bar[i * batch + b] += bar * param[0];
      if (f->seen) o_bar[k] += bar * param[1] * cos(o[k]);
      if (param_bar) param_bar[0] += bar * o[i * batch + b];
      if (param_bar && f->seen) param_bar[1] += bar * sin(o[k]);
    }
  }
  return pb_ok;
}

static pbStatus blend_push(const void *self, int batch, const double *param, const double *param_dot, const double *o,
                           const double *o_dot, const double *m, const double *m_dot, double *out_dot, double *m_next_dot,
                           void *work) {
  const TestBlend *f = self;
  (void)m;
  (void)m_dot;
  (void)m_next_dot;
  (void)work;
  for (int b = 0; b < batch; b++) {
    for (int i = 0; i < f->held; i++) {
      int k = f->seen ? (f->held + i % f->seen) * batch + b : 0;
      double d = o_dot ? param[0] * o_dot[i * batch + b] : 0;
      if (f->seen && o_dot) d += param[1] * cos(o[k]) * o_dot[k];
      if (param_dot) d += param_dot[0] * o[i * batch + b];
      if (param_dot && f->seen) d += param_dot[1] * sin(o[k]);
      out_dot[i * batch + b] = d;
    }
  }
  return pb_ok;
}

static inline void TestBlend_Begin(TestBlend *f, int held, int seen, double gain, double mix) {
  *f = (TestBlend){.held = held, .seen = seen, .start = {gain, mix}};
  f->slice[0] = (pbPolicySlice){
      .name = "gain", .unit = "1", .rows = 1, .cols = 1, .start = &f->start[0], .lower = -INFINITY, .upper = INFINITY};
  f->slice[1] = f->slice[0];
  f->slice[1].name = "mix";
  f->slice[1].start = &f->start[1];
  f->function = (pbPolicyFunction){.name = "blend",
                                   .self = f,
                                   .observations = held + seen,
                                   .outputs = held,
                                   .slice = f->slice,
                                   .slices = 2,
                                   .work_bytes = blend_bytes,
                                   .forward = blend_forward,
                                   .pull = blend_pull,
                                   .push = blend_push};
}

#endif
