// NPZ: a ZIP of NPY files. The central directory is what counts; sizes and offsets in it are checked against the file
// before anything is allocated. Formats: PKWARE APPNOTE 4.3 (end record, central and local headers, ZIP64 extra field).
#include <string.h>

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

static uint64_t get(const unsigned char *b, int n) {
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
    return bad_zip(zip, "could not be read");
  }
  return pb_ok;
}

// ---- reading ------------------------------------------------------------------------------------------------------

// Where the ZIP64 end record is, its numbers replace those of the plain one.
static pbStatus read_end64(Zip *zip, uint64_t end) {
  unsigned char b[END64_SIZE];
  if (end < LOCATOR_SIZE) return pb_ok;
  PB_TRY(read_at(zip, end - LOCATOR_SIZE, b, LOCATOR_SIZE));
  if (get(b, 4) != 0x07064b50) return pb_ok;
  PB_TRY(read_at(zip, get(b + 8, 8), b, END64_SIZE));
  if (get(b, 4) != 0x06064b50) return bad_zip(zip, "the ZIP64 end record is damaged");
  zip->entries = get(b + 32, 8);
  zip->directory_size = get(b + 40, 8);
  zip->directory = get(b + 48, 8);
  return pb_ok;
}

static pbStatus find_end(Zip *zip) {
  size_t span = zip->size < END_SIZE + MOST_COMMENT ? (size_t)zip->size : END_SIZE + MOST_COMMENT;
  if (span < END_SIZE) return bad_zip(zip, "is cut short");
  unsigned char *tail = pbContext_Alloc(zip->ctx, span);
  if (!tail) return pbContext_Fail(zip->ctx, pb_no_memory, "%s: out of memory", zip->file);
  pbStatus status = read_at(zip, zip->size - span, tail, span);
  size_t at = span - END_SIZE + 1;
  while (status == pb_ok && at > 0 && get(tail + at - 1, 4) != 0x06054b50) at--;
  if (status == pb_ok && at == 0) status = bad_zip(zip, "the end of the ZIP is missing; the file is cut short");
  if (status == pb_ok) {
    const unsigned char *end = tail + at - 1;
    zip->entries = get(end + 10, 2);
    zip->directory_size = get(end + 12, 4);
    zip->directory = get(end + 16, 4);
    status = read_end64(zip, zip->size - span + at - 1);
  }
  pbContext_Free(zip->ctx, tail);
  if (status != pb_ok) return status;
  if (zip->directory > zip->size || zip->directory_size > zip->size - zip->directory || zip->directory_size > MOST_DIRECTORY ||
      zip->entries > zip->directory_size / CENTRAL_SIZE) {
    return bad_zip(zip, "the ZIP's directory does not lie in the file");
  }
  return pb_ok;
}

// ZIP64 extra field: 8-byte values for those of plain size, stored size and offset that did not fit 4 bytes.
static pbStatus read_extra64(const Zip *zip, const unsigned char *b, size_t size, Member *m) {
  uint64_t *wide[3] = {&m->plain, &m->stored, &m->offset};
  for (size_t at = 0; at + 4 <= size;) {
    size_t id = get(b + at, 2), n = get(b + at + 2, 2);
    if (n > size - at - 4) break;
    const unsigned char *value = b + at + 4, *end = value + n;
    for (int i = 0; id == 1 && i < 3; i++) {
      if (*wide[i] != 0xFFFFFFFF) continue;
      if (end - value < 8) return bad_zip(zip, "a ZIP64 field is cut short");
      *wide[i] = get(value, 8);
      value += 8;
    }
    at += 4 + n;
  }
  return pb_ok;
}

// Names go into messages: nothing but printable UTF-8.
static bool printable(const unsigned char *b, size_t n) {
  for (size_t i = 0; i < n;) {
    int more = b[i] >= 0xF0 && b[i] < 0xF5 ? 3 : b[i] >= 0xE0 && b[i] < 0xF0 ? 2 : b[i] >= 0xC2 && b[i] < 0xE0 ? 1 : 0;
    if (b[i] < 32 || b[i] == 127 || (b[i] >= 128 && !more)) return false;
    for (i++; more > 0; more--, i++) {
      if (i >= n || (b[i] & 0xC0) != 0x80) return false;
    }
  }
  return true;
}

static pbStatus parse_member(const Zip *zip, const unsigned char *b, size_t size, size_t *used, Member *m) {
  if (size < CENTRAL_SIZE || get(b, 4) != 0x02014b50) return bad_zip(zip, "the ZIP's directory is damaged");
  size_t name = get(b + 28, 2), extra = get(b + 30, 2), comment = get(b + 32, 2);
  if (name + extra + comment > size - CENTRAL_SIZE) return bad_zip(zip, "the ZIP's directory is damaged");
  *used = CENTRAL_SIZE + name + extra + comment;
  if (name >= MOST_NAME || !printable(b + CENTRAL_SIZE, name)) return bad_zip(zip, "a member of the ZIP has a bad name");
  m->flags = (unsigned)get(b + 8, 2);
  m->method = (unsigned)get(b + 10, 2);
  m->crc = (uint32_t)get(b + 16, 4);
  m->stored = get(b + 20, 4);
  m->plain = get(b + 24, 4);
  m->offset = get(b + 42, 4);
  memcpy(m->name, b + CENTRAL_SIZE, name);
  m->name[name] = 0;
  return read_extra64(zip, b + CENTRAL_SIZE + name, extra, m);
}

static pbStatus start_source(const Zip *zip, const Member *m, pbSource *source) {
  if (m->flags & 1) return pbSource_Fail(source, "is encrypted");
  if (m->method != 0 && m->method != 8) return pbSource_Fail(source, "compression method %u is not supported", m->method);
  unsigned char local[LOCAL_SIZE];
  PB_TRY(read_at(zip, m->offset, local, sizeof local));
  if (get(local, 4) != 0x04034b50) return pbSource_Fail(source, "the header before the data is damaged");
  uint64_t begin = m->offset + LOCAL_SIZE + get(local + 26, 2) + get(local + 28, 2);
  bool possible = m->method == 0 ? m->plain == m->stored : m->plain / MOST_RATIO <= m->stored;
  if (begin > zip->size || m->stored > zip->size - begin) return pbSource_Fail(source, "is cut short");
  if (!possible) return pbSource_Fail(source, "says a length that its data cannot have");
  if (fseeko(zip->stream, (off_t)begin, SEEK_SET) != 0) return bad_zip(zip, "could not be read");
  source->stored = m->stored;
  source->plain = m->plain;
  source->deflated = m->method == 8;
  source->checked = true;
  if (source->deflated && inflateInit2(&source->zip, -MAX_WBITS) != Z_OK) {
    return pbContext_Fail(zip->ctx, pb_no_memory, "%s: out of memory", zip->file);
  }
  return pb_ok;
}

static pbStatus read_member(const Zip *zip, Member *m, pbSource *source, pbArrays *set) {
  size_t n = strlen(m->name);
  if (n < 4 || strcmp(m->name + n - 4, ".npy") != 0) return pb_ok;  // as np.load: others are no arrays
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
  size_t at = 0;
  for (uint64_t i = 0; i < zip.entries && status == pb_ok; i++) {
    size_t used = 0;
    status = parse_member(&zip, directory + at, zip.directory_size - at, &used, m);
    at += used;
    if (status == pb_ok) status = read_member(&zip, m, source, set);
  }
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

static void write_bytes(Writer *w, const void *data, size_t size) {
  if (fwrite(data, 1, size, w->stream) != size) w->failed = true;
  w->at += size;
}

static size_t put(unsigned char *b, size_t at, uint64_t value, int n) {
  for (int i = 0; i < n; i++) b[at + (size_t)i] = (unsigned char)(value >> (8 * i));
  return at + (size_t)n;
}

// Bytes of the NPY of an array one piece after another: 0 at the end.
typedef struct Reel {
  const pbArray *array;
  bool begun;
  size_t next, text_at;
} Reel;

static size_t reel_piece(Reel *reel, unsigned char *buffer, size_t size) {
  if (reel->begun) return pbNpy_Piece(reel->array, &reel->next, &reel->text_at, buffer, size);
  reel->begun = true;
  return pbNpy_Header(reel->array, (char *)buffer);
}

typedef struct Work {
  unsigned char plain[65536], packed[65536];
} Work;

// Compress everything; to the writer, or only to count (writer NULL). Z_OK or zlib's error.
static int pack(const pbArray *array, Work *work, Writer *w, uint64_t *size) {
  z_stream zip = {0};
  int code = deflateInit2(&zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  if (code != Z_OK) return code;
  Reel reel = {.array = array};
  *size = 0;
  for (bool more = true; more;) {
    size_t n = reel_piece(&reel, work->plain, sizeof work->plain);
    more = n > 0;
    zip.next_in = work->plain;
    zip.avail_in = (uInt)n;
    do {
      zip.next_out = work->packed;
      zip.avail_out = sizeof work->packed;
      deflate(&zip, more ? Z_NO_FLUSH : Z_FINISH);
      size_t out = sizeof work->packed - zip.avail_out;
      *size += out;
      if (w) write_bytes(w, work->packed, out);
    } while (zip.avail_out == 0);
  }
  deflateEnd(&zip);
  return Z_OK;
}

static void measure(const pbArray *array, Work *work, Member *m) {
  Reel reel = {.array = array};
  m->crc = 0;
  m->plain = 0;
  for (size_t n; (n = reel_piece(&reel, work->plain, sizeof work->plain)) > 0;) {
    m->crc = (uint32_t)crc32(m->crc, work->plain, (uInt)n);
    m->plain += n;
  }
}

static uint64_t narrow(uint64_t value, bool wide) { return wide ? 0xFFFFFFFF : value; }

// Local (signature ...0403) or central (...0201) header of a member. The date is fixed: same arrays, same bytes.
static void write_header(Writer *w, const Member *m, bool central) {
  unsigned char b[CENTRAL_SIZE + 32];
  bool wide = m->plain >= 0xFFFFFFFF || m->stored >= 0xFFFFFFFF, far = central && m->offset >= 0xFFFFFFFF;
  size_t name = strlen(m->name), extra = (wide ? 16u : 0) + (far ? 8u : 0);
  size_t n = put(b, 0, central ? 0x02014b50 : 0x04034b50, 4);
  if (central) n = put(b, n, 45 | 3 << 8, 2);
  n = put(b, n, wide || far ? 45 : 20, 2);
  n = put(b, n, m->flags, 2);
  n = put(b, n, m->method, 2);
  n = put(b, n, 0, 2);
  n = put(b, n, 1 << 5 | 1, 2);  // 1980-01-01
  n = put(b, n, m->crc, 4);
  n = put(b, n, narrow(m->stored, wide), 4);
  n = put(b, n, narrow(m->plain, wide), 4);
  n = put(b, n, name, 2);
  n = put(b, n, extra ? extra + 4 : 0, 2);
  if (central) {
    n = put(b, n, 0, 6);                     // no comment, first disk, no text
    n = put(b, n, (uint64_t)0600 << 16, 4);  // permissions, as Python's zipfile sets them
    n = put(b, n, narrow(m->offset, far), 4);
  }
  write_bytes(w, b, n);
  write_bytes(w, m->name, name);
  n = 0;
  if (extra) n = put(b, put(b, n, 1, 2), extra, 2);
  if (wide) n = put(b, put(b, n, m->plain, 8), m->stored, 8);
  if (far) n = put(b, n, m->offset, 8);
  write_bytes(w, b, n);
}

static void write_end(Writer *w, uint64_t directory, uint64_t entries) {
  unsigned char b[END64_SIZE + LOCATOR_SIZE + END_SIZE];
  uint64_t end = w->at, size = end - directory;
  bool wide = directory >= 0xFFFFFFFF || size >= 0xFFFFFFFF || entries >= 0xFFFF;
  size_t n = 0;
  if (wide) {
    n = put(b, put(b, n, 0x06064b50, 4), END64_SIZE - 12, 8);
    n = put(b, put(b, put(b, n, 45, 2), 45, 2), 0, 8);
    n = put(b, put(b, n, entries, 8), entries, 8);
    n = put(b, put(b, n, size, 8), directory, 8);
    n = put(b, put(b, put(b, put(b, n, 0x07064b50, 4), 0, 4), end, 8), 1, 4);
  }
  n = put(b, put(b, n, 0x06054b50, 4), 0, 4);
  n = put(b, put(b, n, wide ? 0xFFFF : entries, 2), wide ? 0xFFFF : entries, 2);
  n = put(b, put(b, n, narrow(size, wide), 4), narrow(directory, wide), 4);
  write_bytes(w, b, put(b, n, 0, 2));
}

static pbStatus write_member(const pbArrays *set, const pbArray *array, bool compressed, Work *work, Writer *w, Member *m) {
  if (strlen(array->name) + 5 > MOST_NAME) return pbContext_Fail(set->ctx, pb_bad_argument, "a name of an array is too long");
  *m = (Member){.offset = w->at, .method = compressed ? 8 : 0, .flags = 0};
  snprintf(m->name, sizeof m->name, "%s.npy", array->name);
  for (const char *c = m->name; *c; c++) {
    if (*c & 0x80) m->flags = 0x800;  // the name is UTF-8
  }
  measure(array, work, m);
  m->stored = m->plain;
  int code = compressed ? pack(array, work, NULL, &m->stored) : Z_OK;
  write_header(w, m, false);
  if (compressed && code == Z_OK) code = pack(array, work, w, &m->stored);
  if (code != Z_OK) return pbContext_Fail(set->ctx, pb_no_memory, "out of memory for compression");
  Reel reel = {.array = array};
  for (size_t n; !compressed && (n = reel_piece(&reel, work->plain, sizeof work->plain)) > 0;) write_bytes(w, work->plain, n);
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
