// Folders that files may be read from, links resolved.
// Tests: tests/oracle/test_files.py.
#include "io/roots.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"

pbStatus pbRoots_Add(pbContext *ctx, const char *name, pbRoots *roots) {
  char real[PATH_MAX];
  if (!realpath(name, real)) return pbContext_Fail(ctx, pb_file, "folder '%.400s' to be allowed cannot be found", name);

  // One more entry.
  char **more = pbContext_Resize(ctx, roots->folders, ((size_t)roots->count + 1) * sizeof *more);
  if (!more) return pbContext_Fail(ctx, pb_no_memory, "no memory for the folders that are allowed");

  roots->folders = more;
  roots->folders[roots->count] = pbContext_CopyText(ctx, real);
  if (!roots->folders[roots->count]) return pbContext_Fail(ctx, pb_no_memory, "no memory for the folders that are allowed");
  roots->count++;
  return pb_ok;
}

pbStatus pbRoots_Open(pbContext *ctx, const char *list, pbRoots *roots) {
  char real[PATH_MAX], name[PATH_MAX];
  if (!list) return pb_ok;

  // A folder may have a ':' in its name where it is the only one.
  if (realpath(list, real)) return pbRoots_Add(ctx, list, roots);

  for (const char *at = list;; at++) {
    // Up to the next ':' or the end.
    size_t length = strcspn(at, ":");
    int n = snprintf(name, sizeof name, "%.*s", (int)(length < PATH_MAX ? length : PATH_MAX), at);
    if (n < 0 || (size_t)n >= sizeof name) return pbContext_Fail(ctx, pb_file, "the name of a folder to be allowed is too long");
    PB_TRY(pbRoots_Add(ctx, name, roots));

    at += length;
    if (!*at) return pb_ok;
  }
}

void pbRoots_Close(pbContext *ctx, pbRoots *roots) {
  for (int i = 0; i < roots->count; i++) pbContext_Free(ctx, roots->folders[i]);
  if (roots->folders) pbContext_Free(ctx, roots->folders);
  *roots = (pbRoots){0};
}

bool pbRoots_Inside(const char *path, const char *folder) {
  if (!folder) return false;

  // "/" has everything inside.
  size_t length = strlen(folder);
  return length == 1 || (!strncmp(path, folder, length) && (path[length] == '/' || !path[length]));
}

bool pbRoots_Hold(const pbRoots *roots, const char *path) {
  for (int i = 0; i < roots->count; i++) {
    if (pbRoots_Inside(path, roots->folders[i])) return true;
  }
  return false;
}
