// Pullback: control by plans. A task's plan is made again and again from the state that has been reached, and followed in
// between by its feedback (model predictive control).
#ifndef PULLBACK_CONTROL_H
#define PULLBACK_CONTROL_H

#include <pullback/optimize.h>

#ifdef __cplusplus
extern "C" {
#endif

// Feedback along a trajectory of a task at z, whatever found it: gains (steps, nu, TangentSize) of the linear-quadratic
// regulator for the task's loss along its run. A state that is off by d, in the tangent space of the run's, is answered by gain
// d; zero for controls that are no unknowns, or are held at their limits. Of a task that "ilqr" can solve, of a trajectory that
// it fits; else pb_bad_input.
PB_API PB_NODISCARD pbStatus pbTask_Gains(pbTask *task, const double *z, int trajectory, double *gain);

// A plan of a task (docs/task.md) that "ilqr" can solve, with one trajectory, whose variables are controls alone: its steps are
// the horizon, its start the first guess. Times of the task are those of the horizon: poses that it gives to mocap bodies,
// controls that are no unknowns and targets over time begin anew with every plan. The task is borrowed, and not to be used while
// there is a controller of it; Destroy gives it back as it was. One thread makes plans and changes; any thread may ask Feedback,
// FeedbackAt, Get and Copy meanwhile. After Create no call takes memory but SetParameter where constants are recomputed.
typedef struct pbMpc pbMpc;
// pb_bad_input: the task is not such a one, with the reason.
PB_API PB_NODISCARD pbStatus pbMpc_Create(pbContext *ctx, pbTask *task, pbMpc **mpc);
PB_API void pbMpc_Destroy(pbMpc *mpc);  // NULL is fine

typedef struct pbMpcLimits {
  int iterations;  // of a plan, at most; 0: 1
  double seconds;  // no iteration begins that would end later, as long as the last ones took; 0: any. The first is always made
} pbMpcLimits;
typedef struct pbMpcNews {                                       // of one plan
  int iterations;                                                // begun
  double loss, guess_loss;                                       // of the plan; of the last one, moved to now
  double seconds, linearize_seconds, plan_seconds, run_seconds;  // all of it; of iterations, by what they do
  bool late;                                                     // it took longer than its limit
  bool converged;                                                // nothing was left to gain, and constraints are met
  // all of it by phase: the last plan is moved to now; iterations; gains, and the plan handed over to who reads it
  double prepare_seconds, iterate_seconds, finish_seconds;
  double violation;  // of constraints after the state it begins with, the largest by its tolerance: 1 is met. 0: there are none
} pbMpcNews;
// A plan from state x (StateSize), `elapsed` seconds after the state that the last one began with: that one is the guess, moved
// by this time. news: NULL, or what it took. Where it fails the last plan stays, `elapsed` older, and goes on to serve Feedback.
// pb_bad_argument, and nothing has changed but a count: the state, or the time, is none (NaN, a quaternion of no length).
//
// Terms that are constraints ("constraint": true) are met by multipliers (augmented Lagrangian, docs/task.md): these are kept
// from plan to plan, moved in time as the controls are, and move by what is off whenever a search has come to its end, made a
// few iterations, or the plan ends. The weight begins at the term's in every plan, and grows in it where that brings a
// constraint no closer (tenfold at most where time has elapsed); what cannot be met so leaves multipliers where one look at it
// moves them. `loss` is that of all other terms.
PB_API PB_NODISCARD pbStatus pbMpc_Plan(pbMpc *mpc, double elapsed, const double *x, const pbMpcLimits *limits, pbMpcNews *news);
// Controls (nu) at state x, `time` seconds after the state that Plan was last called with: the plan's, and its answer to how
// far x is off, within the limits of the variables; within a step of the plan its state is on the line to the next. Before the
// first plan the task's start; beyond the horizon its last controls. pb_bad_argument, without a text, and ctrl is not written:
// the state, or the time, is none.
PB_API pbStatus pbMpc_Feedback(const pbMpc *mpc, double time, const double *x, double *ctrl);
// The same at a time on the clock of plans, which is that of the state of each: the sum of all `elapsed` so far. For a thread
// that does not know which Plan another one is in. age (s, may be NULL): since the plan that answered began.
PB_API PB_NODISCARD pbStatus pbMpc_FeedbackAt(const pbMpc *mpc, double at, const double *x, double *ctrl, double *age);

// The plan: controls (steps, nu), states (steps + 1, StateSize), gains (steps, nu, TangentSize): a state that is off by d, in
// the tangent space of the plan's, is answered by gain d. Of what is at its limits, and before the first plan, zero.
typedef struct pbMpcPlan {
  int steps, nu, nx, n;
  double timestep, age;  // s; age: since it began, by what Plan was told
  const double *ctrl, *states, *gain;
  int plans, failed;  // made so far; of these, without an answer
  double clock;       // s: of the state that Plan was last called with, from that of the first: the sum of all `elapsed`
  int refused;        // states and times that were none, of plans and of feedback
  // answers given; of these, by an older plan since the last one had failed; all of them together, s
  int64_t feedbacks, fallbacks;
  double feedback_seconds;
} pbMpcPlan;
// Arrays are valid until the plan after the next call of Plan, or until Restart.
PB_API pbMpcPlan pbMpc_Get(const pbMpc *mpc);
// The same, with arrays of the caller's of these sizes that it is copied to, whole, while another thread makes plans; each may be
// NULL.
PB_API pbMpcPlan pbMpc_Copy(const pbMpc *mpc, double *ctrl, double *states, double *gain);

// ---- what may change between plans --------------------------------------------------------------------------------------
// The next plan is that of a task with these numbers; names are those of the task. pb_bad_argument, and nothing has changed:
// there is no such thing (with a "did you mean"), the count does not fit, a number is none, with what was expected.
//
// The target of all terms of this name: one number, for all that they look at; a number for each component that they look at
// (of free and ball joints as in qpos: quaternions have 4, of any length but zero); or such a row for each of their times, in
// order. In the unit of the quantity. A term some of whose samples are missing keeps its target.
PB_API PB_NODISCARD pbStatus pbMpc_SetTarget(pbMpc *mpc, const char *term, const double *target, size_t count);
// The weight of all terms of this name, as in the task; of a constraint more than 0.
PB_API PB_NODISCARD pbStatus pbMpc_SetWeight(pbMpc *mpc, const char *term, double weight);
// Bounds of a variable, in the unit of its controls: one for all, one for each actuator, or one for each at every knot; NULL: as
// they are. Lower ones are not above the upper ones; infinite ones are none. Feedback keeps them from now on.
PB_API PB_NODISCARD pbStatus pbMpc_SetBounds(pbMpc *mpc, const char *variable, const double *lower, const double *upper,
                                             size_t count);
// A parameter of the model by its name (pbModel_Param: "body_mass", "body_mass:pole", "gravity:2"): one number for all, or each.
// Derived constants follow, or stay, as the task says ("constants"). Not the time step: times of the loss depend on it.
// pb_bad_input: the model has no meaning with it (pbModel_CheckParams).
PB_API PB_NODISCARD pbStatus pbMpc_SetParameter(pbMpc *mpc, const char *name, const double *values, size_t count);
// As newly made, with what has been set: the task's start is the plan, nothing is known of the one before, counts are zero.
PB_API PB_NODISCARD pbStatus pbMpc_Restart(pbMpc *mpc);

// ---- a controller with its plant ------------------------------------------------------------------------------------------
// What "control" of a task file says (docs/task.md): how often plans are made of the task, for how long, and of which plant: the
// task's own model, another one, or another process. They come from files: a library built with PULLBACK_IO=OFF has none.
typedef struct pbControl pbControl;
// allow_root: further folders files may be read from (io.h), or NULL. pb_bad_input with file, place and line: also where pbMpc
// cannot plan the task, or the plant has other joints, actuators or sizes of its state than the task's model.
PB_API PB_NODISCARD pbStatus pbControl_Load(pbContext *ctx, const char *path, const char *allow_root, pbControl **control);
PB_API void pbControl_Destroy(pbControl *control);  // NULL is fine

typedef struct pbControlOptions {
  // A command (of /bin/sh) that is the plant, over its standard input and output: lines of JSON, docs/control.md says which. Its
  // standard error is the caller's. NULL: a model is.
  const char *plant;
  // An NPZ that an earlier run has written: its plans are made again with as many iterations each, whatever the clock says, and
  // where it ended early the run goes on. NULL: none. Not with `plant`.
  const char *replay;
  bool has_seed;
  uint64_t seed;  // instead of the task's
  // Files of the motion (NPZ, as of pbSimulation_Run but for what a process does not tell, with "plan/..." beside it) and of the
  // decisions (CSV); NULL: none. Written once a second (of long records as often as takes a tenth of the time) and at the end,
  // however it ends.
  const char *record, *table;
  pbPool *pool;  // plans are made on its threads (borrowed; NULL: the caller's alone); no bit depends on it
  pbProgressFunction progress;
  void *user;
} pbControlOptions;

typedef struct pbControlTimes {  // s, over all decisions
  double median, percentile99, largest;
} pbControlTimes;
typedef struct pbControlResult {
  long steps;       // of the plant
  double time;      // s of its clock, since the start
  int plans, late;  // made; of these, those that took longer than the interval
  int fallbacks;    // without an answer: the plan before went on
  int replayed;     // with the iterations of a record
  bool done;        // the plant said so
  double behind;    // s, in real time: the most that a step came late
  double interval;  // s, between plans
  // a plan; of it derivatives, the sweep backwards with the runs of what it found; a control out of a plan
  pbControlTimes plan, prepare, search, feedback;
} pbControlResult;
// options NULL: none. However it ends, `result` is of what was done, and that is in the files. pb_interrupted: the progress
// function asked for it. pb_file: another process as plant was silent, ended or said what it may not, with the number of its line
// and the reason. pb_not_finite and others of its kind: the plant's model cannot go on. pb_bad_input: a record of another run,
// one with other states.
PB_API PB_NODISCARD pbStatus pbControl_Run(pbControl *control, const pbControlOptions *options, pbControlResult *result);

#ifdef __cplusplus
}
#endif
#endif
