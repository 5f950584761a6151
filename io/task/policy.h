// Policies in files: what the reader of "policy" makes, and what the model keeps of it.
#ifndef PB_IO_TASK_POLICY_H
#define PB_IO_TASK_POLICY_H

#include <pullback/array.h>
#include <pullback/policy.h>

#include "compile/spec_pool.h"
#include "io/task/task_reader.h"

#define PB_SAMPLES "normalizer.samples"  // the array of a policy's file that has pbPolicyFile.samples
typedef struct pbPolicyFile {
  pbContext *ctx;
  pbSpecPool pool;  // rows, layers and what they point to
  char *text;       // the object, on one line
  pbNetwork *decide, *act;
  bool trained;    // weights came with it, from an NPZ
  double samples;  // that the numbers of its normalizer are of; 0: not said
  // What a training left beside the weights: of the file they are from (`source`), and of the training since, which is saved in
  // its place. NULL: nothing.
  pbArrays *learned, *left;
  char *source;
} pbPolicyFile;

// ---- task_policy_layers.c
// The list of layers at the reader's present place, over `inputs` numbers; *outputs: how many come out.
PB_NODISCARD pbStatus pbTask_ReadLayers(pbTaskReader *r, const json_t *list, pbSpecPool *pool, int inputs, pbChainDef *chain,
                                        int *outputs);
// A network of layers from a tree. single: the same in float, too; NULL: not wanted.
PB_NODISCARD pbStatus pbTask_CreateNetwork(pbTaskReader *r, const json_t *list, int inputs, uint64_t seed, int *outputs,
                                           pbNetwork **network, pbNetwork **single);
// How many numbers come out of a list whatever goes in; -1 where that follows from what goes in, or the list is none.
int pbTask_LayerOutputs(const json_t *list);

// ---- task_learned.c: arrays "train.*" of a policy's file
// Takes those of a set that was read from `path`; and adds what is there to a set that is written.
PB_NODISCARD pbStatus pbLearned_Take(pbPolicyFile *file, const pbArrays *set, const char *path);
PB_NODISCARD pbStatus pbLearned_Add(const pbPolicyFile *file, pbArrays *set);
void pbLearned_Free(pbPolicyFile *file);

// Into the training that is read, as far as it fits; out of one that has run, to be saved with its policy.
PB_NODISCARD pbStatus pbTask_TakeLearned(pbTaskReader *r, struct pbTrain *t);
PB_NODISCARD pbStatus pbTask_LeaveLearned(struct pbTrain *t);

// ---- task_policy.c
// "policy" of a task into the model that the reader works on: an object, or the name of a file. NULL: none.
// A policy's file, JSON or NPZ. training: as of a reader (pbTaskReader.training).
PB_NODISCARD pbStatus pbPolicy_LoadFor(pbModel *model, const char *path, const pbLoadOptions *options, const json_t *training);
PB_NODISCARD pbStatus pbTask_ReadPolicy(pbTaskReader *r, const json_t *value, pbModel *model);

#endif
