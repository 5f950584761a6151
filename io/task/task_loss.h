// Terms of a loss as they are read: what a term names, its target and the times of it.
#ifndef PB_IO_TASK_LOSS_H
#define PB_IO_TASK_LOSS_H

#include "io/task/task_reader.h"

// What a term names, before components are chosen: parts, and for each target entry its column in a full row.
typedef struct pbTermLayout {
  pbPart *parts;
  int *columns;  // of a target entry in a full row of the quantity
  int part_count, target_width, full_width;
  const char *array;  // the quantity's, in files of data
} pbTermLayout;

// "at" and "target"; without a target all values are zero, and rotations none.
PB_NODISCARD pbStatus pbTask_ReadTarget(pbTaskReader *r, const json_t *object, int steps, const pbTermLayout *l, pbTerm *t);
PB_NODISCARD pbStatus pbTask_DefaultTarget(const pbTaskReader *r, pbTerm *t);
// A reading of its own, where it has none; what: "gain" or "bias", which rotations do not have.
PB_NODISCARD pbStatus pbTask_NeedReading(pbTaskReader *r, pbTerm *t, const char *what);
// "sigma", "delay", "gain", "bias".
PB_NODISCARD pbStatus pbTask_ReadReading(pbTaskReader *r, const json_t *object, int steps, pbTerm *t);
// Of a term with times of its own: pb_bad_input for a delay with which none is within the trajectory.
PB_NODISCARD pbStatus pbTask_CheckDelay(pbTaskReader *r, const pbTerm *t, int steps, double delay);

// ---- task_loss_times.c
PB_NODISCARD pbStatus pbTask_ReadAt(pbTaskReader *r, const json_t *at, int steps, pbTerm *t);
// Times in s from the start; between states where they are no multiples of the time step.
PB_NODISCARD pbStatus pbTask_Times(const pbTaskReader *r, const double *times, size_t count, int steps, pbTerm *t);
PB_NODISCARD pbStatus pbTask_StepsRange(const pbTaskReader *r, int from, int to, int every, pbTerm *t);

#endif
