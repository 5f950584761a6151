// Pullbacks that are interrupted at any of their steps and gone on with in another rollout: the same bits, for every plan of
// memory, check and truncation; through arrays, as a file has it.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rollout/rollout.h"
#include "support/support.h"

#include <pullback/io.h>
#include <pullback/trajectory.h>

// A ball that falls on a plane and rolls, and an arm with a motor.
static const char scene[] =
    "<mujoco><option timestep='0.004'/><worldbody><geom type='plane' size='5 5 .1'/>"
    "<body name='ball' pos='0 0 .12'><freejoint/><geom size='.1' mass='1'/></body>"
    "<body name='arm' pos='1 0 1'><joint name='swing' type='ball' damping='.1'/><geom type='capsule' size='.03' fromto='0 0 0 .4 "
    "0 .1'/>"
    "<site name='end' pos='.3 0 0'/></body></worldbody><actuator><motor name='motor' joint='swing' gear='0 1 0 0 0 "
    "0'/></actuator>"
    "<sensor><framepos objtype='site' objname='end'/><clock/></sensor></mujoco>";

enum { N = 40, MOST = 4096 };
typedef struct Gradient {
  double x0[64], ctrl[N], theta[MOST];
  pbCertificate certificate;
} Gradient;

typedef struct World {
  pbContext *ctx;
  pbModel *model;
  double x0[128], ctrl[N], w[(N + 1) * 16];
} World;

static int setup(void **state) {
  World *s = calloc(1, sizeof *s);
  unsigned seed = 1;
  s->ctx = pbContext_Create(NULL);
  s->model = model_of_text(s->ctx, scene);
  if (pbState_Init(s->ctx, s->model, pbModel_DefaultParams(s->model), -1, s->x0) != pb_ok) return 1;
  for (int k = 0; k < N; k++) s->ctrl[k] = noise(&seed);
  for (int k = 0; k < (N + 1) * 16; k++) s->w[k] = noise(&seed);
  *state = s;
  return pbModel_ParamSize(s->model) > MOST;
}

static int teardown(void **state) {
  World *s = *state;
  pbModel_Destroy(s->model);
  pbContext_Destroy(s->ctx);
  free(s);
  return 0;
}

// Asked at every step of the way back, and of the check of the whole behind it.
typedef struct Stop {
  pbRollout *r;
  int asked, at;
} Stop;

static int stop(void *user, const pbProgress *p) {
  Stop *s = user;
  s->r->meter.last = -1e9;
  if (strcmp(p->phase, "forward") == 0) return 0;
  return s->asked++ == s->at;
}

// Stops when it is asked for the `at`th time; -1: never.
static pbStatus pull(const World *s, const int plan[2], pbGradientKind kind, const pbVjpOptions *options, pbPulled *pulled,
                     int at, Gradient *out) {
  pbRolloutPlan p;
  pbRollout *r;
  good(s->ctx, pbRollout_PlanSlots(s->ctx, s->model, N, plan[0], plan[1], &p));
  good(s->ctx, pbRollout_Create(s->ctx, s->model, &p, NULL, &r));
  good(s->ctx, pbRollout_SetGradient(r, kind));
  Stop stopping = {.r = r, .at = at};
  pbRollout_OnProgress(r, stop, &stopping);
  pbRollout_KeepPulled(r, pulled);

  const pbRolloutInput input = {.ctrl = s->ctrl};
  good(s->ctx, pbRollout_Forward(r, pbModel_DefaultParams(s->model), s->x0, &input, NULL));
  const pbRolloutBar bar = {.qpos = {s->w, 1, NULL}, .qvel = {s->w + 16, 1, NULL}, .sensordata = {s->w, N + 1, NULL}};
  pbStatus status = pbRollout_Vjp(r, &bar, options, &(pbRolloutGradient){.x0 = out->x0, .ctrl = out->ctrl, .theta = out->theta},
                                  &out->certificate);
  pbRollout_Destroy(r);
  return status;
}

static void same_member(const pbCertificateMember *m, const pbCertificate *a, const pbCertificate *b) {
  static const size_t sizes[] = {
      [pb_certificateReal] = sizeof(double),  [pb_certificateInteger] = sizeof(int), [pb_certificateCount] = sizeof(int64_t),
      [pb_certificateBytes] = sizeof(size_t), [pb_certificateFlag] = sizeof(bool),   [pb_certificateGeoms] = 2 * sizeof(int)};
  const char *one = (const char *)a + m->offset, *other = (const char *)b + m->offset;
  bool same = m->type == pb_certificateText ? strcmp(one, other) == 0 : memcmp(one, other, sizes[m->type]) == 0;
  if (!same) fail_msg("%s of the certificate is another (%g, %g)", m->name, *(const double *)one, *(const double *)other);
}

static void same_gradients(const Gradient *a, const Gradient *b) {
  int count;
  const pbCertificateMember *members = pbCertificate_Members(&count);
  assert_memory_equal(a->x0, b->x0, sizeof a->x0);
  assert_memory_equal(a->ctrl, b->ctrl, sizeof a->ctrl);
  assert_memory_equal(a->theta, b->theta, sizeof a->theta);
  for (int i = 0; i < count; i++) same_member(&members[i], &a->certificate, &b->certificate);
}

// As a file has it, into a pullback that knows nothing.
static void through_arrays(const World *s, const pbPulled *from, pbPulled *to) {
  pbArrays *set;
  int n = pbModel_TangentSize(s->model);
  good(s->ctx, pbArrays_Create(s->ctx, &set));
  good(s->ctx, pbPulled_Keep(from, n, "p", set));
  assert_true(pbPulled_Restore(to, n, "p", set));
  assert_false(pbPulled_Restore(to, n + 1, "p", set));
  assert_false(pbPulled_Restore(to, n, "q", set));
  assert_true(pbPulled_Restore(to, n, "p", set));
  pbArrays_Destroy(set);
}

// Stopped when it is asked for the `at`th time, then gone on with in lives of `life` steps each. Whether it was stopped.
static bool goes_on(const World *s, const int plan[2], pbGradientKind kind, pbVjpOptions options, int at, int life,
                    const Gradient *whole) {
  double costate[2][64];
  pbPulled pulled[2] = {{.step = -1, .costate = costate[0]}, {.step = -1, .costate = costate[1]}};
  Gradient *g = calloc(1, sizeof *g);
  int lives = 0;

  pbStatus status = pb_interrupted;
  for (; status == pb_interrupted; at = life) {
    pbPulled *last = &pulled[lives & 1];
    status = pull(s, plan, kind, &options, last, at, g);
    if (status != pb_interrupted) break;
    if (last->step >= 0) through_arrays(s, last, &pulled[++lives & 1]);
    assert_true(lives < 2 * N);
  }
  good(s->ctx, status);
  same_gradients(whole, g);
  free(g);
  return lives > 0;
}

static const int plans[][2] = {{0, N}, {3, 5}, {0, 1}, {1, 7}};
enum { PLANS = sizeof plans / sizeof *plans };

static void test_every_step_is_one_to_go_on_at(void **state) {
  const World *s = *state;
  Gradient *whole = calloc(1, sizeof *whole);

  for (int p = 0; p < PLANS; p++) {
    memset(whole, 0, sizeof *whole);
    good(s->ctx, pull(s, plans[p], pb_gradientExact, NULL, NULL, -1, whole));
    int stopped = 0;
    for (int at = 0; at < N; at++) stopped += goes_on(s, plans[p], pb_gradientExact, (pbVjpOptions){0}, at, -1, whole);
    assert_int_equal(stopped, N - 1);  // asked first before the last state is pulled: nothing is there to go on with
    assert_true(goes_on(s, plans[p], pb_gradientExact, (pbVjpOptions){0}, 5, 60, whole));  // many lives
  }
  free(whole);
}

static void test_checks_and_truncation_go_on(void **state) {
  const World *s = *state;
  static const struct {
    pbGradientKind kind;
    pbVjpOptions options;
  } all[] = {{pb_gradientExact, {.spot_check = pb_checkSteps, .seed = 3}},
             {pb_gradientExact, {.spot_check = pb_checkFull, .seed = 4}},
             {pb_gradientExact, {.spot_check = pb_checkFull, .decay = 2, .clip = 1, .window = 0.04}},
             {pb_gradientEvent, {.spot_check = pb_checkSteps}},
             {pb_gradientSmooth, {.spot_check = pb_checkSteps}}};
  Gradient *whole = calloc(1, sizeof *whole);

  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    memset(whole, 0, sizeof *whole);
    good(s->ctx, pull(s, plans[1], all[i].kind, &all[i].options, NULL, -1, whole));
    for (int at = 1; at < 30; at += 3) assert_true(goes_on(s, plans[1], all[i].kind, all[i].options, at, -1, whole));
    for (int at = 30; at < 160; at += 7)
      goes_on(s, plans[1], all[i].kind, all[i].options, at, -1, whole);  // in the check of the whole
  }
  free(whole);
}

static void test_what_does_not_fit_is_refused(void **state) {
  const World *s = *state;
  double costate[64] = {0};
  pbPulled pulled = {.step = N + 1, .costate = costate};
  Gradient *g = calloc(1, sizeof *g);

  assert_int_equal(pull(s, plans[0], pb_gradientExact, NULL, &pulled, -1, g), pb_bad_argument);
  pulled.step = 3;
  costate[2] = NAN;
  assert_int_equal(pull(s, plans[0], pb_gradientExact, NULL, &pulled, -1, g), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(s->ctx), "costate"));
  free(g);
}

// Every member of a certificate has a place in a file; numbers that a member cannot hold are refused.
static void test_certificates_in_arrays(void **state) {
  const World *s = *state;
  pbCertificate c = {0}, back;
  pbArrays *set;
  int count;
  const pbCertificateMember *m = pbCertificate_Members(&count);
  good(s->ctx, pbArrays_Create(s->ctx, &set));

  // each another value
  for (int i = 0; i < count; i++) {
    char *at = (char *)&c + m[i].offset;
    if (m[i].type == pb_certificateReal) *(double *)at = 0.1 * i;
    if (m[i].type == pb_certificateInteger) *(int *)at = i;
    if (m[i].type == pb_certificateCount) *(int64_t *)at = (int64_t)1 << (i % 50);
    if (m[i].type == pb_certificateBytes) *(size_t *)at = (size_t)i << 20;
    if (m[i].type == pb_certificateFlag) *(bool *)at = true;
    if (m[i].type == pb_certificateGeoms) memcpy(at, (int[2]){-1, i}, 2 * sizeof(int));
    if (m[i].type == pb_certificateText) snprintf(at, 64, "text %d", i);
  }
  good(s->ctx, pbCertificate_Keep(&c, "c", set));
  assert_true(pbCertificate_Restore(&back, "c", set));
  for (int i = 0; i < count; i++) same_member(&m[i], &c, &back);

  double *numbers = pbArrays_Find(set, "c/numbers")->reals;
  numbers[1] = 1e300;  // a step
  assert_false(pbCertificate_Restore(&back, "c", set));
  numbers[1] = NAN;
  assert_false(pbCertificate_Restore(&back, "c", set));
  pbArrays_Destroy(set);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_step_is_one_to_go_on_at), cmocka_unit_test(test_checks_and_truncation_go_on),
      cmocka_unit_test(test_what_does_not_fit_is_refused), cmocka_unit_test(test_certificates_in_arrays)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
