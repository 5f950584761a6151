// Inside of array input and output: where bytes of one NPY come from, and the set that receives them.
#ifndef PB_IO_ARRAYS_H
#define PB_IO_ARRAYS_H

#include <stdio.h>
#include <zlib.h>

#include <pullback/array.h>

struct pbArrays {
  pbContext *ctx;
  pbArray *items;
  size_t count, capacity, bytes;  // bytes: of all data held
  unsigned *slots;                // 2 * capacity: a hash table of names, each the number of an item + 1; 0: free
  struct pbCsv *csv;              // what else is known of the columns of a CSV (csv.h); NULL: out of no such file
};

// The bytes of one array: a whole file, or one member of a ZIP.
typedef struct pbSource {
  pbContext *ctx;
  const char *file, *member;  // for messages; member "" in an NPY
  FILE *stream;
  uint64_t stored;  // bytes still to be taken from the stream
  uint64_t plain;   // bytes still to come after decompression
  bool deflated, checked;
  uint32_t crc;  // of what has come so far (when checked)
  z_stream zip;
  unsigned char input[16384];
} pbSource;

// Exactly `size` bytes, or pb_bad_input ("cut short").
PB_NODISCARD pbStatus pbSource_Read(pbSource *source, void *data, size_t size);
// pb_bad_input "file: member: text"; pb_file with the reason where the stream could not be read.
pbStatus pbSource_Fail(const pbSource *source, const char *format, ...) PB_PRINTF(2, 3);

// Read one NPY into the set under `name`. Everything but the last byte count is checked; the source's `plain` is what
// follows the array.
PB_NODISCARD pbStatus pbNpy_Read(pbSource *source, const char *name, pbArrays *set);
// Header of the NPY of an array into text (at most PB_NPY_HEADER bytes); returns its length.
enum { PB_NPY_HEADER = 512 };
size_t pbNpy_Header(const pbArray *array, char *text);
// The data behind it in pieces: fills `buffer` from element `*next` on, returns the bytes, 0 at the end.
size_t pbNpy_Piece(const pbArray *array, size_t *next, size_t *text_at, unsigned char *buffer, size_t size);

PB_NODISCARD pbStatus pbNpz_Read(pbContext *ctx, FILE *stream, uint64_t size, const char *file, pbArrays *set);

// Room for an array of `elements` of `element_size` bytes, zeroed; a name twice, or too much, is an error. The set owns it.
PB_NODISCARD pbStatus pbArrays_Room(pbArrays *set, const char *name, pbArrayType type, int ndim, const size_t *shape,
                                    size_t bytes, pbArray **array);

#endif
