// Pictures where libpng's headers are not there: the part of its interface that Pullback uses, for reading the first channel of a
// picture with 8 bits. What it gives has one channel, the first one; what it says of broken files are libpng's words.
#ifndef PB_WITHOUT_PNG_H
#define PB_WITHOUT_PNG_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#define PNG_LIBPNG_VER_STRING "pullback"
#define PNG_NORETURN          __attribute__((noreturn))
enum { PNG_COLOR_TYPE_GRAY = 0, PNG_COLOR_TYPE_PALETTE = 3, PNG_INTERLACE_ADAM7 = 1, PNG_INTERLACE_ADAM7_PASSES = 7 };

typedef struct png_struct *png_structp;
typedef void *png_infop;  // all is in the png_structp
typedef uint32_t png_uint_32;
typedef unsigned char *png_bytep;
typedef const unsigned char *png_const_bytep;
typedef const char *png_const_charp;
typedef void (*png_error_ptr)(png_structp png, png_const_charp text);
typedef void (*png_rw_ptr)(png_structp png, png_bytep out, size_t size);

// 0: it begins as a PNG does.
int png_sig_cmp(png_const_bytep bytes, size_t start, size_t size);
// fail must not return; it finds the place to jump to in png_jmpbuf. warn is not called: of doubtful parts nothing is said.
png_structp png_create_read_struct(png_const_charp version, void *user, png_error_ptr fail, png_error_ptr warn);
png_infop png_create_info_struct(png_structp png);
void png_destroy_read_struct(png_structp *png, png_infop *info, png_infop *end);
jmp_buf *png_jump_of(png_structp png);
#define png_jmpbuf(png) (*png_jump_of(png))
PNG_NORETURN void png_error(png_structp png, png_const_charp text);
void *png_get_error_ptr(png_structp png);
void *png_get_io_ptr(png_structp png);
void png_set_read_fn(png_structp png, void *user, png_rw_ptr read);
void png_set_user_limits(png_structp png, png_uint_32 width, png_uint_32 height);

// All up to the picture itself.
void png_read_info(png_structp png, png_infop info);
png_uint_32 png_get_image_width(png_structp png, png_infop info);
png_uint_32 png_get_image_height(png_structp png, png_infop info);
int png_get_color_type(png_structp png, png_infop info);
int png_get_interlace_type(png_structp png, png_infop info);
size_t png_get_rowbytes(png_structp png, png_infop info);

// What is done anyway.
void png_set_palette_to_rgb(png_structp png);
void png_set_expand_gray_1_2_4_to_8(png_structp png);
void png_set_strip_16(png_structp png);
int png_set_interlace_handling(png_structp png);
void png_read_update_info(png_structp png, png_infop info);

// The next row of the picture, of a pass if it is interlaced: then rows fill up from pass to pass.
void png_read_row(png_structp png, png_bytep row, png_bytep display);
void png_read_end(png_structp png, png_infop info);

#endif
