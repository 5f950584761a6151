// Pullback: files. MJCF models and deformables in; whole files out.
// A library that was built with PULLBACK_IO=OFF lacks all of it.
#ifndef PULLBACK_IO_H
#define PULLBACK_IO_H

#include <pullback/deform.h>
#include <pullback/model.h>
#include <pullback/spec.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pbLoadOptions {
  const char *allow_root;  // a second folder files may be read from; NULL: the model's own folder only
} pbLoadOptions;

// Read MJCF into a spec; errors name file, line, column and element in the context's text.
PB_API PB_NODISCARD pbStatus pbSpec_LoadMjcf(pbContext *ctx, const char *path, const pbLoadOptions *options, pbSpec **spec);
PB_API PB_NODISCARD pbStatus pbSpec_ParseMjcf(pbContext *ctx, const char *text, size_t length, const char *name, pbSpec **spec);
// Deformables (docs/deformables.md): a file with the object that "deformables" of a task is, or with such a task.
// `model`: whose bodies and geoms they hang on and meet; NULL: of none.
PB_API PB_NODISCARD pbStatus pbDeformable_Load(pbContext *ctx, const pbModel *model, const char *path,
                                               const pbLoadOptions *options, pbDeformable **deformable);
// Load and compile in one go. A name that ends in .json is a task (docs/task.md), of which the world is taken: model, deformables,
// options, contact and parameters.
PB_API PB_NODISCARD pbStatus pbModel_Load(pbContext *ctx, const char *path, const pbLoadOptions *options, pbModel **model);

// A file of these bytes that appears whole or not at all: written beside its place under another name, then renamed; on failure
// nothing is left behind. A device or pipe is written directly. pb_file with the reason; a pipe that nobody reads: pb_interrupted
// by a signal, one that is held back (SIGINT, SIGTERM) included.
PB_API PB_NODISCARD pbStatus pbFile_Write(pbContext *ctx, const char *path, const void *bytes, size_t size);
// Whether the file could be written, asked before the work that is to be written; a device or pipe is left alone.
PB_API PB_NODISCARD pbStatus pbFile_CanWrite(pbContext *ctx, const char *path);

#ifdef __cplusplus
}
#endif
#endif
