// Inside of the library: what a context offers beyond the public <pullback/base.h>.
#ifndef PB_CONTEXT_H
#define PB_CONTEXT_H

#include <pullback/base.h>

enum { PB_ERROR_TEXT = 2048, PB_WARNING_TEXT = 64 * 1024 };  // most bytes kept, with the closing zero

// Forget the warnings; whoever loads or compiles calls it first.
void pbContext_ClearWarnings(pbContext *ctx);

// count * size bytes, zeroed; NULL when out of memory or when the product overflows (counts come from untrusted files).
void *pbContext_AllocArray(pbContext *ctx, size_t count, size_t size);
// As pbContext_Alloc, not zeroed: room that is written before it is read; pages that nobody writes are never touched.
void *pbContext_AllocRoom(pbContext *ctx, size_t size);

// Whoever must know which files a result depends on: called for each that is opened for reading. NULL: nobody.
typedef struct pbFileWatch {
  void (*opened)(void *user, const char *path);
  void *user;
} pbFileWatch;
pbFileWatch pbContext_WatchFiles(pbContext *ctx, pbFileWatch watch);  // returns the one before, which is not called any more
void pbContext_FileOpened(pbContext *ctx, const char *path);

// Copy of a text through the context; NULL when out of memory.
char *pbContext_CopyText(pbContext *ctx, const char *text);

#endif
