// A recorded step and what its derivatives take and give, so that functions pass them on as one.
#ifndef PB_STEP_RECORD_H
#define PB_STEP_RECORD_H

#include <pullback/world.h>

#include "step/vjp.h"

typedef struct pbStepRecord {
  const pbModel *model;
  const double *theta;
  const double *record;  // pbTape_Record: the state before the step first, then what the step found
  void *cached;          // what pbCached_Save left of its evaluation; NULL: it is evaluated again
  const pbInput *input;
  bool open;                                      // the inputs are all that acts: a policy is not asked
  bool read;                                      // and the controls are those that act: no history is read or written
  const double *ctrl_later, *ctrl_later_tangent;  // 2 x nu: those in the middle and at the end of the step (pb_staged)
} pbStepRecord;

// Cotangents that go into a pullback; NULL: zero.
typedef struct pbStepCotangent {
  const double *next;                // tangent size: of the state after the step; NULL: no step, only what is observed before it
  const pbObservationBar *observed;  // of sensors and positions at the start of the step
  const double *distance;            // nrow: of pos - margin of the rows
  const double *observation;         // of what a policy observed (eval/work.h); of open steps without `next`
  pbPullPhase phase;                 // of bodies alone
  bool evaluated;                    // the scratch holds the evaluation of the step, from the pullback before
} pbStepCotangent;

// Where a pullback adds; NULL: not wanted.
typedef struct pbStepBar {
  double *x;  // tangent size: of the state before the step
  const pbInputBar *input;
  double *theta;
} pbStepBar;

// Where a forward derivative writes; NULL: not wanted.
typedef struct pbStepTangent {
  double *next;                           // tangent size: of the state after the step
  double *sensordata, *xpos, *site_xpos;  // at the start of the step
} pbStepTangent;

#endif
