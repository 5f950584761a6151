// Contact method impact (contact.h): closed forms of impacts, of trajectories and of their derivatives; derivatives against each
// other and against difference quotients; what is conserved; what is refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "step/scratch.h"
#include "support/one_context.h"
#include "support/support.h"

#include <pullback/pullback.h>

enum { most = 64, most_theta = 4096 };

typedef struct World {
  pbModel *m;
  pbScratch *s;
  int n, nv, nq, nu;
  double x[most], before[most], *q, *v, theta[most_theta], record[4 * most], ctrl[8], xfrc[8 * 6];
} World;

static pbInput input_of(const World *w) { return (pbInput){.ctrl = w->ctrl, .xfrc = w->xfrc}; }

static const char *law = "newton";  // of the worlds that begin

static void begin(World *w, const char *text, const char *integrator, double h, double restitution) {
  char value[40];
  memset(w, 0, sizeof *w);
  w->m = model_of_text(ctx, text);
  good(ctx, pbModel_SetOption(w->m, "integrator", integrator));
  good(ctx, pbModel_SetContact(w->m, "method", "impact"));
  snprintf(value, sizeof value, "%.17g", restitution);
  good(ctx, pbModel_SetContact(w->m, "restitution", value));
  good(ctx, pbModel_SetContact(w->m, "restitution_law", law));
  good(ctx, pbScratch_Create(ctx, w->m, NULL, &w->s));
  w->n = pbModel_TangentSize(w->m);
  w->nv = w->m->nv;
  w->nq = w->m->nq;
  w->nu = w->m->nu;
  assert_true(pbModel_StateSize(w->m) <= most && w->m->nbody <= 8 && pbModel_ParamSize(w->m) <= most_theta);
  assert_true(pbTape_Size(w->m) <= 4 * most);
  memcpy(w->theta, pbModel_DefaultParams(w->m), pbModel_ParamSize(w->m) * sizeof(double));
  w->theta[w->m->timestep - w->m->theta0] = h;
  good(ctx, pbState_Init(ctx, w->m, w->theta, -1, w->x));
  w->q = w->x + 1;
  w->v = w->q + w->nq;
}

static void end(World *w) {
  pbScratch_Destroy(w->s);
  pbModel_Destroy(w->m);
}

static int step(World *w) {
  pbInput input = input_of(w);
  memcpy(w->before, w->x, sizeof w->x);
  if (pbStep_Forward(w->m, w->theta, w->x, &input, w->s, NULL) != pb_ok) fail_msg("%s", pbScratch_Error(w->s));
  pbTape_Record(w->m, w->before, w->s, w->record);
  return pbScratch_Report(w->s).contacts;
}

// J := A J for the step just taken.
static void chain(World *w, double *J) {
  double A[most * most], product[most * most] = {0};
  int n = w->n;
  pbInput input = input_of(w);
  if (pbStep_Jacobian(w->m, w->theta, w->record, &input, w->s, A, NULL, NULL, NULL) != pb_ok)
    fail_msg("%s", pbScratch_Error(w->s));
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < n; k++) {
      for (int j = 0; j < n; j++) product[i * n + j] += A[i * n + k] * J[k * n + j];
    }
  }
  memcpy(J, product, (size_t)(n * n) * sizeof(double));
}

// Impacts in `steps` steps, and the derivative of the end by the start.
static int travel(World *w, int steps, double *J) {
  int impacts = 0;
  for (int i = 0; i < w->n * w->n; i++) J[i] = i % (w->n + 1) == 0;
  for (int k = 0; k < steps; k++) {
    impacts += step(w);
    chain(w, J);
  }
  return impacts;
}

// ---- closed forms -----------------------------------------------------------------------------------------------------
#define FLOOR      "<geom name='floor' type='plane' size='5 5 .1' friction='.3'/>"
#define WEIGHTLESS "<mujoco><option gravity='0 0 0'/><worldbody>"
static const char ball_on_rail[] = "<mujoco><worldbody>" FLOOR
                                   "<body pos='0 0 1.1'><joint type='slide' axis='0 0 1'/><geom size='.1' mass='1'/></body>"
                                   "</worldbody></mujoco>";

// A ball dropped from z0 = 1, in flights and jumps of its own derivative.
static void falling(double e, double T, double J[4]) {
  double g = 9.81, t = 0, z = 1, v = 0, A[4] = {1, 0, 0, 1};
  for (;;) {
    double fall = (v + sqrt(v * v + 2 * g * z)) / g, d = fall > T - t ? T - t : fall;
    for (int c = 0; c < 2; c++) A[c] += d * A[2 + c];
    z += v * d - 0.5 * g * d * d;
    v -= g * d;
    t += d;
    if (d < fall) break;
    for (int c = 0; c < 2; c++) {  // dt = -dz / v: dz+ = -e dz, dv+ = -e dv - (1 + e) (-g) dt
      double dz = A[c];
      A[c] = -e * dz;
      A[2 + c] = -e * A[2 + c] - (1 + e) * g * dz / v;
    }
    z = 0;
    v = -e * v;
  }
  memcpy(J, A, sizeof A);
}

static void test_bouncing_ball(void **state) {
  (void)state;
  const double cases[][2] = {{0.8, 2.75}, {1, 4.2}};
  for (int k = 0; k < 2; k++) {
    double e = cases[k][0], T = cases[k][1], J[4], exact[4], gap[3];
    falling(e, T, exact);
    World w;
    begin(&w, ball_on_rail, "RK4", 0.01, e);
    assert_int_equal(travel(&w, (int)lround(T / 0.01), J), 5);
    for (int i = 0; i < 4; i++) assert_near(J[i], exact[i], 1e-10);
    end(&w);
    for (int r = 0; r < 3; r++) {  // semi-implicit flight: first order
      double h = 2.5e-4 / (1 << r);
      begin(&w, ball_on_rail, "Euler", h, e);
      assert_int_equal(travel(&w, (int)lround(T / h), J), 5);
      gap[r] = fabs(J[0] - exact[0]);
      end(&w);
    }
    assert_near(log2(gap[0] / gap[2]) / 2, 1, 0.1);
  }
}

static void test_straight_bounce(void **state) {
  (void)state;
  const double steps[][2] = {{0.002, 203}, {0.0137, 30}, {0.4, 1}};
  for (int k = 0; k < 3; k++) {
    World w;
    double J[16];
    begin(&w,
          WEIGHTLESS
          "<geom type='plane' size='1 1 .1' pos='0 0 .1' condim='1'/><body><joint type='slide' axis='1 0 0'/>"
          "<joint type='slide' axis='0 0 1'/><geom size='.01' mass='1' condim='1'/></body></worldbody></mujoco>",
          "Euler", steps[k][0], 1);
    w.q[1] = 0.5237;
    w.v[0] = -1;
    w.v[1] = -2;
    assert_int_equal(travel(&w, (int)steps[k][1], J), 1);
    assert_near(J[4 * 1 + 1], -1, 1e-12);
    end(&w);
  }
}

// Equal balls swap their parts: where one would have been without the other is where the other is, but for the radii.
static void test_two_balls(void **state) {
  (void)state;
  World w;
  double J[16];
  begin(&w,
        WEIGHTLESS
        "<body><joint type='slide' axis='1 0 0'/><geom size='.1' mass='1' condim='1'/></body>"
        "<body pos='1 0 0'><joint type='slide' axis='1 0 0'/><geom size='.1' mass='1' condim='1'/></body>"
        "</worldbody></mujoco>",
        "Euler", 0.125, 1);
  w.v[0] = 2;
  assert_int_equal(travel(&w, 8, J), 1);
  const double exact[16] = {0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0};
  for (int i = 0; i < 16; i++) assert_near(J[i], exact[i], 1e-13);
  end(&w);
}

// A spinning ball against the floor, sticking and sliding; one step from touch.
static void test_spinning_ball(void **state) {
  (void)state;
  const double friction[] = {2, 0.3}, r = 0.1, m = 1.5, e = 0.6;
  for (int k = 0; k < 2; k++) {
    World w;
    char text[512];
    snprintf(text, sizeof text,
             WEIGHTLESS FLOOR
             "<body pos='0 0 .1'><freejoint/><geom size='%g' mass='%g' friction='%g'/></body></worldbody></mujoco>",
             r, m, friction[k]);
    begin(&w, text, "RK4", 1e-3, e);
    const double v[3] = {1, .4, -2}, spin[3] = {5, k ? 60 : 20, -4};
    memcpy(w.v, v, sizeof v);
    memcpy(w.v + 3, spin, sizeof spin);
    assert_int_equal(step(&w), 1);
    double slip[2] = {v[0] - r * spin[1], v[1] + r * spin[0]}, size = hypot(slip[0], slip[1]);
    double p = k ? friction[k] * (1 + e) * m * -v[2] : 2. / 7 * m * size;
    assert_near(w.v[2], -e * v[2], 1e-14);
    double jx = -p * slip[0] / size, jy = -p * slip[1] / size, inertia = 0.4 * m * r * r;
    assert_near(w.v[0], v[0] + jx / m, 1e-13);
    assert_near(w.v[1], v[1] + jy / m, 1e-13);
    assert_near(w.v[3], spin[0] + r * jy / inertia, 1e-12);
    assert_near(w.v[4], spin[1] - r * jx / inertia, 1e-12);
    assert_near(w.v[5], spin[2], 1e-13);
    end(&w);
  }
}

// A box that lands flat, at rest and fast: its corners strike together, so it stays level. Forward and reverse derivatives agree.
static void test_flat_landing(void **state) {
  (void)state;
  static const char text[] =
      "<mujoco><option gravity='0 0 0'/><worldbody>" FLOOR
      "<body pos='0 0 .1'><freejoint/><geom type='box' size='.1 .12 .1' mass='1' friction='.3'/></body></worldbody></mujoco>";
  for (int k = 0; k < 2; k++) {
    World w;
    double c[6 * 2], d[6 * 2], next[6 * 2], x_bar[6 * 2] = {0};
    begin(&w, text, "RK4", 1e-3, 0.5);
    w.v[0] = k ? 3 : 0;
    w.v[2] = -2;
    assert_int_equal(step(&w), 1);
    const double exact[6] = {k ? 3 - 0.3 * 1.5 * 2 : 0, 0, 1, 0, 0, 0};
    for (int i = 0; i < 6; i++) assert_near(w.v[i], exact[i], 1e-12);
    assert_int_equal(pbScratch_Report(w.s).simultaneous, 1);
    for (int i = 0; i < 12; i++) {
      c[i] = sin(1 + i);
      d[i] = cos(3 * i);
    }
    pbDirection direction = {.x = d};
    assert_int_equal(pbStep_Vjp(w.m, w.theta, w.record, &(pbInput){0}, c, NULL, w.s, x_bar, NULL, NULL), pb_ok);
    assert_int_equal(pbStep_Jvp(w.m, w.theta, w.record, &(pbInput){0}, &direction, w.s, next, NULL, NULL, NULL), pb_ok);
    double forward = 0, reverse = 0, size = 0;
    for (int i = 0; i < 12; i++) {
      forward += c[i] * next[i];
      reverse += x_bar[i] * d[i];
      size += fabs(c[i] * next[i]);
    }
    assert_near(forward, reverse, 1e-12 * size);
    end(&w);
  }
}

// Two free capsules: momenta are kept, and without friction the loss of energy is that of the normal velocity.
static void test_what_is_conserved(void **state) {
  (void)state;
  World w;
  const double e = 0.7;
  begin(&w,
        WEIGHTLESS
        "<body><freejoint/><geom type='capsule' size='.1 .2' mass='2' condim='1'/></body>"
        "<body pos='.3 0 0'><freejoint/><geom type='capsule' size='.1 .2' mass='.7' euler='30 20 0' condim='1'/></body>"
        "</worldbody></mujoco>",
        "RK4", 0.01, e);
  const double v[12] = {2, .1, -.3, 1, 2, .5, -1, .3, .2, -2, 1, 3};
  memcpy(w.v, v, sizeof v);
  double momenta[2][6], energy[2], mass[2] = {2, .7};
  for (int k = 0; k < 200; k++) {
    int impacts = step(&w);
    for (int side = 0; side < 2; side++) {  // before and after the step
      const double *x = side ? w.x : w.before, *rate = x + 1 + 14, *data;
      int rows, cols;
      double M[12 * 12], Mv[12] = {0};
      assert_int_equal(pbStep_Observe(w.m, w.theta, x, NULL, w.s, NULL), pb_ok);
      assert_int_equal(pbScratch_Gather(w.s), pb_ok);
      assert_true(pbScratch_Field(w.s, "M", &data, &rows, &cols));
      memcpy(M, data, sizeof M);
      assert_true(pbScratch_Field(w.s, "xmat", &data, &rows, &cols));
      memset(momenta[side], 0, sizeof momenta[side]);
      energy[side] = 0;
      for (int i = 0; i < 12; i++) {
        for (int j = 0; j < 12; j++) Mv[i] += M[12 * i + j] * rate[j];
        energy[side] += 0.5 * Mv[i] * rate[i];
      }
      for (int b = 0; b < 2; b++) {
        const double *p = x + 1 + 7 * b, *R = data + 9 * (b + 1), *f = Mv + 6 * b, *t = f + 3;
        for (int i = 0; i < 3; i++) {
          int j = (i + 1) % 3, l = (i + 2) % 3;
          momenta[side][i] += f[i];
          momenta[side][3 + i] += p[j] * f[l] - p[l] * f[j] + R[3 * i] * t[0] + R[3 * i + 1] * t[1] + R[3 * i + 2] * t[2];
        }
        assert_near(f[0], mass[b] * rate[6 * b], 1e-12);
      }
    }
    for (int i = 0; i < 3; i++) assert_near(momenta[1][i], momenta[0][i], 1e-13);
    for (int i = 3; i < 6; i++) assert_near(momenta[1][i], momenta[0][i], 1e-7);  // the integrator's, on a tumbling body
    if (!impacts) continue;
    assert_true(energy[1] < energy[0] && energy[1] > e * e * energy[0]);
    end(&w);
    return;
  }
  fail_msg("the capsules never met");
}

static double energy_of(World *w, const double *x) {
  const double *M, *place, *v = x + 1 + w->nq, *mass = w->theta + (w->m->body_mass - w->m->theta0);
  int rows, cols;
  double energy = 0;
  assert_int_equal(pbStep_Observe(w->m, w->theta, x, NULL, w->s, NULL), pb_ok);
  assert_int_equal(pbScratch_Gather(w->s), pb_ok);
  assert_true(pbScratch_Field(w->s, "M", &M, &rows, &cols) && pbScratch_Field(w->s, "xipos", &place, &rows, &cols));
  for (int i = 0; i < w->nv * w->nv; i++) energy += 0.5 * v[i / w->nv] * M[i] * v[i % w->nv];
  for (int b = 1; b < w->m->nbody; b++) energy += 9.81 * mass[b] * place[3 * b + 2];
  return energy;
}

// Elastic and without friction: a tumbling box and a chain keep their energy over many bounces.
static void test_energy(void **state) {
  (void)state;
  static const char *const texts[] = {
      "<mujoco><worldbody><geom type='plane' size='5 5 1' condim='1'/><body pos='0 0 .5'><freejoint/>"
      "<geom type='box' size='.1 .2 .15' mass='2' euler='20 30 0' condim='1'/></body></worldbody></mujoco>",
      "<mujoco><default><geom condim='1' size='.03' mass='1'/></default><worldbody><geom type='plane' size='5 5 1'/>"
      "<body pos='0 0 .55'><joint axis='0 1 0'/><geom type='capsule' fromto='0 0 0 .3 0 0'/><body pos='.3 0 0'><joint axis='0 1 "
      ".3'/>"
      "<geom type='capsule' fromto='0 0 0 .3 0 -.1'/></body></body></worldbody></mujoco>"};
  for (int k = 0; k < 2; k++) {
    World w;
    int impacts = 0;
    begin(&w, texts[k], "RK4", 5e-4, 1);
    double start = energy_of(&w, w.x);
    for (int i = 0; i < 6000; i++) impacts += step(&w);
    assert_true(impacts > 3);
    assert_near(energy_of(&w, w.x), start, 1e-8 * start);
    end(&w);
  }
}

// ---- derivatives ------------------------------------------------------------------------------------------------------
static const char *const scenes[] = {
    // a ball that sticks; one that slides, of a pair whose frictions differ by direction
    "<mujoco><worldbody>" FLOOR
    "<body pos='0 0 .2'><freejoint/><geom size='.1' mass='1' friction='2'/></body></worldbody></mujoco>",
    "<mujoco><worldbody>" FLOOR
    "<body pos='0 0 .2'><freejoint/><geom name='b' size='.1' mass='1'/></body></worldbody>"
    "<contact><pair geom1='floor' geom2='b' condim='3' friction='.2 .5 .1 .1 .1' margin='.01'/></contact></mujoco>",
    // a box on its corner
    "<mujoco><worldbody>" FLOOR
    "<body pos='0 0 .5'><freejoint/><geom type='box' size='.1 .2 .15' mass='2' pos='.02 .01 .03' "
    "friction='.5' margin='.003'/></body></worldbody></mujoco>",
    // a chain with a motor, a tendon with inertia, dampers, a limit, and an equality
    "<mujoco><default><geom friction='.45'/></default><worldbody>" FLOOR
    "<body pos='0 0 .55'><joint name='a' axis='0 1 0' damping='.3' armature='.02'/><geom type='capsule' fromto='0 0 0 .3 0 0' "
    "size='.03' mass='1'/><body pos='.3 0 0'><joint type='ball' damping='.05'/><geom type='capsule' fromto='0 0 0 .3 0 -.1' "
    "size='.03' "
    "mass='1'/><body pos='.3 0 -.1'><joint name='c' axis='0 1 .3' range='-.5 .5' limited='true' frictionloss='.1'/><geom "
    "type='capsule' "
    "fromto='0 0 0 .1 .1 -.28' size='.03' mass='1'/><body pos='.1 .1 -.28'><joint name='d' type='slide' axis='0 0 1' "
    "stiffness='50'/><geom size='.04' mass='.3'/></body></body></body></body></worldbody>"
    "<tendon><fixed name='t' armature='.05' damping='.1'><joint joint='a' coef='1'/><joint joint='c' "
    "coef='-.5'/></fixed></tendon>"
    "<equality><joint joint1='d' joint2='c' polycoef='0 .05 0 0 0'/></equality>"
    "<actuator><general joint='a' dyntype='filter' dynprm='.1' gainprm='5' gear='2'/><motor joint='c' "
    "gear='.5'/></actuator></mujoco>",
    // two free bodies in a medium
    "<mujoco><option density='5' viscosity='.1' wind='1 2 0'/><worldbody>" FLOOR
    "<body pos='0 0 1'><freejoint/><geom size='.1' mass='1' friction='.4'/></body><body pos='.3 .05 1.02'><freejoint/>"
    "<geom type='capsule' size='.05 .1' mass='.6' friction='.2' euler='40 10 0'/></body></worldbody></mujoco>",
    // two links, nearly straight, that strike with their tip: the impact would make energy and is capped; the same with hinges
    "<mujoco><worldbody><geom name='floor' type='plane' size='5 5 .1' friction='.7'/><body pos='0 0 2.001'>"
    "<joint type='ball' damping='.1'/><inertial pos='0 0 -.5' mass='1' diaginertia='.083 .083 .001'/><body pos='0 0 -1'>"
    "<joint type='ball' damping='.05'/><inertial pos='0 0 -.5' mass='1' diaginertia='.083 .083 .001'/>"
    "<geom size='.01' pos='0 0 -1' mass='0' friction='.6'/></body></body></worldbody></mujoco>",
    "<mujoco><worldbody><geom name='floor' type='plane' size='5 5 .1' friction='.7'/><body pos='0 0 1.93'>"
    "<joint axis='1 0 .1'/><joint axis='0 1 0' damping='.1'/><inertial pos='0 0 -.5' mass='1' diaginertia='.083 .083 "
    ".001'/><body pos='0 0 -1'>"
    "<joint axis='0 1 0'/><inertial pos='0 0 -.5' mass='1' diaginertia='.083 .083 .001'/>"
    "<geom size='.01' pos='0 0 -1' mass='0' friction='.6'/></body></body></worldbody></mujoco>",
};
static const double starts[][12] = {{1, .3, -2, 5, 3, -4},
                                    {1, .3, -2, 5, 3, -4},
                                    {1, .3, -2, 5, 3, -4},
                                    {1, .3, .2, -.5, 2, .1},
                                    {3, .3, -1, 1, 2, 3, -3, 0, .4, 2, 3, 1},
                                    {.1, 1, .2, -.2, -4, .1},
                                    {.1, 1, -4}};
static const char *const integrators[] = {"Euler", "implicitfast", "RK4"};
enum { scene_count = sizeof scenes / sizeof *scenes, capped_scene = 5 };  // capped: from there on

static uint64_t seed;

// A scene at a step with an impact.
static void impact_step(World *w, int scene, int integrator) {
  law = scene < capped_scene ? "newton" : "capped";
  begin(w, scenes[scene], integrators[integrator], 0.01, 0.6);
  law = "newton";
  for (int g = 0; g < w->m->ngeom; g++) w->theta[w->m->geom_restitution - w->m->theta0 + g] = 0.3 + 0.1 * g;  // no ties
  seed = (uint64_t)scene + 1;
  memcpy(w->v, starts[scene], (size_t)w->nv * sizeof(double));
  if (scene == capped_scene) {
    w->q[0] = cos(0.05);
    w->q[2] = sin(0.05);
  }
  if (scene == capped_scene + 1) w->q[1] = 0.3;
  fill_noise(&seed, w->ctrl, w->nu, 0.5);
  fill_noise(&seed, w->xfrc + 6, 6 * (w->m->nbody - 1), 0.2);
  for (int k = 0; k < 100; k++) {
    if (step(w)) return;
  }
  fail_msg("scene %d: no impact", scene);
}

// Parameters that a difference quotient may move: a direction for all of theta that keeps unit vectors on their spheres.
static void parameter_direction(const World *w, double *d) {
  memset(d, 0, most_theta * sizeof(double));
  for (int i = 0; i < pbModel_ParamCount(w->m); i++) {
    pbParam p = pbModel_ParamAt(w->m, i);
    bool unit = strstr(p.name, "quat") || !strcmp(p.name, "jnt_axis");
    for (int r = 0; r < p.rows; r++) {
      double *row = d + p.offset + (size_t)(r * p.cols);
      const double *value = w->theta + p.offset + (size_t)(r * p.cols);
      for (int k = 0; k < p.cols; k++) row[k] = noise64(&seed) * (unit ? 1 : fmin(fabs(value[k]), 0.5));
      double along = unit ? dot(row, value, p.cols) / fmax(dot(value, value, p.cols), 1e-300) : 0;
      for (int k = 0; k < p.cols; k++) row[k] -= along * value[k];
    }
  }
}

static void test_forward_and_reverse(void **state) {
  (void)state;
  for (int k = 0; k < 3 * scene_count; k++) {
    World w;
    double c[most] = {0}, d[most] = {0}, dp[most_theta], du[8] = {0}, df[48] = {0}, next[most], A[most * most], B[most * 8];
    double x_bar[most] = {0}, u_bar[8] = {0}, f_bar[48] = {0}, theta_bar[most_theta] = {0}, seen_bar[24], seen[24];
    impact_step(&w, k / 3, k % 3);
    pbInput input = input_of(&w);
    fill_noise(&seed, c, w.n, 1);
    fill_noise(&seed, d, w.n, 1);
    fill_noise(&seed, du, w.nu, 1);
    fill_noise(&seed, df + 6, 6 * (w.m->nbody - 1), 1);
    parameter_direction(&w, dp);
    fill_noise(&seed, seen_bar, 3 * w.m->nbody, 1);
    pbInputBar input_bar = {.ctrl = u_bar, .xfrc = f_bar};
    pbObservationBar observed = {.xpos = seen_bar};
    assert_int_equal(pbStep_Vjp(w.m, w.theta, w.record, &input, c, &observed, w.s, x_bar, &input_bar, theta_bar), pb_ok);
    assert_int_equal(pbStep_Jacobian(w.m, w.theta, w.record, &input, w.s, A, B, NULL, NULL), pb_ok);
    const pbDirection directions[] = {{.x = d}, {.ctrl = du}, {.xfrc = df}, {.theta = dp}};
    const double *const moved[] = {d, du, df, dp}, *const bars[] = {x_bar, u_bar, f_bar, theta_bar};
    const int sizes[] = {w.n, w.nu, 6 * w.m->nbody, (int)pbModel_ParamSize(w.m)};
    for (int i = 0; i < 4; i++) {
      assert_int_equal(pbStep_Jvp(w.m, w.theta, w.record, &input, &directions[i], w.s, next, NULL, seen, NULL), pb_ok);
      double size = 1e-300;
      for (int j = 0; j < w.n; j++) size += fabs(c[j] * next[j]);
      for (int j = 0; j < sizes[i]; j++) size += fabs(moved[i][j] * bars[i][j]);
      double forward = dot(c, next, w.n) + dot(seen_bar, seen, 3 * w.m->nbody), reverse = dot(moved[i], bars[i], sizes[i]);
      if (!(fabs(forward - reverse) <= 1e-12 * size))
        fail_msg("scene %d, %s, direction %d: %.17g forward, %.17g in reverse", k / 3, integrators[k % 3], i, forward, reverse);
      for (int row = 0; i < 2 && row < w.n; row++)
        assert_near(i ? dot(B + row * w.nu, du, w.nu) : dot(A + row * w.n, d, w.n), next[row], 1e-12 * (1 + size));
    }
    end(&w);
  }
}

// What the step moves to when the state or the parameters move along a direction, as a tangent at w->x.
static void moved_step(World *w, const double *d, const double *dp, double t, double *out) {
  double x[most], theta[most_theta];
  pbInput input = input_of(w);
  memcpy(x, w->before, sizeof x);
  memcpy(theta, w->theta, sizeof theta);
  if (d) pbState_Move(w->m, x, d, t);
  for (size_t i = 0; dp && i < pbModel_ParamSize(w->m); i++) theta[i] += t * dp[i];
  if (pbStep_Forward(w->m, theta, x, &input, w->s, NULL) != pb_ok) fail_msg("%s", pbScratch_Error(w->s));
  pbState_Difference(w->m, w->x, x, out);
}

static void test_differences(void **state) {
  (void)state;
  for (int k = 0; k < 3 * scene_count; k++) {
    World w;
    double d[most], dp[most_theta], next[most], at[4][most];
    impact_step(&w, k / 3, k % 3);
    pbInput input = input_of(&w);
    for (int kind = 0; kind < 2; kind++) {
      const double t = 2e-5;
      fill_noise(&seed, d, w.n, 1);
      parameter_direction(&w, dp);
      pbDirection direction = {.x = kind ? NULL : d, .theta = kind ? dp : NULL};
      assert_int_equal(pbStep_Jvp(w.m, w.theta, w.record, &input, &direction, w.s, next, NULL, NULL, NULL), pb_ok);
      const double steps[] = {t, -t, t / 2, -t / 2};
      for (int i = 0; i < 4; i++) moved_step(&w, kind ? NULL : d, kind ? dp : NULL, steps[i], at[i]);
      double size = 1e-3;
      for (int i = 0; i < w.n; i++) size = fmax(size, fabs(next[i]));
      for (int i = 0; i < w.n; i++) {
        double once = (at[0][i] - at[1][i]) / (2 * t), twice = (at[2][i] - at[3][i]) / t;
        if (!(fabs((4 * twice - once) / 3 - next[i]) <= 1e-8 * size))
          fail_msg("scene %d, %s, %s, entry %d: %.12g, differences %.12g", k / 3, integrators[k % 3],
                   kind ? "parameters" : "state", i, next[i], (4 * twice - once) / 3);
      }
    }
    end(&w);
  }
}

// ---- bits -------------------------------------------------------------------------------------------------------------
static void poison(World *w) {
  pbWork_r sizes;
  memset(w->s->w.memory, 0xff, pbWork_Carve_r(&sizes, w->m, NULL));
}

// The same bits from every instruction set, and whatever an earlier call left.
static void test_same_bits(void **state) {
  (void)state;
  for (int k = 0; k < 3 * scene_count; k++) {
    World w;
    double x[most], first[most], bar[2][most], theta_bar[2][most_theta], c[most];
    impact_step(&w, k / 3, k % 3);
    pbInput input = input_of(&w);
    fill_noise(&seed, c, w.n, 1);
    const pbVariant *kept = w.s->variant;
    for (int v = 0; pbVariant_At(v); v++) {
      w.s->variant = pbVariant_At(v);
      memcpy(x, w.before, sizeof x);
      poison(&w);
      assert_int_equal(pbStep_Forward(w.m, w.theta, x, &input, w.s, NULL), pb_ok);
      assert_memory_equal(x, w.x, sizeof x);
      memset(bar[v > 0], 0, sizeof bar[0]);
      memset(theta_bar[v > 0], 0, sizeof theta_bar[0]);
      poison(&w);
      assert_int_equal(pbStep_Vjp(w.m, w.theta, w.record, &input, c, NULL, w.s, bar[v > 0], NULL, theta_bar[v > 0]), pb_ok);
      if (v == 0) memcpy(first, bar[0], sizeof first);
      assert_memory_equal(bar[v > 0], first, sizeof first);
      assert_memory_equal(theta_bar[v > 0], theta_bar[0], sizeof theta_bar[0]);
    }
    w.s->variant = kept;
    end(&w);
  }
}

// A rollout's gradient has the same bits for every memory budget.
static void test_budgets(void **state) {
  (void)state;
  enum { steps = 120 };
  double first[most] = {0};
  for (int leaf = steps; leaf > 0; leaf /= 4) {
    World w;
    begin(&w, scenes[4], "Euler", 0.01, 0.6);
    memcpy(w.v, starts[4], sizeof starts[4]);
    pbRolloutPlan plan;
    pbRollout *rollout;
    double bar[most], x_bar[most] = {0};
    for (int i = 0; i < w.nv; i++) bar[i] = 1 + 0.1 * i;
    good(ctx, pbRollout_PlanSlots(ctx, w.m, 40, 2, leaf, &plan));
    good(ctx, pbRollout_Create(ctx, w.m, &plan, NULL, &rollout));
    good(ctx, pbRollout_Forward(rollout, w.theta, w.x, NULL, NULL));
    pbRolloutBar cotangents = {.qvel = {.data = bar, .count = 1}};
    pbCertificate certificate;
    good(ctx, pbRollout_Vjp(rollout, &cotangents, &(pbVjpOptions){.spot_check = true, .seed = 1},
                            &(pbRolloutGradient){.x0 = x_bar}, &certificate));
    assert_true(certificate.spot_error < 1e-5 && certificate.approach > 0.1 && certificate.approach < 100);
    if (leaf == steps) memcpy(first, x_bar, sizeof first);
    assert_memory_equal(x_bar, first, sizeof first);
    pbRollout_Destroy(rollout);
    end(&w);
  }
}

// ---- what is refused ----------------------------------------------------------------------------------------------------
static void test_rest_is_named(void **state) {
  (void)state;
  World w;
  begin(&w, ball_on_rail, "RK4", 0.01, 0.5);
  double kept[most];
  pbStatus status = pb_ok;
  for (int k = 0; k < 1000 && status == pb_ok; k++) {
    memcpy(kept, w.x, sizeof kept);
    status = pbStep_Forward(w.m, w.theta, w.x, &(pbInput){0}, w.s, NULL);
  }
  assert_int_equal(status, pb_no_convergence);
  assert_non_null(strstr(pbScratch_Error(w.s), "'floor' and 1"));
  assert_memory_equal(kept, w.x, sizeof kept);
  end(&w);
}

// Deep in each other at the start: they strike at once, the moment does not depend on the depth.
static void test_overlap(void **state) {
  (void)state;
  World w;
  double A[4];
  begin(&w, ball_on_rail, "RK4", 0.01, 0.5);
  w.q[0] = -1.01;
  w.v[0] = -1;
  assert_int_equal(step(&w), 1);
  assert_near(w.v[0], 0.5 - 0.0981, 1e-13);
  pbInput input = input_of(&w);
  assert_int_equal(pbStep_Jacobian(w.m, w.theta, w.record, &input, w.s, A, NULL, NULL, NULL), pb_ok);
  const double exact[4] = {1, -0.005, 0, -0.5};
  for (int i = 0; i < 4; i++) assert_near(A[i], exact[i], 1e-14);
  end(&w);
}

static void test_refusals(void **state) {
  (void)state;
  static const char *const settings[][4] = {
      {"kappa", "1", NULL, "kappa"}, {"onset", "0.1", NULL, "onset"}, {"erp", "0.2", "cfm", "erp"}};
  for (int k = 0; k < 4; k++) {
    World w;
    pbScratch *s;
    begin(&w, ball_on_rail, "Euler", 0.01, 1);
    if (k == 3) w.m->geom_condim[1] = 4;
    else good(ctx, pbModel_SetContact(w.m, settings[k][0], settings[k][1]));
    if (k < 3 && settings[k][2]) good(ctx, pbModel_SetContact(w.m, settings[k][2], settings[k][1]));
    assert_int_equal(pbScratch_Create(ctx, w.m, NULL, &s), pb_bad_argument);
    assert_non_null(strstr(pbContext_Error(ctx), k == 3 ? "condim 4" : settings[k][3]));
    end(&w);
  }
}

// A double pendulum, nearly straight, strikes the floor with its tip: Newton's restitution with friction makes energy, and says so.
#define STRAIGHT                                                                                                      \
  "<mujoco><option gravity='0 0 0'/><worldbody><geom type='plane' size='9 9 1' pos='0 0 %.17g' friction='%g'/><body>" \
  "<joint axis='0 1 0'/><inertial pos='0 0 -.5' mass='1' diaginertia='.083 .083 .001'/><body pos='0 0 -1'>"           \
  "<joint axis='0 1 0'/><inertial pos='0 0 -.5' mass='1' diaginertia='.083 .083 .001'/>"                              \
  "<geom type='sphere' size='.01' pos='0 0 -1' mass='0' friction='%g'/></body></body></worldbody></mujoco>"

// Of links of 1 m and 1 kg, by the rates of their own angles.
static double pendulum_energy(const World *w) {
  double a = w->v[0], b = w->v[0] + w->v[1];
  return 0.5 * (0.083 + 0.25 + 1) * a * a + 0.5 * (0.083 + 0.25) * b * b + 0.5 * cos(w->q[1]) * a * b;
}

static void test_energy_made_is_told(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    World w;
    char text[1000];
    double friction = k ? 0 : 0.7, before, after;
    snprintf(text, sizeof text, STRAIGHT, -2 * cos(0.1) - 0.0100001, friction, friction);
    begin(&w, text, "Euler", 1e-5, 0.5);
    w.q[0] = 0.1;
    w.q[1] = 0;
    w.v[0] = 1;
    w.v[1] = -4;
    int touched = 0;
    pbReport report;
    for (int i = 0; i < 30 && !touched; i++) {
      before = pendulum_energy(&w);
      touched = step(&w);
    }
    after = pendulum_energy(&w);
    report = pbScratch_Report(w.s);
    assert_int_equal(touched, 1);
    assert_int_equal(report.gains, after > before + 1e-6);
    assert_true((report.gains == 1) == (friction > 0));
    if (report.gains) assert_true(fabs(report.gain - (after - before)) < 1e-3 * report.gain && report.gain > before);
    assert_int_equal(report.gaining[0], report.gains ? 0 : -1);
    assert_int_equal(report.gaining[1], report.gains ? 1 : -1);
    end(&w);
  }
}

// ---- the capped law ---------------------------------------------------------------------------------------------------
static double kinetic_energy(World *w) {
  const double *M;
  int rows, cols;
  double energy = 0;
  assert_int_equal(pbStep_Observe(w->m, w->theta, w->x, NULL, w->s, NULL), pb_ok);
  assert_int_equal(pbScratch_Gather(w->s), pb_ok);
  assert_true(pbScratch_Field(w->s, "M", &M, &rows, &cols));
  for (int i = 0; i < w->nv * w->nv; i++) energy += 0.5 * w->v[i / w->nv] * M[i] * w->v[i % w->nv];
  return energy;
}

// Jointed bodies above a floor, weightless: two links in the plane, two in space, a box with an arm.
#define LINK "<inertial pos='0 0 -.5' mass='1' diaginertia='.083 .083 .001'/>"
#define TIP  "<geom name='tip' size='.01' pos='0 0 -1' mass='0' friction='%g'/></body></body></worldbody></mujoco>"
static const char *const jointed[] = {
    WEIGHTLESS "<geom name='floor' type='plane' size='9 9 1' friction='0'/><body pos='0 0 0'><joint axis='0 1 0'/>" LINK
               "<body pos='0 0 -1'><joint axis='0 1 0'/>" LINK TIP,
    WEIGHTLESS "<geom name='floor' type='plane' size='9 9 1' friction='0'/><body pos='0 0 0'><joint type='ball'/>" LINK
               "<body pos='0 0 -1'><joint type='ball'/>" LINK TIP,
    WEIGHTLESS
    "<geom name='floor' type='plane' size='9 9 1' friction='0'/><body pos='0 0 0'><freejoint/>"
    "<geom name='tip' type='box' size='.1 .1 .1' mass='1' friction='%g'/><body pos='0 0 .1'><joint axis='0 1 .2'/>"
    "<inertial pos='.4 .1 .3' mass='3' diaginertia='.05 .05 .01'/></body></body></worldbody></mujoco>",
};

// The floor to where the tip is about to touch it.
static void raise_floor(World *w, double low) {
  const double *at;
  int rows, cols, tip = pbModel_Id(w->m, pb_objGeom, "tip");
  assert_int_equal(pbStep_Observe(w->m, w->theta, w->x, NULL, w->s, NULL), pb_ok);
  assert_int_equal(pbScratch_Gather(w->s), pb_ok);
  assert_true(pbScratch_Field(w->s, "geom_xpos", &at, &rows, &cols));
  w->theta[w->m->geom_pos - w->m->theta0 + 2] = at[3 * tip + 2] - low - 1e-7;
}

typedef struct Struck {
  int impacts, gains;
  double before, after, x[most];  // energies, and the state after
} Struck;

// A random state and two steps, in the first of which the tip strikes if it approaches.
static Struck random_impact(int scene, int trial, double friction, double e, const char *which) {
  Struck struck = {0};
  World w;
  char text[1500];
  snprintf(text, sizeof text, jointed[scene], friction);
  law = which;
  begin(&w, text, "RK4", 1e-6, e);
  law = "newton";
  seed = (uint64_t)(1000 * scene + trial + 1);
  for (int k = 0; k < 3; k++) noise64(&seed);
  if (scene < 2) fill_noise(&seed, w.q, w.nq, scene ? 0.15 : 1);
  for (int b = 0; scene == 1 && b < 2; b++) {
    double *q = w.q + 4 * b;
    q[0] = sqrt(1 - dot(q + 1, q + 1, 3));
  }
  if (scene == 2) w.q[7] = noise64(&seed);  // the box stays level: its four corners strike together
  fill_noise(&seed, w.v, w.nv, 4);
  if (scene == 2) {
    w.v[2] = -3;
    w.v[3] = w.v[4] = 0;
  }
  raise_floor(&w, scene == 2 ? 0.1 : 0.01);
  struck.before = kinetic_energy(&w);
  for (int i = 0; i < 2; i++) {
    struck.impacts += step(&w);
    struck.gains += pbScratch_Report(w.s).gains;
  }
  struck.after = kinetic_energy(&w);
  memcpy(struck.x, w.x, sizeof w.x);
  end(&w);
  return struck;
}

// No impact makes energy; those that would keep it, the others are Newton's to the bit.
static void test_capped_energy(void **state) {
  (void)state;
  for (int scene = 0; scene < 3; scene++) {
    int capped = 0, impacts = 0;
    for (int trial = 0; trial < 200; trial++) {
      double friction = 0.2 + 0.01 * (trial % 100), e = 0.3 + 0.1 * (trial % 8);
      Struck newton = random_impact(scene, trial, friction, e, "newton"),
             other = random_impact(scene, trial, friction, e, "capped");
      assert_int_equal(newton.impacts > 0, other.impacts > 0);
      assert_int_equal(other.gains, 0);
      impacts += other.impacts > 0;
      capped += newton.gains > 0;
      double rounding = 1e-9 * other.before;
      if (!(other.after - other.before <= rounding))
        fail_msg("scene %d, trial %d: %g J of %g made", scene, trial, other.after - other.before, other.before);
      if (!newton.gains) assert_memory_equal(newton.x, other.x, sizeof newton.x);
      else if (newton.impacts == 1 && other.impacts == 1) assert_near(other.after, other.before, rounding);
    }
    if (impacts < 60 || capped < 5) fail_msg("scene %d: %d impacts, %d capped", scene, impacts, capped);
  }
}

// Without restitution and without friction it is Newton's law.
static void test_capped_is_newton(void **state) {
  (void)state;
  for (int k = 0; k < 3 * 40; k++) {
    double friction = k % 2 ? 0 : 0.7, e = k % 2 ? 0.8 : 0;
    Struck newton = random_impact(k / 40, k, friction, e, "newton"), other = random_impact(k / 40, k, friction, e, "capped");
    assert_memory_equal(newton.x, other.x, sizeof newton.x);
  }
}

// The scenes of the derivatives above that are to be capped are.
static void test_capped_scenes(void **state) {
  (void)state;
  for (int k = 3 * capped_scene; k < 3 * scene_count; k++) {
    World w;
    double before[most];
    impact_step(&w, k / 3, k % 3);
    memcpy(before, w.before, sizeof before);
    assert_int_equal(pbScratch_Report(w.s).gains, 0);
    end(&w);
    begin(&w, scenes[k / 3], integrators[k % 3], 0.01, 0.6);
    for (int g = 0; g < w.m->ngeom; g++) w.theta[w.m->geom_restitution - w.m->theta0 + g] = 0.3 + 0.1 * g;
    memcpy(w.x, before, sizeof before);
    assert_int_equal(step(&w), 1);
    assert_int_equal(pbScratch_Report(w.s).gains, 1);
    end(&w);
  }
}

// The double pendulum falls back on the floor again and again. At w->x: does its next impact make energy under Newton's law?
static void hopping_pendulum(World *w, const char *which) {
  char text[1000];
  snprintf(text, sizeof text, STRAIGHT, -2 * cos(0.5) - 0.0100001, 0.7, 0.7);
  law = which;
  begin(w, text, "RK4", 0.005, 0.8);
  law = "newton";
  w->theta[w->m->gravity - w->m->theta0 + 2] = -9.81;
  w->q[0] = 0.5;
  w->v[0] = 0.5;
  w->v[1] = 2;
}

// Along a tangent of the start, or where that is NULL one parameter: how much c . end changes over so many steps, by differences.
static double change_of_end(World *w, const double *start, int steps, const double *c, const double *tangent, size_t by) {
  const double t = 3e-7, value = w->theta[by];
  double finish[2][most], d[most], change = 0;

  for (int side = 0; side < 2; side++) {
    memcpy(w->x, start, sizeof w->x);
    if (tangent) pbState_Move(w->m, w->x, tangent, side ? t : -t);
    else w->theta[by] = value + (side ? t : -t);
    for (int k = 0; k < steps; k++) step(w);
    memcpy(finish[side], w->x, sizeof w->x);
    w->theta[by] = value;
  }

  pbState_Difference(w->m, finish[0], finish[1], d);
  for (int i = 0; i < w->n; i++) change += c[i] * d[i] / (2 * t);
  return change;
}

// Several capped impacts in one rollout, others between them: the pullback through all of it against differences.
static void test_many_capped_impacts(void **state) {
  (void)state;
  enum { steps = 305, n = 4 };
  static double records[steps][4 * most];
  World w, newton;
  double start[most], bar[2][most] = {{0.3, -0.7, 0.2, 0.5}}, theta_bar[most_theta] = {0}, size = 0;
  int impacts = 0, capped = 0;

  hopping_pendulum(&w, "capped");
  hopping_pendulum(&newton, "newton");
  memcpy(start, w.x, sizeof start);
  for (int k = 0; k < steps; k++) {
    memcpy(newton.x, w.x, sizeof w.x);
    int struck = step(&w);
    memcpy(records[k], w.record, sizeof w.record);
    assert_int_equal(pbScratch_Report(w.s).gains, 0);
    impacts += struck;
    if (struck && step(&newton)) capped += pbScratch_Report(newton.s).gains;
  }
  if (impacts < 5 || capped < 3 || capped == impacts) fail_msg("%d impacts, %d capped", impacts, capped);

  const double c[n] = {0.3, -0.7, 0.2, 0.5};
  pbInput input = input_of(&w);
  for (int k = steps - 1; k >= 0; k--) {
    memset(bar[1], 0, sizeof bar[1]);
    good(ctx, pbStep_Vjp(w.m, w.theta, records[k], &input, bar[0], NULL, w.s, bar[1], NULL, theta_bar));
    memcpy(bar[0], bar[1], sizeof bar[0]);
  }

  for (int j = 0; j < n; j++) size = fmax(size, fabs(bar[0][j]));
  for (int j = 0; j < n; j++) {
    double e[n] = {0};
    e[j] = 1;
    assert_near(change_of_end(&w, start, steps, c, e, 0), bar[0][j], 1e-5 * size);
  }
  const size_t by[] = {(size_t)(w.m->geom_friction - w.m->theta0), (size_t)(w.m->body_mass - w.m->theta0) + 2,
                       (size_t)(w.m->gravity - w.m->theta0) + 2, (size_t)(w.m->geom_restitution - w.m->theta0)};
  for (int j = 0; j < 4; j++) {
    double change = change_of_end(&w, start, steps, c, NULL, by[j]);
    assert_near(change, theta_bar[by[j]], 1e-5 * fabs(theta_bar[by[j]]));
    assert_true(change != 0);
  }
  end(&w);
  end(&newton);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bouncing_ball),
      cmocka_unit_test(test_straight_bounce),
      cmocka_unit_test(test_two_balls),
      cmocka_unit_test(test_spinning_ball),
      cmocka_unit_test(test_flat_landing),
      cmocka_unit_test(test_what_is_conserved),
      cmocka_unit_test(test_energy),
      cmocka_unit_test(test_forward_and_reverse),
      cmocka_unit_test(test_differences),
      cmocka_unit_test(test_same_bits),
      cmocka_unit_test(test_budgets),
      cmocka_unit_test(test_rest_is_named),
      cmocka_unit_test(test_overlap),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_energy_made_is_told),
      cmocka_unit_test(test_capped_energy),
      cmocka_unit_test(test_capped_is_newton),
      cmocka_unit_test(test_capped_scenes),
      cmocka_unit_test(test_many_capped_impacts),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
