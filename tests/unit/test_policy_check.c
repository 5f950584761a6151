// pbPolicy_Check: passes what is right, networks and a controller of a user's own, and tells every mistake by its name (K56).
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/policy.h>

#include "support/meter.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

// ---- a policy with one mistake at a time --------------------------------------------------------------------------------
// out = gain o + drift m + bias (2 outputs), m' = decay m + o0
typedef enum Mistake {
  right,
  overwrites_o,
  overwrites_m,
  overwrites_param,
  wrong_sign,
  wrong_sign_of_bias,
  forgets_memory,
  forgets_memory_after,
  wrong_push,
  static_counter,
  static_scratch,
  keeps_in_work,
  reads_other_column,
  other_column_in_pull,
  writes_nan,
  nan_in_pull,
  writes_to_input,
  beyond_work,
  keeps_wrongly,
  kept_and_added,
  returns_error,
  two_slopes,
  mistakes
} Mistake;
static const char *const told[mistakes] = {
    [right] = "",
    [overwrites_o] = "pull writes over o_bar",
    [overwrites_m] = "pull writes over m_bar",
    [overwrites_param] = "pull writes over param_bar",
    [wrong_sign] = "pull is not the derivative of the outputs by the observations: its sign is wrong",
    [wrong_sign_of_bias] = "pull is not the derivative of the outputs by 'bias': its sign is wrong",
    [forgets_memory] = "pull is not the derivative of the outputs by the memory: it is missing",
    [forgets_memory_after] = "pull is not the derivative of the memory after by the observations: it is missing",
    [wrong_push] = "push is not the derivative of the outputs by the observations",
    [static_counter] = "it keeps state between calls",
    [static_scratch] = "when two threads call it at once",
    [keeps_in_work] = "forward depends on what its working memory held before",
    [reads_other_column] = "forward: column 1 of 5 depends on the other columns: out[0]",
    [other_column_in_pull] = "pull: column 1 of 5 depends on the other columns: o_bar[0]",
    [writes_nan] = "forward gives numbers that are not finite at 4 of 4 points",
    [nan_in_pull] = "pull gives numbers that are not finite where forward's are",
    [writes_to_input] = "forward writes to its input",
    [beyond_work] = "forward writes behind its working memory",
    [keeps_wrongly] = "gather and pull differ: param_bar[0]",
    [kept_and_added] = "pull with kept writes to param_bar",
    [returns_error] = "forward returns an error: a solver did not reach its tolerance",
    [two_slopes] = "pull is not the derivative of the outputs by the observations: pull",
};

typedef struct Self {
  Mistake mistake;
  bool pushes;
} Self;
static _Atomic double shared;  // atomic, so that sanitizers look for other races
static long calls;

static size_t work_bytes(const void *self, int batch) {
  (void)self;
  return 8 * (size_t)batch;
}

static pbStatus forward(const void *self, int batch, const double *p, const double *o, const double *m, double *out, double *next,
                        void *work) {
  Mistake mistake = ((const Self *)self)->mistake;
  if (mistake == returns_error) return pb_no_convergence;
  for (int b = 0; b < batch; b++) {
    int other = mistake == reads_other_column && b == 1 ? 0 : b;
    for (int i = 0; i < 2; i++) out[i * batch + b] = p[i] * o[i * batch + other] + p[2 + i] * m[b] + p[4 + i];
    next[b] = 0.5 * m[b] + o[b];
    if (mistake == two_slopes) out[b] += o[b] * o[b];
    if (mistake == writes_nan) out[b] = NAN;
    if (mistake == static_counter) out[b] += 1e-9 * (double)__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    if (mistake == keeps_in_work) {
      double *count = work;
      *count += 1;
      out[b] += *count;
    }
    if (mistake == static_scratch) {
      shared = out[b];
      sched_yield();
      out[b] = shared;
    }
  }
  if (mistake == writes_to_input) ((double *)(uintptr_t)o)[0] = 7;
  if (mistake == beyond_work) ((char *)work)[8 * batch] = 77;
  return pb_ok;
}

static pbStatus pull(const void *self, int batch, const double *p, const double *o, const double *m, const double *out_bar,
                     const double *next_bar, double *o_bar, double *m_bar, double *p_bar, double *kept, int stride, void *work) {
  Mistake mistake = ((const Self *)self)->mistake;
  (void)work;
  for (int b = 0; b < batch; b++) {
    if (mistake == overwrites_o) o_bar[b] = 0;
    if (mistake == overwrites_m) m_bar[b] = 0;
    for (int i = 0; i < 2; i++) {
      double bar = out_bar[i * batch + (mistake == other_column_in_pull && b == 1 ? 0 : b)];
      o_bar[i * batch + b] += (mistake == wrong_sign ? -1 : 1) * p[i] * bar;
      if (mistake != forgets_memory) m_bar[b] += p[2 + i] * bar;
      double part[3] = {o[i * batch + b] * bar, m[b] * bar, mistake == wrong_sign_of_bias ? -bar : bar};
      for (int k = 0; k < 3; k++) {
        if (p_bar && mistake == overwrites_param && b == 0) p_bar[2 * k + i] = 0;
        if (p_bar && (!kept || mistake == kept_and_added)) p_bar[2 * k + i] += part[k];
        if (kept) kept[(2 * k + i) * stride + b] = mistake == keeps_wrongly ? 2 * part[k] : part[k];
      }
    }
    if (mistake != forgets_memory_after) o_bar[b] += next_bar[b];
    m_bar[b] += 0.5 * next_bar[b];
    if (mistake == nan_in_pull) o_bar[b] = NAN;
  }
  return pb_ok;
}

static pbStatus push(const void *self, int batch, const double *p, const double *p_dot, const double *o, const double *o_dot,
                     const double *m, const double *m_dot, double *out_dot, double *next_dot, void *work) {
  Mistake mistake = ((const Self *)self)->mistake;
  (void)work;
  for (int b = 0; b < batch; b++) {
    double along_m = m_dot ? m_dot[b] : 0;
    for (int i = 0; i < 2; i++) {
      double along_o = o_dot ? o_dot[i * batch + b] : 0, sum = p[i] * along_o + p[2 + i] * along_m;
      if (p_dot) sum += p_dot[i] * o[i * batch + b] + p_dot[2 + i] * m[b] + p_dot[4 + i];
      out_dot[i * batch + b] = mistake == wrong_push ? 2 * sum : sum;
    }
    next_dot[b] = 0.5 * along_m + (o_dot ? o_dot[b] : 0);
  }
  return pb_ok;
}

static pbStatus gather(const void *self, int columns, const double *p, const double *kept, int stride, double *p_bar,
                       void *work) {
  (void)self;
  (void)p;
  (void)work;
  for (int k = 0; k < 6; k++) {
    for (int b = 0; b < columns; b++) p_bar[k] += kept[k * stride + b];
  }
  return pb_ok;
}

static const double start[] = {3, -2};
static const pbPolicySlice slices[] = {{.name = "gain", .rows = 2, .cols = 1, .start = start},
                                       {.name = "drift", .rows = 2, .cols = 1},
                                       {.name = "bias", .rows = 2, .cols = 1, .lower = -1, .upper = 1}};

static pbPolicyFunction function_of(const Self *self) {
  pbPolicyFunction f = {.name = "mine", .self = self, .observations = 2, .outputs = 2, .memory = 1, .slice = slices, .slices = 3};
  f.work_bytes = work_bytes;
  f.forward = forward;
  f.pull = pull;
  f.push = self->pushes ? push : NULL;
  f.kept_size = 6;
  f.gather = gather;
  return f;
}

static void test_every_mistake_is_told_by_its_name(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  for (int pushes = 0; pushes < 2; pushes++) {
    for (int k = 0; k < mistakes; k++) {
      Self self = {(Mistake)k, pushes};
      pbPolicyFunction f = function_of(&self);
      pbPolicyReport report;
      bool fine = k == right || (k == wrong_push && !pushes);
      pbStatus status = pbPolicy_Check(ctx, &f, 1, &report);
      if (status != (fine ? pb_ok : pb_check_failed)) fail_msg("mistake %d, push %d: %s", k, pushes, report.text);
      if (fine) {
        assert_string_equal(report.text, "");
        assert_true(report.pure && report.adds && report.gathers && report.difference < 1e-6);
        assert_true(pushes ? report.dot < 1e-12 : isnan(report.dot));
        continue;
      }
      if (!strstr(report.text, told[k])) fail_msg("mistake %d, push %d: '%s' has no '%s'", k, pushes, report.text, told[k]);
      assert_non_null(strstr(pbContext_Error(ctx), report.text));
      assert_non_null(strstr(pbContext_Error(ctx), "policy 'mine'"));
    }
  }
  pbContext_Destroy(ctx);
}

// A function without parameters, memory, gather and push is one too.
static void test_the_least_there_is(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  pbNetwork *network;
  const pbLayerDef tanh_layer = {.kind = pb_layerActivation, .activation = pb_activationTanh};
  assert_int_equal(pbNetwork_Create(ctx, 3, &tanh_layer, 1, 0, false, &network), pb_ok);
  pbPolicyFunction f = *pbNetwork_Function(network);
  pbPolicyReport report;
  f.push = NULL;
  f.gather = NULL;
  if (pbPolicy_Check(ctx, &f, 0, &report) != pb_ok) fail_msg("%s", report.text);
  pbNetwork_Destroy(network);
  pbContext_Destroy(ctx);
}

static void test_networks_pass(void **state) {
  (void)state;
  const double frequency[] = {2};
  const pbLayerDef skip[] = {{.kind = pb_layerDense, .size = 6}},
                   deep[] = {{.kind = pb_layerDense, .size = 32},
                             {.kind = pb_layerActivation, .activation = pb_activationRelu},
                             {.kind = pb_layerDense, .size = 6, .init = pb_initZero}};
  const pbChainDef both[] = {{skip, 1}, {deep, 3}};
  const pbLayerDef layers[] = {
      {.kind = pb_layerClock, .frequency = frequency, .frequencies = 1},
      {.kind = pb_layerNormalize},
      {.kind = pb_layerSum, .chain = both, .chains = 2},
      {.kind = pb_layerClip, .lower = -0.2, .upper = 0.2, .projected = true},
      {.kind = pb_layerPid, .size = 2, .gain = 100, .interval = 0.01, .limit = 50, .ki = 3, .windup = 1}};
  pbContext *ctx = pbContext_Create(NULL);
  for (int single = 0; single < 2; single++) {
    pbNetwork *network;
    pbPolicyReport report;
    assert_int_equal(pbNetwork_Create(ctx, 9, layers, 5, 3, single, &network), pb_ok);
    if (pbPolicy_Check(ctx, pbNetwork_Function(network), 9, &report) != pb_ok) fail_msg("single %d: %s", single, report.text);
    assert_true(report.pure && report.adds && report.gathers);
    assert_true(report.dot < (single ? 1e-4 : 1e-12) && report.difference < (single ? 1e-3 : 1e-6));
    pbNetwork_Destroy(network);
  }
  pbContext_Destroy(ctx);
}

static void test_what_is_no_function(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  const double bad[] = {1, NAN};
  const pbPolicySlice nameless = {.rows = 1, .cols = 1}, starts = {.name = "gain", .rows = 2, .cols = 1, .start = bad};
  Self self = {right, true};
  for (int k = 0; k < 7; k++) {
    pbPolicyFunction f = function_of(&self), twin = f;
    pbPolicyReport report;
    static const char *const texts[] = {
        "must be there",  "-1 outputs", "go together", "slice 0 has no name", "number 1 of the start of 'gain' is nan",
        "roundoff of -1", "other sizes"};
    if (k == 0) f.pull = NULL;
    if (k == 1) f.outputs = -1;
    if (k == 2) f.kept_size = 0;
    if (k == 3) f.slice = &nameless;
    if (k == 4) f.slice = &starts;
    if (k == 3 || k == 4) f.slices = 1;
    if (k == 5) f.rounding = -1;
    if (k == 6) twin.memory = 2;
    if (k == 6) f.exact = &twin;
    assert_int_equal(pbPolicy_Check(ctx, &f, 0, &report), pb_bad_argument);
    if (!strstr(pbContext_Error(ctx), texts[k])) fail_msg("'%s' has no '%s'", pbContext_Error(ctx), texts[k]);
  }
  pbContext_Destroy(ctx);
}

static void test_no_memory(void **state) {
  (void)state;
  Self self = {right, true};
  pbPolicyFunction f = function_of(&self);
  pbPolicyReport report;
  Meter meter = {.fail_at = 2};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  assert_int_equal(pbPolicy_Check(ctx, &f, 0, &report), pb_no_memory);
  assert_int_equal(pbPolicy_Check(ctx, &f, 0, &report), pb_ok);
  assert_int_equal(meter.live, 1);
  pbContext_Destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_mistake_is_told_by_its_name),
      cmocka_unit_test(test_the_least_there_is),
      cmocka_unit_test(test_networks_pass),
      cmocka_unit_test(test_what_is_no_function),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
