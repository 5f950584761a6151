// A policy as a part of the compiled model: what it observes, where its outputs go, where its numbers stand in state and theta.
// Made by pbModel_SetPolicy (world/policy_model.c).
#ifndef PB_POLICY_DATA_H
#define PB_POLICY_DATA_H

#include <pullback/policy.h>

#include "model/model.h"

// A row of the table of observations. Of `width` numbers those named by `component` are taken.
typedef struct pbObserveRow {
  pbObserveKind kind;
  int object;  // joint, actuator, sensor, body, site; -1: all
  int frame;   // positions and rotations as seen in this body's frame; -1: the world's
  int width, count;
  int at;          // of its first number among the observations
  int *component;  // count; NULL: all
  int first;       // of commands, or of what is held
  int *points;     // point_count: rows of "points"
  int point_count;
  pbObserveForm form;
  double point[3], scale;
} pbObserveRow;

// Where a number that the policy puts out goes.
typedef struct pbOutputTarget {
  pbOutputKind kind;
  int index;  // in ctrl, qfrc or xfrc
  double scale;
} pbOutputTarget;

// A slice of theta; the name is the model's.
typedef struct pbPolicyParam {
  char *name;
  const pbPolicySlice *slice;
  size_t offset;  // in theta
} pbPolicyParam;

typedef struct pbPolicyModel {
  const pbPolicyFunction *decide, *act;  // borrowed; act NULL: what is held goes out
  pbObserveRow *row;
  int rows;                        // those of decide first, then act's, then a critic's
  int observed, acted, observing;  // numbers that decide observes, its draws the last of them; act behind them; of all rows
  int widest;                      // row
  pbOutputTarget *target;
  int outputs, held, memory, decide_memory;
  int every, commands;
  bool hears;  // exploration: what is held at the end of a decision is what went out, with the controls that were given beside it
  bool reaches[pb_outputKindCount];        // some output goes there
  bool evaluates, transmissions, sensors;  // some row needs an evaluation, and of it these
  bool lengths;                            // of tendons or actuators, whose gradients come before those of bodies
  pbPolicyParam *param;
  int params;
  size_t theta, act_theta, theta_size;  // where parameters of decide and of act begin in theta, and how many there are
} pbPolicyModel;

// NULL is fine.
void pbPolicyModel_Destroy(pbContext *ctx, pbPolicyModel *policy);

// What a policy adds to a state: memory, held, the count of steps since the decision; to its tangent: all but the count.
static inline int pb_policyState(const pbModel *m) { return m->policy ? m->policy->memory + m->policy->held + 1 : 0; }
static inline int pb_policyTangent(const pbModel *m) { return m->policy ? m->policy->memory + m->policy->held : 0; }
// Numbers that a step leaves in the tape's record: what is held in it, what goes out, what was observed.
static inline int pb_policyRecord(const pbModel *m) {
  return m->policy ? m->policy->held + m->policy->outputs + m->policy->observing : 0;
}

// Does a row's kind of number come from the kernels' evaluation? The others are numbers of state and inputs themselves.
static inline bool pb_observeEvaluates(pbObserveKind kind) { return kind < pb_observeCommand; }
// Is it of deformables' points?
static inline bool pb_observesPoints(pbObserveKind kind) { return kind >= pb_observePoints; }

#endif
