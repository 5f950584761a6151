// Policies from files: what a description becomes, weights there and back, and every mistake told with its place.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <pullback/array.h>
#include <pullback/io.h>
#include <pullback/optimize.h>
#include <pullback/spec.h>

#include "support/support.h"

#define ARM                                                                                                                  \
  "<mujoco><worldbody><body name='top' pos='0 0 1'><freejoint name='root'/><geom size='.1' mass='2'/><body name='low'>"      \
  "<joint name='hinge' axis='0 1 0'/><geom type='capsule' size='.02' fromto='0 0 0 .3 0 0'/><site name='tip' pos='.3 0 0'/>" \
  "</body></body></worldbody><actuator><motor name='motor' joint='hinge'/></actuator>"                                       \
  "<sensor><jointpos name='angle' joint='hinge'/><gyro name='turn' site='tip'/><accelerometer name='felt' "                  \
  "site='tip'/></sensor></mujoco>"

#define EVERYTHING                                                                                                               \
  "{\"every\": 3, \"seed\": 5, \"observe\": [{\"time\": true}, {\"qpos\": true}, {\"rotation\": \"root\", \"scale\": 2}, "       \
  "{\"qvel\": [\"hinge\", \"root\"], \"components\": [0]}, {\"sensor\": true}, {\"sensor\": \"turn\", \"components\": [2, 0]}, " \
  "{\"body_position\": \"low\", \"point\": [0, 0, 0.1], \"frame\": \"top\"}, {\"body_rotation\": \"low\"}, "                     \
  "{\"site_position\": \"tip\", \"components\": [2]}, {\"command\": 3, \"first\": 1}, {\"last\": true}], "                       \
  "\"layers\": [{\"clock\": [1.5, 3]}, {\"normalize\": true, \"name\": \"norm\"}, {\"dense\": 8, \"activation\": \"elu\", "      \
  "\"init\": \"uniform\", \"gain\": 0.5}, {\"scale\": 2, \"offset\": [1, 2, 3, 4, 5, 6, 7, 8]}, {\"sum\": [[{\"dense\": 2}], "   \
  "[{\"dense\": 4, \"activation\": \"tanh\"}, {\"dense\": 2, \"init\": 0}]]}, {\"clip\": [-1, 1], \"projected\": true}], "       \
  "\"act\": {\"observe\": [{\"qpos\": \"hinge\"}, {\"qvel\": \"hinge\"}], \"layers\": [{\"scale\": [1, 0.5, 1, 1]}, "            \
  "{\"dense\": 3, \"name\": \"mix\"}, {\"pd\": 1, \"kp\": 10, \"kd\": 1, \"limit\": 5}]}, "                                      \
  "\"output\": {\"control\": \"motor\", \"scale\": 0.5}}"

// time, 7 joint numbers (root 12, hinge 1), rotation 3, first velocities, angle and turn, ...
static void test_everything(void **state) {
  pbModel *model = model_of_text(*state, ARM);
  pbPolicyInfo info;
  good(*state, pbPolicy_Parse(model, EVERYTHING, strlen(EVERYTHING), "everything"));
  assert_true(pbModel_PolicyInfo(model, &info));
  assert_int_equal(info.observations, 1 + 13 + 3 + 2 + 4 + 2 + 3 + 9 + 1 + 3 + 2 + 2);
  assert_int_equal(info.every, 3);
  assert_int_equal(info.held, 2);
  assert_int_equal(info.outputs, 1);
  assert_int_equal(info.commands, 4);

  pbParam p;
  good(*state, pbModel_Param(*state, model, "policy.norm.mean", &p));
  assert_int_equal(p.rows, 42 + 2 * 2);  // the clock puts sine and cosine of two frequencies in the place of the time
  assert_true(p.fixed);
  good(*state, pbModel_Param(*state, model, "policy.act.2.kp", &p));
  assert_true(pbModel_DefaultParams(model)[p.offset] == 10);
  assert_non_null(strstr(pbPolicy_Text(model), "\"seed\":5"));
  pbModel_Destroy(model);
}

#define SIMPLE(layers) "{\"observe\": [{\"qpos\": \"hinge\"}, {\"qvel\": \"hinge\"}], \"layers\": [" layers "]}"

// ---- files of weights -------------------------------------------------------------------------------------------------
static const char *path_of(char *text, size_t size, const char *name) {
  snprintf(text, size, "/tmp/pullback-policy-%d-%s", (int)getpid(), name);
  return text;
}

static const char simple[] = SIMPLE("{\"normalize\": true}, {\"dense\": 4, \"activation\": \"tanh\"}, {\"dense\": 1}");

static void save_changed(pbContext *ctx, const char *path, double *first) {
  pbModel *model = model_of_text(ctx, ARM);
  good(ctx, pbPolicy_Parse(model, simple, strlen(simple), NULL));
  size_t bytes = pbModel_ParamSize(model) * sizeof(double);
  double *theta = malloc(bytes);
  pbParam p;

  memcpy(theta, pbModel_DefaultParams(model), bytes);
  good(ctx, pbModel_Param(ctx, model, "policy.1.weight", &p));
  for (int i = 0; i < 8; i++) theta[p.offset + (size_t)i] = 0.1 * i - 0.3;
  *first = theta[p.offset + 7];
  good(ctx, pbPolicy_Save(ctx, model, theta, path));
  free(theta);
  pbModel_Destroy(model);
}

// One row that names many joints is as many rows: each name is kept until all of them are read.
static void test_many_outputs(void **state) {
  static const char text[] =
      "{\"observe\": [{\"time\": true}], \"layers\": [{\"dense\": 6}], "
      "\"output\": {\"force\": [\"hinge\", \"hinge\", \"hinge\", \"hinge\", \"hinge\", \"hinge\"]}}";
  pbModel *model = model_of_text(*state, ARM);
  pbPolicyInfo info;

  good(*state, pbPolicy_Parse(model, text, strlen(text), "many"));
  assert_true(pbModel_PolicyInfo(model, &info));
  assert_int_equal(info.outputs, 6);
  pbModel_Destroy(model);
}

static void test_save_and_load(void **state) {
  char path[100];
  double value;
  pbParam p;
  save_changed(*state, path_of(path, sizeof path, "a.npz"), &value);

  // into a model without a policy, and into one that has it already
  for (int with = 0; with < 2; with++) {
    pbModel *model = model_of_text(*state, ARM);
    if (with) good(*state, pbPolicy_Parse(model, simple, strlen(simple), NULL));
    good(*state, pbPolicy_Load(model, path, NULL));
    good(*state, pbModel_Param(*state, model, "policy.1.weight", &p));
    assert_true(pbModel_DefaultParams(model)[p.offset + 7] == value);
    pbModel_Destroy(model);
  }

  // another description: its weights would mean something else
  static const char other[] = SIMPLE("{\"normalize\": true}, {\"dense\": 4, \"activation\": \"elu\"}, {\"dense\": 1}");
  pbModel *model = model_of_text(*state, ARM);
  good(*state, pbPolicy_Parse(model, other, strlen(other), NULL));
  assert_int_equal(pbPolicy_Load(model, path, NULL), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(*state), "another policy"));
  pbModel_Destroy(model);
  unlink(path);
}

// The file with one array replaced (NULL: left out), or one more.
static void spoil(pbContext *ctx, const char *path, const char *name, size_t count, const double *values) {
  pbArrays *from, *to;
  double value;
  save_changed(ctx, path, &value);
  good(ctx, pbArrays_Load(ctx, path, &from));
  good(ctx, pbArrays_Create(ctx, &to));
  for (size_t i = 0; i < pbArrays_Count(from); i++) {
    const pbArray *a = pbArrays_At(from, i);
    if (a->type == pb_arrayText) good(ctx, pbArrays_AddText(to, a->name, a->text));
    else if (strcmp(a->name, name) != 0) good(ctx, pbArrays_AddReals(to, a->name, a->ndim, a->shape, a->reals, NULL));
  }
  if (count) good(ctx, pbArrays_AddReals(to, name, 1, &count, values, NULL));
  good(ctx, pbArrays_SaveNpz(to, path, false));
  pbArrays_Destroy(from);
  pbArrays_Destroy(to);
}

static void test_bad_weights(void **state) {
  static const struct {
    const char *name;
    size_t count;
    double value;
    const char *words[2];
  } cases[] = {{"policy.1.bias", 4, NAN, {"policy.1.bias", "is NaN"}},
               {"policy.1.bias", 3, 1, {"policy.1.bias", "expected 4 x 1, found (3,)"}},
               {"policy.1.bias", 0, 0, {"has no array 'policy.1.bias'", ""}},
               {"policy.7.bias", 2, 1, {"no slice 'policy.7.bias'", ""}}};
  char path[100];
  path_of(path, sizeof path, "b.npz");

  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double values[4] = {cases[i].value, cases[i].value, cases[i].value, cases[i].value};
    spoil(*state, path, cases[i].name, cases[i].count, values);
    pbModel *model = model_of_text(*state, ARM);
    assert_int_equal(pbPolicy_Load(model, path, NULL), pb_bad_input);
    for (int k = 0; k < 2; k++) {
      if (!strstr(pbContext_Error(*state), cases[i].words[k])) fail_msg("%s", pbContext_Error(*state));
    }
    pbModel_Destroy(model);
  }
  unlink(path);
}

// ---- mistakes ---------------------------------------------------------------------------------------------------------
static const struct {
  const char *text;
  const char *words;
} mistakes[] = {
    {"{\"observe\": [{\"qpos\": true}]}", "\"layers\" is missing"},
    {"{\"layers\": [{\"dense\": 1}]}", "\"observe\" is missing"},
    {"{\"observe\": [], \"layers\": [{\"dense\": 1}]}", "observe: expected a list of rows"},
    {"{\"observe\": [{\"qpos\": \"hing\"}], \"layers\": [{\"dense\": 1}]}",
     "observe[0].qpos: the model has no joint 'hing', did you mean 'hinge'?"},
    {"{\"observe\": [{\"qpoz\": true}], \"layers\": [{\"dense\": 1}]}",
     "observe[0]: 'qpoz' is nothing that can be observed, did you"},
    {"{\"observe\": [{\"qpos\": true, \"frame\": \"top\"}], \"layers\": [{\"dense\": 1}]}", "unknown key 'frame'"},
    {"{\"observe\": [{\"qpos\": \"hinge\", \"components\": [1]}], \"layers\": [{\"dense\": 1}]}",
     "observe[0].qpos.components: index"},
    {"{\"observe\": [{\"qpos\": true, \"scale\": 0}], \"layers\": [{\"dense\": 1}]}",
     "observe[0].scale: expected a number other"},
    {"{\"observe\": [{\"qpos\": true}], \"layers\": [{\"dense\": 1}], \"output\": {\"control\": true, \"scale\": 0}}",
     "output.scale: expected a number other than 0"},
    {SIMPLE("{\"formula\": [\"log(-1 - x0*x0)\"]}"), "numbers that are not finite"},
    {"{\"observe\": [{\"body_position\": true}], \"layers\": [{\"dense\": 1}]}", "observe[0].body_position: expected a name"},
    {"{\"observe\": [{\"qpos\": true},\n{\"rotation\": \"hinge\"}], \"layers\": [{\"dense\": 1}]}",
     "bad.json:2: observe[1].rotation: joint 'hinge' is no ball or free joint"},
    {"{\"observe\": [{\"qpos\": true},\n{\"sensor\": [\"turn\", \"felt\"]}], \"layers\": [{\"dense\": 1}]}",
     "bad.json:2: observe[1].sensor[1]: sensor 'felt' depends on the controls of the very step"},
    {"{\"observe\": [{\"qpos\": true},\n{\"sensor\": \"turn\", \"previous\": true}], \"layers\": [{\"dense\": 1}]}",
     "bad.json:2: observe[1].previous: sensors of the step before are not supported"},
    {"{\"observe\": [{\"qpos\": true}], \"layers\": [{\"dense\": 6}],\n\"output\": {\"wrench\": \"world\"}}",
     "bad.json:2: output.wrench: the world does not move"},
    {"{\"observe\": [{\"last\": true}], \"layers\": [{\"normalize\": true}]}", "observe[0].last: what the last decision was"},
    {"{\"observe\": [{\"command\": 0}], \"layers\": [{\"dense\": 1}]}", "observe[0].command: expected a whole number"},
    {SIMPLE("{\"layernorm\": 1}"), "layers[0].layernorm: expected true"},
    {SIMPLE("{\"layernorm\": true, \"gain\": 1}"), "layers[0]: unknown key 'gain'"},
    {SIMPLE("{\"layernom\": true}"), "'layernom' is no kind of layer, did you mean 'layernorm'?"},
    {SIMPLE("{\"dense\": 1}, {\"layernorm\": true}"), "layers[1].layernorm: at least 2 inputs are needed, found 1"},
    {SIMPLE("{\"activation\": \"swish\"}"), "'swish' is no activation"},
    {SIMPLE("{\"activation\": \"silo\"}"), "did you mean 'silu'?"},
    {SIMPLE("{\"dens\": 1}"), "layers[0]: 'dens' is no kind of layer, did you mean 'dense'?"},
    {SIMPLE("{\"dense\": 1, \"aktivation\": \"elu\"}"), "layers[0]: unknown key 'aktivation', did you mean 'activation'?"},
    {SIMPLE("{\"dense\": 1, \"activation\": \"elo\"}"), "layers[0].activation: 'elo' is no activation, did you mean 'elu'?"},
    {SIMPLE("{\"dense\": 0}"), "layers[0].dense: expected a whole number from 1"},
    {SIMPLE("{\"dense\": 1, \"init\": 3}"), "layers[0].init: expected \"orthogonal\""},
    {SIMPLE("{\"scale\": [1, 2, 3]}"), "layers[0].scale: expected 2 numbers, found 3"},
    {SIMPLE("{\"clip\": [1, -1]}"), "layers[0].clip: expected [lower, upper]"},
    {SIMPLE("{\"pd\": 1}"), "layers[0].pd: 1 outputs need 3 inputs, found 2"},
    {SIMPLE("{\"sum\": [[{\"dense\": 1}], [{\"dense\": 2}]]}"), "layers[0].sum[1]: 2 numbers come out of it, of the first 1"},
    {SIMPLE("{\"dense\": 2}"), "2"},  // outputs: the model has one control
    {"{\"observe\": [{\"qpos\": true}], \"layers\": [{\"dense\": 1}], \"output\": [{\"control\": \"motr\"}]}",
     "output[0].control: the model has no actuator 'motr', did you mean 'motor'?"},
    {"{\"observe\": [{\"qpos\": true}], \"layers\": [{\"dense\": 1}], \"every\": 0}", "every: expected a whole number from 1"},
    {"{\"observe\": [{\"qpos\": true}], \"layers\": [{\"dense\": 1}], \"evry\": 2}", "unknown key 'evry', did you mean 'every'?"},
};

static void test_mistakes(void **state) {
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
    pbModel *model = model_of_text(*state, ARM);
    pbPolicyInfo info;
    assert_int_equal(pbPolicy_Parse(model, mistakes[i].text, strlen(mistakes[i].text), "bad.json"), pb_bad_input);
    if (!strstr(pbContext_Error(*state), mistakes[i].words)) fail_msg("%zu: %s", i, pbContext_Error(*state));
    assert_non_null(strstr(pbContext_Error(*state), "bad.json:"));
    assert_false(pbModel_PolicyInfo(model, &info));
    pbModel_Destroy(model);
  }
}

// ---- unknowns of a task -------------------------------------------------------------------------------------------------
// All weights but the normalizer's numbers are what "policy" means, and a loss on the closed loop has a gradient by them.
static void test_variable(void **state) {
  char text[3000];
  snprintf(text, sizeof text,
           "{\"model\": \"%s\", \"policy\": %s, \"steps\": 20, \"init\": {\"joints\": {\"hinge\": {\"qpos\": 1}}}, "
           "\"variables\": [{\"parameter\": \"policy\"}], \"loss\": [{\"qpos\": \"hinge\", \"target\": 0, \"at\": \"all\"}]}",
           ARM, simple);
  pbTask *task;
  good(*state, pbTask_Parse(*state, text, strlen(text), NULL, "task.json", &task));
  assert_int_equal(pbTask_Size(task), 4 * 2 + 4 + 4 + 1);

  double value, ahead, behind, gradient[17] = {0}, z[17], slope = 0;
  good(*state, pbTask_Loss(task, pbTask_Start(task), &value, gradient));
  for (int side = 0; side < 2; side++) {
    for (int i = 0; i < 17; i++) z[i] = pbTask_Start(task)[i] + (side ? -1e-6 : 1e-6) * cos(i);
    good(*state, pbTask_Loss(task, z, side ? &behind : &ahead, NULL));
  }
  for (int i = 0; i < 17; i++) slope += gradient[i] * cos(i);
  assert_true(fabs(slope) > 1e-6);
  assert_true(fabs((ahead - behind) / 2e-6 - slope) < 1e-6 * fabs(slope));
  pbTask_Destroy(task);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_everything, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_many_outputs, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_save_and_load, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_bad_weights, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_mistakes, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_variable, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
