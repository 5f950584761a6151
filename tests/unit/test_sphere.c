// What comes in: axes and quaternions of any length, numbers that are none, and scratches of a model that has changed since.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/contact.h>
#include <pullback/io.h>
#include <pullback/rollout.h>
#include <pullback/spec.h>

#include "support/support.h"

// Every kind of direction acts: an arm on a skew hinge, a ball joint with a spring, a tilted box that slides, a weld with a relative
// orientation, sites that push, and a camera and frames that are seen.
static const char scene[] =
    "<mujoco><option timestep='0.002' density='1.2' viscosity='.01'/><worldbody>"
    "<geom name='floor' type='plane' size='5 5 .1' euler='3 2 0'/><camera name='eye' pos='0 -2 1' euler='70 10 5'/>"
    "<body name='arm' pos='0 0 1' euler='10 20 30'><joint name='skew' axis='.3 .9 .2' damping='.02'/>"
    "<geom type='capsule' size='.03' fromto='0 0 0 .4 .05 0'/>"
    "<body name='hand' pos='.4 .05 0' euler='-15 5 40'><joint name='wrist' type='ball' stiffness='.6' damping='.01'/>"
    "<inertial pos='.1 .02 .01' euler='20 10 -30' mass='.5' diaginertia='.002 .003 .0025'/>"
    "<geom type='box' size='.1 .03 .02' pos='.1 0 0' euler='5 6 7' mass='0'/><site name='grip' pos='.2 0 0' euler='30 0 10'/>"
    "<camera name='look' pos='.1 0 .05' euler='0 30 20'/></body></body>"
    "<body name='brick' pos='1 0 .021' euler='4 3 20'><freejoint name='loose'/>"
    "<geom name='brick' type='box' size='.1 .06 .05' euler='1 2 3' fluidshape='ellipsoid'/></body>"
    "<body name='plate' pos='-1 0 1.2'><freejoint/><geom type='box' size='.2 .1 .02'/></body>"
    "<body name='mate' pos='-1 .3 1.2' euler='20 0 10'><freejoint/><geom type='box' size='.1 .1 .03'/></body></worldbody>"
    "<equality><weld name='hold' body1='plate' body2='mate' relpose='0 .3 0 .9 .2 -.1 .3'/></equality>"
    "<actuator><motor name='push' site='grip' gear='1 .5 .2 .1 .2 .3'/></actuator>"
    "<sensor><framequat objtype='camera' objname='look'/><framepos objtype='body' objname='brick' reftype='camera' "
    "refname='eye'/>"
    "<accelerometer site='grip'/></sensor></mujoco>";

static const struct {
  const char *field;
  int first, size;  // entries from the start of the slice on
} directions[] = {{"jnt_axis:skew", 0, 3},   {"body_quat:arm", 0, 4},     {"body_quat:hand", 0, 4}, {"body_iquat:hand", 0, 4},
                  {"geom_quat:brick", 0, 4}, {"geom_quat:floor", 0, 4},   {"site_quat:grip", 0, 4}, {"cam_quat:look", 0, 4},
                  {"cam_quat:eye", 0, 4},    {"qpos_spring:wrist", 0, 4}, {"eq_data:hold", 6, 4}};
enum { DIRECTIONS = sizeof directions / sizeof *directions, STEPS = 6 };

typedef struct World {
  pbContext *ctx;
  pbModel *model;
  pbRollout *rollout;
  int nx, n, ns, nv;
  size_t ntheta;
  double *theta, *x0, *bar_x, *bar_s, *states, *sensors, *reference, ctrl;
  pbRolloutInput input;
} World;

static pbRollout *roll(World *w) {
  pbRolloutPlan plan;
  pbRollout *r;
  good(w->ctx, pbRollout_Plan(w->ctx, w->model, STEPS, 0, &plan));
  good(w->ctx, pbRollout_Create(w->ctx, w->model, &plan, NULL, &r));
  return r;
}

static int setup(void **state) {
  World *w = calloc(1, sizeof *w);
  w->ctx = pbContext_Create(NULL);
  w->model = model_of_text(w->ctx, scene);
  w->nx = pbModel_StateSize(w->model);
  w->n = pbModel_TangentSize(w->model);
  w->nv = pbModel_Size(w->model, "nv");
  w->ns = pbModel_Size(w->model, "nsensordata");
  w->ntheta = pbModel_ParamSize(w->model);
  w->theta = zeros(w->ntheta);
  w->x0 = zeros((size_t)w->nx);
  memcpy(w->theta, pbModel_DefaultParams(w->model), w->ntheta * sizeof(double));
  w->bar_x = zeros((size_t)w->n);
  w->bar_s = zeros((STEPS + 1) * (size_t)w->ns);
  w->states = zeros((STEPS + 1) * (size_t)w->nx);
  w->reference = zeros((STEPS + 1) * (size_t)w->nx);
  w->sensors = zeros((STEPS + 1) * (size_t)w->ns);
  unsigned seed = 7;
  double *kick = zeros((size_t)w->n);
  for (int i = 0; i < w->n; i++) kick[i] = i < 4 || i >= w->nv ? 0.4 * noise(&seed) : 0;
  if (pbState_Init(w->ctx, w->model, w->theta, -1, w->x0) != pb_ok) return 1;
  pbState_Move(w->model, w->x0, kick, 1);
  free(kick);
  for (int i = 0; i < w->n; i++) w->bar_x[i] = noise(&seed);
  for (int i = 0; i < (STEPS + 1) * w->ns; i++) w->bar_s[i] = 0.1 * noise(&seed);
  w->ctrl = 0.5;
  w->input = (pbRolloutInput){.ctrl = &w->ctrl, .constant = true};
  w->rollout = roll(w);
  *state = w;
  return 0;
}

static int teardown(void **state) {
  World *w = *state;
  pbRollout_Destroy(w->rollout);
  pbModel_Destroy(w->model);
  pbContext_Destroy(w->ctx);
  free(w->theta);
  free(w->x0);
  free(w->bar_x);
  free(w->bar_s);
  free(w->states);
  free(w->sensors);
  free(w->reference);
  free(w);
  return 0;
}

static size_t place(World *w, int i) {
  pbParam p;
  good(w->ctx, pbModel_Param(w->ctx, w->model, directions[i].field, &p));
  return p.offset + (size_t)directions[i].first;
}

static void scale(World *w, int i, double by) {
  size_t at = place(w, i);
  for (int k = 0; k < directions[i].size; k++) w->theta[at + (size_t)k] *= by;
}

static void run(World *w) {
  pbRolloutOutput out = {.states = w->states, .sensordata = w->sensors};
  good(w->ctx, pbRollout_Forward(w->rollout, w->theta, w->x0, &w->input, &out));
}

// The quantity that is differentiated, against a reference state so that rotations are small.
static double loss(World *w) {
  double *way = zeros((size_t)w->n), sum = 0;
  run(w);
  pbState_Difference(w->model, w->reference + STEPS * w->nx, w->states + STEPS * w->nx, way);
  for (int i = 0; i < w->n; i++) sum += w->bar_x[i] * way[i];
  for (int i = 0; i < (STEPS + 1) * w->ns; i++) sum += w->bar_s[i] * w->sensors[i];
  free(way);
  return sum;
}

static void pull(World *w, double *theta_bar) {
  pbRolloutBar bar = {
      .qpos = {w->bar_x, 1, NULL}, .qvel = {w->bar_x + w->nv, 1, NULL}, .sensordata = {w->bar_s, STEPS + 1, NULL}};
  run(w);
  good(w->ctx, pbRollout_Vjp(w->rollout, &bar, NULL, &(pbRolloutGradient){.theta = theta_bar}, NULL));
}

static void test_lengths_do_not_matter(void **state) {
  World *w = *state;
  run(w);
  memcpy(w->reference, w->states, (size_t)((STEPS + 1) * w->nx) * sizeof(double));
  for (int i = 0; i < DIRECTIONS; i++) scale(w, i, i % 2 ? 0.7 : 1.3);
  run(w);
  for (int i = 0; i < (STEPS + 1) * w->nx; i++)
    assert_true(fabs(w->states[i] - w->reference[i]) <= 1e-9 * (1 + fabs(w->reference[i])));
}

// Within 1e-12 of one the numbers are taken as they are: other bits come out than for the normalised ones.
static void test_unit_lengths_are_left_alone(void **state) {
  World *w = *state;
  size_t at = place(w, 0);
  w->theta[at] += 4e-14;
  run(w);
  memcpy(w->reference, w->states, (size_t)((STEPS + 1) * w->nx) * sizeof(double));
  double length = sqrt(w->theta[at] * w->theta[at] + w->theta[at + 1] * w->theta[at + 1] + w->theta[at + 2] * w->theta[at + 2]);
  assert_true(length != 1);
  for (int k = 0; k < 3; k++) w->theta[at + (size_t)k] /= length;
  run(w);
  assert_true(memcmp(w->states, w->reference, (size_t)((STEPS + 1) * w->nx) * sizeof(double)) != 0);
}

// Fourth-order differences of what is simulated, entry by entry; a gradient that the array held is added to.
static void test_gradients_are_those_of_the_normalised_value(void **state) {
  World *w = *state;
  double *bar = zeros(w->ntheta);
  for (int side = 0; side < 3; side++) {
    static const double lengths[3] = {0.7, 1.3, 1};
    memcpy(w->theta, pbModel_DefaultParams(w->model), w->ntheta * sizeof(double));
    for (int i = 0; i < DIRECTIONS; i++) scale(w, i, lengths[side]);
    run(w);
    memcpy(w->reference, w->states, (size_t)((STEPS + 1) * w->nx) * sizeof(double));
    for (size_t i = 0; i < w->ntheta; i++) bar[i] = 3;
    pull(w, bar);
    for (int i = 0; i < DIRECTIONS; i++) {
      size_t at = place(w, i);
      double d[4] = {0}, most = 0, along = 0;
      for (int k = 0; k < directions[i].size; k++) {
        double value = w->theta[at + (size_t)k], f[4];
        for (int j = 0; j < 4; j++) {
          w->theta[at + (size_t)k] = value + 2e-6 * (j < 2 ? j - 2 : j - 1);
          f[j] = loss(w);
        }
        w->theta[at + (size_t)k] = value;
        d[k] = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * 2e-6);
        most = fmax(most, fabs(d[k]));
        along += (bar[at + (size_t)k] - 3) * value;
      }
      if (!(most > 1e-6)) fail_msg("%s does not act", directions[i].field);
      for (int k = 0; k < directions[i].size; k++) {
        if (fabs(bar[at + (size_t)k] - 3 - d[k]) > 1e-7 * (most + 1))
          fail_msg("%s[%d] of length %g: %.12g, differences %.12g", directions[i].field, k, lengths[side],
                   bar[at + (size_t)k] - 3, d[k]);
      }
      assert_true(fabs(along) <= 1e-12 * (1 + most));
    }
  }
  free(bar);
}

static void test_forward_and_reverse_agree(void **state) {
  World *w = *state;
  double *bar = zeros(w->ntheta), *way = zeros(w->ntheta), *x = zeros((STEPS + 1) * (size_t)w->n);
  double *sensors = zeros((STEPS + 1) * (size_t)w->ns), forward = 0, reverse = 0;
  unsigned seed = 3;
  for (int i = 0; i < DIRECTIONS; i++) {
    scale(w, i, i % 2 ? 0.7 : 1.3);
    for (int k = 0; k < directions[i].size; k++) way[place(w, i) + (size_t)k] = noise(&seed);
  }
  pull(w, bar);
  good(w->ctx,
       pbRollout_Jvp(w->rollout, 1, &(pbRolloutDirection){.theta = way}, &(pbRolloutTangent){.x = x, .sensordata = sensors}));
  for (size_t i = 0; i < w->ntheta; i++) reverse += bar[i] * way[i];
  for (int i = 0; i < w->n; i++) forward += w->bar_x[i] * x[STEPS * w->n + i];
  for (int i = 0; i < (STEPS + 1) * w->ns; i++) forward += w->bar_s[i] * sensors[i];
  assert_true(fabs(forward - reverse) <= 1e-11 * fabs(reverse));
  free(bar);
  free(way);
  free(x);
  free(sensors);
}

static void refused(pbStatus status, pbStatus wanted, const char *text, const char *part) {
  if (status != wanted || !strstr(text, part)) fail_msg("%s: \"%s\" without \"%s\"", pbStatus_Text(status), text, part);
}

static void test_lengths_out_of_range(void **state) {
  World *w = *state;
  static const double factors[3] = {0, 1e-7, 1e7};
  static const char *const names[DIRECTIONS] = {"jnt_axis:skew",   "body_quat:arm",   "body_quat:hand", "body_iquat:hand",
                                                "geom_quat:brick", "geom_quat:floor", "site_quat:grip", "cam_quat:look",
                                                "cam_quat:eye",    "qpos_spring:",    "eq_data:hold:6"};
  for (int i = 0; i < 3 * DIRECTIONS; i++) {
    memcpy(w->theta, pbModel_DefaultParams(w->model), w->ntheta * sizeof(double));
    scale(w, i / 3, factors[i % 3]);
    refused(pbModel_CheckParams(w->ctx, w->model, w->theta), pb_bad_input, pbContext_Error(w->ctx), names[i / 3]);
    refused(pbRollout_Forward(w->rollout, w->theta, w->x0, &w->input, NULL), pb_bad_input, pbContext_Error(w->ctx), names[i / 3]);
    refused(pbModel_SetConstants(w->ctx, w->model, w->theta), pb_bad_input, pbContext_Error(w->ctx), names[i / 3]);
  }
}

// Every entry of theta, one after the other in the same array, into every call that takes it.
static void test_theta_that_is_not_finite(void **state) {
  World *w = *state;
  pbScratch *s;
  good(w->ctx, pbScratch_Create(w->ctx, w->model, NULL, &s));
  double *x = zeros((size_t)w->nx), *record = zeros((size_t)pbTape_Size(w->model)), *bar = zeros((size_t)w->n);
  double *A = zeros((size_t)(w->n * w->n));
  const double bad[3] = {NAN, INFINITY, -INFINITY};
  memcpy(x, w->x0, (size_t)w->nx * sizeof(double));
  good(w->ctx, pbStep_Forward(w->model, w->theta, x, NULL, s, NULL));
  pbTape_Record(w->model, w->x0, s, record);
  run(w);
  for (size_t i = 0; i < w->ntheta; i++) {
    double kept = w->theta[i];
    char name[256];
    w->theta[i] = bad[i % 3];
    pbModel_ParamName(w->model, i, name, sizeof name);
    refused(pbStep_Forward(w->model, w->theta, x, NULL, s, NULL), pb_bad_input, pbScratch_Error(s), name);
    refused(pbStep_Observe(w->model, w->theta, x, NULL, s, NULL), pb_bad_input, pbScratch_Error(s), name);
    refused(pbStep_Vjp(w->model, w->theta, record, NULL, w->bar_x, NULL, s, bar, NULL, NULL), pb_bad_input, pbScratch_Error(s),
            name);
    refused(pbStep_Jvp(w->model, w->theta, record, NULL, &(pbDirection){.x = w->bar_x}, s, bar, NULL, NULL, NULL), pb_bad_input,
            pbScratch_Error(s), name);
    refused(pbStep_Jacobian(w->model, w->theta, record, NULL, s, A, NULL, NULL, NULL), pb_bad_input, pbScratch_Error(s), name);
    pbRolloutBar cotangent = {.qpos = {w->bar_x, 1, NULL}};
    refused(pbRollout_Vjp(w->rollout, &cotangent, NULL, NULL, NULL), pb_bad_input, pbContext_Error(w->ctx), name);
    refused(pbRollout_Forward(w->rollout, w->theta, w->x0, &w->input, NULL), pb_bad_input, pbContext_Error(w->ctx), name);
    w->theta[i] = kept;
    run(w);
  }
  pbScratch_Destroy(s);
  free(x);
  free(record);
  free(bar);
  free(A);
}

// A gradient by parameters that is not finite, though that by the state is.
static void test_gradient_that_is_not_finite(void **state) {
  World *w = *state;
  double *bar = zeros(w->ntheta);
  pbParam mass;
  good(w->ctx, pbModel_Param(w->ctx, w->model, "body_mass:hand", &mass));
  bar[mass.offset] = NAN;  // added to
  pbRolloutBar cotangent = {.qpos = {w->bar_x, 1, NULL}};
  run(w);
  refused(pbRollout_Vjp(w->rollout, &cotangent, NULL, &(pbRolloutGradient){.theta = bar}, NULL), pb_not_finite,
          pbContext_Error(w->ctx), "body_mass:hand");
  free(bar);
}

static void test_quaternions_of_states(void **state) {
  World *w = *state;
  static const double lengths[5] = {0.5, 40, 0, 1e-7, 1e200};
  pbScratch *s;
  good(w->ctx, pbScratch_Create(w->ctx, w->model, NULL, &s));
  double *x = zeros((size_t)w->nx);
  for (int i = 0; i < 5; i++) {
    for (int k = 0; k < 4; k++) w->x0[2 + k] = (k == 0) * lengths[i];  // behind time and the hinge
    memcpy(x, w->x0, (size_t)w->nx * sizeof(double));
    pbStatus step = pbStep_Forward(w->model, w->theta, x, NULL, s, NULL);
    pbStatus rollout = pbRollout_Forward(w->rollout, w->theta, w->x0, &w->input, NULL);
    if (i < 2) {
      assert_int_equal(step, pb_ok);
      assert_int_equal(rollout, pb_ok);
      continue;
    }
    refused(step, pb_bad_input, pbScratch_Error(s), "qpos[1] (joint 'wrist')");
    refused(rollout, pb_bad_input, pbContext_Error(w->ctx), "qpos[1] (joint 'wrist')");
    refused(pbStep_Observe(w->model, w->theta, w->x0, NULL, s, NULL), pb_bad_input, pbScratch_Error(s), "wrist");
  }
  pbScratch_Destroy(s);
  free(x);
}

// Whatever changes, what was made before is refused, and nothing breaks.
static void test_settings_changed_afterwards(void **state) {
  World *w = *state;
  static const char *const changes[][3] = {
      {"option", "integrator", "RK4"},          {"option", "integrator", "Euler"}, {"contact", "method", "cones"},
      {"contact", "method", "impact"},          {"contact", "method", "penalty"},  {"contact", "method", "soft"},
      {"option", "integrator", "implicitfast"}, {"option", "contact", "disable"},  {"contact", "kappa", "1"}};
  const double *data;
  int rows, cols;
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    pbScratch *s;
    pbRolloutBar cotangent = {.qpos = {w->bar_x, 1, NULL}};
    good(w->ctx, pbScratch_Create(w->ctx, w->model, NULL, &s));
    double *x = zeros((size_t)w->nx), *record = zeros((size_t)pbTape_Size(w->model) + 64);
    double *record_before = zeros((size_t)pbTape_Size(w->model)), *A = zeros((size_t)(w->n * w->n)), *bar = zeros((size_t)w->n);
    memcpy(x, w->x0, (size_t)w->nx * sizeof(double));
    good(w->ctx, pbStep_Forward(w->model, w->theta, x, NULL, s, NULL));
    pbTape_Record(w->model, w->x0, s, record_before);
    good(w->ctx, pbStep_Vjp(w->model, w->theta, record_before, NULL, w->bar_x, NULL, s, bar, NULL, NULL));
    memcpy(x, w->x0, (size_t)w->nx * sizeof(double));
    run(w);
    good(w->ctx, changes[i][0][0] == 'o' ? pbModel_SetOption(w->model, changes[i][1], changes[i][2])
                                         : pbModel_SetContact(w->model, changes[i][1], changes[i][2]));
    refused(pbRollout_Vjp(w->rollout, &cotangent, NULL, NULL, NULL), pb_bad_argument, pbContext_Error(w->ctx), "changed");
    refused(pbRollout_Jvp(w->rollout, 1, &(pbRolloutDirection){.x0 = w->bar_x}, &(pbRolloutTangent){0}), pb_bad_argument,
            pbContext_Error(w->ctx), "changed");
    refused(pbRollout_Forward(w->rollout, w->theta, w->x0, &w->input, NULL), pb_bad_argument, pbContext_Error(w->ctx), "changed");
    refused(pbStep_Forward(w->model, w->theta, x, NULL, s, NULL), pb_bad_argument, pbScratch_Error(s), "changed");
    assert_memory_equal(x, w->x0, (size_t)w->nx * sizeof(double));
    pbTape_Record(w->model, x, s, record);
    assert_int_equal(pbScratch_Gather(s), pb_ok);
    assert_false(pbScratch_Field(s, "M", &data, &rows, &cols));
    pbScratch_Destroy(s);
    good(w->ctx,
         pbScratch_Create(w->ctx, w->model, NULL, &s));  // the records are those of the old settings, exactly as long as theirs
    const double *records[2] = {record_before, record};
    for (int k = 0; k < 2; k++) {
      const double *old = records[k];
      refused(pbStep_Vjp(w->model, w->theta, old, NULL, w->bar_x, NULL, s, bar, NULL, NULL), pb_bad_argument, pbScratch_Error(s),
              "record");
      refused(pbStep_Jvp(w->model, w->theta, old, NULL, &(pbDirection){.x = w->bar_x}, s, bar, NULL, NULL, NULL), pb_bad_argument,
              pbScratch_Error(s), "record");
      refused(pbStep_Jacobian(w->model, w->theta, old, NULL, s, A, NULL, NULL, NULL), pb_bad_argument, pbScratch_Error(s),
              "record");
    }
    pbScratch_Destroy(s);
    free(record_before);
    free(A);
    free(bar);
    pbRollout_Destroy(w->rollout);
    w->rollout = roll(w);
    free(x);
    free(record);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_lengths_do_not_matter, setup, teardown),
      cmocka_unit_test_setup_teardown(test_unit_lengths_are_left_alone, setup, teardown),
      cmocka_unit_test_setup_teardown(test_gradients_are_those_of_the_normalised_value, setup, teardown),
      cmocka_unit_test_setup_teardown(test_forward_and_reverse_agree, setup, teardown),
      cmocka_unit_test_setup_teardown(test_lengths_out_of_range, setup, teardown),
      cmocka_unit_test_setup_teardown(test_theta_that_is_not_finite, setup, teardown),
      cmocka_unit_test_setup_teardown(test_gradient_that_is_not_finite, setup, teardown),
      cmocka_unit_test_setup_teardown(test_quaternions_of_states, setup, teardown),
      cmocka_unit_test_setup_teardown(test_settings_changed_afterwards, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
