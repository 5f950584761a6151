// Folders beyond that of a model or task that files may be read from (pbLoadOptions.allow_root and others).
#ifndef PB_IO_ROOTS_H
#define PB_IO_ROOTS_H

#include <pullback/base.h>

#include <stdbool.h>

typedef struct pbRoots {
  char **folders;  // real paths, links resolved
  int count;
} pbRoots;

// One more folder. pb_file where it is not there.
PB_NODISCARD pbStatus pbRoots_Add(pbContext *ctx, const char *name, pbRoots *roots);
// The folders of a list with ':' between them, each of which must be there, added to *roots (zero at first); NULL: none. Close
// them in any case.
PB_NODISCARD pbStatus pbRoots_Open(pbContext *ctx, const char *list, pbRoots *roots);
void pbRoots_Close(pbContext *ctx, pbRoots *roots);

// Does the file or folder (a real path) lie in the folder (likewise; NULL: there is none), or in one of the roots?
bool pbRoots_Inside(const char *path, const char *folder);
bool pbRoots_Hold(const pbRoots *roots, const char *path);

#endif
