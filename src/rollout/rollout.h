// Inside of a rollout: memory, the present state of the schedule, and what the parts of src/rollout give each other.
#ifndef PB_ROLLOUT_H
#define PB_ROLLOUT_H

#include <pullback/deform.h>
#include <pullback/random.h>
#include <pullback/rollout.h>

#include "impact/event.h"
#include "probe/probe.h"
#include "rollout/schedule.h"
#include "world/cached.h"
#include "world/policy_step.h"

typedef struct pbProgressMeter {  // progress of one call, and its end
  pbProgressFunction function;
  void *user;
  const char *phase;
  int64_t done, total;
  double start, last;
} pbProgressMeter;
// 0, or nonzero where the caller wants to stop.
int pbProgressMeter_Begin(pbProgressMeter *meter, const char *phase, int64_t total);
int pbProgressMeter_Step(pbProgressMeter *meter);
// Of work that counts by itself.
int pbProgressMeter_At(pbProgressMeter *meter, const char *phase, int64_t done, int64_t total);

// What shortens the costate on its way back (pbVjpOptions).
typedef struct pbTruncation {
  double factor;  // exp(-decay h); 1: none
  double clip;    // infinite: none
  int window;     // steps; 0: none
} pbTruncation;

struct pbRollout {
  pbContext *ctx;
  const pbModel *model;
  pbRolloutPlan plan;
  int most_snapshots, most_leaf;  // that there is memory for
  pbScratch *scratch;
  int nx, n, nv, na, nu, ns, nbody, nsite, np, ncommand, nmocap, nrecord;  // sizes: state, tangent, ...; np: 3 npoint
  size_t ntheta;
  double bound, timestep;
  pbCapacity capacity;
  bool borrowed;    // the scratch is another rollout's, on the same thread
  bool keeps_room;  // of Jvp and Second: for whoever calls them again and again
  double *room;     // what is kept, room_count numbers
  size_t room_count;
  bool xpos_by_observing;  // the last evaluation of a step is not at its first state (RK4, impacts)
  pbProgressMeter meter;

  int told_from, told_steps;  // of a part of a longer rollout: how messages count its steps; 0: by themselves
  void (*watch)(void *watcher, pbScratch *scratch);  // called after each step of a Forward, before its record; NULL: nobody
  void *watcher;
  void (*steer)(void *steer_user, int k, const double *x);  // called before step k of a Forward: may write that row of the inputs
  void *steer_user;
  // called with the state before step k in every sweep, of Forward and of Linearize, before anything is made of it: may move it,
  // to the same bits each time; NULL: nobody. No Vjp and no Jvp may be asked of such a run.
  void (*jump)(void *jump_user, int k, double *x);
  void *jump_user;
  struct pbStepCheck *step_check;  // while a Vjp checks steps
  pbTruncation truncation;         // of the Vjp at hand
  pbPulled *pulled;                // lent; NULL: none
  pbGradientKind gradient;
  pbModel *smooth;  // for pb_gradientSmooth: the model with its smooth contact settings; a scratch, a record, a state
  pbScratch *smooth_scratch;
  double *smooth_record, *smooth_x;

  // Of a track: the parameters that a state had which a new start leaves, where the new start has others; NULL. On the way back
  // past new start `part` what theta points to becomes what it was before; theta_bar: of what comes behind it, NULL: not wanted.
  const double *theta_left;
  pbStatus (*pull_before)(void *pull_before_user, int part, double *theta_bar);
  void *pull_before_user;

  // Of a training, rows as those of inputs, NULL: none. kick (steps, nv): velocities that are added at the end of a step, so that
  // the state after it has them, and derivatives pass as if they were not there. noise (steps, observed): is added to what the
  // policy observes. No check by differences knows of them.
  const double *kick, *noise;

  // the caller's, from Forward on
  const double *theta, *x0;
  pbRolloutInput input;
  int began;             // first step of the Forward at hand
  bool ran, tape_fresh;  // tape_fresh: no Vjp has used up the records of the last Forward

  pbSchedule schedule;
  int leaf_from;          // step of records[0]
  bool *unwanted;         // fields of theta whose gradients are not wanted, by number; NULL: all are
  double *theta_aside;    // ParamSize, where `unwanted` is there: what the caller's gradient held before a Vjp
  pbCertificate forward;  // what Forward met (solver, contacts)
  double *records;        // (leaf, nrecord)
  double *final_record;   // nrecord: observation at the last state
  bool has_final_record;
  char *cached;  // evaluations of the steps in `records`, as far as they fit
  size_t cached_used;
  size_t *cached_at;  // leaf: where in `cached`, SIZE_MAX: not there
  double *snapshots;  // (snapshots, nx)
  int *held;
  bool ahead;                        // pbRollout_PullAhead has been called for the next step
  bool vouched;                      // of a batch: theta was looked at, in this call, and so was the model
  double *x, *x_before, *x_final;    // nx
  double *costate, *costate_before;  // n
  // Of mocap bodies, nmocap of each (prescribed.c): velocities of the step at hand and their cotangents or tangents (6); the
  // model's poses (7), and cotangents or tangents of these (6).
  double *mocap_rate, *mocap_rate_bar, *mocap_own, *mocap_own_rate;
  char *memory;
  struct pbTrack *track;  // lent; NULL: none
};

// ---- track.c: the tape of a trajectory apart from the rollout that ran it, so that one rollout serves many worlds in turn
typedef struct pbTrack {
  bool whole;            // records of all steps; else one, of the last: there is no way back
  double *records;       // (steps, nrecord)
  double *final_record;  // nrecord
  double *x_final;       // nx
  bool ran, has_final_record;
  double timestep;
  pbCertificate forward;
  // New starts on the way: how many, of at most `most`; at which states, ascending; records of the states that were left there.
  int restarts, most;
  int *restart_at;
  double *left;
  double *left_input;  // (most + 1, pbTrack_InputSize): rows of inputs at those states as they were
} pbTrack;
// pbRollout_Create with the working memory of another rollout of the same thread and model, which outlives it: each finds there
// what its own last call left only until the other's next.
PB_NODISCARD pbStatus pbRollout_CreateBeside(const pbRollout *other, const pbRolloutPlan *plan, pbRollout **rollout);
// A rollout with one record, which is the track `bare`. Lend: a Forward takes `steps` steps and writes to the track from here on.
PB_NODISCARD pbStatus pbRollout_CreateBare(pbContext *ctx, const pbModel *model, const pbCapacity *capacity, pbRollout **rollout,
                                           pbTrack *bare);
void pbRollout_Lend(pbRollout *r, pbTrack *track, int steps);
// A rollout with memory of its own takes `steps` steps from here on, at most as many as it was planned for.
PB_NODISCARD pbStatus pbRollout_Shorten(pbRollout *r, int steps);
// After Forward: what it found goes to the track. Before Vjp and Jvp: as if this rollout had just run it.
void pbTrack_Keep(const pbRollout *r, pbTrack *track);
void pbTrack_Resume(pbRollout *r, pbTrack *track, int steps, const double *theta, const pbRolloutInput *input);
// Before a Forward goes on at step k from x: if that is not where it had come to, a new start.
PB_NODISCARD pbStatus pbTrack_NoteRestart(pbRollout *r, const double *x, int k);
// Numbers of a row of all inputs.
size_t pbTrack_InputSize(const pbModel *m);
// On the way back at state k, where a new start was: parameters as they were before it.
PB_NODISCARD pbStatus pbTrack_PullBefore(pbRollout *r, int k, double *theta_bar);
// After a part that ends at state k: keeps the inputs of that row, which the caller may change before the next part begins.
void pbTrack_KeepInput(const pbRollout *r, int k);
// Record of the state that was left for a new start at state k, and the inputs that it was observed with; NULL: there is none.
const double *pbTrack_LeftAt(const pbRollout *r, int k, pbInput *input);

// ---- rollout.c
PB_NODISCARD pbStatus pbRollout_Ready(pbRollout *r);
// Row of an input that acts at state k (the last row also at the last state), and what it holds.
int pbRollout_InputRow(const pbRollout *r, int k);
pbInput pbRollout_InputAt(const pbRollout *r, int k);
// Forward step by step, so that a pack of rollouts calls the functions of a policy together: Begin; for each step Sense of all,
// the pack, ForwardStep of each; End. Of a tape that was lent. first, last: steps first .. last - 1, all those before were done
// on the same tape.
PB_NODISCARD pbStatus pbRollout_BeginForward(pbRollout *r, const double *theta, const double *x0, const pbRolloutInput *input,
                                             int first, pbRolloutOutput *output);
PB_NODISCARD pbStatus pbRollout_Sense(pbRollout *r, int k);
PB_NODISCARD pbStatus pbRollout_ForwardStep(pbRollout *r, int k, pbRolloutOutput *output);
PB_NODISCARD pbStatus pbRollout_EndForward(pbRollout *r, int last, pbRolloutOutput *output);
// ---- prescribed.c: how mocap bodies move in step k (pbInput.mocap_vel), NULL: they rest; overwritten by the next call
const double *pbPrescribed_Rate(const pbRollout *r, int k);
// Does the velocity of a mocap body change between step k and the one after it (the last: before it), beyond rounding?
bool pbPrescribed_Bends(const pbRollout *r, int k, int mocap);
// Poses before row 0: readable, and not beside velocities, which would be taken instead of them.
PB_NODISCARD pbStatus pbPrescribed_CheckBefore(pbRollout *r);
// A path that jumps while something meets the body, and its velocity counts: pb_bad_input with body and step.
PB_NODISCARD pbStatus pbPrescribed_Check(pbRollout *r, int k);
PB_NODISCARD pbStatus pbPrescribed_CheckAll(pbRollout *r);  // all steps, for a kind of gradient that Forward did not know of
// Along a direction: its derivative, NULL: zero; and what it is at `size` along it (room: 20 nmocap), by a theta that has moved.
const double *pbPrescribed_Push(const pbRollout *r, const pbRolloutDirection *direction, int k);
const double *pbPrescribed_Moved(const pbRollout *r, const pbRolloutDirection *direction, double size, const double *theta, int k,
                                 double *room);
// Do poses or parameters that the gradient is wanted by owe anything to the velocity? Then mocap_rate_bar, zero from Begin on,
// gathers its cotangent, and Pull hands it on.
bool pbPrescribed_Wanted(const pbRollout *r, const pbRolloutGradient *gradient);
void pbPrescribed_Begin(const pbRollout *r);
void pbPrescribed_Pull(const pbRollout *r, const pbRolloutGradient *gradient, int k);

// ---- sensitivity.c: many directions at once through steps, by rows of their Jacobians
typedef struct pbSensitivity pbSensitivity;
// Is that cheaper than a forward derivative for each? Of deformables it hardly ever is: there is a row, and a solve, for each
// coordinate of a point.
bool pbSensitivity_Serves(const pbRollout *r, int count, const pbRolloutTangent *tangents);
// Destroyed after a failure, too.
PB_NODISCARD pbStatus pbSensitivity_Create(pbRollout *r, int count, const pbRolloutDirection *directions,
                                           pbSensitivity **created);
void pbSensitivity_Destroy(const pbRollout *r, pbSensitivity *s);  // NULL is fine
// Step k of that record, to the state `after`: tangents of all directions (count, n) from `now` to `next`.
PB_NODISCARD pbStatus pbSensitivity_Step(pbRollout *r, pbSensitivity *s, int k, const pbStepRecord *step, const double *after,
                                         const double *now, double *next);
// Outputs at the state `before` step k (of the last one: before none), after pbSensitivity_Step: row `at` of every tangent.
PB_NODISCARD pbStatus pbSensitivity_See(pbRollout *r, pbSensitivity *s, int k, const pbStepRecord *step, const double *before,
                                        int at, const pbRolloutTangent *tangents, const double *now);

// ---- linearize.c: Jacobians of all steps of the last Forward, of bodies without a policy, by the gradient exact or smooth
typedef struct pbLinearized {
  double *A, *B;  // n x n, n x nu: of the step at hand, by the state and by the controls
  double *room;   // pbRollout_LinearizeRoom numbers, so that no call takes memory
  // Called for each state 0 .. steps, when these of the step from it are there (of the last state: none), with its record.
  pbStatus (*see)(void *user, int k, const pbStepRecord *step, pbScratch *scratch);
  void *user;
} pbLinearized;
PB_NODISCARD pbStatus pbRollout_Linearize(pbRollout *r, const pbLinearized *out);
// The same step by step, in any order and on any threads, each with a scratch and an `out` of its own. HasSteps: all of them
// are on the tape, no bodies are led, whose velocities are found in the rollout's own memory, and nothing is late. Begin, then
// each state 0 .. steps, whose errors are in the scratch.
bool pbRollout_HasSteps(const pbRollout *r);
PB_NODISCARD pbStatus pbRollout_BeginLinearizing(pbRollout *r, pbScratch *const *scratch, int count);
PB_NODISCARD pbStatus pbRollout_LinearizeStep(const pbRollout *r, int k, pbScratch *scratch, const pbLinearized *out);
size_t pbRollout_LinearizeRoom(const pbModel *m);

// ---- hessian.c: second derivatives of step k from state x, of costate'next by state and controls, (n + nu) squared, symmetric;
// after a Forward. room: pbRollout_HessianRoom numbers.
PB_NODISCARD pbStatus pbRollout_Hessian(pbRollout *r, int k, const double *x, const double *costate, double *H, double *room);
size_t pbRollout_HessianRoom(const pbModel *m);
// What it works with besides is made, so that no call takes memory but for more contacts than before.
PB_NODISCARD pbStatus pbRollout_MakeHessian(pbRollout *r);

// ---- rollout.c, one step
// One step from r->x with its checks; sensordata may be NULL. k: its number, for messages.
PB_NODISCARD pbStatus pbRollout_StepChecked(pbRollout *r, const double *theta, double *x, const pbInput *input, int k,
                                            double *sensordata);
PB_NODISCARD pbStatus pbRollout_StepFailed(pbRollout *r, pbStatus status, int k, const char *what);
// Positions of bodies and sites of a scratch's last evaluation (which must have been at the state meant); NULL: there are none.
const double *pbRollout_ObservedField(const pbScratch *s, const char *name);
// An evaluation at state k without a step; sensordata may be NULL. ObserveWith: with inputs other than those of that row.
PB_NODISCARD pbStatus pbRollout_Observe(pbRollout *r, const double *x, int k, double *sensordata);
PB_NODISCARD pbStatus pbRollout_ObserveWith(pbRollout *r, const double *x, int k, const pbInput *input, double *sensordata);
// The schedule from its start, and its actions up to the next Reverse or Done, which is returned. out: NULL but in Forward.
void pbRollout_Restart(pbRollout *r);
PB_NODISCARD pbStatus pbRollout_Play(pbRollout *r, pbRolloutOutput *out, bool first, pbScheduleAction *action);
// Of step k of the present leaf: its tape record, and its cached evaluation or NULL.
double *pbRollout_RecordAt(const pbRollout *r, int k);
void *pbRollout_CachedAt(const pbRollout *r, int k);
PB_NODISCARD pbStatus pbRollout_Stopped(const pbRollout *r, int k);

// The caller's choice of states: ascending, and there.
PB_NODISCARD pbStatus pbRows_Check(const pbRollout *r, const int *rows, int count);
// Row of state k among `count` ascending steps (NULL: every state); -1 if it is not there.
int pbRows_Find(const int *rows, int count, int k);
// A set of cotangents looked at state by state, in any order.
const double *pbCotangent_At(const pbCotangent *c, int width, int k, int steps);
PB_NODISCARD pbStatus pbRolloutBar_Check(const pbRollout *r, const pbRolloutBar *bar);

// ---- smooth.c
void pbSmooth_Destroy(pbRollout *r);
bool pbSmooth_Fits(const pbRollout *r);  // to smooth_kappa and smooth_onset as they are now
// The step (or, at the last state, the observation) of a record with the smooth model: its record goes to r->smooth_record.
PB_NODISCARD pbStatus pbSmooth_Step(pbRollout *r, const double *record, const pbInput *input, int k);

// ---- selection.c
void pbSelection_Destroy(pbRollout *r);
void pbSelection_Apply(pbRollout *r);       // to the scratches there are now
bool pbSelection_None(const pbRollout *r);  // nothing is wanted
// Entries of a gradient that are not wanted: remembered, put back; zero. theta may be NULL.
void pbSelection_Keep(const pbRollout *r, const double *theta);
void pbSelection_Restore(const pbRollout *r, double *theta);
void pbSelection_Clear(const pbRollout *r, double *theta);

// ---- truncate.c
// Reads the options (NULL: none) into r->truncation and notes what acts. pb_bad_argument for numbers out of range.
PB_NODISCARD pbStatus pbTruncation_Begin(pbRollout *r, const pbVjpOptions *options, pbCertificate *certificate);
bool pbTruncation_Acts(const pbTruncation *truncation);
// The costate of a state, before the step that led there is pulled back.
void pbTruncation_Shorten(pbRollout *r, int state, pbCertificate *certificate);
// Is what comes to this state from later steps cut off?
bool pbTruncation_Cuts(const pbRollout *r, int state);

// ---- clock.c: what a row of sensordata owes to the time step by the k steps before `state`
void pbClock_Pull(const pbRollout *r, const double *sensor_bar, const double *state, int k, double *theta_bar);
void pbClock_Push(const pbRollout *r, const double *theta, const double *state, int k, double *sensordata);

// ---- certificate.c
typedef struct pbGrowth {  // of the costate, gathered from the last step to the first
  double first, now;       // ln of the first nonzero norm, and of the last
  double count, t, tt, y, ty;
} pbGrowth;
void pbGrowth_Add(pbGrowth *growth, pbCertificate *certificate, double time_to_end, double norm, int step);
void pbGrowth_Finish(const pbGrowth *growth, pbCertificate *certificate);
// worst_row: pbScratch_WorstRow of the step.
void pbCertificate_Step(pbCertificate *certificate, const pbReport *report, const char *worst_row, int step);
// Counts a comparison that says nothing.
void pbCertificate_LeaveOut(pbCertificate *certificate, pbAgreement why);
// After a sampled step that was left out: the contact to blame, if it is one, at the state x before step k.
PB_NODISCARD pbStatus pbCertificate_NoteTie(pbCertificate *c, pbRollout *r, const double *x, const pbInput *input, int k);

// ---- sample.c: checks of single steps on the way back
typedef struct pbStepCheck pbStepCheck;
PB_NODISCARD pbStatus pbStepCheck_Begin(pbRollout *r, const pbVjpOptions *options, const pbRolloutGradient *gradient,
                                        pbStepCheck **check);
void pbStepCheck_End(const pbRollout *r, pbStepCheck *check);  // NULL is fine
// How far it is, as numbers; Load: counts beyond what was drawn are cut.
enum { pb_stepCheckNumbers = PB_RNG_DOUBLES + 4 };
void pbStepCheck_Save(const pbStepCheck *check, double *out);
void pbStepCheck_Load(pbStepCheck *check, const double *in);
// Before the pullback of step k, and right after it: r->costate_before is the cotangent of its state but for what the caller gave
// there. events: those of gradient by events were corrected in it.
void pbStepCheck_Before(pbRollout *r, pbStepCheck *check, int k);
PB_NODISCARD pbStatus pbStepCheck_Step(pbRollout *r, pbStepCheck *check, int k, const double *record, void *cached,
                                       const pbObservationBar *observed, bool events, pbCertificate *certificate);

// ---- spot.c: the check of the whole rollout, along a random direction of the initial state, the inputs and theta
typedef struct pbSpot pbSpot;
PB_NODISCARD pbStatus pbSpot_Begin(pbRollout *r, const pbVjpOptions *options, const pbRolloutGradient *gradient, pbSpot **spot);
void pbSpot_End(const pbRollout *r, pbSpot *spot);  // NULL is fine
// Products with what the gradient held at the beginning.
enum { pb_spotNumbers = 2 };
void pbSpot_Save(const pbSpot *spot, double *out);
void pbSpot_Load(pbSpot *spot, const double *in);
// x0_bar: the cotangent of the initial state.
PB_NODISCARD pbStatus pbSpot_Check(pbRollout *r, pbSpot *spot, const pbRolloutBar *bar, double *x0_bar,
                                   const pbRolloutGradient *gradient, pbCertificate *certificate);

// ---- pullback.c, jvp.c: one step backward and forward by the kind of gradient, with what a step by itself holds fixed: the
// clock, and the times of events, which are counted. PushOne: the state before it and, for events, after it.
PB_NODISCARD pbStatus pbRollout_PullOne(pbRollout *r, pbScratch *s, int k, const pbStepRecord *step,
                                        const pbStepCotangent *cotangent, const pbStepBar *out, pbEventCount *events);
PB_NODISCARD pbStatus pbRollout_PushOne(pbRollout *r, pbScratch *s, int k, const pbStepRecord *step, const double *before,
                                        const double *after, const pbDirection *direction, const pbStepTangent *out);
// Where step k adds to a gradient by its inputs.
pbInputBar pbRollout_InputBarAt(const pbRollout *r, const pbRolloutGradient *gradient, int k);

// ---- pullback.c: Vjp step by step, likewise. Begin, which goes through the last state; for each step from the last to the first
// PullAhead of all, the pack with what it needs of each, PullStep; End with the status so far, which it returns or another.
typedef struct pbPullMarks {  // falling steps: of each is told what it and all behind it have given to the gradient by theta
  int count;
  const int *step;
  void (*note)(void *user, int world, int mark, const double *theta_bar);  // on the thread that pulls
  void *user;
} pbPullMarks;
typedef struct pbPulling {
  const pbRolloutBar *bar;
  const pbVjpOptions *options;
  pbRolloutGradient gradient;
  pbCertificate *certificate, local;
  pbSpot *spot;
  pbGrowth growth;
  bool kept;                 // of the caller's gradient, what is not wanted
  int at;                    // the state that the costate is of; -1: none yet
  const pbPullMarks *marks;  // NULL: none
  int marked, world;         // marks that were told; what they are told of
} pbPulling;
PB_NODISCARD pbStatus pbRollout_BeginVjp(pbRollout *r, pbPulling *p);
PB_NODISCARD pbStatus pbRollout_PullAhead(pbRollout *r, pbPulling *p, int k);
PB_NODISCARD pbStatus pbRollout_PullStep(pbRollout *r, pbPulling *p, int k);
PB_NODISCARD pbStatus pbRollout_EndVjp(pbRollout *r, pbPulling *p, pbStatus status);
PB_NODISCARD pbStatus pbRollout_Pull(pbRollout *r, pbPulling *p);  // all of it: p with what Begin takes

// ---- rollout.c: zeros for a call of Jvp or Second, and what becomes of them after it. NULL: no memory.
double *pbRollout_TakeRoom(pbRollout *r, size_t count);
void pbRollout_LeaveRoom(pbRollout *r, double *room);

// ---- pulled.c: a Vjp that goes on where another was interrupted
// Is what it goes on with of such a rollout? pb_bad_argument.
PB_NODISCARD pbStatus pbPulled_Check(const pbRollout *r);
// Instead of the last state: costate, growth, certificate and checks as they were. After Begin of the checks.
void pbPulled_TakeUp(pbRollout *r, pbPulling *p);
// After pb_interrupted, once products are gathered; nothing where no costate is there yet.
void pbPulled_Leave(const pbRollout *r, const pbPulling *p, pbStatus status);
// The first action of the way back from state k on; the schedule goes on as if all steps behind it had been reversed.
PB_NODISCARD pbStatus pbPulled_Leaf(pbRollout *r, int k, pbScheduleAction *action);

#endif
