// The check of a model's derivatives (pullback/check.h): what its parts share. check.c runs it, stretch.c moves and
// differentiates stretches of the rollout, compare.c compares along a direction; steps.c tests single steps, slopes.c a few by
// all parameters, start.c each entry where it starts, rollout.c the whole; trace.c tells kinks, findings.c says in words what is
// wrong, where and why.
#ifndef PB_CHECK_H
#define PB_CHECK_H

#include <pullback/check.h>
#include <pullback/random.h>

#include "probe/probe.h"
#include "rollout/vectors.h"

enum { CHECKED_STEPS = 12 };  // of which differences are taken, spread over the rollout: they cost dozens of steps each

extern const char pb_solverTest[], pb_finiteTest[];

// The discrete events of a step: two steps with different ones have a kink between them.
typedef struct pbTrace {
  int contacts, rows;
  uint64_t active;  // hash of which rows carry a force
  double normals;   // of all contacts, in one sum
  uint64_t ways;    // hash of how tendons go around geoms
  double turns;     // angles of these, in one sum
  uint64_t looks;   // hash of what rays meet and which features are nearest
} pbTrace;

// What is seen of a stretch: two functionals, each with a random cotangent of some rows.
typedef enum pbSeen { in_states, in_sensors, seen_count } pbSeen;
typedef enum pbRows { pb_allRows, pb_rowsOfStep, pb_lastState } pbRows;  // of a step: sensors before, the state after

typedef enum pbCheckPart { pb_noPart, pb_ofSteps, pb_ofSlopes, pb_atStart, pb_ofRemainders, pb_partCount } pbCheckPart;

typedef struct pbCheck {
  const pbCheckOptions *options;
  pbCheckReport *report;
  pbRollout *r;        // of the stretch at hand
  pbScratch *scratch;  // of steps that are moved
  pbProgressMeter meter;
  pbStatus ended;  // why no more moves are made: pb_interrupted, pb_no_memory
  pbRng rng;
  const double *theta;   // near the caller's, while rounding is measured
  pbRolloutInput input;  // of the whole rollout
  int steps;             // of the whole, N
  double *control;       // (N, nu), as drawn
  double *states;        // (N + 1, nx)
  pbTrace *traces;       // N
  pbReport *reports;     // N
  int watched;           // steps whose trace and report are there
  int bends;             // told
  pbNoise noise;         // measured where the costate grows much; else its time is infinite

  // Going on (point.c)
  pbCheckPoint *point;  // the caller's; NULL: none
  pbCheckPart part;     // that an earlier run had come to; none: there was none, or what comes after it is at hand
  int done;
  double drawn[PB_RNG_DOUBLES];  // by the generator where the part at hand began

  // The stretch at hand: from a state of the rollout; rows are those of the stretch.
  int from;
  bool touching, tied;       // there are contacts, some of which have no derivative of every direction
  double *x;                 // its start, (nx)
  double *rows[seen_count];  // its states and sensors
  double *w[seen_count];     // cotangents of rows, (TangentSize), (nsensordata)
  double *tangent[seen_count];
  double norm[seen_count];      // of the cotangent
  double least[seen_count];     // slope that errors are relative to where a slope is less
  double size[seen_count];      // of the terms of a functional, for what rounding leaves of its differences
  double rounding[seen_count];  // what it changes by where every parameter moves by some units in its last place
  bool has_rounding;
  pbVectors bar[seen_count];  // gradients
  pbVectors direction;        // what moves
  const pbParam *dry;         // the friction loss that leaves its bound 0, or NULL
  pbCertificate certificate;  // of the last pullback
  double *theta_near;

  // The last move.
  pbMoved moved;
  double *moved_states;
  const char *kink;  // what it met, NULL: nothing, and its step
  int kink_step;
  uint64_t looks;
  void *memory;
} pbCheck;

// ---- check.c: tests and findings -----------------------------------------------------------------------------------

typedef struct pbWords {
  char text[288];
} pbWords;
pbWords pbWords_Of(const char *format, ...) PB_PRINTF(1, 2);

pbCheckTest *pbCheck_AddTest(const pbCheck *d, const char *name, double limit);
void pbCheck_CountCase(pbCheckTest *t, double error, int step);  // step -1: of no step
void pbCheck_Fail(pbCheckTest *t);                               // of a test that fails nothing else is told
// A case that does not count, and why. name: of what it is about, or NULL; step -1: of no step.
void pbCheck_LeaveOut(pbCheckTest *t, const char *name, const char *why, int step);
// Words of a test, behind those that are there while there is room, each once; `before` the first.
void pbCheck_AddWords(pbCheckTest *t, const char *before, const char *format, ...) PB_PRINTF(3, 4);
void pbCheck_AddFinding(const pbCheck *d, const char *what, const char *where, const char *why, ...) PB_PRINTF(4, 5);
// Tells how far a part of the check is; what ends it, with words.
PB_NODISCARD pbStatus pbCheck_GoOn(pbCheck *d, const char *part, int done, int all);
bool pbCheck_Stops(pbCheck *d);  // has the caller ended it? Asked within a part; the next GoOn says so
// A step that was moved has failed, which is no error of the check, unless memory is short: that ends it, as the next GoOn says.
void pbCheck_NoteFailure(pbCheck *d, pbStatus status);
// A named integer of the model, or of a row of a field; -1 where there is none.
int pbCheck_Integer(const pbModel *model, const char *name, int row);

// ---- point.c: how far the check is, told to the caller on the way; and one that goes on there --------------------------

PB_NODISCARD pbStatus pbCheck_TakeUp(pbCheck *d);  // before the first part. pb_bad_argument: a point of another check
// Has an earlier run finished the part? Else it begins: what it draws is what it drew there.
bool pbCheck_Skips(pbCheck *d, pbCheckPart part);
// Once it has its stretch and functionals: what it is to begin with; -1: with all of it.
int pbCheck_Resume(pbCheck *d, pbCheckPart part);
// Before number `done` of a part: all before it are in the report.
void pbCheck_Mark(const pbCheck *d, pbCheckPart part, int done);

// ---- trace.c -------------------------------------------------------------------------------------------------------

PB_NODISCARD pbStatus pbTrace_Of(const pbModel *model, pbScratch *scratch, pbTrace *trace);  // of its last step
bool pbTrace_Same(const pbTrace *a, const pbTrace *b);
const char *pbTrace_Kink(const pbTrace *a, const pbTrace *b);  // what a difference between them means
extern const char pb_namelessKink[];                           // where there is none

// ---- stretch.c -----------------------------------------------------------------------------------------------------

// The stretch at hand is `steps` steps from state `from`, without a direction.
PB_NODISCARD pbStatus pbCheck_Stretch(pbCheck *d, int from, int steps);
// Random functionals of some rows, and their gradients. options: of the pullback by states, or NULL.
PB_NODISCARD pbStatus pbCheck_DrawFunctionals(pbCheck *d, pbRows rows, const pbVjpOptions *options);
// Normal deviates into a part of the direction; theta: of each its own share (model/direction.h).
void pbCheck_DrawPart(pbCheck *d, pbBy part);
// Derivatives of both functionals along the direction, by forward mode.
PB_NODISCARD pbStatus pbCheck_Push(pbCheck *d, double ahead[seen_count]);
double pbCheck_GradientAlong(const pbCheck *d, pbSeen seen, double *terms);
// What both functionals change by after a move by e along the direction; NaN where a step fails or the caller ends it. traced:
// and the kink it meets.
void pbCheck_Move(pbCheck *d, double e, bool traced, double value[seen_count]);
// The kink that moves along the direction meet by what their steps do; NULL: none that shows there.
const char *pbCheck_FindKink(pbCheck *d);
// The gradients against slopes along the direction, at the first length of moves that agrees within the limit, else at the most
// certain one. side, strict: as of pbStanding_Of.
void pbCheck_Measure(pbCheck *d, int side, bool strict, double limit, pbStanding found[seen_count]);
// Whether forward and reverse mode are apart by no more than both move by where parameters change in their last places.
PB_NODISCARD pbStatus pbCheck_IsRounding(pbCheck *d, pbSeen seen, double ahead, bool *rounding);
// Whether sensors look at something else after the least move to one side than to the other.
bool pbCheck_LooksDiffer(pbCheck *d);

// ---- compare.c -----------------------------------------------------------------------------------------------------

// What is compared along the direction that is set.
typedef struct pbComparison {
  pbCheckTest *test[seen_count];  // one at least; NULL: not of these
  const char *name;               // of what moves, or NULL
  const double *alone;            // the entry of the direction that moves alone, whose slopes are told; NULL: many do
  const char *excused;            // why a disagreement is left out; NULL: it is not
  int side;                       // as of pbStanding_Of
  bool strict;
  bool modes;  // forward against reverse mode, too; a direction of parameters may become shorter
  int step;    // which is compared by itself: kinks that it meets are excuses; -1: several are
} pbComparison;
// *wrong: a gradient disagrees, and nothing excuses it.
PB_NODISCARD pbStatus pbCheck_Compare(pbCheck *d, const pbComparison *c, pbStanding found[seen_count], bool *wrong);

// ---- tests ---------------------------------------------------------------------------------------------------------

PB_NODISCARD pbStatus pbCheck_Steps(pbCheck *d);
PB_NODISCARD pbStatus pbCheck_Slopes(pbCheck *d);
PB_NODISCARD pbStatus pbCheck_AtStart(pbCheck *d);  // at_start
PB_NODISCARD pbStatus pbCheck_TaylorRemainders(pbCheck *d);
PB_NODISCARD pbStatus pbCheck_Mode(pbCheck *d);  // modes event and smooth
// Does a move by e leave some friction loss too small to be told from rounding?
bool pbCheck_Drowns(const pbCheck *d, double e);
// The side to which a control of a step may move: 1, -1 at an end of its range, 0: to both; *span: of the range.
int pbCheck_ControlSide(const pbCheck *d, int step, int i, double *span);
// The same of an activation in the state before a step of the stretch at hand.
int pbCheck_ActivationSide(const pbCheck *d, int step, int i);
// Numbers of the state's tangent that move by themselves: not the past that deformables keep, nor what a policy holds.
int pbCheck_MovingCount(const pbCheck *d);

// ---- findings ------------------------------------------------------------------------------------------------------

void pbCheck_SolverFindings(pbCheck *d);
void pbCheck_FailureFindings(pbCheck *d);
void pbCheck_GrowthFindings(pbCheck *d);
void pbCheck_PenetrationFindings(pbCheck *d);
void pbCheck_ContactFindings(pbCheck *d);
PB_NODISCARD pbStatus pbCheck_TieFindings(pbCheck *d);
// The first step of the stretch at hand whose state has contacts without a derivative of every direction (pbScratch_Tie); -1.
int pbCheck_FirstTie(pbCheck *d);

#endif
