// The other minimisers of a step: they reach what Newton's method reaches, or say that they did not.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/deform.h>
#include <pullback/spec.h>
#include <pullback/world.h>

enum { points = 9, room = 6 * points + 32 };

typedef struct World {
  pbContext *ctx;
  pbModel *model;
  pbScratch *scratch;
  double state[room];
  int at;
} World;

#define OK(call)                                                 \
  do {                                                           \
    if ((call) != pb_ok) fail_msg("%s", pbContext_Error(w.ctx)); \
  } while (0)

static const pbEnergyParameter parameters[] = {{.name = "k", .rows = 1, .cols = 1, .upper = INFINITY},
                                               {.name = "l0", .rows = 1, .cols = 1, .upper = INFINITY}};
static const pbEnergyDef spring = {"spring", "0.5*k*(norm(x0 - x1) - l0)^2", 2, 2, parameters};
static const pbEnergyDef well = {"well", "k*((x0.y^2 - l0^2)^2 + x0.x^2 + x0.z^2)", 1, 2, parameters};

static World empty(pbDeformable **d) {
  World w = {0};
  pbSpec *spec;
  w.ctx = pbContext_Create(NULL);
  OK(pbSpec_Create(w.ctx, &spec));
  spec->option.timestep = 0.02;
  spec->option.gravity[2] = 0;
  OK(pbSpec_Compile(spec, &w.model));
  pbSpec_Destroy(spec);
  OK(pbDeformable_Create(w.ctx, d));
  return w;
}

static void start(World *to, pbDeformable *d, const pbDeformOptions *options) {
  World w = *to;
  OK(pbDeformable_SetOptions(d, options));
  OK(pbModel_SetDeformable(w.model, d));
  pbDeformable_Destroy(d);
  OK(pbScratch_Create(w.ctx, w.model, NULL, &w.scratch));
  assert_true(pbModel_StateSize(w.model) <= room);
  OK(pbState_Init(w.ctx, w.model, pbModel_DefaultParams(w.model), -1, w.state));
  w.at = pbModel_StateFieldAt(w.model, 5).offset;
  *to = w;
}

static pbStatus step(World *w) {
  return pbStep_Forward(w->model, pbModel_DefaultParams(w->model), w->state, NULL, w->scratch, NULL);
}

static void done(World *w) {
  pbScratch_Destroy(w->scratch);
  pbModel_Destroy(w->model);
  pbContext_Destroy(w->ctx);
}

// A rope of stretched springs between fixed ends, its points off the line: the minimum is isolated.
static World rope(const pbDeformOptions *options) {
  pbDeformable *d;
  World w = empty(&d);
  double rest[3 * points], mass[points];
  int ends[2 * (points - 1)], group;
  for (int i = 0; i < points; i++) {
    rest[3 * i] = 0.1 * i;
    rest[3 * i + 1] = i % (points - 1) ? 0.05 * sin(7. * i) : 0;
    rest[3 * i + 2] = i % (points - 1) ? 0.03 * cos(5. * i) : 0;
    mass[i] = 0.1 + 0.02 * (i % 3);
  }
  for (int i = 0; i < points - 1; i++) {
    ends[2 * i] = i;
    ends[2 * i + 1] = i + 1;
  }
  OK(pbDeformable_AddPoints(d, points, rest, mass, NULL, NULL, NULL));
  OK(pbDeformable_AddEnergy(d, "springs", &spring, points - 1, ends, &group));
  OK(pbDeformable_SetParameter(d, group, "k", 1, (double[]){40}));
  OK(pbDeformable_SetParameter(d, group, "l0", 1, (double[]){0.07}));
  OK(pbDeformable_Fix(d, 2, (int[]){0, points - 1}, pb_fixAll));
  start(&w, d, options);
  return w;
}

// Steepest descent of a user's own, with what the interface gives him.
static pbStatus descend(void *user, const pbPotential *p, double *x, int *iterations) {
  double g[3 * points], there[3 * points], value, next, shorten = *(double *)user;
  assert_int_equal(p->n, 3 * points);
  for (*iterations = 0; *iterations < 20000; ++*iterations) {
    double most = 0, slope = 0, s;
    if (!p->evaluate(p, x, &value, g)) return pb_bad_input;
    for (int i = 0; i < p->n; i++) {
      most = fmax(most, fabs(g[i]));
      slope += g[i] * g[i];
    }
    if (most < 1e-13) return pb_ok;
    for (s = p->max_step(p, x, g);; s *= shorten) {
      for (int i = 0; i < p->n; i++) there[i] = x[i] - s * g[i];
      if (p->evaluate(p, there, &next, NULL) && next <= value - 0.1 * s * slope + 1e-17) break;
    }
    memcpy(x, there, sizeof there);
  }
  return pb_no_convergence;
}

// All reach the equilibrium and the state after two implicit steps that Newton's method reaches.
static void test_same_minimum(void **unused) {
  (void)unused;
  static const pbScheme schemes[] = {pb_schemeStatic, pb_schemeImplicitEuler, pb_schemeAvf4};
  double shorten = 0.4;
  for (int k = 0; k < 3; k++) {
    World exact = rope(&(pbDeformOptions){.scheme = schemes[k]});
    assert_int_equal(step(&exact), pb_ok);
    assert_int_equal(step(&exact), pb_ok);
    for (int method = pb_minimizeNewtonCg; method < pb_deformMinimizerCount; method++) {
      if (method == pb_minimizeUser && k == 0) continue;
      double rate = schemes[k] == pb_schemeStatic ? 3e-3 : 3e-4;
      World w = rope(&(pbDeformOptions){.scheme = schemes[k],
                                        .method = (pbDeformMinimizer)method,
                                        .minimize = descend,
                                        .user = &shorten,
                                        .rate = rate,
                                        .iterations = method == pb_minimizeAdam ? 3000 : 0,
                                        .residual = method == pb_minimizeAdam ? 1e-6 : 1e-9});
      for (int i = 0; i < 2; i++) {
        if (step(&w) != pb_ok) fail_msg("%s: %s", pbDeformMinimizer_Name((pbDeformMinimizer)method), pbScratch_Error(w.scratch));
        if (k) assert_true(pbScratch_Report(w.scratch).iterations > 0);
      }
      for (int i = 0; i < 6 * points; i++) {
        double gap = fabs(w.state[w.at + i] - exact.state[exact.at + i]), limit = method == pb_minimizeAdam ? 1e-5 : 1e-7;
        if (!(gap <= limit))
          fail_msg("%s, scheme %d: entry %d is off by %g", pbDeformMinimizer_Name((pbDeformMinimizer)method), k, i, gap);
      }
      done(&w);
    }
    done(&exact);
  }
}

// What each method remembers or knows saves iterations.
static void test_iterations(void **unused) {
  (void)unused;
  static const pbDeformMinimizer methods[] = {pb_minimizeNewton, pb_minimizeNewtonCg, pb_minimizeLbfgs, pb_minimizeGradient};
  static const int least[] = {2, 2, 20, 100}, most[] = {12, 12, 70, 2000};
  for (int k = 0; k < 4; k++) {
    World w = rope(&(pbDeformOptions){.scheme = pb_schemeStatic, .method = methods[k]});
    OK(step(&w));
    int n = pbScratch_Report(w.scratch).iterations;
    if (n < least[k] || n > most[k]) fail_msg("%s: %d iterations", pbDeformMinimizer_Name(methods[k]), n);
    done(&w);
  }
}

// The first step of Adam moves every free coordinate by the rate against the sign of its gradient.
static void test_adam(void **unused) {
  (void)unused;
  World w = rope(&(pbDeformOptions){
      .scheme = pb_schemeStatic, .method = pb_minimizeAdam, .iterations = 1, .rate = 1e-3, .approximate = true});
  double before[room];
  memcpy(before, w.state, sizeof before);
  OK(step(&w));
  for (int i = 0; i < 3 * points; i++) {
    double move = fabs(w.state[w.at + i] - before[w.at + i]);
    assert_true(i < 3 || i >= 3 * points - 3 ? move == 0 : fabs(move - 1e-3) < 1e-9);
  }
  assert_false(pbScratch_Report(w.scratch).converged);
  done(&w);
}

// At the saddle between two wells the matrix is indefinite; a little aside of it all methods go down.
static void test_negative_curvature(void **unused) {
  (void)unused;
  static const pbDeformMinimizer methods[] = {pb_minimizeNewton, pb_minimizeNewtonCg, pb_minimizeLbfgs, pb_minimizeGradient};
  for (int k = 0; k < 4; k++) {
    pbDeformable *d;
    World w = empty(&d);
    int group;
    OK(pbDeformable_AddPoints(d, 1, (double[]){0.3, 1e-3, -0.2}, (double[]){1}, NULL, NULL, NULL));
    OK(pbDeformable_AddEnergy(d, "well", &well, 1, (int[]){0}, &group));
    OK(pbDeformable_SetParameter(d, group, "k", 1, (double[]){3}));
    OK(pbDeformable_SetParameter(d, group, "l0", 1, (double[]){0.5}));
    start(&w, d, &(pbDeformOptions){.scheme = pb_schemeStatic, .method = methods[k]});
    OK(step(&w));
    const double *x = w.state + w.at;
    if (!(fabs(x[0]) + fabs(fabs(x[1]) - 0.5) + fabs(x[2]) < 1e-8))
      fail_msg("%s ends at %g %g %g", pbDeformMinimizer_Name(methods[k]), x[0], x[1], x[2]);
    done(&w);
  }
}

// Flying springs near their rest lengths: differences of the potential are all rounding, slopes still tell.
static void test_tight_tolerance(void **unused) {
  (void)unused;
  for (int k = 0; k < 2; k++) {
    pbDeformable *d;
    World w = empty(&d);
    int group;
    const double rest[9] = {0, 0, 0, 1, 0, 0, 2, 0.5, 0}, velocity[9] = {0.3, -0.5, 0, 0.2, 0.1, 0, -0.4, 0.6, 0};
    OK(pbDeformable_AddPoints(d, 3, rest, (double[]){1, 1.2, 0.9}, NULL, velocity, NULL));
    OK(pbDeformable_AddEnergy(d, "springs", &spring, 3, (int[]){0, 1, 1, 2, 2, 0}, &group));
    OK(pbDeformable_SetParameter(d, group, "k", 1, (double[]){80}));
    OK(pbDeformable_SetParameter(d, group, "l0", 3, (double[]){1, 1.3, 1.4}));
    start(&w, d, k ? &(pbDeformOptions){.method = pb_minimizeLbfgs, .residual = 1e-10} : &(pbDeformOptions){.tolerance = 1e-14});
    for (int i = 0; i < 200; i++) {
      if (step(&w) != pb_ok) fail_msg("step %d: %s", i, pbScratch_Error(w.scratch));
      assert_true(k || pbScratch_Report(w.scratch).iterations < 20);
    }
    done(&w);
  }
}

static pbStatus gives_up(void *user, const pbPotential *p, double *x, int *iterations) {
  (void)p;
  (void)x;
  (void)iterations;
  return *(pbStatus *)user;
}

static pbStatus moves_what_is_fixed(void *user, const pbPotential *p, double *x, int *iterations) {
  (void)user;
  (void)p;
  (void)iterations;
  x[1] += 0.5;
  return pb_ok;
}

static pbStatus loses_itself(void *user, const pbPotential *p, double *x, int *iterations) {
  (void)user;
  (void)p;
  (void)iterations;
  x[5] = NAN;
  return pb_ok;
}

static void test_errors(void **unused) {
  (void)unused;
  pbStatus no = pb_interrupted, yes = pb_ok;
  const struct {
    pbDeformOptions options;
    pbStatus status;
    const char *text;
  } all[] = {{{.method = pb_minimizeGradient, .iterations = 3}, pb_no_convergence, "gradient did not converge: a force of"},
             {{.method = pb_minimizeUser, .minimize = gives_up, .user = &no}, pb_interrupted, "the user's minimizer failed"},
             {{.method = pb_minimizeUser, .minimize = gives_up, .user = &yes}, pb_no_convergence, "user did not converge"},
             {{.method = pb_minimizeUser, .minimize = moves_what_is_fixed}, pb_bad_argument, "moved point 0"},
             {{.method = pb_minimizeUser, .minimize = loses_itself}, pb_not_finite, "left point 1 at"}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    World w = rope(&all[i].options);
    double before[room];
    memcpy(before, w.state, sizeof before);
    assert_int_equal(step(&w), all[i].status);
    if (!strstr(pbScratch_Error(w.scratch), all[i].text)) fail_msg("%s", pbScratch_Error(w.scratch));
    assert_memory_equal(before, w.state, sizeof before);
    done(&w);
  }
}

// What cannot be meant is refused where it is said.
static void test_options(void **unused) {
  (void)unused;
  static const struct {
    pbDeformOptions options;
    const char *text;
  } all[] = {{{.method = (pbDeformMinimizer)-3}, "no method -3"},
             {{.method = pb_deformMinimizerCount}, "no method"},
             {{.method = pb_minimizeUser}, "needs a function"},
             {{.scheme = (pbScheme)-1}, "no scheme -1"},
             {{.residual = -1}, "not negative"},
             {{.rate = NAN}, "not negative"}};
  pbContext *ctx = pbContext_Create(NULL);
  pbDeformable *d;
  assert_int_equal(pbDeformable_Create(ctx, &d), pb_ok);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    assert_int_equal(pbDeformable_SetOptions(d, &all[i].options), pb_bad_argument);
    if (!strstr(pbContext_Error(ctx), all[i].text)) fail_msg("%s", pbContext_Error(ctx));
  }
  pbDeformable_Destroy(d);
  pbContext_Destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_options), cmocka_unit_test(test_same_minimum),       cmocka_unit_test(test_iterations),
      cmocka_unit_test(test_adam),    cmocka_unit_test(test_negative_curvature), cmocka_unit_test(test_tight_tolerance),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
