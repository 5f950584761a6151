// The context: allocator, error text, warnings, and who is told of files that are opened.
// Tests: tests/unit/test_base.c.
#include "base/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

struct pbContext {
  pbAllocator hooks;
  char error[PB_ERROR_TEXT];
  pbFileWatch watch;
  char *warnings;  // NULL until the first warning
  size_t warnings_length, warnings_capacity;
};

static void *default_alloc(void *user, size_t size) {
  (void)user;
  return malloc(size);
}
static void *default_resize(void *user, void *memory, size_t size) {
  (void)user;
  return realloc(memory, size);
}
static void default_release(void *user, void *memory) {
  (void)user;
  free(memory);
}

pbContext *pbContext_Create(const pbAllocator *allocator) {
  pbAllocator hooks = {default_alloc, default_resize, default_release, NULL};
  if (allocator && allocator->alloc) {
    // All three or none: memory of one allocator must not be given to another.
    if (!allocator->resize || !allocator->release) return NULL;
    hooks = *allocator;
  }

  pbContext *ctx = hooks.alloc(hooks.user, sizeof *ctx);
  if (!ctx) return NULL;

  memset(ctx, 0, sizeof *ctx);
  ctx->hooks = hooks;
  return ctx;
}

void pbContext_Destroy(pbContext *ctx) {
  if (!ctx) return;
  pbAllocator hooks = ctx->hooks;
  pbContext_Free(ctx, ctx->warnings);
  hooks.release(hooks.user, ctx);
}

const char *pbContext_Error(const pbContext *ctx) { return ctx ? ctx->error : ""; }

pbStatus pbContext_Fail(pbContext *ctx, pbStatus status, const char *format, ...) {
  if (!ctx) return status;

  // An argument may be the text of the last error, which is about to be written over.
  char text[PB_ERROR_TEXT];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(text, sizeof text, format, args);
  va_end(args);

  if (length < 0) text[0] = 0;
  memcpy(ctx->error, text, sizeof text);
  return status;
}

const char *pbContext_Warnings(const pbContext *ctx) { return ctx && ctx->warnings ? ctx->warnings : ""; }

void pbContext_ClearWarnings(pbContext *ctx) {
  ctx->warnings_length = 0;
  if (ctx->warnings) ctx->warnings[0] = 0;
}

// Room for `more` bytes behind what is there; false when out of memory or at the limit: warnings are then dropped, since a
// hostile file must not decide how much is kept.
static bool warnings_room(pbContext *ctx, size_t more) {
  size_t need = ctx->warnings_length + more;
  if (need <= ctx->warnings_capacity) return true;
  if (need > PB_WARNING_TEXT) return false;

  size_t capacity = ctx->warnings_capacity ? ctx->warnings_capacity : 512;
  while (capacity < need) capacity *= 2;

  char *grown = pbContext_Resize(ctx, ctx->warnings, capacity);
  if (!grown) return false;
  ctx->warnings = grown;
  ctx->warnings_capacity = capacity;
  return true;
}

void pbContext_Warn(pbContext *ctx, const char *format, ...) {
  if (!ctx) return;

  char line[PB_ERROR_TEXT];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (length < 0) return;
  // A line each.

  size_t kept = strlen(line);

  PB_ASSERT(kept < sizeof line && (!ctx->warnings || ctx->warnings[ctx->warnings_length] == 0));
  if (!warnings_room(ctx, kept + 2)) return;

  char *end = ctx->warnings + ctx->warnings_length;
  memcpy(end, line, kept);
  memcpy(end + kept, "\n", 2);
  ctx->warnings_length += kept + 1;
}

void *pbContext_Alloc(pbContext *ctx, size_t size) {
  if (!size) size = 1;  // so that NULL always means out of memory
  void *memory = ctx->hooks.alloc(ctx->hooks.user, size);
  return memory ? memset(memory, 0, size) : NULL;
}

void *pbContext_AllocRoom(pbContext *ctx, size_t size) { return ctx->hooks.alloc(ctx->hooks.user, size ? size : 1); }

void *pbContext_Resize(pbContext *ctx, void *memory, size_t size) {
  return ctx->hooks.resize(ctx->hooks.user, memory, size ? size : 1);
}

void pbContext_Free(pbContext *ctx, void *memory) {
  if (memory) ctx->hooks.release(ctx->hooks.user, memory);
}

void *pbContext_AllocArray(pbContext *ctx, size_t count, size_t size) {
  if (size && count > SIZE_MAX / size) return NULL;
  return pbContext_Alloc(ctx, count * size);
}

char *pbContext_CopyText(pbContext *ctx, const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = pbContext_Alloc(ctx, size);
  return copy ? memcpy(copy, text, size) : NULL;
}

pbFileWatch pbContext_WatchFiles(pbContext *ctx, pbFileWatch watch) {
  pbFileWatch before = ctx->watch;
  ctx->watch = watch;
  return before;
}

void pbContext_FileOpened(pbContext *ctx, const char *path) {
  if (ctx->watch.opened) ctx->watch.opened(ctx->watch.user, path);
}
