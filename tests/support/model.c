// Models of texts (support.h): a file of its own, as engines without file formats have none.
#include <string.h>

#include <pullback/io.h>
#include <pullback/spec.h>

#include "support/support.h"

pbModel *model_of_text(pbContext *ctx, const char *text) {
  pbSpec *spec = NULL;
  pbModel *model = NULL;
  good(ctx, pbSpec_ParseMjcf(ctx, text, strlen(text), "text", &spec));
  good(ctx, pbSpec_Compile(spec, &model));
  pbSpec_Destroy(spec);
  return model;
}
