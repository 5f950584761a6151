// Parameters of worlds: what they share, what each has of its own, constants derived from both, and the derivatives through all.
// Tests: tests/unit/test_batch.c, tests/unit/test_batch_pack.c, tests/unit/test_batch_policy.c.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "batch/batch.h"
#include "compile/setconst.h"
#include "step/scratch.h"
#include "step/wanted.h"

// ---- memory ---------------------------------------------------------------------------------------------------------
static size_t slice_size(const pbParam *p) { return (size_t)p->rows * (size_t)p->cols; }

static bool overlap(const pbParam *a, const pbParam *b) {
  return a->offset < b->offset + slice_size(b) && b->offset < a->offset + slice_size(a);
}

static pbStatus read_own(pbBatch *b, const pbBatchOptions *options) {
  for (int i = 0; i < options->own_count; i++) {
    pbBatchSlice *s = &b->own[i];
    const char *name = options->own[i];
    PB_TRY(pbModel_Param(b->ctx, b->model, name, &s->param));
    bool follows = s->param.derived;
    for (size_t k = 0; k < slice_size(&s->param); k++) follows = follows || pbModel_Follows(b->model, s->param.offset + k);
    if (follows)
      return pbContext_Fail(b->ctx, pb_bad_argument, "own parameter '%s' follows from others; derive it (pbBatch_Derive)", name);

    for (int k = 0; k < i; k++) {
      if (overlap(&s->param, &b->own[k].param))
        return pbContext_Fail(b->ctx, pb_bad_argument, "own parameters '%s' and '%s' overlap", options->own[k], name);
    }

    s->column = b->own_size;
    s->size = slice_size(&s->param);
    b->own_size += s->size;
  }

  return pb_ok;
}

// What pbModel_SetConstants may write.
static void read_constants(pbBatch *b) {
  for (int i = 0; i < pbModel_ParamCount(b->model); i++) {
    if (!pbWanted_Taken(b->model, i)) continue;
    pbParam p = pbModel_ParamAt(b->model, i);
    b->constant[b->constant_count++] = (pbBatchSlice){p, b->constant_size, slice_size(&p)};
    b->constant_size += slice_size(&p);
  }
}

// Numbers of a row from theta, or into it.
static void gather(const pbBatchSlice *slice, int count, const double *theta, double *row) {
  for (int i = 0; i < count; i++) memcpy(row + slice[i].column, theta + slice[i].param.offset, slice[i].size * sizeof *row);
}

static void scatter(const pbBatchSlice *slice, int count, const double *row, double *theta) {
  for (int i = 0; i < count; i++) memcpy(theta + slice[i].param.offset, row + slice[i].column, slice[i].size * sizeof *row);
}

static void pull_everything(pbBatch *b) {
  for (size_t i = 0; i < b->ntheta; i++) b->pulled[i] = true;
  b->pulls_constants = true;
}

pbStatus pbBatch_CreateOwn(pbBatch *b, const pbBatchOptions *options) {
  size_t worlds = (size_t)b->worlds;
  if (options->own_count < 0)
    return pbContext_Fail(b->ctx, pb_bad_argument, "expected 0 own parameters or more, found %d", options->own_count);
  b->own_count = options->own_count;
  b->own = pbContext_AllocArray(b->ctx, (size_t)b->own_count, sizeof *b->own);
  b->constant = pbContext_AllocArray(b->ctx, (size_t)pbModel_ParamCount(b->model), sizeof *b->constant);
  b->derived = pbContext_AllocArray(b->ctx, worlds, sizeof *b->derived);
  if (!b->own || !b->constant || !b->derived) return pb_no_memory;

  PB_TRY(read_own(b, options));
  if (b->own_count > 0) read_constants(b);
  b->own_value = pbContext_AllocArray(b->ctx, worlds, b->own_size * sizeof(double));
  b->constant_value = pbContext_AllocArray(b->ctx, worlds, b->constant_size * sizeof(double));
  b->pulled = pbContext_AllocArray(b->ctx, b->ntheta, sizeof *b->pulled);
  size_t parts = b->own_given ? (size_t)b->restarts + 1 : 0;
  b->part_value = pbContext_AllocArray(b->ctx, worlds, parts * (b->own_size + b->constant_size) * sizeof(double));
  if (!b->own_value || !b->constant_value || !b->part_value || !b->pulled) return pb_no_memory;

  for (size_t w = 0; w < worlds; w++)
    gather(b->own, b->own_count, pbModel_DefaultParams(b->model), b->own_value + w * b->own_size);
  pull_everything(b);
  return pb_ok;
}

void pbBatch_DestroyOwn(pbBatch *b) {
  void *all[] = {b->own, b->constant, b->derived, b->own_value, b->constant_value, b->part_value, b->pulled};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(b->ctx, all[i]);
}

size_t pbBatch_OwnSize(const pbBatch *b) { return b->own_size; }
double *pbBatch_Own(pbBatch *b) { return b->own_value; }

pbParam pbBatch_OwnAt(const pbBatch *b, int index, size_t *column) {
  PB_ASSERT(index >= 0 && index < b->own_count);
  *column = b->own[index].column;
  return b->own[index].param;
}

// ---- of a world -------------------------------------------------------------------------------------------------------
// What a world has of its own. derived: with its constants, which stand in the place of what was given; else, since the world
// before may have had its own, with those of the shared values.
static void put_own(const pbBatch *b, const double *shared, int world, bool derived, double *theta) {
  size_t w = (size_t)world;
  int restored = derived ? 0 : b->constant_count;
  for (int i = 0; i < restored; i++) {
    const pbBatchSlice *s = &b->constant[i];
    memcpy(theta + s->param.offset, shared + s->param.offset, s->size * sizeof *theta);
  }

  scatter(b->own, b->own_count, b->own_value + w * b->own_size, theta);
  if (derived) scatter(b->constant, b->constant_count, b->constant_value + w * b->constant_size, theta);
}

void pbBatch_Theta(const pbBatch *b, const double *shared, int world, double *theta) {
  PB_ASSERT(world >= 0 && world < b->worlds);
  if (!shared) shared = pbModel_DefaultParams(b->model);
  memcpy(theta, shared, b->ntheta * sizeof *theta);
  if (b->own_count > 0) put_own(b, shared, world, b->derived[world], theta);
}

const double *pbBatch_ThetaOf(pbBatchWorker *k, int world) {
  const pbBatch *b = k->batch;
  if (b->own_count == 0) return b->theta;

  // Shared values are copied once a call, whatever their number.
  if (!k->filled) memcpy(k->theta, b->theta, b->ntheta * sizeof *k->theta);
  k->filled = true;
  put_own(b, b->theta, world, b->derived[world], k->theta);
  return k->theta;
}

// ---- derived constants --------------------------------------------------------------------------------------------------
static pbStatus derive_world(pbBatchWorker *k, int world, const void *user) {
  pbBatch *b = k->batch;
  (void)user;

  // From what is given: constants that were derived before count for nothing.
  b->derived[world] = false;
  pbBatch_ThetaOf(k, world);
  PB_TRY(pbModel_SetConstants(k->ctx, b->model, k->theta));

  gather(b->constant, b->constant_count, k->theta, b->constant_value + (size_t)world * b->constant_size);
  b->derived[world] = true;
  return pb_ok;
}

// ---- of the parts of a rollout: new starts may have others -----------------------------------------------------------------
static double *part_at(const pbBatch *b, int world, int part) {
  size_t size = b->own_size + b->constant_size, parts = (size_t)b->restarts + 1;
  PB_ASSERT(part >= 0 && part <= b->restarts);
  return b->part_value + ((size_t)world * parts + (size_t)part) * size;
}

// Which part of its tape a world is in: without one, all that counts is the last.
static int present_part(const pbBatch *b, int world) { return b->tape_steps >= 0 && b->track ? b->track[world].restarts : 0; }

static void put_part(const pbBatch *b, int world, int part, double *theta) {
  const double *row = part_at(b, world, part);
  scatter(b->own, b->own_count, row, theta);
  if (b->derived[world]) scatter(b->constant, b->constant_count, row + b->own_size, theta);
}

pbStatus pbBatch_EnterPart(pbBatchWorker *k, pbRollout *r, int world, int first, const double **theta) {
  pbBatch *b = k->batch;
  r->theta_left = NULL;
  *theta = pbBatch_ThetaOf(k, world);
  if (!b->own_given || first == 0) return pb_ok;

  int part = present_part(b, world);
  const double *own = b->own_value + (size_t)world * b->own_size;
  if (memcmp(part_at(b, world, part), own, b->own_size * sizeof *own) == 0) return pb_ok;

  // what is left had those that are noted
  memcpy(k->theta_left, b->theta, b->ntheta * sizeof *k->theta_left);
  put_part(b, world, part, k->theta_left);
  r->theta_left = k->theta_left;
  if (!b->derived[world]) return pb_ok;
  PB_TRY(derive_world(k, world, NULL));
  *theta = pbBatch_ThetaOf(k, world);
  return pb_ok;
}

void pbBatch_NotePart(pbBatch *b, int world) {
  if (!b->own_given) return;
  double *row = part_at(b, world, present_part(b, world));
  memcpy(row, b->own_value + (size_t)world * b->own_size, b->own_size * sizeof *row);
  memcpy(row + b->own_size, b->constant_value + (size_t)world * b->constant_size, b->constant_size * sizeof *row);
}

// What the part behind a new start says goes to where it comes from before the values are others.
static pbStatus pull_before(void *user, int part, double *theta_bar) {
  pbBatchWorker *k = user;
  if (theta_bar) PB_TRY(pbBatch_PullOwn(k, k->pulled, theta_bar, NULL));
  k->part = part;
  put_part(k->batch, k->pulled, part, k->theta);
  return pb_ok;
}

void pbBatch_PullParts(pbBatchWorker *k, pbRollout *r, int world) {
  k->pulled = world;
  k->part = present_part(k->batch, world);
  r->pull_before = k->batch->own_given ? pull_before : NULL;
  r->pull_before_user = k;
}

pbStatus pbBatch_Derive(pbBatch *b, const double *theta, const int *ids, int count) {
  if (b->own_count == 0)
    return pbContext_Fail(b->ctx, pb_bad_argument,
                          "no world has parameters of its own: derive the shared ones "
                          "(pbModel_SetConstants)");
  PB_TRY(pbBatch_Begin(b, theta, ids, count, 1, "derive"));
  pbBatch_Each(b, derive_world, NULL);
  return pbBatch_End(b);
}

static void add(double *to, const double *from, size_t count) {
  for (size_t i = 0; i < count; i++) to[i] += from[i];
}

pbStatus pbBatch_PullOwn(pbBatchWorker *k, int world, double *theta_bar, double *own) {
  pbBatch *b = k->batch;
  if (b->own_count == 0) return pb_ok;
  if (b->derived[world] && b->pulls_constants) {
    put_own(b, b->theta, world, false, k->theta);  // as before the constants were derived
    if (b->own_given && b->track) scatter(b->own, b->own_count, part_at(b, world, k->part), k->theta);
    PB_TRY(pbConstants_Pull(k->ctx, b->model, k->theta, b->pulled, theta_bar));
  }

  for (int i = 0; i < b->own_count; i++) {
    const pbBatchSlice *s = &b->own[i];
    double *from = theta_bar + s->param.offset;
    if (own) add(own + s->column, from, s->size);
    memset(from, 0, s->size * sizeof *from);
  }

  return pb_ok;
}

pbStatus pbBatch_PushOwn(pbBatchWorker *k, int world, const double *shared, const double *own, double *direction) {
  pbBatch *b = k->batch;
  if (shared) memcpy(direction, shared, b->ntheta * sizeof *direction);
  else memset(direction, 0, b->ntheta * sizeof *direction);

  for (int i = 0; i < b->own_count; i++) {
    const pbBatchSlice *s = &b->own[i];
    double *to = direction + s->param.offset;
    if (own) memcpy(to, own + s->column, s->size * sizeof *to);
    else memset(to, 0, s->size * sizeof *to);
  }

  if (!b->derived[world]) return pb_ok;
  put_own(b, b->theta, world, false, k->theta);
  pbStatus status = pbModel_SetConstantsJvp(k->ctx, b->model, k->theta, direction);
  put_own(b, b->theta, world, true, k->theta);
  return status;
}

// ---- which are wanted -----------------------------------------------------------------------------------------------------
static pbStatus want_all(pbBatch *b, const char *const *names, int count) {
  for (int i = 0; i < b->threads; i++) {
    pbBatchWorker *k = &b->worker[i];
    pbRollout *r;
    for (int s = 0; (r = pbBatch_RolloutAt(k, s)); s++) {
      pbStatus status = pbRollout_WantParameters(r, names, count, b->own_count > 0 && b->pulls_constants);
      if (status != pb_ok) return pbContext_Fail(b->ctx, status, "%s", pbContext_Error(k->ctx));
    }
  }

  return pb_ok;
}

static void pull_entries(pbBatch *b, const pbParam *p) {
  b->pulls_constants = b->pulls_constants || pbConstants_Read(b->model, p->offset, slice_size(p));
  memset(b->pulled + p->offset, true, slice_size(p) * sizeof *b->pulled);
}

// The constants' gradient goes on to what is named, whole fields, and to own values; nowhere where none of it is read. Where a
// constant itself is named its gradient is taken away, too: nothing follows from what is derived anew.
static pbStatus note_pulled(pbBatch *b, const char *const *names, int count) {
  memset(b->pulled, 0, b->ntheta * sizeof *b->pulled);
  b->pulls_constants = false;

  int own = b->own_given ? 0 : b->own_count;
  for (int i = 0; i < own; i++) pull_entries(b, &b->own[i].param);

  for (int i = 0; i < count; i++) {
    pbParam named;
    PB_TRY(pbModel_Param(b->ctx, b->model, names[i], &named));

    for (int k = 0; k < pbModel_ParamCount(b->model); k++) {
      pbParam field = pbModel_ParamAt(b->model, k);
      if (strcmp(field.name, named.name) != 0) continue;
      pull_entries(b, &field);
      b->pulls_constants = b->pulls_constants || pbWanted_Taken(b->model, k);
    }
  }

  return pb_ok;
}

pbStatus pbBatch_WantParameters(pbBatch *b, const char *const *names, int count) {
  if (count < 0) return pbContext_Fail(b->ctx, pb_bad_argument, "%d names of parameters: a count from 0 on is needed", count);
  pull_everything(b);
  if (!names) return want_all(b, NULL, 0);

  int own = b->own_given ? 0 : b->own_count;
  const char **all = pbContext_AllocArray(b->ctx, (size_t)count + (size_t)own + 1, sizeof *all);
  if (!all) return pbContext_Fail(b->ctx, pb_no_memory, "no memory for a choice of parameters");
  for (int i = 0; i < count; i++) all[i] = names[i];
  for (int i = 0; i < own; i++) all[count + i] = b->own[i].param.name;

  pbStatus status = note_pulled(b, names, count);
  if (status == pb_ok) status = want_all(b, all, count + own);
  pbContext_Free(b->ctx, all);
  return status;
}

pbStatus pbBatch_SetGradient(pbBatch *b, pbGradientKind kind) {
  for (int i = 0; i < b->threads; i++) {
    pbBatchWorker *k = &b->worker[i];
    pbRollout *r;
    for (int s = 0; (r = pbBatch_RolloutAt(k, s)); s++) {
      pbStatus status = pbRollout_SetGradient(r, kind);
      if (status != pb_ok) return pbContext_Fail(b->ctx, status, "%s", pbContext_Error(k->ctx));
    }
  }

  return pb_ok;
}
