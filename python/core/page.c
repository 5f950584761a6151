// What is written through a stream, as a file: pages and tables.
// Tests: tests/python/test_commands.py.
#include <stdio.h>
#include <stdlib.h>

#include "core.h"

pbStatus pyPage_Save(pbContext *ctx, const char *path, pyPut *put, void *user) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return pbContext_Fail(ctx, pb_no_memory, "out of memory");

  pbStatus status = put(user, out);
  if (fclose(out) != 0 && status == pb_ok) status = pbContext_Fail(ctx, pb_no_memory, "out of memory");
  if (status == pb_ok) status = pbFile_Write(ctx, path, text, size);
  free(text);
  return status;
}
