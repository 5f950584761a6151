#include <pullback/io.h>

pbStatus pbModel_Load(pbContext *ctx, const char *path, const pbLoadOptions *options, pbModel **model) {
  *model = NULL;
  pbSpec *spec = NULL;
  pbStatus status = pbSpec_LoadMjcf(ctx, path, options, &spec);
  if (status == pb_ok) status = pbSpec_Compile(spec, model);
  pbSpec_Destroy(spec);
  return status;
}
