// Pullback: context, status codes, text of errors, allocation hooks. Nothing in the library is global.
#ifndef PULLBACK_BASE_H
#define PULLBACK_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PB_API               __attribute__((visibility("default")))
#define PB_NODISCARD         __attribute__((warn_unused_result))
#define PB_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PB_API
#define PB_NODISCARD
#define PB_PRINTF(fmt, args)
#endif

// One table of codes: X(enumerator, exit code of the command line, meaning)
// clang-format off
#define PB_STATUS_TABLE(X)                                                                  \
  X(pb_ok, 0, "done")                                                                       \
  X(pb_check_failed, 1, "a check failed")                                                   \
  X(pb_bad_argument, 2, "an argument is wrong")                                             \
  X(pb_bad_input, 3, "a file or value handed in is not valid")                              \
  X(pb_unsupported, 3, "the input is valid, but asks for something not supported")          \
  X(pb_not_finite, 4, "a state or gradient left the range of finite numbers")               \
  X(pb_no_convergence, 4, "a solver did not reach its tolerance")                           \
  X(pb_singular, 4, "a matrix that must be positive definite is not")                       \
  X(pb_not_differentiable, 4, "a derivative was asked for where there is none")             \
  X(pb_capacity, 5, "a stated capacity (contacts, rows, tape) was exceeded")                \
  X(pb_no_memory, 5, "memory could not be had")                                             \
  X(pb_file, 5, "a file could not be read or written")                                      \
  X(pb_interrupted, 130, "interrupted")
// clang-format on

typedef enum pbStatus {
#define X(name, exit_code, text) name,
  PB_STATUS_TABLE(X)
#undef X
      pb_status_count
} pbStatus;

// Static text of a code; never NULL.
PB_API const char *pbStatus_Text(pbStatus status);
// Exit code the command line uses for a status.
PB_API int pbStatus_ExitCode(pbStatus status);

// Allocation hooks. NULL functions mean malloc, realloc, free. All three or none.
typedef struct pbAllocator {
  void *(*alloc)(void *user, size_t size);                 // returns NULL when out of memory
  void *(*resize)(void *user, void *memory, size_t size);  // as realloc
  void (*release)(void *user, void *memory);               // as free
  void *user;
} pbAllocator;

// Carries allocator and the text of the last error. One context per thread; nothing outlives the context it was made with.
// A const model may be used from many threads, each with its own context and scratch: what only reads a model writes its text
// into the context that the caller hands over (into the scratch, where there is one), and takes memory from there. A call that
// returns pb_ok leaves every text as it was.
typedef struct pbContext pbContext;

PB_API pbContext *pbContext_Create(const pbAllocator *allocator);  // NULL allocator: malloc; returns NULL when out of memory
PB_API void pbContext_Destroy(pbContext *ctx);                     // NULL is fine
// Text of the last error: place and reason, several lines at most; "" if none. Valid until the next failure or Destroy.
PB_API const char *pbContext_Error(const pbContext *ctx);
// Record an error and return its status. The text is cut at 2 KiB.
PB_API pbStatus pbContext_Fail(pbContext *ctx, pbStatus status, const char *format, ...) PB_PRINTF(3, 4);
// Warnings of the last load or compile, one per line; "" if none.
PB_API const char *pbContext_Warnings(const pbContext *ctx);
PB_API void pbContext_Warn(pbContext *ctx, const char *format, ...) PB_PRINTF(2, 3);

// Allocation through the context. Zeroed; NULL when out of memory (no error text is set).
PB_API void *pbContext_Alloc(pbContext *ctx, size_t size);
PB_API void *pbContext_Resize(pbContext *ctx, void *memory, size_t size);
PB_API void pbContext_Free(pbContext *ctx, void *memory);

// Of `count` names the one that was probably meant by a word that is none of them, by edit distance ("body_mas": "body_mass");
// NULL where none is near. What the library's own "did you mean" suggests.
PB_API const char *pbName_Nearest(const char *word, const char *const *names, int count);

PB_API const char *pbVersion(void);  // "0.2.0"
// Number of the binary interface: a program built with another one must not call this library. It goes up with a change after
// which old programs would misread a struct or an argument, and names the shared library (libpullback.so.1); docs/promises.md.
#define PB_ABI 4
PB_API int pbAbi(void);  // PB_ABI of the library itself

// Leave the calling function with the status of an expression that failed.
#define PB_TRY(expression)                            \
  do {                                                \
    pbStatus pb_try_status = (expression);            \
    if (pb_try_status != pb_ok) return pb_try_status; \
  } while (0)

#ifdef __cplusplus
}
#endif
#endif
