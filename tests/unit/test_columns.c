// Columns of a CSV and the numbers of a model: their names, what is ambiguous, units, controls, states and poses from them.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/trajectory.h>

#include "io/trajectory/columns.h"
#include "io/trajectory/recording.h"
#include "model/model.h"
#include "support/meter.h"
#include "support/one_context.h"
#include "support/support.h"

static const char text[] =
    "<mujoco><option timestep='0.01'/><worldbody>"
    "<body name='hand' mocap='true'><geom size='.1'/></body>"
    "<body name='torso'><freejoint name='root'/><geom size='.1'/><site name='tip'/>"
    "<body name='arm'><joint name='shoulder' type='ball'/><geom size='.1'/>"
    "<body name='leg'><joint name='knee' axis='0 1 0'/><geom size='.1'/>"
    "<body name='foot'><joint name='rail' type='slide'/><geom size='.1'/></body></body></body></body>"
    "<body name='tip'><geom size='.1'/></body></worldbody>"
    "<actuator><motor name='knee' joint='knee'/><general name='valve' joint='rail' dyntype='filter' dynprm='1'/></actuator>"
    "<sensor><jointpos name='rail' joint='rail'/><gyro name='imu' site='tip'/><jointpos name='angle' "
    "joint='knee'/></sensor></mujoco>";

static pbModel *model;

static int open_model(void **state) {
  if (open_context(state) != 0) return 1;
  model = model_of_text(ctx, text);
  return 0;
}

static int close_model(void **state) {
  pbModel_Destroy(model);
  return close_context(state);
}

static pbArrays *parse(const char *csv) {
  pbArrays *set = NULL;
  good(ctx, pbArrays_Parse(ctx, csv, strlen(csv), "log.csv", &set));
  return set;
}

static void refused(pbStatus status, const char *message) {
  if (status != pb_bad_input || !strstr(pbContext_Error(ctx), message))
    fail_msg("found '%s' (%s), expected '%s'", pbContext_Error(ctx), pbStatus_Text(status), message);
}

// ---- names ------------------------------------------------------------------------------------------------------------
// A header of this one name has the column of this number and no other.
static void found(const char *name, pbRecordedKind kind, int number, bool certain) {
  char csv[200];
  snprintf(csv, sizeof csv, "%s\n1\n", name);
  pbArrays *set = parse(csv);
  for (int i = 0; i < pbColumn_Count(model, kind); i++) {
    pbColumn c = pbColumn_Of(model, kind, i);
    const pbArray *column = NULL;
    good(ctx, pbColumn_Find(ctx, model, set, &c, certain, &column));
    if ((column != NULL) != (i == number)) fail_msg("%s: number %d", name, i);
  }
  pbArrays_Destroy(set);
}

static void test_names(void **state) {
  (void)state;
  static const struct {
    const char *name;
    pbRecordedKind kind;
    int number;
  } names[] = {
      {"knee", pb_columnQpos, 11},           {"qpos:knee", pb_columnQpos, 11},      {"qpos:knee:0", pb_columnQpos, 11},
      {"knee:0 [deg]", pb_columnQpos, 11},   {"root.z [mm]", pb_columnQpos, 2},     {"qpos:root:2", pb_columnQpos, 2},
      {"root:3", pb_columnQpos, 3},          {"root.qw", pb_columnQpos, 3},         {"root.qz", pb_columnQpos, 6},
      {"shoulder.qx", pb_columnQpos, 8},     {"qpos:rail [cm]", pb_columnQpos, 12}, {"qvel:knee [rpm]", pb_columnQvel, 9},
      {"knee [deg/s]", pb_columnQvel, 9},    {"root.vx", pb_columnQvel, 0},         {"root.wz [deg/s]", pb_columnQvel, 5},
      {"shoulder.wy", pb_columnQvel, 7},     {"qvel:root:4", pb_columnQvel, 4},     {"act:valve", pb_columnAct, 0},
      {"imu.y [deg/s]", pb_columnSensor, 2}, {"sensor:imu:2", pb_columnSensor, 3},  {"angle [deg]", pb_columnSensor, 4},
      {"sensor:rail", pb_columnSensor, 0},   {"body:torso.x", pb_columnBody, 6},    {"torso.y [cm]", pb_columnBody, 7},
      {"site:tip.z", pb_columnSite, 2},      {"control:knee", pb_columnControl, 0}, {"valve", pb_columnControl, 1}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) found(names[i].name, names[i].kind, names[i].number, false);

  // what says of what it is needs no word
  found("knee", pb_columnControl, 0, true);
  found("hand.y", pb_columnMocapPos, 1, true);
  found("hand.qw", pb_columnMocapQuat, 0, true);
  found("hand.wz", pb_columnMocapVel, 5, true);
  found("mocap_quat:hand.qz", pb_columnMocapQuat, 3, true);

  // no names of these
  found("rail", pb_columnQvel, -1, false);
  found("knee", pb_columnQvel, -1, false);
  found("valve", pb_columnAct, -1, false);
  found("root:1", pb_columnQvel, -1, false);
  found("elbow", pb_columnQpos, -1, false);
}

static void test_a_word_in_front_rules(void **state) {
  (void)state;
  pbArrays *set = parse("knee,qpos:knee,qvel:knee\n1,2,3\n");
  pbColumn position = pbColumn_Of(model, pb_columnQpos, 11), velocity = pbColumn_Of(model, pb_columnQvel, 9);
  const pbArray *column;
  good(ctx, pbColumn_Find(ctx, model, set, &position, false, &column));
  assert_true(column->reals[0] == 2);
  good(ctx, pbColumn_Find(ctx, model, set, &velocity, false, &column));
  assert_true(column->reals[0] == 3);
  pbArrays_Destroy(set);
}

static pbStatus find(const char *csv, pbRecordedKind kind, int number) {
  pbArrays *set = parse(csv);
  pbColumn c = pbColumn_Of(model, kind, number);
  const pbArray *column;
  pbStatus status = pbColumn_Find(ctx, model, set, &c, false, &column);
  if (status == pb_ok && !column) status = pbColumn_Missing(ctx, set, &c, false);
  pbArrays_Destroy(set);
  return status;
}

static void test_names_of_several_things(void **state) {
  (void)state;
  refused(find("a,rail\n1,2\n", pb_columnQpos, 12),
          "log.csv:1: column 2 'rail': joint and sensor have this name; expected 'qpos:rail' or");
  refused(find("rail\n1\n", pb_columnSensor, 0), "sensor and joint have this name; expected 'sensor:rail' or 'qpos:rail'");
  refused(find("# log\ntip.x\n1\n", pb_columnSite, 0), "log.csv:2: column 1 'tip.x': site and body have this name");
  refused(find("tip:0\n1\n", pb_columnBody, 18), "body and site have this name");

  // a unit may tell
  refused(find("knee\n1\n", pb_columnControl, 0), "actuator and joint have this name");
  good(ctx, find("knee [N m]\n1\n", pb_columnControl, 0));
}

static void test_units_that_do_not_fit(void **state) {
  (void)state;
  refused(find("a,knee [m]\n1,2\n", pb_columnQpos, 11),
          "log.csv:1: column 2 'knee': units do not fit: the column is in m, qpos of joint 'knee' in rad");
  refused(find("qvel:knee [deg]\n2\n", pb_columnQvel, 9), "the column is in rad, qvel of joint 'knee' in rad/s");
  refused(find("root.x [deg]\n2\n", pb_columnQpos, 0), "the column is in rad, qpos of joint 'root' in m");
  refused(find("root.qw [deg]\n2\n", pb_columnQpos, 3), "in rad, qpos of joint 'root' in 1");
  refused(find("imu.x [g]\n2\n", pb_columnSensor, 1), "the column is in m/s^2, sensor of sensor 'imu' in rad/s");
  good(ctx, find("knee [1]\n2\n", pb_columnQpos, 11));
}

static void test_missing_columns_are_told(void **state) {
  (void)state;
  refused(find("time,elbow,kneee\n0,1,2\n", pb_columnQpos, 11),
          "log.csv: no column is the qpos of joint 'knee': looked for 'qpos:knee', 'qpos:knee:0', 'knee', 'knee:0'; its columns "
          "are time, "
          "elbow, kneee, did you mean 'kneee'?");
  refused(find("time,elbow\n0,1\n", pb_columnQvel, 9), "looked for 'qvel:knee', 'qvel:knee:0'; its columns");
  refused(find("time\n0\n", pb_columnBody, 6),
          "looked for 'body:torso.x', 'body:torso:0', 'torso.x', 'torso:0'; its columns are time");

  // of many columns some
  char csv[4000] = "c0";
  for (int i = 1; i < 400; i++) sprintf(csv + strlen(csv), ",c%d", i);
  strcat(csv, "\n");
  for (int i = 1; i < 400; i++) strcat(csv, ",");
  refused(find(csv, pb_columnQpos, 11), ", ...");
}

static void test_times(void **state) {
  (void)state;
  static const struct {
    const char *csv, *name, *message;
  } cases[] = {{"time [ms],a\n0,1\n5,2\n", NULL, NULL},
               {"a,t [s]\n0,1\n5,2\n", NULL, NULL},
               {"stamp,a\n0,1\n5,2\n", "stamp", NULL},
               {"t [N],a\n0,1\n5,2\n", NULL, NULL},
               {"t [N],Time [s]\n0,1\n5,2\n", NULL, NULL},
               {"a,Timestamp\n0,1\n5,2\n", NULL, NULL},
               {"a,stamp [ms]\n0,1\n5,2\n", NULL, NULL},
               {"a,late [ms]\n0,1\n5,1\n", NULL, NULL},
               {"b [s],c [s]\n0,1\n5,2\n", NULL, NULL},
               {"time [m],a\n0,1\n", NULL, "log.csv:1: column 1 'time': units do not fit: times are in s"},
               {"time,a\n0,1\n\n0,2\n", NULL, "log.csv:4: column 1 'time': 0 s is not later than the row before it, of 0 s"},
               {"time,a\n0,1\n-1,2\n", NULL, "-1 s is not later"},
               {"time,a\n0,1\n,2\n", NULL, "log.csv:3: column 1 'time': a row without a time"},
               {"time,a\n0,1\n", "clock", "log.csv: has no column 'clock'; its columns are time, a"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    pbArrays *set = parse(cases[i].csv);
    const pbArray *time;
    pbStatus status = pbColumn_Time(ctx, set, cases[i].name, &time);
    if (cases[i].message) refused(status, cases[i].message);
    else good(ctx, status);
    if (!cases[i].message) assert_true((time == NULL) == (i == 3 || i == 7 || i == 8));
    pbArrays_Destroy(set);
  }
}

// ---- controls ---------------------------------------------------------------------------------------------------------
static pbArrays *controls(const char *csv, long steps) {
  pbArrays *set = parse(csv), *out = NULL;
  good(ctx, pbRecording_Controls(ctx, model, set, 0.01, steps, &out));
  pbArrays_Destroy(set);
  return out;
}

static void no_controls(const char *csv, long steps, const char *message) {
  pbArrays *set = parse(csv), *out = NULL;
  refused(pbRecording_Controls(ctx, model, set, 0.01, steps, &out), message);
  pbArrays_Destroy(set);
}

static void test_controls(void **state) {
  (void)state;
  // in any order, among others, a row a step
  pbArrays *out = controls("valve,x,knee [N m]\n1,9,2\n3,9,4\n5,9,6\n", 0);
  const pbArray *a = pbArrays_Find(out, "control");
  assert_true(a->ndim == 2 && a->shape[0] == 3 && a->shape[1] == 2);
  assert_memory_equal(a->reals, ((double[]){2, 1, 4, 3, 6, 5}), 6 * sizeof(double));
  pbArrays_Destroy(out);

  // at other times, each held until its next
  out = controls("time [ms],knee,valve\n0,1,5\n20,3,\n25,,7\n40,,\n", 0);
  a = pbArrays_Find(out, "control");
  assert_int_equal(a->shape[0], 5);
  static const double expected[] = {1, 5, 1, 5, 3, 6, 3, 7, 3, 7};
  for (int i = 0; i < 10; i++) assert_near(a->reals[i], expected[i], 1e-12);
  pbArrays_Destroy(out);

  // one row is for all steps
  out = controls("knee,valve\n1,2\n", 0);
  a = pbArrays_Find(out, "control");
  assert_true(a->ndim == 1 && a->count == 2 && a->reals[1] == 2);
  pbArrays_Destroy(out);

  // as many steps as are asked for, within reach of the recording
  out = controls("time,knee,valve\n0,1,5\n0.02,3,1\n", 2);
  assert_int_equal(pbArrays_Find(out, "control")->shape[0], 2);
  pbArrays_Destroy(out);
}

static void test_controls_that_are_refused(void **state) {
  (void)state;
  pbModel *passive = model_of_text(ctx, "<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>");
  pbArrays *set = parse("a\n1\n"), *out = NULL;
  refused(pbRecording_Controls(ctx, passive, set, 0.01, 0, &out), "log.csv: the model has no controls");
  pbArrays_Destroy(set);
  pbModel_Destroy(passive);

  no_controls("knee\n1\n2\n", 0,
              "no column is the control of actuator 'valve': looked for 'control:valve', 'control:valve:0', 'valve'");
  no_controls("knee,valve\n1,2\n,3\n", 0,
              "log.csv:3: column 1 'knee': a missing sample; controls without times have one in each row");
  no_controls("time,knee,valve\n0,,2\n1,,3\n", 0, "log.csv:2: column 2 'knee': a missing sample; the column has none at all");
  no_controls("time,knee,valve\n0,1,2\n0.02,1,3\n", 100, "the controls end at 0.02 s; the trajectory has 100 steps, to 1 s");
  no_controls("time,knee,valve\n12,1,2\n12.02,1,3\n", 0, "the controls begin at 12 s, the trajectory at 0");
  no_controls("time,knee,valve\n1700000000,1,2\n1700000001,1,3\n", 0, "which is no time of a run in steps of 0.01 s");
  no_controls("time,knee,valve\n-2,1,2\n-1,1,3\n", 0, "which is no time of a run");
}

// ---- states -----------------------------------------------------------------------------------------------------------
static void test_states(void **state) {
  (void)state;
  double x[64] = {0}, before[64];
  good(ctx, pbState_Init(ctx, model, pbModel_DefaultParams(model), -1, x));
  memcpy(before, x, sizeof x);

  pbArrays *set = parse("time,qpos:rail [cm],knee [deg],root.vy,qvel:rail,act:valve,other\n0,1,2,3,4,5,\n0.5,10,180,7,8,9,nan\n");
  good(ctx, pbRecording_State(ctx, model, set, 1, x));
  pbArrays_Destroy(set);
  for (int i = 0; i < pbModel_StateFieldCount(model); i++) {
    pbStateField f = pbModel_StateFieldAt(model, i);
    double *at = before + f.offset;
    if (strcmp(f.name, "qpos") == 0) {
      at[11] = 3.14159265358979323846;
      at[12] = 0.1;
    }
    if (strcmp(f.name, "qvel") == 0) {
      at[1] = 7;
      at[10] = 8;
    }
    if (strcmp(f.name, "act") == 0) at[0] = 9;
    if (strcmp(f.name, "time") == 0) at[0] = 0.5;
  }

  // what the file lacks stays
  assert_memory_equal(x, before, (size_t)pbModel_StateSize(model) * sizeof *x);
}

static void test_trajectories(void **state) {
  (void)state;
  double x[64] = {0};
  pbArrays *out = NULL, *set = parse("knee [deg],qvel:rail\n180,1\n,2\n-180,\n");
  good(ctx, pbState_Init(ctx, model, pbModel_DefaultParams(model), -1, x));
  good(ctx, pbRecording_Trajectory(ctx, model, set, 0.01, x, &out));
  const double pi = 3.14159265358979323846, *time = pbArrays_Reals(out, "time", 3), *qpos = pbArrays_Reals(out, "qpos", 39),
               *qvel = pbArrays_Reals(out, "qvel", 33);
  assert_int_equal(pbArrays_Count(out), 3);
  assert_true(time && qpos && qvel && time[2] == 0.02);
  assert_true(qpos[11] == pi && qpos[13 + 11] == pi && qpos[26 + 11] == -pi && qpos[3] == 1 && qpos[29] == 1);
  assert_true(qvel[10] == 1 && qvel[21] == 2 && qvel[32] == 2);
  pbArrays_Destroy(out);
  pbArrays_Destroy(set);

  set = parse("time,elbow\n0,1\n");
  refused(pbRecording_Trajectory(ctx, model, set, 0.01, x, &out), "log.csv: no column is a position, velocity or activation");
  pbArrays_Destroy(set);
}

static void no_state(const char *csv, const char *message) {
  double x[64], before[64];
  for (int i = 0; i < 64; i++) before[i] = x[i] = i;
  pbArrays *set = parse(csv);
  refused(pbRecording_State(ctx, model, set, 0, x), message);
  assert_memory_equal(x, before, sizeof x);
  pbArrays_Destroy(set);
}

static void test_states_that_are_refused(void **state) {
  (void)state;
  no_state("time,elbow\n0,1\n", "log.csv: no column is a position, velocity or activation of this model");
  no_state("knee,qvel:rail\n1,\n", "log.csv:2: column 2 'qvel:rail': a missing sample; a state has all of its numbers");
  no_state("root.qw,root.qx\n1,0\n", "no column is the qpos of joint 'root': looked for 'qpos:root.qy'");
  no_state("root.qz,root.qx,root.qy\n1,0,0\n", "looked for 'qpos:root.qw'");
  no_state("rail\n1\n", "joint and sensor have this name");
}

// ---- poses ------------------------------------------------------------------------------------------------------------
static void test_poses(void **state) {
  (void)state;
  pbArrays *out = NULL, *set = parse("time,hand.x [mm],hand.y,hand.z\n0,1,2,3\n0.01,4,5,6\n");
  good(ctx, pbRecording_Poses(ctx, model, set, 0.01, &out));
  const pbArray *a = pbArrays_Find(out, "mocap_pos");
  assert_int_equal(pbArrays_Count(out), 1);
  assert_true(a->ndim == 3 && a->shape[0] == 2 && a->shape[1] == 1 && a->shape[2] == 3);
  assert_memory_equal(a->reals, ((double[]){0.001, 2, 3, 0.004, 5, 6}), 6 * sizeof(double));
  pbArrays_Destroy(out);

  refused(pbRecording_Poses(ctx, model, set, 0.02, &out),
          "log.csv:3: column 1 'time': 0.01 s; poses have a row for each step, of 0.02 s here");
  pbArrays_Destroy(set);

  set = parse("hand.x,hand.y\n0,1\n");
  refused(pbRecording_Poses(ctx, model, set, 0.01, &out),
          "no column is the mocap_pos of mocap body 'hand': looked for 'mocap_pos:hand.z'");
  pbArrays_Destroy(set);
  set = parse("a,b\n0,1\n");
  refused(pbRecording_Poses(ctx, model, set, 0.01, &out), "no column is the mocap_pos of mocap body 'hand'");
  pbArrays_Destroy(set);
  set = parse("hand.x,hand.y,hand.z\n0,1,\n");
  refused(pbRecording_Poses(ctx, model, set, 0.01, &out), "log.csv:2: column 3 'hand.z': a missing sample");
  pbArrays_Destroy(set);
}

static void test_memory_that_is_not_there(void **state) {
  (void)state;
  for (long n = 1;; n++) {
    Meter meter = {.fail_at = n};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *own = pbContext_Create(&hooks);
    pbArrays *set = NULL, *out = NULL;
    static const char csv[] = "time,knee,valve\n0,1,5\n0.02,3,1\n";
    pbStatus status = own ? pbArrays_Parse(own, csv, strlen(csv), "log.csv", &set) : pb_no_memory;
    if (status == pb_ok) status = pbRecording_Controls(own, model, set, 0.01, 0, &out);
    assert_true(status == pb_ok || status == pb_no_memory);
    pbArrays_Destroy(out);
    pbArrays_Destroy(set);
    pbContext_Destroy(own);
    assert_int_equal(meter.live, 0);
    if (!meter.failed) return;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_names),
                                     cmocka_unit_test(test_a_word_in_front_rules),
                                     cmocka_unit_test(test_names_of_several_things),
                                     cmocka_unit_test(test_units_that_do_not_fit),
                                     cmocka_unit_test(test_missing_columns_are_told),
                                     cmocka_unit_test(test_times),
                                     cmocka_unit_test(test_controls),
                                     cmocka_unit_test(test_controls_that_are_refused),
                                     cmocka_unit_test(test_states),
                                     cmocka_unit_test(test_trajectories),
                                     cmocka_unit_test(test_states_that_are_refused),
                                     cmocka_unit_test(test_poses),
                                     cmocka_unit_test(test_memory_that_is_not_there)};
  return cmocka_run_group_tests(tests, open_model, close_model);
}
