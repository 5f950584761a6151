// Files of arrays as a whole: which kind one is shows in its first bytes, or in its name.
// Tests: tests/unit/test_npz.c, tests/unit/test_csv.c.
#include <stdio.h>
#include <string.h>

#include "io/arrays/arrays.h"
#include "io/arrays/csv.h"
#include "io/file.h"

static pbStatus read_npy(pbContext *ctx, FILE *stream, size_t size, const char *name, pbArrays *set) {
  pbSource source = {.ctx = ctx, .file = name, .member = "", .stream = stream, .stored = size, .plain = size};
  PB_TRY(pbNpy_Read(&source, "", set));
  if (source.plain) return pbSource_Fail(&source, "%llu bytes follow the array", (unsigned long long)source.plain);
  return pb_ok;
}

static pbStatus read_stream(pbContext *ctx, FILE *stream, size_t size, const char *name, pbArrays **result) {
  unsigned char magic[64] = {0};

  // What the file is shows in its first bytes; a name says only that it is CSV.
  size_t got = fread(magic, 1, sizeof magic, stream);
  if (ferror(stream)) return pbFile_CannotRead(ctx, name);
  rewind(stream);

  pbArrays *set = NULL;
  PB_TRY(pbArrays_Create(ctx, &set));

  pbStatus status;
  if (got >= 6 && memcmp(magic, "\x93NUMPY", 6) == 0) {
    status = read_npy(ctx, stream, size, name, set);
  } else if (got >= 4 && (memcmp(magic, "PK\3\4", 4) == 0 || memcmp(magic, "PK\5\6", 4) == 0)) {
    status = pbNpz_Read(ctx, stream, size, name, set);
  } else if (got && magic[0] == 0x80) {
    status = pbContext_Fail(ctx, pb_bad_input, "%s: is a Python pickle; those are never read", name);
  } else if (pbCsv_IsOne(name, magic, got)) {
    status = pbCsv_Read(ctx, stream, name, set);
  } else {
    status = pbContext_Fail(ctx, pb_bad_input, "%s: is %s an NPY nor an NPZ file, nor text as CSV", name,
                            got ? "neither" : "empty, neither");
  }

  if (status != pb_ok) {
    pbArrays_Destroy(set);
    return status;
  }
  *result = set;
  return pb_ok;
}

pbStatus pbArrays_Load(pbContext *ctx, const char *path, pbArrays **set) {
  FILE *stream = NULL;
  size_t size = 0;
  PB_TRY(pbFile_Open(ctx, path, &stream, &size));
  pbStatus status = read_stream(ctx, stream, size, path, set);
  fclose(stream);
  return status;
}

pbStatus pbArrays_Parse(pbContext *ctx, const void *data, size_t length, const char *name, pbArrays **set) {
  char empty[1] = {0};

  // fmemopen refuses a size of zero.
  FILE *stream = fmemopen(length ? (void *)data : empty, length ? length : 1, "rb");
  if (!stream) return pbContext_Fail(ctx, pb_no_memory, "%s: out of memory", name);

  pbStatus status = length ? read_stream(ctx, stream, length, name, set)
                           : pbContext_Fail(ctx, pb_bad_input, "%s: is empty, not an NPY or NPZ file", name);

  fclose(stream);
  return status;
}

pbStatus pbArrays_SaveNpy(const pbArrays *set, const char *path) {
  if (set->count != 1)
    return pbContext_Fail(set->ctx, pb_bad_argument, "%s: an NPY file holds one array, not %zu", path, set->count);

  pbFile file;
  PB_TRY(pbFile_Begin(set->ctx, path, &file));

  unsigned char buffer[16384];
  size_t next = 0, at = 0, length = pbNpy_Header(&set->items[0], (char *)buffer);

  // The header, then the data piece by piece; Commit finds what could not be written.
  while (length && fwrite(buffer, 1, length, file.stream) == length) {
    length = pbNpy_Piece(&set->items[0], &next, &at, buffer, sizeof buffer);
  }

  return pbFile_Commit(&file);
}
