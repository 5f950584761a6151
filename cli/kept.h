// What an interrupted command has done, in a file beside its output.
#ifndef PB_CLI_KEPT_H
#define PB_CLI_KEPT_H

#include "cli.h"

typedef struct cliKept {
  cliApp *app;
  pbKept *kept;
  pbArrays *from, *left;   // what an earlier run has left, NULL: nothing; what this one leaves
  char path[PB_RUN_PATH];  // OUT.COMMAND.state; "": nothing is kept
} cliKept;

// Before the command reads anything: a state is of these options and files alone.
pbStatus cliKept_Begin(cliApp *app, cliKept *kept);
// When all is read: kept->from. With --fresh the file is removed.
pbStatus cliKept_Load(cliKept *kept);
// That what was kept is of another run: the error, with the file's name.
PB_NODISCARD pbStatus cliKept_Refuse(const cliKept *k);
void cliKept_SayStep(const cliKept *kept, long steps);  // at which "step" a run goes on; nothing where it begins
// After an interruption, which `said` tells of: keeps kept->left and says so. pb_interrupted, or why it could not be kept.
pbStatus cliKept_Save(cliKept *kept, const char *said);
// What the command returns: status, or that the state could not be removed. It stays where the same command can go on with it.
pbStatus cliKept_End(cliKept *kept, pbStatus status);
// Of a command that has nothing to go on with: says what was interrupted, and `why` (" without --page"; ""). pb_interrupted.
pbStatus cli_nothingKept(const cliApp *app, const char *why);

#endif
