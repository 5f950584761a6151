// What an assertion says when it does not hold.
// Tests: tests/unit/test_base.c.
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pbAssert_Fail(const char *condition, const char *file, int line, const char *function) {
  const char *wish = getenv("PULLBACK_ASSERT");
  if (wish && !strcmp(wish, "off")) return;

  fprintf(stderr, "%s:%d: %s: assertion '%s' does not hold\n", file, line, function, condition);
  abort();
}
