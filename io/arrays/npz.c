// NPZ: a ZIP of NPY files. Reading of archives: zip.c.
// Tests: tests/unit/test_npz.c.
#include <string.h>

#include "base/assert.h"
#include "io/arrays/arrays.h"
#include "io/arrays/zip.h"
#include "io/file.h"

enum { MOST_HEADER = 1024 };  // bytes before the numbers of an array; usual ones are 128

// ---- reading ------------------------------------------------------------------------------------------------------

// As np.load: others are no arrays.
static bool is_array(const pbZipMember *m) {
  size_t n = strlen(m->name);
  return n >= 4 && strcmp(m->name + n - 4, ".npy") == 0;
}

static pbStatus read_member(const pbZip *zip, const pbZipMember *m, pbSource *source, pbArrays *set) {
  size_t n = strlen(m->name);
  PB_TRY(pbZip_Start(zip, m, source));

  char name[PB_ZIP_NAME];
  memcpy(name, m->name, n - 4);
  name[n - 4] = 0;

  pbStatus status = pbNpy_Read(source, name, set);
  if (status == pb_ok && source->plain) status = pbSource_Fail(source, "is longer than its array");
  return pbZip_Finish(m, source, status);
}

// All members, from the first. set NULL: looks how large all of it will be; what is not expanded costs nothing.
static pbStatus walk(pbZip *zip, pbZipMember *m, pbSource *source, pbArrays *set) {
  uint64_t plain = 0;

  pbZip_Rewind(zip);
  while (zip->passed < zip->entries) {
    PB_TRY(pbZip_Next(zip, m));
    if (!is_array(m)) continue;

    // headers come on top of what is held
    plain += m->plain < PB_ARRAY_LIMIT ? m->plain : PB_ARRAY_LIMIT;
    if (!set && plain > PB_ARRAY_LIMIT + zip->passed * MOST_HEADER)
      return pbContext_Fail(zip->ctx, pb_capacity, "%s: %s: with this array the file is more than %zu MiB when it is expanded",
                            zip->file, m->name, PB_ARRAY_LIMIT >> 20);
    if (set) PB_TRY(read_member(zip, m, source, set));
  }
  return pb_ok;
}

pbStatus pbNpz_Read(pbContext *ctx, FILE *stream, uint64_t size, const char *file, pbArrays *set) {
  pbZip zip;
  pbZipMember *m = pbContext_Alloc(ctx, sizeof *m);
  pbSource *source = pbContext_Alloc(ctx, sizeof *source);

  pbStatus status = pbZip_Open(ctx, stream, size, file, &zip);
  if (status == pb_ok && (!m || !source)) status = pbContext_Fail(ctx, pb_no_memory, "%s: out of memory", file);

  // nothing is expanded of a file that is too large
  if (status == pb_ok) status = walk(&zip, m, source, NULL);
  if (status == pb_ok) status = walk(&zip, m, source, set);

  pbZip_Close(&zip);
  pbContext_Free(ctx, source);
  pbContext_Free(ctx, m);
  return status;
}

// ---- writing ------------------------------------------------------------------------------------------------------

// What is written runs through here, so that offsets are known on devices and pipes too.
typedef struct Writer {
  FILE *stream;
  uint64_t at;
  bool failed;
} Writer;

// Nothing more is written after a failure, which Commit reports.
static void write_bytes(Writer *w, const void *data, size_t size) {
  if (fwrite(data, 1, size, w->stream) != size) w->failed = true;
  w->at += size;
}

// `value` in n bytes, the lowest first; returns where the next one goes.
static size_t put_number(unsigned char *b, size_t at, uint64_t value, int n) {
  for (int i = 0; i < n; i++) b[at + (size_t)i] = (unsigned char)(value >> (8 * i));
  return at + (size_t)n;
}

// Bytes of the NPY of an array one piece after another: 0 at the end.
typedef struct NpyBytes {
  const pbArray *array;
  bool begun;
  size_t next, text_at;
} NpyBytes;

static size_t next_piece(NpyBytes *npy, unsigned char *buffer, size_t size) {
  if (npy->begun) return pbNpy_Piece(npy->array, &npy->next, &npy->text_at, buffer, size);
  npy->begun = true;
  return pbNpy_Header(npy->array, (char *)buffer);
}

typedef struct Work {
  unsigned char plain[65536], packed[65536];
} Work;

// Compress everything; to the writer, or only to count (writer NULL). Z_OK or zlib's error.
static int compress_array(const pbArray *array, Work *work, Writer *w, uint64_t *size) {
  z_stream zip = {0};
  int code = deflateInit2(&zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  if (code != Z_OK) return code;

  NpyBytes npy = {.array = array};
  *size = 0;

  for (bool more = true; more;) {
    // One piece of the plain bytes; after the last one deflate is told to finish.
    size_t n = next_piece(&npy, work->plain, sizeof work->plain);
    more = n > 0;
    zip.next_in = work->plain;
    zip.avail_in = (uInt)n;

    // Whatever it gives for that, a buffer at a time.
    do {
      zip.next_out = work->packed;
      zip.avail_out = sizeof work->packed;
      code = deflate(&zip, more ? Z_NO_FLUSH : Z_FINISH);
      size_t out = sizeof work->packed - zip.avail_out;
      *size += out;
      if (w) write_bytes(w, work->packed, out);
    } while (zip.avail_out == 0 && code != Z_MEM_ERROR);
    more &= code != Z_MEM_ERROR;
  }
  deflateEnd(&zip);
  return code == Z_MEM_ERROR ? code : Z_OK;
}

static void measure_array(const pbArray *array, Work *work, pbZipMember *m) {
  NpyBytes npy = {.array = array};
  m->crc = 0;
  m->plain = 0;

  for (size_t n; (n = next_piece(&npy, work->plain, sizeof work->plain)) > 0;) {
    m->crc = (uint32_t)crc32(m->crc, work->plain, (uInt)n);
    m->plain += n;
  }
}

static uint64_t or_all_ones(uint64_t value, bool wide) { return wide ? 0xFFFFFFFF : value; }

// Local (signature ...0403) or central (...0201) header of a member. The date is fixed: same arrays, same bytes.
static void write_header(Writer *w, const pbZipMember *m, bool central) {
  unsigned char b[PB_ZIP_CENTRAL + 32];

  // Numbers beyond 4 bytes move to the ZIP64 extra field.
  bool wide = m->plain >= 0xFFFFFFFF || m->stored >= 0xFFFFFFFF;
  bool far = central && m->offset >= 0xFFFFFFFF;
  size_t name = strlen(m->name);
  size_t extra = (wide ? 16u : 0) + (far ? 8u : 0);

  // Signature, versions (4.5 where ZIP64 is needed, made on Unix), flags, method, time, date.
  size_t n = put_number(b, 0, central ? 0x02014b50 : 0x04034b50, 4);
  if (central) n = put_number(b, n, 45 | 3 << 8, 2);
  n = put_number(b, n, wide || far ? 45 : 20, 2);
  n = put_number(b, n, m->flags, 2);
  n = put_number(b, n, m->method, 2);
  n = put_number(b, n, 0, 2);
  n = put_number(b, n, 1 << 5 | 1, 2);  // 1980-01-01

  n = put_number(b, n, m->crc, 4);
  n = put_number(b, n, or_all_ones(m->stored, wide), 4);
  n = put_number(b, n, or_all_ones(m->plain, wide), 4);
  n = put_number(b, n, name, 2);
  n = put_number(b, n, extra ? extra + 4 : 0, 2);
  if (central) {
    n = put_number(b, n, 0, 6);                     // no comment, first disk, no text
    n = put_number(b, n, (uint64_t)0600 << 16, 4);  // permissions, as Python's zipfile sets them
    n = put_number(b, n, or_all_ones(m->offset, far), 4);
  }
  PB_ASSERT(n == (central ? (size_t)PB_ZIP_CENTRAL : (size_t)PB_ZIP_LOCAL));
  write_bytes(w, b, n);
  write_bytes(w, m->name, name);

  // The extra field: id 1, its size, what did not fit.
  n = 0;
  if (extra) {
    n = put_number(b, n, 1, 2);
    n = put_number(b, n, extra, 2);
  }
  if (wide) {
    n = put_number(b, n, m->plain, 8);
    n = put_number(b, n, m->stored, 8);
  }
  if (far) n = put_number(b, n, m->offset, 8);
  write_bytes(w, b, n);
}

// The end record, preceded by that of ZIP64 and its locator where a number does not fit.
static void write_end(Writer *w, uint64_t directory, uint64_t entries) {
  unsigned char b[PB_ZIP_END64 + PB_ZIP_LOCATOR + PB_ZIP_END];
  uint64_t end = w->at, size = end - directory;
  bool wide = directory >= 0xFFFFFFFF || size >= 0xFFFFFFFF || entries >= 0xFFFF;

  size_t n = 0;
  if (wide) {
    // ZIP64 end record: its size without these 12 bytes, versions, disks, entries here and in all, the directory.
    n = put_number(b, n, 0x06064b50, 4);
    n = put_number(b, n, PB_ZIP_END64 - 12, 8);
    n = put_number(b, n, 45, 2);
    n = put_number(b, n, 45, 2);
    n = put_number(b, n, 0, 8);
    n = put_number(b, n, entries, 8);
    n = put_number(b, n, entries, 8);
    n = put_number(b, n, size, 8);
    n = put_number(b, n, directory, 8);

    // Its locator: disk, where the record is, number of disks.
    n = put_number(b, n, 0x07064b50, 4);
    n = put_number(b, n, 0, 4);
    n = put_number(b, n, end, 8);
    n = put_number(b, n, 1, 4);
  }

  // The end record: disks, entries here and in all, the directory, no comment.
  n = put_number(b, n, 0x06054b50, 4);
  n = put_number(b, n, 0, 4);
  n = put_number(b, n, wide ? 0xFFFF : entries, 2);
  n = put_number(b, n, wide ? 0xFFFF : entries, 2);
  n = put_number(b, n, or_all_ones(size, wide), 4);
  n = put_number(b, n, or_all_ones(directory, wide), 4);
  n = put_number(b, n, 0, 2);
  PB_ASSERT(n <= sizeof b);
  write_bytes(w, b, n);
}

// Header and data of a member. Sizes and checksum stand before the data, so everything is compressed twice: pipes cannot seek.
static pbStatus write_member(const pbArrays *set, const pbArray *array, bool compressed, Work *work, Writer *w, pbZipMember *m) {
  if (strlen(array->name) + 5 > PB_ZIP_NAME) return pbContext_Fail(set->ctx, pb_bad_argument, "a name of an array is too long");

  *m = (pbZipMember){.offset = w->at, .method = compressed ? 8 : 0, .flags = 0};
  snprintf(m->name, sizeof m->name, "%s.npy", array->name);
  for (const char *c = m->name; *c; c++) {
    if (*c & 0x80) m->flags = 0x800;  // the name is UTF-8
  }

  measure_array(array, work, m);
  m->stored = m->plain;
  int code = compressed ? compress_array(array, work, NULL, &m->stored) : Z_OK;
  write_header(w, m, false);

  if (compressed && code == Z_OK) code = compress_array(array, work, w, &m->stored);

  if (code != Z_OK) return pbContext_Fail(set->ctx, pb_no_memory, "out of memory for compression");
  if (compressed) return pb_ok;

  NpyBytes npy = {.array = array};
  for (size_t n; (n = next_piece(&npy, work->plain, sizeof work->plain)) > 0;) write_bytes(w, work->plain, n);
  return pb_ok;
}

static pbStatus write_all(const pbArrays *set, bool compressed, Work *work, pbZipMember *members, Writer *w) {
  for (size_t i = 0; i < set->count && !w->failed; i++) {
    PB_TRY(write_member(set, &set->items[i], compressed, work, w, &members[i]));
  }

  uint64_t directory = w->at;
  for (size_t i = 0; i < set->count && !w->failed; i++) write_header(w, &members[i], true);
  write_end(w, directory, set->count);
  return pb_ok;
}

pbStatus pbArrays_SaveNpz(const pbArrays *set, const char *path, bool compressed) {
  pbContext *ctx = set->ctx;
  pbFile file;
  PB_TRY(pbFile_Begin(ctx, path, &file));

  Work *work = pbContext_Alloc(ctx, sizeof *work);
  pbZipMember *members = pbContext_Alloc(ctx, set->count * sizeof *members);
  Writer w = {.stream = file.stream};
  pbStatus status = work && members ? write_all(set, compressed, work, members, &w)
                                    : pbContext_Fail(ctx, pb_no_memory, "%s: out of memory", path);

  pbContext_Free(ctx, work);
  pbContext_Free(ctx, members);

  if (status == pb_ok) return pbFile_Commit(&file);
  pbFile_Abort(&file);
  return status;
}
