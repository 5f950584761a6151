// A compiled model as bytes, and back: one function goes through all that a model is, in both directions. Tests:
// tests/unit/test_pack.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/model.h"

typedef struct Head {
  char magic[8], version[24];
  uint64_t size, checksum;  // of what follows
} Head;
static const char magic[8] = "PBMODEL";

typedef struct Stream {
  char *bytes;  // NULL: they are only counted
  size_t size, used;
  bool reading, broken;  // broken: it takes more bytes than there are
} Stream;

static void pass(Stream *s, void *data, size_t size) {
  if (s->bytes && size > s->size - s->used) s->broken = true;
  if (s->broken) return;
  if (s->bytes && s->reading) memcpy(data, s->bytes + s->used, size);
  if (s->bytes && !s->reading) memcpy(s->bytes + s->used, data, size);
  s->used += size;
}

// FNV-1a.
static uint64_t checksum(const char *bytes, size_t size) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211u;
  return hash;
}

// Major and minor number: what a later patch reads.
static void put_version(char version[24]) {
  char *point;
  int major = (int)strtol(pbVersion(), &point, 10);
  memset(version, 0, 24);

  if (*point == '.') snprintf(version, 24, "%d.%d", major, (int)strtol(point + 1, NULL, 10));
}

// ---- what a model is ------------------------------------------------------------------------------------------------------
static void pass_settings(Stream *s, pbModel *m) {
#define X(name, ...) pass(s, &m->name, sizeof m->name);
  PB_MODEL_SIZES(X)
  PB_MODEL_OPTIONS(X)
#undef X
  pass(s, &m->tolerance, sizeof m->tolerance);
  pass(s, &m->contact, sizeof m->contact);
  pass(s, &m->inertia_kept, sizeof m->inertia_kept);
}

static pbStatus pass_text(Stream *s, pbContext *ctx, char **text) {
  uint64_t length = *text ? strlen(*text) + 1 : 0;
  pass(s, &length, sizeof length);
  if (s->broken || length == 0) return pb_ok;
  if (s->reading) {
    s->broken = length > s->size - s->used || s->bytes[s->used + length - 1] != 0;
    if (s->broken) return pb_ok;
    *text = pbContext_Alloc(ctx, length);
    if (!*text) return pb_no_memory;
  }

  pass(s, *text, length);
  return pb_ok;
}

static pbStatus pass_names(Stream *s, pbModel *m) {
  PB_TRY(pass_text(s, m->ctx, &m->model_name));
  for (int kind = 0; kind < pb_objCount; kind++) {
    for (int i = 0; i < m->names_count[kind]; i++) PB_TRY(pass_text(s, m->ctx, &m->names[kind][i]));
  }
  return pb_ok;
}

static pbStatus pass_model(Stream *s, pbModel *m) {
  pass_settings(s, m);
  if (s->broken) return pb_ok;

  // Sizes are known: memory, and all numbers.
  if (s->reading) PB_TRY(pbModel_Allocate(m));
  pass(s, m->ints_block, pbModel_Integers(m) * sizeof(int));
  pass(s, m->reals_block, pbModel_Reals(m) * sizeof(double));
  return pass_names(s, m);
}

// ---- out and in -----------------------------------------------------------------------------------------------------------
pbStatus pbModel_Pack(pbContext *ctx, const pbModel *model, void **bytes, size_t *size) {
  *bytes = NULL;
  *size = 0;
  const char *what = NULL;
  if (model->deform) what = "deformables";
  else if (model->policy) what = "a policy";
  else if (model->nexposed) what = "vertices or heights in theta";
  else if (model->design) what = "a design";
  if (what) return pbContext_Fail(ctx, pb_unsupported, "a model with %s as bytes", what);

  // The model is only read.
  pbModel copy = *model, *m = &copy;
  Stream count = {.size = 0};
  PB_TRY(pass_model(&count, m));
  char *to = pbContext_Alloc(ctx, sizeof(Head) + count.used);
  if (!to) return pbContext_Fail(ctx, pb_no_memory, "out of memory for a model as bytes: %zu", count.used);

  Stream out = {.bytes = to + sizeof(Head), .size = count.used};
  pbStatus status = pass_model(&out, m);
  PB_ASSERT(status == pb_ok && !out.broken && out.used == out.size);
  (void)status;
  Head head = {.size = out.size, .checksum = checksum(out.bytes, out.size)};
  memcpy(head.magic, magic, sizeof magic);
  put_version(head.version);
  memcpy(to, &head, sizeof head);

  *bytes = to;
  *size = sizeof(Head) + out.size;
  return pb_ok;
}

static pbStatus check_head(pbContext *ctx, const char *bytes, size_t size) {
  Head head;
  char version[24];
  if (size < sizeof head || memcmp(bytes, magic, sizeof magic) != 0)
    return pbContext_Fail(ctx, pb_bad_input, "these bytes are no model");
  memcpy(&head, bytes, sizeof head);

  put_version(version);
  if (memcmp(head.version, version, sizeof version) != 0)
    return pbContext_Fail(ctx, pb_bad_input,
                          "this model was packed by version %.23s, and this is version %s: load its file again", head.version,
                          version);
  size_t rest = size - sizeof head;
  if (head.size != rest || head.checksum != checksum(bytes + sizeof head, rest))
    return pbContext_Fail(ctx, pb_bad_input, "the bytes of this model are damaged");
  return pb_ok;
}

pbStatus pbModel_Unpack(pbContext *ctx, const void *bytes, size_t size, pbModel **model) {
  *model = NULL;
  PB_TRY(check_head(ctx, bytes, size));
  pbModel *m = pbContext_Alloc(ctx, sizeof *m);
  if (!m) return pbContext_Fail(ctx, pb_no_memory, "out of memory for the model");
  m->ctx = ctx;

  // Only read: a stream has one type for both directions.
  Stream in = {.bytes = (char *)(uintptr_t)bytes + sizeof(Head), .size = size - sizeof(Head), .reading = true};
  pbStatus status = pass_model(&in, m);
  if (status == pb_ok && (in.broken || in.used != in.size))
    status = pbContext_Fail(ctx, pb_bad_input, "the bytes of this model are damaged");
  if (status == pb_no_memory) status = pbContext_Fail(ctx, status, "out of memory for the model");
  if (status == pb_ok) status = pbModel_Finish(m);
  if (status != pb_ok) {
    pbModel_Destroy(m);
    return status;
  }

  *model = m;
  return pb_ok;
}
