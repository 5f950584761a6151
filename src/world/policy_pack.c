// One call of a policy's functions for several worlds (policy_pack.h): columns are put together, and what comes out goes to the
// worlds' own work. Tests: tests/unit/test_batch_pack.c.
#include "world/policy_pack.h"

#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"
#include "step/scratch.h"

struct pbPolicyPack {
  pbContext *ctx;
  const pbPolicyModel *model;
  int worlds;
  double *o, *m, *out, *m_next;                  // columns side by side
  double *o_bar, *m_bar, *out_bar, *m_next_bar;  // their cotangents
  double *kept;
  void *function_work;
  int *column;  // worlds that take part in a call
  void *memory;
};

// ---- memory -----------------------------------------------------------------------------------------------------------------
static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static void lay_out(pbArena *a, pbPolicyPack *k) {
  const pbPolicyFunction *all[] = {k->model->decide, k->model->act};
  size_t n = (size_t)k->worlds, sizes[4] = {0}, kept = 0, work = 0;
  for (int i = 0; i < 2; i++) {
    const pbPolicyFunction *f = all[i];
    if (!f) continue;

    // Room for either of both
    sizes[0] = larger(sizes[0], (size_t)f->observations);
    sizes[1] = larger(sizes[1], (size_t)f->memory);
    sizes[2] = larger(sizes[2], (size_t)f->outputs);
    kept = larger(kept, f->kept_size);
    if (f->work_bytes) work = larger(work, f->work_bytes(f->self, k->worlds));
  }
  sizes[3] = sizes[1];

  // Values, and beside each its cotangents
  double **values[] = {&k->o, &k->m, &k->out, &k->m_next}, **bars[] = {&k->o_bar, &k->m_bar, &k->out_bar, &k->m_next_bar};
  for (int i = 0; i < 4; i++) {
    *values[i] = pbArena_Take(a, sizes[i] * n, sizeof(double));
    *bars[i] = pbArena_Take(a, sizes[i] * n, sizeof(double));
  }
  // What products are made of, who takes part, the functions' own
  k->kept = pbArena_Take(a, kept * n, sizeof(double));
  k->column = pbArena_Take(a, n, sizeof(int));
  k->function_work = pbArena_Take(a, work, 1);
}

pbStatus pbPolicyPack_Create(pbContext *ctx, const pbModel *model, int worlds, pbPolicyPack **pack) {
  PB_ASSERT(model->policy && worlds > 0);
  *pack = NULL;
  pbPolicyPack *k = pbContext_Alloc(ctx, sizeof *k);
  if (!k) return pb_no_memory;
  *k = (pbPolicyPack){.ctx = ctx, .model = model->policy, .worlds = worlds};

  // Sized by the code that divides it.
  pbArena arena = pbArena_Measure();
  lay_out(&arena, k);
  size_t needed = pbArena_Needed(&arena);
  k->memory = pbContext_Alloc(ctx, needed);
  if (!k->memory) {
    pbPolicyPack_Destroy(k);
    return pb_no_memory;
  }

  arena = pbArena_Over(k->memory, needed);
  lay_out(&arena, k);
  PB_ASSERT(!arena.failed);
  *pack = k;
  return pb_ok;
}

void pbPolicyPack_Destroy(pbPolicyPack *k) {
  if (!k) return;
  pbContext_Free(k->ctx, k->memory);
  pbContext_Free(k->ctx, k);
}

// ---- columns ----------------------------------------------------------------------------------------------------------------
// Entry i of column b stands at [i * batch + b].
static void put_column(double *columns, int batch, int b, const double *from, int size) {
  for (int i = 0; i < size; i++) columns[(size_t)i * (size_t)batch + (size_t)b] = from[i];
}
static void get_column(const double *columns, int batch, int b, double *to, int size) {
  for (int i = 0; i < size; i++) to[i] = columns[(size_t)i * (size_t)batch + (size_t)b];
}
static void add_column(const double *columns, int batch, int b, double *to, int size) {
  for (int i = 0; i < size; i++) to[i] += columns[(size_t)i * (size_t)batch + (size_t)b];
}

static void fail_columns(pbPolicyPack *k, pbPackWorld *world, int batch, const pbPolicyFunction *f, pbStatus status) {
  for (int b = 0; b < batch; b++) {
    pbPackWorld *w = &world[k->column[b]];
    w->status = pbPolicy_Failed(w->scratch, f, status);
  }
}

// ---- forward ----------------------------------------------------------------------------------------------------------------
typedef bool (*BeginCall)(pbScratch *s, const double *x, pbPolicyCall *call);

// decide or act of the worlds in which it is called.
static void call_together(pbPolicyPack *k, const double *theta, pbPackWorld *world, int count, BeginCall begin) {
  pbPolicyCall call[PB_PACK];
  int batch = 0;

  // Worlds decide at their own times.
  for (int w = 0; w < count; w++) {
    if (world[w].status == pb_ok && begin(world[w].scratch, world[w].x, &call[batch])) k->column[batch++] = w;
  }
  if (batch == 0) return;

  // The same function at the same parameters, a column for each
  const pbPolicyFunction *f = call[0].kept->function;
  for (int b = 0; b < batch; b++) {
    put_column(k->o, batch, b, call[b].o, f->observations);
    put_column(k->m, batch, b, call[b].m, f->memory);
  }

  pbStatus status = f->forward(f->self, batch, theta + call[0].kept->at, k->o, k->m, k->out, k->m_next, k->function_work);
  if (status != pb_ok) {
    fail_columns(k, world, batch, f, status);
    return;
  }

  // To where each world's own call would have written
  for (int b = 0; b < batch; b++) {
    get_column(k->out, batch, b, call[b].out, f->outputs);
    get_column(k->m_next, batch, b, call[b].m_next, f->memory);
  }
}

static void finish(pbPackWorld *world, int count) {
  for (int w = 0; w < count; w++) {
    if (world[w].status == pb_ok) world[w].scratch->policy->called = true;
  }
}

void pbPolicyPack_Forward(pbPolicyPack *k, const double *theta, pbPackWorld *world, int count) {
  PB_ASSERT(count <= k->worlds);

  // Act sees what decide has put out.
  call_together(k, theta, world, count, pbPolicy_BeginDecide);
  call_together(k, theta, world, count, pbPolicy_BeginAct);
  finish(world, count);
}

// ---- pullback ---------------------------------------------------------------------------------------------------------------
typedef bool (*BeginPull)(pbScratch *s, const pbStepRecord *step, const double *next_bar, double *x_bar, pbPolicyPull *call);

// A world's kept column, from those of all to its own.
static void keep(pbPolicyPack *k, const double *theta, pbPackWorld *w, const pbPolicyPull *call, int batch, int b) {
  const pbPolicyFunction *f = call->kept->function;
  pbPolicyWork *work = w->scratch->policy;
  double *to = pbPolicy_KeptColumn(work, call->kept, w->theta_bar);
  if (!to) return;

  // Its own columns are pb_keptColumns wide, and wait there until there are so many.
  for (size_t i = 0; i < f->kept_size; i++) to[i * pb_keptColumns] = k->kept[i * (size_t)batch + (size_t)b];
  pbStatus status = pbPolicy_KeepColumn(work, call->kept, theta, w->theta_bar);
  if (status != pb_ok) w->status = pbPolicy_Failed(w->scratch, f, status);
}

static pbStatus pull_columns(pbPolicyPack *k, const double *theta, const pbPolicyPull *call, int batch, bool kept) {
  const pbPolicyFunction *f = call[0].kept->function;
  // What each saw, and the cotangents of what it put out
  for (int b = 0; b < batch; b++) {
    put_column(k->o, batch, b, call[b].o, f->observations);
    put_column(k->m, batch, b, call[b].m, f->memory);
    put_column(k->out_bar, batch, b, call[b].out_bar, f->outputs);
    put_column(k->m_next_bar, batch, b, call[b].m_next_bar, f->memory);
  }

  // Functions add.
  memset(k->o_bar, 0, (size_t)f->observations * (size_t)batch * sizeof(double));
  memset(k->m_bar, 0, (size_t)f->memory * (size_t)batch * sizeof(double));
  return f->pull(f->self, batch, theta + call[0].kept->at, k->o, k->m, k->out_bar, k->m_next_bar, k->o_bar, k->m_bar, NULL,
                 kept ? k->kept : NULL, batch, k->function_work);
}

static void pull_together(pbPolicyPack *k, const double *theta, pbPackWorld *world, int count, BeginPull begin) {
  pbPolicyPull call[PB_PACK];
  int batch = 0;

  // Those that decided, or act
  for (int i = 0; i < count; i++) {
    pbPackWorld *w = &world[i];
    if (w->status == pb_ok && begin(w->scratch, &w->step, w->next, w->x_bar, &call[batch])) k->column[batch++] = i;
  }
  if (batch == 0) return;

  // All want a gradient by parameters, or none.
  const pbPolicyFunction *f = call[0].kept->function;
  pbPackWorld *first = &world[k->column[0]];
  bool kept = pbPolicy_KeptColumn(first->scratch->policy, call[0].kept, first->theta_bar) != NULL;
  pbStatus status = pull_columns(k, theta, call, batch, kept);
  if (status != pb_ok) {
    fail_columns(k, world, batch, f, status);
    return;
  }

  // Back to each, whose cotangents they are added to
  for (int b = 0; b < batch; b++) {
    pbPackWorld *w = &world[k->column[b]];
    add_column(k->o_bar, batch, b, call[b].o_bar, f->observations);
    add_column(k->m_bar, batch, b, call[b].m_bar, f->memory);
    if (kept) keep(k, theta, w, &call[b], batch, b);
    if (begin == pbPolicy_BeginPullAct) pbPolicy_EndPullAct(w->scratch);
  }
}

void pbPolicyPack_Pull(pbPolicyPack *k, const double *theta, pbPackWorld *world, int count) {
  PB_ASSERT(count <= k->worlds);

  // The other way round
  pull_together(k, theta, world, count, pbPolicy_BeginPullAct);
  pull_together(k, theta, world, count, pbPolicy_BeginPullDecide);
  finish(world, count);
}
