// NPY and NPZ: what is written comes back, what NumPy writes is understood, what is damaged is refused.
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <pullback/array.h>
#include <pullback/io.h>

#include "support/meter.h"

typedef struct Fixture {
  pbContext *ctx;
  char folder[64], path[96];
} Fixture;

static int set_up(void **state) {
  Fixture *f = calloc(1, sizeof *f);
  f->ctx = pbContext_Create(NULL);
  strcpy(f->folder, "/tmp/pullback-npz-XXXXXX");
  if (!mkdtemp(f->folder)) return 1;
  snprintf(f->path, sizeof f->path, "%s/a.npz", f->folder);
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  Fixture *f = *state;
  unlink(f->path);
  int left = rmdir(f->folder);  // fails where a temporary file was left behind
  pbContext_Destroy(f->ctx);
  free(f);
  return left;
}

static pbArrays *example(pbContext *ctx) {
  pbArrays *set = NULL;
  double values[6] = {1, -2.5, 1e300, 0.1, NAN, -INFINITY}, *memory = NULL;
  int whole[3] = {-7, 0, INT32_MAX};
  assert_int_equal(pbArrays_Create(ctx, &set), pb_ok);
  assert_int_equal(pbArrays_AddReals(set, "x", 2, (size_t[]){2, 3}, values, NULL), pb_ok);
  assert_int_equal(pbArrays_AddReals(set, "param/big", 1, (size_t[]){40000}, NULL, &memory), pb_ok);
  for (int i = 0; i < 40000; i++) memory[i] = i % 17;
  assert_int_equal(pbArrays_AddReals(set, "none", 2, (size_t[]){5, 0}, NULL, NULL), pb_ok);
  assert_int_equal(pbArrays_AddReals(set, "one", 0, NULL, values + 3, NULL), pb_ok);
  assert_int_equal(pbArrays_AddInts(set, "n", 1, (size_t[]){3}, whole, NULL), pb_ok);
  assert_int_equal(pbArrays_AddText(set, "meta", "{\"gr\xC3\xBC\xC3\x9F\": \"\xF0\x9D\x84\x9E\"}"), pb_ok);
  assert_int_equal(pbArrays_AddText(set, "", ""), pb_ok);
  return set;
}

static void assert_same(const pbArrays *a, const pbArrays *b) {
  assert_int_equal(pbArrays_Count(a), pbArrays_Count(b));
  for (size_t i = 0; i < pbArrays_Count(a); i++) {
    const pbArray *x = pbArrays_At(a, i), *y = pbArrays_At(b, i);
    assert_string_equal(x->name, y->name);
    assert_int_equal(x->ndim, y->ndim);
    assert_int_equal(x->count, y->count);
    for (int d = 0; d < x->ndim; d++) assert_int_equal(x->shape[d], y->shape[d]);
    if (x->type == pb_arrayText) assert_string_equal(x->text, y->text);
    if (x->type == pb_arrayReal) assert_memory_equal(x->reals, y->reals, x->count * sizeof(double));
    for (size_t k = 0; x->type == pb_arrayInt && k < x->count; k++) assert_true(x->integers[k] == y->reals[k]);
  }
}

static void test_what_is_written_comes_back(void **state) {
  Fixture *f = *state;
  pbArrays *set = example(f->ctx), *back = NULL;
  for (int compressed = 0; compressed < 2; compressed++) {
    assert_int_equal(pbArrays_SaveNpz(set, f->path, compressed), pb_ok);
    assert_int_equal(pbArrays_Load(f->ctx, f->path, &back), pb_ok);
    assert_same(set, back);
    assert_null(pbArrays_Find(back, "y"));
    pbArrays_Destroy(back);
  }
  struct stat info;
  assert_int_equal(stat(f->path, &info), 0);
  assert_true(info.st_size < 20000);  // it was compressed
  pbArrays_Destroy(set);
}

static void test_npy(void **state) {
  Fixture *f = *state;
  pbArrays *set = NULL, *back = NULL;
  assert_int_equal(pbArrays_Create(f->ctx, &set), pb_ok);
  assert_int_equal(pbArrays_SaveNpy(set, f->path), pb_bad_argument);
  assert_int_equal(pbArrays_AddReals(set, "", 1, (size_t[]){3}, (double[]){1, 2, 3}, NULL), pb_ok);
  assert_int_equal(pbArrays_SaveNpy(set, f->path), pb_ok);
  assert_int_equal(pbArrays_Load(f->ctx, f->path, &back), pb_ok);
  assert_same(set, back);
  pbArrays_Destroy(back);
  assert_int_equal(pbArrays_AddReals(set, "", 1, (size_t[]){3}, NULL, NULL), pb_bad_argument);  // a name twice
  assert_int_equal(pbArrays_AddReals(set, "b", 2, (size_t[]){SIZE_MAX / 2, 9}, NULL, NULL), pb_no_memory);
  assert_int_equal(pbArrays_AddReals(set, "b", 1, (size_t[]){PB_ARRAY_LIMIT}, NULL, NULL), pb_capacity);
  assert_int_equal(pbArrays_AddReals(set, "b", 9, (size_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}, NULL, NULL), pb_bad_argument);
  pbArrays_Destroy(set);
}

// An NPY by hand: version 1, a header as it is given, then bytes.
static size_t make_npy(unsigned char *out, const char *header, const void *data, size_t size) {
  size_t n = strlen(header);
  memcpy(out, "\x93NUMPY\1\0", 8);
  out[8] = (unsigned char)(n & 255);
  out[9] = (unsigned char)(n >> 8);
  memcpy(out + 10, header, n);
  if (size) memcpy(out + 10 + n, data, size);
  return 10 + n + size;
}

static const double *parse(Fixture *f, pbArrays **set, const char *header, const void *data, size_t size) {
  unsigned char bytes[1024];
  size_t n = make_npy(bytes, header, data, size);
  assert_int_equal(pbArrays_Parse(f->ctx, bytes, n, "test", set), pb_ok);
  return pbArrays_At(*set, 0)->reals;
}

static void test_types_and_orders(void **state) {
  Fixture *f = *state;
  pbArrays *set = NULL;
  const double *x = parse(f, &set, "{'descr': '>f8', 'fortran_order': False, 'shape': (1,), }", "\x3f\xf8\0\0\0\0\0\0", 8);
  assert_true(x[0] == 1.5);
  pbArrays_Destroy(set);
  x = parse(f, &set, "{\"shape\":(2L,),'descr':'<f2','fortran_order':False}\n", "\x00\x3e\x01\x80", 4);
  assert_true(x[0] == 1.5 && x[1] == -0x1p-24);
  pbArrays_Destroy(set);
  x = parse(f, &set, "{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3), }", "\1\4\2\5\3\xff", 6);
  for (int i = 0; i < 5; i++) assert_true(x[i] == i + 1);
  assert_true(x[5] == -1);
  pbArrays_Destroy(set);
  x = parse(f, &set, "{'descr': '>i8', 'fortran_order': False, 'shape': (), }", "\xff\xe0\0\0\0\0\0\0", 8);
  assert_true(x[0] == -0x1p53);
  pbArrays_Destroy(set);
  x = parse(f, &set, "{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", "\1\0", 2);
  assert_true(x[0] == 1 && x[1] == 0);
  pbArrays_Destroy(set);
}

static void test_damaged_headers(void **state) {
  Fixture *f = *state;
  static const char *const headers[] = {"",
                                        "{",
                                        "{}",
                                        "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), } x",
                                        "{'descr': '<f8', 'fortran_order': False}",
                                        "{'descr': '<f8', 'fortran_order': 1, 'shape': (2,)}",
                                        "{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (1,)}",
                                        "{'descr': '|O', 'fortran_order': False, 'shape': (2,)}",
                                        "{'descr': '<c16', 'fortran_order': False, 'shape': (1,)}",
                                        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}",
                                        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
                                        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
                                        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1000000000000)}",
                                        "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}",
                                        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}",
                                        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2)}",
                                        "{'descr': '<f16', 'fortran_order': False, 'shape': (1,)}",
                                        "{'descr': '<U0', 'fortran_order': False, 'shape': (100000000,)}",
                                        "{'descr': '<f8, 'fortran_order': False, 'shape': (2,)}"};
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
    unsigned char bytes[512];
    size_t n = make_npy(bytes, headers[i], "0123456789abcdef", 16);
    pbArrays *set = NULL;
    assert_int_equal(pbArrays_Parse(f->ctx, bytes, n, "test", &set), pb_bad_input);
    assert_null(set);
    assert_non_null(strstr(pbContext_Error(f->ctx), "test: "));
  }
  pbArrays *set = NULL;
  assert_int_equal(pbArrays_Parse(f->ctx, "", 0, "test", &set), pb_bad_input);
  assert_int_equal(pbArrays_Parse(f->ctx, "\x80\4K\1.", 5, "test", &set), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(f->ctx), "pickle"));
}

static unsigned char *read_file(const char *path, size_t *size) {
  FILE *stream = fopen(path, "rb");
  assert_non_null(stream);
  unsigned char *bytes = malloc(1 << 20);
  *size = fread(bytes, 1, 1 << 20, stream);
  fclose(stream);
  return bytes;
}

// Cut anywhere, or with a byte changed anywhere, a file is refused, or says the same as before (in fields nobody reads).
static void test_damaged_archives(void **state) {
  Fixture *f = *state;
  pbArrays *set = NULL, *back = NULL;
  assert_int_equal(pbArrays_Create(f->ctx, &set), pb_ok);
  assert_int_equal(pbArrays_AddReals(set, "x", 1, (size_t[]){4}, (double[]){1, 2, 3, 4}, NULL), pb_ok);
  assert_int_equal(pbArrays_AddText(set, "meta", "text"), pb_ok);
  int accepted = 0, tried = 0;
  for (int compressed = 0; compressed < 2; compressed++) {
    assert_int_equal(pbArrays_SaveNpz(set, f->path, compressed), pb_ok);
    size_t size = 0;
    unsigned char *bytes = read_file(f->path, &size);
    for (size_t n = 0; n < size; n++) assert_int_equal(pbArrays_Parse(f->ctx, bytes, n, "cut", &back), pb_bad_input);
    for (size_t at = 0; at < size; at++, tried++) {
      bytes[at] ^= 0x55;
      pbStatus status = pbArrays_Parse(f->ctx, bytes, size, "bit", &back);
      assert_true(status == pb_ok || status == pb_bad_input);
      const pbArray *x = status == pb_ok ? pbArrays_Find(back, "x") : NULL;
      if (x) assert_memory_equal(x->reals, ((double[]){1, 2, 3, 4}), 32);
      if (status == pb_ok) pbArrays_Destroy(back);
      accepted += status == pb_ok;
      bytes[at] ^= 0x55;
    }
    free(bytes);
  }
  assert_true(accepted < tried / 2);  // in so small a file half of the bytes are dates, versions and second copies
  pbArrays_Destroy(set);
}

static void test_places_that_cannot_be(void **state) {
  Fixture *f = *state;
  pbArrays *set = example(f->ctx), *back = NULL;
  char path[160];
  snprintf(path, sizeof path, "%s/no/a.npz", f->folder);
  assert_int_equal(pbArrays_SaveNpz(set, path, false), pb_file);
  assert_int_equal(pbArrays_SaveNpz(set, f->folder, false), pb_file);
  assert_int_equal(pbArrays_Load(f->ctx, path, &back), pb_file);
  assert_int_equal(pbArrays_Load(f->ctx, "/dev/zero", &back), pb_bad_input);
  assert_int_equal(pbArrays_Load(f->ctx, f->folder, &back), pb_bad_input);
  assert_int_equal(pbArrays_SaveNpz(set, "/dev/full", false), pb_file);
  assert_int_equal(pbArrays_SaveNpz(set, "/dev/null", false), pb_ok);
  struct stat info;
  assert_true(stat("/dev/null", &info) == 0 && S_ISCHR(info.st_mode));  // written to, not replaced
  pbArrays_Destroy(set);
}

static void test_finite(void **state) {
  Fixture *f = *state;
  pbArrays *set = example(f->ctx);
  assert_int_equal(pbArray_CheckFinite(f->ctx, pbArrays_Find(set, "param/big"), "a.npz"), pb_ok);
  assert_int_equal(pbArray_CheckFinite(f->ctx, pbArrays_Find(set, "x"), "a.npz"), pb_bad_input);
  assert_string_equal(pbContext_Error(f->ctx), "a.npz: x[1, 1] is NaN; numbers here must be finite");
  pbArrays_CutRows(set, "x", 1);
  assert_int_equal(pbArray_CheckFinite(f->ctx, pbArrays_Find(set, "x"), "a.npz"), pb_ok);
  pbArrays_Destroy(set);
}

// Every allocation of a load and of a save fails once: an error, nothing lost, nothing left behind.
static void test_failing_allocator(void **state) {
  Fixture *f = *state;
  pbArrays *set = example(f->ctx);
  assert_int_equal(pbArrays_SaveNpz(set, f->path, true), pb_ok);
  pbArrays_Destroy(set);
  bool failed = true;
  for (int at = 2; failed && at < 1000; at++) {
    Meter meter = {.fail_at = at};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&hooks);
    set = NULL;
    pbStatus status = pbArrays_Load(ctx, f->path, &set);
    if (status == pb_ok) status = pbArrays_SaveNpz(set, f->path, true);
    assert_true(status == pb_ok || status == pb_no_memory);
    pbArrays_Destroy(set);
    pbContext_Destroy(ctx);
    assert_int_equal(meter.live, 0);
    failed = meter.calls >= at;
    assert_true(failed || status == pb_ok);
  }
  assert_false(failed);
  assert_int_equal(pbArrays_Load(f->ctx, f->path, &set), pb_ok);
  pbArrays_Destroy(set);
}

// Files of several threads get the permissions that the mask leaves, which nobody changes; nothing else is left in the folder.
enum { writers = 4, writes = 200 };
typedef struct Writer {
  char path[128];
  bool good;
} Writer;

static void *write_often(void *argument) {
  Writer *w = argument;
  const size_t one = 1;
  const double value = 1;
  pbContext *ctx = pbContext_Create(NULL);
  for (int k = 0; k < writes && w->good; k++) {
    pbArrays *set;
    w->good = pbArrays_Create(ctx, &set) == pb_ok;
    if (!w->good) break;
    w->good = pbArrays_AddReals(set, "", 1, &one, &value, NULL) == pb_ok && pbArrays_SaveNpy(set, w->path) == pb_ok;
    pbArrays_Destroy(set);
  }
  pbContext_Destroy(ctx);
  return NULL;
}

static void test_permissions(void **state) {
  Fixture *f = *state;
  Writer w[writers];
  pthread_t thread[writers];
  mode_t before = umask(027);
  for (int i = 0; i < writers; i++) {
    w[i].good = true;
    snprintf(w[i].path, sizeof w[i].path, "%s/%d.npy", f->folder, i);
    assert_int_equal(pthread_create(&thread[i], NULL, write_often, &w[i]), 0);
  }
  for (int i = 0; i < writers; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
  assert_int_equal(umask(before), 027);
  for (int i = 0; i < writers; i++) {
    struct stat info;
    assert_true(w[i].good);
    assert_int_equal(stat(w[i].path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(unlink(w[i].path), 0);
  }
  assert_int_equal(rmdir(f->folder), 0);  // empty
  assert_int_equal(mkdir(f->folder, 0700), 0);
}

// Bytes as a file: whole or not at all; asking leaves nothing behind (tear_down removes the folder).
static void test_bytes_appear_whole(void **state) {
  Fixture *f = *state;
  char path[128], back[8] = {0};
  snprintf(path, sizeof path, "%s/no/such/folder", f->folder);

  assert_int_equal(pbFile_CanWrite(f->ctx, f->path), pb_ok);
  assert_int_equal(access(f->path, F_OK), -1);
  assert_int_equal(pbFile_Write(f->ctx, f->path, "a\0b", 3), pb_ok);
  FILE *file = fopen(f->path, "rb");
  assert_true(file && fread(back, 1, sizeof back, file) == 3 && back[0] == 'a' && back[2] == 'b');
  fclose(file);

  assert_int_equal(pbFile_Write(f->ctx, f->path, "", 0), pb_ok);
  assert_int_equal(pbFile_CanWrite(f->ctx, path), pb_file);
  assert_int_equal(pbFile_Write(f->ctx, path, "a", 1), pb_file);
  assert_int_equal(pbFile_Write(f->ctx, "/dev/full", "a", 1), pb_file);
}

// A text that grows, one that has no memory for a part of it, one that is dropped.
static void test_drafts(void **state) {
  Fixture *f = *state;
  pbDraft draft = {0};
  char *text;
  size_t size;
  pbDraft_Drop(&draft);

  assert_int_equal(pbDraft_Begin(f->ctx, &draft), pb_ok);
  for (int i = 0; i < 100000; i++) fprintf(draft.stream, "%05d", i);
  assert_int_equal(pbDraft_End(&draft, &text, &size), pb_ok);
  assert_int_equal(size, 500000);
  assert_int_equal(strlen(text), size);
  assert_memory_equal(text + 5 * 77777, "77777", 5);
  pbContext_Free(f->ctx, text);

  assert_int_equal(pbDraft_Begin(f->ctx, &draft), pb_ok);
  assert_int_equal(pbDraft_End(&draft, &text, NULL), pb_ok);
  assert_string_equal(text, "");
  pbContext_Free(f->ctx, text);

  assert_int_equal(pbDraft_Begin(f->ctx, &draft), pb_ok);
  fputs("never to be read", draft.stream);
  pbDraft_Drop(&draft);
  pbDraft_Drop(&draft);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_what_is_written_comes_back, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_npy, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_types_and_orders, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_damaged_headers, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_damaged_archives, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_places_that_cannot_be, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_finite, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_failing_allocator, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_permissions, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_bytes_appear_whole, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_drafts, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
