// Gradients through contacts that begin and end (pb_gradientEvent) and by smooth contacts: a drop against its closed form,
// relations that hold exactly, forward against reverse, what the certificate names.
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

static void close_to(const char *what, double got, double wanted, double tolerance) {
  if (!(fabs(got - wanted) <= tolerance)) fail_msg("%s: %.15g, not %.15g +- %g", what, got, wanted, tolerance);
}

static size_t parameter(const pbModel *m, const char *name) {
  pbParam p;
  good(ctx, pbModel_Param(ctx, m, name, &p));
  return p.offset;
}

// A rollout with room for its gradient.
typedef struct Run {
  pbModel *m;
  pbRollout *r;
  const double *theta;
  int nx, n, nv, steps;
  double *x0, *x, *g, *theta_bar, *w;
  pbCertificate c;
} Run;

static Run begin(const char *text, int steps, size_t budget) {
  Run s = {.steps = steps};
  pbRolloutPlan plan;
  s.m = model_of_text(ctx, text);
  good(ctx, pbRollout_Plan(ctx, s.m, steps, budget, &plan));
  good(ctx, pbRollout_Create(ctx, s.m, &plan, NULL, &s.r));
  s.theta = pbModel_DefaultParams(s.m);
  s.nx = pbModel_StateSize(s.m);
  s.n = pbModel_TangentSize(s.m);
  s.nv = pbModel_Size(s.m, "nv");
  s.x0 = calloc((size_t)(2 * s.nx + 2 * s.n), sizeof(double));
  s.x = s.x0 + s.nx;
  s.g = s.x + s.nx;
  s.w = s.g + s.n;
  s.theta_bar = calloc(pbModel_ParamSize(s.m), sizeof(double));
  good(ctx, pbState_Init(ctx, s.m, s.theta, -1, s.x0));
  return s;
}

static void end(Run *s) {
  pbRollout_Destroy(s->r);
  pbModel_Destroy(s->m);
  free(s->x0);
  free(s->theta_bar);
}

static void forward(Run *s, const double *theta) {
  good(ctx, pbRollout_Forward(s->r, theta, s->x0, NULL, &(pbRolloutOutput){.final_state = s->x}));
}

static void set_method(Run *s, const char *method, const char *restitution) {
  pbRolloutPlan plan;
  pbRollout_Destroy(s->r);
  s->r = NULL;
  good(ctx, pbModel_SetContact(s->m, "method", method));
  if (restitution) good(ctx, pbModel_SetContact(s->m, "restitution", restitution));
  good(ctx, pbRollout_Plan(ctx, s->m, s->steps, 0, &plan));
  good(ctx, pbRollout_Create(ctx, s->m, &plan, NULL, &s->r));
}

// Pullback of w at the last state.
static void reverse(Run *s, pbGradientKind kind) {
  pbRolloutBar bar = {.qpos = {.data = s->w, .count = 1}, .qvel = {.data = s->w + s->nv, .count = 1}};
  memset(s->g, 0, (size_t)s->n * sizeof(double));
  memset(s->theta_bar, 0, pbModel_ParamSize(s->m) * sizeof(double));
  good(ctx, pbRollout_SetGradient(s->r, kind));
  good(ctx, pbRollout_Vjp(s->r, &bar, NULL, &(pbRolloutGradient){.x0 = s->g, .theta = s->theta_bar}, &s->c));
}

// ---- a ball on a rail falls on a plane ------------------------------------------------------------------------------
// In contact x'' = -(1 - d) g - B v - K x, with d constant: the closed form has the tangent of the fall, the saltation at touch and
// the tangent in contact. T ends within the contact.
enum { phases = 40 };
static const double K = 4e4, d = 0.95, gravity = 9.81, height = 0.2;
#define RAIL(h, B, solimp)                                                             \
  "<mujoco><option timestep='" h                                                       \
  "' gravity='0 0 -9.81'><flag refsafe='disable'/></option><default><geom condim='1' " \
  "solref='-40000 -" B "' solimp='" solimp                                             \
  "'/></default><worldbody><geom type='plane' size='1 1 .1'/>"                         \
  "<body pos='0 0 .1'><joint type='slide' axis='0 0 1'/><geom size='.1' mass='1'/></body></worldbody></mujoco>"

static double drop_closed(double B, double in_contact) {
  double v = -sqrt(2 * gravity * height), a = -0.5 * B, omega = sqrt(K - a * a), t = in_contact;
  double c = exp(a * t) * cos(omega * t), s = exp(a * t) * sin(omega * t) / omega;
  double x_by_x = c - a * s, x_by_v = s;             // tangent flow of x'' + B x' + K x = 0
  double Da = -(1 - d) * gravity - B * v + gravity;  // after minus before, at x = 0
  return x_by_x + x_by_v * Da / v;
}

// Mean over the phases of touch within a step.
static double drop(const char *text, double h, double in_contact, pbGradientKind kind) {
  double fall = sqrt(2 * height / gravity), sum = 0;
  int steps = (int)lround((fall + in_contact) / h);
  Run s = begin(text, steps, 0);
  s.w[0] = 1;
  for (int i = 0; i < phases; i++) {
    double touch = steps * h - in_contact + ((i + 0.5) / phases - 0.5) * h;
    s.x0[1] = 0.5 * gravity * touch * touch;
    s.x0[2] = 0;
    s.x0[2] = 0.5 * gravity * h;  // semi-implicit Euler falls by the parabola with this start
    forward(&s, s.theta);
    reverse(&s, kind);
    assert_int_equal(s.c.events, kind == pb_gradientEvent ? 1 : 0);
    sum += s.g[0] / phases;
  }
  end(&s);
  return sum;
}

static void test_drop(void **state) {
  (void)state;
  const double t = 6e-3;
  const struct {
    const char *text[2];
    double B;
  } all[] = {{{RAIL("2e-4", "0", ".95 .95 .001"), RAIL("5e-5", "0", ".95 .95 .001")}, 0},
             {{RAIL("2e-4", "60", ".95 .95 .001"), RAIL("5e-5", "60", ".95 .95 .001")}, 60}};
  for (int i = 0; i < 2; i++) {
    double closed = drop_closed(all[i].B, t), error[2], wrong;
    for (int k = 0; k < 2; k++) error[k] = fabs(drop(all[i].text[k], k ? 5e-5 : 2e-4, t, pb_gradientEvent) - closed);
    wrong = fabs(drop(all[i].text[1], 5e-5, t, pb_gradientExact) - closed);
    print_message("drop, B %g: closed %.6f, event wrong by %.1e %.1e, exact by %.1e\n", all[i].B, closed, error[0], error[1],
                  wrong);
    close_to("event", error[1], 0, 4e-3 * (1 + all[i].B));
    assert_true(error[1] < 0.5 * error[0] && wrong > 10 * error[1]);
  }
}

// ---- relations: distance = height - plane - radius, and the margin shifts it like the radius -----------------------------
static void test_parameters(void **state) {
  (void)state;
  static const char text[] = RAIL("1e-3", "40", ".9 .95 .001");
  Run s = begin(text, 400, 0);
  s.x0[1] = 0.3;
  s.w[0] = 1;
  s.w[1] = 0.1;
  size_t plane = parameter(s.m, "geom_pos"), size = parameter(s.m, "geom_size"), margin = parameter(s.m, "geom_margin");
  forward(&s, s.theta);
  reverse(&s, pb_gradientEvent);
  assert_true(s.c.events >= 1);
  const double *g = s.theta_bar;
  double start = s.g[0], scale = 1e-12 * (1 + fabs(start));
  close_to("height and plane together", start + g[plane + 2] - 1, 0, scale);
  close_to("radius", g[size + 3], g[plane + 2], scale);
  close_to("geom in its body", g[plane + 5], -g[plane + 2], scale);
  close_to("margin of the plane", g[margin], g[plane + 2], scale);
  close_to("margin of the ball", g[margin + 1], g[plane + 2], scale);
  end(&s);
}

// The same ball on a limit of its joint instead of a plane: the same motion, the same gradient.
static void test_limit(void **state) {
  (void)state;
  static const char on_plane[] = RAIL("1e-3", "40", ".9 .95 .001");
  static const char on_limit[] =
      "<mujoco><option timestep='1e-3' gravity='0 0 -9.81'><flag refsafe='disable'/></option><worldbody><body>"
      "<joint type='slide' axis='0 0 1' limited='true' range='0 9' solreflimit='-40000 -40' solimplimit='.9 .95 .001'/>"
      "<geom size='.1' mass='1'/></body></worldbody></mujoco>";
  double g[2][3];
  for (int i = 0; i < 2; i++) {
    Run s = begin(i ? on_limit : on_plane, 400, 0);
    s.x0[1] = 0.3;
    s.w[0] = 1;
    s.w[1] = 0.1;
    forward(&s, s.theta);
    reverse(&s, pb_gradientEvent);
    assert_true(s.c.events >= 1);
    g[i][0] = s.g[0];
    g[i][1] = s.g[1];
    g[i][2] = s.theta_bar[i ? parameter(s.m, "jnt_range") : parameter(s.m, "geom_pos") + 2];
    end(&s);
  }
  for (int k = 0; k < 3; k++) close_to("limit as plane", g[1][k], g[0][k], 1e-9 * (1 + fabs(g[0][k])));
}

// ---- forward against reverse, with everything that has rows -------------------------------------------------------------
#define SCENE(integrator, cone)                                                                                              \
  "<mujoco><option timestep='0.004' integrator='" integrator "' cone='" cone                                                 \
  "'/><default><geom solref='.02 .3'/>"                                                                                      \
  "<joint limited='false'/></default><worldbody><geom type='plane' size='5 5 .1' euler='4 3 0'/>"                            \
  "<body pos='0 0 .3' euler='10 20 30'><freejoint/><geom type='box' size='.1 .07 .05' mass='1' margin='.002'/></body>"       \
  "<body pos='.05 .02 .6'><freejoint/><geom type='capsule' size='.05 .1' mass='.5'/></body>"                                 \
  "<body pos='1 0 1'><joint type='ball' damping='.1' limited='true' range='0 60' solreflimit='.02 .4'/>"                     \
  "<geom type='capsule' size='.03' fromto='0 0 0 .4 0 .1'/><body pos='.4 0 .1'><joint name='a' axis='0 1 0' damping='.05' "  \
  "limited='true' range='-20 30'/><geom type='capsule' size='.02' fromto='0 0 0 .3 0 0'/><body pos='.3 0 0'>"                \
  "<joint name='b' type='slide' axis='1 0 0' limited='true' range='-.02 .05' margin='.01'/><geom size='.03'/></body></body>" \
  "</body></worldbody><tendon><fixed limited='true' range='-.2 .3'><joint joint='a' coef='.7'/><joint joint='b' coef='.5'/>" \
  "</fixed></tendon></mujoco>"

static void dot_product(const char *text, pbGradientKind kind, const char *method) {
  Run s = begin(text, 150, 0);
  set_method(&s, method, strcmp(method, "soft") ? "0.4" : NULL);
  size_t ntheta = pbModel_ParamSize(s.m);
  double *direction = calloc((size_t)s.n + ntheta, sizeof(double)), *theta = direction + s.n, sum = 0, terms = 0, other = 0;
  double *tangents = calloc((size_t)((s.steps + 1) * s.n), sizeof(double)), *tangent = tangents + s.steps * s.n;
  unsigned seed = 5;
  for (int i = 0; i < s.n; i++) {
    direction[i] = noise(&seed);
    s.w[i] = noise(&seed);
  }
  const char *const names[] = {"geom_pos",   "geom_size",   "geom_margin",   "body_pos", "body_mass", "jnt_range",   "jnt_pos",
                               "jnt_margin", "geom_solref", "geom_friction", "timestep", "gravity",   "tendon_range"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    pbParam p;
    good(ctx, pbModel_Param(ctx, s.m, names[k], &p));
    for (int i = 0; i < p.rows * p.cols; i++) theta[p.offset + (size_t)i] = 1e-2 * noise(&seed);
  }
  forward(&s, s.theta);
  reverse(&s, kind);
  good(ctx, pbRollout_Jvp(s.r, 1, &(pbRolloutDirection){.x0 = direction, .theta = theta}, &(pbRolloutTangent){.x = tangents}));
  for (int i = 0; i < s.n; i++) {
    sum += s.g[i] * direction[i];
    other += s.w[i] * tangent[i];
    terms += fabs(s.g[i] * direction[i]) + fabs(s.w[i] * tangent[i]);
  }
  for (size_t i = 0; i < ntheta; i++) {
    sum += s.theta_bar[i] * theta[i];
    terms += fabs(s.theta_bar[i] * theta[i]);
  }
  if (kind == pb_gradientEvent) assert_true(s.c.events > 10);
  if (!(fabs(sum - other) <= 1e-10 * terms)) fail_msg("forward %.15g, reverse %.15g", other, sum);
  end(&s);
  free(direction);
  free(tangents);
}

static void test_forward_and_reverse(void **state) {
  (void)state;
  const char *const scenes[] = {SCENE("Euler", "pyramidal"), SCENE("implicitfast", "elliptic"), SCENE("RK4", "pyramidal")};
  for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
    dot_product(scenes[i], pb_gradientEvent, "soft");
    dot_product(scenes[i], pb_gradientSmooth, "soft");
  }
  for (size_t i = 0; i < 2; i++) {
    dot_product(scenes[i], pb_gradientEvent, "cones");
    dot_product(scenes[i], pb_gradientEvent, "lcp");
  }
}

static void test_budget(void **state) {
  (void)state;
  double g[2][64];
  for (int kind = 0; kind < pb_gradientKindCount; kind++) {
    for (int i = 0; i < 2; i++) {
      Run s = begin(SCENE("Euler", "elliptic"), 150, i ? 40000 : 0);
      for (int k = 0; k < s.n; k++) s.w[k] = 1 - 0.05 * k;
      forward(&s, s.theta);
      reverse(&s, (pbGradientKind)kind);
      memcpy(g[i], s.g, (size_t)s.n * sizeof(double));
      reverse(&s, (pbGradientKind)kind);  // again from what the first one left
      assert_memory_equal(g[i], s.g, (size_t)s.n * sizeof(double));
      if (i) assert_memory_equal(g[0], g[1], (size_t)s.n * sizeof(double));
      end(&s);
    }
  }
}

// ---- what is named ------------------------------------------------------------------------------------------------------
#define CRATE(euler)                                                                                      \
  "<mujoco><option timestep='.002'/><default><geom condim='1' solref='-20000 -40'/></default><worldbody>" \
  "<geom type='plane' size='1 1 .1'/><body pos='0 0 .3' euler='" euler                                    \
  "'><freejoint/>"                                                                                        \
  "<geom type='box' size='.1 .1 .1' mass='1'/></body></worldbody></mujoco>"

// All four corners at once: their sum along the fall is that of one event; the order does not matter there.
static void test_simultaneous(void **state) {
  (void)state;
  double g[2];
  for (int i = 0; i < 2; i++) {
    Run s = begin(i ? CRATE("1e-3 2e-3 0") : CRATE("0 0 0"), 105, 0);
    s.w[2] = 1;
    forward(&s, s.theta);
    reverse(&s, pb_gradientEvent);
    assert_int_equal(s.c.events, 4);
    assert_int_equal(s.c.simultaneous, i ? 0 : 4);
    assert_int_equal(s.c.simultaneous_step, i ? -1 : s.c.event_step);
    if (i) assert_string_equal(s.c.simultaneous_contact, "");
    else assert_non_null(strstr(s.c.simultaneous_contact, "contact of"));
    g[i] = s.g[2];
    end(&s);
  }
  close_to("together or not", g[0], g[1], 1e-3 * fabs(g[1]));
}

static void test_grazing(void **state) {
  (void)state;
  Run s = begin(RAIL("2e-3", "0", ".95 .95 .001"), 40, 0);
  s.x0[1] = 1e-5;  // falls by about this in a step
  s.w[0] = 1;
  forward(&s, s.theta);
  reverse(&s, pb_gradientEvent);
  assert_true(s.c.grazing >= 1 && s.c.grazing_step == 1);
  assert_non_null(strstr(s.c.grazing_contact, "contact of"));
  assert_true(isfinite(s.g[0]));
  end(&s);
}

// A difference quotient of the program is no truth where an event was corrected. What is there at the start is no event.
static void test_spot_check(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    Run s = begin(RAIL("2e-3", "0", ".95 .95 .001"), i ? 40 : 3, 0);
    s.x0[1] = i ? 0.01 : -1e-3;
    double w = 1;
    pbRolloutBar bar = {.qpos = {.data = &w, .count = 1}};
    forward(&s, s.theta);
    good(ctx, pbRollout_SetGradient(s.r, pb_gradientEvent));
    assert_int_equal(pbRollout_SetGradient(s.r, pb_gradientKindCount), pb_bad_argument);
    good(ctx, pbRollout_Vjp(s.r, &bar, &(pbVjpOptions){.spot_check = pb_checkFull}, NULL, &s.c));
    if (i) assert_true(s.c.events > 0 && !s.c.spot_checked);
    else assert_true(s.c.events == 0 && s.c.spot_checked && s.c.spot_error < 1e-6);
    assert_string_equal(pbCertificate_Checked(&s.c), i ? "nothing" : "rollout");
    // single steps are checked all the same, those with events forward against reverse
    good(ctx, pbRollout_Vjp(s.r, &bar, &(pbVjpOptions){.spot_check = pb_checkSteps}, NULL, &s.c));
    assert_true(s.c.spot_checked && !s.c.spot_off && s.c.spot_error <= s.c.spot_limit);
    assert_string_equal(pbCertificate_Checked(&s.c), i ? "steps and impacts" : "steps");
    end(&s);
  }
}

// ---- hard contact: velocities jump at once ------------------------------------------------------------------------------
#define BOUNCE(h)                                                                                           \
  "<mujoco><option timestep='" h                                                                            \
  "' gravity='0 0 0'/><default><geom condim='1'/></default><worldbody>"                                     \
  "<geom type='plane' size='1 1 .1'/><body pos='0 0 .1'><joint type='slide' axis='0 0 1'/><geom size='.1' " \
  "mass='1'/></body></worldbody></mujoco>"
#define BALLS(h)                                                                                           \
  "<mujoco><option timestep='" h                                                                           \
  "' gravity='0 0 0'/><default><geom condim='1' size='.1' mass='1'/></default><worldbody>"                 \
  "<body><joint type='slide' axis='1 0 0'/><geom/></body><body pos='1 0 0'><joint type='slide' axis='1 0 " \
  "0'/><geom/></body></worldbody></mujoco>"

static void set_hard(Run *s, const char *method) {
  good(ctx, pbModel_SetContact(s->m, "erp", "0.2"));
  good(ctx, pbModel_SetContact(s->m, "cfm", "0"));
  set_method(s, method, "1");
}

// Elastic bounces at any time step: the height at the end by that at the start is -1, two equal balls change places and speeds.
static void test_hard(void **state) {
  (void)state;
  static const char *const methods[] = {"lcp", "cones"}, *const bounce[] = {BOUNCE("0.002"), BOUNCE("0.0137"), BOUNCE("0.1")};
  static const int steps[] = {203, 30, 4};
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < 3; i++) {
      Run s = begin(bounce[i], steps[i], 0);
      set_hard(&s, methods[k]);
      s.x0[1] = 0.5137;
      s.x0[2] = -2;
      s.w[0] = 1;
      forward(&s, s.theta);
      reverse(&s, pb_gradientEvent);
      close_to("bounce", s.g[0], -1, 1e-9);
      end(&s);
    }
    Run s = begin(BALLS("0.01"), 123, 0);
    set_hard(&s, methods[k]);
    s.x0[3] = 1;
    for (int i = 0; i < 4; i++) {
      for (int c = 0; c < 4; c++) s.w[c] = i == c;
      forward(&s, s.theta);
      reverse(&s, pb_gradientEvent);
      for (int c = 0; c < 2; c++) close_to("place or speed by place", s.g[c], i < 2 && c != i, 1e-9);
      if (i >= 2) {
        close_to("speed by speed", s.g[i], 0, 1e-9);
        close_to("speed by the other's", s.g[5 - i], 1, 1e-9);
      }
    }
    end(&s);
  }
}

static const char *const hard[] = {"cones", "lcp", "sweeps"};

// A bead with damping b hits a wall: v(t) = v0 exp(-b t) before and -e times that after, so nothing of the speed at the end depends
// on where it started. With touch at t1 and the speed v1 there, x(T) = wall - e v1 (1 - exp(-b (T - t1))) / b.
static void test_velocity_forces(void **state) {
  (void)state;
  static const char text[] =
      "<mujoco><option timestep='1e-3' gravity='0 0 0'/><worldbody><geom type='plane' size='9 9 .1' euler='0 -90 0' pos='1 0 0'/>"
      "<body><joint type='slide' axis='1 0 0' damping='1'/><geom size='.1' mass='1'/></body></worldbody></mujoco>";
  const double b = 1, e = 0.7, wall = 0.9, v0 = 3, T = 0.8, v1 = v0 - b * wall, rest = T - log(v0 / v1) / b;
  const double x_by_v1 = -e * (1 - exp(-b * rest)) / b, x_by_rest = -e * v1 * exp(-b * rest);
  // t1 = ln(v0 / v1) / b, v1 = v0 - b (wall - x0)
  const double closed[4] = {x_by_v1 * b + x_by_rest / v1, x_by_v1 + x_by_rest * (1 / v1 - 1 / v0) / b, 0, -e * exp(-b * T)};
  for (int k = 0; k < 3; k++) {
    Run s = begin(text, 800, 0);
    set_method(&s, hard[k], "0.7");
    s.x0[2] = v0;
    forward(&s, s.theta);
    for (int i = 0; i < 2; i++) {
      s.w[0] = !i;
      s.w[1] = i;
      reverse(&s, pb_gradientEvent);
      assert_int_equal(s.c.events, 1);
      for (int c = 0; c < 2; c++) close_to(hard[k], s.g[c], closed[2 * i + c], 2e-3);
      double before = s.theta_bar[parameter(s.m, "geom_pos")];
      close_to("wall", s.g[0] + before, i ? 0 : 1, 2e-3);  // wall and start together: the end goes with them
    }
    end(&s);
  }
}

// A ball between walls that leave each other alone meets all of them within a step: each mirrors its own direction.
static void test_walls(void **state) {
  (void)state;
  static const char text[] =
      "<mujoco><option timestep='1e-3' gravity='0 0 0'/><default><geom friction='0'/></default><worldbody>"
      "<geom type='plane' size='9 9 .1' euler='0 90 0'/><geom type='plane' size='9 9 .1' euler='-90 0 0'/>"
      "<geom type='plane' size='9 9 .1'/><body><freejoint/><geom size='.1' mass='1'/></body></worldbody></mujoco>";
  static const double v[3] = {-3, -2, -1}, offset[3] = {0.3, 0.5, 0.8};
  for (int k = 0; k < 3; k++) {
    Run s = begin(text, 60, 0);
    set_method(&s, hard[k], "0.8");
    for (int i = 0; i < 3; i++) {
      s.x0[1 + i] = 0.1 - v[i] * 1e-3 * (20 + offset[i]);
      s.x0[8 + i] = v[i];
    }
    forward(&s, s.theta);
    for (int i = 0; i < 3; i++) {
      for (int c = 0; c < s.n; c++) s.w[c] = c == i;
      reverse(&s, pb_gradientEvent);
      assert_int_equal(s.c.events, 3);
      assert_int_equal(s.c.simultaneous, 0);
      for (int c = 0; c < 3; c++) close_to(hard[k], s.g[c], c == i ? -0.8 : 0, 2e-3);
    }
    end(&s);
  }
}

// A box that slides falls flat on a floor with friction mu and stays: x(T) = vx t + (vx - mu g t)^2 / (2 mu g), z = g t^2 / 2.
static void test_flat(void **state) {
  (void)state;
  static const char text[] =
      "<mujoco><option timestep='1e-3'/><default><geom friction='.3'/></default><worldbody><geom type='plane' size='99 99 .1'/>"
      "<body pos='0 0 .1'><freejoint/><geom type='box' size='.5 .5 .1' mass='1'/></body></worldbody></mujoco>";
  const double mu = 0.3, fall = 0.2, vx = 3, touch = sqrt(2 * fall / gravity), x_by_touch = vx - (vx - mu * gravity * touch);
  for (int k = 0; k < 2; k++) {
    Run s = begin(text, 1600, 0);
    set_method(&s, hard[k], "0");
    s.x0[3] += fall;
    s.x0[8] = vx;
    s.w[0] = 1;
    forward(&s, s.theta);
    reverse(&s, pb_gradientEvent);
    close_to("place by height", s.g[2], x_by_touch / (gravity * touch), 1e-3);
    assert_true(s.c.events >= 4 && s.c.simultaneous == s.c.events);
    end(&s);
  }
}

// A fast arm strikes a floor at any moment of a step: the impact is seen though its path is bent.
static void test_bent_path(void **state) {
  (void)state;
  static const char text[] =
      "<mujoco><option timestep='1e-3' gravity='0 0 0'/><default><geom friction='0'/></default><worldbody>"
      "<geom type='plane' size='9 9 .1'/><body pos='0 0 .1'><joint axis='0 1 0'/><geom size='.05' pos='.3 0 0' mass='1'/>"
      "</body></worldbody></mujoco>";
  for (int i = 0; i < 400; i++) {
    Run s = begin(text, 20, 0);
    set_method(&s, "cones", "0.5");
    s.x0[1] = -6.25e-6 * 5 * i;
    s.x0[2] = 12;
    s.w[0] = 1;
    forward(&s, s.theta);
    reverse(&s, pb_gradientEvent);
    assert_int_equal(s.c.events, 1);
    end(&s);
  }
}

// Soft contact at rest, by way of many small bounces: touches without a speed to speak of are left as in exact, and counted.
static void test_rest(void **state) {
  (void)state;
  static const char text[] =
      "<mujoco><option timestep='1e-3'/><default><geom friction='.3'/></default><worldbody><geom type='plane' size='99 99 .1'/>"
      "<body pos='0 0 .3'><freejoint/><geom type='box' size='.1 .1 .1'/></body></worldbody></mujoco>";
  for (int i = 0; i < 4; i++) {
    Run s = begin(text, 800, 0);
    s.x0[3] += 5e-4 * i;
    s.x0[8] = 2;
    s.w[0] = 1;
    forward(&s, s.theta);
    reverse(&s, pb_gradientEvent);
    assert_true(s.c.events >= 4 && s.c.grazing > 20);
    close_to("place by height", s.g[2], 0.3, 0.02);  // as of the box that stays where it lands
    for (int k = 0; k < s.n; k++) assert_true(fabs(s.g[k]) < 20);
    end(&s);
  }
}

// Penalty contacts come and go without a jump: no events, the gradient stays the exact one.
static void test_penalty(void **state) {
  (void)state;
  Run s = begin(RAIL("2e-3", "0", ".95 .95 .001"), 130, 0);
  good(ctx, pbModel_SetContact(s.m, "method", "penalty"));
  pbRollout_Destroy(s.r);
  pbRolloutPlan plan;
  good(ctx, pbRollout_Plan(ctx, s.m, s.steps, 0, &plan));
  good(ctx, pbRollout_Create(ctx, s.m, &plan, NULL, &s.r));
  s.x0[1] = height;
  s.w[0] = 1;
  forward(&s, s.theta);
  reverse(&s, pb_gradientExact);
  double exact[2] = {s.g[0], s.g[1]};
  assert_true(s.c.onsets > 0 && s.c.releases > 0);
  reverse(&s, pb_gradientEvent);
  assert_int_equal(s.c.events + s.c.grazing, 0);
  assert_memory_equal(s.g, exact, sizeof exact);
  end(&s);
}

// Boxes with sides in line: which side a contact is of is decided by rounding, and forward and reverse must decide alike.
static void test_boxes_in_line(void **state) {
  (void)state;
  enum { count = 20, size = 24 };
  static const char text[] =
      "<mujoco><worldbody><geom type='plane' size='0 0 1'/>"
      "<body pos='0 0 .1'><freejoint/><geom type='box' size='.1 .1 .1'/></body>"
      "<body pos='0 .001 .3'><freejoint/><geom type='box' size='.1 .1 .1'/></body></worldbody></mujoco>";
  double direction[size], tangents[(count + 1) * size];
  unsigned seed = 3;
  for (int steps = 1; steps <= count; steps++) {
    Run s = begin(text, steps, 0);
    assert_int_equal(s.n, size);
    double sum = 0, most = 0;
    for (int i = 0; i < size; i++) {
      direction[i] = noise(&seed);
      s.w[i] = noise(&seed);
    }
    forward(&s, s.theta);
    reverse(&s, pb_gradientExact);
    good(ctx, pbRollout_Jvp(s.r, 1, &(pbRolloutDirection){.x0 = direction}, &(pbRolloutTangent){.x = tangents}));
    for (int i = 0; i < size; i++) {
      double part = s.w[i] * tangents[steps * size + i];
      sum += part - s.g[i] * direction[i];
      most += fabs(part);
    }
    close_to("dot product", sum / most, 0, 1e-11);
    end(&s);
  }
}

// Impacts have their moment in the exact gradient.
static void test_refused(void **state) {
  (void)state;
  Run s = begin(RAIL("2e-3", "0", ".95 .95 .001"), 3, 0);
  good(ctx, pbModel_SetContact(s.m, "method", "impact"));
  pbRollout *r = NULL;
  pbRolloutPlan plan;
  good(ctx, pbRollout_Plan(ctx, s.m, 3, 0, &plan));
  good(ctx, pbRollout_Create(ctx, s.m, &plan, NULL, &r));
  good(ctx, pbRollout_SetGradient(r, pb_gradientExact));
  for (int k = pb_gradientEvent; k < pb_gradientKindCount; k++) {
    assert_int_equal(pbRollout_SetGradient(r, (pbGradientKind)k), pb_bad_argument);
    assert_non_null(strstr(pbContext_Error(ctx), "impact"));
  }
  pbRollout_Destroy(r);
  end(&s);
}

// With the rows resolved the smooth gradient is near the event's, and the sharp states stay what they are.
static void test_smooth(void **state) {
  (void)state;
  double g[pb_gradientKindCount] = {0};
  Run s = begin(RAIL("1e-4", "0", ".95 .95 .001"), 3000, 0);
  good(ctx, pbModel_SetContact(s.m, "smooth_kappa", "0"));
  good(ctx, pbModel_SetContact(s.m, "smooth_onset", "0.005"));
  s.w[0] = 1;
  for (int i = 0; i < phases; i++) {
    s.x0[1] = 0.2 + 2e-4 * i / phases;
    forward(&s, s.theta);
    for (int k = 0; k < pb_gradientKindCount; k++) {
      reverse(&s, (pbGradientKind)k);
      g[k] += s.g[0] / phases;
    }
  }
  print_message("exact %g, event %g, smooth %g\n", g[0], g[1], g[2]);
  close_to("smooth", g[pb_gradientSmooth], g[pb_gradientEvent], 0.05);
  assert_true(fabs(g[pb_gradientExact] - g[pb_gradientEvent]) > 0.5);
  end(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_drop),    cmocka_unit_test(test_parameters),
      cmocka_unit_test(test_limit),   cmocka_unit_test(test_forward_and_reverse),
      cmocka_unit_test(test_budget),  cmocka_unit_test(test_simultaneous),
      cmocka_unit_test(test_grazing), cmocka_unit_test(test_spot_check),
      cmocka_unit_test(test_hard),    cmocka_unit_test(test_refused),
      cmocka_unit_test(test_penalty), cmocka_unit_test(test_boxes_in_line),
      cmocka_unit_test(test_smooth),  cmocka_unit_test(test_velocity_forces),
      cmocka_unit_test(test_walls),   cmocka_unit_test(test_flat),
      cmocka_unit_test(test_rest),    cmocka_unit_test(test_bent_path),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
