// The energy ledger against closed forms: work, losses and energies of scenes that can be integrated by hand, for every integrator,
// and the order in which what is left over falls with the time step.
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
#include <pullback/ledger.h>
#include <pullback/spec.h>

static const char *const integrators[] = {"Euler", "implicitfast", "RK4"};
static const int orders[] = {1, 1, 4};

typedef struct Run {
  const char *scene, *integrator, *method, *restitution;
  double h, time, velocity, ctrl, force;  // velocity: of the first dof; ctrl and force: of the first, constant
  bool servos;                            // actuators are
} Run;

typedef struct Outcome {
  pbLedger ledger;
  double q, v;  // of the first dof at the end
} Outcome;

static void good(pbContext *ctx, pbScratch *s, pbStatus status) {
  if (status != pb_ok) fail_msg("%s: %s %s", pbStatus_Text(status), pbContext_Error(ctx), s ? pbScratch_Error(s) : "");
}

typedef struct World {
  pbContext *ctx;
  pbModel *model;
  pbScratch *scratch;
  double *theta, *x;
} World;

static World begin(const Run *run) {
  World w = {.ctx = pbContext_Create(NULL)};
  pbSpec *spec = NULL;
  pbParam h;
  good(w.ctx, NULL, pbSpec_ParseMjcf(w.ctx, run->scene, strlen(run->scene), "scene", &spec));
  good(w.ctx, NULL, pbSpec_Compile(spec, &w.model));
  pbSpec_Destroy(spec);
  if (run->integrator) good(w.ctx, NULL, pbModel_SetOption(w.model, "integrator", run->integrator));
  if (run->servos) good(w.ctx, NULL, pbModel_SetOption(w.model, "servo", "all"));
  if (run->method) good(w.ctx, NULL, pbModel_SetContact(w.model, "method", run->method));
  if (run->restitution) good(w.ctx, NULL, pbModel_SetContact(w.model, "restitution", run->restitution));

  size_t bytes = pbModel_ParamSize(w.model) * sizeof(double);
  w.theta = malloc(bytes);
  memcpy(w.theta, pbModel_DefaultParams(w.model), bytes);
  good(w.ctx, NULL, pbModel_Param(w.ctx, w.model, "timestep", &h));
  w.theta[h.offset] = run->h;

  w.x = calloc((size_t)pbModel_StateSize(w.model), sizeof(double));
  good(w.ctx, NULL, pbScratch_Create(w.ctx, w.model, NULL, &w.scratch));
  good(w.ctx, w.scratch, pbState_Init(w.ctx, w.model, w.theta, -1, w.x));
  w.x[1 + pbModel_Size(w.model, "nq")] = run->velocity;
  return w;
}

static void end(World *w) {
  pbScratch_Destroy(w->scratch);
  pbModel_Destroy(w->model);
  pbContext_Destroy(w->ctx);
  free(w->theta);
  free(w->x);
}

static Outcome go(Run run) {
  Outcome out;
  World w = begin(&run);
  double forces[32] = {run.force}, controls[8] = {run.ctrl};
  const pbInput input = {.ctrl = controls, .qfrc = forces};

  good(w.ctx, w.scratch, pbLedger_Begin(w.model, w.theta, w.x, &input, w.scratch, &out.ledger));
  for (long k = 0, steps = lround(run.time / run.h); k < steps; k++) {
    good(w.ctx, w.scratch, pbStep_Forward(w.model, w.theta, w.x, &input, w.scratch, NULL));
    pbLedger_Add(w.scratch, &out.ledger);
  }
  good(w.ctx, w.scratch, pbLedger_End(w.model, w.theta, w.x, &input, w.scratch, &out.ledger));

  out.q = w.x[1];
  out.v = w.x[1 + pbModel_Size(w.model, "nq")];
  end(&w);
  return out;
}

static void near(double found, double expected, double tolerance, const char *what) {
  if (!(fabs(found - expected) <= tolerance)) fail_msg("%s: %.12g instead of %.12g", what, found, expected);
}

// What is left over falls with the integrator's order, down to rounding.
static void falls(Run run, int order, const char *what) {
  double before = 0, scale = 0;
  for (int i = 0; i < 4; i++, run.h /= 2) {
    Outcome o = go(run);
    scale = fmax(scale, fabs(o.ledger.kinetic) + fabs(o.ledger.potential) + fabs(pbLedger_Taken(&o.ledger)));
    double left = fabs(o.ledger.remainder);
    if (i > 1 && left > 1e-11 * scale && !(log2(before / left) > order - 0.35))
      fail_msg("%s, %s: at h = %g what is left over is %g of %g, before it was %g", what, run.integrator, run.h, left, scale,
               before);
    before = left;
  }
  assert_true(before < 0.02 * scale);
}

#define HEAD "<mujoco><option gravity='0 0 -10'/><worldbody>"
static const char pendulum[] =
    HEAD "<body><joint axis='0 1 0'/><geom size='.05' pos='.5 0 0' mass='2'/></body></worldbody></mujoco>";
static const char chain[] = HEAD
    "<body><joint type='ball'/><geom type='capsule' size='.03' fromto='0 0 0 .4 0 .1'/><body pos='.4 0 .1'><joint axis='0 1 0' "
    "stiffness='3' springref='30'/><geom type='capsule' size='.02' fromto='0 0 0 .3 .1 0'/></body></body></worldbody></mujoco>";

static void test_nothing_is_lost(void **state) {
  for (int i = 0; i < 3; i++) {
    Run swing = {.scene = pendulum, .integrator = integrators[i], .h = 0.01, .time = 0.37};
    Outcome o = go((Run){.scene = pendulum, .integrator = integrators[i], .h = 1e-4, .time = 0.37});
    near(o.ledger.kinetic + o.ledger.potential, 0, 2e-3, "energy of a pendulum");
    near(o.ledger.potential, -2 * 10 * 0.5 * sin(o.q), 1e-12, "height of a pendulum");
    near(o.ledger.kinetic, 0.5 * (2 * 0.25 + 0.4 * 2 * 0.0025) * o.v * o.v, 1e-9, "motion of a pendulum");
    assert_true(pbLedger_Taken(&o.ledger) == 0 && o.ledger.actuators == 0 && fabs(o.ledger.applied) < 1e-12);
    falls(swing, orders[i], "pendulum");
    falls((Run){.scene = chain, .integrator = integrators[i], .h = 0.01, .time = 0.37, .velocity = 2}, orders[i], "chain");
  }
  (void)state;
}

// m x'' = -k x - d x' from x = 0 at v: what the damper takes is what is missing of m v^2 / 2.
static const char damped[] =
    "<mujoco><worldbody><body><joint type='slide' axis='1 0 0' stiffness='50' damping='3'/><geom size='.1' mass='2'/></body>"
    "</worldbody></mujoco>";

static void test_damped_spring(void **state) {
  const double m = 2, k = 50, d = 3, v = 1.5, T = 0.8, a = d / (2 * m), w = sqrt(k / m - a * a);
  double x = v / w * exp(-a * T) * sin(w * T), speed = v * exp(-a * T) * (cos(w * T) - a / w * sin(w * T));
  for (int i = 0; i < 3; i++) {
    Run run = {.scene = damped, .integrator = integrators[i], .h = 0.01, .time = T, .velocity = v};
    falls(run, orders[i], "damped spring");
    run.h = 1e-4;
    Outcome o = go(run);
    near(o.ledger.dampers, (m * v * v - m * speed * speed - k * x * x) / 2, i < 2 ? 2e-3 : 1e-9, "taken by a damper");
    near(o.ledger.potential, k * o.q * o.q / 2, 1e-13, "in a spring");
    near(o.ledger.kinetic, m * (o.v * o.v - v * v) / 2, 1e-13, "in the motion");
  }
  (void)state;
}

// Stiff dampers are implicit: the ledger has them as they acted. Nothing else moves, so that nothing is left over at any step.
static const char stiff[] =
    "<mujoco><option gravity='0 0 0'/><worldbody><body><joint name='x' type='slide' axis='1 0 0' damping='%d'/><geom size='.1' "
    "mass='2'/>"
    "</body></worldbody><actuator><velocity joint='x' kv='%d'/></actuator></mujoco>";

static const char stiff_tendon[] =
    "<mujoco><option gravity='0 0 0'/><worldbody><body><joint name='x' type='slide' axis='1 0 0'/><geom size='.1' "
    "mass='2'/></body>"
    "</worldbody><tendon><fixed damping='4000'><joint joint='x' coef='2'/></fixed></tendon></mujoco>";
static const char thick[] =
    "<mujoco><option gravity='0 0 0' density='900' viscosity='800'/><worldbody><body><joint type='slide' axis='1 0 0'/>"
    "<geom type='box' size='.1 .2 .3' mass='2'/></body></worldbody></mujoco>";

static void test_implicit_forces(void **state) {
  char scene[400];
  for (int i = 0; i < 2; i++) {
    snprintf(scene, sizeof scene, stiff, i ? 7 : 4000, i ? 4000 : 7);
    Outcome o = go((Run){.scene = scene, .integrator = integrators[i], .h = 0.01, .time = 0.2, .velocity = 3, .ctrl = 0.4});
    near(o.ledger.remainder, 0, 1e-12, "left over beside stiff dampers");
    assert_true(o.ledger.dampers > 0 && o.ledger.actuators < 0 && o.ledger.delivered >= 0);
    near(o.ledger.kinetic, o.v * o.v - 9, 1e-12, "in the motion");
  }

  // Of tendons and fluids with implicitfast.
  Outcome o = go((Run){.scene = stiff_tendon, .integrator = "implicitfast", .h = 0.01, .time = 0.05, .velocity = 3});
  near(o.ledger.remainder, 0, 1e-12, "left over beside a stiff tendon");
  near(o.ledger.dampers, 9 - o.v * o.v, 1e-12, "taken by a tendon");
  o = go((Run){.scene = thick, .integrator = "implicitfast", .h = 0.01, .time = 0.05, .velocity = 3});
  near(o.ledger.remainder, 0, 1e-12, "left over in a thick fluid");
  near(o.ledger.fluid, 9 - o.v * o.v, 1e-12, "taken by a fluid");
  (void)state;
}

// Coulomb friction: mu m g times the way.
static const char block[] =
    "<mujoco><option gravity='0 0 -10' cone='elliptic'/><worldbody><geom type='plane' size='5 5 .1' friction='.4'/><body pos='0 "
    "0 .05'>"
    "<freejoint/><geom type='box' size='.1 .1 .05' mass='2' friction='.4'/></body></worldbody></mujoco>";
static const char rail[] =
    "<mujoco><option gravity='0 0 -10'/><worldbody><body><joint type='slide' axis='1 0 0' frictionloss='8'/><geom size='.1' "
    "mass='2'/>"
    "</body></worldbody></mujoco>";

static void test_friction(void **state) {
  static const char *const methods[] = {"soft", "cones", "lcp"};
  for (int i = 0; i < 3; i++) {
    Outcome o = go((Run){.scene = block, .method = methods[i], .h = 1e-3, .time = 1, .velocity = 1.2});
    near(o.ledger.contacts, 2 * 1.2 * 1.2 / 2, i ? 1e-3 : 0.03, "taken by contacts from a block that comes to rest");
    near(o.ledger.remainder, 0, 2e-3, "left over of a block");
  }
  for (int i = 0; i < 3; i++) {
    Outcome o = go((Run){.scene = rail, .integrator = integrators[i], .h = 1e-3, .time = 0.2, .velocity = 1.2});
    near(o.ledger.friction, 8 * o.q, 0.02, "taken by the friction of a joint");
    near(o.ledger.friction + o.ledger.kinetic, 0, i < 2 ? 1e-12 : 1e-6, "left of the motion");
  }
  (void)state;
}

// Dropped from 1 m with e = 0.7: after the first impact e^2 of its energy is there, and contacts have taken the rest.
static const char ball[] =
    "<mujoco><option gravity='0 0 -10'/><worldbody><geom type='plane' size='5 5 .1'/><body pos='0 0 1.1'><joint type='slide' "
    "axis='0 0 "
    "1'/><geom size='.1' mass='2'/></body></worldbody></mujoco>";

static void test_bouncing_ball(void **state) {
  double before = INFINITY;
  for (double h = 2e-3; h > 1e-4; h /= 4) {
    Outcome o = go((Run){.scene = ball, .method = "cones", .restitution = "0.7", .h = h, .time = 0.7});
    near(o.ledger.contacts, 20 * (1 - 0.49), 20 * 12 * h, "taken by an impact");
    assert_true(fabs(o.ledger.remainder) < before / 2);
    before = fabs(o.ledger.remainder);
  }
  (void)state;
}

// A motor's constant torque does torque times angle; a force on the dof beside it is counted apart. A limit stops the arm.
static const char arm[] =
    "<mujoco><option gravity='0 0 -10'/><worldbody><body><joint name='j' axis='0 1 0' range='-100 60' limited='true'/>"
    "<geom type='capsule' size='.03' fromto='0 0 0 .5 0 0'/></body></worldbody><actuator><motor joint='j' "
    "gear='3'/></actuator></mujoco>";

static void test_actuated_arm(void **state) {
  for (int i = 0; i < 3; i++) {
    Run run = {.scene = arm, .integrator = integrators[i], .h = 0.01, .time = 0.16, .ctrl = -4, .force = 1.5};
    falls(run, orders[i], "arm");
    run.h = 1e-4;
    Outcome o = go(run);
    near(o.ledger.actuators, -12 * o.q, i < 2 ? 0.02 : 1e-8, "work of a motor");
    near(o.ledger.applied, 1.5 * o.q, i < 2 ? 0.003 : 1e-8, "work of a force");
    near(o.ledger.force, 4, 1e-12, "largest force");
    assert_int_equal(o.ledger.force_actuator, 0);
    near(o.ledger.power, fabs(12 * o.v), 0.02 * fabs(12 * o.v), "largest power");
    near(o.ledger.delivered, fabs(o.ledger.actuators), 1e-9, "work delivered");

    // Beyond its range the limit holds it; nothing else takes energy.
    o = go((Run){.scene = arm, .integrator = integrators[i], .h = 2e-4, .time = 2});
    assert_true(o.ledger.limits > 0 && o.ledger.contacts == 0 && o.ledger.dampers == 0);
    near(o.ledger.remainder, 0, 0.02 * o.ledger.limits, "left over at a limit");
  }
  (void)state;
}

// A servo lifts 2 kg at half a meter a second: its row's work is that of an actuator.
static void test_lifting_servo(void **state) {
  static const char lift[] =
      "<mujoco><option gravity='0 0 -10'/><worldbody><body><joint name='j' type='slide' axis='0 0 1'/><geom size='.1' "
      "mass='2'/></body>"
      "</worldbody><actuator><velocity joint='j' kv='1' gear='2' forcerange='-50 50'/></actuator></mujoco>";
  for (int i = 0; i < 2; i++) {
    Outcome o = go((Run){.scene = lift,
                         .integrator = integrators[i],
                         .method = "cones",
                         .h = 0.01,
                         .time = 1,
                         .velocity = 0.5,
                         .ctrl = 1,
                         .servos = true});
    near(o.ledger.actuators, 10, 1e-3, "work of a servo");
    near(o.ledger.delivered, 10, 1e-3, "work that it delivers");
    near(o.ledger.force, 10, 1e-3, "its force");
    near(o.ledger.power, 10, 1e-3, "its power");
    near(o.ledger.applied, 0, 1e-9, "work of forces that are given");
    near(o.ledger.remainder, 0, 1e-6, "left over of a servo's work");
  }
  (void)state;
}

static void test_no_ledger(void **state) {
  World w = begin(&(Run){.scene = ball, .method = "impact", .h = 0.01});
  pbLedger l;
  assert_int_equal(pbLedger_Begin(w.model, w.theta, w.x, NULL, w.scratch, &l), pb_unsupported);
  assert_non_null(strstr(pbScratch_Error(w.scratch), "impact"));
  end(&w);

  assert_true(pbLedger_Gap(&(pbLedger){0}) == 0);
  assert_true(pbLedger_Gap(&(pbLedger){.remainder = -2, .delivered = 8}) == 0.25);
  assert_true(pbLedger_Gap(&(pbLedger){.remainder = 2, .kinetic = -3, .potential = 1}) == 0.5);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_is_lost), cmocka_unit_test(test_damped_spring),
                                     cmocka_unit_test(test_implicit_forces), cmocka_unit_test(test_friction),
                                     cmocka_unit_test(test_bouncing_ball),   cmocka_unit_test(test_actuated_arm),
                                     cmocka_unit_test(test_lifting_servo),   cmocka_unit_test(test_no_ledger)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
