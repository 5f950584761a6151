// Pullback: minimisers with a plain C interface, and tasks: what to vary, what to minimise, read from a JSON file.
#ifndef PULLBACK_OPTIMIZE_H
#define PULLBACK_OPTIMIZE_H

#include <pullback/json.h>
#include <pullback/pool.h>
#include <pullback/rollout.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- minimisers ---------------------------------------------------------------------------------------------------
// What is minimised. A callback that fails with pb_not_finite, pb_no_convergence or pb_singular tells the minimiser that x
// is no good (value infinite, it steps back); any other failure ends the run.
typedef struct pbProblem {
  int n;                        // unknowns
  size_t m;                     // residuals; 0: no sum of squares
  const double *lower, *upper;  // n each, +-infinity where open; NULL: open
  void *user;
  pbStatus (*value)(void *user, const double *x, double *value);
  pbStatus (*gradient)(void *user, const double *x, double *value, double *gradient);
  // value = sum of squares of r (m); J (m x n, row-major) may be NULL
  pbStatus (*residuals)(void *user, const double *x, double *r, double *J);
} pbProblem;

typedef enum pbMethod {
  pb_methodAdam,
  pb_methodLbfgs,
  pb_methodGaussNewton,
  pb_methodCmaes,
  pb_methodEs,
  pb_methodSepCma,
  pb_methodIlqr,  // of tasks alone: their trajectories are its problem
  pb_methodCount
} pbMethod;
PB_API const char *pbMethod_Name(pbMethod method);  // "adam", "lbfgs", "gauss-newton", "cmaes", "es", "sep-cma", "ilqr"
PB_API bool pbMethod_Find(const char *name, pbMethod *method);

typedef struct pbRate {  // learning rate from an iteration on
  int iteration;
  double rate;
} pbRate;
typedef struct pbOptimizerOptions {  // zeros mean the defaults in brackets
  pbMethod method;
  // adam (Kingma & Ba 2015), and the same steps of es
  const pbRate *rates;           // ascending iterations, the first 0
  int rate_count;                // 0: 1e-2 throughout
  bool linear_rates;             // on lines between those; else each holds until the next
  double clip;                   // longest gradient (Euclidean norm): longer ones are scaled to it [0: any]
  double beta1, beta2, epsilon;  // [0.9, 0.999, 1e-8]; beta < 0 means 0
  // lbfgs (projected on the bounds; weak Wolfe conditions where they do not bind, Armijo where they do)
  int memory;  // pairs kept [10]
  // gauss-newton (Levenberg-Marquardt, bounds by active set)
  double damping;  // start, relative to the diagonal [1e-3]; of ilqr to the mean curvature by states [0]
  // cmaes (Hansen 2016, arXiv 1604.00772); sep-cma, its diagonal (Ros & Hansen 2008), for very many unknowns; es: antithetic
  // pairs, shaped by their ranks, Adam along the estimated gradient (Salimans et al. 2017, arXiv 1703.03864)
  double sigma;    // start [1]; of es throughout [0.1]
  int population;  // [4 + floor(3 ln n)]; es: the next even number. Besides, the mean (es: each; else the first) is evaluated
  uint64_t seed;
  // all: when to stop
  double gradient_tolerance;  // largest entry of the projected gradient [1e-9]; negative: never
  double step_tolerance;      // length of a move relative to 1 + |x| [1e-12]; negative: never
  // all: begin anew near the best point, moved at random, where a run gets stuck (losses with jumps and kinks)
  int restarts;         // at most [0]
  double restart_size;  // of the move, in each coordinate, relative to 1 + |x| [0.01]
} pbOptimizerOptions;

typedef struct pbOptimizer pbOptimizer;
PB_API PB_NODISCARD pbStatus pbOptimizer_Create(pbContext *ctx, const pbProblem *problem, const pbOptimizerOptions *options,
                                                const double *start, pbOptimizer **optimizer);
PB_API void pbOptimizer_Destroy(pbOptimizer *optimizer);  // NULL is fine

typedef enum pbOutcome { pb_running, pb_smallGradient, pb_smallStep, pb_noDescent, pb_outcomeCount } pbOutcome;
PB_API const char *pbOutcome_Text(pbOutcome outcome);
typedef struct pbIterate {
  int iteration;                         // finished iterations
  int64_t values, gradients, jacobians;  // callbacks called so far
  const double *x, *best;                // current, and the best seen
  double value, best_value;
  double gradient_norm;  // largest entry of the gradient projected on the bounds; NaN without gradient
  double step_norm;      // of the last move
  pbOutcome outcome;
} pbIterate;
PB_API PB_NODISCARD pbStatus pbOptimizer_Iterate(pbOptimizer *optimizer);  // one iteration
PB_API pbIterate pbOptimizer_Get(const pbOptimizer *optimizer);

// Everything an optimiser carries from one iteration to the next, as numbers: copied out and into an optimiser made with
// the same problem and options, the run goes on to the same bits.
PB_API size_t pbOptimizer_StateSize(const pbOptimizer *optimizer);
PB_API void pbOptimizer_Save(const pbOptimizer *optimizer, double *state);
PB_API PB_NODISCARD pbStatus pbOptimizer_Restore(pbOptimizer *optimizer, const double *state);

// ---- tasks --------------------------------------------------------------------------------------------------------
// Tasks and losses come from files: a library that was built with PULLBACK_IO=OFF reads and runs none.
// A task file (docs/task.md): model, trajectories, variables, losses, optimiser. Unknowns z of a task are the minimiser's
// coordinates: a variable's value after its transform and scale.
typedef struct pbTask pbTask;

// allow_root: further folders files may be read from (io.h), or NULL. Errors: file, JSON path, line.
PB_API PB_NODISCARD pbStatus pbTask_Load(pbContext *ctx, const char *path, const char *allow_root, pbTask **task);
// The same with a policy of a file (pbPolicy_Load) in place of the task's, or weights for it; NULL: the task's.
PB_API PB_NODISCARD pbStatus pbTask_LoadWith(pbContext *ctx, const char *path, const char *allow_root, const char *policy,
                                             pbTask **task);
// From text; files it names are looked up in `folder` (NULL: no file may be named). `name` stands in messages.
PB_API PB_NODISCARD pbStatus pbTask_Parse(pbContext *ctx, const char *text, size_t length, const char *folder, const char *name,
                                          pbTask **task);
// The run that a task file describes, without its loss: trajectories with their initial states, controls and steps, and variables
// at their start, for `model` (loaded from the same file; borrowed) with parameters theta. "steps" (Steps is then 0), "variables"
// and "loss" may be missing. Only what is known of a task, Expand and Parameters may be asked of it.
PB_API PB_NODISCARD pbStatus pbTask_LoadRun(pbContext *ctx, const char *path, const char *allow_root, const pbModel *model,
                                            const double *theta, pbTask **task);
PB_API void pbTask_Destroy(pbTask *task);  // NULL is fine
// Trajectories are simulated on the threads of this pool from now on (borrowed; NULL: on the caller's alone, the default). No bit
// of a result depends on it. Progress is told on the caller's thread; allocation hooks are called from all of them.
PB_API PB_NODISCARD pbStatus pbTask_UsePool(pbTask *task, pbPool *pool);

// ---- losses that the host computes --------------------------------------------------------------------------------
// A term {"function": NAME} of a task (docs/task.md) is computed by the caller. It sees the states that the term looks at,
// and says the value and the slopes by what it saw: bars, in the tangent space, zero before the call.
typedef struct pbLossRows {
  const char *name;      // "qpos", "qvel", "act", "sensordata", "xpos", "site_xpos", "points", "point_velocity", "control"
  int width, bar_width;  // of a row; they differ for qpos: nq, nv
  const double *value;   // (count, width)
  double *bar;           // (count, bar_width); NULL: no slopes are wanted
} pbLossRows;
typedef struct pbLossView {
  const char *name;       // of the function
  int trajectory, count;  // number of the trajectory, of the states
  const double *time;     // count: s from the start
  const pbLossRows *rows;
  int row_count;  // quantities
  char *why;      // 160 bytes for the reason of a failure; "" before the call
} pbLossView;
// Called from the threads of the task's pool. Failures are as of pbProblem's callbacks.
typedef pbStatus (*pbLossFunction)(void *user, const pbLossView *view, double *value);
PB_API void pbTask_OnFunction(pbTask *task, pbLossFunction function, void *user);

// The task begins from here on where a search of it ended: pbTask_Start is the answer in a result that optimize wrote, and what a
// run of the task is made from has the file in it. pb_bad_input: with the variable, where they do not fit or are out of bounds.
PB_API PB_NODISCARD pbStatus pbTask_StartAt(pbTask *task, const char *path);
// The parameters that such a result found ("parameters" of its JSON), put into theta (ParamSize) of a model; unknowns of other
// kinds (states, controls) stay away. *recompute: derived constants follow them there (pbModel_SetConstants). On failure nothing
// is changed; pb_bad_input, with file and place: a parameter that the model does not have, no result.
PB_API PB_NODISCARD pbStatus pbModel_ReadResult(pbContext *ctx, const pbModel *model, const char *path, double *theta,
                                                bool *recompute);

PB_API const pbModel *pbTask_Model(const pbTask *task);
PB_API int pbTask_Size(const pbTask *task);              // number of unknowns n
PB_API size_t pbTask_ResidualCount(const pbTask *task);  // m; 0 where a term is no sum of squares
PB_API const double *pbTask_Start(const pbTask *task);   // n
PB_API void pbTask_Bounds(const pbTask *task, const double **lower, const double **upper);
// Name ("body_mass:torso[0]") and value in the unit of the model of unknown i at z.
PB_API void pbTask_Unknown(const pbTask *task, int i, const double *z, char *name, size_t size, double *value);
PB_API int pbTask_TrajectoryCount(const pbTask *task);
PB_API int pbTask_Steps(const pbTask *task, int trajectory);
PB_API const double *pbTask_InitialState(const pbTask *task, int trajectory);  // StateSize, as the file says
PB_API bool pbTask_IsTest(const pbTask *task, int trajectory);                 // "role": "test": it takes no part in the fit
PB_API const pbRolloutPlan *pbTask_Plan(const pbTask *task, int trajectory);
PB_API const char *pbTask_Constants(const pbTask *task);  // "keep" or "recompute"
PB_API pbGradientKind pbTask_GradientKind(const pbTask *task);
PB_API pbVjpOptions pbTask_Truncation(const pbTask *task);  // decay, window, clip of its gradients ("gradient"); the rest zero
PB_API bool pbTask_HasStop(const pbTask *task);             // "stop" states a loss or deviations of terms

PB_API PB_NODISCARD pbStatus pbTask_Loss(pbTask *task, const double *z, double *value, double *gradient);  // gradient: n or NULL
PB_API PB_NODISCARD pbStatus pbTask_Residuals(pbTask *task, const double *z, double *r, double *J);        // J: m x n or NULL
// Terms of the last evaluation: name, weighted value, and deviation: largest norm, over the times asked for, of what the
// term measures minus its target (what "stop.terms" looks at).
PB_API int pbTask_TermCount(const pbTask *task);
PB_API void pbTask_Term(const pbTask *task, int i, const char **name, double *value, double *deviation);
// Of term i, if it is a constraint of a run that has ended: what the run's answer pulls there with, (times, components) in the
// order of its times: the least loss falls by so much for each unit by which that component's target moves up. Zero where a
// one-sided term has room. NULL, and no numbers: the term is no constraint, or no run of the task has ended. Valid until the
// next run.
PB_API const double *pbTask_Multipliers(const pbTask *task, int i, size_t *times, size_t *components);
PB_API int64_t pbTask_Simulations(const pbTask *task);  // trajectories simulated so far, each evaluation one
// What unknowns mean: theta (ParamSize), initial state (StateSize), controls (steps, nu) of a trajectory. Any may be NULL.
PB_API PB_NODISCARD pbStatus pbTask_Expand(pbTask *task, const double *z, int trajectory, double *theta, double *x0,
                                           double *ctrl);
// The same of mocap bodies: positions (steps, nmocap, 3) and quaternions (steps, nmocap, 4); either may be NULL. *given: false
// where they are the model's, and nothing is written.
PB_API PB_NODISCARD pbStatus pbTask_Poses(pbTask *task, const double *z, int trajectory, double *pos, double *quat, bool *given);
// After pbTask_Poses, where they are given: poses before the first row (nmocap x 3, nmocap x 4), and velocities (steps, nmocap,
// 6) as the task has them: false, with nothing written to `velocity`, where poses say them. Any may be NULL.
PB_API bool pbTask_PoseMotion(pbTask *task, int trajectory, double *pos_before, double *quat_before, double *velocity);
// theta (ParamSize) with the unknowns in, derived constants as the file has them. pb_not_finite: a tie has no value there.
PB_API PB_NODISCARD pbStatus pbTask_Parameters(pbTask *task, const double *z, double *theta);
// Certificate of the gradient at z, spot check included, of one trajectory.
PB_API PB_NODISCARD pbStatus pbTask_Certify(pbTask *task, const double *z, int trajectory, pbCertificate *certificate);

// How sure a fit is of its answer. Of deviations d of the terms (those with "sigma" in its units), with weights w and Jacobian J
// by the unknowns: the covariance (J'WJ)^-1, of terms without sigma times the variance of what is left, sum w d^2 / (m - n); of
// "huber" and "norm" A^-1 B A^-1 with the curvature A of the loss and the squares B of its slopes (Huber 1967). Unknowns at their
// bounds are held there. n of each array; lengths of axes and quaternions have no meaning and are left out.
typedef enum pbDetermined {
  pb_isDetermined,    // by the samples: deviation and interval are numbers
  pb_isAtBound,       // held at a bound: no interval
  pb_isUndetermined,  // the samples do not see it, or only together with others
  pb_isOfOneCluster,  // samples of one cluster alone see it: how it would differ from cluster to cluster is not known
} pbDetermined;
typedef struct pbUncertainty {
  const char *why;         // why there is none of the rest; NULL: there is
  size_t samples;          // m
  int degrees;             // m less the unknowns that are determined
  bool sigma;              // all terms state one: nothing is estimated
  int clusters;            // whose spread tells how sure it is, whatever deviations within one have in common; 0: none are named
  double quantile;         // half width of the interval in standard deviations: 95 %, normal with sigma, else Student's
  double chi_square;       // sum w d^2 / degrees; with sigma 1 but for chance
  double autocorrelation;  // of a sample with the one before it; 0 but for chance; NaN: too few
  double residual;         // root of the mean square of the deviations
  double condition;        // of J'WJ with columns of length one, of what is determined
  const unsigned char *determined;  // pbDetermined
  const double *deviation;          // standard deviation in the unit of the value; NaN where it is not determined
  const double *lower, *upper;      // of the interval, likewise
  const double *correlation;        // n x n; NaN in rows and columns of what is not determined
  const char *weakest;              // in words: the direction that is known least, or what is not determined
  const char *warning;              // why the model cannot be right, or sigma; "": nothing speaks against them
} pbUncertainty;

// How sure the answer z is, whatever found it; owned by the task, valid until the next call.
PB_API PB_NODISCARD pbStatus pbTask_Uncertainty(pbTask *task, const double *z, const pbUncertainty **uncertainty);

typedef struct pbRunOptions {
  const char *state_file;  // written as the run goes and removed by nobody; NULL: none
  bool resume;             // go on from state_file where it exists
  bool has_seed;
  uint64_t seed;        // instead of the task's
  const char *method;   // instead of the task's, in all stages; NULL: the task's
  int iterations;       // instead of the task's, of stages of the last one's; 0: the task's
  double save_seconds;  // least time between two writes; 0: 1
  pbProgressFunction progress;
  void *user;
} pbRunOptions;

// Why a search ended: the first that fits.
typedef enum pbRunOutcome {
  pb_runCriteriaMet,     // the stop criteria of the task hold
  pb_runConverged,       // nothing is left to gain, nor sideways: gradient zero within its tolerance, or no step promises any
  pb_runNoInfluence,     // the loss depends on none of the unknowns
  pb_runStalledAtJump,   // the loss jumps beside the answer
  pb_runStalled,         // no better point was found for another reason
  pb_runIterationLimit,  // the iterations are used up
  pb_runSaddle,          // the gradient is zero, but the loss falls to both sides along a direction (before "converged")
  pb_runFailed,          // an evaluation failed for want of memory or room: the answer is the best point before (with an error)
  pb_runOutcomeCount
} pbRunOutcome;
PB_API const char *pbRunOutcome_Name(pbRunOutcome outcome);  // "criteria met", "converged", ...
enum {                                                       // what is to be said of an unknown at the answer
  pb_unknownAtLower = 1,
  pb_unknownAtUpper = 2,
  pb_unknownInert = 4,  // a move by 1e-3 (1 + |z|) to either side changes no bit of the loss
  pb_unknownKink = 8    // its gradient is zero, but the loss falls beside it
};

// Texts and arrays belong to the task and are valid until its next Run.
typedef struct pbRunResult {
  bool met;  // the stop criteria ("loss", "terms") hold
  pbRunOutcome outcome;
  const char *reason;          // one sentence: why it ended
  const char *advice;          // lines of what else is to be known: unknowns without influence, kinks, what to try; "" for none
  const unsigned char *notes;  // n: pb_unknown... of each
  const double *direction;     // n: of a saddle, its largest entry relative to 1 + |z| one; NULL: the answer is none
  int left;                    // saddles that the search left ("saddle": "leave")
  int iterations;
  int64_t simulations;      // trajectories simulated by the optimiser
  int64_t gradients;        // evaluations with a gradient or Jacobian
  double loss, start_loss;  // of a task with draws that change: by one set of draws that is none of the search's
  double seconds;
  // Of a search by gradients that did not meet its criteria: how far those reach at the answer (pbNoise_Say, pbNoise_Propose), of
  // the first trajectory where they are noise, and its number. Without noise, or where nothing was looked at (gradients that are
  // truncated, methods without): step -1, -1.
  pbNoise noise;
  int noise_trajectory;
  double *z;           // n, best; owned by the task, valid until the next Run
  bool confirmed_run;  // simulated again at a finer time step ("confirm")
  double confirm_loss, confirm_timestep;
  bool resumed;
  double test_loss;                  // of the trajectories that test the answer; NaN: there are none
  int best_start;                    // number of the start that it came from; 0: the task's own
  const pbUncertainty *uncertainty;  // of a fit to recordings; NULL: the task is none, or says "uncertainty": false
} pbRunResult;
// pb_interrupted: the state file holds all; call again with resume. Any other error: where a point could be evaluated before it,
// `result` is as after a run (outcome pb_runFailed, reason: the error, nothing judged or confirmed); else its z is NULL.
PB_API PB_NODISCARD pbStatus pbTask_Run(pbTask *task, const pbRunOptions *options, pbRunResult *result);
// Of a task with "starts", after its Run: how many searches came to the least loss to 1 %; spread (n, may be NULL): largest less
// smallest value of each unknown among these. 0: one start alone.
PB_API int pbTask_StartCount(const pbTask *task);  // at least 1
PB_API int pbTask_StartsAgree(const pbTask *task, double *spread);
// Of a task with "stages": how many there are (0: none), and after its Run what each came to, from 0. The task itself is the
// last one: its sizes, start, bounds, loss and result are that one's. Where a run ended with an error: name NULL, zeros.
typedef struct pbRunStage {
  const char *name;
  int steps;  // of its first trajectory
  pbRunOutcome outcome;
  bool met;                 // its stop criteria hold
  double start_loss, loss;  // by its own settings
  int iterations;           // of this stage alone, as
  int64_t simulations;
} pbRunStage;
PB_API int pbTask_StageCount(const pbTask *task);
PB_API pbRunStage pbTask_Stage(const pbTask *task, int stage);
// The result as JSON text (free with pbContext_Free): loss, terms, variables by name, history, certificate, confirm.
PB_API PB_NODISCARD pbStatus pbTask_ResultJson(pbTask *task, const pbRunResult *result, char **text);

// The same with the names of `count` trajectory files before it, as the program writes it: as text to `out` and as values of
// JSON; either may be NULL. files: NULL for none.
PB_API PB_NODISCARD pbStatus pbTask_DescribeResult(pbTask *task, const pbRunResult *result, const char *const *files, int count,
                                                   pbJson *json, FILE *out);
// Of each term with a recording: times, what was recorded (null: missing) and what the simulation reads there at z, a list of
// objects, at most `most` times of each. Nothing is written where it fails.
PB_API PB_NODISCARD pbStatus pbTask_DescribeReadings(pbTask *task, const double *z, int most, const char *key, pbJson *json);
// How far a run is in words, of its progress: "loss 0.12". Returns text.
PB_API const char *pbRun_Say(const pbProgress *progress, char *text, size_t size);
enum { PB_RUN_PATH = 4160 };  // bytes of a path
// A file beside what a run writes: `output` (NULL: the task's name, in the current folder) without .json, .npz or .html, with an
// ending (".state"). pb_bad_argument: the name is empty or too long for `size`, or pbRun_IsStream.
PB_API PB_NODISCARD pbStatus pbRun_FileName(pbContext *ctx, const char *output, const char *task, const char *ending, char *path,
                                            size_t size);
// Whether an output is a pipe or a device ("/dev/stdout" also where that is a file by now): no files are written beside it.
PB_API bool pbRun_IsStream(const char *output);

// ---- losses alone -------------------------------------------------------------------------------------------------
// The "loss" of a task file on somebody else's rollout of `steps` steps: that of trajectory `trajectory` where the file lists
// trajectories (pb_bad_input where it has fewer), else the only one there is.
typedef struct pbLoss pbLoss;
PB_API PB_NODISCARD pbStatus pbLoss_Load(pbContext *ctx, const char *path, const char *allow_root, const pbModel *model,
                                         int trajectory, int steps, const double *theta, pbLoss **loss);
PB_API void pbLoss_Destroy(pbLoss *loss);  // NULL is fine
// Run Forward from x0 and pull the loss back: value, gradient (added to), certificate (may be NULL).
PB_API PB_NODISCARD pbStatus pbLoss_Gradient(pbLoss *loss, pbRollout *rollout, const double *theta, const double *x0,
                                             const pbRolloutInput *input, const pbVjpOptions *options, double *value,
                                             const pbRolloutGradient *gradient, pbCertificate *certificate);

#ifdef __cplusplus
}
#endif
#endif
