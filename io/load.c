// A model from a file of any kind: a task (JSON), MJCF or URDF.
// Tests: tests/unit/test_surface.c.
#include <stdio.h>
#include <string.h>

#include <pullback/io.h>
#include <pullback/spec.h>

#include "io/load.h"
#include "io/task/task_reader.h"

static bool is_task(const char *path) {
  size_t length = strlen(path);
  return length > 5 && strcmp(path + length - 5, ".json") == 0;
}

// What is wrong in a model says in which file it stands.
static pbStatus name_file(pbContext *ctx, const char *path, pbStatus status) {
  if (status == pb_ok || status == pb_no_memory || strstr(pbContext_Error(ctx), path)) return status;

  char text[1024];  // a copy: the error is written over itself
  snprintf(text, sizeof text, "%s", pbContext_Error(ctx));
  return pbContext_Fail(ctx, status, "%.400s: %s", path, text);
}

static pbStatus load(pbContext *ctx, const char *path, const pbLoadOptions *options, bool whole, pbModel **model) {
  *model = NULL;

  // A task says itself how its model is read.
  if (is_task(path) && options &&
      (options->urdf.floating_base || options->urdf.fuse || options->urdf.motors || options->urdf.inertia ||
       options->urdf.missing_meshes))
    return pbContext_Fail(ctx, pb_bad_argument, "%.400s: options of URDF stand in the task itself, under \"urdf\"", path);
  if (is_task(path)) return pbTask_LoadModel(ctx, path, options, whole, model);
  pbSpec *spec = NULL;
  pbStatus status = pbSpec_LoadFor(ctx, path, options, whole, &spec);
  if (status == pb_ok) status = pbSpec_Compile(spec, model);

  pbSpec_Destroy(spec);
  return name_file(ctx, path, status);
}

pbStatus pbModel_Load(pbContext *ctx, const char *path, const pbLoadOptions *options, pbModel **model) {
  return load(ctx, path, options, false, model);
}

pbStatus pbModel_LoadWhole(pbContext *ctx, const char *path, const pbLoadOptions *options, pbModel **model) {
  return load(ctx, path, options, true, model);
}
