// MJCF: whatever the text, a model or an error with a text.
#include "steps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  pbContext *ctx = pbContext_Create(NULL);
  pbSpec *spec = NULL;
  pbStatus status = pbSpec_ParseMjcf(ctx, (const char *)data, size, "fuzz.xml", &spec);
  compile_and_step(ctx, spec, status);
  pbContext_Destroy(ctx);
  return 0;
}
