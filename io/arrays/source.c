// What a file of arrays is read from: plain or deflated bytes, counted and checked.
// Tests: tests/unit/test_npz.c.
#include <stdarg.h>
#include <stdio.h>

#include "io/arrays/arrays.h"
#include "io/file.h"

pbStatus pbSource_Fail(const pbSource *source, const char *format, ...) {
  if (ferror(source->stream)) return pbFile_CannotRead(source->ctx, source->file);

  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);

  return pbContext_Fail(source->ctx, pb_bad_input, "%s: %s%s%s", source->file, source->member, source->member[0] ? ": " : "",
                        text);
}

// Decompress exactly `size` bytes, taking as much from the stream as that needs.
static pbStatus inflate_bytes(pbSource *source, unsigned char *data, size_t size) {
  z_stream *zip = &source->zip;
  zip->next_out = data;
  zip->avail_out = (uInt)size;

  while (zip->avail_out) {
    if (!zip->avail_in) {
      // More input, but nothing behind the member.
      size_t take = source->stored < sizeof source->input ? (size_t)source->stored : sizeof source->input;
      if (!take || fread(source->input, 1, take, source->stream) != take) return pbSource_Fail(source, "is cut short");

      source->stored -= take;
      zip->next_in = source->input;
      zip->avail_in = (uInt)take;
    }

    uInt before_in = zip->avail_in;
    uInt before_out = zip->avail_out;
    int code = inflate(zip, Z_NO_FLUSH);

    // The end too early, no memory, damage, or no progress: each has its message.
    if (code == Z_STREAM_END && zip->avail_out) return pbSource_Fail(source, "is shorter than it says");
    if (code == Z_MEM_ERROR) return pbContext_Fail(source->ctx, pb_no_memory, "%s: out of memory", source->file);
    bool stuck = zip->avail_in == before_in && zip->avail_out == before_out;
    if ((code != Z_OK && code != Z_STREAM_END) || stuck) return pbSource_Fail(source, "the compressed data is damaged");
  }
  return pb_ok;
}

pbStatus pbSource_Read(pbSource *source, void *data, size_t size) {
  unsigned char *bytes = data;
  while (size) {
    // In pieces that zlib's counters hold.
    size_t piece = size < 1u << 20 ? size : 1u << 20;
    if (piece > source->plain) return pbSource_Fail(source, "is cut short");

    if (source->deflated) {
      PB_TRY(inflate_bytes(source, bytes, piece));
    } else {
      if (piece > source->stored || fread(bytes, 1, piece, source->stream) != piece) return pbSource_Fail(source, "is cut short");
      source->stored -= piece;
    }

    if (source->checked) source->crc = (uint32_t)crc32(source->crc, bytes, (uInt)piece);

    source->plain -= piece;
    bytes += piece;
    size -= piece;
  }
  return pb_ok;
}
