// The set of named arrays, and files of them as a whole.
// Tests: tests/unit/test_npz.c.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <math.h>

#include "base/assert.h"
#include "io/arrays/arrays.h"
#include "io/file.h"

enum { FIRST_CAPACITY = 16, MOST_ARRAYS = 65536 };

pbStatus pbArrays_Create(pbContext *ctx, pbArrays **set) {
  *set = pbContext_Alloc(ctx, sizeof **set);
  if (!*set) return pbContext_Fail(ctx, pb_no_memory, "out of memory for arrays");
  (*set)->ctx = ctx;
  return pb_ok;
}

static void free_array(pbContext *ctx, pbArray *array) {
  pbContext_Free(ctx, (void *)array->name);
  pbContext_Free(ctx, array->reals);
  pbContext_Free(ctx, array->integers);
  pbContext_Free(ctx, array->text);
}

void pbArrays_Destroy(pbArrays *set) {
  if (!set) return;
  for (size_t i = 0; i < set->count; i++) free_array(set->ctx, &set->items[i]);
  pbContext_Free(set->ctx, set->items);
  pbContext_Free(set->ctx, set);
}

size_t pbArrays_Count(const pbArrays *set) { return set->count; }
const pbArray *pbArrays_At(const pbArrays *set, size_t index) { return index < set->count ? &set->items[index] : NULL; }

const pbArray *pbArrays_Find(const pbArrays *set, const char *name) {
  for (size_t i = 0; i < set->count; i++) {
    if (strcmp(set->items[i].name, name) == 0) return &set->items[i];
  }
  return NULL;
}

static pbStatus grow_set(pbArrays *set) {
  if (set->count < set->capacity) return pb_ok;
  if (set->count >= MOST_ARRAYS) return pbContext_Fail(set->ctx, pb_bad_input, "more than %d arrays", MOST_ARRAYS);

  size_t capacity = set->capacity ? 2 * set->capacity : FIRST_CAPACITY;
  pbArray *items = pbContext_Resize(set->ctx, set->items, capacity * sizeof *items);
  if (!items) return pbContext_Fail(set->ctx, pb_no_memory, "out of memory for arrays");

  set->items = items;
  set->capacity = capacity;
  return pb_ok;
}

pbStatus pbArrays_Room(pbArrays *set, const char *name, pbArrayType type, int ndim, const size_t *shape, size_t bytes,
                       pbArray **result) {
  char text[160];
  if (ndim < 0 || ndim > PB_ARRAY_DIMS) return pbContext_Fail(set->ctx, pb_bad_argument, "'%s': %d dimensions", name, ndim);
  if (pbArrays_Find(set, name)) return pbContext_Fail(set->ctx, pb_bad_argument, "array '%s' is defined twice", name);
  if (bytes > PB_ARRAY_LIMIT - set->bytes) {
    return pbContext_Fail(set->ctx, pb_capacity, "array '%s' of shape %s: arrays of more than %zu MiB in all are not held", name,
                          pbArray_ShapeText(ndim, shape, text, sizeof text), PB_ARRAY_LIMIT >> 20);
  }

  PB_TRY(grow_set(set));
  pbArray array = {.type = type, .ndim = ndim, .count = 1};
  for (int i = 0; i < ndim; i++) {
    array.shape[i] = shape[i];
    array.count *= shape[i];
  }

  // Name and data are the set's own; memory of a context is zero.
  size_t length = strlen(name) + 1;
  char *copy = pbContext_Alloc(set->ctx, length);
  void *data = pbContext_Alloc(set->ctx, bytes);
  if (!copy || !data) {
    pbContext_Free(set->ctx, copy);
    pbContext_Free(set->ctx, data);
    return pbContext_Fail(set->ctx, pb_no_memory, "out of memory for array '%s'", name);
  }

  array.name = memcpy(copy, name, length);
  if (type == pb_arrayReal) array.reals = data;
  if (type == pb_arrayInt) array.integers = data;
  if (type == pb_arrayText) array.text = data;

  PB_ASSERT(set->count < set->capacity);
  set->bytes += bytes;
  set->items[set->count] = array;
  *result = &set->items[set->count++];
  return pb_ok;
}

// Elements of a shape times the size of one; false when it does not fit.
static bool count_bytes(int ndim, const size_t *shape, size_t element, size_t *bytes) {
  *bytes = element;
  for (int i = 0; i < ndim; i++) {
    if (__builtin_mul_overflow(*bytes, shape[i], bytes)) return false;
  }
  return true;
}

static pbStatus add_values(pbArrays *set, const char *name, pbArrayType type, int ndim, const size_t *shape, size_t element,
                           const void *values, pbArray **array) {
  size_t bytes = 0;
  if (ndim < 0 || ndim > PB_ARRAY_DIMS) return pbContext_Fail(set->ctx, pb_bad_argument, "'%s': %d dimensions", name, ndim);
  if (!count_bytes(ndim, shape, element, &bytes)) return pbContext_Fail(set->ctx, pb_no_memory, "array '%s' is too large", name);

  PB_TRY(pbArrays_Room(set, name, type, ndim, shape, bytes, array));

  // Without values the array stays zero, for the caller to fill.
  void *data = type == pb_arrayReal ? (void *)(*array)->reals : (*array)->integers;
  if (values && bytes) memcpy(data, values, bytes);
  return pb_ok;
}

pbStatus pbArrays_AddReals(pbArrays *set, const char *name, int ndim, const size_t *shape, const double *values,
                           double **memory) {
  pbArray *array = NULL;
  PB_TRY(add_values(set, name, pb_arrayReal, ndim, shape, sizeof *values, values, &array));
  if (memory) *memory = array->reals;
  return pb_ok;
}

pbStatus pbArrays_AddInts(pbArrays *set, const char *name, int ndim, const size_t *shape, const int *values, int **memory) {
  pbArray *array = NULL;
  PB_TRY(add_values(set, name, pb_arrayInt, ndim, shape, sizeof *values, values, &array));
  if (memory) *memory = array->integers;
  return pb_ok;
}

pbStatus pbArrays_AddText(pbArrays *set, const char *name, const char *text) {
  pbArray *array = NULL;
  size_t bytes = strlen(text) + 1;
  PB_TRY(pbArrays_Room(set, name, pb_arrayText, 0, NULL, bytes, &array));
  memcpy(array->text, text, bytes);
  return pb_ok;
}

void pbArrays_CutRows(pbArrays *set, const char *name, size_t rows) {
  for (size_t i = 0; i < set->count; i++) {
    pbArray *array = &set->items[i];
    if (strcmp(array->name, name) != 0 || array->ndim < 1 || array->shape[0] <= rows) continue;

    // Rows lie one after another, so those that are left need not move.
    array->count = array->count / array->shape[0] * rows;
    array->shape[0] = rows;
  }
}

char *pbArray_ShapeText(int ndim, const size_t *shape, char *text, size_t size) {
  // As Python writes a tuple: "(3,)", "(2, 3)".
  size_t used = (size_t)snprintf(text, size, "(");
  for (int i = 0; i < ndim && used < size; i++) {
    used += (size_t)snprintf(text + used, size - used, "%s%zu", i ? ", " : "", shape[i]);
  }
  if (used < size) snprintf(text + used, size - used, ndim == 1 ? ",)" : ")");
  return text;
}

pbStatus pbArray_CheckFinite(pbContext *ctx, const pbArray *array, const char *file) {
  if (array->type != pb_arrayReal) return pb_ok;
  for (size_t i = 0; i < array->count; i++) {
    if (isfinite(array->reals[i])) continue;

    // Index of the element from its position in row-major order.
    char position[24 * PB_ARRAY_DIMS] = "";
    size_t rest = i;
    size_t index[PB_ARRAY_DIMS] = {0};
    for (int d = array->ndim - 1; d >= 0; d--) {
      index[d] = rest % array->shape[d];
      rest /= array->shape[d];
    }

    size_t used = 0;
    for (int d = 0; d < array->ndim; d++) {
      used += (size_t)snprintf(position + used, sizeof position - used, "%s%zu", d ? ", " : "", index[d]);
    }

    return pbContext_Fail(ctx, pb_bad_input, "%s: %s[%s] is %s; numbers here must be finite", file,
                          array->name[0] ? array->name : "array", position, isnan(array->reals[i]) ? "NaN" : "infinite");
  }
  return pb_ok;
}

// ---- sources ------------------------------------------------------------------------------------------------------

pbStatus pbSource_Fail(const pbSource *source, const char *format, ...) {
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

// ---- files --------------------------------------------------------------------------------------------------------

static pbStatus read_npy(pbContext *ctx, FILE *stream, size_t size, const char *name, pbArrays *set) {
  pbSource source = {.ctx = ctx, .file = name, .member = "", .stream = stream, .stored = size, .plain = size};
  PB_TRY(pbNpy_Read(&source, "", set));
  if (source.plain) return pbSource_Fail(&source, "%llu bytes follow the array", (unsigned long long)source.plain);
  return pb_ok;
}

static pbStatus read_stream(pbContext *ctx, FILE *stream, size_t size, const char *name, pbArrays **result) {
  unsigned char magic[6] = {0};

  // What the file is shows in its first bytes, not in its name.
  size_t got = fread(magic, 1, sizeof magic, stream);
  rewind(stream);

  pbArrays *set = NULL;
  PB_TRY(pbArrays_Create(ctx, &set));

  pbStatus status;
  if (got == 6 && memcmp(magic, "\x93NUMPY", 6) == 0) {
    status = read_npy(ctx, stream, size, name, set);
  } else if (got >= 4 && (memcmp(magic, "PK\3\4", 4) == 0 || memcmp(magic, "PK\5\6", 4) == 0)) {
    status = pbNpz_Read(ctx, stream, size, name, set);
  } else if (got && magic[0] == 0x80) {
    status = pbContext_Fail(ctx, pb_bad_input, "%s: is a Python pickle; those are never read", name);
  } else {
    status = pbContext_Fail(ctx, pb_bad_input, "%s: is %s an NPY nor an NPZ file", name, got ? "neither" : "empty, neither");
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
