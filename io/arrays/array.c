// The set of named arrays.
// Tests: tests/unit/test_npz.c.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <math.h>

#include "base/assert.h"
#include "io/arrays/arrays.h"
#include "io/arrays/csv.h"
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

static void free_csv(pbContext *ctx, pbCsv *csv) {
  if (!csv) return;
  pbContext_Free(ctx, csv->file);
  pbContext_Free(ctx, csv->units);
  pbContext_Free(ctx, csv->lines);
  pbContext_Free(ctx, csv);
}

void pbArrays_Destroy(pbArrays *set) {
  if (!set) return;
  for (size_t i = 0; i < set->count; i++) free_array(set->ctx, &set->items[i]);
  pbContext_Free(set->ctx, set->items);
  pbContext_Free(set->ctx, set->slots);
  free_csv(set->ctx, set->csv);
  pbContext_Free(set->ctx, set);
}

size_t pbArrays_Count(const pbArrays *set) { return set->count; }
const pbArray *pbArrays_At(const pbArrays *set, size_t index) { return index < set->count ? &set->items[index] : NULL; }

// ---- names ------------------------------------------------------------------------------------------------------------
// FNV-1a.
static size_t hash_name(const char *name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
  return (size_t)(hash ^ hash >> 32);
}

// Where the name stands, or the free slot where it would: half of them are free. There are some.
static unsigned *slot_of(const pbArrays *set, const char *name) {
  size_t count = 2 * set->capacity, at = hash_name(name) % count;
  while (set->slots[at] && strcmp(set->items[set->slots[at] - 1].name, name) != 0) at = (at + 1) % count;
  return &set->slots[at];
}

const pbArray *pbArrays_Find(const pbArrays *set, const char *name) {
  unsigned number = set->capacity ? *slot_of(set, name) : 0;
  return number ? &set->items[number - 1] : NULL;
}

const double *pbArrays_Reals(const pbArrays *set, const char *name, size_t count) {
  const pbArray *a = pbArrays_Find(set, name);
  return a && a->type == pb_arrayReal && a->count == count ? a->reals : NULL;
}

static pbStatus grow_set(pbArrays *set) {
  if (set->count < set->capacity) return pb_ok;
  if (set->count >= MOST_ARRAYS) return pbContext_Fail(set->ctx, pb_bad_input, "more than %d arrays", MOST_ARRAYS);

  size_t capacity = set->capacity ? 2 * set->capacity : FIRST_CAPACITY;
  pbArray *items = pbContext_Resize(set->ctx, set->items, capacity * sizeof *items);
  if (items) set->items = items;
  unsigned *slots = items ? pbContext_Alloc(set->ctx, 2 * capacity * sizeof *slots) : NULL;
  if (!slots) return pbContext_Fail(set->ctx, pb_no_memory, "out of memory for arrays");

  // names find other slots in a larger table
  pbContext_Free(set->ctx, set->slots);
  set->slots = slots;
  set->capacity = capacity;
  for (size_t i = 0; i < set->count; i++) *slot_of(set, set->items[i].name) = (unsigned)i + 1;
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
  *slot_of(set, array.name) = (unsigned)set->count + 1;
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

char *pbArray_What(const pbArray *array, char *text, size_t size) {
  char shape[24 * PB_ARRAY_DIMS + 8];
  if (array->type == pb_arrayText) snprintf(text, size, "is text");
  else snprintf(text, size, "has shape %s", pbArray_ShapeText(array->ndim, array->shape, shape, sizeof shape));
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
