// What acts on the worlds of a training step by step: commands of their policies, and poses of mocap bodies, which go along the
// path of the trajectory that an episode begins from and stay at its last row. Tests: tests/oracle/test_train.py.
#include <string.h>

#include "base/assert.h"
#include "learn/train.h"

// ---- paths ------------------------------------------------------------------------------------------------------------
pbStatus pbTrain_GivePoses(pbTrain *t, size_t *numbers) {
  bool models = true;
  for (int i = 0; i < t->task->trajectory_count; i++) models &= pbPoses_AreModels(t->task, &t->task->trajectories[i]);

  // where one has poses, those of the others are written out
  *numbers = models ? 0 : 13 * (size_t)t->model->nmocap;
  if (models) return pb_ok;
  for (int i = 0; i < t->task->trajectory_count; i++) PB_TRY(pbPoses_Give(t->task, &t->task->trajectories[i], -1));
  return pb_ok;
}

// All in turn, so that a few episodes see each of them.
const pbTrajectory *pbTrain_Trajectory(const pbTrain *t, uint64_t a, uint64_t b) {
  return &t->task->trajectories[(a + b) % (uint64_t)t->task->trajectory_count];
}

static size_t row_at(const pbTrajectory *tr, long row) {
  long last = tr->steps > 0 ? tr->steps - 1 : 0;
  return (size_t)(row < last ? row : last);
}

// Copies one row of a path.
static void copy_row(const pbTrain *t, const pbTrajectory *tr, long row, double *pos, double *quat) {
  size_t n = (size_t)t->model->nmocap, from = row_at(tr, row);
  memcpy(pos, tr->poses.pos + from * 3 * n, 3 * n * sizeof *pos);
  memcpy(quat, tr->poses.quat + from * 4 * n, 4 * n * sizeof *quat);
}

// How they move there, as a rollout of the trajectory alone has it; beyond its end they rest. A jump that no step allows is told
// when the task is run.
static void copy_rate(const pbTrain *t, const pbTrajectory *tr, long row, double *velocity) {
  size_t n = (size_t)t->model->nmocap;
  long last = tr->steps > 0 ? tr->steps - 1 : 0;
  memset(velocity, 0, 6 * n * sizeof *velocity);
  if (row > last) return;

  pbPoses_RateAt(t->task, tr, (size_t)row, velocity);
}

void pbTrain_SetPath(pbTrain *t, int lane, const pbTrajectory *tr, long row, int first) {
  size_t n = (size_t)t->model->nmocap;
  PB_ASSERT(lane >= 0 && lane < t->lanes && row >= 0);
  if (!t->pose_pos) return;

  for (int step = first; step < t->steps; step++) {
    size_t at = (size_t)lane * (size_t)t->steps + (size_t)step;
    copy_row(t, tr, row + step - first, t->pose_pos + at * 3 * n, t->pose_quat + at * 4 * n);
    copy_rate(t, tr, row + step - first, t->pose_vel + at * 6 * n);
  }
}

bool pbTrain_EvaluationPath(const pbTrain *train, int start, int steps, double *pos, double *quat, double *vel) {
  PB_ASSERT(train->now && start >= 0 && steps >= 0);
  const pbTrajectory *tr = pbTrain_Trajectory(train, (uint64_t)start, 0);
  size_t n = (size_t)train->model->nmocap;
  if (!train->pose_pos) return false;

  for (int k = 0; k < steps; k++) {
    copy_row(train, tr, k, pos + (size_t)k * 3 * n, quat + (size_t)k * 4 * n);
    copy_rate(train, tr, k, vel + (size_t)k * 6 * n);
  }
  return true;
}

// ---- inputs -----------------------------------------------------------------------------------------------------------
pbBatchInput pbTrain_Inputs(const pbTrain *t, const double *ctrl) {
  return (pbBatchInput){.ctrl = ctrl,
                        .xfrc = t->xfrc,
                        .command = t->ncommand ? t->command_steps : NULL,
                        .mocap_pos = t->pose_pos,
                        .mocap_quat = t->pose_quat,
                        .mocap_vel = t->pose_vel};
}

pbInput pbTrain_Input(const pbTrain *t, int w, int k) {
  bool end = k >= t->settings.window;
  size_t step = (size_t)(end ? t->steps - 1 : k * t->every), at = (size_t)w * (size_t)t->steps + step,
         n = (size_t)t->model->nmocap;

  pbInput input = {.command = t->command_steps + at * (size_t)t->ncommand};
  if (t->pose_pos) input.mocap_pos = t->pose_pos + at * 3 * n;
  if (t->pose_quat) input.mocap_quat = t->pose_quat + at * 4 * n;
  if (t->pose_vel) input.mocap_vel = t->pose_vel + at * 6 * n;
  return input;
}
