// Pullback: a rollout as a trajectory file has it: states, inputs and sensors of its steps as named arrays, and what is to be
// said of how the steps went. A library that was built with PULLBACK_IO=OFF lacks all of it.
#ifndef PULLBACK_TRAJECTORY_H
#define PULLBACK_TRAJECTORY_H

#include <pullback/array.h>
#include <pullback/json.h>
#include <pullback/optimize.h>
#include <pullback/rollout.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- how steps went -----------------------------------------------------------------------------------------------
// Steps are counted from 0; -1: none of the kind.
typedef struct pbStepNotes {
  double worst_residual;  // of the solves, relative, and its step
  long worst_residual_step;
  long unconverged;        // steps whose solve did not converge
  double worst_condition;  // of the worst of them: its condition number, and the constraint to blame ("": none)
  char worst_row[256];
  double penetration;  // deepest overlap of two geoms (m), its step and geoms
  long penetration_step;
  int penetrating[2];
  long gains, gain_step;  // impacts that made kinetic energy; the step of the worst, its joules and geoms
  double gain;
  int gaining[2];
} pbStepNotes;
PB_API pbStepNotes pbStepNotes_None(void);
PB_API void pbStepNotes_Add(pbStepNotes *notes, const pbScratch *scratch, long step);  // of the step that it has just made
PB_API void pbStepNotes_AddCertificate(pbStepNotes *notes, const pbCertificate *certificate);  // of a whole rollout
// What a user should be warned of in a run of `steps` steps, a line each; "" for nothing. Returns text.
enum { PB_NOTES_TEXT = 3000 };  // bytes that suffice
PB_API const char *pbStepNotes_Say(const pbStepNotes *notes, const pbModel *model, long steps, char *text, size_t size);
// Into a set of arrays and back, for runs that go on; false: they are not there. Names "notes" and "notes_row".
PB_API PB_NODISCARD pbStatus pbStepNotes_Keep(const pbStepNotes *notes, pbArrays *set);
PB_API bool pbStepNotes_Restore(pbStepNotes *notes, const pbArrays *set);
// Likewise what a pullback had come to (pbPulled, of a costate of n numbers), and a certificate; names begin with `name`.
PB_API PB_NODISCARD pbStatus pbPulled_Keep(const pbPulled *pulled, int n, const char *name, pbArrays *set);
PB_API bool pbPulled_Restore(pbPulled *pulled, int n, const char *name, const pbArrays *set);
PB_API PB_NODISCARD pbStatus pbCertificate_Keep(const pbCertificate *certificate, const char *name, pbArrays *set);
PB_API bool pbCertificate_Restore(pbCertificate *certificate, const char *name, const pbArrays *set);
// Whether notes, which a file may have forged, name geoms of this model.
PB_API bool pbStepNotes_Fit(const pbStepNotes *notes, const pbModel *model);
// "energy_made" of an open object: impacts that made kinetic energy.
PB_API void pbStepNotes_DescribeGain(const pbStepNotes *notes, pbJson *json);

// Where a gradient is noise: pbNoise_Say and pbNoise_Propose as sentences, behind `where`; "" without noise. Returns text.
PB_API const char *pbNoise_Warning(const pbNoise *noise, const char *where, char *text, size_t size);

// ---- recordings in CSV ----------------------------------------------------------------------------------------------
// Columns of a set out of a CSV by the names of the model's joints, actuators, ... (docs/csv.md). pb_bad_input with file, line
// and column where none fits, a name could be of several things, units do not fit, times do not ascend or a sample is missing.
PB_API size_t pbRecording_Rows(const pbArrays *set);  // 0: the set is out of another kind of file
// Controls of `steps` steps (0: as many as the recording covers) as the array "control" of a new set: (steps, nu), or (nu) of one
// row. Each is held from its time on; a step takes the mean over its time.
PB_API PB_NODISCARD pbStatus pbRecording_Controls(pbContext *ctx, const pbModel *model, const pbArrays *set, double timestep,
                                                  long steps, pbArrays **controls);
// What a row has of positions, velocities, activations and the time, over what x (StateSize) holds.
PB_API PB_NODISCARD pbStatus pbRecording_State(pbContext *ctx, const pbModel *model, const pbArrays *set, size_t row, double *x);
// The same of all rows, as a trajectory: "qpos", others that have columns, and "time", where there is none by the time step. What
// has no column is that of x0 (StateSize), a sample that is missing the one before it. x0 NULL: both are NaN, and times needed.
PB_API PB_NODISCARD pbStatus pbRecording_Trajectory(pbContext *ctx, const pbModel *model, const pbArrays *set, double timestep,
                                                    const double *x0, pbArrays **trajectory);
// "mocap_pos", "mocap_quat", "mocap_vel" (rows, nmocap, 3, 4 or 6), as far as there are any, in a new set; a row is a step.
PB_API PB_NODISCARD pbStatus pbRecording_Poses(pbContext *ctx, const pbModel *model, const pbArrays *set, double timestep,
                                               pbArrays **poses);

// ---- the trajectory -----------------------------------------------------------------------------------------------
typedef struct pbSimulation {
  const pbModel *model;
  const double *theta, *x0;  // ParamSize, StateSize
  long steps, every;         // 1 or more; states and inputs that are kept: the first, every n-th, the last; 0: all
  // Rows for all steps, not constant. Poses of mocap bodies before row 0, NULL: those of row 0.
  pbRolloutInput input;
  // told in "meta" alone
  const char *command, *path;   // who simulates; the file of the model or task
  int trajectory;               // number of a task's that has several; -1
  bool recompute;               // derived constants follow the parameters
  pbProgressFunction progress;  // "simulate"
  void *user;
  // Going on: what an interrupted call of the same simulation has left, and where this one leaves it; NULL: neither.
  const pbArrays *from;
  pbArrays *left;
} pbSimulation;
// Simulates, and adds everything that a trajectory file holds to `set`: the state's fields (rows, size), "control", "sensordata",
// other inputs that are given, and "meta", a JSON text. notes: how the steps went. pb_capacity before the first step where the
// arrays are too large; statuses of a step with its number; pb_not_finite where a state leaves bounds; pb_interrupted;
// pb_bad_argument: no steps, or constant inputs. Interrupted with `left`: that holds all that is needed to go on, and how far it
// came as "step"; gone on, the arrays have the same bits as those of one call. pb_bad_input where `from` does not fit.
PB_API PB_NODISCARD pbStatus pbSimulation_Run(pbContext *ctx, const pbSimulation *s, pbArrays *set, pbStepNotes *notes);
// Velocities of mocap bodies in all steps by their poses and where they were before, to rate (steps, nmocap, 6): what acts where
// `input` has poses without.
PB_API PB_NODISCARD pbStatus pbSimulation_Rates(pbContext *ctx, const pbSimulation *s, double *rate);
// The entries of "meta", into an open object.
PB_API void pbSimulation_Describe(pbContext *ctx, const pbSimulation *s, const pbStepNotes *notes, pbJson *json);
// Of the arrays of a trajectory file: states are kept every so many steps, inputs of those steps alone. 1: all, or it is none.
PB_API long pbSimulation_Every(const pbArrays *trajectory);
// pbSimulation_Run of one trajectory of a task at an answer.
typedef struct pbTaskAnswer {
  const double *z;   // pbTask_Size
  int trajectory;    // its number
  const char *path;  // of the task, for "meta"
  pbProgressFunction progress;
  void *user;
} pbTaskAnswer;
PB_API PB_NODISCARD pbStatus pbTask_Simulate(pbContext *ctx, pbTask *task, const pbTaskAnswer *answer, pbArrays *set,
                                             pbStepNotes *notes);
// What terms on a trajectory compare positions with: "time" (s from its start) and "qpos", both by rows, NaN where there is no
// sample; gains, biases and delays at z are taken out. Nothing where no positions were recorded.
PB_API PB_NODISCARD pbStatus pbTask_Recorded(pbTask *task, const double *z, int trajectory, pbArrays *set);
// pb_not_finite where an entry of the state after step k is beyond what MuJoCo takes for a state.
PB_API PB_NODISCARD pbStatus pbSimulation_Check(pbContext *ctx, const pbSimulation *s, const double *x, long k);

// ---- runs that go on ----------------------------------------------------------------------------------------------
// What an interrupted run has left is a file of arrays with what the run was made from: the version, what the caller adds, and
// every file that ctx opens for reading between Begin and the first Load or Save. A run of anything else is refused.
typedef struct pbKept pbKept;
PB_API PB_NODISCARD pbStatus pbKept_Begin(pbContext *ctx, pbKept **kept);
PB_API void pbKept_Add(pbKept *kept, const char *name, const char *text);  // an option and its value; NULL: not given
// *set: what an earlier run has left, NULL where there is no file. pb_bad_input with what has changed since, and the way out.
PB_API PB_NODISCARD pbStatus pbKept_Load(pbKept *kept, const char *path, pbArrays **set);
// "made_from" is added to the set, and the file appears whole or not at all. pb_file where a file cannot be read once more.
PB_API PB_NODISCARD pbStatus pbKept_Save(pbKept *kept, const char *path, pbArrays *set);
PB_API void pbKept_Destroy(pbKept *kept);  // NULL is fine

#ifdef __cplusplus
}
#endif
#endif
