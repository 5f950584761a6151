// Recordings in CSV in tasks: targets, controls, states and poses by names of columns, and every way in which they are refused.
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
#include <pullback/optimize.h>

#include "optimize/task.h"
#include "support/meter.h"
#include "support/support.h"

#define MODEL                                                                                                         \
  "\"model\": \"<mujoco><option timestep='0.01'/><worldbody><body name='hand' mocap='true'><geom size='.01'/></body>" \
  "<body name='torso'><freejoint name='root'/><geom size='.1'/><site name='tip' pos='.1 0 0'/>"                       \
  "<body name='leg' pos='0 0 1'><joint name='knee' axis='0 1 0'/><geom size='.1'/>"                                   \
  "<body name='foot'><joint name='rail' type='slide'/><geom size='.1'/></body></body></body></worldbody>"             \
  "<actuator><motor name='motor' joint='knee'/><motor name='push' joint='rail'/></actuator>"                          \
  "<sensor><jointpos name='rail' joint='rail'/><gyro name='imu' site='tip'/></sensor></mujoco>\""

typedef struct Fixture {
  pbContext *ctx;
  char folder[64], path[96];
} Fixture;

static int set_up(void **state) {
  Fixture *f = calloc(1, sizeof *f);
  f->ctx = pbContext_Create(NULL);
  strcpy(f->folder, "/tmp/pullback-csv-XXXXXX");
  if (!mkdtemp(f->folder)) return 1;
  snprintf(f->path, sizeof f->path, "%s/log.csv", f->folder);
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  Fixture *f = *state;
  unlink(f->path);
  int left = rmdir(f->folder);
  pbContext_Destroy(f->ctx);
  free(f);
  return left;
}

static void write_log(const Fixture *f, const char *csv) {
  FILE *stream = fopen(f->path, "w");
  assert_non_null(stream);
  assert_true(fputs(csv, stream) >= 0 && fclose(stream) == 0);
}

static pbStatus parse(pbContext *ctx, const Fixture *f, const char *rest, pbTask **task) {
  char text[4000];
  int n = snprintf(text, sizeof text, "{%s, %s%s}", MODEL,
                   strstr(rest, "variables") ? "" : "\"variables\": [{\"parameter\": \"gravity:2\"}], ", rest);
  assert_true(n > 0 && (size_t)n < sizeof text);
  return pbTask_Parse(ctx, text, strlen(text), f->folder, "task.json", task);
}

static pbTask *read_task(const Fixture *f, const char *csv, const char *rest) {
  pbTask *task = NULL;
  write_log(f, csv);
  good(f->ctx, parse(f->ctx, f, rest, &task));
  return task;
}

static void refused(const Fixture *f, const char *csv, const char *rest, const char *message) {
  pbTask *task = NULL;
  write_log(f, csv);
  pbStatus status = parse(f->ctx, f, rest, &task);
  if (status != pb_bad_input || !strstr(pbContext_Error(f->ctx), message))
    fail_msg("found '%s' (%s), expected '%s'", pbContext_Error(f->ctx), pbStatus_Text(status), message);
}

// ---- targets ----------------------------------------------------------------------------------------------------------
// The target of the only term, of so many steps and numbers.
static void has_target(const Fixture *f, const char *csv, const char *term, int steps, int width, const double *expected) {
  char rest[1000];
  snprintf(rest, sizeof rest, "\"steps\": 4, \"loss\": [%s]", term);
  pbTask *task = read_task(f, csv, rest);
  const pbTerm *t = &task->trajectories[0].terms.terms[0];
  assert_int_equal(t->step_count, steps);
  assert_int_equal(t->target_width, width);
  assert_int_equal(t->target_rows, steps);
  for (int i = 0; i < steps * width; i++) assert_near(t->target[i], expected[i], 1e-15);
  pbTask_Destroy(task);
}

#define DEGREE 0.017453292519943295

static void test_targets(void **state) {
  const Fixture *f = *state;
  static const char log[] =
      "time [ms],other,knee [deg],qvel:knee,root.x "
      "[mm],root.y,root.z,imu.x,imu.y,imu.z,root.vz,sensor:rail,site:tip.x,site:tip.z\n"
      "0,9,1,2,3,4,5,6,7,8,9,10,11,12\n20,9,2,3,4,5,6,7,8,9,10,11,12,13\n";
  has_target(f, log, "{\"qpos\": \"knee\", \"target\": {\"file\": \"log.csv\"}}", 2, 1, (double[]){DEGREE, 2 * DEGREE});
  has_target(f, log, "{\"qvel\": \"knee\", \"target\": {\"file\": \"log.csv\"}}", 2, 1, (double[]){2, 3});
  has_target(f, log, "{\"sensor\": [\"imu\", \"rail\"], \"target\": {\"file\": \"log.csv\"}}", 2, 4,
             (double[]){6, 7, 8, 10, 7, 8, 9, 11});

  // chosen components need their columns alone; the others are never looked at
  has_target(f, log, "{\"qpos\": \"root\", \"components\": [2, 0], \"target\": {\"file\": \"log.csv\"}}", 2, 7,
             (double[]){0.003, 0, 5, 0, 0, 0, 0, 0.004, 0, 6, 0, 0, 0, 0});
  has_target(f, log, "{\"qvel\": \"root\", \"components\": [2], \"target\": {\"file\": \"log.csv\"}}", 2, 6,
             (double[]){0, 0, 9, 0, 0, 0, 0, 0, 10, 0, 0, 0});
  has_target(f, log, "{\"site\": \"tip\", \"components\": [0, 2], \"target\": {\"file\": \"log.csv\"}, \"at\": [0.02]}", 1, 3,
             (double[]){12, 0, 13});

  // by names that are none of the model's
  has_target(
      f, log,
      "{\"body\": \"leg\", \"components\": [1, 2], \"target\": {\"file\": \"log.csv\", \"columns\": [\"root.x\", \"other\"]}}", 2,
      3, (double[]){0, 0.003, 9, 0, 0.004, 9});

  // a clock of its own, rows before the beginning, another name of the time
  has_target(f, "clock [s],knee\n99,7\n100,1\n100.01,2\n",
             "{\"qpos\": \"knee\", \"target\": {\"file\": \"log.csv\", \"time\": \"clock\", \"start\": 100}}", 2, 1,
             (double[]){1, 2});

  // rows without times are states
  has_target(f, "knee\n1\n2\n3\n4\n5\n", "{\"qpos\": \"knee\", \"target\": {\"file\": \"log.csv\"}}", 5, 1,
             (double[]){1, 2, 3, 4, 5});
  has_target(f, "control:push\n1\n2\n3\n4\n", "{\"control\": \"push\", \"target\": {\"file\": \"log.csv\"}}", 5, 1,
             (double[]){1, 2, 3, 4, 4});

  // quaternions have all four, of any length
  has_target(f, "time,root.qw,root.qx,root.qy,root.qz\n0,2,0,0,0\n",
             "{\"qpos\": \"root\", \"components\": [3, 4, 5], \"target\": {\"file\": \"log.csv\"}}", 1, 7,
             (double[]){0, 0, 0, 1, 0, 0, 0});
}

static void test_targets_that_are_refused(void **state) {
  const Fixture *f = *state;
#define TERM(what, more) "\"steps\": 4, \"loss\": [{" what ", \"target\": {\"file\": \"log.csv\"" more "}}]"
  refused(f, "time,elbow,hip\n0,1,2\n", TERM("\"qpos\": \"knee\"", ""), "loss[0].target: ");
  refused(f, "time,elbow,hip\n0,1,2\n", TERM("\"qpos\": \"knee\"", ""),
          "log.csv: no column is the qpos of joint 'knee': looked for 'qpos:knee', 'qpos:knee:0', 'knee', 'knee:0'; its columns "
          "are time, elbow, hip");
  refused(f, "time,rail\n0,1\n", TERM("\"qpos\": \"rail\"", ""), "log.csv:1: column 2 'rail': joint and sensor have this name");
  refused(f, "time,knee [m]\n0,1\n", TERM("\"qpos\": \"knee\"", ""), "log.csv:1: column 2 'knee': units do not fit");
  refused(f, "time,a [m]\n0,1\n", TERM("\"qpos\": \"knee\"", ", \"columns\": [\"a\"]"), "column 2 'a': units do not fit");
  refused(f, "time,knee\n0,\n0.01,\n", TERM("\"qpos\": \"knee\"", ""), "loss[0].target: every sample is missing");
  refused(f, "time,a\n0,1\n", TERM("\"qpos\": \"knee\"", ", \"columns\": [null]"), "loss[0].target: every sample is missing");
  refused(f, "time,a\n0,1\n", TERM("\"qpos\": \"knee\"", ", \"columns\": [\"b\"]"), "loss[0].target.columns[0]: ");
  refused(f, "time,a\n0,1\n", TERM("\"qpos\": \"knee\"", ", \"columns\": [\"b\"]"), "has no column 'b'; its columns are time, a");
  refused(f, "time,a\n0,1\n", TERM("\"qpos\": \"knee\"", ", \"columns\": [\"a\", \"a\"]"), "expected a list of 1 names");
  refused(f, "time,a\n0,1\n", TERM("\"qpos\": \"knee\"", ", \"columns\": [1]"), "expected names of columns");
  refused(f, "time,knee\n0,1\n", TERM("\"qpos\": \"knee\"", ", \"array\": \"knee\""),
          "loss[0].target.array: columns of a CSV are found by names");
  refused(f, "knee\n1\n", TERM("\"qpos\": \"knee\"", ", \"start\": 1"),
          "loss[0].target.start: the recording has no array 'time' of times");
  refused(f, "time,knee\n0,1\n", TERM("\"qpos\": \"knee\"", ", \"start\": 1"),
          "the recording, of times 0 to 0, has none from 1 to");
  refused(f, "time,knee\n0,1\n", TERM("\"qpos\": \"knee\"", ", \"time\": \"clock\""), "has no column 'clock'");
  refused(f, "time,knee\n0,1\n0,2\n", TERM("\"qpos\": \"knee\"", ""), "log.csv:3: column 1 'time': 0 s is not later");
  refused(f, "time,knee\n0,1\n0,x\n", TERM("\"qpos\": \"knee\"", ""), "log.csv:3: column 2 'knee': expected a number, found 'x'");
  refused(f, "root.qw,root.qx,root.qy\n1,0,0\n", TERM("\"qpos\": \"root\", \"components\": [3]", ""),
          "looked for 'qpos:root.qz'");
}

// ---- controls ---------------------------------------------------------------------------------------------------------
// (steps, 2) controls of a task whose "controls" have this behind the file.
static void has_controls(const Fixture *f, const char *csv, const char *more, const char *steps, int count,
                         const double *expected) {
  char rest[1000];
  snprintf(rest, sizeof rest, "%s\"loss\": [{\"qpos\": \"knee\"}], \"controls\": {\"file\": \"log.csv\"%s}", steps, more);
  pbTask *task = read_task(f, csv, rest);
  double ctrl[64];
  assert_int_equal(pbTask_Steps(task, 0), count);
  good(f->ctx, pbTask_Expand(task, pbTask_Start(task), 0, NULL, NULL, ctrl));
  for (int i = 0; i < 2 * count; i++) assert_near(ctrl[i], expected[i], 1e-12);
  pbTask_Destroy(task);
}

static void test_controls(void **state) {
  const Fixture *f = *state;

  // a row a step, in any order; one row for all
  has_controls(f, "push,other,motor [N m]\n1,9,2\n3,9,4\n", "", "", 2, (double[]){2, 1, 4, 3});
  has_controls(f, "push,motor\n1,2\n", "", "\"steps\": 3, ", 3, (double[]){2, 1, 2, 1, 2, 1});

  // at other times than the steps: held, or on lines, of which a step takes the mean
  static const char log[] = "time [ms],motor,push\n0,1,5\n15,3,\n20,,7\n40,5,\n";
  has_controls(f, log, "", "", 5, (double[]){1, 5, 2, 5, 3, 7, 3, 7, 5, 7});
  has_controls(f, log, ", \"interpolation\": \"linear\"", "\"steps\": 2, ", 2,
               (double[]){1 + 2 * 5.0 / 15, 5.5, 0.5 * (1 + 2 * 12.5 / 15) + 0.5 * (3 + 2 * 2.5 / 25), 6.5});

  // names that are no names of actuators; a clock of its own
  has_controls(f, "clock,a,b\n7,1,2\n7.01,3,4\n", ", \"columns\": [\"b\", \"a\"], \"time\": \"clock\", \"start\": 7", "", 2,
               (double[]){2, 1, 4, 3});
}

static void test_controls_that_come_late(void **state) {
  const Fixture *f = *state;
  static const char log[] = "motor,push\n3,0\n6,1\n-3,2\n0,3\n";
  has_controls(f, log, ", \"delay\": 0.01", "", 4, (double[]){3, 0, 3, 0, 6, 1, -3, 2});
  has_controls(f, log, ", \"delay\": 0.0025", "", 4, (double[]){3, 0, 5.25, 0.75, -0.75, 1.75, -0.75, 2.75});
  has_controls(f, log, ", \"delay\": -0.0025", "", 4, (double[]){3.75, 0.25, 3.75, 1.25, -2.25, 2.25, 0, 3});

  // of arrays, too
  pbArrays *set = NULL;
  char path[96];
  snprintf(path, sizeof path, "%s/u.npz", f->folder);
  good(f->ctx, pbArrays_Create(f->ctx, &set));
  good(f->ctx, pbArrays_AddReals(set, "control", 2, (size_t[]){3, 2}, (double[]){1, 2, 3, 4, 5, 6}, NULL));
  good(f->ctx, pbArrays_AddReals(set, "stamp", 1, (size_t[]){3}, (double[]){0, 0.02, 0.025}, NULL));
  good(f->ctx, pbArrays_SaveNpz(set, path, false));
  pbArrays_Destroy(set);

  pbTask *task = read_task(f, "", "\"loss\": [{\"qpos\": \"knee\"}], \"controls\": {\"file\": \"u.npz\", \"delay\": 0.005}");
  double ctrl[6];
  assert_int_equal(pbTask_Steps(task, 0), 3);
  good(f->ctx, pbTask_Expand(task, pbTask_Start(task), 0, NULL, NULL, ctrl));
  for (int i = 0; i < 6; i++) assert_near(ctrl[i], ((double[]){1, 2, 2, 3, 4, 5})[i], 1e-12);
  pbTask_Destroy(task);

  task = read_task(f, "", "\"loss\": [{\"qpos\": \"knee\"}], \"controls\": {\"file\": \"u.npz\", \"time\": \"stamp\"}");
  assert_int_equal(pbTask_Steps(task, 0), 3);
  good(f->ctx, pbTask_Expand(task, pbTask_Start(task), 0, NULL, NULL, ctrl));
  for (int i = 0; i < 6; i++) assert_near(ctrl[i], ((double[]){1, 2, 1, 2, 4, 5})[i], 1e-12);
  pbTask_Destroy(task);
  unlink(path);
}

static void test_controls_that_are_refused(void **state) {
  const Fixture *f = *state;
#define CONTROLS(steps, more) \
  "\"steps\": " steps ", \"loss\": [{\"qpos\": \"knee\"}], \"controls\": {\"file\": \"log.csv\"" more "}"
  refused(f, "j1,j2\n1,2\n", CONTROLS("1", ""), "controls: ");
  refused(f, "j1,j2\n1,2\n", CONTROLS("1", ""), "no column is the control of actuator 'motor': looked for 'control:motor'");
  refused(f, "motor,push\n1,2\n1,2\n", CONTROLS("3", ""), "controls: 2 rows of controls; the trajectory has 3 steps");
  refused(f, "time,motor,push\n0,1,2\n0.01,1,2\n", CONTROLS("30", ""),
          "log.csv: the controls end at 0.01 s; the trajectory has 30 steps, to 0.3 s");
  refused(f, "time,motor,push\n5,1,2\n5.01,1,2\n", CONTROLS("3", ""), "log.csv: the controls begin at 5 s, the trajectory at 0");
  refused(f, "motor,push\n1,2\n", CONTROLS("1", ", \"interpolation\": \"cubic\""),
          "controls.interpolation: expected \"hold\" or \"linear\", found 'cubic'");
  refused(f, "motor,push\n1,2\n", CONTROLS("1", ", \"columns\": [\"motor\"]"), "controls.columns: expected a list of 2 names");
  refused(f, "motor,push\n1,2\n", CONTROLS("1", ", \"columns\": [\"motor\", null]"), "controls.columns: entry 1 is no name");
  refused(f, "motor,push\n1,2\n", CONTROLS("1", ", \"columns\": [\"motor\", \"x\"]"),
          "has no column 'x'; its columns are motor, push");
  refused(f, "motor,push\n1,2\n", CONTROLS("1", ", \"delay\": 1e9"), "controls.delay: expected seconds, found 1e+09");
  refused(f, "motor,push\n1,2\n", CONTROLS("1", ", \"array\": \"u\""), "controls.array: columns of a CSV are found by the names");
  refused(f, "motor,push\n1,\n", CONTROLS("1", ""), "log.csv:2: column 2 'push': a missing sample");
}

// ---- states and poses -------------------------------------------------------------------------------------------------
static void test_states(void **state) {
  const Fixture *f = *state;
  static const char log[] = "time,qpos:rail [mm],qvel:knee,temperature\n0,1,2,3\n0.5,10,3,\n1,20,,5\n";
  double x[64];
  pbTask *task =
      read_task(f, log, "\"steps\": 1, \"loss\": [{\"qpos\": \"knee\"}], \"init\": {\"file\": \"log.csv\", \"row\": 1}");
  good(f->ctx, pbTask_Expand(task, pbTask_Start(task), 0, NULL, x, NULL));
  const pbTermSet *s = &task->trajectories[0].terms;
  assert_true(x[s->qpos_at + 8] == 0.01 && x[s->qvel_at + 6] == 3 && x[s->qpos_at + 3] == 1);
  pbTask_Destroy(task);

  // the last row, which has no velocity
  refused(f, log, "\"steps\": 1, \"loss\": [{\"qpos\": \"knee\"}], \"init\": {\"file\": \"log.csv\"}",
          "log.csv:4: column 3 'qvel:knee': a missing sample");
  refused(f, log, "\"steps\": 1, \"loss\": [{\"qpos\": \"knee\"}], \"init\": {\"file\": \"log.csv\", \"row\": 3}",
          "init.row: 3: the file has 3 rows");
  refused(f, "a\n1\n", "\"steps\": 1, \"loss\": [{\"qpos\": \"knee\"}], \"init\": {\"file\": \"log.csv\"}",
          "no column is a position, velocity or activation of this model");
}

static void test_poses(void **state) {
  const Fixture *f = *state;
  pbTask *task = read_task(f, "hand.x [cm],hand.y,hand.z\n1,2,3\n4,5,6\n",
                           "\"loss\": [{\"qpos\": \"knee\"}], \"mocap\": {\"file\": \"log.csv\"}");
  assert_int_equal(pbTask_Steps(task, 0), 2);
  for (int i = 0; i < 6; i++) assert_near(task->trajectories[0].poses.pos[i], ((double[]){0.01, 2, 3, 0.04, 5, 6})[i], 1e-15);
  pbTask_Destroy(task);
  refused(f, "arm.x\n1\n", "\"steps\": 1, \"loss\": [{\"qpos\": \"knee\"}], \"mocap\": {\"file\": \"log.csv\"}",
          "no column is the mocap_pos of mocap body 'hand'");
}

// ---- the delay as an unknown ------------------------------------------------------------------------------------------
#define DELAY_LOG "time,motor,push\n0,0.1,0.5\n0.013,-0.2,0.1\n0.02,0.5,-0.4\n0.041,0.05,0.3\n0.09,0.3,0.2\n"
#define DELAY_TASK(variables, more)                                                     \
  "\"steps\": 10, \"controls\": {\"file\": \"log.csv\"" more                            \
  "}, \"loss\": [{\"qvel\": [\"knee\", \"rail\"], \"at\": \"all\", \"target\": 0.01}, " \
  "{\"control\": true, \"at\": \"all\"}], \"variables\": [" variables "]"

static double loss_at(const Fixture *f, pbTask *task, double z, double *gradient) {
  double value;
  good(f->ctx, pbTask_Loss(task, &z, &value, gradient));
  return value;
}

// By five values on one side, to the fourth order.
static double one_sided(const Fixture *f, pbTask *task, double z, double d) {
  static const double weights[] = {-25, 48, -36, 16, -3};
  double sum = 0;
  for (int i = 0; i < 5; i++) sum += weights[i] * loss_at(f, task, z + i * d, NULL);
  return sum / (12 * d);
}

// Gradient and Jacobian by the delay against differences: with a row on the end of a step (towards longer delays), halfway, and
// 1e-12 beside it on either side.
static void test_slopes_by_the_delay(void **state) {
  const Fixture *f = *state;
  static const char *const more[] = {"", ", \"interpolation\": \"linear\""};
  static const struct {
    double delay, side;
  } cases[] = {{0, 1},     {1e-12, 1},         {0.003, 1},          {0.003, -1},
               {0.005, 1}, {0.007, 1},         {0.007 - 1e-12, -1}, {0.007 + 1e-12, 1},
               {0.01, 1},  {0.01 - 1e-12, -1}, {0.0173, 1}};
  for (int linear = 0; linear < 2; linear++) {
    char rest[1000];
    snprintf(rest, sizeof rest, DELAY_TASK("{\"delay\": \"controls\", \"upper\": 0.05}", "%s"), more[linear]);
    pbTask *task = NULL;
    write_log(f, DELAY_LOG);
    good(f->ctx, parse(f->ctx, f, rest, &task));
    size_t m = (size_t)pbTask_ResidualCount(task);
    double *r = zeros(m), *J = zeros(m), *later = zeros(m);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      double z = cases[i].delay, gradient, d = cases[i].side * 1e-8, there = z + d;
      loss_at(f, task, z, &gradient);
      assert_near(gradient, one_sided(f, task, z, cases[i].side * 2e-5), 1e-8 * fmax(1, fabs(gradient)));

      // each residual
      good(f->ctx, pbTask_Residuals(task, &z, r, J));
      good(f->ctx, pbTask_Residuals(task, &there, later, NULL));
      for (size_t k = 0; k < m; k++) assert_near(J[k], (later[k] - r[k]) / d, 1e-4 * (1 + fabs(J[k])));
    }

    free(r);
    free(J);
    free(later);
    pbTask_Destroy(task);
  }
}

// A run with a known delay, whose motion is the target: the delay is found.
static void test_a_delay_is_found(void **state) {
  const Fixture *f = *state;
  pbTask *task = NULL;
  char text[4000] = "time,motor,push,qvel:knee,qvel:rail\n";
  write_log(f, DELAY_LOG);
  good(f->ctx, parse(f->ctx, f, DELAY_TASK("{\"delay\": \"controls\", \"start\": 0.0137}", ""), &task));
  loss_at(f, task, pbTask_Start(task)[0], NULL);
  const pbTermSet *run = &task->trajectories[0].terms;
  for (int k = 0; k <= 10; k++) {
    const double *qvel = run->states + k * run->nx + run->qvel_at;
    sprintf(text + strlen(text), "%.17g,,,%.17g,%.17g\n", 0.01 * k, qvel[6], qvel[7]);
  }
  pbTask_Destroy(task);

  char path[96];
  snprintf(path, sizeof path, "%s/run.csv", f->folder);
  FILE *stream = fopen(path, "w");
  assert_true(stream && fputs(text, stream) >= 0 && fclose(stream) == 0);
  good(f->ctx,
       parse(f->ctx, f,
             "\"controls\": {\"file\": \"log.csv\"}, \"steps\": 10, \"variables\": [{\"delay\": \"controls\", \"upper\": 0.03}], "
             "\"loss\": [{\"qvel\": [\"knee\", \"rail\"], \"target\": {\"file\": \"run.csv\"}}], "
             "\"optimizer\": {\"method\": \"gauss-newton\"}",
             &task));
  pbRunResult result;
  good(f->ctx, pbTask_Run(task, NULL, &result));
  assert_near(result.z[0], 0.0137, 1e-8);
  pbTask_Destroy(task);
  unlink(path);
}

static void test_delays_beside_other_unknowns(void **state) {
  const Fixture *f = *state;
  pbTask *task = NULL;
  write_log(f, DELAY_LOG);
  good(f->ctx,
       parse(f->ctx, f, DELAY_TASK("{\"delay\": \"controls\", \"start\": 0.004}, {\"control\": \"push\", \"knots\": 2}", ""),
             &task));
  assert_int_equal(pbTask_Size(task), 3);

  // a control that is an unknown itself does not come later
  double z[3] = {0.004, 0.2, 0.3}, g[3], value, moved;
  good(f->ctx, pbTask_Loss(task, z, &value, g));
  for (int i = 0; i < 3; i++) {
    double at[3] = {z[0], z[1], z[2]};
    at[i] += 1e-7;
    good(f->ctx, pbTask_Loss(task, at, &moved, NULL));
    assert_near(g[i], (moved - value) / 1e-7, 1e-5 * (1 + fabs(g[i])));
  }
  pbTask_Destroy(task);

  // rows of the task, and of each of its trajectories
  good(f->ctx,
       parse(f->ctx, f,
             "\"steps\": 3, \"loss\": [{\"qvel\": \"rail\"}], \"trajectories\": [{\"controls\": [[0, 1], [0, 2], [0, 3]]}, {}], "
             "\"variables\": [{\"delay\": \"controls\", \"trajectory\": 0}, {\"delay\": \"controls\", \"trajectory\": 1, "
             "\"name\": \"b\"}]",
             &task));
  double both[2] = {0.005, 0.01}, ctrl[6];
  good(f->ctx, pbTask_Expand(task, both, 0, NULL, NULL, ctrl));
  for (int k = 0; k < 3; k++) assert_near(ctrl[2 * k + 1], ((double[]){1, 1.5, 2.5})[k], 1e-12);
  pbTask_Destroy(task);

  refused(f, DELAY_LOG, DELAY_TASK("{\"delay\": \"sensors\"}", ""),
          "variables[0].delay: no term of the loss is called 'sensors'");
  refused(f, DELAY_LOG, DELAY_TASK("{\"delay\": \"controls\"}, {\"delay\": \"controls\"}", ""),
          "varies what variables[0] ('delay') varies already");
  refused(f, DELAY_LOG, DELAY_TASK("{\"delay\": \"controls\", \"knots\": 2}", ""), "variables[0]: ");
  refused(f, DELAY_LOG, DELAY_TASK("{\"delay\": \"controls\", \"start\": -1}", ""), "outside of its bounds");
}

static void test_memory_that_is_not_there(void **state) {
  Fixture *f = *state;
  write_log(f, "time,knee,motor,push,qvel:rail,hand.x,hand.y,hand.z\n0,1,2,3,4,5,6,7\n0.01,2,3,4,5,6,7,8\n");
  for (long n = 1;; n++) {
    Meter meter = {.fail_at = n};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *own = pbContext_Create(&hooks);
    pbTask *task = NULL;
    pbStatus status =
        own ? parse(own, f,
                    "\"loss\": [{\"qpos\": \"knee\", \"target\": {\"file\": \"log.csv\"}}], \"init\": {\"file\": \"log.csv\"}, "
                    "\"mocap\": {\"file\": \"log.csv\"}, \"controls\": {\"file\": \"log.csv\", \"delay\": 0.003}",
                    &task)
            : pb_no_memory;
    if (status != pb_ok && status != pb_no_memory) fail_msg("%ld: %s", n, pbContext_Error(own));
    pbTask_Destroy(task);
    pbContext_Destroy(own);
    assert_int_equal(meter.live, 0);
    if (!meter.failed) return;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_targets, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_targets_that_are_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_controls, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_controls_that_come_late, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_controls_that_are_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_states, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_poses, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_slopes_by_the_delay, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_a_delay_is_found, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_delays_beside_other_unknowns, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_memory_that_is_not_there, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
