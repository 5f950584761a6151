// A network as a pbPolicyFunction: numbers of the caller into rows to compute with, and back.
// Tests: tests/unit/test_network.c.
#include <string.h>

#include "base/assert.h"
#include "policy/layer.h"

// Rows of doubles as rows of reals: as they stand where that is the same. NULL: zeros.
static const real *rows_in(pbArena *arena, const double *from, int rows, int batch) {
  size_t count = (size_t)rows * (size_t)batch;
  if (sizeof(real) == sizeof(double) && from) return (const real *)from;

  real *to = pb_takeRows(arena, rows, batch);
  for (size_t i = 0; i < count; i++) to[i] = from ? (real)from[i] : 0;
  return to;
}

// The last of what is observed: what a layer that explores reads. NULL: there are none.
static const real *draws_in(pbArena *arena, const pbNetwork *network, const double *o, int batch) {
  size_t first = (size_t)network->chain.inputs * (size_t)batch;
  if (!network->draws) return NULL;

  return rows_in(arena, o ? o + first : NULL, network->draws, batch);
}

static pbPass begin(const pbNetwork *network, int batch, const double *param, void *work) {
  size_t room = batch == 1 ? network->work_one : REAL(pbNetworkCalls).work_bytes(network, batch);
  PB_ASSERT(batch >= 0 && ((uintptr_t)work & 63) == 0);
  return (pbPass){.batch = batch, .exact = network->exact, .param = param, .arena = pbArena_Over(work, room)};
}

// As pull takes its memory; the other calls take less.
static size_t work_bytes(const void *self, int batch) {
  const pbNetwork *network = self;
  const pbChain *chain = &network->chain;
  pbArena arena = pbArena_Measure();

  pb_takeRows(&arena, chain->tape, batch);
  for (int i = 0; i < 3; i++) pb_takeRows(&arena, chain->inputs, batch);
  for (int i = 0; i < 2; i++) pb_takeRows(&arena, network->draws, batch);
  for (int i = 0; i < 2; i++) pb_takeRows(&arena, chain->outputs, batch);
  pbArena_Take(&arena, (size_t)network->memory * (size_t)batch, sizeof(double));
  pbArena_Take(&arena, (size_t)REAL(pbKept_Size)(network->keeps) * (size_t)batch, sizeof(double));

  REAL(pbChain_Reserve)(chain, batch, &arena);
  return pbArena_Needed(&arena);
}

static pbStatus forward(const void *self, int batch, const double *param, const double *o, const double *m, double *out,
                        double *m_next, void *work) {
  const pbNetwork *network = self;
  const pbChain *chain = &network->chain;
  pbPass pass = begin(network, batch, param, work);
  const real *x = rows_in(&pass.arena, o, chain->inputs, batch);
  real *tape = pb_takeRows(&pass.arena, chain->tape, batch);

  pass.draw = draws_in(&pass.arena, network, o, batch);
  pass.m = m;
  pass.m_next = m_next;
  REAL(pbChain_Forward)(chain, &pass, x, tape);

  const real *y = REAL(pbChain_Outputs)(chain, batch, x, tape);
  for (size_t i = 0; i < (size_t)chain->outputs * (size_t)batch; i++) out[i] = (double)y[i];
  PB_ASSERT(!pass.arena.failed);
  return pb_ok;
}

static pbStatus gather(const void *self, int columns, const double *param, const double *kept, int kept_stride, double *param_bar,
                       void *work) {
  const pbNetwork *network = self;
  pbPass pass = begin(network, columns, param, work);
  pass.kept = (double *)(uintptr_t)kept;  // gather reads alone
  pass.kept_stride = kept_stride;

  REAL(pbChain_Gather)(&network->chain, &pass, param_bar);
  PB_ASSERT(!pass.arena.failed);
  return pb_ok;
}

static pbStatus pull(const void *self, int batch, const double *param, const double *o, const double *m, const double *out_bar,
                     const double *m_next_bar, double *o_bar, double *m_bar, double *param_bar, double *kept, int kept_stride,
                     void *work) {
  const pbNetwork *network = self;
  const pbChain *chain = &network->chain;
  pbPass pass = begin(network, batch, param, work);
  size_t n = (size_t)batch;
  const real *x = rows_in(&pass.arena, o, chain->inputs, batch), *y_bar = rows_in(&pass.arena, out_bar, chain->outputs, batch);
  real *tape = pb_takeRows(&pass.arena, chain->tape, batch), *x_bar = pb_takeRows(&pass.arena, chain->inputs, batch);

  // What it keeps without being asked makes the gradient below.
  bool own = !kept && param_bar;
  if (own) {
    kept = pbArena_Take(&pass.arena, (size_t)REAL(pbKept_Size)(network->keeps) * n, sizeof *kept);
    kept_stride = batch;
  }

  // The half of a double that nothing is kept in.
  if (kept && network->keeps % (int)(sizeof(double) / sizeof(real)))
    memset(kept + (size_t)(REAL(pbKept_Size)(network->keeps) - 1) * (size_t)kept_stride, 0, n * sizeof *kept);

  // Once more forward, into memory of its own.
  pass.draw = draws_in(&pass.arena, network, o, batch);
  pass.draw_bar = o_bar + (size_t)chain->inputs * n;
  pass.m = m;
  pass.m_next = pbArena_Take(&pass.arena, (size_t)network->memory * n, sizeof(double));
  REAL(pbChain_Forward)(chain, &pass, x, tape);

  pass.m_bar = m_bar;
  pass.m_next_bar = m_next_bar;
  pass.kept = kept;
  pass.kept_stride = kept_stride;
  REAL(pbChain_Pull)(chain, &pass, x, tape, y_bar, x_bar);

  for (size_t i = 0; i < (size_t)chain->inputs * n; i++) o_bar[i] += (double)x_bar[i];
  if (own) REAL(pbChain_Gather)(chain, &pass, param_bar);
  PB_ASSERT(!pass.arena.failed);
  return pb_ok;
}

static pbStatus fit(const void *self, int batch, const double *param, const double *o, const pbFitOutputs *to, double *param_bar,
                    void *work) {
  const pbNetwork *network = self;
  const pbChain *chain = &network->chain;
  pbPass pass = begin(network, batch, param, work);
  size_t n = (size_t)batch, rows = (size_t)chain->outputs * n;
  const real *x = rows_in(&pass.arena, o, chain->inputs, batch);
  real *tape = pb_takeRows(&pass.arena, chain->tape, batch), *x_bar = pb_takeRows(&pass.arena, chain->inputs, batch);
  int kept = REAL(pbKept_Size)(network->keeps);
  PB_ASSERT(!network->memory && !network->draws);

  pass.kept = pbArena_Take(&pass.arena, (size_t)kept * n, sizeof *pass.kept);
  pass.kept_stride = batch;
  if (kept) memset(pass.kept + (size_t)(kept - 1) * n, 0, n * sizeof *pass.kept);  // where half a double is kept
  REAL(pbChain_Forward)(chain, &pass, x, tape);

  const real *y = REAL(pbChain_Outputs)(chain, batch, x, tape);
  for (size_t i = 0; i < rows; i++) to->out[i] = (double)y[i];
  to->bars(to->user, to->out, to->out_bar);

  const real *y_bar = rows_in(&pass.arena, to->out_bar, chain->outputs, batch);
  REAL(pbChain_Pull)(chain, &pass, x, tape, y_bar, x_bar);
  REAL(pbChain_Gather)(chain, &pass, param_bar);
  PB_ASSERT(!pass.arena.failed);
  return pb_ok;
}

static pbStatus push(const void *self, int batch, const double *param, const double *param_dot, const double *o,
                     const double *o_dot, const double *m, const double *m_dot, double *out_dot, double *m_next_dot, void *work) {
  const pbNetwork *network = self;
  const pbChain *chain = &network->chain;
  pbPass pass = begin(network, batch, param, work);
  const real *x = rows_in(&pass.arena, o, chain->inputs, batch), *x_dot = rows_in(&pass.arena, o_dot, chain->inputs, batch);
  real *tape = pb_takeRows(&pass.arena, chain->tape, batch), *y_dot = pb_takeRows(&pass.arena, chain->outputs, batch);

  pass.m = m;
  pass.m_next = pbArena_Take(&pass.arena, (size_t)network->memory * (size_t)batch, sizeof(double));
  pass.draw = draws_in(&pass.arena, network, o, batch);
  pass.draw_dot = draws_in(&pass.arena, network, o_dot, batch);
  REAL(pbChain_Forward)(chain, &pass, x, tape);

  pass.param_dot = param_dot;
  pass.m_dot = m_dot;
  pass.m_next_dot = m_next_dot;
  REAL(pbChain_Push)(chain, &pass, x, tape, x_dot, y_dot);

  for (size_t i = 0; i < (size_t)chain->outputs * (size_t)batch; i++) out_dot[i] = (double)y_dot[i];
  PB_ASSERT(!pass.arena.failed);
  return pb_ok;
}

const pbNetworkCalls REAL(pbNetworkCalls) = {.work_bytes = work_bytes,
                                             .forward = forward,
                                             .pull = pull,
                                             .push = push,
                                             .kept_size = REAL(pbKept_Size),
                                             .gather = gather,
                                             .fit = fit};
