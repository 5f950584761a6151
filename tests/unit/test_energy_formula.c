// The formula language: what bad formulas are told, values outside of a domain, graphs built in C, memory that fails.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "energy/energy_inside.h"
#include "energy_cases.h"
#include "support/meter.h"
#include "support/one_context.h"

// ---- bad formulas -------------------------------------------------------------------------------------------------------
static const pbEnergyParameter bad_parameters[] = {SCALAR("stiffness"), VEC3("g"), MAT3("A")};

static const struct {
  const char *formula;
  int line, column;
  const char *reason;
} bad[] = {
    {"", 1, 1, "the formula is empty"},
    {" ; \n;", 2, 2, "the formula is empty"},
    {"nrm(x0 - x1)", 1, 1, "unknown name 'nrm', did you mean 'norm'?"},
    {"0.5*stifness*dot(x0, x1)", 1, 5, "unknown name 'stifness', did you mean 'stiffness'?"},
    {"length = norm(x0)\nlenght^2", 2, 1, "unknown name 'lenght', did you mean 'length'?"},
    {"velocity", 1, 1, "unknown name 'velocity'\n"},
    {"norm(x0 - x2)", 1, 11, "x2: the element has 2 points, x0 to x1"},
    {"dot(X7, g)", 1, 5, "X7: the element has 2 points, X0 to X1"},
    {"x0", 1, 1, "the energy must be a scalar, not 3 x 1 numbers"},
    {"a = 1", 1, 1, "the last statement must be the energy itself, without a name"},
    {"x0.x; x0.y", 1, 1, "a value that goes nowhere: only the last statement may be without a name"},
    {"x0 * x1", 1, 4, "a product of two vectors: dot(a, b), cross(a, b) or outer(a, b)?"},
    {"norm(x0) + x1", 1, 10, "'+' takes two values of one shape, not a scalar and a vector of 3"},
    {"dot(x0 - A, g)", 1, 8, "'-' takes two values of one shape, not a vector of 3 and a 3 x 3 matrix"},
    {"norm(A*[1, 2])", 1, 7, "'*' takes as many columns as rows, not a 3 x 3 matrix and a vector of 2"},
    {"1/x0.x + 1/g", 1, 11, "'/' takes a scalar below, not a scalar and a vector of 3"},
    {"norm(x0)^g", 1, 9, "'^' takes scalars, not a scalar and a vector of 3"},
    {"sqrt(g)", 1, 1, "'sqrt' takes a scalar, not a vector of 3"},
    {"norm(x0.x)", 1, 1, "'norm' takes a vector or a matrix, not a scalar"},
    {"dot(x0)", 1, 1, "'dot' takes 2 arguments, not 1"},
    {"max(1)", 1, 1, "'max' takes 2 or more arguments, not 1"},
    {"select(x0.x < 0, g, 1)", 1, 1,
     "'select' takes a scalar condition and two values of one shape, not a scalar, a vector of 3 and a scalar"},
    {"norm(cross([1, 2], [2, 1]))", 1, 6, "'cross' takes two vectors of 3, not a vector of 2 and a vector of 2"},
    {"det([x0, x1])", 1, 1, "'det' takes a square matrix, not a 3 x 2 matrix"},
    {"trace(inverse([x0, x1]))", 1, 7, "'inverse' takes a square matrix, not a 3 x 2 matrix"},
    {"stretches(g)", 1, 1, "'stretches' takes a square matrix, not a vector of 3"},
    {"norm([x0, 1])", 1, 6, "[ ] takes scalars, or vectors of one length as columns"},
    {"norm([1, 2, 3, 4])", 1, 6, "[ ] takes 1 to 3 scalars or columns, not 4"},
    {"trace(identity(4))", 1, 7, "identity is of 1, 2 or 3 rows, not 4"},
    {"trace(identity(x0.x))", 1, 16, "the size of identity must be a whole number written out"},
    {"g[3]", 1, 3, "component 3 of 3 (they count from 0)"},
    {"A[1,3]", 1, 3, "entry 1, 3 of a 3 x 3 matrix (they count from 0)"},
    {"A[1]", 1, 4, "an entry of a matrix has two indices"},
    {"g[x0.x]", 1, 3, "an index must be a whole number written out"},
    {"g.w", 1, 3, "a component is .x, .y or .z"},
    {"A.x", 1, 3, "only vectors have components; entries of a matrix are m[i,j]"},
    {"[1, 2].z", 1, 8, "component 2 of 2 (they count from 0)"},
    {"(x0.x + 1", 1, 10, "expected ')' to close '(', not the end of the formula"},
    {"norm(x0, x1", 1, 12, "expected ')' or ',', not the end of the formula"},
    {"[1, 2", 1, 6, "expected ']' or ',', not the end of the formula"},
    {"norm()", 1, 6, "arguments are missing"},
    {"norm + 1", 1, 1, "a function: its arguments in ( ) are missing"},
    {"x0.x(3)", 1, 5, "expected an operator or the end of the statement, not '('"},
    {"stiffness(2)", 1, 10, "'stiffness' is no function: is there an operator missing?"},
    {"1 +", 1, 4, "expected a number, a name or a bracket, not the end of the formula"},
    {"1 + * 2", 1, 5, "expected a number, a name or a bracket, not '*'"},
    {"x0.x x1.x", 1, 6, "expected an operator or the end of the statement, not 'x1'"},
    {"2x0.x", 1, 2, "a name right behind a number: is there a '*' missing?"},
    {"x0.x**2", 1, 5, "a power is written '^'"},
    {"x0.x == 1", 1, 6, "numbers are compared by < <= > >="},
    {"1 < 2 < 3", 1, 7, "expected an operator or the end of the statement, not '<'"},
    {"x0.x & 1", 1, 6, "the character '&' has no meaning in a formula"},
    {"x0.x \xc2\xb7 2", 1, 6, "a character that has no meaning in a formula (code 194)"},
    {"1e999", 1, 1, "this is not a number that can be used"},
    {"x0 = 1; 2", 1, 1, "'x0' has a meaning already"},
    {"norm = 1; 2", 1, 1, "'norm' has a meaning already"},
    {"g = 1; 2", 1, 1, "'g' is a parameter"},
    {"a = 1; a = 2; a", 1, 8, "'a' has a value already"},
    {"# a remark\n  a = (1 +\n 2) +\n 3\n a + b", 5, 6, "unknown name 'b'"},
};

static void test_bad_formulas(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    pbEnergyDef def = {"e", bad[k].formula, 2, 3, bad_parameters};
    pbEnergy *e = NULL;
    char expect[256];
    snprintf(expect, sizeof expect, "energy 'e', line %d, column %d: %s", bad[k].line, bad[k].column, bad[k].reason);
    pbStatus status = pbEnergy_Create(ctx, &def, &e);
    if (status != pb_bad_input) fail_msg("%s: status %d", bad[k].formula, status);
    const char *text = pbContext_Error(ctx), *caret = strrchr(text, '\n');
    if (strncmp(text, expect, strlen(expect))) fail_msg("%s\nsays: %s\nnot:  %s", bad[k].formula, text, expect);
    assert_int_equal(strlen(caret) - 1, 2 + bad[k].column);  // two spaces before the line
    assert_true(caret[strlen(caret) - 1] == '^' && !e);
  }
}

static void refused(const pbEnergyDef *def, const char *text) {
  pbEnergy *e = NULL;
  assert_int_equal(pbEnergy_Create(ctx, def, &e), pb_bad_input);
  if (!strstr(pbContext_Error(ctx), text)) fail_msg("'%s' is not in '%s'", text, pbContext_Error(ctx));
}

static void test_bad_definitions(void **state) {
  (void)state;
  pbEnergyParameter p[2] = {SCALAR("k"), SCALAR("k")};
  refused(&(pbEnergyDef){"e", "1", 2, 2, p}, "two parameters of one name");
  const char *names[] = {"2k", "k-1", "norm", "x3", "h", "", NULL};
  for (int i = 0; i < 7; i++) {
    p[0].name = names[i];
    refused(&(pbEnergyDef){"e", "1", 2, 1, p}, "parameter 0");
  }
  p[0] = (pbEnergyParameter){.name = "k", .rows = 4, .cols = 1};
  refused(&(pbEnergyDef){"e", "1", 2, 1, p}, "up to 3 x 3");
  refused(&(pbEnergyDef){"e", "1", 0, 0, NULL}, "1 to 32 points");
  refused(&(pbEnergyDef){"e", "1", 33, 0, NULL}, "1 to 32 points");
  refused(&(pbEnergyDef){"e", "1", 2, 65, p}, "at most 64 parameters");
  char *deep = malloc(20000);
  memset(deep, '(', 150);
  deep[150] = 0;
  refused(&(pbEnergyDef){"e", deep, 1, 0, NULL}, "nested more than 100 deep");
  memset(deep, '1', 19999);
  deep[19999] = 0;
  refused(&(pbEnergyDef){"e", deep, 1, 0, NULL}, "more than 16384 characters");
  free(deep);
}

// A formula that doubles its operations again and again must end in an error, not in all of the memory.
static void test_too_large(void **state) {
  (void)state;
  char text[8000] = "a0 = x0.x;";
  for (int i = 1; i < 120; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "a%d = sin(a%d)*x%d.y + x%d.z/a%d;", i, i - 1, i % 32, i % 31,
             i - 1);
  strcat(text, "a119");
  pbEnergy *e = NULL;
  pbStatus status = pbEnergy_Create(ctx, &(pbEnergyDef){"e", text, 32, 0, NULL}, &e);
  assert_true(status == pb_ok || status == pb_bad_input);
  pbEnergy_Destroy(e);
}

// ---- faults ---------------------------------------------------------------------------------------------------------------
static const struct {
  const char *formula, *what;
  int column;
  double x[3];
  bool value_too;  // not only the derivatives
} faults[] = {
    {"1 + log(x0.x)", "log of -0.5", 5, {-0.5, 1, 1}, true},
    {"sqrt(x0.x)", "sqrt of -0.5", 1, {-0.5, 1, 1}, true},
    {"sqrt(x0.x)", "'sqrt' has no derivative here (at 0)", 1, {0, 1, 1}, false},
    {"2*norm(x0)", "'norm' has no derivative here (at 0)", 3, {0, 0, 0}, false},
    {"acos(x0.y)", "acos of 1.5", 1, {0, 1.5, 0}, true},
    {"asin(x0.y)", "asin of -2", 1, {0, -2, 0}, true},
    {"asin(x0.y)", "'asin' has no derivative here", 1, {0, 1, 0}, false},
    {"1/(x0.x - x0.y)", "division by 0", 2, {2, 2, 0}, true},
    {"exp(x0.x)", "exp of 800 overflows", 1, {800, 0, 0}, true},
    {"x0.x^2.2", "-1 to the power 2.2", 5, {-1, 0, 0}, true},
    {"trace(inverse([[x0.x, x0.y], [2, 4]]))", "inverse of a singular matrix", 7, {1, 2, 4}, true},
    {"dot(normalize(x0), [1, 0, 0])", "division by 0 in normalize", 5, {0, 0, 0}, true},
    {"atan2(x0.y, x0.x)", "'atan2' has no derivative here", 1, {0, 0, 0}, false},
    {"max(1, log(x0.x))", "log of -1", 8, {-1, 0, 0}, true},
    {"(log(x0.x) < 1)*x0.y", "log of -1", 2, {-1, 0, 0}, true},
    {"x0.x^64*1e180", "overflow in '*'", 8, {1e3, 0, 0}, true},
    {"x0.x^2", "x0.x is NaN", 0, {NAN, 0, 0}, true},
    {"x0.z^2", "x0.z is infinite", 0, {0, 0, -INFINITY}, true},
};

static void test_faults(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
    pbEnergy *e = NULL;
    assert_int_equal(pbEnergy_Create(ctx, &(pbEnergyDef){"e", faults[k].formula, 1, 0, NULL}, &e), pb_ok);
    double x[3 * 70], value[70], gradient[3 * 70], hessian[9 * 70];
    int vertex[70];
    for (int v = 0; v < 70; v++) {
      vertex[v] = v;
      for (int i = 0; i < 3; i++) x[3 * v + i] = v == 41 || v == 66 ? faults[k].x[i] : 0.1 * (i + 2);
    }
    void *work = malloc(pbEnergy_WorkSize(e));
    pbElements in = {.count = 70, .vertex = vertex, .x = x};
    pbEnergyFault fault = {.element = -7};
    bool fine = pbEnergy_Evaluate(e, &in, &(pbElementsOut){value, NULL, NULL}, work, &fault);
    assert_true(fine == !faults[k].value_too);
    assert_true(fine ? fault.element == -1 && isfinite(value[41]) : value[41] == INFINITY);
    assert_false(pbEnergy_Evaluate(e, &in, &(pbElementsOut){value, gradient, hessian}, work, &fault));
    if (fault.element != 41 || strcmp(fault.what, faults[k].what) || fault.column != faults[k].column)
      fail_msg("%s: element %d, column %d: %s", faults[k].formula, fault.element, fault.column, fault.what);
    assert_true(value[41] == INFINITY && value[66] == INFINITY && isfinite(value[0]) && isfinite(value[69]));
    for (int i = 0; i < 9 * 70; i++) assert_true(isfinite(hessian[i]) && isfinite(gradient[i % 210]));
    for (int i = 0; i < 9; i++) assert_true(hessian[9 * 41 + i] == 0);
    double bar[3 * 70] = {0};
    bool pulled = pbEnergy_Pullback(e, &in, x, &(pbElementsBar){.x = bar}, work, NULL);
    assert_true(!pulled || faults[k].value_too);  // the slope of log goes on where log has ended
    for (int i = 0; i < 3 * 70; i++) assert_true(isfinite(bar[i]));
    free(work);
    pbEnergy_Destroy(e);
  }
}

// The side not taken may be anything: no fault, no NaN in derivatives.
static void test_side_not_taken(void **state) {
  (void)state;
  static const char *const formulas[] = {
      "d = x0.x - 1; select(d < 0, x0.y^2, d^2*log(d)*norm(x0))",
      "s = dot(x0 - X0, x0 - X0); y = sqrt(s); select(s > 0, y + y^3, 0)*x0.y + select(s > 0, x0.z/y, x0.y^2)",
      "q = 1/(x0.x - X0.x); select(x0.x > X0.x, select(q > 2, log(q), 1/q), x0.y^2) * (1 + x0.y)",
      "y = norm(x0 - X0); select(x0.y < 0, y, 0) + select(x0.z < 0, 2*y, 0) - select(x0.x < 0, y, x0.y^2) + 2*x0.y",
  };
  for (int k = 0; k < 4; k++) {
    pbEnergy *e = NULL;
    assert_int_equal(pbEnergy_Create(ctx, &(pbEnergyDef){"e", formulas[k], 1, 0, NULL}, &e), pb_ok);
    double x[] = {0.25, 0.5, 0.25}, w[] = {1, 2, 3}, value, gradient[3], hessian[9], bar[3] = {0}, rest[3] = {0};
    pbElements in = {.count = 1, .vertex = (int[]){0}, .x = x, .rest = x};
    void *work = malloc(pbEnergy_WorkSize(e));
    pbEnergyFault fault;
    if (!pbEnergy_Evaluate(e, &in, &(pbElementsOut){&value, gradient, hessian}, work, &fault))
      fail_msg("%s: %s", formulas[k], fault.what);
    assert_true(pbEnergy_Pullback(e, &in, w, &(pbElementsBar){.x = bar, .rest = rest}, work, &fault));
    assert_true(gradient[0] == 0 && fabs(gradient[1] - (k == 2 ? 2 * 0.5 * 1.5 + 0.25 : k == 1 ? 0 + 2 * 0.5 : 1)) < 1e-15);
    for (int i = 0; i < 3; i++) assert_true(fabs(bar[i] - (hessian[i] * 1 + hessian[i + 3] * 2 + hessian[i + 6] * 3)) < 1e-14);
    free(work);
    pbEnergy_Destroy(e);
  }
}

// ---- graphs -----------------------------------------------------------------------------------------------------------------
static void test_graph_like_formula(void **state) {
  (void)state;
  const EnergyCase *c = &energy_cases[0];
  pbEnergyDef def = energy_def(c);
  pbGraph *g;
  pbEnergy *e[2] = {0};
  assert_int_equal(pbGraph_Create(ctx, &def, &g), pb_ok);
  pbValue d = pbGraph_Unary(g, pb_fnNorm, pbGraph_Binary(g, pb_fnSub, pbGraph_Position(g, 0), pbGraph_Position(g, 1)));
  pbValue l = pbGraph_Unary(g, pb_fnNorm, pbGraph_Binary(g, pb_fnSub, pbGraph_Rest(g, 0), pbGraph_Rest(g, 1)));
  pbValue square = pbGraph_Binary(g, pb_fnPower, pbGraph_Binary(g, pb_fnSub, d, l), pbGraph_Number(g, 2));
  pbValue half_k = pbGraph_Binary(g, pb_fnMul, pbGraph_Number(g, 0.5), pbGraph_Parameter(g, 0));
  assert_int_equal(pbEnergy_FromGraph(ctx, g, pbGraph_Binary(g, pb_fnMul, half_k, square), &def, &e[0]), pb_ok);
  pbGraph_Destroy(g);
  assert_int_equal(pbEnergy_Create(ctx, &def, &e[1]), pb_ok);
  static EnergyMesh m;
  pbElements in = energy_mesh(c, 50, 3, &m);
  static double hessian[2][50 * 36];
  for (int k = 0; k < 2; k++) {
    void *work = malloc(pbEnergy_WorkSize(e[k]));
    assert_true(pbEnergy_Evaluate(e[k], &in, &(pbElementsOut){.hessian = hessian[k]}, work, NULL));
    free(work);
    pbEnergy_Destroy(e[k]);
  }
  assert_memory_equal(hessian[0], hessian[1], sizeof hessian[0]);
}

static void test_graph_errors(void **state) {
  (void)state;
  pbEnergyDef def = {"e", NULL, 2, 0, NULL};
  for (int k = 0; k < 6; k++) {
    pbGraph *g;
    pbEnergy *e = NULL;
    assert_int_equal(pbGraph_Create(ctx, &def, &g), pb_ok);
    pbValue x = pbGraph_Position(g, 0), v = {0};
    switch (k) {
      case 0: v = pbGraph_Binary(g, pb_fnMul, x, x); break;
      case 1: v = pbGraph_Position(g, 2); break;
      case 2: v = pbGraph_Parameter(g, 0); break;
      case 3: v = pbGraph_Unary(g, pb_fnNorm, (pbValue){0}); break;
      case 4: v = x; break;
      case 5: v = pbGraph_At(g, x, 0, 1); break;
    }
    assert_true(pbEnergy_FromGraph(ctx, g, v, &def, &e) != pb_ok && !e);
    static const char *const texts[] = {"dot(a, b)", "x2: the element",  "no parameter 0",
                                        "no value",  "must be a scalar", "component 0"};
    if (!strstr(pbContext_Error(ctx), texts[k])) fail_msg("%d: %s", k, pbContext_Error(ctx));
    pbGraph_Destroy(g);
  }
}

// ---- memory -----------------------------------------------------------------------------------------------------------------
// Every allocation of a creation fails in turn; true: this time none did.
static bool creation_survives(const pbEnergyDef *def, long fail_at) {
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *own = pbContext_Create(&hooks);
  meter.fail_at = meter.calls + fail_at;
  pbEnergy *e = NULL;
  pbStatus status = pbEnergy_Create(own, def, &e);
  if (!status) {
    char *text = pbEnergy_EmitC(e, "e");
    assert_true(text || meter.failed);
    pbContext_Free(own, text);
  }
  assert_true(status == pb_ok || (status == pb_no_memory && meter.failed && !e && pbContext_Error(own)[0]));
  pbEnergy_Destroy(e);
  assert_int_equal(meter.live, 1);  // the context
  pbContext_Destroy(own);
  return !meter.failed;
}

static void test_memory_fails(void **state) {
  (void)state;
  static const int cases[] = {0, 11, ENERGY_CASES - 1};
  for (int k = 0; k < 3; k++) {
    pbEnergyDef def = energy_def(&energy_cases[cases[k]]);
    long at = 1;
    while (!creation_survives(&def, at)) at++;
    assert_true(at > 40);
  }
}

// Evaluation asks the allocator for nothing.
static void test_no_allocation(void **state) {
  (void)state;
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *own = pbContext_Create(&hooks);
  const EnergyCase *c = &energy_cases[1];
  pbEnergyDef def = energy_def(c);
  pbEnergy *e = NULL;
  assert_int_equal(pbEnergy_Create(own, &def, &e), pb_ok);
  static EnergyMesh m;
  static double hessian[40 * 144], bar[3 * MESH];
  pbElements in = energy_mesh(c, 40, 3, &m);
  void *work = malloc(pbEnergy_WorkSize(e));
  long before = meter.calls;
  assert_true(pbEnergy_Evaluate(e, &in, &(pbElementsOut){.hessian = hessian}, work, NULL));
  assert_true(pbEnergy_Pullback(e, &in, m.w, &(pbElementsBar){.x = bar, .rest = bar}, work, NULL));
  assert_int_equal(meter.calls, before);
  free(work);
  pbEnergy_Destroy(e);
  pbContext_Destroy(own);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bad_formulas), cmocka_unit_test(test_bad_definitions), cmocka_unit_test(test_too_large),
      cmocka_unit_test(test_faults),       cmocka_unit_test(test_side_not_taken),  cmocka_unit_test(test_graph_like_formula),
      cmocka_unit_test(test_graph_errors), cmocka_unit_test(test_memory_fails),    cmocka_unit_test(test_no_allocation),
  };
  return cmocka_run_group_tests_name("energy formulas", tests, open_context, close_context);
}
