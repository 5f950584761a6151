// What a user's program does first.
#include <pullback/pullback.h>
#include <stdio.h>

int main(void) {
  pbContext *ctx = pbContext_Create(NULL);
  if (!ctx) return 1;
  printf("pullback %s%s\n", pbVersion(), pbContext_Error(ctx));
  pbContext_Destroy(ctx);
  return 0;
}
