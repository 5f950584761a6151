// Servos (option servo): against closed forms of one degree of freedom, their two limits together, their gradients against closed
// forms, and what is refused. That derivatives agree with each other everywhere is tests/conformance's.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/pullback.h>

#include "support/one_context.h"
#include "support/support.h"

// A mass of 2 kg on a vertical slide; `more`: of its actuator besides joint and force range.
#define WORLD(gravity, actuator)                                                   \
  "<mujoco><option timestep='0.01' gravity='0 0 " gravity                          \
  "'/><worldbody><body><joint name='z' type='slide' axis='0 0 1'/>"                \
  "<geom type='sphere' size='.1' mass='2'/></body></worldbody><actuator>" actuator \
  "</actuator>"                                                                    \
  "<sensor><actuatorfrc actuator='a'/><jointactuatorfrc joint='z'/></sensor></mujoco>"
#define VELOCITY "<velocity name='a' joint='z' kv='7' forcerange='-3 3'/>"
#define POSITION "<position name='a' joint='z' kp='20' kv='2' forcerange='-30 30'/>"

typedef struct World {
  pbModel *m;
  pbScratch *s;
  double *theta, *record;
  double x[16], ctrl[4], sensor[4];
  int q, v;
} World;

static const char *const hard[][2] = {{"method", "cones"}, {"erp", "0"}, {"cfm", "0"}, {NULL}};
static const char *const mixed[][2] = {{"erp", "0"}, {"cfm", "1e-9"}, {NULL}};
static const char *const soft[][2] = {{NULL}};

static void begin(World *w, const char *text, const char *const settings[][2]) {
  *w = (World){.m = model_of_text(ctx, text)};
  good(ctx, pbModel_SetOption(w->m, "servo", "all"));
  for (int i = 0; settings[i][0]; i++) good(ctx, pbModel_SetContact(w->m, settings[i][0], settings[i][1]));
  good(ctx, pbScratch_Create(ctx, w->m, NULL, &w->s));
  size_t bytes = pbModel_ParamSize(w->m) * sizeof(double);
  w->theta = malloc(bytes);
  memcpy(w->theta, pbModel_DefaultParams(w->m), bytes);
  w->record = calloc((size_t)pbTape_Size(w->m), sizeof(double));
  good(ctx, pbState_Init(ctx, w->m, w->theta, -1, w->x));
  w->q = 1;
  w->v = 1 + pbModel_Size(w->m, "nq");
}

static void end(World *w) {
  free(w->theta);
  free(w->record);
  pbScratch_Destroy(w->s);
  pbModel_Destroy(w->m);
}

static void step(World *w) {
  double before[16];
  memcpy(before, w->x, sizeof before);
  pbStatus status = pbStep_Forward(w->m, w->theta, w->x, &(pbInput){.ctrl = w->ctrl}, w->s, w->sensor);
  if (status != pb_ok) fail_msg("%s", pbScratch_Error(w->s));
  pbTape_Record(w->m, before, w->s, w->record);
}

static size_t entry(const World *w, const char *name, int k) {
  pbParam p;
  good(ctx, pbModel_Param(ctx, w->m, name, &p));
  return p.offset + (size_t)k;
}
static double *param(World *w, const char *name, int k) { return w->theta + entry(w, name, k); }

// ---- closed forms -------------------------------------------------------------------------------------------------------
static void test_a_bound_accelerates(void **state) {
  (void)state;
  const char *const(*const settings[])[2] = {hard, mixed, soft};
  for (int k = 0; k < 3; k++) {
    World w;
    begin(&w, WORLD("0", VELOCITY), settings[k]);
    w.ctrl[0] = 5;
    for (int i = 1; i <= 50; i++) {
      step(&w);
      assert_near_of("velocity at the bound", w.x[w.v], i * 0.01 * 3 / 2, 1e-13 * i);
      assert_near_of("force at the bound", w.sensor[0], 3, 0);
      assert_near_of("force on the joint", w.sensor[1], 3, 0);
    }
    end(&w);
  }
}

static void test_a_velocity_is_reached(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    World w;
    begin(&w, WORLD("-1", VELOCITY), k ? mixed : hard);
    w.ctrl[0] = 0.003;
    for (int i = 0; i < 3; i++) {
      step(&w);
      assert_near_of("velocity", w.x[w.v], 0.003, k ? 1e-8 : 1e-11);
      assert_near_of("force", w.sensor[0], 2 + (i ? 0 : 2 * 0.003 / 0.01), k ? 1e-5 : 1e-8);
    }
    end(&w);
  }

  // Soft: the share d of the acceleration b (asked - v), as friction loss has it.
  World w;
  begin(&w, WORLD("0", VELOCITY), soft);
  w.ctrl[0] = 0.003;
  double v = 0, b = 2 / (0.95 * 0.02), d = 0.9;
  for (int i = 0; i < 5; i++) {
    step(&w);
    v += 0.01 * d * b * (0.003 - v);
    assert_near_of("velocity of a soft servo", w.x[w.v], v, 1e-14);
  }
  end(&w);
}

// Nothing to hold: the way to the set-point falls by 1 - h kp / kv a step, and the force with it, far below the bounds' last digit.
static void test_a_place_is_reached(void **state) {
  (void)state;
  World w;
  begin(&w, WORLD("0", "<position name='a' joint='z' kp='20' kv='2' forcerange='-300 300'/>"), hard);
  w.x[w.q] = 0.1;
  for (int i = 1; i <= 600; i++) {
    step(&w);
    double asked = 0.1 * pow(0.9, i);
    assert_near_of("place", w.x[w.q], asked, 1e-9 * asked);
  }
  end(&w);
}

static void test_a_load_beyond_the_bound_slips(void **state) {
  (void)state;
  const char *const(*const settings[])[2] = {hard, mixed, soft};
  for (int k = 0; k < 3; k++) {
    World w;
    begin(&w, WORLD("-9.81", VELOCITY), settings[k]);
    for (int i = 1; i <= 20; i++) {
      step(&w);
      assert_near_of("velocity of a load that slips", w.x[w.v], -(9.81 - 1.5) * 0.01 * i, 1e-12);
    }
    end(&w);
  }
}

// A set-point far away under a load: neither more speed nor more force than allowed, and the place is reached and held.
static void test_two_limits_together(void **state) {
  (void)state;
  World w;
  begin(&w, WORLD("-9.81", POSITION), hard);
  *param(&w, "actuator_speed", 0) = 0.5;
  w.ctrl[0] = 0.4;
  bool at_force = false, at_speed = false;
  double v = 0;
  for (int i = 0; i < 250; i++) {
    step(&w);
    assert_true(fabs(w.x[w.v]) <= 0.5 * (1 + 1e-9) && fabs(w.sensor[0]) <= 30);
    at_force |= w.sensor[0] == 30;
    at_speed |= fabs(w.x[w.v] - 0.5) < 1e-9;

    // What a body does that is driven so: 10 / s times the error, at most 0.5 m/s, by at most 30 N.
    double q = w.x[w.q] - 0.01 * w.x[w.v], most = v + 0.01 * (15 - 9.81);
    v = fmin(fmin(10 * (0.4 - q), 0.5), most);
    assert_near_of("velocity within both limits", w.x[w.v], v, 1e-9);
  }
  assert_true(at_force && at_speed);
  assert_near_of("place", w.x[w.q], 0.4, 1e-9);
  end(&w);
}

static void test_dead_band(void **state) {
  (void)state;
  World w;
  begin(&w, WORLD("0", POSITION), hard);
  *param(&w, "actuator_deadband", 0) = 0.1;
  w.ctrl[0] = 0.0099;
  step(&w);
  assert_near_of("velocity in the dead band", w.x[w.v], 0, 1e-9);
  w.ctrl[0] = 0.0101;
  step(&w);
  assert_near_of("velocity beyond it", w.x[w.v], 0.101, 1e-9);
  end(&w);
}

// A rope pulls only; gear 2: the servo's velocity is twice the joint's, its force half.
static void test_one_sign_and_gear(void **state) {
  (void)state;
  World w;
  begin(&w, WORLD("0", "<velocity name='a' joint='z' kv='7' gear='2' forcerange='-3 0'/>"), hard);
  w.ctrl[0] = 0.5;
  step(&w);
  assert_near_of("velocity that a rope does not push to", w.x[w.v], 0, 1e-15);
  w.ctrl[0] = -0.01;
  step(&w);
  assert_near_of("velocity by the gear", w.x[w.v], -0.005, 1e-10);
  assert_near_of("force by the gear", w.sensor[0], -2 * 0.005 / 0.01 / 2, 1e-8);
  assert_near_of("force on the joint", w.sensor[1], -2 * 0.005 / 0.01, 1e-8);
  end(&w);
}

// ---- gradients ------------------------------------------------------------------------------------------------------------
// Of the velocity after one step, by one entry of theta and by the control.
static double slope(World *w, const char *name, int k, double *by_ctrl) {
  double x_bar[16] = {0}, next[16] = {0}, ctrl_bar[4] = {0};
  double *theta_bar = calloc(pbModel_ParamSize(w->m), sizeof(double));
  next[1] = 1;  // tangent: q, v
  pbInputBar bar = {.ctrl = ctrl_bar};
  pbStatus status = pbStep_Vjp(w->m, w->theta, w->record, &(pbInput){.ctrl = w->ctrl}, next, NULL, w->s, x_bar, &bar, theta_bar);
  if (status != pb_ok) fail_msg("%s", pbScratch_Error(w->s));
  double found = name ? theta_bar[entry(w, name, k)] : x_bar[k];
  if (by_ctrl) *by_ctrl = ctrl_bar[0];
  free(theta_bar);
  return found;
}

static void test_gradients_at_the_bound(void **state) {
  (void)state;
  const char *const(*const settings[])[2] = {hard, mixed, soft};
  for (int k = 0; k < 3; k++) {
    World w;
    double by_ctrl;
    begin(&w, WORLD("-9.81", VELOCITY), settings[k]);
    w.ctrl[0] = 5;
    step(&w);
    assert_near_of("by the upper bound", slope(&w, "actuator_forcerange", 1, &by_ctrl), 0.01 / 2, 1e-15);
    assert_near_of("by the control at the bound", by_ctrl, 0, 0);
    assert_near_of("by the other bound", slope(&w, "actuator_forcerange", 0, NULL), 0, 0);
    w.ctrl[0] = -5;
    step(&w);
    assert_near_of("by the lower bound", slope(&w, "actuator_forcerange", 0, NULL), 0.01 / 2, 1e-15);
    assert_near_of("by the velocity at the bound", slope(&w, NULL, 1, NULL), 1, 1e-15);
    end(&w);
  }
}

static void test_gradients_within(void **state) {
  (void)state;
  World w;
  double by_ctrl;
  begin(&w, WORLD("-1", POSITION), hard);
  w.x[w.q] = -0.01;
  w.ctrl[0] = 0.002;
  step(&w);  // asks for 10 (0.002 + 0.01)
  assert_near_of("velocity", w.x[w.v], 0.12, 1e-10);
  assert_near_of("by kp", slope(&w, "actuator_gainprm", 0, &by_ctrl), 0.002 / 2, 1e-10);
  assert_near_of("by the set-point", by_ctrl, 10, 1e-8);
  assert_near_of("by the bias on the length", slope(&w, "actuator_biasprm", 1, NULL), -0.01 / 2, 1e-10);
  assert_near_of("by the bias on the velocity", slope(&w, "actuator_biasprm", 2, NULL), 0.12 / 2, 1e-10);
  assert_near_of("by the position", slope(&w, NULL, 0, NULL), -10, 1e-8);
  assert_near_of("by the velocity before", slope(&w, NULL, 1, NULL), 0, 1e-8);
  assert_near_of("by the bound", slope(&w, "actuator_forcerange", 1, NULL), 0, 0);

  // At its speed the speed alone counts.
  w.x[w.q] = -0.01;
  w.x[w.v] = 0;
  *param(&w, "actuator_speed", 0) = 0.05;
  step(&w);
  assert_near_of("by the speed", slope(&w, "actuator_speed", 0, &by_ctrl), 1, 1e-9);
  assert_near_of("by the set-point at the speed", by_ctrl, 0, 0);

  // In the dead band nothing does.
  w.x[w.q] = -0.01;
  w.x[w.v] = 0;
  *param(&w, "actuator_deadband", 0) = 0.2;
  step(&w);
  assert_near_of("by the set-point at rest", (slope(&w, "actuator_speed", 0, &by_ctrl), by_ctrl), 0, 0);
  end(&w);
}

// ---- which actuators ----------------------------------------------------------------------------------------------------
static void refuse(const char *text, const char *value, const char *part) {
  pbModel *m = model_of_text(ctx, text);
  assert_int_equal(pbModel_SetOption(m, "servo", value), pb_bad_argument);
  if (!strstr(pbContext_Error(ctx), part)) fail_msg("'%s' does not say '%s'", pbContext_Error(ctx), part);
  pbModel_Destroy(m);
}

static void test_refusals(void **state) {
  (void)state;
  refuse(WORLD("0", "<motor name='a' joint='z' forcerange='-1 1'/>"), "a", "no velocity in its force law");
  refuse(WORLD("0", "<position name='a' joint='z' kp='1' forcerange='-1 1'/>"), "a", "no velocity in its force law");
  refuse(WORLD("0", "<velocity name='a' joint='z'/>"), "a", "no forcerange");
  refuse(WORLD("0", VELOCITY), "b", "no actuator 'b'");
  refuse(WORLD("0", VELOCITY), "a,", "no actuator ''");
  refuse(WORLD("0", "<motor name='a' joint='z'/>"), "all", "no velocity in its force law");
  refuse("<mujoco><worldbody><body><joint name='z'/><geom size='.1'/></body></worldbody></mujoco>", "all", "no actuators");
  refuse(
      "<mujoco><worldbody><body><joint name='z' actuatorfrcrange='-1 1'/><geom size='.1'/></body></worldbody><actuator>"
      "<velocity name='a' joint='z' forcerange='-1 1'/></actuator></mujoco>",
      "a", "actuatorfrcrange");

  // A parameter that would turn the law around.
  World w;
  begin(&w, WORLD("0", VELOCITY), soft);
  *param(&w, "actuator_biasprm", 2) = 0;
  assert_int_equal(pbModel_CheckParams(ctx, w.m, w.theta), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(ctx), "must be negative"));
  end(&w);
}

// With "none" the actuator is what its file says.
static void test_none(void **state) {
  (void)state;
  double last[2];
  for (int k = 0; k < 2; k++) {
    pbModel *m = model_of_text(ctx, WORLD("-9.81", POSITION));
    pbScratch *s;
    double x[16], u = 0.3;
    if (k) {
      good(ctx, pbModel_SetOption(m, "servo", "a"));
      good(ctx, pbModel_SetOption(m, "servo", "none"));
    }
    good(ctx, pbScratch_Create(ctx, m, NULL, &s));
    good(ctx, pbState_Init(ctx, m, pbModel_DefaultParams(m), -1, x));
    for (int i = 0; i < 20; i++) good(ctx, pbStep_Forward(m, pbModel_DefaultParams(m), x, &(pbInput){.ctrl = &u}, s, NULL));
    last[k] = x[1];
    pbScratch_Destroy(s);
    pbModel_Destroy(m);
  }
  assert_true(last[0] == last[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_bound_accelerates),
      cmocka_unit_test(test_a_velocity_is_reached),
      cmocka_unit_test(test_a_place_is_reached),
      cmocka_unit_test(test_a_load_beyond_the_bound_slips),
      cmocka_unit_test(test_two_limits_together),
      cmocka_unit_test(test_dead_band),
      cmocka_unit_test(test_one_sign_and_gear),
      cmocka_unit_test(test_gradients_at_the_bound),
      cmocka_unit_test(test_gradients_within),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_none),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
