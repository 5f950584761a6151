// Trajectories that are cut into windows: each begins, is driven and is compared as the whole is at its time; what cannot be cut
// is refused with its place. States between the rows of a recording.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <pullback/optimize.h>
#include <pullback/rollout.h>

#include "optimize/task.h"
#include "support/support.h"

// A free body that turns, with a ball joint and a driven hinge on it.
#define MODEL                                                                                                  \
  "<mujoco><option timestep='0.01'/><worldbody><body name='trunk'><freejoint name='root'/><geom size='.1'/>"   \
  "<geom type='box' size='.1 .2 .3'/><body pos='0 0 .3'><joint name='neck' type='ball' damping='.1'/>"         \
  "<geom type='capsule' size='.05' fromto='0 0 0 .3 0 0'/><body pos='.3 0 0'><joint name='knee' axis='0 1 0' " \
  "damping='.2'/><geom type='capsule' size='.04' fromto='0 0 0 0 .1 .3'/></body></body></body></worldbody>"    \
  "<actuator><motor name='motor' joint='knee'/></actuator></mujoco>"
enum { STEPS = 60, EACH = 25 };

typedef struct Fixture {
  pbContext *ctx;
  char folder[64], path[96];
  pbModel *model;
  double x[STEPS + 1][200], ctrl[STEPS];
} Fixture;

static pbStateField field_of(const pbModel *m, const char *name) {
  for (int i = 0; i < pbModel_StateFieldCount(m); i++) {
    if (strcmp(pbModel_StateFieldAt(m, i).name, name) == 0) return pbModel_StateFieldAt(m, i);
  }
  return (pbStateField){0};
}

static void simulate(Fixture *f) {
  const pbModel *m = f->model;
  pbScratch *scratch;
  double *x = f->x[0];
  assert_true(pbModel_StateSize(m) <= 200);
  good(f->ctx, pbState_Init(f->ctx, m, pbModel_DefaultParams(m), -1, x));
  for (int i = 0; i < 10; i++) x[field_of(m, "qvel").offset + i] = 0.7 * sin(1 + 3 * i);
  good(f->ctx, pbScratch_Create(f->ctx, m, NULL, &scratch));
  for (int k = 0; k < STEPS; k++) {
    f->ctrl[k] = sin(0.2 * k);
    const pbInput input = {.ctrl = &f->ctrl[k]};
    memcpy(f->x[k + 1], f->x[k], sizeof f->x[k]);
    good(f->ctx, pbStep_Forward(m, pbModel_DefaultParams(m), f->x[k + 1], &input, scratch, NULL));
  }
  pbScratch_Destroy(scratch);
}

static int set_up(void **state) {
  Fixture *f = calloc(1, sizeof *f);
  f->ctx = pbContext_Create(NULL);
  f->model = model_of_text(f->ctx, MODEL);
  strcpy(f->folder, "/tmp/pullback-windows-XXXXXX");
  if (!mkdtemp(f->folder)) return 1;
  snprintf(f->path, sizeof f->path, "%s/log.csv", f->folder);
  simulate(f);
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  Fixture *f = *state;
  unlink(f->path);
  int left = rmdir(f->folder);
  pbModel_Destroy(f->model);
  pbContext_Destroy(f->ctx);
  free(f);
  return left;
}

// The motion by a clock that shows `clock` when it begins; velocities or none; each second quaternion with its other sign.
static void write_log(const Fixture *f, double clock, bool velocities) {
  FILE *stream = fopen(f->path, "w");
  assert_non_null(stream);
  fprintf(stream, "time,root.x,root.y,root.z,root.qw,root.qx,root.qy,root.qz,neck.qw,neck.qx,neck.qy,neck.qz,knee,control:motor");
  if (velocities) fprintf(stream, ",root.vx,root.vy,root.vz,root.wx,root.wy,root.wz,neck.wx,neck.wy,neck.wz,qvel:knee");
  for (int k = 0; k <= STEPS; k++) {
    const double *q = f->x[k] + field_of(f->model, "qpos").offset, *v = f->x[k] + field_of(f->model, "qvel").offset;
    fprintf(stream, "\n%.17g", clock + 0.01 * k);
    for (int i = 0; i < 12; i++) fprintf(stream, ",%.17g", i >= 3 && i < 11 && k % 2 ? -q[i] : q[i]);
    fprintf(stream, ",%.17g", f->ctrl[k < STEPS ? k : STEPS - 1]);
    int count = velocities ? 10 : 0;
    for (int i = 0; i < count; i++) fprintf(stream, ",%.17g", v[i]);
  }
  assert_int_equal(fclose(stream), 0);
}

static pbStatus parse(const Fixture *f, const char *rest, pbTask **task) {
  char text[8000];
  int n = snprintf(text, sizeof text, "{\"model\": \"" MODEL "\", %s%s}",
                   strstr(rest, "variables") ? "" : "\"variables\": [{\"parameter\": \"gravity:2\"}], ", rest);
  assert_true(n > 0 && (size_t)n < sizeof text);
  return pbTask_Parse(f->ctx, text, strlen(text), f->folder, "task.json", task);
}

static void refused(const Fixture *f, const char *rest, const char *message) {
  pbTask *task = NULL;
  pbStatus status = parse(f, rest, &task);
  if (status != pb_bad_input || !strstr(pbContext_Error(f->ctx), message))
    fail_msg("found '%s' (%s), expected '%s'", pbContext_Error(f->ctx), pbStatus_Text(status), message);
}

#define TERMS(start)                                                                               \
  "\"loss\": [{\"qpos\": [\"root\", \"neck\", \"knee\"], \"target\": {\"file\": \"log.csv\"" start \
  "}, \"sigma\": 0.1}, "                                                                           \
  "{\"qvel\": true, \"target\": {\"file\": \"log.csv\"" start "}}]"

// ---- windows ----------------------------------------------------------------------------------------------------------
// Of a log that the model made itself each window goes through the states of the whole: with controls and starts by the file, by
// rows of the task, and by a clock that does not begin at zero.
static void test_each_window_is_that_part_of_the_whole(void **state) {
  const Fixture *f = *state;
  char rows[2000] = "", rest[4000];
  for (int k = 0; k < STEPS; k++)
    snprintf(rows + strlen(rows), sizeof rows - strlen(rows), "%s[%.17g]", k ? ", " : "", f->ctrl[k]);

  for (int way = 0; way < 4; way++) {
    bool listed = way % 2, late = way >= 2;
    const char *start = late ? ", \"start\": 3" : "";
    char controls[3000];
    if (listed) snprintf(controls, sizeof controls, "[%s]", rows);
    else snprintf(controls, sizeof controls, "{\"file\": \"log.csv\", \"time\": \"time\"%s}", start);
    snprintf(
        rest, sizeof rest,
        "\"steps\": 60, \"window\": 0.25, \"init\": {\"recording\": {\"file\": \"log.csv\", \"at\": %d}}, \"controls\": %s, %s",
        late ? 3 : 0, controls, late ? TERMS(", \"start\": 3") : TERMS(""));
    write_log(f, late ? 3 : 0, true);

    pbTask *task;
    double loss, z = -9.81;
    good(f->ctx, parse(f, rest, &task));
    assert_int_equal(pbTask_TrajectoryCount(task), 3);
    const int steps[3] = {EACH, EACH, STEPS - 2 * EACH};
    for (int t = 0; t < 3; t++) {
      const pbTrajectory *tr = &task->trajectories[t];
      assert_int_equal(tr->steps, steps[t]);
      assert_int_equal(tr->terms.count, 2);
      for (int i = 0; i < 2; i++) assert_int_equal(tr->terms.terms[i].step_count, steps[t] + (t == 2));
      for (int k = 0; k < steps[t]; k++) assert_near(tr->ctrl[k], f->ctrl[t * EACH + k], 1e-9);
      for (int i = 0; i < 12; i++)
        assert_near(tr->x0[field_of(f->model, "qpos").offset + i],
                    f->x[t * EACH][field_of(f->model, "qpos").offset + i] * (i >= 3 && i < 11 && t % 2 ? -1 : 1), 1e-9);
    }
    good(f->ctx, pbTask_Loss(task, &z, &loss, NULL));
    assert_near(loss, 0, 1e-14);
    pbTask_Destroy(task);
  }
}

// In a list of trajectories, one cut by its own window, one by that of all, with starts and roles of their own.
static void test_lists(void **state) {
  const Fixture *f = *state;
  pbTask *task;
  write_log(f, 0, true);
  good(f->ctx, parse(f,
                     "\"duration\": 0.6, \"window\": 0.3, \"controls\": {\"file\": \"log.csv\", \"time\": \"time\"}, " TERMS(
                         "") ", \"init\": {\"file\": \"log.csv\", \"row\": 0}, \"variables\": [{\"parameter\": \"gravity:2\"}, "
                             "{\"state\": \"qvel\", \"trajectory\": \"each\", \"scale\": 2}], "
                             "\"trajectories\": [{\"cluster\": \"a\"}, {\"window\": 0.2, \"role\": \"test\"}, {\"steps\": 10, "
                             "\"cluster\": \"a\"}]",
                     &task));
  assert_int_equal(pbTask_TrajectoryCount(task), 2 + 3 + 1);
  const int clusters[6] = {0, 0, 1, 1, 1, 0};
  for (int t = 0; t < 6; t++) {
    assert_int_equal(task->trajectories[t].test, t >= 2 && t < 5);
    assert_int_equal(task->trajectories[t].cluster, clusters[t]);
  }
  assert_true(task->clustered);

  // velocities of those that are fitted
  assert_int_equal(pbTask_Size(task), 1 + 3 * 10);
  static const int of[3] = {0, 1, 5};
  for (int i = 0; i < 3; i++) {
    char expected[40];
    snprintf(expected, sizeof expected, "qvel@%d", of[i]);
    assert_string_equal(task->variables[1 + i].name, expected);
    assert_int_equal(task->variables[1 + i].trajectory, of[i]);
  }
  pbTask_Destroy(task);
}

// Windows are fitted: gravity and what the log does not show of where they begin, velocities, begun at the slopes of the log.
static void test_a_fit_by_windows(void **state) {
  const Fixture *f = *state;
  pbTask *task;
  pbRunResult result;
  write_log(f, 0, false);
  good(f->ctx,
       parse(f,
             "\"steps\": 60, \"window\": 0.1, \"controls\": {\"file\": \"log.csv\", \"time\": \"time\"}, "
             "\"init\": {\"recording\": {\"file\": \"log.csv\"}}, \"loss\": [{\"qpos\": true, \"target\": {\"file\": "
             "\"log.csv\"}}], "
             "\"variables\": [{\"parameter\": \"gravity:2\", \"start\": -8}, {\"state\": \"qvel\", \"trajectory\": \"each\"}], "
             "\"optimizer\": {\"method\": \"gauss-newton\"}",
             &task));
  good(f->ctx, pbTask_Run(task, NULL, &result));
  assert_near(result.z[0], -9.81, 1e-5);
  pbTask_Destroy(task);
}

// Slopes of what is on the lines between rows: of positions and of rotations in the body's frame; at ends of what there is.
static void test_velocities_of_a_start(void **state) {
  const Fixture *f = *state;
  write_log(f, 0, false);
  static const double at[3] = {0, 0.303, 0.6};
  for (int i = 0; i < 3; i++) {
    char rest[600];
    pbTask *task;
    snprintf(rest, sizeof rest,
             "\"steps\": 1, \"init\": {\"recording\": {\"file\": \"log.csv\", \"at\": %g}}, \"loss\": [{\"qpos\": \"knee\"}]",
             at[i]);
    good(f->ctx, parse(f, rest, &task));
    const double *x = task->trajectories[0].x0, *v = x + field_of(f->model, "qvel").offset;
    int k = (int)(at[i] / 0.01);
    for (int d = 0; d < 10; d++) {
      double now = f->x[k][field_of(f->model, "qvel").offset + d],
             after = k < STEPS ? f->x[k + 1][field_of(f->model, "qvel").offset + d] : now;
      assert_near(v[d], i == 1 ? 0.7 * now + 0.3 * after : now, i == 1 ? 0.08 : 0.4);
    }
    assert_near(x[field_of(f->model, "time").offset], 0, 0);
    pbTask_Destroy(task);
  }
}

// ---- what cannot be cut -----------------------------------------------------------------------------------------------
static void test_what_is_refused(void **state) {
  const Fixture *f = *state;
  write_log(f, 0, true);
  refused(f, "\"steps\": 60, \"window\": 0, " TERMS(""), "window: expected seconds above 0, found 0");
  refused(f, "\"steps\": 60, \"window\": \"0.2\", " TERMS(""), "window");
  refused(f, "\"window\": 0.2, " TERMS(""), "\"steps\" or \"duration\" is missing");
  refused(f, "\"steps\": 60, \"window\": 0.2, \"loss\": [{\"qpos\": \"knee\"}]", "window: windows begin as a recording shows");
  refused(f, "\"steps\": 60, \"window\": 0.2, \"loss\": [{\"qpos\": \"knee\", \"at\": 0.1}]", "loss[0].at");
  refused(f, "\"steps\": 60, \"window\": 0.2, \"loss\": [{\"qpos\": \"knee\", \"target\": [[1], [2]]}]", "loss[0].target");
  refused(f, "\"steps\": 60, \"window\": 0.2, \"controls\": [[1], [2]], " TERMS(""), "controls: 2 rows of controls");
  refused(f, "\"steps\": 60, \"window\": 0.2, \"mocap\": {}, " TERMS(""), "window: poses of mocap bodies");
  refused(f, "\"steps\": 6000, \"window\": 0.01, " TERMS(""), "more than 1000 trajectories");
  refused(f, "\"steps\": 60, \"init\": {\"recording\": {\"file\": \"log.csv\", \"row\": 1}}, " TERMS(""), "init.recording");
  refused(f, "\"steps\": 60, \"init\": {\"recording\": {\"file\": \"log.csv\", \"at\": 0, \"time\": \"clock\"}}, " TERMS(""),
          "has no column 'clock'");
  refused(f, "\"steps\": 60, \"init\": {\"qpos\": 0, \"at\": 0}, " TERMS(""), "init: unknown key 'at'");
  refused(f, "\"steps\": 60, \"trajectories\": [{\"cluster\": 0.5, " TERMS("") "}]",
          "cluster: expected a name or a whole number");
  refused(f, "\"steps\": 60, \"variables\": [{\"parameter\": \"gravity:2\", \"trajectory\": \"each\"}], " TERMS(""),
          "parameters belong to all trajectories");
  refused(f, "\"steps\": 60, \"variables\": [{\"state\": \"qvel\", \"trajectory\": \"all\"}], " TERMS(""), "trajectory");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_each_window_is_that_part_of_the_whole, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_lists, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_a_fit_by_windows, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_velocities_of_a_start, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_what_is_refused, set_up, tear_down)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
