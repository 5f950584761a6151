// Pullback: projected Gauss-Seidel (and Jacobi) over rows of contacts and joints, and two derivatives of it. Of libpullback_lcp.
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
#ifndef PULLBACK_PGS_H
#define PULLBACK_PGS_H

#include <pullback/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pbPgsKind { pb_pgsEquality, pb_pgsOneSided, pb_pgsBox, pb_pgsFriction, pb_pgsKindCount } pbPgsKind;

typedef struct pbPgs {
  int m;
  const double *A, *b;    // m x m row-major, m
  const pbPgsKind *kind;  // m
  const double *bound;    // m, of boxes (>= 0); NULL: no boxes
  const int *normal;      // m, of friction: the row whose force bounds it; NULL: no friction
  const double *mu;       // m, of friction (>= 0)
} pbPgs;

typedef enum pbPgsOrder { pb_pgsGaussSeidel, pb_pgsJacobi } pbPgsOrder;
typedef struct pbPgsOptions {  // zeros mean the defaults in brackets; a NULL pointer all of them
  pbPgsOrder order;            // [Gauss-Seidel]
  bool cone;                   // friction rows that follow each other with the same normal row are a cone's [boxes]
  int sweeps;                  // [50]
  double omega;                // [Gauss-Seidel 1; Jacobi the smaller of 1 and 1.8 / lambda_max, by a power iteration]
  double tolerance;            // of the residual, relative; reached, sweeps end [0: all sweeps are done]
} pbPgsOptions;

typedef struct pbPgsReport {
  int sweeps;       // done
  double omega;     // used
  double residual;  // of the fixed point: largest |f - P(f - w / d)|, relative to the largest of |f| and |b| / d
  int worst_row;    // -1: none
} pbPgsReport;

// What the calls below take. options: NULL for the defaults. work: memory of work_size bytes, of the calling thread.
typedef struct pbPgsCall {
  const pbPgs *problem;
  const pbPgsOptions *options;
  void *work;
  size_t work_size;
} pbPgsCall;
PB_API size_t pbPgs_WorkSize(int m);                 // bytes, for Solve and VjpUnrolled; 0: m is out of range
PB_API size_t pbPgs_ImplicitWorkSize(int m);         // bytes, for VjpImplicit
PB_API size_t pbPgs_HistorySize(int m, int sweeps);  // doubles: the states before, between and after sweeps

// f0: start, NULL for zero; f: result, may be f0. history: NULL, or HistorySize(m, options' sweeps) doubles, for VjpUnrolled.
// pb_no_convergence: a tolerance was asked for and not reached (f is handed out). pb_not_finite: the sweeps diverged, f is
// untouched. pb_bad_input: what the rows say is not consistent; pb_singular: a diagonal entry is not positive.
PB_API PB_NODISCARD pbStatus pbPgs_Solve(pbContext *ctx, const pbPgsCall *call, const double *f0, double *f, double *history,
                                         pbPgsReport *report);

typedef struct pbPgsBar {  // where the derivatives go; each may be NULL. Added into.
  double *A, *b, *bound, *mu, *f0;
} pbPgsBar;

// Derivative of exactly these sweeps, backwards through all of them; omega is a constant. report: what Solve said.
PB_API PB_NODISCARD pbStatus pbPgs_VjpUnrolled(pbContext *ctx, const pbPgsCall *call, const pbPgsReport *report,
                                               const double *history, const double *f_bar, const pbPgsBar *bar);

// What a row does at a solution, linearized (rows as the caller's; a cone's two rows share what they say):
//   force[0] df_i + force[1] df_other + velocity[0] dw_i + velocity[1] dw_other = tie df_normal + by_mu dmu + by_bound dbound
typedef enum pbPgsState { pb_pgsFree, pb_pgsHeld, pb_pgsTied } pbPgsState;
typedef struct pbPgsLaw {
  pbPgsState state;   // w = 0; held at a bound (or at zero); at a bound that follows the normal row, sliding
  int other, normal;  // the cone's other row, the normal row; -1: none
  double force[2], velocity[2], tie, by_mu, by_bound;
} pbPgsLaw;
// law: m. Returns the number of rows that are at a kink (at a bound with w = 0), taken as free.
PB_API int pbPgs_Linearize(const pbPgsCall *call, const double *f, pbPgsLaw *law);

typedef struct pbPgsAdjointReport {
  int free, held, tied, degenerate, deficiency;  // rows; dimension of what the solution leaves open in f (redundant rows)
  double residual;                               // of the adjoint system, relative
} pbPgsAdjointReport;
// Derivative of the solution that sweeps lead to, at f: one linear system in the rows, however many sweeps there were. Where f
// is not yet a solution this is another derivative than that of the sweeps. The start has none.
PB_API PB_NODISCARD pbStatus pbPgs_VjpImplicit(pbContext *ctx, const pbPgsCall *call, const double *f, const double *f_bar,
                                               const pbPgsBar *bar, pbPgsAdjointReport *report);

#ifdef __cplusplus
}
#endif
#endif
