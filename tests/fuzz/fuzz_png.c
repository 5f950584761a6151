// PNG pictures: whatever the bytes, a gray picture or an error with a text.
#include <stdlib.h>

#include "base/context.h"
#include "io/image/png.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  pbContext *ctx = pbContext_Create(NULL);
  pbGray gray;
  pbStatus status = pbGray_ParsePng(ctx, "fuzz.png", data, size, &gray);
  if (status != pb_ok && !pbContext_Error(ctx)[0]) abort();
  if ((status == pb_ok) != (gray.pixel != NULL)) abort();

  unsigned sum = 0;
  for (size_t i = 0; status == pb_ok && i < (size_t)gray.width * (size_t)gray.height; i++) sum += gray.pixel[i];
  volatile unsigned sink = sum;
  (void)sink;
  pbContext_Free(ctx, gray.pixel);
  pbContext_Destroy(ctx);
  return 0;
}
