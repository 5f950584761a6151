// Inside of a batch: what each world has, what each thread has, and the call at hand.
#ifndef PB_BATCH_H
#define PB_BATCH_H

#include <stdatomic.h>

#include <pullback/batch.h>

#include "batch/sum.h"
#include "rollout/rollout.h"
#include "world/policy_pack.h"

enum { PB_BATCH_TEXT = 512 };

// ---- the parts of a batch --------------------------------------------------------------------------------------------
typedef struct pbBatchSlice {  // a part of theta of which each world has its own values
  pbParam param;
  size_t column, size;  // in the rows of own values, or of constants
} pbBatchSlice;

typedef struct pbBatchSlot {  // what a thread has for one world
  pbRollout *rollout;
  pbTrack bare;
  double *bar;  // gradient of one world
  int world;    // of a pack: that in this slot, and how it went
  pbStatus status;
  char error[PB_BATCH_TEXT];
} pbBatchSlot;

typedef struct pbBatchWorker {  // what a thread has
  struct pbBatch *batch;
  int index;  // 0: the caller's
  pbContext *ctx;
  pbBatchSlot slot[PB_PACK];  // the first for worlds one by one
  pbRollout *planned;         // runs worlds again that have no tape of their own; NULL where none needs it
  int planned_world;          // which it has run last, -1: none
  int slots;                  // 1, or PB_PACK where worlds of a group go together
  pbPolicyPack *pack;
  int group, packed;   // group of the worlds in the slots, -1: none; how many they are
  atomic_int at;       // steps of the call that the world at hand has come to, for progress
  int sweep, sweeps;   // 2: it is run again before its derivative, and which of both this is
  double *theta;       // ParamSize, of the world at hand, where worlds have own values
  double *theta_left;  // likewise, before a new start that has others
  int pulled, part;    // of the gradient at hand: the world, and in which part of its tape it is
  bool filled;         // it has the shared values of this call
} pbBatchWorker;

// What acts on the worlds of a training beside inputs (pbRollout.kick, noise): (worlds, steps, nv), (worlds, steps, observed).
typedef struct pbDisturbance {
  const double *kick, *noise;
} pbDisturbance;

struct pbBatch {
  pbContext *ctx;
  const pbModel *model;
  pbPool *pool;
  int threads, worlds, steps, restarts;
  bool shared_inputs, own_given;
  size_t budget;
  bool thin, partial;  // worlds have no tapes of their own; those that failed have derivatives
  int nx, n, nu, nv, na, ns, nbody, nsite, ncommand, nmocap, nobservation;
  size_t ntheta, record;
  pbBatchWorker *worker;

  // Worlds.
  double *states;           // (worlds, nx)
  double *starts;           // (worlds, nx): of the last rollout, where a world may have to be run again
  int *made;                // (worlds): steps that each made in it
  double *records, *ends;   // (worlds, steps, record), (worlds, record + nx)
  double *left;             // (worlds, restarts, record)
  double *left_input;       // (worlds, restarts + 1, pbTrack_InputSize)
  int *restart_at;          // (worlds, restarts)
  pbTrack *track;           // (worlds), where there are tapes
  bool *active, *has_tape;  // takes part in this call; in the last rollout, or its parts so far, and did not fail
  pbStatus *status;
  char (*error)[PB_BATCH_TEXT];
  pbReport *report;

  // Own parameters, and constants derived from them.
  pbBatchSlice *own, *constant;
  int own_count, constant_count;
  size_t own_size, constant_size;
  double *own_value, *constant_value;  // (worlds, own_size), (worlds, constant_size)
  bool *pulled;                        // ntheta: entries that the gradient of the constants goes on to
  double *part_value;                  // (worlds, restarts + 1, own_size + constant_size): from each new start on, if given
  bool pulls_constants;                // some entry of those is one that constants are read from
  bool *derived;                       // (worlds): its constants are its own

  pbGroupSum sum;  // of gradients by what worlds share

  pbDisturbance disturbance;

  // The call at hand, or the last rollout.
  const double *theta;
  pbBatchInput input;
  int tape_steps;           // -1: there is no tape
  int part_steps, reached;  // of a rollout in parts, and where it has come to; -1: there is none
  pbGroups groups;          // of active worlds
  int failed;

  // Progress.
  pbProgressFunction progress;
  void *progress_user;
  const char *phase;
  double begun, told;
  int total, length;  // worlds; steps of each
  int64_t told_steps;
  atomic_int done, stopped;  // worlds that have come to their end
};

// ---- call.c: worlds that take part, groups of them on threads, how it went ------------------------------------------------
// Which worlds take part: ids, or those of the last rollout (pb_bad_argument where there is none).
// steps: of each world, for progress.
PB_NODISCARD pbStatus pbBatch_Begin(pbBatch *b, const double *theta, const int *ids, int count, int steps, const char *phase);
// Those that have come through all parts so far.
PB_NODISCARD pbStatus pbBatch_BeginPart(pbBatch *b, int steps, const char *phase);
PB_NODISCARD pbStatus pbBatch_BeginTape(pbBatch *b, const char *phase);
typedef pbStatus (*pbBatchWork)(pbBatchWorker *worker, int world, const void *user);
// work for each active world, in groups, on the pool.
void pbBatch_Each(pbBatch *b, pbBatchWork work, const void *user);
// The same for one world, which gets the status: true where all went well. No work once the call is stopped.
bool pbBatch_Do(pbBatchWorker *worker, int world, pbBatchWork work, const void *user);
PB_NODISCARD pbStatus pbBatch_End(pbBatch *b);

// Whether the caller's thread tells of progress while it waits for the others.
void pbBatch_Watch(pbBatch *b, bool on);

// Every rollout that a thread has, by number; NULL past the last.
pbRollout *pbBatch_RolloutAt(const pbBatchWorker *worker, int index);

// ---- derivative.c: pbBatch_Vjp, told of each world at marks: of those that fail afterwards, too.
PB_NODISCARD pbStatus pbBatch_VjpMarked(pbBatch *b, const pbRolloutBar *bar, const pbVjpOptions *options,
                                        const pbBatchGradient *gradient, const pbPullMarks *marks);

// ---- pack.c: the worlds of a group step by step, so that a policy's functions are called once for all of them -----------------
// Whether they can, in the call at hand.
bool pbBatch_Packs(const pbBatch *b);
// The world's slot after `work`, which is done once for its group: slots 0 .. packed - 1, each with its world. Returns its
// status.
typedef void (*pbBatchPackWork)(pbBatchWorker *worker, const void *user);
PB_NODISCARD pbStatus pbBatch_InPack(pbBatchWorker *worker, int world, pbBatchPackWork work, const void *user,
                                     pbBatchSlot **slot);
// Of a slot from here on, unless it has failed before; a failure takes the text of the worker's context.
void pbBatch_SetSlot(pbBatchWorker *worker, pbBatchSlot *slot, pbStatus status);
// Functions of the policy for the slots that have not failed. step: for messages.
void pbBatch_CallPack(pbBatchWorker *worker, int step);
void pbBatch_PullPack(pbBatchWorker *worker, const pbPulling *pulling, int step);

// ---- parameters.c ---------------------------------------------------------------------------------------------------------
PB_NODISCARD pbStatus pbBatch_CreateOwn(pbBatch *b, const pbBatchOptions *options);
void pbBatch_DestroyOwn(pbBatch *b);
// Parameters of a world, in the worker's memory where it has own ones.
const double *pbBatch_ThetaOf(pbBatchWorker *worker, int world);
// The same at the beginning of a part from step `first` on: where its own values are others than before, the rollout is told what
// they were, and derived constants follow. NotePart: after the part has begun.
PB_NODISCARD pbStatus pbBatch_EnterPart(pbBatchWorker *worker, pbRollout *r, int world, int first, const double **theta);
void pbBatch_NotePart(pbBatch *b, int world);
// Before a gradient: passing new starts on its way back it finds the values of the parts before them.
void pbBatch_PullParts(pbBatchWorker *worker, pbRollout *r, int world);
// A world's gradient by all of theta: what own values have of it is added to `own` (own_size; NULL: not wanted) and taken out.
PB_NODISCARD pbStatus pbBatch_PullOwn(pbBatchWorker *worker, int world, double *theta_bar, double *own);
// A world's direction of theta: the shared one (NULL: zero) with its own values' in it.
PB_NODISCARD pbStatus pbBatch_PushOwn(pbBatchWorker *worker, int world, const double *shared, const double *own,
                                      double *direction);

// ---- forward.c ----------------------------------------------------------------------------------------------------------
// Of rollouts from here on; not with tapes that worlds have no memory for.
void pbBatch_Disturb(pbBatch *b, const pbDisturbance *disturbance);
void pbBatch_DisturbWorld(const pbBatch *b, pbRollout *r, int world, int steps);
// A world's part of arrays of inputs of `steps` steps, and of one of them.
pbRolloutInput pbBatch_InputOf(const pbBatch *b, int world, int steps);
size_t pbBatch_InputSize(const pbBatch *b, int width, int steps);
const double *pbBatch_Row(const double *data, int world, size_t size);

#endif
