// Memory that the compiler holds until it ends.
// Tests: tests/unit/test_compile.c.
#include "base/assert.h"
#include "base/context.h"
#include "compile/compile.h"

void *pbCompile_Take(pbCompiler *c, size_t count, size_t size) {
  void *memory = c->nblocks < PB_COMPILE_BLOCKS ? pbContext_AllocArray(c->ctx, count, size) : NULL;
  if (!memory) {
    pbContext_Fail(c->ctx, pb_no_memory, "out of memory while compiling");
    return NULL;
  }
  PB_ASSERT(c->nblocks < PB_COMPILE_BLOCKS);
  c->blocks[c->nblocks++] = memory;
  return memory;
}
