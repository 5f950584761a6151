// Formulas of named numbers: values and derivatives in closed form, names, what is refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/context.h"
#include "energy/expression.h"
#include "support/support.h"

static const pbExpressionInput inputs[] = {{"speed", 1}, {"x0", 3}, {"t", 1}};

// 40 evaluations, more than one block: each by itself.
static void test_value_and_gradient(void **state) {
  pbExpression *e;
  double in[40 * 6] = {0}, value[40], gradient[40 * 6];
  assert_int_equal(pbExpression_Create(*state, "d = norm(x0) # length\n -speed^2*d + sin(t)*x0.y", inputs, 3, 40, &e), pb_ok);
  assert_int_equal(pbExpression_Width(e), 6);

  for (int k = 0; k < 40; k++) {
    double *row = in + 6 * k;
    row[0] = 1 + 0.1 * k;
    row[1] = 3;
    row[2] = -4;
    row[3] = k;
    row[4] = 0.3 * k;
  }

  pbEnergyFault fault;
  assert_true(pbExpression_Evaluate(e, 40, in, value, gradient, &fault));
  for (int k = 0; k < 40; k++) {
    const double *row = in + 6 * k, *g = gradient + 6 * k;
    double d = sqrt(25 + row[3] * row[3]), v = row[0];
    const double expected[6] = {-2 * v * d,          -v * v * 3 / d,   v * v * 4 / d + sin(row[4]),
                                -v * v * row[3] / d, -4 * cos(row[4]), 0};
    assert_true(fabs(value[k] - (-v * v * d - 4 * sin(row[4]))) < 1e-12 * v * v * d);
    for (int i = 0; i < 6; i++) assert_true(fabs(g[i] - expected[i]) < 1e-12 * (1 + fabs(expected[i])));
  }

  pbExpression_Destroy(e);
}

// A value alone does not need the derivative to exist.
static void test_faults_name_the_evaluation(void **state) {
  pbExpression *e;
  double in[3 * 6] = {0}, value[3], gradient[3 * 6];
  pbEnergyFault fault;
  assert_int_equal(pbExpression_Create(*state, "norm(x0) + log(speed)", inputs, 3, 3, &e), pb_ok);
  for (int k = 0; k < 3; k++) in[6 * k] = 1;
  assert_true(pbExpression_Evaluate(e, 3, in, value, NULL, &fault));
  assert_false(pbExpression_Evaluate(e, 3, in, value, gradient, &fault));
  in[12] = -1;
  assert_false(pbExpression_Evaluate(e, 3, in, value, NULL, &fault));
  assert_int_equal(fault.element, 2);
  assert_non_null(strstr(fault.what, "log of -1"));
  pbExpression_Destroy(e);
}

static void test_what_is_refused(void **state) {
  static const struct {
    const char *formula, *says;
  } cases[] = {{"speeed + 1", "line 1, column 1 of the formula: unknown name 'speeed', did you mean 'speed'?"},
               {"1 +\n h", "unknown name 'h'"},
               {"X1.x", "unknown name 'X1'"},
               {"speed = 2; speed", "'speed' is given"},
               {"x0", "the value must be a scalar"},
               {"a = 2", "the last statement must be the value itself"},
               {"freeze(speed)", "freeze() has no use here"},
               {"", "the formula is empty"},
               {"1 + (", "expected"}};
  pbExpression *e;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(pbExpression_Create(*state, cases[i].formula, inputs, 3, 1, &e), pb_bad_input);
    if (!strstr(pbContext_Error(*state), cases[i].says)) fail_msg("%s: %s", cases[i].formula, pbContext_Error(*state));
    assert_null(e);
  }

  const pbExpressionInput bad[] = {{"sin", 1}}, spaced[] = {{"a b", 1}};
  assert_int_equal(pbExpression_Create(*state, "1", bad, 1, 1, &e), pb_bad_input);
  assert_int_equal(pbExpression_Create(*state, "1", spaced, 1, 1, &e), pb_bad_input);
  assert_int_equal(pbExpression_Create(*state, "2*pi", NULL, 0, 1, &e), pb_ok);
  double none[3] = {0}, value;
  assert_true(pbExpression_Evaluate(e, 1, none, &value, NULL, NULL) && fabs(value - 6.283185307179586) < 1e-15);
  pbExpression_Destroy(e);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_value_and_gradient), cmocka_unit_test(test_faults_name_the_evaluation),
                                     cmocka_unit_test(test_what_is_refused)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
