// Ties: parameters that follow unknowns by formulas, and the chain rule through them, reverse and forward. Tests:
// tests/unit/test_task_ties.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "optimize/task.h"

void pbTie_Free(pbContext *ctx, pbTie *tie) {
  pbExpression_Destroy(tie->expression);
  pbContext_Free(ctx, tie->unknown);
  pbContext_Free(ctx, tie->in);
  pbContext_Free(ctx, tie->slope);
  *tie = (pbTie){0};
}

// Value and slopes from task->value.
static double evaluate(const pbTask *task, pbTie *tie, pbEnergyFault *fault) {
  double value;
  PB_ASSERT(tie->count <= pbExpression_Width(tie->expression));

  // Constants have been there from the beginning.
  for (int k = 0; k < tie->count; k++) {
    if (tie->unknown[k] >= 0) tie->in[k] = task->value[tie->unknown[k]];
  }

  return pbExpression_Evaluate(tie->expression, 1, tie->in, &value, tie->slope, fault) ? value : NAN;
}

pbStatus pbTask_PutTies(const pbTask *task, double *theta) {
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];

    for (int k = 0; k < v->tie_count; k++) {
      pbEnergyFault fault = {.element = -1};
      double value = evaluate(task, &v->ties[k], &fault);
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
void pbTask_PullTies(const pbTask *task, double *gradient) {
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];

    for (int k = 0; k < v->tie_count; k++) {
      const pbTie *tie = &v->ties[k];
      double bar = task->theta_bar[v->index[k]];
      for (int c = 0; c < tie->count; c++) {
        int unknown = tie->unknown[c];
        if (unknown >= 0) gradient[unknown] += bar * tie->slope[c] * pbTask_ValueSlope(task, unknown);
      }
    }
  }
}

void pbTask_PushTies(const pbTask *task, int unknown, double *theta) {
  double size = pbTask_ValueSlope(task, unknown);
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];

    // An unknown may stand in a formula several times under several names.
    for (int k = 0; k < v->tie_count; k++) {
      const pbTie *tie = &v->ties[k];
      for (int c = 0; c < tie->count; c++) {
        if (tie->unknown[c] == unknown) theta[v->index[k]] += tie->slope[c] * size;
      }
    }
  }
}
