// Inside of reading variables: what they are made of.
#ifndef PB_IO_TASK_VARIABLES_H
#define PB_IO_TASK_VARIABLES_H

#include "io/task/task_reader.h"

typedef struct pbTaskEntries {  // what a variable may be made of, before components are chosen
  size_t *index;
  double *value, *lower, *upper;  // present value and bounds of each
  int count;
  double *memory;
} pbTaskEntries;
PB_NODISCARD pbStatus pbTaskEntries_Room(pbTaskReader *r, size_t count, pbTaskEntries *e);
void pbTaskEntries_Add(pbTaskEntries *e, size_t index, double value, double lower, double upper);

// Numbers of a variable, in the minimizer's coordinates, appended to the task's.
PB_NODISCARD pbStatus pbTask_AppendUnknowns(pbTaskReader *r, pbTask *task, pbVariable *v, const double *start,
                                            const double *lower, const double *upper);
// ---- task_timestep.c: where a variable is the time step: what else of the task would depend on it
PB_NODISCARD pbStatus pbTask_VaryTimestep(pbTaskReader *r, pbTask *task);
// ---- task_priors.c: "prior" of every variable, when all are known
PB_NODISCARD pbStatus pbTask_ReadPriors(pbTaskReader *r, const json_t *list, pbTask *task);
// ---- task_variable_inertia.c: "body" with the transform "inertia"
PB_NODISCARD pbStatus pbTask_ReadInertia(pbTaskReader *r, const json_t *object, pbTask *task, pbVariable *v);

// ---- task_variable_readings.c: "delay", "gain", "bias"
int pbTask_ReadingKeys(const json_t *object, const char **key);  // how many of them there are, and the last of these
PB_NODISCARD pbStatus pbTask_ReadingEntries(pbTaskReader *r, const json_t *object, const char *key, pbTask *task, pbVariable *v,
                                            pbTaskEntries *e);
// Where a delay may be, once its bounds are known: which states may be looked at follows from that. pb_bad_input where it starts
// beyond all samples.
PB_NODISCARD pbStatus pbTask_VaryDelay(pbTaskReader *r, const pbTask *task, const pbVariable *v);

#endif
