// URDF: whatever the text and the options, a model or an error with a text.
#include "steps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  pbContext *ctx = pbContext_Create(NULL);
  pbSpec *spec = NULL;
  unsigned bits = 0;

  // Options by the text, so that an input always runs the same way.
  for (size_t i = 0; i < size; i++) bits = 31 * bits + data[i];
  bits >>= 8;
  const pbLoadOptions options = {.urdf = {.floating_base = bits & 1,
                                          .fuse = bits >> 1 & 1,
                                          .motors = bits >> 2 & 1,
                                          .inertia = (pbInertiaRule)((bits >> 3) % 3)}};
  pbStatus status = pbSpec_Parse(ctx, (const char *)data, size, "fuzz.urdf", &options, &spec);
  compile_and_step(ctx, spec, status);
  pbContext_Destroy(ctx);
  return 0;
}
