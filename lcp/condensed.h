// The matrix of the interior point method and of Newton's, condensed to the n unknowns. With laws S ds + Z dz = v, local to
// blocks of few rows (contacts), and s = M z + q, M = F + G P G' (P the inverse of Q within what the equalities leave open):
//
//   (S M + Z) dz = v   <=>   H dx = G'B v,   dz = B (v - S G dx),   H = Q + G'B S G,   B = (Z + S F)^-1
//
// H is unsymmetric but has a symmetric pattern, that of bodies that touch; it is factorized within its envelope, without
// exchanging rows. Equalities are held by a penalty: what it lacks, a second round makes up for.
#ifndef PB_LCP_CONDENSED_H
#define PB_LCP_CONDENSED_H

#include "lcp/reduced.h"

enum { PB_BLOCK = 16 };          // rows of a block at most
#define PB_CONDENSED_DELTA 1e-9  // added to the diagonal of active rows: they may be redundant

typedef struct pbCondensed {
  int n, m, blocks;
  pbReduced *reduced;  // for P
  const pbLcp *l;
  bool pays;  // is this form there, and cheaper than the dense one?
  // blocks of rows that F, or being one contact, ties together: their rows, one after the other
  int *row, *begin;  // m, blocks + 1 <= m + 1
  // each row is a multiple of a feature; the block's features are dense on its unknowns
  int *feature;          // m, by place in `row`; -1: the row of G is zero
  double *factor;        // m
  int *features;         // blocks
  int *dof, *dof_begin;  // places in the ordering, ascending
  double *J;             // features x dofs, block after block
  size_t *J_begin;
  // the law, rows x rows, block after block
  size_t *square;  // where a block's begins
  double *F, *B, *S;
  bool plain;      // S = 1
  double log_det;  // of |S M + Z|, but for a constant
  // envelope
  int *order, *place, *start;    // n: unknown at a place, place of an unknown, first column of a row
  double *L, *U, *D;             // rows of L, columns of U beside the diagonal, pivots
  double *Q;                     // Q and the equalities, L's part (symmetric)
  double *x, *low, *up, *t, *g;  // n, n, n, m, m
} pbCondensed;

void pbCondensed_Layout(pbArena *arena, pbCondensed *c, int n, int m);
// Blocks, pattern, ordering; needs the rows' scales in `reduced`. contact: rows of one contact, 1 if F alone ties rows.
void pbCondensed_Make(pbCondensed *c, pbReduced *reduced, const pbLcp *problem, int contact);

// Products; vectors of rows are scaled, those of unknowns in the caller's order.
void pbCondensed_Mul(pbCondensed *c, const double *z, double *out);         // out = M z
void pbCondensed_Rows(pbCondensed *c, const double *x, double *out);        // out = G x
void pbCondensed_OwnT(const pbCondensed *c, const double *v, double *out);  // out = F'v
// S = 1, Z = diag; rows that are not active (NULL: all are) are left out: as 1 in Z, 0 in the solution. False where a pivot is
// none.
bool pbCondensed_Factor(pbCondensed *c, const double *diag, const bool *active);
// S and Z of three rows a contact, regularized: Z + delta S
bool pbCondensed_FactorLaws(pbCondensed *c, double (*by_s)[3][3], double (*by_z)[3][3], double delta);
void pbCondensed_Solve(pbCondensed *c, double *v);   // v = (S M + Z)^-1 v
void pbCondensed_SolveT(pbCondensed *c, double *v);  // v = (M'S' + Z')^-1 v
// Estimate for the active rows after pbCondensed_Factor with PB_CONDENSED_DELTA; what is singular does not count. v, t: m each.
double pbCondensed_Condition(pbCondensed *c, double *v, double *t);

#endif
