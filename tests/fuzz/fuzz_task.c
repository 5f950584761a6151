// JSON tasks: whatever the text says, a task or an error that tells the place. Files a task names are looked for in the seeds.
#include <pullback/pullback.h>

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  pbContext *ctx = pbContext_Create(NULL);
  pbTask *task = NULL;
  pbStatus status = pbTask_Parse(ctx, (const char *)data, size, "tests/fuzz/seeds/task", "fuzz.json", &task);
  if (status != pb_ok && !pbContext_Error(ctx)[0]) abort();  // an error says what is wrong
  pbTask_Destroy(task);
  pbContext_Destroy(ctx);
  return 0;
}
