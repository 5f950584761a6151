// Followers: parameters that follow unknowns by formulas, and the chain rule through them, reverse and forward. Tests:
// tests/unit/test_task_ties.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "optimize/task.h"

void pbFollower_Free(pbContext *ctx, pbFollower *follower) {
  pbExpression_Destroy(follower->expression);
  pbContext_Free(ctx, follower->unknown);
  pbContext_Free(ctx, follower->in);
  pbContext_Free(ctx, follower->slope);
  *follower = (pbFollower){0};
}

// Value and slopes from task->value.
static double evaluate(const pbTask *task, pbFollower *follower, pbEnergyFault *fault) {
  double value;
  PB_ASSERT(follower->count <= pbExpression_Width(follower->expression));

  // Constants have been there from the beginning.
  for (int k = 0; k < follower->count; k++) {
    if (follower->unknown[k] >= 0) follower->in[k] = task->value[follower->unknown[k]];
  }

  return pbExpression_Evaluate(follower->expression, 1, follower->in, &value, follower->slope, fault) ? value : NAN;
}

pbStatus pbTask_PutFollowers(const pbTask *task, double *theta) {
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];

    for (int k = 0; k < v->follower_count; k++) {
      pbEnergyFault fault = {.element = -1};
      double value = evaluate(task, &v->followers[k], &fault);
      PB_ASSERT(v->index[k] < task->ntheta);
      theta[v->index[k]] = value;
      if (isfinite(value)) continue;
      return pbContext_Fail(task->ctx, pb_not_finite, "%s: variable '%.60s', formula %d of what it sets: %s", task->name, v->name,
                            k, fault.what);
    }
  }

  return pb_ok;
}

// ---- derivatives: with the slopes of the last Put ---------------------------------------------------------------------
void pbTask_PullFollowers(const pbTask *task, double *gradient) {
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];

    for (int k = 0; k < v->follower_count; k++) {
      const pbFollower *follower = &v->followers[k];
      double bar = task->theta_bar[v->index[k]];
      for (int c = 0; c < follower->count; c++) {
        int unknown = follower->unknown[c];
        if (unknown >= 0) gradient[unknown] += bar * follower->slope[c] * pbTask_ValueSlope(task, unknown);
      }
    }
  }
}

void pbTask_PushFollowers(const pbTask *task, int unknown, double *theta) {
  double size = pbTask_ValueSlope(task, unknown);
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];

    // An unknown may stand in a formula several times under several names.
    for (int k = 0; k < v->follower_count; k++) {
      const pbFollower *follower = &v->followers[k];
      for (int c = 0; c < follower->count; c++) {
        if (follower->unknown[c] == unknown) theta[v->index[k]] += follower->slope[c] * size;
      }
    }
  }
}
