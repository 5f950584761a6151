// Inside of a training: what io/task/task_train.c fills from a file, and the parts of the loop. Costs are what the task's loss
// says of the state after a decision: less is better throughout.
#ifndef PB_LEARN_TRAIN_H
#define PB_LEARN_TRAIN_H

#include <pullback/learn.h>

#include "optimize/task.h"

typedef struct pbTrainSettings {
  pbTrainMethod method;
  int updates, worlds, window;  // window: decisions
  double episode;               // s
  double discount, lambda;      // of a decision; of the critic's targets
  double rate, last_rate;       // of Adam, falling linearly from the first to the last update
  double beta1, beta2, clip;    // clip: largest norm of a gradient
  double noise, last_noise;     // standard deviation of what is added to controls while collecting
  int evaluate_every, evaluate_starts;
  bool evaluate_noise;                // of what is observed
  double critic_rate, critic_target;  // target: share that stays of the slow critic
  int critic_rounds, critic_batches;
  int rounds, batches;  // ppo
  double ratio;         // ppo: clip of the ratio of probabilities
  double sigma;         // es, sep-cma
  int population;
  uint64_t seed;
} pbTrainSettings;

// A parameter that reaches the task's value on the way.
typedef struct pbRamp {
  size_t at;          // in theta
  double from, own;   // of one sign; own: the task's
  double begin, end;  // shares of the updates: `from` before, `own` after
} pbRamp;

// Adam on chosen entries of an array, with the gradient's norm clipped.
typedef struct pbLearnAdam {
  size_t count;
  const size_t *index;
  double *m, *v;
  double *steps;
} pbLearnAdam;
// Returns the norm before clipping; a gradient that is not finite moves nothing.
double pbLearnAdam_Step(const pbLearnAdam *a, const pbTrainSettings *s, double rate, const double *gradient, double *param);

// A function of observations that is learned: the critic, and the policy itself where no physics is differentiated.
typedef struct pbHead {
  const pbPolicyFunction *f;
  size_t params;
  double *param, *bar;
  size_t *index;  // of the entries that are not fixed
  size_t unknowns;
  int columns;  // most at once
  double *in, *out, *out_bar, *in_bar;
  void *block, *work;
} pbHead;

typedef struct pbSegment {  // numbers that pass from one update to the next
  double *data;
  size_t count;
} pbSegment;
enum { PB_TRAIN_SEGMENTS = 32, PB_TRAIN_BLOCKS = 64 };

typedef struct pbTrainNumbers {  // doubles only: they are saved as such
  double update, steps, evaluated, best_update, best_score, best_alive, first_score, dropped, seconds, adam, critic_adam, stats,
      seed, method, best_stats, reserved[3];
} pbTrainNumbers;

// What random numbers are for.
enum { pb_drawNoise, pb_drawStart, pb_drawOrder, pb_drawEvaluation, pb_drawSearch, pb_drawSeen };

struct pbTrain {
  pbContext *ctx;
  pbTask *task;  // model, parameters, start; the training's own
  pbTrainSettings settings;
  pbTermSet cost, end;  // of one state each; end: count 0 where no episode ends before its time
  double *spread;       // TangentSize: starts lie within it about the task's; NULL: all begin there
  // Layers before the policy's normalizer (NULL: none); where its numbers begin in theta, and in the critic's parameters (-1: it
  // has none); how many they are.
  pbNetwork *before, *critic;
  ptrdiff_t mean_at, deviation_at, critic_mean_at, critic_deviation_at;
  int features;
  bool brought;    // the policy came with the numbers of its normalizer, which stay
  double samples;  // that these are of; 0: not known
  pbRamp *ramp;
  int ramps;

  // the run's memory: made by pbTrain_Begin, gone with pbTrain_End
  const pbModel *model;
  int nx, nt, nu, every, nobs, ncommand, steps;      // steps: of a window
  int lanes, slice_count;                            // lanes: worlds or starts of an evaluation, whichever are more
  size_t ntheta, unknowns, policy_at, policy_count;  // slices of the policy lie side by side in theta
  size_t *unknown;                                   // entries of theta that are learned
  double *theta, *theta_bar, *theta_out;
  const char **slices;  // their names
  // Parameters that are drawn: entries of theta, each once, with names; those of present episodes (worlds, own_size), and of each
  // decision of a window (worlds, window + 1, own_size); theta of one world.
  size_t own_size, *own_at;
  const char **own_name;
  char *own_text;
  double *own, *own_rows, *theta_world;
  pbPool *pool;
  pbBatch *batch, *trial;  // trial: for evaluations
  pbScratch *scratch;
  pbHead head_critic, head_policy, head_before;
  pbOptimizer *search;
  pbRate search_rate;

  // what passes from one update to the next
  pbTrainNumbers *now;
  double *adam_m, *adam_v;
  double *critic_param, *critic_slow, *critic_m, *critic_v;
  double *stat_mean, *stat_square;  // features: of what the normalizer sees
  double *states, *age, *episode;   // worlds
  double *command;                  // (worlds, commands)
  double *best;                     // policy_count
  double *search_state;
  size_t search_size;
  pbTrainRow *rows;
  pbSegment segment[PB_TRAIN_SEGMENTS];
  int segments;
  double *kept;  // all of these after the last whole update
  size_t kept_size;

  // of one window
  double *ctrl, *row_states, *row_sensor, *row_xpos, *row_site;  // (worlds, steps, nu), (worlds, window + 1, width)
  double *trial_command, *command_steps;                         // (lanes, commands), (lanes, steps, commands)
  double *pose_pos, *pose_quat;                                  // (lanes, steps, nmocap, 3) and 4; NULL: the model's
  double *pose_vel;                                              // (lanes, steps, nmocap, 6)
  double *xfrc, *kick, *noise;                       // (lanes, steps, 6 nbody), nv, observed: pushes, noise; NULL: none
  int *row_steps;                                    // (window + 1)
  double *costs, *target, *advantage, *mean;         // (worlds, window), mean: (worlds, window, outputs)
  double *fresh;                                     // (worlds, window, nx): new starts right after a decision
  double *observed;                                  // (worlds, window + 1, nobs)
  double *bar_x, *bar_sensor, *bar_xpos, *bar_site;  // (worlds, window + 1, width): of the tangent, sensors, ...
  double *next, *tangent, *record;                   // window; TangentSize; a tape record
  const double **batch_row;
  int *length, *done, *ids, *order, dropped;  // length: decisions that count
  bool *ended, *lost;                         // (worlds, window): its episode ended before its time; (worlds): diverged

  void *block[PB_TRAIN_BLOCKS];  // all memory of the run
  int blocks;
  const pbTrainOptions *options;
  double began, saved, told, steps_before, seconds_before, first_update;
  double last_cost, last_score;
  bool stopped, often;  // often: news at every occasion
};

// ---- begin.c: memory, the worlds' first states
PB_NODISCARD pbStatus pbTrain_Begin(pbTrain *t, int threads);
void pbTrain_End(pbTrain *t);

// ---- head.c
PB_NODISCARD pbStatus pbHead_Create(pbContext *ctx, const pbPolicyFunction *f, int columns, pbHead *head);
void pbHead_Destroy(pbContext *ctx, pbHead *head);
// `count` rows of observations through a head; results in head->out, entry i of row b at [i * count + b].
PB_NODISCARD pbStatus pbHead_Forward(pbTrain *t, pbHead *head, const double *param, const double *const *row, int count);
PB_NODISCARD pbStatus pbHead_Pull(pbTrain *t, pbHead *head, const double *param, int count);

// ---- worlds.c: starts, windows, costs
uint64_t pbTrain_Draw(const pbTrain *t, uint64_t stream, uint64_t a, uint64_t b);  // seed of a generator
// Start `b` of world or episode `a`: the task's, its draws, its spread. command: the policy's, for the whole episode.
void pbTrain_Start(const pbTrain *t, uint64_t stream, uint64_t a, uint64_t b, double *x, double *command);
// Steps that the first episode of a world counts as made: spread over an episode, so that not all worlds end at once.
int pbTrain_FirstAge(const pbTrain *t, int w);
// What acts in the window to come beside controls: commands, and paths of mocap bodies.
void pbTrain_Prepare(pbTrain *t);
PB_NODISCARD pbStatus pbTrain_Collect(pbTrain *t);
// pb_not_finite, with the reason: no world of the batch has a finite loss.
PB_NODISCARD pbStatus pbTrain_FailAll(const pbTrain *t, const pbBatch *batch);
double pbTrain_Cost(pbTrain *t, size_t row, bool pull);  // of a row of row_states
double pbTrain_MeanCost(const pbTrain *t);
bool pbTrain_Ended(const pbTrain *t, int w, int k);  // did the episode of world w end with decision k?
// Goes on after a window: states of worlds, those that were lost or whose time is over at new starts.
void pbTrain_Advance(pbTrain *t);
PB_NODISCARD pbStatus pbTrain_Observe(pbTrain *t);  // observed, of all rows that count
const double *pbTrain_Observation(const pbTrain *t, int decision);
// Mean cost of whole episodes over starts of a stream; alive: the share of them that did not end before their time.
PB_NODISCARD pbStatus pbTrain_Evaluate(pbTrain *t, const double *theta, uint64_t stream, int starts, double *score,
                                       double *alive);

// ---- paths.c: what acts on worlds beside controls, step by step: poses of mocap bodies along the paths of their trajectories
PB_NODISCARD pbStatus pbTrain_GivePoses(pbTrain *t, size_t *numbers);              // of one step; 0: the model's
const pbTrajectory *pbTrain_Trajectory(const pbTrain *t, uint64_t a, uint64_t b);  // that start b of world or episode a is of
// Steps `first` on of a window, in which a world goes along its path from row `row` on.
void pbTrain_SetPath(pbTrain *t, int lane, const pbTrajectory *tr, long row, int first);
pbBatchInput pbTrain_Inputs(const pbTrain *t, const double *ctrl);  // of a window
pbInput pbTrain_Input(const pbTrain *t, int w, int k);              // what a policy sees at decision k, or at the end

// ---- drawn.c: for each world and episode
// An episode by its number: start b of world or episode a, of a stream.
typedef struct pbTrainEpisode {
  uint64_t stream, a, b;
} pbTrainEpisode;
size_t pbTrain_DrawnCount(const pbTrain *t);  // entries of theta, those that are drawn twice counted twice
size_t pbTrain_NameSize(void);
void pbTrain_FindDrawn(pbTrain *t);
bool pbTrain_IsDrawn(const pbTrain *t, size_t entry);
bool pbTrain_DrawsPushes(const pbTrain *t, bool velocities);
bool pbTrain_DrawsNoise(const pbTrain *t);
void pbTrain_DrawOwn(const pbTrain *t, uint64_t stream, uint64_t a, uint64_t b, double *own);
// A new episode of a world, by its number, from decision k of the window on: also behind it.
void pbTrain_NewOwn(pbTrain *t, int w, int k);
// At the start of a window: rows of all decisions; values into the batch, with constants that follow. Of evaluations likewise.
void pbTrain_NoteOwn(pbTrain *t);
PB_NODISCARD pbStatus pbTrain_GiveOwn(pbTrain *t);
PB_NODISCARD pbStatus pbTrain_GiveTrialOwn(pbTrain *t, const double *theta, uint64_t stream, int starts);
// All parameters of world w at decision k (until the next such call); whether they are those of the decision before.
PB_NODISCARD pbStatus pbTrain_ThetaAt(const pbTrain *t, int w, int k, const double **theta);
bool pbTrain_SameOwn(const pbTrain *t, int w, int k);
// Steps `first` on of a window, in which a lane goes on with step `row` of its episode: commands, pushes.
void pbTrain_SetDrawn(pbTrain *t, int lane, const pbTrainEpisode *of, long row, int first);
// Noise of all decisions of a window, by a seed; onto what world w observes at decision k, or at the end; whether a batch has it.
void pbTrain_SetNoise(pbTrain *t, int lane, uint64_t draw, int decision);
void pbTrain_AddNoise(const pbTrain *t, int w, int k, double *observed);
void pbTrain_Disturb(const pbTrain *t, pbBatch *batch, bool noise);

// ---- gradient.c: into theta_bar, with the critic behind each window or without
PB_NODISCARD pbStatus pbTrain_Gradient(pbTrain *t, bool critic);

// ---- noise.c: how far gradients reach within a window, from where worlds are now. Writes over the window's inputs alone.
PB_NODISCARD pbStatus pbTrain_Noise(pbTrain *t, pbTrainResult *result);

// ---- critic.c
void pbTrain_Targets(const pbTrainSettings *s, int length, const double *cost, const double *next, const bool *ended,
                     double *target);
PB_NODISCARD pbStatus pbTrain_MakeTargets(pbTrain *t);
PB_NODISCARD pbStatus pbTrain_FitCritic(pbTrain *t, double *error);
int pbTrain_Shuffle(pbTrain *t, uint64_t round);  // order: decisions that count; how many
PB_NODISCARD pbStatus pbTrain_Normalize(pbTrain *t);
void pbTrain_SyncNormalizer(pbTrain *t);

// ---- ppo.c, search.c
PB_NODISCARD pbStatus pbTrain_Ppo(pbTrain *t, double *norm);
PB_NODISCARD pbStatus pbTrain_BeginSearch(pbTrain *t);
PB_NODISCARD pbStatus pbTrain_Search(pbTrain *t, double *cost);

// ---- ramp.c: theta as it is after a share of the updates; 1: the task's own
PB_NODISCARD pbStatus pbTrain_Ramp(pbTrain *t, double fraction);

// ---- train.c
int pbTrain_Tell(void *user, const pbProgress *progress);
double pbTrain_Fraction(const pbTrain *t);  // of all updates that are done
double pbTrain_Rate(const pbTrain *t);      // of learning, relative to its start
double pbTrain_Adam(pbTrain *t);            // a step of the policy along theta_bar; its norm
PB_NODISCARD pbStatus pbTrain_Loop(pbTrain *t, const pbTrainOptions *options, const pbRunStore *store, pbTrainResult *result);

#endif
