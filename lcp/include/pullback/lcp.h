// Pullback: hard contact as a complementarity problem, its solution and the adjoint of the solution.
// A library of its own, libpullback_lcp: docs/lcp.md.
//
// Linear complementarity (polyhedral friction), dense, every matrix row-major:
//
//   Q x + A'y + G'z + p = 0,   G x - F z + s = h,   A x = b,   s >= 0, z >= 0, s_i z_i = 0
//
// n unknowns x (velocities), m inequalities (multipliers z, slacks s), e equalities (multipliers y). Q is symmetric positive
// definite (only its lower triangle is read), F is any matrix: with contacts in order (normal, friction directions, slip speed)
// Coulomb's law is F = [0 0 0; 0 0 E; mu -E' 0], which is not monotone (Stewart & Trinkle 1996; Anitescu & Potra 1997).
// Matrices are dense, but zeros are looked for: where F ties rows into small blocks (contacts), many rows are condensed to the
// n unknowns within the envelope that Q and G leave, so the cost grows with the bodies that touch.
// Units are the caller's: x in m/s and Q in kg give z in N s and s in m/s.
//
// Second-order cones (Coulomb's law itself): see pbCones_Solve.
//
// Nothing is allocated: the caller hands in working memory of the size that ..._WorkSize says. On failure the solution is
// untouched, the report is filled as far as the work went, and the context has the text.
#ifndef PULLBACK_LCP_H
#define PULLBACK_LCP_H

#include <pullback/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pbLcp {
  int n, m, e;          // m and e may be 0
  const double *Q, *p;  // n x n, n
  const double *G, *h;  // m x n, m
  const double *F;      // m x m; NULL: zero
  const double *A, *b;  // e x n, e; rows may be redundant, not contradictory
} pbLcp;

typedef struct pbLcpSolution {  // arrays of the caller
  double *x, *y, *z, *s;        // n, e, m, m
} pbLcpSolution;

typedef struct pbLcpOptions {  // zeros mean the defaults in brackets; a NULL pointer all of them
  double tolerance;            // of the three residuals below, relative to the scale [1e-10]
  int iterations;              // factorisations at most [1500]
} pbLcpOptions;

// How the solution was found: the second is tried after the first failed.
typedef enum pbLcpMethod {
  pb_lcpInterior,  // predictor and corrector (Mehrotra 1992), then Newton's method
  pb_lcpPath,      // along a central path by arc length, which may turn back; then the same
  pb_lcpMethodCount
} pbLcpMethod;
PB_API const char *pbLcpMethod_Name(pbLcpMethod method);  // "interior", "path"; "unknown" for another number

typedef struct pbLcpReport {
  pbLcpMethod method;      // that found the solution, or came closest
  int iterations;          // matrices factored
  double complementarity;  // max |min(s_i, z_i)|, s as it follows from x and z
  double equality;         // max |A x - b|
  double stationarity;     // max |Q x + A'y + G'z + p|
  double scale;            // what they are measured against: max(1, |p|, |h|, |b|), largest entries
  int worst_row;           // of the inequalities, or m + row of the equalities; -1: none
  double condition;        // estimated, rows scaled: the largest of Q, A, and the matrix of the active rows (without a solution:
                           // the last matrix of the interior point method); of a singular one of the part that counts
  int dropped_rows;        // equalities that follow from others
} pbLcpReport;

// Bytes of working memory for solving and for the adjoint; 0 where sizes are negative or too large.
PB_API size_t pbLcp_WorkSize(int n, int m, int e);

// pb_no_convergence: the report tells how far it came and the worst row. pb_singular: Q is not positive definite.
// pb_bad_input: a value is not finite. pb_bad_argument: sizes, missing arrays, too little memory. report may be NULL.
PB_API PB_NODISCARD pbStatus pbLcp_Solve(pbContext *ctx, const pbLcp *problem, const pbLcpOptions *options, void *work,
                                         size_t work_size, const pbLcpSolution *solution, pbLcpReport *report);

// Where the derivatives go, in the shapes of the problem; each may be NULL. Added into.
typedef struct pbLcpBar {
  double *Q, *p, *G, *h, *F, *A, *b;
} pbLcpBar;
typedef struct pbLcpCotangent {  // derivatives of a loss by the solution; each may be NULL, at least one is not
  const double *x, *y, *z, *s;
} pbLcpCotangent;
typedef struct pbLcpAdjointReport {
  int active;        // rows with z > 0
  int deficiency;    // of the adjoint system: dimension of what the solution leaves open in z (redundant contacts, sticking)
  int degenerate;    // rows with s = z = 0: kinks, taken as open
  double residual;   // of the adjoint system, relative: above 1e-6 the cotangent asks for what is not determined
  double condition;  // of the part that was solved
} pbLcpAdjointReport;

// Implicit adjoint at a solution. With cotangent g = dl/dx:
//   Q l + A'v + G'u = g,   G l - (diag(s/z) + F') u = 0,   A l = 0
//   dp = -l, dQ = -(l x' + x l')/2, dh = u, dG = -(z l' + u x'), dF = u z', dA = -(y l' + v x'), db = v
// Rows with z = 0 have u = 0, those with s = z = 0 too: there the solution has a kink and this is the derivative of the side
// on which the row stays open, an element of the generalised Jacobian. Where active rows are redundant, u is a solution of
// about the least norm (in scaled rows) and dp, db and x's own derivatives are those that every choice of z gives. A cotangent
// on z or y is meaningful where they are unique; the residual tells. F's transpose matters: friction is not symmetric.
PB_API PB_NODISCARD pbStatus pbLcp_Vjp(pbContext *ctx, const pbLcp *problem, const pbLcpSolution *solution,
                                       const pbLcpCotangent *cotangent, void *work, size_t work_size, const pbLcpBar *bar,
                                       pbLcpAdjointReport *report);

// ---- Coulomb's law itself ---------------------------------------------------------------------------------------------
// Three rows a contact, (normal, tangent 1, tangent 2): G is 3 contacts x n, z the impulses, s = h - G x the relative velocities
// after the step (so the rows of G are minus the Jacobians of the relative velocity, h the velocity that restitution asks for):
//
//   Q x + A'y + G'z + p = 0,   A x = b,   K_mu = {|z_t| <= mu z_n},   K_mu* its dual,
//   K_mu  contains  z,   K_mu*  contains  s + (mu |s_t|, 0, 0),   and the two are orthogonal
//
// (De Saxce & Feng 1998): no penetration, friction within the cone, opposite to slip where there is any. Found by pyramids of
// four directions (the linear problem above) turned until slip points along an edge, and Newton's method on the natural map
// z = P(z - s - (mu |s_t|, 0, 0)), P the projection on K_mu (Alart & Curnier 1991).
typedef struct pbCones {
  int n, contacts, e;
  const double *Q, *p;       // n x n, n
  const double *G, *h, *mu;  // 3 contacts x n, 3 contacts, contacts (>= 0)
  const double *A, *b;       // e x n, e
} pbCones;

PB_API size_t pbCones_WorkSize(int n, int contacts, int e);  // 0 as above
// Statuses as pbLcp_Solve. In the solution z and s have 3 contacts entries. In the report `complementarity` is the largest
// entry of z - P(...), worst_row counts the rows of G and then those of A.
PB_API PB_NODISCARD pbStatus pbCones_Solve(pbContext *ctx, const pbCones *problem, const pbLcpOptions *options, void *work,
                                           size_t work_size, const pbLcpSolution *solution, pbLcpReport *report);

typedef struct pbConesBar {
  double *Q, *p, *G, *h, *mu, *A, *b;
} pbConesBar;
// Implicit adjoint: each contact open (z = 0), sticking (s = 0) or sliding (s_n = 0, z_t = -mu z_n s_t / |s_t|). Sticking on the
// edge of the cone counts as sticking, s = z = 0 as open. `active` counts contacts that are not open; z, y, s of the cotangent
// and the rest of the report as in pbLcp_Vjp (s: of open contacts and of slip).
PB_API PB_NODISCARD pbStatus pbCones_Vjp(pbContext *ctx, const pbCones *problem, const pbLcpSolution *solution,
                                         const pbLcpCotangent *cotangent, void *work, size_t work_size, const pbConesBar *bar,
                                         pbLcpAdjointReport *report);

#ifdef __cplusplus
}
#endif
#endif
