// The check of a model's derivatives (pullback/check.h): what its parts share. check.c runs it; steps.c tests the derivatives of
// single steps by dot products and Jacobians, differences.c by differences, slopes.c and slope_sets.c those of a short rollout,
// start.c those of each entry where it starts, rollout.c those of the whole one; findings.c says in words what is wrong, where
// and why.
#ifndef PB_CHECK_H
#define PB_CHECK_H

#include <pullback/check.h>
#include <pullback/random.h>

#include "rollout/rollout.h"

enum { CHECKED_STEPS = 12 };  // of which differences are taken, spread over the rollout: they cost dozens of steps each

#define pb_dotLimit 1e-10  // relative error of a dot product that is rounding
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

// Vectors of the largest width of state, control and sensors, by their role.
typedef enum pbCheckVector {
  vec_next_bar,     // cotangent of the next state, of the final one for rollouts
  vec_sensor_bar,   // cotangent of the sensors
  vec_x_bar,        // pulled back: by the state
  vec_ctrl_bar,     // by the control
  vec_mocap_bar,    // by poses of mocap bodies: positions, then rotations
  vec_direction,    // tangent of state or control
  vec_next_dot,     // pushed forward: the next state
  vec_sensor_dot,   // the sensors
  vec_moved_state,  // for differences
  vec_moved_ctrl,
  vec_moved_mocap,
  vec_change,
  vec_saved,
  vec_count
} pbCheckVector;

typedef struct pbCheck {
  const pbCheckOptions *options;
  pbCheckReport *report;
  pbRollout *r;        // the rollout that everything is about
  pbScratch *scratch;  // for steps by themselves
  pbRng rng;
  const double *theta;      // near the caller's, while rounding is measured
  double *x0, *control;     // as drawn; control: a row for each step
  double *states;           // (N + 1, nx)
  pbTrace *traces;          // N
  pbReport *reports;        // N
  int watched;              // steps whose trace and report are there
  double *theta_direction;  // tangent of theta
  double *theta_bar, *theta_try;
  double *work;  // vec_count vectors
  size_t width;  // of each
  void *memory;
  pbNoise noise;  // measured where the costate grows much; else its time is infinite
} pbCheck;

// What a step is differentiated by.
typedef enum pbInputKind { kind_state, kind_control, kind_mocap, kind_theta, kind_count } pbInputKind;

typedef struct pbStepDirection {  // tangent of one step's inputs; NULL: zero
  const double *x, *ctrl, *theta;
  const double *mocap;  // 6 nmocap: positions, then rotations
} pbStepDirection;

// ---- vectors -------------------------------------------------------------------------------------------------------

double pbCheck_Dot(const double *a, const double *b, size_t n);
// <bar, direction> over what the direction moves: other entries of bar may be infinite.
double pbCheck_DotAlong(const double *bar, const double *direction, size_t n);
double pbCheck_Norm(const double *a, size_t n);
double *pbCheck_Vector(const pbCheck *d, pbCheckVector which);

// ---- tests and findings --------------------------------------------------------------------------------------------

pbCheckTest *pbCheck_AddTest(const pbCheck *d, const char *name, double limit);
void pbCheck_CountCase(pbCheckTest *t, double error, int step);  // step -1: of no step
// A case that does not count: left out at a kink. name: of what it is about, or NULL; step -1: of no step.
void pbCheck_LeaveOut(pbCheckTest *t, const char *name, const char *kink, int step);
void pbCheck_AddFinding(const pbCheck *d, const char *what, const char *where, const char *why, ...) PB_PRINTF(4, 5);

// ---- on the way ----------------------------------------------------------------------------------------------------

// Tells how far a part of the check is; pb_interrupted where the caller ends it.
PB_NODISCARD pbStatus pbCheck_GoOn(const pbCheck *d, const char *part, int done, int all);
PB_NODISCARD pbStatus pbCheck_StepFailed(const pbCheck *d, pbStatus status, int k);
PB_NODISCARD pbStatus pbCheck_NoMemory(const pbCheck *d);
// A named integer of the model, or of a row of a field; -1 where there is none.
int pbCheck_Integer(const pbModel *model, const char *name, int row);

// ---- traces --------------------------------------------------------------------------------------------------------

pbTrace pbTrace_Of(const pbModel *model, pbScratch *scratch);  // of its last step
bool pbTrace_Same(const pbTrace *a, const pbTrace *b);
const char *pbTrace_Kink(const pbTrace *a, const pbTrace *b);  // what a difference between them means

// ---- directions ----------------------------------------------------------------------------------------------------

void pbCheck_DrawNormals(pbCheck *d, double *out, size_t n);
void pbCheck_DrawTheta(pbCheck *d);  // into theta_direction: all parameters
// Random direction of a parameter that keeps unit vectors on their spheres; zeros stay.
void pbCheck_DrawParameter(pbCheck *d, const pbParam *p, double *direction);

// ---- one step ------------------------------------------------------------------------------------------------------

size_t pbCheck_KindSize(const pbCheck *d, pbInputKind kind);
const char *pbCheck_KindName(pbInputKind kind);
// `direction` for state and control; parameters have theta_direction.
pbStepDirection pbCheck_Direction(const pbCheck *d, pbInputKind kind, const double *direction);
// Pullback of step k's cotangents, those in vec_next_bar and (sensors) vec_sensor_bar: into vec_x_bar, vec_ctrl_bar and
// theta_bar.
PB_NODISCARD pbStatus pbCheck_PullStep(pbCheck *d, int k, bool sensors);
const double *pbCheck_Pulled(const pbCheck *d, pbInputKind kind);
// The kink that differences of step k meet along a direction; NULL: none.
PB_NODISCARD pbStatus pbCheck_FindKink(pbCheck *d, int k, const pbStepDirection *direction, const char **kink);

// ---- tests ---------------------------------------------------------------------------------------------------------

PB_NODISCARD pbStatus pbCheck_DotProducts(pbCheck *d);
PB_NODISCARD pbStatus pbCheck_Jacobians(pbCheck *d);
PB_NODISCARD pbStatus pbCheck_Differences(pbCheck *d);
PB_NODISCARD pbStatus pbCheck_Slopes(pbCheck *d);
PB_NODISCARD pbStatus pbCheck_TaylorRemainders(pbCheck *d);
PB_NODISCARD pbStatus pbCheck_Mode(pbCheck *d);     // modes event and smooth
PB_NODISCARD pbStatus pbCheck_AtStart(pbCheck *d);  // at_start
// The side to which a control may move from the run's first: 1, -1 at an end of its range, 0: to both; *span: of the range.
int pbCheck_ControlSide(const pbCheck *d, int i, double *span);

// ---- findings ------------------------------------------------------------------------------------------------------

void pbCheck_SolverFindings(pbCheck *d);
void pbCheck_FailureFindings(pbCheck *d);
void pbCheck_GrowthFindings(pbCheck *d);
void pbCheck_PenetrationFindings(pbCheck *d);
void pbCheck_ContactFindings(pbCheck *d);
PB_NODISCARD pbStatus pbCheck_TieFindings(pbCheck *d);
// The first of so many steps whose state has contacts without a derivative of every direction (pbScratch_Tie); -1: none.
int pbCheck_FirstTie(pbCheck *d, const double *states, int steps);

#endif
