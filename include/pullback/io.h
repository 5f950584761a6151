// Pullback: files. MJCF models and deformables in; NPY/NPZ arrays in and out.
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

#ifdef __cplusplus
}
#endif
#endif
