// Many worlds of one model in a run: starts, inputs and parameters with a leading axis, from one file.
#ifndef PB_CLI_WORLDS_H
#define PB_CLI_WORLDS_H

#include "kept.h"

enum { CLI_WORLD_PARAMS = 64 };  // most parameters that worlds have of their own

typedef struct cliWorlds {
  cliRun *run;
  const char *file;
  pbArrays *set;  // what was read: --worlds
  pbPool *pool;
  pbBatch *batch;
  int count;
  pbBatchInput input;  // of each world, or the run's for all
  const char *own[CLI_WORLD_PARAMS];
  const pbArray *own_from[CLI_WORLD_PARAMS];
  int own_count;
} cliWorlds;

// --worlds and --threads: worlds at their starts, and what acts on them. tape: steps are recorded for a pullback.
pbStatus cliWorlds_Begin(cliRun *run, bool tape, cliWorlds *worlds);
void cliWorlds_End(cliWorlds *worlds);
// After a call of the batch: each world that failed on standard error; what the command returns in the end, *failed.
// Not pb_ok: the call itself went wrong.
pbStatus cliWorlds_Note(const cliWorlds *worlds, pbStatus status, pbStatus *failed);

// The commands with --worlds.
pbStatus cliWorlds_Simulate(cliRun *run, cliKept *kept);  // an interrupted one keeps the worlds that are at their end
pbStatus cliWorlds_Gradient(cliRun *run);

#endif
