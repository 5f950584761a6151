// Functions of observations that are fitted to samples: columns in, gradients by parameters, Adam.
// Tests: tests/unit/test_learn.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "elementary/elementary.h"
#include "learn/train.h"

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

pbStatus pbHead_Create(pbContext *ctx, const pbPolicyFunction *f, int columns, pbHead *head) {
  size_t most = (size_t)columns, bytes = f->work_bytes ? f->work_bytes(f->self, columns) : 0;
  *head = (pbHead){.f = f, .params = count_params(f), .columns = columns};

  head->param = pbContext_AllocArray(ctx, head->params + 1, sizeof(double));
  head->bar = pbContext_AllocArray(ctx, head->params + 1, sizeof(double));
  head->index = pbContext_AllocArray(ctx, head->params + 1, sizeof(size_t));
  head->in = pbContext_AllocArray(ctx, most * (size_t)f->observations, sizeof(double));
  head->in_bar = pbContext_AllocArray(ctx, most * (size_t)f->observations, sizeof(double));
  head->out = pbContext_AllocArray(ctx, most * (size_t)f->outputs, sizeof(double));
  head->out_bar = pbContext_AllocArray(ctx, most * (size_t)f->outputs, sizeof(double));
  head->block = pbContext_Alloc(ctx, bytes + 64);

  bool whole = head->param && head->bar && head->index && head->in && head->in_bar && head->out && head->out_bar && head->block;
  if (!whole) return pbContext_Fail(ctx, pb_no_memory, "no memory for a network of %zu parameters", head->params);
  head->work = (void *)(((uintptr_t)head->block + 63) & ~(uintptr_t)63);
  find_unknowns(head);
  set_start(head, head->param);
  return pb_ok;
}

void pbHead_Destroy(pbContext *ctx, pbHead *head) {
  void *all[] = {head->param, head->bar, head->index, head->in, head->in_bar, head->out, head->out_bar, head->block};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(ctx, all[i]);
  *head = (pbHead){0};
}

static void gather(pbHead *head, const double *const *row, int count) {
  for (int b = 0; b < count; b++) {
    for (int i = 0; i < head->f->observations; i++) head->in[(size_t)i * (size_t)count + (size_t)b] = row[b][i];
  }
}

pbStatus pbHead_Forward(pbTrain *t, pbHead *head, const double *param, const double *const *row, int count) {
  PB_ASSERT(count >= 1 && count <= head->columns);
  gather(head, row, count);
  pbStatus status = head->f->forward(head->f->self, count, param, head->in, NULL, head->out, NULL, head->work);
  return status == pb_ok ? pb_ok : pbContext_Fail(t->ctx, status, "a network failed (%s)", pbStatus_Text(status));
}

// Gradient of the sum of out_bar . out by the head's parameters at the columns of the last Forward, into head->bar.
pbStatus pbHead_Pull(pbTrain *t, pbHead *head, const double *param, int count) {
  memset(head->bar, 0, head->params * sizeof(double));
  memset(head->in_bar, 0, (size_t)head->f->observations * (size_t)count * sizeof(double));

  const pbPolicyFunction *f = head->f;
  pbStatus status =
      f->pull(f->self, count, param, head->in, NULL, head->out_bar, NULL, head->in_bar, NULL, head->bar, NULL, 0, head->work);
  return status == pb_ok ? pb_ok : pbContext_Fail(t->ctx, status, "a network's derivative failed (%s)", pbStatus_Text(status));
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
