// Plans that are read while another thread makes them, also under the thread sanitizer; what is counted and told: ages, phases,
// answers, fallbacks, states that are none.
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/control.h>

#include "support/support.h"

enum { steps = 30, plans = 200 };
static const char text[] =
    "{\"model\": \"<mujoco><option timestep='.02'/><worldbody><body><joint name='x' type='slide' axis='1 0 0'/><geom type='box' "
    "size='.2 .1 .1' mass='1' contype='0' conaffinity='0'/><body><joint name='a' axis='0 1 0'/><geom type='capsule' size='.02' "
    "fromto='0 0 0 0 0 .6' mass='.1' contype='0' conaffinity='0'/></body></body></worldbody><actuator><motor "
    "joint='x'/></actuator></mujoco>\", \"steps\": 30, \"variables\": [{\"name\": \"force\", \"control\": true, \"lower\": -6, "
    "\"upper\": 6}], \"loss\": [{\"qpos\": \"a\", \"at\": \"all\", \"weight\": 10}, {\"qpos\": \"x\", \"at\": \"all\"}, "
    "{\"control\": "
    "true, \"at\": \"all\", \"weight\": 0.001}, {\"name\": \"rail\", \"qpos\": \"x\", \"at\": \"all\", \"type\": \"below\", "
    "\"target\": "
    "0.5, \"constraint\": true}]}";

static pbTask *parse(pbContext *ctx) {
  pbTask *task;
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  return task;
}

static double *state_of(pbContext *ctx, pbTask *task) {
  double *x = zeros((size_t)pbModel_StateSize(pbTask_Model(task)));
  good(ctx, pbState_Init(ctx, pbTask_Model(task), pbModel_DefaultParams(pbTask_Model(task)), -1, x));
  return x;
}

static int place_of(const pbTask *task, const char *field) {
  const pbModel *m = pbTask_Model(task);
  int i = 0;
  while (strcmp(pbModel_StateFieldAt(m, i).name, field) != 0) i++;
  return pbModel_StateFieldAt(m, i).offset;
}

// ---- two threads -----------------------------------------------------------------------------------------------------------
// What a plan sums to, in one order.
static double sum_of(const pbMpcPlan *p) {
  double sum = 0;
  size_t controls = (size_t)p->steps * (size_t)p->nu, states = ((size_t)p->steps + 1) * (size_t)p->nx;
  for (size_t i = 0; i < controls; i++) sum += p->ctrl[i];
  for (size_t i = 0; i < states; i++) sum += p->states[i];
  for (size_t i = 0; i < controls * (size_t)p->n; i++) sum += p->gain[i];
  return sum;
}

typedef struct Reader {
  pbMpc *mpc;
  double *x, *ctrl, *states, *gain, seen[4096], sums[4096];
  int place, count, wrong, changes;
  int64_t answers;
  atomic_bool stop;
} Reader;

// A copy belongs to one plan, which the state that it begins at tells; answers are within bounds.
static void *read_plans(void *user) {
  Reader *r = user;
  while (!atomic_load(&r->stop)) {
    double u = NAN, age = NAN;
    pbMpcPlan p = pbMpc_Copy(r->mpc, r->ctrl, r->states, r->gain);
    r->wrong += pbMpc_FeedbackAt(r->mpc, p.clock + 0.005, r->x, &u, &age) != pb_ok;
    r->wrong += !(u >= -6 && u <= 6) || !(p.age >= 0 && age <= p.age + 0.005 + 1e-9);
    r->answers++;

    // once for each plan
    double begun = p.states[r->place];
    if (r->count == 4096 || (r->count && r->seen[r->count - 1] == begun)) continue;
    r->seen[r->count] = begun;
    r->sums[r->count++] = sum_of(&p);
  }
  return NULL;
}

static void test_a_plan_is_read_while_another_is_made(void **state) {
  pbTask *task = parse(*state);
  Reader r = {.place = place_of(task, "qpos") + 1};
  good(*state, pbMpc_Create(*state, task, &r.mpc));
  pbMpcPlan p = pbMpc_Get(r.mpc);
  double *x = state_of(*state, task), sums[plans];
  size_t controls = (size_t)p.steps * (size_t)p.nu;
  r.x = state_of(*state, task);
  r.ctrl = zeros(controls);
  r.states = zeros(((size_t)p.steps + 1) * (size_t)p.nx);
  r.gain = zeros(controls * (size_t)p.n);

  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, read_plans, &r), 0);
  for (int k = 0; k < plans; k++) {
    const double bound = 6 - k % 2;
    x[r.place] = 0.001 * (k + 1);
    good(*state, pbMpc_SetBounds(r.mpc, "force", NULL, &bound, 1));
    good(*state, pbMpc_Plan(r.mpc, 0.02, x, &(pbMpcLimits){.iterations = 2}, NULL));
    p = pbMpc_Get(r.mpc);
    sums[k] = sum_of(&p);
  }
  atomic_store(&r.stop, true);
  pthread_join(thread, NULL);

  // each that was seen is one that was made, or the start
  for (int i = 0; i < r.count; i++) {
    int k = (int)lround(r.seen[i] / 0.001) - 1;
    if (k >= 0) assert_true(r.sums[i] == sums[k]);
  }
  p = pbMpc_Get(r.mpc);
  print_message("%d plans seen of %d, %lld answers, %.2g us each\n", r.count, plans, (long long)r.answers,
                1e6 * p.feedback_seconds / (double)p.feedbacks);
  assert_int_equal(r.wrong, 0);
  assert_true(r.count > 1 && p.feedbacks == r.answers && p.fallbacks == 0 && p.plans == plans &&
              fabs(p.clock - 0.02 * plans) < 1e-9);
  pbMpc_Destroy(r.mpc);
  pbTask_Destroy(task);
  double *all[] = {x, r.x, r.ctrl, r.states, r.gain};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

// ---- what is told ----------------------------------------------------------------------------------------------------------
static void test_phases(void **state) {
  pbTask *task = parse(*state);
  pbMpc *mpc;
  pbMpcNews n;
  double *x = state_of(*state, task);
  x[place_of(task, "qpos") + 1] = 0.2;
  good(*state, pbMpc_Create(*state, task, &mpc));
  good(*state, pbMpc_Plan(mpc, 0, x, &(pbMpcLimits){.iterations = 8}, &n));
  assert_true(n.prepare_seconds > 0 && n.iterate_seconds > 0 && n.finish_seconds > 0);
  assert_near(n.prepare_seconds + n.iterate_seconds + n.finish_seconds, n.seconds, 1e-9);
  assert_true(n.linearize_seconds + n.run_seconds <= n.iterate_seconds && n.violation <= 1e6);
  pbMpc_Destroy(mpc);
  pbTask_Destroy(task);
  free(x);
}

// Where a plan fails the last one answers, at its later steps, and that is counted; states that are none are refused by all.
static void test_fallbacks(void **state) {
  pbTask *task = parse(*state);
  pbMpc *mpc;
  double *x = state_of(*state, task), u, expected, age;
  const double sentinel = 123;
  int angle = place_of(task, "qpos") + 1, speed = place_of(task, "qvel");
  x[angle] = 0.2;
  good(*state, pbMpc_Create(*state, task, &mpc));
  good(*state, pbMpc_Plan(mpc, 0.5, x, &(pbMpcLimits){.iterations = 4}, NULL));
  assert_int_equal(pbMpc_Feedback(mpc, 0.06, x, &expected), pb_ok);
  assert_true(pbMpc_Get(mpc).fallbacks == 0 && pbMpc_Get(mpc).feedbacks == 1 && pbMpc_Get(mpc).clock == 0.5);

  // of a plan that failed nothing is told
  x[speed] = 1e11;
  assert_int_equal(pbMpc_Plan(mpc, 0.04, x, NULL, NULL), pb_not_finite);
  x[speed] = 0;
  assert_int_equal(pbMpc_Feedback(mpc, 0.02, x, &u), pb_ok);
  assert_true(u == expected && pbMpc_Get(mpc).failed == 1 && pbMpc_Get(mpc).fallbacks == 1);
  assert_int_equal(pbMpc_FeedbackAt(mpc, 0.56, x, &u, &age), pb_ok);
  assert_true(u == expected && fabs(age - 0.06) < 1e-12 && pbMpc_Get(mpc).fallbacks == 2);

  // refused: nothing is written, no plan is counted
  u = sentinel;
  x[angle] = NAN;
  assert_int_equal(pbMpc_Feedback(mpc, 0, x, &u), pb_bad_argument);
  assert_int_equal(pbMpc_Plan(mpc, 0.02, x, NULL, NULL), pb_bad_argument);
  x[angle] = 0.2;
  assert_int_equal(pbMpc_Feedback(mpc, NAN, x, &u), pb_bad_argument);
  assert_int_equal(pbMpc_FeedbackAt(mpc, INFINITY, x, &u, &age), pb_bad_argument);
  pbMpcPlan p = pbMpc_Get(mpc);
  assert_true(u == sentinel && p.refused == 4 && p.feedbacks == 3 && p.plans == 2 && fabs(p.clock - 0.54) < 1e-12);

  // a plan that goes through answers itself
  good(*state, pbMpc_Plan(mpc, 0.02, x, NULL, NULL));
  assert_int_equal(pbMpc_Feedback(mpc, 0, x, &u), pb_ok);
  assert_true(pbMpc_Get(mpc).fallbacks == 2 && pbMpc_Get(mpc).age == 0 && u == pbMpc_Get(mpc).ctrl[0]);
  good(*state, pbMpc_Restart(mpc));
  p = pbMpc_Get(mpc);
  assert_true(p.plans == 0 && p.failed == 0 && p.refused == 0 && p.feedbacks == 0 && p.clock == 0 && p.feedback_seconds == 0);
  pbMpc_Destroy(mpc);
  pbTask_Destroy(task);
  free(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_plan_is_read_while_another_is_made), cmocka_unit_test(test_phases),
                                     cmocka_unit_test(test_fallbacks)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
