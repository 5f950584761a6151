// A controller with its plant: what "control" of a task says, and what a run of it has come to.
#ifndef PB_IO_CONTROL_H
#define PB_IO_CONTROL_H

#include <pullback/array.h>
#include <pullback/control.h>
#include <pullback/trajectory.h>

#include "io/control/plant.h"
#include "optimize/task.h"

typedef enum pbDecisionVerdict { pb_planImproved, pb_planConverged, pb_planFailed } pbDecisionVerdict;
typedef struct pbDecision {  // one plan
  long step;                 // of the plant
  double time;               // s of its clock, since the start
  pbMpcNews news;
  pbDecisionVerdict verdict;
  double feedback;  // s: longest of the controls until the next one
  double age;       // s: of the plan that acts from here on
  int fallbacks;    // so far
  char *reason;     // of a failure; NULL
} pbDecision;

typedef struct pbControlLog {  // of a run
  const pbModel *model;        // of the states: the plant's, or where that is another process the plan's
  const double *theta;
  const char *path;  // of the task
  long steps, room;  // rows that there are; that there is memory for
  size_t nx, nu, ns;
  double *x, *ctrl, *sensordata;  // (steps + 1, nx), (steps, nu), (steps + 1, ns)
  pbStepNotes notes;
  pbDecision *decisions;
  int count, decision_room;
} pbControlLog;

struct pbControl {
  pbContext *ctx;
  pbTask *task;     // of the plans
  pbTask *world;    // of the plant; NULL: the same
  double *start;    // StateSize of the plant's model
  double interval;  // s; 0: the longer of both time steps
  double duration;  // s; 0: that of the horizon
  double seconds;   // that a plan may take; 0: any
  int iterations;   // at most; 0: 1, with `seconds` 100
  double delay, silence;
  bool feedback, real_time;
  uint64_t seed;
  double *noise;  // TangentSize: deviations of the state that is measured; NULL: none
  pbPush *pushes;
  int push_count;
  pbControlLog log;
};

// ---- log.c: what was done, as rows and files
PB_NODISCARD pbStatus pbControlLog_Begin(pbContext *ctx, const pbPlant *plant, const char *path, pbControlLog *log);
void pbControlLog_Clear(pbContext *ctx, pbControlLog *log);
// A step: the state that it begins with, the control that acts and what sensors show; and the last state of all.
PB_NODISCARD pbStatus pbControlLog_Add(pbContext *ctx, pbControlLog *log, const pbPlant *plant, const double *ctrl);
PB_NODISCARD pbStatus pbControlLog_Decide(pbContext *ctx, pbControlLog *log, const pbDecision *decision);
PB_NODISCARD pbStatus pbControlLog_Arrays(pbContext *ctx, const pbControlLog *log, pbArrays *set);
PB_NODISCARD pbStatus pbControlLog_Save(pbContext *ctx, const pbControlLog *log, const char *record, const char *table);
// Median, 99th percentile and largest of the decisions, by phase; how many took longer than the interval.
PB_NODISCARD pbStatus pbControlLog_Times(pbContext *ctx, const pbControlLog *log, pbControlResult *result);

#endif
