// Pictures by libpng, row by row. libpng jumps out of its calls on an error, so what must be freed lies outside of the jump.
// Tests: tests/oracle/test_hfield.py, tests/oracle/test_hfield_parameters.py.
#include "io/image/png.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "io/file.h"

enum {
  FILE_LIMIT = 128 << 20,  // bytes
  PIXELS = 1 << 25,
  SIDE = 1 << 20  // least limit libpng has room for in both directions, of one side
};

typedef struct png_reader {
  pbContext *ctx;
  const char *name;
  const unsigned char *at, *end;
  char error[160];
  png_structp png;
  png_infop info;
  pbGray *gray;
} png_reader;

static void take_bytes(png_structp png, png_bytep out, size_t size) {
  png_reader *r = png_get_io_ptr(png);
  if ((size_t)(r->end - r->at) < size) png_error(png, "the file ends too early");
  memcpy(out, r->at, size);
  r->at += size;
}

static PNG_NORETURN void note_error(png_structp png, png_const_charp text) {
  png_reader *r = png_get_error_ptr(png);
  snprintf(r->error, sizeof r->error, "%s", text);
  longjmp(png_jmpbuf(png), 1);
}

static void pass_over(png_structp png, png_const_charp text) {  // of doubtful comments and profiles
  (void)png;
  (void)text;
}

// The number of bytes of a row once it is 8 bits a channel.
static size_t prepare_rows(png_reader *r) {
  int type = png_get_color_type(r->png, r->info);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(r->png);
  else if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(r->png);

  png_set_strip_16(r->png);
  (void)png_set_interlace_handling(r->png);
  png_read_update_info(r->png, r->info);
  return png_get_rowbytes(r->png, r->info);
}

// Rows of an interlaced picture come in passes, so all are kept: `stride` bytes each, of which the first of every pixel counts.
static void keep_first_channel(pbGray *gray, const unsigned char *bytes, size_t stride) {
  int channels = (int)(stride / (size_t)gray->width);
  for (int y = 0; y < gray->height; y++) {
    for (int x = 0; x < gray->width; x++)
      gray->pixel[(size_t)y * (size_t)gray->width + (size_t)x] = bytes[(size_t)y * stride + (size_t)(x * channels)];
  }
}

static void read_size(png_reader *r) {
  png_set_user_limits(r->png, SIDE, SIDE);
  png_read_info(r->png, r->info);

  png_uint_32 width = png_get_image_width(r->png, r->info), height = png_get_image_height(r->png, r->info);
  if ((uint64_t)width * height > PIXELS) png_error(r->png, "it has more than 2^25 pixels");
  r->gray->width = (int)width;
  r->gray->height = (int)height;
}

// False: r->error says why, or memory is missing.
static bool read_picture(png_reader *r, unsigned char **bytes) {
  if (setjmp(png_jmpbuf(r->png))) return false;

  png_set_read_fn(r->png, r, take_bytes);
  read_size(r);
  size_t stride = prepare_rows(r), height = (size_t)r->gray->height;
  PB_ASSERT(stride % (size_t)r->gray->width == 0);

  *bytes = pbContext_AllocArray(r->ctx, height, stride);
  r->gray->pixel = pbContext_AllocArray(r->ctx, height, (size_t)r->gray->width);
  if (!*bytes || !r->gray->pixel) return false;

  int passes = png_get_interlace_type(r->png, r->info) == PNG_INTERLACE_ADAM7 ? PNG_INTERLACE_ADAM7_PASSES : 1;
  for (int pass = 0; pass < passes; pass++) {
    for (size_t y = 0; y < height; y++) png_read_row(r->png, *bytes + y * stride, NULL);
  }
  png_read_end(r->png, NULL);
  keep_first_channel(r->gray, *bytes, stride);
  return true;
}

pbStatus pbGray_ParsePng(pbContext *ctx, const char *name, const void *bytes, size_t size, pbGray *gray) {
  *gray = (pbGray){0};
  if (size < 8 || png_sig_cmp(bytes, 0, 8) != 0) return pbContext_Fail(ctx, pb_bad_input, "%s: no PNG picture", name);

  png_reader r = {.ctx = ctx, .name = name, .at = bytes, .end = (const unsigned char *)bytes + size, .gray = gray};
  r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, note_error, pass_over);
  r.info = r.png ? png_create_info_struct(r.png) : NULL;

  unsigned char *rows = NULL;
  bool read = r.info && read_picture(&r, &rows);
  png_destroy_read_struct(&r.png, &r.info, NULL);
  pbContext_Free(ctx, rows);
  if (read) return pb_ok;

  pbContext_Free(ctx, gray->pixel);
  *gray = (pbGray){0};

  // The library has no other sign of it than its texts: "Out of memory", "insufficient memory".
  if (!*r.error || strstr(r.error, "memory")) return pbContext_Fail(ctx, pb_no_memory, "%s: no memory for the picture", name);
  return pbContext_Fail(ctx, pb_bad_input, "%s: %s", name, r.error);
}

pbStatus pbGray_LoadPng(pbContext *ctx, const char *path, pbGray *gray) {
  char *bytes;
  size_t size;
  *gray = (pbGray){0};
  PB_TRY(pbFile_ReadAll(ctx, path, FILE_LIMIT, &bytes, &size));

  pbStatus status = pbGray_ParsePng(ctx, path, bytes, size, gray);
  pbContext_Free(ctx, bytes);
  return status;
}
