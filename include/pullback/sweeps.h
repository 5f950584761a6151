// Pullback: projected sweeps over rows of contacts and joints, and two derivatives of them.
//
//   w = A f + b,   A symmetric positive semidefinite with a positive diagonal, row by row
//
//   equality    w = 0
//   one-sided   f >= 0, w >= 0, f w = 0
//   box         |f| <= bound; w = 0 within, against the bound's side at it
//   friction    the same with bound = mu f_normal, of another row; as a cone: two rows together, |(f_1, f_2)| <= mu f_normal
//
// f in N s and w in m/s, or N and m/s^2: the caller's. A = J M^-1 J' + CFM on the diagonal, b = J v - target + ERP / h error.
// A sweep sets each row to P(f - omega w / d), P its bounds, d its diagonal (of a cone's two rows: the larger one):
// one after the other with what the others have become (Gauss & Seidel), or all from the same w (Jacobi). Jacobi's diverges on
// stacks unless omega < 2 / lambda_max(D^-1 A). Friction's bound lags the normal row's force by up to a sweep; a fixed point
// satisfies all of the above. It need not be reached: the report says how far off it is.
//
// Nothing is allocated: working memory is the caller's.
#ifndef PULLBACK_SWEEPS_H
#define PULLBACK_SWEEPS_H

#include <pullback/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pbSweepKind { pb_sweepEquality, pb_sweepOneSided, pb_sweepBox, pb_sweepFriction, pb_sweepKindCount } pbSweepKind;

typedef struct pbSweeps {
  int m;
  const double *A, *b;      // m x m row-major, m
  const pbSweepKind *kind;  // m
  const double *bound;      // m, of boxes (>= 0); NULL: no boxes
  const int *normal;        // m, of friction: the row whose force bounds it; NULL: no friction
  const double *mu;         // m, of friction (>= 0)
} pbSweeps;

typedef enum pbSweepOrder { pb_sweepGaussSeidel, pb_sweepJacobi } pbSweepOrder;
typedef struct pbSweepOptions {  // zeros mean the defaults in brackets; a NULL pointer all of them
  pbSweepOrder order;            // [Gauss-Seidel]
  bool cone;                     // friction rows that follow each other with the same normal row are a cone's [boxes]
  int sweeps;                    // [50]
  double omega;                  // [Gauss-Seidel 1; Jacobi the smaller of 1 and 1.8 / lambda_max, by a power iteration]
  double tolerance;              // of the residual, relative; reached, sweeps end [0: all sweeps are done]
} pbSweepOptions;

typedef struct pbSweepReport {
  int sweeps;       // done
  double omega;     // used
  double residual;  // of the fixed point: largest |f - P(f - w / d)|, relative to the largest of |f| and |b| / d
  int worst_row;    // -1: none
} pbSweepReport;

PB_API size_t pbSweeps_WorkSize(int m);                 // bytes, for Solve and VjpUnrolled; 0: m is out of range
PB_API size_t pbSweeps_ImplicitWorkSize(int m);         // bytes, for VjpImplicit
PB_API size_t pbSweeps_HistorySize(int m, int sweeps);  // doubles: the states before, between and after sweeps

// f0: start, NULL for zero; f: result, may be f0. history: NULL, or HistorySize(m, options' sweeps) doubles, for VjpUnrolled.
// pb_no_convergence: a tolerance was asked for and not reached (f is handed out). pb_not_finite: the sweeps diverged, f is
// untouched. pb_bad_input: what the rows say is not consistent; pb_singular: a diagonal entry is not positive.
PB_API PB_NODISCARD pbStatus pbSweeps_Solve(pbContext *ctx, const pbSweeps *problem, const pbSweepOptions *options, void *work,
                                            size_t work_size, const double *f0, double *f, double *history,
                                            pbSweepReport *report);

typedef struct pbSweepsBar {  // where the derivatives go; each may be NULL. Added into.
  double *A, *b, *bound, *mu, *f0;
} pbSweepsBar;

// Derivative of exactly these sweeps, backwards through all of them; omega is a constant. report: what Solve said.
PB_API PB_NODISCARD pbStatus pbSweeps_VjpUnrolled(pbContext *ctx, const pbSweeps *problem, const pbSweepOptions *options,
                                                  const pbSweepReport *report, const double *history, const double *f_bar,
                                                  void *work, size_t work_size, const pbSweepsBar *bar);

// What a row does at a solution, linearised (rows as the caller's; a cone's two rows share what they say):
//   force[0] df_i + force[1] df_other + velocity[0] dw_i + velocity[1] dw_other = tie df_normal + by_mu dmu + by_bound dbound
typedef enum pbSweepState { pb_sweepFree, pb_sweepHeld, pb_sweepTied } pbSweepState;
typedef struct pbSweepLaw {
  pbSweepState state;  // w = 0; held at a bound (or at zero); at a bound that follows the normal row, sliding
  int other, normal;   // the cone's other row, the normal row; -1: none
  double force[2], velocity[2], tie, by_mu, by_bound;
} pbSweepLaw;
// law: m. Returns the number of rows that are at a kink (at a bound with w = 0), taken as free.
PB_API int pbSweeps_Linearise(const pbSweeps *problem, const pbSweepOptions *options, const double *f, void *work,
                              size_t work_size, pbSweepLaw *law);

typedef struct pbSweepAdjointReport {
  int free, held, tied, degenerate, deficiency;  // rows; dimension of what the solution leaves open in f (redundant rows)
  double residual;                               // of the adjoint system, relative
} pbSweepAdjointReport;
// Derivative of the solution that sweeps lead to, at f: one linear system in the rows, however many sweeps there were. Where f
// is not yet a solution this is another derivative than that of the sweeps. The start has none.
PB_API PB_NODISCARD pbStatus pbSweeps_VjpImplicit(pbContext *ctx, const pbSweeps *problem, const pbSweepOptions *options,
                                                  const double *f, const double *f_bar, void *work, size_t work_size,
                                                  const pbSweepsBar *bar, pbSweepAdjointReport *report);

#ifdef __cplusplus
}
#endif
#endif
