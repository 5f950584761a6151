// A reader of PNG (ISO/IEC 15948) for pictures whose first channel counts: chunks, zlib's stream across them, filters of rows, Adam7.
#include <png.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { INPUT = 8192, MOST_CHANNELS = 4, PALETTE = 256, MOST_LENGTH = 0x7FFFFFFF };
enum { HAS_COLOR = 2, HAS_ALPHA = 4 };  // bits of a color type

struct png_struct {
  void *user, *io;
  png_error_ptr fail;
  png_rw_ptr read;
  jmp_buf jump;
  png_uint_32 most_width, most_height;

  // The chunk that is being read.
  char name[5];
  png_uint_32 left, crc;

  bool headed, has_palette, has_data, ended;
  png_uint_32 width, height;
  int depth, color, interlace;
  unsigned char red[PALETTE];

  // Rows of the present pass: the last one and this one, each behind the byte of its filter.
  z_stream zip;
  bool unpacking, fed, unpacked;  // zip is open; has had input; is at its end
  unsigned char input[INPUT], *last, *row;
  int pass;
  png_uint_32 y;
};

// ---- beginnings and ends ------------------------------------------------------------------------------------------------

int png_sig_cmp(png_const_bytep bytes, size_t start, size_t size) {
  return memcmp(bytes + start, "\x89PNG\r\n\x1a\n" + start, size);
}

png_structp png_create_read_struct(png_const_charp version, void *user, png_error_ptr fail, png_error_ptr warn) {
  (void)version;
  (void)warn;
  png_structp png = calloc(1, sizeof *png);
  if (!png) return NULL;
  png->user = user;
  png->fail = fail;
  png->most_width = png->most_height = MOST_LENGTH;
  return png;
}

png_infop png_create_info_struct(png_structp png) { return png; }

void png_destroy_read_struct(png_structp *png, png_infop *info, png_infop *end) {
  (void)info;
  (void)end;
  if (!*png) return;
  if ((*png)->unpacking) inflateEnd(&(*png)->zip);
  free((*png)->last);
  free((*png)->row);
  free(*png);
  *png = NULL;
}

jmp_buf *png_jump_of(png_structp png) { return &png->jump; }
void *png_get_error_ptr(png_structp png) { return png->user; }
void *png_get_io_ptr(png_structp png) { return png->io; }

void png_set_read_fn(png_structp png, void *user, png_rw_ptr read) {
  png->io = user;
  png->read = read;
}

void png_set_user_limits(png_structp png, png_uint_32 width, png_uint_32 height) {
  png->most_width = width;
  png->most_height = height;
}

void png_error(png_structp png, png_const_charp text) {
  png->fail(png, text);
  abort();
}

static PNG_NORETURN void chunk_error(png_structp png, const char *text) {
  char whole[160], *to = whole;
  for (const char *c = png->name; c < png->name + 4; c++) {
    bool letter = (*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z');
    to += snprintf(to, 8, letter ? "%c" : "[%02X]", letter ? *c : (unsigned char)*c);
  }
  snprintf(to, sizeof whole - (size_t)(to - whole), ": %s", text);
  png_error(png, whole);
}

// ---- chunks -------------------------------------------------------------------------------------------------------------

static png_uint_32 number_at(const unsigned char *b) {
  return (png_uint_32)b[0] << 24 | (png_uint_32)b[1] << 16 | (png_uint_32)b[2] << 8 | b[3];
}

// Bytes of the chunk; it has them.
static void take(png_structp png, unsigned char *out, png_uint_32 size) {
  png->read(png, out, size);
  png->crc = (png_uint_32)crc32(png->crc, out, size);
  png->left -= size;
}

static bool is_chunk(png_structp png, const char *name) { return !strcmp(png->name, name); }

static void begin_chunk(png_structp png) {
  unsigned char head[8];
  png->read(png, head, sizeof head);
  if (number_at(head) > MOST_LENGTH) png_error(png, "PNG unsigned integer out of range");

  png->left = number_at(head);
  memcpy(png->name, head + 4, 4);
  png->crc = (png_uint_32)crc32(0, head + 4, 4);
  for (int i = 4; i < 8; i++) {
    int letter = head[i] | 0x20;
    if (letter < 'a' || letter > 'z') chunk_error(png, "invalid chunk type");
  }
}

// What is left of the chunk, and its checksum; a wrong one of a chunk that need not be there is passed over.
static void end_chunk(png_structp png) {
  unsigned char bytes[INPUT];
  while (png->left) take(png, bytes, png->left < INPUT ? png->left : INPUT);

  bool needed = !(png->name[0] & 0x20);
  png->read(png, bytes, 4);
  if (needed && number_at(bytes) != png->crc) chunk_error(png, "CRC error");
}

static void read_header(png_structp png) {
  unsigned char b[13];
  if (png->headed) chunk_error(png, "out of place");
  if (png->left != sizeof b) chunk_error(png, "invalid");
  take(png, b, sizeof b);
  end_chunk(png);

  png->headed = true;
  png->width = number_at(b);
  png->height = number_at(b + 4);
  png->depth = b[8];
  png->color = b[9];
  png->interlace = b[12];
  if (png->width > MOST_LENGTH || png->height > MOST_LENGTH) png_error(png, "PNG unsigned integer out of range");

  // Which depths a kind of color may have: as bits of their number.
  static const int depths[] = {1 | 2 | 4 | 8 | 16, 0, 8 | 16, 1 | 2 | 4 | 8, 8 | 16, 0, 8 | 16};
  int d = png->depth;
  bool known = png->color <= 6 && d && (depths[png->color] & d) == d && (d & (d - 1)) == 0;
  bool sized = png->width && png->height && png->width <= png->most_width && png->height <= png->most_height;
  if (!known || !sized || b[10] || b[11] || png->interlace > PNG_INTERLACE_ADAM7) png_error(png, "Invalid IHDR data");
}

static void read_palette(png_structp png) {
  bool indexed = png->color == PNG_COLOR_TYPE_PALETTE;
  if (!png->headed) chunk_error(png, "missing IHDR");
  if (png->has_palette) chunk_error(png, "duplicate");
  png->has_palette = true;

  bool wrong = png->left > 3 * PALETTE || png->left % 3, empty = !png->left;
  png_uint_32 most = indexed ? 1u << png->depth : PALETTE;
  for (png_uint_32 i = 0; i < most && png->left && !wrong; i++) {
    unsigned char rgb[3];
    take(png, rgb, sizeof rgb);
    png->red[i] = rgb[0];
  }
  end_chunk(png);
  if (wrong && indexed) chunk_error(png, "invalid");
  if (!wrong && empty && png->color & HAS_COLOR) png_error(png, "Invalid palette");
}

// Any chunk but those of the picture.
static void read_chunk(png_structp png) {
  if (is_chunk(png, "IHDR")) {
    read_header(png);
  } else if (is_chunk(png, "PLTE")) {
    read_palette(png);
  } else if (is_chunk(png, "IEND")) {
    if (!png->has_data) chunk_error(png, "out of place");
    png->ended = true;
    end_chunk(png);
  } else {
    // Those that the standard names come behind the header.
    static const char named[] = "bKGD cHRM eXIf gAMA hIST iCCP iTXt oFFs pCAL pHYs sBIT sCAL sPLT sRGB tEXt tIME tRNS zTXt";
    bool needed = !(png->name[0] & 0x20);
    if (!png->headed && strstr(named, png->name)) chunk_error(png, "missing IHDR");
    end_chunk(png);
    if (needed) chunk_error(png, "unhandled critical chunk");
  }
}

void png_read_info(png_structp png, png_infop info) {
  (void)info;
  unsigned char signature[8];
  png->read(png, signature, sizeof signature);

  for (begin_chunk(png); !is_chunk(png, "IDAT"); begin_chunk(png)) read_chunk(png);
  if (!png->headed) chunk_error(png, "Missing IHDR before IDAT");
  if (png->color == PNG_COLOR_TYPE_PALETTE && !png->has_palette) chunk_error(png, "Missing PLTE before IDAT");
  png->has_data = true;
}

png_uint_32 png_get_image_width(png_structp png, png_infop info) {
  (void)info;
  return png->width;
}

png_uint_32 png_get_image_height(png_structp png, png_infop info) {
  (void)info;
  return png->height;
}

int png_get_color_type(png_structp png, png_infop info) {
  (void)info;
  return png->color;
}

int png_get_interlace_type(png_structp png, png_infop info) {
  (void)info;
  return png->interlace;
}

size_t png_get_rowbytes(png_structp png, png_infop info) {
  (void)info;
  return png->width;
}

void png_set_palette_to_rgb(png_structp png) { (void)png; }
void png_set_expand_gray_1_2_4_to_8(png_structp png) { (void)png; }
void png_set_strip_16(png_structp png) { (void)png; }
int png_set_interlace_handling(png_structp png) { return png->interlace ? PNG_INTERLACE_ADAM7_PASSES : 1; }

// ---- the stream ---------------------------------------------------------------------------------------------------------

// More of the picture's chunks into the input.
static void feed(png_structp png) {
  while (!png->left) {
    end_chunk(png);
    begin_chunk(png);
    if (!is_chunk(png, "IDAT")) png_error(png, "Not enough image data");
  }

  png_uint_32 some = png->left < INPUT ? png->left : INPUT;
  take(png, png->input, some);
  png->zip.next_in = png->input;
  png->zip.avail_in = some;
  if (!png->fed && png->input[0] >> 4 > 7) chunk_error(png, "invalid window size (libpng)");
  png->fed = true;
}

static void unpack(png_structp png, unsigned char *out, size_t size) {
  png->zip.next_out = out;
  png->zip.avail_out = (uInt)size;

  while (png->zip.avail_out) {
    if (!png->zip.avail_in) feed(png);
    int code = png->unpacked ? Z_STREAM_END : inflate(&png->zip, Z_NO_FLUSH);
    png->unpacked = code == Z_STREAM_END;
    if (png->unpacked && png->zip.avail_out) png_error(png, "Not enough image data");
    if (code == Z_MEM_ERROR) png_error(png, "insufficient memory");
    if (code != Z_OK && code != Z_STREAM_END) chunk_error(png, png->zip.msg ? png->zip.msg : "damaged LZ stream");
  }
}

// ---- rows ---------------------------------------------------------------------------------------------------------------

typedef struct Pass {
  png_uint_32 x, y, dx, dy;  // its first pixel, and steps to the next
} Pass;

static Pass pass_of(png_structp png, int pass) {
  static const Pass adam7[] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
  return png->interlace ? adam7[pass] : (Pass){0, 0, 1, 1};
}

static int channels_of(int color) {
  return color == PNG_COLOR_TYPE_PALETTE ? 1 : 1 + (color & HAS_COLOR) + (color & HAS_ALPHA) / HAS_ALPHA;
}

static png_uint_32 pixels_of(png_structp png, Pass p) { return p.x < png->width ? (png->width - p.x + p.dx - 1) / p.dx : 0; }

static size_t bytes_of(png_structp png, png_uint_32 pixels) {
  return ((size_t)pixels * (size_t)(png->depth * channels_of(png->color)) + 7) / 8;
}

void png_read_update_info(png_structp png, png_infop info) {
  (void)info;
  size_t most = bytes_of(png, png->width) + 1;
  png->last = calloc(1, most);
  png->row = calloc(1, most);
  if (!png->last || !png->row || inflateInit(&png->zip) != Z_OK) png_error(png, "insufficient memory");
  png->unpacking = true;
}

static int paeth(int left, int above, int corner) {
  int to_left = abs(above - corner), to_above = abs(left - corner), to_corner = abs(left + above - 2 * corner);
  if (to_left <= to_above && to_left <= to_corner) return left;
  return to_above <= to_corner ? above : corner;
}

// Rows hold differences from their neighbours: on the left by a pixel, above, or of both.
static void undo_filter(png_structp png, size_t bytes) {
  unsigned char *row = png->row + 1, *above = png->last + 1;
  size_t pixel = bytes_of(png, 1);
  int filter = png->row[0];
  if (filter > 4) png_error(png, "bad adaptive filter value");

  for (size_t i = 0; i < bytes && filter; i++) {
    int left = i < pixel ? 0 : row[i - pixel], corner = i < pixel ? 0 : above[i - pixel];
    const int expected[] = {0, left, above[i], (left + above[i]) / 2, paeth(left, above[i], corner)};
    row[i] = (unsigned char)(row[i] + expected[filter]);
  }
}

// The first channel of a pixel in 8 bits.
static unsigned char first_channel(png_structp png, png_uint_32 x) {
  const unsigned char *row = png->row + 1;
  if (png->depth >= 8) return png->color == PNG_COLOR_TYPE_PALETTE ? png->red[row[x]] : row[bytes_of(png, x)];

  size_t bit = (size_t)x * (size_t)png->depth;
  int most = (1 << png->depth) - 1, value = row[bit / 8] >> (8 - png->depth - (int)(bit % 8)) & most;
  return (unsigned char)(png->color == PNG_COLOR_TYPE_PALETTE ? png->red[value] : value * (255 / most));
}

void png_read_row(png_structp png, png_bytep row, png_bytep display) {
  (void)display;
  Pass p = pass_of(png, png->pass);
  png_uint_32 pixels = pixels_of(png, p), y = png->y++;

  if (pixels && y >= p.y && (y - p.y) % p.dy == 0) {
    size_t bytes = bytes_of(png, pixels);
    unpack(png, png->row, bytes + 1);
    undo_filter(png, bytes);
    for (png_uint_32 i = 0; i < pixels; i++) row[p.x + i * p.dx] = first_channel(png, i);

    unsigned char *done = png->last;
    png->last = png->row;
    png->row = done;
  }

  // Each pass begins below a row of zeros.
  if (png->y < png->height) return;
  png->y = 0;
  png->pass++;
  memset(png->last, 0, bytes_of(png, png->width) + 1);
}

// What follows the picture must be whole, too.
void png_read_end(png_structp png, png_infop info) {
  (void)info;
  unsigned char beyond[INPUT];
  for (bool more = !png->unpacked, extra = false; more;) {
    if (!png->zip.avail_in) feed(png);
    png->zip.next_out = beyond;
    png->zip.avail_out = sizeof beyond;
    int code = inflate(&png->zip, Z_NO_FLUSH);
    extra |= png->zip.avail_out < sizeof beyond;
    more = code == Z_OK && extra;
  }

  for (end_chunk(png); !png->ended;) {
    begin_chunk(png);
    if (is_chunk(png, "IEND") || is_chunk(png, "IHDR")) read_chunk(png);
    else end_chunk(png);
  }
}
