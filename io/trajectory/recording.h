// Controls of a CSV, as a recording (optimize/recorded.h).
#ifndef PB_IO_RECORDING_H
#define PB_IO_RECORDING_H

#include <pullback/trajectory.h>

#include "optimize/recorded.h"

typedef struct pbControlTiming {
  const char *time;            // name of the column of times; NULL: "time" or "t"
  const char *const *columns;  // of each control its column, in place of names that are looked for; NULL: none are given
  double timestep;
  double start;  // s, of the recording's clock when the trajectory begins
  double delay;  // s, by which the recording comes later
  bool linear;
} pbControlTiming;

// Columns to controls. Samples that are missing are left out, which needs a time. *steps: as many as the recording covers, up to
// the one that its last row acts in (with rows that are a step each, as many as there are; 1: one row, which holds throughout).
PB_NODISCARD pbStatus pbRecording_Read(pbContext *ctx, const pbModel *model, const pbArrays *set, const pbControlTiming *timing,
                                       pbRecorded **recorded, int *steps);
// pb_bad_input where the recording begins after the trajectory, or ends before so many steps do, by more than the longest of its
// own gaps.
PB_NODISCARD pbStatus pbRecording_CheckCover(pbContext *ctx, const char *file, const pbRecorded *recorded,
                                             const pbControlTiming *timing, int steps);
// pb_bad_input where rows do not cover the times of states from `from` to before `to`, s by the file's clock, but for the mean
// distance of rows at either end, which is less than a tenth of these or a step: between rows alone is a state known.
PB_NODISCARD pbStatus pbRecording_CheckSpan(pbContext *ctx, const pbArrays *set, const char *time_name, double timestep,
                                            double from, double to);
// The state (pbRecording_State) at any time by the file's clock: on the lines between the samples around it, beyond the first and
// the last as these are; velocities without columns by the slope of the positions there. Its time stays. time_name: as above.
PB_NODISCARD pbStatus pbRecording_StateAt(pbContext *ctx, const pbModel *model, const pbArrays *set, const char *time_name,
                                          double at, double *x);

#endif
