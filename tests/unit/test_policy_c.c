// Policies as C: every kind of layer, in double and float, compiled by the compilers that are there with all warnings as errors,
// beside the engine's step over many steps, bit by bit; what cannot be written.
#include <dlfcn.h>
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

#include "step/scratch.h"
#include "support/support.h"
#include "world/policy_step.h"

enum { most = 64, steps = 60 };

#define BODY(n) "<body><joint name='j" #n "' type='slide'/><geom size='.1' mass='1' contype='0' conaffinity='0'/></body>"
static const char plant[] =
    "<mujoco><option timestep='.002'/><worldbody>" BODY(0) BODY(1) BODY(2) BODY(3) "</worldbody><actuator><motor name='a0' "
    "joint='j0' gear='1e-9'/><motor name='a1' joint='j1' gear='1e-9'/><motor name='a2' joint='j2' gear='1e-9'/><motor name='a3' "
    "joint='j3' gear='1e-9'/></actuator></mujoco>";

#define SEEN   "\"observe\": [{\"command\": 8}]"
#define LAYERS "\"layers\": "

typedef struct Case {
  const char *text;
  pbLayerKind kind;  // that it is for
  pbActivation activation;
} Case;

static const Case cases[] = {
    {"{" SEEN ", " LAYERS "[{\"dense\": 4}]}", pb_layerDense, 0},
    {"{" SEEN ", " LAYERS "[{\"dense\": 9, \"activation\": \"relu\"}, {\"dense\": 4}]}", pb_layerActivation, pb_activationRelu},
    {"{" SEEN ", " LAYERS "[{\"dense\": 17, \"activation\": \"tanh\"}, {\"dense\": 4, \"activation\": \"tanh\"}]}",
     pb_layerActivation, pb_activationTanh},
    {"{" SEEN ", " LAYERS "[{\"dense\": 33, \"activation\": \"elu\"}, {\"dense\": 4, \"gain\": 30}, {\"activation\": \"elu\"}]}",
     pb_layerActivation, pb_activationElu},
    {"{" SEEN ", " LAYERS
     "[{\"dense\": 5, \"activation\": \"softplus\"}, {\"dense\": 4, \"gain\": 30}, {\"activation\": \"softplus\"}]}",
     pb_layerActivation, pb_activationSoftplus},
    {"{" SEEN ", " LAYERS "[{\"dense\": 5, \"activation\": \"sigmoid\"}, {\"dense\": 4}]}", pb_layerActivation,
     pb_activationSigmoid},
    {"{" SEEN ", " LAYERS
     "[{\"dense\": 33, \"activation\": \"silu\"}, {\"dense\": 4, \"gain\": 30}, {\"activation\": \"silu\"}]}",
     pb_layerActivation, pb_activationSilu},
    {"{" SEEN ", " LAYERS "[{\"dense\": 4}, {\"clip\": [-0.3, 0.4], \"projected\": true}]}", pb_layerClip, 0},
    {"{" SEEN ", " LAYERS "[{\"dense\": 4}, {\"scale\": [1, -2, 0.1, 3], \"offset\": [0.1, 0, 0.7, -4]}]}", pb_layerScale, 0},
    {"{" SEEN ", " LAYERS "[{\"normalize\": true}, {\"dense\": 4}]}", pb_layerNormalize, 0},
    {"{\"observe\": [{\"time\": true, \"scale\": 512}, {\"command\": 3}], " LAYERS
     "[{\"clock\": [1.5, 0.37, 40]}, {\"dense\": 4}]}",
     pb_layerClock, 0},
    {"{" SEEN ", " LAYERS
     "[{\"formula\": [\"sin(x0)*p0 + cos(x1)/3 - x2^3\", \"exp(x3/4) + sqrt(abs(x4)) + max(x5, min(x6, p1))\", "
     "\"select(x1 - x0, log(2 + abs(x2)), atan2(x3, x4)) + sign(x5)\", \"asin(x0/9) - acos(x1/9) + (2 + abs(x2))^x3\"], "
     "\"parameters\": "
     "[2, 0.3]}]}",
     pb_layerFormula, 0},
    {"{" SEEN ", " LAYERS
     "[{\"scale\": 0.3}, {\"formula\": [\"tanh(x0) + sinh(x1)*erf(x2) - hypot(x3, x4)\", \"cosh(x0)*expm1(x1) + log1p(x2^2) + "
     "cbrt(x3)\", "
     "\"asinh(x0) + acosh(1 + x1^2) - atanh(x2/(1 + abs(x2))) + erfc(x3)\", \"exp2(x0) + log2(2 + abs(x1)) + log10(3 + abs(x2)) "
     "+ "
     "exp(x3)\"]}]}",
     pb_layerFormula, 0},
    {"{" SEEN ", " LAYERS "[{\"gru\": 7}, {\"gru\": 4}]}", pb_layerGru, 0},
    {"{" SEEN ", " LAYERS
     "[{\"sum\": [[{\"dense\": 4}], [{\"gru\": 3}, {\"dense\": 4, \"activation\": \"tanh\"}], [{\"delay\": 1.5, \"most\": 3}, "
     "{\"dense\": 4}]]}]}",
     pb_layerSum, 0},
    {"{" SEEN ", " LAYERS "[{\"scale\": 1}, {\"dense\": 12}, {\"pd\": 4, \"kp\": 5, \"kd\": 0.5, \"limit\": 3}]}", pb_layerPd, 0},
    {"{" SEEN ", " LAYERS
     "[{\"dense\": 12}, {\"pid\": 4, \"kp\": 5, \"kd\": 0.5, \"ki\": 2, \"windup\": 0.02, \"interval\": 0.01, \"limit\": 6}]}",
     pb_layerPid, 0},
    {"{" SEEN ", " LAYERS "[{\"servo\": 4, \"gain\": 10, \"limit\": 4}]}", pb_layerServo, 0},
    {"{" SEEN ", " LAYERS "[{\"delay\": 2.4, \"most\": 4}, {\"dense\": 4}]}", pb_layerDelay, 0},
    {"{" SEEN ", " LAYERS
     "[{\"layernorm\": true}, {\"dense\": 17}, {\"layernorm\": true}, {\"dense\": 4}, {\"layernorm\": true}]}",
     pb_layerNorm, 0},
    {"{" SEEN ", " LAYERS "[{\"dense\": 4}, {\"explore\": 0.5}, {\"activation\": \"tanh\"}]}", pb_layerExplore, 0},
    // of numbers whose variance is about the least
    {"{" SEEN ", " LAYERS "[{\"scale\": 0.003}, {\"layernorm\": true}, {\"dense\": 4}]}", pb_layerNorm, 0},
    {"{" SEEN ", " LAYERS "[{\"sum\": [[{\"layernorm\": true}, {\"dense\": 4}], [{\"dense\": 4}, {\"layernorm\": true}]]}]}",
     pb_layerNorm, 0},
    // decisions that are held, what was decided last, a part that acts in every step, with memories of both, outputs with scales
    {"{\"every\": 3, \"observe\": [{\"command\": 4}, {\"last\": true, \"components\": [2, 0], \"scale\": 0.3}, {\"qpos\": true}, "
     "{\"qvel\": "
     "\"j2\", \"scale\": 0.5}], " LAYERS "[{\"gru\": 5}, {\"dense\": 4, \"activation\": \"tanh\"}], \"act\": {\"observe\": "
     "[{\"command\": 4, \"first\": 4}, {\"qvel\": true}, "
     "{\"last\": true}], " LAYERS
     "[{\"delay\": 1, \"most\": 1}, {\"dense\": 12}, {\"pid\": 4, \"kp\": 2, \"ki\": 1, \"interval\": 0.002}]}, "
     "\"output\": [{\"control\": [\"a1\", \"a0\"], \"scale\": 0.7}, {\"force\": [\"j2\", \"j3\"], \"scale\": 1e-9}]}",
     pb_layerKindCount, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

// ---- the file -----------------------------------------------------------------------------------------------------------------
typedef void Function(void *state, const double *input, double *output);

// The struct of a file has memory, what is held and a count side by side.
typedef struct Memory {
  double *memory, *held;
  int *count;
  void *block;
} Memory;

static int one_at_least(int n) { return n > 0 ? n : 1; }

static Memory memory_of(const pbPolicyModel *p) {
  int n = one_at_least(p->memory);
  double *block = zeros((size_t)(n + p->held + 1));
  return (Memory){block, block + n, (int *)(block + n + p->held), block};
}

static bool has(const char *compiler) {
  char command[100];
  snprintf(command, sizeof command, "command -v %s >/dev/null", compiler);
  return system(command) == 0;  // NOLINT: a fixed word
}

static Function *compiled(const char *source, const char *compiler, void **library) {
  char out[120], command[500];
  snprintf(out, sizeof out, "%s.%s.so", source, compiler);
  snprintf(command, sizeof command, "%s -std=c99 -Wall -Werror -O2 -shared -fPIC -o %s %s -lm", compiler, out, source);
  assert_int_equal(system(command), 0);  // NOLINT
  *library = dlopen(out, RTLD_NOW);
  assert_non_null(*library);
  unlink(out);

  void *found = dlsym(*library, "policy_a_b");
  Function *f;
  memcpy(&f, &found, sizeof f);
  assert_non_null(found);
  return f;
}

// ---- beside the engine -----------------------------------------------------------------------------------------------------
typedef struct Run {
  pbContext *ctx;
  pbModel *model;
  double *theta, *x, *observed;
  pbScratch *scratch;
} Run;

static int take_inputs(const Run *r, double *input) {
  const pbPolicyModel *p = r->model->policy;
  int n = 0;
  for (const pbObserveRow *row = p->row; row < p->row + p->rows; row++) {
    int seen = row->kind == pb_observeLast ? 0 : row->count;
    for (int k = 0; k < seen; k++) input[n++] = r->observed[row->at + k] / row->scale;
  }
  return n;
}

static void assert_bits(const double *found, const double *expected, int count) {
  for (int i = 0; i < count; i++) assert_true(found[i] == expected[i] && signbit(found[i]) == signbit(expected[i]));
}

static void one_step(Run *r, Function *f, const Memory *m, unsigned *seed, double size) {
  const pbPolicyModel *p = r->model->policy;
  double command[8], input[most], output[most];
  for (int i = 0; i < 8; i++) command[i] = size * noise(seed);
  pbInput in = {.command = command};

  good(r->ctx, pbPolicy_Observe(r->model, r->theta, r->x, &in, r->scratch, r->observed));
  assert_true(take_inputs(r, input) <= most);
  f(m->block, input, output);
  pbStatus status;
  do status = pbStep_Forward(r->model, r->theta, r->x, &in, r->scratch, NULL);
  while (pbScratch_Grow(r->scratch, &status));
  assert_int_equal(status, pb_ok);

  // the state after the step has what was decided, and memories
  const double *tail = r->x + state_layout(r->model).policy;
  assert_bits(m->memory, tail, p->memory);
  assert_bits(m->held, tail + p->memory, p->held);
  assert_true(*m->count == (int)tail[p->memory + p->held]);
  for (int i = 0; i < p->outputs; i++) {
    double expected = p->target[i].scale * r->scratch->policy->out[i];
    assert_bits(output + i, &expected, 1);
  }
}

static void run_beside(Run *r, Function *f) {
  Memory m = memory_of(r->model->policy);
  unsigned seed = 5;
  good(r->ctx, pbState_Init(r->ctx, r->model, r->theta, -1, r->x));
  for (int k = 0; k < steps; k++) one_step(r, f, &m, &seed, k % 7 == 6 ? 8 : 2);
  free(m.block);
}

// which: compilers, a bit each; those that are not there are left out. *all: how many were tried.
static void try_case(pbContext *ctx, const char *text, bool single, unsigned which, int *all) {
  static const char *const compilers[] = {"gcc", "clang"};
  char source[100], changed[2000];
  snprintf(changed, sizeof changed, "{\"single\": %s, %s", single ? "true" : "false", text + 1);
  Run r = {.ctx = ctx, .model = model_of_text(ctx, plant)};
  good(ctx, pbPolicy_Parse(r.model, changed, strlen(changed), "case"));

  // weights at random about their start
  size_t count = pbModel_ParamSize(r.model);
  unsigned seed = 3;
  r.theta = zeros(count);
  memcpy(r.theta, pbModel_DefaultParams(r.model), count * sizeof *r.theta);
  const pbPolicyModel *p = r.model->policy;
  for (size_t i = 0; i < p->theta_size; i++) r.theta[p->theta + i] += 0.1 * noise(&seed);
  r.x = zeros((size_t)pbModel_StateSize(r.model));
  r.observed = zeros((size_t)p->observing + 1);
  good(ctx, pbScratch_Create(ctx, r.model, NULL, &r.scratch));

  snprintf(source, sizeof source, "/tmp/policy_a-b.%d.c", (int)getpid());
  good(ctx, pbPolicy_SaveC(ctx, r.model, r.theta, source));
  int tried = 0;
  for (size_t i = 0; i < sizeof compilers / sizeof *compilers; i++) {
    void *library;
    if (!has(compilers[i]) || !(which & 1u << i)) continue;
    run_beside(&r, compiled(source, compilers[i], &library));
    dlclose(library);
    tried++;
  }
  *all += tried;

  unlink(source);
  pbScratch_Destroy(r.scratch);
  free(r.theta);
  free(r.x);
  free(r.observed);
  pbModel_Destroy(r.model);
}

static void test_same_bits(void **state) {
  int all = 0;
  for (int i = 0; i < CASES; i++) {
    try_case(*state, cases[i].text, false, 3, &all);
    try_case(*state, cases[i].text, true, i % 2 ? 1 : 2, &all);
  }
  assert_true(all > 0);
}

static void test_every_kind_is_there(void **state) {
  (void)state;
  for (int kind = 0; kind < pb_layerKindCount; kind++) {
    bool found = false;
    for (int i = 0; i < CASES; i++) found = found || cases[i].kind == (pbLayerKind)kind;
    if (!found) fail_msg("no case of layer '%s'", pbLayerKind_Name((pbLayerKind)kind));
  }
  for (int a = 0; a < pb_activationCount; a++) {
    bool found = false;
    for (int i = 0; i < CASES; i++)
      found = found || (cases[i].kind == pb_layerActivation && cases[i].activation == (pbActivation)a);
    if (!found) fail_msg("no case of activation '%s'", pbActivation_Name((pbActivation)a));
  }
}

static void test_what_cannot_be_written(void **state) {
  pbContext *ctx = *state;
  pbModel *model = model_of_text(ctx, plant);
  pbParam p;
  assert_int_equal(pbPolicy_SaveC(ctx, model, NULL, "/tmp/none.c"), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(ctx), "/tmp/none.c: the model has no policy"));

  good(ctx, pbPolicy_Parse(model, cases[0].text, strlen(cases[0].text), "case"));
  size_t count = pbModel_ParamSize(model);
  double *theta = zeros(count);
  memcpy(theta, pbModel_DefaultParams(model), count * sizeof *theta);
  good(ctx, pbModel_Param(ctx, model, "policy.0.bias", &p));
  theta[p.offset + 2] = NAN;
  assert_int_equal(pbPolicy_SaveC(ctx, model, theta, "/tmp/none.c"), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(ctx), "/tmp/none.c: policy.0.bias[2] is nan"));
  assert_int_equal(pbPolicy_SaveC(ctx, model, NULL, "/nowhere/none.c"), pb_file);
  assert_int_equal(access("/tmp/none.c", F_OK), -1);
  free(theta);
  pbModel_Destroy(model);
}

// Layers with what each takes, for other writers.
static void test_layout(void **state) {
  pbContext *ctx = *state;
  char *text;
  pbModel *model = model_of_text(ctx, plant);
  assert_int_equal(pbPolicy_Layout(ctx, model, NULL, &text), pb_bad_argument);
  assert_null(text);

  static const char policy[] = "{" SEEN ", " LAYERS "[{\"sum\": [[{\"dense\": 4}], [{\"scale\": 2}, {\"dense\": 4}]]}]}";
  good(ctx, pbPolicy_Parse(model, policy, strlen(policy), "case"));
  good(ctx, pbPolicy_Layout(ctx, model, NULL, &text));
  static const char *const of[] = {"\"of\": [0]", "\"of\": [0]", "\"of\": [2]", "\"of\": [1, 3]"};
  const char *at = text;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    at = strstr(at, of[i]);
    assert_non_null(at);
    at++;
  }
  assert_non_null(strstr(text, "control of actuator 'a3'"));
  pbContext_Free(ctx, text);
  pbModel_Destroy(model);

  model = model_of_text(ctx, plant);
  good(ctx, pbPolicy_Parse(model, cases[CASES - 1].text, strlen(cases[CASES - 1].text), "case"));
  assert_int_equal(pbPolicy_Layout(ctx, model, NULL, &text), pb_unsupported);
  pbModel_Destroy(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits), cmocka_unit_test(test_every_kind_is_there),
                                     cmocka_unit_test(test_what_cannot_be_written), cmocka_unit_test(test_layout)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
