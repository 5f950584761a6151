// The program: commands, their common options, and what they share.
#ifndef PB_CLI_H
#define PB_CLI_H

#include <stdint.h>
#include <stdio.h>

#include <pullback/array.h>
#include <pullback/audit.h>
#include <pullback/base.h>
#include <pullback/batch.h>
#include <pullback/build.h>
#include <pullback/contact.h>
#include <pullback/control.h>
#include <pullback/deform.h>
#include <pullback/describe.h>
#include <pullback/energy.h>
#include <pullback/io.h>
#include <pullback/json.h>
#include <pullback/learn.h>
#include <pullback/ledger.h>
#include <pullback/materials.h>
#include <pullback/mesh.h>
#include <pullback/model.h>
#include <pullback/optimize.h>
#include <pullback/policy.h>
#include <pullback/pool.h>
#include <pullback/random.h>
#include <pullback/rollout.h>
#include <pullback/solid.h>
#include <pullback/trajectory.h>
#include <pullback/view.h>
#include <pullback/world.h>

// ---- commands and options ------------------------------------------------------------------------------------------

typedef enum cliOptionId {
  opt_steps,
  opt_init,
  opt_init_row,
  opt_keyframe,
  opt_trajectory,
  opt_every,
  opt_control,
  opt_qfrc,
  opt_xfrc,
  opt_command,
  opt_mocap,
  opt_param,
  opt_option,
  opt_contact,
  opt_constants,
  opt_deformables,
  opt_expose,
  opt_design,
  opt_policy,
  opt_allow_root,
  opt_package_path,
  opt_floating_base,
  opt_fuse,
  opt_motors,
  opt_inertia,
  opt_missing_meshes,
  opt_output,
  opt_vtu,
  opt_glb,
  opt_page,
  opt_shapes,
  opt_ghost,
  opt_ghost_start,
  opt_cotangent,
  opt_wrt,
  opt_memory,
  opt_loss,
  opt_json,
  opt_seed,
  opt_mode,
  opt_decay,
  opt_window,
  opt_clip,
  opt_spot_check,
  opt_strict,
  opt_compressed,
  opt_quiet,
  opt_horizon,
  opt_at_start,
  opt_fresh,
  opt_starts,
  opt_result,
  opt_start,
  opt_plant,
  opt_replay,
  opt_threads,
  opt_worlds,
  opt_help,
  opt_version,
  opt_count
} cliOptionId;

enum {
  CLI_MODEL = 1ull << opt_param | 1ull << opt_option | 1ull << opt_contact | 1ull << opt_constants | 1ull << opt_deformables |
              1ull << opt_expose | 1ull << opt_design | 1ull << opt_policy | 1ull << opt_allow_root | 1ull << opt_package_path |
              1ull << opt_floating_base | 1ull << opt_fuse | 1ull << opt_motors | 1ull << opt_inertia |
              1ull << opt_missing_meshes | 1ull << opt_result,
  CLI_RUN = CLI_MODEL | 1ull << opt_steps | 1ull << opt_init | 1ull << opt_init_row | 1ull << opt_keyframe | 1ull << opt_control |
            1ull << opt_qfrc | 1ull << opt_xfrc | 1ull << opt_command | 1ull << opt_mocap | 1ull << opt_quiet |
            1ull << opt_trajectory,
  CLI_WRITE = 1ull << opt_output | 1ull << opt_compressed
};

typedef struct cliList {
  const char **items;
  int count;
} cliList;

typedef struct cliArgs {
  const char *positional[3];  // one more than any command takes
  int positionals;
  const char *text[opt_count];                // last value of each option; "" where it takes none; NULL if not given
  cliList params, options, contact, exposed;  // every --param, --option, --contact and --expose, in order
  char *roots;                                // every --allow-root, with ':' between them
  cliList typed;                              // all words as they were typed, the command's name first
} cliArgs;

typedef struct cliApp cliApp;

typedef struct cliCommand {
  const char *name, *operands, *summary;
  int least, most;   // operands
  uint64_t options;  // bits of cliOptionId
  uint64_t required;
  const char *output;  // suffix of the file that -o names; NULL without one
  const char *more;    // last part of --help
  pbStatus (*run)(cliApp *app);
} cliCommand;

struct cliApp {
  pbContext *ctx;
  const cliCommand *command;
  cliArgs args;
};

extern const cliCommand cliCommands[];
extern const int cliCommand_Count;
const cliCommand *cliCommand_Find(const char *name);  // NULL where there is none

// Where results and where notes, warnings and progress go. One command runs at a time in a process.
extern FILE *cli_out, *cli_err;
void cli_openStreams(void);
// The exit status where all of standard output could be written; else says why not, and makes a failure of success.
int cli_flush(int code);

pbStatus cliInfo_Run(cliApp *app);
pbStatus cliSimulate_Run(cliApp *app);
pbStatus cliGradient_Run(cliApp *app);
pbStatus cliJacobian_Run(cliApp *app);
pbStatus cliCheck_Run(cliApp *app);
pbStatus cliView_Run(cliApp *app);
pbStatus cliOptimize_Run(cliApp *app);
pbStatus cliAudit_Run(cliApp *app);
pbStatus cliTrain_Run(cliApp *app);
pbStatus cliEvaluate_Run(cliApp *app);
pbStatus cliControl_Run(cliApp *app);
pbStatus cliEnergies_Run(cliApp *app);
pbStatus cliInspect_Run(cliApp *app);
pbStatus cliExport_Run(cliApp *app);

pbStatus cliArgs_Parse(pbContext *ctx, const cliCommand *command, int argc, char **argv, cliArgs *args);
void cliArgs_Free(pbContext *ctx, cliArgs *args);
void cliArgs_Help(const cliCommand *command);
const char *cliArgs_Name(cliOptionId id);  // without dashes
// An integer of an option in [least, most]; `other` if the option is not given.
pbStatus cliArgs_Integer(cliApp *app, cliOptionId id, long least, long most, long other, long *value);
// --threads as a pool, as many as processors where it is not given; NULL: one.
pbStatus cliArgs_Pool(cliApp *app, pbPool **pool);
// --mode; exact if it is not given.
pbStatus cliArgs_Mode(cliApp *app, pbGradientKind *kind);
// Whole text as a finite number in the C locale.
bool cli_number(const char *text, const char **end, double *value);

// ---- signals and progress ------------------------------------------------------------------------------------------

// SIGINT, SIGTERM or SIGHUP ends the program with 130 at once, except between Hold and Release (when a file is being written).
void cliSignals_Install(void);
void cliSignals_Hold(void);
void cliSignals_Release(void);
// From here on they only set a flag that is asked for with cliSignals_Caught.
void cliSignals_Defer(void);
void cliSignals_Undefer(void);
bool cliSignals_Caught(void);

typedef struct cliProgress {
  const char *what;
  bool shown, on, told;
  double started, last, before;  // before: done when this was first told, by an earlier run
} cliProgress;
double cli_seconds(void);
void cliProgress_Begin(cliProgress *p, const cliApp *app, const char *what);
void cliProgress_Show(cliProgress *p, double done, double all, const char *note);
void cliProgress_End(cliProgress *p);
// For pbProgressFunctions of the library (user: a cliProgress): nonzero once a signal was caught.
int cliProgress_On(void *user, const pbProgress *progress);

// ---- JSON ----------------------------------------------------------------------------------------------------------

// ---- the run a command works on ------------------------------------------------------------------------------------

typedef struct cliRun {
  cliApp *app;
  pbContext *ctx;
  const pbModel *model;
  pbModel *loaded;  // the same, where this run has loaded it
  const char *model_path;
  int nq, nv, na, nu, nbody, nsite, nsensordata, nx, nt;  // nx: StateSize, nt: TangentSize
  int ncommand;                                           // numbers that a policy observes as commands
  int nmocap;
  size_t ntheta;
  double *theta;         // the run's parameters
  double *theta_before;  // before derived ones were recomputed; NULL with --constants keep
  bool recompute;
  pbTask *task;                  // the run of a task file: its trajectories; NULL for a model alone
  int trajectory, trajectories;  // of the task: the one this is, and how many the command is about
  long steps, other_steps;       // how many; where nothing says how many
  long every;                    // of `simulate`: which states are kept, 1 for all; the first and the last are in any case
  double *x0;
  double *control, *qfrc, *xfrc, *command;  // steps rows each (at least one); NULL where not given (control: never)
  double *mocap_pos, *mocap_quat;           // likewise; NULL: the model's
  double *mocap_vel;                        // velocities as given; NULL: as the poses say, which is
  double *mocap_rate;                       // where there are poses
  double *mocap_before;                     // where they were before: positions, then quaternions; NULL: the model's
  pbScratch *scratch;
  pbStepNotes notes;     // how the steps went so far
  cliProgress progress;  // of a command whose parts say how far they are
} cliRun;

// How far the derivative of a rollout that was just pulled back reaches, where its costate grows much; else *noise says to the
// end.
pbStatus cliNoise_Measure(pbRollout *rollout, const pbCertificate *certificate, pbNoise *noise);
void cliNoise_Warn(const pbNoise *noise, const char *where);  // both on standard error, behind `where`; nothing without noise

void cliRun_Warn(const char *text);  // lines of warnings, as the command prints them
// Model with --option, --param and --constants applied.
pbStatus cliRun_Model(cliApp *app, cliRun *run);
// The same for a file that is to be written of it. A task is its model with the variables at their start, or as found.
pbStatus cliRun_Whole(cliApp *app, cliRun *run);
// Sizes of run->model into the run.
void cliRun_Sizes(cliRun *run);
// The same with initial state and inputs; `steps` where nothing says how many. A task file is a run: its trajectory
// (--trajectory, else the first) and its variables' start values hold unless options say otherwise.
pbStatus cliRun_Begin(cliApp *app, long steps, cliRun *run);
// Go on with another trajectory of the task: initial state, controls, steps.
pbStatus cliRun_Trajectory(cliRun *run, int trajectory);
// A line on standard error where a task has several trajectories and none was asked for.
void cliRun_FirstTrajectory(const cliRun *run);
void cliRun_End(cliRun *run);
pbRolloutInput cliRun_Inputs(const cliRun *run);  // of all steps
size_t cliRun_NoDirection(const pbArray *quat);  // number of the first quaternion whose length is not 1e-6 to 1e6; else the count
// Velocities of mocap bodies in all steps, by their poses and where they were before, to mocap_rate (pbModel_MocapVelocity).
pbStatus cliRun_KeepRates(cliRun *run);
pbInput cliRun_Input(const cliRun *run, long k);                             // of step k; k = steps: of the last
pbSimulation cliRun_Simulation(const cliRun *run);                           // the same as the library has it
void cliRun_NoteSolve(cliRun *run, long k);                                  // of step k, which the scratch has made
void cliRun_NoteCertificate(cliRun *run, const pbCertificate *certificate);  // of a whole rollout
void cli_noteFile(const cliApp *app, const pbModel *model);  // a line where the solver does more than the file asks for
// That, and a line on standard error where the worst solve stopped short of its tolerance.
void cliRun_WarnSolver(const cliRun *run);
// Text of scratch with step number; what a command returns when step k fails.
pbStatus cliRun_StepFailed(const cliRun *run, pbStatus status, long k);
// pb_not_finite where an entry of the state after step k is beyond what MuJoCo takes for a state.
pbStatus cliRun_CheckState(const cliRun *run, const double *x, long k);
bool cli_hasSuffix(const char *text, const char *suffix);
// Remove the state of a run, where there is one. needed: before a run that begins anew, pb_file where it stays; else a warning.
pbStatus cli_forget(cliApp *app, const char *state, bool needed);
pbStatus cli_noMemory(pbContext *ctx);  // fails with pb_no_memory

// Common entries of "meta".
void cliRun_Meta(const cliRun *run, pbJson *json);
// Add the text of a finished draft as "meta".
pbStatus cliRun_AddMeta(pbArrays *set, pbDraft *draft);
// What --vtu and --glb ask for, from the arrays of a trajectory.
pbStatus cliRun_SaveMotion(cliRun *run, const pbArrays *set);
pbStatus cli_save(cliApp *app, const pbArrays *set);  // to --output, without a signal in between
// A finished draft to a file, without a signal in between.
pbStatus cli_saveDraft(cliApp *app, const char *path, pbDraft *draft);

// ---- page.c: what --page asks for; nothing without it
typedef pbStatus cliPut(void *user, const pbPageHead *head, FILE *out);
pbStatus cliPage_CanWrite(cliApp *app);  // asked before the work that is to be written
// path: of the task or model. What `put` writes, to the page, with the command as it was typed.
pbStatus cliPage_Save(cliApp *app, const char *path, cliPut *put, void *user);

#endif
