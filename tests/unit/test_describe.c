// Descriptions: values of JSON as text and told one by one, trajectories against steps made by hand, and what the program prints of
// a model against the model.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/pullback.h>

#include "io/json/read.h"
#include "support/support.h"

static const char scene[] =
    "<mujoco><option timestep='.01'/><worldbody><geom name='floor' type='plane' size='5 5 .1'/>"
    "<body name='ball' pos='0 0 .3'><freejoint/><geom name='shell' size='.1'/></body>"
    "<body name='arm' pos='1 0 1'><joint name='hinge' axis='0 1 0'/><geom type='capsule' size='.03' fromto='0 0 0 0 0 "
    "-.3'/></body>"
    "<body name='hand' mocap='true' pos='0 0 .45'><geom size='.1'/></body></worldbody>"
    "<actuator><motor joint='hinge'/></actuator><sensor><jointvel joint='hinge'/></sensor></mujoco>";

typedef struct World {
  pbContext *ctx;
  pbModel *model;
  double x[64];
} World;

static World begin(void) {
  World w = {.ctx = pbContext_Create(NULL)};
  w.model = model_of_text(w.ctx, scene);
  assert_true(pbModel_StateSize(w.model) <= 64);
  assert_int_equal(pbState_Init(w.ctx, w.model, pbModel_DefaultParams(w.model), -1, w.x), pb_ok);
  return w;
}

static void end(World *w) {
  pbModel_Destroy(w->model);
  pbContext_Destroy(w->ctx);
}

// ---- values of JSON -------------------------------------------------------------------------------------------------------
typedef struct Heard {
  char text[2000];
  size_t length;
} Heard;

static void hear(Heard *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void hear(Heard *h, const char *format, ...) {
  va_list list;
  va_start(list, format);
  h->length += (size_t)vsnprintf(h->text + h->length, sizeof h->text - h->length, format, list);
  va_end(list);
}

static void hear_open(void *h, const char *key, char bracket) { hear(h, "%s%c", key ? key : "", bracket); }
static void hear_close(void *h) { hear(h, "|"); }
static void hear_text(void *h, const char *key, const char *value) { hear(h, "%s='%s' ", key ? key : "", value); }
static void hear_number(void *h, const char *key, double value) { hear(h, "%s=%.17gr ", key ? key : "", value); }
static void hear_integer(void *h, const char *key, int64_t value) { hear(h, "%s=%lld ", key ? key : "", (long long)value); }
static void hear_boolean(void *h, const char *key, bool value) { hear(h, "%s=%s ", key ? key : "", value ? "yes" : "no"); }
static void hear_nothing(void *h, const char *key) { hear(h, "%s=null ", key ? key : ""); }
static const pbJsonTold told = {hear_open, hear_close, hear_text, hear_number, hear_integer, hear_boolean, hear_nothing};

static void put_all(pbJson *j) {
  pbJson_Open(j, NULL, '{');
  pbJson_Text(j, "text", "a \"b\"\n<c>");
  pbJson_Number(j, "third", 1. / 3);
  pbJson_Number(j, "whole", 2);
  pbJson_Number(j, "open", INFINITY);
  pbJson_Integer(j, "many", INT64_C(9007199254740993));
  pbJson_Bool(j, "yes", true);
  pbJson_Null(j, "none");
  pbJson_Numbers(j, "row", (double[]){1.5, NAN}, 2);
  pbJson_OpenLine(j, "list", '[');
  pbJson_Integer(j, NULL, -1);
  pbJson_Open(j, NULL, '{');
  pbJson_Close(j, '}');
  pbJson_Close(j, ']');
  pbJson_Close(j, '}');
}

static void test_values_are_written_and_told(void **state) {
  (void)state;
  char text[2000] = "";
  FILE *out = fmemopen(text, sizeof text, "w");
  put_all(&(pbJson){.out = out, .compact = true});
  fclose(out);
  assert_string_equal(
      text,
      "{\"text\": \"a \\\"b\\\"\\n\\u003cc\\u003e\", \"third\": 0.3333333333333333, \"whole\": 2, \"open\": null, "
      "\"many\": 9007199254740993, \"yes\": true, \"none\": null, \"row\": [1.5, null], \"list\": [-1, {}]}");

  Heard heard = {.length = 0};
  put_all(&(pbJson){.told = &told, .user = &heard});
  assert_string_equal(heard.text,
                      "{text='a \"b\"\n<c>' third=0.33333333333333331r whole=2r open=null many=9007199254740993 yes=yes "
                      "none=null row[=1.5r =null |list[=-1 {|||");
}

// ---- trajectories ---------------------------------------------------------------------------------------------------------
enum { steps = 60 };

static int count_and_stop(void *user, const pbProgress *p) {
  assert_string_equal(p->phase, "simulate");
  return --*(int *)user < 0;
}

// Our reader and jansson's own, of right and of wrong texts: the same verdict, and where it is wrong the same text.
static void test_json_is_read_as_jansson_does(void **state) {
  (void)state;
  static const char *const texts[] = {"{}",
                                      " [ ] ",
                                      "[0, -0, 10, 0.5, -1e5, 1E+2, 1.5e-3]",
                                      "{\"a\": [true, false, null], \"b\": {}}",
                                      "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9 \xc3\xa9\"]",
                                      "",
                                      "1",
                                      "[1,]",
                                      "[,1]",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{a: 1}",
                                      "[01]",
                                      "[1.]",
                                      "[.5]",
                                      "[1e]",
                                      "[-]",
                                      "[tru]",
                                      "[1 2]",
                                      "[1]]",
                                      "[1",
                                      "[\"a]",
                                      "[\"\\x\"]",
                                      "[\"\\u12g4\"]",
                                      "[\"\n\"]",
                                      "{\"a\": 1, \"a\": 2}",
                                      "[1e999]",
                                      "[99999999999999999999]",
                                      "[\"\\u0000\"]",
                                      "[\"\xff\"]"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    json_error_t own_error, error;
    bool no_memory = true;
    json_t *root = json_loads(texts[i], JSON_REJECT_DUPLICATES, &error);
    json_t *own = pbJson_Read(texts[i], strlen(texts[i]), JSON_REJECT_DUPLICATES, &own_error, &no_memory);
    assert_false(no_memory);
    assert_int_equal(!root, !own);
    if (root) assert_true(json_equal(root, own));
    else assert_string_equal(own_error.text, error.text);
    json_decref(root);
    json_decref(own);
  }
}

static void test_a_trajectory_is_its_steps(void **state) {
  (void)state;
  World w = begin();
  const double *theta = pbModel_DefaultParams(w.model);
  assert_int_equal(pbModel_SetContact(w.model, "mocap_motion", "followed"), pb_ok);  // the hand rubs the ball
  double control[steps], pos[3 * steps], before[3] = {0}, quat[4 * steps], back[4] = {1};
  for (int k = 0; k < steps; k++) {
    control[k] = .1 * sin(k);
    memcpy(pos + 3 * k, (double[]){.01 * (k + 1), 0, .45}, 3 * sizeof *pos);
    memcpy(quat + 4 * k, (double[]){1, 0, 0, 0}, 4 * sizeof *quat);
  }
  before[2] = .45;

  pbArrays *set, *every;
  pbStepNotes notes;
  pbSimulation s = {
      .model = w.model, .theta = theta, .x0 = w.x, .steps = steps, .command = "test", .path = "scene.xml", .trajectory = -1};
  s.input = (pbRolloutInput){
      .ctrl = control, .mocap_pos = pos, .mocap_quat = quat, .mocap_pos_before = before, .mocap_quat_before = back};
  assert_int_equal(pbArrays_Create(w.ctx, &set), pb_ok);
  assert_int_equal(pbSimulation_Run(w.ctx, &s, set, &notes), pb_ok);

  // the same by hand
  pbScratch *scratch;
  double rate[6 * steps], x[64];
  memcpy(x, w.x, sizeof x);
  assert_int_equal(pbScratch_Create(w.ctx, w.model, NULL, &scratch), pb_ok);
  assert_int_equal(pbSimulation_Rates(w.ctx, &s, rate), pb_ok);
  assert_true(fabs(rate[0] - 1) < 1e-12 && fabs(rate[6 * steps - 6] - 1) < 1e-12);
  const pbArray *qpos = pbArrays_Find(set, "qpos"), *sensors = pbArrays_Find(set, "sensordata");
  assert_int_equal(qpos->shape[0], steps + 1);
  assert_int_equal(sensors->shape[1], 1);
  for (int k = 0; k < steps; k++) {
    const pbInput input = {.ctrl = control + k, .mocap_pos = pos + 3 * k, .mocap_quat = quat + 4 * k, .mocap_vel = rate + 6 * k};
    double sensor;
    assert_int_equal(pbStep_Forward(w.model, theta, x, &input, scratch, &sensor), pb_ok);
    assert_memory_equal(sensors->reals + k, &sensor, sizeof sensor);
    for (int i = 0; i < pbModel_StateFieldCount(w.model); i++) {
      pbStateField f = pbModel_StateFieldAt(w.model, i);
      const pbArray *a = pbArrays_Find(set, f.name);
      assert_memory_equal(a->reals + (size_t)(k + 1) * (size_t)f.size, x + f.offset, (size_t)f.size * sizeof *x);
    }
  }

  // the hand lies in the ball; every seventh state and the last
  assert_true(notes.penetration > 0 && notes.penetration_step >= 0 && notes.unconverged == 0);
  char text[PB_NOTES_TEXT];
  assert_string_equal(pbStepNotes_Say(&notes, w.model, steps, text, sizeof text), "");
  notes.unconverged = 3;
  assert_non_null(
      strstr(pbStepNotes_Say(&notes, w.model, steps, text, sizeof text), "the worst of 3 steps that did not converge"));
  s.every = 7;
  assert_int_equal(pbArrays_Create(w.ctx, &every), pb_ok);
  assert_int_equal(pbSimulation_Run(w.ctx, &s, every, &notes), pb_ok);
  const pbArray *some = pbArrays_Find(every, "qpos");
  size_t width = qpos->shape[1];
  assert_int_equal(some->shape[0], 10);
  assert_memory_equal(some->reals + 8 * width, qpos->reals + 56 * width, width * sizeof *x);
  assert_memory_equal(some->reals + 9 * width, qpos->reals + 60 * width, width * sizeof *x);
  assert_non_null(strstr(pbArrays_Find(every, "meta")->text, "\"every\": 7"));
  pbArrays_Destroy(every);

  // who hears of it may end it; a state out of bounds does
  int left = 0;
  s.progress = count_and_stop;
  s.user = &left;
  assert_int_equal(pbArrays_Create(w.ctx, &every), pb_ok);
  assert_int_equal(pbSimulation_Run(w.ctx, &s, every, &notes), pb_interrupted);
  x[1] = 1e11;
  assert_int_equal(pbSimulation_Check(w.ctx, &s, x, 5), pb_not_finite);
  assert_non_null(strstr(pbContext_Error(w.ctx), "step 5 of 60"));

  pbArrays_Destroy(every);
  pbArrays_Destroy(set);
  pbScratch_Destroy(scratch);
  end(&w);
}

// Poses before the first row are written each as it is given; what is no run is refused.
static void test_inputs_of_a_trajectory(void **state) {
  (void)state;
  World w = begin();
  const double before[4] = {1, 0, 0, 0};
  pbSimulation s = {.model = w.model,
                    .theta = pbModel_DefaultParams(w.model),
                    .x0 = w.x,
                    .steps = 2,
                    .command = "test",
                    .path = "scene.xml",
                    .trajectory = -1};
  pbArrays *set;
  pbStepNotes notes;

  for (int i = 0; i < 2; i++) {
    s.input = i ? (pbRolloutInput){.mocap_quat_before = before} : (pbRolloutInput){.mocap_pos_before = before};
    assert_int_equal(pbArrays_Create(w.ctx, &set), pb_ok);
    assert_int_equal(pbSimulation_Run(w.ctx, &s, set, &notes), pb_ok);
    assert_int_equal(pbArrays_Find(set, "mocap_pos_before") != NULL, i == 0);
    assert_int_equal(pbArrays_Find(set, "mocap_quat_before") != NULL, i == 1);
    assert_true(pbArrays_Find(set, "control")->reals[1] == 0);
    pbArrays_Destroy(set);
  }

  assert_int_equal(pbArrays_Create(w.ctx, &set), pb_ok);
  s.input.constant = true;
  assert_int_equal(pbSimulation_Run(w.ctx, &s, set, &notes), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(w.ctx), "a row for each of the 2 steps"));
  s = (pbSimulation){.model = w.model, .theta = s.theta, .x0 = w.x};
  assert_int_equal(pbSimulation_Run(w.ctx, &s, set, &notes), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(w.ctx), "0 steps; expected 1 or more"));
  pbArrays_Destroy(set);
  end(&w);
}

// ---- models and energies --------------------------------------------------------------------------------------------------
static void test_tables_have_the_things_of_a_model(void **state) {
  (void)state;
  World w = begin();
  pbTable table;
  int bodies = -1, geoms = -1, count = 0;
  for (; pbModel_TableAt(w.model, count, &table); count++) {
    if (strcmp(table.label, "bodies") == 0) bodies = count;
    if (strcmp(table.label, "geoms") == 0) geoms = count;
  }
  assert_true(bodies >= 0 && geoms >= 0 && !pbModel_TableAt(w.model, -1, &table));

  assert_true(pbModel_TableAt(w.model, bodies, &table));
  assert_int_equal(table.rows, 4);
  pbTableCell cell = pbModel_TableCell(w.model, bodies, 1, 0);
  assert_string_equal(cell.label, "parent");
  assert_true(cell.known && cell.value == 0 && strcmp(cell.word, "world") == 0);
  assert_string_equal(pbModel_TableCell(w.model, geoms, 0, 0).word, "plane");
  assert_string_equal(pbModel_TableCell(w.model, geoms, 1, 1).word, "ball");
  assert_false(pbModel_TableCell(w.model, geoms, -1, 1).known);

  assert_string_equal(pbModel_SizeName(0), "nq");
  assert_string_equal(pbModel_OptionWord(w.model, "integrator"), "Euler");
  assert_null(pbModel_OptionWord(w.model, "nothing"));
  assert_int_equal(pbModel_Integer(w.model, "geom_bodyid", 1), 1);
  assert_int_equal(pbModel_Integer(w.model, "geom_bodyid", 99), -1);

  pbParam mass;
  size_t shape[2];
  assert_int_equal(pbModel_Param(w.ctx, w.model, "body_mass", &mass), pb_ok);
  assert_true(pbParam_Shape(&mass, shape) == 1 && shape[0] == 4);
  end(&w);
}

static void test_an_evaluation_has_all_quantities(void **state) {
  (void)state;
  World w = begin();
  pbArrays *set;
  assert_int_equal(pbArrays_Create(w.ctx, &set), pb_ok);
  assert_int_equal(pbModel_Inspect(w.ctx, w.model, pbModel_DefaultParams(w.model), w.x, &(pbInput){0}, set), pb_ok);
  const pbArray *M = pbArrays_Find(set, "M"), *mass = pbArrays_Find(set, "param/body_mass"),
                *type = pbArrays_Find(set, "model/geom_type");
  assert_true(M && M->ndim == 2 && M->shape[0] == 7 && mass && mass->count == 4 && type && type->type == pb_arrayInt);
  assert_true(M->reals[0] == mass->reals[1] && pbArrays_Find(set, "qacc") && pbArrays_Find(set, "time"));
  pbArrays_Destroy(set);
  end(&w);
}

static void test_energies_by_name_and_family(void **state) {
  (void)state;
  Heard heard = {.length = 0};
  pbMaterial_Describe("spring", &(pbJson){.told = &told, .user = &heard});
  assert_non_null(strstr(heard.text, "[{name='spring' family="));
  assert_true(pbMaterial_IsCalled(pbMaterial_Find("spring"), "spring") &&
              !pbMaterial_IsCalled(pbMaterial_Find("spring"), "hinge"));
}

static void test_names_of_files(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  char path[40];
  assert_int_equal(pbRun_FileName(ctx, "out/a.json", "b.json", ".state", path, sizeof path), pb_ok);
  assert_string_equal(path, "out/a.state");
  assert_int_equal(pbRun_FileName(ctx, NULL, "tasks/b.json", ".npz", path, sizeof path), pb_ok);
  assert_string_equal(path, "b.npz");
  assert_int_equal(pbRun_FileName(ctx, "out/page.html", "arm.xml", ".check.state", path, sizeof path), pb_ok);
  assert_string_equal(path, "out/page.check.state");
  assert_int_equal(pbRun_FileName(ctx, "a-name-that-is-longer-than-the-memory-for-it", "b", ".npz", path, sizeof path),
                   pb_bad_argument);

  // beside a stream there are none
  assert_int_equal(pbRun_FileName(ctx, "/dev/null", "b", ".npz", path, sizeof path), pb_bad_argument);
  assert_true(pbRun_IsStream("/dev/stdout") && pbRun_IsStream("/proc/self/fd/1") && !pbRun_IsStream("/dev/shm/a.json"));
  assert_false(pbRun_IsStream(".") || pbRun_IsStream("no/such/file"));
  pbContext_Destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values_are_written_and_told),       cmocka_unit_test(test_json_is_read_as_jansson_does),
      cmocka_unit_test(test_a_trajectory_is_its_steps),         cmocka_unit_test(test_inputs_of_a_trajectory),
      cmocka_unit_test(test_tables_have_the_things_of_a_model), cmocka_unit_test(test_an_evaluation_has_all_quantities),
      cmocka_unit_test(test_energies_by_name_and_family),       cmocka_unit_test(test_names_of_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
