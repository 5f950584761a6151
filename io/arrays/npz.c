// NPZ: a ZIP of NPY files. The central directory is what counts; sizes and offsets in it are checked against the file
// before anything is allocated. Formats: PKWARE APPNOTE 4.3 (end record, central and local headers, ZIP64 extra field).
// Tests: tests/unit/test_npz.c.
#include <string.h>

#include "base/assert.h"
#include "io/arrays/arrays.h"
#include "io/file.h"

enum {
  END_SIZE = 22,
  END64_SIZE = 56,
  LOCATOR_SIZE = 20,
  CENTRAL_SIZE = 46,
  LOCAL_SIZE = 30,
  MOST_COMMENT = 65535,
  MOST_NAME = 1024,
  MOST_HEADER = 1024,  // usual ones are 128 bytes
  MOST_DIRECTORY = 64 << 20,
  MOST_RATIO = 1032  // deflate's best ratio
};

typedef struct Member {
  char name[MOST_NAME];
  uint64_t stored, plain, offset;
  uint32_t crc;
  unsigned method, flags;
} Member;

typedef struct Zip {
  pbContext *ctx;
  FILE *stream;
  const char *file;
  uint64_t size;                       // of the file
  uint64_t directory, directory_size;  // of the central directory
  uint64_t entries;
} Zip;

static uint64_t get_number(const unsigned char *b, int n) {
  uint64_t value = 0;
  for (int i = 0; i < n; i++) value |= (uint64_t)b[i] << (8 * i);
  return value;
}

static pbStatus bad_zip(const Zip *zip, const char *what) {
  return pbContext_Fail(zip->ctx, pb_bad_input, "%s: %s", zip->file, what);
}

static pbStatus read_at(const Zip *zip, uint64_t offset, void *data, size_t size) {
  if (offset > zip->size || size > zip->size - offset) return bad_zip(zip, "is cut short");
  if (fseeko(zip->stream, (off_t)offset, SEEK_SET) != 0 || fread(data, 1, size, zip->stream) != size) {
    return ferror(zip->stream) ? pbFile_CannotRead(zip->ctx, zip->file) : bad_zip(zip, "is cut short");
  }
  return pb_ok;
}

// ---- reading ------------------------------------------------------------------------------------------------------

// Where the ZIP64 end record is, its numbers replace those of the plain one.
static pbStatus read_end64(Zip *zip, uint64_t end) {
  unsigned char b[END64_SIZE];

  // The locator lies right before the plain end record and says where the other one is.
  if (end < LOCATOR_SIZE) return pb_ok;
  PB_TRY(read_at(zip, end - LOCATOR_SIZE, b, LOCATOR_SIZE));
  if (get_number(b, 4) != 0x07064b50) return pb_ok;

  PB_TRY(read_at(zip, get_number(b + 8, 8), b, END64_SIZE));
  if (get_number(b, 4) != 0x06064b50) return bad_zip(zip, "the ZIP64 end record is damaged");

  zip->entries = get_number(b + 32, 8);
  zip->directory_size = get_number(b + 40, 8);
  zip->directory = get_number(b + 48, 8);
  return pb_ok;
}

static pbStatus find_end(Zip *zip) {
  // The record is the last thing in the file, but for a comment of any length: look for its signature from the end.
  size_t span = zip->size < END_SIZE + MOST_COMMENT ? (size_t)zip->size : END_SIZE + MOST_COMMENT;
  if (span < END_SIZE) return bad_zip(zip, "is cut short");

  unsigned char *tail = pbContext_Alloc(zip->ctx, span);
  if (!tail) return pbContext_Fail(zip->ctx, pb_no_memory, "%s: out of memory", zip->file);

  pbStatus status = read_at(zip, zip->size - span, tail, span);
  size_t at = span - END_SIZE + 1;
  while (status == pb_ok && at > 0 && get_number(tail + at - 1, 4) != 0x06054b50) at--;

  if (status == pb_ok && at == 0) status = bad_zip(zip, "the end of the ZIP is missing; the file is cut short");
  if (status == pb_ok) {
    const unsigned char *end = tail + at - 1;
    zip->entries = get_number(end + 10, 2);
    zip->directory_size = get_number(end + 12, 4);
    zip->directory = get_number(end + 16, 4);
    status = read_end64(zip, zip->size - span + at - 1);
  }

  pbContext_Free(zip->ctx, tail);
  if (status != pb_ok) return status;

  // What it says must lie in the file, before anything is allocated for it.
  if (zip->directory > zip->size || zip->directory_size > zip->size - zip->directory || zip->directory_size > MOST_DIRECTORY ||
      zip->entries > zip->directory_size / CENTRAL_SIZE) {
    return bad_zip(zip, "the ZIP's directory does not lie in the file");
  }
  return pb_ok;
}

// ZIP64 extra field: 8-byte values for those of plain size, stored size and offset that did not fit 4 bytes.
static pbStatus read_extra64(const Zip *zip, const unsigned char *b, size_t size, Member *m) {
  uint64_t *wide[3] = {&m->plain, &m->stored, &m->offset};

  // Fields follow each other: id, size, that many bytes. Those of other ids are passed over.
  for (size_t at = 0; at + 4 <= size;) {
    size_t id = get_number(b + at, 2);
    size_t n = get_number(b + at + 2, 2);
    if (n > size - at - 4) break;

    const unsigned char *value = b + at + 4;
    const unsigned char *end = value + n;
    int most = id == 1 ? 3 : 0;
    for (int i = 0; i < most; i++) {
      if (*wide[i] != 0xFFFFFFFF) continue;
      if (end - value < 8) return bad_zip(zip, "a ZIP64 field is cut short");
      *wide[i] = get_number(value, 8);
      value += 8;
    }

    at += 4 + n;
  }
  return pb_ok;
}

// Bytes that follow the first one of a character in UTF-8; 0 where it begins none.
static int count_followers(unsigned char first) {
  if (first >= 0xF0 && first < 0xF5) return 3;
  if (first >= 0xE0 && first < 0xF0) return 2;
  return first >= 0xC2 && first < 0xE0 ? 1 : 0;
}

// Names go into messages: nothing but printable UTF-8.
static bool is_printable(const unsigned char *b, size_t n) {
  for (size_t i = 0; i < n;) {
    int more = count_followers(b[i]);
    if (b[i] < 32 || b[i] == 127 || (b[i] >= 128 && !more)) return false;

    for (i++; more > 0; more--, i++) {
      if (i >= n || (b[i] & 0xC0) != 0x80) return false;
    }
  }
  return true;
}

// One entry of the central directory: *used bytes, a member.
static pbStatus parse_member(const Zip *zip, const unsigned char *b, size_t size, size_t *used, Member *m) {
  if (size < CENTRAL_SIZE || get_number(b, 4) != 0x02014b50) return bad_zip(zip, "the ZIP's directory is damaged");

  // Three texts of any length follow: name, extra fields, comment.
  size_t name = get_number(b + 28, 2), extra = get_number(b + 30, 2), comment = get_number(b + 32, 2);
  if (name + extra + comment > size - CENTRAL_SIZE) return bad_zip(zip, "the ZIP's directory is damaged");
  *used = CENTRAL_SIZE + name + extra + comment;
  if (name >= MOST_NAME || !is_printable(b + CENTRAL_SIZE, name)) return bad_zip(zip, "a member of the ZIP has a bad name");

  m->flags = (unsigned)get_number(b + 8, 2);
  m->method = (unsigned)get_number(b + 10, 2);
  m->crc = (uint32_t)get_number(b + 16, 4);
  m->stored = get_number(b + 20, 4);
  m->plain = get_number(b + 24, 4);
  m->offset = get_number(b + 42, 4);
  memcpy(m->name, b + CENTRAL_SIZE, name);

  m->name[name] = 0;
  return read_extra64(zip, b + CENTRAL_SIZE + name, extra, m);
}

// The stream stands at the member's data, and `source` is ready to read them.
static pbStatus start_source(const Zip *zip, const Member *m, pbSource *source) {
  if (m->flags & 1) return pbSource_Fail(source, "is encrypted");
  if (m->method != 0 && m->method != 8) return pbSource_Fail(source, "compression method %u is not supported", m->method);

  // The local header has lengths of its own for name and extra field; all else is that of the directory.
  unsigned char local[LOCAL_SIZE];
  PB_TRY(read_at(zip, m->offset, local, sizeof local));
  if (get_number(local, 4) != 0x04034b50) return pbSource_Fail(source, "the header before the data is damaged");

  uint64_t begin = m->offset + LOCAL_SIZE + get_number(local + 26, 2) + get_number(local + 28, 2);
  bool possible = m->method == 0 ? m->plain == m->stored : m->plain / MOST_RATIO <= m->stored;

  // What deflate can at best make of the stored bytes bounds what is allocated.
  if (begin > zip->size || m->stored > zip->size - begin) return pbSource_Fail(source, "is cut short");
  if (!possible) return pbSource_Fail(source, "says a length that its data cannot have");

  if (fseeko(zip->stream, (off_t)begin, SEEK_SET) != 0) return pbFile_CannotRead(zip->ctx, zip->file);

  source->stored = m->stored;
  source->plain = m->plain;
  source->deflated = m->method == 8;
  source->checked = true;

  if (source->deflated && inflateInit2(&source->zip, -MAX_WBITS) != Z_OK) {
    return pbContext_Fail(zip->ctx, pb_no_memory, "%s: out of memory", zip->file);
  }
  return pb_ok;
}

// As np.load: others are no arrays.
static bool is_array(const Member *m) {
  size_t n = strlen(m->name);
  return n >= 4 && strcmp(m->name + n - 4, ".npy") == 0;
}

static pbStatus read_member(const Zip *zip, Member *m, pbSource *source, pbArrays *set) {
  size_t n = strlen(m->name);
  *source = (pbSource){.ctx = zip->ctx, .file = zip->file, .member = m->name, .stream = zip->stream};
  PB_TRY(start_source(zip, m, source));

  char name[MOST_NAME];
  memcpy(name, m->name, n - 4);
  name[n - 4] = 0;

  pbStatus status = pbNpy_Read(source, name, set);
  if (status == pb_ok && source->plain) status = pbSource_Fail(source, "is longer than its array");
  if (status == pb_ok && source->crc != m->crc) status = pbSource_Fail(source, "the checksum is wrong; the file is damaged");

  if (source->deflated) inflateEnd(&source->zip);
  return status;
}

// Entries of the directory lie one after another, each as long as its texts. set NULL: looks how large all of it will be; what is
// not expanded costs nothing.
static pbStatus walk(const Zip *zip, const unsigned char *directory, Member *m, pbSource *source, pbArrays *set) {
  size_t at = 0;
  uint64_t plain = 0;

  for (uint64_t i = 0; i < zip->entries; i++) {
    size_t used = 0;
    PB_TRY(parse_member(zip, directory + at, zip->directory_size - at, &used, m));
    at += used;
    if (!is_array(m)) continue;

    // headers come on top of what is held
    plain += m->plain < PB_ARRAY_LIMIT ? m->plain : PB_ARRAY_LIMIT;
    if (!set && plain > PB_ARRAY_LIMIT + (i + 1) * MOST_HEADER)
      return pbContext_Fail(zip->ctx, pb_capacity, "%s: %s: with this array the file is more than %zu MiB when it is expanded",
                            zip->file, m->name, PB_ARRAY_LIMIT >> 20);
    if (set) PB_TRY(read_member(zip, m, source, set));
  }
  return pb_ok;
}

pbStatus pbNpz_Read(pbContext *ctx, FILE *stream, uint64_t size, const char *file, pbArrays *set) {
  Zip zip = {.ctx = ctx, .stream = stream, .file = file, .size = size};

  PB_TRY(find_end(&zip));
  unsigned char *directory = pbContext_Alloc(ctx, zip.directory_size);
  Member *m = pbContext_Alloc(ctx, sizeof *m);
  pbSource *source = pbContext_Alloc(ctx, sizeof *source);

  pbStatus status = pb_ok;
  if (!directory || !m || !source) {
    status = pbContext_Fail(ctx, pb_no_memory, "%s: out of memory", file);
  } else {
    status = read_at(&zip, zip.directory, directory, zip.directory_size);
  }

  // nothing is expanded of a file that is too large
  if (status == pb_ok) status = walk(&zip, directory, m, source, NULL);
  if (status == pb_ok) status = walk(&zip, directory, m, source, set);

  pbContext_Free(ctx, source);
  pbContext_Free(ctx, m);
  pbContext_Free(ctx, directory);
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

static void measure_array(const pbArray *array, Work *work, Member *m) {
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
static void write_header(Writer *w, const Member *m, bool central) {
  unsigned char b[CENTRAL_SIZE + 32];

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
  PB_ASSERT(n == (central ? (size_t)CENTRAL_SIZE : (size_t)LOCAL_SIZE));
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
  unsigned char b[END64_SIZE + LOCATOR_SIZE + END_SIZE];
  uint64_t end = w->at, size = end - directory;
  bool wide = directory >= 0xFFFFFFFF || size >= 0xFFFFFFFF || entries >= 0xFFFF;

  size_t n = 0;
  if (wide) {
    // ZIP64 end record: its size without these 12 bytes, versions, disks, entries here and in all, the directory.
    n = put_number(b, n, 0x06064b50, 4);
    n = put_number(b, n, END64_SIZE - 12, 8);
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
static pbStatus write_member(const pbArrays *set, const pbArray *array, bool compressed, Work *work, Writer *w, Member *m) {
  if (strlen(array->name) + 5 > MOST_NAME) return pbContext_Fail(set->ctx, pb_bad_argument, "a name of an array is too long");

  *m = (Member){.offset = w->at, .method = compressed ? 8 : 0, .flags = 0};
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

static pbStatus write_all(const pbArrays *set, bool compressed, Work *work, Member *members, Writer *w) {
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
  Member *members = pbContext_Alloc(ctx, set->count * sizeof *members);
  Writer w = {.stream = file.stream};
  pbStatus status = work && members ? write_all(set, compressed, work, members, &w)
                                    : pbContext_Fail(ctx, pb_no_memory, "%s: out of memory", path);

  pbContext_Free(ctx, work);
  pbContext_Free(ctx, members);

  if (status == pb_ok) return pbFile_Commit(&file);
  pbFile_Abort(&file);
  return status;
}
