// The check of derivatives as a function: a right model holds, a wrong derivative fails the tests that see it, and what a caller
// may do wrong.
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/policies.h"
#include "world/policy_step.h"
#include "support/support.h"

#include <pullback/check.h>
#include <pullback/describe.h>
#include <pullback/io.h>

static const char arm[] =
    "<mujoco><worldbody><geom type='plane' size='5 5 .1'/><body pos='0 0 1'><joint name='a' axis='0 1 0' damping='.1'/>"
    "<geom type='capsule' size='.03' fromto='0 0 0 0 0 -.3' mass='1'/><body pos='0 0 -.3'><joint name='b' axis='0 1 0'/>"
    "<geom type='sphere' size='.05' pos='.1 0 0' mass='.4'/></body></body></worldbody>"
    "<actuator><motor joint='b' ctrlrange='-1 1'/></actuator><sensor><jointvel joint='b'/></sensor></mujoco>";

typedef struct World {
  pbContext *ctx;
  pbModel *model;
  double x0[64];
} World;

static World begin_with(const char *text) {
  World w = {.ctx = pbContext_Create(NULL)};
  w.model = model_of_text(w.ctx, text);
  return w;
}

static World begin(void) { return begin_with(arm); }

// The start is of the model as it is now: a policy has a part of the state.
static pbCheckReport *run(World *w, const pbCheckOptions *options) {
  const double *theta = pbModel_DefaultParams(w->model);
  pbCheckReport *report = NULL;
  assert_true(pbModel_StateSize(w->model) <= 64);
  assert_int_equal(pbState_Init(w->ctx, w->model, theta, -1, w->x0), pb_ok);
  pbStatus status = pbCheck_Run(w->ctx, w->model, theta, w->x0, NULL, options, &report);
  if (status != pb_ok) fail_msg("%s", pbContext_Error(w->ctx));
  return report;
}

static void end(World *w) {
  pbModel_Destroy(w->model);
  pbContext_Destroy(w->ctx);
}

static const pbCheckTest *test_named(const pbCheckReport *r, const char *name) {
  for (int i = 0; i < r->test_count; i++) {
    if (strcmp(r->test[i].name, name) == 0) return &r->test[i];
  }
  fail_msg("there is no test '%s'", name);
  return NULL;
}

static void test_a_right_model_holds(void **state) {
  (void)state;
  World w = begin();
  const pbCheckOptions options = {
      .steps = 8, .seed = 3, .mode = pb_gradientEvent, .at_start = true, .random_controls = true, .random_velocity = true};
  assert_int_equal(pbContext_Fail(w.ctx, pb_ok, "said before"), pb_ok);
  pbCheckReport *r = run(&w, &options);

  assert_true(r->holds && r->steps == 8 && r->test_count > 15);
  for (int i = 0; i < r->test_count; i++) {
    const pbCheckTest *t = &r->test[i];
    if (!t->holds || !(t->worst <= t->limit) || (t->tried == 0 && t->skipped == 0 && strcmp(t->name, "solver converged") != 0))
      fail_msg("%s: worst %g, limit %g, %d cases: %s", t->name, t->worst, t->limit, t->tried, t->words);
  }
  assert_string_equal(pbContext_Error(w.ctx), "said before");
  assert_true(isfinite(r->certificate.growth) && r->certificate.costate_initial > 0);

  pbCheckReport_Free(w.ctx, r);
  pbCheckReport_Free(w.ctx, NULL);
  end(&w);
}

// A controller whose pull by observations has lost a tenth: no test of the policy is made, so that the model has it.
static pbStatus wrong_pull(const void *self, int batch, const double *param, const double *o, const double *m,
                           const double *out_bar, const double *m_next_bar, double *o_bar, double *m_bar, double *param_bar,
                           double *kept, int kept_stride, void *work) {
  double before[64];
  int seen = 2 * batch;
  assert_true(seen <= 64);
  memcpy(before, o_bar, (size_t)seen * sizeof *before);
  PB_TRY(network_pull(self, batch, param, o, m, out_bar, m_next_bar, o_bar, m_bar, param_bar, kept, kept_stride, work));
  for (int i = 0; i < seen; i++) o_bar[i] = before[i] + 0.9 * (o_bar[i] - before[i]);
  return pb_ok;
}

static void test_a_wrong_derivative_is_seen(void **state) {
  (void)state;
  World w = begin();
  TestNetwork network = {0};
  TestNetwork_Begin(&network, 2, 2, 0, 0.5, 5);
  network.function.pull = wrong_pull;
  const pbObserveDef seen = {.kind = pb_observeQpos};
  const pbOutputDef forces = {.kind = pb_outputForce};
  const pbPolicyDef def = {
      .observe = &seen, .observe_count = 1, .decide = &network.function, .every = 1, .output = &forces, .output_count = 1};
  assert_int_equal(pbModel_TrustPolicy(w.model, &def), pb_ok);

  pbCheckReport *r = run(&w, &(pbCheckOptions){.steps = 4, .at_start = true, .random_velocity = true});
  assert_false(r->holds);
  static const char *const fail[] = {"dot product, step by state", "differences, step by state",
                                     "Taylor remainder, along the gradient"};
  for (int i = 0; i < 3; i++) assert_false(test_named(r, fail[i])->holds);
  assert_true(test_named(r, "dot product, step by control")->holds);

  // the worst of all cases, though the last of them, by velocities, are right
  const pbCheckTest *start = test_named(r, "slopes at the start, by state");
  assert_true(!start->holds && start->worst > start->limit);

  // told in words, with its place
  bool told = false;
  for (int i = 0; i < r->finding_count; i++) told = told || !strcmp(r->finding[i].what, fail[0]);
  assert_true(told);

  pbCheckReport_Free(w.ctx, r);
  end(&w);
  TestNetwork_End(&network);
}

// Who calls the library has no command line: settings and modes are named, not the program's options.
static void test_findings_name_no_options_of_the_program(void **state) {
  (void)state;
  static const char pile[] =
      "<mujoco><worldbody><geom type='plane' size='5 5 .1'/><body pos='0 0 .099'><freejoint/>"
      "<geom type='box' size='.1 .1 .1' mass='.2'/></body><body pos='.03 0 .31'><freejoint/>"
      "<geom type='sphere' size='.1' mass='20'/></body></worldbody></mujoco>";
  World w = begin_with(pile);
  bool unsolved = false, onset = false;
  assert_int_equal(pbModel_SetContact(w.model, "method", "sweeps"), pb_ok);
  assert_int_equal(pbModel_SetContact(w.model, "sweeps", "1"), pb_ok);

  pbCheckReport *r = run(&w, &(pbCheckOptions){.steps = 60});
  for (const pbCheckFinding *f = r->finding; f < r->finding + r->finding_count; f++) {
    if (strstr(f->why, "--")) fail_msg("%s: %s", f->what, f->why);
    unsolved = unsolved || strstr(f->why, "Raise the contact setting sweeps");
    onset = onset || strstr(f->why, "mode event does that");
  }
  assert_true(unsolved && onset);
  pbCheckReport_Free(w.ctx, r);
  end(&w);
}

static void expect(World *w, const pbModel *m, const double *theta, const pbRolloutInput *input, const pbCheckOptions *options,
                   const char *words) {
  pbCheckReport *report = (pbCheckReport *)w;  // written in any case
  assert_int_equal(pbState_Init(w->ctx, w->model, pbModel_DefaultParams(w->model), -1, w->x0), pb_ok);
  assert_int_equal(pbCheck_Run(w->ctx, m, theta, w->x0, input, options, &report), pb_bad_argument);
  if (!strstr(pbContext_Error(w->ctx), words)) fail_msg("%s: %s", words, pbContext_Error(w->ctx));
  assert_null(report);
}

static void test_bad_arguments(void **state) {
  (void)state;
  World w = begin();
  const double *theta = pbModel_DefaultParams(w.model);
  expect(&w, NULL, theta, NULL, NULL, "model is NULL");
  expect(&w, w.model, NULL, NULL, NULL, "theta is NULL");
  expect(&w, w.model, theta, NULL, &(pbCheckOptions){.steps = -1}, "-1 steps");
  expect(&w, w.model, theta, NULL, &(pbCheckOptions){.steps = PB_CHECK_STEPS + 1}, "expected 1 to 10000");
  expect(&w, w.model, theta, NULL, &(pbCheckOptions){.mode = pb_gradientKindCount}, "no kind of gradient");
  expect(&w, w.model, theta, &(pbRolloutInput){.constant = true}, NULL, "a row for each");

  // a start that is none is an error of the rollout's
  pbCheckReport *report;
  w.x0[1] = NAN;
  assert_int_equal(pbCheck_Run(w.ctx, w.model, theta, w.x0, NULL, NULL, &report), pb_not_finite);
  assert_non_null(strstr(pbContext_Error(w.ctx), "qpos[0]"));
  end(&w);
}

typedef struct Listener {
  int calls, stop_at;
  char part[64];
} Listener;

static int listen(void *user, const pbProgress *p) {
  Listener *l = user;
  assert_true(p->done >= 0 && p->done <= p->total);
  snprintf(l->part, sizeof l->part, "%s", p->phase);
  return ++l->calls == l->stop_at;
}

static void test_the_caller_may_end_it(void **state) {
  (void)state;
  World w = begin();
  const double *theta = pbModel_DefaultParams(w.model);
  assert_int_equal(pbState_Init(w.ctx, w.model, theta, -1, w.x0), pb_ok);

  for (int stop = 1; stop < 4; stop++) {
    Listener l = {.stop_at = stop};
    pbCheckReport *report;
    pbStatus status = pbCheck_Run(w.ctx, w.model, theta, w.x0, NULL, &(pbCheckOptions){.progress = listen, .user = &l}, &report);
    if (l.calls < stop) {  // reports come ten times a second
      assert_int_equal(status, pb_ok);
      pbCheckReport_Free(w.ctx, report);
      break;
    }
    assert_int_equal(status, pb_interrupted);
    assert_null(report);
    assert_non_null(strstr(pbContext_Error(w.ctx), "interrupted"));
  }
  end(&w);
}

// A controller that has no memory left at one of its calls, wherever that is: the check ends with that, and says so.
static long calls, refused_call;

static pbStatus short_of_memory(const void *self, int batch, const double *param, const double *o, const double *m, double *out,
                                double *m_next, void *work) {
  if (++calls == refused_call) return pb_no_memory;
  return network_forward(self, batch, param, o, m, out, m_next, work);
}

static void test_memory_that_is_short_ends_it(void **state) {
  (void)state;
  World w = begin();
  TestNetwork network = {0};
  TestNetwork_Begin(&network, 2, 2, 0, 0.5, 5);
  network.function.forward = short_of_memory;
  const pbObserveDef seen = {.kind = pb_observeQpos};
  const pbOutputDef forces = {.kind = pb_outputForce};
  const pbPolicyDef def = {
      .observe = &seen, .observe_count = 1, .decide = &network.function, .every = 1, .output = &forces, .output_count = 1};
  const pbCheckOptions options = {.steps = 2, .at_start = true, .random_velocity = true};
  calls = refused_call = 0;
  assert_int_equal(pbModel_TrustPolicy(w.model, &def), pb_ok);

  pbCheckReport *report = run(&w, &options);
  long all = calls;
  pbCheckReport_Free(w.ctx, report);
  assert_true(all > 1000);

  // from the first call to the last, 200 of them
  for (int i = 0; i < 200; i++) {
    calls = 0;
    refused_call = 1 + i * (all - 1) / 199;
    pbStatus status = pbCheck_Run(w.ctx, w.model, pbModel_DefaultParams(w.model), w.x0, NULL, &options, &report);
    if (status != pb_no_memory || report) fail_msg("call %ld of %ld: %s", refused_call, all, pbStatus_Text(status));
    assert_non_null(strstr(pbContext_Error(w.ctx), "memory"));
  }
  refused_call = 0;
  end(&w);
  TestNetwork_End(&network);
}

// Two checks at once of one model, a context each: as if alone.
typedef struct Worker {
  const World *world;
  pbCheckReport *report;
  pbContext *ctx;
  pbStatus status;
} Worker;

static void *work(void *argument) {
  Worker *w = argument;
  const pbModel *m = w->world->model;
  const pbCheckOptions options = {.steps = 6, .seed = 9, .random_controls = true, .at_start = true};
  w->status = pbCheck_Run(w->ctx, m, pbModel_DefaultParams(m), w->world->x0, NULL, &options, &w->report);
  return NULL;
}

static void test_two_threads(void **state) {
  (void)state;
  World w = begin();
  assert_int_equal(pbState_Init(w.ctx, w.model, pbModel_DefaultParams(w.model), -1, w.x0), pb_ok);
  Worker workers[3];
  pthread_t thread[2];
  for (int i = 0; i < 3; i++) workers[i] = (Worker){.world = &w, .ctx = pbContext_Create(NULL)};

  work(&workers[2]);
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, work, &workers[i]), 0);
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);

  for (int i = 0; i < 3; i++) {
    assert_int_equal(workers[i].status, pb_ok);
    assert_int_equal(memcmp(workers[i].report, workers[2].report, sizeof *workers[i].report), 0);
  }
  for (int i = 0; i < 3; i++) {
    pbCheckReport_Free(workers[i].ctx, workers[i].report);
    pbContext_Destroy(workers[i].ctx);
  }
  end(&w);
}

// ---- going on -------------------------------------------------------------------------------------------------------
typedef struct Lives {
  int asked, stop;  // stop: when it is asked for so many times; -1: never
} Lives;

static int stop_there(void *user, const pbProgress *p) {
  (void)p;
  Lives *l = user;
  return ++l->asked == l->stop;
}

static void same_reports(const pbCheckReport *a, const pbCheckReport *b) {
  assert_int_equal(a->test_count, b->test_count);
  assert_int_equal(a->finding_count, b->finding_count);
  for (int i = 0; i < a->test_count; i++) {
    const pbCheckTest *s = &a->test[i], *t = &b->test[i];
    assert_string_equal(s->name, t->name);
    assert_string_equal(s->words, t->words);
    assert_memory_equal(&s->worst, &t->worst, sizeof s->worst);
    assert_true(s->holds == t->holds && s->tried == t->tried && s->skipped == t->skipped && s->step == t->step);
  }
  for (int i = 0; i < a->finding_count; i++) {
    assert_string_equal(a->finding[i].where, b->finding[i].where);
    assert_string_equal(a->finding[i].why, b->finding[i].why);
  }
  assert_true(a->holds == b->holds && a->certificate.growth == b->certificate.growth);
}

static void through_arrays(pbContext *ctx, pbCheckPoint *point) {
  pbArrays *set;
  assert_int_equal(pbArrays_Create(ctx, &set), pb_ok);
  assert_int_equal(pbCheckPoint_Keep(point, set), pb_ok);
  memset(point, 7, sizeof *point);
  assert_true(pbCheckPoint_Restore(point, set));
  pbArrays_Destroy(set);
}

// Ended again and again, a few hundredths of a second after the last time: the report of a check that was left alone.
static void test_an_interrupted_check_goes_on(void **state) {
  (void)state;
  World w = begin();
  Lives lives = {.stop = -1};
  pbCheckOptions o = {.steps = 1500, .seed = 5, .at_start = true, .progress = stop_there, .user = &lives};
  pbCheckReport *whole = run(&w, &o), *report = NULL;
  pbCheckPoint *point = calloc(1, sizeof *point);
  const double *theta = pbModel_DefaultParams(w.model);
  pbStatus status = pb_interrupted;
  int count = 0, parts = 0;

  for (; status == pb_interrupted; count++) {
    lives = (Lives){.stop = 4 + count};  // what is begun once must end in one life
    int part = point->part;
    status = pbCheck_GoOnFrom(w.ctx, w.model, theta, w.x0, NULL, &o, point, &report);
    if (status == pb_interrupted && point->part) through_arrays(w.ctx, point);
    parts += point->part != part;
    assert_true(count < 1000);
  }
  assert_int_equal(status, pb_ok);
  assert_true(count > 2 && parts > 0);
  same_reports(whole, report);

  // a point of another check, which nobody ends
  lives = (Lives){.stop = -1};
  point->report.test[0].step = 1500;
  assert_int_equal(pbCheck_GoOnFrom(w.ctx, w.model, theta, w.x0, NULL, &o, point, &(pbCheckReport *){NULL}), pb_bad_argument);
  point->report.test[0].step = 0;
  point->part = 99;
  assert_int_equal(pbCheck_GoOnFrom(w.ctx, w.model, theta, w.x0, NULL, &o, point, &(pbCheckReport *){NULL}), pb_bad_argument);

  pbCheckReport_Free(w.ctx, whole);
  pbCheckReport_Free(w.ctx, report);
  free(point);
  end(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_right_model_holds),
      cmocka_unit_test(test_a_wrong_derivative_is_seen),
      cmocka_unit_test(test_bad_arguments),
      cmocka_unit_test(test_the_caller_may_end_it),
      cmocka_unit_test(test_an_interrupted_check_goes_on),
      cmocka_unit_test(test_two_threads),
      cmocka_unit_test(test_memory_that_is_short_ends_it),
      cmocka_unit_test(test_findings_name_no_options_of_the_program),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
