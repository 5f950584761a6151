// Is the gradient at an answer noise? Asked once, when a search has ended: the motion of each trajectory beside what derivatives
// foresee of it (src/rollout/noise.c). Where little grows, two forward derivatives say so. Tests: tests/oracle/test_noise.py,
// validation/K110.py.
#include <math.h>

#include "base/assert.h"
#include "base/context.h"
#include "optimize/task.h"

static const pbNoise no_noise = {.time = INFINITY, .step = -1, .window = INFINITY};

// What cannot be run or differentiated says nothing about noise; no memory and an interruption are the caller's.
static bool is_soft(pbStatus status) { return status != pb_no_memory && status != pb_interrupted; }

static pbStatus look_at(pbTask *task, int t, pbNoise *noise) {
  pbTrajectory *tr = &task->trajectories[t];
  tr->worker = 0;

  // In the first world, as it is run to be told of.
  PB_TRY(pbTask_BeginWorld(task, t, 0));
  pbStatus status = pbTrajectory_Forward(tr);
  if (status == pb_ok) status = pbRollout_Noise(tr->rollout, NULL, noise);

  return status == pb_ok ? pb_ok : pbContext_Fail(task->ctx, status, "%s", pbContext_Error(tr->ctx));
}

pbStatus pbTask_Noise(pbTask *task, const double *z, pbNoise *noise, int *trajectory) {
  *noise = no_noise;
  *trajectory = -1;
  task->same = false;
  pbStatus status = pbTask_Apply(task, z);
  PB_ASSERT(task->trajectory_count > 0);

  for (int t = 0; t < task->trajectory_count && status == pb_ok; t++) {
    pbNoise here = no_noise;
    if (task->trajectories[t].test) continue;
    status = look_at(task, t, &here);
    if (status != pb_ok || here.step < 0) continue;
    *noise = here;
    *trajectory = t;
    return pb_ok;
  }

  return is_soft(status) ? pb_ok : status;
}
