// Arrays of numbers of a task: written out, or in a file of arrays.
// Tests: tests/unit/test_task_deform.c.
#include <string.h>

#include <pullback/array.h>

#include "base/context.h"
#include "io/task/task_deform.h"

static pbStatus take_array(pbTaskReader *r, const pbArrays *set, const char *name, pbTaskArray *out) {
  const pbArray *a = NULL;
  if (name) a = pbArrays_Find(set, name);
  else if (pbArrays_Count(set) == 1) a = pbArrays_At(set, 0);
  if (!a || a->type != pb_arrayReal || a->ndim > 3)
    return name ? pbTaskReader_Fail(r, pb_bad_input, "the file has no array '%.80s' of numbers", name)
                : pbTaskReader_Fail(r, pb_bad_input, "\"array\" is missing: the file has %zu", pbArrays_Count(set));

  *out = (pbTaskArray){.ndim = a->ndim, .count = a->count, .shape = {1, 1, 1}};
  for (int i = 0; i < a->ndim; i++) out->shape[i] = a->shape[i];
  out->data = pbContext_AllocArray(r->ctx, a->count + 1, sizeof(double));
  if (!out->data) return pbTaskReader_Fail(r, pb_no_memory, "no memory for an array");
  memcpy(out->data, a->reals, a->count * sizeof(double));
  return pb_ok;
}

pbStatus pbTaskReader_Array(pbTaskReader *r, const json_t *object, pbTaskArray *out) {
  static const char *const keys[] = {"file", "array", NULL};
  const char *name = NULL;
  pbArrays *set;
  PB_TRY(pbTaskReader_Keys(r, object, keys));
  PB_TRY(pbTaskReader_Text(r, object, "array", &name));
  PB_TRY(pbTaskReader_Load(r, object, &set));
  pbStatus status = take_array(r, set, name, out);
  pbArrays_Destroy(set);
  return status;
}

pbStatus pbTaskReader_Table(pbTaskReader *r, const json_t *value, pbTaskNumbers *n) {
  pbTaskArray a = {0};
  PB_TRY(pbTaskReader_Array(r, value, &a));
  n->data = a.data;

  // an array that is no table has no columns, which no caller expects
  n->rows = a.shape[0];
  n->cols = a.ndim == 2 ? a.shape[1] : 0;
  return pb_ok;
}

pbStatus pbTaskReader_Rows(pbTaskReader *r, const json_t *value, size_t cols, size_t *rows, double **data) {
  pbTaskNumbers n = {0};
  PB_TRY(json_is_object(value) ? pbTaskReader_Table(r, value, &n) : pbTaskReader_Numbers(r, value, &n));

  *data = n.data;

  // an empty list has as many columns as are expected
  if (json_array_size(value) == 0 && json_is_array(value)) {
    n.rows = 0;
    n.cols = cols;
  }

  if (n.cols != cols || (json_is_array(value) && !n.nested && n.rows))
    return pbTaskReader_Fail(r, pb_bad_input, "expected rows of %zu numbers", cols);
  if (*rows && n.rows != *rows) return pbTaskReader_Fail(r, pb_bad_input, "expected %zu rows, found %zu", *rows, n.rows);
  *rows = n.rows;
  return pb_ok;
}
