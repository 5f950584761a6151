// Settings of contacts (contact.h): names and ranges, what each does where the answer is known in closed form. That derivatives
// are right with them is tests/conformance's.
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

static void set(pbModel *m, const char *name, double value) {
  char text[64];
  snprintf(text, sizeof text, "%.17g", value);
  good(ctx, pbModel_SetContact(m, name, text));
}

// ---- names ----------------------------------------------------------------------------------------------------------
static void test_names_and_ranges(void **state) {
  (void)state;
  pbModel *m = model_of_text(ctx, "<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>");
  pbContactSettings c = pbModel_ContactSettings(m);
  assert_true(c.kappa == 0 && c.onset == 0 && c.erp < 0 && c.cfm < 0);
  assert_int_equal(pbModel_SetContact(m, "kapa", "1"), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(ctx), "did you mean 'kappa'"));
  assert_int_equal(pbModel_SetContact(m, "method", "sof"), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(ctx), "did you mean 'soft'"));
  const char *const bad[][2] = {{"mixing", "most"}, {"restitution", "2"}, {"kappa", "-1"},   {"kappa", "nan"}, {"kappa", "off"},
                                {"kappa", "1x"},    {"kappa", ""},        {"onset", "-.1"},  {"erp", "1.5"},   {"erp", "-1"},
                                {"cfm", "inf"},     {"stiffness", "0"},   {"damping", "-1"}, {"slip", "0"},    {"width", "0"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(pbModel_SetContact(m, bad[i][0], bad[i][1]), pb_bad_argument);
    assert_non_null(strstr(pbContext_Error(ctx), bad[i][0]));
  }
  c = pbModel_ContactSettings(m);
  assert_true(c.kappa == 0 && c.onset == 0 && c.erp < 0 && c.cfm < 0);
  set(m, "kappa", 1e-3);
  set(m, "onset", 0.02);
  set(m, "erp", 0.2);
  pbScratch *s = NULL;
  assert_int_equal(pbScratch_Create(ctx, m, NULL, &s), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(ctx), "erp is set and cfm is not"));
  good(ctx, pbModel_SetContact(m, "erp", "off"));
  c = pbModel_ContactSettings(m);
  assert_true(c.kappa == 1e-3 && c.onset == 0.02 && c.erp < 0);
  good(ctx, pbModel_SetContact(m, "method", "penalty"));
  assert_int_equal(pbScratch_Create(ctx, m, NULL, &s), pb_unsupported);
  assert_non_null(strstr(pbContext_Error(ctx), "method penalty does not go with onset"));
  good(ctx, pbModel_SetContact(m, "method", "soft"));
  good(ctx, pbScratch_Create(ctx, m, NULL, &s));
  pbScratch_Destroy(s);
  pbModel_Destroy(m);
}

// Where a field begins in the state.
static int at(const pbModel *m, const char *field) {
  for (int i = 0; i < pbModel_StateFieldCount(m); i++) {
    if (strcmp(pbModel_StateFieldAt(m, i).name, field) == 0) return pbModel_StateFieldAt(m, i).offset;
  }
  fail_msg("no field %s", field);
  return 0;
}

// ---- a ball on a rail above a plane -----------------------------------------------------------------------------------
// Mass 2, radius 0.1, reference "0.02 0.8".
#define BALL(solimp, condim)                                                                             \
  "<mujoco><option timestep='0.002'/><default><geom condim='" condim "' solref='.02 .8' solimp='" solimp \
  "'/></default>"                                                                                        \
  "<worldbody><geom type='plane' size='1 1 .1'/><body pos='0 0 .1'><joint type='slide' axis='0 0 1'/>"   \
  "<geom size='.1' mass='2'/></body></worldbody></mujoco>"

typedef struct Ball {
  pbModel *m;
  pbScratch *s;
  const double *theta;
  double x[16], *height, *speed, *record;
} Ball;

static void begin(Ball *b, pbModel *m, double height, double speed) {
  *b = (Ball){.m = m, .theta = pbModel_DefaultParams(m)};
  good(ctx, pbScratch_Create(ctx, m, NULL, &b->s));
  good(ctx, pbState_Init(ctx, m, b->theta, -1, b->x));
  b->height = b->x + at(m, "qpos");
  b->speed = b->x + at(m, "qvel");
  *b->height = height;
  *b->speed = speed;
  b->record = calloc((size_t)pbTape_Size(m), sizeof(double));
}
static void end(Ball *b) {
  pbScratch_Destroy(b->s);
  free(b->record);
}
static void step(Ball *b) {
  double before[16];
  memcpy(before, b->x, sizeof before);
  good(ctx, pbStep_Forward(b->m, b->theta, b->x, &(pbInput){0}, b->s, NULL));
  pbTape_Record(b->m, before, b->s, b->record);
}
static void jacobian(Ball *b, double A[4]) {
  good(ctx, pbStep_Jacobian(b->m, b->theta, b->record, &(pbInput){0}, b->s, A, NULL, NULL, NULL));
}

// Derivative of the height at rest by entry i of a parameter p: (I - A) dx = df/dp.
static double height_by(Ball *b, const char *name, size_t i) {
  double A[4], rhs[2], w[2];
  pbParam p;
  good(ctx, pbModel_Param(ctx, b->m, name, &p));
  double *theta_bar = malloc(pbModel_ParamSize(b->m) * sizeof(double));
  for (int k = 0; k < 2; k++) {
    double x_bar[2] = {0};
    w[k] = 1;
    w[1 - k] = 0;
    memset(theta_bar, 0, pbModel_ParamSize(b->m) * sizeof(double));
    good(ctx, pbStep_Vjp(b->m, b->theta, b->record, &(pbInput){0}, w, NULL, b->s, x_bar, NULL, theta_bar));
    rhs[k] = theta_bar[p.offset + i];
  }
  free(theta_bar);
  jacobian(b, A);
  double a = 1 - A[0], c = -A[1], d = -A[2], e = 1 - A[3];
  return (e * rhs[0] - c * rhs[1]) / (a * e - c * d);
}

static void close_to(const char *what, double got, double wanted, double rel) {
  if (!(fabs(got - wanted) <= rel * fabs(wanted))) fail_msg("%s: %.15g, not %.15g", what, got, wanted);
}

enum { erp_cfm = 1 };
static void rest(const char *condim, const char *cone, double kappa, int mixing) {
  char text[800];
  snprintf(text, sizeof text, BALL(".9 .9 .001", "%s"), condim);
  pbModel *m = model_of_text(ctx, text);
  const double d = 0.9, h = 0.002, mass = 2, weight = mass * 9.81, tc = 0.02, dr = 0.8, erp = 0.3, cfm = 1e-3;
  good(ctx, pbModel_SetOption(m, "cone", cone));
  set(m, "kappa", kappa);
  if (mixing) {
    set(m, "erp", erp);
    set(m, "cfm", cfm);
  }
  double k = 1 / (d * d * tc * tc * dr * dr) * d, R = (1 - d) / d / mass;  // x = k pos, diagApprox = 1 / mass
  if (mixing) {
    k = erp / (h * h);
    R = cfm / h;
  }
  Ball b;
  begin(&b, m, -1e-3, 0);
  for (int i = 0; i < 4000; i++) step(&b);
  // f (x + R f) = kappa / R at f = weight
  close_to("height at rest", *b.height, (kappa / (R * weight) - R * weight) / k, 1e-10);
  close_to("its derivative by mass", height_by(&b, "body_mass:1", 0), -(kappa / (R * weight * mass) + R * 9.81) / k, 1e-8);
  end(&b);
  pbModel_Destroy(m);
}

static void test_rest(void **state) {
  (void)state;
  rest("1", "pyramidal", 0, 0);
  rest("1", "pyramidal", 0.1, 0);
  rest("3", "elliptic", 0, 0);
  rest("1", "pyramidal", 0, erp_cfm);
  rest("1", "elliptic", 0.1, erp_cfm);
  rest("3", "elliptic", 0, erp_cfm);
}

// J v+ + erp / h pos + cfm f = 0
static void test_mixing_is_a_soft_velocity_constraint(void **state) {
  (void)state;
  pbModel *m = model_of_text(ctx, BALL(".9 .95 .001", "1"));
  set(m, "erp", 0.3);
  set(m, "cfm", 1e-3);
  for (int k = 0; k < 5; k++) {
    double h = 0.002, pos = -1e-4 * (k + 1), v = -0.3 * k;
    Ball b;
    begin(&b, m, pos, v);
    step(&b);
    double f = 2 * ((*b.speed - v) / h + 9.81);
    assert_true(f > 0);
    close_to("velocity constraint", *b.speed + 0.3 / h * pos, -1e-3 * f, 1e-12);
    end(&b);
  }
  pbModel_Destroy(m);
}

// ---- onset ----------------------------------------------------------------------------------------------------------
// Largest jump of the next speed or of a derivative of the step between heights 1e-12 below and above, relative.
static double jump(pbModel *m, double height) {
  double A[2][4], v[2], worst = 0, size = 0;
  for (int side = 0; side < 2; side++) {
    Ball b;
    begin(&b, m, height + (side ? 1e-12 : -1e-12), -1);
    step(&b);
    v[side] = *b.speed;
    jacobian(&b, A[side]);
    end(&b);
  }
  for (int i = 0; i < 4; i++) {
    worst = fmax(worst, fabs(A[1][i] - A[0][i]));
    size = fmax(size, fabs(A[0][i]));
  }
  return fmax(worst / size, fabs(v[1] - v[0] - 2e-12 * A[0][2]) / fabs(v[0]));
}

static void test_nothing_jumps_with_an_onset(void **state) {
  (void)state;
  const double kappas[] = {0, 1};
  const char *const cones[] = {"pyramidal", "elliptic"};
  for (int k = 0; k < 8; k++) {
    pbModel *m = model_of_text(ctx, BALL(".5 .9 .05", "3"));
    good(ctx, pbModel_SetOption(m, "cone", cones[k % 2]));
    if (k & 4) {
      set(m, "erp", 0.3);
      set(m, "cfm", 1e-3);
    }
    assert_true(jump(m, 0) > 1e-2);
    set(m, "onset", 0.02);
    set(m, "kappa", kappas[k / 2 % 2]);
    double touch = jump(m, 0), appear = jump(m, 0.02);
    if (!(touch < 1e-9 && appear < 1e-9)) fail_msg("case %d: jump %.3g at touch, %.3g where the row appears", k, touch, appear);
    pbModel_Destroy(m);
  }
}

// ---- kappa -> 0 -------------------------------------------------------------------------------------------------------
enum { most_x = 512 };
static void one_step(const pbModel *m, double *x) {
  pbScratch *s = NULL;
  good(ctx, pbScratch_Create(ctx, m, NULL, &s));
  good(ctx, pbStep_Forward(m, pbModel_DefaultParams(m), x, &(pbInput){0}, s, NULL));
  pbScratch_Destroy(s);
}

static void test_smoothing_vanishes_in_proportion_to_kappa(void **state) {
  (void)state;
  const char *const cones[] = {"pyramidal", "elliptic"};
  for (int c = 0; c < 2; c++) {
    pbModel *m = NULL;
    double start[most_x], sharp[most_x], x[most_x], before = 0;
    good(ctx, pbModel_Load(ctx, "oracle/models/humanoid62.xml", NULL, &m));
    assert_true(pbModel_StateSize(m) <= most_x);
    good(ctx, pbModel_SetOption(m, "cone", cones[c]));
    good(ctx, pbState_Init(ctx, m, pbModel_DefaultParams(m), -1, start));
    for (int k = 0; k < 319; k++) one_step(m, start);  // it falls and lies
    memcpy(sharp, start, sizeof start);
    one_step(m, sharp);
    for (int power = 4; power <= 8; power++) {
      double error = 0;
      memcpy(x, start, sizeof start);
      set(m, "kappa", pow(10, -power));
      one_step(m, x);
      for (int i = 0, a = at(m, "qacc_warmstart"); i < pbModel_Size(m, "nv"); i++) error += pow(x[a + i] - sharp[a + i], 2);
      double slope = power == 4 ? 1 : log10(before / sqrt(error));
      before = sqrt(error);
      if (!(before > 0 && fabs(slope - 1) < 0.05))
        fail_msg("%s, kappa 1e-%d: difference %.3g, slope %.3g", cones[c], power, before, slope);
    }
    pbModel_Destroy(m);
  }
}

// ---- rows kept from being infinitely hard -------------------------------------------------------------------------------
// dof_invweight0 = 0 makes R = 0, which is replaced by the least one: that does not move with it, nor with the impedance.
static void test_no_gradient_where_the_least_regularisation_holds(void **state) {
  (void)state;
  pbModel *m = model_of_text(ctx,
                             "<mujoco><worldbody><body><joint type='slide' range='-1 1' limited='true'/><geom size='.1'/></body>"
                             "</worldbody></mujoco>");
  pbParam weight, imp;
  good(ctx, pbModel_Param(ctx, m, "dof_invweight0", &weight));
  good(ctx, pbModel_Param(ctx, m, "jnt_solimp", &imp));
  size_t bytes = pbModel_ParamSize(m) * sizeof(double);
  double *theta = malloc(bytes), *theta_bar = calloc(1, bytes), x_bar[2] = {0};
  memcpy(theta, pbModel_DefaultParams(m), bytes);
  theta[weight.offset] = 0;
  Ball b;
  begin(&b, m, 1.01, 0.5);
  b.theta = theta;
  step(&b);
  good(ctx, pbStep_Vjp(m, theta, b.record, &(pbInput){0}, (double[]){0, 1}, NULL, b.s, x_bar, NULL, theta_bar));
  assert_true(theta_bar[weight.offset] == 0);
  for (size_t i = 0; i < pbModel_ParamSize(m); i++) assert_true(isfinite(theta_bar[i]));
  assert_true(isfinite(x_bar[0]) && x_bar[0] != 0);
  free(theta);
  free(theta_bar);
  end(&b);
  pbModel_Destroy(m);
}

// ---- penalty --------------------------------------------------------------------------------------------------------
static pbModel *penalty(const char *text, double stiffness, double damping, double width) {
  pbModel *m = model_of_text(ctx, text);
  good(ctx, pbModel_SetContact(m, "method", "penalty"));
  set(m, "stiffness", stiffness);
  set(m, "damping", damping);
  set(m, "width", width);
  return m;
}

static void test_penalty_rests_at_weight_over_stiffness(void **state) {
  (void)state;
  const double mass = 2, g = 9.81, ks[] = {1e3, 1e5};
  const char *const integrators[] = {"Euler", "implicitfast", "RK4"};
  for (int i = 0; i < 6; i++) {
    double k = ks[i % 2], rest = -mass * g / k;
    pbModel *m = penalty(BALL(".9 .9 .001", "3"), k, 0.5 * sqrt(k), -0.1 * rest);
    good(ctx, pbModel_SetOption(m, "integrator", integrators[i / 2]));
    Ball b;
    begin(&b, m, 0.9 * rest, 0);
    for (int n = 0; n < 4000; n++) step(&b);
    close_to("height at rest", *b.height, rest, 1e-12);
    close_to("its derivative by mass", height_by(&b, "body_mass:1", 0), -g / k, 1e-10);
    close_to("by stiffness", height_by(&b, "contact_stiffness", 0), mass * g / (k * k), 1e-10);
    close_to("by gravity", height_by(&b, "gravity", 2), mass / k, 1e-10);
    assert_true(fabs(height_by(&b, "contact_damping", 0)) < 1e-12 * fabs(rest));
    end(&b);
    pbModel_Destroy(m);
  }
}

// Is the step twice differentiable where the force sets in, where its damping and where its transition end? A kink of the first
// derivative shows in second differences that do not fall with the distance of the points.
static double second_difference(pbModel *m, double height, double speed, double e) {
  double A[3][4], worst = 0;
  for (int i = 0; i < 3; i++) {
    Ball b;
    begin(&b, m, height + (i - 1) * e, speed);
    step(&b);
    jacobian(&b, A[i]);
    end(&b);
  }
  for (int i = 0; i < 4; i++) worst = fmax(worst, fabs(A[0][i] - 2 * A[1][i] + A[2][i]) / e);
  return worst;
}

static void test_penalty_is_smooth(void **state) {
  (void)state;
  const double k = 2e4, c = 100, w = 1e-3, v = 0.05;
  const double heights[] = {0, -w, -w - c * v / k};
  const char *const cones[] = {"pyramidal", "elliptic"};
  for (int i = 0; i < 2; i++) {
    pbModel *m = penalty(BALL(".9 .9 .001", "3"), k, c, w);
    good(ctx, pbModel_SetOption(m, "cone", cones[i]));
    assert_true(jump(m, 0) < 1e-9);
    for (int p = 0; p < 3; p++) {
      double far = second_difference(m, heights[p], v, 1e-2 * w), near = second_difference(m, heights[p], v, 1e-3 * w);
      if (!(near < 0.2 * far || far < 1e-9)) fail_msg("height %g: second differences %.3g, then %.3g", heights[p], far, near);
    }
    pbModel_Destroy(m);
  }
}

// Another time step from here on.
static double *with_timestep(Ball *b, double h) {
  pbParam p;
  good(ctx, pbModel_Param(ctx, b->m, "timestep", &p));
  double *theta = malloc(pbModel_ParamSize(b->m) * sizeof(double));
  memcpy(theta, b->theta, pbModel_ParamSize(b->m) * sizeof(double));
  theta[p.offset] = h;
  b->theta = theta;
  return theta;
}

// Without damping a bounce keeps the energy but for the error of the integrator; with damping it loses some; it never pulls.
static double rebound(double timestep, double damping) {
  pbModel *m = penalty(BALL(".9 .9 .001", "1"), 1e4, damping, 1e-4);
  Ball b;
  begin(&b, m, 0.01, -1);
  double *theta = with_timestep(&b, timestep);
  double energy = 0.5 + 9.81 * 0.01, before;
  do {
    before = *b.speed;
    step(&b);
    assert_true(*b.speed - before >= -9.81 * timestep * (1 + 1e-9));
  } while (*b.height < 0 || *b.speed < 0);
  free(theta);
  energy = (0.5 * *b.speed * *b.speed + 9.81 * *b.height) / energy;
  end(&b);
  pbModel_Destroy(m);
  return energy;
}

static void test_penalty_energy(void **state) {
  (void)state;
  double coarse = fabs(rebound(1e-4, 0) - 1), fine = fabs(rebound(1e-5, 0) - 1), damped = rebound(1e-4, 50);
  if (!(coarse < 2e-3 && fine < 2e-4)) fail_msg("energy after an elastic bounce is off by %.3g and %.3g", coarse, fine);
  assert_true(damped < 0.9 && damped > 0.1);
}

// Sliding: mu g, but for the transition of friction at slow speeds; spinning alike with condim 4.
static void test_penalty_friction(void **state) {
  (void)state;
  const double mu = 0.5, spin = 0.03, g = 9.81, k = 1e4, slip = 0.1, speeds[] = {3, 0.2, 1e-3};
  const char *const cones[] = {"pyramidal", "elliptic"};
  for (int i = 0; i < 6; i++) {
    pbModel *m = penalty(
        "<mujoco><option timestep='0.001'/><worldbody><geom type='plane' size='9 9 1' condim='4' friction='.5 .03 0'/>"
        "<body pos='0 0 .1'><joint type='slide' axis='1 0 0'/><joint type='slide' axis='0 0 1'/><joint axis='0 0 1'/>"
        "<geom size='.1' mass='2' condim='4' friction='.5 .03 0'/></body></worldbody></mujoco>",
        k, 10, 1e-5);
    set(m, "slip", slip);
    good(ctx, pbModel_SetOption(m, "cone", cones[i % 2]));
    Ball b;
    double v = speeds[i / 2], rate = 7 * v, weight = 2 * g, inertia = 0.4 * 2 * 0.01;
    begin(&b, m, 0, 0);
    b.height[1] = -weight / k;
    b.speed[0] = v;
    b.speed[2] = rate;
    step(&b);
    double slide = sqrt(mu * mu * (v * v + slip * slip) + spin * spin * rate * rate);
    double f = mu * mu * v / slide, torque = spin * spin * rate / slide;
    assert_true(f * f / (mu * mu) + torque * torque / (spin * spin) <= 1);
    close_to("deceleration", (v - b.speed[0]) / 0.001, g * f, 1e-9);
    close_to("angular deceleration", (rate - b.speed[2]) / 0.001, weight * torque / inertia, 1e-9);
    assert_true(fabs(b.speed[1]) < 1e-15);
    end(&b);
    pbModel_Destroy(m);
  }
}

// Growth of a small displacement from rest over many steps, a little below and above the time step that is said to be the longest.
static void test_penalty_timestep(void **state) {
  (void)state;
  const char *const integrators[] = {"Euler", "implicitfast", "RK4"};
  const double dampings[] = {0, 20, 400, 4000}, k = 1e4, mass = 2, rest = -mass * 9.81 / k;
  for (int i = 0; i < 12; i++) {
    const char *integrator = integrators[i % 3];
    double c = dampings[i / 3];
    pbModel *m = penalty(BALL(".9 .9 .001", "1"), k, c, 1e-6);
    good(ctx, pbModel_SetOption(m, "integrator", integrator));
    int geoms[2] = {-1, -1};
    double limit = pbModel_ContactTimestep(m, pbModel_DefaultParams(m), geoms);
    if (i % 3 < 2) close_to("longest time step", limit, (sqrt(c * c + 4 * k * mass) - c) / k, 1e-9);
    assert_true(geoms[0] == 0 && geoms[1] == 1);
    bool rough = i % 3 == 2;  // for Runge-Kutta only a bound
    for (int above = 0; above < 2; above++) {
      Ball b;
      begin(&b, m, rest * (1 - 1e-9), 0);
      double *theta = with_timestep(&b, limit * (above ? (rough ? 1.15 : 1.01) : 0.99));
      double most = 0;
      for (int n = 0; n < 3000 && most < 1e-3; n++) {
        step(&b);
        most = fmax(most, fabs(*b.height / rest - 1));
      }
      if (above ? !(most > 1e-6) : !(most < 1e-7))
        fail_msg("%s, damping %g, %s the limit: displacement %.3g", integrator, c, above ? "above" : "below", most);
      free(theta);
      end(&b);
    }
    pbModel_Destroy(m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names_and_ranges),
      cmocka_unit_test(test_rest),
      cmocka_unit_test(test_mixing_is_a_soft_velocity_constraint),
      cmocka_unit_test(test_nothing_jumps_with_an_onset),
      cmocka_unit_test(test_smoothing_vanishes_in_proportion_to_kappa),
      cmocka_unit_test(test_no_gradient_where_the_least_regularisation_holds),
      cmocka_unit_test(test_penalty_rests_at_weight_over_stiffness),
      cmocka_unit_test(test_penalty_is_smooth),
      cmocka_unit_test(test_penalty_energy),
      cmocka_unit_test(test_penalty_friction),
      cmocka_unit_test(test_penalty_timestep),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
