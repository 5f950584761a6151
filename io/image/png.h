// PNG pictures as heights: one channel of 8 bits.
#ifndef PB_IO_PNG_H
#define PB_IO_PNG_H

#include <pullback/base.h>

typedef struct pbGray {
  int width, height;
  unsigned char *pixel;  // height rows of width, from above; the caller frees it (pbContext_Free)
} pbGray;

// Of color the red channel, of 16 bits the higher 8, transparency and gamma unheeded: what MuJoCo takes. pb_file; pb_bad_input
// with the reason: no picture, a broken one, or more than 2^25 pixels.
PB_NODISCARD pbStatus pbGray_LoadPng(pbContext *ctx, const char *path, pbGray *gray);
// The same from memory; name: what messages call it.
PB_NODISCARD pbStatus pbGray_ParsePng(pbContext *ctx, const char *name, const void *bytes, size_t size, pbGray *gray);

#endif
