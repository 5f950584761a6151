// Functions of observations that are fitted to samples: columns in, gradients by parameters, Adam.
// Tests: tests/unit/test_learn.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "elementary/elementary.h"
#include "learn/train.h"
#include "policy/fit.h"

static size_t count_params(const pbPolicyFunction *f) {
  size_t count = 0;
  for (int i = 0; i < f->slices; i++) count += (size_t)f->slice[i].rows * (size_t)f->slice[i].cols;
  return count;
}

// Entries of slices that are not fixed.
static void find_unknowns(pbHead *head) {
  size_t at = 0;
  for (int i = 0; i < head->f->slices; i++) {
    const pbPolicySlice *s = &head->f->slice[i];
    size_t count = (size_t)s->rows * (size_t)s->cols;
    for (size_t k = 0; k < count; k++, at++) {
      if (!s->fixed) head->index[head->unknowns++] = at;
    }
  }
}

static void set_start(const pbHead *head, double *param) {
  for (int i = 0; i < head->f->slices; i++) {
    const pbPolicySlice *s = &head->f->slice[i];
    size_t count = (size_t)s->rows * (size_t)s->cols;
    if (s->start) memcpy(param, s->start, count * sizeof *param);
    param += count;
  }
}

// ---- columns in pieces --------------------------------------------------------------------------------------------------
// Columns are worked on in pieces of PIECE, by whoever is free. For sums over columns pieces are dealt out to a few leaves by
// their number alone, and leaves are summed in order: the same bits for any number of threads.
enum { PIECE = 64, LEAVES = 16, BLOCK = 2048 };

static int pieces_of(int columns) { return (columns + PIECE - 1) / PIECE; }

static int leaves_of(int columns) {
  int pieces = pieces_of(columns);
  return pieces < LEAVES ? pieces : LEAVES;
}

static pbStatus fail_memory(pbContext *ctx, const pbHead *head) {
  return pbContext_Fail(ctx, pb_no_memory, "no memory for a network of %zu parameters", head->params);
}

// Of each thread: a piece's inputs and cotangents, and the function's own work.
static pbStatus take_work(pbContext *ctx, pbPool *pool, pbHead *head) {
  const pbPolicyFunction *f = head->f;
  size_t numbers = (size_t)PIECE * (size_t)(2 * f->observations + f->outputs);
  size_t bytes = f->work_bytes ? f->work_bytes(f->self, PIECE) : 0;

  head->pool = pool;
  head->stride = (numbers * sizeof(double) + bytes + 191) / 64 * 64;
  head->block = pbContext_AllocArray(ctx, (size_t)pbPool_Threads(pool) + 1, head->stride);

  return head->block ? pb_ok : fail_memory(ctx, head);
}

typedef struct Room {
  double *in, *in_bar, *out_bar;
  void *work;
} Room;

static Room room_of(const pbHead *head, int worker) {
  const pbPolicyFunction *f = head->f;
  PB_ASSERT(worker >= 0 && worker < pbPool_Threads(head->pool));

  uintptr_t first = ((uintptr_t)head->block + 63) & ~(uintptr_t)63;
  double *in = (double *)(first + (size_t)worker * head->stride);
  double *in_bar = in + PIECE * f->observations, *out_bar = in_bar + PIECE * f->observations;
  uintptr_t work = ((uintptr_t)(out_bar + PIECE * f->outputs) + 63) & ~(uintptr_t)63;

  return (Room){in, in_bar, out_bar, (void *)work};
}

pbStatus pbHead_Create(pbContext *ctx, pbPool *pool, const pbPolicyFunction *f, int columns, pbHead *head) {
  *head = (pbHead){.f = f, .params = count_params(f), .columns = columns};

  head->param = pbContext_AllocArray(ctx, head->params + 1, sizeof(double));
  head->bar = pbContext_AllocArray(ctx, head->params + 1, sizeof(double));
  head->leaf = pbContext_AllocArray(ctx, (head->params + 1) * (size_t)leaves_of(columns), sizeof(double));
  head->index = pbContext_AllocArray(ctx, head->params + 1, sizeof(size_t));
  head->out = pbContext_AllocArray(ctx, (size_t)columns * (size_t)f->outputs, sizeof(double));
  head->fate = pbContext_AllocArray(ctx, (size_t)pieces_of(columns), sizeof *head->fate);

  bool whole = head->param && head->bar && head->leaf && head->index && head->out && head->fate;
  if (!whole) return fail_memory(ctx, head);
  find_unknowns(head);
  set_start(head, head->param);

  return take_work(ctx, pool, head);
}

void pbHead_Destroy(pbContext *ctx, pbHead *head) {
  void *all[] = {head->param, head->bar, head->leaf, head->index, head->out, head->fate, head->block};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(ctx, all[i]);
  *head = (pbHead){0};
}

// What is asked of some columns.
typedef struct Job {
  const pbHead *head;
  const double *param;
  const double *const *row;
  int count, leaves;
  pbHeadBars bars;
  void *user;
  const double *out_bar;
  double *in_bar;
  int stride;  // of in_bar's rows
} Job;

static int width_of(const Job *j, int piece) {
  int left = j->count - piece * PIECE;
  return left < PIECE ? left : PIECE;
}

static double *outputs_of(const Job *j, int piece) { return j->head->out + (size_t)piece * PIECE * (size_t)j->head->f->outputs; }

size_t pbHead_At(const pbHead *head, int count, int output, int column) {
  PB_ASSERT(column >= 0 && column < count);
  int piece = column / PIECE, left = count - piece * PIECE, width = left < PIECE ? left : PIECE;
  return (size_t)piece * PIECE * (size_t)head->f->outputs + (size_t)output * (size_t)width + (size_t)(column % PIECE);
}

static int column_of(const pbHead *head, int i) { return head->column ? head->column[i] : i; }

static void gather(const Job *j, int piece, double *in) {
  int n = width_of(j, piece);

  for (int b = 0; b < n; b++) {
    for (int i = 0; i < j->head->f->observations; i++) in[i * n + b] = j->row[piece * PIECE + b][column_of(j->head, i)];
  }
}

static pbStatus run(pbTrain *t, Job *job, int tasks, pbPoolWork work, const char *what) {
  PB_ASSERT(job->count >= 1 && job->count <= job->head->columns);
  pbPool_Run(job->head->pool, tasks, work, job);

  for (int i = 0; i < tasks; i++) {
    pbStatus status = job->head->fate[i];
    if (status != pb_ok) return pbContext_Fail(t->ctx, status, "a network%s failed (%s)", what, pbStatus_Text(status));
  }

  return pb_ok;
}

static void forward_piece(void *user, int piece, int worker) {
  const Job *j = user;
  const pbPolicyFunction *f = j->head->f;
  Room room = room_of(j->head, worker);

  gather(j, piece, room.in);
  j->head->fate[piece] = f->forward(f->self, width_of(j, piece), j->param, room.in, NULL, outputs_of(j, piece), NULL, room.work);
}

pbStatus pbHead_Forward(pbTrain *t, pbHead *head, const double *param, const double *const *row, int count) {
  Job job = {.head = head, .param = param, .row = row, .count = count};
  return run(t, &job, pieces_of(count), forward_piece, "");
}

// ---- gradients by parameters ----------------------------------------------------------------------------------------------
typedef struct Piece {
  const Job *job;
  int first, count;
} Piece;

static void piece_bars(void *user, const double *out, double *out_bar) {
  const Piece *p = user;
  p->job->bars(p->job->user, p->first, p->count, out, out_bar);
}

static pbStatus fit_piece(const Job *j, int piece, int worker, double *bar) {
  const pbPolicyFunction *f = j->head->f;
  pbNetworkFit fused = pbNetwork_FitOf(f);
  Room room = room_of(j->head, worker);
  Piece p = {j, piece * PIECE, width_of(j, piece)};
  double *out = outputs_of(j, piece);

  gather(j, piece, room.in);

  // a network goes forward once for both
  pbFitOutputs to = {out, room.out_bar, piece_bars, &p};
  if (fused) return fused(f->self, p.count, j->param, room.in, &to, bar, room.work);

  PB_TRY(f->forward(f->self, p.count, j->param, room.in, NULL, out, NULL, room.work));
  piece_bars(&p, out, room.out_bar);
  memset(room.in_bar, 0, (size_t)f->observations * (size_t)p.count * sizeof(double));

  return f->pull(f->self, p.count, j->param, room.in, NULL, room.out_bar, NULL, room.in_bar, NULL, bar, NULL, 0, room.work);
}

static void fit_leaf(void *user, int leaf, int worker) {
  const Job *j = user;
  PB_ASSERT(leaf < j->leaves && j->leaves <= LEAVES);
  int64_t pieces = pieces_of(j->count);
  double *bar = j->head->leaf + (size_t)leaf * j->head->params;
  int end = (int)(pieces * (leaf + 1) / j->leaves);

  memset(bar, 0, j->head->params * sizeof *bar);
  j->head->fate[leaf] = pb_ok;
  for (int piece = (int)(pieces * leaf / j->leaves); piece < end && j->head->fate[leaf] == pb_ok; piece++)
    j->head->fate[leaf] = fit_piece(j, piece, worker, bar);
}

static void sum_block(void *user, int block, int worker) {
  (void)worker;
  const Job *j = user;
  size_t params = j->head->params, first = (size_t)block * BLOCK, end = first + BLOCK < params ? first + BLOCK : params;
  double *bar = j->head->bar;

  memcpy(bar + first, j->head->leaf + first, (end - first) * sizeof *bar);
  for (int leaf = 1; leaf < j->leaves; leaf++) {
    const double *from = j->head->leaf + (size_t)leaf * params;

    for (size_t i = first; i < end; i++) bar[i] += from[i];
  }
}

pbStatus pbHead_Fit(pbTrain *t, pbHead *head, const double *param, const double *const *row, int count, pbHeadBars bars,
                    void *user) {
  Job job = {.head = head, .param = param, .row = row, .count = count, .leaves = leaves_of(count), .bars = bars, .user = user};
  PB_TRY(run(t, &job, job.leaves, fit_leaf, "'s derivative"));

  for (int block = 0; (size_t)block * BLOCK < head->params; block++) sum_block(&job, block, 0);
  return pb_ok;
}

// ---- gradients by inputs ----------------------------------------------------------------------------------------------------
static void pull_piece(void *user, int piece, int worker) {
  const Job *j = user;
  const pbPolicyFunction *f = j->head->f;
  Room room = room_of(j->head, worker);
  int n = width_of(j, piece), first = piece * PIECE;

  gather(j, piece, room.in);
  memset(room.in_bar, 0, (size_t)f->observations * (size_t)n * sizeof(double));
  for (int b = 0; b < n; b++) {
    for (int k = 0; k < f->outputs; k++) room.out_bar[k * n + b] = j->out_bar[(first + b) * f->outputs + k];
  }

  j->head->fate[piece] =
      f->pull(f->self, n, j->param, room.in, NULL, room.out_bar, NULL, room.in_bar, NULL, NULL, NULL, 0, room.work);

  for (int b = 0; b < n; b++) {
    double *to = j->in_bar + (size_t)(first + b) * (size_t)j->stride;

    // a row has other numbers, too
    memset(to, 0, (size_t)j->stride * sizeof *to);
    for (int i = 0; i < f->observations; i++) to[column_of(j->head, i)] += room.in_bar[i * n + b];
  }
}

pbStatus pbHead_PullInputs(pbTrain *t, pbHead *head, const double *param, const double *const *row, int count,
                           const double *out_bar, double *in_bar) {
  PB_ASSERT(head->f->observations <= t->nobs);
  Job job = {.head = head, .param = param, .row = row, .count = count, .out_bar = out_bar, .in_bar = in_bar, .stride = t->nobs};

  return run(t, &job, pieces_of(count), pull_piece, "'s derivative");
}

// ---- Adam (Kingma & Ba 2015, algorithm 1), the gradient's norm clipped before --------------------------------------------
double pbLearnAdam_Step(const pbLearnAdam *a, const pbTrainSettings *s, double rate, const double *gradient, double *param) {
  double square = 0;
  for (size_t i = 0; i < a->count; i++) square += gradient[a->index[i]] * gradient[a->index[i]];

  // one update that overflowed is no reason to lose all before it
  double norm = sqrt(square);
  if (!isfinite(norm)) return norm;

  double factor = s->clip > 0 && norm > s->clip ? s->clip / norm : 1;
  *a->steps += 1;
  double first = 1 - pbPow(s->beta1, *a->steps), second = 1 - pbPow(s->beta2, *a->steps);
  for (size_t i = 0; i < a->count; i++) {
    double g = factor * gradient[a->index[i]];
    a->m[i] = s->beta1 * a->m[i] + (1 - s->beta1) * g;
    a->v[i] = s->beta2 * a->v[i] + (1 - s->beta2) * g * g;
    param[a->index[i]] -= rate * (a->m[i] / first) / (sqrt(a->v[i] / second) + 1e-8);
  }

  return norm;
}
