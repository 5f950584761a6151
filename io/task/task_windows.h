// Trajectories that are cut into windows, and the unknowns of each.
#ifndef PB_TASK_WINDOWS_H
#define PB_TASK_WINDOWS_H

#include "io/task/task_reader.h"

typedef struct pbWindows {
  int steps, each, count;  // of the whole, of a window (the last may be shorter; 0: the trajectory is not cut), windows
} pbWindows;

// "window" of a trajectory, or of the whole, with w->steps known.
PB_NODISCARD pbStatus pbTask_ReadWindow(pbTaskReader *r, const json_t *own, const json_t *root, pbWindows *w);
// Window k as a trajectory; it belongs to the reader.
PB_NODISCARD pbStatus pbTask_CutWindow(pbTaskReader *r, const json_t *own, const json_t *root, const pbWindows *w, int k,
                                       const json_t **window);
// Variables with "trajectory": "each" as one of each that is fitted; the list, or one that belongs to the reader.
PB_NODISCARD pbStatus pbTask_SpreadVariables(pbTaskReader *r, const pbTask *task, const json_t *list, const json_t **spread);

#endif
