// Models as bytes: every field and the next states are the same; damage and other versions are told.
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/contact.h>
#include <pullback/io.h>
#include <pullback/world.h>
#include <pullback/spec.h>

static void check_fields(const pbModel *a, const pbModel *b) {
  pbField f, g;
  int i = 0;
  for (; pbModel_FieldAt(a, i, &f); i++) {
    assert_true(pbModel_FieldAt(b, i, &g));
    assert_string_equal(f.name, g.name);
    assert_true(f.rows == g.rows && f.cols == g.cols);
    size_t count = (size_t)f.rows * (size_t)f.cols;
    if (count == 0) continue;
    assert_memory_equal(f.integers ? (const void *)f.integers : (const void *)f.reals,
                        g.integers ? (const void *)g.integers : (const void *)g.reals,
                        count * (f.integers ? sizeof(int) : sizeof(double)));
  }
  assert_true(i > 100);
  for (int kind = 0; kind < pb_objCount; kind++) {
    const char *name;
    for (int k = 0; (name = pbModel_Name(a, (pbObject)kind, k)); k++)
      assert_string_equal(name, pbModel_Name(b, (pbObject)kind, k));
  }
}

static void check_steps(pbContext *ctx, const pbModel *a, const pbModel *b) {
  const pbModel *model[] = {a, b};
  double *x[2];
  size_t size = (size_t)pbModel_StateSize(a) * sizeof(double);
  for (int k = 0; k < 2; k++) {
    pbScratch *scratch;
    x[k] = malloc(size);
    assert_int_equal(pbScratch_Create(ctx, model[k], NULL, &scratch), pb_ok);
    assert_int_equal(pbState_Init(ctx, model[k], pbModel_DefaultParams(model[k]), -1, x[k]), pb_ok);
    pbInput input = {0};
    for (int step = 0; step < 5; step++)
      if (pbStep_Forward(model[k], pbModel_DefaultParams(model[k]), x[k], &input, scratch, NULL) != pb_ok) break;
    pbScratch_Destroy(scratch);
  }
  assert_memory_equal(x[0], x[1], size);
  free(x[0]);
  free(x[1]);
}

static void test_there_and_back(void **state) {
  (void)state;
  glob_t files;
  int seen = 0;
  assert_int_equal(glob("oracle/models/*.xml", 0, NULL, &files), 0);
  for (size_t f = 0; f < files.gl_pathc; f++) {
    pbContext *ctx = pbContext_Create(NULL);
    pbModel *a, *b;
    void *bytes;
    size_t size;
    if (pbModel_Load(ctx, files.gl_pathv[f], NULL, &a) == pb_ok) {
      assert_int_equal(pbModel_SetOption(a, "tolerance", "1e-9"), pb_ok);
      assert_int_equal(pbModel_Pack(ctx, a, &bytes, &size), pb_ok);
      assert_int_equal(pbModel_Unpack(ctx, bytes, size, &b), pb_ok);
      check_fields(a, b);
      check_steps(ctx, a, b);
      pbContext_Free(ctx, bytes);
      pbModel_Destroy(a);
      pbModel_Destroy(b);
      seen++;
    }
    pbContext_Destroy(ctx);
  }
  assert_true(seen > 20);
  globfree(&files);
}

static void test_damage_is_told(void **state) {
  (void)state;
  static const char xml[] = "<mujoco><worldbody><body name='b'><joint/><geom size='.1'/></body></worldbody></mujoco>";
  pbContext *ctx = pbContext_Create(NULL);
  pbSpec *spec;
  pbModel *model, *back;
  void *bytes;
  size_t size;
  assert_int_equal(pbSpec_ParseMjcf(ctx, xml, strlen(xml), "text", &spec), pb_ok);
  assert_int_equal(pbSpec_Compile(spec, &model), pb_ok);
  assert_int_equal(pbModel_Pack(ctx, model, &bytes, &size), pb_ok);

  // Cut anywhere, changed anywhere.
  for (size_t cut = 0; cut < size; cut += 1 + cut / 7) assert_int_equal(pbModel_Unpack(ctx, bytes, cut, &back), pb_bad_input);
  for (size_t at = 0; at < size; at += 1 + at / 50) {
    ((char *)bytes)[at] ^= 0x40;
    assert_int_equal(pbModel_Unpack(ctx, bytes, size, &back), pb_bad_input);
    assert_null(back);
    ((char *)bytes)[at] ^= 0x40;
  }
  ((char *)bytes)[8] = '9';
  assert_int_equal(pbModel_Unpack(ctx, bytes, size, &back), pb_bad_input);
  char said[64];  // major and minor number
  const char *minor = strchr(pbVersion(), '.') + 1;
  snprintf(said, sizeof said, "packed by version 9.%.*s, and this is version %.*s", (int)strcspn(minor, "."), minor,
           (int)(minor - pbVersion()) + (int)strcspn(minor, "."), pbVersion());
  assert_non_null(strstr(pbContext_Error(ctx), said));

  pbContext_Free(ctx, bytes);
  pbSpec_Destroy(spec);
  pbModel_Destroy(model);
  pbContext_Destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_damage_is_told)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
