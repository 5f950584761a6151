// Policies that see points of deformables: numbers by hand, their pullback entry by entry, a closed loop of muscles against
// differences, mistakes in words.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/pullback.h>

#include "support/support.h"

enum { points = 3, most = 96 };

// A triangle of springs whose lengths follow controls; texts here have ' for ".
static pbStatus parse(pbContext *ctx, const char *policy, pbTask **task) {
  char text[4096];
  snprintf(
      text, sizeof text,
      "{'deformables': {'bodies': [{'name': 's', 'mesh': {'points': [[0, 0, 0], [1, 0, 0.5], [0.2, 1, 0]], 'edges': "
      "[[0, 1], [1, 2], [2, 0]]}, 'mass': [1, 2, 3], 'velocity': [0.1, 0.2, -0.3], 'sets': {'pair': [2, 0]}, 'energies': "
      "[{'name': 'muscle', 'formula': '0.5*k*(norm(x0 - x1) - norm(X0 - X1)*(1 + a))^2', 'on': 'edges', 'parameters': "
      "{'k': 50, 'a': {'each': [0, 0, 0]}}, 'controls': ['a']}]}]}, 'options': {'timestep': 0.02}, 'steps': 20, 'policy': %s,"
      "'variables': [{'parameter': 'policy'}], 'loss': [{'points': 's_pair', 'target': 0.1, 'at': 'all'}]}",
      policy);
  for (char *c = text; *c; c++) {
    if (*c == '\'') *c = '"';
  }
  return pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", task);
}

static pbTask *load(pbContext *ctx, const char *policy) {
  pbTask *task;
  if (parse(ctx, policy, &task) != pb_ok) fail_msg("%s", pbContext_Error(ctx));
  return task;
}

// ---- what is seen ---------------------------------------------------------------------------------------------------------
#define SEES                                                                                                       \
  "{'observe': [{'points': true}, {'points': 's_pair', 'as': 'offset'}, {'points': [1, 's_pair'], 'as': 'mean', "  \
  "'scale': 3}, {'point_velocity': 1, 'components': [2, 0]}, {'point_velocity': true, 'as': 'mean', 'scale': 2}, " \
  "{'point_velocity': 's_pair', 'as': 'offset', 'components': [4]}], 'layers': [{'dense': 3, 'activation': 'tanh'}]}"
enum { seen = 9 + 6 + 3 + 2 + 3 + 1 };

static void test_numbers(void **state) {
  pbTask *task = load(*state, SEES);
  const pbModel *m = pbTask_Model(task);
  pbPolicyInfo info;
  pbScratch *s;
  double x[most], o[seen];
  assert_true(pbModel_PolicyInfo(m, &info));
  assert_int_equal(info.observations, seen);
  assert_int_equal(info.outputs, 3);
  assert_true(pbModel_StateSize(m) < most);

  assert_int_equal(pbState_Init(*state, m, pbModel_DefaultParams(m), -1, x), pb_ok);
  assert_int_equal(pbScratch_Create(*state, m, NULL, &s), pb_ok);
  assert_int_equal(pbPolicy_Observe(m, pbModel_DefaultParams(m), x, NULL, s, o), pb_ok);
  const double expected[seen] = {0,   0,  0,  1,   0,   .5, .2, 1, 0,  // all
                                 .1,  .5, 0,  -.1, -.5, 0,             // of 2 and 0 about (0.1, 0.5, 0)
                                 1.2, 1,  .5,                          // 3 times the mean of all
                                 -.3, .1, .2, .4,  -.6,                // velocities
                                 0};
  for (int i = 0; i < seen; i++) {
    if (fabs(o[i] - expected[i]) > 1e-15) fail_msg("observation %d: %.17g, not %.17g", i, o[i], expected[i]);
  }

  char text[160];
  assert_string_equal(pbModel_ObservationName(m, 4, text, sizeof text), "points: y of point 1");
  assert_string_equal(pbModel_ObservationName(m, 9, text, sizeof text), "points: x of point 2 less the mean");
  assert_string_equal(pbModel_ObservationName(m, 16, text, sizeof text), "points: y of the mean of 3 points");
  assert_string_equal(pbModel_ObservationName(m, 18, text, sizeof text), "point_velocity: z of point 1");
  pbScratch_Destroy(s);
  pbTask_Destroy(task);
}

// Rows of the pullback against differences, which of sums are exact up to rounding.
static void test_pullback(void **state) {
  pbTask *task = load(*state, SEES);
  const pbModel *m = pbTask_Model(task);
  const double *theta = pbModel_DefaultParams(m);
  int n = pbModel_TangentSize(m);
  pbScratch *s;
  double *record = calloc((size_t)pbTape_Size(m), sizeof *record), x[most], moved[most], next[most], o[2][seen];
  assert_int_equal(pbScratch_Create(*state, m, NULL, &s), pb_ok);
  assert_int_equal(pbState_Init(*state, m, theta, -1, x), pb_ok);
  memcpy(next, x, sizeof x);
  assert_int_equal(pbStep_Forward(m, theta, next, NULL, s, NULL), pb_ok);
  pbTape_Record(m, x, s, record);

  double wrong = 0, total = 0;
  for (int i = 0; i < seen; i++) {
    double bar[seen] = {0}, x_bar[most] = {0}, d[most] = {0};
    bar[i] = 1;
    assert_int_equal(pbPolicy_ObserveVjp(m, theta, record, NULL, s, bar, x_bar), pb_ok);
    for (int k = 0; k < n; k++) {
      for (int side = 0; side < 2; side++) {
        memcpy(moved, x, sizeof x);
        d[k] = 1;
        pbState_Move(m, moved, d, side ? -.5 : .5);
        assert_int_equal(pbPolicy_Observe(m, theta, moved, NULL, s, o[side]), pb_ok);
      }
      d[k] = 0;
      wrong = fmax(wrong, fabs(o[0][i] - o[1][i] - x_bar[k]));
      total += fabs(x_bar[k]);
    }
  }
  assert_true(wrong < 1e-14 && total > seen);
  free(record);
  pbScratch_Destroy(s);
  pbTask_Destroy(task);
}

// ---- the closed loop --------------------------------------------------------------------------------------------------------
// Controls of deformables are all the controls there are; the loss has the slope that its gradient says, with a decision every
// step and every third.
static void check_loop(pbContext *ctx, const char *policy) {
  pbTask *task = load(ctx, policy);
  size_t n = (size_t)pbTask_Size(task);
  double *z = malloc(n * sizeof *z), *gradient = calloc(n, sizeof *gradient), value, ahead, behind, slope = 0;

  assert_int_equal(pbTask_Loss(task, pbTask_Start(task), &value, gradient), pb_ok);
  for (int side = 0; side < 2; side++) {
    for (size_t i = 0; i < n; i++) z[i] = pbTask_Start(task)[i] + (side ? -1e-5 : 1e-5) * cos((double)i);
    assert_int_equal(pbTask_Loss(task, z, side ? &behind : &ahead, NULL), pb_ok);
  }
  for (size_t i = 0; i < n; i++) slope += gradient[i] * cos((double)i);
  double found = (ahead - behind) / 2e-5;
  if (!(fabs(slope) > 1e-4 && fabs(found - slope) < 1e-6 * fabs(slope))) fail_msg("slope %.9g, differences %.9g", slope, found);
  free(z);
  free(gradient);
  pbTask_Destroy(task);
}

static void test_closed_loop(void **state) {
  check_loop(*state, SEES);
  check_loop(*state,
             "{'observe': [{'points': true, 'as': 'offset', 'scale': 2}, {'last': true}], 'every': 3, 'layers': [{'dense': 8, "
             "'activation': 'tanh'}, {'dense': 3}, {'scale': 0.2}]}");
}

// ---- what is refused --------------------------------------------------------------------------------------------------------
static void test_mistakes(void **state) {
  static const char *const cases[][2] = {
      {"{'observe': [{'points': 's_pear'}], 'layers': [{'dense': 3}]}", "s_pear"},
      {"{'observe': [{'points': 3}], 'layers': [{'dense': 3}]}", "observe[0].points"},
      {"{'observe': [{'points': []}], 'layers': [{'dense': 3}]}", "names nothing"},
      {"{'observe': [{'points': true, 'as': 'middle'}], 'layers': [{'dense': 3}]}", "expected \"value\", \"offset\" or \"mean\""},
      {"{'observe': [{'time': true, 'as': 'mean'}], 'layers': [{'dense': 3}]}", "unknown key 'as'"},
      {"{'observe': [{'points': true, 'as': 'mean', 'components': [3]}], 'layers': [{'dense': 3}]}", "components"},
      {"{'observe': [{'points': true, 'frame': 'world'}], 'layers': [{'dense': 3}]}", "unknown key 'frame'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    pbTask *task;
    assert_int_equal(parse(*state, cases[i][0], &task), pb_bad_input);
    if (!strstr(pbContext_Error(*state), cases[i][1])) fail_msg("%zu: %s", i, pbContext_Error(*state));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_numbers, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_pullback, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_closed_loop, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_mistakes, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
