// Friction of joints by velocity and load (multibody/friction_law.h): against closed forms of one degree of freedom, a pendulum
// against the same equations in small steps, gradients against differences. That derivatives agree with each other everywhere is
// tests/conformance's (scenes.h, give_laws).
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

enum { most_x = 128 };

// A mass of 2 kg on a horizontal slide.
#define SLIDE                                                                                                      \
  "<mujoco><option timestep='0.01'/><worldbody><body><joint name='z' type='slide' axis='1 0 0' frictionloss='1'/>" \
  "<geom type='sphere' size='.1' mass='2'/></body></worldbody><actuator><motor name='a' joint='z'/></actuator></mujoco>"
// A point of 0.5 kg on a rod of 0.4 m, which hangs down.
#define PENDULUM                                                                                                              \
  "<mujoco><option timestep='0.001' gravity='0 0 -9.81' integrator='RK4'/><worldbody><body pos='0 0 1'>"                      \
  "<joint name='p' axis='0 1 0' frictionloss='.02' damping='.004'/><inertial pos='0 0 -.4' mass='.5' diaginertia='1e-9 1e-9 " \
  "1e-9'/></body></worldbody></mujoco>"
// All kinds of joints, and what loads them: an arm of two hinges with a motor each and a tendon with friction and a spring, a
// ball joint with a spring, a free body in a medium.
#define MACHINE                                                                                                              \
  "<mujoco><option timestep='0.002' integrator='%s' density='1.2' viscosity='.1'/><worldbody>"                               \
  "<body pos='0 0 1'><joint name='a' axis='0 1 0' frictionloss='.05' damping='.02' stiffness='.3' springref='20'/>"          \
  "<geom type='capsule' fromto='0 0 0 .3 0 .1' size='.04' mass='.6'/><body pos='.3 0 .1' gravcomp='.4'>"                     \
  "<joint name='b' axis='.2 1 0' frictionloss='.03' armature='.01'/><geom type='capsule' fromto='0 0 0 .2 .1 0' size='.03' " \
  "mass='.3'/><body pos='.2 .1 0'><joint name='c' type='ball' stiffness='.05' frictionloss='.01'/>"                          \
  "<geom type='box' size='.05 .08 .03' mass='.2' pos='.02 0 .05'/></body></body></body>"                                     \
  "<body pos='1 0 2'><freejoint/><geom type='box' size='.1 .05 .07' mass='.5'/></body></worldbody>"                          \
  "<tendon><fixed name='t' frictionloss='.02' stiffness='.4' springlength='.1' damping='.01'><joint joint='a' coef='.5'/>"   \
  "<joint joint='b' coef='-.3'/></fixed></tendon><actuator><motor joint='a' gear='2'/><position joint='b' kp='3' kv='.1'/>"  \
  "<motor tendon='t'/></actuator></mujoco>"

typedef struct World {
  pbModel *m;
  pbScratch *s;
  double *theta, *record;
  double x[most_x], before[most_x], ctrl[4];
  int q, v;
} World;

static void begin(World *w, const char *text, const char *method) {
  *w = (World){.m = model_of_text(ctx, text)};
  good(ctx, pbModel_SetContact(w->m, "method", method));
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
  memcpy(w->before, w->x, sizeof w->before);
  pbStatus status = pbStep_Forward(w->m, w->theta, w->x, &(pbInput){.ctrl = w->ctrl}, w->s, NULL);
  if (status != pb_ok) fail_msg("%s", pbScratch_Error(w->s));
  pbTape_Record(w->m, w->before, w->s, w->record);
}

static double *param(World *w, const char *name, int k) {
  pbParam p;
  good(ctx, pbModel_Param(ctx, w->m, name, &p));
  return w->theta + p.offset + k;
}

static void set_pair(World *w, const char *name, double motor, double external) {
  param(w, name, 0)[0] = motor;
  param(w, name, 1)[0] = external;
}

// ---- closed forms -------------------------------------------------------------------------------------------------------
// What the slide gains in a step from velocity v under the force u.
static double gain(World *w, double v, double u) {
  good(ctx, pbState_Init(ctx, w->m, w->theta, -1, w->x));
  w->x[w->v] = v;
  w->ctrl[0] = u;
  step(w);
  return (w->x[w->v] - v) / 0.01;
}

static void test_level_while_sliding(void **state) {
  (void)state;
  static const char *const methods[] = {"soft", "cones", "lcp"};
  for (int k = 0; k < 3; k++) {
    World w;
    begin(&w, SLIDE, methods[k]);
    *param(&w, "dof_stiction", 0) = 0.6;
    *param(&w, "dof_stribeck", 0) = 0.3;
    *param(&w, "dof_stribeckpower", 0) = 1.4;
    for (double v = 0.2; v < 2; v += 0.3) {
      double level = 1 + 0.6 * exp(-pow(v / 0.3, 1.4));
      assert_near_of("forward", gain(&w, v, 5), (5 - level) / 2, 1e-9);
      assert_near_of("backward", gain(&w, -v, 5), (5 + level) / 2, 1e-9);
    }

    // By the motor's force, nothing else acts: of both kinds of coefficients.
    set_pair(&w, "dof_frictionload", 0.1, 0.7);
    set_pair(&w, "dof_stictionload", 0.2, 0.5);
    set_pair(&w, "dof_stictionquad", 3, 4);
    double share = exp(-pow(0.5 / 0.3, 1.4));
    assert_near_of("by load", gain(&w, 0.5, -5), (-5 - (1 + 0.5 + share * (0.6 + 1))) / 2, 1e-9);
    end(&w);
  }
}

// A weight on a vertical slide: driven up, let down, and the square of the lesser force.
static void test_level_by_two_forces(void **state) {
  (void)state;
  World w;
  begin(&w,
        "<mujoco><option timestep='0.01' gravity='0 0 -10'/><worldbody><body><joint name='z' type='slide' axis='0 0 1' "
        "frictionloss='1'/><geom type='sphere' size='.1' mass='2'/></body></worldbody><actuator><motor "
        "joint='z'/></actuator></mujoco>",
        "soft");
  set_pair(&w, "dof_frictionload", 0.1, 0.3);
  assert_near_of("driven", gain(&w, 0.4, 30), (30 - 20 - (1 + 0.1 * 30 + 0.3 * 20)) / 2, 1e-9);
  assert_near_of("let down", gain(&w, -0.4, 8), (8 - 20 + (1 + 0.1 * 8 + 0.3 * 20)) / 2, 1e-9);
  assert_near_of("pushed down", gain(&w, -0.4, -8), (-8 - 20 + (1 + fabs(-0.1 * 8 + 0.3 * 20))) / 2, 1e-9);

  set_pair(&w, "dof_frictionload", 0, 0);
  set_pair(&w, "dof_stictionquad", 0.02, 0.03);
  double s = exp(-16);  // (0.4 / 0.1)^2
  assert_near_of("driven, squares", gain(&w, 0.4, 30), (30 - 20 - (1 + s * 0.03 * 400)) / 2, 1e-9);
  assert_near_of("let down, squares", gain(&w, -0.4, 8), (8 - 20 + (1 + s * 0.02 * 64)) / 2, 1e-9);
  assert_near_of("pushed down, squares", gain(&w, -0.4, -8), (-8 - 20 + 1) / 2., 1e-9);
  end(&w);
}

// From rest it breaks away at frictionloss + stiction, by load at (frictionloss + stiction) / (1 - share); what holds is soft, as
// friction loss is: a tenth of the acceleration is left (solimp).
static void test_breaks_away(void **state) {
  (void)state;
  World w;
  begin(&w, SLIDE, "soft");
  *param(&w, "dof_stiction", 0) = 0.6;
  assert_near_of("sticks", gain(&w, 0, 1.599), 0.1 * 1.599 / 2, 0.01);
  assert_near_of("goes", gain(&w, 0, 2.4), (2.4 - 1.6) / 2, 1e-9);
  set_pair(&w, "dof_frictionload", 0.25, 0.25);
  assert_near_of("sticks by load", gain(&w, 0, 2.13), 0.1 * 2.13 / 2, 0.01);
  assert_near_of("goes by load", gain(&w, 0, 4), (4 - 2.6) / 2, 1e-9);

  // Stick and slip: a force that holds does not start it, but keeps it going once it moves.
  set_pair(&w, "dof_frictionload", 0, 0);
  good(ctx, pbState_Init(ctx, w.m, w.theta, -1, w.x));
  w.ctrl[0] = 1.3;
  for (int i = 0; i < 200; i++) step(&w);
  assert_true(fabs(w.x[w.v]) < 2e-3);
  w.x[w.v] = 0.5;
  for (int i = 0; i < 200; i++) step(&w);
  assert_near_of("accelerates", w.x[w.v], 0.5 + 2 * 0.15, 1e-6);
  end(&w);
}

// ---- a pendulum ---------------------------------------------------------------------------------------------------------
typedef struct Law {
  double loss, stiction, scale, power, ke, le;
} Law;

// Acceleration of the pendulum while it moves.
static double pendulum(const Law *l, double q, double v) {
  double weight = -0.5 * 9.81 * 0.4 * sin(q), sign = v > 0 ? 1 : -1;
  double share = exp(-pow(fabs(v) / l->scale, l->power));
  double level = l->loss + l->ke * fabs(weight) + share * (l->stiction + l->le * fabs(weight));
  return (weight - 0.004 * v - sign * level) / (0.5 * 0.16 + 1e-9);
}

static void test_pendulum(void **state) {
  (void)state;
  const Law l = {0.02, 0.05, 0.4, 1.3, 0.03, 0.06};
  World w;
  begin(&w, PENDULUM, "soft");
  *param(&w, "dof_stiction", 0) = l.stiction;
  *param(&w, "dof_stribeck", 0) = l.scale;
  *param(&w, "dof_stribeckpower", 0) = l.power;
  set_pair(&w, "dof_frictionload", 0.5, l.ke);
  set_pair(&w, "dof_stictionload", 0.7, l.le);
  w.x[w.q] = 1.2;
  w.x[w.v] = -0.5;

  // The same equations in 20 steps of Runge-Kutta for each, up to near the first return.
  double q = 1.2, v = -0.5, h = 0.001 / 20;
  for (int i = 0; i < 450; i++) {
    step(&w);
    for (int k = 0; k < 20; k++) {
      double v2 = v + h / 2 * pendulum(&l, q, v), a2 = pendulum(&l, q + h / 2 * v, v2);
      double v3 = v + h / 2 * a2, a3 = pendulum(&l, q + h / 2 * v2, v3), v4 = v + h * a3;
      double a1 = pendulum(&l, q, v), a4 = pendulum(&l, q + h * v3, v4);
      q += h / 6 * (v + 2 * v2 + 2 * v3 + v4);
      v += h / 6 * (a1 + 2 * a2 + 2 * a3 + a4);
    }
  }
  assert_true(v < -0.5);                       // it has not returned
  assert_near_of("angle", w.x[w.q], q, 1e-7);  // where it passes below, the load has a kink
  assert_near_of("velocity", w.x[w.v], v, 1e-6);

  // It comes to rest where its weight is below what holds: frictionloss and all that is there at rest.
  for (int i = 0; i < 20000; i++) step(&w);
  double weight = 0.5 * 9.81 * 0.4 * fabs(sin(w.x[w.q]));
  assert_true(fabs(w.x[w.v]) < 0.02 && weight < (l.loss + l.stiction) / (1 - l.ke - l.le));
  end(&w);
}

// ---- gradients ----------------------------------------------------------------------------------------------------------
static const char *const fields[] = {"dof_frictionloss", "dof_stiction",     "dof_stribeck",    "dof_stribeckpower",
                                     "dof_frictionload", "dof_stictionload", "dof_stictionquad"};

static void give_numbers(World *w) {
  static const double sizes[] = {0.02, 0.02, 0.5, 1.4, 0.1, 0.1, 0.1};
  for (int k = 0; k < 7; k++) {
    pbParam p;
    good(ctx, pbModel_Param(ctx, w->m, fields[k], &p));
    for (int i = 0; i < p.rows * p.cols; i++) w->theta[p.offset + (size_t)i] = sizes[k] * (1 + 0.1 * (i % 3));
  }
}

// Weighted sum of the next state.
static double weigh(World *w, const double *weights) {
  double next[most_x], change[most_x], sum = 0;
  memcpy(next, w->before, sizeof next);
  good(ctx, pbStep_Forward(w->m, w->theta, next, &(pbInput){.ctrl = w->ctrl}, w->s, NULL));
  pbState_Difference(w->m, w->x, next, change);
  for (int i = 0; i < pbModel_TangentSize(w->m); i++) sum += weights[i] * change[i];
  return sum;
}

static void check_gradients(const char *integrator, const char *method, double tolerance) {
  char text[4096];
  snprintf(text, sizeof text, MACHINE, integrator);
  World w;
  begin(&w, text, method);
  give_numbers(&w);
  uint64_t seed = 5;
  int n = pbModel_TangentSize(w.m), nv = pbModel_Size(w.m, "nv"), nu = pbModel_Size(w.m, "nu");
  double move[most_x], weights[most_x], x_bar[most_x] = {0}, u_bar[4] = {0};
  fill_noise(&seed, move, n, 0.6);
  pbState_Move(w.m, w.x, move, 1);
  fill_noise(&seed, w.ctrl, nu, 0.7);
  fill_noise(&seed, weights, n, 1);
  for (int i = 0; i < 3; i++) step(&w);

  double *theta_bar = zeros(pbModel_ParamSize(w.m)), kept[most_x];
  good(ctx, pbStep_Vjp(w.m, w.theta, w.record, &(pbInput){.ctrl = w.ctrl}, weights, NULL, w.s, x_bar,
                       &(pbInputBar){.ctrl = u_bar}, theta_bar));
  for (int k = 0; k < 7; k++) {
    pbParam p;
    good(ctx, pbModel_Param(ctx, w.m, fields[k], &p));
    for (int i = 0; i < p.rows * p.cols; i++) {
      double *entry = w.theta + p.offset + i, value = *entry, h = 1e-4 * value, side[2];
      for (int s = 0; s < 2; s++) {
        *entry = value + (s ? h : -h);
        side[s] = weigh(&w, weights);
      }
      *entry = value;
      assert_near_of(fields[k], theta_bar[p.offset + (size_t)i], (side[1] - side[0]) / (2 * h), tolerance);
    }
  }

  // By the state: positions load, velocities load and take stiction away.
  memcpy(kept, w.before, sizeof kept);
  for (int i = 0; i < 2 * nv; i++) {
    double unit[most_x] = {0}, side[2], h = 1e-5;
    unit[i] = 1;
    for (int s = 0; s < 2; s++) {
      memcpy(w.before, kept, sizeof kept);
      pbState_Move(w.m, w.before, unit, s ? h : -h);
      side[s] = weigh(&w, weights);
    }
    assert_near_of(i < nv ? "position" : "velocity", x_bar[i], (side[1] - side[0]) / (2 * h), tolerance * 10);
  }
  memcpy(w.before, kept, sizeof kept);
  for (int u = 0; u < nu; u++) {
    double value = w.ctrl[u], side[2], h = 1e-5;
    for (int s = 0; s < 2; s++) {
      w.ctrl[u] = value + (s ? h : -h);
      side[s] = weigh(&w, weights);
    }
    w.ctrl[u] = value;
    assert_near_of("control", u_bar[u], (side[1] - side[0]) / (2 * h), tolerance);
  }
  free(theta_bar);
  end(&w);
}

static void test_gradients(void **state) {
  (void)state;
  static const char *const integrators[] = {"Euler", "implicitfast", "RK4"};
  for (int k = 0; k < 3; k++) check_gradients(integrators[k], "soft", 1e-7);
  check_gradients("Euler", "cones", 1e-7);
}

// All at rest, with and without numbers: finite, and a law without a number is none.
static void test_at_rest(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    char text[4096];
    snprintf(text, sizeof text, MACHINE, "Euler");
    World w;
    begin(&w, text, "soft");
    if (k) give_numbers(&w);
    double weights[most_x], x_bar[most_x] = {0}, u_bar[4] = {0}, *theta_bar = zeros(pbModel_ParamSize(w.m));
    for (int i = 0; i < most_x; i++) weights[i] = 1;
    step(&w);
    good(ctx, pbStep_Vjp(w.m, w.theta, w.record, &(pbInput){.ctrl = w.ctrl}, weights, NULL, w.s, x_bar,
                         &(pbInputBar){.ctrl = u_bar}, theta_bar));
    for (size_t i = 0; i < pbModel_ParamSize(w.m); i++) assert_true(isfinite(theta_bar[i]));
    for (int i = 0; i < pbModel_TangentSize(w.m); i++) assert_true(isfinite(x_bar[i]));
    free(theta_bar);
    end(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_level_while_sliding), cmocka_unit_test(test_level_by_two_forces),
      cmocka_unit_test(test_breaks_away),         cmocka_unit_test(test_pendulum),
      cmocka_unit_test(test_gradients),           cmocka_unit_test(test_at_rest),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
