// Inside of a task: terms of a loss, variables, trajectories. io/task/task.c fills these structs from a file; the code here knows
// no file.
#ifndef PB_TASK_H
#define PB_TASK_H

#include <stdatomic.h>

#include <pullback/audit.h>
#include <pullback/optimize.h>
#include <pullback/policy.h>

#include "batch/sum.h"
#include "deform/deform.h"
#include "energy/expression.h"
#include "model/state_layout.h"
#include "optimize/recorded.h"

// ---- terms of a loss ------------------------------------------------------------------------------------------------
typedef enum pbQuantity {
  pb_observedQpos,
  pb_observedQvel,
  pb_observedAct,
  pb_observedSensor,
  pb_observedBody,
  pb_observedSite,
  pb_observedPoints,
  pb_observedPointVelocity,
  pb_observedControl,
  pb_observedCommand,   // from here on of a training alone: what the policy was told,
  pb_observedDecision,  // what it decided,
  pb_observedLast,      // and what it had decided before
  pb_quantityCount,
  pb_observedFormula = pb_quantityCount,  // of several of them
  pb_observedFunction                     // of all of them, by the host
} pbQuantity;
typedef enum pbTermType {
  pb_termSquared,
  pb_termNorm,
  pb_termHuber,
  pb_termLinear,  // the deviation itself
  pb_termAbove,   // squares of what is missing: the quantity is to be above its target
  pb_termBelow    // squares of what is too much
} pbTermType;

typedef struct pbPart {  // one component of the deviation
  int index;             // entry in the row of the quantity; qpos: degree of freedom
  int coord;             // qpos: entry in qpos (of a rotation: where its quaternion begins)
  int target;            // entry in a target row (likewise)
  int axis;              // 0..2: of a rotation vector from target to state, in the body's frame; -1: plain difference
} pbPart;
typedef struct pbFormula {  // a quantity of one component: a formula of others, and last the time
  pbExpression *expression;
  int input_count, width;      // width: from the numbers of one state to those of the next
  struct pbTerm *inputs;       // what is observed: quantity, parts and a target of zeros (rotations: none) of each
  double *in, *value, *slope;  // of each state the term looks at: width, 1, width
} pbFormula;
typedef struct pbHosted {  // the host's function of all states that its term looks at
  char *name;
  pbLossFunction call;  // NULL: none is given
  void *user;
  int trajectory;
  bool sees[pb_quantityCount];
  int row_count;
  pbLossRows rows[pb_quantityCount];
  pbQuantity quantity[pb_quantityCount];  // of each of the rows
  double *time, *memory;                  // of all states: numbers, then slopes
} pbHosted;
// How a recording shows what a term observes: at times of its own, late, through an instrument.
typedef struct pbReading {
  double *time;                // step_count: s from the start; NULL: those of states, and no delay
  double *fraction;            // step_count: of the way from the state at or before it to the next
  bool varied;                 // the delay is an unknown,
  double least, most;          // from here to there
  double *values, *now, *bar;  // the delay, part_count gains, as many biases: as given; with the unknowns in; cotangents
} pbReading;
// Of a term that is a constraint (constraints.c). Its loss is that of deviations that are shifted, and stiffer.
typedef struct pbMultipliers {
  double tolerance;  // of a deviation
  double stiffness;  // the weight counts this many times
  double worst;      // deviation when shifts were last moved; infinite before
  double plain;      // value of the last evaluation without multipliers, by the weight as given
  double *shift;     // (step_count, part_count): the multiplier by twice the weight
  double *found;     // likewise: multipliers at the answer of the last run,
  bool known;        // if one has ended
} pbMultipliers;
typedef struct pbTerm {
  char *name;
  pbQuantity quantity;
  pbFormula *formula;  // of pb_observedFormula
  pbHosted *hosted;    // of pb_observedFunction
  pbTermType type;
  double weight;    // "mean" is already in it
  double epsilon;   // norm: sqrt(|d|^2 + epsilon^2)
  double delta;     // huber: quadratic up to here
  bool mean;        // the weight given was divided by the times sampled
  double discount;  // 1/s: the weight of a state at time t is weight exp(-discount t)
  double *factor;   // step_count: those exponentials; NULL: all one
  int part_count;
  pbPart *parts;
  int step_count;
  int *steps;                               // the state at or before each time; not descending
  int target_width, target_rows;            // rows: 1 or step_count
  double *target;                           // of what is missing NaN
  double *sigma;                            // part_count: deviations are divided by these; NULL: 1
  pbReading *reading;                       // NULL: at states, as it is
  pbMultipliers *constraint;                // NULL: a part of the loss
  bool timed;                               // times were given in seconds
  bool recorded;                            // the target is a recording: what is found of it has an uncertainty
  double value, deviation;                  // of the last evaluation
  double sum, worst;                        // of the worlds before this one
  double confirm_value, confirm_deviation;  // of the run at a finer step
} pbTerm;

typedef struct pbTermSet {  // the loss on one trajectory
  pbContext *ctx;
  const pbModel *model;
  int steps, nx, n, nv, na, nu, ns, nbody, nsite, np, qpos_at, qvel_at, act_at, points_at;  // np: 3 npoint
  int count;
  pbTerm *terms;
  // made by pbTermSet_Finish
  int *rows, row_count;  // states any term looks at
  bool uses[pb_quantityCount];
  double *states, *sensordata, *xpos, *site_xpos;                                                      // (row_count, ...)
  double *bar_q, *bar_v, *bar_a, *bar_sensor, *bar_xpos, *bar_site, *bar_points, *bar_point_velocity;  // likewise
  int ncommand, nheld, held_at;     // commands of the policy, numbers of a decision and where a state has them
  const double *command, *last;     // of a training, at the state at hand: (ncommand), (nheld)
  bool commands_by_step;            // command is (steps, ncommand) instead: of an audit
  double clock;                     // s from the start of the episode to the first state; 0 but in a training
  double *bar_decision, *bar_last;  // (row_count, nheld)
  double timestep, *timestep_bar;   // bar: what formulas of the time have by it; NULL: it is no unknown
  char fault[240];                  // why the last value is NaN: a formula left its domain, a function failed; "": neither did
  pbStatus failure;                 // of that
} pbTermSet;

void pbTermSet_Begin(pbTermSet *set, pbContext *ctx, const pbModel *model, int steps);
PB_NODISCARD pbStatus pbTermSet_Finish(pbTermSet *set);
// Delays, gains and biases as given; then where times lie, now and whenever a delay has changed.
void pbTermSet_Read(pbTermSet *set);
void pbTermSet_Place(pbTermSet *set);
// ---- reading.c
PB_NODISCARD pbStatus pbReading_Create(pbContext *ctx, const pbTerm *term, pbReading **reading);  // no delay, gains 1, biases 0
// Of a term that has one: times of its own from here on, those of its states.
PB_NODISCARD pbStatus pbReading_AtTimes(pbContext *ctx, const pbTerm *term, double timestep);
double pbTerm_Time(const pbTerm *term, int k, double timestep);  // of its k-th look, s from the start
void pbReading_Free(pbContext *ctx, pbReading *reading);
void pbReading_Mark(const pbTermSet *set, const pbTerm *term, char *mark);  // states that it may need
// Of a term whose delay is an unknown: how many of its times lie on states (to 1e-6 of a step), where its line has a kink.
int pbTerm_OnStates(const pbTermSet *set, const pbTerm *term);
// Row `row` of the set, which is state `step`, of a quantity, and of its slopes; NULL: controls that are not given.
const double *pbTermSet_Observed(const pbTermSet *set, pbQuantity quantity, int row, int step, const double *ctrl);
double *pbTermSet_BarRow(const pbTermSet *set, pbQuantity quantity, int row, int step, double *ctrl_bar);
// After a value: what component i of a term reads at its k-th time, and what is recorded there; of rotations the deviation, 0.
double pbTerm_Reading(const pbTermSet *set, const pbTerm *term, int k, int i, const double *ctrl, double *recorded);
// ---- hosted.c
PB_NODISCARD pbStatus pbHosted_SetUp(pbTermSet *set, pbTerm *term);  // its rows, when its states are known
void pbHosted_Free(pbContext *ctx, pbHosted *hosted);
// Value of the term, and what it adds to the set's bars; false: set->fault says why not.
bool pbHosted_Value(pbTermSet *set, pbTerm *term, const double *ctrl, bool pull, double *ctrl_bar);
void pbTermSet_DropLast(pbTermSet *set);  // its last term
// Quaternions of a row of the target to length one; one with a number that is missing is missing. False: one is zero.
bool pbTerm_NormalizeTarget(const pbTerm *term, double *row);
void pbTermSet_Free(pbTermSet *set);
pbRolloutOutput pbTermSet_Output(const pbTermSet *set);
// Value of the loss and of each term from what Forward wrote; bars (and ctrl_bar (steps, nu), added to, may be NULL) if
// `pull`. ctrl: (steps, nu) as run, NULL: zero. Write needs a value before it, Push and PullResidual one with `pull`.
double pbTermSet_Value(pbTermSet *set, const double *ctrl, bool pull, double *ctrl_bar);
pbRolloutBar pbTermSet_Bar(const pbTermSet *set);
size_t pbTerm_Samples(const pbTerm *term);                // components at times that are not missing
int pbTerm_SamplesAt(const pbTerm *term, int k);          // of its k-th time
int pbTerm_TimesSampled(const pbTerm *term);              // times where not all are missing
size_t pbTermSet_Residuals(const pbTermSet *set);         // 0 where a term is no sum of squares
const pbTerm *pbTermSet_NoSquares(const pbTermSet *set);  // the first such term, or NULL
bool pbTermSet_NotNegative(const pbTermSet *set);         // no term can be below zero
size_t pbTermSet_Samples(const pbTermSet *set);           // of all terms, whatever they are
// Residuals, or (bare) deviations, without weights, of any terms.
void pbTermSet_Write(const pbTermSet *set, const double *ctrl, bool bare, double *r);
// Tangent rows (as set->rows) of one direction into column `column` of J (stride n).
typedef struct pbObservedTangent {
  const double *x, *sensordata, *xpos, *site_xpos, *ctrl;
  double timestep;                   // by how much it moves
  const struct pbVariable *reading;  // whose entry moves by `size`, of terms' readings; NULL: none
  int entry;
  double size;
} pbObservedTangent;
void pbTermSet_Push(const pbTermSet *set, const double *ctrl, const pbObservedTangent *tangent, bool bare, double *J,
                    size_t stride, size_t column);
// Derivative of the value along a tangent, with the bars of the last pull.
double pbTermSet_Along(const pbTermSet *set, const pbObservedTangent *tangent, const double *ctrl_bar);
// How the bars of the last pull, and ctrl_bar (added to), change where what is observed moves. Formulas are as that pull left
// them; `set` may be a copy of the set with bars of its own.
void pbTermSet_PullTangent(pbTermSet *set, const double *ctrl, const pbObservedTangent *tangent, double *ctrl_bar);
const char *pbTermSet_NoSecond(const pbTermSet *set, const pbTerm **which);  // "rotations between two states have"; NULL: it can
// Bars of the k-th residual alone.
void pbTermSet_PullResidual(pbTermSet *set, const double *ctrl, size_t k, bool bare, double *ctrl_bar);

// ---- variables ------------------------------------------------------------------------------------------------------
typedef enum pbVariableKind {
  pb_varyParam,
  pb_varyQpos,
  pb_varyQvel,
  pb_varyAct,
  pb_varyPoints,
  pb_varyPointVelocity,
  pb_varyControl,
  pb_varyMocapPos,        // of poses of mocap bodies: positions,
  pb_varyMocapRot,        // and rotation vectors, of what the file says
  pb_varyMocapVel,        // velocities, where the file gives some
  pb_varyMocapPosBefore,  // where they stood before the first step: positions,
  pb_varyMocapRotBefore,  // and rotation vectors
  pb_varyReading,         // of terms of a name: the delay, gains, biases (pbReading)
  pb_varyInertia,         // ten unknowns of a body: mass, center and inertia (optimize/inertia.h)
  pb_varyDelay,           // by which recorded controls come later
  pb_varySets             // one unknown, of no field itself: parameters follow it by formulas
} pbVariableKind;
typedef struct pbDirectionRow {  // an axis or a quaternion all of whose components are unknowns of one variable
  int at[4];                     // where they are among the variable's
  int size;                      // 3 or 4
} pbDirectionRow;
typedef struct pbFollower {  // a parameter that follows unknowns
  pbExpression *expression;
  int count;           // numbers that its formula is given
  int *unknown;        // count: what each is; -1: a constant
  double *in, *slope;  // the numbers and the derivatives by them, as many as the expression is wide
} pbFollower;
typedef struct pbVariable {
  char *name;
  pbVariableKind kind;
  int trajectory;    // -1: all
  int first, count;  // its unknowns
  // param: entries of theta, sets: those that follow it; qpos and qvel: degrees of freedom; act, points, readings: entries;
  // control: actuators (index_count);
  // poses: 3 mocap + component, velocities: 6 mocap + component (index_count)
  size_t *index;
  char *term;              // of readings: the name of the terms
  int index_count, knots;  // control, poses: count = knots * index_count; else knots 1
  bool linear;             // control, poses: linear between knots, else constant
  bool logarithm;
  double scale;  // value = scale z, or exp(scale z)
  int row_count;
  int follower_count;
  pbFollower *followers;  // of sets: index_count of them, for the entries in index
  pbDirectionRow *rows;   // of param: their values are scale z divided by its length; never a logarithm, without bounds
} pbVariable;

// ---- draws ----------------------------------------------------------------------------------------------------------
// Pushes and noise of what is observed are of trainings alone.
typedef enum pbDrawTarget { pb_drawParam, pb_drawState, pb_drawCommand, pb_drawPush, pb_drawObserved } pbDrawTarget;
typedef enum pbDrawLaw { pb_drawUniform, pb_drawNormal, pb_drawList } pbDrawLaw;
typedef enum pbDrawUse { pb_drawValue, pb_drawOffset, pb_drawFactor } pbDrawUse;  // factor: of parameters
typedef enum pbPushKind { pb_pushForce, pb_pushTorque, pb_pushVelocity } pbPushKind;
typedef enum pbPushWay { pb_wayNone, pb_wayHorizontal, pb_wayAny, pb_wayGiven } pbPushWay;
typedef struct pbDraw {
  pbDrawTarget target;
  pbVariableKind kind;  // of a state
  pbDrawLaw law;
  pbDrawUse use;
  int count, rows;  // rows: of a list
  bool together;    // one number is drawn for all components
  size_t *index;    // as of a variable; of commands their numbers; of what is observed, too
  // count each: least and most, or mean and deviation; of a list first has rows, one of which is drawn
  double *first, *second;
  double *now;      // those of the present world
  double every[2];  // s, least and most: a command or push is drawn again after a time between them; 0: once
  // of a push: when the only one begins, how long it lasts; its body, or the first of `count` degrees of freedom (velocity)
  double at[2], duration[2];
  pbPushKind push;
  int on;
  pbPushWay way;  // numbers are a size along a direction, `axis` if given
  double axis[3];
} pbDraw;
typedef struct pbSample {
  int worlds, count;  // count 0: nothing is drawn
  pbDraw *draws;
  uint64_t seed;
  int64_t iteration;  // 0: the draws that results are told by
  bool fresh;         // the method takes others in every iteration
} pbSample;

// Where mocap bodies come from in the first step.
typedef enum pbPoseOrigin { pb_fromFirstRow, pb_fromModel, pb_fromGiven } pbPoseOrigin;

typedef struct pbPoses {       // of mocap bodies, rows of all steps (one at least)
  double *pos, *quat;          // as the file or the keyframe says; NULL: the model's
  double *pos_now, *quat_now;  // with the unknowns in
  double *pos_bar, *rot_bar;   // nmocap x 3 each
  double *turn;                // nmocap x 3: rotation vectors of one step
  bool varied;                 // some, or how they move, are unknowns
  double *vel;                 // nmocap x 6: velocities as given; NULL: as the poses say
  double *vel_now, *vel_bar;   // the same with the unknowns in, cotangents
  pbPoseOrigin origin[2];      // of positions, orientations
  // nmocap x 3, 4: where they are given; with the unknowns in; nmocap x 3 each. One row.
  double *before[2], *before_now[2], *before_bar[2];
} pbPoses;

typedef struct pbGivenStates {  // that a search begins with; they need not be those of a run (gaps.h)
  int count;                    // 0: there are none
  int *step;                    // count: before which steps, ascending from 1 on; the last state is none of them
  double *x;                    // (count, StateSize)
} pbGivenStates;

typedef struct pbTrajectory {
  pbTermSet terms;
  int steps;
  bool test;                  // it takes no part in the fit: its terms are those of the answer
  int cluster;                // number of those whose deviations have something in common
  double *x0, *ctrl;          // as the file says; ctrl (steps, nu)
  pbRecorded *recorded;       // what ctrl comes from; NULL: rows of the file
  double delay;               // of that, s
  double *delay_slope;        // (steps, nu): ctrl_now by the delay; NULL: that is no unknown
  double *x0_now, *ctrl_now;  // with the unknowns in
  double *x0_world;           // with the draws of a world in, too; NULL: none are drawn
  double *command;            // (steps, commands); NULL: zero
  pbGivenStates given;
  double *x0_bar, *ctrl_bar;
  pbPoses poses;
  pbRolloutPlan plan;
  pbRollout *rollout;
  // of an evaluation on threads
  struct pbTask *task;
  pbContext *ctx;  // of the rollout: memory from the task's
  int worker;      // who is at it; 0: the caller
  pbStatus status;
  bool ran_ahead;  // its run is there, and ended so:
  pbStatus ahead_status;
  double loss, along[2];  // value, and derivatives by the unknowns in forward mode
  size_t first_residual;
} pbTrajectory;

typedef struct pbStop {
  bool has_loss;
  double loss;
  int term_count;
  char **terms;
  double *deviations;
} pbStop;

enum { PB_HISTORY_ROWS = 512 };  // when full, every second row is dropped
// How Gauss-Newton's linear problem is solved: what the number of unknowns says, by a matrix, by sweeps (sweep.h).
typedef enum pbJacobianKind { pb_jacobianAuto, pb_jacobianDense, pb_jacobianSweep } pbJacobianKind;

// How Newton-CG's products with the Hessian are made: exactly where they can be, always, or of differences.
typedef enum pbHessianKind { pb_hessianAuto, pb_hessianExact, pb_hessianDifferences } pbHessianKind;

typedef struct pbHistory {
  int count, stride;
  double rows[PB_HISTORY_ROWS][4];  // iteration, simulations, best loss, gradient norm
} pbHistory;

typedef struct pbVerdict {  // why the run ended
  pbRunOutcome outcome;
  char reason[512], advice[2048];
  unsigned char *notes;        // n
  double *direction, *beside;  // n each, of a saddle: the loss falls to both sides along it; a point where it is less
  double beside_value;         // the loss there
  int undetermined;            // directions that the loss does not see
} pbVerdict;

typedef struct pbTaskSource {  // what a task was read from; texts may be NULL but for the first
  char *text, *folder, *allow_root, *policy;
  size_t length;
} pbTaskSource;
typedef struct pbTaskStage {  // one of "stages"
  char *name;
  pbRunStage run;  // what it came to
} pbTaskStage;
typedef struct pbTaskBefore {  // what stages before a run's took
  int iterations, left;
  int64_t simulations, gradients, products, differences;
  double seconds;
} pbTaskBefore;
typedef struct pbTaskStart {  // a search from one start
  pbStatus status;
  pbRunOutcome outcome;
  double loss, start_loss;  // infinite where no point could be evaluated
  int iterations;
  int64_t simulations;
  double *z;  // n
  char why[200];
} pbTaskStart;

struct pbTask {
  pbContext *ctx;
  char *name;
  // What a result depends on, a line each: the program's version, the task (all of it but its count of iterations) and every
  // file that was read for it, "HASH NAME".
  char *made_from;
  pbModel *model;
  bool borrowed;  // the model is another's
  size_t ntheta;
  double *theta, *theta_now, *theta_used, *theta_bar;  // from the file; with unknowns; with constants; cotangent
  // sampled: theta_now with the draws of a world in. theta_raw: the one of these that theta_used comes from.
  double *theta_world, *theta_raw;
  pbSample sample;
  int commands;  // that the model's policy observes
  bool recompute, timestep_varies;
  pbGradientKind gradient;
  pbVjpOptions truncation;  // decay, window, clip; nothing else
  int variable_count;
  pbVariable *variables;
  int n;
  double *start, *lower, *upper, *value;  // value: physical, scratch
  // n each: what is known of unknowns before, residuals weight (z - at); weight 0: nothing. NULL: of none.
  double *prior_at, *prior_weight;
  int prior_count;  // of those that have a weight
  size_t m;         // residuals of terms, then of these
  int trajectory_count;
  bool clustered;  // what trajectories of a cluster have in common is no chance (uncertainty.c)
  pbTrajectory *trajectories;
  size_t memory;
  pbOptimizerOptions optimizer;
  pbJacobianKind jacobian;  // of gauss-newton
  bool second_order;        // of ilqr: with second derivatives of steps
  pbHessianKind hessian;    // of newton-cg
  char inexact[256];        // why the last run's products with the Hessian were differences
  bool has_gains;           // the last run was of ilqr: results have its feedback
  pbRate *rates;
  int iterations;
  bool report_saddles;  // a search that ends at one stays there
  pbStop stop;
  pbAuditOptions audit;  // texts and arrays of which are
  char *audit_texts[3];  // these: of the task
  double *audit_numbers[2];
  char **audit_fields;
  int confirm;  // divide the time step by this; 0: no
  // evaluation
  int64_t simulations, evaluations;
  bool watch, met;  // watch: an evaluation that meets the criteria ends the run
  double *met_z, met_value, first_value;
  bool same, counted;  // the rollouts hold the run at last_z; a run at last_z has been counted
  double *last_z;
  double *result_z;
  pbHistory history;
  pbPool *pool;  // borrowed; NULL: the caller's thread alone
  pbGroups groups;
  pbGroupSum sum;              // of gradients by theta
  double *bars;                // threads x ntheta: gradients of one trajectory
  atomic_int stopped, failed;  // by the caller; the first trajectory that failed
  pbProgressFunction progress;
  void *user;
  // several starts (io/task/task_starts.c)
  int start_count;      // searches; 0: one, from `start`
  double start_spread;  // of those drawn, relative to 1 + |z|, where there are no bounds
  pbTaskStart *starts;  // what they came to; NULL: not yet
  double *own_start;    // n: the task's, while a drawn one is in its place
  // stages (io/task/task_stages.c): the task is the last of them
  int stage_count;  // 0: there are none
  pbTaskStage *stages;
  bool moved;    // its start is that of a result
  bool passing;  // a stage that others follow: what it came to is wanted, not what is to be said of it
  pbTaskBefore before;
  char phase[80];       // of progress
  pbTaskSource source;  // of which the searches make tasks of their own
  pbProgress now;       // news of the optimizer
  bool uncertain;       // results tell how sure they are
  struct pbSureness *sureness;
  double clock;  // when the run began, less what it had taken before it was resumed
  pbVerdict verdict;
};

void pbTask_DropTrajectory(const pbTask *task, pbTrajectory *tr);  // as if nothing of it had been read
void pbTask_FreeStarts(pbTask *task);
// What the task's method, or one instead of it (NULL: none), cannot do with the task, before a run.
PB_NODISCARD pbStatus pbTask_CheckMethod(const pbTask *task, const char *instead);
// Does a search of it begin with the states that it is given, if any? A stage after another, and one from a result, does not.
bool pbTask_Begins(const pbTask *task);
PB_NODISCARD pbStatus pbTask_CheckStates(const pbTask *task, pbMethod method);  // a method that would ignore them
// ---- carry.c: z of a task with the same variables, whose trajectories may have other lengths, as unknowns of `to` (n): knots of
// controls and paths by what was at their moment, beyond the last step the last one.
void pbTask_Carry(const pbTask *from, const double *z, const pbTask *to, double *out);
void pbTask_Values(const pbTask *task, const double *z, double *value);  // physical values of all unknowns
// After the file is read: memory for what unknowns mean; the same with rollouts and losses, and n, m.
PB_NODISCARD pbStatus pbTask_SetUpRun(pbTask *task);
PB_NODISCARD pbStatus pbTask_SetUp(pbTask *task);
double pbVariable_Scaled(const pbVariable *v, double value);  // the unknown whose value it is, of one that stands alone
// The row that unknown k of a variable belongs to, or NULL.
const pbDirectionRow *pbVariable_Row(const pbVariable *v, int k);
// Parameters that are unknowns or follow them, from task->value. pb_not_finite: a formula has no value or no derivative there.
PB_NODISCARD pbStatus pbTask_PutParameters(const pbTask *task, double *theta);
double pbTask_ValueSlope(const pbTask *task, int unknown);  // derivative of its value by z, both at task->value
// Derivative of the value of unknown i by unknown k, at z with task->value: other than zero for one row of an axis or quaternion.
double pbTask_ValueBy(const pbTask *task, const double *z, int i, int k);

// ---- sample.c: draws of worlds. Without any there is one world, and all of it does nothing.
int pbTask_Worlds(const pbTask *task);
bool pbTask_Sampled(const pbTask *task);
void pbSample_Free(pbContext *ctx, pbSample *sample);
// Numbers of a draw, that of seed, iteration, world (through all trajectories) and number of the draw.
void pbDraw_Numbers(const pbDraw *d, const uint64_t counter[4], double *out);
// Numbers drawn again and again have turns: the counter of one, for Numbers; a number of its own within a range (what: 0
// to 9); which one holds at a time from the start on, the first being 0, and when it began.
void pbDraw_Turned(const uint64_t counter[4], uint64_t turn, uint64_t out[4]);
double pbDraw_Between(const double range[2], const uint64_t counter[4], uint64_t turn, uint64_t what);
uint64_t pbDraw_TurnAt(const pbDraw *d, const uint64_t counter[4], double time, double *began);
// For whoever runs worlds without trajectories: draws of states and commands for three numbers of a counter, over what x
// (StateSize) and command (the policy's commands) hold. set: of any terms of the model.
void pbTask_DrawStart(const pbTask *task, const pbTermSet *set, const uint64_t counter[3], double *x, double *command);
// Of these the commands at a time from the start; parameters, over what theta holds (attempt: 0, 1, ... where one made none).
void pbTask_DrawCommand(const pbTask *task, const uint64_t counter[3], double time, double *command);
void pbDraw_PutParameters(const pbDraw *d, double *theta);  // those in d->now
void pbTask_DrawParameters(const pbTask *task, const uint64_t counter[3], uint64_t attempt, double *theta);
// After an Apply: x0_world, command, theta_used of a world. pb_not_finite: parameters without meaning.
PB_NODISCARD pbStatus pbTask_BeginWorld(pbTask *task, int t, int world);
void pbTask_ThroughWorld(const pbTask *task, double *theta);
void pbTask_NoteWorld(const pbTask *task, int t, int world);
// Moves (set: puts) coordinates of qpos; rotations are always moved, by the rotation vector of all their entries.
void pbTask_MoveQpos(const pbTask *task, const size_t *dof, const double *by, int count, bool set, double *qpos);
int pbTask_StateAt(const pbTermSet *set, pbVariableKind kind);  // where plain entries of the initial state begin

// ---- followers.c: parameters that follow unknowns; pull and push after a Put
void pbFollower_Free(pbContext *ctx, pbFollower *follower);
PB_NODISCARD pbStatus pbTask_PutFollowers(const pbTask *task, double *theta);
void pbTask_PullFollowers(const pbTask *task, double *gradient);            // from theta_bar, added to
void pbTask_PushFollowers(const pbTask *task, int unknown, double *theta);  // added to
// theta_used, x0_now, ctrl_now of every trajectory from z.
PB_NODISCARD pbStatus pbTask_Apply(pbTask *task, const double *z);
// Bounds of the controls (nu each) of a step by the knots that act there; infinite of what is no unknown.
void pbTask_ControlBounds(const pbTask *task, int t, int step, double *lower, double *upper);
// ctrl_now of one step of a trajectory, by the knots that act there. No other thread is at that trajectory.
void pbTask_ApplyControlsAt(pbTask *task, int t, const double *z, int step);
// Pullbacks of a rollout give gradients by the fields of theta that variables are entries of, and by no others: the variables'
// own numbers have the same bits, and what only other fields need is left out.
PB_NODISCARD pbStatus pbTask_Want(pbTask *task, pbRollout *rollout);
// gradient by z (added to) from theta_bar (of theta_used; changed), and the bars of trajectory t.
PB_NODISCARD pbStatus pbTask_PullTheta(pbTask *task, const double *z, double *gradient);
void pbTask_PullTrajectory(pbTask *task, int t, double *gradient);
// Direction of unknown i in trajectory t, all overwritten.
typedef struct pbTaskDirection {
  double *theta, *x0, *ctrl;      // ntheta, n, (steps, nu)
  double *mocap_pos, *mocap_rot;  // (steps, nmocap, 3) each; NULL where poses are the model's,
  double *mocap_vel;              // (steps, nmocap, 6) and
  double *before[2];              // nmocap x 3 each: positions and rotations before the first step; NULL there, too
} pbTaskDirection;
PB_NODISCARD pbStatus pbTask_Direction(const pbTask *task, pbContext *ctx, const double *z, int i, int t,
                                       const pbTaskDirection *out);
// Of an unknown of the initial state of trajectory t alone: x0 (n), zero but for what moves.
void pbTask_StartDirection(const pbTask *task, int i, int t, double *x0);
bool pbTask_IsOf(const pbTask *task, int i, int t);  // unknown i is of trajectory t, or of all
// The same of what terms read: where i is none of it, nothing moves.
void pbTask_ReadingDirection(const pbTask *task, int i, int t, pbObservedTangent *observed);
// The knot of a variable at or before a step, and the weight of the one after it.
int pbVariable_Knot(const pbVariable *v, int step, int steps, double *right);

// ---- poses.c: poses of mocap bodies; where they are the model's all but Give does nothing
// From here on a trajectory's own: those of a keyframe, or (-1) of the model.
PB_NODISCARD pbStatus pbPoses_Give(pbTask *task, pbTrajectory *tr, int keyframe);
// Numbers that unknowns of a kind start from; NULL: rotations, which start at zero, being relative to what the file says.
const double *pbPoses_Start(const pbTrajectory *tr, pbVariableKind kind);
PB_NODISCARD pbStatus pbPoses_SetUp(pbTask *task, pbTrajectory *tr);  // after all variables are read
bool pbPoses_AreModels(const pbTask *task, const pbTrajectory *tr);
// From here on velocities of all steps, and poses before the first: memory for them.
PB_NODISCARD pbStatus pbPoses_GiveMotion(pbTask *task, pbTrajectory *tr);
// From here on positions (part 0) or orientations (1) before the first step as they are now, as if they were given.
PB_NODISCARD pbStatus pbPoses_GiveBefore(pbTask *task, pbTrajectory *tr, int part);
// Velocities (nmocap x 6) in the step of a row of the path as the file says it; false: what jumps rests.
bool pbPoses_RateAt(const pbTask *task, const pbTrajectory *tr, size_t row, double *velocity);
void pbPoses_Free(pbContext *ctx, pbPoses *poses);
void pbPoses_Apply(pbTask *task, int t);
void pbPoses_Pull(const pbTask *task, int t, const pbVariable *v, double *gradient);
void pbPoses_ClearBars(const pbTask *task, const pbTrajectory *tr);
// What the gradient of a rollout by all of them goes to.
void pbPoses_Want(const pbTrajectory *tr, pbRolloutGradient *gradient);
// Entry k of a variable moves by `size`: added to rows that are zero.
void pbPoses_Direction(const pbTask *task, int t, const pbVariable *v, int k, double size, const pbTaskDirection *to);
void pbPoses_Act(const pbTrajectory *tr, pbRolloutInput *input);
// With each step divided: numbers of a step, and the rows (steps x divide of them) in `memory`.
size_t pbPoses_Numbers(const pbTask *task, const pbTrajectory *tr);
void pbPoses_Fine(const pbTask *task, const pbTrajectory *tr, int divide, double *memory, pbRolloutInput *input);

// ---- constraints.c: terms that are to be met and not weighed, by multipliers (augmented Lagrangian)
PB_NODISCARD pbStatus pbMultipliers_Create(pbContext *ctx, const pbTerm *term, double tolerance, pbMultipliers **multipliers);
void pbMultipliers_Free(pbContext *ctx, pbMultipliers *multipliers);
bool pbTask_IsConstrained(const pbTask *task);
// As before the first move: constraints are weighed as other terms are.
void pbTask_ClearMultipliers(pbTask *task);
// After an evaluation: multipliers move by what is off, and what has not come closer becomes stiffer, if it may. Says whether all
// are within their tolerances; to_come: without the state that is begun with, where that alone is looked at.
typedef struct pbMultiplierMove {
  bool may_stiffen, to_come;
} pbMultiplierMove;
bool pbTask_MoveMultipliers(pbTask *task, pbMultiplierMove how);
double pbTask_PlainTerms(const pbTask *task);  // sum at the last evaluation, without multipliers: what results tell
double pbTerm_WorstToCome(const pbTrajectory *trajectory, const pbTerm *term);  // the largest deviation, likewise
double pbTask_Stiffness(const pbTask *task);                                    // how many times a weight counts, at most
const pbTerm *pbTask_WorstConstraint(const pbTask *task);  // by its tolerance, of the last evaluation; NULL: all are met
// For a task that begins `later` seconds after: what was known of times then is known of times now, of those beyond the last
// what was known of it. Weights are as given, multipliers stay.
void pbTask_ShiftMultipliers(pbTask *task, double later);
// After an evaluation of the answer: its multipliers are what the shifted deviations pull with, wherever the search has ended.
void pbTask_KeepMultipliers(pbTask *task);
void pbTask_ForgetMultipliers(pbTask *task);  // no run has ended
size_t pbTask_MultiplierNumbers(const pbTask *task);
void pbTask_SaveMultipliers(const pbTask *task, double *numbers);
void pbTask_LoadMultipliers(pbTask *task, const double *numbers);

// ---- fine.c: the model for steps h / divide. A policy decides at the same times, led points are where they were then. All but
// the structs is borrowed.
typedef struct pbFineModel {
  pbModel model;
  pbPolicyModel policy;
  pbDeform deform;
} pbFineModel;
// pb_unsupported where the policy cannot be the same controller.
PB_NODISCARD pbStatus pbTask_Fine(const pbTask *task, int divide, pbFineModel *fine);
// A state to start from: steps since the last decision are counted in finer ones.
void pbFineModel_Start(const pbFineModel *fine, int divide, double *x);

// ---- what is known before: its part of the loss (gradient, n, added to; or NULL), of residuals (J: prior_count x n, or NULL)
double pbTask_Prior(const pbTask *task, const double *z, double *gradient);
void pbTask_PriorResiduals(const pbTask *task, const double *z, double *r, double *J);

// ---- uncertainty.c
void pbSureness_Free(pbContext *ctx, struct pbSureness *s);

// Loss at z once more with the time step divided.
PB_NODISCARD pbStatus pbTask_Confirm(pbTask *task, const double *z, double *loss, double *timestep);
bool pbTask_Met(const pbTask *task, double value);
// Why the run ended at result_z, into task->verdict; used_up: the iterations were.
PB_NODISCARD pbStatus pbTask_Judge(pbTask *task, bool used_up);

// How far the gradients at z reach: of the first trajectory where they are noise, and its number; step -1, -1: of none.
PB_NODISCARD pbStatus pbTask_Noise(pbTask *task, const double *z, pbNoise *noise, int *trajectory);

// The loop, told where its state is kept.
typedef struct pbRunStore {
  void *user;
  const char *name;  // of the file, for messages
  pbStatus (*load)(void *user, double *state, size_t count, bool *found);
  pbStatus (*save)(void *user, const double *state, size_t count);
} pbRunStore;
PB_NODISCARD pbStatus pbTask_RunLoop(pbTask *task, const pbRunOptions *options, const pbRunStore *store, pbRunResult *result);

// ---- trajectories.c: what is done one by one, on the threads of the task's pool ------------------------------------------
PB_NODISCARD pbStatus pbTrajectory_SetUp(pbTask *task, pbTrajectory *tr);  // its rollout
void pbTrajectory_Free(pbTrajectory *tr);
int pbTrajectory_OnProgress(void *trajectory, const pbProgress *progress);  // of its rollouts
// Errors of these are in tr->ctx. Value: tr->loss; where a formula has none, the reason.
double *pbTrajectory_Start(const pbTrajectory *tr);  // its initial state in the world at hand
PB_NODISCARD pbStatus pbTrajectory_Forward(pbTrajectory *tr);
PB_NODISCARD pbStatus pbTrajectory_Value(pbTrajectory *tr, bool pull, double *ctrl_bar);
void pbTrajectory_ClearBars(pbTrajectory *tr);
PB_NODISCARD pbStatus pbTrajectory_PullBack(pbTrajectory *tr, const pbVjpOptions *options, double *theta_bar,
                                            pbCertificate *certificate);
bool pbTask_IsTruncated(const pbTask *task);
// `each` is called for every trajectory that is fitted, on the threads of the pool.
void pbTask_ForAll(pbTask *task, void (*each)(void *user, int t, int worker), void *user);
PB_NODISCARD pbStatus pbTask_SetUpThreads(pbTask *task);
void pbTask_FreeThreads(pbTask *task);
// At unknowns that are applied: the loss and its gradient (n; NULL: not wanted); residuals (m) and their Jacobian (m x n; NULL).
// again: the rollouts hold this run.
PB_NODISCARD pbStatus pbTask_EachLoss(pbTask *task, const double *z, double *value, double *gradient);
// Deviations (samples of all that is fitted) and their Jacobian, without weights, at unknowns that are applied.
PB_NODISCARD pbStatus pbTask_EachDeviation(pbTask *task, const double *z, double *d, double *J);
// Terms of the trajectories that test the answer, at z; value: their loss, NaN where there are none.
PB_NODISCARD pbStatus pbTask_Test(pbTask *task, const double *z, double *value);
PB_NODISCARD pbStatus pbTask_EachResidual(pbTask *task, const double *z, bool again, double *value, double *r, double *J);
// Residuals (r may be NULL); each trajectory is handed over right after its run and its value with slopes, on its thread.
typedef struct pbTaskTaker {
  pbStatus (*take)(void *user, int t);  // errors are in the trajectory's context
  void *user;
} pbTaskTaker;
PB_NODISCARD pbStatus pbTask_EachTaken(pbTask *task, const double *z, bool again, double *value, double *r,
                                       const pbTaskTaker *taker);

// ---- task.c: pbTask_Residuals with a taker in place of J; the value, and r (m, or NULL)
PB_NODISCARD pbStatus pbTask_Linearize(pbTask *task, const double *z, double *value, double *r, const pbTaskTaker *taker);
// The loss of rollouts that are steered (pbRollout.steer) into knots of controls in z, which begins with the unknowns of initial
// states.
PB_NODISCARD pbStatus pbTask_Shoot(pbTask *task, double *z, double *value);

#endif
