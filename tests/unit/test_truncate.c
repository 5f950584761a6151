// Truncated gradients: closed forms of a linear system, the same bits without truncation and for every memory budget, all modes.
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
#include <pullback/rollout.h>
#include <pullback/spec.h>

#include "support/support.h"

enum { N = 40 };
static const double H = 0.01, MASS = 2, DAMPING = 3;

// v' = a v + b u: a damper, treated implicitly. A sensor sees the velocity.
static const char slide[] =
    "<mujoco><option timestep='0.01' gravity='0 0 0'/><worldbody><body>"
    "<joint name='x' type='slide' axis='1 0 0' damping='3'/><geom size='.1' mass='2'/></body></worldbody>"
    "<actuator><motor joint='x'/></actuator><sensor><jointvel joint='x'/></sensor></mujoco>";
// Contacts, rotations, a motor with activation: nothing linear.
static const char tumble[] =
    "<mujoco><option timestep='0.01'/><worldbody><geom type='plane' size='5 5 .1'/>"
    "<body name='box' pos='0 0 .12'><freejoint/><geom type='box' size='.1 .08 .05' mass='1'/><body pos='.1 0 0'>"
    "<joint name='swing' axis='0 1 0' damping='.05'/><geom type='capsule' size='.02' fromto='0 0 0 .2 0 0' "
    "mass='.2'/></body></body>"
    "</worldbody><actuator><general joint='swing' dyntype='filter' dynprm='.05' gainprm='1'/></actuator>"
    "<sensor><framepos objtype='body' objname='box'/><jointvel joint='swing'/></sensor></mujoco>";

typedef struct World {
  pbContext *ctx;
  pbModel *model;
  pbRollout *rollout;
  const double *theta;
  size_t ntheta;
  int n;
  double *x0, ctrl[N], *w;  // w: cotangents of everything
} World;

static void make_rollout(World *s, int snapshots, int leaf) {
  pbRolloutPlan plan;
  pbRollout_Destroy(s->rollout);
  good(s->ctx, pbRollout_PlanSlots(s->ctx, s->model, N, snapshots, leaf, &plan));
  good(s->ctx, pbRollout_Create(s->ctx, s->model, &plan, NULL, &s->rollout));
}

static void run(World *s) {
  const pbRolloutInput input = {.ctrl = s->ctrl};
  static pbRolloutInput kept;
  kept = input;
  good(s->ctx, pbRollout_Forward(s->rollout, s->theta, s->x0, &kept, NULL));
}

static World begin(const char *text) {
  World s = {.ctx = pbContext_Create(NULL)};
  s.model = model_of_text(s.ctx, text);

  s.theta = pbModel_DefaultParams(s.model);
  s.ntheta = pbModel_ParamSize(s.model);
  s.n = pbModel_TangentSize(s.model);
  s.x0 = calloc((size_t)pbModel_StateSize(s.model), sizeof(double));
  s.w = calloc((N + 1) * 64, sizeof(double));
  good(s.ctx, pbState_Init(s.ctx, s.model, s.theta, -1, s.x0));
  for (int k = 0; k < N; k++) s.ctrl[k] = sin(0.3 * k);
  for (int i = 0; i < (N + 1) * 64; i++) s.w[i] = cos(1.7 * i);
  make_rollout(&s, 0, N);
  return s;
}

static void end(World *s) {
  pbRollout_Destroy(s->rollout);
  pbModel_Destroy(s->model);
  pbContext_Destroy(s->ctx);
  free(s->x0);
  free(s->w);
}

static pbCertificate pull(World *s, const pbRolloutBar *bar, const pbVjpOptions *options, double *ctrl_bar) {
  pbCertificate c;
  memset(ctrl_bar, 0, N * sizeof *ctrl_bar);
  run(s);
  good(s->ctx, pbRollout_Vjp(s->rollout, bar, options, &(pbRolloutGradient){.ctrl = ctrl_bar}, &c));
  return c;
}

// Of the last velocity: the share of step k is weighed by a^(N - 1 - k) b, and by exp(-decay h) for each step on the way back.
static void test_decay(void **state) {
  World s = begin(slide);
  const double one = 1, decay = 7, a = 1 / (1 + H * DAMPING / MASS), b = H / MASS * a, q = exp(-decay * H);
  double g[N];
  pbRolloutBar bar = {.qvel = {&one, 1, NULL}};
  pbCertificate c = pull(&s, &bar, &(pbVjpOptions){.spot_check = pb_checkFull, .seed = 1, .decay = decay}, g);
  for (int k = 0; k < N; k++) assert_true(fabs(g[k] - pow(q, N - k) * pow(a, N - 1 - k) * b) < 1e-12 * b);

  char text[200];
  assert_true(c.truncated && c.decay == decay && c.cuts == 0 && c.clips == 0 && c.window == 0);
  assert_string_equal(pbCertificate_Truncation(&c, text, sizeof text), "decay 7 /s");
  assert_string_equal(pbCertificate_Checked(&c), "steps");  // not the whole rollout
  assert_true(!c.spot_off && c.spot_steps > 0 && c.spot_quotients > 0);
  end(&s);
  (void)state;
}

// Of all velocities: step k is reached by those up to the end of its window, boundaries at N - 12, N - 24, N - 36.
static void windows(World *s, const pbRolloutBar *bar) {
  const double a = 1 / (1 + H * DAMPING / MASS), b = H / MASS * a;
  double g[N];
  pbCertificate c = pull(s, bar, &(pbVjpOptions){.spot_check = pb_checkSteps, .window = 0.1201}, g);
  for (int k = 0; k < N; k++) {
    int stop = N;
    while (stop - 12 > k) stop -= 12;
    double closed = 0;
    for (int j = k + 1; j <= stop; j++) closed += s->w[j] * pow(a, j - 1 - k) * b;
    assert_true(fabs(g[k] - closed) < 1e-12 * b);
  }
  assert_true(c.truncated && c.cuts == 3 && fabs(c.window - 0.12) < 1e-15 && !c.spot_off && c.spot_checked);
}

static void test_windows(void **state) {
  World s = begin(slide);
  windows(&s, &(pbRolloutBar){.qvel = {s.w, N + 1, NULL}});
  windows(&s,
          &(pbRolloutBar){.sensordata = {s.w, N + 1, NULL}});  // what is observed at a boundary belongs to the window before it
  end(&s);
  (void)state;
}

// A cotangent of norm 3 is clipped to 1 at once; from there it shrinks by a each step.
static void test_clip(void **state) {
  World s = begin(slide);
  const double three = 3, a = 1 / (1 + H * DAMPING / MASS), b = H / MASS * a;
  double g[N];
  pbRolloutBar bar = {.qvel = {&three, 1, NULL}};
  pbCertificate c = pull(&s, &bar, &(pbVjpOptions){.clip = 1}, g);
  for (int k = 0; k < N; k++) assert_true(fabs(g[k] - pow(a, N - 1 - k) * b) < 1e-12 * b);
  assert_true(c.truncated && c.clips == 1 && c.clip_step == N && c.clip_most == 3 && c.costate_worst == 3);

  // Each step's own cotangent is 3, and what comes from later never more than 1.
  for (int k = 0; k <= N; k++) s.w[k] = 3;
  c = pull(&s, &(pbRolloutBar){.qvel = {s.w, N + 1, NULL}}, &(pbVjpOptions){.clip = 1}, g);
  for (int k = 0; k < N; k++) assert_true(fabs(g[k] - b) < 1e-12 * b);
  assert_int_equal(c.clips, N);
  end(&s);
  (void)state;
}

static pbRolloutBar everything(const World *s) {
  int nv = pbModel_Size(s->model, "nv");
  return (pbRolloutBar){.qpos = {s->w, N + 1, NULL},
                        .qvel = {s->w + (N + 1) * nv, N + 1, NULL},
                        .sensordata = {s->w + (N + 1) * 2 * nv, N + 1, NULL},
                        .xpos = {s->w + (N + 1) * (2 * nv + 4), N + 1, NULL}};
}

static void pull_all(World *s, const pbVjpOptions *options, double *g, pbCertificate *c) {
  pbRolloutBar bar = everything(s);
  memset(g, 0, (N + (size_t)s->n + s->ntheta) * sizeof *g);
  run(s);
  good(s->ctx, pbRollout_Vjp(s->rollout, &bar, options, &(pbRolloutGradient){.ctrl = g, .x0 = g + N, .theta = g + N + s->n}, c));
}

// Nothing that cannot act changes a bit, and nothing that acts depends on what the budget holds; every mode, integrator and method.
static void test_bits(World *s) {
  static const pbVjpOptions idle[] = {{.window = INFINITY}, {.window = N * 0.01}, {.clip = INFINITY}, {.clip = 1e300}};
  static const int slots[][2] = {{0, N}, {3, 4}, {1, 7}, {N, 1}};
  const pbVjpOptions acting = {.decay = 4, .window = 0.09, .clip = 2};
  size_t count = N + (size_t)s->n + s->ntheta;
  double *plain = calloc(3 * count, sizeof *plain), *g = plain + count, *cut = g + count;
  pbCertificate c;

  pull_all(s, NULL, plain, &c);
  assert_true(!c.truncated && c.clip_step == -1);
  for (size_t i = 0; i < sizeof idle / sizeof *idle; i++) {
    pull_all(s, idle + i, g, &c);
    assert_memory_equal(g, plain, count * sizeof *g);
    assert_true(!c.truncated && c.cuts == 0 && c.clips == 0);
  }

  for (int i = 0; i < 4; i++) {
    make_rollout(s, slots[i][0], slots[i][1]);
    pull_all(s, &acting, i ? g : cut, &c);
    if (i) assert_memory_equal(g, cut, count * sizeof *g);
    assert_true(c.truncated && c.cuts == 4 && c.clips > 0);
  }
  assert_true(memcmp(cut, plain, count * sizeof *cut) != 0);
  free(plain);
}

static void test_modes_and_budgets(void **state) {
  static const char *const integrators[] = {"Euler", "RK4", "implicitfast"}, *const methods[] = {"soft", "cones", "lcp"};
  for (int i = 0; i < 5; i++) {
    World s = begin(tumble);
    if (i < 3) good(s.ctx, pbModel_SetOption(s.model, "integrator", integrators[i]));
    else good(s.ctx, pbModel_SetContact(s.model, "method", methods[i - 2]));
    make_rollout(&s, 0, N);
    test_bits(&s);

    // Steps corrected for their events, and steps with smooth contacts.
    for (int mode = pb_gradientEvent; mode < pb_gradientKindCount; mode++) {
      double *g = calloc(N + (size_t)s.n + s.ntheta, sizeof *g);
      pbCertificate c;
      make_rollout(&s, 2, 5);
      if (pbRollout_SetGradient(s.rollout, (pbGradientKind)mode) == pb_ok) {
        pull_all(&s, &(pbVjpOptions){.spot_check = pb_checkFull, .seed = 3, .decay = 4, .window = 0.09, .clip = 2}, g, &c);
        assert_true(c.truncated && c.cuts == 4 && c.spot_checked && !c.spot_off && !(c.spot_part & pb_partRollout));
      }
      free(g);
    }
    end(&s);
  }
  (void)state;
}

static void test_bad_options(void **state) {
  World s = begin(slide);
  const pbVjpOptions bad[] = {{.decay = -1},     {.decay = NAN}, {.decay = INFINITY}, {.window = -1},
                              {.window = 0.004}, {.clip = -2},   {.clip = NAN}};
  static const char *const text[] = {"decay", "decay", "decay", "window", "window", "clip", "clip"};
  const double one = 1;
  run(&s);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(pbRollout_Vjp(s.rollout, &(pbRolloutBar){.qvel = {&one, 1, NULL}}, bad + i, NULL, NULL), pb_bad_argument);
    assert_non_null(strstr(pbContext_Error(s.ctx), text[i]));
  }
  end(&s);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_decay), cmocka_unit_test(test_windows), cmocka_unit_test(test_clip),
                                     cmocka_unit_test(test_modes_and_budgets), cmocka_unit_test(test_bad_options)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
