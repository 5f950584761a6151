// Pullback: many steps in one call, and their derivatives under a memory budget.
//
//   pbRolloutPlan plan;      pbRollout_Plan(ctx, model, steps, budget, &plan)  what it will cost, before anything runs
//   pbRollout *rollout;      pbRollout_Create(ctx, model, &plan, NULL, &rollout)  all memory but room for contacts (pbCapacity)
//   pbRollout_Forward(...)   pbRollout_Vjp(...)                                as often as wanted
//
// Reverse mode keeps a thin tape (pbTape_Size doubles a step). Where the tape of all steps does not fit the budget, states are
// kept at steps of a binomial schedule and the rest is computed again (Griewank & Walther 2000, algorithm 799 "revolve",
// with leaves of several steps). Where the budget leaves room, the evaluations themselves are cached too (some 30 times the
// thin tape) and save the pullback from repeating them. A gradient has the same bits for every budget.
#ifndef PULLBACK_ROLLOUT_H
#define PULLBACK_ROLLOUT_H

#include <pullback/world.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- plan ---------------------------------------------------------------------------------------------------------
typedef struct pbRolloutPlan {
  int steps;
  int snapshots;          // states held at one time, beside the initial one
  int leaf;               // tape records held at one time
  size_t record_bytes;    // of one tape record
  size_t snapshot_bytes;  // of one state
  size_t full_bytes;      // tape of all steps
  size_t planned_bytes;   // records, snapshots and cached evaluations of this plan; never above the budget
  size_t cached_bytes;    // of these: room for whole evaluations, so that the pullback need not repeat them
  size_t fixed_bytes;     // everything else a rollout holds beside pbScratch, however many steps
  int64_t forward_steps;  // steps computed by one Forward and one Vjp together
  int64_t recomputed;     // of these, computed again: forward_steps - steps
} pbRolloutPlan;

// Cheapest plan (fewest steps computed) whose records, snapshots and cached evaluations stay within `budget` bytes; 0: no
// limit. Cached evaluations take four times what the core's own cache (L2) holds, 16 MiB at most, and are those of the last
// steps; of deformables, whose factors cost more than reading them, 1 GiB at most.
// pb_capacity where not even one record fits (the text says how much is needed at least).
PB_API PB_NODISCARD pbStatus pbRollout_Plan(pbContext *ctx, const pbModel *model, int steps, size_t budget, pbRolloutPlan *plan);
// A plan by the numbers themselves: snapshots >= 0, leaf >= 1.
PB_API PB_NODISCARD pbStatus pbRollout_PlanSlots(pbContext *ctx, const pbModel *model, int steps, int snapshots, int leaf,
                                                 pbRolloutPlan *plan);

// ---- progress -----------------------------------------------------------------------------------------------------
typedef struct pbProgress {
  const char *phase;     // "forward", "backward", "check", "optimize"; static text
  int64_t done, total;   // steps (of optimisers: iterations)
  double seconds, left;  // since the call began, and the estimate of what is left (< 0: unknown)
  double value;          // loss so far, of optimisers; else NaN
} pbProgress;
// Called at the start and then some tens of times a second, so that who interrupts is heard at once; nonzero stops the call,
// which returns pb_interrupted.
typedef int (*pbProgressFunction)(void *user, const pbProgress *progress);

// ---- forward ------------------------------------------------------------------------------------------------------
typedef struct pbRollout pbRollout;

// `capacity` as in pbScratch_Create, may be NULL. One rollout: one thread.
PB_API PB_NODISCARD pbStatus pbRollout_Create(pbContext *ctx, const pbModel *model, const pbRolloutPlan *plan,
                                              const pbCapacity *capacity, pbRollout **rollout);
PB_API void pbRollout_Destroy(pbRollout *rollout);                                              // NULL is fine
PB_API void pbRollout_OnProgress(pbRollout *rollout, pbProgressFunction function, void *user);  // NULL: none
// A state with an entry above `bound` in size counts as out of bounds (default 1e10, MuJoCo's mjMAXVAL).
PB_API void pbRollout_SetBound(pbRollout *rollout, double bound);

// What a derivative through many steps is the derivative of (docs/contact-gradients.md). `exact` is that of the program, with the
// rows that act frozen: where contacts and limits begin or end with a force, it misses that the moment of the event moves.
typedef enum pbGradientKind {
  pb_gradientExact,   // of the program, by branch
  pb_gradientEvent,   // the same, and every onset and release by the distance test moves in time (saltation)
  pb_gradientSmooth,  // of each step with the contact settings smooth_kappa and smooth_onset, at the states of the sharp rollout
  pb_gradientKindCount
} pbGradientKind;
PB_API const char *pbGradientKind_Name(pbGradientKind kind);  // "exact", ...; NULL for another number
PB_API bool pbGradientKind_Named(const char *name, pbGradientKind *kind);
// For Vjp and Jvp from now on. pb_bad_argument, with the reason, where the model's settings do not allow it.
PB_API PB_NODISCARD pbStatus pbRollout_SetGradient(pbRollout *rollout, pbGradientKind kind);

typedef struct pbRolloutInput {  // what acts during step k is row k; the last row also acts at the last state (sensors)
  const double *ctrl;            // (steps, nu); NULL: zero
  const double *qfrc;            // (steps, nv); NULL: zero
  const double *xfrc;            // (steps, nbody, 6); NULL: zero
  const double *command;         // (steps, commands): numbers that a policy observes; NULL: zero
  const double *mocap_pos;       // (steps, nmocap, 3), and
  const double *mocap_quat;      // (steps, nmocap, 4): poses of mocap bodies; NULL: the model's (pbInput)
  // How mocap bodies move during step k (pbInput): (steps, nmocap, 6). NULL: as the rows of poses say, from row k - 1 to row k in
  // a time step; constant: at rest.
  const double *mocap_vel;
  // Their poses before row 0: nmocap x 3, nmocap x 4; NULL, each: the model's; not beside mocap_vel, which is not of poses. Of a
  // run from a keyframe: pbModel_MocapPose; of one that goes on: the last row of the one before.
  const double *mocap_pos_before, *mocap_quat_before;
  bool constant;  // true: one row each, for all steps
} pbRolloutInput;

typedef struct pbRolloutOutput {  // any may be NULL
  double *states;                 // (steps + 1, StateSize), row 0 is x0
  double *final_state;            // (StateSize)
  double *sensordata;             // (steps + 1, nsensordata): row k at state k with the inputs of step k
  double *xpos;                   // (steps + 1, nbody, 3)
  double *site_xpos;              // (steps + 1, nsite, 3)
  const int *rows;                // keep only these states: strictly ascending in 0 .. steps; NULL: all
  int row_count;                  // then the arrays above (but final_state) have this many rows
  int steps_done;                 // written: steps that succeeded (all, unless the call failed)
} pbRolloutOutput;

// Run from x0 (StateSize). theta, x0 and input are read again by Vjp and Jvp: they are the caller's, and stay as they are
// until then. output may be NULL. pb_not_finite, with the step, for a state that grows beyond bounds or is not finite;
// other failures of a step likewise carry its number. What was written up to there stays.
PB_API PB_NODISCARD pbStatus pbRollout_Forward(pbRollout *rollout, const double *theta, const double *x0,
                                               const pbRolloutInput *input, pbRolloutOutput *output);

// ---- reverse ------------------------------------------------------------------------------------------------------
// Cotangents of one quantity at some states.
typedef struct pbCotangent {
  const double *data;  // (count, width); NULL: none
  int count;           // number of rows
  const int *steps;    // state each row belongs to, strictly ascending in 0 .. steps; NULL: count 1 is the final state,
                       // count steps + 1 is every state
} pbCotangent;
typedef struct
    pbRolloutBar {  // widths: qpos and qvel nv (tangent space), act na, points and point_velocity 3 npoint, the others as
                    // in pbObservationBar
  pbCotangent qpos, qvel, act, sensordata, xpos, site_xpos, points, point_velocity;
  pbCotangent x;  // of the whole state, TangentSize: beside those above, and what a policy remembers and holds
} pbRolloutBar;

typedef struct pbRolloutGradient {  // added to; NULL: not wanted
  double *x0;                       // TangentSize: d/d(qpos, qvel, act, points, point_velocity, ...) of the initial state
  double *ctrl, *qfrc, *xfrc;       // shapes of pbRolloutInput (one row where constant)
  double *theta;                    // ParamSize
  double *command;                  // as ctrl
  double *mocap_pos, *mocap_rot;    // (steps, nmocap, 3) each, see pbInputBar (one row where constant)
  // (steps, nmocap, 6) where the input has mocap_vel, else left alone: what velocities owe to poses goes to those, of rows k and
  // k - 1, of before row 0 (nmocap x 3 each) where the input says where that is, else to theta.
  double *mocap_vel, *mocap_pos_before, *mocap_rot_before;
} pbRolloutGradient;

// Diagnostics of a gradient.
typedef struct pbCertificate {
  double worst_residual;     // largest relative residual of a step's constraint solve, or of its deformables' (pbReport)
  int worst_residual_step;   // its step; -1 if no step had constraints or deformables
  int64_t unconverged;       // steps whose solve did not converge (pbReport)
  double worst_condition;    // of the worst step, if it did not: condition number (pbReport),
  char worst_row[256];       // and the constraint that is to blame; else 0 and ""
  int64_t onsets, releases;  // contacts that came and went
  int64_t simultaneous;      // impacts while another contact touched and approached too: their order decides the gradient
  double approach;           // slowest speed of approach [m/s] of an impact: derivatives grow like its inverse; infinite: none
  // gradient by events: onsets and releases corrected; left as in exact because how fast the distance passes says nothing of its
  // moment, or (hard contact) corrected coarsely, as the closing speed changes by more than half a percent within the step; with them
  // impacts (of method impact, too) that throw with a mocap body whose path accelerates, which the gradient leaves out.
  // `simultaneous` counts those that come with others that they change: soft ones at the same time (the mean of both orders is
  // taken), hard ones in the same step (they strike as one: right for changes that keep them together). The first step of each,
  // or -1.
  int64_t events, grazing;
  int event_step, grazing_step, simultaneous_step;
  char grazing_contact[200], simultaneous_contact[200];  // what grazes first, what is first among others; ""
  // Steps in which features of two shapes tie, so that on one side of a move others meet than on the other and no linear map is
  // the derivative: that of one of them was taken. All steps are looked at. The first one, or -1, and its pair of geoms ("").
  int64_t ties;
  int tie_step;
  char tie_contact[200];
  // Steps in which the energy of an element of deformables stands at a kink (a string that is just taut, a clamp at its bound):
  // the gradient is that of one side. All steps are looked at. The first, or -1, and its element by group and number ("").
  int64_t kinks;
  int kink_step;
  char kink_element[200];
  int most_contacts, most_rows;
  double penetration;                     // m: deepest overlap of two geoms, and
  int penetrating[2], penetration_step;   // its geoms and step; -1 where nothing overlaps
  int64_t gains;                          // impacts that made kinetic energy (pbReport); of the worst
  double gain;                            // J: what it made,
  int gaining[2], gain_step;              // its geoms and step; -1 without one
  double costate_initial, costate_final;  // norms of the cotangent of the initial and final state
  double growth;                          // ln(costate at step 0 / costate where it first is nonzero, from the end)
  double growth_rate;                     // 1/s: slope of ln |costate| against time backwards, least squares
  double costate_worst;                   // largest norm, and its step
  int costate_worst_step;
  int64_t steps, recomputed;
  size_t tape_bytes, full_tape_bytes;  // held, and of the tape of all steps
  // Spot check (pbVjpOptions): whether anything was compared (a quotient of differences; where there are impacts or corrected
  // events the forward derivative). The worst comparison, by how far its error is beyond its limit: the directional derivative by
  // the gradient, by what it is compared with, |their difference| by the size of their terms, and what rounding and the length of
  // the move allow there.
  bool spot_checked;
  double spot_gradient, spot_difference, spot_error;
  double spot_limit;
  bool spot_off;              // it is beyond its limit
  int spot_step;              // its step; -1: none, or the whole rollout
  char spot_where[96];        // where it is off: the part of the direction that is off most, "qvel", "geom_friction"; else ""
  char spot_row[256];         // and the constraint that pushes most in that step ("contact of geom 'a' and geom 'b'"), or ""
  int spot_part;              // bits pb_partSteps, ...: what was checked, see pbCertificate_Checked
  int64_t spot_steps;         // steps at which forward and reverse derivatives were compared,
  int64_t spot_quotients;     // quotients of differences that were compared,
  int64_t spot_left_out;      // and those left out, for one of these reasons:
  int64_t spot_left_kink;     // something begins, ends or bends within every move,
  int64_t spot_left_tie;      // features tie, so that moves to both sides meet others,
  int64_t spot_left_noise;    // no two quotients agree with each other: rounding, or growth of the motion
  int64_t spot_evaluations;   // steps that were run for the check; a forward derivative counts for four
  double spot_steps_share;    // of the steps those at which a quotient was compared, 0 .. 1; of a whole rollout 1
  double spot_entries_share;  // of state, inputs and wanted parameters of such a step the entries that moved, at most, 0 .. 1
  int spot_kink;              // pb_checkFull: of what is left out, the first step at which the ends of a move part; -1: none
  int spot_tie_step;          // of the steps left out the first whose contacts have no derivative of every direction; -1: none,
  char spot_tie[480];         // and these contacts (pbScratch_Tie)
  int most_contacts_step;     // the first step with most_contacts; -1 where there is no contact
  // Truncation (pbVjpOptions): whether anything was left out of the derivative, and what. Norms and growth above are of the
  // costate as it went back, each before it was clipped and decayed.
  bool truncated;
  double decay, window, clip;  // as they acted: 1/s, s (a multiple of the step), norm; 0: none
  int64_t cuts, clips;         // boundaries of windows; states whose costate was clipped,
  int clip_step;               // of these the one clipped most; -1 without one
  double clip_most;            // and its norm before
} pbCertificate;
// What was left out, in words: "decay 5 /s, windows of 0.25 s (3 cuts), norm clipped to 1 at 12 states (most at 40: 3e+04)"; ""
// where nothing was. Returns text.
PB_API char *pbCertificate_Truncation(const pbCertificate *certificate, char *text, size_t size);
enum { pb_partSteps = 1, pb_partImpacts = 2, pb_partRollout = 4 };
// What the spot check saw, in words: "nothing", "steps" (without impacts or corrected events), "impacts" (steps with those),
// "steps and impacts", "rollout".
PB_API const char *pbCertificate_Checked(const pbCertificate *certificate);

// The members of a certificate by name, for who prints it: files and Python have these names.
typedef enum pbCertificateType {
  pb_certificateReal,     // double
  pb_certificateInteger,  // int
  pb_certificateCount,    // int64_t
  pb_certificateBytes,    // size_t
  pb_certificateFlag,     // bool
  pb_certificateText,     // char[], ended by 0
  pb_certificateGeoms     // int[2]: geoms, -1: none
} pbCertificateType;
// Where a member says something: always, where something was compared (spot_checked), where the gradient is truncated.
typedef enum pbCertificateWhere { pb_certificateAlways, pb_certificateCompared, pb_certificateTruncated } pbCertificateWhere;
typedef struct pbCertificateMember {
  const char *name;
  pbCertificateType type;
  size_t offset;  // in pbCertificate
  pbCertificateWhere where;
} pbCertificateMember;
// All of them, `count` in all, in the order of the struct.
PB_API const pbCertificateMember *pbCertificate_Members(int *count);
// Whether the member says something in this certificate.
PB_API bool pbCertificate_Says(const pbCertificate *certificate, const pbCertificateMember *member);

typedef enum pbSpotCheck {
  pb_checkNone,
  // Steps at random (one of each 400 steps, another of each 200, and that with most contacts), while the pullback goes through
  // them: forward against reverse derivative by state, inputs and parameters, rounding apart; and against quotients of
  // differences of that step, over moves that stay on one branch. Costs some 2 % of a rollout and its pullback from 200 steps on.
  pb_checkSteps,
  // Two more rollouts (more where they disagree): derivative along one random direction of x0, and the inputs and parameters
  // wanted, both ways. A gradient is off where quotients over shorter and shorter moves agree with each other and not with it;
  // and those to both sides do, on one branch of every step. Else there is a kink, or no reliable difference, and the comparison
  // is left out. Not where events were corrected, nor for smooth: there a difference quotient of the program is no truth.
  pb_checkFull
} pbSpotCheck;

// Truncation: a costate that grows through many steps is kept small, and the gradient is no more that of the rollout. The
// costate of state k + 1 (what came from later, and the caller's cotangents there) goes back through step k so:
//   clip    scaled to the norm `clip` where it is longer (Euclidean, over the whole tangent),
//   decay   times exp(-decay h),
//   pull    by the step: into state k, the inputs and parameters of the step;
//   window  what came to state k is set to zero where k = steps - j round(window / h), j = 1, 2, ..., k > 0; the caller's
//           cotangents at state k itself go on.
// So what acts during step k is weighed by exp(-decay (T - t_k)) against a cotangent of the last state alone, and a cotangent
// reaches the steps of one window only. x0's gradient is the costate of state 0 as it arrives, unclipped.
typedef struct pbVjpOptions {
  pbSpotCheck spot_check;  // truncated: pb_checkFull is made as pb_checkSteps, each step with the costate that it was given
  uint64_t seed;           // of its directions and steps
  double spot_size;        // pb_checkFull: length of the move; 0: 1e-6
  double decay;            // 1/s, >= 0; 0: none
  double window;           // s, at least half a step; 0, infinite or not shorter than the horizon: none
  double clip;             // largest norm of the costate, > 0; 0, infinite: none
} pbVjpOptions;

// Parameters that a Vjp gives gradients by from now on: `count` names of fields (pbModel_ParamAt; a part, "geom_friction:floor",
// stands for all of its field). What only others need is left out of the pullback. Entries of `theta` of fields that are not
// wanted stay as they are; those wanted have the same bits as without a choice. names NULL: all fields (the default); count 0:
// none. constants: pbModel_SetConstantsVjp is called with the gradient afterwards; what it takes (derived fields, eq_data,
// geom_fluid) is wanted, too, where it takes it on to a field that is named. pb_bad_argument for a name that is
// none of the model's.
PB_API PB_NODISCARD pbStatus pbRollout_WantParameters(pbRollout *rollout, const char *const *names, int count, bool constants);

// Pullback of the last Forward. options and certificate may be NULL. May be called several times.
PB_API PB_NODISCARD pbStatus pbRollout_Vjp(pbRollout *rollout, const pbRolloutBar *bar, const pbVjpOptions *options,
                                           const pbRolloutGradient *gradient, pbCertificate *certificate);

// Where a pullback was interrupted: the same Forward, and a Vjp with the same cotangents, options and gradients, these as they
// were left, go on from here, in another process, too, to the same bits. Files: pbPulled_Keep.
enum { PB_PULLED_NUMBERS = 23 };
typedef struct pbPulled {
  int step;                           // that step and those after it are pulled back; -1: nothing is
  double *costate;                    // TangentSize, the caller's: the cotangent of its state
  double numbers[PB_PULLED_NUMBERS];  // of growth and of the spot check
  pbCertificate certificate;          // so far
} pbPulled;
// From now on each Vjp goes on there, where step >= 0, and writes there where it was after pb_interrupted. NULL: neither (the
// default). The caller's, as long as it is set.
PB_API void pbRollout_KeepPulled(pbRollout *rollout, pbPulled *pulled);
PB_API bool pbRollout_GoesOn(const pbRollout *rollout);  // will the next Vjp go on?

// ---- forward sensitivities ----------------------------------------------------------------------------------------
typedef struct pbRolloutDirection {     // NULL: zero
  const double *x0;                     // TangentSize
  const double *ctrl, *qfrc, *xfrc;     // shapes of pbRolloutInput
  const double *theta;                  // ParamSize
  const double *command;                // as ctrl
  const double *mocap_pos, *mocap_rot;  // as of pbRolloutGradient
  const double *mocap_vel, *mocap_pos_before, *mocap_rot_before;
} pbRolloutDirection;
typedef struct pbRolloutTangent {  // (steps + 1, ...) each; NULL: not wanted
  double *x;                       // TangentSize
  double *sensordata, *xpos, *site_xpos;
  const int *rows;  // as in pbRolloutOutput
  int row_count;
} pbRolloutTangent;
// Derivatives of the last Forward's trajectory along `count` directions, exact to rounding. Each costs some five steps of the
// program a step. Directions that are more than a fifth (with Runge-Kutta or a policy: half) of the rows of a step's Jacobian and
// of the outputs that are asked for cost together about as many steps as there are rows, however many directions they are
// (pb_gradientExact, no deformables, no impacts), and where only states and controls move about as much as A and B (linearize).
// All ways agree to rounding.
PB_API PB_NODISCARD pbStatus pbRollout_Jvp(pbRollout *rollout, int count, const pbRolloutDirection *directions,
                                           const pbRolloutTangent *tangents);

// Second derivatives: how the gradient that Vjp gives for the last Forward changes along a direction, exactly (pbStep_Second).
// Where the cotangents are the gradients of a loss, at this rollout's numbers, and bar_tangent how these change along the
// direction (by Jvp, and the loss's own second derivatives), it is the product of the loss's Hessian and the direction. A
// cotangent of a state is of its tangent space, which moves with it; the initial state by the coordinates w of x0 exp(w), so that
// Hessians are symmetric.
typedef struct pbRolloutSecond {
  const pbRolloutDirection *direction;    // NULL: nothing moves
  const pbRolloutBar *bar, *bar_tangent;  // as of Vjp; NULL: zero
  pbRolloutGradient gradient;             // by x0, ctrl, qfrc, xfrc: added to; the others must be NULL
} pbRolloutSecond;
// States are run once more, and all their records held at once. pb_bad_input, by name: what pbStep_Second refuses; gradients but
// pb_gradientExact; directions and results by poses of mocap bodies and commands; results by parameters. After a failure results
// may hold the shares of some steps.
PB_API PB_NODISCARD pbStatus pbRollout_Second(pbRollout *rollout, const pbRolloutSecond *second);

// ---- how far a derivative reaches ----------------------------------------------------------------------------------
// Of a motion that amplifies what it starts from, derivatives go on growing while moves of any length end up anywhere: beyond
// some time they are exact and say nothing. The start moves along random directions of its tangent space (positions, velocities,
// activations, points of deformables) by `move`; at each of up to 512 states what comes of it is compared with what the
// derivative foresees. The time is the first at which it errs by more than pb_noiseShare of what comes (half of its square), as it
// does at three quarters at least of the states within the next quarter of that time, and of all to the end, where moves, made or
// foreseen, have grown by a factor of pb_noiseGrowth at least: what does not grow is a kink or a missed onset, not noise. A
// derivative that errs at each stiff impact (of a step's phase, exact mode) ends earlier than the motion's own.
#define pb_noiseShare  0.7
#define pb_noiseGrowth 30
typedef struct pbNoiseOptions {
  double move;     // length in the tangent space; 0: 1e-3
  int directions;  // 0: 8
  uint64_t seed;
} pbNoiseOptions;
typedef struct pbNoise {
  double time;        // s from the start; infinite: the derivative foresees such moves to the end
  int step;           // its state; -1
  double move;        // as it acted
  double growth;      // ln of how much the foreseen moves have grown at the end
  double unforeseen;  // at the end: of the moves made the share that was not foreseen; 0 where so little grows that none was made
  double window;      // s: what is proposed, half of that time; infinite
  bool contact;       // something touched: a derivative of a smoother contact may reach further
} pbNoise;
// Of the last Forward. Costs as many rollouts as there are directions, and their forward derivatives; the forward derivative of
// two where these grow too little for noise. A rollout that fails after a move ends there. pb_bad_argument before a Forward, or
// for options out of range.
PB_API PB_NODISCARD pbStatus pbRollout_Noise(pbRollout *rollout, const pbNoiseOptions *options, pbNoise *noise);
// In words: "the gradient is noise beyond t = 3.2 s: ...", and what to do instead; "" where there is none. Return text.
PB_API char *pbNoise_Say(const pbNoise *noise, char *text, size_t size);
PB_API char *pbNoise_Propose(const pbNoise *noise, char *text, size_t size);

typedef enum pbGradientMode { pb_modeForward, pb_modeReverse } pbGradientMode;
// Mode for the derivatives of `outputs` numbers by `parameters` numbers: forward where parameters <= max(2, outputs),
// else reverse. By these counts alone, never by a memory budget: the bits of a gradient must not depend on it.
PB_API pbGradientMode pbRollout_GradientMode(size_t parameters, size_t outputs);

#ifdef __cplusplus
}
#endif
#endif
