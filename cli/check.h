// pullback check: what its parts share. check.c runs it and reports; check_step.c tests the derivatives of single steps by dot
// products and Jacobians, check_differences.c by differences, check_slopes.c and check_slope_sets.c those of a short rollout,
// check_start.c those of each entry where it starts, check_rollout.c those of
// the whole one; check_findings.c says in words what is wrong, where and why.
#ifndef PB_CLI_CHECK_H
#define PB_CLI_CHECK_H

#include <pullback/random.h>

#include "cli.h"

enum { CLI_CHECK_TESTS = 24, CLI_CHECK_FINDINGS = 64, CLI_CHECK_WORDS = 320, CLI_CHECK_DIFFERENCES = 12 };

#define cli_dotLimit 1e-10  // relative error of a dot product that is rounding
extern const char cli_solverTest[], cli_finiteTest[];

typedef struct cliCheckTest {
  char name[48];
  int tried, skipped;  // cases that counted, and those left out (kinks, no reliable difference)
  double worst, limit;
  long step;  // of the worst; -1: none
  bool holds;
  char words[CLI_CHECK_WORDS];  // what is wrong, or left out
} cliCheckTest;

typedef struct cliCheckFinding {
  char what[96], where[96], why[CLI_CHECK_WORDS];
} cliCheckFinding;

// The discrete events of a step: two steps with different ones have a kink between them.
typedef struct cliTrace {
  int contacts, rows;
  uint64_t active;  // hash of which rows carry a force
  double normals;   // of all contacts, in one sum
  uint64_t ways;    // hash of how tendons go around geoms
  double turns;     // angles of these, in one sum
  uint64_t looks;   // hash of what rays meet and which features are nearest
} cliTrace;

// Vectors of the largest width of state, control and sensors, by their role.
typedef enum cliCheckVector {
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
} cliCheckVector;

typedef struct cliCheck {
  cliRun *run;
  pbRng rng;
  int nt, nx, nu, ns, nr;  // nr: tape record
  size_t np;
  double *records;          // (N, nr)
  double *states;           // (N + 1, nx)
  cliTrace *traces;         // N
  pbReport *reports;        // N
  double *theta_direction;  // tangent of theta
  double *theta_bar, *theta_try;
  double *work;  // vec_count vectors
  size_t width;  // of each
  cliCheckTest tests[CLI_CHECK_TESTS];
  int test_count;
  cliCheckFinding findings[CLI_CHECK_FINDINGS];
  int finding_count;
  pbCertificate certificate;
  pbNoise noise;  // measured where the costate grows much; else its time is infinite
  pbGradientKind mode;
} cliCheck;

// What a step is differentiated by.
typedef enum cliInputKind { kind_state, kind_control, kind_mocap, kind_theta, kind_count } cliInputKind;

typedef struct cliStepDirection {  // tangent of one step's inputs; NULL: zero
  const double *x, *ctrl, *theta;
  const double *mocap;  // 6 nmocap: positions, then rotations
} cliStepDirection;

// ---- vectors -------------------------------------------------------------------------------------------------------

double cli_dot(const double *a, const double *b, size_t n);
// <bar, direction> over what the direction moves: other entries of bar may be infinite.
double cli_dotAlong(const double *bar, const double *direction, size_t n);
double cli_norm(const double *a, size_t n);
double *cliCheck_Vector(const cliCheck *d, cliCheckVector which);

// ---- tests and findings --------------------------------------------------------------------------------------------

cliCheckTest *cliCheck_AddTest(cliCheck *d, const char *name, double limit);
void cliCheck_CountCase(cliCheckTest *t, double error, long step);  // step -1: of no step
// A case that does not count: left out at a kink. name: of what it is about, or NULL; step -1: of no step.
void cliCheck_LeaveOut(cliCheckTest *t, const char *name, const char *kink, long step);
__attribute__((format(printf, 4, 5))) void cliCheck_AddFinding(cliCheck *d, const char *what, const char *where, const char *why,
                                                               ...);

// ---- traces --------------------------------------------------------------------------------------------------------

cliTrace cliRun_Trace(const cliRun *run);  // of the last step in its scratch
bool cliTrace_Same(const cliTrace *a, const cliTrace *b);
const char *cliTrace_Kink(const cliTrace *a, const cliTrace *b);  // what a difference between them means

// ---- directions ----------------------------------------------------------------------------------------------------

void cliCheck_DrawNormals(cliCheck *d, double *out, size_t n);
void cliCheck_DrawTheta(cliCheck *d);  // into theta_direction: all parameters
// Random direction of a parameter that keeps unit vectors on their spheres; zeros stay.
void cliCheck_DrawParameter(const cliRun *run, pbRng *rng, const pbParam *p, double *direction);

// ---- one step ------------------------------------------------------------------------------------------------------

size_t cliCheck_KindSize(const cliCheck *d, cliInputKind kind);
const char *cliCheck_KindName(cliInputKind kind);
// `direction` for state and control; parameters have theta_direction.
cliStepDirection cliCheck_Direction(const cliCheck *d, cliInputKind kind, const double *direction);
// Pullback of step k's cotangents, those in vec_next_bar and (sensors) vec_sensor_bar: into vec_x_bar, vec_ctrl_bar and
// theta_bar.
pbStatus cliCheck_PullStep(cliCheck *d, long k, bool sensors);
const double *cliCheck_Pulled(const cliCheck *d, cliInputKind kind);
// The kink that differences of step k meet along a direction; NULL: none.
pbStatus cliCheck_FindKink(cliCheck *d, long k, const cliStepDirection *direction, const char **kink);

// ---- tests ---------------------------------------------------------------------------------------------------------

pbStatus cliCheck_DotProducts(cliCheck *d);
pbStatus cliCheck_Jacobians(cliCheck *d);
pbStatus cliCheck_Differences(cliCheck *d);
pbStatus cliCheck_TaylorRemainders(cliCheck *d);
pbStatus cliCheck_Mode(cliCheck *d);     // modes event and smooth
pbStatus cliCheck_AtStart(cliCheck *d);  // --at-start
// The side to which a control may move from the run's first: 1, -1 at an end of its range, 0: to both; *span: of the range.
int cliCheck_ControlSide(const cliRun *run, int i, double *span);

// ---- findings ------------------------------------------------------------------------------------------------------

void cliCheck_SolverFindings(cliCheck *d);
void cliCheck_FailureFindings(cliCheck *d);
void cliCheck_GrowthFindings(cliCheck *d);
void cliCheck_PenetrationFindings(cliCheck *d);
void cliCheck_ContactFindings(cliCheck *d);
pbStatus cliCheck_TieFindings(cliCheck *d);
// The first of so many steps whose state has contacts without a derivative of every direction (pbScratch_Tie); -1: none.
long cliRun_FirstTie(cliRun *run, const double *states, long steps);

#endif
