// The motion that a search has found, for its page.
#ifndef PB_RUN_MOTION_H
#define PB_RUN_MOTION_H

#include <pullback/json.h>
#include <pullback/optimize.h>
#include <pullback/view.h>

// "motion" of an open object, where positions were recorded: a page of the viewer, or why there is none. path: the task's.
// Fails for lack of memory or where it is interrupted alone.
PB_NODISCARD pbStatus pbRun_PutMotion(pbContext *ctx, pbTask *task, const double *z, const char *path, pbJson *json);

#endif
