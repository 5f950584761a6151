// Deformables inside: the compiled description, working memory, and what the parts of src/deform give each other.
//
// A step finds x with r(x) = 0 along the coordinates that are free,
//   r(x) = M (x - xhat) + c h^2 (sum_t a_t b_t grad E(b_t x + (1 - b_t) y) - M gravity),
// which is the gradient of an incremental potential (scheme.c has the coefficients). y is the state before; energies of
// velocities, (z - y)/h, get positions and a time (pbDeform_Ago) that make this the velocity of the scheme there. Its derivatives
// with respect to anything p are -H^-1 dr/dp, H = dr/dx; the pullback takes w = H^-T l once and then w . dr/dp, energy by energy.
#ifndef PB_DEFORM_H
#define PB_DEFORM_H

#include <math.h>

#include <pullback/deform.h>
#include <pullback/world.h>

#include "barrier/barrier.h"
#include "base/assert.h"
#include "base/reserve.h"
#include "deform/deformable.h"
#include "deform/project.h"
#include "sparse/sparse.h"

// ---- compiled -----------------------------------------------------------------------------------------------------
typedef enum pbSource { pb_fromTheta, pb_fromControl, pb_fromData } pbSource;
typedef struct pbGroupParameter {
  const pbEnergyParameter *def;
  pbSource source;
  size_t offset;  // in theta, ctrl or data
  int rows;       // 1: shared, else one an element
  int size;       // numbers of a row
} pbGroupParameter;

typedef struct pbElementGroup {
  char *name;
  bool mass;         // gives masses, no forces
  pbEnergy *energy;  // of masses: the gradient by any x is the mass's share of a point
  int count, points, *vertex;
  int parameter_count;
  pbGroupParameter *parameter;
  // count x points x points: block of the matrix; -1: above the diagonal (unknowns a < b), or of a point without unknowns. NULL:
  // masses.
  int *slot;
} pbElementGroup;

typedef struct pbDeformSlice {  // of theta, for the table of parameters
  char *name;                   // "point_rest", "point_mass", GROUP.PARAMETER
  const char *unit;
  size_t offset;
  int rows, cols;
  double lower, upper;
} pbDeformSlice;

typedef struct pbSceneryPoints {  // points that nobody listed: of a plane, or of a geom as a surface
  char *name;                     // "": a plane without one
  bool geom;
  int first, count;
} pbSceneryPoints;

typedef struct pbLedCoordinate {  // a fixed coordinate that goes along a path
  int coordinate;
  bool control;       // else of theta
  size_t at, stride;  // its displacement from the start: of step 0, and from step to step
  int steps;
} pbLedCoordinate;

typedef struct pbDeform {
  pbContext *ctx;
  int npoint;
  double *start, *velocity;     // npoint x 3: of the initial state
  unsigned char *fixed;         // npoint: axes
  int nfree, *unknown, *point;  // points with a free axis; npoint: block of unknowns or -1; nfree: its point
  int nattached;                // points on bodies
  int *attached, *attached_of;  // nattached: the point; npoint: its number among them or -1
  int *attached_body, *attached_geom, *attached_size;  // nattached, nattached (-1: none), nattached x 3; set by the world
  size_t local_at;                                     // in theta
  bool coupled;                                        // some of them move
  int nled, lead_parts;  // steps that go to one row of a path: 1, more in a finer run of the same motion
  pbLedCoordinate *led;
  int ngroup;
  pbElementGroup *group;
  size_t ntheta;  // rest positions, masses, parameters
  double *theta0, *data;
  size_t ndata;
  int nset;
  pbPointSet *set;
  int nscenery;
  pbSceneryPoints *scenery;
  int nslice;
  pbDeformSlice *slice;
  int ncontrol;
  double *control0;
  char **control_name;  // GROUP.PARAMETER[row], or GROUP.PARAMETER[row].entry
  pbDeformOptions options;
  pbCellSets cells;
  double size;  // m: of the scene, for tolerances
  int most_points, most_parameters;
  size_t work_bytes;         // of the largest energy
  pbSparsePattern *pattern;  // of the elements
  pbSparseAnalysis *analysis;
  pbCollision *collision;  // NULL: nothing meets
  int nsurface;
  bool friction;
  char *loose;                                                            // of static: what is not held, for messages, or NULL
  bool unsymmetric;                                                       // some forces have no potential
  size_t stiffness_at, friction_at, radius_at, distance_at, velocity_at;  // in theta
} pbDeform;

// The end of messages where an equilibrium is not found: what nothing holds, or nothing.
static inline const char *pbDeform_Loose(const pbDeform *d) { return d->loose ? d->loose : ""; }

enum { pb_restAt = 0 };  // theta begins with rest positions, then masses
static inline size_t pb_massAt(const pbDeform *d) { return 3 * (size_t)d->npoint; }

// attached_body, attached_x: bodies of the points on them, and where these are in the reference configuration.
PB_NODISCARD pbStatus pbDeform_Compile(pbContext *ctx, const pbDeformable *from, const int *attached_body,
                                       const double *attached_x, pbDeform **deform);
void pbDeform_Destroy(pbDeform *deform);

// ---- schemes ------------------------------------------------------------------------------------------------------
// Every scheme is linear in what it keeps: with e = (x, h v, x before, h v before, h^2 a) of the start of the step,
//   xhat = sum start[i] e[i],   h v+ = new x+ + sum next[i] e[i],   a = M^-1 force(x).
enum { pb_pastX, pb_pastV, pb_pastX1, pb_pastV1, pb_pastA, pb_pastCount };
typedef struct pbSchemeTable {
  const char *name;
  double start[pb_pastCount], next[pb_pastA], new;
  double factor;            // c
  int terms;                // energies at b x + (1 - b) y with weight a
  double weight[2], at[2];  // a, b
  // Velocity where a term looks: (z - sum ago[i] e[i]) / (span h), over the first three of e.
  double ago[2][3], span;
  bool inertia, implicit, history;
} pbSchemeTable;
const pbSchemeTable *pbScheme_Table(pbScheme scheme, bool first);  // first: no past yet

// ---- state --------------------------------------------------------------------------------------------------------
typedef struct pbDeformState {  // offsets in the deformables' part of a state, and of its tangent
  int x, v, x1, v1, begun, size;
  int tangent;  // numbers of the tangent: x, v, x1, v1
} pbDeformState;
pbDeformState pbDeform_State(const pbDeform *deform);

static inline bool pbDeform_IsFixed(const pbDeform *d, int coordinate) {
  return d->fixed[coordinate / 3] >> (coordinate % 3) & 1;
}

static inline double pb_dot(const double *a, const double *b, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

static inline double pb_largest(const double *x, int n) {  // of absolute values
  double most = 0;
  for (int i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
  return most;
}

// ---- working memory -----------------------------------------------------------------------------------------------
typedef struct pbDeformInput {
  const double *theta, *control;  // of the deformables; control NULL: zero
  double gravity[3], h, time;     // time at the start of the step
  double ticks;                   // dtime/dh: the steps of a rollout before this one
} pbDeformInput;
typedef struct pbDeformBar {  // added to; NULL: not wanted
  double *theta, *control, *gravity, *h, *time;
} pbDeformBar;

typedef struct pbDeformReport {
  int iterations;
  double change;    // m: Newton's last change, largest coordinate
  double force;     // N: largest force left over
  double residual;  // change / size of the scene
  bool converged;
  int negative;     // pivots of the matrix at the solution: no minimum
  int projections;  // iterations that had to make the matrix definite
} pbDeformReport;

// The matrix of a step: the blocks of the elements, and those that contacts add, if any do.
typedef struct pbDeformMatrix {
  const pbSparsePattern *pattern;  // the elements', or `own`
  const pbSparseAnalysis *analysis;
  pbSparseFactor *factor;
  double *values, *upper;  // 9 a block; upper: of unsymmetric matrices, the blocks above the diagonal (sparse.h), else NULL
  void *work;              // workspace, pbSparseAnalysis_WorkSize of the analysis
  const int *slot;         // one for each block of the elements' pattern: its block in this one; NULL: the same
  double *symmetric;       // 9 a block: symmetric part of unsymmetric ones, whose factor is the preconditioner
  void *krylov;            // workspace of GMRES, and a right-hand side
  // the same of the elements' own pattern: what stands above points to these, or into own_memory
  pbSparseFactor *base_factor;
  double *base_values, *base_upper, *base_symmetric;
  void *base_work;
  // what contacts need: `own`, made in the pool, with its values, their map and its work behind it
  pbReserve *reserve;
  pbSparsePattern *own;
  pbSparseAnalysis *own_analysis;
  pbSparseFactor *own_factor;
  void *own_memory;     // values, upper, symmetric, slot and work of `own`, one after the other
  unsigned made;        // times that `own` was made anew
  int *pairs, *wanted;  // blocks (i, j), i > j, sorted: of `own`, and those wanted now
  size_t pair_count, wanted_count, pair_room;
} pbDeformMatrix;

// Room for contacts, allocated with the working memory (0: in keeping with the surfaces and the matrix of the elements).
typedef struct pbDeformCapacity {
  int stencils;   // pairs of each type that are close, of contact and of friction
  size_t matrix;  // bytes of the matrix that they couple, its analysis and factor
} pbDeformCapacity;

enum { PB_DEFORM_CHUNK = 256, PB_LBFGS_PAIRS = 10 };  // elements evaluated at a time
struct pbAttachedTerms;
typedef struct pbDeformWork {
  const pbDeform *d;
  pbContext *ctx;
  pbDeformInput in;
  const pbSchemeTable *scheme;

  // All cut from memory (lay_out of step.c). Over points
  double *mass, *mass_bar;                     // npoint
  double *ago, *ago_bar;                       // npoint x 3: see pbDeform_Ago
  double *x, *y, *v, *v1, *xhat, *accel;       // npoint x 3: solution, state before, velocities, prediction, M^-1 force
  double *gradient, *step, *next_x;            // npoint x 3: of Newton's method
  double *point, *weights;                     // npoint x 3: where energies are evaluated; weights of pullbacks
  double *saddle;                              // npoint x 3, of statics alone: an equilibrium that is left
  double *preconditioner_x;                    // npoint x 3: where the preconditioner was made, see adjoint.c
  double *adjoint, *z_bar, *y_bar, *past_bar;  // npoint x 3: of the pullback
  double *history;                             // history_rows x npoint x 3: pairs of L-BFGS, moments of Adam, or r p q z of CG
  double *rhs;                                 // nfree x 3: a right-hand side, packed by unknowns

  // Over a chunk of elements: outputs of their programs, p = 3 most_points
  double *value_out, *gradient_out, *hessian_out;  // PB_DEFORM_CHUNK x 1, p, p x p
  _Complex double *complex_out;                    // PB_DEFORM_CHUNK x p
  _Complex double *complex_stencil;                // PB_DEFORM_CHUNK x pb_stencilParameters, where there is contact
  double *eigen;                                   // pbProject_Room(p)
  void *energy_work;                               // work_bytes, of the programs

  // What a forward derivative goes along: values with their tangents
  _Complex double *complex_z, *complex_y;                           // npoint x 3
  _Complex double *complex_theta, *complex_control, *complex_data;  // ntheta, ncontrol, ndata

  // Where the parameters of the group at hand are, most_parameters each; the arrays that they point to are somebody else's
  const double **parameter;
  double **parameter_bar;
  const void **parameter_complex;
  int *stride;

  double *zero_control;         // ncontrol: zeros, where no controls are given
  double *led_bar, *led_state;  // nled; a tangent of the state
  void *cg_work;                // pbCg_WorkSize(3 nfree)

  // Borrowed for a call
  const double *guess;      // npoint x 3: where the search of a step begins, if it may; NULL: as the past says
  const double *theta_dot;  // ntheta: of the forward derivative at hand

  bool preconditioner_valid;
  double project;      // share of projection that made the last matrix of this step definite
  pbBarrier *barrier;  // NULL: nothing meets
  pbDeformMatrix matrix;
  double force_size;                 // merit of the forces at the start of a step, for their rounding
  struct pbAttachedTerms *attached;  // NULL: nothing rides on a body that moves
  pbDeformReport report;
  bool lacks;  // room was too small since pbDeform_Begin: whatever came of it is void
  char error[512], lacking[256];
  void *memory;
} pbDeformWork;

PB_NODISCARD pbStatus pbDeformWork_Create(pbContext *ctx, const pbDeform *deform, const pbDeformCapacity *capacity,
                                          pbDeformWork **work);
void pbDeformWork_Destroy(pbDeformWork *work);
// Room for contacts was too small: recorded once, and pb_capacity whatever a step or a derivative makes of it (it looks at many
// positions, some of which may fail). Settle gives the status of the whole.
PB_NODISCARD pbStatus pbDeform_Lacks(pbDeformWork *work, const char *format, ...) PB_PRINTF(2, 3);
PB_NODISCARD pbStatus pbDeform_Settle(pbDeformWork *work, pbStatus status);
// More of what was too small; pb_capacity where nothing was, pb_no_memory.
PB_NODISCARD pbStatus pbDeformWork_Grow(pbDeformWork *work);
PB_NODISCARD pbStatus pbDeform_Fail(pbDeformWork *work, pbStatus status, const char *format, ...) PB_PRINTF(3, 4);

// ---- assemble.c ---------------------------------------------------------------------------------------------------
// Masses of all points from theta; their pullback.
PB_NODISCARD pbStatus pbDeform_Masses(pbDeformWork *w);
PB_NODISCARD pbStatus pbDeform_MassesVjp(pbDeformWork *w, const double *mass_bar, double *theta_bar);
// Sum over elements at positions z, for which the start of the step is `ago`, the time step `span`; for contact they are y and h.
// value alone: infinite outside of an energy's domain, pb_ok; with derivatives: pb_not_finite that names the element. project >
// 0: negative eigenvalues of element matrices changed by that share
// (project.h).
typedef struct pbEvaluation {
  const double *z, *y, *ago;
  double span, time;
  double value_scale, gradient_scale, hessian_scale;
  double *value, *gradient;  // added to
  bool hessian;
  double project;
} pbEvaluation;
PB_NODISCARD pbStatus pbDeform_Evaluate(pbDeformWork *w, const pbEvaluation *e);
// A chunk of a group: elements `first` and up to PB_DEFORM_CHUNK - 1 after it; w->parameter and w->stride are theirs.
pbElements pbDeform_Elements(const pbDeformWork *w, const pbElementGroup *g, int first, const pbEvaluation *at);
// Adds scale weights . d(grad E)/d{z, y, ago, span, time}, and of theta, control and h; of `at` only the points are read.
// Cotangents of points npoint x 3; ago and y may be the same, and span and bar->h.
typedef struct pbEvaluationBar {
  double *z, *y, *ago, *span, *time;
} pbEvaluationBar;
PB_NODISCARD pbStatus pbDeform_Pull(pbDeformWork *w, const pbEvaluation *at, double scale, const double *weights,
                                    const pbEvaluationBar *points, const pbDeformBar *bar);

// ---- kink.c -------------------------------------------------------------------------------------------------------
// The first element whose energy stands at a kink in the step that was pulled back last, in words; false: there is none.
// Overwrites vectors of the work.
bool pbDeform_FindKink(pbDeformWork *w, char *text, size_t size);

// ---- matrix.c -------------------------------------------------------------------------------------------------------
pbStatus pbDeformMatrix_Create(pbDeformWork *w, size_t bytes);  // of the matrix of contacts; 0: as many as that of the elements
void pbDeformMatrix_Destroy(pbDeformWork *w);
PB_NODISCARD pbStatus pbDeformMatrix_Grow(pbDeformWork *w);
// Zero, with the blocks that the contacts of all terms at x need; pb_capacity where these have no room. The pattern follows from
// these alone, never from the steps before, so that a step is a function of its state to the last bit.
PB_NODISCARD pbStatus pbDeformMatrix_Begin(pbDeformWork *w, const double *x);
// Fixed axes out of it.
void pbDeformMatrix_Finish(pbDeformWork *w);
// The same, and its factor; *negative: pivots. pb_singular with the point in the text.
PB_NODISCARD pbStatus pbDeformMatrix_Factor(pbDeformWork *w, int *negative);
// pb_singular where a pivot of that factor is of the size of rounding beside its row: what holds there is rounding alone.
PB_NODISCARD pbStatus pbDeformMatrix_RefuseRounding(pbDeformWork *w);
// Adds scale H of one element (or stencil) with its points' blocks of unknowns and their slots (-1: none, or above the diagonal).
void pbDeformMatrix_Add(pbDeformWork *w, int points, const int *vertex, const int *slot, const double *H, double scale);
// x := A^-1 x or A^-T x, packed by blocks.
PB_NODISCARD pbStatus pbDeformMatrix_Solve(pbDeformWork *w, bool transposed, double *x);
static inline double *pbDeformMatrix_Diagonal(pbDeformWork *w, int block) {
  return w->matrix.values + 9 * (size_t)w->matrix.pattern->begin[block];
}

// ---- contact.c ------------------------------------------------------------------------------------------------------
PB_NODISCARD pbStatus pbDeformContact_Compile(pbDeform *d, const pbDeformable *from);  // room in theta, collision lists
void pbDeformContact_Values(pbDeform *d, const pbDeformable *from);                    // theta0
pbBarrierValues pbDeformContact_ValuesOf(const pbDeform *d, const double *theta);
PB_NODISCARD pbStatus pbDeformContact_Begin(pbDeformWork *w);  // at w->y
PB_NODISCARD pbStatus pbDeformContact_Update(pbDeformWork *w, const double *z);
// The parts of pbDeform_Evaluate (after an Update at its z), pbDeform_Pull, and of the forward derivative.
PB_NODISCARD pbStatus pbDeformContact_Evaluate(pbDeformWork *w, const pbEvaluation *e);
PB_NODISCARD pbStatus pbDeformContact_Pull(pbDeformWork *w, const double *z, const double *y, const double *weights,
                                           double *z_bar, double *y_bar, const pbDeformBar *bar);
PB_NODISCARD pbStatus pbDeformContact_Push(pbDeformWork *w, const double *theta_direction, double scale, double *out,
                                           const _Complex double *h);
// Pairs of blocks (i > j) that contacts couple, each as often as they do; pairs NULL: their number alone.
size_t pbDeformContact_Pairs(const pbDeformWork *w, int *pairs);
PB_NODISCARD pbStatus pbDeformContact_Check(pbDeform *d,
                                            const pbDeformable *from);  // nothing meets at the start, or itself at rest

// ---- attachments.c: points attached to bodies
// --------------------------------------------------------------------------------------- What the bodies' part of a coupled step
// and the deformables' part share: n = nv accelerations, p = 3 nattached coordinates.
typedef struct pbAttachedTerms {
  int n;
  double *x;         // p: where they are
  double *J;         // p x n: derivative of x by the accelerations
  double *gradient;  // p: of the potential by x
  double *A;         // n x n: J' H J of elements between attached points
  double *B;         // n x 3 nfree: J' H between attached and free points
} pbAttachedTerms;
void pbAttached_Clear(pbDeformWork *w);  // A and B to zero
// Adds scale H of an element with attached points to A and B.
void pbAttached_Add(pbDeformWork *w, int points, const int *vertex, const double *H, double scale);

// ---- lead.c ---------------------------------------------------------------------------------------------------------
// In pbDeform_Begin: the velocities of led coordinates, to w->v.
void pbDeformLead_Begin(pbDeformWork *w);
// Around a pullback, with all that it adds to state_bar between them.
void pbDeformLead_PullBegin(pbDeformWork *w, double *state_bar);
void pbDeformLead_PullEnd(pbDeformWork *w, double *state_bar, const pbDeformBar *bar);

// ---- newton.c -----------------------------------------------------------------------------------------------------
// Of Newton's methods here and in couple/couple_step.c: which part of the decrease that the slope promises a step must make;
// iterations without an option for them; how often a step is halved. Below the tolerance (m) Newton's step counts as none.
#define PB_SUFFICIENT_DECREASE 1e-4
enum { pb_newtonIterations = 100, pb_newtonHalvings = 60 };
double pbDeform_Tolerance(const pbDeform *deform);
double pbDeform_ToleranceAt(const pbDeformWork *w);  // no less than the rounding of positions at w->x
// x at the start of the step to the solution; y, v, xhat, mass are set.
PB_NODISCARD pbStatus pbDeform_Newton(pbDeformWork *w);
// c h^2, and sum_t a_t b_t; where term t looks.
double pbDeform_Scale(const pbDeformWork *w);
double pbScheme_ConstantWeight(const pbSchemeTable *scheme);
const double *pbDeform_At(pbDeformWork *w, const double *x, int term);
// What energies of that term take for the start of the step: w->y, or w->ago of the past.
const double *pbDeform_Ago(const pbDeformWork *w, int term);
// Matrix of the step at x, unprojected, factored.
PB_NODISCARD pbStatus pbDeform_Factor(pbDeformWork *w);
// x := H^-1 x, or H^-T x, over all points (fixed coordinates: zero).
PB_NODISCARD pbStatus pbDeform_Solve(pbDeformWork *w, bool transposed, double *x);

// Value, gradient (NULL: not wanted) and matrix of the potential at x; see pbEvaluation for what lies outside.
PB_NODISCARD pbStatus pbDeform_Look(pbDeformWork *w, const double *x, double *value, double *gradient, bool matrix,
                                    double project);
// The same with the matrix, and its factor: definite, made so by as little as that takes where it is not (report.projections).
PB_NODISCARD pbStatus pbDeform_LookDefinite(pbDeformWork *w, const double *x, double *value, double *gradient);
// A share of the largest diagonal entry more on the diagonal.
void pbDeform_ShiftDiagonal(pbDeformWork *w, double share);
// Largest s <= 1 that x - s step may go, and so that a share `keep` of every gap is left.
double pbDeform_MaxStep(pbDeformWork *w, const double *x, const double *step);
double pbDeform_MaxStepTo(pbDeformWork *w, const double *x, const double *step, double keep);
// Whether next_x := x - s step is better than x: by the potential (`value` and `slope` along the step at x), and where rounding
// hides what it gains or the move is very short, by the slope there: a parabola with it would have decreased (Hager and Zhang
// 2005, approximate Wolfe conditions).
bool pbDeform_Decreases(pbDeformWork *w, double value, double s, double slope);
// minimize.c: the other methods, as pbDeform_Newton.
PB_NODISCARD pbStatus pbDeform_Minimize(pbDeformWork *w);

// ---- step.c, adjoint.c, jvp.c -------------------------------------------------------------------------------------
// Masses, what the past predicts (w->y, v, xhat, accel), and which scheme it is.
PB_NODISCARD pbStatus pbDeform_Begin(pbDeformWork *w, const pbDeformInput *in, const double *state);
bool pbScheme_NeedsAcceleration(const pbSchemeTable *scheme);
// state to next (both pbDeform_State.size numbers; may be the same). On failure next is untouched.
PB_NODISCARD pbStatus pbDeform_Step(pbDeformWork *w, const pbDeformInput *in, const double *state, double *next);
// Prescribed coordinates (fixed, of points on no body): w->step becomes the way that is left, so that x - step is where they must
// be; false: none is left. MovePrescribed goes a share of that way.
bool pbDeform_PrescribedStep(pbDeformWork *w);
void pbDeform_MovePrescribed(pbDeformWork *w, double share);
// The state after the step whose solution is w->x; `next` may be `state`.
void pbDeform_Finish(const pbDeformWork *w, const double *state, double *next);
// The point at which Newton's method factored last, if that matrix was definite as it was, without projection. It is near the
// solution, so the factor is a good preconditioner: conjugate gradients with the matrix at the solution converge in a few
// iterations, and where the factor was kept, a pullback factors nothing.
typedef struct pbDeformPreconditioner {
  const double *x;     // npoint x 3; NULL: none, the matrix at the solution is factored
  const void *cached;  // what pbDeform_SaveFactor left; NULL: factored again there, which gives the same bits
} pbDeformPreconditioner;
size_t pbDeform_FactorBytes(const pbDeformWork *w);  // after a step; 0: nothing to cache
void pbDeform_SaveFactor(const pbDeformWork *w, void *memory);
// Pullback of a step from `state` that ended at `next`: cotangents of the tangent after to that before (added), and of the rest.
PB_NODISCARD pbStatus pbDeform_Vjp(pbDeformWork *w, const pbDeformInput *in, const double *state, const double *next,
                                   const pbDeformPreconditioner *near, const double *next_bar, double *state_bar,
                                   const pbDeformBar *bar);
// Its parts: after pbDeform_Begin, the cotangent of x to w->adjoint, which adds nothing yet; what goes to the past around x; and,
// where w->adjoint is H^-T of what it was, the rest.
void pbDeform_VjpBegin(pbDeformWork *w, const double *state, const double *next, const double *next_bar);
void pbDeform_VjpPast(pbDeformWork *w, const double *next, const double *next_bar, double *state_bar, const pbDeformBar *bar);
PB_NODISCARD pbStatus pbDeform_VjpEnd(pbDeformWork *w, const double *next_bar, double *state_bar, const pbDeformBar *bar);
typedef struct pbDeformDirection {  // NULL: zero
  const double *state, *theta, *control, *gravity;
  double h;
} pbDeformDirection;
// (lead.c) The direction of the state with the velocities of led coordinates along it; valid until the next call.
const double *pbDeformLead_Push(pbDeformWork *w, const pbDeformDirection *along);
PB_NODISCARD pbStatus pbDeform_Jvp(pbDeformWork *w, const pbDeformInput *in, const double *state, const double *next,
                                   const pbDeformDirection *direction, double *out);

// Its parts, after pbDeform_Begin: minus the derivative of the residual, all else held, to w->step (attached_dot: that of the
// points on bodies after the step, 3 nattached; NULL: none move); and, where w->step is the derivative of x, the rest.
PB_NODISCARD pbStatus pbDeform_JvpBegin(pbDeformWork *w, const double *state, const double *next,
                                        const pbDeformDirection *direction, const double *attached_dot);
void pbDeform_JvpEnd(pbDeformWork *w, const double *state, const double *next, const pbDeformDirection *direction, double *out);

// Fields of the state from number 0; offsets count from `base`. An entry of their state, or tangent, in words.
int pbDeform_FieldCount(const pbDeform *deform);
pbStateField pbDeform_FieldAt(const pbDeform *deform, int index, int base);
char *pbDeform_EntryName(const pbDeform *deform, int entry, char *text, size_t size);
void pbDeform_Init(const pbDeform *deform, double *state);

#endif
