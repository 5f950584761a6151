// NPY and NPZ: whatever the bytes, an answer or an error with a text; memory stays within the stated limit.
#include <pullback/array.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  pbContext *ctx = pbContext_Create(NULL);
  pbArrays *set = NULL;
  pbStatus status = pbArrays_Parse(ctx, data, size, "fuzz", &set);
  if (status != pb_ok && !pbContext_Error(ctx)[0]) abort();  // an error says what is wrong
  if (status == pb_ok) {
    double sum = 0;
    for (size_t i = 0; i < pbArrays_Count(set); i++) {  // all that is said to be there can be read
      const pbArray *a = pbArrays_At(set, i);
      for (size_t k = 0; a->type == pb_arrayReal && k < a->count; k++) sum += a->reals[k];
      if (pbArrays_Find(set, a->name) == NULL) abort();
    }
    volatile double sink = sum;
    (void)sink;
  }
  pbArrays_Destroy(set);
  pbContext_Destroy(ctx);
  return 0;
}
