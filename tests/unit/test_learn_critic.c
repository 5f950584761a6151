// The critic's fit: its gradient in float beside that in double and beside differences, in pieces and leaves of any number of
// columns, the same bits on one thread and three; two critics; what follows a window, by its state.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <pullback/io.h>
#include <pullback/learn.h>
#include <pullback/random.h>

#include "learn/train.h"
#include "support/support.h"

#define ARM                                                                                                                 \
  "<mujoco><option timestep='0.01'/><worldbody><body><joint name='swing' axis='0 1 0' damping='.02'/><geom type='capsule' " \
  "size='.05' fromto='0 0 0 0 0 -.4' mass='1'/></body></worldbody><actuator><motor joint='swing' gear='2'/></actuator></mujoco>"

static char file[64];

static pbTrain *load(pbContext *ctx, const char *before, const char *train) {
  FILE *out = fopen(file, "w");
  assert_non_null(out);
  fprintf(out,
          "{\"model\": \"%s\", \"policy\": {\"every\": 2, \"observe\": [{\"qpos\": true}, {\"qvel\": true, \"scale\": 0.2}], "
          "\"layers\": [%s{\"dense\": 6, \"activation\": \"silu\"}, {\"dense\": 1}]}, \"loss\": [{\"qpos\": true, \"target\": 1, "
          "\"at\": \"all\"}], \"train\": {%s}, \"episode\": {\"seconds\": 0.4, \"spread\": {\"qpos\": 0.5, \"qvel\": 1}}}",
          ARM, before, train);
  fclose(out);
  pbTrain *t;
  good(ctx, pbTrain_Load(ctx, file, NULL, NULL, &t));
  return t;
}

#define SIZES  "\"worlds\": 5, \"window\": 4, \"updates\": 6, \"evaluate\": {\"every\": 3, \"starts\": 2}"
#define NORMED "{\"normalize\": true}, "

static pbTrain *begun(pbContext *ctx, const char *train, int threads) {
  static const pbTrainOptions none;
  pbTrain *t = load(ctx, NORMED, train);
  t->options = &none;
  good(ctx, pbTrain_Begin(t, threads));
  return t;
}

// ---- heads --------------------------------------------------------------------------------------------------------------
typedef struct Rows {
  double *number;
  const double **row;
} Rows;

static Rows rows_of(const pbTrain *t, int count) {
  pbRng rng = pbRng_Seed(3);
  size_t n = (size_t)t->nobs;
  Rows r = {malloc((size_t)count * n * sizeof(double)), malloc((size_t)count * sizeof(double *))};
  for (size_t i = 0; i < (size_t)count * n; i++) r.number[i] = pbRng_Normal(&rng);
  for (int i = 0; i < count; i++) r.row[i] = r.number + (size_t)i * n;
  return r;
}

static void drop_rows(Rows *r) {
  free(r->number);
  free(r->row);
}

// Of the sum of out^2 / 2, where outputs of column i count i + 1 times.
static void squares(void *user, int first, int count, const double *out, double *out_bar) {
  const int *outputs = user;
  for (int k = 0; k < *outputs; k++) {
    for (int i = 0; i < count; i++) out_bar[k * count + i] = (first + i + 1) * out[k * count + i];
  }
}

static double value_of(pbTrain *t, pbHead *head, const double *param, const Rows *r, int count) {
  double sum = 0;
  good(t->ctx, pbHead_Forward(t, head, param, r->row, count));
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < head->f->outputs; k++) sum += (i + 1) * 0.5 * pow(head->out[pbHead_At(head, count, k, i)], 2);
  }
  return sum;
}

static void check_fit(pbTrain *t, pbHead *exact, pbHead *single, int count) {
  Rows r = rows_of(t, count);
  size_t n = exact->params;
  double *param = malloc(n * sizeof *param), *moved = malloc(n * sizeof *param), slope = 0, size = 0, off = 0;
  for (size_t i = 0; i < n; i++) param[i] = exact->param[i] + (exact->param[i] == 1 ? 0 : 0.2 * sin((double)i));
  int outputs = exact->f->outputs;

  good(t->ctx, pbHead_Fit(t, exact, param, r.row, count, squares, &outputs));
  good(t->ctx, pbHead_Fit(t, single, param, r.row, count, squares, &outputs));
  for (size_t i = 0; i < n; i++) size += exact->bar[i] * exact->bar[i];
  for (size_t i = 0; i < n; i++) off += pow(exact->bar[i] - single->bar[i], 2);
  if (!(size > 0 && sqrt(off / size) < 3e-6)) fail_msg("%d columns: in float off by %g", count, sqrt(off / size));

  // Richardson's differences of the sum itself
  for (size_t i = 0; i < n; i++) slope += exact->bar[i] * cos((double)i);
  double quotient[2];
  for (int k = 0; k < 2; k++) {
    double h = k ? 1e-4 : 2e-4, side[2];
    for (int s = 0; s < 2; s++) {
      for (size_t i = 0; i < n; i++) moved[i] = param[i] + (s ? -h : h) * cos((double)i);
      side[s] = value_of(t, exact, moved, &r, count);
    }
    quotient[k] = (side[0] - side[1]) / (2 * h);
  }
  double limit = (4 * quotient[1] - quotient[0]) / 3;
  if (!(fabs(limit - slope) < 1e-8 * sqrt(size) * sqrt((double)n))) fail_msg("%d: %.15g, differences %.15g", count, slope, limit);
  drop_rows(&r);
  free(param);
  free(moved);
}

#define SILU_NORM                                                                                                           \
  "\"critic\": {\"count\": 2, \"layers\": [{\"dense\": 7}, {\"layernorm\": true}, {\"activation\": \"silu\"}, {\"dense\": " \
  "1}]}, "

static void test_fit_is_the_gradient(void **state) {
  static const int counts[] = {1, 63, 64, 65, 200, 1025, 2100};
  for (int two = 0; two < 2; two++) {
    pbTrain *t = begun(*state, two ? "\"method\": \"shac\", " SILU_NORM SIZES : "\"method\": \"shac\", " SIZES, 2);
    pbHead exact, single;
    good(*state, pbHead_Create(*state, t->pool, pbNetwork_Function(t->critic), 2100, &exact));
    good(*state, pbHead_Create(*state, t->pool, pbNetwork_Function(t->critic_single), 2100, &single));
    assert_int_equal(exact.f->outputs, two + 1);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) check_fit(t, &exact, &single, counts[i]);
    pbHead_Destroy(*state, &exact);
    pbHead_Destroy(*state, &single);
    pbTrain_Destroy(t);
  }
}

static void test_same_bits_for_any_threads(void **state) {
  double *bar[2], *out[2];
  size_t params = 0;
  for (int k = 0; k < 2; k++) {
    pbTrain *t = begun(*state, "\"method\": \"shac\", " SILU_NORM SIZES, k ? 3 : 1);
    pbHead head;
    int outputs = 2, count = 1500;
    good(*state, pbHead_Create(*state, t->pool, pbNetwork_Function(t->critic_single), count, &head));
    Rows r = rows_of(t, count);
    good(*state, pbHead_Fit(t, &head, head.param, r.row, count, squares, &outputs));
    params = head.params;
    bar[k] = memcpy(malloc(params * sizeof(double)), head.bar, params * sizeof(double));
    out[k] = memcpy(malloc(3000 * sizeof(double)), head.out, 3000 * sizeof(double));
    drop_rows(&r);
    pbHead_Destroy(*state, &head);
    pbTrain_Destroy(t);
  }
  assert_memory_equal(bar[0], bar[1], params * sizeof(double));
  assert_memory_equal(out[0], out[1], 3000 * sizeof(double));
  for (int k = 0; k < 2; k++) {
    free(bar[k]);
    free(out[k]);
  }
}

// Of out_bar . outputs by number i of all rows.
static double quotient_at(pbTrain *t, pbHead *head, const Rows *r, int count, const double *out_bar, int i, double h) {
  double sum = 0, kept = r->number[i];
  for (int s = -1; s <= 1; s += 2) {
    r->number[i] = kept + s * h;
    good(t->ctx, pbHead_Forward(t, head, head->param, r->row, count));
    for (int k = 0; k < 2; k++) sum += s * out_bar[i / 2 * 2 + k] * head->out[pbHead_At(head, count, k, i / 2)];
  }
  r->number[i] = kept;
  return sum / (2 * h);
}

// By observations: exact in double, of every column its own.
static void test_gradient_by_inputs(void **state) {
  pbTrain *t = begun(*state, "\"method\": \"shac\", " SILU_NORM SIZES, 2);
  enum { count = 130 };
  pbHead head;
  good(*state, pbHead_Create(*state, t->pool, pbNetwork_Function(t->critic), count, &head));
  Rows r = rows_of(t, count);
  double out_bar[count * 2], in_bar[count * 2];
  assert_int_equal(t->nobs, 2);
  for (int i = 0; i < count * 2; i++) out_bar[i] = sin(i + 1.0);
  good(*state, pbHead_PullInputs(t, &head, head.param, r.row, count, out_bar, in_bar));

  for (int i = 0; i < 2 * count; i++) {
    double wide = quotient_at(t, &head, &r, count, out_bar, i, 4e-4), narrow = quotient_at(t, &head, &r, count, out_bar, i, 2e-4);
    double limit = (4 * narrow - wide) / 3;
    if (!(fabs(limit - in_bar[i]) < 1e-7 * (1 + fabs(limit)))) fail_msg("%d: %.12g, differences %.12g", i, in_bar[i], limit);
  }
  drop_rows(&r);
  pbHead_Destroy(*state, &head);
  pbTrain_Destroy(t);
}

// ---- two critics ---------------------------------------------------------------------------------------------------------
static void test_two_critics(void **state) {
  pbTrain *t = begun(*state, "\"method\": \"shac\", " SILU_NORM SIZES, 1);
  pbHead *head = &t->head_critic;
  Rows r = rows_of(t, 4);
  good(*state, pbHead_Forward(t, head, t->critic_param, r.row, 4));
  for (int i = 0; i < 4; i++) {
    double one = head->out[pbHead_At(head, 4, 0, i)], other = head->out[pbHead_At(head, 4, 1, i)];
    assert_true(fabs(one - other) > 1e-6);  // weights of their own
    assert_true(pbTrain_ValueAt(head, 4, i, true) == fmax(one, other));
    assert_true(fabs(pbTrain_ValueAt(head, 4, i, false) - (one + other) / 2) < 1e-15);
  }
  drop_rows(&r);
  pbTrain_Destroy(t);

  // what they learn is their targets: both of them, and the same with any number of threads
  pbTrainResult result[2];
  double theta[2][64];
  for (int k = 0; k < 2; k++) {
    t = load(*state, NORMED, "\"method\": \"shac\", " SILU_NORM SIZES);
    good(*state, pbTrain_Run(t, &(pbTrainOptions){.threads = k ? 2 : 1}, &result[k]));
    assert_true(t->ntheta > 0 && pbTrain_Rows(t)[5].value > 0);
    memcpy(theta[k], result[k].last + t->policy_at, (t->policy_count < 64 ? t->policy_count : 64) * sizeof(double));
    pbTrain_Destroy(t);
  }
  assert_memory_equal(theta[0], theta[1], 16 * sizeof(double));
}

// Targets: with lambda 0 what a decision costs and the worse of both of what follows it.
static void test_targets_are_the_worse(void **state) {
  pbTrain *t = begun(*state, "\"method\": \"shac\", \"lambda\": 0, \"discount\": 0.9, " SILU_NORM SIZES, 2);
  good(*state, pbTrain_Collect(t));
  good(*state, pbTrain_Observe(t));
  good(*state, pbTrain_MakeTargets(t));
  for (int w = 0; w < 5; w++) {
    const double *row[4];
    for (int k = 0; k < 4; k++) row[k] = t->observed + (size_t)(w * 5 + k + 1) * (size_t)t->nobs;
    good(*state, pbHead_Forward(t, &t->head_critic, t->critic_slow, row, 4));
    for (int k = 0; k < 4; k++) {
      double wanted = t->costs[w * 4 + k] + 0.9 * pbTrain_ValueAt(&t->head_critic, 4, k, true);
      double mean = t->costs[w * 4 + k] + 0.9 * pbTrain_ValueAt(&t->head_critic, 4, k, false);
      assert_true(fabs(t->target[w * 4 + k] - wanted) < 1e-5 && fabs(mean - wanted) > 1e-4);
    }
  }
  pbTrain_Destroy(t);
}

static void test_mistakes(void **state) {
  static const struct {
    const char *train, *words;
  } cases[] = {
      {"\"method\": \"shac\", \"critic\": {\"count\": 3}", "train.critic.count: expected a whole number from 1 to 2"},
      {"\"method\": \"shac\", \"critic\": {\"count\": \"two\"}", "train.critic.count"},
      {"\"method\": \"shac\", \"critic\": {\"cuont\": 2}", "train.critic: unknown key 'cuont', did you mean 'count'?"},
      {"\"method\": \"bptt\", \"critic\": {\"count\": 2}", "train.critic: method \"bptt\" has none"},
      {"\"method\": \"shac\", \"critic\": {\"count\": 2, \"layers\": [{\"dense\": 2}]}",
       "a critic has one output, these layers have 2"},
      {"\"method\": \"shac\", \"critic\": {\"layers\": [{\"gru\": 3}, {\"dense\": 1}]}",
       "train.critic.layers: a critic has no memory"},
      {"\"method\": \"ppo\", \"critic\": {\"layers\": [{\"dense\": 1}, {\"layernorm\": true}]}", "layernorm: at least 2 inputs"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    pbTrain *t = NULL;
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    fprintf(
        out,
        "{\"model\": \"%s\", \"policy\": {\"observe\": [{\"qpos\": true}], \"layers\": [{\"dense\": 1}]}, \"loss\": [{\"qpos\": "
        "true, \"target\": 1}], \"train\": {%s}}",
        ARM, cases[i].train);
    fclose(out);
    assert_int_equal(pbTrain_Load(*state, file, NULL, NULL, &t), pb_bad_input);
    if (!strstr(pbContext_Error(*state), cases[i].words)) fail_msg("%zu: %s", i, pbContext_Error(*state));
  }
}

// Windows longer than a piece of columns, with layers before the normalizer: its statistics are those of what it sees.
static void test_statistics_of_long_windows(void **state) {
  static const pbTrainOptions none;
  pbTrain *t =
      load(*state, "{\"formula\": [\"x0*2\", \"x1 + 3\", \"x0*x1\"]}, {\"normalize\": true}, ",
           "\"method\": \"shac\", \"worlds\": 2, \"window\": 70, \"updates\": 2, \"evaluate\": {\"every\": 2, \"starts\": 1}");
  t->options = &none;
  good(*state, pbTrain_Begin(t, 1));
  good(*state, pbTrain_Collect(t));
  good(*state, pbTrain_Observe(t));
  good(*state, pbTrain_Normalize(t));
  double mean[3] = {0};
  for (int i = 0; i < 140; i++) {
    const double *o = pbTrain_Observation(t, i);
    const double seen[] = {o[0] * 2, o[1] + 3, o[0] * o[1]};
    for (int k = 0; k < 3; k++) mean[k] += seen[k] / 140;
  }
  for (int k = 0; k < 3; k++) assert_true(fabs(t->stat_mean[k] - mean[k]) < 1e-12);
  pbTrain_Destroy(t);
}

static int make_file(void **state) {
  snprintf(file, sizeof file, "/tmp/pullback_critic_%d.json", (int)getpid());
  return make_context(state);
}

static int drop_file(void **state) {
  unlink(file);
  return drop_context(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_fit_is_the_gradient, make_file, drop_file),
      cmocka_unit_test_setup_teardown(test_same_bits_for_any_threads, make_file, drop_file),
      cmocka_unit_test_setup_teardown(test_gradient_by_inputs, make_file, drop_file),
      cmocka_unit_test_setup_teardown(test_two_critics, make_file, drop_file),
      cmocka_unit_test_setup_teardown(test_targets_are_the_worse, make_file, drop_file),
      cmocka_unit_test_setup_teardown(test_mistakes, make_file, drop_file),
      cmocka_unit_test_setup_teardown(test_statistics_of_long_windows, make_file, drop_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
