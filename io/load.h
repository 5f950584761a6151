// Models from files, for what io does with them.
#ifndef PB_IO_LOAD_H
#define PB_IO_LOAD_H

#include <pullback/io.h>

// As pbSpec_Load. whole: for a model that keeps what it was made from (pbSpec_KeepSource), with the real paths of its files.
PB_NODISCARD pbStatus pbSpec_LoadFor(pbContext *ctx, const char *path, const pbLoadOptions *options, bool whole, pbSpec **spec);

#endif
