// Networks: every kind of layer against its closed form and through the same kit: pull against push, push against differences,
// columns of a batch alone, gather against pull; definitions that do not fit; starts.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/policy.h>
#include <pullback/random.h>

#include "mutation.h"
#include "support/meter.h"
#include "policy/exponential.h"
#include "policy/layer.h"
#include "support/support.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static double *numbers(pbRng *rng, size_t n, double scale) {
  double *a = malloc((n + 1) * sizeof *a);
  for (size_t i = 0; i < n; i++) a[i] = scale * pbRng_Normal(rng);
  return a;
}

// Working memory full of NaN, which nothing may come out of.
static void *spoiled(const pbPolicyFunction *f, int batch) {
  size_t size = (f->work_bytes(f->self, batch) + 127) / 64 * 64;
  void *work = aligned_alloc(64, size);
  memset(work, 0xff, size);
  return work;
}

static size_t param_count(const pbPolicyFunction *f) {
  size_t n = 0;
  for (int i = 0; i < f->slices; i++) n += (size_t)f->slice[i].rows * (size_t)f->slice[i].cols;
  return n;
}

// Starts, moved so that no weight is zero; what has bounds stays within them.
static double *parameters(const pbPolicyFunction *f, pbRng *rng) {
  double *p = zeros(param_count(f)), *at = p;
  for (int i = 0; i < f->slices; i++) {
    for (int k = 0; k < f->slice[i].rows * f->slice[i].cols; k++, at++) {
      *at = (f->slice[i].start ? f->slice[i].start[k] : 0) + 0.3 * pbRng_Normal(rng);
      if (f->slice[i].lower < f->slice[i].upper) *at = fmin(fmax(*at, f->slice[i].lower + 0.3), f->slice[i].upper - 0.3);
    }
  }
  return p;
}

// A point with a direction and cotangents.
typedef struct Point {
  const pbPolicyFunction *f;
  int batch;
  size_t o, m, y, p;  // numbers of each
  double *O, *M, *P, *O_dot, *M_dot, *P_dot, *y_bar, *m_next_bar;
} Point;

static Point make_point(const pbPolicyFunction *f, int batch, double scale, uint64_t seed) {
  pbRng rng = pbRng_Seed(seed);
  size_t n = (size_t)batch;
  Point a = {.f = f, .batch = batch, .o = (size_t)f->observations * n, .m = (size_t)f->memory * n, .y = (size_t)f->outputs * n};
  a.p = param_count(f);
  a.O = numbers(&rng, a.o, scale);
  a.M = numbers(&rng, a.m, scale);
  a.P = parameters(f, &rng);
  a.O_dot = numbers(&rng, a.o, 1);
  a.M_dot = numbers(&rng, a.m, 1);
  a.P_dot = numbers(&rng, a.p, 1);
  a.y_bar = numbers(&rng, a.y, 1);
  a.m_next_bar = numbers(&rng, a.m, 1);
  return a;
}

static void drop_point(Point *a) {
  double *all[] = {a->O, a->M, a->P, a->O_dot, a->M_dot, a->P_dot, a->y_bar, a->m_next_bar};
  for (int i = 0; i < COUNT(all); i++) free(all[i]);
}

static void forward_at(const Point *a, double t, double *y, double *m_next) {
  double *O = zeros(a->o), *M = zeros(a->m), *P = zeros(a->p);
  for (size_t i = 0; i < a->o; i++) O[i] = a->O[i] + t * a->O_dot[i];
  for (size_t i = 0; i < a->m; i++) M[i] = a->M[i] + t * a->M_dot[i];
  for (size_t i = 0; i < a->p; i++) P[i] = a->P[i] + t * a->P_dot[i];
  void *work = spoiled(a->f, a->batch);
  assert_int_equal(a->f->forward(a->f->self, a->batch, P, O, M, y, m_next, work), pb_ok);
  free(work);
  free(O);
  free(M);
  free(P);
}

static double weighted(const Point *a, const double *y, const double *m_next) {
  double sum = 0;
  for (size_t i = 0; i < a->y; i++) sum += a->y_bar[i] * y[i];
  for (size_t i = 0; i < a->m; i++) sum += a->m_next_bar[i] * m_next[i];
  return sum;
}

static double phi(const Point *a, double t) {
  double *y = zeros(a->y), *m_next = zeros(a->m);
  forward_at(a, t, y, m_next);
  double value = weighted(a, y, m_next);
  free(y);
  free(m_next);
  return value;
}

typedef struct Bars {
  double *o, *m, *p;
} Bars;

static Bars pull_at(const Point *a, bool by_gather, double before) {
  Bars bar = {zeros(a->o), zeros(a->m), zeros(a->p)};
  for (size_t i = 0; i < a->o; i++) bar.o[i] = before;
  for (size_t i = 0; i < a->m; i++) bar.m[i] = before;
  for (size_t i = 0; i < a->p; i++) bar.p[i] = before;
  const pbPolicyFunction *f = a->f;
  int stride = a->batch + 3;
  double *kept = zeros(f->kept_size * (size_t)stride);
  void *work = spoiled(f, a->batch);
  assert_int_equal(f->pull(f->self, a->batch, a->P, a->O, a->M, a->y_bar, a->m_next_bar, bar.o, bar.m, bar.p,
                           by_gather ? kept : NULL, by_gather ? stride : 0, work),
                   pb_ok);
  if (by_gather) {
    for (size_t i = 0; i < a->p; i++) assert_true(bar.p[i] == before);
    memset(work, 0xff, f->work_bytes(f->self, a->batch));
    assert_int_equal(f->gather(f->self, a->batch, a->P, kept, stride, bar.p, work), pb_ok);
  }
  free(work);
  free(kept);
  return bar;
}

static void drop_bars(Bars *bar) {
  free(bar->o);
  free(bar->m);
  free(bar->p);
}

static void check_derivatives(const pbPolicyFunction *f, const Point *a, const char *what, double rounding) {
  double *y_dot = zeros(a->y), *m_dot = zeros(a->m), size = 1e-300;
  void *work = spoiled(f, a->batch);
  assert_int_equal(f->push(f->self, a->batch, a->P, a->P_dot, a->O, a->O_dot, a->M, a->M_dot, y_dot, m_dot, work), pb_ok);
  free(work);
  Bars bar = pull_at(a, false, 0);
  double reverse = dot_and_size(bar.o, a->O_dot, a->o, &size) + dot_and_size(bar.m, a->M_dot, a->m, &size) +
                   dot_and_size(bar.p, a->P_dot, a->p, &size);
  double forward = weighted(a, y_dot, m_dot);
  if (!(fabs(reverse - forward) <= rounding * 1e4 * size)) FAIL("%s: pull %.17g, push %.17g", what, reverse, forward);

  // Differences, extrapolated (Richardson).
  if (rounding < 1e-12) {
    double h = 1e-4, wide = (phi(a, h) - phi(a, -h)) / (2 * h), narrow = (phi(a, h / 2) - phi(a, -h / 2)) / h;
    double quotient = (4 * narrow - wide) / 3;
    if (!(fabs(quotient - forward) <= 1e-8 * size)) FAIL("%s: push %.12g, difference %.12g", what, forward, quotient);
  }
  drop_bars(&bar);
  free(y_dot);
  free(m_dot);
}

static void check_adding(const Point *a, const char *what, double rounding) {
  Bars bar = pull_at(a, false, 0), more = pull_at(a, false, 2), gathered = pull_at(a, true, 0);
  for (size_t i = 0; i < a->o; i++) assert_true(fabs(more.o[i] - 2 - bar.o[i]) <= 1e-13 * (2 + fabs(bar.o[i])));
  for (size_t i = 0; i < a->m; i++) assert_true(fabs(more.m[i] - 2 - bar.m[i]) <= 1e-13 * (2 + fabs(bar.m[i])));
  for (size_t i = 0; i < a->p; i++) {
    if (!(fabs(more.p[i] - 2 - bar.p[i]) <= 1e4 * rounding * (2 + fabs(bar.p[i]))))
      fail_msg("%s: parameter %zu: %.17g on top of 2 is %.17g", what, i, bar.p[i], more.p[i]);
    if (gathered.p[i] != bar.p[i]) fail_msg("%s: parameter %zu: gather %.17g, pull %.17g", what, i, gathered.p[i], bar.p[i]);
  }
  assert_memory_equal(gathered.o, bar.o, a->o * sizeof(double));
  assert_memory_equal(gathered.m, bar.m, a->m * sizeof(double));
  drop_bars(&bar);
  drop_bars(&more);
  drop_bars(&gathered);
}

// Column b of everything, as a batch of one.
static Point column_of(const Point *a, int b) {
  Point c = *a;
  double **from[] = {&c.O, &c.M, &c.O_dot, &c.M_dot, &c.y_bar, &c.m_next_bar};
  size_t n = (size_t)a->batch, rows[] = {a->o / n, a->m / n, a->o / n, a->m / n, a->y / n, a->m / n};
  for (int k = 0; k < COUNT(from); k++) {
    double *one = zeros(rows[k]);
    for (size_t i = 0; i < rows[k]; i++) one[i] = (*from[k])[i * n + (size_t)b];
    *from[k] = one;
  }
  c.P = zeros(a->p);
  c.P_dot = zeros(a->p);
  memcpy(c.P, a->P, a->p * sizeof *c.P);
  memcpy(c.P_dot, a->P_dot, a->p * sizeof *c.P);
  c.batch = 1;
  c.o /= n;
  c.m /= n;
  c.y /= n;
  return c;
}

static void expect_column(const char *what, const double *all, const double *one, size_t rows, int batch, int b) {
  for (size_t i = 0; i < rows; i++) {
    if (memcmp(&all[i * (size_t)batch + (size_t)b], &one[i], sizeof *one))
      fail_msg("%s: row %zu of column %d of %d: %.17g, alone %.17g", what, i, b, batch, all[i * (size_t)batch + (size_t)b],
               one[i]);
  }
}

static void check_columns(const Point *a, const char *what) {
  double *y = zeros(a->y), *m = zeros(a->m), *one_y = zeros(a->y), *one_m = zeros(a->m);
  double *y_dot = zeros(a->y), *m_dot = zeros(a->m);
  const pbPolicyFunction *f = a->f;
  void *work = spoiled(f, a->batch);
  forward_at(a, 0, y, m);
  assert_int_equal(f->push(f->self, a->batch, a->P, a->P_dot, a->O, a->O_dot, a->M, a->M_dot, y_dot, m_dot, work), pb_ok);
  Bars bar = pull_at(a, false, 0);
  for (int b = 0; b < a->batch; b++) {
    Point c = column_of(a, b);
    forward_at(&c, 0, one_y, one_m);
    expect_column(what, y, one_y, c.y, a->batch, b);
    expect_column(what, m, one_m, c.m, a->batch, b);
    assert_int_equal(f->push(f->self, 1, c.P, c.P_dot, c.O, c.O_dot, c.M, c.M_dot, one_y, one_m, work), pb_ok);
    expect_column(what, y_dot, one_y, c.y, a->batch, b);
    expect_column(what, m_dot, one_m, c.m, a->batch, b);
    Bars one = pull_at(&c, false, 0);
    expect_column(what, bar.o, one.o, c.o, a->batch, b);
    expect_column(what, bar.m, one.m, c.m, a->batch, b);
    drop_bars(&one);
    drop_point(&c);
  }
  drop_bars(&bar);
  double *all[] = {y, m, one_y, one_m, y_dot, m_dot};
  for (int i = 0; i < COUNT(all); i++) free(all[i]);
  free(work);
}

static pbNetwork *network_of(pbContext *ctx, int inputs, const pbLayerDef *layer, int count, bool single) {
  pbNetwork *network;
  if (pbNetwork_Create(ctx, inputs, layer, count, 7, single, &network) != pb_ok) fail_msg("%s", pbContext_Error(ctx));
  return network;
}

// ---- every kind ---------------------------------------------------------------------------------------------------------
static const double frequency[] = {1.5, 0.3}, scale[] = {2, -3, 0.5, 1}, offset[] = {0.1, 0, -1, 4};
static const char *const formulas[] = {"p0*sin(x1) + x0*x3", "d = x0 - x1; select(d > 0, d^2, p1*d)", "tan(x2/4)*p1"},
                         *const constant[] = {"2*pi"};
static const pbLayerDef skip[] = {{.kind = pb_layerDense, .size = 3, .name = "skip"}},
                        deep[] = {{.kind = pb_layerDense, .size = 5, .init = pb_initUniform},
                                  {.kind = pb_layerActivation, .activation = pb_activationTanh},
                                  {.kind = pb_layerDense, .size = 3}};
static const pbChainDef both[] = {{deep, 3}, {skip, 1}};

static const struct {
  const char *what;
  int inputs;
  pbLayerDef layer[3];
  int count;
} kinds[] = {
    {"dense", 6, {{.kind = pb_layerDense, .size = 4}}, 1},
    {"dense, tall", 3, {{.kind = pb_layerDense, .size = 41, .gain = 1.4}}, 1},
    {"relu", 9, {{.kind = pb_layerActivation, .activation = pb_activationRelu}}, 1},
    {"tanh", 9, {{.kind = pb_layerActivation, .activation = pb_activationTanh}}, 1},
    {"elu", 9, {{.kind = pb_layerActivation, .activation = pb_activationElu}}, 1},
    {"softplus", 9, {{.kind = pb_layerActivation, .activation = pb_activationSoftplus}}, 1},
    {"sigmoid", 9, {{.kind = pb_layerActivation, .activation = pb_activationSigmoid}}, 1},
    {"silu", 9, {{.kind = pb_layerActivation, .activation = pb_activationSilu}}, 1},
    {"layernorm", 5, {{.kind = pb_layerNorm}}, 1},
    {"explore", 4, {{.kind = pb_layerExplore, .deviation = 0.7, .drawn = true}}, 1},
    {"explore before tanh",
     3,
     {{.kind = pb_layerDense, .size = 4},
      {.kind = pb_layerExplore, .deviation = 0.7, .drawn = true},
      {.kind = pb_layerActivation, .activation = pb_activationTanh}},
     3},
    {"explore without draws", 4, {{.kind = pb_layerExplore, .deviation = 0.7}}, 1},
    {"clip", 9, {{.kind = pb_layerClip, .lower = -0.7, .upper = 0.4}}, 1},
    {"scale", 4, {{.kind = pb_layerScale, .scale = scale, .offset = offset}}, 1},
    {"normalize", 4, {{.kind = pb_layerNormalize}}, 1},
    {"clock", 3, {{.kind = pb_layerClock, .frequency = frequency, .frequencies = 2}}, 1},
    {"clock alone", 1, {{.kind = pb_layerClock, .frequency = frequency, .frequencies = 1}}, 1},
    {"sum",
     4,
     {{.kind = pb_layerNormalize}, {.kind = pb_layerSum, .chain = both, .chains = 2}, {.kind = pb_layerDense, .size = 2}},
     3},
    {"pd", 6, {{.kind = pb_layerPd, .size = 2, .gain = 3, .kd = 0.2}}, 1},
    {"pd with limits", 6, {{.kind = pb_layerPd, .size = 2, .gain = 3, .kd = 0.2, .limit = 1.5}}, 1},
    {"pid", 6, {{.kind = pb_layerPid, .size = 2, .gain = 3, .kd = 0.2, .ki = 0.7, .interval = 0.02}}, 1},
    {"pid with limits", 6, {{.kind = pb_layerPid, .size = 2, .gain = 3, .ki = 2, .interval = 0.2, .limit = 2, .windup = 0.4}}, 1},
    {"servo", 6, {{.kind = pb_layerServo, .size = 3, .gain = 5, .limit = 2}}, 1},
    {"formula", 4, {{.kind = pb_layerFormula, .formula = formulas, .formulas = 3, .parameter = scale, .parameters = 2}}, 1},
    {"formula of numbers", 0, {{.kind = pb_layerFormula, .formula = constant, .formulas = 1}}, 1},
    {"gru", 5, {{.kind = pb_layerGru, .size = 7}}, 1},
    {"gru between",
     3,
     {{.kind = pb_layerDense, .size = 4}, {.kind = pb_layerGru, .size = 3}, {.kind = pb_layerDense, .size = 2}},
     3},
    {"delay", 3, {{.kind = pb_layerDelay, .size = 4, .delay = 2.3}}, 1},
    {"delay of at most one", 2, {{.kind = pb_layerDelay, .size = 1, .delay = 0.4}}, 1},
    {"two memories",
     6,
     {{.kind = pb_layerDelay, .size = 2, .delay = 0.7},
      {.kind = pb_layerPid, .size = 2, .gain = 2, .ki = 1, .interval = 0.1},
      {.kind = pb_layerGru, .size = 2}},
     3},
};

static void test_every_kind_through_the_kit(void **state) {
  (void)state;
  static const int batches[] = {1, 2, 7, 64};
  pbContext *ctx = pbContext_Create(NULL);

  for (int k = 0; k < COUNT(kinds); k++) {
    for (int single = 0; single < 2; single++) {
      pbNetwork *network = network_of(ctx, kinds[k].inputs, kinds[k].layer, kinds[k].count, single);
      const pbPolicyFunction *f = pbNetwork_Function(network);
      double rounding = single ? 6e-8 : 1.1e-16;
      for (int b = 0; b < COUNT(batches); b++) {
        Point a = make_point(f, batches[b], 1, 11 + (uint64_t)b);
        check_derivatives(f, &a, kinds[k].what, rounding);
        check_adding(&a, kinds[k].what, rounding);
        check_columns(&a, kinds[k].what);
        drop_point(&a);
      }
      pbNetwork_Destroy(network);
    }
  }
  pbContext_Destroy(ctx);
}

#ifdef PULLBACK_MUTATE
static void check_case(const void *index) {
  int k = *(const int *)index;
  pbContext *ctx = pbContext_Create(NULL);
  pbNetwork *network = network_of(ctx, kinds[k].inputs, kinds[k].layer, kinds[k].count, false);
  Point a = make_point(pbNetwork_Function(network), 7, 1, 13);
  check_derivatives(pbNetwork_Function(network), &a, kinds[k].what, 1.1e-16);
  drop_point(&a);
  pbNetwork_Destroy(network);
  pbContext_Destroy(ctx);
}

static void test_every_pullback_is_seen(void **state) {
  (void)state;
#define X(kind, file) {kind, #kind},
  static const struct {
    int kind;
    const char *name;
  } list[] = {PB_LAYER_FILES(X)};
#undef X
  for (int i = 0; i < COUNT(list); i++) {
    const char *red = NULL;
    for (int k = 0; k < COUNT(kinds) && !red; k++) {
      if (sees_mutation(pb_muteLayer, list[i].kind, NULL, check_case, &k)) red = kinds[k].what;
    }
    if (!red) fail_msg("%s: its pullback may be lost", list[i].name);
    print_message("layer,%s,unit/test_network %s,red\n", list[i].name, red);
  }
}
#endif

// A batch of none is nothing, and touches nothing.
static void test_no_columns(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  for (int k = 0; k < COUNT(kinds); k++) {
    pbNetwork *network = network_of(ctx, kinds[k].inputs, kinds[k].layer, kinds[k].count, k % 2);
    Point a = make_point(pbNetwork_Function(network), 0, 1, 5);
    Bars bar = pull_at(&a, true, 0);
    for (size_t i = 0; i < a.p; i++) assert_true(bar.p[i] == 0);
    drop_bars(&bar);
    drop_point(&a);
    pbNetwork_Destroy(network);
  }
  pbContext_Destroy(ctx);
}

// ---- closed forms -------------------------------------------------------------------------------------------------------
static void run(const pbPolicyFunction *f, const double *p, const double *o, const double *m, double *y, double *m_next) {
  void *work = spoiled(f, 1);
  assert_int_equal(f->forward(f->self, 1, p, o, m, y, m_next, work), pb_ok);
  free(work);
}

static void expect_near(const double *a, const double *b, int n) {
  for (int i = 0; i < n; i++) {
    if (!(fabs(a[i] - b[i]) <= 1e-14 * (1 + fabs(b[i])))) fail_msg("entry %d: %.17g, expected %.17g", i, a[i], b[i]);
  }
}

static void test_closed_forms(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  double y[16], m[4];

  // 2 x 3 weights row by row, then the bias.
  pbNetwork *n = network_of(ctx, 3, (pbLayerDef[]){{.kind = pb_layerDense, .size = 2}}, 1, false);
  run(pbNetwork_Function(n), (double[]){1, 2, 3, 4, 5, 6, 10, 20}, (double[]){1, -1, 2}, NULL, y, NULL);
  expect_near(y, (double[]){15, 31}, 2);
  pbNetwork_Destroy(n);

  const double at[] = {-2, -0.5, 0, 0.5, 2}, t = 0.37;
  const double expected[][5] = {{0, 0, 0, 0.5, 2},
                                {tanh(-2), tanh(-0.5), 0, tanh(0.5), tanh(2)},
                                {exp(-2) - 1, exp(-0.5) - 1, 0, 0.5, 2},
                                {log(1 + exp(-2)), log(1 + exp(-0.5)), log(2), log(1 + exp(0.5)), log(1 + exp(2))},
                                {1 / (1 + exp(2)), 1 / (1 + exp(0.5)), 0.5, 1 / (1 + exp(-0.5)), 1 / (1 + exp(-2))},
                                {-2 / (1 + exp(2)), -0.5 / (1 + exp(0.5)), 0, 0.5 / (1 + exp(-0.5)), 2 / (1 + exp(-2))}};
  for (int k = 0; k < pb_activationCount; k++) {
    n = network_of(ctx, 5, (pbLayerDef[]){{.kind = pb_layerActivation, .activation = (pbActivation)k}}, 1, false);
    run(pbNetwork_Function(n), NULL, at, NULL, y, NULL);
    expect_near(y, expected[k], 5);
    pbNetwork_Destroy(n);
  }

  n = network_of(ctx, 2, (pbLayerDef[]){{.kind = pb_layerClock, .frequency = frequency, .frequencies = 2}}, 1, false);
  run(pbNetwork_Function(n), NULL, (double[]){t, 9}, NULL, y, NULL);
  const double turn = 2 * 3.14159265358979323846 * t;
  expect_near(y, (double[]){9, sin(1.5 * turn), cos(1.5 * turn), sin(0.3 * turn), cos(0.3 * turn)}, 5);
  pbNetwork_Destroy(n);

  // tau = kp e - kd v + ki I; the integral of the error 0.5 over 0.1 s on top of 0.2.
  n = network_of(ctx, 3, (pbLayerDef[]){{.kind = pb_layerPid, .size = 1, .gain = 4, .kd = 3, .ki = 2, .interval = 0.1}}, 1,
                 false);
  run(pbNetwork_Function(n), (double[]){4, 3, 2}, (double[]){1.5, 1, 0.25}, (double[]){0.2}, y, m);
  expect_near(y, (double[]){4 * 0.5 - 3 * 0.25 + 2 * 0.25}, 1);
  expect_near(m, (double[]){0.25}, 1);
  pbNetwork_Destroy(n);

  n = network_of(
      ctx, 12,
      (pbLayerDef[]){
          {.kind = pb_layerFormula, .formula = (const char *[]){"p0*x11^2 + x1", "max(x0, p1)"}, .formulas = 2, .parameters = 2}},
      1, false);
  run(pbNetwork_Function(n), (double[]){3, -1}, (double[]){-2, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.5}, NULL, y, NULL);
  expect_near(y, (double[]){0.75 + 5, -1}, 2);
  pbNetwork_Destroy(n);

  // 1.25 decisions ago: a quarter of the way from one decision to two; then everything is one decision older.
  n = network_of(ctx, 1, (pbLayerDef[]){{.kind = pb_layerDelay, .size = 3}}, 1, false);
  const double ago[] = {10, 20, 40}, delays[] = {0, 1.25, 3, 3.5, -1}, delayed[] = {7, 12.5, 40, 40, 7};
  for (int k = 0; k < 5; k++) {
    run(pbNetwork_Function(n), &delays[k], (double[]){7}, ago, y, m);
    expect_near(y, &delayed[k], 1);
    expect_near(m, (double[]){7, 10, 20}, 3);
  }
  pbNetwork_Destroy(n);

  // One state, one input: the gates written out.
  n = network_of(ctx, 1, (pbLayerDef[]){{.kind = pb_layerGru, .size = 1}}, 1, false);
  run(pbNetwork_Function(n), (double[]){0.5, -1, 2, 0.3, 0.7, -0.4, 0.1, 0.2, -0.3}, (double[]){0.6}, (double[]){0.25}, y, m);
  const double r = 1 / (1 + exp(-(0.5 * 0.6 + 0.3 * 0.25 + 0.1))), z = 1 / (1 + exp(-(-1 * 0.6 + 0.7 * 0.25 + 0.2)));
  expect_near(y, (double[]){z * 0.25 + (1 - z) * tanh(2 * 0.6 - 0.4 * r * 0.25 - 0.3)}, 1);
  expect_near(m, y, 1);
  pbNetwork_Destroy(n);

  n = network_of(ctx, 2, (pbLayerDef[]){{.kind = pb_layerServo, .size = 1, .gain = 4, .limit = 1.5}}, 1, false);
  run(pbNetwork_Function(n), (double[]){4}, (double[]){1, 0.75}, NULL, y, NULL);
  expect_near(y, (double[]){1}, 1);
  run(pbNetwork_Function(n), (double[]){4}, (double[]){-1, 0.75}, NULL, y, NULL);
  expect_near(y, (double[]){-1.5}, 1);
  pbNetwork_Destroy(n);
  pbContext_Destroy(ctx);
}

// Against the library of mathematics, over all sizes of numbers.
static void expect_close(double got, double right, double unit, double x, const char *what) {
  if (!(fabs(got - right) <= 4 * unit * fabs(right) + 1e-300)) fail_msg("%s(%.17g): %.17g, expected %.17g", what, x, got, right);
}

static void test_exponentials(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  const pbLayerDef def[] = {{.kind = pb_layerActivation, .activation = pb_activationTanh},
                            {.kind = pb_layerActivation, .activation = pb_activationSigmoid}};
  pbNetwork *single[] = {network_of(ctx, 1, &def[0], 1, true), network_of(ctx, 1, &def[1], 1, true)};

  for (int i = -4000; i <= 4000; i++) {
    double x = i % 2 ? 0.01 * i : copysign(exp(-0.1 * abs(i)), i), y;
    expect_close(pb_tanh(x), tanh(x), 2.3e-16, x, "tanh");
    expect_close(pb_sigmoid(x), 1 / (1 + exp(-x)), 2.3e-16, x, "sigmoid");
    expect_close(pb_expm1(-fabs(x)), expm1(-fabs(x)), 2.3e-16, x, "expm1");

    double near = (float)x;
    if (fabs(near) < 1e-30) continue;
    run(pbNetwork_Function(single[0]), NULL, &near, NULL, &y, NULL);
    expect_close(y, tanh(near), 1.2e-7, near, "tanh in float");
    run(pbNetwork_Function(single[1]), NULL, &near, NULL, &y, NULL);
    expect_close(y, 1 / (1 + exp(-near)), 1.2e-7, near, "sigmoid in float");
  }

  assert_true(pb_tanh(1e300) == 1 && pb_tanh(-INFINITY) == -1 && isnan(pb_tanh(NAN)) && pb_sigmoid(INFINITY) == 1);
  assert_true(pb_sigmoid(-1000) < 1e-300 && pb_expm1(-1e9) == -1 && isnan(pb_expm1(NAN)) && isnan(pb_sigmoid(NAN)));
  for (int i = 0; i < 2; i++) pbNetwork_Destroy(single[i]);
  pbContext_Destroy(ctx);
}

// What descends from beyond a bound is let through inwards alone; forward mode is the program's.
static void test_clip_projected(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  for (int projected = 0; projected < 2; projected++) {
    pbLayerDef def = {.kind = pb_layerClip, .lower = -1, .upper = 1, .projected = projected};
    pbNetwork *n = network_of(ctx, 6, &def, 1, false);
    const pbPolicyFunction *f = pbNetwork_Function(n);
    const double x[] = {1.5, 1.5, -1.5, -1.5, 0.5, 1}, bar[] = {1, -1, 1, -1, -2, -2};
    double x_bar[6] = {0}, y[6], dot_of[6];
    void *work = spoiled(f, 1);
    assert_true(!f->exact == !projected);
    run(f, NULL, x, NULL, y, NULL);
    expect_near(y, (double[]){1, 1, -1, -1, 0.5, 1}, 6);
    assert_int_equal(f->pull(f->self, 1, NULL, x, NULL, bar, NULL, x_bar, NULL, NULL, NULL, 0, work), pb_ok);
    expect_near(x_bar, projected ? (double[]){1, 0, 0, -1, -2, -2} : (double[]){0, 0, 0, 0, -2, -2}, 6);
    assert_int_equal(f->push(f->self, 1, NULL, NULL, x, bar, NULL, NULL, dot_of, NULL, work), pb_ok);
    expect_near(dot_of, (double[]){0, 0, 0, 0, -2, -2}, 6);

    // The twin has the program's derivative.
    memset(x_bar, 0, sizeof x_bar);
    const pbPolicyFunction *e = projected ? f->exact : f;
    assert_int_equal(e->pull(e->self, 1, NULL, x, NULL, bar, NULL, x_bar, NULL, NULL, NULL, 0, work), pb_ok);
    expect_near(x_bar, (double[]){0, 0, 0, 0, -2, -2}, 6);
    free(work);
    pbNetwork_Destroy(n);
  }
  pbContext_Destroy(ctx);
}

// ---- starts and names ---------------------------------------------------------------------------------------------------
static double worst_product(const double *w, int count, int length, size_t step, size_t along, double gain) {
  double worst = 0;
  for (int i = 0; i < count; i++) {
    for (int j = 0; j <= i; j++) {
      double sum = 0;
      for (int k = 0; k < length; k++) sum += w[(size_t)i * step + (size_t)k * along] * w[(size_t)j * step + (size_t)k * along];
      worst = fmax(worst, fabs(sum - (i == j ? gain * gain : 0)));
    }
  }
  return worst;
}

static void test_starts(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  static const int sizes[][2] = {{1, 1}, {16, 16}, {81, 40}, {40, 81}, {130, 100}};
  for (int k = 0; k < COUNT(sizes); k++) {
    int rows = sizes[k][0], cols = sizes[k][1];
    pbNetwork *n = network_of(ctx, cols, (pbLayerDef[]){{.kind = pb_layerDense, .size = rows, .gain = 1.5}}, 1, false);
    const double *w = pbNetwork_Function(n)->slice[0].start;
    double worst =
        rows <= cols ? worst_product(w, rows, cols, (size_t)cols, 1, 1.5) : worst_product(w, cols, rows, 1, (size_t)cols, 1.5);
    assert_true(worst < 1e-13);
    pbNetwork_Destroy(n);
  }

  // Two layers of one size start differently, another seed too, the same seed alike.
  const pbLayerDef two[] = {{.kind = pb_layerDense, .size = 8},
                            {.kind = pb_layerDense, .size = 8},
                            {.kind = pb_layerDense, .size = 2, .init = pb_initZero}};
  pbNetwork *a, *b, *c;
  assert_int_equal(pbNetwork_Create(ctx, 8, two, 3, 1, false, &a), pb_ok);
  assert_int_equal(pbNetwork_Create(ctx, 8, two, 3, 1, true, &b), pb_ok);
  assert_int_equal(pbNetwork_Create(ctx, 8, two, 3, 2, false, &c), pb_ok);
  const pbPolicySlice *sa = pbNetwork_Function(a)->slice, *sb = pbNetwork_Function(b)->slice, *sc = pbNetwork_Function(c)->slice;
  assert_memory_equal(sa[0].start, sb[0].start, 64 * sizeof(double));
  assert_memory_not_equal(sa[0].start, sa[2].start, 64 * sizeof(double));
  assert_memory_not_equal(sa[0].start, sc[0].start, 64 * sizeof(double));
  assert_memory_not_equal(sa[2].start, sc[0].start, 64 * sizeof(double));
  assert_null(sa[4].start);
  pbNetwork_Destroy(a);
  pbNetwork_Destroy(b);
  pbNetwork_Destroy(c);
  pbContext_Destroy(ctx);
}

static void test_slices_have_names(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  const pbLayerDef layers[] = {{.kind = pb_layerNormalize},
                               {.kind = pb_layerSum, .chain = both, .chains = 2},
                               {.kind = pb_layerDense, .size = 2, .name = "out"}};
  static const char *const names[] = {"0.mean",     "0.deviation",     "1.0.0.weight",  "1.0.0.bias", "1.0.2.weight",
                                      "1.0.2.bias", "1.1.skip.weight", "1.1.skip.bias", "out.weight", "out.bias"};
  pbNetwork *n = network_of(ctx, 4, layers, 3, false);
  const pbPolicyFunction *f = pbNetwork_Function(n);
  assert_int_equal(f->slices, COUNT(names));
  for (int i = 0; i < COUNT(names); i++) {
    assert_string_equal(f->slice[i].name, names[i]);
    assert_true(f->slice[i].fixed == (i < 2));
  }
  assert_int_equal(f->slice[2].rows, 5);
  assert_int_equal(f->slice[2].cols, 4);
  assert_int_equal(f->outputs, 2);
  pbNetwork_Destroy(n);

  pbLayerKind kind;
  pbActivation activation;
  for (int k = 0; k < pb_layerKindCount; k++)
    assert_true(pbLayerKind_Named(pbLayerKind_Name((pbLayerKind)k), &kind) && (int)kind == k);
  for (int k = 0; k < pb_activationCount; k++)
    assert_true(pbActivation_Named(pbActivation_Name((pbActivation)k), &activation) && (int)activation == k);
  assert_null(pbLayerKind_Name(pb_layerKindCount));
  assert_null(pbActivation_Name(pb_activationCount));
  assert_false(pbLayerKind_Named("lstm", &kind) || pbLayerKind_Named(NULL, &kind) || pbActivation_Named("gelu", &activation));
  pbContext_Destroy(ctx);
}

// ---- what does not fit --------------------------------------------------------------------------------------------------
static void test_definitions_that_do_not_fit(void **state) {
  (void)state;
  const double bad[] = {1, NAN, 1, 1};
  const pbLayerDef twins[] = {{.kind = pb_layerDense, .size = 3, .name = "a"}, {.kind = pb_layerDense, .size = 3, .name = "a"}};
  const pbLayerDef narrow[] = {{.kind = pb_layerDense, .size = 2}},
                   wrong[] = {{.kind = pb_layerActivation}, {.kind = pb_layerClip, .lower = 1}};
  const pbChainDef unequal[] = {{deep, 3}, {narrow, 1}}, inner[] = {{wrong, 2}}, empty[] = {{NULL, 0}};
  // a dense layer behind it; another squash than tanh
  const pbLayerDef explored[] = {{.kind = pb_layerExplore, .deviation = 1},
                                 {.kind = pb_layerExplore, .deviation = 1},
                                 {.kind = pb_layerActivation, .activation = pb_activationElu}};
  const pbChainDef hidden[] = {{explored, 1}};
  const struct {
    int inputs, count;
    const pbLayerDef *layer;
    const char *text;
  } cases[] = {
      {3, 0, twins, "at least one layer"},
      {-1, 1, twins, "-1 inputs"},
      {3, 1, &(pbLayerDef){.kind = pb_layerKindCount}, "layer 0 (?): 15 is no kind"},
      {3, 1, &(pbLayerDef){.kind = pb_layerDense}, "layer 0 (dense): size 0"},
      {0, 1, &(pbLayerDef){.kind = pb_layerDense, .size = 3}, "no inputs"},
      {3, 1, &(pbLayerDef){.kind = pb_layerDense, .size = 3, .gain = NAN}, "gain is nan"},
      {3, 1, &(pbLayerDef){.kind = pb_layerDense, .size = 3, .init = 7}, "7 is no init"},
      {1 << 20, 1, &(pbLayerDef){.kind = pb_layerDense, .size = 1 << 20}, "too many"},
      {3, 1, &(pbLayerDef){.kind = pb_layerDense, .size = 3, .name = "a.b"}, "the name 'a.b'"},
      {3, 2, twins, "layer 1 (dense): another layer has slices of the same name, 'a.weight'"},
      {3, 1, &(pbLayerDef){.kind = pb_layerActivation, .activation = 9}, "9 is no activation"},
      {3, 1, &(pbLayerDef){.kind = pb_layerClip, .lower = 2, .upper = 2}, "lower bound 2"},
      {3, 1, &(pbLayerDef){.kind = pb_layerClip, .lower = NAN, .upper = 2}, "lower bound nan"},
      {4, 1, &(pbLayerDef){.kind = pb_layerScale, .scale = bad}, "scale[1] is nan"},
      {4, 1, &(pbLayerDef){.kind = pb_layerScale, .offset = bad}, "offset[1] is nan"},
      {4, 1, &(pbLayerDef){.kind = pb_layerClock}, "0 frequencies"},
      {4, 1, &(pbLayerDef){.kind = pb_layerClock, .frequency = bad, .frequencies = 2}, "frequency[1] is nan"},
      {1, 1, &(pbLayerDef){.kind = pb_layerNorm}, "its inputs are 1"},
      {4, 1, &(pbLayerDef){.kind = pb_layerExplore}, "deviation 0: more than 0"},
      {4, 1, &(pbLayerDef){.kind = pb_layerExplore, .deviation = INFINITY}, "deviation inf: more than 0"},
      {0, 1, &(pbLayerDef){.kind = pb_layerExplore, .deviation = 1}, "no inputs"},
      {4, 2, explored, "layer 1 (explore): behind \"explore\" comes tanh, or nothing"},
      {4, 2, explored + 1, "layer 1 (activation): behind \"explore\" comes tanh"},
      {4, 1, &(pbLayerDef){.kind = pb_layerSum, .chain = hidden, .chains = 1}, "chain 0, layer 0 (explore): it stands in a sum"},
      {4, 1, &(pbLayerDef){.kind = pb_layerSum}, "0 chains"},
      {4, 1, &(pbLayerDef){.kind = pb_layerSum, .chain = empty, .chains = 1}, "chain 0 has no layers"},
      {4, 1, &(pbLayerDef){.kind = pb_layerSum, .chain = unequal, .chains = 2}, "chain 1 has 2 outputs, chain 0 has 3"},
      {4, 1, &(pbLayerDef){.kind = pb_layerSum, .chain = inner, .chains = 1},
       "layer 0 (sum), chain 0, layer 1 (clip): its lower"},
      {4, 1, &(pbLayerDef){.kind = pb_layerPd, .size = 2}, "4 inputs: 3 for each of 2 outputs"},
      {4, 1, &(pbLayerDef){.kind = pb_layerServo, .size = 1}, "4 inputs: 2 for each of 1 outputs"},
      {3, 1, &(pbLayerDef){.kind = pb_layerPd, .size = 1, .limit = -1}, "limit -1"},
      {3, 1, &(pbLayerDef){.kind = pb_layerPd, .size = 1, .kd = NAN}, "kd is nan"},
      {3, 1, &(pbLayerDef){.kind = pb_layerPid, .size = 1}, "interval 0"},
      {3, 1, &(pbLayerDef){.kind = pb_layerFormula}, "0 formulas"},
      {3, 1, &(pbLayerDef){.kind = pb_layerFormula, .formula = (const char *[]){"x0", "x0 + x3"}, .formulas = 2}, "output 1: "},
      {3, 1, &(pbLayerDef){.kind = pb_layerFormula, .formula = (const char *[]){"p0*x0"}, .formulas = 1}, "unknown name 'p0'"},
      {3, 1, &(pbLayerDef){.kind = pb_layerFormula, .formula = (const char *[]){"x0 +"}, .formulas = 1}, "line 1"},
      {3, 1, &(pbLayerDef){.kind = pb_layerFormula, .formula = (const char *[]){"[x0, x1]"}, .formulas = 1}, "scalar"},
      {3, 1, &(pbLayerDef){.kind = pb_layerFormula, .formula = constant, .formulas = 1, .parameter = bad, .parameters = 2},
       "parameter[1] is nan"},
      {3, 1, &(pbLayerDef){.kind = pb_layerGru}, "layer 0 (gru): size 0"},
      {3, 1, &(pbLayerDef){.kind = pb_layerDelay, .size = 2, .delay = 2.5}, "delay 2.5"},
      {3, 1, &(pbLayerDef){.kind = pb_layerDelay, .size = 2, .delay = NAN}, "delay nan"},
      {3, 1, &(pbLayerDef){.kind = pb_layerPid, .size = 1, .interval = 1, .windup = NAN}, "windup nan"},
  };
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  for (int i = 0; i < COUNT(cases); i++) {
    pbNetwork *n = (pbNetwork *)1;
    assert_int_equal(pbNetwork_Create(ctx, cases[i].inputs, cases[i].layer, cases[i].count, 0, false, &n), pb_bad_argument);
    if (!strstr(pbContext_Error(ctx), cases[i].text))
      fail_msg("case %d: '%s' has no '%s'", i, pbContext_Error(ctx), cases[i].text);
    assert_null(n);
    assert_int_equal(meter.live, 1);
  }
  pbContext_Destroy(ctx);
}

static void test_every_allocation_fails_in_turn(void **state) {
  (void)state;
  const pbLayerDef layers[] = {{.kind = pb_layerNormalize},
                               {.kind = pb_layerScale, .scale = scale},
                               {.kind = pb_layerNorm},
                               {.kind = pb_layerClock, .frequency = frequency, .frequencies = 1},
                               {.kind = pb_layerSum, .chain = both, .chains = 2},
                               {.kind = pb_layerPid, .size = 1, .interval = 1},
                               {.kind = pb_layerDelay, .size = 1},
                               {.kind = pb_layerGru, .size = 1},
                               {.kind = pb_layerFormula, .formula = (const char *[]){"x0*p0"}, .formulas = 1, .parameters = 1},
                               {.kind = pb_layerClip, .upper = 1, .projected = true}};
  for (long at = 1;; at++) {
    Meter meter = {.fail_at = at};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&hooks);
    if (!ctx) continue;
    pbNetwork *n;
    pbStatus status = pbNetwork_Create(ctx, 4, layers, COUNT(layers), 0, false, &n);
    if (status == pb_ok) {
      assert_true(at > 20);
      pbNetwork_Destroy(n);
      pbContext_Destroy(ctx);
      assert_int_equal(meter.live, 0);
      break;
    }
    assert_int_equal(status, pb_no_memory);
    assert_int_equal(meter.live, 1);
    pbContext_Destroy(ctx);
  }
}

// NaN of an observation comes out, and in its own column alone.
static void test_nan_stays_in_its_column(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  for (int k = 0; k < COUNT(kinds); k++) {
    pbNetwork *network = network_of(ctx, kinds[k].inputs, kinds[k].layer, kinds[k].count, false);
    Point a = make_point(pbNetwork_Function(network), 5, 1, 3);
    double *y = zeros(a.y), *m = zeros(a.m), *z = zeros(a.y), *w = zeros(a.m);
    forward_at(&a, 0, y, m);
    for (int i = 0; i < kinds[k].inputs; i++) a.O[5 * i + 2] = NAN;
    for (size_t i = 2; i < a.m; i += 5) a.M[i] = NAN;
    forward_at(&a, 0, z, w);
    for (size_t i = 0; i < a.y; i++) {
      if (i % 5 == 2 && kinds[k].inputs) assert_true(isnan(z[i]));
      else assert_true(z[i] == y[i]);
    }
    free(y);
    free(m);
    free(z);
    free(w);
    drop_point(&a);
    pbNetwork_Destroy(network);
  }
  pbContext_Destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {

#ifdef PULLBACK_MUTATE
      cmocka_unit_test(test_every_pullback_is_seen),
#endif
      cmocka_unit_test(test_every_kind_through_the_kit),
      cmocka_unit_test(test_no_columns),
      cmocka_unit_test(test_closed_forms),
      cmocka_unit_test(test_exponentials),
      cmocka_unit_test(test_clip_projected),
      cmocka_unit_test(test_starts),
      cmocka_unit_test(test_slices_have_names),
      cmocka_unit_test(test_definitions_that_do_not_fit),
      cmocka_unit_test(test_every_allocation_fails_in_turn),
      cmocka_unit_test(test_nan_stays_in_its_column),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
