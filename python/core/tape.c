// Working memory of rollouts that stays with the model: a batch with its tape, for the next rollout of the same shape. So a loop
// of short rollouts, as closed loops and predictive control make them, allocates nothing after the first.
//
// Owned by the compiled model, guarded by the interpreter's lock, freed with the model. What waits are most_waiting at most, of
// most_bytes together. A child that forked has copies as of all other memory.
// Tests: tests/python/test_contract.py.
#ifdef __APPLE__
#include <malloc/malloc.h>
#define malloc_usable_size malloc_size
#else
#include <malloc.h>
#endif
#include <stdlib.h>

#include "core.h"

enum { most_waiting = 4, most_bytes = 128 << 20 };

// ---- memory, counted ----------------------------------------------------------------------------------------------------
static void *count_alloc(void *bytes, size_t size) {
  void *memory = malloc(size);
  atomic_fetch_add((atomic_size_t *)bytes, malloc_usable_size(memory));
  return memory;
}

static void *count_resize(void *bytes, void *memory, size_t size) {
  size_t before = malloc_usable_size(memory);
  void *moved = realloc(memory, size);
  if (moved || size == 0) atomic_fetch_add((atomic_size_t *)bytes, malloc_usable_size(moved) - before);
  return moved;
}

static void count_release(void *bytes, void *memory) {
  atomic_fetch_sub((atomic_size_t *)bytes, malloc_usable_size(memory));
  free(memory);
}

// ---- tapes --------------------------------------------------------------------------------------------------------------
static void destroy(pyTape *tape) {
  if (!tape) return;
  pbBatch_Destroy(tape->batch);
  pbContext_Destroy(tape->ctx);
  PyMem_Free(tape);
}

static bool same_shape(const pbBatchOptions *a, const pbBatchOptions *b) {
  return a->worlds == b->worlds && a->pool == b->pool && a->steps == b->steps && a->budget == b->budget &&
         a->partial == b->partial && a->shared_inputs == b->shared_inputs && a->own_count == 0 && b->own_count == 0;
}

// One that waits, as new; NULL: there is none of that shape.
static pyTape *take_waiting(pyCompiled *c, const pbBatchOptions *options) {
  pyTape **at = &c->tapes;
  while (*at && !same_shape(&(*at)->options, options)) at = &(*at)->next;
  pyTape *tape = *at;
  if (!tape) return NULL;

  *at = tape->next;
  if (pyTape_Choose(tape, pb_gradientExact, NULL, 0) == pb_ok) return tape;
  destroy(tape);
  return NULL;
}

pbStatus pyTape_Choose(pyTape *tape, pbGradientKind kind, const char *const *names, int count) {
  if (kind != tape->kind) PB_TRY(pbBatch_SetGradient(tape->batch, kind));
  tape->kind = kind;

  // A loop of short calls pays for looking up names where there are any.
  if (!names || (count == 0 && tape->none)) return pb_ok;
  PB_TRY(pbBatch_WantParameters(tape->batch, names, count));
  tape->none = count == 0;
  return pb_ok;
}

pyTape *pyTape_Take(pyCompiled *c, const pbBatchOptions *options) {
  pyTape *tape = take_waiting(c, options);
  if (tape) return tape;

  tape = PyMem_Calloc(1, sizeof *tape);
  if (!tape) return (pyTape *)PyErr_NoMemory();
  tape->options = *options;
  tape->options.own = NULL;  // the caller's
  tape->ctx = pbContext_Create(
      &(pbAllocator){.alloc = count_alloc, .resize = count_resize, .release = count_release, .user = &tape->bytes});
  if (!tape->ctx) {
    destroy(tape);
    return (pyTape *)PyErr_NoMemory();
  }

  pbStatus status;
  Py_BEGIN_ALLOW_THREADS;
  status = pbBatch_Create(tape->ctx, c->model, options, &tape->batch);
  Py_END_ALLOW_THREADS;
  if (status == pb_ok) return tape;
  pyStatus_Raise(status, pbContext_Error(tape->ctx));
  destroy(tape);
  return NULL;
}

// Those that wait longest go where there are too many, or they take too much.
static void forget_oldest(pyCompiled *c) {
  size_t bytes = 0;
  int count = 0;
  pyTape **at = &c->tapes;
  while (*at) {
    bytes += atomic_load(&(*at)->bytes);
    if (++count > most_waiting || bytes > most_bytes) break;
    at = &(*at)->next;
  }

  while (*at) {
    pyTape *old = *at;
    *at = old->next;
    destroy(old);
  }
}

void pyTape_Give(pyCompiled *c, pyTape *tape, bool spoiled) {
  if (!tape) return;
  if (spoiled || tape->options.own_count > 0) {
    destroy(tape);
    return;
  }

  pbBatch_OnProgress(tape->batch, NULL, NULL);
  tape->next = c->tapes;
  c->tapes = tape;
  forget_oldest(c);
}

void pyTape_DestroyAll(pyCompiled *c) {
  while (c->tapes) {
    pyTape *tape = c->tapes;
    c->tapes = tape->next;
    destroy(tape);
  }
}
