// Pullback: policies: controls as functions of what is observed, as a part of the model, with parameters in theta.
//
//   const pbLayerDef layers[] = {{.kind = pb_layerDense, .size = 64}, {.kind = pb_layerActivation}};
//   pbNetwork *network;      pbNetwork_Create(ctx, 17, layers, 2, seed, false, &network)
//   const pbPolicyDef def = {.observe = rows, .observe_count = n, .decide = pbNetwork_Function(network), .every = 4};
//   pbModel_SetPolicy(model, &def);
//
// From there on every step, vjp, jvp, Jacobian, rollout and check is that of the closed loop.
#ifndef PULLBACK_POLICY_H
#define PULLBACK_POLICY_H

#include <pullback/world.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- functions ----------------------------------------------------------------------------------------------------
// A slice of a function's parameters. In theta it is named "policy.NAME" ("policy.0.weight").
typedef struct pbPolicySlice {
  const char *name, *unit;
  int rows, cols;
  const double *start;  // rows x cols, row-major; NULL: zeros
  double lower, upper;
  bool fixed;  // a constant, like the numbers of a normalizer: no optimizer's unknown unless it is named
} pbPolicySlice;

// (out, m') = f(o, m; p): outputs and the memory after from observations, memory before and parameters. An open set: a
// controller of your own is the same struct. Arrays are columns side by side, one for each world: entry i of column b stands at
// [i * batch + b]. A column's results depend on that column alone, to the bit. Functions are called from several threads at
// once: self is const, `work` is the caller's, has work_bytes(self, batch) bytes from a multiple of 64, and holds nothing
// between calls. They allocate nothing. A status other than pb_ok ends the step with it.
typedef struct pbPolicyFunction {
  const char *name;  // for messages
  const void *self;
  int observations, outputs, memory;
  const pbPolicySlice *slice;  // parameters, in the order in which they stand in param
  int slices;
  size_t (*work_bytes)(const void *self, int batch);
  // out (outputs), m_next (memory): written. m and m_next may be the same array only where memory is 0.
  pbStatus (*forward)(const void *self, int batch, const double *param, const double *o, const double *m, double *out,
                      double *m_next, void *work);
  // Adds to o_bar (observations), m_bar (memory), param_bar (all slices; NULL: not wanted); evaluates again inside. With `kept`
  // not NULL it leaves param_bar alone and writes instead, per column, kept_size numbers from which gather makes the gradient:
  // entry i of column b at [i * kept_stride + b].
  pbStatus (*pull)(const void *self, int batch, const double *param, const double *o, const double *m, const double *out_bar,
                   const double *m_next_bar, double *o_bar, double *m_bar, double *param_bar, double *kept, int kept_stride,
                   void *work);
  // Optional; without it jvp and forward mode are refused by name. Tangents of out and m' along those of o, m, param (NULL:
  // zero): out_dot, m_next_dot written.
  pbStatus (*push)(const void *self, int batch, const double *param, const double *param_dot, const double *o,
                   const double *o_dot, const double *m, const double *m_dot, double *out_dot, double *m_next_dot, void *work);
  // Optional, both or none: the gradient by parameters of many columns at once, as products. Adds; work has work_bytes(self,
  // columns) bytes. The sum over columns runs in ascending order.
  size_t kept_size;  // numbers a column
  pbStatus (*gather)(const void *self, int columns, const double *param, const double *kept, int kept_stride, double *param_bar,
                     void *work);
  double rounding;  // unit roundoff of the numbers it computes in, which checks allow for; 0: that of double
  // Where pull is not everywhere the derivative of forward (pb_layerClip with `projected`): the same function with one that is,
  // over the same parameters, for whoever checks derivatives. NULL: pull is the derivative.
  const struct pbPolicyFunction *exact;
  // How many of the observations, the last of them, are standard normal numbers while a policy is trained, and zero else: no
  // table has rows of them. pull has their cotangents as of any observation.
  int draws;
} pbPolicyFunction;

// What pbPolicy_Check found, worst first comes the text.
typedef struct pbPolicyReport {
  double dot;         // pull against push, |difference| by the size of the terms; NaN without push
  double difference;  // pull against quotients of differences of forward, relative; the best of several moves
  bool pure;          // same input, same bits; in two threads at once; whatever work held before; columns alone
  bool adds;          // pull adds to what is there
  bool gathers;       // pull with kept and gather give what pull gives
  char text[512];     // what is wrong, in words; "" where nothing is
} pbPolicyReport;
// Checks a function at random points near its parameters' start: derivative, purity, adding, finite values. pb_check_failed,
// with the reason in report->text and the context, where one fails. pbModel_SetPolicy runs it.
PB_API PB_NODISCARD pbStatus pbPolicy_Check(pbContext *ctx, const pbPolicyFunction *function, uint64_t seed,
                                            pbPolicyReport *report);

// ---- networks and controllers ---------------------------------------------------------------------------------------
typedef enum pbActivation {
  pb_activationRelu,
  pb_activationTanh,
  pb_activationElu,
  pb_activationSoftplus,
  pb_activationSigmoid,
  pb_activationSilu,
  pb_activationCount
} pbActivation;
PB_API const char *pbActivation_Name(pbActivation activation);  // "relu", ...; NULL for another number
PB_API bool pbActivation_Named(const char *name, pbActivation *activation);

typedef enum pbWeightInit {
  pb_initOrthogonal,  // rows or columns orthonormal, times gain (Saxe et al. 2014)
  pb_initUniform,     // +-gain sqrt(6 / (inputs + outputs)) (Glorot & Bengio 2010)
  pb_initZero
} pbWeightInit;

typedef enum pbLayerKind {
  pb_layerDense,       // y = W x + b: slices "weight" (size x inputs), "bias" (size x 1)
  pb_layerActivation,  // entry by entry
  pb_layerClip,        // to lower..upper
  pb_layerScale,       // y = scale x + offset, entry by entry; constants
  pb_layerNormalize,   // y = (x - mean) / deviation: fixed slices "mean", "deviation" (inputs x 1)
  pb_layerClock,       // x and, behind it, sin and cos of 2 pi frequency x[0] for each frequency; x[0] itself is left out
  pb_layerFormula,     // outputs by formulas of the inputs x0, x1, ... and the slice "parameter" p0, p1, ... (docs/energies.md)
  pb_layerGru,         // gated recurrent unit (Cho et al. 2014) of `size` states, which are memory and output: slices "weight"
                       // (3 size x inputs), "recurrent" (3 size x size), "bias"; gates r, z, c one below the other
  pb_layerSum,         // of several chains over the same input
  pb_layerPd,          // tau = kp (x[i] - x[n + i]) - kd x[2 n + i], clipped to +-limit: slices "kp", "kd" (n x 1); inputs 3 n:
                       // set-points, positions, velocities
  pb_layerPid,         // the same and ki times the integral of the error, in steps of `interval`: memory n, held within +-windup
  pb_layerServo,       // velocity set-point gain (x[i] - x[n + i]) clipped to +-limit: slice "gain" (n x 1); inputs 2 n
  pb_layerDelay,       // each input as it was `delay` decisions ago, a fraction by linear interpolation: slice "delay" (1, held
                       // within 0..size); memory size x inputs, zeros before the first decision
  pb_layerNorm,        // y = gain (x - mean) / sqrt(variance + 1e-5) + bias, over the entries of a column: slices "gain", "bias"
                       // (inputs x 1); at least 2 inputs
  pb_layerExplore,     // y = x + exp(log_deviation) e: slice "log_deviation" (inputs x 1), fixed. With `drawn` e are the
                       // function's draws (pbPolicyFunction.draws), else zero. Once in a network, in no sum; behind it comes
                       // nothing, or tanh alone
  pb_layerKindCount
} pbLayerKind;
PB_API const char *pbLayerKind_Name(pbLayerKind kind);  // "dense", ...; NULL for another number
PB_API bool pbLayerKind_Named(const char *name, pbLayerKind *kind);

typedef struct pbLayerDef {  // zeros: the defaults in brackets
  pbLayerKind kind;
  const char *name;  // in the names of its slices [its number in the chain]
  int size;          // dense, gru, pd, pid, servo: outputs; delay: most decisions, rounded up
  pbActivation activation;
  pbWeightInit init;
  double gain;          // of init [1]; pd, pid, servo: start of kp, of gain
  double kd, ki;        // pd, pid: starts
  double lower, upper;  // clip
  bool projected;       // clip: the derivative at a bound lets through what leads inwards; else it is that of the program, zero
  double limit;         // pd, pid, servo: [0: none]
  double windup;        // pid: [0: none]
  double interval;      // pid: s between decisions
  double delay;         // delay: start, in decisions
  double deviation;     // explore: start, more than 0
  bool drawn;           // explore
  const double *scale, *offset;  // scale: as many as inputs; NULL: ones, zeros
  const double *frequency;       // clock: [1/s]
  int frequencies;
  const char *const *formula;  // formula: one for each output
  int formulas;
  const double *parameter;  // formula: starts of p0, p1, ...
  int parameters;
  const struct pbChainDef *chain;  // sum
  int chains;
} pbLayerDef;
typedef struct pbChainDef {
  const pbLayerDef *layer;
  int count;
} pbChainDef;

// A chain of layers: its definition is copied. seed: of the weights' start. single: layers compute in float over weights that
// stay double in theta; gradients are right to about 1e-4 then. pb_bad_argument, with the layer, where sizes do not fit.
typedef struct pbNetwork pbNetwork;
PB_API PB_NODISCARD pbStatus pbNetwork_Create(pbContext *ctx, int inputs, const pbLayerDef *layer, int count, uint64_t seed,
                                              bool single, pbNetwork **network);
PB_API void pbNetwork_Destroy(pbNetwork *network);                            // NULL is fine
PB_API const pbPolicyFunction *pbNetwork_Function(const pbNetwork *network);  // lives as long as the network

// ---- observations ---------------------------------------------------------------------------------------------------
typedef enum pbObserveKind {
  pb_observeQpos,           // of a joint or all; a rotation as the nine entries of its matrix, row by row
  pb_observeRotation,       // of a ball or free joint: rotation vector from its qpos0 (3)
  pb_observeQvel,           // of a joint or all
  pb_observeAct,            // of an actuator or all
  pb_observeSensor,         // of a sensor, or all of the position and velocity stages
  pb_observeBodyPosition,   // of `point` of a body (3)
  pb_observeBodyRotation,   // of a body: its matrix, row by row (9)
  pb_observeSitePosition,   // 3
  pb_observeSiteRotation,   // 9
  pb_observeCommand,        // numbers of the world (pbInput.command), from `first`, `count` of them
  pb_observeLast,           // what the last decision put out (policy_held)
  pb_observeTime,           // s (1)
  pb_observePoints,         // of deformables: positions of points [m], x y z of each (docs/policies.md#points)
  pb_observePointVelocity,  // m/s
  pb_observeKindCount
} pbObserveKind;
PB_API const char *pbObserveKind_Name(pbObserveKind kind);  // "qpos", "rotation", ...; NULL for another number
PB_API bool pbObserveKind_Named(const char *name, pbObserveKind *kind);

// What of a row of points is seen. Every point counts alike in a mean, whatever its mass.
typedef enum pbObserveForm {
  pb_formValue,   // each as it is
  pb_formOffset,  // each less the mean of the row's points
  pb_formMean,    // that mean (3)
  pb_observeFormCount
} pbObserveForm;

typedef struct pbObserveDef {
  pbObserveKind kind;
  const char *object;    // by its name, of points a set's; NULL: all, where the kind has that
  const char *frame;     // positions and rotations: as seen in this body's frame; NULL: the world's
  double point[3];       // body position: in the body's frame
  const int *component;  // of what the row has; NULL: all
  int components;
  int first, count;   // command
  const int *points;  // points, without an object: rows of "points"; count 0: all but those of scenery
  int point_count;
  pbObserveForm form;  // points
  double scale;        // multiplied with; 0: 1
  bool previous;       // sensors as they were in the step before: not supported, refused by name. Those of the acceleration
                       // stage and of limits depend on the very control, and are refused too
} pbObserveDef;

typedef enum pbOutputKind { pb_outputControl, pb_outputForce, pb_outputWrench, pb_outputKindCount } pbOutputKind;
typedef struct pbOutputDef {
  pbOutputKind kind;   // ctrl of an actuator; generalised force on the dofs of a joint; force and torque on a body (6, as xfrc)
  const char *object;  // by its name, not the world; NULL: all of the kind, in the model's order
  double scale;        // 0: 1
} pbOutputDef;

// ---- into the model -------------------------------------------------------------------------------------------------
// A decision from the state at the start of a step, held through its stages and impacts:
//   every `every` steps    held  = decide(observe, memory)
//   every step             out   = act(held, act_observe, memory), or held where there is no act
//   ctrl, qfrc, xfrc of the step = what the input has + out
// Memory, held and the number of steps since the decision are fields of the state ("policy_memory", "policy_held",
// "policy_count"), so a run that goes on from a state has the same bits. Parameters go into theta as "policy.SLICE" and
// "policy.act.SLICE".
typedef struct pbPolicyDef {
  const pbObserveDef *observe;
  int observe_count;
  const pbPolicyFunction *decide;   // its self must outlive the model
  int every;                        // steps; 0: 1
  const pbObserveDef *act_observe;  // of the inputs of act behind those held
  int act_observe_count;
  const pbPolicyFunction *act;  // NULL: what is held goes out
  const pbOutputDef *output;    // count 0: all controls
  int output_count;
  // What a critic sees that learns beside the policy: behind all other numbers of pbPolicy_Observe. No function here reads them.
  const pbObserveDef *critic_observe;
  int critic_observe_count;
} pbPolicyDef;

// Checks the functions and sizes, adds parameters and state. Once a model, before the first scratch. pb_bad_argument with the
// row of the table and the reason; pb_check_failed as pbPolicy_Check.
PB_API PB_NODISCARD pbStatus pbModel_SetPolicy(pbModel *model, const pbPolicyDef *def);
typedef struct pbPolicyInfo {
  const char *name;
  int observations, outputs, memory, held, every, commands;  // commands: numbers that pbInput.command must have
  size_t params;
} pbPolicyInfo;
PB_API bool pbModel_PolicyInfo(const pbModel *model, pbPolicyInfo *info);  // false: there is none
// What an observation is, in words: "qpos of joint 'knee'"; of act behind those of decide. Returns text.
PB_API char *pbModel_ObservationName(const pbModel *model, int index, char *text, size_t size);
// What the policy sees at a state (observations of decide, then those of act and a critic), without contacts or accelerations.
PB_API PB_NODISCARD pbStatus pbPolicy_Observe(const pbModel *model, const double *theta, const double *x, const pbInput *input,
                                              pbScratch *scratch, double *observation);
// Its pullback by the state, which is that of a tape record (pbTape_Record after Observe will do): adds to x_bar (TangentSize).
PB_API PB_NODISCARD pbStatus pbPolicy_ObserveVjp(const pbModel *model, const double *theta, const double *record,
                                                 const pbInput *input, pbScratch *scratch, const double *observation_bar,
                                                 double *x_bar);

#ifdef __cplusplus
}
#endif
#endif
