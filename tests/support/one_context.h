// A context that the tests of a file have in common, and its fixture.
#ifndef PB_TEST_ONE_CONTEXT_H
#define PB_TEST_ONE_CONTEXT_H

#include <pullback/base.h>

static pbContext *ctx;

static int open_context(void **state) {
  (void)state;
  ctx = pbContext_Create(NULL);
  return ctx ? 0 : 1;
}

static int close_context(void **state) {
  (void)state;
  pbContext_Destroy(ctx);
  return 0;
}

#endif
