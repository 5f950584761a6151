// Inside of plans that are made again and again: what one thread plans with, what others read.
#ifndef PB_MPC_H
#define PB_MPC_H

#include <pthread.h>

#include <pullback/control.h>

#include "optimize/shoot.h"

typedef struct pbMpcBuffer {     // a plan, as it is read
  double *ctrl, *states, *gain;  // as of pbMpcPlan
  double *lower, *upper;         // (steps, nu): bounds of the controls
} pbMpcBuffer;

// What any thread may read, under the lock. The planning thread alone writes it, and may so read all but counts without.
typedef struct pbMpcShown {
  pthread_mutex_t lock;
  pbMpcPlan plan;     // its arrays: those of `front`
  pbMpcBuffer front;  // the last plan
  pbMpcBuffer back;   // the one before it; the next is written here
  double begun;       // on the clock of plans
  bool fallen;        // the last plan failed, and an older one answers
  double *off;        // 2 x TangentSize: how far the state of a question is off, of the plan's and of its next one
  const pbModel *model;
} pbMpcShown;

typedef struct pbMpcTermBefore {  // a term as it was in the task, and its room
  double *target, *own;           // own: (step_count, target_width)
  int target_rows;
  double weight;
} pbMpcTermBefore;

struct pbMpc {
  pbContext *ctx;
  pbTask *task;
  pbTaskShooting *shooting;
  pbOptimizer *optimizer;
  pbMpcShown *shown;
  double *z, *guess;    // n of the task: of the plan, the guess of the next
  double *multipliers;  // of the plan
  pbMpcNews *news;      // of the call at hand
  bool planned;         // in it
  bool constrained;
  double longest;  // of the last call's iterations
  // the task, from before: start, terms, bounds, parameters
  double *x0, *lower, *upper, *theta;
  pbMpcTermBefore *terms;
  double *theta_new;  // of a change at hand
};

// ---- mpc_shown.c
PB_NODISCARD pbStatus pbMpcShown_Create(pbMpc *mpc);
void pbMpcShown_Free(pbMpc *mpc);
void pbMpcShown_Begin(pbMpc *mpc, double elapsed);  // a plan
void pbMpcShown_Refuse(const pbMpc *mpc);
void pbMpcShown_Fail(pbMpc *mpc);
void pbMpcShown_Publish(pbMpc *mpc);  // the back, whose bounds are found here; it begins at the clock of now
void pbMpcShown_Clear(pbMpc *mpc);    // counts and clock
void pbMpcShown_Bound(pbMpc *mpc);    // bounds of the front anew, by those of the task
// ---- mpc_changes.c
PB_NODISCARD pbStatus pbMpcChanges_Create(pbMpc *mpc);
void pbMpcChanges_Undo(pbMpc *mpc);  // the task as it was; its room

#endif
