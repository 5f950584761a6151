// What is written through a stream, as a file: pages and tables.
// Tests: tests/python/test_commands.py.
#include "core.h"

pbStatus pyPage_Save(pbContext *ctx, const char *path, pyPut *put, void *user) {
  pbDraft draft;
  PB_TRY(pbDraft_Begin(ctx, &draft));
  return pyDraft_Save(&draft, put(user, draft.stream), path);
}
