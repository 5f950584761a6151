// What a run starts from, in parts: initial state and inputs.
#ifndef PB_CLI_INPUTS_H
#define PB_CLI_INPUTS_H

#include "cli.h"

// --keyframe; -1: none.
pbStatus cliRun_ReadKeyframe(const cliRun *run, int *keyframe);
// run->x0: the model's state or a keyframe's, else the task's; then what --init changes.
pbStatus cliRun_ReadState(cliRun *run, int keyframe);
// run->control, qfrc, xfrc and steps; `other` steps where nothing says how many.
pbStatus cliRun_ReadInputs(cliRun *run, int keyframe, long other);

#endif
