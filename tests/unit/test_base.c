// Context, status codes and arena.
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <pullback/build.h>
#include <pullback/random.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"
#include "base/cpu.h"
#include "support/meter.h"

static void test_status_texts(void **state) {
  (void)state;
  for (int s = 0; s < pb_status_count; s++) assert_true(strlen(pbStatus_Text((pbStatus)s)) > 0);
  assert_int_equal(pbStatus_ExitCode(pb_ok), 0);
  assert_int_equal(pbStatus_ExitCode(pb_interrupted), 130);
  assert_string_equal(pbStatus_Text((pbStatus)-1), "unknown status");
  assert_string_equal(pbStatus_Text(pb_status_count), "unknown status");
}

static void test_error_text(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  assert_string_equal(pbContext_Error(ctx), "");
  assert_int_equal(pbContext_Fail(ctx, pb_bad_input, "%s:%d: no", "a.xml", 3), pb_bad_input);
  assert_string_equal(pbContext_Error(ctx), "a.xml:3: no");
  assert_int_equal(pbContext_Fail(ctx, pb_file, "b.xml: %s", pbContext_Error(ctx)), pb_file);  // quotes the last one
  assert_string_equal(pbContext_Error(ctx), "b.xml: a.xml:3: no");
  char long_text[3 * PB_ERROR_TEXT];
  memset(long_text, 'x', sizeof long_text);
  long_text[sizeof long_text - 1] = 0;
  assert_int_equal(pbContext_Fail(ctx, pb_file, "%s", long_text), pb_file);
  assert_int_equal(strlen(pbContext_Error(ctx)), PB_ERROR_TEXT - 1);
  assert_int_equal(pbContext_Fail(NULL, pb_file, "nobody listens"), pb_file);
  pbContext_Destroy(ctx);
  pbContext_Destroy(NULL);
}

static void test_warnings(void **state) {
  (void)state;
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  assert_string_equal(pbContext_Warnings(ctx), "");
  pbContext_Warn(ctx, "one %d", 1);
  pbContext_Warn(ctx, "two");
  assert_string_equal(pbContext_Warnings(ctx), "one 1\ntwo\n");
  pbContext_ClearWarnings(ctx);
  assert_string_equal(pbContext_Warnings(ctx), "");
  for (int i = 0; i < 100000; i++) pbContext_Warn(ctx, "warning number %d", i);  // bounded, whatever a file provokes
  assert_in_range(strlen(pbContext_Warnings(ctx)), PB_WARNING_TEXT / 2, PB_WARNING_TEXT);
  pbContext_ClearWarnings(ctx);
  meter.fail_at = meter.calls + 1;
  for (int i = 0; i < 100; i++) pbContext_Warn(ctx, "a warning that may be lost, but does no harm");
  pbContext_Destroy(ctx);
  assert_int_equal(meter.live, 0);
}

static void test_allocation(void **state) {
  (void)state;
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  unsigned char *memory = pbContext_Alloc(ctx, 1000);
  for (int i = 0; i < 1000; i++) assert_int_equal(memory[i], 0);
  void *nothing = pbContext_Alloc(ctx, 0);
  assert_non_null(nothing);
  assert_null(pbContext_AllocArray(ctx, SIZE_MAX / 2, 3));
  char *copy = pbContext_CopyText(ctx, "text");
  assert_string_equal(copy, "text");
  memory = pbContext_Resize(ctx, memory, 2000);
  assert_int_equal(memory[999], 0);
  meter.fail_at = meter.calls + 1;
  assert_null(pbContext_Alloc(ctx, 8));
  pbContext_Free(ctx, NULL);
  pbContext_Free(ctx, memory);
  pbContext_Free(ctx, nothing);
  pbContext_Free(ctx, copy);
  pbContext_Destroy(ctx);
  assert_int_equal(meter.live, 0);
  meter = (Meter){.fail_at = 1};
  assert_null(pbContext_Create(&hooks));
  pbAllocator half = meter_hooks(&meter);
  half.resize = NULL;
  assert_null(pbContext_Create(&half));
}

typedef struct Layout {
  double *x;
  char *c, *temporary;
} Layout;
static void lay_out(pbArena *arena, Layout *t, size_t n) {
  t->x = pbArena_Take(arena, n, sizeof *t->x);
  size_t mark = pbArena_Mark(arena);
  t->temporary = pbArena_Take(arena, 1000, 1);
  pbArena_Release(arena, mark);
  t->c = pbArena_Take(arena, 3, 1);
}

static void test_arena_measures_what_it_uses(void **state) {
  (void)state;
  Layout t;
  pbArena measure = pbArena_Measure();
  lay_out(&measure, &t, 7);
  assert_null(t.x);
  size_t size = pbArena_Needed(&measure);
  for (int shift = 0; shift < 64; shift += 7) {  // wherever the memory lies
    char *memory = malloc(size + (size_t)shift);
    pbArena arena = pbArena_Over(memory + shift, size);
    lay_out(&arena, &t, 7);
    assert_false(arena.failed);
    assert_int_equal((uintptr_t)t.x % PB_ARENA_ALIGN, 0);
    assert_true(t.temporary == t.c);
    assert_true((char *)t.x >= memory + shift && t.temporary + 1000 <= memory + shift + size);
    free(memory);
  }
}

static void test_arena_says_when_it_is_full(void **state) {
  (void)state;
  char memory[256];
  pbArena arena = pbArena_Over(memory, sizeof memory);
  assert_null(pbArena_Take(&arena, 257, 1));
  assert_true(arena.failed);
  pbArena_Release(&arena, 0);
  assert_false(arena.failed);
  assert_non_null(pbArena_Take(&arena, 128, 1));
  assert_null(pbArena_Take(&arena, SIZE_MAX / 8 + 2, 8));  // the product wraps round to 8
  assert_true(arena.failed);
  pbArena empty = pbArena_Over(NULL, 0);
  assert_null(pbArena_Take(&empty, 1, 1));
  assert_true(empty.failed);
}

static void test_arena_overflow_is_not_forgotten(void **state) {
  (void)state;
  pbArena measure = pbArena_Measure();
  pbArena_Take(&measure, SIZE_MAX / 4, 8);
  pbArena_Release(&measure, 0);
  assert_true(pbArena_Needed(&measure) == SIZE_MAX);
  measure = pbArena_Measure();
  for (int i = 0; i < 3; i++) pbArena_Take(&measure, SIZE_MAX / 2, 1);
  assert_true(pbArena_Needed(&measure) == SIZE_MAX);
}

// ---- assertions -----------------------------------------------------------------------------------------------------
// What a child process leaves in `said` where a condition does not hold; its status as waitpid gives it.
static int fail_in_child(const char *wish, char *said, size_t size) {
  int ends[2], status;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    setenv("PULLBACK_ASSERT", wish, 1);
    pbAssert_Fail("mass > 0", "body.c", 12, "add_body");
    _exit(0);
  }

  close(ends[1]);
  ssize_t count = read(ends[0], said, size - 1);
  said[count > 0 ? count : 0] = 0;
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static void test_assertion_names_itself(void **state) {
  (void)state;
  char said[200];
  int status = fail_in_child("on", said, sizeof said);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);

  // What runs another machine's programs says below it that one was aborted.
  char *end = strstr(said, "\nqemu: ");
  if (end) end[1] = 0;
  assert_string_equal(said, "body.c:12: add_body: assertion 'mass > 0' does not hold\n");

  status = fail_in_child("off", said, sizeof said);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_string_equal(said, "");
}

static void test_assertions_where_they_are_on(void **state) {
  (void)state;
  int seen = 0;
  PB_VALIDATE(++seen > 0);
#ifdef PULLBACK_VALIDATE
  assert_int_equal(seen, 1);
#else
  assert_int_equal(seen, 0);
#endif
}

static void test_invariants(void **state) {
  (void)state;
  const double numbers[] = {1, -2, INFINITY}, nan[] = {NAN}, unit[] = {0.6, 0, 0.8}, longer[] = {0.6, 0, 0.81};
  assert_true(pb_allFinite(numbers, 2));
  assert_false(pb_allFinite(numbers, 3));
  assert_false(pb_allFinite(nan, 1));
  assert_true(pb_allFinite(nan, 0));

  const int list[] = {-1, 0, 4, 4};
  assert_true(pb_ascending(list, 3));
  assert_false(pb_ascending(list, 4));
  assert_true(pb_allWithin(list, 4, -1, 5));
  assert_false(pb_allWithin(list, 4, 0, 5));
  assert_false(pb_allWithin(list, 4, -1, 4));

  assert_true(pb_isUnit(unit, 3));
  assert_false(pb_isUnit(longer, 3));
}

static void test_names_that_were_meant(void **state) {
  (void)state;
  const char *names[] = {"body_mass", "gravity", "geom_friction"};

  assert_string_equal(pbName_Nearest("body_mas", names, 3), "body_mass");
  assert_string_equal(pbName_Nearest("friction", names, 3), "geom_friction");
  assert_null(pbName_Nearest("wind", names, 3));
  assert_null(pbName_Nearest("gravity", names, 0));
}

// The reference is xoshiro256**'s own C code, seeded by splitmix64 from 42; every double in [0, 1) has 53 bits.
static void test_random_numbers(void **state) {
  (void)state;
  static const uint64_t expected[] = {0x15780b2e0c2ec716, 0x6104d9866d113a7e, 0xae17533239e499a1};
  pbRng rng = pbRng_Seed(42), again = rng;
  double saved[PB_RNG_DOUBLES];

  for (int i = 0; i < 3; i++) assert_true(pbRng_Next(&rng) == expected[i]);
  assert_true(pbRng_Uniform(&again) == (double)(expected[0] >> 11) * 0x1p-53);

  pbRng_Normal(&rng);
  pbRng_Save(&rng, saved);
  again = pbRng_Load(saved);
  for (int i = 0; i < 5; i++) assert_true(pbRng_Normal(&again) == pbRng_Normal(&rng));
}

// Names of kernels as the processor's variants are, to the last.
static void test_how_it_was_built(void **state) {
  (void)state;
  int count = 0;

  while (pbBuild_Kernels(count)) count++;
  assert_true(count >= 1 && pbCpu_Variant(count - 1) >= 0 && pbCpu_Variant(count) == -1);
  assert_string_equal(pbBuild_Kernels(count - 1), "r");
  assert_null(pbBuild_Kernels(-1));
  assert_null(pbBuild_Kernels(count + 1));
#ifdef __clang__
  assert_string_equal(pbBuild_Compiler(), __VERSION__);
#else
  assert_string_equal(pbBuild_Compiler(), "gcc " __VERSION__);
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_status_texts),
      cmocka_unit_test(test_error_text),
      cmocka_unit_test(test_warnings),
      cmocka_unit_test(test_allocation),
      cmocka_unit_test(test_arena_measures_what_it_uses),
      cmocka_unit_test(test_arena_says_when_it_is_full),
      cmocka_unit_test(test_arena_overflow_is_not_forgotten),
      cmocka_unit_test(test_assertion_names_itself),
      cmocka_unit_test(test_assertions_where_they_are_on),
      cmocka_unit_test(test_invariants),
      cmocka_unit_test(test_names_that_were_meant),
      cmocka_unit_test(test_random_numbers),
      cmocka_unit_test(test_how_it_was_built),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
