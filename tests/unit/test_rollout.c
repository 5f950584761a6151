// Rollouts: the same bits for every memory budget, both modes of differentiation against each other and against difference
// quotients, failures that name the step.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "rollout/rollout.h"
#include "step/scratch.h"
#include "support/support.h"

#include <pullback/contact.h>
#include <pullback/io.h>
#include <pullback/rollout.h>
#include <pullback/spec.h>

// A ball that falls on a plane and rolls, and an arm of a ball and a hinge joint with a motor and activation.
static const char scene[] =
    "<mujoco><option timestep='0.004'/>"
    "<worldbody><geom type='plane' size='5 5 .1'/>"
    "<body name='ball' pos='0 0 .14'><freejoint name='root'/><geom size='.1' mass='1'/><site name='tip' pos='.05 0 .02'/></body>"
    "<body name='arm' pos='1 0 1'><joint name='swing' type='ball' damping='.1'/><geom type='capsule' size='.03' fromto='0 0 0 .4 "
    "0 .1'/>"
    "<body name='hand' pos='.4 0 .1'><joint name='wrist' axis='0 1 0' damping='.05'/><geom type='capsule' size='.02' fromto='0 0 "
    "0 .3 0 0'/>"
    "<site name='end' pos='.3 0 0'/></body></body></worldbody>"
    "<actuator><general name='motor' joint='wrist' dyntype='filter' dynprm='.05' gainprm='2'/></actuator>"
    "<sensor><framepos objtype='site' objname='end'/><jointvel joint='wrist'/><actuatorfrc actuator='motor'/></sensor></mujoco>";

enum { N = 60 };
typedef struct World {
  pbContext *ctx;
  pbModel *model;
  const double *theta;
  int nx, n, nv, nu, ns, nbody, nsite;
  size_t ntheta;
  double *x0, *ctrl, *w;  // w: cotangents of everything, enough of them
  pbRolloutInput input;
} World;

static int setup(void **state) {
  World *s = calloc(1, sizeof *s);
  s->ctx = pbContext_Create(NULL);
  s->model = model_of_text(s->ctx, scene);
  s->theta = pbModel_DefaultParams(s->model);
  s->ntheta = pbModel_ParamSize(s->model);
  s->nx = pbModel_StateSize(s->model);
  s->n = pbModel_TangentSize(s->model);
  s->nv = pbModel_Size(s->model, "nv");
  s->nu = 1;
  s->ns = 5;
  s->nbody = pbModel_Size(s->model, "nbody");
  s->nsite = 2;
  s->x0 = calloc((size_t)s->nx, sizeof(double));
  s->ctrl = calloc(N, sizeof(double));
  s->w = calloc((N + 1) * 64, sizeof(double));
  unsigned seed = 1;
  if (pbState_Init(s->ctx, s->model, s->theta, -1, s->x0) != pb_ok) return 1;
  double *kick = calloc((size_t)s->n, sizeof(double));
  for (int i = 0; i < s->n - 1; i++) kick[i] = i < 6 ? 0 : noise(&seed);
  kick[s->nv] = 0.7;
  kick[s->nv + 1] = -0.3;
  kick[s->nv + 2] = -1;
  kick[s->nv + 4] = 2;
  pbState_Move(s->model, s->x0, kick, 1);
  free(kick);
  for (int k = 0; k < N; k++) s->ctrl[k] = noise(&seed);
  for (int k = 0; k < (N + 1) * 64; k++) s->w[k] = noise(&seed);
  s->input = (pbRolloutInput){.ctrl = s->ctrl};
  *state = s;
  return 0;
}
// With contacts that act from a distance and are smoothed.
static int setup_smooth(void **state) {
  if (setup(state)) return 1;
  pbModel *m = ((World *)*state)->model;
  return pbModel_SetContact(m, "kappa", "0.1") != pb_ok || pbModel_SetContact(m, "onset", "0.02") != pb_ok;
}
static int teardown(void **state) {
  World *s = *state;
  pbModel_Destroy(s->model);
  pbContext_Destroy(s->ctx);
  free(s->x0);
  free(s->ctrl);
  free(s->w);
  free(s);
  return 0;
}

static pbRollout *make(World *s, int steps, int snapshots, int leaf) {
  pbRolloutPlan plan;
  pbRollout *r;
  good(s->ctx, pbRollout_PlanSlots(s->ctx, s->model, steps, snapshots, leaf, &plan));
  good(s->ctx, pbRollout_Create(s->ctx, s->model, &plan, NULL, &r));
  return r;
}

static pbRolloutBar every_bar(const World *s) {
  const double *w = s->w;
  size_t rows = N + 1;
  return (pbRolloutBar){.qpos = {w, N + 1, NULL},
                        .qvel = {w + rows * 9, N + 1, NULL},
                        .act = {w + rows * 20, N + 1, NULL},
                        .sensordata = {w + rows * 21, N + 1, NULL},
                        .xpos = {w + rows * 26, N + 1, NULL},
                        .site_xpos = {w + rows * 38, N + 1, NULL}};
}

static void test_forward_is_the_steps_one_by_one(void **state) {
  World *s = *state;
  pbRollout *r = make(s, N, 2, 3);
  double *states = calloc((size_t)(N + 1) * (size_t)s->nx, sizeof(double)), *sensors = calloc((N + 1) * 5, sizeof(double));
  pbRolloutOutput out = {.states = states, .sensordata = sensors};
  good(s->ctx, pbRollout_Forward(r, s->theta, s->x0, &s->input, &out));
  assert_int_equal(out.steps_done, N);
  pbScratch *scratch;
  good(s->ctx, pbScratch_Create(s->ctx, s->model, NULL, &scratch));
  double *x = malloc((size_t)s->nx * sizeof *x), sensor[5];
  memcpy(x, s->x0, (size_t)s->nx * sizeof *x);
  for (int k = 0; k <= N; k++) {
    pbInput in = {.ctrl = s->ctrl + (k < N ? k : N - 1)};
    assert_memory_equal(x, states + (size_t)k * (size_t)s->nx, (size_t)s->nx * sizeof *x);
    good(s->ctx, k < N ? pbStep_Forward(s->model, s->theta, x, &in, scratch, sensor)
                       : pbStep_Observe(s->model, s->theta, x, &in, scratch, sensor));
    assert_memory_equal(sensor, sensors + 5 * k, sizeof sensor);
  }
  const int rows[] = {0, 7, 8, N};
  double *few = calloc(4 * (size_t)s->nx, sizeof(double)), *xpos = calloc(4 * 3 * (size_t)s->nbody, sizeof(double));
  pbRolloutOutput chosen = {.states = few, .xpos = xpos, .rows = rows, .row_count = 4};
  good(s->ctx, pbRollout_Forward(r, s->theta, s->x0, &s->input, &chosen));
  for (int i = 0; i < 4; i++)
    assert_memory_equal(few + (size_t)i * (size_t)s->nx, states + (size_t)rows[i] * (size_t)s->nx, (size_t)s->nx * sizeof *x);
  assert_true(xpos[3] == few[1] && xpos[3 * 3 * s->nbody + 5] == few[3 * s->nx + 3]);  // the ball's body is where its joint is
  pbScratch_Destroy(scratch);
  pbRollout_Destroy(r);
  free(states);
  free(sensors);
  free(x);
  free(few);
  free(xpos);
}

static void test_gradient_has_the_same_bits_for_every_budget(void **state) {
  World *s = *state;
  const int plans[][2] = {{0, N}, {0, N - 1}, {1, 20}, {3, 5}, {5, 1}, {0, 7}, {N, 1}, {2, 2}};
  pbRolloutBar bar = every_bar(s);
  size_t size = (size_t)s->n + N + s->ntheta;
  double *first = calloc(size, sizeof *first), *again = calloc(size, sizeof *again);
  for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
    pbRollout *r = make(s, N, plans[p][0], plans[p][1]);
    good(s->ctx, pbRollout_Forward(r, s->theta, s->x0, &s->input, NULL));
    for (int repeat = 0; repeat < 2; repeat++) {
      pbCertificate c;
      memset(again, 0, size * sizeof *again);
      pbRolloutGradient g = {.x0 = again, .ctrl = again + s->n, .theta = again + s->n + N};
      good(s->ctx, pbRollout_Vjp(r, &bar, NULL, &g, &c));
      if (p == 0 && repeat == 0) memcpy(first, again, size * sizeof *first);
      assert_memory_equal(first, again, size * sizeof *first);
      assert_true((c.onsets == 0) == (pbModel_ContactSettings(s->model).onset > 0) && c.most_contacts > 0 &&
                  c.tape_bytes <= c.full_tape_bytes + (size_t)s->nx * N * 8);
    }
    pbRollout_Destroy(r);
  }
  double norm = 0;
  for (size_t i = 0; i < size; i++) norm += fabs(first[i]);
  assert_true(isfinite(norm) && norm > 1);
  free(first);
  free(again);
}

// The gradient by everything under a plan by budget (0: none), every time from a new rollout.
static size_t planned_gradient(World *s, const pbRolloutPlan *plan, double *out) {
  pbRolloutBar bar = every_bar(s);
  pbRollout *r;
  good(s->ctx, pbRollout_Create(s->ctx, s->model, plan, NULL, &r));
  good(s->ctx, pbRollout_Forward(r, s->theta, s->x0, &s->input, NULL));
  pbRolloutGradient g = {.x0 = out, .ctrl = out + s->n, .theta = out + s->n + N};
  good(s->ctx, pbRollout_Vjp(r, &bar, NULL, &g, NULL));
  size_t used = r->cached_used;
  pbRollout_Destroy(r);
  return used;
}

static void test_kept_evaluations_change_no_bit(void **state) {
  World *s = *state;
  size_t size = (size_t)s->n + N + s->ntheta;
  double *thin = calloc(size, sizeof *thin), *kept = calloc(size, sizeof *kept);
  pbRolloutPlan plan, part;
  good(s->ctx, pbRollout_Plan(s->ctx, s->model, N, 0, &plan));
  size_t room = plan.cached_bytes;
  assert_true(room > 0);
  plan.cached_bytes = 0;
  assert_int_equal(planned_gradient(s, &plan, thin), 0);
  for (int share = 1; share <= 64; share *= 4) {  // room for all, for some, for very few
    plan.cached_bytes = room / (size_t)share;
    memset(kept, 0, size * sizeof *kept);
    size_t used = planned_gradient(s, &plan, kept);
    assert_true(used > 0 && used <= plan.cached_bytes);
    assert_memory_equal(thin, kept, size * sizeof *thin);
  }
  // a budget is kept to: tape first, what is left for evaluations; on a schedule they are those of the last stretch
  for (size_t budget = plan.record_bytes; budget < 8 * plan.full_bytes; budget *= 2) {
    good(s->ctx, pbRollout_Plan(s->ctx, s->model, N, budget, &part));
    assert_true(part.planned_bytes <= budget);
    memset(kept, 0, size * sizeof *kept);
    planned_gradient(s, &part, kept);
    assert_memory_equal(thin, kept, size * sizeof *thin);
  }
  free(thin);
  free(kept);
}

// Of a long rollout those of the last steps are kept, as many as four times the core's own cache holds.
static void test_the_last_evaluations_are_kept(void **state) {
  enum { LONG = 3000, CACHE_MOST = 16 << 20 };
  World *s = *state;
  pbRolloutPlan plan;
  pbRollout *r;
#ifdef _SC_LEVEL2_CACHE_SIZE
  long own = sysconf(_SC_LEVEL2_CACHE_SIZE);
#else
  long own = 0;
#endif
  long cache = 4 * (own > 0 ? own : 1 << 20);
  good(s->ctx, pbRollout_Plan(s->ctx, s->model, LONG, 0, &plan));
  assert_int_equal(plan.cached_bytes, cache < CACHE_MOST ? cache : CACHE_MOST);
  plan.cached_bytes = 64 << 10;
  good(s->ctx, pbRollout_Create(s->ctx, s->model, &plan, NULL, &r));
  good(s->ctx, pbRollout_Forward(r, s->theta, s->x0, &(pbRolloutInput){.constant = true}, NULL));
  int first = 0;
  while (first < LONG && r->cached_at[first] == SIZE_MAX) first++;
  for (int k = first; k < LONG; k++) assert_true(r->cached_at[k] != SIZE_MAX);
  print_message("room for %d of %d steps, %zu of %zu bytes\n", LONG - first, LONG, r->cached_used, plan.cached_bytes);
  assert_true(first < LONG && r->cached_used <= plan.cached_bytes && 2 * r->cached_used > plan.cached_bytes);
  pbRollout_Destroy(r);
}

static void test_forward_and_reverse_mode_agree(void **state) {
  World *s = *state;
  pbRollout *r = make(s, N, 1, 10);
  size_t rows = N + 1, n = (size_t)s->n;
  double *g = calloc(n + N + s->ntheta, sizeof *g), *d = calloc(n + N + s->ntheta, sizeof *d);
  double *x = calloc(rows * n, sizeof *x), *sensors = calloc(rows * 5, sizeof *x),
         *xpos = calloc(rows * 3 * (size_t)s->nbody, sizeof *x), *site = calloc(rows * 6, sizeof *x);
  unsigned seed = 5;
  for (size_t i = 0; i < n + N; i++) d[i] = noise(&seed);
  const char *const vary[] = {"body_mass", "geom_friction", "gravity", "dof_damping", "actuator_gainprm", "body_pos"};
  for (int i = 0; i < 6; i++) {
    pbParam p;
    good(s->ctx, pbModel_Param(s->ctx, s->model, vary[i], &p));
    for (int k = 0; k < p.rows * p.cols; k++) d[n + N + p.offset + (size_t)k] = noise(&seed);
  }
  good(s->ctx, pbRollout_Forward(r, s->theta, s->x0, &s->input, NULL));
  pbRolloutBar bar = every_bar(s);
  good(s->ctx, pbRollout_Vjp(r, &bar, NULL, &(pbRolloutGradient){.x0 = g, .ctrl = g + n, .theta = g + n + N}, NULL));
  pbRolloutDirection direction = {.x0 = d, .ctrl = d + n, .theta = d + n + N};
  pbRolloutTangent tangent = {.x = x, .sensordata = sensors, .xpos = xpos, .site_xpos = site};
  good(s->ctx, pbRollout_Jvp(r, 1, &direction, &tangent));
  double reverse = dot(g, d, n + N + s->ntheta), forward = 0;
  for (size_t k = 0; k < rows; k++)
    forward += dot(x + k * n, bar.qpos.data + k * 10, 10) + dot(x + k * n + 10, bar.qvel.data + k * 10, 10) +
               dot(x + k * n + 20, bar.act.data + k, 1) + dot(sensors + 5 * k, bar.sensordata.data + 5 * k, 5) +
               dot(xpos + k * 12, bar.xpos.data + k * 12, 12) + dot(site + k * 6, bar.site_xpos.data + k * 6, 6);
  print_message("reverse %.15g forward %.15g\n", reverse, forward);
  assert_true(fabs(reverse) > 1e-3 && fabs(reverse - forward) <= 1e-10 * fabs(reverse));
  pbRollout_Destroy(r);
  free(g);
  free(d);
  free(x);
  free(sensors);
  free(xpos);
  free(site);
}

// A direction is scaled inside: powers of two change no bit, however large or small they are.
static void test_directions_of_any_size(void **state) {
  World *s = *state;
  pbRollout *r = make(s, N, 0, N);
  size_t n = (size_t)s->n, size = n + s->ntheta;
  double *d = calloc(2 * size, sizeof *d), *x = calloc(2 * (N + 1) * n, sizeof *x), *scaled = x + (N + 1) * n;
  unsigned seed = 8;
  for (size_t i = 0; i < n; i++) d[i] = noise(&seed);
  pbParam p;
  good(s->ctx, pbModel_Param(s->ctx, s->model, "body_mass", &p));
  for (int i = 0; i < p.rows; i++) d[n + p.offset + (size_t)i] = noise(&seed);
  good(s->ctx, pbRollout_Forward(r, s->theta, s->x0, &s->input, NULL));
  for (int e = 0; e >= -800; e = e > 0 ? -e : 100 - e) {  // 0, 100, -100, 200, -200, ...
    double factor = ldexp(1, e);
    for (size_t i = 0; i < size; i++) d[size + i] = factor * d[i];
    double *from = e ? d + size : d;
    good(s->ctx,
         pbRollout_Jvp(r, 1, &(pbRolloutDirection){.x0 = from, .theta = from + n}, &(pbRolloutTangent){.x = e ? scaled : x}));
    for (size_t i = 0; e && i < (N + 1) * n; i++) assert_true(scaled[i] == factor * x[i]);
    double *theta = calloc(2 * s->ntheta, sizeof *theta), *small = theta + s->ntheta;
    for (size_t i = 0; i < s->ntheta; i++) theta[i] = factor * (small[i] = d[n + i]);
    good(s->ctx, pbModel_SetConstantsJvp(s->ctx, s->model, s->theta, theta));
    good(s->ctx, pbModel_SetConstantsJvp(s->ctx, s->model, s->theta, small));
    for (size_t i = 0; i < s->ntheta; i++) assert_true(theta[i] == factor * small[i]);
    free(theta);
  }
  pbRollout_Destroy(r);
  free(d);
  free(x);
}

static void test_spot_check(void **state) {
  World *s = *state;
  pbRollout *r = make(s, N, 0, N);
  double *g = calloc((size_t)s->n + N, sizeof *g);
  pbRolloutBar bar = every_bar(s);
  pbCertificate c;
  good(s->ctx, pbRollout_Forward(r, s->theta, s->x0, &s->input, NULL));
  for (uint64_t seed = 1; seed < 4; seed++) {
    good(s->ctx, pbRollout_Vjp(r, &bar, &(pbVjpOptions){.spot_check = pb_checkFull, .seed = seed},
                               &(pbRolloutGradient){.x0 = g, .ctrl = g + s->n}, &c));
    print_message("spot check: gradient %.12g, difference %.12g, error %.2g; growth %.3g, %.3g 1/s\n", c.spot_gradient,
                  c.spot_difference, c.spot_error, c.growth, c.growth_rate);
    assert_true(c.spot_checked && c.spot_error < 1e-5);
  }
  assert_true(c.costate_initial > 0 && c.costate_final > 0 && isfinite(c.growth_rate));
  pbRollout_Destroy(r);
  free(g);
}

// Single steps: what is right is never called off, whatever the seed.
static void test_steps_are_checked(void **state) {
  World *s = *state;
  pbRollout *r = make(s, N, 1, 20);
  double *g = calloc((size_t)s->n + N + s->ntheta, sizeof *g), *plain = calloc((size_t)s->n + N + s->ntheta, sizeof *g);
  pbRolloutBar bar = every_bar(s);
  pbCertificate c;
  good(s->ctx, pbRollout_Forward(r, s->theta, s->x0, &s->input, NULL));
  pbRolloutGradient all = {.x0 = g, .ctrl = g + s->n, .theta = g + s->n + N};
  good(s->ctx,
       pbRollout_Vjp(r, &bar, NULL, &(pbRolloutGradient){.x0 = plain, .ctrl = plain + s->n, .theta = plain + s->n + N}, &c));
  assert_true(!c.spot_checked && c.spot_step == -1);
  assert_string_equal(pbCertificate_Checked(&c), "nothing");
  for (uint64_t seed = 0; seed < 100; seed++) {
    memset(g, 0, ((size_t)s->n + N + s->ntheta) * sizeof *g);
    good(s->ctx, pbRollout_Vjp(r, &bar, &(pbVjpOptions){.spot_check = pb_checkSteps, .seed = seed}, &all, &c));
    if (c.spot_off) fail_msg("seed %d: %g for %g at step %d", (int)seed, c.spot_gradient, c.spot_difference, c.spot_step);
    assert_true(c.spot_checked && c.spot_steps > 0 && c.spot_quotients > 0 && c.spot_error <= c.spot_limit);
    assert_true(c.spot_steps_share == (double)c.spot_quotients / N && c.spot_entries_share > 0 && c.spot_entries_share <= 1);
    assert_int_equal(c.spot_left_out, c.spot_left_kink + c.spot_left_tie + c.spot_left_noise);
  }
  assert_string_equal(pbCertificate_Checked(&c), "steps");
  assert_memory_equal(g, plain, ((size_t)s->n + N + s->ntheta) * sizeof *g);  // a check changes no bit
  pbRollout_Destroy(r);
  free(g);
  free(plain);
}

static void test_long_rollout_in_a_twentieth_of_the_tape(void **state) {
  World *s = *state;
  enum { LONG = 10000 };
  pbRolloutPlan full, small;
  good(s->ctx, pbRollout_Plan(s->ctx, s->model, LONG, 0, &full));
  assert_true(full.planned_bytes - full.cached_bytes == full.full_bytes && full.recomputed == 0);
  good(s->ctx, pbRollout_Plan(s->ctx, s->model, LONG, full.full_bytes / 20, &small));
  print_message("10000 steps: %zu of %zu bytes, %d snapshots, leaf %d, %.4f steps computed a step\n", small.planned_bytes,
                small.full_bytes, small.snapshots, small.leaf, (double)small.forward_steps / LONG);
  assert_true(small.planned_bytes <= full.full_bytes / 20 && small.forward_steps < 2 * LONG);
  double *g[2] = {calloc((size_t)s->n, sizeof(double)), calloc((size_t)s->n, sizeof(double))};
  pbRolloutBar bar = {.qpos = {s->w, 1, NULL}, .qvel = {s->w + 20, 1, NULL}};
  pbRolloutInput quiet = {.constant = true};
  const pbRolloutPlan *plans[2] = {&full, &small};
  for (int i = 0; i < 2; i++) {
    pbRollout *r;
    pbCertificate c;
    good(s->ctx, pbRollout_Create(s->ctx, s->model, plans[i], NULL, &r));
    good(s->ctx, pbRollout_Forward(r, s->theta, s->x0, &quiet, NULL));
    good(s->ctx, pbRollout_Vjp(r, &bar, NULL, &(pbRolloutGradient){.x0 = g[i]}, &c));
    assert_int_equal(c.recomputed, plans[i]->recomputed);
    pbRollout_Destroy(r);
  }
  assert_memory_equal(g[0], g[1], (size_t)s->n * sizeof(double));
  free(g[0]);
  free(g[1]);
}

// Every integrator, with all that can be seen: positions are of the state before a step, whatever stages a step has.
static void test_every_integrator(void **state) {
  World *s = *state;
  const char *const integrators[] = {"RK4", "implicitfast", "Euler"};
  for (int i = 0; i < 3; i++) {
    good(s->ctx, pbModel_SetOption(s->model, "integrator", integrators[i]));
    pbRollout *r = make(s, N, 2, 9);
    double *g = calloc((size_t)s->n + N, sizeof *g), *xpos = calloc((N + 1) * 12, sizeof *xpos);
    double *states = calloc((size_t)(N + 1) * (size_t)s->nx, sizeof *states);
    pbRolloutBar bar = every_bar(s);
    pbRolloutOutput out = {.states = states, .xpos = xpos};
    pbCertificate c;
    good(s->ctx, pbRollout_Forward(r, s->theta, s->x0, &s->input, &out));
    for (int k = 0; k <= N; k++) assert_true(fabs(xpos[12 * k + 5] - states[k * s->nx + 3]) < 1e-14);
    good(s->ctx, pbRollout_Vjp(r, &bar, &(pbVjpOptions){.spot_check = pb_checkFull, .seed = 9},
                               &(pbRolloutGradient){.x0 = g, .ctrl = g + s->n}, &c));
    print_message("%s: error of the spot check %.2g\n", integrators[i], c.spot_error);
    assert_true(c.spot_error < 1e-6);
    pbRollout_Destroy(r);
    free(g);
    free(xpos);
    free(states);
  }
}

static int stop(void *user, const pbProgress *p) {
  (void)user;
  assert_true(p->total >= p->done);
  return 1;
}

static void test_failures_say_where(void **state) {
  World *s = *state;
  pbRollout *r = make(s, N, 0, N);
  double *x0 = malloc((size_t)s->nx * sizeof *x0);
  memcpy(x0, s->x0, (size_t)s->nx * sizeof *x0);
  pbRolloutBar bar = every_bar(s);
  assert_int_equal(pbRollout_Vjp(r, &bar, NULL, NULL, NULL), pb_bad_argument);  // nothing ran
  pbRollout_SetBound(r, 3.0);
  assert_int_equal(pbRollout_Forward(r, s->theta, x0, &s->input, NULL), pb_not_finite);
  assert_non_null(strstr(pbContext_Error(s->ctx), "step "));
  pbRollout_SetBound(r, 1e10);
  x0[2] = NAN;
  assert_int_equal(pbRollout_Forward(r, s->theta, x0, &s->input, NULL), pb_not_finite);
  pbRollout_OnProgress(r, stop, NULL);
  assert_int_equal(pbRollout_Forward(r, s->theta, s->x0, &s->input, NULL), pb_interrupted);
  pbRollout_OnProgress(r, NULL, NULL);
  good(s->ctx, pbRollout_Forward(r, s->theta, s->x0, &s->input, NULL));
  double nan_row[16] = {[3] = NAN};
  bar.qvel = (pbCotangent){nan_row, 1, &(int){7}};
  assert_int_equal(pbRollout_Vjp(r, &bar, NULL, NULL, NULL), pb_not_finite);
  assert_non_null(strstr(pbContext_Error(s->ctx), "step 7 of 60"));
  assert_non_null(strstr(pbContext_Error(s->ctx), "the cotangent of qvel given for this state is not finite"));
  bar.qvel = every_bar(s).qvel;
  bar.qpos.count = 5;
  assert_int_equal(pbRollout_Vjp(r, &bar, NULL, NULL, NULL), pb_bad_argument);
  const int wrong[] = {3, 3}, beyond[] = {0, N + 1};
  pbRolloutTangent tangent = {.rows = wrong, .row_count = 2};
  pbRolloutDirection direction = {0};
  assert_int_equal(pbRollout_Jvp(r, 1, &direction, &tangent), pb_bad_argument);
  assert_int_equal(pbRollout_Forward(r, s->theta, s->x0, &s->input, &(pbRolloutOutput){.rows = beyond, .row_count = 2}),
                   pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(s->ctx), "61 (number 1)"));
  good(s->ctx, pbRollout_Forward(r, s->theta, s->x0, &s->input, NULL));
  bar.qpos = (pbCotangent){s->w, 2, wrong};
  assert_int_equal(pbRollout_Vjp(r, &bar, NULL, NULL, NULL), pb_bad_argument);
  assert_int_equal(pbRollout_Jvp(r, -1, NULL, NULL), pb_bad_argument);
  good(s->ctx, pbRollout_Jvp(r, 0, NULL, NULL));
  pbScratch *scratch;
  assert_int_equal(pbScratch_Create(s->ctx, s->model, &(pbCapacity){.contacts = -1}, &scratch), pb_bad_argument);
  assert_null(scratch);
  pbRolloutPlan plan;
  assert_int_equal(pbRollout_Plan(s->ctx, s->model, N, 100, &plan), pb_capacity);
  assert_int_equal(pbRollout_Plan(s->ctx, s->model, -1, 0, &plan), pb_bad_argument);
  pbRollout_Destroy(r);
  free(x0);
}

// What is not wanted is not computed either: a step's own pullback in the rollout's scratch.
static void leaves_out(World *s, pbRollout *r) {
  double *theta = calloc(s->ntheta, sizeof *theta), *x = calloc((size_t)s->n, sizeof *x);
  pbInput input = {.ctrl = s->input.ctrl};
  pbParam masses, anchors;
  good(s->ctx, pbModel_Param(s->ctx, s->model, "body_mass", &masses));
  good(s->ctx, pbModel_Param(s->ctx, s->model, "jnt_pos", &anchors));
  good(s->ctx, pbStep_Vjp(s->model, s->theta, r->records, &input, s->w, NULL, r->scratch, x, NULL, theta));
  double sum = 0;
  for (int i = 0; i < masses.rows; i++) assert_true(theta[masses.offset + (size_t)i] == 0);
  for (int i = 0; i < 3 * anchors.rows; i++) sum += fabs(theta[anchors.offset + (size_t)i]);
  assert_true(sum > 0);
  free(theta);
  free(x);
}

// Chosen fields of theta: the bits of all, checked steps right, everything else as it was.
static void test_wanted_parameters(void **state) {
  World *s = *state;
  static const char *const names[] = {"geom_friction", "jnt_pos:swing", "dof_damping"}, *const wrong[] = {"gravity",
                                                                                                          "geom_friktion"};
  pbRolloutBar bar = every_bar(s);
  pbVjpOptions options = {.spot_check = pb_checkSteps, .seed = 3};
  pbRollout *r = make(s, N, 0, N);
  pbCertificate c;
  double *all = calloc(s->ntheta, sizeof *all), *few = calloc(s->ntheta, sizeof *few);
  good(s->ctx, pbRollout_Forward(r, s->theta, s->x0, &s->input, NULL));
  good(s->ctx, pbRollout_Vjp(r, &bar, NULL, &(pbRolloutGradient){.theta = all}, NULL));
  assert_int_equal(pbRollout_WantParameters(r, wrong, 2, false), pb_bad_argument);
  assert_int_equal(pbRollout_WantParameters(r, wrong, -1, false), pb_bad_argument);
  good(s->ctx, pbRollout_WantParameters(r, names, 3, false));
  for (size_t i = 0; i < s->ntheta; i++) few[i] = 7;
  for (int k = 0; k < 3; k++) {
    pbParam p;
    good(s->ctx, pbModel_Param(s->ctx, s->model, k == 1 ? "jnt_pos" : names[k], &p));
    memset(few + p.offset, 0, (size_t)(p.rows * p.cols) * sizeof *few);
  }
  good(s->ctx, pbRollout_Vjp(r, &bar, &options, &(pbRolloutGradient){.theta = few}, &c));
  assert_true(c.spot_checked && !c.spot_off && c.spot_steps > 0);
  size_t wanted = 0;
  for (size_t i = 0; i < s->ntheta; i++) {
    if (few[i] == 7) continue;
    assert_memory_equal(few + i, all + i, sizeof *few);
    wanted++;
  }
  assert_true(wanted > 10 && wanted < s->ntheta / 4);
  leaves_out(s, r);
  good(s->ctx, pbRollout_WantParameters(r, NULL, 0, false));
  memset(few, 0, s->ntheta * sizeof *few);
  good(s->ctx, pbRollout_Vjp(r, &bar, NULL, &(pbRolloutGradient){.theta = few}, NULL));
  assert_memory_equal(few, all, s->ntheta * sizeof *few);
  pbRollout_Destroy(r);
  free(all);
  free(few);
}

static void test_mode_depends_on_counts_alone(void **state) {
  (void)state;
  assert_int_equal(pbRollout_GradientMode(2, 1), pb_modeForward);
  assert_int_equal(pbRollout_GradientMode(3, 1), pb_modeReverse);
  assert_int_equal(pbRollout_GradientMode(6, 9), pb_modeForward);
}

// Steps place the sites and geoms that they read: what stood there before is in no bit of states and sensors, and those of a
// gradient are the same with cached evaluations and without.
static void check_sites(World *s, const char *file) {
  enum { steps = 6 };
  pbModel *m;
  good(s->ctx, pbModel_Load(s->ctx, file, NULL, &m));
  int nx = pbModel_StateSize(m), n = pbModel_TangentSize(m), nu = pbModel_Size(m, "nu"), ns = pbModel_Size(m, "nsensordata");
  size_t sizes[] = {(size_t)n, (size_t)(steps * nu), pbModel_ParamSize(m)}, total = sizes[0] + sizes[1] + sizes[2];
  const double *theta = pbModel_DefaultParams(m);
  double *x = calloc((size_t)nx, sizeof *x), *states = calloc((steps + 1) * (size_t)nx, sizeof *x);
  double *sensed = calloc((steps + 1) * (size_t)ns + 1, sizeof *x), *one = calloc((size_t)ns + 1, sizeof *x);
  double *ctrl = calloc(steps * (size_t)nu + 1, sizeof *x), *bars = calloc(2 * total, sizeof *x);
  double *ones = calloc((size_t)(nx + ns), sizeof *x);
  unsigned seed = 3;
  for (int i = 0; i < steps * nu; i++) ctrl[i] = noise(&seed);
  for (int i = 0; i < nx + ns; i++) ones[i] = noise(&seed);
  good(s->ctx, pbState_Init(s->ctx, m, theta, -1, x));

  const pbRolloutInput input = {.ctrl = ctrl};
  const pbRolloutBar bar = {.qpos = {ones, 1, NULL}, .sensordata = {ns ? ones + nx : NULL, 1, NULL}};
  for (int cached = 0; cached < 2; cached++) {
    pbRolloutPlan plan;
    pbRollout *r;
    double *b = bars + (size_t)cached * total;
    if (cached) good(s->ctx, pbRollout_Plan(s->ctx, m, steps, 0, &plan));
    else good(s->ctx, pbRollout_PlanSlots(s->ctx, m, steps, 0, steps, &plan));
    assert_true((plan.cached_bytes > 0) == cached);
    good(s->ctx, pbRollout_Create(s->ctx, m, &plan, NULL, &r));
    pbRolloutOutput out = {.states = states, .sensordata = sensed};
    good(s->ctx, pbRollout_Forward(r, theta, x, &input, &out));
    good(s->ctx, pbRollout_Vjp(r, &bar, NULL,
                               &(pbRolloutGradient){.x0 = b, .ctrl = b + sizes[0], .theta = b + sizes[0] + sizes[1]}, NULL));
    pbRollout_Destroy(r);
  }
  assert_memory_equal(bars, bars + total, total * sizeof *bars);

  pbScratch *scratch;
  good(s->ctx, pbScratch_Create(s->ctx, m, NULL, &scratch));
  for (int k = 0; k < steps; k++) {
    pbInput in = {.ctrl = ctrl + k * nu};
    for (int i = 0; i < 3 * m->nsite; i++) scratch->w.site_xpos[i] = NAN;
    for (int i = 0; i < 9 * m->nsite; i++) scratch->w.site_xmat[i] = NAN;
    for (int i = 0; i < 3 * m->ngeom; i++) scratch->w.geom_xpos[i] = NAN;
    for (int i = 0; i < 9 * m->ngeom; i++) scratch->w.geom_xmat[i] = NAN;
    good(s->ctx, pbStep_Forward(m, theta, x, &in, scratch, one));
    assert_memory_equal(x, states + (k + 1) * nx, (size_t)nx * sizeof *x);
    assert_memory_equal(one, sensed + k * ns, (size_t)ns * sizeof *x);
  }
  pbScratch_Destroy(scratch);
  pbModel_Destroy(m);
  free(x);
  free(states);
  free(sensed);
  free(one);
  free(ctrl);
  free(bars);
  free(ones);
}
static void test_only_the_frames_that_are_read(void **state) {
  static const char *const files[] = {"transmissions",   "wrapping",    "muscles",       "tendon_spatial",   "sensors_imu",
                                      "sensors_loads",   "rich",        "sensors_frame", "sensors_distance", "sensors_rays",
                                      "fluid_ellipsoid", "contact_mesh"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char file[100];
    snprintf(file, sizeof file, "oracle/models/%s.xml", files[i]);
    check_sites(*state, file);
  }
}

// What searches found is part of a cached evaluation: a hull and a cylinder that fall and roll over, feature by feature.
static void test_kept_searches_change_no_bit(void **state) {
  static const char xml[] =
      "<mujoco><option timestep='.004'/><asset><mesh name='tet' vertex='0 0 0 .2 0 0 0 .2 0 0 0 .2'/></asset><worldbody>"
      "<geom type='box' size='1 1 .1' pos='0 0 -.1'/>"
      "<body pos='0 0 .2' euler='20 30 0'><freejoint/><geom type='mesh' mesh='tet'/></body>"
      "<body pos='.6 0 .2' euler='70 10 0'><freejoint/><geom type='cylinder' size='.1 .1'/></body></worldbody></mujoco>";
  enum { STEPS = 150 };
  World *s = *state;
  pbSpec *spec = NULL;
  pbModel *m;
  good(s->ctx, pbSpec_ParseMjcf(s->ctx, xml, strlen(xml), "searched", &spec));
  good(s->ctx, pbSpec_Compile(spec, &m));
  size_t n = (size_t)pbModel_TangentSize(m), ntheta = pbModel_ParamSize(m);
  double *x = calloc((size_t)pbModel_StateSize(m), sizeof *x), *ones = calloc(n, sizeof *ones), *gradient[2];
  const double *theta = pbModel_DefaultParams(m);
  for (size_t i = 0; i < n; i++) ones[i] = 1;
  good(s->ctx, pbState_Init(s->ctx, m, theta, -1, x));
  for (int cached = 0; cached < 2; cached++) {
    pbRolloutPlan plan;
    pbRollout *r;
    gradient[cached] = calloc(n + ntheta, sizeof **gradient);
    good(s->ctx, pbRollout_Plan(s->ctx, m, STEPS, 0, &plan));
    assert_true(plan.cached_bytes > 0);
    if (!cached) plan.cached_bytes = 0;
    good(s->ctx, pbRollout_Create(s->ctx, m, &plan, NULL, &r));
    good(s->ctx, pbRollout_Forward(r, theta, x, NULL, NULL));
    pbRolloutBar bar = {.qpos = {ones, 1, NULL}, .qvel = {ones, 1, NULL}};
    good(s->ctx, pbRollout_Vjp(r, &bar, NULL, &(pbRolloutGradient){.x0 = gradient[cached], .theta = gradient[cached] + n}, NULL));
    pbRollout_Destroy(r);
  }
  assert_memory_equal(gradient[0], gradient[1], (n + ntheta) * sizeof **gradient);
  for (int k = 0; k < 2; k++) free(gradient[k]);
  free(x);
  free(ones);
  pbModel_Destroy(m);
  pbSpec_Destroy(spec);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_forward_is_the_steps_one_by_one),
                                     cmocka_unit_test(test_gradient_has_the_same_bits_for_every_budget),
                                     cmocka_unit_test(test_kept_evaluations_change_no_bit),
                                     cmocka_unit_test(test_the_last_evaluations_are_kept),
                                     cmocka_unit_test(test_kept_searches_change_no_bit),
                                     cmocka_unit_test(test_forward_and_reverse_mode_agree),
                                     cmocka_unit_test(test_directions_of_any_size),
                                     cmocka_unit_test(test_spot_check),

                                     cmocka_unit_test(test_steps_are_checked),
                                     cmocka_unit_test(test_long_rollout_in_a_twentieth_of_the_tape),
                                     cmocka_unit_test(test_every_integrator),
                                     cmocka_unit_test(test_failures_say_where),
                                     cmocka_unit_test(test_wanted_parameters),
                                     cmocka_unit_test(test_only_the_frames_that_are_read),
                                     cmocka_unit_test(test_mode_depends_on_counts_alone)};
  const struct CMUnitTest smooth[] = {cmocka_unit_test(test_gradient_has_the_same_bits_for_every_budget),
                                      cmocka_unit_test(test_kept_evaluations_change_no_bit),
                                      cmocka_unit_test(test_forward_and_reverse_mode_agree),
                                      cmocka_unit_test(test_spot_check),
                                      cmocka_unit_test(test_steps_are_checked),
                                      cmocka_unit_test(test_wanted_parameters)};
  return cmocka_run_group_tests(tests, setup, teardown) +
         cmocka_run_group_tests_name("smoothed contacts", smooth, setup_smooth, teardown);
}
