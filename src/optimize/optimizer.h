// Inside of the minimizers. All that passes from one iteration to the next is in one block of numbers, `state`: a header,
// x, best, and what the method adds. So saving is a copy, and a resumed run has the same bits.
#ifndef PB_OPTIMIZER_H
#define PB_OPTIMIZER_H

#include <pullback/optimize.h>

typedef struct pbOptimizerHeader {  // doubles only, for it is saved as such
  double begun, iteration, values, gradients, jacobians, value, best_value, gradient_norm, step_norm, outcome, restarts,
      left;  // saddles
  double reserved[4];
} pbOptimizerHeader;
enum { PB_HEADER_DOUBLES = sizeof(pbOptimizerHeader) / sizeof(double) };

typedef struct pbMinimizer {  // one method
  const char *name;
  bool needs_gradient, needs_residuals, needs_shooting;
  size_t (*state_size)(const pbOptimizer *o);  // beyond header, x, best
  size_t (*work_size)(const pbOptimizer *o);   // doubles that live within one iteration
  void (*begin)(pbOptimizer *o);               // fill the own state
  pbStatus (*iterate)(pbOptimizer *o);
} pbMinimizer;
extern const pbMinimizer pbMinimizer_Adam, pbMinimizer_Lbfgs, pbMinimizer_GaussNewton, pbMinimizer_Cmaes, pbMinimizer_Es,
    pbMinimizer_SepCma, pbMinimizer_Ilqr;

// The linear problem of Gauss-Newton at a point, for a caller that keeps J to itself. All n each but r (m).
typedef struct pbNormal {
  void *user;
  // r, g = J'r and the diagonal of J'J at x; the calls below are of this point
  pbStatus (*linearize)(void *user, const double *x, double *r, double *g, double *diagonal);
  // (J'J + lambda D) p = -J'r, p zero where it is held; false where that has no solution
  bool (*solve)(void *user, double lambda, const double *D, const bool *held, double *p);
  double (*squared)(void *user, const double *p);  // |J p|^2
} pbNormal;

// Trajectories, of iLQR. All n each.
typedef struct pbShooting {
  void *user;
  pbStatus (*linearize)(void *user, const double *x, double *value, double *gradient);  // the calls below are of this point
  // Moves (a guess, then what they are) and feedback with damping lambda; by a part alpha of the moves the loss is to change by
  // alpha linear + alpha^2 quadratic. False: the damping is too small.
  bool (*plan)(void *user, const double *x, double lambda, double *moves, double *linear, double *quadratic);
  pbStatus (*attempt)(void *user, const double *x, double alpha, double *trial, double *value);  // after a plan at x
  // Of a start whose states are no run (gaps.h), whose problem has a value; gap_numbers 0: there are none. measure: gaps at x.
  // use: those of linearize, plan and attempt from here on, borrowed; NULL: all are closed. A part alpha of a plan closes that
  // part of each.
  size_t gap_numbers;
  pbStatus (*measure)(void *user, const double *x, double *gaps);
  void (*use)(void *user, const double *gaps);
} pbShooting;

struct pbOptimizer {
  pbContext *ctx;
  pbProblem problem;    // bounds: own copies
  pbNormal normal;      // of Gauss-Newton; linearize NULL: by a matrix J
  pbShooting shooting;  // of iLQR
  pbOptimizerOptions options;
  const pbMinimizer *method;
  bool open;  // of iLQR: gaps are open, and no value is that of a run
  int n;
  double *lower, *upper;  // n
  pbRate *rates;
  size_t state_size;
  double *state;
  pbOptimizerHeader *h;  // = state
  double *x, *best;      // n each, in the state: where it is, the best that it saw
  double *own;           // method->state_size, in the state: what the method keeps between iterations
  double *work;          // method->work_size, n at least: workspace of one iteration; a value may overwrite the first n
};

// pbOptimizer_Create; normal in place of the problem's J, and shooting; either may be NULL.
typedef struct pbStructure {
  const pbNormal *normal;
  const pbShooting *shooting;
} pbStructure;
PB_NODISCARD pbStatus pbOptimizer_CreateWith(pbContext *ctx, const pbProblem *problem, const pbStructure *structure,
                                             const pbOptimizerOptions *options, const double *start, pbOptimizer **optimizer);

// Evaluations: they count, keep the best, and turn a soft failure into an infinite value. A NaN is infinite too.
PB_NODISCARD pbStatus pbOptimizer_Value(pbOptimizer *o, const double *x, double *value);
PB_NODISCARD pbStatus pbOptimizer_Gradient(pbOptimizer *o, const double *x, double *value, double *gradient);
PB_NODISCARD pbStatus pbOptimizer_Residuals(pbOptimizer *o, const double *x, double *value, double *r, double *J);
// Of o->normal; counted as a Jacobian.
PB_NODISCARD pbStatus pbOptimizer_Linearize(pbOptimizer *o, const double *x, double *value, double *r, double *g,
                                            double *diagonal);

// "unknown method 'l-bfgs', did you mean 'lbfgs'? (adam, ...)"; returns text.
const char *pbMethod_Unknown(const char *name, char *text, size_t size);

// Of o->shooting; counted as a gradient, and as a value.
PB_NODISCARD pbStatus pbOptimizer_LinearizeLoss(pbOptimizer *o, const double *x, double *value, double *gradient);
PB_NODISCARD pbStatus pbOptimizer_Try(pbOptimizer *o, double alpha, double *trial, double *value);

// A point that has been evaluated is the best, where it is.
void pbOptimizer_Remember(pbOptimizer *o, const double *x, double value);
// Of iLQR that ended: a plan with all but no damping promised less than rounding of the loss.
bool pbOptimizer_HasNothingToGain(const pbOptimizer *o);
// Do gaps remain open (pbShooting)? largest: of their entries.
bool pbOptimizer_HasGaps(const pbOptimizer *o, double *largest);

void pbOptimizer_Project(const pbOptimizer *o, double *x);
// Largest entry of x - P(x - g).
double pbOptimizer_ProjectedNorm(const pbOptimizer *o, const double *x, const double *g);
// i is at a bound and -g pushes it out.
bool pbOptimizer_Stuck(const pbOptimizer *o, const double *x, const double *g, int i);
// Note a move of this length and what it means for the outcome.
void pbOptimizer_Moved(pbOptimizer *o, double length);

// ---- Adam's part, which a method with another estimate of the gradient begins its own state with
size_t pbAdam_StateSize(const pbOptimizer *o);
void pbAdam_Begin(pbOptimizer *o);
void pbAdam_Clip(const pbOptimizer *o, double *g);                  // to the norm of the options
void pbAdam_Step(pbOptimizer *o, const double *g, double *before);  // before (n): scratch, the move with its sign turned
void pbAdam_Retreat(pbOptimizer *o);                                // half way back to the best point, more slowly from here

// The search goes on at x of a problem that has changed: what the method has learnt stays, no value does.
void pbOptimizer_MoveTo(pbOptimizer *o, const double *x);

// Of a problem that has changed, all begins anew at x but counts and restarts.
void pbOptimizer_Anew(pbOptimizer *o, const double *x);

// A search that ended is begun anew at x, beside a saddle.
void pbOptimizer_Leave(pbOptimizer *o, const double *x);
int pbOptimizer_Left(const pbOptimizer *o);  // how often

double pbVec_Dot(const double *a, const double *b, int n);
double pbVec_Norm(const double *a, int n);
// A = B diag(D)^2 B', A symmetric (n x n, overwritten), B orthogonal, D >= 0 (of eigenvalues below zero: 0).
void pbVec_Eigen(double *A, double *B, double *D, int n);

#endif
