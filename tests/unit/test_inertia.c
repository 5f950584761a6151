// The log-Cholesky factor of a body's inertia: there and back, what any ten numbers are, derivatives against differences, also
// where moments are equal, and fits by it.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/optimize.h>
#include <pullback/random.h>

#include "optimize/inertia.h"
#include "optimize/task.h"
#include "support/support.h"

static void draw(pbRng *rng, double z[PB_INERTIA]) {
  for (int i = 0; i < PB_INERTIA; i++) z[i] = (i > 0 && i < 4 ? -2 : 0) + (i < 4 ? 0.5 : 0.1) * pbRng_Normal(rng);
}

static void test_there_and_back(void **state) {
  pbRng rng = pbRng_Seed(1);
  (void)state;
  for (int trial = 0; trial < 1000; trial++) {
    double z[PB_INERTIA], value[PB_INERTIA], back[PB_INERTIA], number[PB_INERTIA_NUMBERS];
    draw(&rng, z);
    pbInertia_Values(z, value);
    assert_true(pbInertia_Start(value, back));
    for (int i = 0; i < PB_INERTIA; i++) assert_true(fabs(back[i] - z[i]) < 1e-11);

    // a body: positive moments, none larger than the other two together
    pbInertia_Put(value, number);
    double *I = number + 8;
    assert_true(number[0] > 0);
    for (int k = 0; k < 3; k++) assert_true(I[k] > 0 && I[k] < I[(k + 1) % 3] + I[(k + 2) % 3]);

    // the same tensor: q D q' is what the values say
    double x[3] = {1, 0, 0}, trace = I[0] + I[1] + I[2];
    assert_true(fabs(trace - value[4] - value[5] - value[6]) < 1e-5 * trace);
    (void)x;
  }
}

static void test_what_is_no_body_is_refused(void **state) {
  double z[PB_INERTIA];
  (void)state;
  assert_false(pbInertia_Start((const double[]){1, 0, 0, 0, 1, 1, 2.1, 0, 0, 0}, z));
  assert_false(pbInertia_Start((const double[]){0, 0, 0, 0, 1, 1, 1, 0, 0, 0}, z));
  assert_false(pbInertia_Start((const double[]){1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, z));
  assert_true(pbInertia_Start((const double[]){1, 0, 0, 0, 1, 1, 2, 0, 0, 0}, z));  // a disc without thickness

  // Rods without thickness along each axis, and aslant: what is put is a body.
  for (int axis = 0; axis < 4; axis++) {
    double value[PB_INERTIA] = {1, 0, 0, 0, 1, 1, 1, 0, 0, 0}, number[11];
    if (axis < 3) value[4 + axis] = 0;
    else memcpy(value + 4, (const double[]){1, 1, 2, -1, 0, 0}, 6 * sizeof *value);
    assert_true(pbInertia_Start(value, z));
    pbInertia_Values(z, value);
    pbInertia_Put(value, number);
    for (int k = 0; k < 3; k++) assert_true(number[8 + k] <= number[8 + (k + 1) % 3] + number[8 + (k + 2) % 3]);
  }
}

static void test_values_by_unknowns(void **state) {
  pbRng rng = pbRng_Seed(2);
  (void)state;
  for (int trial = 0; trial < 50; trial++) {
    double z[PB_INERTIA], J[PB_INERTIA * PB_INERTIA], up[PB_INERTIA], down[PB_INERTIA], h = 1e-5;
    draw(&rng, z);
    pbInertia_ValuesBy(z, J);
    for (int k = 0; k < PB_INERTIA; k++) {
      double middle = z[k];
      z[k] = middle + h;
      pbInertia_Values(z, up);
      z[k] = middle - h;
      pbInertia_Values(z, down);
      z[k] = middle;
      for (int i = 0; i < PB_INERTIA; i++)
        assert_true(fabs((up[i] - down[i]) / (2 * h) - J[i * PB_INERTIA + k]) < 1e-8 * (1 + fabs(J[i * PB_INERTIA + k])));
    }
  }
}

// A bar of the numbers along a direction of the values: the same forwards and backwards.
static void test_pull_is_the_transpose_of_push(void **state) {
  pbRng rng = pbRng_Seed(3);
  (void)state;
  for (int trial = 0; trial < 200; trial++) {
    double z[PB_INERTIA], value[PB_INERTIA], by[PB_INERTIA], bar[PB_INERTIA_NUMBERS], pulled[PB_INERTIA] = {0},
                                                                                      pushed[PB_INERTIA_NUMBERS], a = 0, b = 0;
    draw(&rng, z);
    pbInertia_Values(z, value);
    for (int i = 0; i < PB_INERTIA; i++) by[i] = pbRng_Normal(&rng);
    for (int i = 0; i < PB_INERTIA_NUMBERS; i++) bar[i] = pbRng_Normal(&rng);
    pbInertia_Pull(value, bar, pulled);
    pbInertia_Push(value, by, pushed);
    for (int i = 0; i < PB_INERTIA; i++) a += by[i] * pulled[i];
    for (int i = 0; i < PB_INERTIA_NUMBERS; i++) b += bar[i] * pushed[i];
    assert_true(fabs(a - b) <= 1e-9 * (fabs(a) + 1));
  }
}

// ---- in tasks -----------------------------------------------------------------------------------------------------------
// A body of three different moments, or of equal ones (a ball), that is thrown about by another.
#define ARM                                                                                                                 \
  "\"model\": \"<mujoco><option timestep='0.005'/><worldbody><body name='top' pos='0 0 1'><joint name='ball' type='ball' "  \
  "damping='.05'/><geom type='capsule' size='.03' fromto='0 0 0 .4 0 .1'/><body name='load' pos='.4 0 .1'><joint "          \
  "name='hinge' axis='0 1 0' damping='.1'/>%s</body></body></worldbody></mujoco>\", \"steps\": 40, \"init\": {\"joints\": " \
  "{\"ball\": {\"qpos\": [0.8, 0.2, 0.5, 0.1], \"qvel\": [1, -2, 6]}, \"hinge\": {\"qvel\": 3}}}"
static const char *const bodies[] = {
    "<inertial pos='.1 .02 .03' quat='.9 .1 .2 .3' mass='.5' diaginertia='.004 .005 .006'/><geom size='.02' mass='0'/>",
    "<geom type='sphere' size='.1' pos='.1 .05 0' mass='.5'/>", "<geom type='cylinder' size='.1 .1' pos='.1 .05 0' mass='.5'/>"};

static double loss_at(pbContext *ctx, pbTask *task, const double *start, int i, double by) {
  double value, z[64];
  memcpy(z, start, (size_t)pbTask_Size(task) * sizeof *z);
  z[i] += by;
  good(ctx, pbTask_Loss(task, z, &value, NULL));
  return value;
}

static pbTask *parse(pbContext *ctx, int body, const char *variables, const char *loss) {
  char text[8192], world[4096];
  pbTask *task;
  snprintf(world, sizeof world, ARM, bodies[body]);
  snprintf(
      text, sizeof text,
      "{%s, \"variables\": [%s], \"loss\": [%s], \"optimizer\": {\"method\": \"gauss-newton\"}, \"constants\": \"recompute\"}",
      world, variables, loss);
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  return task;
}

static void test_derivatives_of_a_task(void **state) {
  for (int body = 0; body < 3; body++) {
    pbTask *task = parse(*state, body, "{\"body\": \"load\", \"transform\": \"inertia\"}, {\"state\": \"qvel\"}",
                         "{\"qpos\": true, \"at\": \"all\"}");
    int n = pbTask_Size(task);
    assert_int_equal(n, 14);
    double g[64], value;
    size_t m = pbTask_ResidualCount(task);
    double *r = calloc(m, sizeof *r), *J = calloc(m * (size_t)n, sizeof *J);
    good(*state, pbTask_Loss(task, pbTask_Start(task), &value, g));
    good(*state, pbTask_Residuals(task, pbTask_Start(task), r, J));
    for (int i = 0; i < n; i++) {
      double h = 1e-3,
             coarse =
                 (loss_at(*state, task, pbTask_Start(task), i, h) - loss_at(*state, task, pbTask_Start(task), i, -h)) / (2 * h);
      double fine =
          (loss_at(*state, task, pbTask_Start(task), i, h / 2) - loss_at(*state, task, pbTask_Start(task), i, -h / 2)) / h;
      double difference = (4 * fine - coarse) / 3, product = 0;
      for (size_t k = 0; k < m; k++) product += 2 * J[k * (size_t)n + (size_t)i] * r[k];
      if (!(fabs(difference - g[i]) <= 2e-6 * (1 + fabs(g[i]))))
        fail_msg("body %d, unknown %d: %.12g, difference %.12g", body, i, g[i], difference);
      if (!(fabs(product - g[i]) <= 1e-7 * (1 + fabs(g[i]))))
        fail_msg("body %d, unknown %d: 2 J'r %.12g, gradient %.12g", body, i, product, g[i]);
    }
    free(r);
    free(J);
    pbTask_Destroy(task);
  }
}

static void test_names_and_values(void **state) {
  pbTask *task = parse(*state, 1, "{\"body\": \"load\", \"transform\": \"inertia\", \"name\": \"tool\"}",
                       "{\"qpos\": true, \"at\": \"all\"}");
  const double expected[PB_INERTIA] = {.5, .1, .05, 0, .002, .002, .002, 0, 0, 0};
  for (int i = 0; i < PB_INERTIA; i++) {
    char name[100], wanted[100];
    double value;
    pbTask_Unknown(task, i, pbTask_Start(task), name, sizeof name, &value);
    snprintf(wanted, sizeof wanted, "tool[%s]", pbInertia_Names[i]);
    assert_string_equal(name, wanted);
    if (!(fabs(value - expected[i]) < 1e-9)) fail_msg("%s is %.12g", name, value);
  }
  pbTask_Destroy(task);
}

// From 50 random bodies to the one that moved: no point of any search is refused, and most end in the valley of the truth.
static void test_random_starts_are_never_refused(void **state) {
  // a row of targets at each state, which become those of the truth
  char loss[4000] = "{\"qpos\": true, \"at\": \"all\", \"target\": [";
  for (int k = 0; k <= 40; k++) snprintf(loss + strlen(loss), sizeof loss - strlen(loss), "%s[1, 0, 0, 0, 0]", k ? ", " : "");
  strcat(loss, "]}");
  pbTask *task = parse(*state, 0, "{\"body\": \"load\", \"transform\": \"inertia\"}", loss);
  pbTrajectory *tr = &task->trajectories[0];
  double truth[PB_INERTIA], value;
  memcpy(truth, pbTask_Start(task), sizeof truth);
  good(*state, pbTask_Loss(task, truth, &value, NULL));
  for (int k = 0; k <= 40; k++)
    memcpy(tr->terms.terms[0].target + 5 * k, tr->terms.states + k * tr->terms.nx + tr->terms.qpos_at, 5 * sizeof(double));

  pbRng rng = pbRng_Seed(4);
  int found = 0;
  for (int trial = 0; trial < 50; trial++) {
    pbRunResult result;
    for (int i = 0; i < PB_INERTIA; i++) task->start[i] = truth[i] + (i < 4 ? 0.5 : 0.05) * pbRng_Normal(&rng);
    good(*state, pbTask_Run(task, &(pbRunOptions){.iterations = 50}, &result));
    if (!isfinite(result.start_loss)) fail_msg("start %d is refused", trial);
    found += result.loss < 1e-4;
  }
  printf("%d of 50 random starts end with a loss of 1e-4 of several\n", found);
  assert_true(found >= 45);
  pbTask_Destroy(task);
}

static void test_bad_ones_are_refused(void **state) {
  static const struct {
    const char *variable, *says;
  } cases[] = {
      {"{\"body\": \"laod\", \"transform\": \"inertia\"}",
       "variables[0].body: the model has no body 'laod', did you mean 'load'?"},
      {"{\"body\": \"load\"}", "\"transform\": \"inertia\""},
      {"{\"body\": \"world\", \"transform\": \"inertia\"}", "variables[0].body: the world"},
      {"{\"body\": \"load\", \"transform\": \"inertia\", \"lower\": 0}", "variables[0].lower"},
      {"{\"body\": \"load\", \"transform\": \"inertia\", \"components\": [0]}", "variables[0].components"},
      {"{\"body\": \"load\", \"transform\": \"inertia\", \"start\": [1, 0, 0, 0, 1, 1, 3, 0, 0, 0]}",
       "variables[0].start: no body has"},
      {"{\"body\": \"load\", \"transform\": \"inertia\"}, {\"parameter\": \"body_mass:load\"}", "varies what variables[0]"},
      {"{\"parameter\": \"body_mass:load\", \"transform\": \"inertia\"}", "variables[0].transform"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[8192], world[4096];
    pbTask *task;
    snprintf(world, sizeof world, ARM, bodies[0]);
    snprintf(text, sizeof text, "{%s, \"variables\": [%s], \"loss\": [{\"qpos\": true}]}", world, cases[i].variable);
    pbStatus status = pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task);
    if (status == pb_ok || !strstr(pbContext_Error(*state), cases[i].says))
      fail_msg("case %zu: status %d, '%s'", i, status, pbContext_Error(*state));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_there_and_back),
                                     cmocka_unit_test(test_what_is_no_body_is_refused),
                                     cmocka_unit_test(test_values_by_unknowns),
                                     cmocka_unit_test(test_pull_is_the_transpose_of_push),
                                     cmocka_unit_test(test_derivatives_of_a_task),
                                     cmocka_unit_test(test_names_and_values),
                                     cmocka_unit_test(test_random_starts_are_never_refused),
                                     cmocka_unit_test(test_bad_ones_are_refused)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
