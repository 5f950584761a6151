// CSV: whatever the bytes, columns of equal length in which every number is finite or missing, or an error with a place in it.
#include <pullback/array.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/arrays/csv.h"

static void look(const pbArrays *set) {
  const pbCsv *csv = pbArrays_Csv(set);
  char text[400];
  if (!csv) abort();  // the name says what it is

  for (size_t i = 0; i < pbArrays_Count(set); i++) {
    const pbArray *a = pbArrays_At(set, i);
    if (a->ndim != 1 || a->count != csv->rows || pbArrays_Find(set, a->name) != a) abort();
    for (size_t k = 0; k < a->count; k++) {
      if (isinf(a->reals[k]) || csv->lines[k] < 2) abort();
    }
    if (!pbArrays_Place(set, a, 0, text, sizeof text)[0] || !pbUnit_Text(pbArrays_UnitOf(set, a), text, sizeof text)[0]) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  pbContext *ctx = pbContext_Create(NULL);
  pbArrays *set = NULL;
  // bytes that begin as those of another kind of file are read as that
  bool other = size >= 2 && (memcmp(data, "PK", 2) == 0 || data[0] == 0x93 || data[0] == 0x80);
  pbStatus status = pbArrays_Parse(ctx, data, size, "fuzz.csv", &set);
  if (status != pb_ok && !strstr(pbContext_Error(ctx), "fuzz.csv")) abort();
  if (status == pb_ok && !other) look(set);
  pbArrays_Destroy(set);
  pbContext_Destroy(ctx);
  return 0;
}
