// Pullback: training of policies: many worlds of a task's model, episodes with resets, gradients through the physics or without.
//
//   pbTrain *train;      pbTrain_Load(ctx, "swing-up.json", NULL, NULL, &train)     a task with "policy", "loss" and "train"
//   pbTrain_Run(train, &options, &result)                                        can be interrupted and resumed
//   pbPolicy_Save(ctx, pbTrain_Model(train), result.theta, "swing-up.npz")
//
// All methods see the same worlds, observations, losses and resets, and count the same robot-steps: physics steps of one world,
// those of evaluations included. docs/policies.md has the method, docs/task.md the keys.
#ifndef PULLBACK_LEARN_H
#define PULLBACK_LEARN_H

#include <pullback/batch.h>
#include <pullback/optimize.h>
#include <pullback/policy.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pbTrainMethod {
  pb_trainBptt,    // gradient through windows of the physics
  pb_trainShac,    // the same with a critic behind each window (Xu et al. 2022)
  pb_trainPpo,     // clipped policy gradient from samples alone (Schulman et al. 2017)
  pb_trainEs,      // a minimizer of optimize.h without gradients over all weights
  pb_trainSepCma,  // another
  pb_trainMethodCount
} pbTrainMethod;
PB_API const char *pbTrainMethod_Name(pbTrainMethod method);  // "bptt", "shac", "ppo", "es", "sep-cma"; NULL for another number
PB_API bool pbTrainMethod_Named(const char *name, pbTrainMethod *method);

// A training as a task file describes it. Needs files: a library built with PULLBACK_IO=OFF has none.
typedef struct pbTrain pbTrain;
// policy: a file whose policy or weights training starts from (pbPolicy_Load); NULL: the task's. pb_bad_input with the place
// where "policy", "loss" or "train" is missing or wrong.
PB_API PB_NODISCARD pbStatus pbTrain_Load(pbContext *ctx, const char *path, const char *allow_root, const char *policy,
                                          pbTrain **train);
PB_API void pbTrain_Destroy(pbTrain *train);  // NULL is fine
PB_API const pbModel *pbTrain_Model(const pbTrain *train);
PB_API pbTrainMethod pbTrain_Method(const pbTrain *train);
PB_API int pbTrain_Worlds(const pbTrain *train);
PB_API int pbTrain_EpisodeSteps(const pbTrain *train);  // physics steps of a whole episode

// After each update.
typedef struct pbTrainRow {
  double update;  // how many there were
  double steps;   // robot-steps so far
  double cost;    // mean loss a decision of the update's worlds
  double norm;    // of the gradient before clipping; NaN without one
  double value;   // mean squared error of the critic before its update; NaN without one
  double score;   // mean loss over the evaluation's episodes; NaN where there was none
  double alive;   // share of them that did not end before their time; NaN
  // Cosine to be expected between the gradient and one from as many other worlds, -1 to 1, averaged over the last updates: 1
  // where worlds agree, 0 where the gradient is noise; NaN without gradients, and of one world.
  double agreement;
  double window;   // decisions between updates as it is in use; every so often a longer one is tried
  double dropped;  // worlds that diverged in the update, and were left out of it
  double length;   // s, mean of the evaluation's episodes up to their end; NaN
  double success;  // share of them that were a success; NaN where nothing says what is one
  double mixed;    // share of the likelihood ratio in the update's gradient; NaN where it is not mixed in
  // Mean over the outputs of the deviation before the squash; entropy of a decision, mean over the worlds, and what it counts in
  // costs; NaN where the policy does not explore (docs/policies.md#exploration), or without "entropy".
  double deviation, entropy, temperature;
} pbTrainRow;
enum { PB_TRAIN_COLUMNS = sizeof(pbTrainRow) / sizeof(double) };
PB_API const char *pbTrainRow_Name(int column);  // "update", "robot_steps", "loss", ...; NULL behind the last
// The columns of a table: those of a row, and behind them for each term of the loss "loss:NAME" and "evaluated:NAME", what it
// costs a decision in the update and in the evaluation (decisions that were made; NaN where there was none, and in updates of es
// and sep-cma). Terms of one name are told apart by " 2", " 3", ... name: at least 160 characters.
PB_API int pbTrain_ColumnCount(const pbTrain *train);
PB_API const char *pbTrain_ColumnName(const pbTrain *train, int column, char *name, size_t size);  // "" for another number
PB_API double pbTrain_Number(const pbTrain *train, int row, int column);                           // NaN for other numbers
PB_API void pbTrain_Table(const pbTrain *train, FILE *out);  // all rows as CSV with these names; empty where a number is none
PB_API int pbTrain_RowCount(const pbTrain *train);
PB_API const pbTrainRow *pbTrain_Rows(const pbTrain *train);

typedef struct pbTrainNews {
  int update, updates;
  double steps, steps_per_second;  // of this run
  double seconds, left;            // since it began; estimate, < 0: unknown
  double cost, score, agreement;   // last ones; NaN
  int window;                      // in use
} pbTrainNews;
PB_API const char *pbTrainNews_Say(const pbTrainNews *news, char *text, size_t size);  // in words; returns text
typedef struct pbTrainOptions {
  int threads;    // 0: as many as there are processors; results have the same bits for any number
  bool has_seed;  // else the task's
  uint64_t seed;
  int updates;                                           // end after so many, for this call; 0: the task's
  const char *state_file;                                // written as the run goes and removed by nobody; NULL: none
  bool resume;                                           // go on from state_file where it exists
  double save_seconds;                                   // least time between two writes; 0: 1
  int (*progress)(void *user, const pbTrainNews *news);  // some tens of times a second; nonzero stops: pb_interrupted
  void *user;
} pbTrainOptions;

typedef struct pbTrainResult {
  int updates, best_update;
  double steps;         // robot-steps
  double score, alive;  // of the best policy, by evaluations from starts drawn as those of training are
  double first_score;   // of the policy that training began with
  double seconds;
  double dropped;          // worlds that diverged and were begun anew, in all
  double length, success;  // of the best policy, as in a row
  bool resumed;
  // Of methods that differentiate (bptt, shac): how far gradients reach within a window, after the last update, from where worlds
  // are: the median of those in which they are noise, where that is at least half of those that were looked at; else step -1.
  pbNoise noise;
  int noise_window;     // decisions: what is proposed, half of that; 0
  const double *theta;  // ParamSize: the parameters with the best policy's weights; the training's, until its next Run
  const double *last;   // with the last policy's
} pbTrainResult;
// pb_interrupted: the state file holds all but the running update; call again with resume. pb_not_finite where no world has a
// finite loss.
PB_API PB_NODISCARD pbStatus pbTrain_Run(pbTrain *train, const pbTrainOptions *options, pbTrainResult *result);

// What a policy does in episodes that no training has seen: starts, parameters, commands, pushes and noise are drawn as those of
// training are, from the same laws, and are neither a training's nor its evaluations', whatever the seed.
typedef struct pbTrainTestTerm {
  const char *name;
  double cost;  // a decision, weighed: the mean of decisions that were made
  // Root mean square of its deviation (of several numbers: of their norm; in units of `sigma`; of "above" and "below" of what is
  // missing); NaN of a term of another type.
  double rms;
} pbTrainTestTerm;
typedef struct pbTrainTestEnd {
  const char *name;  // of a term of "done"
  int episodes;      // that it ended, alone or with others
} pbTrainTestEnd;
typedef struct pbTrainTest {
  int starts;
  uint64_t seed;
  double seconds;               // of a whole episode
  double score;                 // loss a decision, as of a row
  int ended, diverged;          // episodes that ended before their time; those of them that diverged
  double length, success;       // as of a row
  double distance;              // m, what the first free body went, level, from decision to decision, mean; NaN: there is none
  int terms, ends;              // of the loss, of "done"
  const pbTrainTestTerm *term;  // the training's, until its next Run, Test or Destroy
  const pbTrainTestEnd *end;
} pbTrainTest;
// `starts` episodes (1 to 100 000) of the policy that the training was loaded with. Of the options threads, seed, progress and user
// count; NULL: defaults. pb_interrupted by progress; pb_not_finite where parameters cannot be.
PB_API PB_NODISCARD pbStatus pbTrain_Test(pbTrain *train, const pbTrainOptions *options, int starts, pbTrainTest *test);
// The same as JSON, which the caller frees by pbContext_Free; what is NaN is null.
PB_API PB_NODISCARD pbStatus pbTrainTest_Json(pbContext *ctx, const pbTrainTest *test, char **text);

// Where gradients are noise in most windows: what is said of it, "" for nothing. Returns text.
PB_API const char *pbTrainResult_Warning(const pbTrainResult *result, char *text, size_t size);

// Where the evaluations' episode `start` (0 on) begins: x0 (StateSize), and what the policy is commanded throughout it (command:
// as many numbers as it observes; NULL where it observes none). After a Run.
PB_API void pbTrain_EvaluationStart(const pbTrain *train, int start, double *x0, double *command);
// Its commands in its first `steps` steps (steps, commands), which may change on the way; and over theta (ParamSize) parameters
// that were drawn for it, with constants that follow. pb_no_memory. After a Run.
PB_API void pbTrain_EvaluationCommand(const pbTrain *train, int start, int steps, double *command);
PB_API PB_NODISCARD pbStatus pbTrain_EvaluationTheta(const pbTrain *train, int start, double *theta);
// Poses of mocap bodies in its first `steps` steps: pos (steps, nmocap, 3), quat (steps, nmocap, 4), vel (steps, nmocap, 6:
// pbInput). False, with nothing written, where they are the model's. After a Run.
PB_API bool pbTrain_EvaluationPath(const pbTrain *train, int start, int steps, double *pos, double *quat, double *vel);

#ifdef __cplusplus
}
#endif
#endif
