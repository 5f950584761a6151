// Texts in the making: streams of stdio over memory of a context. Those of the C library (open_memstream) are not used, since
// they lose without a word what there is no memory for. Elsewhere than on Linux, where stdio has no streams of one's own, they
// have to do.
// Tests: tests/unit/test_npz.c, tests/world/failing_world.py.
#include <stdlib.h>
#include <string.h>

#include <pullback/io.h>

static pbStatus no_memory(pbDraft *draft) {
  pbContext *ctx = draft->ctx;
  pbDraft_Drop(draft);

  return pbContext_Fail(ctx, pb_no_memory, "out of memory");
}

#ifdef __linux__
enum { LEAST_ROOM = 1024 };

// Room for `more` bytes and a closing zero.
static bool grow(pbDraft *d, size_t more) {
  size_t need = d->length + more + 1, room = d->room ? d->room : LEAST_ROOM;
  if (need <= d->room) return true;

  // Twice as much each time, so that bytes move once or twice in all.
  while (room < need && room <= SIZE_MAX / 2) room *= 2;
  char *grown = room < need ? NULL : pbContext_Resize(d->ctx, d->text, room);
  if (!grown) return false;

  d->text = grown;
  d->room = room;
  return true;
}

// What comes behind a gap is not kept: the text is lost as a whole.
static ssize_t append(void *cookie, const char *from, size_t size) {
  pbDraft *d = cookie;
  d->failed = d->failed || size > SIZE_MAX / 4 || !grow(d, size);
  if (d->failed) return 0;

  memcpy(d->text + d->length, from, size);
  d->length += size;
  return (ssize_t)size;
}

static FILE *open_stream(pbDraft *d) { return fopencookie(d, "w", (cookie_io_functions_t){.write = append}); }
static bool is_whole(pbDraft *d) { return !d->failed && grow(d, 0); }
static void release(pbDraft *d) { pbContext_Free(d->ctx, d->text); }
#else
static FILE *open_stream(pbDraft *d) { return open_memstream(&d->text, &d->length); }
static bool is_whole(pbDraft *d) {
  char *copy = d->text ? pbContext_Alloc(d->ctx, d->length + 1) : NULL;
  if (copy) memcpy(copy, d->text, d->length);

  free(d->text);
  d->text = copy;
  return copy;
}
static void release(pbDraft *d) {
  if (d->stream) fclose(d->stream);
  d->stream = NULL;
  free(d->text);
}
#endif

pbStatus pbDraft_Begin(pbContext *ctx, pbDraft *draft) {
  *draft = (pbDraft){.ctx = ctx};
  draft->stream = open_stream(draft);

  return draft->stream ? pb_ok : no_memory(draft);
}

pbStatus pbDraft_End(pbDraft *draft, char **text, size_t *size) {
  // A print that failed halfway counts, too.
  bool bad = ferror(draft->stream) != 0;
  if (fclose(draft->stream) != 0) bad = true;
  draft->stream = NULL;
  if (!is_whole(draft) || bad) return no_memory(draft);

  // The caller's from now on.
  *text = draft->text;
  (*text)[draft->length] = 0;
  if (size) *size = draft->length;

  *draft = (pbDraft){0};
  return pb_ok;
}

void pbDraft_Drop(pbDraft *draft) {
  if (!draft->ctx) return;
  if (draft->stream) fclose(draft->stream);
  draft->stream = NULL;

  release(draft);
  *draft = (pbDraft){0};
}
