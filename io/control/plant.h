// What is controlled: a model, or another process. Both are told a control and say the state that follows.
#ifndef PB_IO_PLANT_H
#define PB_IO_PLANT_H

#include <pullback/base.h>
#include <pullback/trajectory.h>

#include "optimize/task.h"

typedef struct pbPush {  // a wrench on a body for a while, or a jump of a joint's velocity
  double at, duration;
  int body;          // -1: a jump
  double wrench[6];  // force, torque: at its center of mass, world axes
  int dof, dofs;
  double velocity[6];
} pbPush;

typedef struct pbPlant pbPlant;
typedef struct pbPlantKind {
  // The state at the start, time 0.
  pbStatus (*reset)(pbPlant *plant, uint64_t seed);
  // The state that follows a control (nu).
  pbStatus (*step)(pbPlant *plant, const double *ctrl);
  void (*destroy)(pbPlant *plant);
} pbPlantKind;
struct pbPlant {
  const pbPlantKind *kind;
  pbContext *ctx;
  const pbModel *model;  // of the state: of another process the plan's
  const double *theta;
  double timestep;
  double *x, time;     // its state now; s since the start
  double *sensordata;  // of the state before the last step; NULL: not told
  bool done;           // it says so
  long steps;          // made
  void *own;
};

typedef struct pbPlantWorld {  // a model as plant; all of it is borrowed
  const pbModel *model;
  const double *theta, *start;  // ParamSize; StateSize: where it begins
  const pbPush *pushes;
  int push_count;
  pbStepNotes *notes;  // of its steps
} pbPlantWorld;
PB_NODISCARD pbStatus pbPlant_OfModel(pbContext *ctx, const pbPlantWorld *world, pbPlant *plant);
// Another process: a command of /bin/sh.
typedef struct pbPlantWait {
  double silence;  // s that it may take for an answer
  pbProgressFunction stop;
  void *user;
} pbPlantWait;
PB_NODISCARD pbStatus pbPlant_OfProcess(pbContext *ctx, const pbTask *task, const char *command, const pbPlantWait *wait,
                                        pbPlant *plant);
void pbPlant_Destroy(pbPlant *plant);  // of all zeros: nothing

// Positions, velocities, activations and what else two models' states have in common, from one to the other.
void pbPlant_CopyState(const pbModel *from, const double *x, const pbModel *to, double *y);
const pbStateField *pbPlant_Field(const pbModel *model, const char *name, pbStateField *field);  // NULL: it has none

#endif
