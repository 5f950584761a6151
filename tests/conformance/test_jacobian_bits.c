// A and B of a step have the same bits on every instruction set that the kernels are built for, by pairs of dofs and row by row.
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/pullback.h>

#include "model/columns.h"
#include "step/scratch.h"
#include "step/variants.h"
#include "support/support.h"

static uint64_t seed = 3;
static int compared;

// Jacobians of a record by one variant, in a scratch of its own: blocks of cotangents are as wide as their variant.
static double *jacobian(pbContext *ctx, const pbModel *m, const double *record, const pbInput *input, const pbVariant *variant,
                        unsigned by, size_t *count) {
  size_t n = (size_t)pbModel_TangentSize(m), columns = (size_t)pbModel_Columns(m, by);
  pbScratch *s;
  assert_int_equal(pbScratch_Create(ctx, m, NULL, &s), pb_ok);
  s->variant = variant;
  *count = n * (n + columns);
  double *A = calloc(*count + 1, sizeof *A);
  const pbJacobian out = {.by = by, .A = A, .B = A + n * n};
  assert_int_equal(pbStep_JacobianBy(m, pbModel_DefaultParams(m), record, input, s, &out), pb_ok);
  pbScratch_Destroy(s);
  return A;
}

static void compare(pbContext *ctx, const char *file, const pbModel *m, const double *record, const pbInput *input, unsigned by) {
  size_t count;
  double *best = jacobian(ctx, m, record, input, pbVariant_At(0), by, &count);
  for (int v = 1; pbVariant_At(v); v++) {
    double *other = jacobian(ctx, m, record, input, pbVariant_At(v), by, &count);
    if (memcmp(best, other, count * sizeof *best))
      fail_msg("%s: A and B of %s and %s do not have the same bits", file, pbVariant_At(0)->name, pbVariant_At(v)->name);
    free(other);
    compared++;
  }
  free(best);
}

// Some steps from the model's first state, under controls at random; then the Jacobians of the last one.
static void check_model(pbContext *ctx, const char *file, const char *integrator) {
  enum { steps = 12 };
  pbModel *m;
  pbScratch *s;
  if (pbModel_Load(ctx, file, NULL, &m) != pb_ok) return;
  assert_int_equal(pbModel_SetOption(m, "integrator", integrator), pb_ok);
  if (pbModel_Check(ctx, m) != pb_ok) {
    pbModel_Destroy(m);
    return;
  }

  assert_int_equal(pbScratch_Create(ctx, m, NULL, &s), pb_ok);
  double *x = calloc((size_t)pbModel_StateSize(m), sizeof *x), *before = calloc((size_t)pbModel_StateSize(m), sizeof *x);
  double *record = calloc((size_t)pbTape_Size(m), sizeof *x), *ctrl = calloc((size_t)m->nu + 1, sizeof *x);
  const pbInput input = {.ctrl = ctrl};
  pbStatus status = pbState_Init(ctx, m, pbModel_DefaultParams(m), -1, x);
  for (int k = 0; k < steps && status == pb_ok; k++) {
    fill_noise(&seed, ctrl, m->nu, 0.5);
    memcpy(before, x, (size_t)pbModel_StateSize(m) * sizeof *x);
    status = pbStep_Forward(m, pbModel_DefaultParams(m), x, &input, s, NULL);
  }

  if (status == pb_ok) {
    pbTape_Record(m, before, s, record);
    compare(ctx, file, m, record, &input, pb_byControl);
    compare(ctx, file, m, record, &input, pb_byControl | pb_byMocapPos);
  }
  free(x);
  free(before);
  free(record);
  free(ctrl);
  pbScratch_Destroy(s);
  pbModel_Destroy(m);
}

static void test_same_bits(void **state) {
  (void)state;
  glob_t files;
  assert_int_equal(glob("oracle/models/*.xml", 0, NULL, &files), 0);
  pbContext *ctx = pbContext_Create(NULL);
  for (size_t f = 0; f < files.gl_pathc; f++) {
    check_model(ctx, files.gl_pathv[f], "Euler");
    check_model(ctx, files.gl_pathv[f], "implicitfast");
  }
  globfree(&files);
  pbContext_Destroy(ctx);
  assert_true(compared > 100 || !pbVariant_At(1));  // the models were found
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
