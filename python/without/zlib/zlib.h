// Compression where zlib's headers are not there: the part of its interface that Pullback uses, by Python's module zlib.
#ifndef PB_WITHOUT_ZLIB_H
#define PB_WITHOUT_ZLIB_H

#include <stdbool.h>

typedef unsigned char Byte, Bytef;
typedef unsigned int uInt;
typedef unsigned long uLong, uLongf;
enum {
  Z_NO_FLUSH = 0,
  Z_FINISH = 4,
  Z_OK = 0,
  Z_STREAM_END = 1,
  Z_STREAM_ERROR = -2,
  Z_DATA_ERROR = -3,
  Z_MEM_ERROR = -4,
  Z_BUF_ERROR = -5,
  Z_DEFLATED = 8,
  Z_DEFAULT_COMPRESSION = -1,
  Z_DEFAULT_STRATEGY = 0,
  MAX_WBITS = 15
};

typedef struct z_stream {
  Bytef *next_in;
  uInt avail_in;
  Bytef *next_out;
  uInt avail_out;
  char *msg;  // of the last error, or NULL
  struct PyPacker *state;
} z_stream;

// When the extension is loaded, before all others: false with an exception of Python.
bool pyZlib_Start(void);

int inflateInit(z_stream *zip);
int inflateInit2(z_stream *zip, int window);
int inflate(z_stream *zip, int flush);
int inflateEnd(z_stream *zip);
int deflateInit2(z_stream *zip, int level, int method, int window, int memory, int strategy);
// Z_MEM_ERROR where it went wrong.
int deflate(z_stream *zip, int flush);
int deflateEnd(z_stream *zip);
uLong crc32(uLong crc, const Bytef *bytes, uInt size);
// Exactly one packed text; *size is the room, then what came of it.
int uncompress(Bytef *out, uLongf *size, const Bytef *packed, uLong packed_size);
#endif
