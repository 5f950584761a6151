// Records of a size (4 bytes) and a picture, each read; by libpng or by what stands in for it.
#include <stdio.h>
#include <stdlib.h>

#include "base/context.h"
#include "io/image/png.h"

int main(void) {
  unsigned size;
  pbContext *ctx = pbContext_Create(NULL);
  while (fread(&size, sizeof size, 1, stdin) == 1) {
    char *bytes = malloc(size + !size);
    if (!bytes || fread(bytes, 1, size, stdin) != size) return 1;

    pbGray gray;
    unsigned long sum = 0;
    pbStatus status = pbGray_ParsePng(ctx, "x", bytes, size, &gray);
    for (int i = 0; i < gray.width * gray.height; i++) sum = sum * 33 + gray.pixel[i];
    if (status == pb_ok) printf("%d %d %lu\n", gray.width, gray.height, sum);
    else puts(pbContext_Error(ctx));
    pbContext_Free(ctx, gray.pixel);
    free(bytes);
  }
  pbContext_Destroy(ctx);
  return 0;
}
