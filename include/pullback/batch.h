// Pullback: many worlds of one model, side by side on threads, and their derivatives.
//
//   pbPool_Create(ctx, 8, &pool);
//   pbBatchOptions options = {.worlds = 4096, .pool = pool, .steps = 32};
//   pbBatch_Create(ctx, model, &options, &batch);                     all memory is had here
//   double *x = pbBatch_States(batch);                                (worlds, StateSize): the caller's to read and write
//   pbBatch_Rollout(batch, theta, ids, count, 32, &input, &output);   states go on, the tape stays
//   pbBatch_Vjp(batch, &bar, NULL, &gradient, certificates);          of the last rollout
//
// All arrays have one row a world, by the world's number, also where only some worlds (`ids`) take part: rows of the others are
// neither read nor written. ids: ascending numbers, `count` of them; NULL: all worlds.
//
// A world's results do not depend on its neighbours, on which worlds take part beside it, or on the number of threads, to the
// bit: they are those of pbStep_Forward and of pbRollout. Gradients of what worlds share are sums over a binary tree of world
// numbers. So they have the same bits for any number of threads, too, and a world that takes no part, or failed, is left out of
// the sum, whatever its number.
//
// A world that fails (a state that grows beyond bounds, a solve that fails) stays where it was at the start of the failing step;
// all others go on. The call returns the status of the failed world with the lowest number, the context's text names it, and
// pbBatch_Failed says how many there are (0: the call itself was wrong, or interrupted). Whoever can do without looks at
// pbBatch_Status world by world.
#ifndef PULLBACK_BATCH_H
#define PULLBACK_BATCH_H

#include <pullback/policy.h>
#include <pullback/pool.h>
#include <pullback/rollout.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { pb_batchPack = 8 };  // most worlds that one task of a thread goes through

typedef struct pbBatchOptions {
  int worlds;    // 1 or more
  pbPool *pool;  // borrowed, outlives the batch; NULL: the caller's thread alone
  int steps;     // longest rollout that a Vjp, Jvp or Linearize may follow: tape of pbTape_Size x steps a world; 0: none
  // Bytes of tapes, 0: no limit. Where those of all worlds take more, and of a single world, a thread has the tape of one world
  // at a time, checkpointed (pbRollout_Plan) within its share of the budget, and derivatives run a world again from its start,
  // with the same bits. Not with parts or packs, and Linearize needs a share that holds all steps.
  size_t budget;
  // Derivatives of a rollout take worlds that failed, too, as far as they came: cotangents of later states have no effect.
  bool partial;
  int restarts;            // new starts that a world may have within such a rollout (pbBatch_RolloutPart)
  bool shared_inputs;      // Vjp may be asked for gradients of inputs that worlds share: memory for their sums
  const char *const *own;  // names of parameters (pbModel_Param) of which each world has its own values
  int own_count;
  // Own values are data: no gradient is taken by them, which costs less, and a new start (pbBatch_RolloutPart) may have others.
  bool own_given;
  int lanes;            // worlds in the lanes of one register: 1, or 0 for what is there, which is 1
  pbCapacity capacity;  // of the scratch of each thread
} pbBatchOptions;

// The model is const and outlives the batch; scratch memory is by threads, not by worlds. Allocation hooks of ctx are called from
// the pool's threads where a call has to allocate: spot checks, Derive, growing room for contacts.
// pb_bad_argument with what was expected and found. Here and below no argument may be NULL but where it says so (and ids: all
// worlds); of options the pool may, and `own` where own_count is 0.
typedef struct pbBatch pbBatch;
PB_API PB_NODISCARD pbStatus pbBatch_Create(pbContext *ctx, const pbModel *model, const pbBatchOptions *options, pbBatch **batch);
PB_API void pbBatch_Destroy(pbBatch *batch);  // NULL is fine

PB_API int pbBatch_Worlds(const pbBatch *batch);
// (worlds, StateSize): the caller's to read and write between calls. After Create: pbState_Init with the model's own parameters.
PB_API double *pbBatch_States(pbBatch *batch);
// Worlds begin anew: at the rows of x0 (worlds, StateSize), or where that is NULL as pbState_Init (keyframe >= 0, or -1) with
// their parameters. Everything of them is as new, the solver's warm start, too. theta as in Step.
PB_API PB_NODISCARD pbStatus pbBatch_Reset(pbBatch *batch, const double *theta, const int *ids, int count, int keyframe,
                                           const double *x0);

// ---- parameters ---------------------------------------------------------------------------------------------------
// Calls take the parameters that worlds share: theta (ParamSize), NULL: pbModel_DefaultParams. Values that a world has of its own
// stand in their place. Own values: (worlds, OwnSize), after Create those of the model; the caller's to write between calls, but
// not between a rollout and its derivatives. With own_given also between the parts of a rollout, of worlds that begin anew there:
// what is behind the new start has the new values (and constants that follow, where Derive made them the world's own), what is
// before it, its derivatives too, the old ones. Columns: the slices of `own`, one after the other.
PB_API size_t pbBatch_OwnSize(const pbBatch *batch);
PB_API double *pbBatch_Own(pbBatch *batch);
PB_API pbParam pbBatch_OwnAt(const pbBatch *batch, int index, size_t *column);  // slice number `index` and its first column
// All parameters of a world as a call with `shared` sees them: theta (ParamSize) is written.
PB_API void pbBatch_Theta(const pbBatch *batch, const double *shared, int world, double *theta);
// Derived constants (pbModel_SetConstants) of each world from its own values: afterwards they are its own, too, and gradients go
// through them. Before, worlds use those of theta.
PB_API PB_NODISCARD pbStatus pbBatch_Derive(pbBatch *batch, const double *theta, const int *ids, int count);
// pbRollout_WantParameters and pbRollout_SetGradient, for all worlds. Own values are always wanted.
PB_API PB_NODISCARD pbStatus pbBatch_WantParameters(pbBatch *batch, const char *const *names, int count);
PB_API PB_NODISCARD pbStatus pbBatch_SetGradient(pbBatch *batch, pbGradientKind kind);

// ---- forward ------------------------------------------------------------------------------------------------------
// What acts, NULL: zero; of mocap bodies the model's poses. Of each array (worlds, steps, width) where `shared` has not its bit,
// else (steps, width) for all worlds; constant: one row each for all steps, (worlds, width) or (width). Width nu, nv, 6 nbody,
// the policy's commands, 3 nmocap, 4 nmocap and 6 nmocap (pb_sharedMocap is of all). mocap_*_before: (worlds, 3 or 4 nmocap),
// shared (3 or 4 nmocap).
enum { pb_sharedCtrl = 1, pb_sharedQfrc = 2, pb_sharedXfrc = 4, pb_sharedCommand = 8, pb_sharedMocap = 16 };
typedef struct pbBatchInput {
  const double *ctrl, *qfrc, *xfrc, *command, *mocap_pos, *mocap_quat;
  const double *mocap_vel, *mocap_pos_before, *mocap_quat_before;  // as of pbRolloutInput; single steps take no poses before
  bool constant;
  unsigned shared;
} pbBatchInput;

// What is to be kept, NULL: not wanted. (worlds, steps + 1, width), or with `rows` (worlds, row_count, width), see
// pbRolloutOutput; after the step at which a world failed its rows are left as they were.
typedef struct pbBatchOutput {
  double *states;      // StateSize
  double *sensordata;  // nsensordata
  double *xpos, *site_xpos;
  const int *rows;
  int row_count;
  int *steps_done;  // (worlds)
} pbBatchOutput;

// One step. input: as of a rollout of one step. sensordata: (worlds, nsensordata) at the states before; may be NULL.
PB_API PB_NODISCARD pbStatus pbBatch_Step(pbBatch *batch, const double *theta, const int *ids, int count,
                                          const pbBatchInput *input, double *sensordata);
// What the model's policy sees at the states (pbPolicy_Observe): (worlds, observations). pb_bad_argument without a policy.
PB_API PB_NODISCARD pbStatus pbBatch_Observe(pbBatch *batch, const double *theta, const int *ids, int count,
                                             const pbBatchInput *input, double *observation);
// `steps` steps from the states, which go on to the last. theta and input are read again by Vjp, Jvp and Linearize: they are the
// caller's, and stay as they are until then. input, output may be NULL.
PB_API PB_NODISCARD pbStatus pbBatch_Rollout(pbBatch *batch, const double *theta, const int *ids, int count, int steps,
                                             const pbBatchInput *input, const pbBatchOutput *output);
// The same in parts, for all worlds: steps first .. last - 1 of a rollout of `steps`, which theta, input, output and the tape are
// of. The first part begins at 0, each further one where the one before has ended, with the same of all else; worlds that have
// failed stay out. Between parts the caller may write to the states: what is written is a new start, which owes nothing to what
// was before, and the row of output there, with its cotangents, is of the state that was left, with the inputs that its row had
// then: behind a new start the caller may have written others.
// pb_bad_argument where parts do not follow one another, and of a world with more new starts than pbBatchOptions.restarts.
PB_API PB_NODISCARD pbStatus pbBatch_RolloutPart(pbBatch *batch, const double *theta, int steps, int first, int last,
                                                 const pbBatchInput *input, const pbBatchOutput *output);

// ---- derivatives of the last rollout, by the worlds that took part and did not fail ------------------------------------
// Cotangents: data is (worlds, count, width), the same count and steps for all worlds.
// Added to, NULL: not wanted; rows of worlds that fail stay as they were.
typedef struct pbBatchGradient {
  double *x0;                            // (worlds, TangentSize)
  double *ctrl, *qfrc, *xfrc, *command;  // shapes of the input: of shared ones the sum (pbBatchOptions.shared_inputs)
  double *mocap_pos, *mocap_rot;         // 3 nmocap each, see pbInputBar; else likewise
  double *mocap_vel, *mocap_pos_before, *mocap_rot_before;  // 6 nmocap; 3 nmocap each, one row; as of pbRolloutGradient
  double *theta;  // ParamSize: the sum over worlds of the gradients by what they share; entries of own values stay
  double *own;    // (worlds, OwnSize); pb_bad_argument with own_given
} pbBatchGradient;
// options: as of pbRollout_Vjp, the seed of its spot check moved on by the world's number; certificate: (worlds), may be NULL.
// May be called several times. Spot checks, and Jvp, know no new starts: pb_unsupported.
PB_API PB_NODISCARD pbStatus pbBatch_Vjp(pbBatch *batch, const pbRolloutBar *bar, const pbVjpOptions *options,
                                         const pbBatchGradient *gradient, pbCertificate *certificate);

// One direction for each world; NULL: zero.
typedef struct pbBatchDirection {
  const double *x0;                            // (worlds, TangentSize)
  const double *ctrl, *qfrc, *xfrc, *command;  // shapes of the input
  const double *mocap_pos, *mocap_rot;         // those of pbBatchGradient
  const double *mocap_vel, *mocap_pos_before, *mocap_rot_before;
  const double *theta;  // ParamSize, the same for all; entries of own values are not read
  const double *own;    // (worlds, OwnSize)
} pbBatchDirection;
typedef struct pbBatchTangent {  // (worlds, steps + 1 or row_count, width) each; NULL: not wanted
  double *x;                     // TangentSize
  double *sensordata, *xpos, *site_xpos;
  const int *rows;
  int row_count;
} pbBatchTangent;
PB_API PB_NODISCARD pbStatus pbBatch_Jvp(pbBatch *batch, const pbBatchDirection *direction, const pbBatchTangent *tangent);
// `count` directions for each world, together (pbRollout_Jvp): in every array one after the other, (count, worlds, ...), theta
// (count, ParamSize). pb_bad_argument for less than one.
PB_API PB_NODISCARD pbStatus pbBatch_JvpAlong(pbBatch *batch, int count, const pbBatchDirection *direction,
                                              const pbBatchTangent *tangent);
// Second derivatives of each world (pbRollout_Second), on the threads of the pool: how what Vjp gives changes along the world's
// direction, the product of a loss's Hessian and that direction where the cotangents are those of the loss and bar_tangent how
// these change. gradient: x0, ctrl, qfrc, xfrc, added to, sums of what worlds share; the others must be NULL. What is refused
// there is refused here, and new starts on the way as by Jvp.
typedef struct pbBatchSecond {
  const pbBatchDirection *direction;      // NULL: nothing moves
  const pbRolloutBar *bar, *bar_tangent;  // as of Vjp; NULL: zero
  pbBatchGradient gradient;
} pbBatchSecond;
PB_API PB_NODISCARD pbStatus pbBatch_Second(pbBatch *batch, const pbBatchSecond *second);
// How far derivatives reach (pbRollout_Noise), of each world: noise (worlds). The seed of world w is options->seed + w.
PB_API PB_NODISCARD pbStatus pbBatch_Noise(pbBatch *batch, const pbNoiseOptions *options, pbNoise *noise);
// Jacobians of every step of the last rollout, as pbStep_Jacobian: A (worlds, steps, n, n), B (worlds, steps, n, nu),
// C (worlds, steps, nsensordata, n), D (worlds, steps, nsensordata, nu); any may be NULL.
PB_API PB_NODISCARD pbStatus pbBatch_Linearize(pbBatch *batch, double *A, double *B, double *C, double *D);
// The same with the columns of pbStep_JacobianBy.
PB_API PB_NODISCARD pbStatus pbBatch_LinearizeBy(pbBatch *batch, const pbJacobian *out);

// ---- how it went ----------------------------------------------------------------------------------------------------
// Of the last call that a world took part in. pb_interrupted: it was stopped, and stays where it was before the call.
PB_API const pbStatus *pbBatch_Status(const pbBatch *batch);        // (worlds)
PB_API const char *pbBatch_Error(const pbBatch *batch, int world);  // "" where its status is pb_ok
PB_API int pbBatch_Failed(const pbBatch *batch);                    // worlds that failed in the last call
PB_API pbReport pbBatch_Report(const pbBatch *batch, int world);    // of its last step
// Called some tens of times a second, on the caller's thread, also while it waits for others: done and total count the steps of
// all worlds together. Nonzero stops the call.
PB_API void pbBatch_OnProgress(pbBatch *batch, pbProgressFunction function, void *user);
PB_API void pbBatch_SetBound(pbBatch *batch, double bound);  // as pbRollout_SetBound

#ifdef __cplusplus
}
#endif
#endif
