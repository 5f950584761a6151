// Second derivatives: a pendulum's in closed form; products of a rollout's Hessian beside extrapolated differences of its
// gradient and symmetric, through contact, limits, friction, balls and filters, by every integrator and cone; what is refused,
// and why; batches of worlds beside each of them; memory that fails.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/meter.h"
#include "support/support.h"

#include <pullback/pullback.h>

enum { steps = 12, most = 64 };

// A free box that lands on an edge and slides, an arm of a ball and a hinge at its limit, springs and dampers, a filter.
static const char scene[] =
    "<mujoco><option timestep='0.004'/><worldbody><geom type='plane' size='5 5 .1'/>"
    "<body pos='0 0 .075'><freejoint name='root'/><geom type='box' size='.1 .15 .08' mass='1' friction='.4'/></body>"
    "<body name='arm' pos='1 0 .4'><joint name='swing' type='ball' damping='.1' stiffness='3'/>"
    "<geom type='capsule' size='.03' fromto='0 0 0 .4 0 .1'/><body name='hand' pos='.4 0 .1'>"
    "<joint name='wrist' axis='0 1 0' damping='.05' frictionloss='.01' range='-10 20' limited='true'/>"
    "<geom type='capsule' size='.02' fromto='0 0 0 .3 0 0'/><site name='end' pos='.3 0 0'/></body></body></worldbody>"
    "<actuator><general name='slow' joint='wrist' dyntype='filter' dynprm='.05' gainprm='2'/>"
    "<motor joint='root' gear='4 0 1 .2 0 0'/><position joint='wrist' kp='3'/></actuator>"
    "<sensor><framepos objtype='site' objname='end'/><gyro site='end'/><actuatorfrc actuator='slow'/></sensor></mujoco>";

typedef struct World {
  pbContext *ctx;
  pbModel *model;
  pbRollout *rollout;
  int n, nv, nu, ns, nx, all;  // all: of a point, x0 and then the controls of all steps
  double *x0, *ctrl, *theta;
} World;

static World open_world(const char *text, const char *integrator, const char *cone) {
  World w = {.ctx = pbContext_Create(NULL)};
  w.model = model_of_text(w.ctx, text);
  good(w.ctx, pbModel_SetOption(w.model, "integrator", integrator));
  good(w.ctx, pbModel_SetOption(w.model, "cone", cone));
  pbRolloutPlan plan;
  good(w.ctx, pbRollout_PlanSlots(w.ctx, w.model, steps, 0, steps, &plan));
  good(w.ctx, pbRollout_Create(w.ctx, w.model, &plan, NULL, &w.rollout));
  w.n = pbModel_TangentSize(w.model);
  w.nv = pbModel_Size(w.model, "nv");
  w.nu = pbModel_Size(w.model, "nu");
  w.ns = pbModel_Size(w.model, "nsensordata");
  w.nx = pbModel_StateSize(w.model);
  w.all = w.n + steps * w.nu;
  w.x0 = zeros((size_t)w.nx);
  w.theta = zeros(pbModel_ParamSize(w.model));
  memcpy(w.theta, pbModel_DefaultParams(w.model), pbModel_ParamSize(w.model) * sizeof *w.theta);
  w.ctrl = zeros((size_t)(steps * w.nu));

  // Somewhere, in motion.
  uint64_t seed = 5;
  double push[most];
  good(w.ctx, pbState_Init(w.ctx, w.model, pbModel_DefaultParams(w.model), -1, w.x0));
  fill_noise(&seed, push, w.n, 0.2);
  for (int i = 0; i < 6; i++) push[i] *= 0.05;
  for (int i = w.nv; i < w.n; i++) push[i] *= 3;
  pbState_Move(w.model, w.x0, push, 1);
  fill_noise(&seed, w.ctrl, steps * w.nu, 1);
  return w;
}

static void close_world(World *w) {
  free(w->x0);
  free(w->ctrl);
  free(w->theta);
  pbRollout_Destroy(w->rollout);
  pbModel_Destroy(w->model);
  pbContext_Destroy(w->ctx);
}

// A loss: half of the squares of velocities and sensors at every state.
typedef struct Loss {
  double *qvel, *sensors;  // (steps + 1) x nv, ns
} Loss;

static void run_at(const World *w, const double *d, double by, double *x, double *ctrl, Loss *loss) {
  memcpy(x, w->x0, (size_t)w->nx * sizeof *x);
  pbState_Move(w->model, x, d, by);
  for (int i = 0; i < steps * w->nu; i++) ctrl[i] = w->ctrl[i] + by * d[w->n + i];

  double *states = zeros((size_t)((steps + 1) * w->nx));
  pbRolloutOutput out = {.states = states, .sensordata = loss->sensors};
  good(w->ctx, pbRollout_Forward(w->rollout, w->theta, x, &(pbRolloutInput){.ctrl = ctrl}, &out));
  int qvel = 1 + pbModel_Size(w->model, "nq");  // behind the time
  for (int k = 0; k <= steps; k++) memcpy(loss->qvel + k * w->nv, states + k * w->nx + qvel, (size_t)w->nv * sizeof *states);
  free(states);
}

static pbRolloutBar bar_of(const Loss *loss) {
  return (pbRolloutBar){.qvel = {loss->qvel, steps + 1, NULL}, .sensordata = {loss->sensors, steps + 1, NULL}};
}

static Loss make_loss(const World *w) {
  return (Loss){zeros((size_t)((steps + 1) * w->nv)), zeros((size_t)((steps + 1) * w->ns))};
}

static void free_loss(Loss *loss) {
  free(loss->qvel);
  free(loss->sensors);
}

// v + w x v / 2 of the rotations of a start that has moved by w (test scene: the free body's, and the ball's).
static void turn(const double *d, double by, double *g) {
  static const int at[] = {3, 6};
  for (int j = 0; j < 2; j++) {
    const double *r = d + at[j], v[3] = {g[at[j]], g[at[j] + 1], g[at[j] + 2]};
    for (int i = 0; i < 3; i++) {
      int p = (i + 1) % 3, q = (i + 2) % 3;
      g[at[j] + i] += by / 2 * (r[p] * v[q] - r[q] * v[p]);
    }
  }
}

static void gradient_at(const World *w, const double *d, double by, double *g) {
  double *x = zeros((size_t)w->nx), *ctrl = zeros((size_t)(steps * w->nu));
  Loss loss = make_loss(w);
  run_at(w, d, by, x, ctrl, &loss);
  pbRolloutBar bar = bar_of(&loss);
  memset(g, 0, (size_t)w->all * sizeof *g);
  pbRolloutGradient gradient = {.x0 = g, .ctrl = g + w->n};
  good(w->ctx, pbRollout_Vjp(w->rollout, &bar, &(pbVjpOptions){0}, &gradient, NULL));
  turn(d, by, g);
  free(x);
  free(ctrl);
  free_loss(&loss);
}

static void product(const World *w, const double *d, const double *by_theta, double *Hd) {
  double *x = zeros((size_t)w->nx), *ctrl = zeros((size_t)(steps * w->nu)), *moved = zeros((size_t)((steps + 1) * w->n));
  Loss loss = make_loss(w), tangent = make_loss(w);
  run_at(w, d, 0, x, ctrl, &loss);
  const pbRolloutDirection along = {.x0 = d, .ctrl = d + w->n, .theta = by_theta};
  good(w->ctx, pbRollout_Jvp(w->rollout, 1, &along, &(pbRolloutTangent){.x = moved, .sensordata = tangent.sensors}));
  for (int k = 0; k <= steps; k++) memcpy(tangent.qvel + k * w->nv, moved + k * w->n + w->nv, (size_t)w->nv * sizeof *moved);

  pbRolloutBar bar = bar_of(&loss), bar_tangent = bar_of(&tangent);
  memset(Hd, 0, (size_t)w->all * sizeof *Hd);
  const pbRolloutSecond second = {
      .direction = &along, .bar = &bar, .bar_tangent = &bar_tangent, .gradient = {.x0 = Hd, .ctrl = Hd + w->n}};
  good(w->ctx, pbRollout_Second(w->rollout, &second));
  free(x);
  free(ctrl);
  free(moved);
  free_loss(&loss);
  free_loss(&tangent);
}

static void differences(const World *w, const double *d, double base, double *Hd) {
  static const double weight[3] = {64. / 45, -20. / 45, 1. / 45};
  double *ahead = zeros((size_t)w->all), *behind = zeros((size_t)w->all);
  memset(Hd, 0, (size_t)w->all * sizeof *Hd);
  for (int k = 0; k < 3; k++) {
    double h = base * (1 << k);
    gradient_at(w, d, h, ahead);
    gradient_at(w, d, -h, behind);
    for (int i = 0; i < w->all; i++) Hd[i] += weight[k] * (ahead[i] - behind[i]) / (2 * h);
  }
  free(ahead);
  free(behind);
}

static double largest(const double *v, int n) {
  double size = 0;
  for (int i = 0; i < n; i++) size = fmax(size, fabs(v[i]));
  return size;
}

// Of every integrator and cone. Where a difference is taken over a kink it says nothing: moves get shorter until it does.
static void check_rollout(const char *integrator, const char *cone) {
  World w = open_world(scene, integrator, cone);
  uint64_t seed = 9;
  size_t all = (size_t)w.all;
  double *d[2], *H[2], *expected = zeros(all);
  for (int k = 0; k < 2; k++) {
    d[k] = zeros(all);
    H[k] = zeros(all);
    fill_noise(&seed, d[k], w.all, 1);
    for (int i = 0; i < 6; i++) d[k][i] *= 0.1;
    product(&w, d[k], NULL, H[k]);
  }

  double size = largest(H[0], w.all), worst = INFINITY;
  for (double base = 1e-4; base > 1e-7 && worst > 1e-10 * size; base /= 4) {
    double off = 0;
    differences(&w, d[0], base, expected);
    for (int i = 0; i < w.all; i++) off = fmax(off, fabs(H[0][i] - expected[i]));
    worst = fmin(worst, off);
  }
  double terms = 0, one = dot_and_size(d[1], H[0], all, &terms), other = dot_and_size(d[0], H[1], all, &terms);
  print_message("%s, %s: up to %.3g, off by %.2g of it; not symmetric by %.2g of the terms\n", integrator, cone, size,
                worst / size, fabs(one - other) / terms);
  assert_true(size > 1 && worst <= 1e-9 * size && fabs(one - other) <= 1e-12 * terms);
  for (int k = 0; k < 2; k++) {
    free(d[k]);
    free(H[k]);
  }
  free(expected);
  close_world(&w);
}

static void test_rollout(void **state) {
  (void)state;
  static const char *const integrators[] = {"Euler", "implicitfast", "RK4"};
  for (int i = 0; i < 3; i++) {
    check_rollout(integrators[i], "pyramidal");
    check_rollout(integrators[i], "elliptic");
  }
}

// The gradient by state and controls as parameters move, those that are not zero.
static void test_parameters(void **state) {
  (void)state;
  static const double weight[3] = {64. / 45, -20. / 45, 1. / 45};
  World w = open_world(scene, "implicitfast", "elliptic");
  uint64_t seed = 4;
  size_t all = (size_t)w.all, np = pbModel_ParamSize(w.model);
  double *still = zeros(all), *H = zeros(all), *expected = zeros(all), *g = zeros(all), *by = zeros(np), *theta = zeros(np);
  fill_noise(&seed, by, (int)np, 0.1);
  memcpy(theta, w.theta, np * sizeof *theta);
  for (size_t i = 0; i < np; i++) by[i] *= theta[i];
  product(&w, still, by, H);

  double size = largest(H, w.all), worst = INFINITY;
  for (double base = 1e-4; base > 1e-7 && worst > 1e-10 * size; base /= 4) {
    double off = 0;
    memset(expected, 0, all * sizeof *expected);
    for (int k = 0; k < 6; k++) {
      double h = base * (1 << k / 2) * (k % 2 ? -1 : 1);
      for (size_t i = 0; i < np; i++) w.theta[i] = theta[i] + h * by[i];
      gradient_at(&w, still, 0, g);
      for (int i = 0; i < w.all; i++) expected[i] += weight[k / 2] * g[i] / (2 * h);
    }
    for (int i = 0; i < w.all; i++) off = fmax(off, fabs(H[i] - expected[i]));
    worst = fmin(worst, off);
  }
  print_message("by parameters: up to %.3g, off by %.2g of it\n", size, worst / size);
  assert_true(size > 0.1 && worst <= 1e-9 * size);
  free(still);
  free(H);
  free(expected);
  free(g);
  free(by);
  free(theta);
  close_world(&w);
}

// A mass on a rod, hanging at 0: v+ = v - h (g / l) sin q, q+ = q + h v+; so of a q+ + b v+ the second derivative by q is
// (a h + b) h (g / l) sin q, the cotangent's own change comes with the Jacobian, and there is none by the velocity.
static void test_pendulum(void **state) {
  (void)state;
  static const char text[] =
      "<mujoco><option timestep='0.01' gravity='0 0 -9'/><worldbody><body><joint axis='0 1 0'/><inertial pos='0 0 -.5' mass='2' "
      "diaginertia='1e-9 1e-9 1e-9'/></body></worldbody></mujoco>";
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *m = model_of_text(ctx, text);
  pbScratch *scratch;
  double x[8], before[8], record[32], out[2] = {0, 0};
  const double h = 0.01, rate = 9 / 0.5, a = 0.3, b = -1.7, q = 0.8, da = 0.2, db = 0.5, dq = 1.3, dv = -0.4;
  assert_true(pbModel_StateSize(m) <= 8 && pbTape_Size(m) <= 32);
  good(ctx, pbScratch_Create(ctx, m, NULL, &scratch));
  good(ctx, pbState_Init(ctx, m, pbModel_DefaultParams(m), -1, x));
  x[1] = q;
  x[2] = 0.6;
  memcpy(before, x, sizeof before);
  good(ctx, pbStep_Forward(m, pbModel_DefaultParams(m), x, &(pbInput){0}, scratch, NULL));
  pbTape_Record(m, before, scratch, record);

  const pbDirection along = {.x = (const double[]){dq, dv}};
  const pbSecond second = {
      .direction = &along, .next = (const double[]){a, b}, .next_tangent = (const double[]){da, db}, .x = out};
  good(ctx, pbStep_Second(m, pbModel_DefaultParams(m), record, &(pbInput){0}, scratch, &second));
  double slope = -h * rate * cos(q), curve = h * rate * sin(q);
  assert_near(out[0], (a * h + b) * curve * dq + da * (1 + h * slope) + db * slope, 1e-9);
  assert_near(out[1], da * h + db, 1e-13);

  pbScratch_Destroy(scratch);
  pbModel_Destroy(m);
  pbContext_Destroy(ctx);
}

// ---- what is refused ----------------------------------------------------------------------------------------------------
static void refused(const World *w, const pbRolloutSecond *second, pbStatus expected, const char *reason) {
  pbStatus status = pbRollout_Second(w->rollout, second);
  if (status != expected || !strstr(pbContext_Error(w->ctx), reason))
    fail_msg("'%s' expected, status %d: %s", reason, (int)status, pbContext_Error(w->ctx));
}

static void test_refused(void **state) {
  (void)state;
  World w = open_world(scene, "Euler", "pyramidal");
  double room[most] = {0};
  refused(&w, &(pbRolloutSecond){0}, pb_bad_argument, "ran to its end first");
  Loss loss = make_loss(&w);
  double *d = zeros((size_t)w.all), *x = zeros((size_t)w.nx), *ctrl = zeros((size_t)(steps * w.nu));
  run_at(&w, d, 0, x, ctrl, &loss);

  refused(&w, &(pbRolloutSecond){.gradient = {.mocap_pos = room}}, pb_bad_input, "mocap bodies");
  refused(&w, &(pbRolloutSecond){.direction = &(pbRolloutDirection){.command = room}}, pb_bad_input, "commands");
  refused(&w, &(pbRolloutSecond){.gradient = {.theta = room}}, pb_bad_input, "not by parameters");
  good(w.ctx, pbRollout_SetGradient(w.rollout, pb_gradientEvent));
  refused(&w, &(pbRolloutSecond){0}, pb_bad_input, "'exact' alone");
  close_world(&w);

  // By what a model has.
  static const char *const methods[][2] = {
      {"cones", "contact methods"}, {"lcp", "contact methods"}, {"sweeps", "contact methods"}};
  for (int i = 0; i < 3; i++) {
    World hard = open_world(scene, "Euler", "pyramidal");
    pbRollout_Destroy(hard.rollout);
    good(hard.ctx, pbModel_SetContact(hard.model, "method", methods[i][0]));
    pbRolloutPlan plan;
    good(hard.ctx, pbRollout_PlanSlots(hard.ctx, hard.model, steps, 0, steps, &plan));
    good(hard.ctx, pbRollout_Create(hard.ctx, hard.model, &plan, NULL, &hard.rollout));
    run_at(&hard, d, 0, x, ctrl, &loss);
    refused(&hard, &(pbRolloutSecond){0}, pb_bad_input, methods[i][1]);
    close_world(&hard);
  }

  // By what a step meets.
  char text[2048];
  snprintf(text, sizeof text, "<mujoco><option timestep='0.004' density='1000'/>%s", strstr(scene, "<worldbody>"));
  World wet = open_world(text, "Euler", "pyramidal");
  run_at(&wet, d, 0, x, ctrl, &loss);
  pbRolloutBar bar = bar_of(&loss);
  refused(&wet, &(pbRolloutSecond){.bar = &bar, .gradient = {.x0 = room}}, pb_bad_input, "a medium have no second derivatives");
  close_world(&wet);
  free(d);
  free(x);
  free(ctrl);
  free_loss(&loss);
}

// Each allocation of a first call fails in turn; a second call of a step takes none.
static void test_memory(void **state) {
  (void)state;
  for (long fail_at = 1;; fail_at++) {
    Meter meter = {0};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&hooks);
    pbModel *m = model_of_text(ctx, scene);
    pbScratch *scratch;
    int n = pbModel_TangentSize(m);
    double x[most], before[most], w[most], out[most] = {0}, *record = zeros((size_t)pbTape_Size(m));
    good(ctx, pbScratch_Create(ctx, m, NULL, &scratch));
    good(ctx, pbState_Init(ctx, m, pbModel_DefaultParams(m), -1, x));
    memcpy(before, x, sizeof before);
    good(ctx, pbStep_Forward(m, pbModel_DefaultParams(m), x, &(pbInput){0}, scratch, NULL));
    pbTape_Record(m, before, scratch, record);

    uint64_t seed = 3;
    fill_noise(&seed, w, n, 1);
    const pbDirection along = {.x = w};
    const pbSecond second = {.direction = &along, .next = w, .x = out};
    meter.fail_at = meter.calls + fail_at;
    pbStatus status = pbStep_Second(m, pbModel_DefaultParams(m), record, &(pbInput){0}, scratch, &second);
    bool failed = meter.failed > 0;
    assert_int_equal(status, failed ? pb_no_memory : pb_ok);
    meter.fail_at = 0;
    if (failed) {
      for (int i = 0; i < n; i++) assert_true(out[i] == 0);
      good(ctx, pbStep_Second(m, pbModel_DefaultParams(m), record, &(pbInput){0}, scratch, &second));
    }
    long calls = meter.calls;
    good(ctx, pbStep_Second(m, pbModel_DefaultParams(m), record, &(pbInput){0}, scratch, &second));
    assert_int_equal(meter.calls, calls);

    free(record);
    pbScratch_Destroy(scratch);
    pbModel_Destroy(m);
    pbContext_Destroy(ctx);
    assert_int_equal(meter.live, 0);
    if (!failed) return;
  }
}

// Bodies held by equalities of every kind, at the reference where all of them are met exactly, at rest: the curvature of their
// impedance begins there.
static const char held[] =
    "<mujoco><option timestep='0.004'/><worldbody>"
    "<body name='box' pos='0 0 1'><freejoint/><geom type='box' size='.1 .08 .06'/></body>"
    "<body name='bar' pos='1 0 1'><joint type='ball' damping='.1'/><geom type='capsule' size='.03' fromto='0 0 0 .4 0 "
    ".1'/></body>"
    "<body pos='2 0 1'><joint name='a' axis='0 1 0'/><geom type='capsule' size='.03' fromto='0 0 0 .3 0 0'/></body>"
    "<body pos='3 0 1'><joint name='b' axis='0 1 0' damping='.2'/><geom type='capsule' size='.03' fromto='0 0 0 .2 0 .1'/></body>"
    "</worldbody><tendon><fixed name='t'><joint joint='a' coef='.5'/><joint joint='b' coef='-1.5'/></fixed></tendon>"
    "<equality><weld body1='box'/><connect body1='bar' anchor='.4 0 .1'/><joint joint1='a' joint2='b' polycoef='0 1 .5 0 0'/>"
    "<tendon tendon1='t'/></equality></mujoco>";

static void test_met_exactly(void **unused) {
  (void)unused;
  World w = open_world(held, "Euler", "pyramidal");
  pbScratch *s;
  good(w.ctx, pbScratch_Create(w.ctx, w.model, NULL, &s));
  good(w.ctx, pbState_Init(w.ctx, w.model, w.theta, -1, w.x0));
  double *record = zeros((size_t)pbTape_Size(w.model)), *x = zeros((size_t)w.nx), *from = zeros((size_t)w.nx);
  double d[most], seed_of[most], exact[most] = {0}, side[2][most] = {{0}}, largest = 0;
  for (int i = 0; i < w.n; i++) {
    d[i] = cos(i + 1.0);
    seed_of[i] = sin(3 * i + 1.0);
  }

  const double h = 1e-6, moves[3] = {h, -h, 0};
  for (int k = 0; k < 3; k++) {
    memcpy(from, w.x0, (size_t)w.nx * sizeof *from);
    pbState_Move(w.model, from, d, moves[k]);
    memcpy(x, from, (size_t)w.nx * sizeof *x);
    good(w.ctx, pbStep_Forward(w.model, w.theta, x, &(pbInput){0}, s, NULL));
    pbTape_Record(w.model, from, s, record);
    if (k < 2) good(w.ctx, pbStep_Vjp(w.model, w.theta, record, &(pbInput){0}, seed_of, NULL, s, side[k], NULL, NULL));
  }
  const pbDirection along = {.x = d};
  const pbSecond second = {.direction = &along, .next = seed_of, .x = exact};
  good(w.ctx, pbStep_Second(w.model, w.theta, record, &(pbInput){0}, s, &second));

  for (int i = 0; i < w.n; i++) largest = fmax(largest, fabs(exact[i]));
  assert_true(largest > 1);
  for (int i = 0; i < w.n; i++) assert_true(fabs(exact[i] - (side[0][i] - side[1][i]) / (2 * h)) < 1e-4 * largest);

  free(record);
  free(x);
  free(from);
  pbScratch_Destroy(s);
  close_world(&w);
}

// ---- batches ------------------------------------------------------------------------------------------------------------
enum { worlds = 3 };

// Worlds with starts and masses of their own, and controls that they share; the loss is half the squares of the velocities in the
// end.
typedef struct Batch {
  pbBatch *batch;
  double *x0, *bar, *d, *own, *x0_bar, *ctrl_bar;  // of all worlds: starts, last velocities, directions; what comes out
  size_t own_size;
} Batch;

static Batch open_batch(const World *w, pbPool *pool, size_t budget) {
  static const char *const names[] = {"body_mass"};
  size_t nx = (size_t)w->nx, nv = (size_t)w->nv, n = (size_t)w->n;
  const pbBatchOptions options = {
      .worlds = worlds, .pool = pool, .steps = steps, .shared_inputs = true, .own = names, .own_count = 1, .budget = budget};
  Batch b = {.x0 = zeros(worlds * nx), .bar = zeros(worlds * nv), .d = zeros(worlds * n)};
  good(w->ctx, pbBatch_Create(w->ctx, w->model, &options, &b.batch));
  b.own_size = pbBatch_OwnSize(b.batch);
  b.own = zeros(worlds * b.own_size);
  b.x0_bar = zeros(worlds * n);
  b.ctrl_bar = zeros((size_t)(steps * w->nu));

  uint64_t seed = 12;
  fill_noise(&seed, b.d, worlds * w->n, 0.1);
  fill_noise(&seed, b.own, worlds * (int)b.own_size, 0.01);
  for (size_t i = 0; i < worlds; i++) {
    memcpy(b.x0 + i * nx, w->x0, nx * sizeof *b.x0);
    pbState_Move(w->model, b.x0 + i * nx, b.d + i * n, 0.1);
    for (size_t k = 0; k < b.own_size; k++) pbBatch_Own(b.batch)[i * b.own_size + k] *= 1 + 0.1 * (double)(i + k) / worlds;
  }

  good(w->ctx, pbBatch_Reset(b.batch, NULL, NULL, 0, -1, b.x0));
  good(w->ctx, pbBatch_Rollout(b.batch, NULL, NULL, 0, steps, &(pbBatchInput){.ctrl = w->ctrl, .shared = pb_sharedCtrl}, NULL));
  for (size_t i = 0; i < worlds; i++)
    memcpy(b.bar + i * nv, pbBatch_States(b.batch) + i * nx + 1 + pbModel_Size(w->model, "nq"), nv * sizeof *b.bar);
  return b;
}

static pbStatus run_batch(const World *w, Batch *b) {
  const pbBatchDirection along = {.x0 = b->d, .ctrl = w->ctrl, .own = b->own};
  const pbRolloutBar bar = {.qvel = {b->bar, 1, NULL}};
  return pbBatch_Second(
      b->batch, &(pbBatchSecond){
                    .direction = &along, .bar = &bar, .bar_tangent = &bar, .gradient = {.x0 = b->x0_bar, .ctrl = b->ctrl_bar}});
}

static void close_batch(Batch *b) {
  pbBatch_Destroy(b->batch);
  free(b->x0);
  free(b->bar);
  free(b->d);
  free(b->own);
  free(b->x0_bar);
  free(b->ctrl_bar);
}

// Each world by itself: its own numbers to the bit, and the sum of what they share.
static void check_batch(const World *w, const Batch *b) {
  size_t n = (size_t)w->n, controls = (size_t)(steps * w->nu), np = pbModel_ParamSize(w->model), column;
  double *x0 = zeros(n), *ctrl = zeros(controls), *by = zeros(np), *theta = zeros(np);
  int at = pbBatch_OwnAt(b->batch, 0, &column).offset;
  for (size_t i = 0; i < worlds; i++) {
    memset(x0, 0, n * sizeof *x0);
    memcpy(by + at, b->own + i * b->own_size, b->own_size * sizeof *by);
    pbBatch_Theta(b->batch, NULL, (int)i, theta);
    good(w->ctx, pbRollout_Forward(w->rollout, theta, b->x0 + i * (size_t)w->nx, &(pbRolloutInput){.ctrl = w->ctrl}, NULL));

    const pbRolloutDirection along = {.x0 = b->d + i * n, .ctrl = w->ctrl, .theta = by};
    const pbRolloutBar bar = {.qvel = {b->bar + i * (size_t)w->nv, 1, NULL}};
    const pbRolloutSecond second = {.direction = &along, .bar = &bar, .bar_tangent = &bar, .gradient = {.x0 = x0, .ctrl = ctrl}};
    good(w->ctx, pbRollout_Second(w->rollout, &second));
    assert_true(largest(x0, w->n) > 0.1);
    assert_memory_equal(x0, b->x0_bar + i * n, n * sizeof *x0);
  }

  for (size_t i = 0; i < controls; i++) assert_near(b->ctrl_bar[i], ctrl[i], 1e-12 * largest(ctrl, (int)controls));
  free(x0);
  free(ctrl);
  free(by);
  free(theta);
}

static void test_batch(void **state) {
  (void)state;
  World w = open_world(scene, "RK4", "elliptic");
  pbPool *pool;
  good(w.ctx, pbPool_Create(w.ctx, 2, &pool));
  for (int k = 0; k < 4; k++) {
    Batch b = open_batch(&w, k % 2 ? pool : NULL, k < 2 ? 0 : 5 * (size_t)pbTape_Size(w.model) * sizeof(double));
    good(w.ctx, run_batch(&w, &b));
    check_batch(&w, &b);
    close_batch(&b);
  }

  // What is refused of one is refused of all.
  Batch b = open_batch(&w, NULL, 0);
  const pbBatchSecond by_theta = {.gradient = {.theta = w.theta}};
  assert_int_equal(pbBatch_Second(b.batch, &by_theta), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(w.ctx), "not by parameters"));
  close_batch(&b);
  pbPool_Destroy(pool);
  close_world(&w);
}

// Each allocation of a call fails in turn: nothing comes out, and the next call is right.
static void test_memory_of_a_batch(void **state) {
  (void)state;
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  World w = open_world(scene, "RK4", "elliptic"), counted = w;
  counted.ctx = pbContext_Create(&hooks);
  for (long fail_at = 1, failed = 1; failed > 0; fail_at++) {
    Batch b = open_batch(&counted, NULL, 0);
    meter.failed = 0;
    meter.fail_at = meter.calls + fail_at;
    meter.fail_ever_after = true;
    pbStatus status = run_batch(&counted, &b);
    failed = meter.failed;
    meter.fail_at = 0;
    meter.fail_ever_after = false;
    assert_int_equal(status, failed ? pb_no_memory : pb_ok);
    if (failed) {
      int known = worlds * w.n;
      for (int i = (worlds - 1) * w.n; i < known; i++) assert_true(b.x0_bar[i] == 0);
      memset(b.x0_bar, 0, (size_t)known * sizeof *b.x0_bar);
      memset(b.ctrl_bar, 0, (size_t)(steps * w.nu) * sizeof *b.ctrl_bar);
      good(counted.ctx, run_batch(&counted, &b));
    }
    check_batch(&w, &b);
    close_batch(&b);
  }
  pbContext_Destroy(counted.ctx);
  assert_int_equal(meter.live, 0);
  close_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_batch),      cmocka_unit_test(test_memory_of_a_batch),
                                     cmocka_unit_test(test_pendulum),   cmocka_unit_test(test_rollout),
                                     cmocka_unit_test(test_refused),    cmocka_unit_test(test_memory),
                                     cmocka_unit_test(test_parameters), cmocka_unit_test(test_met_exactly)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
