// Reading a task: values of a JSON tree with the place they stand at, so that every error can name file, line and path.
#ifndef PB_IO_TASK_READER_H
#define PB_IO_TASK_READER_H

#include <jansson.h>

#include <pullback/deform.h>
#include <pullback/array.h>
#include <pullback/io.h>
#include <pullback/optimize.h>

#include "base/context.h"
#include "io/roots.h"
#include "optimize/task.h"

enum {
  PB_TASK_PATH = 24,
  PB_TASK_TEXT = 64 << 20,
  PB_TASK_NUMBERS = 1 << 26
};  // depth of a path, bytes of a file, numbers in all

typedef struct pbTaskStep {  // one step of a JSON path: a key, or an index
  const char *key;
  size_t index;
} pbTaskStep;
typedef struct pbTaskReader {
  pbContext *ctx;
  const char *name, *text;
  size_t length;
  char *folder;            // real path; NULL: no files
  pbRoots roots;           // further folders to read from
  const char *allow_root;  // the same as given
  pbTaskStep path[PB_TASK_PATH];
  int depth;
  const pbModel *model;
  const double *theta;
  struct pbTrain *train;  // filled beside the task, where one is read
  struct pbControl *control;
  const json_t *training;  // "train", while a training's policy is read, which draws; else NULL
  const char *policy;      // a file given beside the task (pbPolicy_Load); NULL: none
  bool audit;              // what is wanted is to be audited: variables need not be there
  bool surfaces;           // of meshes are kept (pbLoadOptions)
  bool design;             // masses and frames follow parameters of meshes (pbLoadOptions)
  bool whole;              // what the model was made from is kept (pbModel_LoadWhole)
  bool functions;          // of the host may stand in losses (pbTask_OnFunction)
  bool run;                // what is wanted is a run: no loss is read, and neither steps nor variables need be there
  bool trains;             // the file has a training: weights of its loss may have schedules
  bool learning;           // terms are a training's: they see commands and decisions
  bool window;             // what is read is one of a trajectory's: terms without a sample in it are left out
  int stage;               // of a task with "stages", from 1; 0: the last
  const json_t *laid;      // that one, laid over the file's task; NULL: there are none
  size_t laid_at;          // its index
  json_t *made;            // a list of trees that were made of the file's, kept for their texts; NULL: none
} pbTaskReader;

// Read the text into a tree (json_decref it). Errors name the line.
PB_NODISCARD pbStatus pbTaskReader_Parse(pbTaskReader *r, json_t **root);
PB_NODISCARD pbStatus pbTaskReader_Folders(pbTaskReader *r, const char *folder, const char *allow_root);
// Read a file and set up a reader for it; *text is the caller's to free, after End.
PB_NODISCARD pbStatus pbTaskReader_Open(pbContext *ctx, const char *path, const char *allow_root, pbTaskReader *r, char **text);
void pbTaskReader_End(pbTaskReader *r);

void pbTaskReader_Enter(pbTaskReader *r, const char *key);
void pbTaskReader_EnterAt(pbTaskReader *r, size_t index);
void pbTaskReader_Leave(pbTaskReader *r);
// Record an error at the present place: "task.json:12: loss[0].target: text".
pbStatus pbTaskReader_Fail(const pbTaskReader *r, pbStatus status, const char *format, ...) PB_PRINTF(3, 4);
// The same at member `key` of the present place.
PB_NODISCARD pbStatus pbTaskReader_FailAt(pbTaskReader *r, const char *key, const char *format, ...) PB_PRINTF(3, 4);
// The same with the context's present text as reason.
pbStatus pbTaskReader_FailAgain(const pbTaskReader *r, pbStatus status);

// The keys of an object, a row each: what may stand there and where it goes, in a struct that holds the defaults.
typedef enum pbTaskKeyKind {
  pb_keyPart,      // read by its own reader, or not at all ("comment")
  pb_keyReal,      // double, from least to most where these differ
  pb_keyPositive,  // double, above zero
  pb_keyInt,       // int, from least to most
  pb_keyBool,      // bool
  pb_keyText,      // const char *, which lives as long as the tree
  pb_keyWord       // int or enum: the place of the word in `words`
} pbTaskKeyKind;
typedef struct pbTaskKey {
  const char *name;  // NULL ends the rows
  pbTaskKeyKind kind;
  size_t at;  // in the struct
  double least, most;
  const char *const *words;  // NULL ends them
} pbTaskKey;
#define PB_KEY_PART(key) \
  { .name = key }
#define PB_KEY(key, what, type, member) \
  { .name = key, .kind = pb_key##what, .at = offsetof(type, member) }
#define PB_KEY_FROM(key, what, type, member, low, high) \
  { .name = key, .kind = pb_key##what, .at = offsetof(type, member), .least = low, .most = high }
#define PB_KEY_WORD(key, type, member, list) \
  { .name = key, .kind = pb_keyWord, .at = offsetof(type, member), .words = list }
#define PB_KEYS_END \
  { .name = NULL }
// Object with no other keys than these, and the values of those that are no parts; absent ones leave theirs as they are.
PB_NODISCARD pbStatus pbTaskReader_Fill(pbTaskReader *r, const json_t *object, const pbTaskKey *keys, void *into);
PB_NODISCARD pbStatus pbTaskReader_KnowsKeys(const pbTaskReader *r, const json_t *object,
                                             const pbTaskKey *keys);  // the first alone
PB_NODISCARD pbStatus pbTaskReader_Key(pbTaskReader *r, const json_t *object, const pbTaskKey *key, void *into);  // one of them

// Object with no other keys than these (NULL ends them).
PB_NODISCARD pbStatus pbTaskReader_Keys(const pbTaskReader *r, const json_t *object, const char *const *keys);
// Members; absent ones leave *out as it is.
PB_NODISCARD pbStatus pbTaskReader_Real(pbTaskReader *r, const json_t *object, const char *key, double *out);
// The same from 0 to most.
PB_NODISCARD pbStatus pbTaskReader_NotNegative(pbTaskReader *r, const json_t *object, const char *key, double most, double *out);
PB_NODISCARD pbStatus pbTaskReader_Int(pbTaskReader *r, const json_t *object, const char *key, int lower, int upper, int *out);
PB_NODISCARD pbStatus pbTaskReader_Bool(pbTaskReader *r, const json_t *object, const char *key, bool *out);
PB_NODISCARD pbStatus pbTaskReader_Text(pbTaskReader *r, const json_t *object, const char *key, const char **out);

// A number, a list of numbers, or a list of equally long lists of numbers.
typedef struct pbTaskNumbers {
  double *data;  // free with pbContext_Free
  size_t rows, cols;
  bool nested;  // a list of lists
} pbTaskNumbers;
PB_NODISCARD pbStatus pbTaskReader_Numbers(pbTaskReader *r, const json_t *value, pbTaskNumbers *out);
// The same of samples: null is one that is missing, NaN.
PB_NODISCARD pbStatus pbTaskReader_Samples(pbTaskReader *r, const json_t *value, pbTaskNumbers *out);
// The same of a member, spread to `count` numbers (one for all, or one each); absent: untouched.
PB_NODISCARD pbStatus pbTaskReader_Spread(pbTaskReader *r, const json_t *object, const char *key, size_t count, double *out);

// Path of a file named in the task, which must lie in its folder or below an allowed root; free with pbContext_Free.
PB_NODISCARD pbStatus pbTaskReader_Path(const pbTaskReader *r, const char *file, char **path);
// Arrays of member "file", all numbers finite; of a recording, of which a CSV may lack samples, which are NaN; as they are. pb_ok
// or no set.
PB_NODISCARD pbStatus pbTaskReader_Load(pbTaskReader *r, const json_t *object, pbArrays **set);
PB_NODISCARD pbStatus pbTaskReader_LoadRecording(pbTaskReader *r, const json_t *object, pbArrays **set);
PB_NODISCARD pbStatus pbTaskReader_LoadSamples(pbTaskReader *r, const json_t *object, pbArrays **set);

// A name, a list of names, or true: ids of kind (with `all` of them for true). ids freed by the caller.
PB_NODISCARD pbStatus pbTaskReader_Points(pbTaskReader *r, const json_t *value, int **ids, int *count);
PB_NODISCARD pbStatus pbTaskReader_Ids(pbTaskReader *r, const json_t *value, pbObject kind, int all, int **ids, int *count);
PB_NODISCARD pbStatus pbTaskReader_Id(pbTaskReader *r, const char *name, pbObject kind, int *id);
// Member "components": a list of indices below `limit`; absent: all. `chosen` has room for `limit`.
PB_NODISCARD pbStatus pbTaskReader_Components(pbTaskReader *r, const json_t *object, int limit, int *chosen, int *count);

double pbTaskReader_Timestep(const pbTaskReader *r);

// ---- parts of a task (each file of io/task_*.c one)
PB_NODISCARD pbStatus pbTask_ReadVariables(pbTaskReader *r, const json_t *root, pbTask *task);
// The file of a target (task_csv.c): its arrays, or, of a CSV, the columns of what the term names as one array `name` of rows as
// wide as its target, with the times beside it. columns: of each target entry in a full row.
PB_NODISCARD pbStatus pbTask_LoadTarget(pbTaskReader *r, const json_t *target, const char *name, const pbTerm *t,
                                        const int *columns, pbArrays **set);
// "controls" of a trajectory (task_controls.c).
typedef struct pbTaskControls {
  double *data;          // as they are written, or an array of a file; NULL: not given, or a recording
  size_t rows, cols;     // rows: of a recording the steps that it covers; 1: one holds throughout
  pbRecorded *recorded;  // at times of its own, or delayed
  double delay;          // s
  const char *file;      // where they are from; it lives as long as the tree
} pbTaskControls;
PB_NODISCARD pbStatus pbTask_ReadControls(pbTaskReader *r, const json_t *value, pbTaskControls *c);
// To each step, where nothing is given what the keyframe has; the trajectory takes over the recording.
PB_NODISCARD pbStatus pbTask_SpreadControls(pbTaskReader *r, pbTaskControls *c, int key, pbTrajectory *tr);
// "states" of a trajectory whose initial state and steps are known (task_states.c).
PB_NODISCARD pbStatus pbTask_ReadStates(pbTaskReader *r, const json_t *value, pbTrajectory *tr);
PB_NODISCARD pbStatus pbTask_NormalizeJoints(pbTaskReader *r, double *x);  // quaternions of a state to length one
// Samples that delays of actuators look back at become what acted before the trajectory begins, by the same recording or row.
void pbTask_LookBack(const pbTaskReader *r, pbTrajectory *tr);
void pbTaskControls_Free(pbContext *ctx, pbTaskControls *c);
// They are a recording from here on, whose delay varies.
PB_NODISCARD pbStatus pbTask_RecordControls(pbTaskReader *r, pbTrajectory *tr);
// Of a training: neither it nor one of its trajectories has controls, but for zeros, or states.
PB_NODISCARD pbStatus pbTask_RefuseControls(pbTaskReader *r, const json_t *root);
// Of a trajectory with recorded controls: pb_bad_input for a delay with which no step sees more than their first sample.
PB_NODISCARD pbStatus pbTask_CheckControlDelay(pbTaskReader *r, const pbTrajectory *tr, double delay);
// Inputs of every so many steps are none of a run's.
PB_NODISCARD pbStatus pbTask_CheckThinned(pbTaskReader *r, const json_t *value, const pbArrays *set);
// The terms of a "loss" on a trajectory whose set was begun.
PB_NODISCARD pbStatus pbTask_ReadLoss(pbTaskReader *r, const json_t *loss, pbTermSet *set);
// Axes and quaternions that a variable has all components of (task_rows.c): which; that their keys make sense; starts of length
// one, and no bounds.
PB_NODISCARD pbStatus pbVariable_FindRows(pbTaskReader *r, pbVariable *v);
PB_NODISCARD pbStatus pbVariable_CheckRows(pbTaskReader *r, const json_t *object, const pbVariable *v);
PB_NODISCARD pbStatus pbVariable_StartRows(pbTaskReader *r, const pbVariable *v, double *start, double *lower, double *upper);
// A trajectory has poses of mocap bodies of its own from here on, and what an unknown of this kind is about.
PB_NODISCARD pbStatus pbTask_GivePoses(pbTaskReader *r, pbTask *task, pbTrajectory *tr, pbVariableKind kind);
PB_NODISCARD pbStatus pbTask_ReadTrajectories(pbTaskReader *r, const json_t *root, pbTask *task);
PB_NODISCARD pbStatus pbTask_ReadAudit(pbTaskReader *r, const json_t *root, pbTask *task);
// "train", "episode" and "loss" of a task that is audited now: nothing is kept of them.
PB_NODISCARD pbStatus pbTask_CheckTraining(pbTaskReader *r, const json_t *root, pbTask *task);
// "audit" of a training, whose episodes are of so many seconds: with its loss, of which nothing is kept.
PB_NODISCARD pbStatus pbTask_CheckAudit(pbTaskReader *r, const json_t *root, pbTask *task, double seconds);
// "optimizer" where there is one; "stop" (NULL: none).
PB_NODISCARD pbStatus pbTask_ReadMethod(pbTaskReader *r, const json_t *object, pbTask *task);
PB_NODISCARD pbStatus pbTask_ReadStop(pbTaskReader *r, const json_t *object, pbTask *task);
PB_NODISCARD pbStatus pbTask_ReadOptimizer(pbTaskReader *r, const json_t *root, pbTask *task);
// The parameter slice "name" or "name:row" or "name:row:component".
PB_NODISCARD pbStatus pbTask_FindParam(pbTaskReader *r, const char *name, pbParam *param);
// The same of one that may vary.
PB_NODISCARD pbStatus pbTask_FindVariedParam(pbTaskReader *r, const char *name, bool recompute, pbParam *param);
// Member "parameter" or "state" (one is there) with its others and "components"; *index is the caller's to free, also after an
// error.
PB_NODISCARD pbStatus pbTask_ReadSlice(pbTaskReader *r, const json_t *object, const pbTask *task, pbVariableKind *kind,
                                       size_t **index, int *count);
// "sample", when variables are known.
PB_NODISCARD pbStatus pbTask_ReadSample(pbTaskReader *r, const json_t *root, pbTask *task);
// Of a variable with "sets": name and index from its keys; when all variables are known, the formulas.
PB_NODISCARD pbStatus pbTask_ReadTargets(pbTaskReader *r, const json_t *object, bool recompute, pbVariable *v);
PB_NODISCARD pbStatus pbTask_ReadTies(pbTaskReader *r, const json_t *list, pbTask *task);
// Model and parameters: what a task shares with a run of the same world.
PB_NODISCARD pbStatus pbTask_ReadWorld(pbTaskReader *r, const json_t *root, pbTask *task);
PB_NODISCARD pbStatus pbTask_ReadMode(pbTaskReader *r, const json_t *root, pbTask *task);  // "mode", "gradient"
// ---- several starts (task_starts.c)
// The same once more, by another context; of a task with stages one of these, from 1 (0: the last).
PB_NODISCARD pbStatus pbTask_Again(pbContext *ctx, const pbTask *task, int stage, pbTask **made);
void pbTask_ShareFunctions(const pbTask *from, pbTask *to);
PB_NODISCARD pbStatus pbTask_RunStarts(pbTask *task, const pbRunOptions *options, pbRunResult *result);
// ---- stages (task_laid.c, task_stages.c)
// The task of the reader's stage: the file's own tree, or one with the stage laid over it. json_decref it.
PB_NODISCARD pbStatus pbTask_Lay(pbTaskReader *r, json_t *file, json_t **root);
PB_NODISCARD pbStatus pbTask_KeepStages(pbTaskReader *r, const json_t *file, pbTask *task);  // their names
PB_NODISCARD pbStatus pbTask_RunStages(pbTask *task, const pbRunOptions *options, pbRunResult *result);
// What reads a part of a task from its tree, and a file by it. policy, train: as in the reader.
typedef pbStatus (*pbReadPart)(pbTaskReader *r, const json_t *root, pbTask *task);
PB_NODISCARD pbStatus pbTask_ReadWhole(pbTaskReader *r, const json_t *root, pbTask *task);
PB_NODISCARD pbStatus pbTask_LoadPart(const pbTaskReader *with, const char *path, pbReadPart read, pbTask **task);
// The seed of a task, a whole number up to 2^53.
PB_NODISCARD pbStatus pbTaskReader_Seed(pbTaskReader *r, const json_t *root, uint64_t *seed);

// ---- state files (task_run.c): what a run was made from, and its numbers; written whole or not at all
typedef struct pbStateFile {
  pbContext *ctx;
  const char *path, *made_from;
} pbStateFile;
pbRunStore pbStateFile_Store(pbStateFile *file);
// Of a training (task_train_state.c), which may go on with another number of updates: no fewer than there were.
typedef struct pbTrainFile {
  pbStateFile file;
  const struct pbTrain *train;
} pbTrainFile;
pbRunStore pbTrainFile_Store(pbTrainFile *file);

// Of a training (task_ramps.c): "ramps" of "train", and schedules of the loss's weights.
PB_NODISCARD pbStatus pbTrain_ReadRamps(pbTaskReader *r, const json_t *train, struct pbTrain *t);
// "noise" and "entropy" (task_explore.c), after the method.
PB_NODISCARD pbStatus pbTrain_ReadExploration(pbTaskReader *r, const json_t *train, struct pbTrain *t);
PB_NODISCARD pbStatus pbTrain_ReadSchedules(pbTaskReader *r, const json_t *loss, struct pbTrain *t);

// "urdf" of a task, zero where there is none. *package_path belongs to the caller, also on failure.
PB_NODISCARD pbStatus pbTask_ReadUrdf(pbTaskReader *r, const json_t *root, pbUrdfOptions *urdf, char **package_path);

// Model and parameters of a task file, as a model.
PB_NODISCARD pbStatus pbTask_LoadModel(pbContext *ctx, const char *path, const pbLoadOptions *options, bool whole,
                                       pbModel **model);
extern const char *const pbTask_Keys[];  // of a task file
// made_from of a task (optimize/task.h), gathered while it is read.
typedef struct pbManifest {
  pbContext *ctx;
  pbFileWatch before;  // who watched what ctx opens, and goes on doing so
  char *text;          // NULL: no memory, or nothing yet
  size_t length;
  bool failed, stopped;
  int unread;      // errno of the first file that could not be read, 0: all could
  char file[400];  // that one
} pbManifest;
void pbManifest_Begin(pbManifest *m, pbContext *ctx);                    // and watches what ctx opens
void pbManifest_AddTask(pbManifest *m, const json_t *root);              // all of it but its iterations
void pbManifest_Add(pbManifest *m, const char *name, const char *text);  // of whatever else the result depends on
void pbManifest_Stop(pbManifest *m);                                     // watches no more
PB_NODISCARD pbStatus pbManifest_End(pbManifest *m, char **text);        // the same; the caller frees *text, on failure too

// What an interrupted run has left (kept.c): arrays, with made_from beside them, written whole or not at all.
PB_NODISCARD pbStatus pbState_Load(pbContext *ctx, const char *path, const char *made_from,
                                   pbArrays **set);  // NULL: no such file
PB_NODISCARD pbStatus pbState_Save(const char *path, const char *made_from, pbArrays *set);
// Why a state is not taken, with the way out.
PB_NODISCARD pbStatus pbState_Refuse(pbContext *ctx, const char *path, const char *why);

#endif
