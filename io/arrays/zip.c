// ZIP archives, read: the central directory is what counts; sizes and offsets in it are checked against the file before
// anything is allocated. Formats: PKWARE APPNOTE 4.3 (end record, central and local headers, ZIP64 extra field).
// Tests: tests/unit/test_npz.c, tests/oracle/test_archive.py.
#include "io/arrays/zip.h"

#include <string.h>

#include "io/file.h"

enum {
  MOST_COMMENT = 65535,
  MOST_DIRECTORY = 64 << 20,
  MOST_RATIO = 1032  // deflate's best ratio
};

static uint64_t get_number(const unsigned char *b, int n) {
  uint64_t value = 0;
  for (int i = 0; i < n; i++) value |= (uint64_t)b[i] << (8 * i);
  return value;
}

static pbStatus bad_zip(const pbZip *zip, const char *what) {
  return pbContext_Fail(zip->ctx, pb_bad_input, "%s: %s", zip->file, what);
}

static pbStatus read_at(const pbZip *zip, uint64_t offset, void *data, size_t size) {
  if (offset > zip->size || size > zip->size - offset) return bad_zip(zip, "is cut short");
  if (fseeko(zip->stream, (off_t)offset, SEEK_SET) != 0 || fread(data, 1, size, zip->stream) != size) {
    return ferror(zip->stream) ? pbFile_CannotRead(zip->ctx, zip->file) : bad_zip(zip, "is cut short");
  }
  return pb_ok;
}

// Where the ZIP64 end record is, its numbers replace those of the plain one.
static pbStatus read_end64(pbZip *zip, uint64_t end) {
  unsigned char b[PB_ZIP_END64];

  // The locator lies right before the plain end record and says where the other one is.
  if (end < PB_ZIP_LOCATOR) return pb_ok;
  PB_TRY(read_at(zip, end - PB_ZIP_LOCATOR, b, PB_ZIP_LOCATOR));
  if (get_number(b, 4) != 0x07064b50) return pb_ok;

  PB_TRY(read_at(zip, get_number(b + 8, 8), b, PB_ZIP_END64));
  if (get_number(b, 4) != 0x06064b50) return bad_zip(zip, "the ZIP64 end record is damaged");

  zip->entries = get_number(b + 32, 8);
  zip->directory_size = get_number(b + 40, 8);
  zip->directory = get_number(b + 48, 8);
  return pb_ok;
}

static pbStatus find_end(pbZip *zip) {
  // The record is the last thing in the file, but for a comment of any length: look for its signature from the end.
  size_t span = zip->size < PB_ZIP_END + MOST_COMMENT ? (size_t)zip->size : PB_ZIP_END + MOST_COMMENT;
  if (span < PB_ZIP_END) return bad_zip(zip, "is cut short");

  unsigned char *tail = pbContext_Alloc(zip->ctx, span);
  if (!tail) return pbContext_Fail(zip->ctx, pb_no_memory, "%s: out of memory", zip->file);

  pbStatus status = read_at(zip, zip->size - span, tail, span);
  size_t at = span - PB_ZIP_END + 1;
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
      zip->entries > zip->directory_size / PB_ZIP_CENTRAL) {
    return bad_zip(zip, "the ZIP's directory does not lie in the file");
  }
  return pb_ok;
}

// ZIP64 extra field: 8-byte values for those of plain size, stored size and offset that did not fit 4 bytes.
static pbStatus read_extra64(const pbZip *zip, const unsigned char *b, size_t size, pbZipMember *m) {
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
static pbStatus parse_member(const pbZip *zip, const unsigned char *b, size_t size, size_t *used, pbZipMember *m) {
  if (size < PB_ZIP_CENTRAL || get_number(b, 4) != 0x02014b50) return bad_zip(zip, "the ZIP's directory is damaged");

  // Three texts of any length follow: name, extra fields, comment.
  size_t name = get_number(b + 28, 2), extra = get_number(b + 30, 2), comment = get_number(b + 32, 2);
  if (name + extra + comment > size - PB_ZIP_CENTRAL) return bad_zip(zip, "the ZIP's directory is damaged");
  *used = PB_ZIP_CENTRAL + name + extra + comment;
  if (name >= PB_ZIP_NAME || !is_printable(b + PB_ZIP_CENTRAL, name)) return bad_zip(zip, "a member of the ZIP has a bad name");

  m->flags = (unsigned)get_number(b + 8, 2);
  m->method = (unsigned)get_number(b + 10, 2);
  m->crc = (uint32_t)get_number(b + 16, 4);
  m->stored = get_number(b + 20, 4);
  m->plain = get_number(b + 24, 4);
  m->offset = get_number(b + 42, 4);
  memcpy(m->name, b + PB_ZIP_CENTRAL, name);

  m->name[name] = 0;
  return read_extra64(zip, b + PB_ZIP_CENTRAL + name, extra, m);
}

pbStatus pbZip_Start(const pbZip *zip, const pbZipMember *m, pbSource *source) {
  *source = (pbSource){.ctx = zip->ctx, .file = zip->file, .member = m->name, .stream = zip->stream};
  if (m->flags & 1) return pbSource_Fail(source, "is encrypted");
  if (m->method != 0 && m->method != 8) return pbSource_Fail(source, "compression method %u is not supported", m->method);

  // The local header has lengths of its own for name and extra field; all else is that of the directory.
  unsigned char local[PB_ZIP_LOCAL];
  PB_TRY(read_at(zip, m->offset, local, sizeof local));
  if (get_number(local, 4) != 0x04034b50) return pbSource_Fail(source, "the header before the data is damaged");

  uint64_t begin = m->offset + PB_ZIP_LOCAL + get_number(local + 26, 2) + get_number(local + 28, 2);
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

pbStatus pbZip_Finish(const pbZipMember *m, pbSource *source, pbStatus status) {
  if (status == pb_ok && source->crc != m->crc) status = pbSource_Fail(source, "the checksum is wrong; the file is damaged");

  if (source->deflated) inflateEnd(&source->zip);
  return status;
}

pbStatus pbZip_Open(pbContext *ctx, FILE *stream, uint64_t size, const char *file, pbZip *zip) {
  *zip = (pbZip){.ctx = ctx, .stream = stream, .file = file, .size = size};
  PB_TRY(find_end(zip));

  zip->bytes = pbContext_Alloc(ctx, zip->directory_size);
  if (!zip->bytes) return pbContext_Fail(ctx, pb_no_memory, "%s: out of memory", file);
  return read_at(zip, zip->directory, zip->bytes, zip->directory_size);
}

pbStatus pbZip_Next(pbZip *zip, pbZipMember *m) {
  size_t used = 0;
  PB_TRY(parse_member(zip, zip->bytes + zip->at, zip->directory_size - zip->at, &used, m));

  // Entries of the directory lie one after another, each as long as its texts.
  zip->at += used;
  zip->passed++;
  return pb_ok;
}

void pbZip_Rewind(pbZip *zip) { zip->at = zip->passed = 0; }

void pbZip_Close(pbZip *zip) { pbContext_Free(zip->ctx, zip->bytes); }
