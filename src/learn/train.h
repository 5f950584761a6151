// Inside of a training: what io/task/task_train.c fills from a file, and the parts of the loop. Costs are what the task's loss
// says of the state after a decision: less is better throughout.
#ifndef PB_LEARN_TRAIN_H
#define PB_LEARN_TRAIN_H

#include <pullback/learn.h>

#include "optimize/task.h"
#include "rollout/rollout.h"

typedef struct pbTrainSettings {
  pbTrainMethod method;
  int updates, worlds, window;  // window: decisions, of the update at hand where it follows the agreement
  int most, least;              // then it lies between these
  double agree;                 // and is the longest whose gradients agree so well; 0: the window is fixed
  bool mix;                     // with the gradient of the likelihood ratio
  double episode;               // s
  double discount, lambda;      // of a decision; of the critic's targets
  double rate, last_rate;       // of Adam, falling linearly from the first to the last update
  double beta1, beta2, clip;    // clip: largest norm of a gradient
  double noise, last_noise;     // deviation of what is added to controls, or before the squash of a policy that explores
  bool scheduled, learned;      // of such: the deviation is `noise`; is learned; else it is its layer's
  bool entropy, tunes;          // entropy is worth something; its temperature follows target_entropy
  double temperature, target_entropy, temperature_rate;
  int evaluate_every, evaluate_starts;
  bool evaluate_noise;                // of what is observed
  double critic_rate, critic_target;  // target: share that stays of the slow critic
  int critic_rounds, critic_batches, critic_count;
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

// A weight of the loss that reaches the task's value on the way.
typedef struct pbTermSchedule {
  int term;           // of the loss
  double from, own;   // own: the task's
  double begin, end;  // shares of the updates: `from` before, `own` after
} pbTermSchedule;

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
  const int *column;  // (observations): which numbers of a row these are; NULL: the first
  int columns;        // most at once
  double *out;        // of the last call: pbHead_At
  pbPool *pool;
  // The gradient by parts of the columns, what became of each part; memory of each thread, so many bytes.
  double *leaf;
  pbStatus *fate;
  void *block;
  size_t stride;
} pbHead;
// Writes cotangents of the outputs of columns first .. first + count - 1, entry k of the i-th of them at [k * count + i], as
// their outputs stand. By several threads at once.
typedef void (*pbHeadBars)(void *user, int first, int count, const double *out, double *out_bar);

typedef struct pbSegment {  // numbers that pass from one update to the next
  double *data;
  size_t count;
} pbSegment;
enum { PB_TRAIN_SEGMENTS = 32, PB_TRAIN_BLOCKS = 128 };

// What a training leaves beside a policy's weights, of the best one. NULL: there is none.
typedef struct pbLearned {
  double steps, critic_steps;         // that Adam has made
  const double *m, *v;                // unknowns: its means of gradients and of their squares
  const double *critic, *slow;        // parameters of the critic, and of the slow one
  double critic_samples;              // that its own normalizer's numbers are of
  const double *critic_m, *critic_v;  // its unknowns
} pbLearned;

typedef struct pbTrainNumbers {  // doubles only: they are saved as such
  double update, steps, evaluated, best_update, best_score, best_alive, first_score, dropped, seconds, adam, critic_adam, stats,
      seed, method, best_stats, best_length, best_success;
  double best_adam, best_critic_adam, starts;  // starts: that the best was judged with
  double seen, best_seen;                      // samples of a critic's own normalizer
  double log_temperature, temperature_m, temperature_v, temperature_steps;
  double decisions, level, since;  // decisions: of each world; level: of the window in use; since its trial
} pbTrainNumbers;

// What random numbers are for.
enum { pb_drawNoise, pb_drawStart, pb_drawOrder, pb_drawEvaluation, pb_drawSearch, pb_drawPlaces, pb_drawSeen, pb_drawTest };

enum { PB_TRAIN_LEVELS = 20 };
typedef struct pbLearnAgreement {      // of the gradients of worlds: src/learn/agreement.c
  int levels, level[PB_TRAIN_LEVELS];  // windows that may be, the longest first
  int first;                           // that of the window at hand, which measures this and all shorter ones
  bool trial;                          // it is longer than the window in use
  int mark[PB_TRAIN_LEVELS];
  size_t places;
  int *place;          // (unknowns): place of a weight, or -1 - place with the other sign
  double *numbers;     // (worlds, levels, places)
  const double **row;  // (worlds)
  double *estimate;    // (levels, 2): fading sums of similarities and of weights
} pbLearnAgreement;

// Of the likelihood ratio (src/learn/mix.c): its gradient (unknowns), that of each world in places (worlds, places), its share.
typedef struct pbLearnMix {
  double *bar, *numbers;
  const double **row;  // (worlds)
  double share;
} pbLearnMix;

struct pbTrain {
  pbContext *ctx;
  pbTask *task;  // model, parameters, start; the training's own
  pbTrainSettings settings;
  pbTermSet cost, end;  // of one state each; end: count 0 where no episode ends before its time
  pbTermSet success;    // count 0: nothing says what is one
  double *spread;       // TangentSize: starts lie within it about the task's; NULL: all begin there
  // Layers before the policy's normalizer (NULL: none); where its numbers begin in theta, and in the critic's parameters (-1: it
  // has none); how many they are.
  pbNetwork *before, *critic, *critic_single;  // critic_single: the critic in float
  ptrdiff_t mean_at, deviation_at, critic_mean_at, critic_deviation_at;
  int features;
  bool brought;       // the policy came with the numbers of its normalizer, which stay
  double samples;     // that these are of; 0: not known
  pbLearned given;    // beside the policy's weights in its file, as far as it is of use here
  char *critic_text;  // the critic's layers; NULL: it has none
  bool fresh_critic;  // whatever the file has
  // A critic that sees other things than its policy (critic_inputs > 0): which numbers of `observed`, parameters that were drawn
  // behind those of the model's table.
  int *critic_column, critic_inputs;
  bool critic_drawn;
  // Where the logarithms of deviations stand in theta (-1: the policy does not explore), how many, tanh behind them; what comes
  // before them as a network of its own.
  ptrdiff_t explore_at;
  int explored;
  bool squashed;
  pbNetwork *body;
  pbRamp *ramp;
  int ramps;
  pbTermSchedule *schedule;
  int schedules;

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
  pbScratch **scratch;     // of each thread
  pbHead head_critic, head_policy, head_before;
  pbHead head_fit;  // the critic in float, for its fit: parameters as those of head_critic
  pbOptimizer *search;
  pbRate search_rate;

  // what passes from one update to the next
  pbTrainNumbers *now;
  double *adam_m, *adam_v;
  double *critic_param, *critic_slow, *critic_m, *critic_v;
  double *stat_mean, *stat_square;  // features: of what the normalizer sees
  double *seen_mean, *seen_square;  // critic_inputs
  double *states, *age, *episode;   // worlds
  double *command;                  // (worlds, commands)
  double *best;                     // policy_count
  double *best_learned;             // pbTrain_LearnedSize: what was there with it
  double *search_state;
  size_t search_size;
  pbTrainRow *rows;
  double *term_rows;  // (updates, 2, terms): what each costs in an update, in its evaluation
  pbSegment segment[PB_TRAIN_SEGMENTS];
  int segments;
  double *kept;  // all of these after the last whole update
  size_t kept_size;

  // of one window
  pbLearnAgreement agreement;
  pbLearnMix mix;
  double *ctrl, *row_states, *row_sensor, *row_xpos, *row_site;  // (worlds, steps, nu), (worlds, window + 1, width)
  double *trial_command, *command_steps;                         // (lanes, commands), (lanes, steps, commands)
  double *pose_pos, *pose_quat;                                  // (lanes, steps, nmocap, 3) and 4; NULL: the model's
  double *pose_vel;                                              // (lanes, steps, nmocap, 6)
  double *xfrc, *kick, *noise;                       // (lanes, steps, 6 nbody), nv, observed: pushes, noise; NULL: none
  int *row_steps;                                    // (window + 1)
  double *term_costs;                                // (lanes, window, terms)
  double *costs, *target, *advantage, *mean;         // (worlds, window), mean: (worlds, window, outputs)
  double *soft;                                      // (worlds, window): costs less what entropy is worth
  double *old_log;                                   // explored: before the update
  double entropy, entropy_share;                     // mean of a window; sum of the factors of its decisions
  double *clock;                                     // (lanes, window): s of its episode when a decision is over
  double *fresh;                                     // (worlds, window, nx): new starts right after a decision
  double *observed;                                  // (worlds, window + 1, nobs)
  double *bar_x, *bar_sensor, *bar_xpos, *bar_site;  // (worlds, window + 1, width): of the tangent, sensors, ...
  double *tangent, *record;                          // TangentSize; a tape record for each thread
  double *next, *factor;                             // window + 1; worlds
  double *value_bar, *observed_bar;                  // (worlds, critics), (worlds, nobs)
  pbStatus *fate;                                    // worlds: of a call on all threads
  const double **batch_row;
  int *length, *done, *ids, *order, dropped;  // length: decisions that count
  bool *ended, *lost;                         // (worlds, window): its episode ended before its time; (worlds): diverged

  void *block[PB_TRAIN_BLOCKS];  // all memory of the run
  int blocks;
  const pbTrainOptions *options;
  double began, saved, told, steps_before, seconds_before, first_fraction;
  double last_cost, last_score;
  double episode_length, success_rate, *term_means;  // of the last evaluation: as in a row; (terms)
  double episode_path;                               // m, mean of what the first free body went, level; NaN: there is none
  int episodes_diverged, *episodes_ended;            // (terms of end): ended by each
  // of the last test
  pbTrainTestTerm *test_terms;
  pbTrainTestEnd *test_ends;
  bool stopped, often;  // often: news at every occasion
};

// ---- begin.c: memory, the worlds' first states
PB_NODISCARD pbStatus pbTrain_Begin(pbTrain *t, int threads);
void pbTrain_End(pbTrain *t);

// ---- learned.c: what passes from one training to the next
size_t pbTrain_LearnedSize(const pbTrain *t);
size_t pbTrain_Weights(const pbTrain *t);  // unknowns but deviations: what its file has Adam's numbers of
void pbTrain_NoteLearned(pbTrain *t);      // now is what goes with the best
void pbTrain_TakeGiven(pbTrain *t);
pbLearned pbTrain_Learned(const pbTrain *t);  // until the next pbTrain_Begin or pbTrain_End

// ---- head.c
PB_NODISCARD pbStatus pbHead_Create(pbContext *ctx, pbPool *pool, const pbPolicyFunction *f, int columns, pbHead *head);
void pbHead_Destroy(pbContext *ctx, pbHead *head);
// `count` rows of observations through a head, on all threads, with the same bits for any number of these; into head->out.
PB_NODISCARD pbStatus pbHead_Forward(pbTrain *t, pbHead *head, const double *param, const double *const *row, int count);
// Where an output of a column stands in head->out. Of one output: at [column].
size_t pbHead_At(const pbHead *head, int count, int output, int column);
// Outputs as Forward, and the gradient by parameters of what has these cotangents, into head->bar.
PB_NODISCARD pbStatus pbHead_Fit(pbTrain *t, pbHead *head, const double *param, const double *const *row, int count,
                                 pbHeadBars bars, void *user);
// in_bar (count, nobs) by the rows themselves; out_bar (count, outputs).
PB_NODISCARD pbStatus pbHead_PullInputs(pbTrain *t, pbHead *head, const double *param, const double *const *row, int count,
                                        const double *out_bar, double *in_bar);

// ---- worlds.c: starts, windows, costs
uint64_t pbTrain_Draw(const pbTrain *t, uint64_t stream, uint64_t a, uint64_t b);  // seed of a generator
// Start `b` of world or episode `a`: the task's, its draws, its spread. command: the policy's, for the whole episode.
void pbTrain_Start(const pbTrain *t, uint64_t stream, uint64_t a, uint64_t b, double *x, double *command);
// The state that decision k begins from: where the last one has led, or a new start.
const double *pbTrain_Began(const pbTrain *t, int w, int k);
// Steps that the first episode of a world counts as made: spread over an episode, so that not all worlds end at once.
int pbTrain_FirstAge(const pbTrain *t, int w);
// What acts in the window to come beside controls: commands, and paths of mocap bodies.
void pbTrain_Prepare(pbTrain *t);
PB_NODISCARD pbStatus pbTrain_Collect(pbTrain *t);
const double *pbTrain_NoiseOf(const pbTrain *t, int decision);  // nu: what it added to the controls of a decision
// pb_not_finite, with the reason: no world of the batch has a finite loss.
PB_NODISCARD pbStatus pbTrain_FailAll(const pbTrain *t, const pbBatch *batch);
double pbTrain_Cost(pbTrain *t, int w, int k, bool pull);  // of decision k of world w
double pbTrain_MeanCost(const pbTrain *t);
bool pbTrain_Ended(const pbTrain *t, int w, int k);  // did the episode of world w end with decision k?
// Goes on after a window: states of worlds, those that were lost or whose time is over at new starts.
void pbTrain_Advance(pbTrain *t);
PB_NODISCARD pbStatus pbTrain_Observe(pbTrain *t);  // observed, of all rows that count
// work(t, i, worker) for i below count (at most the worlds), on all threads, each with scratch[worker].
PB_NODISCARD pbStatus pbTrain_Spread(pbTrain *t, int count, pbStatus (*work)(pbTrain *t, int i, int worker));
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
int pbTrain_ObservedWidth(const pbTrain *t, int table);  // of a row of `observed`; table: numbers of the model's
void pbTrain_AddDrawn(const pbTrain *t, int w, int k, double *observed);
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
const double *pbTrain_OwnRow(const pbTrain *t, int w, int k);  // (own_size)
bool pbTrain_SameOwn(const pbTrain *t, int w, int k);
// Steps `first` on of a window, in which a lane goes on with step `row` of its episode: commands, pushes.
void pbTrain_SetDrawn(pbTrain *t, int lane, const pbTrainEpisode *of, long row, int first);
// Noise of all decisions of a window, by a seed; onto what world w observes at decision k, or at the end; whether a batch has it.
void pbTrain_SetNoise(pbTrain *t, int lane, uint64_t draw, int decision);
void pbTrain_AddNoise(const pbTrain *t, int w, int k, double *observed);
void pbTrain_Disturb(const pbTrain *t, pbBatch *batch, bool noise);

// ---- gradient.c: into theta_bar, with the critic behind each window or without
PB_NODISCARD pbStatus pbTrain_Gradient(pbTrain *t, bool critic);

// ---- seen.c: the own normalizer of a critic that looks at other things than its policy
void pbTrain_NoteSeen(pbTrain *t);  // statistics with those of the window
void pbTrain_TakeSeen(pbTrain *t);  // those of a critic that goes on

// ---- explore.c: noise before the squash, and what its entropy is worth
bool pbTrain_Explores(const pbTrain *t);
void pbTrain_DrawExploration(pbTrain *t);                     // of the window to come
const double *pbTrain_Draws(const pbTrain *t, int w, int k);  // of a decision: (explored)
void pbTrain_HoldDeviation(pbTrain *t);                       // a learned one, within bounds
double pbTrain_Temperature(const pbTrain *t);                 // cost of a unit of entropy; 0 without
double pbTrain_Entropy(const pbTrain *t, int w, int k);       // of a decision: nats, of outputs between -1 and 1
double pbTrain_LogSlope(double y);                            // log (1 - y^2 + 1e-6)
double pbTrain_LogSlopeBar(double y);                         // its derivative by atanh y
void pbTrain_Soften(pbTrain *t);                              // costs into `soft`, the mean entropy
void pbTrain_PullEntropy(pbTrain *t, int w, int k, double factor, double *held_bar);
void pbTrain_PullDeviations(pbTrain *t);  // into theta_bar, after all of PullEntropy
void pbTrain_Temper(pbTrain *t);          // a step of the temperature
void pbTrain_NoteExploration(const pbTrain *t, double temperature, pbTrainRow *row);
void pbTrain_PullSample(const pbTrain *t, int decision, const double *out, int stride, double share, double *out_bar,
                        double *log_bar);

// ---- agreement.c: how far gradients can be trusted, and windows by it
void pbTrain_SetLevels(pbTrain *t);
size_t pbTrain_MostRows(const pbTrain *t);                // updates that there may be
double pbTrain_Decisions(const pbTrain *t, int updates);  // of each world, in so many of the longest windows
void pbTrain_ChooseWindow(pbTrain *t);                    // of the update to come
void pbTrain_LastWindow(pbTrain *t);                      // that in use
size_t pbTrain_Places(const pbTrain *t);
pbPullMarks pbTrain_Marks(pbTrain *t);       // for a pullback
void pbTrain_Agree(pbTrain *t);              // after it
double pbTrain_Agreement(const pbTrain *t);  // -1 .. 1, of the window in use; NAN: nothing is known
double *pbTrain_NumbersOf(const pbTrain *t, int world, int level);
void pbTrain_AddPlace(const pbLearnAgreement *a, size_t i, double g, double *numbers);  // g: of unknown i
// Mean similarity q of `count` vectors, -1/(count - 1) .. 1; NAN of one, or of zeros.
double pbTrain_Similarity(const double *const *gradient, int count, size_t size);

// ---- mix.c: the gradient by samples alone, and the mean of both with the least variance
PB_NODISCARD pbStatus pbTrain_Mix(pbTrain *t);  // after pbTrain_Gradient
// The share of the second of two estimates, from `count` vectors of each: 0 .. 1; NAN where nothing is known.
double pbTrain_MixShare(const double *const *physics, const double *const *samples, int count, size_t size);

// ---- noise.c: how far gradients reach within a window, from where worlds are now. Writes over the window's inputs alone.
PB_NODISCARD pbStatus pbTrain_Noise(pbTrain *t, pbTrainResult *result);

// ---- critic.c
void pbTrain_Targets(const pbTrainSettings *s, int length, const double *cost, const double *next, const bool *ended,
                     double *target);
// Of a column of the critics' outputs: their mean, or the worst of them, which is the largest (Fujimoto et al. 2018).
double pbTrain_ValueAt(const pbHead *head, int count, int column, bool worst);
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

// ---- columns.c: terms by themselves
void pbTrain_Weigh(pbTrain *t, double fraction);                     // weights after a share of the updates; 1: the task's own
void pbTrain_KeepTerms(pbTrain *t, int w, int k);                    // what they were worth a moment ago, as those of a decision
double *pbTrain_TermCosts(const pbTrain *t, int w, int k);           // (terms)
void pbTrain_MeanTerms(const pbTrain *t, double *mean);              // (terms), of the window
double *pbTrain_TermRow(const pbTrain *t, int row, bool evaluated);  // (terms)
size_t pbTrain_RowSize(const pbTrain *t);  // numbers that are kept of an update: its row, and these terms

// ---- train.c
int pbTrain_Tell(void *user, const pbProgress *progress);
double pbTrain_Fraction(const pbTrain *t);   // of all updates that are done
double pbTrain_Rate(const pbTrain *t);       // of learning, relative to its start
double pbTrain_Deviation(const pbTrain *t);  // `noise` of the update at hand
void pbTrain_SetDeviation(pbTrain *t);       // into theta, where it is scheduled
double pbTrain_Adam(pbTrain *t);             // a step of the policy along theta_bar; its norm
PB_NODISCARD pbStatus pbTrain_Loop(pbTrain *t, const pbTrainOptions *options, const pbRunStore *store, pbTrainResult *result);

#endif
