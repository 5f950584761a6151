// What is left of a run: names of its files, and the trajectories of its answer.
// Tests: tests/unit/test_describe.c, tests/oracle/test_task_run.py, tests/python/test_commands.py.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <pullback/control.h>
#include <pullback/trajectory.h>

#include "base/context.h"
#include "optimize/task.h"

const char *pbRun_Say(const pbProgress *progress, char *text, size_t size) {
  // before the first evaluation there is no loss to show
  if (strcmp(progress->phase, "starts") == 0) snprintf(text, size, "searches");
  else if (isfinite(progress->value)) snprintf(text, size, "loss %.6g", progress->value);
  else snprintf(text, size, "first evaluation");
  return text;
}

bool pbRun_IsStream(const char *output) {
  static const char *const descriptors[] = {"/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/"};
  struct stat about;
  for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++) {
    if (strncmp(output, descriptors[i], strlen(descriptors[i])) == 0) return true;
  }
  return stat(output, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode);
}

pbStatus pbRun_FileName(pbContext *ctx, const char *output, const char *task, const char *ending, char *path, size_t size) {
  static const char *const suffixes[] = {".npz", ".json", ".html"};
  const char *from = output ? output : task;
  if (!output && strrchr(from, '/')) from = strrchr(from, '/') + 1;
  if (output && pbRun_IsStream(output))
    return pbContext_Fail(ctx, pb_bad_argument,
                          "-o %s: expected the name of a file, beside which others are written, found a pipe or device", output);

  size_t length = strlen(from);
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    size_t m = strlen(suffixes[i]);
    if (length <= m || strcmp(from + length - m, suffixes[i]) != 0) continue;
    length -= m;
    break;
  }
  if (!length || length + strlen(ending) >= size)
    return pbContext_Fail(ctx, pb_bad_argument, "-o: the name of the output is too long or empty");

  snprintf(path, size, "%.*s%s", (int)length, from, ending);
  return pb_ok;
}

// ---- a trajectory -----------------------------------------------------------------------------------------------------
typedef struct Answer {
  pbContext *ctx;
  pbTask *task;
  const double *z;
  int trajectory;
  double *theta, *x0, *control, *pos, *quat, *before, *velocity;
  pbSimulation s;
} Answer;

static bool take(Answer *a, size_t count, double **out) {
  *out = pbContext_Alloc(a->ctx, count * sizeof **out);
  return *out;
}

static pbStatus no_memory(const Answer *a) { return pbContext_Fail(a->ctx, pb_no_memory, "out of memory"); }

// Poses of mocap bodies, where they are not the model's.
static pbStatus keep_poses(Answer *a) {
  bool given = false;

  // whether there are any, before there is memory for them
  PB_TRY(pbTask_Poses(a->task, a->z, a->trajectory, NULL, NULL, &given));
  if (!given) return pb_ok;

  size_t bodies = (size_t)pbModel_Size(a->s.model, "nmocap"), numbers = (size_t)a->s.steps * bodies;
  if (!take(a, 3 * numbers, &a->pos) || !take(a, 4 * numbers, &a->quat)) return no_memory(a);
  PB_TRY(pbTask_Poses(a->task, a->z, a->trajectory, a->pos, a->quat, &given));
  a->s.input.mocap_pos = a->pos;
  a->s.input.mocap_quat = a->quat;

  // how they move: as given, or as follows from where the bodies were
  if (!take(a, 7 * bodies, &a->before) || !take(a, 6 * numbers, &a->velocity)) return no_memory(a);
  if (pbTask_PoseMotion(a->task, a->trajectory, a->before, a->before + 3 * bodies, a->velocity)) {
    a->s.input.mocap_vel = a->velocity;
  } else {
    a->s.input.mocap_pos_before = a->before;
    a->s.input.mocap_quat_before = a->before + 3 * bodies;
  }
  return pb_ok;
}

// Feedback along a plan: what iLQR found beside its controls.
static pbStatus add_gains(const Answer *a, pbArrays *set) {
  const pbModel *m = a->s.model;
  size_t shape[] = {(size_t)a->s.steps, (size_t)pbModel_Size(m, "nu"), (size_t)pbModel_TangentSize(m)};
  double *gain;
  if (!a->task->has_gains || pbTask_IsTest(a->task, a->trajectory)) return pb_ok;

  PB_TRY(pbArrays_AddReals(set, "gain", 3, shape, NULL, &gain));
  return pbTask_Gains(a->task, a->z, a->trajectory, gain);
}

// What constraints pull with at the answer.
static pbStatus add_multipliers(const Answer *a, pbArrays *set) {
  const pbTrajectory *tr = &a->task->trajectories[a->trajectory];
  int first = 0;

  // terms are numbered through all trajectories
  for (int t = 0; t < a->trajectory; t++) first += a->task->trajectories[t].terms.count;

  for (int i = 0; i < tr->terms.count; i++) {
    size_t shape[2];
    char name[400];
    const double *found = pbTask_Multipliers(a->task, first + i, &shape[0], &shape[1]);
    if (!found) continue;

    // terms of one name are told apart
    int same = 1;
    snprintf(name, sizeof name, "multiplier/%.300s", tr->terms.terms[i].name);
    size_t length = strlen(name);
    while (pbArrays_Find(set, name)) snprintf(name + length, sizeof name - length, "#%d", ++same);
    double *to;
    PB_TRY(pbArrays_AddReals(set, name, 2, shape, NULL, &to));
    memcpy(to, found, shape[0] * shape[1] * sizeof *to);
  }

  return pb_ok;
}

static pbStatus simulate(Answer *a, pbArrays *set, pbStepNotes *notes) {
  const pbModel *m = a->s.model;
  size_t nx = (size_t)pbModel_StateSize(m), controls = (size_t)a->s.steps * (size_t)pbModel_Size(m, "nu");
  if (!take(a, pbModel_ParamSize(m), &a->theta) || !take(a, nx, &a->x0) || !take(a, controls, &a->control)) return no_memory(a);

  // parameters, initial state and controls at the answer
  PB_TRY(pbTask_Expand(a->task, a->z, a->trajectory, a->theta, a->x0, a->control));
  a->s.theta = a->theta;
  a->s.x0 = a->x0;
  a->s.input.ctrl = a->control;
  PB_TRY(keep_poses(a));
  PB_TRY(pbSimulation_Run(a->ctx, &a->s, set, notes));

  PB_TRY(add_multipliers(a, set));

  return add_gains(a, set);
}

pbStatus pbTask_Simulate(pbContext *ctx, pbTask *task, const pbTaskAnswer *answer, pbArrays *set, pbStepNotes *notes) {
  Answer a = {.ctx = ctx, .task = task, .z = answer->z, .trajectory = answer->trajectory};
  a.s = (pbSimulation){.model = pbTask_Model(task),
                       .steps = pbTask_Steps(task, answer->trajectory),
                       .command = "optimize",
                       .path = answer->path,
                       .trajectory = -1,
                       .recompute = strcmp(pbTask_Constants(task), "recompute") == 0,
                       .progress = answer->progress,
                       .user = answer->user};
  *notes = pbStepNotes_None();
  pbStatus status = simulate(&a, set, notes);

  double *memory[] = {a.theta, a.x0, a.control, a.pos, a.quat, a.before, a.velocity};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) pbContext_Free(ctx, memory[i]);
  return status;
}
