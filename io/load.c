#include <string.h>

#include <pullback/io.h>

#include "io/task_reader.h"

static bool is_task(const char *path) {
  size_t length = strlen(path);
  return length > 5 && strcmp(path + length - 5, ".json") == 0;
}

pbStatus pbModel_Load(pbContext *ctx, const char *path, const pbLoadOptions *options, pbModel **model) {
  *model = NULL;
  if (is_task(path)) return pbTask_LoadModel(ctx, path, options ? options->allow_root : NULL, model);
  pbSpec *spec = NULL;
  pbStatus status = pbSpec_LoadMjcf(ctx, path, options, &spec);
  if (status == pb_ok) status = pbSpec_Compile(spec, model);
  pbSpec_Destroy(spec);
  return status;
}
